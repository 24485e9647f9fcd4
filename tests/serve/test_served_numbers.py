"""What a page is told, against the commands and functions that give the same."""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from action_oracle import action_model
from search_oracle import save_checkpoints
from serve_client import Client, served, serving
from toy_gpt2 import save_gpt2
from toy_workbooks import cell, rows_of, write_workbook

import pdtools
from pdtools.cli.main import run
from pdtools.models import save_checkpoint
from pdtools.provenance.hub import find_model
from pdtools.search import SentenceScore, load_model
from pdtools.search.model import ModelSettings
from pdtools.search.options import NO_CONTEXT, Context, SearchOptions
from pdtools.serve.answers import Answers, load
from pdtools.serve.questions import MOST_CHARS, Kind, PageQuestion
from pdtools.tokenization import train_word_tokenizer

TEXT = "The dog that chased the cats barks."
GOOD, BAD = "The dogs near the horse bark.", "The dogs near the horse barks."
MODELS = ["demo", "demo-base"]
BEAM = 20
WIDE = """item,condition,sentence
1,match,The dog | that chased | the cats | barks | .
1,mismatch,The dog | that chased | the cats | bark | .
2,match,The cat | that chased | the dogs | sleeps | .
2,mismatch,The cat | that chased | the dogs | sleep | .
"""
LONG = "item\tcondition\tregion\ttext\n" + "".join(
    f"{item}\t{condition}\t{number}\t{text}\n"
    for item, noun in ((1, "dog"), (2, "cat"))
    for condition, verb in (("a", "barks"), ("b", "bark"))
    for number, text in enumerate(["The", noun, verb, "."], 1)
)


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers(load([asked(find_model(name).folder) for name in MODELS]))


def asked(folder: str | Path) -> ModelSettings:
    return ModelSettings(model_dir=str(folder), search=SearchOptions(beam=BEAM))


@pytest.fixture(scope="module")
def page(answers: Answers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with served(answers, tmp_path_factory.mktemp("served")) as address:
        yield Client(address)


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return {name: pdtools.load(name, beam=BEAM) for name in MODELS}


def same(found: list[float], expected: Any) -> None:
    assert found == pytest.approx(list(expected), rel=1e-5, abs=1e-6)


def test_a_sentence_has_the_surprisals_of_tokens_and_words(page: Client, plain: dict[str, Any]) -> None:
    answer = page.ask("sentence", TEXT, words=True)
    for m, name in enumerate(MODELS):
        found, expected = answer["packed"][f"trace-0-{m}"], plain[name].surprisal(TEXT)
        assert found["tokens"][1:] == expected["token"].tolist()
        same(found["surprisals"][1:], expected["surprisal"])
        words = plain[name].surprisal(TEXT, words=True)
        assert [word for word, _ in answer["document"]["written"][0][m]] == words["word"].tolist()
        same([bits for _, bits in answer["document"]["written"][0][m]], words["surprisal"])
    assert answer["packed"]["trace-0-0"]["steps"][0]["hypotheses"]
    narrow = page.ask("sentence", TEXT, beam=1)["packed"]["trace-0-0"]["surprisals"]
    same(narrow[1:], pdtools.load("demo", beam=1).surprisal(TEXT)["surprisal"])
    assert narrow != answer["packed"]["trace-0-0"]["surprisals"]


def test_the_command_searches_as_it_is_told() -> None:
    """Those who ask may give another beam; the margin stays."""
    with serving("demo", options=("--beam", "30", "--margin", "0.5", "--device", "cpu")) as (_, address):
        page = Client(address)
        for more, beam in (({}, 30), ({"beam": 2}, 2)):
            answer = page.ask("sentence", TEXT, **more)
            expected = pdtools.load("demo", beam=beam, margin=0.5).surprisal(TEXT)["surprisal"]
            same(answer["packed"]["trace-0-0"]["surprisals"][1:], expected)
            assert f"--beam {beam} --margin 0.5" in answer["document"]["command"]
            assert list(expected) != list(pdtools.load("demo", beam=beam).surprisal(TEXT)["surprisal"])


def test_a_context_is_read_before_and_no_folder_is_told(
    page: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "a b\nc c"
    assert "cannot read others before them" in page.ask("sentence", TEXT, context=lines)["error"]
    assert "without a context" in page.ask("next", "The dog", context=lines)["error"]
    (tmp_path / "served").mkdir()
    save_checkpoints(tmp_path / "secret", window=24)
    table = b"item,sentence\n1,a | b c\n2,b | a a\n"
    with served(Answers(load([asked(tmp_path / "secret" / "base")])), tmp_path / "served") as address:
        other = Client(address)
        answer = other.ask("sentence", "a b c", context=lines)
        wrong = other.ask("sentence", "a xyzzy")
        *_, found, _ = other.events("table", table=table, name="a.csv", context=lines)
        told = list(other.events("table", table=b'item,sentence\n1,a\n"', name="a.csv"))
        shown = [other.entered.text, answer, wrong, other.ask("sentence", "a b c"), told]
        narrow = other.ask("sentence", "a b c", context=lines, beam=3)["document"]["command"]
        assert "'command'" not in str(answer["document"]["provenance"])
    assert not any(hidden in str(shown) for hidden in ("secret", str(tmp_path), "/tmp"))
    assert told[-2] == {"error": "row 3: not CSV: unexpected end of data"}
    assert answer["document"]["command"] == (
        "pdtools surprisal --text 'a b c' --model base --beam 20 --context <(printf '%s\\n' 'a b' 'c c')"
    )
    assert "--beam 3 --context" in narrow
    monkeypatch.chdir(tmp_path / "secret")
    Path("context.txt").write_text(lines + "\n")
    Path("a.csv").write_bytes(table)
    more = ["--model", "base", "--context", "context.txt", "--device", "cpu", "--beam", "20"]
    assert run(["surprisal", "--text", "a b c", *more, "-o", "a.tsv"]) == 0
    rows = [line.split("\t") for line in Path("a.tsv").read_text().splitlines()[1:]]
    same(answer["packed"]["trace-0-0"]["surprisals"][1:], [float(row[5]) for row in rows])
    assert run(["surprisal", "a.csv", *more, "-o", "b.csv"]) == 0
    assert found == Path("b.csv").read_bytes()


def test_a_pair_is_judged_as_by_eval_blimp(page: Client, plain: dict[str, Any]) -> None:
    packed = page.ask("pair", GOOD, BAD)["packed"]
    for m, name in enumerate(MODELS):
        good, bad = (sum(filter(None, packed[f"trace-{s}-{m}"]["surprisals"])) for s in (0, 1))
        # Numbers have six digits, of which a difference has fewer.
        assert bad - good == pytest.approx(plain[name].score([(GOOD, BAD)])["margin_bits"][0], abs=2e-4)


def test_next_tokens_are_those_of_next_token(page: Client, plain: dict[str, Any]) -> None:
    for prefix in ("The dog that", ""):
        found = page.ask("next", prefix)["document"]["next"]
        for name in MODELS:
            expected = plain[name].next_token(prefix, 20)
            assert [row[:2] for row in found[name]] == expected[["rank", "token"]].values.tolist()
            for column, values in zip(
                ("probability", "surprisal"), [*zip(*found[name], strict=True)][2:], strict=True
            ):
                assert list(values) == expected[column].tolist()


def workbook(folder: Path) -> bytes:
    lines: list[list[object]] = [[*line.split(",")] for line in WIDE.strip().splitlines()]
    return write_workbook(folder / "made.xlsx", rows_of(*lines)).read_bytes()


@pytest.mark.parametrize(
    ("name", "table", "more"),
    [
        ("stimuli.csv", WIDE.encode(), {}),
        ("-Stimuli 'x'.CSV", WIDE.encode(), {"words": True, "beam": 3}),
        ("surprisals.csv", LONG.replace("\t", ",").encode(), {}),
        ("long.tsv", LONG.encode(), {}),
        ("book.xlsx", workbook, {}),
        ("rejected.csv", (WIDE + "3,match,The dog | that xyzzy | the cats | sleeps | .\n").encode(), {}),
    ],
)
def test_a_table_has_the_bytes_of_the_command(
    page: Client, tmp_path: Path, name: str, table: Any, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table(tmp_path) if callable(table) else table
    told = list(page.events("table", table=table, name=name, **more))
    answer = next(each["answer"] for each in told if isinstance(each, dict) and "answer" in each)
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(table)
    words = shlex.split(answer["document"]["command"])
    assert words[0] == "pdtools"
    assert run([*words[1:], "--device", "cpu"]) == 0
    assert told[-2] == Path(answer["document"]["save"]).read_bytes()
    assert Path(name).read_bytes() == table
    assert answer["document"]["kind"] == "stimuli"
    assert ("--on-error" in words) == (name == "rejected.csv")
    assert any("row 6: no score" in note for note in answer["document"]["notes"]) == (name == "rejected.csv")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('<row r="1048576">' + cell("x", "XFD1048576") + "</row>", "no column sentence, text or word"),
        ('<row r="1000000000">' + cell("x") + "</row>", "row 1000000000 after row 0"),
        (rows_of([1, "a" * 3_000_000]), "longer than what is read in a cell"),
        ("<a>" * 100, "elements within elements"),
    ],
)
def test_hostile_workbooks_are_a_message(page: Client, tmp_path: Path, rows: str, message: str) -> None:
    table = write_workbook(tmp_path / "t.xlsx", rows).read_bytes()
    *_, error, end = page.events("table", table=table, name="t.xlsx")
    assert end == {"end": True}
    assert message in error["error"]
    assert "pdtools-serve" not in error["error"]


def test_sentences_of_tables_are_as_short_as_typed_ones(page: Client) -> None:
    long = "sentence\nThe dog barks.\n" + "(" * (MOST_CHARS + 1) + "\n"
    *_, error, _ = page.events("table", table=long.encode(), name="a.csv")
    assert error == {"error": "row 3: a sentence has at most 2,000 characters, not 2,001"}


def test_long_tables_are_refused(page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    table = b"sentence\nThe dog barks.\nThe dog bark.\n"
    monkeypatch.setattr("pdtools.serve.answers.MOST_ROWS", 2)
    assert "answer" in str(list(page.events("table", table=table, name="a.csv"))[-3])
    monkeypatch.setattr("pdtools.serve.answers.MOST_ROWS", 1)
    *_, error, _ = page.events("table", table=table, name="a.csv")
    assert error == {"error": "a table has at most 1 rows, not 2"}


def asked_directly(answers: Answers, kind: Kind, text: str, **more: Any) -> dict[str, Any]:
    """The answer to a question about a sentence, without a server."""
    *_, last = answers.steps(PageQuestion(page="page", kind=kind, texts=(text,), **more), None)
    found: dict[str, Any] = last["answer"]
    return found


@pytest.mark.parametrize("more", [{}, {"beam": 3, "words": True}, {"context": ("c", "b a"), "words": True}])
def test_models_of_other_packages_answer_beside_ours(tmp_path: Path, more: dict[str, Any]) -> None:
    """A beam is not for them, but for the others."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    save_checkpoints(tmp_path / "models", window=24)
    folders = [tmp_path / "models" / "pushdown", save_gpt2(tmp_path / "gpt2", ["a b c", "b a c"])]
    answers = Answers(load([replace(asked(each), search=SearchOptions(beam=9)) for each in folders]))
    found = asked_directly(answers, "sentence", "a b c", **more)
    context = Context(of="x", sentences=more["context"]) if "context" in more else NO_CONTEXT
    for m, folder in enumerate(folders):
        search = SearchOptions() if m else SearchOptions(beam=more.get("beam", 9))
        (expected,) = load_model(folder, search, context=context).score(["a b c"])
        assert isinstance(expected, SentenceScore)
        same(found["packed"][f"trace-0-{m}"]["surprisals"][1:], -expected.logprobs / math.log(2))
        if more.get("words"):
            assert [word for word, _ in found["document"]["written"][0][m]][:3] == ["a", "b", "c"]
    if not more:
        alone = Answers(load([asked(folders[1])]))
        (following,) = asked_directly(alone, "next", "a b", beam=2)["document"]["next"].values()
        assert [row[1] for row in following] == pdtools.load(folders[1]).next_token("a b", 20).token.tolist()


def test_commands_say_every_option_of_the_search_and_names_of_the_hub(tmp_path: Path) -> None:
    commit = "0123456789" * 4
    folder = tmp_path / "models--lab--toy" / "snapshots" / commit
    shutil.copytree(find_model("demo").folder, folder)
    search = SearchOptions(beam=BEAM, margin=2.5)
    answers = Answers(load([replace(asked(folder), search=search)]))
    name = f"hf:lab/toy@{commit}"
    shown = asked_directly(answers, "sentence", "The dog", words=True)["document"]["command"]
    options = ["--beam", "20", "--margin", "2.5", "--words"]
    assert shown == shlex.join(["pdtools", "surprisal", "--text", "The dog", "--model", name, *options])
    line = asked_directly(answers, "next", "The dog", beam=7)["document"]["command"]
    assert f'pdtools.load("{name}", beam=7, margin=2.5).next_token("The dog", 20)' in line
    tokenizer = train_word_tokenizer(["a", "b", "c"], unk=False).with_labels(["NP", "VP"])
    shards = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    save_checkpoint(tmp_path / "tg", action_model("tg", "relative"), tokenizer, shards=shards)
    search = SearchOptions(beam=BEAM, word_beam=4, fast_track=3)
    answers = Answers(load([replace(asked(tmp_path / "tg"), search=search)]))
    shown = asked_directly(answers, "sentence", "a b")["document"]["command"]
    options = ["--beam", "20", "--search", "word_beam=4", "--search", "fast_track=3", "-o", "view.html"]
    assert shown == shlex.join(["pdtools", "view", "--text", "a b", "--model", "tg", *options])


def test_commands_give_what_is_shown(page: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = page.ask("pair", GOOD, 'It\'s "so" $HOME; `x`', beam=7)["error"]
    assert "words unknown" in command
    shown = page.ask("pair", GOOD, BAD, beam=7)["document"]["command"]
    models = ["--model", "demo", "--model", "demo-base", "--beam", "7"]
    assert shown == shlex.join(["pdtools", "view", "--pair", GOOD, BAD, *models, "-o", "view.html"])
    assert run([*shlex.split(shown)[1:], "-q"]) == 0
    line = page.ask("next", "The dog", beam=7)["document"]["command"].splitlines()[0]
    assert line == (
        'python -c \'import pdtools; print(pdtools.load("demo", beam=7).next_token("The dog", 20))\''
    )
