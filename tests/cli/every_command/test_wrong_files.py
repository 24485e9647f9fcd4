"""Every command given a file that is for another one: it says what that is, and which command is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pdtools.cli.main import run

TREES = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n" * 3
PAIR = {"sentence_good": "a b", "sentence_bad": "b a", "UID": "u", "pairID": "0", "field": "syntax"}
SUITE = {"meta": {"name": "s"}, "predictions": [], "items": []}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of everything, as far as a glance sees."""
    folder = tmp_path_factory.mktemp("given")
    (folder / "gold.trees").write_text(TREES)
    (folder / "wsj").mkdir()
    (folder / "wsj/a.mrg").write_text(TREES)
    (folder / "text.txt").write_text("The dog barks.\n")
    (folder / "a.conllu").write_text("1\tDogs\t_\tNOUN\t_\t_\t0\t_\t_\t_\n")
    (folder / "a.export").write_text("#BOS 1\nDogs\tN\t--\t--\t0\n#EOS 1\n")
    (folder / "a.xml").write_text("<corpus><body><s><graph><terminals/></graph></s></body></corpus>\n")
    (folder / "a.disc").write_text("(S (NP 0=The 1=dog) (VP 2=barks))\n")
    (folder / "a.psd").write_text("( (IP-MAT (NP-SBJ *pro*) (VBD slept)) (ID A,1))\n")
    (folder / "lemmas.mrg").write_text("(S (sn (da0 la el) (nc casa casa)) (Fp . .))\n")
    (folder / "words.mrg").write_text("(S (NN (a)) (VB (b)))\n")
    (folder / "disc").mkdir()
    (folder / "disc/a.mrg").write_text("(S (NP 0=The 1=dog) (VP 2=barks))\n")
    (folder / "pairs.jsonl").write_text(json.dumps({**PAIR, "linguistics_term": "t"}) + "\n")
    (folder / "suite.json").write_text(json.dumps(SUITE))
    assert run(["tapes", str(folder / "gold.trees"), "-o", str(folder / "shards"), "-q"]) == 0
    for name in ("run/run.json", "results/results.json"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("{}")
    return folder


CASES = """
eval-ppl gold.trees --model run -> gold.trees: bracketed trees, not shards (pdtools tapes
train shards --init shards -o new -> shards: shards, not a Hugging Face model (
show text.txt 0 -> text.txt: plain text, not shards (pdtools blocks
eval-formal cfl run --model run -o new -> run: a pdtools checkpoint, not shards (a model goes after --model)
decode shards --model run -> shards: shards, not plain text (pdtools train and eval-ppl
decode gold.trees --model run -> bracketed trees, not plain text (trees are read with --from treebank
surprisal pairs.jsonl --model run -> (pdtools eval-blimp
parse wsj -> --from treebank
parse text.txt --from treebank -> (pdtools parse makes trees from text
tapes text.txt -o new -> text.txt: plain text, not bracketed trees (pdtools parse
tapes a.conllu -o new -> a.conllu: CoNLL-U, not bracketed trees (pdtools parse --from conllu makes
eval-parse a.conllu gold.trees -> gold.trees: not CoNLL-U, as a.conllu is
eval-parse gold.trees a.export -> a.export: NEGRA export, not bracketed trees (pdtools parse --from
eval-parse a.psd gold.trees -> (pdtools parse --from penn-historical makes these of it)
tapes a.disc -o new -> (pdtools parse --from discbracket makes these of it)
eval-parse gold.trees lemmas.mrg -> (pdtools parse --from treebank makes these of it)
tapes words.mrg -o new -> (pdtools parse --from treebank makes these of it)
tapes disc -o new -> (pdtools parse --from discbracket makes these of it)
surprisal a.xml --from treebank --model run -> TIGER XML, not bracketed trees (pdtools parse --from tiger
surprisal a.conllu --model run -> a.conllu: CoNLL-U, not plain text (pdtools parse --from conllu makes trees
decode a.disc --model run -> makes trees of it, which are read with --from treebank)
tapes shards -o new -> (give the trees that they were made from)
eval-parse text.txt gold.trees --format evalb -> (pdtools parse
eval-blimp shards --model run -o new -> shards: shards, not minimal pairs (pdtools eval-ppl
eval-blimp suite.json --write-sentences new -> (pdtools eval-sg
eval-sg pairs.jsonl --model run -o new -> (pdtools eval-blimp
compare run results -> run: a pdtools checkpoint, not a folder of results (pdtools eval-blimp
compare nowhere results -> nowhere: no such folder (
sample --model shards -> shards: shards, not a pdtools checkpoint (pdtools train
eval-formal dyck gold.trees --model run -> gold.trees:1: no header prefix
"""


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_what_is_missing_is_named(
    case: str, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(given)
    command, said = case.split(" -> ")
    there = {path.name for path in given.iterdir()}
    arguments = [str(tmp_path / "new") if word == "new" else word for word in command.split()]
    assert run([*arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err
    assert not (tmp_path / "new").exists()
    assert {path.name for path in given.iterdir()} == there


def test_a_folder_with_one_bad_file_goes_by_on_error(given: Path, tmp_path: Path) -> None:
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank/a.mrg").write_text(TREES)
    (tmp_path / "bank/b.mrg").write_text("No tree.\n")
    command = ["parse", str(tmp_path / "bank"), "--from", "treebank", "-o", str(tmp_path / "out"), "-q"]
    assert run([*command]) == 1
    assert run([*command, "--on-error", "skip"]) == 0
    assert (tmp_path / "out").read_text().count("\n") == 3


def test_a_file_in_the_place_of_a_model_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines.txt").write_text("the dog\n")
    (tmp_path / "large").write_bytes(b"\0")
    monkeypatch.setattr("pdtools.provenance.origin.sha256_file", lambda path: pytest.fail("read as a whole"))
    command = ["surprisal", f"{tmp_path}/lines.txt", "--model", f"{tmp_path}/large", "-o", f"{tmp_path}/out"]
    assert run(command) == 1
    assert "large: not a folder" in capsys.readouterr().err
