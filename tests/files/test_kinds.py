"""Telling files and folders apart at a glance."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pdtools.cli.main import run
from pdtools.files import Kind, kind_of, wrong_kind
from pdtools.trees import Tree

TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"
PAIR = json.dumps({"sentence_good": "He runs.", "sentence_bad": "He run.", "UID": "x", "pairID": "0"})
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
SUITE = json.dumps({"meta": {"name": "x"}, "predictions": [], "items": []}, indent=1)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (TREE, Kind.TREES),
        (f"\n\n( {TREE} )\n", Kind.TREES),
        ("\ufeff(ROOT\n  (S\n    (NP (PRP I))\n (VP (VBP see))))", Kind.TREES),
        ("(X (X (XX the) (XX dog)) (XX barks))", Kind.TREES),
        (f"1\t{TREE}\n2\t{TREE}\n", Kind.NUMBERED),
        ("17 ( (S (NN dog)))\r\n", Kind.NUMBERED),
        ("1\t(NP (NN (kera)))\n2\t(S (NN (lari)))\n", Kind.NUMBERED),
        ("1\t(He saw it.)\n2\tIt ran.\n", Kind.TEXT),
        ("The dog barks.\nIt runs.", Kind.TEXT),
        ("* a copyright note\n( (S (NN dog)) )", None),  # as some treebanks begin
        ("(1 (2 )2 )1 (3 )3", None),  # strings of a formal language
        ("(He saw it (see below).)\nNobody else did.", None),
        ("(see below)", None),
        ("(see (Smith 1999)) The dog barks.\nIt does.\n", None),
        ("(S (NN dog) (VB bar", Kind.TREES),
        (PAIR, Kind.PAIRS),
        ("UID\tsentence_good\tsentence_bad\nx\tHe runs.\tHe run.", Kind.PAIRS),
        ("id\tsentence_good\nx\tHe runs.", Kind.PAIRS),  # whose reader says what is missing
        ("id\tsentence_bad\nx\tHe run.", Kind.PAIRS),
        (json.dumps({"sentence_good": "He runs."}), None),
        (SUITE, Kind.SUITES),
        ("sentence_id\ttoken_id\ttoken\tstart\tend\tsurprisal\n", Kind.SURPRISALS),
        (json.dumps({"file": "a", "line": 1, "reason": "long", "text": "x"}), Kind.REJECTS),
        ("[{}]", None),
        ("PAR1", Kind.PARQUET),
        (POINTER, Kind.POINTER),
        ("", None),
        ("{", None),
        ("\0", None),
    ],
)
def test_files(text: str, kind: Kind | None, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text(text)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(text.encode()))
    assert kind_of(tmp_path / "plain") is kind
    assert kind_of(tmp_path / "packed.gz") is kind


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["eval-blimp", "--model", "english-base", "-o", "r"], "pairs.jsonl"),
        (["eval-blimp", "--model", "english-base", "-o", "r"], "pairs.zip"),
        (["surprisal", "--model", "english-base"], "text.txt"),
        (["tapes", "-o", "r"], "some.trees"),
    ],
)
def test_pointers_of_git_lfs_are_no_data(
    command: list[str],
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(POINTER)
    assert run([command[0], name, *command[1:], "-q"]) == 1
    assert capsys.readouterr().err.startswith(f"pdtools: {name}: a Git LFS pointer, not ")
    assert not Path("r").exists()


def test_what_cannot_be_read_is_of_no_kind(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("déjà vu".encode("latin-1"))
    (tmp_path / "damaged.gz").write_bytes(b"no gzip")
    (tmp_path / "no.zip").write_text("text")
    (tmp_path / "damaged.zip").write_bytes(b"PK\x03\x04 no zip")
    for name in ("latin", "damaged.gz", "damaged.zip", "no.zip", "missing", "missing/too", "a\0b"):
        assert kind_of(tmp_path / name) is None


def test_a_letter_at_the_end_of_the_glance(tmp_path: Path) -> None:
    for n in range(4):
        (tmp_path / "text").write_text("a" * n + "€" * 10_000)
        assert kind_of(tmp_path / "text") is Kind.TEXT


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["shards/manifest.json", "shards/part-00000.parquet"], Kind.SHARDS),
        (["run/run.json", "run/best/config.json"], Kind.MODEL),
        (["results/results.json", "results/items.parquet"], Kind.RESULTS),
        (["model/blimp/results.json"], Kind.SEVERAL_RESULTS),
        (["wsj/00/a.mrg", "wsj/01/b.mrg", "wsj/README"], Kind.TREES),
        (["wsj/a.mrg", "wsj/pairs.jsonl"], None),
        (["text/a.txt", "text/.hidden.mrg"], Kind.TEXT),
        (["model/SHA256SUMS"], None),
        (["suites/a.json"], Kind.SUITES),
        (["pairs/a.jsonl"], Kind.PAIRS),
    ],
)
def test_folders(names: list[str], kind: Kind | None, tmp_path: Path) -> None:
    written = {".mrg": TREE, ".txt": "text", ".jsonl": PAIR, ".json": SUITE, "": "A treebank."}
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(written.get(Path(name).suffix, ""))
    assert kind_of(tmp_path / names[0].split("/")[0]) is kind


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model": "pushdown", "shards": {}, "config": {}}, Kind.MODEL),
        ({"model_type": "bert"}, Kind.HUGGING_FACE),
        ({"architectures": ["GPT2LMHeadModel"]}, Kind.HUGGING_FACE),
        ({}, None),
        ([], None),
    ],
)
def test_folders_of_a_model(config: object, kind: Kind | None, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert kind_of(tmp_path) is kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [("data/x.jsonl", Kind.PAIRS), ("x/y.json", Kind.SUITES), ("a.mrg", Kind.TREES), ("photo.jpg", None)],
)
def test_archives(name: str, kind: Kind | None, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("__MACOSX/._x.jsonl", "")
        archive.writestr(name, "")
    assert kind_of(tmp_path / "some.zip") is kind


def test_every_wrong_kind_has_a_hint(tmp_path: Path) -> None:
    (tmp_path / "gold.trees").write_text(TREE)
    for needed in (
        Kind.TEXT,
        Kind.SHARDS,
        Kind.MODEL,
        Kind.HUGGING_FACE,
        Kind.RESULTS,
        Kind.PAIRS,
        Kind.SUITES,
    ):
        error = wrong_kind(tmp_path / "gold.trees", needed)
        assert error is not None
        assert error.reason == f"bracketed trees, not {needed.value}"
        assert error.hint
        assert "{" not in error.hint
    assert wrong_kind(tmp_path / "gold.trees", Kind.TREES) is None


WORD = st.text("abc.'-", min_size=1, max_size=4)
LEAF = st.builds("({} {})".format, WORD, WORD)
NODE = st.recursive(
    LEAF,
    lambda under: st.builds(
        lambda w, c: f"({w} {' '.join(c)})", WORD, st.lists(under, min_size=1, max_size=3)
    ),
)


@given(NODE.filter(lambda text: "(" in text[1:]))
def test_any_tree_is_recognised(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("trees") / "a"
    file.write_text(text)
    assert len(Tree.from_brackets(text)) > 0
    assert kind_of(file) is Kind.TREES


@given(st.text("ab ().\n", max_size=30))
@example("( " * 5_000)
@example("(a " * 5_000)
def test_text_is_taken_for_trees_only_if_it_could_be(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.mktemp("text") / "a"
    file.write_text(text)
    found = kind_of(file)
    assert found in (None, Kind.TEXT, Kind.TREES)
    if not text.strip().startswith("("):
        assert found is not Kind.TREES
