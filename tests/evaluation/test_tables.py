"""Tables on a terminal and in a pipe; and what importing the evaluations loads."""

from __future__ import annotations

import io
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdtools.errors import visible
from pdtools.evaluation.comparison.compare import ComparedModels, GroupRuns
from pdtools.evaluation.comparison.engine import ComparedScore, GroupScore, PairDifference
from pdtools.evaluation.results import Results
from pdtools.report.comparisons import print_compared
from pdtools.report.evaluations import (
    print_benchmark,
    print_reading,
)
from pdtools.report.tables import (
    decimal,
    latex_table,
    latex_text,
    listed,
    markdown_table,
    print_table,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_columns_that_hold_numbers_alone_stand_on_the_right() -> None:
    columns, rows = ["name", "n", "mixed"], [("x", 1, "n/a"), ("yy", None, 22.456)]
    stream = io.StringIO()
    print_table(columns, rows, title="T", stream=stream)
    assert stream.getvalue() == "T\nname  n  mixed\nx     1  n/a\nyy    -  22.46\n"
    assert latex_table(columns, rows, title="T").splitlines() == [
        "% T",
        r"\begin{tabular}{lrl}",
        r"\toprule",
        r"name & n & mixed \\",
        r"\midrule",
        r"x & 1 & n/a \\",
        r"yy & -- & 22.46 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert markdown_table([["a", "b"], ["--", "--"], ["1", "2"]]) == "| a | b |\n| -- | -- |\n| 1 | 2 |\n"


@pytest.mark.parametrize(
    ("parts", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_words_as_in_a_sentence(parts: list[str], text: str) -> None:
    assert listed(parts) == text


def test_what_is_too_long_stands_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for stream, width in ((Terminal(), 100), (io.StringIO(), 80)):
        rows = [("n" * (width - 7), 1.5), ("m" * (width - 6), 2.5)]
        print_table(["name", "score"], rows, stream=stream)
        head, first, second, last = stream.getvalue().splitlines()
        assert head == "name".ljust(width - 7) + "  score"
        assert first == "n" * (width - 7) + "   1.50"
        assert (second, last) == ("m" * (width - 6), " " * (width - 4) + "2.50")


# --- tables of every command, with names as long as the real ones -------------------------------------


def words(kind: str, *lengths: int) -> Iterator[str]:
    """Different names of these lengths."""
    for number, length in enumerate(lengths):
        yield f"{kind}{number:02}" + "name_of_something_as_long_as_the_real_names_of_the_data"[: length - 3]


PHENOMENA = tuple(words("f", 25, 22, 21, *[14] * 9))  # as determiner_noun_agreement, subject_verb_agreement
PARADIGMS = tuple(
    words("p", 46, 45, 42, 41, 40, *[30] * 62)
)  # determiner_noun_agreement_with_adj_irregular_1


def blimp_results(*, named: bool = True) -> Results:
    rows = [
        {
            "paradigm": name,
            "phenomenon": PHENOMENA[i % 12] if named else None,
            "field": "syntax_semantics" if named else None,
            "prediction": 1,
            "outcome": "right",
        }
        for i, name in enumerate(PARADIGMS)
    ]
    phenomena = PHENOMENA if named else ()
    return Results(
        scores={
            "overall": 0.8,
            "mean_of_items": 1.0,
            "by_prediction": {"main": 0.8, "per_token": 1.0},
            "by_field": {"syntax_semantics": 1.0} if named else {},
            "by_phenomenon": dict.fromkeys(phenomena, 1.0),
            "by_paradigm": dict.fromkeys(PARADIGMS, 1.0),
        },
        counts={"items": 67000, "items_scored": 67000, "ties": 1234},
        settings={"task": "blimp"},
        tables={"items": pa.Table.from_pylist(rows)},
    )


def compared(task: str, *names: str) -> ComparedModels:
    """Scores of all levels, with the widest numbers."""
    levels = {
        "blimp": {"field": ["syntax_semantics"], "phenomenon": PHENOMENA, "paradigm": PARADIGMS},
        "ppl": {},
    }[task]
    runs = (100.0,) * (1 if len(names) == 2 else 3)
    group = GroupScore(
        group="",
        values=runs,
        mean=12345.678 if task == "ppl" else 100.0,
        deviation=12.345,
        over_items=(0, 1),
        over_seeds=(-90.1, 99.9),
    )
    pair = PairDifference(
        **{"a": "", "b": "", "difference": -98.765, "over_items": (-100, -98.765), "only_a": 60000},
        **{"only_b": 60000, "over_seeds": (-12.3, 12.3), "p": 1.2e-300, "p_holm": 1.2e-298, "family": 9},
    )
    texts = {
        "ppl": [
            "perplexity per word without end-of-sentence, given the trees",
            "perplexity per word, marginal",
        ]
    }
    scores = [
        ComparedScore(
            evaluation=task,
            score=text,
            level=level,
            name=name,
            items=67000,
            lower_is_better=False,
            groups=tuple(
                replace(group, group=name, bound="upper bound at beam 300" if "marginal" in text else None)
                for name in names
            ),
            pairs=tuple(replace(pair, a=a, b=b) for a, b in itertools.combinations(names, 2)),
            notes=("beam: 10 and 300",),
        )
        for text in texts.get(task, ["SG score, mean of suites (%)"])
        for level, of in {"overall": [""], **levels}.items()
        for name in of
    ]
    return ComparedModels(
        groups=tuple(GroupRuns(name=name, folders=("x",) * len(runs), seeds=(1,)) for name in names),
        baseline=None,
        scores=tuple(scores),
        notes={task: ("beam: 10 and 300 (transformer-of-16-layers, and gpt2)",) * 3},
        refused={task: ("results/x: results of other sentences than results/y",)},
        settings={},
    )


LONG = ("transformer-of-16-layers", "pushdown-of-16-layers")


SHOWN: dict[str, Callable[[], None]] = {
    "eval-blimp": lambda: print_benchmark(blimp_results()),
    "eval-blimp --details": lambda: print_benchmark(blimp_results(), details=True),
    "eval-blimp own pairs": lambda: print_benchmark(blimp_results(named=False)),
    "compare blimp --details": lambda: print_compared(compared("blimp", *LONG), details=True),
    "compare ppl": lambda: print_compared(compared("ppl", *LONG)),
    "compare many blimp": lambda: print_compared(compared("blimp", *LONG, "gpt2")),
    "compare many blimp --details": lambda: print_compared(compared("blimp", *LONG, "gpt2"), details=True),
}


@pytest.mark.parametrize("name", SHOWN)
def test_no_line_is_wider_than_80_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = []
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stdout", stream)
        SHOWN[name]()
        monkeypatch.undo()
        monkeypatch.setenv("COLUMNS", "80")
        found.append(stream.getvalue())
        assert max(map(len, found[-1].splitlines())) <= 80
    assert found[0] == found[1]
    if "ppl" not in name:
        fine, coarse = ([word for word in of if word in found[0]] for of in (PARADIGMS, PHENOMENA))
        assert len(fine) == (len(PARADIGMS) if "--details" in name or "own" in name else 0)
        assert len(coarse) == (0 if "own" in name else len(PHENOMENA))
        first = min(map(found[0].index, [*coarse, *fine]))
        assert "compare" in name or found[0].index("overall") < first


@given(st.text(alphabet=st.sampled_from("a1+-. \\{}$&%#_~^<>|[]*\n\x1b\u202e"), max_size=12))
def test_text_for_latex_can_be_read_again(text: str) -> None:
    """Read as LaTeX reads it, nothing of it is a command, and it is the text."""
    words = {"textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^"}
    words |= {"textless": "<", "textgreater": ">", "textbar": "|"}
    token = re.compile(
        r"\$(?P<sign>[+-])\$|\\(?P<word>text[a-z]+)\{\}|\\(?P<escaped>[&%$#_{}])|(?P<plain>[^\\{}$&%#_~^<>|])"
    )
    escaped, read, at = latex_text(visible(text)), "", 0
    while at < len(escaped):
        found = token.match(escaped, at)
        assert found, escaped[at:]
        at = found.end()
        read += found["sign"] or words.get(found["word"] or "") or found["escaped"] or found["plain"]
    assert read == visible(text)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 4), st.sampled_from(["", "+"]))
def test_no_number_is_shown_as_0_that_is_none(number: float, digits: int, sign: str) -> None:
    text = decimal(number, digits, sign)
    assert (float(text) == 0) == (number == 0)
    assert 2 * abs(Fraction(text) - Fraction(number)) * 10**digits <= 1
    if float(f"{number:.{digits}f}"):
        assert text == f"{number:{sign}.{digits}f}"
    else:
        assert float(text) == pytest.approx(number, rel=0.06)
    stream = io.StringIO()
    print_table(["x"], [[number]], digits=digits, stream=stream)
    assert stream.getvalue().split() == ["x", decimal(number, digits)]


@pytest.mark.parametrize("gain", [0.0123, -0.00002, 3e-7, 1e-11, 0.0, 2.5])
def test_gains_of_reading_times_have_the_digits_of_their_size(
    gain: float, capsys: pytest.CaptureFixture[str]
) -> None:
    tested = {"low": gain / 2, "high": 2 * gain, "p": 0.004, "p_observations": 1e-7}
    scores = {
        "by_model": {"m": {"delta_ll": gain, **tested, "coefficients": {}}},
        "pairs": [{"a": "m", "b": "n", "difference": -gain, **tested}],
    }
    counts = {
        "words_regressed": 9,
        "items": 3,
        "groups": 3,
        "words_left_out": {},
        "observations_left_out": {},
    }
    settings = {"baseline": ["length"], "spillover": 0, "models": {}}
    print_reading(Results(scores=scores, counts=counts, settings=settings))
    lines = capsys.readouterr().out.splitlines()
    for start, sign in (("m ", 1), ("n − m ", -1)):
        (line,) = (line for line in lines if line.startswith(start) and "ΔLL" not in line)
        cells = line.removeprefix(start).split()
        assert [float(cell) for cell in cells] == pytest.approx(
            [sign * gain, gain / 2, 2 * gain, 0.004, 1e-7], rel=0.01, abs=0
        )


def test_numbers_for_latex() -> None:
    for text, wanted in {
        "2.1e-07": r"$2.1\cdot10^{-7}$",
        "1e-300": r"$1\cdot10^{-300}$",
        "3e+05": r"$3\cdot10^{5}$",
        "-4.17": "$-$4.17",
        "base-1": "base-1",
        "[-4.4, +3.5]": "[$-$4.4, $+$3.5]",
        "a2e-1": "a2e-1",
    }.items():
        assert latex_text(text) == wanted


def test_imports_are_light() -> None:
    heavy = ["torch", "numpy", "pyarrow", "pandas", "nltk", "transformers"]
    names = ("blimp.pairs", "sg.suites", "parsing.evaluate", "perplexity.evaluate", "comparison.compare")
    of_results = [f"pdtools.evaluation.{name}" for name in (*names, "external.recorded")]
    modules = [*of_results, "pdtools.report.evaluations", "pdtools.report.evalb", "pdtools.cli.main"]
    code = f"import sys, {', '.join(modules)}; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
