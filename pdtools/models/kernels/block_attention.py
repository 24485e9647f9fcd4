"""Attention in blocks of rows, for CPUs: each block's scores stay in the cache, up to its last key only.

In training it is computed in C if there is a compiler (:mod:`pdtools.models.kernels.native_attention`); the
code below is for scoring, and for other machines.

Torch's attention takes all added terms as one tensor; making, adding and keeping such tensors (by depth, by
distance, dropout's) costs more than the attention. Here each term is added to a block as it is computed. The
backward pass computes the weights again, or keeps them if that is cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pdtools.models.kernels.dropout import multipliers, random_levels
from pdtools.models.kernels.native_attention import AttentionKernel, Tensors, type_in_c
from pdtools.models.kernels.self_test import agrees, dropped_twice, with_gradients
from pdtools.models.kernels.terms import FORMS, Terms

# Forms of terms that are computed here by torch.
TAKES = tuple(name for name in FORMS if name not in ("apart", "graph_table", "graph"))
_TERMS = tuple(name for name in TAKES if name != "alibi")  # its penalties are a bias

# Forms that are computed in C. A query sees all keys before it, or by openers.
TAKES_IN_C = tuple(name for name in FORMS if name not in ("seen", "apart"))

# Scores (heads x queries x keys) made at a time, by each thread: as many as stay in its cache.
BLOCK_CELLS = 1 << 17
MOST_QUERIES = 32
# Torch's softmax is slow on rows that are shorter than the processor's vectors.
SHORT_ROW = 16


def _sizes(tensors: Tensors) -> dict[str, int]:
    table, tape = tensors["table"], tensors["tape"]
    return {
        "depths": 0 if table is None else table.shape[1],
        "tapes": tape.shape[1] if tape is not None and tape.ndim == 4 else 1,
    }


def _softmax_shape(tensors: Tensors) -> tuple[int, ...]:
    q = tensors["q"]
    assert q is not None
    return (*q.shape[:3], 2)


# ALiBi's penalties are a bias; the table and tapes of graphs replace those for depths.
_TERMS_IN_C = tuple(name for name in TAKES_IN_C if name not in ("alibi", "graph_table", "graph"))
IN_C = AttentionKernel(
    name="block_attention",
    inputs=("q", "k", "v", *_TERMS_IN_C),
    learned=tuple(name for name in _TERMS_IN_C if FORMS[name].learned),
    kept="softmax",
    kept_shape=_softmax_shape,
    sizes=_sizes,
)


def block_attention(
    q: Tensor, k: Tensor, v: Tensor, terms: Terms, *, dropout: float = 0.0, keep_weights: bool = False
) -> Tensor:
    """Causal attention with terms added to its scores: in C if it takes them, else by torch.

    Args:
        q, k, v: float (B, H, N, d_head), on the CPU.
        terms: the added terms, and the mask.
        dropout: for the attention weights.
        keep_weights: keep them for the backward pass (B x H x N x N), instead of computing them again; C
            always computes them again.

    Returns:
        float (B, H, N, d_head). It can be differentiated once.

    Raises:
        IndexError: if a depth is not in the table, or a constituent is opened after a position at which it is
            open.
    """
    if native_takes(q, k, v, terms):
        return attention_in_c(q, k, v, terms, dropout)
    return attention_in_blocks(q, k, v, terms, dropout, keep_weights)


def attention_in_c(q: Tensor, k: Tensor, v: Tensor, terms: Terms, dropout: float) -> Tensor:
    """See :func:`block_attention`; for inputs that :func:`native_takes`."""
    return native_block_attention(q, k, v, _prepared(q, terms), dropout)


def native_block_attention(q: Tensor, k: Tensor, v: Tensor, terms: Terms, dropout: float) -> Tensor:
    """See :func:`attention_in_c`; for terms as they are, without ``alibi``."""
    if terms.graph is not None:
        terms = terms._replace(table=terms.graph_table, tape=terms.graph)  # (B, 3, N, N)
    given: dict[str, Tensor | None] = {**terms._asdict(), "q": q, "k": k, "v": v}
    if terms.table is not None:
        given["table"] = terms.table.expand(q.shape[1], -1, -1)  # (H, depths, d_head)
    return IN_C(given, dropout)


def attention_in_blocks(
    q: Tensor, k: Tensor, v: Tensor, terms: Terms, dropout: float, keep_weights: bool
) -> Tensor:
    """See :func:`block_attention`."""
    terms = _prepared(q, terms)
    return _BlockAttention.apply(q, k, v, *_in_order(terms), dropout, keep_weights)


def _prepared(q: Tensor, terms: Terms) -> Terms:
    """Check terms, add the number of depths, and convert ALiBi's penalties to numbers."""
    if (terms.distance is None) != (terms.position_bias is None):
        raise ValueError("vectors of distances, and the queries' bias for them, are given together")
    if terms.innermost is not None and bool((terms.innermost > torch.arange(q.shape[2])).any()):
        raise IndexError("a constituent is opened after a position that it is open at")
    if terms.table is not None and terms.tape is not None:
        # Most tapes are far less deep than the table.
        deepest = int(terms.tape.max()) if terms.tape.numel() else 0
        if deepest >= terms.table.shape[1]:
            raise IndexError(f"a depth of {deepest} is not in a table of {terms.table.shape[1]} rows")
        terms = terms._replace(table=terms.table[:, : deepest + 1])
    if terms.graph is not None and terms.graph_table is not None:
        greatest = int(terms.graph.max()) if terms.graph.numel() else 0
        if greatest >= terms.graph_table.shape[1]:
            raise IndexError(f"{greatest} is not in a table of {terms.graph_table.shape[1]} rows")
    return terms.with_penalties(q.shape[2], q.shape[2], q.shape[3])


def _in_order(terms: Terms) -> list[Tensor | None]:
    return [getattr(terms, name) for name in _TERMS]


def native_takes(q: Tensor, k: Tensor, v: Tensor, terms: Terms) -> bool:
    """Return whether :func:`attention_in_c` takes these inputs, and works here.

    Compiling the functions takes as long as scoring many sentences: it is done only for training.
    """
    given = terms.given()
    dtype = type_in_c(q, k, v, *given.values())
    return (
        dtype is not None
        and given.keys() <= set(TAKES_IN_C)
        and _forms_fit(q, given)
        and _native_works(dtype)
    )


def _forms_fit(q: Tensor, given: dict[str, Tensor]) -> bool:
    """Return whether terms are as described: torch may broadcast other shapes, C would read beyond them."""
    sizes = dict(zip("BHND13", (*q.shape, 1, 3), strict=True))
    for name, term in given.items():
        shape, dtype, _ = FORMS[name]
        if dtype not in (None, term.dtype) or (
            shape is not None and term.shape != tuple(map(sizes.__getitem__, shape))
        ):
            return False
    return True


@cache
def _native_works(dtype: torch.dtype) -> bool:
    """Return whether the functions in C compile, and compute the same as torch's operations.

    Args:
        dtype: float32 or float64.
    """
    if IN_C.library(dtype) is None:
        return False
    heads, n, d_head, depths = 2, 40, 8, 3

    def pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=random, dtype=dtype).requires_grad_()

        def some(dtype: torch.dtype) -> Tensor:
            return torch.randint(depths, (2, n, n), generator=random, dtype=dtype)

        q, k, v = (normal(2, heads, n, d_head) for _ in range(3))
        terms = Terms(
            content_bias=normal(heads, 1, d_head),
            position_bias=normal(heads, 1, d_head),
            distance=normal(heads, n, d_head),
            table=normal(heads, depths, d_head),
            tape=some(torch.uint8),
            slopes=normal(heads),
            open=some(torch.int16),
            bias=normal(heads, n, n).detach(),
            innermost=some(torch.int32)[:, 0].cumsum(1).clamp(max=torch.arange(n)).int() - 1,
        )
        learned = [x for x in (q, k, v, *terms) if x is not None and x.requires_grad]
        weight = normal(2, heads, n, d_head).detach()
        ours = native_block_attention(q, k, v, terms, 0.0)
        plain = _BlockAttention.apply(q, k, v, *_in_order(terms), 0.0, False)
        yield from zip(*(with_gradients(each, weight, learned) for each in (ours, plain)), strict=True)
        openers = Terms(innermost=terms.innermost)  # with openers alone, not all blocks are computed
        yield (
            native_block_attention(q, k, v, openers, 0.0),
            _BlockAttention.apply(q, k, v, *_in_order(openers), 0.0, False),
        )
        # Three equal tapes, with u added to the queries.
        u, table, tape = normal(heads, 1, d_head), normal(heads, depths, d_head), some(torch.uint8)
        three = Terms(content_bias=u, graph_table=table, graph=torch.stack([tape] * 3, 1))
        ours = native_block_attention(q, k, v, three, 0.0)
        one = Terms(table=3 * table, tape=tape)
        plain = _BlockAttention.apply(q + u, k, v, *_in_order(one), 0.0, False)
        learned = [q, k, v, u, table]
        yield from zip(*(with_gradients(each, weight, learned) for each in (ours, plain)), strict=True)
        yield dropped_twice(native_block_attention(q, k, v, terms, 0.5), weight, v)

    return agrees(pairs, "attention is", "in C", tolerance=1e-10 if dtype == torch.float64 else 1e-3)


class _BlockAttention(torch.autograd.Function):
    # Mixed precision stops here: conversions in both directions cost more than narrow products save.
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        *given, ctx.dropout, keep_weights = rest
        terms = Terms(**dict(zip(_TERMS, given, strict=True)))
        ctx.seed = int(torch.randint(2**62, ())) if ctx.dropout else 0
        ctx.cells = BLOCK_CELLS * torch.get_num_threads()
        blocks = _Blocks(q, k, terms, ctx.cells, ctx.dropout, ctx.seed)
        v = v.contiguous()
        # Heads concatenated, as the output layer takes them: kept once for the backward pass.
        mixed = torch.empty_like(v.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
        kept = []
        for sentences, rows in blocks:
            weights = blocks.weights(sentences, rows)  # (b, H, r, rows.stop)
            if keep_weights:
                kept.append(weights)
            if ctx.dropout:
                weights = blocks.multipliers(weights).mul_(weights)
            mixed[sentences, :, rows] = weights @ v[sentences, :, : rows.stop]
        ctx.save_for_backward(q, k, v, mixed, *given, *kept)
        return mixed

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, mixed, *rest = ctx.saved_tensors
        terms = Terms(**dict(zip(_TERMS, rest, strict=False)))
        kept = iter(rest[len(_TERMS) :])
        blocks = _Blocks(q, k, terms, ctx.cells, ctx.dropout, ctx.seed)
        grad = grad.contiguous()
        mean = (grad * mixed).sum(-1, keepdim=True)  # (B, H, N, 1): the softmax's gradient, averaged
        sums = _Gradients(blocks)
        grad_v = torch.empty_like(grad)
        for sentences, rows in blocks:
            weights = next(kept, None)  # (b, H, r, rows.stop)
            if weights is None:
                weights = blocks.weights(sentences, rows)
            grad_rows = grad[sentences, :, rows]  # (b, H, r, d_head)
            scores = grad_rows @ v[sentences, :, : rows.stop].transpose(2, 3)  # (b, H, r, rows.stop)
            if ctx.dropout:
                factors = blocks.multipliers(weights)
                scores.mul_(factors)
                mixing = factors.mul_(weights)
            else:
                mixing = weights
            _add(grad_v, sentences, rows, mixing.transpose(2, 3) @ grad_rows)
            sums.add(sentences, rows, scores.sub_(mean[sentences, :, rows]).mul_(weights))
        return sums.q * blocks.scale, sums.k, grad_v, *_in_order(sums.terms()), None, None


class _Blocks:
    """The attention weights, block by block: some sentences, some of their rows.

    Args:
        cells: scores made at a time. Random numbers go by blocks: passes with the same cells have the same.
    """

    def __init__(self, q: Tensor, k: Tensor, terms: Terms, cells: int, dropout: float, seed: int) -> None:
        self.u, v, r, slopes = terms.content_bias, terms.position_bias, terms.distance, terms.slopes
        self.table, self.tape, self.number = terms.table, terms.tape, terms.open
        self.bias, self.innermost, self.seen = terms.bias, terms.innermost, terms.seen
        self.batch, self.heads, self.n, d_head = q.shape
        self.scale = 1 / math.sqrt(d_head)
        self.slopes = None if slopes is None else slopes[:, None, None] * self.scale  # (H, 1, 1)
        self.dropout = dropout
        self.random = torch.Generator().manual_seed(seed)
        self.q = (q * self.scale).contiguous()  # (B, H, N, d_head)
        self.q_content = self.q if self.u is None else self.q + self.u * self.scale  # (B, H, N, d_head)
        self.q_distance = None if v is None else self.q + v * self.scale  # (B, H, N, d_head)
        self.r = None if r is None else r.contiguous()  # (H, N, d_head)
        self.k = k.contiguous()
        self.queries = min(self.n, MOST_QUERIES)
        self.sentences = max(1, cells // (self.heads * self.queries * self.n))
        above = torch.ones(self.queries, self.queries, dtype=torch.bool).triu(1)
        self.above = torch.zeros_like(above, dtype=q.dtype).masked_fill(above, -math.inf)

    def __iter__(self) -> Iterator[tuple[slice, slice]]:
        for first in range(0, self.batch, self.sentences):
            sentences = slice(first, min(first + self.sentences, self.batch))
            # The last rows come first: gradients of all keys are written there, and then added to.
            for row in reversed(range(0, self.n, self.queries)):
                yield sentences, slice(row, min(row + self.queries, self.n))

    def weights(self, sentences: slice, rows: slice) -> Tensor:
        """Attention weights of a block, (b, H, r, rows.stop)."""
        r = rows.stop - rows.start
        q = self.q_content[sentences, :, rows]  # (b, H, r, d_head)
        scores = q @ self.k[sentences, :, : rows.stop].transpose(2, 3)  # (b, H, r, rows.stop)
        if self.table is not None:
            by_depth = _by_table(self.q[sentences, :, rows], self.table.transpose(1, 2))  # (b, H, r, depths)
            scores += by_depth.gather(3, self.index(sentences, rows))
        if self.q_distance is not None:
            q = self.by_head(self.q_distance, sentences, rows)  # (H, b·r, d_head)
            by_distance = q @ self.vectors(rows).transpose(1, 2)  # (H, b·r, rows.stop)
            scores += _by_key(by_distance.view(self.heads, -1, r, rows.stop)).transpose(0, 1)
        if self.slopes is not None:
            scores.addcmul_(self.slopes, self.open_tokens(sentences, rows)[:, None], value=-1)
        if self.bias is not None:
            scores += self.bias[:, rows, : rows.stop] * self.scale
        scores[..., rows] += self.above[:r, :r]
        if self.innermost is not None:
            opener = self.innermost[sentences, rows, None]  # (b, r, 1)
            is_inside = torch.arange(rows.stop) >= opener  # (b, r, rows.stop)
            scores[:, 0].masked_fill_(is_inside & (opener > 0), -math.inf)
            scores[:, 1].masked_fill_(~is_inside, -math.inf)
        if self.seen is not None:
            scores.masked_fill_(~self.seen[sentences, None, rows, : rows.stop], -math.inf)
        return _softmax(scores)

    def multipliers(self, weights: Tensor) -> Tensor:
        """Dropout's multipliers for the next block; every pass over the blocks has the same."""
        return multipliers(random_levels(weights.shape, self.random), self.dropout, weights.dtype)

    def index(self, sentences: slice, rows: slice) -> Tensor:
        """Depths of the keys that rows see, for every head: int64 (b, H, r, rows.stop)."""
        assert self.tape is not None
        return self.tape[sentences, None, rows, : rows.stop].long().expand(-1, self.heads, -1, -1)

    def open_tokens(self, sentences: slice, rows: slice) -> Tensor:
        """Open tokens above the keys that rows see: (b, r, rows.stop)."""
        assert self.number is not None
        return self.number[sentences, rows, : rows.stop].to(self.q.dtype)

    def vectors(self, rows: slice) -> Tensor:
        """Vectors of the distances from rows to visible keys, the farthest first: (H, rows.stop, d_head)."""
        assert self.r is not None
        return self.r[:, self.n - rows.stop :]

    @staticmethod
    def by_head(values: Tensor, sentences: slice, rows: slice) -> Tensor:
        """Rows of (B, H, N, d_head) as one matrix a head: (H, b·r, d_head)."""
        return values[sentences, :, rows].transpose(0, 1).flatten(1, 2)


class _Gradients:
    """Gradients of everything that scores are made from, summed over the blocks."""

    def __init__(self, blocks: _Blocks) -> None:
        self.blocks = blocks
        self.q = torch.empty_like(blocks.q)  # (B, H, N, d_head)
        self.k = torch.empty_like(blocks.k)
        self.table = None if blocks.table is None else torch.zeros_like(blocks.table)
        self.slopes = None if blocks.slopes is None else torch.zeros_like(blocks.slopes[:, 0, 0])  # (H)
        self.u = None if blocks.u is None else torch.zeros_like(blocks.u)  # (H, 1, d_head)
        self.v = self.r = None
        if blocks.r is not None:
            self.r = torch.zeros_like(blocks.r)  # (H, N, d_head)
            self.v = torch.zeros_like(blocks.r[:, :1])  # (H, 1, d_head)

    def terms(self) -> Terms:
        """The gradients of what is learned."""
        return Terms(self.u, self.v, self.r, self.table, slopes=self.slopes)

    def add(self, sentences: slice, rows: slice, scores: Tensor) -> None:
        """Add a block's gradients; its scores have the gradient (b, H, r, rows.stop)."""
        blocks = self.blocks
        _add(self.k, sentences, rows, scores.transpose(2, 3) @ blocks.q_content[sentences, :, rows])
        grad_q = scores @ blocks.k[sentences, :, : rows.stop]  # (b, H, r, d_head)
        if self.u is not None:
            self.u += grad_q.sum((0, 2))[:, None] * blocks.scale
        if self.r is not None:
            grad_q += self._by_distance(sentences, rows, scores)
        if self.table is not None:
            grad_q += self._by_depth(sentences, rows, scores)
        if self.slopes is not None:
            number = blocks.open_tokens(sentences, rows).flatten(1)[:, :, None]  # (b, r·rows.stop, 1)
            self.slopes -= torch.bmm(scores.flatten(2), number).sum((0, 2)) * blocks.scale
        self.q[sentences, :, rows] = grad_q

    def _by_depth(self, sentences: slice, rows: slice, scores: Tensor) -> Tensor:
        """Add to the table's gradients, and return q's part, (b, H, r, d_head)."""
        blocks = self.blocks
        assert self.table is not None
        assert blocks.table is not None
        by_depth = scores.new_zeros(*scores.shape[:3], self.table.shape[1])  # (b, H, r, depths)
        by_depth.scatter_add_(3, blocks.index(sentences, rows), scores)
        q = blocks.q[sentences, :, rows]  # (b, H, r, d_head)
        if len(self.table) == 1:
            self.table += by_depth.flatten(0, 2).T @ q.flatten(0, 2)
        else:
            self.table += (by_depth.transpose(2, 3) @ q).sum(0)
        return _by_table(by_depth, blocks.table)

    def _by_distance(self, sentences: slice, rows: slice, scores: Tensor) -> Tensor:
        """Add to the gradients of v and r, and return q's part, (b, H, r, d_head)."""
        blocks = self.blocks
        assert self.v is not None
        assert self.r is not None
        assert blocks.q_distance is not None
        by_distance = _from_keys(scores.transpose(0, 1)).flatten(1, 2)  # (H, b·r, rows.stop)
        q = blocks.by_head(blocks.q_distance, sentences, rows)  # (H, b·r, d_head)
        self.r[:, blocks.n - rows.stop :] += by_distance.transpose(1, 2) @ q
        mapped = by_distance @ blocks.vectors(rows)  # (H, b·r, d_head)
        self.v += mapped.sum(1, keepdim=True) * blocks.scale
        return mapped.unflatten(1, (-1, scores.shape[2])).transpose(0, 1)


def _add(total: Tensor, sentences: slice, rows: slice, values: Tensor) -> None:
    """Add values of a block (b, H, rows.stop, d_head) to all keys' values; the last rows come first."""
    if rows.stop == total.shape[2]:
        total[sentences] = values
    else:
        total[sentences, :, : rows.stop] += values


def _by_table(values: Tensor, table: Tensor) -> Tensor:
    """Multiply values (b, H, r, x) by a table (H or 1, x, y): one product if the heads share it."""
    return values @ (table if len(table) > 1 else table[0])


def _by_key(by_distance: Tensor) -> Tensor:
    """Scores by distance (farthest first) read as scores by key, without a copy.

    Row i of r rows moves left by r - 1 - i columns. The values that enter on the right are above the
    diagonal.

    Args:
        by_distance: (…, …, r, K), contiguous.

    Returns:
        (…, …, r, K), of the same memory.
    """
    inner, rows, keys = by_distance.shape[1:]
    step = rows * keys
    return by_distance.as_strided(
        by_distance.shape, (inner * step, step, keys - 1, 1), by_distance.storage_offset() + rows - 1
    )


def _from_keys(scores: Tensor) -> Tensor:
    """Gradients by key (…, …, r, K), zero above the diagonal, as gradients by distance."""
    by_distance = scores.new_zeros(scores.shape)
    # The last key of a row lies where the next row begins: only the last row has one below the diagonal.
    _by_key(by_distance)[..., :-1] = scores[..., :-1]
    by_distance[..., -1, -1] = scores[..., -1, -1]
    return by_distance


def _softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension."""
    if scores.shape[-1] >= SHORT_ROW:
        return scores.softmax(-1)
    weights = (scores - scores.amax(-1, keepdim=True)).exp_()
    return weights.div_(weights.sum(-1, keepdim=True))
