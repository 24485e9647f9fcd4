"""Hostile files on the command line: one line on standard error, exit status 1, and no long wait."""

from __future__ import annotations

import json
import os
import stat
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pdtools import files
from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.evaluation.blimp.pairs import PairFiles
from pdtools.evaluation.results import FORMAT, read_results
from pdtools.files import packed as packing
from pdtools.files.source import ZipMember

N = 100_000
DEEP = "(X " * N + "(NN a) (NN b)" + ")" * N
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command: status, standard output, standard error."""

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        status = run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return status, out, err

    return call


def refused(result: tuple[int, str, str], *parts: str) -> None:
    """It failed with one line that holds these parts."""
    status, _, err = result
    assert status == 1
    assert err.count("\n") == 1, err
    assert len(err) < 1000
    assert all(part in err for part in parts), err


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from pdtools.models import build_model, make_config, save_checkpoint
    from pdtools.tokenization import train_word_tokenizer

    tokenizer = train_word_tokenizer(["a", "b"], min_count=1)
    shape = {"vocab_size": tokenizer.vocab_size, "pad_id": tokenizer.pad_id, "root_id": tokenizer.root_id}
    shape |= {"eos_id": tokenizer.eos_id, "layers": 1, "d_model": 8, "heads": 2, "d_ff": 16}
    folder = tmp_path_factory.mktemp("model") / "checkpoint"
    settings = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    save_checkpoint(
        folder, build_model("pushdown", make_config("pushdown", shape)), tokenizer, shards=settings
    )
    return folder


# --- a hundred thousand brackets --------------------------------------------------------------


def test_deep_trees_in_every_command_that_reads_trees(command: Run, model: Path, tmp_path: Path) -> None:
    start = time.process_time()
    deep = tmp_path / "deep.trees"
    deep.write_text(DEEP + "\n")
    parsed, shards = tmp_path / "parsed.trees", tmp_path / "shards"
    assert command("parse", deep, "--from", "treebank", "-o", parsed)[0] == 0
    assert command("tapes", deep, "-o", shards, "--min-count", "1")[0] == 0
    status, out, _ = command("show", shards, "0")
    assert status == 0
    assert "(X (XX a) (XX b))" in out
    assert command("eval-parse", deep, deep)[0] == 0
    assert command("eval-parse", deep, parsed, "--binarize", "right")[0] == 0
    decoding = ("decode", deep, "--from", "treebank", "--model", model, "--device", "cpu", "--beam", "2")
    status, out, err = command(*decoding)
    assert (status, out) == (0, "(X (XX a) (XX b))\n"), err
    assert time.process_time() - start < 60


@pytest.mark.parametrize(
    "broken", ["(" * N, "(X " * N + "a", DEEP[:-1], ")" * N], ids=["(", "labels", "one less", ")"]
)
def test_deep_brackets_that_do_not_close(broken: str, command: Run, tmp_path: Path) -> None:
    file = tmp_path / "x.trees"
    file.write_text(broken)
    for arguments in (("parse", file, "--from", "treebank"), ("tapes", file)):
        refused(command(*arguments, "-o", tmp_path / "out"), f"{file}:1: ", "bracket")


def test_wide_trees_have_no_endless_labels(command: Run, tmp_path: Path) -> None:
    file = tmp_path / "x.trees"
    file.write_text("(S" + " (NN a)" * 50_000 + ")")
    refused(command("parse", file, "--from", "treebank", "-o", tmp_path / "out"), "too many children")


# --- text -------------------------------------------------------------------------------------

ENCODINGS = {
    "utf-16": ("a (b)".encode("utf-16"), "UTF-16"),
    "utf-16-be": (b"\xfe\xff" + "a".encode("utf-16-be"), "UTF-16"),
    "utf-32": ("a".encode("utf-32"), "UTF-32"),
    "latin-1": ("(NN café)".encode("latin-1"), "not UTF-8 (byte 0xe9)"),
    "surrogate": ("(NN \ud800)".encode("utf-8", "surrogatepass"), "not UTF-8 (byte 0xed)"),
    "nul": (b"(NN a\0b)", "NUL"),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_other_encodings_are_named(name: str, command: Run, model: Path, tmp_path: Path) -> None:
    content, reason = ENCODINGS[name]
    file = tmp_path / "x.trees"
    file.write_bytes(content + b"\n")
    scoring = ("--model", model, "--device", "cpu")
    for arguments in (
        ("eval-parse", file, file),
        ("decode", file, *scoring, "-o", tmp_path / "out"),
        ("surprisal", file, *scoring, "-o", tmp_path / "out"),
    ):
        refused(command(*arguments), f"{file}:1: ", reason)
    if name in ("latin-1", "surrogate", "nul"):  # of others the brackets cannot be seen either
        refused(command("parse", file, "--from", "treebank", "-o", tmp_path / "out"), f"{file}:1: ", reason)


def test_byte_order_mark_and_crlf_are_no_text(command: Run, tmp_path: Path) -> None:
    file = tmp_path / "x.trees"
    file.write_bytes(b"\xef\xbb\xbf(S (NN a)\r\n (NN b))\r\n")
    out = tmp_path / "out"
    assert command("parse", file, "--from", "treebank", "-o", out)[0] == 0
    assert out.read_bytes() == b"(S (NN a) (NN b))\n"


def test_long_lines(command: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdtools.files.inputs.MAX_LINE_BYTES", 1 << 20)
    file = tmp_path / "x.txt"
    file.write_text("a\n" + "b " * (1 << 20) + "\n")
    scoring = ("--model", model, "--device", "cpu", "-o", tmp_path / "out")
    trees = tmp_path / "x.trees"
    trees.write_text("(S (A a) (B b))\n" + "b " * (1 << 20) + "\n")
    refused(command("eval-parse", trees, trees), f"{trees}:2: a line of more than 1 MiB")
    for arguments in (("decode", file, *scoring), ("surprisal", file, *scoring)):
        refused(command(*arguments), f"{file}:2: a line of more than 1 MiB")


# --- JSON -------------------------------------------------------------------------------------

PAIR = (
    '{{"field": "f", "linguistics_term": "l", "UID": "u", "pairID": "1",'
    ' "sentence_good": {}, "sentence_bad": "b"}}'
)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (r'"\ud800"', r"lone surrogate, \ud800"),
        (r'"a\u0000b"', "NUL"),
        ("NaN", "NaN"),
        ("1e999", "1e999"),
        ("-Infinity", "-Infinity"),
        ("9" * 5000, "999..."),
        ("[" * N, "nested too deep"),
        ('{"a":' * N, "nested too deep"),
        ("[" * N + "]" * N, "nested too deep"),
        ('{"key": 1, "other": 2, "key": 1}', "the key key twice in one object"),
    ],
    ids=["surrogate", "NUL", "NaN", "1e999", "-Infinity", "digits", "open", "objects", "lists", "twice"],
)
def test_json_values(value: str, reason: str, command: Run, tmp_path: Path) -> None:
    pairs, suite = tmp_path / "x.jsonl", tmp_path / "x.json"
    pairs.write_text("\n" + PAIR.format(value))
    refused(command("eval-blimp", pairs, "--write-sentences", "-"), f"{pairs}:2: ", reason)
    suite.write_text(f'{{"meta": {{"name": {value}}}, "predictions": [], "items": []}}')
    refused(command("eval-sg", suite, "--write-sentences", "-"), f"{suite}: ", reason)


def test_deep_formulas(command: Run, tmp_path: Path) -> None:
    suite = tmp_path / "x.json"
    for formula in ("(" * N + "1<2" + ")" * N, "(" * 50_000, "[" * 200):
        document = {
            "meta": {"name": "x"},
            "predictions": [{"formula": formula}],
            "items": [{"item_number": 1, "conditions": []}],
        }
        suite.write_text(json.dumps(document))
        refused(command("eval-sg", suite, "--write-sentences", "-"), f"{suite}: column ")


@pytest.mark.parametrize("number", [-1, 1001, 10**9, 2**31, 10**300])
def test_numbers_of_regions(number: int, command: Run, tmp_path: Path) -> None:
    suite = tmp_path / "x.json"
    regions = [{"region_number": n, "content": "a"} for n in (1, number)]
    document = {
        "meta": {"name": "x"},
        "predictions": [{"formula": "(1;%a%) < (1;%b%)"}],
        "items": [
            {"item_number": 1, "conditions": [{"condition_name": c, "regions": regions} for c in ("a", "b")]}
        ],
    }
    suite.write_text(json.dumps(document))
    refused(command("eval-sg", suite, "--write-sentences", "-"), f"{suite}: not a test suite: ")


# --- archives ---------------------------------------------------------------------------------


def test_members_lead_nowhere(tmp_path: Path) -> None:
    """What a member is called does not matter: nothing is written, and links are not followed."""
    source, secret = tmp_path / "x.zip", tmp_path / "secret.jsonl"
    secret.write_text(PAIR.format('"secret"'))
    with zipfile.ZipFile(source, "w") as archive:
        for number, name in enumerate(
            ("../out.jsonl", "/tmp/out.jsonl", "a/../../out.jsonl", "C:\\out.jsonl")
        ):
            archive.writestr(
                name, PAIR.format(f'"{number}"').replace('"pairID": "1"', f'"pairID": "{number}"')
            )
    before = sorted(tmp_path.rglob("*"))
    assert {pair.strings["good"].text for pair in PairFiles(source)} == {
        "1",
        "3",
    }  # hidden names are passed over
    assert sorted(tmp_path.rglob("*")) == before
    with zipfile.ZipFile(source, "w") as archive:
        link = zipfile.ZipInfo("link.jsonl")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, str(secret))
    with pytest.raises(InputError, match=r"link\.jsonl: a symbolic link"):
        PairFiles(source)


def test_bombs(command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_MOST_PACKED", 1 << 20)
    source = tmp_path / "x.zip"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in ("a.json", "a.jsonl"):
            with archive.open(name, "w", force_zip64=True) as member:
                for _ in range(1 + (files.MAX_DOCUMENT_BYTES >> 20)):
                    member.write(b"x" * (1 << 20))
    assert source.stat().st_size < 1 << 20
    refused(command("eval-sg", source, "--write-sentences", "-"), f"{source}/a.json: longer than 16 MiB")
    refused(
        command("eval-blimp", source, "--write-sentences", "-"), f"{source}/a.jsonl:1: a line of more than"
    )
    with pytest.raises(InputError, match="more than 0 GiB when unpacked"):
        ZipMember.within(str(source), (".json",), 1 << 20)
    for suffix in (".gz", ".zst"):
        packed = tmp_path / f"x.json{suffix}"
        with files.atomic_text(packed) as stream:
            for _ in range(1 + (files.MAX_DOCUMENT_BYTES >> 20)):
                stream.write("x" * (1 << 20))
        with pytest.raises(InputError, match="longer than 128 MiB"):
            files.read_json(packed)


def test_endless_repetitions_in_a_small_archive(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "_ALWAYS_READ", 1 << 16)
    source = tmp_path / "x.zip"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a.jsonl", "a.mrg", "a.txt", "a.json"):
            archive.writestr(name, b"\n" * (1 << 18))
    reason = "it unpacks to more than 100 times its packed size"
    refused(command("eval-blimp", source, "--write-sentences", "-"), f"{source}/a.jsonl: {reason}")
    refused(command("eval-sg", source, "--write-sentences", "-"), f"{source}/a.json: {reason}")
    parse = ("parse", source, "--from", "treebank", "--on-error", "skip", "-o", tmp_path / "out")
    refused(command(*parse), f"{source}/a.mrg: {reason}")
    for suffix in (".gz", ".zst"):
        packed = tmp_path / f"x.mrg{suffix}"
        with files.atomic_text(packed) as stream:
            stream.write("\n" * (1 << 18))
        for arguments in (
            ("parse", packed, "--from", "treebank", "-o", tmp_path / "out"),
            ("eval-blimp", packed, "--write-sentences", "-"),
        ):
            refused(command(*arguments), f"{packed}: {reason}")
    monkeypatch.setattr(packing, "_ALWAYS_READ", 1 << 18)
    refused(command("eval-blimp", source, "--write-sentences", "-"), f"{source}: no minimal pairs")
    monkeypatch.setattr(packing, "_MOST_BLANK", 1 << 17)
    reason = f"more than {1 << 17} bytes of nothing but white space"
    refused(command("eval-blimp", source, "--write-sentences", "-"), f"{source}/a.jsonl: {reason}")


def test_deep_settings(command: Run, tmp_path: Path) -> None:
    """A few thousand brackets are more than the parser of TOML takes."""
    deep = "[" * 3000 + "]" * 3000
    recipe, out = tmp_path / "x.toml", tmp_path / "out"
    recipe.write_text(f"[config]\nlayers = {deep}\n")
    refused(
        command("train", tmp_path, "--config", recipe, "-o", out), f"{recipe}: not usable TOML: nested too"
    )
    setting = f"config.layers={deep}"
    refused(command("train", tmp_path, "--set", setting, "-o", out), "config.layers must be a whole number")
    sweep = ("sweep", tmp_path, "--valid", tmp_path, "--grid", setting, "-o", out)
    refused(command(*sweep), "config.layers must be a whole number")


@pytest.mark.parametrize("option", ["--threads", "--workers"])
@pytest.mark.parametrize("number", [10**9, 10**18, 10**30])
def test_more_processes_than_any_machine_has(
    number: int, option: str, command: Run, model: Path, tmp_path: Path
) -> None:
    text = tmp_path / "x.txt"
    text.write_text("a b\n")
    status, _, err = command("decode", text, "--model", model, "--device", "cpu", f"{option}={number}")
    assert (status, "less than or equal to 1024" in err) == (2, True)


@pytest.mark.parametrize("number", [2**31, 2**32 - 1, 2**24, -1, 10**300, None, [], "1"])
def test_numbers_of_tokens(number: object, command: Run, model: Path, tmp_path: Path) -> None:
    trees = tmp_path / "x.trees"
    trees.write_text("(S (NN a) (NN b))\n")
    document = json.loads((model / "tokenizer.json").read_text())
    document["model"]["vocab"]["a"] = number
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    refused(command("tapes", trees, "--tokenizer", tmp_path, "-o", tmp_path / "out"), "tokenizer.json: ")


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "no JSON object"),
        (3, "no JSON object"),
        ({"scores": {}, "counts": {}}, "no object 'settings'"),
        ({"scores": [], "counts": {}, "settings": {"task": "ppl"}}, "no object 'scores'"),
        ({"scores": {}, "counts": {}, "settings": {"task": []}}, "settings.task is no string"),
        ({"scores": {}, "counts": {"sentences": "1"}, "settings": {"task": "ppl"}}, "a whole number"),
        (
            {"scores": {"by_set": {"x": {"accuracy": None, "prefixes": 1}}}, "counts": {}}
            | {"settings": {"task": "dyck"}},
            "scores.by_set.*.accuracy has to be a number",
        ),
    ],
)
def test_results_of_other_shapes(document: object, reason: str, command: Run, tmp_path: Path) -> None:
    written = {"format": FORMAT, **document} if isinstance(document, dict) else document
    for folder in ("a/x", "b/x"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "results.json").write_text(json.dumps(written))
    refused(command("compare", tmp_path / "a", tmp_path / "b"), "results.json: ", reason)
    refused(command("compare", tmp_path / "a/x", tmp_path / "b/x"), "results.json: ", reason)


@pytest.mark.parametrize(
    "changes",
    [{"command": [1]}, {"command": ["surprisal", None]}, {"command": {}}, {"settings": 3}, {"folder": []}],
)
def test_records_of_jobs_of_other_shapes(changes: dict[str, object], command: Run, tmp_path: Path) -> None:
    folder = tmp_path / "out.job"
    folder.mkdir()
    record = {"format": "pdtools job", "command": ["surprisal"], "settings": {}, "folder": "/"}
    record |= {"output": str(tmp_path / "out"), "replaces": None}
    (folder / "job.json").write_text(json.dumps(record | changes))
    refused(command("merge", tmp_path / "out"), "job.json: damaged")


def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    """What is written there can be read."""
    folder = os.fsencode(tmp_path) + b"/\xff"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system has no such names")
    shards, results = (os.fsdecode(folder + name) for name in (b"/shards", b"/results"))
    assert run(["generate", "cfl", "dyck", "--number", "5", "--shards", "-q", "-o", shards]) == 0
    assert run(["eval-formal", "cfl", shards, "-q", "-o", results]) == 0
    assert len(read_results(results)[1]) == 5
    trees = tmp_path / "x.trees"
    trees.write_text("(S (A a) (B (C b) (D c)))\n")
    for name in (b"/a", b"/b"):
        assert run(["eval-parse", str(trees), str(trees), "-q", "-o", os.fsdecode(folder + name)]) == 0
    assert run(["compare", *(os.fsdecode(folder + name) for name in (b"/a", b"/b"))]) == 0
