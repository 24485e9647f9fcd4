"""The state that a run needs besides its weights to resume: safetensors and JSON, no pickle."""

from __future__ import annotations

import dataclasses
import itertools
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from pdtools.errors import InputError
from pdtools.files import read_json, utf8_name, write_json, write_tensors
from pdtools.files.manifest import check_checksums, write_checksums
from pdtools.files.typed_values import as_type
from pdtools.training.distributed import ParallelModel, Ranks, divided_like, seed_rank
from pdtools.training.loss import NAMES
from pdtools.training.run_folder import RunFolder

_JSON, _TENSORS = "state.json", "state.safetensors"
_OPTIMIZER_KEYS = (("step", "exp_avg", "exp_avg_sq"), ("momentum_buffer",))  # AdamW's and Muon's


@dataclass(kw_only=True)
class RunState:
    """The progress of a run.

    Args:
        step: updates done.
        epoch, taken: the position in the batches (see :class:`~pdtools.training.batches.BatchSource`).
        beside: the position in batches for single terms of the loss, by the terms' names.
        evaluated_step: the step of the newest evaluation.
        best_loss, best_step, best_scores: the best evaluation so far.
        best_metric: for prompts, the task's score there, which comes before the loss.
        bad_evaluations: evaluations since then.
        learning_rate_factor: the present factor of the schedule ``plateau``.
        stale_evaluations: evaluations without improvement since the best, or since the factor last changed.
        tokens: tokens trained on.
        seconds: time spent, over all its parts.
        window_seconds: time spent on steps since the last log line.
        step_seconds, loading_seconds: time spent on steps, and the part of it spent waiting for batches.
        metrics_size: bytes in ``metrics.jsonl``.
        finished: the reason why the run is over: ``steps`` or ``patience``; None if it is not.
    """

    step: int = 0
    epoch: int = 0
    taken: int = 0
    beside: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    evaluated_step: int = 0
    best_loss: float | None = None
    best_metric: float | None = None
    best_step: int = 0
    best_scores: dict[str, Any] = field(default_factory=dict)
    bad_evaluations: int = 0
    learning_rate_factor: float = 1.0
    stale_evaluations: int = 0
    tokens: int = 0
    seconds: float = 0.0
    window_seconds: float = 0.0
    step_seconds: float = 0.0
    loading_seconds: float = 0.0
    metrics_size: int = 0
    finished: str | None = None


def state_tensors(
    model: ParallelModel, optimizer: torch.optim.Optimizer, window: torch.Tensor
) -> dict[str, torch.Tensor]:
    """The optimizer's tensors, every rank's random generators, the sums since the last log line by name.

    Every rank has to call it; ranks above 0 get nothing.
    """
    model.settle()
    tensors = {f"window.{name}": value.clone() for name, value in zip(NAMES, window, strict=True)}
    tensors |= _random_states("rng.cpu", torch.get_rng_state(), model.ranks)
    if window.is_cuda:
        tensors |= _random_states("rng.cuda", torch.cuda.get_rng_state(window.device), model.ranks)
    for name, parameter in model.model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{key}.{name}"] = value
    tensors |= {f"stream.{name}": value.contiguous() for name, value in model.model.stream_state().items()}
    return model.whole(tensors)


def save_state(folder: Path, state: RunState, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write the state and the tensors of :func:`state_tensors`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / _TENSORS, tensors)
    write_json(folder / _JSON, dataclasses.asdict(state))
    write_checksums(folder, [_JSON, _TENSORS])


def run_state(run: Path) -> RunState:
    """The progress of a run at its last checkpoint; without one, at its start.

    Raises:
        InputError: if the state is damaged.
    """
    folder = RunFolder(run).trainer
    return _read_state(folder) if (folder / _JSON).exists() else RunState()


def _read_state(folder: Path) -> RunState:
    try:
        return _state_of(read_json(folder / _JSON))
    except (TypeError, ValueError, OSError) as error:
        raise InputError(f"damaged trainer state: {error}", file=folder) from error


def _state_of(record: Any) -> RunState:
    """Read a state from its record; raise a TypeError or ValueError for an invalid one."""
    if not isinstance(record, dict) or not isinstance(record.get("best_scores", {}), dict):
        raise TypeError("not the record of a state")
    kinds = typing.get_type_hints(RunState)
    for name, value in record.items():
        if name in kinds and name != "best_scores":
            record[name] = value = as_type(value, kinds[name])
        if name == "beside" and any(number < 0 for position in value.values() for number in position):
            raise ValueError(f"{name} is {value}")
        signed = name in ("best_loss", "best_metric")
        if isinstance(value, (int, float)) and not signed and not 0 <= value < 2**63:
            raise ValueError(f"{name} is {value}")
    return RunState(**record)


def load_state(
    folder: Path, model: ParallelModel, optimizer: torch.optim.Optimizer, device: str, seed: int
) -> tuple[RunState, torch.Tensor]:
    """Read the files of :func:`save_state`: fill the optimizer, set the random generators.

    A rank that the run did not have before gets its own random numbers, from the seed and the step.

    Returns:
        The state, and the sums since the last log line on ``device``.

    Raises:
        InputError: if a file is missing or damaged, or belongs to another model.
    """
    check_checksums(folder)
    state = _read_state(folder)
    try:
        with utf8_name(folder / _TENSORS) as file, safe_open(file, framework="pt") as tensors:
            names = set(tensors.keys())
            for name, parameter in model.model.named_parameters():
                # A parameter without a gradient so far has none; if it has one, all of that optimizer.
                there = (keys for keys in _OPTIMIZER_KEYS if f"optimizer.{keys[0]}.{name}" in names)
                for key in itertools.chain.from_iterable(there):
                    value = tensors.get_tensor(f"optimizer.{key}.{name}")
                    if key == "step":
                        optimizer.state[parameter][key] = value.to(parameter.device)
                        continue
                    if value.shape != parameter.shape:
                        shape = tuple(value.shape)
                        raise InputError(f"the optimizer's state of {name} has shape {shape}", file=folder)
                    optimizer.state[parameter][key] = divided_like(value, parameter)
            streams = {
                name.removeprefix("stream."): tensors.get_tensor(name)
                for name in names
                if name.startswith("stream.")
            }
            if streams:
                model.model.load_stream_state(streams)
            rank = model.ranks.rank
            if _of_rank("rng.cpu", rank) in names:
                torch.set_rng_state(tensors.get_tensor(_of_rank("rng.cpu", rank)))
            else:
                seed_rank(seed, rank, state.step)
            if torch.device(device).type == "cuda" and _of_rank("rng.cuda", rank) in names:
                torch.cuda.set_rng_state(tensors.get_tensor(_of_rank("rng.cuda", rank)), device)
            window = torch.stack([tensors.get_tensor(f"window.{name}") for name in NAMES])
            return state, window.to(device)
    except (KeyError, TypeError, OSError, SafetensorError) as error:
        raise InputError(f"damaged trainer state: {error}", file=folder) from error


def _random_states(name: str, mine: torch.Tensor, ranks: Ranks) -> dict[str, torch.Tensor]:
    return {_of_rank(name, rank): state for rank, state in enumerate(ranks.gather(mine))}


def _of_rank(name: str, rank: int) -> str:
    return f"{name}.{rank}" if rank else name
