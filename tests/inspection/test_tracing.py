"""Traces: every kind of model, in one form that says what its scorer, search and layers say."""

from __future__ import annotations

import base64
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rnng_oracle import EACH, plain_actions, plain_logprobs, rnng
from search_oracle import tiny_model
from toy_gpt2 import save_gpt2, transformers_losses
from toy_models import loaded
from treereg_oracle import split_score

from pdtools.errors import PdtoolsError
from pdtools.inspection.attention import attention_weights
from pdtools.inspection.trace import Trace
from pdtools.inspection.tracing import pack_weights, trace, unpack_weights
from pdtools.models import LoadedModel, TransformerLM
from pdtools.report.traces import trace_lines
from pdtools.search.model import Model
from pdtools.search.options import NO_SEARCH, SearchOptions
from pdtools.search.scores import GivenRow, SentenceScore
from pdtools.trees import Constituents, Tree

KINDS = ["pushdown", "window", "head", "base", "treereg", "stack-attention", "rnn", "tg", "plm", "plm-mask"]
TEXT, GOLD = "a b c a", "(S (NP (X a) (X b)) (NP (X c) (X a)))"
WITH_ATTENTION = [kind for kind in KINDS if kind != "rnn"]


@pytest.fixture(scope="module")
def traces(models: dict[str, LoadedModel]) -> dict[str, Trace]:
    gold = Tree.from_brackets(GOLD)
    return {
        kind: trace(models[kind], TEXT, SearchOptions(beam=40), hypotheses=4, gold=gold) for kind in KINDS
    }


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_json_with_an_entry_for_every_position(kind: str, traces: dict[str, Trace]) -> None:
    found = json.loads(json.dumps(traces[kind].to_json(), allow_nan=False))
    assert found["schema"] == 1
    assert found["text"].split() == found["words"] == TEXT.split()
    assert found["tokens"] == ["<root>", "a", "b", "c", "a", "<eos>"]
    assert found["word"] == [-1, 0, 1, 2, 3, -1]
    assert [found["text"][a:b] for a, b in zip(found["starts"], found["ends"], strict=True)] == [
        "", "a", "b", "c", "a", "",
    ]  # fmt: skip
    assert found["surprisals"][0] is None
    assert (found["attention"] is not None) == (kind in WITH_ATTENTION)
    assert (found["stacks"] is not None) == (kind in ("rnn", "stack-attention"))


@pytest.mark.parametrize("kind", KINDS)
def test_surprisals_are_the_scorers(
    kind: str, traces: dict[str, Trace], models: dict[str, LoadedModel]
) -> None:
    beam = None if not models[kind].model.derivation_kind.conditions_tokens else 40
    score = next(iter(Model.of(models[kind], SearchOptions(beam=beam)).score([TEXT])))
    assert isinstance(score, SentenceScore)
    bits = -score.logprobs / math.log(2)
    assert traces[kind].surprisals[1:] == pytest.approx(bits, rel=2e-6, abs=1e-5)
    assert traces[kind].dropped == pytest.approx(score.dropped, abs=1e-6) or kind == "head"


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_every_step_make_up_one(kind: str, traces: dict[str, Trace]) -> None:
    found = traces[kind]
    assert len(found.steps) == (5 if found.derivations != "none" else 0)
    for position, step in enumerate(found.steps, start=1):
        assert step.position == position
        assert len(step.hypotheses) == min(step.kept, 4)
        assert sum(each.share for each in step.hypotheses) + step.rest == pytest.approx(1)
        assert all(0 <= each.share <= 1 for each in step.hypotheses)
    if found.derivations == "actions":  # shares of p(x_1…x_k) as surprisals have it
        for step in found.steps:
            total = -sum(bits or 0.0 for bits in found.surprisals[: step.position + 1])
            shares = [2 ** (each.joint - total) for each in step.hypotheses]
            assert [each.share for each in step.hypotheses] == pytest.approx(shares)
    if found.steps:
        last = found.steps[-1].hypotheses[0]
        assert found.best is not None
        assert (last.derivation, last.joint) == (found.best.derivation, pytest.approx(found.best.joint))


@pytest.mark.parametrize("kind", KINDS)
def test_derivations_go_on_from_those_before(kind: str, traces: dict[str, Trace]) -> None:
    before: list[Any] = []
    for step in traces[kind].steps:
        for each in step.hypotheses:
            if each.parent < len(before):
                parent = before[each.parent].derivation
                assert each.derivation[: len(parent)] == parent
            elif step.position > 1:
                assert each.parent >= 4
        before = list(step.hypotheses)


@pytest.mark.parametrize("kind", ["tg", "plm", "plm-mask"])
def test_actions_generate_the_tokens_and_close_what_they_open(kind: str, traces: dict[str, Trace]) -> None:
    best = traces[kind].best
    assert best is not None
    assert best.derivation is not None
    assert [each for each in best.derivation if isinstance(each, int)] == [1, 2, 3, 4]
    opened: list[str] = []
    for each in best.derivation:
        if isinstance(each, str) and each.startswith("("):
            opened.append(each[1:])
        elif isinstance(each, str):
            label = opened.pop()
            assert each == (f"{label})" if kind == "tg" else ")")
    assert not opened
    gold = traces[kind].gold
    closers = ["NP)", "S)"] if kind == "tg" else [")", ")"]
    np_, s = closers
    assert gold is not None
    assert gold.derivation == ("(S", "(NP", 1, 2, np_, "(NP", 3, 4, np_, s)
    assert gold.tree.startswith("(S (NP ")


@pytest.mark.parametrize("kind", KINDS)
def test_the_gold_tree_has_the_score_of_a_given_one(
    kind: str, traces: dict[str, Trace], models: dict[str, LoadedModel]
) -> None:
    gold, best = traces[kind].gold, traces[kind].best
    assert gold is not None
    if traces[kind].derivations != "actions":
        assert gold.derivation == (0, 1, 1, 3, 2, 0)
    if traces[kind].derivations == "none":
        assert gold.joint is None
        return
    assert best is not None
    assert (gold.joint or 0) <= (best.joint or 0) + 1e-5
    if kind in ("pushdown", "head", "window"):
        ids, attach = np.array([1, 3, 4, 5, 3, 2], np.int32), np.array(gold.derivation, np.int32)
        if kind == "window":  # its last token attaches to ROOT
            ids, attach = ids[:-1], np.array([*attach[:-2], 0], np.int32)
        row = GivenRow(ids, attach, np.array([-1, 0, 1, 2, 3, -1], np.int32)[: len(ids)])
        (score,) = Model.of(models[kind], NO_SEARCH).score_rows([row])
        assert score.joint is not None
        assert gold.joint == pytest.approx(score.joint / math.log(2))


def test_splits_are_those_of_the_states(
    models: dict[str, LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of TreeReg's definition, whose states are given."""
    h = [(2.0, 0.0), (1.0, 1.0), (0.0, 3.0), (1.0, 2.0), (3.0, 1.0)]
    states = torch.tensor([[(7.0, 7.0), *h]])
    monkeypatch.setattr(TransformerLM, "treereg_states", lambda model, batch: states)
    found = trace(models["treereg"], "a b c a b", attention=False)
    assert found.splits is not None
    assert [(each.first, each.past, each.split) for each in found.splits] == [
        *((0, 5, 4), (0, 4, 1), (1, 4, 3), (1, 3, 2))
    ]
    for each, scores in zip(
        found.splits,
        [(2, 3.535534, 4, 4.472136), (3, 2.828427, 2), (3.828427, 5), (split_score([(), *h], 2, 2, 3),)],
        strict=True,
    ):
        assert each.scores == pytest.approx(scores, rel=2e-6, abs=1e-6)
    assert found.best is not None
    assert re.sub(r"\(\w+ (\w)\)", r"\1", found.best.tree) == "(X (X a (X (X b c) a)) b)"
    assert [line.strip() for line in trace_lines(found)][-5:] == [
        "scores of splits; in brackets the highest of each node:",
        *("a 2.00 b 3.54 c 4.00 a [4.47] b", "a [3.00] b 2.83 c 2.00 a", "b 3.83 c [5.00] a"),
        f"b [{split_score([(), *h], 2, 2, 3):.2f}] c",
    ]


def test_splits_stand_beside_attachments(traces: dict[str, Trace]) -> None:
    """Of a model that learned from trees in both ways, whose best parse is that of its attachments."""
    both = loaded("both", tiny_model("transformer", attachment_head=True, treereg_layer=1, treereg_share=0.5))
    found = trace(both, TEXT, SearchOptions(beam=40), attention=False)
    assert found.best is not None
    assert found.best.joint is not None
    assert len(found.splits or ()) == 3
    assert {kind for kind, each in traces.items() if each.splits is not None} == {"treereg"}
    assert trace(both, "a", attention=False).splits == ()


@pytest.mark.parametrize("kind", WITH_ATTENTION)
def test_attention_is_that_of_the_best_hypothesis_at_each_position(
    kind: str, traces: dict[str, Trace], models: dict[str, LoadedModel]
) -> None:
    found, model = traces[kind].attention, models[kind].model
    assert found is not None
    length = len(found.positions)
    weights = unpack_weights(found.weights, found.layers, found.heads)
    assert weights.shape == (2, found.heads, length, length)
    assert (np.triu(weights, 1) == 0).all()
    assert weights.sum(3) == pytest.approx(1, abs=length / 255)
    assert set(found.without) == ({"depth"} if kind in ("pushdown", "window") else set())
    if traces[kind].derivations == "actions":
        assert found.derivation == "best"
        best = traces[kind].best
        assert best is not None
        assert best.derivation is not None
        closers = sum(str(each).endswith(")") for each in best.derivation)
        assert length == 1 + len(best.derivation) + (closers if kind == "tg" else 0)
        return
    assert found.derivation == ("incremental" if traces[kind].steps else "none")
    assert found.positions == (0, 1, 2, 3, 4)
    ids = np.array([1, 3, 4, 5, 3], np.int32)
    for i in range(5):
        history: Any = np.arange(i + 1, dtype=np.int32)
        if traces[kind].steps and i > 0:
            history = np.array(traces[kind].steps[i - 1].hypotheses[0].derivation, np.int32)
        if kind == "window" and i == 4:
            history[-1] = 0
        alone = attention_weights(model, model.pack([(ids[: i + 1], history)]), found.without)
        shown = {"": weights} | {
            name: unpack_weights(packed, found.layers, found.heads) for name, packed in found.without.items()
        }
        for name, values in shown.items():
            exact = (alone.without[name] if name else alone.weights)[0, :, :, i, : i + 1]
            assert values[:, :, i, : i + 1] == pytest.approx(exact.numpy(), abs=0.5 / 255 + 1e-6)


def test_a_model_that_reads_tokens_late_has_each_where_it_is_read() -> None:
    model = tiny_model("transformer", stack_layers="all", as_released=True)
    found = trace(loaded("late", model), "a b c").attention
    assert found is not None
    assert found.positions == (0, 0, 1, 2)


@pytest.mark.parametrize(("name", "composition"), EACH)
@pytest.mark.parametrize("text", ["a b c a b c", "b", "c a"])
def test_children_weigh_what_the_plain_formulation_gives_them(name: str, composition: str, text: str) -> None:
    model = rnng(name, composition, max_open=4)
    found = trace(loaded(name, model), text, SearchOptions(beam=40))
    if composition == "lstm":
        assert found.composed is None
        return
    assert trace(loaded(name, model), text, SearchOptions(beam=40), attention=False).composed is None
    assert found.best is not None
    assert found.best.derivation is not None
    assert found.composed is not None
    opens, closes = ([0] * len(text.split()) for _ in range(2))
    labels, position, path, wanted = [], 0, list[tuple[str, list[int]]](), []
    for each in found.best.derivation:
        if isinstance(each, int):
            path[-1][1].append(each)
            position = each
        elif each == ")":
            closes[position - 1] += 1
            label, children = path.pop()
            wanted.append((label, tuple(children), position))
            if path:
                path[-1][1].append(children[0])
        else:
            opens[position] += 1
            labels.append(["S", "NP"].index(each[1:]))
            path.append((each[1:], []))
    assert [(each.label, each.children, each.last) for each in found.composed] == wanted
    tree = Constituents(*(np.array(each, np.int32) for each in (labels, opens, closes)))
    tokens = ["abc".index(word) + 3 for word in text.split()]
    weighed: list[torch.Tensor] = []
    plain_logprobs(model, plain_actions(tokens, tree, model), weighed)
    for constituent, weights in zip(found.composed, weighed, strict=True):
        assert constituent.weights == pytest.approx(weights.tolist(), abs=1e-5)


def test_weights_are_packed_as_the_format_says() -> None:
    weights = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)).tril()
    packed = pack_weights(weights.numpy())
    data = base64.b64decode(packed)
    assert len(data) == 2 * 3 * 10
    layer, head, i, j = 1, 2, 3, 1
    assert data[(layer * 3 + head) * 10 + i * (i + 1) // 2 + j] == round(
        float(weights[layer, head, i, j]) * 255
    )
    assert unpack_weights(packed, 2, 3) == pytest.approx(weights.numpy(), abs=0.5 / 255)


def test_hugging_face_models_have_surprisals(tmp_path: Path) -> None:
    folder = save_gpt2(tmp_path / "gpt2", ["the dog barks"])
    found = trace(folder, "the dog barks .")
    assert (found.derivations, found.attention, found.steps) == ("none", None, ())
    assert found.tokens[0] == "<bos>"
    assert len(found.tokens) == len(found.surprisals) == len(found.word)
    (loss,) = transformers_losses(folder, ["the dog barks ."])
    assert sum(each for each in found.surprisals if each is not None) == pytest.approx(
        loss / math.log(2), rel=1e-5
    )
    with pytest.raises(PdtoolsError, match="it reads words alone: leave out the gold tree"):
        trace(folder, "the dog", gold=Tree.from_brackets("(S (X the) (X dog))"))


@pytest.mark.parametrize(
    ("sentence", "gold", "message"),
    [
        ("a zebra", None, "'a zebra': words unknown to the model: zebra"),
        (
            "a b",
            "(S (X b) (X a))",
            "the gold tree is not one of this sentence: its words are 'b a', not 'a b'",
        ),
        ("a b", "(S (X zebra) (X a))", "the gold tree cannot be used: words outside the vocabulary"),
    ],
)
def test_what_does_not_fit_is_refused(
    sentence: str, gold: str | None, message: str, models: dict[str, LoadedModel]
) -> None:
    tree = None if gold is None else Tree.from_brackets(gold)
    with pytest.raises(PdtoolsError) as error:
        trace(models["pushdown"], sentence, gold=tree)
    assert str(error.value) == message
