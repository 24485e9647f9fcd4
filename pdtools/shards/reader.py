"""Reading shards back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files import read_json, recover_directory, sha256_file
from pdtools.shards.format import FORMAT, FORMAT_VERSION, MANIFEST_FILE
from pdtools.tokenization import Tokenizer
from pdtools.trees import tape

if TYPE_CHECKING:
    import pyarrow as pa

_MANIFEST_KEYS = ("settings", "tokenizer", "counts")
_MAKE = "pdtools tapes makes shards"
_REMAKE = "make the shards again with pdtools tapes"


@dataclass(frozen=True)
class _Lists:
    """A column of int32 lists: row i is values[offsets[i] : offsets[i + 1]]."""

    values: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def row(self, i: int) -> NDArray[np.int32]:
        return self.values[self.offsets[i] : self.offsets[i + 1]]


@dataclass(frozen=True, eq=False)
class ShardSet:
    """A folder of shards, in memory (without tapes: the attachments determine them).

    Attributes:
        folder: where it was read from.
        manifest: the contents of ``manifest.json``.
        tokenizer: the one that the rows were made with.
        ids: int64 (rows,).
        lengths: int32 (rows,), tokens in each row, ROOT and EOS included.
    """

    folder: Path
    manifest: dict[str, Any]
    tokenizer: Tokenizer
    ids: NDArray[np.int64]
    lengths: NDArray[np.int32]
    _texts: pa.ChunkedArray
    _columns: dict[str, _Lists]

    @classmethod
    def open(cls, folder: str | Path) -> ShardSet:
        """Read a folder of shards.

        Raises:
            InputError: if it is none, is of another format version, lacks a file, or holds one that is
                not the file that was written.
        """
        folder = Path(folder)
        recover_directory(folder)
        manifest = _read_manifest(folder)
        tokenizer = Tokenizer.load(folder)
        if tokenizer.fingerprint != manifest["tokenizer"]["fingerprint"]:
            raise InputError("not the tokenizer that the shards were made with", file=folder, hint=_REMAKE)
        tables = [_read_part(folder / part["file"], part) for part in manifest["parts"]]
        columns = {name: _lists(tables, name) for name in ("tokens", "attach", "word")}
        import pyarrow as pa

        return cls(
            folder=folder,
            manifest=manifest,
            tokenizer=tokenizer,
            ids=np.concatenate([table["id"].to_numpy() for table in tables]),
            lengths=np.diff(columns["tokens"].offsets).astype(np.int32),
            _texts=pa.chunked_array([chunk for table in tables for chunk in table["text"].chunks]),
            _columns=columns,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def tokens(self, i: int) -> NDArray[np.int32]:
        """Vocabulary indices of row i, int32 (n + 2)."""
        return self._columns["tokens"].row(i)

    def attach(self, i: int) -> NDArray[np.int32]:
        """Attachments of row i, int32 (n + 2), positions in the row."""
        return self._columns["attach"].row(i)

    def word(self, i: int) -> NDArray[np.int32]:
        """The word of each token of row i, int32 (n + 2); -1 for ROOT and EOS."""
        return self._columns["word"].row(i)

    def text(self, i: int) -> str:
        """The words of row i between single spaces."""
        return str(self._texts[i].as_py())

    def tape(self, i: int) -> NDArray[np.int32]:
        """The stack tape of row i, int32 (n + 2, n + 2), from its attachments: depths over 255 included."""
        return tape(self.attach(i))

    def row(self, i: int) -> dict[str, Any]:
        """Row i as a dictionary: id, text, tokens, attach, word."""
        return {
            "id": int(self.ids[i]),
            "text": self.text(i),
            "tokens": self.tokens(i),
            "attach": self.attach(i),
            "word": self.word(i),
        }

    def find(self, row_id: int) -> int:
        """The row with this ``id``.

        Raises:
            InputError: if there is none.
        """
        found = np.flatnonzero(self.ids == row_id)
        if not len(found):
            span = f"ids go from {self.ids.min()} to {self.ids.max()}"
            raise InputError(f"no sentence with id {row_id}", file=self.folder, hint=span)
        return int(found[0])


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST_FILE
    if not folder.is_dir():
        raise InputError("no such folder", file=folder, hint=_MAKE)
    if not path.is_file():
        raise InputError(f"not a folder of shards: no {MANIFEST_FILE} in it", file=folder, hint=_MAKE)
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError("not a manifest of shards", file=path, hint=_MAKE)
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        reason = f"shards of format version {version}; this pdtools reads version {FORMAT_VERSION}"
        raise InputError(reason, file=path, hint=_REMAKE)
    parts = manifest.get("parts")
    if (
        any(not isinstance(manifest.get(key), dict) for key in _MANIFEST_KEYS)
        or "fingerprint" not in manifest["tokenizer"]
        or not isinstance(parts, list)
        or not parts
        or any(not isinstance(part, dict) or not _is_part(part) for part in parts)
    ):
        raise InputError("damaged manifest", file=path, hint=_REMAKE)
    return manifest


def _is_part(part: Mapping[str, Any]) -> bool:
    """Whether this describes a file in the folder itself."""
    file, rows, digest = (part.get(key) for key in ("file", "rows", "sha256"))
    return (
        isinstance(file, str)
        and file not in ("", "..")
        and Path(file).name == file
        and isinstance(rows, int)
        and isinstance(digest, str)
    )


def _read_part(path: Path, part: dict[str, Any]) -> pa.Table:
    import pyarrow.parquet as pq

    if not path.is_file():
        raise InputError("a part of the shards is missing", file=path, hint=_REMAKE)
    if sha256_file(path) != part["sha256"]:
        reason = "damaged: not the file that the manifest describes"
        raise InputError(reason, file=path, hint=f"copy it again, or {_REMAKE}")
    return pq.ParquetFile(path).read(columns=["id", "text", "tokens", "attach", "word"])


def _lists(tables: list[pa.Table], name: str) -> _Lists:
    import pyarrow.compute as pc

    chunks = [chunk for table in tables for chunk in table[name].chunks]
    values = np.concatenate([chunk.flatten().to_numpy() for chunk in chunks])
    lengths = np.concatenate([pc.list_value_length(chunk).to_numpy() for chunk in chunks])
    return _Lists(values, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
