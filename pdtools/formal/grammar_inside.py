"""Inside probabilities of lengths, and of strings, many of one length at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdtools.formal.grammar_normal import Float, NormalForm

# Cells of the charts computed at once: more of them would not fit in a processor's cache.
_CELLS = 1 << 21
# Below this, products may have underflowed: then the computation is repeated with logarithms.
_SMALLEST = 1e-200


@dataclass(frozen=True, eq=False)
class LengthTable:
    """Log-probabilities of lengths, in nats; -inf if a symbol has no string of that length.

    Attributes:
        symbols: (N, L + 1), log of the total probability of a symbol's strings of each length.
        heads: (N, L + 1), the same without chains: a token, or a pair of non-empty symbols.
        pairs: (P, L + 1), for pairs of non-empty symbols.
    """

    symbols: Float
    heads: Float
    pairs: Float


def length_table(normal: NormalForm, longest: int) -> LengthTable:
    """The inside probabilities of all lengths up to ``longest``, in log space to avoid underflow."""
    number = len(normal.names)
    first, second = normal.pairs.T
    symbols, heads = (np.full((number, longest + 1), -np.inf) for _ in range(2))
    pairs = np.full((len(normal.pairs), longest + 1), -np.inf)
    with np.errstate(divide="ignore"):
        symbols[:, 0] = np.log(normal.empty)
        chains, pair_weights = np.log(normal.chains), np.log(normal.pair_weights)
    for length in range(1, longest + 1):
        if length == 1:
            heads[normal.tokens, 1] = 0.0
        elif len(pairs):
            left, right = symbols[first, 1:length], symbols[second, length - 1 : 0 : -1]
            pairs[:, length] = np.logaddexp.reduce(left + right, axis=1)
            heads[:, length] = np.logaddexp.reduce(pair_weights + pairs[:, length], axis=1)
        symbols[:, length] = np.logaddexp.reduce(chains + heads[:, length], axis=1)
    return LengthTable(symbols, heads, pairs)


def log_probabilities(normal: NormalForm, strings: Sequence[NDArray[np.integer]]) -> Float:
    """Compute log p(string) under the grammar, in nats, for each string.

    Args:
        normal: the grammar.
        strings: indices of the vocabulary; -1 for a token that is not in it.

    Returns:
        (strings); -inf outside the language.
    """
    found = np.full(len(strings), -np.inf)
    by_length: dict[int, list[int]] = {}
    for i, string in enumerate(strings):
        if len(string) == 0:
            with np.errstate(divide="ignore"):
                found[i] = np.log(normal.empty[normal.start])
        elif np.min(string) >= 0:
            by_length.setdefault(len(string), []).append(i)
    fixed = fixed_lengths(normal, max(by_length, default=1))
    for length, members in by_length.items():
        size = max(1, _CELLS // (len(normal.names) * length * (length + 1) // 2))
        for start in range(0, len(members), size):
            some = members[start : start + size]
            probabilities = inside(normal, np.stack([strings[i] for i in some]), fixed)
            for i, probability in zip(some, probabilities.tolist(), strict=True):
                found[i] = (
                    np.log(probability)
                    if probability > _SMALLEST
                    else log_inside(normal, np.asarray(strings[i]))
                )
    return found


def inside(normal: NormalForm, tokens: NDArray[np.integer], fixed: Sequence[int]) -> Float:
    """Compute p(string) for strings of one length, by the inside algorithm over spans of growing length.

    Args:
        normal: the grammar.
        tokens: int (B, n), n at least 1.
        fixed: see :func:`fixed_lengths`.

    Returns:
        (B); 0 if below the smallest float.
    """
    rows, n = tokens.shape
    number = len(normal.names)
    # Symbols whose spans are summed over all splits are also kept by their spans' beginning, or end.
    free = [(p, b, c) for p, (b, c) in enumerate(normal.pairs.tolist()) if not (fixed[b] or fixed[c])]
    by_start = {b: np.zeros((rows, n, n + 1)) for _, b, _ in free}  # [row, start, length]
    by_end = {c: np.zeros((rows, n + 1, n + 1)) for _, _, c in free}  # [row, end, start]
    spans: list[Float] = [np.zeros((number, rows, 0))]  # by length l: (N, B, n - l + 1)
    for length in range(1, n + 1):
        starts = n - length + 1
        if length == 1:
            heads = np.zeros((number, rows, starts))
            heads[normal.tokens] = tokens == np.arange(len(normal.tokens))[:, None, None]
        else:
            products = np.zeros((len(normal.pairs), rows, starts))
            for p, (b, c) in enumerate(normal.pairs.tolist()):
                left = fixed[b] or (length - fixed[c] if fixed[c] else 0)
                if 0 < left < length and (not fixed[c] or length - left == fixed[c]):
                    right = spans[length - left][c, :, left : left + starts]
                    np.multiply(spans[left][b, :, :starts], right, out=products[p])
            for p, b, c in free:
                left_parts = by_start[b][:, :starts, 1:length]  # (B, starts, l - 1)
                right_parts = _ending_together(by_end[c], length)  # (B, starts, l - 1)
                np.einsum("bsm,bsm->bs", left_parts, right_parts, out=products[p])
            heads = np.tensordot(normal.pair_weights, products, axes=1)
        whole = np.tensordot(normal.chains, heads, axes=1)  # (N, B, starts)
        spans.append(whole)
        for symbol, table in by_start.items():
            table[:, :starts, length] = whole[symbol]
        for symbol, table in by_end.items():
            table[:, np.arange(length, n + 1), np.arange(starts)] = whole[symbol]
    return spans[n][normal.start, :, 0]


def _ending_together(by_end: Float, length: int) -> Float:
    """The right parts of all spans of a length, by the span's start: (B, starts, length - 1)."""
    rows, ends, _ = by_end.shape
    row, end, start = by_end.strides
    return np.lib.stride_tricks.as_strided(
        by_end[:, length:, 1:],
        shape=(rows, ends - length, length - 1),
        strides=(row, end + start, start),
        writeable=False,
    )


def fixed_lengths(normal: NormalForm, longest: int) -> list[int]:
    """The one length of each symbol's strings up to ``longest`` tokens; 0: several or none."""
    possible = np.isfinite(length_table(normal, longest).symbols[:, 1:])  # (N, L)
    return [int(row.argmax()) + 1 if row.sum() == 1 else 0 for row in possible]


def log_inside(normal: NormalForm, tokens: NDArray[np.integer]) -> float:
    """Compute log p(string), n at least 1: the same sums in log space, slower, against underflow."""
    n = len(tokens)
    first, second = normal.pairs.T
    chart = np.full((len(normal.names), n, n + 1), -np.inf)  # [symbol, start, end]
    with np.errstate(divide="ignore"):
        chains, pair_weights = np.log(normal.chains), np.log(normal.pair_weights)
    for length in range(1, n + 1):
        for start in range(n - length + 1):
            end = start + length
            heads = np.full(len(normal.names), -np.inf)
            if length == 1:
                heads[normal.tokens[tokens[start]]] = 0.0
            elif len(normal.pairs):
                left, right = chart[first, start, start + 1 : end], chart[second, start + 1 : end, end]
                heads = np.logaddexp.reduce(pair_weights + np.logaddexp.reduce(left + right, axis=1), axis=1)
            chart[:, start, end] = np.logaddexp.reduce(chains + heads, axis=1)
    return float(chart[normal.start, 0, n])
