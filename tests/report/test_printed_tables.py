"""What evaluations print, and as LaTeX: every cell, of numbers no two of which are alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pdtools.evaluation.bootstrap import FEW_ITEMS
from pdtools.evaluation.comparison.compare import ComparedModels, GroupRuns
from pdtools.evaluation.comparison.engine import ComparedScore, GroupScore, PairDifference
from pdtools.evaluation.results import Results
from pdtools.evaluation.sg.record import CONVENTIONS
from pdtools.report import comparisons
from pdtools.report import evaluations as printers
from pdtools.report.evaluations import (
    print_benchmark,
    print_closing,
    print_effects,
    print_reading,
    with_bounds,
)
from pdtools.report.tables import latex_tables
from pdtools.report.view.charts import curves

Rows = list[list[str]]


def plain(text: str) -> Rows:
    """Lines as lists of cells, which are two spaces apart; empty lines are left out."""
    return [re.split(" {2,}", line.strip()) for line in text.splitlines() if line.strip()]


def latex(text: str) -> Rows:
    """The same of LaTeX: a comment is one cell, dashes and signs are as in plain text."""
    found, columns = [], 0
    for line in text.splitlines():
        if line.startswith("% "):
            found.append([line.removeprefix("% ").strip()])
        elif begins := re.fullmatch(r"\\begin\{tabular\}\{([lr]+)\}", line):
            columns = len(begins[1])
        elif line.endswith(r" \\"):
            cells = re.split(r"(?<!\\)&", line.removesuffix(r" \\"))
            assert len(cells) == columns
            assert not re.search(r"(?<!\\)[%#_~]|^ *[\[*]", "".join(cells))
            read = [
                re.sub(r"\\([%_&#])", r"\1", re.sub(r"\$([+-])\$", r"\1", each.strip())) for each in cells
            ]
            read = [each.replace(r"$\Delta$", "Δ") for each in read]
            powers = [re.sub(r"\$(\S+)\\cdot10\^\{-(\d)\}\$", r"\1e-0\2", each) for each in read]
            found.append(["-" if each == "--" else each.replace("{[}", "[") for each in powers])
    return found


def cells(rows: list[Any]) -> Rows:
    """As they are printed: a string is a line of its own, floats have two decimals, None is a dash."""
    lines = ([row] if isinstance(row, str) else row for row in rows)
    return [
        [f"{x:.2f}" if isinstance(x, float) else "-" if x is None else str(x) for x in line] for line in lines
    ]


def check(print_: Callable[[], object], capsys: pytest.CaptureFixture[str], expected: list[Any]) -> None:
    """All that is printed, as plain text and LaTeX, but for empty cells, which plain text does not show.

    Two results have their names, x and y, in the headings of LaTeX.
    """
    capsys.readouterr()
    print_()
    wanted = cells(expected)
    assert plain(capsys.readouterr().out) == wanted
    with latex_tables():
        print_()
    wanted = [[cell.replace("\N{MINUS SIGN}", "-") for cell in row] for row in wanted]  # both are $-$
    for row in wanted:
        if row[1:4] == ["a", "b", "b - a"]:
            row[1:4] = ["x", "y", "y - x"]
    found = [
        [cell for cell in row if cell]
        for row in latex(capsys.readouterr().out.replace("\N{MINUS SIGN}", "-"))
    ]
    assert found == wanted


def results(
    scores: dict[str, Any], counts: dict[str, Any], settings: dict[str, Any], **tables: Any
) -> Results:
    return Results(scores=scores, counts=counts, settings=settings, tables=tables)


@pytest.mark.parametrize(
    ("unit", "units"), [("suite", "suites"), ("category", "categories"), ("phenomenon", "phenomena")]
)
def test_plurals(unit: str, units: str) -> None:
    assert printers._plural(unit) == units


def items_of(unit: str, groups: dict[str, dict[str, str | None]], counts: dict[str, Any]) -> pa.Table:
    """Items of first predictions: ``counts`` has how many of each unit there, scored, and ties."""
    rows = []
    for name, above in groups.items():
        n, scored, ties = counts[name]
        outcomes = ["tie"] * ties + ["right"] * (scored - ties) + ["unscorable"] * (n - scored)
        rows += [{unit: name, **above, "prediction": 1, "outcome": outcome} for outcome in outcomes]
    return pa.Table.from_pylist([*rows, {**rows[0], "prediction": 2}])


def test_sg(capsys: pytest.CaptureFixture[str]) -> None:
    scores = {
        **dict(zip(CONVENTIONS, (0.61, 0.62, None, 0.64, 0.65), strict=True)),
        "by_circuit": {"Agreement": 0.8, "Licensing": 0.7},
        "by_suite": {"agr": 0.81, "fgd-embed3": 0.21, "npi": 0.71},
        "by_prediction": {"npi": {"1": 0.73, "2": 0.33}, "agr": {"1": 0.83}},
    }
    groups: dict[str, dict[str, str | None]] = {
        "agr": {"circuit": "Agreement"},
        "npi": {"circuit": "Licensing"},
    }
    groups["fgd-embed3"] = {"circuit": None}
    items = items_of("suite", groups, {"agr": (5, 4, 1), "npi": (7, 7, 0), "fgd-embed3": (2, 1, 0)})
    counts = {"items": 14, "items_scored": 12, "ties": 1}
    columns = ["accuracy", "items", "scored", "ties"]
    expected: list[Any] = [
        ["Syntactic generalization (percent)", *columns],
        ["overall (mean of 2 suites)", 61.0, 14, 12, 1],  # of the two that it counts
        *(
            [name, score, None, None, None]
            for name, score in zip(
                ("sg 31", "sg 33", "mean of circuits", "mean of items"), (62.0, None, 64.0, 65.0), strict=True
            )
        ),
        ["circuit", *columns],
        ["Agreement", 80.0, 5, 4, 1],
        ["Licensing", 70.0, 7, 7, 0],
    ]
    found = results(scores, counts, {"task": "sg"}, items=items)
    check(lambda: print_benchmark(found), capsys, expected)
    expected += [["suite", *columns], ["agr", 81.0, 5, 4, 1], ["fgd-embed3", 21.0, 2, 1, 0]]
    expected += [["npi", 71.0, 7, 7, 0]]
    unnamed = replace(found, scores={**scores, "by_prediction": {}})
    check(lambda: print_benchmark(unnamed, details=True), capsys, expected)
    expected += [["suite", "prediction", "accuracy"], ["npi", "1", 73.0], ["npi", "2", 33.0]]
    check(lambda: print_benchmark(found, details=True), capsys, [*expected, ["agr", "1", 83.0]])


def test_sg_of_many_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        {
            **{"model": model, "corpus": corpus, "seed": seed, "by_circuit": circuits},
            **{name: base + k / 100 for k, name in enumerate(CONVENTIONS)},
        }
        for model, corpus, seed, base, circuits in (
            ("rnng", "lg", "s1", 0.5, {"Licensing": 0.31, "Center": 0.22, "Agreement": 0.42}),
            ("gpt", "sm", "s2", 0.7, {"Long-Distance": 0.13, "Licensing": 0.63, "Center": 0.26}),
        )
    ]
    head = ["model", "corpus", "seed", "overall", "sg 31", "sg 33", "circuits", "items"]
    check(
        lambda: printers.print_sg_runs(results({"runs": runs}, {}, {})),
        capsys,
        [
            "Syntactic generalization (percent); circuits, items: the means of these",
            head,
            ["rnng", "lg", "s1", 50.0, 51.0, 52.0, 53.0, 54.0],
            ["gpt", "sm", "s2", 70.0, 71.0, 72.0, 73.0, 74.0],
            ["circuit", "model", "corpus", "seed", "score"],
            ["Agreement", "rnng", "lg", "s1", 42.0],
            ["Agreement", "gpt", "sm", "s2", None],
            ["Center", "rnng", "lg", "s1", 22.0],
            ["Center", "gpt", "sm", "s2", 26.0],
            ["Licensing", "rnng", "lg", "s1", 31.0],
            ["Licensing", "gpt", "sm", "s2", 63.0],
            ["Long-Distance", "rnng", "lg", "s1", None],
            ["Long-Distance", "gpt", "sm", "s2", 13.0],
        ],
    )


def test_perplexity_and_scores_of_any_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    scores = {"ppl_word": 81.23456, "ppl_word_joint": None, "ppl_token": 42.5}
    found = results(scores, {"sentences": 90, "words": 1234}, {})
    expected: list[Any] = [
        "Perplexity",
        ["score", "value"],
        ["ppl_word", "81.2346"],
        ["ppl_token", "42.5000"],
        ["count", "value"],
        ["sentences", 90],
        ["words", 1234],
    ]
    check(lambda: printers.print_perplexity(found), capsys, expected)
    of_any = results({"overall": 0.6325}, {"items": 51, "items_scored": 46}, {"task": "blimp"})
    rows: list[Any] = [["BLiMP", "score", "over"], ["BLiMP accuracy (%)", 63.25, "46 items"]]
    check(lambda: printers.print_scores(of_any), capsys, rows)


def test_closing(capsys: pytest.CaptureFixture[str]) -> None:
    def each(n: int, base: float) -> dict[str, Any]:
        names = (
            "accuracy",
            "low",
            "high",
            "accuracy_by_best",
            "accuracy_given_attachments",
            "attachment_accuracy",
            "lost_by_beam",
        )
        return {"prefixes": n, **{name: base + k / 100 for k, name in enumerate(names)}}

    kinds = {"by_set": "set", "by_dependency": "dependency", "by_depth": "depth", "by_open": "open brackets"}
    scores: dict[str, Any] = {
        kind: {f"a{k}": each(10 + k, 0.2 + k / 10), f"b{k}": each(50 + k, 0.6)}
        for k, kind in enumerate(kinds)
    }
    scores["entropy"] = {"model": 1.25, "automaton": 0.75}
    expected: list[Any] = []
    for k, title in enumerate(kinds.values()):
        expected += [f"Closing brackets by {title} (percent)"]
        expected += [[title, "prefixes", "right", "95%", "best", "given", "attached", "lost"]]
        for name, n, base in ((f"a{k}", 10 + k, 20 + 10 * k), (f"b{k}", 50 + k, 60)):
            shares = [float(base + 3), float(base + 4), float(base + 5), float(base + 6)]
            expected += [[name, n, float(base), f"[{base + 1}.0, {base + 2}.0]", *shares]]
    expected += [
        "best: right by the best hypothesis alone; given: if the attachments are given;",
        "attached: closers attached right; lost: by the beam",
    ]
    ends = ["Against the automaton", ["nats a token", "value"], ["model", "1.2500"], ["automaton", "0.7500"]]

    def print_() -> None:
        print_closing(results(scores, {}, {}))

    check(print_, capsys, [*expected, *ends])


def test_attention(capsys: pytest.CaptureFixture[str]) -> None:
    def share(mean: float) -> dict[str, Any]:
        return {"mean": mean, "low": mean - 0.02, "high": mean + 0.05, "by_layer": [mean / 2, mean / 4]}

    scores = {
        "by_suite": {"agr": {"verb": {"a": share(0.4), "b": share(0.3)}, "noun": {"a": share(0.2)}}},
        "differences": {"agr": {"verb": {"b": share(-0.1)}}},
    }
    found = results(scores, {"items_by_suite": {"agr": 17}}, {"at": "the verb"})
    head = ["region", "model", "mean", "95%", "less 1st", "95%"]
    title = "agr: attention when the verb is predicted (percent; items: 17)"
    note = "mean: over layers, heads, items and seeds; less 1st: less the first model's"
    rows: list[Any] = [
        ["verb", "a", 40.0, "[38.00, 45.00]", None, None],
        ["verb", "b", 30.0, "[28.00, 35.00]", -10.0, "[-12.00, -5.00]"],
        ["noun", "a", 20.0, "[18.00, 25.00]", None, None],
    ]
    check(lambda: printers.print_attention(found), capsys, [title, head, *rows, note])
    layers = [[["layer 1", x / 2, None], ["layer 2", x / 4, None]] for x in (40.0, 30.0, 20.0)]
    detailed = [each for row, more in zip(rows, layers, strict=True) for each in (row, *more)]
    check(lambda: printers.print_attention(found, details=True), capsys, [title, head, *detailed, note])


def test_transduction(capsys: pytest.CaptureFixture[str]) -> None:
    lengths = {"9": (4, 0.9, 0.5), "10": (3, 0.8, 0.3), "11": (5, 0.5, 0.1), "20": (2, 0.3, 0.05)}
    scores = {
        **{
            "accuracy": 0.625,
            "accuracy_beyond_training": 0.415,
            "accuracy_as_released": None,
            "exact": 0.2375,
        },
        "by_length": {
            length: {"pairs": pairs, "accuracy": accuracy, "exact": exact}
            for length, (pairs, accuracy, exact) in lengths.items()
        },
    }
    settings = {"formal_task": "rs", "objective": "causal", "decoding": "greedy"}
    check(
        lambda: printers.print_transduction(results(scores, {}, settings)),
        capsys,
        [
            "Task rs, causal, greedy (percent)",
            ["average over lengths", "score"],
            ["accuracy", 62.5],
            ["accuracy beyond training", 41.5],
            ["accuracy as released", None],
            ["exact", 23.75],
            ["lengths", "pairs", "accuracy", "exact"],
            ["9-10", 7, 85.0, 40.0],
            ["11-20", 7, 40.0, 7.5],
        ],
    )


def test_scores_by_length_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(
        "pdtools.report.view.vega.save_chart", lambda path, chart: drawn.append((path, chart))
    )
    by_length = {str(n): {"accuracy": 1 / n, "difference": n} for n in (1, 4, 16)}
    for value, scale, percent in (("accuracy", 100, True), ("difference", 1, False)):
        models = {"A": {"by_length": by_length}, "B": {"by_length": {"4": by_length["4"]}}}
        printers.draw_by_length("f.svg", models, value, x="symbols", y="score")
        places = [("A", "1"), ("A", "4"), ("A", "16"), ("B", "4")]
        rows = [{"series": s, "x": int(n), "y": scale * by_length[n][value]} for s, n in places]
        assert drawn.pop() == ("f.svg", curves(rows, x="symbols", y="score", percent=percent))


def test_classification(capsys: pytest.CaptureFixture[str]) -> None:
    by_label = {"yes": {"right": 3, "predicted": 5, "gold": 4}, "no": {"right": 6, "predicted": 8, "gold": 9}}
    counts = {"items": 14, "items_labelled": 13, "ties": 2, "by_label": by_label}
    scores = {"accuracy": 0.6925, "mcc": -0.1275, "intervals": {"accuracy": [0.41, 0.87]}}
    found = results(scores, counts, {"prompt_task": "rte"})
    expected: list[Any] = [
        ["rte (percent)", "score", "95%"],
        ["accuracy", 69.25, "[41.00, 87.00]"],
        ["mcc", -12.75],
        "14 items, 13 with labels, 2 ties",
    ]
    labels = [["label", "gold", "predicted", "right"], ["yes", 4, 5, 3], ["no", 9, 8, 6]]
    check(lambda: printers.print_classification(found), capsys, [*expected, *labels])
    few = results({**scores, "intervals": None}, {"items": 14, "items_labelled": 13}, {"prompt_task": "rte"})
    expected = [expected[0], ["accuracy", 69.25], ["mcc", -12.75], "14 items, 13 with labels"]
    check(lambda: printers.print_classification(few), capsys, expected)
    nine = {"items": 14, "items_labelled": 9}  # too few of them have labels
    found = results({"accuracy": 0.6925, "intervals": {"accuracy": None}}, nine, {"prompt_task": "rte"})
    printers.print_classification(found)
    assert " ".join(capsys.readouterr().out.split()).endswith(f" 14 items, 9 with labels {FEW_ITEMS}")


def of_two(
    level: str, name: str, a: float, b: float, only: tuple[int, int] | None = None, **about: Any
) -> ComparedScore:
    """A score of two runs: the interval of b − a is 3 below it to 11 above it."""
    less, pairs = b - a, ()
    if about.pop("is_tested", True):
        only_a, only_b = only or (None, None)
        numbers = {"over_items": (less - 3, less + 11), "over_seeds": None, "p": a / 700}
        pair = PairDifference(a="x", b="y", difference=less, only_a=only_a, only_b=only_b, **numbers)
        pairs = (replace(pair, **about.pop("pair", {})),)
    bounds = about.pop("bounds", (None, None))
    groups = [
        GroupScore(
            **{"group": group, "values": (mean,), "mean": mean, "bound": bound},
            **{"deviation": None, "over_items": None, "over_seeds": None},
        )
        for group, mean, bound in zip("xy", (a, b), bounds, strict=True)
    ]
    of = {"evaluation": "blimp", "score": "BLiMP (%)", "items": 40, "lower_is_better": False, **about}
    return ComparedScore(level=level, name=name, groups=tuple(groups), pairs=pairs, **of)


def two(*scores: ComparedScore, **notes: tuple[str, ...]) -> ComparedModels:
    groups = tuple(GroupRuns(name=name, folders=(name,), seeds=(None,)) for name in "xy")
    return ComparedModels(groups=groups, baseline=None, scores=scores, notes=notes, refused={}, settings={})


def test_two_results_of_one_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        of_two("overall", "", 42.0, 77.0, (3, 17)),
        of_two("field", "syntax", 40.0, 35.0),
        of_two("phenomenon", "island", 14.0, 84.0),
        of_two("paradigm", "wh", 7.0, 28.0),
        of_two("paradigm", "gap", 70.0, 35.0),
    ]
    found = two(*rows, blimp=("beam: 10 and 300", "other text"))
    head, note = ["a", "b", "b - a", "95%", "p"], "blimp: beam: 10 and 300; other text"
    about = ["40 items: right in only a 3, in only b 17", "one run each: p is over items, not over seeds"]
    expected: list[Any] = [
        "a: x",
        "b: y",
        ["score", *head],
        ["BLiMP (%)", 42.0, 77.0, "+35.00", "[+32.00, +46.00]", "0.06"],
        *about,
        "BLiMP (%)",
        ["field", *head],
        ["syntax", 40.0, 35.0, "-5.00", "[-8.00, +6.00]", "0.057"],
        "BLiMP (%)",
        ["phenomenon", *head],
        ["island", 14.0, 84.0, "+70.00", "[+67.00, +81.00]", "0.02"],
    ]
    fine = [
        "BLiMP (%)",
        ["paradigm", "a", "b", "b - a", "p"],
        ["wh", 7.0, 28.0, "+21.00", "0.01"],
        ["gap", 70.0, 35.0, "-35.00", "0.1"],
    ]
    check(lambda: comparisons.print_compared(found), capsys, [*expected, note])
    check(lambda: comparisons.print_compared(found, details=True), capsys, [*expected, *fine, note])
    # A single level is always shown; margins are in bits, and their levels are details.
    margin = {"score": "BLiMP (bits)", "is_margin": True}
    bits = [
        of_two(level, name, -1.5, 0.25, **margin) for level, name in (("overall", ""), ("paradigm", "wh"))
    ]
    lines = [
        *expected[:4],
        ["BLiMP (bits)", -1.5, 0.25, "+1.75", "[-1.25, +12.75]", "-0.0021"],
        *about,
        *fine[:3],
    ]
    found = two(rows[0], bits[0], rows[3], bits[1])
    check(lambda: comparisons.print_compared(found), capsys, lines)
    of_margins = [
        "BLiMP (bits)",
        ["paradigm", "a", "b", "b - a", "p"],
        ["wh", -1.5, 0.25, "+1.75", "-0.0021"],
    ]
    check(lambda: comparisons.print_compared(found, details=True), capsys, [*lines, *of_margins])
    # Groups of few items are named by one line, if not by that of the overall score.
    few = replace(rows[1], notes=(FEW_ITEMS,))
    for overall in (rows[0], replace(rows[0], notes=(FEW_ITEMS,))):
        comparisons.print_compared(two(overall, few, replace(few, name="morphology"), *rows[2:]))
        assert " ".join(capsys.readouterr().out.split()).count(FEW_ITEMS) == 1


def test_two_results_of_several_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    beam, bound = ("beam: 1 and 2",), ("b4", None)
    tested = {"p_holm": 0.5, "family": 2}
    found = two(
        of_two("overall", "", 61.5, 70.25, (3, 17), score="SG (%)", evaluation="sg", notes=beam, pair=tested),
        of_two("overall", "", 0.0421, 0.0132, score="gain", evaluation="r", notes=beam, pair={"p": None}),
        of_two("overall", "", 20.0, 30.0, score="ppl", evaluation="p", is_tested=False, bounds=bound),
        of_two("overall", "", 20.0, 30.0, score="ppl", evaluation="q", is_tested=False, bounds=bound[:1] * 2),
        of_two("field", "syntax", 40.0, 35.0, evaluation="sg", score="SG (%)"),
        sg=("other text",),
    )
    found = replace(found, refused={"z": ("z: other sentences",)})
    expected: list[Any] = [
        *("a: x", "b: y", ["score", "a", "b", "b - a", "95%", "p", "corrected"]),
        ["SG (%)", 61.5, 70.25, "+8.75", "[+5.75, +19.75]", "0.088", "0.5"],
        ["gain", "0.0421", "0.0132", "-0.0289", "[-3.0289, +10.9711]", None, None],
        ["ppl, p (a: b4)", 20.0, 30.0, None, None, None, None],
        ["ppl, q, b4", 20.0, 30.0, None, None, None, None],
        "one run each: p is over items, not over seeds",
        "SG (%); gain: beam: 1 and 2",
        "sg: other text",
        "z, excluded: z: other sentences",
    ]
    check(lambda: comparisons.print_compared(found), capsys, expected)


@pytest.mark.parametrize(
    ("difference", "interval", "digits"),
    [
        (0.0003, (0.0001, 0.0005), 6),  # all would be 0.00
        (0.0003, (-0.2, 0.3), 2),
        (0.25, (0.0001, 0.5), 2),
        (0.0003, None, 6),
        (0.0, None, 2),
    ],
)
def test_differences_that_would_be_0_have_digits(
    difference: float, interval: tuple[float, float] | None, digits: int
) -> None:
    """Beside means with two decimals."""
    pair = PairDifference(a="a", b="b", difference=difference, over_items=interval, over_seeds=None)
    assert comparisons.digits_of_difference(pair, 2) == digits


def test_intervals_of_large_numbers_have_few_digits() -> None:
    """Also below 0, where differences of perplexities may be."""
    assert comparisons._bounds((-2.5e9, 2.5e9), 2, "+") == "[-2.5e+09, +2.5e+09]"
    assert comparisons._bounds((-1e9, 3.0), 2) == "[-1000000000.00, 3.00]"


def test_effects(capsys: pytest.CaptureFixture[str]) -> None:
    """People's effect first, then each model's, at each place; a table for each contrast."""

    def estimate(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 2, "high": value + 3}

    effects = [
        {
            **{"contrast": contrast, "roi": roi, "model": model, "human": estimate(40.5 - roi)},
            **{"predicted": estimate(k), "ratio": None if roi else {"value": k / 40.5}, "groups": 12},
        }
        for contrast in ("a − b", "c − d")
        for roi in (0, 2)
        for k, model in ((8.25, "gpt2, beam 4"), (9.75, "lstm"))
    ]
    expected: list[Any] = []
    for contrast in ("a − b", "c − d"):
        expected += [f"Effect of {contrast}, people's and predicted"]
        expected += [["place", "of", "ms", "from", "to", "ratio", "items"]]
        for roi, place in ((0, "critical word"), (2, "2 after it")):
            human = 40.5 - roi
            expected += [[place, "people", human, human - 2, human + 3, None, 12]]
            for k, model in ((8.25, "gpt2, beam 4"), (9.75, "lstm")):
                expected += [[model, k, k - 2, k + 3, None if roi else k / 40.5, 12]]
    check(lambda: print_effects(effects), capsys, expected)


def test_reading(capsys: pytest.CaptureFixture[str]) -> None:
    def estimate(base: float) -> dict[str, float]:
        return {"value": base, "low": base - 0.125, "high": base + 0.25, "p": base / 8}

    def tested(base: float) -> dict[str, float]:
        return {"low": base - 0.01, "high": base + 0.02, "p": 3.1e-6, "p_observations": 0.0042}

    scores = {
        "by_model": {
            name: {
                **{"delta_ll": base, **tested(base)},
                "coefficients": {
                    predictor: {
                        "sum": {**estimate(7.0), "for_new": estimate(base + k)},
                        "by_word_before": [estimate(base + k + n / 2) for n in range(3)],
                    }
                    for k, predictor in enumerate(("surprisal", "entropy"), 1)
                },
            }
            for name, base in (("small", 0.0625), ("large", 0.125))
        },
        "pairs": [{"a": "small", "b": "large", "difference": 0.0625, **tested(0.0625)}],
    }
    counts = {
        **{"words_regressed": 321, "items": 17, "groups": 5},
        "words_left_out": {"first": 3, "last": 0, "punctuation": 8},
        "observations_left_out": {"too short": 5, "first": 0, "too long": 2},
    }
    settings = {
        **{"baseline": ["length", "log_frequency"], "spillover": 2},
        "models": {name: {"lme4": f"time ~ surprisal_{name}"} for name in ("small", "large")},
    }
    numbers = ["from", "to", "p", "p by words"]
    ends = ["3.1e-06", "0.0042"]
    expected: list[Any] = [
        ["milliseconds a unit", "sum", "from", "to", "p", "the word", "1 before", "2 before"],
    ]
    for name, base in (("small", 0.0625), ("large", 0.125)):
        for k, predictor in enumerate(("surprisal", "entropy"), 1):
            x = base + k
            said = (x, x - 0.125, x + 0.25, x / 8, x, x + 0.5, x + 1)
            expected += [[f"{name}: {predictor}", *(f"{each:.3f}" for each in said)]]
    expected += [
        "sum: the word and those before it; interval, p: for other items and readers",
        "Held-out log-likelihood over length + log_frequency, nats a word: 321 words of 17 items",
        ["model", "ΔLL", *numbers],
        ["small", "0.0625", "0.0525", "0.0825", *ends],
        ["large", "0.1250", "0.1150", "0.1450", *ends],
        ["difference of ΔLL", *numbers],
        ["large − small", "0.0625", "0.0525", "0.0825", *ends],
        "p: models exchanged in whole items; p by words: in single words, as in papers",
        "with fewer than 10 items intervals over items are too narrow",
        "with 5 items p cannot be below 0.062, whatever the models",
        ["excluded", "number"],
        ["first", 3],
        ["punctuation", 8],
        ["times: too short", 5],
        ["times: too long", 2],
        "For lme4 in R, of observations.parquet (--table: as CSV):",
        *(f"{name}: time ~ surprisal_{name}" for name in ("small", "large")),
    ]
    check(lambda: print_reading(results(scores, counts, settings)), capsys, expected)
    many = {**counts, "groups": 6}  # 2 of 64 swaps
    few = [line for line in expected if "whatever" not in line]
    check(lambda: print_reading(results(scores, many, settings)), capsys, few)
    alone = results({**scores, "pairs": []}, counts, settings)
    at = expected.index(["difference of ΔLL", *numbers])
    check(lambda: print_reading(alone), capsys, [*expected[:at], *expected[at + 2 :]])


@pytest.mark.parametrize(
    ("bounds", "name"),
    [
        ({}, "F1"),
        ({"a": None, "b": None}, "F1"),
        ({"a": "beam 10", "b": "beam 10"}, "F1, beam 10"),
        ({"a": "beam 10", "b": None, "c": "beam 10"}, "F1 (a, c: beam 10)"),
        ({"a": "beam 10", "b": "beam 30"}, "F1 (a: beam 10; b: beam 30)"),
    ],
)
def test_names_with_bounds(bounds: dict[str, str | None], name: str) -> None:
    assert with_bounds("F1", bounds) == name
