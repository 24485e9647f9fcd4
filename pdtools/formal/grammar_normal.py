"""A grammar as arrays: rules of two symbols, with summed weights of unary chains and empty symbols."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
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
