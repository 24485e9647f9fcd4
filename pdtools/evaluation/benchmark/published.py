"""Published scores, one for each string."""

from __future__ import annotations

import math
from pathlib import Path

from pdtools.errors import InputError
from pdtools.evaluation.benchmark.item_set import Item
from pdtools.files import is_csv, read_table

_SIGNS = {"score": 1.0, "surprisal": -1.0}


class PublishedScores:
    """A table with a header and the columns ``item`` (its number, from 1), ``string`` (its name), and
    ``score`` or ``surprisal``, of which the lower is better.

    Other columns are ignored. :class:`pdtools.evaluation.benchmark.items.Items` numbers items and names
    strings.

    Args:
        source: the file, see :func:`pdtools.files.read_table`.

    Raises:
        InputError: for a table that lacks a column, has a string twice, or a score that is no number.
    """

    def __init__(self, source: str | Path) -> None:
        self._source = source
        self._scores: dict[tuple[int, str], float] = {}
        self._used: set[tuple[int, str]] = set()
        lines = read_table(source)
        number, columns = next(lines, (1, [""]))
        self.column = "score" if "score" in columns or "surprisal" not in columns else "surprisal"
        wanted = ("item", "string", self.column)
        if missing := [name for name in wanted if name not in columns]:
            reason = f"no column {', '.join(missing)} in the header"
            hint = "commas" if is_csv(source) else "tabs"
            raise InputError(reason, file=source, line=number, hint=hint)
        at = [columns.index(name) for name in wanted]
        for number, cells in lines:
            if cells == [""]:
                continue
            if len(cells) != len(columns):
                reason = f"{len(cells)} columns, the header has {len(columns)}"
                raise InputError(reason, file=source, line=number)
            item, string, text = (cells[i].strip() for i in at)
            try:
                key, score = (int(item), string), float(text)
            except ValueError:
                score = math.nan
            if not math.isfinite(score):
                reason = f"item {item[:40]!r} with the score {text[:40]!r}: two numbers are needed"
                raise InputError(reason, file=source, line=number)
            if key in self._scores:
                raise InputError(f"a second score of {string} of item {item}", file=source, line=number)
            self._scores[key] = _SIGNS[self.column] * score

    @property
    def unused(self) -> int:
        """The number of scores whose string was never requested."""
        return len(self._scores) - len(self._used)

    def __call__(self, item: Item, string: str) -> float:
        """The score of an item's string, the higher the better.

        Raises:
            InputError: if there is no such score.
        """
        key = int(item.name), string
        self._used.add(key)
        try:
            return self._scores[key]
        except KeyError:
            hint = "--write-sentences writes all items and strings"
            reason = f"no score of {string} of item {item.name}"
            raise InputError(reason, file=self._source, hint=hint) from None
