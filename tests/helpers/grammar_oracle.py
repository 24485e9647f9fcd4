"""Strings of a grammar by brute force, from its rules as they are written."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from hypothesis import strategies as st

from pdtools.formal.grammar import Grammar, Token, parse_grammar, read_grammar

Strings = dict[tuple[str, ...], float]


def grammar_of(*lines: str, name: str = "test") -> Grammar:
    return parse_grammar(enumerate(lines, 1), name, "test.pcfg")


def fewer_symbols() -> Grammar:
    """The hardest language with fewer kinds of fillers and brackets, and so fewer strings of a length."""
    lines = read_grammar("hardest").text.splitlines()
    grammar = grammar_of(*(line for line in lines if not re.search(r"^W.*'[()[]'|^W.*']'|^T.*'\['", line)))
    assert len(grammar.rules) == 18
    return grammar


def strings_up_to(grammar: Grammar, longest: int, rounds: int = 200) -> Strings:
    """Every string of at most ``longest`` tokens with its probability, summed over all its derivations.

    Round h adds up derivation trees of at most h levels. It ends when a round changes nothing.
    """
    found: dict[str, Strings] = {symbol: {} for symbol in grammar.symbols}
    for _ in range(rounds):
        new: dict[str, Strings] = {symbol: defaultdict(float) for symbol in grammar.symbols}
        for rule in grammar.rules:
            for string, weight in products(rule.right, found, longest):
                new[rule.left][string] += weight * float(rule.probability)
        if all(
            new[s].keys() == found[s].keys()
            and all(abs(new[s][w] - p) <= 1e-15 * p for w, p in found[s].items())
            for s in found
        ):
            break
        found = {symbol: dict(strings) for symbol, strings in new.items()}
    return found[grammar.start]


def products(
    right: tuple[Token | str, ...], found: dict[str, Strings], longest: int
) -> Iterable[tuple[tuple[str, ...], float]]:
    partial: Strings = {(): 1.0}
    for item in right:
        parts = {(item.text,): 1.0} if isinstance(item, Token) else found[item]
        longer: Strings = defaultdict(float)
        for begun, weight in partial.items():
            for string, more in parts.items():
                if len(begun) + len(string) <= longest:
                    longer[(*begun, *string)] += weight * more
        partial = longer
    return partial.items()


@st.composite
def small_grammars(draw: st.DrawFn) -> Grammar:
    """Grammars of up to three symbols and two tokens; ambiguous, with empty strings and cyclic unit rules.

    Every symbol has a rule that ends it, with at least a third of the weight, so that sums converge soon.
    """
    symbols = ["S", "A", "B"][: draw(st.integers(1, 3))]
    item = st.sampled_from([*symbols, "'a'", "'b'"])
    lines = []
    for i, symbol in enumerate(symbols):
        rights = draw(st.lists(st.lists(item, max_size=3), min_size=1, max_size=2))
        end = draw(st.sampled_from(["", "'a'", "'b'", "'a' 'b'"]))
        # The next symbol is always reachable.
        onward = f"'b' {symbols[i + 1]}" if i + 1 < len(symbols) else "'a' 'a'"
        alternatives = [*(" ".join(right) for right in rights), onward, end]
        weights = [draw(st.integers(1, 3)) for _ in alternatives[:-1]]
        weights.append(max(draw(st.integers(1, 3)), sum(weights)))
        lines.append(
            f"{symbol} -> " + " | ".join(f"{a} [{w}]" for a, w in zip(alternatives, weights, strict=True))
        )
    return grammar_of(*lines)
