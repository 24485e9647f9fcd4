"""Training that starts from a model: GPT-2 on windows, checkpoints of ours; the head alone at first."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from stopping import StopAfter
from test_train_windows import SHORT, TINY, sentences_of
from toy_gpt2 import save_gpt2
from toy_language import WORDS, brackets, toy_tokenizer

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel, LossParts, load_checkpoint
from pdtools.models.initial import Initialized
from pdtools.shards import ShardSet
from pdtools.tokenization import Tokenizer
from pdtools.training import Recipe, read_recipe, train
from pdtools.training.batches import BatchLimits
from pdtools.training.train import TrainOptions, open_run

LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=4)


def started(
    data: Path, output: Path, init: Path, model: str | None = None, *, settings: tuple[str, ...] = ()
) -> tuple[LanguageModel, Initialized]:
    """The model of a run before its first step."""
    recipe = read_recipe(model=model, init=init, settings=settings)
    with open_run(data, output, recipe, TrainOptions(init=init)) as opened:
        assert opened.initialized is not None
        return opened.loop.model.eval(), opened.initialized


def random_window(lengths: list[int], rng: np.random.Generator) -> list[int]:
    """Attachments of sentences of so many tokens: at each token any constituent that is open, or itself."""
    attach: list[int] = []
    for length in lengths:
        root = len(attach)
        attach.append(root)
        stack: list[int] = []
        for left in range(length, 0, -1):
            k = len(attach)
            slot = int(rng.integers(len(stack) + 1))
            attach.append(root if left == 1 else k if slot == len(stack) else stack[slot])
            stack = [*stack[:slot], k]
    return attach


# --- GPT-2 on windows ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of two layers, and windows of its tokens, ``windows``."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("gpt2")
    save_gpt2(folder / "gpt2", [" ".join(WORDS)])
    model = transformers.GPT2LMHeadModel.from_pretrained(folder / "gpt2")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)  # still far from certain
    model.save_pretrained(folder / "gpt2")
    rng = random.Random(1)
    (folder / "trees").write_text("\n".join(brackets(rng) for _ in range(40)))
    made = ["tapes", f"{folder}/trees", "-o", f"{folder}/windows", "--layout", "window", "--window", "64"]
    assert run([*made, "--tokenizer", f"{folder}/gpt2", "--text-style", "raw", "--quiet"]) == 0
    assert ShardSet.open(folder / "windows").lengths.max() == 64
    return folder


@pytest.mark.parametrize(
    ("model", "own"),
    [("transformer", ()), ("pushdown", ()), ("pushdown", ("config.pushdown_layers=last 1",))],
)
def test_at_first_logits_are_those_of_gpt2(
    model: str, own: tuple[str, ...], gpt2: Path, tmp_path: Path
) -> None:
    import transformers

    theirs = transformers.GPT2LMHeadModel.from_pretrained(gpt2 / "gpt2").eval()
    # One that has windows of 64 with the ROOT after them has a position more than GPT-2.
    longer = ("config.max_length=65",) if model == "transformer" else ()
    ours, said = started(gpt2 / "windows", tmp_path / "run", gpt2 / "gpt2", model, settings=(*own, *longer))
    n_tokens = theirs.config.vocab_size
    end = theirs.config.bos_token_id

    @settings(max_examples=25, deadline=None)
    @given(lengths=LENGTHS, seed=st.integers(0, 999))
    def agrees(lengths: list[int], seed: int) -> None:
        rng = np.random.default_rng(seed)
        attach = np.array(random_window(lengths, rng), np.int32)
        tokens = rng.integers(0, n_tokens, len(attach)).astype(np.int32)
        starts = np.cumsum([0, *(length + 1 for length in lengths[:-1])])
        tokens[starts] = ours.root_id
        read = torch.tensor(tokens, dtype=torch.int64)[None]
        read[read == ours.root_id] = end
        with torch.no_grad():
            wanted = theirs(read).logits[0]
            found = ours.position_logprobs(ours.pack([(tokens, attach)]))[0, 1 : len(tokens)]
        # Both up to a constant for each position, by which our special tokens have a share, or not.
        found, wanted = found[:, :n_tokens], wanted[:-1]
        torch.testing.assert_close(
            found.log_softmax(-1), wanted.log_softmax(-1).float(), rtol=2e-6, atol=1e-5
        )
        if model == "pushdown":  # ROOT, end-of-sentence and padding have none
            torch.testing.assert_close(found.logsumexp(-1), torch.zeros(len(found)), rtol=2e-6, atol=1e-5)

    agrees()
    table = "depth tables of layer" + (" 2 (zero)" if own else "s 1 to 2 (zero)")
    new = [table, "the attachment head (random)"] if model == "pushdown" else []
    more = ["3 tokens (as its beginning and end of a text)", "positions 64 to 64 (random, like the others)"]
    assert [*said.new] == new + more[: 1 + bool(longer)]
    assert said.left_out == ()
    assert said.copied == sum(p.numel() for p in theirs.parameters())


def test_depth_tables_can_start_at_random(gpt2: Path, tmp_path: Path) -> None:
    normal = ("config.depth_init=normal",)
    _, said = started(gpt2 / "windows", tmp_path / "run", gpt2 / "gpt2", "pushdown", settings=normal)
    assert "depth tables of layers 1 to 2 (random)" in said.new


def test_a_window_and_the_root_after_it(
    gpt2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", f"{gpt2}/windows", "--init", f"{gpt2}/gpt2", "--device", "cpu"]
    command += ["--set", "train.steps=1", "--set", "train.warmup_steps=0"]
    capsys.readouterr()
    base = [*command, "--model", "transformer", "-o", f"{tmp_path}/base"]
    assert run(base) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "without an attachment head it predicts the ROOT after each window too" in line
    assert "--set config.max_length=65 takes them" in line
    assert "windows of 63 (pdtools tapes --window)" in line
    assert run([*base, "--set", "config.max_length=65"]) == 0
    assert run([*command, "-o", f"{tmp_path}/run"]) == 0
    said = capsys.readouterr().err
    assert re.search(
        r"weights of \S+gpt2: [\d,]+ values copied; new: depth tables of layers 1 to 2 \(zero\), "
        r"the attachment head \(random\), 3 tokens .*; omitted: nothing",
        said,
    )
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["initialized"]["left_out"] == []
    assert record["initialized"]["folder"] == f"{gpt2}/gpt2"


# --- checkpoints of ours ------------------------------------------------------------------------


def losses(model: LanguageModel, shards: Path) -> LossParts:
    (batch,) = sentences_of(shards, model.eval()).in_order(BatchLimits(sentences=1000))
    with torch.no_grad():
        return model.loss(batch)


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, window_train: Path, toy_train: Path
) -> Callable[[str], tuple[Path, Path]]:
    """Shards, and a run of three steps on them, by a kind of model; each is trained once."""
    folder = tmp_path_factory.mktemp("init")

    def make(kind: str) -> tuple[Path, Path]:
        shards = window_train if kind in ("transformer", "pushdown", "head") else toy_train
        own = {"head": {"attachment_head": True}, "rnn": {"hidden_size": 8}}.get(kind, TINY)
        own = {"d_model": 8, "composition": "attention"} if kind.startswith("rnng") else own
        own = {**TINY, **own} if kind == "head" else own
        if kind in ("transformer", "pushdown"):
            own = {**own, "positions": "learned", "max_length": 32}
        if not (folder / kind).exists():
            config = dataclasses.replace(SHORT, steps=3)
            model = "transformer" if kind == "head" else kind
            train(shards, folder / kind, Recipe(model=model, options=own, train=config))
        return shards, folder / kind

    return make


@pytest.mark.parametrize("kind", ["transformer", "pushdown", "head", "tg", "rnn", "rnng", "rnng-in-order"])
def test_at_first_losses_are_those_of_the_checkpoint(
    kind: str, runs: Callable[[str], tuple[Path, Path]], tmp_path: Path
) -> None:
    shards, trained = runs(kind)
    model, said = started(shards, tmp_path / "run", trained)
    before = load_checkpoint(trained).model
    assert type(model.config) is type(before.config)
    found, wanted = losses(model, shards), losses(before, shards)
    assert vars(found) == vars(wanted)
    assert (said.new, said.left_out) == ((), ())


def test_a_base_lm_gets_pushdown_layers_and_loses_them(
    runs: Callable[[str], tuple[Path, Path]], tmp_path: Path
) -> None:
    shards, trained = runs("transformer")
    last = ("config.pushdown_layers=last 1",)
    pushdown, said = started(shards, tmp_path / "with", trained, "pushdown", settings=last)
    assert said.new == ("depth tables of layer 2 (zero)", "the attachment head (random)")
    prefix = (*last, "config.head_reads=prefix")
    _, more = started(shards, tmp_path / "prefix", trained, "pushdown", settings=prefix)
    assert more.new == (*said.new, "the norm of what the attachment head reads")
    base = load_checkpoint(trained).model
    (batch,) = sentences_of(shards, pushdown).in_order(BatchLimits(sentences=1000))
    n = batch.tokens.shape[1]
    with torch.no_grad():
        found = pushdown.position_logprobs(batch)
        wanted = base.position_logprobs(dataclasses.replace(batch, roots=None))
    words = [i for i in range(base.vocab_size) if i not in (base.pad_id, base.root_id, base.eos_id)]
    real = (torch.arange(n) < batch.lengths[:, None])[:, 1:]
    assert torch.allclose(found[:, 1:, words][real], wanted[:, 1:, words].log_softmax(-1)[real], atol=1e-5)
    shards, trained = runs("pushdown")
    _, said = started(shards, tmp_path / "without", trained, "transformer")
    assert said.new == ()
    assert said.left_out == ("depth tables of layers 1 to 2", "the attachment head")


def test_more_positions(runs: Callable[[str], tuple[Path, Path]], tmp_path: Path) -> None:
    shards, trained = runs("pushdown")
    more = ("config.max_length=50",)
    model, said = started(shards, tmp_path / "run", trained, settings=more)
    assert said.new == ("positions 32 to 49 (random, like the others)",)
    assert model.max_length == 50
    before = load_checkpoint(trained).model
    assert vars(losses(model, shards)) == vars(losses(before, shards))
    rows = model.state_dict()["position_embedding.weight"]
    assert rows[32:].std() > 0
    with pytest.raises(PdtoolsError, match=re.escape("is (32, 16), but the configuration asks for (16, 16)")):
        started(shards, tmp_path / "short", trained, settings=("config.max_length=16",))


def extended(tokenizer: Tokenizer, folder: Path, *, before: int | None = None) -> Tokenizer:
    """With the words *mat* and *rug* after its own, or in their midst."""
    folder.mkdir()
    tokenizer.save(folder)
    file = folder / "tokenizer.json"
    description = json.loads(file.read_text())
    vocabulary = description["model"]["vocab"]
    words = [*sorted(vocabulary, key=vocabulary.__getitem__)]
    place = len(words) if before is None else before
    words[place:place] = ["mat", "rug"]
    description["model"]["vocab"] = {word: i for i, word in enumerate(words)}
    file.write_text(json.dumps(description))
    return Tokenizer.load(folder)


def test_more_tokens(
    runs: Callable[[str], tuple[Path, Path]], make_shards: Callable[..., Path], tmp_path: Path
) -> None:
    old_shards, trained = runs("pushdown")
    tokenizer = extended(toy_tokenizer(), tmp_path / "more")
    shards = make_shards(24, seed=1, tokenizer=tokenizer, window=24)
    model, said = started(shards, tmp_path / "run", trained)
    assert said.new == ("2 tokens (mean of all)",)
    table, before = model.state_dict(), load_checkpoint(trained).model.state_dict()
    assert table.keys() == before.keys()
    for name, value in before.items():
        assert torch.equal(table[name][: len(value)] if name == "embedding.weight" else table[name], value)
    assert torch.equal(table["embedding.weight"][-1], before["embedding.weight"].mean(0))
    # The new ones have no more than their share: tokens are less probable by as much, and no more.
    found, wanted = losses(model, shards), losses(load_checkpoint(trained).model, old_shards)
    lost = (found.sums["token_nll"] - wanted.sums["token_nll"]) / wanted.counts["tokens"]
    assert 0 < lost < np.log(1 + 2 / (model.vocab_size - 2 - 3)) + 1e-5
    assert found.sums["attachment_nll"] == wanted.sums["attachment_nll"]
    midst = make_shards(
        24, seed=1, tokenizer=extended(toy_tokenizer(), tmp_path / "midst", before=5), window=24
    )
    with pytest.raises(PdtoolsError, match=r"tokenizer does not extend this model's, of which '\w+' has"):
        started(midst, tmp_path / "other", trained)
    train(shards, tmp_path / "larger", Recipe(options=TINY, train=dataclasses.replace(SHORT, steps=1)))
    with pytest.raises(PdtoolsError, match=r"tokenizer does not extend this model's, of which 'mat' has"):
        started(old_shards, tmp_path / "fewer", tmp_path / "larger")


@pytest.mark.parametrize(
    ("kind", "model", "message"),
    [
        ("transformer", "rnn", "a rnn cannot start from the weights of a transformer"),
        ("rnn", "pushdown", "a pushdown cannot start from the weights of a rnn"),
        ("transformer", "tg", "--init is not for model tg, whose vocabulary has actions"),
        ("tg", "transformer", "--init is not for model tg, whose vocabulary has actions"),
        ("rnng", "rnng-in-order", "a rnng-in-order cannot start from the weights of a rnng"),
        ("tg", "rnng", "a rnng cannot start from the weights of a tg"),
    ],
)
def test_models_of_another_kind_are_refused(
    kind: str, model: str, message: str, runs: Callable[[str], tuple[Path, Path]], tmp_path: Path
) -> None:
    shards, trained = runs(kind)
    with pytest.raises(PdtoolsError, match=message):
        started(shards, tmp_path / "run", trained, model)


@pytest.mark.parametrize("kind", ["tg", "rnng", "rnng-in-order"])
def test_models_of_actions_keep_their_tokens_and_labels(
    kind: str, runs: Callable[[str], tuple[Path, Path]], make_shards: Callable[..., Path], tmp_path: Path
) -> None:
    """Labels in another order, of the same number, would be each other's."""
    _, trained = runs(kind)
    message = "an action model has the tokens and labels of its own training shards"
    for shards in (
        make_shards(labels=("NP", "PP", "VP", "S")),
        make_shards(labels=("NP", "PP", "S", "VP", "X")),
        make_shards(tokenizer=extended(toy_tokenizer(), tmp_path / "more")),
    ):
        with pytest.raises(PdtoolsError, match=message):
            started(shards, tmp_path / "run", trained)


# --- the head alone -----------------------------------------------------------------------------


def test_what_is_no_model(
    window_train: Path,
    runs: Callable[[str], tuple[Path, Path]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, trained = runs("pushdown")
    (tmp_path / "empty").mkdir()
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (damaged / name).write_bytes((trained / "best" / name).read_bytes())
    for init, message in (
        (window_train, "shards, not a Hugging Face model"),
        (tmp_path / "empty", "config.json"),
        (tmp_path / "nowhere", "nowhere"),
        (damaged, "damaged"),
    ):
        command = ["train", f"{window_train}", "-o", f"{tmp_path}/run", "--init", f"{init}"]
        assert run([*command, "--device", "cpu"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
    assert not (tmp_path / "run").exists()


def test_a_sweep_starts_from_models_of_its_runs(
    window_train: Path,
    window_valid: Path,
    runs: Callable[[str], tuple[Path, Path]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, trained = runs("pushdown")
    (tmp_path / "seed1").symlink_to(trained)
    (tmp_path / "seed2").symlink_to(trained)
    command = ["sweep", str(window_train), "--valid", str(window_valid), "-o", f"{tmp_path}/sweep"]
    command += ["--init", f"{tmp_path}/seed{{train.seed}}", "--grid", "train.seed=1,2", "--device", "cpu"]
    command += ["--set", "train.steps=2", "--set", "train.batch_sentences=4"]
    assert run(command) == 0
    said = capsys.readouterr().err
    assert said.count("new: nothing; omitted: nothing") == 2
    assert f"seed=2: weights of {tmp_path}/seed2" in said
    assert run(command) == 0  # resumed: nothing is left to do
    assert "weights of" not in capsys.readouterr().err


def test_the_head_warms_up_alone(
    window_train: Path, window_valid: Path, runs: Callable[[str], tuple[Path, Path]], tmp_path: Path
) -> None:
    _, trained = runs("transformer")
    config = dataclasses.replace(
        SHORT, head_warmup_steps=4, steps=4, eval_every=2, weight_decay=0.1, warmup_steps=0
    )
    assert read_recipe("glue", init=trained).model == "transformer"  # a recipe that names no model
    chosen = read_recipe(model="pushdown", init=trained)

    def learn(name: str, steps: int, **options: Any) -> dict[str, Any]:
        recipe = dataclasses.replace(chosen, train=dataclasses.replace(config, steps=steps))
        return train(window_train, tmp_path / name, recipe, init=trained, valid=window_valid, **options)

    learn("warm", 4)
    after = load_file(tmp_path / "warm/last/model.safetensors")
    model, _ = started(
        window_train, tmp_path / "fresh", trained, "pushdown", settings=(f"train.seed={SHORT.seed}",)
    )
    start = model.state_dict()
    for name, value in after.items():
        assert torch.equal(value, start[name]) == (not name.startswith("head.")), name
    # With more steps, all else learns too; a stop in the warm-up, or after it, leaves no trace.
    learn("whole", 8)
    learned = load_file(tmp_path / "whole/last/model.safetensors")
    assert not any(torch.equal(value, start[name]) for name, value in learned.items())
    for step in (2, 4):
        stop = StopAfter(step)
        learn(f"parts-{step}", 8, listener=stop, stop=stop)
        assert learn(f"parts-{step}", 8, resume=True)["resumed_from"] == step
        for name in ("last/model.safetensors", "last/trainer/state.safetensors"):
            assert (tmp_path / f"parts-{step}" / name).read_bytes() == (
                tmp_path / "whole" / name
            ).read_bytes()


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_there_is_no_head_to_warm_up(
    kind: str,
    runs: Callable[[str], tuple[Path, Path]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shards, trained = runs(kind)
    command = ["train", str(shards), "-o", f"{tmp_path}/run", "--init", str(trained), "--device", "cpu"]
    assert run([*command, "--set", "train.head_warmup_steps=3"]) == 1
    assert "train.head_warmup_steps is for models with an attachment head" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
