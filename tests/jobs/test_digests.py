"""What tells chunks from themselves with other content: all that their results depend on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pdtools.evaluation.perplexity.shard_rows import RowToScore, RowWork
from pdtools.jobs.run import Work
from pdtools.parsers.in_chunks import ParseWork, ReadWork
from pdtools.parsers.splitting import SourcedSentence, read_sentences
from pdtools.search.model import Chunk, ModelWork
from pdtools.tokenization import Sentence, split_spaces
from pdtools.trees.chunks import FileChunk
from pdtools.trees.constituents import Constituents
from pdtools.trees.forms.form import TreeText

NOTHING: Any = None
INTS = np.arange(3, dtype=np.int32)


class WholeContent(Work[Any, Any]):
    def content(self, chunk: Any) -> Any:
        return chunk


def differ(contents: Iterable[Any]) -> None:
    digests = [WholeContent().digest(content) for content in contents]
    assert len(set(digests)) == len(digests)


def changed(value: Any) -> list[Any]:
    """A dataclass with another value of one field, for each."""
    found = [value]
    for field in dataclasses.fields(value):
        old = getattr(value, field.name)
        new = old + 1 if isinstance(old, int) else "another" if isinstance(old, str) else ("another",)
        found.append(dataclasses.replace(value, **{field.name: new}))
    return found


def test_sentences() -> None:
    a, b = split_spaces("a b"), split_spaces("c")
    glued = Sentence("ab", ("a", "b"), (0, 1), (1, 2))
    one_word = Sentence("a b", ("a b",), (0,), (3,))
    after = [
        dataclasses.replace(a, before=before) for before in ((b,), (b, b), (b, a), (a, b), (glued,), (a,))
    ]
    work = ModelWork((), "score")
    differ(work.content(Chunk((each,))) for each in ("a b", "a  b", a, b, glued, one_word, *after))
    differ(work.content(Chunk(chunk)) for chunk in ((a, b), (b, a), (a,), (a, b, b)))
    differ(work.content(Chunk((a,), model)) for model in (0, 1))


def test_sentences_to_parse() -> None:
    work = ParseWork(NOTHING, NOTHING)
    sentence = SourcedSentence(words=("a", "b"), file="x.txt", line=3, text="a b")
    differ(work.content([each]) for each in changed(sentence))


def test_sentences_of_running_text_are_told_apart_by_their_place(tmp_path: Path) -> None:
    """A sentence that cannot be parsed is named by it."""
    work, file = ParseWork(NOTHING, NOTHING), tmp_path / "x.txt"
    found = []
    for text in ("A dog.\n\nIt ran.\n", "A dog.\n\n\nIt ran.\n"):
        file.write_text(text)
        found.append(list(read_sentences([str(file)], "text", split_sentences=True))[-1:])
    assert found[0][0].text == found[1][0].text
    assert work.digest(found[0]) != work.digest(found[1])


def test_blocks_of_treebanks() -> None:
    work = ReadWork(NOTHING, NOTHING, NOTHING)
    block = TreeText("x.conllu", 3, "text", fault="fault", fault_line=4, note="note")
    differ(work.content([each]) for each in changed(block))


def test_chunks_of_files() -> None:
    chunk = FileChunk(("x", "y"), (b"ab", b"c"), 1)
    others = [
        *(FileChunk(files, chunk.contents) for files in (("x",), ("y", "x"), ("x", "z"))),
        *(FileChunk(chunk.files, contents) for contents in ((b"a", b"bc"), (b"abc",), (b"c", b"ab"), None)),
        FileChunk(chunk.files, chunk.contents, 2),
    ]
    digests = [each.digest() for each in (chunk, *others)] + [chunk.digest("tokenizer")]
    assert len(set(digests)) == len(digests)


def test_rows_of_shards() -> None:
    work = RowWork(NOTHING, NOTHING, NOTHING)
    row = RowToScore(number=4, id=4, tokens=INTS, derivation=INTS, word=INTS, text="a b")
    labelled = Constituents(INTS, INTS, INTS)
    others = [
        dataclasses.replace(row, **change)
        for change in (
            {"number": 5},
            {"tokens": INTS + 1},
            {"word": INTS + 1},
            {"derivation": INTS + 1},
            {"derivation": labelled},
            *(
                {"derivation": dataclasses.replace(labelled, **{field.name: INTS + 1})}
                for field in dataclasses.fields(Constituents)
            ),
        )
    ]
    differ(work.content([each]) for each in (row, *others))
