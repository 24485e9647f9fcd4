"""EVALB's own table, character for character."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pdtools.evaluation.parsing.evalb import BracketScore, SentenceRow, percent
from pdtools.evaluation.parsing.prm import Parameters

_RULE = "=" * 76
_HEAD = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag",
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
    _RULE,
)
_STATUS = {"scored": 0, "error": 1, "skipped": 2}


class TooManyErrors(Exception):
    """EVALB's limit ``MAX_ERROR`` was passed: the table ends without a summary."""


def evalb_lines(rows: Iterable[SentenceRow], parameters: Parameters) -> Iterator[tuple[str, bool]]:
    """The lines that EVALB prints: (line, whether it goes to standard error), without line ends.

    Raises:
        TooManyErrors: after the first error over EVALB's limit, at which it gives up.
    """
    for line in _HEAD:
        yield line, False
    whole, short, errors = BracketScore(), BracketScore(), 0
    for row in rows:
        if row.status == "error":
            yield f"{row.line} : {row.reason}", True
            # EVALB compares its count before adding to it, so the error after the first too many ends it.
            if errors > parameters.max_error:
                raise TooManyErrors
            errors += 1
        whole += BracketScore.of(row)
        if row.length <= parameters.cutoff_len:
            short += BracketScore.of(row)
        yield _row(row), False
    yield from ((line, False) for line in _totals(whole, short, parameters))


def _row(row: SentenceRow) -> str:
    return (
        f"{row.line:4d}  {row.length:3d}    {_STATUS[row.status]}  {row.recall:6.2f} {row.precision:6.2f}"
        f"   {row.matched:3d}    {row.gold:3d}  {row.predicted:3d}    {row.crossing:3d}"
        f"   {row.words:4d}  {row.correct_tags:4d}   {percent(row.correct_tags, row.words):6.2f}"
    )


def _totals(whole: BracketScore, short: BracketScore, parameters: Parameters) -> Iterator[str]:
    yield _RULE
    brackets = ""
    if whole.gold and whole.predicted:
        brackets = (
            f"{'':16}{whole.recall:6.2f} {whole.precision:6.2f} {whole.matched:6d}"
            f" {whole.gold:5d} {whole.predicted:5d}  {whole.crossing:5d}"
        )
    yield f"{brackets}  {whole.words:5d} {whole.correct_tags:5d}   {whole.tagging_accuracy:6.2f}"
    yield "=== Summary ==="
    yield from ("", "-- All --", *_summary(whole))
    yield from ("", f"-- len<={parameters.cutoff_len} --", *_summary(short))


def _summary(score: BracketScore) -> Iterator[str]:
    for name, count in (
        ("Number of sentence", score.sentences),
        ("Number of Error sentence", score.errors),
        ("Number of Skip  sentence", score.skipped),
        ("Number of Valid sentence", score.scored),
    ):
        yield f"{name:26}= {count:6d}"
    f1 = "  -nan" if score.f1 is None else f"{score.f1:6.2f}"  # 0/0, as C prints it on x86
    for name, value in (
        ("Bracketing Recall", f"{score.recall:6.2f}"),
        ("Bracketing Precision", f"{score.precision:6.2f}"),
        ("Bracketing FMeasure", f1),
        ("Complete match", f"{score.complete_match:6.2f}"),
        ("Average crossing", f"{score.average_crossing:6.2f}"),
        ("No crossing", f"{percent(score.no_crossing, score.scored):6.2f}"),
        ("2 or less crossing", f"{percent(score.two_or_less_crossing, score.scored):6.2f}"),
        ("Tagging accuracy", f"{score.tagging_accuracy:6.2f}"),
    ):
        yield f"{name:26}= {value}"
