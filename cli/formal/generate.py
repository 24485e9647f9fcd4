"""``pdtools generate``: strings of formal languages; one subcommand a language."""

from __future__ import annotations

import functools
from dataclasses import asdict
from enum import Enum
from typing import Annotated

import typer

from pdtools.files import STDIO
from pdtools.files.tables import check_table_name

from ..arguments import parse_range
from ..console import message, print_json
from ..options import PanelledCommand, ResultOptions, SeedOption, TableOption, option_blocks
from ..outputs import check_json_output, check_target
from . import generate_cfl, generate_task
from .generated import NumberOption, OutputOption, ShardsOption, report, write

app = typer.Typer(
    help="Draw strings of a formal language: as text, or as shards with their attachments.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_command = functools.partial(app.command, cls=PanelledCommand)


@app.callback()
def _languages() -> None:
    pass  # with this callback, a single language is a subcommand too


class DyckSetting(str, Enum):
    """Conditions on Dyck strings by name."""

    released_like = "released-like"
    free = "free"


@_command("dyck", short_help="Draw well-nested strings of several bracket types.")
@option_blocks()
def dyck(
    number: NumberOption,
    options: ResultOptions,
    brackets: Annotated[int, typer.Option("--brackets", min=1, help="Bracket types.")] = 20,
    depth: Annotated[
        int, typer.Option("--depth", min=1, help="Largest number of brackets open at once.")
    ] = 10,
    setting: Annotated[
        DyckSetting,
        typer.Option(
            "--setting",
            help="released-like: at least 6 tokens, no dependency over 27; free: no such limits.",
        ),
    ] = DyckSetting.released_like,
    min_length: Annotated[
        int | None,
        typer.Option("--min-length", min=0, help="Smallest number of tokens (default: that of --setting)."),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option("--max-length", min=1, help="Largest number of tokens (default: no limit).")
    ] = None,
    output: OutputOption = STDIO,
    shards: ShardsOption = False,
    seed: SeedOption = 0,
) -> None:
    """Draw well-nested strings of several bracket types, such as (1 (2 )2 )1, from a probabilistic automaton.

    At each step, with probability 1/2, the innermost open bracket is closed, or the string ends if none is
    open. Otherwise a bracket of one of the types is opened. At the greatest depth, the innermost bracket is
    always closed. Attachments: an opener shifts, a closer attaches to its opener. The same seed gives the
    same strings. A larger --number only appends more.

    \b
    Example:
      pdtools generate dyck --number 100000 --seed 1 --shards -o shards/train
      pdtools generate dyck --number 1000 --seed 2 --shards -o shards/valid
      pdtools generate dyck --number 5 --brackets 2 --depth 3 --setting free --min-length 2
    """
    from pdtools.formal import DYCK_SETTINGS, Dyck

    given = {"min_length": min_length, "max_length": max_length}
    conditions = DYCK_SETTINGS[setting.value] | {k: v for k, v in given.items() if v is not None}
    language = Dyck(brackets=brackets, depth=depth, **conditions)
    counts = write(language, number, seed, output, shards, options)
    expected = language.expectations
    if options.as_json:
        report(language, seed, counts, asdict(expected))
    message(
        f"{counts['sentences']} strings, {counts['tokens']} tokens, at most {counts['most_tokens']};"
        f" entropy {expected.entropy_per_token:.4f} nats a token",
        quiet=options.quiet,
    )


@_command("dyck-prefixes", short_help="Make prefixes whose last open bracket has to be closed.")
@option_blocks()
def dyck_prefixes(
    options: ResultOptions,
    number: NumberOption = 1000,
    dependency: Annotated[
        int | None,
        typer.Option("--dependency", min=1, help="Shortest distance from the open bracket to its closer."),
    ] = None,
    depths: Annotated[
        str | None,
        typer.Option(
            "--depths", metavar="FIRST-LAST", help="Nests of FIRST to LAST brackets, of the first ten types."
        ),
    ] = None,
    brackets: Annotated[int, typer.Option("--brackets", min=1, help="Bracket types.")] = 20,
    depth: Annotated[
        int,
        typer.Option(
            "--depth", min=1, help="--dependency: largest number of brackets open at once in its strings."
        ),
    ] = 40,
    max_length: Annotated[
        int, typer.Option("--max-length", min=1, help="--dependency: longest prefix.")
    ] = 600,
    output: TableOption = STDIO,
    seed: SeedOption = 0,
) -> None:
    """Make prefixes whose last open bracket has to be closed, for pdtools eval-dyck; one prefix per string.

    With --dependency, prefixes are cut from strings of the free automaton, before a closer that is at least
    this far from its opener. With --depths, they are nests of brackets without their last closer. A string
    like those of training (pdtools generate dyck) is inserted somewhere in each. The output is TSV with the
    columns prefix, closer, dependency, depth. The same seed draws the same strings for every --dependency,
    and those of pdtools generate dyck for --depths: use different seeds.

    \b
    Example:
      pdtools generate dyck-prefixes --dependency 50 --seed 50 -o dependency-50.tsv
      pdtools generate dyck-prefixes --depths 15-50 --number 1008 --seed 3 -o depth.tsv
    """
    from pdtools.formal.bracket_prefixes import dependency_prefixes, depth_prefixes, write_prefixes
    from pdtools.formal.dyck import DYCK_SETTINGS, Dyck

    if (dependency is None) == (depths is None):
        raise typer.BadParameter("give exactly one of --dependency and --depths")
    if dependency is not None and dependency > max_length:
        raise typer.BadParameter(f"no prefix of {max_length} tokens (--max-length) has such a --dependency")
    check_json_output(options.as_json, output)
    check_table_name(output)
    check_target(output, folder=False, overwrite=options.overwrite, inputs=())
    if depths is not None:
        filler = Dyck(brackets=brackets, **DYCK_SETTINGS["released-like"])
        prefixes = depth_prefixes(filler, number, depths=parse_range(depths), seed=seed)
    else:
        assert dependency is not None
        source = Dyck(brackets=brackets, depth=depth)
        prefixes = dependency_prefixes(source, number, least=dependency, max_length=max_length, seed=seed)
    write_prefixes(prefixes, output, overwrite=options.overwrite)
    longest = max(len(prefix.tokens) for prefix in prefixes)
    if options.as_json:
        from pdtools.provenance import provenance

        print_json(
            {
                "counts": {"prefixes": len(prefixes), "most_tokens": longest},
                "settings": {
                    "number": number,
                    "dependency": dependency,
                    "depths": depths,
                    "brackets": brackets,
                    "depth": depth,
                    "max_length": max_length,
                    "seed": seed,
                },
                "provenance": provenance(),
            }
        )
    message(f"{len(prefixes)} prefixes, of at most {longest} tokens", quiet=options.quiet)


_command("cfl", short_help="Draw strings of a weighted context-free grammar.")(generate_cfl.cfl)
_command("task", short_help="Draw strings x of a task, each with its answer y.")(generate_task.task)
