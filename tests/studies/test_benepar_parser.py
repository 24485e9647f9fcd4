"""The script that trains benepar's parsers: with a pretrained encoder, and continued after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shell import script
from toy_benepar import WORDS, tiny_bert, toy_trees

pytest.importorskip("benepar")

SCRIPT = Path(__file__).parents[2] / "studies" / "benepar_parser.py"
TREES = toy_trees(40, seed=3)


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    folder = tmp_path / "bert"
    folder.mkdir()
    tiny_bert(folder, sorted({word.lower() for words in WORDS.values() for word in words}))
    return str(folder)


def test_an_encoder_is_finetuned_into_a_folder(tmp_path: Path, encoder: str) -> None:
    import torch
    from safetensors.torch import load_file

    from pdtools.parsers.benepar import load
    from pdtools.trees import Tree, unescape

    module = script(SCRIPT)
    examples = [module.example_of(tree) for tree in TREES]
    parser = module.train(examples, steps=2, width=16, rate=1e-2, seed=1, encoder=encoder)
    module.save(parser, tmp_path / "parser")
    loaded = load(str(tmp_path / "parser"), "cpu")
    trained = parser.state_dict()
    for name, value in loaded._chart_parser.state_dict().items():
        assert torch.equal(value, trained[name]), name
    before = load_file(Path(encoder) / "model.safetensors")["embeddings.word_embeddings.weight"]
    assert not torch.equal(before, trained["pretrained_model.embeddings.word_embeddings.weight"])
    words = [unescape(word) for word in TREES[0].leaves()]
    (tree,) = loaded.parse([words])
    assert isinstance(tree, Tree)
    assert tree.words == tuple(TREES[0].leaves())


@pytest.mark.parametrize("with_encoder", [False, True])
def test_a_killed_run_continues_as_if_undisturbed(
    tmp_path: Path, encoder: str, with_encoder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    module = script(SCRIPT)
    monkeypatch.setattr(module, "KEPT_EVERY", 2)
    monkeypatch.setattr(module, "SENTENCES", 8)
    examples = [module.example_of(tree) for tree in TREES]
    given: dict[str, Any] = {"steps": 5, "width": 16, "rate": 1e-2, "seed": 1}
    given["encoder"] = encoder if with_encoder else None
    undisturbed = module.train(examples, **given).state_dict()

    class Killed(Exception):
        pass

    state = tmp_path / "state"
    write_whole = module.write_whole

    def write_and_die(file: Path, value: Any) -> None:
        write_whole(file, value)
        raise Killed

    monkeypatch.setattr(module, "write_whole", write_and_die)
    with pytest.raises(Killed):
        module.train(examples, **given, state=state)
    monkeypatch.setattr(module, "write_whole", write_whole)
    continued = module.train(examples, **given, state=state).state_dict()
    assert continued.keys() == undisturbed.keys()
    for name, value in undisturbed.items():
        assert torch.equal(value, continued[name]), name
