"""A Dependency Transformer Grammar's memory of many prefixes: a stack of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pdtools.models.grammar.state import ActionState, ActionStep, StepCache, aligned, stacked
from pdtools.models.transformer.score_terms import depth_differences
from pdtools.trees.arc_standard import ArcIds

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class TransitionState(ActionState):
    """R prefixes of arc-standard actions, with words on the stack in place of open constituents.

    Attributes:
        n_open: int64 (R,), words on the stack; the start lies beneath them.
        labels: int64 (R, max_open + 1), the last token of each item's head, the start's first.
        places: int64 (R, max_open + 1), the index of each item's beginning among the entries, which are the
            stack's, all tokens of a word.
        depths: int16 (R, W), number of items beneath each entry's.
    """

    @classmethod
    def empty(cls, rows: int, *, max_open: int, **model: Any) -> Self:
        """See :meth:`ActionState.empty`."""
        return super().empty(rows, max_open=max_open + 1, **model)

    def push_transition(self, actions: Tensor, ids: ArcIds, continuing: Tensor) -> ActionStep:
        """Note the next action of every prefix, as :meth:`ActionState.push`; return the positions to read.

        Args:
            actions: int64 (R,).
            ids: numbers of actions.
            continuing: bool (V,), tokens that continue a word.
        """
        assert self.depths is not None
        rows = len(actions)
        composes = actions >= ids.first_closer
        begins = ~composes & (self.last >= 0) & ~continuing[actions.clamp(max=ids.tokens - 1)]
        top = self.n_open  # (R,), the index of the top item on the stack, the start's is 0
        second = torch.where(composes, top - 1, 0)
        # An arc sees both top items, and replaces them; a token sees all.
        first = torch.where(composes, self._at(self.places, second), 0)
        put_at = torch.where(composes, first, self.count)
        head = torch.where(actions == ids.left, self._at(self.labels, top), self._at(self.labels, second))
        own = self.memory.used + torch.arange(rows, device=actions.device)
        entries, real, place = aligned(self.entries, first, self.count - first)  # (R, K) each
        depths = self.depths.gather(1, place.clamp(min=0))
        self.n_open = self.n_open + begins.long() - composes.long()
        depth = self.n_open.short()
        item = self.n_open[:, None]
        self._put(put_at, own, depth)
        self.labels = self.labels.scatter(1, item, torch.where(composes, head, actions)[:, None])
        here = torch.where(begins | composes, put_at, self._at(self.places, self.n_open))
        self.places = self.places.scatter(1, item, here[:, None])

        # The dependent of an arc is at -1, its head and itself at 0: mirrored if the top is the head.
        distance = depth[:, None] - depths
        distance = torch.where((actions == ids.left)[:, None], -1 - distance, distance)
        keys = torch.cat([entries, own[:, None]], 1)
        visible = F.pad(real, (0, 1), value=True)
        distance = F.pad(distance, (0, 1))
        positions, heads = self.read, torch.where(composes, head, -1)
        self.last, self.read, self.closing = actions, self.read + 1, None
        again = torch.nonzero(composes & (actions != ids.pop_root))[:, 0]
        if len(again):
            # The second ones of arcs see the new stack and themselves, and are not put on it.
            self.closing, self.read = again, self.read.index_add(0, again, torch.ones_like(again))
            entries, real, place = aligned(self.entries[again], torch.zeros_like(again), self.count[again])
            own = self.memory.used + rows + torch.arange(len(again), device=actions.device)
            depths = self.depths[again].gather(1, place.clamp(min=0))
            keys = stacked(keys, torch.cat([entries, own[:, None]], 1))
            visible = stacked(visible, F.pad(real, (0, 1), value=True))
            distance = stacked(distance, F.pad(depth[again, None] - depths, (0, 1)))
            actions, heads = torch.cat([actions, actions[again]]), torch.cat([heads, heads[again]])
            positions = torch.cat([positions, positions[again] + 1])
        new = slice(self.memory.used, self.memory.used + len(actions))
        self.memory.take(len(actions))
        return ActionStep(
            actions=actions,
            positions=positions,
            visible=visible[:, None, None],
            depth_difference=depth_differences(distance, torch.zeros_like(distance))[:, None, None],
            caches=[StepCache(values, new, keys) for values in self.memory.values],
            head=heads,
        )

    @staticmethod
    def _at(table: Tensor, item: Tensor) -> Tensor:
        """The value of an item (R,) in each row (R, I)."""
        return table.gather(1, item[:, None])[:, 0]
