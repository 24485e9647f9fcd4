"""Shards that someone else wrote, or that were written wrong: one line, whatever reads them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.files import Rejects, sha256_file
from pdtools.models import build_model, make_config, save_checkpoint
from pdtools.shards import ShardFolder, ShardSet, ShardSettings, TokenizerSettings, shards_from_files
from pdtools.shards.build import blocks_from_files
from pdtools.shards.check import check_rows
from pdtools.tokenization import Tokenizer, train_word_tokenizer
from pdtools.trees import spans_from_attachments

TREES = """(S (NP (DT the) (NN dog)) (VP (VBZ barks)))
(S (NP (NN rain)) (VP (VBZ falls) (ADVP (RB down))))
(S (NP (DT a) (JJ big) (NN dog)) (VP (VBZ sees) (NP (NN rain))))
"""
PART = "part-00000.parquet"
N_TOKENS = [5, 5, 7]

Change = Callable[[dict[str, list[Any]]], None]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards, blocks and windows (of two sentences and of one), and a model."""
    folder = tmp_path_factory.mktemp("made")
    trees, text = folder / "x.trees", folder / "x.txt"
    trees.write_text(TREES)
    text.write_text("the dog barks\nrain falls down\n")
    making = TokenizerSettings(min_count=1)
    labelled = ShardSettings(constituents="labelled")
    shards_from_files([str(trees)], making, labelled, folder / "shards", Rejects())
    tokenizer = Tokenizer.load(folder / "shards")
    blocks_from_files([str(text)], tokenizer, folder / "blocks", Rejects(), length=5)
    windows = ShardSettings(layout="window", window=8, tape="none")
    shards_from_files([str(trees)], tokenizer, windows, folder / "windows", Rejects())
    shape = {"vocab_size": tokenizer.vocab_size, "pad_id": tokenizer.pad_id, "root_id": tokenizer.root_id}
    shape |= {"eos_id": tokenizer.eos_id, "layers": 1, "d_model": 8, "heads": 2, "d_ff": 16}
    model = build_model("pushdown", make_config("pushdown", shape))
    about = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    save_checkpoint(folder / "model", model, tokenizer, shards=about)
    return folder


def rewritten(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write the part anew, and its checksum into the manifest."""
    part = folder / PART
    pq.write_table(change(pq.read_table(part)), part)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["parts"][0]["sha256"] = sha256_file(part)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def rows(change: Change) -> Callable[[pa.Table], pa.Table]:
    """A change of values; columns may hold nulls afterwards."""

    def make(table: pa.Table) -> pa.Table:
        columns = table.to_pydict()
        change(columns)
        fields = [field.with_nullable(True) for field in table.schema]
        return pa.table(columns, pa.schema(fields, table.schema.metadata))

    return make


def put(column: str, row: int, value: Any, token: int | None = None) -> Callable[[pa.Table], pa.Table]:
    def change(columns: dict[str, list[Any]]) -> None:
        if token is None:
            columns[column][row] = value
        else:
            columns[column][row][token] = value

    return rows(change)


def cast(column: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        i = table.schema.get_field_index(column)
        values = pa.nulls(len(table), kind) if column == "tape" else table[column].cast(kind)
        return table.set_column(i, column, values)

    return change


def metadata(key: str, value: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.replace_schema_metadata(
        {**table.schema.metadata, f"pdtools.{key}".encode(): value.encode()}
    )


def not_utf8(table: pa.Table) -> pa.Table:
    bad = pa.array([b"the dog barks", b"rain falls d\xff", b"a big dog sees rain"])
    text = pa.StringArray.from_buffers(3, *bad.buffers()[1:])
    return table.set_column(table.schema.get_field_index("text"), "text", text)


NO_TOKENS: dict[str, Any] = {"tokens": [1, 2], "attach": [0, 0], "word": [-1, -1], "text": ""}
NO_TOKENS |= {"labels": [], "opens": [], "closes": []}
KINDS: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    **{
        f"no {name}": ((lambda table, name=name: table.drop_columns([name])), f"no column '{name}'")
        for name in ("id", "text", "tokens", "attach", "word", "labels", "opens", "closes", "tape")
    },
    "two columns": (lambda table: table.append_column("word", table["word"]), "2 columns 'word'"),
    "float ids": (cast("id", pa.float64()), "column 'id' holds double, not int64"),
    "long tokens": (cast("tokens", pa.list_(pa.int64())), "column 'tokens' holds list<"),
    "float attach": (cast("attach", pa.list_(pa.float32())), "column 'attach' holds list<"),
    "large text": (cast("text", pa.large_string()), "column 'text' holds large_string, not string"),
    "text tapes": (cast("tape", pa.string()), "column 'tape' holds string, not binary"),
    **{
        f"null {name}": (put(name, 1, None), f"row 1 (from 0), column '{name}': null")
        for name in ("id", "text", "tokens", "attach", "word", "labels", "opens", "closes", "tape")
    },
    **{
        f"null in {name}": (put(name, 1, None, 2), f"row 1 (from 0), column '{name}': token 2 is null")
        for name in ("tokens", "attach", "word", "opens", "closes")
    },
    "no tokens": (
        rows(
            lambda c: [c[name].__setitem__(1, value) for name, value in NO_TOKENS.items()] and None,
        ),
        "row 1 (from 0), column 'opens': a constituent without tokens",
    ),
    "short opens": (put("opens", 1, [2, 1]), "column 'opens': 2 numbers for 3 tokens without ROOT and EOS"),
    "long closes": (put("closes", 1, [1, 0, 3, 0]), "column 'closes': 4 numbers for 3 tokens without"),
    "opens less": (put("opens", 2, -1, 1), "row 2 (from 0), column 'opens': token 2 opens -1 constituents"),
    "closes less": (
        put("closes", 2, -1, 1),
        "row 2 (from 0), column 'closes': token 2 closes -1 constituents",
    ),
    "closes early": (put("closes", 1, [2, 0, 2]), "column 'closes': token 1 leaves 0 constituents open"),
    "closes too many": (put("closes", 1, 2**31 - 1, 0), "token 1 leaves -2147483645 constituents open"),
    "closes late": (put("closes", 1, [1, 0, 2]), "column 'closes': token 3 leaves 1 constituents open"),
    "few labels": (
        put("labels", 1, [0, 1, 2]),
        "row 1 (from 0), column 'labels': 3 labels for 4 constituents",
    ),
    "label beyond": (put("labels", 2, 4, 3), "row 2 (from 0), column 'labels': label 3 is 4, beyond the 4"),
    "label below": (put("labels", 2, -2, 0), "row 2 (from 0), column 'labels': label 0 is -2, beyond the 4"),
    "id": (put("id", 2, 7), "row 2 (from 0), column 'id': 7, but it is row 2"),
    "empty row": (
        rows(lambda c: [c[name].__setitem__(1, []) for name in ("tokens", "attach", "word")] and None),
        "row 1 (from 0), column 'tokens': without ROOT and EOS",
    ),
    "short attach": (put("attach", 1, [0, 1, 0]), "column 'attach': 3 numbers for 5 tokens"),
    "long word": (put("word", 1, [-1, 0, 1, 2, 3, -1]), "column 'word': 6 numbers for 5 tokens"),
    "negative token": (put("tokens", 1, -1, 2), "column 'tokens': token 2 is -1, beyond the vocabulary of"),
    "unknown token": (put("tokens", 1, 2**31 - 1, 2), "token 2 is 2147483647, beyond the vocabulary of"),
    "no ROOT": (put("tokens", 1, 4, 0), "column 'tokens': does not begin with ROOT"),
    "no EOS": (put("tokens", 1, 4, 4), "column 'tokens': does not end with EOS"),
    "attach ahead": (put("attach", 2, 5, 4), "row 2 (from 0), column 'attach': token 4 attaches to 5"),
    "attach far": (put("attach", 2, 2**31 - 1, 4), "column 'attach': token 4 attaches to 2147483647"),
    "attach below": (put("attach", 2, -3, 4), "column 'attach': token 4 attaches to -3: to itself"),
    "ROOT attached": (put("attach", 2, 1, 0), "column 'attach': token 0 attaches to 1"),
    "EOS attached": (
        put("attach", 2, 6, 6),
        "token 6 attaches to 6: the last token of a sentence does",
    ),
    "attach ROOT": (
        put("attach", 2, 0, 3),
        "token 3 attaches to 0: the last token of a sentence does",
    ),
    "crossing": (
        put("attach", 2, [0, 1, 2, 1, 2, 5, 0]),
        "column 'attach': token 4 attaches to 2, where no constituent ends any more",
    ),
    "line break": (put("text", 1, "rain\nfalls down"), "row 1 (from 0), column 'text': a line break"),
    "spaces": (put("text", 1, "rain falls  down"), "column 'text': two spaces together"),
    "space before": (put("text", 1, " rain falls down"), "column 'text': a space before or after"),
    "space after": (put("text", 1, "rain falls down "), "column 'text': a space before or after"),
    "not UTF-8": (not_utf8, "row 1 (from 0), column 'text': not UTF-8"),
    "words of text": (put("text", 1, "rain falls"), "column 'word': 3 words, but 2 in the text"),
    "words of tokens": (put("word", 1, [-1, 0, 1, 1, -1]), "column 'word': 2 words, but 3 in the text"),
    "word of ROOT": (
        put("word", 1, 0, 0),
        "column 'word': token 0 belongs to word 0: ROOT and EOS",
    ),
    "word of EOS": (put("word", 1, 2, 4), "column 'word': token 4 belongs to word 2: ROOT and EOS"),
    "no first word": (
        put("word", 1, [-1, -1, 0, 1, -1]),
        "token 1 belongs to word -1: ROOT and EOS have none",
    ),
    "word left out": (put("word", 1, 7, 3), "column 'word': token 3 belongs to word 7: words are counted"),
    "words from 1": (
        put("word", 1, [-1, 1, 1, 2, -1]),
        "token 1 belongs to word 1: words are counted",
    ),
    "word again": (put("word", 1, 0, 3), "column 'word': token 3 belongs to word 0: words are counted"),
    "short tape": (put("tape", 1, b"\0" * 14), "column 'tape': 14 bytes, but 5 tokens have 15"),
    "metadata layout": (metadata("layout", "block"), "pdtools.layout is block, but sentence in the manifest"),
    "metadata version": (metadata("format_version", "9"), "pdtools.format_version is 9, but 1"),
    "metadata factor": (metadata("binarization", "left"), "pdtools.binarization is left, but given"),
    "metadata tokenizer": (metadata("tokenizer", "0" * 64), "pdtools.tokenizer is 000"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_wrong_are_refused(kind: str, made: Path, tmp_path: Path) -> None:
    change, reason = KINDS[kind]
    bad = Path(shutil.copytree(made / "shards", tmp_path / "shards"))
    rewritten(bad, change)
    for read in (ShardSet.open, lambda folder: list(ShardFolder.open(folder).blocks())):
        with pytest.raises(InputError) as caught:
            read(bad)
        assert str(caught.value).startswith(f"{bad / PART}: ")
        assert reason in str(caught.value)
        assert "make the shards again" in str(caught.value)


@pytest.mark.parametrize("kind", ["no tape", "null text", "opens less", "crossing", "metadata layout"])
def test_every_command_refuses_rows_that_are_wrong(
    kind: str, made: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    change, reason = KINDS[kind]
    bad = Path(shutil.copytree(made / "shards", tmp_path / "shards"))
    rewritten(bad, change)
    model = ("--model", str(made / "model"), "--device", "cpu")
    train = ("--model", "transformer", "--device", "cpu", "-q", "-o", str(tmp_path / "run"))
    for command in (
        ("show", str(bad), "0"),
        ("show", str(bad), "--words"),
        ("train", str(bad), *train),
        ("train", str(made / "shards"), "--valid", str(bad), *train),
        ("eval-ppl", str(bad), *model, "-q", "-o", str(tmp_path / "results")),
    ):
        assert run(list(command)) == 1
        out, err = capfd.readouterr()
        assert not out
        assert err.count("\n") == 1, err
        assert f"{bad / PART}: " in err
        assert reason in err
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("layout", "change", "reason"),
    [
        ("blocks", put("attach", 1, 0, 2), "token 2 attaches to 0, but a block has no trees"),
        ("blocks", put("word", 1, 9, 2), "word 9 of"),
        ("blocks", put("word", 1, 2, 2), "word 2 of 2"),
        ("blocks", put("word", 1, -2, 2), "token 2 belongs to word -2"),
        ("blocks", put("word", 1, 0, 0), "ROOT belongs to word 0"),
        ("blocks", put("tokens", 0, [3]), "6 numbers for 1 tokens"),
        ("windows", put("tokens", 0, 1, 7), "column 'tokens': ends with ROOT"),
        ("windows", put("tokens", 0, 1, 5), "token 4 is a ROOT, and so is the next"),
        (
            "windows",
            put("attach", 0, 5, 7),
            "token 7 attaches to 5: the last token of a sentence does",
        ),
        ("windows", put("attach", 0, 3, 4), "token 4 attaches to 3: to itself or one before it in its"),
        ("windows", put("word", 0, 4, 5), "token 5 belongs to word 4: words are counted from 0"),
        ("windows", put("text", 0, "a b c d e f"), "1 lines for 2 ROOTs"),
        ("windows", put("document", 0, -1), "column 'document': -1 after later ones"),
    ],
)
def test_blocks_and_windows(layout: str, change: Any, reason: str, made: Path, tmp_path: Path) -> None:
    bad = Path(shutil.copytree(made / layout, tmp_path / layout))
    assert len(ShardSet.open(bad)) == 2
    rewritten(bad, change)
    with pytest.raises(InputError) as caught:
        ShardSet.open(bad)
    assert reason in str(caught.value)


def test_further_columns_and_files_without_metadata_are_read(made: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(made / "shards", tmp_path / "shards"))
    genre = pa.array(["news"] * 3)
    rewritten(other, lambda table: table.append_column("genre", genre).replace_schema_metadata(None))
    assert ShardSet.open(other).lengths.tolist() == N_TOKENS
    assert [len(block) for block in ShardFolder.open(other).blocks()] == [3]


def test_a_file_that_is_no_parquet(made: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(made / "shards", tmp_path / "shards"))
    manifest = json.loads((other / "manifest.json").read_text())
    (other / PART).write_bytes(b"PAR1 and nothing of it")
    manifest["parts"][0]["sha256"] = sha256_file(other / PART)
    (other / "manifest.json").write_text(json.dumps(manifest))
    for kind in (ShardFolder, ShardSet):
        with pytest.raises(InputError, match="not Parquet"):
            kind.open(other)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"layout": "page"}, "layout"), ({"factor": None}, "factor"), ({"text_style": "raw"}, "text_style")],
)
def test_manifests(settings: dict[str, Any], reason: str, made: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(made / "shards", tmp_path / "shards"))
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["settings"] |= settings
    (other / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=rf"manifest\.json: .*{reason}"):
        ShardSet.open(other)


TOKENIZER = train_word_tokenizer(["a"], min_count=1)


@st.composite
def some_attachments(draw: st.DrawFn) -> list[list[int]]:
    """Of the words of a few sentences, counted from 0: from before or themselves, mostly legal."""
    n_rows = draw(st.integers(1, 4))
    return [
        [draw(st.one_of(st.just(k), st.integers(0, k))) for k in range(draw(st.integers(1, 12)))]
        for _ in range(n_rows)
    ]


@given(some_attachments())
def test_attachments_are_legal_as_the_stack_has_it(words: list[list[int]]) -> None:
    attach = [[0, *(r + 1 for r in row), 0] for row in words]
    batch = pa.RecordBatch.from_pydict(
        {
            "id": pa.array(range(len(words)), pa.int64()),
            "text": [" ".join("a" * len(row)) for row in words],
            "tokens": pa.array(
                [[TOKENIZER.root_id, *[4] * len(row), TOKENIZER.eos_id] for row in words],
                pa.list_(pa.int32()),
            ),
            "attach": pa.array(attach, pa.list_(pa.int32())),
            "word": pa.array([[-1, *range(len(row)), -1] for row in words], pa.list_(pa.int32())),
        }
    )
    illegal = [i for i, row in enumerate(words) if not is_legal(row)]
    if not illegal:
        check_rows(batch, None, ShardSettings(), TOKENIZER, "x", 0, 0)
        return
    with pytest.raises(InputError) as caught:
        check_rows(batch, None, ShardSettings(), TOKENIZER, "x", 0, 0)
    assert f"row {illegal[0]} (from 0), column 'attach'" in str(caught.value)


def is_legal(attach: list[int]) -> bool:
    try:
        spans_from_attachments(np.array(attach))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", ["shards", "blocks"])
def test_the_digest_of_the_text_is_that_of_its_words(name: str, made: Path) -> None:
    rows = ShardSet.open(made / name)
    words = "".join(f"{word} " for i in range(len(rows)) for word in rows.text(i).split())
    assert ShardFolder.open(made / name).text_sha256() == hashlib.sha256(words.encode()).hexdigest()
    assert rows.text_sha256() == ShardFolder.open(made / name).text_sha256()
