"""Windows of prompts with their sentences' trees: a row for each item, its answer the last sentence.

Each sentence of a prompt has its own ROOT and its tree. The answer's, ``ROOT Label : Yes``, has no tree: its
tokens shift, and the last one attaches to ROOT, as in every window. The input before the answer, attachments
included, is therefore the same for all labels. A row without a label has the first answer in its place.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects
from pdtools.prompts.items import PromptItem, Prompts
from pdtools.prompts.tasks import PromptTask, task_from
from pdtools.shards import EncodedRows, ShardRow, ShardSettings, write_shards
from pdtools.shards.plain import OVER_WINDOW, row_of_tree
from pdtools.tokenization import Sentence, Tokenizer, UnknownWordError, aligned, join_words, split_words
from pdtools.trees import read_trees, unescape

if TYPE_CHECKING:
    from pathlib import Path

    from pdtools.trees import SourcedTree

Int32 = NDArray[np.int32]
NO_ANSWER = -1


@dataclass(frozen=True, slots=True)
class PromptForm:
    """A task in a tokenizer's tokens; ``settings.prompt_form`` of shards and checkpoints.

    Attributes:
        task: the task.
        lead_in: the tokens before the answer, in its sentence; empty for tasks with numbers.
        answers: for each label, the tokens of its answer.
    """

    task: PromptTask
    lead_in: tuple[int, ...] = ()
    answers: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, task: PromptTask, tokenizer: Tokenizer) -> PromptForm:
        """Convert a task to a tokenizer's tokens.

        Raises:
            PdtoolsError: if an answer has no tokens, or another begins with its tokens.
        """
        if task.answer is None:
            return cls(task)
        n_words = len(split_words(task.lead_in, tokenizer.text_style).words)
        lead_ins, answers = set(), []
        for label in task.labels:
            encoding = tokenizer.encode(answer_sentence(task, label, tokenizer.text_style))
            ids, in_answer = encoding.ids[1:-1], encoding.word[1:-1] >= n_words
            lead_ins.add(tuple(ids[~in_answer].tolist()))
            answers.append(tuple(ids[in_answer].tolist()))
        if len(lead_ins) > 1 or not all(answers):
            raise PdtoolsError(
                f"task {task.name}: the answer is not words of its own behind {task.lead_in!r}"
            )
        if len({*answers}) < len(answers):
            raise PdtoolsError(
                f"task {task.name}: the tokenizer has the same tokens for different answers:"
                f" {', '.join(task.answers.values())}"
            )
        for one, other in itertools.permutations(range(len(answers)), 2):
            if answers[other][: len(answers[one])] == answers[one]:
                begun, whole = (task.answers[task.labels[i]] for i in (one, other))
                raise PdtoolsError(
                    f"task {task.name}: {whole!r} begins with the answer {begun!r}, so it is never more"
                    " probable"
                )
        return cls(task, lead_ins.pop(), tuple(answers))

    @classmethod
    def described(cls, settings: Mapping[str, Any], place: str | Path) -> PromptForm | None:
        """The prompt form in settings of shards, or of a checkpoint's shards; None: they are no prompts.

        Raises:
            InputError: if it is damaged.
        """
        record = settings.get("prompt_form")
        if record is None:
            return None
        try:
            task, lead_in, answers = record["task"], record["lead_in"], record["answers"]
            return cls(task_from(task, place), tuple(lead_in), tuple(map(tuple, answers)))
        except (KeyError, TypeError) as error:
            raise InputError("damaged settings of prompts", file=place) from error

    def record(self) -> dict[str, Any]:
        """The JSON-ready record that :meth:`described` reads."""
        return {
            "task": self.task.record(),
            "lead_in": list(self.lead_in),
            "answers": [list(answer) for answer in self.answers],
        }

    def begin(self, tokens: Int32, root_id: int) -> int:
        """The beginning of a row's last sentence, the answer; for tasks with numbers, the row's end."""
        return int(np.flatnonzero(tokens == root_id)[-1]) if self.answers else len(tokens)

    def with_answer(self, tokens: Int32, attach: Int32, label: int, root_id: int) -> tuple[Int32, Int32]:
        """Replace the answer of a row.

        Args:
            tokens, attach: int32 (n), the row's.
            label: the index of the answer's label in the task.
            root_id: the token ROOT.

        Returns:
            Tokens and attachments, int32 (m) each.
        """
        begin = self.begin(tokens, root_id)
        before = begin + 1 + len(self.lead_in)
        answer = np.array(self.answers[label], dtype=np.int32)
        shifts = np.arange(before, before + len(answer), dtype=np.int32)
        shifts[-1] = begin
        return np.concatenate([tokens[:before], answer]), np.concatenate([attach[:before], shifts])


def answer_sentence(task: PromptTask, label: str, text_style: str) -> Sentence:
    """The last sentence of a prompt, in a text style."""
    return _as_read(split_words(task.lead_in + task.answers[label], text_style), text_style)


def _as_read(sentence: Sentence, text_style: str) -> Sentence:
    """A sentence in the shards' form: in ``ptb`` style with spaces between all words."""
    return join_words(sentence.words, "ptb") if text_style == "ptb" else sentence


def prompt_shards(
    files: Sequence[str],
    prompts: Prompts,
    tokenizer: Tokenizer,
    settings: ShardSettings,
    out_dir: str | Path,
    rejects: Rejects,
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Make shards of prompts and their sentences' trees.

    Args:
        files: bracketed trees, one for each sentence of the prompts, in order.
        prompts: the items.
        tokenizer: encodes them.
        settings: the windows' settings.
        out_dir: the folder.
        rejects: gets items that are too long, or have a sentence without a tree or with words that the
            tokenizer cannot encode.
        overwrite: whether ``out_dir`` may be replaced.

    Returns:
        The manifest.

    Raises:
        InputError: for a tree with other words than the prompt's, or too few or too many trees.
        PdtoolsError: see :meth:`PromptForm.of`.
    """
    form = PromptForm.of(prompts.task, tokenizer)
    settings = replace(settings, documents="blank", prompts="numbers" if prompts.task.range else "labels")
    made: deque[PromptItem] = deque()
    rows = _rows(files, prompts, form, tokenizer, settings, rejects, made)
    return write_shards(
        rows,
        tokenizer,
        settings,
        out_dir,
        rejects,
        sources=[*files, prompts.file],
        more_settings={"prompt_form": form.record()},
        finish=lambda tables: _with_answers(tables, form.task, made),
        overwrite=overwrite,
    )


def _rows(
    files: Sequence[str],
    prompts: Prompts,
    form: PromptForm,
    tokenizer: Tokenizer,
    settings: ShardSettings,
    rejects: Rejects,
    made: deque[PromptItem],
) -> Iterator[ShardRow]:
    """The sentences of items; each item that has a row is appended to ``made``."""
    trees = read_trees(files, Rejects("fail"))
    answers = [_answer_row(form, label, tokenizer) for label in form.task.labels]
    for item, line in zip(prompts.items, prompts.lines, strict=True):
        found = [_row(trees, text, tokenizer, settings, files) for text in item.sentences]
        rows = [row for row in found if isinstance(row, ShardRow)]
        reason = next((row for row in found if isinstance(row, str)), None)
        if answers:
            rows.append(answers[0 if item.label is None else form.task.labels.index(str(item.label))])
        if reason is None and sum(len(row.encoding.ids) - 1 for row in rows) > settings.window:
            reason = OVER_WINDOW
        if reason is not None:
            rejects.exclude(reason, file=prompts.file, line=line, text=" ".join(item.sentences))
            continue
        made.append(item)
        for number, row in enumerate(rows):
            yield replace(row, file=prompts.file, begins=number == 0)
    if (extra := next(trees, None)) is not None:
        raise InputError("more trees than the prompts have sentences", file=extra.file, line=extra.line)


def _row(
    trees: Iterator[SourcedTree],
    text: str,
    tokenizer: Tokenizer,
    settings: ShardSettings,
    files: Sequence[str],
) -> ShardRow | str:
    sourced = next(trees, None)
    if sourced is None:
        raise InputError(f"no tree for the sentence {text!r}: fewer trees than sentences", file=files[-1])
    sentence = aligned([unescape(word) for word in sourced.tree.words], text, tokenizer.text_style)
    if sentence is None:
        raise InputError(
            f"not a tree of the sentence {text!r}",
            file=sourced.file,
            line=sourced.line,
            hint="one tree for each sentence of the prompts, in order: pdtools decode --from parts",
        )
    return row_of_tree(sourced.tree, tokenizer, settings, sentence)


def _answer_row(form: PromptForm, label: str, tokenizer: Tokenizer) -> ShardRow:
    sentence = answer_sentence(form.task, label, tokenizer.text_style)
    try:
        encoding = tokenizer.encode(sentence)
    except UnknownWordError as error:
        raise PdtoolsError(
            f"task {form.task.name}: words that the tokenizer does not know: {error}"
        ) from error
    attach = np.arange(len(encoding.ids), dtype=np.int32)
    attach[-1] = 0
    return ShardRow(" ".join(sentence.words), encoding, attach, len(sentence.words))


def _with_answers(
    tables: Iterable[EncodedRows], task: PromptTask, items: deque[PromptItem]
) -> Iterator[EncodedRows]:
    """Add the columns of prompts to windows, one item each."""
    import pyarrow as pa

    labels = {label: number for number, label in enumerate(task.labels)}
    for rows in tables:
        of_rows = [items.popleft() for _ in range(len(rows))]
        table = rows.table.append_column("item", pa.array([item.id for item in of_rows], pa.string()))
        if task.range is None:
            answers = [labels.get(str(item.label), NO_ANSWER) for item in of_rows]
            table = table.append_column("answer", pa.array(answers, pa.int32()))
        else:
            targets = [np.nan if item.label is None else float(item.label) for item in of_rows]
            table = table.append_column("target", pa.array(targets, pa.float64()))
        yield replace(rows, table=table)
