"""The numbers of --json, of commands that write no results.json, computed again from what they wrote."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from search_oracle import save_checkpoints

from pdtools.cli.main import run
from pdtools.formal import ContextFree, read_grammar
from pdtools.shards import ShardSet
from pdtools.tokenization import Tokenizer
from pdtools.trees import Tree

TEXT = "a b c\n\nc Zebra a\nb a c\n"
BANK = {
    "one": "(TOP (S (NP-SBJ (D a) (N b)) (ADVP|PRT (R c)) (-NONE- *)))\n(S (A a) (B b))\n",
    "two": "( (S (-NONE- *)) )\n(S (A|B a) (C (D b) (E c) (F a)))\n(S (A|B b) (VP|X (V c)))\n",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    save_checkpoints(folder / "models")
    (folder / "lines.txt").write_text(TEXT)
    (folder / "bank").mkdir()
    for name, text in BANK.items():
        (folder / "bank" / f"{name}.mrg").write_text(text)
    (folder / "a.trees").write_text("(S (A a) (B (A b) (B c)))\n(S (A c) (B zz))\n(S (A a) (B c))\n")
    return folder


def trees_of(path: Path) -> list[Tree]:
    return [Tree.from_brackets(line) for line in path.read_text().splitlines()]


def placeholders(trees: list[Tree]) -> tuple[int, int]:
    """The number of flat and of empty trees, of sentences with three words or none; and of all words."""
    flat = [tree for tree in trees if re.fullmatch(r"\(X( \(XX [^()]+\))+\)", str(tree))]
    empty = [tree for tree in trees if str(tree) == "(X (-NONE- *))"]
    return len(flat) + len(empty), sum(map(len, trees)) - len(empty)


def rejects_of(path: Path) -> dict[str, int]:
    return dict(Counter(json.loads(line)["reason"] for line in path.read_text().splitlines()))


def table_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def decode(report: dict[str, Any], out: Path) -> None:
    trees = trees_of(out)
    flat, words = placeholders(trees)
    assert report["counts"] == {"trees": len(trees), "words": words, "placeholders": flat}
    assert (len(trees), flat) == (4, 2)
    assert report["rejects"] == rejects_of(out.with_name("out.rejects.jsonl"))
    assert report["settings"]["beam"] == 3


def parse(report: dict[str, Any], out: Path) -> None:
    files = [*out.glob("*.trees")] if out.is_dir() else [out]
    trees = {path.stem: trees_of(path) for path in files}
    every = [tree for own in trees.values() for tree in own]
    bank = "".join(BANK.values())
    rewritten = Counter({label: bank.count(f"({label} ") for label in ("ADVP|PRT", "A|B", "VP|X")})
    assert rewritten["A|B"] == 2
    rejects = rejects_of(out / "rejects.jsonl" if out.is_dir() else out.with_name("out.rejects.jsonl"))
    assert report["counts"] == {
        "files": 2,
        "trees": len(every),
        "tokens": sum(map(len, every)),
        "placeholders": 0,
        "rejects": sum(rejects.values()),
        "traces": bank.count("-NONE-"),
        "rewritten_labels": rewritten.total(),
    }
    assert len(every) == 4
    assert report["rejects"] == rejects == {"no words, only traces": 1}
    assert report["rewritten_labels"] == rewritten
    assert report["splits"] == ({name: len(own) for name, own in trees.items()} if out.is_dir() else {})


def parsed(report: dict[str, Any], out: Path) -> None:
    files = [out / f"{name}.trees" for name in ("train", "valid")] if out.is_dir() else [out]
    trees = [tree for path in files for tree in trees_of(path)]
    flat, words = placeholders(trees)
    rejects = rejects_of(out / "rejects.jsonl" if out.is_dir() else out.with_name("out.rejects.jsonl"))
    assert report["rejects"] == rejects
    assert report["counts"] == {
        **{"files": 1, "trees": len(trees), "tokens": words, "placeholders": flat},
        **{"rejects": sum(rejects.values()), "traces": 0, "rewritten_labels": 0},
    }
    assert flat == (0 if out.is_dir() else 2)  # what could not be parsed is no tree of a part


def shards(report: dict[str, Any], out: Path) -> None:
    rows = ShardSet.open(out)
    # In blocks ends of lines are tokens that are read.
    special = {rows.tokenizer.root_id, rows.tokenizer.eos_id} - (
        {rows.tokenizer.eos_id} if report["settings"]["layout"] == "block" else set()
    )
    tokens = [token for i in range(len(rows)) for token in rows.tokens(i).tolist() if token not in special]
    counts = report["counts"]
    assert counts["tokens"] == len(tokens)
    assert counts["unknown_words"] == tokens.count(rows.tokenizer.unk_id)
    assert counts["words"] == sum(len(rows.text(i).split()) for i in range(len(rows)))
    assert report["tokenizer"]["vocab_size"] == Tokenizer.load(out).vocab_size
    left_out = out / "rejects.jsonl"
    assert report["left_out"] == (rejects_of(left_out) if left_out.is_file() else {})
    assert report == json.loads((out / "manifest.json").read_text())


def blocks(report: dict[str, Any], out: Path) -> None:
    """With --lower-case and --min-count 1, all words are known, in small letters."""
    shards(report, out)
    tokenizer = ShardSet.open(out).tokenizer
    assert (report["counts"]["words"], report["counts"]["unknown_words"]) == (9, 0)
    names = {tokenizer.token_text(token) for token in range(tokenizer.vocab_size)}
    assert {"a", "b", "c", "zebra"} < names
    assert "Zebra" not in names


def surprisal(report: dict[str, Any], out: Path) -> None:
    rows = table_of(out)
    scored = len({row["sentence_id"] for row in rows})
    assert report["counts"] == {"sentences": 4, "scored": scored, "rows": len(rows)}
    assert scored == 2
    assert report["rejects"] == rejects_of(out.with_name("out.rejects.jsonl"))
    assert (report["settings"]["unit"], report["settings"]["beam"]) == ("nats", 3)


def sample(report: dict[str, Any], out: Path) -> None:
    lines = out.read_text().splitlines()
    lengths = [0 if "-NONE-" in line else len(Tree.from_brackets(line)) for line in lines]
    counts = report["counts"]
    assert {**counts, "cut": 0} == {
        "strings": 30,
        "tokens": sum(lengths),
        "empty": lengths.count(0),
        "cut": 0,
    }
    assert 0 < counts["cut"] <= sum(length == 4 for length in lengths)
    again = [
        "sample",
        "--model",
        str(report["provenance"]["inputs"]["model"]["path"]),
        "--device",
        "cpu",
        "-q",
    ]
    again += ["-n", str(counts["strings"]), "-o", f"{out}.again"]
    for name in ("seed", "max_tokens"):
        again += [f"--{name.replace('_', '-')}", str(report["settings"][name])]
    assert run(again) == 0
    assert Path(f"{out}.again").read_text() == out.read_text()


def generated(*options: str) -> Callable[[dict[str, Any], Path], None]:
    """A report from which the same strings can be made again."""

    def check(report: dict[str, Any], out: Path) -> None:
        settings = report["settings"]
        for option, value in zip(options[2::2], options[3::2], strict=True):
            name = option.removeprefix("--").replace("-", "_")
            wanted = settings.get(name)
            if name == "lengths":
                ends = wanted if isinstance(wanted, list) else (settings["shortest"], settings["longest"])
                wanted = "-".join(map(str, ends))
            if name in settings or name == "seed":
                assert str(wanted) == value, name
        counts = report["counts"]
        if "prefixes" in counts:
            lengths = [len(row["prefix"].split()) for row in table_of(out)]
            assert counts == {"prefixes": len(lengths), "most_tokens": max(lengths)}
        elif "pairs" in counts:
            rows = table_of(out)
            symbols = sum(len(row[side].split()) for row in rows for side in "xy")
            assert counts == {"pairs": len(rows), "symbols": symbols}
        else:
            lengths = [len(line.split()) for line in out.read_text().splitlines()]
            wanted = {"sentences": len(lengths), "tokens": sum(lengths), "most_tokens": max(lengths)}
            assert counts == {name: wanted[name] for name in counts}
        if "valid_lengths" in report.get("exact", {}):
            grammar = read_grammar(options[1])
            found = ContextFree(
                grammar=grammar, shortest=2, longest=7, batch=10, lengths="drawn"
            ).valid_lengths
            assert report["exact"]["valid_lengths"] == found.tolist()
            assert len(lengths) == 3 * len(found) < 3 * 6

    return check


DYCK = ("dyck", "--brackets", "2", "--depth", "3", "--max-length", "9", "--number", "9", "--seed", "4")
CASES: dict[str, tuple[list[str], Callable[[dict[str, Any], Path], None]]] = {
    "decode": (["decode", "{in}/lines.txt", "--model", "{in}/models/pushdown", "--beam", "3"], decode),
    "parse": (["parse", "{in}/bank", "--from", "treebank", "--on-error", "skip"], parse),
    "split": (
        ["parse", "{in}/bank", "--from", "treebank", "--on-error", "skip", "--split", "0.6,0.4"],
        parse,
    ),
    "parsed": (["parse", "{in}/lines.txt", "--parser", "{in}/models/pushdown", "--beam", "3"], parsed),
    "parsed-split": (
        ["parse", "{in}/lines.txt", "--parser", "{in}/models/pushdown", "--split", "0.6,0.4"],
        parsed,
    ),
    "tapes": (["tapes", "{in}/a.trees"], shards),
    "without-unk": (
        ["tapes", "{in}/a.trees", "--tokenizer", "{in}/models/pushdown", "--on-error", "skip"],
        shards,
    ),
    "blocks": (["blocks", "{in}/lines.txt", "--length", "4", "--min-count", "1", "--lower-case"], blocks),
    "surprisal": (
        ["surprisal", "{in}/lines.txt", "--model", "{in}/models/pushdown", "--nats", "--beam", "3"],
        surprisal,
    ),
    "sample": (
        ["sample", "--model", "{in}/models/pushdown", "-n", "30", "--seed", "3", "--max-tokens", "4"],
        sample,
    ),
    "dyck": (["generate", *DYCK], generated("generate", *DYCK)),
}
for _name, _command in {
    "prefixes": ("dyck-prefixes", "", "--dependency", "5", "--brackets", "2", "--depth", "4", "--seed", "2"),
    "nests": ("dyck-prefixes", "", "--depths", "2-6", "--brackets", "11", "--number", "9", "--seed", "2"),
    "cfl": ("cfl", "marked-reversal", "--lengths", "2-7", "--per-length", "3", "--seed", "5"),
    "task": ("task", "rs", "--lengths", "2-5", "--number", "3", "--seed", "5"),
}.items():
    CASES[_name] = (["generate", *filter(None, _command)], generated(*_command))


@pytest.mark.parametrize("name", CASES)
def test_reports_computed_again(
    name: str, inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, check = CASES[name]
    out = tmp_path / "out"
    given = [part.format_map({"in": str(inputs)}) for part in command]
    on_error = ["--on-error", "skip"] if name == "surprisal" else []
    assert run([*given, *on_error, "-o", str(out), "--json", "-q"]) == 0
    report = json.loads(capsys.readouterr().out)
    check(report, out)
    for about in report.get("provenance", {}).get("inputs", {}).values():
        path = Path(about["path"])
        if path.is_file():
            assert about["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
