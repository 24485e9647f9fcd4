from __future__ import annotations

import json
import os
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from forked import run_script
from options import with_options

from pdtools.cli import train as command
from pdtools.cli.main import run
from pdtools.training import Interruption

SENTENCES = [
    f"( (S (NP (DT {determiner}) (NN {noun})) (VP (VBZ sees) (NP (DT {other}) (NN cat)))) )"
    for determiner in ("the", "a", "every")
    for other in ("the", "a", "every")
    for noun in ("dog", "bird")
]
SMALL = [
    argument
    for setting in (
        "config.layers=1",
        "config.d_model=16",
        "config.heads=2",
        "config.d_ff=32",
        "train.steps=8",
        "train.eval_every=4",
        "train.batch_tokens=40",
    )
    for argument in ("--set", setting)
] + ["--device", "cpu", "--threads", "1"]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``train`` and ``valid``."""
    folder = tmp_path_factory.mktemp("shards")
    for name, part in (("train", SENTENCES[::2]), ("valid", SENTENCES[1::2])):
        (folder / f"{name}.mrg").write_text("\n".join(part))
    train, valid = str(folder / "train"), str(folder / "valid")
    assert run(["tapes", f"{train}.mrg", "-o", train, "--min-count", "1", "--quiet"]) == 0
    assert run(["tapes", f"{valid}.mrg", "-o", valid, "--tokenizer", train, "--quiet"]) == 0
    return folder


def arguments(shards: Path, output: Path, *more: str) -> list[str]:
    data = [str(shards / "train"), "--valid", str(shards / "valid")]
    return ["train", *data, "-o", str(output), *SMALL, *more]


@pytest.mark.parametrize("model", ["pushdown", "transformer"])
def test_a_run(model: str, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seeds = ["--seed", "7", "--set", "train.seed=5"]
    assert run(arguments(shards, tmp_path / "run", "--model", model, *seeds, "--json")) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["model"] == model
    assert report["finished"] == "steps"
    assert "step 4: valid loss" in captured.err
    assert "finished at step 8, best at step 8" in captured.err
    assert ("attachments" in captured.err) == (model == "pushdown")
    described = json.loads((tmp_path / "run/run.json").read_text())
    assert described["recipe"]["train"]["seed"] == 7
    for name in ("best/model.safetensors", "last/trainer/state.json", "metrics.jsonl", "tensorboard"):
        assert (tmp_path / "run" / name).exists()


def test_signals_are_obeyed_until_there_is_something_to_save(tmp_path: Path) -> None:
    """Not noted for after the first step, which may be far away: the model is still being made."""
    script = """
import os, signal, sys
from pdtools.cli import main
from pdtools.training import train
def slow(*arguments, **options):
    signal.raise_signal(number)
    print("went on")
    sys.exit(9)
number = int(sys.argv.pop(1))
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests may ignore it
sys.modules["pdtools.training.train"].build_model = slow
main.main()
"""
    command = ["train", "--task", "rs", "--config", "dcf", "-q", "-o", str(tmp_path / "run"), "--overwrite"]
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, -signal.SIGUSR1)):
        done = run_script(script, str(int(number)), *command)
        assert (done.returncode, done.stdout) == (status, ""), done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_that_somebody_else_takes_stop_nothing(number: int) -> None:
    taken: list[int] = []
    before = signal.getsignal(number)
    try:
        for handler in (signal.SIG_IGN, lambda number, frame: taken.append(number)):
            signal.signal(number, handler)
            with Interruption(at_once=False) as interruption:
                for _ in range(2):
                    signal.raise_signal(number)
                assert not interruption()
                interruption.begin_noting()
                signal.raise_signal(number)
                assert interruption()
                assert interruption.received == number
                with pytest.raises(KeyboardInterrupt) if number == signal.SIGINT else nullcontext():
                    signal.raise_signal(number)  # a second Ctrl-C does not wait for the end of a step
            assert signal.getsignal(number) == handler
    finally:
        signal.signal(number, before)
    assert taken == [number, number]


def test_a_run_that_was_begun_can_go_on(tmp_path: Path) -> None:
    """A signal between the folder and the first step is noted."""
    script = """
import os, signal, sys
from pdtools.cli import main
from pdtools.training.loop import TrainingLoop
run = TrainingLoop.run
def signalled(self):
    signal.raise_signal(signal.SIGTERM)
    return run(self)
TrainingLoop.run = signalled
main.main()
"""
    settings = ["--set", "train.steps=1", "--set", "train.batch_sentences=2", "-o", str(tmp_path / "run")]
    command = ["train", "--task", "rs", "--lengths", "1-3", "--config", "dcf", "--device", "cpu", *settings]
    done = run_script(script, *command)
    assert done.returncode == 143
    assert "--resume continues the run" in done.stderr
    assert run([*command, "--resume"]) == 0


def test_a_second_ctrl_c_says_that_it_ends_at_once(tmp_path: Path) -> None:
    script = """
import signal, sys
from pdtools.cli import main
from pdtools.training.loop import TrainingLoop
def signalled(self):
    for _ in range(times):
        signal.raise_signal(signal.SIGINT)
    return run(self)
run, TrainingLoop.run = TrainingLoop.run, signalled
times = int(sys.argv.pop(1))
signal.signal(signal.SIGINT, signal.default_int_handler)
main.main()
"""
    settings = ["--set", "train.steps=1", "--set", "train.batch_sentences=2", "--device", "cpu"]
    command = ["train", "--task", "rs", "--lengths", "1-3", "--config", "dcf", *settings]
    for times, said in ((1, "--resume continues the run\n"), (2, "pdtools: interrupted\n")):
        done = run_script(script, str(times), *command, "-o", str(tmp_path / str(times)))
        assert done.returncode == 130
        assert done.stderr.endswith(said)
        assert "Traceback" not in done.stderr


@pytest.mark.linux
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 138)]
)
def test_signals_end_the_run_after_the_step(
    number: int,
    status: int,
    shards: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def send(self: Any, step: int) -> None:
        if step == 3:
            os.kill(os.getpid(), number)

    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patched:
        patched.setattr(command.Progress, "stepped", send)
        assert run(arguments(shards, tmp_path / "run")) == status
    answer, *_, last = capfd.readouterr().err.rstrip("\n").split("\n")[-2:]
    assert answer == "stopping after this step; what is done is kept (Ctrl-C again: stop at once)"
    assert last.endswith("stopped after step 3 of 8; --resume continues the run")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers

    resume = ["train", str(shards / "train"), "--valid", str(shards / "valid"), "-o", str(tmp_path / "run")]
    resume += ["--resume", "--device", "cpu", "--threads", "1"]
    with monkeypatch.context() as patched:
        patched.setattr(command, "shows_bars", lambda: True)
        assert run(resume) == 0
    said = capfd.readouterr().err
    assert "resuming from step 3" in said
    assert "8/8 steps" in said
    assert run(arguments(shards, tmp_path / "whole")) == 0
    weights = "last/model.safetensors"
    assert (tmp_path / "run" / weights).read_bytes() == (tmp_path / "whole" / weights).read_bytes()
    capfd.readouterr()

    assert run(resume) == 0
    assert "has finished already, at step 8" in capfd.readouterr().err
    for other in (["--set", "train.steps=9"], ["--seed", "9"]):
        assert run([*resume, *other]) == 1
        assert "cannot be resumed" in capfd.readouterr().err


@pytest.mark.linux
def test_without_locks_it_trains_and_says_so(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(524, "Unknown error 524")

    monkeypatch.setattr("pdtools.files.locks.fcntl.flock", flock)
    with pytest.warns(match=r"this file system has no locks \(Unknown error 524\), so a second process"):
        assert run(arguments(shards, tmp_path / "run", "--set", "train.steps=1", "--quiet")) == 0


def test_a_bar_where_someone_sees_it(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command.sys.stderr, "isatty", lambda: True, raising=False)
    assert run(arguments(shards, tmp_path / "run", "--set", "train.log_every=1")) == 0
    captured = capsys.readouterr().err
    assert "8/8" in captured
    assert "loss=" in captured
    assert "\nstep 8: valid loss" in captured.replace("\r", "\n")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--set", "config.d_model=15"], "d_model (15) must be a multiple of heads (2)"),
        (["--set", "config.vocab_size=5"], "config.vocab_size is 5, but"),
        (["--valid", "nowhere"], "nowhere: no such folder"),
        (
            ["--set", "config.positions=learned", "--set", "config.max_length=4"],
            "longer than the model's 4 positions",
        ),
    ],
)
def test_bad_input_is_one_line(
    more: list[str], reason: str, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(with_options(arguments(shards, tmp_path / "run"), *more)) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert reason in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_without_validation_nothing_is_called_best(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", str(shards / "train"), "-o", str(tmp_path / "run"), *SMALL]
    assert run([*command, "--json"]) == 0
    captured = capsys.readouterr()
    assert (
        "finished at step 8; nothing was validated (no --valid): best/ is the newest checkpoint, as last/"
        in (captured.err)
    )
    assert json.loads(captured.out)["best_step"] is None
    assert run([*command, "--resume"]) == 0
    assert run(arguments(shards, tmp_path / "other", "--json")) == 0
    captured = capsys.readouterr()
    assert "nothing was validated" not in captured.err
    assert json.loads(captured.out)["best_step"] == 8


def test_an_early_stop_and_what_was_excluded_are_said(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = f"(S (NP (DT the) (NN dog)) {' '.join('(VB sees)' for _ in range(9))})\n"
    (tmp_path / "a.mrg").write_text((shards / "train.mrg").read_text() + "\n" + long)
    more = ["-o", str(tmp_path / "more"), "--tokenizer", str(shards / "train")]
    assert run(["tapes", str(tmp_path / "a.mrg"), *more, "--quiet"]) == 0
    command = ["train", str(tmp_path / "more"), "--valid", str(shards / "valid"), "-o", str(tmp_path / "run")]
    settings = ["train.patience=2", "train.eval_every=1", "train.learning_rate=0.3", "train.warmup_steps=0"]
    settings += ["config.positions=learned", "config.max_length=9"]
    given = [*SMALL, *(argument for setting in settings for argument in ("--set", setting))]
    assert run([*command, *given, "--on-error", "skip", "--json"]) == 0
    captured = capsys.readouterr()
    report, lines = json.loads(captured.out), captured.err.splitlines()
    state = json.loads((tmp_path / "run/last/trainer/state.json").read_text())
    best, step = state["best_scores"], state["step"]
    assert step == state["best_step"] + 2 < 8
    assert report["counts"]["sentences"] == {"train": 9, "valid": 9}
    assert report["counts"]["left_out"] == {"longer than the model's 9 positions": 1}
    scores = (
        f"loss {best['loss']:.4f}, perplexity per token given trees {best['ppl_token_given_trees']:.2f},"
        f" joint {best['ppl_token_joint']:.2f}, attachments right {100 * best['attachment_accuracy']:.2f}%"
    )
    assert lines[0] == (
        f"starting: pushdown, default recipe (no --config), {report['parameters']} parameters, 8 steps,"
        f" 9 sentences, {100 * report['counts']['padding']:.1f}% padding, cpu"
    )
    assert lines[state["best_step"]] == f"step {state['best_step']}: valid {scores} (best)"
    assert lines[-1] == (
        f"{tmp_path}/run: stopped early at step {step}, best at step {state['best_step']}: {scores};"
        " 1 sentences excluded (rejects.jsonl)"
    )


@pytest.mark.parametrize(("model", "relabelled"), [("plm", 2), ("pushdown", 0)])
def test_labels_that_training_lacks_are_counted(
    model: str, relabelled: int, shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "(S (DT the) (FRAG (NN dog)))\n(S (FRAG (DT a) (NN cat)) (FRAG (VBZ sees)))\n"
    (tmp_path / "v.mrg").write_text(other + SENTENCES[0])
    valid = str(tmp_path / "valid")
    of_training = ["--tokenizer", str(shards / "train"), "-q"]
    assert run(["tapes", str(tmp_path / "v.mrg"), "-o", valid, *of_training]) == 0
    command = ["train", str(shards / "train"), "--valid", valid, "-o", str(tmp_path / "run"), *SMALL]
    assert run([*command, "--model", model, "--set", "train.steps=1", "--json"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    counts, structure = report["counts"], "action" if model == "plm" else "attachment"
    assert f", {structure}s right {100 * report['best'][f'{structure}_accuracy']:.2f}%" in captured.err
    assert (counts["relabelled"], counts["sentences"]) == (relabelled, {"train": 9, "valid": 3})
    said = "2 validation sentences have labels that the training shards lack: these are scored as the rarest"
    assert (said in captured.err) == (relabelled > 0) == ("rarest label" in captured.err)


def test_a_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = str(tmp_path / "se.tsv")
    assert run(["generate", "task", "se", "--lengths", "3-5", "-n", "4", "-o", pairs]) == 0
    command = ["train", "--task", "se", "--lengths", "3-6", "--valid", pairs, "-o", str(tmp_path / "run")]
    command += ["--model", "transformer", "--set", "train.batch_sentences=4"]
    assert run([*command, *SMALL, "--set", "config.objective=masked"]) == 0
    captured = capsys.readouterr()
    assert " steps, new strings every step, " in captured.err
    best = json.loads((tmp_path / "run/last/trainer/state.json").read_text())["best_scores"]
    hidden = f"perplexity of hidden tokens {best['ppl_token_masked']:.2f}"
    assert f"valid loss {best['loss']:.4f}, {hidden} (best)\n" in captured.err
    assert json.loads((tmp_path / "run/best/config.json").read_text())["shards"]["task"] == "se"


@pytest.mark.parametrize(
    ("more", "status", "reason"),
    [
        ([], 2, "give either SHARDS or --task"),
        (["shards", "--task", "rs"], 2, "give either SHARDS or --task"),
        (["shards", "--lengths", "1-2"], 2, "--lengths and --as-released go with --task"),
        (["--task", "rs", "--valid", "nowhere"], 1, "nowhere"),
    ],
)
def test_what_no_task_is(
    more: list[str], status: int, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "-o", str(tmp_path / "run"), "--model", "transformer", "--device", "cpu"]
    assert run(with_options(command, *more)) == status
    assert reason in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_treereg(shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--config", "small", "--model", "transformer", "--set", "config.treereg_layer=1"]
    asked += ["--set", "train.treereg_every=2", "--treereg-shards", str(shards / "valid")]
    assert run(arguments(shards, tmp_path / "run", *asked)) == 0
    told = capsys.readouterr().err
    records = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    last = records[-1]
    assert (
        f"step 8: valid loss {last['loss']:.4f}, perplexity per token {last['ppl_token_given_trees']:.2f},"
        f" treereg {last['treereg_loss']:.4f}, splits right {100 * last['treereg_accuracy']:.2f}%"
    ) in told
    assert all(record["treereg_loss"] > 0 for record in records)
    sentence = ["--text", "every dog sees a cat", "--device", "cpu"]
    assert run(["decode", *sentence, "--model", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.count("(X ") == 4
