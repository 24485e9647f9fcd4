"""What a model does with one sentence, token by token, in a form that anything can draw: schema 1.

The form is described in docs/reference/formats.md, section "Traces".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SCHEMA = 1

# Of attachments the position that each token attaches to, its own for a shift; of actions a token's position,
# or what opens or closes: "(NP", ")", "NP)".
Derivation = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A hypothesis of the beam after a token.

    Attributes:
        derivation: up to the token, see :data:`Derivation`.
        joint: log2 p of the tokens so far and the derivation.
        share: its part of the probability of all hypotheses that were kept.
        parent: the rank, from 0, of the one that it extends, among all that were kept after the token before;
            those listed there are the first of them.
        surprisal: of the token under it, bits; None of models of actions.
    """

    derivation: Derivation
    joint: float
    share: float
    parent: int
    surprisal: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """The beam after a token was generated and attached.

    Attributes:
        position: of the token.
        kept: how many hypotheses the beam held.
        hypotheses: the best of them, best first.
        rest: the share of the others.
        attachment: for every position up to the token's, the probability that the token attaches to it, over
            all hypotheses that were extended; None of models of actions.
    """

    position: int
    kept: int
    hypotheses: tuple[Hypothesis, ...]
    rest: float
    attachment: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Parse:
    """A derivation of the whole sentence.

    Attributes:
        derivation: see :data:`Derivation`; None of a tree that is none of the model's derivations.
        tree: over the words, in brackets.
        joint: log2 p(x, y); None where the model has none, or it was not computed.
    """

    derivation: Derivation | None
    tree: str
    joint: float | None


@dataclass(frozen=True, slots=True)
class Split:
    """Where a node of the tree splits that hidden states give (TreeReg), and what else it could have done.

    Attributes:
        first, past: the node is over words ``first`` to ``past`` - 1, counted from 0.
        split: the word that its right child begins with.
        scores: of splits before word ``first`` + 1, …, ``past`` - 1; of the node's own the highest.
    """

    first: int
    past: int
    split: int
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AttentionTrace:
    """Attention weights of T positions, those of position i as the model reads under one derivation.

    Attributes:
        derivation: whose: "incremental", of the best hypothesis after each token; "best", of the best
            derivation (models of actions); "none".
        layers, heads: how many.
        positions: what stands at each of the T positions, as in :data:`Derivation`.
        weights: Base64 of bytes, the weights times 255, rounded: for each layer, then each head, the lower
            triangle row by row, row i with i + 1 weights.
        without: the same with a score term left out of the scores of each layer, by the term's name.
    """

    derivation: Literal["incremental", "best", "none"]
    layers: int
    heads: int
    positions: Derivation
    weights: str
    without: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trace:
    """What a model did with a sentence. Logarithms are to the base 2.

    Attributes:
        model: folder, name and search of the model, the settings of a scorer.
        derivations: what its derivations are made of.
        text: as the model read it.
        words: of the text.
        tokens: by position: ROOT (or BOS), the sentence's
            tokens, and end-of-sentence, if the model has one.
        word: for each position, which of the words the token belongs to; -1 for none.
        starts, ends: for each position, the token's characters in the text.
        surprisals: for each position, bits; None where there is none (ROOT, a masked model).
        dropped: the share of p(x) that the search is estimated to have dropped; None without a search.
        steps: the beam after each token, from position 1 on; empty without a search.
        best: the best parse; None of models without.
        gold: the tree that was given, if any.
        splits: of models trained with TreeReg the nodes of the greedy tree, in pre-order; None of others.
        attention: None where it was not asked for, or the model has none that can be shown.
        stacks: of models with stacks, what :mod:`pdtools.inspection.stack_attention` or
            :mod:`pdtools.inspection.recurrent` finds, ready for JSON, and ``kind``: "attention" or "run".
    """

    model: dict[str, Any]
    derivations: Literal["none", "attachments", "actions"]
    text: str
    words: tuple[str, ...]
    tokens: tuple[str, ...]
    word: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    surprisals: tuple[float | None, ...]
    dropped: float | None = None
    steps: tuple[Step, ...] = ()
    best: Parse | None = None
    gold: Parse | None = None
    splits: tuple[Split, ...] | None = None
    attention: AttentionTrace | None = None
    stacks: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and strings."""
        return {"schema": SCHEMA, **asdict(self)}
