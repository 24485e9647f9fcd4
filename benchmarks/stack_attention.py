"""A training step of a transformer with stack attention beside one without, and beside the plain recurrence.

    python benchmarks/stack_attention.py [--device cuda]

The model and batch of Li et al. (2024), section 4: forward and backward of 32 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from measure import EOS, PAD, ROOT, Figure, Options, Run, main, seconds
from plain import stack_attention as plain_stack_attention
from torch import Tensor

from pdtools.models import Batch, TransformerLM, build_model, make_config
from pdtools.models.transformer.stack_attention import (
    fused_takes,
    native_stack_attention,
    stack_library,
    stepwise_stack_attention,
)

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
    "input_dropout": 0.0,
    "attention_dropout": 0.0,
    "output_dropout": 0.1,
}
ROWS = 32
LENGTHS = (40, 80, 100)
# How many times as slow as without a stack, at most; how many times as fast as the plain loop, at least.
VANILLA_BARS = {"torch": {80: 1.6}, "native": {80: 1.2}}
PLAIN_BARS = {80: 1.7, 100: 2.0}


def fused(actions: Tensor) -> Tensor:
    """The kernels for CUDA, imported when they are needed: they need Triton."""
    from pdtools.models.kernels.fused_stack_attention import fused_stack_attention

    return fused_stack_attention(actions)


RECURRENCES: dict[str, Callable[[Tensor], Tensor]] = {
    "torch": stepwise_stack_attention,
    "native": native_stack_attention,
    "fused": fused,
    "plain loop": plain_stack_attention.stack_attention,
}


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


def step(model: TransformerLM, batch: Batch, recurrence: str | None = None) -> Run:
    """Forward and backward; gradients are dropped at the end, so that every run allocates its own."""

    def run() -> None:
        model.loss(batch).sums["token_nll"].backward()
        model.zero_grad(set_to_none=True)

    def run_with_it() -> None:
        with mock.patch(
            "pdtools.models.transformer.stack_attention.stack_attention", RECURRENCES[recurrence or ""]
        ):
            run()

    return run if recurrence is None else run_with_it


def figures(options: Options) -> Iterator[Figure]:
    """Time by length, for both objectives."""
    kinds = ["torch", "plain loop"]
    if options.device == "cpu" and stack_library(torch.float32) is not None:
        kinds.insert(1, "native")
    if options.device.startswith("cuda") and fused_takes(torch.device(options.device), max(LENGTHS)):
        kinds.insert(1, "fused")
    for objective in ("masked", "causal"):
        vanilla, stack = (model_of(objective, layers, options) for layers in ("none", "all"))
        for n in LENGTHS:
            batch = batch_of(n).to(options.device)
            runs = {"vanilla": step(vanilla, batch), **{kind: step(stack, batch, kind) for kind in kinds}}
            times = seconds(runs, options)
            settings: dict[str, Any] = {
                **SHAPE,
                "objective": objective,
                "rows": ROWS,
                "positions_per_row": n,
                **options.settings,
            }
            label = f"stack attention, {objective}, n {n}, training step"
            for kind, value in times.items():
                bar = VANILLA_BARS.get(kind, {}).get(n)
                ratio = None if kind == "vanilla" else value / times["vanilla"]
                yield Figure(
                    name=f"{label}, {kind}",
                    value=value,
                    unit="s",
                    ratio=ratio,
                    against=None if ratio is None else "vanilla",
                    bar=bar,
                    settings=settings,
                )
            for kind in kinds[:-1]:
                yield Figure(
                    name=f"{label}, {kind}",
                    value=times[kind],
                    unit="s",
                    ratio=times["plain loop"] / times[kind],
                    against="as fast as the plain loop",
                    bar=PLAIN_BARS.get(n),
                    at_least=True,
                    settings=settings,
                )


if __name__ == "__main__":
    main(__doc__, figures, repeats=9)
