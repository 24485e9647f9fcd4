"""Damaged folders of Hugging Face models: one line each, or the scores of the whole one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from toy_tokenizers import save_kind

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.search import SentenceScore, load_model

transformers = pytest.importorskip("transformers")

TEXT, WEIGHTS = "The dog that", "model.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_kind(tmp_path_factory.mktemp("whole") / "model", "words", positions=16)


def total(folder: Path) -> float:
    (score,) = load_model(folder).score([TEXT])
    assert isinstance(score, SentenceScore)
    return score.total


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


def refused(folder: Path) -> str:
    """The line that says why a folder cannot be loaded."""
    with pytest.raises(PdtoolsError) as caught:
        total(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", WEIGHTS])
def test_a_file_that_is_cut_or_something_else(damaged: Path, name: str) -> None:
    content = (damaged / name).read_bytes()
    cuts = [content[: len(content) * part // 4] for part in range(4)]
    for bad in [*cuts, content[:-3], content + content, bytes(range(256)), b"[]", b"null", b"3"]:
        (damaged / name).write_bytes(bad)
        refused(damaged)


@pytest.mark.parametrize(
    ("file", "changes", "part"),
    [
        (
            "config.json",
            {"auto_map": {"AutoConfig": "code.C", "AutoModelForMaskedLM": "code.M"}},
            "config.json",
        ),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["code.T", None]}}, "its tokenizer"),
    ],
)
def test_code_of_its_own_is_not_run(damaged: Path, file: str, changes: dict[str, Any], part: str) -> None:
    """GPT-BERT's folders have such code, and no model type that transformers knows."""
    (damaged / "code.py").write_text("raise SystemExit(3)\n")
    kept = json.loads((damaged / file).read_text())
    kept.pop("model_type", None)
    (damaged / file).write_text(json.dumps({**kept, **changes, "tokenizer_class": "T"}))
    assert refused(damaged) == (
        f"{damaged}: {part} needs Python code of the folder's own (auto_map), which is never run here:"
        " only architectures that come with transformers can be loaded"
    )


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", WEIGHTS])
def test_a_file_that_is_missing(damaged: Path, name: str) -> None:
    (damaged / name).unlink()
    refused(damaged)


@pytest.mark.parametrize("name", ["generation_config.json", "special_tokens_map.json"])
def test_a_file_that_tells_nothing_of_scores(damaged: Path, whole: Path, name: str) -> None:
    for bad in (b'{"bos', b"[]", None):
        (damaged / name).unlink() if bad is None else (damaged / name).write_bytes(bad)
        try:
            found = total(damaged)
        except PdtoolsError:
            refused(damaged)
        else:
            assert found == pytest.approx(total(whole))


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("vocab_size", [None, "x", 3.5, True, -1, 0]),
        ("n_positions", [None, [], "x", True, 8, 32]),
        ("n_embd", [None, {}, 8]),
        ("n_layer", [None, "x", 3.5, True, 1, 3]),
        ("n_head", [None, "x", 0, -1, 3]),
        ("layer_norm_epsilon", [None, [], "x"]),
        ("activation_function", [[], "x"]),
        ("model_type", ["x", [], 3]),
        ("dtype", [[], "x"]),
    ],
)
def test_settings_of_other_types_or_sizes(damaged: Path, key: str, values: list[Any]) -> None:
    check_values(damaged, "config.json", key, values)


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [
        ("tokenizer.json", "version", [None, "x", 3]),
        ("tokenizer.json", "model", [None, [], {}, "x", {"type": "BPE"}]),
        ("tokenizer.json", "added_tokens", [None, {}, "x", [3]]),
        ("tokenizer.json", "pre_tokenizer", [[], "x", {"type": "x"}]),
        ("tokenizer.json", "normalizer", [[], "x", {"type": "x"}]),
        ("tokenizer_config.json", "bos_token", [[], 3, {}]),
        ("tokenizer_config.json", "tokenizer_class", [[], 3]),
        ("tokenizer_config.json", "added_tokens_decoder", [None, [], "x", 3]),
        ("tokenizer_config.json", "model_max_length", [[], {}, "x"]),
    ],
)
def test_tokenizers_of_other_types(damaged: Path, name: str, key: str, values: list[Any]) -> None:
    check_values(damaged, name, key, values)


def check_values(folder: Path, name: str, key: str, values: list[Any]) -> None:
    content = json.loads((folder / name).read_text())
    for value in values:
        (folder / name).write_text(json.dumps({**content, key: value}))
        refused(folder)


def test_weights_of_other_shapes(damaged: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(damaged / WEIGHTS)
    for name in ("transformer.wte.weight", "transformer.h.0.attn.c_attn.weight", "transformer.ln_f.bias"):
        for bad in (weights[name][1:], weights[name][..., 1:], weights[name][None]):
            save_file({**weights, name: bad.contiguous()}, damaged / WEIGHTS, {"format": "pt"})
            refused(damaged)
        save_file({key: value for key, value in weights.items() if key != name}, damaged / WEIGHTS)
        refused(damaged)


def test_a_tokenizer_of_another_model(damaged: Path) -> None:
    """It has tokens that the model has no embedding of."""
    file = damaged / "tokenizer.json"
    content = json.loads(file.read_text())
    vocab = content["model"]["vocab"]
    vocab["that"] = len(vocab) + 4
    file.write_text(json.dumps(content))
    assert "token" in refused(damaged)


def test_a_folder_of_a_newer_transformers(damaged: Path) -> None:
    config = json.loads((damaged / "config.json").read_text())
    (damaged / "config.json").write_text(json.dumps({**config, "transformers_version": "99.1.0"}))
    total(damaged)  # what can be read is
    tokenizer = json.loads((damaged / "tokenizer.json").read_text())
    (damaged / "tokenizer.json").write_text(json.dumps({**tokenizer, "decoder": {"type": "NewOne"}}))
    said = refused(damaged)
    assert "saved by transformers 99.1.0, newer than the installed" in said
    assert "not a causal language model" not in said


def test_versions_of_transformers_are_numbers(damaged: Path) -> None:
    """Of four digits a number is larger, though its first digit is smaller."""
    major, minor = transformers.__version__.split(".")[:2]
    config, tokenizer = (
        json.loads((damaged / f"{name}.json").read_text()) for name in ("config", "tokenizer")
    )
    (damaged / "tokenizer.json").write_text(json.dumps({**tokenizer, "decoder": {"type": "NewOne"}}))
    for saved, is_newer in ((f"{major}.{minor}.99", False), (f"{major}.1{int(minor):03}.0", True)):
        (damaged / "config.json").write_text(json.dumps({**config, "transformers_version": saved}))
        assert (f"saved by transformers {saved}, newer than the installed" in refused(damaged)) == is_newer


@pytest.mark.skipif(int(transformers.__version__.split(".")[0]) > 4, reason="it reads them")
def test_rotary_positions_that_would_be_read_otherwise(damaged: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(damaged)
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=32, **shape)
    transformers.LlamaForCausalLM(config).save_pretrained(damaged)
    before = total(damaged)
    written = json.loads((damaged / "config.json").read_text())
    written["rope_parameters"] = {"rope_theta": written.pop("rope_theta"), "rope_type": "default"}
    (damaged / "config.json").write_text(json.dumps(written))
    assert total(damaged) == before
    (damaged / "config.json").write_text(json.dumps({**written, "transformers_version": "5.24.0"}))
    assert "rope_parameters" in refused(damaged)


def test_no_bar_of_transformers(whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(whole)
    folder = Path(shutil.copytree(whole, tmp_path / "model"))
    model.save_pretrained(folder, max_shard_size="4KB")
    (folder / WEIGHTS).unlink()
    capfd.readouterr()
    assert run(["surprisal", "--text", TEXT, "--model", str(folder), "-q"]) == 0
    assert capfd.readouterr().err == ""
    assert transformers.utils.logging.is_progress_bar_enabled()


@pytest.mark.parametrize("name", ["tokenizer.json", WEIGHTS])
def test_commands(damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (damaged / name).write_bytes((damaged / name).read_bytes()[:-9])
    (tmp_path / "pairs.tsv").write_text("sentence_good\tsentence_bad\nThe dog\tdog The\n")
    (tmp_path / "text.txt").write_text("The dog\n")
    (tmp_path / "suite.json").write_text(json.dumps(SUITE))
    for command in ("surprisal --text x", "eval-ppl text.txt", "eval-blimp pairs.tsv", "eval-sg suite.json"):
        first, *rest = [str(tmp_path / word) if "." in word else word for word in command.split()]
        assert run([first, *rest, "--model", str(damaged), "-q", "-o", str(tmp_path / "out")]) == 1
        assert capsys.readouterr().err.count("\n") == 1
        assert not (tmp_path / "out").exists()


CONDITION = {"condition_name": "x", "regions": [{"region_number": 1, "content": "The dog"}]}
SUITE = {
    "meta": {"name": "s", "metric": "sum"},
    "predictions": [{"type": "formula", "formula": "(1;%x%) > 0"}],
    "items": [{"item_number": 1, "conditions": [CONDITION]}],
}
