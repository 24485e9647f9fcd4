"""Forms in which what is no word would be read as one."""

from __future__ import annotations

import zipfile

import pytest
from odd_treebanks import read_arrays

from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.files import Rejects
from pdtools.trees import SourcedTree, read_trees
from pdtools.trees.transforms import EMPTY_LEAF, NUMBERED_LEAVES

GOOD = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"
REFUSED = {
    "( (IP-MAT (NP-SBJ (PRO She-she)) (VBD ran-run)) (ID TEST,1.1))": "(ID …)",
    "((IP-MAT (VBD ran))\n  ( ID\n coTEST,1.2:3))": "(ID …)",
    "( (METADATA (AUTHOR anon) (YEAR 1500)))": "(METADATA …)",
    "( (METADATA anon) (IP-MAT (VBD ran)))": "(METADATA …)",
    "( (CODE <P_12>))": "(CODE …)",
    "( (IP-MAT (PP (P (CODE {COM:dash}) (P til)) (NP (N x)))))": "(CODE …)",
    "( (CODE (SYM SpeakerA1) (. .)))": "(CODE …)",
    "(S (NP-SBJ *pro*) (VP (VV run)))": EMPTY_LEAF,
    "( (IP-MAT (NP-SBJ-2 *con*) (VBD ran)))": EMPTY_LEAF,
    "(IP (WNP-1 0) (C that) (NP-OB1 *T*-1))": EMPTY_LEAF,
    "(IP (NP-OB1 *ICH*-2) (VB a))": EMPTY_LEAF,
    "(IP (NP-SBJ *arb*-D) (VB a))": EMPTY_LEAF,
    "(IP (NP-SBJ2 *が*) (VB a))": EMPTY_LEAF,
    "(IP (NP-SBJ *speaker+hearer*) (VB a))": EMPTY_LEAF,
    "(S (NP-SBJ *-1) (VP (VB a)))": EMPTY_LEAF,
    "(S (NP *) (VP (VB a)))": EMPTY_LEAF,
    "(S (VP *?*) (VP (VB a)))": EMPTY_LEAF,
    "(S (WHADVP 0) (VP (VB a)))": EMPTY_LEAF,
    "(IP (PP (P 0) (NP (N a))) (VB a))": EMPTY_LEAF,
    "(VP (VB a) (SBAR-1 0) (S (VP (VB b))))": EMPTY_LEAF,
    "(CP-REL (C\n0) (VP (VB a)))": EMPTY_LEAF,
    "(CP-REL ( C 0 ) (VP (VB a)))": EMPTY_LEAF,
    "(S (NP\t*T*-1\t) (VP (VB a)))": EMPTY_LEAF,
    "(S (NP he) (VP said (SBAR 0 (S (VP *-1 ran)))))": EMPTY_LEAF,
    "(S (NP he) (VP said (SBAR 0 (S (VP ran)))))": EMPTY_LEAF,
    "(S (NP he) (VP was seen *T*-1))": EMPTY_LEAF,
    "(S (NP (DT 0=the) (NN 2=dog)) (VP 1=barks))": NUMBERED_LEAVES,
    "(S (VP 1=barks) (NP 0=he))": NUMBERED_LEAVES,
    "(X 0=a)": NUMBERED_LEAVES,
}
WORDS = [
    "(S (SYM *) (NFP ***) (FW *trust) (NN *sigh*) (NN *P) (HYPH *) (UH *pro*) (NN cc*))",
    "(S (NN **p) (NFP **) (-NONE- *T*-1) (NP (-NONE- *)) (VBP *PAY*))",
    "(NP (NN ID) (NN CODE) (IDX a) (NN METADATA))",
    "(ADVP (IN *that*) (NNP *Bob*) (PRP *me*) (VBZ *is*) (NPR *x*) (WPRO *who*))",
    "(X (XX *sigh*) (XX *) (XX 0))",
    "(X *sigh* yes)",
    "(S 2 * 3)",
    "(NP (CD 0) (CD 0.5) (QP (CD 0)))",
    "(ROOT *sigh*)",
]


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("read", [read_trees, read_arrays])
def test_what_would_be_read_as_words_is_refused(text, read, tmp_path):
    file = tmp_path / "a.psd"
    file.write_text(f"{GOOD}\n\n{text}\n{GOOD}\n")
    with pytest.raises(InputError) as error:
        list(read([str(file)], Rejects()))
    assert str(error.value).startswith(f"{file}:3: {REFUSED[text]}")
    rejects = Rejects("skip")
    found = [one for some in read([str(file)], rejects) for one in _sources(some)]
    assert [(one.text, one.line) for one in found] == [(GOOD, 1), (GOOD, 4 + text.count("\n"))]
    assert [(record["line"], record["text"]) for record in rejects] == [(3, text)]


def _sources(some):
    return [some] if isinstance(some, SourcedTree) else [some.source(i) for i in range(len(some))]


@pytest.mark.parametrize("text", WORDS)
def test_words_with_asterisks_stay(text, tmp_path):
    file = tmp_path / "a.mrg"
    file.write_text(f"{text}\n")
    (tree,) = read_trees([str(file)], Rejects())
    assert str(tree.tree) == text
    (some,) = read_arrays([str(file)], Rejects())
    is_ordinary = "".join(tree.tree.tags) and all(tree.tree.tags)
    assert isinstance(some, SourcedTree) != bool(is_ordinary)  # nothing else is left to the plain reader


@pytest.mark.parametrize("text", ["(S (NN 0=x) (VB is))", "(S (NN 0=x) (VB 1=))", "(S (NN 1=x) (CD 0))"])
@pytest.mark.parametrize("read", [read_trees, read_arrays])
def test_words_that_are_equations_stay(text, read, tmp_path):
    file = tmp_path / "a.mrg"
    file.write_text(f"{text}\n")
    (tree,) = [one for some in read([str(file)], Rejects()) for one in _sources(some)]
    assert str(tree.tree) == text


def test_they_are_counted_by_reason(tmp_path, capsys):
    file, out = tmp_path / "a.psd", tmp_path / "a.trees"
    n_good = 2000  # so many that a glance at the beginning does not see the others
    file.write_text("\n".join([*[GOOD] * n_good, *REFUSED, GOOD, *WORDS]))
    arguments = ["parse", str(file), "--from", "treebank", "-o", str(out), "--binarize", "none"]
    assert run(arguments) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert run([*arguments, "--on-error", "skip"]) == 0
    told = capsys.readouterr().err
    for label, number in {"ID": 2, "METADATA": 2, "CODE": 3}.items():
        assert f"{number} without a tree: ({label} …)" in told
    assert f"{len(REFUSED) - 10} without a tree: {EMPTY_LEAF}" in told
    assert f"3 without a tree: {NUMBERED_LEAVES}" in told
    assert out.read_text().splitlines()[n_good : n_good + 2] == [GOOD, WORDS[0]]
    assert len(out.read_text().splitlines()) == n_good + 1 + len(WORDS)


# Trees of files, and those of them that are read: none of those that have ids.
SAMPLES = {
    "icepahc_sample/finished/1150.firstgrammar.sci-lin.psd": (183, 0),
    "icepahc_sample/finished/1883.voggur.nar-fic.psd": (130, 0),
    "keyaki_sample/treebank/aozora_Joyce-1914.psd": (246, 0),
    "icepahc_sample/additions2019/althingi/bo/2013/G-33-4656263.psd": (8, 4),
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_samples(sample, test_data, tmp_path):
    archive, member = sample.split("/", 1)
    with zipfile.ZipFile(test_data / "benchmarks" / "treebanks" / f"{archive}.zip") as packed:
        file = packed.extract(member, tmp_path)
    rejects = Rejects("skip")
    found = list(read_trees([file], rejects))
    assert (len(found) + len(rejects), len(found)) == SAMPLES[sample]
    assert not any(word[0] in "*0{" for one in found for word in one.tree.words)
    assert all(any(sign in record["text"] for sign in ("(ID ", "*", " 0)")) for record in rejects)
