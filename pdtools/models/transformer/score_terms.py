"""Terms added to attention scores: positions, depths, distances in the stack."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdtools.models.kernels.grammar_attention import FARTHEST, NEAREST, Visible
from pdtools.models.transformer.tape import open_tokens_after

DepthSpace = Literal["key", "hidden"]

# A function from rows of tapes (…, K) and existing cells (None: all) to (…, K).
Reading = Callable[[Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class ScoreInputs:
    """The inputs of score terms, computed once per pass and shared by all layers.

    Queries are the last Q of K positions (Q = K when training, 1 when decoding).

    Attributes:
        causal: bool (Q, K), keys that a query may see; None if it may see all (decoding, masked models).
        tape: int (B, 1, Q, K), depths W_k[j], uint8 for the kernels; None for models without a tape.
        stack_distance: int16 (B, 1, Q, K), :func:`.tape.open_tokens_after` of the tape; None for models that
            do not use it.
        visible: bool (B, 1 or H, 1 or Q, K), a further condition on keys that a query may see: in masked
            models keys that are not padding, in action models the keys that they allow; None: all.
        depth_difference: int16 (B, 1, Q, K), the index of the distance that :class:`DepthPositions` reads
            when decoding; None for models without.
        on_stack: the visible keys of Transformer Grammars, in training.
        innermost: int32 (B, N), for PLM-mask in training: the position of the innermost open constituent's
            opener after each position, from 1 on; or -1, if none is open. Head 0 sees the keys before that
            constituent, head 1 the keys in it; the others, and both outside of constituents, see all keys up
            to the position.
        graph: int64 (B, 3, Q, K), the features of dependency graphs; None for models without.
        constants: the terms' tensors that are the same at every step of decoding, as far as they are known.
    """

    causal: Tensor | None
    tape: Tensor | None
    stack_distance: Tensor | None = None
    visible: Tensor | None = None
    depth_difference: Tensor | None = None
    on_stack: Visible | None = None
    innermost: Tensor | None = None
    graph: Tensor | None = None
    graph_rows: Tensor | None = None
    constants: dict[nn.Module, dict[str, Tensor]] = field(default_factory=dict)

    def seen(self, heads: int) -> Tensor | None:
        """The keys that queries may see, bool, broadcastable to (B, H, Q, K); None: all."""
        if self.on_stack is not None:
            return self.on_stack.dense[1][:, None]
        if self.innermost is not None:
            return keys_in_range(self.innermost, heads)
        if self.causal is None or self.visible is None:
            return self.causal if self.visible is None else self.visible
        return self.causal & self.visible

    @property
    def is_causal(self) -> bool:
        """Return whether queries see keys up to their own, as in the kernels, or some by ``innermost``."""
        return self.visible is None and (self.causal is not None or self.innermost is not None)

    @property
    def has_narrow_tape(self) -> bool:
        """Return whether depths, if there are any, have one byte a cell."""
        return self.tape is None or self.tape.dtype == torch.uint8

    def mask(self) -> dict[str, Tensor]:
        """The fields of :class:`pdtools.models.kernels.terms.Terms` for visibility, beside causality."""
        if self.innermost is not None:
            return {"innermost": self.innermost}
        return {} if self.visible is None else {"seen": self.visible[:, :, 0]}

    def of(self, rows: slice) -> ScoreInputs:
        """For some of the rows when decoding."""
        some = {name: x[rows] for name, x in vars(self).items() if x is not None and name != "constants"}
        return replace(self, **some)


class ScoreTerm(nn.Module, ABC):
    """A term added to the attention scores q·k before they are scaled by 1/sqrt(d_head).

    Attributes:
        name: its name where it is shown, or excluded.
        form: its form for kernels: the fields of :class:`pdtools.models.kernels.terms.Terms` that
            :meth:`tensors` gives. Kernels that take all of these compute it; without any, torch alone does.
        reads: functions of a tape that it also uses, by their fields in :class:`ScoreInputs`.
    """

    name: ClassVar[str]
    form: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[Mapping[str, Reading]] = {}

    def tensors(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> dict[str, Tensor]:
        """The term's fields of :class:`pdtools.models.kernels.terms.Terms`; arguments of :meth:`forward`."""
        raise NotImplementedError

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        """Compute the term.

        Args:
            q: (B, H, Q, d_head).
            k: (B, H, K, d_head).
            key_map: (D, D), the weight of the layer's key projection.
            inputs: the inputs of this pass.

        Returns:
            broadcastable to (B, H, Q, K); cells above the diagonal are masked later and may hold anything.
        """


def sinusoids_of(positions: Tensor, d_model: int, timescale: float = 10000.0) -> Tensor:
    """Sines of positions (…), then cosines (Vaswani et al. 2017, section 3.5): float (…, d_model).

    The wavelengths go from 2π to nearly 2π times ``timescale``.
    """
    rate = timescale ** (-torch.arange(0, d_model, 2, device=positions.device, dtype=torch.float32) / d_model)
    angle = positions[..., None].float() * rate  # (…, D / 2)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class RelativePositions(ScoreTerm):
    """Transformer-XL's relative positions (Dai et al. 2019, section 3.3): u·k_j + (q_i + v)·W_R R_{i-j}.

    Args:
        d_model, heads: the model's.
        timescale: the sinusoids' timescale, see :func:`sinusoids_of`.
        nearest: the distance of a token to itself.
        deviation: the standard deviation of the biases u and v at first.
        dropout: the dropout of the sinusoids.
        biases: whether u and v are learned; if not, they are 0.
    """

    name = "distance"
    form: ClassVar[tuple[str, ...]] = ("content_bias", "position_bias", "distance")
    content_bias: Tensor
    position_bias: Tensor

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        timescale: float = 10000.0,
        nearest: int = 0,
        deviation: float = 0.0,
        dropout: float = 0.0,
        biases: bool = True,
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.dropout = dropout
        self.timescale = timescale
        self.nearest = nearest
        for name in ("content_bias", "position_bias"):  # u, v
            zeros = torch.zeros(heads, 1, d_model // heads)
            if biases:
                self.register_parameter(name, nn.Parameter(zeros))
            else:
                self.register_buffer(name, zeros, persistent=False)
        self.distance_map = nn.Linear(d_model, d_model, bias=False)  # W_R
        if deviation:
            nn.init.normal_(self.content_bias, std=deviation)
            nn.init.normal_(self.position_bias, std=deviation)

    def vectors(self, keys: int) -> Tensor:
        """W_R R of the distances keys - 1, …, 1, 0: (H, K, d_head)."""
        distances = torch.arange(keys - 1, -1, -1, device=self.distance_map.weight.device) + self.nearest
        return self._mapped(sinusoids_of(distances, self.d_model, self.timescale))

    def _mapped(self, sinusoids: Tensor) -> Tensor:
        """W_R R of sinusoids of distances (K, D): (H, K, d_head)."""
        sinusoids = sinusoids.to(self.distance_map.weight.dtype)
        r = self.distance_map(F.dropout(sinusoids, self.dropout, self.training))  # (K, D)
        return r.view(len(sinusoids), len(self.content_bias), -1).transpose(0, 1)

    def tensors(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> dict[str, Tensor]:
        """See :meth:`ScoreTerm.tensors`."""
        biases = {"content_bias": self.content_bias, "position_bias": self.position_bias}
        return {**biases, "distance": self.vectors(k.shape[2])}

    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        r = self.vectors(k.shape[2]).transpose(1, 2)  # (H, d_head, K)
        # einsum folds batch and queries into one matrix; matmul would first copy r for every row.
        by_distance = torch.einsum("bhqd,hdk->bhqk", q + self.position_bias, r)  # (B, H, Q, K)
        content = self.content_bias @ k.transpose(2, 3)  # (B, H, 1, K)
        return content + shift_to_keys(by_distance)


class DepthPositions(RelativePositions):
    """Transformer-XL's form with differences of depth as distances (Sartran et al. 2022, section 3.3).

    It is computed by :mod:`pdtools.models.kernels.grammar_attention`, beside no other terms, and, when
    decoding on a CPU, by :mod:`pdtools.models.kernels.decoding`, from its form; in the plain formulation, for
    whole rows, by :meth:`forward`.
    """

    name = "depth-difference"
    form = (*RelativePositions.form, "apart")
    sinusoids: Tensor

    def __init__(self, d_model: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__(d_model, heads, dropout=dropout)
        distances = torch.arange(NEAREST, FARTHEST + 1)
        sinusoids = sinusoids_of(distances, d_model, self.timescale)  # (64, D)
        self.register_buffer("sinusoids", sinusoids, persistent=False)

    def vectors(self, keys: int) -> Tensor:
        """W_R R of the distances from the nearest on: (H, 64, d_head)."""
        return self._mapped(self.sinusoids)

    def tensors(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> dict[str, Tensor]:
        """See :meth:`ScoreTerm.tensors`; for a step of decoding."""
        assert inputs.depth_difference is not None
        if self not in inputs.constants:
            inputs.constants[self] = super().tensors(q, k, key_map, inputs)
        return {**inputs.constants[self], "apart": inputs.depth_difference[:, 0]}

    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        assert inputs.on_stack is not None
        distances, _ = inputs.on_stack.dense  # (B, N, N)
        by_distance = torch.einsum("bhqd,htd->bhqt", q + self.position_bias, self.vectors(k.shape[2]))
        content = self.content_bias @ k.transpose(2, 3)  # (B, H, 1, K)
        return content + by_distance.gather(3, distances[:, None].long().expand(-1, q.shape[1], -1, -1))


def depth_indices(distance: Tensor) -> Tensor:
    """The indices of distances of depth among those of :class:`DepthPositions`: int16."""
    return distance.clamp(NEAREST, FARTHEST).sub(NEAREST).to(torch.int16)


def keys_in_range(innermost: Tensor, heads: int) -> Tensor:
    """The keys that heads see by :attr:`ScoreInputs.innermost`, (B, N): bool (B, H, N, N)."""
    position = torch.arange(innermost.shape[1], device=innermost.device)
    opener = innermost[:, :, None]  # (B, N, 1)
    seen = (position <= position[:, None]).repeat(len(innermost), heads, 1, 1)
    seen[:, 0] &= (position < opener) | (opener <= 0)
    seen[:, 1] &= position >= opener
    return seen


def shift_to_keys(by_distance: Tensor) -> Tensor:
    """Turn scores by distance (farthest first) into scores by key: row i moves left by Q - 1 - i columns.

    Padding each row by one cell and reading the rows as one stretch moves each row one cell further than the
    one before. Cells that enter on the right are above the diagonal.
    """
    batch, heads, queries, keys = by_distance.shape
    padded = F.pad(by_distance, (1, 0))  # (B, H, Q, K + 1)
    return padded.view(batch, heads, keys + 1, queries)[:, :, 1:].reshape(batch, heads, queries, keys)


class LinearPositions(ScoreTerm):
    """ALiBi's penalty on distance (Press et al. 2022): -m_h |i - j|, with m_h = 2^(-8h / H) for head h of H.

    Nothing is learned, and no distance is unlike the ones in training.
    """

    name = "alibi"
    form: ClassVar[tuple[str, ...]] = ("alibi",)
    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)  # (H, 1, 1)

    def tensors(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> dict[str, Tensor]:
        """See :meth:`ScoreTerm.tensors`."""
        return {"alibi": self.slopes.view(-1)}

    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        queries, keys, d_head = q.shape[2], k.shape[2], q.shape[3]
        position = torch.arange(keys, device=q.device)
        distance = self.distance(position[keys - queries :, None] - position)  # (Q, K)
        return -self.slopes * distance * math.sqrt(d_head)  # (H, Q, K): scores are scaled later

    def distance(self, i_minus_j: Tensor) -> Tensor:
        """The distance penalized for a query at i and a key at j, (Q, K)."""
        return i_minus_j.abs()


class StackDistances(ScoreTerm):
    """A penalty on distance in the stack: -m_h s_k[j], s the number of open tokens above j, m_h > 0 learned.

    This is not in the paper: the tape says which tokens are open, this says which of them is the last,
    however many there are and however far back it is. As ALiBi, it extends to stacks deeper than in training.
    """

    name = "stack-distance"
    form = ("slopes", "open")
    reads: ClassVar[Mapping[str, Reading]] = {"stack_distance": open_tokens_after}

    def __init__(self, heads: int) -> None:
        super().__init__()
        # The steepest sees the top alone; it goes with the flattest of other penalties on distance, if any.
        slopes = 4 * 2.0 ** (-8 * torch.arange(heads, 0, -1) / heads)
        self.log_slopes = nn.Parameter(slopes.log()[:, None, None])  # (H, 1, 1)

    def tensors(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> dict[str, Tensor]:
        """See :meth:`ScoreTerm.tensors`."""
        assert inputs.stack_distance is not None
        slopes = self.scaled_slopes(q.shape[3])[:, 0, 0]  # (H)
        return {"slopes": slopes, "open": inputs.stack_distance[:, 0]}

    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        assert inputs.stack_distance is not None
        return -self.scaled_slopes(q.shape[3]) * inputs.stack_distance  # (B, H, Q, K)

    def scaled_slopes(self, d_head: int) -> Tensor:
        """The slopes m sqrt(d_head), since scores are scaled later: (H, 1, 1)."""
        return self.log_slopes.exp() * math.sqrt(d_head)


class DepthScores(ScoreTerm):
    """The pushdown layer's term q_k·e[W_k[j]] (Murty et al. 2023, eq. 6 and fig. 7).

    The scores of all depths are computed once per query and picked by the tape, so keys of size K x K x d
    never exist. Depths beyond the table use its last row.

    Args:
        space: "key": e is added to the keys, one vector shared by the heads (fig. 7); "hidden": e is added
            to the hidden state before the key map (eq. 6).
    """

    name = "depth"
    form = ("table", "tape")

    def __init__(self, d_model: int, heads: int, depths: int, space: DepthSpace) -> None:
        super().__init__()
        self.space = space
        self.heads = heads
        self.embedding = nn.Embedding(depths, d_model // heads if space == "key" else d_model)

    def tensors(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> dict[str, Tensor]:
        """See :meth:`ScoreTerm.tensors`."""
        assert inputs.tape is not None
        return {"table": self.vectors(key_map), "tape": inputs.tape[:, 0]}

    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        assert inputs.tape is not None
        tape = inputs.tape.long().expand(-1, self.heads, -1, -1)  # (B, H, Q, K)
        vectors = self.vectors(key_map)  # (H or 1, depths, d_head)
        by_depth = q @ vectors.transpose(1, 2)  # (B, H, Q, depths): q·e of all depths
        return by_depth.gather(3, tape)  # (B, H, Q, K)

    def vectors(self, key_map: Tensor) -> Tensor:
        """The vectors that depths add to keys: (H, depths, d_head), or (1, depths, d_head) for all heads."""
        table = self.embedding.weight  # (depths, d_head or D)
        if self.space == "key":
            return table[None]
        mapped = F.linear(table, key_map)  # (depths, D)
        return mapped.view(len(table), self.heads, -1).transpose(0, 1)
