"""The cross-entropy that is computed block by block: against torch's of all logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from action_oracle import action_model
from arc_oracle import arc_model
from enumeration import enumerate_derivations
from torch import Tensor

import pdtools.models.kernels.linear_cross_entropy as module
from pdtools.models.grammar.model import GrammarLM
from pdtools.models.kernels.linear_cross_entropy import linear_cross_entropy

S, D, V = 37, 8, 61


def inputs(dtype: torch.dtype) -> tuple[list[Tensor], Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    given = [
        torch.randn(shape, generator=random, dtype=torch.float64).to(dtype)
        for shape in ((S, D), (V, D), (V,))
    ]
    targets, weight = torch.randint(V, (S,), generator=random), torch.randn(S, generator=random)
    return [x.requires_grad_() for x in given], targets, weight


def in_blocks_of(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr(module, "BLOCK_CELLS", cells)
    monkeypatch.setattr(module, "BLOCK_ROWS", 1)


def ruled_out(logits: Tensor, rows: slice) -> None:
    """Another class at every position, which may be the target."""
    places = torch.arange(S)[rows]
    logits.detach()[torch.arange(len(logits)), places % V] = -torch.inf


def with_gradients(given: list[Tensor], found: Tensor, weight: Tensor) -> list[Tensor]:
    kept = found.isfinite()
    return [found.detach(), *torch.autograd.grad((found * weight)[kept].sum(), given)]


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("rules", [False, True])
@pytest.mark.parametrize("cells", [1, 10 * V])
def test_it_is_that_of_all_logits(
    monkeypatch: pytest.MonkeyPatch, cells: int, rules: bool, has_bias: bool
) -> None:
    in_blocks_of(monkeypatch, cells)
    given, targets, weight = inputs(torch.float64)
    hidden, output, bias = given if has_bias else (*given[:2], None)
    used = given[: 2 + has_bias]

    logits = F.linear(hidden, output, bias)
    if rules:
        ruled_out(logits, slice(0, S))
    plain = F.cross_entropy(logits, targets, reduction="none")
    found = linear_cross_entropy(hidden, output, bias, targets, ruled_out if rules else None)

    assert found.dtype == torch.float32
    for one, other in zip(
        with_gradients(used, found, weight), with_gradients(used, plain, weight.double()), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, check_dtype=False)


@pytest.mark.parametrize("sureness", [0.0, 2.0, 4.0])
def test_in_mixed_precision_it_is_as_exact_as_all_logits(
    monkeypatch: pytest.MonkeyPatch, sureness: float
) -> None:
    """Of targets that are as probable as others, and of those that are nearly certain."""
    (hidden, output, bias), targets, weight = inputs(torch.float32)
    hidden = (hidden + sureness * output[targets]).detach().requires_grad_()
    given = [hidden, output, bias]
    probability = (-linear_cross_entropy(*given, targets)).exp().detach()
    assert float(probability.median()) > {0.0: 0.0, 2.0: 0.9, 4.0: 0.999}[sureness]
    exact = with_gradients(given, linear_cross_entropy(*given, targets), weight)

    def errors(cells: int) -> list[float]:
        in_blocks_of(monkeypatch, cells)
        with torch.autocast("cpu", torch.bfloat16):
            found = linear_cross_entropy(*given, targets)
        return [
            float((one - other).norm() / other.norm())
            for one, other in zip(with_gradients(given, found, weight), exact, strict=True)
        ]

    in_blocks, at_once = errors(7 * V), errors(S * V)
    assert all(0 < error < 0.02 for error in at_once)
    assert all(0 < one < 1.5 * other for one, other in zip(in_blocks, at_once, strict=True))


@pytest.mark.parametrize("in_c", [True, False])
def test_with_a_compiler_and_without_it_is_that_of_all_logits(
    monkeypatch: pytest.MonkeyPatch, in_c: bool
) -> None:
    """Logits that are far apart, of more classes than are summed up at a time; a target that is ruled out."""
    if in_c and module._library() is None:
        pytest.skip("no C compiler")
    assert not in_c or module.native_takes(torch.empty(1, 1))
    monkeypatch.setattr(module, "native_takes", lambda logits: in_c)
    in_blocks_of(monkeypatch, 5 * 2500)
    random = torch.Generator().manual_seed(1)
    hidden, output = (4 * torch.randn(n, 8, generator=random) for n in (9, 2500))
    bias, targets = torch.zeros(2500), torch.arange(9)
    bias[3] = -torch.inf
    given = [x.requires_grad_() for x in (hidden, output, bias)]
    found = linear_cross_entropy(*given, targets)
    plain = F.cross_entropy(F.linear(*(x.double() for x in given)), targets, reduction="none")
    assert found[3] == plain[3] == torch.inf
    weight = torch.ones(9)
    for one, other in zip(
        with_gradients(given, found, weight), with_gradients(given, plain, weight.double()), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4, check_dtype=False)


@pytest.mark.skipif(module._library() is None, reason="no C compiler")
@pytest.mark.parametrize("classes", [30, 2500])
def test_threads_divide_the_rows_in_c(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = torch.Generator().manual_seed(1)
    logits, targets = 4 * torch.randn(7, classes, generator=random), torch.arange(7)
    logits[:, 3] = -torch.inf  # a class that is ruled out, which is one row's target
    alone, together = logits.clone(), logits.clone()
    nll = module.native_cross_entropy(alone, targets)
    monkeypatch.setattr(module, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(module.native_cross_entropy(together, targets), nll)
    assert torch.equal(together, alone)


@pytest.mark.parametrize(
    "model", [action_model("plm", "relative"), arc_model(continuing=1)], ids=["plm", "dtg"]
)
def test_actions_are_ruled_out_at_the_positions_of_their_block(
    model: GrammarLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [1, 4, 3, 3, 5, 2]
    every = enumerate_derivations(model, ids).joints[:5]
    batch = model.pack(
        [(np.array(ids, np.int32), model.read_derivation(np.array(choices))) for _, choices in every]
    )
    whole = model.forward_parts(batch)
    in_blocks_of(monkeypatch, 1)
    in_blocks = model.forward_parts(batch)
    for name in ("token_logprobs", "attach_logprobs"):
        torch.testing.assert_close(getattr(in_blocks, name), getattr(whole, name), rtol=1e-5, atol=1e-5)


def test_targets_that_lie_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    in_blocks_of(monkeypatch, 10 * V)
    given, targets, _ = inputs(torch.float32)
    apart = torch.stack([targets, targets.flip(0)], dim=1)[:, 0]
    assert torch.equal(linear_cross_entropy(*given, apart), linear_cross_entropy(*given, targets))


def test_a_target_outside_the_vocabulary_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    in_blocks_of(monkeypatch, 10 * V)
    given, targets, _ = inputs(torch.float32)
    targets[5] = V
    with pytest.raises((IndexError, RuntimeError)):
        linear_cross_entropy(*given, targets)


@pytest.mark.parametrize("asked_for", range(3))
def test_only_gradients_that_are_asked_for(monkeypatch: pytest.MonkeyPatch, asked_for: int) -> None:
    in_blocks_of(monkeypatch, 10 * V)
    given, targets, weight = inputs(torch.float32)
    whole = torch.autograd.grad((linear_cross_entropy(*given, targets) * weight).sum(), given)
    wanted = [i == asked_for for i in range(3)]
    tensors = [x.requires_grad_(is_wanted) for x, is_wanted in zip(given, wanted, strict=True)]
    kept = linear_cross_entropy(*tensors, targets)
    made = kept.grad_fn.saved_tensors[-3:]
    assert [grad is not None for grad in made] == wanted
    (found,) = torch.autograd.grad((kept * weight).sum(), given[asked_for])
    torch.testing.assert_close(found, whole[asked_for])


@pytest.mark.parametrize(("alike", "times"), [(True, 1), (False, 2)])
def test_logits_are_made_again_only_for_positions_that_count_differently(
    monkeypatch: pytest.MonkeyPatch, alike: bool, times: int
) -> None:
    in_blocks_of(monkeypatch, 10 * V)
    given, targets, weight = inputs(torch.float64)
    weight = torch.full_like(weight, 0.3) if alike else weight
    plain = F.cross_entropy(F.linear(*given), targets, reduction="none")
    linear, made = F.linear, []
    monkeypatch.setattr(F, "linear", lambda *args: made.append(len(args[0])) or linear(*args))
    found = linear_cross_entropy(*given, targets)
    grads = with_gradients(given, found, weight)
    assert sum(made) == times * S
    for one, other in zip(grads, with_gradients(given, plain, weight.double()), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, check_dtype=False)


def test_without_gradients_only_the_loss_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    in_blocks_of(monkeypatch, 10 * V)
    given, targets, _ = inputs(torch.float32)
    plain = linear_cross_entropy(*given, targets)
    monkeypatch.setattr(torch, "mm", None)
    with torch.no_grad():
        found = linear_cross_entropy(*given, targets)
    assert torch.equal(found, plain)
    assert not found.requires_grad


def test_mixed_precision_leaves_doubles_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    in_blocks_of(monkeypatch, 10 * V)
    given, targets, _ = inputs(torch.float64)
    plain = linear_cross_entropy(*given, targets)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(linear_cross_entropy(*given, targets), plain)
