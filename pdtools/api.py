"""pdtools in Python: models that are loaded once, with the functions of the commands.

Examples:
    >>> import pdtools
    >>> model = pdtools.load("demo")
    >>> model.surprisal("The dog that chased the cats barks.")  # doctest: +SKIP

Tables are pandas DataFrames with the columns of the commands' files (docs/reference).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from itertools import tee
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.benchmark.evaluate import evaluate_items
from pdtools.evaluation.benchmark.from_toml import read_benchmark
from pdtools.evaluation.benchmark.item_files import Items
from pdtools.evaluation.blimp.pairs import PairItems, pair_item
from pdtools.evaluation.comparison.designs import design_effects, measured
from pdtools.evaluation.reading.slopes import read_slopes
from pdtools.evaluation.results import ITEMS, STRINGS_TABLE, Results
from pdtools.evaluation.sg.suites import SuiteFiles, SuiteItems
from pdtools.files import Rejects
from pdtools.jobs.devices import pick_device
from pdtools.models import LoadedModel
from pdtools.provenance.hub import find_model, name_of
from pdtools.search.decoding import decode
from pdtools.search.inputs import SourcedLine, read_sentence
from pdtools.search.model import Model, ModelSettings, is_guest
from pdtools.search.next_tokens import likeliest
from pdtools.search.options import DEFAULT_BEAM, NO_CONTEXT, Pll, SearchOptions
from pdtools.search.parses import ParsedScore
from pdtools.search.scores import Dtype, Measure, SentenceScore, Unscorable, marked
from pdtools.search.surprisal import Unit, surprisals
from pdtools.search.surprisal import columns as row_columns
from pdtools.stimuli.columns import as_pandas, make_table, new_columns, sheet_of_pandas
from pdtools.stimuli.surprisals import Surprisals
from pdtools.stimuli.table import MISSING_IN_PANDAS, read_stimuli
from pdtools.tokenization import split_text_words
from pdtools.trees import Tree, placeholder

if TYPE_CHECKING:
    import pandas as pd

    from pdtools.inspection.trace import Trace

# The name in place of a file's in messages about sentences given here.
_GIVEN = "sentences"


def load(
    model: str | Path,
    *,
    beam: int = DEFAULT_BEAM,
    margin: float | None = None,
    word_beam: int | None = None,
    fast_track: int | None = None,
    device: str = "auto",
    dtype: Dtype = "float32",
    bos: bool = True,
    pll: Pll | None = None,
    max_batch: int | None = None,
) -> PandasModel:
    """Load a model.

    Args:
        model: a checkpoint, a run folder of ``pdtools train``, the folder of a Hugging Face language
            model; ``hf:gpt2`` or ``hf:owner/name@revision`` for one of the hub; or ``english``,
            ``english-base``, ``demo`` or ``demo-base``, which come with pdtools.
        beam: hypotheses that a search keeps after each token (action models: after each action).
        margin: nats; hypotheses that are so much less probable than the best are dropped. None: none are.
        word_beam, fast_track: for action models, see ``pdtools surprisal --help``.
        device: ``auto`` (a GPU, if there is one), ``cpu``, ``cuda``, ``cuda:1``, …
        dtype: the type of the weights: ``float32`` or ``bf16``.
        bos: whether a Hugging Face model reads a beginning-of-sentence token first.
        pll: the tokens that a masked Hugging Face model does not see when it scores one: ``original``,
            ``within-word`` (the default) or ``whole-word``; see ``pdtools surprisal --help``.
        max_batch: sentences per batch; by default as many as fit a fixed amount of memory.

    Raises:
        PdtoolsError: if there is no model there that can be loaded.
    """
    widths = {"beam": beam, "word_beam": word_beam, "fast_track": fast_track, "max_batch": max_batch}
    for name, width in widths.items():
        _check_number(name, width, least=0 if name == "fast_track" else 1)
    if margin is not None and (isinstance(margin, bool) or not isinstance(margin, Real)):
        raise PdtoolsError(f"margin is {margin!r}: has to be a number of nats")
    if dtype not in get_args(Dtype):
        raise PdtoolsError(f"dtype is {dtype!r}: has to be one of {', '.join(get_args(Dtype))}")
    search = SearchOptions(
        beam=beam, margin=margin, word_beam=word_beam, fast_track=fast_track, max_batch=max_batch
    )
    if pll not in (None, *get_args(Pll)):
        raise PdtoolsError(f"pll is {pll!r}: has to be one of {', '.join(get_args(Pll))}")
    return PandasModel(
        ModelSettings(
            model_dir=find_model(model).folder,
            search=search,
            device=pick_device(str(device), 0),
            dtype=dtype,
            bos=bos,
            pll=pll,
        )
    )


class PandasModel:
    """A model that :func:`load` loaded.

    Attributes:
        folder: its folder.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.folder = settings.model_dir
        self._plain = settings
        self._models = {self._plain: Model(self._plain)}
        self._loaded = None if is_guest(self.folder) else self._model().loaded
        assert self._model().family

    def _model(self, measures: tuple[Measure, ...] = (), *, parses: bool = False) -> Model:
        """The model, asked for these measures, or parses."""
        asked = replace(self._plain, measures=measures, parses=parses)
        if asked not in self._models:
            self._models[asked] = Model(asked, self._loaded)
        return self._models[asked]

    @property
    def _name(self) -> str:
        return marked(name_of(self.folder), pseudo=self._plain.is_pseudo)

    @property
    def settings(self) -> dict[str, Any]:
        """The model's settings, as in the commands' ``results.json`` under ``settings``."""
        return self._model().settings

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """The tokens, by number."""
        return self._model().vocabulary

    # --- sentences ----------------------------------------------------------------------------

    def surprisal(
        self,
        sentences: str | Iterable[str] | pd.Series[str] | pd.DataFrame,
        *,
        words: bool = False,
        nats: bool = False,
        entropy: bool = False,
        rank: bool = False,
        parses: bool = False,
        skip: bool = False,
        columns: Mapping[str, str] | None = None,
        glue: str = " ",
        frequency: Callable[[str], float | None] | None = None,
        correct_spaces: bool = False,
        slopes: str | Path | None = None,
    ) -> pd.DataFrame:
        """The surprisal of every token, or word: the table that ``pdtools surprisal`` writes.

        Args:
            sentences: running text, a sentence each (or one), in a list, a Series, …; or a table of stimuli,
                whose rows come back with the columns that the command adds to them (docs/guide/stimuli.md).
            words: rows of text words instead of tokens.
            nats: instead of bits.
            entropy: add the entropy of the distribution before each token (a word's first).
            rank: add the token's rank in that distribution, from 1; not with ``words``.
            parses: add the best incremental parse.
            skip: exclude sentences that the model cannot score; otherwise the first one is an error.
            columns: for a table, names of columns by role: ``{"sentence": "Stimulus"}``.
            glue: for a table with a row for each region, the string between them.
            frequency: for a table's words, the log frequency of each; None if unknown.
            correct_spaces: for a table, let a surprisal include the space after a word, not the one before,
                if the model can.
            slopes: for a table, results of ``pdtools eval-reading`` with the same model: add predicted
                milliseconds.

        Returns:
            Columns ``sentence_id`` (from 1), ``token_id`` and ``token`` (``word_id`` and ``word``), ``start``
            and ``end`` (characters of the sentence), ``surprisal``, and ``entropy``, ``rank``, ``parse`` if
            requested. For a table its own columns, and ``model``, ``surprisal`` and so on. Rows have the
            labels of the index of the Series or table, repeated for sentences with several rows.

        Raises:
            InputError: for a sentence that cannot be scored, or a table whose columns do not determine
                its sentences.
            PdtoolsError: if the model has no parses, or options cannot be combined.
        """
        if (rank and words) or (parses and (entropy or rank)):
            raise PdtoolsError("ranks are of tokens, not words; parses go without entropies and ranks")
        measures: tuple[Measure, ...] = (*(("entropy",) if entropy else ()), *(("rank",) if rank else ()))
        unit: Unit = "nats" if nats else "bits"
        rejects = Rejects("skip" if skip else "fail", hint="skip=True excludes it")
        of_tables = {
            "columns": columns,
            "glue": None if glue == " " else glue,
            "frequency": frequency,
            "correct_spaces": correct_spaces or None,
            "slopes": slopes,
        }
        if hasattr(sentences, "iloc") and hasattr(sentences, "columns"):
            if rank:
                raise PdtoolsError("ranks are of tokens: they cannot be combined with a table")
            if frequency is not None and not words:
                raise PdtoolsError("frequencies are given for words: add words=True")
            sheet = sheet_of_pandas(cast("pd.DataFrame", sentences))
            names = {role: str(name) for role, name in (columns or {}).items()}
            stimuli = read_stimuli(sheet, names, words=words, glue=glue)
            for note in stimuli.notes:
                warnings.warn(f"{sheet.name}: {note}", stacklevel=2)
            new_columns(
                stimuli,
                frequency=frequency is not None,
                parses=parses,
                slopes=slopes is not None,
                nats=nats,
            )
            name = self._name
            slope = None if slopes is None else read_slopes(slopes, {name: self._plain})[name]
            measured: tuple[Measure, ...] = measures or (() if self._loaded is None else ("structure",))
            measured = (*measured, "spaces") if correct_spaces else measured
            made = Surprisals(stimuli, "text", unit, rejects)
            places, again = tee(made.parts(NO_CONTEXT, self.settings))
            parts = (sentence for _, sentence in again)
            model = self._model(measured, parses=parses)
            scores: Iterable[SentenceScore | ParsedScore | Unscorable] = (
                model.score_with_parses(parts) if parses else model.score(parts)
            )
            for (place, _), score in zip(places, scores, strict=True):
                made.add(place, score)
            fitted = None
            if slope is not None:
                fitted = {name: (slope.value, slope.low, slope.high)}
                here = {**self.settings, "spaces_corrected": made.corrects_spaces}
                if others := slope.differences(here):
                    warnings.warn(f"ms: the slope is of other surprisals: {'; '.join(others)}", stacklevel=2)
            return as_pandas(make_table(stimuli, {name: made}, frequency=frequency, slopes=fitted))
        for argument, value in of_tables.items():
            if value is not None:
                raise PdtoolsError(f"{argument} goes with a table of stimuli, not with sentences")
        of_rows = row_columns(words=words, parses=parses, measures=measures)
        found = surprisals(
            self._lines(sentences),
            self._model(measures, parses=parses),
            rejects=rejects,
            unit=unit,
            words=words,
            parses=parses,
        )
        table = [
            [result.number, *(getattr(row, name) for name in of_rows.values())]
            for result in found
            for row in result.rows
        ]
        return _frame(table, ["sentence_id", *of_rows], _index(sentences))

    def score(self, pairs: Iterable[tuple[str, str]] | pd.DataFrame) -> pd.DataFrame:
        """Judge whether the good sentence of a minimal pair is more probable than the bad one.

        Args:
            pairs: (good, bad) sentences; or a table with the columns ``sentence_good`` and ``sentence_bad``.

        Returns:
            A row for each pair: ``sentence_good``, ``sentence_bad``, ``logprob_good`` and ``logprob_bad``
            (nats), ``tokens_good``, ``tokens_bad``, ``outcome`` (right, wrong, tie, unscorable), ``correct``,
            ``margin_bits``, ``reason``, and, of each sentence, what ``strings.parquet`` has
            (``pdtools eval-blimp``); with the index of the table.

        Raises:
            InputError: for a table without these columns, or what is no pair of sentences.
        """
        made = [
            pair_item(good, bad, str(number), paradigm="pairs")
            for number, (good, bad) in enumerate(_pairs(pairs), start=1)
        ]
        found = _of_pairs(evaluate_items(PairItems(made), self._model()))
        return found if (index := _index(pairs)) is None else found.set_axis(index)

    def evaluate(self, benchmark: str, data: str | Path, *, limit: int | None = None) -> Results:
        """Score a benchmark, as ``pdtools eval-benchmark`` does.

        Args:
            benchmark: one of ``pdtools eval-benchmark --list``, or a TOML file.
            data: its folder, a zip of it, or one of its files.
            limit: only the first ``limit`` items of each finest group.

        Returns:
            ``scores`` and ``counts`` as in ``results.json``; ``table("items")``, with a row for each
            prediction of each item.

        Raises:
            InputError: for a file that is no benchmark, or data that do not fit it.
        """
        _check_number("limit", limit)
        known = read_benchmark(benchmark)
        if known.suites:
            if limit is not None:
                raise PdtoolsError("test suites have no limit")
            return evaluate_items(SuiteItems(SuiteFiles(data)), self._model())
        return evaluate_items(Items(data, known, limit), self._model())

    def next_token(self, prefix: str, most: int | None = None) -> pd.DataFrame:
        """The distribution of the next token after the beginning of a sentence.

        With a beam it is the mixture of the hypotheses, each with its share of the probability.

        Args:
            prefix: running text; may be empty.
            most: only the most probable tokens, this many.

        Returns:
            A row for each token of the vocabulary, the most probable first: ``rank`` (from 1), ``token``,
            ``probability``, ``surprisal`` (bits).

        Raises:
            PdtoolsError: if the model cannot read the prefix, or does not give this distribution.
        """
        _check_number("most", most)
        (prefix,) = _sentences([prefix])
        table = likeliest(self._model().following(prefix), self.vocabulary, most)
        return _frame(table, ["rank", "token", "probability", "surprisal"])

    # --- trees --------------------------------------------------------------------------------

    def parse(self, sentences: str | Iterable[str], *, k_best: int = 1) -> pd.DataFrame:
        """Parse sentences: the table that ``pdtools decode --scores`` writes, always with trees.

        Args:
            sentences: running text, a sentence each (or one).
            k_best: number of different trees of each, at most.

        Returns:
            Columns ``id`` (the sentence's number, from 1), ``rank``, ``joint`` and ``marginal`` (nats),
            ``tree`` (brackets), ``arcs`` of models of arcs, ``dropped``. A sentence that cannot be parsed has
            no rows.

        Raises:
            PdtoolsError: if the model cannot parse.
        """
        _check_number("k_best", k_best)
        model = self._model(parses=True)
        results = decode(self._lines(sentences), model, rejects=Rejects("skip"), k_best=k_best)
        table = [
            [number, k + 1, joint, found.marginal, str(tree), *found.arcs[k : k + 1], found.dropped]
            for number, found in enumerate(results, start=1)
            for k, (joint, tree) in enumerate(found.k_best)
        ]
        parses = ["tree", "arcs"] if model.has_arcs else ["tree"]
        names = ["id", "rank", "joint", "marginal", *parses, "dropped"]
        return _frame(table, names, _index(sentences))

    def trees(self, sentences: str | Iterable[str]) -> list[Tree]:
        """The best tree of every sentence; a flat one if there is none, as ``pdtools decode`` writes it.

        Raises:
            PdtoolsError: if the model cannot parse.
        """
        results = decode(self._lines(sentences), self._model(parses=True), rejects=Rejects("skip"))
        return [found.tree for found in results]

    def sample(self, number: int = 10, *, seed: int = 0, max_tokens: int = 200) -> pd.DataFrame:
        """Draw strings with their trees from the joint distribution.

        Args:
            number: number of strings.
            seed: the same seed gives the same strings.
            max_tokens: length at which an unfinished string is cut.

        Returns:
            Columns ``text`` (words between spaces), ``tree`` (brackets; None for models without), ``logprob``
            (nats, of all draws), ``complete`` (whether it ended by itself).

        Raises:
            PdtoolsError: if it is a Hugging Face model, or a masked one.
        """
        for name, value in (("number", number), ("max_tokens", max_tokens)):
            _check_number(name, value)
        loaded = self._checkpoint("strings are drawn from")
        has_trees, tokenizer = loaded.model.derivation_kind.exist, loaded.tokenizer
        table = [
            [
                " ".join(draw.words(tokenizer)),
                str(draw.tree(tokenizer) or placeholder(())) if has_trees else None,
                draw.logprob,
                draw.complete,
            ]
            for draw in self._model().sample(number, seed=seed, max_tokens=max_tokens)
        ]
        return _frame(table, ["text", "tree", "logprob", "complete"])

    def trace(self, sentence: str, *, hypotheses: int = 10, attention: bool = True) -> Trace:
        """The trace of the model on a sentence; see :func:`pdtools.inspection.tracing.trace`.

        Args:
            sentence: running text.
            hypotheses: number of hypotheses kept of each beam.
            attention: whether attention weights are included.

        Raises:
            PdtoolsError: if the sentence cannot be scored.
        """
        from pdtools.inspection.tracing import trace

        _check_number("hypotheses", hypotheses)
        (sentence,) = _sentences([sentence])
        return trace(
            self._model() if self._loaded is None else self._loaded,
            sentence,
            self._plain.search,
            hypotheses=hypotheses,
            attention=attention,
            device=self._plain.device,
        )

    # --- shared -------------------------------------------------------------------------------

    def _checkpoint(self, what: str) -> LoadedModel:
        if self._loaded is None:
            raise PdtoolsError(f"{self.folder}: {what} checkpoints of pdtools, not Hugging Face models")
        return self._loaded

    def _lines(self, sentences: str | Iterable[str]) -> Sequence[SourcedLine]:
        style = self.settings["text_style"]
        return [
            SourcedLine(read_sentence(text, "text", style), split_text_words(text), _GIVEN, number)
            for number, text in enumerate(_sentences(sentences), start=1)
        ]


def effects(
    table: pd.DataFrame | Sequence[pd.DataFrame],
    factors: str | None = None,
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    baseline: str | None = None,
    seed: int = 0,
    samples: int = 10_000,
) -> pd.DataFrame:
    """Effects of the conditions of stimuli within items, as ``pdtools compare`` computes them.

    Args:
        table: a table that :meth:`PandasModel.surprisal` made of one; or several, of as many models.
        factors: ``NAME,NAME`` or ``NAME=REFERENCE``: columns, or names for the parts of conditions called
            ``amb_long``. The reference, the first level of the table if none is given, is subtracted. None:
            the pairs of conditions.
        groups: the models that differ only in their seeds, by name.
        baseline: the model that is subtracted from each other one; None: every two are compared.
        seed, samples: for the bootstrap.

    Returns:
        A row for each region, model (or difference of two) and effect: the columns of
        ``pdtools compare -o`` (docs/reference/files/stimuli.md).

    Raises:
        InputError: for a table without such a design.
        PdtoolsError: for a group or baseline that is not there.
    """
    import pandas as pd

    tables = [table] if hasattr(table, "columns") else list(table)
    read = measured([sheet_of_pandas(cast("pd.DataFrame", each)) for each in tables], factors)
    for note in read.notes:
        warnings.warn(note, stacklevel=2)
    found = design_effects(read, groups=groups, baseline=baseline, seed=seed, samples=samples)
    return pd.DataFrame(found.rows(), columns=pd.Index(found.columns))


def _sentences(given: Any) -> list[str]:
    """The sentences that a caller gave, in any iterable.

    Raises:
        PdtoolsError: if it is none, or one of them is no text.
    """
    if isinstance(given, str):
        return [given]
    if isinstance(given, (bytes, Mapping)) or hasattr(given, "columns") or not isinstance(given, Iterable):
        kind = type(given).__name__
        raise PdtoolsError(f"sentences have to be a string, or a list or Series of strings, not {kind}")
    found = list(given)
    for number, text in enumerate(found, start=1):
        if not isinstance(text, str):
            reason = f"{text!r} is no sentence: text is needed"
            raise InputError(reason, file=_GIVEN, line=number, hint=_about_missing([text]))
    return found


def _about_missing(values: Iterable[Any]) -> str | None:
    """Advice if one of the values is missing, for pandas or Python."""
    missing = {"NoneType", "NAType", "NaTType", "float", "float64"}
    return MISSING_IN_PANDAS if any(type(value).__name__ in missing for value in values) else None


def _pairs(given: Any) -> list[list[str]]:
    """The pairs of sentences that a caller gave: (good, bad) each.

    Raises:
        PdtoolsError: if one is no pair of texts, or a table lacks its columns.
    """
    if hasattr(given, "columns"):
        names, there = ("sentence_good", "sentence_bad"), list(given.columns)
        for name in names:
            if (n := there.count(name)) != 1:
                reason = f"{n or 'no'} {'columns' if n else 'column'} {name!r} in the table"
                raise InputError(reason, file="pairs", hint=", ".join(map(str, there)))
        given = zip(*(given[name] for name in names), strict=True)
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise PdtoolsError(f"pairs have to be a list of (good, bad), or a table, not {type(given).__name__}")
    found = []
    for number, pair in enumerate(given, start=1):
        no_pair = isinstance(pair, (str, Mapping, Set)) or not isinstance(pair, Iterable)
        texts = [pair] if no_pair else list(pair)
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            reason = f"{pair!r} is no pair of sentences, (good, bad)"
            raise InputError(reason, file="pairs", line=number, hint=_about_missing(texts))
        found.append(texts)
    return found


def _of_pairs(results: Results) -> pd.DataFrame:
    """A row for each pair, with what is known of each sentence; nothing if only one has a score."""
    found = results.table(ITEMS).to_pandas()
    found = found[found["prediction"] == 1].drop(columns=["prediction", "formula"]).set_index("item")
    strings = results.table(STRINGS_TABLE).to_pandas().set_index("item")
    strings["logprob"] = -math.log(2) * strings["bits"]
    known = ["read", "logprob", "tokens", "dropped", "surprisals"]
    strings.loc[found.index[found["outcome"] == "unscorable"], known] = None
    for role in ("good", "bad"):
        of_role = strings[strings["string"] == role][["text", *known]]
        found = found.join(
            of_role.rename(columns={"text": "sentence", "read": "text"}).add_suffix(f"_{role}")
        )
    return found.reset_index(names="pair")


def _check_number(name: str, value: Any, least: int = 1) -> None:
    """Refuse an argument that is neither None nor a whole number from ``least`` on."""
    if value is not None and not (isinstance(value, Integral) and int(value) >= least):
        raise PdtoolsError(f"{name} is {value!r}: has to be a whole number of at least {least}")


def _index(given: Any) -> pd.Index | None:
    """The index of a pandas object; None for others."""
    return given.index if hasattr(given, "iloc") else None


def _frame(rows: list[list[Any]], names: list[str], index: pd.Index | None = None) -> pd.DataFrame:
    """A table; with an index whose label n, from 1, belongs to the rows that begin with n."""
    import pandas as pd

    labels = None if index is None else index.take(pd.Index([row[0] - 1 for row in rows], dtype="int64"))
    return pd.DataFrame(rows, columns=pd.Index(names), index=labels)
