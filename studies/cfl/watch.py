"""Figure 3 of the paper: what a run has learned to do with its stack, epoch by epoch.

Usage: watch.py DATA RUN EPOCHS [--set KEY=VALUE ...]. Trains RUN as pdtools train does, but stops after each
of the first epochs to look at its actions; RUN.actions.json has a row for each. Run again, it resumes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pdtools.files import read_json, write_json
from pdtools.formal import ContextFree, read_grammar, strings
from pdtools.inspection.recurrent import inspect_run, shares_of
from pdtools.models import LoadedModel, load_checkpoint
from pdtools.training import Interruption, read_recipe, run_state, train
from pdtools.training.loop import NullListener

LENGTH, STRINGS = 61, 10


class UntilNextEvaluation(NullListener):
    """Asks a run to stop when it has evaluated once."""

    def __init__(self) -> None:
        self.evaluations = 0

    def evaluated(self, step: int, scores: Any, is_best: bool) -> None:
        self.evaluations += 1

    def __call__(self) -> bool:
        return self.evaluations > 0


def main(data: Path, run: Path, epochs: int, settings: list[str]) -> None:
    """Train until there is a row for each epoch, or the run ends."""
    torch.set_num_threads(1)
    recipe = read_recipe("cfl", settings=settings)
    record = run.with_name(f"{run.name}.actions.json")
    rows: list[dict[str, list[float]]] = read_json(record) if record.exists() else []
    while len(rows) < epochs:
        state = run_state(run)
        if state.evaluated_step > len(rows) * recipe.train.eval_every:
            rows.append(correct_actions(load_checkpoint(run / "last")))
            write_json(record, rows)
        elif state.finished:
            break
        else:
            pause = UntilNextEvaluation()
            folders = {role: data / f"{role}-{recipe.train.seed}" for role in ("train", "valid")}
            with Interruption() as interruption:
                train(
                    folders["train"],
                    run,
                    recipe,
                    valid=folders["valid"],
                    device=os.environ.get("DEVICE", "cpu"),
                    resume=True,
                    listener=pause,
                    stop=lambda pause=pause, wall=interruption: pause() or wall(),
                )
            if interruption.received is not None:  # what was trained is kept
                sys.exit(128 + interruption.received)


def correct_actions(loaded: LoadedModel) -> dict[str, list[float]]:
    """At each position of marked reversal, the share of the right kind of action; the mean over some strings.

    Push in the first half, replace at the marker, pop in the second half: of the transitions from all
    configurations alike (``everywhere``, as in the paper), and of those from where the automaton is then
    (``reached``).
    """
    language = ContextFree(grammar=read_grammar("marked-reversal"), shortest=LENGTH, longest=LENGTH)
    right = ["push"] * (LENGTH // 2) + ["replace"] + ["pop"] * (LENGTH // 2)
    views = [inspect_run(loaded, " ".join(string.tokens)) for string in strings(language, STRINGS, seed=0)]
    return {
        name: np.mean(shares_of(views, right, everywhere=everywhere), axis=0).tolist()
        for name, everywhere in (("everywhere", True), ("reached", False))
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[5::2])
