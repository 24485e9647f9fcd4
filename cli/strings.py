"""Evaluations of items by a model, or by an external one: strings are written, and surprisals read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

import typer

from pdtools.files.tables import check_table_name
from pdtools.search.options import AUTO

from .console import bar, message, print_json
from .evaluating import Evaluating
from .options import ContextOptions, ResultOptions, RunOptions, StringOptions
from .outputs import check_json_output, check_target, required_output
from .running import model_settings, read_context

if TYPE_CHECKING:
    from pdtools.evaluation.benchmark.item_set import ItemSet
    from pdtools.evaluation.results import Results
    from pdtools.search.model import Model


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
        message(f"{excluded} items could not be scored (items.parquet says why)")
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
