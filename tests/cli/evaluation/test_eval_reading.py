"""eval-reading: from a table of times to results, in chunks, and what is refused."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from toy_gpt2 import save_gpt2
from toy_reading import N_ITEMS, WORDS, save_models, words_of, write_counts, write_times

from pdtools.cli.main import run
from pdtools.search.model import Chunk, ModelWork

QUICK = ["--samples", "200", "--device", "cpu", "--beam", "3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, a GPT-2, times of a few items by two subjects, and frequencies."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("reading")
    save_models(folder)
    save_gpt2(folder / "gpt2", [" ".join(WORDS)], positions=48)
    write_times(folder / "times.tsv")
    write_counts(folder / "counts.tsv")
    return folder


def evaluate(capsys: pytest.CaptureFixture[str], folder: Path, *command: object) -> dict[str, Any]:
    given = ["eval-reading", str(folder / "times.tsv"), *map(str, command), *QUICK, "--json", "--quiet"]
    assert run(given) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def models(folder: Path, *names: str) -> list[str]:
    return [part for name in names for part in ("--model", str(folder / name))]


def test_results_and_tables(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, table = tmp_path / "r", tmp_path / "all.csv"
    command = [
        "eval-reading",
        str(folder / "times.tsv"),
        *models(folder, "base", "pushdown", "gpt2"),
        *("--frequencies", str(folder / "counts.tsv"), "-o", str(out), "--table", str(table), *QUICK),
    ]
    assert run(command) == 0
    shown = capsys.readouterr()
    assert "pushdown − base" in shown.out
    assert "first or last word of its sentence" in shown.out
    assert shown.err == ""
    document = json.loads((out / "results.json").read_text())
    assert set(document["scores"]["by_model"]) == {"base", "pushdown", "gpt2"}
    assert len(document["scores"]["pairs"]) == 3
    assert document["settings"]["baseline"] == ["length", "log_frequency"]
    assert document["counts"]["sentences"] == 4 * N_ITEMS
    assert set(document["provenance"]["inputs"]) >= {"times", "frequencies"}
    items = pandas.read_parquet(out / "items.parquet")
    assert len(items) == 24 * N_ITEMS
    # What eval-reading says of a word is what surprisal says of its text word.
    surprisals = tmp_path / "s.tsv"
    text = tmp_path / "text.txt"
    text.write_text("".join(" ".join(words_of(0)[i : i + 6]) + "\n" for i in range(0, 24, 6)))
    for name in ("base", "pushdown", "gpt2"):
        given = ["surprisal", str(text), "--model", str(folder / name), "--words", "-o", str(surprisals)]
        assert run([*given, "--beam", "3", "--overwrite", "--device", "cpu", "--quiet"]) == 0
        rows = pandas.read_csv(surprisals, sep="\t", quoting=3, keep_default_na=False)
        expected = rows[(rows.word_id <= 6)].surprisal.to_numpy()
        np.testing.assert_allclose(items[f"surprisal_{name}"][:24], expected, rtol=2e-6, atol=1e-4)
    observations = pandas.read_parquet(out / "observations.parquet")
    pandas.testing.assert_frame_equal(
        pandas.read_csv(table, dtype={"item": str}), observations, check_dtype=False, rtol=1e-9
    )
    assert run(command) == 1
    assert "exists already" in capsys.readouterr().err


def test_contexts_beams_and_predictors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = evaluate(capsys, folder, *models(folder, "windows", "gpt2"))
    before = evaluate(capsys, folder, *models(folder, "windows", "gpt2"), "--context", "document")
    whole = evaluate(capsys, folder, *models(folder, "windows", "gpt2"), "--stride", "10")
    found = [
        tuple(m["delta_ll"] for m in each["scores"]["by_model"].values()) for each in (plain, before, whole)
    ]
    assert len(set(found)) == 3
    assert whole["settings"]["models"]["gpt2"]["stride"] == 10
    assert not any("gpt2" in reason for reason in whole["counts"]["words_left_out"])
    command = [
        "--beams",
        "1,8",
        "--predictor",
        "surprisal",
        "--predictor",
        "entropy",
        "--predictor",
        "closed",
    ]
    command += ["--spillover", "0", "--margin", "2", "--search", "max_batch=3"]
    wide = evaluate(capsys, folder, *models(folder, "base", "pushdown"), *command)
    searched = [wide["settings"]["models"][f"pushdown, beam {n}"] for n in (1, 8)]
    assert [(each["beam"], each["margin"]) for each in searched] == [(1, 2), (8, 2)]
    assert {name: each["predictors"] for name, each in wide["settings"]["models"].items()} == {
        "base, beam 1": ["surprisal", "entropy"],
        "pushdown, beam 1": ["surprisal", "entropy", "closed"],
        "pushdown, beam 8": ["surprisal", "entropy", "closed"],
    }
    one, many = (wide["scores"]["by_model"][f"pushdown, beam {n}"]["delta_ll"] for n in (1, 8))
    assert one != many
    corrected = evaluate(capsys, folder, *models(folder, "gpt2"), "--correct-spaces")
    assert corrected["settings"]["models"]["gpt2"]["spaces_corrected"]
    assert corrected["scores"]["by_model"]["gpt2"] != plain["scores"]["by_model"]["gpt2"]


def test_a_model_of_actions(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no attachments, and its spaces are not corrected, which is said."""
    command = ["eval-reading", str(folder / "times.tsv"), *models(folder, "base", "tg"), *QUICK]
    predictors = ["--predictor", "surprisal", "--predictor", "attachment"]
    counts = ["--frequencies", str(folder / "counts.tsv")]
    assert run([*command, *predictors, *counts, "--correct-spaces", "-o", str(tmp_path / "r")]) == 0
    shown = capsys.readouterr()
    assert shown.err == "tg: not corrected for spaces, which its model cannot\n"
    described = json.loads((tmp_path / "r" / "results.json").read_text())["settings"]["models"]
    assert {name: each["spaces_corrected"] for name, each in described.items()} == {"base": True, "tg": False}
    assert described["tg"]["predictors"] == ["surprisal"]


@pytest.mark.parametrize("name", ["rnng", "rnng-in-order"])
def test_a_model_predicts_times_as_what_surprisal_wrote_of_it(
    name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With and without frequencies, spill-over and edges."""
    lines = [words_of(item)[i : i + 6] for item in range(N_ITEMS) for i in range(0, 24, 6)]
    (tmp_path / "text.txt").write_text("".join(" ".join(line) + "\n" for line in lines))
    command = ["surprisal", str(tmp_path / "text.txt"), "--model", str(folder / name), "--words", "--quiet"]
    search = ["--search", "fast_track=1"]
    assert run([*command, *search, "--beam", "3", "--device", "cpu", "-o", str(tmp_path / "bits.tsv")]) == 0
    bits = pandas.read_csv(tmp_path / "bits.tsv", sep="\t", quoting=3, keep_default_na=False)
    bits = bits[bits.word_id <= 6].surprisal.to_numpy()  # without the ends of sentences
    times = pandas.read_csv(folder / "times.tsv", sep="\t")
    times["bits"] = bits[24 * times.item + times.word_number - 1]
    times.to_csv(tmp_path / "times.tsv", sep="\t", index=False)
    for more in ([], ["--frequencies", str(folder / "counts.tsv"), "--spillover", "1", "--edges"]):
        asked = evaluate(capsys, folder, *models(folder, name), *search, *more)
        recorded = evaluate(capsys, tmp_path, "--column", "surprisal=bits", *more)
        assert asked["counts"] == recorded["counts"]
        found, wanted = (each["scores"]["by_model"][key] for each, key in ((asked, name), (recorded, "bits")))
        for key in ("delta_ll", "low", "high"):
            assert found[key] == pytest.approx(wanted[key], rel=1e-3, abs=1e-6)
        slopes = [each["coefficients"]["surprisal"] for each in (found, wanted)]
        for one, other in zip(*([*each["by_word_before"], each["sum"]] for each in slopes), strict=True):
            for key in ("value", "low", "high"):
                assert one[key] == pytest.approx(other[key], rel=1e-3, abs=1e-6)


def test_slices_and_a_run_that_was_stopped_make_what_one_run_makes(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdtools.search.family.SEARCH_LOOK_AHEAD", 5)
    given = [*models(folder, "base", "pushdown"), "--spillover", "1"]
    whole = evaluate(capsys, folder, *given, "-o", tmp_path / "whole")
    command = ["eval-reading", str(folder / "times.tsv"), *given, *QUICK, "--quiet"]
    for i in range(2):
        own = [*command, "-o", str(tmp_path / "slices"), "--shard", f"{i}/2"]
        monkeypatch.setattr(sys, "argv", ["pdtools", *own])
        assert run(own) == 0
    assert run(["merge", str(tmp_path / "slices")]) == 0

    real, done = ModelWork.__call__, []

    def stops(self: ModelWork, chunk: Chunk) -> object:
        done.append(chunk)
        if len(done) == 4:
            raise KeyboardInterrupt
        return real(self, chunk)

    stopped = [*command, "-o", str(tmp_path / "stopped")]
    monkeypatch.setattr(ModelWork, "__call__", stops)
    assert run(stopped) == 130
    assert not (tmp_path / "stopped").exists()
    assert run([*stopped, "--resume"]) == 0
    assert len(done) == 4 + (1 + 5 - 3)  # base: one chunk; pushdown: 24 sentences by fives
    for name in ("slices", "stopped"):
        document = json.loads((tmp_path / name / "results.json").read_text())
        assert document["scores"] == whole["scores"]
        assert document["counts"] == whole["counts"]
    capsys.readouterr()
    assert run([*stopped, "--resume"]) == 0
    assert "done already" not in capsys.readouterr().out


def test_compare_and_view_know_the_results(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("base", "windows"):
        evaluate(capsys, folder, *models(folder, name), "-o", tmp_path / name / "reading")
    assert run(["compare", str(tmp_path / "base"), str(tmp_path / "windows"), "--json"]) == 0
    shown = capsys.readouterr().out
    gains = {}
    for name in ("base", "windows"):
        document = json.loads((tmp_path / name / "reading" / "results.json").read_text())
        gains[name] = document["scores"]["by_model"][name]
    assert "reading times, ΔLL (nats a word)" in shown
    assert all(str(found["delta_ll"])[:8] in shown for found in gains.values())
    from pdtools.report.view.results import figures, results_page

    page = results_page([str(tmp_path / name) for name in gains])
    assert "base (reading times) and windows (reading times)" in page.document["methods"]
    (benchmark,) = page.document["benchmarks"]
    expected = [(found["delta_ll"], found["low"], found["high"]) for found in gains.values()]
    (drawn,) = (each for each in benchmark["drawn"] if each["name"] == "gains")
    assert [(row["score"], row["low"], row["high"]) for row in drawn["rows"]] == expected
    assert figures(page).charts["reading-gains"]["data"]["values"] == drawn["rows"]
    assert drawn["chart"]["layer"][-1]["encoding"]["x"]["title"] == "ΔLL (nats a word)"


def test_a_table_of_means_over_subjects_is_noted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = pandas.read_csv(folder / "times.tsv", sep="\t")
    means = times.groupby(["item", "word_number", "word"], as_index=False).time.mean()
    means.to_csv(tmp_path / "means.tsv", sep="\t", index=False)
    command = ["eval-reading", str(tmp_path / "means.tsv"), *models(folder, "base"), *QUICK]
    assert run([*command, "-o", str(tmp_path / "r")]) == 0
    assert capsys.readouterr().err == (
        "no column of subjects: times are taken for means over subjects\n"
        "no --frequencies, no --wordfreq: the baseline has length alone\n"
    )
    document = json.loads((tmp_path / "r" / "results.json").read_text())
    assert document["settings"]["models"]["base"]["lme4"].endswith(" + (1 | item)")


def test_versions_of_items_keep_their_own_item(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the formula that is printed has columns of the table alone."""
    times = pandas.read_csv(folder / "times.tsv", sep="\t")
    times["condition"] = [f"c{item % 2}" for item in times.item]
    times["item"] = times.item // 2 + 10
    times.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    command = ["eval-reading", str(tmp_path / "t.tsv"), "--column", "item=item+condition"]
    assert run([*command, *models(folder, "base"), "--table", str(tmp_path / "all.csv"), *QUICK]) == 0
    shown = capsys.readouterr().out
    assert f"with {N_ITEMS // 2} items p cannot be below 0.25" in shown
    table = pandas.read_csv(tmp_path / "all.csv")
    assert set(zip(table["item"], table.item_group, table.condition, strict=True)) == {
        (f"{item} {condition}", item, condition) for item in (10, 11, 12) for condition in ("c0", "c1")
    }
    formula = shown.partition("base: time ~")[2]
    assert " ".join(formula.split()).endswith("|| subject) + (1 | item:word_number) + (1 | item_group)")
    assert set(re.findall(r"[a-z_]\w*", formula)) <= set(table.columns)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("times.tsv {base} --column time=RT", 1, "times.tsv:1: no column RT in the header"),
        ("times.tsv {base} --beams 1,x", 2, "numbers from 1 on"),
        ("times.tsv {base} --frequencies counts.tsv --wordfreq en", 2, "give only one of"),
        (
            "times.tsv {base} --stride 3",
            1,
            "only models of running text without trees read documents as one text",
        ),
        ("times.tsv {base} --min-time 4000", 1, "the shortest time below the longest"),
        ("times.tsv {base} --shard 0/2", 1, "--shard needs a file to write"),
        ("times.tsv {base} --shard 0/2 --table new.csv", 1, "--table cannot be combined with --shard"),
        ("times.tsv {base} --table counts.tsv", 1, "counts.tsv: exists already"),
        ("times.tsv", 2, "--model"),
        ("base {base}", 1, "base"),
    ],
)
def test_what_is_refused(
    command: str,
    code: int,
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert run(["eval-reading", *command.format(base="--model base").split(), *QUICK]) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert code == 2 or shown.err.count("\n") == 1


def test_times_may_come_through_a_pipe(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Piped:
        buffer = io.BytesIO((folder / "times.tsv").read_bytes())

    monkeypatch.setattr(sys, "stdin", Piped)
    given = ["eval-reading", "-", *models(folder, "base"), *QUICK, "--json", "--quiet"]
    assert run(given) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["items"] == N_ITEMS
