"""Comparisons of sentences, searched as widely as they need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from search_oracle import save_checkpoints

from pdtools.errors import PdtoolsError
from pdtools.search import load_comparer, load_scorer
from pdtools.search.scores import SentenceScore
from pdtools.search.widening import Found, Step, Uncertain

STEPS = (
    Step(1, None, 0.4, 0.4),
    Step(1, 1.0, None, 0.0),
    Step(2, None, 0.3, None),
    Step(50, 3.0, 0.2, 0.2),
    Step(50, None, 0.1, 0.1),
)
TAKEN = [step for step in STEPS if step.regions is not None]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_checkpoints(tmp_path_factory.mktemp("models"))[0]


@dataclass(frozen=True)
class After:
    """A contest that is decided after so many steps; it checks what it is shown."""

    sentences: tuple[str, ...]
    steps: int
    sums = "regions"

    def decided(self, now: Sequence[Found], before: Sequence[Found] | None, least: float) -> bool:
        beams = [0 if found is None else _steps_of(found) for found in (before, now)]
        assert beams[1] == beams[0] + 1
        assert least == LEAST[beams[1] - 1]
        return beams[1] >= self.steps


def _steps_of(found: Sequence[Found]) -> int:
    return next(i for i, total in enumerate(TOTALS, start=1) if total == pytest.approx(_total(found)))


def _total(found: Sequence[Found]) -> float:
    return sum(score.total for score in found if isinstance(score, SentenceScore))


TOTALS: list[float] = []
LEAST = [step.regions for step in TAKEN]


def test_contests_go_as_far_as_they_need(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdtools.search.comparer.STEPS", STEPS)
    pair = ("a b c a b", "c b a c a")
    scores = [
        list(load_scorer(folders["pushdown"], beam=step.beam, margin=step.margin).score(pair))
        for step in TAKEN
    ]
    TOTALS[:] = [_total(found) for found in scores]
    assert len({round(total, 6) for total in TOTALS}) == len(TAKEN)
    contests = [After(pair, 1), After(("a", "b"), 9), After(pair, 9), After(pair, 3)]
    found = list(load_comparer(folders["pushdown"]).compare(contests))
    assert [(each.beam, each.margin) for each in found] == [TAKEN[i][:2] for i in (0, 0, 3, 2)]
    for each, wanted in zip((found[0], found[3], found[2]), (0, 2, 3), strict=True):
        assert _total(each.scores) == pytest.approx(TOTALS[wanted])
    assert all(isinstance(score, SentenceScore) and score.dropped == 0 for score in found[1].scores)


def test_an_exact_score_is_a_decision(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a contest says: nothing was dropped."""
    monkeypatch.setattr("pdtools.search.comparer.STEPS", (Step(10, None, 1.0, 1.0), Step(50, None, 0.0, 0.0)))
    (found,) = load_comparer(folders["pushdown"]).compare([After(("a b c", "b b"), 9)])
    assert (found.beam, found.margin) == (10, None)


@pytest.mark.parametrize("name", ["base", "head"])
def test_models_without_a_search_are_refused(folders: dict[str, Path], name: str) -> None:
    with pytest.raises(PdtoolsError, match="nothing is searched for this model: leave out --beam auto"):
        load_comparer(folders[name])


def test_doubt_is_what_changed() -> None:
    a, b = Uncertain(-3.0, -3.5, 0.25), Uncertain(-4.0, -4.125, 0.25)
    assert a.plus(b, -1.0) == Uncertain(1.0, 0.625, 0.5)
    assert a.plus(b, -1.0).doubt == 0.375 + 0.5
    assert a.plus(b, -2.0) == Uncertain(5.0, 4.75, 0.75)
    first = Uncertain(-3.0, None, 1.0)
    assert first.plus(b).before is None
    assert first.plus(b).doubt == 1.25
    assert Uncertain(1.0, 1.0).doubt == 0
    assert Uncertain(1.0).doubt == 0
