"""A training step of a transformer with stack attention beside one without, and beside the plain recurrence.

    python benchmarks/stack_attention.py [--device cuda]

The model and batch of Li et al. (2024), section 4: forward and backward of 32 rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import plain_stack_attention
import torch
from measure import EOS, PAD, ROOT, Figure, Options, Run, main, seconds

from pdtools.models import Batch, TransformerLM, build_model, make_config

SHAPE = {
    "vocab_size": 8,
    "pad_id": PAD,
    "root_id": ROOT,
    "eos_id": EOS,
    "layers": 5,
    "d_model": 64,
    "heads": 8,
    "d_ff": 256,
    "positions": "none",
    "norm": "post",
    "activation": "relu",
    "attention_bias": False,
    "output_bias": True,
    "tie_embeddings": False,
    "scale_embeddings": True,
    "initialization": "fan-in",
    "input_dropout": 0.1,
    "attention_dropout": 0.0,
    "output_dropout": 0.1,
}
ROWS = 32
LENGTHS = (40, 80, 100)
# How many times as slow as without a stack, at most; how many times as fast as the plain loop, at least.
VANILLA_BARS = {80: 1.6}
PLAIN_BARS = {80: 1.7, 100: 2.0}
RECURRENCE = "pdtools.models.stack_attention.stack_attention"


def model_of(objective: str, stack_layers: str, options: Options) -> TransformerLM:
    """A model with random weights."""
    config = make_config("transformer", {**SHAPE, "objective": objective, "stack_layers": stack_layers})
    model = build_model("transformer", config)
    assert isinstance(model, TransformerLM)
    return model.to(options.device, options.dtype).train()


def batch_of(length: int) -> Batch:
    """Random tokens; the second half of each row is to be predicted."""
    tokens = torch.randint(EOS + 1, SHAPE["vocab_size"], (ROWS, length))
    tokens[:, 0] = ROOT
    scored = torch.arange(length).expand(ROWS, -1) >= length // 2
    attach = torch.arange(length).expand(ROWS, -1)
    return Batch(tokens, attach, torch.full((ROWS,), length), targets=tokens, scored=scored)


def step(model: TransformerLM, batch: Batch) -> Run:
    """Forward and backward; gradients are dropped at the end, so that every run allocates its own."""

    def run() -> None:
        model.loss(batch).token_nll_sum.backward()
        model.zero_grad(set_to_none=True)

    return run


def figures(options: Options) -> Iterator[Figure]:
    """Time by length, for both objectives."""
    for objective in ("masked", "causal"):
        vanilla, stack = (model_of(objective, layers, options) for layers in ("none", "all"))
        for n in LENGTHS:
            batch = batch_of(n).to(options.device)
            with_stack = step(stack, batch)

            def plain(run: Run = with_stack) -> None:
                with mock.patch(RECURRENCE, plain_stack_attention.stack_attention):
                    run()

            times = seconds({"vanilla": step(vanilla, batch), "stack": with_stack, "plain": plain}, options)
            settings: dict[str, Any] = {
                **SHAPE,
                "objective": objective,
                "rows": ROWS,
                "positions_per_row": n,
                **options.settings,
            }
            label = f"stack attention, {objective}, n {n}, training step"
            yield Figure(name=f"{label}, vanilla", value=times["vanilla"], unit="s", settings=settings)
            yield Figure(
                name=f"{label}, stack",
                value=times["stack"],
                unit="s",
                ratio=times["stack"] / times["vanilla"],
                against="vanilla",
                bar=VANILLA_BARS.get(n),
                settings=settings,
            )
            yield Figure(
                name=f"{label}, plain loop",
                value=times["plain"],
                unit="s",
                ratio=times["plain"] / times["stack"],
                against="as fast: stack",
                bar=PLAIN_BARS.get(n),
                at_least=True,
                settings=settings,
            )


if __name__ == "__main__":
    main(__doc__, figures, repeats=9)
