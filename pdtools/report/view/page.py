"""One HTML file that opens anywhere: styles, scripts and data inside, and nothing fetched.

A page is a *document* (JSON, read at once), *packed* data (JSON under gzip, unpacked when looked at), and
scripts, which are the ``.js`` files beside this module. Its content security policy names each script by its
hash: nothing in the data can run, whatever it says.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from pdtools.errors import PdtoolsError
from pdtools.report.view.vega import javascript

SCHEMA = 1
"""Of the document; goes up when a page of an older pdtools could not read it."""

WARN_BYTES = 5_000_000
MOST_BYTES = 20_000_000


@dataclass(frozen=True, kw_only=True)
class Page:
    """What is shown.

    Attributes:
        kind: ``sentences``, ``runs``, ``results`` or ``stimuli``: which script draws it.
        title: of the page.
        document: what the script reads at once, ready for JSON.
        packed: larger data by name, ready for JSON.
        scripts: those that the kind needs beside its own, by the names of their files.
        charts: whether the page draws charts of Vega-Lite.
        notes: what the reader, and who makes the page, should know (rows that were left out).
    """

    kind: str
    title: str
    document: Mapping[str, Any]
    packed: Mapping[str, Any] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    charts: bool = False
    notes: tuple[str, ...] = ()


def render(page: Page, made: Mapping[str, Any]) -> str:
    """The page as text of an HTML file.

    Args:
        page: what is shown.
        made: see :func:`pdtools.provenance.provenance`.

    Raises:
        PdtoolsError: for a page with charts, without vl-convert-python, or if that fails.
    """
    document = {
        "schema": SCHEMA,
        "kind": page.kind,
        "title": page.title,
        "notes": list(page.notes),
        "provenance": made,
        **page.document,
    }
    scripts = [_asset(f"{name}.js") for name in ("page", *page.scripts, page.kind)]
    if page.charts:
        scripts.insert(0, javascript())
    title = html.escape(_writable(page.title))
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>",
            f"<style>\n{_asset('page.css')}</style>\n</head>\n<body>",
            f"<noscript>pdtools view draws this by JavaScript: {title}</noscript>",
            f'<script type="application/json" id="document">{inline_json(document)}</script>',
            *(
                f'<script type="application/gzip" id="packed-{name}">{pack(value)}</script>'
                for name, value in page.packed.items()
            ),
            *(f"<script>{script}</script>" for script in scripts),
            "</body>\n</html>\n",
        ]
    )


def check_size(text: str, most: int = MOST_BYTES) -> str | None:
    """What to say of a page's size, if anything.

    Raises:
        PdtoolsError: if it has more bytes than ``most``.
    """
    size = len(text.encode())
    shown = f"the page has {size / 1e6:.1f} MB"
    if size > most:
        hint = "give it fewer sentences or results, or allow it with --max-mb"
        raise PdtoolsError(f"{shown}, more than {most / 1e6:g}: {hint}")
    return f"{shown}: browsers will be slow to open it" if size > WARN_BYTES else None


def inline_json(value: Any) -> str:
    """JSON that may stand in a script element, whatever its strings say; numbers that are none are null."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _writable(text.replace("<", "\\u003c"))


def pack(value: Any) -> str:
    """JSON under gzip, in Base64; the same value always gives the same text."""
    return base64.b64encode(gzip.compress(inline_json(value).encode(), 6, mtime=0)).decode()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _writable(text: str) -> str:
    """Lone surrogates, of names that are not UTF-8, as JSON escapes them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
