"""A task from its data to the scores of two models, by commands."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pdtools.cli.main import run
from pdtools.evaluation.results import read_results

TREES = (
    "(S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .))\n(S (X Premise) (: :) (NP (DT No) (NN dog)) (. .))\n"
    "(S (X Hypothesis) (: :) (S (NP (NNS Cats)) (VP (VBP sleep))))\n(S (X Label) (: :) (NP (DT Yes)))\n"
    "(S (X Sentence1) (: :) (NP (DT The) (NNS cats)))\n(S (X Sentence2) (: :) (S (NN Dogs) (VBP bark)))\n"
)
SMALL = [
    f"--set={setting}"
    for setting in (
        "config.layers=1",
        "config.d_model=16",
        "config.heads=2",
        "config.d_ff=32",
        "train.steps=3",
        "train.batch_sentences=4",
        "train.accumulate=1",
        "train.eval_every=1",
    )
] + ["--threads", "1", "--device", "cpu", "-q"]
PAIRS = [("The dog barks.", "The cats sleep"), ('A "dog. No cats.', "Dogs bark."), ("Cats", "Dogs?")] * 3


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of windows, a GLUE-shaped RTE and STS-B, their prompts, trees, shards, and models of these."""
    work = tmp_path_factory.mktemp("prompts")
    (work / "a.mrg").write_text(TREES)
    tapes = ["tapes", f"{work}/a.mrg", "--layout", "window", "--window", "40", "--min-count", "1"]
    bpe = ["--tokenizer", "bpe", "--vocab-size", "330", "--text-style", "raw"]
    assert run([*tapes, *bpe, "-o", f"{work}/windows", "-q"]) == 0
    assert run(["train", f"{work}/windows", "-o", f"{work}/stage1", "--config", "glue", *SMALL]) == 0
    for task, column, values in (
        ("rte", "label", ["entailment", "not_entailment"]),
        ("stsb", "score", ["0.5", "4.2", "3"]),
    ):
        (work / task).mkdir()
        lines = [f"{i}\t{a}\t{b}\t{values[i % len(values)]}" for i, (a, b) in enumerate(PAIRS)]
        text = "\r\n".join([f"index\tsentence1\tsentence2\t{column}", *lines, ""])
        (work / task / "train.tsv").write_text(text, newline="")
        prompts, trees, shards = (f"{work}/{task}{ending}" for ending in (".jsonl", ".trees", ".shards"))
        made = ["tapes", trees, "--prompts", prompts, "--layout", "window", "--window", "60"]
        for command in (
            ["prompts", f"{work}/{task}", "--task", task, "-o", prompts],
            ["decode", prompts, "--from", "parts", "--model", f"{work}/stage1", "--beam", "4", "-o", trees],
            [*made, "--tokenizer", f"{work}/windows", "-o", shards],
        ):
            assert run([*command, "-q"]) == 0
        for model in ("pushdown", "transformer"):
            command = ["train", shards, "--valid", shards, "-o", f"{work}/{task}-{model}", "--model", model]
            assert run([*command, "--config", "glue", *SMALL]) == 0
    return work


def evaluate(work: Path, task: str, model: str, *more: str) -> int:
    command = [
        "eval-classify",
        f"{work}/{task}.shards",
        "--model",
        f"{work}/{task}-{model}",
        "--samples",
        "50",
    ]
    return run([*command, "--device", "cpu", "-q", *more])


@pytest.mark.parametrize("task", ["rte", "stsb"])
def test_two_models_are_evaluated_and_compared(
    work: Path, tmp_path: Path, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["accuracy"] if task == "rte" else ["spearman", "pearson"]
    for model in ("pushdown", "transformer"):
        assert evaluate(work, task, model, "-o", f"{tmp_path}/{model}/{task}") == 0
        assert f"{task} (percent)" in capsys.readouterr().out
    document, items = read_results(tmp_path / "pushdown" / task)
    assert [*document["scores"]] == [*names, "intervals"]
    assert document["counts"]["items"] == len(items) == 9
    frame = items.to_pandas()
    if task == "rte":
        columns = ["logprob_entailment", "logprob_not_entailment"]
        best = frame[columns].idxmax(axis=1).str.removeprefix("logprob_")
        assert (frame.predicted == best).all()
        assert document["scores"]["accuracy"] == (frame.label == frame.predicted).mean()
    else:
        assert frame.predicted.between(0, 5).all()
        assert (frame.predicted == frame.regression.clip(0, 5)).all()
        wanted = pd.Series(frame.target).corr(frame.predicted)
        if pd.notna(wanted):
            assert document["scores"]["pearson"] == pytest.approx(wanted, abs=1e-9)
    state = json.loads((work / f"{task}-pushdown" / "last" / "trainer" / "state.json").read_text())
    assert state["best_scores"][names[0]] == pytest.approx(
        document["scores"][names[0]] or 0, rel=2e-6, abs=1e-6
    )
    folders = [f"{tmp_path}/{model}" for model in ("pushdown", "transformer")]
    assert run(["compare", *folders]) == 0
    assert f"{task}, " in capsys.readouterr().out
    if document["scores"][names[0]] is not None:
        assert run(["compare", *(f"{folder}/{task}" for folder in folders), "--samples", "20", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["scores"][0]["groups"][0]["mean"] == pytest.approx(100 * document["scores"][names[0]])


def test_jobs_and_batches_change_nothing(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["eval-classify", f"{work}/rte.shards", "--model", f"{work}/rte-pushdown", "--samples", "50"]
    jobs = [["--shard", f"{i}/2", "-o", f"{tmp_path}/two"] for i in range(2)]
    for more in (["-o", f"{tmp_path}/one"], *jobs, ["-o", f"{tmp_path}/three", "--search", "max_batch=1"]):
        arguments = [*command, "--device", "cpu", "-q", *more]
        monkeypatch.setattr("sys.argv", ["pdtools", *arguments])
        assert run(arguments) == 0
    assert run(["merge", f"{tmp_path}/two"]) == 0
    one, two, three = (read_results(tmp_path / name)[1].to_pandas() for name in ("one", "two", "three"))
    pd.testing.assert_frame_equal(one, two)
    pd.testing.assert_frame_equal(one, three, atol=1e-5)


def test_jobs_of_other_weights_are_refused(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["eval-classify", f"{work}/rte.shards", "--model", f"{work}/rte-pushdown", "--device", "cpu"]
    command += ["--samples", "50", "-o", f"{tmp_path}/out"]
    assert run([*command, "--shard", "0/2"]) == 0
    assert run([*command, "--shard", "1/2", "--dtype", "bf16"]) == 1
    assert "begun with other settings: dtype was 'float32', now 'bf16' (" in capsys.readouterr().err


def test_predictions_have_the_form_of_glue(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without labels too, and with the task's first label where two are equally probable."""
    lines = (work / "rte" / "train.tsv").read_text().splitlines()
    (tmp_path / "test.tsv").write_text("\n".join(line.rpartition("\t")[0] for line in lines) + "\n")
    prompts, tapes = (
        ["prompts", str(tmp_path), "--split", "test", "--task", "rte"],
        ["tapes", f"{work}/rte.trees"],
    )
    assert run([*prompts, "-o", f"{tmp_path}/x.jsonl", "-q"]) == 0
    layout = ["--layout", "window", "--window", "60", "--tokenizer", f"{work}/windows", "-q"]
    assert run([*tapes, "--prompts", f"{tmp_path}/x.jsonl", "-o", f"{tmp_path}/shards", *layout]) == 0
    command = ["eval-classify", f"{tmp_path}/shards", "--model", f"{work}/rte-pushdown", "--device", "cpu"]
    assert run([*command, "-o", f"{tmp_path}/results"]) == 0
    document, items = read_results(tmp_path / "results")
    assert document["scores"] == {"accuracy": None, "intervals": None}
    assert document["counts"]["items_labelled"] == 0
    assert items["item"].to_pylist() == [str(number) for number in range(9)]
    assert set(items["likeliest"].to_pylist()) <= {"entailment", "not_entailment"}
    assert run(["train", f"{tmp_path}/shards", "-o", f"{tmp_path}/run", "--config", "glue", *SMALL]) == 1
    assert "has no label" in capsys.readouterr().err


def test_a_language_model_answers_too_but_gives_no_numbers(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["--model", f"{work}/stage1", "--device", "cpu", "--samples", "9", "--seed", "4", "-q"]
    assert run(["eval-classify", f"{work}/rte.shards", *base, "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert [settings[name] for name in ("trained_on", "bootstrap_samples", "seed")] == [None, 9, 4]
    for shards, message in (("stsb.shards", "not trained to give numbers"), ("windows", "hold no prompts")):
        assert run(["eval-classify", f"{work}/{shards}", *base]) == 1
        assert message in capsys.readouterr().err


def test_what_commands_refuse(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = str(work / "rte"), f"{tmp_path}/x.jsonl"
    (tmp_path / "y.jsonl.rejects.jsonl").write_text("of another run\n")
    for arguments, status, message in (
        (["prompts", data, "--task", "rte", "-o", f"{tmp_path}/y.jsonl"], 1, "rejects.jsonl: exists already"),
        (["prompts", data, "--task", "cola", "-o", out], 1, "nor a task of this name"),
        (["prompts", data, "--task", "rte", "--split", "dev", "-o", out], 1, "no dev.tsv"),
        (["prompts", data, "--task", "stsb", "-o", out], 1, "no number"),
        (["prompts", data, "--task", "rte", "-o", out, "--hold-out", out], 2, "two outputs"),
        (
            ["decode", f"{work}/a.mrg", "--from", "parts", "--model", f"{work}/stage1"],
            1,
            "bracketed trees, not",
        ),
        (
            ["tapes", f"{work}/rte.trees", "--prompts", f"{work}/rte.jsonl", "-o", out],
            2,
            "for --layout window",
        ),
    ):
        assert run(arguments) == status
        assert message in capsys.readouterr().err
    prompts = ["tapes", f"{work}/rte.trees", "--prompts", f"{work}/rte.jsonl", "-o", out]
    for more, message in (
        ([], "need the --tokenizer"),
        (["--documents", "file"], "combined with --documents"),
        (["--workers", "2"], "drop --workers"),
    ):
        assert run([*prompts, "--layout", "window", "--window", "60", *more]) == 2
        assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("names", [("entailment", "not_entailment"), ("not_entailment", "entailment")])
def test_labels_have_the_names_that_are_given(
    names: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"sentence1": f"A {i}", "sentence2": "B", "label": label} for i, label in enumerate((0, 1, 1))]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    # A Parquet file of Hugging Face's names them too, and may do so wrongly.
    own = {"info": {"features": {"label": {"names": ["entailment", "not_entailment"]}}}}
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"huggingface": json.dumps(own)})
    pq.write_table(table, tmp_path / "x.parquet")
    for file in ("x.jsonl", "x.parquet"):
        command = ["prompts", f"{tmp_path}/{file}", "--task", "rte", "-o", f"{tmp_path}/o.jsonl", "--json"]
        assert run([*command, "--label-names", ",".join(names), "--overwrite"]) == 0
        assert json.loads(capsys.readouterr().out)["labels"] == {names[0]: 1, names[1]: 2}
        _, *items = map(json.loads, (tmp_path / "o.jsonl").read_text().splitlines())
        assert [item["label"] for item in items] == [names[0], names[1], names[1]]


def test_a_tenth_is_held_out(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"sentence1": f"A {i}", "sentence2": "B", "label": "entailment"} for i in range(100)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    outs = ["-o", f"{tmp_path}/train.jsonl", "--hold-out", f"{tmp_path}/valid.jsonl"]
    assert run(["prompts", f"{tmp_path}/x.jsonl", "--task", "rte", *outs, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["items"] + report["held_out"] == 100
    assert 3 <= report["held_out"] <= 20
    assert len((tmp_path / "valid.jsonl").read_text().splitlines()) == report["held_out"] + 1


def test_items_that_cannot_be_read_are_excluded_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.dumps({"sentence1": f"A {i}", "sentence2": "B", "label": "entailment"}) for i in range(40)]
    rows[3:3], rows[20:20] = ["[1]"], [json.dumps({"sentence1": "A", "label": "entailment"})]
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    out, held = tmp_path / "o.jsonl", tmp_path / "held.jsonl"
    command = ["prompts", f"{tmp_path}/x.jsonl", "--task", "rte", "-o", str(out), "--hold-out", str(held)]
    assert run(command) == 1
    assert "x.jsonl:4: " in capsys.readouterr().err
    assert not out.exists()
    assert not held.exists()
    assert run([*command, "--on-error", "skip", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["items"] + report["held_out"], sum(report["left_out"].values())) == (40, 2)
    rejected = [json.loads(line) for line in (tmp_path / "o.jsonl.rejects.jsonl").read_text().splitlines()]
    assert [each["line"] for each in rejected] == [4, 21]
    # A bad line decides nothing of the others: the same ones are held out, with the same content.
    kept = [[json.loads(line) for line in file.read_text().splitlines()[1:]] for file in (out, held)]
    (tmp_path / "x.jsonl").write_text("\n".join(row for i, row in enumerate(rows) if i not in (3, 20)))
    assert run([*command, "--overwrite", "-q"]) == 0
    parts = [[json.loads(line) for line in file.read_text().splitlines()[1:]] for file in (out, held)]
    assert [[each["sentences"] for each in items] for items in kept] == [
        [each["sentences"] for each in items] for items in parts
    ]
    numbers = sorted(int(each["id"]) for items in kept for each in items)
    assert numbers == [number for number in range(42) if number not in (3, 20)]  # as in the data
