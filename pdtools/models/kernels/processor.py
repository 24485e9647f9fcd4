"""The processor that functions in C are compiled for."""

from __future__ import annotations

import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

# Lines of Linux' list that distinguish processors; the rest are their numbers and present speed.
_OF_PROCESSOR = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features")
_OF_ARM = ("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision")


@cache
def processor() -> str | None:
    """A description that no processor with other instructions has; None if it is not known."""
    if sys.platform == "win32":
        return platform.processor() or None
    try:
        if sys.platform == "darwin":
            names = ("machdep.cpu.brand_string", "machdep.cpu.features")  # ARM has the first alone
            said = subprocess.run(["sysctl", "-n", *names], capture_output=True, text=True, timeout=5)
            return said.stdout or None
        first, _, _ = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    lines = [line for line in first.splitlines() if line.partition(":")[0].strip() in _OF_PROCESSOR + _OF_ARM]
    return "\n".join(lines) or None
