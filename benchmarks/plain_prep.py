"""Treebank preparation written plainly, from the paper: nltk trees, recursion over nodes, lists of tokens.

What ``prep.py`` measures pdtools against; pdtools itself never imports it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import nltk
import pyarrow as pa
import pyarrow.parquet as pq


def read(files: Sequence[str]) -> list[nltk.Tree]:
    """The trees of files, without wrappers, traces and the phrases that those empty."""
    trees = []
    for file in files:
        for tree in _bracketings(Path(file).read_text(encoding="utf-8")):
            bare = without_traces(nltk.Tree.fromstring(tree))
            if bare is not None:
                trees.append(bare[0] if bare.label() == "" and len(bare) == 1 else bare)
    return trees


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


def attachments(tree: nltk.Tree) -> list[int]:
    """For each word the last word of the constituent that it reduces with, or itself."""
    binary = tree.copy(deep=True)
    binary.collapse_unary(collapsePOS=True, collapseRoot=True)
    binary.chomsky_normal_form(factor="right")
    reached = list(range(len(binary.leaves())))
    _attach(binary, 0, reached)
    return reached


def _attach(node: nltk.Tree, start: int, reached: list[int]) -> int:
    """Fill in the attachments below a node, and its own last, so that the widest node prevails."""
    if isinstance(node[0], str):
        return start + 1
    middle = end = _attach(node[0], start, reached)
    if len(node) == 2:
        end = _attach(node[1], middle, reached)
        reached[end - 1] = middle - 1
    return end


def encode(words: Sequence[str], vocabulary: Mapping[str, int], unknown: int) -> list[int]:
    """The number of each word."""
    return [vocabulary.get(word, unknown) for word in words]


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


def write(rows: Sequence[tuple[str, list[int], list[int], bytes]], file: Path) -> None:
    """Rows of text, tokens, attachments and tape as a Parquet file."""
    columns = dict(zip(("text", "tokens", "attach", "tape"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), file, compression="zstd")


def whole(
    files: Sequence[str], vocabulary: Mapping[str, int], special: tuple[int, int, int], file: Path
) -> None:
    """From trees to Parquet. ``special``: the numbers of ROOT, EOS and of unknown words."""
    root, eos, unknown = special
    rows = []
    for tree in read(files):
        words = tree.leaves()
        tokens = [root, *encode(words, vocabulary, unknown), eos]
        attach = [0, *(target + 1 for target in attachments(tree)), 0]
        rows.append((" ".join(words), tokens, attach, tape(attach)))
    write(rows, file)
