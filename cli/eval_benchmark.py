"""``pdtools eval-benchmark``: any benchmark of strings, by its file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import message
from .eval_sg import score_suites
from .evaluating import evaluate_strings, pick_source
from .options import Positive, StringOptions, command

if TYPE_CHECKING:
    from pdtools.evaluation.benchmark.item_files import Items


def _print_list(wanted: bool) -> None:
    if wanted:
        from pdtools.evaluation.benchmark.from_toml import BENCHMARKS, read_benchmark

        width = max(map(len, BENCHMARKS.names)) + 2
        for name in BENCHMARKS.names:
            benchmark = read_benchmark(name)
            typer.echo(f"{name:<{width}}{benchmark.title} ({benchmark.about['cite']})")
        raise typer.Exit()


def _print_file(name: str | None) -> None:
    if name is not None:
        from pdtools.evaluation.benchmark.from_toml import BENCHMARKS

        typer.echo(BENCHMARKS.text(name)[0], nl=False)
        raise typer.Exit()


@command("Score any benchmark of strings that a TOML file describes.", without=("stride",))
def eval_benchmark(
    context: typer.Context,
    data: str,
    asked: StringOptions,
    name: str | None = None,
    list: Annotated[bool, typer.Option(is_eager=True, callback=_print_list)] = False,
    show: Annotated[str | None, typer.Option(is_eager=True, callback=_print_file)] = None,
    good: str | None = None,
    bad: str | None = None,
    level: list[str] | None = None,
    published_scores: str | None = None,
    limit: Positive | None = None,
) -> None:
    """Score a benchmark: does the prediction about each item's strings hold?

    \b
    Example:
      pdtools eval-benchmark --list
          bl2mp              BL2MP (Urbizu et al. 2024, LREC-COLING)
          blimp              BLiMP (Warstadt et al. 2020, TACL 8)
          blimp-nl           BLiMP-NL (Suijkerbuijk et al. 2025)
      pdtools eval-benchmark Zorro/ --as zorro --model runs/pushdown -o results/zorro
      pdtools eval-benchmark pairs.csv --good right --bad wrong --model demo -o results/pairs
      pdtools eval-benchmark items.csv --as mine.toml --model runs/pushdown -o results/mine

    A TOML file says what the strings are, and which of their scores has to be higher. It comes with pdtools
    or is your own. Without --as, a bundled benchmark is recognized by its files. The overall score is the
    mean of the finest groups. A tie is not right. Items with a string that the model cannot score are
    excluded and counted.

    --write-sentences and --surprisals score a model outside pdtools, as in pdtools eval-blimp. --scores reads
    one number per string instead: a score, or a surprisal, of which the lower is better.

    Arguments:
        data (DATA): The benchmark's folder, a zip of it, or one of its files.

    Input:
        name (--as NAME|FILE.toml): The benchmark: one of --list, or a file of your own.
        list: Print the names that --as takes, and stop.
        show (NAME): Print the TOML file of one, with licence and published results.
        good (COLUMN): Instead of --as: minimal pairs; the column of the better sentence.
        bad (COLUMN): The column of the other sentence.
        level (COLUMN): --good, --bad: a column of groups (repeatable, finest last).
        published_scores (--scores FILE): Instead of a model: item, string, and a score or surprisal.
        limit: Only the first items of each finest group, at most this many.
    """
    pick_source(context, asked, {"--scores": published_scores})
    from pdtools.evaluation.benchmark.evaluate import evaluate_published
    from pdtools.evaluation.benchmark.from_toml import BENCHMARKS, benchmark_of_columns, read_benchmark
    from pdtools.evaluation.benchmark.item_files import Items

    if name is None and not (good or bad or level):
        name = _known(data)
        message(f"as {name}, by the names of its files")
    if (name is None) == (good is None or bad is None) or (name is not None and (good or bad or level)):
        raise typer.BadParameter("give either --as, or --good and --bad (with --level)")
    if name is not None:
        benchmark = read_benchmark(name)
    else:
        benchmark = benchmark_of_columns(Path(data).stem, str(good), str(bad), level or [])
    if benchmark.suites:
        if published_scores is not None or limit is not None:
            raise typer.BadParameter("--scores and --limit cannot be combined with test suites")
        score_suites(data, asked)
        return

    def read() -> Items:
        return Items(data, benchmark, limit)

    published = None
    if published_scores is not None:
        published = partial(evaluate_published, source=published_scores)
    evaluate_strings(
        read,
        {
            "data": data,
            "benchmark": None if name in (None, *BENCHMARKS.names) else name,
            "scores": published_scores,
        },
        asked,
        published=published,
    )


def _known(data: str) -> str:
    """The benchmark to which these files belong."""
    from pdtools.evaluation.benchmark.item_files import known_by_files

    match known_by_files(data):
        case [name]:
            return name
        case []:
            raise typer.BadParameter("give either --as, or --good and --bad (with --level)")
        case names:
            raise typer.BadParameter(f"there are files of {', '.join(names)}: give one with --as")
