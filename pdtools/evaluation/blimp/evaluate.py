"""BLiMP: is the acceptable sentence of a minimal pair the more probable one (Warstadt et al. 2020)?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from pdtools.evaluation.blimp.pairs import Pair, PairFiles, Pairs
from pdtools.evaluation.results import ITEMS, Batches, MeanAndMax, Progress, Results, mean, no_progress
from pdtools.search.scores import SentenceScore, Unscorable
from pdtools.search.widening import Comparer

if TYPE_CHECKING:
    import pyarrow as pa

    from pdtools.search.scores import Scorer
    from pdtools.search.widening import Found

Outcome = Literal["right", "wrong", "tie", "unscorable"]

# Pairs whose sentences are sorted together, and whose scores are in memory at the same time.
BLOCK = 4096

TokenRows = list[tuple[str, int, int, float]]
"""Of each token: itself, its first character in the text, the one after its last, its surprisal in nats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairResult:
    """What a model says about a pair: log-probabilities in nats, the numbers of rows they sum over, and the
    shares of the probabilities that a search dropped (:attr:`pdtools.search.SentenceScore.dropped`). Beam and
    margin (nats) are those of this pair, if it has its own. ``surprisals_…`` are what the
    totals sum."""

    pair: Pair
    outcome: Outcome
    logprob_good: float | None = None
    logprob_bad: float | None = None
    tokens_good: int | None = None
    tokens_bad: int | None = None
    text_good: str | None = None
    text_bad: str | None = None
    dropped_good: float | None = None
    dropped_bad: float | None = None
    beam: int | None = None
    margin: float | None = None
    surprisals_good: TokenRows | None = None
    surprisals_bad: TokenRows | None = None
    reason: str | None = None

    @property
    def correct(self) -> bool | None:
        """Whether the good sentence is strictly more probable; None if one of them has no score."""
        return None if self.outcome == "unscorable" else self.outcome == "right"

    @property
    def correct_per_token(self) -> bool | None:
        """The same for the mean log-probability of a token."""
        if (
            self.logprob_good is None
            or self.logprob_bad is None
            or not self.tokens_good
            or not self.tokens_bad
        ):
            return None
        if self.outcome == "tie" and self.tokens_good == self.tokens_bad:
            return False
        return self.logprob_good / self.tokens_good > self.logprob_bad / self.tokens_bad


# --- evaluation -------------------------------------------------------------------------------


def evaluate_blimp(pairs: Pairs, scorer: Scorer | Comparer, progress: Progress = no_progress) -> Results:
    """Score minimal pairs with a model.

    A block of pairs at a time, each different sentence once (so a pair of two identical ones is a tie
    whatever the batch) and in lexicographic order, so that a scorer meets those that begin alike together.
    What stays in memory of a pair is its row in the table.

    Args:
        pairs: gone through three times.
        scorer: any scorer; it is handed the sentences as they are. A comparer (``--beam auto``) scores each
            pair by itself, as far as its outcome needs it.
        progress: wraps the iterator over sentence scores; of a comparer over pairs.

    Returns:
        Scores (see :func:`blimp_scores`) and an ``items`` table with one row per pair. Sentences are counted
        once in each block of ``BLOCK`` pairs that they are in.
    """
    if isinstance(scorer, Comparer):
        return _evaluate_compared(pairs, scorer, progress)
    total = sum(len(_texts(block)) for block in _blocks(pairs))
    texts = (text for block in _blocks(pairs) for text in _texts(block))
    scores = iter(progress(scorer.score(texts), total))
    rows = _Rows()
    for block in _blocks(pairs):
        sentences = _texts(block)
        briefs = {
            text: _brief(score, text)
            for text, score in zip(sentences, islice(scores, len(sentences)), strict=True)
        }
        rows.add([_judge(pair, briefs[pair.good], briefs[pair.bad]) for pair in block])
        rows.count_sentences(briefs.values())
    _expect_end(scores)
    return _results(rows, scorer, pairs)


@dataclass(frozen=True, slots=True)
class PairContest:
    """A pair (:class:`pdtools.search.widening.Contest`): the differences of total log-probabilities, and of
    those per token, decide it."""

    sentences: tuple[str, str]

    @property
    def sums(self) -> Literal["totals"]:
        """See :class:`pdtools.search.widening.Contest`."""
        return "totals"

    def decided(self, found: Sequence[Found], doubt: float) -> bool:
        """See :class:`pdtools.search.widening.Contest`."""
        good, bad = found
        if isinstance(good, Unscorable) or isinstance(bad, Unscorable) or _as_read(good) == _as_read(bad):
            return True
        ratio = len(good.logprobs) / len(bad.logprobs)
        return all(abs(good.total - times * bad.total) > doubt for times in (1.0, ratio))


def _evaluate_compared(pairs: Pairs, comparer: Comparer, progress: Progress) -> Results:
    blocks = ([(pair.good, pair.bad) for pair in block] for block in _blocks(pairs))
    contests = (PairContest(block[i]) for block in blocks for i in _in_order(block))
    found = iter(progress(comparer.compare(contests), sum(1 for _ in pairs)))
    rows = _Rows()
    for block in _blocks(pairs):
        order = _in_order([(pair.good, pair.bad) for pair in block])
        judged: dict[int, PairResult] = {}
        briefs: dict[str, _Brief | Unscorable] = {}
        for i, compared in zip(order, islice(found, len(block)), strict=True):
            pair = block[i]
            good, bad = map(_brief, compared.scores, (pair.good, pair.bad))
            briefs |= {pair.good: good, pair.bad: bad}
            judged[i] = replace(_judge(pair, good, bad), beam=compared.beam, margin=compared.margin)
        rows.add([judged[i] for i in range(len(block))])
        rows.count_sentences(briefs.values())
    _expect_end(found)
    return _results(rows, comparer, pairs)


def _in_order(sentences: Sequence[tuple[str, str]]) -> list[int]:
    """Pairs that begin alike one after the other."""
    return sorted(range(len(sentences)), key=sentences.__getitem__)


def evaluate_recorded_blimp(pairs: Pairs, scorer: Scorer, progress: Progress = no_progress) -> Results:
    """Score minimal pairs by surprisals that were computed elsewhere.

    Args:
        pairs: gone through three times.
        scorer: a :class:`pdtools.evaluation.RecordedScorer`. It is asked for the sentences in the order of
            :func:`pdtools.evaluation.blimp_sentences`, repeated ones again.
        progress: wraps the iterator over sentence scores.

    Returns:
        As :func:`evaluate_blimp`.
    """
    total = sum(2 * len(block) for block in _blocks(pairs))
    given = (text for pair in pairs for text in (pair.good, pair.bad))
    scores = iter(progress(scorer.score(given), total))
    rows = _Rows()
    for block in _blocks(pairs):
        texts = [text for pair in block for text in (pair.good, pair.bad)]
        briefs = [_brief(score, text) for text, score in zip(texts, islice(scores, len(texts)), strict=True)]
        rows.add(list(map(_judge, block, briefs[::2], briefs[1::2])))
        rows.count_sentences(dict(zip(texts, briefs, strict=True)).values())
    _expect_end(scores)
    return _results(rows, scorer, pairs)


def _blocks(pairs: Pairs) -> Iterator[list[Pair]]:
    every = iter(pairs)
    while block := list(islice(every, BLOCK)):
        yield block


def _texts(block: Iterable[Pair]) -> list[str]:
    """The different sentences of these pairs, sorted."""
    return sorted({text for pair in block for text in (pair.good, pair.bad)})


def _expect_end(scores: Iterator[Any]) -> None:
    """Let the scorer finish, which has nothing more to say."""
    for _ in scores:
        raise ValueError("more scores than sentences")


def _results(rows: _Rows, scorer: Scorer | Comparer, pairs: Pairs) -> Results:
    settings = {
        "task": "blimp",
        "unit": "fraction of 1",
        "log_base": "nats",
        "decision": "total log-probability of the good sentence strictly greater; a tie is not right",
        "per_token": "overall_per_token decides by the mean log-probability of a token instead",
        "text": "sentences as in the data, written in the model's text style; final period and capitals kept",
        "limit": pairs.limit if isinstance(pairs, PairFiles) else None,
        "scorer": scorer.settings,
    }
    return Results(
        scores=blimp_scores(rows.tallies), counts=_counts(rows), settings=settings, tables={ITEMS: rows.table}
    )


def judge(pair: Pair, good: SentenceScore | Unscorable, bad: SentenceScore | Unscorable) -> PairResult:
    """Compare the two sentences of a pair by their total log-probabilities.

    Two sentences that are the same tokens to the model (they differ in unknown words) are a tie: what
    else may tell them apart is rounding.
    """
    return _judge(pair, _brief(good, pair.good), _brief(bad, pair.bad))


@dataclass(frozen=True, slots=True)
class _Brief:
    """Of a sentence's score what its pair needs, in little memory: there may be many sentences."""

    text: str
    total: float
    rows: TokenRows
    as_read: int  # differs where the tokens do
    has_unknown: bool
    dropped: float | None


def _brief(score: SentenceScore | Unscorable, given: str) -> _Brief | Unscorable:
    if not isinstance(score, SentenceScore):
        return score
    text = given if score.text == given else score.text  # one string, not two that are the same
    as_read = hash(tuple(_as_read(score)))
    return _Brief(text, score.total, _token_rows(score), as_read, score.n_unknown > 0, score.dropped)


def _token_rows(score: SentenceScore) -> TokenRows:
    return list(zip(score.tokens, score.starts, score.ends, (0.0 - score.logprobs).tolist(), strict=True))


def _judge(pair: Pair, good: _Brief | Unscorable, bad: _Brief | Unscorable) -> PairResult:
    if not isinstance(good, _Brief) or not isinstance(bad, _Brief):
        reasons = [
            f"{side}: {score.reason}"
            for side, score in (("good", good), ("bad", bad))
            if not isinstance(score, _Brief)
        ]
        return PairResult(pair=pair, outcome="unscorable", reason="; ".join(reasons))
    a, b = good.total, bad.total
    return PairResult(
        pair=pair,
        outcome="tie" if a == b or good.as_read == bad.as_read else "right" if a > b else "wrong",
        logprob_good=a,
        logprob_bad=b,
        tokens_good=len(good.rows),
        tokens_bad=len(bad.rows),
        text_good=good.text,
        text_bad=bad.text,
        dropped_good=good.dropped,
        dropped_bad=bad.dropped,
        surprisals_good=good.rows,
        surprisals_bad=bad.rows,
    )


def _as_read(score: SentenceScore) -> list[tuple[str, bool]]:
    """The tokens of a sentence, and whether something separates each from the token before it."""
    before = (0, *score.ends[:-1])
    return [
        (token, start > end) for token, start, end in zip(score.tokens, score.starts, before, strict=True)
    ]


@dataclass(kw_only=True, slots=True)
class Tally:
    """Counts of one paradigm's pairs.

    Attributes:
        phenomenon, field: what the paradigm belongs to; None where the data do not say.
        pairs: all of them.
        scored: those whose sentences both have a score.
        right: scored, and the good sentence is strictly more probable.
        ties: scored, and neither is.
        right_per_token, scored_per_token: the same by the mean log-probability of a token.
    """

    phenomenon: str | None
    field: str | None
    pairs: int = 0
    scored: int = 0
    right: int = 0
    ties: int = 0
    right_per_token: int = 0
    scored_per_token: int = 0

    def add(self, row: PairResult) -> None:
        """Count one more pair."""
        self.pairs += 1
        self.scored += row.correct is not None
        self.right += row.correct is True
        self.ties += row.outcome == "tie"
        self.scored_per_token += row.correct_per_token is not None
        self.right_per_token += row.correct_per_token is True


def blimp_scores(tallies: Mapping[str, Tally]) -> dict[str, Any]:
    """Accuracies over the scored pairs, as fractions of 1; None where no pair has a score.

    Args:
        tallies: of every paradigm.

    Returns:
        ``overall``: the unweighted mean of the paradigms (with paradigms of one size, as in BLiMP, and every
        pair scored it is the mean over the pairs too, which is ``mean_of_items``); ``by_paradigm``;
        ``by_phenomenon`` and ``by_field``: means of their paradigms; ``overall_per_token``: as ``overall``,
        deciding by the mean log-probability of a token instead of the total.
    """
    ordered = sorted(tallies.items())
    by_paradigm = {name: _ratio(tally.right, tally.scored) for name, tally in ordered}
    per_token = [_ratio(tally.right_per_token, tally.scored_per_token) for _, tally in ordered]

    def grouped(group: Callable[[Tally], str | None]) -> dict[str, float | None]:
        found: dict[str, list[float]] = {}
        for name, score in by_paradigm.items():
            if (of := group(tallies[name])) is not None:
                found.setdefault(of, []).extend([] if score is None else [score])
        return {name: mean(found[name]) for name in sorted(found)}

    right, scored = (sum(getattr(t, name) for t in tallies.values()) for name in ("right", "scored"))
    return {
        "overall": mean([score for score in by_paradigm.values() if score is not None]),
        "mean_of_items": _ratio(right, scored),
        "overall_per_token": mean([score for score in per_token if score is not None]),
        "by_field": grouped(lambda tally: tally.field),
        "by_phenomenon": grouped(lambda tally: tally.phenomenon),
        "by_paradigm": by_paradigm,
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


class _Rows:
    """Judged pairs: counted by paradigm, and put into a table (one row a pair) block by block."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}
        self.sentences = 0
        self.sentences_with_unknown = 0
        self.dropped = MeanAndMax()
        self.table = Batches(_record_batch([]).schema)

    def add(self, rows: Sequence[PairResult]) -> None:
        """Add the pairs of a block."""
        for row in rows:
            pair = row.pair
            tally = self.tallies.get(pair.paradigm)
            if tally is None:
                tally = self.tallies[pair.paradigm] = Tally(phenomenon=pair.phenomenon, field=pair.field)
            tally.add(row)
        self.table.append(_record_batch(rows))

    def count_sentences(self, briefs: Collection[_Brief | Unscorable]) -> None:
        """Count the different sentences of a block."""
        self.sentences += len(briefs)
        for brief in briefs:
            if isinstance(brief, _Brief):
                self.sentences_with_unknown += brief.has_unknown
                self.dropped.add(brief.dropped)


def _counts(rows: _Rows) -> dict[str, Any]:
    tallies = rows.tallies
    pairs, scored = (sum(getattr(t, name) for t in tallies.values()) for name in ("pairs", "scored"))
    return {
        "paradigms": len(tallies),
        "pairs": pairs,
        "pairs_scored": scored,
        "pairs_unscorable": pairs - scored,
        "ties": sum(tally.ties for tally in tallies.values()),
        "sentences": rows.sentences,
        "by_paradigm": {
            name: {"pairs": tally.pairs, "scored": tally.scored, "ties": tally.ties}
            for name, tally in sorted(tallies.items())
        },
        "sentences_with_unknown_words": rows.sentences_with_unknown,
        **rows.dropped.as_count("dropped"),
    }


def _record_batch(rows: Sequence[PairResult]) -> pa.RecordBatch:
    import pyarrow as pa

    of_pair = {
        "paradigm": "paradigm",
        "phenomenon": "phenomenon",
        "field": "field",
        "pair": "number",
        "sentence_good": "good",
        "sentence_bad": "bad",
    }
    of_token = {"token": pa.string(), "start": pa.int32(), "end": pa.int32(), "surprisal": pa.float32()}
    surprisals = pa.list_(pa.struct(of_token))
    of_row = {
        "text_good": pa.string(),
        "text_bad": pa.string(),
        "logprob_good": pa.float64(),
        "logprob_bad": pa.float64(),
        "tokens_good": pa.int32(),
        "tokens_bad": pa.int32(),
        "dropped_good": pa.float64(),
        "dropped_bad": pa.float64(),
        "beam": pa.int32(),
        "margin": pa.float64(),
        "outcome": pa.string(),
        "correct": pa.bool_(),
        "surprisals_good": surprisals,
        "surprisals_bad": surprisals,
        "reason": pa.string(),
    }
    # Column by column: a dictionary for every row would take more memory than all else.
    columns = {
        name: pa.array((getattr(row.pair, attribute) for row in rows), pa.string())
        for name, attribute in of_pair.items()
    }
    columns |= {name: pa.array((getattr(row, name) for row in rows), kind) for name, kind in of_row.items()}
    return pa.record_batch(columns)
