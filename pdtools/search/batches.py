"""Batches of strings: as many as memory holds, of similar lengths, or with common beginnings read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.errors import explained_memory_errors as _explained
from pdtools.jobs.devices import memory_of
from pdtools.models import LanguageModel

R = TypeVar("R")
explained_memory_errors = partial(_explained, "try a smaller --search max_batch=N or --beam")

# Bytes that a batch may take on the CPU; on a GPU, half of the free memory.
CPU_BUDGET = 1 << 29
# CUDA's attention kernels launch one block layer per row, and a grid has no more layers than this.
MOST_ROWS = (1 << 16) - 1
# Cells of the next-token table (positions × vocabulary) that a teacher-forced batch may have.
MAX_LOGITS = 1 << 26


def in_batches(
    lengths: Sequence[int], fit: Callable[[int], int], work: Callable[[list[int]], Iterable[R]]
) -> list[R]:
    """Work on strings in batches of similar lengths: the result of each, in order.

    Args:
        lengths: positions of each string.
        fit: gives the number of strings of a length in one batch, at least 1.
        work: gives the results of a batch, for the indices of its strings, the longest first. A lack of
            memory there becomes an error that says what to do.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    found: dict[int, R] = {}
    while len(found) < len(order):
        start = len(found)
        batch = order[start : start + fit(lengths[order[start]])]
        with explained_memory_errors():
            found.update(zip(batch, work(batch), strict=True))
    return [found[i] for i in range(len(lengths))]


def strings_that_fit(length: int, vocab_size: int) -> int:
    """The number of strings of ``length`` positions in one teacher-forced batch; at least one."""
    return max(1, MAX_LOGITS // (length * vocab_size))


def hypotheses_that_fit(model: LanguageModel, length: int) -> int:
    """The number of hypotheses of ``length`` positions in a fixed amount of memory; at least one.

    Each has its cache, and a row of next-token log-probabilities with intermediate values.
    """
    with explained_memory_errors():
        each = model.derive(1, length).nbytes + 16 * model.vocab_size
    return max(1, min(budget(model) // each, MOST_ROWS))


def entries_that_fit(model: LanguageModel, length: int, least: int = 0) -> int:
    """The number of tokens, of all hypotheses together, that a batch's caches may hold; at least one.

    Args:
        length: the most tokens of one hypothesis.
        least: the number that one sentence needs.

    Raises:
        PdtoolsError: if so few could never fit, with the available memory. A system may promise more, and end
            the process later.
    """
    each = model.start(1, length).nbytes
    needed = each * least // length
    if needed > (there := memory_of(str(model.device))):
        raise PdtoolsError(
            f"not enough memory: the hypotheses of a sentence of {length - 2} tokens take"
            f" {needed / 2**30:,.1f} GiB, but there are {there / 2**30:,.1f} GiB: try a smaller --beam"
        )
    return max(1, budget(model) * length // each)


def budget(model: LanguageModel) -> int:
    """Bytes that a batch may take."""
    device = model.device
    if device.type != "cuda":
        return CPU_BUDGET
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch's own
    return (torch.cuda.mem_get_info(device)[0] + unused) // 2


@dataclass(frozen=True)
class SortedStrings:
    """Strings in lexicographic order, so that strings with common beginnings are neighbours.

    Attributes:
        order: indices of the strings.
        ids: their tokens, in this order.
        shared: for each of them, in this order, the number of leading tokens shared with the one before.
    """

    order: list[int]
    ids: list[NDArray[np.int32]]
    shared: list[int]

    @classmethod
    def of(cls, token_ids: Sequence[NDArray[np.int32]], *, share: bool = True) -> SortedStrings:
        """Build the tree of strings by sorting them.

        Args:
            token_ids: for each string int32[length].
            share: if not, no string shares anything.
        """
        order = sorted(range(len(token_ids)), key=lambda i: token_ids[i].tolist())
        ids = [token_ids[i] for i in order]
        shared = [0] * len(ids)
        for i in range(1, len(ids) if share else 0):
            length = min(len(ids[i - 1]), len(ids[i]))
            differs = np.flatnonzero(ids[i - 1][:length] != ids[i][:length])
            shared[i] = int(differs[0]) if len(differs) else length
        return cls(order, ids, shared)

    def groups(
        self, hypotheses: Sequence[float], most_entries: int, most_strings: int
    ) -> Iterator[SortedStrings]:
        """Divide into groups that are searched together; arguments as in :meth:`split`."""
        group, rest = self.split(hypotheses, most_entries, most_strings)
        while group.ids:
            yield group
            group, rest = rest.split(hypotheses, most_entries, most_strings)

    def split(
        self, hypotheses: Sequence[float], most_entries: int, most_strings: int
    ) -> tuple[SortedStrings, SortedStrings]:
        """Split off as many strings as are searched together, at least one if there is any; and the others.

        Args:
            hypotheses: the number of hypotheses fed with token k of a prefix.
            most_entries: tokens fed to all hypotheses of a group together; a single string may exceed it.
            most_strings: strings of a group.
        """
        before = np.cumsum([0, *hypotheses])
        entries = 0.0
        fed = 0  # tokens of the previous string: its last one is not fed
        for i, ids in enumerate(self.ids):
            entries += before[len(ids) - 1] - before[min(self.shared[i], fed, len(ids) - 1)]
            if i and (entries > most_entries or i == most_strings):
                return self._part(0, i), self._part(i, len(self.ids))
            fed = len(ids) - 1
        return self, self._part(len(self.ids), len(self.ids))

    def _part(self, first: int, stop: int) -> SortedStrings:
        return SortedStrings(
            self.order[first:stop], self.ids[first:stop], [0, *self.shared[first + 1 : stop]][: stop - first]
        )

    def levels(self) -> list[Level]:
        """The tree, level by level; the first is the first token."""
        lengths = np.array([len(ids) for ids in self.ids], dtype=np.int64)
        shared = np.array(self.shared)
        levels = []
        parent_of = np.zeros(len(self.ids), dtype=np.int64)
        for k in range(lengths.max(initial=0)):
            live = lengths > k  # (strings,)
            leads = live & (shared <= k)  # the first of the strings with its prefix
            prefix_of = np.where(live, np.cumsum(leads) - 1, -1)
            going = np.unique(prefix_of[lengths > k + 1])
            levels.append(
                Level(
                    tokens=np.array([self.ids[i][k] for i in np.flatnonzero(leads)], dtype=np.int64),
                    parents=parent_of[leads],
                    going=going,
                    prefix_of=prefix_of,
                    ending=np.flatnonzero(lengths == k + 1),
                )
            )
            parent_of = np.searchsorted(going, prefix_of)
        return levels

    def packed(self) -> Packed:
        """The tree as one row of tokens, level by level, without the strings' last tokens."""
        paths: list[list[int]] = [[] for _ in self.ids]
        tokens: list[int] = []
        depths: list[int] = []
        for k, level in enumerate(self.levels()):
            place = np.searchsorted(level.going, level.prefix_of) + len(tokens)
            for string, ids in enumerate(self.ids):
                if len(ids) > k + 1:
                    paths[string].append(int(place[string]))
            tokens += level.tokens[level.going].tolist()
            depths += [k] * len(level.going)
        return Packed(np.array(tokens), np.array(depths), [np.array(path, dtype=np.int64) for path in paths])


@dataclass(frozen=True)
class Level:
    """The different prefixes of k + 1 tokens, c of them.

    Attributes:
        tokens: int64[c], the last token of each.
        parents: int64[c], the index of the prefix without its last token, among the continuing prefixes of k
            tokens.
        going: int64[g], the prefixes that some string continues.
        prefix_of: for each string its prefix, -1 for a string that has ended before.
        ending: the strings whose last token this is.
    """

    tokens: NDArray[np.int64]
    parents: NDArray[np.int64]
    going: NDArray[np.int64]
    prefix_of: NDArray[np.int64]
    ending: NDArray[np.int64]

    @property
    def leads(self) -> NDArray[np.int64]:
        """The first string of each prefix, int64[c]."""
        prefixes, first = np.unique(self.prefix_of, return_index=True)
        return first[prefixes >= 0]


@dataclass(frozen=True)
class Packed:
    """A tree of prefixes as one row of T tokens.

    Attributes:
        tokens: int64[T], the last token of every prefix.
        depths: int64[T], its position in its strings.
        paths: for each string of n tokens int64[n - 1], the indices of its prefixes of 1, …, n - 1 tokens.
    """

    tokens: NDArray[np.int64]
    depths: NDArray[np.int64]
    paths: list[NDArray[np.int64]]

    def sees(self) -> NDArray[np.bool_]:
        """The tokens that each token sees, its own prefix: bool[T, T]."""
        sees = np.zeros((len(self.tokens), len(self.tokens)), dtype=np.bool_)
        for path in self.paths:
            sees[np.ix_(path, path)] |= np.tri(len(path), dtype=np.bool_)
        return sees
