"""Loading of scorers of checkpoints, as a model's derivations need."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pdtools.errors import PdtoolsError
from pdtools.models import LoadedModel, load_checkpoint
from pdtools.search.checkpoint_scorer import AnySearcher, Searcher
from pdtools.search.contexts import NO_CONTEXT, Context
from pdtools.search.kinds import search_of
from pdtools.search.options import DEFAULT_SEARCH, SearchOptions
from pdtools.search.proposal_trees import ProposalTreesScorer
from pdtools.search.scores import Dtype, Measure, ModelScorer
from pdtools.search.strings.huggingface import HuggingFaceScorer, is_huggingface, torch_dtype
from pdtools.search.strings.scorer import StringScorer
from pdtools.search.strings.treereg_parser import TreeRegParser


def load_scorer(
    model_dir: str | Path,
    search: SearchOptions = DEFAULT_SEARCH,
    *,
    device: str = "cpu",
    dtype: Dtype = "float32",
    bos: bool = True,
    context: Context = NO_CONTEXT,
    measures: Collection[Measure] = (),
) -> ModelScorer | HuggingFaceScorer:
    """Load a model for scoring.

    Args:
        model_dir: a checkpoint, a run folder of ``pdtools train``, or the folder of a Hugging Face
            causal language model.
        search: for models whose strings have derivations; for others, the number of sentences read at once.
        device: a torch device.
        dtype: the type of the weights. bf16 is faster if the processor computes in it, and less exact.
        bos: whether a Hugging Face model reads a beginning-of-sentence token first. Without it the
            first token has no score, and no row.
        context: the text read before sentences.
        measures: measures added to log-probabilities, if the model has them
            (:attr:`pdtools.search.scores.SentenceScore.measures`).

    Raises:
        PdtoolsError: if the folder holds no model that can be loaded, or one that cannot use all widths
            or read the context.
        MissingDependencyError: if it is a Hugging Face model and transformers is not installed.
    """
    search.check_number()
    if is_huggingface(model_dir):
        search.check_one_width()
        if search.trees is not None:
            raise PdtoolsError(f"{model_dir}: a Hugging Face language model has no trees: leave out --trees")
        return HuggingFaceScorer(
            model_dir,
            device=device,
            dtype=dtype,
            bos=bos,
            max_batch=search.max_batch,
            context=context,
            measures=measures,
        )
    check_bos(model_dir, bos)
    loaded = load_model(model_dir, device=device, dtype=dtype)
    return scorer_of(loaded, search, context=context, measures=measures)


def scorer_of(
    loaded: LoadedModel,
    search: SearchOptions = DEFAULT_SEARCH,
    *,
    context: Context = NO_CONTEXT,
    measures: Collection[Measure] = (),
) -> ModelScorer:
    """The scorer that a model's derivations need.

    Args:
        loaded: a checkpoint of a causal model.
        search: for models whose words depend on derivations; without a beam there are no marginals.
        context: the text read before sentences.
        measures: see :func:`load_scorer`.

    Raises:
        PdtoolsError: if the beam has further widths than the model's search, or the context cannot be read.
    """
    search.check_number()
    if search.trees is not None:
        if context.of is not None:
            raise PdtoolsError("--trees cannot be combined with --context")
        return ProposalTreesScorer(loaded, trees=search.trees, max_batch=search.max_batch)
    model = loaded.model
    scorer: AnySearcher | StringScorer
    if model.words_depend or (model.has_derivations and "structure" in measures):
        scorer = search_of(loaded.model).searcher(loaded, search, context=context)
    else:
        search.check_one_width()
        scorer = StringScorer(loaded, max_batch=search.max_batch, context=context)
    scorer.measures = frozenset(measures)
    return scorer


def load_searcher(
    model_dir: str | Path,
    search: SearchOptions = DEFAULT_SEARCH,
    *,
    device: str = "cpu",
    dtype: Dtype = "float32",
    context: Context = NO_CONTEXT,
) -> Searcher:
    """Load a model whose derivations can be searched, or that was trained with TreeReg.

    Args:
        model_dir, search, device, dtype, context: see :func:`load_scorer`; TreeReg's parses need no beam, and
            only it uses ``search.cky``.

    Raises:
        PdtoolsError: if the folder holds no such model, or an option does not suit it.
    """
    search.check_number()
    if is_huggingface(model_dir):
        raise PdtoolsError(f"{model_dir}: a Hugging Face language model has no parses")
    loaded = load_model(model_dir, device=device, dtype=dtype)
    return searcher_of(loaded, search, context=context)


def searcher_of(
    loaded: LoadedModel, search: SearchOptions = DEFAULT_SEARCH, *, context: Context = NO_CONTEXT
) -> Searcher:
    """The searcher of a loaded model; see :func:`load_searcher`. TreeReg needs no beam (None).

    Raises:
        PdtoolsError: if the model cannot parse, or an option does not suit it.
    """
    if loaded.model.has_treereg and not loaded.model.has_derivations:
        if search.given:
            raise PdtoolsError(
                f"{loaded.folder}: a model trained with TreeReg parses without a beam: leave out its options"
            )
        return TreeRegParser(loaded, cky=search.cky, max_batch=search.max_batch)
    if search.cky:
        raise PdtoolsError(f"{loaded.folder}: --cky is for models that parse by TreeReg")
    if not loaded.model.has_derivations:
        raise PdtoolsError(
            f"{loaded.folder}: this model was trained without an attachment head, or TreeReg: it cannot parse"
        )
    return search_of(loaded.model).searcher(loaded, search, context=context)


def check_bos(model_dir: str | Path, bos: bool) -> None:
    """Refuse ``bos=False`` for a model that cannot read without a beginning-of-sentence token.

    A missing folder is reported when it is loaded.

    Raises:
        PdtoolsError: if ``bos`` is False and the model is not a Hugging Face one.
    """
    if not bos and Path(model_dir).exists() and not is_huggingface(model_dir):
        raise PdtoolsError(
            f"{model_dir}: only Hugging Face models can be read without BOS: others always read ROOT"
        )


def load_model(model_dir: str | Path, *, device: str = "cpu", dtype: Dtype = "float32") -> LoadedModel:
    """Load a checkpoint with its weights converted to a type."""
    loaded = load_checkpoint(model_dir, device)
    loaded.model.to(torch_dtype(dtype, device))
    return loaded
