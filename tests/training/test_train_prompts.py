"""Training on prompts: what the loss is made of, what is answered, which checkpoint is kept."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from stopping import StopAfter, metrics
from test_train_windows import NO_DROPOUT, ONE_STEP, TINY
from toy_prompts import HOW_LATE, SAME, toy_prompts

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects
from pdtools.models import LanguageModel, build_model
from pdtools.prompts.tasks import accuracy, decide
from pdtools.shards import ShardSet
from pdtools.training import Recipe, TrainConfig, complete_recipe, train
from pdtools.training.batches import BatchLimits
from pdtools.training.loop import NullListener
from pdtools.training.loss import LossSums
from pdtools.training.prompts import answer_prompts, form_of, prompt_batch
from pdtools.training.shard_input import PromptRows

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "pushdown": ("pushdown", {}),
    "base": ("transformer", {}),
    "given": ("transformer", {"window_roots": "given"}),
    "head": ("transformer", {"attachment_head": True}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_prompts(tmp_path_factory.mktemp("prompts") / "labels", 12, 1, SAME)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_prompts(tmp_path_factory.mktemp("prompts") / "numbers", 12, 1, HOW_LATE)


def recipe(kind: str, config: TrainConfig, **options: Any) -> Recipe:
    name, own = KINDS[kind]
    return Recipe(
        model=name, options={**TINY, **NO_DROPOUT, **own, "layout": "window", **options}, train=config
    )


def model_of(kind: str, shards: ShardSet, **options: Any) -> LanguageModel:
    torch.manual_seed(5)
    made = recipe(kind, TrainConfig(), initialization="fan-in", **options)
    return build_model(made.model, complete_recipe(made, shards.tokenizer)[1]).eval()


def rows_of(shards: ShardSet) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(shards.tokens(i), shards.attach(i)) for i in range(len(shards))]


@every_kind
def test_answers_are_scored_by_the_probabilities_of_their_tokens(labels: Path, kind: str) -> None:
    """Each token's log p by reading what is before it alone, and the whole vocabulary's softmax."""
    shards = ShardSet.open(labels)
    model, form = model_of(kind, shards), form_of(shards)
    found = answer_prompts(
        model.loss, model, form, rows_of(shards)[:4], device="cpu", limits=BatchLimits(sentences=3)
    )
    for i in range(4):
        for label, answer in enumerate(form.answers):
            tokens, attach = form.with_answer(shards.tokens(i), shards.attach(i), label, model.root_id)
            wanted = 0.0
            for k in range(len(tokens) - len(answer), len(tokens)):
                before = model.pack_prompts([(tokens[:k], attach[:k])])
                with torch.no_grad():
                    wanted += float(model.following_logprobs(before)[0, tokens[k]])
            assert found[i, label] == pytest.approx(wanted, rel=2e-6, abs=1e-5)


@every_kind
def test_the_answer_is_read_after_the_trees(labels: Path, kind: str) -> None:
    """With other trees a model with a tape answers otherwise, one without does not."""
    shards = ShardSet.open(labels)
    model, form = model_of(kind, shards), form_of(shards)
    flat = []
    for tokens, attach in rows_of(shards):
        other = attach.copy()
        other[2:5] = [2, 3, 4]  # tokens of the first sentence shift; its last one attaches to ROOT
        other[4] = 0
        flat.append((tokens, other))
    limits = BatchLimits(sentences=4)
    one, two = (
        answer_prompts(model.loss, model, form, rows, device="cpu", limits=limits)
        for rows in (rows_of(shards), flat)
    )
    assert (abs(one - two).max() > 1e-6) == (kind == "pushdown")


@every_kind
def test_attachments_of_the_answer_are_not_scored(labels: Path, kind: str) -> None:
    shards = ShardSet.open(labels)
    model, form = model_of(kind, shards), form_of(shards)
    batch = prompt_batch(model, form, rows_of(shards))
    parts, sums = model.forward_parts(batch), model.loss(batch)
    begins = [form.begin(tokens, model.root_id) for tokens, _ in rows_of(shards)]
    assert begins == [10] * 12  # ROOT and four words, twice
    assert (parts.attach_logprobs[:, 10:] == 0).all()
    assert int(sums.counts["attachments"]) == (12 * 8 if model.derivation_kind.exist else 0)
    # All tokens are predicted, ROOT where no attachment ends a sentence; nothing after the answer.
    lengths = sum(len(tokens) for tokens, _ in rows_of(shards))
    assert int(sums.counts["tokens"]) == lengths - 12 * (1 if kind == "base" else 3)
    of_answers = sum(len(form.answers[i]) for i in shards.answers)
    only = model.loss(prompt_batch(model, form, rows_of(shards), answers_only=True))
    assert (int(only.counts["tokens"]), int(only.counts["attachments"])) == (of_answers, 0)
    assert only.sums["token_nll"].item() == pytest.approx(sums.sums["answer_nll"].item(), rel=1e-5)


@every_kind
def test_numbers_are_read_off_the_last_real_position(numbers: Path, kind: str) -> None:
    """A row by itself, and beside a longer one, whose padding has states of its own."""
    shards = ShardSet.open(numbers)
    model, form = model_of(kind, shards, regression=True), form_of(shards)
    (tokens, attach), (longer, its) = rows_of(shards)[:2]
    rows = [(tokens[:5], attach[:5]), (longer, its)]
    hidden: list[torch.Tensor] = []
    weight = model.regression.weight  # type: ignore[union-attr]
    model.final_norm.register_forward_hook(lambda module, given, out: hidden.append(out))  # type: ignore[union-attr]
    with torch.no_grad():
        alone = model.forward_parts(prompt_batch(model, form, rows[:1], [1.0])).numbers
        beside = model.forward_parts(prompt_batch(model, form, rows, [1.0, 2.0])).numbers
    assert alone is not None
    assert beside is not None
    assert float(beside[0]) == pytest.approx(float(alone[0]), rel=2e-6, abs=1e-5)
    with torch.no_grad():
        padding = hidden[1][0, -1] @ weight[0] + model.regression.bias  # type: ignore[union-attr]
    assert abs(float(padding) - float(beside[0])) > 1e-4  # the column -1 of a padded batch is another
    for i, last in enumerate((4, 9)):
        wanted = hidden[1][i, last] @ weight[0] + model.regression.bias  # type: ignore[union-attr]
        assert float(beside[i]) == pytest.approx(float(wanted.detach()), rel=2e-6, abs=1e-6)


def gradient_step(folder: Path, shards: Path, config: TrainConfig, kind: str) -> dict[str, torch.Tensor]:
    """What one step of plain gradient descent changes."""
    found = []
    for steps in (0, 1):
        run = folder / str(steps)
        rate = config.learning_rate if steps else 1e-30
        train(shards, run, recipe(kind, dataclasses.replace(config, learning_rate=rate)))
        found.append(load_file(run / "best" / "model.safetensors"))
    return {name: (found[0][name] - found[1][name]) / config.learning_rate for name in found[0]}


@pytest.mark.parametrize("loss", ["all", "answer"])
@pytest.mark.parametrize("task", ["labels", "numbers"])
def test_the_loss_of_a_step(request: pytest.FixtureRequest, tmp_path: Path, task: str, loss: str) -> None:
    """(Σ NLL + (w − 1) Σ answer NLL + a Σ attachment NLL) / tokens + squared errors / numbers."""
    folder = request.getfixturevalue(task)
    config = dataclasses.replace(
        ONE_STEP,
        batch_tokens=0,
        batch_sentences=5,
        answer_weight=3.0,
        attachment_weight=0.5,
        loss=loss,  # type: ignore[arg-type]
    )
    found = gradient_step(tmp_path, folder, config, "pushdown")
    shards = ShardSet.open(folder)
    made = recipe("pushdown", config, regression=task == "numbers")
    torch.manual_seed(config.seed)
    model = build_model(made.model, complete_recipe(made, shards.tokenizer)[1]).train()
    rows = PromptRows(shards, model, rejects=Rejects("fail"), answers_only=loss == "answer")
    sums = model.loss(rows.batch(np.arange(12)))
    total = sums.sums["token_nll"] + 0.5 * sums.sums["attachment_nll"]
    if "answer_nll" in sums.sums:
        total = total + 2.0 * sums.sums["answer_nll"]
    total = total / max(int(sums.counts["tokens"]), 1)
    if "squared_error" in sums.sums:
        assert int(sums.counts["numbers"]) == 12
        total = total + sums.sums["squared_error"] / 12
    total.backward()
    for name, parameter in model.named_parameters():
        wanted = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(found[name], wanted.to(found[name].dtype), rtol=1e-3, atol=2e-6)


SHORT = TrainConfig(
    steps=6, learning_rate=3e-3, warmup_steps=1, batch_tokens=0, batch_sentences=4, eval_every=2, log_every=1
)


@pytest.mark.parametrize(("task", "score"), [("labels", "accuracy"), ("numbers", "spearman")])
def test_a_run_that_was_stopped_ends_the_same(
    request: pytest.FixtureRequest, tmp_path: Path, task: str, score: str
) -> None:
    folder, whole, parts = request.getfixturevalue(task), tmp_path / "whole", tmp_path / "parts"
    made = recipe("pushdown", SHORT)
    train(folder, whole, made, valid=folder)
    stop = StopAfter(3)
    train(folder, parts, made, valid=folder, listener=stop, stop=stop)
    report = train(folder, parts, made, valid=folder, resume=True)
    assert report["resumed_from"] == 3
    for name in ("best", "last"):
        one, two = (load_file(run / name / "model.safetensors") for run in (whole, parts))
        assert all(torch.equal(one[key], two[key]) for key in one)
    assert metrics(whole, "valid") == metrics(parts, "valid")
    scores = [record[score] for record in metrics(whole, "valid")]
    state = json.loads((whole / "last" / "trainer" / "state.json").read_text())
    assert state["best_metric"] == max(scores)
    assert report["best"][score] == max(scores)


def test_the_better_score_decides_and_then_the_loss(
    labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores: list[float] = [0.5, 0.5, 0.25]
    given = iter(scores)
    score: Callable[..., tuple[str, float]] = lambda *_: ("accuracy", next(given))  # noqa: E731
    monkeypatch.setattr(PromptRows, "main_score", score)
    report = train(labels, tmp_path / "run", recipe("pushdown", SHORT), valid=labels)
    losses = [record["loss"] for record in metrics(tmp_path / "run", "valid")]
    assert losses == sorted(
        losses, reverse=True
    )  # the last one has the smallest loss, and not the best score
    assert report["best_step"] == 4


def test_what_cannot_be_learned_from_is_refused(labels: Path, numbers: Path, tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError, match="not prompts of the training shards' task"):
        train(labels, tmp_path / "run", recipe("base", SHORT), valid=numbers)
    from toy_prompts import WINDOW, toy_items, toy_tokenizer

    from pdtools.prompts.items import PromptItem, read_prompts, write_items
    from pdtools.prompts.rows import prompt_shards

    items, trees = toy_items(3, 1)
    items[1] = PromptItem("x", items[1].sentences, None)
    write_items(str(tmp_path / "x.jsonl"), SAME, items)
    (tmp_path / "x.trees").write_text("\n".join(trees))
    files, prompts = [str(tmp_path / "x.trees")], read_prompts(str(tmp_path / "x.jsonl"))
    prompt_shards(files, prompts, toy_tokenizer(), WINDOW, tmp_path / "shards", Rejects("fail"))
    with pytest.raises(InputError, match="the prompt with id 1 has no label"):
        train(tmp_path / "shards", tmp_path / "run", recipe("base", SHORT))
    with pytest.raises(PdtoolsError, match="treereg_layer: these data are prompts"):
        train(labels, tmp_path / "run", recipe("base", SHORT, treereg_layer=1))
    with pytest.raises(PdtoolsError, match="does not read windows"):
        train(labels, tmp_path / "run", Recipe(model="rnn", train=SHORT))


def test_predictions_are_the_likeliest_answers(labels: Path) -> None:
    shards = ShardSet.open(labels)
    model = model_of("pushdown", shards)
    rows = PromptRows(shards, model, rejects=Rejects("fail"))
    found = answer_prompts(
        model.loss, model, rows.form, rows_of(shards), device="cpu", limits=BatchLimits(sentences=2)
    )
    name, value = rows.main_score(model.loss, "cpu", BatchLimits(tokens=100))
    assert (name, value) == ("accuracy", accuracy(shards.answers, decide(found)))


def test_batches_of_one_length_hold_all_labels(labels: Path) -> None:
    """Their answers differ in length; the prompts do not."""
    shards = ShardSet.open(labels)
    rows = PromptRows(shards, model_of("pushdown", shards), rejects=Rejects("fail"))
    assert {*shards.lengths.tolist()} == {14, 15}
    assert {*rows.lengths.tolist()} == {15}


class UntilLearned(NullListener):
    """Stops a run when nearly all answers are right."""

    learned = False

    def evaluated(self, step: int, scores: Mapping[str, Any], is_best: bool) -> None:
        self.learned |= scores["accuracy"] > 0.97

    def __call__(self) -> bool:
        return self.learned


def test_a_label_that_trees_alone_tell_is_learned(tmp_path: Path) -> None:
    """Whether two roots split alike: the words are random."""
    shards = [toy_prompts(tmp_path / name, n, n) for name, n in (("train", 1024), ("valid", 100))]
    config = TrainConfig(
        steps=1500,
        learning_rate=3e-3,
        schedule="constant",
        warmup_steps=20,
        batch_tokens=0,
        batch_sentences=32,
        eval_every=50,
        loss="answer",
    )
    shape: dict[str, Any] = {"d_model": 32, "heads": 4, "d_ff": 128, "positions": "learned", "max_length": 24}
    shape["initialization"] = "fan-in"  # with which it is learned sooner
    stop = UntilLearned()
    made = recipe("pushdown", config, **shape)
    report = train(shards[0], tmp_path / "run", made, valid=shards[1], listener=stop, stop=stop)
    assert report["best"]["accuracy"] > 0.97
    assert max((ShardSet.open(shards[1]).answers == label).mean() for label in (0, 1)) < 0.75


def test_a_validation_loss_divides_numbers_by_their_count() -> None:
    sums = LossSums(
        {"token_nll": 6.0, "tokens": 3, "squared_error": 10.0, "numbers": 2, "treereg": 9.0, "trees": 1}
    )
    assert sums.loss(TrainConfig()) == pytest.approx(6 / 3 + 10 / 2)
