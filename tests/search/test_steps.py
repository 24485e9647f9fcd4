"""What a search keeps of its beams: all hypotheses where it holds all, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from action_oracle import KINDS, action_model
from enumeration import enumerate_derivations
from search_oracle import all_attachments, logsumexp, parts, row, tiny_model
from window_oracle import searched_row

from pdtools.models import LanguageModel
from pdtools.models.grammar.derivations import ActionDerivation
from pdtools.search import BeamResult, beam_search
from pdtools.search.families.word_synchronous import word_synchronous_search
from pdtools.search.options import SearchOptions

STRINGS = [[3, 4, 5, 3], [3, 4, 4], [3], [3, 4], [5, 5, 3, 4, 4], [3, 4], [5, 3]]
NARROW: list[dict[str, Any]] = [
    {"beam": 3},
    {"beam": 30, "margin": 1.0},
    {"beam": 2, "share_prefixes": False},
]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return tiny_model()


def search(
    model: LanguageModel, strings: list[list[int]], *, beam: int, margin: float | None = None, **options: Any
) -> list[BeamResult]:
    return beam_search(
        model, [row(string) for string in strings], search=SearchOptions(beam=beam, margin=margin), **options
    )


def test_a_full_beam_is_the_enumeration_after_every_token(model: LanguageModel) -> None:
    for tokens, found in zip(STRINGS, search(model, STRINGS, beam=1000, trace=1000), strict=True):
        n = len(tokens)
        for k, step in enumerate(found.steps, start=1):
            later = [0] if k > n else [*range(k + 1, n + 1), 0]
            derivations = [a if k > n else a[:-1] + later for a in all_attachments(min(k, n))]
            token, attach = parts(model, tokens, derivations)
            joints = token[:, : k + 1].sum(1) + attach[:, : k + 1].sum(1)
            order = np.argsort(-joints)
            assert step.kept == len(derivations)
            assert [a.tolist() for a in step.derivations] == [derivations[i][: k + 1] for i in order]
            np.testing.assert_allclose(step.joints, joints[order], rtol=2e-6, atol=1e-5)
            assert step.total == pytest.approx(logsumexp(joints), rel=2e-6, abs=1e-5)
            assert step.token_logprobs is not None
            np.testing.assert_allclose(step.token_logprobs, token[order, k], rtol=2e-6, atol=1e-5)
            targets = np.array([derivations[i][k] for i in order])
            shares = np.exp(step.joints - step.total)
            assert step.attachment == pytest.approx(
                [shares[targets == j].sum() for j in range(k + 1)], rel=2e-6, abs=1e-6
            )
        assert len(found.steps) == n + 1


def test_the_last_beam_is_the_marginal_to_the_bit(model: LanguageModel) -> None:
    for found in search(model, STRINGS, beam=3, trace=3):
        assert found.steps[-1].total == found.marginal
        assert found.steps[-1].joints[0] == found.derivations[0][0]


@pytest.mark.parametrize("options", NARROW)
def test_hypotheses_extend_their_parents(model: LanguageModel, options: dict[str, Any]) -> None:
    for found in search(model, STRINGS, trace=100, **options):
        before = [np.zeros(1, np.int32)]
        for step in found.steps:
            assert step.kept == len(step.derivations) == len(set(map(bytes, step.derivations)))
            for derivation, parent in zip(step.derivations, step.parents.tolist(), strict=True):
                assert derivation[:-1].tolist() == before[parent].tolist()
            assert (np.diff(step.joints) <= 0).all()
            assert step.total == pytest.approx(logsumexp(step.joints), abs=1e-12)
            assert step.attachment is not None
            assert step.attachment.sum() == pytest.approx(1)
            before = list(step.derivations)
        incremental = [best.tolist() for best in found.incremental[1:]]
        assert [step.derivations[0].tolist() for step in found.steps] == incremental


def test_attachments_are_of_all_extensions_of_the_beam_before(model: LanguageModel) -> None:
    for tokens, found in zip(STRINGS, search(model, STRINGS, beam=2, trace=2), strict=True):
        n, before = len(tokens), [[0]]
        for k, step in enumerate(found.steps[:-1], start=1):
            later = [*range(k + 1, n + 1), 0]
            extended = [a[:-1] for a in all_attachments(k) if a[:k] in before]
            token, attach = parts(model, tokens, [a + later for a in extended])
            joints = token[:, : k + 1].sum(1) + attach[:, : k + 1].sum(1)
            shares = np.exp(joints - logsumexp(joints))
            targets = np.array([a[k] for a in extended])
            wanted = [shares[targets == j].sum() for j in range(k + 1)]
            assert step.attachment == pytest.approx(wanted, rel=2e-6, abs=1e-6)
            before = [a.tolist() for a in step.derivations]


@pytest.mark.parametrize("options", NARROW)
def test_nothing_but_the_trace_depends_on_it(model: LanguageModel, options: dict[str, Any]) -> None:
    plain, all_of_it, some = (search(model, STRINGS, trace=trace, **options) for trace in (0, 100, 2))
    for one, every, few in zip(plain, all_of_it, some, strict=True):
        assert one.steps == ()
        for other in (every, few):
            assert one.prefix_logprobs.tolist() == other.prefix_logprobs.tolist()
            assert one.derivations[0][1].tolist() == other.derivations[0][1].tolist()
            assert one.log_share_kept == other.log_share_kept
        for long, short in zip(every.steps, few.steps, strict=True):
            assert (long.kept, long.total) == (short.kept, short.total)
            assert long.joints[:2].tolist() == short.joints.tolist()
            assert long.parents[:2].tolist() == short.parents.tolist()


def test_windows_are_traced_too() -> None:
    model = tiny_model(layout="window")
    ids = searched_row([[3, 4], [5, 3, 4]])
    (found,) = beam_search(model, [ids], search=SearchOptions(beam=4), trace=4)
    before = [np.zeros(1, np.int32)]
    for step in found.steps:
        for derivation, parent in zip(step.derivations, step.parents.tolist(), strict=True):
            assert derivation[:-1].tolist() == before[parent].tolist()
        before = list(step.derivations)
    assert found.steps[-1].total == found.marginal
    assert found.steps[1].attachment is not None
    assert found.steps[1].attachment.tolist() == [1, 0, 0]  # the sentence ends there: it attaches to ROOT


def actions(derivation: ActionDerivation) -> tuple[list[int], ...]:
    return tuple(getattr(derivation, name).tolist() for name in ("tokens", "labels", "opens", "closes"))


def begins_with(child: ActionDerivation, parent: ActionDerivation) -> bool:
    """Whether a derivation extends another that ended with a token."""
    n = len(parent.tokens)
    tokens, labels, opens, closes = actions(child)
    before = actions(parent)
    last = [] if n == 0 else [*closes[: n - 1], 0]
    return (tokens[:n], labels[: len(before[1])], opens[:n], last) == before


@pytest.mark.parametrize(("name", "positions"), KINDS)
def test_beams_of_actions(name: str, positions: str) -> None:
    model = action_model(name, positions)
    strings = [[3, 4, 5], [3], [3, 4]]
    ids = [row(string) for string in strings]
    full = word_synchronous_search(
        model, ids, search=SearchOptions(beam=10_000, word_beam=10_000, fast_track=0), trace=10_000
    )
    narrow = word_synchronous_search(
        model, ids, search=SearchOptions(beam=8, word_beam=3, fast_track=5), trace=100
    )
    for string, found in zip(strings, full, strict=True):
        every = enumerate_derivations(model, row(string).tolist())
        assert [step.total for step in found.steps] == pytest.approx(
            every.prefix_logprobs[1:], rel=2e-6, abs=1e-5
        )
        assert found.steps[-1].kept == len(every.joints)
        assert found.steps[-1].joints == pytest.approx(
            [score for score, _ in every.joints], rel=2e-6, abs=1e-5
        )
    for found in (*full, *narrow):
        before = [ActionDerivation(*(np.zeros(0, np.int32) for _ in range(4)))]
        for step in found.steps:
            assert len({str(actions(each)) for each in step.derivations}) == step.kept
            for derivation, parent in zip(step.derivations, step.parents.tolist(), strict=True):
                assert begins_with(derivation, before[parent])
            before = list(step.derivations)
        best = [actions(step.derivations[0]) for step in found.steps]
        assert best == [actions(each) for each in found.incremental]
