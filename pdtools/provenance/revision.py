"""The running code's version: release, commit of the checkout, and changes to files since."""

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
"""The installed distribution; another one has the name of the package and of the command."""

_PACKAGE = Path(__file__).resolve().parent.parent
# Folders of a checkout whose code makes results.
_CODE = ("pdtools", "cli", "configs", "data", "studies")
_SOURCES = (".py", ".c", ".h")
_GIT_SECONDS = 10


@lru_cache(maxsize=1)
def code() -> dict[str, Any]:
    """Describe the code of this process; looked up once.

    Returns:
        ``version``; ``commit``: the checkout's that contains the package, or that pip installed it from,
        else None; ``modified``: whether files differ from that commit, or from the installed ones;
        None if unknown (a checkout without git on the path, a copy that was not installed).
    """
    if (_PACKAGE.parent / ".git").exists():
        commit = _head(_PACKAGE.parent)
        # After a commit in the meantime, it is unknown which of the two this process has read.
        modified = True if commit != _FIRST_COMMIT else _differs_from_head(_PACKAGE.parent)
        return {"version": __version__, "commit": _FIRST_COMMIT, "modified": modified}
    return {"version": __version__, **_installed()}


@lru_cache(maxsize=1)
def code_digest() -> str:
    """A digest of the package's own code, the same for a checkout and an installation of it.

    Documentation, tests and bundled data are not part of it. It is computed once, in some 10 ms.
    """
    commands = _PACKAGE / "cli"  # in a checkout it stands beside the package, as the data do
    places = {"pdtools": _PACKAGE, "cli": commands if commands.is_dir() else _PACKAGE.parent / "cli"}
    beside = {commands, _PACKAGE / "data"}
    found = {
        f"{name}/{path.relative_to(place).as_posix()}": path
        for name, place in places.items()
        for path in place.rglob("*")
        if path.suffix in _SOURCES and (name == "cli" or beside.isdisjoint(path.parents))
    }
    listing = "".join(f"{_sha256(path)}  {name}\n" for name, path in sorted(found.items()))
    return hashlib.sha256(listing.encode()).hexdigest()[:12]


def _head(root: Path) -> str | None:
    """The commit of a checkout, read from git's own files, since git may be missing and takes longer."""
    try:
        git = root / ".git"
        if git.is_file():  # a worktree
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
    import subprocess  # not before: it takes longer than everything else here

    command = ["git", "--no-optional-locks", "status", "--porcelain", "--", *_CODE]
    # Variables of another repository, if a hook of git runs this.
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
    """The other distribution that is installed into this package's folder, if there is one.

    Its files and ours replace each other, and are removed with each other.
    """
    found = next(_PACKAGE.parent.glob("pdtools-*.dist-info"), None)
    return None if found is None else found.stem.replace("-", " ")


def _sha256(file: Path) -> str:
    """The SHA-256 as RECORD writes it; "" for a file that cannot be read."""
    try:
        digest = hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return ""
    return f"sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


_FIRST_COMMIT = _head(_PACKAGE.parent)  # the loaded code's, whatever is committed later
