"""Pairs of a transduction task as files, and as the input of models: the rows of a batch.

Files are tables with the columns ``length``, ``x`` and ``y``. Rows are

- masked: ``ROOT x <out> … <out>``, one ``<out>`` for each symbol of y, which is predicted in its place;
- causal: ``ROOT x <out> y``: each symbol of y is predicted from everything before it. Without the
  ``<out>`` between them, the end of x would have to be guessed, and y with it.

``<out>`` is the released code's empty output token, in the same places. As released, symbols of x that do not
fit in a causal model's embedding all look like ``<out>``. (Prediction of y_t without y_{t-1}, as there, is an
option of the model, its ``as_released``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import atomic_table, read_table
from pdtools.formal.transductions import StringPairs, Task
from pdtools.tokenization import Tokenizer, train_word_tokenizer

if TYPE_CHECKING:
    from pdtools.models import Batch

Int64 = NDArray[np.int64]

_COLUMNS = ("length", "x", "y")
_SHOWN = 12  # symbols of a right answer shown in a message about a wrong one
OUT = "<out>"


def task_tokenizer(task: Task) -> Tokenizer:
    """The tokenizer of a task: its symbols and ``<out>``, no ``<unk>``."""
    return train_word_tokenizer((*task.symbols, OUT), min_count=1, unk=False)


@dataclass(frozen=True, kw_only=True)
class RowLayout:
    """Conversion of pairs to rows for one kind of model.

    Attributes:
        task: the task.
        tokenizer: from :func:`task_tokenizer`.
        objective: as in the model's configuration.

    Raises:
        PdtoolsError: if the tokenizer is not the task's.
    """

    task: Task
    tokenizer: Tokenizer
    objective: Literal["causal", "masked"]

    def __post_init__(self) -> None:
        if self.tokenizer.fingerprint != task_tokenizer(self.task).fingerprint:
            raise PdtoolsError(f"this model's tokens are not the symbols of the task {self.task.name}")

    @property
    def out(self) -> int:
        """The token ``<out>``."""
        return self.tokenizer.word_tokens(OUT)[0]

    @property
    def token_of_symbol(self) -> Int64:
        """The tokens of the symbols of x and y: int64 (S,)."""
        return np.array([self.tokenizer.word_tokens(symbol)[0] for symbol in self.task.symbols])

    @property
    def output_tokens(self) -> Int64:
        """Tokens of the symbols that y may have."""
        return np.array([self.tokenizer.word_tokens(symbol)[0] for symbol in self.task.outputs])

    def first_position(self, length: int) -> int:
        """The position at which y_1 is predicted after an x of n symbols."""
        return length + 2 if self.objective == "causal" else length + 1

    def row_length(self, length: int) -> int:
        """N, the number of positions in the row of an x of n symbols."""
        return self.first_position(length) + self.task.output_length(length)

    def batch(self, pairs: StringPairs) -> Batch:
        """Convert pairs to rows with targets, in order, on the CPU; every token shifts."""
        import torch

        from pdtools.models import Batch

        number, length = pairs.x.shape
        of_symbol = self.token_of_symbol
        x, y = self._embeddable(of_symbol)[pairs.x], of_symbol[pairs.y]  # (B, n), (B, m)
        root = np.full((number, 1), self.tokenizer.root_id)
        if self.objective == "masked":
            tokens = np.concatenate([root, x, np.full_like(y, self.out)], axis=1)  # (B, N)
        else:
            tokens = np.concatenate([root, x, np.full_like(root, self.out), y], axis=1)  # (B, N)
        targets = np.full_like(tokens, self.tokenizer.pad_id)
        targets[:, self.first_position(length) :] = y
        scored = np.zeros(tokens.shape, dtype=bool)
        scored[:, self.first_position(length) :] = True
        return Batch(
            tokens=torch.from_numpy(tokens),
            attach=torch.arange(tokens.shape[1]).expand(*tokens.shape).contiguous(),
            lengths=torch.full((number,), tokens.shape[1]),
            targets=torch.from_numpy(targets),
            scored=torch.from_numpy(scored),
        )

    def _embeddable(self, of_symbol: Int64) -> Int64:
        """Tokens of the symbols of x.

        As released, causal: with K symbols of y, the decoder makes one-hot vectors of K + 1 numbers, so that
        higher symbols of x become zero vectors, and so does ``<out>`` (but in rs: it is number K
        there, like the decoder's first input). Here they share its embedding, which is learned.
        """
        if self.objective == "masked" or not self.task.as_released:
            return of_symbol
        merged = of_symbol.copy()
        merged[len(self.task.outputs) + 1 :] = self.out
        return merged


# --- files -------------------------------------------------------------------------------------


def write_pairs(
    task: Task, drawn: Iterable[StringPairs], path: str | Path, *, overwrite: bool = True
) -> dict[str, int]:
    """Write pairs as a table: the length of x, x and y (symbols between single spaces, no padding).

    Args:
        task: the task.
        drawn: pairs of any lengths.
        path: the file, see :func:`pdtools.files.atomic_table`.
        overwrite: see :func:`pdtools.files.atomic_path`.

    Returns:
        Counts: ``pairs``, and ``symbols`` of x and y together.
    """
    counts = {"pairs": 0, "symbols": 0}
    with atomic_table(path, _COLUMNS, overwrite=overwrite) as write:
        for pairs in drawn:
            for x, y in task.strings(pairs):
                write((len(x), " ".join(x), " ".join(y)))
                counts["pairs"] += 1
                counts["symbols"] += len(x) + len(y)
    return counts


def read_pairs(task: Task, *paths: str | Path) -> dict[int, StringPairs]:
    """Read tables of :func:`write_pairs`.

    Every line is checked: symbols, lengths, and that y is the answer to x.

    Returns:
        Pairs by the length of x, shortest first, in the order of the files.

    Raises:
        InputError: a line that is no pair of the task: its file and number.
    """
    number_of = {symbol: number for number, symbol in enumerate(task.symbols)}
    found: dict[int, list[tuple[list[int], list[int]]]] = {}
    for path in paths:
        lines = read_table(path)
        if tuple(next(lines, (1, []))[1]) != _COLUMNS:
            reason = f"no header {' '.join(_COLUMNS)} (tabs between them)"
            raise InputError(reason, file=path, line=1, hint="pdtools generate task writes such files")
        rows = 0
        for number, cells in lines:
            rows += 1
            try:
                x, y = _parse(task, number_of, cells)
            except ValueError as error:
                reason = f"no pair of the task {task.name}: {error}"
                raise InputError(reason, file=path, line=number) from None
            found.setdefault(len(x), []).append((x, y))
        if not rows:
            raise InputError("no pairs in it", file=path)
    return {length: _as_arrays(task, found[length]) for length in sorted(found)}


def _parse(task: Task, number_of: Mapping[str, int], fields: Sequence[str]) -> tuple[list[int], list[int]]:
    """The symbols' numbers of one line; a ValueError describes a fault."""
    if len(fields) != len(_COLUMNS):
        raise ValueError(f"{len(fields)} fields, not length, x and y with tabs between them")
    length, x, y = fields[0], fields[1].split(" "), fields[2].split(" ")
    if length != str(len(x)):
        raise ValueError(f"x has {len(x)} symbols, not {length}")
    if len(x) < task.shortest:
        raise ValueError(f"x has at least {task.shortest} symbols")
    for symbols, known in ((x, task.symbols), (y, task.outputs)):
        unknown = [symbol for symbol in symbols if symbol not in known]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is none of {' '.join(known)}")
    most = task.output_length(len(x))
    if len(y) > most:
        raise ValueError(f"y has {len(y)} symbols, at most {most} are possible")
    numbers = [number_of[symbol] for symbol in x]
    try:
        answer = task.answer(numbers)
    except ValueError as error:
        raise ValueError(f"x: {error}") from None
    wanted = [task.symbols[number] for number in answer]
    if y != wanted:
        shown = " ".join(wanted) if len(wanted) <= _SHOWN else " ".join((*wanted[:_SHOWN], "..."))
        raise ValueError(f"y has to be {shown}")
    return numbers, answer


def _as_arrays(task: Task, pairs: list[tuple[list[int], list[int]]]) -> StringPairs:
    longest = task.output_length(len(pairs[0][0]))
    y = np.full((len(pairs), longest), task.padding)
    for i, (_, symbols) in enumerate(pairs):
        y[i, : len(symbols)] = symbols
    return StringPairs(
        x=np.array([x for x, _ in pairs]), y=y, counted=np.array([len(symbols) for _, symbols in pairs])
    )
