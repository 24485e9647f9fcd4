"""Constituents with gaps: NEGRA export, TIGER XML, brackets with numbered leaves; raised, split, skipped."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.trees import Tree, normalize
from pdtools.trees.forms import ReadOptions, read_treebank
from trees.forms.reading import read_file, spans_of

# Words (form, tag, edge, parent) and constituents (number, label, edge, parent).
APPOSED = (
    "Der/ART/NK/501 Mann/NN/HD/501 ,/$,/--/0 der/PRELS/SB/500 schläft/VVFIN/HD/500 ,/$,/--/0"
    " lacht/VVFIN/HD/502 ./$./--/0",
    "500/S/RC/501 501/NP/SB/502 502/S/--/0",
)
EXTRAPOSED = (
    "Der/ART/NK/501 Mann/NN/HD/501 lacht/VVFIN/HD/502 ,/$,/--/0 der/PRELS/SB/500 schläft/VVFIN/HD/500"
    " ./$./--/0",
    APPOSED[1],
)
# A constituent of three blocks around one of two.
NESTED = ("a/A/NK/500 b/B/--/502 c/C/HD/500 d/D/--/502 e/E/HD/501", "500/NP/OA/501 501/VP/OC/502 502/S/--/0")
NO_HEADS = ("a/A/--/500 b/B/--/501 c/C/--/500 d/D/--/500", "500/X/--/501 501/S/--/0")
EQUAL = ("a/A/--/500 b/B/--/501 c/C/--/500", "500/X/--/501 501/S/--/0")
TWO_HEADS = ("a/A/--/500 b/B/--/501 c/C/HD/500 d/D/--/501 e/E/HD/500 f/F/--/500", "500/X/--/501 501/S/--/0")

# The second head of a constituent is raised into one with a head of its own.
RAISED_HEAD = (
    "a/A/HD/500 b/B/--/502 c/C/HD/500 d/D/--/502 e/E/HD/501",
    "500/X/--/501 501/Y/--/502 502/S/--/0",
)
LOWER_CASE = (EXTRAPOSED[0].replace("/HD/", "/hd/"), EXTRAPOSED[1])
# Without a head: the last noun kernel, also beside a longer part, or if a kernel loses its first word.
KERNELS = ("a/A/NK/500 b/B/--/501 c/C/NK/500 d/D/--/501 e/E/MO/500 f/F/MO/500", "500/X/--/501 501/S/--/0")
GAP_IN_KERNEL = (
    "a/A/--/500 b/B/--/502 c/C/NK/501 d/D/--/502 e/E/HD/500",
    "500/Y/NK/501 501/X/--/502 502/S/--/0",
)
# Punctuation within two constituents with gaps: that of two words is the longer stretch.
FEWEST = (
    "a/A/HD/500 b/B/--/501 c/C/HD/501 ,/$,/--/0 d/D/--/501 e/E/--/500",
    "500/X/--/502 501/Y/--/502 502/S/--/0",
)
LOWEST = ("a/A/--/501 b/B/--/500 ,/$,/--/0 c/C/--/500 d/D/--/501", "500/X/--/501 501/S/--/0")


def export(sentence: tuple[str, str], name: str = "1", lemma: bool = False) -> str:
    """A sentence as NEGRA export 3, or 4 with lemmas."""
    lemmas = ["x"] if lemma else []
    rows = [f"#BOS {name} 2 899 1 %% a comment"]
    for word in sentence[0].split():
        form, tag, edge, parent = word.split("/")
        rows.append("\t".join([form, *lemmas, tag, "--", edge, parent]))
    for node in sentence[1].split():
        number, label, edge, parent = node.split("/")
        rows.append("   ".join([f"#{number}", *lemmas, label, "--", edge, parent]))
    return "\n".join([*rows, f"#EOS {name}", ""])


def tiger(sentence: tuple[str, str]) -> str:
    """A sentence as an element of TIGER XML, on lines of its own."""
    children: dict[str, list[str]] = {}
    terminals, constituents = [], []
    for k, word in enumerate(sentence[0].split()):
        form, tag, edge, parent = word.split("/")
        terminals.append(f'<t id="t{k}" word="{form}" lemma="--" pos="{tag}"/>')
        children.setdefault(parent, []).append(f'<edge label="{edge}" idref="t{k}"/>')
    for node in sentence[1].split():
        number, _, edge, parent = node.split("/")
        children.setdefault(parent, []).append(f'<edge label="{edge}" idref="n{number}"/>')
    for number, label in [*(tuple(node.split("/")[:2]) for node in sentence[1].split()), ("0", "VROOT")]:
        constituents.append(f'<nt id="n{number}" cat="{label}">{"".join(children[number])}</nt>')
    return "\n".join(
        [
            *('<s id="s1">', '<graph root="n0"><terminals>', *terminals, "</terminals>"),
            *("<nonterminals>", *constituents, "</nonterminals></graph>", "</s>", ""),
        ]
    )


DRAWN = [
    (
        APPOSED,
        {},
        "(VROOT (S (NP (ART Der) (NN Mann) ($, ,) (S (PRELS der) (VVFIN schläft))) ($, ,) (VVFIN lacht))"
        " ($. .))",
    ),
    (
        EXTRAPOSED,
        {},
        "(VROOT (S (NP (ART Der) (NN Mann)) (VVFIN lacht) ($, ,) (S (PRELS der) (VVFIN schläft))) ($. .))",
    ),
    (
        EXTRAPOSED,
        {"discontinuous": "split"},
        "(VROOT (S (NP (ART Der) (NN Mann)) (VVFIN lacht) (NP ($, ,) (S (PRELS der) (VVFIN schläft))))"
        " ($. .))",
    ),
    (
        EXTRAPOSED,
        {"punctuation": "root"},
        "(VROOT (S (NP (ART Der) (NN Mann)) (VVFIN lacht)) ($, ,) (S (PRELS der) (VVFIN schläft)) ($. .))",
    ),
    (NESTED, {}, "(S (A a) (B b) (NP (C c)) (D d) (VP (E e)))"),
    (NESTED, {"discontinuous": "split"}, "(S (VP (NP (A a))) (B b) (VP (NP (C c))) (D d) (VP (E e)))"),
    (NO_HEADS, {}, "(S (A a) (B b) (X (C c) (D d)))"),
    (EQUAL, {}, "(S (X (A a)) (B b) (C c))"),
    (RAISED_HEAD, {}, "(S (X (A a)) (B b) (C c) (D d) (Y (E e)))"),
    (LOWEST, {}, "(S (A a) (X (B b) ($, ,) (C c)) (D d))"),
    (
        LOWER_CASE,
        {},
        "(VROOT (S (NP (ART Der) (NN Mann)) (VVFIN lacht) ($, ,) (S (PRELS der) (VVFIN schläft))) ($. .))",
    ),
    (KERNELS, {}, "(S (A a) (B b) (X (C c)) (D d) (E e) (F f))"),
    (GAP_IN_KERNEL, {}, "(S (A a) (B b) (X (C c)) (D d) (Y (E e)))"),
    (FEWEST, {}, "(S (X (A a)) (Y (B b) (C c)) ($, ,) (D d) (E e))"),
    (
        FEWEST,
        {"discontinuous": "split"},
        "(S (X (A a)) (Y (B b) (C c)) (X ($, ,)) (Y (D d)) (X (E e)))",
    ),
    (
        FEWEST,
        {"punctuation": "root", "discontinuous": "split"},
        "(VROOT (S (X (A a)) (Y (B b) (C c))) ($, ,) (S (Y (D d)) (X (E e))))",
    ),
    (FEWEST, {"punctuation": "root"}, "(VROOT (S (X (A a)) (Y (B b) (C c))) ($, ,) (D d) (E e))"),
    (TWO_HEADS, {}, "(S (A a) (B b) (X (C c)) (D d) (E e) (F f))"),
]


@pytest.mark.parametrize(("sentence", "options", "wanted"), DRAWN)
def test_as_people_would_draw_it(
    sentence: tuple[str, str], options: dict[str, str], wanted: str, tmp_path: Path
) -> None:
    written = {
        "export": export(sentence) + "#FORMAT 4\n" + export(sentence, "no number", lemma=True),
        "tiger-xml": f"<?xml version='1.0'?>\n<corpus><body>\n{tiger(sentence) * 2}</body></corpus>\n",
    }
    for name, text in written.items():
        (tmp_path / name).write_text(text)
        counts: Counter[str] = Counter()
        read, others = read_file(name, tmp_path / name, counts, **options)
        assert [str(one.tree) for one in read] == [wanted] * 2
        assert others == []
        done = "split" if "discontinuous" in options else "raised"
        gaps = {APPOSED: 0, LOWEST: 0, NESTED: 2, RAISED_HEAD: 2, GAP_IN_KERNEL: 2, FEWEST: 2}.get(
            sentence, 1
        )
        gaps += "punctuation" in options
        assert counts[f"constituents {done}"] == 2 * gaps
        assert counts[f"sentences with constituents {done}"] == (2 if gaps else 0)
        for one in read:
            assert Tree.from_nltk(one.tree.to_nltk()) == one.tree


@pytest.mark.parametrize("name", ["export", "discbracket", "tiger-xml"])
def test_line_ends_and_a_mark_at_the_beginning(name: str, tmp_path: Path) -> None:
    leaves = "(VROOT (S (NP 0=Der 1=Mann) 2=lacht) (. 3=.))\n"
    text = {"export": export(APPOSED), "tiger-xml": tiger(APPOSED), "discbracket": leaves}[name]
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    read, others = read_file(name, tmp_path / "a")
    assert (len(read), others) == (1, [])
    (tmp_path / "a").write_bytes(text.encode("utf-16"))
    with pytest.raises(InputError, match="UTF-16|an encoding that is not read"):
        read_file(name, tmp_path / "a")


TABBED = [
    (4, "Sie\tsie\tPPER\t\tSB\t501", "singt\tsingen\tVVFIN\t\tHD\t501", "#501\t--\tS\t\t--\t0"),
    (4, "Sie\t\tPPER\t\tSB\t501\tSB\t501", "singt\t\tVVFIN\t\t\t501\t%% it", "#501\t\tS\t\t\t0"),
    (
        4,
        "Sie\t\t\tsie\t\tPPER\t--\tSB\t\t501",
        "singt  singen  VVFIN -- HD 501",
        "#501\t\t--\tS\t\t--\t--\t0",
    ),
    (4, "Sie\t\tPPER\t\tSB\t501\t", "singt\t\tVVFIN\t\tHD\t501\t\t", "#501\t\tS\t\t\t0\t"),
    (3, "Sie\tPPER\t\tSB\t501\t", "singt\tVVFIN\t\t\t501\t", "#501\tS\t\t--\t0\t"),
    (3, "Sie\tPPER\t\tSB\t501", "singt\tVVFIN\t\t\t501", "#501\tS\t\t--\t0"),
    (3, "Sie\t\t\tPPER\t--\tSB\t\t501", "singt\t\tVVFIN\t--\tHD\t501", "#501\t\t\tS\t--\t--\t0"),
]


@pytest.mark.parametrize(("version", "first", "second", "node"), TABBED)
def test_columns_between_tabs_may_be_empty(
    version: int, first: str, second: str, node: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text(f"#FORMAT {version}\n#BOS 1\n{first}\n{second}\n{node}\n#EOS 1\n")
    (read,), others = read_file("export", tmp_path / "a")
    assert (str(read.tree), others) == ("(S (PPER Sie) (VVFIN singt))", [])


def test_a_line_without_a_lemma_where_all_have_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("#FORMAT 4\n#BOS 1\nSie sie PPER SB 501\n#501 -- S -- -- 0\n#EOS 1\n")
    _, (other,) = read_file("export", tmp_path / "a")
    assert other.reason == "5 columns: #FORMAT 4 has 6, and 2 for each secondary edge"


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u3000"])
def test_other_spaces_are_parts_of_words(space: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"#BOS 1\n10{space}000\tCARD\t--\tNK\t500\n#500\tNP\t--\t--\t0\n#EOS 1\n")
    (read,), _ = read_file("export", tmp_path / "a")
    assert read.tree.words == (f"10{space}000",)


@pytest.mark.parametrize("mark", ["(", "}", "[", "...", '"'])
def test_brackets_on_the_root_move_as_punctuation(mark: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(
        export((f"a/A/--/500 {mark}/P/--/0 b/B/hd/500 c/C/--/501", "500/NP/--/501 501/S/--/0"))
    )
    (read,), _ = read_file("export", tmp_path / "a")
    assert spans_of(read.tree) == [("S", 0, 4), ("NP", 0, 3)]


@pytest.mark.parametrize("lemma", ["", "a "])
def test_secondary_edges_are_counted(lemma: str, tmp_path: Path) -> None:
    edges = "SB 501 OA 502"
    (tmp_path / "a").write_text(
        f"#BOS 1\na {lemma}A -- HD 500 {edges}\n#500 {lemma}S -- -- 0 {edges[:6]}\n#EOS 1\n"
    )
    counts: Counter[str] = Counter()
    (read,), _ = read_file("export", tmp_path / "a", counts)
    assert str(read.tree) == "(S (A a))"
    assert counts == {"secondary edges left out": 3}


def test_skipped_they_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(export(EXTRAPOSED) + export(APPOSED))
    read, others = read_file("export", tmp_path / "a", discontinuous="skip")
    assert len(read) == 1
    assert [each.excluded.reason for each in others] == ["discontinuous constituents"]
    rejects = Rejects("fail")  # what is left out by rule is no error
    file = str(tmp_path / "a")
    assert len(list(read_treebank([file], "export", rejects, ReadOptions(discontinuous="skip")))) == 1
    assert [(record["file"], record["line"]) for record in rejects] == [(file, 1)]
    (tmp_path / "a").write_text(export(APPOSED) + "x\n")
    with pytest.raises(InputError, match=":14: text outside of #BOS and #EOS"):
        list(read_treebank([file], "export", rejects))


def test_numbered_leaves(tmp_path: Path) -> None:
    text = """(S (NP (DT 0=The) (NN 1=dog) (SBAR (WP 4=that) (V 5=sleeps)))
       (VP (V 2=b#LRB#ark#RRB#s)) (, 3=#LRB#))

    (TOP (S (VP 0=Come)) (. 1=!))
    (NP 0=The 1=dog)
    """
    (tmp_path / "a").write_text(text.replace("\n    ", "\n"))
    read, others = read_file("discbracket", tmp_path / "a")
    assert [str(one.tree) for one in read] == [
        "(S (NP (DT The) (NN dog)) (VP (V b-LRB-ark-RRB-s)) (, -LRB-) (SBAR (WP that) (V sleeps)))",
        "(TOP (S (VP Come)) (. !))",
        "(NP The dog)",
    ]
    assert others == []


# --- random trees -------------------------------------------------------------------------------


# --- damaged files ------------------------------------------------------------------------------

GOOD = export(("a/A/--/500 b/B/--/500", "500/S/--/0"))
BAD_EXPORT = [
    (export(("a/A/--/500 b/B/--/501", "500/S/--/0")), 3, "the parent 501 does not exist"),
    (export(("a/A/--/500", "500/S/--/501 501/X/--/500")), 1, "a constituent without words (VROOT)"),
    (
        export(("a/A/--/500 b/B/--/502", "500/S/--/501 501/X/--/500 502/S/--/0")),
        1,
        "a word or constituent that does not",
    ),
    (export(("a/A/--/500", "500/S/--/0 500/S/--/0")), 4, "constituent #500 is there twice"),
    (export(("a/A/--/500", "500/S/--/0 501/S/--/0")), 1, "a constituent without words (S)"),
    ("#BOS 1\na\tA\t--\n#EOS 1\n", 2, "3 columns: five or more are needed"),
    ("#BOS 1\n#EOS 1\n", 1, "no words"),
    ("#BOS 1\na\tA\t--\t--\t0\n", 1, "cut off: no #EOS"),
    ("abc\n", 1, "text outside of #BOS and #EOS"),
]


@pytest.mark.parametrize(("text", "line", "reason"), BAD_EXPORT)
def test_damaged_export(text: str, line: int, reason: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("%% a comment\n#BOT WORDTAG\n1 x\n#EOT\n" + GOOD + text + GOOD)
    read, (other,) = read_file("export", tmp_path / "a")
    assert [str(one.tree) for one in read] == ["(S (A a) (B b))"] * 2
    assert other.line == line + 9  # type: ignore[union-attr]
    assert other.reason.startswith(reason)


@pytest.mark.parametrize(
    ("name", "good", "cut", "reason"),
    [
        ("export", GOOD, "#BOS 1\na\tA\t--\t--\t0\n", "cut off: no #EOS"),
        ("tiger-xml", tiger(("a/A/--/500 b/B/--/500", "500/S/--/0")), "<s><graph>", "cut off: no </s>"),
    ],
)
def test_a_file_that_ends_in_a_sentence(name: str, good: str, cut: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(good + cut)
    read, (other,) = read_file(name, tmp_path / "a")
    assert [str(one.tree) for one in read] == ["(S (A a) (B b))"]
    assert (other.line, other.reason) == (good.count("\n") + 1, reason)  # type: ignore[union-attr]


S = (
    '<s id="x"><graph><terminals><t id="a" word="w" pos="T"/></terminals>'
    "<nonterminals>{}</nonterminals></graph></s>"
)
BAD_XML = [
    (S.format('<nt id="n" cat="S"><edge idref="b"/></nt>'), "an edge to what does not exist: b"),
    (S.format('<nt id="n" cat="S"><edge idref="a"/><edge idref="a"/></nt>'), "two edges to a"),
    (
        S.format('<nt id="n" cat="S"><edge idref="n"/></nt>'),
        "a word or constituent that does not hang on the root",
    ),
    (S.format('<nt id="a" cat="S"/>'), "two words or constituents have the same id"),
    (S.format('<nt cat="S"/>'), "a word, constituent or edge has no id"),
    (S.format("<nt>"), "damaged XML: mismatched tag"),
    (S.replace('"w"', '"&lol;"'), "damaged XML: undefined entity"),
    ('<s id="x"><graph><terminals/></graph></s>', "no words"),
    ('<s id="x"><graph>\n', "cut off: no </s>"),
]


@pytest.mark.parametrize(("text", "reason"), BAD_XML)
def test_damaged_xml(text: str, reason: str, tmp_path: Path) -> None:
    laughs = '<!DOCTYPE c [<!ENTITY l "lol"><!ENTITY lol "&l;&l;&l;">]>\n<!-- <s> no sentence </s> -->\n'
    good = S.format('<nt id="n" cat="S"><edge idref="a"/><secedge idref="a"/></nt>') + "\n"
    (tmp_path / "a").write_text(
        f"<?xml version='1.0'?>\n{laughs}<corpus><body>\n{good}{text}\n"
        + good.replace("<edge", '<edge label=""')
        + "</body></corpus>"
    )
    counts: Counter[str] = Counter()
    read, (other,) = read_file("tiger-xml", tmp_path / "a", counts)
    assert [str(one.tree) for one in read] == ["(S (T w))"] * 2
    assert other.line == 6  # type: ignore[union-attr]
    assert other.reason.startswith(reason)
    assert counts["secondary edges left out"] == 2


def test_an_xml_file_says_its_encoding(tmp_path: Path) -> None:
    text = (
        "<?xml version='1.0' encoding='ISO-8859-1'?><corpus>"
        + S.format("").replace('"w"', '"ä"')
        + "</corpus>"
    )
    (tmp_path / "a").write_bytes(text.encode("latin-1"))
    (read,), _ = read_file("tiger-xml", tmp_path / "a")
    assert read.tree.words == ("ä",)
    (tmp_path / "a").write_bytes(text.replace("ISO-8859-1", "UTF-8").encode("latin-1"))
    _, (other,) = read_file("tiger-xml", tmp_path / "a")
    assert other.reason == "not UTF-8 (byte 0xe4), as its first line says"
    for escapes in ("unicode_escape", "raw-unicode-escape", "utf-7", "idna"):
        escaped = text.replace("ISO-8859-1", escapes).replace("ä", "\\ud800")
        (tmp_path / "a").write_text(escaped)
        with pytest.raises(InputError, match=r"a:1: an encoding that is not read \(convert it to UTF-8\)"):
            read_file("tiger-xml", tmp_path / "a")


BAD_LEAVES = [
    ("(S (A a) (B 1=b))", "the leaf 'a' has no number, as in 0=The"),
    ("(S (A 0=a) (B 0=b))", "two leaves have the number 0"),
    ("(S (A 0=a) (B 2=b))", "2 leaves, but one has the number 2"),
    ("(S (A 0=a) (B))", "a constituent without words (B)"),
    ("(S (A 0=a)", "unbalanced brackets: not closed"),
    ("(S (A 0=a)))", "unbalanced brackets: closed too often"),
    ("text", "text between trees"),
]


@pytest.mark.parametrize(("text", "reason"), BAD_LEAVES)
def test_damaged_leaves(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"(S (A 0=a) (B 1=b))\n\n{text}\n\n(S (A 0=a) (B 1=b))\n")
    read, (other,) = read_file("discbracket", tmp_path / "a")
    assert len(read) == 2
    assert (other.line, other.reason) == (3, reason)  # type: ignore[union-attr]


# --- a real tree --------------------------------------------------------------------------------


def test_a_real_tree_comes_out_as_its_authors_made_it_continuous(
    treebank_file: Callable[[str, str], Path],
) -> None:
    (read,), _ = read_file("export", treebank_file("export_sample", "tests/discontinuous.export"))
    wanted: Any = treebank_file("export_sample", "tests/continuous.brackets").read_text("utf-8")
    wanted = Tree.from_brackets(" ".join(wanted.split()))
    assert read.tree.words == wanted.words
    assert spans_of(read.tree)[1:] == spans_of(wanted)[1:]


def test_percent_signs_are_words_before_they_are_comments(tmp_path: Path) -> None:
    rows = (
        "%% NN -- HD 500",
        "100%% CARD -- -- 500 %% a remark",
        "%% alone",
        "lacht V -- HD 0 %%",
        "#500 NP -- -- 0",
    )
    (tmp_path / "a").write_text("#BOS 1\n" + "\n".join(rows) + "\n#EOS 1\n")
    (read,), others = read_file("export", tmp_path / "a")
    assert read.tree.words == ("%%", "100%%", "lacht")
    assert others == []


def test_tags_of_brackets_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("#BOS 1\n( $( -- -- 0\na N -- HD 0\n) $( -- -- 0\n#EOS 1\n")
    (read,), _ = read_file("export", tmp_path / "a")
    clean = normalize(read.tree)
    assert clean is not None
    assert clean.tags == ("$*LRB*", "N", "$*LRB*")


# Constituents of the first tree below the root, and lengths of its words.
CASES = {
    "b1_nbsp.export": ([("S", 0, 4), ("NP", 2, 4)], [2, 5, 6, 4, 1]),
    "b6_emptymorph4.export": ([("S", 0, 2)], [2, 5, 1]),
    "hd.export": ([("SMAIN", 0, 6), ("PP", 0, 3), ("NP", 1, 3), ("PPART", 5, 6)], [2, 5, 7, 2, 3, 8]),
    "paren.export": ([("SMAIN", 0, 8), ("NP", 2, 8)], [3, 3, 2, 4, 5, 4, 5, 4, 1]),
    "d.dbr": ([("S", 0, 2)], [15, 5]),
}


@pytest.mark.parametrize("name", CASES)
def test_cases_that_went_wrong(name: str, test_data: Path) -> None:
    file = test_data.parent / "cases" / "4" / name
    if not file.is_file():
        pytest.skip(f"no case {file}")
    read, _ = read_file("export" if name.endswith("export") else "discbracket", file)
    tree = read[0].tree
    spans = [span for span in spans_of(tree) if span[0] != "VROOT"]
    assert (spans, [*map(len, tree.words)]) == CASES[name]


# --- any tree, computed again -------------------------------------------------------------------
# A node is its label, its edge, and its children; a word its tag, its edge, and its place.
Part = tuple[str, str, Any]


def yield_of(part: Part) -> list[int]:
    return [part[2]] if isinstance(part[2], int) else sorted(k for each in part[2] for k in yield_of(each))


def inner_nodes(part: Part) -> list[Part]:
    """Children before parents."""
    if isinstance(part[2], int):
        return []
    return [*(node for each in part[2] for node in inner_nodes(each)), part]


def blocks_of(parts: list[Part]) -> list[list[Part]]:
    found: list[list[Part]] = []
    for part in sorted(parts, key=yield_of):
        if found and yield_of(found[-1][-1])[-1] + 1 == yield_of(part)[0]:
            found[-1].append(part)
        else:
            found.append([part])
    return found


def raised(node: Part) -> tuple[Part, list[Part]]:
    """A node without gaps, and what its parent gets."""
    label, edge, children = node
    marks = [part for part in sorted(children, key=yield_of) if part[1] in ("HD", "hd")]
    kernels = [part for part in sorted(children, key=yield_of) if part[1] == "NK"]
    head = marks[0] if marks else kernels[-1] if kernels else None
    parts, place = [], None
    for part in children:
        own, more = (part, list[Part]()) if isinstance(part[2], int) else raised(part)
        place = yield_of(own)[0] if part is head else place
        parts += [own, *more]
    blocks = blocks_of(parts)
    kept = max(
        blocks, key=lambda block: sum(len(yield_of(part)) for part in block)
    )  # the first of equal ones
    if place is not None:
        kept = next(block for block in blocks if any(yield_of(part)[0] == place for part in block))
    return (label, edge, kept), [part for block in blocks if block is not kept for part in block]


def split(node: Part) -> list[Part]:
    """The parts of a node, none with gaps."""
    if isinstance(node[2], int):
        return [node]
    return [(*node[:2], block) for block in blocks_of([part for each in node[2] for part in split(each)])]


def drawn(part: Part, words: list[str]) -> str:
    if isinstance(part[2], int):
        return f"({part[0]} {words[part[2]]})"
    return f"({part[0]} {' '.join(drawn(each, words) for each in sorted(part[2], key=yield_of))})"


@pytest.mark.parametrize("form", ["export", "tiger-xml", "discbracket"])
@pytest.mark.parametrize("discontinuous", ["raise", "split", "skip"])
@pytest.mark.parametrize("punctuation", ["move", "root"])
def test_any_tree_computed_again(form: str, discontinuous: str, punctuation: str, tmp_path: Path) -> None:
    """Leaves in brackets have no edges."""
    draw = random.Random(f"{discontinuous} {punctuation}")
    edges = ["--"] if form == "discbracket" else ["--", "--", "HD", "hd", "NK"]
    n_gaps = 0
    for _ in range(250):
        words = [draw.choice([f"w{k}", f"w{k}", ","]) for k in range(draw.randint(2, 8))]
        tops: list[Part] = [
            ("$," if word == "," else f"T{k}", draw.choice(edges), k) for k, word in enumerate(words)
        ]
        for label in "ABCD"[: draw.randint(0, 4)]:
            some = [
                top for top in tops if top[0] != "$," or draw.random() < 0.2
            ]  # most marks stay on the root
            taken = draw.sample(some, draw.randint(min(1, len(some)), min(3, len(some))))
            if taken:
                tops = [*(top for top in tops if top not in taken), (label, draw.choice(edges), taken)]
        root: Part = ("VROOT", "--", tops)
        nodes = inner_nodes(root)
        (tmp_path / "a").write_text(file_of(form, root, nodes, words))
        places = [part[2] for part in root[2] if part[0] == "$,"] if punctuation == "move" else []
        yields = [(len(found := yield_of(node)), found[0], found[-1]) for node in nodes[:-1]]
        for place in places:
            around = [
                (size, first, k) for k, (size, first, last) in enumerate(yields) if first < place < last
            ]
            if around:
                (mark,) = (part for part in root[2] if part[2] == place)
                root[2].remove(mark)
                nodes[min(around)[2]][2].append(mark)
        counts: Counter[str] = Counter()
        read, others = read_file(
            form, tmp_path / "a", counts, discontinuous=discontinuous, punctuation=punctuation
        )
        gaps = sum(yield_of(node)[-1] - yield_of(node)[0] >= len(yield_of(node)) for node in nodes)
        n_gaps += gaps
        if gaps and discontinuous == "skip":
            assert (read, len(others)) == ([], 1)
            continue
        changed = {"raise": "raised", "split": "split", "skip": ""}[discontinuous]
        assert counts == (
            {f"sentences with constituents {changed}": 1, f"constituents {changed}": gaps} if gaps else {}
        )
        (wanted,) = split(root) if discontinuous == "split" else [raised(root)[0]]
        while wanted[0] == "VROOT" and len(wanted[2]) == 1 and not isinstance(wanted[2][0][2], int):
            (wanted,) = wanted[2]
        (one,) = read
        assert str(one.tree) == drawn(wanted, words)
    assert n_gaps > 50


def file_of(form: str, root: Part, nodes: list[Part], words: list[str]) -> str:
    """A file with one tree; ``nodes``: children before parents, the root last."""
    if form == "discbracket":
        return drawn(root, [f"{k}={word}" for k, word in enumerate(words)]) + "\n"
    numbers = {id(node): 500 + k for k, node in enumerate(nodes[:-1])} | {id(root): 0}
    parents = {id(part): numbers[id(node)] for node in nodes for part in node[2]}
    leaves = {part[2]: part for node in nodes for part in node[2] if isinstance(part[2], int)}
    rows = [f"{words[k]}/{leaves[k][0]}/{leaves[k][1]}/{parents[id(leaves[k])]}" for k in range(len(words))]
    inner = [f"{numbers[id(node)]}/{node[0]}/{node[1]}/{parents[id(node)]}" for node in nodes[:-1]]
    sentence = " ".join(rows), " ".join(inner)
    if form == "export":
        return export(sentence)
    return f"<?xml version='1.0'?>\n<corpus><body>\n{tiger(sentence)}</body></corpus>\n"
