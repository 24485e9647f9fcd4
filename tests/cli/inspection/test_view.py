"""view: what it takes, what it refuses, and the figures that it writes. Pages: ``tests/report``."""

from __future__ import annotations

import base64
import csv
import gzip
import itertools
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_oracle import save_checkpoints
from toy_gpt2 import save_gpt2
from view_pages import write_blimp, write_sg

from pdtools.cli.main import run
from pdtools.evaluation.intervals import of_mean, wilson
from pdtools.files import Rejects
from pdtools.inspection.tracing import trace
from pdtools.models import load_checkpoint
from pdtools.report.view.page import Page
from pdtools.report.view.results import results_page
from pdtools.report.view.sentences import sentences_page
from pdtools.report.view.stimuli import stimuli_page
from pdtools.search.inputs import read_inputs
from pdtools.search.options import SearchOptions
from pdtools.trees import read_trees

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
    assert set(found["provenance"]["inputs"]) == {"pushdown", "base", str(trees)}
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
    gold = tmp_path / "one.trees"
    gold.write_text("(S (NP (X a) (X b)) (X c))\n")
    (tmp_path / "none.txt").write_text("\n\n")
    of_model = ["--model", str(models["base"]), "-o", str(tmp_path / "other.html")]
    for given, said in (
        ([str(trees), "--from", "treebank", "--gold", str(gold)], f"{gold}: 1 trees for 2 sentences"),
        ([str(tmp_path / "none.txt")], f"{tmp_path / 'none.txt'}: no sentences"),
    ):
        assert run(["view", *given, *of_model]) == 1
        assert capsys.readouterr().err == f"pdtools: {said}\n"
    assert not (tmp_path / "other.html").exists()


def test_a_pair_with_a_hugging_face_model(models: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    page, gpt2 = tmp_path / "pair.html", save_gpt2(tmp_path / "gpt2", ["a b c"])
    chosen = ["--model", str(models["base"]), "--model", str(gpt2)]
    assert run(["view", "--pair", "a b", "b a", *chosen, "-o", str(page), "--quiet"]) == 0
    found = document(page)
    assert (found["pair"], found["sentences"], found["models"][1]) == (True, ["a b", "b a"], "gpt2")
    (tmp_path / "gold.trees").write_text("(S (NP (X a) (X b)) (X c))\n")
    trees = [str(tmp_path / "gold.trees"), "--from", "treebank"]
    assert run(["view", *trees, *chosen, "-o", str(page), "--quiet", "--overwrite"]) == 0
    traces = packed(page)
    gold = [traces[f"trace-0-{m}"]["gold"] for m in range(2)]  # one that reads words alone has none
    assert [each and each["tree"] for each in gold] == ["(X (X (XX a) (XX b)) (XX c))", None]


def test_results_of_three_models(
    results: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    assert run(["view", *results, "-o", str(page), "--figures", str(figures)]) == 0
    said = rf"{page}: results, \d\.\d\d MB\n{figures}: {len(list(figures.iterdir())) - 2} files\n"
    assert re.fullmatch(said, capsys.readouterr().err)
    found = document(page)
    assert (found["title"], found["models"]) == ("Results of a, b, c", ["a", "b", "c"])
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


def packed(page: Path) -> dict[str, Any]:
    """What the page unpacks, by name."""
    found = re.findall(r'id="packed-([^"]*)">(.*?)</script>', page.read_text("utf-8"))
    return {name: json.loads(gzip.decompress(base64.b64decode(text))) for name, text in found}


def test_pages_are_those_of_python_with_every_option(
    results: list[str], models: dict[str, Path], tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    table = tmp_path / "t.csv"
    table.write_text(
        "item,f,g,model,region,region_text,surprisal\n"
        + "".join(
            f"{item},{f},{g},{model},{region},w,{rng.normal(5)}\n"
            for item, f, g, model, region in itertools.product(range(12), "ab", "xy", "mn", (1, 2))
        )
    )
    trees, gold = tmp_path / "a.trees", tmp_path / "gold.trees"
    trees.write_text("(S (NP (X a) (X b)) (X c))\n(S (X a) (X c))\n")
    gold.write_text("(S (X a) (NP (X b) (X c)))\n(S (X a) (X c))\n")
    sentences = [line.sentence for line in read_inputs([str(trees)], "treebank", "ptb")]

    def traces(hypotheses: int) -> Page:
        search = SearchOptions(beam=4, margin=9.0)
        loaded = load_checkpoint(models["pushdown"])
        known = [each.tree for each in read_trees([str(gold)], Rejects("fail"))]
        found = [
            [trace(loaded, sentence, search, hypotheses=hypotheses, gold=tree)]
            for sentence, tree in zip(sentences, known, strict=True)
        ]
        return sentences_page(found, ["pushdown"], {}, pair=False)

    def effects(**other: Any) -> Page:
        asked: dict[str, Any] = {"factors": "g,f=b", "region": "1", "groups": {"G": ["m", "n"]}, "seed": 7}
        return stimuli_page([str(table)], **{**asked, **other})

    of_table = ["--factors", "g,f=b", "--region", "1", "--group", "G=m,n"]
    of_model = ["--from", "treebank", "--gold", gold, "--model", models["pushdown"], "--beam", 4]
    for command, wanted, other in (
        ([*results, "--seed", 7], results_page(results, seed=7), results_page(results)),
        ([table, *of_table, "--seed", 7], effects(), effects(seed=0)),
        ([trees, *of_model, "--margin", 9, "--hypotheses", 1], traces(1), traces(2)),
    ):
        page = tmp_path / f"{wanted.kind}.html"
        assert run(["view", *map(str, command), "-o", str(page), "-q"]) == 0
        shown, kept = document(page), packed(page)
        unlike = {"methods", "folders", "results"}  # with versions and provenance
        for name, value in json.loads(json.dumps(wanted.document)).items():
            assert name in unlike or shown[name] == value, name
        assert kept == json.loads(json.dumps(wanted.packed))
        assert (wanted.document, wanted.packed) != (other.document, other.packed)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "name the page"),
        (["--text", "a", "-o", "x.html"], 2, "--model"),
        (["--pair", "a b", " ", "--model", "m", "-o", "x.html"], 2, "--pair: a sentence without a word"),
        (["--pair", "a", "b", "--text", "a", "--model", "m", "-o", "x.html"], 2, "--pair brings"),
        (["--text", "a", "--model", "m", "--model", "m", "-o", "x.html"], 2, "a model is given twice"),
        (["nowhere", "-o", "x.html"], 1, "nowhere"),
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
