"""Comparison of two runs."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wide_items import pair_tables

from pdtools.cli.main import run
from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.bootstrap import FEW_ITEMS
from pdtools.evaluation.comparison.compare import ComparedModels, compare, difference_of
from pdtools.evaluation.comparison.engine import ComparedScore
from pdtools.evaluation.comparison.groups import each_alone
from pdtools.evaluation.comparison.statistics import mcnemar
from pdtools.evaluation.results import ITEMS, Results, read_results, write_results


def blimp(folder: Path, correct: dict[str, list[bool | None]], good: str = "He is .", order: int = 1) -> Path:
    rows = [
        {
            "paradigm": paradigm,
            "item": str(i),
            "phenomenon": "agreement",
            "field": "syntax",
            "good": f"{good} {paradigm} {i}",
            "bad": "He are .",
            "correct": value,
        }
        for paradigm, values in correct.items()
        for i, value in enumerate(values)
    ]
    results = Results(scores={}, counts={}, settings={"task": "blimp"}, tables=pair_tables(rows[::order]))
    write_results(folder, results, {"command": []}, overwrite=True)
    return folder


def sg(folder: Path, correct: dict[str, list[bool]]) -> Path:
    rows = [
        {
            "suite": s,
            "circuit": "C",
            "item": i,
            "prediction": p,
            "formula": "f",
            "correct": value if p == 1 else False,
        }
        for s, values in correct.items()
        for i, value in enumerate(values)
        for p in (1, 2)
    ]
    results = Results(
        scores={}, counts={}, settings={"task": "sg"}, tables={ITEMS: pa.Table.from_pylist(rows)}
    )
    write_results(folder, results, {})
    return folder


def two(a: Path, b: Path, samples: int = 10_000) -> ComparedModels:
    return compare(each_alone([a, b]), samples=samples)


def shares(score: ComparedScore) -> list[float]:
    return [each.mean / 100 for each in score.groups]


def ends(score: ComparedScore) -> list[float] | None:
    """The interval of the difference, as fractions of 1."""
    (pair,) = score.pairs
    return pair.over_items and [end / 100 for end in pair.over_items]


def test_mcnemar_against_every_outcome() -> None:
    for a, b in itertools.product(range(6), repeat=2):
        n = a + b
        # Under chance every discordant item falls to either side: count the outcomes at least this uneven.
        outcomes = [sum(coins) for coins in itertools.product((0, 1), repeat=n)]
        extreme = sum(abs(2 * ones - n) >= abs(a - b) for ones in outcomes)
        assert mcnemar(a, b) == pytest.approx(extreme / 2**n)


def test_mcnemar_of_many_items() -> None:
    assert mcnemar(30_000, 30_000) == 1.0
    assert 0 < mcnemar(500, 700) < 1e-8
    assert mcnemar(0, 5000) == 0.0 or math.isfinite(mcnemar(0, 5000))


@pytest.mark.parametrize("n", [9, 10, 13])
@pytest.mark.parametrize("differences", [(1, 0), (1, 1, 0), (1, 0, -1, 1), (0, 0, -1, -1, -1)])
def test_the_interval_of_few_items_is_that_of_all_samples(
    tmp_path: Path, differences: tuple[int, ...], n: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every sample of as many items, with replacement, is as probable as another; below ten none is given."""
    items = [differences[i % len(differences)] for i in range(n)]
    a = blimp(tmp_path / "a", {"one": [each < 0 for each in items]})
    b = blimp(tmp_path / "b", {"one": [each > 0 for each in items]})
    shares = np.array([items.count(each) for each in (-1, 0, 1)]) / n
    chances = np.ones(1)  # of each sum of differences, from -n to n
    for _ in items:
        chances = np.convolve(chances, shares)
    sums = np.arange(-n, n + 1)
    low, high = (sums[np.searchsorted(chances.cumsum(), share)] / n for share in (0.025, 0.975))
    overall = two(a, b).scores[0]
    capsys.readouterr()
    assert run(["compare", str(a), str(b)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (FEW_ITEMS in said) == (n < 10)
    if n < 10:
        assert ends(overall) is None
    else:  # a quantile of 10,000 samples may be the next sum
        assert ends(overall) == pytest.approx([low, high], abs=1.01 / n)
    only_a, only_b = items.count(-1), items.count(1)
    low, high = ends(overall) or (None, None)
    assert difference_of(a, b) == {
        **{"items": n, "a": pytest.approx(only_a / n), "b": pytest.approx(only_b / n)},
        **{"low": low, "high": high, "only_a": only_a, "only_b": only_b, "p": mcnemar(only_a, only_b)},
    }


@pytest.mark.parametrize(("sizes", "has_interval"), [((10,), True), ((1,) * 40, False), ((2,) * 9, True)])
def test_items_alone_in_their_unit_give_no_interval(
    tmp_path: Path, sizes: tuple[int, ...], has_interval: bool
) -> None:
    """A bootstrap within units never draws another item there: its interval would have no width."""
    a, b = (
        blimp(tmp_path / name, {f"p{u}": [bool(i % 2 == of)] * n for u, n in enumerate(sizes) for i in [u]})
        for of, name in enumerate("ab")
    )
    assert (ends(two(a, b).scores[0]) is not None) == has_interval


def test_first_predictions_of_suites_count(tmp_path: Path) -> None:
    a = sg(tmp_path / "a", {"s": [True, False], "nn-nv-rpl": [True]})
    b = sg(tmp_path / "b", {"s": [True, True], "nn-nv-rpl": [False]})
    by_name = {(score.level, score.name): score for score in two(a, b).scores}
    assert shares(by_name["overall", ""]) == [0.5, 1.0]
    assert by_name["overall", ""].items == 2
    assert by_name["suite", "nn-nv-rpl"].pairs[0].difference == -100


def test_circuits_are_without_the_suites_that_the_sg_score_leaves_out(tmp_path: Path) -> None:
    a = sg(tmp_path / "a", {"s": [True, False], "fgd-embed3": [True]})
    b = sg(tmp_path / "b", {"s": [True, True], "fgd-embed3": [False]})
    (circuit,) = (score for score in two(a, b).scores if (score.level, score.name) == ("circuit", "C"))
    assert shares(circuit) == [0.5, 1.0]
    assert (circuit.items, circuit.pairs[0].only_a) == (2, 0)


def test_suites_that_do_not_count_give_no_sg_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (sg(tmp_path / name / "sg", {"nn-nv-rpl": [True]}).parent for name in "ab")
    found = two(a, b)
    assert [score.level for score in found.scores] == ["suite"]
    assert found.notes == {"sg": ("none of the items counts in the overall score",)}
    assert run(["compare", str(a), str(b)]) == 0
    assert "sg: none of the items counts in the overall score" in capsys.readouterr().out


def test_items_may_stand_in_another_order(tmp_path: Path) -> None:
    answers = {"one": [True, False, True], "two": [False, None]}
    a = blimp(tmp_path / "a", {"one": [True, True, False], "two": [True, False]})
    b, reversed_b = (blimp(tmp_path / f"b{order}", answers, order=order) for order in (1, -1))
    one, other = (
        [(shares(score), replace(score.pairs[0], b="")) for score in two(a, each).scores]
        for each in (b, reversed_b)
    )
    assert one == other


def test_texts_are_compared_as_far_as_both_runs_have_them(tmp_path: Path) -> None:
    """Some write none, and some count the end of a sentence, which others do not."""
    a, without, with_ends = (blimp(tmp_path / name, {"one": [True]}) for name in ("a", "b", "c"))
    (without / "strings.parquet").unlink()
    strings = pq.read_table(with_ends / "strings.parquet")
    ends = [{**row, "text": ""} for row in strings.to_pylist()]
    pq.write_table(
        pa.concat_tables([strings, pa.Table.from_pylist(ends, strings.schema)]),
        with_ends / "strings.parquet",
    )
    for other in (without, with_ends):
        for pair in ((a, other), (other, a)):
            assert two(*pair).scores[0].items == 1


def test_runs_that_cannot_be_compared(tmp_path: Path) -> None:
    a = blimp(tmp_path / "a", {"one": [True]})
    for other, reason in (
        (sg(tmp_path / "sg", {"s": [True]}), r"have results of \(.*/a: blimp; .*/sg: sg\)"),
        (blimp(tmp_path / "b", {"one": [True, True]}), "only one has one 1 1"),
        (blimp(tmp_path / "c", {"one": [True]}, good="They are ."), "item one 0 1 is not the same"),
        (blimp(tmp_path / "d", {"one": [None]}), "no item that both"),
        (tmp_path / "none", "no such folder"),
        (a, "is given twice"),
    ):
        with pytest.raises(PdtoolsError, match=reason):
            two(a, other)
    torn = blimp(tmp_path / "torn", {"one": [True]})
    (torn / "items.parquet").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not Parquet"):
        two(a, torn)


def test_results_folder(tmp_path: Path) -> None:
    results = Results(
        scores={"overall": 0.5},
        counts={"items": 1},
        settings={"task": "t"},
        tables={ITEMS: pa.table({"x": [1]})},
    )
    write_results(tmp_path / "r", results, {"command": ["pdtools"]})
    document: dict[str, Any] = json.loads((tmp_path / "r" / "results.json").read_text())
    assert list(document) == ["format", "scores", "counts", "settings", "provenance"]
    assert read_results(tmp_path / "r")[1].to_pydict() == {"x": [1]}
    with pytest.raises(PdtoolsError, match="exists already"):
        write_results(tmp_path / "r", results, {})
    bad = Results(scores={"overall": math.nan}, counts={}, settings={})
    with pytest.raises(ValueError, match="JSON"):
        write_results(tmp_path / "bad", bad, {})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r"]
