"""Compositions: the vector of a constituent, made of its label's and its children's.

In a search on a CPU, where many hypotheses compose the same children, products are those of distinct ones. It
does not help to share products of the LSTM that reads the stack: what is saved is spent on finding them.

Shapes: C constituents of at most K children, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from pdtools.models.kernels.decoding import multiplies_by_onednn, product
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
        both = (children, _reversed(children, counts))
        read = torch.stack([torch.cat([openers[:, None], each], 1)[order].T[: len(real)] for each in both])
        if multiplies_by_onednn(vectors):
            weights = [*self.forwards.all_weights, *self.backwards.all_weights]
            steps = [*_shared_states(weights, vectors, read, sizes)]
            ended = [states[:, after:] for states, after in zip(steps, [*sizes.tolist()[1:], 0], strict=True)]
            found = torch.cat(ended[::-1], 1)
        else:
            ways = zip((self.forwards, self.backwards), read, strict=True)
            found = torch.cat([lstm(PackedSequence(vectors[way[real]], sizes))[1][0] for lstm, way in ways])
        joined = torch.cat([*found], 1)[order.argsort()]
        return F.relu(_linear(self.output, self.dropout(joined)))


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
        mixed, _, order = self._attend(vectors, children, counts, labels, state)
        mixed = self.dropout(torch.empty_like(mixed).index_copy(0, order, mixed))  # (C, 2D)
        label = self.dropout(self.label(labels))
        gate = _linear(self.gate, torch.cat([label, mixed], 1)).sigmoid()
        return F.relu(_linear(self.output, gate * label + (1 - gate) * mixed))

    def weights(
        self, vectors: Tensor, children: Tensor, counts: Tensor, labels: Tensor, state: Tensor
    ) -> Tensor:
        """Weights of the children (C, K); see :meth:`Composition.forward`."""
        _, weights, order = self._attend(vectors, children, counts, labels, state)
        return torch.empty_like(weights).index_copy(0, order, weights)

    def _attend(
        self, vectors: Tensor, children: Tensor, counts: Tensor, labels: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sums of states of children by their weights (C, 2D), the weights (C, K), and the order of both."""
        order, sizes, real = _packing(counts)
        read = children[order].T[: len(real)]  # (K, C)
        query = torch.cat([self.query(labels), state], 1)[order]  # (C, 2D)
        if multiplies_by_onednn(vectors):
            n, several = counts[order], int(sizes[1:2].sum())
            both = torch.stack([read, _reversed(read.T, n).T])
            steps = [*_shared_states(self.lstm.all_weights, vectors, both, sizes)]
            mixed, weights = torch.cat([*steps[0]], 1), real.T.to(query.dtype)  # a single child weighs 1
            if several:
                n = n[:several]
                states = vectors.new_zeros(2, several, len(real), vectors.shape[1])  # (2, S, K, D)
                for k, some in enumerate(steps):
                    states[:, : some.shape[1], k] = some[:, :several]
                query = product(query[:several], self.keys.weight.T).view(several, 2, -1, 1)
                by_way = (states @ query.transpose(0, 1))[..., 0]  # (2, S, K)
                scores = by_way[0] + _reversed(by_way[1], n)
                shares = scores.masked_fill(~real.T[:several], -torch.inf).softmax(1)  # (S, K)
                weights[:several] = shares
                sums = torch.stack([shares, _reversed(shares, n)])[:, :, None] @ states  # (2, S, 1, D)
                mixed[:several] = torch.cat([*sums[:, :, 0]], 1)
        else:
            packed, _ = self.lstm(PackedSequence(vectors[read[real]], sizes))
            hidden = packed.data.new_zeros(*real.shape, packed.data.shape[1])
            hidden = hidden.masked_scatter(real[:, :, None], packed.data.to(hidden.dtype))  # (K, C, 2D)
            query = product(query, self.keys.weight.T)  # instead of the keys of all children
            scores = (hidden * query).sum(2).masked_fill(~real, -torch.inf)  # (K, C)
            weights = scores.softmax(0)
            mixed = (weights[:, :, None] * hidden).sum(0)
            weights = weights.T
        return mixed, weights, order


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


def _reversed(children: Tensor, counts: Tensor) -> Tensor:
    """Children (C, K), the first ``counts`` of each in reverse; the first behind them."""
    place = torch.arange(children.shape[1], device=children.device)
    return children.gather(1, (counts[:, None] - 1 - place).clamp(min=0))


def _shared_states(
    weights: Sequence[Sequence[Tensor]], vectors: Tensor, read: Tensor, sizes: Tensor
) -> Iterator[Tensor]:
    """Hidden states of two LSTMs that read vectors, float32; sequences with one beginning are read once.

    Args:
        weights: each LSTM's weights of inputs and of states, and both biases.
        vectors: (any, D).
        read: int64 (2, K, C), what each LSTM reads of each sequence, the longest first.
        sizes: int64 (K,), how many sequences go on at each step.

    Yields:
        For each step (2, size, D).
    """
    used, read = torch.unique(read, return_inverse=True)
    # Hypotheses' vectors of a token are equal. They are compared as integers, since NaN is in no order.
    x, same = torch.unique(vectors[used].view(torch.int32), dim=0, return_inverse=True)
    x, read = x.view(torch.float32), same[read]
    inputs = torch.cat([product(x, each[0], each[2] + each[3]) for each in weights])  # (2U, 4D)
    read = read + torch.tensor([0, len(x)], device=read.device)[:, None, None]
    prefix = torch.zeros_like(read[:, 0])
    hidden = cell = None
    n, first = len(inputs), 0
    for k, size in enumerate(sizes.tolist()):
        # Different prefixes, those of the first LSTM first.
        key, prefix = torch.unique(prefix[:, :size] * n + read[:, k, :size], return_inverse=True)
        gates = inputs[key % n]
        if hidden is not None and cell is not None:
            shorter = key // n
            parts = zip((hidden[:first], hidden[first:]), weights, strict=True)
            gates += torch.cat([product(part, each[1]) for part, each in parts])[shorter]
            cell = cell[shorter]
        hidden, cell = lstm_states(gates, cell)
        first = int(prefix[0].max()) + 1
        yield hidden[prefix]


def lstm_states(gates: Tensor, cell: Tensor | None) -> tuple[Tensor, Tensor]:
    """Hidden states and cells (R, D) of an LSTM by its gates (R, 4D) and cells before; None: zeros."""
    enters, stays, new, leaves = gates.chunk(4, 1)
    kept = enters.sigmoid() * _tanh(new)
    if cell is not None:
        kept = torch.addcmul(kept, stays.sigmoid(), cell)
    return leaves.sigmoid() * _tanh(kept), kept


def _tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent within 2e-7, on CPUs in a fifth of the time of torch's."""
    return (2 * x).sigmoid_().mul_(2).sub_(1)


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """The layer of x (R, D), in a search on a CPU by oneDNN."""
    return product(x, layer.weight, layer.bias)
