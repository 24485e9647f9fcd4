"""A few validation sentences, parsed anew at each evaluation: ``samples.jsonl`` in the folder of a run.

Keys:
    step, id, text: step, row, words.
    gold: the tree of the shards, binarized.
    tree: the best derivation of a beam of 10 (50 for action models).
    joint, marginal: nats; null for TreeReg.
    reason: the reason why there is no parse; the others are then null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pdtools.files import atomic_text
from pdtools.models import LoadedModel
from pdtools.shards import ShardSet
from pdtools.shards.describe import trees_of_row
from pdtools.training.loss import evaluation_mode
from pdtools.training.metrics import read_records

SAMPLES = "samples.jsonl"
# Positions of a row: long enough to have structure, short enough to be inspected, and to be parsed at once.
_SHORTEST, _LONGEST = 6, 30


@dataclass(frozen=True, slots=True)
class SampledParse:
    """A sentence: its row's id, its words with single spaces, and its tree in the shards (binarized)."""

    id: int
    text: str
    gold: str


@dataclass(frozen=True, slots=True)
class SampleParse:
    """The best parse of a sentence, or the reason why there is none.

    Log-probabilities are in nats (None for TreeReg, which has none).
    """

    tree: str | None
    joint: float | None
    marginal: float | None
    reason: str | None = None


ParseSamples = Callable[[LoadedModel, Sequence[str]], list[SampleParse]]
"""Parses texts; :func:`pdtools.search.decoding.parse_samples`, which training does not import."""


def pick_samples(shards: ShardSet, rows: Sequence[int], number: int) -> list[SampledParse]:
    """The first sentences of these rows that are neither short nor long.

    From windows, the first sentence of each; from blocks, none.
    """
    found: list[SampledParse] = []
    for row in rows if shards.layout != "block" else ():
        if len(found) == number:
            break
        text = shards.text(row).split("\n")[0]
        if _SHORTEST <= len(text.split(" ")) + 2 <= _LONGEST:
            found.append(SampledParse(int(shards.ids[row]), text, str(trees_of_row(shards, row)[0])))
    return found


class SampleLog:
    """The lines of ``samples.jsonl``, one for each sample and evaluation.

    Training is not affected: no random numbers are drawn.

    Args:
        loaded: the model in training.
        samples: the sentences to be parsed.
        parse: the parsing function.
    """

    def __init__(self, loaded: LoadedModel, samples: Sequence[SampledParse], parse: ParseSamples) -> None:
        self._loaded = loaded
        self._samples = samples
        self._parse = parse

    def drop_after(self, step: int, run: Path) -> None:
        """Remove lines that an interrupted run wrote after the step from which this one resumes."""
        path = run / SAMPLES
        if path.exists():
            kept = [record for record in read_samples(run) if record["step"] <= step]
            with atomic_text(path) as file:
                file.writelines(map(_line, kept))

    def write(self, step: int, run: Path) -> None:
        """Parse the samples, and append them."""
        with evaluation_mode(self._loaded.model):
            parses = self._parse(self._loaded, [sample.text for sample in self._samples])
        with open(run / SAMPLES, "a", encoding="utf-8") as file:
            for sample, parsed in zip(self._samples, parses, strict=True):
                file.write(_line({"step": step, **asdict(sample), **asdict(parsed)}))


def read_samples(run: str | Path) -> list[dict[str, Any]]:
    """The lines of a run's ``samples.jsonl``, in the order of steps; none if it has no such file.

    A truncated last line, as a killed run leaves it, does not count.
    """
    return read_records(Path(run) / SAMPLES)


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
