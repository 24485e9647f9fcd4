"""``pdtools merge``: the chunks of several jobs into one output."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import typer

from pdtools.errors import InputError
from pdtools.jobs.folder import job_path

from .options import command

# Options of merged commands that name files to write, besides --output.
_WRITTEN_BESIDE = ("scores", "write_sentences", "plot", "table")


@command("Make the output of a command that was divided with --shard.")
def merge(
    ctx: typer.Context,
    output: str,
    scores: str | None = None,
) -> None:
    """Make the output of a command whose work was divided among jobs with --shard I/N.

    \b
    Example:
      pdtools merge big.trees

    The jobs have called, for instance, "pdtools decode big.txt --model run -o big.trees --shard 0/8". When
    all are done, this runs the command again, in the folder where it was run, and reads the chunks in
    OUTPUT.job. If some are missing, it names them and changes nothing.

    Arguments:
        output (OUTPUT): The output, as named with -o in the jobs.

    Output:
        scores (FILE.tsv): decode: the file of --scores, as named in the jobs.
    """
    from pdtools.files.manifest import is_whole
    from pdtools.jobs import finished, only_merging, read_job

    from .console import message
    from .main import parsed

    if is_whole(Path(output)) and not job_path(output).exists():
        finished(output)  # deletes files that a killed merge may have left
        message(f"{output} is there already, and there are no chunks of it")
        return
    job = read_job(job_path(output))
    arguments = _without_shard(job["command"])
    context = parsed(arguments)
    if context is None or all(parameter.name != "shard" for parameter in context.command.params):
        raise InputError("not begun by a command of pdtools that works in chunks", file=job_path(output))
    _check_outputs(context.params, job, output, scores)
    os.chdir(job["folder"])
    sys.argv[1:] = arguments  # the provenance gets the command that made the output
    with only_merging():
        commands: Any = ctx.find_root().command
        raise typer.Exit(commands.main(arguments, prog_name="pdtools", standalone_mode=False))


def _check_outputs(given: dict[str, Any], job: dict[str, Any], output: str, scores: str | None) -> None:
    """Refuse a job that would write anything but the named files: it may be somebody else's.

    Raises:
        InputError: naming the file that it would write.
    """
    file = job_path(output)
    hint = "was the folder moved? Run the command with --resume instead of --shard to continue"
    for made in (job["output"], given.get("output") or ""):
        if not _is_same(made, job, output):
            raise InputError(f"its jobs were to make {made or 'nothing'}", file=file, hint=hint)
    for beside in _WRITTEN_BESIDE:
        file_name = given.get(beside)
        if file_name is None or (beside == "scores" and scores and _is_same(file_name, job, scores)):
            continue
        option = "--" + beside.replace("_", "-")
        again = shlex.join(["pdtools", "merge", output, option, file_name])
        right = f"if that is right: {again}" if beside == "scores" else None
        raise InputError(f"its jobs were to write {file_name} too ({option})", file=file, hint=right)


def _is_same(made: str, job: dict[str, Any], named: str) -> bool:
    """Return whether a name in a job, relative to the job's folder, is the file named here."""
    return os.path.realpath(os.path.join(job["folder"], made)) == os.path.realpath(named)


def _without_shard(arguments: list[str]) -> list[str]:
    kept: list[str] = []
    following = iter(arguments)
    for argument in following:
        if argument == "--shard":
            next(following, None)
        elif not argument.startswith("--shard="):
            kept.append(argument)
    return kept
