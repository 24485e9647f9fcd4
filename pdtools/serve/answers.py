"""Answers to questions: the pages that ``view`` draws, and the table that ``surprisal TABLE`` writes.

An answer is made in steps, between which the worker does what waits (:mod:`pdtools.serve.worker`).
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects
from pdtools.files.tables import read_sheet
from pdtools.inspection.trace import Trace
from pdtools.inspection.tracing import trace
from pdtools.jobs import Plan
from pdtools.models import LoadedModel
from pdtools.provenance import provenance
from pdtools.provenance.hub import BUNDLED, find_model, name_of, name_of_snapshot
from pdtools.report.view.page import Page, document_of
from pdtools.report.view.sentences import rounded_numbers, sentences_page
from pdtools.report.view.stimuli import stimuli_page
from pdtools.search.inputs import read_sentence
from pdtools.search.model import Model, ModelSettings, is_guest
from pdtools.search.next_tokens import likeliest
from pdtools.search.options import NO_CONTEXT, Context
from pdtools.search.scores import SentenceScore
from pdtools.search.surprisal import PER_NAT, word_rows
from pdtools.serve.questions import LIKELIEST, MOST_ROWS, Question
from pdtools.stimuli.columns import make_table, write
from pdtools.stimuli.surprisals import Surprisals, named_models, score_parts
from pdtools.stimuli.table import read_stimuli
from pdtools.tokenization import split_text_words

_KEPT = 4
_MOST_REJECTS = 20


class Loaded:
    """A model that stays loaded, asked with various settings.

    Attributes:
        name: its name on pages.
        option: the value of ``--model`` that means it, without the folders above it.
    """

    def __init__(self, name: str, settings: ModelSettings) -> None:
        self.name = name
        self.settings = _Held(**vars(settings), loaded=self)
        self.option = _option(settings.model_dir)
        self._models: dict[ModelSettings, Model] = {}
        self._checkpoint: LoadedModel | None = None
        model = self.model(self.settings)
        self._is_guest = is_guest(settings.model_dir)
        self._checkpoint = None if self._is_guest else model.loaded
        _ = model.family  # refuses what the model cannot do

    def model(self, asked: ModelSettings) -> Model:
        """The model, asked in this way; its weights are loaded once."""
        if asked not in self._models:
            while len(self._models) >= _KEPT:
                del self._models[next(iter(self._models))]
            self._models[asked] = Model(asked, self._checkpoint)
        return self._models[asked]


@dataclass(frozen=True, kw_only=True)
class _Held(ModelSettings):
    """Settings of a model that is loaded already."""

    loaded: Loaded = field(compare=False, repr=False)

    def load(self) -> Model:
        """See :meth:`ModelSettings.load`."""
        return self.loaded.model(self)


def load(settings: Sequence[ModelSettings]) -> list[Loaded]:
    """Load models, by the names that ``surprisal TABLE`` gives them."""
    return [Loaded(each.name, each.settings) for each in named_models(settings, [])]


def _words(found: Trace, text: str) -> list[list[Any]]:
    """The words of a sentence with their bits, as ``surprisal --words`` has them; none without surprisals."""
    bits = found.surprisals[1:]
    if None in bits:
        return []
    score = SentenceScore(
        text=found.text,
        tokens=found.tokens[1:],
        words=found.word[1:],
        starts=found.starts[1:],
        ends=found.ends[1:],
        logprobs=np.array(bits, np.float64) / -PER_NAT["bits"],
        n_unknown=0,
        eos=found.word[-1] < 0,
    )
    return [[row.text, row.surprisal] for row in word_rows(score, split_text_words(text))]


def _option(folder: str) -> str:
    if (hub := name_of_snapshot(folder)) is not None:
        return f"hf:{hub}"
    return next((name for name in BUNDLED if find_model(name).folder == folder), name_of(folder))


class Answers:
    """What a page is answered.

    Args:
        models: the models.
    """

    def __init__(self, models: Sequence[Loaded]) -> None:
        self.models = models
        self.names = [each.name for each in models]
        made = provenance({each.name: each.settings.model_dir for each in models})
        del made["command"]  # with folders of this machine
        for name, read in made["inputs"].items():
            read["path"] = name
        self.made: Mapping[str, Any] = made

    def steps(self, question: Question, folder: Path | None) -> Generator[dict[str, Any]]:
        """Answer a question step by step.

        Args:
            question: the question.
            folder: a private folder, which holds the table; None: it is no question about one.

        Yields:
            Events for the page: ``done`` and ``of``, numbers of sentences; at last ``answer``.

        Raises:
            PdtoolsError: if there is no answer; the message is for the page.
        """
        if folder is not None:
            return self._table(question, folder)
        return self._next(question) if question.kind == "next" else self._sentences(question)

    def _asked(self, question: Question, **changed: Any) -> list[ModelSettings]:
        """The models' settings for a question."""
        context = NO_CONTEXT
        if question.context:
            context = Context(of=f"{len(question.context)} sentences", sentences=question.context)
        return [
            replace(
                each.settings,
                search=replace(each.settings.search, beam=question.beam or each.settings.search.beam),
                context=context,
                **changed,
            )
            for each in self.models
        ]

    def _sentences(self, question: Question) -> Generator[dict[str, Any]]:
        traces: list[list[Trace]] = []
        for text in question.texts:
            traces.append([])
            for asked in self._asked(question):
                yield {}
                model = asked.load()
                sentence = read_sentence(text, "text", model.settings["text_style"])
                traces[-1].append(trace(model, sentence, asked.search))
        page = sentences_page(traces, self.names, self.made, pair=question.kind == "pair")
        words = None
        if question.words:
            words = [
                [_words(each, text) for each in own] for text, own in zip(question.texts, traces, strict=True)
            ]
        yield self._answer(page, question, written=rounded_numbers(words))

    def _next(self, question: Question) -> Generator[dict[str, Any]]:
        (prefix,) = question.texts
        found = {}
        for name, asked in zip(self.names, self._asked(question), strict=True):
            yield {}
            model = asked.load()
            found[name] = likeliest(model.following(prefix), model.vocabulary, LIKELIEST)
        title = f"What next? {prefix or 'At the beginning'} — {', '.join(self.names)}"
        yield self._answer(
            Page(kind="next", title=title, document={"prefix": prefix, "next": found}), question
        )

    def _table(self, question: Question, folder: Path) -> Generator[dict[str, Any]]:
        file, output = folder / f"table{question.suffix}", folder / "surprisals.csv"
        try:
            sheet = read_sheet(str(file))
            if len(sheet.numbers) > MOST_ROWS:
                raise PdtoolsError(f"the table has at most {MOST_ROWS:,} rows, not {len(sheet.numbers):,}")
            stimuli = read_stimuli(sheet, {}, words=question.words, glue=" ")
            yield {}
            models = named_models(self._asked(question, measures=("structure",)), [])
            rejects = Rejects("skip")
            made = {each.name: Surprisals(stimuli, "text", "bits", rejects) for each in models}
            found = list(made.values())
            of, done = len(set(stimuli.texts)) * len(models), 0
            context = models[0].settings.context
            scores = score_parts(
                models, lambda number, about: found[number].parts(context, about), {}, plan=Plan()
            )
            for number, place, score in scores:
                found[number].add(place, score)
                done += 1
                yield {"done": done, "of": of}
            write(make_table(stimuli, made), str(output))
            stimuli.exclude_empty(rejects)
        except InputError as error:
            place = "the table" if error.line is None else f"row {error.line}"
            raise PdtoolsError(f"{place}: {error.fault}") from error
        yield {"done": of, "of": of}
        notes = [stimuli.form, *stimuli.notes]
        notes += [
            f"row {each['line']}: no score: {each['reason']}"
            for each, _ in zip(rejects, range(_MOST_REJECTS))
        ]
        try:
            page = stimuli_page([str(output)], made=self.made)
        except PdtoolsError as error:
            fault = error.fault if isinstance(error, InputError) else str(error)
            page = Page(
                kind="none", title="Surprisals of the table", document={}, notes=(f"not drawn: {fault}",)
            )
        yield self._answer(page, question, said=notes, skipped=len(rejects)) | {"table": output.read_bytes()}

    def _answer(self, page: Page, question: Question, **more: Any) -> dict[str, Any]:
        document = document_of(page, self.made) | {"live": True, "command": self.command(question), **more}
        answer = {"document": document, "packed": dict(page.packed)}
        return {"answer": self.without_paths(answer)}

    def command(self, question: Question) -> str:
        """The command line, or the line of Python, that gives the same."""
        models = [word for each in self.models for word in ("--model", each.option)]
        beam = [] if question.beam is None else ["--beam", str(question.beam)]
        return shlex.join(["pdtools", "view", *question.texts, *models, *beam])

    def without_paths(self, value: Any) -> Any:
        """A value of JSON in whose texts the folders of models are models' names."""
        if isinstance(value, str):
            for each in self.models:
                value = value.replace(each.settings.model_dir, each.name)
            return value
        if isinstance(value, Mapping):
            return {key: self.without_paths(each) for key, each in value.items()}
        return [self.without_paths(each) for each in value] if isinstance(value, (list, tuple)) else value
