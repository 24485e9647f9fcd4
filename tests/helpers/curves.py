"""Short runs of every kind of loss, and their curves when ``tests/training/curves.json`` was written.

    PYTHONPATH=.:tests/helpers:tests/training python tests/helpers/curves.py tests/training/curves.json

writes it anew. Equal files before and after a change say that training is the same to the bit; on another
machine losses differ in their last digits.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from stopping import StopAfter
from toy_language import brackets, toy_tokenizer
from toy_prompts import HOW_LATE, SAME, toy_prompts

from pdtools.files import Rejects
from pdtools.shards import ShardSettings, build_shards
from pdtools.training import Recipe, TrainConfig, train
from pdtools.trees import SourcedTree, Tree

TINY: Mapping[str, Any] = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32}
RNN: Mapping[str, Any] = {"hidden_size": 8, "embedding_size": 6, "stack_window": 5, "stack_symbols": 2}
TREEREG: Mapping[str, Any] = {"treereg_every": 3, "treereg_weight": 0.7}
WINDOW: Mapping[str, Any] = {"layout": "window"}
# Stopped in the middle of the log's window, and of TreeReg's.
STOPPED_AT = 14
CONFIG = TrainConfig(
    steps=30,
    learning_rate=0.01,
    warmup_steps=3,
    batch_tokens=40,
    accumulate=2,
    eval_every=10,
    log_every=4,
    seed=3,
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run: its model, its data (of :func:`prepare`), and its special settings in training."""

    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    data: str = "sentences"
    beside: str | None = None
    train: Mapping[str, Any] = field(default_factory=dict)

    @property
    def recipe(self) -> Recipe:
        """Its settings."""
        sizes = RNN if self.model == "rnn" else TINY
        config = dataclasses.replace(CONFIG, **self.train)
        return Recipe(model=self.model, options={**sizes, **self.options}, train=config)


CASES: Mapping[str, Case] = {
    "attachments": Case(model="pushdown", train={"attachment_weight": 0.5, "accumulate": 3}),
    "attachments-per-sentence": Case(model="pushdown", train={"normalize": "sentence"}),
    "attachments-of-windows": Case(
        model="pushdown", options=WINDOW, data="windows", train={"head_warmup_steps": 9}
    ),
    "masked": Case(model="transformer", options={"objective": "masked"}),
    "scaffold": Case(model="sclm", options={"scaffold": "past"}),
    "actions": Case(model="tg", options={"positions": "relative"}, train={"batch_tokens": 80}),
    "actions-per-sentence": Case(model="plm", train={"batch_tokens": 80, "normalize": "sentence"}),
    "treereg": Case(model="transformer", options={"treereg_layer": 1}, train=TREEREG),
    "treereg-beside": Case(model="transformer", options={"treereg_layer": 1}, beside="valid", train=TREEREG),
    "treereg-of-windows": Case(
        model="transformer",
        options={**WINDOW, "treereg_layer": 1},
        data="windows",
        train={**TREEREG, "normalize": "sentence"},
    ),
    "treereg-with-attachments": Case(
        model="transformer",
        options={"treereg_layer": 1, "attachment_head": True},
        train={**TREEREG, "treereg_every": 2},
    ),
    "answers": Case(model="pushdown", options=WINDOW, data="labels", train={"answer_weight": 3.0}),
    "answers-alone": Case(model="pushdown", options=WINDOW, data="labels", train={"loss": "answer"}),
    "numbers": Case(model="transformer", options=WINDOW, data="numbers"),
    "numbers-with-attachments": Case(
        model="pushdown", options=WINDOW, data="numbers", train={"normalize": "sentence"}
    ),
    "streams": Case(
        model="rnn",
        options={"first_input": "eos", "stack": "nondeterministic"},
        train={
            "batches": "stream",
            "batch_sentences": 4,
            "batch_tokens": 28,
            "accumulate": 1,
            "optimizer": "sgd",
        },
    ),
}
# Runs by two processes, each of which often has nothing of a batch.
OF_TWO = ("attachments", "treereg-beside", "treereg-of-windows", "answers", "numbers", "scaffold")


def prepare(folder: Path) -> None:
    """Shards of the toy languages."""
    rng = random.Random(1)
    for name, count in (("sentences", 24), ("valid", 12)):
        texts = [brackets(rng) for _ in range(count)]
        trees = [SourcedTree(Tree.from_brackets(text), "toy", i, text) for i, text in enumerate(texts, 1)]
        tokenizer = toy_tokenizer().with_labels(("NP", "PP", "S", "VP"))
        labelled = ShardSettings(factor="right", constituents="labelled")
        build_shards(trees, tokenizer, labelled, folder / name, Rejects())
        if name == "sentences":
            windows = ShardSettings(factor="right", layout="window", window=24, tape="none")
            build_shards(trees, tokenizer, windows, folder / "windows", Rejects())
    for name, task in (("labels", SAME), ("numbers", HOW_LATE)):
        toy_prompts(folder / name, 12, 1, task)


def curve(case: Case, shards: Path, run: Path) -> dict[str, Any]:
    """The result of a run that is stopped in the middle and resumed.

    Returns:
        ``train`` and ``valid``: the losses of its logs; ``weights``: a digest.
    """
    valid = case.data if case.data != "sentences" else "valid"
    given: dict[str, Any] = {"valid": shards / valid}
    if case.beside is not None:
        given["treereg_shards"] = shards / case.beside
    stop = StopAfter(STOPPED_AT)
    train(shards / case.data, run, case.recipe, listener=stop, stop=stop, **given)
    train(shards / case.data, run, case.recipe, resume=True, **given)
    return described(run)


def described(run: Path) -> dict[str, Any]:
    """Return a run's losses and digest; see :func:`curve`."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    by_clock = ("seconds", "tokens_per_second", "loading_share")
    scheduled = ("kind", "learning_rate", "epoch", "tokens")
    kinds = ("train", "valid")
    logs = {
        kind: [
            {k: v for k, v in r.items() if k not in by_clock + scheduled}
            for r in records
            if r["kind"] == kind
        ]
        for kind in kinds
    }
    weights = load_file(run / "last" / "model.safetensors")
    digest = hashlib.sha256(b"".join(weights[name].numpy().tobytes() for name in sorted(weights)))
    return {**logs, "weights": digest.hexdigest()[:16]}


def work_of_two(shards: Path, folder: Path) -> list[dict[str, Any]]:
    """The runs that ``tests/training/ranks_worker.py`` trains with two processes."""
    work = []
    for name in OF_TWO:
        case = CASES[name]
        for distribution in ("ddp", "fsdp"):
            entry = {
                "model": case.model,
                "options": case.recipe.options,
                "train": dataclasses.asdict(dataclasses.replace(case.recipe.train, batch_sentences=3)),
                "shards": str(shards / case.data),
                "valid": str(shards / (case.data if case.data != "sentences" else "valid")),
                "output": str(folder / f"{name}-{distribution}"),
                "distribution": distribution,
            }
            if case.beside is not None:
                entry["treereg_shards"] = str(shards / case.beside)
            work.append(entry)
    return work


def main(path: Path) -> None:
    """Write all curves."""
    from test_train_distributed import torchrun

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder)
        found = {name: curve(case, folder, folder / "runs" / name) for name, case in CASES.items()}
        work = work_of_two(folder, folder / "two")
        (folder / "work.json").write_text(json.dumps(work))
        worker = Path(__file__).parents[1] / "training" / "ranks_worker.py"
        assert torchrun(worker, folder / "work.json").wait() == 0
        found |= {Path(entry["output"]).name: described(Path(entry["output"])) for entry in work}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in found)
    path.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
