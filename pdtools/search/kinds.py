"""The registry of searches by kind of derivation."""

from __future__ import annotations

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel
from pdtools.search.actions.scorer import ActionSearch
from pdtools.search.actions.transitions import TransitionSearch
from pdtools.search.arcs.scorer import ArcSearch
from pdtools.search.attachments.scorer import AttachmentSearch
from pdtools.search.derivation_search import DerivationSearch
from pdtools.search.options import SearchOptions

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


def check_widths(model: LanguageModel, search: SearchOptions) -> None:
    """Refuse further widths besides the beam for models whose search has only one, or that need none.

    Raises:
        PdtoolsError: see :meth:`SearchOptions.check_one_width`.
    """
    if not (model.has_derivations and search_of(model).has_widths):
        search.check_one_width()
