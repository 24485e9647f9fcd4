"""Shards of the tiny language."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from toy_language import brackets, toy_tokenizer

from pdtools.files import Rejects
from pdtools.shards import ShardSettings, build_shards
from pdtools.tokenization import Tokenizer
from pdtools.trees import SourcedTree, Tree

MakeShards = Callable[..., Path]


@pytest.fixture(scope="session")
def make_shards(tmp_path_factory: pytest.TempPathFactory) -> MakeShards:
    """Build a folder of shards: ``make_shards(count, seed, tokenizer)``; of windows with ``window=N``."""

    def make(
        count: int = 24,
        seed: int = 0,
        tokenizer: Tokenizer | None = None,
        factor: str = "right",
        window: int = 0,
        labels: tuple[str, ...] = ("NP", "PP", "S", "VP"),
    ) -> Path:
        rng = random.Random(seed)
        folder = tmp_path_factory.mktemp("shards") / "toy"
        trees = []
        for line in range(1, count + 1):
            text = brackets(rng)
            trees.append(SourcedTree(Tree.from_brackets(text), "toy.trees", line, text))
        settings = ShardSettings(factor=factor, constituents="labelled")  # type: ignore[arg-type]
        if window:
            settings = ShardSettings(factor=factor, layout="window", window=window, tape="none")  # type: ignore[arg-type]
        tokenizer = tokenizer or toy_tokenizer()
        build_shards(trees, tokenizer.with_labels(labels), settings, folder, Rejects())
        return folder

    return make


@pytest.fixture(scope="session")
def toy_train(make_shards: MakeShards) -> Path:
    return make_shards(24, seed=1)


@pytest.fixture(scope="session")
def window_train(make_shards: MakeShards) -> Path:
    """The sentences of ``toy_train``, one to several in a window."""
    return make_shards(24, seed=1, window=24)


@pytest.fixture(scope="session")
def window_valid(make_shards: MakeShards) -> Path:
    return make_shards(12, seed=2, window=24)


@pytest.fixture(scope="session")
def toy_valid(make_shards: MakeShards) -> Path:
    return make_shards(12, seed=2)
