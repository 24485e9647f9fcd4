"""Historical Penn treebanks: Penn-Helsinki, YCOE, IcePaHC, FarPaHC, PPCHY, MCVF, Keyaki.

A tree has a wrapper with its id; comments stand among the words; leaves may carry a lemma or a gloss; empty
leaves are recognized by their form and the label above them. In the format that a file's VERSION calls deep,
a leaf is ``(PRO (ORTHO He) (META (LEMMA he)))``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pdtools.errors import InputError
from pdtools.trees.forms.form import (
    CLOSED_TOO_OFTEN,
    EMPTY_LEAVES,
    TOKEN,
    UNBALANCED,
    Counts,
    Form,
    ReadOptions,
    ReadTree,
    TreeText,
    cut_brackets,
)
from pdtools.trees.transforms import is_empty_leaf, kind_of_empty
from pdtools.trees.tree import TRACE_TAG, Tree, leaf

FOREIGN = frozenset({"ID", "CODE", "METADATA", "REF", "VERSION"})
_PRINTED = "***"
_LEMMA_SHARE = 0.95
_LEMMAS = "with lemmas"
_CUT = "lemmas and glosses cut off words"
_EMPTY = re.compile(r"\*(?:(?:T|ICH|con|pro|exp|arb)\*(?:-.+)?|[\u3040-\u30ff\u4e00-\u9fff]+\*)?")
_MARKS = re.compile(r"\A[$@](?=.)|(?<=.)[$@]\Z")  # marks of clitics: maður$ and $inn
_ATTACHED = re.compile(r"(?<=.)(?:@[a-z]+=|\^).*")  # a lemma, rois@l=roi; a gloss, hkl^the_whole
_DOUBLED = re.compile(r"([^\w\s-]+)-\1")  # punctuation with itself as its lemma, also where words have none
_NAMES = {"%EXCL%": "!", "<dash/>": "-", "<paren>": "(", "<$$paren>": ")"}
_NAME = re.compile("|".join(map(re.escape, _NAMES)))
_NO_WORD = r"\((?!ORTHO\b)"
_INNER = rf"(?:[^()]|{_NO_WORD}(?:[^()]|{_NO_WORD}[^()]*\))*\))*"  # text with two levels of brackets
_METADATA = re.compile(rf"\((?:METADATA|VERSION)\b{_INNER}\)")
_FEATURES = re.compile(rf"\((?:META|ALT-ORTHO)\b{_INNER}\)")
_ORTHO = re.compile(r"\(ORTHO\s+([^\s()]+)\s*\)")
_LEAF = re.compile(r"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)")
_COMMENT = re.compile(r"\{COM:[^{}()\n]*\}")
_FEW_WORDS = 50  # fewer do not show whether words have lemmas
_FOREIGN_BRACKET = re.compile(rf"\(\s*(?:{'|'.join(sorted(FOREIGN))})[\s)]")


def is_empty(label: str, word: str) -> bool:
    """Return whether a leaf is empty, by its form and, except for the commonest forms, the label above it."""
    if word == "0":
        return not label.startswith("NUM")
    return word[0] == "*" and (_EMPTY.fullmatch(word) is not None or is_empty_leaf(label, word))


def _leaves(text: str) -> Iterator[tuple[str, str]]:
    """The words of a text with their labels, by a quick scan."""
    for label, word in _LEAF.findall(text):
        if label not in FOREIGN and word[0] != "{" and not is_empty(label, word):
            yield label, word


def has_lemmas(texts: list[str], least: int = 1) -> bool:
    """Return whether nearly all words, of at least ``least``, hold a hyphen with text on both sides."""
    n = n_with = 0
    for text in texts:
        if "(METADATA" in text or "(VERSION" in text:
            text = _METADATA.sub("", text)
        for _, word in _leaves(text):
            n += 1
            n_with += word.find("-", 1, -1) > 0
    return n >= least and n_with >= _LEMMA_SHARE * n


def holds_what_is_no_tree(text: str) -> bool:
    """Return whether trees hold metadata, or empty leaves without a tag that says so."""
    if not text.lstrip().startswith("("):
        return False
    if _FOREIGN_BRACKET.search(text):
        return True
    if f"({TRACE_TAG} " in text:
        return False
    return any(is_empty_leaf(label, word) for label, word in _LEAF.findall(text) if word[0] in "*0")


def _looks_like(text: str) -> bool:
    if holds_what_is_no_tree(text):
        return True
    begins = text.lstrip().startswith("(") and f"({TRACE_TAG} " not in text
    return begins and has_lemmas([text], _FEW_WORDS)


def _cut(file: str) -> Iterator[TreeText]:
    """Cut a file into trees, noting whether words in the whole file have lemmas."""
    blocks = list(cut_brackets(file))
    if not has_lemmas([block.text for block in blocks]):
        yield from blocks
        return
    for block in blocks:
        yield TreeText(block.file, block.line, block.text, block.fault, block.fault_line, _LEMMAS)


def _read(block: TreeText, options: ReadOptions, counts: Counts) -> list[ReadTree | str]:
    text = block.text
    if "(ORTHO" in text:
        text = _ORTHO.sub(r"\1", _FEATURES.sub("", text))
    return _Reader(counts, have_lemmas=block.note == _LEMMAS, cut=options.lemmas == "cut").trees(text)


class _Reader:
    """Reads the trees of a text in one pass; metadata, comments and empty leaves never get into them."""

    def __init__(self, counts: Counts, *, have_lemmas: bool, cut: bool) -> None:
        self.counts = counts
        self.have_lemmas = have_lemmas
        self.cut = cut
        self.begin()

    def begin(self) -> None:
        """Begin a tree."""
        self.words: list[str] = []
        self.tags: list[str] = []
        self.labels: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def trees(self, text: str) -> list[ReadTree | str]:
        """The trees of a text."""
        found: list[ReadTree | str] = []
        path: list[int] = []  # open constituents
        foreign = 0  # number of open brackets, from metadata's on
        labels, starts, ends, words = self.labels, self.starts, self.ends, self.words
        if "{COM:" in text:  # one token, blanks and all
            text = _COMMENT.sub(lambda comment: re.sub(r"\s", "_", comment[0]), text)
        for match in TOKEN.finditer(text):
            tag, word, opening, label, closing, bare = match.groups()
            if foreign:
                foreign += (1 if opening else 0) - (1 if closing else 0)
                if foreign or path:
                    continue
            elif word is not None:
                if tag in FOREIGN:
                    self.counts[f"metadata left out: {tag}"] += 1
                elif word[0] in "*0{" and self.is_none(tag, word):
                    pass
                else:
                    self.add(tag, word)
            elif opening:
                if label in FOREIGN:
                    self.counts[f"metadata left out: {label}"] += 1
                    foreign = 1
                else:
                    path.append(len(labels))
                    labels.append(label)
                    starts.append(len(words))
                    ends.append(-1)
                continue
            elif closing:
                if not path:
                    raise InputError(CLOSED_TOO_OFTEN)
                node = path.pop()
                if starts[node] == len(words):  # its content is gone, so it is the last one
                    del labels[node], starts[node], ends[node]
                else:
                    ends[node] = len(words)
            elif not path:
                raise InputError("text between trees", line=text.count("\n", 0, match.start()) + 1)
            elif not self.is_none(labels[path[-1]], bare):
                self.add("", bare)
            if not path:
                found += self.finished()
                labels, starts, ends, words = self.labels, self.starts, self.ends, self.words
        if path or foreign:
            raise InputError(UNBALANCED)
        return found

    def is_none(self, label: str, word: str) -> bool:
        """Return whether a leaf is no word, and count it."""
        if is_empty(label, word):
            self.counts[EMPTY_LEAVES + kind_of_empty(word)] += 1
        elif word.startswith("{COM:"):
            self.counts["metadata left out: {COM:}"] += 1
        else:
            return False
        return True

    def add(self, tag: str, word: str) -> None:
        """Add a word, without its lemma or gloss, and without marks of clitics."""
        if self.cut:
            whole = word
            if "@" in word or "^" in word:
                word = _ATTACHED.sub("", word)
            if (place := word.rfind("-", 1, -1)) > 0 and (self.have_lemmas or _DOUBLED.fullmatch(word)):
                word = word[:place]
            if word is not whole:
                self.counts[_CUT] += 1
        if "<" in word or "%" in word:
            word = _NAME.sub(lambda name: _NAMES[name[0]], word)
        if word[-1] in "$@" or word[0] in "$@":
            word = _MARKS.sub("", word) or word
            if self.is_none(tag, word):  # the article in u@ @0: the empty part of a contraction
                return
        self.words.append(leaf(word))
        self.tags.append(tag)

    def finished(self) -> list[ReadTree | str]:
        """The tree that has ended, unless it has no words."""
        tree = Tree.of(self.words, self.tags, self.labels, self.starts, self.ends)
        self.begin()
        if not tree.words:
            self.counts["trees without words left out"] += 1
            return []
        if tree.labels[:1] == ("",):
            self.counts["wrappers taken off"] += 1
        if set(tree.words) == {_PRINTED}:
            return [f"asterisks alone ({_PRINTED})"]
        return [ReadTree(tree)]


FORM = Form(
    name="penn-historical",
    title="a historical Penn treebank",
    suffixes=(".psd",),
    looks_like=_looks_like,
    cut=_cut,
    read=_read,
)
