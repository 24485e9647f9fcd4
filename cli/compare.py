"""``pdtools compare``: runs over the same items."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdtools.errors import InputError
from pdtools.files import watch_inputs

from .console import print_json
from .options import Natural, Positive, command
from .running import check_form

if TYPE_CHECKING:
    from pdtools.evaluation.comparison.groups import Group


@command("Compare models' results, item by item.")
def compare(
    results: Annotated[list[str] | None, typer.Argument(show_default=False)] = None,
    group: list[str] | None = None,
    baseline: str | None = None,
    overview: bool = False,
    samples: Positive = 10_000,
    seed: Natural = 0,
    details: bool = False,
    as_json: bool = False,
    latex: bool = False,
) -> None:
    """Compare runs item by item: differences overall and by group, with their significance.

    \b
    Example:
      pdtools compare results/npi-base results/npi
          a: results/npi-base
          b: results/npi
          score                     a       b  b - a  95%             p
          BLiMP accuracy (%)   100.00  100.00  +0.00  [+0.00, +0.00]  1
          BLiMP margin (bits)    9.01   10.32  +1.32  [+1.04, +1.60]  0.0002
      pdtools compare results/base-* results/pushdown-* results/gpt2 --baseline base
      pdtools compare --group base='results/base-*' --group 'pushdown=results/p1,results/p2' --latex

    Two results, or folders with results of the same names: the interval is a paired bootstrap over items; p
    is McNemar's exact test, or a bootstrap for scores that are not right or wrong.

    More results, --group or --baseline: runs that differ only in seed form one group. Intervals are over
    seeds and items, and p is corrected by Holm's method.

    Arguments:
        results (RESULTS): Results of one evaluation; or folders of several, one a model.

    Input:
        group (NAME=FOLDERS): Runs that differ only in seed: folders by commas, or with * (repeatable).
        baseline (NAME): Compare all other groups with this one, instead of every pair.

    Output:
        overview: Instead, one table of the main scores, without differences.
    """
    from pdtools.evaluation.comparison.compare import compare as compare_groups
    from pdtools.provenance import provenance
    from pdtools.report.comparisons import print_compared, print_main_scores
    from pdtools.report.tables import latex_tables

    check_form(as_json=as_json, latex=latex)
    named = [_named(each) for each in group or []]
    given = [*(results or []), *(folder for _, folders in named for folder in folders)]
    if not given:
        raise typer.BadParameter("name results folders, or --group NAME=FOLDERS")
    if overview and baseline is not None:
        raise typer.BadParameter("--overview has no differences: leave out --baseline")
    watch_inputs(given)
    groups = _groups(results or [], named, alone=not overview)
    found = compare_groups(groups, baseline=baseline, seed=seed, samples=samples, differences=not overview)
    if as_json:
        read = {folder: folder for of in found.groups for folder in of.folders}
        print_json({**asdict(found), "provenance": provenance(read)})
        return
    with latex_tables(latex):
        if overview:
            print_main_scores(found, latex=latex)
        else:
            print_compared(found, details=details)


def _named(text: str) -> tuple[str, list[str]]:
    """Parse ``NAME=FOLDER,PATTERN``: a name, and the folders."""
    name, equals, folders = text.partition("=")
    if not (name and equals and folders):
        raise typer.BadParameter(f"--group {text}: write NAME=FOLDER or NAME=FOLDER,FOLDER")
    found: list[str] = []
    for pattern in folders.split(","):
        matching = [pattern] if Path(pattern).exists() else sorted(glob.glob(pattern))
        if not matching:
            raise InputError("no such folder", file=pattern, hint="--group NAME=FOLDER,FOLDER")
        found += matching
    return name, found


def _groups(
    results: Sequence[str], named: Sequence[tuple[str, Sequence[str]]], *, alone: bool
) -> list[Group]:
    """The named groups, in order, then the other models by seed; two ``alone`` are two groups."""
    from pdtools.evaluation.comparison.groups import Group, by_seed, each_alone, find_models

    if alone and not named and len(results) == 2:
        two = each_alone(results)
        if len(two) == 2:
            return two
    together: dict[str, list[str]] = {}
    for name, folders in named:
        together.setdefault(name, []).extend(folders)
    groups = [
        Group(name=name, models=tuple(model for folder in folders for model in find_models(folder)))
        for name, folders in together.items()
    ]
    return [*groups, *by_seed([model for folder in results for model in find_models(folder)])]
