"""Splitting text into words and joining words into text."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.errors import PdtoolsError
from pdtools.tokenization import aligned, join_words, split_spaces, split_words

TEXT = st.text(max_size=60)
QUOTED = st.text(alphabet="ab \"'`.,(n\u00a0\u2019\u201c", max_size=30)


def _words(spaced: str) -> tuple[str, ...]:
    return tuple(spaced.split(" "))


@pytest.mark.parametrize("style", ["ptb", "raw"])
@given(text=TEXT | QUOTED)
def test_any_string_is_split_with_right_offsets(style: str, text: str) -> None:
    sentence = split_words(text, style)
    assert "".join(text.split()) == "".join(
        "".join(text[s:e].split()) for s, e in zip(sentence.starts, sentence.ends, strict=True)
    )
    edges = [edge for span in zip(sentence.starts, sentence.ends, strict=True) for edge in span]
    assert edges == sorted(edges)
    for word, start, end in zip(sentence.words, sentence.starts, sentence.ends, strict=True):
        surface = text[start:end]
        assert surface.strip() == surface != ""
        assert word == surface or (style == "ptb" and word in ("``", "''") and surface == '"')


def test_styles_differ_in_quotes_only() -> None:
    text = 'He said, "I can\'t," (twice).'
    ptb, raw = split_words(text, "ptb"), split_words(text, "raw")
    assert ptb.words == _words("He said , `` I ca n't , '' ( twice ) .")
    assert raw.words == _words('He said , " I ca n\'t , " ( twice ) .')
    assert (ptb.starts, ptb.ends) == (raw.starts, raw.ends)
    assert raw.space_before == tuple(bool(flag) for flag in (0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0))


@pytest.mark.parametrize("text", ['""', "''\"", '"""x', "a '' \" `` ''", "'''", "\"''\"", "``x''"])
def test_quotes_that_nltk_cannot_align(text: str) -> None:
    sentence = split_words(text, "raw")
    assert "".join(sentence.words) == text.replace(" ", "")


def test_free_standing_quotes_open_and_close() -> None:
    sentence = split_words('She said " no " and " yes " .', "ptb")
    assert sentence.words == _words("She said `` no '' and `` yes '' .")
    spaced = "She said `` no '' ."
    assert split_words(spaced, "ptb").words == tuple(spaced.split())


@pytest.mark.parametrize("space", ["  ", "\t", "\n", "\r\n", "\u00a0", "\u2009", "\u3000", "\x85"])
@pytest.mark.parametrize("style", ["ptb", "raw"])
def test_every_space_is_one(space: str, style: str) -> None:
    text = """The dog's " tail " isn't ("here") - 'tis "there", we're gonna say: "No." 5 % , $ 3"""
    plain, other = split_words(text, style), split_words(text.replace(" ", space), style)
    assert other.words == plain.words
    assert other.text == text.replace(" ", space)
    assert other.space_before == plain.space_before


def test_contractions_keep_their_offsets() -> None:
    sentence = split_words("I cannot; I'm gonna.", "raw")
    assert sentence.words == ("I", "can", "not", ";", "I", "'m", "gon", "na", ".")
    assert all(
        sentence.text[s:e] == word
        for word, s, e in zip(sentence.words, sentence.starts, sentence.ends, strict=True)
    )


def test_curly_apostrophes_split_like_straight_ones() -> None:
    sentence = split_words("Kim’s O’Neil doesn’t.", "raw")
    assert sentence.words == ("Kim", "’s", "O’Neil", "does", "n’t", ".")
    assert join_words(sentence.words, "raw") == sentence


def test_unknown_style() -> None:
    with pytest.raises(PdtoolsError, match="ptb, raw"):
        split_words("x", "moses")


def test_split_spaces_leaves_other_spaces_alone() -> None:
    sentence = split_spaces(" 5\u00a0mg  of\u2009it\t. ")
    assert sentence.words == ("5\u00a0mg", "of\u2009it\t.")
    assert sentence.starts == (1, 7)
    assert split_spaces("").words == split_spaces("  ").words == ()


def test_white_space_belongs_to_the_word_after_it() -> None:
    sentence = split_words("  ab, c ", "raw")
    assert sentence.words == ("ab", ",", "c")
    assert [sentence.word_at(start) for start in range(len(sentence.text))] == [0, 0, 0, 0, 1, 2, 2, 2]


@given(words=st.lists(st.text(alphabet="ab.\u00a0'\"()", min_size=1), max_size=8))
def test_ptb_text_is_words_between_single_spaces(words: list[str]) -> None:
    sentence = join_words(words, "ptb")
    assert sentence.text == " ".join(words)
    assert sentence == split_spaces(sentence.text)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("The dog did n't bark .", "The dog didn't bark."),
        ("It 's Kim 's , is n't it ?", "It's Kim's, isn't it?"),
        (
            "They 'd 've said we 'll go ; I 'm sure they 're in !",
            "They'd've said we'll go; I'm sure they're in!",
        ),
        ("`` Yes , '' she said , `` I ca n't . ''", '"Yes," she said, "I can\'t."'),
        ('He said " no " and " yes " .', 'He said "no" and "yes".'),
        ("It cost ( say ) $ 5.20 , or 3 % [ net ] .", "It cost (say) $5.20, or 3% [net]."),
        ("The dogs ' tails", "The dogs' tails"),
        ("Many $ bills , and US $ 5", "Many $ bills, and US $5"),
        ("the 'dog and 'suddenly", "the 'dog and 'suddenly"),
        ("`` a `` b '' c \" d", '"a "b" c "d'),
        ("` Well , ' he said", "'Well,' he said"),
        ("You can not , and I 'm gon na", "You cannot, and I'm gonna"),
        ("Can not it ? 'T IS", "Cannot it? 'TIS"),
        ("Wait ... what -- now : then", "Wait... what -- now: then"),
        ("in the U.S. .", "in the U.S. ."),
        ("He said “ no ” , ‘ maybe ’", "He said “no”, ‘maybe’"),
        ("N'T FAIR", "N'T FAIR"),
        ("Wan na , got ta , Gim me , lem me , 't was", "Wanna, gotta, Gimme, lemme, 'twas"),
        ("He 'S here : she DID N’T , they ’VE", "He'S here: she DIDN’T, they’VE"),
        ("the dogs ’ tails .... so … then !", "the dogs’ tails.... so… then!"),
        ("« Bien » , „ ja ” { yes }", "«Bien», „ja” {yes}"),
        ("# .5 , £ 3 , € five , ¥ 1", "#.5, £3, € five, ¥1"),
        ("at 5 p.m. ... Mr. .", "at 5 p.m. ... Mr. ."),
        ("'' a \" b \" c", '" a "b" c'),
        ("", ""),
    ],
)
def test_raw_text_is_as_people_write(words: str, text: str) -> None:
    sentence = join_words(words.split(), "raw")
    assert sentence.text == text
    assert len(sentence.words) == len(words.split())
    assert [text[s:e] for s, e in zip(sentence.starts, sentence.ends, strict=True)] == list(sentence.words)


@pytest.mark.parametrize(
    ("words", "text", "spelled"),
    [
        ("`` No , '' he said", "“No,” he said", "“ No , ” he said"),
        ("`` No '' `` no ''", "\"No\" ''no``", "\" No \" '' no ``"),
        ("` no ’ ` no", "'no’ ‘no", "' no ’ ‘ no"),
        ("10\u00a0000 dogs", " 10 000  dogs ", None),
    ],
)
def test_words_of_a_tree_are_found_in_the_text(words: str, text: str, spelled: str | None) -> None:
    found = aligned(words.split(" "), text, "raw")
    assert found is not None
    assert found.text == text
    assert found.words == (("10 000", "dogs") if spelled is None else tuple(spelled.split()))
    assert tuple(text[s:e] for s, e in zip(found.starts, found.ends, strict=True)) == found.words
    assert aligned(words.split(" "), text, "ptb") == join_words(words.split(" "), "ptb")
    assert aligned(words.split(" "), f"{text} .", "raw") is None
    assert aligned([*words.split(" "), "."], text, "raw") is None


_NOUN = st.sampled_from(["dog", "dogs", "Kim", "U.N.", "co-op", "3,000", "1.5", "naïve", "can", "it"])
_PHRASE = st.one_of(
    st.tuples(_NOUN),
    st.tuples(_NOUN, st.sampled_from(["'s", "n't", "'ll", "'re", "'ve", "'d", "'m"]), _NOUN),
    st.tuples(st.just("``"), _NOUN, st.just("''"), _NOUN),
    st.tuples(st.just("("), _NOUN, _NOUN, st.just(")"), _NOUN),
    st.tuples(st.just("["), _NOUN, st.just("]")),
    st.tuples(st.just("$"), st.sampled_from(["5", "3.20", ".5"]), _NOUN),
    st.tuples(_NOUN, st.sampled_from([",", ";", ":", "%", "--", "...", "&"]), _NOUN),
    st.tuples(st.just("can"), st.just("not"), _NOUN),
    st.tuples(st.just("dogs"), st.just("'"), _NOUN),
)


@pytest.mark.parametrize("style", ["ptb", "raw"])
@given(phrases=st.lists(_PHRASE, min_size=1, max_size=6), end=st.sampled_from([".", "?", "!"]))
def test_splitting_undoes_joining(style: str, phrases: list[tuple[str, ...]], end: str) -> None:
    joined = join_words([word for phrase in phrases for word in phrase] + [end], style)
    assert split_words(joined.text, style) == joined


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Filby—an argumentative person—rose.", "Filby — an argumentative person — rose ."),
        ("“I … that”—he stopped…. Mr. ⸺ left.", "“ I … that ” — he stopped … . Mr. ⸺ left ."),
        ("‘’Tis’ well, ’tis said.", "‘ ’ Tis ’ well , ’ tis said ."),
        ("They didn’t ask the dogs’ names.", "They did n’t ask the dogs ’ names ."),
    ],
)
@pytest.mark.parametrize("style", ["ptb", "raw"])
def test_typographic_signs(text: str, words: str, style: str) -> None:
    assert split_words(text, style).words == _words(words)


@pytest.mark.parametrize(
    "before",
    ["", "import scipy.stats;", "import scipy.sparse;", "import threading; threading.Timer(9, int).start();"],
)
def test_splitting_leaves_nltk_and_scipy_as_they_are(before: str) -> None:
    """Words are split without scipy's parts, which are there for whoever imports them, and nltk's test."""
    pytest.importorskip("scipy")
    code = f"""{before}
import sys, os
from pdtools.tokenization import split_words
assert split_words("Don't!", "ptb").words == ("Do", "n't", "!")
assert ("scipy.stats" in sys.modules) == {"stats" in before or "thread" in before}
assert ("scipy.sparse" in sys.modules) == {bool(before)}
from nltk.metrics import BigramAssocMeasures
import scipy.stats
expected = scipy.stats.fisher_exact([[8, 2], [1, 5]], alternative="less")[1]
assert BigramAssocMeasures.fisher(8, (10, 9), 16) == expected
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
