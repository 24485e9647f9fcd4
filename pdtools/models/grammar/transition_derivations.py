"""Derivations of arc-standard actions, for Dependency Transformer Grammars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pdtools.models.derivations import NO_ARCS
from pdtools.models.grammar.derivations import ActionKind
from pdtools.trees import UNKNOWN_LABEL, Graph, Tree, constituents_of_words
from pdtools.trees.arc_standard import ArcActions, ArcIds, actions_of, dependency_text, heads_of
from pdtools.trees.projection import bottom_up, spans

if TYPE_CHECKING:
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

    def of_sentence(self, row: ShardRow) -> ArcActions | str:
        """See :meth:`DerivationKind.of_sentence`."""
        if row.graph is None:
            return NO_ARCS
        return self.of_graph(row.graph, row.encoding.word)

    def of_graph(self, graph: Graph, word: NDArray[np.int32]) -> ArcActions | str:
        """The static oracle's actions, or the reason why there are none; see
        :func:`pdtools.trees.arc_standard.actions_of`."""
        return actions_of(graph, word, lift=self.lift)

    def content(self, given: Any) -> bytes:
        """See :meth:`DerivationKind.content`."""
        return b"".join(array.tobytes() for array in (given.begins, given.arcs, given.left))

    def read(self, tokens: NDArray[np.int32], given: Any) -> TransitionDerivation:
        """See :meth:`DerivationKind.read`."""
        return TransitionDerivation(given.begins, given.arcs, given.left, tokens[1:-1])
