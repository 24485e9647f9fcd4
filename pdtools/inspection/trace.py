"""The trace of a model on one sentence, token by token, in a form that anything can draw: schema 1.

docs/reference/files/trace.md shows the lists of attributes below as the form of the JSON.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SCHEMA = 1

# For attachments each token's position to attach to, its own for a shift; for actions a token's position, or
# an opener or closer: "(NP", ")", "NP)"; for arcs the positions of head and dependent, "0-3", their words'
# first tokens, and 0 for the root.
Derivation = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A hypothesis of the beam after a token.

    Attributes:
        derivation: up to the token.
        joint: log2 p of the tokens so far and the derivation.
        share: its share of the probability of all that were kept.
        parent: rank, from 0, of the hypothesis that it extends, among all kept one step before.
        surprisal: the token's under this hypothesis alone; null for action models.
    """

    derivation: Derivation
    joint: float
    share: float
    parent: int
    surprisal: float | None


@dataclass(frozen=True, slots=True)
class TraceStep:
    """The beam after a token was generated and attached.

    Attributes:
        position: the token's, from 1; the last is end-of-sentence.
        kept: number of hypotheses in the beam.
        hypotheses: the best of them, best first.
        rest: the share of the others.
        attachment: for each position up to the token's: the probability that the token attaches to it, summed
            over all hypotheses before any was dropped; null for action models and arcs.
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
        derivation: null for a tree that is none of the model's derivations.
        tree: brackets over the words.
        joint: log2 p(x, y); null if there is none.
    """

    derivation: Derivation | None
    tree: str
    joint: float | None


@dataclass(frozen=True, slots=True)
class Split:
    """The split of a node in the tree that hidden states give (TreeReg), and its alternatives.

    Attributes:
        first, past: the node covers words ``first`` to ``past`` - 1, from 0.
        split: the first word of its right child.
        scores: for each possible split, before words ``first`` + 1 to ``past`` - 1.
    """

    first: int
    past: int
    split: int
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AttentionTrace:
    """Attention weights of T positions, with each position's derivation.

    Attributes:
        derivation: under which position i reads: ``incremental`` (the best hypothesis after token i),
            ``best`` (of the whole sentence; action models), ``none``.
        layers, heads: how many.
        positions: the content of the T positions, written as a derivation. Transformer Grammars read each
            closer twice.
        weights: Base64 of unsigned bytes, round(255 · weight): by layer, head, then the lower triangle by
            rows. Query i, key j in head h of layer l: byte (l · heads + h) · T (T + 1) / 2 + i (i + 1) / 2 +
            j.
        without: the same without a named term of the scores (``depth``: the pushdown layer's).
    """

    derivation: Literal["incremental", "best", "none"]
    layers: int
    heads: int
    positions: Derivation
    weights: str
    without: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Composed:
    """A constituent of the best parse whose vector attention makes of its children's (RNNGs).

    Attributes:
        label: its label.
        children: each child's first position.
        last: its last position.
        weights: the children's; they sum to one.
    """

    label: str
    children: tuple[int, ...]
    last: int
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """A model's trace on a sentence. Logarithms are to the base 2.

    Attributes:
        model: ``folder``, and its ``model`` (the name), ``kind`` and ``beam``.
        derivations: their kind: ``none``, ``attachments``, ``actions`` or ``arcs``.
        text, words: the sentence as the model read it.
        tokens: the text of each position.
        word: each position's word, from 0; -1 for none.
        starts, ends: each position's characters in ``text``.
        surprisals: each position's bits; null without a score (ROOT, masked models).
        dropped: the estimated share of p(x) that the search dropped; null without a search.
        steps: the beam after each token; empty without a search.
        best: the best parse, or null.
        gold: the same for a given tree.
        splits: for TreeReg, the nodes of the greedy tree, top down, left before right, or null.
        attention: null if it was not requested.
        composed: for RNNGs with ``composition=attention``, the constituents of the best parse as they close,
            or null.
        stacks: actions of a stack (``kind``: ``attention`` or ``run``, and the keys of ``pdtools inspect
            --json``), or null.
    """

    model: dict[str, Any]
    derivations: Literal["none", "attachments", "actions", "arcs"]
    text: str
    words: tuple[str, ...]
    tokens: tuple[str, ...]
    word: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    surprisals: tuple[float | None, ...]
    dropped: float | None = None
    steps: tuple[TraceStep, ...] = ()
    best: Parse | None = None
    gold: Parse | None = None
    splits: tuple[Split, ...] | None = None
    attention: AttentionTrace | None = None
    composed: tuple[Composed, ...] | None = None
    stacks: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The trace as plain lists, numbers and strings."""
        return {"schema": SCHEMA, **asdict(self)}
