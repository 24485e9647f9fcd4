"""A step of decoding in C, for CPUs: from the cache of hypotheses' inputs, without copies.

This pays because torch needs the vectors of each hypothesis contiguous, and goes through the scores of
its newest token once for each term.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pdtools.models.kernels.native import OPTIONS, native_library, share_among_threads
from pdtools.models.kernels.self_test import agrees
from pdtools.models.kernels.terms import FORMS, Terms

# Multiplications that are worth a thread of their own: a third of a millisecond.
_WORTH_A_THREAD = 1 << 21
_HAS_ONEDNN = torch.backends.mkldnn.is_available()

# Hypotheses whose logits are made at a time, and logits of each thread: as many as stay in the cache until
# they are summed up; of few hypotheses at a time the weights, which are read again, would cost much.
TILE_ROWS = 512
TILE_CELLS = 1 << 18
# Logits that torch makes at a time: on a CPU as many as stay in its cache.
LOGIT_CELLS = 1 << 26
LOGIT_CELLS_CPU = 1 << 20

# Forms of terms that are computed here.
TAKES = tuple(name for name in FORMS if name != "innermost")
_TERMS = tuple(name for name in TAKES if name != "alibi")  # its penalties are a bias

# ``attention`` in decoding.c, in its order.
_SIZES = (
    *("heads", "n", "d", "depths", "table_heads", "distances", "seen_heads", "values_of_graphs"),
    *("width", "by_query"),
)


class _Arguments(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_long) for name in _SIZES),
        ("scale", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("entries", "values", "q", *_TERMS, "out")),
    )


def library_for(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The compiled functions for float32 or float64; None if unavailable."""
    functions = ("attend", "multiply", "normalise")
    return native_library(__package__, "decoding", functions, *OPTIONS[dtype])


def decodes_in_c(*tensors: Tensor) -> bool:
    """Return whether the functions below take these tensors, and work here."""
    dtype = tensors[0].dtype
    return (
        dtype in (torch.float32, torch.float64)
        and all(x.dtype == dtype and x.device.type == "cpu" for x in tensors)
        and not (torch.is_grad_enabled() and any(x.requires_grad for x in tensors))
        and not torch.is_autocast_enabled("cpu")
        and _works(dtype)
    )


def attend_to_entries(q: Tensor, values: Tensor, entries: Tensor, terms: Terms) -> Tensor:
    """Attention of the newest token of each hypothesis to all tokens that it has read.

    The result for a hypothesis depends neither on others nor on the number of threads.

    Args:
        q: (R, H, d_head).
        values: (entries, 2D), keys of all heads and then values.
        entries: int64 (R, n), of the tokens, the newest last.
        terms: in q's precision; for a step, that is with (R, 1, n) instead of (B, N, N), ``seen``
            also (R, H, n) and True for at least one; without ``innermost``. The tape is uint8,
            graph int16.

    Returns:
        (R, H, d_head).

    Raises:
        IndexError: if a depth, a distance or a value of a graph is not in its table.
    """
    rows, heads, d_head = q.shape
    depths = 0 if terms.table is None else terms.table.shape[1]
    if terms.tape is not None and terms.tape.numel() and (deepest := int(terms.tape.max())) >= depths:
        raise IndexError(f"a depth of {deepest} is not in a table of {depths} rows")
    distances = 0 if terms.distance is None else terms.distance.shape[1]
    if terms.apart is not None and terms.apart.numel():
        least, most = (int(each) for each in terms.apart.aminmax())
        if least < 0 or most >= distances:
            raise IndexError(f"distances from {least} to {most} are not in a table of {distances} rows")
    values_of_graphs = 0 if terms.graph_table is None else terms.graph_table.shape[1]
    if terms.graph is not None and (greatest := int(terms.graph.max())) >= values_of_graphs:
        raise IndexError(f"{greatest} is not in a table of {values_of_graphs} rows")
    out = q.new_empty(rows, heads, d_head)
    terms = terms.with_penalties(1, entries.shape[1], d_head)
    q, entries = _with_whole_rows(q.flatten(1)), entries.contiguous()
    given = {name: None if (term := getattr(terms, name)) is None else term.contiguous() for name in _TERMS}
    tensors = {**given, "entries": entries, "values": values, "q": q, "out": out}
    arguments = _Arguments(
        heads=heads,
        n=entries.shape[1],
        d=d_head,
        depths=depths,
        table_heads=0 if terms.table is None else terms.table.shape[0],
        distances=distances,
        seen_heads=0 if terms.seen is None else terms.seen.shape[1],
        values_of_graphs=values_of_graphs,
        width=values.shape[1],
        by_query=q.stride(0),
        scale=1 / math.sqrt(d_head),
        **{name: None if tensor is None else tensor.data_ptr() for name, tensor in tensors.items()},
    )
    _call("attend", q, values.shape[1] * entries.shape[1], arguments)
    return out


def multiply_by_entries(x: Tensor, values: Tensor, entries: Tensor) -> Tensor:
    """Products of x (R, D) with the vectors (entries, D) of entries int64 (R, n): (R, n)."""
    x, entries = _with_whole_rows(x), entries.contiguous()
    n, width = entries.shape[1], values.shape[1]
    out = x.new_empty(len(x), n)
    _call("multiply", x, n * width, n, width, x.stride(0), entries, values, x, out)
    return out


def multiplies_by_onednn(x: Tensor) -> bool:
    """Return whether :func:`product` takes oneDNN's product of x, outside of training."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and _HAS_ONEDNN
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
    )


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute x weight^T + bias (R, A), by oneDNN in searches: MKL takes twice its time on AMD's processors.

    Args:
        x: (R, D).
        weight: (A, D).
        bias: (A,), or None.
    """
    if not multiplies_by_onednn(x):
        return F.linear(x, weight, bias)
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return found


def logsumexp(logits: Tensor) -> Tensor:
    """Compute log Σ exp of rows (R, V), without a copy of them if :func:`decodes_in_c` takes them: (R,)."""
    return _logsumexp([logits.contiguous()]) if decodes_in_c(logits) else logits.logsumexp(1)


def normalises_in_c(hidden: Tensor) -> bool:
    """Return whether :func:`log_normalisers` does these, in any precision, in C."""
    wide = torch.promote_types(hidden.dtype, torch.float32)
    return hidden.device.type == "cpu" and decodes_in_c(hidden.detach()[:0].to(wide))


def log_normalisers(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute log Σ exp of the logits hidden weight^T + bias, which are made in parts that stay in the cache.

    In C these are tiles of some rows and classes, by torch some rows.

    Args:
        hidden: (R, D).
        weight: (V, D).
        bias: (V,), or None.

    Returns:
        (R,), in single precision if hidden's is less.
    """
    if not normalises_in_c(hidden):
        blocks = blocks_of(len(hidden), len(weight), hidden.device)
        return torch.cat([_by_torch(F.linear(hidden[rows], weight, bias)) for rows in blocks])
    found, cells = [], TILE_CELLS * torch.get_num_threads()
    for rows in hidden.chunk(max(1, -(-len(hidden) // TILE_ROWS))):
        classes = max(1, cells // max(1, len(rows)))
        biases = [None] * -(-len(weight) // classes) if bias is None else bias.split(classes)
        tiles = (F.linear(rows, *each) for each in zip(weight.split(classes), biases, strict=True))
        found.append(_logsumexp(tile.to(torch.promote_types(tile.dtype, torch.float32)) for tile in tiles))
    return torch.cat(found)


def blocks_of(rows: int, classes: int, device: torch.device) -> list[slice]:
    """Rows, in blocks whose logits of so many classes torch makes at a time."""
    cells = LOGIT_CELLS_CPU if device.type == "cpu" else LOGIT_CELLS
    size = max(1, cells // max(1, classes))
    return [slice(first, first + size) for first in range(0, max(1, rows), size)]


def _by_torch(logits: Tensor) -> Tensor:
    """Compute log Σ exp of rows by log_softmax, which goes over them once; torch.logsumexp makes copies."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    most, place = logits.max(1, keepdim=True)
    return (most - logits.log_softmax(1).gather(1, place))[:, 0]


def _logsumexp(tiles: Iterable[Tensor]) -> Tensor:
    """Compute log Σ exp of rows whose numbers are in several tiles (R, any), contiguous: (R,)."""
    most = total = None
    for tile in tiles:
        if most is None or total is None:
            most = tile.new_full((len(tile),), -math.inf)
            total = tile.new_zeros(len(tile), dtype=torch.float64)
        n = tile.shape[1]
        _call("normalise", tile, 4 * n, n, tile, most, total)
    assert most is not None
    assert total is not None
    return (most + total.log()).to(most.dtype)


def _with_whole_rows(x: Tensor) -> Tensor:
    """Rows (R, D), each contiguous; rows may lie apart."""
    return x if x.stride(1) == 1 else x.contiguous()


def _call(function: str, rows: Tensor, each: int, *arguments: Any) -> None:
    """Call a function of the library, with rows divided among torch's threads if there is enough work.

    Args:
        each: number of multiplications for a row.
    """
    most = 1 + len(rows) * each // _WORTH_A_THREAD
    share_among_threads(len(rows), getattr(library_for(rows.dtype), function), *arguments, most=most)


@cache
def _works(dtype: torch.dtype) -> bool:
    """Return whether the functions compile, and compute the same as torch's operations."""
    if library_for(dtype) is None:
        return False
    heads, n, d_head, depths = 2, 7, 36, 3  # some whole vectors and a rest, of keys and of their values

    def pairs(random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        normal = partial(torch.randn, generator=random, dtype=dtype)
        some = partial(torch.randint, generator=random)
        q, values, entries = (
            normal(2, heads, d_head),
            normal(9, 2 * heads * d_head),
            some(9, (2, n), dtype=torch.int64),
        )
        terms = Terms(
            content_bias=normal(heads, 1, d_head),
            position_bias=normal(heads, 1, d_head),
            distance=normal(heads, n, d_head),
            table=normal(heads, depths, d_head),
            tape=some(depths, (2, 1, n), dtype=torch.uint8),
            slopes=normal(heads),
            open=some(4, (2, 1, n), dtype=torch.int16),
            alibi=normal(heads),
        )
        apart = Terms(
            content_bias=terms.content_bias,
            position_bias=terms.position_bias,
            distance=normal(heads, depths, d_head),
            apart=some(depths, (2, 1, n), dtype=torch.int16),
            seen=torch.tensor([[[0, 1, 1, 0, 1, 0, 0]], [[0, 0, 0, 0, 0, 0, 1]]], dtype=torch.bool),
        )
        graph = Terms(
            content_bias=terms.content_bias,
            graph_table=normal(heads, depths, d_head),
            graph=some(depths, (2, 3, 1, n), dtype=torch.int16),
        )
        for given in (terms, terms._replace(table=normal(1, depths, d_head)), apart, graph, Terms()):
            yield attend_to_entries(q, values, entries, given), _plainly(q, values, entries, given)
        x = normal(2, values.shape[1])
        yield multiply_by_entries(x, values, entries), torch.einsum("rd,rnd->rn", x, values[entries])
        logits = 3 * normal(2, 2000)
        logits[0, :1100], logits[1, 1100:] = -math.inf, logits[1, 1100:] + 2
        yield _logsumexp([logits]), logits.logsumexp(1)

    return agrees(pairs, "decoding is", "in C", tolerance=1e-12 if dtype == torch.float64 else 1e-5)


def _plainly(q: Tensor, values: Tensor, entries: Tensor, terms: Terms) -> Tensor:
    """:func:`attend_to_entries` by torch's operations, to compare it with."""
    (rows, heads, d_head), n = q.shape, entries.shape[1]
    k, v = values[entries].view(rows, n, 2, heads, d_head).permute(2, 0, 3, 1, 4)  # (R, H, n, d_head) each
    keyed = q if terms.content_bias is None else q + terms.content_bias[:, 0]
    scores = torch.einsum("rhd,rhnd->rhn", keyed, k)
    if terms.distance is not None:
        assert terms.position_bias is not None
        by_distance = torch.einsum("rhd,hnd->rhn", q + terms.position_bias[:, 0], terms.distance)
        scores = scores + (
            by_distance
            if terms.apart is None
            else by_distance.gather(2, terms.apart.long().expand(-1, heads, -1))
        )
    if terms.table is not None:
        assert terms.tape is not None
        by_depth = torch.einsum("rhd,htd->rht", q, terms.table.expand(heads, -1, -1))
        scores = scores + by_depth.gather(2, terms.tape.long().expand(-1, heads, -1))
    if terms.graph is not None and terms.graph_table is not None:
        by_value = torch.einsum("rhd,htd->rht", keyed, terms.graph_table)
        for tape in terms.graph.long().unbind(1):
            scores = scores + by_value.gather(2, tape.expand(-1, heads, -1))
    if terms.slopes is not None:
        assert terms.open is not None
        scores = scores - terms.slopes[:, None] * terms.open
    scores = scores / math.sqrt(d_head)
    if terms.alibi is not None:
        scores = scores - terms.alibi[:, None] * torch.arange(n - 1, -1, -1)
    if terms.seen is not None:
        scores = scores.masked_fill(~terms.seen, -math.inf)
    return torch.einsum("rhn,rhnd->rhd", scores.softmax(2), v)
