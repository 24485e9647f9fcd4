"""BLiMP: is the acceptable sentence of a minimal pair the more probable one (Warstadt et al. 2020)?"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pdtools.errors import InputError
from pdtools.evaluation.archives import zip_lines
from pdtools.evaluation.results import ITEMS, Progress, Results, mean, no_progress
from pdtools.files import expand_inputs, read_lines
from pdtools.json_input import parse_json, text_of

if TYPE_CHECKING:
    from pdtools.search.scores import Scorer, SentenceScore, Unscorable

Outcome = Literal["right", "wrong", "tie", "unscorable"]

# The data spell one field in two ways, and name a phenomenon that the paper counts within another.
_FIELD_NAMES = {"syntax/semantics": "syntax_semantics"}
_PHENOMENON_NAMES = {"s-selection": "argument_structure"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A minimal pair.

    Attributes:
        paradigm: the ``UID``.
        phenomenon: one of the paper's 12.
        field: morphology, semantics, syntax or syntax_semantics.
        number: the ``pairID``.
        good, bad: the acceptable and the unacceptable sentence.
    """

    paradigm: str
    phenomenon: str
    field: str
    number: str
    good: str
    bad: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PairResult:
    """What a model says about a pair: log-probabilities in nats, and the numbers of rows they sum over."""

    pair: Pair
    outcome: Outcome
    logprob_good: float | None = None
    logprob_bad: float | None = None
    tokens_good: int | None = None
    tokens_bad: int | None = None
    text_good: str | None = None
    text_bad: str | None = None
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


# --- reading ----------------------------------------------------------------------------------


def read_pairs(source: str | Path, limit: int | None = None) -> list[Pair]:
    """Read minimal pairs: a folder of ``.jsonl`` files, one such file, or a zip of them.

    Args:
        source: where they are.
        limit: only the first so many pairs of each paradigm.

    Returns:
        The pairs, in the order of file names and lines.

    Raises:
        InputError: for a missing source, one without pairs, or a line that is not a pair.
    """
    pairs: list[Pair] = []
    taken: dict[str, int] = defaultdict(int)
    seen: set[tuple[str, str]] = set()
    for place, number, line in _lines(Path(source)):
        if not line.strip():
            continue
        pair = _pair(line, place, number)
        if (pair.paradigm, pair.number) in seen:
            raise InputError(f"a second pair {pair.number} of {pair.paradigm}", file=place, line=number)
        seen.add((pair.paradigm, pair.number))
        taken[pair.paradigm] += 1
        if limit is None or taken[pair.paradigm] <= limit:
            pairs.append(pair)
    if not pairs:
        raise InputError("no minimal pairs (.jsonl files) in it", file=source)
    return pairs


def _lines(source: Path) -> Iterator[tuple[str, int, str]]:
    if source.suffix == ".zip":
        yield from zip_lines(source, ".jsonl")
        return
    for file in expand_inputs([str(source)], [".jsonl"]):
        if not Path(file).name.startswith("."):
            yield from ((file, number, line) for number, line in read_lines(file))


def _pair(line: str, place: str, number: int) -> Pair:
    data = parse_json(line, place, number)
    try:
        field, phenomenon = text_of(data["field"]), text_of(data["linguistics_term"])
        good, bad = data["sentence_good"], data["sentence_bad"]
        if not isinstance(good, str) or not isinstance(bad, str):
            raise InputError("not a minimal pair: a sentence that is no text", file=place, line=number)
        return Pair(
            paradigm=sys.intern(text_of(data["UID"])),  # names that thousands of pairs share
            phenomenon=sys.intern(_PHENOMENON_NAMES.get(phenomenon, phenomenon)),
            field=sys.intern(_FIELD_NAMES.get(field, field)),
            number=text_of(data["pairID"]),
            good=text_of(good),
            bad=text_of(bad),
        )
    except (KeyError, TypeError, ValueError) as error:
        missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        if not isinstance(data, dict):
            missing = "not a JSON object"
        raise InputError(f"not a minimal pair: {missing}", file=place, line=number) from error


# --- evaluation -------------------------------------------------------------------------------


def evaluate_blimp(pairs: Sequence[Pair], scorer: Scorer, progress: Progress = no_progress) -> Results:
    """Score minimal pairs with a model.

    Every different sentence is scored once, so a pair of two identical sentences is a tie whatever the batch,
    and in lexicographic order, so that a scorer meets sentences that begin alike one after the other.

    Args:
        pairs: from :func:`read_pairs`.
        scorer: any scorer; it is handed the sentences as they are.
        progress: wraps the iterator over sentence scores.

    Returns:
        Scores (see :func:`blimp_scores`) and an ``items`` table with one row per pair.
    """
    texts = sorted({text for pair in pairs for text in (pair.good, pair.bad)})
    found = zip(texts, progress(scorer.score(texts), len(texts)), strict=True)
    scores = {text: _brief(score, text) for text, score in found}
    rows = [_judge(pair, scores[pair.good], scores[pair.bad]) for pair in pairs]
    with_unknown = {text for text, score in scores.items() if isinstance(score, _Brief) and score.has_unknown}
    return _results(rows, with_unknown, scorer)


def evaluate_recorded_blimp(
    pairs: Sequence[Pair], scorer: Scorer, progress: Progress = no_progress
) -> Results:
    """Score minimal pairs by surprisals that were computed elsewhere.

    Args:
        pairs: from :func:`read_pairs`.
        scorer: a :class:`pdtools.evaluation.surprisal_files.RecordedScorer`. It is asked for the sentences in
            the order of :func:`pdtools.evaluation.sentence_files.blimp_sentences`, repeated ones again.
        progress: wraps the iterator over sentence scores.

    Returns:
        As :func:`evaluate_blimp`.
    """
    texts = [text for pair in pairs for text in (pair.good, pair.bad)]
    rows: list[PairResult] = []
    with_unknown: set[str] = set()
    waiting: list[SentenceScore | Unscorable] = []
    for text, score in zip(texts, progress(scorer.score(texts), len(texts)), strict=True):
        if getattr(score, "n_unknown", 0):
            with_unknown.add(text)
        waiting.append(score)
        if len(waiting) == 2:
            rows.append(judge(pairs[len(rows)], *waiting))
            waiting = []
    return _results(rows, with_unknown, scorer)


def _results(rows: Sequence[PairResult], with_unknown: Set[str], scorer: Scorer) -> Results:
    settings = {
        "task": "blimp",
        "unit": "fraction of 1",
        "log_base": "nats",
        "decision": "total log-probability of the good sentence strictly greater; a tie is not right",
        "per_token": "overall_per_token decides by the mean log-probability of a token instead",
        "text": "sentences as in the data, written in the model's text style; final period and capitals kept",
        "scorer": scorer.settings,
    }
    sentences = len({text for row in rows for text in (row.pair.good, row.pair.bad)})
    return Results(
        scores=blimp_scores(rows),
        counts={**_counts(rows, sentences), "sentences_with_unknown_words": len(with_unknown)},
        settings=settings,
        tables={ITEMS: _table(rows)},
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
    n_tokens: int
    as_read: int  # differs where the tokens do
    has_unknown: bool


def _brief(score: SentenceScore | Unscorable, given: str) -> _Brief | Unscorable:
    from pdtools.search.scores import SentenceScore

    if not isinstance(score, SentenceScore):
        return score
    text = given if score.text == given else score.text  # one string, not two that are the same
    as_read = hash(tuple(_as_read(score)))
    return _Brief(text, score.total, len(score.logprobs), as_read, score.n_unknown > 0)


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
        tokens_good=good.n_tokens,
        tokens_bad=bad.n_tokens,
        text_good=good.text,
        text_bad=bad.text,
    )


def _as_read(score: SentenceScore) -> list[tuple[str, bool]]:
    """The tokens of a sentence, and whether something separates each from the token before it."""
    before = (0, *score.ends[:-1])
    return [
        (token, start > end) for token, start, end in zip(score.tokens, score.starts, before, strict=True)
    ]


def blimp_scores(rows: Sequence[PairResult]) -> dict[str, Any]:
    """Accuracies over the scored pairs, as fractions of 1; None where no pair has a score.

    Returns:
        ``overall``: the unweighted mean of the paradigms (with paradigms of one size, as in BLiMP, and every
        pair scored it is the mean over the pairs too, which is ``mean_of_items``); ``by_paradigm``;
        ``by_phenomenon`` and ``by_field``: means of their paradigms; ``overall_per_token``: as ``overall``,
        deciding by the mean log-probability of a token instead of the total.
    """
    paradigms = {row.pair.paradigm: row.pair for row in rows}
    by_paradigm = _accuracies(rows, lambda row: row.correct)
    per_token = _accuracies(rows, lambda row: row.correct_per_token)

    def grouped(group: Callable[[Pair], str]) -> dict[str, float | None]:
        found: dict[str, list[float]] = {group(pair): [] for pair in paradigms.values()}
        for name, score in by_paradigm.items():
            if score is not None:
                found[group(paradigms[name])].append(score)
        return {name: mean(found[name]) for name in sorted(found)}

    return {
        "overall": mean([score for score in by_paradigm.values() if score is not None]),
        "mean_of_items": mean([float(row.correct) for row in rows if row.correct is not None]),
        "overall_per_token": mean([score for score in per_token.values() if score is not None]),
        "by_field": grouped(lambda pair: pair.field),
        "by_phenomenon": grouped(lambda pair: pair.phenomenon),
        "by_paradigm": by_paradigm,
    }


def _accuracies(
    rows: Sequence[PairResult], correct: Callable[[PairResult], bool | None]
) -> dict[str, float | None]:
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        values = found[row.pair.paradigm]
        if (right := correct(row)) is not None:
            values.append(float(right))
    return {name: mean(found[name]) for name in sorted(found)}


def _counts(rows: Sequence[PairResult], sentences: int) -> dict[str, Any]:
    def number(outcome: Outcome, among: Iterable[PairResult]) -> int:
        return sum(row.outcome == outcome for row in among)

    by_paradigm: dict[str, list[PairResult]] = defaultdict(list)
    for row in rows:
        by_paradigm[row.pair.paradigm].append(row)
    return {
        "paradigms": len(by_paradigm),
        "pairs": len(rows),
        "pairs_scored": len(rows) - number("unscorable", rows),
        "pairs_unscorable": number("unscorable", rows),
        "ties": number("tie", rows),
        "sentences": sentences,
        "by_paradigm": {
            name: {
                "pairs": len(found),
                "scored": len(found) - number("unscorable", found),
                "ties": number("tie", found),
            }
            for name, found in sorted(by_paradigm.items())
        },
    }


def _table(rows: Sequence[PairResult]) -> Any:
    import pyarrow as pa

    of_pair = {
        "paradigm": "paradigm",
        "phenomenon": "phenomenon",
        "field": "field",
        "pair": "number",
        "sentence_good": "good",
        "sentence_bad": "bad",
    }
    of_row = {
        "text_good": pa.string(),
        "text_bad": pa.string(),
        "logprob_good": pa.float64(),
        "logprob_bad": pa.float64(),
        "tokens_good": pa.int32(),
        "tokens_bad": pa.int32(),
        "outcome": pa.string(),
        "correct": pa.bool_(),
        "reason": pa.string(),
    }
    # Column by column: a dictionary for every row would take more memory than all else.
    columns = {
        name: pa.array((getattr(row.pair, attribute) for row in rows), pa.string())
        for name, attribute in of_pair.items()
    }
    columns |= {name: pa.array((getattr(row, name) for row in rows), kind) for name, kind in of_row.items()}
    return pa.table(columns)
