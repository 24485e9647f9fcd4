"""The page of ``pdtools serve`` in a real browser (Debian: ``apt-get install chromium``), or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from serve_client import TOKEN, served

import pdtools
from pdtools.cli.main import run
from pdtools.provenance.hub import find_model
from pdtools.search.model import ModelSettings
from pdtools.search.options import SearchOptions
from pdtools.serve.answers import Answers, load

TEXT = "The dog that chased the cats barks."
HOSTILE = "<script>window.hit=1</script> <img/src=x/onerror=window.hit=2> 'barks' & \u202e \u2028 $x$"
TABLE = """item,condition,sentence
1,match,The dog | that chased | the cats | barks | .
1,mis<b>match,The dog | that chased | the cats | bark | .
2,match,The cat | that chased | the dogs | sleeps | .
2,mis<b>match,The cat | that chased | the dogs | sleep | .
"""


class Opened:
    """A page in the browser, and what it complained of or asked for."""

    def __init__(self, browser: Any, address: str, *, width: int = 1280) -> None:
        self.complaints: list[str] = []
        self.origin = address.partition("/?")[0]
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="dark")
        self.page = self.context.new_page()
        self.page.on("console", lambda said: said.type == "error" and self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", self._asked)
        self.page.goto(address)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.origin, "blob:", "data:")):
            self.complaints.append(request.url)

    def ask(self, kind: str, *texts: str) -> Any:
        self.page.check(f"input[value={kind}]")
        for field, text in zip(("#text", "#bad"), texts, strict=False):
            self.page.fill(field, text)
        self.page.focus("#text")
        self.page.keyboard.press("Enter")
        return self.drawn(texts[0])

    def drop(self, name: str, table: str) -> None:
        self.page.evaluate(
            """([name, text]) => {
                const moved = new DataTransfer();
                moved.items.add(new File([text], name));
                document.dispatchEvent(new DragEvent("drop", { dataTransfer: moved, bubbles: true }));
            }""",
            [name, table],
        )

    def drawn(self, title: str) -> Any:
        self.page.wait_for_selector(f"#shown h1:has-text({title!r})", timeout=30_000)
        self.page.wait_for_selector("body[data-ready]", timeout=30_000)
        return self.page


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    search = SearchOptions(beam=20)
    models = [
        ModelSettings(model_dir=find_model(name).folder, search=search) for name in ("demo", "demo-base")
    ]
    with served(Answers(load(models)), tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Opened]:
    found = Opened(browser, address)
    yield found
    assert found.page.evaluate("window.hit") is None
    assert found.complaints == []
    found.context.close()


def bars(page: Any, panel: str) -> list[str]:
    """The numbers above the bars of the first model."""
    return page.locator(f"#panel-{panel} .column > text:nth-of-type(1)").all_text_contents()


def test_a_sentence_is_typed_and_stepped_through(opened: Opened) -> None:
    page = opened.page
    assert page.url == f"{opened.origin}/"
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("document.activeElement.id") == "text"
    opened.ask("sentence", TEXT)
    expected = pdtools.load("demo", beam=20).surprisal(TEXT)["surprisal"]
    assert bars(page, "surprisals") == [f"{bits:.1f}" for bits in expected]
    assert TOKEN not in page.url
    before = page.text_content(".where")
    page.keyboard.press("ArrowLeft")
    assert page.text_content(".where") != before
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "text"
    link = page.url
    page.check("#words")
    page.focus("#text")
    page.keyboard.press("Enter")
    page.wait_for_selector("#panel-written .column")
    words = pdtools.load("demo", beam=20).surprisal(TEXT, words=True)["surprisal"]
    assert bars(page, "written") == [f"{bits:.1f}" for bits in words]
    # The link shows the same to another tab, at the same token.
    other = opened.context.new_page()
    other.goto(link)
    other.wait_for_selector("body[data-ready]")
    assert other.url == link
    assert other.input_value("#text") == TEXT
    assert not other.is_checked("#words")
    other.close()


def test_a_pair_what_next_and_this_visit(opened: Opened) -> None:
    page = opened.ask("pair", "The dogs bark.", "The dogs barks.")
    margin = pdtools.load("demo", beam=20).score([("The dogs bark.", "The dogs barks.")])["margin_bits"][0]
    assert f"bad − good = +{margin:.2f}" in page.inner_text(".pair")
    opened.ask("next", "The dog that")
    expected = pdtools.load("demo", beam=20).next_token("The dog that", 20)
    rows = page.locator("#shown table").first.locator("tbody tr").all_inner_texts()
    assert [row.split("\t")[1] for row in rows] == expected["token"].tolist()
    assert [row.split("\t")[3] for row in rows] == [f"{p:.4f}" for p in expected["probability"]]
    page.click("text=This visit")
    page.click("#past button >> nth=-1")
    opened.drawn("The dogs bark.")
    assert "text=The+dogs+bark." in page.url
    assert page.input_value("#bad") == "The dogs barks."


@pytest.mark.parametrize("words", [False, True])
def test_a_table_is_dropped_and_downloaded(opened: Opened, tmp_path: Path, words: bool) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    page = opened.page
    if words:
        page.check("#words")
    opened.drop("stimuli.csv", TABLE)
    opened.drawn("stimuli.csv")
    page.wait_for_selector("#shown svg[role=img]")
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "downloaded.csv")
    (tmp_path / "stimuli.csv").write_text(TABLE)
    models = ["--model", "demo", "--model", "demo-base", "--beam", "20", "--device", "cpu"]
    command = ["surprisal", str(tmp_path / "stimuli.csv"), *models, *["--words"] * words]
    assert run([*command, "-o", str(tmp_path / "expected.csv")]) == 0
    assert (tmp_path / "downloaded.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()


def test_texts_are_texts(browser: Any, address: str) -> None:
    """The attack of view's pages, through this door: in messages and in the address."""
    opened = Opened(browser, address, width=400)
    page = opened.page
    page.fill("#text", HOSTILE)
    page.keyboard.press("Enter")
    page.wait_for_selector("#said:has-text('words unknown')")
    assert "<script>window.hit=1</script>" in page.inner_text("#said")
    page.goto(
        f"{opened.origin}/?x#do=next&text=%22%3E%3Cscript%3Ewindow.hit%3D3%3C%2Fscript%3E&bad=x&beam=%3Cb%3E"
    )
    page.wait_for_selector("#said:has-text('unknown words')")
    page.evaluate("location.hash = '#do=%22%5D&text=The+dog+barks.'")
    opened.drawn("The dog barks.")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate(
        "[...document.querySelectorAll('button')].every((b) => b.textContent || b.ariaLabel)"
    )
    assert page.evaluate("window.hit") is None
    assert "undefined" not in page.inner_text("body")
    assert all("400 (Bad Request)" in each for each in opened.complaints)
    opened.context.close()


def test_a_link_of_another_site_opens_the_page(opened: Opened) -> None:
    """The browser keeps the cookie from such a visit; the page visits itself."""
    opened.page.route(
        "http://course.example/**",
        lambda route: route.fulfill(
            content_type="text/html", body=f'<a href="{opened.origin}/#text=The+dog+barks.">a link</a>'
        ),
    )
    opened.page.goto("http://course.example/")
    opened.page.click("a")
    opened.drawn("The dog barks.")
    assert opened.page.url.startswith(f"{opened.origin}/#text=The+dog+barks.")
    opened.complaints = [
        each for each in opened.complaints if "course.example" not in each and "403" not in each
    ]
    # Whoever has no cookie sees why.
    other = opened.context.browser.new_page()
    other.goto(f"{opened.origin}/#text=The+dog+barks.")
    other.wait_for_selector("text=Open the address that pdtools serve printed")
    other.close()


def test_a_server_that_is_gone_is_a_message(browser: Any, tmp_path: Path) -> None:
    from fake_answers import FakeAnswers

    with served(FakeAnswers(), tmp_path) as address:
        opened = Opened(browser, address)
    opened.page.fill("#text", "quick")
    opened.page.keyboard.press("Enter")
    opened.page.wait_for_selector("#said:has-text('is pdtools serve still running')")
    opened.context.close()


@pytest.mark.parametrize("first", ["table", "ask"])
def test_a_table_and_a_sentence_do_not_end_each_other(opened: Opened, first: str) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    page, held = opened.page, []
    page.route(f"**/{first}", lambda route: held.append(route))
    if first == "table":
        opened.drop("stimuli.csv", TABLE)
        opened.ask("sentence", TEXT)
    else:
        page.fill("#text", TEXT)
        page.click("text=Ask")
        opened.drop("stimuli.csv", TABLE)
        opened.drawn("stimuli.csv")
    held[0].continue_()
    page.wait_for_selector("#said:has-text('is done: it is among')", timeout=30_000)
    assert page.locator("#past button").count() == 2
