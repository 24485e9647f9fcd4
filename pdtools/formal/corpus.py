"""Strings of a formal language as files: one a line, or as shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pdtools.files import Rejects, atomic_text
from pdtools.formal.language import FormalString, Language, strings
from pdtools.shards import ShardRow, ShardSettings, write_shards
from pdtools.tokenization import Tokenizer, split_spaces, train_word_tokenizer
from pdtools.trees import sentence_layout

Watch = Callable[[Iterable[FormalString]], Iterable[FormalString]]


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
    watch: Watch | None = None,
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
    drawn: Iterable[FormalString] = strings(language, number, seed)
    with atomic_text(path, overwrite=overwrite) as stream:
        for string in watch(drawn) if watch else drawn:
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
    settings: ShardSettings | None = None,
    overwrite: bool = False,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Write strings as shards, with the language's attachments; if it has none, every token shifts.

    Args:
        language, number, seed, watch: see :func:`write_strings`.
        folder: it appears whole or not at all.
        settings: the shards' settings. None: no tapes in them (attachments determine them).
        overwrite: whether ``folder`` may be replaced.

    Returns:
        The manifest, which names the language, its settings and the seed.
    """
    tokenizer = word_tokenizer(language)
    drawn: Iterable[FormalString] = strings(language, number, seed)
    return write_shards(
        (_row(string, tokenizer) for string in (watch(drawn) if watch else drawn)),
        tokenizer,
        settings or ShardSettings(tape="none"),
        folder,
        Rejects(),
        description={"language": {"name": language.name, "seed": seed, **language.settings}},
        overwrite=overwrite,
    )


def _row(string: FormalString, tokenizer: Tokenizer) -> ShardRow:
    text = " ".join(string.tokens)
    attach = np.arange(len(string.tokens)) if string.attach is None else string.attach
    return ShardRow(text, tokenizer.encode(split_spaces(text)), sentence_layout(attach), len(string.tokens))
