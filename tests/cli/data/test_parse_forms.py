"""``pdtools parse`` of treebanks that are not in Penn's brackets."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import threading
from pathlib import Path

import pytest

from pdtools.cli.main import run

CONLLU = """# text = The dogs bark.
1	The	_	DET	_	_	2	_	_	_
2	dogs	_	NOUN	_	_	3	_	_	_
3	bark	_	VERB	_	_	0	_	_	SpaceAfter=No
4	.	_	PUNCT	_	_	3	_	_	_

# text = He can't
1	He	_	PRON	_	_	2	_	_	_
2-3	can't	_	_	_	_	_	_	_	_
2	ca	_	VERB	_	_	0	_	_	_
3	n't	_	PART	_	_	2	_	_	_

"""
CYCLE = "1	a	_	X	_	_	2	_	_	_\n2	b	_	X	_	_	1	_	_	_\n\n"
PENN = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n"


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of CoNLL-U, which commands are run beside."""
    monkeypatch.chdir(tmp_path)
    Path("bank").mkdir()
    Path("bank/a.conllu").write_text(CONLLU)
    Path("bank/README.txt").write_text("not a tree")
    return tmp_path


def test_dependencies(bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["parse", "bank", "--from", "conllu", "-o", "out.trees", "--json"]) == 0
    captured = capsys.readouterr()
    assert Path("out.trees").read_text() == (
        "(VERBP (NOUNP (DET The) (NOUN dogs)) (VERBP|<VERB-PUNCT> (VERB bark) (PUNCT .)))\n"
        "(VERBP (PRON He) (VERBP|<VERB-PART> (VERB ca) (PART n't)))\n"
    )
    assert Path("out.trees.text").read_text() == "The dogs bark.\nHe can't\n"
    assert Path("out.trees.arcs").read_text() == "2-1 0-3 3-2 3-4\n0-2 2-1 2-3\n"
    report = json.loads(captured.out)
    assert report["form"] == {"name": "conllu", "words of several syntactic words": 1}
    assert (report["counts"]["trees"], report["counts"]["tokens"], report["counts"]["files"]) == (2, 7, 1)
    assert report["settings"]["from"] == "conllu"
    assert captured.err == "2 trees, 7 tokens\nwords of several syntactic words: 1\n"


def test_surface_words_binarized_from_heads_in_a_pipeline(
    bank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--from", "conllu", "--surface", "--binarize", "head"]
    assert run(["parse", "bank", *options, "-o", "out.trees", "-q"]) == 0
    assert Path("out.trees").read_text().splitlines() == [
        "(VERBP (NOUNP (DET The) (NOUN dogs)) (VERBP|<VERB-PUNCT> (VERB bark) (PUNCT .)))",
        "(VERBP (PRON He) (VERB can't))",
    ]
    assert run(["tapes", "out.trees", "-o", "shards", "--text-style", "raw", "--min-count", "1"]) == 0
    assert "2 sentences" in capsys.readouterr().err


def test_splits_have_their_sentences(bank: Path) -> None:
    Path("bank/a.conllu").write_text("".join(CONLLU.replace("dogs", f"dogs{i}") for i in range(9)))
    assert run(["parse", "bank", "--from", "conllu", "--split", "0.5,0.5", "-o", "out", "-q"]) == 0
    for name in ("train", "valid"):
        ends = ("", ".text", ".arcs")
        trees, texts, arcs = (Path(f"out/{name}.trees{end}").read_text().splitlines() for end in ends)
        assert len(trees) == len(texts) == len(arcs) > 0
        for tree, text, own in zip(trees, texts, arcs, strict=True):
            number = re.search(r"dogs\d", tree)
            assert own == ("0-2 2-1 2-3" if number is None else "2-1 0-3 3-2 3-4")
            assert text == ("He can't" if number is None else f"The {number[0]} bark.")


def test_enhanced_graphs_and_trees_without_arcs(bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bank/a.conllu").write_text(
        "1\ta\t_\tX\t_\t_\t0\t_\t0:root|2:x\t_\n2\tb\t_\tX\t_\t_\t1\t_\t1:y\t_\n"
    )
    assert run(["parse", "bank", "--from", "conllu-enhanced", "-o", "out.trees"]) == 0
    assert Path("out.trees.arcs").read_text() == "0-1 1-2 2-1\n"
    assert "graphs with cycles: 1\n" in capsys.readouterr().err
    Path("penn.mrg").write_text(PENN)
    assert run(["parse", "penn.mrg", "--from", "treebank", "-o", "out.trees", "--overwrite"]) == 0
    assert not Path("out.trees.arcs").exists()
    Path("new.trees.arcs").write_text("0-1\n")
    capsys.readouterr()
    assert run(["parse", "penn.mrg", "--from", "treebank", "-o", "new.trees"]) == 1
    assert capsys.readouterr().err == (
        "pdtools: new.trees.arcs: these arcs would be taken for those of the new trees: move the file away\n"
    )
    Path("a.sdp").write_text("1\ta\ta\tA\t+\t+\t_\n2\tb\tb\tB\t-\t-\tx\n")
    assert run(["parse", "a.sdp", "--from", "sdp", "-o", "a.trees", "-q"]) == 0
    assert Path("a.trees").read_text() == "(X (A a) (B b))\n"
    assert Path("a.trees.arcs").read_text() == "0-1 1-2\n"


@pytest.mark.parametrize("more", [["--workers", "2"], ["--shard"]])
def test_work_in_chunks_gives_the_same(bank: Path, more: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("bank/a.conllu").write_text((CONLLU + CYCLE) * 300)
    command = ["parse", "bank", "--from", "conllu", "--on-error", "skip", "-q"]
    assert run([*command, "-o", "one.trees"]) == 0
    parts = [[*more, "0/2"], [*more, "1/2"]] if "--shard" in more else [more]
    for part in parts:
        arguments = [*command, "-o", "two.trees", *part]
        monkeypatch.setattr(sys, "argv", ["pdtools", *arguments])  # which merge repeats
        assert run(arguments) == 0
    if "--shard" in more:
        monkeypatch.setattr(sys, "argv", ["pdtools", "merge", "two.trees"])
        assert run(["merge", "two.trees"]) == 0
    for end in ("", ".text", ".arcs", ".rejects.jsonl"):
        assert Path(f"one.trees{end}").read_bytes() == Path(f"two.trees{end}").read_bytes()


def test_a_bad_sentence_stops_or_is_counted(bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bank/b.conllu").write_text(CYCLE + CONLLU)
    command = ["parse", "bank", "--from", "conllu", "-o", "out.trees"]
    assert run(command) == 1
    captured = capsys.readouterr()
    assert captured.err == (
        "pdtools: bank/b.conllu:1: the heads form a cycle (--on-error skip excludes it)\n"
    )
    assert run([*command, "--on-error", "skip"]) == 0
    assert "4 trees, 14 tokens\n" in (said := capsys.readouterr().err)
    assert "1 without a tree: the heads form a cycle\n" in said
    (record,) = map(json.loads, Path("out.trees.rejects.jsonl").read_text().splitlines())
    assert (record["file"], record["line"], record["text"]) == ("bank/b.conllu", 1, CYCLE.rstrip("\n"))


HISTORICAL = "( (IP (NP-SBJ *pro*) (VBD ran) (CODE <P_1>)) (ID A,.1))\n"
NUMBERED = "1\t(S (NN a) (VB b))\n"
EXPORT = "#BOS 1\na\tA\t--\t--\t500\nb\tB\t--\t--\t0\nc\tC\t--\t--\t500\n#500\tX\t--\t--\t0\n#EOS 1\n"
TIGER = (
    "<corpus><body><s><graph><terminals><t id='a' word='x' pos='T'/></terminals></graph></s></body></corpus>"
)
LEAVES = "(S (A 0=a) (B 2=b) (C 1=c))\n"


@pytest.mark.parametrize(
    ("content", "said", "trees"),
    [
        (
            HISTORICAL,
            "read as a historical Penn treebank\n1 trees, 1 tokens\nempty leaves left out: 1 *pro*\n"
            "metadata left out: 1 CODE, 1 ID\nwrappers taken off: 1\n",
            "(IP (VBD ran))\n",
        ),
        (
            NUMBERED,
            "read as Penn brackets with ids before trees, words in brackets, or lemmas after words\n"
            "1 trees, 2 tokens\nids before trees left out: 1\n",
            "(S (NN a) (VB b))\n",
        ),
        (
            LEAVES,
            "read as brackets with numbered leaves\n1 trees, 3 tokens\n",
            "(S (A a) (S|<C-B> (C c) (B b)))\n",
        ),
        (PENN, "1 trees, 3 tokens\n", PENN),
    ],
)
def test_forms_of_brackets_are_found_by_content(
    content: str, said: str, trees: str, bank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bank/a.txt").write_text(content)
    assert run(["parse", "bank", "--from", "treebank", "-o", "out.trees"]) == 0
    assert capsys.readouterr().err == said
    assert Path("out.trees").read_text() == trees


def test_sentences_that_are_excluded_by_rule_are_no_error(
    bank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.export").write_text(EXPORT + EXPORT.replace("500\nb", "0\nb"))
    options = ["--from", "export", "--discontinuous", "skip", "--binarize", "none"]
    assert run(["parse", "a.export", *options, "-o", "out.trees"]) == 0
    assert "1 without a tree: discontinuous constituents\n" in capsys.readouterr().err
    assert Path("out.trees").read_text() == "(VROOT (A a) (B b) (X (C c)))\n"


@pytest.mark.parametrize(
    ("files", "source", "said"),
    [
        (
            {"a.psd": HISTORICAL, "b.mrg": NUMBERED},
            "treebank",
            "b.mrg: Penn brackets with ids before trees",
        ),
        ({"a.xml": TIGER}, "export", "a.xml: TIGER XML: use --from tiger-xml"),
        (
            {"a.psd": LEAVES},
            "penn-historical",
            "brackets with numbered leaves: use --from discbracket",
        ),
        ({"a.export": EXPORT, "b.export": CONLLU}, "export", "b.export: CoNLL-U: use --from conllu"),
    ],
)
def test_another_form_in_a_folder_is_refused_in_one_line(
    files: dict[str, str], source: str, said: str, bank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other").mkdir()
    for name, content in files.items():
        Path("other", name).write_text(content)
    shutil.make_archive("other", "zip", "other")
    for place in ("other", "other.zip"):
        assert run(["parse", place, "--from", source, "-o", "out.trees"]) == 1
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        assert said in captured.err


# Files that were misread: form, trees, sentences, arcs, and what is said of them, "" for any of these.
CASES = {
    "a1_correctspace.conllu": ("conllu", "", "My cat sleeps .", "", ""),
    "a5_noforms.conllu": ("conllu", None, "", "", "all of its words are _"),
    "a14_order.conllu": ("conllu", "(VERBP (NOUN Dogs) (VERB bark))", "", "0-2 2-1", ""),
    "a10_plus.conllu": ("conllu", "(VERBP (NOUN Dogs) (VERB give) (ADP up))", "", "0-2 2-1 2-3", ""),
    "a11_roots.conll": (
        *("conllu", "(ROOT (VP (N Hunde) (V bellen)) ($. .))", "", "0-2 2-1 0-3"),
        "sentences with several roots: 1\n",
    ),
    "a2_empty.conllu": ("conllu-enhanced", "", "", "\n", "arcs from empty nodes left out: 5\n"),
    "f2_partial_deps.conllu": ("conllu-enhanced", "", "", "\n", "arcs from empty nodes left out: 3\n"),
    "a13_enh.conllu": (
        *("conllu-enhanced", "", "", "0-2 2-1 2-4 4-1 4-2 4-3 2-6 4-6 6-1 6-5"),
        "arcs from empty nodes left out: 1\n",
    ),
    "a4_supar_sdp.conllu": ("conllu-enhanced", "", "", "0-2 2-1 2-4 3-4", "words without a head: 5\n"),
}


@pytest.mark.parametrize("more", [["--surface"], ["--binarize", "head"], ["--functions", "keep"]])
def test_a_job_is_not_continued_with_other_options(
    more: list[str], bank: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["parse", "bank", "--from", "conllu", "-o", "out.trees", "-q", "--shard"]
    assert run([*command, "0/2"]) == 0
    assert run([*command, "1/2", *more]) == 1
    assert "other settings" in capsys.readouterr().err


@pytest.mark.parametrize("name", CASES)
def test_files_that_were_misread(
    name: str, test_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not (file := test_data.parent / "cases" / "4" / name).is_file():
        pytest.skip(f"no {file}")
    form, tree, written, arcs, said = CASES[name]
    out = tmp_path / "out.trees"
    command = ["parse", str(file), "--from", form, "--binarize", "none", "-o", str(out)]
    assert run(command) == (tree is None)
    assert said in capsys.readouterr().err
    if tree is not None:
        for ending, wanted in (("", tree), (".text", written), (".arcs", arcs)):
            found = out.with_name(out.name + ending).read_text()
            assert found == (wanted.rstrip("\n") + "\n" if wanted else found)


# --- pipes ------------------------------------------------------------------------------------

LEMMAS = "(S (sn (da0fs0 la el) (ncfs000 casa casa)) (grup.verb (vmis3s0 vio ver)))\n"


@pytest.mark.linux
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    ("content", "words", "says"),
    [
        (LEMMAS, "(S (sn (da0fs0 la) (ncfs000 casa)) (grup.verb (vmis3s0 vio)))\n", "read as "),
        ("1\t" + PENN, PENN, "read as "),
        (PENN * 2000, PENN * 2000, ""),  # longer than what is looked at
        (CONLLU, None, "CoNLL-U: use --from conllu"),
        ("", None, ":1: no trees in this file"),
    ],
)
def test_pipes_are_recognized_as_files_are(
    content: str,
    words: str | None,
    says: str,
    named: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also where a pipe's content comes in pieces; ``tapes`` refuses in a pipe what it refuses in a file."""
    file = tmp_path / "file"
    file.write_text(content)

    def filled(pipe: Path) -> str:
        os.mkfifo(pipe)

        def fill() -> None:
            with open(pipe, "wb", buffering=0) as stream, contextlib.suppress(BrokenPipeError):
                for begin in range(0, len(content), 1 << 15):
                    stream.write(content[begin : begin + 5].encode())
                    stream.write(content[begin + 5 : begin + (1 << 15)].encode())

        threading.Thread(target=fill, daemon=True).start()
        if not named:
            monkeypatch.setattr(sys, "stdin", pipe.open(encoding="utf-8"))
        return str(pipe) if named else "-"

    for command in (["parse", "--from", "treebank", "--binarize", "none"], ["tapes", "--min-count", "1"]):
        found = {}
        for name in (str(file), filled(tmp_path / command[0])):
            output = tmp_path / f"out-{len(found)}"
            status = run([*command, name, "-o", str(output)])
            err = capsys.readouterr().err.replace(f"{name}:", "IT:").replace(str(output), "OUT")
            found[name] = status, err, output.read_text() if output.is_file() else None
            shutil.rmtree(output) if output.is_dir() else output.unlink(missing_ok=True)
        as_file, as_pipe = found.values()
        assert as_pipe[0] == as_file[0]
        assert as_pipe[1].count("\n") == 1 or not as_pipe[0]
        if command[0] == "parse":
            assert as_pipe == as_file
            assert as_file == (words is None, as_file[1], words)
            assert says in as_file[1]
