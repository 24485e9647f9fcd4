"""Templates over the columns of a row: ``{good.prefix} {good.form}``, ``{word|replace:_: }``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pdtools.errors import PdtoolsError

Cells = Mapping[str, Any]
"""Cells of a row by column: text, or any value of JSON and Parquet."""

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_FILTERS: dict[str, Callable[[str], str]] = {
    "strip": str.strip,
    "lower": str.lower,
    "upper": str.upper,
    "capitalize": lambda text: text[:1].upper() + text[1:],
}
_KNOWN = f"a number, replace:A:B, split:SEPARATOR, {', '.join(_FILTERS)}"
# Filters one after another, and columns named again, can multiply a row's text without end.
_ALWAYS, _MOST_TIMES = 10_000, 10


_SHOWN = 60  # characters of a template in a message


class NoColumnError(PdtoolsError):
    """A row lacks the column that a template names."""

    def __init__(self, name: str, cells: Cells) -> None:
        there = ", ".join(map(str, cells))
        super().__init__(f"no column {name!r} (there are: {there})")


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    filters: tuple[str, ...]

    def value(self, cells: Cells) -> Any:
        value = _found(cells, self.name)
        for each in self.filters:
            value = _filtered(value, each, self.name, cells)
        return value


@dataclass(frozen=True, slots=True)
class Template:
    """A text with columns in braces, each with filters after ``|``; ``{{`` and ``}}`` are braces.

    Attributes:
        text: the template as written.
    """

    text: str
    _parts: tuple[str | _Column, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Parse a template.

        Raises:
            PdtoolsError: for braces that do not pair up, and unknown filters.
        """
        parts: list[str | _Column] = []
        end = 0
        for found in _PART.finditer(text):
            if found.start() > end:
                parts.append(text[end : found.start()])
            end = found.end()
            if found[0] in ("{{", "}}"):
                parts.append(found[0][0])
            elif not found[1]:
                raise PdtoolsError(f"{text!r}: {found[0]!r} is no column: {{name}}, and {{{{ for a brace")
            else:
                name, *filters = found[1].split("|")
                if unknown := next((each for each in filters if not _is_filter(each)), None):
                    raise PdtoolsError(f"{text!r}: unknown filter {unknown!r} (known: {_KNOWN})")
                parts.append(_Column(name, tuple(filters)))
        return cls(text, (*parts, *([text[end:]] if end < len(text) else [])))

    def lacks(self, cells: Cells) -> bool:
        """Return whether a column of the template is missing in a row, or has nothing in it."""
        try:
            return any(part.value(cells) in (None, "") for part in self._parts if isinstance(part, _Column))
        except NoColumnError:
            return True

    def value(self, cells: Cells) -> Any:
        """The template's value in a row: the column's if it is only a column, else text.

        Raises:
            NoColumnError: if the row lacks a column.
            PdtoolsError: if a filter does not fit the value.
        """
        if len(self._parts) == 1 and isinstance(part := self._parts[0], _Column):
            return part.value(cells)
        texts: list[str] = []
        length = 0
        for part in self._parts:
            texts.append(part if isinstance(part, str) else _text(part.value(cells)))
            length += len(texts[-1]) if isinstance(part, _Column) else 0
            _check_length(length, self.text, cells)
        return "".join(texts)

    def write(self, cells: Cells) -> str:
        """The value as text: numbers as they are written, empty for null.

        Raises:
            PdtoolsError: see :meth:`value`; for a list too.
        """
        return _text(self.value(cells))


def _found(cells: Cells, name: str) -> Any:
    """The value of a column; or, after a dot, of a key in it, and in each object of a list in it.

    Raises:
        PdtoolsError: if there is none.
    """
    head, keys = name, ""
    while head not in cells:
        head, dot, key = head.rpartition(".")
        if not dot:
            raise NoColumnError(name, cells)
        keys = f"{key}.{keys}" if keys else key
    value = cells[head]
    if not keys:
        return value
    if isinstance(value, list) and all(isinstance(each, dict) for each in value):
        return [_found(each, keys) for each in value]
    if not isinstance(value, dict):
        raise PdtoolsError(f"column {head!r} holds no {keys!r}: it is {str(value)[:_SHOWN]!r}")
    return _found(value, keys)


def _is_filter(text: str) -> bool:
    name, *values = text.split(":")
    return _NUMBER.fullmatch(text) is not None or (
        (name in _FILTERS and not values)
        or (name == "replace" and len(values) == 2 and bool(values[0]))
        or (name == "split" and len(values) == 1 and bool(values[0]))
    )


def _check_length(length: int, of: str, cells: Cells) -> None:
    """Refuse a text that is implausibly long for its row."""
    if length > _ALWAYS and length > _MOST_TIMES * sum(len(str(each)) for each in cells.values()):
        reason = f"makes more than {_ALWAYS:,} characters, and {_MOST_TIMES} times those of the row"
        raise PdtoolsError(f"{of[:_SHOWN]!r} {reason}")


def _filtered(value: Any, text: str, column: str, cells: Cells) -> Any:
    if _NUMBER.fullmatch(text):
        if not isinstance(value, list) or not -len(value) <= int(text) < len(value):
            raise PdtoolsError(f"column {column!r}: there is no number {text} (from 0) of {value!r}")
        return value[int(text)]
    name, *values = text.split(":")
    if name == "replace":
        before, (old, new) = _text(value), values
        _check_length(len(before) + before.count(old) * (len(new) - len(old)), text, cells)
        return before.replace(old, new)
    return _text(value).split(values[0]) if name == "split" else _FILTERS[name](_text(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        raise PdtoolsError(f"{value!r} is no text: name one of it, {{column|0}}")
    return "" if value is None else str(value)
