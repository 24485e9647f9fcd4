"""The benchmarks that come with pdtools, on rows made up here in the form in which each is published."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pdtools.errors import InputError
from pdtools.evaluation.benchmark.evaluate import evaluate_items
from pdtools.evaluation.benchmark.from_toml import BENCHMARKS, read_benchmark
from pdtools.evaluation.benchmark.item_files import Items, known_by_files
from pdtools.evaluation.benchmark.item_set import Item


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


PAIR = {"sentence_good": "she sleeps", "sentence_bad": "she sleep"}
PAIRS = [("she sleeps", "she sleep")]
EWOK = "Domain,Context1,Context2,Target1,Target2\nphysics,It fell.,It rose.,It is below.,It is above.\n"
BOX = {"input_prefix": "Box 0 has", "options": ["a pen", "a cup", "ink", "tea", "it"], "numops": 2}
CONCEPT = {"property_phrase": "can bark.", "prefix_acceptable": "A dog", "prefix_unacceptable": "A cat"}
PREFIXED = "pattern\tconstr_id\tsent_id\tform\tclass\ttype\tprefix\n"
DUTCH = "Phenomenon,Number (paradigm),Paradigm,Item,Grammaticality,Sentence\n"

# Files by path; items as lists of strings, the right one first; groups of each level.
SETS: dict[str, tuple[dict[str, str | bytes], list[tuple[str, ...]], list[tuple[str | None, ...]]]] = {
    "multiblimp": (
        {"deu/data.tsv": 'sen\twrong_sen\tphenomenon\n"sie ""schläft"""\t"sie ""schlafen"""\tSV-#\n'},
        [('sie "schläft"', 'sie "schlafen"')],
        [("deu", "SV-#")],
    ),
    "zorro": (
        {"sentences/babyberta/agreement-simple.txt": "she sleep .\nshe sleeps .\n"},
        [("she sleeps .", "she sleep .")],
        [("agreement", "agreement-simple")],
    ),
    "clams": (
        {"de_evalset/simple_agrmt.txt": "True\tsie schläft\nFalse\tsie schlafen\n"},
        [("sie schläft", "sie schlafen")],
        [("de", "simple_agrmt")],
    ),
    "lindsea": (
        {
            "lindsea/id/syntax/a.jsonl": lines(
                {"linguistic_phenomenon": "x", "category": "y", "correct": "dia tidur", "wrong": "tidur dia"}
            )
        },
        [("dia tidur", "tidur dia")],
        [("id", "x", "y")],
    ),
    "blimp": (
        {"a.jsonl": lines({**PAIR, "field": "syntax", "linguistics_term": "binding", "UID": "u"})},
        PAIRS,
        [("syntax", "binding", "u")],
    ),
    "blimp-supplement": (
        {
            "supplement_filtered/turn_taking.jsonl": lines(
                {"sentence_good": "Who?\nShe.", "sentence_bad": "Who?\nIt."}
            )
        },
        [("Who?\nShe.", "Who?\nIt.")],
        [("turn_taking",)],
    ),
    "colorlessgreen": (
        {
            "data/agreement/English/generated.tab": PREFIXED
            + 'L\t1\t2\tsleep\twrong\toriginal\t"she ""now"""\n'
            + 'L\t1\t2\tsleeps\tcorrect\toriginal\t"she ""now"""\n'
        },
        [('she "now" sleeps', 'she "now" sleep')],
        [("English", "original")],
    ),
    "linzen": (
        {
            "data.gold/linzen_testset/a.gold": "1\tsleeps\tsleep\t0\n",
            "data.gold/linzen_testset/a.text": "she Sleeps now <eos>\n",
        },
        [("she sleeps", "she sleep")],
        [("0",)],
    ),
    "lm-syneval": (
        {
            "EMNLP2018/templates/npi.pickle": pickle.dumps(
                {"past": [("no one ever", "one ever", "a ever")]}, 0
            ),
            "data/templates/simple.pickle": pickle.dumps({"sing": [PAIRS[0]]}, 3),
        },
        [("no one ever", "one ever"), ("no one ever", "a ever"), PAIRS[0]],
        [("EMNLP2018", "npi", "past"), ("EMNLP2018", "npi", "past"), ("data", "simple", "sing")],
    ),
    "lm-syneval-sample": (
        {
            "EMNLP2018/sample_sents.txt": "test case\tgrammatical\tungrammatical\n"
            "rel--a\tshe sleeps\tshe sleep\n"
        },
        PAIRS,
        [("rel",)],
    ),
    "climp": (
        {
            "a_1000.csv": ",0,1,2,3\n0,x,y,她睡觉了。,\n1,x,y,睡觉她了。,\n",
            "ba_construction_1000.csv": "他把书看了。\r\n他书把看了。\r\n",
        },
        [("她睡觉了。", "睡觉她了。"), ("他把书看了。", "他书把看了。")],
        [("a_1000",), ("ba_construction_1000",)],
    ),
    "sling": (
        {
            "SLING_Data/Anaphor/Plural/b.jsonl": lines(
                {"sentence_good": "她睡觉。", "sentence_bad": "睡觉她。", "paradigm": "b", "phenomenon": "x"}
            )
        },
        [("她睡觉。", "睡觉她。")],
        [("Anaphor", "Anaphor/Plural/b")],
    ),
    "jblimp": (
        {
            "data/validated/validated_minimal_pairs.jsonl": lines(
                {
                    "good_sentence": "犬が来た。",
                    "bad_sentence": "犬を来た。",
                    "phenomenon": "p",
                    "paradigm": "q",
                }
            )
        },
        [("犬が来た。", "犬を来た。")],
        [("p", "p/q")],
    ),
    "rublimp": (
        {"a.csv": 'source_sentence,target_sentence,level,phenomenon,PID\n"Она, спит","Она, спят",m,p,u\n'},
        [("Она, спит", "Она, спят")],
        [("m", "p", "u")],
    ),
    "turblimp": (
        {
            "data/base/binding.csv": 'good_sentence;bad_sentence;cue\n"O; uyur";O uyurum;o\n',
            "data/experimental/binding_SOV.csv": 'good_sentence,bad_sentence\n"O, uyur",O uyurum\n',
        },
        [("O; uyur", "O uyurum"), ("O, uyur", "O uyurum")],
        [("base", "binding"), ("experimental", "binding_SOV")],
    ),
    "blimp-nl": (
        {
            "Phenomenon01.csv": f"{DUTCH}A,1,b,1,Grammatical,Zij slaapt.\nA,1,b,2,Ungrammatical,Hij lopen.\n"
            "A,1,b,1,Ungrammatical,Zij slapen.\nA,1,b,2,Grammatical,Hij loopt.\n"
        },
        [("Zij slaapt.", "Zij slapen."), ("Hij loopt.", "Hij lopen.")],
        [("A", "A/b")] * 2,
    ),
    "zhoblimp": (
        {
            "a.jsonl": lines(
                {"sentence_good": "她睡。", "sentence_bad": "睡她。", "phenomenon": "p", "UID": "u"}
            )
        },
        [("她睡。", "睡她。")],
        [("p", "u")],
    ),
    "qfrblimp": (
        {
            "qfrblimp.jsonl": lines(
                {"sentence_a": "elle dort", "sentence_b": "elle dors", "label": 0.0, "type": "t"},
                {"sentence_a": "il dors", "sentence_b": "il dort", "label": 1.0, "type": "t"},
            )
        },
        [("elle dort", "elle dors"), ("il dort", "il dors")],
        [("t",)] * 2,
    ),
    "bl2mp": ({"bl2mp_type.jsonl": lines({**PAIR, "type": "case"})}, PAIRS, [("case",)]),
    "jcola": (
        {
            f"data/jcola-v1.0/{name}-v1.0.tsv": f"uid\tlabel\tsentence\n1\t1\t{good}\n2\t0\t{bad}\n"
            for name, good, bad in (
                ("in_domain_train", "犬が来た。", "犬を犬を来た。"),
                ("in_domain_valid", "猫が来た。", "猫を来た。"),
                ("out_of_domain_valid", "鳥が来た。", "鳥を来た。"),
            )
        },
        [
            ("犬が来た。",),
            ("犬を犬を来た。",),
            ("猫が来た。",),
            ("猫を来た。",),
            ("鳥が来た。",),
            ("鳥を来た。",),
        ],
        [("in_domain_train-v1.0",)] * 2 + [("in_domain",)] * 2 + [("out_of_domain",)] * 2,
    ),
    "wug": (
        {
            "wug_adj/wug.jsonl": lines(
                {"sentences": "glabible glabibility\tglabible glabibleness", "ratio": 0.7}
            )
        },
        [("glabible glabibility", "glabible glabibleness")],
        [("wug",)],
    ),
    "comps": (
        {"comps_base.jsonl": lines(CONCEPT)},
        [("A dog can bark.", "A cat can bark.")],
        [("comps_base",)],
    ),
    "ewok": (
        {"ewok-core.csv": EWOK},
        [
            (
                *("It fell. It is below.", "It rose. It is below."),
                *("It fell. It is above.", "It rose. It is above."),
            )
        ],
        [("physics",)],
    ),
    "entity-tracking": (
        {"entity_tracking_filtered/regular.jsonl": lines(BOX)},
        [tuple(f"Box 0 has {text}" for text in BOX["options"])],
        [("regular", "2")],
    ),
}


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("name", sorted({*BENCHMARKS.names} - {"sg"}))  # which has suites
def test_what_its_files_say(tmp_path: Path, name: str, word_scorer: type[Any]) -> None:
    files, strings, levels = SETS[name]
    write(tmp_path / "set", files)
    benchmark = read_benchmark(name)
    items = Items(tmp_path / "set", benchmark)
    found = list(items)
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for path in files:
            archive.write(tmp_path / "set" / path, f"repository/{path}")
    for item, other in zip(found, Items(tmp_path / "set.zip", benchmark), strict=True):
        assert (item.strings, item.levels) == (other.strings, other.levels)

    def right_first(item: Item) -> tuple[str, ...]:
        texts = {name: string.text for name, string in item.strings.items()}
        _, right = next(iter(item.formulas.values())).regions[0]
        return (texts.pop(right), *texts.values())

    assert [right_first(item) for item in found] == strings
    assert [item.levels for item in found] == levels
    results = evaluate_items(items, word_scorer())
    assert results.counts["items_scored"] == sum(not item.trains for item in found)
    assert results.evaluation is not None
    if results.evaluation.outcomes is None or name == "jcola":
        return
    assert results.evaluation.outcomes.chance == pytest.approx(
        {"ewok": 0.25, "entity-tracking": 0.2}.get(name, 0.5)
    )


def test_a_set_is_known_by_its_files_unless_these_have_any_name(tmp_path: Path) -> None:
    for name, (files, _, _) in SETS.items():
        write(tmp_path / name, files)
        found = known_by_files(tmp_path / name)
        assert found == [name] or (found == [] and name in ("blimp", "sling", "rublimp", "zhoblimp")), (
            name,
            found,
        )
    for other in ("mine_1000.csv", "latest.parquet", "my-ewok.csv"):
        table = pa.table({"good": ["a b"], "bad": ["b a"]})
        write(tmp_path / "other", {other: "good,bad\na b,b a\n"})
        if other.endswith(".parquet"):
            pq.write_table(table, tmp_path / "other" / other)
        assert known_by_files(tmp_path / "other" / other) == []
    both = tmp_path / "zorro"
    write(both, SETS["clams"][0])
    assert known_by_files(both) == ["clams", "zorro"]
    assert known_by_files(both / "de_evalset" / "simple_agrmt.txt") == ["clams"]


class Shout:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("it ran",)


def test_a_pickle_that_calls_something_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for bad in (
        pickle.dumps({"a": [Shout()]}),
        b"no pickle",
        pickle.dumps({"a": [("x",)]}),
        pickle.dumps([1]),
    ):
        write(tmp_path, {"EMNLP2018/templates/a.pickle": bad})
        with pytest.raises(InputError):
            Items(tmp_path, read_benchmark("lm-syneval"))
    assert "it ran" not in capsys.readouterr().out


NESTED = b")" + b"\x85" * 200_000  # a tuple in a tuple in a tuple


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"\x80\x02}" + NESTED + b"]s.", "a key that is no string"),
        (b"\x80\x02(" + NESTED + b"]d.", "a key that is no string"),
        (b"\x80\x02}(" + NESTED + b"]u.", "a key that is no string"),
        (b"\x80\x04\x8f(" + NESTED + b"\x90.", "a set, which is no plain data"),
        (b"\x80\x04(" + NESTED + b"\x91.", "a set, which is no plain data"),
        (b"\x80\x02}X\x01\x00\x00\x00a](" + NESTED + b"X\x01\x00\x00\x00btas.", "not conditions with tuples"),
        (
            b"\x80\x02}X\x01\x00\x00\x00a" + b"]" * 200_000 + b"a" * 199_999 + b"s.",
            "not conditions with tuples",
        ),
        (b"\x80\x02}r\xff\xff\xff\x7fK\x01s.", "not a pickle of plain data"),  # a memo of 16 GB, for C
    ],
)
def test_pickles_that_would_end_the_process(tmp_path: Path, bad: bytes, reason: str) -> None:
    """In a process of its own, which must live to say why."""
    write(tmp_path, {"a.pickle": bad})
    code = (
        "import sys; from pdtools.evaluation.benchmark.readers import lm_syneval\n"
        "try: list(lm_syneval(sys.argv[1]))\nexcept Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.pickle")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0
    assert done.stdout.startswith(f"InputError {tmp_path / 'a.pickle'}:")
    assert reason in done.stdout
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ("9\tsleeps\tsleep\t0\n", "a.gold:1: not a place in its sentence"),
        ("0\tsleeps\tsleep\t0\n", "a.gold:1: the sentence has 'she', not 'sleeps'"),
    ],
)
def test_aligned_files_that_are_not(tmp_path: Path, gold: str, reason: str) -> None:
    write(tmp_path, {"linzen_testset/a.gold": gold, "linzen_testset/a.text": "she sleeps\n"})
    with pytest.raises(InputError, match=reason):
        Items(tmp_path, read_benchmark("linzen"))


@pytest.mark.parametrize(
    ("name", "archive", "items"),
    [
        ("lm-syneval-sample", "lm_syneval", 80),
        ("colorlessgreen", "colorlessgreen_en_it", 410 + 1190),
        ("linzen", "colorlessgreen_en_it", 7489),
    ],
)
def test_published_sets(test_data: Path, name: str, archive: str, items: int) -> None:
    source = test_data / "benchmarks" / "pairs" / f"{archive}.zip"
    if not source.is_file():
        pytest.skip("no published benchmarks there")
    found = Items(source, read_benchmark(name))
    assert sum(counts["items"] for counts in found.by_file.values()) == items
    if name == "lm-syneval-sample":
        assert [counts["repeated"] for counts in found.by_file.values()] == [1]


def test_the_published_pickles(test_data: Path) -> None:
    source = test_data / "benchmarks" / "pairs" / "lm_syneval.zip"
    if not source.is_file():
        pytest.skip("no published benchmarks there")
    found = Items(source, read_benchmark("lm-syneval"))
    assert len(found.by_file) == 5
    of_npi = [item for item in found if item.levels[1] == "simple_npi_anim"]
    assert of_npi[0].strings["good"] == of_npi[1].strings["good"]
    assert of_npi[0].strings["bad"] != of_npi[1].strings["bad"]
