"""From trees to shards: words a second on one core, stage by stage, beside a plain formulation.

    OMP_NUM_THREADS=1 python benchmarks/prep.py [TREES ...]

Each line is a figure: its name, value, unit, ratio of the plain formulation's time (``plain/prep.py``) to
ours, the lowest ratio that is accepted (``bar``, null if none), and the settings. Times are medians of
interleaved runs, in processor time, which other work on the machine changes little. Both formulations
tokenize as a new process would, without a word looked up before. Without files, the bundled treebank is
read, several copies of it in one file.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tokenizers
from measure import machine
from plain import prep as plain_prep

from pdtools import data
from pdtools.files import Rejects, expand_inputs
from pdtools.shards import ShardSet, ShardSettings, TokenizerSettings, shards_from_files
from pdtools.shards.format import arrow_schema
from pdtools.shards.writer import open_part
from pdtools.tokenization import Tokenizer, WordTable
from pdtools.trees import TreeArrays, cut_chunks, packed_tapes, parse_chunk
from pdtools.trees.arrays import attachments_between

SUFFIXES = (".mrg", ".ptb", ".tree", ".trees")
READ_BAR, WHOLE_BAR = 100, 25
COPIES = 2
SETTINGS = ShardSettings(constituents="labelled")
Run = Callable[[], Any]


def main() -> None:
    """Measure, and print a line per figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="*", help="files or folders; none: the bundled treebank")
    parser.add_argument("--repeats", type=int, default=3, help="rounds; medians are printed")
    parser.add_argument("--device", default="cpu", help="cpu: there is nothing to do for a GPU")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = expand_inputs(options.trees, SUFFIXES) if options.trees else [_bundled(folder)]
        n_words = sum(len(arrays.attachments) for arrays in read(files))
        settings = {
            "files": len(files),
            "words": n_words,
            "repeats": options.repeats,
            "machine": machine("cpu"),
        }
        for figure in measured(files, folder, n_words, options.repeats):
            print(json.dumps({**figure, "settings": settings}), flush=True)


def _bundled(folder: Path) -> str:
    file = folder / "train.mrg"
    file.write_bytes(data.treebank("train").read_bytes() * COPIES)
    return str(file)


def read(files: Sequence[str]) -> list[TreeArrays]:
    """Whole files as arrays."""
    found = []
    for chunk in cut_chunks(files):
        if (arrays := parse_chunk(chunk)) is None:
            raise SystemExit(f"{chunk.files[0]}: not in the ordinary form")
        found.append(arrays)
    return found


def measured(files: list[str], folder: Path, n_words: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    stages = _tree_stages(files)
    for kind in ("word", "bpe"):
        stages |= _token_stages(files, kind, folder)
    for name, (ours, plain) in _medians(stages, repeats).items():
        bar = WHOLE_BAR if name.startswith("whole") else READ_BAR if name.startswith("read,") else None
        yield {
            "name": f"prep: {name}",
            "value": float(f"{n_words / ours:.4g}"),
            "unit": "words/s",
            "ratio": float(f"{plain / ours:.4g}"),
            "against": f"plain: {n_words / plain:.4g} words/s",
            "bar": bar,
            "at_least": True,
        }


def _tree_stages(files: list[str]) -> dict[str, tuple[Run, Run]]:
    """For each figure of trees, the run of pdtools and the plain one."""
    arrays = read(files)
    plain_trees = plain_prep.read(files)
    reached = [plain_prep.attachments(tree) for tree in plain_trees]
    if [word for some in arrays for word in some.words().to_pylist()] != [
        word for tree in plain_trees for word in tree.leaves()
    ] or [int(r) for some in arrays for r in some.attachments] != [r for tree in reached for r in tree]:
        raise SystemExit("the plain formulation gives other words or attachments")
    between = [(some.between, some.sentences) for some in arrays]
    return {
        "read, words and attachments": (
            lambda: [(some.words(), some.attachments) for some in read(files)],
            lambda: [(tree.leaves(), plain_prep.attachments(tree)) for tree in plain_prep.read(files)],
        ),
        "read (plain: one tree at a time)": (
            lambda: [(some.words(), some.attachments) for some in read(files)],
            lambda: [(tree.leaves(), plain_prep.attachments(tree)) for tree in plain_prep.one_by_one(files)],
        ),
        "attachments": (
            lambda: [attachments_between(*pair, "right") for pair in between],
            lambda: [plain_prep.attachments(tree) for tree in plain_trees],
        ),
    }


def _token_stages(files: list[str], kind: Any, folder: Path) -> dict[str, tuple[Run, Run]]:
    """For each figure of tokens, the run of pdtools and the plain one."""
    shards = folder / kind
    make = TokenizerSettings(kind=kind)
    shards_from_files(files, make, SETTINGS, shards, Rejects(), overwrite=True)
    written = ShardSet.open(shards)
    tokenizer = written.tokenizer
    encoder = partial(_plain_encoder, tokenizer)
    trees = plain_prep.read(files)
    special = tokenizer.root_id, tokenizer.eos_id, tokenizer.label_ids
    rows = [plain_prep.row(tree, encoder(), *special) for tree in trees]
    if [row[1:4] + row[5:] for row in rows] != [_numbers(written, i) for i in range(len(written))]:
        raise SystemExit("the plain formulation gives other rows")
    words = [some.words() for some in read(files)]
    sentences = [[plain_prep.unescaped(word) for word in tree.leaves()] for tree in trees]
    attach = np.concatenate([written.attach(i) for i in range(len(written))])
    offsets = np.concatenate([[0], np.cumsum(written.lengths)])
    lists = [row[2] for row in rows]
    table = pa.concat_tables(_tables(shards)).combine_chunks()

    def look_up() -> None:
        known = WordTable(_fresh(tokenizer))
        for some in words:
            known.tokens(known.look_up(some)[0])

    def encode() -> None:
        plain = encoder()
        for sentence in sentences:
            plain(sentence)

    def write() -> None:
        schema = arrow_schema(SETTINGS, tokenizer, [])
        with open_part(folder / "part.parquet", schema) as part:
            part.write_table(table.replace_schema_metadata(schema.metadata), row_group_size=8192)

    def whole() -> None:
        shards_from_files(files, _fresh(tokenizer), SETTINGS, shards, Rejects(), overwrite=True)

    def plain_whole() -> None:
        plain = folder / "plain.parquet"
        plain_prep.whole(files, encoder(), *special, plain)

    return {
        f"tokenize, {kind}": (look_up, encode),
        f"tape, {kind}": (
            lambda: packed_tapes(attach, offsets),
            lambda: [plain_prep.tape(row) for row in lists],
        ),
        f"write, {kind}": (write, lambda: plain_prep.write(rows, folder / "plain.parquet")),
        f"whole, {kind}": (whole, plain_whole),
    }


def _numbers(shards: ShardSet, i: int) -> tuple[list[int], ...]:
    """The numbers of a row."""
    found = shards.constituents(i)
    row = (shards.tokens(i), shards.attach(i), shards.word(i), found.labels, found.opens, found.closes)
    return tuple(column.tolist() for column in row)


def _tables(shards: Path) -> list[pa.Table]:
    return [pq.read_table(part) for part in sorted(shards.glob("*.parquet"))]


def _fresh(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer, that has not seen a word yet."""
    return pickle.loads(pickle.dumps(tokenizer))


def _plain_encoder(tokenizer: Tokenizer) -> plain_prep.Encode:
    """The plain formulation's tokenizer: a dictionary, or Hugging Face's tokenizer."""
    backend = tokenizers.Tokenizer.from_str(tokenizer.__getstate__()["backend_json"])
    if tokenizer.kind == "bpe":
        return partial(plain_prep.encode_subwords, tokenizer=backend)
    unknown = tokenizer.unk_id
    assert unknown is not None
    return partial(plain_prep.encode_words, vocabulary=backend.get_vocab(), unknown=unknown)


def _medians(stages: Mapping[str, tuple[Run, Run]], repeats: int) -> dict[str, tuple[float, float]]:
    """Median seconds of both runs of each figure; every round runs all once."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in stages}
    gc.collect()
    gc.freeze()  # objects kept for other figures are no work of the garbage collector in this one
    for _ in range(repeats):
        for name, (ours, plain) in stages.items():
            taken[name].append((_seconds(ours), _seconds(plain)))
    return {
        name: (statistics.median(t[0] for t in times), statistics.median(t[1] for t in times))
        for name, times in taken.items()
    }


def _seconds(run: Run) -> float:
    gc.collect()  # the objects that the last run left
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    main()
