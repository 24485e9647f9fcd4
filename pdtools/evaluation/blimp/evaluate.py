"""Evaluation on BLiMP: is a pair's acceptable sentence the more probable one (Warstadt et al. 2020)?

Pairs are items of the benchmark ``blimp`` (:mod:`pdtools.evaluation.benchmark`), with results of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pdtools.evaluation.benchmark.evaluate import judge_all
from pdtools.evaluation.benchmark.from_toml import read_benchmark
from pdtools.evaluation.benchmark.items import Item, Items, String
from pdtools.evaluation.benchmark.outcomes import (
    JudgedItems,
    Part,
    Parts,
    is_right,
    scores_of,
    surprisals_type,
)
from pdtools.evaluation.blimp.pairs import Pair, PairFiles, Pairs
from pdtools.evaluation.results import ITEMS, Progress, Results, mean, no_progress
from pdtools.search.adaptive_beam import Width

if TYPE_CHECKING:
    import pyarrow as pa

    from pdtools.search.adaptive_beam import Compared
    from pdtools.search.model import Model

_SIDES = ("good", "bad")
MAIN, PER_TOKEN = "main", "per_token"  # the predictions


def evaluate_blimp(
    pairs: Pairs, scorer: Model, progress: Progress = no_progress, *, in_order: bool = False
) -> Results:
    """Score minimal pairs with a model, as :func:`pdtools.evaluation.benchmark.evaluate.judge_all` does.

    Args:
        pairs: read three times.
        scorer: any scorer; it is handed the sentences as they are. A comparer (``--beam auto``) scores each
            pair by itself, as far as its outcome needs it.
        progress: wraps the iterator over sentence scores; for a comparer, over pairs.
        in_order: ask the scorer for the sentences in the order of
            :func:`pdtools.evaluation.blimp_sentences`, repeated ones again
            (:class:`pdtools.evaluation.ExternalScorer`).

    Returns:
        Accuracies over the scored pairs, as fractions of 1; None if no pair has a score. ``overall``: the
        unweighted mean of the paradigms (with paradigms of one size, as in BLiMP, and every pair scored it is
        the mean over the pairs too, which is ``mean_of_items``); ``by_paradigm``; ``by_phenomenon`` and
        ``by_field``: means of their paradigms; ``overall_per_token``: as ``overall``, deciding by the mean
        log-probability of a token instead of the total; ``margin_bits``: the same means of log p(good) −
        log p(bad), in bits, without ``--beam auto``. An ``items`` table has a row for each pair.
        Sentences are counted once in each block of pairs.
    """
    return judge_all(_JudgedPairs(PairItems(pairs)), scorer, progress, in_order=in_order)


@dataclass(frozen=True, slots=True)
class _PairItem(Item):
    """A pair as an item."""

    pair: Pair | None = None


class PairItems(Items):
    """Pairs as the items of a benchmark; they need no files in its form."""

    def __init__(self, pairs: Pairs) -> None:
        self.benchmark = read_benchmark("blimp")
        self.limit = pairs.limit if isinstance(pairs, PairFiles) else None
        self.nested, self.crossing = True, ()  # by the names of paradigms alone
        self._pairs = pairs
        self._levels: dict[str, tuple[str | None, ...]] = {}  # a paradigm's groups are its first pair's

    def __iter__(self) -> Iterator[Item]:
        """The pairs in order."""
        for number, pair in enumerate(self._pairs, start=1):
            levels = self._levels.setdefault(pair.paradigm, (pair.field, pair.phenomenon, pair.paradigm))
            strings = {"good": String(pair.good), "bad": String(pair.bad)}
            yield _PairItem(number=number, file="", strings=strings, levels=levels, pair=pair)

    def named(self, levels: Sequence[str | None]) -> str:
        """The name of a paradigm."""
        return levels[-1] or ""


class _JudgedPairs(JudgedItems):
    """Judged pairs: counted by paradigm, and put into a table, one row per pair.

    Columns:
        paradigm, phenomenon, field, pair: identify the pair; the groups of a paradigm are its first pair's.
        sentence_good, sentence_bad: the sentences.
        text_good, text_bad: the sentences as the model read them.
        logprob_good, logprob_bad: log p, nats.
        tokens_good, tokens_bad: numbers of tokens.
        dropped_good, dropped_bad: the share of p(x) that the search is estimated to have lost.
        beam, margin: with ``--beam auto``: the values at which the pair was decided.
        outcome, correct: right, wrong, tie or unscorable; whether it is right.
        margin_bits: log p(good) − log p(bad), in bits; null with ``--beam auto``.
        surprisals_good, surprisals_bad: the tokens of the text: ``token``, ``start``, ``end`` (characters)
            and ``surprisal`` (nats, float32), with end-of-sentence last if it counts; they add up to -log p.
        reason: the reason why there is no outcome.
    """

    def __init__(self, items: Items) -> None:
        super().__init__(items)
        self.margins: dict[tuple[str | None, ...], list[float]] = {}  # by levels

    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        texts = ("paradigm", "phenomenon", "field", "pair", "sentence_good", "sentence_bad")
        of_sentence = {
            "text": pa.string(),
            "logprob": pa.float64(),
            "tokens": pa.int32(),
            "dropped": pa.float64(),
        }
        return pa.schema(
            {
                **dict.fromkeys(texts, pa.string()),
                **{f"{name}_{side}": kind for name, kind in of_sentence.items() for side in _SIDES},
                **Width.types(),
                "outcome": pa.string(),
                "correct": pa.bool_(),
                "margin_bits": pa.float64(),
                **{f"surprisals_{side}": surprisals_type() for side in _SIDES},
                "reason": pa.string(),
            }
        )

    def _rows(self, item: Item, parts: Parts, searched: Compared | None) -> Iterator[tuple[Any, ...]]:
        assert isinstance(item, _PairItem)
        assert item.pair is not None
        pair = item.pair
        judged = {name: (outcome, reason) for name, outcome, reason, _ in self.judged(item, parts)}
        for name, (outcome, _) in judged.items():
            self.tally(name, item, outcome)
        outcome, reason = judged[MAIN]
        both = [part for side in _SIDES if isinstance(part := parts[side], Part)]
        # A pair without an outcome gets no values.
        known: list[Part | None] = [*both] if len(both) == len(_SIDES) else [None, None]
        margin = None
        if len(both) == len(_SIDES) and searched is None:
            margin = (both[0].logprob - both[1].logprob) / math.log(2)
            self.margins.setdefault(item.levels, []).append(margin)
        field, phenomenon, paradigm = item.levels
        yield (
            *(paradigm, phenomenon, field, pair.number, pair.good, pair.bad),
            *(
                None if part is None else getattr(part, name)
                for name in ("text", "logprob", "tokens", "dropped")
                for part in known
            ),
            *Width.of(searched),
            *(outcome, is_right(outcome), margin),
            *(None if part is None else part.surprisals for part in known),
            reason,
        )

    def _margin_scores(self) -> dict[str, Any]:
        """Means of margins: of the paradigms, by paradigm, and by their groups; empty if none is known."""
        if not self.margins:
            return {}
        names = (*self.items.levels, self.items.unit)
        means: dict[str, dict[str, list[float]]] = {name: {} for name in names}
        of_paradigms = []
        for levels, margins in sorted(self.margins.items(), key=lambda each: each[0][-1] or ""):
            of_paradigms.append(math.fsum(margins) / len(margins))
            for name, group in zip(self.items.benchmark.levels, levels, strict=True):
                if group is not None and name in means:
                    means[name].setdefault(group, []).append(of_paradigms[-1])
        by_level = {
            f"by_{name}": {group: mean(means[name][group]) for group in sorted(means[name])} for name in names
        }
        return {"margin_bits": {"overall": mean(of_paradigms), **by_level}}

    def results(self, scorer: dict[str, Any]) -> Results:
        """The results of all pairs."""
        found = scores_of(self.tallies, self.items)
        levels = {f"by_{level}": found[f"by_{level}"] for level in (*self.items.levels, self.items.unit)}
        by_paradigm = dict(sorted((key[-1] or "", tally) for key, tally in self.tallies[MAIN].items()))
        pairs, scored, ties = (
            sum(getattr(each, name) for each in by_paradigm.values()) for name in ("items", "scored", "ties")
        )
        return Results(
            scores={
                "overall": found["overall"],
                "mean_of_items": found["mean_of_items"],
                "overall_per_token": found["by_prediction"][PER_TOKEN],
                **levels,
                **self._margin_scores(),
            },
            counts={
                "paradigms": len(by_paradigm),
                "pairs": pairs,
                "pairs_scored": scored,
                "pairs_unscorable": pairs - scored,
                "ties": ties,
                "sentences": self.strings,
                "by_paradigm": {
                    name: {"pairs": tally.items, "scored": tally.scored, "ties": tally.ties}
                    for name, tally in by_paradigm.items()
                },
                "sentences_with_unknown_words": self.with_unknown,
                **self.dropped.as_count("dropped"),
            },
            settings={
                "task": "blimp",
                "unit": "fraction of 1",
                "log_base": "nats",
                "decision": "total log-probability of the good sentence strictly greater; a tie is not right",
                "per_token": "overall_per_token decides by the mean log-probability of a token instead",
                "text": "sentences as in the data, written in the model's text style; "
                "final period and capitals kept",
                "limit": self.items.limit,
                "scorer": scorer,
            },
            tables={ITEMS: self.table},
        )
