"""Tasks as TOML, and what a prompt of a record says."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdtools.errors import InputError
from pdtools.prompts.tasks import TASKS, read_task, task_from

GOOD = """name = "x"
parts = ["A: {a}."]
answer = "B: {label}"
metric = "accuracy"
answers = {p = "P", q = "Q"}
"""


def test_the_prompts_of_the_paper() -> None:
    assert TASKS.names == ["mrpc", "rte", "sst5", "stsb"]
    pair = {"sentence1": "A dog barks", "sentence2": "It\tsleeps ", "sentence": "Fine"}
    said = {name: " ".join(read_task(name).write(pair)) for name in TASKS.names}
    assert said == {
        "rte": "Premise: A dog barks. Hypothesis: It sleeps.",
        "mrpc": "Sentence1: A dog barks. Sentence2: It sleeps.",
        "sst5": "Sentence: Fine.",
        "stsb": "Sentence1: A dog barks. Sentence2: It sleeps",
    }
    assert {name: read_task(name).answer for name in TASKS.names} == {
        "rte": "Label: {label}",
        "mrpc": "Label: {label}",
        "sst5": "Sentiment: {label}",
        "stsb": None,
    }
    assert read_task("rte").answers == {"entailment": "Yes", "not_entailment": "No"}


def test_one_of_two_full_stops_is_dropped() -> None:
    rte = read_task("rte")
    pair = {"sentence1": "A dog barks.", "sentence2": "Does it?"}
    assert rte.write(pair) == ["Premise: A dog barks.", "Hypothesis: Does it?."]
    # Where the template has none, one stays.
    assert read_task("stsb").write({"sentence1": "A.", "sentence2": "B."}) == [
        "Sentence1: A.",
        "Sentence2: B.",
    ]
    # What is written in braces in the data is no field.
    assert rte.write({"sentence1": "{sentence2}", "sentence2": "B"})[0] == "Premise: {sentence2}."


def test_a_task_of_ones_own_goes_through_json(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(GOOD)
    task = read_task(str(tmp_path / "x.toml"))
    assert task.fields == ["a"]
    assert task.labels == ["p", "q"]
    assert task_from(task.record(), "there") == task


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("name", "nom"), "no 'nom'"),
        (('"accuracy"', '"best"'), "metric must be"),
        (('parts = ["A: {a}."]\n', ""), "a task without parts"),
        (('["A: {a}."]', '["A: {label}"]'), "goes into answer"),
        (('"B: {label}"', '"B: {label}."'), "lead-in that ends with"),
        (('"B: {label}"', '"{label}"'), "lead-in that ends with"),
        (('q = "Q"', 'q = " P"'), "of different words"),
        (('"accuracy"', '"f1"'), "one of the labels as positive"),
        (('"accuracy"', '"spearman"'), "metric must be accuracy"),
        (('answer = "B: {label}"\n', ""), "either answer is given"),
        (('answer = "B: {label}"', "range = [0, 5]"), "a task of numbers"),
        (("=", "?"), "not TOML"),
    ],
)
def test_what_is_no_task_is_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    (tmp_path / "x.toml").write_text(GOOD.replace(*change))
    with pytest.raises(InputError, match=message) as error:
        read_task(str(tmp_path / "x.toml"))
    assert "x.toml" in str(error.value)


def test_unknown_names_are_told_the_known_ones() -> None:
    with pytest.raises(InputError, match="tasks: mrpc, rte, sst5, stsb"):
        read_task("cola")


def test_a_file_of_a_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = TASKS.text("rte")
    (tmp_path / "rte").write_text(text.replace('"Yes"', '"True"'))
    monkeypatch.chdir(tmp_path)
    assert read_task("rte").answers["entailment"] == "True"
