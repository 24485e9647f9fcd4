"""Growth of `pdtools tapes` with the corpus, and its speed by workers: the whole command, anew each time.

    python benchmarks/prep_growth.py [TREES ...]

Copies of one treebank (the bundled one if none is named), one after the other in one file, become shards with
a BPE tokenizer that is given. Growth with the corpus is in the processor's time, start and end of the
command included; workers and one process are timed by the clock, which other work on the machine disturbs.
Memory is the maximum of the largest of the command's processes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import Figure, machine

from pdtools import data
from pdtools.files import Rejects, expand_inputs
from pdtools.shards import ShardSettings, TokenizerSettings, shards_from_files

SUFFIXES = (".mrg", ".ptb", ".tree", ".trees")
ONCE_BYTES = 5 << 20  # bytes of brackets
GROWTH = (1, 4, 16)
WORKERS = (1, 2, 4, 8)


# A process counts the memory of the one that began it as its own: this one is small.
_MEASURE = """
import json, os, sys, time
start = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawn(sys.executable, sys.argv[1:], os.environ), 0)
clock = time.perf_counter() - start
print(json.dumps([status, clock, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of a run of the command: seconds of the processor and of the clock, and MiB of memory."""

    processor: float
    clock: float
    memory: float


def figures(repeats: int, files: Sequence[str] = ()) -> Iterator[Figure]:
    """Words a second and memory, by corpus and by workers."""
    settings = {"repeats": repeats, "tokenizer": "bpe", "machine": machine("cpu")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = (
            b"\n".join(Path(file).read_bytes() for file in files or [str(data.treebank("train"))]) + b"\n"
        )
        once = content * max(1, round(ONCE_BYTES / len(content)))
        corpora = {times: folder / f"{times}.trees" for times in GROWTH}
        for times, corpus in corpora.items():
            corpus.write_bytes(once * times)
        made = shards_from_files(
            [str(corpora[1])], TokenizerSettings(kind="bpe"), ShardSettings(), folder / "tokenizer", Rejects()
        )
        words = made["counts"]["words"]
        costs = _rounds([(corpora[times], 1) for times in GROWTH], repeats)
        for times, of_corpus in zip(GROWTH, costs, strict=True):
            here = {"x": words * times, "words": words * times, "bytes": len(once) * times, **settings}
            label = f"tapes by corpus, {times}"
            speed = words * times / statistics.median(cost.processor for cost in of_corpus)
            yield Figure(name=label, value=speed, unit="words/s", settings=here)
            memory = statistics.median(cost.memory for cost in of_corpus)
            yield Figure(name=f"{label}, memory", value=memory, unit="MiB", settings=here)
        numbers = [number for number in WORKERS if number <= (os.cpu_count() or 1)]
        largest = max(GROWTH)
        costs = _rounds([(corpora[largest], number) for number in numbers], repeats)
        alone = statistics.median(cost.clock for cost in costs[0])
        for number, of_number in zip(numbers, costs, strict=True):
            clock = statistics.median(cost.clock for cost in of_number)
            here = {"x": number, "words": words * largest, **settings}
            label = f"tapes by workers, {number}"
            yield Figure(
                name=label,
                value=words * largest / clock,
                unit="words/s",
                ratio=alone / clock,
                against="1 worker",
                settings={**here, "processor": statistics.median(cost.processor for cost in of_number)},
            )
            memory = statistics.median(cost.memory for cost in of_number)
            yield Figure(name=f"{label}, memory", value=memory, unit="MiB", settings=here)


def _rounds(runs: Sequence[tuple[Path, int]], repeats: int) -> list[list[Cost]]:
    """The cost of each run in every round; a round runs all of them once."""
    rounds = [[_tapes(corpus, workers) for corpus, workers in runs] for _ in range(repeats)]
    return [list(costs) for costs in zip(*rounds, strict=True)]


def _tapes(corpus: Path, workers: int) -> Cost:
    """Run the command once."""
    out = corpus.with_suffix(".shards")
    given = ["--tokenizer", str(corpus.parent / "tokenizer"), "--workers", str(workers), "--quiet"]
    command = [sys.executable, "-m", "pdtools", "tapes", str(corpus), "-o", str(out), *given]
    measured = subprocess.run([sys.executable, "-c", _MEASURE, *command], stdout=subprocess.PIPE, check=True)
    status, clock, processor, memory = json.loads(measured.stdout)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    shutil.rmtree(out)
    unit = 2**20 if sys.platform == "darwin" else 2**10  # the unit of ru_maxrss
    return Cost(processor=processor, clock=clock, memory=memory / unit)


def main() -> None:
    """Measure, and print a line per figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("trees", nargs="*", help="files or folders; none: the bundled treebank")
    parser.add_argument("--repeats", type=int, default=3, help="rounds; medians are printed")
    options = parser.parse_args()
    files = expand_inputs(options.trees, SUFFIXES) if options.trees else []
    for figure in figures(options.repeats, files):
        print(figure.line(), flush=True)


if __name__ == "__main__":
    main()
