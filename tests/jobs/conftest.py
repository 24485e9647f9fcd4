"""Commands over tiny models and inputs, cut into small chunks."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from action_oracle import action_model
from search_oracle import WORDS, save_checkpoints, tiny_model
from small_jobs import Case
from toy_gpt2 import save_gpt2
from toy_sets import condition, suite_of, write_pairs

from pdtools.cli.main import run
from pdtools.formal.dyck import Dyck
from pdtools.formal.language import word_tokenizer
from pdtools.models import save_checkpoint


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, sentences (one without a score, one blank), minimal pairs, a suite, trees and shards."""
    folder = tmp_path_factory.mktemp("inputs")
    _, tokenizer = save_checkpoints(folder / "models")
    save_checkpoints(folder / "windows", window=24)
    masked = tiny_model("transformer", objective="masked", max_length=16, positions="learned")
    settings = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    save_checkpoint(folder / "models" / "masked", masked, tokenizer, shards=settings)
    grammar = action_model("tg", "relative", max_open=8)
    save_checkpoint(folder / "models" / "tg", grammar, tokenizer.with_labels(["S", "X"]), shards=settings)
    rng = random.Random(0)

    def sentence() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, 6)))

    lines = [sentence() for _ in range(34)]
    lines[5], lines[20] = "", "a zebra"
    (folder / "lines.txt").write_text("".join(line + "\n" for line in lines))
    write_pairs(folder / "pairs.jsonl", [(sentence(), sentence()) for _ in range(12)])
    (folder / "suite.json").write_text(json.dumps(_suite(rng)))
    (folder / "wsj").mkdir()
    for number in range(4):
        trees = [f"(TOP (S (NP-SBJ (D {w}{i}) (N x)) (-NONE- *) (V y) (P .)))\n" for i, w in enumerate(WORDS)]
        trees[1] = "( (S (-NONE- *)) )\n" if number == 2 else trees[1]
        (folder / "wsj" / f"{number}.mrg").write_text("\n".join(trees) * 3)
    rows = [rng.choices(WORDS, k=n) for n in (*(rng.randint(1, 6) for _ in range(33)), 20)]  # one too long
    rng.shuffle(rows)
    trees = [
        "".join(f"(S (X {word}) " for word in row[:-1]) + f"(X {row[-1]}" + ")" * len(row) for row in rows
    ]
    (folder / "rows.trees").write_text("\n".join(trees))
    tapes = ["tapes", f"{folder}/rows.trees", "--tokenizer", f"{folder}/models/base", "--quiet"]
    assert run([*tapes, "-o", f"{folder}/shards"]) == 0
    _brackets(folder)
    return folder


def _brackets(folder: Path) -> None:
    """Prefixes and strings of brackets, and a model that reads them."""
    types = ("--brackets", "3", "--quiet")
    far = ("--depth", "4", "--dependency", "4", "--max-length", "20", "--number", "9")
    assert run(["generate", "dyck-prefixes", *types, *far, "-o", f"{folder}/far.tsv"]) == 0
    deep = ("--depths", "3-4", "--number", "8")
    assert run(["generate", "dyck-prefixes", *types, *deep, "-o", f"{folder}/deep.tsv"]) == 0
    strings = ("--depth", "4", "--min-length", "4", "--max-length", "12", "--number", "11", "--shards")
    assert run(["generate", "dyck", *types, *strings, "-o", f"{folder}/strings"]) == 0
    tokenizer = word_tokenizer(Dyck(brackets=3, depth=4))
    ids = {name: getattr(tokenizer, name) for name in ("pad_id", "root_id", "eos_id", "vocab_size")}
    model = tiny_model("pushdown", **ids, max_length=64)
    settings = {"layout": "sentence", "factor": "right"}
    save_checkpoint(folder / "models" / "brackets", model, tokenizer, shards=settings)


def _suite(rng: random.Random) -> dict[str, Any]:
    items = [
        [condition(name, *(" ".join(rng.choices(WORDS, k=k)) for k in (2, 3))) for name in "xy"]
        for _ in range(8)
    ]
    return suite_of(*items, formula="(1;%x%) < (2;%y%)", circuit="Agreement")


@pytest.fixture
def case(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Case]:
    """A command of ``COMMANDS`` by name, with chunks of a few sentences or trees."""
    monkeypatch.setattr("pdtools.search.family.LOOK_AHEAD", 5)
    monkeypatch.setattr("pdtools.search.family.SEARCH_LOOK_AHEAD", 4)
    monkeypatch.setattr("pdtools.parsers.in_chunks.CHUNK", 5)
    monkeypatch.setattr("pdtools.evaluation.formal.dyck.PREFIXES_PER_CHUNK", 3)
    monkeypatch.setattr("pdtools.shards.reader.ROWS_PER_BLOCK", 12)
    for name in (
        "pdtools.evaluation.perplexity.evaluate.ROWS_PER_CHUNK",
        "pdtools.evaluation.perplexity.masked.ROWS_PER_CHUNK",
    ):
        monkeypatch.setattr(name, 5)
    small_chunks(monkeypatch)
    (tmp_path / "out").mkdir()

    def make(name: str) -> Case:
        model = ("--model", str(inputs / "models" / "pushdown"), "--device", "cpu", "--beam", "4")
        grammar = ("--model", str(inputs / "models" / "tg"), *model[2:], "--search", "word_beam=3")
        lines, trees = str(inputs / "lines.txt"), str(inputs / "wsj")
        shards = ("eval-ppl", str(inputs / "shards"), "--device", "cpu", "--on-error", "skip", "--model")
        out = tmp_path / "out" / name
        gpt2 = inputs / "models" / "gpt2"
        if name == "ppl-gpt2" and not gpt2.exists():
            pytest.importorskip("transformers", reason="transformers is not installed")
            save_gpt2(gpt2, [" ".join(WORDS)], positions=32)
        arguments = {
            "eval-blimp": ("eval-blimp", str(inputs / "pairs.jsonl"), *model),
            "eval-sg": ("eval-sg", str(inputs / "suite.json"), *model),
            "surprisal": ("surprisal", lines, *model, "--on-error", "skip"),
            "parses": ("surprisal", lines, *model, "--on-error", "skip", "--words", "--parses"),
            "decode": ("decode", lines, *model, "--k-best", "3", "--scores", f"{out}.tsv"),
            "parse": ("parse", lines, "--parser", model[1], "--device", "cpu", "--beam", "4"),
            "treebank": ("parse", trees, "--from", "treebank", "--on-error", "skip"),
            "split": ("parse", trees, "--from", "treebank", "--on-error", "skip", "--split", "0.5,0.5"),
            "eval-dyck": (
                "eval-formal",
                "dyck",
                *(str(inputs / name) for name in ("far.tsv", "deep.tsv")),
                *("--strings", str(inputs / "strings"), "--margin", "9"),
                *("--model", str(inputs / "models" / "brackets"), *model[2:]),
            ),
            "eval-ppl": (*shards, model[1], "--beam", "4"),
            "ppl-given-trees": (*shards, model[1], "--no-marginal"),
            "ppl-base": (*shards, str(inputs / "models" / "base")),
            "ppl-masked": (*shards, str(inputs / "models" / "masked")),
            "ppl-gpt2": (*shards, str(gpt2)),
            "tg-sg": ("eval-sg", str(inputs / "suite.json"), *grammar),
            "tg-ppl": (*shards, *grammar[1:]),
            "tg-parses": ("surprisal", lines, *grammar, "--on-error", "skip", "--words", "--parses"),
            "tg-decode": ("decode", lines, *grammar, "--k-best", "3", "--scores", f"{out}.tsv"),
            "tapes": ("tapes", trees, "--on-error", "skip"),
        }[name]
        return Case((*arguments, "-o", str(out)), out)

    return make


def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut tree files into chunks of a few hundred bytes."""
    from pdtools.trees import cut_chunks

    def cut(files: Any, size: int = 400) -> Any:
        return cut_chunks(files, size)

    monkeypatch.setattr("pdtools.parsers.in_chunks.cut_chunks", cut)
    monkeypatch.setattr("pdtools.shards.encode.cut_chunks", cut)
