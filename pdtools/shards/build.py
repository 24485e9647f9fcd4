"""Conversion of trees, and of running text, to shards: ``pdtools tapes`` and ``pdtools blocks``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects, held, read_lines, some_trees
from pdtools.jobs import JobFolder, Plan, map_chunks
from pdtools.jobs.workers import Workers
from pdtools.shards.encode import ChunkRows, ChunksOf, ChunkWords, CountWork, EncodeWork
from pdtools.shards.format import ShardSettings
from pdtools.shards.plain import UNKNOWN_WORDS, row_of_source, usable_sentences
from pdtools.shards.rows import EncodedRows, ShardRow
from pdtools.shards.writer import write_shards
from pdtools.tokenization import (
    Encoding,
    Sentence,
    Tokenizer,
    UnknownWordError,
    split_spaces,
    train_bpe_tokenizer,
    train_word_tokenizer,
)
from pdtools.trees import BLANK_LINE, SourcedTree, files_beside, in_order

Item = TypeVar("Item")

# Given the label of a pass over the trees, shows its progress: called with numbers of trees while it lasts.
Watch = Callable[[str], AbstractContextManager[Callable[[int], object]]]


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """A tokenizer to be made from the trees.

    Attributes:
        kind: ``word`` or ``bpe``.
        size: vocabulary size, special tokens included. None: ``word`` without limit, ``bpe`` 10,000.
        min_count: rarer words (pairs, for ``bpe``) are excluded. None: 2, but 1 for ``word`` without
            ``<unk>``: with one, some training words have to be unknown for ``<unk>`` to be learnt.
        unk: whether ``word`` has ``<unk>``. (``bpe`` knows every word.)
        text_style: ``ptb`` or ``raw``.
        lower_case: whether ``word`` lowercases words.
        typed: whether ``bpe`` reads typographic signs as typed ones.
    """

    kind: Literal["word", "bpe"] = "word"
    size: int | None = None
    min_count: int | None = None
    unk: bool = True
    text_style: Literal["ptb", "raw"] = "ptb"
    lower_case: bool = False
    typed: bool = False


def train_tokenizer(trees: Iterable[SourcedTree], settings: TokenizerSettings) -> Tokenizer:
    """Make a tokenizer from the words of trees."""
    return tokenizer_of(usable_sentences(trees, settings.text_style), settings)


def tokenizer_of(corpus: Iterable[Sentence] | Mapping[str, int], settings: TokenizerSettings) -> Tokenizer:
    """Make a tokenizer from sentences, or from the counts of their words."""
    if settings.kind == "bpe":
        return train_bpe_tokenizer(
            corpus,
            size=10_000 if settings.size is None else settings.size,
            min_count=2 if settings.min_count is None else settings.min_count,
            text_style=settings.text_style,
            typed=settings.typed,
        )
    default_count = 2 if settings.unk else 1
    return train_word_tokenizer(
        corpus if isinstance(corpus, Mapping) else (word for sentence in corpus for word in sentence.words),
        min_count=default_count if settings.min_count is None else settings.min_count,
        size=settings.size,
        unk=settings.unk,
        text_style=settings.text_style,
        lower_case=settings.lower_case,
    )


def label_vocabulary(counts: Counter[str]) -> tuple[str, ...]:
    """The tokenizer's labels: the most frequent first, equally frequent ones by name."""
    return tuple(sorted(counts, key=lambda label: (-counts[label], label)))


def needs_labels(tokenizer: Tokenizer | TokenizerSettings, settings: ShardSettings) -> bool:
    """Return whether labels have to be collected for the tokenizer before rows are made."""
    has_labels = isinstance(tokenizer, Tokenizer) and tokenizer.labels
    return settings.constituents == "labelled" and not has_labels


def shards_from_files(
    files: Sequence[str],
    tokenizer: Tokenizer | TokenizerSettings,
    settings: ShardSettings,
    out_dir: str | Path,
    rejects: Rejects,
    *,
    overwrite: bool = False,
    workers: int = 1,
    plan: Plan | None = None,
    job: JobFolder | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Make shards from tree files, and a tokenizer from the same trees if none is given.

    Files are read twice to make a tokenizer, or to find the constituents' labels if the given tokenizer has
    none; standard input and pipes are kept in memory instead. Files are processed in chunks
    (:func:`pdtools.trees.cut_chunks`), so the result does not depend on ``workers``.

    Args:
        files: bracketed trees, ``-`` for standard input.
        tokenizer: a tokenizer, or settings to make one.
        settings: the content of the shards.
        out_dir: the folder, see :func:`build_shards`.
        rejects: takes trees that cannot be read.
        overwrite: whether ``out_dir`` may be replaced.
        workers: number of processes that read chunks, and pack and write parts. This one joins the rows
            of chunks to parts, which copies only data that go from process to process.
        plan: how the chunks are distributed, if not over ``workers``.
        job: keeps the results of chunks.
        watch: shows the progress of each pass over the trees, given its label.

    Returns:
        The manifest.
    """
    watch = watch or (lambda label: nullcontext(lambda n: None))
    plan = plan or Plan(workers=workers)
    with Workers(plan.workers) as processes:
        given = tokenizer if isinstance(tokenizer, Tokenizer) else None
        labelling = needs_labels(tokenizer, settings)
        complete = None if labelling else given
        if complete is None:
            files = [*map(held, files)]
            with watch("labels" if given else "tokenizer") as seen:
                count = CountWork(None if given else tokenizer.text_style, labelling)
                counted = map_chunks(
                    count,
                    ChunksOf(files),
                    plan,
                    job,
                    "words",
                    another_pass=True,
                    processes=processes,
                )
                passed_over = Rejects(rejects.on_error)
                items = in_order(counted, count, passed_over)
                words = (count.of_tree(each) if isinstance(each, SourcedTree) else each for each in items)
                found = _seen(words, seen)
                complete = _completed(tokenizer, some_trees(found, passed_over), labelling)
        encode = EncodeWork(complete, settings)
        encoded = map_chunks(encode, ChunksOf(files), plan, job, "tapes", processes=processes)
        rows = _rows(in_order(encoded, encode, rejects), complete, settings, rejects)
        with watch("tapes") as seen:
            return write_shards(
                _seen(rows, seen),
                complete,
                settings,
                out_dir,
                rejects,
                sources=[
                    *files,
                    *(files_beside(files, "text") if complete.text_style == "raw" else []),
                    *(files_beside(files, "arcs") if settings.arcs != "none" else []),
                ],
                overwrite=overwrite,
                workers=processes,
            )


def _completed(
    tokenizer: Tokenizer | TokenizerSettings, found: Iterable[ChunkWords], labelling: bool
) -> Tokenizer:
    """The given tokenizer, or one made from the words found, with the labels found if requested."""
    labels: Counter[str] = Counter()

    def counted() -> Iterator[ChunkWords]:
        for item in found:
            labels.update(item.labels)
            yield item

    if isinstance(tokenizer, Tokenizer):
        for _ in counted():
            pass  # their labels are counted
    elif tokenizer.text_style == "raw":
        tokenizer = tokenizer_of((each for item in counted() for each in item.sentences), tokenizer)
    else:
        words: Counter[str] = Counter()
        for item in counted():
            words.update(item.counts)
        tokenizer = tokenizer_of(words, tokenizer)
    return tokenizer.with_labels(label_vocabulary(labels)) if labelling else tokenizer


def _seen(items: Iterable[Item], seen: Callable[[int], object]) -> Iterator[Item]:
    """Pass items through, and report their numbers of trees."""
    for item in items:
        yield item
        seen(len(item) if isinstance(item, (EncodedRows, ChunkWords)) else 1)


def build_shards(
    trees: Iterable[SourcedTree],
    tokenizer: Tokenizer,
    settings: ShardSettings,
    out_dir: str | Path,
    rejects: Rejects,
    *,
    sources: Sequence[str] = (),
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write trees as shards (:mod:`pdtools.shards.format`). The folder appears whole or not at all.

    Trees that :func:`usable_tree` refuses, and sentences with words that the tokenizer cannot encode,
    are excluded, counted and recorded as such; under any policy that is no error.

    Args:
        trees: treebank trees, or binarized ones of ``pdtools parse``.
        tokenizer: encodes their words; copied into the folder. If constituents are stored and it has no
            labels, the trees' labels are found first, and all trees are in memory then.
        settings: the content of the shards.
        out_dir: the folder.
        rejects: written to ``rejects.jsonl``; the reading of ``trees`` may add to it.
        sources: the trees' files, to be recorded with their SHA-256.
        overwrite: whether ``out_dir`` may be replaced.

    Returns:
        The manifest.

    Raises:
        PdtoolsError: if the output exists, or no sentence is left.
    """
    if needs_labels(tokenizer, settings):
        trees = list(trees)
        tokenizer = _completed(tokenizer, map(CountWork(None, True).of_tree, trees), labelling=True)
    return write_shards(
        _rows(trees, tokenizer, settings, rejects),
        tokenizer,
        settings,
        out_dir,
        rejects,
        sources=sources,
        overwrite=overwrite,
    )


def _rows(
    items: Iterable[SourcedTree | ChunkRows], tokenizer: Tokenizer, settings: ShardSettings, rejects: Rejects
) -> Iterator[ShardRow | EncodedRows]:
    """The rows of trees and of whole chunks; excluded trees go to ``rejects``."""
    ended = False  # the document before the next tree
    for item in items:
        if isinstance(item, ChunkRows):
            for excluded in item.excluded:
                rejects.exclude(**asdict(excluded))
            yield replace(item.rows, documents=item.documents)
            continue
        if settings.documents == "blank":
            ended |= item.follows_blank or item.text == BLANK_LINE
            if item.text == BLANK_LINE:
                continue
        row = row_of_source(item, tokenizer, settings)
        if isinstance(row, str):
            rejects.exclude(row, file=item.file, line=item.line, text=item.text)
        else:
            yield replace(row, file=item.file, begins=ended)
            ended = False


# --- blocks of running text, for models without trees ------------------------------------------

_Line = tuple[str, int, str]  # file, number, text
WatchLines = Callable[[str, Iterator[_Line]], Iterable[_Line]]


def blocks_from_files(
    files: Sequence[str],
    tokenizer: Tokenizer | TokenizerSettings,
    out_dir: str | Path,
    rejects: Rejects,
    *,
    length: int = 128,
    overwrite: bool = False,
    watch: WatchLines = lambda name, lines: lines,
) -> dict[str, Any]:
    """Make shards from text files; and a tokenizer from the same text, if none is given.

    All lines that are not blank, each with end-of-sentence after it, are one sequence, cut after every
    ``length`` tokens. Each row has ROOT before its tokens; the last may be shorter.

    Args:
        files: text, words between spaces.
        tokenizer: a tokenizer, or settings to make one.
        out_dir: the folder, see :func:`build_shards`.
        rejects: gets lines with words that the tokenizer cannot encode.
        length: tokens of a row, besides ROOT.
        overwrite: whether ``out_dir`` may be replaced.
        watch: passes all lines through, once or twice, to show progress; gets the label of each pass.

    Returns:
        The manifest.

    Raises:
        PdtoolsError: if there is no text.
    """
    if length < 1:
        raise PdtoolsError(f"a block needs at least 1 token, not {length}")
    if not isinstance(tokenizer, Tokenizer):
        files = [*map(held, files)]
        tokenizer = tokenizer_of((line for _, _, line in _lines(files, "tokenizer", watch)), tokenizer)
    return write_shards(
        block_rows(_encoded(_lines(files, "blocks", watch), tokenizer, rejects), tokenizer, length),
        tokenizer,
        ShardSettings(layout="block", tape="none"),
        out_dir,
        rejects,
        sources=files,
        description={"block_length": length},
        overwrite=overwrite,
    )


def block_rows(
    lines: Iterable[tuple[Sentence, Encoding]], tokenizer: Tokenizer, length: int
) -> Iterator[ShardRow]:
    """Cut tokenized lines into rows of ``length`` tokens.

    A word that is cut belongs to the row in which it begins; in the next its tokens have the word -1.
    """
    ids: list[int] = []
    words: list[str | None] = []  # for each token, the word that it begins, if any
    for sentence, encoding in lines:
        ids += encoding.ids[1:].tolist()  # with end-of-sentence
        before = -1
        for word in encoding.word[1:].tolist():
            words.append(sentence.words[word] if word > before else None)
            before = max(word, before)
        while len(ids) >= length:
            yield _block(ids[:length], words[:length], tokenizer)
            del ids[:length], words[:length]
    if ids:
        yield _block(ids, words, tokenizer)


def _block(ids: Sequence[int], begins: Sequence[str | None], tokenizer: Tokenizer) -> ShardRow:
    tokens = np.array([tokenizer.root_id, *ids], dtype=np.int32)  # (n + 1,)
    begun = np.cumsum([0, *(word is not None for word in begins)]) - 1  # (n + 1,): the last word that began
    word = np.where(np.isin(tokens, [tokenizer.root_id, tokenizer.eos_id]), -1, begun).astype(np.int32)
    words = [word for word in begins if word is not None]
    nowhere = np.zeros(len(tokens), dtype=np.int32)
    n_unknown = 0 if tokenizer.unk_id is None else int((tokens == tokenizer.unk_id).sum())
    encoding = Encoding(ids=tokens, word=word, starts=nowhere, ends=nowhere, n_unknown=n_unknown)
    attach = np.arange(len(tokens), dtype=np.int32)
    return ShardRow(" ".join(words), encoding, attach, len(words))


def _encoded(
    lines: Iterable[tuple[str, int, Sentence]], tokenizer: Tokenizer, rejects: Rejects
) -> Iterator[tuple[Sentence, Encoding]]:
    for file, number, sentence in lines:
        try:
            yield sentence, tokenizer.encode(sentence)
        except UnknownWordError:
            rejects.exclude(UNKNOWN_WORDS, file=file, line=number, text=sentence.text)


def _lines(files: Sequence[str], name: str, watch: WatchLines) -> Iterator[tuple[str, int, Sentence]]:
    """File, number and words of every line that is not blank."""
    lines = ((file, number, text) for file in files for number, text in read_lines(file))
    for file, number, text in watch(name, lines):
        sentence = split_spaces(text)
        if sentence.words:
            yield file, number, sentence
