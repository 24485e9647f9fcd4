"""``pdtools train``: shards, or strings drawn on the fly → checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from pdtools.files import check_output, is_stream
from pdtools.jobs.devices import pick_device
from pdtools.provenance.hub import PREFIX, find_model

from .console import is_quiet, message, open_bar, print_json, say_it_will_stop, set_quiet, shows_bars
from .options import ModelKind, OnError, RecipeName, ResultOptions, Threads, command, parse_range

if TYPE_CHECKING:
    from pdtools.formal.transduction_training import TaskInput
    from pdtools.training import Recipe, RunState
    from pdtools.training.distributed import Ranks


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Options for training on a task.

    Input:
        task (NAME): Train on rs, sm, ma or se, drawn during training, instead of SHARDS.
        lengths (FIRST-LAST): --task: number of symbols of x (default: 1-40).
        as_released: --task: follow its authors' code if it differs from the paper.
    """

    task: str | None = None
    lengths: str | None = None
    as_released: bool = False

    def training_input(self, valid: str | None) -> TaskInput | None:
        """The data of the run, with ``valid`` as a file of pairs; None without a task.

        Raises:
            PdtoolsError: if there is no such task, or it has no strings so short.
            InputError: if the file holds other data.
        """
        if self.task is None:
            if self.lengths or self.as_released:
                raise typer.BadParameter("--lengths and --as-released go with --task")
            return None

        from pdtools.formal.transduction_training import TaskInput
        from pdtools.formal.transductions import make_task

        task = make_task(self.task, as_released=self.as_released)
        lengths = parse_range(self.lengths) if self.lengths else range(task.shortest, 41)
        return TaskInput(task, lengths, valid)


Distributed = Literal["ddp", "fsdp"]


@command("Train a language model on shards, or on a task.")
def train(
    output: str,
    task: TaskOptions,
    options: ResultOptions,
    shards: str | None = None,
    model: ModelKind | None = None,
    init: str | None = None,
    config: RecipeName | None = None,
    settings: list[str] | None = None,
    valid: str | None = None,
    treereg_shards: str | None = None,
    resume: bool = False,
    on_error: OnError = "fail",
    seed: int | None = None,
    distributed: Distributed = "ddp",
    device: str = "auto",
    threads: Threads = 0,
) -> None:
    """Train a language model on shards, or on a task; best/ and last/ in DIR are its checkpoints.

    \b
    Example:
      pdtools train shards/train --valid shards/valid -o runs/tiny --config tiny
      pdtools train shards/train --valid shards/valid -o runs/base --config tiny --model transformer
      pdtools train windows/train --init hf:gpt2 --config gpt2-small-last6 -o runs/gpt2

    Ctrl-C ends the run after the current step; --resume continues as if it had never stopped. Under torchrun,
    many processes train together and divide each batch.

    Arguments:
        shards (SHARDS): Folder that pdtools tapes or blocks wrote.

    Input:
        valid (SHARDS): Validation data, to choose the best checkpoint (--task: pairs).
        treereg_shards (SHARDS): Parsed sentences only for TreeReg's loss (default: SHARDS).

    Model:
        model (NAME): pushdown (default), transformer, plm, plm-mask, tg, dtg, rnng,
            rnng-in-order, sclm, gilt, rnn.
        init (DIR): Start from the weights and sizes of GPT-2, RoBERTa (hf:...), or a run.
        config (FILE): TOML recipe, or a name (pdtools config list).
        settings (--set KEY=VALUE): A setting of pdtools config keys: train.steps=100 (repeatable).

    Output:
        output (-o DIR): Folder of the run.
        resume: Continue the run in DIR, or start one if there is none.

    Parallel:
        distributed: torchrun: a process holds the whole model (ddp) or a part (fsdp).

    Options:
        seed: Seed of everything random (train.seed).
    """
    strings = task.training_input(valid)
    data = strings or shards
    if data is None or (strings and shards):
        raise typer.BadParameter("give either SHARDS or --task")
    if is_stream(output):
        raise typer.BadParameter("a run is a folder: name one with -o")
    from pdtools.search.decoding import parse_samples
    from pdtools.training import (
        Interruption,
        TrainOptions,
        local_device,
        open_run,
        read_recipe,
        torchrun_ranks,
    )

    given = [*(settings or []), *([] if seed is None else [f"train.seed={seed}"])]
    as_it_was = resume and not (model or config or given)
    with torchrun_ranks(device) as ranks:
        set_quiet(options.quiet or not ranks.is_main)
        init_name = init
        init = init and _initial_model(init, ranks)
        if ranks.is_main and not resume:
            read = [shards, valid, treereg_shards, init, config if config and Path(config).exists() else None]
            named = [name for name in read if name is not None]
            replaced = check_output(output, overwrite=options.overwrite, folder=True, inputs=named)
            if replaced is not None:
                message(f"replacing {replaced} in {output}, at the first checkpoint")
        recipe = None if as_it_was else read_recipe(config, model=model, settings=given, init=init)
        if strings is None and sys.stderr.isatty():
            message(f"reading {data} …")
        chosen_device = pick_device(local_device(device), threads)
        with (
            Interruption(at_once=False, noted=lambda: say_it_will_stop()) as interruption,
            Progress(output) as progress,
            open_run(
                data,
                output,
                recipe,
                TrainOptions(
                    valid=None if strings else valid,
                    treereg_shards=treereg_shards,
                    init=init,
                    device=chosen_device,
                    resume=resume,
                    overwrite=options.overwrite,
                    on_error=on_error,
                    listener=progress,
                    parse_samples=parse_samples,
                    stop=interruption,
                    ranks=ranks,
                    distribution=distributed,
                ),
            ) as run,
        ):
            progress.recipe = run.recipe
            if run.initialized is not None:
                message(str(replace(run.initialized, folder=init_name or run.initialized.folder)))
            if run.other_code is not None:
                message(run.other_code)
            if run.relabelled:
                message(
                    f"{run.relabelled} validation sentences have labels that the training shards lack:"
                    " these are scored as the rarest label"
                )
            report = run.train()
        received = ranks.largest(interruption.received or 0)
    if options.as_json and ranks.is_main:
        print_json(report)
    message(_summary(report))
    if report["finished"] is None and received:
        sys.exit(128 + received)


def _initial_model(name: str, ranks: Ranks) -> str:
    """The folder of the model that ``--init`` names, the same for all ranks.

    For a model on the hub, it has the commit that rank 0 finds, since a branch may move on meanwhile.
    """
    import torch

    is_hub = name.startswith(PREFIX) and ranks.size > 1
    if ranks.is_main or not is_hub:
        found = find_model(name, bars=not is_quiet())
        if found.note is not None:
            message(found.note)
        if not is_hub:
            return found.folder
    commit = Path(found.folder).name if ranks.is_main else "0" * 40
    (first, *_) = ranks.gather(torch.tensor(list(commit.encode())))
    return find_model(f"{name.partition('@')[0]}@{bytes(first.tolist()).decode()}").folder


def _summary(report: Mapping[str, Any]) -> str:
    step, output = report["step"], report["output"]
    if report["already_finished"]:
        return f"{output}: this run has finished already, at step {step}"
    if report["finished"] is None:
        return f"{output}: stopped after step {step} of {report['steps']}; --resume continues the run"
    excluded = sum(report["counts"]["left_out"].values())
    ending = "stopped early" if report["finished"] == "patience" else "finished"
    kept = (
        f", best at step {report['best_step']}: {_scores(report['best'])}"
        if report["best"]
        else "; nothing was validated (no --valid): best/ is the newest checkpoint, as last/"
    )
    return f"{output}: {ending} at step {step}{kept}" + (
        f"; {excluded} sentences excluded (rejects.jsonl)" if excluded else ""
    )


def _scores(scores: Mapping[str, Any]) -> str:
    parts = [f"loss {scores['loss']:.4f}"]
    per_token = "perplexity per token"
    given_trees = f"{per_token} given trees" if scores["ppl_token_joint"] is not None else per_token
    for key, name in (
        ("ppl_token_masked", "perplexity of hidden tokens"),
        ("ppl_token_given_trees", given_trees),
        ("ppl_token_joint", "joint"),
    ):
        if scores.get(key) is not None:
            parts.append(f"{name} {scores[key]:.2f}")
    for structure, name in (("attachment", "attachments"), ("action", "actions"), ("scaffold", "scaffold")):
        if scores.get(f"{structure}_accuracy") is not None:
            parts.append(f"{name} right {100 * scores[f'{structure}_accuracy']:.2f}%")
    if scores.get("treereg_loss") is not None:
        parts.append(
            f"treereg {scores['treereg_loss']:.4f}, splits right {100 * scores['treereg_accuracy']:.2f}%"
        )
    return ", ".join(parts)


class Progress(AbstractContextManager["Progress"]):
    """A bar with the loss and the time left, and a line for every evaluation, on standard error."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._bar: Any = None
        self.recipe: Recipe | None = None  # known when the run is open

    def __exit__(self, kind: type[BaseException] | None, *ending: object) -> None:
        if self._bar is not None:
            self._bar.close()
        if kind is KeyboardInterrupt and self.recipe is None:
            message(f"{self._output}: nothing was begun")

    def started(self, state: RunState, facts: Mapping[str, Any]) -> None:
        """Open the bar, if it is visible."""
        assert self.recipe is not None
        begin = f"resuming from step {state.step}" if state.step else "starting"
        origin = f"recipe {self.recipe.source}" if self.recipe.source else "default recipe (no --config)"
        amount = "new strings every step"
        if facts["sentences"] is not None:
            amount = f"{facts['sentences']} sentences, {100 * facts['padding']:.1f}% padding"
        message(
            f"{begin}: {self.recipe.model}, {origin}, {facts['parameters']} parameters,"
            f" {facts['steps']} steps, {amount}, {facts['device']}"
        )
        if shows_bars():
            self._bar = open_bar(facts["steps"], "steps", initial=state.step)

    def stepped(self, step: int) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(1)

    def logged(self, step: int, values: Mapping[str, Any]) -> None:
        """Show the loss beside the bar."""
        if self._bar is not None:
            shown = {"loss": values["loss"], "treereg": values.get("treereg_loss")}
            given = {name: f"{value:.4f}" for name, value in shown.items() if value is not None}
            self._bar.set_postfix(given, refresh=False)

    def evaluated(self, step: int, scores: Mapping[str, Any], is_best: bool) -> None:
        """Print one line."""
        line = f"step {step}: valid {_scores(scores)}{' (best)' if is_best else ''}"
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        else:
            message(line)
