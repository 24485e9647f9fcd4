"""Milliseconds of stimuli that nobody has read: slopes, their errors, and what is refused."""

from __future__ import annotations

import csv
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shell import script
from toy_reading import save_models, write_times

import pdtools
from pdtools.cli.main import run
from pdtools.evaluation.comparison.designs import measured
from pdtools.evaluation.comparison.effects import in_milliseconds
from pdtools.evaluation.reading.regression import fit, for_new
from pdtools.files import Rejects
from pdtools.report.view.stimuli import figures, stimuli_page
from pdtools.stimuli.columns import MILLISECONDS, PREDICTED, make_table, sheet_of_pandas
from pdtools.stimuli.surprisals import Surprisals
from pdtools.stimuli.table import read_stimuli

COVERAGE = script(Path(__file__).parents[3] / "benchmarks" / "reading_milliseconds.py")
SHEET = (
    "item,condition,sentence\n1,a,The dogs | bark\n1,b,The cats very | bark loudly\n2,a,Dogs | don't bark\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, times that two subjects need for 24 words of six items, stimuli, and fitted slopes."""
    folder = tmp_path_factory.mktemp("slopes")
    save_models(folder)
    write_times(folder / "times.tsv")
    (folder / "stimuli.csv").write_text(SHEET)
    evaluate(folder, "r", "--model", "base", "--model", "pushdown", "--beam", "4")
    return folder


def evaluate(folder: Path, output: str, *more: str, times: str = "times.tsv") -> dict[str, Any]:
    given = [str(folder / each) if (folder / each).exists() else each for each in more]
    asked = [
        "eval-reading",
        str(folder / times),
        "-o",
        str(folder / output),
        "--samples",
        "100",
        "--quiet",
    ]
    assert run([*asked, *given]) == 0
    found: dict[str, Any] = json.loads((folder / output / "results.json").read_text())
    return found


def rows(folder: Path, *more: str, slopes: str = "r", beam: int = 4) -> list[dict[str, str]]:
    asked = ["surprisal", str(folder / "stimuli.csv"), "-o", str(folder / "o.csv"), "--overwrite"]
    assert run([*asked, "--slopes", str(folder / slopes), "--beam", str(beam), *more]) == 0
    with (folder / "o.csv").open() as file:
        return list(csv.DictReader(file))


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["independent noise", "both differ", "10 stories of 300 words, both differ"])
def test_intervals_of_effects_hold_the_truth(case: str) -> None:
    """With slopes over spillover, in 200 simulations; without the errors of items or slopes they do not."""
    found = COVERAGE.coverage(COVERAGE.CASES[case], seed=5)
    assert 91 <= found["effect"] <= 99
    assert found["slope's error alone"] < 90
    if case != "independent noise":
        assert max(found["items' error alone"], found["words independent"]) < found["effect"] - 3


def test_the_error_of_a_sum_of_slopes() -> None:
    """Each item, and each subject, is left out in turn, and everything is fitted anew."""
    rng = np.random.default_rng(3)
    n, subjects = 60, 5
    item = np.repeat(np.arange(6), 10)
    bits = rng.gamma(2, 3, n)
    x = np.column_stack([np.ones(n), bits, np.append(0, bits[:-1]) + rng.normal(size=n)])
    every = (x @ [200, 4, 2])[:, None] * (1 + rng.normal(size=subjects) / 9) + 9 * rng.normal(
        size=(n, subjects)
    )
    read = rng.uniform(size=(n, subjects)) < 0.8
    read[:, 0] |= ~read.any(1)
    read[7] = [False, True, False, False, False]
    times = np.where(read, every, 0).sum(1) / read.sum(1)
    number = np.maximum(read.sum(1, keepdims=True) - read, 1)
    without = np.where(
        read, (read * every).sum(1, keepdims=True) - every, (read * every).sum(1, keepdims=True)
    )
    without = np.where(read & (read.sum(1, keepdims=True) == 1), every, without / number)
    word, subject = np.nonzero(read)
    observed = (word, subject, every[read])
    weights = np.array([0.0, 1, 1])

    def fitted(words: Any, of: Any) -> float:
        return float(weights @ np.linalg.lstsq(x[words], of[words], rcond=None)[0])

    value = fitted(item >= 0, times)
    by_item = 5 / 6 * sum((fitted(item != i, times) - value) ** 2 for i in range(6))
    by_subject = 4 / 5 * sum((fitted(item >= 0, without[:, s]) - value) ** 2 for s in range(subjects))
    residuals = times - x @ np.linalg.lstsq(x, times, rcond=None)[0]
    noise = weights @ np.linalg.inv(x.T @ x) @ weights * (residuals**2).sum() / (n - 3)
    model = fit(x, times)
    found = for_new(model, x, times, item, observed, weights)
    assert (float(found.value), found.freedom) == (pytest.approx(value), 4)
    assert float(found.error) ** 2 == pytest.approx(max(by_item, by_subject, by_item + by_subject - noise))
    alone = for_new(model, x, times, item, None, weights)
    assert (float(alone.error) ** 2, alone.freedom) == (pytest.approx(by_item), 5)


def test_the_corpus_in_statsmodels(test_data: Path, tmp_path: Path) -> None:
    """Two Natural Stories: the sum of three slopes, and its error with their covariances."""
    api = pytest.importorskip("statsmodels.api")
    with zipfile.ZipFile(test_data / "benchmarks" / "reading" / "naturalstories.zip") as packed:
        texts = pd.read_csv(packed.open("naturalstories_RTS/all_stories.tok"), sep="\t", quoting=3)
        times = pd.read_csv(packed.open("naturalstories_RTS/processed_wordinfo.tsv"), sep="\t", quoting=3)
    few = (1, 2)
    texts[texts.item.isin(few)].to_csv(tmp_path / "t.tok", sep="\t", index=False, quoting=3)
    times[times.item.isin(few)].to_csv(tmp_path / "times.tsv", sep="\t", index=False, quoting=3)
    more = ["--column", "time=meanItemRT", "--texts", "t.tok", "--model", "english-base"]
    scores = evaluate(tmp_path, "r", *more, "--table", str(tmp_path / "table.csv"))["scores"]
    found = scores["by_model"]["english-base"]["coefficients"]["surprisal"]["sum"]
    frame = pd.read_csv(tmp_path / "table.csv")
    names = [name for name in frame.columns if name.startswith(("length", "surprisal"))]
    model = api.OLS(frame.time, api.add_constant(frame[names])).fit()
    weights = [0.0, *(float(name.startswith("surprisal")) for name in names)]
    test = model.t_test(weights)
    assert found["value"] == pytest.approx(float(test.effect[0]), rel=1e-9)
    assert found["error"] == pytest.approx(float(test.sd[0, 0]), rel=1e-9)
    variances = sum(model.bse[name] ** 2 for name in names if name.startswith("surprisal"))
    assert abs(found["error"] ** 2 / variances - 1) > 0.01  # covariances count
    jackknife = [
        float(np.dot(weights, api.OLS(own.time, api.add_constant(own[names])).fit().params))
        for own in (frame[frame.item == 1], frame[frame.item == 2])
    ]
    half = sum((each - found["value"]) ** 2 for each in jackknife) / 2
    assert found["for_new"]["error"] == pytest.approx(half**0.5, rel=1e-6)


def test_an_effect_is_of_the_errors_of_slope_and_items() -> None:
    """Of one model by the formula, drawn anew; of two groups their slopes' errors are apart."""
    rng = np.random.default_rng(0)
    bits = rng.normal(2, 1, (2, 15))
    bits[0, 3] = np.nan
    one = np.array([[3.0, 0.8]])
    value, low, high = in_milliseconds([bits[:1]], [one])
    assert low is not None
    assert high is not None
    own = bits[0, ~np.isnan(bits[0])]
    t14 = 2.160368656  # the quantile for 13 degrees of freedom
    w = t14 * own.std(ddof=1) / 14**0.5
    assert value == pytest.approx(3 * own.mean())
    half = ((3 * w) ** 2 + (0.8 * own.mean()) ** 2 + (0.8 * w / 1.959963985) ** 2) ** 0.5
    assert (low, high) == (pytest.approx(value - half), pytest.approx(value + half))
    of_seeds = in_milliseconds([np.repeat(bits[:1], 2, 0)], [np.repeat(one, 2, 0)])  # errors that they share
    assert of_seeds == pytest.approx((value, low, high))
    two = np.array([[3.0, 0.8], [5.0, 0.2]])  # each seed has a slope of its own
    value, *_ = in_milliseconds([bits], [two])
    assert value == pytest.approx(((3 * bits[0] + 5 * bits[1]) / 2)[~np.isnan(bits[0])].mean())
    other = np.array([[1.0, 0.5]])
    difference, low, high = in_milliseconds([bits[:1], bits[1:]], [one, other])
    both = bits[:, ~np.isnan(bits[0])]
    assert difference == pytest.approx((both[1] - 3 * both[0]).mean())
    w = t14 * (both[1] - 3 * both[0]).std(ddof=1) / 14**0.5
    squares = w**2 + (0.8 * both[0].mean()) ** 2 + (0.5 * both[1].mean()) ** 2
    small = sum(
        (t14 * h * each.std(ddof=1) / 14**0.5 / 1.96) ** 2 for h, each in zip((0.8, 0.5), both, strict=True)
    )
    assert low is not None
    assert difference - low == pytest.approx((squares + small) ** 0.5, rel=1e-4)
    assert in_milliseconds([bits[1:, :1]], [one])[1:] == (None, None)


# --- stimuli ----------------------------------------------------------------------------------


def test_milliseconds_of_regions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bits times the sum of three slopes, whatever the unit; a slope with the same beam comes first."""
    both = evaluate(folder, "beams", "--model", "pushdown", "--beams", "2,4", "--spillover", "0")
    models = ["--model", str(folder / "pushdown"), "--model", str(folder / "base")]
    found = rows(folder, *models)
    by_model = json.loads((folder / "r" / "results.json").read_text())["scores"]["by_model"]
    assert {row["model"] for row in found} == {"pushdown", "base"}
    for row in found:
        slope = by_model[row["model"]]["coefficients"]["surprisal"]
        assert slope["sum"]["value"] == pytest.approx(sum(each["value"] for each in slope["by_word_before"]))
        for column, end in (("ms", "value"), ("ms_low", "low"), ("ms_high", "high")):
            wanted = float(row["surprisal"]) * slope["sum"]["for_new"][end]
            assert float(row[column]) == pytest.approx(wanted, abs=1e-6)
    said = capsys.readouterr().err
    assert said.count("at it and at the 2 words after it together, beside length") == 2
    line = "ms: predicted by a linear link, fitted to another corpus, from surprisal alone; not measured"
    assert said.count(line) == 1
    assert "other surprisals" not in said
    nats = rows(folder, *models, "--nats", "--json")
    report = json.loads(capsys.readouterr().out)
    read, slopes = report["provenance"]["inputs"]["slopes"], report["settings"]["slopes"]
    assert read["path"] == str(folder / "r")
    assert {name: each["value"] for name, each in slopes.items()} == {
        name: each["coefficients"]["surprisal"]["sum"]["for_new"]["value"] for name, each in by_model.items()
    }
    in_bits, in_nats = (measured([sheet_of_pandas(pd.DataFrame(own))]) for own in (found, nats))
    assert in_nats.values == pytest.approx(in_bits.values, abs=1e-6, nan_ok=True)
    assert in_nats.slopes == pytest.approx(in_bits.slopes, rel=1e-5)
    assert [float(row["ms"]) for row in nats] == pytest.approx([float(row["ms"]) for row in found], abs=1e-6)
    capsys.readouterr()
    few = rows(folder, *models[:2], "--correct-spaces", slopes="beams")
    value = both["scores"]["by_model"]["pushdown, beam 4"]["coefficients"]["surprisal"]["sum"]["value"]
    assert float(few[0]["ms"]) == pytest.approx(float(few[0]["surprisal"]) * value, abs=1e-6)
    assert "ms a bit (95% " in (said := capsys.readouterr().err)
    assert ") at it, beside length\n" in said
    rows(folder, *models[:2], beam=3)
    assert "ms, pushdown: the slope is of other surprisals: beam 4 there, 3 here\n" in capsys.readouterr().err
    rows(folder, *models[2:], "--correct-spaces")
    said = "the slope is of other surprisals: spaces_corrected False there, True here"
    assert f"ms, base: {said}\n" in capsys.readouterr().err
    stimuli = pd.read_csv(folder / "stimuli.csv")
    with pytest.warns(UserWarning, match=f"^ms: {said}$"):
        pdtools.load(folder / "base").surprisal(stimuli, slopes=folder / "r", correct_spaces=True)
    model = pdtools.load(folder / "pushdown", beam=4)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        frame = model.surprisal(stimuli, slopes=folder / "r", nats=True)
    assert not [each for each in warned if "slope" in str(each.message)]
    own = [float(row["ms_high"]) for row in found if row["model"] == "pushdown"]
    assert frame.ms_high.tolist() == pytest.approx(own, abs=1e-6)


def test_a_slope_of_a_model_that_cannot_correct_for_spaces(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is of the same surprisals, whether a correction is asked for or not."""
    evaluate(folder, "of-tg", "--model", "tg", "--beam", "4")
    capsys.readouterr()
    plain, asked = (
        rows(folder, "--model", str(folder / "tg"), *more, slopes="of-tg")
        for more in ([], ["--correct-spaces"])
    )
    assert plain == asked
    said = capsys.readouterr().err
    assert "tg: not corrected for spaces, which its model cannot\n" in said
    assert "other surprisals" not in said
    model = pdtools.load(folder / "tg", beam=4)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model.surprisal(pd.read_csv(folder / "stimuli.csv"), slopes=folder / "of-tg", correct_spaces=True)
    assert not [each for each in warned if "slope" in str(each.message)]


def test_milliseconds_of_negative_bits() -> None:
    """Surprisals that are corrected for spaces may be negative: the smaller end is the lower one."""
    stimuli = read_stimuli(sheet_of_pandas(pd.DataFrame({"sentence": ["a b"]})), words=True)
    for slope, low, high in (((3.0, 1.0, 5.0), [2, -5], [10, -1]), ((1.0, -2.0, 4.0), [-4, -4], [8, 2])):
        scored = Surprisals(stimuli, "text", "bits", Rejects(), {"surprisal": np.array([2.0, -1.0])})
        found = make_table(stimuli, {"m": scored}, slopes={"m": slope}).columns
        assert [found[name] for name in MILLISECONDS] == [[2 * slope[0], -slope[0]], low, high]


def test_slopes_of_chosen_rows(folder: Path) -> None:
    """Times that are not fitted, of words that others have read, have no part in a slope's error."""
    times = pd.read_csv(folder / "times.tsv", sep="\t")
    words = pd.read_parquet(folder / "r" / "items.parquet")
    slow = words[["item", "word_number", "word"]].assign(subject="s2", time=300 + 90 * words.surprisal_base)
    more = slow[(slow.time > 100) & (slow.time < 3000)].astype({"item": int})
    rows_of = pd.concat([times.assign(list="train"), more.assign(list="train")], ignore_index=True)
    rows_of.loc[rows_of.index % 5 == 0, "list"] = "test"
    rows_of.loc[rows_of.subject == "s1", "list"] = "train"
    rows_of.to_csv(folder / "lists.tsv", sep="\t", index=False)
    rows_of[rows_of.list == "train"].to_csv(folder / "train.tsv", sep="\t", index=False)
    chosen, alone = (
        evaluate(folder, f"of-{name}", "--model", "base", *more, times=f"{name}.tsv")
        for name, more in (("lists", ["--fit", "list=train"]), ("train", []))
    )
    assert chosen["scores"]["by_model"]["base"] == alone["scores"]["by_model"]["base"]


def test_what_has_no_slope(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each in one line, and nothing is written."""
    evaluate(folder, "entropy", "--model", "base", "--predictor", "entropy")
    document = json.loads((folder / "r" / "results.json").read_text())
    for name, change in (("damaged", {"value": "x"}), ("short", {})):
        (folder / name).mkdir()
        changed = json.loads(json.dumps(document))
        changed["scores"]["by_model"]["base"]["coefficients"]["surprisal"]["sum"]["for_new"] |= change
        if name == "short":
            changed["settings"]["models"] = {}
        (folder / name / "results.json").write_text(json.dumps(changed))
    (folder / "other").mkdir()
    document["settings"]["task"] = "attention"
    (folder / "other" / "results.json").write_text(json.dumps(document))
    hint = "--slopes: the folder after -o of pdtools eval-reading, with the same --model"
    refused = {
        ("windows", "r"): f"no slope of windows: it is none of its models (base, pushdown) ({hint})",
        ("base", "entropy"): f"no slope of surprisal of base, only of entropy ({hint})",
        ("base", "other"): f"no slopes: results of another evaluation ({hint})",
        ("base", "short"): f"no slope of base: it is none of its models (base, pushdown) ({hint})",
        (
            "base",
            "damaged",
        ): "damaged results: scores.by_model.*.coefficients.surprisal.sum.for_new.value has to be a number",
    }
    stimuli, output = folder / "stimuli.csv", folder / "none.csv"
    for (model, slopes), message in refused.items():
        given = ["--model", str(folder / model), "--slopes", str(folder / slopes), "-o", str(output)]
        assert run(["surprisal", str(stimuli), *given, "-q"]) == 1
        assert capsys.readouterr().err == f"pdtools: {folder / slopes / 'results.json'}: {message}\n"
    (folder / "ms.csv").write_text("item,MS,sentence\n1,3,The dogs bark\n")
    given = ["--model", str(folder / "base"), "--slopes", str(folder / "r"), "-o", str(output)]
    assert run(["surprisal", str(folder / "ms.csv"), *given, "-q"]) == 1
    assert "a column 'MS', which is the name of one that is added (rename it)" in capsys.readouterr().err
    assert run(["surprisal", "--text", "The dogs bark", *given, "-q"]) == 2
    assert "--slopes goes with a table of stimuli" in capsys.readouterr().err
    assert not output.exists()
    assert not list(folder.glob("none*"))


def test_effects_of_a_table_with_milliseconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Slopes and their errors are those of the rows; a column that surprisal added comes before yours."""
    slopes = {"m": (3.0, 0.8), "n": (1.0, 0.5)}
    rng = np.random.default_rng(1)
    rows = [
        (
            condition.upper() * 2,
            model,
            item,
            condition,
            region,
            bits,
            s * bits,
            (s - h) * bits,
            (s + h) * bits,
        )
        for model, (s, h) in slopes.items()
        for item in range(12)
        for condition in ("a", "b")
        for region in (1, 2)
        for bits in [round(rng.gamma(4, 2), 8) if region == 1 or item else 0.0]
    ]
    names = ["Condition", "model", "item", "condition", "region", "surprisal", "ms", "ms_low", "ms_high"]
    frame = pd.DataFrame(rows, columns=names)
    frame = frame.sort_values(["item", "condition", "region", "model"], ignore_index=True)
    frame.loc[[0, len(frame) - 1], "surprisal":] = np.nan  # the first time is of the second model
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = ["compare", str(tmp_path / "t.csv"), "--region", "2"]
    assert run([*given, "-o", str(tmp_path / "e.csv")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "ms: predicted by a linear link, fitted to another corpus, from surprisal alone; not measured" in said
    )
    found = pd.read_csv(tmp_path / "e.csv")
    assert found.contrast.unique().tolist() == ["b − a"]
    bits = frame.pivot(index="item", columns=["model", "region", "condition"], values="surprisal")
    for row in found.to_dict("records"):
        models = row["model"].split(" − ")[::-1]
        own = [bits[m][row["region"]] for m in models]
        runs = [(each.b - each.a).to_numpy()[None] for each in own]
        expected = in_milliseconds(runs, [np.array([slopes[m]]) for m in models])
        assert [row[name] for name in ("ms", "ms_low", "ms_high")] == pytest.approx(expected, rel=1e-5)
    page = stimuli_page([str(tmp_path / "t.csv")], region="2")
    assert PREDICTED in page.notes
    assert page.document["effects"] == json.loads(json.dumps(page.document["effects"]))
    at_region = figures(page).tables["effects-at-region"]
    assert [row[-3:] for row in at_region[1]] == pytest.approx(
        found[found.region == 2].iloc[:, -3:].to_numpy()
    )
    assert " ms, 95% CI [" in page.document["results"]
    assert "bits times slopes fitted to another corpus" in page.document["methods"]
    in_python = pdtools.effects(frame, None)
    assert in_python.ms.tolist() == pytest.approx(found.ms.tolist(), rel=1e-6)
    frame.loc[4, "ms"] += 0.01
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert run(given) == 1
    assert capsys.readouterr().err == (
        f"pdtools: {tmp_path / 't.csv'}:6: ms of m is not its surprisal times the slope of its other rows"
        " (pdtools surprisal --slopes writes it)\n"
    )
    frame.astype({"ms": object}).replace({"ms": {frame.ms[4]: "fast"}}).to_csv(
        tmp_path / "t.csv", index=False
    )
    assert run(given) == 1
    assert f"{tmp_path / 't.csv'}:6: surprisal and ms are " in capsys.readouterr().err
    frame.drop(columns="ms_high").to_csv(tmp_path / "t.csv", index=False)
    assert run(given) == 0
    out, err = capsys.readouterr()
    assert "ms 95%" not in out
    note = (
        "no milliseconds: not all models have ms, ms_low, ms_high, as pdtools surprisal --slopes writes them"
    )
    assert note in " ".join((out + err).split())
    assert note in stimuli_page([str(tmp_path / "t.csv")], region="2").notes
