"""Time and memory, measured alike by every benchmark; the JSON lines they print; and the input they share.

A line holds the figure's ``name``, ``value`` and ``unit``, its ``ratio`` to the figure named by ``against``
(null without one), the highest ratio that is accepted (``bar``, null if none; the lowest if ``at_least``),
and ``settings``. Times are medians of interleaved runs: each round runs every candidate once, so that other
work of the machine disturbs all of them alike; on one thread of a CPU it is the processor's time that is
counted. Memory is the largest number of bytes that tensors held at once during the run, beyond those that
were there before it: on CUDA as its allocator counts them, on a CPU summed from the allocations that torch's
profiler records (scratch memory inside kernels is in neither).
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools import data
from pdtools.files import Rejects
from pdtools.models import Batch, collate
from pdtools.trees import attachments, normalize, read_trees, sentence_layout

Run = Callable[[], Any]
PAD, ROOT, EOS = 0, 1, 2
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number; see the module's description."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    against: str | None = None
    bar: float | None = None
    at_least: bool = False
    settings: Mapping[str, Any]

    def line(self) -> str:
        """The figure as JSON."""
        return json.dumps({key: _rounded(value) for key, value in vars(self).items()}, ensure_ascii=False)


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every benchmark of the models."""

    device: str
    dtype: torch.dtype
    threads: int
    repeats: int

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a figure besides its own."""
        return {
            "machine": machine(self.device),
            "threads": self.threads,
            "torch": torch.__version__,
            "dtype": str(self.dtype).removeprefix("torch."),
            "repeats": self.repeats,
        }


def machine(device: str) -> str:
    """The name of the processor that the figures were taken on."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def main(description: str | None, figures: Callable[[Options], Iterator[Figure]], *, repeats: int) -> None:
    """Read the options and print one line a figure as soon as it is known."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dtype", default="float32", choices=DTYPES, help="of the weights")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--repeats", type=int, default=repeats, help="rounds; medians are printed")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    options = Options(
        device=given.device,
        dtype=DTYPES[given.dtype],
        threads=given.threads,
        repeats=given.repeats,
    )
    for figure in figures(options):
        print(figure.line(), flush=True)


def seconds(
    runs: Mapping[str, Run], options: Options, *, warm_up: bool = True, by_clock: bool = False
) -> dict[str, float]:
    """Median seconds of each run; all of them once in every round, after one that is not counted."""
    is_one_thread = options.threads == 1 and not options.device.startswith("cuda") and not by_clock
    clock = time.process_time if is_one_thread else time.perf_counter
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(not warm_up, options.repeats + 1):
        for name, run in runs.items():
            _wait(options.device)
            start = clock()
            run()
            _wait(options.device)
            if round_:
                taken[name].append(clock() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def peak_memory(run: Run, device: str) -> float:
    """Measure the peak MiB of tensors during a run, beyond those from before."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as record:
        run()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        record.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    changes = [(event["ts"], event["args"]["Bytes"]) for event in events if event["name"] == "[memory]"]
    held = np.cumsum([change for _, change in sorted(changes, key=lambda change: change[0])])
    return float(held.max()) / 2**20


# --- input ------------------------------------------------------------------------------------


def treebank_attachments() -> list[NDArray[np.int32]]:
    """Word-level attachments of the bundled treebank's test sentences, in order."""
    trees = (normalize(sourced.tree) for sourced in read_trees([str(data.treebank("test"))], Rejects()))
    return [attachments(tree) for tree in trees if tree is not None]


def treebank_batch(sentences: int, positions: int, vocab_size: int) -> Batch:
    """Rows of real attachments and random tokens, without padding.

    A row is as many of the treebank's sentences as fill it, side by side on the stack until the end of the
    row, which cuts the last one short; ROOT and end-of-sentence are among its positions.
    """
    rng = np.random.default_rng(0)
    words = positions - 2
    rows = []
    source = itertools.cycle(treebank_attachments())
    for _ in range(sentences):
        row = np.zeros(0, np.int32)
        while len(row) < words:
            row = np.concatenate([row, next(source) + len(row)])
        tokens = np.concatenate([[ROOT], rng.integers(EOS + 1, vocab_size, words), [EOS]])
        rows.append((tokens, sentence_layout(row[:words].astype(np.int32))))
    return collate(rows, PAD)
