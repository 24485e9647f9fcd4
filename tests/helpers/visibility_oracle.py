"""The positions that grammar language models see, by moving positions on and off a stack as in the papers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

import pdtools.models.kernels.block_attention as blocks

Tree = list["Tree | str"]

trees: st.SearchStrategy[Tree] = st.recursive(
    st.just("word"), lambda child: st.lists(child, min_size=1, max_size=4), max_leaves=12
).map(lambda tree: [tree] if tree == "word" else tree)


@dataclass
class GrammarRow:
    """A tree as Transformer Grammars read it: for each position the ones that it sees, and its integers."""

    seen: list[set[int]] = field(default_factory=list)
    pop: list[int] = field(default_factory=list)
    compose: list[bool] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    stack: list[int] = field(default_factory=list)

    def step(self, seen: list[int], depth: int, *, compose: bool = False, pushed: bool = True) -> int:
        i = len(self.pop)
        self.seen.append({*seen, i})
        self.compose.append(compose)
        self.depth.append(depth)
        self.pop.append(-1 if pushed else i)
        self.stack += [i] * pushed
        return i

    def read(self, tree: Tree | str, depth: int) -> None:
        opener = self.step(self.stack, depth)  # or a word
        if isinstance(tree, str):
            return
        for child in tree:
            self.read(child, depth + 1)
        bottom = self.stack.index(opener)
        popped = self.stack[bottom:]
        del self.stack[bottom:]
        compose = self.step(popped, depth, compose=True)
        for j in popped:
            self.pop[j] = compose
        self.step(self.stack, depth, pushed=False)


def grammar_row(tree: Tree) -> GrammarRow:
    """Return the whole row, with its start."""
    row = GrammarRow()
    row.step([], 0)
    row.read(tree, 1)
    for j in row.stack:
        row.pop[j] = len(row.pop)
    return row


def grammar_batch(rows: list[Tree]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """seen (B, N, N), pop, compose and depth (B, N) of trees, padded with positions that see themselves."""
    read = [grammar_row(tree) for tree in rows]
    n = max(len(row.pop) for row in read)
    seen = torch.eye(n, dtype=torch.bool).repeat(len(read), 1, 1)
    pop = torch.zeros(len(read), n, dtype=torch.int32)
    compose, depth = torch.zeros_like(pop, dtype=torch.bool), torch.zeros_like(pop)
    for b, row in enumerate(read):
        length = len(row.pop)
        pop[b, :length] = torch.tensor(row.pop)
        compose[b, :length] = torch.tensor(row.compose)
        depth[b, :length] = torch.tensor(row.depth)
        for i, keys in enumerate(row.seen):
            seen[b, i, list(keys)] = True
    return seen, pop, compose, depth


def innermost_row(tree: Tree) -> list[int]:
    """For PLM-mask: the position of the innermost open constituent's opener after each action, or -1."""
    row, openers = [-1], [-1]

    def read(tree: Tree | str) -> None:
        if isinstance(tree, str):
            row.append(openers[-1])
            return
        openers.append(len(row))
        row.append(openers[-1])
        for child in tree:
            read(child)
        openers.pop()
        row.append(openers[-1])

    read(tree)
    return row


def innermost_batch(rows: list[Tree], heads: int) -> tuple[Tensor, Tensor]:
    """seen (B, H, N, N) and the integers (B, N), padded with -1."""
    read = [innermost_row(tree) for tree in rows]
    n = max(map(len, read))
    innermost = torch.tensor([row + [-1] * (n - len(row)) for row in read], dtype=torch.int32)
    seen = torch.ones(n, n, dtype=torch.bool).tril().repeat(len(read), heads, 1, 1)
    for b, row in enumerate(read):
        for i, opener in enumerate(row):
            if opener >= 0:
                seen[b, 0, i, opener:] = False
                seen[b, 1, i, :opener] = False
    return seen, innermost


@contextmanager
def computed(module: ModuleType, how: str, cells: int = 1 << 17) -> Iterator[None]:
    """Have the attention of a module computed in C, or in blocks of so many cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_CELLS", cells)
        if how == "in blocks":
            patch.setattr(module, "native_takes", lambda *_: False)
        elif module.IN_C.library(torch.float64) is None:
            pytest.skip("no C compiler")
        else:
            assert module._native_works(torch.float64)
        yield
