"""How much of log p(x) a beam misses: the same sentences by wider and wider beams, and by particles.

python marginal.py --model RUN --shards FOLDER [--base RUN] [--sentences N] -o FILE.json
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.files import write_json
from pdtools.models import LoadedModel, load_checkpoint
from pdtools.models.grammar.model import GrammarLM
from pdtools.provenance import provenance
from pdtools.search.families.actions import inside_words
from pdtools.search.families.attachment_beam import BeamResult, beam_search
from pdtools.search.families.word_synchronous import ActionResult, word_synchronous_search
from pdtools.search.kinds import particle_search
from pdtools.search.model import Model
from pdtools.search.options import NO_SEARCH, Particles, SearchOptions
from pdtools.search.scores import GivenRow
from pdtools.shards import ShardSet

BEAMS = (1, 3, 10, 30, 100, 300, 1000)
PARTICLES = (10, 30, 100, 300, 1000, 3000)


def sampled(shards: ShardSet, loaded: LoadedModel, number: int, seed: int) -> list[GivenRow]:
    """Rows of shards, always the same ones, that the model has room for."""
    room = loaded.model.max_length or math.inf
    fit = np.flatnonzero(loaded.model.row_lengths(shards) <= room)
    chosen = np.random.default_rng(seed).choice(fit, min(number, len(fit)), replace=False)
    return [
        GivenRow(shards.tokens(i), loaded.model.derivation_of(shards, i), shards.word(i))
        for i in sorted(chosen.tolist())
    ]


def by_beam(loaded: LoadedModel, rows: Sequence[GivenRow], beam: int) -> Sequence[BeamResult | ActionResult]:
    """What a beam finds: of action models a tenth of it for words, and a twentieth for the fast track."""
    ids = [row.tokens for row in rows]
    if not isinstance(loaded.model, GrammarLM):
        return beam_search(loaded.model, ids, search=SearchOptions(beam=beam))
    inside = [inside_words(row.word) for row in rows]
    return word_synchronous_search(loaded.model, ids, search=SearchOptions(beam=beam), inside_words=inside)


def lines(
    loaded: LoadedModel,
    rows: Sequence[GivenRow],
    beams: Sequence[int],
    particles: Sequence[int],
    seeds: int,
) -> Iterator[dict[str, Any]]:
    """What each search gives: perplexity per token, what it is estimated to have dropped, seconds."""
    ids = [row.tokens for row in rows]
    n_tokens = sum(len(tokens) - 1 for tokens in ids)

    def perplexity(logs: NDArray[np.float64]) -> float:
        return math.exp(-float(logs.sum()) / n_tokens)

    for beam in beams:
        start = time.process_time()
        found = by_beam(loaded, rows, beam)
        kept = [each.log_share_kept for each in found]
        yield {
            "search": "beam",
            "number": beam,
            "ppl_token": perplexity(np.array([each.marginal for each in found])),
            "without": sum(each.marginal == -math.inf for each in found),  # sentences, of action models
            "nats_dropped_per_token": -sum(kept) / n_tokens,
            "mean_share_dropped": float(np.mean([each.dropped for each in found])),
            "seconds": round(time.process_time() - start, 1),
        }
    inside = [inside_words(row.word) for row in rows]
    for number in particles:
        start = time.process_time()
        logs = np.array(  # (seeds, sentences)
            [
                [
                    each.marginal
                    for each in particle_search(
                        loaded.model, ids, Particles(number=number, seed=seed), inside=inside
                    )
                ]
                for seed in range(seeds)
            ]
        )
        yield {
            "search": "particles",
            "number": number,
            "ppl_token": [perplexity(each) for each in logs],
            "ppl_token_mean_over_seeds": perplexity(np.logaddexp.reduce(logs) - math.log(seeds)),
            "without": int((logs == -np.inf).any(0).sum()),
            "half_variance_per_token": float(logs.var(0, ddof=1).sum()) / 2 / n_tokens if seeds > 1 else None,
            "seconds": round((time.process_time() - start) / seeds, 1),
        }


def main() -> None:
    """Read the options, print a line for each search, write them all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", required=True, help="a checkpoint or run of a model that is searched")
    parser.add_argument("--shards", required=True, help="sentences, made with its tokenizer")
    parser.add_argument("--base", help="a language model with the same tokenizer, whose log p(x) is exact")
    parser.add_argument("--sentences", type=int, default=120)
    parser.add_argument("--beams", type=int, nargs="*", default=BEAMS)
    parser.add_argument("--particles", type=int, nargs="*", default=PARTICLES)
    parser.add_argument("--seeds", type=int, default=3, help="of particles")
    parser.add_argument("-o", "--output", required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    loaded, shards = load_checkpoint(given.model, "cpu"), ShardSet.open(given.shards)
    rows = sampled(shards, loaded, given.sentences, 0)
    n_tokens = sum(len(row.tokens) - 1 for row in rows)
    known = Model.of(loaded, NO_SEARCH).score_rows(rows)
    scores: dict[str, Any] = {
        "ppl_token_given_trees": math.exp(-sum(row.given_tree for row in known) / n_tokens),
        "ppl_token_joint": math.exp(-sum(row.joint or 0.0 for row in known) / n_tokens),
    }
    if given.base is not None:
        base = load_checkpoint(given.base, "cpu")
        plain = [row._replace(derivation=base.model.no_derivation(row.tokens)) for row in rows]
        exact = Model.of(base, NO_SEARCH).score_rows(plain)
        scores["ppl_token_base"] = math.exp(-sum(row.given_tree for row in exact) / n_tokens)
    scores["searches"] = []
    for line in lines(loaded, rows, given.beams, given.particles, given.seeds):
        print(line, flush=True)
        scores["searches"].append(line)
    inputs = {"model": given.model, "shards": given.shards, **({"base": given.base} if given.base else {})}
    result = {
        "scores": scores,
        "counts": {"sentences": len(rows), "tokens": n_tokens},
        "settings": {"sentences": given.sentences, "seeds": given.seeds},
        "provenance": provenance(inputs),
    }
    write_json(Path(given.output), result)


if __name__ == "__main__":
    main()
