"""Compositions: the vector of a constituent, made of its label's and its children's.

Shapes: C constituents of at most K children, D numbers of a vector.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from pdtools.models.rnng.config import RnngConfig


class Composition(nn.Module):
    """A composition of constituents; ``sees_state`` says whether it looks at the state before the closer."""

    sees_state = False

    def forward(
        self,
        vectors: Tensor,
        openers: Tensor,
        children: Tensor,
        counts: Tensor,
        labels: Tensor,
        state: Tensor | None = None,
    ) -> Tensor:
        """Compose constituents.

        Args:
            vectors: (any, D).
            openers: int64 (C,), their openers' vectors.
            children: int64 (C, K), the vectors of children, counts first ones.
            counts: int64 (C,), numbers of children, at least 1.
            labels: int64 (C,), labels' numbers.
            state: (C, D), outputs before the closers, if the composition looks at them.

        Returns:
            (C, D).
        """
        raise NotImplementedError


class LSTMComposition(Composition):
    """An LSTM from the label over the children in each direction (Dyer et al. 2016)."""

    def __init__(self, config: RnngConfig) -> None:
        super().__init__()
        d = config.d_model
        self.forwards, self.backwards = nn.LSTM(d, d), nn.LSTM(d, d)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(2 * d, d)

    def forward(
        self,
        vectors: Tensor,
        openers: Tensor,
        children: Tensor,
        counts: Tensor,
        labels: Tensor,
        state: Tensor | None = None,
    ) -> Tensor:
        """See :meth:`Composition.forward`."""
        order, sizes, real = _packing(counts + 1)
        place = torch.arange(children.shape[1], device=children.device)
        backwards = children.gather(1, (counts[:, None] - 1 - place).clamp(min=0))
        found = []
        for lstm, read in ((self.forwards, children), (self.backwards, backwards)):
            read = torch.cat([openers[:, None], read], 1)[order].T[: len(real)]  # (K + 1, C)
            _, (hidden, _) = lstm(PackedSequence(vectors[read[real]], sizes))
            found.append(hidden[0])
        joined = torch.cat(found, 1)[order.argsort()]
        return F.relu(self.output(self.dropout(joined)))


class AttentionComposition(Composition):
    """Gated attention to the children, by label and state (Kuncoro et al. 2017)."""

    sees_state = True

    def __init__(self, config: RnngConfig) -> None:
        super().__init__()
        d, n_labels = config.d_model, config.n_labels
        self.lstm = nn.LSTM(d, d, bidirectional=True)
        self.keys = nn.Linear(2 * d, 2 * d, bias=False)
        self.query = nn.Embedding(n_labels, d)
        self.label = nn.Embedding(n_labels, 2 * d)
        self.gate = nn.Linear(4 * d, 2 * d)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(2 * d, d)

    def forward(
        self,
        vectors: Tensor,
        openers: Tensor,
        children: Tensor,
        counts: Tensor,
        labels: Tensor,
        state: Tensor | None = None,
    ) -> Tensor:
        """See :meth:`Composition.forward`."""
        assert state is not None
        order, sizes, real = _packing(counts)
        read = children[order].T[: len(real)]  # (K, C)
        packed, _ = self.lstm(PackedSequence(vectors[read[real]], sizes))
        hidden = packed.data.new_zeros(*real.shape, packed.data.shape[1])
        hidden = hidden.masked_scatter(real[:, :, None], packed.data.to(hidden.dtype))  # (K, C, 2D)
        query = torch.cat([self.query(labels), state], 1)[order]  # (C, 2D)
        scores = (self.keys(hidden) * query).sum(2).masked_fill(~real, -torch.inf)  # (K, C)
        mixed = (scores.softmax(0)[:, :, None] * hidden).sum(0)
        mixed = self.dropout(torch.empty_like(mixed).index_copy(0, order, mixed))  # (C, 2D)
        label = self.dropout(self.label(labels))
        gate = self.gate(torch.cat([label, mixed], 1)).sigmoid()
        return F.relu(self.output(gate * label + (1 - gate) * mixed))


def composition_of(config: RnngConfig) -> Composition:
    """The composition that a configuration names."""
    return LSTMComposition(config) if config.composition == "lstm" else AttentionComposition(config)


def _packing(lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The packing of sequences of these lengths (C,): their order, longest first; sizes of the steps, on the
    CPU; and which sequences go on at each, bool (K, C) in that order."""
    order = lengths.argsort(descending=True, stable=True)
    ordered = lengths[order]
    real = torch.arange(int(ordered[0]), device=lengths.device)[:, None] < ordered  # (K, C)
    return order, real.sum(1).cpu(), real
