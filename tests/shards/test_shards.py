"""Trees into shards and back, against plain formulations on nltk trees."""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import nltk
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nltk.tree.transforms import chomsky_normal_form
from trees.oracles import packed

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Rejects, expand_inputs, sha256_file, write_json
from pdtools.shards import (
    FORMAT_VERSION,
    ShardFolder,
    ShardSet,
    ShardSettings,
    TokenizerSettings,
    build_shards,
    describe_row,
    shards_from_files,
    usable_tree,
    writer,
)
from pdtools.shards.writer import Counts
from pdtools.tokenization import Tokenizer, split_words, train_bpe_tokenizer, train_word_tokenizer
from pdtools.trees import (
    SourcedTree,
    Tree,
    binarize,
    collapse_unaries,
    normalize,
    placeholder,
    read_trees,
    unescape,
)
from pdtools.trees.transforms import binarize_from_heads, children_of

TREES = [
    "( (S (NP-SBJ (DT The) (NN dog)) (VP (VBD did) (RB n't) (VP (VB bark) (ADVP|PRT (RB today)))) (. .)))",
    "(ROOT (S (NP (-LRB- -LRB-) (NN dog) (-RRB- -RRB-)) (VP (VBD ran) (NP (-NONE- *)))))",
    "(S (NP (NN unbelievable)) (VP (VBZ is) (ADJP (RB very) (JJ and\\/or) (JJ naïve))))",
]
WORDS = ["The", "dog", "did", "n't", "bark", "today", ".", "(", ")", "ran"]
WORDS += ["unbelievable", "is", "very", "and/or", "naïve"]
WORD = train_word_tokenizer(WORDS)
BPE = {
    style: train_bpe_tokenizer(
        [split_words("The dog didn't bark unbelievable", style)], size=280, text_style=style
    )
    for style in ("ptb", "raw")
}


def _sourced(texts: list[str]) -> list[SourcedTree]:
    return [SourcedTree(Tree.from_brackets(t), "toy.mrg", i, t) for i, t in enumerate(texts, 1)]


def _build(
    folder: Path,
    texts: list[str] = TREES,
    tokenizer: Tokenizer = WORD,
    rejects: Rejects | None = None,
    *,
    rows_per_part: int = 100,
    overwrite: bool = True,
    **chosen: Any,
) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(writer, "ROWS_PER_PART", rows_per_part)
        return build_shards(
            _sourced(texts),
            tokenizer,
            ShardSettings(**chosen),
            folder,
            Rejects() if rejects is None else rejects,
            overwrite=overwrite,
        )


# --- the plain formulation --------------------------------------------------------------------


def _oracle(text: str, counts: list[int], factor: str) -> tuple[list[int], np.ndarray]:
    """Attachments and tape of ``ROOT tokens EOS``, node by node on a binarized nltk tree.

    EOS is taken as a last right sibling of everything, and ROOT as a left sibling of all.
    """
    plain = normalize(Tree.from_brackets(text))
    assert plain is not None
    tree = plain.to_nltk()
    for position, n in zip(tree.treepositions("leaves"), counts, strict=True):
        leaves = [nltk.Tree("T", [f"t{i}"]) for i in range(n)]
        tree[position] = nltk.Tree("W", leaves)
    whole = nltk.Tree("ALL", [nltk.Tree("R", ["root"]), nltk.Tree("REST", [tree, nltk.Tree("E", ["eos"])])])
    chomsky_normal_form(whole, factor=factor)
    size = sum(counts) + 2
    attach = list(range(size))
    widest = [0] * size
    tape = np.zeros((size, size), dtype=int)

    def visit(node: Any, start: int) -> int:
        if not isinstance(node, nltk.Tree):
            return start + 1
        ends = [start]
        for child in node:
            ends.append(visit(child, ends[-1]))
        end = ends[-1]
        if len(node) == 2:
            tape[end - 1 :, start:end] += 1
            if end - start > widest[end - 1]:
                widest[end - 1] = end - start
                attach[end - 1] = ends[1] - 1
        return end

    visit(whole, 0)
    return attach, tape


def _check_row(row: Any, text: str, factor: str) -> None:
    words = row["text"].split(" ")
    word = np.asarray(row["word"])
    assert word[0] == word[-1] == -1
    counts = np.bincount(word[1:-1], minlength=len(words)).tolist()
    attach, tape = _oracle(text, counts, factor)
    assert list(row["attach"]) == attach
    n = len(attach)
    assert row["tape"] == packed(tape)
    assert len(row["tokens"]) == n


# --- writing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", ["right", "left"])
@pytest.mark.parametrize("tokenizer", [WORD, BPE["ptb"], BPE["raw"]], ids=["word", "ptb", "raw"])
def test_plain_pandas_reads_what_the_trees_say(tmp_path: Path, tokenizer: Tokenizer, factor: str) -> None:
    manifest = _build(tmp_path / "s", tokenizer=tokenizer, factor=factor)
    frame = pd.read_parquet(tmp_path / "s" / "part-00000.parquet")
    assert list(frame.columns) == ["id", "text", "tokens", "attach", "word", "tape"]
    assert frame["id"].tolist() == [0, 1, 2]
    assert frame["text"].tolist() == [
        "The dog did n't bark today .",
        "( dog ) ran",
        "unbelievable is very and/or naïve",
    ]
    for text, (_, row) in zip(TREES, frame.iterrows(), strict=True):
        _check_row(row, text, factor)
    lengths = frame["tokens"].map(len)
    assert manifest["counts"] == {
        "sentences": 3,
        "words": 16,
        "tokens": int(lengths.sum()) - 6,
        "most_tokens": int(lengths.max()) - 2,
        "deepest": max(max(tape) for tape in frame["tape"]),
        "unknown_words": 0,
        "wrapped": 0,
        "rewritten_labels": 0,
        "unknown_labels": 0,
        "left_out": 0,
    }


_LABEL = st.sampled_from(["S", "NP-SBJ", "VP", "ADVP|PRT"])
_LEAF = st.sampled_from(["(DT The)", "(NN dog)", "(JJ unbelievable)", "(-NONE- *)", "(-LRB- -LRB-)"])
_NODE = st.recursive(
    _LEAF,
    lambda inner: st.builds(
        lambda label, children: f"({label} {' '.join(children)})",
        _LABEL,
        st.lists(inner, min_size=1, max_size=4),
    ),
    max_leaves=12,
)
_TREE = st.builds(lambda node: f"( (S {node}))", _NODE).filter(
    lambda text: normalize(Tree.from_brackets(text)) is not None
)


@pytest.mark.parametrize("factor", ["right", "left"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(_TREE, min_size=1, max_size=6))
def test_random_trees(tmp_path: Path, texts: list[str], factor: str) -> None:
    _build(tmp_path / "s", texts, BPE["ptb"], factor=factor, rows_per_part=4)
    frame = pd.concat(pd.read_parquet(part) for part in sorted((tmp_path / "s").glob("*.parquet")))
    assert len(frame) == len(texts)
    for text, (_, row) in zip(texts, frame.iterrows(), strict=True):
        _check_row(row, text, factor)


@pytest.mark.parametrize("form", ["right", "left"])
def test_binarized_input_gives_the_same_rows(tmp_path: Path, form: str) -> None:
    plain = [normalize(Tree.from_brackets(text)) for text in TREES]
    binary = [binarize(collapse_unaries(tree), form).to_brackets() for tree in plain if tree is not None]
    assert any("|<" in text for text in binary)
    for factor in ("right", "left"):
        _build(tmp_path / "raw", TREES, BPE["ptb"], factor=factor)
        _build(tmp_path / "binary", binary, BPE["ptb"], factor=factor)
        tables = [pq.read_table(tmp_path / name / "part-00000.parquet") for name in ("raw", "binary")]
        assert tables[0].equals(tables[1])


def _from_random_heads(tree: Tree, rng: np.random.Generator) -> Tree:
    heads, head_of = np.full(len(tree.words), -1, dtype=np.int32), {}
    for children in reversed(children_of(tree)):
        own = [head_of.get((start, end), start) for _, start, end in children]
        chosen = own[rng.integers(len(own))]
        heads[[word for word in own if word != chosen]] = chosen
        head_of[children[0][1], children[-1][2]] = chosen
    return binarize_from_heads(tree, heads)


@pytest.mark.parametrize("tokenizer", [WORD, BPE["raw"]], ids=["word", "raw"])
@pytest.mark.parametrize("layout", [{}, {"layout": "window", "window": 40}], ids=["sentence", "window"])
@pytest.mark.parametrize("form", ["right", "left", "head", "none"])
def test_the_binarization_of_trees_is_kept(
    tmp_path: Path, form: str, layout: dict[str, Any], tokenizer: Tokenizer
) -> None:
    """Rows are those of trees in which the groups are constituents like any other; in both formulations."""
    rng = np.random.default_rng(0)
    plain = [collapse_unaries(tree) for tree in map(normalize, map(Tree.from_brackets, TREES)) if tree] * 3
    make = {
        "right": lambda tree: binarize(tree, "right"),
        "left": lambda tree: binarize(tree, "left"),
        "head": lambda tree: _from_random_heads(tree, rng),
        "none": lambda tree: tree,
    }
    binary = [make[form](tree) for tree in plain]
    trees = {
        "kept": [tree.to_brackets() for tree in binary],
        "like others": [replace_groups(tree.to_brackets()) for tree in binary],
        "plain": [tree.to_brackets() for tree in plain],
    }
    trees["left"] = trees["plain"]
    chosen = {"kept": ShardSettings(**layout), "like others": ShardSettings(factor="right", **layout)}
    chosen |= {"plain": chosen["like others"], "left": ShardSettings(factor="left", **layout)}
    found, said = {}, {}
    for name, texts in trees.items():
        (tmp_path / f"{name}.trees").write_text("\n".join(texts), encoding="utf-8")
        sources = [str(tmp_path / f"{name}.trees")]
        manifest = shards_from_files(sources, tokenizer, chosen[name], tmp_path / name, Rejects())
        said[name] = manifest["settings"]["binarization"]
        found[name] = pq.read_table(tmp_path / name / "part-00000.parquet")
        again = _build(tmp_path / "again", texts, tokenizer, **dataclasses.asdict(chosen[name]))
        assert again["settings"] == manifest["settings"]
        assert found[name].equals(pq.read_table(tmp_path / "again" / "part-00000.parquet"))
    assert found["kept"].equals(found["like others"])
    assert found["kept"].equals(found["plain"]) == (form in ("right", "none"))
    same = [name for name in ("plain", "left") if found["kept"].equals(found[name])]
    assert said.pop("kept") == ({"plain": "right", "left": "left"}[same[0]] if same else "given")
    assert said == {"like others": "right", "plain": "right", "left": "left"}


def replace_groups(text: str) -> str:
    return text.replace("|<", "/").replace("|", "/")


def test_metadata_says_what_the_numbers_mean(tmp_path: Path) -> None:
    source = tmp_path / "toy.trees"
    source.write_text("\n".join(TREES), encoding="utf-8")
    kept = ShardSettings(factor="left", tape="none")
    manifest = shards_from_files([str(source)], WORD, kept, tmp_path / "s", Rejects())
    schema = pq.read_schema(tmp_path / "s" / "part-00000.parquet")
    assert schema.names == ["id", "text", "tokens", "attach", "word"]
    metadata = {key.decode(): value.decode() for key, value in schema.metadata.items()}
    assert metadata["pdtools.format_version"] == FORMAT_VERSION
    assert metadata["pdtools.layout"] == "sentence"
    assert metadata["pdtools.binarization"] == "left"
    assert metadata["pdtools.tokenizer"] == WORD.fingerprint
    assert json.loads(metadata["pdtools.sources"]) == manifest["sources"]
    assert len(manifest["sources"][0]["sha256"]) == 64
    column = pq.ParquetFile(tmp_path / "s" / "part-00000.parquet").metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert manifest["settings"] == {
        "layout": "sentence",
        "factor": "left",
        "binarization": "left",
        "tape": "none",
        "constituents": "none",
        "text_style": "ptb",
    }


def test_parts_are_cut_by_rows_and_repeat_to_the_byte(tmp_path: Path) -> None:
    manifest = _build(tmp_path / "a", TREES * 3, rows_per_part=4)
    assert [part["rows"] for part in manifest["parts"]] == [4, 4, 1]
    assert [part["file"] for part in manifest["parts"]] == [f"part-0000{i}.parquet" for i in range(3)]
    assert _build(tmp_path / "b", TREES * 3, rows_per_part=4)["parts"] == manifest["parts"]
    shards = ShardSet.open(tmp_path / "a")
    assert shards.ids.tolist() == list(range(9))
    assert [shards.text(i) for i in range(9)] == [shards.text(i % 3) for i in range(9)]


def test_deep_tapes_saturate_and_the_manifest_does_not(tmp_path: Path) -> None:
    n = 300
    text = "".join(f"(S (NN w{i}) " for i in range(n)) + ")" * n
    _build(tmp_path / "s", [text], train_word_tokenizer([f"w{i}" for i in range(n)]))
    shards = ShardSet.open(tmp_path / "s")
    stored = pq.read_table(tmp_path / "s" / "part-00000.parquet")["tape"][0].as_py()
    assert max(stored) == 255
    assert shards.manifest["counts"]["deepest"] == int(shards.tape(0).max()) == n + 1


# --- what is excluded -------------------------------------------------------------------------


def test_what_is_excluded_is_counted_and_listed_under_any_policy(tmp_path: Path) -> None:
    unusable = [
        "( (S (NP (-NONE- *))))",
        "(X (XX one) (XX two) (XX three))",
        "(S (NN dog) (VB flies))",
    ]
    rejects = Rejects("fail")
    closed = train_word_tokenizer(WORDS, unk=False)
    manifest = _build(tmp_path / "s", [*unusable, *TREES], closed, rejects)
    assert manifest["counts"]["sentences"] == 3
    assert manifest["counts"]["left_out"] == 3
    assert manifest["left_out"] == {
        "no words": 1,
        "not parsed: a flat placeholder": 1,
        "words outside the vocabulary": 1,
    }
    lines = (tmp_path / "s" / "rejects.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"file": "toy.mrg", "line": i, "reason": reason, "text": text}
        for i, (reason, text) in enumerate(zip(sorted(manifest["left_out"]), unusable, strict=True), 1)
    ]


def test_short_placeholders_are_excluded_only_if_a_word_was_replaced() -> None:
    for words in (["\u200b"], ["dog", " "]):
        assert usable_tree(placeholder(words)) == "not parsed: a flat placeholder"
    for words in (["dog"], ["dog", "sleeps"]):
        assert usable_tree(placeholder(words)) == placeholder(words)


def test_nothing_is_written_when_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError, match=r"no sentences.*1 excluded: no words"):
        _build(tmp_path / "s", ["(S (-NONE- *))"])
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_old_folder(tmp_path: Path) -> None:
    _build(tmp_path / "s")
    before = (tmp_path / "s" / "manifest.json").read_bytes()

    def failing() -> Any:
        yield from _sourced(TREES)
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        build_shards(failing(), WORD, ShardSettings(), tmp_path / "s", Rejects(), overwrite=True)
    with pytest.raises(PdtoolsError, match="exists"):
        _build(tmp_path / "s", overwrite=False)
    assert (tmp_path / "s" / "manifest.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


@pytest.mark.parametrize(
    ("chosen", "size"),
    [({}, 4 + 2), ({"unk": False}, 3 + 5), ({"min_count": 1, "size": 6}, 6), ({"kind": "bpe"}, 259 + 5)],
)
def test_tokenizers_are_made_from_the_trees(tmp_path: Path, chosen: dict[str, Any], size: int) -> None:
    source = tmp_path / "toy.trees"
    source.write_text("(S (NN a) (NN a) (NN bc))\n(S (NN bc) (NP (NN d) (NP (NN e) (NN \\/))))")
    manifest = shards_from_files(
        [str(source)], TokenizerSettings(**chosen), ShardSettings(), tmp_path / "s", Rejects()
    )
    if chosen.get("kind") == "bpe":
        assert manifest["tokenizer"]["kind"] == "bpe"
        assert 259 < manifest["tokenizer"]["vocab_size"] <= size
    else:
        assert manifest["tokenizer"]["vocab_size"] == size


# --- reading ----------------------------------------------------------------------------------


def test_rows_are_read_back(tmp_path: Path) -> None:
    _build(tmp_path / "s", TREES * 2, BPE["raw"], rows_per_part=4)
    shards = ShardSet.open(tmp_path / "s")
    frame = pd.concat(pd.read_parquet(part) for part in sorted((tmp_path / "s").glob("*.parquet")))
    assert len(shards) == len(frame) == 6
    assert shards.tokenizer == BPE["raw"]
    for i, (_, expected) in enumerate(frame.iterrows()):
        assert shards.ids[i] == expected["id"]
        assert shards.text(i) == expected["text"]
        for name in ("tokens", "attach", "word"):
            found = getattr(shards, name)(i)
            assert found.tolist() == expected[name].tolist()
            assert found.dtype == np.int32
        assert shards.lengths[i] == len(expected["tokens"])
        assert expected["tape"] == packed(shards.tape(i))
    assert shards.find(5) == 5
    with pytest.raises(InputError, match="ids go from 0 to 5"):
        shards.find(6)


def test_a_row_describes_its_tree(tmp_path: Path) -> None:
    _build(tmp_path / "s", TREES, BPE["ptb"])
    description = describe_row(ShardSet.open(tmp_path / "s"), 1)
    assert description["tree"] == "(X (X (XX -LRB-) (X (XX dog) (XX -RRB-))) (XX ran))"
    first, *_, last = description["tokens"]
    assert (first["token"], first["word"], first["shift"], first["tape"]) == ("<root>", None, True, [0])
    assert (last["token"], last["word"], last["attach"], last["shift"]) == ("<eos>", None, 0, False)
    json.dumps(description)


@pytest.mark.parametrize("tokenizer", [WORD, BPE["ptb"]], ids=["word", "bpe"])
def test_constituents_are_read_back(tmp_path: Path, tokenizer: Tokenizer) -> None:
    texts = [*TREES * 2, "(NN dog)"]
    _build(tmp_path / "s", texts, tokenizer, rows_per_part=4, constituents="labelled")
    shards = ShardSet.open(tmp_path / "s")
    assert shards.has_constituents
    assert shards.tokenizer == tokenizer
    for i, text in enumerate(texts):
        found, word = shards.constituents(i), shards.word(i)[1:-1]
        tree = normalize(Tree.from_brackets(text))
        assert tree is not None
        assert [shards.labels[label] for label in found.labels] == (list(tree.labels) or ["X"])
        # Each from the first token of its first word to the last of its last.
        spans = list(zip(tree.starts.tolist(), tree.ends.tolist(), strict=True)) or [(0, 1)]
        firsts = [word.tolist().index(start) for start, _ in spans]
        lasts = [len(word) - 1 - word.tolist()[::-1].index(end - 1) for _, end in spans]
        assert found.opens.tolist() == np.bincount(firsts, minlength=len(word)).tolist()
        assert found.closes.tolist() == np.bincount(lasts, minlength=len(word)).tolist()
        most = max(sum(a <= k <= b for a, b in zip(firsts, lasts, strict=True)) for k in range(len(word)))
        assert (shards.n_constituents[i], shards.most_open[i]) == (len(spans), most)
        described = describe_row(shards, i)["constituents"]
        assert Tree.from_brackets(described).labels == (tree.labels or ("X",))
        assert " ".join(map(unescape, Tree.from_brackets(described).words)) == shards.text(i)
    blocks = list(ShardFolder.open(tmp_path / "s").blocks())
    assert [n for block in blocks for n in block.most_open] == shards.most_open.tolist()


def test_rows_of_a_part_of_the_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdtools.shards.reader.ROWS_PER_BLOCK", 2)
    _build(tmp_path / "s", [*TREES, "(NN dog)"], constituents="labelled")
    whole = ShardSet.open(tmp_path / "s")
    for made in (whole, ShardFolder.open(tmp_path / "s")):
        blocks = list(made.blocks())
        assert [len(block) for block in blocks] == [2, 2]
        for name in ("n_constituents", "most_open"):
            assert (
                np.concatenate([getattr(block, name) for block in blocks]).tolist()
                == getattr(whole, name).tolist()
            )
        assert blocks[1].constituents(1).labels.tolist() == whole.constituents(3).labels.tolist()


def test_shards_without_constituents(tmp_path: Path) -> None:
    _build(tmp_path / "s")
    shards = ShardSet.open(tmp_path / "s")
    assert (shards.has_constituents, shards.labels) == (False, ())
    assert describe_row(shards, 0)["constituents"] is None
    reason = "no labelled constituents.*make them again with pdtools tapes"
    for ask in (lambda: shards.constituents(0), lambda: shards.n_constituents, lambda: shards.most_open):
        with pytest.raises(PdtoolsError, match=reason):
            ask()
    with pytest.raises(PdtoolsError, match="layout block has no constituents"):
        ShardSettings(layout="block", constituents="labelled")


def test_labels_are_those_of_the_tokenizer(tmp_path: Path) -> None:
    _build(tmp_path / "s", constituents="labelled")
    digest = ShardSet.open(tmp_path / "s").sha256
    labels = ShardSet.open(tmp_path / "s").labels
    renamed = Tokenizer.load(tmp_path / "s").with_labels(["Y", *labels[1:]])
    renamed.save(tmp_path / "s")
    with pytest.raises(InputError, match=r"manifest\.json: labels are not those of the tokenizer"):
        ShardSet.open(tmp_path / "s")
    _change_manifest(tmp_path / "s", labels=list(renamed.labels))
    assert ShardSet.open(tmp_path / "s").sha256 != digest


def _change_manifest(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    write_json(folder / "manifest.json", {**manifest, **changes})


def test_what_is_not_a_folder_of_shards(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        ShardSet.open(tmp_path / "missing")
    with pytest.raises(InputError, match=r"no manifest\.json"):
        ShardSet.open(tmp_path)
    (tmp_path / "manifest.json").write_text("[1]")
    with pytest.raises(InputError, match="not a manifest of shards"):
        ShardSet.open(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        ShardSet.open(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"parts": []},
        {"parts": [{}]},
        {"parts": [{"file": None, "rows": 1, "sha256": ""}]},
        {"parts": [{"file": "../part-00000.parquet", "rows": 1, "sha256": ""}]},
        {"parts": [{"file": "..", "rows": 1, "sha256": ""}]},
        {"tokenizer": {}},
        {"settings": None},
    ],
)
def test_a_damaged_manifest(tmp_path: Path, changes: dict[str, Any]) -> None:
    _build(tmp_path / "s")
    _change_manifest(tmp_path / "s", **changes)
    with pytest.raises(InputError, match="damaged manifest"):
        ShardSet.open(tmp_path / "s")


@pytest.mark.parametrize(
    ("rows", "reason"),
    [(0, "no rows"), (-3, "3 rows, but -3"), (2**70, "3 rows, but 1180591620717411303424")],
)
def test_numbers_of_rows_are_those_of_the_parts(tmp_path: Path, rows: int, reason: str) -> None:
    folder = tmp_path / "s"
    _build(folder)
    (part,) = json.loads((folder / "manifest.json").read_text())["parts"]
    _change_manifest(folder, parts=[{**part, "rows": rows}])
    for kind in (ShardFolder, ShardSet):
        with pytest.raises(InputError, match=reason):
            kind.open(folder)


def test_a_part_without_rows_and_a_folder_whose_name_is_no_utf_8(tmp_path: Path) -> None:
    _build(tmp_path / "s")
    folder = (tmp_path / "s").rename(tmp_path / os.fsdecode(b"caf\xe9"))
    whole = ShardSet.open(folder)
    (part,) = whole.manifest["parts"]
    empty = folder / "part-00001.parquet"
    with empty.open("wb") as file:
        pq.write_table(pq.ParquetFile(folder.joinpath(part["file"]).open("rb")).read().slice(0, 0), file)
    nothing = {"file": empty.name, "rows": 0, "sha256": sha256_file(empty)}
    _change_manifest(folder, parts=[nothing, part, nothing])
    (block,) = ShardFolder.open(folder).blocks()
    for shards in (block, ShardSet.open(folder)):
        assert [shards.text(i) for i in range(len(shards))] == [whole.text(i) for i in range(len(whole))]
        assert all(np.array_equal(shards.attach(i), whole.attach(i)) for i in range(len(whole)))


def test_damage_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    part = folder / "part-00000.parquet"
    _build(folder)
    whole = part.read_bytes()
    part.write_bytes(whole[:-10])
    with pytest.raises(InputError, match="damaged"):
        ShardSet.open(folder)
    part.unlink()
    with pytest.raises(InputError, match="missing"):
        ShardSet.open(folder)
    part.write_bytes(whole)
    ShardSet.open(folder)

    BPE["ptb"].save(folder)
    with pytest.raises(InputError, match="not the tokenizer"):
        ShardSet.open(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="no such tokenizer"):
        ShardSet.open(folder)
    _change_manifest(folder, format_version="7")
    with pytest.raises(InputError, match="version 7; this pdtools reads version 1"):
        ShardSet.open(folder)


# --- a real treebank --------------------------------------------------------------------------


def test_the_counts_of_a_real_treebank(test_data: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(test_data / "treebanks" / "nltk_treebank.zip") as archive:
        archive.extractall(tmp_path / "treebank")
    expected = pd.read_csv(test_data / "treebanks" / "expected_counts.csv").query(
        "treebank == 'nltk_treebank'"
    )
    files = expand_inputs([str(tmp_path / "treebank")], (".mrg",))
    manifest = shards_from_files(files, TokenizerSettings(), ShardSettings(), tmp_path / "s", Rejects())
    assert manifest["counts"]["sentences"] == expected["trees"].item()
    assert manifest["counts"]["words"] == expected["tokens"].item()
    assert manifest["counts"]["most_tokens"] == expected["max_tokens"].item()
    assert len(manifest["sources"]) == expected["files"].item()
    shards = pd.read_parquet(tmp_path / "s" / "part-00000.parquet")
    for number, sourced in enumerate(read_trees(files, Rejects())):
        if number % 50 == 0:
            _check_row(shards.iloc[number], sourced.text, "right")


def test_counts_of_parts_are_sums_but_for_the_largest() -> None:
    names = [field.name for field in dataclasses.fields(Counts)]
    one = Counts(**{name: number for number, name in enumerate(names, start=10)})
    other = Counts(**{name: 100 - number for number, name in enumerate(names)})
    for total in (one + other, other + one):
        for name in names:
            pair = getattr(one, name), getattr(other, name)
            expected = max(pair) if name in ("most_tokens", "deepest", "documents") else sum(pair)
            assert getattr(total, name) == expected, name


def test_labels_that_are_not_known_become_the_rarest_one_and_digests_hold_the_tokenizer(
    tmp_path: Path,
) -> None:
    _build(tmp_path / "s", constituents="labelled")
    shards = ShardSet.open(tmp_path / "s")
    labels, *_ = shards._constituents()
    values = labels.values.copy()
    values[labels.offsets[1]] = -1  # the first label of the second row
    changed = dataclasses.replace(
        shards, _columns={**shards._columns, "labels": dataclasses.replace(labels, values=values)}
    )
    assert np.flatnonzero(changed.has_unknown_labels).tolist() == [1]
    known = changed.with_known_labels()
    assert (known.relabelled, int(known.constituents(1).labels[0])) == (1, len(shards.labels) - 1)
    other = train_word_tokenizer(["another"], text_style="ptb")
    assert dataclasses.replace(shards, tokenizer=other.with_labels(shards.labels)).sha256 != shards.sha256
