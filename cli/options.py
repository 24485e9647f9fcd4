"""Options that behave the same in every command that has them, and values that need more than a type."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import GivenText, Kind, Rejects, Source, expand_inputs
from pdtools.provenance.hub import BUNDLED, find_model
from pdtools.search.options import AUTO, DEFAULT_BEAM, Pll, SearchOptions, TreesFile

from . import signatures
from .console import is_quiet, message, set_quiet

if TYPE_CHECKING:
    from pdtools.stimuli.frequency import Frequency
    from pdtools.trees import Tree


OnError = Literal["fail", "skip"]
SentenceForm = Literal["text", "tokens", "treebank", "parts"]
Style = Literal["ptb", "raw"]

SHARED = """
Arguments:
    inputs (INPUT): Files, folders, globs, hf-data:..., or -.

Input:
    text (SENTENCE): A sentence (or tree), instead of files; repeatable.
    source (--from): Form: sentences, words, trees, or prompts.
    on_error: Stop at bad input, or record it and go on.
    frequencies (FILE): Add log frequencies, from a table of words and counts.
    wordfreq (LANGUAGE): Add log frequencies, from the package wordfreq (en).
    factors (NAME,NAME): Stimuli: columns, or parts of conditions (amb_long); NAME=REFERENCE.
    region: Stimuli: the critical region (default: that of the largest effect).

Model:
    model (DIR): A run, checkpoint, hf:NAME, FILE.arpa, english, english-base or demo.

Search:
    cky: TreeReg: the tree with the highest sum of scores, not the greedy one.

Output:
    output (-o DIR): A folder for results.json and tables.
    as_json (--json): Print one JSON document on standard output.
    latex: Print tables for LaTeX (booktabs).
    details: Also print the scores of every paradigm or suite.

Parallel:
    device: auto, cpu, cuda, cuda:1, mps, ...
    threads: CPU threads (0: all).

Options:
    samples: Bootstrap samples.
    seed: Seed of everything random.
    vocab_size: Vocabulary with special tokens (word: no limit; bpe: 10000).
    lower_case: word: convert words to lower case, in evaluation too.
    correct_spaces: Count the space after a word in its surprisal, not before.
"""
"""Parameters that mean the same in every command: its docstring lists only the others."""

command = functools.partial(signatures.command, shared=signatures.described(SHARED)[1])


def named_group(text: str) -> tuple[str, list[str]]:
    """Parse ``NAME=FOLDER,PATTERN`` of --group."""
    name, equals, folders = text.partition("=")
    if not (name and equals and folders):
        raise typer.BadParameter(f"--group {text}: write NAME=FOLDER or NAME=FOLDER,FOLDER")
    return name, folders.split(",")


def named_groups(texts: Iterable[str]) -> dict[str, list[str]]:
    """The values of --group by their names, each of which may be given several times."""
    found: dict[str, list[str]] = {}
    for name, patterns in map(named_group, texts):
        found.setdefault(name, []).extend(patterns)
    return found


def parse_beam(text: object) -> int | str:
    """Parse a number of hypotheses, or ``auto``."""
    if text == AUTO:
        return AUTO
    if not re.fullmatch("0*[1-9][0-9]{,8}", str(text)):
        raise typer.BadParameter(f"{text!r} is neither a number from 1 on nor {AUTO}")
    return int(str(text))


_LEAST = {"word_beam": 1, "fast_track": 0, "max_batch": 1}


def _setting(text: str) -> tuple[str, int]:
    """Parse a setting of the search, of --search."""
    key, _, value = text.partition("=")
    if key not in _LEAST or not re.fullmatch("[0-9]{1,9}", value) or int(value) < _LEAST[key]:
        known = ", ".join(f"{name}=N (from {least})" for name, least in _LEAST.items())
        raise typer.BadParameter(f"--search {text}: has to be one of {known}")
    return key, int(value)


def named_model(context: typer.Context, name: Any) -> Any:
    """The folder or folders that --model means; messages about them are printed."""
    return (
        [_named(context, each) for each in name] if isinstance(name, list | tuple) else _named(context, name)
    )


def named_parser(context: typer.Context, name: Any) -> Any:
    """The folder that --parser means, which may also be a program."""
    return _named(context, name)


def named_tokenizer(context: typer.Context, name: Any) -> Any:
    """The folder that --tokenizer means, or a kind of new tokenizer; no weights are downloaded for it."""
    return name if name in ("word", "bpe") else _named(context, name, weights=False)


def _named(context: typer.Context, name: Any, **how: Any) -> Any:
    if name is None or context.resilient_parsing:  # a line that is being typed, or read again
        return name
    found = find_model(name, bars=not is_quiet(), **how)
    if found.note is not None:
        message(found.note)
    return found.folder


def complete_models(incomplete: str) -> list[str]:
    """Names of models with this beginning; the shell completes folders."""
    return [name for name in BUNDLED if name.startswith(incomplete)]


def complete_kinds(incomplete: str) -> list[str]:
    """Kinds of models with this beginning."""
    return [name for name in _KINDS if name.startswith(incomplete)]


def complete_recipes(incomplete: str) -> list[str]:
    """Bundled recipes with this beginning."""
    from pdtools.training.recipe import RECIPES

    return [name for name in RECIPES.names if name.startswith(incomplete)]


_KINDS = (
    "pushdown",
    "transformer",
    "plm",
    "plm-mask",
    "tg",
    "dtg",
    "rnng",
    "rnng-in-order",
    "sclm",
    "gilt",
    "rnn",
)
Natural = Annotated[int, typer.Option(min=0)]
Positive = Annotated[int, typer.Option(min=1)]
Threads = Annotated[int, typer.Option(min=0, max=1024)]
_models = typer.Option(callback=named_model, autocompletion=complete_models)
ModelName = Annotated[str, _models]
ModelNames = Annotated[list[str], _models]
ModelKind = Annotated[str, typer.Option(autocompletion=complete_kinds)]
RecipeName = Annotated[str, typer.Option(autocompletion=complete_recipes)]


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Options for the results of a command.

    Output:
        overwrite: Replace existing output; a folder only if pdtools wrote it.
        quiet (-q): No progress, no messages.
    """

    overwrite: bool = False
    as_json: bool = False
    # Eager: messages about other options depend on it.
    quiet: Annotated[bool, typer.Option(is_eager=True, callback=set_quiet)] = False


@dataclass(frozen=True, kw_only=True)
class ChunkOptions(ResultOptions):
    """Options for work that can be divided into chunks.

    Parallel:
        workers: Number of processes; the result is the same.
        shard (I/N): Do part I (from 0) of N; then run pdtools merge.
        scheduler (ADDRESS): A Dask scheduler whose workers do the work.
        resume: Continue an interrupted run, if there is one.
    """

    workers: Annotated[int, typer.Option(min=1, max=1024)] = 1
    shard: str | None = None
    scheduler: str | None = None
    resume: bool = False


@dataclass(frozen=True, kw_only=True)
class BeamOptions:
    """Options for the search over derivations.

    Search:
        beam (N): Hypotheses kept after each token, or each action.
        margin (NATS): Drop hypotheses this far behind the best one.
        search_settings (--search KEY=N): max_batch; action models: word_beam, fast_track. Repeatable.
    """

    beam: Annotated[Any, typer.Option(parser=parse_beam)] = (
        DEFAULT_BEAM  # typer takes no int | Literal["auto"]
    )
    margin: Annotated[float | None, typer.Option(min=0, max=1e6)] = None
    search_settings: list[str] | None = None

    @property
    def search(self) -> SearchOptions:
        """The options that the search is given.

        Raises:
            PdtoolsError: if options cannot be combined.
        """
        further: dict[str, Any] = by_key("--search", map(_setting, self.search_settings or ()))
        return SearchOptions(beam=self.beam, margin=self.margin, **further)

    @property
    def search_of_one(self) -> SearchOptions:
        """The options of a search in which sentences are read one by one.

        Raises:
            PdtoolsError: if options cannot be combined, or say how many are read together.
        """
        if (search := self.search).max_batch is not None:
            raise PdtoolsError("--search max_batch=…: sentences are read one by one here: leave it out")
        return search

    @staticmethod
    def check_model(context: typer.Context, model: object) -> None:
        """Refuse options of a search where no model is given.

        Raises:
            typer.BadParameter: if there is one.
        """
        names = {field.name for field in fields(BeamOptions)}
        for parameter in context.command.params if not model else ():
            given = context.get_parameter_source(str(parameter.name))
            if parameter.name in names and given is not None and given.name == "COMMANDLINE":
                raise typer.BadParameter(f"{parameter.opts[0]} needs a --model")


@dataclass(frozen=True, kw_only=True)
class RunOptions(BeamOptions, ChunkOptions):
    """Options for a model's work, and for its computation.

    Model:
        bos: Hugging Face: read a beginning-of-sentence token first.
        pll: Masked models: what is hidden with a token (default: the rest of its word).
        dtype: Type of the weights; bf16 is less exact.

    Search:
        trees (FILE): Sum over the trees in a file, without a search.
    """

    device: str = "auto"
    threads: Threads = 0
    trees: str | None = None
    bos: bool = True
    pll: Pll | None = None
    dtype: Literal["float32", "bf16"] = "float32"

    @functools.cached_property
    def search(self) -> SearchOptions:
        """The options that the search is given.

        Raises:
            PdtoolsError: if options cannot be combined.
            InputError: if the file of trees cannot be read.
        """
        # Other machines' processes have other working directories.
        path = self.trees and (self.trees if self.scheduler is None else os.path.abspath(self.trees))
        trees = None if path is None else TreesFile.of(path)
        return replace(super().search, trees=trees)

    @property
    def trees_read(self) -> dict[str, str]:
        """The file of --trees as an input of :func:`pdtools.provenance.provenance`, if it is given."""
        return {} if self.trees is None else {"trees": self.trees}


@dataclass(frozen=True, kw_only=True)
class ContextOptions:
    """Options for the text read before sentences.

    Input:
        preceding (--context FILE|document): Read a file's sentences first, or the document's earlier ones.
        window: The most tokens read at once (default: the model's maximum).
        stride: Read documents as one text, in windows that move by N tokens.

    Search:
        context_parses: Of earlier sentences: the best parse, or the whole beam.
    """

    preceding: str | None = None
    context_parses: Literal["best", "beam"] | None = None
    window: Annotated[int | None, typer.Option(min=2)] = None
    stride: Positive | None = None


@dataclass(frozen=True, kw_only=True)
class ExternalOptions:
    """Options for external models: their surprisals, and the sentences for them to score.

    Input:
        surprisals (FILE): Surprisals computed elsewhere, instead of a model.
        nats: --surprisals: they are in nats, not bits.
        on_error: Stop at --surprisals that do not fit, or exclude them.

    Output:
        write_sentences (FILE): Only write the sentences: .tsv, .csv, or .txt (text alone).
    """

    surprisals: str | None = None
    write_sentences: str | None = None
    nats: bool = False
    on_error: OnError = "fail"


@dataclass(frozen=True, kw_only=True)
class _ScoreOptions:
    """The model, and where and how its scores are written."""

    model: ModelName | None = None
    output: str | None = None
    details: bool = False
    latex: bool = False


@dataclass(frozen=True, kw_only=True)
class StringOptions(RunOptions, ContextOptions, ExternalOptions, _ScoreOptions):
    """Options for evaluations of strings by a model or an external one; the last base is first in help.

    Input:
        preceding (--context FILE): Read the sentences of a file before each sentence.

    Search:
        beam (N|auto): Hypotheses kept after each token, or each action.
    """


T = TypeVar("T")
_MOST_DIGITS = 6  # strings of a million symbols are no task


def input_files(
    inputs: Sequence[str] | None,
    texts: Sequence[str] | None,
    suffixes: Sequence[str],
    kind: Kind | None,
    only: Callable[[str], bool] | None = None,
) -> list[Source]:
    """The files that a command reads: the named ones, or one of the lines given with --text.

    Raises:
        typer.BadParameter: unless it is exactly one of the two.
        InputError: see :func:`pdtools.files.expand_inputs`.
    """
    if bool(inputs) == bool(texts):
        raise typer.BadParameter("give either INPUT (files, or -) or --text SENTENCE")
    if texts:
        return [GivenText.of(texts)]
    try:
        return expand_inputs(inputs or [], suffixes, kind, only)
    except InputError as error:
        if " " not in str(error.file) or os.path.exists(str(error.file)):
            raise
        hint = "a sentence itself is given with --text"
        raise InputError(error.reason, file=error.file, hint=hint) from None


def sentence_files(inputs: Sequence[str] | None, texts: Sequence[str] | None, source: str) -> list[Source]:
    """The files that sentences are read from, in a form of :data:`pdtools.search.inputs.SentenceForm`.

    Raises:
        typer.BadParameter: see :func:`input_files`.
        InputError: the same; or if a file is in a form of treebank that is not read here.
    """
    from pdtools.parsers.pipeline import KINDS, SUFFIXES

    if source == "conllu":
        return input_files(inputs, texts, (".conllu",), None)
    kind, suffixes = KINDS[source], SUFFIXES[source]
    if not inputs:
        return input_files(inputs, texts, suffixes, kind)
    from pdtools.trees.forms import refuse_for

    refuse_for(kind, filter(os.path.isfile, inputs))
    files = input_files(inputs, texts, suffixes, kind)
    refuse_for(kind, files)
    return files


def parse_range(text: str, smallest: int = 1) -> range:
    """Parse ``15-50`` as the numbers from 15 to 50, ``15`` as that number."""
    first, dash, last = text.partition("-")
    if not dash:
        last = first
    if not all(number.isascii() and number.isdecimal() for number in (first, last)):
        raise typer.BadParameter(f"{text!r} is not a range such as 15-50")
    if max(len(first), len(last)) > _MOST_DIGITS:
        raise typer.BadParameter(f"{text!r}: numbers have at most {_MOST_DIGITS} digits here")
    if not smallest <= int(first) <= int(last):
        raise typer.BadParameter(
            f"{text!r}: a range begins at {smallest} or more and goes upwards, such as 15-50"
        )
    return range(int(first), int(last) + 1)


def named_columns(given: Sequence[str] | None) -> dict[str, str]:
    """Parse the values of --column: names of columns by role."""
    pairs = []
    for text in given or ():
        name, separator, column = text.partition("=")
        if not (separator and name and column):
            raise typer.BadParameter(f"--column {text}: has to be NAME=COLUMN, such as time=RT")
        pairs.append((name, column))
    return by_key("--column", pairs)


def by_key(option: str, pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    """The values of an option KEY=VALUE by key.

    Raises:
        typer.BadParameter: for a key with two values, of which the last would win.
    """
    found: dict[str, T] = {}
    for key, value in pairs:
        if found.setdefault(key, value) != value:
            raise typer.BadParameter(f"{option} {key} takes one value: {found[key]} and {value} are given")
    return found


def check_frequencies(frequencies: str | None, wordfreq: str | None) -> None:
    """Refuse two sources of frequencies."""
    if frequencies is not None and wordfreq is not None:
        raise typer.BadParameter("give only one of --frequencies and --wordfreq")


def read_frequencies(frequencies: str | None, wordfreq: str | None) -> Frequency | None:
    """The frequencies of words, from --frequencies or --wordfreq; None without them."""
    from pdtools.stimuli.frequency import frequencies_of_file, frequencies_of_wordfreq

    if frequencies is not None:
        return frequencies_of_file(frequencies)
    return None if wordfreq is None else frequencies_of_wordfreq(wordfreq)


def one_tree(text: str) -> Tree:
    """Parse the one tree in an argument, written as in a treebank.

    Raises:
        InputError: if it is no tree, or there are several.
    """
    from pdtools.trees import read_trees

    given = GivenText.of([text])
    trees = [sourced.tree for sourced in read_trees([given], Rejects("fail", hint=None))]
    if len(trees) != 1:
        raise InputError(f"{len(trees)} trees, but one is shown at a time", file=given)
    return trees[0]
