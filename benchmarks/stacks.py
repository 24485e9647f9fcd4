"""A training step (forward and backward) of stack RNNs, pdtools' formulation beside the paper's.

    python benchmarks/stacks.py [--device cuda]

The sizes are those of the paper's experiments on formal languages: an LSTM of 20 units, 10 strings of one
length, two states and three symbols, vectors of 20 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import plain_stacks
import torch
from measure import EOS, PAD, ROOT, Figure, Options, Run, main, seconds
from torch import Tensor

from pdtools.models import Batch, RecurrentConfig, RecurrentLM, collate

LENGTHS = (41, 61, 79)
STRINGS = 10
SYMBOLS = 3


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A model beside a way to write it down; the bar is how many times as fast pdtools has to be.

    Attributes:
        only: lengths that are compared, where the other takes too long; None for all.
    """

    name: str
    against: str
    options: dict[str, Any]
    plainest: bool
    bar: float | None = None
    only: tuple[int, ...] | None = None


COMPARISONS = (
    Comparison(name="RNS", against="log-space einsums", options={}, plainest=False, bar=10),
    Comparison(name="RNS", against="log space, eq. 2 as printed", options={}, plainest=True, only=(41,)),
    Comparison(
        name="Gref",
        against="appendix A.1 as printed",
        options={"stack": "stratification"},
        plainest=True,
        bar=5,
    ),
    Comparison(
        name="Gref",
        against="appendix A.1 with cumulative sums",
        options={"stack": "stratification"},
        plainest=False,
    ),
    Comparison(
        name="JM", against="appendix A.2", options={"stack": "superposition"}, plainest=False, bar=1.5
    ),
    Comparison(name="LSTM", against="torch's LSTM cell", options={"stack": "none"}, plainest=False),
)


def strings(length: int) -> Batch:
    """Random strings of so many symbols."""
    tokens = torch.randint(EOS + 1, EOS + 1 + SYMBOLS, (STRINGS, length)).tolist()
    return collate([([ROOT, *row, EOS], list(range(length + 2))) for row in tokens], PAD)


def step(model: RecurrentLM, batch: Batch, loss: Callable[[RecurrentLM, Batch], Tensor]) -> Run:
    """Forward and backward; gradients are dropped at the end."""

    def run() -> None:
        loss(model, batch).backward()
        model.zero_grad(set_to_none=True)

    return run


def figures(options: Options) -> Iterator[Figure]:
    """Times by length."""
    for compared in COMPARISONS:
        config = RecurrentConfig(
            vocab_size=EOS + 1 + SYMBOLS, pad_id=PAD, root_id=ROOT, eos_id=EOS, **compared.options
        )
        model = RecurrentLM(config).to(options.device, options.dtype)
        for n in compared.only or LENGTHS:
            yield figure(compared, model, n, options)


def figure(compared: Comparison, model: RecurrentLM, n: int, options: Options) -> Figure:
    """One comparison at one length."""
    batch = strings(n).to(options.device)
    times = seconds(
        {
            "own": step(model, batch, lambda model, batch: model.loss(batch).token_nll_sum),
            "plain": step(
                model, batch, lambda model, batch: plain_stacks.loss(model, batch, plainest=compared.plainest)
            ),
        },
        options,
    )
    return Figure(
        name=f"stack RNN training step, {compared.name}, n {n}",
        value=1e3 * times["own"],
        unit="ms",
        ratio=times["plain"] / times["own"],
        against=f"as fast as {compared.against}",
        bar=compared.bar,
        at_least=True,
        settings={
            "strings": STRINGS,
            "symbols_per_string": n,
            **vars(model.config),
            **options.settings,
            "plain_ms": 1e3 * times["plain"],
        },
    )


if __name__ == "__main__":
    main(__doc__, figures, repeats=5)
