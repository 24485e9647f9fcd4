"""Drawings of trees: in characters, as SVG, as LaTeX (packages forest and qtree)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.sax.saxutils import escape as escape_xml
from xml.sax.saxutils import quoteattr

from pdtools.errors import visible
from pdtools.report.tables import LATEX
from pdtools.trees import UNKNOWN_TAG, Tree, unescape

Package = Literal["forest", "qtree"]

_FONT = 14.0  # pixels, as all lengths in drawings
_COLUMN = 0.62 * _FONT  # wider than most letters of a common font
_GAP = 12.0  # between neighbours
_LEVEL = 44.0  # between the baselines of a node and its children
_MARGIN = 8.0


@dataclass
class _Node:
    """A constituent, a tag, or a word (without escapes).

    Attributes:
        depth: 0 for the root.
        parent: its index among the nodes, which are in pre-order; -1 for the root.
    """

    label: str
    is_word: bool
    depth: int
    parent: int
    children: list[int] = field(default_factory=list)


def _nodes(tree: Tree, *, tags: bool) -> list[_Node]:
    nodes: list[_Node] = []
    path: list[tuple[int, int]] = []  # open nodes, and the end of each

    def add(label: str, *, is_word: bool = False) -> None:
        parent = path[-1][0] if path else -1
        if path:
            nodes[parent].children.append(len(nodes))
        nodes.append(_Node(visible(label), is_word, len(path), parent))

    upcoming = 0
    starts, ends = tree.starts.tolist(), tree.ends.tolist()
    for k, (word, tag) in enumerate(zip(tree.words, tree.tags, strict=True)):
        while upcoming < len(starts) and starts[upcoming] == k:
            add(tree.labels[upcoming])
            path.append((len(nodes) - 1, ends[upcoming]))
            upcoming += 1
        if tags and tag not in ("", UNKNOWN_TAG):
            add(tag)
            path.append((len(nodes) - 1, k + 1))
        add(unescape(word), is_word=True)
        while path and path[-1][1] == k + 1:
            path.pop()
    return nodes


# --- of characters ----------------------------------------------------------------------------


def tree_text(tree: Tree, *, tags: bool = False, width: int | None = None) -> str:
    """A tree as lines, one for each node, indented by guides.

    Args:
        tree: a tree over words as a treebank writes them.
        tags: whether known tags get nodes.
        width: columns; longer lines lose their left part. None: no limit.
    """
    nodes = _nodes(tree, tags=tags)
    lines, guides = [], [""] * len(nodes)  # before a node's children
    for place, node in enumerate(nodes):
        own = before = ""
        if node.parent >= 0:
            before = guides[node.parent]
            is_last = nodes[node.parent].children[-1] == place
            own, guides[place] = ("└── ", before + "    ") if is_last else ("├── ", before + "│   ")
        line = before + own + node.label
        if width is not None and len(line) > width:
            line = "…" + line[len(line) - width + 1 :]
        lines.append(line + "\n")
    return "".join(lines)


# --- LaTeX ------------------------------------------------------------------------------------


def tree_latex(tree: Tree, package: Package) -> str:
    """A tree for a LaTeX document that loads this package, with tags where known."""
    nodes = _nodes(tree, tags=True)
    if len(nodes) == 1:  # a word alone, which qtree does not draw
        nodes = [_Node("", False, 0, -1, [1]), _Node(nodes[0].label, True, 1, 0)]
    parts = ["\\begin{forest}" if package == "forest" else "\\Tree"]
    depth = 0  # open brackets
    for node in nodes:
        parts.append(" ]" * (depth - node.depth))
        indent = "\n" + "  " * (node.depth + 1)
        label = "{" + "".join(LATEX.get(letter, letter) for letter in node.label) + "}"
        if package == "forest":
            parts.append(f"{indent}[{label}")
            depth = node.depth + 1
        elif node.is_word:
            parts.append(f"{indent}{label}")
            depth = node.depth
        else:
            parts.append(f"{indent}[.{label}")
            depth = node.depth + 1
    parts.append(" ]" * depth + ("\n\\end{forest}\n" if package == "forest" else "\n"))
    return "".join(parts)


# --- SVG --------------------------------------------------------------------------------------


def trees_svg(trees: Sequence[Tree]) -> str:
    """Trees as one picture, one below the other, words on a line at the bottom of each."""
    drawn = [_drawn(tree) for tree in trees]
    width = max(width for _, width, _ in drawn)
    height = sum(height for _, _, height in drawn)
    title = " ".join(visible(unescape(word)) for tree in trees for word in tree.words)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label={quoteattr(title)}>',
        f"<title>{escape_xml(title)}</title>",
    ]
    top = 0.0
    for content, _, own_height in drawn:
        lines += [
            f'<g transform="translate(0 {top:.0f})" font-family="sans-serif" font-size="{_FONT:.0f}"'
            ' text-anchor="middle" fill="currentColor" stroke="none">',
            *content,
            "</g>",
        ]
        top += own_height
    return "\n".join([*lines, "</svg>\n"])


def _drawn(tree: Tree) -> tuple[list[str], float, float]:
    """Lines and texts of a tree, and its width and height."""
    from rich.cells import cell_len

    nodes = _nodes(tree, tags=True)
    # Widths of nodes with everything below them: from last to first, children come before parents.
    own = [cell_len(node.label) * _COLUMN + _GAP for node in nodes]
    widths = own.copy()
    below = [0.0] * len(nodes)
    for place in range(len(nodes) - 1, -1, -1):
        below[place] = sum(widths[child] for child in nodes[place].children)
        widths[place] = max(widths[place], below[place])
    lefts, centers = [_MARGIN] * len(nodes), [0.0] * len(nodes)
    for place, node in enumerate(nodes):
        left = lefts[place] + (widths[place] - below[place]) / 2
        for child in node.children:
            lefts[child] = left
            left += widths[child]
    for place in range(len(nodes) - 1, -1, -1):
        children = nodes[place].children
        ends = [centers[child] for child in (children[0], children[-1])] if children else []
        center = sum(ends) / 2 if ends else lefts[place] + widths[place] / 2
        # Above children of unequal widths, a label stays within the node's share of the row.
        first, last = lefts[place] + own[place] / 2, lefts[place] + widths[place] - own[place] / 2
        centers[place] = min(max(center, first), last)
    deepest = max(node.depth for node in nodes)
    baselines = [_MARGIN + _FONT + _LEVEL * (deepest if node.is_word else node.depth) for node in nodes]
    lines, texts = [], []
    for place, node in enumerate(nodes):
        x, y = centers[place], baselines[place]
        if node.parent >= 0:
            from_x, from_y = centers[node.parent], baselines[node.parent]
            lines.append(
                f'<line x1="{from_x:.1f}" y1="{from_y + 5:.1f}" x2="{x:.1f}" y2="{y - _FONT:.1f}"'
                ' stroke="currentColor"/>'
            )
        style = ' font-style="italic"' if node.is_word else ""
        texts.append(f'<text x="{x:.1f}" y="{y:.1f}"{style}>{escape_xml(node.label)}</text>')
    height = 2 * _MARGIN + 1.5 * _FONT + _LEVEL * deepest
    return lines + texts, widths[0] + 2 * _MARGIN, height
