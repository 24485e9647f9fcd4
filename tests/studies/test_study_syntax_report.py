"""What the study of syntax says of results: means, differences, what is missing; the same from its JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from shell import script
from view_pages import write_blimp, write_run, write_sg

from pdtools.evaluation.results import ITEMS, Results, write_results
from pdtools.files import read_json, write_json

REPOSITORY = Path(__file__).resolve().parents[2]
# BLiMP: 2 phenomena of 1 paradigm, 40 pairs each; how many of each are right.
RIGHT = {("base", 1): (20, 10), ("base", 2): (22, 12), ("pushdown", 1): (36, 11), ("pushdown", 2): (37, 10)}


@pytest.fixture(scope="module")
def report() -> ModuleType:
    return script(REPOSITORY / "studies" / "syntax" / "report.py")


def write_ppl(folder: Path, nats_a_word: float, joint: float | None = None) -> None:
    rows = [
        {"id": i, "words": 9 + i, "given_tree": -nats_a_word * (9 + i), "marginal": -nats_a_word * (9 + i)}
        for i in range(5)
    ]
    names = ("ppl_word_given_trees", "ppl_word_marginal")
    scores = {**dict.fromkeys(names, math.exp(nats_a_word)), "ppl_word_joint": joint}
    counts = {"sentences": 5, "words": 55, "sentences_left_out": 1 if joint else 0}
    settings = {"task": "ppl", "eos_counted": True}
    found = Results(
        scores=scores, counts=counts, settings=settings, tables={ITEMS: pa.Table.from_pylist(rows)}
    )
    write_results(folder, found, {})


def write_attention(folder: Path) -> None:
    """Of one suite, of two seeds of the base LM and one of the Pushdown LM."""

    def score(mean: float) -> dict[str, Any]:
        return {
            "mean": mean,
            "low": mean - 0.01,
            "high": mean + 0.02,
            "by_layer": [mean],
            "by_head": [[mean]],
        }

    by_region = {"embed_np": {"base": score(0.25), "pushdown-1": score(0.125)}}
    by_region["(root)"] = {"base": score(0.5), "pushdown-1": score(0.375)}
    scores: Mapping[str, Any] = {
        "by_suite": {"number_src": by_region},
        "differences": {"number_src": {"embed_np": {"pushdown-1": score(-0.125)}}},
    }
    counts = {"items_by_suite": {"number_src": 19}, "seeds": {"base": 2, "pushdown-1": 1}}
    folder.mkdir()
    write_json(folder / "results.json", {"scores": scores, "counts": counts})


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of two models, and a run that has only begun; one evaluation is not done."""
    folder = tmp_path_factory.mktemp("study")
    for (model, seed), right in RIGHT.items():
        results = folder / "results" / f"{model}-{seed}"
        pairs = np.array([np.arange(40) < number for number in right])
        write_blimp(results / "blimp", pairs, seed, training=model)
        if (model, seed) != ("pushdown", 2):
            write_sg(results / "sg", np.ones((3, 4), dtype=bool) if seed == 1 else np.eye(3, 4, dtype=bool))
        write_ppl(results / "ppl", 3 + seed / 10, 99.0 if model == "pushdown" else None)
        write_run(folder / "runs" / f"{model}-{seed}", 8, seed)
    write_run(folder / "runs" / "tg-1", 4)
    (folder / "runs" / ".tg-1.lock").touch()
    (folder / "rates").mkdir()
    (folder / "rates" / "base").write_text("2e-3\n")
    sweep = [{"name": "2e-3", "best": {"loss": 5.25}}, {"name": "1e-3", "best": None}]
    write_json(folder / "rates" / "base.json", sweep)
    write_run(folder / "tuning" / "base" / "2e-3", 4)
    write_attention(folder / "attention")
    (folder / "settings").write_text("STEPS=8 RATES=1e-3 2e-3\n")
    return folder


@pytest.fixture(scope="module")
def found(study: Path, report: ModuleType) -> dict[str, Any]:
    made: dict[str, Any] = report.gather.collected(study)
    return made


def row(table: str, begins: str) -> list[str]:
    (line,) = (line for line in table.splitlines() if line.startswith(f"| {begins} |"))
    return [cell.strip() for cell in line[2:-2].split(" | ")]


def test_scores_are_means_over_seeds_beside_the_papers(found: dict[str, Any], report: ModuleType) -> None:
    table = report.score_tables.scores_table(found)
    percents = [100 * sum(right) / 80 for (model, _), right in RIGHT.items() if model == "pushdown"]
    cells = row(table, "Pushdown LM")
    assert cells[1:3] == ["2", f"{mean(percents):.1f} ± {stdev(percents):.1f}"]
    assert cells[4] == "99.0 ± 0.0"
    lines = table.splitlines()
    assert lines.index(next(line for line in lines if "| paper: Pushdown LM |" in line)) + 1 == lines.index(
        next(line for line in lines if line.startswith("| Pushdown LM |"))
    )
    assert row(table, "paper: base LM")[2:] == ["70.1", "", "", "20.1", "", "", ""]
    assert "Kitaev" not in table  # its score is one that nothing here has
    perplexities = [math.exp(3.1), math.exp(3.2)]
    marginal = f"{mean(perplexities):.1f} ± {stdev(perplexities):.1f}"
    assert row(table, "base LM")[3:6] == [marginal, "", marginal]
    assert row(table, "base LM")[-3:] == ["2e-3", "8", "0.00"]


def test_differences_are_those_of_the_means_and_tested(found: dict[str, Any], report: ModuleType) -> None:
    (score,) = (s for s in report.score_tables.at_level(found, "overall") if s["evaluation"] == "blimp")
    (pair,) = score["pairs"]
    means = [
        mean(100 * sum(right) / 80 for (of, _), right in RIGHT.items() if of == model)
        for model in ("base", "pushdown")
    ]
    assert (pair["a"], pair["b"]) == ("base", "pushdown")
    assert pair["difference"] == pytest.approx(means[1] - means[0])
    low, high = pair["over_seeds"]
    (cell,) = row(report.score_tables.differences_table(found), "BLiMP accuracy (%)")[1:]
    text = f"{pair['difference']:+.1f} [{low:+.1f}, {high:+.1f}]"
    assert cell == (f"**{text}**" if pair["p_holm"] < 0.05 else text) + f" ({pair['p_holm']:.2g})"
    by_phenomenon = report.score_tables.differences_table(found, "phenomenon")
    assert "**" in row(by_phenomenon, "phenomenon 0")[1]  # 21 and 36.5 of 40
    assert "**" not in row(by_phenomenon, "phenomenon 1")[1]  # 11 and 10.5
    levels = row(report.score_tables.level_table(found, "phenomenon"), "phenomenon 0")
    assert levels[1] == "40"
    assert levels[2].startswith("52.5 [")
    assert levels[3].startswith("91.2 [")


def test_what_is_not_there_is_said(found: dict[str, Any], report: ModuleType) -> None:
    said = report.score_tables.missing_list(found).splitlines()
    assert "- no results of particles, parse and labeled" in said
    assert "- Transformer Grammar: no seed 2" in said
    assert "- Transformer Grammar, seed 1: trained for 4 of 8 steps" in said
    assert "- Transformer Grammar, seed 1: no sg, blimp and ppl" in said
    assert "- Pushdown LM, seed 2: no sg" in said
    assert "- Pushdown LM, seed 1: excluded from ppl: 1" in said
    assert len([line for line in said if line.startswith("- base LM")]) == 0
    assert said[0] == (
        "- no runs of base LM + attachment loss, Pushdown LM, automatic trees, PLM, PLM-mask, "
        "base LM + TreeReg, ScLM-next and benepar (Kitaev et al. 2019)"
    )


def test_what_a_model_could_not_score_is_said(report: ModuleType, tmp_path: Path) -> None:
    for number, (task, count) in enumerate(report.gather.LEFT_OUT.items()):
        folder = tmp_path / "results" / "plm-mask-1" / task
        folder.mkdir(parents=True)
        write_json(folder / "results.json", {"scores": {}, "counts": {count: number}})
    left_out = report.gather.cell_of(tmp_path, "plm-mask", 1)["left_out"]
    assert left_out == {"blimp": 1, "ppl": 2, "particles": 3, "parse": 4, "labeled": 5}


def test_attention(found: dict[str, Any], report: ModuleType) -> None:
    assert row(report.score_tables.distractor_table(found), "number_src")[1:] == [
        *("25.0 [24.0, 27.0]", "12.5 [11.5, 14.5]", "-12.5 [-13.5, -10.5]")
    ]
    assert row(report.score_tables.regions_table(found), "(root)")[1:] == [
        "50.0 [49.0, 52.0]",
        "37.5 [36.5, 39.5]",
        "",
    ]


def test_the_page_and_figures_are_made_of_the_results_file(
    study: Path, report: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    report.table(str(study))
    table = (study / "table.md").read_text()
    assert capsys.readouterr().out == table
    document = read_json(study / "results.json")
    assert report.score_tables.markdown(document) == table
    of_one = {"level": ("circuit",), "score": ("base", "marginal"), "difference": ("pushdown", "marginal")}
    of_one["loss"] = ("tg",)
    of_other_files = {
        "points",
        "tapes",
        "tapes-over-seeds",
        "gain",
        "strata",
        "searches",
        "budgets",
        "particles",
        "planned",
        "hours",
    }
    for name in report.PASSAGES.keys() - of_other_files:
        made = report.PASSAGES[name](document, *of_one.get(name, ()))
        assert made
        assert made in table
    report.figures(str(study / "results.json"), str(tmp_path))
    drawn = {path.name: path.read_bytes() for path in study.glob("*.svg")}
    assert sorted(drawn) == [
        *("syntax-attention-distractors.svg", "syntax-attention-number-src.svg"),
        *("syntax-blimp-by-phenomenon.svg", "syntax-sg-by-circuit.svg"),
    ]
    assert drawn == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_budgets_are_of_the_models_that_all_have(found: dict[str, Any], report: ModuleType) -> None:
    fewer = {**found, "runs": [run for run in found["runs"] if run["model"] in ("base", "pushdown")]}
    lines = report.PASSAGES["budgets"](found, fewer).splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert [row[1] for row in cells] == 2 * ["base LM", "Pushdown LM"]
    assert cells[0] == cells[2]
    assert cells[1][3] == report.score_tables.score_of(found, "pushdown", "sg")
    assert cells[1][4] == report.score_tables.difference_in(found, "pushdown", "sg")
    numbers = re.findall(r"-?\d[\d.]*", cells[1][4])
    assert (
        re.findall(r"-?\d[\d.]*", report.PASSAGES["points"](found, "pushdown", "sg").replace("95%", ""))
        == numbers
    )


def test_particles_beside_the_base_lms_marginal(report: ModuleType) -> None:
    values = {"base": (100.0, 110.0, 105.0), "pushdown": (120.0, 130.0, None)}
    runs = [
        {
            "model": model,
            "seed": seed,
            "evaluations": ["ppl"],
            "scores": {"marginal": 999.0 if model == "pushdown" else ppl, "particles": ppl},
        }
        for model, of in values.items()
        for seed, ppl in enumerate(of)
    ]
    base, ours = (np.log([each for each in of if each]) for of in values.values())
    difference = ours.mean() - base.mean()
    test = pytest.importorskip("scipy.stats").ttest_ind(ours, base, equal_var=False)
    low, high = test.confidence_interval()
    percent = [f"{100 * math.expm1(each):+.1f}" for each in (difference, low, high)]
    made = report.PASSAGES["particles"]({"runs": runs}, "pushdown")
    assert made == f"{percent[0]} [{percent[1]}, {percent[2]}]% ({test.pvalue:.2g})"
    assert report.PASSAGES["score"]({"runs": runs}, "pushdown", "particles") == "125.0 ± 7.1 (2 of 3 seeds)"
    one = [run for run in runs if (run["model"], run["seed"]) != ("pushdown", 1)]
    assert (
        report.PASSAGES["particles"]({"runs": one}, "pushdown")
        == f"{12000 / np.exp(base.mean()) - 100:+.1f}%"
    )


def test_planned_tests_are_corrected_for_each_other(report: ModuleType) -> None:
    # Hardly any difference in perplexity; p of SG and BLiMP as compared, in a family of more tests.
    values = {"base": (100.0, 110.0), "faint": (100.5, 110.5)}
    runs = [
        {"model": model, "evaluations": ["ppl"], "scores": {"marginal": ppl, "particles": ppl}}
        for model, of in values.items()
        for ppl in of
    ]
    scores = [
        {"level": "overall", "evaluation": task, "pairs": [{"b": "other", "p": 0.5}, {"b": "faint", "p": p}]}
        for task, p in (("blimp", 0.04), ("sg", 0.01))
    ]
    made = report.PASSAGES["planned"]({"runs": runs, "comparison": {"scores": scores}}, "faint")
    assert re.fullmatch(r"0\.9\d, 0\.03 and 0\.08", made)


def test_hours_count_a_run_once(report: ModuleType) -> None:
    run = {"model": "base", "seed": 1, "steps": 8, "valid_loss": 5.0, "seconds": 3600.0}
    first = {"runs": [run, {**run, "seed": 2}], "rates": {"base": {"seconds": 1800.0}}}
    second = {"runs": [run, {**run, "steps": 4}], "rates": {}}
    assert report.PASSAGES["hours"](first, second) == "3.5"


def test_searches_are_listed_with_what_they_miss(report: ModuleType) -> None:
    beam = {
        "search": "beam",
        "number": 1000,
        "ppl_token": 150.25,
        "mean_share_dropped": 0.125,
        "seconds": 1234.5,
    }
    particles = {"search": "particles", "number": 30, "seconds": 9.6}
    searches = [
        {**beam, "nats_dropped_per_token": 0.25},
        {**beam, "number": 1, "nats_dropped_per_token": -0.0},
        {**particles, "ppl_token": [140.0, 141.06], "half_variance_per_token": 0.125},
        {**particles, "ppl_token": [140.0], "half_variance_per_token": None},
    ]
    lines = report.PASSAGES["searches"]({"scores": {"searches": searches}}).splitlines()
    assert lines[2:] == [
        "| beam 1,000 | 150.2 | 12 | 0.250 | 1,234 |",
        "| beam 1 | 150.2 | 12 | 0.000 | 1,234 |",
        "| 30 particles | 140.0 and 141.1 |  | 0.125 | 10 |",
        "| 30 particles | 140.0 |  |  | 10 |",
    ]


def test_few_results(report: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a base LM nothing is tested; of one run, or none, there is a table all the same."""
    for number in range(3):
        if number:
            right = np.ones((1, 6), dtype=bool)
            write_blimp(tmp_path / "results" / f"variant-{number}" / "blimp", right, number, training="x")
        report.table(str(tmp_path))
        document = json.loads((tmp_path / "results.json").read_text())
        assert document["runs"] == [] if not number else len(document["runs"]) == number
        assert report.score_tables.differences_table(document) == ""
        assert ("| variant | 2 | 100.0 ± 0.0 |" in capsys.readouterr().out) == (number == 2)
