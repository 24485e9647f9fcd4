"""Grids of runs: their names and settings, and that runs side by side are what each is alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pdtools.errors import PdtoolsError
from pdtools.models import RecurrentLM, load_checkpoint
from pdtools.training import (
    METRICS,
    Outcome,
    Plan,
    make_plans,
    read_metrics,
    run_state,
    sweep,
    train,
)
from pdtools.training.run_folder import RunFolder
from pdtools.training.sweep import SilentSweep
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

MakePlans = Callable[..., list[Plan]]


@pytest.fixture
def plans_of(toy_train: Path, toy_valid: Path, tmp_path: Path) -> MakePlans:
    """Plans of small LSTMs with the toy shards."""

    def make(*more: str, grid: list[str] = GRID, output: str = "sweep", **options: Any) -> list[Plan]:
        return make_plans(
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


def train_alone(plans: list[Plan], folder: Path) -> None:
    for plan in plans:
        train(plan.data, folder / plan.name, plan.recipe, valid=plan.valid)


def check_same_runs(plans: list[Plan], alone: Path, names: list[str] | None = None) -> None:
    """Weights, states and logs are those of the runs in the other folder, but for rounding and times."""
    for plan in plans:
        other = alone / plan.name
        ours, theirs = run_state(plan.output), run_state(other)
        for key in ("step", "best_step", "evaluated_step", "tokens", "epoch", "taken", "finished"):
            assert getattr(ours, key) == getattr(theirs, key), key
        assert ours.best_loss == pytest.approx(theirs.best_loss, rel=1e-4)
        for checkpoint in ("best", "last"):
            weights = load_checkpoint(plan.output / checkpoint).model.state_dict()
            expected = load_checkpoint(other / checkpoint).model.state_dict()
            torch.testing.assert_close(weights, expected, rtol=1e-3, atol=1e-4)
        for kind in ("train", "valid"):
            for found, wanted in zip(read_metrics(plan.output, kind), read_metrics(other, kind), strict=True):
                assert found["step"] == wanted["step"]
                assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-4)


# --- the grid ---------------------------------------------------------------------------------


def test_a_plan_for_every_combination(plans_of: MakePlans, tmp_path: Path) -> None:
    plans = plans_of()
    assert [plan.name for plan in plans] == NAMES
    assert [plan.output for plan in plans] == [tmp_path / "sweep" / name for name in NAMES]
    trains = [plan.recipe.train for plan in plans]
    assert [(each.learning_rate, each.seed) for each in trains] == [
        (0.05, 1),
        (0.05, 2),
        (0.01, 1),
        (0.01, 2),
    ]
    assert all(each.steps == 12 for each in trains)
    assert plans[0].settings == {"train.learning_rate": "0.05", "train.seed": "1"}


def test_a_grid_of_a_million_runs_is_refused_at_once(plans_of: MakePlans) -> None:
    values = ",".join(str(number) for number in range(100))
    grid = [f"train.{key}={values}" for key in ("seed", "weight_decay", "patience")]
    with pytest.raises(PdtoolsError, match="--grid: 1,000,000 runs; a sweep has 10,000 at most"):
        plans_of(grid=grid)


def test_values_in_names_and_data(plans_of: MakePlans) -> None:
    plans = plans_of(
        grid=["train.seed=1, 2", "config.stack_vector=3"],
        data="train-{train.seed}",
        valid="v/{config.stack_vector}/{train.seed}",
        name="size{config.stack_vector}-{train.seed}",
    )
    assert [plan.name for plan in plans] == ["size3-1", "size3-2"]
    assert [plan.data for plan in plans] == ["train-1", "train-2"]
    assert [plan.valid for plan in plans] == ["v/3/1", "v/3/2"]


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ([], {}, "needs --grid"),
        (["train.seed=1,2", "train.seed=3"], {}, "each key once"),
        (["train.seed"], {}, "--grid train.seed: write KEY=VALUE"),
        (["train.seed=1,,2"], {}, "write KEY=VALUE"),
        (["train.seed=1,1"], {}, "a value is there twice"),
        (["train.sed=1"], {}, "--grid: unknown key train.sed"),
        (["train.seed=1"], {"settings": ["train.sed=1"]}, "--set: unknown key train.sed"),
        (["train.seed=x"], {}, "--grid: train.seed must be a whole number"),
        (["seed=1"], {}, "--grid seed=1: write config.KEY=VALUE or train.KEY=VALUE"),
        (["train.steps=1,2"], {}, "train.steps is in --grid and in --set"),
        (["train.seed=1,2"], {"name": "run"}, "two runs are called run"),
        (["train.seed=1,2"], {"name": "{train.step}"}, "{train.step} is no key of --grid"),
        (["train.seed=1,2"], {"data": "{}"}, "{} is no key of --grid"),
        (["train.seed=1,2"], {"name": "a/{train.seed}"}, "no name for a run's folder"),
        (["train.seed=1,2"], {"name": ".{train.seed}"}, "no name for a run's folder"),
    ],
)
def test_grids_that_make_no_sense(
    grid: list[str], options: dict[str, Any], message: str, plans_of: MakePlans
) -> None:
    with pytest.raises(
        PdtoolsError, match=message.replace("{", r"\{").replace("}", r"\}").replace("(", r"\(")
    ):
        plans_of(grid=grid, **options)


# --- side by side -----------------------------------------------------------------------------


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
def test_runs_side_by_side_are_those_alone(
    settings: tuple[str, ...], plans_of: MakePlans, tmp_path: Path, several: list[int]
) -> None:
    plans = plans_of(*settings)
    outcomes = sweep(plans, at_once=4)
    assert set(several) == {4}
    assert [outcome.name for outcome in outcomes] == NAMES
    assert [(outcome.status, outcome.step) for outcome in outcomes] == 4 * [("finished", 12)]
    for plan, outcome in zip(plans, outcomes, strict=True):
        assert outcome.loss == run_state(plan.output).best_loss
        assert outcome.settings == plan.settings
    train_alone(plans, tmp_path / "alone")
    check_same_runs(plans, tmp_path / "alone")


def test_fewer_at_once_than_there_are(plans_of: MakePlans, tmp_path: Path, several: list[int]) -> None:
    plans = plans_of()
    outcomes = sweep(plans, at_once=3)
    assert set(several) == {1, 3}
    assert all(outcome.status == "finished" for outcome in outcomes)
    train_alone(plans, tmp_path / "alone")
    check_same_runs(plans, tmp_path / "alone")


def test_only_models_of_one_shape_are_computed_as_one(plans_of: MakePlans, several: list[int]) -> None:
    plans = plans_of(grid=["config.initial_range=0.1,0.2", "train.seed=1,2"])
    assert all(outcome.status == "finished" for outcome in sweep(plans, at_once=4))
    assert set(several) == {2}


class StopAfter(SilentSweep):
    """Asks to stop after so many steps of all runs together."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def stepped(self, step: int) -> None:
        self.left -= 1

    def __call__(self) -> bool:
        return self.left <= 0


def test_stopped_and_continued(plans_of: MakePlans, tmp_path: Path) -> None:
    plans = plans_of()
    stop = StopAfter(2 * 5 + 1)
    outcomes = sweep(plans, at_once=2, listener=stop, stop=stop)
    assert [outcome.status for outcome in outcomes] == ["stopped", "stopped", "waiting", "waiting"]
    assert [outcome.step for outcome in outcomes] == [6, 6, 0, 0]
    assert [outcome.best_step for outcome in outcomes] == [4, 4, 0, 0]
    assert not plans[2].output.exists()
    assert all(outcome.status == "finished" for outcome in sweep(plans, at_once=4))
    train_alone(plans, tmp_path / "alone")
    check_same_runs(plans, tmp_path / "alone")


def test_what_is_finished_stays(plans_of: MakePlans) -> None:
    plans = plans_of()
    sweep(plans[:2], at_once=2)
    before = [(plan.output / METRICS).read_bytes() for plan in plans[:2]]
    told = Told()
    assert all(outcome.status == "finished" for outcome in sweep(plans, at_once=2, listener=told))
    assert [(plan.output / METRICS).read_bytes() for plan in plans[:2]] == before
    assert told.opened_at == {NAMES[0]: 12, NAMES[1]: 12, NAMES[2]: 0, NAMES[3]: 0}
    assert told.steps == 2 * 12
    assert [outcome.name for outcome in told.outcomes] == NAMES


class Told(SilentSweep):
    """What a sweep has told."""

    def __init__(self) -> None:
        self.opened_at: dict[str, int] = {}
        self.steps = 0
        self.outcomes: list[Outcome] = []

    def opened(self, plan: Plan, run: OpenRun) -> None:
        self.opened_at[plan.name] = run.loop.state.step

    def stepped(self, step: int) -> None:
        self.steps += 1

    def closed(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def test_an_early_stop_makes_room(plans_of: MakePlans, tmp_path: Path) -> None:
    """Runs that never get better end after two evaluations; the next takes the place."""
    more = ("train.patience=1", "train.eval_every=1")
    plans = plans_of(*more, grid=["train.learning_rate=0.01,1e-30", "train.seed=1,2"])
    told = Told()
    outcomes = sweep(plans, at_once=2, listener=told)
    assert list(told.opened_at) == [plan.name for plan in plans]
    assert [outcome.finished for outcome in outcomes][2:] == ["patience", "patience"]
    assert [outcome.step for outcome in outcomes][2:] == [2, 2]
    train_alone(plans, tmp_path / "alone")
    check_same_runs(plans, tmp_path / "alone")


def test_where_one_fails_the_others_go_on(plans_of: MakePlans, tmp_path: Path) -> None:
    plans = plans_of(grid=["train.learning_rate=0.05,1e30", "train.seed=1,2"])
    outcomes = sweep(plans, at_once=4)
    assert [outcome.status for outcome in outcomes] == ["finished", "finished", "failed", "failed"]
    assert "not finite any more" in str(outcomes[2].reason)
    train_alone(plans[:2], tmp_path / "alone")
    check_same_runs(plans[:2], tmp_path / "alone")
    with RunFolder(plans[2].output).locked():  # nobody holds it any more
        pass


def test_a_run_that_cannot_be_opened_fails_alone(
    plans_of: MakePlans, toy_train: Path, tmp_path: Path
) -> None:
    (tmp_path / "data-1").symlink_to(toy_train)
    plans = plans_of(grid=["train.seed=1,2"], data=str(tmp_path / "data-{train.seed}"))
    outcomes = sweep(plans, at_once=2)
    assert [outcome.status for outcome in outcomes] == ["finished", "failed"]
    assert "data-2" in str(outcomes[1].reason)


def test_a_damaged_run_fails_alone(plans_of: MakePlans) -> None:
    plans = plans_of()
    sweep(plans[:1])
    (plans[0].output / "last/trainer/state.json").write_text("{")
    outcomes = sweep(plans, at_once=2)
    assert [outcome.status for outcome in outcomes] == ["failed", "finished", "finished", "finished"]
    assert "state.json" in str(outcomes[0].reason)
    with RunFolder(plans[0].output).locked():  # as while somebody else is writing there
        assert [outcome.status for outcome in sweep(plans)] == ["elsewhere", *3 * ["finished"]]


def test_a_run_that_is_too_large_fails_alone(plans_of: MakePlans, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = plans_of(grid=["config.initial_range=0.1,0.2,0.3"])
    losses = RecurrentLM.losses.__func__

    def lacking(cls: type[RecurrentLM], models: Any, batches: Any) -> Any:
        if any(model.config.initial_range == 0.2 for model in models):
            raise MemoryError
        return losses(cls, models, batches)

    monkeypatch.setattr(RecurrentLM, "losses", classmethod(lacking))
    outcomes = sweep(plans)
    assert [outcome.status for outcome in outcomes] == ["finished", "failed", "finished"]
    assert "not enough memory: lower train.batch_tokens" in str(outcomes[1].reason)
    with pytest.raises(PdtoolsError, match="not enough memory: lower --at-once, or lower train.batch_tokens"):
        sweep(plans_of("config.initial_range=0.2", grid=["train.seed=1,2"], output="other"), at_once=2)


def test_where_a_validation_needs_too_much_memory(
    plans_of: MakePlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("pdtools.training.loop.evaluate", lacking)
    outcomes = sweep(plans_of(grid=["train.seed=1,2"]))
    assert [(outcome.status, outcome.step) for outcome in outcomes] == 2 * [("failed", 0)]
    assert "not enough memory" in str(outcomes[0].reason)


def test_other_settings_than_before_are_refused_by_run(plans_of: MakePlans) -> None:
    sweep(plans_of(grid=["train.seed=1"]))
    outcomes = sweep(plans_of("train.clip=2", grid=["train.seed=1,2"]))
    assert [outcome.status for outcome in outcomes] == ["failed", "finished"]
    assert "train.clip is 2.0, but was 1.0" in str(outcomes[0].reason)


def test_what_another_process_trains_is_left_to_it(plans_of: MakePlans) -> None:
    plans = plans_of()
    plans[1].output.parent.mkdir()
    with RunFolder(plans[1].output).locked():
        outcomes = sweep(plans, at_once=2)
    assert [outcome.status for outcome in outcomes] == ["finished", "elsewhere", "finished", "finished"]
    assert not plans[1].output.exists()


def test_other_models_train_one_at_a_time(plans_of: MakePlans) -> None:
    small = [f"config.{key}" for key in ("layers=1", "d_model=8", "heads=2", "d_ff=8")]
    settings = [*SETTINGS[1:], *small]
    plans = plans_of(grid=["train.seed=1,2"], model="transformer", settings=settings)
    with pytest.raises(PdtoolsError, match="models of the kind transformer train one at a time"):
        sweep(plans, at_once=2)
    assert not plans[0].output.exists()
    assert all(outcome.status == "finished" for outcome in sweep(plans))
