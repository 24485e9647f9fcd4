"""Provenance of results: command line, code and its version, package versions, input hashes, hardware."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pdtools import __version__
from pdtools.errors import InputError, PdtoolsError
from pdtools.files import identifying_files, input_folder, read_json, sha256_file, source_of
from pdtools.files.manifest import is_checkpoint_of_a_run
from pdtools.provenance.hub import name_of_snapshot

# Training settings that do not affect weights.
_CHANGE_NOTHING = ("log_every", "sample_parses", "keep_at")
_PACKAGES = ("numpy", "pyarrow", "torch", "tokenizers", "transformers", "nltk", "benepar", "stanza")


def provenance(inputs: Mapping[str, str | Path] | None = None) -> dict[str, Any]:
    """Describe this run.

    Args:
        inputs: the inputs, by role (``model``, ``data``): files or folders.

    Returns:
        A JSON-ready dictionary: command, time (UTC), :func:`pdtools.provenance.origin.code`, versions,
        hardware, and for every input its path and SHA-256 (of a folder: of the files that identify it, or of
        the list of all its files with their SHA-256, as sha256sum prints it); for a checkpoint the ``step``
        and the number of ``words`` read in training, if it has them; for one in its run's folder, or
        exported, also ``training``: the ``seed``, and ``sha256``, which is the same for all runs whose recipe
        and data differ only in the seed (and in settings that do not affect weights).
    """
    return {
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "code": dict(code()),
        "versions": _versions(),
        "hardware": _hardware(),
        "inputs": {role: {**identify(path), **_trained(path)} for role, path in (inputs or {}).items()},
    }


def _trained(path: str | Path) -> dict[str, Any]:
    """The progress of a checkpoint's training; and this itself, if its run or its export tells it."""
    checkpoint = input_folder(path)
    config = checkpoint / "config.json"
    run = checkpoint / "training.json"
    if is_checkpoint_of_a_run(checkpoint):
        run = checkpoint.parent / "run.json"
    found: dict[str, Any] = {}
    with contextlib.suppress(InputError):
        progress = read_json(config) if config.is_file() else {}
        if isinstance(progress, dict):
            found = {name: progress.get(name) for name in ("step", "words")}
            found = {name: value for name, value in found.items() if type(value) is int}
    # No run's folder, or none of ours.
    with contextlib.suppress(InputError, AttributeError, KeyError, TypeError):
        if run.is_file():
            found["training"] = training_of(read_json(run))
    return found


def training_of(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The training that a ``run.json`` records, as in :func:`provenance`: ``seed`` and ``sha256``.

    Raises:
        AttributeError, KeyError, TypeError: if it records none.
    """
    recipe = recorded["recipe"]
    train = {name: value for name, value in recipe["train"].items() if name not in _CHANGE_NOTHING}
    seed = train.pop("seed")
    content = json.dumps([{**recipe, "train": train}, recorded["data"]], sort_keys=True)
    return {"seed": seed, "sha256": hashlib.sha256(content.encode()).hexdigest()}


def fingerprint(path: str | Path, *more: str | Path) -> str:
    """A digest of a model's content (:func:`identify`), the same in any place.

    Args:
        path: its path.
        more: paths of other parts of it.
    """
    contents = [
        {key: value for key, value in identify(each).items() if key != "path"} for each in (path, *more)
    ]
    return hashlib.sha256(json.dumps(contents if more else contents[0], sort_keys=True).encode()).hexdigest()


def check_fingerprint(path: str | Path, wanted: str, *more: str | Path) -> None:
    """Refuse a model that is not the one with which a command was started.

    Args:
        path: its path on this machine.
        wanted: its :func:`fingerprint` when the command was started.
        more: paths of other parts of it.

    Raises:
        PdtoolsError: if it is another one.
    """
    if fingerprint(path, *more) != wanted:
        raise PdtoolsError(
            f"{path} is not the model that the command was started with (on {platform.node()}):"
            " was it trained further, or is it a different model on that machine?"
        )


def _versions() -> dict[str, str]:
    versions = {"pdtools": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            metadata = importlib.metadata.distribution(package).read_text("METADATA") or ""
        except importlib.metadata.PackageNotFoundError:
            continue
        # A parser of e-mails reads the whole of it, which takes longer than some of our commands.
        found = re.search(r"^Version: *(\S+)", metadata, re.MULTILINE)
        versions[package] = found[1] if found else importlib.metadata.version(package)
    return versions


def _hardware() -> dict[str, Any]:
    found: dict[str, Any] = {
        "machine": platform.machine(),
        "system": platform.system(),
        "cpus": os.cpu_count(),
    }
    torch = sys.modules.get("torch")  # only if the command needed it: importing torch takes seconds
    if torch is not None:
        found["threads"] = torch.get_num_threads()
        if torch.cuda.is_available():
            found["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return found


def identify(path: str | Path) -> dict[str, Any]:
    """The path of a file or folder, and its SHA-256, as in :func:`provenance`.

    For a model from the Hugging Face hub also ``hub``, its name there and its commit.
    """
    source, path = source_of(path), Path(path)
    if (folder := input_folder(path)) != path:
        return {**identify(folder), "path": str(path)}
    if path.is_dir() and (files := identifying_files(path)):
        hub = name_of_snapshot(path)
        return {
            "path": str(path),
            **({"hub": hub} if hub else {}),
            "sha256": {file.name: sha256_file(file) for file in files},
        }
    return source.identify()


# --- the running code's version: release, commit of the checkout, and changes to files since ---

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
