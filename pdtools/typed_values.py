"""Values from TOML and JSON as the types of a dataclass's fields."""

from __future__ import annotations

import reprlib
import types
import typing
from collections.abc import Sequence
from typing import Any, Literal

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80


def shown(value: Any) -> str:
    """A value in a message about it: a long one cut, a deep one too."""
    return _REPR.repr(value)


def as_type(value: Any, wanted: Any) -> Any:
    """A value as a field's type: lists become tuples, and 3 becomes 3.0, or 3.0 3, where that is wanted.

    Raises:
        ValueError: what it should have been.
    """
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is Literal:
        if value not in arguments:
            raise ValueError("one of " + ", ".join(map(str, arguments)))
        return value
    if origin in (typing.Union, types.UnionType):
        return _as_any_type(value, arguments)
    if origin is tuple:
        variadic = len(arguments) == 2 and arguments[1] is Ellipsis
        a_list = "a list" if variadic else f"a list of {len(arguments)}"
        if not isinstance(value, (list, tuple)) or not (variadic or len(value) == len(arguments)):
            raise ValueError(a_list)
        try:
            return tuple(as_type(v, arguments[0] if variadic else t) for v, t in _pairs(value, arguments))
        except ValueError as error:
            raise ValueError(f"{a_list}, each {error}") from None
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if type(value) is not wanted:
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}
        raise ValueError(names.get(wanted, f"of type {wanted}"))
    return value


def _pairs(values: Sequence[Any], wanted: Sequence[Any]) -> list[tuple[Any, Any]]:
    return [(value, wanted[min(i, len(wanted) - 1)]) for i, value in enumerate(values)]


def _as_any_type(value: Any, choices: Sequence[Any]) -> Any:
    if type(None) in choices and value in (None, "none"):  # TOML has no null
        return None
    reasons = []
    for choice in choices:
        if choice is not type(None):
            try:
                return as_type(value, choice)
            except ValueError as error:
                reasons.append(str(error))
    raise ValueError(" or ".join(reasons + ["none"] * (type(None) in choices)))
