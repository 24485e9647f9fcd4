"""Which code made a result: in a checkout, in a worktree, installed, copied."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import pdtools.cli
from pdtools.provenance import provenance
from pdtools.provenance.origin import code_digest

VERSION = pdtools.__version__
ASK = "import json; from pdtools.provenance import provenance; print(json.dumps(provenance()['code']))"


def copy(folder: Path) -> Path:
    """The package's own files in a folder, without what stands beside them in a checkout."""
    package = Path(pdtools.__file__).parent

    def ignored(place: str, names: list[str]) -> set[str]:
        return {"__pycache__", *({"cli", "configs", "data"} if place == str(package) else ())} & set(names)

    shutil.copytree(package, folder / "pdtools", ignore=ignored)
    (folder / ".gitignore").write_text("__pycache__/\n")
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def code(folder: Path, environment: Mapping[str, str] | None = None, ask: str = ASK) -> dict[str, Any]:
    """What the package in a folder says of itself, in a process of its own."""
    variables = {
        **os.environ,
        **(environment or {}),
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    found = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=folder.parent,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = copy(tmp_path / "checkout")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def test_a_checkout(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    clean = {"version": VERSION, "commit": commit, "modified": False}
    assert code(checkout) == clean
    (checkout / "notes.txt").write_text("no code")
    assert code(checkout, {"GIT_DIR": "/nowhere"}) == clean
    new = checkout / "pdtools" / "new.py"
    new.write_text("")
    assert code(checkout) == {**clean, "modified": True}
    new.unlink()
    changed = checkout / "pdtools" / "errors.py"
    changed.write_text(changed.read_text() + "\n# changed\n")
    assert code(checkout) == {**clean, "modified": True}
    git(checkout, "commit", "-q", "-a", "-m", "two")
    second = git(checkout, "rev-parse", "HEAD")
    assert code(checkout) == {**clean, "commit": second}
    git(checkout, "pack-refs", "--all")
    assert code(checkout) == {**clean, "commit": second}
    git(checkout, "checkout", "-q", "--detach", commit)
    assert code(checkout) == clean


def test_a_worktree(checkout: Path) -> None:
    other = checkout.parent / "other"
    git(checkout, "worktree", "add", "-q", "-b", "branch", str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "two")
    second = {"version": VERSION, "commit": git(other, "rev-parse", "HEAD"), "modified": False}
    assert code(other) == second
    git(other, "pack-refs", "--all")  # into the folder of the main checkout
    assert code(other) == second
    assert code(checkout)["commit"] == git(checkout, "rev-parse", "HEAD") != git(other, "rev-parse", "HEAD")


def test_without_git_nobody_knows_whether_it_was_modified(checkout: Path) -> None:
    found = code(checkout, {"PATH": "/nowhere"})
    assert found == {"version": VERSION, "commit": git(checkout, "rev-parse", "HEAD"), "modified": None}


def test_a_commit_while_it_runs(checkout: Path) -> None:
    first = git(checkout, "rev-parse", "HEAD")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "two")
    second = git(checkout, "rev-parse", "HEAD")
    reset = f"subprocess.run(['git', 'reset', '-q', '{first}'], cwd='{checkout}')"
    reset = f"import subprocess, pdtools.provenance.origin; {reset}"
    assert code(checkout, ask=f"{reset}; {ASK}") == {"version": VERSION, "commit": second, "modified": True}


def test_a_copy_that_nobody_installed(tmp_path: Path) -> None:
    assert code(copy(tmp_path / "copy")) == {"version": VERSION, "commit": None, "modified": None}


@pytest.mark.parametrize("commit", [None, "0123abc"])
def test_an_installed_package(tmp_path: Path, commit: str | None) -> None:
    folder = copy(tmp_path / "site")
    record = ""
    for file in sorted((folder / "pdtools").rglob("*.py")):
        digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).decode().rstrip("=")
        record += f"{file.relative_to(folder).as_posix()},sha256={digest},{file.stat().st_size}\n"
    metadata = folder / f"pushdown_tools-{VERSION}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pushdown-tools\nVersion: {VERSION}\n")
    (metadata / "RECORD").write_text(f"{record}pushdown_tools-{VERSION}.dist-info/RECORD,,\n")
    if commit is not None:
        source = {"url": "https://example.org/x", "vcs_info": {"vcs": "git", "commit_id": commit}}
        (metadata / "direct_url.json").write_text(json.dumps(source))
    assert code(folder) == {"version": VERSION, "commit": commit, "modified": False}
    (folder / "pdtools" / "errors.py").unlink()
    (folder / "pdtools" / "errors.py").write_text(
        (Path(pdtools.__file__).parent / "errors.py").read_text() + "#\n"
    )
    assert code(folder) == {"version": VERSION, "commit": commit, "modified": True}


@pytest.mark.parametrize(
    ("file", "is_code"),
    [
        *(("pdtools/errors.py", True), ("pdtools/models/kernels/numbers.h", True), ("cli/new.py", True)),
        *(("pdtools/models/kernels/gelu.c", True), ("pdtools/note.md", False), ("docs/note.py", False)),
        ("pdtools/data/models/made.py", False),
    ],
)
def test_the_digest_of_code(file: str, is_code: bool, tmp_path: Path) -> None:
    """It is the same in any place, whether the commands and data stand beside the package or in it."""
    ask = "import json; from pdtools.provenance.origin import code_digest; print(json.dumps(code_digest()))"
    checkout, installed = copy(tmp_path / "checkout"), copy(tmp_path / "installed")
    commands, ignored = Path(pdtools.cli.__file__).parent, shutil.ignore_patterns("__pycache__")
    shutil.copytree(commands, checkout / "cli", ignore=ignored)
    shutil.copytree(commands, installed / "pdtools" / "cli", ignore=ignored)
    for data in (checkout / "data", installed / "pdtools" / "data"):
        (data / "models").mkdir(parents=True)
        (data / "models" / "made.py").write_text("x = 1\n")
    before = code(checkout, ask=ask)
    assert before == code(installed, ask=ask) == code_digest()
    changed = installed / "pdtools" / file if file.startswith("cli/") else installed / file
    changed.parent.mkdir(exist_ok=True)
    with changed.open("a") as stream:
        stream.write("\n")
    assert (code(installed, ask=ask) != before) == is_code


def test_it_is_looked_up_once() -> None:
    provenance()
    start = time.process_time()
    for _ in range(100):
        pdtools.provenance.origin.code()
    assert time.process_time() - start < 0.1
