"""What the fuzz targets share: how many examples, how valid inputs are broken, and what may be raised.

``PDTOOLS_FUZZ_EXAMPLES`` sets the number of examples of each target, drawn anew in each run. Without
it they are the same in all runs. ``soak.py`` runs them for a given time.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from pdtools.errors import PdtoolsError

EXAMPLES = int(os.environ.get("PDTOOLS_FUZZ_EXAMPLES", "40"))

fuzz = settings(
    max_examples=EXAMPLES or 1,
    derandomize="PDTOOLS_FUZZ_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
        HealthCheck.large_base_example,
    ],
)
"""The settings of every fuzz target. Files of function-scoped fixtures are written anew by each example."""


@contextmanager
def refusing() -> Iterator[None]:
    """Errors that a user can act on are fine, in one line of bounded length; anything else is a bug."""
    try:
        yield
    except PdtoolsError as error:
        message = str(error)
        assert len(message) < 2000, message
        assert "Traceback" not in message


_MARKS = [
    b"\x00",
    b"\xff",
    b"\xfe",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
]
_SPACES = [b"\r\n", b"\r", b"\n", b"\t", b" "]
_SIGNS = [bytes([sign]) for sign in b'()[]{}"\\%;,']
_VALUES = [b"\\ud800", b"\\u0000", b"1e999", b"NaN", b"-Infinity", b"9" * 30, b"-1", b"(" * 8, b"[" * 8]
_INTERESTING = st.sampled_from([*_MARKS, *_SPACES, *_SIGNS, *_VALUES])


@st.composite
def broken(draw: st.DrawFn, base: bytes) -> bytes:
    """Bytes with a few parts replaced, taken out or put in."""
    data = bytearray(base)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.integers(0, 20))
        data[start:end] = draw(st.one_of(_INTERESTING, st.binary(max_size=8), st.just(b"")))
    return bytes(data)


JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**63, -(2**70), 10**300, 1e308, -0.0, 0.5, "", "\x00", "a\nb", "1", "x" * 300]),
    st.sampled_from([[], {}, [[]], {"a": {}}, [None], "\ud800", "\u2028", "é", "((((", "%", "../../x"]),
    st.text(max_size=8),
)


@st.composite
def altered(draw: st.DrawFn, base: Any) -> Any:
    """A JSON value with a few of its parts replaced, taken out or repeated."""
    value = copy.deepcopy(base)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(value))
        if not places:
            return copy.deepcopy(draw(JUNK))
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        action = draw(st.sampled_from(["replace", "replace", "remove", "repeat"]))
        if action == "replace":
            holder[key] = copy.deepcopy(draw(JUNK))  # what is drawn is the same object each time
        elif action == "remove":
            del holder[key]
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        else:
            holder[str(key) + "2"] = holder[key]
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    agenda = [value]
    while agenda:
        holder = agenda.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, inside in list(items):
            yield holder, key
            if isinstance(inside, (dict, list)):
                agenda.append(inside)


def documents(base: Any) -> st.SearchStrategy[bytes]:
    """JSON documents: valid ones altered, their bytes broken, and bytes that are none."""
    valid = json.dumps(base).encode()
    return st.one_of(
        altered(base).map(lambda value: json.dumps(value).encode()), broken(valid), st.binary(max_size=40)
    )


def deep(opening: str, middle: str, closing: str, n: int = 100_000) -> str:
    """Something nested far deeper than Python recurses."""
    return opening * n + middle + closing * n
