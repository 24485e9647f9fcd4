"""``pdtools eval-benchmark``: any benchmark of strings, by its file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .arguments import pick_source
from .console import message
from .eval_sg import score_suites
from .options import (
    COMPARING,
    ContextOptions,
    DetailsOption,
    EvaluatedModelOption,
    ExternalOptions,
    LatexOption,
    ResultsFolderOption,
    RunOptions,
    option_blocks,
)
from .strings import evaluate_strings

if TYPE_CHECKING:
    from pdtools.evaluation.benchmark.items import Items


@option_blocks(without=("stride",), said=COMPARING)
def eval_benchmark(
    context: typer.Context,
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="The benchmark's folder, a zip of it, or one of its files.")
    ],
    run: RunOptions,
    external: ExternalOptions,
    reading: ContextOptions,
    name: Annotated[
        str | None,
        typer.Option(
            "--as",
            rich_help_panel="Input",
            metavar="NAME|FILE.toml",
            help="The benchmark: one of pdtools benchmarks list, or a file of your own.",
        ),
    ] = None,
    good: Annotated[
        str | None,
        typer.Option(
            "--good",
            rich_help_panel="Input",
            metavar="COLUMN",
            help="Instead of --as: minimal pairs, with the better sentence in this column.",
        ),
    ] = None,
    bad: Annotated[
        str | None,
        typer.Option(
            "--bad", rich_help_panel="Input", metavar="COLUMN", help="The column of the other sentence."
        ),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(
            "--level",
            rich_help_panel="Input",
            metavar="COLUMN",
            help="--good, --bad: a column of groups; repeatable, with the finest last.",
        ),
    ] = None,
    published_scores: Annotated[
        str | None,
        typer.Option(
            "--scores",
            rich_help_panel="Input",
            metavar="FILE",
            help="Instead of a model: one score for each string (columns item, string, score).",
        ),
    ] = None,
    lower_is_better: Annotated[
        bool,
        typer.Option(
            "--lower-is-better", rich_help_panel="Input", help="--scores: lower is better, as for surprisals."
        ),
    ] = False,
    model: EvaluatedModelOption = None,
    output: ResultsFolderOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            rich_help_panel="Input",
            min=1,
            help="Only the first items of each finest group, at most this many.",
        ),
    ] = None,
    details: DetailsOption = False,
    latex: LatexOption = False,
) -> None:
    """Score a benchmark: does the prediction about each item's strings hold?

    A TOML file says what the strings are, and which of their scores has to be higher. It comes with pdtools
    (pdtools benchmarks list), or is your own. Without --as, a bundled benchmark is recognized by its files,
    if they belong to no other benchmark. The overall score is the mean of the finest groups. A tie is not
    right. Items with a string that the model cannot score are excluded and counted.

    For a model outside pdtools, --write-sentences writes every string (its finest group, item,
    string, text).
    --surprisals reads the model's surprisals of these strings, as in pdtools eval-blimp. --scores reads one
    number per string instead. Predictions about scores per token are then excluded.

    With --context, the same sentences (one per line of FILE) are read before every string. --beam auto scores
    every item with a narrow search first, and widens the search if this could change the outcome.

    The work is done in chunks: by --workers, in the jobs of an array (--shard), or on a Dask cluster
    (--scheduler). The result is the same. --resume continues a run that was killed.

    \b
    Example:
      pdtools eval-benchmark Zorro/ --as zorro --model runs/pushdown -o results/zorro
      pdtools eval-benchmark items.csv --as mine.toml --model runs/pushdown -o results/mine --beam auto
      pdtools eval-benchmark pairs.csv --good right --bad wrong --level kind --model demo -o results/pairs
    """
    sources = {
        "--model": model,
        "--surprisals": external.surprisals,
        "--scores": published_scores,
        "--write-sentences": external.write_sentences,
    }
    pick_source(context, sources)
    from pdtools.evaluation.benchmark.evaluate import evaluate_published
    from pdtools.evaluation.benchmark.from_toml import benchmark_of_columns, bundled, read_benchmark
    from pdtools.evaluation.benchmark.items import Items

    if name is None and not (good or bad or level):
        name = _known(data)
        message(f"as {name}, by the names of its files", quiet=run.quiet)
    if (name is None) == (good is None or bad is None) or (name is not None and (good or bad or level)):
        raise typer.BadParameter("give either --as, or --good and --bad (with --level)")
    if name is not None:
        benchmark = read_benchmark(name)
    else:
        benchmark = benchmark_of_columns(Path(data).stem, str(good), str(bad), level or [])
    if benchmark.suites:
        if published_scores is not None or limit is not None:
            raise typer.BadParameter("--scores and --limit cannot be combined with test suites")
        score_suites(data, run, external, reading, model, output, details=details, latex=latex)
        return

    def read() -> Items:
        return Items(data, benchmark, limit)

    published = None
    if published_scores is not None:
        published = partial(evaluate_published, source=published_scores, lower_is_better=lower_is_better)
    evaluate_strings(
        read,
        {"data": data, "benchmark": None if name in (None, *bundled()) else name, "scores": published_scores},
        run,
        external,
        reading,
        model,
        output,
        published=published,
        details=details,
        latex=latex,
    )


def _known(data: str) -> str:
    """The benchmark to which these files belong."""
    from pdtools.evaluation.benchmark.items import known_by_files

    match known_by_files(data):
        case [name]:
            return name
        case []:
            raise typer.BadParameter("give either --as, or --good and --bad (with --level)")
        case names:
            raise typer.BadParameter(f"there are files of {', '.join(names)}: give one with --as")
