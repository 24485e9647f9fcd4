"""GPT-2 and RoBERTa, made here with random weights: ours gives the logits that transformers gives."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pdtools.errors import InputError, PdtoolsError
from pdtools.models import Batch, TransformerLM, build_model, make_config
from pdtools.models.initial import initialize_from
from pdtools.models.transformer.pretrained import pretrained_options, read_pretrained

transformers = pytest.importorskip("transformers")

VOCAB = 40
GPT2 = {
    "vocab_size": VOCAB,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 24,
    "n_inner": 20,
    "bos_token_id": 39,
    "eos_token_id": 39,
    "layer_norm_epsilon": 1e-3,
}
ROBERTA = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 26,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-3,
}


def saved(kind: str, folder: Path, **changes: Any) -> Any:
    """A small model with weights large enough to matter, saved as transformers does."""
    torch.manual_seed(0)
    if kind == "gpt2":
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**GPT2, **changes}))
    else:
        model = transformers.RobertaForMaskedLM(transformers.RobertaConfig(**{**ROBERTA, **changes}))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder, safe_serialization=True)
    return model.eval()


def loaded(folder: Path, name: str = "transformer", **options: Any) -> TransformerLM:
    """Ours with its weights; padding, ROOT and end-of-sentence are tokens beyond theirs."""
    pretrained = read_pretrained(folder)
    ids = {"vocab_size": VOCAB + 3, "pad_id": VOCAB, "root_id": VOCAB + 1, "eos_id": VOCAB + 2}
    model = build_model(name, make_config(name, {**pretrained.options, **ids, **options}))
    assert isinstance(model, TransformerLM)
    initialize_from(model, pretrained, folder)
    return model.eval()


def our_logprobs(model: TransformerLM, tokens: torch.Tensor) -> torch.Tensor:
    """log p of every token of their vocabulary at every position but the first, (B, N - 1, V)."""
    batch = Batch(tokens, torch.zeros_like(tokens), torch.full((len(tokens),), tokens.shape[1]))
    every = [
        model.forward_parts(dataclasses.replace(batch, targets=torch.full_like(tokens, v))).token_logprobs
        for v in range(VOCAB)
    ]
    return torch.stack(every, -1)[:, 1:]


@torch.no_grad()
@pytest.mark.parametrize("kind", ["gpt2", "roberta"])
def test_logits_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    theirs = saved(kind, tmp_path / "hf")
    first = 39 if kind == "gpt2" else 0
    tokens = torch.randint(3, 39, (3, 12), generator=torch.Generator().manual_seed(1))
    ours = tokens.clone()
    tokens[:, 0], ours[:, 0] = first, VOCAB + 1  # our ROOT is their first token
    logits = theirs(tokens).logits
    logits = logits[:, :-1] if kind == "gpt2" else logits[:, 1:]
    # Of tokens that only ours has, the probability goes: differences of logits are the same.
    wanted = (logits - logits[..., :1]).log_softmax(-1)
    for variant in ({"stack_layers": "none"}, {"stack_layers": "all"}):
        model = loaded(tmp_path / "hf", **variant)
        for block in model.blocks:
            if block.stack is not None:  # all that differs is what the stack adds
                block.stack.forward = lambda x, cache=None: torch.zeros_like(x)
        torch.testing.assert_close(our_logprobs(model, ours).log_softmax(-1), wanted, rtol=2e-6, atol=1e-4)
    with_stack = our_logprobs(loaded(tmp_path / "hf", stack_layers="all"), ours).log_softmax(-1)
    assert not torch.allclose(with_stack, wanted, atol=0.01)


@pytest.mark.parametrize("kind", ["gpt2", "roberta"])
def test_each_option_is_the_one_of_the_model(kind: str, tmp_path: Path) -> None:
    """Also those that make no difference to what a trained model gives."""
    changes: dict[str, Any] = {"embd_pdrop": 0.2, "attn_pdrop": 0.3, "resid_pdrop": 0.4}
    if kind == "roberta":
        changes = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3}
    saved(kind, tmp_path, **changes)
    options = pretrained_options(tmp_path)
    found = [options[f"{place}_dropout"] for place in ("input", "attention", "output")]
    assert found == [0.2, 0.3, 0.4 if kind == "gpt2" else 0.2]
    of_weights = ("layers", "d_model", "heads", "d_ff", "max_length", "norm_eps")
    assert [options[name] for name in of_weights] == [2, 16, 4, 20, 24, 1e-3]


@torch.no_grad()
def test_new_tokens_take_no_probability_from_those_that_are_known(tmp_path: Path) -> None:
    """Where scores are all far below 0, as GPT-2's are, its own softmax does not see it; ours must not."""
    theirs = saved("gpt2", tmp_path / "hf")
    theirs.transformer.ln_f.bias[0] = 10
    theirs.transformer.wte.weight[:, 0] = -4
    theirs.transformer.wte.weight[39, 0] = -5  # the end of a text is improbable
    theirs.save_pretrained(tmp_path / "hf", safe_serialization=True)
    tokens = torch.randint(3, 39, (3, 12), generator=torch.Generator().manual_seed(1))
    ours = tokens.clone()
    tokens[:, 0], ours[:, 0] = 39, VOCAB + 1
    logits = theirs(tokens).logits[:, :-1]
    assert logits.max() < -20
    found = our_logprobs(loaded(tmp_path / "hf", stack_layers="none"), ours)
    torch.testing.assert_close(found, logits.log_softmax(-1), rtol=0, atol=0.01)


@pytest.mark.parametrize("kind", ["gpt2", "roberta"])
def test_new_tokens_start_as_the_beginning_and_the_end_of_a_text(kind: str, tmp_path: Path) -> None:
    """ROOT as the first, the others as the second; in each table of tokens."""
    saved(kind, tmp_path, bos_token_id=37, eos_token_id=38)
    model, theirs = loaded(tmp_path), read_pretrained(tmp_path).weights
    wanted = [*range(VOCAB), 38, 37, 38]
    for name in theirs.keys() & {"embedding.weight", "output.weight", "output_bias"}:
        assert torch.equal(model.state_dict()[name], theirs[name][wanted])


def test_a_pointer_of_git_lfs_is_named(tmp_path: Path) -> None:
    saved("gpt2", tmp_path)
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\nsize 12345\n")
    with pytest.raises(PdtoolsError, match=r"model\.safetensors: a Git LFS pointer, not the file itself"):
        read_pretrained(tmp_path)


def test_weights_in_several_files(tmp_path: Path) -> None:
    theirs = saved("gpt2", tmp_path / "one")
    theirs.save_pretrained(tmp_path / "many", safe_serialization=True, max_shard_size="4KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    one, many = (read_pretrained(tmp_path / name).weights for name in ("one", "many"))
    assert one.keys() == many.keys()
    assert all(torch.equal(one[name], many[name]) for name in one)
    index = tmp_path / "many" / "model.safetensors.index.json"
    next(iter((tmp_path / "many").glob("*.safetensors"))).unlink()
    with pytest.raises(InputError, match="no such file"):
        read_pretrained(tmp_path / "many")
    index.write_text("[]")
    with pytest.raises(InputError, match="no weight_map"):
        read_pretrained(tmp_path / "many")
    theirs.save_pretrained(tmp_path / "many", safe_serialization=True)  # leaves the index
    assert index.exists()
    assert read_pretrained(tmp_path / "many").weights.keys() == one.keys()


def test_a_pushdown_model_takes_them_too(tmp_path: Path) -> None:
    saved("gpt2", tmp_path / "hf")
    model = loaded(tmp_path / "hf", "pushdown", depths=4, stack_layers="last 1")
    state = read_pretrained(tmp_path / "hf").weights
    assert torch.equal(model.blocks[1].attention.qkv.weight, state["blocks.1.attention.qkv.weight"])
    assert torch.equal(model.embedding.weight[VOCAB + 1], state["embedding.weight"][39])
    assert model.blocks[0].stack is None
    assert model.blocks[1].stack is not None


@torch.no_grad()
@pytest.mark.parametrize("kind", ["gpt2", "roberta"])
@pytest.mark.parametrize("name", ["transformer", "pushdown"])
def test_more_positions_leave_those_that_are_known_as_they_are(kind: str, name: str, tmp_path: Path) -> None:
    """RoBERTa's 26 rows are of 24 positions: two stand before them."""
    if (kind, name) == ("roberta", "pushdown"):
        pytest.skip("a masked model has no trees")
    saved(kind, tmp_path / "hf")
    short = loaded(tmp_path / "hf", name)
    torch.manual_seed(7)
    long = loaded(tmp_path / "hf", name, max_length=4000)
    torch.manual_seed(7)
    again = loaded(tmp_path / "hf", name, max_length=4000)
    assert short.max_length == 24
    assert long.max_length == 4000
    assert short.position_embedding is not None
    assert long.position_embedding is not None
    assert again.position_embedding is not None
    known, rows = short.position_embedding.weight, long.position_embedding.weight
    assert torch.equal(rows[:24], known)
    assert torch.equal(rows, again.position_embedding.weight)
    torch.testing.assert_close(rows[24:].mean(0), known.mean(0), rtol=0, atol=0.04)
    torch.testing.assert_close(rows[24:].std(0), known.std(0), rtol=0.1, atol=0)
    parts = {name: value for name, value in short.state_dict().items() if name != "position_embedding.weight"}
    long.load_state_dict(parts, strict=False)  # what the folder lacks is random in each
    tokens = torch.randint(3, 39, (3, 12), generator=torch.Generator().manual_seed(1))
    assert torch.equal(our_logprobs(short, tokens), our_logprobs(long, tokens))
    more = torch.randint(3, 39, (2, 40), generator=torch.Generator().manual_seed(2))
    assert our_logprobs(long, more).isfinite().all()


def test_an_untied_output_layer(tmp_path: Path) -> None:
    saved("gpt2", tmp_path / "hf", tie_word_embeddings=False)
    model = loaded(tmp_path / "hf")
    assert model.output is not None
    assert torch.equal(model.output.weight[:VOCAB], read_pretrained(tmp_path / "hf").weights["output.weight"])


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    saved("gpt2", tmp_path / "hf")
    with pytest.raises(InputError, match="is \\(20, 16\\), but the configuration asks for"):
        loaded(tmp_path / "hf", d_ff=32)
    with pytest.raises(InputError, match="d_model of the pretrained weights is 16"):
        loaded(tmp_path / "hf", d_model=32)
    with pytest.raises(InputError, match="first at"):
        loaded(tmp_path / "hf", layers=3)
    with pytest.raises(InputError, match="has 40 tokens, the tokenizer 30"):
        loaded(tmp_path / "hf", vocab_size=30, pad_id=0, root_id=1, eos_id=2)
    saved("roberta", tmp_path / "roberta")
    roberta = json.loads((tmp_path / "roberta/config.json").read_text())
    (tmp_path / "roberta/config.json").write_text(json.dumps({**roberta, "num_hidden_layers": 1}))
    with pytest.raises(InputError, match="layers: 1 here, but 2 in the weights"):
        read_pretrained(tmp_path / "roberta")
    config_file = tmp_path / "hf/config.json"
    config = json.loads(config_file.read_text())
    for changes, message in (
        ({"model_type": "bert"}, "not gpt2 or roberta"),
        ({"activation_function": "swish"}, "activation 'swish'"),
        ({"bos_token_id": 40}, "bos_token_id 40 is none of the 40 tokens"),
        ({"scale_attn_by_inverse_layer_idx": True}, "none of ours"),
        ({"scale_attn_weights": False}, "none of ours"),
        ({"bos_token_id": None}, "bos_token_id is None, not a whole number"),
        ({"n_layer": "2"}, "layers is '2', not a whole number"),
        ({"n_embd": None}, "d_model is None, not a whole number"),
        ({"embd_pdrop": None}, "not a gpt2 model that pdtools can build"),
        ({"activation_function": ["a"]}, "not a gpt2 model that pdtools can build"),
        ({"vocab_size": 99}, "the table of tokens is"),
        ({"n_layer": 1}, "layers: 1 here, but 2 in the weights"),
    ):
        config_file.write_text(json.dumps({**config, **changes}))
        with pytest.raises(PdtoolsError, match=message):
            read_pretrained(tmp_path / "hf")
    config_file.write_text(json.dumps(config))
    (tmp_path / "hf/model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match="damaged weights"):
        read_pretrained(tmp_path / "hf")
    (tmp_path / "hf/model.safetensors").unlink()
    with pytest.raises(InputError, match="safe_serialization"):
        read_pretrained(tmp_path / "hf")


def test_a_scaffold_begins_at_random(tmp_path: Path) -> None:
    theirs = saved("gpt2", tmp_path)
    ours = loaded(tmp_path, "sclm", runs=["", "(S"])
    assert torch.equal(ours.embedding.weight[:VOCAB], theirs.get_input_embeddings().weight)
