"""compare, on results that eval-blimp wrote, and on a table of stimuli."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from search_oracle import save_checkpoints
from toy_sets import write_pairs

from pdtools.cli.main import run
from pdtools.evaluation.results import ITEMS, Results, write_results


def test_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models, _ = save_checkpoints(tmp_path / "models")
    pairs = [("a b", "b a"), ("a c", "c a"), ("b c", "c b"), ("a b c", "a c b")]
    data = write_pairs(tmp_path / "toy.jsonl", pairs)
    for name in ("base", "pushdown"):
        out = str(tmp_path / name)
        assert run(["eval-blimp", str(data), "--model", str(models[name]), "--device", "cpu", "-o", out]) == 0
    capsys.readouterr()
    folders = [str(tmp_path / "base"), str(tmp_path / "pushdown")]
    assert run(["compare", *folders]) == 0
    assert "only a" in capsys.readouterr().out
    assert run(["compare", *folders, "--json", "--seed", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    levels = [score["level"] for score in found["scores"] if not score["is_margin"]]
    assert levels == ["overall", "field", "phenomenon", "paradigm"]
    assert found["scores"][0]["items"] == 4
    assert found["settings"]["seed"] == 3
    assert run(["compare", folders[0], str(tmp_path / "models")]) == 1
    assert "not a folder of results" in capsys.readouterr().err


def test_effects_of_a_design(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of items 1 to 3, a factor adds 2, 2 and 5 bits: 3 on average, with an error of 1."""
    table, out = tmp_path / "t.csv", tmp_path / "e.csv"
    rows = [
        f"{item},{a}_{b},{model},{region},{item + region * (a == 'amb') * (2 if item < 3 else 5)}"
        for model in "mn"
        for item in (1, 2, 3)
        for a in ("unamb", "amb")
        for b in ("short", "long")
        for region in (0, 1)
    ]
    table.write_text("\n".join(["Item,Condition,model,region,surprisal", *rows]))
    asked = ["compare", str(table), "--factors", "x,y=long"]
    assert run([*asked, "-o", str(out), "--region", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[:3] == [
        "region 1, m, 3 items",
        "effect           bits  95%            bootstrap  t(2)  p",
        "x: amb − unamb   3.00  [-1.30, 7.30]          -  3.00  0.095",
    ]
    header, *lines = out.read_text().splitlines()
    assert (
        header == "region,model,effect,contrast,bits,low,high,boot_low,boot_high,t,df,p,items,left_out,seeds"
    )
    assert len(lines) == 2 * 3 * 3
    assert lines[9].startswith("1,m,x,amb − unamb,3.0,-1.302")
    assert lines[10] == "1,m,y,short − long,0.0,,,,,,,,3,0,1"
    assert run([*asked, "-o", str(out)]) == 1
    assert "e.csv" in capsys.readouterr().err
    assert run([*asked, "--group", "g=m", "--group", "g=n", "--json", "--seed", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["factors"] == {"x": ["unamb", "amb"], "y": ["long", "short"]}
    assert (found["groups"], found["region"]) == ({"g": ["m", "n"]}, "1")
    assert found["settings"] == {"seed": 3, "samples": 10_000}
    assert "with g (mean of 2 models), the effect of x (amb − unamb) was 3.00 bits" in found["sentence"]
    assert run([*asked, "--latex", "--details", "--baseline", "n"]) == 0
    assert capsys.readouterr().out.count("toprule") == 2 * 3
    assert run(["compare", str(tmp_path), "--factors", "x,y"]) == 2
    assert "--factors goes with a table of pdtools surprisal" in capsys.readouterr().err
    table.write_text(table.read_text().replace("Condition", "Type"))
    assert run(["compare", str(table)]) == 1
    assert "no item has two conditions to compare (--factors NAME,NAME says" in capsys.readouterr().err


def test_two_models_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models, _ = save_checkpoints(tmp_path / "models")
    trees, shards = tmp_path / "toy.trees", tmp_path / "shards"
    trees.write_text("(S (A a) (B b))\n(S (X (A a) (B c)) (B b))\n")
    assert run(["tapes", str(trees), "--tokenizer", str(models["base"]), "-o", str(shards)]) == 0
    for name in ("base", "pushdown"):
        out = tmp_path / "results" / name / "ppl"
        assert (
            run(["eval-ppl", str(shards), "--model", str(models[name]), "--device", "cpu", "-o", str(out)])
            == 0
        )
    capsys.readouterr()
    folders = [str(tmp_path / "results" / name) for name in ("base", "pushdown")]
    assert run(["compare", *folders, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document["provenance"]["inputs"]) == {*folders}
    for place, folder in enumerate(folders):
        scores = json.loads((Path(folder) / "ppl" / "results.json").read_text())["scores"]
        found = [score["groups"][place]["mean"] for score in document["scores"]]
        assert found == pytest.approx([scores["ppl_word_given_trees"], scores["ppl_word_marginal"]])
    assert run(["compare", *folders]) == 0
    assert "perplexity per word, marginal " in capsys.readouterr().out
    fewer = Path(folders[1]) / "ppl" / "results.json"
    document = json.loads(fewer.read_text())
    for folder in folders:
        path = Path(folder) / "ppl" / "results.json"
        older = {name: value for name, value in document.items() if name != "evaluation"}
        path.write_text(json.dumps({**older, "settings": {"task": "none of ours"}}))
    assert run(["compare", *folders]) == 1
    assert "results of an evaluation that is not known here: none of ours" in capsys.readouterr().err


def write_scores(folder: Path, scores: dict[str, Any], settings: dict[str, Any]) -> None:
    counts = {"prefixes": 400, "pairs": 5}
    results = Results(scores=scores, counts=counts, settings=settings, tables={ITEMS: pa.table({"x": [1]})})
    write_results(folder, results, {})


def test_each_set_has_its_own_number_of_prefixes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, numbers in (("a", (100, 300)), ("b", (100, 200))):
        sets = zip(("near", "far"), numbers, strict=True)
        by_set = {of: {"accuracy": 0.5, "prefixes": number} for of, number in sets}
        write_scores(tmp_path / name / "dyck", {"by_set": by_set}, {"task": "dyck"})
    assert run(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 0
    near, far = json.loads(capsys.readouterr().out)["scores"]
    assert (near["score"], near["notes"]) == ("closing bracket, near (%)", [])
    assert (far["score"], far["notes"]) == (
        "closing bracket, far (%)",
        ["over 300 prefixes and 200 prefixes"],
    )


@pytest.mark.parametrize(
    "other", [{"as_released": True}, {"trained_lengths": [1, 20]}, {"formal_task": "sm"}]
)
def test_answers_to_other_questions_are_not_compared(
    other: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = {"task": "task", "formal_task": "rs", "as_released": False, "trained_lengths": [1, 40]}
    for name, settings in (("a", same), ("b", {**same, **other})):
        write_scores(tmp_path / name / "rs", {"accuracy_beyond_training": 0.5}, settings)
    folders = [str(tmp_path / name) for name in "ab"]
    assert run(["compare", folders[0], "--overview"]) == 0
    assert "rs, symbols of longer strings (%)" in capsys.readouterr().out
    assert run(["compare", *folders]) == 1
    assert "another evaluation than" in capsys.readouterr().err


def blimp(folder: Path, pairs: int, *, limit: int | None = None, **of_model: Any) -> None:
    rows = [
        {
            "paradigm": paradigm,
            "item": str(i),
            "prediction": 1,
            "formula": "good > bad",
            "phenomenon": None,
            "field": None,
            "correct": i % 2 == 0,
        }
        for paradigm in ("one", "two")
        for i in range(pairs)
    ]
    settings = {"task": "blimp", "limit": limit, "beam": None, "eos": True, **of_model}
    write_results(
        folder,
        Results(scores={}, counts={}, settings=settings, tables={ITEMS: pa.Table.from_pylist(rows)}),
        {},
    )


def ppl(folder: Path, *, eos: bool, old: bool = False) -> None:
    """Two sentences of five words, with and without end-of-sentence."""
    scores: dict[str, Any] = {"ppl_word_marginal": 20.0 if eos else 31.0}
    counts = {"sentences": 2, "words": 7 if eos else 5}
    if not old:
        scores["ppl_word_without_eos_marginal"] = 30.0 if eos else 31.0
        counts["words_without_eos"] = 5
    settings = {"task": "ppl", "eos_counted": eos}
    write_results(
        folder,
        Results(scores=scores, counts=counts, settings=settings, tables={ITEMS: pa.table({"id": [0, 1]})}),
        {},
    )


def compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int = 0
) -> tuple[list[dict[str, Any]], str]:
    """Overall scores of two models, with all notes on them; and the table, or an error."""
    folders = [str(tmp_path / name) for name in "ab"]
    assert run(["compare", *folders, "--json"]) == status
    out = capsys.readouterr().out
    assert run(["compare", *folders]) == status
    said = capsys.readouterr()
    document = json.loads(out) if out else {"scores": []}
    rows = [
        {
            **{"score": score["score"], "p": score["pairs"][0]["p"], "excluded": document["refused"]},
            **dict(zip("ab", (group["mean"] for group in score["groups"]), strict=True)),
            "notes": [*score["notes"], *(note for said in document["notes"].values() for note in said)],
        }
        for score in document["scores"]
        if score["level"] == "overall"
    ]
    return rows, said.out or said.err


def test_perplexities_with_and_without_end_of_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ppl(tmp_path / "a" / "ppl", eos=True)
    ppl(tmp_path / "b" / "ppl", eos=False)
    (row,), _ = compared(tmp_path, capsys)
    assert row["score"] == "perplexity per word without end-of-sentence, marginal"
    assert (row["a"], row["b"], row["notes"]) == (pytest.approx(30), pytest.approx(31), [])
    ppl(tmp_path / "c" / "ppl", eos=False, old=True)
    assert run(["compare", str(tmp_path / "a"), str(tmp_path / "c")]) == 1
    assert ": only some count end-of-sentence" in capsys.readouterr().err
    ppl(tmp_path / "d" / "ppl", eos=True, old=True)
    assert run(["compare", str(tmp_path / "a"), str(tmp_path / "d"), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["scores"]
    assert row["score"] == "perplexity per word, marginal"


def test_one_benchmark_that_cannot_be_compared_leaves_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, limit in (("a", None), ("b", 10)):
        blimp(tmp_path / name / "blimp", limit or 12, limit=limit, beam=limit or 12)
    assert compared(tmp_path, capsys, status=1)[0] == []  # nothing is left
    for name in "ab":
        ppl(tmp_path / name / "ppl", eos=True)
    (good,), table = compared(tmp_path, capsys)
    (refused,) = good["excluded"]["blimp"]
    assert refused.endswith("only one has one 10 1; most pairs or prefixes: all and 10; beam: 12 and 10")
    assert (good["score"], good["a"]) == ("perplexity per word, marginal", pytest.approx(20))
    assert "only one has one 10" in " ".join(table.split())


def test_rows_of_other_layouts_are_not_taken_for_excluded_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, layout, ids in (("a", "sentence", [0, 1]), ("b", "block", [0])):
        ppl(tmp_path / name / "ppl", eos=True)
        change_settings(tmp_path / name / "ppl", layout=layout)
        items = pa.table({"id": ids, "marginal": [-9.0] * len(ids), "words": [4] * len(ids)})
        pq.write_table(items, tmp_path / name / "ppl" / "items.parquet")
    (row,), _ = compared(tmp_path, capsys)
    assert row["notes"] == ["layout: sentence and block"]


def change_settings(folder: Path, **settings: Any) -> None:
    document = json.loads((folder / "results.json").read_text())
    document["settings"].update(settings)
    (folder / "results.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [
        ("correct", ["yes", "no"] * 4, "column correct holds string, not booleans"),
        ("item", [[i] for i in range(8)], "column item holds list<"),
        ("paradigm", [3] * 8, "column paradigm holds int64, not strings"),
        ("phenomenon", [1.5] * 8, "column phenomenon holds double, not strings"),
        ("paradigm", ["one"] * 7 + [None], "column paradigm has a null"),
        ("item", ["0"] * 8, "two with the same paradigm, item, prediction"),
    ],
)
def test_items_of_other_types_are_one_line(
    column: str, values: list[Any], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        blimp(tmp_path / name, 4)
    file = tmp_path / "b" / "items.parquet"
    items = pq.read_table(file)
    pq.write_table(items.set_column(items.column_names.index(column), column, pa.array(values)), file)
    assert run(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'b'}: items: " in line
    assert reason in line


def test_notes_and_reasons_hide_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, style in (("a", "ptb"), ("b", "\x1b[2Jraw")):
        blimp(tmp_path / name / "blimp", 4, text_style=style)
        blimp(tmp_path / name / "bl\x1b[31mimp", 4 if name == "a" else 3)
    assert "text style: ptb and \\x1b[2Jraw" in compared(tmp_path, capsys)[1]
    assert "\x1b" not in compared(tmp_path, capsys)[1]
    assert run(["compare", *(str(tmp_path / name / "blimp") for name in "ab")]) == 0
    assert "\x1b" not in capsys.readouterr().out
    for name in "ab":
        (tmp_path / name).rename(tmp_path / f"{name} with a long name \x1b[31m")
    assert run(["compare", *(str(tmp_path / f"{name} with a long name \x1b[31m") for name in "ab")]) == 0
    assert "\x1b" not in capsys.readouterr().out
