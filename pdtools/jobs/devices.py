"""torch's devices and threads in a process, and the memory available to it."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pdtools.errors import PdtoolsError

if TYPE_CHECKING:
    import torch

_CGROUPS, _OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


_NO_FLOAT64 = ("mps",)
_MPS = (
    "mps has not been tried yet. It has no float64, so models with trees or stacks run on the CPU, as does"
    " what Metal has no operation for"
)


def prepare_torch(device: str, threads: int) -> str:
    """Set this process's CPU threads (0: torch's choice). Returns the device, with ``auto`` resolved."""
    import torch

    if device == "mps" and torch.backends.mps.is_available() and multiprocessing.parent_process() is None:
        warnings.warn(_MPS, stacklevel=2)

    if threads:
        torch.set_num_threads(threads)
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def pick_device(name: str, threads: int) -> str:
    """The device with ``auto`` resolved, like :func:`prepare_torch`, if it exists.

    Raises:
        PdtoolsError: if it does not.
    """
    if name != "mps" and name.partition(":")[0] not in ("auto", "cpu", "cuda"):
        raise PdtoolsError(f"--device {name}: must be auto, cpu, cuda, cuda:N or mps")
    name = prepare_torch(name, threads)
    import torch

    try:
        torch.empty(0, device=name)
        if ":" in name and name.startswith("cuda"):
            torch.cuda.set_device(name)  # Triton launches kernels there
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]
        raise PdtoolsError(f"--device {name}: no such device here ({reason})") from error
    return name


def widest_float(device: torch.device | str) -> torch.dtype:
    """The type in which sums are kept: float64; float32 on Apple's GPUs, which lack float64."""
    import torch

    return torch.float32 if torch.device(device).type in _NO_FLOAT64 else torch.float64


def device_for(device: str, *, needs_float64: bool) -> str:
    """The device for a model: ``device``, or the CPU if the model needs float64, which the device lacks."""
    return "cpu" if needs_float64 and device.partition(":")[0] in _NO_FLOAT64 else device


def torch_dtype(name: str, device: str) -> torch.dtype:
    """The type of that name; a warning where the device is slower with it."""
    import torch

    if name == "float32":
        return torch.float32
    warn_of_slow_bf16(device)
    return torch.bfloat16


def warn_of_slow_bf16(device: str, instead: str = "--dtype float32") -> None:
    """Say in one line, once, that this processor multiplies bf16 more slowly than float32, if it does.

    Args:
        device: the model's device.
        instead: the setting to use instead.
    """
    is_cpu = device.partition(":")[0] == "cpu"
    if is_cpu and multiprocessing.parent_process() is None and (ratio := _bf16_by_float32()) > 1:
        warnings.warn(
            f"bf16 products take {ratio:.1f} times as long as float32 on this processor: use {instead}",
            stacklevel=3,
        )


@cache
def _bf16_by_float32() -> float:
    """Time of a matrix product in bf16 over that in float32, measured in some milliseconds.

    Its instructions do not tell: those of AVX-512 BF16 have half the rate of float32 on some processors.
    """
    import torch

    sizes = ((256, 256), (256, 1024))
    matrices = {
        dtype: [torch.ones(size, dtype=dtype) for size in sizes] for dtype in (torch.float32, torch.bfloat16)
    }
    times: dict[torch.dtype, list[float]] = {dtype: [] for dtype in matrices}
    for _ in range(7):
        for dtype, (x, y) in matrices.items():
            start = time.perf_counter()
            torch.mm(x, y)
            times[dtype].append(time.perf_counter() - start)
    return min(times[torch.bfloat16]) / min(times[torch.float32])


def memory_of(device: str) -> int:
    """Bytes of memory of a device; for the CPU, within the limits of the system and the process."""
    if device == "mps":
        import torch

        return int(torch.mps.recommended_max_memory())
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.get_device_properties(device).total_memory)
    found = [_cgroup_limit(), _installed()]
    try:
        import resource
    except ImportError:  # not on Windows
        return min(found)
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min(*found, sys.maxsize if limit == resource.RLIM_INFINITY else limit)


def _installed() -> int:
    """Bytes of memory in the machine; the largest number if unknown."""
    if sys.platform == "win32":
        kib = ctypes.c_ulonglong()
        found = ctypes.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kib))
        return kib.value * 1024 if found else sys.maxsize
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def _cgroup_limit() -> int:
    """Bytes that a container, or a job of Slurm, may use: the least limit of its control groups."""
    limits = [sys.maxsize]
    try:
        groups = _OWN_CGROUPS.read_text("utf-8").splitlines()
    except OSError:
        return sys.maxsize
    for group in groups:
        _, controllers, path = group.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        # Version 2 has one tree of groups, version 1 one for memory alone.
        tree, name = (_CGROUPS / controllers, "memory.limit_in_bytes" if controllers else "memory.max")
        own = tree / path.strip("/")
        for folder in (own, *own.parents):
            try:
                limits.append(int((folder / name).read_text("utf-8")))
            except (OSError, ValueError):  # none, or "max"
                continue
    return min(limits)
