"""Every command replaces with --overwrite what it wrote before, with all that it may write."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest
from commands import every_command
from released_oracle import save_released
from search_oracle import save_checkpoints
from toy_prompts import toy_prompts
from toy_reading import save_models, write_times
from toy_sets import condition, suite_of, write_pairs

from pdtools.cli.main import run

SMALL = "--set=config.layers=1 --set=config.d_model=8 --set=config.d_ff=8 --set=config.heads=1"
SMALL += " --set=train.steps=1 --set=train.batch_sentences=2"
MODEL = "--model {models}/pushdown --beam 2"
# By the folders that they write; each may read what those before it wrote.
LINES = """
split: parse {x.trees} --from treebank --split 0.4,0.3,0.3
shards: tapes {x.trees} --tokenizer word --min-count 1 --tape packed
windows: tapes {x.trees} --layout window --window 20 --tokenizer {shards}
blocks: blocks {lines.txt} --length 4
brackets: generate dyck --brackets 2 --number 9 --shards
language: generate cfl {x.pcfg} --number 9 --shards
run: train {shards} --valid {shards} SMALL --set=train.sample_parses=1 --set "train.keep_at=['1 steps']"
closing: train {brackets} SMALL
counting: train {language} SMALL
copying: train --task sm --lengths 1-3 --config dcf SMALL --set=config.heads=2
answering: train {prompts} SMALL --config glue
parsing: eval-parse {x.trees} {x.trees}
imported: import {released}
exported: export {run} --results {parsing} --about "A model."
perplexity: eval-ppl {shards} --model {run}
blimp: eval-blimp {pairs.jsonl} MODEL
benchmark: eval-benchmark {pairs.jsonl} --as blimp MODEL
sg: eval-sg {suite.json} MODEL
external: eval-sg {items.csv} --from-items
attention: eval-attention {suite.json} MODEL --at 2 --samples 9
bound: eval-formal cfl {language} --model {counting} --plot {bound.svg}
dyck: eval-formal dyck {far.tsv} --model {closing} --strings {brackets} --beam 2
task: eval-formal task {sm.tsv} --model {copying} --plot {task.svg}
classified: eval-classify {prompts} --model {answering}
reading: eval-reading {times.tsv} --model {reading_models}/base --table {reading.csv}
figures: view {blimp} -o {page.html}
"""
COMMANDS = {
    name: shlex.split(command.replace("SMALL", SMALL).replace("MODEL", MODEL))
    for name, _, command in (line.partition(": ") for line in LINES.strip().splitlines())
}
# Commands that have --overwrite and write no folder.
OF_FILES = {
    *("prompts", "decode", "sample", "inspect", "surprisal", "compare"),
    *("generate dyck-prefixes", "generate task"),
}


def arguments(folder: Path, name: str) -> list[str]:
    """A command with its paths."""
    filled = [each.replace("{", f"{folder}/").replace("}", "") for each in COMMANDS[name]]
    if "--model" in filled or filled[0] == "train":
        filled += ["--device", "cpu"]
    return [*filled, "--figures" if name == "figures" else "-o", str(folder / name), "--quiet"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What commands read, and what each of them has written once."""
    pytest.importorskip("vl_convert", reason="vl-convert is not installed")
    folder = tmp_path_factory.mktemp("own")
    save_checkpoints(folder / "models")
    save_models(folder / "reading_models")
    save_released(folder / "released")
    write_times(folder / "times.tsv")
    toy_prompts(folder / "prompts", 6, 1)
    words = ["a b c", "b a", "c a b", "b c a b", "a c", "c c a"]
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in words))
    trees = [f"(S {' '.join(f'(X {word})' for word in line.split())})\n" for line in words]
    (folder / "x.trees").write_text("".join(trees))
    (folder / "x.pcfg").write_text("S -> 'a' S [0.5] | 'a' [0.5]\n")
    write_pairs(folder / "pairs.jsonl", [("a b", "b a")])
    suite = suite_of([condition("x", "a", "b"), condition("y", "b", "a")])
    (folder / "suite.json").write_text(json.dumps(suite))
    (folder / "items.csv").write_text("model,suite,item,correct\nm,toy,1,1\nm,toy,2,0\n")
    prefixes = ["generate", "dyck-prefixes", "--brackets", "2", "-n", "3", "--depths", "4-5"]
    assert run([*prefixes, "-o", str(folder / "far.tsv"), "-q"]) == 0
    assert (
        run(["generate", "task", "sm", "--lengths", "2-3", "-n", "2", "-o", str(folder / "sm.tsv"), "-q"])
        == 0
    )
    return folder


def test_a_folder_that_a_command_wrote_it_replaces(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One test, as commands read what others have written."""
    for name in COMMANDS:
        command = arguments(made, name)
        assert run(command) == 0, (name, capsys.readouterr().err)
        first = sorted(os.listdir(made / name))
        assert run([*command, "--overwrite"]) == 0, (name, capsys.readouterr().err)
        assert sorted(os.listdir(made / name)) == first
    assert {"samples.jsonl", "step-1"} <= set(os.listdir(made / "run"))
    assert "training.json" in os.listdir(made / "exported")
    assert "scores.parquet" in os.listdir(made / "external")
    assert "strings.parquet" in os.listdir(made / "sg")


def test_every_command_is_among_these() -> None:
    every = {
        name
        for name, command in every_command().items()
        if any(option.name == "overwrite" for option in command.params)
    }
    groups = ("generate", "eval-formal")
    of_folders = {" ".join(command[: 1 + (command[0] in groups)]) for command in COMMANDS.values()}
    assert every == of_folders | OF_FILES | {"data get"}  # which has tests of its own
