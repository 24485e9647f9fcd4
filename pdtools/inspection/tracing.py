"""Traces of models of any kind on one sentence."""

from __future__ import annotations

import base64
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.inspection.attention import attention_weights, has_attention, score_terms
from pdtools.inspection.derivation_views import Read, known, trace_of_score, view_of
from pdtools.inspection.recurrent import StackRunView, inspect_run
from pdtools.inspection.stack_attention import Inspection, inspect_stacks
from pdtools.inspection.trace import AttentionTrace, Composed, Parse, Split, Trace
from pdtools.models import LanguageModel, LoadedModel, RecurrentLM, TransformerLM, load_checkpoint
from pdtools.models.rnng.model import RnngLM
from pdtools.search.checkpoints import Encoded, encode_sentence
from pdtools.search.families.proposal_trees import ProposalTree
from pdtools.search.families.treereg import TreeRegFamily
from pdtools.search.inputs import read_sentence
from pdtools.search.model import Model, is_guest, load_model
from pdtools.search.options import DEFAULT_SEARCH, NO_SEARCH, SearchOptions
from pdtools.search.scores import GivenRow
from pdtools.tokenization import ROOT, Sentence
from pdtools.trees import Tree

# The score term whose effect on attention is shown, if a model has it.
_DEPTH = "depth"
_PER_NAT = 1 / math.log(2)


def trace(
    model: Model | LoadedModel | str | Path,
    sentence: str | Sentence,
    search: SearchOptions = DEFAULT_SEARCH,
    *,
    hypotheses: int = 10,
    attention: bool = True,
    gold: Tree | None = None,
    device: str = "cpu",
) -> Trace:
    """Run a model on a sentence, and record its state after every token.

    Args:
        model: a checkpoint in memory, or the folder of a checkpoint, a run or a model of another package
            (which has only surprisals), or one loaded. A task model has only its stacks, and a :class:`Model`
            that reads a context before sentences only surprisals.
        sentence: running text, or words already split.
        search: search options, if the model needs a search; see :func:`pdtools.search.load_model`.
        hypotheses: number of hypotheses kept of each beam.
        attention: whether attention weights are included, for causal transformers.
        gold: the sentence's tree, as in a treebank.
        device: to load the model on.

    Raises:
        PdtoolsError: if the sentence cannot be scored, the tree does not fit it, or the folder holds no
            model.
    """
    search.check_number()
    if not isinstance(model, (LoadedModel, Model)):
        model = load_model(model, device=device) if is_guest(model) else load_checkpoint(model, device)
    if isinstance(model, Model):
        assert model.asked is not None
        folder = model.asked.model_dir
        if gold is not None and is_guest(folder):
            raise PdtoolsError(f"{folder}: it reads words alone: leave out the gold tree")
        if is_guest(folder) or model.asked.context.is_asked_for:
            return _of_score(model, folder, sentence)
        model = model.loaded
    if "task" in model.config["shards"]:
        return _of_task(model, sentence if isinstance(sentence, str) else sentence.text)
    encoded: Encoded = known(encode_sentence(model.tokenizer, None, sentence))
    read: Read | None
    if model.model.derivation_kind.exist:
        found, read = view_of(model.model).trace(model, encoded, search, hypotheses)
    else:
        found, read = _of_strings(model, encoded)
    if model.model.has_treereg:
        found = _with_splits(found, TreeRegFamily(model), encoded)
    return replace(
        found,
        gold=None if gold is None else _gold(model, encoded, gold),
        attention=_attention(model.model, read)
        if attention and read is not None and has_attention(model.model)
        else None,
        composed=_composed(model, read) if attention and read is not None else None,
        stacks=_stacks(stack_view(model, encoded.sentence)),
    )


# --- kinds of models --------------------------------------------------------------------------


def _of_score(model: Model, folder: str, sentence: str | Sentence) -> Trace:
    """The trace of a model whose scores alone are shown."""
    if isinstance(sentence, str):
        sentence = read_sentence(sentence, "text", model.settings["text_style"])
    score = known(next(model.score([sentence])))
    return trace_of_score(
        folder, model.settings, score, sentence.words, "<bos>" if is_guest(folder) else ROOT
    )


def _of_task(loaded: LoadedModel, text: str) -> Trace:
    """The trace of a model that reads x and answers."""
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


def _of_strings(loaded: LoadedModel, encoded: Encoded) -> tuple[Trace, Read]:
    model, ids = loaded.model, encoded.encoding.ids
    asked = Model.of(loaded, NO_SEARCH, parses=model.has_treereg)
    score = known(next(asked.score([encoded.sentence])))
    found = trace_of_score(loaded.folder, asked.settings, score, encoded.sentence.words)
    n = len(ids) - 1  # ROOT and the tokens: nothing follows end-of-sentence
    is_late = isinstance(model, TransformerLM) and model.config.as_released
    positions = (0, *range(n - 1)) if is_late else tuple(range(n))
    rows = [(ids[:n], model.no_derivation(ids[:n]))]
    return found, Read(rows=rows, row_of=[0] * n, derivation="none", positions=positions)


def _with_splits(found: Trace, parser: TreeRegFamily, encoded: Encoded) -> Trace:
    """Add the tree that hidden states give; it is the best one of a model without another."""
    encoded = known(parser.encode(encoded.sentence))
    ((_, tree),) = known(next(parser.parse([encoded]))).k_best
    (scores,) = parser.split_scores([encoded])
    return replace(
        found,
        best=found.best or Parse(None, tree.to_brackets(), None),
        splits=tuple(
            Split(first, past, split, tuple(scores.of(first, past).tolist()))
            for first, past, split in parser.nodes(scores)
        ),
    )


def stack_view(loaded: LoadedModel, text: str | Sentence) -> StackRunView | Inspection | None:
    """The stacks of a model while it reads; None if it has none.

    Args:
        loaded: a checkpoint; a task model reads x.
        text: see :func:`inspect_run` and :func:`inspect_stacks`.
    """
    model, is_task = loaded.model, "task" in loaded.config["shards"]
    if isinstance(model, RecurrentLM):
        return None if model.stack is None and not is_task else inspect_run(loaded, text)
    has_stacks = any(getattr(block, "stack", None) for block in getattr(model, "blocks", ()))
    return inspect_stacks(loaded, text) if has_stacks or is_task else None


def _stacks(view: StackRunView | Inspection | None) -> dict[str, Any] | None:
    """A view of stacks in a trace's form."""
    if view is None:
        return None
    return {"kind": "run" if isinstance(view, StackRunView) else "attention", **view.as_json()}


# --- the gold tree ----------------------------------------------------------------------------


def _gold(loaded: LoadedModel, encoded: Encoded, tree: Tree) -> Parse:
    """The given tree as a derivation of the model.

    Raises:
        PdtoolsError: if it does not fit this sentence.
    """
    found = ProposalTree.of(loaded, tree)
    if isinstance(found, str):
        raise PdtoolsError(f"the gold tree cannot be used: {found}")
    if not np.array_equal(found.row.encoding.ids, encoded.encoding.ids):
        raise PdtoolsError(
            f"the gold tree is not one of this sentence: its words are {found.row.text!r}, "
            f"not {' '.join(encoded.sentence.words)!r}"
        )
    if found.derivation is None:
        raise PdtoolsError(f"the gold tree cannot be used: {found.problem}")
    joint = None
    if loaded.model.derivation_kind.exist and found.problem is None:
        row = GivenRow(found.tokens, found.given, encoded.encoding.word)
        (score,) = Model.of(loaded, NO_SEARCH).score_rows([row])
        joint = score.joint
    return view_of(loaded.model).parse(loaded, encoded, found.derivation, joint)


# --- attention --------------------------------------------------------------------------------


def _attention(model: LanguageModel, read: Read) -> AttentionTrace:
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


def _composed(loaded: LoadedModel, read: Read) -> tuple[Composed, ...] | None:
    model = loaded.model
    if not (isinstance(model, RnngLM) and model.composition.sees_state):
        return None
    ((tokens, tree),) = read.rows
    weights, labels = iter(model.composition_weights(tokens, tree)), iter(tree.labels.tolist())
    path: list[tuple[int, list[int]]] = []  # labels of open constituents, with their children
    found = []
    for k, (opens, closes) in enumerate(zip(tree.opens.tolist(), tree.closes.tolist(), strict=True), 1):
        path += [(next(labels), []) for _ in range(opens)]
        path[-1][1].append(k)
        for _ in range(closes):
            label, children = path.pop()
            name = loaded.tokenizer.labels[label]
            found.append(Composed(name, tuple(children), k, tuple(next(weights).tolist())))
            if path:
                path[-1][1].append(children[0])
    return tuple(found)


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
