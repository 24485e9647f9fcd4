"""Files of figures: their names, what is drawn into them, and what is said where that fails."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from view_pages import random_trace, write_run

from pdtools.cli.main import run
from pdtools.errors import MissingDependencyError, PdtoolsError
from pdtools.report.view import sentences, vega
from pdtools.report.view.charts import bars
from pdtools.report.view.figures import Figures, file_names, write_figures
from pdtools.trees import tape


@pytest.mark.parametrize(
    ("names", "alike"),
    [
        (["overview", "blimp-field", "tape-1-GPT2"], ["overview", "blimp-field", "tape-1-GPT2"]),
        (["tree-1-größe", "tree-1-gräße"], ["tree-1-gro-e-", "tree-1-gra-e-"]),
        (["tape-1-模型", "tape-1-基线"], ["tape-1-", "tape-1-"]),
        (["tree-1-Base", "tree-1-base", "tree-1-b"], ["tree-1-Base-", "tree-1-base-", "tree-1-b"]),
        (["a/b", "a-b", "a b", "../a"], ["a-b-", "a-b", "a-b-", "a-"]),
        (["", ".", "/", "模"], ["figure-", "figure-", "figure-", "figure-"]),
        (["x" * 300 + "1", "x" * 300 + "2"], ["x" * 100 + "-", "x" * 100 + "-"]),
        (["a\x01", "a\x02", "a\ud800"], ["a-", "a-", "a-"]),
    ],
)
def test_names_of_files_are_distinct_and_readable(names: list[str], alike: list[str]) -> None:
    found = list(file_names(names).values())
    for stem, begins in zip(found, alike, strict=True):
        assert re.fullmatch(re.escape(begins) + ("[0-9a-f]{8}" if begins.endswith("-") else ""), stem)
    assert len({stem.lower() for stem in found}) == len(names)
    assert list(file_names(names[::-1]).values()) == found[::-1]


@given(st.lists(st.text(st.characters(codec=None)) | st.sampled_from(["a", "A", "a b"]), unique=True))
def test_names_of_files_of_any_names(names: list[str]) -> None:
    stems = file_names(names)
    # What a digest makes of a name may be a name itself.
    stems = file_names([*names, *(stem for stem in stems.values() if stem not in names)])
    assert len({stem.lower() for stem in stems.values()}) == len(stems)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,110}", stem) for stem in stems.values())


def test_figures_of_models_and_tokens_with_odd_names(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    names = ["größe", "gräße", "模型", "基线", "A", "a", "a\x01", "b\ud800"]
    tokens = ["\x01", "\x1b[31m", "\x00", "\x9b", "\ufffe", "\ud800", "a\nb", "\u202e"]
    traces = [random_trace(tokens, seed) for seed in range(len(names))]
    found = sentences.figures(sentences.sentences_page([traces], names, {}))
    charts = {name: found.charts[name] for name in ("surprisals-1", "tape-1-a\x01")}
    values = [float("nan"), float("inf"), 1.0]
    rows = [{"series": "\x01", "position": k, "token": "\x01", "bits": x} for k, x in enumerate(values)]
    charts["no-number"] = bars(rows, series=["\x01", "\x02"])
    found = replace(found, charts=charts)
    files = write_figures(tmp_path / "figures", found, {})
    assert len(files) == 2 * (len(charts) + len(names) + 1) + len(names)
    written = [path.read_text("utf-8") for path in (tmp_path / "figures").glob("tree-*.tex")]
    assert sorted(written) == sorted(found.sources.values())
    for path in (tmp_path / "figures").glob("*.svg"):
        text = "".join(ElementTree.parse(path).getroot().itertext())
        assert path.name.startswith("tree-") or "\\x01" in text


def test_places_of_surprisals_are_named_by_the_first_model() -> None:
    traces = [random_trace(words, 0) for words in (["un", "happy", "dogs"], ["unhappy", "dogs"])]
    found = sentences.figures(sentences.sentences_page([traces], ["A", "B"], {}))
    x = found.charts["surprisals-1"]["encoding"]["x"]
    assert x["sort"] == ["1 un", "2 happy", "3 dogs", "4 <eos>"]
    labels = {row["label"] for row in found.charts["surprisals-1"]["data"]["values"]}
    assert labels == set(x["sort"])


def test_figures_of_sentences() -> None:
    """Of each sentence all surprisals; of each model the best parse and its tape, of attachments."""
    sentences_ = [["the", "old", "dog", "barks"], ["a", "b"]]
    traces = [[random_trace(words, 10 * s + m) for m in range(2)] for s, words in enumerate(sentences_)]
    traces[1][1] = replace(traces[1][1], best=None)
    traces[0][1] = replace(traces[0][1], derivations="actions")
    found = sentences.figures(sentences.sentences_page(traces, ["A", "B"], {}))
    assert list(found.tables) == ["surprisals-1", "surprisals-2"]
    for s, of_models in enumerate(traces, 1):
        columns, rows = found.tables[f"surprisals-{s}"]
        assert columns == ["model", "position", "token", "bits"]
        expected = [
            (model, k, token, bits)
            for model, one in zip("AB", of_models, strict=True)
            for k, (token, bits) in enumerate(zip(one.tokens, one.surprisals, strict=True))
            if bits is not None
        ]
        for row, (*names, bits) in zip(rows, expected, strict=True):
            assert row[:3] == names
            assert row[3] == pytest.approx(bits, rel=1e-5)
        drawn = found.charts[f"surprisals-{s}"]["data"]["values"]
        assert [[row["series"], row["position"], row["bits"]] for row in drawn] == [
            [row[0], row[1], row[3]] for row in rows
        ]
    trees = ["tree-1-A", "tree-1-B", "tree-2-A"]
    assert list(found.drawings) == list(found.sources) == trees
    for name, words in zip(trees, (sentences_[0], sentences_[0], sentences_[1]), strict=True):
        leaves = [f"w{i}" for i in range(len(words))]
        assert re.findall(r"\bw\d", found.sources[name]) == leaves
        assert re.findall(r">(w\d)<", found.drawings[name]) == leaves
    assert [name for name in found.charts if name.startswith("tape")] == ["tape-1-A", "tape-2-A"]
    for s in (1, 2):
        best = traces[s - 1][0].best
        assert best is not None
        assert best.derivation is not None
        cells = {(c["k"], c["j"]): c["depth"] for c in found.charts[f"tape-{s}-A"]["data"]["values"]}
        depths = tape([int(each) for each in best.derivation])
        assert cells == {(k, j): int(depths[k][j]) for k in range(len(depths)) for j in range(k + 1)}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the address space of a process")
def test_too_little_address_space_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n"
    monkeypatch.setattr(vega, "_CHILD", limited + vega._CHILD)
    vega.javascript.cache_clear()
    write_run(tmp_path / "run", 4)
    for option in ("-o", "--figures"):
        assert run(["view", str(tmp_path / "run"), option, str(tmp_path / "out")]) == 1
        said = capfd.readouterr().err
        assert re.fullmatch(r"pdtools: charts cannot be drawn: .*SIG[A-Z]+ .*ulimit -v.*\n", said)
        assert not (tmp_path / "out").exists()


def test_a_later_process_makes_no_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    monkeypatch.setenv("PDTOOLS_CACHE", str(tmp_path / "cache"))
    made = vega.javascript.__wrapped__()
    assert "vegaEmbed" in made
    monkeypatch.setattr(vega, "_run", None)
    assert vega.javascript.__wrapped__() == made
    for name, other in (("version", lambda _: "another"), ("_CHILD", "another")):
        with monkeypatch.context() as patch, pytest.raises(TypeError):
            patch.setattr(vega, name, other)
            vega.javascript.__wrapped__()


def test_without_vl_convert_one_line_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(vega, "version", unknown)
    monkeypatch.setattr(vega, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"\[view\]"):
        vega.javascript.__wrapped__()


def test_what_vl_convert_says_is_one_line() -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    with pytest.raises(PdtoolsError, match=r"^charts cannot be drawn: .*unknown token at 1:1$"):
        vega.draw({}, {"x": "no SVG"})


def test_p_has_two_digits_whatever_the_others_have(tmp_path: Path) -> None:
    rows = [["x", 12.345, 0.000123, None], ["y", 2.0, 0.25, 0.5]]
    write_figures(
        tmp_path / "f", Figures(charts={}, tables={"t": (["of", "score", "p", "p_holm"], rows)}), {}
    )
    lines = (tmp_path / "f" / "t.tex").read_text().splitlines()
    assert [line.removesuffix(r" \\").split(" & ") for line in lines if " & " in line][1:] == [
        ["x", "12.35", "0.00012", "--"],
        ["y", "2.00", "0.25", "0.5"],
    ]
    assert "x,12.345,0.000123," in (tmp_path / "f" / "t.csv").read_text()
