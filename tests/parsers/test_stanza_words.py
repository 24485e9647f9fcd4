"""Words and sentences of Stanza's tokenizer, against Stanza's own pipeline on the same text."""

from __future__ import annotations

import collections
import io
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toy_benepar import toy_trees
from toy_stanza import make_dependencies, plain, toy_text

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects
from pdtools.parsers.backends import Splitter, load_parser, load_splitter, splitter_files
from pdtools.parsers.splitting import OTHER_WORDS, read_sentences
from pdtools.parsers.stanza import StanzaParser, StanzaSplitter
from pdtools.shards.plain import written_sentence
from pdtools.tokenization import aligned
from pdtools.trees import Tree, read_trees

stanza = pytest.importorskip("stanza", reason="stanza is not installed")

TREES = toy_trees(60, seed=5)
SENTENCES = [[plain(word) for word in tree.leaves()] for tree in TREES]
# Paragraphs of four sentences in lines of five text words, so that sentences go over line ends.
PARAGRAPHS = [toy_text([tree.leaves() for tree in TREES[k : k + 4]])[0] for k in range(0, 60, 4)]
LINES = [re.sub(r"((?:\S+ ){4}\S+) ", r"\1\n", paragraph) for paragraph in PARAGRAPHS]


@pytest.fixture(scope="module")
def home(toy_stanza_with_tokenizer: Path) -> Path:
    return toy_stanza_with_tokenizer


@pytest.fixture(scope="module")
def running(home: Path) -> Splitter:
    return load_splitter("stanza", str(home), sentences=True)


@pytest.fixture(scope="module")
def by_line(home: Path) -> Splitter:
    return load_splitter("stanza", str(home), sentences=False)


@pytest.fixture(scope="module")
def own(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Stanza's pipelines of the same models, copied to where its downloader would put them."""
    return own_pipelines(home, tmp_path_factory.mktemp("downloaded"))


def own_pipelines(home: Path, folder: Path) -> Any:
    shutil.copytree(home, folder / "en")
    known: dict[str, Any] = {kind.name: {"toy": {}} for kind in home.iterdir()}
    for kind in ("pos", "constituency", "depparse"):
        known[kind] = {"toy": {"dependencies": [{"model": "pretrain", "package": "toy"}]}}
    known["packages"] = {"default": dict.fromkeys(known, "toy")}
    (folder / "resources.json").write_text(json.dumps({"en": known}))

    def make(*processors: str, **options: Any) -> Any:
        return stanza.Pipeline(
            "en",
            dir=str(folder),
            processors=",".join(processors),
            download_method=None,
            logging_level="ERROR",
            **options,
        )

    return make


def words_of(sentence: Any) -> tuple[str, ...]:
    return () if sentence is None else tuple(word.text for word in sentence.words)


@pytest.mark.parametrize("chunk", [100_000, 700, 120])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_running_text_has_the_sentences_of_stanzas_pipeline(
    chunk: int, end: str, running: Splitter, own: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether read whole, some paragraphs together, or paragraphs in several chunks."""
    monkeypatch.setattr("pdtools.parsers.splitting._CHUNK", chunk)
    file = tmp_path / "a.txt"
    text = "\n\n".join([*LINES[:10], "\n".join(LINES[10:])]) + "\n"
    file.write_text(text.replace("\n", end), newline="")
    expected = [
        (words_of(sentence), text.count("\n", 0, sentence.tokens[0].start_char) + 1)
        for sentence in own("tokenize", "mwt")(text).sentences
    ]
    assert [words for words, _ in expected] == [tuple(words) for words in SENTENCES]
    counts = collections.Counter[str]()
    given = watch(running, monkeypatch)
    found = list(read_sentences([str(file)], "text", split_sentences=True, splitter=running, counts=counts))
    assert [(each.words, each.line) for each in found if each.words] == expected
    # Between two paragraphs there is a line without words, in its place.
    blank_lines = [number for number, line in enumerate(text.split("\n")[:-1], 1) if not line]
    assert [each.line for each in found if not each.words] == blank_lines
    assert [each.line for each in found] == sorted(each.line for each in found)
    # Texts are as written, but for "nethe", which its words do not spell.
    written = [f"{each.strip()}." for each in " ".join(text.split()).split(".")[:-1]]
    texts = [each.text for each in found if each.words]
    assert texts == [each.replace("nethe", "near the") for each in written]
    assert all(aligned(each.words, each.text, "raw") for each in found if each.words)
    assert counts == {OTHER_WORDS: sum("nethe" in each for each in written)}
    assert counts[OTHER_WORDS] > 5
    assert max(given) <= 2 * chunk + max(map(len, LINES))


def watch(splitter: Splitter, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many characters the splitter will be given each time."""
    given: list[int] = []
    split = splitter.split

    def watched(texts: list[str]) -> Any:
        given.append(sum(map(len, texts)))
        return split(texts)

    monkeypatch.setattr(splitter, "split", watched)
    return given


@pytest.mark.parametrize("chunk", [100_000, 20])
def test_a_line_is_a_sentence_if_asked(
    chunk: int, by_line: Splitter, own: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdtools.parsers.splitting._CHUNK", chunk)
    lines = [
        *PARAGRAPHS[:3],
        "",
        "the dog sleeps",
        "\u0097",
        "  a cat   sleeps . the",
        "das Mädchen 猫 sleeps.",
    ]
    file = tmp_path / "a.txt"
    file.write_text("\r\n".join(lines), newline="")
    pipeline = own("tokenize", "mwt", tokenize_no_ssplit=True)
    expected = [words_of(each) for line in lines for each in pipeline(line).sentences or [None]]
    given = watch(by_line, monkeypatch)
    found = list(read_sentences([str(file)], "text", splitter=by_line))
    assert max(given) <= chunk + max(map(len, lines))
    assert [(each.words, each.line) for each in found] == list(zip(expected, range(1, 9), strict=True))
    assert [each.text for each in found] == [line.replace("nethe", "near the") for line in lines]
    assert len(found[0].words) == sum(map(len, SENTENCES[:4]))


@pytest.mark.parametrize("chunk", [100_000, 200])
def test_one_long_line_is_read_in_chunks(
    chunk: int, running: Splitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk may end within a word: its last sentences are read again with what follows."""
    monkeypatch.setattr("pdtools.parsers.splitting._CHUNK", chunk)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(" ".join(PARAGRAPHS).encode())))
    given = watch(running, monkeypatch)
    found = list(read_sentences(["-"], "text", split_sentences=True, splitter=running))
    assert [each.words for each in found] == [tuple(words) for words in SENTENCES]
    assert {each.line for each in found} == {1}
    assert max(given) < 3 * chunk


def test_a_sentence_that_fills_a_chunk_is_given_up(
    running: Splitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdtools.parsers.splitting._CHUNK", 10)
    file = tmp_path / "a.txt"
    file.write_text("the dog sees\nthe cat sleeps" + " " * 30 + "\n\nthe man sleeps.\n")
    found = list(read_sentences([str(file)], "text", split_sentences=True, splitter=running))
    assert " ".join(each.text for each in found) == "the dog sees the cat sleeps  the man sleeps."
    assert [each.line for each in found] == sorted(each.line for each in found)
    assert {each.line for each in found if not each.words} == {3}


@pytest.mark.parametrize("sentences", [True, False])
def test_texts_without_words(sentences: bool, running: Splitter, by_line: Splitter, tmp_path: Path) -> None:
    splitter = running if sentences else by_line
    assert splitter.split([]) == []
    assert splitter.split(["", "\u0097", " \t"]) == [[], [], []]
    file = tmp_path / "a.txt"
    for text in ("", "\n \n") if sentences else ("",):
        file.write_text(text)
        with pytest.raises(InputError, match="a.txt: no sentences in it"):
            list(read_sentences([str(file)], "text", split_sentences=sentences, splitter=splitter))
    if not sentences:
        file.write_text("\n")
        (blank,) = read_sentences([str(file)], "text", splitter=splitter)
        assert (blank.words, blank.line) == ((), 1)
    file.write_text("the dog sleeps.\n\u0097\n\u0097\nthe cat sleeps.\n")
    found = list(read_sentences([str(file)], "text", split_sentences=sentences, splitter=splitter))
    assert [each.line for each in found if each.words] == [1, 4]
    assert [each.text for each in found if each.words] == ["the dog sleeps.", "the cat sleeps."]


def token(text: str, start: int, end: int, *words: str) -> SimpleNamespace:
    expanded = [SimpleNamespace(text=word) for word in words or (text,)]
    return SimpleNamespace(text=text, start_char=start, end_char=end, words=expanded)


def test_how_words_are_spelled() -> None:
    """A blank in a word, tokens of several words, one too long for Stanza, as its tokenizer gives them."""
    long = "x" * 1001
    text = f"Học  sinh du cannot.{long}"
    tokens = [
        token("Học sinh", 0, 9),
        token("du", 10, 12, "de", "le"),
        token("cannot", 13, 19, "can", "not"),
        token(".", 19, 20),
        token("<UNK>", 20, 1021),
    ]
    splitter = StanzaSplitter(lambda joined: SimpleNamespace(sentences=[SimpleNamespace(tokens=tokens)]))
    ((sentence,),) = splitter.split([text])
    assert sentence.words == ("Học\u00a0sinh", "de", "le", "can", "not", ".", long)
    assert sentence.spelled == f"Học sinh de le cannot.{long}"
    assert aligned(sentence.words, sentence.spelled, "raw")


def test_the_parser_reads_blanks_in_words(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that its own tokenizer gives it; in trees they are no-break spaces."""
    parser = load_parser("stanza", str(home))
    assert isinstance(parser, StanzaParser)
    seen = []
    pipeline = parser._pipeline
    monkeypatch.setattr(parser, "_pipeline", lambda words: seen.append(words) or pipeline(words))
    (tree,) = parser.parse([["the", "big\u00a0dog", "sleeps", "."]])
    assert seen == [[["the", "big dog", "sleeps", "."]]]
    assert isinstance(tree, Tree)
    assert tree.words == ("the", "big\u00a0dog", "sleeps", ".")


def test_an_error_of_the_tokenizer_is_a_line() -> None:
    def fails(text: str) -> Any:
        raise ValueError("Could not find |x|\nat 3")

    with pytest.raises(PdtoolsError, match=r"^Stanza's tokenizer failed: ValueError: Could not find \|x\|$"):
        StanzaSplitter(fails).split(["x"])


# --- through the command ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["constituency", "depparse"])
def test_trees_are_those_of_stanzas_pipeline(
    form: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from test_stanza import through_conllu

    from pdtools.cli.main import run

    if form == "depparse":
        models, home = home, tmp_path / "dependencies"
        make_dependencies(home, models)
        for kind in ("tokenize", "mwt"):
            shutil.copytree(models / kind, home / kind)
    steps = ("pos", "constituency") if form == "constituency" else ("pos", "lemma", "depparse")
    text = "\n\n".join(LINES)
    (tmp_path / "stanza").mkdir()
    document = own_pipelines(home, tmp_path / "stanza")("tokenize", "mwt", *steps)(text)
    if form == "constituency":
        expected = [str(sentence.constituency)[6:-1] for sentence in document.sentences]
    else:
        expected = [str(tree) for tree, _ in through_conllu(document, tmp_path / "own.conllu")]
    file, out = tmp_path / "a.txt", tmp_path / "out.trees"
    file.write_text(text)
    options = ["--parser", "stanza", "--model", str(home), "--device", "cpu", "--binarize", "none"]
    command = ["parse", str(file), *options, "--split-words", "parser", "--split-sentences", "--json"]
    made = []
    for workers in ("1", "2"):
        assert run([*command, "-o", str(out), "--overwrite", "--workers", workers]) == 0
        made.append((out.read_text(), Path(f"{out}.text").read_text()))
        captured = capsys.readouterr()
    assert made[0] == made[1]
    trees = out.read_text().splitlines()
    assert [tree for tree in trees if "-NONE-" not in tree] == expected
    assert len(trees) == len(expected) + len(LINES) - 1
    report = json.loads(captured.out)
    assert report["settings"]["split_words"] == "parser"
    assert report["form"] == {"name": "text", OTHER_WORDS: report["form"][OTHER_WORDS]}
    files = [str(home / kind / "toy.pt") for kind in ("tokenize", "mwt")]
    assert f"words split by {', '.join(files)}\n" in captured.err
    assert f"{OTHER_WORDS}: {report['form'][OTHER_WORDS]}\n" in captured.err
    # Shards can be made of the texts beside the trees.
    shards = tmp_path / "shards"
    assert run(["tapes", str(out), "--text-style", "raw", "--min-count", "1", "-q", "-o", str(shards)]) == 0
    texts = [line for line in Path(f"{out}.text").read_text().splitlines() if line]
    read = read_trees([str(out)], Rejects("fail"))
    written = [written_sentence(each, each.tree) for each in read if "-NONE-" not in each.tree.tags]
    assert [each.text for each in written if each is not None] == texts


def test_a_line_is_a_tree_without_split_sentences(home: Path, tmp_path: Path) -> None:
    from pdtools.cli.main import run

    text = "the dog sleeps. a cat sleeps.\n\nthe man sleeps.\n\n"
    file, out = tmp_path / "a.txt", tmp_path / "out.trees"
    file.write_text(text)
    options = ["--parser", "stanza", "--model", str(home), "--device", "cpu", "--split-words", "parser"]
    assert run(["parse", str(file), *options, "-o", str(out)]) == 0
    assert Path(f"{out}.text").read_text() == text
    assert ["-NONE-" in tree for tree in out.read_text().splitlines()] == [False, True, False, True]


def test_jobs_record_the_tokenizers_files(home: Path, tmp_path: Path) -> None:
    """A run is not resumed with others."""
    from pdtools.cli.main import run
    from pdtools.files import sha256_file

    (tmp_path / "a.txt").write_text("the dog sleeps.\n")
    options = ["--parser", "stanza", "--model", str(home), "--device", "cpu", "--split-words", "parser"]
    command = ["parse", str(tmp_path / "a.txt"), *options, "-o", str(tmp_path / "out.trees")]
    assert run([*command, "--shard", "1/2"]) == 0
    (job,) = tmp_path.rglob("job.json")
    wanted = [sha256_file(home / kind / "toy.pt") for kind in ("tokenize", "mwt")]
    assert json.loads(job.read_text())["settings"]["split_words"] == wanted


# --- where models are -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--from", "tokens", "--parser", "stanza"], "--split-words parser needs --from text"),
        ([], "needs a parser with a tokenizer: --parser stanza"),
    ],
)
def test_wrong_usage(
    options: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from pdtools.cli.main import run

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("the dog sleeps.\n")
    assert run(["parse", "a.txt", "--split-words", "parser", *options]) == 2
    assert says in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_the_tokenizer_is_the_languages(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "own"
    shutil.copytree(home, copy)
    expected = [str(copy / kind / "toy.pt") for kind in ("tokenize", "mwt")]
    assert splitter_files("stanza", str(copy)) == expected
    assert splitter_files("stanza", str(copy / "constituency" / "toy.pt")) == expected
    for kind in ("tokenize", "mwt"):
        shutil.copy(copy / kind / "toy.pt", copy / kind / "other.pt")
    with pytest.raises(PdtoolsError, match=rf"^{copy}: not exactly one tokenizer \(.pt\) in tokenize/$"):
        splitter_files("stanza", str(copy))
    (copy / "tokenize" / "other.pt").unlink()
    with pytest.raises(
        PdtoolsError, match=rf"^{copy}: not exactly one model of multi-word tokens \(.pt\) in mwt/$"
    ):
        splitter_files("stanza", str(copy))
    resources = {"packages": {"default": {"tokenize": "toy", "mwt": "other"}}}
    (tmp_path / "resources.json").write_text(json.dumps({"own": resources}))
    assert splitter_files("stanza", str(copy)) == [expected[0], str(copy / "mwt" / "other.pt")]


def test_a_tokenizer_that_is_not_there(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "de"
    shutil.copytree(home, copy)
    shutil.rmtree(copy / "mwt")
    assert splitter_files("stanza", str(copy)) == [str(copy / "tokenize" / "toy.pt")]
    resources = {"packages": {"default": {"tokenize": "toy", "mwt": "toy"}}}
    (tmp_path / "resources.json").write_text(json.dumps({"de": resources}))
    fetched = re.escape(
        """(python -c "import stanza; stanza.download('de', processors='tokenize')" fetches it)"""
    )
    with pytest.raises(
        PdtoolsError, match=f"not exactly one model of multi-word tokens .* in mwt/ {fetched}$"
    ):
        splitter_files("stanza", str(copy))
    shutil.rmtree(copy / "tokenize")
    with pytest.raises(PdtoolsError, match=f"^{copy}: not exactly one tokenizer .* in tokenize/ {fetched}$"):
        load_splitter("stanza", str(copy), sentences=True)


def test_without_an_expander_tokens_are_words(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "own"
    shutil.copytree(home, copy)
    shutil.rmtree(copy / "mwt")
    ((sentence,),) = load_splitter("stanza", str(copy), sentences=True).split(["a cat nethe dog sleeps."])
    assert sentence.words == ("a", "cat", "nethe", "dog", "sleeps", ".")


def test_what_a_tokenizer_reads(home: Path, tmp_path: Path) -> None:
    """Some read a language model of characters."""
    import torch

    copy = tmp_path / "own"
    shutil.copytree(home, copy)
    file = copy / "tokenize" / "toy.pt"
    saved = torch.load(file, weights_only=True)
    saved["config"] |= {"charlm": True, "charlm_forward_file": str(tmp_path / "nowhere.pt")}
    torch.save(saved, file)
    with pytest.raises(PdtoolsError, match=f"nowhere.pt: not there, and {file} reads it"):
        splitter_files("stanza", str(copy))
    (copy / "forward_charlm").mkdir()
    (copy / "forward_charlm" / "mine.pt").touch()
    read = [Path(each).relative_to(copy).as_posix() for each in splitter_files("stanza", str(copy))]
    assert read == ["tokenize/toy.pt", "forward_charlm/mine.pt", "mwt/toy.pt"]


def test_a_file_that_is_no_tokenizer(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "own"
    shutil.copytree(home, copy)
    file = copy / "tokenize" / "toy.pt"
    for content in (b"hello", (home / "pos" / "toy.pt").read_bytes()):
        file.write_bytes(content)
        with pytest.raises(PdtoolsError, match=rf"^{file}: not a tokenizer of Stanza's that can be .*$"):
            load_splitter("stanza", str(copy), sentences=True)
