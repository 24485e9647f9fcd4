"""Samples written by this project: a treebank, text, a mini BLiMP, a mini SG, grammars; and their generator.
Two small models that were trained on them, and two of English. Scripts to copy and change.

See ``README.md`` beside this file for what each of them holds; ``python -m pdtools.data.generate`` makes
them.
"""

from __future__ import annotations

from pathlib import Path

SPLITS = ("train", "valid", "test")
_FOLDER = Path(__file__).resolve().parent


def treebank(split: str) -> Path:
    """The file of a split of the sample treebank: ``train``, ``valid`` or ``test``."""
    if split not in SPLITS:
        raise ValueError(f"no split {split!r}: the sample treebank has {', '.join(SPLITS)}")
    return _FOLDER / "treebank" / f"{split}.mrg"


def sample_text() -> Path:
    """The file of raw running text, one sentence a line."""
    return _FOLDER / "text" / "sample.txt"


def blimp() -> Path:
    """The folder of the mini BLiMP: one JSON-lines file a paradigm."""
    return _FOLDER / "blimp"


def sg() -> Path:
    """The folder of the mini SG: one JSON file a suite."""
    return _FOLDER / "sg"


def grammars() -> Path:
    """The folder of context-free grammars: one ``.pcfg`` file a language."""
    return _FOLDER / "grammars"


def scripts() -> Path:
    """The folder of scripts to copy and change: ``treebank.sh``, and ``treebank.slurm`` for a cluster."""
    return _FOLDER / "scripts"


def model(name: str) -> Path:
    """The folder of a model that comes with pdtools (:data:`pdtools.provenance.hub.BUNDLED`)."""
    return _FOLDER / "models" / name
