"""Reading times on pages and in figures: effects, milliseconds a bit, gains, and their digits."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from node_pages import evaluate, needs_node, save_page
from reading_results import CONTRASTS, EFFECTS, GAINS, PLACES, effect, estimate, people, write
from scipy import stats

from pdtools.errors import InputError
from pdtools.evaluation.reading.effects import effects_table
from pdtools.evaluation.results import ITEMS, Results, write_results
from pdtools.report.view.figures import write_figures
from pdtools.report.view.results import figures, results_page


def drawn(*folders: str) -> dict[str, Any]:
    (benchmark,) = results_page(folders).document["benchmarks"]
    return {each["name"]: each for each in benchmark["drawn"]}


def test_effects_stand_beside_those_of_people(tmp_path: Path) -> None:
    found = drawn(write(tmp_path / "results" / "reading"))
    assert list(found) == ["effects", "milliseconds", "gains"]
    keys = ("panel", "name", "series", "score", "low", "high", "ratio", "n")
    expected = []
    for c, contrast in enumerate(CONTRASTS):
        for roi, place in enumerate(PLACES):
            human = people(c, roi)
            expected.append((contrast, place, "people", *human.values(), None, 24 - roi))
            for model in GAINS:
                of = effect(c, roi, model)
                ratio = of["ratio"] and of["ratio"]["value"]
                expected.append((contrast, place, model, *of["predicted"].values(), ratio, 24 - roi))
    assert [tuple(row[key] for key in keys) for row in found["effects"]["rows"]] == expected
    chart = found["effects"]["chart"]
    assert chart["facet"]["row"]["sort"] == list(CONTRASTS)
    rule, _, point = chart["spec"]["layer"]
    assert rule["encoding"]["x"]["datum"] == 0
    colours = point["encoding"]["color"]["scale"]
    of_gains = found["gains"]["chart"]["layer"][-1]["encoding"]["color"]["scale"]
    assert dict(zip(colours["domain"], colours["range"], strict=True)) == {
        "people": "#000000",
        **dict(zip(of_gains["domain"], of_gains["range"], strict=True)),
    }
    assert len(set(point["encoding"]["shape"]["scale"]["range"])) == 3
    beside = found["effects"]["beside"]
    assert beside["columns"] == ["effect", "place", "people (ms)", "gpt (ms)", "ratio", "rnng (ms)", "ratio"]
    assert beside["rows"][0] == [
        *(CONTRASTS[0], PLACES[0], "50.00 [30.00, 60.00]"),
        *("12.50 [6.50, 15.50]", "0.25", "−0.004 [−6.00, 3.00]", "−8e−05"),
    ]
    assert beside["rows"][5][3:] == ["25.00 [19.00, 28.00]", None, "−0.01 [−6.01, 2.99]", None]
    assert [(row["series"], row["score"]) for row in found["milliseconds"]["rows"]] == [
        ("gpt", 1.5),
        ("rnng", 3.0),
    ]


@needs_node
def test_the_page_has_milliseconds_first_and_as_many_digits_as_intervals(tmp_path: Path) -> None:
    page = results_page([write(tmp_path / "results" / "reading")])
    found = evaluate(
        save_page(page, tmp_path / "page.html"),
        "for (const each of all('figure')) each.querySelector('details').open = true; await later();"
        "return [all('h2').map((x) => x.textContent), all('figcaption').map((x) => x.textContent),"
        " all('figure').map(cells), cells(one('.lines')), one('h1').textContent,"
        " all('.chart').map((x) => x.spec.data.values.length)];",
    )
    headings, captions, tables, beside, title, points = found
    assert headings[:2] == ["Reading times", "Main scores"]
    assert [each.split(" ")[0] for each in captions] == ["Effects:", "Milliseconds", "Held-out"]
    assert title == "Results of gpt and rnng"
    assert points == [18, 2, 2]
    assert tables[0][1] == [CONTRASTS[0], PLACES[0], "people", "50.00", "30.00", "60.00", *3 * "–", "24"]
    assert tables[0][2][6:9] == ["0.25", "0.13", "0.31"]
    assert tables[1][1] == ["surprisal", "gpt", "1.50", "1.25", "1.63", "321"]
    assert tables[2][1:] == [
        ["gpt", "0.001230", "0.000450", "0.002040", "321"],
        ["rnng", "0.000984", "−0.000200", "0.002100", "321"],
    ]
    assert beside[1][2] == "50.00 [30.00, 60.00]"


@needs_node
@pytest.mark.parametrize("seed", range(12))
def test_any_gains_and_milliseconds(seed: int, tmp_path: Path) -> None:
    """Of one result or several, of seeds or not, with any predictors: each number, its place and its unit."""
    rng = np.random.default_rng(seed)
    predictors = [["surprisal"], ["surprisal", "closed"], ["closed"], ["entropy", "surprisal"]][seed % 4]
    n_seeds = [0, 2, 3][seed % 3]
    runs = {f"m-{i + 1}": ["m"] for i in range(n_seeds)} | {"alone": ["x", "y"][: 1 + seed // 6]}
    wanted: dict[str, dict[str, list[tuple[list[float], int]]]] = {}
    paths = []
    for number, (run_name, models) in enumerate(runs.items()):
        words = 321 + 10 * (not run_name.startswith("m-"))
        by_model: dict[str, Any] = {}
        for model in models:
            centre = rng.normal(0, 0.01 if seed % 2 else 5, 1 + len(predictors)).tolist()
            ends = [[value, value - rng.uniform(0.1, 1), value + rng.uniform(0.1, 1)] for value in centre]
            names = ("value", "low", "high")
            by_model[model] = dict(zip(("delta_ll", "low", "high"), ends[0], strict=True)) | {
                "coefficients": {
                    predictor: {"sum": {"for_new": dict(zip(names, each, strict=True))}}
                    for predictor, each in zip(predictors, ends[1:], strict=True)
                }
            }
            series = "m" if run_name.startswith("m-") else "x" if len(runs) == len(models) == 1 else "alone"
            series = f"alone: {model}" if len(models) > 1 and len(runs) > 1 else series
            series = model if len(models) > 1 and len(runs) == 1 else series
            for what, each in zip(("over length", *predictors), ends, strict=True):
                wanted.setdefault(what, {}).setdefault(series, []).append((each, words))
        made = {"path": run_name, "training": {"seed": number, "sha256": "x"}} if "-" in run_name else {}
        found = Results(
            scores={"by_model": by_model},
            counts={"words_regressed": words},
            settings={"task": "reading", "baseline": ["length"], "models": {}},
            tables={ITEMS: pa.table({"word": [1]})},
        )
        write_results(tmp_path / run_name / "reading", found, {"inputs": {"model": made}} if made else {})
        paths.append(str(tmp_path / run_name))
    (benchmark,) = results_page(paths).document["benchmarks"]
    charts = {each["name"]: each for each in benchmark["drawn"]}
    assert [*charts] == ["milliseconds", "gains"]
    unit = "bit or constituent" if "closed" in predictors else "bit"
    assert charts["milliseconds"]["title"] == f"Milliseconds a {unit}"
    axes = {name: each["chart"]["layer"][-1]["encoding"]["x"]["title"] for name, each in charts.items()}
    assert axes == {"milliseconds": f"ms a {unit}", "gains": "ΔLL (nats a word)"}
    for name, each in charts.items():
        shown = {(row["name"], row["series"]): row for row in each["rows"]}
        here = [what for what in wanted if (what == "over length") == (name == "gains")]
        assert {*shown} == {(what, series) for what in here for series in wanted[what]}
        for (what, series), row in shown.items():
            own = [ends for ends, _ in wanted[what][series]]
            numbers = own[0]
            if len(own) > 1:
                n, values = len(own), [value for value, _, _ in own]
                items = sum(((high - low) / 3.919927969) ** 2 for _, low, high in own) / n
                seeds = float(np.var(values, ddof=1)) / n
                error = items + seeds
                reach = stats.t.ppf(0.975, error**2 / (seeds**2 / (n - 1))) * error**0.5
                mean = sum(values) / n
                numbers = [mean, mean - reach, mean + reach]
            assert [row[end] for end in ("score", "low", "high")] == pytest.approx(numbers, rel=1e-6)
            assert row["n"] == wanted[what][series][0][1]
            sizes = [abs(number) for number in numbers]
            least = 2 if max(sizes) >= 1 else min(max(4, 2 - math.floor(math.log10(min(sizes)))), 8)
            assert row["digits"] == (max(4, least) if name == "gains" else least)


def test_differences_of_gains_have_digits(tmp_path: Path) -> None:
    folders = [write(tmp_path / name / "reading", scale=k) for k, name in enumerate("ab", 1)]
    page = results_page([str(Path(folder).parent) for folder in folders])
    found = evaluate(
        save_page(page, tmp_path / "page.html"),
        "return [cells(all('section').find((x) => x.firstChild.textContent === 'Main scores')),"
        " cells(all('#reading table').at(-1))];",
    )
    main, differences = found
    assert [row[1:] for row in main[1:]] == [["0.00123", "0.00246"], ["0.000984", "0.001968"]]
    shown = [row[differences[0].index("b − a")] for row in differences[1:]]
    assert shown == ["+0.00123", "+0.000984"]
    written = tmp_path / "figures"
    write_figures(written, figures(page), {})
    latex = (written / "reading-differences.tex").read_text()
    assert "& 0.00123 &" in latex
    assert "& 0.000984 &" in latex


SCALES = (1.0, 2.0, 4.0)


def write_seeds(folder: Path, **last: Any) -> list[str]:
    """Three seeds of a model that predict the same effect, of which milliseconds and gains are multiples, and
    a model by itself; ``last`` changes the last seed."""
    of = [effect(c, roi, "gpt") for c in range(2) for roi in range(3)]
    for seed, scale in enumerate(SCALES):
        changed = {"effects": of, **(last if seed == 2 else {})}
        write(folder / f"base-{seed}" / "reading", scale=scale, seed=seed, **changed)
    write(folder / "other" / "reading", effects=EFFECTS)
    return sorted(map(str, folder.iterdir()))


def of_seeds(values: list[float], half: float) -> tuple[float, float, float]:
    """The mean and its 95% interval by hand: the mean's variance over seeds, with Satterthwaite's degrees of
    freedom, and that over items, which is known, and the same for all."""
    seeds, items = np.var(values, ddof=1) / len(values), (half / stats.norm.ppf(0.975)) ** 2
    freedom = (seeds + items) ** 2 / (seeds**2 / (len(values) - 1)) if seeds else np.inf
    reach = stats.t.ppf(0.975, freedom) * np.sqrt(seeds + items)
    return float(np.mean(values)), float(np.mean(values) - reach), float(np.mean(values) + reach)


def test_groups_of_seeds_are_one_dot(tmp_path: Path) -> None:
    page = results_page(write_seeds(tmp_path))
    (benchmark,) = page.document["benchmarks"]
    groups, runs = ({each["name"]: each for each in benchmark[of]} for of in ("drawn", "runs"))
    assert list(groups) == list(runs) == ["effects", "milliseconds", "gains"]
    seeds, other = [f"base-{seed}" for seed in range(3)], [f"other: {name}" for name in GAINS]
    for name in ("milliseconds", "gains"):
        assert [row["series"] for row in groups[name]["rows"]] == ["base", *other]
        assert [row["series"] for row in runs[name]["rows"]] == [*seeds, *other]
        assert groups[name]["chart"]["layer"][-1]["encoding"]["color"]["scale"]["domain"] == ["base", *other]
        assert "over seeds" in groups[name]["said"]
        assert "over seeds" not in runs[name]["said"]
    row = groups["milliseconds"]["rows"][0]
    expected = of_seeds([1.5 * scale for scale in SCALES], 0.375 / 2)
    assert (row["score"], row["low"], row["high"]) == pytest.approx(expected)
    row, gain = groups["gains"]["rows"][0], GAINS["gpt"]
    squares = [((gain[2] - gain[1]) / 2 * scale) ** 2 for scale in SCALES]
    expected = of_seeds([gain[0] * scale for scale in SCALES], float(np.sqrt(np.mean(squares))))
    assert (row["score"], row["low"], row["high"]) == pytest.approx(expected)
    effects = [each for each in groups["effects"]["rows"] if each["series"] in ("base", "people")]
    assert [each["series"] for each in effects[:2]] == ["people", "base"]
    assert len(effects) == 12
    (human, base), half = effects[:2], (6 + 3) / 2  # all seeds predict the same: the interval is over items
    assert (human["score"], base["score"], base["low"], base["high"]) == pytest.approx(
        (50, 12.5, 12.5 - half, 12.5 + half)
    )
    assert (base["ratio"], base["ratio_low"]) == pytest.approx((0.25, 0.25 - 0.1875 / 2))
    assert effects[3]["ratio"] is None
    assert groups["effects"]["beside"]["columns"][3] == "base (ms)"
    written = figures(page)
    assert {"reading-gains", "reading-runs-gains", "reading-runs-effects"} <= written.charts.keys()
    assert {"reading-effects-beside", "reading-runs-effects-beside"} <= written.tables.keys()
    assert len(written.tables["reading-gains"][1]) == 3
    assert len(written.tables["reading-runs-gains"][1]) == len(written.digits["reading-runs-gains"]) == 5


@pytest.mark.parametrize(
    "last",
    [
        {"words": 320},
        {"coefficients": False},
        {"effects": None},
        {
            "effects": [
                effect(c, roi, "gpt") | {"human": estimate(7.0, 2)} for c in range(2) for roi in range(3)
            ]
        },
    ],
)
def test_seeds_of_other_words_or_effects_are_no_group(last: dict[str, Any], tmp_path: Path) -> None:
    (benchmark,) = results_page(write_seeds(tmp_path, **last)).document["benchmarks"]
    assert "runs" not in benchmark
    assert [row["series"] for row in benchmark["drawn"][-1]["rows"]][:3] == ["base-0", "base-1", "base-2"]


@needs_node
def test_single_seeds_on_request(tmp_path: Path) -> None:
    page = results_page(write_seeds(tmp_path))
    shown = (
        "const series = (x) => new Set(x.spec.data.values.map((row) => row.series)).size;"
        "const shown = () => all('#reading .chart').map(series); const before = shown();"
    )
    choose = "write(one('#reading select'), 'each'); await later(); return [before, shown()];"
    groups, runs = [4, 3, 3], [6, 5, 5]  # people too
    assert evaluate(save_page(page, tmp_path / "page.html"), shown + choose) == [groups, runs]
    assert evaluate(tmp_path / "page.html", f"{shown} return before;", "reading-runs=each") == runs


def test_effects_of_several_results(tmp_path: Path) -> None:
    """People are shown once where all have the same effect, else with each of the results."""
    first = write(tmp_path / "a" / "reading")
    other = [each | {"human": estimate(7.0, 2)} for each in EFFECTS]
    for name, effects, expected in (
        ("b", EFFECTS, ["people"]),
        ("c", other, ["a: people", "c: people"]),
        ("d", [*other[:2], *EFFECTS[2:]], ["a: people", "d: people"]),  # at one of six places
    ):
        rows = drawn(first, write(tmp_path / name / "reading", effects=effects))["effects"]["rows"]
        series = [row["series"] for row in rows[: len(expected) + 4]]
        models = [f"{result}: {model}" for result in ("a", name) for model in GAINS]
        assert series == [*expected, *models]
        assert len(rows) == 6 * len(series)


def test_results_without_effects_or_coefficients(tmp_path: Path) -> None:
    assert list(drawn(write(tmp_path / "x" / "reading", effects=None))) == ["milliseconds", "gains"]
    plain = write(tmp_path / "y" / "reading", effects=None, coefficients=False)
    assert list(drawn(plain)) == ["gains"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"human": {"value": 1.0, "low": "x", "high": 2.0}}, "effects.*.human.low"),
        ({"predicted": None}, "effects.*.predicted.value"),
        ({"roi": -1}, "effects.*.roi"),
        ({"ratio": 5}, "effects.*.ratio"),
        ({"ratio": {"value": "x"}}, "ratio.value"),
        ("x", "effects.*.contrast"),
        (None, "effects.*.contrast"),
    ],
)
def test_damaged_effects(change: Any, said: str, tmp_path: Path) -> None:
    effects = [EFFECTS[0], {**EFFECTS[1], **change} if isinstance(change, dict) else change]
    folder = write(tmp_path / "reading", effects=effects)
    with pytest.raises(InputError, match=r"damaged results") as error:
        results_page([folder])
    assert said in str(error.value)
    assert "results.json" in str(error.value)


@pytest.mark.parametrize("value", [5, {"surprisal": 5}, {"surprisal": {"sum": {"for_new": {"value": 1}}}}])
def test_damaged_coefficients(value: Any, tmp_path: Path) -> None:
    folder = Path(write(tmp_path / "reading"))
    document = json.loads((folder / "results.json").read_text())
    document["scores"]["by_model"]["gpt"]["coefficients"] = value
    (folder / "results.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="damaged results: coefficients"):
        results_page([str(folder)])


def test_the_table_of_effects(tmp_path: Path) -> None:
    rows = effects_table(EFFECTS).to_pylist()
    assert [(row["contrast"], row["roi"], row["model"]) for row in rows] == [
        (each["contrast"], each["roi"], each["model"]) for each in EFFECTS
    ]
    assert {name: rows[0][name] for name in ("human", "human_low", "human_high")} == {
        "human": 50.0,
        "human_low": 30.0,
        "human_high": 60.0,
    }
    assert (rows[0]["predicted"], rows[0]["ratio"], rows[0]["ratio_high"]) == (12.5, 0.25, 0.3125)
    assert (rows[0]["bits"], rows[0]["bits_of_less"], rows[2]["observations_left_out"]) == (9.0, 4.0, 1)
    assert rows[2]["ratio"] is None
    pq.write_table(effects_table([]), tmp_path / "none.parquet")


@pytest.mark.parametrize(
    ("parent", "model", "name"),
    [
        ("results", "runs/base", "base"),
        ("results", "runs/base/best", "base"),
        ("results", None, "results"),
        ("pushdown", "runs/17", "pushdown"),
    ],
)
def test_the_model_of_a_single_result(parent: str, model: str | None, name: str, tmp_path: Path) -> None:
    found = Results(
        scores={"f1": 50.0},
        counts={"scored": 1},
        settings={"task": "parse", "labeled": False, "binarize": "none"},
        tables={ITEMS: pa.table({"line": [1], "matched": [1], "gold": [2], "predicted": [2]})},
    )
    folder = tmp_path / parent / "f1"
    made = {} if model is None else {"inputs": {"model": {"path": model}}}
    write_results(folder, found, made)
    for given in (folder, folder.parent):
        page = results_page([str(given)])
        assert (page.title, page.document["models"]) == (f"Results of {name}", [name])
