"""Checks of commands' outputs, before the work."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdtools.errors import MissingDependencyError, PdtoolsError
from pdtools.files import STDIO, check_output, is_stream, recover_directory, watch_inputs
from pdtools.files.packed import has_ending

from .console import message

if TYPE_CHECKING:
    from pdtools.jobs import Plan

PICTURES = (".svg", ".png", ".pdf")


def check_target(
    output: str | None,
    *,
    folder: bool,
    overwrite: bool,
    inputs: Sequence[str | None],
    says: bool = True,
    watched: bool = True,
) -> None:
    """Refuse an output that must not be written, report what it replaces, and watch its inputs.

    Args:
        output: a file or folder; None or a stream: there is nothing to refuse.
        folder: whether it is a folder.
        overwrite: whether it may exist.
        inputs: all files and folders that the command reads; None: one that is not given.
        says: whether what it replaces is reported.
        watched: whether the inputs must stay unchanged; a run in training does not.

    Raises:
        PdtoolsError: see :func:`pdtools.files.check_output`.
    """
    read = [name for name in inputs if name is not None]
    if output is not None:
        replaced = check_output(output, overwrite=overwrite, folder=folder, inputs=read)
        if replaced is not None and says:
            message(f"replacing {replaced} in {output}")
    if watched:
        watch_inputs(read)


def check_picture(
    path: str, *, overwrite: bool, inputs: Sequence[str | None], output: str | None = None
) -> None:
    """Refuse, before the work for it, a figure that could not be drawn."""
    from importlib.util import find_spec

    if not has_ending(path, PICTURES):
        raise typer.BadParameter(f"{path}: a picture's name ends in {', '.join(PICTURES)}")
    if output:  # the folder of results exists when its picture is drawn, and may hold it
        check_different(path, output, nested=True)
    check_target(path, folder=False, overwrite=overwrite, inputs=inputs)
    if find_spec("vl_convert") is None:
        raise MissingDependencyError("vl-convert-python", extra="view")


def check_different(*outputs: str, nested: bool = False) -> None:
    """Refuse to write two of a command's outputs to one place, or (but if ``nested``) one inside of another.

    Raises:
        typer.BadParameter: naming the second one, or the inner one.
    """
    places: dict[Path, str] = {}
    for output in outputs:
        if is_stream(output):
            continue
        folder, name = os.path.split(os.path.abspath(output))
        place = Path(os.path.realpath(folder), name)  # a link is replaced, not its target
        if sys.platform in ("darwin", "win32"):  # names that differ only in case are one there
            place = Path(str(place).casefold())
        if place in places:
            raise typer.BadParameter(f"{output}: two outputs of this name: give each its own")
        places[place] = output
    if nested:
        return
    for place, inner in places.items():
        for other, outer in places.items():
            if other in place.parents or Path(os.path.realpath(other)) in place.parents:
                raise typer.BadParameter(
                    f"{inner}: inside of {outer}, which is another output: choose a place outside of it"
                )


def check_output_or_done(
    output: str,
    plan: Plan,
    *,
    folder: bool,
    overwrite: bool,
    inputs: Sequence[str | None],
    beside: Sequence[str] = (),
) -> None:
    """Refuse an output that exists; with --resume, it is done already if a run of pdtools made it.

    Args:
        output: a file or folder; it appears after the others.
        plan: how the work is distributed.
        beside: other files that the command writes.
        folder, overwrite, inputs: see :func:`check_target`.

    Raises:
        Done: if there is nothing to do.
        PdtoolsError: if something exists that may not be replaced, or a slice or an unfinished run would
            have to read standard input or a pipe again.
    """
    from pdtools.files.manifest import is_whole
    from pdtools.jobs import Done, begun, finished, is_to_replace, job_path

    check_different(output, *beside)
    if plan.slice is not None and (streams := [name for name in inputs if name and is_stream(name)]):
        raise PdtoolsError(
            f"{streams[0]}: --shard needs files, because every job and pdtools merge read them"
        )
    resumes = (plan.resume or plan.merging) and not is_stream(output)
    recover_directory(output)
    if resumes and os.path.lexists(output):
        is_done, unfinished = finished(output, beside), begun(output)
        if not (overwrite or unfinished):
            is_done |= os.path.isdir(output) == folder and is_whole(Path(output))
        if is_done:
            raise Done(f"{output}: done already", {"output": output, "done": "already"})
        # The --overwrite of merged jobs applied to files that existed when they began.
        if unfinished and not (overwrite and (is_to_replace(output) or not plan.merging)):
            replace = "" if plan.merging else ", pass --overwrite --resume to replace it"
            raise PdtoolsError(
                f"{output}: exists already, but the unfinished run in {job_path(output)} did not make it;"
                f" its chunks are kept (move the output away{replace}, or delete the unfinished run)"
            )
    says = plan.slice is None  # a slice leaves the output to pdtools merge
    check_target(output, folder=folder, overwrite=overwrite, inputs=inputs, says=says)
    if not is_stream(output):
        check_different(str(job_path(output)), *beside)
    for path in beside:  # an unfinished run may have written these
        rewritten = overwrite or (resumes and begun(output))
        if not rewritten and os.path.lexists(path) and not is_stream(output) and begun(output):
            raise PdtoolsError(
                f"{path}: of an unfinished run (--resume continues it, --overwrite starts again)"
            )
        check_target(path, folder=False, overwrite=rewritten, inputs=inputs)


def check_form(*, as_json: bool, latex: bool) -> None:
    """Refuse two forms of one table."""
    if as_json and latex:
        raise typer.BadParameter("--json and --latex both print on standard output: give only one")


def check_json_output(as_json: bool, output: str) -> None:
    """Require a file for the data with ``--json``, which writes to standard output."""
    if as_json and output == STDIO:
        raise typer.BadParameter("--json prints a report on standard output: give the data a file with -o")


def required_output(output: str | None) -> str:
    """The folder of results, which is required."""
    if output is None:
        raise typer.BadParameter("name a folder for the results with -o")
    return output
