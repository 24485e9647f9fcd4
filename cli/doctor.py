"""``pdtools doctor``: inventory of a machine for pdtools, and the consequences of missing parts."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from .console import print_json
from .options import command

# For optional packages: the extra that brings each, and its use.
_OPTIONAL = {
    "transformers": ("hf", "models of Hugging Face"),
    "kenlm": ("ngrams", "n-gram models"),
    "benepar": ("parse", "parse, without --from and --parser"),
    "stanza": ("stanza", "parse --parser stanza"),
    "spacy": ("spacy", "parse --parser spacy"),
    "vl-convert-python": ("view", "pages and figures of view, drawings of inspect and eval-formal"),
    "starlette": ("serve", "serve"),
    "uvicorn": ("serve", "serve"),
    "wordfreq": ("reading", "eval-reading --wordfreq"),
    "dask": ("cluster", "--scheduler"),
}


@command("Report what this machine has, and what is slower without the rest.")
def doctor(as_json: bool = False) -> None:
    """Report what pdtools finds on this machine, and what is slower or missing without the rest.

    \b
    Example:
      pdtools doctor

    It lists versions, compiler, threads, GPUs, cache and optional packages. Run it first when something is
    slow, and add its output to a report of a problem.
    """
    from pdtools.report.tables import print_table

    findings = list(_examine())
    if as_json:
        print_json({"findings": [asdict(each) for each in findings]})
        return
    rows = [(each.what, each.found or f"none: {each.without}") for each in findings]
    print_table(["", "found"], rows)


@dataclass(frozen=True, slots=True)
class Finding:
    """One item of the inventory.

    Attributes:
        what: its name.
        found: a version, a path, a number; None: missing.
        without: the consequence of its absence; None: there is none.
    """

    what: str
    found: str | None
    without: str | None = None


def _examine() -> Iterator[Finding]:
    """Look for every item in turn; functions in C are compiled and tried."""
    import torch

    from pdtools.errors import how_to_install
    from pdtools.jobs.devices import memory_of
    from pdtools.provenance.origin import code

    about = code()
    commit = "" if about["commit"] is None else f", commit {about['commit'][:12]}"
    yield Finding("pdtools", f"{about['version']}{commit}")
    yield Finding("Python", f"{platform.python_version()} ({platform.system()} {platform.machine()})")
    yield Finding("torch", torch.__version__)
    yield Finding("threads", f"{torch.get_num_threads()} of {os.cpu_count()} processors")
    yield Finding("memory", f"{memory_of('cpu') / 2**30:.1f} GiB")
    yield _gpu()
    yield from _compiled()
    for package, (extra, use) in _OPTIONAL.items():
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found = None
        yield Finding(package, found, f"{use}: {how_to_install(extra)}")


def _gpu() -> Finding:
    import torch

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps (only if asked for by --device mps)")
    return Finding("GPU", ", ".join(names) or None, "everything runs on the CPU")


def _compiled() -> Iterator[Finding]:
    import torch

    from pdtools.files.kept import kept_folder
    from pdtools.models.kernels.decoding import library_for
    from pdtools.models.kernels.native import COMPILERS

    slower = "training and search take longer; results are the same up to rounding"
    compilers = filter(None, map(shutil.which, COMPILERS))
    yield Finding("C compiler", next(compilers, None), slower)
    is_there = library_for(torch.float32) is not None
    yield Finding("functions in C", "compiled" if is_there else None, slower)
    used = "attention and logits by functions in C, the attachment head by torch" if is_there else "by torch"
    yield Finding("released Pushdown LMs", used)
    folder = kept_folder()
    yield Finding(
        "cache",
        None if folder is None else f"{folder} ({_size(str(folder)) / 2**20:.1f} MiB)",
        "functions in C are compiled anew in each process, in seconds; PDTOOLS_CACHE names a folder",
    )


def _size(folder: str) -> int:
    return sum(each.stat().st_size for each in os.scandir(folder) if each.is_file())
