"""The form TIGER XML of treebanks.

Only the elements ``s`` are parsed, each by itself: a damaged one does not affect the others, and definitions
of a document type (entities) are never seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.parsers import expat

from pdtools.errors import InputError
from pdtools.files import read_bytes
from pdtools.trees.forms.discontinuous import ROOT_LABEL, Node, continuous
from pdtools.trees.forms.form import TOO_LONG, Counts, Form, ReadOptions, ReadTree, TreeText
from pdtools.trees.reader import MAX_TREE_CHARS
from pdtools.trees.transforms import WRAPPERS
from pdtools.trees.tree import leaf, leaf_label

_MOST_BYTES = 1 << 30
_MARK = re.compile(rb"<!--.*?(?:-->|\Z)|<s(?=[\s>])|</s\s*>|</body", re.DOTALL)
_ENCODING = re.compile(rb"\s*<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)[\"']")
_XML = re.compile(r"\s*<(?:[?!]|corpus[\s>]|s\s)")
_TIGER = re.compile(r"<(?:corpus|subcorpus|graph|terminals)[\s>]")
# Encodings of XML files keep ASCII; some of Python's change escapes, such as these at the end.
_ASCII = bytes(range(128)).replace(b"\\", b"") + rb"\u0041.xn--bcher-kva"
_CUT_OFF = "cut off: no </s>"


def _looks_like(text: str) -> bool:
    return _XML.match(text) is not None and _TIGER.search(text) is not None


def _cut(file: str) -> Iterator[TreeText]:
    """Cut a file into the text of each element ``s``."""
    data = read_bytes(file, _MOST_BYTES).removeprefix(b"\xef\xbb\xbf")
    found = _ENCODING.match(data)
    encoding = found[1].decode() if found else "utf-8"
    try:
        readable = _ASCII.decode(encoding) == _ASCII.decode()
    except (LookupError, UnicodeError):
        readable = False
    if not readable or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError("an encoding that is not read", file=file, line=1, hint="convert it to UTF-8")
    line, counted, start = 1, 0, -1
    for mark in _MARK.finditer(data):
        if mark[0].startswith(b"<!--"):
            continue
        if start >= 0:
            ends = mark[0].startswith(b"</s")
            yield _block(file, line, data[start : mark.end() if ends else mark.start()], encoding, ends=ends)
        start = -1
        if mark[0] == b"<s":
            start = mark.start()
            line += data.count(b"\n", counted, start)
            counted = start
    if start >= 0:
        yield _block(file, line, data[start:], encoding, ends=False)


def _block(file: str, line: int, data: bytes, encoding: str, *, ends: bool) -> TreeText:
    fault = None if ends else _CUT_OFF
    if len(data) > MAX_TREE_CHARS:
        data, fault = data[:MAX_TREE_CHARS], TOO_LONG
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        fault = fault or f"not {encoding.upper()} (byte 0x{data[error.start]:02x}), as its first line says"
        text = data.decode(encoding, errors="replace")
    return TreeText(file, line, text.rstrip(), fault)


def _elements(text: str) -> list[tuple[str, dict[str, str]]]:
    """The elements of a text with their attributes, in order.

    Raises:
        InputError: with a line from 1, if it is no XML.
    """
    found: list[tuple[str, dict[str, str]]] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, attributes: found.append((tag, attributes))
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = f"damaged XML: {expat.ErrorString(error.code)}"
        raise InputError(reason, line=error.lineno) from None
    return found


def _read(block: TreeText, options: ReadOptions, counts: Counts) -> list[ReadTree | str]:
    words: list[str] = []
    nodes: dict[str, Node] = {}
    edges: list[tuple[list[Node], dict[str, str]]] = []  # each with the children of its constituent
    children: list[Node] = []
    n_nodes = n_secondary = 0
    try:
        for tag, attributes in _elements(block.text):
            if tag == "edge":
                edges.append((children, attributes))
            elif tag == "t":
                nodes[attributes["id"]] = Node(leaf_label(attributes.get("pos", "")), len(words))
                words.append(leaf(attributes["word"]))
            elif tag == "nt":
                node = nodes[attributes["id"]] = Node(leaf_label(attributes.get("cat", "")))
                children = node.children
                n_nodes += 1
            elif tag == "secedge":
                n_secondary += 1
        if not words:
            raise InputError("no words")
        if len(nodes) < len(words) + n_nodes:
            raise InputError("two words or constituents have the same id")
        for children, attributes in edges:
            name = attributes["idref"]
            child = nodes.get(name)
            if child is None or child.edge:
                raise InputError(f"{'two edges to' if child else 'an edge to what does not exist:'} {name}")
            child.edge = attributes.get("label") or "--"
            children.append(child)
    except KeyError as error:
        raise InputError(f"a word, constituent or edge has no {error.args[0]}") from None
    if n_secondary:
        counts["secondary edges left out"] += n_secondary
    tops = [node for node in nodes.values() if not node.edge]
    if len(tops) == 1 and tops[0].word < 0 and tops[0].label in WRAPPERS:
        return continuous(tops[0], n_nodes, words, options, counts)
    return continuous(Node(ROOT_LABEL, children=tops), n_nodes + 1, words, options, counts)


FORM = Form(
    name="tiger-xml",
    title="TIGER XML",
    suffixes=(".xml",),
    looks_like=_looks_like,
    cut=_cut,
    read=_read,
)
