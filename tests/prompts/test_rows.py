"""Prompts and trees as rows: what is read before the answer is the same for all labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_prompts import HOW_LATE, WINDOW, toy_items, toy_prompts

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects
from pdtools.prompts.items import PromptItem, read_prompts, write_items
from pdtools.prompts.rows import PromptForm, prompt_shards
from pdtools.prompts.tasks import PromptTask, read_task
from pdtools.shards import ShardSet
from pdtools.tokenization import Tokenizer, train_bpe_tokenizer, train_word_tokenizer
from pdtools.tokenization.words import split_words
from pdtools.trees import tape

SENTENCES = ('Premise: A "dog" won\'t bark.', "It sleeps.", "Hypothesis: Dogs (all) bark.")
TREES = (
    "(X (XX Premise) (XX :) (X (X (XX A) (XX ``) (XX dog) (XX '')) (X (XX wo) (XX n't) (XX bark))) (XX .))",
    "(X (X (XX It) (XX sleeps)) (XX .))",
    "(X (X (XX Hypothesis) (XX :)) (X (XX Dogs) (X (XX -LRB-) (XX all) (XX -RRB-)) (XX bark)) (XX .))",
)


def tokenizer_of(style: str) -> Tokenizer:
    if style == "ptb":
        words = [word for text in SENTENCES for word in split_words(text, "ptb").words]
        return train_word_tokenizer([*words, "Label", "Yes", "No", "very", "well"], min_count=1)
    corpus = [split_words(text, "raw") for text in (*SENTENCES, "Label: Yes", "Label: No")]
    return train_bpe_tokenizer(corpus, size=300, min_count=1, text_style="raw")


def made(
    folder: Path,
    items: list[PromptItem],
    trees: list[str],
    tokenizer: Tokenizer,
    task: PromptTask,
    rejects: Rejects,
    window: int = 60,
) -> ShardSet:
    folder.mkdir()
    write_items(str(folder / "x.jsonl"), task, items)
    (folder / "x.trees").write_text("\n".join(trees) + "\n")
    prompts, files = read_prompts(str(folder / "x.jsonl")), [str(folder / "x.trees")]
    settings = replace(WINDOW, window=window)
    prompt_shards(files, prompts, tokenizer, settings, folder / "shards", rejects)
    return ShardSet.open(folder / "shards")


@pytest.mark.parametrize("style", ["ptb", "raw"])
@pytest.mark.parametrize("no", ["No", "very well"])
def test_rows_up_to_the_answer_are_the_same_for_all_labels(tmp_path: Path, style: str, no: str) -> None:
    task = replace(read_task("rte"), answers={"entailment": "Yes", "not_entailment": no})
    items = [PromptItem(str(i), SENTENCES, label) for i, label in enumerate((*task.labels, None))]
    tokenizer = tokenizer_of(style)
    shards = made(tmp_path / "x", items, [*TREES] * 3, tokenizer, task, Rejects("fail"))
    assert shards.answers.tolist() == [0, 1, -1]
    form = PromptForm.described(shards.manifest["settings"], "there")
    assert form == PromptForm.of(task, tokenizer)
    assert form is not None
    begin = form.begin(shards.tokens(0), tokenizer.root_id)
    before = begin + 1 + len(form.lead_in)
    tapes = [tape(shards.attach(i))[:before, :before] for i in range(3)]
    for i in range(3):
        assert shards.item(i) == str(i)
        assert (shards.tokens(i)[:before] == shards.tokens(0)[:before]).all()
        assert (shards.attach(i)[:before] == shards.attach(0)[:before]).all()
        assert (tapes[i] == tapes[0]).all()
        # Lead-in and answer shift, but for the last token: the tape's rows have no new depths.
        assert (shards.attach(i)[begin:-1] == np.arange(begin, len(shards.attach(i)) - 1)).all()
        assert shards.attach(i)[-1] == begin
        for label in range(2):  # as if the row had been made with this label
            tokens, attach = form.with_answer(shards.tokens(i), shards.attach(i), label, tokenizer.root_id)
            assert (tokens == shards.tokens(label)).all()
            assert (attach == shards.attach(label)).all()
    assert shards.text(0).splitlines()[-1] == "Label : Yes"
    text = tokenizer.token_text(int(shards.tokens(0)[-1]))
    assert text in "Yes"


def test_items_that_do_not_fit_are_excluded(tmp_path: Path) -> None:
    task = read_task("rte")
    items = [PromptItem(str(i), SENTENCES, "entailment") for i in range(4)]
    items[1] = PromptItem("1", SENTENCES * 5, None)
    placeholder = "(X (XX It) (XX sleeps) (XX .))"
    trees = [*TREES, *TREES * 5, TREES[0], placeholder, TREES[2], *TREES]
    rejects = Rejects("fail")  # which such items do not make fail
    shards = made(tmp_path / "x", items, trees, tokenizer_of("ptb"), task, rejects)
    assert [shards.item(i) for i in range(len(shards))] == ["0", "3"]
    assert [record["line"] for record in rejects] == [3, 4]
    assert {record["file"] for record in rejects} == {str(tmp_path / "x" / "x.jsonl")}
    assert [record["text"] for record in rejects] == [" ".join(SENTENCES * 5), " ".join(SENTENCES)]
    assert shards.manifest["counts"]["left_out"] == 2


@pytest.mark.parametrize("style", ["ptb", "raw"])
@pytest.mark.parametrize("task", [read_task("rte"), replace(HOW_LATE, parts=read_task("rte").parts)])
def test_an_item_that_just_fits_is_in(tmp_path: Path, style: str, task: PromptTask) -> None:
    """A window has room for so many tokens, the ROOT of each sentence and of the answer among them."""
    items = [PromptItem("0", SENTENCES, None)]
    tokenizer = tokenizer_of(style)
    whole = made(tmp_path / "whole", items, [*TREES], tokenizer, task, Rejects("fail"))
    long = len(whole.tokens(0))
    for window, fits in ((long + 1, True), (long, True), (long - 1, False)):
        rejects = Rejects("fail")
        folder = tmp_path / str(window)
        if not fits:
            with pytest.raises(PdtoolsError, match="1 excluded: longer than the window"):
                made(folder, items, [*TREES], tokenizer, task, rejects, window)
            assert len(rejects) == 1
            continue
        shards = made(folder, items, [*TREES], tokenizer, task, rejects, window)
        assert (shards.tokens(0) == whole.tokens(0)).all()
        assert (shards.attach(0) == whole.attach(0)).all()
        assert not len(rejects)


@pytest.mark.parametrize(
    ("trees", "message"),
    [
        (TREES[:2], "no tree for the sentence 'Hypothesis"),
        ((*TREES, TREES[0]), "x.trees:4: more trees than the prompts have sentences"),
        ((TREES[0], TREES[2], TREES[1]), "x.trees:2: not a tree of the sentence 'It sleeps.'"),
    ],
)
def test_trees_are_those_of_the_sentences(tmp_path: Path, trees: tuple[str, ...], message: str) -> None:
    items = [PromptItem("0", SENTENCES, "entailment")]
    with pytest.raises(InputError, match=message):
        made(tmp_path / "x", items, [*trees], tokenizer_of("ptb"), read_task("rte"), Rejects("fail"))


def test_answers_are_words_that_the_tokenizer_tells_apart() -> None:
    rte = read_task("rte")
    few = train_word_tokenizer(["Label", ":"], min_count=1)
    with pytest.raises(PdtoolsError, match="the same tokens for different answers"):
        PromptForm.of(rte, few)
    longer = replace(rte, answers={"entailment": "very well", "not_entailment": "very"})
    with pytest.raises(PdtoolsError, match="'very well' begins with the answer 'very', so"):
        PromptForm.of(longer, tokenizer_of("ptb"))
    glued = replace(rte, answer="Label:no{label}")
    with pytest.raises(PdtoolsError, match="not words of its own"):
        PromptForm.of(glued, tokenizer_of("ptb"))


def test_numbers_have_no_answer_part(tmp_path: Path) -> None:
    folder = toy_prompts(tmp_path / "x", 5, 1, HOW_LATE)
    shards, (items, _) = ShardSet.open(folder), toy_items(5, 1, HOW_LATE)
    assert shards.targets.tolist() == [item.label for item in items]
    assert [shards.text(i) for i in range(5)] == ["\n".join(item.sentences) for item in items]
    form = PromptForm.described(shards.manifest["settings"], folder)
    assert form == PromptForm(HOW_LATE)


def test_damaged_settings_are_refused(tmp_path: Path) -> None:
    from pdtools.training.prompts import form_of

    folder = toy_prompts(tmp_path / "x", 3, 1)
    manifest = json.loads((folder / "manifest.json").read_text())
    shards = ShardSet.open(folder)
    for change, message in (
        ({"answers": [[3], [4]]}, "does not end with answer"),
        ({"task": {"name": "x"}}, "a task without"),
        ({"lead_in": None}, "damaged settings"),
    ):
        form = {**manifest["settings"]["prompt_form"], **change}
        settings = {**manifest["settings"], "prompt_form": form}
        with pytest.raises(InputError, match=message):
            form_of(replace(shards, manifest={**manifest, "settings": settings}))
