"""Several recurrent models computed as one are the models alone: losses, counts, gradients.

(Alone, nondeterministic stacks are computed in C, together by torch's operations.)
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from test_stacks import MODELS, batch_of, gradients, model_of

from pdtools.models import Batch, LossParts, RecurrentLM
from pdtools.models.batch import join_batches

# Of other lengths and other numbers of rows: all but one are filled up.
BATCHES = [batch_of(4, 2), batch_of(9, 9, 1), batch_of(6)]


@pytest.fixture
def in_one() -> Any:
    """Models are put together also where that is slower; counts how often they are."""
    with (
        mock.patch("pdtools.models.recurrent.model.faster_as_one", return_value=True),
        mock.patch("pdtools.models.recurrent.model.join_batches", side_effect=join_batches) as put_together,
    ):
        yield put_together


def with_targets(batch: Batch, seed: int) -> Batch:
    """The same rows with other targets at random positions."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(3, 7, batch.tokens.shape, generator=generator)
    scored = torch.rand(batch.tokens.shape, generator=generator) < 0.5
    return Batch(batch.tokens, batch.attach, batch.lengths, targets, scored & batch.real())


def check(models: list[RecurrentLM], batches: list[Batch]) -> list[LossParts]:
    """Against the same models alone."""
    found = RecurrentLM.losses(models, batches)
    torch.stack([parts.sums["token_nll"] for parts in found]).sum().backward()
    together = [{name: p.grad for name, p in model.named_parameters()} for model in models]
    # Clipping changes gradients in place: none may share memory with another.
    torch._foreach_mul_([grad for grads in together for grad in grads.values() if grad is not None], 2)
    for model, batch, parts, ours in zip(models, batches, found, together, strict=True):
        alone = model.loss(batch)
        for name, value in vars(alone).items():
            torch.testing.assert_close(
                getattr(parts, name), value, msg=lambda text, name=name: f"{name}: {text}"
            )
        expected = gradients(model, alone.sums["token_nll"])
        assert {name for name, value in ours.items() if value is not None} == expected.keys()
        for name, wanted in expected.items():
            torch.testing.assert_close(ours[name], 2 * wanted, msg=lambda text, name=name: f"{name}: {text}")
    return found


@pytest.mark.parametrize("name", MODELS)
def test_several_models_are_each_alone(name: str, in_one: mock.Mock) -> None:
    check([model_of(seed, **MODELS[name]) for seed in range(3)], BATCHES)
    assert in_one.call_count == 1


@pytest.mark.parametrize("first", ["none", "root", "eos"])
@pytest.mark.parametrize("embedding", [0, 3])
@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_with_every_way_to_read(first: str, embedding: int, objective: str, in_one: mock.Mock) -> None:
    options = {"first_input": first, "embedding_size": embedding, "objective": objective}
    batches = BATCHES if objective == "causal" else [with_targets(b, i) for i, b in enumerate(BATCHES)]
    check([model_of(seed, **options) for seed in range(3)], batches)
    assert in_one.call_count == 1


def test_strings_of_one_symbol_and_of_none(in_one: mock.Mock) -> None:
    check([model_of(0), model_of(1)], [batch_of(0), batch_of(1)])
    check([model_of(0), model_of(1)], [batch_of(0), batch_of(0)])


def test_other_shapes_are_computed_one_by_one(in_one: mock.Mock) -> None:
    check([model_of(0), model_of(1, hidden_size=4)], BATCHES[:2])
    check([model_of(0)], BATCHES[:1])
    assert in_one.call_count == 0


def test_nondeterministic_stacks_on_a_cpu_are_computed_one_by_one() -> None:
    with mock.patch("pdtools.models.recurrent.model.join_batches", side_effect=join_batches) as put_together:
        check([model_of(seed) for seed in range(3)], BATCHES)
        put_together.assert_not_called()
        check([model_of(seed, stack="none") for seed in range(3)], BATCHES)
        put_together.assert_called_once()


def test_streams_are_computed_one_by_one() -> None:
    models = [model_of(seed, stack="none") for seed in range(2)]
    tokens = torch.randint(3, 7, (2, 5))
    part = Batch(tokens, tokens, torch.full((2,), 5), tokens, torch.ones(2, 5, dtype=torch.bool), False)
    losses = RecurrentLM.losses(models, [part, part])
    for model, found in zip(models, losses, strict=True):
        torch.testing.assert_close(found.sums["token_nll"], model.loss(part).sums["token_nll"])
    with pytest.raises(ValueError, match="streams"):
        join_batches([part], 0)


def test_rows_with_and_without_targets_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="targets"):
        join_batches([BATCHES[0], with_targets(BATCHES[1], 0)], 0)
