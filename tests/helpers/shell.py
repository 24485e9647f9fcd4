"""Scripts whose commands this process runs: importing torch for each would take longer than they do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import util
from pathlib import Path
from types import ModuleType

from pdtools.cli.main import run
from pdtools.files import write_json

# Hands a command to the test, which runs it in its own process, and ends as it did.
SHIM = f"""#!/bin/sh
case $0 in *python) case $1 in *report.py) ;; *) exec {sys.executable} "$@" ;; esac ;; esac
mine=$COMMANDS/$$
printf '%s\\0' "$@" >"$mine.part"
mv "$mine.part" "$mine.command"
until [ -e "$mine.status" ]; do sleep 0.02; done
exit "$(cat "$mine.status")"
"""


def script(file: Path) -> ModuleType:
    """A script of a study, as a module."""
    spec = util.spec_from_file_location(f"{file.stem}_of_{file.parent.name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # where a dataclass looks for its annotations
    spec.loader.exec_module(module)
    return module


class Shell:
    """Runs scripts whose ``pdtools`` and report are this process."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.commands: list[list[str]] = []
        (folder / "bin").mkdir()
        for name in ("pdtools", "python"):
            (folder / "bin" / name).write_text(SHIM)
            (folder / "bin" / name).chmod(0o755)
        (folder / "commands").mkdir()
        path = f"{folder}/bin:{os.environ['PATH']}"
        self.environment = {**os.environ, **settings, "PATH": path, "COMMANDS": f"{folder}/commands"}

    def run(self, *command: str, **settings: str) -> tuple[int, str]:
        """Status and standard output of a script; its commands are in ``commands``."""
        self.commands = []
        environment = {**self.environment, **settings}
        with subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            while process.poll() is None:
                for file in (self.folder / "commands").glob("*.command"):
                    self.commands.append(file.read_text().split("\0")[:-1])
                    file.unlink()
                    status = self.command(*self.commands[-1])
                    write_json(file.with_suffix(".status"), status)
                time.sleep(0.01)
            assert process.stdout is not None
            return process.returncode, process.stdout.read()

    def command(self, name: str, *arguments: str) -> int:
        """Run one, in this process; its exit status."""
        if name.endswith("report.py"):
            getattr(script(Path(name)), arguments[0])(*arguments[1:])
            return 0
        return run([name, *arguments, "--quiet"])
