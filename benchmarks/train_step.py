"""A training step (forward and backward) of a Pushdown LM beside one of the base transformer, trunk alike.

    python benchmarks/train_step.py [--device cuda]

Both have learned positions and no dropout, so that the base transformer's attention is torch's fused one. The
plain formulation, written from the paper's figures, is measured at two lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import plain_pushdown
from measure import EOS, PAD, ROOT, Figure, Options, Run, main, peak_memory, seconds, treebank_batch
from torch import Tensor

from pdtools.models import Batch, TransformerLM, build_model, make_config

SENTENCES = 8
LENGTHS = (32, 64, 128, 256)
PLAIN_LENGTHS = (32, 128)
PLAIN_REPEATS = 1
TRUNK = {
    "vocab_size": 10_000,
    "pad_id": PAD,
    "root_id": ROOT,
    "eos_id": EOS,
    "layers": 6,
    "d_model": 256,
    "heads": 8,
    "d_ff": 1024,
    "positions": "learned",
    "max_length": 256,
    "input_dropout": 0.0,
    "attention_dropout": 0.0,
    "output_dropout": 0.0,
}
TIME_BAR, MEMORY_BAR = 1.2, 1.1


def model_of(name: str, options: Options) -> TransformerLM:
    """A model with random weights on the trunk that is measured."""
    model = build_model(name, make_config(name, TRUNK))
    assert isinstance(model, TransformerLM)
    return model.to(options.device, options.dtype).train()


def step(model: TransformerLM, batch: Batch, loss: Callable[[TransformerLM, Batch], Tensor]) -> Run:
    """Forward and backward; gradients are dropped at the end, so that every run allocates its own."""

    def run() -> None:
        loss(model, batch).backward()
        model.zero_grad(set_to_none=True)

    return run


def own_loss(model: TransformerLM, batch: Batch) -> Tensor:
    """What training minimizes."""
    parts = model.loss(batch)
    return parts.token_nll_sum + parts.attach_nll_sum


def figures(options: Options) -> Iterator[Figure]:
    """Time and memory by length."""
    base, pushdown = model_of("transformer", options), model_of("pushdown", options)
    for n in LENGTHS:
        batch = treebank_batch(SENTENCES, n, TRUNK["vocab_size"]).to(options.device)
        runs = {"base": step(base, batch, own_loss), "pushdown": step(pushdown, batch, own_loss)}
        settings = {"sentences": SENTENCES, "positions_per_sentence": n, **TRUNK, **options.settings}
        yield from compared(runs, settings, options)
        if n in PLAIN_LENGTHS:
            once = Options(**{**vars(options), "repeats": min(options.repeats, PLAIN_REPEATS)})
            runs = {"pushdown": runs["pushdown"], "plain": step(pushdown, batch, plain_pushdown.loss)}
            yield from compared(runs, {**settings, **once.settings}, once)


def compared(runs: dict[str, Run], settings: dict[str, Any], options: Options) -> Iterator[Figure]:
    """The second of two runs against the first."""
    first, second = runs
    times = seconds(runs, options)
    memory = {name: peak_memory(run, options.device) for name, run in runs.items()}
    for what, values, unit, bar in (
        ("time", times, "s", TIME_BAR),
        ("peak memory", memory, "MiB", MEMORY_BAR),
    ):
        label = f"training step, n {settings['positions_per_sentence']}, {what}"
        if first == "base":
            yield Figure(name=f"{label}, base", value=values[first], unit=unit, settings=settings)
        yield Figure(
            name=f"{label}, {second}",
            value=values[second],
            unit=unit,
            ratio=values[second] / values[first],
            against=first,
            bar=bar if first == "base" else None,
            settings=settings,
        )


if __name__ == "__main__":
    main(__doc__, figures, repeats=7)
