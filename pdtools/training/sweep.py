"""Runs that differ in a few settings: their list, and training several of them vmapped."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch

from pdtools.errors import PdtoolsError, explained_memory_errors
from pdtools.files.locks import LockedError
from pdtools.models import Batch, model_kind
from pdtools.provenance.hub import find_model
from pdtools.training.loop import Listener
from pdtools.training.loss import autocast
from pdtools.training.recipe import Recipe, read_recipe
from pdtools.training.run_state import RunState, run_state
from pdtools.training.train import LESS_MEMORY, OpenRun, TrainOptions, open_run

_PLACE = re.compile(r"\{([^{}]*)\}")
# All runs are read before the first is trained.
MAX_RUNS = 10_000


@dataclass(frozen=True, kw_only=True)
class SweepRun:
    """One run of a sweep.

    Attributes:
        name: the name of its folder within the sweep's.
        settings: values of the grid, by key.
        data: shards for training.
        valid: shards that choose the best checkpoint.
        output: its folder.
        recipe: the model and its training.
        init: the model whose weights it starts from; None: random ones.
    """

    name: str
    settings: Mapping[str, str]
    data: str
    valid: str
    output: Path
    recipe: Recipe
    init: str | None = None


def make_runs(
    grid: Sequence[str],
    *,
    data: str,
    valid: str,
    output: str | Path,
    name: str | None = None,
    config: str | None = None,
    model: str | None = None,
    settings: Sequence[str] = (),
    init: str | None = None,
) -> list[SweepRun]:
    """The runs of a grid: one for each combination of values.

    Args:
        grid: ``train.learning_rate=0.01,0.005``, ``train.seed=1,2,3``: a key and its values.
        data, valid: folders of shards; ``{train.seed}`` in them is replaced by the run's value.
        output: the folder for the runs' folders.
        name: a run's folder name, with values in it, such as ``lr{train.learning_rate}-{train.seed}``; by
            default keys and values, such as ``learning_rate=0.01,seed=1``.
        config, model, settings: shared by all runs (:func:`~pdtools.training.read_recipe`).
        init: shared by all runs, a folder or name of a model, with the run's values as in ``data``.

    Raises:
        PdtoolsError: for an invalid grid, name or setting; two runs of one name.
    """
    values = dict(_axis(axis) for axis in grid)
    if not values or len(values) != len(grid):
        raise PdtoolsError("a sweep needs --grid KEY=VALUE,VALUE,..., each key once")
    fixed = {setting.partition("=")[0].strip() for setting in settings}
    for key in sorted(values.keys() & fixed):
        raise PdtoolsError(f"{key} is in --grid and in --set: leave one of them out")
    short = {key: key.partition(".")[2] for key in values}
    if len(set(short.values())) < len(short):
        short = {key: key for key in values}
    pattern = name or ",".join(f"{short[key]}={{{key}}}" for key in values)
    if (number := math.prod(map(len, values.values()))) > MAX_RUNS:
        raise PdtoolsError(f"--grid: {number:,} runs; a sweep has {MAX_RUNS:,} at most")
    runs = {}
    model_folder = cache(lambda model: find_model(model).folder)  # a name on the hub is looked up once
    for combination in itertools.product(*values.values()):
        point = dict(zip(values, combination, strict=True))
        folder = _filled(pattern, point)
        if folder in runs:
            raise PdtoolsError(f"two runs are called {folder}: --name needs every key of --grid in it")
        if Path(folder).name != folder or folder.startswith("."):
            raise PdtoolsError(f"{folder!r} is no name for a run's folder: choose another --name")
        start = None if init is None else model_folder(_filled(init, point))
        runs[folder] = SweepRun(
            name=folder,
            settings=point,
            data=_filled(data, point),
            valid=_filled(valid, point),
            output=Path(output, folder),
            recipe=read_recipe(
                config,
                model=model,
                settings=settings,
                grid=[f"{key}={value}" for key, value in point.items()],
                init=start,
            ),
            init=start,
        )
    return list(runs.values())


def _axis(text: str) -> tuple[str, list[str]]:
    """A key and its values."""
    key, _, listed = text.partition("=")
    values = [value.strip() for value in listed.split(",")]
    if not all(values):
        raise PdtoolsError(f"--grid {text}: write KEY=VALUE,VALUE,..., such as train.seed=1,2,3")
    if len(set(values)) < len(values):
        raise PdtoolsError(f"--grid {text}: a value is there twice")
    return key.strip(), values


def _filled(pattern: str, point: Mapping[str, str]) -> str:
    """Fill a pattern with the values of its keys."""

    def value(place: re.Match[str]) -> str:
        if place[1] not in point:
            raise PdtoolsError(f"{pattern}: {place[0]} is no key of --grid ({', '.join(point)})")
        return point[place[1]]

    return _PLACE.sub(value, pattern)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        name, settings: the run's.
        status: ``finished``; ``stopped`` before its end, or ``waiting`` to be begun; ``failed``;
            ``elsewhere``: another process has it.
        finished: ``steps`` or ``patience``; None before its end.
        step, best_step, best: see :class:`~pdtools.training.RunState`; as far as its folder tells.
        reason: the reason why it failed.
    """

    name: str
    settings: Mapping[str, str]
    status: str
    finished: str | None = None
    step: int = 0
    best_step: int = 0
    best: Mapping[str, Any] | None = None
    reason: str | None = None

    @property
    def loss(self) -> float:
        """The best validation loss; infinite before the first."""
        return math.inf if not self.best else float(self.best["loss"])


class SweepListener(Listener, Protocol):
    """The interface for a sweep's progress reports; its runs' own reports do not name the run."""

    def opened(self, run: SweepRun, opened: OpenRun) -> None:
        """Report that a run begins, resumes, or has already ended."""
        return

    def closed(self, outcome: Outcome) -> None:
        """Report that a run has ended, was stopped, could not be opened or has failed."""
        return


class NullSweepListener(SweepListener):
    """A listener that does nothing."""


def sweep(
    runs: Sequence[SweepRun],
    *,
    at_once: int = 1,
    device: str = "cpu",
    on_error: str = "fail",
    listener: SweepListener | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Outcome]:
    """Train all runs that are not finished yet.

    Each run has the result of :func:`~pdtools.training.train`; vmapped runs the same but for rounding, and
    for the times in their logs, which are shared. Stopped runs resume, runs that another process is training
    are left to it, and if one cannot be opened or trained the others go on.

    Args:
        runs: the list from :func:`make_runs`.
        at_once: number trained at once: their batches are computed together if their models allow it.
        device: ``cpu``, ``cuda``, …
        on_error: see :class:`~pdtools.training.train.TrainOptions`.
        listener: receives progress reports.
        stop: asked between steps: all runs then write their state and end, to be resumed.

    Returns:
        The outcome of each run, in the order of ``runs``.

    Raises:
        PdtoolsError: if models that cannot be vmapped are to be trained at once, or the memory is too small
            for several.
    """
    for run in runs:
        if at_once > 1 and not model_kind(run.recipe.model).vmapped:
            raise PdtoolsError(
                f"--at-once {at_once}: models of the kind {run.recipe.model} train one at a time"
            )
    listener = listener or NullSweepListener()
    options = TrainOptions(device=device, resume=True, on_error=on_error, stop=stop)
    waiting, active = deque(runs), list[_Active]()
    outcomes: dict[Path, Outcome] = {}

    def ended(run: SweepRun, status: str | None = None, reason: str | None = None) -> None:
        outcomes[run.output] = _as_it_is(run, status, reason)
        listener.closed(outcomes[run.output])

    try:
        while waiting or active:
            while waiting and len(active) < at_once:
                run = waiting.popleft()
                if stop():
                    ended(run)
                    continue
                try:
                    trained = _Active(run, options, listener)
                except LockedError:
                    ended(run, "elsewhere")
                except PdtoolsError as error:
                    ended(run, "failed", str(error))
                else:
                    active.append(trained)
            _advance(active)
            for each in [each for each in active if each.batch is None]:
                active.remove(each)
                each.close()
                ended(each.run, None if each.reason is None else "failed", each.reason)
    finally:
        with contextlib.ExitStack() as left:
            for each in active:
                left.callback(each.close)
    return [outcomes[run.output] for run in runs]


def _advance(runs: Sequence[_Active]) -> None:
    """Train one batch of each run; a run that alone needs more memory than there is has failed."""
    less = LESS_MEMORY if len(runs) == 1 else f"lower --at-once, or {LESS_MEMORY}"
    try:
        with explained_memory_errors(less):
            for run in runs:
                run.load()
            _learn([run for run in runs if run.batch is not None])
    except PdtoolsError as error:
        if len(runs) > 1:
            raise
        runs[0].batch, runs[0].reason = None, str(error)


class _Active:
    """A run in training.

    Attributes:
        batch: the next batch; None when it has ended.
        reason: the reason why it has failed.
    """

    def __init__(self, run: SweepRun, options: TrainOptions, listener: SweepListener) -> None:
        self.run = run
        self.batch: Batch | None = None
        self.reason: str | None = None
        options = replace(options, valid=run.valid, init=run.init, listener=listener)
        with contextlib.ExitStack() as entered:
            self.opened = entered.enter_context(open_run(run.data, run.output, run.recipe, options))
            listener.opened(run, self.opened)
            if not self.opened.already_finished:
                entered.enter_context(self.opened.loop.running())
            self._closing = entered.pop_all()
        self.loop = self.opened.loop

    @property
    def group(self) -> Hashable:
        """A key that is equal for runs that are computed as one."""
        return self.run.recipe.model, self.loop.model.config, self.loop.config.precision

    def load(self) -> None:
        """Take the next batch, after an evaluation if one is due."""
        try:
            self.batch = self.loop.next_batch()
        except PdtoolsError as error:
            self.batch, self.reason = None, str(error)

    def close(self) -> None:
        """Release the run to other processes."""
        self._closing.close()


def _learn(runs: Sequence[_Active]) -> None:
    """Train one batch of each run, computed together if the models are alike."""
    groups: dict[Hashable, list[_Active]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    for alike in groups.values():
        loop = alike[0].loop
        batches = [run.batch for run in alike if run.batch is not None]
        with autocast(loop.device, loop.config.precision):
            losses = type(loop.model).losses([run.loop.model for run in alike], batches)
        minimised = [run.loop.loss_to_minimise(parts) for run, parts in zip(alike, losses, strict=True)]
        torch.stack(minimised).sum().backward()
        for run, batch, parts in zip(alike, batches, losses, strict=True):
            try:
                run.loop.learn(batch, parts)
            except PdtoolsError as error:
                run.batch, run.reason = None, str(error)


def _as_it_is(run: SweepRun, status: str | None = None, reason: str | None = None) -> Outcome:
    """A run's outcome by the readable files in its folder, where another process may be writing."""
    try:
        state = run_state(run.output)
    except PdtoolsError:
        state = RunState()
    if status is None and state.finished is None:
        status = "stopped" if run.output.exists() else "waiting"
    return Outcome(
        name=run.name,
        settings=run.settings,
        status=status or "finished",
        finished=state.finished,
        step=state.step,
        best_step=state.best_step,
        best=state.best_scores or None,
        reason=reason,
    )
