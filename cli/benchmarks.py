"""``pdtools benchmarks``: the benchmarks that eval-benchmark knows by name."""

from __future__ import annotations

from typing import Annotated

import typer

from .console import print_json
from .options import JsonOption, PanelledCommand

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Benchmarks that come as TOML files.")


@app.command("list", cls=PanelledCommand, short_help="List the benchmarks that come with pdtools.")
def list_benchmarks(as_json: JsonOption = False) -> None:
    """List the benchmarks by the names that pdtools eval-benchmark --as takes.

    Their data do not come with pdtools.

    \b
    Example:
      pdtools benchmarks list
    """
    from pdtools.evaluation.benchmark.from_toml import bundled, read_benchmark

    found = [(name, read_benchmark(name)) for name in bundled()]
    if as_json:
        print_json([{"name": name, **benchmark.about} for name, benchmark in found])
        return
    width = max(len(name) for name, _ in found) + 2
    for name, benchmark in found:
        typer.echo(f"{name:<{width}}{benchmark.title} ({benchmark.about['cite']})")


@app.command("show", cls=PanelledCommand, short_help="Describe a benchmark, and where to get its files.")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of pdtools benchmarks list, or a file.")],
    toml: Annotated[
        bool, typer.Option("--toml", help="Print its TOML file, as a start for your own.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Describe a benchmark: right answers, scoring, chance level, licence, source of the data, published
    results.

    \b
    Example:
      pdtools benchmarks show zorro
      pdtools benchmarks show blimp --toml > mine.toml
    """
    from pdtools.evaluation.benchmark.from_toml import read_benchmark, text_of

    benchmark = read_benchmark(name)
    if toml:
        typer.echo(text_of(name), nl=False)
        return
    rows = {**benchmark.about, "files": ", ".join(benchmark.files)}
    scores = {name: score.described for name, score in benchmark.scores.items()}
    if as_json:
        predictions = {
            prediction: {
                "formula": formula,
                "score": scores[prediction],
                "chance": benchmark.chance.get(prediction),
            }
            for prediction, formula in benchmark.predictions.items()
        }
        print_json({"name": name, **rows, "predictions": predictions, "published": dict(benchmark.published)})
        return
    width = max(map(len, rows)) + 2
    for key, text in rows.items():
        typer.echo(f"{key + ':':<{width}}{text}")
    for prediction, formula in benchmark.predictions.items():
        about = ", ".join(filter(None, (scores[prediction], benchmark.guessing(prediction))))
        typer.echo(f"prediction {prediction}: {formula} ({about})")
    if (label := benchmark.label) is not None:
        of_files = f"the best one for the items of {label.source}"
        threshold = of_files if label.threshold is None else f"{label.threshold:g}"
        typer.echo(f"threshold: {threshold}; guessing comes to MCC 0, AUC 50%")
    if benchmark.suites:
        typer.echo("predictions and levels: those of the files")
    else:
        typer.echo(f"levels: {', '.join(benchmark.levels)}")
    for who, number in benchmark.published.items():
        typer.echo(f"published, {who}: {number}")
