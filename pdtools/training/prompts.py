"""Prompts in batches, and a model's answers to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.models import Batch, LanguageModel, LossParts
from pdtools.prompts.rows import NO_ANSWER, PromptForm
from pdtools.shards import ShardSet
from pdtools.training.batches import BatchLimits, plan_in_order

Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]
Loss = Callable[[Batch], LossParts]


def prompt_batch(
    model: LanguageModel,
    form: PromptForm,
    rows: Sequence[tuple[Int32, Int32]],
    numbers: Sequence[float] | None = None,
    *,
    answers_only: bool = False,
) -> Batch:
    """Make a batch from rows of prompts, tokens with attachments.

    Args:
        model: the model that reads them.
        form: the task's form.
        rows: prompts with an answer each.
        numbers: for tasks with numbers, each row's number, NaN if unknown.
        answers_only: whether only the answers' tokens count in the loss.
    """
    batch = model.pack_prompts(rows)
    place = torch.arange(batch.tokens.shape[1])
    begins = torch.tensor([form.begin(tokens, model.root_id) for tokens, _ in rows])  # (B,)
    of_answers = (place >= begins[:, None]) & batch.real()  # (B, N), including lead-ins and ROOTs
    answers = of_answers & (place > begins[:, None] + len(form.lead_in))
    return dataclasses.replace(
        batch,
        unattached=batch.real() if answers_only else of_answers,
        answers=answers,
        scored=answers if answers_only else None,
        numbers=None if numbers is None else torch.tensor(numbers, dtype=torch.float32),
    )


def form_of(shards: ShardSet) -> PromptForm:
    """The task form of shards of prompts.

    Raises:
        InputError: if they are none, or do not fit their task.
    """
    form = PromptForm.described(shards.manifest["settings"], shards.folder)
    if form is None:
        hint = "pdtools tapes --prompts makes shards of them"
        raise InputError("these shards hold no prompts", file=shards.folder, hint=hint)
    if not form.answers:
        return form
    root_id = shards.tokenizer.root_id
    for row in range(len(shards)):
        answer, tokens = int(shards.answers[row]), shards.tokens(row)
        known = NO_ANSWER <= answer < len(form.answers)
        ids = [*form.lead_in, *form.answers[max(answer, 0)]] if known else []
        if tokens[form.begin(tokens, root_id) + 1 :].tolist() != ids:
            reason = f"row {row} (from 0) does not end with answer {answer} of the task"
            raise InputError(reason, file=shards.folder, hint="make the shards again with pdtools tapes")
    return form


def answer_prompts(
    loss: Loss,
    model: LanguageModel,
    form: PromptForm,
    rows: Sequence[tuple[Int32, Int32]],
    *,
    device: str | torch.device,
    limits: BatchLimits,
) -> Float64:
    """A model's answers to prompts: log p of every answer given the text before it; or a number.

    Args:
        loss: calls the model.
        model: the model, in evaluation mode.
        form: the task's form.
        rows: tokens and attachments of prompts, with any answers.
        device: the model's device.
        limits: limits of batches; all answers to a prompt are in one.

    Returns:
        float64 (rows, answers), nats; for tasks with numbers (rows, 1).
    """
    each = max(1, len(form.answers))
    found = np.zeros((len(rows), each))
    lengths = np.array([len(tokens) for tokens, _ in rows], dtype=np.int64)
    fewer = BatchLimits(
        tokens=max(1, limits.tokens // each) if limits.tokens else 0,
        sentences=max(1, limits.sentences // each) if limits.sentences else 0,
    )
    with torch.no_grad():
        for numbers in plan_in_order(lengths, fewer):
            asked = list(_asked(form, rows, numbers, model.root_id))
            unknown = None if form.answers else [float("nan")] * len(asked)
            # Logits are made for the answers' tokens alone.
            batch = prompt_batch(model, form, asked, unknown, answers_only=True)
            values = loss(batch.to(device)).rows["answer_logprobs" if form.answers else "numbers"]
            found[numbers] = values.cpu().double().numpy().reshape(len(numbers), each)
    return found


def _asked(
    form: PromptForm, rows: Sequence[tuple[Int32, Int32]], numbers: NDArray[np.int64], root_id: int
) -> Iterator[tuple[Int32, Int32]]:
    for number in numbers.tolist():
        if not form.answers:
            yield rows[number]
        for label in range(len(form.answers)):
            tokens, attach = rows[number]
            yield form.with_answer(tokens, attach, label, root_id)
