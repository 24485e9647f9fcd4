"""A training step (forward and backward) of a Pushdown LM beside one of the base transformer, trunk alike.

    python benchmarks/train_step.py [--device cuda --dtype bf16]

Both have learned positions and no dropout, so that the base transformer's attention is torch's fused one. On
a CPU a small model is measured, and at two lengths the plain formulation, written from the paper's figures;
on a GPU the paper's 16-layer model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from measure import EOS, PAD, ROOT, Figure, Options, Run, main, peak_memory, seconds, treebank_batch
from plain import pushdown as plain_pushdown
from torch import Tensor

from pdtools.models import Batch, TransformerLM, build_model, make_config

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
LARGE_TRUNK = {**TRUNK, "layers": 16, "d_model": 1024, "d_ff": 4096, "max_length": 512}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The model and lengths measured on a kind of device."""

    trunk: Mapping[str, Any]
    sentences: int
    lengths: tuple[int, ...]
    plain_lengths: tuple[int, ...]
    time_bar: float
    short_time_bar: float  # at the smallest length
    memory_bar: float


CPU = Setting(
    trunk=TRUNK,
    sentences=8,
    lengths=(32, 64, 128, 256),
    plain_lengths=(32, 128),
    time_bar=1.15,
    short_time_bar=1.25,
    memory_bar=1.1,
)
GPU = Setting(
    trunk=LARGE_TRUNK,
    sentences=16,
    lengths=(128, 512),
    plain_lengths=(),
    time_bar=1.15,
    short_time_bar=1.15,
    memory_bar=1.3,
)
PLAIN_REPEATS = 1


def model_of(name: str, options: Options, trunk: Mapping[str, Any] = TRUNK) -> TransformerLM:
    """A model with random weights on the trunk that is measured."""
    model = build_model(name, make_config(name, trunk))
    assert isinstance(model, TransformerLM)
    return model.to(options.device, options.dtype).train()


def step(model: TransformerLM, batch: Batch, loss: Callable[[TransformerLM, Batch], Tensor]) -> Run:
    """Forward and backward; gradients are dropped at the end, so that every run allocates its own."""

    def run() -> None:
        loss(model, batch).backward()
        model.zero_grad(set_to_none=True)

    return run


def own_loss(model: TransformerLM, batch: Batch) -> Tensor:
    """The loss that training minimizes."""
    parts = model.loss(batch)
    return parts.sums["token_nll"] + parts.sums["attachment_nll"]


def figures(options: Options) -> Iterator[Figure]:
    """Time and memory by length."""
    setting = GPU if options.device.startswith("cuda") else CPU
    base, pushdown = (model_of(name, options, setting.trunk) for name in ("transformer", "pushdown"))
    for n in setting.lengths:
        batch = treebank_batch(setting.sentences, n, setting.trunk["vocab_size"]).to(options.device)
        runs = {"base": step(base, batch, own_loss), "pushdown": step(pushdown, batch, own_loss)}
        settings = {
            "sentences": setting.sentences,
            "positions_per_sentence": n,
            **setting.trunk,
            **options.settings,
        }
        time_bar = setting.short_time_bar if n == min(setting.lengths) else setting.time_bar
        bars = {"time": time_bar, "peak memory": setting.memory_bar}
        yield from compared(runs, bars, settings, options, label=f"n {n}")
        if n in setting.plain_lengths:
            once = Options(**{**vars(options), "repeats": min(options.repeats, PLAIN_REPEATS)})
            runs = {"pushdown": runs["pushdown"], "plain": step(pushdown, batch, plain_pushdown.loss)}
            yield from compared(runs, {}, {**settings, **once.settings}, once, label=f"n {n}")


def compared(
    runs: Mapping[str, Run],
    bars: Mapping[str, float],
    settings: Mapping[str, Any],
    options: Options,
    *,
    label: str,
) -> Iterator[Figure]:
    """The second of two runs against the first; the label names them."""
    first, second = runs
    times = seconds(runs, options)
    memory = {name: peak_memory(run, options.device) for name, run in runs.items()}
    for what, values, unit in (("time", times, "s"), ("peak memory", memory, "MiB")):
        name = f"training step, {label}, {what}"
        if first == "base":
            yield Figure(name=f"{name}, base", value=values[first], unit=unit, settings=settings)
        yield Figure(
            name=f"{name}, {second}",
            value=values[second],
            unit=unit,
            ratio=values[second] / values[first],
            against=first,
            bar=bars.get(what),
            settings=settings,
        )


if __name__ == "__main__":
    main(__doc__, figures, repeats=7)
