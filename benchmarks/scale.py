"""Speed by processes: workers, the jobs of an array, a Dask cluster, torchrun.

    OMP_NUM_THREADS=1 python benchmarks/scale.py [--processes 2] [--sentences 1024] [--steps 60]

Each line is a figure (see ``measure.py``): seconds by the clock of whole commands, started and ended, on the
bundled data, with one thread a process. An array's time is for jobs that run beside each other, and
``pdtools merge``; a cluster's workers are there before. The machine needs as many free cores as processes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from measure import Figure, machine

from pdtools import data
from pdtools.files import Rejects
from pdtools.training import read_metrics
from pdtools.trees import read_trees

_PDTOOLS = [sys.executable, "-m", "pdtools"]
_TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
# As it was at the start: a Dask cluster changes this process's, so that what it starts is slower at malloc.
_ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
_ONE_THREAD = ["--threads", "1", "--device", "cpu", "--quiet"]
_MODEL = ["config.layers=4", "config.d_model=128", "config.heads=4", "config.d_ff=512"]


def main() -> None:
    """Read the options and print one line a figure as soon as it is known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--processes", type=int, default=2, help="beside each other")
    parser.add_argument("--sentences", type=int, default=1024, help="to score over a beam of 20")
    parser.add_argument("--steps", type=int, default=60, help="of training, with batches of 4,096 positions")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for figure in figures(given.processes, given.sentences, given.steps):
            print(figure.line(), flush=True)


def figures(processes: int, sentences: int, steps: int) -> Iterator[Figure]:
    """Scoring, and training; the time of one process first."""
    _prepare(sentences)
    settings = {"processes": processes, "machine": machine("cpu")}
    scoring = {**settings, "sentences": sentences}
    alone = _seconds(lambda: _wait(_score("alone")))
    yield Figure(name="surprisal: one process", value=alone, unit="s", settings=scoring)

    def array() -> None:
        _wait(*(_score("array", "--shard", f"{i}/{processes}") for i in range(processes)))
        _wait(_start(*_PDTOOLS, "merge", "array.tsv"))

    ways = {
        "workers": lambda: _wait(_score("workers", "--workers", str(processes))),
        "array and merge": array,
    }
    with _cluster(processes) as address:
        ways["Dask"] = lambda: _wait(_score("dask", "--scheduler", address))
        for name, run in ways.items():
            taken = _seconds(run)
            yield Figure(
                name=f"surprisal: {name}",
                value=taken,
                unit="s",
                ratio=alone / taken,
                against="one process",
                settings=scoring,
            )
    made = [Path(f"{name}.tsv").read_bytes() for name in ("alone", "workers", "array", "dask")]
    assert len(set(made)) == 1, "the outputs differ"

    training = {**settings, "steps": steps}
    tokens = {
        "one process": _tokens_per_second(steps, "one", _PDTOOLS),
        "torchrun": _tokens_per_second(steps, "many", [*_TORCHRUN, str(processes), "-m", "pdtools"]),
    }
    for name, speed in tokens.items():
        yield Figure(
            name=f"train: {name}",
            value=speed,
            unit="tokens/s",
            ratio=speed / tokens["one process"],
            against="one process",
            settings=training,
        )


def _prepare(sentences: int) -> None:
    """Shards, a model after one step, and sentences."""
    _wait(_start(*_PDTOOLS, "tapes", str(data.treebank("train")), "-o", "shards", "--quiet"))
    _wait(_train(1, "model", _PDTOOLS))
    trees = read_trees([str(data.treebank("train"))], Rejects())
    lines = [" ".join(sourced.tree.words) for sourced, _ in zip(trees, range(sentences), strict=False)]
    Path("sentences.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _score(output: str, *options: str) -> subprocess.Popen[bytes]:
    return _start(
        *_PDTOOLS, "surprisal", "sentences.txt", "--model", "model", "--beam", "20", *_ONE_THREAD,
        "-o", f"{output}.tsv", *options,
    )  # fmt: skip


def _train(steps: int, output: str, how: list[str]) -> subprocess.Popen[bytes]:
    settings = [*_MODEL, f"train.steps={steps}", "train.precision=float32"]
    return _start(
        *how, "train", "shards", "-o", output, *_ONE_THREAD, *(f"--set={setting}" for setting in settings)
    )


def _tokens_per_second(steps: int, output: str, how: list[str]) -> float:
    """Tokens per second by the last line of a run's log: earlier lines contain the start."""
    _wait(_train(steps, output, how))
    return float(read_metrics(Path(output), "train")[-1]["tokens_per_second"])


@contextlib.contextmanager
def _cluster(workers: int) -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


def _start(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env=_ENVIRONMENT, stdout=subprocess.DEVNULL)


def _wait(*processes: subprocess.Popen[bytes]) -> None:
    statuses = [process.wait() for process in processes]
    if any(statuses):
        raise SystemExit(f"a command failed: status {max(statuses)}")


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
