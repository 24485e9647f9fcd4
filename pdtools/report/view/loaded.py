"""Folders of results as they are read for a page: whose they are, and the items that all models share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError
from pdtools.evaluation.comparison.overview import is_collection
from pdtools.evaluation.reading.scoring import name_of
from pdtools.evaluation.record import OBJECT, STRING, STRINGS
from pdtools.evaluation.results import RESULTS, check_values, read_results
from pdtools.hub import name_of_snapshot
from pdtools.report.tables import listed

if TYPE_CHECKING:
    import pyarrow as pa


_MOST_NAMES = 3  # of models in one result that a title lists
# What pages read of how results were made, as far as it is there.
_MADE = {
    **dict.fromkeys(("provenance", "provenance.code", "provenance.versions", "provenance.inputs"), OBJECT),
    "provenance.inputs.*": OBJECT,
    "provenance.inputs.*.path": STRING,
    "settings.baseline": STRINGS,
    "settings.models": OBJECT,
    "settings.models.*": OBJECT,
    "settings.models.*.scorer": OBJECT,
}


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Results of one model on one benchmark.

    Attributes:
        model: what the page calls the model.
        task: ``blimp``, ``sg``, ``parse``, …
        folder: where the results are.
        document: of ``results.json``; its provenance is empty if it has none.
        items: the table of items.
        group: what it and those that differ from it in their seeds alone are called; empty: not known yet.
    """

    model: str
    task: str
    folder: Path
    document: dict[str, Any]
    items: pa.Table
    group: str = ""


def folders_of_models(path: str) -> list[str]:
    """The folders of models in a folder that holds several, as ``compare`` takes it, or the folder itself."""
    folder = Path(path)
    if (folder / RESULTS).is_file() or is_collection(folder):
        return [path]
    return sorted({str(file.parent.parent) for file in folder.glob(f"*/*/{RESULTS}")}) or [path]


def load(paths: Sequence[str]) -> list[Loaded]:
    """Read results folders, and folders of several of them.

    A folder of several is a model, whose name is that of the folder. Other folders are named by what is
    different in their paths; those under one folder, of different evaluations, are of one model.

    Raises:
        InputError: for a folder without results, and for one that is named twice.
    """
    given = [Path(os.path.normpath(path)) for path in paths]
    folders: list[tuple[Path, Path]] = []  # of a model, of its results
    for path in given:
        several = sorted(file.parent for file in path.glob(f"*/{RESULTS}")) if is_collection(path) else []
        folders += [(path, folder) for folder in several] or [(path.parent, path)]
    found = [(whose, folder, *_read(folder)) for whose, folder in folders]
    tasks = [str(document["settings"]["task"]) for _, _, document, _ in found]
    keys = [(whose, task) for (whose, *_), task in zip(found, tasks, strict=True)]
    if len(set(keys)) < len(keys):  # several of one evaluation side by side: each is a model's
        found = [(folder, folder, document, items) for _, folder, document, items in found]
    seen: set[Path] = set()
    for _, folder, *_ in found:
        if folder.resolve() in seen:
            raise InputError("named twice", file=folder)
        seen.add(folder.resolve())
    names = short_names([whose for whose, *_ in found])
    if len(names) == 1 and (_says_nothing(found[0][0]) or not is_collection(given[0])):
        names = {whose: _name_of_one(whose, [document for *_, document, _ in found]) for whose in names}
    return [
        Loaded(model=names[whose], task=task, folder=folder, document=document, items=items)
        for (whose, folder, document, items), task in zip(found, tasks, strict=True)
    ]


def _name_of_one(folder: Path, documents: Sequence[dict[str, Any]]) -> str:
    """Name of the one model of all results: that of the folder around them, unless it says nothing."""
    path = folder.resolve()
    several = documents[0]["settings"].get("models")
    if several and len(documents) == 1:  # of reading times
        return listed(list(several)) if len(several) <= _MOST_NAMES else f"{len(several)} models"
    read = {each["provenance"].get("inputs", {}).get("model", {}).get("path") for each in documents}
    if not _says_nothing(path) or len(read) > 1 or None in read:
        return path.name
    return name_of(*read)


def _says_nothing(folder: Path) -> bool:
    """Whether a folder's name is no model's."""
    path = folder.resolve()
    return path.name == "results" or path == Path.cwd()


def _read(folder: Path) -> tuple[dict[str, Any], pa.Table]:
    document, items = read_results(folder)
    check_values(document, _MADE, folder / RESULTS)
    return {"provenance": {}, **document}, items


def short_names(paths: Sequence[Path]) -> dict[Path, str]:
    """The last part of each path; where these are not all different, the parts between what all begin and
    what all end with."""
    different = list(dict.fromkeys(paths))
    parts = [_readable(path.resolve()).parts for path in different]
    cut = [each[-1:] for each in parts]
    if len(set(cut)) < len(cut):
        before = _alike(parts)
        after = _alike([each[before:][::-1] for each in parts])
        cut = [each[before : len(each) - after] or each[-1:] for each in parts]
    return {path: "/".join(each) for path, each in zip(different, cut, strict=True)}


def _readable(path: Path) -> Path:
    """A path that ends with a model's name, not its commit, if it is in the cache of the Hugging Face hub."""
    name, _, commit = (name_of_snapshot(path) or "").partition("@")
    return Path(commit, name) if name else path


def _alike(parts: Sequence[tuple[str, ...]]) -> int:
    """How many parts all begin with."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*parts, strict=False)))
