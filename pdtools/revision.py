"""Which code is running: the version, the commit of a checkout, and whether files were changed since."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from pdtools import __version__

DISTRIBUTION = "pushdown-tools"
"""What is installed; the name of the package, and of the command, is that of another distribution."""

_PACKAGE = Path(__file__).resolve().parent
# What results are made by, in a checkout.
_CODE = ("pdtools", "cli", "configs", "data", "studies")
_GIT_SECONDS = 10


@lru_cache(maxsize=1)
def code() -> dict[str, Any]:
    """Describe the code of this process; looked up once.

    Returns:
        ``version``; ``commit``: that of the checkout that the package is in, or that pip installed it from,
        else None; ``modified``: whether files differ from that commit, or from those that were installed;
        None if nobody can tell (a checkout without git on the path, a copy that nobody installed).
    """
    if (_PACKAGE.parent / ".git").exists():
        commit = _head(_PACKAGE.parent)
        # After a commit in the meantime, who knows which of the two this process has read.
        modified = True if commit != _FIRST_COMMIT else _differs_from_head(_PACKAGE.parent)
        return {"version": __version__, "commit": _FIRST_COMMIT, "modified": modified}
    return {"version": __version__, **_installed()}


def _head(root: Path) -> str | None:
    """The commit of a checkout, read from git's own files, as git need not be there and takes longer."""
    try:
        git = root / ".git"
        if git.is_file():  # of a worktree
            git = root / git.read_text().removeprefix("gitdir:").strip()
        common = git / "commondir"
        shared = git / common.read_text().strip() if common.exists() else git
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head
        name = head.removeprefix("ref:").strip()
        for folder in (git, shared):
            if (folder / name).is_file():
                return (folder / name).read_text().strip()
        for line in (shared / "packed-refs").read_text().splitlines():
            if line.endswith(f" {name}"):
                return line.split()[0]
    except (OSError, UnicodeDecodeError):
        pass
    return None


def _differs_from_head(root: Path) -> bool | None:
    import subprocess  # not before: it takes longer than all else here

    command = ["git", "--no-optional-locks", "status", "--porcelain", "--", *_CODE]
    # Of another repository, if a hook of git runs this.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        found = subprocess.run(
            command, cwd=root, env=variables, capture_output=True, timeout=_GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return bool(found.stdout.strip())


def _installed() -> dict[str, Any]:
    unknown = {"commit": None, "modified": None}
    try:
        found = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return unknown
    if Path(str(found.locate_file("pdtools"))).resolve() != _PACKAGE:
        return unknown
    try:
        commit = json.loads(found.read_text("direct_url.json") or "{}")["vcs_info"]["commit_id"]
    except (ValueError, KeyError, TypeError):  # not installed from a repository
        commit = None
    record = found.read_text("RECORD") or ""
    files = [line.rsplit(",", 2) for line in record.splitlines() if line.startswith("pdtools/")]
    modified = any(_sha256(_PACKAGE.parent / name) != digest for name, digest, _ in files if digest)
    return {"commit": commit, "modified": modified if files else None}


def other_distribution() -> str | None:
    """The other distribution that is installed into the folder of this package, if there is one.

    Its files and ours replace each other, and are removed with each other.
    """
    found = next(_PACKAGE.parent.glob("pdtools-*.dist-info"), None)
    return None if found is None else found.stem.replace("-", " ")


def _sha256(file: Path) -> str:
    """As RECORD writes it; "" for a file that cannot be read."""
    try:
        digest = hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return ""
    return f"sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


_FIRST_COMMIT = _head(_PACKAGE.parent)  # that of the code that is loaded, whatever is committed later
