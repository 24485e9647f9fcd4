"""Results folders grouped by model, and models grouped if they differ only in seed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.results import RESULTS, read_document
from pdtools.files import Kind, check_kind
from pdtools.search.scores import is_pseudo, marked

_SEED = re.compile(r"([-_. ]+(seed|s)?)?[-_. ]*\d*$")


@dataclass(frozen=True, kw_only=True)
class ModelResults:
    """The results of one trained model.

    Attributes:
        folder: its folder.
        evaluations: results folders, by the names of the sub-folders; a single one by its task.
        seed: the training seed; None if its results lack it.
        training: the same for models that were trained alike but for their seed
            (:func:`pdtools.provenance.provenance`); None if its results lack it.
        pseudo: whether its scores are pseudo-log-likelihoods, of a masked language model.
    """

    folder: Path
    evaluations: Mapping[str, Path]
    seed: int | None
    training: str | None
    pseudo: bool = False

    @property
    def name(self) -> str:
        """The folder's own name; for a single evaluation, with its parent's."""
        path = Path(os.path.abspath(self.folder))
        is_single = self.folder in self.evaluations.values()
        return marked(f"{path.parent.name}/{path.name}" if is_single else path.name, pseudo=self.pseudo)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Models that differ only in their seeds, or that a user put together."""

    name: str
    models: tuple[ModelResults, ...]


def is_collection(folder: str | Path) -> bool:
    """Return whether a folder holds results folders, and is none itself."""
    return not (Path(folder) / RESULTS).is_file() and any(Path(folder).glob(f"*/{RESULTS}"))


def find_models(folder: str | Path, *, as_one: bool = False) -> list[ModelResults]:
    """The models whose results a folder holds.

    Args:
        folder: results of one evaluation; a folder of several, for one model; or a folder of such.
        as_one: see :func:`model_of`.

    Raises:
        InputError: if there are none.
    """
    folder = Path(folder)
    if (folder / RESULTS).is_file():
        document = read_document(folder)
        return [model_of(folder, {str(document["settings"]["task"]): folder})]
    if found := sorted(path.parent for path in folder.glob(f"*/{RESULTS}")):
        return [model_of(folder, {path.name: path for path in found}, as_one=as_one)]
    if found := sorted({path.parent.parent for path in folder.glob(f"*/*/{RESULTS}")}):
        return [model for each in found for model in find_models(each, as_one=as_one)]
    check_kind(folder, Kind.RESULTS)
    if not folder.is_dir():
        raise InputError("no such folder", file=folder, hint="the folder after -o of an evaluation")
    raise InputError("not a folder of results, and none in it", file=folder)


def model_of(folder: Path, evaluations: Mapping[str, Path], *, as_one: bool = False) -> ModelResults:
    """The one model of several results.

    Args:
        folder: the folder that holds them.
        evaluations: their folders, by name.
        as_one: whether they may be of models that were trained differently (one fine-tuned, say): such a
            model has no seed.

    Raises:
        InputError: if they have several models.
    """
    documents = [read_document(path) for path in evaluations.values()]
    trained = {found for document in documents if (found := _training(document))}
    if len(trained) > 1 and not as_one:
        raise InputError("results of several models in one folder", file=folder)
    seed, training = trained.pop() if len(trained) == 1 else (None, None)
    pseudo = any(is_pseudo(document["settings"]) for document in documents)
    return ModelResults(folder=folder, evaluations=evaluations, seed=seed, training=training, pseudo=pseudo)


def _training(document: Mapping[str, Any]) -> tuple[int, str] | None:
    found: Any = document
    for name in ("provenance", "inputs", "model", "training"):
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return None
    seed, training = found.get("seed"), found.get("sha256")
    return (seed, training) if type(seed) is int and isinstance(training, str) else None


def by_seed(models: Sequence[ModelResults]) -> list[Group]:
    """Group models that were trained alike but for their seed; all others stay single.

    If results of one seed exist twice (one model searched in two ways, or ``best`` and ``last``), it is
    unclear which belong together: all of these stay single too.

    A group is named by the common beginning of its folders' names, without a seed at the end (``base-1``,
    ``base-2``: ``base``).
    """
    together: dict[Any, list[ModelResults]] = {}
    for model in models:
        key = model.folder if model.training is None else (model.training, *sorted(model.evaluations))
        together.setdefault(key, []).append(model)
    groups: list[Sequence[ModelResults]] = []
    for found in together.values():
        is_of_seeds = len({model.seed for model in found}) == len(found)
        groups += [found] if is_of_seeds else [[model] for model in found]
    return [
        Group(name=name_of_seeds([model.name for model in found]), models=tuple(found)) for found in groups
    ]


def each_alone(folders: Sequence[str | Path]) -> list[Group]:
    """A group for each model of these folders, by its name; by its folder if two have the same name."""
    models = [model for folder in folders for model in find_models(folder, as_one=True)]
    names = [model.name for model in models]
    named = names if len({*names}) == len(names) else [str(model.folder) for model in models]
    return [Group(name=name, models=(model,)) for name, model in zip(named, models, strict=True)]


def name_of_seeds(names: Sequence[str]) -> str:
    """The common name of a model's seeds: see :func:`by_seed`."""
    if len(names) == 1:
        return names[0]
    # Single results (`base-1/blimp`) have the seed in the folder around them.
    letters = zip(*(name.split("/")[0] for name in names), strict=False)
    common = "".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, letters))
    return _SEED.sub("", common) or names[0]


def check_groups(groups: Sequence[Group], baseline: str | None) -> None:
    """Refuse groups of one name, models that are in two, and a baseline that is no group.

    Raises:
        PdtoolsError: naming the fault.
    """
    folders = [model.folder.resolve() for group in groups for model in group.models]
    if twice_read := [folder for folder in folders if folders.count(folder) > 1]:
        raise PdtoolsError(f"{twice_read[0]} is given twice")
    names = [group.name for group in groups]
    if twice := [name for name in names if names.count(name) > 1]:
        raise PdtoolsError(f"two groups named {twice[0]}: name them with --group NAME=FOLDERS")
    if baseline is not None and baseline not in names:
        raise PdtoolsError(f"no group named {baseline} (there are {', '.join(names)})")
