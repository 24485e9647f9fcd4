"""Recurrent language models: sizes, padding, objectives, reading token by token, streams, checkpoints."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from test_stacks import MODELS, batch_of, gradients, model_of

from pdtools.errors import PdtoolsError
from pdtools.models import (
    RecurrentConfig,
    RecurrentLM,
    build_model,
    collate,
    count_parameters,
    load_checkpoint,
    make_config,
    save_checkpoint,
)
from pdtools.tokenization import train_word_tokenizer
from pdtools.training import read_recipe

PTB = {"vocab_size": 10_000, "pad_id": 0, "root_id": 1, "eos_id": 2}


@pytest.mark.parametrize(
    ("parameters", "hidden", "options"),
    [
        (5_656_336, 256, {"stack": "none"}),
        (5_704_576, 258, {"stack": "none"}),
        (5_922_448, 267, {"stack": "none"}),
        (5_684_828, 247, {"stack": "superposition", "stack_push": "hidden"}),
        (5_685_289, 256, {"stack": "superposition", "stack_vector": 22}),
    ],
)
def test_sizes_are_those_of_the_paper(parameters: int, hidden: int, options: dict[str, Any]) -> None:
    config = RecurrentConfig(**PTB, hidden_size=hidden, embedding_size=hidden, **options)
    with torch.device("meta"):
        assert count_parameters(RecurrentLM(config)) == parameters


@pytest.mark.parametrize(
    ("states", "symbols", "normalized", "renormalizing"),
    [
        (1, 2, 5_660_954, 5_660_954),
        (1, 3, 5_664_805, 5_664_805),
        (1, 4, 5_669_684, 5_669_684),
        (1, 5, 5_675_591, 5_675_591),
        (1, 6, 5_682_526, 5_682_526),
        (1, 7, 5_690_489, 5_690_489),
        (1, 11, 5_732_621, 5_732_621),
        (2, 2, 5_668_664, 5_670_712),
        (2, 3, 5_680_996, 5_684_068),
        (2, 4, 5_697_440, 5_701_536),
        (2, 5, 5_717_996, 5_723_116),
        (3, 2, 5_681_514, 5_685_610),
        (3, 3, 5_707_981, 5_714_125),
        (3, 4, 5_743_700, 5_751_892),
    ],
)
def test_sizes_of_the_nondeterministic_models(
    states: int, symbols: int, normalized: int, renormalizing: int
) -> None:
    """Table 3: NS and RNS by |Q| and |Γ|."""
    sizes = {"hidden_size": 256, "embedding_size": 256, "stack_states": states, "stack_symbols": symbols}
    for reads_states, parameters in ((False, normalized), (True, renormalizing)):
        config = RecurrentConfig(**PTB, **sizes, stack_states_in_reading=reads_states)
        with torch.device("meta"):
            assert count_parameters(RecurrentLM(config)) == parameters


def test_the_controller_is_torch_s_lstm() -> None:
    model = model_of(stack="none", embedding_size=4)
    lstm = torch.nn.LSTM(4, 5, batch_first=True).double()
    pairs = {"weight_ih": "input_weight", "weight_hh": "hidden_weight"}
    pairs |= {"bias_ih": "input_bias", "bias_hh": "hidden_bias"}
    with torch.no_grad():
        for theirs, ours in pairs.items():
            i, f, o, g = getattr(model, ours).chunk(4)
            getattr(lstm, f"{theirs}_l0").copy_(torch.cat([i, f, g, o]))
    tokens = batch_of(9, 9).tokens
    expected, _ = lstm(model.embedding(tokens[:, 1:]))
    hidden = model.hidden_states(tokens)
    assert not hidden[:, 0].any()
    torch.testing.assert_close(hidden[:, 1:], expected)


@pytest.mark.parametrize("first_input", ["none", "root", "eos"])
@pytest.mark.parametrize("name", MODELS)
def test_token_by_token_is_the_same_as_a_whole_row(name: str, first_input: str) -> None:
    model = model_of(**MODELS[name], first_input=first_input)
    batch = batch_of(9, 9, 9)
    first = {"none": [], "root": [PTB["root_id"]], "eos": [PTB["eos_id"]]}[first_input]
    assert model._reader().fed(batch.tokens).tolist() == [[*first, *row[1:]] for row in batch.tokens.tolist()]
    parts = model.forward_parts(batch)
    state = model.start(1, 11)
    model.advance(state, batch.tokens[:1, 0], torch.zeros(1, 1, dtype=torch.int16))
    state.select(torch.tensor([0, 0, 0]))
    order = torch.tensor([0, 1, 2])
    for k in range(1, 11):
        logprobs = model.next_token_logprobs(state)
        torch.testing.assert_close(logprobs.exp().sum(1), torch.ones(3), atol=1e-5, rtol=2e-6)
        chosen = logprobs.gather(1, batch.tokens[order, k][:, None])[:, 0]
        expected = parts.token_logprobs[order, k].float()
        torch.testing.assert_close(chosen, expected)
        following = model.following_logprobs(
            collate([(row[:k].tolist(), list(range(k))) for row in batch.tokens[order]], 0)
        )
        torch.testing.assert_close(following, logprobs)
        if k < 10:
            if k % 3 == 0:
                swap = torch.tensor([2, 0, 1])
                state.select(swap)
                order = order[swap]
            model.advance(state, batch.tokens[order, k], torch.zeros(3, k + 1, dtype=torch.int16))
    assert state.nbytes > 0
    model.advance(state, batch.tokens[order, 10], torch.zeros(3, 11, dtype=torch.int16))
    with pytest.raises(PdtoolsError, match="room for 11 tokens"):
        model.advance(state, batch.tokens[order, 10], torch.zeros(3, 12, dtype=torch.int16))


def test_the_first_token_is_predicted_from_nothing_read() -> None:
    model = model_of()
    parts = model.forward_parts(batch_of(3, 5))
    first = model.output.bias.log_softmax(0)
    torch.testing.assert_close(parts.token_logprobs[:, 1], first[batch_of(3, 5).tokens[:, 1]])
    assert not parts.token_logprobs[:, 0].any()


@pytest.mark.parametrize("name", MODELS)
def test_models_of_single_precision_are_those_of_double(name: str) -> None:
    """As they are trained; the nondeterministic stack computes in double precision in both."""
    precise = model_of(**MODELS[name])
    with torch.no_grad():
        for parameter in precise.parameters():
            parameter.copy_(0.3 * parameter)
    single = copy.deepcopy(precise).float()
    batch = batch_of(40, 25)
    losses = [model.loss(batch).sums["token_nll"] for model in (precise, single)]
    assert losses[1].dtype == torch.float32
    torch.testing.assert_close(losses[1].double(), losses[0], rtol=1e-5, atol=0)
    expected, found = (gradients(model, loss) for model, loss in zip((precise, single), losses, strict=True))
    for key, value in expected.items():
        torch.testing.assert_close(
            found[key].double(), value, rtol=1e-3, atol=1e-4 * value.abs().max().item()
        )


@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_nothing(name: str) -> None:
    model = model_of(**MODELS[name])
    together = batch_of(3, 12)
    alone = collate([(together.tokens[0, :5].tolist(), list(range(5)))], 0)
    parts = model.forward_parts(together)
    torch.testing.assert_close(parts.token_logprobs[:1, :5], model.forward_parts(alone).token_logprobs)
    assert not parts.token_logprobs[0, 5:].any()
    only_first = torch.zeros_like(together.tokens, dtype=torch.bool)
    only_first[0, 1:5] = True
    first_in_both = gradients(
        model, model.loss(dataclasses.replace(together, scored=only_first)).sums["token_nll"]
    )
    for key, value in gradients(model, model.loss(alone).sums["token_nll"]).items():
        torch.testing.assert_close(first_in_both[key], value)


def test_rows_are_read_in_parts_where_stacks_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of()
    batch = batch_of(6, 5, 4, 3, 2)
    with torch.no_grad():
        whole = model.forward_parts(batch).token_logprobs
        monkeypatch.setattr("pdtools.models.recurrent.model.STACK_BYTES", 2 * model.stack.working_bytes(6))
        torch.testing.assert_close(model.forward_parts(batch).token_logprobs, whole)


def test_a_masked_model_predicts_at_the_same_position() -> None:
    model = model_of(controller="rnn", stack="superposition", stack_vector=2, objective="masked")
    batch = batch_of(4, 6)
    targets = torch.full_like(batch.tokens, 3)
    scored = batch.tokens > 4
    batch = dataclasses.replace(batch, targets=targets, scored=scored)
    parts = model.forward_parts(batch)
    expected = model.output(model.hidden_states(batch.tokens)).log_softmax(-1)[:, :, 3]
    torch.testing.assert_close(parts.token_logprobs, expected * scored)
    assert int(model.loss(batch).counts["tokens"]) == int(scored.sum())
    changed = batch.tokens.clone()
    changed[:, 5:] = 4
    later = model.forward_parts(dataclasses.replace(batch, tokens=changed)).token_logprobs
    torch.testing.assert_close(later[:, :5], parts.token_logprobs[:, :5])
    with pytest.raises(PdtoolsError, match="masked language model"):
        model.start(1, 5)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "JM simple"])
def test_a_stream_in_chunks_is_the_whole_stream(name: str) -> None:
    model = model_of(**MODELS[name])
    tokens = torch.randint(3, 7, (2, 21))
    whole, _ = model.stream_logprobs(tokens[:, :-1], tokens[:, 1:], None)
    found, carry = [], None
    for first in range(0, 20, 7):
        part = tokens[:, first : first + 8]
        logprobs, carry = model.stream_logprobs(part[:, :-1], part[:, 1:], carry)
        found.append(logprobs)
    torch.testing.assert_close(torch.cat(found, 1), whole)
    rows = collate([([1, *row.tolist()], list(range(22))) for row in tokens], 0)
    torch.testing.assert_close(whole, model.forward_parts(rows).token_logprobs[:, 2:])


def test_gradients_of_a_chunk_end_at_its_beginning() -> None:
    model = model_of(stack_window=3)
    tokens = torch.randint(3, 7, (2, 9))
    _, carry = model.stream_logprobs(tokens[:, :4], tokens[:, 1:5], None)
    logprobs, after = model.stream_logprobs(tokens[:, 4:-1], tokens[:, 5:], carry)
    assert not after.hidden.requires_grad
    found = gradients(model, -logprobs.sum())

    def loss() -> torch.Tensor:
        return -model.stream_logprobs(tokens[:, 4:-1], tokens[:, 5:], carry)[0].sum()

    with torch.no_grad():
        weight, epsilon = model.actions.weight, 1e-6
        weight[0, 0] += epsilon
        higher = loss()
        weight[0, 0] -= 2 * epsilon
        lower = loss()
        weight[0, 0] += epsilon
    expected = (higher - lower) / (2 * epsilon)
    torch.testing.assert_close(found["actions.weight"][0, 0], expected, rtol=1e-5, atol=1e-7)


def test_initial_weights() -> None:
    model = build_model("rnn", make_config("rnn", {**PTB, "hidden_size": 30}))
    for name, parameter in model.named_parameters():
        if name == "output.bias":
            assert not parameter.any()
        elif name == "output.weight":
            assert parameter.detach().abs().max().item() == pytest.approx((6 / 10_030) ** 0.5, rel=1e-3)
        else:
            assert parameter.detach().abs().max().item() == pytest.approx(0.1, rel=0.1)
    narrow = {"initial_output": "uniform", "initial_range": 0.05, "embedding_size": 30, "hidden_size": 30}
    for parameter in build_model("rnn", make_config("rnn", {**PTB, **narrow})).parameters():
        assert parameter.detach().abs().max().item() == pytest.approx(0.05, rel=0.1)


def test_initial_weights_by_fan_in() -> None:
    """Haiku's, of the baselines of the stack-attention paper: all weights, biases 0."""
    given = {"initialization": "fan-in", "hidden_size": 300, "controller": "rnn", "stack": "superposition"}
    torch.manual_seed(0)
    model = RecurrentLM(RecurrentConfig(**PTB, stack_vector=8, **given))
    inputs = PTB["vocab_size"] + model.stack.reading_size
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
            continue
        std = (inputs if name in ("input_weight", "reading_weight") else 300) ** -0.5
        assert float(parameter.detach().std()) == pytest.approx(0.88 * std, rel=0.05), name
        assert float(parameter.detach().abs().max()) <= 2.001 * std, name
    assert read_recipe("dcf-rnn").options["initialization"] == "fan-in"


@pytest.mark.parametrize(
    ("stack", "limits"),
    [
        # Numbers of rows that make one layer in the released code, and sqrt(6 / (inputs + outputs)) × gain.
        (
            {"stack": "stratification", "stack_vector": 30},
            [(2, (6 / 42) ** 0.5), (30, (6 / 70) ** 0.5 * 5 / 3)],
        ),
        ({"stack": "superposition", "stack_vector": 30}, [(3, (6 / 43) ** 0.5), (30, (6 / 70) ** 0.5)]),
        ({"stack": "superposition", "stack_push": "hidden"}, [(3, (6 / 43) ** 0.5)]),
    ],
)
def test_initial_actions_of_vector_stacks(stack: dict[str, Any], limits: list[tuple[int, float]]) -> None:
    torch.manual_seed(0)
    actions = RecurrentLM(RecurrentConfig(**PTB, hidden_size=40, **stack)).actions
    assert not actions.bias.any()
    parts = actions.weight.detach().split([rows for rows, _ in limits])
    for part, (_, limit) in zip(parts, limits, strict=True):
        assert 0.9 * limit < part.abs().max().item() <= limit
    uniform = RecurrentConfig(**PTB, **stack, initial_output="uniform")
    actions = RecurrentLM(uniform).actions
    assert actions.bias.any()
    assert actions.weight.abs().max().item() <= 0.1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"stack": "heap"}, "stack must be one of none"),
        ({"hidden_size": 0}, "hidden_size must be at least 1"),
        ({"stack_window": -1}, "stack_window must be at least 0"),
        ({"eos_id": 10_000}, "below vocab_size"),
    ],
)
def test_impossible_settings(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PdtoolsError, match=reason):
        RecurrentConfig(**{**PTB, **options})


def test_a_checkpoint_gives_the_same_model(tmp_path: Path) -> None:
    tokenizer = train_word_tokenizer(["a", "b", "c"], text_style="ptb")
    config = make_config(
        "rnn",
        {key: getattr(tokenizer, key) for key in ("vocab_size", "pad_id", "root_id", "eos_id")},
    )
    model = build_model("rnn", config)
    save_checkpoint(tmp_path / "model", model, tokenizer, shards={})
    loaded = load_checkpoint(tmp_path / "model").model
    batch = collate([([tokenizer.root_id, 4, 5, tokenizer.eos_id], [0, 1, 2, 0])], tokenizer.pad_id)
    torch.testing.assert_close(loaded.loss(batch).sums["token_nll"], model.loss(batch).sums["token_nll"])


def test_gradients_of_a_pass_are_computed_once() -> None:
    loss = model_of().loss(batch_of(3)).sums["token_nll"]
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="only once per forward pass"):
        loss.backward()
