"""The numbers of --json, of commands that write no results.json, computed again from what they wrote.

And those that they say to people: the same.
"""

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
    assert run(["tapes", f"{folder}/a.trees", "-o", f"{folder}/shards", "-q"]) == 0
    labels = ("entailment", "not_entailment", "none of these", None)
    rows: list[dict[str, Any]] = [
        {"sentence1": f"A {i}.", "sentence2": "B", "label": label}
        for label, number in zip(labels, (30, 15, 2, 3), strict=True)
        for i in range(number)
    ]
    (folder / "rte.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = {"sentence1": "Dogs bark. Cats sleep.", "sentence2": "E"}
    rows = [{**texts, "score": score} for score in (0, "2.5", "")]
    (folder / "sts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
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


def windows(report: dict[str, Any], out: Path) -> None:
    shards(report, out)
    rows = ShardSet.open(out)
    assert report["counts"]["rows"] == len(rows)
    assert report["counts"]["documents"] == len({rows.document(i) for i in range(len(rows))}) == 2


def unlabelled(report: dict[str, Any], out: Path) -> None:
    shards(report, out)
    assert report["counts"]["unknown_labels"] == ShardSet.open(out).has_unknown_labels.sum() == 3


def prompts(report: dict[str, Any], out: Path) -> None:
    """The items that are held out are not among the others."""
    own, held = (
        [json.loads(line) for line in path.read_text().splitlines()[1:]]
        for path in (out, out.with_name("held"))
    )
    assert (report["items"], report["held_out"]) == (len(own), len(held))
    assert 0 < len(held) < 20
    assert sorted(int(item["id"]) for item in own + held) == [*range(45), 47, 48, 49]
    assert not {str(item["sentences"]) for item in own} & {str(item["sentences"]) for item in held}
    assert report["labels"] == Counter(item["label"] or "unlabelled" for item in own + held)
    assert report["left_out"] == rejects_of(out.with_name("out.rejects.jsonl"))


def numbers(report: dict[str, Any], out: Path) -> None:
    _, *items = map(json.loads, out.read_text().splitlines())
    assert [item["label"] for item in items] == [0.0, 2.5, None]
    assert report == {
        **{"task": "stsb", "items": 3, "held_out": 0},
        **{"labels": {"numbers": 2, "unlabelled": 1}, "left_out": {}},
    }
    assert [item["sentences"] for item in items] == [
        ["Sentence1: Dogs bark. Cats sleep.", "Sentence2: E"]
    ] * 3


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


SKIP = ("--on-error", "skip")
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
    "windows": (
        ["tapes", "{in}/bank", "--layout", "window", "--window", "6", "--min-count", "1"],
        windows,
    ),
    "other-labels": (["tapes", "{in}/bank", "--tokenizer", "{in}/shards"], unlabelled),
    "blocks": (["blocks", "{in}/lines.txt", "--length", "4", "--min-count", "1", "--lower-case"], blocks),
    "prompts": (
        ["prompts", "{in}/rte.jsonl", "--task", "rte", "--on-error", "skip", "--hold-out", "{out}/held"],
        prompts,
    ),
    "prompts-of-numbers": (["prompts", "{in}/sts.jsonl", "--task", "stsb", "--no-split-sentences"], numbers),
    "surprisal": (
        ["surprisal", "{in}/lines.txt", "--model", "{in}/models/pushdown", "--nats", "--beam", "3", *SKIP],
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
    given = [part.format_map({"in": str(inputs), "out": str(tmp_path)}) for part in command]
    assert run([*given, "-o", str(out), "--json", "-q"]) == 0
    report = json.loads(capsys.readouterr().out)
    check(report, out)
    for about in report.get("provenance", {}).get("inputs", {}).values():
        path = Path(about["path"])
        if path.is_file():
            assert about["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def said_of_trees(report: dict[str, Any], out: Path) -> list[str]:
    counts = report["counts"]
    lines = [f"{counts['trees']} trees, {counts['tokens']} tokens"]
    if empty := report.get("form", {}).get("empty leaves left out"):
        lines.append("empty leaves left out: " + ", ".join(f"{n} {kind}" for kind, n in empty.items()))
    lines += [f"{part}: {n} trees" for part, n in report["splits"].items()]
    if labels := report["rewritten_labels"]:
        names = ", ".join(sorted(labels))
        lines.append(f"{sum(labels.values())} labels rewritten to their first part: {names}")
    return lines + [f"{n} without a tree: {reason}" for reason, n in report["rejects"].items()]


def said_of_shards(report: dict[str, Any], out: Path) -> list[str]:
    counts, rows = report["counts"], ShardSet.open(out)
    of_blocks = rows.layout == "block"
    lines = [
        f"{out}: {counts['sentences']} {'blocks' if of_blocks else 'sentences'}, {counts['tokens']} tokens,"
        f" {counts['words']} words ({counts['unknown_words']} unknown),"
        f" vocabulary {rows.tokenizer.vocab_size}" + ("" if of_blocks else f", deepest {counts['deepest']}")
    ]
    if rows.layout == "window":
        filled = rows.lengths.sum() / (len(rows) * report["settings"]["window"])
        lines.append(f"{len(rows)} windows, {counts['documents']} documents, {100 * filled:.1f}% filled")
    if unknown := counts["unknown_labels"]:
        lines.append(
            f"{unknown} sentences have constituents whose labels the tokenizer lacks: action models score"
            " these as the rarest label, others read no labels"
        )
    return lines + [
        f"excluded (see {out}/rejects.jsonl): {n} ({reason})" for reason, n in report["left_out"].items()
    ]


def said_of_prompts(report: dict[str, Any], out: Path) -> list[str]:
    labels = report["labels"]
    every = ", ".join(f"{labels[label]} {label}" for label in sorted(labels))
    lines = [f"{sum(labels.values())} items ({every}), {report['held_out']} held out"]
    return lines + [f"excluded: {n} ({reason})" for reason, n in report["left_out"].items()]


def said_of_strings(report: dict[str, Any], out: Path) -> list[str]:
    counts, exact = report["counts"], report.get("exact", {})
    if "prefixes" in counts:
        return [f"{counts['prefixes']} prefixes, of at most {counts['most_tokens']} tokens"]
    if "pairs" in counts:
        return [f"{counts['pairs']} pairs, {counts['symbols']} symbols"]
    line = f"{counts['sentences']} strings, {counts['tokens']} tokens"
    if valid := exact.get("valid_lengths"):
        return [f"{line}; {len(valid)} lengths from {min(valid)} to {max(valid)}"]
    return [f"{line}, at most {counts['most_tokens']}; entropy {exact['entropy_per_token']:.4f} nats a token"]


def said_of_a_model(report: dict[str, Any], out: Path) -> list[str]:
    counts, rejects = report["counts"], out.with_name("out.rejects.jsonl")
    if "strings" in counts:
        strings = f"{counts['strings']} strings, {counts['tokens']} tokens"
        return [f"{strings}; {counts['empty']} empty, {counts['cut']} cut"]
    lines, what = [f"{counts.get('trees')} trees, {counts.get('words')} words"], "parse"
    if "scored" in counts:
        unit = report["settings"]["unit"]
        lines = [f"{counts['scored']} of {counts['sentences']} sentences scored, surprisal in {unit}"]
        what = "score"
    excluded = map(json.loads, rejects.read_text().splitlines())
    return lines + [f"{each['file']}:{each['line']}: no {what}: {each['reason']}" for each in excluded]


SAID: dict[str, Callable[[dict[str, Any], Path], list[str]]] = {
    **dict.fromkeys(("decode", "surprisal", "sample"), said_of_a_model),
    **dict.fromkeys(("parse", "split", "parsed", "parsed-split"), said_of_trees),
    **dict.fromkeys(("tapes", "without-unk", "windows", "other-labels", "blocks"), said_of_shards),
    **dict.fromkeys(("dyck", "prefixes", "nests", "cfl", "task"), said_of_strings),
    **dict.fromkeys(("prompts", "prompts-of-numbers"), said_of_prompts),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_are_the_numbers_of_the_report(
    name: str, inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    given = [part.format_map({"in": str(inputs), "out": str(tmp_path)}) for part in CASES[name][0]]
    assert run([*given, "-o", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == SAID[name](json.loads(printed.out), out)
