"""Outcomes of a benchmark's items: scores of their strings, predictions judged by these, and counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from pdtools.evaluation.benchmark.definition import Score
from pdtools.evaluation.benchmark.items import Item, Items, String
from pdtools.evaluation.benchmark.record import record_of
from pdtools.evaluation.results import ITEMS, Batches, MeanAndMax, Results, mean
from pdtools.evaluation.sg.formula import Formula
from pdtools.search.adaptive_beam import Width
from pdtools.search.scores import SentenceScore, Unscorable

if TYPE_CHECKING:
    import pyarrow as pa

    from pdtools.search.adaptive_beam import Compared, MaybeScore

Outcome = Literal["right", "wrong", "tie", "unscorable"]

_EQUAL = 5e-324  # nats: two numbers that are no further apart are equal
_NOTHING = "nothing in it is scored"
NO_TOKENS = "it has no tokens to divide by"


TokenRows = list[tuple[str, int, int, float]]
"""For each token: its text, first character in the string, the one after its last, surprisal in nats."""


@dataclass(frozen=True, slots=True)
class Part:
    """The score of a string's scored part.

    Attributes:
        logprob: its log-probability, nats; or the score of another program.
        tokens: number of tokens summed; None: not known.
        dropped: for the whole string, :attr:`pdtools.search.SentenceScore.dropped`.
        as_read: differs if tokens do; None: not known.
        text: the whole string as the model reads it; None: not known.
        surprisals: the tokens'; None: not known.
    """

    logprob: float
    tokens: int | None
    dropped: float | None = None
    as_read: int | None = None
    text: str | None = None
    surprisals: TokenRows | None = None

    def value(self, text: str, score: Score) -> float | None:
        """The number that predictions compare; None if unknown.

        Args:
            text: the scored part.
        """
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

    After a context, the tokens that reach beyond it are scored (:mod:`pdtools.search.spans`). The end of the
    sentence is scored only in whole strings.
    """
    if isinstance(score, Unscorable):
        return score
    before = (0, *score.ends[:-1])
    tokens = zip(score.tokens, score.starts, before, strict=True)
    as_read = hash((string.start, *((token, start > end) for token, start, end in tokens)))
    text = string.text if score.text == string.text else score.text  # one string, not two equal ones
    nats = (0.0 - score.logprobs).tolist()
    rows = list(zip(score.tokens, score.starts, score.ends, nats, strict=True))
    logprob = score.total
    if string.start is not None:
        from pdtools.search.spans import read_spans  # numpy takes its time

        read = read_spans(score, [(string.start, len(score.text))], "reach", line_feeds=True)
        if not (len(read.rows) and string.scored):
            return Unscorable(score.text, _NOTHING)
        logprob, rows = float(read.sum(score.logprobs)[0]), [rows[i] for i in read.rows.tolist()]
    return Part(logprob, len(rows), score.dropped, as_read, text, rows)


def judge(
    formula: Formula, score: Score, strings: Mapping[str, String], parts: Parts
) -> tuple[Outcome, str | None]:
    """Judge whether a prediction holds, or give the reason why that is unknown.

    Strings that are the same tokens to the model have the same score: any difference is rounding. A
    prediction that turns on two equal scores is a tie.
    """
    values = values_of(formula, score, strings, parts)
    if not isinstance(values, dict):
        return "unscorable", values
    truth = formula.truth(lambda _, name: values[name], _EQUAL)
    return "tie" if truth is None else "right" if truth else "wrong", None


def values_of(
    formula: Formula, score: Score, strings: Mapping[str, String], parts: Parts
) -> dict[str, float] | str:
    """The numbers that a prediction compares, by name; or the reason why they are unknown."""
    values: dict[str, float] = {}
    same: dict[int, float] = {}
    reasons = []
    for _, name in formula.regions:
        part = parts[name]
        if isinstance(part, Unscorable):
            reasons.append(f"{name}: {part.reason}")
            continue
        value = part.value(strings[name].scored, score)
        if value is None:
            reasons.append(
                f"{name}: {NO_TOKENS if part.tokens == 0 else 'its number of tokens is not known'}"
            )
            continue
        values[name] = value if part.as_read is None else same.setdefault(part.as_read, value)
    return "; ".join(reasons) or values


@dataclass(kw_only=True, slots=True)
class Tally:
    """Counts of one prediction for one finest group's items: all, scored, right, ties."""

    items: int = 0
    scored: int = 0
    right: int = 0
    ties: int = 0

    def add(self, outcome: Outcome | None) -> None:
        """Count one more item."""
        self.items += 1
        self.scored += outcome != "unscorable"
        self.right += outcome == "right"
        self.ties += outcome == "tie"

    @property
    def counts(self) -> dict[str, int]:
        """The counts besides the right ones."""
        return {"items": self.items, "scored": self.scored, "ties": self.ties}

    @property
    def share(self) -> float | None:
        """The share of right ones among the scored; None if there are none."""
        return self.right / self.scored if self.scored else None


Tallies = Mapping[tuple[str | None, ...], Tally]
"""Tallies by the groups of all levels, the finest last."""


def scores_of(tallies: Mapping[str, Tallies], items: Items) -> dict[str, Any]:
    """Shares of items whose prediction holds, as fractions of 1; None if no item has a score.

    Args:
        tallies: for each prediction, the main one first.

    Returns:
        ``overall``: the unweighted mean of the finest groups; ``mean_of_items``: over all items; ``by_…``:
        for each level, means of the finest groups in it, or over the items for levels that cross;
        ``by_prediction``: the ``overall`` of each.
    """
    by_prediction = {name: _overall(of) for name, of in tallies.items()}
    main = next(iter(tallies.values()))
    names = list(items.benchmark.levels)
    scores: dict[str, Any] = {
        "overall": next(iter(by_prediction.values())),
        "mean_of_items": _over_items(main),
        "by_prediction": by_prediction,
    }
    for level in items.levels:
        at = names.index(level)
        groups: dict[str, dict[tuple[str | None, ...], Tally]] = {}
        for key, tally in main.items():
            if (group := key[at]) is not None:
                groups.setdefault(group, {})[key] = tally
        share = _over_items if level in items.crossing else _overall
        scores[f"by_{level}"] = {group: share(groups[group]) for group in sorted(groups)}
    scores[f"by_{items.unit}"] = {items.named(key): main[key].share for key in _ordered(main)}
    return scores


def _overall(tallies: Tallies) -> float | None:
    shares = (tallies[key].share for key in _ordered(tallies))
    return mean([share for share in shares if share is not None])


def _over_items(tallies: Tallies) -> float | None:
    right, scored = (sum(getattr(each, name) for each in tallies.values()) for name in ("right", "scored"))
    return Tally(right=right, scored=scored).share


def _ordered(tallies: Tallies) -> list[tuple[str | None, ...]]:
    return sorted(tallies, key=lambda key: [level or "" for level in reversed(key)])


def is_right(outcome: Outcome | None) -> bool | None:
    """True if an outcome counts as right, which ties do not; None if there is no score."""
    return None if outcome in (None, "unscorable") else outcome == "right"


def surprisals_type() -> pa.DataType:
    """The type of a column of ``TokenRows``."""
    import pyarrow as pa

    of_token = {"token": pa.string(), "start": pa.int32(), "end": pa.int32(), "surprisal": pa.float32()}
    return pa.list_(pa.struct(of_token))


class JudgedItems:
    """Judged items: counted by group, and put into a table block by block.

    Args:
        items: the items.
        tokens: whether numbers of tokens are known; otherwise predictions about these are excluded.

    Attributes:
        more: columns that kinds of benchmarks add, with their types, for the values of :meth:`judged`.
    """

    @property
    def more(self) -> dict[str, pa.DataType]:
        """Additional columns, see the class."""
        return {}

    def __init__(self, items: Items, *, tokens: bool = True) -> None:
        self.items = items
        scores = items.benchmark.scores
        by_tokens = ("per_token", "slln")
        self.taken = [name for name in scores if tokens or scores[name].kind not in by_tokens]
        if not self.taken or self.taken[0] != next(iter(scores)):
            raise items.refused(
                "its prediction is about tokens, but these scores do not say how many there are"
            )
        self.tallies: dict[str, dict[tuple[str | None, ...], Tally]] = {name: {} for name in self.taken}
        self.by_flag: dict[str, dict[str, Tally]] = {name: {} for name in items.benchmark.flags}
        self._numbers = {name: number for number, name in enumerate(items.benchmark.predictions, start=1)}
        self.strings = 0
        self.with_unknown = 0
        self.dropped = MeanAndMax()
        self.schema = self._schema()
        self.table = Batches(self.schema)

    def add(
        self, block: Sequence[Item], parts: Sequence[Parts], compared: Sequence[Compared] | None = None
    ) -> None:
        """Add the items of a block, with the scores of their strings."""
        import pyarrow as pa

        rows = [
            row
            for i, (item, of) in enumerate(zip(block, parts, strict=True))
            for row in self._rows(item, of, None if compared is None else compared[i])
        ]
        if not rows:
            return
        arrays = [
            pa.array(column, kind)
            for column, kind in zip(zip(*rows, strict=True), self.schema.types, strict=True)
        ]
        self.table.append(pa.record_batch(arrays, schema=self.schema))

    def count(self, scores: Collection[MaybeScore]) -> None:
        """Count the different strings of a block."""
        self.strings += len(scores)
        for score in scores:
            if isinstance(score, SentenceScore):
                self.with_unknown += score.n_unknown > 0
                self.dropped.add(score.dropped)

    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        items = self.items
        of_strings = {
            "": pa.string(),
            "start_": pa.int32(),
            "logprob_": pa.float64(),
            "tokens_": pa.int32(),
            "dropped_": pa.float64(),
            "surprisals_": surprisals_type(),
        }
        return pa.schema(
            {
                "item": pa.int64(),
                "prediction": pa.int32(),
                "formula": pa.string(),
                **dict.fromkeys(items.columns, pa.string()),
                **dict.fromkeys(items.benchmark.flags, pa.list_(pa.string())),
                **{f"{of}{name}": kind for name in items.names for of, kind in of_strings.items()},
                **Width.types(),
                "outcome": pa.string(),
                "correct": pa.bool_(),
                "reason": pa.string(),
                **self.more,
            }
        )

    def _rows(self, item: Item, parts: Parts, searched: Compared | None) -> Iterator[tuple[Any, ...]]:
        """The rows of an item, one for each prediction, with the columns of the schema."""
        strings: list[Any] = []
        for name in self.items.names:
            string, part = item.strings.get(name), parts.get(name)
            strings += [None, None] if string is None else [string.text, string.start]
            strings += (
                [part.logprob, part.tokens, part.dropped, part.surprisals]
                if isinstance(part, Part)
                else [None] * 4
            )
        groups = self.items.groups(item.levels)
        for name, outcome, reason, more in self.judged(item, parts):
            self.tally(name, item, outcome)
            about = (item.number, self._numbers[name], self.items.benchmark.predictions[name])
            yield (
                *about,
                *groups,
                *map(list, item.flags),
                *strings,
                *Width.of(searched),
                outcome,
                is_right(outcome),
                reason,
                *more,
            )

    def tally(self, prediction: str, item: Item, outcome: Outcome | None) -> None:
        """Count the outcome of a prediction about an item."""
        self.tallies[prediction].setdefault(item.levels, Tally()).add(outcome)
        if prediction == self.taken[0]:
            for tallies, flags in zip(self.by_flag.values(), item.flags, strict=True):
                for flag in flags:
                    tallies.setdefault(flag, Tally()).add(outcome)

    def judged(
        self, item: Item, parts: Parts
    ) -> Iterator[tuple[str, Outcome | None, str | None, tuple[Any, ...]]]:
        """A row for each prediction: name, outcome, reason of a missing score, and ``more`` columns."""
        benchmark = self.items.benchmark
        formulas = dict(zip(benchmark.predictions, benchmark.formulas(item.right, item.options), strict=True))
        for name in self.taken:
            yield name, *judge(formulas[name], benchmark.scores[name], item.strings, parts), ()

    def results(self, scorer: dict[str, Any]) -> Results:
        """The results of all items."""
        items, benchmark = self.items, self.items.benchmark
        main = self.tallies[self.taken[0]]
        n, scored, ties = (
            sum(getattr(each, name) for each in main.values()) for name in ("items", "scored", "ties")
        )
        by_file = items.by_file
        counts = {
            "items": n,
            "items_scored": scored,
            "items_unscorable": n - scored,
            "ties": ties,
            "identical": sum(each.identical for each in by_file.values()),
            "repeated": sum(each.repeated for each in by_file.values()),
            "strings": self.strings,
            "strings_with_unknown_words": self.with_unknown,
            "files": {path: asdict(each) for path, each in by_file.items()},
            f"by_{items.unit}": {items.named(key): main[key].counts for key in _ordered(main)},
            **{
                f"by_{level}": {flag: tallies[flag].counts for flag in sorted(tallies)}
                for level, tallies in self.by_flag.items()
            },
            **self.dropped.as_count("dropped"),
        }
        settings = {
            "task": benchmark.task,
            "benchmark": benchmark.title,
            "unit": "fraction of 1",
            "log_base": "nats",
            "predictions": {name: benchmark.predictions[name] for name in self.taken},
            "scores": {name: asdict(benchmark.scores[name]) for name in self.taken},
            "definition_sha256": benchmark.digest,
            "limit": items.limit,
            **({"notes": items.notes} if items.notes else {}),
            "scorer": scorer,
        }
        return Results(
            scores=scores_of(self.tallies, items)
            | {
                f"by_{level}": {flag: tallies[flag].share for flag in sorted(tallies)}
                for level, tallies in self.by_flag.items()
            },
            counts=counts,
            settings=settings,
            tables={ITEMS: self.table},
            record=record_of(items),
        )
