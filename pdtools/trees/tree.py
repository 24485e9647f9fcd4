"""A constituency tree as flat arrays, its conversion to and from brackets and nltk, and its words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdtools.errors import InputError

# Tag and label where these are unknown.
UNKNOWN_TAG, UNKNOWN_LABEL = "XX", "X"
TRACE_TAG = "-NONE-"
BLANK_LINE = f"({UNKNOWN_LABEL} ({TRACE_TAG} *))"
"""The placeholder for a line without words."""
UNUSABLE_WORD = "\N{REPLACEMENT CHARACTER}"  # in a placeholder, replaces a word that no tree can hold

if TYPE_CHECKING:
    import nltk

Factor = Literal["right", "left"]
# ``given``: groups that a tree has from binarization are kept, and the rest is binarized to the right.
Binarization = Literal["given", "right", "left"]

# Only these separate tokens: a no-break or thin space is part of a word.
_SPACE = r" \t\n\r\f\v"
# A whole preterminal (tag, word); an opening bracket with its label, if the label follows; a closing
# bracket; a bare token.
BRACKET_TOKEN = re.compile(
    rf"\([{_SPACE}]*([^{_SPACE}()]+)[{_SPACE}]+([^{_SPACE}()]+)[{_SPACE}]*\)"
    rf"|(\()[{_SPACE}]*([^{_SPACE}()]*)|(\))|([^{_SPACE}()]+)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A constituency tree over n words with m constituents (nodes above preterminals).

    Constituent i covers ``words[starts[i]:ends[i]]`` and is never empty. Constituents stand in pre-order,
    so a parent comes before its children and, of a unary chain, the upper node comes first. When n > 1 the
    first constituent covers the whole sentence.

    Attributes:
        words: (n) leaves as the treebank writes them.
        tags: (n) label of each word's preterminal; "" for a word that stands beside others without one.
        labels: (m) label of each constituent.
        starts: (m) int32, first word of each constituent.
        ends: (m) int32, one past its last word.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    labels: tuple[str, ...]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.words)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return (
            self.words == other.words
            and self.tags == other.tags
            and self.labels == other.labels
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.ends, other.ends)
        )

    def __hash__(self) -> int:
        return hash((self.words, self.tags, self.labels, self.starts.tobytes(), self.ends.tobytes()))

    def __str__(self) -> str:
        return self.to_brackets()

    @classmethod
    def of(
        cls,
        words: Iterable[str],
        tags: Iterable[str],
        labels: Iterable[str],
        starts: ArrayLike,
        ends: ArrayLike,
    ) -> Tree:
        """Make a tree of any sequences; see the attributes."""
        starts, ends = np.asarray(starts, dtype=np.int32), np.asarray(ends, dtype=np.int32)
        return cls(tuple(words), tuple(tags), tuple(labels), starts, ends)

    @classmethod
    def from_brackets(cls, text: str) -> Tree:
        """Read exactly one bracketed tree.

        Raises:
            InputError: if the text is not one balanced tree with a word in every constituent.
        """
        builder = TreeBuilder()
        tree: Tree | None = None
        for match in BRACKET_TOKEN.finditer(text):
            if tree is not None or (builder.depth == 0 and match[0][0] != "("):
                raise InputError(f"not one bracketed tree: {text[:80]!r}")
            builder.feed(match)
            if builder.depth == 0:
                if builder.fault is not None:
                    raise InputError(f"{builder.fault}: {text[:80]!r}")
                tree = builder.finish()
        if tree is None:
            raise InputError(f"unbalanced brackets or no tree at all: {text[:80]!r}")
        return tree

    def to_brackets(self) -> str:
        """The tree on one line: ``(S (NP (DT the) (NN dog)) (VP (VBZ barks)))``.

        A lone word without a tag gets the label ``X``, because brackets need one; the first word of a
        constituent without a label, where it would be read as the label, gets the tag ``XX``.
        """
        parts: list[str] = []
        for event, i in self._events():
            if event == "open":
                parts.append(f" ({self.labels[i]}")
            elif event == "close":
                parts.append(")")
            else:
                tag = self.tags[i] or ("" if self.labels else "X")
                if not tag and parts[-1] == " (":
                    tag = UNKNOWN_TAG
                # nltk reads "\)" as an escaped bracket, so a backslash must not touch one.
                word = self.words[i] + " " if self.words[i].endswith("\\") else self.words[i]
                parts.append(f" ({tag} {word})" if tag else f" {word}")
        return "".join(parts)[1:]

    @classmethod
    def from_nltk(cls, tree: nltk.Tree) -> Tree:
        """Convert an ``nltk.Tree``; a leaf that is not a string is written with ``str``.

        Raises:
            InputError: if a node has no children.
        """
        import nltk

        builder = TreeBuilder()
        agenda: list[Any] = [tree]
        while agenda:
            node = agenda.pop()
            if node is _CLOSE:
                builder.close()
            elif isinstance(node, nltk.Tree):
                builder.open(str(node.label()))
                agenda.append(_CLOSE)
                agenda.extend(reversed(node))
            else:
                builder.word(str(node))
        if builder.fault is not None:
            raise InputError(builder.fault)
        return builder.finish()

    def to_nltk(self) -> nltk.Tree:
        """Convert to an ``nltk.Tree``."""
        import nltk

        root = nltk.Tree("", [])
        path = [root]
        for event, i in self._events():
            if event == "open":
                node = nltk.Tree(self.labels[i], [])
                path[-1].append(node)
                path.append(node)
            elif event == "close":
                path.pop()
            else:
                tag = self.tags[i] or ("" if self.labels else "X")
                path[-1].append(nltk.Tree(tag, [self.words[i]]) if tag else self.words[i])
        return root[0]

    def _events(self) -> Iterator[tuple[str, int]]:
        """Walk the tree in order: ("open", constituent), ("word", word), ("close", constituent)."""
        starts, ends = self.starts.tolist(), self.ends.tolist()
        open_nodes: list[int] = []
        upcoming = 0
        for k in range(len(self.words)):
            while upcoming < len(starts) and starts[upcoming] == k:
                yield "open", upcoming
                open_nodes.append(upcoming)
                upcoming += 1
            yield "word", k
            while open_nodes and ends[open_nodes[-1]] == k + 1:
                yield "close", open_nodes.pop()


_CLOSE = object()


class TreeBuilder:
    """Builder of a :class:`Tree` from opening brackets, labels, words and closing brackets in order.

    ``depth`` counts the open brackets. ``fault`` is a fault of the tree although its brackets
    balance; such a tree must not be finished.
    """

    def __init__(self) -> None:
        self.fault: str | None = None
        self._words: list[str] = []
        self._tags: list[str | None] = []  # None: no bracket has closed around this word alone yet
        self._labels: list[str] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._path: list[int] = []  # open nodes
        self._label_may_follow = False

    @property
    def depth(self) -> int:
        """The number of open brackets."""
        return len(self._path)

    @property
    def label(self) -> str:
        """The label of the innermost open bracket."""
        return self._labels[self._path[-1]] if self._path else ""

    def feed(self, match: re.Match[str]) -> None:
        """Take one token of :data:`BRACKET_TOKEN`; a token other than a closing bracket at depth 0."""
        tag, word, opening, label, closing, bare = match.groups()
        if word is not None:
            self._words.append(word)
            self._tags.append(tag)
        elif opening:
            self.open(label)
            # The label can stand on the next line.
            self._label_may_follow = not label
            return
        elif closing:
            self.close()
        elif self._label_may_follow:
            self._labels[-1] = bare
        else:
            self.word(bare)
        self._label_may_follow = False

    def open(self, label: str) -> None:
        """Open a bracket with its label."""
        self._path.append(len(self._labels))
        self._labels.append(label)
        self._starts.append(len(self._words))
        self._ends.append(-1)

    def word(self, word: str) -> None:
        """Add a word without brackets of its own."""
        self._words.append(word)
        self._tags.append(None)

    def close(self) -> None:
        """Close a bracket; a node around one bare word turns out to be its preterminal."""
        node = self._path.pop()
        n_inside = len(self._words) - self._starts[node]
        if n_inside == 0:
            self.fault = self.fault or ("constituent without words" if self._path else "tree without words")
        if n_inside == 1 and self._tags[-1] is None:
            self._tags[-1] = self._labels.pop()
            self._starts.pop()
            self._ends.pop()
        else:
            self._ends[node] = len(self._words)

    def finish(self) -> Tree:
        """The built tree, once ``depth`` is 0 again."""
        tags = (tag or "" for tag in self._tags)
        return Tree.of(self._words, tags, self._labels, self._starts, self._ends)


def check_factor(factor: str) -> None:
    """Raise ValueError unless the name of a binarization is ``right`` or ``left``."""
    if factor not in ("right", "left"):
        raise ValueError(f"binarization is right or left, not {factor!r}")


_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "{": "-LCB-", "}": "-RCB-"}
_UNESCAPES = {code: char for char, code in _ESCAPES.items()} | {"-LSB-": "[", "-RSB-": "]"}
_ESCAPABLE = re.compile(r"[(){}]")
_ESCAPED = re.compile(r"-[LR][RCS]B-|\\([/*])")
_BLANK = re.compile(r"[ \t\n\r\f\v]+")  # other spaces are parts of words
# White space, controls and formatting characters, all invisible to a reader.
_INVISIBLE = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf"))


def escape(word: str) -> str:
    """Write a word as a treebank does: ``( ) { }`` become ``-LRB- -RRB- -LCB- -RCB-``."""
    return _ESCAPABLE.sub(lambda match: _ESCAPES[match[0]], word)


def unescape(word: str) -> str:
    r"""Turn a treebank's word into text: ``-LRB-`` is ``(`` and ``\/`` is ``/``, also inside a word."""
    return _ESCAPED.sub(lambda match: match[1] or _UNESCAPES[match[0]], word)


def leaf(word: str, line: int | None = None) -> str:
    """A word as a leaf: brackets escaped, blanks as no-break spaces.

    Raises:
        InputError: if it cannot be a word of a tree.
    """
    if " " in word or not word.isprintable() or not word:
        word = _BLANK.sub("\u00a0", word)
        problem = word_problem(word)  # also for an empty one
        if problem is not None:
            raise InputError(problem, line=line)
    return escape(word) if "(" in word or ")" in word or "{" in word or "}" in word else word


@lru_cache(maxsize=4096)
def leaf_label(label: str) -> str:
    """A tag or label with brackets and blanks replaced, so that bracket text can hold it."""
    label = label.replace("(", "*LRB*").replace(")", "*RRB*")  # "$-LRB-" would have a function tag
    return _BLANK.sub("_", label) if label else "X"


def flat_tree(words: Sequence[str], tags: Sequence[str] | None = None, label: str = UNKNOWN_LABEL) -> Tree:
    """One constituent over all words. Tags default to XX."""
    return Tree.of(words, [UNKNOWN_TAG] * len(words) if tags is None else tags, [label], [0], [len(words)])


def placeholder(words: Sequence[str]) -> Tree:
    """The flat tree ``(X (XX w1) (XX w2) …)`` in place of a sentence without a parse.

    A blank line becomes ``(X (-NONE- *))``: a tree that every reader takes, whose only leaf is a trace.
    A word that no tree can hold (white space, lone surrogates) becomes U+FFFD.
    """
    if not words:
        return flat_tree(["*"], [TRACE_TAG])
    return flat_tree([UNUSABLE_WORD if word_problem(word) else escape(word) for word in words])


def is_placeholder(tree: Tree) -> bool:
    """Return whether a tree is the placeholder of a sentence without a parse.

    One or two words have no other tree than the flat one: it only counts as a placeholder if a word had
    to be replaced.
    """
    flat = tree.labels == (UNKNOWN_LABEL,) and set(tree.tags) == {UNKNOWN_TAG}
    return flat and (len(tree) > 2 or UNUSABLE_WORD in tree.words)


def sentence_problem(words: Sequence[str]) -> str | None:
    """The reason why no parser could parse this sentence, or ``None``.

    Such words make neural parsers fail, or, worse, shift the words after them by one unnoticed.
    """
    if not words:
        return "no words"
    for word in words:
        problem = word_problem(word)
        if problem:
            return problem
    return None


def word_problem(word: str) -> str | None:
    """The reason why a word cannot be in a tree, or ``None``."""
    if any("\ud800" <= character <= "\udfff" for character in word):
        return "a word that is not valid Unicode (a lone surrogate)"
    if all(unicodedata.category(character) in _INVISIBLE for character in word):
        return "a word without visible characters"
    if _BLANK.search(word):
        return "a word with white space in it"
    return None
