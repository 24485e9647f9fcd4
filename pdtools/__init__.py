"""Treebank preprocessing, training and evaluation of syntactic language models.

Importing :mod:`pdtools` loads nothing heavy. :func:`pdtools.load` gives a model to ask (:mod:`pdtools.api`);
each other part is imported by name, for example ``from pdtools.trees import read_trees``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdtools.api import PandasModel, effects, load

__version__ = "0.1.0"
__all__ = ["PandasModel", "__version__", "effects", "load"]


def __getattr__(name: str) -> Any:
    if name not in ("PandasModel", "effects", "load"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pdtools import api

    return getattr(api, name)
