"""Effects in milliseconds: against a plain loop, known ones, groups of items, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from pdtools.cli.main import run
from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.reading.effects import ConditionPair, _Cell, _Conversion, _with_interval
from pdtools.evaluation.reading.scoring import external_words
from pdtools.evaluation.reading.times import read_times

SAP = Path(os.environ.get("PDTOOLS_TEST_DATA", ""), "benchmarks", "reading", "sap.zip")
WORDS, CRITICAL, FILLERS, ITEMS, SUBJECTS = 9, 4, 16, 6, 4


def table(folder: Path, seed: int = 0) -> pandas.DataFrame:
    """Fillers and items in two conditions; 4 ms a bit, 2 of the word before, and 30 more where it is hard."""
    rng = np.random.default_rng(seed)
    rows = []
    kinds = [("filler", f"f{i}") for i in range(FILLERS)]
    kinds += [(kind, f"i{i}") for i in range(ITEMS) for kind in ("hard", "easy")]
    for kind, item in kinds:
        bits = rng.gamma(2, 3, WORDS)
        bits[CRITICAL] += 5 * (kind == "hard")
        words = ["x" * n for n in rng.integers(1, 9, WORDS)]
        for subject in range(SUBJECTS):
            for i in range(WORDS):
                time = 300 + 4 * bits[i] + (2 * bits[i - 1] if i else 0) + 3 * len(words[i])
                time += 30 * (kind == "hard" and i == CRITICAL) + 3 * rng.normal() + 20 * subject
                roi = i - CRITICAL if kind != "filler" else ""
                rows.append((item, kind, i + 1, words[i], f"s{subject}", time, bits[i], roi, subject % 2))
    names = ["item", "condition", "word_number", "word", "subject", "time", "gpt", "roi", "list"]
    frame = pandas.DataFrame(rows, columns=names)
    frame.to_csv(folder / "times.csv", index=False)
    return frame


def evaluate(folder: Path, *more: str, samples: str = "300") -> dict[str, Any]:
    given = ["eval-reading", str(folder / "times.csv"), "--column", "item=item+condition"]
    given += ["--column", "surprisal=gpt", "--samples", samples, "--quiet", "--overwrite"]
    assert run([*given, "-o", str(folder / "r"), *more]) == 0
    found: dict[str, Any] = json.loads((folder / "r" / "results.json").read_text())
    return found


PREDICT = ("--fit", "filler", "--predict", "hard,easy")


def test_ratios_and_the_table_of_effects(tmp_path: Path) -> None:
    """The effects themselves are computed again in test_reading_computed_again."""
    table(tmp_path)
    effects = evaluate(tmp_path, *PREDICT)["scores"]["effects"]
    table_of_effects = pandas.read_parquet(tmp_path / "r" / "effects.parquet")
    assert table_of_effects.roi.tolist() == [0, 1, 2]
    for name in ("human", "predicted"):
        for key, column in (("value", name), ("low", f"{name}_low"), ("high", f"{name}_high")):
            assert table_of_effects[column].tolist() == [each[name][key] for each in effects]
    first = effects[0]
    assert first["ratio"]["value"] == pytest.approx(first["predicted"]["value"] / first["human"]["value"])
    assert effects[2]["ratio"] is None  # people's may be 0


def test_drawn_cells_count_as_often_as_they_are_drawn() -> None:
    rng = np.random.default_rng(0)
    number = rng.integers(0, 3, (3, 2)).astype(float)
    number[0] = 1
    time, predictors = number * rng.normal(size=(3, 2)), number[..., None] * rng.normal(size=(3, 2, 4))
    groups, subjects = rng.integers(1, 4, (5, 3)).astype(float), rng.integers(1, 4, (5, 2)).astype(float)
    found = _Cell(number, time, predictors).means(groups, subjects)
    for s in range(5):
        weight = groups[s][:, None] * subjects[s]
        n = (weight * number).sum()
        assert found[0][s] == pytest.approx((weight * time).sum() / n)
        assert found[1][s] == pytest.approx((weight[..., None] * predictors).sum((0, 1)) / n)


def test_words_that_no_drawn_subject_has_read_are_not_fitted(tmp_path: Path) -> None:
    """Least squares on the means of drawn subjects, each word as often as its group is drawn."""
    frame = table(tmp_path)
    rng = np.random.default_rng(1)
    frame.loc[rng.random(len(frame)) < 0.6, "time"] = np.nan  # most words lack some of the subjects
    frame.to_csv(tmp_path / "times.csv", index=False)
    times = read_times(str(tmp_path / "times.csv"), columns={"item": "item+condition"})
    read = np.ones(len(times.time), bool)
    kept, x = np.unique(times.word), rng.normal(size=(len(times.text_of_word), 3))
    conversion = _Conversion(times, read, kept, x)
    groups = rng.multinomial(conversion.groups, np.full(conversion.groups, 1 / conversion.groups), 5)
    subjects = np.array([[1, 1, 1, 1], [2, 0, 1, 1], [0, 3, 0, 1], [0, 0, 4, 0], [2, 2, 0, 0]])
    found = conversion.coefficients(groups.astype(float), subjects.astype(float))
    of_word = np.unique(times.group_of_word[kept], return_inverse=True)[1]
    for s, (drawn, of_subjects) in enumerate(zip(groups, subjects, strict=True)):
        rows, means = [], []
        for word, group in zip(kept, of_word, strict=True):
            own = np.repeat(times.time, (times.word == word) * of_subjects[times.subject])
            if len(own):
                rows += [x[word]] * drawn[group]
                means += [own.mean()] * drawn[group]
        assert s == 0 or len(rows) < (drawn[of_word]).sum()
        np.testing.assert_allclose(found[s], np.linalg.lstsq(np.array(rows), np.array(means))[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("items", "subjects", "variance"), [(4.0, 3.0, 5.0), (1.0, 4.6, 4.6), (9.0, 9.0, 9.0)]
)
def test_the_spread_is_the_two_way_clustered_one(items: float, subjects: float, variance: float) -> None:
    """2 (items + subjects) − both, no less than either, no more than that of drawing both, which is 9."""
    unit = np.random.default_rng(0).normal(size=20_000)
    unit = (unit - unit.mean()) / unit.std()
    drawn = {"both": 3 * unit, "items": items**0.5 * unit, "subjects": subjects**0.5 * unit}
    found = _with_interval(0.0, drawn)
    low, high = np.quantile(unit, [0.025, 0.975]) * variance**0.5
    assert (found["low"], found["high"]) == pytest.approx((low, high), rel=1e-3)


def test_rows_are_fitted_by_any_column(tmp_path: Path) -> None:
    frame = table(tmp_path)
    found = evaluate(tmp_path, "--fit", "list=1")
    assert found["counts"]["observations_left_out"]["not to be fitted"] == (frame.list == 0).sum()
    assert set(pandas.read_parquet(tmp_path / "r" / "observations.parquet")["list"]) == {"1"}
    assert "effects" not in found["scores"]


def test_a_prediction_rests_on_the_fitted_times_alone(tmp_path: Path) -> None:
    frame = table(tmp_path)
    fit = ("--fit", "list=1", "--predict", "hard,easy")
    before = evaluate(tmp_path, *fit)["scores"]["effects"]
    frame.loc[frame.list == 0, "time"] = 1.5 * frame.time + 10 * frame.word_number
    frame.to_csv(tmp_path / "times.csv", index=False)
    after = evaluate(tmp_path, *fit)["scores"]["effects"]
    assert [each["predicted"]["value"] for each in after] == pytest.approx(
        [each["predicted"]["value"] for each in before], rel=1e-9
    )
    assert after[0]["human"]["value"] != pytest.approx(before[0]["human"]["value"], rel=1e-3)


def test_drawn_subjects_and_items_give_the_spread(tmp_path: Path) -> None:
    """Of effects that differ by item alone, the interval of the mean is that of items."""
    frame = table(tmp_path)
    size = np.array([10.0, 40, 70, 20, 60, 100])
    extra = frame["item"].map({f"i{i}": ms for i, ms in enumerate(size)})
    hard = (frame.condition == "hard") & (frame.roi == 0)
    frame["time"] = 300 + 0.1 * frame.gpt + np.where(hard, extra, 0)
    fillers = frame.condition == "filler"
    frame.loc[fillers, "time"] += np.random.default_rng(0).normal(size=fillers.sum())
    frame.to_csv(tmp_path / "times.csv", index=False)
    human = evaluate(tmp_path, *PREDICT, samples="4000")["scores"]["effects"][0]["human"]
    drawn = np.random.default_rng(1).choice(size, (20_000, ITEMS)).mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert human["value"] == pytest.approx(size.mean(), abs=1)
    assert human["low"] == pytest.approx(low, abs=3)
    assert human["high"] == pytest.approx(high, abs=3)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            ("--fit", "fillers", "--predict", "hard,easy"),
            "no row has 'fillers', only 'easy', 'filler', 'hard'",
        ),
        (("--fit", "filler", "--predict", "hard,soft"), "no row has 'soft'"),
        (("--fit", "filler", "--predict", "hard"), "has to be two conditions"),
        (("--predict", "hard,easy"), "--predict needs --fit"),
        (("--fit", "kind=filler"), "no column kind"),
        ((*PREDICT, "--column", "roi=list+gpt"), "has to be 0 at the critical word"),
        ((*PREDICT, "--column", "roi=word"), "no column word"),
        (("--column", "group=nothing"), "no column nothing"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], words: str
) -> None:
    table(tmp_path)
    given = ["eval-reading", str(tmp_path / "times.csv"), "--column", "item=item+condition"]
    assert run([*given, "--column", "surprisal=gpt", "--samples", "100", *more]) != 0
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (("--fit", "filler", "--predict", "hard,easy"), "--predict hard,easy: no row with a time has 'easy'"),
        (("--fit", "easy"), "--fit easy: no row with a time has 'easy'"),
        (("--fit", "kind=soft easy"), "--fit kind=soft easy: no row has 'soft easy'"),
    ],
)
def test_conditions_without_a_time_are_not_said_to_be_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], line: str
) -> None:
    frame = table(tmp_path).assign(kind="hard easy")
    frame.loc[frame.condition == "easy", "time"] = float("nan")
    frame.to_csv(tmp_path / "times.csv", index=False)
    given = ["eval-reading", str(tmp_path / "times.csv"), "--column", "item=item+condition"]
    assert run([*given, "--column", "surprisal=gpt", "--samples", "100", "--quiet", *more]) == 1
    assert line in capsys.readouterr().err


def test_words_after_the_critical_one_need_not_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An effect is at the places where both conditions have times; the critical word has to be one."""
    frame = table(tmp_path)
    whole = evaluate(tmp_path, *PREDICT, samples="100")["scores"]["effects"]
    for place, found in ((1, [whole[0], whole[2]]), (0, None)):
        frame.loc[(frame.condition == "easy") & (frame.roi == place), "time"] = np.nan
        frame.to_csv(tmp_path / "times.csv", index=False)
        if found:
            made = evaluate(tmp_path, *PREDICT, samples="100")["scores"]["effects"]
            assert [each["roi"] for each in made] == [0, 2]
            assert made == found
    given = ["eval-reading", str(tmp_path / "times.csv"), "--column", "item=item+condition"]
    assert run([*given, "--column", "surprisal=gpt", "--samples", "100", "--quiet", *PREDICT]) == 1
    reason = "hard − easy: no critical word (roi 0) has a time and values of all models"
    assert reason in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("infinite", ["inf", "-inf", "Infinity"])
def test_infinite_bits_are_left_out_as_missing_ones_are(tmp_path: Path, infinite: str) -> None:
    """Of fillers and at a critical word."""
    frame = table(tmp_path).astype({"gpt": object})
    # A condition that no effect is of has such a place too.
    frame.loc[frame.item == "f3", "roi"] = frame.word_number - 1 - CRITICAL
    at = (frame.item.isin(["f3", "i2"])) & (frame.word_number == CRITICAL + 1)
    found = []
    for cell in ("", infinite):
        frame.loc[at, "gpt"] = cell
        frame.to_csv(tmp_path / "times.csv", index=False)
        found.append(evaluate(tmp_path, *PREDICT, samples="100"))
    missing, made = found
    assert made["scores"] == missing["scores"]
    assert made["counts"]["words_left_out"]["gpt: infinite surprisal"] == 1
    assert all(each["observations_left_out"] == 2 * SUBJECTS for each in made["scores"]["effects"])


def test_an_item_has_one_group(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("item\tword_number\tword\ttime\tset\n1\t1\ta\t300\tA\n1\t2\tb\t300\tB\n")
    with pytest.raises(InputError, match="group B here, and of A before"):
        read_times(str(tmp_path / "t.tsv"), columns={"group": "set"})
    with pytest.raises(PdtoolsError, match="two conditions"):
        ConditionPair.read("a,b,c")


@pytest.mark.parametrize(("first", "second"), [(3, 4), (4, 0), (0, 4)])
def test_labels_are_of_rows_with_a_time_and_words_have_one_number_of_bits(
    first: int, second: int, tmp_path: Path
) -> None:
    rows = f"1\t1\ta\tx\t\tA\t2\n1\t2\tb\tx\t300\tB\t{first}\n1\t2\tb\ty\t310\tC\t{second}\n"
    (tmp_path / "t.tsv").write_text("item\tword_number\tword\tsubject\ttime\tset\tgpt\n" + rows)
    times = read_times(str(tmp_path / "t.tsv"), columns={"surprisal": "gpt"})
    assert times.label("set").tolist() == ["B", "C"]
    with pytest.raises(PdtoolsError, match=f"gpt is {second} and {first} of the same word"):
        external_words(times)
    (tmp_path / "t.tsv").write_text((tmp_path / "t.tsv").read_text().replace(f"C\t{second}", "C\tmany"))
    times = read_times(str(tmp_path / "t.tsv"), columns={"surprisal": "gpt"})
    with pytest.raises(PdtoolsError, match="gpt is 'many', not a number of bits"):
        external_words(times)


def sap_rows(member: str) -> list[dict[str, str]]:
    """Rows of a published table of surprisals."""
    with zipfile.ZipFile(SAP) as archive:
        return list(csv.DictReader(io.StringIO(archive.read(f"Surprisals/data/{member}").decode("utf-8"))))


@pytest.mark.skipif(not SAP.is_file(), reason="SAP's tables are not at hand")
@pytest.mark.parametrize(
    ("member", "means"),
    [
        (
            "gpt2/items_ClassicGP.gpt2.csv",
            {
                "NPS_AMB,NPS_UAMB": (14.3113, 11.9595),
                "NPZ_AMB,NPZ_UAMB": (17.4661, 10.5564),
                "MVRR_AMB,MVRR_UAMB": (16.7684, 13.9402),
            },
        ),
        (
            "lstm/items_ClassicGP.lstm.csv",
            {
                "NPS_AMB,NPS_UAMB": (14.4226, 11.5272),
                "NPZ_AMB,NPZ_UAMB": (16.2986, 10.8218),
                "MVRR_AMB,MVRR_UAMB": (17.6288, 13.8879),
            },
        ),
        # Of the RNNG no means are published: these are pandas' of its table.
        (
            "rnng/items_ClassicGP.rnng.csv",
            {
                "NPS_AMB,NPS_UAMB": (16.5454, 13.0249),
                "NPZ_AMB,NPZ_UAMB": (16.3651, 12.4616),
                "MVRR_AMB,MVRR_UAMB": (17.3088, 14.2469),
            },
        ),
        ("gpt2/items_Agreement.gpt2.csv", {"UNAGREE,AGREE": (18.1793, 10.9565)}),
        ("lstm/items_Agreement.lstm.csv", {"UNAGREE,AGREE": (17.1078, 11.8138)}),
        ("rnng/items_Agreement.rnng.csv", {"UNAGREE,AGREE": (14.2321, 12.0820)}),
        (
            "gpt2/items_AttachmentAmbiguity.gpt2.csv",
            {"AttachHigh,AttachMulti": (12.3963, 9.6735), "AttachLow,AttachMulti": (10.0520, 9.6735)},
        ),
        ("gpt2/items_RelativeClause.gpt2.csv", {"RC_Obj,RC_Subj": (11.2258, 11.9197)}),
    ],
)
def test_saps_means_of_bits(tmp_path: Path, member: str, means: dict[str, tuple[float, float]]) -> None:
    """Published surprisals by construction, at the critical word; times are invented."""
    rng = np.random.default_rng(0)
    lines = ["item,condition,word_number,word,time,gpt,roi"]
    controls = {pair.split(",")[1] for pair in means}
    for row in sap_rows(member):
        row = {name.lower(): cell for name, cell in row.items()}
        condition, version = row["condition"], ""
        if "ambiguity" in row:  # which the RNNG's table has right, and its condition wrong
            version = {"ambiguous": "amb", "unambiguous": "unamb"}[row["ambiguity"]]
            condition = f"{condition.partition('_')[0]}_{'U' if version == 'unamb' else ''}AMB"
        place = row.get(f"disambposition{version}") or row["targetposition"]
        bits = row.get("sum_surprisal_base2") or str(float(row["sum_surprisal"]) / math.log(2))
        word = row["word"].replace('"', "").replace(",", "") or "x"
        cells = [row["item"], condition, row["word_pos"], word, f"{rng.normal(350, 30):.1f}", bits]
        lines.append(",".join([*cells, str(int(row["word_pos"]) - (int(place) - 1))]))
        if condition in controls:
            lines.append(",".join([f"f{row['item']}", f"filler {condition}", *cells[2:], ""]))
    (tmp_path / "times.csv").write_text("\n".join(lines) + "\n")
    fillers = ",".join(f"filler {name}" for name in sorted(controls))
    more = [part for pair in means for part in ("--predict", pair)]
    found = evaluate(tmp_path, "--column", "item=item+condition", "--fit", fillers, *more, "--spillover", "0")
    first = [each for each in found["scores"]["effects"] if each["roi"] == 0]
    assert [each["contrast"] for each in first] == [pair.replace(",", " − ") for pair in means]
    for each, expected in zip(first, means.values(), strict=True):
        assert each["bits"] == pytest.approx(expected, rel=2e-6, abs=1e-4)
