"""Margins and ``--beam auto`` beside a fixed beam of 300: time, scores and outcomes of pairs and items.

    OMP_NUM_THREADS=1 python benchmarks/adaptive_beam.py --model RUN --pairs BLiMP.zip --suites sg_suites.zip

``--limit`` pairs are taken from each paradigm and items from each suite. A JSON line for each search: seconds
of the processor (one thread), the mean and the largest difference of log p(x) to the fixed beam (nats), and
how many outcomes differ.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from pdtools.evaluation.benchmark.evaluate import ItemComparison
from pdtools.evaluation.benchmark.item_set import ItemSet
from pdtools.evaluation.benchmark.outcomes import judge
from pdtools.evaluation.blimp.pairs import PairFiles, PairItems
from pdtools.evaluation.sg.suites import SuiteFiles, SuiteItems
from pdtools.models import LoadedModel, load_checkpoint
from pdtools.search import SentenceScore
from pdtools.search.adaptive_beam import Comparison, MaybeScore
from pdtools.search.model import Model, ModelSettings
from pdtools.search.options import AUTO_SEARCH, SearchOptions
from pdtools.search.scores import Asked, Beginning
from pdtools.tokenization import Sentence

WIDEST = 300
MARGINS = (14.0, 12.0, 10.0, 8.0, 6.0)

Outcome = Callable[[Sequence[MaybeScore]], Any]
"""Outcomes from the scores of a comparison's sentences."""


@dataclass(frozen=True)
class Task:
    """Comparisons, and the outcome of each from its scores."""

    name: str
    comparisons: Sequence[Comparison]
    outcomes: Sequence[Outcome]

    def decide(self, scores: Sequence[Sequence[MaybeScore]]) -> list[Any]:
        """Return the outcomes of all scores."""
        return [outcome(found) for outcome, found in zip(self.outcomes, scores, strict=True)]


def task_of(name: str, items: ItemSet, limit: int | None = None) -> Task:
    """Items, and the outcome of each first prediction.

    Args:
        limit: only the first ``limit`` items of each finest group.
    """
    comparisons, outcomes, taken = [], [], Counter[str]()
    for item in items:
        taken[group := items.named(item.levels)] += 1
        if limit is None or taken[group] <= limit:
            comparisons.append(ItemComparison.of(item, items))
            outcomes.append(partial(_outcomes, comparisons[-1]))
    return Task(name, comparisons, outcomes)


def _outcomes(comparison: ItemComparison, found: Sequence[MaybeScore]) -> list[str]:
    strings, parts = dict(comparison.strings), comparison.parts(found)
    return [judge(*each, strings, parts)[0] for each in comparison.formulas]


def lines(task: Task, loaded: LoadedModel, margins: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield the cost and the results of each way to search."""
    sentences = {_whole(asked) for comparison in task.comparisons for asked in comparison.sentences}
    in_order = sorted(sentences, key=lambda s: s if isinstance(s, str) else s.text)
    fixed: dict[Any, MaybeScore] = {}
    for margin in (None, *margins):
        start = time.process_time()
        scorer = Model.of(loaded, SearchOptions(beam=WIDEST, margin=margin))
        scores = dict(zip(in_order, scorer.score(in_order), strict=True))
        taken = time.process_time() - start
        outcomes = task.decide(
            [[scores[_whole(s)] for s in comparison.sentences] for comparison in task.comparisons]
        )
        if margin is None:
            fixed, wanted, whole = scores, outcomes, taken
        off = [abs(a.total - b.total) for a, b in _both(fixed.values(), scores.values())]
        yield {
            "task": task.name,
            "search": f"beam {WIDEST}" if margin is None else f"beam {WIDEST}, margin {margin:g}",
            "seconds": round(taken, 1),
            "times_as_fast": round(whole / taken, 2),
            "mean_off": float(np.mean(off)),
            "largest_off": max(off),
            **_differing(outcomes, wanted),
        }
    start = time.process_time()
    asked = ModelSettings(model_dir=str(loaded.folder), search=AUTO_SEARCH)
    compared = list(Model(asked, loaded).compare(task.comparisons))
    taken = time.process_time() - start
    steps = Counter(f"{c.beam}" if c.margin is None else f"{c.beam}, {c.margin:g} nats" for c in compared)
    yield {
        "task": task.name,
        "search": "auto",
        "seconds": round(taken, 1),
        "times_as_fast": round(whole / taken, 2),
        "last_steps": dict(steps),
        **_differing(task.decide([each.scores for each in compared]), wanted),
    }


def _whole(asked: Asked) -> str | Sentence:
    """The sentence that a fixed beam scores: all of it."""
    return asked.sentence if isinstance(asked, Beginning) else asked


def _both(one: Any, other: Any) -> Iterator[tuple[SentenceScore, SentenceScore]]:
    for a, b in zip(one, other, strict=True):
        if isinstance(a, SentenceScore) and isinstance(b, SentenceScore):
            yield a, b


def _differing(outcomes: Sequence[Any], wanted: Sequence[Any]) -> dict[str, int]:
    return {"outcomes": len(wanted), "differing": sum(a != b for a, b in zip(outcomes, wanted, strict=True))}


def main() -> None:
    """Read the options and print a line for each search."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", required=True, help="a checkpoint or run of a model that is searched")
    parser.add_argument("--pairs", help="as eval-blimp takes them")
    parser.add_argument("--suites", help="as eval-sg takes them")
    parser.add_argument("--limit", type=int, default=2, help="pairs of a paradigm, items of a suite")
    parser.add_argument("--no-margins", action="store_true", help="only the fixed beam and auto")
    given = parser.parse_args()
    torch.set_num_threads(1)
    loaded = load_checkpoint(given.model, "cpu")
    tasks = [task_of("BLiMP", PairItems(PairFiles(given.pairs, given.limit)))] if given.pairs else []
    if given.suites:
        items = SuiteItems(SuiteFiles(given.suites)).written(loaded.tokenizer.text_style)
        tasks.append(task_of("SG", items, given.limit))
    for task in tasks:
        for line in lines(task, loaded, () if given.no_margins else MARGINS):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
