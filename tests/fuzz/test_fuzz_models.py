"""Fuzz targets: tokenizers, manifests of shards, checkpoints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fuzz.hostile import broken, documents, fuzz, refusing
from pdtools.files import Rejects
from pdtools.shards import ShardSet, ShardSettings, TokenizerSettings, shards_from_files
from pdtools.tokenization import Tokenizer, split_spaces

TREES = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n(S (NP (NN rain)) (VP (VBZ falls) (ADVP (RB down))))\n"


@pytest.fixture(scope="module", params=["word", "bpe"])
def shards(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    trees = folder / "x.trees"
    trees.write_text(TREES)
    making = TokenizerSettings(kind=request.param, min_count=1, size=300)
    shards_from_files([str(trees)], making, ShardSettings(), folder / "shards", Rejects())
    return folder / "shards"


@fuzz
@given(data=st.data())
def test_tokenizers(data: st.DataObject, shards: Path, tmp_path: Path) -> None:
    name = data.draw(st.sampled_from(["tokenizer.json", "tokenizer_config.json"]))
    folder = fresh_copy(shards, tmp_path)
    (folder / name).write_bytes(data.draw(documents(json.loads((shards / name).read_bytes()))))
    if data.draw(st.booleans()):
        (folder / "tokenizer_config.json").unlink()
    with refusing():
        encoding = Tokenizer.load(folder).encode(split_spaces("the dog barks"))
        assert len(encoding.ids) == len(encoding.word)


@fuzz
@given(data=st.data())
def test_manifests(data: st.DataObject, shards: Path, tmp_path: Path) -> None:
    folder = fresh_copy(shards, tmp_path)
    content = data.draw(documents(json.loads((shards / "manifest.json").read_bytes())))
    (folder / "manifest.json").write_bytes(content)
    with refusing():
        ShardSet.open(folder)


@fuzz
@given(data=st.data())
def test_parts(data: st.DataObject, shards: Path, tmp_path: Path) -> None:
    folder = fresh_copy(shards, tmp_path)
    part = next(folder.glob("*.parquet"))
    content = data.draw(broken(part.read_bytes()))
    assume(content != part.read_bytes())
    part.write_bytes(content)
    with refusing():
        ShardSet.open(folder)
        raise AssertionError("a damaged part was read")


def fresh_copy(shards: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(shards, folder))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from pdtools.models import build_model, make_config, save_checkpoint
    from pdtools.tokenization import train_word_tokenizer

    tokenizer = train_word_tokenizer(["the", "dog", "barks"], min_count=1)
    shape = {"vocab_size": tokenizer.vocab_size, "pad_id": tokenizer.pad_id, "root_id": tokenizer.root_id}
    shape |= {"eos_id": tokenizer.eos_id, "layers": 1, "d_model": 8, "heads": 2, "d_ff": 16}
    model = build_model("pushdown", make_config("pushdown", shape))
    folder = tmp_path_factory.mktemp("model") / "checkpoint"
    save_checkpoint(folder, model, tokenizer, shards={"layout": "sentence"})
    return folder


@fuzz
@given(data=st.data())
def test_checkpoints(data: st.DataObject, checkpoint: Path, tmp_path: Path) -> None:
    from pdtools.models import load_checkpoint

    folder = fresh_copy(checkpoint, tmp_path)
    if data.draw(st.booleans()):
        content = data.draw(documents(json.loads((checkpoint / "config.json").read_bytes())))
        (folder / "config.json").write_bytes(content)
    else:
        weights = folder / "model.safetensors"
        weights.write_bytes(data.draw(broken(weights.read_bytes()[:600])) + weights.read_bytes()[600:])
    with refusing():
        load_checkpoint(folder)
