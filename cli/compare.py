"""``pdtools compare``: runs over the same items."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdtools.errors import InputError
from pdtools.files import watch_inputs
from pdtools.files.packed import ending
from pdtools.files.tables import SHEETS, atomic_table, check_table_name, read_sheet

from .console import message, print_json
from .options import Natural, Positive, command, named_group, named_groups
from .running import check_form, check_target

if TYPE_CHECKING:
    from pdtools.evaluation.comparison.designs import DesignEffects
    from pdtools.evaluation.comparison.groups import Group


@command("Compare models' results, item by item.")
def compare(
    results: Annotated[list[str] | None, typer.Argument(show_default=False)] = None,
    group: list[str] | None = None,
    baseline: str | None = None,
    factors: str | None = None,
    region: str | None = None,
    output: str | None = None,
    overview: bool = False,
    overwrite: bool = False,
    samples: Positive = 10_000,
    seed: Natural = 0,
    details: bool = False,
    as_json: bool = False,
    latex: bool = False,
) -> None:
    """Compare runs item by item, or the conditions of stimuli: differences with their significance.

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
      pdtools compare surprisals.csv --factors ambiguity,length=short --region 3 -o effects.csv

    Two results, or folders with results of the same names: the interval is a paired bootstrap over items; p
    is McNemar's exact test, or a bootstrap for scores that are not right or wrong.

    More results, --group or --baseline: runs that differ only in seed form one group. Intervals are over
    seeds and items, and p is corrected by Holm's method.

    Tables of pdtools surprisal: main effects and interactions of the factors, within items, at the critical
    region (with --details at all), by model and between models.

    Arguments:
        results (RESULTS): Results of one evaluation; or folders of several, one a model; or stimuli.

    Input:
        group (NAME=FOLDERS): Runs that differ only in seed: folders by commas, or with * (repeatable).
            Stimuli: names of models.
        baseline (NAME): Compare all other groups with this one, instead of every pair.

    Output:
        output (-o FILE): Stimuli: a CSV or TSV file of the effects at all regions.
        overwrite: Replace the file.
        overview: Instead, one table of the main scores, without differences.
    """
    from pdtools.evaluation.comparison.compare import compare as compare_groups
    from pdtools.provenance import provenance
    from pdtools.report.comparisons import print_compared, print_main_scores
    from pdtools.report.effects import print_effects, results_sentence
    from pdtools.report.tables import latex_tables

    check_form(as_json=as_json, latex=latex)
    if results and all(ending(each) in SHEETS and Path(each).is_file() for each in results):
        if overview:
            raise typer.BadParameter("--overview goes with results, not with a table of stimuli")
        check_target(output, folder=False, overwrite=overwrite, inputs=results)
        found_effects = _effects(
            results,
            group or [],
            factors,
            output,
            region=region,
            baseline=baseline,
            seed=seed,
            samples=samples,
        )
        if as_json:
            made = provenance({each: each for each in results})
            print_json(
                {
                    **found_effects.as_data(),
                    "sentence": results_sentence(found_effects),
                    "settings": {"seed": seed, "samples": samples},
                    "provenance": made,
                }
            )
            return
        with latex_tables(latex):
            print_effects(found_effects, details=details)
        return
    for option, value in (("factors", factors), ("region", region), ("output", output)):
        if value is not None:
            raise typer.BadParameter(
                f"--{option} goes with a table of pdtools surprisal (.csv, .tsv, .parquet)"
            )
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


def _effects(
    tables: Sequence[str], groups: Sequence[str], factors: str | None, output: str | None, **asked: Any
) -> DesignEffects:
    """The effects of stimuli's conditions, which a file gets too."""
    from pdtools.evaluation.comparison.designs import design_effects, measured

    if output is not None:
        check_table_name(output)
    watch_inputs(tables)
    table = measured([read_sheet(each) for each in tables], factors)
    found = design_effects(table, groups=named_groups(groups), **asked)
    for note in table.notes:
        message(f"{tables[0]}: {note}")
    if not any(found.by_place.values()):
        hint = "--factors NAME,NAME says which columns tell conditions apart"
        raise InputError("no item has two conditions to compare", file=tables[0], hint=hint)
    if output is not None:
        with atomic_table(output, found.columns) as write:
            for row in found.rows():
                write(["" if cell is None else cell for cell in row.values()])
    return found


def _named(text: str) -> tuple[str, list[str]]:
    """Parse ``NAME=FOLDER,PATTERN``: a name, and the folders."""
    name, patterns = named_group(text)
    found: list[str] = []
    for pattern in patterns:
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
