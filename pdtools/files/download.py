"""Downloads of files, resumed where they stopped and checked by size and SHA-256.

The standard library's ``urllib`` fetches them: it obeys proxies and follows redirects. No library that does
more is sure to be installed (``tokenizers`` brings requests or httpx, depending on its version).
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from pdtools import __version__
from pdtools.errors import InputError
from pdtools.files.inputs import sha256_file

_SECONDS = 60  # without a byte, until a connection counts as broken
_BLOCK = 1 << 16
_GO_ON = "what has come is kept: the same command goes on from there"


class _BrokenError(Exception):
    """A connection was not made, or ended too early."""


def download(
    url: str, folder: Path, *, size: int, sha256: str, progress: Callable[[int], object] = lambda n: None
) -> Path:
    """Download a file into a folder, named by its SHA-256; until it is whole, ``SHA256.part``.

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
    whole, part = folder / sha256, folder / f"{sha256}.part"
    if whole.is_file():
        progress(size)
        return whole
    part.touch()
    most = part.stat().st_size
    progress(most)
    while part.stat().st_size < size:
        try:
            _fetch(url, part, size, progress)
            reason = "the connection ended"
        except _BrokenError as error:
            reason = str(error)
        has = part.stat().st_size
        if has < size and has <= most:
            hint = _GO_ON if has else "is there a network?"
            raise InputError(f"only {has} of {size} bytes came: {reason}", file=url, hint=hint)
        most = has
    found = sha256_file(part)
    if found != sha256:
        part.unlink()
        raise InputError(
            f"its SHA-256 is {found[:16]}…, and should be {sha256[:16]}…",
            file=url,
            hint="nothing of it is kept; if it is so again, the file there has changed",
        )
    part.replace(whole)
    return whole


def _fetch(url: str, part: Path, size: int, progress: Callable[[int], object]) -> None:
    """Append the missing part of a file from a server to the part that is here."""
    has = part.stat().st_size
    headers = {"User-Agent": f"pdtools/{__version__}"} | ({"Range": f"bytes={has}-"} if has else {})
    with _opened(urllib.request.Request(url, headers=headers)) as answer:
        goes_on = answer.status == HTTPStatus.PARTIAL_CONTENT
        if goes_on and not answer.headers.get("Content-Range", "").startswith(f"bytes {has}-"):
            raise _BrokenError("the server sends another part of it")
        if has and not goes_on:
            progress(-has)  # a server that sends all of it again
            has = 0
        with part.open("ab" if has else "wb") as stream:
            while block := _read(answer):
                has += len(block)
                if has > size:
                    stream.truncate(0)
                    raise InputError(f"longer than the {size} bytes that it should have", file=url)
                stream.write(block)
                progress(len(block))


def _opened(request: urllib.request.Request) -> http.client.HTTPResponse:
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_SECONDS)
        return answer
    except urllib.error.HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise _BrokenError("the file there is shorter") from error
        hint = "has it moved? pdtools data list --json names its home" if error.code == 404 else _GO_ON
        raise InputError(f"HTTP {error.code} {error.reason}", file=request.full_url, hint=hint) from error
    except urllib.error.URLError as error:
        raise _BrokenError(getattr(error.reason, "strerror", None) or error.reason) from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenError(error) from error


def _read(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read1(_BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenError(error) from error
