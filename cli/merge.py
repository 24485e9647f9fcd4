"""``pdtools merge``: the pieces of several jobs into one output."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from pdtools.errors import InputError

_IN_PIECES = ("parse", "tapes", "decode", "surprisal", "eval-blimp", "eval-sg", "eval-ppl", "eval-dyck")


def merge(
    output: Annotated[
        str, typer.Argument(metavar="OUTPUT", help="The output, as named with -o in the jobs.")
    ],
) -> None:
    """Make the output of a command whose work was divided among jobs with --shard I/N.

    In the script of a Slurm job array (sbatch --array=0-7), for instance, each job calls pdtools decode
    big.txt --model run -o big.trees --shard $SLURM_ARRAY_TASK_ID/8; merge is called when all are done.

    The command is run again with the same options except --shard, in the folder where it was run before; it
    reads the pieces in OUTPUT.job, computes none itself, and fails if some are missing. When the output is
    made, the pieces are deleted; merging again changes nothing.

    \b
    Example:
      pdtools merge big.trees
    """
    from pdtools.jobs import finished, job_path, only_merging, read_job

    from .console import message
    from .main import run

    if os.path.exists(output) and not job_path(output).exists():
        finished(output)  # deletes what a killed merge may have left
        message(f"{output} is there already, and there are no pieces of it", quiet=False)
        return
    job = read_job(job_path(output))
    arguments = _without_shard(job["command"])
    if not arguments or arguments[0] not in _IN_PIECES:
        raise InputError("not begun by a command of pdtools that works in pieces", file=job_path(output))
    if os.path.realpath(job["output"]) != os.path.realpath(output):
        hint = "was the folder moved? Run the command with --resume instead of --shard to continue"
        raise InputError(f"its jobs were to make {job['output']}", file=job_path(output), hint=hint)
    os.chdir(job["folder"])
    sys.argv[1:] = arguments  # what the output was made with, as its provenance will say
    with only_merging():
        status = run(arguments)
    raise typer.Exit(status)


def _without_shard(arguments: list[str]) -> list[str]:
    kept: list[str] = []
    following = iter(arguments)
    for argument in following:
        if argument == "--shard":
            next(following, None)
        elif not argument.startswith("--shard="):
            kept.append(argument)
    return kept
