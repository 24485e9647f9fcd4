"""Growth of cost: a training step with sentence length and model size, the beam with its size and the length,
the preparation with the corpus; and the effect of threads and workers.

    python benchmarks/sweep.py [--device cuda] > sweep.jsonl
    python benchmarks/sweep.py --plot sweep.jsonl docs/notes/growth.svg

Steps are forward and backward, on the trunk and the real tapes of ``train_step.py``, with as many sentences
as make a fixed number of positions. A step's operations are its matrix products', counted as it runs;
their rate is set beside one large product's, measured in the same run. With several threads or workers
it is the clock that counts: these figures need a machine that does nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import prep_growth
import torch
from attention import D_HEAD, DEPTHS, HEADS, candidates
from measure import EOS, ROOT, Figure, Options, main, peak_memory, seconds, treebank_batch
from torch.utils.flop_counter import FlopCounterMode
from train_step import TRUNK, model_of, own_loss, step

from pdtools.models import tape_from_attachments
from pdtools.search import beam_search
from pdtools.search.options import SearchOptions

POSITIONS = 1024
LENGTHS = (16, 32, 64, 128, 256, 512)
WIDTHS = (128, 256, 512)
WIDTHS_LENGTH, WIDTHS_POSITIONS = 64, 512
MEMORY_LENGTHS = (64, 128, 256, 512)
PLAIN_MEMORY_LENGTHS = (64, 128)
BEAMS, BEAMS_WORDS = (1, 3, 10, 30, 100, 300), 20
WORDS, WORDS_BEAM = (5, 10, 20, 40), 30
THREADS, THREADS_LENGTH, THREADS_BEAM = (1, 2, 4, 8, 16), 64, 100
MODELS = ("transformer", "pushdown")


def figures(options: Options) -> Iterator[Figure]:
    """All sweeps, the short ones first."""
    yield from by_beam(options)
    yield from attention_memory(options)
    rate = product_rate(options)
    yield Figure(
        name="one large matrix product", value=rate, unit="GFLOP/s", settings={"d": 1024, **options.settings}
    )
    for n in LENGTHS:
        yield from steps("length", n, n, POSITIONS, {**TRUNK, "max_length": max(LENGTHS)}, rate, options)
    for d_model in WIDTHS:
        trunk = {**TRUNK, "d_model": d_model, "d_ff": 4 * d_model, "heads": d_model // 32}
        yield from steps("width", d_model, WIDTHS_LENGTH, WIDTHS_POSITIONS, trunk, rate, options)
    if options.device == "cpu":
        yield from by_threads(options)
        yield from prep_growth.figures(options.repeats)


def product_rate(options: Options) -> float:
    """GFLOP/s of one square matrix product."""
    a, b = (torch.randn(1024, 1024, device=options.device, dtype=options.dtype) for _ in range(2))
    return 2 * 1.024**3 / seconds({"product": lambda: a @ b}, options)["product"]


def steps(
    by: str, x: int, n: int, positions: int, trunk: dict[str, Any], rate: float, options: Options
) -> Iterator[Figure]:
    """Both models' training step on rows of n positions."""
    batch = treebank_batch(positions // n, n, trunk["vocab_size"]).to(options.device)
    models = {name: model_of(name, options, trunk) for name in MODELS}
    runs = {name: step(model, batch, own_loss) for name, model in models.items()}
    settings = {"x": x, "sentences": positions // n, "positions_per_sentence": n, **trunk, **options.settings}
    for name, time in seconds(runs, options).items():
        with FlopCounterMode(display=False) as counter:
            runs[name]()
        operations = counter.get_total_flops() / 1e9
        label = f"training step by {by}, {x}, {name}"
        yield Figure(name=label, value=1e6 * time / positions, unit="µs a position", settings=settings)
        yield Figure(
            name=f"{label}, matrix products",
            value=operations / time,
            unit="GFLOP/s",
            ratio=operations / time / rate,
            against="one large matrix product",
            settings={"gigaflop": operations, **settings},
        )
        peak = peak_memory(runs[name], options.device)
        yield Figure(name=f"{label}, memory", value=peak, unit="MiB", settings=settings)


def attention_memory(options: Options) -> Iterator[Figure]:
    """Peak memory of attention alone, forward and backward."""
    for n in MEMORY_LENGTHS:
        batch = treebank_batch(8, n, vocab_size=10).to(options.device)
        runs = candidates(tape_from_attachments(batch.attach).clamp(max=DEPTHS - 1).long(), options)
        if n not in PLAIN_MEMORY_LENGTHS:
            del runs["plain"]
        for name, run in runs.items():
            yield Figure(
                name=f"attention memory by length, {n}, {name}",
                value=peak_memory(run, options.device),
                unit="MiB",
                settings={"x": n, "sentences": 8, "heads": HEADS, "d_head": D_HEAD, **options.settings},
            )


def by_beam(options: Options) -> Iterator[Figure]:
    """Seconds a sentence, of the search with a model of random weights."""
    model = model_of("pushdown", options).eval()
    rng = np.random.default_rng(0)
    for by, pairs in (
        ("beam", [(beam, BEAMS_WORDS, beam) for beam in BEAMS]),
        ("words", [(words, words, WORDS_BEAM) for words in WORDS]),
    ):
        for x, words, beam in pairs:
            middle = rng.integers(EOS + 1, TRUNK["vocab_size"], words)
            sentence = np.concatenate([[ROOT], middle, [EOS]]).astype(np.int32)
            runs = {
                "search": lambda ids=sentence, beam=beam: beam_search(
                    model, [ids], search=SearchOptions(beam=beam)
                )
            }
            yield Figure(
                name=f"beam search by {by}, {x}",
                value=seconds(runs, options)["search"],
                unit="s",
                settings={"x": x, "words": words, "beam": beam, **TRUNK, **options.settings},
            )


def by_threads(options: Options) -> Iterator[Figure]:
    """Seconds, by the clock, of a training step and of a search."""
    batch = treebank_batch(POSITIONS // THREADS_LENGTH, THREADS_LENGTH, TRUNK["vocab_size"])
    runs = {f"step, {name}": step(model_of(name, options), batch, own_loss) for name in MODELS}
    searched = model_of("pushdown", options).eval()
    middle = np.random.default_rng(0).integers(EOS + 1, TRUNK["vocab_size"], BEAMS_WORDS)
    sentence = np.concatenate([[ROOT], middle, [EOS]]).astype(np.int32)
    runs["search"] = lambda: beam_search(searched, [sentence], search=SearchOptions(beam=THREADS_BEAM))
    alone: dict[str, float] = {}
    for number in THREADS:
        if number > (os.cpu_count() or 1):
            break
        torch.set_num_threads(number)
        times = seconds(runs, replace(options, threads=number), by_clock=True)
        alone = alone or times
        for name, time in times.items():
            yield Figure(
                name=f"by threads, {number}, {name}",
                value=time,
                unit="s",
                ratio=alone[name] / time,
                against="1 thread",
                settings={"x": number, **TRUNK, **options.settings, "threads": number},
            )
    torch.set_num_threads(options.threads)


# --- the plot ---------------------------------------------------------------------------------


class Panel(NamedTuple):
    """The figures named ``PREFIX, x`` or ``PREFIX, x, SERIES``."""

    title: str
    across: str
    down: str
    prefix: str
    series: Sequence[str | None] = (None,)


def plot(lines: Sequence[dict[str, Any]], path: str) -> None:
    """A panel for each sweep, logarithmic both ways where there is growth."""
    from pdtools.report.view.charts import curves, in_columns
    from pdtools.report.view.vega import save_chart

    panels = (
        Panel(
            "training step: time", "positions a sentence", "µs a position", "training step by length", MODELS
        ),
        Panel(
            "attention alone: peak memory",
            "positions a sentence",
            "MiB",
            "attention memory by length",
            ("no tape", "pushdown", "plain"),
        ),
        Panel("training step: time", "d_model", "µs a position", "training step by width", MODELS),
        Panel("beam search: time", "beam (20 words)", "seconds a sentence", "beam search by beam"),
        Panel("beam search: time", "words (beam 30)", "seconds a sentence", "beam search by words"),
        Panel("tapes: speed", "words of the corpus", "words a second", "tapes by corpus"),
        Panel("tapes: peak memory", "words of the corpus", "MiB", "tapes by corpus", ("memory",)),
    )
    drawn = []
    for panel in panels:
        rows = [
            {"series": name or panel.title, "x": line["settings"]["x"], "y": line["value"]}
            for name in panel.series
            for line in lines
            if line["name"].startswith(panel.prefix + ",")
            and line["name"].split(", ")[2:] == ([name] if name else [])
        ]
        is_flat = panel.prefix in ("training step by length", "tapes by corpus")  # a logarithm would hide it
        chart = curves(rows, x=panel.across, y=panel.down, log_x=True, log_y=not is_flat)
        for layer in chart["layer"] if is_flat else []:
            layer["encoding"]["y"]["scale"] = {"zero": True}
        drawn.append({**chart, "title": panel.title, "width": 300})
    save_chart(path, in_columns(drawn, 4))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--plot"]:
        source, target = sys.argv[2:]
        plot([json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()], target)
    else:
        main(__doc__, figures, repeats=3)
