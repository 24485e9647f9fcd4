"""Weighted context-free grammars as text: one symbol's alternatives per line, weights in square brackets.

::

    # Palindromes with a marker.
    S -> '0' S '0' [30/61] | '1' S '1' [30/61] | '#' [1/61]

A word in quotes is a token of the language, any other a symbol; the first symbol is the start. An empty
alternative is the empty string. Weights of a symbol's alternatives are relative (by default 1): they
are divided by their sum. A symbol may have several lines. ``#`` outside quotes begins a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import read_lines
from pdtools.tokenization.tokenizer import EOS, PAD, ROOT, UNK

_LEXEME = re.compile(
    r"""\s*(?:
    (?P<comment>\#.*) | (?P<arrow>->|→) | (?P<bar>\|) | \[(?P<weight>[^\]]*)\]
    | '(?P<single>[^']*)' | "(?P<double>[^"]*)" | (?P<symbol>(?:(?!->|→)[^\s'"\[\]|\#])+)
    )""",
    re.VERBOSE,
)
_SUFFIX = ".pcfg"
# Stricter than Fraction: 1e999999999 would be computed. (Ratios of weights can have many digits.)
_WEIGHT = re.compile(r"\d{1,4000}(/\d{1,4000})?|(\d{1,50}(\.\d{0,50})?|\.\d{1,50})([eE][+-]?\d{1,2})?", re.A)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the language on the right-hand side of a rule."""

    text: str

    def __str__(self) -> str:
        return f'"{self.text}"' if "'" in self.text else f"'{self.text}'"


Item = Token | str
"""An item of a right-hand side: a token, or a symbol by its name."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``left -> right``, with its probability among the rules of ``left``; no ``right``: the empty string."""

    left: str
    right: tuple[Item, ...]
    probability: Fraction

    def __str__(self) -> str:
        return " ".join([self.left, "->", *map(str, self.right), f"[{self.probability}]"])


@dataclass(frozen=True)
class Grammar:
    """A probabilistic context-free grammar, checked.

    Attributes:
        name: its name.
        rules: the first one's left-hand side is the start symbol.
    """

    name: str
    rules: tuple[Rule, ...]

    @property
    def start(self) -> str:
        """The start symbol."""
        return self.rules[0].left

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Symbols in the order of their first rules."""
        return tuple(dict.fromkeys(rule.left for rule in self.rules))

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """Tokens in the order of their first occurrence."""
        tokens = (item.text for rule in self.rules for item in rule.right if isinstance(item, Token))
        return tuple(dict.fromkeys(tokens))

    @property
    def text(self) -> str:
        """Rules, one per line, as :func:`parse_grammar` reads them back."""
        return "".join(f"{rule}\n" for rule in self.rules)


def grammar_names() -> tuple[str, ...]:
    """Names of the grammars that come with pdtools."""
    return tuple(sorted(path.stem for path in _folder().glob(f"*{_SUFFIX}")))


def read_grammar(source: str | Path) -> Grammar:
    """Read a grammar: a file, or one that comes with pdtools, by name; a file of this name comes first.

    Raises:
        InputError: if there is no such grammar, or a bad one: its file, its line, and what to do.
    """
    if Path(source).is_file() or str(source) == "-":
        return parse_grammar(read_lines(source), Path(source).name.partition(".")[0], str(source))
    if str(source) not in grammar_names():
        known = ", ".join(grammar_names())
        raise InputError("no such file, nor a grammar of this name", file=source, hint=f"grammars: {known}")
    return parse_grammar(read_lines(_folder() / f"{source}{_SUFFIX}"), str(source), str(source))


def _folder() -> Path:
    from pdtools.data import grammars

    return grammars()


def parse_grammar(lines: Iterable[tuple[int, str]], name: str, place: str) -> Grammar:
    """Parse and check numbered lines of the format above.

    Args:
        lines: lines from :func:`pdtools.files.read_lines`.
        name: the grammar's name.
        place: the file, for messages.

    Raises:
        InputError: for a line that is no rule; a symbol without rules, one that the start symbol never leads
            to, or one that never comes to an end.
    """
    alternatives: dict[str, dict[tuple[Item, ...], Fraction]] = {}
    first_lines: dict[str, int] = {}  # for every symbol on any side, its first line
    for number, line in lines:
        lexemes = _split(line, place, number)
        if not lexemes:
            continue
        left, found = _alternatives(lexemes, place, number)
        for right, weight in found:
            known = alternatives.setdefault(left, {})
            known[right] = known.get(right, Fraction(0)) + weight
            for symbol in (left, *(item for item in right if isinstance(item, str))):
                first_lines.setdefault(symbol, number)
    if not alternatives:
        raise InputError("no rules in it", file=place, hint="write S -> 'a' S 'b' [1/2] | [1/2]")
    _check(alternatives, first_lines, place)
    rules = []
    for left, weighted in alternatives.items():
        total = sum(weighted.values())
        rules += [Rule(left, right, weight / total) for right, weight in weighted.items()]
    return Grammar(name, tuple(rules))


def _split(line: str, place: str, number: int) -> list[tuple[str, str]]:
    """Split a line into tokens, each with its kind, without a comment."""
    lexemes, position = [], 0
    line = line.rstrip()
    while position < len(line):
        match = _LEXEME.match(line, position)
        if match is None:
            rest = line[position:].strip()
            raise InputError(f"a quote or bracket without its partner: {rest}", file=place, line=number)
        kind = str(match.lastgroup)
        if kind == "comment":
            break
        lexemes.append(("token" if kind in ("single", "double") else kind, match[kind]))
        position = match.end()
    return lexemes


def _alternatives(
    lexemes: list[tuple[str, str]], place: str, number: int
) -> tuple[str, list[tuple[tuple[Item, ...], Fraction]]]:
    """The symbol of a line, and its alternatives with their weights."""
    kinds = [kind for kind, _ in lexemes]
    if kinds[:2] != ["symbol", "arrow"] or kinds.count("arrow") != 1:
        hint = "write SYMBOL -> ALTERNATIVE | ALTERNATIVE, such as S -> 'a' S [0.5] | 'a' [0.5]"
        raise InputError("not a rule", file=place, line=number, hint=hint)
    found: list[tuple[tuple[Item, ...], Fraction]] = []
    right: list[Item] = []
    weight: Fraction | None = None
    for kind, text in [*lexemes[2:], ("bar", "")]:
        if kind == "bar":
            found.append((tuple(right), Fraction(1) if weight is None else weight))
            right, weight = [], None
        elif weight is not None:
            reason = f"{text} after a weight"
            raise InputError(reason, file=place, line=number, hint="put | before the next alternative")
        elif kind == "weight":
            weight = _weight(text, place, number)
        else:
            right.append(_token(text, place, number) if kind == "token" else text)
    return lexemes[0][1], found


def _weight(text: str, place: str, number: int) -> Fraction:
    digits = text.replace(" ", "")
    try:
        weight = Fraction(digits) if _WEIGHT.fullmatch(digits) else Fraction(0)
    except ZeroDivisionError:
        weight = Fraction(0)
    if weight == 0:
        hint = "write a number above 0, such as [0.25], [1/4] or [3]"
        raise InputError(f"[{text}] is no weight", file=place, line=number, hint=hint)
    return weight


def _token(text: str, place: str, number: int) -> Token:
    if not text or text.split() != [text]:
        hint = "leave an alternative empty for the empty string"
        raise InputError(
            f"'{text}': a token needs letters, and has no spaces", file=place, line=number, hint=hint
        )
    if text in (PAD, ROOT, EOS, UNK):
        raise InputError(f"'{text}' is a special token of models: rename it", file=place, line=number)
    return Token(text)


def _check(
    alternatives: dict[str, dict[tuple[Item, ...], Fraction]], first_lines: dict[str, int], place: str
) -> None:
    """Refuse symbols that are undefined, unused or endless: all of them are mistakes."""

    def refuse(symbol: str, reason: str, hint: str) -> PdtoolsError:
        return InputError(f"{symbol} {reason}", file=place, line=first_lines[symbol], hint=hint)

    parts = {
        left: [{item for item in right if isinstance(item, str)} for right in rights]
        for left, rights in alternatives.items()
    }
    for symbol in first_lines:
        if symbol not in parts:
            raise refuse(symbol, "has no rules", f"add some, or write '{symbol}' if it is a token")
    reached, waiting = set(), [next(iter(parts))]
    while waiting:
        symbol = waiting.pop()
        if symbol not in reached:
            reached.add(symbol)
            waiting += sorted(set().union(*parts[symbol]))
    ending: set[str] = set()
    while more := {s for s, rights in parts.items() if any(right <= ending for right in rights)} - ending:
        ending |= more
    for symbol in parts:
        if symbol not in reached:
            start = next(iter(parts))
            raise refuse(symbol, f"cannot be reached from {start}, the start symbol", "remove its rules")
        if symbol not in ending:
            raise refuse(symbol, "never comes to an end", "give it an alternative without itself")
        weights = alternatives[symbol].values()
        if float(min(weights) / sum(weights)) == 0:
            raise refuse(symbol, "has an alternative too rare to compute with", "give it more weight")
