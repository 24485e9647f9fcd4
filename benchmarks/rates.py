"""Rates that others can hold against their own: tokens a second in training, sentences a second in scoring.

    python benchmarks/rates.py                          # a small model: both dtypes, one thread and two
    python benchmarks/rates.py --sizes small gpt2-small
    python benchmarks/rates.py --device cuda            # threads do not matter there

Prints a Markdown table: a row for each figure, a column for each dtype and number of threads. A training
step is forward, backward and AdamW over 8 rows of 128 positions, in bf16 under autocast. Random sentences of
20 words are scored a batch at a time, with the weights in the dtype. Weights are random, so every hypothesis
lives as long as the beam lets it. Times are medians by the clock, the columns of a row in turn.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from grammar_models import model_of as grammar_model
from measure import DTYPES, EOS, PAD, ROOT, Options, Run, machine, seconds, treebank_batch
from train_step import TRUNK, model_of, own_loss

from pdtools.models import TransformerLM, collate
from pdtools.search import beam_search
from pdtools.search.families.word_synchronous import word_synchronous_search
from pdtools.search.options import SearchOptions
from pdtools.training.loss import autocast

SIZES: Mapping[str, Mapping[str, Any]] = {
    "small": TRUNK,
    "gpt2-small": {**TRUNK, "layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "vocab_size": 50_257},
}
ROWS, POSITIONS = 8, 128
WORDS = 20
BATCHES = {"a pass": 32, "beam 100": 4, "beam 300": 2, "100/10/5": 1}  # sentences that are timed together


def train(name: str, options: Options, trunk: Mapping[str, Any]) -> Run:
    """Return a run of a whole training step."""
    precision = "bf16" if options.dtype == torch.bfloat16 else "float32"
    model = model_of(name, Options(**{**vars(options), "dtype": torch.float32}), trunk)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    batch = treebank_batch(ROWS, POSITIONS, trunk["vocab_size"]).to(options.device)

    def run() -> None:
        torch.set_num_threads(options.threads)
        with autocast(options.device, precision):
            loss = own_loss(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run


def score(kind: str, options: Options, trunk: Mapping[str, Any]) -> Run:
    """Return a run that scores as many sentences as ``BATCHES`` says."""
    rng = np.random.default_rng(0)
    strings = [
        np.concatenate([[ROOT], rng.integers(EOS + 1, trunk["vocab_size"], WORDS), [EOS]]).astype(np.int32)
        for _ in range(BATCHES[kind])
    ]
    name = {"a pass": "transformer", "100/10/5": "tg"}.get(kind, "pushdown")
    if name == "tg":
        model: TransformerLM = grammar_model(name, "relative", options, trunk).eval()
    else:
        model = model_of(name, options, trunk).eval()
    batch = collate([(ids, np.arange(len(ids), dtype=np.int32)) for ids in strings], PAD).to(options.device)

    def run() -> None:
        torch.set_num_threads(options.threads)
        if name == "transformer":
            with torch.inference_mode():
                model.loss(batch)
        elif name == "tg":
            word_synchronous_search(model, strings, search=SearchOptions())
        else:
            beam_search(model, strings, search=SearchOptions(beam=int(kind.split()[1])))

    return run


def main() -> None:
    """Measure and print, a row at a time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES), choices=DTYPES)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--sizes", nargs="+", default=["small"], choices=SIZES)
    parser.add_argument("--repeats", type=int, default=3, help="rounds; medians are printed")
    given = parser.parse_args()
    torch.manual_seed(0)
    columns = [(dtype, threads) for dtype in given.dtypes for threads in given.threads]
    print(f"{machine(given.device)}, torch {torch.__version__}\n")
    heads = [f"{dtype}, {threads} thread{'s' * (threads > 1)}" for dtype, threads in columns]
    print("| size | what | " + " | ".join(heads) + " |")
    print("|---|---|" + "---|" * len(heads), flush=True)
    rows: list[tuple[str, str, int]] = [
        (f"training, {name}, tokens a second", name, ROWS * POSITIONS) for name in ("transformer", "pushdown")
    ]
    rows += [
        (f"scoring, {model}, {kind}, sentences a second", kind, BATCHES[kind])
        for model, kind in zip(("transformer", "pushdown", "pushdown", "tg"), BATCHES, strict=True)
    ]
    for size in given.sizes:
        for title, what, units in rows:
            runs = {}
            for dtype, threads in columns:
                options = Options(
                    device=given.device, dtype=DTYPES[dtype], threads=threads, repeats=given.repeats
                )
                make = score if what in BATCHES else train
                runs[f"{dtype} {threads}"] = make(what, options, SIZES[size])
            times = seconds(runs, options, by_clock=True)
            rates = [units / times[f"{dtype} {threads}"] for dtype, threads in columns]
            cells = [f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}" for rate in rates]
            print(f"| {size} | {title} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
