"""Derivations of arcs: a token, then how many arcs the word has that it begins, and perhaps which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.models.dependency.scorer import COUNTS, log_polynomials
from pdtools.models.derivations import DerivationKind, Derivations
from pdtools.trees import Constituents, Tree
from pdtools.trees.forms.dependencies import constituents
from pdtools.trees.graphs import Graph

if TYPE_CHECKING:
    from pdtools.models.base import LanguageModel
    from pdtools.models.dependency.model import GiltLM
    from pdtools.models.dependency.state import WordChoice

NO_GRAPH = "trees of constituents have no dependency arcs"


@dataclass(frozen=True, slots=True)
class ArcDerivation:
    """A string with a graph of its words.

    Attributes:
        tokens: int32[n], without ROOT and end-of-sentence.
        graph: of the words that the tokens make.
    """

    tokens: NDArray[np.int32]
    graph: Graph

    def tree(
        self, words: Sequence[str], word_of_token: Sequence[int], labels: Sequence[str] | None = None
    ) -> Tree:
        """See :class:`~pdtools.models.derivations.AnyDerivation`: a head spans its descendants."""
        return graph_tree(self.graph, words)


class ArcKind(DerivationKind):
    """Arcs between words, any: several heads of a word or none, several roots, cycles, crossings."""

    name = "arcs"
    unit = "arc"

    def derive(self, model: LanguageModel, rows: int, length: int) -> Derivations:
        """See :meth:`DerivationKind.derive`."""
        return ArcDerivations(cast("GiltLM", model), rows, length)

    def given(self, attach: NDArray[np.int32], constituents: Constituents | None) -> Any:
        """See :meth:`DerivationKind.given`: constituents do not say what depends on what."""
        return NO_GRAPH

    def problem(self, model: LanguageModel, given: Graph) -> str | None:
        """See :meth:`DerivationKind.problem`."""
        return too_many(given)

    def content(self, given: Graph) -> bytes:
        """See :meth:`DerivationKind.content`."""
        return str(given).encode()

    def read(self, tokens: NDArray[np.int32], given: Graph) -> ArcDerivation:
        """See :meth:`DerivationKind.read`."""
        return ArcDerivation(tokens[1:-1], given)


def graph_tree(graph: Graph, words: Sequence[str]) -> Tree:
    """The constituents of a graph: those of a tree in it, in which a head spans its descendants, flat.

    The tree is made from the root on, breadth first. A word that is not reached, or is another one under the
    root, hangs on the first. Crossing arcs are lifted. Where the words are not those of the graph (running
    text, in which no space stands between some), all hang on the first.
    """
    below: list[list[int]] = [[] for _ in range(graph.n_words + 1)]
    for head, dependent in graph.arcs if graph.n_words == len(words) else ():
        below[head].append(dependent)
    parents: list[int | None] = [None] * len(words)
    order = [0]
    top = -1  # the first word under the root
    for node in order:  # which grows
        for dependent in sorted(below[node]):
            if parents[dependent - 1] is None:
                parents[dependent - 1] = node - 1 if node else top
                top = dependent - 1 if top < 0 else top
                order.append(dependent)
        if node == order[-1] and None in parents:
            below[0] = [parents.index(None) + 1]
            order.append(0)
    found, _ = constituents(words, ["_"] * len(words), cast(list[int], parents))
    return found


def too_many(graph: Graph) -> str | None:
    """Why no model has a graph, if so."""
    return f"{COUNTS} or more arcs at a word" if len(graph) and graph.counts.max() >= COUNTS else None


class ArcDerivations(Derivations):
    """In turns a token and the number of arcs of the word that it begins, 0 if it begins none.

    Where sets are drawn, their members follow in canonical order. They are the columns behind the vocabulary,
    of which the first says that there are no more.
    """

    def __init__(self, model: GiltLM, rows: int, length: int) -> None:
        """ROOT is read."""
        self._model = model
        self._length = length
        self._sets = model.config.arcs == "set"
        self._state = model.begin(rows, length)
        self._token: Tensor | None = None  # int64 (R,), that was generated, and is not read
        self._word: WordChoice | None = None
        self._count: Tensor | None = None  # int64 (R,), arcs that are still to be chosen
        self._chosen: Tensor | None = None  # bool (R, 2W)
        self._last: Tensor | None = None  # int64 (R,), the candidate that was chosen last; -1 for none
        self._block = 2 + (COUNTS - 1 if self._sets else 0)  # choices of a token, at most
        self.step, self.most_steps = 0, self._block * length

    @torch.no_grad()
    def logprobs(self) -> Tensor:
        """See :meth:`Derivations.logprobs`."""
        if self._token is None:
            return self._model.next_token_logprobs(self._state).double()
        if self._word is None:
            self._word = self._model.word_choice(self._state, self._token)
        return self._word.counts if self._count is None else self._members()

    def _members(self) -> Tensor:
        """log p of the next member of each set, (R, V + 1 + 2W): s_j e_{k-1}(later than j) / e_k(later)."""
        assert self._word is not None
        assert self._count is not None
        assert self._last is not None
        scores = self._word.scores.double()  # (R, 2W)
        later = log_polynomials(scores.flip(1)).flip(1)  # (R, 2W + 1, COUNTS), of candidates from c on
        row = torch.arange(len(scores), device=scores.device)
        left = self._count  # (R,)
        total = later[row, self._last + 1, left]  # (R,)
        rest = later[:, 1:].gather(2, (left - 1).clamp(min=0)[:, None, None].expand(-1, scores.shape[1], 1))
        place = torch.arange(scores.shape[1], device=scores.device)
        found = scores + rest[:, :, 0] - total[:, None]
        is_over = left == 0
        found = found.masked_fill((place <= self._last[:, None]) | is_over[:, None], -torch.inf)
        over = torch.where(is_over, 0.0, -torch.inf).to(found.dtype)[:, None]
        tokens = found.new_full((len(found), self._model.vocab_size), -torch.inf)
        return torch.cat([tokens, over, found], 1)

    def fits(self, token: int) -> Tensor:
        """See :meth:`Derivations.fits`."""
        if self._token is None:
            return torch.arange(self._model.vocab_size, device=self._model.device)[None] == token
        number = COUNTS
        if self._count is not None and self._word is not None:
            number = self._model.vocab_size + 1 + self._word.scores.shape[1]
        return torch.ones(1, number, dtype=torch.bool, device=self._model.device)

    def generated(self, choices: Tensor) -> Tensor:
        """See :meth:`Derivations.generated`."""
        return choices if self._token is None else torch.full_like(choices, -1)

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        if self._token is None:
            self.step += 1
            self._token = choices
            return
        if self._word is None:
            self._word = self._model.word_choice(self._state, self._token)
        if self._count is None and not self._sets:
            self._read(self._word.best(choices))
            return
        if self._count is None:
            self._count, self._last = choices, torch.full_like(choices, -1)
            self._chosen = torch.zeros_like(self._word.scores, dtype=torch.bool)
        else:
            assert self._chosen is not None
            assert self._last is not None
            place = choices - self._model.vocab_size - 1  # (R,), -1 for none
            is_member = place >= 0
            row = torch.arange(len(place), device=place.device)[is_member]
            self._chosen[row, place[is_member]] = True
            self._last, self._count = (
                torch.where(is_member, place, self._last),
                self._count - is_member.long(),
            )
        self.step += 1
        if not bool(self._count.any()):
            assert self._chosen is not None
            self._read(self._chosen)

    def _read(self, chosen: Tensor) -> None:
        """Read the token with the arcs of its word, bool (R, 2W)."""
        assert self._token is not None
        assert self._word is not None
        self._model.read(self._state, self._token, self._word, chosen)
        self._token = self._word = self._count = self._chosen = self._last = None
        self.step += -self.step % self._block

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        self._state.select(rows)
        self._token, self._count, self._chosen, self._last = (
            None if each is None else each[rows]
            for each in (self._token, self._count, self._chosen, self._last)
        )
        self._word = None if self._word is None else self._word.of(rows)

    @property
    def nbytes(self) -> int:
        """See :attr:`Derivations.nbytes`."""
        return self._state.nbytes

    def derivation(self, choices: NDArray[np.int32]) -> ArcDerivation:
        """See :meth:`Derivations.derivation`: the choices are made once more, to see which arcs they are."""
        replayed = ArcDerivations(self._model, 1, self._length)
        made = choices.tolist()
        tokens: list[int] = []
        while made:
            if replayed._token is None:
                if made[0] == self._model.eos_id or len(made) == 1:
                    break
                tokens.append(made[0])
            elif not made:
                break
            replayed.push(torch.tensor([made.pop(0)], device=self._model.device))
            while self._sets and replayed._token is None and made and made[0] == self._model.vocab_size:
                made.pop(0)  # others had more members
        return ArcDerivation(np.array(tokens, dtype=np.int32), replayed._state.graph(0))
