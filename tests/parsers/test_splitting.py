"""Where sentences of running text begin, on sentences made up for each rule; ``|`` marks the ends wanted."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("spacy", reason="spacy is not installed")

from pdtools.parsers.splitting import SentenceSplitter

SPLITTER = SentenceSplitter()


@pytest.mark.parametrize(
    "marked",
    [
        "One goes.|Two goes!|Three goes?|Four",
        # quotes belong to what they enclose
        "So said Mr. Brown.|“Run!|Now!”|He ran.",
        "‘Stay.’|“Why?”|(He stayed.)|[So did she.]|«Bien.»|He left.",
        '"Come in."|"I will."|She came.',
        "He left . ''|`` Come back . ''|So he did .",
        "“He said ‘go.’”|Then he went.",
        # no sentence ends before a small letter
        "“Are you mad?” she cried.|“No!” he said.",
        "What? why, then? said he.",
        "“Wait!” ‘tis late,’ he said.",
        # ellipses and dashes
        "I am well. …|There it is.|It is late….|We go.",
        "I … I do not know.|That … very thing.",
        "“I am …”|He stopped.",
        "“But I—” He stopped.",
        # abbreviations and initials
        "Dr. J. K. Smith met Mrs. Brown at St. Paul’s.|Messrs. Green & Co. were out.",
        "So did I.|He left.",
        "Mr. ⸺ came with Henry J. I. Smith.|They left.",
        "He came at 5 p.m. on Monday, i.e. late.",
        "See Fig.2 and example.com.|It cost 3.50 pounds.|9 men came.",
        "The Q.Z.X.Y.V.W. Company met.|Was it B?|It was Dr!|(He saw.)",
        # other scripts
        "他来了。|他走了！|好。",
        "वह आया।|वह गया।",
    ],
)
def test_rules(marked: str) -> None:
    for space in (" ", "  ", "\n"):
        if not marked[0].isascii() and marked[0] not in "“‘":
            space = ""
        text = marked.replace("|", space)
        if "He stopped" in marked and space == "\n" and "—" in marked:
            continue  # a line's end is of a test of its own
        starts = SPLITTER.starts(text)
        ends = [*starts[1:], len(text)]
        assert [text[a:b].strip() for a, b in zip(starts, ends, strict=True)] == marked.split("|")


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("“But I—”\nHe stopped.", 2),
        ("“But I—\n“No!”", 2),
        ("He met Mr ⸺\n“Who?”", 2),
        ('"But I--"\nHe stopped.', 2),
        ("“Well …”\n“No,”\nshe said.", 2),
        ("“Well,”\nshe said.", 1),
        ("It was a\nDanish ship", 1),
        ("the so-called “Great”\nWar", 1),
        ("He said:\n“Go.”", 1),
        ("a ship—\nthe Danish one", 1),
    ],
)
def test_ends_of_lines(text: str, sentences: int) -> None:
    assert len(SPLITTER.starts(text)) == sentences


@pytest.mark.parametrize("text", ["", "  \n ", "\n"])
def test_no_sentence(text: str) -> None:
    assert SPLITTER.starts(text) == []


def test_spaces_before_the_first_sentence_are_skipped() -> None:
    assert SPLITTER.starts("\n  One. Two.") == [3, 8]


@pytest.mark.parametrize("end", [" ", "\n", " \n\n"])
def test_spaces_after_the_last_sentence_begin_none(end: str) -> None:
    assert SPLITTER.starts(f"One. Two.{end}") == [0, 5]
    assert SPLITTER.starts(f"“One.” “Two …”{end}") == [0, 7]


@pytest.mark.parametrize("mark", [".", "!", "?!", "…", "….", ".…", "……!"])
@pytest.mark.parametrize("after", ["a", "”a", "” A", " A", ""])
def test_long_rows_of_marks_take_no_longer_than_text(mark: str, after: str) -> None:
    """And they end a sentence as short ones do."""
    before = time.process_time()
    found = SPLITTER.starts("No" + mark * 10_000 + after)
    assert time.process_time() - before < 2
    assert len(found) == len(SPLITTER.starts("No" + mark * 2 + after))
