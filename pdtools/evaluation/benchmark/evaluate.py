"""Benchmarks of strings: does the prediction about each item's scores hold?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from pdtools.evaluation.benchmark.definition import Score
from pdtools.evaluation.benchmark.items import Item, Items, String
from pdtools.evaluation.benchmark.record import record_of
from pdtools.evaluation.results import ITEMS, Batches, MeanAndMax, Progress, Results, mean, no_progress
from pdtools.evaluation.sg.formula import Formula
from pdtools.search.scores import SentenceScore, Unscorable
from pdtools.search.widening import Comparer

if TYPE_CHECKING:
    import pyarrow as pa

    from pdtools.search.scores import Scorer
    from pdtools.search.widening import Compared, Found

Outcome = Literal["right", "wrong", "tie", "unscorable"]

BLOCK = 4096
"""Items whose strings are sorted together, and whose scores are in memory at the same time."""
_EQUAL = 5e-324  # nats: of two numbers that are no further apart neither is the higher one
_NOTHING = "nothing in it is scored"


@dataclass(frozen=True, slots=True)
class Part:
    """The score of a string's scored part.

    Attributes:
        logprob: its log-probability, nats; of other programs' scores, these.
        tokens: how many it is a sum over; None: not known.
        dropped: of the whole string, :attr:`pdtools.search.SentenceScore.dropped`.
        as_read: differs where tokens do; None: not known.
        has_unknown: whether the string has words that the model does not know.
    """

    logprob: float
    tokens: int | None
    dropped: float | None = None
    as_read: int | None = None
    has_unknown: bool = False

    def value(self, text: str, score: Score) -> float | None:
        """What predictions compare; None if it is not known.

        Args:
            text: the scored part.
        """
        if score.kind == "sum":
            return self.logprob
        if score.kind in ("per_token", "slln"):
            return None if self.tokens is None else self.logprob / self.tokens**score.alpha
        lengths: dict[str, Callable[[], int]] = {
            "per_character": lambda: len(text),
            "per_byte": lambda: len(text.encode(errors="surrogatepass")),
            "per_word": lambda: len(text.split()),
        }
        return self.logprob / max(1, lengths[score.kind]())


Parts = Mapping[str, "Part | Unscorable"]


def part_of(string: String, score: Found) -> Part | Unscorable:
    """What a sentence's score says of a string.

    After a context, a token that reaches beyond the context belongs to the scored part, and with it the blank
    before it. The end of the sentence is scored only of whole strings.
    """
    if isinstance(score, Unscorable):
        return score
    before = (0, *score.ends[:-1])
    tokens = zip(score.tokens, score.starts, before, strict=True)
    as_read = hash((string.start, *((token, start > end) for token, start, end in tokens)))
    if string.start is None:
        logprob, n = score.total, len(score.tokens)
    else:
        ends = zip(score.ends, score.words, strict=True)
        taken = [i for i, (end, word) in enumerate(ends) if end > string.start and word >= 0]
        if not taken:
            return Unscorable(score.text, _NOTHING)
        logprob, n = float(score.logprobs[taken].sum()), len(taken)
    return Part(logprob, n, score.dropped, as_read, score.n_unknown > 0)


def evaluate_benchmark(
    items: Items, scorer: Scorer | Comparer, progress: Progress = no_progress, *, in_order: bool = False
) -> Results:
    """Score a benchmark with a model.

    A block of items at a time, each different string once and in lexicographic order, so that a scorer meets
    those that begin alike together. What stays in memory of an item are its rows in the table.

    Args:
        items: gone through three times.
        scorer: any scorer; it is handed the strings as they are. A comparer (``--beam auto``) scores each
            item by itself, as far as its outcomes need it.
        progress: wraps the iterator over scores of strings; of a comparer over items.
        in_order: the scorer is asked for the strings as the items have them, repeated ones again
            (:class:`pdtools.evaluation.RecordedScorer`).

    Returns:
        Scores (see :func:`scores_of`) and an ``items`` table with a row for each prediction of each item.
    """
    rows = _rows_of(items)
    if isinstance(scorer, Comparer):
        if items.benchmark.label is not None or items.benchmark.value is not None:
            raise items.refused("--beam auto decides predictions, and it has none: give a number")
        _compare(items, scorer, progress, rows)
        return rows.results(scorer.settings)
    texts_of = _in_order if in_order else _sorted
    total = sum(len(texts_of(block)) for block in _blocks(items))
    texts = (text for block in _blocks(items) for text in texts_of(block))
    scores = iter(progress(scorer.score(texts), total))
    for block in _blocks(items):
        asked = texts_of(block)
        found = list(islice(scores, len(asked)))
        if in_order:
            of_items = iter(found)
            parts = [
                {name: part_of(string, next(of_items)) for name, string in item.strings.items()}
                for item in block
            ]
        else:
            by_text = dict(zip(asked, found, strict=True))
            parts = [
                {name: part_of(string, by_text[string.text]) for name, string in item.strings.items()}
                for item in block
            ]
        rows.add(block, parts)
        rows.count(dict(zip(asked, found, strict=True)).values())
    _expect_end(scores)
    return rows.results(scorer.settings)


def evaluate_given(items: Items, given: Callable[[Item, str], float], settings: Mapping[str, Any]) -> Results:
    """Judge a benchmark by scores that others published, one of each string, the higher the better.

    Predictions about numbers of tokens are left out.

    Args:
        given: the score of an item's string, by its name.
        settings: where they are from.
    """
    rows = _rows_of(items, tokens=False)
    for block in _blocks(items):
        rows.add(block, [{name: Part(given(item, name), None) for name in item.strings} for item in block])
    return rows.results(dict(settings))


def _rows_of(items: Items, *, tokens: bool = True) -> Rows:
    from pdtools.evaluation.benchmark.graded import LabelRows, ValueRows

    if items.benchmark.label is not None:
        return LabelRows(items, tokens=tokens)
    return (Rows if items.benchmark.value is None else ValueRows)(items, tokens=tokens)


def _blocks(items: Iterable[Item]) -> Iterator[list[Item]]:
    every = iter(items)
    while block := list(islice(every, BLOCK)):
        yield block


def _sorted(block: Iterable[Item]) -> list[str]:
    """The different strings of these items."""
    return sorted({string.text for item in block for string in item.strings.values()})


def _in_order(block: Iterable[Item]) -> list[str]:
    return [string.text for item in block for string in item.strings.values()]


def _expect_end(scores: Iterator[Any]) -> None:
    """Let the scorer finish, which has nothing more to say."""
    for _ in scores:
        raise ValueError("more scores than strings")


# --- searches that are as wide as an item needs -----------------------------------------------


@dataclass(frozen=True, slots=True)
class ItemContest:
    """An item (:class:`pdtools.search.widening.Contest`): its predictions decide it.

    Attributes:
        strings: by name.
        formulas: the predictions, and what each compares.
    """

    strings: tuple[tuple[str, String], ...]
    formulas: tuple[tuple[Formula, Score], ...]

    @property
    def sums(self) -> Literal["totals"]:
        """See :class:`pdtools.search.widening.Contest`."""
        return "totals"

    @property
    def sentences(self) -> tuple[str, ...]:
        """See :class:`pdtools.search.widening.Contest`."""
        return tuple(string.text for _, string in self.strings)

    def decided(self, found: Sequence[Found], doubt: float) -> bool:
        """See :class:`pdtools.search.widening.Contest`."""
        strings = dict(self.strings)
        pairs = zip(self.strings, found, strict=True)
        parts = {name: part_of(string, score) for (name, string), score in pairs}
        return all(self._decided(*each, strings, parts, doubt) for each in self.formulas)

    @staticmethod
    def _decided(
        formula: Formula, score: Score, strings: Mapping[str, String], parts: Parts, doubt: float
    ) -> bool:
        values = _values(formula, score, strings, parts)
        if not isinstance(values, dict):
            return True
        known = {name: each for name, each in parts.items() if isinstance(each, Part)}
        if len({known[name].as_read for name in values}) == 1:  # a tie, however widely is searched
            return True
        # A score per token is off by less than a sum is.
        shortest = min(_length(known[name], strings[name], score) for name in values)
        return formula.truth(lambda _, name: values[name], doubt / shortest) is not None


def _length(part: Part, string: String, score: Score) -> float:
    """What a log-probability is divided by."""
    return 1 / abs(Part(1.0, part.tokens).value(string.scored, score) or 1.0)


def _compare(items: Items, comparer: Comparer, progress: Progress, rows: Rows) -> None:
    blocks = (block for block in _blocks(items))
    contests = (_contest(block[i], items) for block in blocks for i in _alike(block))
    found = iter(progress(comparer.compare(contests), sum(1 for _ in items)))
    for block in _blocks(items):
        compared = dict(zip(_alike(block), islice(found, len(block)), strict=True))
        in_order = [compared[i] for i in range(len(block))]
        parts = [
            {
                name: part_of(string, score)
                for (name, string), score in zip(item.strings.items(), each.scores, strict=True)
            }
            for item, each in zip(block, in_order, strict=True)
        ]
        rows.add(block, parts, in_order)
        texts = [string.text for item in block for string in item.strings.values()]
        scores = [score for each in in_order for score in each.scores]
        rows.count(dict(zip(texts, scores, strict=True)).values())
    _expect_end(found)


def _contest(item: Item, items: Items) -> ItemContest:
    formulas = items.benchmark.formulas(item.right, item.options)
    scores = items.benchmark.scores.values()
    return ItemContest(tuple(item.strings.items()), tuple(zip(formulas, scores, strict=True)))


def _alike(block: Sequence[Item]) -> list[int]:
    """Items that begin alike one after the other."""
    return sorted(range(len(block)), key=lambda i: [each.text for each in block[i].strings.values()])


# --- outcomes ---------------------------------------------------------------------------------


def judge(
    formula: Formula, score: Score, strings: Mapping[str, String], parts: Parts
) -> tuple[Outcome, str | None]:
    """Whether a prediction holds, and why that is not known where it is not.

    Strings that are the same tokens to the model have the same score: what else may tell them apart is
    rounding. A prediction that turns on two equal scores is a tie.
    """
    values = _values(formula, score, strings, parts)
    if not isinstance(values, dict):
        return "unscorable", values
    truth = formula.truth(lambda _, name: values[name], _EQUAL)
    return "tie" if truth is None else "right" if truth else "wrong", None


def _values(
    formula: Formula, score: Score, strings: Mapping[str, String], parts: Parts
) -> dict[str, float] | str:
    """What a prediction compares, by name; or why it is not known."""
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
            reasons.append(f"{name}: its number of tokens is not known")
            continue
        values[name] = value if part.as_read is None else same.setdefault(part.as_read, value)
    return "; ".join(reasons) or values


@dataclass(kw_only=True, slots=True)
class Tally:
    """Counts of one prediction about one finest group's items: all, scored, right, ties."""

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
    def share(self) -> float | None:
        """The right ones of the scored ones; None of nothing."""
        return self.right / self.scored if self.scored else None


Tallies = Mapping[tuple[str | None, ...], Tally]
"""By the groups of all levels, the finest last."""


def scores_of(tallies: Mapping[str, Tallies], items: Items) -> dict[str, Any]:
    """Shares of items whose prediction holds, as fractions of 1; None where no item has a score.

    Args:
        tallies: of each prediction, the one that counts first.

    Returns:
        ``overall``: the unweighted mean of the finest groups; ``mean_of_items``: over all items; ``by_…``:
        of each level, means of the finest groups in it; ``by_prediction``: the ``overall`` of each.
    """
    by_prediction = {name: _overall(of) for name, of in tallies.items()}
    main = next(iter(tallies.values()))
    names = list(items.benchmark.levels)
    scores: dict[str, Any] = {
        "overall": next(iter(by_prediction.values())),
        "mean_of_items": Tally(
            right=sum(each.right for each in main.values()), scored=sum(each.scored for each in main.values())
        ).share,
        "by_prediction": by_prediction,
    }
    for level in items.levels:
        at = names.index(level)
        groups: dict[str, dict[tuple[str | None, ...], Tally]] = {}
        for key, tally in main.items():
            if (group := key[at]) is not None:
                groups.setdefault(group, {})[key] = tally
        scores[f"by_{level}"] = {group: _overall(groups[group]) for group in sorted(groups)}
    scores[f"by_{items.unit}"] = {items.named(key): main[key].share for key in _ordered(main)}
    return scores


def _overall(tallies: Tallies) -> float | None:
    shares = (tallies[key].share for key in _ordered(tallies))
    return mean([share for share in shares if share is not None])


def _ordered(tallies: Tallies) -> list[tuple[str | None, ...]]:
    return sorted(tallies, key=lambda key: [level or "" for level in reversed(key)])


class Rows:
    """Judged items: counted by group, and put into a table block by block.

    Args:
        items: what they are.
        tokens: whether numbers of tokens are known: predictions about these are left out otherwise.

    Attributes:
        more: columns that kinds of benchmarks add, with their types, as :meth:`judged` has them.
    """

    @property
    def more(self) -> dict[str, pa.DataType]:
        """See the class."""
        return {}

    def __init__(self, items: Items, *, tokens: bool = True) -> None:
        self.items = items
        scores = items.benchmark.scores
        by_tokens = ("per_token", "slln")
        self.taken = [name for name in scores if tokens or scores[name].kind not in by_tokens]
        if not self.taken or self.taken[0] != next(iter(scores)):
            raise items.refused("its prediction is about tokens, and of these scores nobody knows how many")
        self.tallies: dict[str, dict[tuple[str | None, ...], Tally]] = {name: {} for name in self.taken}
        self.by_flag: dict[str, dict[str, Tally]] = {name: {} for name in items.benchmark.flags}
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

    def count(self, scores: Collection[Found]) -> None:
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
        }
        return pa.schema(
            {
                "item": pa.int64(),
                "prediction": pa.int32(),
                "formula": pa.string(),
                **dict.fromkeys(items.columns, pa.string()),
                **dict.fromkeys(items.benchmark.flags, pa.list_(pa.string())),
                **{f"{of}{name}": kind for name in items.names for of, kind in of_strings.items()},
                "beam": pa.int32(),
                "margin": pa.float64(),
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
                [part.logprob, part.tokens, part.dropped] if isinstance(part, Part) else [None, None, None]
            )
        wide = (None, None) if searched is None else (searched.beam, searched.margin)
        groups = self.items.groups(item.levels)
        judged = self.judged(item, parts)
        for number, (name, outcome, reason, more) in enumerate(judged, start=1):
            self.tallies[name].setdefault(item.levels, Tally()).add(outcome)
            correct = outcome == "right" if outcome in ("right", "wrong", "tie") else None
            if number == 1:
                for tallies, flags in zip(self.by_flag.values(), item.flags, strict=True):
                    for flag in flags:
                        tallies.setdefault(flag, Tally()).add(outcome)
            about = (item.number, number, self.items.benchmark.predictions[name])
            yield (*about, *groups, *map(list, item.flags), *strings, *wide, outcome, correct, reason, *more)

    def judged(
        self, item: Item, parts: Parts
    ) -> Iterator[tuple[str, Outcome | None, str | None, tuple[Any, ...]]]:
        """Of each prediction its name, what became of it, why it has no score, and ``more`` columns."""
        benchmark = self.items.benchmark
        formulas = dict(zip(benchmark.predictions, benchmark.formulas(item.right, item.options), strict=True))
        for name in self.taken:
            yield name, *judge(formulas[name], benchmark.scores[name], item.strings, parts), ()

    def results(self, scorer: dict[str, Any]) -> Results:
        """All of it."""
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
            f"by_{items.unit}": {
                items.named(key): {
                    "items": main[key].items,
                    "scored": main[key].scored,
                    "ties": main[key].ties,
                }
                for key in _ordered(main)
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
