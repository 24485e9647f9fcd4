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
from pdtools.files.source import sha256_file

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
