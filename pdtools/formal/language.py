"""Formal languages: seeded sources of strings, which become files, one a line, or shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects, atomic_text
from pdtools.shards import ShardFolder, ShardRow, ShardSettings, write_shards
from pdtools.tokenization import Tokenizer, split_spaces, train_word_tokenizer
from pdtools.trees import sentence_layout

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class StringArrays:
    """Many strings, concatenated: string i has the tokens ``offsets[i]`` to ``offsets[i + 1]``.

    Attributes:
        tokens: int32 (all tokens), indices of the language's vocabulary.
        offsets: int64 (strings + 1), from 0.
        attach: int32 (all tokens), attachments counted from 0 in each string, legal as in
            :func:`pdtools.trees.attachments`; ``attach[k] == k`` is shift only. None: the language has no
            structure.
    """

    tokens: Int32
    offsets: Int64
    attach: Int32 | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64:
        """The number of each string's tokens: int64 (strings)."""
        return np.diff(self.offsets)

    def first(self, number: int) -> StringArrays:
        """The first strings, at most ``number``."""
        offsets = self.offsets[: number + 1]
        stop = offsets[-1]
        return StringArrays(self.tokens[:stop], offsets, None if self.attach is None else self.attach[:stop])


@dataclass(frozen=True, slots=True, eq=False)
class FormalString:
    """One string: its tokens, and attachments int32 (tokens) if the language has them."""

    tokens: tuple[str, ...]
    attach: Int32 | None = None


class Language(Protocol):
    """A source of strings over a fixed vocabulary."""

    @property
    def name(self) -> str:
        """The name on the command line: ``dyck``."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that determine the distribution, JSON-ready."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every token that a string may hold; none contains a space."""

    def batches(self, seed: int) -> Iterator[StringArrays]:
        """Endless independent draws, in batches of any size; the same seed gives the same strings."""

    def log_probability(self, tokens: Sequence[str]) -> float | None:
        """Exact log-probability of a complete string, in nats; -inf outside the language; None: not known."""


def draw(language: Language, number: int, seed: int) -> Iterator[StringArrays]:
    """The first ``number`` strings of a seed, in batches; a larger number extends a smaller one's."""
    for batch in language.batches(seed):
        if number <= 0:
            return
        taken = batch.first(number)
        number -= len(taken)
        yield taken


def strings(language: Language, number: int, seed: int) -> Iterator[FormalString]:
    """The first ``number`` strings of a seed, one by one."""
    vocabulary = language.vocabulary
    for batch in draw(language, number, seed):
        tokens = batch.tokens.tolist()
        edges = batch.offsets.tolist()
        for start, stop in pairwise(edges):
            words = tuple(vocabulary[token] for token in tokens[start:stop])
            yield FormalString(words, None if batch.attach is None else batch.attach[start:stop])


Watch = Callable[[Iterable[FormalString]], Iterable[FormalString]]
"""Wraps strings, to show progress."""


def word_tokenizer(language: Language) -> Tokenizer:
    """The tokenizer of a language: its whole vocabulary, no ``<unk>``; the same for all of its sets."""
    return train_word_tokenizer(language.vocabulary, min_count=1, unk=False)


def write_strings(
    language: Language,
    number: int,
    seed: int,
    path: str | Path,
    *,
    overwrite: bool = True,
    watch: Watch = iter,
) -> dict[str, int]:
    """Write strings to a text file, one a line.

    Args:
        language: the source of strings.
        number: number of strings.
        seed: the same seed gives the same strings.
        path: the file (``.gz``, ``.zst``), or ``-``; the empty string is an empty line.
        overwrite: see :func:`pdtools.files.atomic_path`.
        watch: wraps the strings, to show progress.

    Returns:
        Counts: ``sentences``, ``tokens`` and ``most_tokens``.
    """
    counts = {"sentences": 0, "tokens": 0, "most_tokens": 0}
    with atomic_text(path, overwrite=overwrite) as stream:
        for string in watch(strings(language, number, seed)):
            stream.write(" ".join(string.tokens) + "\n")
            counts["sentences"] += 1
            counts["tokens"] += len(string.tokens)
            counts["most_tokens"] = max(counts["most_tokens"], len(string.tokens))
    return counts


def string_shards(
    language: Language,
    number: int,
    seed: int,
    folder: str | Path,
    *,
    overwrite: bool = False,
    watch: Watch = iter,
) -> dict[str, Any]:
    """Write strings as shards, with the language's attachments; if it has none, every token shifts.

    Args:
        language, number, seed, watch: see :func:`write_strings`.
        folder: it appears whole or not at all.
        overwrite: whether ``folder`` may be replaced.

    Returns:
        The manifest, which names the language, its settings and the seed.
    """
    tokenizer = word_tokenizer(language)
    return write_shards(
        (_row(string, tokenizer) for string in watch(strings(language, number, seed))),
        tokenizer,
        ShardSettings(tape="none"),  # attachments determine tapes
        folder,
        Rejects(),
        description={"language": {"name": language.name, "seed": seed, **language.settings}},
        overwrite=overwrite,
    )


def _row(string: FormalString, tokenizer: Tokenizer) -> ShardRow:
    text = " ".join(string.tokens)
    attach = np.arange(len(string.tokens)) if string.attach is None else string.attach
    return ShardRow(text, tokenizer.encode(split_spaces(text)), sentence_layout(attach), len(string.tokens))


def language_settings(shards: ShardFolder, name: str) -> dict[str, Any]:
    """The settings of the language that shards were drawn from.

    Raises:
        PdtoolsError: if their manifest names no language of this name.
    """
    described = shards.manifest.get("language")
    if not isinstance(described, dict) or described.get("name") != name:
        raise PdtoolsError(f"{shards.folder}: not strings of pdtools generate {name}: no exact probabilities")
    return {key: value for key, value in described.items() if key not in ("name", "seed")}
