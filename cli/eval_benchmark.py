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
        from pdtools.evaluation.benchmark.from_toml import bundled, read_benchmark

        width = max(map(len, bundled())) + 2
        for name in bundled():
            benchmark = read_benchmark(name)
            typer.echo(f"{name:<{width}}{benchmark.title} ({benchmark.about['cite']})")
        raise typer.Exit()


def _print_file(name: str | None) -> None:
    if name is not None:
        from pdtools.evaluation.benchmark.from_toml import text_of

        typer.echo(text_of(name), nl=False)
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

    A TOML file says what the strings are, and which of their scores has to be higher. It comes with pdtools
    (--list, --show), or is your own. Without --as, a bundled benchmark is recognized by its files,
    if they belong to no other benchmark. The overall score is the mean of the finest groups. A tie is not
    right. Items with a string that the model cannot score are excluded and counted.

    For a model outside pdtools, --write-sentences writes every string (its finest group, item, string, text).
    --surprisals reads the model's surprisals of these strings, as in pdtools eval-blimp. --scores reads one
    number per string instead: a score, or a surprisal, of which the lower is better. Predictions about scores
    per token are then excluded.

    With --context, the same sentences (one per line of FILE) are read before every string. --beam auto scores
    every item with a narrow search first, and widens the search if this could change the outcome.

    \b
    Example:
      pdtools eval-benchmark --list
      pdtools eval-benchmark --show ewok > mine.toml
      pdtools eval-benchmark Zorro/ --as zorro --model runs/pushdown -o results/zorro
      pdtools eval-benchmark items.csv --as mine.toml --model runs/pushdown -o results/mine --beam auto
      pdtools eval-benchmark pairs.csv --good right --bad wrong --level kind --model demo -o results/pairs

    Arguments:
        data (DATA): The benchmark's folder, a zip of it, or one of its files.

    Input:
        name (--as NAME|FILE.toml): The benchmark: one of --list, or a file of your own.
        list: Print the names that --as takes, and stop.
        show (NAME): Print the TOML file of one: strings, predictions, chance, licence, published results.
        good (COLUMN): Instead of --as: minimal pairs, with the better sentence in this column.
        bad (COLUMN): The column of the other sentence.
        level (COLUMN): --good, --bad: a column of groups; repeatable, with the finest last.
        published_scores (--scores FILE): Instead of a model: a number for each string (columns item, string;
            score, or surprisal).
        limit: Only the first items of each finest group, at most this many.
    """
    pick_source(context, asked, {"--scores": published_scores})
    from pdtools.evaluation.benchmark.evaluate import evaluate_published
    from pdtools.evaluation.benchmark.from_toml import benchmark_of_columns, bundled, read_benchmark
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
        {"data": data, "benchmark": None if name in (None, *bundled()) else name, "scores": published_scores},
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
