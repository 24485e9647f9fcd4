"""Backends of attention: the first one of a table that takes the work does it.

Each term and mask says which form it has for kernels (:attr:`ScoreTerm.form`, :meth:`ScoreInputs.mask`), each
kernel which forms it takes (``TAKES`` in its module). Torch takes all, from the terms' own ``forward``.

Shapes: B sentences, H heads, Q queries, K keys (Q = K = N of whole rows), d numbers of a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from pdtools.models.kernels import block_attention, decoding, fused_works
from pdtools.models.kernels.grammar_attention import Learned, grammar_attention, masked_grammar_attention
from pdtools.models.kernels.terms import Terms
from pdtools.models.transformer.cache import Cache
from pdtools.models.transformer.score_terms import DepthPositions, ScoreInputs, ScoreTerm

# Up to this many positions, attention weights are kept for the backward pass on the CPU.
KEPT_LENGTH = 64

# From this many positions on, attention without terms is trained faster in C, with long and short vectors.
NATIVE_LENGTH = 128


@dataclass(eq=False)
class AttentionWork:
    """One computation of attention: its inputs and conditions.

    Attributes:
        q: (B, H, Q, d).
        k, v: (B, H, K, d). In a step from the cache, only their shape is used.
        terms: the terms added to the scores.
        key_map: (D, D), the weight of the layer's key projection.
        inputs: the inputs of this pass.
        dropout: the share of attention weights dropped.
        cache: keys and values in a step of decoding, if they are not in k and v.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    terms: Sequence[ScoreTerm]
    key_map: Tensor
    inputs: ScoreInputs
    dropout: float = 0.0
    cache: Cache | None = None

    @cached_property
    def given(self) -> Terms:
        """Terms and mask as kernels take them, computed once: it may draw random numbers, for dropout."""
        shares = [term.tensors(self.q, self.k, self.key_map, self.inputs) for term in self.terms]
        shares.append(self.inputs.mask())
        return Terms(**{name: tensor for share in shares for name, tensor in share.items()})

    def is_made_of(self, taken: Collection[str]) -> bool:
        """Return whether all terms, one for each field, and the mask have a form of these fields."""
        names: list[str] = []
        for term in self.terms:
            if not term.form:
                return False
            names += term.form
        every = {*names, *self.inputs.mask()}
        return every.issubset(taken) and len(set(names)) == len(names)


class Backend(NamedTuple):
    """One way to compute attention: a test whether it takes the work, and a function to (B, H, Q, d)."""

    name: str
    takes: Callable[[AttentionWork], bool]
    attend: Callable[[AttentionWork], Tensor]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Sequence[ScoreTerm],
    key_map: Tensor,
    inputs: ScoreInputs,
    dropout: float = 0.0,
) -> Tensor:
    """Attention with score terms, (B, H, Q, d), by the first backend that takes :class:`AttentionWork`."""
    work = AttentionWork(q, k, v, terms, key_map, inputs, dropout)
    return backend_of(work).attend(work)


def backend_of(work: AttentionWork) -> Backend:
    """Return the first backend that takes the work."""
    return next(backend for backend in BACKENDS if backend.takes(work))


# --- a step from the cache, in C --------------------------------------------------------------


def _takes_step(work: AttentionWork) -> bool:
    return (
        work.cache is not None
        and not work.dropout
        and work.inputs.has_narrow_tape
        and work.is_made_of(decoding.TAKES)
        and decoding.decodes_in_c(work.q, work.cache.values)
    )


def _attend_to_entries(work: AttentionWork) -> Tensor:
    cache = cast(Cache, work.cache)
    return decoding.attend_to_entries(work.q[:, :, 0], cache.values, cache.entries, work.given)[:, :, None]


# --- keys on the stack: Transformer Grammars --------------------------------------------------


def _learned_of_depths(work: AttentionWork) -> Learned:
    (term,) = cast(Sequence[DepthPositions], work.terms)
    return term.vectors(work.k.shape[2]), term.content_bias, term.position_bias


def _attend_on_stack(work: AttentionWork) -> Tensor:
    assert work.inputs.on_stack is not None
    learned = _learned_of_depths(work)
    return grammar_attention(work.q, work.k, work.v, work.inputs.on_stack, learned, work.dropout)


def _attend_by_depth(work: AttentionWork) -> Tensor:
    inputs = work.inputs
    assert inputs.depth_difference is not None
    assert inputs.visible is not None
    cells = inputs.depth_difference, inputs.visible
    return masked_grammar_attention(work.q, work.k, work.v, *cells, _learned_of_depths(work))


# --- whole rows on CPUs: in C, in blocks by torch ---------------------------------------------


def _is_for_cpu(work: AttentionWork) -> bool:
    is_narrow = torch.is_autocast_enabled("cpu")
    return (
        work.q.device.type == "cpu"
        and work.inputs.is_causal
        and (work.q.dtype in (torch.float32, torch.float64) or is_narrow)
    )


def _is_bare(work: AttentionWork) -> bool:
    """Return whether nothing is added, dropped or masked but causally: torch has kernels for that."""
    return not work.terms and not work.dropout and work.inputs.innermost is None


def _takes_in_c(work: AttentionWork) -> bool:
    if _is_bare(work) and (work.q.shape[2] < NATIVE_LENGTH or torch.is_autocast_enabled("cpu")):
        return False
    return (
        _is_for_cpu(work)
        and work.is_made_of(block_attention.TAKES_IN_C)
        and block_attention.native_takes(work.q, work.k, work.v, work.given)
    )


def _attend_in_c(work: AttentionWork) -> Tensor:
    return block_attention.attention_in_c(work.q, work.k, work.v, work.given, work.dropout)


def _takes_in_blocks(work: AttentionWork) -> bool:
    return not _is_bare(work) and _is_for_cpu(work) and work.is_made_of(block_attention.TAKES)


def _attend_in_blocks(work: AttentionWork) -> Tensor:
    # Torch keeps the weights of such attention too; depths alone are held to the memory of fused attention.
    has_more = any(name not in ("table", "tape") for term in work.terms for name in term.form)
    keeps = (has_more or work.dropout > 0) and work.k.shape[2] <= KEPT_LENGTH
    return block_attention.attention_in_blocks(work.q, work.k, work.v, work.given, work.dropout, keeps)


# --- whole rows on CUDA, by Triton ------------------------------------------------------------


def _takes_in_triton(work: AttentionWork) -> bool:
    return (
        work.q.device.type == "cuda"
        and work.q.dtype != torch.float64
        and work.q.shape[3] in fused_works.HEAD_SIZES
        and bool(work.terms)
        and work.inputs.is_causal
        and work.inputs.has_narrow_tape
        and work.is_made_of(fused_works.TAKES)
        and works_in_triton(work)
    )


def works_in_triton(work: AttentionWork) -> bool:
    """Return whether the kernels for CUDA work on this machine."""
    has_distances = any("distance" in term.form for term in work.terms)
    return fused_works.kernels_work(work.q.device, work.q.dtype, work.q.shape[3], has_distances)


def _attend_in_triton(work: AttentionWork) -> Tensor:
    from pdtools.models.kernels.fused_attention import fused_attention

    q, given = work.q, work.given
    # In mixed precision biases would make them float32.
    keyed = q if given.content_bias is None else (q + given.content_bias).to(q.dtype)
    p = None if given.position_bias is None else (q + given.position_bias).to(q.dtype)
    # (H, N, d), the nearest first
    r = None if given.distance is None else given.distance.flip(1).to(q.dtype)
    by_depth = None if given.table is None else q @ given.table.transpose(1, 2)  # (B, H, N, depths)
    slopes = None if given.alibi is None else given.alibi.float()
    return fused_attention(keyed, work.k, work.v, by_depth, given.tape, slopes, work.dropout, p=p, r=r)


# --- everything, by torch ---------------------------------------------------------------------


def _attend_by_torch(work: AttentionWork) -> Tensor:
    is_causal = work.inputs.is_causal and work.inputs.innermost is None and not work.terms
    bias = None if is_causal else _bias(work)
    return F.scaled_dot_product_attention(
        work.q, work.k, work.v, attn_mask=bias, dropout_p=work.dropout, is_causal=is_causal
    )


def _bias(work: AttentionWork) -> Tensor | None:
    """All terms, scaled and masked: (B, H, Q, K); without terms the visible keys, bool; None: all."""
    q = work.q
    seen = work.inputs.seen(q.shape[1])
    if not work.terms:
        return seen
    shares = (term(q, work.k, work.key_map, work.inputs) for term in work.terms)
    bias = cast(Tensor, sum(shares)) / math.sqrt(q.shape[3])
    return (bias if seen is None else bias.masked_fill(~seen, -math.inf)).to(q.dtype)


IN_CACHE = Backend("C, from the cache", _takes_step, _attend_to_entries)
IN_TRITON = Backend("Triton", _takes_in_triton, _attend_in_triton)
BY_TORCH = Backend("torch", lambda work: True, _attend_by_torch)

# In this order. Without a cache, or if C does not take it, keys and values are laid out first.
BACKENDS = (
    Backend("keys on the stack", lambda work: work.inputs.on_stack is not None, _attend_on_stack),
    Backend("C", _takes_in_c, _attend_in_c),
    Backend("blocks by torch", _takes_in_blocks, _attend_in_blocks),
    IN_TRITON,
    Backend("depths by torch", lambda work: work.inputs.depth_difference is not None, _attend_by_depth),
    BY_TORCH,
)
