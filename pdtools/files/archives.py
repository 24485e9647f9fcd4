"""Files inside of zip archives, read where they are: nothing is ever unpacked to a disk.

A member's name, such as ``../x`` or ``/x``, therefore leads nowhere; it only shows in messages. Members are
read as streams, since the size in a header need not be true.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from pdtools.errors import InputError
from pdtools.files import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES, decode_line
from pdtools.files.zips import members_of, open_data, zip_errors

MAX_ARCHIVE_BYTES = 1 << 31
"""Limit on the bytes read from one archive, unpacked."""


def zip_members(
    source: Path, suffix: str, limit: int = MAX_DOCUMENT_BYTES, order: Sequence[int] | None = None
) -> Iterator[tuple[str, bytes]]:
    """The members of a zip with this ending: (archive/member, bytes).

    Resource forks (``__MACOSX``) and hidden files are passed over.

    Args:
        limit: bytes of the longest, unpacked.
        order: numbers of members, from 0 in the order of their names, which is the order without this.

    Raises:
        InputError: if the archive is missing, damaged or encrypted, has a symbolic link among these members,
            or a member or all together are too long.
    """
    n_bytes = 0
    with zip_errors(source):
        for place, stream in _streams(source, suffix, order):
            data = stream.read(limit + 1)
            if len(data) > limit:
                raise InputError(f"longer than {limit >> 20} MiB when unpacked", file=place)
            n_bytes = _counted(n_bytes + len(data), source)
            yield place, data


def zip_lines(source: Path, suffix: str) -> Iterator[tuple[str, int, str]]:
    """The non-empty lines of these members: (archive/member, number of the line, line).

    Raises:
        InputError: as :func:`zip_members` and :func:`pdtools.files.read_lines` do.
    """
    n_bytes = 0
    with zip_errors(source):
        for place, stream in _streams(source, suffix):
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                n_bytes = _counted(n_bytes + len(line), source)
                if line == b"\n":
                    continue
                yield place, number, decode_line(line, place, number)


def _counted(n_bytes: int, source: Path) -> int:
    if n_bytes > MAX_ARCHIVE_BYTES:
        raise InputError(f"more than {MAX_ARCHIVE_BYTES >> 30} GiB when unpacked", file=source)
    return n_bytes


def _streams(
    source: Path, suffix: str, order: Sequence[int] | None = None
) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(source) as archive:
        members = members_of(archive, suffix)
        for number in range(len(members)) if order is None else order:
            place = f"{source}/{members[number].filename}"
            with open_data(archive, members[number], place) as stream:
                yield place, stream
