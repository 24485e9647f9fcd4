"""Functions in C for CPUs, compiled when they are first needed, if there is a compiler.

A library is built for the processor at hand, in half a second to two, and kept for later processes
(:mod:`pdtools.files.kept`). Windows deletes no library that is loaded: it stays among the temporary
files of the process that compiled it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdtools.files.kept import digest, keep, kept_file, kept_folder

COMPILERS = ("cc", "gcc", "clang")
_SECONDS = 60

# Lines of Linux' list that distinguish processors; the rest are their numbers and present speed.
_OF_PROCESSOR = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features")
_OF_ARM = ("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision")

# Options for the compiler of functions for these types. Without fused multiply-adds, which C99 leaves out by
# default, products take a quarter more time.
OPTIONS = {torch.float32: ("-ffp-contract=fast",), torch.float64: ("-ffp-contract=fast", "-DDOUBLE")}


def flags() -> Iterator[tuple[str, ...]]:
    """Flags for a compiler, best first: not every clang knows all of them."""
    # The name of -march on ARM.
    this_processor = "-mcpu=native" if platform.machine().lower() in ("arm64", "aarch64") else "-march=native"
    simd = () if sys.platform == "darwin" else ("-fopenmp-simd",)  # Apple's clang refuses options of OpenMP
    place = () if sys.platform == "win32" else ("-fPIC",)
    yield ("-O3", this_processor, *simd, "-std=c11", "-shared", *place)
    yield ("-O3", "-std=c11", "-shared", *place)


@cache
def native_library(package: str, name: str, functions: tuple[str, ...], *options: str) -> ctypes.CDLL | None:
    """Return the functions of a file in C; None without a compiler, or if the library cannot be loaded.

    Args:
        package: the package with the file.
        name: the name of the file, without ``.c``.
        functions: the names of its functions.
        options: for the compiler.
    """
    if (place := _place()) is None:
        _say_that_there_is_none(
            "no folder for temporary files that may be run (noexec? name one with TMPDIR or PDTOOLS_CACHE)"
        )
        return None
    for compiler, told in product(filter(None, map(shutil.which, COMPILERS)), flags()):
        # A full or read-only disk, flags that are not known, …
        with contextlib.suppress(OSError, subprocess.SubprocessError, AttributeError):
            return _compiled(place, (compiler, *told, *options), package, name, functions)
    _say_that_there_is_none(f"no C compiler that works ({', '.join(COMPILERS)})")
    return None


def _place() -> str | None:
    """The folder to compile in, of temporary files or kept ones; None if neither lets files be run."""
    for folder_of in (tempfile.gettempdir, kept_folder):
        with contextlib.suppress(OSError):  # no folder for temporary files can be written
            folder = folder_of()
            if folder and not (hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_NOEXEC):
                return str(folder)
    return None


@cache
def _say_that_there_is_none(reason: str) -> None:
    """Warn once in a process that nothing is compiled: a user misses one thing, whatever needs it."""
    warnings.warn(
        f"{reason}: functions in C are replaced by torch's operations; results are the same up to rounding,"
        " and training and search take longer",
        stacklevel=3,
    )


def _compiled(
    place: str, told: tuple[str, ...], package: str, name: str, functions: tuple[str, ...]
) -> ctypes.CDLL:
    files = resources.files(package).iterdir()
    wanted = [file for file in files if file.name == f"{name}.c" or file.name.endswith(".h")]
    sources = {file.name: file.read_bytes() for file in wanted}
    command = list(told)
    made_from = _made_from(command, sources)
    if made_from is not None and (kept := kept_file(f"{name}.so", made_from)) is not None:
        with contextlib.suppress(OSError, AttributeError):  # compiled on another system with the same home
            return _loaded(kept, functions)
    with tempfile.TemporaryDirectory(prefix="pdtools-", dir=place, ignore_cleanup_errors=True) as folder:
        for file_name, content in sources.items():
            Path(folder, file_name).write_bytes(content)
        file = Path(folder, f"{name}.so")
        command += ["-o", str(file), f"{name}.c", "-lm"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_SECONDS)
        library = _loaded(file, functions)
        if made_from is not None:
            keep(file.read_bytes(), f"{name}.so", made_from)
        return library


@cache
def processor() -> str | None:
    """A description that no processor with other instructions has; None if it is not known."""
    if sys.platform == "win32":
        return platform.processor() or None
    try:
        if sys.platform == "darwin":
            names = ("machdep.cpu.brand_string", "machdep.cpu.features")  # ARM has the first alone
            said = subprocess.run(["sysctl", "-n", *names], capture_output=True, text=True, timeout=5)
            return said.stdout or None
        first, _, _ = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    lines = [line for line in first.splitlines() if line.partition(":")[0].strip() in _OF_PROCESSOR + _OF_ARM]
    return "\n".join(lines) or None


def _made_from(command: Sequence[str], sources: Mapping[str, bytes]) -> str | None:
    """The digest of compiler, options, sources by name, and processor; None if that is not known."""
    if (here := processor()) is None:
        return None
    compiler = os.stat(command[0])
    return digest((here, *command, compiler.st_size, compiler.st_mtime_ns, sorted(sources.items())))


def _loaded(file: Path, functions: tuple[str, ...]) -> ctypes.CDLL:
    library = ctypes.CDLL(str(file))
    for function in functions:
        getattr(library, function)  # an AttributeError if it is not there
    return library


def share_among_threads(
    number: int, function: Callable[..., int], *arguments: Any, most: int | None = None
) -> None:
    """Call a function in C in each of torch's threads, or ``most`` of them, with some of ``number`` things.

    Args:
        function: a function whose last two arguments are the first thing and the end of its things. It
            returns 0 where there is no memory.
        arguments: its arguments before: integers, tensors and structures, of which it gets the addresses.

    Raises:
        MemoryError: if there is no memory.
    """
    if number == 0:
        return
    given = [_as_in_c(each) for each in arguments]

    def call(first: int) -> None:
        if not function(*given, ctypes.c_long(first), ctypes.c_long(min(first + share, number))):
            raise MemoryError("no memory for functions in C")

    at_most = torch.get_num_threads() if most is None else min(torch.get_num_threads(), most)
    share = -(-number // min(at_most, number))
    parts = range(0, number, share)
    if len(parts) == 1:
        call(0)
        return
    with ThreadPoolExecutor(len(parts)) as threads:  # ctypes lets others run meanwhile
        list(threads.map(call, parts))


def _as_in_c(argument: Any) -> Any:
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return ctypes.c_long(argument) if isinstance(argument, int) else ctypes.byref(argument)
