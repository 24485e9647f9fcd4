"""Syntactic generalization: do surprisals satisfy the predictions of test suites (Hu et al. 2020)?"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from pdtools.errors import PdtoolsError
from pdtools.evaluation.results import ITEMS, Batches, MeanAndMax, Progress, Results, no_progress
from pdtools.evaluation.sg.scores import ItemResult, sg_scores
from pdtools.evaluation.sg.suites import Condition, Item, Suite, Suites, sentences
from pdtools.search.adaptive_beam import Compared, Width
from pdtools.search.options import AUTO
from pdtools.search.scores import Beginning, Unscorable

if TYPE_CHECKING:
    import pyarrow as pa

    from pdtools.evaluation.sg.formula import Formula
    from pdtools.search.adaptive_beam import MaybeScore
    from pdtools.search.model import Model
    from pdtools.search.scores import SentenceScore
    from pdtools.tokenization import Sentence


# Number of sentences of suites that are sorted together, with their surprisals in memory.
BLOCK = 4096
_NOT_NEEDED = "no prediction needs it: not searched by --beam auto"


@dataclass(frozen=True, kw_only=True, slots=True)
class Presented:
    """A sentence as a model reads it, and the spans of its regions there.

    Attributes:
        needed: number of regions, from the first, that are needed; None: all, and end-of-sentence.
    """

    sentence: Sentence
    spans: tuple[tuple[int, int], ...]
    needed: int | None = None

    @property
    def asked(self) -> Sentence | Beginning:
        """The sentence, or its beginning, to be scored."""
        if self.needed is None:
            return self.sentence
        rest = (start for start, end in self.spans[self.needed :] if end > start)
        return Beginning(self.sentence, next(rest, len(self.sentence.text)))


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionSurprisals:
    """Surprisals of one sentence, in bits.

    Attributes:
        regions: the sum over the tokens of each region; an empty region has 0, one that is not needed None.
        eos: the surprisal of end-of-sentence, which belongs to no region; None if it is not counted.
        tokens: number of tokens in each region.
        dropped: see :class:`pdtools.search.SentenceScore`.
    """

    regions: tuple[float | None, ...]
    eos: float | None
    tokens: tuple[int, ...]
    dropped: float | None = None

    @property
    def total(self) -> float:
        """The surprisal of the whole sentence: regions and end-of-sentence."""
        return math.fsum(value or 0.0 for value in (*self.regions, self.eos))


def present(condition: Condition, text_style: str | None) -> Presented:
    """Write a sentence in a model's text style. Suites are spaced as treebanks are.

    Args:
        text_style: ``ptb``, ``raw``, or None for a model that reads the text as it is.
    """
    from pdtools.tokenization import join_words, split_spaces, split_words

    if text_style != "raw":
        text = condition.text
        sentence = split_words(text, "ptb") if text_style == "ptb" else split_spaces(text)
        return Presented(sentence=sentence, spans=condition.spans)
    sentence = join_words(split_spaces(condition.text).words, "raw")
    spans, word = [], 0
    for region in condition.regions:
        first, word = word, word + len(region.split(" ")) if region else word
        empty_at = sentence.ends[word - 1] if word else 0
        spans.append((sentence.starts[first], sentence.ends[word - 1]) if region else (empty_at, empty_at))
    return Presented(sentence=sentence, spans=tuple(spans))


def present_needed(item: Item, formulas: Iterable[Formula], text_style: str | None) -> list[Presented]:
    """The sentences of an item, see :func:`present`, with the regions that formulas need."""
    regions = [region for formula in formulas for region in formula.regions]
    found = []
    for condition in item.conditions:
        numbers = {number for number, name in regions if name == condition.name}
        places = [i for i, n in enumerate(condition.numbers, start=1) if n in numbers or None in numbers]
        found.append(replace(present(condition, text_style), needed=max(places, default=0)))
    return found


def from_score(presented: Presented, score: SentenceScore) -> RegionSurprisals:
    """Region surprisals, in bits, of a sentence with a score."""
    if score.text != presented.sentence.text:
        raise PdtoolsError(f"the scorer changed the sentence {presented.sentence.text!r} into {score.text!r}")
    from pdtools.search.spans import read_spans  # numpy takes its time

    read, needed = read_spans(score, presented.spans, "visible"), presented.needed
    bits = (read.surprisal() / math.log(2)).tolist()
    return RegionSurprisals(
        regions=tuple(x if needed is None or i < needed else None for i, x in enumerate(bits)),
        eos=-float(score.logprobs[-1]) / math.log(2) if score.eos else None,
        tokens=tuple(read.n_tokens.tolist()),
        dropped=score.dropped,
    )


def _region_values(
    item: Item, surprisals: Mapping[str, RegionSurprisals | str]
) -> Callable[[int | None, str], float]:
    """A function for the surprisals that formulas name, for sentences that have some."""
    position = {c.name: {n: i for i, n in enumerate(c.numbers)} for c in item.conditions}

    def value(number: int | None, condition: str) -> float:
        found = surprisals[condition]
        assert isinstance(found, RegionSurprisals)
        regions = found.regions if number is None else [found.regions[position[condition][number]]]
        return math.fsum(region for region in regions if region is not None)

    return value


def judge(suite: Suite, item: Item, surprisals: dict[str, RegionSurprisals | str]) -> Iterator[ItemResult]:
    """Evaluate the predictions of a suite on one item.

    Args:
        surprisals: by condition; a string is the reason why a sentence has none. A prediction that needs such
            a sentence has no result.
    """
    value = _region_values(item, surprisals)
    for prediction, formula in enumerate(suite.formulas, start=1):
        needed = dict.fromkeys(condition for _, condition in formula.regions)
        missing = [f"{c}: {reason}" for c in needed if isinstance(reason := surprisals[c], str)]
        shares = [getattr(surprisals[condition], "dropped", None) for condition in needed]
        yield ItemResult(
            suite=suite.name,
            circuit=suite.circuit,
            item=item.number,
            prediction=prediction,
            correct=None if missing else formula.holds(value),
            margin_bits=None if missing else formula.margin(value),
            dropped=max((share for share in shares if share is not None), default=None),
            reason="; ".join(missing) or None,
        )


@dataclass(frozen=True, slots=True)
class ItemComparison:
    """An item (:class:`pdtools.search.adaptive_beam.Comparison`), decided by its predictions."""

    item: Item
    formulas: tuple[Formula, ...]
    presented: tuple[Presented, ...]

    @property
    def sums(self) -> Literal["regions"]:
        """See :class:`pdtools.search.adaptive_beam.Comparison`."""
        return "regions"

    @property
    def sentences(self) -> tuple[Sentence | Beginning, ...]:
        """The conditions' sentences, in order."""
        return tuple(presented.asked for presented in self.presented)

    def decided(self, found: Sequence[MaybeScore], error_bound: float) -> bool:
        """See :class:`pdtools.search.adaptive_beam.Comparison`."""
        surprisals = self._surprisals(found)
        value = _region_values(self.item, surprisals)
        return all(
            formula.truth(value, error_bound / math.log(2)) is not None  # surprisals are in bits
            for formula in self.formulas
            if not any(isinstance(surprisals[condition], str) for _, condition in formula.regions)
        )

    def _surprisals(self, scores: Sequence[MaybeScore]) -> dict[str, RegionSurprisals | str]:
        return {
            condition.name: _surprisals(presented, score)
            for condition, presented, score in zip(self.item.conditions, self.presented, scores, strict=True)
        }


def evaluate_sg(suites: Suites, scorer: Model, progress: Progress = no_progress) -> Results:
    """Score suites with a model, a block of them at a time; only the rows of the tables stay in memory.

    Args:
        suites: read three times.
        scorer: any scorer; its text style decides how the sentences are written. A comparer (``--beam
            auto``) scores each item by itself, as far as its predictions need it.
        progress: wraps the iterator over sentence scores; for a comparer, over items.

    Returns:
        Scores (see :func:`pdtools.evaluation.sg.scores.sg_scores`), an ``items`` table with one row per
        item and prediction, and a ``regions`` table with one row per item, condition and region.
    """
    style = scorer.settings.get("text_style")
    if scorer.settings.get("beam") == AUTO:
        scored = _compared(suites, scorer, style, progress)
    else:
        scored = _scored(suites, scorer, style, progress)
    rows = _Rows()
    contents = hashlib.sha256()
    for block, (scores, steps) in zip(_blocks(suites), scored, strict=True):
        for suite, item, condition in sentences(block):
            contents.update(json.dumps([suite.name, item.number, asdict(condition)]).encode())
        presented = _present_needed(block, style) if steps else _present(block, style)
        rows.sentences_with_unknown += sum(getattr(score, "n_unknown", 0) > 0 for score in scores)
        rows.add(
            block, list(map(_surprisals, presented, scores)), [p.sentence.text for p in presented], steps
        )
    settings = {
        "task": "sg",
        "unit": "fraction of 1",
        "log_base": "bits",
        "text": "regions joined by single spaces, final punctuation and capitals as in the suites",
        "equality": "|a - b| <= 1e-3 + 1e-5 |b|",
        "eos_in_regions": False,
        "text_sha256": contents.hexdigest(),
        "scorer": scorer.settings,
    }
    return rows.results(settings)


_Steps = dict[tuple[str, int], Compared]  # by suite and item, the result of its last step


def _scored(
    suites: Suites, scorer: Model, style: str | None, progress: Progress
) -> Iterator[tuple[list[MaybeScore], _Steps]]:
    """The scores of each block's sentences, in their order."""
    # Sentences with equal beginnings are scored in sequence; a file's sentences in its order.
    by_text = scorer.settings["kind"] != "surprisals"
    total = sum(1 for _ in sentences(suites))
    given = (p.sentence for block in _blocks(suites) for _, p in _in_order(_present(block, style), by_text))
    scores = iter(progress(scorer.score(given), total))
    for block in _blocks(suites):
        order = [i for i, _ in _in_order(_present(block, style), by_text)]
        found = dict(zip(order, islice(scores, len(order)), strict=True))
        yield [found[i] for i in range(len(order))], {}
    for _ in scores:
        raise ValueError("more scores than sentences")


def _compared(
    suites: Suites, comparer: Model, style: str | None, progress: Progress
) -> Iterator[tuple[list[MaybeScore], _Steps]]:
    """The scores of each block's sentences; items are scored as far as they need it."""

    def comparisons() -> Iterator[ItemComparison]:
        for suite in suites:
            for item in suite.items:
                presented = tuple(present_needed(item, suite.formulas, style))
                yield ItemComparison(item, tuple(suite.formulas), presented)

    found = iter(progress(comparer.compare(comparisons()), sum(len(suite.items) for suite in suites)))
    for block in _blocks(suites):
        items = [(suite.name, item.number) for suite in block for item in suite.items]
        steps = dict(zip(items, islice(found, len(items)), strict=True))
        yield [score for step in steps.values() for score in step.scores], steps
    for _ in found:
        raise ValueError("more results than items")


def _blocks(suites: Suites) -> Iterator[list[Suite]]:
    """Group suites with some thousand sentences together."""
    block: list[Suite] = []
    for suite in suites:
        block.append(suite)
        if sum(1 for _ in sentences(block)) >= BLOCK:
            yield block
            block = []
    if block:
        yield block


def _present(block: Iterable[Suite], text_style: str | None) -> list[Presented]:
    return [present(condition, text_style) for _, _, condition in sentences(block)]


def _present_needed(block: Iterable[Suite], text_style: str | None) -> list[Presented]:
    items = ((item, suite.formulas) for suite in block for item in suite.items)
    return [presented for item, formulas in items for presented in present_needed(item, formulas, text_style)]


def _in_order(presented: list[Presented], by_text: bool) -> list[tuple[int, Presented]]:
    """Sentences with their numbers, in the order of scoring."""
    numbered = list(enumerate(presented))
    return sorted(numbered, key=lambda pair: pair[1].sentence.text) if by_text else numbered


def _surprisals(presented: Presented, score: SentenceScore | Unscorable) -> RegionSurprisals | str:
    return score.reason if isinstance(score, Unscorable) else from_score(presented, score)


class _Rows:
    """Scored suites, counted, and put into tables block by block."""

    def __init__(self) -> None:
        self.sentences_with_unknown = 0
        self._dropped = MeanAndMax()
        self._suites = 0
        self._sentences = 0
        self._unscorable = 0
        self._judged: list[ItemResult] = []
        self._items = Batches(_item_rows([], []).schema)
        self._regions = Batches(_region_rows([], [], []).schema)

    def add(
        self,
        suites: Sequence[Suite],
        surprisals: Sequence[RegionSurprisals | str],
        texts: Sequence[str],
        steps: _Steps,
    ) -> None:
        """Add a block, its surprisals and texts in the order of ``sentences``; steps of items, if any."""
        listed = list(sentences(suites))
        by_item: dict[tuple[str, int], dict[str, RegionSurprisals | str]] = {}
        for (suite, item, condition), found in zip(listed, surprisals, strict=True):
            by_item.setdefault((suite.name, item.number), {})[condition.name] = found
        judged = [
            row
            for suite in suites
            for item in suite.items
            for row in judge(suite, item, by_item[suite.name, item.number])
        ]
        if steps:
            # A search that is as wide as the decision needs it says little of the amount.
            judged = [
                replace(row, width=Width.of(steps[row.suite, row.item]), margin_bits=None) for row in judged
            ]
        self._suites += len(suites)
        self._sentences += len(listed)
        for found in surprisals:
            self._dropped.add(getattr(found, "dropped", None))
        self._unscorable += sum(isinstance(s, str) for s in surprisals)
        self._judged += judged
        self._items.append(_item_rows(suites, judged))
        self._regions.append(_region_rows(listed, surprisals, texts))

    def results(self, settings: dict[str, Any]) -> Results:
        """Scores, counts and tables of all blocks."""
        scored = sum(row.correct is not None for row in self._judged if row.prediction == 1)
        items = sum(row.prediction == 1 for row in self._judged)
        counts = {
            "suites": self._suites,
            "items": items,
            "items_scored": scored,
            "items_unscorable": items - scored,
            "sentences": self._sentences,
            "sentences_unscorable": self._unscorable,
            "sentences_with_unknown_words": self.sentences_with_unknown,
            **self._dropped.as_count("dropped"),
        }
        tables = {ITEMS: self._items, "regions": self._regions}
        return Results(scores=sg_scores(self._judged), counts=counts, settings=settings, tables=tables)


def _item_rows(suites: Sequence[Suite], rows: Iterable[ItemResult]) -> pa.RecordBatch:
    """A row for each prediction of each item.

    Columns:
        suite, circuit, item: identify the item.
        prediction, formula: number of the prediction in the suite, from 1, and its formula.
        correct: whether it holds.
        margin_bits: the amount in bits by which it holds, negative where it does not
            (:meth:`pdtools.evaluation.sg.formula.Formula.margin`); null with ``--beam auto``.
        dropped: the largest share of p(x) that the search is estimated to have lost, among the item's
            sentences.
        beam, margin: the values at which the item was decided with ``--beam auto``.
        reason: the reason why there is no outcome.
    """
    import pyarrow as pa

    formulas = {suite.name: suite.formulas for suite in suites}
    return pa.RecordBatch.from_pylist(
        [
            {
                "suite": row.suite,
                "circuit": row.circuit,
                "item": row.item,
                "prediction": row.prediction,
                "formula": formulas[row.suite][row.prediction - 1].text,
                "correct": row.correct,
                "margin_bits": row.margin_bits,
                "dropped": row.dropped,
                **row.width._asdict(),
                "reason": row.reason,
            }
            for row in rows
        ],
        schema=pa.schema(
            {
                "suite": pa.string(),
                "circuit": pa.string(),
                "item": pa.int32(),
                "prediction": pa.int32(),
                "formula": pa.string(),
                "correct": pa.bool_(),
                "margin_bits": pa.float64(),
                "dropped": pa.float64(),
                **Width.types(),
                "reason": pa.string(),
            }
        ),
    )


def _region_rows(
    listed: Sequence[tuple[Suite, Item, Condition]],
    surprisals: Sequence[RegionSurprisals | str],
    texts: Sequence[str],
) -> pa.RecordBatch:
    """A row for each region, and one without a region for the end of each sentence if it is counted.

    Columns:
        suite, item, condition: identify the sentence.
        region: number of the region; null for end-of-sentence, which belongs to no region.
        region_name: the suite's name of the region (``region_meta``), or null.
        content: the region's words, as in the suite.
        surprisal: the sum over its tokens, in bits; null if the sentence has no score, or with ``--beam
            auto`` if no prediction needs the region or a later one (there is then no row for
            end-of-sentence).
        tokens: number of its tokens.
        text: the sentence as the model read it.
        reason: the reason why there is no surprisal.
    """
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for (suite, item, condition), found, text in zip(listed, surprisals, texts, strict=True):
        sentence = {"suite": suite.name, "item": item.number, "condition": condition.name, "text": text}
        regions = [
            {
                **sentence,
                "region": number,
                "region_name": suite.region_names.get(number),
                "content": content,
            }
            for number, content in zip(condition.numbers, condition.regions, strict=True)
        ]
        if isinstance(found, str):
            rows += [{**row, "reason": found} for row in regions]
            continue
        for row, surprisal, tokens in zip(regions, found.regions, found.tokens, strict=True):
            known = {"reason": _NOT_NEEDED} if surprisal is None else {"tokens": tokens}
            rows.append({**row, "surprisal": surprisal, **known})
        if found.eos is not None:
            rows.append({**sentence, "region": None, "content": "", "surprisal": found.eos, "tokens": 1})
    return pa.RecordBatch.from_pylist(
        rows,
        schema=pa.schema(
            {
                "suite": pa.string(),
                "item": pa.int32(),
                "condition": pa.string(),
                "region": pa.int32(),
                "region_name": pa.string(),
                "content": pa.string(),
                "surprisal": pa.float64(),
                "tokens": pa.int32(),
                "text": pa.string(),
                "reason": pa.string(),
            }
        ),
    )
