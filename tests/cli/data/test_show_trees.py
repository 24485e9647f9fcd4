"""Trees as drawings: what is drawn can be read back, whatever the words are."""

from __future__ import annotations

import itertools
import re
from typing import Literal
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from pdtools.cli.main import run
from pdtools.errors import visible
from pdtools.report.trees import tree_latex, tree_text, trees_svg
from pdtools.trees import Tree

LETTERS = "ab%&$#_{}~^\\<>|[].,=`'\"é犬م\u202e\x1b"
NAMES = st.text(LETTERS, min_size=1, max_size=4)
_UNESCAPED = {r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^"}
_UNESCAPED |= {r"\textless{}": "<", r"\textgreater{}": ">", r"\textbar{}": "|"}
_UNESCAPED |= {f"\\{letter}": letter for letter in "{}&%$#_"}
_ESCAPE = re.compile("|".join(map(re.escape, _UNESCAPED)))

# A node: its label and its children; a word has none.
Node = tuple[str, list["Node"]]  # type: ignore[misc]


@st.composite
def nodes(draw: st.DrawFn, depth: int = 0) -> Node:
    """A constituent over words with tags."""
    kinds = [draw(st.booleans()) and depth < 4 for _ in range(draw(st.integers(1, 3)))]
    children = [draw(nodes(depth + 1)) if inner else (draw(NAMES), [(draw(NAMES), [])]) for inner in kinds]
    return draw(NAMES), children


def brackets(node: Node) -> str:
    label, children = node
    return f"({label} {' '.join(map(brackets, children))})" if children else label


def shown(node: Node) -> Node:
    """As a drawing has it: nothing in it moves a cursor."""
    label, children = node
    return visible(label), [shown(child) for child in children]


def flat(node: Node, depth: int = 0) -> list[tuple[int, str]]:
    label, children = node
    return [(depth, label), *(line for child in children for line in flat(child, depth + 1))]


def read_latex(text: str, package: Literal["forest", "qtree"]) -> Node:
    """Read a tree as the package does: labels in braces, brackets around nodes."""
    body = text.replace("\\begin{forest}", "").replace("\\end{forest}", "").replace("\\Tree", "")
    tokens = re.findall(r"\[\.?|\]|\{(?:\\[a-z]+\{\}|\\.|[^\\{}])*\}", body)
    assert "".join(tokens) == re.sub(r"\s+(?![^{}]*\})", "", body).replace(" ]", "]")
    top: list[Node] = []
    stack = [top]
    upcoming = False
    for token in tokens:
        if token == "]":
            stack.pop()
        elif token.startswith("["):
            upcoming = True
        else:
            label = _ESCAPE.sub(lambda found: _UNESCAPED[found[0]], token[1:-1])
            children: list[Node] = []
            stack[-1].append((label, children))
            if upcoming:
                stack.append(children)
            upcoming = False
    (node,) = top
    return node


@pytest.mark.parametrize("package", ["forest", "qtree"])
@settings(max_examples=40)
@given(node=nodes())
def test_latex_can_be_read_back(package: Literal["forest", "qtree"], node: Node) -> None:
    assert read_latex(tree_latex(Tree.from_brackets(brackets(node)), package), package) == shown(node)


@settings(max_examples=40)
@given(node=nodes())
def test_a_line_for_every_node(node: Node) -> None:
    lines = tree_text(Tree.from_brackets(brackets(node)), tags=True).splitlines()
    found = [(len(line) - len(line.lstrip("│├└─ ")), line.lstrip("│├└─ ")) for line in lines]
    assert found == [(4 * depth, label) for depth, label in flat(shown(node))]


@settings(max_examples=40)
@given(node=nodes())
@example(
    node=(
        "S",
        [("twelve-wide1", [("A", [("B", [("seven-7", [])]), ("C", [("d", [])])])]), ("E", [("f", [])])],
    )
)
def test_svg_is_xml_and_nothing_in_it_overlaps(node: Node) -> None:
    root = ElementTree.fromstring(trees_svg([Tree.from_brackets(brackets(node))]))
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    assert [text.text for text in texts] == [label for _, label in flat(shown(node))]
    assert len(list(root.iter("{http://www.w3.org/2000/svg}line"))) == len(texts) - 1
    rows: dict[float, list[tuple[float, float]]] = {}
    for text in texts:
        x, half = float(text.attrib["x"]), cell_len(text.text or "") * 0.62 * 14 / 2
        rows.setdefault(float(text.attrib["y"]), []).append((x - half, x + half))
        assert x - half >= 0
        assert x + half <= float(root.attrib["width"])
        assert float(text.attrib["y"]) <= float(root.attrib["height"])
    for row in rows.values():
        assert all(a[1] < b[0] for a, b in itertools.pairwise(row))


def test_trees_in_one_picture_stand_below_each_other() -> None:
    """The picture is as wide as the widest, wherever that stands, and as high as all together."""
    narrow, wide = Tree.from_brackets("(S (A a))"), Tree.from_brackets("(S (A (B twelve-wide1)) (C c))")
    sizes = [
        [float(ElementTree.fromstring(trees_svg(trees)).attrib[name]) for name in ("width", "height")]
        for trees in ([narrow], [wide], [narrow, wide], [wide, narrow])
    ]
    (_, low), (width, high), *both = sizes
    assert both == [[width, low + high]] * 2
    picture = ElementTree.fromstring(trees_svg([narrow, wide, narrow]))
    moved = [group.attrib["transform"] for group in picture.iter("{http://www.w3.org/2000/svg}g")]
    tops = [float(each.removeprefix("translate(0 ").removesuffix(")")) for each in moved]
    assert tops == pytest.approx([0, low, low + high], abs=1)


def test_deep_trees_stay_within_the_width() -> None:
    depth = 200
    lines = tree_text(Tree.from_brackets("(S " * depth + "(NN dog)" + ")" * depth), width=80).splitlines()
    assert len(lines) == depth + 1
    assert max(map(len, lines)) == 80
    assert lines[-1].endswith("└── dog")


TREE = "(S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .))"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("text", "S\n├── NP\n│   ├── DT\n│   │   └── The\n"),
        ("svg", '<svg xmlns="http://www.w3.org/2000/svg"'),
        ("forest", "\\begin{forest}\n  [{S}\n    [{NP}\n      [{DT}\n        [{The} ] ]"),
        ("qtree", "\\Tree\n  [.{S}\n    [.{NP}\n      [.{DT}\n        {The} ]"),
    ],
)
def test_the_command_draws_a_tree_of_ones_own(
    form: str, expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", "--text", TREE, "--tree", form]) == 0
    out = capfd.readouterr().out
    assert out.startswith(expected)
    assert "|" not in out  # as it is given, not binarized


def test_a_word_alone_is_drawn(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "--text", "(XX dog)", "--tree", "qtree"]) == 0
    assert capfd.readouterr().out == "\\Tree\n  [.{}\n    {dog} ]\n"


def test_wrong_usage() -> None:
    assert run(["show", "--text", TREE, "--tree", "svg", "--json"]) == 2


def test_one_blank_line_stands_between_tree_and_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "--text", "(S (DT The) (NN dog))"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines.count("") == 1
    assert lines[-1].startswith("3   <eos>")
