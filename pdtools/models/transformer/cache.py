"""A decoder's memory of the tokens it has read, for many hypotheses that share most of their past."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pdtools.models.base import NoRoomError
from pdtools.models.kernels.decoding import decodes_in_c, multiply_by_entries

# Values (hypotheses × tokens × width) that are laid out contiguously at a time: on a CPU as many as stay in
# its cache until they are used.
READ_CELLS = 1 << 26
READ_CELLS_CPU = 1 << 19


class Past:
    """The tokens that each of R hypotheses has read.

    Every token that is fed to a hypothesis is one *entry*, written once into the :class:`Cache` of every
    layer. A hypothesis is a row of entry numbers, so copies of a hypothesis share its entries, and selecting
    hypotheses moves numbers only.

    Attributes:
        entries: int64 (R, k + 1), the entry of every token up to the last.
    """

    def __init__(self, rows: int, entries: int, like: Tensor) -> None:
        """Begin with nothing read.

        Args:
            rows: R.
            entries: the maximal number of tokens that are fed to all hypotheses together.
            like: a tensor with the device of the caches, and the dtype of those that have none of their own.
        """
        self.entries = torch.empty(rows, 0, dtype=torch.int64, device=like.device)
        self._most = entries
        self._like = like
        self._cells = READ_CELLS_CPU if like.device.type == "cpu" else READ_CELLS
        self._used = 0
        self._caches: list[Tensor] = []
        self._scratch: dict[torch.dtype, Tensor] = {}

    @property
    def position(self) -> int:
        """The position of the token fed last; -1 before the first."""
        return self.entries.shape[1] - 1

    @property
    def nbytes(self) -> int:
        """The memory of the caches, in bytes."""
        return sum(values.nbytes for values in self._caches)

    def cache(self, width: int, dtype: torch.dtype | None = None) -> Cache:
        """Make room for a vector of each entry."""
        self._caches.append(self._like.new_empty(self._most, width, dtype=dtype))
        return Cache(self, self._caches[-1])

    def feed(self) -> None:
        """Feed one more token to every hypothesis.

        Raises:
            NoRoomError: if there is no room for them, nor without the entries that no hypothesis refers to.
        """
        rows = len(self.entries)
        if self._used + rows > self._most:
            self._forget()
        if self._used + rows > self._most:
            raise NoRoomError(
                f"the state has room for {self._most} tokens of all hypotheses together, and all are fed:"
                " start it with more entries"
            )
        new = torch.arange(self._used, self._used + rows, device=self.entries.device)
        self.entries = torch.cat([self.entries, new[:, None]], dim=1)
        self._used += rows

    def _forget(self) -> None:
        """Free the entries that no hypothesis refers to."""
        known, self.entries = torch.unique(self.entries, return_inverse=True)
        for values in self._caches:
            values[: len(known)] = values[known]
        self._used = len(known)

    def select(self, rows: Tensor) -> None:
        """Go on with the given hypotheses (int64 (R',)), in any order, repeats allowed."""
        self.entries = self.entries[rows]

    def unfeed(self) -> None:
        """Undo the last :meth:`feed`."""
        self.entries = self.entries[:, :-1]

    def newest(self) -> slice:
        """The entries of the token that was fed last."""
        return slice(self._used - len(self.entries), self._used)

    def blocks(self, width: int) -> Iterator[slice]:
        """All hypotheses, in blocks that vectors of this width can be read for."""
        rows = max(1, self._cells // (width * self.entries.shape[1]))
        for first in range(0, len(self.entries), rows):
            yield slice(first, first + rows)

    def scratch(self, cells: int, dtype: torch.dtype) -> Tensor:
        """Memory that every read overwrites: fresh memory costs a CPU more than the work on it."""
        found = self._scratch.get(dtype)
        if found is None or found.numel() < cells:
            most = max(cells, self._cells) if self._like.device.type == "cpu" else cells
            found = self._scratch[dtype] = self._like.new_empty(most, dtype=dtype)
        return found[:cells]


@dataclass
class Cache:
    """A vector for every token that was fed to a hypothesis: (entries, width)."""

    past: Past
    values: Tensor

    @property
    def entries(self) -> Tensor:
        """Entries of all tokens of each hypothesis: int64 (R, k + 1)."""
        return self.past.entries

    def write(self, new: Tensor) -> None:
        """Store the vectors (R, width) of the token that was fed last."""
        self.values[self.past.newest()] = new

    def times(self, x: Tensor) -> Tensor:
        """Products of each hypothesis's vector (R, width) with the vectors of all its tokens: (R, k + 1)."""
        if decodes_in_c(x, self.values):
            return multiply_by_entries(x, self.values, self.past.entries)
        return torch.cat([(self.read(rows) @ x[rows, :, None])[:, :, 0] for rows in self.blocks()])

    def blocks(self) -> Iterator[slice]:
        """All hypotheses, in blocks for :meth:`read`."""
        return self.past.blocks(self.values.shape[1])

    def read(self, rows: slice) -> Tensor:
        """The vectors of all tokens of some hypotheses, (r, k + 1, width); valid until the next read."""
        entries = self.past.entries[rows]  # (r, k + 1)
        width = self.values.shape[1]
        found = self.past.scratch(entries.numel() * width, self.values.dtype).view(entries.numel(), width)
        torch.index_select(self.values, 0, entries.flatten(), out=found)
        return found.view(*entries.shape, width)
