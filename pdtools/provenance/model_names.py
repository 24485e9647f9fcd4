"""Names of models: folders, models that come with pdtools, and models of the Hugging Face hub."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pdtools.errors import InputError
from pdtools.provenance.hub import PREFIX, REPOSITORY, name_of_snapshot, snapshot

_READ = "it has read 8.8 million words of books of 1876 to 1929"
_GRAMMAR = "it knows only the words of the bundled grammar"
# Names of the models that come with pdtools, with descriptions.
BUNDLED = {
    "english": f"the Pushdown LM of English; {_READ}",
    "english-base": f"the base transformer of English; {_READ}",
    "demo": f"the Pushdown LM to try; {_GRAMMAR}",
    "demo-base": f"the base transformer to try; {_GRAMMAR}",
}


class FoundModel(NamedTuple):
    """The folder that a name resolves to.

    Attributes:
        folder: as it was given, or the folder of a model that comes with pdtools, or one of the hub's cache,
            whose path has the commit.
        note: a message for the user; None: none.
    """

    folder: str
    note: str | None


def find_model(name: str | Path, **of_hub: Any) -> FoundModel:
    """Resolve the name of a model: the one place where names become folders.

    Args:
        name: a folder, which is not checked here; a key of :data:`BUNDLED`, unless there is a file or
            folder of that name; or ``hf:`` and a name of the hub.
        of_hub: options for the hub, see :func:`pdtools.provenance.hub.snapshot`.

    Raises:
        InputError: if it is not available from the hub.
    """
    text = str(name)
    if text.startswith(PREFIX):
        folder = snapshot(text, **of_hub)
        return FoundModel(str(folder), f"{text}: commit {folder.name}")
    if text not in BUNDLED:
        return FoundModel(text, None)
    if Path(text).exists():
        what = BUNDLED[text].partition(";")[0]
        return FoundModel(text, f"{text}: the one in this folder, not {what} that comes with pdtools")
    from pdtools.data import model

    return FoundModel(str(model(text)), f"{text}: {BUNDLED[text]}")


def check_no_hub_name(name: str | Path) -> None:
    """Refuse a name that is no folder and looks like a name of a model; for readers of folders.

    Raises:
        InputError: in that case; it gives the right spelling, of a model that comes with pdtools if one is
            spelled much like it.
    """
    path, name = Path(name), str(name)
    is_misspelled = "/" in name and path.parent.exists()  # a name in a folder that exists here
    if not path.exists() and not is_misspelled and REPOSITORY.fullmatch(name):
        says = f"for the model of that name on the Hugging Face hub write {PREFIX}{name}"
        for meant in get_close_matches(name.lower().replace("_", "-"), BUNDLED, n=1):
            says = f"did you mean {meant}, {BUNDLED[meant].partition(';')[0]}? If not, {says}"
        raise InputError(f"{name} is not a folder; {says}")


def name_of(folder: str) -> str:
    """The name of a model: its folder's, its run's if the folder is a part of one, or its name on the hub."""
    path = Path(folder).resolve()
    if (hub := name_of_snapshot(path)) is not None:
        return hub.partition("@")[0].rpartition("/")[2]
    return path.parent.name if path.name in ("checkpoint", "best", "last") else path.name
