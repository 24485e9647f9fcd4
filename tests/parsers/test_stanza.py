from __future__ import annotations

import collections
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from toy_benepar import toy_trees
from toy_stanza import make_dependencies, plain, train_parser, write_resources

from pdtools.errors import PdtoolsError
from pdtools.parsers.backends import ParseFailure, load_parser, model_files, model_note, with_arcs
from pdtools.parsers.stanza import StanzaParser, _files, _tree, load
from pdtools.trees import Tree
from pdtools.trees.forms import FORMS, ReadOptions, ReadTree, read_block

stanza = pytest.importorskip("stanza", reason="stanza is not installed")

GOOD = ["the", "dog", "sleeps", "."]


@pytest.fixture(scope="module")
def parser(toy_stanza_models: Path) -> StanzaParser:
    return load(str(toy_stanza_models / "en"), "cpu")


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    return [[plain(word) for word in tree.leaves()] for tree in toy_trees(60, seed=99)]


@pytest.fixture
def untagged(toy_stanza_models: Path, tmp_path: Path) -> Path:
    """The folder of a language that the downloader does not know, with a parser that reads no tags."""
    home = tmp_path / "own"
    for kind in ("constituency", "pretrain"):
        (home / kind).mkdir(parents=True)
    vectors = home / "pretrain" / "vectors.pt"
    shutil.copy(toy_stanza_models / "en" / "pretrain" / "toy.pt", vectors)
    train_parser(toy_trees(50, seed=1), vectors, home / "constituency" / "parser.pt", tags=0, epochs=1)
    return home


def test_trees_are_those_of_stanzas_own_pipeline(
    parser: StanzaParser, toy_stanza_models: Path, sentences: list[list[str]]
) -> None:
    own = stanza.Pipeline(
        "en",
        dir=str(toy_stanza_models),
        processors="tokenize,pos,constituency",
        tokenize_pretokenized=True,
        download_method=None,
        logging_level="ERROR",
    )
    mixed = [*sentences, ["dog"], ["the"] * 150, ["the", "unknown", "(", ")", "."]]
    expected = [str(sentence.constituency) for sentence in own(mixed).sentences]
    assert [str(tree) for tree in parser.parse(mixed)] == expected


def test_quotes_are_read_as_they_are_typed(parser: StanzaParser, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    pipeline = parser._pipeline
    monkeypatch.setattr(parser, "_pipeline", lambda words: seen.append(words) or pipeline(words))
    (tree,) = parser.parse([["``", "dog", "''", "`", "(", "“"]])
    assert seen == [[['"', "dog", '"', "'", "(", "“"]]]
    assert isinstance(tree, Tree)
    assert tree.words == ("``", "dog", "''", "`", "-LRB-", "“")


def test_a_sentence_that_stanza_gives_up_fails_alone(
    parser: StanzaParser,
    sentences: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a sentence with too many steps Stanza logs an error and returns nothing."""
    expected = list(parser.parse(sentences))
    network = parser._pipeline.processors["constituency"]._model
    apply = network.bulk_apply

    def gives_up(states: list[Any], transitions: list[Any], fail: bool = False) -> list[Any]:
        def word(state: Any) -> str:
            return state.word_queue[1].value.children[0].label

        moves = [None if word(state) == "bad" else t for state, t in zip(states, transitions, strict=True)]
        return apply(states, moves, fail)

    monkeypatch.setattr(network, "bulk_apply", gives_up)
    caplog.clear()
    results = list(parser.parse([*sentences[:20], ["bad", "dog", "."], *sentences[20:]]))
    assert results == [*expected[:20], ParseFailure("the parser found no tree"), *expected[20:]]
    assert not caplog.records
    assert parser.failure(IndexError("out of range")) == "the parser failed: IndexError: out of range"


def test_labels_that_brackets_cannot_hold() -> None:
    from stanza.models.constituency.parse_tree import Tree as Node

    root = Node("ROOT", [Node("S P", [Node("$(", [Node("(")]), Node(None, [Node("dog")])])])
    tree = _tree(["(", "dog"], root)
    assert str(tree) == "(ROOT (S_P ($*LRB* -LRB-) (XX dog)))"


# --- dependencies -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dependencies(toy_stanza_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a language that has a parser of dependencies alone."""
    home = tmp_path_factory.mktemp("dependencies") / "own"
    make_dependencies(home, toy_stanza_models / "en")
    return home


def own_pipeline(home: Path, folder: Path, lemmatizer: str) -> Any:
    """Stanza's pipeline of the models in ``home``, copied to where its downloader would put them."""
    shutil.copytree(home, folder / "en")
    needs = {"toy": {"dependencies": [{"model": "pretrain", "package": "toy"}]}}
    default = {"pos": "toy", "lemma": lemmatizer, "depparse": "toy"}
    known = {"pos": needs, "depparse": needs, "lemma": {"toy": {}}, "packages": {"default": default}}
    (folder / "resources.json").write_text(json.dumps({"en": known}))
    return stanza.Pipeline(
        "en",
        dir=str(folder),
        processors="tokenize,pos,lemma,depparse",
        tokenize_pretokenized=True,
        download_method=None,
        logging_level="ERROR",
    )


def parsed_by(home: Path, sentences: list[list[str]]) -> list[Any]:
    """Trees, each with its arcs; failures."""
    return [with_arcs_of(found) for found in load(str(home), "cpu").parse(sentences)]


def with_arcs_of(found: Any) -> Any:
    return (found.tree, str(found.graph)) if isinstance(found, ReadTree) else found


def through_conllu(document: Any, file: Path) -> list[tuple[Tree, str]]:
    """The trees and arcs of what Stanza writes, read as a treebank, under the words of ``document``."""
    file.write_text(format(document, "C") + "\n\n")
    form, counts = FORMS["conllu"], collections.Counter[str]()
    read = [
        each for block in form.blocks(str(file)) for each in read_block(form, block, ReadOptions(), counts)
    ]
    assert counts["arcs lifted"] > 10
    return [with_arcs_of(each) for each in read if isinstance(each, ReadTree)]


def test_dependencies_give_the_trees_that_their_conllu_gives(
    dependencies: Path, sentences: list[list[str]], tmp_path: Path
) -> None:
    mixed = [*sentences, ["dog"], ["the"] * 150, ["the", "unknown", "{", ")", "."]]
    own = own_pipeline(dependencies, tmp_path / "stanza", "toy")
    expected = through_conllu(own(mixed), tmp_path / "own.conllu")
    trees = parsed_by(dependencies, mixed)
    assert trees == expected
    assert expected[-1][0].words == ("the", "unknown", "-LCB-", "-RRB-", ".")
    assert all(label[:-1] in tree.tags and label[-1] == "P" for tree, _ in expected for label in tree.labels)
    file = dependencies / "depparse" / "toy.pt"
    assert parsed_by(file, mixed) == expected
    assert model_note("stanza", str(dependencies)) == (
        f"stanza: depparse model {file}, its dependencies made constituents"
    )


def test_dependencies_of_a_language_without_lemmas(
    dependencies: Path, sentences: list[list[str]], tmp_path: Path
) -> None:
    home = tmp_path / "own"
    shutil.copytree(dependencies, home)
    with_lemmas = parsed_by(home, sentences)
    shutil.rmtree(home / "lemma")
    words = own_pipeline(home, tmp_path / "stanza", "identity")(sentences)
    trees = parsed_by(home, sentences)
    assert trees == through_conllu(words, tmp_path / "own.conllu")
    assert trees != with_lemmas
    assert str(model_note("stanza", str(home))).endswith("made constituents, with words for lemmas")


def test_words_without_a_tag_are_x() -> None:
    assert str(with_arcs(["(", "b"], ["_", "_"], [-1, 0]).tree) == "(XP (X -LRB-) (X b))"


def test_dependencies_that_cannot_be_projected_fail_alone(
    dependencies: Path, sentences: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = load(str(dependencies), "cpu")
    expected = [with_arcs_of(found) for found in parser.parse(sentences)]
    monkeypatch.setattr("pdtools.trees.projection.MOST_LIFTED_WORDS", 0)
    results = [with_arcs_of(found) for found in parser.parse(sentences)]
    crossing = ParseFailure("crossing arcs in a sentence of more than 0 words")
    assert 0 < results.count(crossing) < len(results)
    assert results == [crossing if r == crossing else e for r, e in zip(results, expected, strict=True)]


def test_constituents_are_taken_where_both_are(
    parser: StanzaParser, toy_stanza_models: Path, dependencies: Path, tmp_path: Path
) -> None:
    home = tmp_path / "own"
    shutil.copytree(toy_stanza_models / "en", home)
    for kind in ("lemma", "depparse"):
        shutil.copytree(dependencies / kind, home / kind)
    assert parsed_by(home, [GOOD]) == list(parser.parse([GOOD]))
    file = home / "constituency" / "toy.pt"
    assert model_note("stanza", str(home)) == f"stanza: constituency model {file}"
    assert model_note("benepar") is None
    shutil.copy(file, home / "constituency" / "other.pt")  # which one is meant is not known
    with pytest.raises(PdtoolsError, match=r"not the folder of a language with a parser .*\(one .pt\)"):
        load(str(home), "cpu")


def test_a_file_of_dependencies_is_known_by_what_is_in_it(dependencies: Path, tmp_path: Path) -> None:
    expected = parsed_by(dependencies, [GOOD])
    for kind in ("pos", "lemma", "pretrain"):
        shutil.copytree(dependencies / kind, tmp_path / "mine" / kind)
    file = tmp_path / "mine" / "mine.pt"
    shutil.copy(dependencies / "depparse" / "toy.pt", file)
    assert parsed_by(file, [GOOD]) == expected
    shutil.rmtree(tmp_path / "mine" / "pos")
    with pytest.raises(
        PdtoolsError, match="this parser reads tags, and .*/mine/pos does not hold exactly one tagger"
    ):
        load(str(file), "cpu")


def test_a_lemmatizer_that_is_not_there(dependencies: Path, tmp_path: Path) -> None:
    home = tmp_path / "fi"
    shutil.copytree(dependencies, home)
    shutil.copy(home / "lemma" / "toy.pt", home / "lemma" / "other.pt")
    with pytest.raises(PdtoolsError, match=r"fi: its parser of dependencies reads lemmas, .* \(.pt\)$"):
        load(str(home), "cpu")
    known: dict[str, Any] = {"depparse": {}, "packages": {"default": {"lemma": "toy"}}}
    (tmp_path / "resources.json").write_text(json.dumps({"fi": known}))
    files = _files(str(home))
    assert files["lemma_model_path"] == str(home / "lemma" / "toy.pt")
    assert "lemma_pretrain_path" not in files  # a dictionary reads no vectors
    shutil.rmtree(home / "lemma")
    with pytest.raises(
        PdtoolsError, match=r"stanza.download\('fi', processors='tokenize,pos,lemma,depparse'\)"
    ):
        load(str(home), "cpu")
    known["packages"]["default"]["lemma"] = "identity"
    (tmp_path / "resources.json").write_text(json.dumps({"fi": known}))
    assert str(model_note("stanza", str(home))).endswith("with words for lemmas")


# --- where models are -------------------------------------------------------------------------------


def test_a_file_is_a_model_too(parser: StanzaParser, toy_stanza_models: Path) -> None:
    file = toy_stanza_models / "en" / "constituency" / "toy.pt"
    assert parsed_by(file, [GOOD]) == list(parser.parse([GOOD]))


def test_an_installed_language_is_found(
    parser: StanzaParser, toy_stanza_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stanza.resources.common.DEFAULT_MODEL_DIR", str(toy_stanza_models))
    expected = list(parser.parse([GOOD]))
    for name in (None, "en", "english"):
        assert list(load_parser("stanza", name).parse([GOOD])) == expected
    with pytest.raises(
        PdtoolsError, match=r"models of de are not installed: .*stanza.download\('de'.*constit.*--parser RUN"
    ):
        load_parser("stanza", "de")
    monkeypatch.setattr("pdtools.parsers.stanza._resources", lambda root: {"fi": {"depparse": {}}})
    with pytest.raises(PdtoolsError, match=r"models of fi are .*tokenize,pos,lemma,depparse'"):
        load_parser("stanza", "fi")


def test_models_that_belong_together_are_those_of_the_list(toy_stanza_models: Path, tmp_path: Path) -> None:
    shutil.copytree(toy_stanza_models, tmp_path / "all")
    home = tmp_path / "all" / "en"
    for kind in ("pretrain", "pos", "constituency"):
        shutil.copy(home / kind / "toy.pt", home / kind / "other.pt")
    found = [Path(file).relative_to(home).as_posix() for file in model_files("stanza", str(home))]
    assert found == ["constituency/toy.pt", "pretrain/toy.pt", "pos/toy.pt"]
    (home / "pretrain" / "toy.pt").unlink()
    with pytest.raises(PdtoolsError, match=r"pretrain/toy.pt: not there, and .*stanza.download\('en'"):
        load(str(home), "cpu")


def test_a_folder_without_a_list_has_one_file_of_each_kind(
    parser: StanzaParser, toy_stanza_models: Path, tmp_path: Path
) -> None:
    shutil.copytree(toy_stanza_models / "en", tmp_path / "own")
    home = tmp_path / "own"
    assert parsed_by(home, [GOOD]) == list(parser.parse([GOOD]))
    shutil.copy(home / "pos" / "toy.pt", home / "pos" / "other.pt")
    with pytest.raises(
        PdtoolsError, match=r"own: this parser reads tags, and .*/own/pos does not hold exactly one tagger"
    ):
        load(str(home), "cpu")


def test_a_parser_that_reads_no_tags_needs_no_tagger(untagged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree,) = load(str(untagged), "cpu").parse([GOOD])
    assert isinstance(tree, Tree)
    assert set(tree.tags) == {"XX"}
    monkeypatch.chdir(untagged / "constituency")
    assert list(load("parser.pt", "cpu").parse([GOOD])) == [tree]


def test_vectors_that_are_not_there(untagged: Path, tmp_path: Path) -> None:
    vectors = untagged / "pretrain" / "vectors.pt"
    elsewhere = tmp_path / "parser.pt"
    shutil.copy(untagged / "constituency" / "parser.pt", elsewhere)
    assert next(load(str(elsewhere), "cpu").parse([GOOD]))  # it remembers where they were
    vectors.unlink()
    with pytest.raises(PdtoolsError, match=rf"{vectors}: not there, and {elsewhere} reads it$"):
        load(str(elsewhere), "cpu")


def test_what_is_no_model(toy_stanza_models: Path, tmp_path: Path) -> None:
    junk = tmp_path / "junk.pt"
    junk.write_text("hello")
    for path in (junk, toy_stanza_models / "en" / "pos" / "toy.pt"):
        with pytest.raises(PdtoolsError, match="not a Stanza parser that can be loaded") as caught:
            load(str(path), "cpu")
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith(str(path))
    with pytest.raises(PdtoolsError, match="nowhere.pt: no such Stanza model"):
        load(str(tmp_path / "nowhere.pt"), "cpu")
    with pytest.raises(PdtoolsError, match="not the folder of a language with a parser"):
        load(str(tmp_path), "cpu")
    write_resources(tmp_path)
    (tmp_path / "resources.json").write_text(json.dumps({})[:-1])
    (tmp_path / "en").mkdir()
    with pytest.raises(PdtoolsError, match=r"resources.json: not the list of Stanza's models"):
        load(str(tmp_path / "en"), "cpu")
