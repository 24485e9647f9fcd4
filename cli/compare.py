"""``pdtools compare``: two runs over the same items."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pdtools.files import watch_inputs

from .console import print_json
from .options import DetailsOption, JsonOption, SeedOption


def compare(
    first: Annotated[
        str,
        typer.Argument(
            metavar="RESULTS", help="A results folder of eval-blimp or eval-sg, or a folder of several."
        ),
    ],
    second: Annotated[
        str, typer.Argument(metavar="RESULTS", help="Another one, with results on the same items.")
    ],
    samples: Annotated[int, typer.Option("--samples", min=1, help="Bootstrap samples.")] = 10_000,
    seed: SeedOption = 0,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs item by item: differences overall and by group, with their significance.

    The interval is a paired bootstrap interval (95%, resampling items within each paradigm or suite); p is
    that of McNemar's exact test on the items that only one run gets right. Items that lack a score in one
    of the runs are left out of both.

    Given two folders that hold results folders of the same names, it prints the main score of each. Below
    the table it says what differs in how the two were made (beam, text style, limit, ...).

    \b
    Example:
      pdtools compare results/base/blimp results/pushdown/blimp
      pdtools compare results/base results/pushdown
    """
    from pdtools.evaluation.comparison.compare import compare_runs
    from pdtools.evaluation.comparison.overview import is_collection, overview
    from pdtools.provenance import provenance
    from pdtools.report.evaluations import print_comparison, print_overview

    watch_inputs([first, second])
    if is_collection(first):
        headlines = overview(first, second)
        if as_json:
            scores = [asdict(headline) for headline in headlines]
            print_json({"scores": scores, "provenance": provenance({"a": first, "b": second})})
        else:
            print_overview(headlines, Path(first).name, Path(second).name)
        return
    found = compare_runs(first, second, seed=seed, samples=samples)
    if as_json:
        groups = [{**asdict(group), "difference": group.difference} for group in found["groups"]]
        print_json({**found, "groups": groups, "provenance": provenance({"a": first, "b": second})})
    else:
        print_comparison(found, first, second, details=details)
