"""``pdtools surprisal``: surprisal of every token or word, of text or of a table of stimuli."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import typer

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import STDIO, Rejects, expand_inputs, rejects_path, write_rejects
from pdtools.files.packed import ending
from pdtools.files.tables import SHEETS, check_table_name, read_sheet

from .console import message, print_json, progress, warn
from .options import (
    ContextOptions,
    ModelNames,
    OnError,
    RunOptions,
    SentenceForm,
    check_frequencies,
    command,
    named_columns,
    read_frequencies,
    sentence_files,
)
from .running import Output, check_json_output, model_settings, read_context


@dataclass(frozen=True, kw_only=True)
class SurprisalOptions(RunOptions, ContextOptions):
    """Options for surprisals, and for the rows of which they are columns.

    Input:
        slopes (DIR): Tables: add milliseconds, by results on reading times.
        column (NAME=COLUMN): Tables: the column of sentence (or A,B), item, condition, list, region, number,
            text or word.
        glue: Tables: text between regions or words (default: a space).

    Search:
        parses: Add the best incremental parse after each token.

    Output:
        output (-o): A TSV file, or .csv; for tables .parquet too; or -.

    Options:
        nats: Print nats instead of bits.
        words: Print a row per word instead of per token.
        entropy: Add the entropy of the distribution of next tokens.
        rank: Add the token's rank in that distribution, from 1.
    """

    model: ModelNames
    output: str = STDIO
    source: SentenceForm = "text"
    nats: bool = False
    words: bool = False
    entropy: bool = False
    rank: bool = False
    parses: bool = False
    column: list[str] | None = None
    glue: str | None = None
    slopes: str | None = None
    frequencies: str | None = None
    wordfreq: str | None = None
    correct_spaces: bool = False
    on_error: OnError = "fail"


@command("Print the surprisal of every token or word.")
def surprisal(
    asked: SurprisalOptions, inputs: list[str] | None = None, text: list[str] | None = None
) -> None:
    """Print the surprisal of every token or word, or of every region of a table of stimuli, in bits.

    \b
    Example:
      pdtools surprisal --text "The dog barks." --model english --words
          sentence_id  word_id  word    start  end  surprisal
          1            1        The     0      3    3.89270623
          1            2        dog     4      7    9.51035304
          1            3        barks.  8      14   28.84523907
          1            4        <eos>   14     14   0.21460757
      pdtools surprisal stimuli.csv --model english --model hf:gpt2 -o surprisals.csv
      pdtools surprisal story.txt --model hf:gpt2 --stride 256 --entropy --rank

    A table of stimuli (.csv, .tsv, .xlsx, .parquet) has a row for each sentence (column sentence, with |
    between regions), for each region (item, condition, region, text), or for each word (word). The output has
    its columns and, for each model, a row for each region with its surprisal. With --words, rows are words,
    with the surprisal, length and frequency of the two words before them.

    Lines of text give a row for each token, or for each word. Models that predict the end of a sentence have
    a row for it.
    """
    check_json_output(asked.as_json, asked.output)
    table = None if text else _sheet_of(inputs, asked.source)
    if table is not None:
        _surprisal_of_table(table, asked)
    else:
        _surprisal_of_lines(inputs, text, asked)


def _surprisal_of_lines(inputs: list[str] | None, text: list[str] | None, asked: SurprisalOptions) -> None:
    """Score sentences, and write a row for each token or word."""
    one_model, *others = dict.fromkeys(asked.model)
    if others:
        *first, last = asked.model
        given = f"{', '.join(first)} and {last} are given"
        raise typer.BadParameter(f"--model takes one value: {given} (several go with a table of stimuli)")
    of_tables = {
        "column": asked.column,
        "glue": asked.glue,
        "slopes": asked.slopes,
        "frequencies": asked.frequencies,
        "wordfreq": asked.wordfreq,
    }
    for name, value in {**of_tables, "correct-spaces": asked.correct_spaces or None}.items():
        if value is not None:
            raise typer.BadParameter(f"--{name} goes with a table of stimuli (.csv, .tsv, .xlsx, .parquet)")
    if asked.rank and asked.words:
        raise typer.BadParameter("--rank is the rank of a token: it cannot be combined with --words")
    if asked.parses and (asked.entropy or asked.rank):
        raise typer.BadParameter("--parses cannot be combined with --entropy or --rank: use another run")
    if asked.parses and asked.trees is not None:
        raise PdtoolsError("--parses cannot be combined with --trees")

    from pdtools.search.contexts import with_documents
    from pdtools.search.inputs import count_inputs, read_inputs
    from pdtools.search.options import DOCUMENT
    from pdtools.search.scores import Measure
    from pdtools.search.surprisal import Unit, columns, surprisals, write_surprisals

    files = sentence_files(inputs, text, asked.source)
    read = [*files, one_model, asked.trees, asked.preceding]
    beside = [str(rejects_path(asked.output) or STDIO)]
    table = Output.check(asked.output, asked, folder=False, inputs=read, beside=beside)
    check_table_name(asked.output)
    context = read_context(asked, documents=True)
    measures: tuple[Measure, ...] = (
        *(("entropy",) if asked.entropy else ()),
        *(("rank",) if asked.rank else ()),
    )
    settings = model_settings(
        table.plan, one_model, asked, context=context, measures=measures, parses=asked.parses
    )
    rejects = Rejects(asked.on_error)
    unit: Unit = "nats" if asked.nats else "bits"
    with table.model(settings) as model:
        lines = read_inputs(files, asked.source, model.settings["text_style"])
        if context.of == DOCUMENT:
            lines = with_documents(lines, model.settings["window"])
        results = surprisals(
            lines,
            model,
            rejects=rejects,
            unit=unit,
            words=asked.words,
            parses=asked.parses,
            documents=context.stride is not None,
        )
        results = progress(results, total=lambda: count_inputs(files, asked.source), label="sentences")
        of_rows = columns(
            words=asked.words, parses=asked.parses, seen=context.is_asked_for, measures=measures
        )
        counts = write_surprisals(results, asked.output, rejects=rejects, of_rows=of_rows)
    warn(model.settings)
    if asked.as_json:
        from pdtools.provenance import provenance

        rows = "tokens" if not asked.words else "text words" if asked.source == "text" else "words"
        print_json(
            {
                "counts": asdict(counts),
                "rejects": rejects.by_reason(),
                "settings": {**model.settings, "unit": unit, "rows": rows},
                "provenance": provenance(
                    {"model": one_model, **asked.trees_read, **{name: name for name in inputs or []}}
                ),
            }
        )
    message(f"{counts.scored} of {counts.sentences} sentences scored, surprisal in {unit}")
    for record in rejects:
        message(f"{record['file']}:{record['line']}: no score: {record['reason']}")


def _sheet_of(inputs: Sequence[str] | None, source: SentenceForm) -> str | None:
    """The table among the inputs, recognized by the ending of its name; None: there is none.

    Raises:
        InputError: if there are several.
    """
    if source not in ("text", "tokens") or not any(ending(name) in SHEETS for name in inputs or ()):
        return None
    first, *others = expand_inputs(inputs or (), SHEETS)
    if others:
        raise InputError("a table of stimuli is read by itself", file=first, hint=f"leave out {others[0]}")
    return first


def _surprisal_of_table(file: str, asked: SurprisalOptions) -> None:
    """Score the sentences of a table with models, and write its rows with their surprisals."""
    from pdtools.evaluation.reading.slopes import read_slopes
    from pdtools.search.scores import Measure
    from pdtools.stimuli.columns import PREDICTED, TABLES, make_table, new_columns, write
    from pdtools.stimuli.surprisals import Surprisals, named_models, score_parts
    from pdtools.stimuli.table import read_stimuli

    if asked.rank:
        raise typer.BadParameter("--rank is the rank of a token: it cannot be combined with a table")
    if asked.trees is not None:
        raise PdtoolsError("--trees belong to lines of text: they cannot be combined with a table")
    if not asked.words and (asked.frequencies or asked.wordfreq):
        raise typer.BadParameter("frequencies are given for words: add --words")
    check_frequencies(asked.frequencies, asked.wordfreq)
    check_table_name(asked.output, TABLES)
    read = [file, *asked.model, asked.frequencies, asked.preceding, asked.slopes]
    beside = [str(path)] if (path := rejects_path(asked.output)) else []
    table = Output.check(asked.output, asked, folder=False, inputs=read, beside=beside)
    stimuli = read_stimuli(
        read_sheet(file),
        named_columns(asked.column),
        words=asked.words,
        glue=" " if asked.glue is None else asked.glue,
    )
    frequency = read_frequencies(asked.frequencies, asked.wordfreq)
    new_columns(
        stimuli,
        frequency=frequency is not None,
        parses=asked.parses,
        slopes=asked.slopes is not None,
        nats=asked.nats,
    )
    for note in (stimuli.form, *stimuli.notes):
        message(f"{file}: {note}")

    context = read_context(asked, documents=stimuli.documents is not None)
    measures: tuple[Measure, ...] = ("entropy",) if asked.entropy else ("structure",)
    measures = (*measures, "spaces") if asked.correct_spaces else measures
    models = named_models(
        [
            model_settings(table.plan, each, asked, context=context, measures=measures)
            for each in dict.fromkeys(asked.model)
        ],
        [],
    )
    slopes = None
    if asked.slopes is not None:
        slopes = read_slopes(asked.slopes, {each.name: each.settings for each in models})
    rejects = Rejects(asked.on_error)
    spaced: Literal["text", "tokens"] = "tokens" if asked.source == "tokens" else "text"
    made = {
        each.name: Surprisals(stimuli, spaced, "nats" if asked.nats else "bits", rejects) for each in models
    }
    found, settings = list(made.values()), dict[int, dict[str, object]]()
    described = [each.settings.for_job() for each in models]
    with table.chunks("stimuli", models=described, parses=asked.parses) as job:
        scores = score_parts(
            models,
            lambda number, about: found[number].parts(context, about),
            settings,
            plan=table.plan,
            job=job,
            parses=asked.parses,
        )
        for number, place, score in progress(scores, total=None, label="sentences"):
            found[number].add(place, score)
        rows = make_table(
            stimuli,
            made,
            frequency=frequency,
            slopes=None
            if slopes is None
            else {name: (each.value, each.low, each.high) for name, each in slopes.items()},
        )
        n_breaks = write(rows, asked.output)
        stimuli.exclude_empty(rejects)
        write_rejects(asked.output, rejects)
    warn(*settings.values())
    for name, own in made.items():
        if asked.correct_spaces and not own.corrects_spaces:
            message(f"{name}: not corrected for spaces, which its model cannot")
    for number, (name, slope) in enumerate((slopes or {}).items()):
        message(f"ms, {name}: {slope.said}")
        here = {**settings[number], "spaces_corrected": made[name].corrects_spaces}
        if others := slope.differences(here):
            message(f"ms, {name}: the slope is of other surprisals: {'; '.join(others)}")
    if slopes is not None:
        message(PREDICTED)
    crossing = sum(each.n_crossing for each in found)
    if asked.as_json:
        from pdtools.provenance import provenance

        optional = {"slopes": asked.slopes, "frequencies": asked.frequencies}
        files = {role: each for role, each in optional.items() if each is not None}
        print_json(
            {
                "counts": {"sentences": len(stimuli.texts), "rows": len(rows.rows), "crossing": crossing},
                "rejects": rejects.by_reason(),
                "settings": {
                    "models": {each.name: settings[i] for i, each in enumerate(models)},
                    "unit": "nats" if asked.nats else "bits",
                    "rows": "words" if asked.words else "regions",
                    "table": stimuli.form,
                    "notes": list(stimuli.notes),
                    **({} if slopes is None else {"slopes": {n: asdict(each) for n, each in slopes.items()}}),
                },
                "provenance": provenance({"table": file, **{each: each for each in asked.model}, **files}),
            }
        )
    if crossing:
        what = "word" if asked.words else "region"
        message(f"{crossing} tokens reach over the end of a {what}: they count where they begin")
    if n_breaks:
        said = f"{n_breaks} cells with a line break, which TSV lacks: a blank stands for it"
        message(f"{asked.output}: {said}")
    for record in rejects:
        message(f"{record['file']}:{record['line']}: no score: {record['reason']}")
