"""Names of models: folders, and the models to try that come with pdtools."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

# Names of the models to try, and what each of them is.
TO_TRY = {
    "demo": "the Pushdown LM to try",
    "demo-base": "the base transformer to try",
}


class NamedModel(NamedTuple):
    """What a name stands for.

    Attributes:
        folder: as it was given, or that of a model to try.
        note: what a user has to be told; None: nothing.
    """

    folder: str
    note: str | None


def find_model(name: str | Path) -> NamedModel:
    """What is meant by the name of a model.

    Args:
        name: a folder, of which nothing is asked here; or ``demo`` or ``demo-base``, models to try that come
            with pdtools, unless there is a file or folder of that name.
    """
    text = str(name)
    if text not in TO_TRY:
        return NamedModel(text, None)
    if Path(text).exists():
        return NamedModel(text, f"{text}: the one in this folder, not {TO_TRY[text]} that comes with pdtools")
    from pdtools.data import model

    return NamedModel(
        str(model(text)), f"{text}: {TO_TRY[text]}; it knows only the words of the bundled grammar"
    )
