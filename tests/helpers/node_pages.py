"""Pages of ``pdtools view`` in node: ``dom.js`` beside this file is as much of a browser as they use."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from pdtools.report.view.page import Page, render

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    NODE is None, reason="no node on this machine: the scripts of pages are not run"
)
MADE: dict[str, Any] = {"code": {"version": "0"}, "versions": {}, "inputs": {}, "time": "now"}


def save_page(page: Page, path: Path) -> Path:
    """Write a page whose charts are not drawn: that takes no vl-convert."""
    with patch("pdtools.report.view.page.javascript", return_value=""):
        path.write_text(render(page, MADE), "utf-8")
    return path


def evaluate(path: Path, program: str, state: str = "") -> Any:
    """Open a page with this state in its address, and return what a program finds in it (see ``dom.js``)."""
    assert NODE is not None
    command = [NODE, str(Path(__file__).with_name("dom.js")), str(path), state]
    done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def program(name: str) -> str:
    """One of the programs beside this file."""
    return Path(__file__).with_name(f"{name}.js").read_text("utf-8")


def number(text: str) -> float:
    """A number as pages show it."""
    return float(text.replace("\u2212", "-").removesuffix("%"))


def shows(text: str, value: float | None, digits: int) -> bool:
    """Return whether a text is this number rounded to this many digits; a dash is none."""
    if value is None or text == "\u2013":
        return value is None and text == "\u2013"
    decimals = text.removesuffix("%").partition(".")[2]
    return len(decimals) == digits and abs(number(text) - value) <= 0.5 * 10**-digits + 1e-9
