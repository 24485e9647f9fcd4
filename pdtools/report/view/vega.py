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
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pdtools.errors import MissingDependencyError, PdtoolsError, visible
from pdtools.files import atomic_path
from pdtools.files.kept import digest, keep, kept_file

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
        make = {
            "svg": str.encode,
            "pdf": vl_convert.svg_to_pdf,
            "png": lambda svg: vl_convert.svg_to_png(svg, scale=2),
        }
        done = [[base64.b64encode(make[kind](svg)).decode() for kind in job["kinds"]] for svg in svgs]
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
    charts: Mapping[str, Mapping[str, Any]],
    drawings: Mapping[str, str] | None = None,
    *,
    kinds: Sequence[str] = ("svg", "pdf"),
) -> dict[str, dict[str, bytes]]:
    """Draw each chart (of Vega-Lite) and drawing (SVG), by name, as a file's content of each kind.

    Args:
        charts: specifications by name.
        drawings: SVG by name.
        kinds: kinds of files, from ``svg``, ``pdf`` and ``png``.

    Raises:
        PdtoolsError: without vl-convert-python, or if it fails.
    """
    drawings = drawings or {}
    job = {"charts": _drawable(list(charts.values())), "drawings": list(drawings.values()), "kinds": kinds}
    return {
        name: {kind: base64.b64decode(content) for kind, content in zip(kinds, contents, strict=True)}
        for name, contents in zip((*charts, *drawings), _run(job), strict=True)
    }


def save_chart(path: str | Path, chart: Mapping[str, Any]) -> None:
    """Draw a chart into a file, whole or not at all; its suffix (``.svg``, ``.pdf``, ``.png``) is its kind.

    Raises:
        PdtoolsError: without vl-convert-python, or if it fails.
    """
    kind = Path(path).suffix[1:].lower()
    content = draw({"chart": chart}, kinds=[kind])["chart"][kind]
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


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
