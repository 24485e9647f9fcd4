"""The marginal of a sentence by beam search beside scoring as many given derivations in one batch.

    python benchmarks/beam.py [--device cuda]

The given derivations are the ones that the beam ends with; their batch is teacher-forced, as in training. On
a CPU the search is made by torch's operations too, as where there is no C compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import numpy as np
import torch
from measure import EOS, PAD, ROOT, Figure, Options, main, peak_memory, seconds
from numpy.typing import NDArray
from train_step import TRUNK, model_of

from pdtools.models import Batch, TransformerLM, collate
from pdtools.models.kernels import decoding
from pdtools.search import beam_search

WORDS, SENTENCES = 20, 3
AGAINST = {"beam search": "given derivations", "beam search by torch": "beam search"}
TIME_BARS: dict[int, float | None] = {10: None, 100: None, 300: 0.9}


def figures(options: Options) -> Iterator[Figure]:
    """Time and memory by beam; times are per sentence."""
    model = model_of("pushdown", options).eval()
    rng = np.random.default_rng(0)
    sentences = [
        np.concatenate([[ROOT], rng.integers(EOS + 1, TRUNK["vocab_size"], WORDS), [EOS]]).astype(np.int32)
        for _ in range(SENTENCES)
    ]
    for beam, bar in TIME_BARS.items():
        batches = [given_derivations(model, ids, beam).to(options.device) for ids in sentences]

        def search(beam: int = beam) -> None:
            beam_search(model, sentences, beam=beam)

        def score(batches: list[Batch] = batches) -> None:
            with torch.inference_mode():
                for batch in batches:
                    model.forward_parts(batch)

        def search_by_torch(beam: int = beam) -> None:
            with mock.patch.object(decoding, "_works", return_value=False):
                beam_search(model, sentences, beam=beam)

        runs = {"given derivations": score, "beam search": search}
        if options.device == "cpu" and options.dtype == torch.float32:
            runs["beam search by torch"] = search_by_torch
        settings = {"words": WORDS, "sentences": SENTENCES, "beam": beam, **TRUNK, **options.settings}
        times = {name: time / SENTENCES for name, time in seconds(runs, options).items()}
        memory = {name: peak_memory(run, options.device) for name, run in runs.items()}
        for what, values, unit, most in (("time", times, "s", bar), ("peak memory", memory, "MiB", None)):
            for name, value in values.items():
                against = AGAINST.get(name)
                yield Figure(
                    name=f"marginal, beam {beam}, {what}, {name}",
                    value=value,
                    unit=unit,
                    ratio=value / values[against] if against else None,
                    against=against,
                    bar=most if name == "beam search" else None,
                    settings=settings,
                )


def given_derivations(model: TransformerLM, ids: NDArray[np.int32], beam: int) -> Batch:
    """The sentence once for each derivation that the beam ends with."""
    (found,) = beam_search(model, [ids], beam=beam, k_best=beam)
    assert len(found.derivations) == beam
    return collate([(ids, attach) for _, attach in found.derivations], PAD)


if __name__ == "__main__":
    main(__doc__, figures, repeats=3)
