"""Folders of results as a page reads them: their models, and the items that all models share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError
from pdtools.evaluation.comparison.groups import is_collection
from pdtools.evaluation.record import OBJECT, STRING, STRINGS
from pdtools.evaluation.results import RESULTS, STRINGS_TABLE, check_values, read_results, read_table
from pdtools.provenance.hub import name_of, name_of_snapshot
from pdtools.report.tables import listed
from pdtools.search.scores import is_pseudo, marked

if TYPE_CHECKING:
    import pyarrow as pa


_MOST_NAMES = 3  # number of models in one result that a title lists
# Provenance entries that pages read, if present.
_MADE = {
    **dict.fromkeys(("provenance", "provenance.code", "provenance.versions", "provenance.inputs"), OBJECT),
    "provenance.inputs.*": OBJECT,
    "provenance.inputs.*.path": STRING,
    "settings.baseline": STRINGS,
    "settings.models": OBJECT,
    "settings.models.*": OBJECT,
}


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Results of one model on one benchmark.

    Attributes:
        model: the model's name on the page.
        task: ``blimp``, ``sg``, ``parse``, …
        folder: the folder of the results.
        document: the content of ``results.json``; its provenance is empty if it has none.
        items: the table of items.
        strings: the table of their strings; None: there is none.
        group: the name shared by runs that differ only in seed; empty: not known yet.
    """

    model: str
    task: str
    folder: Path
    document: dict[str, Any]
    items: pa.Table
    strings: pa.Table | None = None
    group: str = ""


def folders_of_models(path: str) -> list[str]:
    """The models' folders in a folder that holds several, as ``compare`` takes it, or the folder itself."""
    folder = Path(path)
    if (folder / RESULTS).is_file() or is_collection(folder):
        return [path]
    return sorted({str(file.parent.parent) for file in folder.glob(f"*/*/{RESULTS}")}) or [path]


def load(paths: Sequence[str]) -> list[Loaded]:
    """Read results folders, and folders of several of them.

    A folder of several is a model, and gives it its name. Other folders are named by the different
    parts of their paths; folders under one folder, with different evaluations, belong to one model.

    Raises:
        InputError: for a folder without results, and for one that is named twice.
    """
    given = [Path(os.path.normpath(path)) for path in paths]
    folders: list[tuple[Path, Path]] = []  # a model's, its results'
    for path in given:
        several = sorted(file.parent for file in path.glob(f"*/{RESULTS}")) if is_collection(path) else []
        folders += [(path, folder) for folder in several] or [(path.parent, path)]
    found = [(whose, folder, *_read(folder)) for whose, folder in folders]
    tasks = [str(document["settings"]["task"]) for _, _, document, _ in found]
    keys = [(whose, task) for (whose, *_), task in zip(found, tasks, strict=True)]
    if len(set(keys)) < len(keys):  # several of one evaluation together: each belongs to another model
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
        Loaded(
            model=marked(names[whose], pseudo=is_pseudo(document["settings"])),
            task=task,
            folder=folder,
            document=document,
            items=items,
            strings=read_table(folder, STRINGS_TABLE),
        )
        for (whose, folder, document, items), task in zip(found, tasks, strict=True)
    ]


def _name_of_one(folder: Path, documents: Sequence[dict[str, Any]]) -> str:
    """The name of the one model of all results: the surrounding folder's, unless that is no model's."""
    path = folder.resolve()
    several = documents[0]["settings"].get("models")
    if several and len(documents) == 1:  # reading times
        return listed(list(several)) if len(several) <= _MOST_NAMES else f"{len(several)} models"
    read = {each["provenance"].get("inputs", {}).get("model", {}).get("path") for each in documents}
    if not _says_nothing(path) or len(read) > 1 or None in read:
        return path.name
    return name_of(*read)


def _says_nothing(folder: Path) -> bool:
    """Return whether a folder's name is no model's."""
    path = folder.resolve()
    return path.name == "results" or path == Path.cwd()


def _read(folder: Path) -> tuple[dict[str, Any], pa.Table]:
    document, items = read_results(folder)
    check_values(document, _MADE, folder / RESULTS)
    return {"provenance": {}, **document}, items


def short_names(paths: Sequence[Path]) -> dict[Path, str]:
    """The last part of each path; if these are not all different, the parts in between.

    Common beginnings and ends are removed.
    """
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
    """The number of common parts at the beginning."""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*parts, strict=False)))
