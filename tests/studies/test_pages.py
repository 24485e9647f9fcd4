"""Pages of the documentation say what the results say; and what makes their tables and sentences."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from shell import script as load_script

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"


PAGES = load_script(REPOSITORY / "studies" / "pages.py")


def pages(*arguments: object) -> int:
    """Run the command: its exit status."""
    return int(PAGES.main([*map(str, arguments)]))


def of_results(study: str, name: str) -> Any:
    return json.loads((DOCS / "notes" / "results" / study / f"{name}.json").read_text())


def test_the_documentation_is_what_the_results_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert pages("--check") == 0, capsys.readouterr().err


def test_notebooks_are_pages_too() -> None:
    assert {REPOSITORY / "studies/syntax/README.md", REPOSITORY / "benchmarks/measured.md"} < {
        *PAGES.documents()
    }


def test_every_file_of_results_is_read_by_a_page_or_named_by_one() -> None:
    text = "".join(page.read_text() for page in PAGES.documents())
    files = [path for path in (DOCS / "notes" / "results").rglob("*.*") if path.is_file()]
    assert len(files) > 15
    assert [path.name for path in files if f"/{path.name})" not in text] == []


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "page.md").write_text(
        "Pushes: <!-- generated: cfl action unmarked-reversal-run.json pushes -->1%<!-- end -->, and\n\n"
        "<!-- generated: stack-lm cells nltk.json causal -->\n"
        "<!-- end -->\n\n| a | <!-- generated: stack-lm cells nltk.json causal --><!-- end --> |\n"
    )
    return tmp_path / "page.md"


def test_passages_are_made_in_lines_and_on_lines_of_their_own(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = page.read_text()
    assert pages("--check", page) == 1
    assert capsys.readouterr().err == f"{page}: stale (make docs, or python studies/pages.py)\n"
    assert page.read_text() == before

    assert pages(page) == 0
    share = of_results("cfl", "unmarked-reversal-run")["scores"]["pushes"]
    cells = "**316.0** ± 2.8 | **322.0** ± 6.0"
    assert page.read_text() == (
        "Pushes: <!-- generated: cfl action unmarked-reversal-run.json pushes -->"
        f"{share:.1%}<!-- end -->, and\n\n"
        f"<!-- generated: stack-lm cells nltk.json causal -->\n{cells}\n"
        f"<!-- end -->\n\n| a | <!-- generated: stack-lm cells nltk.json causal -->{cells}<!-- end --> |\n"
    )
    assert pages("--check", page) == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "a <!-- generated: cfl nothing epochs-20 --><!-- end -->",
            "1: nothing makes the passage 'cfl nothing",
        ),
        (
            "a <!-- generated: cfl test lost.json --><!-- end -->",
            "/results/cfl/lost.json: ",
        ),
        ("a <!-- generated: cfl test epochs-20.json -->", "a generated passage without <!-- end -->"),
        ("<!-- generated: cfl test epochs-20.json --><!-- end -->", "1: a passage begins a line"),
    ],
)
def test_what_is_wrong_with_a_page_is_said_in_one_line(
    tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.md").write_text(text)
    assert pages(tmp_path / "page.md") == 1
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert (tmp_path / "page.md").read_text() == text


# --- what is generated, against the results themselves ------------------------------------------


def passage(tmp_path: Path, what: str) -> str:
    """What the command makes."""
    (tmp_path / "page.md").write_text(f"a <!-- generated: {what} --><!-- end -->\n")
    assert pages(tmp_path / "page.md") == 0
    match = re.search(r"-->(.*)<!-- end", (tmp_path / "page.md").read_text(), re.DOTALL)
    assert match is not None
    return match[1]


def test_runs_of_the_rns_that_come_within_the_papers_bound(tmp_path: Path) -> None:
    found = passage(tmp_path, "cfl rns-within epochs-20.json longer.json marked-reversal-rns-again.json")
    again = of_results("cfl", "marked-reversal-rns-again")["scores"]["marked-reversal"]["rns"]
    assert min(again["lr0.005-1"]["valid_by_step"]) > 0.05
    assert "| runs within 0.05 nats | 1 of 2 | 1 of 12 | 1 of 1 | " in found
    curves = of_results("cfl", "unmarked-reversal")["scores"]["unmarked-reversal"]["rns"]
    assert len(curves) == 12
    best = min(min(run["valid_by_step"]) for run in curves.values())
    assert f"| the best of them, nats | 0.002 | {best:.3f} | " in found


def test_the_table_of_dyck_has_the_models_that_were_tested(tmp_path: Path) -> None:
    rows = passage(tmp_path, "dyck table strict-5000.json 0").splitlines()
    assert [row.split(" | ")[0].strip("| ") for row in rows if "LM" in row] == [
        "paper: base LM (+ attachment loss)",
        "base LM + attachment loss",
        "paper: Pushdown LM",
        "Pushdown LM, 24 prefixes",
    ]
    accuracy = of_results("dyck", "strict-5000")["scores"]["base-attachment"]["dependency-50-depth-10"]["1"]
    assert f"| **{100 * accuracy['accuracy']:.1f}** [" in next(r for r in rows if r.startswith("| base LM +"))


def test_the_second_table_of_the_tasks_has_the_other_ones_column(tmp_path: Path) -> None:
    rows = passage(tmp_path, "dcf table-2 masked encodings.json reduced.json").splitlines()
    assert len(rows) == 2 + 4 * 2 * 2
    seeds = of_results("dcf", "reduced")["scores"]["rs/masked/vanilla-none"].values()
    mean = 100 * sum(each["accuracy_beyond_training"] for each in seeds) / len(seeds)
    assert next(row for row in rows if row.startswith("| RS vanilla | ")).startswith(
        f"| RS vanilla | **{mean:.1f}** "
    )


def test_the_short_table_of_the_tasks_has_the_means_of_the_long_one(tmp_path: Path) -> None:
    long = [row.split(" | ") for row in passage(tmp_path, "dcf table-1 reduced.json").splitlines()]
    short = [row.split(" | ") for row in passage(tmp_path, "dcf short reduced.json").splitlines()[2:]]
    wanted = [
        row for name in ("| RS, paper", "| RS", "| SM, paper", "| SM") for row in long if row[0] == name
    ]
    means = [[re.sub(r"\**([\d.]+).*", r"\1", cell) for cell in row[1:]] for row in wanted]
    assert [[cell.rstrip(" |") for cell in row[1:]] for row in short] == means


def test_the_short_table_of_dyck_has_the_percents_of_the_long_ones(tmp_path: Path) -> None:
    files = "free-5000-mixed.json free-5000.json strict-5000.json steps-10000.json"
    rows = [row.split(" | ") for row in passage(tmp_path, f"dyck short {files}").splitlines()[4:]]
    settings = [
        "50-40,100-40,200-40 accuracy 0",
        "50-10,100-10,200-10",
        "50-40,100-40,200-40,300-40 accuracy 1",
    ]
    wanted = [
        passage(tmp_path, f"dyck percents {file} {model} {of}")
        for file, model, of in (
            ("free-5000-mixed.json", "pushdown", settings[0]),
            ("strict-5000.json", "pushdown", settings[1]),
            ("steps-10000.json", "pushdown-distances", settings[2]),
        )
    ]
    shown = [[cell for cell in rows[k][3:7] if cell != "-"] for k in (3, 6, 8)]
    assert [re.findall(r"[\d.]+", text) for text in wanted] == shown


def test_relative_links_lead_to_files_and_headings() -> None:
    pages = [*REPOSITORY.glob("*.md"), *PAGES.documents(), *(REPOSITORY / "data").rglob("*.md")]
    links = [(page, found) for page in pages for found in re.findall(r"\]\(([^)\s]+)\)", page.read_text())]
    links = [(page, found) for page, found in links if not re.match("[a-z]+:", found)]
    assert len(links) > 100
    dead = []
    for page, found in links:
        path, _, heading = found.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (heading and heading not in anchors(target)):
            dead.append(f"{page.relative_to(REPOSITORY)}: {found}")
    assert dead == []


def anchors(page: Path) -> set[str]:
    """The headings of a page as its links name them, and places that have names."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    names = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return names.union(re.findall(r'<a id="([^"]+)"', text))
