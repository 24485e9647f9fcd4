"""C compilers that change the source before they compile it, and libraries that are compiled anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from pdtools.models.kernels import block_attention, decoding, grammar_attention, linear_cross_entropy, native
from pdtools.models.kernels import native_gelu as gelu
from pdtools.models.recurrent import recurrence
from pdtools.models.recurrent.stacks import nondeterministic
from pdtools.models.transformer import stack_attention

FLOAT = torch.float32
# Tests of whether functions in C are used, by their file.
WORKS = {
    "block_attention.c": lambda: block_attention._native_works(FLOAT),
    "cross_entropy.c": linear_cross_entropy._works,
    "decoding.c": lambda: decoding._works(FLOAT),
    "gelu.c": gelu._works,
    "grammar_attention.c": lambda: grammar_attention._native_works(FLOAT),
    "nondeterministic_stack.c": nondeterministic._native_works,
    "stack_attention.c": lambda: stack_attention._native_works(FLOAT),
}


def _forget() -> None:
    kernels = (block_attention, grammar_attention, stack_attention, nondeterministic, recurrence)
    for cached in (
        native.native_library,
        native._say_that_there_is_none,
        *(kernel._native_works for kernel in kernels),
        *(kernel._works for kernel in (linear_cross_entropy, decoding, gelu)),
    ):
        cached.cache_clear()


@contextmanager
def another_compiler(folder: Path | None, file: str = "", change: str = "", *options: str) -> Iterator[None]:
    """Compile everything anew within, by a compiler that changes a file as ``sed`` is told; None: by none.

    Args:
        folder: holds the compiler.
        options: last of all, for the compiler.
    """
    found = None
    if folder is not None:
        compiler = next(filter(None, map(shutil.which, native.COMPILERS)), None)
        if compiler is None:
            pytest.skip("no C compiler")
        wrong = folder / "cc"
        wrong.write_text(
            "#!/bin/sh\nset -e\n"
            f'if [ -e {file} ]; then sed "{change}" {file} >wrong.c; mv wrong.c {file}; fi\n'
            f'exec {compiler} "$@" {" ".join(options)}\n'
        )
        wrong.chmod(0o755)
        found = str(wrong)
    _forget()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shutil, "which", lambda name: found)
            yield
    finally:
        _forget()
