"""Answers to questions: the pages that ``view`` draws, and the table that ``surprisal TABLE`` writes.

An answer is made in steps, between which the worker does what waits (:mod:`pdtools.serve.worker`).
"""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

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
from pdtools.search.options import DEFAULT_SEARCH, NO_CONTEXT, Context
from pdtools.search.scores import SentenceScore
from pdtools.search.surprisal import PER_NAT, word_rows
from pdtools.serve.questions import LIKELIEST, MOST_CHARS, MOST_ROWS, PageQuestion
from pdtools.stimuli.columns import make_table, new_columns, write
from pdtools.stimuli.surprisals import Surprisals, named_models, score_parts
from pdtools.stimuli.table import read_stimuli
from pdtools.tokenization import split_text_words

T = TypeVar("T")

# Ways of asking a model that are kept, and sentences without a score that are named.
_KEPT, _MOST_NAMED = 3, 20
_SECONDS = 0.2  # between two reports of progress


class HeldModel:
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
        self._is_guest = is_guest(settings.model_dir)
        model = self.model(self.settings)
        self._checkpoint = None if self._is_guest else model.loaded
        _ = model.family  # refuses what the model cannot do

    def model(self, asked: ModelSettings) -> Model:
        """The model, asked in this way; its weights are loaded once."""
        if self._is_guest:  # which has no beam, and gives the measures of tables beside the others
            asked = replace(asked, search=self.settings.search, measures=("structure",))
        found = self._models.pop(asked, None) or Model(asked, self._checkpoint)
        self._models[asked] = found  # the last one asked
        for old in list(self._models)[:-_KEPT]:
            del self._models[old]
        return found


@dataclass(frozen=True, kw_only=True)
class _Held(ModelSettings):
    """Settings of a model that is loaded already."""

    loaded: HeldModel = field(compare=False, repr=False)

    def load(self) -> Model:
        """See :meth:`ModelSettings.load`."""
        return self.loaded.model(self)


def load(settings: Sequence[ModelSettings]) -> list[HeldModel]:
    """Load models, by the names that ``surprisal TABLE`` gives them."""
    return [HeldModel(each.name, each.settings) for each in named_models(settings, [])]


def _beside(function: Callable[[], T]) -> Generator[dict[str, Any], None, T]:
    """Call a function that asks no model in a thread of its own, so that nobody waits for it."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    while not wait([future], _SECONDS / 10).done:
        yield {}
    return future.result()


def _quoted(text: str) -> str:
    """A text as Python's code, in double quotes."""
    return json.dumps(text, ensure_ascii=False)


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


def _output(question: PageQuestion) -> str:
    """The name of the file that is made of a table: not the table's own."""
    return f"{question.name[: -len(question.suffix)]}.surprisals.csv"


class Answers:
    """Answers of loaded models.

    Args:
        models: the models.
    """

    def __init__(self, models: Sequence[HeldModel]) -> None:
        self.models = models
        self.names = [each.name for each in models]
        made = provenance({each.name: each.settings.model_dir for each in models})
        del made["command"]  # with folders of this machine
        for name, read in made["inputs"].items():
            read["path"] = name
        self.made: Mapping[str, Any] = made

    def steps(self, question: PageQuestion, folder: Path | None) -> Generator[dict[str, Any]]:
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

    def _asked(self, question: PageQuestion, **changed: Any) -> list[ModelSettings]:
        """The models' settings for a question."""
        context = NO_CONTEXT
        if question.context:
            context = Context(of=f"{len(question.context)} sentences", sentences=question.context)
        search = self.models[0].settings.search
        return [
            replace(
                each.settings,
                search=replace(search, beam=question.beam or search.beam),
                context=context,
                **changed,
            )
            for each in self.models
        ]

    def _sentences(self, question: PageQuestion) -> Generator[dict[str, Any]]:
        traces: list[list[Trace]] = []
        for text in question.texts:
            traces.append([])
            for name, asked in zip(self.names, self._asked(question), strict=True):
                yield {}
                with self._named(name):
                    model = asked.load()
                    sentence = read_sentence(text, "text", model.settings["text_style"])
                    found = trace(model, sentence, asked.search)
                traces[-1].append(replace(found, model=found.model | {"folder": name}))
        page = sentences_page(traces, self.names, self.made, pair=question.kind == "pair")
        words = None
        if question.words:
            of_texts = zip(question.texts, traces, strict=True)
            words = [[_words(each, text) for each in own] for text, own in of_texts]
        yield self._answer(page, question, written=rounded_numbers(words))

    def _next(self, question: PageQuestion) -> Generator[dict[str, Any]]:
        (prefix,) = question.texts
        found = {}
        for name, asked in zip(self.names, self._asked(question), strict=True):
            yield {}
            with self._named(name):
                model = asked.load()
                found[name] = likeliest(model.following(prefix), model.vocabulary, LIKELIEST)
        title = f"{prefix} … — {', '.join(self.names)}"
        yield self._answer(Page(kind="next", title=title, document={"next": found}), question)

    def _table(self, question: PageQuestion, folder: Path) -> Generator[dict[str, Any]]:
        file, output = str(folder / f"table{question.suffix}"), folder / "surprisals.csv"
        with self._named(None):
            sheet = yield from _beside(lambda: read_sheet(file))
            if len(sheet.numbers) > MOST_ROWS:
                raise PdtoolsError(f"a table has at most {MOST_ROWS:,} rows, not {len(sheet.numbers):,}")
            stimuli = yield from _beside(lambda: read_stimuli(sheet, {}, words=question.words))
            for text, row in zip(stimuli.texts, stimuli.row.tolist(), strict=True):
                if len(text) > MOST_CHARS:
                    most = f"a sentence has at most {MOST_CHARS:,} characters, not {len(text):,}"
                    raise InputError(most, line=sheet.numbers[row])
            new_columns(stimuli)
            models = named_models(self._asked(question, measures=("structure",)), [])
            rejects = Rejects("skip")
            made = {each.name: Surprisals(stimuli, "text", "bits", rejects) for each in models}
            found = list(made.values())
            context = models[0].settings.context
            told, done, of = 0.0, 0, len(models) * len(set(stimuli.texts))
            yield {"done": done, "of": of}
            scores = score_parts(
                models, lambda number, about: found[number].parts(context, about), {}, plan=Plan()
            )
            for number, place, score in scores:
                found[number].add(place, score)
                done += 1
                is_due = time.monotonic() > told + _SECONDS
                told = time.monotonic() if is_due else told
                yield {"done": done, "of": of} if is_due else {}
            yield from _beside(lambda: write(make_table(stimuli, made), str(output)))
            stimuli.exclude_empty(rejects)
        yield {"done": of, "of": of}
        notes = [stimuli.form, *stimuli.notes]
        records = islice(rejects, _MOST_NAMED)
        notes += [f"row {each['line']}: no score: {each['reason']}" for each in records]
        if len(rejects) > _MOST_NAMED:
            notes.append(f"{len(rejects):,} sentences have no score in all")
        try:
            page = yield from _beside(lambda: stimuli_page([str(output)], made=self.made))
        except PdtoolsError as error:
            why = error.fault if isinstance(error, InputError) else str(error)
            page = Page(kind="none", title="Surprisals", document={}, notes=(f"nothing is drawn: {why}",))
        page = replace(page, title=f"{question.name} — {', '.join(self.names)}", notes=(*notes, *page.notes))
        answer = self._answer(page, question, skips=len(rejects) > 0, save=_output(question))
        yield answer | {"file": output.read_bytes()}

    def _answer(
        self, page: Page, question: PageQuestion, *, skips: bool = False, **more: Any
    ) -> dict[str, Any]:
        command = "\n".join(self._commands(question, skips=skips))
        document = document_of(page, self.made) | {
            "live": True,
            "charts": page.charts,
            "command": command,
            **more,
        }
        return {"answer": {"document": document, "packed": dict(page.packed)}}

    @contextmanager
    def _named(self, model: str | None) -> Iterator[None]:
        """Let errors name models, and rows of the table, but no folder of this machine."""
        try:
            yield
        except PdtoolsError as error:
            said = str(error)
            if isinstance(error, InputError):
                said = error.fault if error.line is None else f"row {error.line}: {error.fault}"
            for each in self.models:
                said = said.replace(each.settings.model_dir, each.name)
            several = model is not None and len(self.models) > 1 and not said.startswith(model)
            raise PdtoolsError(f"{model}: {said}" if several else said) from error

    def _commands(self, question: PageQuestion, *, skips: bool) -> list[str]:
        """Command lines that give the same, or lines of Python."""
        search = self._asked(question)[0].search
        widths = {
            name: getattr(search, name)
            for name in ("beam", "margin", "word_beam", "fast_track")
            if getattr(search, name) != getattr(DEFAULT_SEARCH, name)
        }
        if question.kind == "next":
            how = "".join(f", {name}={value}" for name, value in widths.items())
            asked = f"next_token({_quoted(question.texts[0])}, {LIKELIEST})"
            code = [f"print(pdtools.load({_quoted(each.option)}{how}).{asked})" for each in self.models]
            return [shlex.join(["python", "-c", f"import pdtools; {line}"]) for line in code]
        options = [
            word
            for name, value in widths.items()
            for word in (
                (f"--{name}", str(value)) if name in ("beam", "margin") else ("--search", f"{name}={value}")
            )
        ]
        models = [["--model", each.option] for each in self.models]
        words = ["--words"] * question.words
        if question.kind == "table":
            here = "./" if question.name.startswith("-") else ""
            file, output = here + question.name, here + _output(question)
            skip = ["--on-error", "skip"] if skips else []
            lines = [["surprisal", file, *chain(*models), *options, *words, *skip, "-o", output]]
        elif question.words or question.context:
            texts = [word for text in question.texts for word in ("--text", text)]
            lines = [["surprisal", *texts, *model, *options, *words] for model in models]
        else:
            texts = ["--pair", *question.texts] if question.kind == "pair" else ["--text", *question.texts]
            lines = [["view", *texts, *chain(*models), *options, "-o", "view.html"]]
        before = shlex.join(question.context)
        read = f" --context <(printf '%s\\n' {before})" if before else ""
        return [shlex.join(["pdtools", *line]) + read for line in lines]
