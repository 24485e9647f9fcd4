"""Which Hugging Face models count as causal: by their configuration, and by what they do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_gpt2 import save_gpt2

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.search import SentenceScore, load_model
from pdtools.search.families.huggingface import is_masked

transformers = pytest.importorskip("transformers")

DATA = Path(__file__).parents[3] / "data"
TEXT = "The dog barks."
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 40,
}
ENCODER_DECODERS = {
    "t5": ("T5Config", "T5ForConditionalGeneration", {"d_model": 16, "d_ff": 20, "d_kv": 8, "num_heads": 2}),
    "bart": (
        "BartConfig",
        "BartForConditionalGeneration",
        {
            "d_model": 16,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
        },
    ),
}
CAUSAL = {
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", SMALL),
    "llama": ("LlamaConfig", "LlamaForCausalLM", SMALL),
    "opt": (
        "OPTConfig",
        "OPTForCausalLM",
        {**SMALL, "ffn_dim": 20, "word_embed_proj_dim": 16, "max_position_embeddings": 40},
    ),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", {**SMALL, "num_key_value_heads": 2}),
    "bert as a decoder": ("BertConfig", "BertLMHeadModel", {**SMALL, "is_decoder": True}),
}


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_gpt2(tmp_path_factory.mktemp("hf") / "gpt2", [TEXT])


def saved(gpt2: Path, folder: Path, config: str, model: str, options: dict[str, Any]) -> Path:
    """A small model of an architecture, with GPT-2's tokenizer and random weights."""
    shutil.copytree(gpt2, folder)
    (folder / "model.safetensors").unlink()
    torch.manual_seed(0)
    made = getattr(transformers, model)(getattr(transformers, config)(**options, vocab_size=300))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.3)
    made.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", ENCODER_DECODERS)
def test_encoder_decoders_are_refused_in_one_line(
    name: str, gpt2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = saved(gpt2, tmp_path / "model", *ENCODER_DECODERS[name])
    assert run(["surprisal", "--text", TEXT, "--model", str(folder), "--device", "cpu"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert f"{folder}: {name} is an encoder-decoder" in err
    with pytest.raises(PdtoolsError, match="no parses"):
        load_model(folder, parses=True)


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("dtype", ["float32", "bf16"])
def test_causal_models_are_scored(name: str, dtype: Any, gpt2: Path, tmp_path: Path) -> None:
    folder = saved(gpt2, tmp_path / "model", *CAUSAL[name])
    (score,) = load_model(folder, dtype=dtype).score([TEXT])
    assert isinstance(score, SentenceScore)


def looking_ahead(forward: Any, first: int, last: int) -> Any:
    """A forward pass in which the positions from ``first`` to ``last`` also see the token after them."""

    def changed(self: Any, input_ids: Any, **rest: Any) -> Any:
        result = forward(self, input_ids=input_ids, **rest)
        end = min(last, input_ids.shape[1] - 1)
        if first < end:
            seen = input_ids[:, first + 1 : end + 1]
            one = torch.ones(*seen.shape, 1, dtype=result.logits.dtype)
            result.logits[:, first:end].scatter_add_(2, seen[..., None], one)
        return result

    return changed


@pytest.mark.parametrize("dtype", ["float32", "bf16"])
@pytest.mark.parametrize(("first", "last"), [(0, 100), (0, 2), (6, 100)])
def test_a_look_ahead_that_no_configuration_tells_of_is_found(
    first: int, last: int, dtype: Any, gpt2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_model(gpt2, dtype=dtype)
    model = transformers.GPT2LMHeadModel
    monkeypatch.setattr(model, "forward", looking_ahead(model.forward, first, last))
    with pytest.raises(PdtoolsError, match=r"gpt2 .*is not causal.*depend"):
        load_model(gpt2, dtype=dtype)


def test_a_model_without_a_mask_is_found(gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As models that were made bidirectional for embeddings are: nothing but the mask differs."""
    folder = saved(gpt2, tmp_path / "model", *CAUSAL["llama"])
    from transformers.models.llama import modeling_llama

    load_model(folder)
    monkeypatch.setattr(modeling_llama, "create_causal_mask", lambda **_: torch.zeros(1, 1, 1, 1))
    with pytest.raises(PdtoolsError, match="is not causal"):
        load_model(folder)


def test_a_permuted_model_is_found(gpt2: Path, tmp_path: Path) -> None:
    """XLNet's class is one of those for causal models, but by itself it reads both sides."""
    options = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 20}
    folder = saved(gpt2, tmp_path / "model", "XLNetConfig", "XLNetLMHeadModel", options)
    with pytest.raises(PdtoolsError, match="xlnet is not causal"):
        load_model(folder)


def without(folder: Path, *names: str) -> Path:
    """The same folder without some of its weights."""
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    weights = {name: value for name, value in load_file(file).items() if name not in names}
    save_file(weights, file, metadata={"format": "pt"})
    return folder


def test_weights_that_the_folder_lacks_are_never_made_up(
    gpt2: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = saved(
        gpt2, tmp_path / "tied", "GPT2Config", "GPT2LMHeadModel", {"n_embd": 16, "n_head": 2, "n_layer": 2}
    )
    load_model(folder)  # its output layer is its embedding, and is in no file
    without(folder, "transformer.h.1.mlp.c_fc.bias", "transformer.ln_f.weight")
    capfd.readouterr()
    assert run(["surprisal", __file__, "--model", str(folder), "--device", "cpu"]) == 1
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert "it lacks 2 of the model's weights" in error
    assert ": transformer.h.1.mlp.c_fc.bias, transformer.ln_f.weight (" in error


def test_an_output_layer_of_its_own_may_not_be_missing(gpt2: Path, tmp_path: Path) -> None:
    config, model, options = CAUSAL["llama"]
    folder = saved(gpt2, tmp_path / "model", config, model, {**options, "tie_word_embeddings": False})
    load_model(folder)
    with pytest.raises(PdtoolsError, match="it lacks 1 of .*: lm_head.weight "):
        load_model(without(folder, "lm_head.weight"))


def test_a_folder_of_the_model_without_its_head_is_complete_if_that_is_tied(
    gpt2: Path, tmp_path: Path
) -> None:
    whole = transformers.AutoModelForCausalLM.from_pretrained(gpt2)
    shutil.copytree(gpt2, tmp_path / "base")
    whole.transformer.save_pretrained(tmp_path / "base")
    (score,), (same,) = (load_model(folder).score([TEXT]) for folder in (gpt2, tmp_path / "base"))
    assert isinstance(score, SentenceScore)
    assert isinstance(same, SentenceScore)
    assert score.total == same.total


@pytest.mark.parametrize(
    ("config", "setting"),
    [("BertConfig", "is_decoder"), ("XLMConfig", "causal"), ("FlaubertConfig", "causal")],
)
def test_a_masked_architecture_says_in_its_own_word_that_it_is_causal(config: str, setting: str) -> None:
    import transformers

    kind = getattr(transformers, config)
    assert not is_masked("model", kind(**{setting: True}))
    assert is_masked("model", kind(**{setting: False}))
