"""Fuzz target: treebanks of every form. Whatever a file holds, there are trees, or reasons in one line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odd_treebanks import SOUP

from fuzz.hostile import broken, fuzz, refusing
from pdtools.files import Rejects
from pdtools.jobs import Plan
from pdtools.parsers.in_chunks import read_in_chunks
from pdtools.parsers.pipeline import ParseCounts, TreeForm
from pdtools.trees import Graph, Tree
from pdtools.trees.forms import FORMS, ReadOptions, ReadTree, form_of, read_block

_CONLLU = (
    "# text = du 1 2\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n1\tde\t_\tADP\t_\t_\t4\t_\t_\t_\n"
    "2\tle\t_\tDET\t_\t_\t0\t_\t_\t_\n3\t1 2\t_\t_\t_\t_\t1\t_\t_\tSpaceAfter=No\n"
    "3.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "4\t(\t_\tX\t_\t_\t2\t_\t2:x|3.1:y|4:z\t_\n\n"
    "# global.columns = FORM ID MISC HEAD\na\t1\t_\t0\nb\t2\t_\t0\n\n"
)
_SDP = "#SDP 2015\n#1\n1\ta\t_\tA\t+\t+\t_\tx\t_\n2\t(\t_\tB\t-\t+\t_\ty\tz\n\n#2\n1\ta 1\t_\t_\t+\t-\n"
_EXPORT = (
    "#FORMAT 4\n#BOS x 1\na x A -- -- 500\n, x $, -- -- 0\nb x B -- HD 501\nc x C -- -- 500\n. x $. -- -- 0\n"
    "#500 -- X -- -- 501 1 502\n#501 -- S -- -- 0\n#EOS x\n"
)
_TIGER = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<corpus><!-- <s> --><body>\n'
    '<s id="s"><graph root="r"><terminals>\n'
    '<t id="a" word="a" pos="A"/><t id="b" word="&amp;" pos="$,"/><t id="c" word="c" pos="C"/></terminals>\n'
    '<nonterminals><nt id="n" cat="X"><edge label="HD" idref="a"/><edge idref="c"/>'
    '<secedge idref="b"/></nt>\n'
    '<nt id="r" cat="VROOT"><edge idref="n"/><edge idref="b"/></nt></nonterminals></graph></s>\n'
    "</body></corpus>\n"
)
_HISTORICAL = (
    "( (IP (NP-SBJ *pro*) (N a$-a) (C 0) (CODE {x}) (VBD b-b) {COM:x}) (ID A,.1))\n\n"
    "( (METADATA (A b)))\n(IP (P ***) (V c-c))\n"
)
BASES = {
    "conllu": _CONLLU,
    "sdp": _SDP,
    "export": _EXPORT,
    "tiger-xml": _TIGER,
    "discbracket": "(S (NP 0=a (X 2=b)) (, 1=,) 3=c)\n(VROOT (S (A 0=a)) (. 1=.))\n",
    "penn-loose": "1\t(S (NN (a  b)) (NP (*-1)) (0) (CD (0)))\n2a\t(S (N a))\n",
    "penn-historical": _HISTORICAL,
}


def content(name: str) -> st.SearchStrategy[bytes]:
    base = BASES[name].encode()
    return st.one_of(
        broken(base * 2), st.builds(bytes.__add__, st.just(base), SOUP), st.binary(max_size=40), SOUP
    )


@pytest.mark.parametrize("name", FORMS)
@fuzz
@given(data=st.data(), split=st.booleans(), surface=st.booleans())
def test_trees_or_reasons(name: str, data: Any, split: bool, surface: bool, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(data.draw(content(name)))
    options = ReadOptions(
        discontinuous="split" if split else "raise",
        punctuation="root" if surface else "move",
        surface=surface,
        enhanced=split,
        lemmas="keep" if split else "cut",
    )
    with refusing():
        form_of(str(file))
        for block in FORMS[name].blocks(str(file)):
            for found in read_block(FORMS[name], block, options, Counter()):
                if not isinstance(found, ReadTree):
                    assert "\n" not in found.reason
                    continue
                tree = found.tree
                assert len(tree) == len(tree.tags) > 0
                assert len(tree) == 1 or (tree.starts[0], tree.ends[0]) == (0, len(tree))
                assert Tree.from_brackets(str(tree)).words == tree.words
                assert "\n" not in (found.written or "")
                if found.graph is not None:
                    assert Graph.from_text(str(found.graph), len(tree)).arcs == found.graph.arcs


@pytest.mark.parametrize("name", FORMS)
@fuzz
@given(data=st.data())
def test_what_is_written_is_read_again(name: str, data: Any, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(data.draw(content(name)))
    form = TreeForm(binarize="head" if name == "conllu" else "left")
    with refusing():
        for line in read_in_chunks(
            [str(file)],
            name,
            ReadOptions(),
            form,
            Plan(),
            None,
            rejects=Rejects("skip"),
            counts=ParseCounts(),
        ):
            assert Tree.from_brackets(line.brackets).to_brackets() == line.brackets


def test_bases_are_good(tmp_path: Path) -> None:
    for name, base in BASES.items():
        (tmp_path / name).write_text(base)
        blocks = list(FORMS[name].blocks(str(tmp_path / name)))
        found = [one for block in blocks for one in read_block(FORMS[name], block, ReadOptions(), Counter())]
        assert found, name
        assert all(isinstance(one, ReadTree) for one in found), (name, found)
        assert form_of(str(tmp_path / name)) is FORMS[name]
