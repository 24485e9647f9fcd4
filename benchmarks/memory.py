"""Peak memory of commands by the size of their input, to see if they stream.

    OMP_NUM_THREADS=1 python benchmarks/memory.py [TREES ...] [--sizes 1 4 16]

Each line is a figure (see ``measure.py``): the largest resident set of a process that runs one command, in
MiB, and its ratio to the same at the smallest size. Trees are files repeated (without any, the bundled
treebank) up to 4 MiB, so many times; shards are of such trees, up to 1 MiB; pairs and suites are random
sentences of bundled words, 2,000 pairs and 40 suites of 25 items, so many times.
Repeated trees have no new words: the vocabulary, which is in memory, does not grow.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from measure import Figure, machine

from pdtools import data
from pdtools.files import Rejects
from pdtools.shards import TokenizerSettings
from pdtools.shards.build import train_tokenizer
from pdtools.tokenization import Tokenizer
from pdtools.trees import read_trees

TREE_BYTES, PAIRS, SUITES, ITEMS, WORDS = 4 << 20, 2000, 40, 25, 10
BAR = 1.1

# Linux counts what a process took before it became another program in ru_maxrss, but not in VmHWM.
_CHILD = """
import pathlib, resource, sys
from pdtools.cli.main import run
status = run(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
own = pathlib.Path("/proc/self/status")
if own.exists():
    peak = next(line.split()[1] for line in own.read_text().splitlines() if line.startswith("VmHWM"))
print(peak, file=sys.stderr)
sys.exit(status)
"""


def main() -> None:
    """Read the options and print one line a figure as soon as it is known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("trees", nargs="*", help="files of trees; without any, the bundled treebank")
    parser.add_argument("--sizes", nargs="+", type=int, default=[1, 4, 16], help="of the input")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for figure in figures(given.trees or [str(data.treebank("train"))], given.sizes, Path(folder)):
            print(figure.line(), flush=True)


def figures(trees: Sequence[str], sizes: Sequence[int], folder: Path) -> Iterator[Figure]:
    """Every command at every size."""
    tokenizer = train_tokenizer(read_trees([str(data.treebank("train"))], Rejects()), TokenizerSettings())
    model = _model(tokenizer, folder)
    smallest: dict[str, float] = {}
    for size in sizes:
        corpus, pairs, suites = (folder / name for name in ("corpus.trees", "pairs.jsonl", "suites"))
        shards = _make_shards(trees, TREE_BYTES // 4 * size, model, folder)
        _write_trees(trees, TREE_BYTES * size, corpus)
        _write_pairs(tokenizer, PAIRS * size, pairs)
        _write_suites(tokenizer, SUITES * size, suites)
        scoring = ["--model", model, "--threads", "1", "--device", "cpu"]
        commands = {
            "parse": ["parse", corpus, "--from", "treebank"],
            "tapes": ["tapes", corpus],
            "eval-blimp": ["eval-blimp", pairs, *scoring],
            "eval-sg": ["eval-sg", suites, *scoring],
            "eval-ppl": ["eval-ppl", shards, *scoring],
        }
        inputs = {
            "parse": [corpus],
            "tapes": [corpus],
            "eval-blimp": [pairs],
            "eval-sg": suites.iterdir(),
            "eval-ppl": shards.glob("*.parquet"),
        }
        for name, command in commands.items():
            peak = peak_mib([*map(str, command), "--overwrite", "-o", str(folder / f"out-{name}")])
            n_bytes = sum(file.stat().st_size for file in inputs[name])
            settings = {"size": size, "input_bytes": n_bytes, "machine": machine("cpu")}
            yield Figure(
                name=f"peak memory: {name} at {size}x",
                value=peak,
                unit="MiB",
                ratio=peak / smallest.setdefault(name, peak),
                against=f"{sizes[0]}x",
                bar=BAR,
                settings=settings,
            )


def peak_mib(arguments: Sequence[str], status: int = 0) -> float:
    """The largest resident set of a process that runs a command, which has to end with this status."""
    done = subprocess.run([sys.executable, "-c", _CHILD, *arguments], capture_output=True, text=True)
    if done.returncode != status:
        raise SystemExit(f"status {done.returncode}: {done.stderr}")
    return int(done.stderr.splitlines()[-1]) / 1024


def _write_trees(files: Sequence[str], n_bytes: int, output: Path) -> None:
    content = b"".join(Path(file).read_bytes() for file in files)
    with output.open("wb") as stream:
        for _ in range(-(-n_bytes // len(content))):
            stream.write(content)


def _make_shards(files: Sequence[str], n_bytes: int, model: Path, folder: Path) -> Path:
    trees, shards = folder / "small.trees", folder / "shards"
    _write_trees(files, n_bytes, trees)
    command = ["tapes", trees, "--tokenizer", model, "--tape", "none", "--overwrite", "-o", shards]
    peak_mib([*map(str, command)])
    return shards


def _write_pairs(tokenizer: Tokenizer, n_pairs: int, output: Path) -> None:
    sentence = _random_sentences(tokenizer)
    with output.open("w", encoding="utf-8") as stream:
        for number in range(n_pairs):
            good, bad = next(sentence), next(sentence)
            pair = {"UID": "random", "field": "none", "linguistics_term": "none", "pairID": str(number)}
            stream.write(json.dumps({**pair, "sentence_good": good, "sentence_bad": bad}) + "\n")


def _write_suites(tokenizer: Tokenizer, n_suites: int, output: Path) -> None:
    output.mkdir(exist_ok=True)
    sentence = _random_sentences(tokenizer)
    for suite in range(n_suites):
        items = [
            {
                "item_number": number,
                "conditions": [
                    {
                        "condition_name": name,
                        "regions": [{"region_number": 1, "content": next(sentence)}],
                    }
                    for name in ("a", "b")
                ],
            }
            for number in range(1, ITEMS + 1)
        ]
        meta = {"meta": {"name": f"random-{suite}", "metric": "sum"}}
        formula = {"predictions": [{"type": "formula", "formula": "(1;%a%) < (1;%b%)"}]}
        (output / f"{suite}.json").write_text(json.dumps({**meta, **formula, "items": items}))


def _random_sentences(tokenizer: Tokenizer) -> Iterator[str]:
    rng = np.random.default_rng(0)
    words = [tokenizer.token_text(index) for index in range(tokenizer.vocab_size)]
    vocabulary = [word for word in words if word.isalpha()]
    while True:
        yield " ".join(rng.choice(vocabulary, WORDS))


def _model(tokenizer: Tokenizer, folder: Path) -> Path:
    from pdtools.models import build_model, make_config, save_checkpoint

    shape = {"vocab_size": tokenizer.vocab_size, "layers": 1, "d_model": 16, "heads": 2, "d_ff": 32}
    special = {"pad_id": tokenizer.pad_id, "root_id": tokenizer.root_id, "eos_id": tokenizer.eos_id}
    model = build_model("transformer", make_config("transformer", {**shape, **special}))
    settings = {"layout": "sentence", "factor": "right", "text_style": tokenizer.text_style}
    save_checkpoint(folder / "model", model, tokenizer, shards=settings)
    return folder / "model"


if __name__ == "__main__":
    main()
