"""An action model's memory of many prefixes, which may differ in length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdtools.models.base import DecoderState
from pdtools.models.grammar.output import OutputLayer, Prefix
from pdtools.models.transformer.cache import READ_CELLS, READ_CELLS_CPU
from pdtools.models.transformer.score_terms import depth_indices
from pdtools.trees.actions import ActionIds

if TYPE_CHECKING:
    from typing_extensions import Self


class ActionStep(NamedTuple):
    """M positions that are read at once.

    Every prefix has one; then come second ones for closing prefixes, if doubled.

    Attributes:
        actions, positions: int64 (M,).
        visible: bool (M, 1 or H, 1, K), keys that each may see; the last is its own.
        depth_difference: int16 (M, 1, 1, K), for Transformer Grammars.
        caches: the layers'.
        head: int64 (M,), for arcs the head's last token, -1 for tokens; None for other actions.
    """

    actions: Tensor
    positions: Tensor
    visible: Tensor
    depth_difference: Tensor | None
    caches: list[StepCache]
    head: Tensor | None = None


@dataclass
class StepCache:
    """Keys and values of one layer, and those that the positions of a step read.

    Attributes:
        values: (entries, 2D).
        new: the entries of the step's own positions.
        entries: int64 (M, K), of the keys.
    """

    values: Tensor
    new: slice
    entries: Tensor

    def write(self, new: Tensor) -> None:
        """Store the vectors (M, 2D) of the step."""
        self.values[self.new] = new

    def blocks(self) -> Iterator[slice]:
        """Ranges of the step's positions, small enough for the processor's cache."""
        cells = READ_CELLS_CPU if self.values.device.type == "cpu" else READ_CELLS
        rows = max(1, cells // (self.values.shape[1] * self.entries.shape[1]))
        for first in range(0, len(self.entries), rows):
            yield slice(first, first + rows)

    def read(self, rows: slice) -> Tensor:
        """The vectors that some positions read: (m, K, 2D)."""
        entries = self.entries[rows]
        return self.values[entries.flatten()].view(*entries.shape, -1)


@dataclass
class Memory:
    """Keys and values of positions that were read, shared by all prefixes.

    Attributes:
        values: each layer's (entries, 2D).
        used: number of entries taken.
        constants: see :attr:`ScoreInputs.constants`.
    """

    values: list[Tensor]
    used: int = 0
    constants: dict[nn.Module, dict[str, Tensor]] = field(default_factory=dict)

    def take(self, number: int) -> None:
        """Reserve ``number`` entries; room doubles each time that it runs out, so that copies are few."""
        self.used += number
        there = len(self.values[0])
        if self.used > there:
            more = max(self.used, 2 * there) - there
            self.values = [
                torch.cat([values, values.new_empty(more, values.shape[1])]) for values in self.values
            ]


@dataclass
class ActionState(DecoderState):
    """R prefixes of actions.

    Attributes:
        hidden: (R, D), final hidden state of the last position.
        last: int64 (R,), the last action; -1 before the start.
        read: int64 (R,), number of positions read.
        n_open: int64 (R,), number of open constituents.
        labels: int64 (R, max_open), their labels, the outermost first.
        places: int64 (R, max_open), the indices of their openers among the entries.
        entries: int64 (R, W), each prefix's visible positions: all, or the stack's.
        count: int64 (R,), number of these.
        depths: int16 (R, W), their depths; only with a stack.
        memory: the keys and values of the entries.
        output: the model's output layer for given tokens; None without one.
        closing: int64 (C,), prefixes whose newest position is the second of two.
    """

    hidden: Tensor
    last: Tensor
    read: Tensor
    n_open: Tensor
    labels: Tensor
    places: Tensor
    entries: Tensor
    count: Tensor
    depths: Tensor | None
    memory: Memory
    output: OutputLayer | None
    closing: Tensor | None = None

    @classmethod
    def empty(
        cls,
        rows: int,
        *,
        layers: int,
        d_model: int,
        max_open: int,
        like: Tensor,
        has_stack: bool,
        output: OutputLayer | None,
    ) -> Self:
        """Prefixes that have read nothing.

        Args:
            rows: R.
            layers, d_model, max_open: the model's.
            like: has the vectors' device and dtype.
            has_stack: whether only the stack is visible.
            output: see the attribute.
        """
        zeros = torch.zeros(rows, dtype=torch.int64, device=like.device)
        table = zeros[:, None].repeat(1, max_open)
        return cls(
            hidden=like.new_zeros(rows, d_model),
            last=zeros - 1,
            read=zeros,
            n_open=zeros,
            labels=table,
            places=table,
            entries=zeros[:, None],
            count=zeros,
            depths=zeros[:, None].short() if has_stack else None,
            memory=Memory([like.new_empty(rows, 2 * d_model) for _ in range(layers)]),
            output=output,
        )

    def prefix(self) -> Prefix:
        """The state that the next actions depend on."""
        innermost = (self.n_open - 1).clamp(min=0)[:, None]
        return Prefix(self.last, self.n_open, self.labels.gather(1, innermost)[:, 0])

    def select(self, rows: Tensor) -> None:
        """See :meth:`DecoderState.select`."""
        for name, table in self._tables().items():
            setattr(self, name, table[rows])

    def taken(self, rows: Tensor) -> ActionState:
        """Copies of the given prefixes, with the same memory."""
        copy = replace(self)
        copy.select(rows)
        return copy

    @staticmethod
    def join(states: Sequence[ActionState]) -> ActionState:
        """Concatenate prefixes with one memory."""
        joined, width = replace(states[0]), max(state.entries.shape[1] for state in states)
        tables = [state._tables() for state in states]
        for name in tables[0]:
            each = [table[name] for table in tables]
            if name in ("entries", "depths"):
                each = [F.pad(table, (0, width - table.shape[1])) for table in each]
            setattr(joined, name, torch.cat(each))
        return joined

    def _tables(self) -> dict[str, Tensor]:
        """The tensors that have a row for each prefix."""
        shared = ("memory", "output", "closing")
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in shared}
        return {name: table for name, table in named.items() if table is not None}

    @property
    def nbytes(self) -> int:
        """Memory of keys and values."""
        return sum(values.nbytes for values in self.memory.values)

    def compact(self) -> None:
        """Give up the entries that none of these prefixes sees; no other prefixes may use the memory."""
        width = self.entries.shape[1]
        real = torch.arange(width, device=self.entries.device) < self.count[:, None]
        kept, place = torch.unique(self.entries[real], return_inverse=True)
        self.entries = torch.zeros_like(self.entries).masked_scatter(real, place)
        for values in self.memory.values:
            values[: len(kept)] = values[kept]
        self.memory.used = len(kept)

    def push(self, actions: Tensor, ids: ActionIds, masked_heads: int | None) -> ActionStep:
        """Note the next action of every prefix, and return the positions to be read.

        Args:
            actions: int64 (R,).
            ids: numbers of actions.
            masked_heads: H, if two of them see constituents.
        """
        opening = (actions >= ids.tokens) & (actions < ids.first_closer)
        closing = actions >= ids.first_closer
        is_start = self.last < 0
        has_stack = self.depths is not None
        innermost = (self.n_open - 1).clamp(min=0)
        opened_at = self.places.gather(1, innermost[:, None])[:, 0]  # (R,)
        own = self.memory.used + torch.arange(len(actions), device=actions.device)

        # The visible entries of each: from the first on, and itself.
        first = torch.where(closing, opened_at, 0) if has_stack else torch.zeros_like(opened_at)
        seen, count = self.entries, self.count - first
        depth = (self.n_open + torch.where(closing, 0, 1)).short()
        depth = torch.where(is_start, 0, depth)
        keys, real, place = aligned(seen, first, count)  # (R, K) each
        depths = None if self.depths is None else self.depths.gather(1, place.clamp(min=0))

        # The entries that stay on the stack, or in the past.
        put_at = torch.where(closing, opened_at, self.count) if has_stack else self.count
        self._put(put_at, own, depth)
        self.n_open = self.n_open + opening.long() - closing.long()
        if bool(opening.any()):
            level = (self.n_open - 1).clamp(min=0)[:, None]
            for name, opened in (("labels", actions - ids.tokens), ("places", put_at)):
                table = getattr(self, name)
                value = torch.where(opening[:, None], opened[:, None], table.gather(1, level))
                setattr(self, name, table.scatter(1, level, value))

        visible = F.pad(real, (0, 1), value=True)[:, None]  # (R, 1, K)
        if masked_heads is not None:
            visible = self._heads(visible, place, self.read, masked_heads)
        distance = None if depths is None else depth[:, None] - depths
        second = torch.nonzero(closing & has_stack)[:, 0]
        return self._step(actions, keys, visible, distance, second, depth)

    def _step(
        self,
        actions: Tensor,
        keys: Tensor,
        visible: Tensor,
        distance: Tensor | None,
        second: Tensor,
        depth: Tensor,
    ) -> ActionStep:
        """The positions of actions, then second ones, which see the new stack and are not on it.

        Args:
            actions: int64 (R,), noted in all tables but those of positions.
            keys: int64 (R, K - 1), entries that each sees besides its own.
            visible: bool (R, 1 or H, K).
            distance: int16 (R, K - 1), differences of depth; None without a stack.
            second: int64 (C,), the prefixes with a second one; none without a stack.
            depth: int16 (R,).
        """
        begin, rows, device = self.memory.used, len(actions), actions.device
        positions, self.last, self.read, self.closing = self.read, actions, self.read + 1, None
        keys = torch.cat([keys, begin + torch.arange(rows, device=device)[:, None]], 1)
        distance = None if distance is None else F.pad(distance, (0, 1))
        if len(second):
            assert self.depths is not None
            assert distance is not None
            self.closing, self.read = second, self.read.index_add(0, second, torch.ones_like(second))
            entries, real, place = aligned(self.entries[second], torch.zeros_like(second), self.count[second])
            own = begin + rows + torch.arange(len(second), device=device)
            depths = self.depths[second].gather(1, place.clamp(min=0))
            keys = stacked(keys, torch.cat([entries, own[:, None]], 1))
            visible = stacked(visible[:, 0], F.pad(real, (0, 1), value=True))[:, None]
            distance = stacked(distance, F.pad(depth[second, None] - depths, (0, 1)))
            actions = torch.cat([actions, actions[second]])
            positions = torch.cat([positions, positions[second] + 1])
        self.memory.take(len(actions))
        new = slice(begin, begin + len(actions))
        return ActionStep(
            actions=actions,
            positions=positions,
            visible=visible[:, :, None],
            depth_difference=None if distance is None else depth_indices(distance)[:, None, None],
            caches=[StepCache(values, new, keys) for values in self.memory.values],
        )

    def take(self, hidden: Tensor) -> None:
        """Take the final hidden states (M, D) of the positions that :meth:`push` returned."""
        self.hidden = hidden[: len(self.last)]
        if self.closing is not None:
            self.hidden = self.hidden.index_copy(0, self.closing, hidden[len(self.last) :])

    def _put(self, place: Tensor, entry: Tensor, depth: Tensor) -> None:
        """Write an entry at a place of each prefix, and drop the entries from there on."""
        self.count = place + 1
        width = int(self.count.max())
        more = width - self.entries.shape[1]
        entries = F.pad(self.entries, (0, more)) if more > 0 else self.entries[:, :width]
        self.entries = entries.scatter(1, place[:, None], entry[:, None])
        if self.depths is not None:
            depths = F.pad(self.depths, (0, more)) if more > 0 else self.depths[:, :width]
            self.depths = depths.scatter(1, place[:, None], depth[:, None])

    def _heads(self, visible: Tensor, place: Tensor, own: Tensor, heads: int) -> Tensor:
        """The visible entries of PLM-mask's heads: (R, H, K)."""
        level = (self.n_open - 1).clamp(min=0)[:, None]
        innermost = self.places.gather(1, level)  # (R, 1)
        none = (self.n_open == 0)[:, None]
        place = torch.cat([place, own[:, None]], 1)  # (R, K)
        inside, before = (place >= innermost) | none, (place < innermost) | none
        special = torch.stack([before, inside], 1)  # (R, 2, K)
        rest = torch.ones_like(special[:, :1]).expand(-1, heads - 2, -1)
        return torch.cat([special, rest], 1) & visible


def aligned(entries: Tensor, first: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Align ``count`` entries of each row, from the first on, to the right of a minimal table.

    Returns:
        Entries int64 (R, K) (any value if there is none), whether there is one bool (R, K), and each one's
        index in the row int64 (R, K), negative or before the first if there is none.
    """
    width = int(count.max()) if len(count) else 0
    column = torch.arange(width, device=entries.device) - (width - count)[:, None]  # (R, K)
    place = first[:, None] + column
    return entries.gather(1, place.clamp(min=0, max=max(entries.shape[1] - 1, 0))), column >= 0, place


def stacked(upper: Tensor, lower: Tensor) -> Tensor:
    """Stack two tables, padded at the left: (a + b, K)."""
    width = max(upper.shape[1], lower.shape[1])
    return torch.cat([F.pad(each, (width - each.shape[1], 0)) for each in (upper, lower)])
