"""What the subcommands share: options that behave the same everywhere, progress, and JSON output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pdtools.errors import MissingDependencyError, PdtoolsError
from pdtools.files import STDIO, check_output, is_stream, write_json

if TYPE_CHECKING:
    from pdtools.evaluation.results import Results
    from pdtools.files import Rejects
    from pdtools.jobs import JobFolder, Plan
    from pdtools.search import Scorer
    from pdtools.search.scorer import Searcher
    from pdtools.search.work import ModelSettings

T = TypeVar("T")
PICTURES = (".svg", ".png", ".pdf")


class OnError(str, Enum):
    """What a command does at the first bad input."""

    fail = "fail"
    skip = "skip"


class Source(str, Enum):
    """What input files hold."""

    text = "text"
    tokens = "tokens"
    treebank = "treebank"


class Style(str, Enum):
    """How words become text."""

    ptb = "ptb"
    raw = "raw"


class Dtype(str, Enum):
    """What a model's weights are converted to for scoring."""

    float32 = "float32"
    bf16 = "bf16"


OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an output that exists.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no messages.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, ...")]
ThreadsOption = Annotated[int, typer.Option("--threads", min=0, help="CPU threads (0: all).")]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, help="Number of processes; the result does not depend on it.")
]
ShardOption = Annotated[
    str | None,
    typer.Option(
        "--shard", metavar="I/N", help="Do part I of N of the work (I from 0); then run pdtools merge."
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler whose workers do the work."),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Continue an earlier run that was interrupted, if there was one.")
]
OnErrorOption = Annotated[
    OnError, typer.Option("--on-error", help="On bad input: stop, or record it in the rejects and continue.")
]
ModelOption = Annotated[
    str, typer.Option("--model", metavar="DIR", help="A checkpoint, or a run folder of pdtools train.")
]
ScoredModelOption = Annotated[
    str, typer.Option("--model", metavar="DIR", help="A checkpoint, a run, or a Hugging Face causal LM.")
]
EvaluatedModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="DIR", help="A checkpoint, a run, or a Hugging Face causal LM."),
]
SurprisalsOption = Annotated[
    str | None,
    typer.Option(
        "--surprisals", metavar="FILE", help="Instead of a model: surprisals that were computed elsewhere."
    ),
]
WriteSentencesOption = Annotated[
    str | None,
    typer.Option(
        "--write-sentences", metavar="FILE", help="Write the sentences (TSV; or -) instead of scoring them."
    ),
]
TextOnlyOption = Annotated[
    bool, typer.Option("--text-only", help="--write-sentences: only the text, without a header.")
]
RecordedOnErrorOption = Annotated[
    OnError,
    typer.Option("--on-error", help="If --surprisals do not fit a sentence: stop, or leave it out."),
]
RecordedNatsOption = Annotated[bool, typer.Option("--nats", help="--surprisals are in nats, not bits.")]
BeamOption = Annotated[int, typer.Option("--beam", min=1, help="Hypotheses kept after each token.")]
MaxBatchOption = Annotated[
    int | None,
    typer.Option("--max-batch", min=1, help="Sentences per batch (default: as many as memory allows)."),
]
DtypeOption = Annotated[
    Dtype,
    typer.Option("--dtype", help="Type of the weights. bf16: faster on processors that have it, less exact."),
]
BosOption = Annotated[
    bool,
    typer.Option(
        "--bos/--no-bos", help="Hugging Face models: read a beginning-of-sentence token first, or not."
    ),
]


def progress(items: Iterable[T], *, total: int | None, label: str, quiet: bool) -> Iterator[T]:
    """Pass items through with a bar and the time left on standard error; silent off a terminal."""
    if quiet or not sys.stderr.isatty():
        yield from items
        return
    from tqdm import tqdm

    yield from tqdm(items, total=total, desc=label, unit="", dynamic_ncols=True, file=sys.stderr)


@contextmanager
def counter(label: str, *, quiet: bool) -> Iterator[Callable[[int], object]]:
    """A count on standard error of what is done, and how fast; silent off a terminal. Called with numbers."""
    if quiet or not sys.stderr.isatty():
        yield lambda n: None
        return
    from tqdm import tqdm

    with tqdm(desc=label, unit="", dynamic_ncols=True, file=sys.stderr) as shown:
        yield shown.update


def bar(label: str, *, quiet: bool) -> Callable[[Iterable[T], int | None], Iterator[T]]:
    """:func:`progress` as the library's evaluations take it: called with items and their number."""
    return lambda items, total: progress(items, total=total, label=label, quiet=quiet)


def message(text: str, *, quiet: bool) -> None:
    """A line for the person at the terminal, on standard error."""
    if not quiet:
        print(text, file=sys.stderr)


def print_json(value: Any) -> None:
    """The one JSON document of ``--json``, on standard output."""
    write_json(STDIO, value)


def deliver(
    results: Results,
    made: dict[str, Any],
    output: str | None,
    show: Callable[[Results], None],
    *,
    rejects: Rejects | None = None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """End an evaluation: write its folder, if wanted, and print the JSON document, or what ``show`` does."""
    from pdtools.evaluation.results import write_results

    if output:
        write_results(output, results, made, rejects=rejects, overwrite=overwrite)
    if as_json:
        print_json(results.document(made))
    else:
        show(results)


def check_picture(
    path: str, *, overwrite: bool, inputs: Sequence[str] = (), output: str | None = None
) -> None:
    """Refuse, before the work that it is to show, a figure that could not be drawn."""
    from importlib.util import find_spec

    if os.path.splitext(path)[1] not in PICTURES:
        raise typer.BadParameter(f"{path}: a picture's name ends in {', '.join(PICTURES)}")
    if output:
        check_different(path, output)
    check_output(path, overwrite=overwrite, inputs=inputs)
    if find_spec("matplotlib") is None:
        raise MissingDependencyError("matplotlib", extra="plot")


def check_different(*outputs: str) -> None:
    """Refuse to write two of a command's outputs to one place.

    Raises:
        typer.BadParameter: naming the second one.
    """
    seen: set[str] = set()
    for output in outputs:
        folder, name = os.path.split(os.path.abspath(output))
        place = os.path.join(os.path.realpath(folder), name)  # a link is replaced, not what it leads to
        if not is_stream(output) and place in seen:
            raise typer.BadParameter(f"{output}: two outputs of this name: give each its own")
        seen.add(place)


def make_plan(workers: int, shard: str | None, scheduler: str | None, resume: bool) -> Plan:
    """Who does the pieces of the work."""
    from pdtools.jobs import Plan, Shard

    return Plan(
        workers=workers,
        shard=None if shard is None else Shard.parse(shard),
        scheduler=scheduler,
        resume=resume,
    )


def threads_of_each(threads: int, workers: int) -> int:
    """CPU threads of one worker: as asked for, or what is there, divided (0: all)."""
    if threads or workers == 1:
        return threads
    # A job may have few of a machine's processors.
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, there // workers)


def check_output_or_done(
    output: str, plan: Plan, *, overwrite: bool, inputs: Sequence[str] = (), beside: Sequence[str] = ()
) -> None:
    """Refuse an output that exists; with --resume, it is done already.

    Args:
        output: a file or folder; it appears after the others.
        plan: who does the work.
        overwrite: whether it may exist.
        inputs: files that are read for it.
        beside: other files that the command writes.

    Raises:
        Done: if there is nothing to do.
        PdtoolsError: if something is there that is not to be replaced, or a shard or an unfinished run would
            have to read standard input or a pipe again.
    """
    from pdtools.jobs import Done, begun, finished

    check_different(output, *beside)
    if plan.shard is not None and (streams := [name for name in inputs if is_stream(name)]):
        raise PdtoolsError(
            f"{streams[0]}: --shard needs files, because every job and pdtools merge read them"
        )
    goes_on = (plan.resume or plan.merging) and not is_stream(output)
    if goes_on and os.path.lexists(output):
        if finished(output, beside) or not (overwrite or begun(output)):
            raise Done(f"{output}: done already", {"output": output, "done": "already"})
        if not overwrite:
            raise PdtoolsError(
                f"{output}: exists already (--overwrite --resume continues the run that replaces it)"
            )
    check_output(output, overwrite=overwrite, inputs=inputs)
    for path in beside:  # an unfinished run may have written these
        check_output(path, overwrite=overwrite or (goes_on and begun(output)), inputs=inputs)


@contextmanager
def kept_pieces(
    output: str,
    settings: Mapping[str, Any],
    plan: Plan,
    *,
    beside: Sequence[str] = (),
    overwrite: bool,
    quiet: bool,
) -> Iterator[JobFolder | None]:
    """:func:`pdtools.jobs.job_folder`; whoever stops the command is told that it can go on."""
    from pdtools.jobs import job_folder

    with job_folder(output, settings, plan, beside=beside, overwrite=overwrite) as job:
        check_output(output, overwrite=overwrite)  # another run may have come to its end
        try:
            yield job
        except (KeyboardInterrupt, SystemExit):
            if job is not None and job.worth_keeping():
                message(f"{job.folder}: finished pieces are kept: {plan.how_to_go_on}", quiet=quiet)
            raise


def model_settings(
    plan: Plan,
    model: str,
    *,
    beam: int,
    bos: bool = True,
    max_batch: int | None,
    dtype: Dtype = Dtype.float32,
    device: str,
    threads: int,
) -> ModelSettings:
    """A model as the processes of the plan use it. A cluster's workers pick their devices themselves."""
    from pdtools.provenance import fingerprint
    from pdtools.search.work import ModelSettings

    each = threads_of_each(threads, plan.workers)
    if plan.merging:
        device = "cpu"  # nothing is computed; jobs had GPUs that this machine may not have
    if plan.scheduler is None:
        device = pick_device(device, each)
    return ModelSettings(
        model_dir=model if plan.scheduler is None else os.path.abspath(model),
        beam=beam,
        device=device,
        dtype=dtype.value,
        bos=bos,
        max_batch=max_batch,
        threads=each,
        fingerprint=fingerprint(model) if plan.has_other_processes else None,
    )


@contextmanager
def piecewise_scorer(
    output: str,
    settings: ModelSettings,
    plan: Plan,
    *,
    beside: Sequence[str] = (),
    overwrite: bool,
    quiet: bool,
) -> Iterator[Scorer]:
    """A model's scorer whose finished pieces are kept beside the output until the block has made that."""
    from pdtools.search.work import PiecewiseScorer, model_settings_for_job

    described = {"work": "scores", **model_settings_for_job(settings)}
    with kept_pieces(output, described, plan, beside=beside, overwrite=overwrite, quiet=quiet) as job:
        yield PiecewiseScorer(settings, plan, job)


@contextmanager
def piecewise_searcher(
    output: str,
    settings: ModelSettings,
    plan: Plan,
    *,
    beside: Sequence[str] = (),
    overwrite: bool,
    quiet: bool,
    **described: Any,
) -> Iterator[Searcher]:
    """The same for a model whose derivations are searched; ``described``: what else its results depend on."""
    from pdtools.search.work import PiecewiseSearcher, model_settings_for_job

    described = {"work": "parses", **described, **model_settings_for_job(settings)}
    with kept_pieces(output, described, plan, beside=beside, overwrite=overwrite, quiet=quiet) as job:
        yield PiecewiseSearcher(settings, plan, job)


_MOST_DIGITS = 6  # strings of a million symbols are no task


def parse_range(text: str, smallest: int = 1) -> range:
    """``15-50`` as the numbers from 15 to 50, ``15`` as that number."""
    first, dash, last = text.partition("-")
    if not dash:
        last = first
    if not all(number.isascii() and number.isdecimal() for number in (first, last)):
        raise typer.BadParameter(f"{text!r} is no range such as 15-50")
    if max(len(first), len(last)) > _MOST_DIGITS:
        raise typer.BadParameter(f"{text!r}: numbers have at most {_MOST_DIGITS} digits here")
    if not smallest <= int(first) <= int(last):
        raise typer.BadParameter(f"{text!r}: a range goes from {smallest} or more upwards, such as 15-50")
    return range(int(first), int(last) + 1)


def check_json_output(as_json: bool, output: str) -> None:
    """``--json`` owns standard output, so data has to go to a file."""
    if as_json and output == STDIO:
        raise typer.BadParameter("--json prints a report on standard output: give the data a file with -o")


_WITH_MODEL = dict.fromkeys(
    ("beam", "bos", "max_batch", "dtype", "device", "threads", "workers", "shard", "scheduler", "resume"),
    ("--model",),
)
_WITH_FILES = {
    "text_only": ("--write-sentences",),
    "nats": ("--surprisals",),
    "on_error": ("--surprisals",),
    "text_style": ("--write-sentences", "--surprisals"),
    "output": ("--model", "--surprisals", "--from-items"),
}


def pick_source(context: typer.Context, sources: Mapping[str, object]) -> str:
    """Which of several options, one of which has to be given, an evaluation takes its scores from.

    Args:
        context: of the command.
        sources: the options and their values; None or False where not given.

    Raises:
        typer.BadParameter: unless it is exactly one, and for another option that does not go with it.
    """
    chosen = [name for name, value in sources.items() if value not in (None, False)]
    if len(chosen) != 1:
        raise typer.BadParameter(f"give exactly one of {', '.join(sources)}")
    for parameter in context.command.params:
        goes_with = {**_WITH_MODEL, **_WITH_FILES}.get(str(parameter.name), sources)
        given = context.get_parameter_source(str(parameter.name))
        if chosen[0] not in goes_with and given is not None and given.name == "COMMANDLINE":
            raise typer.BadParameter(f"{parameter.opts[0]} does not go with {chosen[0]}")
    return chosen[0]


def required_output(output: str | None) -> str:
    """The folder of results, which has to be named."""
    if output is None:
        raise typer.BadParameter("name a folder for the results with -o")
    return output


def pick_device(name: str, threads: int) -> str:
    """Resolve ``auto``, check that the device exists, and set the number of CPU threads."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise PdtoolsError(f"--device {name}: must be auto, cpu, cuda or cuda:N")
    try:
        torch.empty(0, device=name)
        if ":" in name and name.startswith("cuda"):
            torch.cuda.set_device(name)  # where Triton launches kernels
    except (RuntimeError, AssertionError) as error:
        raise PdtoolsError(f"--device {name}: no such device here ({str(error).splitlines()[0]})") from error
    return name
