"""eval-benchmark: what it prints and writes, in chunks too, and that all that reads results reads its own."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import tomllib
from search_oracle import tiny_model
from wide_items import wide_items

import pdtools
from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.models import save_checkpoint
from pdtools.report.view.results import results_page
from pdtools.tokenization import train_word_tokenizer

REPOSITORY = Path(__file__).resolve().parents[3]
# Nobody has foreseen it: three strings, of which the middle one has to be in the middle.
MINE = """
title = "Three of a kind"
files = "*.csv"
form = { delimiter = "|" }

[strings]
low = "{a} {b}"
middle = "{a}"
high = "{b|upper|lower}"

[predictions]
main = "low < middle & middle < high"
most = "high > max(low, middle) | high + middle > low - 1"
long = "middle > low"

[scores]
long = "per_word"

[levels]
kind = "{kind}"
"""
ROWS = "a|b|kind\na b|c|x\nc|a|x\na a b|b c|y\nb|c c|y\nzebra|c|y\nc|c|y\n"

CONDITIONAL = """
options = { context = "{start}", texts = "{options}", right = 0 }

[levels]
kind = "{kind}"
"""
CHOICES = [
    {"start": "a b", "options": ["c", "b c", "a a"], "kind": "x"},
    {"start": "b c", "options": ["c a b", "c", "b"], "kind": "y"},
    {"start": "c a", "options": ["b b", "a", "c b"], "kind": "y"},
]


@pytest.fixture
def mine(tmp_path: Path) -> list[str]:
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "mine.csv").write_text(ROWS)
    return ["eval-benchmark", str(tmp_path / "mine.csv"), "--as", str(tmp_path / "mine.toml"), "--quiet"]


def document(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def items(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / "items.parquet").to_pylist()
    return rows


@pytest.mark.parametrize("search", [["--beam", "4"], ["--beam", "auto"]])
def test_blimp_by_its_file_is_eval_blimp_to_the_bit(tmp_path: Path, search: list[str]) -> None:
    how = ["--model", "demo", *search, "--limit", "2", "--quiet"]
    data = str(REPOSITORY / "data" / "blimp")
    assert run(["eval-benchmark", data, "--as", "blimp", *how, "-o", str(tmp_path / "a")]) == 0
    assert run(["eval-blimp", data, *how, "-o", str(tmp_path / "b")]) == 0
    a, b = document(tmp_path / "a"), document(tmp_path / "b")
    for name in ("overall", "mean_of_items", "by_field", "by_phenomenon", "by_paradigm"):
        assert a["scores"][name] == b["scores"][name]
    assert a["scores"]["by_prediction"]["per_token"] == b["scores"]["by_prediction"]["per_token"]
    rows, pairs = (wide_items(tmp_path / name).to_dict("records") for name in "ab")
    assert len(rows) == len(pairs) == 24
    for row, pair in zip(rows, pairs, strict=True):
        for name in ("logprob_good", "logprob_bad", "tokens_good", "dropped_bad", "outcome", "correct"):
            assert row[name] == pair[name]


def test_one_that_nobody_has_foreseen(
    tmp_path: Path,
    models: dict[str, Path],
    mine: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, merged, base = (tmp_path / name for name in ("whole", "merged", "base"))
    searched = ["--model", str(models["pushdown"]), "--beam", "4", "--search", "max_batch=2"]
    assert run([*mine, *searched, "-o", str(whole)]) == 0
    for shard in ("0/2", "1/2"):
        command = [*mine, *searched, "-o", str(merged), "--shard", shard]
        monkeypatch.setattr("sys.argv", ["pdtools", *command])
        assert run(command) == 0
    assert run(["merge", str(merged)]) == 0
    assert run([*mine, "--model", str(models["base"]), "-o", str(base), "--json"]) == 0
    assert document(whole)["scores"] == document(merged)["scores"]
    assert items(whole) == items(merged)
    capsys.readouterr()

    found = document(whole)
    assert found["settings"]["task"] == "benchmark-mine"
    assert found["evaluation"]["title"] == "Three of a kind"
    assert found["counts"]["items"] == 6
    assert found["counts"]["items_scored"] == 5
    rows = items(whole)
    assert [row["prediction"] for row in rows[:4]] == [1, 2, 3, 1]
    assert (
        rows[12]["reason"]
        == "low: words unknown to the model: zebra; middle: words unknown to the model: zebra"
    )
    for row in wide_items(whole).to_dict("records"):
        if row["correct"] is not None:
            holds = row["logprob_low"] < row["logprob_middle"] < row["logprob_high"]
            assert (row["outcome"] == "right") == holds
    assert rows[15]["outcome"] in ("tie", "wrong")  # c is c

    by_hand = pdtools.load(models["base"]).evaluate(mine[3], mine[1])
    assert (by_hand.scores, by_hand.counts) == (document(base)["scores"], document(base)["counts"])
    assert by_hand.table("items").to_pylist() == items(base)

    assert run(["compare", str(whole), str(base), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)["scores"]
    assert {score["evaluation"] for score in compared} == {"benchmark-mine"}
    assert [(score["level"], score["name"]) for score in compared if not score["is_margin"]] == [
        ("overall", ""),
        ("kind", "x"),
        ("kind", "y"),
    ]
    assert compared[0]["groups"][0]["mean"] == pytest.approx(100 * found["scores"]["overall"])
    exported = ["export", str(models["pushdown"]), "-o", str(tmp_path / "exported"), "--results", str(whole)]
    assert run([*exported, "--quiet"]) == 0
    card = (tmp_path / "exported" / "README.md").read_text()
    assert f"| Three of a kind, accuracy (%) | {100 * found['scores']['overall']:.2f} |" in card
    page = tmp_path / "page.html"
    assert run(["view", str(whole), str(base), "-o", str(page), "--quiet"]) == 0
    assert "Three of a kind" in page.read_text("utf-8")
    drawn = results_page([str(whole), str(base)]).packed["items-benchmark-mine"]
    assert drawn["sides"] == ["low", "middle", "high"]
    for model, results in enumerate((whole, base)):
        of_items = {row["item"]: row for row in wide_items(results).to_dict("records")}
        listed = [key.partition(",")[0] for key in drawn["id"]]
        for key, of_item in zip(listed, drawn["tokens"][str(model)], strict=True):
            row = of_items[key]
            for name, tokens in zip(drawn["sides"], of_item, strict=True):
                if row[f"logprob_{name}"] != row[f"logprob_{name}"]:
                    assert tokens is None
                    continue
                words, bits = tokens
                assert words == [each["token"] for each in row[f"surprisals_{name}"]]
                assert len(words) == row[f"tokens_{name}"]
                assert sum(bits) == pytest.approx(-row[f"logprob_{name}"] / math.log(2), abs=0.05)


def test_what_is_odd_about_items_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = train_word_tokenizer(["a", "b"], unk=True)
    model = tiny_model("transformer", vocab_size=tokenizer.vocab_size)
    save_checkpoint(tmp_path / "model", model, tokenizer, shards={})
    (tmp_path / "pairs.csv").write_text("g,b\na b,b a\na b,b a\nb b,b b\na b,b a\nzebra,a lion\n")
    command = ["eval-benchmark", str(tmp_path / "pairs.csv"), "--good", "g", "--bad", "b", "--device", "cpu"]
    assert run([*command, "--model", str(tmp_path / "model"), "-o", str(tmp_path / "r")]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "1 items have strings that are all the same",
        "2 items repeat earlier ones",
        "2 strings have words that the model reads as <unk>",
    ]


def test_scores_after_contexts_in_chunks_resumed_and_as_widely_as_needed(
    tmp_path: Path, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.toml").write_text(CONDITIONAL)
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CHOICES))
    given = ["eval-benchmark", str(tmp_path / "c.jsonl"), "--as", str(tmp_path / "c.toml"), "--quiet"]
    given += ["--model", str(models["pushdown"])]
    wide = [*given, "--beam", "10000"]
    assert run([*wide, "-o", str(tmp_path / "plain")]) == 0
    assert run([*wide, "-o", str(tmp_path / "workers"), "--workers", "2"]) == 0
    first = [*wide, "-o", str(tmp_path / "resumed"), "--shard", "0/2"]
    monkeypatch.setattr("sys.argv", ["pdtools", *first])
    assert run(first) == 0
    assert run([*wide, "-o", str(tmp_path / "resumed"), "--resume"]) == 0
    assert run([*given, "--beam", "auto", "-o", str(tmp_path / "auto")]) == 0
    expected = items(tmp_path / "plain")
    assert [row["correct"] is not None for row in expected] == [True] * len(CHOICES)
    assert wide_items(tmp_path / "auto")["start_option_2"].tolist() == [len("a b")] * len(CHOICES)
    for other in ("workers", "resumed"):
        assert items(tmp_path / other) == expected
        assert document(tmp_path / other)["scores"] == document(tmp_path / "plain")["scores"]
    for row, found in zip(expected, items(tmp_path / "auto"), strict=True):
        assert found["outcome"] == row["outcome"]
        assert found["beam"] is not None


def test_benchmarks_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval-benchmark", "--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert len(names) > 20
    for name in names:
        assert run(["eval-benchmark", "--show", name]) == 0
        shown = tomllib.loads(capsys.readouterr().out)
        assert {"title", "right", "licence", "get"} <= {*shown}
    assert run(["eval-benchmark", "--show", "none"]) == 1
    assert "none: no such file, nor a benchmark of this name (benchmarks: " in capsys.readouterr().err


def test_a_benchmark_is_known_by_its_files(
    tmp_path: Path, models: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, file in (("sentences/babyberta", "a-b.txt"), ("de_evalset", "c.txt")):
        (tmp_path / "data" / folder).mkdir(parents=True)
        (tmp_path / "data" / folder / file).write_text("True\ta b\nFalse\tb a\n")
    command = ["--model", str(models["base"]), "-o", str(tmp_path / "out")]
    assert run(["eval-benchmark", str(tmp_path / "data"), *command]) == 2
    assert "there are files of clams, zorro: give one with --as" in capsys.readouterr().err
    assert run(["eval-benchmark", str(tmp_path / "data" / "de_evalset"), *command]) == 0
    assert "as clams, by the names of its files" in capsys.readouterr().err
    assert document(tmp_path / "out")["settings"]["task"] == "benchmark-clams"


def test_suites_by_name_are_eval_sg(
    tmp_path: Path, models: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    suites = REPOSITORY / "data" / "sg"
    model = ["--model", "demo", "--beam", "4", "--quiet"]
    assert run(["eval-benchmark", str(suites), "--as", "sg", *model, "-o", str(tmp_path / "a")]) == 0
    assert run(["eval-sg", str(suites), *model, "-o", str(tmp_path / "b")]) == 0
    assert capsys.readouterr().out.count("circuit") >= 2
    assert items(tmp_path / "a") == items(tmp_path / "b")
    for name in ("scores", "counts", "settings"):
        assert document(tmp_path / "a")[name] == document(tmp_path / "b")[name]
    for option in (["--limit", "1"], ["--scores", "x.tsv"]):
        given = model if option[0] == "--limit" else []
        assert run(["eval-benchmark", str(suites), "--as", "sg", *given, *option, "-o", "x"]) == 2
        assert "--scores and --limit cannot be combined with test suites" in capsys.readouterr().err
    written = str(tmp_path / "strings.tsv")
    assert run(["eval-benchmark", str(suites), "--as", "sg", "--write-sentences", written, "--quiet"]) == 0
    assert Path(written).read_text().startswith("suite\titem\tstring\ttext\n")
    found = pdtools.load("demo", beam=4).evaluate("sg", suites)
    assert found.scores == document(tmp_path / "b")["scores"]
    with pytest.raises(PdtoolsError, match="test suites have no limit"):
        pdtools.load("demo").evaluate("sg", suites, limit=1)


def test_what_is_refused(
    tmp_path: Path, models: dict[str, Path], mine: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["--model", str(models["base"]), "-o", str(tmp_path / "out")]
    assert run([*mine[:2], "--as", "nothing", *model]) == 1
    assert "no such file, nor a benchmark of this name (benchmarks: bl2mp, " in capsys.readouterr().err
    (tmp_path / "mine.toml").write_text(MINE.replace("{kind}", "{sort}"))
    assert run([*mine, *model]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "mine.csv:2: no column 'sort' (there are: file, dir, row, a, b, kind)" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("item\tstring\n1\ta\n", ":1: one column has to be called score, or surprisal"),
        (
            "item\tstring\tscore\tsurprisal\n1\ta\t1\t2\n",
            ":1: one column has to be called score, or surprisal",
        ),
        (
            "item\tstring\tscore\n1\tbetter\tnan\n",
            ":2: item '1' with the score 'nan': two numbers are needed",
        ),
        (
            "item\tstring\tsurprisal\n1\tbetter\t2\n1\tbetter\t3\n",
            ":3: a second score of better of item 1",
        ),
    ],
)
def test_scores_that_are_refused(
    table: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.tsv").write_text("better\tworse\na b\tb a\n")
    (tmp_path / "scores.tsv").write_text(table)
    pairs = ["eval-benchmark", str(tmp_path / "pairs.tsv"), "--good", "better", "--bad", "worse"]
    assert run([*pairs, "--scores", str(tmp_path / "scores.tsv"), "-o", str(tmp_path / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"scores.tsv{message}" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("command", ["eval-benchmark", "eval-blimp"])
def test_items_in_any_order_have_the_outcomes_of_wide_searches(
    command: str, seed: int, models: dict[str, Path], tmp_path: Path
) -> None:
    """With --beam auto each item gets its own searches, whose sentences are sorted together."""
    rng = random.Random(seed)
    texts = [
        [" ".join(rng.choice("abc") for _ in range(rng.randint(1, 4))) for _ in range(3)] for _ in range(25)
    ]
    if command == "eval-blimp":
        rows = ["UID\tsentence_good\tsentence_bad", *(f"{c[0]}\t{a}\t{b}" for a, b, c in texts)]
        (tmp_path / "data.tsv").write_text("\n".join(rows) + "\n")
        data = [str(tmp_path / "data.tsv")]
    else:
        table = [{"start": a, "options": [b, f"{c} {b}", f"a {c}"], "kind": c[0]} for a, b, c in texts]
        (tmp_path / "data.json").write_text(json.dumps(table))
        (tmp_path / "mine.toml").write_text(CONDITIONAL)
        data = [str(tmp_path / "data.json"), "--as", str(tmp_path / "mine.toml")]
    found = []
    for beam, more in (("auto", []), ("500", []), ("auto", ["--limit", "3"]), ("500", ["--limit", "3"])):
        output = tmp_path / f"{beam}{len(more)}"
        search = ["--model", str(models["pushdown"]), "--beam", beam, "--device", "cpu"]
        assert run([command, *data, *search, *more, "-o", str(output), "-q"]) == 0
        document = json.loads((output / "results.json").read_text())
        document["scores"].pop("margin_bits", None)
        document["scores"].pop("overall_per_token", None)  # by itself it widens no search
        document["counts"].pop("dropped", None)
        found.append((document["scores"], document["counts"]))
    assert found[0] == found[1]
    assert found[2] == found[3]
