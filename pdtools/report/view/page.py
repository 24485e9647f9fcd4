"""A page as one HTML file that opens anywhere: styles, scripts and data inside, and nothing fetched.

A page is a *document* (JSON, read at once), *packed* data (JSON under gzip, unpacked when looked at), and
scripts, which are the ``.js`` files beside this module. Its content security policy names each script by its
hash: nothing in the data can run.
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
"""The document's format; raised when an older pdtools' page could not read it."""

WARN_BYTES = 5_000_000
MOST_BYTES = 20_000_000
_START = "kinds[page.kind]();"


@dataclass(frozen=True, kw_only=True)
class Page:
    """The content of a page.

    Attributes:
        kind: ``sentences``, ``runs``, ``results`` or ``stimuli``: determines the script that draws it.
        title: the page's title.
        document: data that the script reads at once, JSON-ready.
        packed: larger data by name, JSON-ready.
        scripts: file names of scripts that the kind needs besides its own.
        charts: whether the page draws charts of Vega-Lite.
        notes: notes for the reader, and for the maker of the page (rows that were excluded).
    """

    kind: str
    title: str
    document: Mapping[str, Any]
    packed: Mapping[str, Any] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    charts: bool = False
    notes: tuple[str, ...] = ()


def document_of(page: Page, made: Mapping[str, Any]) -> dict[str, Any]:
    """The data that a page's script reads at once; ``made``: see :func:`pdtools.provenance.provenance`."""
    return {
        "schema": SCHEMA,
        "kind": page.kind,
        "title": page.title,
        "notes": list(page.notes),
        "provenance": made,
        **page.document,
    }


def render(page: Page, made: Mapping[str, Any], nonce: str | None = None) -> str:
    """The page as text of an HTML file.

    Args:
        page: the content.
        made: see :func:`pdtools.provenance.provenance`.
        nonce: for a served page, whose policy lets scripts with it run; None: the page has its own policy.

    Raises:
        PdtoolsError: for a page with charts, without vl-convert-python, or if that fails.
    """
    scripts = [*(_asset(f"{name}.js") for name in ("page", *page.scripts, page.kind)), _START]
    if page.charts:
        scripts.insert(0, javascript())
    title = html.escape(_writable(page.title))
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    runs = f' nonce="{nonce}"' if nonce else ""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            "" if nonce else f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title>",
            f"<style>\n{_asset('page.css')}</style>\n</head>\n<body>",
            f"<noscript>pdtools view draws this by JavaScript: {title}</noscript>",
            f'<script type="application/json" id="document">{inline_json(document_of(page, made))}</script>',
            *(
                f'<script type="application/gzip" id="packed-{name}">{pack(value)}</script>'
                for name, value in page.packed.items()
            ),
            *(f"<script{runs}>{script}</script>" for script in scripts),
            "</body>\n</html>\n",
        ]
    )


def check_size(text: str) -> str | None:
    """A warning about a page's size, if it is large.

    Raises:
        PdtoolsError: if it has more than 20 MB.
    """
    size = len(text.encode())
    shown = f"the page has {size / 1e6:.1f} MB"
    if size > MOST_BYTES:
        raise PdtoolsError(f"{shown}, more than {MOST_BYTES / 1e6:g}: give it fewer sentences or results")
    return f"{shown}: browsers will be slow to open it" if size > WARN_BYTES else None


def inline_json(value: Any) -> str:
    """JSON that is safe in a script element, whatever its strings; numbers that are not finite are null."""
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
    """Text with lone surrogates, as from names that are not UTF-8, escaped as in JSON."""
    return text.encode("utf-8", "backslashreplace").decode()


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
