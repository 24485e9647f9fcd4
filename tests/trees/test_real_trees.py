"""The open treebanks: counts, labels, and attachments against definitions."""

from __future__ import annotations

import csv
import re
import zipfile

import nltk
import pytest
from nltk.tree.transforms import un_chomsky_normal_form

from pdtools.files import Rejects, expand_inputs
from pdtools.trees import (
    TransformCounts,
    Tree,
    attachments,
    binarize,
    collapse_unaries,
    normalize,
    read_trees,
    tape,
    tree_from_attachments,
)

from . import oracles

TREEBANKS = {"nltk_treebank": ".mrg", "gum_const": ".ptb", "craft_penn": ".tree"}
# Phrases that the removal of traces empties.
EMPTIED = {"nltk_treebank": 5223, "gum_const": 0, "craft_penn": 37061}


class Treebank:
    """A treebank read once: raw and clean trees, and what cleaning counted."""

    def __init__(self, name, files):
        self.name = name
        self.files = files
        self.raw = list(read_trees(files, Rejects()))
        self.counts = TransformCounts()
        self.clean = [normalize(source.tree, counts=self.counts) for source in self.raw]


@pytest.fixture(scope="module", params=TREEBANKS)
def treebank(request, test_data, tmp_path_factory):
    name = request.param
    folder = tmp_path_factory.mktemp(name)
    with zipfile.ZipFile(test_data / "treebanks" / f"{name}.zip") as archive:
        archive.extractall(folder)
    return Treebank(name, expand_inputs([str(folder)], [TREEBANKS[name]]))


@pytest.fixture(scope="module")
def expected(test_data):
    with open(test_data / "treebanks" / "expected_counts.csv", newline="") as stream:
        return {(row["treebank"], row["subset"]): row for row in csv.DictReader(stream)}


def counts_of(files, trees):
    return {
        "files": len(files),
        "trees": len(trees),
        "tokens": sum(map(len, trees)),
        "types": len({word for tree in trees for word in tree.words}),
        "trees_le_40_tokens": sum(len(tree) <= 40 for tree in trees),
        "max_tokens": max(map(len, trees)),
    }


def test_counts(treebank, expected):
    subsets = {"all": lambda file: True}
    if treebank.name == "gum_const":
        subsets["without_reddit"] = lambda file: "GUM_reddit" not in file
    for subset, belongs in subsets.items():
        row = expected[treebank.name, subset]
        trees = [
            tree for source, tree in zip(treebank.raw, treebank.clean, strict=True) if belongs(source.file)
        ]
        found = counts_of([file for file in treebank.files if belongs(file)], trees)
        assert found == {key: int(row[key]) for key in found}
    assert treebank.counts.traces == int(expected[treebank.name, "all"]["none_leaves"])
    assert treebank.counts.emptied == EMPTIED[treebank.name]
    assert treebank.counts.empty_trees == 0
    assert sum(treebank.counts.rewritten.values()) == (treebank.name == "nltk_treebank")


def test_places_and_texts(treebank):
    for source in treebank.raw[::50]:
        assert Tree.from_brackets(source.text) == source.tree
        with open(source.file, encoding="utf-8") as stream:
            assert source.text.splitlines()[0] in stream.read().split("\n")[source.line - 1]


def test_nltk_reads_lines(treebank):
    """All odd ones and some others (of ``pdtools parse``: all, in its tests).

    And it can undo what was done, except where it splits words at no-break and thin spaces.
    """
    for i, (source, tree) in enumerate(zip(treebank.raw, treebank.clean, strict=True)):
        if i % 20 and not re.search(r"[^\s!-~]|[\\|]", source.text):
            continue
        read = nltk.Tree.fromstring(str(binarize(collapse_unaries(tree))))
        if i % 20 == 0 and not any(re.search(r"\s", word) for word in tree.words):
            assert all(len(node) <= 2 for node in read.subtrees())
            un_chomsky_normal_form(read)
            assert read == tree.to_nltk()


def test_no_break_and_thin_spaces_stay_inside_words(treebank):
    with_space = [tree for tree in treebank.clean if any(re.search(r"\s", word) for word in tree.words)]
    assert len(with_space) == (15 if treebank.name == "craft_penn" else 0)


def test_attachments_of_every_tree_by_definition(treebank):
    for tree in treebank.clean:
        nested = oracles.binarized(oracles.from_tree(tree), "right")
        assert attachments(tree).tolist() == oracles.attachments_by_definition(nested)


@pytest.mark.parametrize("factor", ["right", "left"])
def test_attachments_and_tapes_by_definition(treebank, factor):
    sample = treebank.clean[:: max(1, len(treebank.clean) // 800)]
    assert len(sample) >= 700
    deepest = 0
    for tree in sample:
        nested = oracles.binarized(oracles.from_tree(tree), factor)
        r = attachments(tree, factor)
        assert r.tolist() == oracles.attachments_by_definition(nested)
        binarized = binarize(collapse_unaries(tree), factor)
        built = tree_from_attachments(r, tree.words, tree.tags)
        wide = binarized.ends - binarized.starts > 1
        assert built.starts.tolist() == binarized.starts[wide].tolist()
        assert built.ends.tolist() == binarized.ends[wide].tolist()
        rows = tape(r)
        assert (rows == oracles.tape_from_spans(built.starts, built.ends, len(tree))).all()
        if len(tree) <= 30:
            assert rows.tolist() == oracles.algorithm_1(r.tolist())
        deepest = max(deepest, int(rows.max()))
    assert deepest > 15
