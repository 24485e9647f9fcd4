"""The marginal of a sentence by beam search beside scoring as many given derivations in one batch.

    python benchmarks/beam.py [--device cuda]

The given derivations are the ones that the beam ends with; their batch is teacher-forced, as in training. On
a CPU the search is made by torch's operations too, as on machines without a C compiler.

Models whose first layers know no tape follow, with these layers computed for each hypothesis beside once for
each prefix, as in pdtools; and the model with a tape in all layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unittest import mock

import numpy as np
import torch
from measure import EOS, PAD, ROOT, Figure, Options, main, peak_memory, seconds
from numpy.typing import NDArray
from train_step import TRUNK, model_of

from pdtools.models import Batch, TransformerLM, collate
from pdtools.models.kernels import decoding
from pdtools.search import beam_search
from pdtools.search.options import SearchOptions

WORDS, SENTENCES = 20, 3
AGAINST = {"beam search": "given derivations", "beam search by torch": "beam search"}
LATE_BEAM, LATE_BAR = 100, 0.8
TIME_BARS: dict[int, float | None] = {10: None, 100: None, 300: 0.9}


def figures(options: Options) -> Iterator[Figure]:
    """Time and memory by beam; times are per sentence."""
    rng = np.random.default_rng(0)
    sentences = [
        np.concatenate([[ROOT], rng.integers(EOS + 1, TRUNK["vocab_size"], WORDS), [EOS]]).astype(np.int32)
        for _ in range(SENTENCES)
    ]
    yield from by_beam(options, sentences)
    yield from by_layers(options, sentences)


def by_layers(options: Options, sentences: Sequence[NDArray[np.int32]]) -> Iterator[Figure]:
    """Time by which layers have tapes, and what the attachment head reads."""
    all_layers = model_of("pushdown", options).eval()
    late, prefix = (
        model_of("pushdown", options, {**TRUNK, "pushdown_layers": "last 1", "head_reads": reads}).eval()
        for reads in ("embedding", "prefix")
    )

    def search(model: TransformerLM) -> None:
        beam_search(model, sentences, search=SearchOptions(beam=LATE_BEAM))

    def search_each() -> None:
        with mock.patch.object(late, "plain_layers", 0):
            search(late)

    runs = {
        "all layers": lambda: search(all_layers),
        "last 1, each hypothesis": search_each,
        "last 1": lambda: search(late),
        "last 1, head_reads prefix": lambda: search(prefix),
    }
    times = {name: time / SENTENCES for name, time in seconds(runs, options).items()}
    against = dict.fromkeys(("last 1, each hypothesis", "last 1, head_reads prefix"), "all layers")
    against["last 1"] = "last 1, each hypothesis"
    for name, value in times.items():
        yield Figure(
            name=f"tapes in {name}, beam {LATE_BEAM}, time",
            value=value,
            unit="s",
            ratio=value / times[against[name]] if name in against else None,
            against=against.get(name),
            bar=LATE_BAR if name == "last 1" else None,
            settings={"words": WORDS, "sentences": SENTENCES, "beam": LATE_BEAM, **TRUNK, **options.settings},
        )


def by_beam(options: Options, sentences: Sequence[NDArray[np.int32]]) -> Iterator[Figure]:
    """Time and memory of the model with a tape in all layers."""
    model = model_of("pushdown", options).eval()
    for beam, bar in TIME_BARS.items():
        batches = [given_derivations(model, ids, beam).to(options.device) for ids in sentences]

        def search(beam: int = beam) -> None:
            beam_search(model, sentences, search=SearchOptions(beam=beam))

        def score(batches: list[Batch] = batches) -> None:
            with torch.inference_mode():
                for batch in batches:
                    model.forward_parts(batch)

        def search_by_torch(beam: int = beam) -> None:
            with mock.patch.object(decoding, "_works", return_value=False):
                beam_search(model, sentences, search=SearchOptions(beam=beam))

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
    (found,) = beam_search(model, [ids], search=SearchOptions(beam=beam), k_best=beam)
    assert len(found.derivations) == beam
    return collate([(ids, attach) for _, attach in found.derivations], PAD)


if __name__ == "__main__":
    main(__doc__, figures, repeats=3)
