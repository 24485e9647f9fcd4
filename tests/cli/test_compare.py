"""compare, on results that eval-blimp wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from search_oracle import save_checkpoints

from pdtools.cli.main import run


def test_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models, _ = save_checkpoints(tmp_path / "models")
    data = tmp_path / "toy.jsonl"
    pairs = [("a b", "b a"), ("a c", "c a"), ("b c", "c b"), ("a b c", "a c b")]
    names = ("UID", "pairID", "field", "linguistics_term", "sentence_good", "sentence_bad")
    rows = [("toy", str(i), "syntax", "binding", *pair) for i, pair in enumerate(pairs)]
    data.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    for name in ("base", "pushdown"):
        out = str(tmp_path / name)
        assert run(["eval-blimp", str(data), "--model", str(models[name]), "--device", "cpu", "-o", out]) == 0
    capsys.readouterr()
    folders = [str(tmp_path / "base"), str(tmp_path / "pushdown")]
    assert run(["compare", *folders]) == 0
    assert "only a" in capsys.readouterr().out
    assert run(["compare", *folders, "--json", "--seed", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [group["level"] for group in found["groups"]] == ["overall", "field", "phenomenon", "paradigm"]
    assert found["groups"][0]["items"] == 4
    assert found["settings"]["seed"] == 3
    assert run(["compare", folders[0], str(tmp_path)]) == 1
    assert "not a folder of results" in capsys.readouterr().err


def test_two_models_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models, _ = save_checkpoints(tmp_path / "models")
    trees, shards = tmp_path / "toy.trees", tmp_path / "shards"
    trees.write_text("(S (A a) (B b))\n(S (X (A a) (B c)) (B b))\n")
    assert run(["tapes", str(trees), "--tokenizer", str(models["base"]), "-o", str(shards)]) == 0
    for name in ("base", "pushdown"):
        out = tmp_path / "results" / name / "ppl"
        assert (
            run(["eval-ppl", str(shards), "--model", str(models[name]), "--device", "cpu", "-o", str(out)])
            == 0
        )
    capsys.readouterr()
    folders = [str(tmp_path / "results" / name) for name in ("base", "pushdown")]
    assert run(["compare", *folders, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document["provenance"]["inputs"]) == {"a", "b"}
    found = document["scores"]
    for folder, side in zip(folders, "ab", strict=True):
        scores = json.loads((Path(folder) / "ppl" / "results.json").read_text())["scores"]
        assert [row[side] for row in found] == [scores["ppl_word_given_trees"], scores["ppl_word_marginal"]]
    assert run(["compare", *folders]) == 0
    assert "perplexity per word, marginal " in capsys.readouterr().out
    fewer = Path(folders[1]) / "ppl" / "results.json"
    fewer.write_text(fewer.read_text().replace('"sentences": 2', '"sentences": 1'))
    assert run(["compare", *folders]) == 0
    assert "perplexity per word, marginal, over 2 sentences and 1 sentences" in capsys.readouterr().out
    document = json.loads(fewer.read_text())
    for change, message in (
        ({"scores": {"ppl_token_masked": 2.0}}, "no score that"),  # of a masked model
        ({"settings": {"task": "parse"}}, "another evaluation than"),
    ):
        fewer.write_text(json.dumps({**document, **change}))
        assert run(["compare", *folders]) == 1
        assert message in capsys.readouterr().err
    for folder in folders:
        path = Path(folder) / "ppl" / "results.json"
        path.write_text(json.dumps({**document, "settings": {"task": "none of ours"}}))
    assert run(["compare", *folders]) == 1
    assert "not results of an evaluation with a main score" in capsys.readouterr().err
    assert run(["compare", folders[0], str(tmp_path)]) == 1
    assert "no results folder" in capsys.readouterr().err
