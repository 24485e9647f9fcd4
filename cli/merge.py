"""``pdtools merge``: the pieces of several jobs into one output."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer


def merge(
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="As named with -o in the jobs.")],
) -> None:
    """Make the output of a command whose work was divided among jobs with --shard I/N.

    In the script of a Slurm job array (sbatch --array=0-7), for instance, each job calls pdtools decode
    big.txt --model run -o big.trees --shard $SLURM_ARRAY_TASK_ID/8; merge is called when all are done.

    The command is called again as it was, without --shard, where it was called; it finds the pieces in
    OUTPUT.job, does none itself, and fails if some are missing. The pieces are deleted then.

    \b
    Example:
      pdtools merge big.trees
    """
    from pdtools.jobs import job_path, only_merging, read_job

    from .main import run

    job = read_job(job_path(output))
    arguments = _without_shard(job["command"])
    os.chdir(job["folder"])
    sys.argv[1:] = arguments  # what the output was made with, as its provenance will say
    with only_merging():
        status = run(arguments)
    raise typer.Exit(status)


def _without_shard(arguments: list[str]) -> list[str]:
    kept = list(arguments)
    for i, argument in enumerate(arguments):
        if argument == "--shard":
            del kept[i : i + 2]
        elif argument.startswith("--shard="):
            del kept[i]
    return kept
