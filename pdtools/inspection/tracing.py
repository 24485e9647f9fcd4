"""Makes traces: what a model of any kind did with one sentence."""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.inspection.attention import attention_weights, has_attention, score_terms
from pdtools.inspection.recurrent import StackRunView, inspect_run
from pdtools.inspection.stack_attention import Inspection, inspect_stacks
from pdtools.inspection.trace import AttentionTrace, Hypothesis, Parse, Split, Step, Trace
from pdtools.inspection.trace import Derivation as TracedDerivation
from pdtools.models import LanguageModel, LoadedModel, RecurrentLM, TransformerLM
from pdtools.models.derivations import Derivation
from pdtools.models.grammar.derivations import ActionDerivation
from pdtools.models.grammar.model import GrammarLM
from pdtools.search.actions.scorer import ActionScorer, SearchedActions
from pdtools.search.attachments.scorer import AttachmentScorer, Searched
from pdtools.search.attachments.steps import BeamStep
from pdtools.search.encoding import Encoded, encode_sentence
from pdtools.search.options import DEFAULT_SEARCH, NO_SEARCH, SearchOptions
from pdtools.search.scorer import load_model, scorer_of
from pdtools.search.scores import GivenRow, SentenceScore, Unscorable
from pdtools.search.strings.huggingface import HuggingFaceScorer, is_huggingface
from pdtools.search.strings.treereg_parser import TreeRegParser
from pdtools.shards.format import ShardSettings
from pdtools.shards.plain import row_of_tree
from pdtools.tokenization import ROOT, Sentence, split_text_words
from pdtools.trees import Constituents, Tree, escape

# The term whose share in the attention is shown, where a model has it.
_DEPTH = "depth"
_PER_NAT = 1 / math.log(2)


def trace(
    model: LoadedModel | str | Path,
    sentence: str | Sentence,
    search: SearchOptions = DEFAULT_SEARCH,
    *,
    hypotheses: int = 10,
    attention: bool = True,
    gold: Tree | None = None,
    device: str = "cpu",
) -> Trace:
    """Let a model read a sentence, and keep what it does after every token.

    Args:
        model: a checkpoint in memory, or the folder of a checkpoint, a run or a Hugging Face model (of
            which there are surprisals only). Of a model of a task there are its stacks only.
        sentence: running text, or words already split.
        search: where there is one; see :func:`pdtools.search.load_scorer`.
        hypotheses: how many of each beam are kept.
        attention: whether attention weights are; of transformers that read from left to right.
        gold: the tree of the sentence, as a treebank has it.
        device: to load the model on.

    Raises:
        PdtoolsError: if the sentence cannot be scored, the tree is not one of its, or the folder holds no
            model.
    """
    search.check_number()
    if not isinstance(model, LoadedModel):
        if is_huggingface(model):
            return _of_huggingface(model, sentence, device)
        model = load_model(model, device=device)
    if "task" in model.config["shards"]:
        return _of_task(model, sentence if isinstance(sentence, str) else sentence.text)
    encoded: Encoded = _known(encode_sentence(model.tokenizer, None, sentence))
    choices = model.model.derivation_kind.choices
    if choices == "attachments":
        found, read = _of_attachments(model, encoded, search, hypotheses)
    elif choices == "actions":
        found, read = _of_actions(model, encoded, search, hypotheses)
    else:
        found, read = _of_strings(model, encoded)
    if model.model.has_treereg:
        found = _with_splits(found, TreeRegParser(model), encoded.sentence)
    return replace(
        found,
        gold=None if gold is None else _gold(model, encoded, gold),
        attention=_attention(model.model, read) if attention and has_attention(model.model) else None,
        stacks=_stacks(stack_view(model, encoded.sentence)),
    )


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What a model reads to show its attention.

    Attributes:
        rows: tokens with their derivations, as :meth:`pdtools.models.LanguageModel.pack` takes them.
        row_of: for each of T positions the row that shows it.
        derivation, positions: see :class:`AttentionTrace`.
    """

    rows: list[tuple[Any, Any]]
    row_of: Sequence[int]
    derivation: Literal["incremental", "best", "none"]
    positions: TracedDerivation


# --- kinds of models --------------------------------------------------------------------------


def _of_huggingface(folder: str | Path, sentence: str | Sentence, device: str) -> Trace:
    scorer = HuggingFaceScorer(folder, device=device)
    if isinstance(sentence, str):
        sentence = split_text_words(sentence)
    score = _known(next(iter(scorer.score([sentence]))))
    return _of_score(folder, scorer.settings, score, sentence.words, "<bos>")


def _of_task(loaded: LoadedModel, text: str) -> Trace:
    """Of a model that reads x and answers."""
    view = stack_view(loaded, text)
    assert view is not None
    nothing = (0,) * len(view.tokens)
    return Trace(
        model={"folder": str(loaded.folder), **loaded.described},
        derivations="none",
        text=text,
        words=(),
        tokens=tuple(view.tokens),
        word=tuple(-1 for _ in view.tokens),
        starts=nothing,
        ends=nothing,
        surprisals=tuple(None for _ in view.tokens),
        stacks=_stacks(view),
    )


def _of_strings(loaded: LoadedModel, encoded: Encoded) -> tuple[Trace, _Read]:
    model, ids = loaded.model, encoded.encoding.ids
    scorer = TreeRegParser(loaded) if model.has_treereg else scorer_of(loaded, NO_SEARCH)
    score = _known(next(iter(scorer.score([encoded.sentence]))))
    found = _of_score(loaded.folder, scorer.settings, score, encoded.sentence.words)
    n = len(ids) - 1  # ROOT and the tokens: nothing follows end-of-sentence
    is_late = isinstance(model, TransformerLM) and model.config.as_released
    positions = (0, *range(n - 1)) if is_late else tuple(range(n))
    rows = [(ids[:n], model.no_derivation(ids[:n]))]
    return found, _Read(rows=rows, row_of=[0] * n, derivation="none", positions=positions)


def _with_splits(found: Trace, parser: TreeRegParser, sentence: Sentence) -> Trace:
    """With the tree that hidden states give; it is the best one of a model without another."""
    encoded: Encoded = _known(parser.encode(sentence))
    (scores,) = parser.split_scores([encoded])
    nodes = parser.nodes(scores)
    return replace(
        found,
        best=found.best or Parse(None, parser.tree(encoded, nodes).to_brackets(), None),
        splits=tuple(
            Split(first, past, split, tuple(scores.of(first, past).tolist())) for first, past, split in nodes
        ),
    )


def _of_attachments(
    loaded: LoadedModel, encoded: Encoded, search: SearchOptions, hypotheses: int
) -> tuple[Trace, _Read]:
    scorer = AttachmentScorer(loaded, search)
    found: Searched = _known(next(iter(scorer.search([encoded.sentence], trace=hypotheses))))
    joint, attach = found.result.derivations[0]
    traced = replace(
        _of_score(loaded.folder, scorer.settings, scorer.as_score(found), encoded.sentence.words),
        derivations="attachments",
        dropped=found.result.dropped,
        steps=tuple(
            _step(k, step, [tuple(each.tolist()) for each in step.derivations])
            for k, step in enumerate(found.result.steps, start=1)
        ),
        best=Parse(tuple(attach.tolist()), found.tree().to_brackets(), joint * _PER_NAT),
    )
    histories = list(found.result.incremental[:-1])
    if loaded.model.layout == "window":
        histories[-1][-1] = 0  # as shards have the last token of a sentence
    longest, row_of = _longest(histories)
    rows = [(encoded.encoding.ids[: len(history)], history) for history in longest]
    positions = tuple(range(len(histories)))
    return traced, _Read(rows=rows, row_of=row_of, derivation="incremental", positions=positions)


def _of_actions(
    loaded: LoadedModel, encoded: Encoded, search: SearchOptions, hypotheses: int
) -> tuple[Trace, _Read]:
    scorer = ActionScorer(loaded, search)
    found: SearchedActions = _known(next(iter(scorer.search([encoded.sentence], trace=hypotheses))))
    joint, best = found.result.derivations[0]
    traced = replace(
        _of_score(loaded.folder, scorer.settings, scorer.as_score(found), encoded.sentence.words),
        derivations="actions",
        dropped=found.result.dropped,
        steps=tuple(
            _step(k, step, [_sequence(loaded, each) for each in step.derivations])
            for k, step in enumerate(found.result.steps, start=1)
        ),
        best=_parse(loaded, encoded, best, joint),
    )
    closers = 2 if cast(GrammarLM, loaded.model).actions.doubled else 1
    positions = [
        0,
        *(each for each in _sequence(loaded, best) for _ in range(closers if str(each)[-1] == ")" else 1)),
    ]
    rows = [(encoded.encoding.ids, Constituents(best.labels, best.opens, best.closes))]
    return traced, _Read(
        rows=rows, row_of=[0] * len(positions), derivation="best", positions=tuple(positions)
    )


def _of_score(
    folder: str | Path,
    settings: dict[str, Any],
    score: SentenceScore,
    words: Sequence[str],
    first: str = ROOT,
) -> Trace:
    """Of what every scorer gives; ``first`` stands before it."""
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


def _step(position: int, step: BeamStep[Any], derivations: Sequence[TracedDerivation]) -> Step:
    shares = np.exp(step.joints - step.total)
    surprisals: list[float | None] = [None] * len(shares)
    if step.token_logprobs is not None:
        surprisals = (-step.token_logprobs * _PER_NAT).tolist()
    return Step(
        position=position,
        kept=step.kept,
        hypotheses=tuple(
            Hypothesis(derivation, joint, share, parent, surprisal)
            for derivation, joint, share, parent, surprisal in zip(
                derivations,
                (step.joints * _PER_NAT).tolist(),
                shares.tolist(),
                step.parents.tolist(),
                surprisals,
                strict=True,
            )
        ),
        rest=max(0.0, 1 - float(shares.sum())) if step.kept > len(shares) else 0.0,
        attachment=None if step.attachment is None else tuple(step.attachment.tolist()),
    )


def stack_view(
    loaded: LoadedModel, text: str | Sentence, layers: Collection[int] | None = None
) -> StackRunView | Inspection | None:
    """What the stacks of a model do while it reads; None of one that has none.

    Args:
        loaded: a checkpoint; of a task, it reads x.
        text, layers: see :func:`inspect_run` and :func:`inspect_stacks`.
    """
    model, is_task = loaded.model, "task" in loaded.config["shards"]
    if isinstance(model, RecurrentLM):
        return None if model.stack is None and not is_task else inspect_run(loaded, text)
    has_stacks = any(getattr(block, "stack", None) for block in getattr(model, "blocks", ()))
    return inspect_stacks(loaded, text, layers) if has_stacks or is_task else None


def _stacks(view: StackRunView | Inspection | None) -> dict[str, Any] | None:
    """Of a trace."""
    if view is None:
        return None
    return {"kind": "run" if isinstance(view, StackRunView) else "attention", **view.as_json()}


# --- derivations ------------------------------------------------------------------------------


def _sequence(loaded: LoadedModel, derivation: ActionDerivation) -> TracedDerivation:
    """The actions of a derivation, what is open left open."""
    labels, typed = loaded.tokenizer.labels, cast(GrammarLM, loaded.model).actions.typed
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


def _parse(
    loaded: LoadedModel, encoded: Encoded, found: ActionDerivation | Derivation, joint: float | None
) -> Parse:
    """A derivation of the whole sentence with its tree; ``joint`` in nats."""
    words = [escape(word) for word in encoded.sentence.words]
    word_of_token = encoded.encoding.word[1:-1].tolist()
    if isinstance(found, ActionDerivation):
        sequence, labels = _sequence(loaded, found), loaded.tokenizer.labels
    else:
        sequence, labels = (0, *(found.attach + 1).tolist(), 0), None
    tree = found.tree(words, word_of_token, labels)
    return Parse(sequence, tree.to_brackets(), None if joint is None else joint * _PER_NAT)


def _gold(loaded: LoadedModel, encoded: Encoded, tree: Tree) -> Parse:
    """The given tree as the model would have it.

    Raises:
        PdtoolsError: if it is not one of this sentence.
    """
    model, ids = loaded.model, encoded.encoding.ids
    is_grammar = isinstance(model, GrammarLM)
    settings = ShardSettings(
        factor=loaded.config["shards"].get("factor", "right"),
        tape="none",
        constituents="labelled" if is_grammar else "none",
    )
    row = row_of_tree(tree, loaded.tokenizer, settings)
    if isinstance(row, str):
        raise PdtoolsError(f"the gold tree cannot be used: {row}")
    if not np.array_equal(row.encoding.ids, ids):
        raise PdtoolsError(
            f"the gold tree is not one of this sentence: its words are {row.text!r}, "
            f"not {' '.join(encoded.sentence.words)!r}"
        )
    n = len(ids) - 2
    found: ActionDerivation | Derivation
    if row.constituents is not None:
        constituents = row.constituents
        found = ActionDerivation(ids[1:-1], constituents.labels, constituents.opens, constituents.closes)
        model = cast(GrammarLM, model)
        depth = (constituents.opens.cumsum() - constituents.closes.cumsum() + constituents.closes).max()
        has_score = constituents.labels.min() >= 0 and depth <= model.config.max_open
        given: Any = constituents
    else:
        found = Derivation(ids[1:-1], row.attach[1:-1] - np.int32(1))
        has_score, given = model.derivation_kind.exist, row.attach
        if model.layout == "window":
            ids, given = ids[:-1], np.append(row.attach[:n], np.int32(0))
    joint = None
    if has_score and (model.max_length is None or model.row_length(ids, given) <= model.max_length):
        (score,) = scorer_of(loaded, NO_SEARCH).score_rows([GivenRow(ids, given, encoded.encoding.word)])
        joint = score.joint
    return _parse(loaded, encoded, found, joint)


# --- attention --------------------------------------------------------------------------------


def _attention(model: LanguageModel, read: _Read) -> AttentionTrace:
    without = [_DEPTH] if _DEPTH in score_terms(model) else []
    found = attention_weights(model, model.pack(read.rows).to(model.device), without)

    def packed(weights: Tensor) -> str:
        each = torch.stack([weights[row, :, :, i] for i, row in enumerate(read.row_of)], dim=2)
        return pack_weights(each[:, :, :, : len(read.row_of)].cpu().numpy())  # (L, H, T, T)

    return AttentionTrace(
        derivation=read.derivation,
        layers=found.weights.shape[1],
        heads=found.weights.shape[2],
        positions=read.positions,
        weights=packed(found.weights),
        without={name: packed(weights) for name, weights in found.without.items()},
    )


def _longest(histories: Sequence[NDArray[np.int32]]) -> tuple[list[NDArray[np.int32]], list[int]]:
    """Histories that all others are beginnings of, and which of them each is the beginning of."""
    rows: list[NDArray[np.int32]] = []
    row_of = []
    for history in reversed(histories):
        begin = (i for i, row in enumerate(rows) if np.array_equal(row[: len(history)], history))
        row = next(begin, len(rows))
        if row == len(rows):
            rows.append(history)
        row_of.append(row)
    return rows, row_of[::-1]


def pack_weights(weights: NDArray[np.floating[Any]]) -> str:
    """Attention weights (L, H, T, T) as :class:`AttentionTrace` has them."""
    i, j = np.tril_indices(weights.shape[2])
    values = np.rint(weights[:, :, i, j] * 255).astype(np.uint8)  # (L, H, T (T + 1) / 2)
    return base64.b64encode(values.tobytes()).decode("ascii")


def unpack_weights(packed: str, layers: int, heads: int) -> NDArray[np.float64]:
    """The inverse of :func:`pack_weights`: (L, H, T, T), 0 above the diagonal."""
    values = np.frombuffer(base64.b64decode(packed), np.uint8).reshape(layers, heads, -1)
    length = math.isqrt(2 * values.shape[2])
    weights = np.zeros((layers, heads, length, length))
    i, j = np.tril_indices(length)
    weights[:, :, i, j] = values / 255
    return weights


def _known(found: Any) -> Any:
    """What was found of a sentence that has a score.

    Raises:
        PdtoolsError: if it has none.
    """
    if isinstance(found, Unscorable):
        raise PdtoolsError(f"{found.text!r}: {found.reason}")
    return found
