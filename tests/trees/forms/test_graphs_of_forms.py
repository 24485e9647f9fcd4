"""Graphs that readers of dependencies give: heads, enhanced graphs, and semantic dependencies (.sdp)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdtools.trees.forms import FORMS, ReadOptions, ReadTree, TreeText, form_of
from pdtools.trees.forms import form as forms_form
from trees.forms.reading import read_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a"


def conllu(*words: tuple[str, int, str]) -> str:
    return "".join(f"{i}\t{w}\t_\tX\t_\t_\t{h}\t_\t{d}\t_\n" for i, (w, h, d) in enumerate(words, 1)) + "\n"


def graph_of(read: ReadTree) -> str:
    return str(read.graph)


@pytest.mark.parametrize(
    ("deps", "heads", "arcs", "counted"),
    [
        # All arcs come from empty nodes, or some do and other words have none.
        ("3.1:x 0.1:y 3.1:z", "0 1 1", "", {"enhanced arcs from empty nodes left out": 3}),
        ("3.1:x _ _", "0 1 1", "", {"enhanced arcs from empty nodes left out": 1}),
        ("_ 3.1:x|1:y _", "0 1 1", "1-2", {"enhanced arcs from empty nodes left out": 1}),
        # Heads are not needed, in all words or in some: words without one hang under the top.
        ("0:root 1:x 2:y", "_ _ _", "0-1 1-2 2-3", {"words without a head": 3}),
        ("0:root 1:x _", "0 1 _", "0-1 1-2", {"words without a head": 1}),
        ("0:root 1:x _", "0 0 1", "0-1 1-2", {"sentences with several roots": 1, "arcs lifted": 1}),
    ],
)
def test_enhanced_graphs_of_few_arcs_and_no_heads(
    file: Path, deps: str, heads: str, arcs: str, counted: dict[str, int]
) -> None:
    rows = enumerate(zip(heads.split(), deps.split(), strict=True), 1)
    lines = [f"{k}\tw\t_\tX\t_\t_\t{head}\t_\t{of}\t_" for k, (head, of) in rows]
    file.write_text("\n".join([*lines, "3.1\te" + "\t_" * 8, ""]))
    counts: Counter[str] = Counter()
    (read,), others = read_file("conllu", file, counts, enhanced=True)
    assert others == []
    assert graph_of(read) == arcs
    wanted = {"01_": "(ROOT (XP (X w) (X w)) (X w))", "011": "(XP (X w) (X w) (X w))"}
    assert str(read.tree) == wanted.get(heads.replace(" ", ""), "(ROOT (X w) (X w) (X w))")
    for ignored in ("empty nodes left out", "sentences without text", "sentences with lifted arcs"):
        del counts[ignored]
    assert {name: n for name, n in counts.items() if n} == counted
    _, bad = read_file("conllu", file)
    assert len(bad) == ("_" in heads)


# "du" is "de" and "le", which hang on "chat"; "noir" hangs on "le" alone, and "le" on "de" too.
RANGE = """1-2	du	_	_	_	_	_	_	_	_
1	de	_	ADP	_	_	3	case	3:case	_
2	le	_	DET	_	_	3	det	3:det|1:x	_
3	chat	_	NOUN	_	_	0	root	0:root	_
4	noir	_	ADJ	_	_	2	amod	2:amod	_

"""


def test_enhanced_arcs_that_all_lie_in_one_word(file: Path) -> None:
    file.write_text(
        RANGE.replace("3:case", "_").replace("3:det|", "").replace("0:root", "_").replace("2:amod", "_")
    )
    (read,), others = read_file("conllu", file, surface=True, enhanced=True)
    assert (graph_of(read), others) == ("", [])


@pytest.mark.parametrize(
    ("deps", "line", "reason"),
    [
        ("_", 1, "no enhanced dependencies in the column DEPS"),
        ("x:nsubj", 1, "the enhanced head of word 1 is 'x', no number"),
        ("1:a|", 1, "the enhanced head of word 1 is '', no number"),
        ("-1:a", 1, "the enhanced head of word 1 is '-1', no number"),
        ("7:a", 1, "the arc 7-1: outside of 2 words"),
    ],
)
def test_bad_enhanced_graphs(file: Path, deps: str, line: int, reason: str) -> None:
    file.write_text(conllu(("a", 0, deps), ("b", 1, "_")))
    trees, (other,) = read_file("conllu", file, enhanced=True)
    assert trees == []
    assert (other.reason, other.line) == (reason, line)  # type: ignore[union-attr]


# The examples' words, in the columns of 2014 and 2015: id form lemma pos top pred [frame] args.
SDP_2014 = """#20001001
1	A	a	DT	-	+	_	_	_
2	cat	cat	NN	-	-	BV	ARG1	ARG1
3	tried	try	VB	+	+	_	_	_
4	to	to	TO	-	-	_	_	_
5	sleep	sleep	VB	+	+	_	ARG2	_

#20001002
1	It	it	PRP	-	-
2	rains	rain	VB	+	-
"""
SDP_2015 = """#SDP 2015
#20001001
1	A	a	DT	-	+	q:i-h-h	_	_	_
2	cat	cat	NN	-	-	_	BV	ARG1	ARG1
3	tried	try	VB	+	+	v:e-i-h	_	_	_
4	to	to	TO	-	-	_	_	_	_
5	sleep	sleep	VB	+	+	v:e-i	_	ARG2	_

#20001002
1	It	it	PRP	-	-	_
2	rains	rain	VB	+	-	v:e
"""


@pytest.mark.parametrize("text", [SDP_2014, SDP_2015])
def test_semantic_dependencies(file: Path, text: str) -> None:
    file.write_text(text)
    counts: Counter[str] = Counter()
    read, others = read_file("sdp", file, counts)
    assert others == []
    assert [graph_of(one) for one in read] == ["1-2 0-3 3-2 0-5 3-5 5-2", "0-2"]
    assert [str(one.tree) for one in read] == [
        "(X (DT A) (NN cat) (VB tried) (TO to) (VB sleep))",
        "(X (PRP It) (VB rains))",
    ]
    assert {name: n for name, n in counts.items() if n} == {
        "graphs with several roots": 1,
        "graphs with crossing arcs": 1,
    }
    assert form_of(str(file)).name == "sdp"  # type: ignore[union-attr]


def test_a_graph_with_many_crossing_arcs_is_counted_once() -> None:
    counts: Counter[str] = Counter()
    assert forms_form.graph_of(6, [(1, 4), (2, 5), (3, 6)], counts).n_crossings == 3
    assert counts["graphs with crossing arcs"] == 1


@given(st.data(), st.integers(1, 5), st.booleans())
@settings(max_examples=60, deadline=None)
def test_graphs_are_read_back(data: st.DataObject, m: int, frames: bool) -> None:
    """Any graph, written as CoNLL-U and as semantic dependencies by their definitions."""
    arcs = data.draw(
        st.sets(st.tuples(st.integers(0, m), st.integers(1, m)).filter(lambda arc: arc[0] != arc[1]))
    )
    heads_of = {k: sorted(h for h, d in arcs if d == k) for k in range(1, m + 1)}
    predicates = sorted({h for h, _ in arcs if h})
    rows = []
    for k in range(1, m + 1):
        top, pred = ("+" if found else "-" for found in (0 in heads_of[k], k in predicates))
        arguments = ["x" if h in heads_of[k] else "_" for h in predicates]
        rows.append("\t".join([str(k), "w", "_", "T", top, pred, *(["f"] if frames else []), *arguments]))
    texts = {"sdp": "\n".join(rows) + "\n"}
    if arcs:
        deps = ["|".join(f"{h}:x" for h in heads_of[k]) or "_" for k in range(1, m + 1)]
        texts["conllu"] = conllu(*(("w", int(k > 1), deps[k - 1]) for k in range(1, m + 1)))
    for name, text in texts.items():
        form = FORMS[name]
        (read,) = form.read(TreeText("x", 1, text.rstrip("\n")), ReadOptions(enhanced=True), Counter())
        assert isinstance(read, ReadTree)
        assert read.graph is not None
        assert set(read.graph.arcs) == arcs


def test_ten_columns_are_not_conllu(file: Path) -> None:
    rows = ["1\ta\ta\tA\t+\t+\t_\t_\t_\tx"] + [f"{k}\tb\tb\tB\t-\t+\t_\tx\t_\t_" for k in (2, 3, 4)]
    file.write_text("\n".join(rows) + "\n")
    (read,), _ = read_file("sdp", file)
    assert graph_of(read) == "0-1 2-3 2-4 4-1"  # and 2 from itself, which is left out
    assert form_of(str(file)).name == "sdp"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2\tb\tb\tB\t-\t-\t_", "7 columns between tabs: with 1 words of pred + 8"),
        ("2\tb\tb\tB\t-\t-\t_\t_\t_", "9 columns between tabs: with 1 words of pred + 8"),
        ("3\tb\tb\tB\t-\t-\t_\t_", "word 3 where word 2 is to come"),
        ("2\tb\tb\tB\t-", "no id, form, lemma, pos, top and pred"),
        ("2\tb\tb\tB\t-\tx\t_\t_", "no id, form, lemma, pos, top and pred"),
        (
            "2\tb\tb\tB\t-\t+\t_\t_\n3\tc\tc\tC\t-\t+\t_\t_",
            "8 columns between tabs: with 3 words of pred + 9, or 10 with",
        ),
    ],
)
def test_bad_semantic_dependencies(file: Path, row: str, reason: str) -> None:
    file.write_text(f"1\ta\ta\tA\t+\t+\t_\t_\n{row}\n\n1\tit\tit\tA\t+\t-\n\n# the end\n")
    (read,), (other,) = read_file("sdp", file)
    assert graph_of(read) == "0-1"
    assert reason in other.reason
    assert other.line in (1, 2)  # type: ignore[union-attr]


def test_semantic_dependencies_of_too_many_columns(file: Path) -> None:
    wide = "1\ta\ta\tA\t+\t+\tx\t_\t_\n2\tb\tb\tB\t-\t-\tx\t_\tARG1\n"  # frames, and one column more
    file.write_text(f"{wide}\n1\tit\tit\tA\t+\t-\n")
    (read,), (other,) = read_file("sdp", file)
    assert graph_of(read) == "0-1"
    assert other.reason == (  # type: ignore[union-attr]
        "9 columns between tabs: with 1 words of pred + 7, or 8 with frames"
    )
