"""Charts by vl-convert, which draws them without a browser, and provides the scripts for a browser.

It runs in a process of its own, since it ends its process if it fails: its V8 reserves 68 GB of addresses.
"""

from __future__ import annotations

import base64
import json
import math
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from pdtools.errors import MissingDependencyError, PdtoolsError
from pdtools.files.kept import digest, keep, kept_file
from pdtools.report.visible import visible

_CHILD = """
import sys
sys.path[:] = sys.argv[1:]
import base64, json, vl_convert
job = json.load(sys.stdin)
try:
    if job is None:
        done = vl_convert.javascript_bundle()
    else:
        svgs = [*map(vl_convert.vegalite_to_svg, job["charts"]), *job["drawings"]]
        done = [[svg, base64.b64encode(vl_convert.svg_to_pdf(svg)).decode()] for svg in svgs]
except Exception as error:
    sys.exit(str(error).strip().split("\\n")[0])
json.dump(done, sys.stdout)
"""


@cache
def javascript() -> str:
    """The scripts of Vega, Vega-Lite and vega-embed, which take two seconds to make and are kept.

    Raises:
        PdtoolsError: without vl-convert-python, or if it fails.
    """
    _check_that_it_is_there()
    made_from = digest((_CHILD, version("vl-convert-python")))
    if (kept := kept_file("vega.js", made_from)) is not None:
        return kept.read_text(encoding="utf-8")
    made = str(_run(None))
    keep(made.encode(), "vega.js", made_from)
    return made


def draw(
    charts: Mapping[str, Mapping[str, Any]], drawings: Mapping[str, str]
) -> dict[str, tuple[str, bytes]]:
    """Draw each chart (of Vega-Lite) and drawing (SVG) as SVG and as PDF, by name.

    Raises:
        PdtoolsError: without vl-convert-python, or if it fails.
    """
    done = _run({"charts": _drawable(list(charts.values())), "drawings": list(drawings.values())})
    names = (*charts, *drawings)
    return {name: (svg, base64.b64decode(pdf)) for name, (svg, pdf) in zip(names, done, strict=True)}


def _check_that_it_is_there() -> None:
    if find_spec("vl_convert") is None:
        raise MissingDependencyError("vl-convert-python", extra="view")


def _run(job: Any) -> Any:
    _check_that_it_is_there()
    command = [sys.executable, "-c", _CHILD, *sys.path]
    child = subprocess.run(command, input=json.dumps(job).encode(), capture_output=True)
    if child.returncode == 0:
        return json.loads(child.stdout)
    reason = child.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if child.returncode < 0:
        killed = signal.Signals(-child.returncode).name
        reason = f"{killed} (does ulimit -v allow the address space of 68 GB that it reserves?)"
    raise PdtoolsError(f"charts cannot be drawn: vl-convert-python ended with {reason}")


def _drawable(value: Any) -> Any:
    """A value without characters and numbers that SVG or JSON cannot hold."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {key: _drawable(each) for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return [_drawable(each) for each in value] if isinstance(value, (list, tuple)) else value
