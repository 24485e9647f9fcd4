"""``pdtools eval-reading``: how well do models' surprisals predict reading times?"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pdtools.errors import PdtoolsError
from pdtools.files.tables import check_table_name
from pdtools.provenance.hub import name_of_snapshot

from .console import bar, message, warn
from .evaluating import Evaluating
from .options import (
    ContextOptions,
    ModelNames,
    Natural,
    RunOptions,
    check_frequencies,
    command,
    named_columns,
    read_frequencies,
)
from .running import model_settings, read_context

if TYPE_CHECKING:
    import pyarrow as pa


TimesFormat = Literal["tidy", "natural-stories", "provo", "sap"]


class PredictorName(str, Enum):
    """A model's predictors of a word's reading time."""

    surprisal = "surprisal"
    entropy = "entropy"
    attachment = "attachment"
    closed = "closed"


@command("Regress reading times on surprisals.")
def eval_reading(
    times: str,
    run: RunOptions,
    reading: ContextOptions,
    model: ModelNames | None = None,
    output: str | None = None,
    table: str | None = None,
    format: TimesFormat | None = None,
    column: list[str] | None = None,
    fit: str | None = None,
    predict: list[str] | None = None,
    texts: str | None = None,
    frequencies: str | None = None,
    wordfreq: str | None = None,
    predictor: list[PredictorName] | None = None,
    correct_spaces: bool = False,
    beams: str | None = None,
    spillover: Annotated[int, typer.Option(min=0, max=20)] = 2,
    edges: bool = False,
    least: Annotated[float, typer.Option(min=0)] = 100,
    most: Annotated[float, typer.Option(min=0)] = 3000,
    folds: Annotated[int, typer.Option(min=2)] = 10,
    samples: Annotated[int, typer.Option(min=100)] = 10_000,
    seed: Natural = 0,
) -> None:
    """Regress reading times on surprisals: which model predicts them, and how many milliseconds is a bit?

    \b
    Example:
      pdtools eval-reading times.tsv --model runs/base --model hf:gpt2 --wordfreq en -o results/rt
      pdtools eval-reading processed_RTs.tsv --texts all_stories.tok --model hf:gpt2 --stride 512
      pdtools eval-reading sap.csv --model hf:gpt2 --fit filler --predict NPS_AMB,NPS_UAMB

    TIMES has a row for each word and subject: item, word_number, word, subject, time (milliseconds) and,
    optionally, sentence. Without subjects, times are means. Tables of Natural Stories, Provo and SAP are
    recognized; of others, name the columns with --column.

    Mean times are regressed on length and log frequency of a word and those before it. Each model adds its
    predictors. Its result is the gain in log-likelihood on held-out items. --predict compares the effect that
    people show in a contrast with the one that each model predicts.

    Arguments:
        times (TIMES): A table with a row per subject and word (TSV or .csv).

    Input:
        format: The corpus of TIMES (default: recognized by its header).
        column (NAME=COLUMN): The column of item, word, time, subject, ...; A+B: two together.
        texts (FILE): A table of the items' words, if some have no row in TIMES.

    Search:
        beams (N,N,…): Run every model that needs a search with each of these beams.

    Output:
        table (FILE): Also write the observations as .csv or .tsv, for R.

    Options:
        fit (CONDITION,…): Fit only these conditions (fillers), or rows: list=train.
        predict (A,B): --fit: predict the effect of condition A over B; repeatable.
        predictor: What predicts times; repeatable (default: surprisal).
        spillover: Words before a word that also predict its time.
        edges: Keep first and last words of sentences.
        least (--min-time): Exclude times below this many milliseconds.
        most (--max-time): Exclude times above this many milliseconds.
        folds: Cross-validation folds, of whole items.
        samples: Bootstrap and permutation samples.
    """
    from pdtools.evaluation.reading.times import read_times

    check_frequencies(frequencies, wordfreq)
    names = named_columns(column)
    model = model or []
    if not model and "surprisal" not in names:
        raise typer.BadParameter("give --model, or --column surprisal=COLUMN")
    if predict and fit is None:
        raise PdtoolsError(
            "--predict needs --fit: the conditions that the regression is fitted to, such as fillers"
        )
    if table is not None and run.shard is not None:
        raise PdtoolsError(
            "--table cannot be combined with --shard: observations.parquet has the same content"
        )
    read = {
        "times": times,
        "texts": texts,
        "frequencies": frequencies,
        "trees": run.trees,
        **{f"model {name_of_snapshot(each) or each}" if len(model) > 1 else "model": each for each in model},
    }
    evaluating = Evaluating.begin(output, run, read, also=[reading.preceding], beside=[table])
    if table is not None:
        check_table_name(table)
    frequency = read_frequencies(frequencies, wordfreq)
    found = read_times(times, format=format, columns=names, texts=texts)
    for note in found.notes:
        message(note)

    # These import torch, which takes seconds: only for readable input.
    from pdtools.evaluation.reading.effects import ConditionPair
    from pdtools.evaluation.reading.evaluate import Regression, evaluate_reading
    from pdtools.evaluation.reading.scoring import external_words, measures_of, score_words
    from pdtools.stimuli.surprisals import named_models

    context = read_context(reading, documents=True)
    regression = Regression(
        predictors=tuple(dict.fromkeys(each.value for each in predictor or [PredictorName.surprisal])),
        spillover=spillover,
        edges=edges,
        least=least,
        most=most,
        folds=folds,
        seed=seed,
        samples=samples,
        fit=fit,
        predict=tuple(map(ConditionPair.read, predict or ())),
    )
    measures = measures_of(regression.predictors, correct_spaces)
    models = named_models(
        [model_settings(evaluating.plan, each, run, context=context, measures=measures) for each in model],
        _beams(beams),
    )
    described = [each.settings.for_job() for each in models]
    with evaluating.chunks("reading times", models=described) as job:
        scored = score_words(
            found.texts,
            models,
            spaces=correct_spaces,
            plan=evaluating.plan,
            job=job,
            progress=bar("sentences"),
        )
        scored += external_words(found)
        results = evaluate_reading(found, scored, frequency=frequency, regression=regression)
        results.settings["frequency"] = frequencies or (wordfreq and f"wordfreq {wordfreq}")
        if table is not None:
            _write(table, results.table("observations"))
        evaluating.deliver(results)
    warn(*(each.settings for each in scored))
    if correct_spaces:
        for each in scored:
            if not each.corrects_spaces:
                message(f"{each.name}: not corrected for spaces, which its model cannot")
    if found.columns.subject is None:
        message("no column of subjects: times are taken for means over subjects")
    if frequency is None:
        message("no --frequencies, no --wordfreq: the baseline has length alone")


def _beams(text: str | None) -> list[int]:
    if text is None:
        return []
    numbers = text.split(",")
    if not all(number.isdecimal() and 0 < int(number) < 10**9 for number in numbers):
        raise typer.BadParameter(f"--beams {text}: numbers from 1 on, such as 1,10,100")
    return sorted({int(number) for number in numbers})


def _write(path: str, observations: pa.Table) -> None:
    from pdtools.files.tables import atomic_table

    with atomic_table(path, observations.column_names) as write:
        for batch in observations.to_batches(max_chunksize=1 << 14):
            for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                write(cells)
