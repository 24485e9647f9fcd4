"""Results of each family of models on this machine, beside those on the machine where the goldens were made.

    python benchmarks/golden.py                     # all families, on the CPU
    python benchmarks/golden.py --device cuda       # the same on a GPU (make golden DEVICE=cuda: times too)
    python benchmarks/golden.py --write             # new goldens: tests/goldens/FAMILY.json

Each family trains 30 steps on bundled trees from one seed; its losses, the surprisals of ten sentences and
the parse of one are compared. A JSON line for each: the largest relative difference of a loss, the largest
difference of a sentence's surprisal (bits), and whether the parses are the same. The exit status is 1 if a
difference is larger than allowed: 10⁻⁵ and 10⁻³ on the CPU, 10⁻³ and 10⁻² elsewhere; in bf16 2·10⁻² and .5,
and its parses may differ.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from comparison import REPOSITORY

from pdtools.cli.main import run

GOLDENS = REPOSITORY / "tests" / "goldens"
STEPS, SENTENCES = 30, 10
_SMALL = {"layers": 2, "d_model": 32, "d_ff": 64, "heads": 2}
_NO_DROPOUT = dict.fromkeys(("input_dropout", "attention_dropout", "output_dropout"), 0.0)
_TRANSFORMER: Mapping[str, Any] = {**_SMALL, **_NO_DROPOUT, "positions": "relative"}
_RNN: Mapping[str, Any] = {"hidden_size": 24, "embedding_size": 24, "stack_vector": 6}
# For each family --model, and settings of its configuration.
FAMILIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "transformer": ("transformer", _TRANSFORMER),
    "pushdown": ("pushdown", _TRANSFORMER),
    "stack-attention": ("transformer", {**_TRANSFORMER, "stack_layers": "all"}),
    "treereg": ("transformer", {**_TRANSFORMER, "treereg_layer": 1}),
    "plm": ("plm", _TRANSFORMER),
    "plm-mask": ("plm-mask", {**_TRANSFORMER, "positions": "learned"}),
    "tg": ("tg", _TRANSFORMER),
    "sclm": ("sclm", {**_TRANSFORMER, "scaffold": "next"}),
    "nondeterministic-rnn": ("rnn", {**_RNN, "stack": "nondeterministic"}),
    "superposition-rnn": ("rnn", {**_RNN, "stack": "superposition"}),
    "stratification-rnn": ("rnn", {**_RNN, "stack": "stratification"}),
}
_PARSES = ("pushdown", "plm", "plm-mask", "tg")


def call(*arguments: object) -> None:
    """Run a command.

    Raises:
        RuntimeError: if it fails.
    """
    if status := run([*map(str, arguments), "--quiet"]):
        raise RuntimeError(f"status {status}: pdtools {' '.join(map(str, arguments))}")


def prepare(folder: Path) -> None:
    """Shards and sentences of the bundled treebank's validation trees."""
    bank = REPOSITORY / "data" / "treebank" / "valid.mrg"
    call("parse", bank, "--from", "treebank", "-o", folder / "valid.trees")
    trees = (folder / "valid.trees").read_text().splitlines()
    (folder / "train.trees").write_text("\n".join(trees[SENTENCES : SENTENCES + 300]) + "\n")
    (folder / "ten.trees").write_text("\n".join(trees[:SENTENCES]) + "\n")
    call("tapes", folder / "train.trees", "--tokenizer", "word", "-o", folder / "shards")


def golden(family: str, folder: Path, *, device: str = "cpu", dtype: str = "float32") -> dict[str, Any]:
    """Return the results of a family.

    Args:
        folder: the result of :func:`prepare`; its model is written there.
    """
    name, settings = FAMILIES[family]
    model = folder / family
    train = {
        "steps": STEPS,
        "log_every": 1,
        "eval_every": STEPS,
        "warmup_steps": 5,
        "batch_tokens": 1024,
        "learning_rate": 3e-3,
        "seed": 1,
        "precision": dtype,
        **({"treereg_weight": 1.0, "treereg_every": 3} if family == "treereg" else {}),
    }
    given = [f"config.{key}={value}" for key, value in settings.items()]
    given += [f"train.{key}={value}" for key, value in train.items()]
    sets = [part for each in given for part in ("--set", each)]
    where = ["--device", device, "--threads", 1, "--overwrite"]
    call("train", folder / "shards", "--model", name, *sets, *where, "-o", model)
    lines = map(json.loads, (model / "metrics.jsonl").read_text().splitlines())
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    beam = ["--beam", 20] if family in _PARSES else []
    said = ["--model", model, *beam, *where, "--dtype", dtype]
    call("surprisal", folder / "ten.trees", "--from", "treebank", *said, "-o", model / "ten.tsv")
    rows = (model / "ten.tsv").read_text().splitlines()
    columns = rows[0].split("\t")
    of_sentence, surprisal = columns.index("sentence_id"), columns.index("surprisal")
    totals: dict[str, float] = {}
    for row in rows[1:]:
        cells = row.split("\t")
        totals[cells[of_sentence]] = totals.get(cells[of_sentence], 0.0) + float(cells[surprisal])
    parse = None
    if family in _PARSES:
        call("decode", folder / "ten.trees", "--from", "treebank", *said, "-o", model / "ten.trees")
        parse = (model / "ten.trees").read_text().splitlines()[0]
    return {
        "losses": [round(each, 7) for each in losses],
        "surprisals": [round(each, 5) for each in totals.values()],
        "parse": parse,
    }


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    """The largest differences of two results; infinite if one has more numbers."""

    def most(name: str, *, relative: bool) -> float:
        if len(found[name]) != len(expected[name]):
            return float("inf")
        a, b = np.array(found[name]), np.array(expected[name])
        return float(np.max(abs(a - b) / (abs(b) if relative else 1.0)))  # NaN if one is

    return {
        "loss": most("losses", relative=True),
        "surprisal": most("surprisals", relative=False),
        "same_parse": found["parse"] == expected["parse"],
    }


def allowed(device: str, dtype: str) -> tuple[float, float]:
    """The largest difference of losses (relative) and of surprisals (bits)."""
    if dtype == "bf16":
        return 2e-2, 0.5
    return (1e-5, 1e-3) if device == "cpu" else (1e-3, 1e-2)


def main() -> int:
    """Compare, print, and say by the exit status whether all agrees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("families", nargs="*", default=[], metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dtype", choices=["float32", "bf16"], default="float32")
    parser.add_argument("--write", action="store_true", help="make the goldens")
    options = parser.parse_args()
    agree = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder)
        for family in options.families or FAMILIES:
            found = golden(family, folder, device=options.device, dtype=options.dtype)
            path = GOLDENS / f"{family}.json"
            if options.write:
                path.write_text(json.dumps(found, indent=1) + "\n")
                continue
            apart = differences(found, json.loads(path.read_text()))
            print(json.dumps({"family": family, **apart}), flush=True)
            loss, surprisal = allowed(options.device, options.dtype)
            agree &= apart["loss"] <= loss and apart["surprisal"] <= surprisal
            agree &= apart["same_parse"] or options.dtype == "bf16"
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
