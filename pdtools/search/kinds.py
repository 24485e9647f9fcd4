"""The registry of searches by kind of derivation, and the choice of a checkpoint's family."""

from __future__ import annotations

from collections.abc import Collection

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel, LoadedModel
from pdtools.search.actions.scorer import ActionSearch
from pdtools.search.actions.transitions import TransitionSearch
from pdtools.search.arcs.scorer import ArcSearch
from pdtools.search.attachments.scorer import AttachmentSearch
from pdtools.search.contexts import Context
from pdtools.search.derivation_search import DerivationSearch
from pdtools.search.family import Family
from pdtools.search.options import AUTO, SearchOptions
from pdtools.search.proposal_trees import ProposalTreesScorer
from pdtools.search.scores import Measure
from pdtools.search.strings.scorer import StringScorer
from pdtools.search.strings.treereg_parser import TreeRegParser

# By the name of their kind (:class:`pdtools.models.derivations.DerivationKind`).
SEARCHES: dict[str, DerivationSearch] = {
    "attachments": AttachmentSearch(),
    "actions": ActionSearch(),
    "arcs": ArcSearch(),
    "transitions": TransitionSearch(),
}


def search_of(model: LanguageModel) -> DerivationSearch:
    """The search for a model's derivations.

    Raises:
        PdtoolsError: if there is no search for them.
    """
    name = model.derivation_name
    if name not in SEARCHES:
        raise PdtoolsError(f"nothing here searches derivations of the kind {name}")
    return SEARCHES[name]


def family_of(
    loaded: LoadedModel,
    search: SearchOptions,
    *,
    context: Context,
    measures: Collection[Measure],
    parses: bool,
) -> Family:
    """The family of a checkpoint, as it is asked.

    Raises:
        PdtoolsError: if the model cannot do what is asked, or an option does not suit it.
    """
    model = loaded.model
    found: Family
    if parses:
        search.check_number()
        found = _parser(loaded, search, context)
    elif search.beam == AUTO:
        if not model.words_depend:
            raise PdtoolsError(f"{loaded.folder}: this model needs no search: leave out --beam auto")
        found = search_of(model).adaptive(loaded, search, context=context)
    elif search.trees is not None:
        if context.of is not None:
            raise PdtoolsError("--trees cannot be combined with --context")
        return ProposalTreesScorer(loaded, trees=search.trees, max_batch=search.max_batch)
    elif model.words_depend or (model.has_derivations and "structure" in measures):
        found = search_of(model).searcher(loaded, search, context=context)
    else:
        search.check_one_width()
        found = StringScorer(loaded, max_batch=search.max_batch, context=context)
    found.measures = frozenset(measures)
    return found


def _parser(loaded: LoadedModel, search: SearchOptions, context: Context) -> Family:
    """The family that searches a model's derivations, or parses by TreeReg."""
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


def check_widths(model: LanguageModel, search: SearchOptions) -> None:
    """Refuse further widths besides the beam for models whose search has only one, or that need none.

    Raises:
        PdtoolsError: see :meth:`SearchOptions.check_one_width`.
    """
    if not (model.has_derivations and search_of(model).has_widths):
        search.check_one_width()
