"""Comparisons of sentences, searched as widely as they need it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from search_oracle import save_checkpoints

from pdtools.errors import PdtoolsError
from pdtools.search import load_model
from pdtools.search.adaptive_beam import SURE, ErrorBound, MaybeScore, Step
from pdtools.search.options import AUTO_SEARCH, Context, SearchOptions
from pdtools.search.scores import SentenceScore, Unscorable

STEPS = (
    Step(1, None, ErrorBound(0.4, 0.0), ErrorBound(0.4, 0.0)),
    Step(1, 1.0, None, SURE),
    Step(2, None, ErrorBound(0.3, 0.5), None),
    Step(50, 3.0, ErrorBound(0.2, 2.0), ErrorBound(0.2, 0.0)),
    Step(50, None, SURE, SURE),
)
TAKEN = [step for step in STEPS if step.regions is not None]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_checkpoints(tmp_path_factory.mktemp("models"))[0]


@dataclass(frozen=True)
class After:
    """A comparison that is decided after so many steps; it checks what it is shown."""

    sentences: tuple[str, ...]
    steps: int
    sums = "regions"

    def decided(self, found: Sequence[MaybeScore], error_bound: float) -> bool:
        steps = _steps_of(found)
        wanted = TAKEN[steps - 1].regions
        assert wanted is not None
        assert error_bound == wanted.of(found) > 0
        return steps >= self.steps


def _steps_of(found: Sequence[MaybeScore]) -> int:
    return next(i for i, total in enumerate(TOTALS, start=1) if total == pytest.approx(_total(found)))


def _total(found: Sequence[MaybeScore]) -> float:
    return sum(score.total for score in found if isinstance(score, SentenceScore))


TOTALS: list[float] = []


def test_comparisons_go_as_far_as_they_need(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdtools.search.adaptive_beam.STEPS", STEPS)
    pair = ("a b c a b", "c b a c a")
    scores = [
        list(load_model(folders["pushdown"], SearchOptions(beam=step.beam, margin=step.margin)).score(pair))
        for step in TAKEN
    ]
    TOTALS[:] = [_total(found) for found in scores]
    assert len({round(total, 6) for total in TOTALS}) == len(TAKEN)
    comparisons = [After(pair, 1), After(("a", "b"), 9), After(pair, 9), After(pair, 3)]
    found = list(load_model(folders["pushdown"], AUTO_SEARCH).compare(comparisons))
    assert [(each.beam, each.margin) for each in found] == [TAKEN[i][:2] for i in (0, 0, 3, 2)]
    for each, wanted in zip((found[0], found[3], found[2]), (0, 2, 3), strict=True):
        assert _total(each.scores) == pytest.approx(TOTALS[wanted])
    assert all(isinstance(score, SentenceScore) and score.dropped == 0 for score in found[1].scores)


def test_sums_of_regions_and_totals_have_their_own_steps(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worked on together, each with the bound of its kind; a sentence of both is searched for both."""
    steps = (
        Step(1, None, ErrorBound(0.5, 0.0), None),
        Step(2, None, None, ErrorBound(0.25, 0.5)),
        Step(3, 2.0, ErrorBound(0.125, 1.0), ErrorBound(0.1, 0.0)),
        Step(50, None, SURE, SURE),
    )
    monkeypatch.setattr("pdtools.search.adaptive_beam.STEPS", steps)
    asked: list[tuple[str, float]] = []

    @dataclass(frozen=True)
    class Comparison:
        sentences: tuple[str, ...]
        sums: Literal["regions", "totals"]
        most: float

        def decided(self, found: Sequence[MaybeScore], error_bound: float) -> bool:
            wanted = [
                step for step in steps if (of := getattr(step, self.sums)) and of.of(found) == error_bound
            ]
            assert [score.text for score in found] == list(self.sentences)
            assert wanted
            asked.append((self.sums, error_bound))
            return error_bound <= self.most

    pair, other = ("a b c a b", "c b a c a"), ("b a c b", "a b c a b")
    comparisons = [
        Comparison(pair, "totals", 9.0),
        Comparison(other, "regions", 9.0),
        Comparison(other, "totals", 0.1),
        Comparison(pair, "regions", 0.0),
    ]
    found = list(load_model(folders["pushdown"], AUTO_SEARCH).compare(comparisons))
    assert [(each.beam, each.margin) for each in found] == [(2, None), (1, None), (3, 2.0), (50, None)]
    assert [kind for kind, _ in asked] == ["regions"] * 2 + ["totals"] * 2 + ["totals", "regions"]
    for comparison, each in zip(comparisons, found, strict=True):
        options = SearchOptions(beam=each.beam, margin=each.margin)
        plain = list(load_model(folders["pushdown"], options).score(comparison.sentences))
        assert _total(each.scores) == pytest.approx(_total(plain), rel=2e-6, abs=1e-5)


def test_an_exact_score_is_a_decision(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a comparison says: nothing was dropped."""
    monkeypatch.setattr(
        "pdtools.search.adaptive_beam.STEPS",
        (Step(10, None, ErrorBound(1.0, 1.0), None), Step(50, None, SURE, SURE)),
    )
    (found,) = load_model(folders["pushdown"], AUTO_SEARCH).compare([After(("a b c", "b b"), 9)])
    assert (found.beam, found.margin) == (10, None)


def test_comparisons_are_read_after_the_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdtools.search.adaptive_beam.STEPS", (Step(3, None, SURE, SURE),))
    folder = save_checkpoints(tmp_path, window=12)[0]["pushdown"]
    context = Context(of="x", sentences=("a b", "c"))
    (found,) = load_model(folder, AUTO_SEARCH, context=context).compare([After(("b c a", "b b"), 9)])
    wanted = load_model(folder, SearchOptions(beam=3), context=context).score(["b c a", "b b"])
    alone = load_model(folder, SearchOptions(beam=3)).score(["b c a", "b b"])
    assert [_total([each]) for each in found.scores] == pytest.approx([_total([each]) for each in wanted])
    assert _total(found.scores) != pytest.approx(_total(list(alone)), abs=1e-3)


@pytest.mark.parametrize("name", ["base", "head"])
def test_models_without_a_search_are_refused(folders: dict[str, Path], name: str) -> None:
    with pytest.raises(PdtoolsError, match="this model needs no search: leave out --beam auto"):
        load_model(folders[name], AUTO_SEARCH)


def test_error_bound_grows_with_what_was_dropped() -> None:
    def score(dropped: float | None) -> SentenceScore:
        return SentenceScore("a", ("a",), (0,), (0,), (1,), np.zeros(1), 0, False, dropped=dropped)

    error_bound = ErrorBound(0.25, 0.5)
    assert error_bound.of([score(0.0), score(None)]) == 0
    lost = [score(1 - math.exp(-2)), score(0.0), score(1 - math.exp(-1)), Unscorable("a", "because")]
    assert error_bound.of(lost) == pytest.approx(0.25 + 0.5 * 3)
    assert 10 < error_bound.of([score(1.0)]) < math.inf
    assert SURE.of(lost) == 0
