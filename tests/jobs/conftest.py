"""Commands over tiny models and inputs, cut into small pieces."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from search_oracle import WORDS, save_checkpoints
from small_jobs import Case


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, sentences (one without a score, one blank), minimal pairs, a suite and trees."""
    folder = tmp_path_factory.mktemp("inputs")
    save_checkpoints(folder / "models")
    rng = random.Random(0)

    def sentence() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 6)))

    lines = [sentence() for _ in range(34)]
    lines[5], lines[20] = "", "a zebra"
    (folder / "lines.txt").write_text("".join(line + "\n" for line in lines))
    pairs = [
        {
            "UID": "toy",
            "pairID": str(i),
            "sentence_good": sentence(),
            "sentence_bad": sentence(),
            "field": "syntax",
            "linguistics_term": "binding",
        }
        for i in range(12)
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (folder / "suite.json").write_text(json.dumps(_suite(rng)))
    (folder / "wsj").mkdir()
    for number in range(4):
        trees = [f"(TOP (S (NP-SBJ (D {w}{i}) (N x)) (-NONE- *) (V y) (P .)))\n" for i, w in enumerate(WORDS)]
        trees[1] = "( (S (-NONE- *)) )\n" if number == 2 else trees[1]
        (folder / "wsj" / f"{number}.mrg").write_text("\n".join(trees) * 3)
    return folder


def _suite(rng: random.Random) -> dict[str, Any]:
    def condition(name: str) -> dict[str, Any]:
        contents = (" ".join(rng.choices(WORDS, k=2)), " ".join(rng.choices(WORDS, k=3)))
        regions = [{"region_number": n, "content": text} for n, text in enumerate(contents, start=1)]
        return {"condition_name": name, "regions": regions}

    return {
        "meta": {"name": "toy", "metric": "sum", "circuit": "Agreement"},
        "predictions": [{"type": "formula", "formula": "(1;%x%) < (2;%y%)"}],
        "items": [{"item_number": i, "conditions": [condition("x"), condition("y")]} for i in range(1, 9)],
    }


@pytest.fixture
def case(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Case]:
    """A command of ``COMMANDS`` by name, with pieces of a few sentences or trees."""
    for name in ("pdtools.search.work.LOOK_AHEAD", "pdtools.search.work.SEARCH_LOOK_AHEAD"):
        monkeypatch.setattr(name, 5)
    monkeypatch.setattr("pdtools.parsers.work.CHUNK", 5)
    small_pieces(monkeypatch)
    (tmp_path / "out").mkdir()

    def make(name: str) -> Case:
        model = ("--model", str(inputs / "models" / "pushdown"), "--device", "cpu", "--beam", "4")
        lines, trees = str(inputs / "lines.txt"), str(inputs / "wsj")
        out = tmp_path / "out" / name
        arguments = {
            "eval-blimp": ("eval-blimp", str(inputs / "pairs.jsonl"), *model),
            "eval-sg": ("eval-sg", str(inputs / "suite.json"), *model),
            "surprisal": ("surprisal", lines, *model, "--on-error", "skip"),
            "parses": ("surprisal", lines, *model, "--on-error", "skip", "--words", "--parses"),
            "decode": ("decode", lines, *model, "--k-best", "3", "--scores", f"{out}.tsv"),
            "parse": ("parse", lines, "--parser", model[1], "--device", "cpu", "--beam", "4"),
            "treebank": ("parse", trees, "--from", "treebank", "--on-error", "skip"),
            "split": ("parse", trees, "--from", "treebank", "--on-error", "skip", "--split", "0.5,0.5"),
            "tapes": ("tapes", trees, "--on-error", "skip"),
        }[name]
        return Case((*arguments, "-o", str(out)), out)

    return make


def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut tree files into pieces of a few hundred bytes."""
    from pdtools.trees import cut_pieces

    def cut(files: Any, size: int = 400) -> Any:
        return cut_pieces(files, size)

    monkeypatch.setattr("pdtools.parsers.work.cut_pieces", cut)
    monkeypatch.setattr("pdtools.shards.work.cut_pieces", cut)
