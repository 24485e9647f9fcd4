"""Options that behave the same in every command that has them."""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand

from pdtools.provenance.model_names import BUNDLED, find_model
from pdtools.report.visible import visible
from pdtools.search.options import AUTO, DEFAULT_BEAM, SearchOptions, TreesFile

from .panels import input_option, model_option, output_option, parallel_option, search_option


class OnError(str, Enum):
    """Actions at the first bad input."""

    fail = "fail"
    skip = "skip"


class SentenceForm(str, Enum):
    """Contents of input files."""

    text = "text"
    tokens = "tokens"
    treebank = "treebank"
    parts = "parts"


class Style(str, Enum):
    """Styles in which words become text."""

    ptb = "ptb"
    raw = "raw"


class ContextParses(str, Enum):
    """The derivations that are kept of the sentences before one."""

    best = "best"
    beam = "beam"


class Dtype(str, Enum):
    """Number formats of a model's weights for scoring."""

    float32 = "float32"
    bf16 = "bf16"


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
    quiet = context.params.get("quiet")
    found = find_model(name, bars=not quiet, **how)
    if found.note is not None and not quiet:
        print(visible(found.note), file=sys.stderr)
    return found.folder


def complete_models(incomplete: str) -> list[str]:
    """Names of models with this beginning; the shell completes folders."""
    return [name for name in BUNDLED if name.startswith(incomplete)]


def complete_kinds(incomplete: str) -> list[str]:
    """Kinds of models with this beginning."""
    return [name for name in _KINDS if name.startswith(incomplete)]


def complete_recipes(incomplete: str) -> list[str]:
    """Bundled recipes with this beginning."""
    from pdtools.training.recipe import bundled_recipes

    return [name for name in bundled_recipes() if name.startswith(incomplete)]


_KINDS = ("pushdown", "transformer", "plm", "plm-mask", "tg", "dtg", "sclm", "gilt", "rnn")
models_folder = partial(
    model_option, "--model", metavar="DIR", callback=named_model, autocompletion=complete_models
)

InputsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="INPUT", help="Files, folders, globs, hf-data:..., or -.")
]
GivenTextOption = Annotated[
    list[str] | None,
    input_option("--text", metavar="SENTENCE", help="A sentence (or tree), instead of files; repeatable."),
]
ResultsFolderOption = Annotated[
    str | None, output_option("--output", "-o", metavar="DIR", help="A folder for results.json and tables.")
]
TableOption = Annotated[
    str, output_option("--output", "-o", help="A TSV file, or CSV (.csv), also compressed (.gz, .zst); or -.")
]
OverwriteOption = Annotated[
    bool,
    output_option("--overwrite", help="Replace existing output; a folder only if pdtools wrote it."),
]
JsonOption = Annotated[bool, output_option("--json", help="Print one JSON document on standard output.")]
LatexOption = Annotated[bool, output_option("--latex", help="Print tables for LaTeX (booktabs).")]
DetailsOption = Annotated[
    bool, output_option("--details", help="Also print the scores of every paradigm or suite.")
]
QuietOption = Annotated[  # eager: messages about other options depend on it
    bool, output_option("--quiet", "-q", is_eager=True, help="No progress, no messages.")
]
SamplesOption = Annotated[int, typer.Option("--samples", min=1, help="Bootstrap samples.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random.")]
DeviceOption = Annotated[str, parallel_option("--device", help="auto, cpu, cuda, cuda:1, mps, ...")]
ThreadsOption = Annotated[int, parallel_option("--threads", min=0, max=1024, help="CPU threads (0: all).")]
WorkersOption = Annotated[
    int,
    parallel_option("--workers", min=1, max=1024, help="Number of processes. It does not change the result."),
]
ShardOption = Annotated[
    str | None,
    parallel_option(
        "--shard", metavar="I/N", help="Do part I of N of the work (I from 0); then run pdtools merge."
    ),
]
SchedulerOption = Annotated[
    str | None,
    parallel_option("--scheduler", metavar="ADDRESS", help="A Dask scheduler whose workers do the work."),
]
ResumeOption = Annotated[
    bool, parallel_option("--resume", help="Continue an interrupted run, if there is one.")
]
OnErrorOption = Annotated[
    OnError,
    input_option(
        "--on-error", help="At bad input: stop (fail), or exclude it, record it and continue (skip)."
    ),
]
ModelKindOption = Annotated[
    str | None,
    model_option(
        "--model",
        metavar="NAME",
        autocompletion=complete_kinds,
        help="pushdown (default), transformer, plm, plm-mask, tg, dtg, sclm, gilt, rnn.",
    ),
]
VocabSizeOption = Annotated[
    int | None,
    typer.Option(
        "--vocab-size",
        min=1,
        help="Vocabulary size with special tokens (default: no limit for word, 10000 for bpe).",
    ),
]
LowerCaseOption = Annotated[
    bool, typer.Option("--lower-case", help="word: convert words to lower case, in evaluation too.")
]
ModelOption = Annotated[
    str,
    models_folder(
        help="A checkpoint, or a run of pdtools train; or english, english-base, demo, hf:OWNER/NAME."
    ),
]
_SCORED = models_folder(
    help="A checkpoint, a run, a Hugging Face causal LM (or hf:gpt2); or english, english-base, demo."
)
ScoredModelOption = Annotated[str, _SCORED]
ScoredModelsOption = Annotated[list[str], _SCORED]
EvaluatedModelOption = Annotated[str | None, _SCORED]
FrequenciesOption = Annotated[
    str | None,
    input_option(
        "--frequencies",
        metavar="FILE",
        help="Two columns, words and counts: adds log frequency to the baseline, or the table.",
    ),
]
WordfreqOption = Annotated[
    str | None,
    input_option(
        "--wordfreq",
        metavar="LANGUAGE",
        help="Frequencies from the package wordfreq for a language, such as en.",
    ),
]
CorrectSpacesOption = Annotated[
    bool,
    typer.Option(
        "--correct-spaces", help="Count the space after a word in its surprisal, not the space before."
    ),
]
SurprisalsOption = Annotated[
    str | None,
    input_option("--surprisals", metavar="FILE", help="Surprisals computed elsewhere, instead of a model."),
]
WriteSentencesOption = Annotated[
    str | None,
    output_option(
        "--write-sentences",
        metavar="FILE",
        help="Write the sentences instead of scoring: a table (.tsv, .csv; or -), or texts alone (.txt).",
    ),
]
ExternalOnErrorOption = Annotated[
    OnError,
    input_option(
        "--on-error", help="If --surprisals do not fit a sentence: stop (fail), or exclude it (skip)."
    ),
]
ExternalNatsOption = Annotated[bool, input_option("--nats", help="--surprisals: they are in nats, not bits.")]
_KEPT = "Number of hypotheses kept after each token (action models: each action)"
_beam = partial(search_option, "--beam", metavar="N", parser=parse_beam)
# int | Literal["auto"], which typer does not take
BeamOption = Annotated[Any, _beam(help=f"{_KEPT}.")]
SearchSettingsOption = Annotated[
    list[str] | None,
    search_option(
        "--search",
        metavar="KEY=N",
        help="max_batch: sentences per batch (default: as many as memory allows). Action models, word_beam: "
        "hypotheses kept after each token (default: a tenth of the beam), fast_track: this many more that "
        "generated the token (a twentieth). Repeatable.",
    ),
]
MarginOption = Annotated[
    float | None,
    search_option(
        "--margin",
        min=0,
        max=1e6,
        metavar="NATS",
        help="Drop hypotheses this many nats behind the best one (default: none).",
    ),
]
PrecedingOption = Annotated[
    str | None,
    input_option(
        "--context",
        metavar="FILE|document",
        help="Read each sentence after the sentences of a file, or after earlier ones of its document.",
    ),
]
ContextParsesOption = Annotated[
    ContextParses | None,
    search_option(
        "--context-parses",
        help="--context: keep the best derivation of each earlier sentence (default), or the whole beam.",
    ),
]
WindowOption = Annotated[
    int | None,
    input_option(
        "--window",
        min=2,
        help="--context, --stride: the most tokens read at once (default: all that the model allows).",
    ),
]
StrideOption = Annotated[
    int | None,
    input_option(
        "--stride", min=1, help="Read each document as one text, in windows that move by this many tokens."
    ),
]
CkyOption = Annotated[
    bool,
    search_option(
        "--cky",
        help="Models trained with TreeReg: the tree with the highest sum of scores, not the greedy one.",
    ),
]
TreesOption = Annotated[
    str | None,
    search_option(
        "--trees",
        metavar="FILE",
        help="Sum over these trees, without a search (blocks of lines, or id<TAB>tree; gilt, dtg: CoNLL-U).",
    ),
]
DtypeOption = Annotated[
    Dtype,
    model_option("--dtype", help="Type of the weights. bf16 is less exact, and faster on some processors."),
]
BosOption = Annotated[
    bool,
    model_option(
        "--bos/--no-bos", help="Hugging Face models: read a beginning-of-sentence token first, or not."
    ),
]


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Options for the results of a command."""

    overwrite: OverwriteOption = False
    as_json: JsonOption = False
    quiet: QuietOption = False


@dataclass(frozen=True, kw_only=True)
class ChunkOptions(ResultOptions):
    """Options for work that can be divided into chunks."""

    workers: WorkersOption = 1
    shard: ShardOption = None
    scheduler: SchedulerOption = None
    resume: ResumeOption = False


@dataclass(frozen=True, kw_only=True)
class BeamOptions:
    """Options for the search over derivations."""

    beam: BeamOption = DEFAULT_BEAM
    margin: MarginOption = None
    search_settings: SearchSettingsOption = None

    @property
    def search(self) -> SearchOptions:
        """The options that the search is given.

        Raises:
            PdtoolsError: if options cannot be combined.
        """
        further = dict(map(_setting, self.search_settings or ()))
        return SearchOptions(beam=self.beam, margin=self.margin, **further)


@dataclass(frozen=True, kw_only=True)
class RunOptions(BeamOptions, ChunkOptions):
    """Options for a model's work, and for its computation."""

    device: DeviceOption = "auto"
    threads: ThreadsOption = 0
    trees: TreesOption = None
    bos: BosOption = True
    dtype: DtypeOption = Dtype.float32

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
    """Options for the text read before sentences."""

    preceding: PrecedingOption = None
    context_parses: ContextParsesOption = None
    window: WindowOption = None
    stride: StrideOption = None


@dataclass(frozen=True, kw_only=True)
class ExternalOptions:
    """Options for external models: their surprisals, and the sentences for them to score."""

    surprisals: SurprisalsOption = None
    write_sentences: WriteSentencesOption = None
    nats: ExternalNatsOption = False
    on_error: ExternalOnErrorOption = OnError.fail


# Descriptions of some of these for commands that compare sentences, which are in no document.
COMPARING: Mapping[str, Any] = {
    "beam": Annotated[Any, _beam(help=f"{_KEPT}; or auto.")],
    "preceding": Annotated[
        str | None,
        input_option(
            "--context", metavar="FILE", help="Sentences to read before every sentence, one per line."
        ),
    ],
    "window": Annotated[
        int | None,
        input_option(
            "--window",
            min=2,
            help="--context: the most tokens read at once (default: all that the model allows).",
        ),
    ],
}


def option_blocks(
    *, without: Sequence[str] = (), said: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of its parameters' dataclasses, such as :class:`RunOptions`.

    Typer sees a function with an option for every field; the command itself gets the dataclasses. Fields
    ``without`` an option keep their default; ``said`` has the command's own descriptions of some.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        # Before Python 3.11 typing.get_type_hints hides Annotated if the default is None.
        signature = inspect.signature(command, eval_str=True)
        plain: list[inspect.Parameter] = []
        flat: list[inspect.Parameter] = []
        blocks: dict[str, tuple[Any, list[str]]] = {}
        for parameter in signature.parameters.values():
            wanted = parameter.annotation
            if not is_dataclass(wanted):
                plain.append(parameter.replace(annotation=wanted, kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            hints = typing.get_type_hints(wanted, include_extras=True)
            taken = [field for field in fields(wanted) if field.name not in without]
            blocks[parameter.name] = wanted, [field.name for field in taken]
            flat += [
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=field.default,
                    annotation=said.get(field.name, hints[field.name]),
                )
                for field in taken
            ]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            made = {
                name: block(**{key: values.pop(key) for key in keys})
                for name, (block, keys) in blocks.items()
            }
            command(**values, **made)

        parameters = [*plain, *flat]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


SEARCH_OPTIONS = tuple(each.name for each in fields(BeamOptions))
"""The parameters of the search over derivations."""


def _said_twice(option: Any, values: Iterable[Any]) -> str:
    """A message with an option and its repeated values."""
    if option.is_flag:
        return f"{option.opts[0]} and {option.secondary_opts[0]} are given: choose one"
    *first, last = (" ".join(each) if isinstance(each, tuple) else each for each in values)
    return f"{max(option.opts, key=len)} takes one value: {', '.join(first)} and {last} are given"


_PANELS = ("Arguments", "Input", "Model", "Search", "Output", "Parallel", "Options")


class PanelledCommand(TyperCommand):
    """A command whose help has its examples first, and its options by panel: plain text, without rich.

    Its numbers are finite, and integers, such as seeds, have 64 bits. An option that takes one value is
    refused if it is given two.
    """

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the description of the command, examples, then everything else."""
        first, *rest = inspect.cleandoc(self.help or "").split("\n\n")
        rest.sort(key=lambda paragraph: not paragraph.startswith("\b\nExample:"))
        self.help = "\n\n".join([first, *rest])
        super().format_help_text(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual, but refuse repeated values, of which the last would win, and unbounded numbers."""
        if not ctx.resilient_parsing:  # not while a line is being typed
            self._refuse_second_values(ctx, args)
        rest: list[str] = super().parse_args(ctx, args)
        parameter: Any
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise typer.BadParameter(f"{value} is not a finite number", ctx=ctx, param=parameter)
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise typer.BadParameter(f"{value} is not between -2**63 and 2**63", ctx=ctx, param=parameter)
        return rest

    def _refuse_second_values(self, ctx: Any, args: list[str]) -> None:
        collecting = copy(self)
        collecting.params = [copy(each) for each in self.params]
        for parameter in collecting.params:
            if parameter.param_type_name == "option":
                cast(Any, parameter).multiple = True
        found, _, _ = collecting.make_parser(ctx).parse_args(list(args))
        for option in self.params:
            values = dict.fromkeys(found.get(option.name) or () if option.param_type_name == "option" else ())
            if len(values) > 1 and not cast(Any, option).multiple:
                raise typer.BadParameter(_said_twice(option, values), ctx=ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel that has options."""
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in _PANELS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                rest = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or rest, []).append(record)
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)
