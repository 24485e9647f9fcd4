"""JSON from other programs, parsed so that every defect is an error of one line."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from pdtools.errors import InputError

_MAY_BE_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MOST_DIGITS = 400  # no float is longer; the time to read an integer grows with its square


class _NoJson(ValueError):
    """A value that standard JSON does not allow, or that no float holds."""


def parse_json(
    text: str, source: str | Path, line: int | None = None, *, lone_surrogates: bool = False
) -> Any:
    r"""Parse a JSON document.

    Stricter than Python: NaN, infinities, numbers that no float can hold (``1e999``) and objects with a key
    twice are refused.

    Args:
        text: the document.
        source: the file to name.
        line: the line that the document stands on, if it is one of several; else lines are counted in it.
        lone_surrogates: take strings such as ``"\ud800"``, which UTF-8 cannot hold, but by which our own
            documents spell file names that are not UTF-8.

    Raises:
        InputError: for everything that cannot be parsed; nesting too deep among it.
    """
    try:
        value = _DECODER.decode(text)
        if not lone_surrogates and _MAY_BE_LONE_SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", file=source, line=line or error.lineno) from error
    except _NoJson as error:
        raise InputError(f"not JSON: {error}", file=source, line=line) from error
    except UnicodeEncodeError as error:
        code = f"\\u{ord(error.object[error.start]):04x}"
        raise InputError(
            f"a lone surrogate, {code}, which is no character", file=source, line=line
        ) from error
    except RecursionError as error:
        raise InputError("not usable JSON: nested too deep", file=source, line=line) from error
    return value


def text_of(value: Any) -> str:
    """A string of a document; an integer becomes one.

    Raises:
        TypeError: for anything else.
        ValueError: for a string with a NUL in it.
    """
    if not isinstance(value, (str, int)):
        raise TypeError(f"a {type(value).__name__} where text is expected")
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a NUL in a text")
    return str(value)


def number_of(value: Any) -> int:
    """A whole number of a document; a string may spell it.

    Raises:
        TypeError: for anything else.
        ValueError: for a number of more than 32 bits too.
    """
    number = int(text_of(value))
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{number if number.bit_length() < 64 else 'a number'} is out of range")
    return number


def _number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refused(text)


def _integer(text: str) -> int:
    return int(text) if len(text) <= _MOST_DIGITS else _refused(text)


def _refused(text: str) -> Any:
    raise _NoJson(f"the number {text if len(text) < 40 else text[:37] + '...'}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for number, key in enumerate(keys) if key in keys[:number])
        raise _NoJson(f"the key {twice if len(twice) < 40 else twice[:37] + '...'} twice in one object")
    return found


# Made once: for short documents, making it takes as long as parsing.
_DECODER = json.JSONDecoder(
    parse_float=_number, parse_int=_integer, parse_constant=_refused, object_pairs_hook=_object
)
