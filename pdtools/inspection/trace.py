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
        share: its share of the probability of all hypotheses that were kept.
        parent: rank, from 0, of the hypothesis that it extends, among all that were kept one step before; a
            rank beyond the list is one that is not listed.
        surprisal: the token's under this hypothesis alone, bits; null for action models.
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
        position: the token's, from 1; the last step is end-of-sentence.
        kept: number of hypotheses in the beam.
        hypotheses: the best of them, best first.
        rest: the share of the others.
        attachment: for each position up to the token's: the probability that the token attaches to it, summed
            over all hypotheses before any was dropped; null for action models or arcs.
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
        joint: log2 p(x, y); null if the model has none, or it was not computed.
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
        scores: for each possible split, before words ``first`` + 1 to ``past`` - 1; the highest is at
            ``split`` - ``first`` - 1.
    """

    first: int
    past: int
    split: int
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AttentionTrace:
    """Attention weights of T positions, with each position's derivation.

    Attributes:
        derivation: under which one position i reads: ``incremental`` (the best hypothesis after the token at
            i), ``best`` (of the whole sentence; action models), ``none``.
        layers, heads: how many.
        positions: the content of each of the T positions, written as a derivation: numbers are positions of
            the sentence. End-of-sentence is not read, and Transformer Grammars read each closer twice.
        weights: Base64 of unsigned bytes, round(255 · weight): layer by layer, head by head, the lower
            triangle row by row. The weight of query i and key j in head h of layer l is byte (l · heads + h)
            · T (T + 1) / 2 + i (i + 1) / 2 + j.
        without: the same for each named score term, removed from the scores of every layer (``depth``:
            the term of the pushdown layer); queries and keys stay the whole model's.
    """

    derivation: Literal["incremental", "best", "none"]
    layers: int
    heads: int
    positions: Derivation
    weights: str
    without: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trace:
    """A model's trace on a sentence. Logarithms are to the base 2.

    Attributes:
        model: ``folder``, and its settings: ``model`` (its name), ``kind``, ``beam``.
        derivations: their kind: ``none``, ``attachments``, ``actions`` or ``arcs``.
        text, words: the sentence as the model read it.
        tokens: text of the token at each position: ROOT (or BOS), the sentence's, end-of-sentence if the
            model has one.
        word: for each position, the index of the token's word, from 0; -1 for none.
        starts, ends: for each position, the token's characters in ``text``.
        surprisals: for each position, bits; null without a score (ROOT, a masked model).
        dropped: the estimated share of p(x) that the search dropped; null without a search.
        steps: the beam after each token; empty without a search.
        best: the best parse; null for models without.
        gold: the same for a given tree; null without.
        splits: for models trained with TreeReg, the nodes of the greedy tree, from the top down, left before
            right; null for others.
        attention: null if it was not requested, or the model has none that can be shown.
        stacks: the actions of stack attention or of a stack RNN (``kind``: ``attention`` or ``run``, and the
            keys of ``pdtools inspect --json``); null without.
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
    stacks: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The trace as plain lists, numbers and strings."""
        return {"schema": SCHEMA, **asdict(self)}
