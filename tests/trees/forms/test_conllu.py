"""Dependencies as constituents: CoNLL-U files, lifting, and what becomes of words that stand for several."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdtools.errors import InputError
from pdtools.trees import Tree, unbinarize
from pdtools.trees.forms import FORMS, form_of
from pdtools.trees.projection import bottom_up, depths, project, spans, tree_of_spans
from pdtools.trees.transforms import binarize_from_heads
from trees.forms.reading import read_file, spans_of

# du chat noir dort: "du" is "de" and "le"; an empty node after the third word.
FRENCH = """# text = Loin du chat (noir) dort.
1	Loin	loin	ADV	_	_	7	advmod	_	_
2-3	du	_	_	_	_	_	_	_	_
2	de	de	ADP	_	_	4	case	_	_
3	le	le	DET	_	_	4	det	_	_
3.1	x	x	_	_	_	_	_	0:root	_
4	chat	chat	NOUN	_	_	1	obl	_	_
5	(noir)	noir	ADJ	_	_	4	amod	_	_
6	20 000	20000	_	_	_	4	nummod	_	_
7	dort	dormir	VERB	_	_	0	root	_	SpaceAfter=No
8	.	.	PUNCT	_	_	7	punct	_	_

"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.conllu"


def rows(*words: tuple[str, int]) -> str:
    return (
        "".join(f"{i}\t{w}\t_\t{w.upper()}\t_\t_\t{h}\t_\t_\t_\n" for i, (w, h) in enumerate(words, 1)) + "\n"
    )


@pytest.mark.parametrize("comment", ["# text = a-b", "# text =a-b", "#text=a-b", "# text_en = c"])
def test_blanks_around_the_name_of_a_text_may_be_absent(comment: str, file: Path) -> None:
    """As in UD Vietnamese-VTB."""
    file.write_text(f"{comment}\n" + rows(("a", 2), ("-", 0), ("b", 2)))
    (read,), _ = read_file("conllu", file)
    assert read.written == ("a - b" if "_en" in comment else "a-b")


def test_a_merged_word_has_the_dependents_of_all_and_is_merged_before_lifting(file: Path) -> None:
    # "ab" is a (of c) and b (the root); c hangs on d, which hangs on b: a's arc would cross nothing more.
    file.write_text(
        "1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + rows(("a", 3), ("b", 0), ("c", 4), ("d", 2), ("e", 2))
    )
    counts: Counter[str] = Counter()
    (read,), _ = read_file("conllu", file, counts, surface=True)
    assert str(read.tree) == "(BP (B ab) (DP (C c) (D d)) (E e))"
    assert counts["arcs lifted"] == 0
    (read,), _ = read_file("conllu", file, counts)
    assert counts["arcs lifted"] == 2


def test_line_ends_blank_lines_comments_and_a_mark_at_the_beginning(file: Path) -> None:
    text = "# newdoc\n\n\n# sent_id = 1\n" + rows(("a", 2), ("b", 0)) + " \n" + rows(("c", 0))
    file.write_bytes(b"\xef\xbb\xbf" + text.rstrip().replace("\n", "\r\n").encode())
    read, others = read_file("conllu", file)
    assert [str(one.tree) for one in read] == ["(BP (A a) (B b))", "(C c)"]
    assert others == []


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (rows(("a", 2), ("b", 1)), 3, "the heads form a cycle"),
        (rows(("a", 0), ("b", 3), ("c", 2)), 3, "the heads form a cycle"),
        (rows(("a", 2), ("b", 0), ("c", 3)), 3, "word 3 is its own head"),
        (rows(("a", 1)), 3, "word 1 is its own head"),
        (rows(("a", 0), ("b", 3)), 3, "the head of word 2 is 3, but there are 2 words"),
        (rows(("a", 0)).replace("1\ta", "2\ta"), 3, "word 2 where word 1 is to come"),
        (rows(("a", 0), ("b", 1)).replace("\t1\t_", "\t_\t_"), 4, "the head of word 2 is '_', no number"),
        (rows(("a", 0), ("b", 1)).rstrip("\t_\n"), 4, "7 columns between tabs, not 10"),
        (rows(("a", 0)).replace("a", "", 1), 3, "a word without visible characters"),
        ("x\t" + rows(("a", 0)).split("\t", 1)[1], 3, "the column ID has 'x', no number of a word"),
        (rows(("a", 0)).replace("1", "1" * 5000, 1), 3, f"the column ID has '{'1' * 20}', no number"),
        (f"1-{'2' * 5000}" + "\t_" * 9 + "\n" + rows(("a", 0)), 3, "the column ID has '1-2222"),
        (rows(("a", int("9" * 10))), 3, "the head of word 1 is '9999999999', no number of a word"),
        (rows(("a", 0)).replace("0", "9" * 5000, 1), 3, f"the head of word 1 is '{'9' * 20}', no number"),
        (rows(("a", 0)).replace("0", "\u0660"), 3, "the head of word 1 is '\u0660', no number of a word"),
        (rows(("_", 2), ("_", 0)), 3, "all of its words are _: first add the treebank's text"),
        ("1-3\t" + "_\t" * 8 + "_\n" + rows(("a", 0)), 3, "the range 1-3 does not lie within the sentence"),
        ("1.1\t" + "_\t" * 8 + "_\n", 3, "no words"),
    ],
)
def test_a_bad_sentence_is_named_and_the_rest_kept(file: Path, text: str, line: int, reason: str) -> None:
    file.write_text(rows(("dog", 0)) + text.rstrip("\n") + "\n\n" + rows(("cat", 0)))
    read, (other,) = read_file("conllu", file, surface=True)
    assert [str(one.tree) for one in read] == ["(DOG dog)", "(CAT cat)"]
    assert (other.file, other.line) == (str(file), line)  # type: ignore[union-attr]
    assert other.reason.startswith(reason)


def test_a_sentence_in_another_encoding_is_excluded_alone(file: Path) -> None:
    file.write_bytes(
        rows(("dog", 0)).encode() + rows(("a", 0), ("é", 1)).encode("latin-1") + rows(("é", 0)).encode()
    )
    read, (other,) = read_file("conllu", file)
    assert [one.tree.words for one in read] == [("dog",), ("é",)]
    hint = "iconv -f latin1 -t utf-8 converts it, if that is what it is in"
    assert (other.line, other.reason) == (4, f"not UTF-8 (byte 0xe9) ({hint})")  # type: ignore[union-attr]


# --- columns, roots ----------------------------------------------------------------------------

PLUS = """# global.columns = ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC PARSEME:MWE
# text = Dogs give up
1	Dogs	_	NOUN	_	_	2	nsubj	_	_	*
2	give	_	VERB	_	_	0	root	_	_	1:VPC.full
3	up	_	ADP	_	_	2	compound:prt	_	_	1

1	Cats	_	NOUN	_	_	0	root	_	SpaceAfter=No	*
2	.	_	PUNCT	_	_	1	punct	_	_	*

"""


def test_columns_in_any_order(tmp_path: Path) -> None:
    """Each order of the columns, with others between them, gives what ten columns give."""
    draw = random.Random(5)
    lines = FRENCH.replace("advmod\t_", "advmod\t2:x|3.1:y", 1).replace("root\t_", "root\t0:root", 1)
    names = ["ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"]
    (tmp_path / "ten").write_text(lines * 2)
    for _ in range(20):
        order = draw.sample([*names, "A:B", "C"], 12)
        rows_of = [f"#global.columns={'  '.join(order)}\r"]
        for line in lines.split("\n")[:-1]:
            cells = dict(zip(names, line.split("\t"), strict=False))
            text = "\t".join(cells.get(name, "*") for name in order)
            rows_of.append(line if line[:1] in ("#", "") else text)
        (tmp_path / "plus.cupt").write_text("\n".join([*rows_of, *rows_of[1:], ""]))
        assert form_of(str(tmp_path / "plus.cupt")) is FORMS["conllu"]
        for options in ({}, {"surface": True}, {"enhanced": True}, {"surface": True, "enhanced": True}):
            found = []
            for name in ("ten", "plus.cupt"):
                counts: Counter[str] = Counter()
                trees, others = read_file("conllu", tmp_path / name, counts, **options)
                assert not others
                each = [(str(one.tree), one.written, str(one.graph), str(one.heads)) for one in trees]
                found.append((each, counts))
            assert found[0] == found[1]
            assert len(found[0][0]) == 2


def test_columns_of_each_file(file: Path) -> None:
    """Comments name the columns of all sentences after them; what a file lacks counts as unknown."""
    file.write_text(f"# a\n\n{PLUS}# global.columns = FORM HEAD ID\nyes\t0\t1\n\n\n{PLUS}")
    read, others = read_file("conllu", file)
    trees = ["(VERBP (NOUN Dogs) (VERB give) (ADP up))", "(NOUNP (NOUN Cats) (PUNCT .))"]
    assert [str(one.tree) for one in read] == [*trees, "(X yes)", *trees]
    assert [one.written for one in read] == ["Dogs give up", "Cats.", "yes", "Dogs give up", "Cats."]
    assert others == []


@pytest.mark.parametrize(
    ("text", "enhanced", "reason"),
    [
        ("# global.columns = ID FORM UPOS\n1\ta\tX\n", False, "# global.columns names no column HEAD"),
        ("# global.columns = ID HEAD\n1\t0\n", True, "# global.columns names no column FORM"),
        ("# global.columns = ID FORM HEAD\n1\ta\n", False, "2 columns between tabs, not 3: cut off, or "),
        ("1\ta\t_\t-NONE-\t_\t_\t0\troot\t_\t_\n", False, "the tag -NONE- of word 1 is for empty words"),
        ("# global.columns = ID FORM\n1\ta\n", True, "no enhanced dependencies in the column DEPS"),
    ],
)
def test_columns_that_are_needed(file: Path, text: str, enhanced: bool, reason: str) -> None:
    file.write_text(text)
    _, (other,) = read_file("conllu", file, enhanced=enhanced)
    assert other.reason.startswith(reason)


@pytest.mark.parametrize(
    ("misc", "written"),
    [
        ("SpaceAfter=No", "ab c"),
        ("Lang=de|SpaceAfter=No|X=y", "ab c"),
        ("CorrectSpaceAfter=No", "a b c"),
        ("SpaceAfter=No1|NotSpaceAfter=No", "a b c"),
    ],
)
def test_features_are_compared_as_a_whole(file: Path, misc: str, written: str) -> None:
    file.write_text(rows(("a", 0), ("b", 1), ("c", 1)).replace("\t_\n", f"\t{misc}\n", 1))
    (read,), _ = read_file("conllu", file)
    assert read.written == written


def test_several_roots_hang_under_one_node(file: Path) -> None:
    file.write_text(rows(("hunde", 2), ("bellen", 0), (".", 0)) + rows(("a", 0), ("b", 0)) + rows(("c", 0)))
    counts: Counter[str] = Counter()
    read, others = read_file("conllu", file, counts)
    assert [str(one.tree) for one in read] == [
        "(ROOT (BELLENP (HUNDE hunde) (BELLEN bellen)) (. .))",
        "(ROOT (A a) (B b))",
        "(C c)",
    ]
    assert [str(one.graph) for one in read] == ["0-2 2-1 0-3", "0-1 0-2", "0-1"]
    assert others == []
    assert {name: n for name, n in counts.items() if n} == {
        "sentences with several roots": 2,
        "sentences without text": 3,
    }


# --- lifting ------------------------------------------------------------------------------------


def descendants(parents: Sequence[int], k: int) -> set[int]:
    found = {k}
    while more := {i for i, parent in enumerate(parents) if parent in found} - found:
        found |= more
    return found


def lifted_by_definition(parents: list[int]) -> list[int]:
    """The shortest arc with a word between that its head does not dominate, then the leftmost; and again."""
    while True:
        crossing = [
            (abs(k - head), k)
            for k, head in enumerate(parents)
            if head >= 0 and not set(range(min(k, head), max(k, head) + 1)) <= descendants(parents, head)
        ]
        if not crossing:
            return parents
        _, k = min(crossing)
        parents = [*parents[:k], parents[parents[k]], *parents[k + 1 :]]  # of a root: one more root


def random_heads(n: int, draw: random.Random, n_roots: int = 1) -> list[int]:
    """Each word, but for the roots, hangs on one that comes before it in a random order."""
    order = draw.sample(range(n), n)
    parents = [-1] * n
    for i, k in enumerate(order[n_roots:], n_roots):
        parents[k] = order[draw.randrange(max(0, i - 4), i)]
    return parents


def test_lifting_ends_and_leaves_no_crossing_arcs() -> None:
    draw = random.Random(1)
    n_lifted = 0
    for _ in range(1000):
        parents = random_heads(draw.randint(1, 14), draw, draw.choice([1, 1, 2, 3]))
        wanted = lifted_by_definition(parents)
        number, (firsts, lasts) = project(parents)
        assert parents == wanted
        n_lifted += number
        for k in range(len(parents)):
            below = descendants(parents, k)
            assert below == set(range(firsts[k], lasts[k] + 1))
        n = len(parents)
        wanted_spans = [(f"T{k}P", firsts[k], lasts[k] + 1) for k in range(n) if k in parents]
        if n > 1 and not any(end - start == n for _, start, end in wanted_spans):
            wanted_spans.append(("ROOT", 0, n))
        tree = tree_of_spans(["w"] * n, [f"T{k}" for k in range(n)], (firsts, lasts))
        assert spans_of(tree) == sorted(wanted_spans, key=lambda span: (span[1], -span[2]))
    assert n_lifted > 1000


def test_many_crossing_arcs_are_lifted_in_time() -> None:
    draw = random.Random(2)
    parents = random_heads(1000, draw)
    project(parents)
    assert spans(parents, bottom_up(parents)) is not None
    with pytest.raises(InputError, match="more than 1,000 words"):
        project(random_heads(1001, draw))


def test_a_long_chain_is_a_deep_tree() -> None:
    n = 20_000
    parents = [*range(1, n), -1]
    assert depths(parents)[0] == n - 1
    _, found = project(parents)
    tree = tree_of_spans(["a"] * n, ["X"] * n, found)
    assert len(tree.labels) == n - 1


# --- binarization from heads --------------------------------------------------------------------


def test_binarized_outward_from_the_head() -> None:
    #       l2  l1  head r1  r2 (with a dependent of its own)
    tree = Tree.from_brackets("(HP (A l2) (B l1) (H head) (C r1) (DP (D r2) (E x)))")
    heads = np.array([2, 2, -1, 2, 2, 4], dtype=np.int32)
    assert str(binarize_from_heads(tree, heads)) == (
        "(HP (A l2) (HP|<B-H-C-DP> (B l1) (HP|<H-C-DP> (HP|<H-C> (H head) (C r1)) (DP (D r2) (E x)))))"
    )
    assert unbinarize(binarize_from_heads(tree, heads)) == tree


# --- real files ---------------------------------------------------------------------------------

# Sentences, words, words that stand for several, sentences that need lifting.
REAL = {
    "ud_pud6/UD_English-PUD/en_pud-ud-test.conllu": (1000, 21180, 129, 47),
    "ud_pud6/UD_German-PUD/de_pud-ud-test.conllu": (1000, 21332, 331, 135),
    "ud_pud6/UD_Turkish-PUD/tr_pud-ud-test.conllu": (1000, 16881, 346, 65),
    "ud_pud6/UD_Chinese-PUD/zh_pud-ud-test.conllu": (1000, 21415, 0, 20),
    "ud_pud6/UD_Arabic-PUD/ar_pud-ud-test.conllu": (1000, 20747, 0, 58),
    "ud_pud6/UD_Hindi-PUD/hi_pud-ud-test.conllu": (1000, 23829, 0, 322),
    "ud_english_lines/en_lines-ud-dev.conllu": (1118, 21637, 250, 89),
    "ud_vietnamese_vtb/vi_vtb-ud-test.conllu": (800, 11692, 0, 1),
    "ud_french_sequoia/fr_sequoia-ud-dev.conllu": (412, 9999, 282, 9),
}


def plainly(file: Path) -> list[tuple[list[str], list[int]]]:
    """Words and heads of a file, by another reader."""
    found = []
    for sentence in file.read_text("utf-8").strip().split("\n\n"):
        lines = [line.split("\t") for line in sentence.split("\n") if line[0] != "#"]
        words = [columns for columns in lines if columns[0].isdigit()]
        found.append(([columns[1] for columns in words], [int(columns[6]) - 1 for columns in words]))
    return found


@pytest.mark.parametrize("name", REAL)
def test_real_files(name: str, treebank_file: Callable[[str, str], Path]) -> None:
    real = treebank_file(*name.split("/", 1))
    counts: Counter[str] = Counter()
    read, others = read_file("conllu", real, counts)
    n_sentences, n_words, n_several, n_lifted = REAL[name]
    assert (len(read), sum(len(one.tree) for one in read), others) == (n_sentences, n_words, [])
    assert counts["words of several syntactic words"] == n_several
    assert counts["sentences with lifted arcs"] == n_lifted
    assert counts["empty nodes left out"] == (7 if "English-PUD" in name else 0)
    # Such trees are flat: what the guide says of them.
    assert 0.34 < sum(len(one.tree.labels) for one in read) / n_words < 0.45
    n_projective = 0
    for one, (words, parents) in zip(read, plainly(real), strict=True):
        assert [word.replace("\u00a0", " ") for word in one.tree.words] == [
            word.replace("(", "-LRB-").replace(")", "-RRB-") for word in words
        ]
        below = [descendants(parents, k) for k in range(len(parents))]
        if any(len(each) != max(each) - min(each) + 1 for each in below):
            continue
        n_projective += 1
        wanted = {(min(each), max(each) + 1) for each in below if len(each) > 1}
        found = spans_of(one.tree)
        assert {(start, end) for _, start, end in found} == wanted
        assert len(found) == len(wanted)
    assert n_projective == n_sentences - n_lifted


@pytest.mark.parametrize("surface", [False, True])
def test_strings_of_real_sentences_are_those_of_their_words(
    surface: bool, treebank_file: Callable[[str, str], Path]
) -> None:
    real = treebank_file("ud_french_sequoia", "fr_sequoia-ud-dev.conllu")
    texts = [line[9:] for line in real.read_text("utf-8").split("\n") if line.startswith("# text = ")]
    read, _ = read_file("conllu", real, surface=surface)
    same = sum(one.written == text for one, text in zip(read, texts, strict=True))
    assert same == len(texts) if surface else same < len(texts)
    for one in read:
        words = "".join(one.tree.words).replace("-LRB-", "(").replace("-RRB-", ")").replace("\u00a0", "")
        assert words == "".join((one.written or "").split())


@pytest.mark.parametrize("surface", [False, True])
@pytest.mark.parametrize("marked", ["2-3", "2", "3"])
def test_no_blank_follows_a_range_whose_line_says_so(file: Path, surface: bool, marked: str) -> None:
    """Inside of a range there is none anyway, when it is one word."""
    lines = [
        "1\tvu\t_\tV\t_\t_\t0\t_\t_\t_",
        "2-3\tdu\t_\t_\t_\t_\t_\t_\t_\t_",
        "2\tde\t_\tP\t_\t_\t4\t_\t_\t_",
        "3\tle\t_\tD\t_\t_\t4\t_\t_\t_",
        "4\tchat\t_\tN\t_\t_\t1\t_\t_\t_",
    ]
    lines = [line[:-1] + "SpaceAfter=No" if line.startswith(f"{marked}\t") else line for line in lines]
    file.write_text("\n".join(lines) + "\n\n")
    (read,), _ = read_file("conllu", file, surface=surface)
    wanted = {
        True: {"2-3": "vu duchat", "2": "vu du chat", "3": "vu duchat"},
        False: {"2-3": "vu de lechat", "2": "vu dele chat", "3": "vu de lechat"},
    }
    assert read.written == wanted[surface][marked]


@given(st.integers(1, 8), st.integers(0, 3), st.integers(0, 3), st.data())
@settings(max_examples=60, deadline=None)
def test_dependents_to_the_right_are_grouped_before_those_to_the_left(
    n: int, before: int, after: int, data: st.DataObject
) -> None:
    """A node of n words between others, whose head child is the one that no other word of it governs."""
    root = data.draw(st.integers(0, n - 1))
    order = [root, *data.draw(st.permutations([word for word in range(n) if word != root]))]
    heads = np.full(before + n + after, before + root, dtype=np.int32)  # outer words depend on the root
    for place, word in enumerate(order[1:], start=1):
        heads[before + word] = before + order[data.draw(st.integers(0, place - 1))]
    heads[before + root] = -1
    inner = " ".join(f"(T{word} w)" for word in range(n))
    outside = ["(O w)"] * before, ["(P w)"] * after
    tree = Tree.from_brackets(f"(S {' '.join([*outside[0], f'(NP {inner})', *outside[1]])})")
    found = binarize_from_heads(tree, heads)

    def around(children: list[str], head: int, label: str) -> set[tuple[str, int, int]]:
        spans = [(head, last) for last in range(head + 2, len(children) + 1)]
        spans += [(left, len(children)) for left in range(head)]
        return {(f"{label}|<{'-'.join(children[a:b])}>", a, b) for a, b in spans if b - a < len(children)} | {
            (label, 0, len(children))
        }

    of_inner = around([f"T{word}" for word in range(n)], root, "NP")
    of_outer = around(["O"] * before + ["NP"] + ["P"] * after, before, "S")
    expected = {(label, a + before, b + before) for label, a, b in of_inner}
    for label, a, b in of_outer:
        expected.add((label, a if a <= before else a + n - 1, b if b <= before else b + n - 1))
    assert set(zip(found.labels, found.starts.tolist(), found.ends.tolist(), strict=True)) == expected
    assert unbinarize(found) == tree
