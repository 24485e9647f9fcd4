"""A small interpreter for feature grammars that write treebank trees.

A grammar file has symbols at the left margin with the names of their features, and below each symbol its
alternatives: a weight, an optional guard, and a tree fragment in treebank notation::

    NP a c r
      6           (NP {D a} {N a c r})
      2* [a=pl]   (NP {NP c} (CC and) {NP c})

``{N a c r}`` is a hole: a symbol (of the grammar or of the lexicon) with features. ``a`` stands for
``a=$a``, ``$a`` is a variable of the rule, anything else is a constant. A variable without a value gets
the one that the hole chose, so features flow from left to right: a subject that turned out plural makes
the verb plural. A guard ``[a=pl c!=person]`` says when an alternative applies (``=`` also binds). ``*``
marks recursive alternatives: their weight shrinks with every one above them. ``{NP-SBJ-$x a}`` adds
function tags and an index to the label of what the hole yields; a fresh index is made where ``$x`` has no
value yet. ``-`` alone is the empty fragment.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Features = dict[str, str]

NONE = "-NONE-"
_DECAY = 0.45
_TOKEN = re.compile(r"\(|\)|\{[^}]*\}|[^\s(){}]+")
_ALTERNATIVE = re.compile(r"\s+(?P<weight>[\d.]+)(?P<star>\*?)\s+(?:\[(?P<guard>[^\]]*)\]\s+)?(?P<body>.*)")
_INDEX = re.compile(r"-(\d+)$")


class DeadEnd(Exception):
    """No alternative or no word has the features asked for."""


@dataclass(slots=True)
class Node:
    """A tree under construction: a constituent with nodes below it, or a preterminal with a word."""

    label: str
    children: list[Node] = field(default_factory=list)
    word: str = ""

    def preterminals(self) -> Iterator[Node]:
        if self.word:
            yield self
        for child in self.children:
            yield from child.preterminals()

    def nodes(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.nodes()

    def words(self) -> list[str]:
        """The words without traces."""
        return [leaf.word for leaf in self.preterminals() if leaf.label != NONE]

    def __str__(self) -> str:
        return f"({self.label} {self.word or ' '.join(map(str, self.children))})"


@dataclass(frozen=True, slots=True)
class Entry:
    """A word of the lexicon: its tag, its features (``lemma`` among them), how often it is chosen."""

    word: str
    tag: str
    features: Mapping[str, str]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Hole:
    symbol: str
    suffix: str  # what is added to the label: "-SBJ-$x"
    features: tuple[tuple[str, str], ...]
    slot: str = ""  # in templates: holes with the same symbol and slot hold the same lemma or words


@dataclass(frozen=True, slots=True)
class Fragment:
    label: str
    parts: tuple[Fragment | Hole | str, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    weight: float
    recursive: bool
    guard: tuple[tuple[str, bool, str], ...]  # (feature, equal, value)
    parts: tuple[Fragment | Hole | str, ...]


def parse_hole(text: str) -> Hole:
    """Read ``{NP-SBJ-$x a c=person}`` (the braces included); ``{N#2 a}`` has the slot ``2``."""
    name, *pairs = text[1:-1].split()
    head, *suffix = name.split("-", 1)
    symbol, _, slot = head.partition("#")
    split = (pair.partition("=") for pair in pairs)
    features = tuple((key, value if sep else f"${key}") for key, sep, value in split)
    return Hole(symbol, f"-{suffix[0]}" if suffix else "", features, slot)


def parse_parts(text: str) -> tuple[Fragment | Hole | str, ...]:
    """Read the right-hand side of an alternative, or a template: fragments, holes, words."""
    stack: list[list[Fragment | Hole | str]] = [[]]
    tokens = iter(_TOKEN.findall(text))
    labels: list[str] = []
    for token in tokens:
        if token == "(":
            labels.append(next(tokens))
            stack.append([])
        elif token == ")":
            fragment = Fragment(labels.pop(), tuple(stack.pop()))
            stack[-1].append(fragment)
        else:
            stack[-1].append(parse_hole(token) if token.startswith("{") else token)
    if len(stack) != 1:
        raise ValueError(f"unbalanced fragment: {text}")
    return tuple(stack[0])


def _parse_guard(text: str) -> tuple[tuple[str, bool, str], ...]:
    split = (pair.partition("=") for pair in text.split())
    return tuple((key.rstrip("!"), not key.endswith("!"), value) for key, _, value in split)


def parse_rules(text: str) -> dict[str, list[Alternative]]:
    """Read a grammar file.

    Raises:
        ValueError: a line that is neither a symbol, nor an alternative, nor the continuation of one.
    """
    bodies: dict[str, list[str]] = {}
    symbol = ""
    for raw in text.splitlines():
        line = raw.split("#")[0].rstrip() if raw.lstrip().startswith("#") else raw.rstrip()
        if not line:
            continue
        if not line[0].isspace():
            symbol = line.split()[0]
            if symbol in bodies:
                raise ValueError(f"symbol {symbol} is defined twice")
            bodies[symbol] = []
        elif _ALTERNATIVE.match(line):
            bodies[symbol].append(line)
        elif bodies.get(symbol):
            bodies[symbol][-1] += " " + line.strip()
        else:
            raise ValueError(f"not a rule: {raw}")
    return {symbol: [_parse_alternative(line) for line in lines] for symbol, lines in bodies.items()}


def _parse_alternative(line: str) -> Alternative:
    match = _ALTERNATIVE.match(line)
    if match is None:
        raise ValueError(f"not an alternative: {line}")
    body = match["body"].strip()
    return Alternative(
        weight=float(match["weight"]),
        recursive=bool(match["star"]),
        guard=_parse_guard(match["guard"] or ""),
        parts=() if body == "-" else parse_parts(body),
    )


class Grammar:
    """Rules and a lexicon, from which trees are drawn."""

    def __init__(self, rules: str, lexicon: Mapping[str, Sequence[Entry]]) -> None:
        self.rules = parse_rules(rules)
        self.lexicon = lexicon
        both = set(self.rules) & set(lexicon)
        if both:
            raise ValueError(f"symbols both in grammar and lexicon: {sorted(both)}")
        alternatives = [alternative for rule in self.rules.values() for alternative in rule]
        used = {hole.symbol for alternative in alternatives for hole in _holes(alternative.parts)}
        missing = used - set(self.rules) - set(lexicon)
        if missing:
            raise ValueError(f"symbols without rules: {sorted(missing)}")
        self._matches: dict[tuple[str, frozenset[tuple[str, str]]], list[Entry]] = {}

    def sample(self, symbol: str, rng: random.Random, **features: str) -> Node:
        """Draw a tree, its traces and indices tidied, its first word capitalised."""
        (tree,) = Derivation(self, rng).expand(symbol, dict(features), 0)
        tidy_indices(tree)
        tidy_words([leaf for leaf in tree.preterminals() if leaf.label != NONE])
        return tree

    def matching(self, symbol: str, features: Mapping[str, str]) -> list[Entry]:
        """The words of a lexical symbol that have (or leave open) these features."""
        key = (symbol, frozenset(features.items()))
        if key not in self._matches:
            self._matches[key] = [
                entry
                for entry in self.lexicon[symbol]
                if all(entry.features.get(name, value) == value for name, value in features.items())
            ]
        return self._matches[key]


class Derivation:
    """One draw from a grammar: the random numbers, the indices handed out, the slots filled so far."""

    def __init__(self, grammar: Grammar, rng: random.Random) -> None:
        self.grammar = grammar
        self.rng = rng
        self.slots: dict[tuple[str, str], Features | list[Node]] = {}
        self._indices = 0

    def expand(self, symbol: str, features: Features, depth: int) -> list[Node]:
        """Trees for a symbol; ``features`` gets the values that were chosen.

        Raises:
            DeadEnd: nothing has these features.
        """
        if symbol in self.grammar.lexicon:
            return [self._word(symbol, features)]
        alternatives = self.grammar.rules[symbol]
        weights = [
            alt.weight * (_DECAY**depth if alt.recursive else 1.0) if _applies(alt, features) else 0.0
            for alt in alternatives
        ]
        while any(weights):
            chosen = _draw(weights, self.rng)
            alt = alternatives[chosen]
            values = features | {name: value for name, equal, value in alt.guard if equal}
            try:
                nodes = self.fill(alt.parts, values, depth + alt.recursive)
            except DeadEnd:
                weights[chosen] = 0.0
                continue
            features.update(values)
            return nodes
        raise DeadEnd(f"{symbol} {features}")

    def fill(self, parts: Iterable[Fragment | Hole | str], values: Features, depth: int) -> list[Node]:
        """Trees for the parts of a rule or template; ``values`` has and gets the values of its variables."""
        nodes: list[Node] = []
        for part in parts:
            if isinstance(part, str):
                nodes.append(Node("", word=self._substitute(part, values)))
            elif isinstance(part, Fragment):
                label = self._substitute(part.label, values)
                children = self.fill(part.parts, values, depth)
                if len(part.parts) == 1 and isinstance(part.parts[0], str):
                    nodes.append(Node(label, word=children[0].word))
                elif children:
                    nodes.append(Node(label, children))
            else:
                nodes.extend(self._fill_hole(part, values, depth))
        return nodes

    def _fill_hole(self, hole: Hole, values: Features, depth: int) -> list[Node]:
        passed: Features = {}
        for name, value in hole.features:
            known = values.get(value[1:]) if value.startswith("$") else value
            if known is not None:
                passed[name] = known
        nodes = self._fill_slot(hole, passed, depth) if hole.slot else self.expand(hole.symbol, passed, depth)
        for name, value in hole.features:
            if value.startswith("$") and name in passed:
                values.setdefault(value[1:], passed[name])
        if hole.suffix:
            nodes[0].label += self._substitute(hole.suffix, values)
        return nodes

    def _fill_slot(self, hole: Hole, passed: Features, depth: int) -> list[Node]:
        kept = self.slots.get((hole.symbol, hole.slot))
        if isinstance(kept, list):
            return kept
        if kept is not None:
            # The same lemma, in the form that is asked for and else as it was.
            entries = self.grammar.matching(hole.symbol, passed | {"lemma": kept["lemma"]})
            if not entries:
                raise DeadEnd(f"no form of {kept['lemma']} with {passed}")
            entry = max(entries, key=lambda entry: len(entry.features.items() & kept.items()))
            passed.update(entry.features)
            return [Node(entry.tag, word=entry.word)]
        nodes = self.expand(hole.symbol, passed, depth)
        lexical = hole.symbol in self.grammar.lexicon
        if lexical and passed["lemma"] in {
            slot["lemma"] for slot in self.slots.values() if isinstance(slot, dict)
        }:
            raise DeadEnd(f"{passed['lemma']} fills another slot")
        self.slots[hole.symbol, hole.slot] = dict(passed) if lexical else nodes
        return nodes

    def _word(self, symbol: str, features: Features) -> Node:
        entries = self.grammar.matching(symbol, features)
        if not entries:
            raise DeadEnd(f"no {symbol} with {features}")
        entry = entries[_draw([entry.weight for entry in entries], self.rng)]
        features.update(entry.features)
        return Node(entry.tag, word=entry.word)

    def _substitute(self, text: str, values: Features) -> str:
        head, dollar, name = text.partition("$")
        if not dollar or not name:
            return text
        if name not in values:
            self._indices += 1
            values[name] = str(self._indices)
        return head + values[name]


def _holes(parts: Iterable[Fragment | Hole | str]) -> Iterator[Hole]:
    for part in parts:
        if isinstance(part, Hole):
            yield part
        elif isinstance(part, Fragment):
            yield from _holes(part.parts)


def _applies(alternative: Alternative, features: Mapping[str, str]) -> bool:
    return all(
        (features.get(name, value) == value) if equal else (features.get(name) != value)
        for name, equal, value in alternative.guard
    )


def _draw(weights: Sequence[float], rng: random.Random) -> int:
    # Only random(): its values are the same in every Python version, and the files must be reproducible.
    point = rng.random() * sum(weights)
    for index, weight in enumerate(weights):
        point -= weight
        if point < 0:
            return index
    return max(index for index, weight in enumerate(weights) if weight)


def tidy_indices(tree: Node) -> None:
    """Keep the indices that a trace and a label share, numbered from 1 in their order; drop the rest."""
    traces = [leaf for leaf in tree.preterminals() if leaf.label == NONE]
    traced = {match[1] for leaf in traces if (match := _INDEX.search(leaf.word))}
    numbers: dict[str, int] = {}
    for node in tree.nodes():
        match = _INDEX.search(node.label)
        if match:
            kept = f"-{numbers.setdefault(match[1], len(numbers) + 1)}" if match[1] in traced else ""
            node.label = node.label[: match.start()] + kept
    for leaf in traces:
        match = _INDEX.search(leaf.word)
        if match:
            kept = f"-{numbers[match[1]]}" if match[1] in numbers else ""
            leaf.word = leaf.word[: match.start()] + kept


def tidy_words(leaves: Sequence[Node]) -> None:
    """``a`` becomes ``an`` before a vowel, and the sentence gets its capital letter."""
    for leaf, following in pairwise(leaves):
        if leaf.word == "a" and following.word[0] in "aeiou":
            leaf.word = "an"
    for leaf in leaves:
        if leaf.word[0].isalpha():
            leaf.word = leaf.word[0].upper() + leaf.word[1:]
            break
