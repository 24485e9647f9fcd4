"""Numbers that pages of results show, and the same computed here; the pages run in node."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from node_pages import evaluate, needs_node, number, program, save_page, shows
from view_pages import write_blimp
from wide_items import pair_tables

from pdtools.evaluation.bootstrap import FEW_ITEMS
from pdtools.evaluation.comparison.compare import compare
from pdtools.evaluation.comparison.groups import by_seed, find_models
from pdtools.evaluation.record import Outcomes
from pdtools.evaluation.results import ITEMS, STRINGS_TABLE, Results, write_results
from pdtools.report.tables import decimals
from pdtools.report.view import results
from pdtools.report.view.drawing import listed_items
from pdtools.report.view.results import results_page

pytestmark = needs_node

Z = 1.959963984540054
T = {5: 2.776445, 6: 2.570582, 8: 2.364624}  # Student's, of means of so many items
# Paradigms with phenomenon, field and number of pairs; suites with circuit and number of items. One suite has
# two predictions, one does not count in the score.
PARADIGMS = {
    "agr_1": ("agreement", "morphology", 7),
    "agr_2": ("agreement", "morphology", 12),
    "binding": ("binding", "syntax", 9),
    "islands": ("islands", "syntax", 20),
}
SUITES = {"agr": ("Agreement", 5), "fgd": ("Long-Distance", 8), "fgd-embed3": ("Long-Distance", 6)}
FORMULAS = ["(2;%gap%) < (2;%no-gap%)", "((1;%gap%) + 1) < (*;%no-gap%)"]
WORDS = {"gap": ["the dog", "barks"], "no-gap": ["a dog", "bark"]}
RNG = np.random.default_rng(46)


def words_of(condition: str, item: int) -> list[str]:
    """The regions of an item."""
    return [WORDS[condition][0], f"{WORDS[condition][1]} {item}"]


# Right, wrong, or not scored; by model.
BLIMP = {
    model: {
        (paradigm, pair): None if RNG.random() < unscored else bool(RNG.random() < right)
        for paradigm, (_, _, n) in PARADIGMS.items()
        for pair in range(n)
    }
    for model, right, unscored in (("one", 0.5, 0.1), ("two-1", 0.8, 0.0), ("two-2", 0.7, 0.0))
}
# One that "one" has no score of, and only one of the others right.
BLIMP["two-1"][next(key for key, right in reversed(BLIMP["one"].items()) if right is None)] = False
# What only "one" has right and wrong: none and six in morphology (p = .031, corrected for two fields .063),
# two and four in syntax.
for names, more, fewer in ((("agr_1", "agr_2"), 0, 6), (("binding", "islands"), 2, 4)):
    scored = [key for key, right in BLIMP["one"].items() if key[0] in names and right is not None]
    BLIMP["one"] |= {key: BLIMP["two-1"][key] for key in scored}
    both = [key for key in scored if BLIMP["one"][key]]
    neither = [key for key in scored if not BLIMP["one"][key]]
    BLIMP["one"] |= {**dict.fromkeys(both[::2][:fewer], False), **dict.fromkeys(neither[:more], True)}
SG = {
    model: {
        (suite, item, prediction): bool(RNG.random() < right)
        for suite, (_, n) in SUITES.items()
        for item in range(1, n + 1)
        for prediction in (1, 2)[: 1 + (suite == "fgd")]
    }
    for model, right in (("one", 0.4), ("two-1", 0.7), ("two-2", 0.6))
}
BITS = {
    (model, suite, item, condition, region): float(RNG.uniform(1, 9))
    for model in SG
    for suite, (_, n) in SUITES.items()
    for item in range(1, n + 1)
    for condition in WORDS
    for region in (1, 2)
}
MARGINS = {model: {key: float(RNG.uniform(0.1, 6)) for key in BLIMP[model]} for model in BLIMP}
TOKENS = {
    (model, key, side): [(word, float(RNG.uniform(0.5, 9))) for word in ("The", "dogs", side)]
    for model in BLIMP
    for key in BLIMP[model]
    for side in ("good", "bad")
}
# Matched, gold and predicted brackets of six sentences.
BRACKETS = {model: RNG.integers(0, 5, (6, 3)) + np.array([0, 5, 4]) for model in SG}
# Gain over the baseline, its interval and the number of words, of each result by model.
GAINS = {
    of: {"small": (0.0123 * k, -0.0045, 0.0604, 320 + k), "large": (0.0217, 0.0101 / k, 0.0333, 320 + k)}
    for k, of in enumerate(BLIMP, 1)
}


def write(folder: Path, model: str, seed: int, training: str, *, margins: bool = False) -> None:
    """Results of one model under four evaluations; pairs perhaps with margins, which are then compared."""
    made = {"inputs": {"model": {"path": f"runs/{model}'s", "training": {"seed": seed, "sha256": training}}}}
    blimp, items, regions = [], [], []
    for (paradigm, pair), right in BLIMP[model].items():
        phenomenon, field, _ = PARADIGMS[paradigm]
        key = (paradigm, pair)
        margin = MARGINS[model][key] * (1 if right else -1)
        row = {"paradigm": paradigm, "phenomenon": phenomenon, "field": field, "item": str(pair)}
        row |= {"good": f"good {paradigm} {pair}", "bad": f"bad {paradigm} {pair}", "correct": right}
        row |= {"margin_bits": None if right is None else margin / math.log(2)} if margins else {}
        for side in ("good", "bad"):
            scored = [{"token": t, "bits": bits} for t, bits in TOKENS[model, key, side]]
            row[f"surprisals_{side}"] = None if right is None else scored
        blimp.append(row)
    for (suite, item, prediction), right in SG[model].items():
        row = {"suite": suite, "circuit": SUITES[suite][0], "item": str(item), "prediction": prediction}
        items.append({**row, "formula": FORMULAS[prediction - 1], "correct": right})
    for (of, suite, item, condition, region), bits in BITS.items():
        if of == model:
            row = {"suite": suite, "item": str(item), "string": condition, "region": region}
            name = "Verb" if model == "one" else "another name"  # that of the first is shown
            row |= {
                "name": name if region == 2 else None,
                "context": None,
                "text": words_of(condition, item)[region - 1],
            }
            regions.append({**row, "bits": bits, "surprisals": None})
    parsed = [
        dict(zip(("line", "matched", "gold", "predicted"), (line, *map(int, row)), strict=True))
        | {"gold_tree": f"(S gold {line})", "predicted_tree": f"(S {model} {line})"}
        for line, row in enumerate(BRACKETS[model], 1)
    ]
    overall = {"blimp": fmean(accuracy(BLIMP[model], p) for p in PARADIGMS)}
    overall["sg"] = fmean(first_predictions(model, suite) for suite in SUITES)
    for task, rows in (("blimp", blimp), ("sg", items), ("parse", parsed)):
        tables = pair_tables(rows) if task == "blimp" else {ITEMS: pa.Table.from_pylist(rows)}
        if task == "sg":
            tables[STRINGS_TABLE] = pa.Table.from_pylist(regions)
        settings: dict[str, Any] = {"task": task}
        scores: dict[str, Any] = {"overall": overall.get(task)}
        if task == "parse":
            settings |= {"labeled": False, "binarize": "none"}
            scores = {"f1": f1(*BRACKETS[model].sum(0))}
        scored = sum(row.get("correct") is not None for row in rows)
        counts = {"scored": len(rows), "items_scored": scored}
        found = Results(scores=scores, counts=counts, settings=settings, tables=tables)
        write_results(folder / task, found, made)
    by_model = {
        name: {"delta_ll": gain, "low": low, "high": high}
        for name, (gain, low, high, _) in GAINS[model].items()
    }
    settings = {"task": "reading", "baseline": ["length", "log_frequency"]}
    tables = {ITEMS: pa.table({"word": [1]})}
    scores = {"by_model": by_model}
    counts = {"words_regressed": GAINS[model]["small"][3]}
    found = Results(scores=scores, counts=counts, settings=settings, tables=tables)
    write_results(folder / "reading", found, made)


def accuracy(outcomes: dict[Any, bool | None], unit: str) -> float:
    return fmean(right for key, right in outcomes.items() if key[0] == unit and right is not None)


def first_predictions(model: str, suite: str) -> float:
    return fmean(right for (of, _, n), right in SG[model].items() if of == suite and n == 1)


def f1(matched: int, gold: int, predicted: int) -> float:
    recall, precision = matched / gold, matched / predicted
    return 100 * 2 * recall * precision / (recall + precision) if matched else 0.0


def interval(shares: list[tuple[int, int]]) -> tuple[float, float, float]:
    """The mean of shares in percent, and its 95% interval.

    Wilson's limits solve (p - share)² = z² p (1 - p) / n.
    """
    centre = fmean(right / n for right, n in shares)
    down = up = 0.0
    for right, n in shares:
        share = right / n
        low, high = sorted(np.roots([1 + Z**2 / n, -(2 * share + Z**2 / n), share**2]).real)
        down, up = down + (share - low) ** 2, up + (high - share) ** 2
    return tuple(100 * x for x in (centre, centre - down**0.5 / len(shares), centre + up**0.5 / len(shares)))


def shares(model: str, task: str, units: list[str]) -> list[tuple[int, int]]:
    """Right answers and all answers of each unit."""
    outcomes: dict[Any, bool | None] = BLIMP[model] if task == "blimp" else SG[model]
    found = []
    for unit in units:
        of_unit = [
            right
            for key, right in outcomes.items()
            if key[0] == unit and right is not None and (task == "blimp" or key[2] == 1)
        ]
        found.append((sum(of_unit), len(of_unit)))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two models, and of a second seed of the second."""
    folder = tmp_path_factory.mktemp("results")
    for model, seed, training in (("one", 1, "x"), ("two-1", 1, "y"), ("two-2", 2, "y")):
        write(folder / model, model, seed, training)
    return folder


PROGRAM = program("results_page")


@pytest.fixture(scope="module")
def two(folder: Path) -> Any:
    """The page of two models."""
    page = results_page([str(folder / "one"), str(folder / "two-1")])
    return evaluate(save_page(page, folder / "two.html"), PROGRAM)


@pytest.fixture(scope="module")
def seeds(folder: Path) -> Any:
    """The page of a model, and of another with two seeds."""
    page = results_page([str(folder / name) for name in ("one", "two-1", "two-2")])
    return evaluate(save_page(page, folder / "seeds.html"), PROGRAM)


def main_scores(model: str) -> dict[str, float]:
    return {
        "BLiMP accuracy (%)": 100 * fmean(accuracy(BLIMP[model], name) for name in PARADIGMS),
        "SG score, mean of suites (%)": 100 * fmean(first_predictions(model, name) for name in SUITES),
        "unlabeled F1 (%)": f1(*BRACKETS[model].sum(0)),
        **{f"reading times, ΔLL (nats a word), {name}": gain for name, (gain, *_) in GAINS[model].items()},
    }


def digits_of(score: str) -> int:
    return 4 if "ΔLL" in score else 2


def test_main_scores(two: Any, seeds: Any) -> None:
    expected = {model: main_scores(model) for model in BLIMP}
    assert two["main"][0] == ["score", "one", "two-1"]
    assert {row[0] for row in two["main"][1:]} == set(expected["one"])
    for name, one, other in two["main"][1:]:
        assert shows(one, expected["one"][name], digits_of(name))
        assert shows(other, expected["two-1"][name], digits_of(name))
    # Of seeds the mean and the standard deviation (n - 1).
    assert seeds["main"][0] == ["score", "one (one run)", "two (2 seeds)"]
    for name, one, others in seeds["main"][1:]:
        values = [expected[model][name] for model in ("two-1", "two-2")]
        mean, deviation = others.split(" ± ")
        assert shows(one, expected["one"][name], digits_of(name))
        assert shows(mean, fmean(values), digits_of(name))
        assert shows(deviation, stdev(values), digits_of(name))
    assert seeds["seeds"][0] == ["score", *BLIMP]
    for name, *each in seeds["seeds"][1:]:
        assert [shows(x, expected[m][name], digits_of(name)) for x, m in zip(each, BLIMP, strict=True)] == [
            True
        ] * 3


UNITS = {
    "blimp": {
        "overall": {"overall": list(PARADIGMS)},
        "field": {"morphology": ["agr_1", "agr_2"], "syntax": ["binding", "islands"]},
        "phenomenon": {"agreement": ["agr_1", "agr_2"], "binding": ["binding"], "islands": ["islands"]},
        "paradigm": {name: [name] for name in PARADIGMS},
    },
    "sg": {
        "overall": {"overall": ["agr", "fgd"]},
        "circuit": {"Agreement": ["agr"], "Long-Distance": ["fgd"]},
        "suite": {name: [name] for name in SUITES},
    },
}


ABOVE = {name: about[0] for name, about in (*PARADIGMS.items(), *SUITES.items())}


@pytest.mark.parametrize("task", ["blimp", "sg"])
def test_scores_with_their_intervals(task: str, two: Any) -> None:
    columns = ["group", "of", "model", "score (%)", "from", "to", "items"]
    assert list(two[task]["levels"]) == list(UNITS[task])
    for level, groups in UNITS[task].items():
        expected = {
            (name, ABOVE.get(name, ""), model): [*interval(counted), sum(n for _, n in counted)]
            for name, units in groups.items()
            for model in ("one", "two-1")
            if (counted := shares(model, task, units))
        }
        saved = [line.split("\t") for line in two[task]["saved"][level].splitlines()]
        for head, *rows in (two[task]["levels"][level], saved):
            assert head == columns
            assert len(rows) == len(expected)
            for name, above, model, *numbers in rows:
                wanted = expected[name, above, model]
                assert [number(x) for x in numbers] == pytest.approx(wanted, abs=0.0151)
        drawn = two[task]["drawn"][level]
        assert len(drawn) == len(expected)
        for row in drawn:
            found = [100 * row["score"], 100 * row["low"], 100 * row["high"], row["n"]]
            assert found == pytest.approx(expected[row["name"], row["of"], row["series"]], abs=0.0051)


def test_orders_of_scores(two: Any) -> None:
    def score(model: str, name: str) -> float:
        ((right, n),) = shares(model, "blimp", [name])
        return right / n

    orders = two["blimp"]["orders"]
    assert orders["difference"] == sorted(PARADIGMS, key=lambda p: -(score("two-1", p) - score("one", p)))
    assert orders["spread"] == sorted(PARADIGMS, key=lambda p: -abs(score("two-1", p) - score("one", p)))
    assert orders["score"] == sorted(PARADIGMS, key=lambda p: -score("one", p))
    assert orders["name"] == sorted(PARADIGMS, key=lambda p: (PARADIGMS[p][0], p))


def common(task: str, units: list[str], *models: str) -> list[list[bool]]:
    """Outcomes of each model on the items that all of them have scored, in the same order."""
    outcomes: list[dict[Any, Any]] = [(BLIMP if task == "blimp" else SG)[model] for model in models]
    keys = [
        key
        for key in outcomes[0]
        if key[0] in units and (task == "blimp" or key[2] == 1) and None not in [of[key] for of in outcomes]
    ]
    return [[of[key] for key in keys] for of in outcomes]


def mean_of_units(task: str, units: list[str], models: tuple[str, ...]) -> list[float]:
    """Accuracies in percent: means over units, of items that all models have scored."""
    by_unit = [common(task, [unit], *models) for unit in units]
    return [100 * fmean(fmean(of[m]) for of in by_unit) for m in range(len(models))]


def mcnemar(only_a: int, only_b: int) -> float:
    n = only_a + only_b
    return min(1.0, sum(math.comb(n, k) for k in range(min(only_a, only_b) + 1)) * 2 / 2**n)


def lies(over: str, value: float, items: int, units: int) -> bool:
    """Return whether a value is within an interval as shown, or there is rightly none."""
    if items - units < 9:
        return over == "–"
    low, high = map(number, over.split(" to "))
    return low <= value <= high


def ps_of_other_evaluations(tables: dict[str, list[list[str]]], task: str) -> list[float]:
    """The p of overall scores of the page's other evaluations, from its tables of differences."""
    groups = {name for of in UNITS.values() for level in ("field", "circuit") for name in of.get(level, ())}
    return [
        number(row[-2])
        for other, (_, *rows) in tables.items()
        for row in rows
        if other != task and row[0] not in groups and row[-2] != "–"
    ]


def check_differences(
    shown: Any, task: str, rows: list[list[str]], outcomes: dict[str, str], others: list[float]
) -> None:
    """Differences of models, whose outcomes are those of others: every number, and the shades of small p.

    Rows have a group, two models, the difference, its interval, the items that one alone has right, and p;
    ``others`` are the p of the other evaluations' overall scores.
    """
    coarse = {"blimp": "field", "sg": "circuit"}[task]
    groups = {**UNITS[task]["overall"], **UNITS[task][coarse]}
    pairs = list(itertools.combinations(outcomes, 2))
    assert [tuple(row[:3]) for row in rows] == [(name, *pair) for name in groups for pair in pairs]
    ps: dict[tuple[str, str, str], float] = {}
    for name, a, b, difference, over, *only, p, _ in rows:
        scores = mean_of_units(task, groups[name], tuple(outcomes.values()))
        score = dict(zip(outcomes, scores, strict=True))
        right = dict(zip(outcomes, common(task, groups[name], *outcomes.values()), strict=True))
        assert shows(difference.removeprefix("+"), score[b] - score[a], 2)
        assert difference.startswith("+") == (score[b] > score[a])
        assert lies(over, score[b] - score[a], len(right[a]), len(groups[name]))
        only_a = sum(x and not y for x, y in zip(right[a], right[b], strict=True))
        only_b = sum(y and not x for x, y in zip(right[a], right[b], strict=True))
        assert only == [str(only_a), str(only_b)]
        ps[name, a, b] = mcnemar(only_a, only_b)
        assert number(p) == pytest.approx(ps[name, a, b], rel=2e-6, abs=5.1e-5)
    holm: dict[tuple[str, str, str], float] = {}
    for overall in (True, False):
        family = [(ps[key], key) for key in ps if (key[0] == "overall") == overall]
        family += [(p, ("", "", "")) for p in others] if overall else []
        before = 0.0
        for k, (p_of_one, key) in enumerate(sorted(family)):
            before = holm[key] = min(1.0, max(before, (len(family) - k) * p_of_one))
    expected = [holm[row[0], row[1], row[2]] for row in rows]
    assert [number(row[-1]) for row in rows] == pytest.approx(expected, rel=2e-6, abs=5.1e-5)
    assert shown["marked"] == [p < 0.05 for p in expected]
    assert task == "sg" or len(pairs) > 1 or min(ps.values()) < 0.05 < holm[("morphology", *pairs[0])]


@pytest.mark.parametrize("task", ["blimp", "sg"])
def test_differences_of_two_models(task: str, two: Any) -> None:
    shown = two[task]["differences"]
    head, *rows = shown["cells"]
    assert head == ["", "two-1 − one", "95% interval", "only one right", "only two-1 right", "p", "p (Holm)"]
    assert shown["caption"].endswith("Shaded: below 0.05 after it.")  # a note says the rest
    models = {"one": "one", "two-1": "two-1"}
    tables = {name: two[name]["differences"]["cells"] for name in ("blimp", "sg")}  # others have no p
    others = ps_of_other_evaluations(tables, task)
    check_differences(shown, task, [[name, *models, *cells] for name, *cells in rows], models, others)


def test_means_over_seeds(seeds: Any, folder: Path) -> None:
    compared = compare(by_seed([model for name in BLIMP for model in find_models(folder / name)]))
    pairs = {(each.evaluation, each.name or "overall"): each.pairs[0] for each in compared.scores}
    models = ("one", "two-1", "two-2")
    for task, coarse in (("blimp", "field"), ("sg", "circuit")):
        head, *rows = seeds[task]["means"]["cells"]
        assert head == ["", "one", "two"]
        groups = {**UNITS[task]["overall"], **UNITS[task][coarse]}
        for (_, one, two), units in zip(rows, groups.values(), strict=True):
            values = mean_of_units(task, units, models)
            assert shows(one, values[0], 2)
            mean, deviation = two.split(" ± ")
            assert shows(mean, fmean(values[1:]), 2)
            assert shows(deviation, stdev(values[1:]), 2)
        for row, units in zip(seeds[task]["differences"]["cells"][1:], groups.values(), strict=True):
            values = mean_of_units(task, units, models)
            assert shows(row[1].removeprefix("+"), fmean(values[1:]) - values[0], 2)
            pair = pairs[task, row[0]]
            assert pair.over_seeds is not None
            assert [number(x) for x in row[2].split(" to ")] == pytest.approx(pair.over_seeds, abs=0.0051)
            assert number(row[3]) == pytest.approx(pair.p, rel=2e-6, abs=5.1e-5)
        assert "only" not in "".join(seeds[task]["differences"]["cells"][0])
        assert "after it (one run against several: it is taken" in seeds[task]["differences"]["caption"]


def test_suites_by_region(two: Any) -> None:
    head, *rows = two["suites"]
    assert head == ["circuit", "suite", "one", "two-1"]
    assert [row[:2] for row in rows] == [
        ["Agreement", "agr"],
        ["Long-Distance", "fgd"],
        ["Long-Distance", "fgd-embed3"],
    ]
    for _, suite, *scores in rows:
        for text, model in zip(scores, ("one", "two-1"), strict=True):
            assert shows(text, 100 * first_predictions(model, suite), 1)
    labels = {1: "1 the dog", 2: "2 Verb"}
    for suite, shown in two["by_region"].items():
        means = {}
        assert len(shown["cells"]) == 1 + 2 * 2 * 2
        for model, condition, label, *numbers, n in shown["cells"][1:]:
            region = next(k for k, text in labels.items() if text == label)
            values = [
                bits
                for key, bits in BITS.items()
                if (*key[:2], *key[3:]) == (model, suite, condition, region)
            ]
            half = T[len(values)] * stdev(values) / len(values) ** 0.5
            means[region, condition, model] = fmean(values)
            expected = [fmean(values), fmean(values) - half, fmean(values) + half]
            assert [number(x) for x in numbers] == pytest.approx(expected, abs=0.00051)
            assert n == str(len(values))
        assert shown["formulas"] == [
            "gap[2 Verb] < no-gap[2 Verb]",
            *(["(gap[1 the dog] + 1) < no-gap[all]"] if suite == "fgd" else []),
        ]
        terms = [("2 Verb", "gap"), ("2 Verb", "no-gap"), *([("1 the dog", "gap")] if suite == "fgd" else [])]
        assert [tuple(row[:2]) for row in shown["terms"][1:]] == terms
        for label, condition, *numbers in shown["terms"][1:]:
            region = next(k for k, text in labels.items() if text == label)
            for text, model in zip(numbers, ("one", "two-1"), strict=True):
                assert shows(text, round(means[region, condition, model], 3), 2)


def test_sentences_without_surprisals_are_in_no_mean(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "one" / "sg", tmp_path / "sg")
    file = tmp_path / "sg" / "strings.parquet"
    table = pq.read_table(file)
    rows = [
        {**row, "bits": None if row["string"] == "gap" and int(row["item"]) < 3 else row["bits"]}
        for row in table.to_pylist()
    ]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
    regions = results_page([str(tmp_path / "sg")]).packed["regions"]
    for suite, (_, items) in SUITES.items():
        shown = [dict(zip(regions["columns"], row, strict=True)) for row in regions["rows"][suite]]
        assert len(shown) == 2 * 2
        for row in shown:
            known = range(3 if row["condition"] == "gap" else 1, items + 1)
            values = [BITS["one", suite, item, row["condition"], row["region"]] for item in known]
            assert (row["n"], row["mean"]) == (len(values), round(fmean(values), 3))


def counts(outcomes: list[dict[Any, Any]], models: tuple[str, ...]) -> dict[str, int]:
    """How many items each choice of the list has."""
    rows = list(zip(*(of.values() for of in outcomes), strict=True))
    found = {"all": len(rows), "that models disagree on": sum(len(set(row)) > 1 for row in rows)}
    for m, name in enumerate(models):
        others = [row[:m] + row[m + 1 :] for row in rows]
        found[f"only {name} right"] = sum(
            r[m] is True and set(o) == {False} for r, o in zip(rows, others, strict=True)
        )
        found[f"only {name} wrong"] = sum(
            r[m] is False and set(o) == {True} for r, o in zip(rows, others, strict=True)
        )
    found["none right"] = sum(set(row) == {False} for row in rows)
    found["all right"] = sum(set(row) == {True} for row in rows)
    return found


@pytest.mark.parametrize("task", ["blimp", "sg"])
def test_items_that_are_chosen(task: str, two: Any, seeds: Any) -> None:
    outcomes: dict[str, dict[Any, Any]] = BLIMP if task == "blimp" else SG
    for page, models in ((two, ("one", "two-1")), (seeds, ("one", "two-1", "two-2"))):
        items = page[f"{task}-items"]
        expected = counts([outcomes[model] for model in models], models)
        total = expected["all"]
        assert items["title"] == f"Items, one by one ({total})"
        assert items["found"] == {name: f"{n} of {total} items" for name, n in expected.items()}
        assert len(set(items["listed"])) == len(items["listed"]) == total > 20  # on several pages
        units = {key[0] for key in outcomes["one"]}
        sizes = {unit: sum(key[0] == unit for key in outcomes["one"]) for unit in units}
        assert items["groups"] == {
            "": f"{total} of {total} items",
            **{u: f"{n} of {total} items" for u, n in sizes.items()},
        }


def test_margins_of_pairs(tmp_path: Path) -> None:
    for model in ("one", "two-1"):
        write(tmp_path / model, model, 1, model, margins=True)
    page = results_page([str(tmp_path / "one"), str(tmp_path / "two-1")])
    items = evaluate(save_page(page, tmp_path / "two.html"), PROGRAM)["blimp-items"]
    keys = list(BLIMP["one"])
    bits = {
        model: {
            key: None if right is None else MARGINS[model][key] / math.log(2) * (1 if right else -1)
            for key, right in BLIMP[model].items()
        }
        for model in ("one", "two-1")
    }
    said = {True: "right", False: "wrong", None: "no score"}
    assert len(items["sorted"]["their order"]) == 1 + 20
    for row, key in zip(items["sorted"]["their order"][1:], keys, strict=False):
        assert row[0] == f"{key[0]} {key[1]}"
        for m, model in enumerate(("one", "two-1")):
            assert row[2 + m] == said[BLIMP[model][key]]
            assert shows(row[4 + m], bits[model][key], 2)
    for model in bits:
        ordered = sorted(keys, key=lambda key: _margin(model, key))[:20]
        shown = [row[0] for row in items["sorted"][f"margin of {model}"][1:]]
        assert shown == [f"{paradigm} {pair}" for paradigm, pair in ordered]
    models = "--model 'runs/one'\\''s' --model 'runs/two-1'\\''s'"
    assert items["command"] == f"pdtools view --pair 'good agr_1 0' 'bad agr_1 0' {models} -o pair.html"


def test_any_choices_in_a_list_of_items(tmp_path: Path) -> None:
    """Sixty changes, one after the other: which items, of which group, in which order, with which words."""
    models = ("one", "two-1", "two-2")
    for model in models:
        write(tmp_path / model, model, 1, model, margins=True)
    page = results_page([str(tmp_path / model) for model in models])
    rng = np.random.default_rng(3)
    shows_of = ["", "differ", "none", "every", *(f"{what}-{m}" for what in ("only", "not") for m in range(3))]
    choices: dict[str, list[str]] = {
        "show": [*[""] * 20, *shows_of],
        "group": [*[""] * 9, *PARADIGMS],
        "sort": ["", "0", "1", "2"],
        "find": [*[""] * 9, "good", "AGR", "bad islands 1", "1"],
        "turn": ["next →"] * 3 + ["← previous"],
    }
    names = rng.choice(list(choices), 60).tolist()
    steps = [[name, str(rng.choice(choices[name]))] for name in names]
    found = evaluate(
        save_page(page, tmp_path / "three.html"),
        f"const steps = {json.dumps(steps)};" + program("items_page"),
    )
    now, at, pages = dict.fromkeys(choices, ""), 0, 0
    for (name, value), (said, listed) in zip(steps, found, strict=True):
        now[name], at = value, at + (1 if value == "next →" else -1) if name == "turn" else 0
        test, _, model = now["show"].partition("-")
        kept = []
        for key in BLIMP["one"]:
            right = [BLIMP[each][key] for each in models]
            others = {each for m, each in enumerate(right) if not model or m != int(model)}
            holds = {
                "": True,
                "differ": len(set(right)) > 1,
                "none": set(right) == {False},
                "every": set(right) == {True},
                "only": bool(model) and right[int(model or 0)] is True and others == {False},
                "not": bool(model) and right[int(model or 0)] is False and others == {True},
            }[test]
            texts = [f"{side} {key[0]} {key[1]}" for side in ("good", "bad")]
            has_words = any(now["find"].lower() in text for text in texts)
            if holds and has_words and now["group"] in ("", key[0]):
                kept.append(key)
        if now["sort"]:
            kept.sort(key=lambda key: _margin(models[int(now["sort"])], key))
        at = min(max(at, 0), max(0, (len(kept) - 1) // 20))
        pages += at > 0
        assert said == f"{len(kept)} of {len(BLIMP['one'])} items", (name, value)
        assert listed == [f"{paradigm} {pair}" for paradigm, pair in kept[20 * at : 20 * at + 20]], now
    assert pages > 2


def _margin(model: str, key: tuple[str, int]) -> float:
    """The margin that a page sorts by: two digits, and none is the largest."""
    right = BLIMP[model][key]
    return math.inf if right is None else round(MARGINS[model][key] / math.log(2) * (1 if right else -1), 2)


def test_surprisals_of_items(two: Any) -> None:
    unscored = 0
    for key, opened in zip(BLIMP["one"], two["blimp-items"]["opened"], strict=False):
        expected = [
            (side, TOKENS[model, key, side])
            for model, side in itertools.product(("one", "two-1"), ("good", "bad"))
            if BLIMP[model][key] is not None
        ]
        unscored += len(expected) < 4
        for found, (side, tokens) in zip(opened, expected, strict=True):
            check_surprisals(found, side, tokens)
    assert unscored
    for (suite, item, _), opened in zip(SG["one"], two["sg-items"]["opened"], strict=False):
        sides = itertools.product(WORDS, ("one", "two-1"))
        for found, (condition, model) in zip(opened, sides, strict=True):
            bits = [BITS[model, suite, item, condition, region] for region in (1, 2)]
            check_surprisals(found, model, list(zip(words_of(condition, item), bits, strict=True)))


def test_a_string_without_one_of_its_surprisals_shows_none(folder: Path, tmp_path: Path) -> None:
    """A region that was not searched is no 0 bits: the model's surprisals of that string are left out."""
    for name in ("one", "two-1"):
        shutil.copytree(folder / name / "sg", tmp_path / name / "sg")
    file = tmp_path / "one" / "sg" / f"{STRINGS_TABLE}.parquet"
    rows = pq.read_table(file).to_pylist()
    (row,) = (r for r in rows if (r["suite"], r["item"], r["string"], r["region"]) == ("agr", "1", "gap", 2))
    row["bits"] = None
    pq.write_table(pa.Table.from_pylist(rows), file)
    page = results_page([str(tmp_path / name / "sg") for name in ("one", "two-1")])
    shown = (
        "const items = one('#sg').querySelectorAll('details').find((x) => x.textContent.startsWith('Items'));"
        "items.open = true; await later(); await later();"
        "items.querySelectorAll('tbody button.link')[0].click();"
        "return items.querySelectorAll('tr .item b').map((each) => each.textContent);"
    )
    found = evaluate(save_page(page, tmp_path / "two.html"), shown)
    assert [each.partition(" ")[0] for each in found] == ["two-1", "one", "two-1"]


def test_any_number_on_a_page(folder: Path, tmp_path: Path) -> None:
    """The formats that all pages share, of numbers of any size, and of those beside each other."""
    rng = np.random.default_rng(8)
    numbers = [0.0, 1.0, -0.004, 0.99996, *(rng.normal(size=80) * 10.0 ** rng.integers(-7, 4, 80)).tolist()]
    page = results_page([str(folder / "one" / "blimp")])
    found = evaluate(
        save_page(page, tmp_path / "one.html"),
        f"return {json.dumps(numbers)}.map((x, i, all) => [digits(x, 3), signed(x), percent(x),"
        " probability(Math.abs(x)), cells(table(['x'], [[x]]))[1][0],"
        " decimals(x, all[(i + 1) % all.length])]);",
    )
    for i, (x, (fixed, with_sign, share, p, cell, places)) in enumerate(zip(numbers, found, strict=True)):
        assert shows(fixed, x, 3)
        assert shows(with_sign.removeprefix("+"), x, 2)
        assert with_sign.startswith("+") == (x > 0)
        assert shows(share, 100 * x, 1)
        if abs(x) >= 1e-4:
            assert shows(p, abs(x), 4)
        else:
            assert p == "< 1e−300" if x == 0 else number(p) == pytest.approx(abs(x), rel=0.051)
        assert places == decimals(x, numbers[(i + 1) % len(numbers)])
        assert number(cell) == pytest.approx(x, rel=0.051, abs=5e-8 if abs(x) < 1 else 5e-4)
        assert not any(re.fullmatch("−[0.]*", text) for text in (fixed, with_sign, share, cell))


def check_surprisals(found: Any, name: str, tokens: list[tuple[str, float]]) -> None:
    """Of a sentence: the sum, and each token (or region) with its own."""
    said, total = found["of"].removesuffix(":").split(" ")
    assert said == name
    assert shows(total, sum(round(bits, 2) for _, bits in tokens), 1)
    for (text, bits), (token, expected) in zip(found["tokens"], tokens, strict=True):
        assert text == f"{token} "
        assert shows(bits, round(expected, 2), 1)


def test_f1_of_sentences(two: Any) -> None:
    rows = two["parse-items"]["sorted"]["their order"][1:]
    for line, row in enumerate(rows):
        assert row[0] == str(line + 1)
        for text, model in zip(row[-2:], ("one", "two-1"), strict=True):
            matched, gold, predicted = map(int, BRACKETS[model][line])
            assert shows(text, 200 * matched / (gold + predicted), 1)
    values = [200 * m / (g + p) for m, g, p in BRACKETS["two-1"]]
    shown = [int(row[0]) - 1 for row in two["parse-items"]["sorted"]["score of two-1"][1:]]
    assert [round(values[k], 1) for k in shown] == sorted(round(x, 1) for x in values)


THREE = ("one", "two-1", "three")  # the third has the outcomes of "two-2"


@pytest.fixture(scope="module")
def three(folder: Path) -> Any:
    """The page of three models, trained each in its own way."""
    write(folder / "three", "two-2", 2, "z")
    page = results_page([str(folder / name) for name in THREE])
    return evaluate(save_page(page, folder / "three.html"), program("three_models_page"))


@pytest.mark.parametrize("task", ["blimp", "sg"])
def test_differences_of_three_models(task: str, three: Any) -> None:
    shown = three[task]
    head, *rows = shown["cells"]
    assert head == ["", "A", "B", "B − A", "95% interval", "only A right", "only B right", "p", "p (Holm)"]
    tables = {name: three[name]["cells"] for name in ("blimp", "sg", "parse", "reading")}
    others = ps_of_other_evaluations(tables, task)
    assert len(others) == 3
    check_differences(shown, task, rows, {"one": "one", "two-1": "two-1", "three": "two-2"}, others)
    coarse = {"blimp": "field", "sg": "circuit"}[task]
    families = (
        f"for the {3 + len(others)} comparisons of overall scores of all evaluations,"
        f" and separately the {3 * len(UNITS[task][coarse])}"
    )
    assert f"{families} comparisons by {coarse}. Shaded" in shown["caption"]
    assert "p: McNemar, exact, two-sided." in shown["caption"]


def test_differences_of_several_overall_scores(three: Any) -> None:
    pairs = list(itertools.combinations(THREE, 2))
    names = [f"reading times, ΔLL (nats a word), {name}" for name in ("small", "large")]
    rows = three["reading"]["cells"][1:]
    assert [row[:3] for row in rows] == [[name, *pair] for name in names for pair in pairs]
    assert [row[0] for row in three["parse"]["cells"][1:]] == ["overall"] * 3
    for (_, _, b, difference, *_), a in zip(
        three["parse"]["cells"][1:], ("one", "one", "two-1"), strict=True
    ):
        of_a, of_b = (f1(*BRACKETS["two-2" if m == "three" else m].sum(0)) for m in (a, b))
        assert shows(difference.removeprefix("+"), of_b - of_a, 2)


def test_seeds_before_another_model(folder: Path, three: Any) -> None:
    """The difference that charts are sorted by is of two models, not of two seeds; each test is named."""
    assert three
    page = results_page([str(folder / name / "blimp") for name in ("two-1", "two-2", "one", "three")])
    found = evaluate(
        save_page(page, folder / "four.html"),
        state="blimp-runs=each",
        program="const section = one('#blimp');"
        "const notes = section.querySelectorAll('p.soft').map((x) => x.textContent);"
        "return [section.querySelectorAll('select')[1].querySelectorAll('option').map((x) => x.textContent),"
        " section.querySelector('.chart').spec.layer.at(-1).encoding.y.sort,"
        " notes.find((x) => x.startsWith('Intervals')), notes.find((x) => x.startsWith('±'))];",
    )
    assert found[0][:2] == ["difference one − two-1", "spread of all models"]
    score = {m: {p: accuracy(BLIMP[m], p) for p in PARADIGMS} for m in BLIMP}
    assert found[1] == sorted(PARADIGMS, key=lambda p: score["two-1"][p] - score["one"][p])
    assert re.search(r"p: Student's t over the seeds of one group[^;]*; McNemar, exact, two-sided", found[2])
    assert "Intervals: 95%, over seeds and items" in found[2]
    assert found[3].startswith("± standard deviation (n − 1)")


@pytest.mark.parametrize("task", ["blimp", "sg"])
def test_groups_of_seeds_are_one_dot(task: str, folder: Path) -> None:
    """Its mean and interval are those of compare; a model without other seeds is as on other pages."""
    page = results_page([str(folder / name) for name in BLIMP])
    models = [model for name in BLIMP for model in find_models(folder / name)]
    compared = compare(by_seed(models))
    scores = {(e.evaluation, e.level, e.name or "overall"): e for e in compared.scores}
    benchmark = next(each for each in page.document["benchmarks"] if each["task"] == task)
    grouped = benchmark["grouped"]
    assert grouped["models"] == ["one", "two"]
    assert list(grouped["levels"]) == list(UNITS[task])
    for level, rows in grouped["levels"].items():
        assert {(r["name"], r["series"]) for r in rows} == {
            (n, m) for n in UNITS[task][level] for m in ("one", "two")
        }
        for row in rows:
            ends = [row[name] for name in ("score", "low", "high")]
            if row["series"] == "one":
                assert row in benchmark["levels"][level]
                continue
            group = scores[task, level, row["name"]].groups[1]
            low, high = (min(max(x / 100, 0), 1) for x in group.over_seeds or 2 * (group.mean,))
            assert ends == pytest.approx([group.mean / 100, low, high], rel=2e-6, abs=5.1e-5)
            assert row["n"] == scores[task, level, row["name"]].items
    figures = results.figures(page)
    for level, rows in grouped["levels"].items():
        chart = figures.charts[f"{task}-{level}"]
        assert chart["data"]["values"] == rows
        assert chart["layer"][-1]["encoding"]["color"]["scale"]["domain"] == ["one", "two"]
        assert len(figures.tables[f"{task}-{level}"][1]) == len(rows)
    if task == "sg":
        for suite, (_, n) in SUITES.items():
            drawn = figures.charts[f"sg-suite-{suite}"]["data"]["values"]
            assert len(drawn) == 2 * 2 * 2
            for row in drawn:
                seeds = ("two-1", "two-2") if row["series"] == "two" else ("one",)
                values = [
                    fmean(BITS[m, suite, item, row["condition"], row["region"]] for m in seeds)
                    for item in range(1, n + 1)
                ]
                half = T[n] * stdev(values) / n**0.5
                expected = [fmean(values), fmean(values) - half, fmean(values) + half]
                assert [row[x] for x in ("mean", "low", "high")] == pytest.approx(expected, abs=0.00051)
                assert row["n"] == n


def test_seeds_of_other_items_stay_single_runs(tmp_path: Path) -> None:
    """Without a comparison there is no group: each run is drawn."""
    right = np.random.default_rng(1).random((2, 3, 4)) < 0.6
    for seed, of_model in enumerate(right):
        write_blimp(tmp_path / f"a-{seed}" / "blimp", of_model[: 2 + seed], seed, training="x")
    page = results_page([str(tmp_path / f"a-{seed}") for seed in range(2)])
    assert page.document["groups"] == {"a": ["a-0", "a-1"]}
    assert "grouped" not in page.document["benchmarks"][0]


def test_items_that_are_looked_for(three: Any) -> None:
    assert three["search"] == {
        "BAD agr_1": [f"agr_1 {pair}" for pair in range(PARADIGMS["agr_1"][2])],
        "good binding 8": ["binding 8"],
        "nothing": [],
    }
    assert three["pager"] == ["page 2 of 3"]
    assert three["gold"] == "(S gold 1)"
    trees = {"gold tree": "gold 4", "one": "one 4", "two-1": "two-1 4", "three": "two-2 4"}
    assert three["trees"] == [[name, f"(S {tree})"] for name, tree in trees.items()]
    items = [key for key in SG["one"] if key[0] == "fgd"]
    assert three["listed"] == [f"fgd {item}{', prediction 2' * (n == 2)}" for _, item, n in items]
    assert three["first_conditions"] == [f"gap: {' '.join(words_of('gap', item))}" for _, item, _ in items]
    of = {m: GAINS["two-2" if m == "three" else m] for m in THREE}
    gains = [(f"{m}: {name}", *gain) for m, each in of.items() for name, gain in each.items()]
    assert three["gains"][0] == ["model", "ΔLL", "from", "to", "words"]
    for (name, *numbers, words), (series, *expected, n) in zip(three["gains"][1:], gains, strict=True):
        assert (name, words) == (series, str(n))
        assert [number(x) for x in numbers] == pytest.approx(expected, abs=5.1e-4)


def test_a_page_of_items_beyond_the_last_is_the_last(folder: Path, three: Any) -> None:
    assert three
    program = (
        "while (!all('#blimp .found').length) await later();"
        "return [all('#blimp .controls .soft')[0].textContent, all('#blimp tbody button.link').length];"
    )
    assert evaluate(folder / "three.html", program, "blimp-page=9") == ["page 3 of 3", 48 - 2 * 20]


def test_a_sample_of_items_has_those_that_models_disagree_on(folder: Path) -> None:
    paths = [str(folder / name) for name in ("one", "two-1")]
    whole = results_page(paths)
    rows = list(zip(*(of.values() for of in (BLIMP["one"], BLIMP["two-1"])), strict=True))
    differ = {k for k, row in enumerate(rows) if len(set(row)) > 1}
    every = whole.packed["items-blimp"]
    names = [every["groups"][group] + id for group, id in zip(every["group"], every["id"], strict=True)]
    for most in (len(differ) - 3, len(differ) + 3):
        page = results_page(paths, most_items=most)
        items = page.packed["items-blimp"]
        kept = [items["groups"][group] + id for group, id in zip(items["group"], items["id"], strict=True)]
        found = [names.index(name) for name in kept]
        assert len(found) == most
        assert found == sorted(found)
        assert len(differ & set(found)) == min(most, len(differ))
        some = f"a sample of {most}" if most < len(differ) else f"all {len(differ)}"
        assert f"holds {most} of {len(rows)} items, {some} that models disagree on" in page.notes[0]
        assert page.document["benchmarks"][0]["levels"] == whole.document["benchmarks"][0]["levels"]


def test_a_sample_of_items_of_which_some_models_have_no_score(tmp_path: Path) -> None:
    """Models disagree where one of them has a score and another none; not where none has one."""
    outcomes = {
        "a": [True, None, None, True, False, None, True, True],
        "b": [True, None, True, False, False, None, True, True],
        "c": [True, None, None, True, False, None, True, None],
    }
    for name, of_model in outcomes.items():
        folder = tmp_path / name / "blimp"
        write_blimp(folder, np.array([[bool(right) for right in of_model]]))
        table = pq.read_table(folder / "items.parquet")
        place = table.column_names.index("correct")
        pq.write_table(table.set_column(place, "correct", pa.array(of_model)), folder / "items.parquet")
    page = results_page([str(tmp_path / name) for name in outcomes], most_items=3)
    assert page.packed["items-blimp"]["id"] == ["2", "3", "7"]
    assert "holds 3 of 8 items, all 3 that models disagree on" in page.notes[0]


def test_items_without_a_drawing_of_their_own() -> None:
    """Named by what is left of their key within their unit; the texts of the first model are listed."""
    outcomes = Outcomes(
        score="overall", counted="items", key=("kind", "item", "k"), content=("q", "a"), unit="kind"
    )
    rows = {"kind": ["y", "x", "y"], "item": [3, 1, 2], "k": ["b", "a", "c"]}
    rows |= {"q@0": ["q1", "q2", "q3"], "a@0": ["a1", "a2", "a3"], "q@1": [None] * 3, "a@1": [None] * 3}
    rows |= {"correct@0": [True, None, False], "correct@1": [float("nan"), 1.0, 0.0]}
    other: Any = SimpleNamespace(strings=None)  # of another package
    found = listed_items(outcomes, pd.DataFrame(rows), [other, other])
    assert found == {
        "groups": ["x", "y"],
        "group": [1, 0, 1],
        "id": ["3 b", "1 a", "2 c"],
        "texts": {"q": ["q1", "q2", "q3"], "a": ["a1", "a2", "a3"]},
        "listed": 2,
        "outcomes": [[1, None, 0], [None, 1, 0]],
    }
    alone = listed_items(replace(outcomes, key=("kind",)), pd.DataFrame(rows), [other])
    assert alone["id"] == rows["kind"]


def test_groups_of_seeds_beside_a_model_of_their_name(tmp_path: Path) -> None:
    """Three runs, one that is called like them, and one more: each group's number of runs, and the seed."""
    rng = np.random.default_rng(5)
    for seed, name in enumerate(("x-1", "x-2", "x-3", "x", "y")):
        training = "alike" if name.startswith("x-") else None
        write_blimp(tmp_path / name / "blimp", rng.random((4, 9)) < 0.6, seed, training=training)
    paths = [str(path) for path in sorted(tmp_path.iterdir())]
    page = results_page(paths)
    assert page.document["groups"] == {"x": ["x"], "x-1, x-2, x-3": ["x-1", "x-2", "x-3"], "y": ["y"]}
    of = {row["model"]: row["runs"] for row in page.document["benchmarks"][0]["pairs"]["means"]}
    assert of == {"x": 1, "x-1, x-2, x-3": 3, "y": 1}

    def ends(seed: int) -> list[Any]:
        rows = results_page(paths, seed=seed).document["benchmarks"][0]["pairs"]["rows"]
        return [(row["low"], row["high"]) for row in rows if {row["a"], row["b"]} == {"x", "y"}]

    assert ends(1) == ends(1)
    assert ends(1) != ends(2)


@pytest.mark.parametrize("without", ["a", "b"])
def test_tokens_of_the_models_that_have_them(without: str, tmp_path: Path) -> None:
    """Published scores have no surprisals of tokens; nor has a sentence without a score."""
    for name in "ab":
        write_blimp(tmp_path / name / "blimp", np.ones((1, 2), dtype=bool))
    file = tmp_path / without / "blimp" / "strings.parquet"
    table = pq.read_table(file)
    at = table.column_names.index("surprisals")
    pq.write_table(table.set_column(at, "surprisals", pa.nulls(len(table))), file)
    other = tmp_path / ("b" if without == "a" else "a") / "blimp" / "strings.parquet"
    rows = pq.read_table(other).to_pylist()
    rows[3]["surprisals"] = None
    rows[0]["surprisals"][2]["bits"] = None
    pq.write_table(pa.Table.from_pylist(rows), other)
    items = results_page([str(tmp_path / name) for name in "ab"]).packed["items-blimp"]
    assert list(items["tokens"]) == [str("ab".index(other.parts[-3]))]
    ((first, second),) = items["tokens"].values()
    words = [token["token"] for token in rows[0]["surprisals"]]
    bits = [token["bits"] for token in rows[0]["surprisals"]]
    assert first[0][0] == words
    expected = [None if each is None else round(each, 2) for each in bits]
    assert first[0][1] == expected
    assert expected.count(None) == 1
    assert second[1] is None


def test_the_first_items_have_their_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdtools.report.view.drawing.MOST_WITH_TOKENS", 2)
    write_blimp(tmp_path / "a" / "blimp", np.ones((1, 3), dtype=bool))
    items = results_page([str(tmp_path / "a")]).packed["items-blimp"]
    assert [" ".join(good[0]) for good, _ in items["tokens"]["0"]] == items["texts"]["good"][:2]


@pytest.mark.parametrize("without", ["a", "b"])
def test_sentences_without_brackets_and_models_without_trees(without: str, tmp_path: Path) -> None:
    for name in "ab":
        rows = [
            {"line": line, "matched": matched, "gold": gold, "predicted": predicted}
            | {"gold_tree": f"(S {line})"}
            | ({} if name == without else {"predicted_tree": f"({name} {line})"})
            for line, (matched, gold, predicted) in enumerate([(0, 0, 0), (1, 3, 1), (0, 0, 2)], 1)
        ]
        found = Results(
            scores={"f1": 50.0},
            counts={"scored": 3},
            settings={"task": "parse", "labeled": True, "binarize": "none"},
            tables={ITEMS: pa.Table.from_pylist(rows)},
        )
        write_results(tmp_path / name / "parse", found, {})
    items = results_page([str(tmp_path / name) for name in "ab"]).packed["items-parse"]
    assert items["outcomes"] == [[None, 50.0, 0.0]] * 2
    other = "b" if without == "a" else "a"
    assert items["texts"] == {
        "gold tree": ["(S 1)", "(S 2)", "(S 3)"],
        other: [f"({other} {line})" for line in (1, 2, 3)],
    }


def test_only_items_that_all_models_have(folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two-1"):
        shutil.copytree(folder / name / "blimp", tmp_path / name / "blimp")
    file = tmp_path / "two-1" / "blimp" / "items.parquet"
    pq.write_table(pq.read_table(file).slice(5), file)
    page = results_page([str(tmp_path / name / "blimp") for name in ("one", "two-1")])
    n = len(BLIMP["one"])
    assert page.notes[0] == f"BLiMP: only the {n - 5} of {n} items that all models have"
    other = results_page([str(tmp_path / name / "blimp") for name in ("two-1", "one")])  # with fewer first
    assert other.notes[0] == page.notes[0]
    (row, _) = page.document["benchmarks"][0]["levels"]["paradigm"][:2]
    left = [right for key, right in list(BLIMP["one"].items())[5:] if key[0] == "agr_1" and right is not None]
    assert (row["name"], row["series"], row["n"]) == ("agr_1", "one", len(left))
    assert row["score"] == pytest.approx(fmean(left), rel=2e-6, abs=1e-4)


def test_models_of_other_items_are_excluded_from_differences_and_said(tmp_path: Path) -> None:
    right = np.random.default_rng(7).random((3, 4, 5)) < 0.6
    for name, of_model in zip("abc", right, strict=True):
        write_blimp(tmp_path / name / "blimp", of_model)
    file = tmp_path / "b" / "blimp" / "items.parquet"
    pq.write_table(pq.read_table(file).slice(5), file)
    page = results_page([str(tmp_path / name) for name in "abc"])
    pairs = page.document["benchmarks"][0]["pairs"]
    assert {(row["a"], row["b"]) for row in pairs["rows"]} == {("a", "c")}
    overall = pairs["rows"][0]
    assert overall["difference"] == pytest.approx(100 * (right[2].mean() - right[0].mean()))
    assert overall["family"] == 1
    assert pairs["notes"][1:] == [f"BLiMP accuracy (%): {FEW_ITEMS}"]  # by field
    note = pairs["notes"][0]
    assert f"{tmp_path / 'b' / 'blimp'} are not about the same items" in note


LABELS = {
    f"ppl_word{less}_{name}": f"perplexity per word{' without end-of-sentence' if less else ''}, {said}"
    for less in ("", "_without_eos")
    for name, said in (("given_trees", "given the trees"), ("joint", "joint"), ("marginal", "marginal"))
}


@pytest.mark.parametrize("seed", range(10))
def test_any_main_scores_are_in_the_overview(seed: int, tmp_path: Path) -> None:
    """Of results with and without bounds, seeds, and some of the scores; in tables of figures too."""
    rng = np.random.default_rng(seed)
    runs = {"m-1": "alike", "m-2": "alike", "m-3": "alike", "x": None, "y": None}
    values: dict[str, dict[str, float]] = {}
    over: dict[str, dict[str, str]] = {}
    for place, (model, training) in enumerate(runs.items()):
        made: Any = {"path": f"runs/{model}", "sha256": {"model.safetensors": "ab" * 32}}
        made |= {"training": {"seed": place, "sha256": training}} if training else {}
        if training or rng.random() < 0.7 or model == "y":
            found = {name: float(rng.uniform(0.5, 90)) for name in LABELS if rng.random() < 0.8}
            found |= {"ppl_word_joint": 7.0, "ppl_word_given_trees": 7.0} if rng.random() < 0.4 else {}
            beam = [None, 10, 30][rng.integers(3)]
            counts = {"sentences": 8 + place, "words": 50 + place, "words_without_eos": 42}
            results_of = Results(
                scores=found,
                counts=counts,
                settings={"task": "ppl", **({} if beam is None else {"beam": beam})},
                tables={ITEMS: pa.table({"id": [0]})},
            )
            write_results(tmp_path / model / "ppl", results_of, {"inputs": {"model": made}})
            has_joint = found.get("ppl_word_joint") not in (None, found.get("ppl_word_given_trees"))
            for name, value in found.items():
                if not has_joint and name.endswith("joint"):
                    continue
                values.setdefault(LABELS[name], {})[model] = value
                words = counts["words_without_eos" if "without" in name else "words"]
                is_bound = name.endswith("marginal") and beam is not None
                said = f"{counts['sentences']} sentences; {words} words"
                said += f"; upper bound at beam {beam}" if is_bound else ""
                over.setdefault(LABELS[name], {})[model] = said
        if training or rng.random() < 0.7 or model == "x":
            share = float(rng.uniform(0, 0.009 if seed % 2 else 0.9))
            results_of = Results(
                scores={"accuracy": share, "intervals": None},
                counts={"items_labelled": 9},
                settings={"task": "classify", "prompt_task": "rte", "metric": "accuracy"},
                tables={ITEMS: pa.table({"item": ["a"], "label": ["x"], "predicted": ["x"]})},
            )
            write_results(tmp_path / model / "classify", results_of, {"inputs": {"model": made}})
            values.setdefault("rte, accuracy (%)", {})[model] = 100 * share
            over.setdefault("rte, accuracy (%)", {})[model] = "9 items"
    page = results_page([str(tmp_path / name) for name in runs])
    assert page.document["groups"] == {"m": ["m-1", "m-2", "m-3"], "x": ["x"], "y": ["y"]}
    rows = {row["score"]: row for row in page.document["overview"]}
    assert {*rows} == {*values}
    tables = results.figures(page).tables
    columns, cells = tables["overview"]
    assert (columns, len(cells)) == (["score", *runs], len(values))
    names, of_groups = tables["scores"]
    assert [row[:2] for row in of_groups] == [["m", 3], ["x", 1], ["y", 1]]
    for score, (named, *shown), of_score in zip(rows, cells, names[2:], strict=True):
        bounds = {said.rpartition("; ")[2] for said in over[score].values() if "bound" in said}
        for label in (named, of_score):
            assert label.startswith(score)
            assert ("bound" in label) == bool(bounds)
            assert all(bound in label for bound in bounds)
        row, known = rows[score], values[score]
        assert shown == row["values"] == [known.get(name) for name in runs]
        assert row["over"] == [over[score].get(name) for name in runs]
        is_ppl = "perplexity" in score
        for at, (group, members) in enumerate(page.document["groups"].items()):
            cell = of_groups[at][names.index(of_score)]
            own = [known[name] for name in members if name in known]
            if not own:
                assert (group in row["means"], cell) == (False, None)
                continue
            used = [math.log(value) for value in own] if is_ppl else own
            mean = math.exp(fmean(used)) if is_ppl else fmean(used)
            spread = stdev(used) * (mean if is_ppl else 1) if len(own) > 1 else None
            assert row["means"][group] == (pytest.approx(mean), spread and pytest.approx(spread))
            digits = 2 if max(each[0] for each in row["means"].values()) >= 1 else None
            if digits is not None:
                assert cell == f"{mean:.2f}" + ("" if spread is None else f" ± {spread:.2f}")
            else:  # three digits of the smallest, at least four decimals
                assert len(cell.partition(" ")[0].partition(".")[2]) >= 4
                assert float(cell.partition(" ")[0]) == pytest.approx(mean, rel=6e-3)


@pytest.mark.parametrize("seed", range(6))
def test_any_checkpoints_of_runs_are_curves_and_only_the_last_are_compared(seed: int, tmp_path: Path) -> None:
    """Two checkpoints of a run are compared too, of three or more the last alone; and it is said."""
    rng = np.random.default_rng(seed)
    steps = {
        name: sorted(rng.choice(9, n, replace=False).tolist())
        for name, n in zip("abc", (4, 2, 1), strict=True)
    }
    if seed % 2:
        steps["b"] = [1, 3, 5]
    has_words = bool(seed % 3)
    paths, scores = [], {}
    for run_name, of_run in steps.items():
        for step in of_run:
            right = rng.random((3, 8)) < 0.6
            write_blimp(folder := tmp_path / f"{run_name}-at-{step}" / "blimp", right)
            document = json.loads((folder / "results.json").read_text())
            about = {"path": f"runs/{run_name}/step-{step}", "step": step}
            document["provenance"]["inputs"]["model"] |= about | ({"words": 7 * step} if has_words else {})
            (folder / "results.json").write_text(json.dumps(document))
            paths.append(folder.parent)
            scores[run_name, (7 if has_words else 1) * step] = 100 * right.mean()
    rng.shuffle(paths)
    page = results_page(list(map(str, paths)))
    (benchmark,) = page.document["benchmarks"]
    left = {f"{name}-at-{step}" for name, of in steps.items() for step in (of[-1:] if len(of) > 2 else of)}
    pairs = {frozenset((row["a"], row["b"])) for row in benchmark["pairs"]["rows"]}
    assert pairs == set(map(frozenset, itertools.combinations(left, 2)))
    assert "BLiMP: of a run, only its last checkpoint is compared with others" in page.notes
    (curve,) = page.document["curves"]
    assert curve["x"] == ("words read" if has_words else "step")
    wanted = [{"series": name, "x": x, "y": pytest.approx(y)} for (name, x), y in sorted(scores.items())]
    assert curve["rows"] == wanted
    assert {row["series"] for row in benchmark["levels"]["overall"]} == {path.name for path in paths}


def test_figures_of_results(folder: Path) -> None:
    """All that is drawn and listed, of groups, pairs, suites and gains."""
    names = ("one", "two-1", "two-2")
    page = results_page([str(folder / name) for name in names])
    assert [each["task"] for each in page.document["benchmarks"]] == ["blimp", "sg", "parse", "reading"]
    figures = results.figures(page)
    models = [model for name in names for model in find_models(folder / name)]
    compared = compare(by_seed(models))
    for name, *values in figures.tables["overview"][1]:
        assert values == pytest.approx([main_scores(model)[name] for model in names])
    for task, coarse in (("blimp", "field"), ("sg", "circuit")):
        for level, groups in UNITS[task].items():
            chart = figures.charts[f"{task}-runs-{level}"]
            rows = {(row["name"], row["series"]): row for row in chart["data"]["values"]}
            expected = {(group, m): shares(m, task, units) for group, units in groups.items() for m in names}
            assert set(rows) == set(expected)
            for key, counted in expected.items():
                found = [100 * rows[key][each] for each in ("score", "low", "high")]
                assert found == pytest.approx(interval(counted), abs=0.0051)
                assert rows[key]["n"] == sum(n for _, n in counted)
            for name, model, *numbers in figures.tables[f"{task}-runs-{level}"][1]:
                counted = expected[name, model]
                wanted = [*interval(counted), sum(of for _, of in counted)]
                assert numbers == pytest.approx(wanted, abs=0.0051)
            assert chart["layer"][-1]["encoding"]["x"]["title"] == "accuracy"
            dashed = [
                layer["encoding"]["x"]["datum"]
                for layer in chart["layer"]
                if "datum" in layer["encoding"]["x"]
            ]
            assert dashed == ([0.5] if task == "blimp" else [])
        columns, listed = figures.tables[f"{task}-differences"]
        assert columns == ["group", "a", "b", "difference", "low", "high", "test", "p", "p_holm"]
        pairs = [
            (score.name or score.score, pair)
            for score in compared.scores
            if score.evaluation == task and score.level in ("overall", coarse)
            for pair in score.pairs
        ]
        assert len({p for row in listed for p in row[-2:]}) > 3
        assert listed == [
            [name, "one", "two", pair.difference, *(pair.over_seeds or ()), pair.test, pair.p, pair.p_holm]
            for name, pair in pairs
        ]
    labels = {1: "1 the dog", 2: "2 Verb"}
    for suite in SUITES:
        rows = figures.charts[f"sg-runs-suite-{suite}"]["data"]["values"]
        assert len(rows) == 3 * 2 * 2
        for row in rows:
            values = [
                bits
                for key, bits in BITS.items()
                if (*key[:2], *key[3:]) == (row["series"], suite, row["condition"], row["region"])
            ]
            half = T[len(values)] * stdev(values) / len(values) ** 0.5
            found = [row["low"], row["mean"], row["high"]]
            expected = [fmean(values) - half, fmean(values), fmean(values) + half]
            assert found == pytest.approx(expected, abs=0.00051)
            assert (row["label"], row["n"]) == (labels[row["region"]], len(values))
    gains = figures.charts["reading-gains"]["data"]["values"]
    assert [(row["series"], row["score"], row["low"], row["high"], row["n"]) for row in gains] == [
        (f"{m}: {name}", *gain) for m in names for name, gain in GAINS[m].items()
    ]
