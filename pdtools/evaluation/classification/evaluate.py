"""Evaluation of a model's answers to prompts, labels or numbers (Murty et al. 2023, table 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError, explained_memory_errors
from pdtools.evaluation.bootstrap import CONFIDENCE, are_few, bootstrap, interval
from pdtools.evaluation.classification.record import item_score
from pdtools.evaluation.perplexity.evaluate import check_shards
from pdtools.evaluation.perplexity.shard_rows import RowToScore, score_blocks
from pdtools.evaluation.results import ITEMS, Progress, Results, no_progress
from pdtools.prompts.rows import NO_ANSWER, PromptForm
from pdtools.prompts.tasks import WRONG, predict, scores_of

if TYPE_CHECKING:
    import pyarrow as pa

    from pdtools.evaluation.chunks import InChunks
    from pdtools.evaluation.classification.record import AnswerRanks, AnswerSums
    from pdtools.files import Rejects
    from pdtools.models import LoadedModel
    from pdtools.shards import ShardSet

Float64 = NDArray[np.float64]

ROWS_PER_CHUNK = 64
DEFAULT_SAMPLES = 10_000
# Positions of a batch, if no number of rows is requested.
_POSITIONS = 8192


def evaluate_prompts(
    shards: ShardSet,
    loaded: LoadedModel,
    *,
    max_batch: int | None = None,
    seed: int = 0,
    samples: int = DEFAULT_SAMPLES,
    rejects: Rejects,
    progress: Progress = no_progress,
    in_chunks: InChunks | None = None,
) -> Results:
    """Answer the prompts of shards, and score the answers that have known labels.

    The answer is the label with the largest log p(answer | prompt, its attachments), summed over the answer's
    tokens; nothing is generated. If two are equally probable, there is none, which is wrong. Numbers are
    the regression's, within the task's range.

    Args:
        shards: prompts, made with the model's tokenizer.
        loaded: a checkpoint that reads windows; for numbers one that was trained on such a task.
        max_batch: rows computed together, each answer one; by default as many as are short enough.
        seed: for the bootstrap.
        samples: bootstrap samples.
        rejects: takes prompts that are too long for the model.
        progress: wraps the iterator over prompts.
        in_chunks: distributes the answering; None: this process.

    Returns:
        ``scores``: the task's scores (:func:`pdtools.prompts.tasks.scores_of`), None without labels, and
        ``intervals``, 95% of a bootstrap over items. An ``items`` table with a row per prompt.

    Raises:
        InputError: if the shards are no prompts, or not for this model.
    """
    from pdtools.training.prompts import form_of

    check_shards(shards, loaded)
    form = form_of(shards)
    if not form.answers and not getattr(loaded.model.config, "regression", False):
        raise PdtoolsError(f"{loaded.folder}: not trained to give numbers, which these prompts ask for")
    blocks = score_blocks(
        shards,
        loaded,
        partial(_answer, form=form, max_batch=max_batch),
        kind=tuple[float, ...],
        rows_per_chunk=ROWS_PER_CHUNK,
        in_chunks=in_chunks,
        rejects=rejects,
        progress=progress,
    )
    answered = [pair for block in blocks for pair in block]
    if not answered:
        raise PdtoolsError(f"{shards.folder}: no prompt that the model can read")
    rows = [row.number for row, _ in answered]
    found = np.array([values for _, values in answered])  # (items, answers)
    if not np.isfinite(found).all():
        raise PdtoolsError("the model gives values that are not numbers: its weights are damaged")
    task = form.task
    if form.answers:
        gold: NDArray[Any] = shards.answers[rows]
        known = gold != NO_ANSWER
    else:
        gold = shards.targets[rows]
        known = ~np.isnan(gold)
    predicted = predict(task, found)
    scorers = scores_of(task)
    scores: dict[str, Any] = {
        name: score(gold[known], predicted[known]) if known.any() else None for name, score in scorers.items()
    }
    scores["intervals"] = None
    if known.any():
        positive = task.labels.index(task.positive) if task.metric == "f1" else None
        of_items = {name: item_score(name, positive) for name in scorers}
        scores["intervals"] = intervals(of_items, gold[known], predicted[known], seed=seed, samples=samples)
    ties = int((predicted == WRONG).sum()) if form.answers else 0
    counts = {
        "items": len(answered),
        "items_labelled": int(known.sum()),
        "items_left_out": len(rejects) + int(shards.manifest["counts"].get("left_out", 0)),
        **({"ties": ties, "by_label": _by_label(task.labels, gold, predicted)} if form.answers else {}),
    }
    trained = PromptForm.described(loaded.config["shards"], loaded.folder)
    settings = {
        "task": "classify",
        "prompt_task": task.name,
        "metric": next(iter(scorers)),
        **({"positive": task.positive} if task.metric == "f1" else {}),
        "unit": "fraction of 1" if form.answers else "correlation, from -1 to 1",
        **loaded.described,
        "trained_on": trained and trained.task.name,  # null: running text
        "decision": "the answer of the largest log p given the prompt; a tie is wrong"
        if form.answers
        else f"regression of the last token, within {task.range[0]:g} to {task.range[1]:g}",  # type: ignore[index]
        "log_base": "nats",
        "trees": f"the shards' own, {shards.manifest['settings']['factor']}-binarized",
        "dtype": loaded.model.dtype_name,
        "text_style": loaded.tokenizer.text_style,
        "confidence": CONFIDENCE,
        "bootstrap_samples": samples,
        "seed": seed,
        "text_sha256": shards.text_sha256(),
    }
    items = _table(shards, form, [row for row, _ in answered], found, gold, predicted, known)
    return Results(scores=scores, counts=counts, settings=settings, tables={ITEMS: items})


def intervals(
    scores: Mapping[str, AnswerSums | AnswerRanks],
    gold: NDArray[Any],
    predicted: NDArray[Any],
    *,
    seed: int,
    samples: int,
) -> dict[str, list[float] | None]:
    """Percentile intervals (95%) of scores, by a bootstrap over items.

    Returns:
        low and high of each score, as fractions of 1; None if fewer than half of the samples have it, and of
        fewer than ten items.
    """
    found: dict[str, list[float] | None] = {}
    for name, score in scores.items():
        numbers = np.array(score.numbers(gold.tolist(), predicted.tolist()))
        drawn = bootstrap(numbers, score.statistic, np.random.default_rng(seed), samples)
        is_known = 2 * len(drawn) > samples and not are_few(len(numbers))
        found[name] = [*interval(drawn / 100)] if is_known else None
    return found


def _answer(
    loaded: LoadedModel, rows: Sequence[RowToScore], *, form: PromptForm, max_batch: int | None
) -> list[tuple[float, ...]]:
    from pdtools.training.batches import BatchLimits
    from pdtools.training.prompts import answer_prompts

    limits = BatchLimits(sentences=max_batch) if max_batch else BatchLimits(tokens=_POSITIONS)
    model = loaded.model
    with explained_memory_errors("try a smaller --search max_batch=N"):
        found = answer_prompts(
            model.loss,
            model,
            form,
            [(row.tokens, row.derivation) for row in rows],
            device=model.device,
            limits=limits,
        )
    return [tuple(values) for values in found.tolist()]


def _by_label(
    labels: Sequence[str], gold: NDArray[np.integer], predicted: NDArray[np.integer]
) -> dict[str, dict[str, int]]:
    of_gold, of_predicted = Counter(gold.tolist()), Counter(predicted.tolist())
    right = Counter(gold[gold == predicted].tolist())
    return {
        label: {"gold": of_gold[i], "predicted": of_predicted[i], "right": right[i]}
        for i, label in enumerate(labels)
    }


def _table(
    shards: ShardSet,
    form: PromptForm,
    rows: Sequence[RowToScore],
    found: Float64,
    gold: NDArray[Any],
    predicted: NDArray[Any],
    known: NDArray[np.bool_],
) -> pa.Table:
    """A row for each prompt.

    Columns:
        id, item, text: row of the shards, the item, the words.
        label: the right label, if it is known.
        predicted: the label, null for a tie; for tasks of numbers the number.
        correct: whether they are the same; null without a label.
        likeliest: the predicted label; for a tie its first one.
        logprob_LABEL: log p of each label's answer.
        target, regression: for tasks of numbers: the right number, and the model's.
    """
    import pyarrow as pa

    own = {
        "id": pa.array([row.id for row in rows], pa.int64()),
        "item": pa.array([shards.item(row.number) for row in rows], pa.string()),
        "text": pa.array([row.text for row in rows], pa.string()),
    }
    if not form.answers:
        numbers = {"target": np.where(known, gold, 0), "predicted": predicted, "regression": found[:, 0]}
        masks = {"target": ~known}
        return pa.table({**own, **{name: pa.array(v, mask=masks.get(name)) for name, v in numbers.items()}})
    names = [*form.task.labels, None]  # -1 is the last
    right = [bool(g == p) if k else None for g, p, k in zip(gold, predicted, known, strict=True)]
    return pa.table(
        {
            **own,
            "label": pa.array([names[i] for i in gold], pa.string()),
            "predicted": pa.array([names[i] for i in predicted], pa.string()),
            "correct": pa.array(right, pa.bool_()),
            "likeliest": pa.array([names[i] for i in found.argmax(1)], pa.string()),
            **{f"logprob_{label}": pa.array(found[:, i]) for i, label in enumerate(form.task.labels)},
        }
    )
