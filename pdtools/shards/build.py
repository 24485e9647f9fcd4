"""Trees into shards: the work of ``pdtools tapes``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects, atomic_directory, is_stream, sha256_file, write_json
from pdtools.parsers.base import UNKNOWN_TAG, UNUSABLE_WORD
from pdtools.provenance import provenance
from pdtools.shards.format import (
    FORMAT,
    FORMAT_VERSION,
    MANIFEST_FILE,
    REJECTS_FILE,
    ShardSettings,
    arrow_schema,
)
from pdtools.shards.writer import ShardRow, ShardWriter
from pdtools.tokenization import (
    Sentence,
    Tokenizer,
    UnknownWordError,
    join_words,
    train_bpe_tokenizer,
    train_word_tokenizer,
)
from pdtools.trees import (
    SourcedTree,
    Tree,
    attachments,
    expand_attachments,
    normalize,
    read_trees,
    sentence_layout,
    unescape,
)

NO_WORDS = "no words"
NOT_PARSED = "not parsed: a flat placeholder"
UNKNOWN_WORDS = "words outside the vocabulary"
ROWS_PER_PART = 100_000

Watch = Callable[[Iterable[SourcedTree], str], Iterable[SourcedTree]]


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """A tokenizer to be made from the trees.

    Attributes:
        kind: ``word`` or ``bpe``.
        size: vocabulary size, special tokens included. None: ``word`` without limit, ``bpe`` 10,000.
        min_count: rarer words (pairs, for ``bpe``) are left out. None: 2, but 1 for ``word`` without
            ``<unk>``: with one, some training words have to be unknown for ``<unk>`` to be learnt.
        unk: whether ``word`` has ``<unk>``. (``bpe`` knows every word.)
        text_style: ``ptb`` or ``raw``.
    """

    kind: Literal["word", "bpe"] = "word"
    size: int | None = None
    min_count: int | None = None
    unk: bool = True
    text_style: Literal["ptb", "raw"] = "ptb"


def usable_tree(tree: Tree) -> Tree | str:
    """A tree as the shards take it, or why they don't.

    Args:
        tree: as a treebank has it, or binarized by ``pdtools parse``: the outcome is the same.

    Returns:
        The tree normalized and unbinarized; or the reason to leave it out: traces are all it had, or it is
        the flat tree ``(X (XX word) ...)`` that ``pdtools parse`` writes for a sentence without a parse.
    """
    plain = normalize(tree)
    if plain is None:
        return NO_WORDS
    flat = plain.labels == ("X",) and set(plain.tags) == {UNKNOWN_TAG}
    # Of one word or two there is no other tree, unless a word had to be replaced.
    if flat and (len(plain) > 2 or UNUSABLE_WORD in plain.words):
        return NOT_PARSED
    return plain


def sentence_of(tree: Tree, text_style: str) -> Sentence:
    """The words of a tree, without escapes, as a sentence in a text style."""
    return join_words([unescape(word) for word in tree.words], text_style)


def train_tokenizer(trees: Iterable[SourcedTree], settings: TokenizerSettings) -> Tokenizer:
    """Make a tokenizer from the words of trees."""
    usable = (usable_tree(sourced.tree) for sourced in trees)
    sentences = (sentence_of(tree, settings.text_style) for tree in usable if isinstance(tree, Tree))
    if settings.kind == "bpe":
        return train_bpe_tokenizer(
            sentences,
            size=10_000 if settings.size is None else settings.size,
            min_count=2 if settings.min_count is None else settings.min_count,
            text_style=settings.text_style,
        )
    default_count = 2 if settings.unk else 1
    return train_word_tokenizer(
        (word for sentence in sentences for word in sentence.words),
        min_count=default_count if settings.min_count is None else settings.min_count,
        size=settings.size,
        unk=settings.unk,
        text_style=settings.text_style,
    )


def shards_from_files(
    files: Sequence[str],
    tokenizer: Tokenizer | TokenizerSettings,
    settings: ShardSettings,
    out_dir: str | Path,
    rejects: Rejects,
    *,
    overwrite: bool = False,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Make shards from tree files, and a tokenizer from the same trees if none is given.

    Files are read twice to make a tokenizer; standard input and pipes are kept in memory instead.

    Args:
        files: bracketed trees, ``-`` for standard input.
        tokenizer: a tokenizer, or how to make one.
        settings: what the shards hold.
        out_dir: the folder, see :func:`build_shards`.
        rejects: what to do with trees that cannot be read.
        overwrite: whether ``out_dir`` may be replaced.
        watch: wraps each pass over the trees, given its label, to show progress.

    Returns:
        The manifest.
    """
    watch = watch or (lambda trees, label: trees)
    trees: Iterable[SourcedTree]
    if isinstance(tokenizer, Tokenizer):
        trees = read_trees(files, rejects)
    elif any(is_stream(file) for file in files):
        trees = list(watch(read_trees(files, rejects), "reading"))
        tokenizer = train_tokenizer(_some(trees, rejects), tokenizer)
    else:
        passed_over = Rejects(rejects.on_error)
        first_pass = watch(read_trees(files, passed_over), "tokenizer")
        tokenizer = train_tokenizer(_some(first_pass, passed_over), tokenizer)
        trees = read_trees(files, rejects)
    return build_shards(
        watch(trees, "tapes"), tokenizer, settings, out_dir, rejects, sources=files, overwrite=overwrite
    )


def _some(trees: Iterable[SourcedTree], rejects: Rejects) -> Iterator[SourcedTree]:
    """Pass trees through, and fail if there are none: a clearer message than that of an empty vocabulary."""
    empty = True
    for tree in trees:
        empty = False
        yield tree
    if empty:
        raise PdtoolsError(f"no trees in the input{_because(rejects)}")


def build_shards(
    trees: Iterable[SourcedTree],
    tokenizer: Tokenizer,
    settings: ShardSettings,
    out_dir: str | Path,
    rejects: Rejects,
    *,
    sources: Sequence[str] = (),
    overwrite: bool = False,
    rows_per_part: int = ROWS_PER_PART,
) -> dict[str, Any]:
    """Write trees as shards (:mod:`pdtools.shards.format`). The folder appears whole or not at all.

    Trees that :func:`usable_tree` refuses, and sentences with words that the tokenizer doesn't know and has
    no ``<unk>`` for, are left out, counted and recorded in the rejects; under any policy that is no error.

    Args:
        trees: treebank trees, or binarized ones of ``pdtools parse``.
        tokenizer: encodes their words; copied into the folder.
        settings: what the shards hold.
        out_dir: the folder.
        rejects: written to ``rejects.jsonl`` together with what the reading of ``trees`` adds to it.
        sources: files that the trees are from, to be recorded with their SHA-256.
        overwrite: whether ``out_dir`` may be replaced.
        rows_per_part: rows per Parquet file.

    Returns:
        The manifest.

    Raises:
        PdtoolsError: if the output exists, or no sentence is left.
    """
    return write_shards(
        _rows(trees, tokenizer, settings, rejects),
        tokenizer,
        settings,
        out_dir,
        rejects,
        sources=sources,
        overwrite=overwrite,
        rows_per_part=rows_per_part,
    )


def _rows(
    trees: Iterable[SourcedTree], tokenizer: Tokenizer, settings: ShardSettings, rejects: Rejects
) -> Iterator[ShardRow]:
    for sourced in trees:
        row = _row(sourced, tokenizer, settings)
        if isinstance(row, str):
            rejects.leave_out(row, file=sourced.file, line=sourced.line, text=sourced.text)
        else:
            yield row


def _row(sourced: SourcedTree, tokenizer: Tokenizer, settings: ShardSettings) -> ShardRow | str:
    """The row of a tree, or why there is none."""
    tree = usable_tree(sourced.tree)
    if isinstance(tree, str):
        return tree
    sentence = sentence_of(tree, tokenizer.text_style)
    try:
        encoding = tokenizer.encode(sentence)
    except UnknownWordError:
        return UNKNOWN_WORDS
    n_words = len(sentence.words)
    pieces = np.bincount(encoding.word[1:-1], minlength=n_words)  # (words,) tokens of each word
    factor = settings.factor
    attach = sentence_layout(expand_attachments(attachments(tree, factor), pieces, factor))
    return ShardRow(" ".join(sentence.words), encoding, attach, n_words)


def write_shards(
    rows: Iterable[ShardRow],
    tokenizer: Tokenizer,
    settings: ShardSettings,
    out_dir: str | Path,
    rejects: Rejects,
    *,
    sources: Sequence[str] = (),
    description: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    rows_per_part: int = ROWS_PER_PART,
) -> dict[str, Any]:
    """Write rows, wherever their attachments are from, as shards. The folder appears whole or not at all.

    Args:
        rows: tokenized sentences.
        tokenizer: what they were tokenized with; copied into the folder.
        settings, out_dir, rejects, sources, overwrite, rows_per_part: see :func:`build_shards`.
        description: more entries of the manifest: what the rows are, where no file says it.

    Returns:
        The manifest.

    Raises:
        PdtoolsError: if the output exists, or there are no rows.
    """
    with atomic_directory(out_dir, overwrite=overwrite) as folder:
        described = [_describe_source(file) for file in sources]
        schema = arrow_schema(settings, tokenizer, described)
        writer = ShardWriter(folder, schema, settings, rows_per_part)
        for row in rows:
            writer.write(row)
        writer.close()
        if not writer.counts.sentences:
            raise PdtoolsError(f"no sentences to write{_because(rejects)}")
        manifest = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "settings": {**asdict(settings), "text_style": tokenizer.text_style},
            "tokenizer": {
                "kind": tokenizer.kind,
                "vocab_size": tokenizer.vocab_size,
                "fingerprint": tokenizer.fingerprint,
            },
            "counts": {**asdict(writer.counts), "left_out": len(rejects)},
            "left_out": rejects.by_reason(),
            "parts": writer.parts,
            "sources": described,
            **(description or {}),
            "provenance": provenance(),
        }
        tokenizer.save(folder)
        rejects.write(folder / REJECTS_FILE)
        write_json(folder / MANIFEST_FILE, manifest)
    return manifest


def _describe_source(file: str) -> dict[str, str | None]:
    return {"file": file, "sha256": None if is_stream(file) else sha256_file(file)}


def _because(rejects: Rejects) -> str:
    reasons = ", ".join(f"{number} left out: {reason}" for reason, number in rejects.by_reason().items())
    return f" ({reasons})" if reasons else ""
