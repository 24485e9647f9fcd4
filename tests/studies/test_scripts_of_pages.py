"""Scripts that read docstrings and pages: how sentences begin, numbers of words, and Markdown on the site."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from shell import script as load_script

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGING = REPOSITORY / "packaging"
PAGE = """# A heading is not counted. Not at all.

One two three. Four [five six](seven.md#eight) (Nine et al. 2020) `ten eleven. twelve` 0.5!
Goes on <!-- not
this --> over lines

    pdtools a code block. Not counted.

| a table | is not. |
|---|---|
| counted | here. |

- An item,
  which goes on. Its second sentence?
- {long}.

```python
"Nor is this."
```
![No image. Either.](picture.png)
"""


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    return load_script(PACKAGING / "prose.py")


def test_sentences(prose: ModuleType) -> None:
    found = [" ".join(sentence) for block in prose.blocks(PAGE) for sentence in prose.sentences(block)]
    assert found == [
        "One two three",
        "Four five six (Nine et al 2020) CODE 0.5",
        "Goes on over lines",
        "An item, which goes on",
        "Its second sentence",
        "{long}",
    ]


@pytest.mark.parametrize(("words", "short"), [(29, 6), (30, 5)])
def test_counts(
    words: int, short: int, prose: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("{long}", " ".join(["word"] * words)))
    assert prose.main(["--json", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["total"] == found[str(page)]
    assert (found["total"]["words"], found["total"]["sentences"]) == (3 + 9 + 4 + 5 + 3 + words, 6)
    assert found["total"]["short"] == short
    assert found["total"]["mean"] == round((24 + words) / 6, 2)
    assert found["total"]["file"] == 55 + words


def test_pages_of_results_fit_one_screen(prose: ModuleType) -> None:
    pages = [*(REPOSITORY / "docs" / "notes" / "studies").glob("*.md")]
    assert len(pages) > 10
    shown = {page.name: re.sub("<!--.*?-->", "", page.read_text("utf-8")) for page in pages}
    lengths = {name: prose.measured(text).file for name, text in shown.items()}
    assert {name: words for name, words in lengths.items() if words > 450} == {}


# --- docstrings and comments --------------------------------------------------------------------

# Lines that end in "# bad" are found, and no others.
MODULE = '''"""A module. What's more, a second sentence."""  # not bad

# What is found.  # bad
# A comment of two lines. It ends
# here. Whether this is found.  # bad
x = 1  # of this  # bad
y = "Of a string. What is in code"  # a number; where it stands, it is not found


def function(name, flag, other):
    """Whether something is.  # bad

    Of a paragraph.  # bad
    A sentence ("Of Mice"). "So it goes." That of another.  # bad
    That is fine, Those of nobody.

    Args:
        name: of a file.  # bad
        flag: whether it is.
        name, *other (list): what comes.  # bad
        other: a list of what there is: of all.
    """
'''


@pytest.fixture(scope="module")
def wording() -> ModuleType:
    return load_script(PACKAGING / "wording.py")


def test_what_is_found(wording: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "module.py"
    file.write_text(MODULE)
    assert wording.main([str(file)]) == 1
    found = {int(line.split(":")[1]) for line in capsys.readouterr().out.splitlines()}
    assert found == {k for k, line in enumerate(MODULE.splitlines(), 1) if line.endswith("  # bad")}
    assert wording.main(["--count", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split()[:3] == ["5", "3", "2"]


# --- the site -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site() -> ModuleType:
    for package in ("mkdocs", "pymdownx"):
        pytest.importorskip(package)
    return load_script(PACKAGING / "site.py")


@pytest.fixture(scope="module")
def reader() -> Any:
    markdown, yaml = pytest.importorskip("markdown"), pytest.importorskip("yaml")
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
    markdown = pytest.importorskip("markdown")
    html = markdown.markdown(heading, extensions=["toc"], extension_configs={"toc": {"slugify": site.anchor}})
    assert html.startswith(f'<h2 id="{found}">')
