"""One model trained by several processes: copied to all of them (DDP), or divided among them (FSDP2)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pdtools.errors import PdtoolsError
from pdtools.models import Batch, LanguageModel, LossParts
from pdtools.training.distributed import ALONE, Ranks

Distribution = Literal["ddp", "fsdp"]


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
