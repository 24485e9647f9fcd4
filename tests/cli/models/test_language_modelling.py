"""Running text to blocks, to a model with stack attention (from scratch or pretrained), to its perplexity."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from pdtools.cli.main import run
from pdtools.evaluation.perplexity.masked import HiddenTokens, evaluate_masked_perplexity
from pdtools.evaluation.results import read_results
from pdtools.files import Rejects
from pdtools.models import load_checkpoint
from pdtools.shards import ShardFolder
from pdtools.training import ALONE, ShardInput, read_recipe
from pdtools.training import train as library_train

SMALL = [
    argument
    for setting in (
        "config.layers=1",
        "config.d_model=16",
        "config.heads=2",
        "config.d_ff=32",
        "config.max_length=32",
        "train.learning_rate=3e-3",
        "train.steps=60",
        "train.eval_every=20",
        "train.batch_sentences=8",
    )
    for argument in ("--set", setting)
] + ["--device", "cpu", "--threads", "1", "--quiet"]


def text_of(lines: int, seed: int) -> str:
    rng = random.Random(seed)
    nouns, verbs = ("cat", "dog", "bird"), ("sees", "hears")
    return "\n".join(
        f"the {rng.choice(nouns)} {rng.choice(verbs)} the {rng.choice(nouns)} ." for _ in range(lines)
    )


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``train`` and ``valid``."""
    folder = tmp_path_factory.mktemp("blocks")
    for name, lines in (("train", 120), ("valid", 30)):
        (folder / f"{name}.txt").write_text(text_of(lines, lines))
    given = ["--length", "12", "--quiet"]
    assert run(["blocks", f"{folder}/train.txt", "-o", f"{folder}/train", *given]) == 0
    with_tokenizer = ["--tokenizer", f"{folder}/train"]
    assert run(["blocks", f"{folder}/valid.txt", "-o", f"{folder}/valid", *given, *with_tokenizer]) == 0
    return folder


def train(blocks: Path, output: Path, config: str, *more: str) -> int:
    data = ["train", f"{blocks}/train", "--valid", f"{blocks}/valid", "-o", str(output)]
    return run([*data, "--config", config, *SMALL, *more])


def perplexity(blocks: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    arguments = ["eval-ppl", f"{blocks}/valid", "--model", str(model), "--device", "cpu", "--json"]
    assert run([*arguments, "--quiet"]) == 0
    scores: dict[str, Any] = json.loads(capsys.readouterr().out)["scores"]
    return scores


@pytest.mark.parametrize(
    ("config", "score"), [("gpt2-stack", "ppl_token_marginal"), ("roberta-stack", "ppl_token_masked")]
)
def test_from_text_to_perplexity(
    config: str, score: str, blocks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Of blocks of 12 tokens, two each are hidden: that takes longer.
    steps = 240 if config == "roberta-stack" else 80
    constant = ["--set", "train.schedule=constant"]  # so few steps are not to be spent on coming to an end
    assert train(blocks, tmp_path / "run", config, "--set", f"train.steps={steps}", *constant) == 0
    found = perplexity(blocks, tmp_path / "run", capsys)[score]
    # Without a look at its neighbours, a hidden word has a perplexity of 6.1; the pattern has some 2.
    assert 1 < found < (5.6 if config == "roberta-stack" else 4)
    # What training says of its last evaluation is what eval-ppl finds.
    capsys.readouterr()
    assert (
        train(
            blocks, tmp_path / "run", config, "--set", f"train.steps={steps}", *constant, "--resume", "--json"
        )
        == 0
    )
    best = json.loads(capsys.readouterr().out)["best"]
    key = "ppl_token_given_trees" if config == "gpt2-stack" else score
    assert ("ppl_token_given_trees" in best) == (config == "gpt2-stack")
    assert best[key] == pytest.approx(found, rel=1e-5)
    results = tmp_path / "results"
    command = ["eval-ppl", f"{blocks}/valid", "--model", f"{tmp_path}/run", "--device", "cpu"]
    assert run([*command, "--quiet", "-o", f"{results}/ppl"]) == 0
    assert read_results(results / "ppl")[0]["scores"][score] == found
    capsys.readouterr()
    assert run(["compare", str(results), "--overview"]) == 0
    compared = capsys.readouterr().out
    assert ("perplexity per hidden token " in compared) == (score == "ppl_token_masked")
    assert ("perplexity per word, marginal " in compared) == (score != "ppl_token_masked")


def test_training_hides_what_its_recipe_says(
    blocks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hidden = ["--set", "train.mask_share=0.5", "--set", "train.masking=mask"]
    assert train(blocks, tmp_path / "run", "roberta-stack", "--set", "train.steps=1", *hidden) == 0
    capsys.readouterr()
    assert (
        train(
            blocks, tmp_path / "run", "roberta-stack", "--set", "train.steps=1", *hidden, "--resume", "--json"
        )
        == 0
    )
    best = json.loads(capsys.readouterr().out)["best"]["ppl_token_masked"]
    hiding = HiddenTokens(mask_share=0.5, masking="mask")
    found = evaluate_masked_perplexity(
        ShardFolder.open(f"{blocks}/valid"),
        load_checkpoint(tmp_path / "run"),
        hidden=hiding,
        rejects=Rejects("fail"),
    )
    assert best == pytest.approx(found.scores["ppl_token_masked"], rel=1e-5)

    recipe = read_recipe("roberta-stack", settings=["train.mask_share=0.5", "train.masking=mask"])
    model = load_checkpoint(tmp_path / "run" / "last").model
    inputs = ShardInput(f"{blocks}/train")
    sentences, _ = inputs.open(model, recipe.train, Rejects("fail"))
    batch = sentences.source(recipe.train).take(ALONE)
    assert batch.scored is not None
    kept = [getattr(inputs.tokenizer, name) for name in ("root_id", "eos_id", "pad_id")]
    words = torch.isin(batch.targets, torch.tensor(kept), invert=True)
    assert float(batch.scored.sum() / words.sum()) == pytest.approx(0.5, abs=0.05)
    assert bool((batch.tokens[batch.scored] == inputs.tokenizer.mask_id).all())


def test_a_masked_run_goes_on_as_if_it_had_not_stopped(blocks: Path, tmp_path: Path) -> None:
    settings = [argument for argument in SMALL if "=" in argument]
    recipe = read_recipe("roberta-stack", settings=[*settings, "train.steps=40"])
    asked = iter([False] * 15)
    data = (f"{blocks}/train", tmp_path / "parts", recipe)
    assert library_train(*data, stop=lambda: next(asked, True))["step"] == 15
    assert library_train(*data, resume=True)["finished"] == "steps"
    library_train(f"{blocks}/train", tmp_path / "whole", recipe)
    states = [load_checkpoint(tmp_path / name / "last").model.state_dict() for name in ("whole", "parts")]
    assert any(".stack." in name for name in states[0])
    for name, value in states[0].items():
        assert value.equal(states[1][name]), name


def test_masked_models_refuse_what_needs_p_of_x(
    blocks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(blocks, tmp_path / "run", "roberta-stack", "--set", "train.steps=1") == 0
    (tmp_path / "text.txt").write_text("the cat sees the dog .\n")
    for command in (["surprisal", str(tmp_path / "text.txt")], ["sample", "--number", "1"]):
        capsys.readouterr()
        assert run([*command, "--model", str(tmp_path / "run"), "--device", "cpu", "--quiet"]) == 1
        assert capsys.readouterr().err.count("masked language model") == 1


def test_a_model_with_stacks_is_sampled_and_scored(
    blocks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(blocks, tmp_path / "run", "gpt2-stack") == 0
    (tmp_path / "text.txt").write_text("the cat sees the dog .\nthe cat hears\n")
    capsys.readouterr()
    for command in (["surprisal", str(tmp_path / "text.txt")], ["sample", "--strings", "--number", "3"]):
        assert run([*command, "--model", str(tmp_path / "run"), "--device", "cpu", "--quiet"]) == 0
        assert len(capsys.readouterr().out.splitlines()) >= 3


def test_blocks_have_no_trees(blocks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(blocks, tmp_path / "run", "gpt2-stack", "--model", "pushdown") == 1
    assert "blocks of running text have no trees" in capsys.readouterr().err


@pytest.mark.parametrize("valid_words", [4, 30])
def test_what_is_said_of_sentences_too_long_for_a_pretrained_model_works(
    valid_words: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    from toy_gpt2 import save_gpt2

    folder = save_gpt2(tmp_path / "hf", [text_of(20, 0)], positions=12)
    for name, words, tokenizer in (("train", 20, folder), ("valid", valid_words, tmp_path / "train")):
        trees = tmp_path / f"{name}.trees"
        trees.write_text(f"(S (X the) (X cat))\n(S{' (X cat)' * words})\n")
        made = ["tapes", str(trees), "-o", str(tmp_path / name), "--tokenizer", str(tokenizer)]
        assert run([*made, "--text-style", "raw", "--quiet"] if name == "train" else [*made, "--quiet"]) == 0
    command = ["train", f"{tmp_path}/train", "--valid", f"{tmp_path}/valid", "-o", f"{tmp_path}/run"]
    command += ["--init", str(folder), "--model", "pushdown", "--device", "cpu", "--set", "train.steps=1"]
    capsys.readouterr()
    assert run(command) == 1
    error = capsys.readouterr().err
    assert (hints := re.findall(r"--set config\.max_length=\d+", error)), error
    assert run([*command, *hints[0].split()]) == 0
    assert run(["eval-ppl", f"{tmp_path}/valid", "--model", f"{tmp_path}/run", "--beam", "2", "--quiet"]) == 0


@pytest.mark.parametrize("kind", ["gpt2", "roberta"])
def test_from_a_pretrained_model(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transformers = pytest.importorskip("transformers")
    from toy_gpt2 import save_gpt2

    folder = save_gpt2(tmp_path / "hf", [text_of(20, 0)])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if kind == "roberta":
        tokenizer.add_special_tokens({"mask_token": "<mask>", "pad_token": "<pad>"})
        tokenizer.save_pretrained(folder)
    ids = {"vocab_size": len(tokenizer), "bos_token_id": 0, "eos_token_id": 0}
    if kind == "gpt2":
        small = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**ids, **small))
    else:
        small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20}
        shape = {**small, "max_position_embeddings": 40, "type_vocab_size": 1}
        model = transformers.RobertaForMaskedLM(transformers.RobertaConfig(**ids, **shape))
    model.save_pretrained(folder)
    text = tmp_path / "train.txt"
    text.write_text(text_of(20, 1))
    made = ["blocks", str(text), "-o", str(tmp_path / "train"), "--length", "16", "--tokenizer", str(folder)]
    assert run([*made, "--text-style", "raw", "--quiet"]) == 0
    data = ["train", str(tmp_path / "train"), "-o", str(tmp_path / "run"), "--init", str(folder)]
    # The recipe is of 12 layers of width 768: sizes are the folder's.
    settings = ["--config", f"{kind}-stack", "--set", "train.steps=2"]
    limits = ["--set", "train.learning_rate=1e-9", "--device", "cpu", "--quiet"]
    assert run([*data, *settings, *limits]) == 0
    trained = load_checkpoint(tmp_path / "run").model
    assert (trained.config.layers, trained.config.d_model, trained.config.heads) == (2, 16, 2)
    assert trained.config.stack_layers == "all"
    assert trained.objective == ("causal" if kind == "gpt2" else "masked")
    theirs = model.get_input_embeddings().weight.detach()
    assert (trained.embedding.weight[: len(theirs)].detach() - theirs).abs().max() < 1e-5
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert "init" in record["provenance"]["inputs"]

    # Other weights to start from would be another run.
    shutil.copytree(folder, tmp_path / "twin")
    model.get_input_embeddings().weight.data.mul_(2)
    model.save_pretrained(tmp_path / "other")
    for place, code in (("twin", 0), ("other", 1)):
        init = ["--init", str(tmp_path / place), "--resume"]
        assert run([*data[:-2], *init, *settings, *limits]) == code
    assert "cannot be resumed: the init data are not the same" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "other")

    again = [*data[:2], "-o", str(tmp_path / "again"), "--init", str(folder), *settings, *limits]
    assert run([*again, "--set", "config.stack_layers=last 1"]) == 0
    blocks = load_checkpoint(tmp_path / "again").model.blocks
    assert [block.stack is not None for block in blocks] == [False, True]

    other = ["blocks", str(text), "-o", str(tmp_path / "other"), "--length", "16", "--quiet"]
    assert run([*other, "--tokenizer", "bpe", "--vocab-size", "320"]) == 0
    data = ["train", str(tmp_path / "other"), "-o", str(tmp_path / "other-run"), "--init", str(folder)]
    capsys.readouterr()
    assert run([*data, *settings, *limits]) == 1
    assert "tokenizer is not this model's" in capsys.readouterr().err
