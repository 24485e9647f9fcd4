"""Conversion of treebanks, or of sentences through a parser, to trees in the form that other modules read."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files import (
    REJECTS_FILE,
    Kind,
    Rejects,
    atomic_directory,
    atomic_text,
    some_trees,
    write_rejects,
)
from pdtools.trees import (
    Graph,
    TransformCounts,
    Tree,
    binarize,
    collapse_unaries,
    normalize,
    path_beside,
    unescape,
)
from pdtools.trees.forms.form import EMPTY_LEAVES
from pdtools.trees.transforms import binarize_from_heads

# Suffixes of the files read in a folder, by kind.
SUFFIXES = {
    "treebank": (
        *(".mrg", ".ptb", ".tree", ".trees", ".parse", ".psd", ".bracket", ".brackets", ".fid", ".nw", ".bn"),
        *(".mz", ".tre"),
    ),
    "text": (".txt",),
    "tokens": (".txt", ".tok", ".tokens"),
    "parts": (".jsonl",),
}
KINDS = {"treebank": Kind.TREES, "text": Kind.TEXT, "tokens": Kind.TEXT, "parts": Kind.PROMPTS}
SPLIT_NAMES = ("train", "valid", "test")
_LEAF = re.compile(r"([^ ()]+)\)")
# Sentences sorted by length together: many enough to fill batches, few enough to hold in memory.
CHUNK = 512


@dataclass(frozen=True, kw_only=True)
class TreeForm:
    """The form in which trees are written.

    Args:
        binarize: factor every node with more than two children to the right, to the left or outward from
            its head, and collapse unary chains (both can be undone, see :func:`pdtools.trees.unbinarize`);
            ``none`` does neither.
        functions: strip function tags (``NP-SBJ`` → ``NP``) or keep them.
    """

    binarize: Literal["right", "left", "head", "none"] = "right"
    functions: Literal["strip", "keep"] = "strip"

    def usable(
        self, tree: Tree, changes: TransformCounts, heads: NDArray[np.int32] | None = None
    ) -> Tree | str:
        """Convert a tree to this form, or give the reason why it cannot be; ``changes`` is added to.

        Args:
            heads: int32 (n), each word's head, -1 for the root: needed for binarization from heads, for
                trees without traces.
        """
        plain = normalize(tree, functions=self.functions, counts=changes)
        if plain is None:
            return "no words, only traces"
        if self.binarize == "none":
            return plain
        try:
            if self.binarize == "head":
                assert heads is not None
                return binarize_from_heads(collapse_unaries(plain), heads)
            return binarize(collapse_unaries(plain), self.binarize)
        except InputError as error:
            return error.reason


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A tree that is to be written.

    Attributes:
        brackets: the tree on one line.
        n_words: the number of its words.
        written: its sentence, if that is a text.
        arcs: its dependency arcs, if it has any.
    """

    brackets: str
    n_words: int
    written: str | None = None
    arcs: str | None = None

    @classmethod
    def of(cls, tree: Tree, written: str | None = None, graph: Graph | None = None) -> TreeLine:
        """The line of a tree, with its sentence and its graph."""
        return cls(tree.to_brackets(), len(tree), written, None if graph is None else str(graph))

    @property
    def words(self) -> list[str]:
        """The tree's words, as written."""
        return _LEAF.findall(self.brackets)


@dataclass(kw_only=True)
class ParseCounts:
    """Counts of a conversion so far; complete when its iterator has ended.

    Attributes:
        trees: trees yielded, placeholders among them.
        tokens: their words.
        placeholders: number of trees in place of a sentence without a parse.
        changes: traces removed, labels rewritten.
        read: counts of what the reader of a treebank form (:mod:`pdtools.trees.forms`) removed or changed.
        splits: number of trees in each file of :func:`write_splits`.
        taken_out: counts of what the reader, or later steps, removed or changed, by kind.
    """

    trees: int = 0
    tokens: int = 0
    placeholders: int = 0
    changes: TransformCounts = field(default_factory=TransformCounts)
    read: Counter[str] = field(default_factory=Counter)
    splits: dict[str, int] = field(default_factory=dict)

    def tree(self, tree: TreeLine) -> TreeLine:
        """Count a tree, and hand it on."""
        self.trees += 1
        self.tokens += tree.n_words
        return tree

    @property
    def taken_out(self) -> Counter[str]:
        return self.read + Counter({EMPTY_LEAVES + kind: n for kind, n in self.changes.kinds.items()})


# --- writing ----------------------------------------------------------------------------------


def write_trees(trees: Iterable[TreeLine], output: str | Path, *, rejects: Rejects) -> None:
    """Write one bracketed tree a line, whole or not at all, and the excluded inputs beside it.

    Args:
        trees: the trees to write; their sentences and arcs, if they have any, go beside them
            (:func:`pdtools.trees.path_beside`).
        output: a file (compressed by its suffix) or ``-``, standard output.
        rejects: the inputs excluded by the end of ``trees``.

    Raises:
        PdtoolsError: if there are no trees.
    """
    with _tree_file(output) as write:
        for tree in some_trees(trees, rejects):
            write(tree)
        write_rejects(output, rejects)


@contextlib.contextmanager
def _tree_file(output: str | Path) -> Iterator[Callable[[TreeLine], None]]:
    """A file of trees; with the first sentence one of sentences beside it, which is there first, so of arcs.

    Trees without sentences or arcs replace older ones together with the sentences and arcs of those.
    """
    with contextlib.ExitStack() as stack:
        trees = stack.enter_context(atomic_text(output))
        paths = {"written": path_beside(output, "text"), "arcs": path_beside(output, "arcs")}
        beside: dict[str, IO[str]] = {}

        def write(tree: TreeLine) -> None:
            trees.write(tree.brackets + "\n")
            for name, path in paths.items():
                line = getattr(tree, name)
                if line is not None and path is not None:
                    if name not in beside:
                        beside[name] = stack.enter_context(atomic_text(path))
                    beside[name].write(line + "\n")

        yield write
        for name, path in paths.items():
            if name not in beside and path is not None and os.path.lexists(output):
                path.unlink(missing_ok=True)


def write_splits(
    trees: Iterable[TreeLine],
    folder: str | Path,
    fractions: Sequence[float],
    *,
    rejects: Rejects,
    counts: ParseCounts,
    overwrite: bool = False,
) -> None:
    """Write ``train.trees``, ``valid.trees`` and (with three fractions) ``test.trees`` into a folder.

    A tree's file depends on its words alone (:func:`split_of`).

    Args:
        trees: the trees.
        folder: appears whole or not at all.
        fractions: two or three positive numbers that sum to one.
        rejects: written to ``rejects.jsonl`` in the folder when ``trees`` has ended.
        counts: gets the number of trees in each file.
        overwrite: replace an existing folder.

    Raises:
        PdtoolsError: if there are no trees.
    """
    names = SPLIT_NAMES[: len(fractions)]
    counts.splits = dict.fromkeys(names, 0)
    with atomic_directory(folder, kind="trees of parse --split", overwrite=overwrite) as temporary:
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(_tree_file(temporary / f"{name}.trees")) for name in names]
            for tree in some_trees(trees, rejects):
                part = split_of(tree.words, fractions)
                files[part](tree)
                counts.splits[names[part]] += 1
        rejects.write(temporary / REJECTS_FILE)


def split_of(words: Sequence[str], fractions: Sequence[float]) -> int:
    """The index of a sentence's split: the same on every machine, in every corpus and order.

    Equal sentences get equal splits, so that no test sentence is also a training sentence.
    """
    text = " ".join(unescape(word) for word in words)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    point = int.from_bytes(digest, "big") / 2**64
    for part, edge in enumerate(itertools.accumulate(fractions)):
        if point < edge:
            return part
    return len(fractions) - 1
