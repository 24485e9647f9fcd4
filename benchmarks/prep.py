"""From trees to shards: words a second, stage by stage, beside a plain formulation in one process.

    OMP_NUM_THREADS=1 python benchmarks/prep.py [TREES ...]

Each line is a figure: its name, value, unit, ratio to the plain formulation (``plain_prep.py``), the lowest
ratio that is accepted (``bar``, null if none), and the settings. Times are medians of interleaved runs.
Without files, the bundled treebank is read.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import plain_prep
import pyarrow as pa

from pdtools import data
from pdtools.files import Rejects, expand_inputs
from pdtools.shards import ShardSettings, TokenizerSettings, shards_from_files
from pdtools.shards.build import sentence_of, train_tokenizer
from pdtools.tokenization import Tokenizer
from pdtools.trees import (
    SourcedTree,
    attachments,
    normalize,
    pack_tape,
    packed_tapes,
    read_arrays,
    read_trees,
    sentence_layout,
    tape,
)

SUFFIXES = (".mrg", ".ptb", ".tree", ".trees")
WHOLE_BAR = 25
Run = Callable[[], Any]


def read(files: Sequence[str]) -> list[tuple[pa.StringArray, Any]]:
    """Words as Arrow strings, and attachments, of whole files."""
    found = []
    for arrays in read_arrays(files, Rejects()):
        if isinstance(arrays, SourcedTree):
            raise SystemExit(f"{arrays.file}: not in the ordinary form")
        letters, offsets = arrays.packed_words()
        words = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(letters))
        found.append((words, arrays.attachments))
    return found


def stages(files: list[str], folder: Path) -> tuple[dict[str, tuple[Run, Run]], int]:
    """For each figure the run of pdtools and the plain one; and the number of words."""
    tokenizer = train_tokenizer(read_trees(files, Rejects()), TokenizerSettings())
    vocabulary, special = _vocabulary(tokenizer, files)
    trees = [tree for source in read_trees(files, Rejects()) if (tree := normalize(source.tree)) is not None]
    plain_trees = plain_prep.read(files)
    sentences = [sentence_of(tree, "ptb") for tree in trees]
    layouts = [sentence_layout(attachments(tree)) for tree in trees]
    _check(files, plain_trees, layouts)
    lists = [layout.tolist() for layout in layouts]
    runs: dict[str, tuple[Run, Run]] = {
        "read, with attachments": (
            lambda: read(files),
            lambda: [(tree.leaves(), plain_prep.attachments(tree)) for tree in plain_prep.read(files)],
        ),
        "attachments, of single trees": (
            lambda: [attachments(tree) for tree in trees],
            lambda: [plain_prep.attachments(tree) for tree in plain_trees],
        ),
        "tokenize": (
            lambda: [tokenizer.encode(sentence) for sentence in sentences],
            lambda: [plain_prep.encode(sentence.words, vocabulary, special[2]) for sentence in sentences],
        ),
        "tape": (
            lambda: packed_tapes(layouts),
            lambda: [plain_prep.tape(layout) for layout in lists],
        ),
        "whole": (
            lambda: shards_from_files(
                files, tokenizer, ShardSettings(), folder / "shards", Rejects(), overwrite=True
            ),
            lambda: plain_prep.whole(files, vocabulary, special, folder / "plain.parquet"),
        ),
    }
    return runs, sum(map(len, trees))


def _vocabulary(tokenizer: Tokenizer, files: list[str]) -> tuple[dict[str, int], tuple[int, int, int]]:
    words = {word for text, _ in read(files) for word in text.unique().to_pylist()}
    known = {word: ids[0] for word in words if len(ids := tokenizer.word_tokens(word)) == 1}
    if tokenizer.unk_id is None:
        raise SystemExit("the tokenizer has no <unk>")
    return known, (tokenizer.root_id, tokenizer.eos_id, tokenizer.unk_id)


def _check(files: list[str], plain_trees: list[Any], layouts: list[Any]) -> None:
    """All formulations must agree before any is timed."""
    words = [word for text, _ in read(files) for word in text.to_pylist()]
    reached = [int(r) for _, flat in read(files) for r in flat]
    plain = [plain_prep.attachments(tree) for tree in plain_trees]
    if (
        words != [word for tree in plain_trees for word in tree.leaves()]
        or reached != [r for tree in plain for r in tree]
        or any(plain_prep.tape(layout.tolist()) != pack_tape(tape(layout)) for layout in layouts[::20])
    ):
        raise SystemExit("the plain formulation gives other words, attachments or tapes")


def medians(runs: Mapping[str, tuple[Run, Run]], repeats: int) -> dict[str, tuple[float, float]]:
    """Median seconds of both runs of each figure; every round runs all once, the first is not counted."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for round_ in range(repeats + 1):
        for name, (ours, plain) in runs.items():
            times = (_seconds(ours), _seconds(plain))
            if round_:
                taken[name].append(times)
    return {
        name: (statistics.median(t[0] for t in times), statistics.median(t[1] for t in times))
        for name, times in taken.items()
    }


def _seconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Measure, and print a line per figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="*", default=[str(data.treebank("train"))])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    files = expand_inputs(options.trees, SUFFIXES)
    with tempfile.TemporaryDirectory() as folder:
        runs, n_words = stages(files, Path(folder))
        settings = {
            "files": len(files),
            "words": n_words,
            "repeats": options.repeats,
            "cpu": platform.machine(),
        }
        for name, (ours, plain) in medians(runs, options.repeats).items():
            line = {
                "name": f"prep: {name}",
                "value": float(f"{n_words / ours:.4g}"),
                "unit": "words/s",
                "ratio": float(f"{plain / ours:.4g}"),
                "against": f"plain: {n_words / plain:.4g} words/s",
                "bar": WHOLE_BAR if name == "whole" else None,
                "settings": settings,
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
