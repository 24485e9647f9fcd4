"""Blocks of running text with a fixed number of tokens, the training data of models without trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdtools.errors import PdtoolsError
from pdtools.files import Rejects, held, read_lines
from pdtools.shards.build import TokenizerSettings, tokenizer_of
from pdtools.shards.format import ShardSettings
from pdtools.shards.plain import UNKNOWN_WORDS
from pdtools.shards.rows import ShardRow
from pdtools.shards.writer import write_shards
from pdtools.tokenization import Encoding, Sentence, Tokenizer, UnknownWordError, split_spaces

_Line = tuple[str, int, str]  # file, number, text
Watch = Callable[[str, Iterator[_Line]], Iterable[_Line]]
SETTINGS = ShardSettings(layout="block", tape="none")


def blocks_from_files(
    files: Sequence[str],
    tokenizer: Tokenizer | TokenizerSettings,
    out_dir: str | Path,
    rejects: Rejects,
    *,
    length: int = 128,
    overwrite: bool = False,
    watch: Watch = lambda name, lines: lines,
) -> dict[str, Any]:
    """Make shards from text files; and a tokenizer from the same text, if none is given.

    All lines that are not blank, each with end-of-sentence after it, are one sequence, cut after every
    ``length`` tokens. Each row has ROOT before its tokens; the last may be shorter.

    Args:
        files: text, words between spaces.
        tokenizer: a tokenizer, or settings to make one.
        out_dir: the folder, see :func:`pdtools.shards.build.build_shards`.
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
        SETTINGS,
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
            yield _row(ids[:length], words[:length], tokenizer)
            del ids[:length], words[:length]
    if ids:
        yield _row(ids, words, tokenizer)


def _row(ids: Sequence[int], begins: Sequence[str | None], tokenizer: Tokenizer) -> ShardRow:
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


def _lines(files: Sequence[str], name: str, watch: Watch) -> Iterator[tuple[str, int, Sentence]]:
    """File, number and words of every line that is not blank."""
    lines = ((file, number, text) for file in files for number, text in read_lines(file))
    for file, number, text in watch(name, lines):
        sentence = split_spaces(text)
        if sentence.words:
            yield file, number, sentence
