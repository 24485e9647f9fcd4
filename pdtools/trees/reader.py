"""Reader of bracketed trees from files, with any line breaks.

A file is a sequence of bracketings; line ends and blank lines mean nothing while the brackets balance.
If they do not, or if text stands between trees, the reader rejects the unreadable text and goes on at
the next line where a tree seems to begin: its first character is an opening bracket in the column where the
file's first tree began, and, if the file's good trees hold such lines inside, it follows a blank line.
A file is read as a stream: only the current tree is in memory, and given up once it is longer than
``MAX_TREE_CHARS``, even if its brackets never close.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pdtools.errors import InputError
from pdtools.files import Rejects, decode_utf8, read_line_parts, read_lines
from pdtools.trees.transforms import TRACE_TAGS, refused_form
from pdtools.trees.tree import BRACKET_TOKEN, Tree, TreeBuilder, unescape

PART_BYTES = 1 << 20
MAX_TREE_CHARS = 1 << 22
"""Limit on a tree's text, in characters: some 200,000 words, or a million brackets."""

_LONGEST_TREE_BYTES = 4 * MAX_TREE_CHARS
_ENDS = (b")", b" ", b"\t", b"\f", b"\v")  # nothing goes on after them, not even a line end
_BYTE_ORDER_MARK = "\ufeff"
TOO_LONG = f"a tree of more than {MAX_TREE_CHARS:,} characters, or brackets that never close"
_NUMBER = re.compile(r"[0-9]+[ \t]+\(")
# Limit on text outside of trees that is recorded.
_MOST_TEXT = 1 << 16
_SEPARATE = "blank lines separate the trees of different sentences; or an id and a tab stand before each tree"


@dataclass(slots=True)
class SourcedTree:
    """A tree with its place: the file, the line it starts on (from 1), and its text there.

    ``follows_blank``: whether there is a blank line between it and the readable tree before it.
    """

    tree: Tree
    file: str
    line: int
    text: str
    follows_blank: bool = False


def read_trees(files: Iterable[str], rejects: Rejects) -> Iterator[SourcedTree]:
    """Read the trees of files in order, as written there.

    A wrapper ``( (S …) )`` becomes a constituent with the label "". Tokens are separated by brackets and
    ASCII white space only, so a no-break or thin space belongs to its word. Left to ``rejects``, with the
    line where the tree starts: trees with unbalanced brackets, without words or with a constituent without
    words, trees that are not UTF-8 or too long, trees with non-words that would be read as words
    (:mod:`pdtools.trees.transforms`), text between trees, and files without trees.

    Args:
        files: paths (``-``: standard input); compressed by suffix.
        rejects: takes the unreadable trees.

    Raises:
        InputError: if something is unreadable and the policy of ``rejects`` is ``fail``, or if a file cannot
            be opened or decompressed.
    """
    for file in files:
        yield from _FileReader(file, rejects).trees()


class _OpenTree:
    """A tree whose brackets have not all closed yet, and the lines it has reached."""

    def __init__(self, line: Line, column: int) -> None:
        self.builder = TreeBuilder()
        self.lines = [line]
        self.column = column
        self.n_chars = len(line.text) - column  # up to the end of the last line
        self.fault_line: int | None = None
        self.holds_tree_like_lines = False
        self.builder.fault = line.fault

    def add(self, line: Line, *, looks_like_tree: bool) -> None:
        """Continue into the next line."""
        self.lines.append(line)
        self.n_chars += len(line.text) + (not line.goes_on)
        self.builder.fault = self.builder.fault or line.fault
        self.holds_tree_like_lines |= looks_like_tree

    def note_fault(self) -> None:
        """Remember the line, at its end or the tree's, if the first fault is in it."""
        if self.builder.fault is not None and self.fault_line is None:
            self.fault_line = self.lines[-1].number

    def text(self, end_column: int) -> str:
        """The tree's text up to a column of its last line."""
        texts = [line.text for line in self.lines]
        texts[-1] = texts[-1][:end_column]
        texts[0] = texts[0][self.column :]
        return _joined(texts, self.lines)


class _FileReader:
    def __init__(self, file: str, rejects: Rejects) -> None:
        self.file = file
        self.rejects = rejects
        self.fresh_lines = read_tree_lines(file)
        self.put_back: deque[Line] = deque()
        self.tree_column: int | None = None  # the column of the file's first tree
        self.needs_blank = False  # a good tree held a line that looks like the beginning of a tree
        self.seen_unbalanced = False
        self.found_anything = False
        self.after_blank = False  # since the last tree that was read

    def trees(self) -> Iterator[SourcedTree]:
        """The readable trees of the file; the others go to ``rejects``."""
        open_tree: _OpenTree | None = None
        done: SourcedTree | None = None  # kept back until it is clear that no further bracket closes
        while True:
            line = self._next_line()
            if line is None:
                if open_tree is None:
                    break
                self._reject_unended(open_tree)
                open_tree = None
                continue
            if open_tree is not None:
                # Once a tree of this file has failed to end, no tree may run into the next one.
                if self._begins_tree(line) and self.seen_unbalanced:
                    self._reject_unbalanced(open_tree, line.number)
                    open_tree = None
                else:
                    open_tree.add(line, looks_like_tree=self._begins_tree(line))
            if open_tree is None:
                self.after_blank |= line.follows_blank
            for match in BRACKET_TOKEN.finditer(line.text):
                if open_tree is None:
                    if _is_blank(match[0]):
                        continue
                    if done is not None and match[0] != ")":
                        yield done
                        done = None
                    if match[0][0] != "(":
                        self._reject_between_trees(line, match.start(), condemned=done)
                        done = None
                        break
                    open_tree = self._begin(line, match.start())
                open_tree.builder.feed(match)
                if open_tree.builder.depth == 0:
                    done = self._finish(open_tree, match.end())
                    open_tree = None
            if open_tree is not None:
                open_tree.note_fault()
                if open_tree.n_chars > MAX_TREE_CHARS:
                    self._give_up(open_tree)
                    open_tree = None
        if done is not None:
            yield done
        if not self.found_anything:
            self.rejects.add("no trees in this file", file=self.file, line=1, text="")

    def _next_line(self) -> Line | None:
        return self.put_back.popleft() if self.put_back else next(self.fresh_lines, None)

    def _begins_tree(self, line: Line) -> bool:
        stripped = line.text.lstrip()
        column = len(line.text) - len(stripped)
        return (
            not line.goes_on
            and stripped.startswith("(")
            and self.tree_column in (None, column)
            and (line.follows_blank or not self.needs_blank)
        )

    def _begin(self, line: Line, column: int) -> _OpenTree:
        self.found_anything = True
        if self.tree_column is None and not line.goes_on and not line.text[:column].strip():
            self.tree_column = column
        return _OpenTree(line, column)

    def _finish(self, tree: _OpenTree, end_column: int) -> SourcedTree | None:
        tree.note_fault()
        text, first_line = tree.text(end_column), tree.lines[0].number
        fault = TOO_LONG if len(text) > MAX_TREE_CHARS else tree.builder.fault
        if fault is not None:
            self._reject(fault, text, first_line, tree.fault_line)
            return None
        self.needs_blank = self.needs_blank or tree.holds_tree_like_lines
        finished = tree.builder.finish()
        if (refused := refused_form(finished)) is not None:
            reason, note = refused
            self.rejects.add(reason, file=self.file, line=first_line, text=text, note=note)
            return None
        after_blank, self.after_blank = self.after_blank, False
        return SourcedTree(finished, self.file, first_line, text, after_blank)

    def _reject_unbalanced(self, tree: _OpenTree, noticed: int) -> None:
        text = tree.text(len(tree.lines[-1].text))
        self._reject("unbalanced brackets: not closed", text, tree.lines[0].number, noticed)

    def _reject_unended(self, tree: _OpenTree) -> None:
        """Reject a tree that the file's end cuts; give its lines back from the next apparent tree on."""
        noticed = self._give_back(tree)
        self._reject_unbalanced(tree, noticed)

    def _give_up(self, tree: _OpenTree) -> None:
        """Reject a tree that is too long; go on at the next apparent tree, in its lines or after them."""
        noticed = self._give_back(tree)
        text = tree.text(len(tree.lines[-1].text))
        self._reject(TOO_LONG, text, tree.lines[0].number, noticed)
        if not self.put_back:
            self._skip()

    def _give_back(self, tree: _OpenTree) -> int:
        """Keep an unended tree's lines up to the next apparent tree; return the line where that shows."""
        self.seen_unbalanced = True
        own = 1
        while own < len(tree.lines) and not self._begins_tree(tree.lines[own]):
            own += 1
        noticed = tree.lines[own].number if own < len(tree.lines) else tree.lines[-1].number
        self.put_back.extendleft(reversed(tree.lines[own:]))
        tree.lines = tree.lines[:own]
        return noticed

    def _reject_between_trees(self, line: Line, column: int, *, condemned: SourcedTree | None) -> None:
        """Skip from an error outside any tree to the next apparent tree.

        A closing bracket too many condemns the tree before it as well.
        """
        self.found_anything = True
        before = "" if condemned is None else condemned.text
        self.after_blank |= condemned is not None and condemned.follows_blank
        skipped = self._skip()
        text = _joined([before + line.text[column:], *(other.text for other in skipped)], [line, *skipped])
        reason = "text between trees" if line.text[column] != ")" else "unbalanced brackets: closed too often"
        if _NUMBER.match(line.text, column):
            reason = "a number before the tree: cut -f 2- takes it off"
        first_line = line.number if condemned is None else condemned.line
        self._reject(reason, text.rstrip(), first_line, line.number)

    def _skip(self) -> list[Line]:
        """Go to the next apparent tree. Returns the lines passed over, to be recorded."""
        passed: list[Line] = []
        n_chars = 0
        while (line := self._next_line()) is not None:
            if self._begins_tree(line):
                self.put_back.appendleft(line)
                break
            self.after_blank |= line.follows_blank
            if n_chars < _MOST_TEXT:
                passed.append(line)
            n_chars += len(line.text)
        return passed

    def _reject(self, reason: str, text: str, line: int, noticed: int | None) -> None:
        note = None if noticed in (None, line) else f"noticed in line {noticed}"
        self.rejects.add(reason, file=self.file, line=line, text=text, note=note)


def _is_blank(token: str) -> bool:
    return not token.strip().strip(_BYTE_ORDER_MARK)


def _joined(texts: Sequence[str], lines: Sequence[Line]) -> str:
    """The joined texts, one per line."""
    return texts[0] + "".join(
        text if line.goes_on else "\n" + text for text, line in zip(texts[1:], lines[1:], strict=True)
    )


# --- lines ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, without its end, or a part of a long one.

    Attributes:
        number: the line in its file, from 1.
        text: the line's text; bytes that are not UTF-8 are replacement characters.
        fault: the reason why it cannot be decoded.
        follows_blank: whether the line before it is blank.
        goes_on: whether this is a further part of a long line.
    """

    number: int
    text: str
    fault: str | None
    follows_blank: bool
    goes_on: bool


def read_tree_lines(file: str, part_bytes: int = PART_BYTES) -> Iterator[Line]:
    """The lines of a file; long ones in parts of ``part_bytes``, cut beside brackets or white space.

    A stretch without either is not cut before it is longer than a tree may be.

    Raises:
        InputError: if the file cannot be read or its compression is damaged.
    """
    follows_blank = is_blank = goes_on = False
    rest = b""  # the rest of a line that is longer than a part
    for number, part in read_line_parts(file, part_bytes):
        data, rest = rest + part, b""
        ends = part.endswith(b"\n") or len(part) < part_bytes
        if not ends:
            cut = _last_cut(data)
            if not cut and len(data) <= _LONGEST_TREE_BYTES:
                rest = data
                continue
            data, rest = data[: cut or None], data[cut or len(data) :]
        line = _line(data, file, number, follows_blank=follows_blank, goes_on=goes_on, ends=ends)
        yield line
        is_blank = (is_blank or not goes_on) and not line.text.strip()
        goes_on = not ends
        if ends:
            follows_blank = is_blank
    if rest:
        yield _line(rest, file, number, follows_blank=follows_blank, goes_on=goes_on, ends=True)


def _last_cut(data: bytes) -> int:
    """The last position to cut text without cutting a tag, label or word; 0 if there is none."""
    return max(max(data.rfind(mark) + 1 for mark in _ENDS), data.rfind(b"("))


def _line(data: bytes, file: str, number: int, *, follows_blank: bool, goes_on: bool, ends: bool) -> Line:
    fault = None
    try:
        text = decode_utf8(data, file, 0 if goes_on else number)  # a byte order mark is at the beginning
    except InputError as error:
        fault = error.fault
        text = data.decode("utf-8", errors="replace")
    if ends:
        text = text.removesuffix("\n").removesuffix("\r")
    return Line(number, text, fault, follows_blank, goes_on)


# --- several trees for each sentence ------------------------------------------------------------


def read_proposals(file: str) -> Iterator[Tree]:
    """The trees of a file, one a line, as written there; several for each sentence: a parser's k best.

    A sentence's trees form a block of lines, with blank lines between blocks; or each tree has the id of
    its sentence, and a tab, before it, in any order.

    Raises:
        InputError: naming the line, if it is no tree, has an id where others have none, or has other words
            (traces aside) than a tree of the same sentence; if there are no trees; if the file cannot be
            read.
    """
    have_ids: bool | None = None
    first: dict[str, tuple[list[str], int]] = {}  # words and line of each sentence (in blocks: of this one)
    for number, line in read_lines(file):
        if not line.strip():
            if not have_ids:
                first.clear()
            continue
        name, tab, text = line.partition("\t")
        has_id = bool(tab) and not line.lstrip().startswith("(")
        if have_ids is None:
            have_ids = has_id
        try:
            tree = Tree.from_brackets(text if has_id else line)
        except InputError as error:
            raise InputError(error.reason, file=file, line=number) from error
        if has_id != have_ids:
            reason = "a tree with an id" if has_id else "a tree without an id"
            raise InputError(f"{reason}, unlike those before it", file=file, line=number, hint=_SEPARATE)
        words = [
            unescape(word) for word, tag in zip(tree.words, tree.tags, strict=True) if tag not in TRACE_TAGS
        ]
        before, line_before = first.setdefault(name if has_id else "", (words, number))
        if words != before:
            what = f"the id {name}" if has_id else "this block"
            reason = f"other words than another tree of {what} has, in line {line_before}"
            raise InputError(reason, file=file, line=number, hint=_SEPARATE)
        yield tree
    if have_ids is None:
        raise InputError("no trees in this file", file=file)
