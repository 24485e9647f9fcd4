"""Prompts as training data, and checkpoint selection by a model's answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.models import Batch, LanguageModel, LossParts
from pdtools.prompts.metrics import main_score, predict
from pdtools.prompts.rows import NO_ANSWER, PromptForm
from pdtools.shards import ShardSet
from pdtools.training.data.batches import BatchLimits, plan_in_order
from pdtools.training.data.masking import EVALUATION
from pdtools.training.data.sentences import Sentences

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


class PromptRows(Sentences):
    """The prompts of a shard folder that a model can take; see :class:`Sentences`.

    Args:
        shards: prompts, windows with a column of answers.
        model, rejects, longest: see there.
        answers_only: whether the loss is the answers' loss alone.

    Raises:
        InputError: also if some have no answers, or have answers that the task does not know.
    """

    def __init__(
        self,
        shards: ShardSet,
        model: LanguageModel,
        *,
        rejects: Rejects,
        longest: int | None = None,
        answers_only: bool = False,
    ) -> None:
        super().__init__(shards, model, rejects=rejects, longest=longest)
        self.form = form_of(shards)
        self._answers_only = answers_only
        known = shards.answers >= 0 if self.form.answers else ~np.isnan(shards.targets)
        if not known[self.rows].all():
            row = int(self.rows[~known[self.rows]][0])
            reason = f"the prompt with id {int(shards.ids[row])} has no label"
            raise InputError(reason, file=shards.folder, hint="pdtools eval-classify predicts labels")
        if self.form.answers:
            # By length with its answer, batches of one length would have only one label.
            of_answers = np.array([len(answer) for answer in self.form.answers])
            self.lengths += of_answers.max() - of_answers[shards.answers[self.rows]]

    def batch(self, numbers: NDArray[np.int64], draw: Sequence[int] = EVALUATION) -> Batch:
        """See :meth:`Sentences.batch`."""
        rows = self.rows[numbers].tolist()
        if not rows:
            empty = self._model.pack([])
            nothing = torch.zeros_like(empty.tokens, dtype=torch.bool)
            unknown = None if self.form.answers else torch.full((1,), torch.nan)
            return dataclasses.replace(empty, answers=nothing, numbers=unknown)
        pairs = [(self._shards.tokens(row), self._shards.attach(row)) for row in rows]
        wanted = None if self.form.answers else self._shards.targets[rows].tolist()
        return prompt_batch(self._model, self.form, pairs, wanted, answers_only=self._answers_only)

    def main_score(self, loss: Loss, device: str, limits: BatchLimits) -> tuple[str, float]:
        """The task's score that chooses checkpoints, its name and value.

        Args:
            loss: calls the model; every rank calls it, with all prompts.
            device: the model's device.
            limits: limits of batches.
        """
        rows = self.rows.tolist()
        pairs = [(self._shards.tokens(row), self._shards.attach(row)) for row in rows]
        found = answer_prompts(loss, self._model, self.form, pairs, device=device, limits=limits)
        gold = self._shards.answers[rows] if self.form.answers else self._shards.targets[rows]
        task = self.form.task
        return task.metric, main_score(task, gold, predict(task, found))


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
