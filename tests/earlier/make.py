"""Write the fixtures of test_earlier_files.py with the code of today.

    PYTHONPATH=tests/helpers python tests/earlier/make.py v1

They are written once and stay as they are. Those of a later version are made beside them, under another name.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from stopping import StopAfter

from pdtools.cli.main import run
from pdtools.training import Recipe, TrainConfig, train

DATA = Path("../../../data")  # relative: outputs hold the names of their inputs
SIZES = {"layers": 2, "d_model": 8, "heads": 2, "d_ff": 16}
QUIET = ("--quiet",)
CPU = ("--device", "cpu", "--threads", "1", "--quiet")
TREEREG = Recipe(
    model="transformer",
    options={**SIZES, "treereg_layer": 1},
    train=TrainConfig(
        steps=12,
        batch_tokens=60,
        accumulate=1,
        treereg_every=2,
        treereg_weight=0.7,
        eval_every=6,
        log_every=8,
    ),
)
FAMILIES = {
    "pushdown": ("pushdown", {}),
    "transformer": ("transformer", {}),
    "stack-attention": ("transformer", {"stack_layers": "all"}),
    "tg": ("tg", {}),
    "plm": ("plm", {}),
    "rnn": ("rnn", {"stack": "nondeterministic", "stack_vector": 2, "hidden_size": 6}),
    "lstm": ("rnn", {"stack": "none", "hidden_size": 6}),
}
SENTENCE = "It fell .\n"


def call(*arguments: str) -> str:
    """Run a command, and return what it printed."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # with a buffer, as commands write bytes
    sys.argv[1:] = arguments  # of which the job of a command keeps a record
    with contextlib.redirect_stdout(out):
        status = run(list(arguments))
    if status:
        raise SystemExit(f"pdtools {' '.join(arguments)}: status {status}")
    out.flush()
    return out.buffer.getvalue().decode()  # type: ignore[attr-defined]


def settings(options: dict[str, object]) -> list[str]:
    given = {f"config.{key}": value for key, value in options.items()}
    given |= {"train.steps": 4, "train.batch_tokens": 100, "train.eval_every": 4}
    return list(itertools.chain.from_iterable(("--set", f"{key}={value}") for key, value in given.items()))


def inputs() -> None:
    """Write a few trees of the bundled treebank, minimal pairs, a suite, brackets, pairs of a task, times."""
    for name, count in (("train", 40), ("valid", 8)):
        call("parse", str(DATA / f"treebank/{name}.mrg"), "--from", "treebank", "-o", "all.trees", *QUIET)
        lines = Path("all.trees").read_text().splitlines(keepends=True)
        Path(f"{name}.trees").write_text("".join(sorted(lines, key=len)[5 : 5 + count]))
        for file in Path().glob("all.trees*"):
            file.unlink()
    lines = (DATA / "blimp/mini_transitive.jsonl").read_text().splitlines(keepends=True)
    Path("pairs.jsonl").write_text("".join(lines[:12]))
    suite = json.loads((DATA / "sg/mini_number_orc.json").read_text())
    suite["items"] = suite["items"][:4]
    Path("suite.json").write_text(json.dumps(suite))
    Path("line.txt").write_text(SENTENCE)
    call("tapes", "train.trees", "--tokenizer", "word", "--min-count", "1", "-o", "shards/train", *QUIET)
    call("tapes", "valid.trees", "--tokenizer", "shards/train", "-o", "shards/valid", *QUIET)
    dyck = ("--brackets", "2", "--depth", "4")
    call("generate", "dyck", "-n", "20", *dyck, "--shards", "-o", "shards/dyck", *QUIET)
    prefixes = ("generate", "dyck-prefixes", "--dependency", "4", "--max-length", "40", "-n", "8", *dyck)
    call(*prefixes, "--seed", "5", "-o", "prefixes.tsv", *QUIET)
    cfl = ("generate", "cfl", "marked-reversal", "--lengths", "5-9", "-n", "20", "--shards")
    call(*cfl, "-o", "shards/cfl", *QUIET)
    call("generate", "task", "rs", "--lengths", "5", "-n", "8", "-o", "task.tsv", *QUIET)
    leaves = re.findall(r" ([a-z]+)\)", Path("train.trees").read_text())
    words = list(dict.fromkeys(leaves))[:30]
    rows = ["item\tword_number\tword\tsubject\ttime\n"]
    for item, subject in itertools.product(range(12), range(3)):
        order = words[item * 2 :] + words[: item * 2]
        for number, word in enumerate(order[:12], 1):
            time = 250 + 13 * ((item * 7 + number * 5 + subject * 3) % 11)
            rows.append(f"{item}\t{number}\t{word}\ts{subject}\t{time}\n")
    Path("times.tsv").write_text("".join(rows))


def models() -> None:
    """Train a model of each family, on sentences, brackets, strings and a task."""
    untrained = shutil.ignore_patterns("trainer")
    for name, (model, more) in FAMILIES.items():
        sizes = {} if model == "rnn" else SIZES
        trained = ("train", "shards/train", "--model", model, *settings({**sizes, **more}), *CPU)
        call(*trained, "-o", f"trained/{name}")
        shutil.copytree(f"trained/{name}/last", f"checkpoints/{name}", ignore=untrained)
    for seed, (data, kind) in itertools.product("12", (("dyck", "pushdown"), ("cfl", "pushdown"))):
        trained = ("train", f"shards/{data}", "--model", kind, *settings(SIZES), "--seed", seed, *CPU)
        call(*trained, "-o", f"trained/{data}-{seed}")
    for seed in "12":
        task = ("train", "--task", "rs", "--lengths", "3-5", "--config", "dcf", *settings(SIZES), *CPU)
        call(*task, "--set", "train.batch_sentences=4", "--seed", seed, "-o", f"trained/task-{seed}")


def results() -> None:
    """Evaluate two models each."""
    for side, name in (("a", "pushdown"), ("b", "transformer")):
        model = ("--model", f"checkpoints/{name}", *CPU)
        call("eval-blimp", "pairs.jsonl", *model, "--beam", "4", "-o", f"results/{side}/blimp")
        call("eval-sg", "suite.json", *model, "--beam", "4", "-o", f"results/{side}/sg")
        call("eval-ppl", "shards/valid", *model, "--beam", "4", "-o", f"results/{side}/ppl")
        call("eval-reading", "times.tsv", *model, "--beam", "4", "-o", f"results/{side}/reading")
        decoded = ("decode", "valid.trees", "--from", "treebank", "--model", "checkpoints/pushdown", *CPU)
        call(*decoded, "--beam", {"a": "4", "b": "1"}[side], "-o", f"{side}.trees")
        parsed = ("eval-parse", "valid.trees", f"{side}.trees", "--unlabeled", "--binarize", "right", *QUIET)
        call(*parsed, "-o", f"results/{side}/parse")
        seed = {"a": "1", "b": "2"}[side]
        dyck = ("--model", f"trained/dyck-{seed}", *CPU, "--beam", "4", "-o", f"results/{side}/dyck")
        call("eval-dyck", "prefixes.tsv", *dyck)
        cfl = ("--model", f"trained/cfl-{seed}", *CPU, "--beam", "4", "-o", f"results/{side}/cfl")
        call("eval-cfl", "shards/cfl", *cfl)
        call("eval-task", "task.tsv", "--model", f"trained/task-{seed}", *CPU, "-o", f"results/{side}/task")


def runs() -> None:
    """Train to the end, and stop in the middle of a window of the log."""
    there: dict[str, Any] = {"valid": "shards/valid", "device": "cpu"}
    train("shards/train", "trainings/finished", TREEREG, **there)
    stop = StopAfter(5)
    train("shards/train", "trainings/stopped", TREEREG, listener=stop, stop=stop, **there)


def expected() -> dict[str, object]:
    """Collect what later code is to read from all this."""
    compared = {}
    for kind in ("", "blimp", "sg"):  # the first: main scores of all kinds
        compared[kind] = json.loads(call("compare", f"results/a/{kind}", f"results/b/{kind}", "--json"))
    surprisals = {}
    for name in FAMILIES:
        scored = ("surprisal", "line.txt", "--model", f"checkpoints/{name}", "--beam", "4", *CPU)
        surprisals[name] = call(*scored, "-o", "-")
    return {"compare": compared, "surprisals": surprisals, "shown": call("show", "shards/valid", "0")}


def main(name: str) -> None:
    folder = Path(__file__).parent / name
    folder.mkdir()
    os.chdir(folder)
    for step in (inputs, models, results, runs):
        step()
    Path("expected.json").write_text(json.dumps(expected(), indent=1) + "\n")
    shutil.rmtree("trained")
    for folder in Path().glob("results/*/*"):
        assert str(DATA.resolve().parent) not in (folder / "results.json").read_text()


if __name__ == "__main__":
    main(sys.argv[1])
