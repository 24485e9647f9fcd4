"""Execution of a command's work: workers, jobs, devices and chunks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Source, check_output, is_stream, read_lines
from pdtools.jobs.devices import pick_device
from pdtools.search.scores import Measure

from .console import message
from .options import ChunkOptions, ContextOptions, ResultOptions, RunOptions
from .outputs import check_output_or_done

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
    from pdtools.search.model import ModelSettings
    from pdtools.search.options import NO_CONTEXT

    search = replace(run.search, cky=cky)
    if os.path.isfile(model):
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
        threads=each,
        context=context or NO_CONTEXT,
        measures=measures,
        parses=parses,
        fingerprint=fingerprint(model) if plan.has_other_processes else None,
    )
