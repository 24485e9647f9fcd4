"""``pdtools generate task``: pairs of strings of the deterministic context-free tasks."""

from __future__ import annotations

from typing import Annotated

import typer

from pdtools.files import STDIO
from pdtools.files.tables import check_table_name

from ..arguments import parse_range
from ..console import message, print_json, progress
from ..options import ResultOptions, SeedOption, TableOption, option_blocks
from ..outputs import check_json_output, check_target
from ..panels import input_option

TaskArgument = Annotated[str, typer.Argument(metavar="NAME", help="rs, sm, ma or se.")]
AsReleasedOption = Annotated[
    bool, typer.Option("--as-released", help="Follow the authors' code if it differs from the paper.")
]


@option_blocks()
def task(
    name: TaskArgument,
    options: ResultOptions,
    lengths: Annotated[
        str,
        input_option(
            "--lengths", metavar="FIRST-LAST", help="Number of symbols of x: 41-100, or one length."
        ),
    ] = "41-100",
    number: Annotated[
        int, typer.Option("--number", "-n", min=1, help="Number of pairs of each length.")
    ] = 512,
    as_released: AsReleasedOption = False,
    output: TableOption = STDIO,
    seed: SeedOption = 0,
) -> None:
    """Draw strings x of a task, each with its answer y: TSV with the columns length, x and y.

    The tasks are rs (reverse a string), sm (a stack after operations on it), ma (the value of an expression
    modulo 5) and se (the unknown digit of an equation modulo 5). Train with pdtools train --task NAME, which
    draws other strings while it trains. Test with pdtools eval-task.

    \b
    Example:
      pdtools generate task rs --seed 1 -o rs.tsv
      pdtools generate task ma --lengths 7 --number 3
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
    shown = progress(wanted, total=len(wanted), label="lengths", quiet=options.quiet)
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
    message(f"{counts['pairs']} pairs, {counts['symbols']} symbols", quiet=options.quiet)
