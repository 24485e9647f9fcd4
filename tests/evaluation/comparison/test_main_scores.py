"""One table of main scores: models × scores, means and deviations over seeds, as printed, LaTeX and JSON."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pyarrow as pa
import pytest
from view_pages import write_blimp

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.evaluation.comparison.compare import ComparedModels, compare
from pdtools.evaluation.comparison.engine import ComparedScore
from pdtools.evaluation.comparison.groups import Group, by_seed, find_models
from pdtools.evaluation.results import ITEMS, Results, write_results
from pdtools.report.view.results import results_page

RIGHT = np.random.default_rng(5).random((4, 3, 20)) < 0.7
PERPLEXITY = (31.5, 30.25, None, 28.0)
SEEDS = {"base-1": "x", "base-2": "x", "base-3": "x", "big": "y"}


LOGS = [math.log(31.5), math.log(30.25)]
GEOMETRIC = math.sqrt(31.5 * 30.25), math.sqrt(31.5 * 30.25) * stdev(LOGS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three seeds of a model, of which the third has no perplexity, and another model."""
    for i, (name, training) in enumerate(SEEDS.items()):
        write_blimp(tmp_path / name / "blimp", RIGHT[i], i, training=training)
        if (value := PERPLEXITY[i]) is not None:
            made = {"inputs": {"model": {"path": name, "training": {"seed": i, "sha256": training}}}}
            found = Results(
                scores={"ppl_word_marginal": value, "ppl_word_without_eos_marginal": 2 * value},
                counts={"words": 100, "sentences": 5},
                settings={"task": "ppl", "eos_counted": True},
                tables={ITEMS: pa.table({"sentence": [1]})},
            )
            write_results(tmp_path / name / "ppl", found, made)
    return tmp_path


def groups(folder: Path) -> list[Group]:
    """As the command puts them together where it is told the names."""
    models = {name: find_models(folder / name)[0] for name in SEEDS}
    return [
        Group(name="base", models=tuple(models[f"base-{k}"] for k in (1, 2, 3))),
        Group(name="big", models=(models["big"],)),
    ]


def main_scores(groups: list[Group]) -> ComparedModels:
    return compare(groups, differences=False)


def means(score: ComparedScore) -> dict[str, tuple[float, float | None]]:
    return {each.group: (each.mean, each.deviation) for each in score.groups}


def test_means_and_deviations(folder: Path) -> None:
    found = main_scores(groups(folder))
    assert [(group.name, len(group.folders)) for group in found.groups] == [("base", 3), ("big", 1)]
    assert {score.pairs for score in found.scores} == {()}
    blimp, perplexity = found.scores
    accuracies = [100 * float(of.mean()) for of in RIGHT]
    mean, deviation = means(blimp)["base"]
    assert (mean, deviation) == (pytest.approx(fmean(accuracies[:3])), pytest.approx(stdev(accuracies[:3])))
    assert means(blimp)["big"] == (pytest.approx(accuracies[3]), None)
    assert means(perplexity) == {
        "base": (pytest.approx(GEOMETRIC[0]), pytest.approx(GEOMETRIC[1])),
        "big": (pytest.approx(28.0), None),
    }
    assert (blimp.notes, perplexity.notes) == ((), ("of 2 of the 3 runs of base",))
    assert perplexity.score == "perplexity per word, marginal"  # all count ends of sentences


def test_missing_runs_are_noted_once_for_a_score(folder: Path) -> None:
    """Beside the overall score, not those of groups of items."""
    shutil.rmtree(folder / "base-2" / "blimp")
    found = [score for score in compare(groups(folder)).scores if not score.is_margin]
    noted = {(score.evaluation, score.level): "of 2 of the 3 runs of base" in score.notes for score in found}
    assert len(noted) > 2
    assert {key for key, is_noted in noted.items() if is_noted} == {("blimp", "overall"), ("ppl", "overall")}


def test_a_page_has_the_same_means(folder: Path) -> None:
    (row,) = (
        row
        for row in results_page([str(folder / name) for name in SEEDS]).document["overview"]
        if row["score"] == "perplexity per word, marginal"
    )
    base, big = sorted(row["means"].values(), key=lambda means: -means[0])
    assert (base, big) == (pytest.approx(GEOMETRIC), (28.0, None))


def test_results_of_other_items_are_excluded(folder: Path) -> None:
    write_blimp(folder / "other" / "blimp", RIGHT[0][:2], 9, training="z")
    every = [*groups(folder), *by_seed(find_models(folder / "other"))]
    found = main_scores(every)
    assert found.groups[2].name == "other"
    assert "other" not in means(found.scores[0])
    assert "not about the same items" in found.refused["blimp"][0]


def test_results_without_a_score(tmp_path: Path) -> None:
    found = Results(scores={"overall": None}, counts={"pairs_scored": 0}, settings={"task": "blimp"})
    write_results(tmp_path / "a" / "blimp", found, {})
    with pytest.raises(PdtoolsError):
        main_scores(by_seed(find_models(tmp_path / "a")))


def named(folder: Path) -> list[str]:
    return ["--group", f"base={folder}/base-*", "--group", f"big={folder}/big", "--overview"]


def test_the_command_prints_scores_by_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *named(folder)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["score", "base", "(3", "runs)", "big"]
    accuracies = [100 * float(of.mean()) for of in RIGHT]
    assert lines[0].split()[-4:] == [
        f"{fmean(accuracies[:3]):.2f}",
        "±",
        f"{stdev(accuracies[:3]):.2f}",
        f"{accuracies[3]:.2f}",
    ]
    assert lines[1].split()[-4:] == [f"{GEOMETRIC[0]:.2f}", "±", f"{GEOMETRIC[1]:.2f}", "28.00"]
    assert "perplexities: means are geometric" in " ".join(lines)
    said = " ".join(lines)
    assert "one run of big: how it varies over seeds is not known" in said
    assert "±: standard deviation over runs that differ in their seeds" in said


def test_a_group_named_twice_has_the_models_of_both(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, big, more = named(folder)[:2], named(folder)[2:4], named(folder)[4:]
    assert run(["compare", *base, *big, *more]) == 0
    once = capsys.readouterr().out
    base = ["--group", f"base={folder}/base-1,{folder}/base-3"]
    assert run(["compare", *base, *big, "--group", f"base={folder}/base-2", *more]) == 0
    assert capsys.readouterr().out == once
    assert run(["compare", *base, "--group", f"base={folder}/base-3", *more]) == 1
    assert "base-3 is given twice" in " ".join(capsys.readouterr().err.split())


def test_latex_is_models_by_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *named(folder), "--latex"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[2].startswith(r"model & runs & BLiMP accuracy (\%) & ")
    accuracies = [100 * float(of.mean()) for of in RIGHT]
    cell = f"{fmean(accuracies[:3]):.2f} $\\pm$ {stdev(accuracies[:3]):.2f}"
    assert lines[4] == rf"base & 3 & {cell} & {GEOMETRIC[0]:.2f} $\pm$ {GEOMETRIC[1]:.2f} \\"
    assert lines[5] == rf"big & 1 & {accuracies[3]:.2f} & 28.00 \\"
    assert all(line.startswith("%") for line in lines[lines.index(r"\end{tabular}") + 1 :])


def test_scores_of_the_same_name_say_of_which_results(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_blimp(folder / "big" / "again", RIGHT[0], 3, training="y")
    assert run(["compare", str(folder / "big"), "--overview", "--latex"]) == 0
    lines = capsys.readouterr().out.splitlines()
    name = r"BLiMP accuracy (\%)"
    assert lines[2].startswith(f"model & {name}, again & {name}, blimp & ")
    assert f" & {100 * RIGHT[0].mean():.2f} & {100 * RIGHT[3].mean():.2f} & " in lines[4]
