"""Grids of runs: their names and settings, and that vmapped runs are what each is alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pdtools.errors import PdtoolsError
from pdtools.models import RecurrentLM, load_checkpoint
from pdtools.training import METRICS, Outcome, SweepRun, make_runs, read_metrics, run_state, sweep, train
from pdtools.training.run_folder import RunFolder
from pdtools.training.sweep import NullSweepListener
from pdtools.training.train import OpenRun

SETTINGS = [
    "config.hidden_size=8",
    "train.steps=12",
    "train.eval_every=4",
    "train.batch_tokens=60",
    "train.log_every=2",
    "train.warmup_steps=0",
]
GRID = ["train.learning_rate=0.05,0.01", "train.seed=1,2"]
NAMES = [f"learning_rate={rate},seed={seed}" for rate in ("0.05", "0.01") for seed in (1, 2)]

MakeRuns = Callable[..., list[SweepRun]]


@pytest.fixture
def runs_of(toy_train: Path, toy_valid: Path, tmp_path: Path) -> MakeRuns:
    """Runs of small LSTMs with the toy shards."""

    def make(*more: str, grid: list[str] = GRID, output: str = "sweep", **options: Any) -> list[SweepRun]:
        return make_runs(
            grid,
            **{
                "data": str(toy_train),
                "valid": str(toy_valid),
                "model": "rnn",
                "settings": [*SETTINGS, "config.stack=none", *more],
                "output": tmp_path / output,
                **options,
            },
        )

    return make


def train_alone(runs: list[SweepRun], folder: Path) -> None:
    for run in runs:
        train(run.data, folder / run.name, run.recipe, valid=run.valid, init=run.init)


def check_same_runs(runs: list[SweepRun], alone: Path, names: list[str] | None = None) -> None:
    """Weights, states and logs are those of the runs in the other folder, but for rounding and times."""
    for run in runs:
        other = alone / run.name
        ours, theirs = run_state(run.output), run_state(other)
        for key in ("step", "best_step", "evaluated_step", "tokens", "epoch", "taken", "finished"):
            assert getattr(ours, key) == getattr(theirs, key), key
        assert ours.best_loss == pytest.approx(theirs.best_loss, rel=1e-4)
        for checkpoint in ("best", "last"):
            weights = load_checkpoint(run.output / checkpoint).model.state_dict()
            expected = load_checkpoint(other / checkpoint).model.state_dict()
            torch.testing.assert_close(weights, expected, rtol=1e-3, atol=1e-4)
        for kind in ("train", "valid"):
            for found, wanted in zip(read_metrics(run.output, kind), read_metrics(other, kind), strict=True):
                assert found["step"] == wanted["step"]
                assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-4)


# --- the grid ---------------------------------------------------------------------------------


def test_a_run_for_every_combination(runs_of: MakeRuns, tmp_path: Path) -> None:
    runs = runs_of()
    assert [run.name for run in runs] == NAMES
    assert [run.output for run in runs] == [tmp_path / "sweep" / name for name in NAMES]
    trains = [run.recipe.train for run in runs]
    assert [(each.learning_rate, each.seed) for each in trains] == [
        (0.05, 1),
        (0.05, 2),
        (0.01, 1),
        (0.01, 2),
    ]
    assert all(each.steps == 12 for each in trains)
    assert runs[0].settings == {"train.learning_rate": "0.05", "train.seed": "1"}


def test_a_grid_of_a_million_runs_is_refused_at_once(runs_of: MakeRuns) -> None:
    values = ",".join(str(number) for number in range(100))
    grid = [f"train.{key}={values}" for key in ("seed", "weight_decay", "patience")]
    with pytest.raises(PdtoolsError, match="--grid: 1,000,000 runs; a sweep has 10,000 at most"):
        runs_of(grid=grid)


def test_values_in_names_and_data(runs_of: MakeRuns) -> None:
    runs = runs_of(
        grid=["train.seed=1, 2", "config.stack_vector=3"],
        data="train-{train.seed}",
        valid="v/{config.stack_vector}/{train.seed}",
        name="size{config.stack_vector}-{train.seed}",
    )
    assert [run.name for run in runs] == ["size3-1", "size3-2"]
    assert [run.data for run in runs] == ["train-1", "train-2"]
    assert [run.valid for run in runs] == ["v/3/1", "v/3/2"]


def test_names_of_keys_that_end_alike(runs_of: MakeRuns) -> None:
    grid = ["config.normalize=allowed,open", "train.normalize=token"]
    found = runs_of(grid=grid, model="pushdown", settings=["train.steps=2"])
    assert [run.name for run in found] == [
        f"config.normalize={each},train.normalize=token" for each in ("allowed", "open")
    ]


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ([], {}, "needs --grid"),
        (["train.seed=1,2", "train.seed=3"], {}, "each key once"),
        (["train.seed=1,,2"], {}, "write KEY=VALUE"),
        (["train.seed=1,1"], {}, "a value is there twice"),
        (["train.sed=1"], {}, "--grid: unknown key train.sed"),
        (["train.steps=1,2"], {}, "train.steps is in --grid and in --set"),
        (["train.seed=1,2"], {"name": "run"}, "two runs are called run"),
        (["train.seed=1,2"], {"name": "{train.step}"}, "{train.step} is no key of --grid"),
        (["train.seed=1,2"], {"data": "{}"}, "{} is no key of --grid"),
        (["train.seed=1,2"], {"name": "a/{train.seed}"}, "no name for a run's folder"),
    ],
)
def test_grids_that_make_no_sense(
    grid: list[str], options: dict[str, Any], message: str, runs_of: MakeRuns
) -> None:
    with pytest.raises(
        PdtoolsError, match=message.replace("{", r"\{").replace("}", r"\}").replace("(", r"\(")
    ):
        runs_of(grid=grid, **options)


# --- vmapped ---------------------------------------------------------------------------------


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many models each call computes."""
    counts: list[int] = []
    losses = RecurrentLM.losses.__func__

    def counting(cls: type[RecurrentLM], models: Any, batches: Any) -> Any:
        counts.append(len(models))
        return losses(cls, models, batches)

    monkeypatch.setattr(RecurrentLM, "losses", classmethod(counting))
    return counts


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("config.stack=superposition", "config.embedding_size=3"),
        ("train.accumulate=2",),
        ("train.schedule=plateau", "train.decay=0.5", "train.decay_patience=1", "train.eval_every=1"),
        ("train.precision=bf16", "config.embedding_size=8"),
    ],
)
def test_vmapped_runs_are_those_alone(
    settings: tuple[str, ...], runs_of: MakeRuns, tmp_path: Path, several: list[int]
) -> None:
    runs = runs_of(*settings)
    outcomes = sweep(runs, at_once=4)
    assert set(several) == {4}
    assert [outcome.name for outcome in outcomes] == NAMES
    assert [(outcome.status, outcome.step) for outcome in outcomes] == 4 * [("finished", 12)]
    for run, outcome in zip(runs, outcomes, strict=True):
        assert outcome.loss == run_state(run.output).best_loss
        assert outcome.settings == run.settings
    train_alone(runs, tmp_path / "alone")
    check_same_runs(runs, tmp_path / "alone")


def test_each_run_starts_from_the_model_of_its_values(runs_of: MakeRuns, tmp_path: Path) -> None:
    sweep(runs_of(grid=["train.seed=1,2"], output="first"), at_once=2)
    init, few = str(tmp_path / "first" / "seed={train.seed}"), "train.learning_rate=0.001"
    runs = runs_of(few, grid=["train.seed=2,1"], init=init)
    sweep(runs, at_once=2)
    train_alone(runs, tmp_path / "alone")
    check_same_runs(runs, tmp_path / "alone")


@pytest.mark.parametrize("axis", ["config.initial_range=0.1,0.2", "train.precision=float32,bf16"])
def test_only_models_of_one_shape_and_precision_are_computed_as_one(
    axis: str, runs_of: MakeRuns, several: list[int]
) -> None:
    runs = runs_of(grid=[axis, "train.seed=1,2"])
    assert all(outcome.status == "finished" for outcome in sweep(runs, at_once=4))
    assert set(several) == {2}


class StopAfter(NullSweepListener):
    """Asks to stop after so many steps of all runs together."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def stepped(self, step: int) -> None:
        self.left -= 1

    def __call__(self) -> bool:
        return self.left <= 0


def test_stopped_and_continued(runs_of: MakeRuns, tmp_path: Path) -> None:
    runs = runs_of()
    stop = StopAfter(2 * 5 + 1)
    outcomes = sweep(runs, at_once=2, listener=stop, stop=stop)
    assert [outcome.status for outcome in outcomes] == ["stopped", "stopped", "waiting", "waiting"]
    assert [outcome.step for outcome in outcomes] == [6, 6, 0, 0]
    assert [outcome.best_step for outcome in outcomes] == [4, 4, 0, 0]
    assert not runs[2].output.exists()
    assert all(outcome.status == "finished" for outcome in sweep(runs, at_once=4))
    train_alone(runs, tmp_path / "alone")
    check_same_runs(runs, tmp_path / "alone")


def test_what_is_finished_stays(runs_of: MakeRuns) -> None:
    runs = runs_of()
    sweep(runs[:2], at_once=2)
    before = [(run.output / METRICS).read_bytes() for run in runs[:2]]
    told = Told()
    assert all(outcome.status == "finished" for outcome in sweep(runs, at_once=2, listener=told))
    assert [(run.output / METRICS).read_bytes() for run in runs[:2]] == before
    assert told.opened_at == {NAMES[0]: 12, NAMES[1]: 12, NAMES[2]: 0, NAMES[3]: 0}
    assert told.steps == 2 * 12
    assert [outcome.name for outcome in told.outcomes] == NAMES


class Told(NullSweepListener):
    """What a sweep has told."""

    def __init__(self) -> None:
        self.opened_at: dict[str, int] = {}
        self.steps = 0
        self.outcomes: list[Outcome] = []

    def opened(self, run: SweepRun, opened: OpenRun) -> None:
        self.opened_at[run.name] = opened.loop.state.step

    def stepped(self, step: int) -> None:
        self.steps += 1

    def closed(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def test_an_early_stop_makes_room(runs_of: MakeRuns, tmp_path: Path) -> None:
    """Runs that never get better end after two evaluations; the next takes the place."""
    more = ("train.patience=1", "train.eval_every=1")
    runs = runs_of(*more, grid=["train.learning_rate=0.01,1e-30", "train.seed=1,2"])
    told = Told()
    outcomes = sweep(runs, at_once=2, listener=told)
    assert list(told.opened_at) == [run.name for run in runs]
    assert [outcome.finished for outcome in outcomes][2:] == ["patience", "patience"]
    assert [outcome.step for outcome in outcomes][2:] == [2, 2]
    train_alone(runs, tmp_path / "alone")
    check_same_runs(runs, tmp_path / "alone")


def test_where_one_fails_the_others_go_on(runs_of: MakeRuns, tmp_path: Path) -> None:
    runs = runs_of(grid=["train.learning_rate=0.05,1e30", "train.seed=1,2"])
    outcomes = sweep(runs, at_once=4)
    assert [outcome.status for outcome in outcomes] == ["finished", "finished", "failed", "failed"]
    assert "not finite any more" in str(outcomes[2].reason)
    train_alone(runs[:2], tmp_path / "alone")
    check_same_runs(runs[:2], tmp_path / "alone")
    with RunFolder(runs[2].output).locked():  # nobody holds it any more
        pass


def test_a_damaged_run_fails_alone(runs_of: MakeRuns) -> None:
    runs = runs_of()
    sweep(runs[:1])
    (runs[0].output / "last/trainer/state.json").write_text("{")
    outcomes = sweep(runs, at_once=2)
    assert [outcome.status for outcome in outcomes] == ["failed", "finished", "finished", "finished"]
    assert "state.json" in str(outcomes[0].reason)
    with RunFolder(runs[0].output).locked():  # as while somebody else is writing there
        assert [outcome.status for outcome in sweep(runs)] == ["elsewhere", *3 * ["finished"]]


def test_a_run_that_is_too_large_fails_alone(runs_of: MakeRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of(grid=["config.initial_range=0.1,0.2,0.3"])
    losses = RecurrentLM.losses.__func__

    def lacking(cls: type[RecurrentLM], models: Any, batches: Any) -> Any:
        if any(model.config.initial_range == 0.2 for model in models):
            raise MemoryError
        return losses(cls, models, batches)

    monkeypatch.setattr(RecurrentLM, "losses", classmethod(lacking))
    outcomes = sweep(runs)
    assert [outcome.status for outcome in outcomes] == ["finished", "failed", "finished"]
    assert "not enough memory: lower train.batch_tokens" in str(outcomes[1].reason)
    with pytest.raises(PdtoolsError, match="not enough memory: lower --at-once, or lower train.batch_tokens"):
        sweep(runs_of("config.initial_range=0.2", grid=["train.seed=1,2"], output="other"), at_once=2)


def test_where_a_validation_needs_too_much_memory(runs_of: MakeRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("pdtools.training.loop.evaluate", lacking)
    outcomes = sweep(runs_of(grid=["train.seed=1,2"]))
    assert [(outcome.status, outcome.step) for outcome in outcomes] == 2 * [("failed", 0)]
    assert "not enough memory" in str(outcomes[0].reason)


@pytest.mark.parametrize("model", ["transformer", "tg"])
def test_other_models_train_one_at_a_time(model: str, runs_of: MakeRuns, tmp_path: Path) -> None:
    small = [f"config.{key}" for key in ("layers=1", "d_model=8", "heads=2", "d_ff=8", "positions=relative")]
    settings = [*SETTINGS[1:], *small]
    runs = runs_of(grid=["train.seed=1,2"], model=model, settings=settings)
    with pytest.raises(PdtoolsError, match=f"models of the kind {model} train one at a time"):
        sweep(runs, at_once=2)
    assert not runs[0].output.exists()
    assert all(outcome.status == "finished" for outcome in sweep(runs))
    train_alone(runs, tmp_path / "alone")
    check_same_runs(runs, tmp_path / "alone")
