"""Data sets by name: the addresses of treebanks and benchmarks; a sample comes with pdtools.

A data set is a TOML file (``configs/datasets/NAME.toml``): its description and licence, and the address,
size and SHA-256 of each file. Addresses have a commit, so that files there do not change. For data that
come with pdtools it names folders of ``pdtools.data``.
"""

from __future__ import annotations

import http.client
import re
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from http import HTTPStatus
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from pdtools import __version__
from pdtools.errors import InputError, PdtoolsError
from pdtools.files import atomic_directory
from pdtools.files.inputs import read_limited
from pdtools.files.locks import OPEN_FILES_STAY, locked
from pdtools.files.manifest import read_manifest
from pdtools.files.packed import SUFFIX, zip_errors
from pdtools.files.source import ZipMember, sha256_file
from pdtools.files.typed_values import TomlFiles

KIND = "data set"
DATA_SETS = TomlFiles("datasets", KIND)
SOURCE_FILE = "SOURCE.txt"
_SHARES = {"": "", "all": "; NON-COMMERCIAL USE ONLY", "in part": "; IN PART NON-COMMERCIAL USE ONLY"}
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class File:
    """A file of a data set: its relative path, address, bytes and SHA-256; its place, if it is bundled."""

    path: str
    url: str
    size: int
    sha256: str
    place: str | None = None


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set.

    Attributes:
        name: its name.
        title, about: its description.
        home: the authors' page.
        licence: as the authors state it.
        non_commercial: the part that is for non-commercial use only: ``all``, ``in part``, or nothing.
        gives: the content of the folder.
        page: the guide's page on its use, among those that come with pdtools.
        unpack: for zip archives among the files, the members to be unpacked; the archives are deleted.
        files: the files to download.
    """

    name: str
    title: str
    about: str
    home: str
    licence: str
    non_commercial: str = ""
    gives: str
    page: str = ""
    unpack: tuple[str, ...] = ()
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(file.size for file in self.files if file.place is None)

    @property
    def terms(self) -> str:
        """The licence, in a line."""
        return self.licence + _SHARES[self.non_commercial]

    @property
    def source(self) -> str:
        """The text beside the data: name, licence, and the source of each file."""
        about = f"{self.title}: {self.about}\nLicence: {self.terms}\n{self.home}\n\n"
        return about + "".join(f"{file.sha256}  {file.url}\n" for file in self.files)


def read_dataset(source: str) -> Dataset:
    """A data set by its name, or from a TOML file.

    Raises:
        InputError: if there is none, or the file is damaged.
    """
    table = DATA_SETS.read(source)
    try:
        return _dataset(table, Path(source).stem)
    except ValueError as error:
        raise InputError(str(error), file=source) from error


def _dataset(table: Mapping[str, Any], name: str) -> Dataset:
    kinds = {"unpack": list, "from": list}
    known = {each.name for each in fields(Dataset)} - {"name", "files"} | {"from"}
    for key, value in table.items():
        if key not in known:
            raise ValueError(f"unknown key {key!r} (known: {', '.join(sorted(known))})")
        if type(value) is not kinds.get(key, str):
            raise ValueError(f"{key}: {value!r} is not a {kinds.get(key, str).__name__}")
    if missing := known - {"non_commercial", "page", "unpack"} - table.keys():
        raise ValueError(f"without {', '.join(sorted(missing))}")
    if table.get("non_commercial", "") not in _SHARES:
        raise ValueError(f"non_commercial: one of {', '.join(filter(None, _SHARES))}")
    files = tuple(file for part in table["from"] for file in _files(part))
    if len({file.path for file in files}) < len(files):
        raise ValueError("two files of one path")
    about = {key: value for key, value in table.items() if key not in ("from", "unpack")}
    return Dataset(name=name, files=files, unpack=tuple(map(str, table.get("unpack", ()))), **about)


def _files(part: Any) -> list[File]:
    """The files of one ``[[from]]`` table.

    It has a ``url`` that ends in a slash, and lines of bytes, SHA-256, path; or ``bundled``, folders of
    ``pdtools.data``.
    """
    if isinstance(part, dict) and {*part} == {"bundled"}:
        return _bundled_files(part["bundled"])
    if not isinstance(part, dict) or {*part} != {"url", "files"} or {*map(type, part.values())} != {str}:
        raise ValueError("[[from]] has url and files, two strings")
    if not re.fullmatch("https?://.+/", part["url"]):
        raise ValueError(f"from.url: {part['url']!r} is not an address of http or https that ends in /")
    files = []
    for line in part["files"].splitlines():
        size, sha256, path = [*line.split(None, 2), "", "", ""][:3]
        if not (size.isdecimal() and _SHA256.fullmatch(sha256) and path):
            raise ValueError(f"from.files: {line!r} is not bytes, SHA-256, path")
        files.append(File(safe_path(path), part["url"] + quote(path), int(size), sha256))
    return files


def _bundled_files(folders: Any) -> list[File]:
    if not isinstance(folders, list) or not all(isinstance(each, str) for each in folders):
        raise ValueError("from.bundled is a list of strings")
    root = Path(str(resources.files("pdtools.data")))
    files = []
    for place in (place for each in folders for place in sorted((root / safe_path(each)).rglob("*"))):
        if place.is_file():
            path = place.relative_to(root).as_posix()
            sha256 = sha256_file(place)
            files.append(File(path, f"pdtools.data/{path}", place.stat().st_size, sha256, str(place)))
    return files


def safe_path(name: str) -> str:
    """A relative path that stays in its folder, on any system.

    Raises:
        ValueError: if it is none.
    """
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or set("\\:\0") & {*name}:
        raise ValueError(f"{name!r} leads out of the folder")
    return str(path)


def is_here(dataset: Dataset, output: str | Path) -> bool:
    """Return whether a folder holds this data set, with all files as they were written."""
    folder = Path(output)
    found = read_manifest(folder)
    return (
        found is not None
        and found.kind == KIND
        and found.is_as_written(folder)
        and (folder / SOURCE_FILE).read_text("utf-8") == dataset.source
    )


def get_dataset(
    dataset: Dataset,
    output: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], object] = lambda n: None,
) -> None:
    """Download or copy a data set into a folder, which appears when all of it is checked and unpacked.

    Until then downloads are in ``OUTPUT.download``, and are not fetched again.

    Args:
        dataset: the data set.
        output: the folder.
        overwrite: whether a folder that pdtools wrote may exist.
        progress: see :func:`pdtools.provenance.datasets.download`.

    Raises:
        InputError: if a file cannot be fetched, does not match, or would be unpacked elsewhere.
        PdtoolsError: if the folder cannot be written, or another process is at work there.
    """
    downloads = Path(f"{Path(output)}.download")
    if downloads.is_symlink():
        raise PdtoolsError(f"{downloads}: a symbolic link, which is not followed (delete it)")
    try:
        downloads.mkdir(parents=True, exist_ok=True)
        with locked(downloads / "lock", f"{downloads}: another process is downloading into it"):
            is_done = False
            try:
                places = {
                    file: Path(file.place)
                    if file.place
                    else download(file.url, downloads, size=file.size, sha256=file.sha256, progress=progress)
                    for file in dataset.files
                }
                with atomic_directory(output, kind=KIND, overwrite=overwrite) as folder:
                    for file, place in places.items():
                        if dataset.unpack and file.path.endswith(SUFFIX):
                            _unpack(place, folder, dataset.unpack)
                        else:
                            _write(folder / file.path, place.read_bytes())
                    _write(folder / SOURCE_FILE, dataset.source.encode())
                is_done = True
            finally:  # while the lock is held: without it, this may be another process's download
                if is_done or not _holds_anything(downloads):
                    shutil.rmtree(downloads, ignore_errors=True)
        if OPEN_FILES_STAY:
            shutil.rmtree(downloads, ignore_errors=True)  # the lock, which was open
    except OSError as error:
        reason = error.strerror or error
        raise PdtoolsError(f"{downloads}: cannot be written: {reason} (what has come is kept)") from error


def _holds_anything(folder: Path) -> bool:
    return folder.is_dir() and any(each.stat().st_size for each in folder.iterdir())


def _unpack(archive: Path, folder: Path, patterns: Sequence[str]) -> None:
    """Write members of a zip archive into a folder.

    Raises:
        InputError: if a member leads out of the folder, is a link, or unpacks to too much.
    """
    try:
        with zip_errors(archive), zipfile.ZipFile(archive) as opened:
            names = opened.namelist()
        paths = {name: safe_path(name) for name in names}
    except ValueError as error:
        raise InputError(f"member {error}", file=archive) from error
    for member in ZipMember.within(str(archive), ("",)):
        path = PurePosixPath(paths[member.removeprefix(f"{archive}/")])
        with member.raw() as stream:
            data = read_limited(stream, member)
        if not member.endswith("/") and any(map(path.match, patterns)):
            _write(folder / path, data)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as stream:
        stream.write(data)


# --- downloads, resumed where they stopped -----------------------------------------------------
# The standard library's urllib obeys proxies and follows redirects. No library that does more is sure to be
# installed (tokenizers brings requests or httpx, depending on its version).

_SECONDS = 60  # without a byte, until a connection counts as broken
_BLOCK = 1 << 16
_GO_ON = "what has come is kept: the same command goes on from there"


class _BrokenError(Exception):
    """A connection was not made, or ended too early."""


def download(
    url: str, folder: Path, *, size: int, sha256: str, progress: Callable[[int], object] = lambda n: None
) -> Path:
    """Download a file into a folder, named by its SHA-256.

    A broken connection is opened again, as long as that brings more of the file.

    Args:
        url: its address (http or https).
        folder: the folder that may have it from an earlier call, whole or in part.
        size: its bytes.
        sha256: in hexadecimal.
        progress: called with numbers of bytes that are there; a negative one takes some back.

    Raises:
        InputError: if it cannot be fetched, or is not the file that it should be.
        OSError: if it cannot be written.
    """
    file = folder / sha256
    is_plain = file.is_file() and not file.is_symlink()
    if not is_plain or (file.stat().st_size >= size and sha256_file(file) != sha256):
        file.unlink(missing_ok=True)  # no earlier call left this
    file.touch()
    most = file.stat().st_size
    progress(most)
    while file.stat().st_size < size:
        try:
            _fetch(url, file, size, progress)
            reason = "the connection ended"
        except _BrokenError as error:
            reason = str(error)
        has = file.stat().st_size
        if has < size and has <= most:
            hint = _GO_ON if has else "is there a network?"
            raise InputError(f"only {has} of {size} bytes came: {reason}", file=url, hint=hint)
        most = has
    found = sha256_file(file)
    if found != sha256:
        file.unlink()
        raise InputError(
            f"its SHA-256 is {found[:16]}…, and should be {sha256[:16]}…",
            file=url,
            hint="nothing of it is kept; if it is so again, the file there has changed",
        )
    return file


def _fetch(url: str, file: Path, size: int, progress: Callable[[int], object]) -> None:
    """Append the missing part of a file from a server, or replace it where the server sends no such part."""
    has = file.stat().st_size
    with _opened(url, has) as answer:
        if not _begins_at(has, answer):
            progress(-has)
            has = 0
        is_short = answer.status == HTTPStatus.OK and answer.length is not None and answer.length < size
        with file.open("ab" if has else "wb") as stream:
            while block := _read(answer):
                has += len(block)
                if has > size:
                    break
                stream.write(block)
                progress(len(block))
            if has > size or (is_short and not answer.length):
                stream.truncate(0)
                reason = f"{'shorter' if is_short else 'longer'} than the {size} bytes that it should have"
                raise InputError(reason, file=url)


def _opened(url: str, has: int) -> http.client.HTTPResponse:
    """A server's answer: the file from byte ``has`` on, or all of it."""
    headers = {"User-Agent": f"pdtools/{__version__}"} | ({"Range": f"bytes={has}-"} if has else {})
    try:
        request = urllib.request.Request(url, headers=headers)
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if not (has and error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
            hint = "has it moved? pdtools data list --json names its home" if error.code == 404 else _GO_ON
            raise InputError(f"HTTP {error.code} {error.reason}", file=url, hint=hint) from error
    except urllib.error.URLError as error:
        raise _BrokenError(getattr(error.reason, "strerror", None) or error.reason) from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenError(error) from error
    except ValueError as error:  # raised for addresses, also those that a server redirects to
        raise InputError(f"not an address, or one that leads to none: {error}", file=url) from error
    else:
        if answer.status != HTTPStatus.PARTIAL_CONTENT or _begins_at(has, answer):
            return answer
        answer.close()
        if not has:
            raise _BrokenError("the server sends another part of it")
    return _opened(url, 0)


def _begins_at(byte: int, answer: http.client.HTTPResponse) -> bool:
    return str(answer.headers.get("Content-Range", "bytes 0-")).startswith(f"bytes {byte}-")


def _read(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read1(_BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenError(error) from error
