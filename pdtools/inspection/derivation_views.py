"""Views of derivations for pages: a class for each kind that shows more than trees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.inspection.trace import Derivation as TracedDerivation
from pdtools.inspection.trace import Hypothesis, Parse, Trace, TraceStep
from pdtools.models import LanguageModel, LoadedModel
from pdtools.models.dependency.derivations import graph_of_history
from pdtools.models.derivations import AnyDerivation, Derivation
from pdtools.models.grammar.derivations import ActionDerivation
from pdtools.models.grammar.model import ActionLM
from pdtools.models.grammar.transition_derivations import TransitionDerivation
from pdtools.search.checkpoints import Encoded, Searched, SearchFamily
from pdtools.search.kinds import search_of
from pdtools.search.options import SearchOptions
from pdtools.search.scores import BeamStep, SentenceScore, Unscorable
from pdtools.tokenization import ROOT
from pdtools.trees import Constituents, Graph, escape
from pdtools.trees.arc_standard import ArcActions

_PER_NAT = 1 / math.log(2)
Shown = Literal["none", "attachments", "actions", "arcs"]


@dataclass(frozen=True, kw_only=True)
class Read:
    """The input that a model reads to show its attention.

    Attributes:
        rows: tokens with their derivations, as :meth:`pdtools.models.LanguageModel.pack` takes them.
        row_of: for each of T positions, the row that shows it.
        derivation, positions: see :class:`AttentionTrace`.
    """

    rows: list[tuple[Any, Any]]
    row_of: Sequence[int]
    derivation: Literal["incremental", "best", "none"]
    positions: TracedDerivation


class DerivationView:
    """The view of a kind of derivations; by default the best tree, without the beam.

    Attributes:
        shown: the name of the beam's derivations in a trace; ``none``: it does not show them.
    """

    shown: Shown = "none"

    def trace(
        self, loaded: LoadedModel, encoded: Encoded, search: SearchOptions, hypotheses: int
    ) -> tuple[Trace, Read | None]:
        """Search a sentence.

        Returns:
            The trace without attention, and the model's input that shows attention; None: it is not shown.
        """
        family = search_of(loaded.model)(loaded, search)
        found: Searched = known(next(family.answers("trace", [encoded.sentence], hypotheses=hypotheses)))
        score, steps = family.score_of(found), found.result.steps
        traced = replace(
            trace_of_score(loaded.folder, family.settings, score, encoded.sentence.words),
            derivations=self.shown,
            dropped=found.result.dropped,
            steps=tuple(self._step(loaded, k, step, found) for k, step in enumerate(steps, start=1))
            if self.shown != "none"
            else (),
            best=self.best(loaded, family, found),
        )
        return traced, self.read(loaded, found)

    def best(self, loaded: LoadedModel, family: SearchFamily, found: Searched) -> Parse:
        """The best derivation of the whole sentence."""
        joint, best = family.derivations(found)[0]
        return self.parse(loaded, found.encoded, best, joint)

    def read(self, loaded: LoadedModel, found: Searched) -> Read | None:
        """The model's input that shows attention; None: it is not shown."""
        return None

    def hypothesis(self, loaded: LoadedModel, derivation: Any, found: Searched) -> TracedDerivation:
        """A hypothesis of the beam in a trace's form."""
        sequence = self.sequence(loaded, derivation)
        assert sequence is not None
        return sequence

    def _step(self, loaded: LoadedModel, position: int, step: BeamStep[Any], found: Searched) -> TraceStep:
        shares = np.exp(step.joints - step.total)
        surprisals: list[float | None] = [None] * len(shares)
        if step.token_logprobs is not None:
            surprisals = (-step.token_logprobs * _PER_NAT).tolist()
        hypotheses = zip(
            [self.hypothesis(loaded, each, found) for each in step.derivations],
            (step.joints * _PER_NAT).tolist(),
            shares.tolist(),
            step.parents.tolist(),
            surprisals,
            strict=True,
        )
        attachment = None if self.shown == "arcs" else step.attachment
        return TraceStep(
            position=position,
            kept=step.kept,
            hypotheses=tuple(Hypothesis(*each) for each in hypotheses),
            rest=max(0.0, 1 - float(shares.sum())) if step.kept > len(shares) else 0.0,
            attachment=None if attachment is None else tuple(attachment.tolist()),
        )

    def sequence(self, loaded: LoadedModel, derivation: Any) -> TracedDerivation | None:
        """A derivation in a trace's form: its attachments, if it has any; None: only its tree."""
        return (0, *(derivation.attach + 1).tolist(), 0) if isinstance(derivation, Derivation) else None

    def parse(
        self, loaded: LoadedModel, encoded: Encoded, found: AnyDerivation, joint: float | None
    ) -> Parse:
        """A derivation of the whole sentence with its tree; ``joint`` in nats."""
        words = [escape(word) for word in encoded.sentence.words]
        word_of_token = encoded.encoding.word[1:-1].tolist()
        tree = found.tree(words, word_of_token, loaded.tokenizer.labels)
        joint = None if joint is None else joint * _PER_NAT
        return Parse(self.sequence(loaded, found), tree.to_brackets(), joint)

    def beginning(self, ids: NDArray[np.int32], token: int, found: Any) -> tuple[Any, Any]:
        """The input with which a token is predicted, to be packed.

        Args:
            ids: int32 (n + 2), the sentence's tokens.
            token: the predicted one, from 1.
            found: the best derivation after each token, or the given derivation of the whole sentence.
        """
        return ids[:token], found[:token] if isinstance(found, np.ndarray) else found[token - 1]

    def places(self, read: NDArray[np.int64], vocab_size: int) -> NDArray[np.int64]:
        """Positions of the tokens of a packed row; the next one is behind it."""
        return np.arange(len(read) + 1)


class AttachmentView(DerivationView):
    """The view of attachments: the beam after each token."""

    shown: Shown = "attachments"

    def best(self, loaded: LoadedModel, family: SearchFamily, found: Searched) -> Parse:
        """See :meth:`DerivationView.best`."""
        attach = tuple(found.result.derivations[0][1].tolist())
        return replace(super().best(loaded, family, found), derivation=attach)

    def hypothesis(self, loaded: LoadedModel, derivation: Any, found: Searched) -> TracedDerivation:
        """See :meth:`DerivationView.hypothesis`."""
        return tuple(derivation.tolist())

    def read(self, loaded: LoadedModel, found: Searched) -> Read:
        """See :meth:`DerivationView.read`."""
        histories = list(found.result.incremental[:-1])
        if loaded.model.layout == "window":
            histories[-1][-1] = 0  # the last token's attachment in shards
        longest, row_of = _longest(histories)
        rows = [(found.encoded.encoding.ids[: len(history)], history) for history in longest]
        return Read(
            rows=rows, row_of=row_of, derivation="incremental", positions=tuple(range(len(histories)))
        )


class ActionView(DerivationView):
    """The view of actions: the beam after each token, and attention to openers and closers."""

    shown: Shown = "actions"

    def read(self, loaded: LoadedModel, found: Searched) -> Read:
        """See :meth:`DerivationView.read`."""
        best = found.result.derivations[0][1]
        closers = 2 if cast(ActionLM, loaded.model).actions.doubled else 1
        positions = [
            0,
            *(
                each
                for each in self.sequence(loaded, best)
                for _ in range(closers if str(each)[-1] == ")" else 1)
            ),
        ]
        return Read(
            rows=[(found.encoded.encoding.ids, Constituents(best.labels, best.opens, best.closes))],
            row_of=[0] * len(positions),
            derivation="best",
            positions=tuple(positions),
        )

    def sequence(self, loaded: LoadedModel, derivation: Any) -> TracedDerivation:
        """See :meth:`DerivationView.sequence`: the actions, with open constituents left open."""
        labels, typed = loaded.tokenizer.labels, cast(ActionLM, loaded.model).actions.typed
        names = iter([labels[label] if label >= 0 else "?" for label in derivation.labels.tolist()])
        path: list[str] = []
        sequence: list[int | str] = []
        for k, (opens, closes) in enumerate(
            zip(derivation.opens.tolist(), derivation.closes.tolist(), strict=True), start=1
        ):
            for _ in range(opens):
                path.append(next(names))
                sequence.append(f"({path[-1]}")
            sequence.append(k)
            for _ in range(closes):
                label = path.pop()
                sequence.append(f"{label})" if typed else ")")
        return tuple(sequence)

    def beginning(self, ids: NDArray[np.int32], token: int, found: Any) -> tuple[Any, Any]:
        """See :meth:`DerivationView.beginning`; with actions, the token is read too."""
        if isinstance(found, Constituents):
            return ids, found
        best: ActionDerivation = found[token - 1]
        closes = best.closes.copy()
        closes[-1] += best.opens.sum() - closes.sum()  # constituents open then; nothing looks at it
        return np.append(ids[: token + 1], ids[-1]), Constituents(best.labels, best.opens, closes)

    def places(self, read: NDArray[np.int64], vocab_size: int) -> NDArray[np.int64]:
        """See :meth:`DerivationView.places`: other actions are no tokens."""
        return np.flatnonzero(read < vocab_size)


class ArcView(DerivationView):
    """The view of arcs: the beam after each token."""

    shown: Shown = "arcs"

    def best(self, loaded: LoadedModel, family: SearchFamily, found: Searched) -> Parse:
        """See :meth:`DerivationView.best`."""
        arcs = self._arcs(found.result.derivations[0][1])
        return replace(super().best(loaded, family, found), derivation=arcs)

    def hypothesis(self, loaded: LoadedModel, derivation: Any, found: Searched) -> TracedDerivation:
        """See :meth:`DerivationView.hypothesis`."""
        return self._arcs(derivation)

    @staticmethod
    def _arcs(history: NDArray[np.int32]) -> TracedDerivation:
        """The arcs of a history, by positions."""
        position = np.append(0, np.flatnonzero(history[:, 0]))
        return tuple(f"{position[h]}-{position[d]}" for h, d in graph_of_history(history).arcs)

    def beginning(self, ids: NDArray[np.int32], token: int, found: Any) -> tuple[Any, Any]:
        """See :meth:`DerivationView.beginning`; nothing looks at the end that is read too."""
        if isinstance(found, Graph):  # a token sees the arcs up to its own word
            return ids, found
        return np.append(ids[:token], ids[-1]), graph_of_history(found[token - 1])


class TransitionView(ActionView):
    """The view of arc-standard actions: arcs of the beam after each token, and attention to arcs."""

    shown: Shown = "arcs"

    def hypothesis(self, loaded: LoadedModel, derivation: Any, found: Searched) -> TracedDerivation:
        """See :meth:`DerivationView.hypothesis`."""
        return self._arcs(derivation, len(found.encoded.encoding.ids) - 2)

    def read(self, loaded: LoadedModel, found: Searched) -> Read:
        """See :meth:`DerivationView.read`."""
        actions = cast(TransitionDerivation, found.result.derivations[0][1])
        names = iter(np.where(actions.left, "left_arc", "right_arc").tolist())
        positions: list[int | str] = [0]
        for k, arcs in enumerate(actions.arcs.tolist(), start=1):
            positions += [k, *(each for name in itertools.islice(names, arcs) for each in (name, f"{name}'"))]
        positions.append("pop_root")
        return Read(
            rows=[(found.encoded.encoding.ids, actions)],
            row_of=[0] * len(positions),
            derivation="best",
            positions=tuple(positions),
        )

    def sequence(self, loaded: LoadedModel, derivation: Any) -> TracedDerivation:
        """See :meth:`DerivationView.sequence`: the arcs of a whole sentence."""
        return self._arcs(derivation, len(derivation.tokens))

    @staticmethod
    def _arcs(derivation: TransitionDerivation, n_tokens: int) -> TracedDerivation:
        """Arcs by the positions of their words' first tokens; with that of the root after the last token."""
        position = np.append(0, np.flatnonzero(derivation.begins) + 1)
        ended = len(derivation.tokens) == n_tokens
        return tuple(f"{position[h]}-{position[d]}" for h, d in derivation.graph.arcs if h or ended)

    def beginning(self, ids: NDArray[np.int32], token: int, found: Any) -> tuple[Any, Any]:
        """See :meth:`DerivationView.beginning`; with actions, the token is read too."""
        if isinstance(found, ArcActions):
            return ids, found
        return np.append(ids[: token + 1], ids[-1]), found[token - 1]


# Views by the name of the kind.
VIEWS: dict[str, DerivationView] = {
    "attachments": AttachmentView(),
    "actions": ActionView(),
    "arcs": ArcView(),
    "transitions": TransitionView(),
}


def view_of(model: LanguageModel) -> DerivationView:
    """The view of a model's derivations."""
    return VIEWS.get(model.derivation_kind.name, DerivationView())


def trace_of_score(
    folder: str | Path,
    settings: dict[str, Any],
    score: SentenceScore,
    words: Sequence[str],
    first: str = ROOT,
) -> Trace:
    """A trace with the values that every model gives; ``first`` is the text of position 0."""
    return Trace(
        model={"folder": str(folder), **settings},
        derivations="none",
        text=score.text,
        words=tuple(words),
        tokens=(first, *score.tokens),
        word=(-1, *score.words),
        starts=(0, *score.starts),
        ends=(0, *score.ends),
        surprisals=(None, *(-score.logprobs * _PER_NAT).tolist()),
    )


def _longest(histories: Sequence[NDArray[np.int32]]) -> tuple[list[NDArray[np.int32]], list[int]]:
    """Histories that are no beginnings of others, and the index of the one that extends each history."""
    rows: list[NDArray[np.int32]] = []
    row_of = []
    for history in reversed(histories):
        begin = (i for i, row in enumerate(rows) if np.array_equal(row[: len(history)], history))
        row = next(begin, len(rows))
        if row == len(rows):
            rows.append(history)
        row_of.append(row)
    return rows, row_of[::-1]


def known(found: Any) -> Any:
    """Return a sentence's result if it has a score.

    Raises:
        PdtoolsError: if it has none.
    """
    if isinstance(found, Unscorable):
        raise PdtoolsError(f"{found.text!r}: {found.reason}")
    return found
