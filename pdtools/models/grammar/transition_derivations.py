"""Derivations of arc-standard actions, for Dependency Transformer Grammars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.models.derivations import NO_ARCS, OTHER_WORDS, Derivations
from pdtools.models.grammar.batch import TransitionBatch
from pdtools.models.grammar.derivations import ActionDerivations, ActionKind
from pdtools.trees import UNKNOWN_LABEL, Graph, Tree, constituents_of_words
from pdtools.trees.arc_standard import ArcActions, ArcIds, actions_of, dependency_text, heads_of
from pdtools.trees.projection import bottom_up, spans

if TYPE_CHECKING:
    from pdtools.models.base import LanguageModel
    from pdtools.models.grammar.dependency import DependencyGrammarLM
    from pdtools.shards import ShardSet
    from pdtools.shards.rows import ShardRow


@dataclass(frozen=True, slots=True, eq=False)
class TransitionDerivation(ArcActions):
    """A string with its arcs.

    Attributes:
        tokens: int32[n].
    """

    tokens: NDArray[np.int32]

    @property
    def closes(self) -> NDArray[np.int32]:
        """Int32[n], number of arcs after each token."""
        return self.arcs

    @property
    def graph(self) -> Graph:
        """The arcs of its words, with that of the root where one word is left."""
        heads = heads_of(self)
        arcs = np.flatnonzero((heads >= 0) | (np.count_nonzero(heads < 0) == 1))
        return Graph.of(len(heads), heads[arcs] + 1, arcs + 1)

    def text(self, words: Sequence[str], labels: Sequence[str] = ()) -> str:
        """Text such as ``((the) cat) saw | a``: dependents in parentheses, items of the stack between bars.

        Args:
            words: the tokens' words, and perhaps more.
            labels: unused: arcs have none.
        """
        bounds = [*np.flatnonzero(self.begins).tolist(), len(self.tokens)]
        joined = ["".join(words[first:past]) for first, past in pairwise(bounds)]
        return dependency_text(joined, heads_of(self).tolist())

    def tree(
        self, words: Sequence[str], word_of_token: Sequence[int], labels: Sequence[str] | None = None
    ) -> Tree:
        """See :class:`~pdtools.models.derivations.AnyDerivation`.

        Each head with dependents spans all that it dominates. Items left on the stack depend on the items
        beneath them.
        """
        heads = heads_of(self).tolist()
        roots = [word for word, head in enumerate(heads) if head < 0]
        for below, word in pairwise(roots):
            heads[word] = below
        found = spans(heads, bottom_up(heads))
        assert found is not None
        n = len(self.tokens)
        bounds = np.append(np.flatnonzero(self.begins), n)
        first, last = (np.array(each, np.int64) for each in found)
        nodes = np.flatnonzero(first < last)
        nodes = nodes[np.lexsort((-last[nodes], first[nodes]))]
        tree = Tree(
            ("",) * n,
            ("",) * n,
            (UNKNOWN_LABEL,) * len(nodes),
            bounds[first[nodes]].astype(np.int32),
            bounds[last[nodes] + 1].astype(np.int32),
        )
        return constituents_of_words(tree, word_of_token, words)


def read_transitions(
    actions: NDArray[np.integer], ids: ArcIds, continues: NDArray[np.bool_]
) -> TransitionDerivation:
    """Convert a sequence of actions without the start, with arcs once; pop_root may be missing.

    Args:
        ids: numbers of actions.
        continues: bool (V,), tokens that continue a word.
    """
    is_token, is_arc = actions < ids.tokens, actions > ids.pop_root
    tokens = actions[is_token].astype(np.int32)
    after = (np.cumsum(is_token) - 1)[is_arc]
    return TransitionDerivation(
        begins=~continues[tokens],
        arcs=np.bincount(after, minlength=len(tokens)).astype(np.int32),
        left=actions[is_arc] == ids.left,
        tokens=tokens,
    )


@dataclass(frozen=True, kw_only=True)
class TransitionKind(ActionKind):
    """Arc-standard actions: a dependency tree is written into the string.

    Attributes:
        lift: whether crossing arcs are lifted; else trees with such arcs are refused.
    """

    lift: bool = False
    name: ClassVar[str] = "transitions"
    labelled: ClassVar[bool] = False
    has_arcs: ClassVar[bool] = True

    def derive(self, model: LanguageModel, rows: int, length: int) -> Derivations:
        """See :meth:`DerivationKind.derive`."""
        found = ActionDerivations(cast("DependencyGrammarLM", model), rows, length)
        found.most_steps = 2 * length  # n tokens, n - 1 arcs, and pop_root
        return found

    def of_row(self, shards: ShardSet, row: int) -> ArcActions:  # type: ignore[override]
        """See :meth:`DerivationKind.of_row`: the actions of its dependency tree.

        Raises:
            PdtoolsError: if it has none.
        """
        found = self.of_graph(shards.graph(row), shards.word(row))
        if isinstance(found, str):
            raise PdtoolsError(found)
        return found

    def pack(self, model: LanguageModel, rows: Sequence[tuple[Any, Any]]) -> TransitionBatch:
        """See :meth:`DerivationKind.pack`: (tokens, :class:`~pdtools.trees.arc_standard.ArcActions`)."""
        return TransitionBatch.of_transitions(rows, model.config.actions, model.root_id, model.pad_id)

    def row_lengths(self, model: LanguageModel, shards: ShardSet) -> NDArray[np.int64]:
        """See :meth:`DerivationKind.row_lengths`: actions, arcs twice."""
        words = np.array([shards.word(row).max(initial=-1) + 1 for row in range(len(shards))], np.int64)
        actions: ArcIds = model.config.actions
        return actions.positions(np.asarray(shards.lengths) - 2, words)

    def row_length(self, model: LanguageModel, tokens: Any, given: ArcActions) -> int:  # type: ignore[override]
        """See :meth:`DerivationKind.row_length`: actions, arcs twice."""
        return int(model.config.actions.positions(len(tokens) - 2, given.begins.sum()))

    def unfit_rows(self, model: LanguageModel, shards: ShardSet) -> list[tuple[NDArray[np.bool_], str]]:
        """See :meth:`DerivationKind.unfit_rows`: trees without actions, and words that tokens do not show."""
        begins = ~cast("DependencyGrammarLM", model).continues

        def why(row: int) -> str:
            found = self.of_graph(shards.graph(row), shards.word(row))
            if isinstance(found, str):
                return found
            if not np.array_equal(found.begins, begins[shards.tokens(row)[1:-1]]):
                return OTHER_WORDS
            return self.problem(model, found) or ""

        reasons = np.array([why(row) for row in range(len(shards))])
        return [(reasons == reason, reason) for reason in sorted({*reasons.tolist()} - {""})]

    def of_sentence(self, row: ShardRow) -> ArcActions | str:
        """See :meth:`DerivationKind.of_sentence`."""
        if row.graph is None:
            return NO_ARCS
        return self.of_graph(row.graph, row.encoding.word)

    def of_graph(self, graph: Graph, word: NDArray[np.int32]) -> ArcActions | str:
        """The static oracle's actions, or the reason why there are none; see
        :func:`pdtools.trees.arc_standard.actions_of`."""
        return actions_of(graph, word, lift=self.lift)

    def problem(self, model: LanguageModel, given: Any) -> str | None:
        """See :meth:`DerivationKind.problem`."""
        if given.most_words > (most := model.config.max_open):
            return f"more than {most} words on the stack at once (config.max_open)"
        return None

    def content(self, given: Any) -> bytes:
        """See :meth:`DerivationKind.content`."""
        return b"".join(array.tobytes() for array in (given.begins, given.arcs, given.left))

    def read(self, tokens: NDArray[np.int32], given: Any) -> TransitionDerivation:
        """See :meth:`DerivationKind.read`."""
        return TransitionDerivation(given.begins, given.arcs, given.left, tokens[1:-1])
