from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import nltk
import pytest
from toy_benepar import toy_trees

from pdtools.cli.main import run
from pdtools.errors import InputError, PdtoolsError
from pdtools.parsers.splitting import read_sentences
from pdtools.trees import Tree, expand_unaries, unbinarize, unescape

TREES = "( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks)) (. .)) )\n(ROOT (NP (NN news)))\n"
BINARIZED = "(S (NP (DT the) (NN dog)) (S|<VP-.> (VP (VBZ barks)) (. .)))\n(NP (NN news))\n"


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    file = tmp_path / "a.mrg"
    file.write_text(TREES)
    return file


# --- from a treebank --------------------------------------------------------------------------


def test_treebank_to_standard_output(treebank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["parse", str(treebank), "--from", "treebank"]) == 0
    captured = capsys.readouterr()
    assert captured.out == BINARIZED
    assert captured.err == "2 trees, 5 tokens\n"


def test_inputs_of_every_kind(
    treebank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bank"
    folder.mkdir()
    (folder / "b.tree.gz").write_bytes(gzip.compress(TREES.encode()))
    (folder / "README.txt").write_text("not a tree")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TREES.encode())))
    inputs = [str(treebank), str(folder), str(tmp_path / "*.mrg"), "-"]
    assert run(["parse", *inputs, "--from", "treebank", "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out == BINARIZED * 4
    assert captured.err == ""


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_output_can_be_read_again(
    treebank: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = str(tmp_path / f"out.trees{suffix}")
    assert run(["parse", str(treebank), "--from", "treebank", "-o", packed]) == 0
    assert run(["parse", packed, "--from", "treebank"]) == 0
    assert capsys.readouterr().out == BINARIZED


def test_splits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "a.trees", tmp_path / "out"
    file.write_text("".join(f"(S (NN w{i % 50}) (VB x))\n" for i in range(100)))
    arguments = ["parse", str(file), "--from", "treebank", "-o", str(out), "--split", "0.6,0.2,0.2"]
    assert run([*arguments, "--json"]) == 0
    splits = json.loads(capsys.readouterr().out)["splits"]
    contents = {name: (out / f"{name}.trees").read_text().splitlines() for name in splits}
    assert splits == {name: len(lines) for name, lines in contents.items()}
    assert list(splits) == ["train", "valid", "test"]
    assert sum(splits.values()) == 100
    assert all(splits.values())
    words = [set(lines) for lines in contents.values()]
    assert sum(map(len, words)) == 50
    assert run(arguments) == 1
    assert "exists already" in capsys.readouterr().err
    assert run([*arguments, "--overwrite"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--split", "0.9,0.2", "-o", "out"],
        ["--split", "0.5,nan", "-o", "out"],
        ["--parser", ".", "--model", "benepar_en3"],
        ["--split", "1.0", "-o", "out"],
        ["--split", "0.5,0.5"],
        ["--from", "treebank", "--split-sentences"],
        ["--from", "treebank", "--beam", "7"],
        ["--from", "nowhere"],
        ["--from", "treebank", "--surface"],
        ["--from", "treebank", "--binarize", "head"],
        ["--from", "treebank", "--lemmas", "keep"],
        ["--from", "treebank", "--discontinuous", "split"],
        ["--from", "treebank", "--punctuation", "root"],
        ["--from", "treebank", "--json"],
    ],
)
def test_wrong_usage(arguments: list[str], treebank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(treebank.parent)
    assert run(["parse", str(treebank), *arguments]) == 2
    assert [path.name for path in treebank.parent.iterdir()] == ["a.mrg"]


# Where tests are run in the background, programs that they start would ignore Ctrl-C.
INTERRUPTIBLE = """
import signal, sys
from pdtools.cli.main import run

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(run(sys.argv[1:]))
"""


def test_interrupted_runs_leave_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTIBLE, "parse", "-", "--from", "treebank", "-o", "out.trees"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stdin is not None
    process.stdin.write(TREES.encode() * 2000)  # more than is looked at to recognize its form
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob(".out.trees.*.tmp")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.glob(".out.trees.*.tmp"))  # the command is at work
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    process.stdin.close()
    assert list(tmp_path.iterdir()) == []


# --- through a parser -------------------------------------------------------------------------


def test_text_through_benepar(
    toy_benepar_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "the dog (the cat) sees the man.",
        "",
        " ".join(["the"] * 511),
        "the old man sleeps .",
    ]
    text, out = tmp_path / "a.txt", tmp_path / "out.trees"
    text.write_text("\n".join(lines))
    arguments = ["parse", str(text), "--model", str(toy_benepar_model), "--device", "cpu"]
    assert run([*arguments, "-o", str(out), "--json"]) == 0
    captured = capsys.readouterr()
    assert out.read_text().splitlines() == [
        "(S (NP (DT the) (NP|<NN-PRN> (NN dog) (PRN (-LRB- -LRB-)"
        " (PRN|<NP--RRB-> (NP (DT the) (NN cat)) (-RRB- -RRB-)))))"
        " (S|<VP-.> (VP (VBZ sees) (NP (DT the) (NN man))) (. .)))",
        "(X (-NONE- *))",
        f"(X {' '.join(['(XX the)'] * 511)})",
        "(S (NP (DT the) (NP|<JJ-NN> (JJ old) (NN man))) (S|<VP-.> (VP (VBZ sleeps)) (. .)))",
    ]
    counts = json.loads(captured.out)["counts"]
    assert (counts["trees"], counts["placeholders"], counts["rejects"]) == (4, 2, 2)
    records = [json.loads(line) for line in Path(f"{out}.rejects.jsonl").read_text().splitlines()]
    assert [(r["file"], r["line"], r["reason"], r["text"]) for r in records] == [
        (str(text), 2, "no words", ""),
        (str(text), 3, "longer than the parser's 510 words", lines[2]),
    ]
    assert "1 without a tree: no words" in captured.err


def test_tokens_through_benepar(
    toy_benepar_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = toy_trees(60, seed=7)
    file = tmp_path / "a.tok"
    # Escaped and plain words alike; a zero-width word in the middle must not disturb its neighbours.
    lines = [" ".join(tree.leaves()) for tree in gold[:30]]
    lines += ["the \u200b dog"] + [" ".join(map(unescape, tree.leaves())) for tree in gold[30:]]
    file.write_text("\n".join(lines) + "\n")
    arguments = ["--from", "tokens", "--model", str(toy_benepar_model), "--device", "cpu"]
    assert run(["parse", str(file), *arguments]) == 0
    captured = capsys.readouterr()
    trees = captured.out.splitlines()
    assert len(trees) == 61
    assert trees.pop(30) == "(X (XX the) (XX \ufffd) (XX dog))"
    assert f"{file}:31: a word without visible characters" in captured.err
    parsed = [expand_unaries(unbinarize(Tree.from_brackets(tree))) for tree in trees]
    assert [tree.words for tree in parsed] == [tuple(tree.leaves()) for tree in gold]
    assert sum(p == Tree.from_nltk(g) for p, g in zip(parsed, gold, strict=True)) > 48
    one_by_one = []
    for line in lines[:10]:
        file.write_text(line + "\n")
        assert run(["parse", str(file), *arguments]) == 0
        one_by_one.append(capsys.readouterr().out.removesuffix("\n"))
    assert one_by_one == trees[:10]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_text_through_stanza(
    workers: str, toy_stanza_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = tmp_path / "a.txt", tmp_path / "out.trees"
    text.write_text("the dog (the cat) sees the man.\n\nthe old man sleeps .\n\u200b\n")
    arguments = ["--parser", "stanza", "--model", str(toy_stanza_models / "en"), "--device", "cpu"]
    assert run(["parse", str(text), *arguments, "--workers", workers, "--json", "-o", str(out)]) == 0
    assert out.read_text().splitlines() == [
        "(S (NP (DT the) (NP|<NN-PRN> (NN dog) (PRN (-LRB- -LRB-)"
        " (PRN|<NP--RRB-> (NP (DT the) (NN cat)) (-RRB- -RRB-)))))"
        " (S|<VP-.> (VP (VBZ sees) (NP (DT the) (NN man))) (. .)))",
        "(X (-NONE- *))",
        "(S (NP (DT the) (NP|<JJ-NN> (JJ old) (NN man))) (S|<VP-.> (VP (VBZ sleeps)) (. .)))",
        "(X (XX \ufffd))",
    ]
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert (report["counts"]["trees"], report["counts"]["placeholders"]) == (4, 2)
    assert "stanza" in report["provenance"]["versions"]
    assert all(
        line.startswith(("stanza: constituency model ", "4 trees", "1 without"))
        for line in captured.err.splitlines()
    ), captured.err


def test_a_run_is_resumed_with_the_models_it_began_with_alone(
    toy_stanza_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tagger is part of what the trees depend on."""
    from pdtools.parsers.in_chunks import BackendSettings

    shutil.copytree(toy_stanza_models, tmp_path / "models")
    settings = BackendSettings("stanza", str(tmp_path / "models" / "en"), "cpu")
    before = settings.described()
    assert BackendSettings("stanza", str(toy_stanza_models / "en"), "cpu").described() == before
    with (tmp_path / "models" / "en" / "pos" / "toy.pt").open("ab") as file:
        file.write(b"\0")
    assert settings.described() != before


def test_other_processes_parse_with_the_model_that_the_command_began_with(
    toy_stanza_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []

    def stop(sentences: Any, parser: Any, *args: Any, **options: Any) -> None:
        found.append(parser)
        raise PdtoolsError("enough is known")

    monkeypatch.setattr("pdtools.parsers.in_chunks.parse_in_chunks", stop)
    shutil.copytree(toy_stanza_models, tmp_path / "models")
    (tmp_path / "a.txt").write_text("a\n")
    model = ["--parser", "stanza", "--model", str(tmp_path / "models" / "en"), "-o", str(tmp_path / "out")]
    assert run(["parse", str(tmp_path / "a.txt"), *model, "--workers", "2"]) == 1
    with (tmp_path / "models" / "en" / "pos" / "toy.pt").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(PdtoolsError, match="is not the model that the command was started with"):
        found[0].load()


def test_failed_sentences_are_excluded_from_splits(toy_benepar_model: Path, tmp_path: Path) -> None:
    text, out = tmp_path / "a.txt", tmp_path / "out"
    text.write_text("the dog sleeps.\n\nthe man sleeps.\n")
    arguments = ["--model", str(toy_benepar_model), "--device", "cpu", "--split", "0.5,0.5"]
    assert run(["parse", str(text), "-o", str(out), *arguments]) == 0
    lines = [line for name in ("train", "valid") for line in (out / f"{name}.trees").read_text().splitlines()]
    assert len(lines) == 2
    assert json.loads((out / "rejects.jsonl").read_text())["line"] == 2


def test_running_text_through_benepar(
    toy_benepar_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "a.txt"
    text.write_text("the dog\nsleeps. The man sleeps.\n\na  cat sleeps .\n")
    arguments = ["--model", str(toy_benepar_model), "--device", "cpu", "--split-sentences"]
    assert run(["parse", str(text), *arguments, "--binarize", "none"]) == 0
    trees = capsys.readouterr().out.splitlines()
    assert trees == [
        "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))",
        "(S (NP (DT The) (NN man)) (VP (VBZ sleeps)) (. .))",
        "(X (-NONE- *))",
        "(S (NP (DT a) (NN cat)) (VP (VBZ sleeps)) (. .))",
    ]
    # In a file they have their sentences beside them, line for line; in files of splits too.
    arguments += ["--binarize", "none", "--quiet"]
    for again in ([], ["--overwrite"], ["--overwrite", "--workers", "2"]):
        assert run(["parse", str(text), *arguments, "-o", str(tmp_path / "a.trees"), *again]) == 0
        assert (tmp_path / "a.trees").read_text().splitlines() == trees
        texts = (tmp_path / "a.trees.text").read_text().splitlines()
        assert texts == ["the dog sleeps.", "The man sleeps.", "", "a cat sleeps ."]
    for again in ([], ["--overwrite"]):
        assert (
            run(["parse", str(text), *arguments, "--split", "0.5,0.5", "-o", str(tmp_path / "s"), *again])
            == 0
        )
    beside = [
        pair
        for part in ("train", "valid")
        for pair in zip(
            (tmp_path / "s" / f"{part}.trees").read_text().splitlines(),
            (tmp_path / "s" / f"{part}.trees.text").read_text().splitlines(),
            strict=True,
        )
    ]
    assert sorted(beside) == sorted(zip(trees, texts, strict=True))[:-1]


def test_trees_without_sentences_take_those_of_older_trees_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """tapes --text-style raw would read sentences of other trees."""
    bank, trees = tmp_path / "a.mrg", tmp_path / "a.trees"
    bank.write_text("(S (A a) (B b))\n")
    texts = tmp_path / "a.trees.text"
    texts.write_text("of nobody\n")
    command = ["parse", str(bank), "--from", "treebank", "-o", str(trees), "-q"]
    assert run(command) == 1
    assert "taken for those of the new trees" in capsys.readouterr().err
    assert texts.read_text() == "of nobody\n"
    assert not trees.exists()
    trees.write_text("(X (A c) (B d))\n")  # which has them
    assert run(command) == 1  # without --overwrite
    assert texts.exists()
    assert run([*command, "--overwrite"]) == 0
    assert trees.read_text() == "(S (A a) (B b))\n"
    assert not texts.exists()


def test_a_checkpoint_as_parser(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    from pdtools.models import PushdownConfig, build_model, save_checkpoint
    from pdtools.tokenization import train_word_tokenizer

    tokenizer = train_word_tokenizer(["the", "dog", "(", ")", "sleeps", "."], unk=False)
    torch.manual_seed(0)
    config = PushdownConfig(
        vocab_size=tokenizer.vocab_size,
        pad_id=tokenizer.pad_id,
        root_id=tokenizer.root_id,
        eos_id=tokenizer.eos_id,
        layers=1,
        d_model=16,
        heads=2,
        d_ff=16,
    )
    model = build_model("pushdown", config)
    save_checkpoint(
        tmp_path / "run" / "best", model, tokenizer, shards={"factor": "right", "layout": "sentence"}
    )
    text = tmp_path / "a.txt"
    text.write_text("the dog (the dog) sleeps.\n\nthe cat sleeps.\n. dog\n")
    assert run(["parse", str(text), "--parser", str(tmp_path / "run"), "--beam", "5", "--device", "cpu"]) == 0
    captured = capsys.readouterr()
    first, *others = captured.out.splitlines()
    tree = nltk.Tree.fromstring(first)
    assert tree.leaves() == ["the", "dog", "-LRB-", "the", "dog", "-RRB-", "sleeps", "."]
    assert {len(node) for node in tree.subtrees(lambda t: t.label() == "X")} == {2}
    assert others == ["(X (-NONE- *))", "(X (XX the) (XX cat) (XX sleeps) (XX .))", "(X (XX .) (XX dog))"]
    assert f"{text}:3: " in captured.err
    assert f"{text}:4: " not in captured.err


# --- real treebanks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bank", "subset"),
    [
        ("nltk_treebank", "all"),
        pytest.param("gum_const", "without_reddit", marks=pytest.mark.slow),
        pytest.param("craft_penn", "all", marks=pytest.mark.slow),
    ],
)
def test_counts_of_real_treebanks(
    bank: str, subset: str, test_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(test_data / "treebanks" / f"{bank}.zip") as archive:
        names = [name for name in archive.namelist() if "GUM_reddit" not in name]
        archive.extractall(tmp_path / "bank", names)
    with open(test_data / "treebanks" / "expected_counts.csv", newline="") as stream:
        (expected,) = (r for r in csv.DictReader(stream) if (r["treebank"], r["subset"]) == (bank, subset))
    out = tmp_path / "out.trees"
    assert run(["parse", str(tmp_path / "bank"), "--from", "treebank", "-o", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    counts = report["counts"]
    assert sum(report["form"].get("empty leaves left out", {}).values()) == counts["traces"]
    for ours, theirs in [
        ("files", "files"),
        ("trees", "trees"),
        ("tokens", "tokens"),
        ("traces", "none_leaves"),
    ]:
        assert counts[ours] == int(expected[theirs]), ours
    assert counts["rejects"] == 0
    n_leaves = 0
    with open(out, encoding="utf-8", newline="\n") as stream:
        lines = stream.read().removesuffix("\n").split("\n")
    assert len(lines) == counts["trees"]
    for line in lines:
        n_leaves += len(nltk.Tree.fromstring(line).leaves())
    assert n_leaves == int(expected["tokens_nltk_unicode_whitespace"])


# --- archives, and what is no text ------------------------------------------------------------


def test_archives_are_read_as_folders_are(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    archive, folder = tmp_path / "bank.zip", tmp_path / "folder"
    members = {
        "b/x.mrg": "(S (NN b))\n",
        "a.ptb": "(S (NN a))\n",
        "README.txt": "no tree",
        ".x.mrg": ")",
        "__MACOSX/a.mrg": ")",
        "c.tree.gz": gzip.compress(b"(S (NN c))\n"),
    }
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
    outputs = []
    for source in (archive, folder / "a.ptb", folder / "b", folder / "c.tree.gz"):
        assert run(["parse", str(source), "--from", "treebank", "-q"]) == 0
        outputs.append(capfd.readouterr().out)
    assert outputs[0] == "".join(outputs[1:]) == "(S (NN a))\n(S (NN b))\n(S (NN c))\n"
    assert run(["tapes", str(archive), "-q", "-o", str(tmp_path / "shards"), "--min-count", "1"]) == 0
    sources = json.loads((tmp_path / "shards" / "manifest.json").read_text())["sources"]
    assert [source["file"] for source in sources] == [
        f"{archive}/{n}" for n in ("a.ptb", "b/x.mrg", "c.tree.gz")
    ]
    assert sources[0]["sha256"] == hashlib.sha256(b"(S (NN a))\n").hexdigest()


def test_places_in_archives(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "bank.zip"
    parse = ["parse", str(archive), "--from", "treebank", "-o", str(tmp_path / "out")]
    for name, content, says in (
        ("x.mrg", b"(S (NN a))\n(S (NN b)\n", f"{archive}/x.mrg:2: "),
        ("x.txt", b"", f"{archive}: no files ending in .mrg"),
    ):
        with zipfile.ZipFile(archive, "w") as packed:
            packed.writestr(name, content)
        assert run(parse) == 1
        assert says in capfd.readouterr().err
    archive.write_bytes(b"PK\x03\x04 damaged")
    assert run(parse) == 1
    assert f"{archive}: damaged zip archive" in capfd.readouterr().err
    assert run([*parse[:-1], str(archive), "--overwrite"]) == 1  # not over what is read
    assert archive.exists()


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_binary_data_are_refused(on_error: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "data", tmp_path / "out"
    file.write_bytes(bytes(range(256)) * 4000)
    assert run(["parse", str(file), "--from", "treebank", "--on-error", on_error, "-o", str(out)]) == 1
    assert capfd.readouterr().err == f"pdtools: {file}: binary data, not text\n"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    with pytest.raises(InputError, match="binary data"):
        list(read_sentences([str(file)], "text"))
    file.write_text("word\n" * 4000, encoding="utf-16")
    with pytest.raises(InputError, match="UTF-16, not UTF-8"):
        list(read_sentences([str(file)], "text"))


@pytest.mark.parametrize("split", [(), ("--split", "0.5,0.5")])
def test_no_tree_at_all_is_an_error(
    split: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "x.mrg", tmp_path / "out"
    file.write_text("no tree\n(S (NN a)\n")
    assert run(["parse", str(file), "--from", "treebank", "--on-error", "skip", "-o", str(out), *split]) == 1
    err = capfd.readouterr().err
    assert "no trees in the input (1 excluded: " in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["x.mrg"]
