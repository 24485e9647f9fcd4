"""Execution of a command's work: outputs that are checked before it, workers, jobs, devices and chunks."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pdtools.errors import InputError, MissingDependencyError, PdtoolsError
from pdtools.files import (
    STDIO,
    Source,
    check_output,
    is_stream,
    read_json,
    read_lines,
    recover_directory,
    watch_inputs,
)
from pdtools.files.packed import has_ending
from pdtools.jobs.devices import pick_device
from pdtools.provenance.hub import pinned
from pdtools.search.scores import Measure

from .console import message
from .options import ChunkOptions, ContextOptions, ResultOptions, RunOptions

if TYPE_CHECKING:
    from pdtools.jobs import JobFolder, Plan
    from pdtools.search.model import Model, ModelSettings
    from pdtools.search.options import Context


def make_plan(run: ChunkOptions, merge_options: Sequence[str] = ()) -> Plan:
    """The distribution of the work's chunks; see :class:`pdtools.jobs.Plan`."""
    from pdtools.jobs import Plan, Slice

    return Plan(
        workers=run.workers,
        slice=None if run.shard is None else Slice.parse(run.shard),
        scheduler=run.scheduler,
        resume=run.resume,
        merge_options=tuple(merge_options),
    )


def threads_of_each(threads: int, workers: int) -> int:
    """CPU threads of one worker: the requested number, or the available ones, divided (0: all)."""
    if threads or workers == 1:
        return threads
    # A job may have few of a machine's processors.
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, there // workers)


@dataclass(frozen=True, kw_only=True)
class Output:
    """An output to be written, with the plan of the work; finished chunks are kept beside it.

    Attributes:
        path: a file, a folder or ``-``.
        options: whether it may exist, and whether messages are printed.
        plan: how the work is distributed.
        beside: other files that the command writes.
        far: inputs whose reading takes long; what was read of them is kept, too.
    """

    path: str
    options: ResultOptions
    plan: Plan
    beside: tuple[str, ...]
    far: tuple[Source, ...]

    @classmethod
    def check(
        cls,
        path: str,
        options: ResultOptions,
        *,
        folder: bool,
        inputs: Sequence[str | None],
        beside: Sequence[str] = (),
        merge_options: Sequence[str] = (),
    ) -> Output:
        """Refuse, before the work, outputs that could not be written after it.

        Args:
            folder: whether it is a folder.
            inputs: all files and folders that the command reads; None: one that is not given.
            merge_options: see :class:`pdtools.jobs.Plan`.
            path, options, beside: see the class.

        Raises:
            Done, PdtoolsError: see :func:`check_output_or_done`.
        """
        from pdtools.jobs import Plan

        plan = make_plan(options, merge_options) if isinstance(options, ChunkOptions) else Plan()
        check_output_or_done(
            path, plan, folder=folder, overwrite=options.overwrite, inputs=inputs, beside=beside
        )
        far = tuple(each for each in inputs if isinstance(each, Source) and each.is_far)
        return Output(path=path, options=options, plan=plan, beside=tuple(beside), far=far)

    @contextmanager
    def chunks(self, work: str, **described: Any) -> Iterator[JobFolder | None]:
        """The folder in which finished chunks are kept until the block has made the output.

        Args:
            work: the kind of a chunk's result; renamed when its form changes.
            described: everything else that the results of chunks depend on.
        """
        from pdtools.jobs import job_folder

        settings, overwrite = {"work": work, **described}, self.options.overwrite
        if self.far:
            settings["data"] = ", ".join(each.version for each in self.far)
        with job_folder(self.path, settings, self.plan, beside=self.beside, overwrite=overwrite) as job:
            check_output(self.path, overwrite=overwrite)  # another run may have finished
            for each in self.far:
                each.kept = None if job is None else job.chunks("rows")
            try:
                yield job
            except (KeyboardInterrupt, SystemExit):
                if job is not None and job.worth_keeping():
                    kept = f"{job.folder}: finished chunks are kept: {self.plan.how_to_resume}"
                    message(kept)
                raise

    @contextmanager
    def model(self, settings: ModelSettings, *, compares: bool = False, **described: Any) -> Iterator[Model]:
        """A model that is asked about sentences in chunks, which are kept.

        Args:
            settings: the model.
            compares: whether it compares sentences, with ``--beam auto``.
            described: further settings of its results.

        Raises:
            PdtoolsError: for ``--beam auto`` without such comparisons.
        """
        if not compares:
            settings.search.check_number()
        if not is_stream(self.path):  # which keeps no chunks: the model need not be identified
            described |= settings.for_job()
        with self.chunks("sentences", **described) as job:
            yield settings.load().in_chunks(self.plan, job)


def read_context(options: ContextOptions, *, documents: bool) -> Context:
    """The text read before sentences; ``documents``: whether these have any.

    Raises:
        PdtoolsError: if options cannot be combined.
        InputError: if the file has no sentence.
    """
    from pdtools.search.options import DOCUMENT, Context

    of, stride = options.preceding, options.stride
    if of is not None and stride is not None:
        raise PdtoolsError("--stride reads whole documents as one text: leave out --context")
    if of is None and options.context_parses is not None:
        raise PdtoolsError("--context-parses goes with --context")
    if of is None and stride is None and options.window is not None:
        raise PdtoolsError("--window goes with --context" + " or --stride" * documents)
    sentences: tuple[str, ...] = ()
    if of == DOCUMENT and not documents:
        raise PdtoolsError(
            "--context document: these sentences belong to no document: name a file of sentences"
        )
    if of is not None and of != DOCUMENT:
        sentences = tuple(text for _, text in read_lines(of) if text.strip())
        if not sentences:
            raise InputError("there is no sentence in the context", file=of)
        digest = hashlib.sha256("\n".join(sentences).encode(errors="surrogatepass")).hexdigest()
        of = f"{len(sentences)} sentences, sha256 {digest[:16]}"
    return Context(
        of=of,
        sentences=sentences,
        parses="beam" if options.context_parses == "beam" else "best",
        window=options.window,
        stride=stride,
    )


def model_settings(
    plan: Plan,
    model: str,
    run: RunOptions,
    *,
    cky: bool = False,
    context: Context | None = None,
    measures: tuple[Measure, ...] = (),
    parses: bool = False,
) -> ModelSettings:
    """A model's settings for the plan's processes. A cluster's workers pick their devices themselves."""
    from pdtools.models.checkpoint import checkpoint_folder
    from pdtools.provenance import fingerprint
    from pdtools.search.model import ModelSettings, is_ngrams
    from pdtools.search.options import NO_CONTEXT

    search = replace(run.search, cky=cky)
    if os.path.isfile(model) and not is_ngrams(model):
        checkpoint_folder(model)  # refuses it before all of it, which may be much, is read to identify it
    each = threads_of_each(run.threads, plan.workers)
    device = "cpu" if plan.merging else run.device  # to merge, jobs' GPUs are not needed
    if plan.scheduler is None:
        device = pick_device(device, each)
    return ModelSettings(
        model_dir=model if plan.scheduler is None else os.path.abspath(model),
        search=search,
        device=device,
        dtype=run.dtype,
        bos=run.bos,
        pll=run.pll,
        threads=each,
        context=context or NO_CONTEXT,
        measures=measures,
        parses=parses,
        fingerprint=fingerprint(model) if plan.has_other_processes else None,
    )


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
        PdtoolsError: if something exists that may not be replaced, or was made with other options, or a slice
            or an unfinished run would have to read standard input or a pipe again.
    """
    from pdtools.files.manifest import is_whole
    from pdtools.jobs import Done, begun, finished, is_to_replace, job_path

    check_different(output, *beside)
    if plan.slice is not None and (streams := [name for name in inputs if name and is_stream(name)]):
        raise PdtoolsError(
            f"{streams[0]}: --shard needs files, because every job and pdtools merge read them"
        )
    resumes = (plan.resume or plan.merging) and not is_stream(output)
    if resumes:
        recover_directory(output)
    if resumes and os.path.lexists(output):
        is_done, unfinished = finished(output, beside), begun(output)
        if not (overwrite or unfinished):
            is_done |= os.path.isdir(output) == folder and is_whole(Path(output))
        if is_done:
            if not plan.merging:
                _check_same_options(Path(output))
            done = f"{output}: done already"
            if not (folder or plan.merging):
                done += "; a file does not record with which options (--overwrite makes it anew)"
            raise Done(done, {"output": output, "done": "already"})
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


# Options that do not change results, and the name of the output.
_SAME_RESULTS = {field.name for field in fields(ChunkOptions)}
_SAME_RESULTS |= {"device", "threads", "latex", "details", "output"}


def _check_same_options(output: Path) -> None:
    """Refuse to take a complete folder for this command's output if it was made with other options.

    Raises:
        PdtoolsError: naming each option with both values. A file records no options: nothing is compared.
    """
    from .main import parsed

    records = [output / name for name in ("results.json", "manifest.json") if (output / name).is_file()]
    made = read_json(records[0]).get("provenance", {}).get("command", [])[1:] if records else []
    before, now = parsed(made), parsed(sys.argv[1:])
    if before is None or now is None:
        return
    if before.command.name != now.command.name:
        raise PdtoolsError(f"{output}: made by {before.command_path} (choose another name)")
    with_commits = parsed(pinned(sys.argv[1:])).params  # as jobs record names on the Hugging Face hub
    different = []
    for parameter in now.command.params:
        was, value = before.params[name := parameter.name], now.params[name]
        if name not in _SAME_RESULTS and was not in (value, with_commits[name]):
            called = parameter.opts[0] if parameter.param_type_name == "option" else name.upper()
            different.append(f"{called} was {was!r}, now {value!r}")
    if different:
        raise PdtoolsError(
            f"{output}: done already, but with other options: {', '.join(different)}"
            " (choose another name, or pass --overwrite)"
        )


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
