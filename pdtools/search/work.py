"""Scoring in pieces: what workers do with the sentences of a piece, and scorers made of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from pdtools.jobs import JobFolder, Plan, map_pieces
from pdtools.provenance import identify
from pdtools.search.encoding import LOOK_AHEAD, SEARCH_LOOK_AHEAD
from pdtools.search.scores import DEFAULT_BEAM, Dtype, Scorer, SentenceScore, Unscorable
from pdtools.tokenization import Sentence

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model and how it is used; see :func:`pdtools.search.load_scorer`.

    Attributes:
        threads: of each worker; 0: as torch finds best.
    """

    model_dir: str
    beam: int = DEFAULT_BEAM
    device: str = "cpu"
    dtype: Dtype = "float32"
    bos: bool = True
    max_batch: int | None = None
    threads: int = 0

    def load_scorer(self) -> Scorer:
        """The scorer, loaded once in each process."""
        return _load_scorer(self)


@lru_cache(maxsize=1)
def _load_scorer(settings: ModelSettings) -> Scorer:
    import torch

    from pdtools.search.scorer import load_scorer

    if settings.threads:
        torch.set_num_threads(settings.threads)
    return load_scorer(
        settings.model_dir,
        beam=settings.beam,
        device=settings.device,
        dtype=settings.dtype,
        bos=settings.bos,
        max_batch=settings.max_batch,
    )


@dataclass(frozen=True, slots=True)
class ScoreWork:
    """Scores the sentences of a piece (:class:`pdtools.jobs.Work`)."""

    settings: ModelSettings

    def __call__(self, piece: Sequence[str | Sentence]) -> list[SentenceScore | Unscorable]:
        return list(self.settings.load_scorer().score(piece))

    def digest(self, piece: Sequence[str | Sentence]) -> str:
        return digest_of_sentences(piece)

    def pack(self, result: Sequence[SentenceScore | Unscorable]) -> bytes:
        return pack_json([score_record(score) for score in result])

    def unpack(self, data: bytes) -> list[SentenceScore | Unscorable]:
        return [score_of_record(record) for record in json.loads(data)]


class PiecewiseScorer:
    """A :class:`Scorer` whose sentences are scored in pieces, by whoever the plan says.

    Args:
        settings: the model.
        plan: who does the pieces.
        job: keeps them.
    """

    def __init__(self, settings: ModelSettings, plan: Plan, job: JobFolder | None) -> None:
        self._model = settings
        self._plan = plan
        self._job = job
        self.settings: dict[str, Any] = settings.load_scorer().settings

    def score(self, sentences: Iterable[str | Sentence]) -> Iterator[SentenceScore | Unscorable]:
        """See :meth:`Scorer.score`."""
        size = LOOK_AHEAD if self.settings["beam"] is None else SEARCH_LOOK_AHEAD
        for _, scores in map_pieces(ScoreWork(self._model), cut(sentences, size), self._plan, self._job):
            yield from scores


def model_settings_for_job(settings: ModelSettings) -> dict[str, Any]:
    """What scores depend on, for :func:`pdtools.jobs.job_folder`: weights, beam, dtype and the like."""
    described = asdict(settings)
    for name in ("threads", "device", "max_batch"):  # scores agree across these
        del described[name]
    return {**described, "model": identify(settings.model_dir)}


def cut(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut a stream into pieces of so many items; the last may be shorter."""
    stream = iter(items)
    while piece := list(islice(stream, size)):
        yield piece


def digest_of_sentences(piece: Sequence[str | Sentence]) -> str:
    """Says whether sentences are the same as in an earlier run."""
    texts = [item if isinstance(item, str) else [item.text, item.words] for item in piece]
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=8).hexdigest()


def score_record(score: SentenceScore | Unscorable) -> dict[str, Any]:
    """A score as JSON has it; floats keep all their digits."""
    record = asdict(score)
    if isinstance(score, SentenceScore):
        record["logprobs"] = score.logprobs.tolist()
    return record


def score_of_record(record: dict[str, Any]) -> SentenceScore | Unscorable:
    """Undo :func:`score_record`."""
    if "reason" in record:
        return Unscorable(**record)
    tuples = {name: tuple(record[name]) for name in ("tokens", "words", "starts", "ends")}
    return SentenceScore(**{**record, **tuples, "logprobs": np.array(record["logprobs"], dtype=np.float64)})


def pack_json(value: Any) -> bytes:
    """A JSON value as bytes; lone surrogates, which no UTF-8 has, stay escapes."""
    return json.dumps(value).encode("ascii")
