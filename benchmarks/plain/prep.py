"""Treebank preparation written plainly, from the paper: nltk trees, recursion over nodes, lists of tokens.

The benchmark ``prep.py`` measures pdtools against it; pdtools itself never imports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import nltk
import pyarrow as pa
import pyarrow.parquet as pq
import tokenizers

Encode = Callable[[Sequence[str]], list[list[int]]]

ESCAPES = [
    *(("-LRB-", "("), ("-RRB-", ")"), ("-LCB-", "{"), ("-RCB-", "}"), ("-LSB-", "["), ("-RSB-", "]")),
    *(("\\/", "/"), ("\\*", "*")),
]


def read(files: Sequence[str]) -> list[nltk.Tree]:
    """The trees of files, without wrappers, traces and the phrases emptied by their removal."""
    return list(one_by_one(files))


def one_by_one(files: Sequence[str]) -> Iterator[nltk.Tree]:
    """The trees of files one by one, none kept: Python's garbage collector then has less to go over."""
    for file in files:
        for tree in _bracketings(Path(file).read_text(encoding="utf-8")):
            bare = without_traces(nltk.Tree.fromstring(tree))
            if bare is not None:
                yield bare[0] if bare.label() == "" and len(bare) == 1 else bare


def _bracketings(text: str) -> list[str]:
    depth, start, found = 0, 0, []
    for match in re.finditer(r"[()]", text):
        if match[0] == "(":
            if depth == 0:
                start = match.start()
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                found.append(text[start : match.end()])
    return found


def without_traces(tree: nltk.Tree) -> nltk.Tree | None:
    """The tree without leaves tagged ``-NONE-``, or None if nothing is left."""
    if isinstance(tree[0], str):
        return None if tree.label() == "-NONE-" else tree
    children = [bare for child in tree if (bare := without_traces(child)) is not None]
    return nltk.Tree(tree.label(), children) if children else None


def attachments(tree: nltk.Tree, subwords: Sequence[Sequence[int]] | None = None) -> list[int]:
    """For each token the last token of the constituent that it reduces with, or itself.

    ``subwords``: the tokens of each word, which form a subtree in its place (appendix C); None: one each.
    """
    binary = tree.copy(deep=True) if subwords is None else with_subwords(tree, iter(subwords))
    binary.collapse_unary(collapsePOS=True, collapseRoot=True)
    binary.chomsky_normal_form(factor="right")
    reached = list(range(len(binary.leaves())))
    _attach(binary, 0, reached)
    return reached


def with_subwords(tree: nltk.Tree, subwords: Iterator[Sequence[int]]) -> nltk.Tree:
    """A tree with the tokens of its words as leaves."""
    if isinstance(tree[0], str):
        tokens = [str(token) for token in next(subwords)]
        leaves = tokens if len(tokens) == 1 else [nltk.Tree("W", [token]) for token in tokens]
        return nltk.Tree(tree.label(), leaves)
    return nltk.Tree(tree.label(), [with_subwords(child, subwords) for child in tree])


def _attach(node: nltk.Tree, start: int, reached: list[int]) -> int:
    """Fill in the attachments below a node, and its own last, so that the widest node prevails."""
    if isinstance(node[0], str):
        return start + 1
    middle = end = _attach(node[0], start, reached)
    if len(node) == 2:
        end = _attach(node[1], middle, reached)
        reached[end - 1] = middle - 1
    return end


def encode_words(words: Sequence[str], vocabulary: Mapping[str, int], unknown: int) -> list[list[int]]:
    """The tokens of each word: its number in a vocabulary of words."""
    return [[vocabulary.get(word, unknown)] for word in words]


def encode_subwords(words: Sequence[str], tokenizer: tokenizers.Tokenizer) -> list[list[int]]:
    """The tokens of each word, by a tokenizer of Hugging Face's."""
    encoding = tokenizer.encode(words, is_pretokenized=True, add_special_tokens=False)
    tokens: list[list[int]] = [[] for _ in words]
    for word, token in zip(encoding.word_ids, encoding.ids, strict=True):
        tokens[word].append(token)
    return tokens


def tape(attach: Sequence[int]) -> bytes:
    """The stack tape by Algorithm 1, a stack of lists; row k has k + 1 bytes."""
    depth: list[int] = []
    stack: list[list[int]] = []
    packed = bytearray()
    for k, target in enumerate(attach):
        depth.append(0)
        constituent = [k]
        if target != k:
            while True:
                top = stack.pop()
                constituent = top + constituent
                for token in constituent:
                    depth[token] += 1
                if top[-1] == target:
                    break
        stack.append(constituent)
        packed += bytes(depth)
    return bytes(packed)


def constituents(
    tree: nltk.Tree, subwords: Sequence[Sequence[int]], labels: Mapping[str, int]
) -> tuple[list[int], list[int], list[int]]:
    """The labels of the constituents in pre-order, and how many open before and close after each token."""
    found: list[int] = []
    opens, closes = ([0] * sum(map(len, subwords)) for _ in range(2))
    words = iter(subwords)

    def visit(node: nltk.Tree, start: int) -> int:
        if isinstance(node[0], str):
            return start + len(next(words))
        found.append(labels.get(re.split("[-=]", node.label().split("|")[0])[0], -1))
        opens[start] += 1
        end = start
        for child in node:
            end = visit(child, end)
        closes[end - 1] += 1
        return end

    visit(tree, 0)
    return found, opens, closes


Row = tuple[str, list[int], list[int], list[int], bytes, list[int], list[int], list[int]]


def write(rows: Sequence[Row], file: Path) -> None:
    """Rows of text, tokens, attachments, words of tokens, tape and constituents as a Parquet file."""
    names = ("text", "tokens", "attach", "word", "tape", "labels", "opens", "closes")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), file, compression="zstd")


def row(tree: nltk.Tree, encode: Encode, root: int, eos: int, labels: Mapping[str, int]) -> Row:
    """One tree as a row: ROOT, its tokens, EOS."""
    words = [unescaped(word) for word in tree.leaves()]
    subwords = encode(words)
    tokens = [root, *(token for tokens_of_word in subwords for token in tokens_of_word), eos]
    attach = [0, *(target + 1 for target in attachments(tree, subwords)), 0]
    word = [-1, *(number for number, tokens_of_word in enumerate(subwords) for _ in tokens_of_word), -1]
    return " ".join(words), tokens, attach, word, tape(attach), *constituents(tree, subwords, labels)


def unescaped(word: str) -> str:
    """A word as text: brackets and slashes as people write them."""
    for escape, plain in ESCAPES:
        word = word.replace(escape, plain)
    return word


def whole(
    files: Sequence[str], encode: Encode, root: int, eos: int, labels: Mapping[str, int], file: Path
) -> None:
    """Run all stages, from trees to Parquet."""
    write([row(tree, encode, root, eos, labels) for tree in read(files)], file)
