"""The run of an evaluation by its command, and what evaluations of strings share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer

from pdtools.files import STDIO
from pdtools.files.tables import check_table_name
from pdtools.search.options import AUTO

from .console import bar, message, print_json, warn
from .options import ContextOptions, ResultOptions, RunOptions, StringOptions
from .running import (
    Output,
    check_form,
    check_json_output,
    check_target,
    model_settings,
    read_context,
    required_output,
)

if TYPE_CHECKING:
    from pdtools.evaluation.benchmark.item_set import ItemSet
    from pdtools.evaluation.results import Results
    from pdtools.files import Rejects
    from pdtools.search.model import Model


@dataclass(frozen=True, kw_only=True)
class Evaluating(Output):
    """One run of an evaluation.

    :meth:`begin` it, work within :meth:`chunks` or :meth:`model`, and there :meth:`deliver` its results.

    Attributes:
        output: the folder of results; None: they are only printed.
        inputs: the inputs, by their roles in the provenance.
        latex: whether tables are for LaTeX.
    """

    output: str | None
    inputs: dict[str, str]
    latex: bool

    @classmethod
    def begin(
        cls,
        output: str | None,
        options: ResultOptions,
        inputs: Mapping[str, str | None],
        *,
        also: Sequence[str | None] = (),
        beside: Sequence[str | None] = (),
        latex: bool = False,
    ) -> Evaluating:
        """Refuse, before the work, outputs that could not be written after it.

        Args:
            inputs: None for an input that is not given.
            also: further inputs that the provenance does not name.
            output, options, beside, latex: see the classes.

        Raises:
            Done: with --resume, if the output exists.
            PdtoolsError, typer.BadParameter: see :meth:`Output.check`, :func:`check_form`, and
                :func:`pdtools.evaluation.record.evaluations`.
        """
        from pdtools.evaluation.record import evaluations

        evaluations()
        check_form(as_json=options.as_json, latex=latex)
        others = [path for path in beside if path is not None]
        read = [*inputs.values(), *also]
        checked = Output.check(output or STDIO, options, folder=True, inputs=read, beside=others)
        given = {role: path for role, path in inputs.items() if path is not None}
        return cls(**vars(checked), output=output, inputs=given, latex=latex)

    def deliver(
        self,
        results: Results,
        *,
        show: Callable[[Results], None] | None = None,
        inputs: Mapping[str, str] | None = None,
        rejects: Rejects | None = None,
        **shown: Any,
    ) -> None:
        """Write the results, if a folder is given, and print them.

        Args:
            show: prints them; None: the printer that the evaluation's record names.
            inputs: the inputs, if they differ from those given to :meth:`begin`.
            rejects: the excluded inputs.
            shown: further arguments of the record's printer.
        """
        from pdtools.evaluation.results import write_results
        from pdtools.provenance import provenance
        from pdtools.report.tables import latex_tables

        made = provenance(self.inputs if inputs is None else dict(inputs))
        if self.output:
            overwrite = self.options.overwrite
            write_results(self.output, results, made, rejects=rejects, overwrite=overwrite)
        warn(results.settings)
        if self.options.as_json:
            print_json(results.document(made))
            return
        if show is None:
            assert results.evaluation is not None
            module, _, name = results.evaluation.printer.partition(":")
            show = partial(getattr(import_module(module), name), **shown)
        with latex_tables(self.latex):
            show(results)


_OF_MODEL = {field.name for block in (RunOptions, ContextOptions) for field in fields(block)}
_OF_MODEL -= {field.name for field in fields(ResultOptions)}
_OF_FILES = {
    "nats": ("--surprisals",),
    "on_error": ("--surprisals",),
    "text_style": ("--write-sentences", "--surprisals"),
    "output": ("--model", "--surprisals", "--scores", "--from-items"),
    "latex": ("--model", "--surprisals", "--scores", "--from-items"),
    "details": ("--model", "--surprisals", "--scores"),
}


def pick_source(context: typer.Context, asked: StringOptions, others: Mapping[str, object] = {}) -> None:
    """Require one source of scores, and no option of another.

    Args:
        context: the command's context.
        others: further sources than those of ``asked``: options and their values, None or False if not given.

    Raises:
        typer.BadParameter: unless there is exactly one, and for an option that does not go with it.
    """
    sources = {
        "--model": asked.model,
        "--surprisals": asked.surprisals,
        "--write-sentences": asked.write_sentences,
        **others,
    }
    chosen = [name for name, value in sources.items() if value not in (None, False)]
    if len(chosen) != 1:
        raise typer.BadParameter(f"give exactly one of {', '.join(sources)}")
    for parameter in context.command.params:
        name = str(parameter.name)
        goes_with = ("--model",) if name in _OF_MODEL else _OF_FILES.get(name, sources)
        given = context.get_parameter_source(name)
        if chosen[0] not in goes_with and given is not None and given.name == "COMMANDLINE":
            raise typer.BadParameter(f"{parameter.opts[0]} does not go with {chosen[0]}")


def evaluate_strings(
    read: Callable[[], ItemSet],
    inputs: Mapping[str, str | None],
    asked: StringOptions,
    *,
    text_style: str | None = None,
    published: Callable[[ItemSet], Results] | None = None,
) -> None:
    """Score items with a model or with external surprisals, or write their strings.

    Args:
        read: reads the items.
        inputs: the files that they are read from, by their roles; None: one that is not given.
        text_style: the style of external surprisals, and of the strings that are written.
        published: judges the items by scores that are given, instead of both.
    """
    if asked.write_sentences is not None:
        given = {role: path for role, path in inputs.items() if path is not None}
        _write(read, given, asked.write_sentences, asked, text_style)
        return

    from pdtools.evaluation.benchmark.evaluate import evaluate_items

    evaluating = Evaluating.begin(
        required_output(asked.output),
        asked,
        {**inputs, "model": asked.model, "trees": asked.trees, "surprisals": asked.surprisals},
        also=[asked.preceding],
        latex=asked.latex,
    )
    preceding = read_context(asked, documents=False)
    items = read()
    if asked.model is not None:
        settings = model_settings(evaluating.plan, asked.model, asked, context=preceding)
        with evaluating.model(settings, compares=True) as model:
            results = evaluate_items(items, model, bar("items" if asked.beam == AUTO else "strings"))
            evaluating.deliver(results, details=asked.details)
    else:
        if published is not None:
            results = published(items)
        else:
            results = evaluate_items(items, _recorded(asked, items, text_style), bar("strings"))
        evaluating.deliver(results, details=asked.details)
    for note in results.settings.get("notes", ()):
        message(note)
    if excluded := results.counts["items_unscorable"]:
        from pyarrow.compute import field

        reason = results.table("items").filter(field("prediction") == 1)["reason"].drop_null()[0]
        message(f"{excluded} items could not be scored (items.parquet says why; the first: {reason})")
    for what, about in _ODD.items():
        if number := results.counts.get(what):
            message(f"{number} items {about}")
    if unknown := results.counts["strings_with_unknown_words"]:
        message(f"{unknown} strings have words that the model reads as <unk>")


def _write(
    read: Callable[[], ItemSet],
    inputs: dict[str, str],
    output: str,
    options: ResultOptions,
    text_style: str | None,
) -> None:
    """Write the strings of items that are read from ``inputs``."""
    from pdtools.evaluation.external.sentence_files import write_sentences
    from pdtools.provenance import provenance

    check_json_output(options.as_json, output)
    check_table_name(output)
    check_target(output, folder=False, overwrite=options.overwrite, inputs=[*inputs.values()])
    number = write_sentences(read().written(text_style), output, overwrite=options.overwrite)
    if options.as_json:
        print_json({"counts": {"sentences": number}, "provenance": provenance(inputs)})
    message(f"{number} sentences written")


def _recorded(asked: StringOptions, items: ItemSet, text_style: str | None) -> Model:
    """The recorded surprisals of ``--surprisals``; messages call strings by their places."""
    from pdtools.evaluation.external.recorded import RecordedSurprisals
    from pdtools.evaluation.external.sentence_files import place_names
    from pdtools.search.model import Model

    recorded = RecordedSurprisals(
        str(asked.surprisals),
        place_names(items),
        unit="nats" if asked.nats else "bits",
        text_style=text_style,
        on_error=asked.on_error,
    )
    return Model(family=recorded)


_ODD = {"identical": "have strings that are all the same", "repeated": "repeat earlier ones"}
