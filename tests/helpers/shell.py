"""Scripts whose commands one process runs, which has imported torch for all of them."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from importlib import util
from pathlib import Path
from types import ModuleType


def script(file: Path) -> ModuleType:
    """A script of a study, as a module."""
    spec = util.spec_from_file_location(f"{file.stem}_of_{file.parent.name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # a dataclass looks for its annotations there
    sys.path.append(str(file.parent))  # for what is beside it, as Python does
    spec.loader.exec_module(module)
    return module


@functools.cache
def warm(*modules: str) -> Path:
    """The folder of the ``pdtools`` and ``python`` of warm.py, which ends with this process.

    With modules, transformers has its cache in ``cache`` there.
    """
    folder = tempfile.TemporaryDirectory()
    server = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("warm.py"), folder.name, *modules],
        env={**os.environ, "HF_HOME": f"{folder.name}/cache"} if modules else None,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C ends it with this process
    )
    atexit.register(folder.cleanup)
    atexit.register(server.communicate)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return Path(folder.name)


class Shell:
    """Runs scripts of the shell in a folder, with these settings in their environment."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, **settings, "PATH": f"{warm()}:{os.environ['PATH']}"}
        self.environment["COMMANDS"] = f"{folder}/commands"

    def run(self, *command: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
        """A script, run to its end; its commands are then in ``commands``."""
        (self.folder / "commands").write_text("")
        return subprocess.run(
            command, cwd=self.folder, env={**self.environment, **settings}, capture_output=True, text=True
        )

    @property
    def commands(self) -> list[list[str]]:
        """The commands called by the last script, each as the arguments of ``pdtools`` or ``python``."""
        return [json.loads(line) for line in (self.folder / "commands").read_text().splitlines()]
