"""A training step (forward and backward) of stack RNNs, pdtools' formulation beside the paper's.

    python benchmarks/stacks.py [--device cuda]

The sizes are as in the paper's experiments on formal languages: an LSTM of 20 units, 10 strings of one
length, two states and three symbols, vectors of 20 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import torch
from measure import EOS, PAD, ROOT, Figure, Options, Run, main, seconds
from plain import stacks as plain_stacks
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pdtools.models import Batch, RecurrentConfig, RecurrentLM, collate
from pdtools.models.recurrent import recurrence
from pdtools.models.recurrent.stacks import nondeterministic

LENGTHS = (41, 61, 79)
STRINGS = 10
SYMBOLS = 3


Loss = Callable[[RecurrentLM, Batch], Tensor]


def own_loss(model: RecurrentLM, batch: Batch) -> Tensor:
    """The loss as in training."""
    return model.loss(batch).sums["token_nll"]


def loss_without_c(model: RecurrentLM, batch: Batch) -> Tensor:
    """The loss by torch's operations, all rows in lock-step."""
    off = {"_native_works": lambda: False}
    with mock.patch.multiple(recurrence, **off), mock.patch.multiple(nondeterministic, **off):
        return own_loss(model, batch)


PRINTED: Loss = partial(plain_stacks.loss, plainest=True)
PLAIN: Loss = partial(plain_stacks.loss, plainest=False)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A model beside another formulation; the bar is how many times as fast pdtools has to be.

    Attributes:
        plain: the other formulation.
        only: lengths that are compared, if the other takes too long; None for all.
    """

    name: str
    against: str
    options: dict[str, Any]
    plain: Loss
    bar: float | None = None
    only: tuple[int, ...] | None = None


COMPARISONS = (
    Comparison(name="RNS", against="log-space einsums", options={}, plain=PLAIN, bar=100),
    Comparison(name="RNS", against="log space, eq. 2 as printed", options={}, plain=PRINTED, only=(41,)),
    Comparison(name="RNS", against="torch's operations", options={}, plain=loss_without_c),
    Comparison(
        name="RNS, three states",
        against="torch's operations",
        options={"stack_states": 3},
        plain=loss_without_c,
    ),
    Comparison(
        name="Gref",
        against="appendix A.1 as printed",
        options={"stack": "stratification"},
        plain=PRINTED,
        bar=8,
    ),
    Comparison(
        name="Gref",
        against="appendix A.1 with cumulative sums",
        options={"stack": "stratification"},
        plain=PLAIN,
    ),
    Comparison(name="JM", against="appendix A.2", options={"stack": "superposition"}, plain=PLAIN, bar=1.5),
    Comparison(name="LSTM", against="torch's LSTM cell", options={"stack": "none"}, plain=PLAIN),
)


# Restarts and points of a grid that are computed as one, beside one after the other.
VMAPPED = {
    "LSTM": {"stack": "none"},
    "Gref": {"stack": "stratification"},
    "JM": {"stack": "superposition"},
    "RNS": {},
}
RUNS = (5, 20)
MIXED_LENGTHS = range(41, 81, 2)  # the lengths of marked reversal in their batches


def strings(length: int) -> Batch:
    """Random strings of this many symbols."""
    tokens = torch.randint(EOS + 1, EOS + 1 + SYMBOLS, (STRINGS, length)).tolist()
    return collate([([ROOT, *row, EOS], list(range(length + 2))) for row in tokens], PAD)


def step(model: RecurrentLM, batch: Batch, loss: Loss) -> Run:
    """Forward and backward; gradients are dropped at the end."""

    def run() -> None:
        loss(model, batch).backward()
        model.zero_grad(set_to_none=True)

    return run


def model_of(stack: dict[str, Any], options: Options) -> RecurrentLM:
    """A model with random weights."""
    config = RecurrentConfig(vocab_size=EOS + 1 + SYMBOLS, pad_id=PAD, root_id=ROOT, eos_id=EOS, **stack)
    return RecurrentLM(config).to(options.device, options.dtype)


def figures(options: Options) -> Iterator[Figure]:
    """Times by length, and by the number of models that are computed as one."""
    for compared in COMPARISONS:
        model = model_of(compared.options, options)
        for n in compared.only or LENGTHS:
            yield figure(compared, model, n, options)
    for name, stack in VMAPPED.items():
        models = [model_of(stack, options) for _ in range(max(RUNS))]
        for runs in RUNS:
            yield vmapped(name, models[:runs], options)


def figure(compared: Comparison, model: RecurrentLM, n: int, options: Options) -> Figure:
    """One comparison at one length."""
    batch = strings(n).to(options.device)
    times = seconds(
        {
            "own": step(model, batch, own_loss),
            "plain": step(model, batch, compared.plain),
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


class Operations(TorchDispatchMode):
    """A counter of torch's operations except views: on a GPU, the ones to be started in sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), named: dict[str, Any] | None = None
    ) -> Any:
        schema = function._schema
        self.count += schema.is_mutable or all(result.alias_info is None for result in schema.returns)
        return function(*arguments, **(named or {}))


def operations(run: Run) -> int:
    """Count the operations of a run."""
    with Operations() as counted:
        run()
    return counted.count


def vmapped(name: str, models: list[RecurrentLM], options: Options) -> Figure:
    """Several models, each with strings of its own of some length, beside one model after the other.

    Vmapped, all are as long as the longest.
    """
    every = max(1, len(MIXED_LENGTHS) // len(models))
    lengths = MIXED_LENGTHS[::every][: len(models)]
    batches = [strings(n).to(options.device) for n in lengths]

    def together() -> None:
        torch.stack(
            [parts.sums["token_nll"] for parts in RecurrentLM.losses(models, batches)]
        ).sum().backward()
        drop_gradients()

    def alone() -> None:
        for model, batch in zip(models, batches, strict=True):
            own_loss(model, batch).backward()
        drop_gradients()

    def drop_gradients() -> None:
        for model in models:
            model.zero_grad(set_to_none=True)

    with mock.patch("pdtools.models.recurrent.model.faster_as_one", return_value=True):
        times = seconds({"together": together, "alone": alone}, options)
        counts = {"operations": operations(together), "plain_operations": operations(alone)}
    return Figure(
        name=f"forward and backward of {len(models)} models at once, {name}",
        value=1e3 * times["together"] / len(models),
        unit="ms a model",
        ratio=times["alone"] / times["together"],
        against="as fast as one after the other",
        at_least=True,
        settings={
            "models": len(models),
            "strings": STRINGS,
            "symbols_per_string": [lengths[0], lengths[-1]],
            **vars(models[0].config),
            **options.settings,
            "plain_ms": 1e3 * times["alone"] / len(models),
            **counts,
        },
    )


if __name__ == "__main__":
    main(__doc__, figures, repeats=5)
