"""Pages of ``pdtools view`` in a real browser (Debian: ``apt-get install chromium``); skipped without one."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reading_results import write as write_reading
from toy_models import toy_models
from view_pages import random_attachments, random_trace, write_blimp, write_run, write_sg

from pdtools.inspection.tracing import trace
from pdtools.report.view.page import Page, render
from pdtools.report.view.results import results_page
from pdtools.report.view.runs import runs_page
from pdtools.report.view.sentences import sentences_page
from pdtools.report.view.stimuli import stimuli_page
from pdtools.search.options import SearchOptions
from pdtools.trees import Tree, tape

MADE: dict[str, Any] = {"code": {"version": "0"}, "versions": {}, "inputs": {}, "time": "now"}
HOSTILE = [
    "<script>window.hit=1</script>",
    "$x$",
    "שלום",
    "עולם",
    "</script>",
    "<img/src=x/onerror=hit>",
    "&amp;",
    "\u2028",
]
KINDS = ["pushdown", "base", "treereg", "stack-attention", "rnn", "tg", "plm", "window"]
CONTRASTS = (Path(__file__).parents[1] / "helpers" / "contrasts.js").read_text("utf-8").partition("\n")[2]
RIGHT = np.random.default_rng(0).random((3, 6, 10)) < np.array([0.6, 0.75, 0.9])[:, None, None]


class Opened:
    """A page in the browser, and what it complained of or asked for."""

    def __init__(self, browser: Any, path: Path, *, width: int = 1280) -> None:
        self.complaints: list[str] = []
        self.path = path
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", self._asked)
        self.go("")

    def go(self, state: str) -> Any:
        """Open it with this state in its address."""
        self.page.goto("about:blank")
        self.page.goto(f"file://{self.path}#{state}")
        self.page.wait_for_selector("body[data-ready]", timeout=60_000)
        return self.page

    def _asked(self, request: Any) -> None:
        if request.url.split("#")[0] != f"file://{self.path}" and not request.url.startswith(
            ("about:", "blob:")
        ):
            self.complaints.append(request.url)


@pytest.fixture(scope="module")
def opened(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Opened]:
    """Every kind of page, opened once."""
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    folder = tmp_path_factory.mktemp("pages")
    for m, name in enumerate("abc"):
        write_blimp(folder / "results" / name / "blimp", RIGHT[m], seed=m, hostile=True)
        write_sg(folder / "results" / name / "sg", RIGHT[m], seed=m)
        write_run(folder / "runs" / name, 20, seed=m)
    long = [random_trace([f"{word}{i}" for i in range(300)], seed=5) for word in "x"]
    hostile = [random_trace(HOSTILE, seed) for seed in (1, 2)]
    gold = Tree.from_brackets("(S (NP (X a) (X b)) (NP (X c) (X a)))")
    models = toy_models()
    kinds = [
        trace(models[kind], "a b c a", SearchOptions(beam=20), hypotheses=4, gold=gold) for kind in KINDS
    ]
    pair = [
        [random_trace(text.split(), s) for s in (3, 4)] for text in ("the dogs bark .", "the dogs barks .")
    ]
    write_reading(folder / "reading" / "results")
    stimuli = folder / "stimuli.csv"
    regions = ["The", "old dog", "that chased", "barked"]
    rows = [
        f"{item},{condition},{model},{k},{text},{item + k + number % (item + k)}"
        for model in ("demo", "a-model-with-a-long-name")
        for item in range(1, 4)
        for number, condition in enumerate(["unamb_short", "unamb_long", "amb_short", "amb_long"], 5)
        for k, text in enumerate(regions, 1)
    ]
    stimuli.write_text("\n".join(["item,condition,model,region,region_text,surprisal", *rows]))
    pages: dict[str, Page] = {
        "results": results_page([str(folder / "results" / name) for name in "abc"]),
        "reading": results_page([str(folder / "reading" / "results")]),
        "stimuli": stimuli_page([str(stimuli)], factors="ambiguity,length"),
        "runs": runs_page([str(folder / "runs" / name) for name in "abc"]),
        "hostile": sentences_page([hostile], ["A", "<b>B</b>"], MADE),
        "long": sentences_page([long], ["A"], MADE),
        "kinds": sentences_page([kinds], KINDS, MADE),
        "pair": sentences_page(pair, ["A", "B"], MADE, pair=True),
    }
    found = {}
    for name, page in pages.items():
        path = folder / f"{name}.html"
        path.write_text(render(page, MADE), "utf-8")
        narrow = name in ("hostile", "runs", "reading", "stimuli")
        found[name] = Opened(browser, path, width=400 if narrow else 1280)
    return found


PAGES = ["results", "reading", "stimuli", "runs", "hostile", "long", "kinds", "pair"]


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_quiet_and_as_wide_as_the_window(name: str, opened: dict[str, Opened]) -> None:
    page = opened[name].page
    page.evaluate("document.querySelectorAll('figure details').forEach((each) => { each.open = true; })")
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert (
        page.evaluate(
            "document.querySelectorAll('canvas:not([aria-label]), svg[role=img]:not([aria-label])').length"
        )
        == 0
    )
    assert page.evaluate(
        "[...document.querySelectorAll('button')].every((b) => b.textContent || b.ariaLabel)"
    )
    assert "undefined" not in page.inner_text("body")
    assert "[object" not in page.inner_text("body")
    assert opened[name].complaints == []


def test_tapes_and_trees_are_those_of_python(opened: dict[str, Opened]) -> None:
    rng = np.random.default_rng(7)
    derivations = [random_attachments(int(rng.integers(1, 15)), rng) for _ in range(200)]
    page = opened["pair"].page
    rows = page.evaluate("(all) => all.map(tapeOf)", derivations)
    for attach, found in zip(derivations, rows, strict=True):
        expected = tape(attach)
        assert [row.tolist()[: k + 1] for k, row in enumerate(expected)] == found
    # Before end-of-sentence, a position's depth is the number of constituents around it.
    spans = page.evaluate(
        "(all) => all.map((a) => [...spansOf(forestOf(a, 'attachments', a.length))])",
        [a[:-1] for a in derivations],
    )
    for attach, found in zip(derivations, spans, strict=True):
        limits = [tuple(map(int, span.split("-"))) for span in found]
        depths = [sum(start <= j <= end for start, end in limits) for j in range(len(attach) - 1)]
        assert depths == tape(attach[:-1])[-1].tolist()


def test_a_sentence_token_by_token(opened: dict[str, Opened]) -> None:
    page = opened["hostile"].go("token=2")
    n = len(HOSTILE) + 1
    assert page.locator("#panel-surprisals .column").count() == n
    assert (
        page.locator("#panel-surprisals .filled").count()
        == page.locator("#panel-surprisals .outlined").count()
        == n
    )
    assert page.text_content(".where") == f"2/{n} $x$"
    page.keyboard.press("ArrowRight")
    assert page.text_content(".where") == f"3/{n} שלום"
    assert page.locator("#panel-tape .cell").count() == 4 * 5 // 2
    page.keyboard.press("3")
    assert "hypothesis=3" in page.url
    assert page.get_attribute('[aria-label="hypothesis 3"]', "aria-pressed") == "true"
    # The third derivation is the gold one.
    assert page.locator("#panel-forest .notgold").count() == 0
    page.focus("input[type=range]")
    page.keyboard.press("End")
    assert page.text_content(".where") == f"{n}/{n} <eos>"
    page.select_option("select", "1")
    assert "model=%3Cb%3EB" in page.url
    assert page.evaluate("window.hit") is None
    assert opened["hostile"].complaints == []


@pytest.mark.parametrize(("sentence", "text"), [(1, "the dogs bark ."), (2, "the dogs barks .")])
def test_a_sentence_opens_at_its_highest_surprisal(
    sentence: int, text: str, opened: dict[str, Opened]
) -> None:
    page = opened["pair"].go(f"sentence={sentence}")
    bits = random_trace(text.split(), 3).surprisals
    highest = max(range(1, len(bits)), key=lambda k: bits[k] or 0)
    assert page.text_content(".where").startswith(f"{highest}/")


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_dark_where_the_system_is(name: str, browser: Any, opened: dict[str, Opened]) -> None:
    """Text stands out from what is behind it: 4.5:1, as WCAG wants it."""
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto(f"file://{opened[name].path}")
        page.wait_for_selector("body[data-ready]", timeout=60_000)
        found = page.evaluate(CONTRASTS)
        page.close()
        assert found["ground"] == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(23, 25, 28)")
        assert found["texts"] > 5
        assert found["faint"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model(kind: str, opened: dict[str, Opened]) -> None:
    page = opened["kinds"].go(f"model={kind}&token=2")
    shown = set(
        page.evaluate(
            "[...document.querySelectorAll('section:not([hidden]) > [id^=panel]')].map((x) => x.id.slice(6))"
        )
    )
    searched = {"beam", "time", "forest", "attention"}
    attached = {*searched, "tape", "attachment"}
    expected = {"base": {"attention"}, "treereg": {"attention", "splits"}, "rnn": {"stacks"}}
    expected |= {"stack-attention": {"attention", "stacks"}, "pushdown": attached, "window": attached}
    expected |= {"tg": {*searched, "actions"}, "plm": {*searched, "actions"}}
    assert shown == {"surprisals", "whole", *expected[kind]}
    if kind == "pushdown":
        page.select_option("#panel-attention select >> nth=1", "difference:depth")
        page.click(".pickcolumn >> nth=1")
        assert "difference in points" in page.inner_text("#panel-attention")
    if kind == "treereg":
        rows = [row.split("\t") for row in page.inner_text("#panel-splits tbody").split("\n")]
        trace = page.evaluate(f"packed('trace-0-{KINDS.index(kind)}')")
        for row, node in zip(rows, trace["splits"], strict=True):
            shown = [cell for cell in row if cell not in ("", "·")]
            assert shown == [f"{score:.2f}" for score in node["scores"]]
            assert row.index("·") == node["first"]
        bold = page.locator("#panel-splits b").all_inner_texts()
        assert bold == [f"{max(node['scores']):.2f}" for node in trace["splits"]]
    assert opened["kinds"].complaints == []


def test_an_svg_that_is_saved_stands_alone(opened: dict[str, Opened], tmp_path: Path) -> None:
    page = opened["hostile"].go("token=5")
    for where in ("#panel-forest", "#panel-surprisals"):
        with page.expect_download() as waiting:
            page.click(f"section:has({where}) >> text=SVG")
        waiting.value.save_as(tmp_path / "saved.svg")
        root = ElementTree.parse(tmp_path / "saved.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "שלום" in "".join(root.itertext())
