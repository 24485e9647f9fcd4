"""``pdtools surprisal`` on a table of stimuli."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import typer

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects, expand_inputs, rejects_path, write_rejects
from pdtools.files.names import ending
from pdtools.files.sheets import SHEETS, read_sheet
from pdtools.files.tables import check_table_name

from .arguments import check_frequencies, named_columns, read_frequencies
from .console import message, print_json, progress, warn
from .options import ContextOptions, OnError, RunOptions, SentenceForm
from .running import Output, model_settings, read_context


def sheet_of(inputs: Sequence[str] | None, source: SentenceForm) -> str | None:
    """The table among the inputs, recognized by the ending of its name; None: there is none.

    Raises:
        InputError: if there are several.
    """
    if source not in (SentenceForm.text, SentenceForm.tokens) or not any(
        ending(name) in SHEETS for name in inputs or ()
    ):
        return None
    first, *others = expand_inputs(inputs or (), SHEETS)
    if others:
        raise InputError("a table of stimuli is read by itself", file=first, hint=f"leave out {others[0]}")
    return first


def surprisal_of_table(
    file: str,
    model: Sequence[str],
    run: RunOptions,
    reading: ContextOptions,
    output: str,
    *,
    source: SentenceForm,
    nats: bool,
    words: bool,
    entropy: bool,
    rank: bool,
    parses: bool,
    columns: Sequence[str] | None,
    glue: str | None,
    frequencies: str | None,
    wordfreq: str | None,
    correct_spaces: bool,
    on_error: OnError,
) -> None:
    """Score the sentences of a table with models, and write its rows with their surprisals."""
    from pdtools.search.scores import Measure
    from pdtools.stimuli.columns import TABLES, make_table, new_columns, write
    from pdtools.stimuli.surprisals import Surprisals, named_models, score_parts
    from pdtools.stimuli.table import read_stimuli

    if rank:
        raise typer.BadParameter("--rank is the rank of a token: it cannot be combined with a table")
    if run.trees is not None:
        raise PdtoolsError("--trees belong to lines of text: they cannot be combined with a table")
    if not words and (frequencies or wordfreq):
        raise typer.BadParameter("frequencies are given for words: add --words")
    check_frequencies(frequencies, wordfreq)
    check_table_name(output, TABLES)
    read = [file, *model, frequencies, reading.preceding]
    beside = [str(path)] if (path := rejects_path(output)) else []
    table = Output.check(output, run, folder=False, inputs=read, beside=beside)
    stimuli = read_stimuli(
        read_sheet(file), named_columns(columns), words=words, glue=" " if glue is None else glue
    )
    frequency = read_frequencies(frequencies, wordfreq)
    new_columns(stimuli, frequency=frequency is not None, parses=parses)
    for note in (stimuli.form, *stimuli.notes):
        message(f"{file}: {note}", quiet=run.quiet)

    context = read_context(reading, documents=stimuli.documents is not None)
    measures: tuple[Measure, ...] = ("entropy",) if entropy else ("structure",)
    measures = (*measures, "spaces") if correct_spaces else measures
    models = named_models(
        [
            model_settings(table.plan, each, run, context=context, measures=measures)
            for each in dict.fromkeys(model)
        ],
        [],
    )
    rejects = Rejects(on_error.value)
    spaced: Literal["text", "tokens"] = "tokens" if source is SentenceForm.tokens else "text"
    made = {each.name: Surprisals(stimuli, spaced, "nats" if nats else "bits", rejects) for each in models}
    found, settings = list(made.values()), dict[int, dict[str, object]]()
    described = [each.settings.for_job() for each in models]
    with table.chunks("stimuli", models=described, parses=parses) as job:
        scores = score_parts(
            models,
            lambda number, scorer: found[number].parts(context, scorer),
            settings,
            plan=table.plan,
            job=job,
            parses=parses,
        )
        for number, place, score in progress(scores, total=None, label="sentences", quiet=run.quiet):
            found[number].add(place, score)
        rows = make_table(stimuli, made, frequency=frequency)
        n_breaks = write(rows, output)
        stimuli.exclude_empty(rejects)
        write_rejects(output, rejects)
    for scorer in settings.values():
        warn(scorer)
    for name, own in made.items():
        if correct_spaces and not own.corrects_spaces:
            message(f"{name}: not corrected for spaces, which its model cannot", quiet=run.quiet)
    crossing = sum(each.n_crossing for each in found)
    if run.as_json:
        from pdtools.provenance import provenance

        print_json(
            {
                "counts": {"sentences": len(stimuli.texts), "rows": len(rows.rows), "crossing": crossing},
                "rejects": rejects.by_reason(),
                "settings": {
                    "models": {each.name: settings[i] for i, each in enumerate(models)},
                    "unit": "nats" if nats else "bits",
                    "rows": "words" if words else "regions",
                    "table": stimuli.form,
                    "notes": list(stimuli.notes),
                },
                "provenance": provenance({"table": file, **{each: each for each in model}}),
            }
        )
    if crossing:
        what = "word" if words else "region"
        message(
            f"{crossing} tokens reach over the end of a {what}: they count where they begin", quiet=run.quiet
        )
    if n_breaks:
        said = f"{n_breaks} cells with a line break, which TSV lacks: a blank stands for it"
        message(f"{output}: {said}", quiet=run.quiet)
    for record in rejects:
        message(f"{record['file']}:{record['line']}: no score: {record['reason']}", quiet=run.quiet)
