"""Evaluations of items by a model, or by an external one: strings are written, and surprisals read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pdtools.search.options import AUTO

from .console import message, print_json
from .evaluating import Evaluating
from .options import ContextOptions, ExternalOptions, RunOptions
from .outputs import check_json_output, check_target, required_output
from .running import model_settings, read_context

if TYPE_CHECKING:
    from pdtools.evaluation.benchmark.item_set import ItemSet
    from pdtools.evaluation.results import Results
    from pdtools.search.model import Model


def write_for_others(
    options: ExternalOptions, run: RunOptions, inputs: dict[str, str], read: Callable[[], ItemSet]
) -> None:
    """Write the strings of items that are read from ``inputs``, for ``--write-sentences``."""
    from pdtools.evaluation.external.sentence_files import write_sentences
    from pdtools.provenance import provenance

    assert options.write_sentences is not None
    output = options.write_sentences
    check_json_output(run.as_json, output)
    check_target(output, folder=False, overwrite=run.overwrite, inputs=[*inputs.values()])
    number = write_sentences(read(), output, text_only=options.text_only, overwrite=run.overwrite)
    if run.as_json:
        print_json({"counts": {"sentences": number}, "provenance": provenance(inputs)})
    message(f"{number} sentences written", quiet=run.quiet)


def recorded_model(options: ExternalOptions, items: ItemSet, text_style: str | None = None) -> Model:
    """The recorded surprisals of ``--surprisals``; messages call strings by their places."""
    from pdtools.evaluation.external.recorded import RecordedSurprisals
    from pdtools.evaluation.external.sentence_files import place_names
    from pdtools.search.model import Model

    assert options.surprisals is not None
    recorded = RecordedSurprisals(
        options.surprisals,
        place_names(items),
        unit="nats" if options.nats else "bits",
        text_style=text_style,
        on_error=options.on_error.value,
    )
    return Model(family=recorded)


def evaluate_strings(
    read: Callable[[], ItemSet],
    inputs: Mapping[str, str | None],
    run: RunOptions,
    external: ExternalOptions,
    reading: ContextOptions,
    model: str | None,
    output: str | None,
    *,
    text_style: str | None = None,
    published: Callable[[ItemSet], Results] | None = None,
    details: bool,
    latex: bool,
) -> None:
    """Score items with a model or with external surprisals, or write their strings.

    Args:
        read: reads the items.
        inputs: the files that they are read from, by their roles.
        text_style: the style of external surprisals, and of the strings that are written.
        published: judges the items by scores that are given, instead of both.
    """
    if external.write_sentences is not None:
        given = {role: path for role, path in inputs.items() if path is not None}
        write_for_others(external, run, given, lambda: read().written(text_style))
        return

    from pdtools.evaluation.benchmark.evaluate import evaluate_items

    evaluating = Evaluating.begin(
        required_output(output),
        run,
        {**inputs, "model": model, "trees": run.trees, "surprisals": external.surprisals},
        also=[reading.preceding],
        latex=latex,
    )
    preceding = read_context(reading, documents=False)
    items = read()
    if model is not None:
        settings = model_settings(evaluating.plan, model, run, context=preceding)
        with evaluating.model(settings, compares=True) as asked:
            progress = evaluating.bar("items" if run.beam == AUTO else "strings")
            results = evaluate_items(items, asked, progress)
            evaluating.deliver(results, details=details)
    else:
        if published is not None:
            results = published(items)
        else:
            recorded = recorded_model(external, items, text_style)
            results = evaluate_items(items, recorded, evaluating.bar("strings"))
        evaluating.deliver(results, details=details)
    for note in results.settings.get("notes", ()):
        evaluating.say(note)
    if excluded := results.counts["items_unscorable"]:
        evaluating.say(f"{excluded} items could not be scored (items.parquet says why)")
    for what, about in _ODD.items():
        if number := results.counts.get(what):
            evaluating.say(f"{number} items {about}")
    if unknown := results.counts["strings_with_unknown_words"]:
        evaluating.say(f"{unknown} strings have words that the model reads as <unk>")


_ODD = {"identical": "have strings that are all the same", "repeated": "repeat earlier ones"}
