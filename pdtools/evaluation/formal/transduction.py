"""Accuracy on the transduction tasks, by length (Li et al. 2024, section 4 and tables 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.results import ITEMS, Progress, Results, mean, no_progress
from pdtools.formal.transduction_data import RowLayout
from pdtools.formal.transductions import StringPairs, Task, make_task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdtools.models import Batch, LanguageModel, LoadedModel

DEFAULT_BATCH = 64


def task_of(loaded: LoadedModel) -> tuple[Task, range]:
    """The task that a model was trained on, and the lengths.

    Raises:
        PdtoolsError: if it was not trained on a task.
    """
    settings = loaded.config["shards"]
    try:
        task = make_task(settings["task"], as_released=settings["as_released"])
        first, last = settings["lengths"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PdtoolsError(f"{loaded.folder}: not trained on a task (pdtools train --task NAME)") from error
    return task, range(first, last + 1)


def evaluate_task(
    pairs: Mapping[int, StringPairs],
    loaded: LoadedModel,
    *,
    dropout: bool = False,
    seed: int = 0,
    max_batch: int = DEFAULT_BATCH,
    progress: Progress = no_progress,
) -> Results:
    """Predict y from x, and count the symbols that are right.

    A masked model predicts all of y at once. A causal model continues its own predictions. The likeliest
    symbol is taken among the possible symbols of y.

    Args:
        pairs: by the length of x.
        loaded: a model that was trained on the task.
        dropout: leave it on, as the released code does.
        seed: for dropout.
        max_batch: pairs computed together.
        progress: wraps the iterator over lengths.

    Returns:
        ``scores.accuracy``: the share of right symbols of a length, including the terminator and without
        padding, averaged over lengths; ``scores.accuracy_beyond_training``: over lengths longer than in
        training; ``scores.accuracy_as_released``: the same without the first of these; ``scores.exact``: the
        share of pairs without a mistake, averaged over lengths; ``scores.by_length``. An ``items`` table has
        a row per pair: ``length`` (of x), ``number`` (among the x of this length, from 1), ``symbols`` (of y
        that count), ``right`` (of these), ``y`` and ``predicted`` (symbols between single spaces).

    Raises:
        PdtoolsError: if the model was not trained on a task, or a row is too long for it.
    """
    import torch

    task, trained = task_of(loaded)
    model = loaded.model
    layout = RowLayout(task=task, tokenizer=loaded.tokenizer, objective=model.objective)
    answers: list[dict[str, Any]] = []
    torch.manual_seed(seed)
    was_training = model.training
    model.train(dropout)
    try:
        with torch.inference_mode():
            for length in progress(iter(pairs), len(pairs)):
                answers += _answers(pairs[length], length, layout, model, max_batch)
    finally:
        model.train(was_training)
    return _results(answers, trained, loaded, layout, seed if dropout else None)


def _answers(
    pairs: StringPairs,
    length: int,
    layout: RowLayout,
    model: LanguageModel,
    max_batch: int,
) -> Iterator[dict[str, Any]]:
    predict = predict_greedily if model.objective == "causal" else predict_at_once
    for first in range(0, len(pairs), max_batch):
        some = pairs.take(slice(first, first + max_batch))
        predicted = predict(layout.batch(some), layout.first_position(length), layout, model)  # (B, m)
        targets = layout.token_of_symbol[some.y]  # (B, m)
        for i, counted in enumerate(some.counted.tolist()):
            ours, theirs = predicted[i, :counted], targets[i, :counted]
            yield {
                "length": length,
                "number": first + i + 1,
                "symbols": counted,
                "right": int((ours == theirs).sum()),
                "y": _spell(theirs, layout),
                "predicted": _spell(ours, layout),
            }


def _spell(tokens: NDArray[np.int64], layout: RowLayout) -> str:
    return " ".join(layout.tokenizer.token_text(token) for token in tokens.tolist())


def predict_at_once(batch: Batch, first: int, layout: RowLayout, model: LanguageModel) -> NDArray[np.int64]:
    """The likeliest token at every position of y, from the ``first`` on, given the row: int64 (B, m)."""
    logprobs = model.position_logprobs(batch.to(model.device))[:, first:]  # (B, m, V)
    best: NDArray[np.int64] = logprobs[:, :, layout.output_tokens].argmax(-1).cpu().numpy()  # (B, m)
    chosen: NDArray[np.int64] = layout.output_tokens[best]
    return chosen


def predict_greedily(batch: Batch, first: int, layout: RowLayout, model: LanguageModel) -> NDArray[np.int64]:
    """Predict y symbol by symbol, each read before the next: int64 (B, m)."""
    import torch

    number, length = batch.tokens.shape
    outputs = torch.from_numpy(layout.output_tokens).to(model.device)  # (K,)
    given = batch.tokens.to(model.device)  # (B, N)
    state = model.start(number, length)
    predicted = []
    for k in range(length):
        if k >= first:
            best = model.next_token_logprobs(state)[:, outputs].argmax(-1)  # (B,)
            predicted.append(outputs[best])
        if k + 1 < length:
            token = predicted[-1] if k >= first else given[:, k]
            no_tape = torch.zeros(1, 1, dtype=torch.int16, device=model.device).expand(number, k + 1)
            model.advance(state, token, no_tape)
    answer: NDArray[np.int64] = torch.stack(predicted, 1).cpu().numpy()
    return answer


def read_task(loaded: LoadedModel, text: str) -> tuple[Batch, list[str | None]]:
    """The row of a string x, and the model's predictions at each of its positions: None before y.

    Raises:
        PdtoolsError: if the model has no task, or the string does not suit the task.
    """
    import numpy as np
    import torch

    task, _ = task_of(loaded)
    symbols = text.split()
    unknown = [symbol for symbol in symbols if symbol not in task.symbols]
    if unknown:
        raise PdtoolsError(f"{unknown[0]!r} is no symbol of the task {task.name}: {' '.join(task.symbols)}")
    task.check_length(len(symbols))
    x = [task.symbols.index(symbol) for symbol in symbols]
    try:
        task.answer(x)
    except ValueError as error:
        raise PdtoolsError(f"{text!r} is no x of the task {task.name}: {error}") from None
    layout = RowLayout(task=task, tokenizer=loaded.tokenizer, objective=loaded.model.objective)
    answer = task.output_length(len(symbols))
    pairs = StringPairs(
        x=np.array([x]),
        y=np.zeros((1, answer), dtype=np.int64),  # a placeholder for the model's answer
        counted=np.array([answer]),
    )
    batch, first = layout.batch(pairs), layout.first_position(len(symbols))
    predict = predict_at_once if loaded.model.objective == "masked" else predict_greedily
    found = predict(batch, first, layout, loaded.model)[0]  # (m,)
    if loaded.model.objective == "causal":
        batch.tokens[0, first:] = torch.from_numpy(found)
    said: list[str | None] = [None] * first
    said += [loaded.tokenizer.token_text(token) for token in found.tolist()]
    return batch, said


def _results(
    answers: list[dict[str, Any]],
    trained: range,
    loaded: LoadedModel,
    layout: RowLayout,
    dropout_seed: int | None,
) -> Results:
    import pyarrow as pa

    by_length: dict[int, dict[str, Any]] = {}
    for length, of_length in groupby(sorted(answers, key=itemgetter("length")), itemgetter("length")):
        group = list(of_length)
        symbols = sum(answer["symbols"] for answer in group)
        by_length[length] = {
            "accuracy": sum(answer["right"] for answer in group) / symbols,
            "exact": sum(answer["right"] == answer["symbols"] for answer in group) / len(group),
            "pairs": len(group),
            "symbols": symbols,
        }

    def average(score: str, longer_than: int = 0) -> float | None:
        return mean([each[score] for length, each in by_length.items() if length > longer_than])

    return Results(
        scores={
            "accuracy": average("accuracy"),
            "accuracy_beyond_training": average("accuracy", trained[-1]),
            "accuracy_as_released": average("accuracy", trained[-1] + 1),
            "exact": average("exact"),
            "by_length": {str(length): each for length, each in by_length.items()},
        },
        counts={"pairs": len(answers), "symbols": sum(answer["symbols"] for answer in answers)},
        settings={
            "task": "task",
            "unit": "fraction of 1",
            "formal_task": layout.task.name,
            "as_released": layout.task.as_released,
            "trained_lengths": [trained[0], trained[-1]],
            **loaded.described,
            "objective": loaded.model.objective,
            "decoding": "greedy" if loaded.model.objective == "causal" else "at once",
            "dropout": dropout_seed is not None,
            "dropout_seed": dropout_seed,
            "chosen_among": "symbols of y",
            "dtype": loaded.model.dtype_name,
        },
        tables={ITEMS: pa.Table.from_pylist(answers)},
    )
