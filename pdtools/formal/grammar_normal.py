"""A grammar as arrays, with summed weights of unary chains and empty symbols; inside probabilities by it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.formal.grammar import Grammar, Item, Token

Float = NDArray[np.float64]

_NEWTON_STEPS = 200
# A symbol that derives itself with a larger weight has too many strings to be summed.
_LARGEST_CYCLE = 1 - 1e-6
# Symbols of a rule that are split off one by one; a longer rule is halved first.
_ONE_BY_ONE = 100


@dataclass(frozen=True, eq=False)
class NormalForm:
    """N symbols (the grammar's, its tokens, and parts of long rules), P pairs of them, V tokens.

    A non-empty string of symbol A is a chain ``A ⇒ … ⇒ X`` of rules in which all symbols but one become
    empty, and then X alone: a token, or a pair of non-empty symbols. The start symbol is not special:
    its chains count like any other's.

    Attributes:
        names: (N) for messages.
        start: number of the start symbol.
        tokens: int64 (V), the symbol of each token of the vocabulary.
        pairs: int64 (P, 2), adjacent symbols in rules.
        pair_weights: (N, P), weights of the rules ``X -> pair``.
        chains: (N, N), summed weights of all chains from a symbol to another; 1 and more on the diagonal.
        empty: (N), the probability of the empty string.
    """

    names: tuple[str, ...]
    start: int
    tokens: NDArray[np.int64]
    pairs: NDArray[np.int64]
    pair_weights: Float
    chains: Float
    empty: Float


def normal_form(grammar: Grammar) -> NormalForm:
    """Convert a grammar to arrays; every string keeps its probability.

    Raises:
        PdtoolsError: if a symbol derives itself, without a token beside it, with a weight of 1: the
            probabilities of its strings could not be summed.
    """
    builder = _Builder(grammar)
    symbols, single, double, empty_rules = builder.names, builder.single, builder.double, builder.empty
    number = len(symbols)
    empty = _empty_weights(number, single, double, empty_rules)
    chain = np.zeros((number, number))  # one step: the other symbol of a pair becomes empty
    for (left, right), weight in single.items():
        chain[left, right] += weight
    for (left, first, second), weight in double.items():
        chain[left, first] += weight * empty[second]
        chain[left, second] += weight * empty[first]
    _refuse_endless_chains(chain, builder)
    pairs = sorted({(first, second) for _, first, second in double})
    column = {pair: i for i, pair in enumerate(pairs)}
    pair_weights = np.zeros((number, len(pairs)))
    for (left, first, second), weight in double.items():
        pair_weights[left, column[first, second]] += weight
    return NormalForm(
        names=tuple(symbols),
        start=builder.number(grammar.start),
        tokens=np.array([builder.number(Token(text)) for text in grammar.vocabulary], dtype=np.int64),
        pairs=np.array(pairs, dtype=np.int64).reshape(-1, 2),
        pair_weights=pair_weights,
        chains=_summed_chains(chain),
        empty=empty,
    )


def _summed_chains(step: Float) -> Float:
    """I + step + step² + …, without subtraction: rare chains are exact too, and none is negative."""
    own = step.any(1)  # symbols that chains continue from: seldom tokens, of which there may be many
    power = step[np.ix_(own, own)]
    inner = np.eye(len(power))
    while power.any():  # sums over chains of fewer than 1, 2, 4, … steps, and of exactly 1, 2, 4, …
        inner += inner @ power
        power = power @ power
    summed = np.eye(len(step))
    summed[np.ix_(own, own)] = inner
    summed[np.ix_(own, ~own)] = inner @ step[np.ix_(own, ~own)]
    return summed


class _Builder:
    """Numbers for symbols, and rules with at most two of them on the right."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.names: list[str] = []
        self._numbers: dict[tuple[Item, ...], int] = {}
        self.single: dict[tuple[int, int], float] = defaultdict(float)
        self.double: dict[tuple[int, int, int], float] = defaultdict(float)
        self.empty: dict[int, float] = defaultdict(float)
        for symbol in grammar.symbols:
            self.number(symbol)
        for rule in grammar.rules:
            self._add(self.number(rule.left), rule.right, float(rule.probability))

    def number(self, *items: Item) -> int:
        """The number of a symbol, a token, or several of them as a part of a rule."""
        if items not in self._numbers:
            self._numbers[items] = len(self.names)
            self.names.append(" ".join(map(str, items)))
            if len(items) > 1:
                self._add(self._numbers[items], items, 1.0)
        return self._numbers[items]

    def _add(self, left: int, right: tuple[Item, ...], weight: float) -> None:
        if not right:
            self.empty[left] += weight
        elif len(right) == 1:
            self.single[left, self.number(*right)] += weight
        else:
            # A token at an edge is split off first: a pair with a symbol of fixed length needs no sum over
            # splits.
            cut = len(right) - 1 if isinstance(right[-1], Token) else 1
            if len(right) > _ONE_BY_ONE:
                cut = len(right) // 2
            self.double[left, self.number(*right[:cut]), self.number(*right[cut:])] += weight


def _empty_weights(
    number: int,
    single: dict[tuple[int, int], float],
    double: dict[tuple[int, int, int], float],
    empty_rules: dict[int, float],
) -> Float:
    """Probabilities of the empty string: the least solution of a quadratic system, by Newton's method from 0.

    The method rises to the least solution, and never beyond (Etessami and Yannakakis 2009).
    """
    everywhere = np.zeros(number)
    can_be_empty = _can_be_empty(single, double, empty_rules)
    place = {symbol: i for i, symbol in enumerate(sorted(can_be_empty))}
    size = len(place)
    constant = np.zeros(size)
    linear = np.zeros((size, size))
    for symbol, weight in empty_rules.items():
        constant[place[symbol]] += weight
    for items, weight in single.items():
        if can_be_empty.issuperset(items):
            linear[place[items[0]], place[items[1]]] += weight
    rules = {items: weight for items, weight in double.items() if can_be_empty.issuperset(items)}
    places = [[place[item] for item in items] for items in rules]
    left, first, second = np.array(places, dtype=np.int64).reshape(-1, 3).T
    weights = np.array(list(rules.values()))
    found = np.zeros(size)
    for _ in range(_NEWTON_STEPS):
        value = constant + linear @ found
        np.add.at(value, left, weights * found[first] * found[second])
        slope = linear.copy()
        np.add.at(slope, (left, first), weights * found[second])
        np.add.at(slope, (left, second), weights * found[first])
        # Symbols that are not reached yet stay at 0.
        used = value > 0
        step = np.zeros(size)
        system = (np.eye(size) - slope)[np.ix_(used, used)]
        try:
            step[used] = np.linalg.solve(system, (value - found)[used])
        except np.linalg.LinAlgError:
            break  # an endless chain, which is refused with its symbol
        before, found = found, np.clip(found + step, 0, 1)
        if ((found > 0) == (before > 0)).all() and (np.abs(step) <= 1e-14 * found).all():
            break
    everywhere[list(place)] = found
    return everywhere


def _can_be_empty(
    single: Iterable[tuple[int, int]], double: Iterable[tuple[int, int, int]], empty_rules: Iterable[int]
) -> set[int]:
    """Symbols that derive the empty string."""
    found = set(empty_rules)
    rules: list[tuple[int, ...]] = [*single, *double]
    while more := {left for left, *rights in rules if found.issuperset(rights)} - found:
        found |= more
    return found


def _refuse_endless_chains(chain: Float, builder: _Builder) -> None:
    own = np.flatnonzero(chain.any(1))  # the others are on no cycle
    if not len(own):
        return
    values, vectors = np.linalg.eig(chain[np.ix_(own, own)])
    worst = int(np.abs(values).argmax())
    if abs(values[worst]) >= _LARGEST_CYCLE:
        named = own < len(builder.grammar.symbols)  # and not parts of rules
        symbol = builder.names[own[named][np.abs(vectors[named, worst]).argmax()]]
        raise PdtoolsError(
            f"grammar {builder.grammar.name}: {symbol} derives itself alone, with so much weight that its"
            " probabilities do not add up (give less weight to such rules, or to the empty string)"
        )


# --- inside probabilities of lengths, and of strings, many of one length at a time -------------

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
