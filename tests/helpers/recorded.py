"""Scripts of shell commands with stand-ins for the commands that they call."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class Recorded:
    """Scripts whose commands only write down their arguments; sweeps choose the first rate."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        stop = 'stopped() { trap "" USR1; kill -USR1 0; sleep 0.2; echo stopped >>"$RECORD"; }\n'
        stand_ins = {
            "pdtools": f'{stop}echo "$*" >>"$RECORD"\n[ "${{STOP:-}}" != "$1" ] || stopped\n',
            "python": "echo 1e-4\n",
            "sbatch": 'echo "sbatch $STAGES $*" >>"$RECORD"\necho "4${STAGES%% *}"\n',
            "srun": 'while [ "${1#-}" != "$1" ]; do shift; done\nexec setsid --wait "$@"\n',
            "scontrol": 'echo "scontrol $*" >>"$RECORD"\n',
        }
        for name, text in stand_ins.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}")
            (folder / name).chmod(0o755)
        path = f"{folder}:{os.environ['PATH']}"
        self.environment = {**os.environ, **settings, "PATH": path, "RECORD": str(folder / "record")}

    def run(self, *command: str, **settings: str) -> tuple[int, list[str]]:
        """Status, and lines of the record."""
        (self.folder / "record").write_text("")
        environment = {**self.environment, **settings}
        done = subprocess.run(command, cwd=self.folder, env=environment)
        return done.returncode, (self.folder / "record").read_text().splitlines()
