"""Margins of the word-synchronous search: time and log p(x) of a trained action model.

    OMP_NUM_THREADS=1 python benchmarks/action_margins.py RUN SHARDS

A JSON line for each search of ``--limit`` sentences of 5 to 14 tokens: seconds of the processor (one thread)
and the number of actions read, both per sentence, log p(x) less the default beam's without a margin, in
nats, the mean and the least, and the share of sentences that lose at most 0.1 nats.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch

from pdtools.models import load_checkpoint
from pdtools.models.grammar.model import GrammarLM
from pdtools.search.families.word_synchronous import word_synchronous_search
from pdtools.search.options import SearchOptions
from pdtools.shards import ShardSet

SHORTEST, LONGEST = 5, 14
SEARCHES = ((100, None), (100, 12.0), (100, 8.0), (100, 5.0), (100, 3.0), (50, None), (300, 5.0))


def main() -> None:
    """Read the options and print a line for each search."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", help="a checkpoint or run of an action model")
    parser.add_argument("shards", help="shards of sentences")
    parser.add_argument("--limit", type=int, default=20, help="sentences")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = load_checkpoint(given.model, "cpu").model
    assert isinstance(model, GrammarLM)
    shards = ShardSet.open(given.shards)
    fit = [i for i in range(len(shards)) if SHORTEST <= shards.lengths[i] - 2 <= LONGEST]
    sentences = [shards.tokens(i) for i in np.random.default_rng(1).permutation(fit)[: given.limit]]
    default = None
    for actions, margin in SEARCHES:
        start = time.process_time()
        found = word_synchronous_search(model, sentences, search=SearchOptions(beam=actions, margin=margin))
        taken = (time.process_time() - start) / len(sentences)
        marginals = np.array([each.marginal for each in found])
        default = marginals if default is None else default
        line = {
            "beam": actions,
            "margin": margin,
            "seconds": round(taken, 3),
            "actions": round(found[0].expanded / len(sentences)),
            "gain": round(float((marginals - default).mean()), 3),
            "least_gain": round(float((marginals - default).min()), 3),
            "within": round(float((marginals - default >= -0.1).mean()), 3),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
