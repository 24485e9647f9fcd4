"""Parsing and conversion in chunks: the work on a chunk, and the results handed out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from pdtools.files import ExcludedInput, Rejects
from pdtools.jobs import JobFolder, Plan, Work, cut, map_chunks
from pdtools.jobs.devices import prepare_torch
from pdtools.parsers.backends import BACKENDS, ParseFailure, Parser, load_parser, model_files
from pdtools.parsers.pipeline import CHUNK, ParseCounts, TreeForm, TreeLine
from pdtools.parsers.splitting import SourcedSentence
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
from pdtools.trees.forms import (
    FORMS,
    ExcludedByRule,
    ReadOptions,
    ReadTree,
    TreeText,
    read_block,
    record_excluded,
)


@dataclass(frozen=True, slots=True)
class ChunkTrees:
    """The results for a chunk's trees or sentences, one by one.

    Attributes:
        outcomes: a tree, or the reason why there is none.
        changes: counts of traces removed and labels rewritten.
        read: counts of what the reader of a treebank form removed or changed.
    """

    outcomes: tuple[TreeLine | ExcludedInput | ExcludedByRule, ...]
    changes: TransformCounts
    read: Counter[str]

    def __len__(self) -> int:
        return len(self.outcomes)

    def handed_out(self, rejects: Rejects, counts: ParseCounts) -> Iterator[TreeLine]:
        """The trees; ``rejects`` takes the others, and ``counts`` is added to."""
        counts.changes += self.changes
        counts.read += self.read
        for outcome in self.outcomes:
            if isinstance(outcome, TreeLine):
                yield counts.tree(outcome)
            else:
                record_excluded(outcome, rejects)


# --- from a treebank --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConvertWork(Work[FileChunk, ChunkTrees | None]):
    """Converts the trees of a chunk of files to a form; None where :func:`parse_chunk` gives None."""

    form: TreeForm
    kept, may_be_none = ChunkTrees, True

    def __call__(self, chunk: FileChunk) -> ChunkTrees | None:
        arrays = parse_chunk(chunk)
        return None if arrays is None else self.converted(arrays.source(i) for i in range(len(arrays)))

    def digest(self, chunk: FileChunk) -> str:
        return chunk.digest()

    def converted(self, trees: Iterable[SourcedTree]) -> ChunkTrees:
        """The results for trees."""
        changes = TransformCounts()
        outcomes: list[TreeLine | ExcludedInput] = []
        for sourced in trees:
            tree = self.form.usable(sourced.tree, changes)
            if isinstance(tree, Tree):
                outcomes.append(TreeLine.of(tree))
            else:
                outcomes.append(ExcludedInput(tree, sourced.file, sourced.line, sourced.text))
        return ChunkTrees(tuple(outcomes), changes, Counter())


def convert_in_chunks(
    files: Sequence[str],
    form: TreeForm,
    plan: Plan,
    job: JobFolder | None,
    *,
    rejects: Rejects,
    counts: ParseCounts,
) -> Iterator[TreeLine]:
    """Convert the trees of files in Penn's brackets, in order, in chunks, as planned.

    Trees outside of the ordinary form that :func:`pdtools.trees.parse_chunk` reads, standard input and pipes
    are converted in this process.

    Args:
        files: paths from :func:`pdtools.files.expand_inputs`.
        form: the form to convert to.
        plan: the distribution of the work.
        job: keeps the chunks that are done.
        rejects: takes the trees that cannot be read or hold only traces, and files without trees.
        counts: updated with every tree.

    Raises:
        InputError: at the first bad tree or file without trees, if ``rejects`` says so.
    """
    work = ConvertWork(form)
    made = map_chunks(work, cut_chunks(files), plan, job)
    for item in in_order(made, work, rejects):
        found = work.converted([item]) if isinstance(item, SourcedTree) else item
        yield from found.handed_out(rejects, counts)


@dataclass(frozen=True, slots=True)
class ReadWork(Work[Sequence[TreeText], ChunkTrees]):
    """Reads and converts the sentences of a form of treebank."""

    source: str
    options: ReadOptions
    form: TreeForm
    kept = ChunkTrees

    def __call__(self, chunk: Sequence[TreeText]) -> ChunkTrees:
        changes, read = TransformCounts(), Counter[str]()
        outcomes: list[TreeLine | ExcludedInput | ExcludedByRule] = []
        for block in chunk:
            for found in read_block(FORMS[self.source], block, self.options, read):
                if not isinstance(found, ReadTree):
                    outcomes.append(found)
                elif isinstance(tree := self.form.usable(found.tree, changes, found.heads), Tree):
                    outcomes.append(TreeLine.of(tree, found.written, found.graph))
                else:
                    outcomes.append(ExcludedInput(tree, block.file, block.line, block.text))
        return ChunkTrees(tuple(outcomes), changes, read)

    def content(self, chunk: Sequence[TreeText]) -> list[Any]:
        return [astuple(block) for block in chunk]


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
        yield from made.handed_out(rejects, counts)


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
    """A parser of :func:`pdtools.parsers.backends.load_parser`.

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
class ParseWork(Work[Sequence[SourcedSentence], ChunkTrees]):
    """Parses the sentences of a chunk."""

    parser: ParserSettings
    form: TreeForm
    kept = ChunkTrees

    def __call__(self, chunk: Sequence[SourcedSentence]) -> ChunkTrees:
        changes = TransformCounts()
        outcomes: list[TreeLine | ExcludedInput] = []
        parsed = _loaded(self.parser).parse([sentence.words for sentence in chunk])
        for sentence, result in zip(chunk, parsed, strict=True):
            read = ReadTree(result) if isinstance(result, Tree) else result
            tree: Tree | str
            if isinstance(read, ParseFailure):
                tree, graph = read.reason, None
            else:
                tree, graph = self.form.usable(read.tree, changes, read.heads), read.graph
            if isinstance(tree, Tree) and len(tree) != len(sentence.words):
                tree = "the parser gave a tree of other words"
            if isinstance(tree, Tree):
                outcomes.append(TreeLine.of(tree, graph=graph))
            else:
                outcomes.append(ExcludedInput(tree, sentence.file, sentence.line, sentence.text))
        return ChunkTrees(tuple(outcomes), changes, Counter())

    def content(self, chunk: Sequence[SourcedSentence]) -> list[Any]:
        return [astuple(sentence) for sentence in chunk]  # excluded sentences are named by their place


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
    arcs: bool = False,
) -> Iterator[TreeLine]:
    """Parse sentences in chunks, as planned, and yield their trees in the given form, in order.

    Args:
        sentences: from :func:`pdtools.parsers.splitting.read_sentences`.
        parser: the source of the parser.
        form: the form to convert to.
        plan: the distribution of the work.
        job: keeps the chunks that are done.
        rejects: takes the sentences that have no tree, with the reason.
        counts: updated with every tree.
        placeholders: yield :func:`placeholder` where a sentence has no tree, so that the n-th tree is
            the n-th sentence's; or exclude such sentences.
        texts: whether trees have their sentences.
        arcs: whether the parser gives dependencies: a sentence without a tree has none.

    Raises:
        InputError: at the first failure, if ``rejects`` says so.
    """
    for chunk, made in map_chunks(ParseWork(parser, form), cut(sentences, CHUNK), plan, job):
        counts.changes += made.changes
        for sentence, outcome in zip(chunk, made.outcomes, strict=True):
            if not isinstance(outcome, TreeLine):
                record_excluded(outcome, rejects)
                if not placeholders:
                    continue
                counts.placeholders += 1
                tree, n_words = placeholder(sentence.words).to_brackets(), len(sentence.words)
                outcome = TreeLine(tree, n_words, arcs="" if arcs else None)
            yield counts.tree(replace(outcome, written=sentence.text if texts else None))
