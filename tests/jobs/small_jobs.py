"""A command that is run in small chunks, and what it makes."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from options import with_options

COMMANDS = (
    "eval-blimp",
    "eval-sg",
    "eval-ppl",
    "eval-dyck",
    "surprisal",
    "parses",
    "decode",
    "parse",
    "treebank",
    "split",
    "tapes",
)
GRAMMARS = ("tg-sg", "tg-ppl", "tg-parses", "tg-decode")  # a model that writes the tree into the string
OTHER_PERPLEXITIES = ("ppl-given-trees", "ppl-base", "ppl-masked", "ppl-gpt2")


@dataclass(frozen=True)
class Case:
    """A command, the file or folder that it is to make, and what of that has to be the same every time."""

    arguments: tuple[str, ...]
    output: Path

    def __call__(self, *more: object) -> list[str]:
        return with_options(self.arguments, *map(str, more))

    def made(self) -> dict[str, bytes]:
        """The files made, without when and how."""
        if self.output.is_dir():
            files = [path for path in sorted(self.output.rglob("*")) if path.is_file()]
        else:
            files = sorted(path for path in self.output.parent.glob(f"{self.output.name}*") if path.is_file())
        return {path.name: _without_provenance(path) for path in files}

    def clear(self) -> None:
        """Delete all that the command writes."""
        shutil.rmtree(self.output.parent)
        self.output.parent.mkdir()


def _without_provenance(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix != ".json":
        return data
    document = json.loads(data)
    if isinstance(document, dict):
        document.pop("provenance", None)
        for name in {"results.json", "manifest.json"} & document.get("files", {}).keys():
            del document["files"][name]
    return json.dumps(document).encode()
