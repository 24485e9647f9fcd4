"""The study of natural language, end to end on a few sentences."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from shell import Shell, script

from pdtools import data
from pdtools.cli.main import run
from pdtools.evaluation.sg.record import CIRCUITS
from pdtools.shards import ShardSet

STUDY = Path(__file__).resolve().parents[2] / "studies" / "ptb" / "study.sh"


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    text = data.treebank("test").read_text().strip().split("\n\n")[:60]
    (tmp_path / "x.mrg").write_text("\n".join(text))
    trees, folder = str(tmp_path / "x.trees"), tmp_path / "shards"
    assert run(["parse", str(tmp_path / "x.mrg"), "--from", "treebank", "-o", trees, "--quiet"]) == 0
    for role in ("train", "valid", "test"):
        made = (
            ["--tokenizer", "word", "--lower-case"]
            if role == "train"
            else ["--tokenizer", str(folder / "train")]
        )
        assert run(["tapes", trees, *made, "-o", str(folder / role), "--quiet"]) == 0
    return folder


@pytest.fixture
def report() -> ModuleType:
    return script(STUDY.with_name("report.py"))


def add_run(folder: Path, name: str, losses: list[float], finished: str | None) -> None:
    run = folder / "runs" / name
    (run / "last" / "trainer").mkdir(parents=True)
    lines = [json.dumps({"kind": "valid", "step": 1, "loss": loss}) for loss in losses]
    (run / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (run / "last" / "trainer" / "state.json").write_text(json.dumps({"finished": finished}))


def add_result(folder: Path, name: str, perplexity: float) -> None:
    results = folder / "results" / name
    results.mkdir(parents=True)
    document = {"scores": {"ppl_token_marginal": perplexity}}
    (results / "results.json").write_text(json.dumps(document))


def test_the_test_is_that_of_the_draw_that_validation_chose(tmp_path: Path, report: ModuleType) -> None:
    """A draw may be added, and be the best, after another one was tested."""
    add_run(tmp_path, "rns-1-2-1", [5.0, 4.5], "patience")
    add_run(tmp_path, "rns-1-2-2", [4.0], None)  # not finished
    add_run(tmp_path, "lstm-1", [4.0], None)
    assert report.lines(report.best(tmp_path, "lstm")) == ""
    add_result(tmp_path, "rns-1-2-1-ppl", 70.0)
    assert report.best(tmp_path, "rns-1-2") == [tmp_path / "runs" / "rns-1-2-1"]
    assert "| rns-1-2 | 90.02 | 70.00 | " in report.table(tmp_path)
    add_run(tmp_path, "rns-1-2-3", [4.2], "steps")
    assert report.best(tmp_path, "rns-1-2") == [tmp_path / "runs" / "rns-1-2-3"]
    assert "70.00" not in report.table(tmp_path)
    add_result(tmp_path, "rns-1-2-3-ppl", 60.0)
    assert "| rns-1-2 | 66.69 | 60.00 | " in report.table(tmp_path)


def test_scores_of_suites_are_beside_their_circuits(tmp_path: Path, report: ModuleType) -> None:
    add_run(tmp_path, "lstm-1", [5.0], "steps")
    add_result(tmp_path, "lstm-1-ppl", 70.0)
    results = tmp_path / "results" / "lstm-1-sg"
    results.mkdir()
    assert set(report.CIRCUITS) == CIRCUITS.keys()
    by_suite = {suite: i / 10 for i, name in enumerate(report.CIRCUITS) for suite in CIRCUITS[name]}
    by_suite["fgd-embed3"] = 0.9  # not in by_circuit, nor in sg_31
    scores = {"sg_31": 0.41, "sg_33": 0.42, "by_circuit": {"Agreement": 0.7}, "by_suite": by_suite}
    (results / "results.json").write_text(json.dumps({"scores": scores}))
    cells = ["0.420", "0.410", *(f"{i / 10:.3f}" for i in range(5)), f"{0.5 + 0.4 / 8:.3f}"]
    assert f"| lstm | 148.41 | 70.00 | {' | '.join(cells)} | 125.78" in report.table(tmp_path)
    del by_suite["cleft"]
    (results / "results.json").write_text(json.dumps({"scores": scores}))
    assert f"| lstm | 148.41 | 70.00 | {' | '.join(cells[:-1])} |  | 125.78" in report.table(tmp_path)


def test_figure_4_is_of_all_draws(tmp_path: Path, report: ModuleType) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    for draw, (loss, perplexity, sg) in enumerate([(5.0, 90.0, 0.3), (4.5, 75.0, 0.2), (4.7, 70.0, 0.1)]):
        assert not (tmp_path / "ptb-restarts.svg").exists()
        add_run(tmp_path, f"lstm-{draw}", [loss], "steps")
        add_result(tmp_path, f"lstm-{draw}-ppl", perplexity)
        (tmp_path / "results" / f"lstm-{draw}-sg").mkdir()
        file = tmp_path / "results" / f"lstm-{draw}-sg" / "results.json"
        file.write_text(json.dumps({"scores": {"sg_33": sg}}))
        report.table(tmp_path)
    assert report.finished(tmp_path, "lstm") == [tmp_path / "runs" / f"lstm-{draw}" for draw in (1, 2, 0)]
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["scores"]["lstm"]["run"] == "lstm-1"
    line = report.PASSAGES["restarts"](document).splitlines()[2]
    # Of the six orders of three, two are as far from none as this one.
    assert line.startswith("| lstm | 3 | 70.0 to 90.0 | 0.100 to 0.300 | 75.0, 0.200 | +1.00 (0.3")
    drawn = (tmp_path / "ptb-restarts.svg").read_bytes()
    report.figures(str(tmp_path / "results.json"), str(tmp_path))
    assert (tmp_path / "ptb-restarts.svg").read_bytes() == drawn
    add_run(tmp_path, "lstm-3", [6.0], "steps")  # not tested
    report.table(tmp_path)
    assert json.loads((tmp_path / "results.json").read_text())["restarts"] == {}


def test_rank_correlation(report: ModuleType) -> None:
    """Of five values without ties by the formula, 1 - 6 Σd² / (n³ - n); its p over all 120 orders."""
    x, y = [1.0, 5.0, 2.0, 9.0, 7.0], [30.0, 10.0, 20.0, 50.0, 40.0]
    differences = np.array([0, 2, 1, 4, 3]) - np.array([2, 0, 1, 4, 3])
    expected = 1 - 6 * (differences**2).sum() / 120
    found, p = report.rank_correlation(x, y)
    assert found == pytest.approx(expected)
    others = [1 - 6 * ((np.array(order) - np.arange(5)) ** 2).sum() / 120 for order in permutations(range(5))]
    assert p == pytest.approx(np.mean(np.abs(others) >= abs(expected) - 1e-9), abs=0.02)
    assert report.ranks([3.0, 1.0, 3.0]) == [1.5, 0.0, 1.5]
    assert report.rank_correlation([1.0, 2.0, 3.0], [4.0, 4.0, 4.0]) == (0.0, 1.0)


def test_thresholds_of_clipping_are_the_papers(report: ModuleType, shards: Path) -> None:
    """Appendix D's thresholds are multiplied by the tokens of a step, and clip means: from 0.0112 to 1.12."""
    draws = [list(map(float, report.draw(shards, str(number)).split())) for number in range(200)]
    rates, clips, _ = zip(*draws, strict=True)
    assert 1 <= min(rates) < 1.2
    assert 85 < max(rates) <= 100
    assert 0.0112 <= min(clips) < 0.0135
    assert 0.95 < max(clips) <= 1.12


def test_an_epoch_of_blocks_is_that_of_their_text(tmp_path: Path, report: ModuleType, shards: Path) -> None:
    sentences = ShardSet.open(shards / "train")
    text = [sentences.text(row) for row in range(len(sentences))]
    (tmp_path / "x.txt").write_text("\n".join(text) + "\n")
    made = [str(tmp_path / "x.txt"), "--tokenizer", "word", "--lower-case", "--length", "9"]
    assert run(["blocks", *made, "-o", str(tmp_path / "blocks" / "train"), "--quiet"]) == 0
    assert report.draw(tmp_path / "blocks", "1") == report.draw(shards, "1")


def test_models_are_trained_chosen_and_tested(tmp_path: Path, shards: Path) -> None:
    settings = {"MODELS": "rns-1-2", "DRAWS": "2", "EPOCHS": "1", "UNITS": "10", "JOBS": "1"}
    out = tmp_path / "a study"
    shell = Shell(tmp_path, **settings)
    done = shell.run("sh", STUDY, shards, out)
    assert done.returncode == 0, done.stderr
    table = (out / "table.md").read_text()
    results = json.loads((out / "results.json").read_text())["scores"]["rns-1-2"]
    assert f"| {results['ppl_valid']:.2f} | {results['ppl_test']:.2f} |" in table
    assert table.strip() in done.stdout
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == ["| rns-1-2"]
    assert {path.name for path in (out / "runs").glob("rns*")} == {"rns-1-2-1", "rns-1-2-2"}
    wrong = shell.run("sh", STUDY, shards, out, TESTED="some")
    assert (wrong.returncode, wrong.stderr) == (1, "TESTED is best or all, not some\n")
    assert len(list((out / "results").glob("*-ppl"))) == 1
    assert shell.run("sh", STUDY, shards, out, TESTED="all").returncode == 0
    assert len(list((out / "results").glob("*-ppl"))) == 2
