"""Shards of sentences as they were written, from the file beside their trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.shards import ShardSet
from pdtools.shards.plain import written_sentence
from pdtools.trees import SourcedTree, Tree, read_trees

TREES = (
    "(S (NP (NNP Filby)) (VP (: --) (VBZ sits)) (. .))\n"
    "(X (-NONE- *))\n"
    "(S (`` ``) (VP (VB Go)) (. !) ('' ''))\n"
    "(S (NP (PRP He)) (VP (VBD did) (RB n't) (VB go)) (. .))\n"
)
BPE = ("--tokenizer", "bpe", "--vocab-size", "270", "--quiet")
# Not what anybody would make of the words alone: two spaces, none, a curly apostrophe.
TEXTS = ["Filby  --sits .", "", '"Go !"', "He didn't go."]


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    file = tmp_path / "a.trees"
    file.write_text(TREES)
    Path(f"{file}.text").write_text("\n".join(TEXTS) + "\n")
    return file


def tapes(trees: Path, output: Path, style: str, *more: str) -> ShardSet:
    command = ["tapes", str(trees), *BPE, "--min-count", "1", "--text-style", style]
    assert run([*command, "-o", str(output), *more]) == 0
    return ShardSet.open(output)


def decoded(shards: ShardSet) -> list[str]:
    backend = shards.tokenizer._backend
    return [
        backend.decode(shards.tokens(row).tolist(), skip_special_tokens=True) for row in range(len(shards))
    ]


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("layout", [(), ("--layout", "window", "--window", "40")])
def test_raw_shards_have_the_text(trees: Path, tmp_path: Path, workers: str, layout: tuple[str, ...]) -> None:
    shards = tapes(trees, tmp_path / "raw", "raw", "--workers", workers, *layout)
    text = "".join(decoded(shards))
    # Words are encoded one by one: of white space, whether there is some is kept.
    assert text == "".join(" ".join(line.split()) for line in TEXTS)
    sources = [source["file"] for source in shards.manifest["sources"]]
    assert sources == [str(trees), f"{trees}.text"]


@pytest.mark.parametrize("layout", [(), ("--layout", "window", "--window", "40")])
def test_a_word_with_a_blank(tmp_path: Path, layout: tuple[str, ...]) -> None:
    """In trees and in the text of shards it is a no-break space; tokens are those of the sentence."""
    file = tmp_path / "a.trees"
    file.write_text("(S (NP (NUM 20\u00a0000\u00a0000) (NN chats)) (VP (VB dorment)) (. .))\n")
    Path(f"{file}.text").write_text("20 000 000 chats dorment.\n")
    shards = tapes(file, tmp_path / "raw", "raw", *layout)
    assert [shards.text(0), *decoded(shards)] == [
        "20\u00a0000\u00a0000 chats dorment .",
        "20 000 000 chats dorment.",
    ]


def test_without_the_file_and_in_other_styles_words_are_joined(trees: Path, tmp_path: Path) -> None:
    joined = ["Filby -- sits.", '"Go!"', "He didn't go."]
    assert decoded(tapes(trees, tmp_path / "typed", "typed")) == ["Filby --sits .", '"Go !"', "He didn't go."]
    ptb = decoded(tapes(trees, tmp_path / "ptb", "ptb"))
    assert len(ShardSet.open(tmp_path / "ptb").manifest["sources"]) == 1
    assert [text.strip() for text in ptb] == ["Filby -- sits .", "`` Go ! ''", "He did n't go ."]
    Path(f"{trees}.text").unlink()
    assert decoded(tapes(trees, tmp_path / "raw", "raw")) == joined


@pytest.mark.parametrize(
    "texts",
    [
        TEXTS[:2],
        [*TEXTS[:3], "He did not go."],
        [TEXTS[0], "", "", TEXTS[3]],
        [TEXTS[0], "", "Go !", TEXTS[3]],
        [],
    ],
)
def test_other_sentences_are_refused(
    trees: Path, texts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = Path(f"{trees}.text")
    beside.write_text("".join(f"{text}\n" for text in texts))
    assert run(["tapes", str(trees), *BPE, "--text-style", "raw", "-o", str(tmp_path / "out")]) == 1
    wrong = next(
        (i for i, (is_, should) in enumerate(zip(texts, TEXTS, strict=False)) if is_ != should), len(texts)
    )
    line = f"pdtools: {beside}:{wrong + 1}: not the sentence of the tree on line {wrong + 1} of {trees}"
    assert capsys.readouterr().err.startswith(line)
    assert not (tmp_path / "out").exists()


def test_a_changed_file_is_read_again(trees: Path) -> None:
    (first, *_) = read_trees([str(trees)], Rejects())

    def text() -> str | None:
        sentence = written_sentence(first, first.tree)
        return sentence and sentence.text

    assert text() == TEXTS[0]
    Path(f"{trees}.text").write_text("Filby -- sits.\n")
    assert text() == "Filby -- sits."
    other = trees.with_name("other")
    other.write_text("Filby --sits .\n")  # of the same size
    os.utime(other, (1, 1))
    other.replace(f"{trees}.text")
    assert text() == "Filby --sits ."
    for nanoseconds, again in enumerate(("Filby-- sits .", "Filby --sits ."), 2_000_000_000):
        other.write_text(f"{again}\n")
        os.utime(other, ns=(0, nanoseconds))  # within the same second
        other.replace(f"{trees}.text")
        assert text() == again
    unlike = SourcedTree(Tree.from_brackets("(NP (NN x))"), str(trees), 1, "")
    with pytest.raises(InputError):
        written_sentence(unlike, unlike.tree)
    Path(f"{trees}.text").unlink()
    assert text() is None
