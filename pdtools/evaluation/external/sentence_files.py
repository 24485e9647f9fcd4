"""Files of the sentences of SG, BLiMP and other benchmarks, to be scored by external models."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pdtools.errors import InputError
from pdtools.evaluation.benchmark.items import Items
from pdtools.evaluation.blimp.pairs import Pair
from pdtools.evaluation.sg.evaluate import present
from pdtools.evaluation.sg.suites import Suite, sentences
from pdtools.files import atomic_table, atomic_text

SG_COLUMNS = ("suite", "item", "condition")
BLIMP_COLUMNS = ("paradigm", "pair", "side")
BENCHMARK_COLUMNS = ("group", "item", "string")


@dataclass(frozen=True, slots=True)
class PlacedSentence:
    """A sentence and its place in the data.

    The place is (suite, item, condition), (paradigm, pair, side) or (group, item, string).
    """

    place: tuple[str, str, str]
    text: str


def sg_sentences(suites: Iterable[Suite], text_style: str = "ptb") -> Iterator[PlacedSentence]:
    """Every sentence of SG suites in a fixed order: by suite (sorted by name), item and condition.

    Args:
        suites: from :class:`pdtools.evaluation.sg.suites.SuiteFiles`.
        text_style: ``ptb``: words spaced as in the suites; ``raw``: as people write them.
    """
    for suite, item, condition in sentences(suites):
        text = condition.text if text_style == "ptb" else present(condition, text_style).sentence.text
        yield PlacedSentence((suite.name, str(item.number), condition.name), text)


def blimp_sentences(pairs: Iterable[Pair]) -> Iterator[PlacedSentence]:
    """Every sentence of minimal pairs, in the order of the pairs, the good one first."""
    for pair in pairs:
        for side, text in (("good", pair.good), ("bad", pair.bad)):
            yield PlacedSentence((pair.paradigm, pair.number, side), text)


def benchmark_strings(items: Items) -> Iterator[PlacedSentence]:
    """Every string of a benchmark, in the order of the items."""
    for item in items:
        for name, string in item.strings.items():
            yield PlacedSentence((items.named(item.levels), str(item.number), name), string.text)


def place_names(columns: Sequence[str], found: Iterable[PlacedSentence]) -> Iterator[str]:
    """Names of sentences for messages, such as "suite cleft, item 3, condition what"."""
    for sentence in found:
        yield ", ".join(f"{column} {value}" for column, value in zip(columns, sentence.place, strict=True))


def write_sentences(
    found: Iterable[PlacedSentence],
    columns: Sequence[str],
    output: str | Path,
    *,
    text_only: bool = False,
    overwrite: bool = True,
) -> int:
    """Write sentences, one a line: line n after the header is the sentence of ``sentence_id`` n.

    Args:
        found: from :func:`sg_sentences` or :func:`blimp_sentences`.
        columns: the parts of their places; the header has these and ``text``.
        output: a table, see :func:`pdtools.files.atomic_table` (``-``: TSV to standard output).
        text_only: only the sentences, without a header, as ``pdtools surprisal`` reads them.
        overwrite: see :func:`pdtools.files.atomic_path`.

    Returns:
        The number of sentences.

    Raises:
        InputError: for a sentence or name with a tab or line break in it, which such a file cannot hold.
    """
    written = 0
    with contextlib.ExitStack() as stack:
        if text_only:
            lines = stack.enter_context(atomic_text(output, overwrite=overwrite))
        else:
            write = stack.enter_context(atomic_table(output, (*columns, "text"), overwrite=overwrite))
        for sentence in found:
            cells = (*sentence.place, sentence.text)
            if any(mark in cell for cell in cells for mark in "\t\r\n"):
                raise InputError(f"{cells}: a tab or line break cannot be written in a line of a table")
            if text_only:
                lines.write(sentence.text + "\n")
            else:
                write(cells)
            written += 1
    return written
