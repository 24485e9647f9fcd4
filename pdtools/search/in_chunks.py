"""Scoring in chunks: the work on a chunk of sentences, and scorers made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, TypeVar

from pdtools.files.typed_values import as_type
from pdtools.jobs import JobFolder, Plan, Work, cut, map_chunks
from pdtools.jobs.devices import prepare_torch
from pdtools.jobs.records import JsonWork
from pdtools.models import LoadedModel
from pdtools.provenance import check_fingerprint, identify
from pdtools.search.adaptive_beam import Compared, Comparer, Comparison
from pdtools.search.checkpoint_scorer import CheckpointScorer, Parsed, ParsedScore, Searcher
from pdtools.search.comparer import load_comparer
from pdtools.search.contexts import NO_CONTEXT, Context
from pdtools.search.kinds import check_widths
from pdtools.search.next_tokens import scores_with
from pdtools.search.options import DEFAULT_SEARCH, SearchOptions
from pdtools.search.scorer import check_bos, load_model, load_scorer, load_searcher
from pdtools.search.scores import Dtype, Measure, ModelScorer, SentenceScore, Unscorable
from pdtools.search.strings.huggingface import HuggingFaceScorer
from pdtools.tokenization import Sentence
from pdtools.trees import Tree

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model with its settings; see :func:`pdtools.search.load_scorer`.

    Attributes:
        device: ``auto``: a GPU, if a process has one.
        threads: the number of each worker's threads; 0: torch's choice.
        context: the text read before sentences.
        measures: measures that scorers add to log-probabilities.
        fingerprint: the model's, if other processes load it; they refuse another one.
    """

    model_dir: str
    search: SearchOptions = DEFAULT_SEARCH
    device: str = "cpu"
    dtype: Dtype = "float32"
    bos: bool = True
    threads: int = 0
    context: Context = NO_CONTEXT
    measures: tuple[Measure, ...] = ()
    fingerprint: str | None = None

    def load_model(self) -> LoadedModel:
        """A checkpoint, loaded once in each process."""
        return _load_model(self)

    def load_scorer(self) -> ModelScorer | HuggingFaceScorer:
        """The scorer, loaded once in each process."""
        return _load_scorer(self)

    def load_searcher(self) -> Searcher:
        """The scorer of a model whose derivations can be searched, loaded once in each process."""
        return _load_searcher(self)

    def load_comparer(self) -> Comparer:
        """The comparer, which scores sentences as far as comparisons need it, loaded once in each process.

        Raises:
            PdtoolsError: if there is nothing to search.
        """
        return _load_comparer(self)


def _prepare(settings: ModelSettings) -> dict[str, Any]:
    """Check the model, set up torch, and return the arguments for loading the folder."""
    check_bos(settings.model_dir, settings.bos)
    check_fingerprint(settings.model_dir, settings.fingerprint)
    device = prepare_torch(settings.device, settings.threads)
    return {"model_dir": settings.model_dir, "device": device, "dtype": settings.dtype}


def _prepare_search(settings: ModelSettings) -> dict[str, Any]:
    """The arguments for loading, with the search's."""
    return {**_prepare(settings), "search": settings.search, "context": settings.context}


# Each keeps one: a process that loads another model reuses the memory of the one before.
@lru_cache(maxsize=1)
def _load_model(settings: ModelSettings) -> LoadedModel:
    loaded = load_model(**_prepare(settings))
    check_widths(loaded.model, settings.search)
    return loaded


@lru_cache(maxsize=1)
def _load_scorer(settings: ModelSettings) -> ModelScorer | HuggingFaceScorer:
    return load_scorer(bos=settings.bos, measures=settings.measures, **_prepare_search(settings))


@lru_cache(maxsize=1)
def _load_searcher(settings: ModelSettings) -> Searcher:
    searcher = load_searcher(**_prepare_search(settings))
    if isinstance(searcher, CheckpointScorer):
        searcher.measures = frozenset(settings.measures)
    return searcher


@lru_cache(maxsize=1)
def _load_comparer(settings: ModelSettings) -> Comparer:
    return load_comparer(**_prepare_search(settings))


class _SentencesWork(JsonWork[Sequence[str | Sentence], Result]):
    __slots__ = ()

    def content(self, chunk: Sequence[str | Sentence]) -> list[Any]:
        return content_of_sentences(chunk)


@dataclass(frozen=True, slots=True)
class ScoreWork(_SentencesWork[Sequence[SentenceScore | Unscorable]]):
    """Scores the sentences of a chunk (:class:`pdtools.jobs.Work`)."""

    kept = tuple[SentenceScore | Unscorable, ...]
    settings: ModelSettings

    def __call__(self, chunk: Sequence[str | Sentence]) -> list[SentenceScore | Unscorable]:
        return list(scores_with(self.settings.load_scorer(), chunk, self.settings.measures))


@dataclass(frozen=True, slots=True)
class IncrementalWork(_SentencesWork[Sequence[ParsedScore | Unscorable]]):
    """Scores the sentences of a chunk, with incremental parses (:class:`pdtools.jobs.Work`)."""

    kept = tuple[ParsedScore | Unscorable, ...]
    settings: ModelSettings

    def __call__(self, chunk: Sequence[str | Sentence]) -> list[ParsedScore | Unscorable]:
        return list(self.settings.load_searcher().score_with_parses(chunk))


@dataclass(frozen=True, slots=True)
class ParseWork(_SentencesWork[Sequence[Parsed | Unscorable]]):
    """Parses the sentences of a chunk (:class:`pdtools.jobs.Work`)."""

    settings: ModelSettings
    k_best: int
    derivations: bool

    def __call__(self, chunk: Sequence[str | Sentence]) -> list[Parsed | Unscorable]:
        searcher = self.settings.load_searcher()
        return list(searcher.parse(chunk, k_best=self.k_best, derivations=self.derivations))

    def restored(self, record: Any) -> list[Parsed | Unscorable]:
        return [
            one
            if isinstance(one, Unscorable)
            else Parsed(
                tuple((joint, Tree.from_brackets(text)) for joint, text in one.k_best),
                one.marginal,
                one.dropped,
                one.arcs,
            )
            for one in as_type(record, tuple[_ParsedRecord | Unscorable, ...])
        ]


@dataclass(frozen=True, slots=True)
class _ParsedRecord:
    """:class:`Parsed` with brackets instead of trees."""

    k_best: tuple[tuple[float | None, str], ...]
    marginal: float | None
    dropped: float | None
    arcs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompareWork(JsonWork[Sequence[Comparison], Sequence[Compared]]):
    """Scores the sentences of comparisons as far as needed (:class:`pdtools.jobs.Work`)."""

    kept = tuple[Compared, ...]
    settings: ModelSettings

    def __call__(self, chunk: Sequence[Comparison]) -> list[Compared]:
        return list(self.settings.load_comparer().compare(chunk))

    def content(self, chunk: Sequence[Comparison]) -> bytes:
        # Chunks kept by earlier versions have digests with the class name ItemContest.
        content = repr(list(chunk)).replace("ItemComparison(", "ItemContest(")
        return content.encode(errors="surrogatepass")


class _Chunked:
    """A model whose work is done in chunks, as planned.

    Args:
        settings: the model.
        plan: how the chunks are distributed.
        job: keeps them.
    """

    _load: Callable[[ModelSettings], Any]

    def __init__(self, settings: ModelSettings, plan: Plan, job: JobFolder | None) -> None:
        self._model = settings
        self._plan = plan
        self._job = job
        loaded = self._load(settings)
        self.settings: dict[str, Any] = loaded.settings
        self.look_ahead: int = loaded.look_ahead

    def _results(self, work: Work[Any, Sequence[Result]], items: Iterable[Any]) -> Iterator[Result]:
        for _, found in map_chunks(work, cut(items, self.look_ahead), self._plan, self._job):
            yield from found


class ChunkedComparer(_Chunked):
    """A :class:`Comparer` that works in chunks."""

    _load = staticmethod(ModelSettings.load_comparer)

    def compare(self, comparisons: Iterable[Comparison]) -> Iterator[Compared]:
        """See :meth:`Comparer.compare`."""
        return self._results(CompareWork(self._model), comparisons)


class ChunkedScorer(_Chunked):
    """A :class:`Scorer` that works in chunks."""

    _load: Callable[[ModelSettings], Any] = staticmethod(ModelSettings.load_scorer)

    def score(self, sentences: Iterable[str | Sentence]) -> Iterator[SentenceScore | Unscorable]:
        """See :meth:`Scorer.score`."""
        return self._results(ScoreWork(self._model), sentences)


class ChunkedSearcher(ChunkedScorer):
    """A :class:`Searcher` that works in chunks."""

    _load = staticmethod(ModelSettings.load_searcher)

    def __init__(self, settings: ModelSettings, plan: Plan, job: JobFolder | None) -> None:
        super().__init__(settings, plan, job)
        self.has_arcs: bool = settings.load_searcher().has_arcs

    def score_with_parses(self, sentences: Iterable[str | Sentence]) -> Iterator[ParsedScore | Unscorable]:
        """See :meth:`Searcher.score_with_parses`."""
        return self._results(IncrementalWork(self._model), sentences)

    def parse(
        self, sentences: Iterable[str | Sentence], *, k_best: int = 1, derivations: bool = False
    ) -> Iterator[Parsed | Unscorable]:
        """See :meth:`Searcher.parse`."""
        return self._results(ParseWork(self._model, k_best, derivations), sentences)


def model_settings_for_job(settings: ModelSettings) -> dict[str, Any]:
    """The settings that scores depend on, for :func:`pdtools.jobs.job_folder`: weights, search and dtype."""
    described = asdict(settings)
    for name in ("threads", "device", "fingerprint", "search"):  # scores agree across the first three
        del described[name]
    weights = {**identify(described.pop("model_dir"))}
    path = weights.pop("path")
    return {**settings.search.for_job(), **described, "model": weights or path}


def content_of_sentences(chunk: Sequence[str | Sentence]) -> list[Any]:
    """The content of sentences that scores depend on, to compare with an earlier run."""
    return [
        item if isinstance(item, str) else [*_content(item), *map(_content, item.before)] for item in chunk
    ]


def _content(sentence: Sentence) -> tuple[str, tuple[str, ...]]:
    return sentence.text, sentence.words
