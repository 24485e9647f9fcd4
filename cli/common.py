"""What the subcommands share: options that behave the same everywhere, progress, and JSON output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Annotated, Any, TypeVar

import typer

from pdtools.errors import PdtoolsError
from pdtools.files import STDIO, write_json

T = TypeVar("T")


class OnError(str, Enum):
    """What a command does at the first bad input."""

    fail = "fail"
    skip = "skip"


class Source(str, Enum):
    """What input files hold."""

    text = "text"
    tokens = "tokens"
    treebank = "treebank"


OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an output that exists.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no messages.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, ...")]
ThreadsOption = Annotated[int, typer.Option("--threads", min=0, help="CPU threads (0: all).")]
OnErrorOption = Annotated[
    OnError, typer.Option("--on-error", help="At bad input: stop, or record it in the rejects and go on.")
]
ModelOption = Annotated[
    str, typer.Option("--model", metavar="DIR", help="A checkpoint, or a run folder of pdtools train.")
]
ScoredModelOption = Annotated[
    str, typer.Option("--model", metavar="DIR", help="A checkpoint, a run, or a Hugging Face causal LM.")
]
BeamOption = Annotated[int, typer.Option("--beam", min=1, help="Hypotheses kept after each token.")]
MaxBatchOption = Annotated[
    int | None,
    typer.Option("--max-batch", min=1, help="Sentences computed together (default: what memory allows)."),
]
BosOption = Annotated[
    bool,
    typer.Option("--bos/--no-bos", help="Hugging Face models: a beginning-of-sentence token first, or not."),
]


def progress(items: Iterable[T], *, total: int | None, label: str, quiet: bool) -> Iterator[T]:
    """Pass items through with a bar and the time left on standard error; silent off a terminal."""
    if quiet or not sys.stderr.isatty():
        yield from items
        return
    from tqdm import tqdm

    yield from tqdm(items, total=total, desc=label, unit="", dynamic_ncols=True, file=sys.stderr)


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


def check_json_output(as_json: bool, output: str) -> None:
    """``--json`` owns standard output, so data has to go to a file."""
    if as_json and output == STDIO:
        raise typer.BadParameter("--json prints a report on standard output: give the data a file with -o")


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
    except (RuntimeError, AssertionError) as error:
        raise PdtoolsError(f"--device {name}: no such device here ({str(error).splitlines()[0]})") from error
    return name
