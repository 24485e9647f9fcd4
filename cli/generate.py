"""``pdtools generate``: strings of formal languages; one subcommand a language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from pdtools.files import STDIO, is_stream
from pdtools.files.tables import check_table_name

from .console import message, print_json, progress
from .options import Natural, Positive, ResultOptions, command, parse_range
from .running import check_json_output, check_target
from .signatures import group

if TYPE_CHECKING:
    from pdtools.formal.language import FormalString, Language

app = group(
    "generate",
    "Draw strings of a formal language: as text, or as shards with their attachments.",
    "Draw strings of a formal language: text, or shards.",
)


DyckSetting = Literal["released-like", "free"]


@command("Draw well-nested strings of several bracket types.", app=app)
def dyck(
    number: Positive,
    options: ResultOptions,
    brackets: Positive = 20,
    depth: Positive = 10,
    setting: DyckSetting = "released-like",
    min_length: Natural | None = None,
    max_length: Positive | None = None,
    output: str = STDIO,
    shards: bool = False,
    seed: Natural = 0,
) -> None:
    """Draw well-nested strings of several bracket types, such as (1 (2 )2 )1, from a probabilistic automaton.

    \b
    Example:
      pdtools generate dyck --number 3 --brackets 2 --depth 3 --setting free --min-length 2 --seed 3
          (2 )2
          (1 (2 )2 (2 )2 (1 (1 )1 )1 )1
          (2 )2
      pdtools generate dyck --number 100000 --seed 1 --shards -o shards/train

    The same seed gives the same strings, and a larger --number only appends more.

    Output:
        output (-o): A file (.gz, .zst), or -; a folder with --shards.

    Options:
        number (-n): How many strings.
        shards: Write shards with attachments instead of text.
        brackets: Bracket types.
        depth: Largest number of brackets open at once.
        setting: Limits of lengths as in the paper's released strings, or none.
        min_length: Smallest number of tokens (default: that of --setting).
        max_length: Largest number of tokens (default: no limit).
    """
    from pdtools.formal import DYCK_SETTINGS, Dyck

    given = {"min_length": min_length, "max_length": max_length}
    conditions = DYCK_SETTINGS[setting] | {k: v for k, v in given.items() if v is not None}
    language = Dyck(brackets=brackets, depth=depth, **conditions)
    counts = _write(language, number, seed, output, shards, options)
    expected = language.expectations
    if options.as_json:
        _report(language, seed, counts, asdict(expected))
    message(
        f"{counts['sentences']} strings, {counts['tokens']} tokens, at most {counts['most_tokens']};"
        f" entropy {expected.entropy_per_token:.4f} nats a token"
    )


@command("Make prefixes whose last open bracket has to be closed.", app=app)
def dyck_prefixes(
    options: ResultOptions,
    number: Positive = 1000,
    dependency: Positive | None = None,
    depths: str | None = None,
    brackets: Positive = 20,
    depth: Positive = 40,
    max_length: Positive = 600,
    output: str = STDIO,
    seed: Natural = 0,
) -> None:
    """Make prefixes whose last open bracket has to be closed, for pdtools eval-formal dyck; one per string.

    \b
    Example:
      pdtools generate dyck-prefixes --depths 3-5 --number 1
          prefix                              closer  dependency  depth
          (3 (7 (6 )6 (5 )5 (15 )15 (4 )4 )7  )3      11          3
      pdtools generate dyck-prefixes --dependency 50 --seed 50 -o dependency-50.tsv

    With --dependency, prefixes are cut from strings of the free automaton, before a closer chosen uniformly
    among all that are far enough from their openers. With --depths, they are nests of brackets without their
    last closer, in each of which a string like those of training is inserted.

    Output:
        output (-o): A TSV file, or CSV (.csv), also compressed (.gz, .zst); or -.

    Options:
        number (-n): How many strings.
        dependency: Shortest distance from the open bracket to its closer.
        depths (FIRST-LAST): Nests of FIRST to LAST brackets, of the first ten types.
        brackets: Bracket types.
        depth: --dependency: largest number of brackets open at once in its strings.
        max_length: --dependency: longest prefix.
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
    message(f"{len(prefixes)} prefixes, of at most {longest} tokens")


@command("Draw strings of a weighted context-free grammar.", app=app)
def cfl(
    grammar: str,
    options: ResultOptions,
    number: Positive | None = None,
    lengths: str = "40-80",
    per_length: Positive | None = None,
    output: str = STDIO,
    shards: bool = False,
    seed: Natural = 0,
) -> None:
    """Draw strings of a weighted context-free grammar, exactly, given their lengths.

    \b
    Example:
      pdtools generate cfl hardest --lengths 5-9 --number 3
          , $ [ [ ] ] , ( ;
          , ( ) , $ [ ] , ;
          ) , $ [ ] , ) , ;
      pdtools generate cfl hardest --seed 1 --shards -o shards/train
      pdtools generate cfl hardest --per-length 100 --lengths 40-100 --seed 3 --shards -o shards/test

    A grammar of your own is a text file with one line per symbol, such as "S -> '0' S '0' [1/2] | '#' [1/2]".

    Arguments:
        grammar (NAME|FILE): marked-reversal, unmarked-reversal, padded-reversal, dyck, hardest,
            dyck-released (as the code of DuSell and Chiang 2022 draws it), or a file.

    Input:
        lengths (FIRST-LAST): Tokens per string.

    Output:
        output (-o): A file (.gz, .zst), or -; a folder with --shards.

    Options:
        shards: Write shards, in which every token shifts, instead of text.
        number (-n): How many strings (default: 10000).
        per_length: Draw this many strings of each length, instead of drawing lengths.
    """
    from pdtools.formal import ContextFree, read_grammar

    if per_length is not None and number is not None:
        raise typer.BadParameter("--number and --per-length exclude each other")
    wanted = parse_range(lengths, smallest=0)
    language = ContextFree(
        grammar=read_grammar(grammar),
        shortest=wanted.start,
        longest=wanted.stop - 1,
        batch=per_length or 10,
        lengths="drawn" if per_length is None else "in turn",
    )
    valid = language.valid_lengths
    total = number or 10_000 if per_length is None else per_length * len(valid)
    sources = [grammar] if Path(grammar).exists() else []
    counts = _write(language, total, seed, output, shards, options, sources)
    if options.as_json:
        _report(language, seed, counts, {"valid_lengths": valid.tolist()})
    message(
        f"{counts['sentences']} strings, {counts['tokens']} tokens; {len(valid)} lengths from {valid[0]}"
        f" to {valid[-1]}"
    )


@command("Draw strings x of a task, each with its answer y.", app=app)
def task(
    name: str,
    options: ResultOptions,
    lengths: str = "41-100",
    number: Positive = 512,
    as_released: bool = False,
    output: str = STDIO,
    seed: Natural = 0,
) -> None:
    """Draw strings x of a task, each with its answer y: TSV with the columns length, x and y.

    \b
    Example:
      pdtools generate task ma --lengths 7 --number 3
          length  x                y
          7       ( ( 1 ) * 3 )    3
          7       ( 2 + ( 4 ) )    1
          7       ( - 2 + - 1 )    2
      pdtools generate task rs --seed 1 -o rs.tsv

    The tasks are reversing a string (rs), a stack after operations on it (sm), the value of an expression
    modulo 5 (ma) and the unknown digit of an equation modulo 5 (se).

    Arguments:
        name (NAME): rs, sm, ma or se.

    Input:
        lengths (FIRST-LAST): Number of symbols of x: 41-100, or one length.

    Output:
        output (-o): A TSV file, or CSV (.csv), also compressed (.gz, .zst); or -.

    Options:
        number (-n): Number of pairs of each length.
        as_released: Follow the authors' code if it differs from the paper.
    """
    from pdtools.formal.transduction_data import write_pairs
    from pdtools.formal.transductions import make_task
    from pdtools.provenance import provenance

    drawn_task = make_task(name, as_released=as_released)
    wanted = parse_range(lengths)
    drawn_task.check_length(wanted.start)
    check_json_output(options.as_json, output)
    check_table_name(output)
    check_target(output, folder=False, overwrite=options.overwrite, inputs=())
    shown = progress(wanted, total=len(wanted), label="lengths")
    drawn = (block for length in shown for block in drawn_task.test_blocks(length, number, seed=seed))
    counts = write_pairs(drawn_task, drawn, output, overwrite=options.overwrite)
    if options.as_json:
        settings = {
            "task": drawn_task.name,
            "as_released": as_released,
            "lengths": [wanted.start, wanted.stop - 1],
        }
        settings |= {"number": number, "seed": seed}
        print_json({"counts": counts, "settings": settings, "provenance": provenance()})
    message(f"{counts['pairs']} pairs, {counts['symbols']} symbols")


def _write(
    language: Language,
    number: int,
    seed: int,
    output: str,
    shards: bool,
    options: ResultOptions,
    sources: Sequence[str] = (),
) -> dict[str, int]:
    """Write the strings of any language, read from ``sources``, as the options say; return the counts."""
    from pdtools.formal import string_shards, write_strings

    if shards and is_stream(output):
        raise typer.BadParameter("shards are a folder: name one with -o")
    check_json_output(options.as_json, output)
    check_target(output, folder=shards, overwrite=options.overwrite, inputs=sources)

    def watch(strings: Iterable[FormalString]) -> Iterable[FormalString]:
        return progress(strings, total=number, label="strings")

    if not shards:
        return write_strings(language, number, seed, output, overwrite=options.overwrite, watch=watch)
    manifest = string_shards(language, number, seed, output, overwrite=options.overwrite, watch=watch)
    return {name: manifest["counts"][name] for name in ("sentences", "tokens", "most_tokens")}


def _report(language: Language, seed: int, counts: dict[str, int], exact: dict[str, Any]) -> None:
    """Print the JSON document of a language's strings.

    Args:
        language, seed: the language, and the seed of the strings.
        counts: from :func:`_write`.
        exact: exact values for the language.
    """
    from pdtools.provenance import provenance

    print_json(
        {
            "counts": counts,
            "exact": exact,
            "settings": {"language": language.name, **language.settings, "seed": seed},
            "provenance": provenance(),
        }
    )
