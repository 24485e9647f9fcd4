"""Models that score, parse and compare sentences, of whatever family; asked at once, or in chunks.

Nothing is loaded before a model is asked.
"""

from __future__ import annotations

import codecs
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import PdtoolsError
from pdtools.files.inputs import read_packed_head
from pdtools.jobs import JobFolder, Plan, Work, cut, map_chunks
from pdtools.jobs.devices import prepare_torch, torch_dtype
from pdtools.provenance import check_fingerprint, identify
from pdtools.search.adaptive_beam import STEPS, Compared, Comparison
from pdtools.search.family import Family
from pdtools.search.options import AUTO, DEFAULT_SEARCH, NO_CONTEXT, Context, Particles, Pll, SearchOptions
from pdtools.search.parses import Parsed, ParsedScore
from pdtools.search.scores import (
    Continuation,
    Dtype,
    GivenRow,
    Measure,
    NextTokens,
    RowScore,
    SentenceScore,
    Unscorable,
)
from pdtools.tokenization import Sentence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdtools.models import LoadedModel
    from pdtools.search.checkpoints import Searched
    from pdtools.search.sampling import Sample


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model, and how it is asked; see :meth:`Model.of`.

    Attributes:
        device: ``auto``: a GPU, if a process has one.
        threads: the number of each worker's threads; 0: torch's choice.
        fingerprint: the model's, if other processes load it; they refuse another one.
    """

    model_dir: str
    search: SearchOptions = DEFAULT_SEARCH
    device: str = "cpu"
    dtype: Dtype = "float32"
    bos: bool = True
    pll: Pll | None = None
    threads: int = 0
    context: Context = NO_CONTEXT
    measures: tuple[Measure, ...] = ()
    parses: bool = False
    fingerprint: str | None = None

    @property
    def is_pseudo(self) -> bool:
        """Return whether it is a masked language model, whose scores are pseudo-log-likelihoods."""
        if not is_huggingface(self.model_dir):
            return False
        from pdtools.search.families.huggingface import is_masked, load_config

        return is_masked(self.model_dir, load_config(self.model_dir))

    def load(self) -> Model:
        """The model. A process keeps one: another one reuses the memory of the one before."""
        return _load(self)

    def load_checkpoint(self) -> LoadedModel:
        """The checkpoint of :meth:`load`, for evaluations that use its weights.

        Raises:
            PdtoolsError: if the search has widths that the model's search has not.
        """
        from pdtools.search.kinds import check_widths

        loaded = self.load().loaded
        check_widths(loaded.model, self.search)
        return loaded

    def for_job(self) -> dict[str, Any]:
        """The settings that results depend on, for :func:`pdtools.jobs.job_folder`."""
        described = asdict(self)
        for name in ("threads", "device", "fingerprint", "search"):  # results agree across the first three
            del described[name]
        weights = {**identify(described.pop("model_dir"))}
        path = weights.pop("path")
        steps = {"steps": list(map(list, STEPS))} if self.search.beam == AUTO else {}
        return {**self.search.for_job(), **steps, **described, "model": weights or path}


class Model:
    """A model of sentences: it scores, parses and compares them, and tells what comes next.

    Sentences are running text (split into words in the model's text style), or words already split. Results
    come in input order, lazily.

    Args:
        asked: the model, and how it is asked.
        loaded: the checkpoint, if it is there already.
        family: the family that answers, if no model is loaded, as for recorded scores.

    Attributes:
        asked: see above.
    """

    def __init__(
        self,
        asked: ModelSettings | None = None,
        loaded: LoadedModel | None = None,
        *,
        family: Family | None = None,
    ) -> None:
        self.asked = asked
        self._plan: Plan | None = None
        self._job: JobFolder | None = None
        self._device = "cpu"
        if family is not None:
            self.family = family
        elif loaded is not None:
            self.loaded = loaded
        elif asked is not None:
            check_pretrained_options(asked.model_dir, asked.bos, asked.pll)
            if asked.fingerprint is not None:
                check_fingerprint(asked.model_dir, asked.fingerprint)
            self._device = prepare_torch(asked.device, asked.threads)

    @classmethod
    def of(
        cls,
        model: LoadedModel | str | Path,
        search: SearchOptions = DEFAULT_SEARCH,
        *,
        device: str = "cpu",
        dtype: Dtype = "float32",
        bos: bool = True,
        pll: Pll | None = None,
        context: Context = NO_CONTEXT,
        measures: Collection[Measure] = (),
        parses: bool = False,
    ) -> Model:
        """Load a model for sentences; also called :func:`load_model`.

        Args:
            model: a checkpoint, a run folder of ``pdtools train``, or the folder of a Hugging Face
                language model; or a checkpoint in memory.
            search: for models whose strings have derivations; for others, the number of sentences read at
                once. The beam ``auto`` is for :meth:`compare` alone, of models in folders.
            device: a torch device, for models in folders.
            dtype: the type of their weights. bf16 is faster if the processor computes in it, and less exact.
            bos: whether a Hugging Face model reads a beginning-of-sentence token first. Without it the
                first token has no score, and no row.
            pll: the tokens that a masked Hugging Face model does not see when it scores one; None: the later
                ones of its word (``within-word``).
            context: the text read before sentences.
            measures: measures added to log-probabilities, if the model has them
                (:attr:`pdtools.search.scores.SentenceScore.measures`).
            parses: whether parses are asked too: TreeReg's need no beam, and only it uses ``search.cky``.

        Raises:
            PdtoolsError: if the folder holds no model that can be loaded, or one that cannot use all widths,
                read the context, or parse.
            MissingDependencyError: if it is a Hugging Face model and transformers is not installed.
        """
        loaded = None if isinstance(model, (str, Path)) else model
        if loaded is not None:
            search.check_number()
        asked = ModelSettings(
            model_dir=str(model if loaded is None else loaded.folder),
            search=search,
            device=device,
            dtype=dtype,
            bos=bos,
            pll=pll,
            context=context,
            measures=tuple(measures),
            parses=parses,
        )
        found = cls(asked, loaded)
        _ = found.family  # loads the weights, and refuses what the model cannot do
        return found

    def in_chunks(self, plan: Plan, job: JobFolder | None) -> Model:
        """The model, asked in chunks; at once, if this process alone does them, and nobody keeps them.

        Args:
            plan: how the chunks are distributed.
            job: keeps them.
        """
        if job is None and not plan.has_other_processes:
            return self
        found = Model(self.asked, family=self.family)
        found._plan, found._job = plan, job
        return found

    # --- what it is ---------------------------------------------------------------------------

    @cached_property
    def loaded(self) -> LoadedModel:
        """The checkpoint, with its weights in the type that is asked for."""
        from pdtools.models import load_checkpoint

        assert self.asked is not None
        loaded = load_checkpoint(self.asked.model_dir, self._device)
        loaded.model.to(torch_dtype(self.asked.dtype, self._device))
        return loaded

    @cached_property
    def family(self) -> Family:
        """The family that answers, as the model's derivations need it."""
        from pdtools.search.kinds import family_of, ngram_family, pretrained_family

        assert self.asked is not None
        asked = self.asked
        if is_ngrams(asked.model_dir):
            return ngram_family(
                asked.model_dir,
                asked.search,
                dtype=asked.dtype,
                context=asked.context,
                measures=asked.measures,
                parses=asked.parses,
            )
        if not is_huggingface(asked.model_dir):
            return family_of(
                self.loaded,
                asked.search,
                context=asked.context,
                measures=asked.measures,
                parses=asked.parses,
            )
        return pretrained_family(
            asked.model_dir,
            asked.search,
            device=self._device,
            dtype=asked.dtype,
            bos=asked.bos,
            pll=asked.pll,
            context=asked.context,
            measures=asked.measures,
            parses=asked.parses,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings for results, see :class:`Family`."""
        return self.family.settings

    @property
    def look_ahead(self) -> int:
        """The number of sentences that should be given at once, to be batched by length."""
        return self.family.look_ahead

    @property
    def marginal(self) -> str | None:
        """The kind of its marginals; None if it gives none."""
        return self.family.marginal

    @property
    def has_arcs(self) -> bool:
        """Return whether parses have dependency arcs."""
        return self.family.has_arcs

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The tokens, by number, as in :attr:`SentenceScore.tokens`."""
        return self.family.vocabulary

    # --- what it is asked ---------------------------------------------------------------------

    def score(self, sentences: Iterable[str | Sentence]) -> Iterator[SentenceScore | Unscorable]:
        """Score sentences, with the measures that are asked for."""
        if self._plan is not None:
            return self._in_chunks("score", sentences)
        if not self.family.keeps_tables:
            return self.family.answers("score", sentences)
        from pdtools.search.next_tokens import measured

        return measured(self.next_tokens(sentences), self.family.measures)

    def score_with_parses(self, sentences: Iterable[str | Sentence]) -> Iterator[ParsedScore | Unscorable]:
        """Score sentences, and add the best incremental parses."""
        if self._plan is not None:
            return self._in_chunks("score_with_parses", sentences)
        return self.family.answers("score_with_parses", sentences)

    def parse(self, sentences: Iterable[str | Sentence], *, k_best: int = 1) -> Iterator[Parsed | Unscorable]:
        """Parse sentences.

        Args:
            sentences: see the class.
            k_best: number of trees. One: the best derivation's. More: the most probable ones of the
                beam, all different; the probabilities of derivations that give the same tree (models of arcs:
                the same arcs) are added.
        """
        if self._plan is not None:
            return self._in_chunks("parse", sentences, k_best=k_best)
        return self.family.answers("parse", sentences, k_best=k_best)

    def compare(self, comparisons: Iterable[Comparison]) -> Iterator[Compared]:
        """Score sentences as far as comparisons of them need it, with the beam ``auto``."""
        if self._plan is not None:
            return self._in_chunks("compare", comparisons)
        return self.family.compare(comparisons)

    def next_tokens(self, sentences: Iterable[str | Sentence]) -> Iterator[NextTokens | Unscorable]:
        """Next-token distributions at every place of sentences.

        Raises:
            PdtoolsError: if the model gives none.
        """
        from pdtools.search.next_tokens import sentences_at_once

        at_once = sentences_at_once(self.family.vocab_size, self.look_ahead)
        return self.family.answers("next_tokens", sentences, at_once)

    def following(self, text: str) -> NDArray[np.float64]:
        """The next-token distribution after a beginning of a sentence: log p(v | text), float64 (V,), nats.

        With a beam it is the mixture of the hypotheses, normalised.

        Raises:
            PdtoolsError: if the model gives none, or cannot read the text.
        """
        return self.family.following(text)

    def trace(
        self, sentences: Iterable[str | Sentence], *, hypotheses: int = 10
    ) -> Iterator[Searched | Unscorable]:
        """Search the derivations of sentences, and record the search.

        Args:
            sentences: see the class.
            hypotheses: number of hypotheses of the beam after each token that are kept.

        Raises:
            PdtoolsError: if the model is not searched.
        """
        return self.family.answers("trace", sentences, hypotheses=hypotheses)

    def sample(self, number: int, *, seed: int = 0, max_tokens: int = 200) -> Iterator[Sample]:
        """Draw strings with their derivations; see :func:`pdtools.search.sampling.sample`.

        Raises:
            PdtoolsError: if the model is no checkpoint of pdtools, or a masked one.
        """
        from pdtools.search.sampling import sample

        self.loaded.model.check_causal()
        return sample(self.loaded.model, number=number, seed=seed, max_tokens=max_tokens)

    def score_rows(self, rows: Sequence[GivenRow], particles: Particles | None = None) -> list[RowScore]:
        """Score rows of shards with their derivations.

        Args:
            rows: the rows.
            particles: to estimate log p(x) too.
        """
        scores = self.family.score_rows(rows)
        if particles is None:
            return scores
        from pdtools.search.kinds import with_particles

        assert self.asked is not None
        max_batch = self.asked.search.max_batch
        return with_particles(self.loaded.model, rows, scores, particles, max_batch=max_batch)

    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """Next-token distributions after prefixes, int32 (n + 1) with ROOT, over all derivations of them."""
        return self.family.continuations(prefixes)

    def _in_chunks(self, verb: str, items: Iterable[Any], **arguments: Any) -> Iterator[Any]:
        assert self.asked is not None
        assert self._plan is not None
        work = ModelWork((self.asked,), verb, arguments)
        chunks = (Chunk(tuple(each)) for each in cut(items, self.look_ahead))
        for _, found in map_chunks(work, chunks, self._plan, self._job):
            yield from found


load_model = Model.of
_load = lru_cache(maxsize=1)(Model)


@dataclass(frozen=True, slots=True)
class Chunk(Sequence[Any]):
    """Sentences, or comparisons, that one of a work's models is asked about.

    Attributes:
        items: the sentences.
        model: which model, from 0.
        places: the places of the sentences, for whoever gave them.
    """

    items: tuple[Any, ...]
    model: int = 0
    places: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Any) -> Any:
        return self.items[place]


@dataclass(frozen=True, slots=True)
class ModelWork(Work[Chunk, Sequence[Any]]):
    """A question to models about chunks.

    Attributes:
        models: the models that chunks name.
        verb: the method of :class:`Model`, whose type says how its results are kept.
        arguments: its further arguments.
    """

    models: tuple[ModelSettings, ...]
    verb: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, chunk: Chunk) -> list[Any]:
        return list(getattr(self.models[chunk.model].load(), self.verb)(chunk.items, **self.arguments))

    def content(self, chunk: Chunk) -> list[Any]:
        return [self.verb, {**self.arguments}, chunk.model, *map(_content, chunk.items)]

    @property
    def kept(self) -> Any:
        """See :class:`Work`."""
        return _kept(self.verb)


@lru_cache
def _kept(verb: str) -> Any:
    """The type of a chunk's results: a tuple of what the method of :class:`Model` yields."""
    given = typing.get_type_hints(getattr(Model, verb))["return"]
    of_each: Any = typing.get_args(given)[0]
    return tuple[of_each, ...]


def _content(item: Any) -> Any:
    """The content of a sentence, or a comparison, that its results depend on."""
    if isinstance(item, str):
        return item
    if isinstance(item, Sentence):
        return [(each.text, each.words) for each in (item, *item.before)]
    return repr(item)


def check_pretrained_options(model_dir: str | Path, bos: bool, pll: Pll | None) -> None:
    """Refuse options of Hugging Face models for another model.

    A missing folder is reported when it is loaded.

    Raises:
        PdtoolsError: if one is given, and the model is not a Hugging Face one.
    """
    if (bos and pll is None) or not Path(model_dir).exists() or is_huggingface(model_dir):
        return
    if pll is not None:
        raise PdtoolsError(
            f"{model_dir}: only masked Hugging Face models give pseudo-log-likelihoods: leave out --pll"
        )
    raise PdtoolsError(
        f"{model_dir}: only Hugging Face models can be read without BOS: others always read ROOT"
    )


def is_guest(path: str | Path) -> bool:
    """Return whether a path is a model of another package: it scores strings alone, and has no checkpoint."""
    return is_huggingface(path) or is_ngrams(path)


def is_ngrams(path: str | Path) -> bool:
    """Return whether a path is a file of n-grams: ARPA, packed or not, or KenLM's binary form.

    Raises:
        InputError: if it cannot be read, or is packed and damaged.
    """
    if not Path(path).is_file():
        return False
    start = read_packed_head(path, 1024).removeprefix(codecs.BOM_UTF8).lstrip()
    return start.startswith((b"\\data\\", b"mmap lm http://kheafield.com/code"))


def is_huggingface(model_dir: str | Path) -> bool:
    """Return whether a folder holds a Hugging Face model rather than a checkpoint of ours."""
    config = Path(model_dir) / "config.json"
    if not config.is_file():
        return False
    from pdtools.files import read_json

    found = read_json(config)
    return (
        isinstance(found, dict)
        and "model" not in found
        and bool({"model_type", "architectures"} & found.keys())
    )
