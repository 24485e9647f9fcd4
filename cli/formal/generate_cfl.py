"""``pdtools generate cfl``: strings of context-free languages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdtools.files import STDIO

from ..arguments import parse_range
from ..console import message
from ..options import ResultOptions, SeedOption, option_blocks
from ..panels import input_option
from .generated import OutputOption, ShardsOption, report, write


@option_blocks()
def cfl(
    grammar: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE",
            help="marked-reversal, unmarked-reversal, padded-reversal, dyck, hardest, or a grammar file.",
        ),
    ],
    options: ResultOptions,
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=1, help="How many strings (default: 10000).")
    ] = None,
    lengths: Annotated[
        str, input_option("--lengths", metavar="FIRST-LAST", help="Tokens per string.")
    ] = "40-80",
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch", min=1, help="Number of consecutive strings that share a length (default: 10)."
        ),
    ] = None,
    per_length: Annotated[
        int | None,
        typer.Option(
            "--per-length", min=1, help="Draw this many strings of each length, instead of drawing lengths."
        ),
    ] = None,
    output: OutputOption = STDIO,
    shards: ShardsOption = False,
    seed: SeedOption = 0,
) -> None:
    """Draw strings of a weighted context-free grammar, exactly, given their lengths.

    For every batch, one length is drawn uniformly from those in --lengths at which the language has strings.
    A grammar is a text file with one line per symbol, such as "S -> '0' S '0' [1/2] | '#' [1/2]".
    docs/guide/context-free.md describes the format. dyck-released is dyck as the code of DuSell and Chiang
    (2022) draws it.

    \b
    Example:
      pdtools generate cfl hardest --seed 1 --shards -o shards/train
      pdtools generate cfl hardest --number 1000 --seed 2 --shards -o shards/valid
      pdtools generate cfl hardest --per-length 100 --lengths 40-100 --seed 3 --shards -o shards/test
      pdtools generate cfl mine.pcfg --lengths 5-9 --number 5 --batch 1
    """
    from pdtools.formal import ContextFree, read_grammar

    if per_length is not None and number is not None:
        raise typer.BadParameter("--number and --per-length exclude each other")
    if per_length is not None and batch is not None:
        raise typer.BadParameter(
            "--batch and --per-length exclude each other: all strings of a length come in turn"
        )
    wanted = parse_range(lengths, smallest=0)
    language = ContextFree(
        grammar=read_grammar(grammar),
        shortest=wanted.start,
        longest=wanted.stop - 1,
        batch=per_length or batch or 10,
        lengths="drawn" if per_length is None else "in turn",
    )
    valid = language.valid_lengths
    total = number or 10_000 if per_length is None else per_length * len(valid)
    sources = [grammar] if Path(grammar).exists() else []
    counts = write(language, total, seed, output, shards, options, sources)
    if options.as_json:
        report(language, seed, counts, {"valid_lengths": valid.tolist()})
    message(
        f"{counts['sentences']} strings, {counts['tokens']} tokens; {len(valid)} lengths from {valid[0]}"
        f" to {valid[-1]}",
        quiet=options.quiet,
    )
