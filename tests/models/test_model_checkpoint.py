"""Checkpoints: what is read is what was written, and whatever is wrong is named."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from action_oracle import action_model
from model_oracle import small_model

from pdtools.errors import InputError, PdtoolsError
from pdtools.files.manifest import CHECKSUMS_FILE, MANIFEST
from pdtools.models import LanguageModel, TransformerLM, load_checkpoint, save_checkpoint
from pdtools.tokenization import Tokenizer, train_word_tokenizer

SHARDS = {"layout": "sentence", "factor": "right", "text_style": "ptb"}


@pytest.fixture
def tokenizer() -> Tokenizer:
    return train_word_tokenizer(["the", "dog", "the", "dogs", "barks", "bark"])


@pytest.fixture
def model(tokenizer: Tokenizer) -> TransformerLM:
    own = {"pushdown_layers": "last 1", "head_reads": "prefix", "depths": 5}
    return small_model("pushdown", vocab_size=tokenizer.vocab_size, **own)


@pytest.fixture
def folder(tmp_path: Path, model: LanguageModel, tokenizer: Tokenizer) -> Path:
    save_checkpoint(tmp_path / "run" / "best", model, tokenizer, shards=SHARDS)
    return tmp_path / "run" / "best"


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_round_trip_is_bitwise(folder: Path, model: LanguageModel, tokenizer: Tokenizer) -> None:
    for path in (folder, folder.parent):  # the checkpoint, and the run that it is the best of
        loaded = load_checkpoint(path)
        assert loaded.folder == folder
        assert loaded.model.config == model.config
        assert not loaded.model.training
        assert loaded.tokenizer.fingerprint == tokenizer.fingerprint
        assert loaded.config["shards"] == SHARDS
        weights, others = model.state_dict(), loaded.model.state_dict()
        assert weights.keys() == others.keys()
        assert all(torch.equal(weights[name], others[name]) for name in weights)


@pytest.mark.parametrize("name", ["transformer", "pushdown"])
def test_all_kinds_and_untied_weights(tmp_path: Path, tokenizer: Tokenizer, name: str) -> None:
    model = small_model(name, vocab_size=tokenizer.vocab_size, tie_embeddings=False, positions="learned")
    save_checkpoint(tmp_path / "model", model, tokenizer, shards=SHARDS)
    loaded = load_checkpoint(tmp_path / "model")
    assert loaded.config["model"] == name
    assert loaded.model.config == model.config


def test_the_same_model_gives_the_same_files(
    folder: Path, model: LanguageModel, tokenizer: Tokenizer
) -> None:
    other = folder.parent / "again"
    save_checkpoint(other, model, tokenizer, shards=SHARDS)
    for file in folder.iterdir():
        assert file.read_bytes() == (other / file.name).read_bytes()


def test_labels_are_kept_with_the_tokens(folder: Path, model: LanguageModel, tokenizer: Tokenizer) -> None:
    labelled = folder.parent / "labelled"
    save_checkpoint(labelled, model, tokenizer.with_labels(["S", "NP"]), shards=SHARDS)
    assert load_checkpoint(labelled).tokenizer.labels == ("S", "NP")


def test_existing_folders_are_kept_unless_told(
    folder: Path, model: LanguageModel, tokenizer: Tokenizer
) -> None:
    with pytest.raises(PdtoolsError, match="exists already"):
        save_checkpoint(folder, model, tokenizer, shards=SHARDS)
    save_checkpoint(folder, model, tokenizer, shards=SHARDS, overwrite=True)
    load_checkpoint(folder)


def test_what_is_no_checkpoint_is_named(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(PdtoolsError, match="no such folder"):
        load_checkpoint(tmp_path / "nowhere")
    with pytest.raises(PdtoolsError, match=r"not a checkpoint: no config\.json"):
        load_checkpoint(tmp_path)
    with pytest.raises(PdtoolsError, match="not a folder"):
        load_checkpoint(folder / "config.json")
    (folder / CHECKSUMS_FILE).unlink()  # a folder that someone else wrote
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(PdtoolsError, match="not a pdtools checkpoint"):
        load_checkpoint(folder)
    (folder / "config.json").write_text('{"model": ')
    with pytest.raises(PdtoolsError, match="not JSON"):
        load_checkpoint(folder)


def test_other_versions_models_and_settings_are_named(folder: Path) -> None:
    file = folder / "config.json"
    saved = json.loads(file.read_text())
    (folder / CHECKSUMS_FILE).unlink()
    for changes, message in (
        ({"format_version": "99"}, "format 99"),
        ({"model": "reservoir"}, "unknown model 'reservoir'"),
        ({"config": {**saved["config"], "wings": 2}}, "no setting 'wings'"),
        ({"config": "large"}, "config must be"),
        ({"config": {**saved["config"], "d_ff": 25}}, "do not fit"),
        ({"config": {**saved["config"], "vocab_size": 7}}, "vocabulary of 7"),
        ({"tokenizer": "0" * 64}, "not the one that the model was trained with"),
    ):
        edit(file, **{**saved, **changes})
        with pytest.raises(PdtoolsError, match=message):
            load_checkpoint(folder)


def test_tokens_that_are_others_in_the_tokenizer_are_named(folder: Path, tokenizer: Tokenizer) -> None:
    """For each kind of model; more tokens than the tokenizer has are allowed."""
    labelled = train_word_tokenizer(["a", "b"]).with_labels(["NP", "VP"])
    save_checkpoint(folder.parent / "tg", action_model("tg", "relative"), labelled, shards=SHARDS)
    wide = small_model("transformer", vocab_size=tokenizer.vocab_size + 3)
    save_checkpoint(folder.parent / "wide", wide, tokenizer, shards=SHARDS)
    load_checkpoint(folder.parent / "wide")
    for name, changes in (
        ("best", {"root_id": 2, "eos_id": 1}),
        ("best", {"eos_id": 4}),
        ("wide", {"pad_id": 7}),
        ("tg", {"root_id": 0, "pad_id": 1}),
        ("tg", {"n_labels": 3}),
    ):
        place = folder.parent / name
        (place / CHECKSUMS_FILE).unlink(missing_ok=True)
        saved = json.loads((place / "config.json").read_text())
        edit(place / "config.json", config={**saved["config"], **changes})
        (key, value), *_ = changes.items()
        ours = getattr(labelled, key)
        with pytest.raises(
            InputError, match=rf"config\.json: config\.{key} is {value}, but {ours} in the tok"
        ):
            load_checkpoint(place)
        edit(place / "config.json", config=saved["config"])
        load_checkpoint(place)


@pytest.mark.parametrize("summed", [True, False])
def test_damaged_weights_are_named(summed: bool, folder: Path) -> None:
    if not summed:
        (folder / CHECKSUMS_FILE).unlink()
    file = folder / "model.safetensors"
    data = file.read_bytes()
    for damaged in (data[: len(data) // 2], b"", b"\xff" * 100):
        file.write_bytes(damaged)
        with pytest.raises(PdtoolsError, match=r"model\.safetensors.*damaged"):
            load_checkpoint(folder)
    file.unlink()
    with pytest.raises(PdtoolsError, match="incomplete"):
        load_checkpoint(folder)


@pytest.mark.parametrize("summed", [True, False])
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_pointer_of_git_lfs_is_named(name: str, summed: bool, folder: Path) -> None:
    if not summed:
        (folder / CHECKSUMS_FILE).unlink()
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(InputError, match=f"{name}: a Git LFS pointer, not the file itself .git lfs pull"):
        load_checkpoint(folder)


def test_a_flipped_bit_is_named_wherever_it_is(folder: Path) -> None:
    rng = random.Random(0)
    names = [path.name for path in folder.iterdir() if path.name != MANIFEST]
    assert CHECKSUMS_FILE in names
    for name in names:
        data = (folder / name).read_bytes()
        for _ in range(20):
            place = rng.randrange(len(data))
            flipped = bytearray(data)
            flipped[place] ^= 1 << rng.randrange(8)
            (folder / name).write_bytes(flipped)
            with pytest.raises(InputError) as refusal:
                load_checkpoint(folder)
            assert name == CHECKSUMS_FILE or str(folder / name) in str(refusal.value)
        (folder / name).write_bytes(data)
    load_checkpoint(folder)


def test_another_tokenizer_is_refused(folder: Path) -> None:
    (folder / CHECKSUMS_FILE).unlink()
    train_word_tokenizer(["a", "cat", "the", "cats", "meows", "meow"]).save(folder)
    with pytest.raises(PdtoolsError, match="tokenizer"):
        load_checkpoint(folder)


def test_other_labels_are_refused_where_the_model_has_them(
    folder: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    labelled = tokenizer.with_labels(["S", "NP"])
    grammar = small_model("plm", vocab_size=tokenizer.vocab_size, positions="learned", n_labels=2)
    save_checkpoint(tmp_path / "plm", grammar, labelled, shards=SHARDS)
    assert load_checkpoint(tmp_path / "plm").tokenizer.labels == ("S", "NP")
    for place in (tmp_path / "plm", folder):
        (place / CHECKSUMS_FILE).unlink()
        tokenizer.with_labels(["NP", "S"]).save(place)
    with pytest.raises(InputError, match="labels are not those"):
        load_checkpoint(tmp_path / "plm")
    assert load_checkpoint(folder).tokenizer.labels == ("NP", "S")


def test_floats_that_are_called_integers_are_refused(tmp_path: Path) -> None:
    """Of the same shape and length, and loaded without a word: weights would be numbers around 10^9."""
    tokenizer = train_word_tokenizer(["a", "b"], min_count=1)
    model = small_model("transformer", vocab_size=tokenizer.vocab_size)
    save_checkpoint(tmp_path / "model", model, tokenizer, shards={})
    (tmp_path / "model" / "SHA256SUMS").unlink()
    weights = tmp_path / "model" / "model.safetensors"
    content = weights.read_bytes()
    changed = content.replace(b'"dtype":"F32"', b'"dtype":"I32"', 1)
    assert changed != content
    weights.write_bytes(changed)
    with pytest.raises(InputError, match=r"model\.safetensors: damaged weights: .* holds torch\.int32"):
        load_checkpoint(tmp_path / "model")
