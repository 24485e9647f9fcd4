"""Parsing and conversion in chunks: the work on a chunk, and the results handed out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from pdtools.files import ExcludedInput, Rejects
from pdtools.files.typed_values import as_type
from pdtools.jobs import JobFolder, Plan, cut, map_chunks
from pdtools.jobs.devices import prepare_torch
from pdtools.jobs.records import FilesWork, JsonWork
from pdtools.parsers.base import BACKENDS, ParseFailure, Parser, load_parser, model_files
from pdtools.parsers.pipeline import CHUNK, ParseCounts, TreeForm, parse_batch
from pdtools.parsers.sentences import SourcedSentence
from pdtools.provenance import check_fingerprint, identify
from pdtools.trees import (
    FileChunk,
    SourcedTree,
    TransformCounts,
    Tree,
    cut_chunks,
    in_order,
    parse_chunk,
    placeholder,
)
from pdtools.trees.forms import FORMS, ReadOptions, ReadTree, TreeText, read_block

_LEAF = re.compile(r"([^ ()]+)\)")


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A tree that is to be written, its sentence, if that is a text, and its dependency arcs."""

    text: str
    written: str | None = None
    arcs: str | None = None

    def to_brackets(self) -> str:
        """The tree's brackets."""
        return self.text

    @property
    def words(self) -> tuple[str, ...]:
        """The tree's words, as written."""
        return tuple(_LEAF.findall(self.text))


@dataclass(frozen=True, slots=True)
class ChunkTrees:
    """The results for a chunk's trees or sentences, one by one.

    Attributes:
        outcomes: a tree, or the reason why there is none.
        n_words: number of words of all trees.
        changes: counts of traces removed and labels rewritten.
    """

    outcomes: tuple[TreeLine | ExcludedInput, ...]
    n_words: int
    changes: TransformCounts

    @property
    def n_trees(self) -> int:
        """The number of trees or sentences."""
        return len(self.outcomes)

    def __len__(self) -> int:
        return self.n_trees

    @classmethod
    def restored(cls, record: Any) -> ChunkTrees:
        """See :class:`pdtools.jobs.records.JsonWork`."""
        kept = as_type(record, _ChunkTreesRecord)
        outcomes = (TreeLine(o) if isinstance(o, str) else o for o in kept.outcomes)
        return cls(tuple(outcomes), kept.n_words, kept.changes)


@dataclass(frozen=True, slots=True)
class _ChunkTreesRecord:
    """:class:`ChunkTrees` with brackets instead of trees."""

    outcomes: tuple[str | ExcludedInput, ...]
    n_words: int
    changes: TransformCounts


# --- from a treebank --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConvertWork(FilesWork[ChunkTrees]):
    """Converts the trees of a chunk of files to a form; None where :func:`parse_chunk` gives None."""

    form: TreeForm

    def __call__(self, chunk: FileChunk) -> ChunkTrees | None:
        arrays = parse_chunk(chunk)
        return None if arrays is None else self.converted(arrays.source(i) for i in range(len(arrays)))

    def converted(self, trees: Iterable[SourcedTree]) -> ChunkTrees:
        """The results for trees."""
        changes = TransformCounts()
        outcomes: list[TreeLine | ExcludedInput] = []
        n_words = 0
        for sourced in trees:
            tree = self.form.usable(sourced.tree, changes)
            if isinstance(tree, Tree):
                n_words += len(tree)
                outcomes.append(TreeLine(tree.to_brackets()))
            else:
                outcomes.append(ExcludedInput(tree, sourced.file, sourced.line, sourced.text))
        return ChunkTrees(tuple(outcomes), n_words, changes)

    def restored(self, record: Any) -> ChunkTrees:
        return ChunkTrees.restored(record)


def convert_in_chunks(
    files: Sequence[str],
    form: TreeForm,
    plan: Plan,
    job: JobFolder | None,
    *,
    rejects: Rejects,
    counts: ParseCounts,
) -> Iterator[TreeLine]:
    """Convert treebanks in chunks, as planned; see :func:`pdtools.parsers.convert_treebank`.

    Trees outside of the ordinary form that :func:`pdtools.trees.parse_chunk` reads, standard input and pipes
    are converted in this process.
    """
    work = ConvertWork(form)
    made = map_chunks(work, cut_chunks(files), plan, job)
    for item in in_order(made, work, rejects):
        formed = work.converted([item]) if isinstance(item, SourcedTree) else item
        counts.changes += formed.changes
        counts.tokens += formed.n_words
        for outcome in formed.outcomes:
            if isinstance(outcome, ExcludedInput):
                rejects.add(**asdict(outcome))
            else:
                counts.trees += 1
                yield outcome


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a sentence: brackets, the sentence's own string and its arcs, or why there are none.

    Attributes:
        by_rule: whether it is excluded by rule, and no error.
    """

    tree: str | None
    written: str | None = None
    arcs: str | None = None
    left_out: ExcludedInput | None = None
    by_rule: bool = False


@dataclass(frozen=True, slots=True)
class _Read:
    """The outcomes of a chunk's sentences: :class:`ChunkTrees` for another form of treebank."""

    outcomes: tuple[_Outcome, ...]
    n_words: int
    changes: TransformCounts
    read: Counter[str]


@dataclass(frozen=True, slots=True)
class ReadWork(JsonWork[Sequence[TreeText], _Read]):
    """Reads and converts the sentences of a form of treebank (:class:`pdtools.jobs.Work`)."""

    source: str
    options: ReadOptions
    form: TreeForm
    kept = _Read

    def __call__(self, chunk: Sequence[TreeText]) -> _Read:
        changes, read = TransformCounts(), Counter[str]()
        outcomes: list[_Outcome] = []
        n_words = 0
        for block in chunk:
            for found in read_block(FORMS[self.source], block, self.options, read):
                if isinstance(found, ReadTree):
                    tree = self.form.usable(found.tree, changes, found.heads)
                    if isinstance(tree, Tree):
                        n_words += len(tree)
                        arcs = None if found.graph is None else str(found.graph)
                        outcomes.append(_Outcome(tree.to_brackets(), found.written, arcs))
                    else:
                        outcomes.append(_excluded(block, tree))
                elif isinstance(found, ExcludedInput):
                    outcomes.append(_Outcome(None, left_out=found))
                else:
                    outcomes.append(_excluded(block, found.reason, by_rule=True))
        return _Read(tuple(outcomes), n_words, changes, read)

    def content(self, chunk: Sequence[TreeText]) -> list[Any]:
        return [astuple(block) for block in chunk]


def _excluded(block: TreeText, reason: str, *, by_rule: bool = False) -> _Outcome:
    return _Outcome(None, left_out=ExcludedInput(reason, block.file, block.line, block.text), by_rule=by_rule)


def read_in_chunks(
    files: Sequence[str],
    source: str,
    options: ReadOptions,
    form: TreeForm,
    plan: Plan,
    job: JobFolder | None,
    *,
    rejects: Rejects,
    counts: ParseCounts,
) -> Iterator[TreeLine]:
    """Read and convert the trees of files in a form of :mod:`pdtools.trees.forms`, as planned."""
    blocks = (block for file in files for block in FORMS[source].blocks(file))
    for _, made in map_chunks(ReadWork(source, options, form), cut(blocks, CHUNK), plan, job):
        counts.changes += made.changes
        counts.tokens += made.n_words
        counts.read += made.read
        for outcome in made.outcomes:
            if outcome.tree is not None:
                counts.trees += 1
                yield TreeLine(outcome.tree, outcome.written, outcome.arcs)
            elif outcome.left_out is not None:
                record = rejects.exclude if outcome.by_rule else rejects.add
                record(**asdict(outcome.left_out))


# --- through a parser -------------------------------------------------------------------------


class ParserSettings(Hashable, Protocol):
    """The source of a parser. To be compared, hashed, and pickled to workers."""

    def load(self) -> Parser:
        """Load the parser."""
        ...

    def described(self) -> dict[str, Any]:
        """The settings that its trees depend on, for :func:`pdtools.jobs.job_folder`."""
        ...


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """A parser of :func:`pdtools.parsers.load_parser`.

    Attributes:
        threads: the number of each worker's threads; 0: torch's choice.
        fingerprint: the model's, if other processes load it; they refuse another one.
    """

    name: str
    model: str | None
    device: str
    threads: int = 0
    fingerprint: str | None = None

    def load(self) -> Parser:
        """See :class:`ParserSettings`."""
        if self.fingerprint is not None:
            path, *more = self.files
            check_fingerprint(path, self.fingerprint, *more)
        return load_parser(self.name, self.model, prepare_torch(self.device, self.threads))

    @property
    def files(self) -> list[str]:
        """The paths of the model's files, if the parser is a backend."""
        return model_files(self.name, self.model) if self.name in BACKENDS else []

    def described(self) -> dict[str, Any]:
        """See :class:`ParserSettings`."""
        found = [identify(path).get("sha256", self.model) for path in self.files]
        return {"parser": self.name, "model": found[0] if len(found) == 1 else found or self.model}


@lru_cache(maxsize=1)
def _loaded(parser: ParserSettings) -> Parser:
    return parser.load()


@dataclass(frozen=True, slots=True)
class ParseWork(JsonWork[Sequence[SourcedSentence], ChunkTrees]):
    """Parses the sentences of a chunk (:class:`pdtools.jobs.Work`)."""

    parser: ParserSettings
    form: TreeForm

    def __call__(self, chunk: Sequence[SourcedSentence]) -> ChunkTrees:
        changes = TransformCounts()
        outcomes: list[TreeLine | ExcludedInput] = []
        n_words = 0
        for sentence, tree in zip(
            chunk, parse_batch(chunk, _loaded(self.parser), self.form, changes), strict=True
        ):
            if isinstance(tree, ParseFailure):
                outcomes.append(ExcludedInput(tree.reason, sentence.file, sentence.line, sentence.text))
            else:
                n_words += len(tree)
                outcomes.append(TreeLine(tree.to_brackets()))
        return ChunkTrees(tuple(outcomes), n_words, changes)

    def content(self, chunk: Sequence[SourcedSentence]) -> list[Any]:
        return [astuple(sentence) for sentence in chunk]  # excluded sentences are named by their place

    def restored(self, record: Any) -> ChunkTrees:
        return ChunkTrees.restored(record)


def parse_in_chunks(
    sentences: Iterable[SourcedSentence],
    parser: ParserSettings,
    form: TreeForm,
    plan: Plan,
    job: JobFolder | None,
    *,
    rejects: Rejects,
    counts: ParseCounts,
    placeholders: bool = True,
    texts: bool = False,
) -> Iterator[TreeLine]:
    """Parse sentences in chunks, as planned (:func:`pdtools.parsers.parse_corpus`); ``texts``: keep them."""
    for chunk, formed in map_chunks(ParseWork(parser, form), cut(sentences, CHUNK), plan, job):
        counts.changes += formed.changes
        counts.tokens += formed.n_words
        for sentence, outcome in zip(chunk, formed.outcomes, strict=True):
            if isinstance(outcome, TreeLine):
                counts.trees += 1
                yield replace(outcome, written=sentence.text if texts else None)
                continue
            rejects.add(outcome.reason, file=sentence.file, line=sentence.line, text=sentence.text)
            if placeholders:
                counts.trees += 1
                counts.placeholders += 1
                counts.tokens += len(sentence.words)
                yield TreeLine(placeholder(sentence.words).to_brackets(), sentence.text if texts else None)
