"""Answers to prompts by hand: scores, counts and items of likelihoods that are given."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_oracle import tiny_model
from toy_prompts import HOW_LATE, SAME, WINDOW, toy_items, toy_tokenizer

from pdtools.errors import PdtoolsError
from pdtools.evaluation.classification import evaluate
from pdtools.evaluation.classification.evaluate import evaluate_prompts
from pdtools.evaluation.perplexity.shard_rows import RowToScore
from pdtools.evaluation.results import ITEMS, Results
from pdtools.files import Rejects
from pdtools.models import load_checkpoint, save_checkpoint
from pdtools.prompts.items import read_prompts, write_items
from pdtools.prompts.rows import prompt_shards
from pdtools.prompts.tasks import PromptTask
from pdtools.shards import ShardSet


def answered(
    folder: Path,
    task: PromptTask,
    labels: Sequence[Any],
    values: Sequence[Sequence[float]],
    monkeypatch: Any,
    without_trees: int = 0,
) -> Results:
    """Results of a model that says these values of items with these labels; the last items have no trees."""
    items, trees = toy_items(len(labels), 0, task)
    for i in range(len(labels) - without_trees, len(labels)):
        trees[2 * i] = "(X " + " ".join(f"(XX {word})" for word in items[i].sentences[0].split()) + ")"
    items = [dataclasses.replace(item, label=label) for item, label in zip(items, labels, strict=True)]
    write_items(str(folder / "x.jsonl"), task, items)
    (folder / "x.trees").write_text("\n".join(trees) + "\n")
    tokenizer, prompts = toy_tokenizer(), read_prompts(str(folder / "x.jsonl"))
    prompt_shards([str(folder / "x.trees")], prompts, tokenizer, WINDOW, folder / "shards", Rejects("fail"))
    shards = ShardSet.open(folder / "shards")
    model = tiny_model(
        "pushdown",
        vocab_size=tokenizer.vocab_size,
        max_length=24,
        layout="window",
        regression=task.range is not None,
    )
    save_checkpoint(folder / "model", model, tokenizer, shards=shards.manifest["settings"])

    def said(loaded: Any, rows: Sequence[RowToScore], **options: Any) -> list[tuple[float, ...]]:
        return [tuple(values[row.number]) for row in rows]

    monkeypatch.setattr(evaluate, "_answer", said)
    loaded = load_checkpoint(folder / "model")
    return evaluate_prompts(shards, loaded, samples=200, rejects=Rejects("fail"))


# Of the labels same and other.
LABELS = ["same", "same", "same", "other", "other", None, "other"]
VALUES = [(-1, -2), (-2, -1), (-1, -1), (-3, -2), (-1, -4), (-1, -2), (-9, -8)]


@pytest.mark.parametrize(("metric", "positive"), [("accuracy", None), ("f1", "same"), ("f1", "other")])
def test_labels_by_hand(
    metric: Any, positive: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = dataclasses.replace(SAME, metric=metric, **({"positive": positive} if positive else {}))
    results = answered(tmp_path, task, LABELS, VALUES, monkeypatch)
    rows = sorted(results.table(ITEMS).to_pylist(), key=lambda row: row["item"])
    assert [row["item"] for row in rows] == [f"item-{i}" for i in range(7)]
    assert [row["label"] for row in rows] == LABELS
    guesses = ["same", "other", None, "other", "same", "same", "other"]
    assert [row["predicted"] for row in rows] == guesses
    assert [row["correct"] for row in rows] == [True, False, False, True, False, None, True]
    likeliest = ["same" if guess is None else guess for guess in guesses]  # the task's first label
    assert [row["likeliest"] for row in rows] == likeliest
    assert [(row["logprob_same"], row["logprob_other"]) for row in rows] == VALUES
    assert results.scores["accuracy"] == pytest.approx(3 / 6)
    if positive is not None:  # 2 TP / (gold + predicted), of items with labels
        right, of_class = {"same": (1, 3 + 2), "other": (2, 3 + 3)}[positive]
        assert results.scores["f1"] == pytest.approx(2 * right / of_class)
    names = ["f1", "accuracy"] if positive else ["accuracy"]
    assert list(results.scores) == [*names, "intervals"]
    assert results.scores["intervals"] == dict.fromkeys(names)  # too few items
    assert results.counts == {
        "items": 7,
        "items_labelled": 6,
        "items_left_out": 0,
        "ties": 1,
        "by_label": {
            "same": {"gold": 3, "predicted": 3, "right": 1},
            "other": {"gold": 3, "predicted": 3, "right": 2},
        },
    }
    assert results.settings["unit"] == "fraction of 1"
    assert results.settings["metric"] == metric
    assert results.settings.get("positive") == positive
    assert results.settings["prompt_task"] == results.settings["trained_on"] == "same-split"


def test_ties_without_a_label_and_items_without_trees_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = ["same", "same", "same", "other", None, None, "other", None]
    values = [(-1, -2), (-1, -2), (-2, -1), (-1, -2), (-1, -1), (-1, -2)]
    results = answered(tmp_path, SAME, labels, values, monkeypatch, without_trees=2)
    assert results.counts == {
        "items": 6,
        "items_labelled": 4,
        "items_left_out": 2,
        "ties": 1,
        "by_label": {
            "same": {"gold": 3, "predicted": 4, "right": 2},
            "other": {"gold": 1, "predicted": 1, "right": 0},
        },
    }


def test_numbers_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [0.0, 1.5, None, 4.0, 2.0]
    values = [(-1.0,), (1.0,), (3.0,), (9.0,), (2.0,)]  # the task's numbers are from 0 to 4
    results = answered(tmp_path, HOW_LATE, labels, values, monkeypatch)
    rows = sorted(results.table(ITEMS).to_pylist(), key=lambda row: row["item"])
    assert [row["target"] for row in rows] == labels
    assert [row["regression"] for row in rows] == [value for (value,) in values]
    assert [row["predicted"] for row in rows] == [0, 1, 3, 4, 2]
    assert results.scores["spearman"] == pytest.approx(1)
    wanted = np.corrcoef([0, 1.5, 4, 2], [0, 1, 4, 2])[0, 1]
    assert results.scores["pearson"] == pytest.approx(wanted)
    assert results.counts == {"items": 5, "items_labelled": 4, "items_left_out": 0}
    assert results.settings["unit"] == "correlation, from -1 to 1"
    assert results.settings["decision"].endswith("within 0 to 4")


def test_prompts_without_labels_have_answers_and_no_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = answered(tmp_path, SAME, [None, None], [(-1, -2), (-2, -1)], monkeypatch)
    assert results.scores == {"accuracy": None, "intervals": None}
    assert {row["predicted"] for row in results.table(ITEMS).to_pylist()} == {"same", "other"}


@pytest.mark.parametrize("metric", ["f1", "pearson"])
def test_intervals_are_of_items_with_labels(
    metric: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items without labels change none, nor do other names of the labels."""
    rng = np.random.default_rng(0)
    labels: list[Any] = [*rng.choice(["same", "other"], 16).tolist()]
    values: list[Any] = rng.normal(-3, 1, (20, 2)).tolist()
    task = dataclasses.replace(SAME, metric="f1", positive="other")
    if metric == "pearson":
        task, labels = HOW_LATE, rng.uniform(0, 4, 16).tolist()
        values = [[max(0.0, label + rng.normal())] for label in [*labels, 1, 2, 3, 4]]
    cases = [(task, labels, values), (task, [*labels, *[None] * 4], values)]
    if metric == "f1":
        other = {"same": "other", "other": "same"}
        turned = [other[label] for label in labels]
        cases.append((dataclasses.replace(task, positive="same"), turned, [pair[::-1] for pair in values]))
    found = []
    for number, case in enumerate(cases):
        (tmp_path / str(number)).mkdir()
        found.append(answered(tmp_path / str(number), *case, monkeypatch).scores)
    assert None not in found[0]["intervals"].values()
    assert all(scores == found[0] for scores in found)


def test_values_that_are_no_numbers_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PdtoolsError, match="not numbers"):
        answered(tmp_path, SAME, ["same", "other"], [(-1, -2), (math.nan, -1)], monkeypatch)
