"""Conversions between Python, numpy and Arrow without pandas.

pyarrow's own conversions load pandas if it is installed, which takes 0.2 s in each process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_array(values: NDArray[Any]) -> pa.Array:
    """Convert numbers (not copied) or bools (n) to an Arrow array."""
    import pyarrow as pa

    type_ = pa.from_numpy_dtype(values.dtype)
    is_bits = values.dtype == np.bool_
    data = np.packbits(values, bitorder="little") if is_bits else np.ascontiguousarray(values)
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(data)])


def numpy_array(values: pa.Array | pa.ChunkedArray, dtype: type[np.generic]) -> NDArray[Any]:
    """Convert numbers (n), none of them null, to type ``dtype``; not copied if they are in one chunk."""
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        chunks = [numpy_array(chunk, dtype) for chunk in values.chunks]
        return chunks[0] if len(chunks) == 1 else np.concatenate([np.zeros(0, dtype), *chunks])
    data = values.buffers()[1]
    if data is None:
        return np.zeros(0, dtype)
    return np.frombuffer(data, dtype)[values.offset : values.offset + len(values)]


def string_array(strings: Sequence[str]) -> pa.StringArray:
    """Convert Python strings (n) to Arrow."""
    import pyarrow as pa

    encoded = [string.encode() for string in strings]
    ends = np.zeros(len(encoded) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(map(len, encoded), np.int32, len(encoded)), out=ends[1:])
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def join_lists(words: pa.StringArray, bounds: NDArray[np.int32]) -> pa.StringArray:
    """Join words with single spaces into (s) texts, whose beginnings and ends are ``bounds`` (s + 1)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = pa.ListArray.from_arrays(arrow_array(bounds), words)
    return pc.binary_join(lists, string_array([" "])[0])


def list_of_words(words: pa.StringArray) -> list[str]:
    """Convert strings without spaces to Python."""
    if not len(words):
        return []
    text: str = join_lists(words, np.array([0, len(words)], dtype=np.int32))[0].as_py()
    return text.split(" ")


def cut_tables(tables: Iterable[pa.Table], n_rows: int) -> Iterator[pa.Table]:
    """Cut tables into tables of ``n_rows`` rows, the last perhaps shorter, without a copy."""
    import pyarrow as pa

    n_waiting = 0
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        n_waiting += table.num_rows
        while n_waiting >= n_rows:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, n_rows)
            waiting, n_waiting = [joined.slice(n_rows)], n_waiting - n_rows
    if n_waiting:
        yield pa.concat_tables(waiting)
