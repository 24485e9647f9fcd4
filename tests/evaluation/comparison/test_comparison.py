"""Comparison of two runs."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from wide_items import pair_tables

from pdtools.cli.main import run
from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.bootstrap import FEW_ITEMS
from pdtools.evaluation.comparison.compare import compare_runs
from pdtools.evaluation.comparison.overview import overview
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


def test_differences(tmp_path: Path) -> None:
    a = blimp(tmp_path / "a", {"one": [True, True, False, False], "two": [True, False]})
    b = blimp(tmp_path / "b", {"one": [True, False, True, True], "two": [None, True]})
    found = compare_runs(a, b)
    overall, *groups = found["groups"]
    assert found["counts"] == {"items": 6, "items_compared": 5}
    assert (overall.level, overall.items, overall.only_a, overall.only_b) == ("overall", 5, 1, 3)
    assert overall.a == pytest.approx((2 / 4 + 0 / 1) / 2)
    assert overall.b == pytest.approx((3 / 4 + 1 / 1) / 2)
    assert overall.p == mcnemar(1, 3)
    assert [(g.level, g.name) for g in groups] == [
        ("field", "syntax"),
        ("phenomenon", "agreement"),
        ("paradigm", "one"),
        ("paradigm", "two"),
    ]
    assert {(each.low, each.high) for each in found["groups"]} == {(None, None)}  # five items
    assert compare_runs(a, b) == found
    assert compare_runs(a, a)["groups"][0].difference == 0


def test_the_interval_covers_what_theory_says(tmp_path: Path) -> None:
    n = 400
    a = blimp(tmp_path / "a", {"one": [i % 4 < 1 for i in range(n)]})
    b = blimp(tmp_path / "b", {"one": [i % 4 < 2 for i in range(n)]})
    overall = compare_runs(a, b)["groups"][0]
    deviation = math.sqrt(0.25 * 0.75 / n)
    assert overall.low == pytest.approx(0.25 - 1.96 * deviation, abs=0.006)
    assert overall.high == pytest.approx(0.25 + 1.96 * deviation, abs=0.006)


@pytest.mark.parametrize("sizes", [(400, 400, 400), (100, 900, 400, 225)])
def test_the_interval_of_several_units_is_as_wide_as_theory_says(
    sizes: tuple[int, ...], tmp_path: Path
) -> None:
    # Of unit u every fourth item is won by b; the mean of U units has the variance Σ σ_u² / n_u / U².
    a = blimp(tmp_path / "a", {f"p{u}": [False] * n for u, n in enumerate(sizes)})
    wins = range(2, 2 + len(sizes))
    b = blimp(
        tmp_path / "b",
        {
            f"p{u}": [i % every == 0 for i in range(n)]
            for u, (n, every) in enumerate(zip(sizes, wins, strict=True))
        },
    )
    samples = 10_000
    overall, *groups = compare_runs(a, b, samples=samples)["groups"]
    shares = [len(range(0, n, every)) / n for n, every in zip(sizes, wins, strict=True)]
    variances = [p * (1 - p) / n for p, n in zip(shares, sizes, strict=True)]
    assert overall.difference == pytest.approx(sum(shares) / len(sizes))
    whole = math.sqrt(sum(variances)) / len(sizes)
    by_unit = [(group, p, math.sqrt(v)) for group, p, v in zip(groups[2:], shares, variances, strict=True)]
    for group, mean, deviation in [(overall, sum(shares) / len(sizes), whole), *by_unit]:
        # The error of a quantile of so many samples is √(q (1 − q) / samples) / density; and means are steps.
        error = math.sqrt(0.025 * 0.975 / samples) / 0.0584 * deviation
        tolerance = 4 * error + 1 / min(group.items, max(sizes)) / (1 if group is not overall else len(sizes))
        assert group.low == pytest.approx(mean - 1.96 * deviation, abs=tolerance)
        assert group.high == pytest.approx(mean + 1.96 * deviation, abs=tolerance)


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
    overall = compare_runs(a, b)["groups"][0]
    capsys.readouterr()
    assert run(["compare", str(a), str(b)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (FEW_ITEMS in said) == (n < 10)
    if n < 10:
        assert (overall.low, overall.high) == (None, None)
    else:  # a quantile of 10,000 samples may be the next sum
        assert (overall.low, overall.high) == pytest.approx((low, high), abs=1.01 / n)


@pytest.mark.parametrize(("sizes", "has_interval"), [((10,), True), ((1,) * 40, False), ((2,) * 9, True)])
def test_items_alone_in_their_unit_give_no_interval(
    tmp_path: Path, sizes: tuple[int, ...], has_interval: bool
) -> None:
    """A bootstrap within units never draws another item there: its interval would have no width."""
    a, b = (
        blimp(tmp_path / name, {f"p{u}": [bool(i % 2 == of)] * n for u, n in enumerate(sizes) for i in [u]})
        for of, name in enumerate("ab")
    )
    overall = compare_runs(a, b)["groups"][0]
    assert (overall.low is not None) == has_interval == (overall.high is not None)


def test_first_predictions_of_suites_count(tmp_path: Path) -> None:
    a = sg(tmp_path / "a", {"s": [True, False], "nn-nv-rpl": [True]})
    b = sg(tmp_path / "b", {"s": [True, True], "nn-nv-rpl": [False]})
    found = compare_runs(a, b)
    by_name = {(g.level, g.name): g for g in found["groups"]}
    assert (by_name["overall", ""].a, by_name["overall", ""].b) == (0.5, 1.0)
    assert by_name["suite", "nn-nv-rpl"].difference == -1.0
    assert found["counts"]["items"] == 3


def test_circuits_are_without_the_suites_that_the_sg_score_leaves_out(tmp_path: Path) -> None:
    a = sg(tmp_path / "a", {"s": [True, False], "fgd-embed3": [True]})
    b = sg(tmp_path / "b", {"s": [True, True], "fgd-embed3": [False]})
    by_level = {(g.level, g.name): g for g in compare_runs(a, b)["groups"]}
    circuit = by_level["circuit", "C"]
    assert (circuit.a, circuit.b, circuit.items, circuit.only_a) == (0.5, 1.0, 2, 0)


def test_suites_that_do_not_count_give_no_sg_score(tmp_path: Path) -> None:
    a, b = (sg(tmp_path / name / "sg", {"nn-nv-rpl": [True]}).parent for name in "ab")
    with pytest.raises(InputError, match="none of its items counts in the overall score"):
        overview(a, b)


def test_items_may_stand_in_another_order(tmp_path: Path) -> None:
    answers = {"one": [True, False, True], "two": [False, None]}
    a = blimp(tmp_path / "a", {"one": [True, True, False], "two": [True, False]})
    b, reversed_b = (blimp(tmp_path / f"b{order}", answers, order=order) for order in (1, -1))
    assert compare_runs(a, reversed_b)["groups"] == compare_runs(a, b)["groups"]


def test_runs_that_cannot_be_compared(tmp_path: Path) -> None:
    a = blimp(tmp_path / "a", {"one": [True]})
    with pytest.raises(PdtoolsError, match="results of another evaluation than"):
        compare_runs(a, sg(tmp_path / "sg", {"s": [True]}))
    with pytest.raises(PdtoolsError, match="only one has one 1 1"):
        compare_runs(a, blimp(tmp_path / "b", {"one": [True, True]}))
    with pytest.raises(PdtoolsError, match="item one 0 1 is not the same"):
        compare_runs(a, blimp(tmp_path / "c", {"one": [True]}, good="They are ."))
    with pytest.raises(PdtoolsError, match="no item that both"):
        compare_runs(a, blimp(tmp_path / "d", {"one": [None]}))
    with pytest.raises(InputError, match="not a folder of results"):
        compare_runs(a, tmp_path)
    (tmp_path / "a" / "items.parquet").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not Parquet"):
        compare_runs(a, a)


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
