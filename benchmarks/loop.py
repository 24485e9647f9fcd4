"""The parts of a training run's time: padding, waiting for batches, and time outside of tensor operations.

    python benchmarks/loop.py [--device cuda --dtype bf16]

Whole runs of ``pdtools.training.train`` on the bundled treebank, the optimizer's update included. *Padding*
is a share of the positions, *waiting for batches* of the time of all steps, the slow first ones included.
*Outside of kernels* is the share of some steps in the middle in which no operation of torch runs (on a GPU:
neither a kernel nor a copy), as torch's profiler saw them; recording costs time itself, most of it between
operations, so that it is at most so much.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from measure import Figure, Options, main

from pdtools import data
from pdtools.files import Rejects
from pdtools.shards import ShardSettings, TokenizerSettings, shards_from_files
from pdtools.training import Recipe, TrainConfig, train
from pdtools.training.loop import NullListener

MODELS = ("transformer", "pushdown")
CPU_MODEL = {"layers": 6, "d_model": 256, "heads": 8, "d_ff": 1024}
GPU_MODEL = {"layers": 16, "d_model": 1024, "heads": 16, "d_ff": 4096}
# Steps of a run, and the profiled ones among them.
STEPS, FIRST, LAST = 14, 4, 12


class Watch(NullListener):
    """Profiles some steps of a run."""

    def __init__(self, device: str) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU]
        if device.startswith("cuda"):
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self.on_gpu = len(activities) > 1
        self.profiler = torch.profiler.profile(activities=activities)
        self.padding = self.seconds = 0.0

    def started(self, state: Any, facts: Mapping[str, Any]) -> None:
        """Note the share of padding, which is among the facts."""
        self.padding = float(facts["padding"])

    def stepped(self, step: int) -> None:
        """Begin or end to record."""
        if self.on_gpu and step in (FIRST, LAST):
            torch.cuda.synchronize()
        if step == FIRST:
            self.profiler.start()
            self.seconds = -time.perf_counter()
        if step == LAST:
            self.seconds += time.perf_counter()
            self.profiler.stop()

    @property
    def outside_of_kernels(self) -> float:
        """The share of the time in which no operation ran."""
        spans = [
            (event.time_range.start, event.time_range.end)
            for event in self.profiler.events()
            if (is_on_gpu(event) if self.on_gpu else event.name.startswith("aten::"))
        ]
        return 1 - covered(spans) / 1e6 / self.seconds


def is_on_gpu(event: Any) -> bool:
    """Return whether a recorded event is a kernel or a copy: no operation that started one, no named span."""
    return bool(event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation)


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The time covered by at least one of the spans: operations nest, streams of a GPU overlap."""
    total, end = 0.0, -math.inf
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def figures(options: Options) -> Iterator[Figure]:
    """A run of each model."""
    is_gpu = options.device.startswith("cuda")
    sizes = GPU_MODEL if is_gpu else CPU_MODEL
    batch_tokens = 16_384 if is_gpu else 1024
    with tempfile.TemporaryDirectory() as name:
        shards = Path(name, "shards")
        files = [str(data.treebank("train"))]
        shards_from_files(files, TokenizerSettings(kind="word"), ShardSettings(), shards, Rejects())
        for model in MODELS:
            config = TrainConfig(
                steps=STEPS,
                batch_tokens=batch_tokens,
                precision="bf16" if options.dtype == torch.bfloat16 else "float32",
                eval_every=STEPS,
                log_every=STEPS // 2,
            )
            watch = Watch(options.device)
            run = Path(name, model)
            report = train(
                shards,
                run,
                Recipe(model=model, options=sizes, train=config),
                device=options.device,
                listener=watch,
            )
            spent = report["time"]
            shares = {
                "padding": watch.padding,
                "waiting for batches": spent["loading"] / spent["steps"],
                "outside of kernels, at most": watch.outside_of_kernels,
            }
            steps = {"steps": STEPS, "recorded_steps": LAST - FIRST}
            settings = {**sizes, "batch_tokens": batch_tokens, **steps, **options.settings}
            for what, share in shares.items():
                yield Figure(name=f"loop: {model}, {what}", value=100 * share, unit="%", settings=settings)


if __name__ == "__main__":
    main(__doc__, figures, repeats=1)
