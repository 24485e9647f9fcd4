"""The processes that train one model together, as torchrun starts them: ranks, communication, and the model,
copied to all of them (DDP) or divided among them (FSDP2)."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pdtools.errors import PdtoolsError
from pdtools.models import Batch, LanguageModel, LossParts

Distribution = Literal["ddp", "fsdp"]

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


class _Loss(nn.Module):
    """A model whose call returns its loss as a tuple: wrappers look for tensors in a call's result."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model
        self.names: list[list[str]] = []  # names of the last call's sums, counts and rows

    def forward(self, batch: Batch) -> tuple[Tensor, ...]:
        parts = vars(self.model.loss(batch)).values()
        self.names = [list(part) for part in parts]
        return tuple(tensor for part in parts for tensor in part.values())


class ParallelModel:
    """The training interface of a model on any number of ranks.

    Args:
        model: the same on every rank; on the CPU or on ``device``. It is moved to ``device``.
        device: this rank's device.
        ranks: the processes that train together.
        distribution: ``ddp``: each rank holds the model, and the backward pass averages the gradients.
            ``fsdp``: each rank holds a part of every weight, gradient and moment; a block's weights are
            gathered while the block runs. Without effect on a single process.

    Raises:
        PdtoolsError: if this PyTorch has no FSDP2.
    """

    def __init__(
        self, model: LanguageModel, device: str, ranks: Ranks = ALONE, distribution: Distribution = "ddp"
    ) -> None:
        self.ranks = ranks
        self._loss = _Loss(model)
        self._divided: Any = None
        self._copied: DistributedDataParallel | None = None
        if ranks.size > 1 and distribution == "fsdp":
            self._divided = _divide(self._loss, device)
            self.model = model
            return
        self.model = model.to(device)
        if ranks.size > 1:
            gpus = [torch.device(device)] if torch.device(device).type == "cuda" else None
            self._copied = DistributedDataParallel(self._loss, device_ids=gpus, gradient_as_bucket_view=True)

    @property
    def is_whole(self) -> bool:
        """Return whether this rank holds all weights."""
        return self._divided is None

    def loss(self, batch: Batch) -> LossParts:
        """The sums of this rank's batch; every rank has to call it equally often."""
        wrapped = self._divided or self._copied
        if wrapped is None:
            return self.model.loss(batch)
        tensors = iter(wrapped(batch))
        return LossParts(*({name: next(tensors) for name in part} for part in self._loss.names))

    @contextlib.contextmanager
    def reducing(self, wanted: bool) -> Iterator[None]:
        """Choose whether backward passes in the block reduce the gradients over the ranks.

        Without, they are only accumulated on each rank; the next reduction includes them.
        """
        if self._divided is not None:
            self._divided.set_requires_gradient_sync(wanted)
        keeping = self._copied.no_sync() if self._copied is not None and not wanted else None
        with keeping or contextlib.nullcontext():
            yield

    def gradients(self) -> list[Tensor]:
        """This rank's (part of the) mean of all ranks' gradients; changing them changes the gradients."""
        gradients: list[Any] = [p.grad for p in self.model.parameters() if p.grad is not None]
        return gradients if self._divided is None else [gradient.to_local() for gradient in gradients]

    def total_norm(self, gradients: list[Tensor]) -> Tensor:
        """The norm of the whole gradient, the same on every rank: float ()."""
        norm = nn.utils.get_total_norm(gradients)
        if self._divided is not None:
            squares = norm.square()
            self.ranks.add_up(squares)
            norm = squares.sqrt()
        return norm

    def settle(self) -> None:
        """Free weights that a forward pass gathered, so that parameters are the divided ones."""
        if self._divided is not None:
            for module in self._divided.modules():
                if hasattr(module, "reshard"):
                    module.reshard()

    def weights(self) -> dict[str, Tensor]:
        """The whole model's state dict on rank 0, nothing on others; every rank has to call it."""
        self.settle()
        return self.whole(self.model.state_dict())

    def whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Gather divided tensors on the CPU of rank 0, nothing on others; every rank has to call it."""
        whole = {}
        for name, tensor in tensors.items():
            put_together = _put_together(tensor)
            if self.ranks.is_main:
                whole[name] = put_together if self._divided is None else put_together.cpu()
        return whole


def _put_together(tensor: Any) -> Tensor:
    """The whole of a tensor, which may be divided."""
    return cast(Tensor, tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor)


def divided_like(tensor: Tensor, parameter: Any) -> Tensor:
    """Move a whole tensor to a parameter's device, divided like the parameter."""
    if not hasattr(parameter, "full_tensor"):
        return tensor.to(parameter.device)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(parameter.device), parameter.device_mesh, parameter.placements)


def _divide(loss: _Loss, device: str) -> nn.Module:
    """Divide each block of a model over the ranks, and the parameters outside of blocks."""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise PdtoolsError("--distributed fsdp needs PyTorch 2.6 or newer (or use ddp)") from error
    mesh = dist.init_device_mesh(torch.device(device).type, (dist.get_world_size(),))
    for blocks in loss.model.children():
        if isinstance(blocks, nn.ModuleList):
            for block in blocks:
                fully_shard(block, mesh=mesh)
    fully_shard(loss, mesh=mesh)
    return loss
