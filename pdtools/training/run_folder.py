"""The folder of a run: its files; making and resuming one.

Files:
    best/, last/: checkpoints.
    step-N/: checkpoints that ``train.keep_at`` keeps (``["500 steps", "1M words"]``).
    last/trainer/: optimizer moments, random states, position in the data, early-stop counters.
    metrics.jsonl: a line per log step (``kind`` is ``train``) and evaluation (``valid``); with TreeReg also
        ``treereg_loss`` and ``treereg_accuracy``.
    samples.jsonl: a few validation sentences, parsed anew at each evaluation.
    tensorboard/: the numbers of ``metrics.jsonl``.
    run.json: command line, configuration, versions, input hashes, seed, hardware; with ``--init``, the
        weights copied, new and omitted.
    .RUN.lock: beside the folder: the lock of the training process. It stays, and means nothing by itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import check_output, json_text, read_json, recover_directory, replace_directory, write_json
from pdtools.files.locks import OPEN_FILES_STAY, locked
from pdtools.files.manifest import MANIFEST, growing, holds_others, paths_below
from pdtools.files.system import hidden_beside
from pdtools.models.initial import Initialized
from pdtools.provenance.hub import PREFIX
from pdtools.training.recipe import Recipe, recipe_from_table

BEST, LAST, TRAINER = "best", "last", "trainer"
_RUN, _SUM = "run.json", "sha256"
_NEW = "new.tmp"


class RunFolder:
    """Paths of a run, and its ``run.json``.

    ``best/`` and ``last/`` are checkpoints; each is swapped whole. ``last/trainer/`` holds the trainer's
    state, so that weights and state can never be of different steps. ``step-N/`` are checkpoints that
    ``train.keep_at`` keeps.

    Args:
        path: the folder.
        replaces: an earlier run's folder, which it replaces with its first checkpoint (:meth:`settle`).
    """

    def __init__(self, path: str | Path, *, replaces: Path | None = None) -> None:
        self.path = Path(path)
        self.replaces = replaces
        self.best = self.path / BEST
        self.last = self.path / LAST
        self.trainer = self.last / TRAINER

    @property
    def name(self) -> Path:
        """The final path of the run, used in messages."""
        return self.replaces or self.path

    def kept(self, step: int) -> Path:
        """The path of the checkpoint kept at a step."""
        return self.path / f"step-{step}"

    def exists(self) -> bool:
        """Return whether a run was started here."""
        return (self.path / _RUN).is_file()

    def create(self, *, overwrite: bool = False) -> RunFolder:
        """Make the folder.

        Returns:
            The folder to write to: this one; or, while there is an earlier run, which ``overwrite``
            allows, a hidden one beside it.

        Raises:
            PdtoolsError: if there is something that may not be replaced.
        """
        check_output(self.path, overwrite=overwrite, folder=True)
        self.remove_stale()
        if self._is_empty():
            self.path.mkdir(parents=True, exist_ok=True)
            return self._begin()
        if OPEN_FILES_STAY:
            raise PdtoolsError(
                f"{self.path}: a run is there, and Windows cannot move it while its log is open: delete it"
                " first"
            )
        beside = self._beside(_NEW)
        beside.mkdir()
        return RunFolder(beside, replaces=self.path.resolve())._begin()

    def _begin(self) -> RunFolder:
        write_json(self.path / MANIFEST, growing("training run"))
        return self

    def _is_empty(self) -> bool:
        """Return whether the folder holds nothing but the first file, or what a killed process left of it."""
        return not {*paths_below(self.path)} - {MANIFEST}

    def settle(self) -> RunFolder:
        """Replace the earlier run; to be called when there is a checkpoint."""
        if self.replaces is None:
            return self
        replace_directory(self.path, self.replaces)
        return RunFolder(self.replaces)

    def remove_stale(self) -> None:
        """Delete the folder of a run that was to replace this one, but never reached a checkpoint."""
        recover_directory(self.path.resolve())
        for left_over in (self._beside(_NEW), self._beside(_NEW).with_suffix(".old")):
            if not holds_others(left_over):
                shutil.rmtree(left_over, ignore_errors=True)

    def recover(self) -> bool:
        """Mend the folder after a killed process; return whether there is a checkpoint to resume from.

        Raises:
            PdtoolsError: if the folder holds anything but a run.
        """
        self.remove_stale()
        for name in (MANIFEST, _RUN):
            for left_over in hidden_beside(self.path / name, (".tmp",)):
                left_over.unlink()
        if not self._is_empty() and not self.exists():
            raise PdtoolsError(
                f"{self.path}: not a training run ({_RUN} is missing), so it cannot be resumed"
            )
        for folder in (self.best, self.last):
            recover_directory(folder)
            for left_over in hidden_beside(folder, (".tmp", ".old", ".new")):
                shutil.rmtree(left_over, ignore_errors=True)
        return self.trainer.is_dir()

    def recipe(self) -> Recipe:
        """The recipe with which the run was started."""
        recipe = self.record().get("recipe")
        if not isinstance(recipe, dict):
            raise InputError("not the record of a training run", file=self.path / _RUN)
        return recipe_from_table(recipe, str(self.path / _RUN))

    def describe(
        self,
        recipe: Recipe,
        data: Mapping[str, str],
        provenance: Mapping[str, Any],
        initialized: Initialized | None = None,
    ) -> None:
        """Write ``run.json``: the whole recipe, the identity of data, the provenance, the first weights."""
        self._write(
            {
                "recipe": recipe.as_json(),
                "data": dict(data),
                "provenance": dict(provenance),
                "resumed": [],
                **({} if initialized is None else {"initialized": dataclasses.asdict(initialized)}),
            }
        )

    def check_same(self, recipe: Recipe, data: Mapping[str, str]) -> None:
        """Refuse to resume with another recipe or other data than the run was started with.

        More steps are allowed if the learning rate does not depend on their number.

        Raises:
            PdtoolsError: naming the difference.
        """
        run = self.record()
        recipes = (json.loads(json_text(each.as_json())) for each in (self.recipe(), recipe))
        differences = [
            f"{key} is {now}, but was {before}"
            for key, before, now in _differences(*recipes)
            if not (key == "train.steps" and recipe.train.may_go_on and now > before)
            and key
            # The data decide the first; the others change nothing.
            not in ("config.runs", "train.sample_parses", "train.keep_at")
        ]
        for role in sorted({*run.get("data", {}), *data}):
            if run.get("data", {}).get(role) != data.get(role):
                differences.append(f"the {role} data are not the same{_hub_name(run, role)}")
        if differences:
            raise PdtoolsError(
                f"{self.path}: cannot be resumed: {'; '.join(differences)}"
                " (give what the run was started with, or train into another folder)"
            )

    def other_code(self, provenance: Mapping[str, Any]) -> str | None:
        """A line for a run that goes on under other code than it was last trained with; None for the same."""
        run = self.record()
        before = [run.get("provenance", {}), *run.get("resumed", [])][-1]
        was, now = (
            f"{code.get('version')}, code {code.get('digest', 'unknown')}"
            for code in (before.get("code", {}), provenance["code"])
        )
        return None if was == now else f"{self.name}: trained so far by pdtools {was}; goes on under {now}"

    def record_resumption(self, step: int, recipe: Recipe, provenance: Mapping[str, Any]) -> None:
        """Record in ``run.json`` that the run resumed from a step, its new last step, and the provenance."""
        run = self.record()
        run["recipe"]["train"]["steps"] = recipe.train.steps
        run["resumed"] = [*run.get("resumed", []), {"step": step, **provenance}]
        self._write(run)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from the folder while the block runs; the lock ends with the process.

        A file beside the folder is locked, so that the folder can be replaced meanwhile.

        Raises:
            PdtoolsError: if another process holds it; without locks there is a warning instead.
        """
        lock = self._beside("lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or "no folder"
            raise PdtoolsError(
                f"{self.path}: no folder can be made there ({error.filename}: {reason}): choose another -o"
            ) from error
        refusal = f"{self.path}: another run is writing there (wait for it, or choose another folder)"
        with locked(lock, refusal, warns=True):
            yield

    def _beside(self, suffix: str) -> Path:
        """A hidden name beside the folder, the same for all links to the folder."""
        place = self.path.resolve()
        return place.with_name(f".{place.name}.{suffix}")

    def _write(self, run: Mapping[str, Any]) -> None:
        record = {key: value for key, value in run.items() if key != _SUM}
        write_json(self.path / _RUN, {**record, _SUM: _sum(record)})

    def record(self) -> dict[str, Any]:
        """The record of the run, from ``run.json``.

        Raises:
            InputError: if it is damaged.
        """
        run = read_json(self.path / _RUN)
        if not (
            isinstance(run, dict)
            and all(isinstance(run.get(name, {}), dict) for name in ("recipe", "data"))
            and isinstance(run.get("resumed", []), list)
        ):
            raise InputError("not the record of a training run", file=self.path / _RUN)
        recorded = run.pop(_SUM, None)
        if recorded not in (None, _sum(run)):
            raise InputError(f"damaged: its contents do not match its {_SUM}", file=self.path / _RUN)
        return run


def _sum(record: Mapping[str, Any]) -> str:
    """The SHA-256 of a record, independent of its JSON's layout."""
    return hashlib.sha256(json_text(record).encode()).hexdigest()


def _hub_name(run: Mapping[str, Any], role: str) -> str:
    """Advice to name an input's commit on the Hugging Face hub, whose branch may have moved on."""
    name = run.get("provenance", {}).get("inputs", {}).get(role, {}).get("hub")
    return "" if name is None else f" (name {PREFIX}{name} to go on)"


def _differences(
    before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> list[tuple[str, Any, Any]]:
    """Keys whose values differ, with both values; nested tables by their dotted names."""
    found = []
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append((prefix + key, old, new))
    return found
