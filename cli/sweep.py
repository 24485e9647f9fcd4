"""``pdtools sweep``: a grid of settings → vmapped runs, and a table of them."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from pdtools.errors import visible
from pdtools.files import Kind, check_kind, is_stream
from pdtools.jobs.devices import pick_device

from .console import message, open_bar, print_json, say_it_will_stop, shows_bars
from .options import ModelKind, OnError, Positive, RecipeName, ResultOptions, Threads, command

if TYPE_CHECKING:
    from pdtools.training import Outcome, SweepRun
    from pdtools.training.train import OpenRun


@command("Train a model for every combination of some settings' values.", without=("overwrite",))
def sweep(
    shards: str,
    valid: str,
    grid: list[str],
    output: str,
    options: ResultOptions,
    name: str | None = None,
    model: ModelKind | None = None,
    init: str | None = None,
    config: RecipeName | None = None,
    settings: list[str] | None = None,
    at_once: Positive = 1,
    on_error: OnError = "fail",
    device: str = "auto",
    threads: Threads = 0,
) -> None:
    """Train a model for every combination of some settings' values, and list the runs, best first.

    \b
    Example:
      pdtools sweep shards/train --valid shards/valid --config cfl --grid train.seed=1,2 -o runs/rns
      pdtools sweep "data/train-{train.seed}" --valid "data/valid-{train.seed}" --config cfl \\
          --grid train.learning_rate=0.01,0.005 --grid train.seed=1,2,3 --at-once 6 -o runs/rns

    The same command continues a sweep that was stopped, also with more values. Several processes may work on
    one sweep: each takes runs that no other is training.

    Arguments:
        shards (SHARDS): Training data; {KEY} stands for the run's value of that key.

    Model:
        model (NAME): pushdown (default), transformer, plm, plm-mask, tg, dtg, rnng,
            rnng-in-order, sclm, gilt, rnn.
        init (DIR): Start from this model's weights and sizes; {KEY} as in SHARDS.

    Output:
        output (-o DIR): Folder for the runs' folders.

    Options:
        valid (SHARDS): Validation data; {KEY} as in SHARDS.
        grid (KEY=VALUES): Values of a setting: train.seed=1,2,3 (repeatable).
        name (PATTERN): Name of each run's folder, with {KEY} for values.
        config (FILE): TOML recipe, or a name (pdtools config list).
        settings (--set KEY=VALUE): A setting for all runs (repeatable).
        at_once: Number of runs to train together, vmapped (recurrent models).
    """
    if is_stream(output):
        raise typer.BadParameter("a sweep is a folder: name one with -o")
    from pdtools.training import Interruption, make_runs
    from pdtools.training import sweep as run_sweep

    runs = make_runs(
        grid,
        data=shards,
        valid=valid,
        output=output,
        name=name,
        config=config,
        model=model,
        settings=settings or [],
        init=init,
    )
    for path in dict.fromkeys(path for run in runs for path in (run.data, run.valid)):
        check_kind(path, Kind.SHARDS)
    chosen_device = pick_device(device, threads)
    with (
        Interruption(at_once=False, noted=lambda: say_it_will_stop()) as interruption,
        SweepProgress(runs) as progress,
    ):
        outcomes = run_sweep(
            runs,
            at_once=at_once,
            device=chosen_device,
            on_error=on_error,
            listener=progress,
            stop=interruption,
        )
    ordered = sorted(outcomes, key=lambda outcome: outcome.loss)
    if options.as_json:
        print_json([dataclasses.asdict(outcome) for outcome in ordered])
    else:
        _print_table(ordered)
    if interruption.received:
        message(f"{output}: stopped; the same command continues the sweep")
        sys.exit(128 + interruption.received)
    if any(outcome.status == "failed" for outcome in outcomes):
        raise typer.Exit(1)


def _print_table(outcomes: Sequence[Outcome]) -> None:
    from pdtools.report.tables import print_table

    columns = ["run", "validation loss", "best step", "steps", "status"]
    print_table(columns, [_row(outcome) for outcome in outcomes], digits=4)


def _row(outcome: Outcome) -> list[str | int | float | None]:
    status = "stopped early" if outcome.finished == "patience" else outcome.status
    if outcome.best is None:
        return [outcome.name, None, None, outcome.step, status]
    return [outcome.name, outcome.loss, outcome.best_step, outcome.step, status]


class SweepProgress:
    """A bar over the steps of all runs, and a line for each run that begins or ends, on standard error."""

    def __init__(self, runs: Sequence[SweepRun]) -> None:
        self._steps = {run.name: run.recipe.train.steps for run in runs}
        self._bar: Any = None

    def __enter__(self) -> SweepProgress:
        if shows_bars():
            self._bar = open_bar(sum(self._steps.values()), "steps of all runs")
        return self

    def __exit__(self, *ending: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def opened(self, run: SweepRun, opened: OpenRun) -> None:
        """Move the bar by the steps done before."""
        step = opened.loop.state.step
        if not opened.already_finished:
            self._tell(f"{run.name}: {f'resuming from step {step}' if step else 'starting'}")
        if opened.initialized is not None:
            self._tell(f"{run.name}: {opened.initialized}")
        if opened.other_code is not None:
            self._tell(opened.other_code)
        self._move(step)

    def closed(self, outcome: Outcome) -> None:
        """Report how a run has ended; runs that were not begun are only in the table."""
        if outcome.status == "waiting":
            return
        if outcome.status == "finished":
            self._move(self._steps[outcome.name] - outcome.step)  # the steps saved by an early stop
        best = f", best {outcome.loss:.4f} at step {outcome.best_step}" if outcome.best else ""
        said = {
            "finished": f"finished at step {outcome.step}{best}",
            "stopped": f"stopped after step {outcome.step}{best}",
            "elsewhere": "another process is training it",
            "failed": f"failed: {outcome.reason}",
        }
        text = f"{outcome.name}: {said[outcome.status]}"
        self._tell(text, always=outcome.status == "failed")

    def started(self, state: Any, facts: Any) -> None:
        """See :meth:`opened`."""

    def stepped(self, step: int) -> None:
        """Move the bar."""
        self._move(1)

    def logged(self, step: int, values: Any) -> None:
        """Show nothing: the runs are many."""

    def evaluated(self, step: int, scores: Any, is_best: bool) -> None:
        """Show nothing: the runs are many."""

    def _move(self, steps: int) -> None:
        if self._bar is not None:
            self._bar.update(steps)

    def _tell(self, line: str, *, always: bool = False) -> None:
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        elif always:
            print(visible(line), file=sys.stderr)
        else:
            message(line)
