"""Scores of n-gram models: against back-off computed by hand from the same ARPA file, and KenLM's own."""

from __future__ import annotations

import bz2
import ctypes
import gzip
import lzma
import math
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.files.packed import compress_zstd
from pdtools.search import SentenceScore, Unscorable, load_model
from pdtools.search.options import Context

kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed")

WORDS = ["the", "dog", "cats", "bark", "é", "."]


def arpa(
    path: Path, order: int, seed: int, *, unknown: bool = True
) -> dict[tuple[str, ...], tuple[float, float]]:
    """Write random n-grams (log10 p, back-off), and return them; each n-gram's beginning is one too."""
    draw = random.Random(seed)
    grams: dict[tuple[str, ...], tuple[float, float]] = {}
    for word in (*(["<unk>"] if unknown else []), "<s>", "</s>", *WORDS):
        grams[(word,)] = (
            -99.0 if word == "<s>" else round(-draw.random() * 3 - 0.1, 4),
            round(-draw.random(), 4),
        )
    for n in range(2, order + 1):
        shorter = [
            gram for gram in grams if len(gram) == n - 1 and gram[-1] != "</s>" and "<unk>" not in gram
        ]
        for gram in shorter:
            for word in draw.sample([*WORDS, "</s>"], 3):
                if (*gram[1:], word) in grams:  # KenLM wants the end of an n-gram too
                    grams[(*gram, word)] = (round(-draw.random() * 2 - 0.1, 4), round(-draw.random(), 4))
    lines = ["\\data\\"]
    by_order = [[gram for gram in grams if len(gram) == n] for n in range(1, order + 1)]
    lines += [f"ngram {n}={len(of_n)}" for n, of_n in enumerate(by_order, 1)]
    for n, of_n in enumerate(by_order, 1):
        lines += ["", f"\\{n}-grams:"]
        for gram in of_n:
            logprob, backoff = grams[gram]
            ends = gram[-1] == "</s>" or n == order
            if ends:
                grams[gram] = (logprob, 0.0)
            lines.append(f"{logprob}\t{' '.join(gram)}" + ("" if ends else f"\t{backoff}"))
    path.write_text("\n".join([*lines, "", "\\end\\", ""]), encoding="utf-8")
    return grams


def by_hand(grams: dict[tuple[str, ...], tuple[float, float]], order: int, words: list[str]) -> list[float]:
    """Log10 p of each word after <s>, and of the end."""

    def logprob(context: tuple[str, ...], word: str) -> float:
        if (*context, word) in grams:
            return grams[(*context, word)][0]
        if not context:
            return grams[("<unk>",)][0] if ("<unk>",) in grams else -100.0
        return grams.get(context, (0.0, 0.0))[1] + logprob(context[1:], word)

    known = [word if (word,) in grams else "<unk>" for word in words]
    read, values = ["<s>"], []
    for word in (*known, "</s>"):
        values.append(logprob(tuple(read[max(0, len(read) - order + 1) :]), word))
        read.append(word)
    return values


@pytest.mark.parametrize("order", [2, 3, 6])
@pytest.mark.parametrize("unknown", [True, False])
def test_scores_are_those_of_back_off(order: int, unknown: bool, tmp_path: Path) -> None:
    grams = arpa(tmp_path / "m.arpa", order, order, unknown=unknown)
    draw = random.Random(1)
    texts = [" ".join(draw.choices([*WORDS, "Dog", "zebra"], k=draw.randrange(1, 9))) for _ in range(30)]
    model = load_model(tmp_path / "m.arpa")
    assert ("warning" in model.settings) != unknown
    theirs = kenlm.Model(str(tmp_path / "m.arpa"))
    for text, score in zip(texts, model.score(texts), strict=True):
        assert isinstance(score, SentenceScore)
        assert score.tokens == (*text.split(), "</s>")
        assert score.n_unknown == sum(word not in WORDS for word in text.split())
        right = by_hand(grams, order, text.split())
        assert (score.logprobs / math.log(10)).tolist() == pytest.approx(right, rel=1e-6)
        assert score.total / math.log(10) == pytest.approx(theirs.score(text), rel=1e-6)


PROBING, TRIE, QUANTIZED = 0, 2, 3


def binary(arpa: Path, made: Path, kind: int) -> Path:
    """KenLM's binary form of a file, as its ``build_binary`` writes it, by the library in its module.

    The struct ``lm::ngram::Config`` has the name of the file to write behind a string of 32 bytes, as GCC
    lays them out.
    """
    library, config = ctypes.CDLL(kenlm.__file__), ctypes.create_string_buffer(1024)
    load = getattr(library, "_ZN2lm5ngram11LoadVirtualEPKcRKNS0_6ConfigENS0_9ModelTypeE", None)
    if load is None:
        pytest.skip("this module of KenLM has no function that writes binary files")
    library._ZN2lm5ngram6ConfigC1Ev(config)
    if struct.unpack_from("<ff4xQ40xQ", config, 36) != (-100.0, 1.5, 1 << 30, 0):
        pytest.skip("this module of KenLM has another layout of Config")
    name = ctypes.create_string_buffer(str(made).encode())
    config[0] = 0  # no progress
    struct.pack_into("<Q", config, 96, ctypes.addressof(name))
    load.restype = ctypes.c_void_p
    assert load(str(arpa).encode(), config, kind)
    return made


def numbers(path: Path, texts: list[str]) -> list[list[float]]:
    return [score.logprobs.tolist() for score in load_model(path).score(texts)]  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", [PROBING, TRIE])
@pytest.mark.parametrize("unknown", [True, False])
def test_binary_files_give_the_same_numbers(kind: int, unknown: bool, tmp_path: Path) -> None:
    path, texts = tmp_path / "m.arpa", ["the dog bark .", "zebra cats \u00e9", "."]
    arpa(path, 4, 0, unknown=unknown)
    made = binary(path, tmp_path / "m.binary", kind)
    assert numbers(made, texts) == numbers(path, texts)
    whole = load_model(path).settings, load_model(made).settings
    assert [("warning" in settings) for settings in whole] == [not unknown] * 2
    # The words at its end, and what follows, are not read.
    data = made.read_bytes()
    for other in (data + data, data[:-3]):
        (tmp_path / "other.binary").write_bytes(other)
        assert numbers(tmp_path / "other.binary", texts) == numbers(path, texts)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:400], "has size 400 but the headers say it should be at least"),
        (lambda data: data[:95], "End of file"),
        (lambda data: data.replace(b"version 5", b"version 4"), "has version 4 but .* expects version 5"),
        (lambda data: data[:56] + b"\1" * 4 + data[60:], "the test values don't match"),
        (
            lambda data: b"mmap lm http://kheafield.com/code incomplete\n" + data[45:],
            "did not finish building",
        ),
    ],
    ids=["cut off", "cut header", "another version", "another machine", "not finished"],
)
def test_a_damaged_binary_file_is_one_line(damage: Any, reason: str, tmp_path: Path) -> None:
    arpa(tmp_path / "m.arpa", 3, 0)
    made = binary(tmp_path / "m.arpa", tmp_path / "m.binary", QUANTIZED)
    made.write_bytes(damage(made.read_bytes()))
    with pytest.raises(PdtoolsError, match=f"KenLM cannot read it: .*{reason}") as refusal:
        load_model(made)
    assert "\n" not in str(refusal.value)
    assert ".cc" not in str(refusal.value)


PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": compress_zstd}


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("name", ["m.arpa", "m"])
def test_packed_files(ending: str, name: str, tmp_path: Path) -> None:
    """KenLM unpacks them, by their first bytes, if it was compiled so; a cut one is one line."""
    plain, packed = tmp_path / "plain", tmp_path / (f"{name}.{ending}" if name.endswith("arpa") else name)
    arpa(plain, 2, 0)
    content = PACKED[ending](plain.read_bytes())
    packed.write_bytes(content)
    if ending == "zst":
        with pytest.raises(PdtoolsError, match="KenLM reads no Zstandard .unpack it with zstd -d"):
            load_model(packed)
        return
    try:
        found = numbers(packed, ["the dog"])
    except PdtoolsError as refusal:
        pytest.skip(f"{refusal}")
    assert found == numbers(plain, ["the dog"])
    (tmp_path / "cut").write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(PdtoolsError, match="KenLM cannot read it: |damaged compressed file: "):
        load_model(tmp_path / "cut")


def test_odd_words(tmp_path: Path) -> None:
    """The model's marks are no words; what KenLM cannot be given is unknown; NA and case are as written."""
    path = tmp_path / "m.arpa"
    grams = arpa(path, 2, 0)
    model = load_model(path)
    for text, reason in {
        "": "no words",
        "the </s> dog": "</s> is the model's own mark, not a word: leave it out",
        "<s> the dog": "<s> is the model's own mark, not a word: leave it out",
    }.items():
        assert list(model.score([text])) == [Unscorable(text, reason)]
    odd = ["<unk>", "NA", "The", "the\0", "\ud800", "\u72d7\u53eb"]
    for word in odd:
        (score,) = model.score([f"the {word}"])
        assert isinstance(score, SentenceScore)
        assert score.tokens == ("the", word, "</s>")
        assert score.n_unknown == 1
        right = by_hand(grams, 2, ["the", "<unk>"])
        assert (score.logprobs / math.log(10)).tolist() == pytest.approx(right, rel=1e-6)


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Words as written between spaces, from text and tokens; a perplexity per word with its end."""
    path, text = tmp_path / "m.arpa", tmp_path / "text.txt"
    grams = arpa(path, 3, 0)
    text.write_text("the dog bark .\n", encoding="utf-8")
    logprobs = by_hand(grams, 3, ["the", "dog", "bark", "."])
    for form in ("text", "tokens"):
        assert run(["surprisal", str(text), "--from", form, "--model", str(path)]) == 0
        rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
        column = [float(row[-1]) for row in rows]
        assert column == pytest.approx([-value * math.log2(10) for value in logprobs], abs=1e-4)
    assert run(["surprisal", str(text), "--model", str(path), "--words"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[2] for row in rows] == ["the", "dog", "bark", ".", "</s>"]
    assert [float(row[-1]) for row in rows] == pytest.approx(
        [-value * math.log2(10) for value in logprobs], abs=1e-4
    )
    assert run(["eval-ppl", str(text), "--model", str(path), "--workers", "2"]) == 0
    assert f"{10 ** (-sum(logprobs) / 5):.3f}" in capsys.readouterr().out
    assert run(["inspect", "the dog bark .", "--model", str(path)]) == 0
    for options, reason in [
        (["--pll", "original"], "leave out --pll"),
        (["--no-bos"], "without BOS"),
        (["--dtype", "bf16"], "leave out --dtype"),
        (["--context", str(text)], "leave out --context"),
        (["--entropy"], "no whole distributions"),
        (["--parses"], "has no parses"),
    ]:
        assert run(["surprisal", str(text), "--model", str(path), *options]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert reason in line
    with pytest.raises(PdtoolsError, match="leave out --context"):
        load_model(path, context=Context(stride=2))


DAMAGED = {
    "cut off": (lambda text: text[: text.index("\\2-grams") + 30], r":\d+: .*End of file"),
    "another order": (
        lambda text: text.replace("\\2-grams", "\\3-grams"),
        r":\d+: .*header .2-grams: but got .3",
    ),
    "no number": (lambda text: text.replace("\tdog\t", " dog\t", 1), r":\d+: "),
    "order 7": (
        lambda _: "\\data\\\n" + "".join(f"ngram {n}=1\n" for n in range(1, 8)) + "\n\\1-grams:\n-1\t<unk>\n",
        ".*order 7 .*up to 6",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.arpa"
    arpa(path, 2, 0)
    damage, reason = DAMAGED[name]
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(PdtoolsError, match=f"m.arpa{reason}") as refusal:
        load_model(path)
    assert "KenLM cannot read it: " in str(refusal.value)
    assert "\n" not in str(refusal.value)
