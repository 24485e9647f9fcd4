"""Work on chunks of numbers, for tests of whoever does it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Doubling:
    """Doubles numbers, slowly, and writes down in a folder that it did each chunk."""

    log: Path
    seconds: float = 0.0

    def __call__(self, chunk: Sequence[int]) -> list[int]:
        time.sleep(self.seconds)
        path = self.log / "-".join(map(str, chunk))
        path.write_text(path.read_text() + "again\n" if path.exists() else "once\n")
        if any(number < 0 for number in chunk):
            raise ValueError(f"negative: {chunk}")
        return [2 * number for number in chunk]

    def digest(self, chunk: Sequence[int]) -> str:
        return hashlib.blake2b(json.dumps(chunk).encode(), digest_size=8).hexdigest()

    def pack(self, result: Sequence[int]) -> bytes:
        return json.dumps(result).encode()

    def unpack(self, data: bytes) -> list[int]:
        found: list[int] = json.loads(data)
        return found

    def done(self) -> dict[str, str]:
        """The chunks done, with their contents, each once."""
        return {path.name: path.read_text() for path in sorted(self.log.iterdir())}
