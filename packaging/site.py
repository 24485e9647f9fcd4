"""The site's changes to pages of ``docs/``: anchors, links out of it, names in docstrings."""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files


def on_config(config: Any, **_: Any) -> Any:
    """Give headings GitHub's anchors, so that a link to one works there and on the site."""
    config.mdx_configs["toc"]["slugify"] = anchor
    return config


def anchor(heading: str, separator: str) -> str:
    """The anchor of a heading: several hyphens stay as they are, which Markdown's own function joins."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Replace links to files of the repository, which the site does not have, by these files' names."""
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(link: re.Match[str]) -> str:
        text, target = link["text"], link["target"]
        path = posixpath.normpath(posixpath.join("docs", folder, target.partition("#")[0]))
        if re.match(r"[a-z]+:|#", target) or path.startswith("docs/"):
            return link[0]
        return text if text.startswith("`") else f"{text} (`{path}`)"

    return re.sub(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)", replaced, markdown)


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Strip the roles of names that docstrings refer to (``:func:`…```).

    Markdown that was not understood stops the site.
    """
    if found := raw_markdown(html):
        raise PluginError(f"{page.file.src_uri}: Markdown that stays as it is: {'; '.join(found)}")
    return re.sub(r":(?:func|class|meth|mod|attr):(?=<code>)", "", html)


class _Text(HTMLParser):
    """The text of blocks, without code."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [""]
        self._code = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._code += tag in ("code", "pre", "style")
        if tag in ("p", "li", "td", "th") or re.fullmatch("h[1-6]", tag):
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre", "style")

    def handle_data(self, data: str) -> None:
        self.blocks[-1] += "…" if self._code else data


# Emphasis, code, links, comments; headings, lists and tables without a blank line before them.
_RAW = re.compile(r"\*\*|`|\]\(|<!--|-->|^#+ |^\|.*\|$|\n[-*] |\n\d+\. ", re.MULTILINE)


def raw_markdown(html: str) -> list[str]:
    """Parts of a page's text that still are Markdown, such as the ``**`` of nested emphasis."""
    text = _Text()
    text.feed(html)
    found = [(block, match.start()) for block in text.blocks if (match := _RAW.search(block))]
    return [block[max(0, at - 30) : at + 30].strip() for block, at in found]
