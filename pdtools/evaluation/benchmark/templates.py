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
_NUMBER = re.compile(r"-?[0-9]+")
_FILTERS: dict[str, Callable[[str], str]] = {
    "strip": str.strip,
    "lower": str.lower,
    "upper": str.upper,
    "capitalize": lambda text: text[:1].upper() + text[1:],
}
_KNOWN = f"a number, replace:A:B, split:SEPARATOR, {', '.join(_FILTERS)}"


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
        if self.name not in cells:
            raise NoColumnError(self.name, cells)
        value = cells[self.name]
        for each in self.filters:
            value = _filtered(value, each, self.name)
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

    @property
    def names(self) -> list[str]:
        """The columns in the template."""
        return [part.name for part in self._parts if isinstance(part, _Column)]

    def value(self, cells: Cells) -> Any:
        """The template's value in a row: the column's if it is only a column, else text.

        Raises:
            NoColumnError: if the row lacks a column.
            PdtoolsError: if a filter does not fit the value.
        """
        if len(self._parts) == 1 and isinstance(part := self._parts[0], _Column):
            return part.value(cells)
        return "".join(part if isinstance(part, str) else _text(part.value(cells)) for part in self._parts)

    def write(self, cells: Cells) -> str:
        """The value as text: numbers as they are written, empty for null.

        Raises:
            PdtoolsError: see :meth:`value`; for a list too.
        """
        return _text(self.value(cells))


def _is_filter(text: str) -> bool:
    name, *values = text.split(":")
    return _NUMBER.fullmatch(text) is not None or (
        (name in _FILTERS and not values)
        or (name == "replace" and len(values) == 2 and bool(values[0]))
        or (name == "split" and len(values) == 1 and bool(values[0]))
    )


def _filtered(value: Any, text: str, column: str) -> Any:
    if _NUMBER.fullmatch(text):
        if not isinstance(value, list) or not -len(value) <= int(text) < len(value):
            raise PdtoolsError(f"column {column!r}: there is no number {text} (from 0) of {value!r}")
        return value[int(text)]
    name, *values = text.split(":")
    if name == "replace":
        return _text(value).replace(values[0], values[1])
    return _text(value).split(values[0]) if name == "split" else _FILTERS[name](_text(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        raise PdtoolsError(f"{value!r} is no text: name one of it, {{column|0}}")
    return "" if value is None else str(value)
