"""spaCy's parser as a backend: of a toy pipeline, trees and arcs against those of its own CoNLL-U."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.parsers.backends import gives_arcs, load_parser, load_splitter, model_files, model_note
from pdtools.trees import path_beside
from pdtools.trees.forms import FORMS, ReadOptions, ReadTree, read_block

spacy = pytest.importorskip("spacy")

# Words, tags, heads from 1. The last has crossing arcs.
BANK = [
    ("the dog barks .", "DET NOUN VERB PUNCT", [2, 3, 0, 3]),
    ("a cat that sleeps barks .", "DET NOUN PRON VERB VERB PUNCT", [2, 5, 4, 2, 0, 5]),
    ("dogs bark", "NOUN VERB", [2, 0]),
    ("a dog came today that barks", "DET NOUN VERB ADV PRON VERB", [2, 3, 0, 3, 6, 2]),
]
TEXTS = [*(words for words, *_ in BANK), "(", "the dog that the cat barks sleeps .", "“ dogs ” ( bark ) {"]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from spacy.training import Example

    nlp = spacy.blank("en")
    nlp.add_pipe("morphologizer")
    nlp.add_pipe("parser", config={"min_action_freq": 1})
    examples = []
    for words, tags, heads in BANK:
        doc = nlp.make_doc(words)
        about = {
            "heads": [head - 1 if head else k for k, head in enumerate(heads)],
            "deps": ["dep" if head else "ROOT" for head in heads],
            "pos": tags.split(),
        }
        examples.append(Example.from_dict(doc, about))
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(60):
        nlp.update(examples, sgd=optimizer)
    folder = tmp_path_factory.mktemp("spacy") / "toy"
    nlp.to_disk(folder)
    return folder


def through_conllu(folder: Path, texts: list[str], file: Path) -> list[tuple[str, str]]:
    """Trees and arcs of what spaCy finds, each text as one sentence, written as CoNLL-U by hand and read."""
    nlp = spacy.load(folder)
    blocks = []
    for text in texts:
        doc = spacy.tokens.Doc(
            nlp.vocab, words=text.split(), sent_starts=[k == 0 for k in range(len(text.split()))]
        )
        doc = nlp(doc)
        lines = []
        for token in doc:
            head = 0 if token.head.i == token.i else token.head.i + 1
            lines.append(
                "\t".join(
                    [str(token.i + 1), token.text, "_", token.pos_ or "_", "_", "_", str(head), "x", "_", "_"]
                )
            )
        blocks.append("\n".join(lines) + "\n\n")
    file.write_text("".join(blocks), encoding="utf-8")
    counts = Counter[str]()
    form = FORMS["conllu"]
    read = [
        each for block in form.blocks(str(file)) for each in read_block(form, block, ReadOptions(), counts)
    ]
    assert counts["arcs lifted"] >= 1
    return [(str(each.tree), str(each.graph)) for each in read if isinstance(each, ReadTree)]


def test_trees_and_arcs_are_those_of_its_conllu(pipeline: Path, tmp_path: Path) -> None:
    assert gives_arcs("spacy", str(pipeline))
    parser = load_parser("spacy", str(pipeline))
    found: list[Any] = list(parser.parse([text.split() for text in TEXTS]))
    assert [(str(each.tree), str(each.graph)) for each in found] == through_conllu(
        pipeline, TEXTS, tmp_path / "own.conllu"
    )
    # It has learned its treebank.
    assert found[0].graph.heads.tolist() == [2, 0, 3, 3]
    assert str(found[3].graph) == "2-1 0-3 3-2 3-4 2-6 6-5"


def test_a_pipeline_that_is_installed_as_a_package(
    pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``spacy download`` installs it: the pipeline is in a folder of its version."""
    inside = tmp_path / "toy_dep_sm" / "toy_dep_sm-1.0"
    shutil.copytree(pipeline, inside)
    (tmp_path / "toy_dep_sm" / "__init__.py").write_text("")
    (tmp_path / "toy_dep_sm-1.0.dist-info").mkdir()
    (tmp_path / "toy_dep_sm-1.0.dist-info" / "METADATA").write_text("Name: toy_dep_sm\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert str(inside / "config.cfg") in model_files("spacy", "toy_dep_sm")
    (found,) = load_parser("spacy", "toy_dep_sm").parse([["dogs", "bark"]])
    assert str(found.graph) == "0-2 2-1"  # type: ignore[union-attr]


@pytest.mark.parametrize(("binarize", "workers"), [("right", "1"), ("head", "2"), ("none", "1")])
def test_the_command_writes_trees_and_arcs(
    pipeline: Path, workers: str, binarize: str, tmp_path: Path
) -> None:
    """What ``parse --from conllu`` writes of the same dependencies, from which GiLT and DTG train."""
    texts = [*TEXTS[:4], "", TEXTS[5]]
    (tmp_path / "text.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    through_conllu(pipeline, [text for text in texts if text], tmp_path / "own.conllu")
    options = ["--binarize", binarize, "-q"]
    out, own = tmp_path / "out.trees", tmp_path / "own.trees"
    asked = ["--from", "tokens", "--parser", "spacy", "--model", str(pipeline), "--workers", workers]
    assert run(["parse", str(tmp_path / "text.txt"), *asked, *options, "-o", str(out)]) == 0
    assert run(["parse", str(tmp_path / "own.conllu"), "--from", "conllu", *options, "-o", str(own)]) == 0
    for blank, (mine, theirs) in {
        "(X (-NONE- *))": (out, own),
        "": (path_beside(out, "arcs"), path_beside(own, "arcs")),
    }.items():
        assert mine is not None
        assert theirs is not None
        lines = mine.read_text(encoding="utf-8").splitlines()
        assert lines.pop(4) == blank
        assert lines == theirs.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("model", "tape", "settings", "found"),
    [
        ("gilt", ["--tape", "none"], [], "ppl_token_given_trees"),
        ("dtg", [], ["--set", "config.lift=true"], "ppl_token_joint"),
    ],
)
def test_text_to_a_model_of_arcs(
    model: str,
    tape: list[str],
    settings: list[str],
    found: str,
    pipeline: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From a text file: spaCy's arcs, shards, a few steps of a model. DTG lifts crossing arcs."""
    (tmp_path / "text.txt").write_text("".join(f"{text}\n" for text in TEXTS * 20), encoding="utf-8")
    trees, shards, out = (str(tmp_path / name) for name in ("t.trees", "shards", "run"))
    for arguments in (
        ["parse", str(tmp_path / "text.txt"), "--parser", "spacy", "--model", str(pipeline), "-o", trees],
        ["tapes", trees, "--tokenizer", "word", *tape, "-o", shards],
        [
            "train",
            shards,
            "--valid",
            shards,
            "--model",
            model,
            "--set",
            "train.steps=2",
            *settings,
            "-o",
            out,
        ],
        ["eval-ppl", shards, "--model", out, "--beam", "5", "--json"],
    ):
        assert run([*arguments, "-q"]) == 0, arguments
    assert json.loads(capsys.readouterr().out)["scores"][found] > 1


def test_words_and_sentences_by_spacy(
    pipeline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["parse", "--text", "dogs (bark).", "--parser", "spacy", "--model", str(pipeline)]
    out = tmp_path / "t.trees"
    assert run([*asked, "--split-words", "parser", "-o", str(out)]) == 0
    assert f"words split by {pipeline}\n" in capsys.readouterr().err
    assert "-LRB-" in out.read_text()
    text = "Dogs don't bark, 3 cats do.  a\u00a0b\nthe dog barks ."
    words = [
        list(each.words) for each in load_splitter("spacy", str(pipeline), sentences=False).split([text])[0]
    ]
    nlp = spacy.load(pipeline)
    assert words == [
        [token.text.replace(" ", "\u00a0") for token in nlp.make_doc(text) if not token.is_space]
    ]
    several = load_splitter("spacy", str(pipeline), sentences=True).split([text, " ", "dogs bark"])
    assert [text[each.start] for each in several[0]] == [each.words[0][0] for each in several[0]]
    assert [word for each in several[0] for word in each.words] == words[0]
    assert several[1] == []
    assert several[2][0].spelled == "dogs bark"
    ((blanks,),) = load_splitter("spacy", str(pipeline), sentences=False).split([" dogs   bark\t \n too "])
    assert blanks.spelled == "dogs bark too"
    for sentences in (True, False):
        ((after_blanks, *_),) = load_splitter("spacy", str(pipeline), sentences=sentences).split(
            ["  dogs bark"]
        )
        assert (after_blanks.start, after_blanks.words[0]) == (2, "dogs")


def test_what_cannot_be_loaded_is_one_line(
    pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "none")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.cfg").write_text("[nlp", encoding="utf-8")
    for model, reason in [
        ("no_such_pipeline", "no pipeline of spaCy's"),
        (str(tmp_path / "none"), r"has no parser \(it has sentencizer\)"),
        (str(tmp_path / "damaged"), "not a pipeline of spaCy's that can be loaded"),
    ]:
        with pytest.raises(PdtoolsError, match=reason) as refusal:
            load_parser("spacy", model)
        assert "\n" not in str(refusal.value)
    said = str(model_note("spacy", str(pipeline)))
    assert "worse" not in said
    assert str(pipeline / "parser" / "model") in model_files("spacy", str(pipeline))
    meta = json.loads((pipeline / "meta.json").read_text())
    (pipeline / "meta.json").write_text(json.dumps({**meta, "spacy_version": ">=2.0.0,<2.1.0"}))
    try:
        assert "made for spaCy >=2.0.0,<2.1.0, not" in str(model_note("spacy", str(pipeline)))
        load_parser("spacy", str(pipeline))
    finally:
        (pipeline / "meta.json").write_text(json.dumps(meta))
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(PdtoolsError, match="spacy"):
        load_parser("spacy", str(pipeline))
