"""The contents of pages of ``pdtools view``, without a model: traces, results and runs at will."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from wide_items import pair_tables

from pdtools.evaluation.results import ITEMS, STRINGS_TABLE, Results, write_results
from pdtools.inspection.trace import Hypothesis, Parse, Trace, TraceStep


def random_attachments(n: int, rng: np.random.Generator) -> list[int]:
    """Attachments of ROOT, n tokens and end-of-sentence, as a sentence may have them."""
    attach, ends = [0], []  # ends: the last token of each constituent on the stack, without ROOT
    for k in range(1, n + 1):
        choice = int(rng.integers(len(ends) + 1))
        attach.append(k if choice == len(ends) else ends[choice])
        ends = [*ends[:choice], k]
    return [*attach, 0]


def random_trace(words: Sequence[str], seed: int, hypotheses: int = 3) -> Trace:
    """A trace of attachments in which hypothesis h of every step begins derivation h."""
    rng = np.random.default_rng(seed)
    n = len(words)
    derivations = [random_attachments(n, rng) for _ in range(hypotheses)]
    steps = tuple(
        TraceStep(
            position=k,
            kept=hypotheses + 1,
            hypotheses=tuple(
                Hypothesis(tuple(each[: k + 1]), -float(k), 0.9 / hypotheses, h, 1.0)
                for h, each in enumerate(derivations)
            ),
            rest=0.1,
            attachment=tuple(np.full(k + 1, 1 / (k + 1)).tolist()),
        )
        for k in range(1, n + 2)
    )
    tree = "(X " + " ".join(f"(XX w{i})" for i in range(n)) + ")"
    return Trace(
        model={"folder": "toy", "model": "pushdown", "kind": "derivation", "beam": 4},
        derivations="attachments",
        text=" ".join(words),
        words=tuple(words),
        tokens=("<root>", *words, "<eos>"),
        word=(-1, *range(n), -1),
        starts=(0,) * (n + 2),
        ends=(0,) * (n + 2),
        surprisals=(None, *rng.uniform(0.5, 12, n + 1).tolist()),
        dropped=0.01,
        steps=steps,
        best=Parse(tuple(derivations[0]), tree, -float(n)),
        gold=Parse(tuple(derivations[-1]), tree, -float(n)),
    )


def write_blimp(
    folder: Path,
    right: np.ndarray[Any, Any],
    seed: int = 0,
    *,
    hostile: bool = False,
    training: str | None = None,
) -> None:
    """Results of eval-blimp in which pair j of paradigm i is right where ``right[i, j]`` is.

    Models of the same ``training`` were trained alike but for their seed.
    """
    rng = np.random.default_rng(seed)
    paradigms, pairs = right.shape
    rows = []
    for i in range(paradigms):
        for j in range(pairs):
            good, bad = f"The dogs bark {i} {j} .", f"The dogs barks {i} {j} ."
            if hostile and j == 0:
                good, bad = f"<script>alert({i})</script> $x$ </script>", "שלום <b>עולם</b> & \u2028 \"'"
            margin = float(rng.uniform(0.1, 5)) * (1 if right[i, j] else -1)
            sides = [(good, -20.0), (bad, -20.0 - margin)]
            tokens = [
                [
                    {"token": t, "start": 0, "end": 1, "bits": -total / math.log(2) / len(text.split())}
                    for t in text.split()
                ]
                for text, total in sides
            ]
            rows.append(
                {
                    "paradigm": f"paradigm_{i:02}_with_a_long_name",
                    "phenomenon": f"phenomenon_{i % 12}",
                    "field": ("morphology", "semantics", "syntax")[i % 3],
                    "item": str(j),
                    "good": good,
                    "bad": bad,
                    "correct": bool(right[i, j]),
                    "surprisals_good": tokens[0],
                    "surprisals_bad": tokens[1],
                }
            )
    scores = {"overall": float(right.mean())}
    counts = {"items": right.size, "items_scored": right.size}
    settings = {"task": "blimp", "kind": "derivation", "beam": 10}
    found = Results(scores=scores, counts=counts, settings=settings, tables=pair_tables(rows))
    made = {
        "inputs": {
            "model": {
                "path": f"runs/{folder.parent.name}",
                "sha256": {"model.safetensors": "ab" * 32},
                **({"training": {"seed": seed, "sha256": training}} if training else {}),
            }
        }
    }
    write_results(folder, found, made)


def write_sg(folder: Path, right: np.ndarray[Any, Any], seed: int = 0) -> None:
    """Results of eval-sg on suites of two conditions and four regions, from ``right[suite, item]``."""
    rng = np.random.default_rng(seed)
    items, regions = [], []
    formula = "(3;%match%) < (3;%mismatch%)"
    for s in range(right.shape[0]):
        name, circuit = f"suite_{s}", f"Circuit {s % 3}"
        for i in range(right.shape[1]):
            items.append(
                {
                    "suite": name,
                    "circuit": circuit,
                    "item": str(i + 1),
                    "prediction": 1,
                    "formula": formula,
                    "correct": bool(right[s, i]),
                }
            )
            for condition in ("match", "mismatch"):
                for number, content in enumerate(
                    ("The dog", "that left", "barks" if condition == "match" else "bark", "."), start=1
                ):
                    bits = float(rng.uniform(1, 6)) + (3 if condition == "mismatch" and number == 3 else 0)
                    regions.append(
                        {
                            "suite": name,
                            "item": str(i + 1),
                            "string": condition,
                            "region": number,
                            "name": "Verb" if number == 3 else None,
                            "context": None,
                            "text": content,
                            "bits": bits,
                            "tokens": 1,
                            "surprisals": None,
                            "read": f"The dog that left {content}",
                        }
                    )
    found = Results(
        scores={"overall": float(right.mean())},
        counts={"items": right.size, "items_scored": right.size},
        settings={"task": "sg", "kind": "derivation", "beam": 10},
        tables={ITEMS: pa.Table.from_pylist(items), STRINGS_TABLE: pa.Table.from_pylist(regions)},
    )
    write_results(folder, found, {})


def write_run(folder: Path, steps: int, seed: int = 0) -> None:
    """The record of a run, and its ``run.json``."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(
        json.dumps(
            {
                "recipe": {"model": "pushdown", "train": {"seed": seed, "steps": 8}},
                "data": {},
                "provenance": {"hardware": {"threads": 1}},
            }
        )
    )
    with open(folder / "metrics.jsonl", "w") as stream:
        for step in range(1, steps + 1):
            loss = 8 / step**0.3 + float(rng.uniform(0, 0.1))
            record = {
                "kind": "train",
                "step": step,
                "loss": loss,
                "learning_rate": 1e-3,
                "gradient_norm": loss / 4,
                "attachment_accuracy": 1 - loss / 10,
                "tokens": 100 * step,
                "tokens_per_second": 1000,
                "seconds": step,
            }
            stream.write(json.dumps(record) + "\n")
            if step % (steps // 4) == 0:
                stream.write(
                    json.dumps(
                        {
                            "kind": "valid",
                            "step": step,
                            "loss": loss + 0.1,
                            "ppl_token_joint": 30.0,
                            "seconds": step,
                        }
                    )
                    + "\n"
                )
    with open(folder / "samples.jsonl", "w") as stream:
        for step, tree in ((1, "(X (X a) (X b))"), (2, "(X (X a) (X b))"), (3, "(S (X a) (X b))")):
            sample = {"id": 4, "text": "a <b>", "gold": "(S (X a) (X b))"}
            parse = {"tree": tree, "joint": -3.5, "marginal": -3.0, "reason": None}
            stream.write(json.dumps({"step": step, **sample, **parse}) + "\n")
