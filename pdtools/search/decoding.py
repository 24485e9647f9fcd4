"""Parsing of sentences into trees: line for line, as a parser of text, and of a model in training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import tee
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects, atomic_table, atomic_text, write_rejects
from pdtools.files.packed import ending
from pdtools.parsers.backends import ParseFailure
from pdtools.search.inputs import SourcedLine
from pdtools.search.model import Model, ModelSettings
from pdtools.search.options import NO_SEARCH, SearchOptions
from pdtools.search.scores import Unscorable
from pdtools.tokenization import join_words, split_spaces
from pdtools.trees import BLANK_LINE, Tree, escape, placeholder
from pdtools.trees.graphs import Graph, conllu

if TYPE_CHECKING:
    from pdtools.models import LoadedModel
    from pdtools.training.samples import SampleParse


@dataclass(frozen=True, slots=True)
class Decoded:
    """The result for one sentence.

    Attributes:
        tree: the best parse over words, or the flat placeholder of a sentence without one.
        k_best: the best parses (:attr:`pdtools.search.parses.Parsed.k_best`), best first: log joint (nats)
            and tree. Empty for a placeholder.
        marginal, dropped, arcs: see :class:`pdtools.search.parses.Parsed`; None, and no arcs, for a
            placeholder.
        ranges: the multi-word tokens of its CoNLL-U (:class:`pdtools.search.inputs.SourcedLine`).
    """

    tree: Tree
    k_best: tuple[tuple[float | None, Tree], ...]
    marginal: float | None
    dropped: float | None
    arcs: tuple[str, ...] = ()
    ranges: tuple[tuple[int, int, str], ...] = ()

    def conllu(self) -> str:
        """The sentence in CoNLL-U; without a parse, without arcs. A blank line is no sentence there: ""."""
        if str(self.tree) == BLANK_LINE:
            return ""
        graph = Graph.from_text(self.arcs[0] if self.arcs else "", len(self.tree))
        return conllu(graph, self.tree.words, self.ranges)


def decode(
    lines: Iterable[SourcedLine],
    model: Model,
    *,
    rejects: Rejects,
    k_best: int = 1,
) -> Iterator[Decoded]:
    """Parse sentences: one result for each line, in order, lazily.

    Args:
        lines: from :func:`pdtools.search.inputs.read_inputs`.
        model: one that is asked for parses (:func:`pdtools.search.load_model`).
        rejects: takes the sentences that have no parse, with the reason.
        k_best: see :meth:`pdtools.search.model.Model.parse`.

    Raises:
        InputError: at the first sentence without a parse, if ``rejects`` says so.
    """
    lines, again = tee(lines)
    parsed = model.parse((line.sentence for line in again), k_best=k_best)
    for line, found in zip(lines, parsed, strict=True):
        if isinstance(found, Unscorable):
            sentence = line.sentence
            rejects.add(found.reason, file=line.file, line=line.line, text=sentence.text)
            flat = placeholder(sentence.words)
            yield Decoded(tree=flat, k_best=(), marginal=None, dropped=None, ranges=line.ranges)
        else:
            best = found.k_best[0][1]
            yield Decoded(
                tree=best,
                k_best=found.k_best,
                marginal=found.marginal,
                dropped=found.dropped,
                arcs=found.arcs,
                ranges=line.ranges,
            )


@dataclass(frozen=True, slots=True)
class DecodeCounts:
    """The numbers of written trees, of their words, and of placeholders among them."""

    trees: int
    words: int
    placeholders: int


def is_conllu(output: str) -> bool:
    """Return whether a file is to be in CoNLL-U, by its name."""
    return ending(output) == ".conllu"


def write_decoded(
    results: Iterable[Decoded],
    output: str,
    *,
    rejects: Rejects,
    scores: str | None = None,
    k_best: int = 1,
    has_arcs: bool = False,
) -> DecodeCounts:
    """Write the best tree of every sentence, one a line, whole or not at all.

    Args:
        results: from :func:`decode`.
        output: a file (compressed by its suffix) or ``-``. Rejects go beside a file. A ``.conllu`` file gets
            dependencies, of models of arcs (:func:`is_conllu`).
        scores: a table with a header: ``id`` (line of the output, from 1), ``rank`` (from 1), ``joint``
            and ``marginal`` (nats); with ``k_best`` over 1 also ``tree``, and ``arcs``; ``dropped``. A
            placeholder has no rows. Not for trees of TreeReg, which have no scores.
        k_best: rows per sentence at most, as given to :func:`decode`.
        has_arcs: whether the parses have arcs.

    Raises:
        InputError: if there is no sentence at all.
    """
    parses = [] if k_best == 1 else ["tree", "arcs"] if has_arcs else ["tree"]
    columns = ["id", "rank", "joint", "marginal", *parses, "dropped"]
    trees = words = placeholders = 0
    with ExitStack() as stack:
        lines = stack.enter_context(atomic_text(output))
        write_scores = stack.enter_context(atomic_table(scores, columns)) if scores is not None else None
        for result in results:
            trees += 1
            words += len(result.tree) if str(result.tree) != BLANK_LINE else 0
            placeholders += not result.k_best
            lines.write(result.conllu() if is_conllu(output) else f"{result.tree}\n")
            if write_scores is None:
                continue
            for k, (joint, tree) in enumerate(result.k_best):
                parse = [tree, *result.arcs[k : k + 1]] if k_best > 1 else []
                row = [trees, k + 1, f"{joint:.8f}", f"{result.marginal:.8f}", *parse]
                write_scores([*row, f"{result.dropped:.3g}"])
        if not trees:
            raise InputError("there is no sentence in the input")
        write_rejects(output, rejects)
    return DecodeCounts(trees=trees, words=words, placeholders=placeholders)


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The source of a :class:`CheckpointParser` (:class:`pdtools.parsers.in_chunks.ParserSettings`).

    Attributes:
        model: asked for parses.
    """

    model: ModelSettings

    def load(self) -> CheckpointParser:
        """Load the parser."""
        return CheckpointParser(self.model.load())

    def described(self) -> dict[str, Any]:
        """The settings that its trees depend on."""
        return self.model.for_job()


class CheckpointParser:
    """A :class:`~pdtools.parsers.backends.Parser` over a checkpoint with an attachment head, or TreeReg.

    Args:
        model: asked for parses (:func:`pdtools.search.load_model`).

    Raises:
        PdtoolsError: if it does not parse.
    """

    def __init__(self, model: Model) -> None:
        self._model, self._style = model, model.settings["text_style"]

    def parse(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree | ParseFailure]:
        """See :meth:`pdtools.parsers.backends.Parser.parse`."""
        joined = (join_words(words, self._style) for words in sentences)
        for words, found in zip(sentences, self._model.parse(joined), strict=True):
            if isinstance(found, Unscorable):
                yield ParseFailure(found.reason)
            else:
                ((_, tree),) = found.k_best
                yield Tree(
                    tuple(escape(word) for word in words), tree.tags, tree.labels, tree.starts, tree.ends
                )


def parse_samples(loaded: LoadedModel, texts: Sequence[str]) -> list[SampleParse]:
    """The best parse of each text (:data:`pdtools.training.samples.ParseSamples`).

    A sentence that cannot be parsed has a reason, and stops nothing.

    Args:
        loaded: a model that parses, in evaluation mode.
        texts: words with single spaces.
    """
    from pdtools.search.kinds import search_of
    from pdtools.training.samples import SampleParse

    by_treereg = not loaded.model.derivation_kind.exist
    style = loaded.tokenizer.text_style
    try:
        # A small beam: these parses add to the time of every evaluation.
        search = NO_SEARCH if by_treereg else SearchOptions(beam=search_of(loaded.model).sample_beam)
        parser = Model.of(loaded, search, parses=True)
        found = list(parser.parse(join_words(split_spaces(text).words, style) for text in texts))
    except PdtoolsError as error:  # such as too little memory
        return [SampleParse(None, None, None, str(error)) for _ in texts]
    return [
        SampleParse(None, None, None, parsed.reason)
        if isinstance(parsed, Unscorable)
        else SampleParse(str(parsed.k_best[0][1]), parsed.k_best[0][0], parsed.marginal)
        for parsed in found
    ]
