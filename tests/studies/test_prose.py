"""The script that counts words and sentences of the documentation, on a page counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from shell import script as load_script

SCRIPT = Path(__file__).resolve().parents[2] / "packaging" / "prose.py"
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
    return load_script(SCRIPT)


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
    notes = SCRIPT.parents[1] / "docs" / "notes"
    pages = [notes / "performance.md", *(notes / "studies").glob("*.md")]
    assert len(pages) > 10
    lengths = {page.name: prose.measured(page.read_text("utf-8")).file for page in pages}
    assert {name: words for name, words in lengths.items() if words > 600} == {}
