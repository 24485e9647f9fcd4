"""Tables of reading times: the shapes that corpora publish, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.reading.times import Columns, read_times


def write(path: Path, *rows: str, separator: str = "\t") -> str:
    path.write_text("".join(row.replace(" ", separator) + "\n" for row in rows))
    return str(path)


TIDY = (
    "item word_number word subject time",
    "a 2 barks. s1 250.5",
    "a 1 Mr. s1 310",
    "a 3 Dogs s1 0",
    "b 7 Yes. s2 NA",
    "b 7 Yes. s1 400",
    "a 1 Mr. s2 290",
)


def test_a_tidy_table(tmp_path: Path) -> None:
    times = read_times(write(tmp_path / "t.tsv", *TIDY))
    assert [(text.item, text.first, text.words) for text in times.texts] == [
        ("a", 1, ("Mr.", "barks.", "Dogs")),
        ("b", 7, ("Yes.",)),
    ]
    assert times.texts[0].sentences.tolist() == [0, 0, 1]
    assert times.texts[0].written.text == "Mr. barks. Dogs"
    assert times.word.tolist() == [1, 0, 2, 3, 0]
    assert times.time.tolist() == [250.5, 310, 0, 400, 290]
    assert [times.subjects[i] for i in times.subject] == ["s1", "s1", "s1", "s1", "s2"]
    assert times.without_time == 1
    assert times.text_of_word.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("cell", "other"), [(" 250.5", " 250.6"), ("barks", "bites"), ("s1 310", "s2 310"), ("a 1", "c 1")]
)
def test_tables_that_differ_in_a_cell_have_different_digests(tmp_path: Path, cell: str, other: str) -> None:
    rows = ["item word_number word subject time", "a 2 barks. s1 250.5", "a 1 Mr. s1 310"]
    rows += ["a 2 barks. s2 290"]
    changed = [row.replace(cell, other) for row in rows]
    same, found = (read_times(write(tmp_path / name, *rows)).sha256 for name in ("a.tsv", "b.tsv"))
    assert same == found != read_times(write(tmp_path / "c.tsv", *changed)).sha256


def test_sentences_that_the_table_says(tmp_path: Path) -> None:
    rows = ["item sentence word_number word subject time"]
    rows += [f"a {sentence} {i} w s 200" for i, sentence in enumerate([1, 1, 2, 2, 3])]
    times = read_times(write(tmp_path / "t.csv", *rows, separator=","))
    assert times.texts[0].sentences.tolist() == [0, 0, 1, 1, 2]
    assert times.columns == Columns(sentence="sentence")


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("He left. She stayed.", [0, 0, 1, 1]),
        ("What?! Then: No…  Well", [0, 1, 1, 2]),
        ("Really? Yes! Good… Then go", [0, 1, 2, 3, 3]),
        ("“Stop.” She ran.’ He sat.) It", [0, 1, 1, 2, 2, 3]),
        ('He said "Go." Then "Why?\'" "So!"] 5 dogs', [0, 0, 0, 1, 1, 2, 3, 3]),
        ("»No.« “Stop!” she said. “Yes?” he", [0, 0, 0, 0, 1, 1]),
        ("Mr. Smith saw Dr. No, Mrs. X. and Ms. Y", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("J. R. Smith (Prof. Lt. Col. Capt. Gen. St. X) Jr. Sr. Z", [0] * 13),
        ('vs. A cf. B e.g. C i.e. D "Mr. E', [0] * 10),
        ("It cost 3.5 Then rose 3. Then", [0, 0, 0, 0, 0, 0, 1]),
        ("Yahoo! is here. mister. A", [0, 0, 0, 0, 1]),
        ("Wait; No: Yes, And — Then", [0] * 6),
        ("He came at 5 p.m. Then Ab. X", [0, 0, 0, 0, 0, 1, 1, 2]),
        ("He saw NASA. Then the USA. She", [0, 0, 0, 1, 1, 1, 2]),
        ("... Then .", [0, 1, 1]),
    ],
)
def test_sentences_end_by_punctuation(tmp_path: Path, text: str, sentences: list[int]) -> None:
    words = text.split()
    rows = [f"a\t{i}\t{word}\ts\t200" for i, word in enumerate(words)]
    (tmp_path / "t.tsv").write_text("\n".join([TIDY[0].replace(" ", "\t"), *rows]) + "\n")
    (found,) = read_times(str(tmp_path / "t.tsv")).texts
    assert found.sentences.tolist() == sentences


def test_natural_stories(tmp_path: Path) -> None:
    """processed_RTs.tsv as readr writes it: cells that hold quotes are quoted; a zone that nobody read."""
    header = "WorkerId WorkTimeInSeconds correct item zone RT word nItem meanItemRT sdItemRT gmeanItemRT"
    rows = ['A1 99 6 1 1 400 """If" 2 400.5 0.7 400', 'A2 80 5 1 1 401 """If" 2 400.5 0.7 400']
    rows += ['A1 99 6 1 3 350 you."""" 1 350 NA 350'.replace('you.""""', '"you."""')]
    file = write(tmp_path / "processed_RTs.tsv", header, *rows)
    words = write(tmp_path / "all_stories.tok", "word zone item", '"If 1 1', "were 2 1", 'you." 3 1')
    with pytest.raises(InputError, match="item 1 has no word 2 .*--texts"):
        read_times(file)
    times = read_times(file, texts=words)
    assert times.texts[0].words == ('"If', "were", 'you."')
    assert (times.word.tolist(), times.time.tolist()) == ([0, 0, 2], [400, 401, 350])
    assert times.columns.number == "zone"


def test_sentences_are_those_of_a_table_of_texts(tmp_path: Path) -> None:
    """Words that nobody read have no sentence in the table of times, whose column is not read then."""
    rows = [f"a {i} {word} s 300 {1 + (i > 2)}" for i, word in enumerate(["He", "left", "She", "stayed"], 1)]
    file = write(tmp_path / "t.tsv", f"{TIDY[0]} sentence", *(rows[i] for i in (0, 2, 3)))
    numbered = write(tmp_path / "w.tsv", "item word_number word sentence", *(_words(rows, 5)))
    bare = write(tmp_path / "v.tsv", "item word_number word", *(_words(rows)))
    found = read_times(file, texts=numbered)
    assert (found.texts[0].sentences.tolist(), found.columns.sentence, found.notes) == (
        [0, 0, 1, 1],
        "sentence",
        (),
    )
    found = read_times(file, texts=bare)
    assert (found.texts[0].sentences.tolist(), found.columns.sentence) == ([0] * 4, None)
    assert found.notes == (
        f"{file}: its column sentence is not read: {bare}, which gives the texts, has none",
    )
    without = write(tmp_path / "u.tsv", TIDY[0], *(row.rpartition(" ")[0] for row in rows))
    assert read_times(without, texts=numbered).texts[0].sentences.tolist() == [0, 0, 1, 1]
    with pytest.raises(InputError, match="v.tsv:1: no column sentence"):
        read_times(file, texts=bare, columns={"sentence": "sentence"})


def _words(rows: list[str], *more: int) -> list[str]:
    return [" ".join(row.split()[i] for i in (0, 1, 2, *more)) for row in rows]


def test_provo(tmp_path: Path) -> None:
    """Words by interest areas: the first has no entry in the norms; skipped words have no time."""
    header = (
        "RECORDING_SESSION_LABEL,Participant_ID,Word_Unique_ID,Text_ID,Word_Number,Sentence_Number,Word,IA_ID,"
        "IA_LABEL,TRIAL_INDEX,IA_FIRST_FIXATION_DURATION,IA_FIRST_RUN_DWELL_TIME,IA_DWELL_TIME,IA_SKIP"
    )
    rows = [
        "s1,Sub01,NA,1,NA,NA,NA,1,There ,1,200,250,300,0",
        "s1,Sub01,QID1,1,2,1,are,2,are,1,NA,NA,NA,1",
        's1,Sub01,QID2,1,3,1,rumors,3,"rumors, ",1,210,260,310,0',
    ]
    file = write(tmp_path / "provo.csv", header, *rows, separator=" ")
    times = read_times(file)
    assert times.texts[0].words == ("There", "are", "rumors,")
    assert (times.time.tolist(), times.without_time) == ([250, 260], 1)
    assert read_times(file, columns={"time": "IA_DWELL_TIME"}).time.tolist() == [300, 310]


def test_sap(tmp_path: Path) -> None:
    rows = ["Time,MD5,Type,item,Sentence,WordPosition,EachWord,RT,CONSTRUCTION,AMBIG,ROI"]
    rows += ["1,m,NPZ_AMB,7,If%2C so.,1,If%2C,400,NPZ,Amb,NA", "1,m,NPZ_AMB,7,If%2C so.,2,so.,300,NPZ,Amb,0"]
    rows += ["1,m,NPZ_UAMB,7,If so.,1,If,410,NPZ,Unamb,NA"]
    times = read_times(write(tmp_path / "ClassicGardenPathSet.csv", *rows, separator=" "))
    assert [(text.item, text.words) for text in times.texts] == [
        ("NPZ_AMB 7", ("If,", "so.")),
        ("NPZ_UAMB 7", ("If",)),
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "there is no header"),
        (TIDY[:1], "there is no reading time"),
        (["item word subject time", "a b c 1"], "t.tsv:1: no column word_number in the header"),
        ([TIDY[0], "a one w s 200"], "t.tsv:2: word_number is 'one', not a whole number"),
        ([TIDY[0], "a 1.5 w s 200"], "not a whole number"),
        ([TIDY[0], "a nan w s 200"], "not a whole number"),
        ([TIDY[0], "a 1 w s"], "t.tsv:2: 4 cells, where the header has 5"),
        ([TIDY[0], "a 1 w s fast"], "t.tsv:2: time is 'fast', not a number"),
        ([TIDY[0], "a 1 w s -3"], "time is -3, not a time"),
        ([TIDY[0], "a 1 w s 200", "a 1 v s 200"], "t.tsv:3: word 1 of item a is 'v' here, and 'w' before"),
        (
            [f"{TIDY[0]} sentence", "a 1 w s 200 x", "a 1 w t 200 y"],
            "t.tsv:3: word 1 of item a is of another sentence than before",
        ),
        ([TIDY[0], "a 1 w s 200", "a 3 v s 200"], "item a has no word 2"),
        ([TIDY[0], "a 0 w s 200", "a 2 v s 200"], "item a has no word 1"),
    ],
)
def test_what_is_refused(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_times(write(tmp_path / "t.tsv", *rows))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*TIDY, TIDY[1]], "t.tsv:8: word 2 of item a by subject s1 is in line 2 already"),
        ([*TIDY, "a 2 barks. s1 2900"], "t.tsv:8: word 2 of item a by subject s1 is in line 2 already"),
        ([*TIDY[:3], "a 1 Mr. s1 9000", *TIDY[3:]], "t.tsv:4: word 1 of item a by subject s1 is in line 3"),
        ([*TIDY, TIDY[4], TIDY[1]], "t.tsv:8: word 7 of item b by subject s2 is in line 5 .* subject=A.B"),
        ([*TIDY, "b 7 Yes. s2 400"], "t.tsv:8: word 7 of item b by subject s2 is in line 5"),
        ([*TIDY, "b 7 Yes. s1 NA"], "t.tsv:8: word 7 of item b by subject s1 is in line 6"),
        ([TIDY[0], *["a 1 Mr. s 200"] * 3], "t.tsv:3: word 1 of item a by subject s is in line 2"),
    ],
)
def test_no_word_is_read_twice_by_one_subject(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_times(write(tmp_path / "t.tsv", *rows))


def test_readings_of_a_subject_that_a_column_tells_apart(tmp_path: Path) -> None:
    rows = [
        "item word_number word subject time run",
        "a 1 No. s 200 1",
        "a 1 No. s 300 2",
        "a 2 Yes. s 210 1",
    ]
    file = write(tmp_path / "t.tsv", *rows)
    with pytest.raises(InputError, match="t.tsv:3: word 1 of item a by subject s is in line 2"):
        read_times(file)
    times = read_times(file, columns={"subject": "subject+run"})
    assert [times.subjects[i] for i in times.subject] == ["s 1", "s 2", "s 1"]
    assert times.word.tolist() == [0, 0, 1]


def test_without_a_column_of_subjects_rows_are_means(tmp_path: Path) -> None:
    """As Natural Stories' processed_wordinfo.tsv; what would be taken so by mistake has words twice."""
    rows = ["word zone item nItem meanItemRT", "Dogs 1 1 80 335.5", "bark. 2 1 79 NA", "Yes. 1 2 81 401"]
    names = {"number": "zone", "time": "meanItemRT"}
    times = read_times(write(tmp_path / "t.tsv", *rows), columns=names)
    assert times.columns == Columns(number="zone", time="meanItemRT", subject=None)
    assert (times.word.tolist(), times.time.tolist(), times.subjects) == ([0, 2], [335.5, 401], ("",))
    again = write(tmp_path / "t.tsv", *rows, "Dogs 1 1 80 300")
    with pytest.raises(InputError, match="t.tsv:5: .* line 2 already, and no column of subjects .*--column"):
        read_times(again, columns=names)
    with pytest.raises(InputError, match="no column reader in the header"):
        read_times(again, columns={**names, "subject": "reader"})
    with pytest.raises(InputError, match="no column RT in the header"):
        read_times(again)


def test_subjects_without_a_time_are_none(tmp_path: Path) -> None:
    times = read_times(write(tmp_path / "t.tsv", TIDY[0], "a 1 Mr. s0 NA", *TIDY[1:]))
    assert times.subjects == ("s1", "s2")
    assert times.subject.tolist() == [0, 0, 0, 0, 1]


def test_a_row_with_an_empty_cell_is_a_row(tmp_path: Path) -> None:
    rows = [
        "item,word_number,word,subject,time,note",
        "a,1,The,s1,200,",
        "a,2,dog,s1,,late",
        "a,3,ran,s1,210,x",
    ]
    (tmp_path / "t.csv").write_text("\n".join([*rows, ",,,,,", ""]))
    times = read_times(str(tmp_path / "t.csv"))
    assert (times.texts[0].words, times.without_time) == (("The", "dog", "ran"), 1)
    assert times.labels["note"].tolist() == ["", "x"]


@pytest.mark.parametrize("has_texts", [False, True])
@pytest.mark.parametrize(("group", "groups"), [(None, [0, 0, 1]), ("set", [0, 1, 1])])
def test_groups_are_of_a_column_or_of_items(
    tmp_path: Path, group: str | None, groups: list[int], has_texts: bool
) -> None:
    rows = [
        "type item word_number word subject time set",
        "a 1 1 w s 200 x",
        "b 1 1 v s 200 y",
        "a 2 1 u s 9 y",
    ]
    table = write(tmp_path / "t.tsv", *rows)
    texts = write(tmp_path / "texts.tsv", *(" ".join(row.split()[:4]) for row in rows)) if has_texts else None
    columns = {"item": "type+item"}
    if group is None:
        assert read_times(table, columns=columns, texts=texts).group_of_word.tolist() == groups
    elif texts is None:
        assert read_times(table, columns={**columns, "group": group}).group_of_word.tolist() == groups
    else:
        with pytest.raises(InputError, match="no column set in the header"):
            read_times(table, columns={**columns, "group": group}, texts=texts)


def test_the_group_of_an_item_may_stand_in_some_of_its_rows(tmp_path: Path) -> None:
    rows = ["item,word_number,word,subject,time,set", "p,1,a,s,200,", "q,1,b,s,200,x", "p,2,c,s,200,x"]
    table = write(tmp_path / "t.csv", *rows)
    assert read_times(table, columns={"group": "set"}).group_of_word.tolist() == [0, 0, 0]


def test_a_column_of_no_use(tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError, match="--column colour: must be one of item, number"):
        read_times(write(tmp_path / "t.tsv", *TIDY), columns={"colour": "x"})


def test_words_are_cells_that_say_something_as_they_say_it(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("item\tword_number\tword\tsubject\ttime\na\t1\t \ts\t200\n")
    with pytest.raises(InputError, match="t.tsv:2: word is empty"):
        read_times(str(tmp_path / "t.tsv"))


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_percent_escapes_of_ibex_are_characters(tmp_path: Path, suffix: str) -> None:
    words = ["barks%2C", "caf%C3%A9", "5%25", "100%", "50%20", "%ff", "%0a%2c", "a"]
    rows = [f"a {i} {word} s 200" for i, word in enumerate(words)]
    times = read_times(
        write(tmp_path / f"t.{suffix}", TIDY[0], *rows, separator=" \t,"[1 + (suffix == "csv")])
    )
    assert times.texts[0].words == ("barks,", "café", "5%", "100%", "50", "%ff", "%0a%2c", "a")
    (note,) = times.notes
    assert note.endswith(": percent escapes in 4 rows are read as characters (%2C: a comma)")


EXCEL, READR, TEXT = ('"barks,"', "I"), ('"""No,"""', "so,"), ('"yes"', "barks,")


@pytest.mark.parametrize(
    ("cells", "words", "is_noted"),
    [
        (EXCEL, ("barks,", "I"), True),
        (('"barks,"', '"""I"""'), ("barks,", '"I"'), False),  # a doubled quote is sure
        (('"barks,"', "so,"), ('"barks,"', "so,"), False),  # Excel had quoted both
        (READR, ('"No,"', "so,"), False),
        (TEXT, TEXT, False),
        (('"barks,"', '"I'), ('"barks,"', '"I'), False),
        (('"barks,"', 'I"'), ('"barks,"', 'I"'), False),
        (('"""', "I"), ('"""', "I"), False),
    ],
)
def test_quotes_of_programs_are_undone_and_those_of_the_text_kept(
    tmp_path: Path, cells: tuple[str, str], words: tuple[str, str], is_noted: bool
) -> None:
    rows = [f"a {i} {cell} s 200" for i, cell in enumerate(cells)]
    times = read_times(write(tmp_path / "t.tsv", TIDY[0], *rows))
    assert times.texts[0].words == words
    assert [note.endswith("taken for those of Excel") for note in times.notes] == [True] * is_noted


@pytest.mark.parametrize(
    ("numbers", "few"),
    [
        ([0.31, 0.42, 0.28, 0.5], 4),  # seconds
        ([5.7, 6.1, 310, 420], 2),  # logarithms of some
        ([0, 0, 0, 310], 0),  # words that were skipped
        ([*["NA"] * 30, 0.3, 0.4], 2),  # so were most of these
        ([9, *range(300, 310)], 0),  # one by mistake
    ],
)
def test_times_that_are_no_milliseconds_are_doubted(
    tmp_path: Path, numbers: list[float | str], few: int
) -> None:
    rows = [f"a {i} w s {number}" for i, number in enumerate(numbers)]
    file = write(tmp_path / "t.tsv", TIDY[0], *rows)
    reason = f"{few} times are below 10 ms: time has to be in milliseconds, not in seconds or logarithms"
    assert read_times(file).notes == ((f"{file}: {reason}",) if few else ())


def test_the_same_table_by_ibex_and_excel(test_data: Path) -> None:
    cases = test_data.parent / "cases" / "4"
    if not cases.is_dir():
        pytest.skip("the cases are not at hand")
    plain, *others = (
        read_times(str(cases / name)) for name in ("r1_plain.csv", "r1_ibex.csv", "r6_excel.tsv")
    )
    assert "barks," in plain.texts[0].words
    assert [other.sha256 for other in others] == [plain.sha256] * 2


def test_parquet_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"item": [1], "word_number": [1], "word": ["If"], "time": [300.0]}), file)
    with pytest.raises(
        InputError, match=r"t\.parquet: \.parquet: reading times are CSV or TSV.*save it as \.csv"
    ):
        read_times(str(file))


def test_semicolons_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", "item word_number word time", "a 1 If 300,5", separator=";")
    with pytest.raises(InputError, match=r"t\.csv:1: semicolons between cells \(save it with commas"):
        read_times(file)
