"""Historical Penn treebanks, and Penn's brackets with ids or with words in brackets."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.trees import TransformCounts, normalize, read_trees
from pdtools.trees.forms import forms_of, read_treebank
from pdtools.trees.tree import unescape
from trees.forms.reading import read_file, spans_of

LEMMAS = """( (IP-MAT (NP-SBJ (D The-the) (N hound$-hound) (D $s-the))
         (PP (P (CODE {in})) (NP *ICH*-1))
         (VBD to-day-bark) (CODE {COM:a_remark})
         (CP-THT=2 (C 0) (IP-SUB (NP-SBJ-3 *pro*) (VBD ran-run) (, ---)))
         (. .-.)) (ID SAGA,.1))

( (CODE <heading>) (META (N Chapter-chapter) (CODE {COM:big})) (CODE </heading>) (ID SAGA,.2))
( (CODE <P_12>))
( (METADATA (AUTHOR anon) (YEAR 1500)) (REF x))

(FRAG (NP {COM:gap} (N end-end)))
"""


def test_ids_comments_empty_leaves_and_lemmas_go(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(("\ufeff" + LEMMAS).replace("\n", "\r\n").encode())
    counts: Counter[str] = Counter()
    read, others = read_file("penn-historical", tmp_path / "a", counts)
    assert [str(one.tree) for one in read] == [
        "( (IP-MAT (NP-SBJ (D The) (N hound) (D s)) (VBD to-day) (CP-THT=2 (IP-SUB (VBD ran) (, -))) (. .)))",
        "( (META (N Chapter)))",
        "(FRAG (NP (N end)))",
    ]
    assert others == []
    assert counts == {
        "metadata left out: CODE": 6,
        "metadata left out: ID": 2,
        "metadata left out: METADATA": 1,
        "metadata left out: REF": 1,
        "metadata left out: {COM:}": 1,
        "empty leaves left out: *ICH*": 1,
        "empty leaves left out: *pro*": 1,
        "empty leaves left out: 0": 1,
        "lemmas and glosses cut off words": 9,
        "wrappers taken off": 2,
        "trees without words left out": 2,
    }


def test_lemmas_may_stay(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("( (IP (N $house$-house) (VB @-be)))")
    (read,), _ = read_file("penn-historical", tmp_path / "a", lemmas="keep")
    assert read.tree.words == ("house$-house", "-be")


def test_words_with_hyphens_are_no_lemmas(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("( (IP (ADV to-morrow) (PRO we) (VB go) (NP *T*-1)) (ID A,.1))\n")
    (read,), _ = read_file("penn-historical", tmp_path / "a")
    assert read.tree.words == ("to-morrow", "we", "go")


EMPTY = [
    *("(NP-SBJ *T*-1)", "(PP *ICH*-2)", "(NP *con*)", "(NP *con*-3)", "(NP-SBJ *exp*)", "(NP-SBJ2 *arb*-D)"),
    *("(NP *)", "(CONJ *)", "(C 0)", "(WNP-1 0)", "(BREAK 0)", "(NP-OB1 *を*)", "(P *に*)", "(NP *speaker*)"),
]
PRINTED = ["(PU ***)", "(NUM 0)", "(N *sigh*)", "(N *x)", "(N 0.5)", "(ADJ {gloss})", "(N $)", "(N -)"]


def test_empty_leaves_are_told_by_form_and_label(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"( (IP {' '.join(EMPTY)} (V b)))\n\n( (IP {' '.join(PRINTED)}))\n")
    (first, second), _ = read_file("penn-historical", tmp_path / "a")
    assert first.tree.words == ("b",)
    assert second.tree.words == ("***", "0", "*sigh*", "*x", "0.5", "-LCB-gloss-RCB-", "$", "-")


def test_asterisks_alone_are_no_sentence(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("( (FRAG (P ***) (NP (D *)) (P ***)) (ID a))\n( (FRAG (N a) (P ***)))\n")
    (read,), (other,) = read_file("penn-historical", tmp_path / "a")
    assert read.tree.words == ("a", "***")
    assert other.excluded.reason == "asterisks alone (***)"


WORDS = [
    (
        "( (VERSION (FORMAT dash) (HASH (MD5 d4))))\n\n( (IP (N dog-dog) (V ran-run)) (ID A,.1))\n",
        ("dog", "ran"),
    ),
    ("( (IP (NP (D Li@l=le) (N roi@rl=roi@rt=NC)) (V 0@l=0) (P a@l=a)))", ("Li", "roi", "0", "a")),
    ("( (IP (N kale^the_bride) (H u@^and) (H $kl^all) (V hob)))", ("kale", "u", "kl", "hob")),
    (
        "( (IP (N a) (, ,-,) (N a-b) (N --) (: ---) (: ;-;^half_stop) (. ?!-?!)))",
        ("a", ",", "a-b", "--", "---", ";", "?!"),
    ),
    ("( (IP (V 0) (N 0) (PRO 0) (CONJ 0) (D @0) (NUM 0) (NUM-N 0) (V x)))", ("0", "0", "x")),
    (
        "( (IP (N a) (PUNC <paren>) (N b<dash/>c) (PUNC <$$paren>) (PUNC %EXCL%)))",
        ("a", "(", "b-c", ")", "!"),
    ),
]


@pytest.mark.parametrize(("text", "words"), WORDS)
def test_words_as_corpora_mark_them(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text)
    (read,), others = read_file("penn-historical", tmp_path / "a")
    assert (tuple(map(unescape, read.tree.words)), others) == (words, [])


DEEP = """( (VERSION (FORMAT deep)))

( (IP-MAT (META (INDEX 1) (IDX-TYPE regular))
   (NP-SBJ (PRO (ORTHO She) (META (LEMMA she) (OLD (TAG pro)))))
   (NP (ALT-ORTHO *T*) (META (INDEX 1))) (C (ORTHO 0))
   (VBD (ORTHO ran) (META (LEMMA run))) (. (ORTHO .))) (ID A,.1))

( (META (N (ORTHO Chapter) (META (LEMMA chapter)))) (ID A,.2))
"""


def test_words_of_the_deep_format(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(DEEP)
    read, others = read_file("penn-historical", tmp_path / "a")
    assert [str(one.tree) for one in read] == [
        "( (IP-MAT (NP-SBJ (PRO She)) (VBD ran) (. .)))",
        "( (META (N Chapter)))",
    ]
    assert others == []


LEMMATIZED = """(
 (S (sn.e-SUJ *0*)
  (grup.verb (vmis3s0 compró comprar))
  (sn (espec.fs (da0fs0 la el))
      (grup.nom.fs (ncfs000 casa casa) (Fpa -Fpa- -Fpa-) (Z 3 3) (Fpt -Fpt- -Fpt-)))
  (Fp . .)))
"""


@pytest.mark.parametrize("number", ["", "12 "])
def test_lemmas_after_words(number: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(number + LEMMATIZED)
    found = forms_of([str(tmp_path / "a")], "treebank")
    assert found is not None
    counts: Counter[str] = Counter()
    (read,), _ = read_file(found.name, tmp_path / "a", counts)
    assert str(normalize(read.tree)) == (
        "(S (grup.verb (vmis3s0 compró)) (sn (espec.fs (da0fs0 la)) (grup.nom.fs (ncfs000 casa) (Fpa -LRB-)"
        " (Z 3) (Fpt -RRB-))) (Fp .))"
    )
    assert counts == {"lemmas left out": 7} | ({"ids before trees left out": 1} if number else {})


@pytest.mark.parametrize(
    "text",
    [
        *("(S (NP the dog) (VP bit him))", "(S (NP (DT the) (NN dog)) (VP so so))", "(S (X a a) (Y b))"),
        "(S (S a a) (S (S b b) (S a a)))",
    ],
)
def test_words_without_tags_are_no_lemmas(text: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text)
    assert forms_of([str(tmp_path / "a")], "treebank") is None


FAILED = ["(S )", "( (S ))", "(TOP (S))", "(())", "(S1 (S\n))", "()"]


@pytest.mark.parametrize("failed", FAILED)
@pytest.mark.parametrize(
    "good", ["", "(S (NN dog) (VP (VBZ barks)))\n", "(S (NN (dog)) (VP (VBZ (barks))))\n"]
)
def test_failed_parses_have_no_words(failed: str, good: str, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text(f"{good}{failed}\n" * 2)
    found = forms_of([str(file)], "treebank")
    rejects = Rejects("skip")
    read: Iterable[Any] = read_trees([str(file)], rejects)
    if found is not None:
        read = read_treebank([str(file)], found.name, rejects)
    assert [one.tree.words for one in read] == [("dog", "barks")] * (2 if good else 0)
    assert {record["reason"] for record in rejects} <= {"tree without words", "constituent without words"}
    assert len(list(rejects)) == 2


LOOSE = """1\t(S\t(NP  (NN\t  (rumah)))  (VP (VB  (pergi))\t(NP (*-1)) (SBAR (0) (S (NP (*T*-2)) (CD (0))))))
2b (S (NN (pesta  olah raga)) (Z (,)))  (NP-SBJ (NN (a)) (*))
"""


def test_words_in_brackets_and_ids(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(LOOSE.replace("\n", "\r\n").encode())
    counts: Counter[str] = Counter()
    read, others = read_file("penn-loose", tmp_path / "a", counts)
    taken_out = TransformCounts()
    assert [str(normalize(one.tree, counts=taken_out)) for one in read] == [
        "(S (NP (NN rumah)) (VP (VB pergi) (SBAR (S (CD 0)))))",
        "(S (NN pesta\u00a0olah\u00a0raga) (Z ,))",
        "(NP (NN a))",
    ]
    (tmp_path / "a").write_text("(S (N (a)) (V (c)) b)\n")  # a word among them without brackets
    (one,), _ = read_file("penn-loose", tmp_path / "a")
    assert str(one.tree) == "(S (N a) (V c) b)"
    assert others == []
    assert counts["ids before trees left out"] == 2
    assert taken_out.kinds == {"*": 2, "*T*": 1, "0": 1}


def test_ids_before_ordinary_brackets(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(
        "12\t(S (NP (NN a)) (VP (-NONE- *)))\n13\t(S\n  (N b))\n\n14 (S (CODE x))\n15\t(S (N c)\n"
    )
    read, others = read_file("penn-loose", tmp_path / "a")
    assert [one.tree.words for one in read] == [("a", "*"), ("b",)]
    assert [(other.line, other.reason) for other in others] == [  # type: ignore[union-attr]
        (5, "(CODE …) is no part of a tree: parse --from penn-historical reads it"),
        (6, "unbalanced brackets: not closed"),
    ]


@pytest.mark.parametrize("name", ["penn-historical", "penn-loose"])
def test_broken_brackets_cost_no_other_tree(name: str, tmp_path: Path) -> None:
    good = "( (S (N a) (V b)))\n"
    (tmp_path / "a").write_text(
        f"{good}\n( (S (N a\n\n{good}text\n{good}\n(S (N a)))\n\n{good})\n{good}( (S (N"
    )
    read, others = read_file(name, tmp_path / "a")
    assert len(read) == 5
    assert [(other.line, other.reason) for other in others] == [  # type: ignore[union-attr]
        (3, "unbalanced brackets: not closed"),
        (6, "text between trees"),
        (9, "unbalanced brackets: closed too often"),
        (12, "text between trees"),
        (14, "unbalanced brackets: not closed"),
    ]


@pytest.mark.parametrize("name", ["discbracket", "penn-historical", "penn-loose"])
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("(S (N 0=a))) ((S (N 0=b))", "unbalanced brackets: closed too often"),
        ("(S (N 0=a)) text", "text between trees"),
    ],
)
def test_brackets_that_balance_in_number_alone(name: str, broken: str, reason: str, tmp_path: Path) -> None:
    good = "(S (N 0=a) (V 1=b))\n"
    text = f"{good}{broken}\n{good}"
    (tmp_path / "a").write_text(text if name == "discbracket" else re.sub(r"\d=", "", text))
    read, (other,) = read_file(name, tmp_path / "a")
    assert [one.tree.words for one in read] == [("a", "b")] * 2
    assert (other.line, other.reason) == (2, reason)  # type: ignore[union-attr]


# --- real files ---------------------------------------------------------------------------------

PARLIAMENT = [f"additions2019/althingi/bo/2013/G-33-{n}.psd" for n in (4656263, 4666392, 4727062)]
PARLIAMENT += [f"additions2019/althingi/bo/2013/G-33-{n}.psd" for n in (4743644, 4894243, 4927514)]
HISTORICAL = {
    "icepahc_sample": (
        ["1150.firstgrammar.sci-lin", "1883.voggur.nar-fic", "2008.ofsi.nar-sag"],
        "finished/{}.psd",
        (1523, 28035),
    ),
    "icepahc_sample parliament": (PARLIAMENT, "{}", (61, 1072)),
    "keyaki_sample Akutagawa": (["Akutagawa-1922"], "treebank/aozora_{}.psd", (152, 2772)),
    "keyaki_sample Joyce": (["Joyce-1914"], "treebank/aozora_{}.psd", (245, 4587)),
    "keyaki_sample Kajii": (["Kajii-1925"], "treebank/aozora_{}.psd", (145, 3007)),
}


def plainly(text: str) -> list[list[tuple[str, int, int]]]:
    """The spans of a historical file by another reader, which rewrites the text and reads the rest."""
    text = re.sub(r"\((?:ID|CODE) [^()]*\)", "", text)
    text = re.sub(r"\([^\s()]+ (?:\*(?:-\d+)?|\*[^*\s()]+\*[^\s()]*)\)|\((?:C|P|BREAK|W\S+) 0\)", "", text)
    found: list[list[tuple[str, int, int]]] = []
    path: list[tuple[str, int]] = []
    n_words = 0
    for label, word, closing in re.findall(r"\(\s*([^\s()]*)(?:\s+([^\s()]+)\))?|(\))", text):
        if not path and not closing:
            n_words = 0
            found.append([])
        if word:
            n_words += 1
        elif not closing:
            path.append((label, n_words))
        elif path:
            label, start = path.pop()
            found[-1] += [(label, start, n_words)] if start < n_words else []
    return [spans for spans in found if spans]


@pytest.mark.parametrize("name", HISTORICAL)
def test_real_historical_treebanks(name: str, treebank_file: Callable[[str, str], Path]) -> None:
    members, pattern, (n_sentences, n_words) = HISTORICAL[name]
    files = [treebank_file(name.split()[0], pattern.format(member)) for member in members]
    trees = [one.tree for file in files for one in read_file("penn-historical", file)[0]]
    assert (len(trees), sum(map(len, trees))) == (n_sentences, n_words)
    wanted = [spans for file in files for spans in plainly(file.read_text("utf-8"))]
    wanted = wanted[1:] if "Joyce" in name else wanted  # a line of asterisks
    assert [sorted(spans_of(tree)) for tree in trees] == [sorted(spans) for spans in wanted]
    if "icepahc" in name:
        assert sum("-" in word[1:-1] for tree in trees for word in tree.words) < 100
        assert not any("$" in word for tree in trees for word in tree.words)


def test_a_real_file_of_penn_trees_is_of_no_other_form(test_data: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(test_data / "benchmarks" / "reading" / "naturalstories.zip") as packed:
        file = packed.extract("parses/penn/all-parses.txt.penn", tmp_path)
    assert forms_of([file], "treebank") is None
    trees = [normalize(one.tree) for one in read_trees([file], Rejects())]
    assert (len(trees), sum(len(tree) for tree in trees if tree)) == (485, 11729)


@pytest.mark.parametrize("ids", ["", "_ID"])
def test_a_real_treebank_with_words_in_brackets(ids: str, treebank_file: Callable[[str, str], Path]) -> None:
    file = treebank_file("idn_treebank", f"Indonesian_Treebank{ids}.bracket")
    counts: Counter[str] = Counter()
    read, others = read_file("penn-loose", file, counts)
    trees = [normalize(one.tree, counts=TransformCounts()) for one in read]
    assert (len(trees), sum(len(tree) for tree in trees if tree), others) == (1033, 27115, [])
    assert counts["ids before trees left out"] == (1030 if ids else 0)
    leaves = re.findall(r"\(([A-Z$]+|[^\sA-Za-z()]+)\s*\(\s*([^()]*?)\s*\)\s*\)", file.read_text("utf-8"))
    words = [re.sub(r"\s+", "\u00a0", word) for tag, word in leaves if not word.startswith("*")]
    assert sorted(words) == sorted(word for tree in trees if tree for word in tree.words)


@pytest.mark.parametrize(
    ("name", "good", "broken"),
    [
        ("discbracket", "(S (N 0=a) (V 1=b))", "(S (N 0=a) (V 1=b)"),
        ("penn-historical", "( (S (N a) (V b)))", "( (S (N a) (V b))"),
        ("penn-loose", "12\t(S (N a) (V b))", "13\t(S (N a) (V b)"),
    ],
)
@pytest.mark.parametrize("place", [0, 3])
def test_of_one_tree_a_line_a_broken_one_costs_no_other(
    name: str, good: str, broken: str, place: int, tmp_path: Path
) -> None:
    lines = [good] * 7
    lines[place] = broken
    (tmp_path / "a").write_text("\n".join(lines))
    read, (other,) = read_file(name, tmp_path / "a")
    assert len(read) == 6
    assert (other.line, other.reason) == (place + 1, "unbalanced brackets: not closed")  # type: ignore[union-attr]


def test_lines_at_the_margin_within_good_trees_are_no_trees(tmp_path: Path) -> None:
    good = "(S\n(N 0=a)\n(V 1=b))\n"
    (tmp_path / "a").write_text(f"{good}{good}(S\n(N 0=a)\n(V 1=b)\n\n{good}")
    read, (other,) = read_file("discbracket", tmp_path / "a")
    assert len(read) == 3
    assert other.line == 7  # type: ignore[union-attr]


def test_counts_are_those_of_what_is_read(tmp_path: Path) -> None:
    """Neither of trees that are refused, nor of what is not there."""
    (tmp_path / "a").write_text("(IP (C 0) (V x))\n\n(IP (NP *pro*) (V y)\n")
    counts: Counter[str] = Counter()
    read, others = read_file("penn-historical", tmp_path / "a", counts)
    assert (len(read), len(others)) == (1, 1)
    assert counts == {"empty leaves left out: 0": 1}


def test_few_words_with_hyphens_are_no_evidence(tmp_path: Path) -> None:
    file = tmp_path / "a.psd"
    file.write_text("(S (JJ well-known) (NN ice-cream) (VP (VBZ co-operates)))")
    assert forms_of([str(file)], "treebank") is None
    file.write_text("(S" + " (N dogs-dog)" * 50 + ")")
    found = forms_of([str(file)], "treebank")
    assert found is not None
    assert found.name == "penn-historical"


def test_plain_brackets_beside_historical_ones_are_refused(tmp_path: Path) -> None:
    plain, historical = tmp_path / "a.mrg", tmp_path / "b.psd"
    plain.write_text("(S (NNP US$) (VBD rose))")
    historical.write_text("( (S (N x)) (ID A))")
    for files in ([plain, historical], [historical, plain]):
        with pytest.raises(InputError, match=r"a\.mrg: not like .*b\.psd, which is a historical"):
            forms_of(map(str, files), "treebank")
        assert forms_of(map(str, files), "penn-historical") is not None


# Numbers of trees and of words, and lengths of the words of the last tree.
CASES = {
    "c1_version.psd": (2, 7, [2, 5, 1]),
    "c1b_version.psd": (20, 120, [3, 6, 4, 2, 6, 1]),
    "c2_deep.psd": (1, 3, [2, 5, 1]),
    "c5_lemma_at.psd": (2, 10, [2, 4, 5, 1]),
    "faro.psd": (2, 13, [2, 3, 2, 3, 3, 1]),
    "yid.psd": (2, 5, [7]),
    "ice.psd": (1, 4, [12, 3, 1, 1]),
}


@pytest.mark.parametrize("name", CASES)
def test_cases_that_went_wrong(name: str, test_data: Path) -> None:
    file = test_data.parent / "cases" / "4" / name
    if not file.is_file():
        pytest.skip(f"no case {file}")
    trees = [one.tree for one in read_file("penn-historical", file)[0]]
    assert (len(trees), sum(map(len, trees)), [*map(len, trees[-1].words)]) == CASES[name]
