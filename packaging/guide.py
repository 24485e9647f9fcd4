"""Pages as sessions: commands of README and docs/guide are run, and what they print stands under them.

Usage: guide.py [PAGE…]. Runs every command of the pages (by default all), one page after the other, each in
an empty folder, and writes what it prints into the page (``make guide``). A test compares instead.

A page's parts, in its order:

- A fence with a title (```` ```csv title="stimuli.csv" ````) is a file of that name.
- Lines indented by four spaces are commands, run as they stand: those of pdtools in this process, others and
  pipes by sh. In a comment ``<!-- before: … -->`` they are run too, and nobody sees them.
- A fence of ``python`` is run; all those of a page share their names.
- The fence that follows has what was printed. Lines of standard error are among it, but those that an earlier
  command of the page printed too. Tables with tabs are aligned, as on a terminal. A line ``…`` stands for any
  lines. A command that prints nothing has no fence.
- Any other fence is only shown: ``sh`` for what takes hours, a cluster, or somebody else's data.

``<!-- needs: PACKAGE… -->`` names packages without which the page is skipped.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

README = Path(__file__).resolve().parents[1] / "README.md"
GUIDE = README.parent / "docs" / "guide"
_PART = re.compile(
    r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$"
    r"|^<!-- before:\n(?P<hidden>.*?)^-->$"
    r"|^(?P<commands> {4}\S[^\n]*\n(?: {4,}\S[^\n]*\n)*)",
    re.MULTILINE | re.DOTALL,
)
_OUTPUT = ("text", "json", "csv", "latex")  # languages of fences for output
_NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
# Times, speeds and memory differ by machine.
_MEASURED = re.compile(r"[\d.,:]+ ?(?:s|ms|min|h|seconds?|minutes?|[KMG]i?B|words/s|tokens/s|sentences/s)\b")
_TOLERANCE = 0.01  # relative and absolute: models are trained on the way


@dataclass
class Block:
    """Code that is run at one place of a page, and the fence with its output."""

    code: str
    is_python: bool
    at: int  # offset of a new fence
    is_hidden: bool = False
    shown: str | None = None
    span: tuple[int, int] = (0, 0)  # the text of the fence


def blocks(page: str) -> Iterator[Block | tuple[str, str]]:
    """The blocks of a page, in its order; files as their names and texts."""
    last: Block | None = None
    end = 0
    for part in _PART.finditer(page):
        follows = last is not None and not page[end : part.start()].strip()
        end = part.end()
        code = part["hidden"] or part["commands"]
        if last is not None:
            if follows and code is None and not part["title"] and part["language"] in _OUTPUT:
                last.shown, last.span = part["text"], part.span("text")
                yield last
                last = None
                continue
            yield last
            last = None
        if code is not None or (part["language"] == "python" and not part["title"]):
            last = Block(code or part["text"], code is None, part.end(), bool(part["hidden"]))
            if last.is_hidden:
                yield last
                last = None
        elif part["title"]:
            yield part["title"], part["text"]
    if last is not None:
        yield last


def printed(block: Block, names: dict[str, object], said: set[str]) -> str:
    """The output of a block that is run in the folder that is the current one.

    Args:
        names: names of the page's Python so far; they grow.
        said: lines of standard error so far; they grow.

    Raises:
        RuntimeError: if a command ends in an error that the page does not show.
    """
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(_Once(stream, said)):
        if block.is_python:
            exec(compile(block.code, "<page>", "exec"), names)
            commands = []
        else:
            commands = re.sub(r" *\\\n *", " ", block.code).splitlines()
        for command in map(str.strip, commands):
            if (status := _run(command)) and not (block.shown or "").startswith(("pdtools: ", "Usage: ")):
                raise RuntimeError(f"{command}\nended with exit status {status}:\n{data.getvalue().decode()}")
    lines = data.getvalue().decode().replace(f"{Path.cwd()}/", "").splitlines()
    return "".join(f"{line.rstrip()}\n" for line in _aligned(lines))


def _run(command: str) -> int:
    from pdtools.cli.main import run

    words = shlex.split(command, comments=True)
    if words[0] == "pdtools" and not re.search(r" [|<>&]|\*", command):
        with mock.patch.object(sys, "argv", words):  # which jobs and provenance keep
            return run(words[1:])
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


class _Once(io.TextIOBase):
    """A stream that passes on each line the first time only."""

    def __init__(self, stream: io.TextIOWrapper, said: set[str]) -> None:
        self._stream, self._said, self._line = stream, said, ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if line not in self._said:
                self._stream.write(f"{line}\n")
            self._said.add(line)
        return len(text)


def _aligned(lines: Sequence[str]) -> Iterator[str]:
    """Lines in which the columns of successive lines with tabs are as wide as their widest cell."""
    for has_tabs, group in itertools.groupby(lines, lambda line: "\t" in line):
        if not has_tabs:
            yield from group
            continue
        rows = [line.split("\t") for line in group]
        widths = [max(map(len, column)) for column in itertools.zip_longest(*rows, fillvalue="")]
        yield from ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=False)) for row in rows)


def run_page(page: str) -> Iterator[tuple[Block, str]]:
    """The blocks of a page that somebody sees, with what each prints, run in the current folder."""
    names: dict[str, object] = {"__name__": "page"}
    said: set[str] = set()
    for each in blocks(page):
        if isinstance(each, tuple):
            path = Path(each[0])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(each[1], encoding="utf-8")
            continue
        text = printed(each, names, said)
        if not each.is_hidden:
            yield each, text


def shortened(text: str, shown: str | None) -> str:
    """The output, cut where the page cuts it."""
    lines, pattern = text.splitlines(), (shown or "").splitlines()
    if "…" in pattern:
        head, tail = pattern.index("…"), len(pattern) - pattern.index("…") - 1
        lines = [*lines[:head], "…", *lines[len(lines) - tail :]] if len(lines) > head + tail else lines
    return "".join(f"{line}\n" for line in lines)


def difference(shown: str, text: str) -> str | None:
    """The first line that is another one than the page's; numbers may differ by a hundredth."""
    want, got = shown.splitlines(), shortened(text, shown).splitlines()
    for a, b in zip(want, got, strict=False):
        if not _same(a, b):
            return f"the page has {a!r}, the command {b!r}"
    return None if len(want) == len(got) else f"the page has {len(want)} lines, the command {len(got)}"


def _same(a: str, b: str) -> bool:
    a, b = (_MEASURED.sub("#", each) for each in (a, b))
    plain = [" ".join(re.sub("[─━═-]{2,}", "--", _NUMBER.sub("0", each)).split()) for each in (a, b)]
    numbers = [
        [float(n.replace(",", "").replace("−", "-")) for n in _NUMBER.findall(each)] for each in (a, b)
    ]
    return plain[0] == plain[1] and all(
        abs(x - y) <= _TOLERANCE * max(1.0, abs(x)) for x, y in zip(*numbers, strict=True)
    )


def rewritten(page: str) -> str:
    """The page with what its commands print now."""
    for block, text in reversed(list(run_page(page))):
        if block.shown is not None and difference(block.shown, text) is None:
            continue
        made = shortened(text, block.shown)
        start, end = block.span
        if block.shown is not None and made:
            page = page[:start] + made + page[end:]
        elif block.shown is not None:
            fence = page.rfind("```", 0, start)
            page = page[:fence].rstrip("\n") + "\n" + page[end + len("```\n") :]
        elif made:
            at = block.at + (page[block.at - 1] != "\n")
            page = f"{page[:at]}\n```text\n{made}```\n{page[at:]}"
    return page


def needs(page: str) -> list[str]:
    """The packages that a page needs."""
    found = re.search(r"<!-- needs: ([^>]*?) -->", page)
    return found[1].split() if found else []


def main(arguments: Sequence[str]) -> int:
    os.environ |= {"COLUMNS": "100", "TERM": "dumb"}
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for path in [Path(each).resolve() for each in arguments] or [README, *sorted(GUIDE.glob("*.md"))]:
        page = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            made = rewritten(page)
        if made != page:
            path.write_text(made, encoding="utf-8")
            print(f"{path.name}: written anew", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
