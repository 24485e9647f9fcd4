"""Names of models: folders, and the models that come with pdtools."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_READ = "it has read 3.3 million words of books of 1876 to 1929"
_GRAMMAR = "it knows only the words of the bundled grammar"
# Names of the models that come with pdtools, and what each of them is.
BUNDLED = {
    "english": f"the Pushdown LM of English; {_READ}",
    "english-base": f"the base transformer of English; {_READ}",
    "demo": f"the Pushdown LM to try; {_GRAMMAR}",
    "demo-base": f"the base transformer to try; {_GRAMMAR}",
}


class NamedModel(NamedTuple):
    """What a name stands for.

    Attributes:
        folder: as it was given, or that of a model that comes with pdtools.
        note: what a user has to be told; None: nothing.
    """

    folder: str
    note: str | None


def find_model(name: str | Path) -> NamedModel:
    """What is meant by the name of a model.

    Args:
        name: a folder, of which nothing is asked here; or a key of :data:`BUNDLED`, unless there is a file or
            folder of that name.
    """
    text = str(name)
    if text not in BUNDLED:
        return NamedModel(text, None)
    if Path(text).exists():
        what = BUNDLED[text].partition(";")[0]
        return NamedModel(text, f"{text}: the one in this folder, not {what} that comes with pdtools")
    from pdtools.data import model

    return NamedModel(str(model(text)), f"{text}: {BUNDLED[text]}")
