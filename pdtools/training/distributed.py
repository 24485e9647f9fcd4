"""The processes that train one model together, as torchrun starts them: their ranks and communication."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from pdtools.errors import PdtoolsError

_TIMEOUT = timedelta(minutes=30)  # others may have to wait for a checkpoint on a slow disk
_LAST_SECONDS = 10.0  # time that rank 0 waits for others to end
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """One process among those that train together.

    Args:
        rank: its number; rank 0 writes files and reports.
        size: number of processes.
        control: the group that exchanges small numbers on the CPU, if it is not the default group.
    """

    rank: int = 0
    size: int = 1
    control: Any = None

    @property
    def is_main(self) -> bool:
        """Return whether this is the process that writes and reports."""
        return self.rank == 0

    def add_up(self, tensor: torch.Tensor) -> None:
        """Replace a tensor on the model's device by its sum over all ranks."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def largest(self, number: int) -> int:
        """The largest of the ranks' numbers; waits for all ranks, but not for a GPU."""
        if self.size == 1:
            return number
        value = torch.tensor(number)
        dist.all_reduce(value, op=dist.ReduceOp.MAX, group=self.control)
        return int(value)

    def gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Every rank's tensor, by rank; on the CPU, with one shape and type."""
        if self.size == 1:
            return [tensor]
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(gathered, tensor, group=self.control)
        return gathered

    def wait(self) -> None:
        """Wait for all ranks."""
        self.largest(0)


ALONE = Ranks()


def seed_rank(seed: int, rank: int, step: int) -> None:
    """Seed a rank's own random numbers (for dropout), from a step on."""
    state = np.random.SeedSequence([seed, rank, step]).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0]) >> 1)


def started_by_torchrun() -> bool:
    """Return whether torchrun (or a script that sets the same variables) started several processes."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def local_device(name: str) -> str:
    """The device of this rank: ``auto`` and ``cuda`` mean the GPU of its number on this host.

    Raises:
        PdtoolsError: if one GPU is named for all, or there are more processes than GPUs on this host.
    """
    if not started_by_torchrun() or name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return name
    if name.startswith("cuda:"):
        raise PdtoolsError(f"--device {name}: under torchrun every process takes its own GPU: --device cuda")
    local, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if name in ("auto", "cuda") and local >= gpus:
        raise PdtoolsError(f"process {local} of this host has no GPU: there are {gpus} (--nproc-per-node)")
    return f"cuda:{local}" if name in ("auto", "cuda") else name


@contextlib.contextmanager
def torchrun_ranks(device: str) -> Iterator[Ranks]:
    """Join the other processes that torchrun started; without torchrun, do nothing.

    NCCL moves tensors between GPUs, gloo between CPUs. At the end all ranks leave together: none closes its
    connections while another may still use them, nor leaves that to the end of Python. If the block fails in
    several ranks, as it does when one rank's end stops the others, only the first error is raised; the other
    ranks just exit with status 1.

    Args:
        device: as the user named it (:func:`local_device`).

    Raises:
        PdtoolsError: if the device does not fit, or the other ranks cannot be reached, or are lost while the
            block runs.
    """
    if not started_by_torchrun():
        yield ALONE
        return
    if not dist.is_available():
        raise PdtoolsError("this PyTorch was built without torch.distributed: train with one process")
    store: dist.Store | None = None
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=_TIMEOUT))
        yield _join(local_device(device), store, rank, size)
        _part(store, rank, size)
    except Exception as error:
        if not _is_first_failure(store):
            raise SystemExit(1) from error  # the first one has reported the reason
        if _is_lost_contact(error):
            reason = re.sub(r"\[/\S+\] ", "", str(error).splitlines()[0]).split(". ")[0]  # no source files
            raise PdtoolsError(
                f"lost contact with another process of the run ({reason}); --resume continues from last/"
            ) from error
        raise


def _join(device: str, store: dist.Store, rank: int, size: int) -> Ranks:
    if torch.device(device).type != "cuda":
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_TIMEOUT)
        return Ranks(rank=rank, size=size)
    torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl", store=store, rank=rank, world_size=size, timeout=_TIMEOUT, device_id=torch.device(device)
    )
    # Flags are exchanged between CPUs, so that checking one every step does not hold up the GPU.
    return Ranks(rank=rank, size=size, control=dist.new_group(backend="gloo", timeout=_TIMEOUT))


def _part(store: dist.Store, rank: int, size: int) -> None:
    """Close this rank's connections when all ranks are done; rank 0, which may hold the store, is last."""
    store.add("pdtools/through", 1)
    _await(store, "pdtools/through", size, _TIMEOUT.total_seconds())
    gc.collect()  # models in cycles hold groups, whose threads are to end here
    dist.destroy_process_group()
    store.add("pdtools/gone", 1)
    if rank == 0:
        _await(store, "pdtools/gone", size, _LAST_SECONDS)


def _await(store: dist.Store, key: str, count: int, seconds: float) -> None:
    """Wait for ``count`` ranks to count themselves in, for at most ``seconds``; signals are handled."""
    end = time.monotonic() + seconds
    while store.add(key, 0) < count and time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)


def _is_first_failure(store: dist.Store | None) -> bool:
    """Return whether no other rank has failed before this one; True if that can no longer be asked."""
    if store is None:
        return True
    try:
        return bool(store.add("pdtools/failures", 1) == 1)
    except (RuntimeError, ValueError):
        return True


def _is_lost_contact(error: Exception) -> bool:
    """Return whether an error came from a broken connection: gloo's is a plain RuntimeError."""
    return isinstance(error, dist.DistError) or (type(error) is RuntimeError and "gloo" in str(error))
