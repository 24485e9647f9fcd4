"""view: what it takes, what it refuses, and the figures that it writes. Pages: ``tests/report``."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_oracle import save_checkpoints
from toy_gpt2 import save_gpt2
from view_pages import write_blimp, write_run, write_sg

from pdtools.cli.main import run
from pdtools.evaluation.comparison.statistics import holm, mcnemar
from pdtools.evaluation.intervals import of_mean, wilson
from pdtools.report.view.loaded import short_names

pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")

RIGHT = np.random.default_rng(0).random((3, 6, 10)) < np.array([0.6, 0.75, 0.9])[:, None, None]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_checkpoints(tmp_path_factory.mktemp("models"))[0]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Folders of BLiMP and SG of three models."""
    folder = tmp_path_factory.mktemp("results")
    for m, name in enumerate("abc"):
        write_blimp(folder / name / "blimp", RIGHT[m], seed=m)
        write_sg(folder / name / "sg", RIGHT[m], seed=m)
    return [str(folder / name) for name in "abc"]


def document(page: Path) -> dict[str, Any]:
    """What the page holds, unpacked data aside."""
    found = re.search(
        r'<script type="application/json" id="document">(.*?)</script>', page.read_text("utf-8")
    )
    assert found is not None
    read: dict[str, Any] = json.loads(found[1])
    return read


def test_sentences(models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees = tmp_path / "two.trees"
    trees.write_text("(S (NP (X a) (X b)) (X c))\n(S (X a) (X c))\n")
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    chosen = [part for name in ("pushdown", "base") for part in ("--model", str(models[name]))]
    command = ["view", str(trees), "--from", "treebank", *chosen, "-o", str(page), "--figures", str(figures)]
    assert run([*command, "--json", "--beam", "20"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["bytes"] == page.stat().st_size
    assert (report["kind"], report["output"]) == ("sentences", str(page))
    found = document(page)
    assert found["schema"] == 1
    assert (found["sentences"], found["models"]) == (["a b c", "a c"], ["pushdown", "base"])
    assert re.search(r"beam of 20: pushdown", found["methods"])
    assert set(found["provenance"]["inputs"]) == {"pushdown", "base"}
    assert {
        "surprisals-1.svg",
        "surprisals-1.pdf",
        "surprisals-2.csv",
        "tape-1-pushdown.svg",
        "tree-2-pushdown.pdf",
        "tree-2-pushdown.tex",
    } <= set(report["files"])
    with open(figures / "surprisals-1.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["token"] for row in rows] == ["a", "b", "c", "<eos>"] * 2
    # It may be replaced, as pdtools wrote all of it; a folder with something else may not.
    assert run([*command, "--overwrite", "--quiet", "--beam", "2"]) == 0
    (figures / "mine.txt").write_text("")
    assert run([*command, "--overwrite", "--quiet"]) == 1
    assert "mine.txt" in capsys.readouterr().err


def test_a_pair_with_a_hugging_face_model(models: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    page, gpt2 = tmp_path / "pair.html", save_gpt2(tmp_path / "gpt2", ["a b c"])
    chosen = ["--model", str(models["base"]), "--model", str(gpt2)]
    assert run(["view", "--pair", "a b", "b a", *chosen, "-o", str(page), "--quiet"]) == 0
    found = document(page)
    assert (found["pair"], found["sentences"], found["models"][1]) == (True, ["a b", "b a"], "gpt2")


def test_results_of_three_models(
    results: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    assert run(["view", *results, "-o", str(page), "--figures", str(figures)]) == 0
    said = rf"{page}: results, \d\.\d\d MB\n{figures}: {len(list(figures.iterdir())) - 2} files\n"
    assert re.fullmatch(said, capsys.readouterr().err)
    found = document(page)
    assert (found["title"], found["models"]) == ("Results of a, b, c", ["a", "b", "c"])
    blimp = next(each for each in found["benchmarks"] if each["task"] == "blimp")
    for m, name in enumerate("abc"):
        rows = {row["name"]: row for row in blimp["levels"]["paradigm"] if row["series"] == name}
        expected = [wilson(int(right.sum()), 10) for right in RIGHT[m]]
        assert [(row["low"], row["high"]) for _, row in sorted(rows.items())] == [
            (pytest.approx(low, rel=2e-6, abs=1e-4), pytest.approx(high, rel=2e-6, abs=1e-4))
            for low, high in expected
        ]
    overall = [row for row in blimp["pairs"]["rows"] if row["level"] == "overall"]
    ps = [
        mcnemar(int((RIGHT[a] & ~RIGHT[b]).sum()), int((RIGHT[b] & ~RIGHT[a]).sum()))
        for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    assert [row["p"] for row in overall] == pytest.approx(ps)
    assert [row["p_holm"] for row in overall] == pytest.approx(holm(ps))
    assert blimp["pairs"]["about_p"] == ["one run each: p is over items, not over seeds"]
    root = ElementTree.parse(figures / "blimp-paradigm.svg").getroot()
    assert root.tag.endswith("svg")
    assert (figures / "sg-suite-suite_0.pdf").read_bytes().startswith(b"%PDF")
    assert r"\toprule" in (figures / "overview.tex").read_text()
    with open(figures / "blimp-differences.csv", newline="") as stream:
        head, first, *_ = csv.reader(stream)
    assert head[-1] == "p_holm"
    assert dict(zip(head, first, strict=True))["test"] == "McNemar, exact"


def test_seeds_of_a_model_are_one(tmp_path: Path) -> None:
    for m, name in enumerate(("base-1", "other", "base-2")):
        training = "other" if name == "other" else "base"
        write_blimp(tmp_path / name / "blimp", RIGHT[m], seed=m, training=training)
    page = tmp_path / "page.html"
    folders = [str(tmp_path / name) for name in ("base-1", "other", "base-2")]
    assert run(["view", *folders, "-o", str(page), "--quiet"]) == 0
    found = document(page)
    assert run(["view", str(tmp_path), "-o", str(tmp_path / "whole.html"), "--quiet"]) == 0
    whole = document(tmp_path / "whole.html")
    assert (whole["groups"], whole["models"]) == (found["groups"], sorted(found["models"]))
    assert found["groups"] == {"base": ["base-1", "base-2"], "other": ["other"]}
    pairs = found["benchmarks"][0]["pairs"]
    base, other = (row for row in pairs["means"] if row["level"] == "overall")
    scores = 100 * RIGHT.mean((1, 2))[[0, 2]]
    assert (base["mean"], base["deviation"]) == pytest.approx((scores.mean(), scores.std(ddof=1)))
    assert (other["mean"], other["deviation"]) == (pytest.approx(100 * RIGHT[1].mean()), None)
    overall = [row for row in pairs["rows"] if row["level"] == "overall"]
    assert [(row["a"], row["b"], row["only_a"]) for row in overall] == [("base", "other", None)]
    assert overall[0]["test"] == "Student's t over the seeds of one group, items by bootstrap"
    assert pairs["about_p"] == ["one run against several: it is taken to vary over seeds as these do"]


def test_runs(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_run(tmp_path / f"run{seed}", 2400, seed)
    page = tmp_path / "runs.html"
    assert run(["view", str(tmp_path / "run1"), str(tmp_path / "run2"), "-o", str(page), "--quiet"]) == 0
    found = document(page)
    assert found["settings"] == [["train.seed", 1, 2]]
    losses = next(each for each in found["charts"] if each["id"] == "train-loss")["rows"]
    assert len(losses) == 2000  # each run's 2,400 records averaged into 1,000
    assert any("neighbouring records averaged" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "name the page"),
        (["-o", "x.html"], 2, "name folders"),
        (["--text", "a", "-o", "x.html"], 2, "--model"),
        (["--pair", "a", "b", "--text", "a", "--model", "m", "-o", "x.html"], 2, "--pair brings"),
        (["nowhere", "-o", "x.html"], 1, "nowhere"),
        (["nowhere", "--model", "nothing", "-o", "x.html"], 1, "nowhere"),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["view", *arguments]) == status
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_page_that_is_too_large(
    results: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "page.html"
    monkeypatch.setattr("pdtools.report.view.page.MOST_BYTES", 10_000)
    assert run(["view", *results, "-o", str(page)]) == 1
    said = r"pdtools: the page has [\d.]+ MB, more than 0.01: give it fewer sentences or results\n"
    assert re.fullmatch(said, capsys.readouterr().err)
    assert not page.exists()


def test_means_of_shares() -> None:
    assert of_mean([(7, 10)]) == pytest.approx((0.7, *wilson(7, 10)))
    mean, low, high = of_mean([(10, 10), (0, 10)])
    assert (mean, low + high) == (0.5, pytest.approx(1))
    assert 0 < low < 0.5


def test_short_names() -> None:
    assert list(short_names([Path("runs/a"), Path("old/b")]).values()) == ["a", "b"]
    assert list(short_names([Path("r/a/best"), Path("r/b/2/best")]).values()) == ["a", "b/2"]
