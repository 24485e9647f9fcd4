"""Fuzz target: each value of the JSON and TOML files that commands read, replaced by others.

All replacements are tried with ``PDTOOLS_FUZZ_EXAMPLES=0``, which takes minutes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.hostile import EXAMPLES, fuzz
from pdtools.cli.main import run
from pdtools.files import Rejects
from pdtools.shards import ShardSettings, TokenizerSettings, shards_from_files

TREES = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n(S (NP (NN rain)) (VP (VBZ falls) (ADVP (RB down))))\n"
PAIR = {"field": "f", "linguistics_term": "l", "UID": "u", "pairID": "1"}
PAIR |= {"sentence_good": "the dog barks", "sentence_bad": "dog the barks"}
RECIPE = """model = "pushdown"
[config]
layers = 1
d_model = 8
heads = 2
d_ff = 16
attention_dropout = 0.0
[train]
steps = 1
learning_rate = 0.01
batch_tokens = 64
betas = [0.9, 0.99]
schedule = "constant"
"""

_DEEP = "[" * 3000 + "]" * 3000
LITERALS = ["null", "-1", "2147483648", "9223372036854775808", "1e400", '""', "[]", "{}", _DEEP, '"x"', "0.5"]
LITERALS += ["true", "0", "[1]", '{"a": 1}', '"\\u001b[31m"', "1" + "0" * 300]

Case = tuple[str, str]
"""What is replaced by what, and the document."""


def json_cases(document: Any) -> Iterator[Case]:
    """Each value of a document, and the whole, replaced by each literal; and each key left out."""
    mark = "@here@"
    for path in _paths(document):
        altered, gone = json.loads(json.dumps(document)), json.loads(json.dumps(document))
        if not path:
            altered = mark
        else:
            holder, without = altered, gone
            for step in path[:-1]:
                holder, without = holder[step], without[step]
            holder[path[-1]] = mark
            del without[path[-1]]
            yield f"{path} left out", json.dumps(gone)
        text = json.dumps(altered)
        for literal in LITERALS:
            yield f"{path} = {literal[:20]}", text.replace(f'"{mark}"', literal)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for number, (key, inside) in enumerate(items):
        if number < 12:  # of a vocabulary a few
            yield from _paths(inside, (*path, key))


def toml_cases(document: str) -> Iterator[Case]:
    lines = document.splitlines()
    for number, line in enumerate(lines):
        if " = " in line:
            key = line.split(" = ")[0]
            for literal in LITERALS:
                changed = [*lines[:number], f"{key} = {literal}", *lines[number + 1 :]]
                yield f"{key} = {literal[:20]}", "\n".join(changed) + "\n"


# With other numbers of steps runs would be long, not wrong.
_LONG = re.compile(r".*steps|\('recipe',( 'train')?\)")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that commands leave, small."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "x.trees").write_text(TREES)
    (folder / "x.txt").write_text("the dog barks\nrain falls down\n")
    (folder / "x.jsonl").write_text(json.dumps(PAIR) + "\n")
    (folder / "x.toml").write_text(RECIPE)
    making = TokenizerSettings(min_count=1)
    shards = folder / "shards"
    shards_from_files([str(folder / "x.trees")], making, ShardSettings(), shards, Rejects())
    quiet = ("-q", "--device", "cpu")
    train = ["train", str(shards), "--config", str(folder / "x.toml"), "-o", str(folder / "run"), *quiet]
    assert run([*train, "--set", "train.steps=2", "--set", "train.eval_every=1"]) == 0
    model = ["--model", str(folder / "run" / "best"), *quiet]
    scores = str(folder / "results" / "blimp")
    assert run(["eval-blimp", str(folder / "x.jsonl"), *model, "-o", scores]) == 0
    assert run(["eval-ppl", str(shards), *model, "-o", str(folder / "results" / "ppl")]) == 0
    parsed = ["eval-parse", str(folder / "x.trees"), str(folder / "x.trees"), "-q"]
    assert run([*parsed, "-o", str(folder / "results" / "parse")]) == 0
    job = folder / "out.tsv.job"
    job.mkdir()
    record = {"format": "pdtools job", "command": ["surprisal", "x.txt", "-o", "out.tsv"], "settings": {}}
    record |= {"folder": str(folder), "output": str(folder / "out.tsv"), "replaces": None}
    (job / "job.json").write_text(json.dumps(record))
    for path in folder.rglob("SHA256SUMS"):
        path.unlink()
    recorded = folder / "run" / "run.json"
    record = json.loads(recorded.read_text())
    recorded.write_text(json.dumps({key: record[key] for key in record if key != "sha256"}))
    return folder


# What is changed, and the commands that read it, called where a copy of everything is.
MODEL = ("--device", "cpu", "-q", "--model", "run/best")
TRAIN = ("train", "shards", "--config", "x.toml", "--device", "cpu", "-q", "-o", "run")
TARGETS: dict[str, list[tuple[str, ...]]] = {
    "shards/manifest.json": [("show", "shards", "0"), ("eval-ppl", "shards", *MODEL, "-o", "new")],
    "shards/tokenizer.json": [("tapes", "x.trees", "--tokenizer", "shards", "-q", "-o", "new")],
    "shards/tokenizer_config.json": [("tapes", "x.trees", "--tokenizer", "shards", "-q", "-o", "new")],
    "run/best/config.json": [("surprisal", "x.txt", *MODEL, "-o", "new.tsv")],
    "run/best/tokenizer.json": [("surprisal", "x.txt", *MODEL, "-o", "new.tsv")],
    "run/run.json": [(*TRAIN[:2], *TRAIN[4:], "--resume")],
    "run/last/trainer/state.json": [(*TRAIN[:2], *TRAIN[4:], "--resume")],
    "results/blimp/results.json": [
        ("compare", "results/blimp", "other/blimp", "--samples", "2"),
        ("compare", "results", "other"),
        ("compare", "other", "results"),
    ],
    "results/ppl/results.json": [("compare", "results", "other"), ("compare", "other", "results")],
    "results/parse/results.json": [("compare", "results", "other"), ("compare", "other", "results")],
    "x.toml": [("train", "shards", "--config", "x.toml", "--device", "cpu", "-q", "-o", "new")],
    "out.tsv.job/job.json": [
        ("merge", "out.tsv"),
        ("surprisal", "x.txt", *MODEL, "-o", "out.tsv", "--resume"),
    ],
    "x.jsonl": [("eval-blimp", "x.jsonl", "--write-sentences", "-")],
}


def attempt(made: Path, place: Path, name: str, content: str, errors: Callable[[], str]) -> None:
    """Put a document in its place, and call the commands that read it."""
    for command in TARGETS[name]:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(made, place)
        shutil.copytree(made / "results", place / "other")
        (place / name).write_text(content)
        os.chdir(place)
        status = run(list(command))
        told = errors()
        assert status in (0, 1, 2), told
        assert "Traceback" not in told
        if status == 1:
            assert told.count("\n") == 1, told
            assert len(told) < 2000


def cases(made: Path, name: str) -> Sequence[Case]:
    content = (made / name).read_text()
    found = toml_cases(content) if name.endswith(".toml") else json_cases(json.loads(content))
    return [(label, document) for label, document in found if not _LONG.match(label)]


@pytest.mark.parametrize("name", TARGETS)
def test_values(
    name: str, made: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "copy"
    everything = cases(made, name)

    def errors() -> str:
        return capfd.readouterr().err

    if not EXAMPLES:
        for _, content in everything:
            attempt(made, place, name, content, errors)
        return

    @settings(fuzz, max_examples=max(1, EXAMPLES // 8))  # each is several commands
    @given(st.sampled_from(everything))
    def some(case: Case) -> None:
        attempt(made, place, name, case[1], errors)

    some()
