"""Outcomes of items: scores of their strings, predictions judged by these, counts, and the two tables."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from pdtools.errors import PdtoolsError
from pdtools.evaluation.benchmark.item_set import Item, ItemSet, Score, String
from pdtools.evaluation.record import MARGIN
from pdtools.evaluation.results import ITEMS, STRINGS_TABLE, Batches, Results, mean
from pdtools.evaluation.sg.formula import Formula, Region
from pdtools.search.scores import SentenceScore, Unscorable

if TYPE_CHECKING:
    import pyarrow as pa

    from pdtools.search.adaptive_beam import Compared, MaybeScore

Outcome = Literal["right", "wrong", "tie", "unscorable"]

_EQUAL = 5e-324  # two numbers that are no further apart are equal
_NOTHING = "nothing in it is scored"
_NOT_NEEDED = "no prediction needs it: not searched by --beam auto"
NO_TOKENS = "it has no tokens to divide by"


TokenRows = list[tuple[str, int, int, float]]
"""For each token: its text, first character in the string, the one after its last, surprisal in bits."""


@dataclass(frozen=True, slots=True)
class SpanScore:
    """The score of a region, of the end of a string with regions, or of the scored part of another string.

    Attributes:
        bits: its surprisal; None: not needed, or not known.
        tokens: number of its tokens; None: not known.
        surprisals: the tokens'; None: not known.
    """

    bits: float | None
    tokens: int | None
    surprisals: TokenRows | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The score of a string's scored part: of its regions, if it has some.

    Attributes:
        logprob: its log-probability, nats; or the score of another program.
        tokens: number of tokens summed; None: not known.
        dropped: for the whole string, :attr:`pdtools.search.SentenceScore.dropped`.
        as_read: differs if tokens do; None: not known.
        text: the whole string as the model reads it; None: not known.
        regions: surprisals of the regions, bits, by number.
        spans: a score for each region and the end if it is counted, or one for the scored part.
    """

    logprob: float
    tokens: int | None
    dropped: float | None = None
    as_read: int | None = None
    text: str | None = None
    regions: Mapping[int, float | None] | None = None
    spans: tuple[SpanScore, ...] = (SpanScore(None, None),)

    def value(self, text: str, score: Score, region: int | None = None) -> float | None:
        """The number that predictions compare; None if unknown.

        Args:
            text: the scored part.
            region: the number of a region; None: all of it.
        """
        if score.kind == "surprisal":
            regions = self.regions or {}
            found = regions.values() if region is None else [regions[region]]
            return math.fsum(bits for bits in found if bits is not None)
        if score.kind == "sum":
            return self.logprob
        if score.kind in ("per_token", "slln"):
            return self.logprob / self.tokens**score.alpha if self.tokens else None
        lengths: dict[str, Callable[[], int]] = {
            "per_character": lambda: len(text),
            "per_byte": lambda: len(text.encode(errors="surrogatepass")),
            "per_word": lambda: len(text.split()),
        }
        return self.logprob / max(1, lengths[score.kind]())


Parts = Mapping[str, "Part | Unscorable"]


def part_of(string: String, score: MaybeScore) -> Part | Unscorable:
    """The score of a string's scored part, from the score of the whole.

    After a context, the tokens that reach beyond it are scored; of a string with regions, each region
    (:mod:`pdtools.search.spans`). The end of the sentence is scored only in whole strings.
    """
    from pdtools.search.spans import read_spans  # numpy takes its time

    if isinstance(score, Unscorable):
        return score
    bits = (0.0 - score.logprobs / math.log(2)).tolist()
    rows = list(zip(score.tokens, score.starts, score.ends, bits, strict=True))
    if string.regions:
        return _part_in_regions(string, score, rows)
    text = string.text if score.text == string.text else score.text  # one string, not two equal ones
    before = (0, *score.ends[:-1])
    tokens = zip(score.tokens, score.starts, before, strict=True)
    as_read = hash((string.start, *((token, start > end) for token, start, end in tokens)))
    logprob = score.total
    if string.start is not None:
        read = read_spans(score, [(string.start, len(score.text))], "reach", line_feeds=True)
        if not (len(read.rows) and string.scored):
            return Unscorable(score.text, _NOTHING)
        logprob, rows = float(read.sum(score.logprobs)[0]), [rows[i] for i in read.rows.tolist()]
    whole = SpanScore(0.0 - logprob / math.log(2), len(rows), rows)
    return Part(logprob, len(rows), score.dropped, as_read, text, spans=(whole,))


def _part_in_regions(string: String, score: SentenceScore, rows: TokenRows) -> Part:
    from pdtools.search.spans import read_spans

    if score.text != string.text:
        raise PdtoolsError(f"the model changed the sentence {string.text!r} into {score.text!r}")
    read = read_spans(score, string.spans, "visible")
    taken: list[TokenRows] = [[] for _ in string.regions]
    for region, row in zip(read.span.tolist(), read.rows.tolist(), strict=True):
        taken[region].append(rows[row])
    bits = (read.surprisal() / math.log(2)).tolist()
    spans = [SpanScore(x, len(of), of) for x, of in zip(bits, taken, strict=True)]
    if string.needed is not None:
        spans[string.needed :] = [SpanScore(None, None)] * (len(spans) - string.needed)
    regions = {region.number: of.bits for region, of in zip(string.regions, spans, strict=True)}
    n_tokens = sum(of.tokens or 0 for of in spans)
    if score.eos:
        spans.append(SpanScore(rows[-1][3], 1, rows[-1:]))
    logprob = -math.log(2) * math.fsum(x for x in regions.values() if x is not None)
    return Part(logprob, n_tokens, score.dropped, None, score.text, regions, tuple(spans))


Judgement = tuple[Outcome, "float | None", "str | None"]
"""An outcome, the amount in bits by which the prediction holds, and the reason why both are unknown."""


def judge(formula: Formula, score: Score, strings: Mapping[str, String], parts: Parts) -> Judgement:
    """Judge whether a prediction holds, or give the reason why that is unknown.

    Strings that are the same tokens to the model have the same score: any difference is rounding. A
    prediction that turns on two equal scores is a tie.
    """
    values = values_of(formula, score, strings, parts)
    if not isinstance(values, dict):
        return "unscorable", None, values

    def value(region: int | None, name: str) -> float:
        return values[region, name]

    truth = formula.truth(value, _EQUAL)
    outcome: Outcome = "tie" if truth is None else "right" if truth else "wrong"
    return outcome, formula.margin(value) * score.bits, None


def values_of(
    formula: Formula, score: Score, strings: Mapping[str, String], parts: Parts
) -> dict[Region, float] | str:
    """The numbers that a prediction compares, by region and name; or the reason why they are unknown."""
    values: dict[Region, float] = {}
    same: dict[int, float] = {}
    reasons = []
    for region, name in formula.regions:
        part = parts[name]
        if isinstance(part, Unscorable):
            reasons.append(f"{name}: {part.reason}")
            continue
        value = part.value(strings[name].scored, score, region)
        if value is None:
            reasons.append(
                f"{name}: {NO_TOKENS if part.tokens == 0 else 'its number of tokens is not known'}"
            )
            continue
        values[region, name] = value if part.as_read is None else same.setdefault(part.as_read, value)
    return "; ".join(dict.fromkeys(reasons)) or values


@dataclass(kw_only=True, slots=True)
class Tally:
    """Counts of one prediction for a group's items: all, scored, right, ties; and the margins known."""

    items: int = 0
    scored: int = 0
    right: int = 0
    ties: int = 0
    bits: float = 0.0
    margins: int = 0

    def add(self, outcome: Outcome | None, margin: float | None = None) -> None:
        """Count one more item."""
        self.items += 1
        self.scored += outcome != "unscorable"
        self.right += outcome == "right"
        self.ties += outcome == "tie"
        self.bits += margin or 0.0
        self.margins += margin is not None

    @property
    def counts(self) -> dict[str, int]:
        """The counts besides the right ones."""
        return {"items": self.items, "scored": self.scored, "ties": self.ties}

    @property
    def share(self) -> float | None:
        """The share of right ones among the scored; None if there are none."""
        return self.right / self.scored if self.scored else None

    @property
    def margin(self) -> float | None:
        """The mean margin, in bits; None if none is known."""
        return self.bits / self.margins if self.margins else None


Tallies = Mapping[tuple[str | None, ...], Tally]
"""Tallies by the groups of all levels, the finest last."""


def scores_of(tallies: Mapping[str, Tallies], items: ItemSet) -> dict[str, Any]:
    """Shares of items whose prediction holds, as fractions of 1; None if no item has a score.

    Args:
        tallies: for each prediction, the main one first.

    Returns:
        ``overall``: the unweighted mean of the finest groups, without those outside; ``mean_of_items``: over
        all their items; ``by_…``: for each level, means of the finest groups in it, or over the items for
        levels that cross; ``by_prediction``: the ``overall`` of each; ``margin_bits``: the same means of
        margins, in bits, if any is known; and further scores of these items.
    """
    main = next(iter(tallies.values()))
    scores: dict[str, Any] = {
        "overall": None,
        "mean_of_items": _total(_counted(main, items).values()).share,
        "by_prediction": {name: _mean(_counted(of, items).values(), "share") for name, of in tallies.items()},
        **_means(main, items, "share"),
    }
    if any(tally.margins for tally in main.values()):
        scores[MARGIN] = _means(main, items, "margin")
    return {**scores, **items.further_scores(scores, tallies)}


def _means(main: Tallies, items: ItemSet, of: Literal["share", "margin"]) -> dict[str, Any]:
    """Means of shares or margins: overall, and by the groups of each level."""
    counted = _counted(main, items)
    found: dict[str, Any] = {"overall": _mean(counted.values(), of)}
    for level in items.levels:
        at = items.names.index(level)
        groups: dict[str, list[Tally]] = {}
        for key, tally in counted.items():
            if (group := key[at]) is not None:
                groups.setdefault(group, []).append(tally)
        crosses = level in items.crossing
        found[f"by_{level}"] = {
            name: getattr(_total(groups[name]), of) if crosses else _mean(groups[name], of)
            for name in sorted(groups)
        }
    found[f"by_{items.unit}"] = {items.named(key): getattr(main[key], of) for key in _ordered(main)}
    return found


def _counted(tallies: Tallies, items: ItemSet) -> Tallies:
    """The groups that count in means, in order."""
    return {key: tallies[key] for key in _ordered(tallies) if items.named(key) not in items.outside}


def _mean(tallies: Iterable[Tally], of: str) -> float | None:
    """The unweighted mean of groups that have a share, or a margin."""
    return mean([value for tally in tallies if (value := getattr(tally, of)) is not None])


def _total(tallies: Iterable[Tally]) -> Tally:
    """The counts of several groups together."""
    every, names = list(tallies), ("items", "scored", "right", "ties", "bits", "margins")
    return Tally(**{name: sum(getattr(each, name) for each in every) for name in names})


def _ordered(tallies: Tallies) -> list[tuple[str | None, ...]]:
    return sorted(tallies, key=lambda key: [level or "" for level in reversed(key)])


class JudgedItems:
    """Judged items: counted by group, and put into two tables block by block.

    Args:
        items: the items.
        tokens: whether scores are log-probabilities of known numbers of tokens; otherwise predictions about
            these are excluded, and there are no margins.

    Attributes:
        more: columns that kinds of benchmarks add, with their types, for the values of :meth:`judged`.
    """

    more: Mapping[str, str] = {}

    def __init__(self, items: ItemSet, *, tokens: bool = True) -> None:
        self.items, self.tokens = items, tokens
        by_tokens = ("per_token", "slln")
        self.excluded = {name for name, of in items.scores.items() if not tokens and of.kind in by_tokens}
        if next(iter(items.scores), None) in self.excluded:
            raise items.refused(
                "its prediction is about tokens, but these scores do not say how many there are"
            )
        counted = (name for name in items.scores if name not in self.excluded)
        self.tallies: dict[str, dict[tuple[str | None, ...], Tally]] = {name: {} for name in counted}
        self.by_flag: dict[str, dict[str, Tally]] = {name: {} for name in items.flags}
        self.strings = self.unscorable = self.with_unknown = 0
        self.dropped = array("d")  # the share that each string's search has lost
        self.tables = {ITEMS: Batches(self.items_schema()), STRINGS_TABLE: Batches(self.strings_schema())}

    def add(
        self, block: Sequence[Item], parts: Sequence[Parts], compared: Sequence[Compared] | None = None
    ) -> None:
        """Add the items of a block, with the scores of their strings."""
        rows: dict[str, list[tuple[Any, ...]]] = {ITEMS: [], STRINGS_TABLE: []}
        for i, (item, of) in enumerate(zip(block, parts, strict=True)):
            if judged := list(self._rows(item, of, None if compared is None else compared[i])):
                rows[ITEMS] += judged
                rows[STRINGS_TABLE] += self._strings(item, of)
        for name, table in self.tables.items():
            table.append(rows[name])

    def count(self, scores: Collection[MaybeScore]) -> None:
        """Count the different strings of a block."""
        self.strings += len(scores)
        for score in scores:
            if isinstance(score, SentenceScore):
                self.with_unknown += score.n_unknown > 0
                self.dropped.extend([] if score.dropped is None else [score.dropped])
            else:
                self.unscorable += 1

    def items_schema(self) -> pa.Schema:
        """The columns of ``items.parquet``: a row for each prediction of each item.

        Columns:
            item: its name, or its number from 1 in the order of the data; unique in its finest group
                (paradigm, suite, last level).
            prediction, formula: number from 1, and formula; the first counts.
            outcome, correct: right, wrong, tie or unscorable; whether it is right.
            margin_bits: bits by which the prediction holds, negative if it fails; null with ``--beam auto``.
            beam, margin: with ``--beam auto``: those that decided the item.
            reason: the reason why there is no outcome.
        """
        import pyarrow as pa

        return pa.schema(
            {
                **dict.fromkeys((self.items.unit, *self.items.levels), pa.string()),
                **dict.fromkeys(self.items.flags, pa.list_(pa.string())),
                "item": pa.string(),
                "prediction": pa.int32(),
                "formula": pa.string(),
                "outcome": pa.string(),
                "correct": pa.bool_(),
                MARGIN: pa.float64(),
                "beam": pa.int32(),
                "margin": pa.float64(),
                "reason": pa.string(),
                **self.more,
            }
        )

    def strings_schema(self) -> pa.Schema:
        """The columns of ``strings.parquet``: a row for each scored part of each string.

        A string with regions has a row for each, and one for its end if that is counted; any other has one.

        Columns:
            item, string: the item, beside its finest group, and the string's role: good, bad, a condition.
            region, name: number and name of the region, or null.
            context: text before it, if only what follows is scored.
            text: the region, or the string, as in the data.
            read: the whole string as the model read it.
            tokens: number of its tokens.
            bits: their surprisal; null without a score, or if ``--beam auto`` did not need it.
            surprisals: the tokens: ``token``, ``start``, ``end`` (characters of ``read``), and ``bits``
                (float32), with end-of-sentence if it counts.
            dropped: share of p(x) that the search is estimated to have lost.
            reason: the reason why there is no surprisal.
        """
        import pyarrow as pa

        of_token = {"token": pa.string(), "start": pa.int32(), "end": pa.int32(), "bits": pa.float32()}
        return pa.schema(
            {
                **dict.fromkeys((self.items.unit, "item", "string"), pa.string()),
                "region": pa.int32(),
                **dict.fromkeys(("name", "context", "text", "read"), pa.string()),
                "tokens": pa.int32(),
                "bits": pa.float64(),
                "surprisals": pa.list_(pa.struct(of_token)),
                "dropped": pa.float64(),
                "reason": pa.string(),
            }
        )

    def _rows(self, item: Item, parts: Parts, searched: Compared | None) -> Iterator[tuple[Any, ...]]:
        """The rows of an item, one for each prediction, with the columns of the schema."""
        groups = (self.items.named(item.levels), *item.levels[: len(self.items.levels)])
        numbers = {name: number for number, name in enumerate(item.formulas, start=1)}
        for name, (outcome, margin, reason), more in self.judged(item, parts):
            if searched is not None or not self.tokens:
                margin = None  # a search that is as wide as the decision needs it says little of the amount
            tallies = self.tallies.setdefault(name, {})
            tallies.setdefault(item.levels, Tally()).add(outcome, margin)
            if numbers[name] == 1:
                for by_flag, flags in zip(self.by_flag.values(), item.flags, strict=True):
                    for flag in flags:
                        by_flag.setdefault(flag, Tally()).add(outcome)
            yield (
                *groups,
                *map(list, item.flags),
                *(item.name, numbers[name], item.formulas[name].text),
                *(outcome, None if outcome in (None, "unscorable") else outcome == "right", margin),
                *(None if searched is None else searched.beam, None if searched is None else searched.margin),
                reason,
                *more,
            )

    def _strings(self, item: Item, parts: Parts) -> Iterator[tuple[Any, ...]]:
        """The rows of an item's strings, with the columns of the schema."""
        unit = self.items.named(item.levels)
        for role, string in item.strings.items():
            part = parts[role]
            at = 0 if string.start is None else string.start
            places: list[tuple[Any, ...]] = [
                (region.number, region.name, None, region.text) for region in string.regions
            ] or [(None, None, string.text[:at] if at else None, string.text[at:])]
            known = (part.text, part.dropped) if isinstance(part, Part) else (None, None)
            spans = part.spans if isinstance(part, Part) else [SpanScore(None, None)] * len(places)
            places += [(None, None, None, "")] * (len(spans) - len(places))
            for place, span in zip(places, spans, strict=True):
                missing = part.reason if isinstance(part, Unscorable) else _NOT_NEEDED
                has_score = span.bits is not None or not self.tokens
                about = (span.tokens, span.bits, span.surprisals, known[1], None if has_score else missing)
                yield (unit, item.name, role, *place, known[0], *about)

    def judged(
        self, item: Item, parts: Parts
    ) -> Iterator[tuple[str, tuple[Outcome | None, float | None, str | None], tuple[Any, ...]]]:
        """A row for each prediction: name, judgement, and ``more`` columns."""
        for name, formula in item.formulas.items():
            if name not in self.excluded:
                yield name, judge(formula, self.items.score(name), item.strings, parts), ()

    def results(self, model: dict[str, Any]) -> Results:
        """The results of all items, with the settings of the model."""
        items = self.items
        main = next(iter(self.tallies.values()))
        total = _total(main.values())
        counts = {
            "items": total.items,
            "items_scored": total.scored,
            "items_unscorable": total.items - total.scored,
            "ties": total.ties,
            "strings": self.strings,
            "strings_unscorable": self.unscorable,
            "strings_with_unknown_words": self.with_unknown,
            **items.counts,
            f"by_{items.unit}": {items.named(key): main[key].counts for key in _ordered(main)},
            **self._by_flag(lambda tally: tally.counts),
        }
        if self.dropped:
            counts["dropped"] = {"mean": mean(self.dropped), "max": max(self.dropped)}
        taken = [name for name in items.predictions if name not in self.excluded]
        settings = {
            **model,
            "task": items.task,
            "unit": "fraction of 1",
            "log_base": "bits",
            **({"predictions": {name: items.predictions[name] for name in taken}} if taken else {}),
            **({"scores": {name: asdict(items.scores[name]) for name in taken}} if taken else {}),
            **items.settings,
            "limit": items.limit,
            **({"notes": items.notes} if items.notes else {}),
        }
        scores = scores_of(self.tallies, items) | self._by_flag(lambda tally: tally.share)
        return Results(
            scores=scores, counts=counts, settings=settings, tables=self.tables, record=items.record
        )

    def _by_flag(self, of: Callable[[Tally], Any]) -> dict[str, dict[str, Any]]:
        return {
            f"by_{level}": {flag: of(tallies[flag]) for flag in sorted(tallies)}
            for level, tallies in self.by_flag.items()
        }
