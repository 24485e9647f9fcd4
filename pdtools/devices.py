"""How a process uses torch, and how much memory there is for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_CGROUPS, _OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def prepare_torch(device: str, threads: int) -> str:
    """Set this process's CPU threads (0: as torch finds best). Returns the device, with ``auto`` resolved."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def memory_of(device: str) -> int:
    """Bytes of memory of a device; of the CPU, what the system and the limits of the process allow."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.get_device_properties(device).total_memory)
    found = [_cgroup_limit()]
    try:
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        import resource
    except (ImportError, AttributeError, ValueError, OSError):  # not on every system
        return min(found)
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min(*found, sys.maxsize if limit == resource.RLIM_INFINITY else limit)


def _cgroup_limit() -> int:
    """Bytes that a container, or a job of Slurm, may use: the least of what its groups of processes may."""
    limits = [sys.maxsize]
    try:
        groups = _OWN_CGROUPS.read_text().splitlines()
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
                limits.append(int((folder / name).read_text()))
            except (OSError, ValueError):  # none, or "max"
                continue
    return min(limits)
