"""The entries by which transformers recognizes an exported checkpoint, and the stub that loads one.

No code of ours comes with a checkpoint: the stub imports the classes from the installed package,
and ``trust_remote_code=True`` runs nothing else. Our own loaders never run it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

# After ``import pdtools.hf`` transformers finds the classes by these names, without the stub.
MODEL_TYPE = "pdtools"
MODEL_CLASS, TOKENIZER_CLASS = "PdtoolsForCausalLM", "PdtoolsTokenizer"

STUB_FILE = "modeling_pdtools.py"
# transformers takes packages that are imported outside of ``try`` for distributions: it would advise to
# install "pdtools", which is another project's.
STUB = '''\
"""Loads this model by the package pdtools, which has to be installed: this file has no other code."""

try:
    from pdtools.hf import PdtoolsConfig, PdtoolsForCausalLM, PdtoolsTokenizer
except ImportError as error:
    raise ImportError(
        f"this model is loaded by pdtools ({error}): in a checkout of it, pip install '.[hf]'; when it is"
        " released, pip install 'pushdown-tools[hf]' (the distribution named pdtools is another project)"
    ) from error

__all__ = ["PdtoolsConfig", "PdtoolsForCausalLM", "PdtoolsTokenizer"]
'''

_MODULE = STUB_FILE.removesuffix(".py")


def model_entries(*, stub: bool) -> dict[str, Any]:
    """The entries of ``config.json``; with ``stub``, the place of the classes if pdtools is not imported."""
    names = {"AutoConfig": "PdtoolsConfig", "AutoModelForCausalLM": MODEL_CLASS}
    found: dict[str, Any] = {"model_type": MODEL_TYPE, "architectures": [MODEL_CLASS]}
    return found | ({"auto_map": {auto: f"{_MODULE}.{name}" for auto, name in names.items()}} if stub else {})


def tokenizer_entries(*, stub: bool) -> dict[str, Any]:
    """The entries of ``tokenizer_config.json``, see :func:`model_entries`; there is no fast tokenizer."""
    found: dict[str, Any] = {"tokenizer_class": TOKENIZER_CLASS}
    return found | ({"auto_map": {"AutoTokenizer": [f"{_MODULE}.{TOKENIZER_CLASS}", None]}} if stub else {})


def write_stub(folder: Path) -> None:
    """Write the stub into a folder."""
    (folder / STUB_FILE).write_text(STUB, encoding="utf-8", newline="\n")
