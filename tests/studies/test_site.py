"""Pages of the documentation as the site shows them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from shell import script as load_script

markdown = pytest.importorskip("markdown")
yaml = pytest.importorskip("yaml")
pytest.importorskip("mkdocs")
pytest.importorskip("pymdownx")

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    return load_script(REPOSITORY / "packaging" / "site.py")


@pytest.fixture(scope="module")
def reader() -> Any:
    settings = (REPOSITORY / "mkdocs.yml").read_text("utf-8")
    return markdown.Markdown(extensions=[*map(_name, yaml.safe_load(settings)["markdown_extensions"])])


def _name(extension: Any) -> str:
    return extension if isinstance(extension, str) else next(iter(extension))


def test_no_page_shows_markdown_as_it_is(site: ModuleType, reader: Any) -> None:
    folders = (".", "docs/**", "data", "studies/*", "benchmarks")
    pages = [page for folder in folders for page in REPOSITORY.glob(f"{folder}/*.md")]
    assert len(pages) > 40
    found = {
        str(page.relative_to(REPOSITORY)): raw
        for page in pages
        if (raw := site.raw_markdown(reader.reset().convert(page.read_text("utf-8"))))
    }
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "1. **it gains (**+8.1** (0.01)) and (**3**) in one pass**, at",
        "| a | b |\n|---|---|\n| c | d |\n## A heading",
        "A list:\n- one\n- two",
        "Steps:\n1. one\n2. two",
        "words\n| a | b |\n| c | d |",
        "a [link] (there)[](x and ](y)",
        "``unfinished code",
        "a comment <!-- that `has` no end",
    ],
)
def test_what_is_seen(text: str, site: ModuleType, reader: Any) -> None:
    assert site.raw_markdown(reader.reset().convert(text))


@pytest.mark.parametrize(
    "text",
    ["**bold** *it* `a ** b` [x](y)", "    a **kwargs | b |\n", "- one\n- two", "|a|b|\n|-|-|\n| - | `2` |"],
)
def test_what_is_understood(text: str, site: ModuleType, reader: Any) -> None:
    assert not site.raw_markdown(reader.reset().convert(text))


@pytest.mark.parametrize(
    ("heading", "found"),
    [
        ("## Structural scaffolds: `--model sclm`", "structural-scaffolds---model-sclm"),
        ('## "exists already"', "exists-already"),
        ("## PLM, and *TG*", "plm-and-tg"),
    ],
)
def test_anchors_are_those_of_github(heading: str, found: str, site: ModuleType) -> None:
    html = markdown.markdown(heading, extensions=["toc"], extension_configs={"toc": {"slugify": site.anchor}})
    assert html.startswith(f'<h2 id="{found}">')
