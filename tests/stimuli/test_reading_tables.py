"""Tables of stimuli in all their forms: which sentences, regions and rows they have, and what is refused."""

from __future__ import annotations

import math
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from toy_workbooks import rows_of, write_workbook

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.benchmark.rows import table_rows
from pdtools.evaluation.reading.times import read_times
from pdtools.files.tables import read_sheet
from pdtools.files.workbooks import workbook_rows
from pdtools.report.view.stimuli import stimuli_page
from pdtools.stimuli.columns import Made, new_columns, sheet_of_pandas, write
from pdtools.stimuli.table import Stimuli, read_stimuli

WIDE = "item,condition,sentence\n1,a,The dog | that ran | barks.\n1,b,The dog | | barks.\n"
LONG = (
    "Item,Condition,Region,Text\n1,a,1,The dog\n1,b,1,The dog\n1,b,2,\n1,b,3,barks.\n"
    "1,a,3,barks.\n1,a,2,that ran\n"
)


def read(path: Path, text: str, name: str = "t.csv", **options: Any) -> Stimuli:
    (path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return read_stimuli(read_sheet(str(path / name)), **options)


def units(stimuli: Stimuli) -> list[tuple[str, list[str]]]:
    """Sentences, and the texts of their units."""
    found = []
    for i, text in enumerate(stimuli.texts):
        found.append((text, [text[start:end] for start, end in stimuli.spans(i)]))
    return found


REGIONS = [
    ("The dog that ran barks.", ["The dog", "that ran", "barks."]),
    ("The dog barks.", ["The dog", "", "barks."]),
]


@pytest.mark.parametrize(
    "text",
    [
        WIDE,
        "\ufeff" + WIDE,
        WIDE.replace(",", ";"),
        WIDE.replace("\n", "\r\n"),
        WIDE.replace("item,condition,sentence", "ITEM,Condition,Sentence"),
        WIDE.replace(" | ", "| ").replace("  ", " "),
        WIDE.replace(" | ", "  | "),
    ],
)
def test_wide(text: str, tmp_path: Path) -> None:
    found = read(tmp_path, text)
    assert units(found) == REGIONS
    assert found.new == ("region", "region_text")
    assert found.unit_row.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.region.tolist() == [1, 2, 3, 1, 2, 3]
    assert "wide" in found.form
    assert "regions between |" in found.form


def test_names_of_regions_keep_the_order_of_rows(tmp_path: Path) -> None:
    found = read(
        tmp_path, "item,region,text\n1,subject,The dog\n2,subject,A cat\n1,verb,barks.\n2,verb,ran.\n"
    )
    assert units(found) == [("The dog barks.", ["The dog", "barks."]), ("A cat ran.", ["A cat", "ran."])]
    found = read(tmp_path, "item,region,region_number,text\n1,verb,2,barks.\n1,verb,1,The dog\n")
    assert units(found) == [("The dog barks.", ["The dog", "barks."])]
    found = read(tmp_path, "item,region,region_number,text\n1,1,2,barks.\n1,2,1,The dog\n")
    assert units(found) == [("The dog barks.", ["The dog", "barks."])]  # also where names are numbers
    assert "in the order of region_number" in found.form


def test_regions_are_joined_as_they_stand(tmp_path: Path) -> None:
    """A space at a border is one, wherever it stands; without one the border is within a text word."""
    found = read(tmp_path, "sentence\nIt was wrong|.\nthe ans|wer| | was|| wrong\n|a \n")
    assert units(found) == [
        ("It was wrong.", ["It was wrong", "."]),
        ("the answer was wrong", ["the ans", "wer", "", "was", "", "wrong"]),
        ("a", ["", "a"]),
    ]
    assert "regions between | (2 borders without a space)" in found.form
    assert "regions between | (1 borders without a space)" in read(tmp_path, "sentence\n|a|b |c\n").form
    assert units(read(tmp_path, "sentence\nwas wrong|.\n", words=True)) == [
        ("was wrong.", ["was", "wrong", "."])
    ]


def test_brackets(tmp_path: Path) -> None:
    text = "sentence\nThe dog [that ran] barks.\n[The dog][ that ran]  [barks.]\nThe dog[s] [bark]\n[] a\n"
    assert units(read(tmp_path, text + "[the answer was wrong][.]\n")) == [
        REGIONS[0],
        REGIONS[0],
        ("The dogs bark", ["The dog", "s", "bark"]),
        ("a", ["", "a"]),
        ("the answer was wrong.", ["the answer was wrong", "."]),
    ]
    for wrong in ("The [dog", "The ]dog[", "The [[dog]]"):
        with pytest.raises(InputError, match=r"t\.csv:3: brackets"):
            read(tmp_path, f"sentence\na\n{wrong}\n[x]\n")


def test_bars_and_brackets_are_not_mixed(tmp_path: Path) -> None:
    for mixed in ("a | [b c]", "[b c] d", "[b | c]"):
        with pytest.raises(InputError, match=r"t\.csv:3: brackets, '\[b .*', in a table with bars"):
            read(tmp_path, f"sentence\na | b\n{mixed}\n")
    found = read(tmp_path, "sentence\nThe [sic | dog\n")  # no region is meant
    assert units(found) == [("The [sic dog", ["The [sic", "dog"])]


def test_glue(tmp_path: Path) -> None:
    text = "item,region,text\n1,1,犬が\n1,2,\n1,3,走る\n"
    assert units(read(tmp_path, text, glue="")) == [("犬が走る", ["犬が", "", "走る"])]
    text = "item,region,text\n1,1,The dog\n1,2,'s \n1,3, tail\n"
    assert units(read(tmp_path, text, glue="")) == [("The dog's  tail", ["The dog", "'s", "tail"])]
    with pytest.raises(InputError, match="--glue '_' is for a row for each region"):
        read(tmp_path, "sentence\na | b\n", glue="_")


def test_several_columns_of_sentences_are_conditions(tmp_path: Path) -> None:
    text = 'item,ambiguous,unambiguous\n1,x y,x that y\n2,z,"z, w"\n'
    found = read(tmp_path, text, columns={"sentence": "ambiguous,Unambiguous"})
    assert found.texts == ["x y", "x that y", "z", "z, w"]
    assert found.version == ["ambiguous", "unambiguous"] * 2
    assert found.unit_row.tolist() == [0, 0, 1, 1]
    assert found.new == ("condition",)
    assert not found.notes
    again = text + '3,v,v\n4,x | y,q\n2,z,"z, w"\n5,,\n6,,p\n'  # a row is again there as a whole: said once
    assert read(tmp_path, again, columns={"sentence": "ambiguous,unambiguous"}).notes[:2] == (
        "an earlier row is there again in row 6, and counts again",
        "a sentence of ambiguous, unambiguous is there again in row 4 and 1 more, and counts again",
    )
    found = read(tmp_path, text.replace("item", "condition"), columns={"sentence": "ambiguous,unambiguous"})
    assert found.new == ("version",)
    names = {"sentence": "ambiguous,unambiguous", "condition": "item"}  # a condition of another name
    assert read(tmp_path, text, columns=names).new == ("condition", "version")
    found = read(tmp_path, '"a,b",word\nx y,x\n', columns={"sentence": "a,b", "text": "a,b"})
    assert found.texts == ["x y"]  # a name with a comma; nothing is long that has its text there


def test_a_table_of_words_with_their_sentence(tmp_path: Path) -> None:
    text = (
        'item,condition,Sentence,word\n1,a,"So,  he ran.","So,"\n1,a,"So,  he ran.",he ran.\n1,b,Yes.,Yes.\n'
    )
    for words in (False, True):
        found = read(tmp_path, text, words=words)
        assert units(found) == [("So,  he ran.", ["So,", "he ran."]), ("Yes.", ["Yes."])]
        assert found.new == (("word_number",) if words else ())
    with pytest.raises(InputError, match=r"t\.csv:3: 'she ran\.' is not what comes next .*'he ran\.'"):
        read(tmp_path, text.replace(",he", ",she"))
    with pytest.raises(InputError, match=r"t\.csv:3: the rows do not make the sentence, .* 'At once\.'"):
        read(tmp_path, text.replace('he ran."', 'he ran. At once."'))


def test_numbered_sentences_are_parts_of_their_item(tmp_path: Path) -> None:
    rows = [(2, 1, 1, "d"), (1, 2, 1, "c"), (1, 1, 2, "b"), (1, 1, 1, "a"), (1, 10, 1, "e")]
    text = "item,sentence,zone,word\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows)
    found = read(tmp_path, text, columns={"number": "zone"})
    assert found.texts == ["d", "a b", "c", "e"]
    assert found.documents == ["2", "1", "1", "1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LONG.replace("1,b,3", "1,b,1"), r"t.csv:5: Region 1 of the same sentence is in row 3 already"),
        (LONG + "\n\n1,a,2.0,again\n", r"t.csv:10: Region 2.0 .* is in row 7 already"),
        ("item,region,text\n1,np,a\n1,np,b\n", r"t.csv:3: region np .* in row 2 .*--column number=NAME"),
        ("item,region_number,text\n1,1,a\n1,x,b\n", r"t.csv:3: region_number is 'x', not a whole number"),
        (LONG.replace("1,b,2,", ",b,2,"), r"t.csv:4: Item is empty .*merged cells"),
        ("region,text\n1,a\n", r"t.csv: no column item in the header"),
        ("Stimulus\na b\n", r"t.csv: no column sentence, text or word in the header \(Stimulus\) \(--column"),
        ("sentence,Sentence \na,b\n", "2 columns"),
        ("sentence,a\nx,y,z\n", r"t.csv:2: 3 cells, where the header has 2"),
        ("sentence,a\nx,y\nz\n", r"t.csv:3: 1 cells, where the header has 2"),
        ("sentence\n", "no row below the header"),
        ("\n\n", "there is no header"),
        ('sentence\n"a\n', r"t.csv:2: not CSV"),
    ],
)  # fmt: skip
def test_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read(tmp_path, text.replace("Sentence ", "sentence"))


def test_rows_are_counted_as_a_spreadsheet_does(tmp_path: Path) -> None:
    """A cell of several lines is one row, a blank line is one too."""
    text = 'item,region,text\n1,1,"The\ndog"\n\n1,2,barks\n1,2,again\n'
    with pytest.raises(InputError, match=r"t\.csv:5: .* in row 4 already"):
        read(tmp_path, text)
    assert read(tmp_path, text[:-10]).texts == ["The dog barks"]


def test_columns_that_are_not_asked_for_may_be_anything(tmp_path: Path) -> None:
    text = "item,,Ans,,Ans,item,sentence\n1,2,3,4,5,6,The dog\n"
    found = read(tmp_path, text)
    assert found.texts == ["The dog"]
    assert found.sheet.columns == ("item", "", "Ans", "", "Ans", "item", "sentence")
    with pytest.raises(InputError, match="2 columns 'Ans' in the header"):
        read(tmp_path, text, columns={"sentence": "Ans"})
    with pytest.raises(InputError, match="2 columns 'item' in the header"):
        read(tmp_path, "item,item,region,text\n1,1,1,a\n")
    with pytest.raises(PdtoolsError, match="--column sentences: must be one of item, "):
        read(tmp_path, text, columns={"sentences": "Ans"})
    assert read(tmp_path, "Sentence,sentence\na,b\n").texts == ["b"]  # as it is written, before without case


@pytest.mark.parametrize(
    ("role", "name", "said"),
    [
        ("condition", "note", "2 columns 'note' in the header"),
        ("item", "nothing", r"no column 'nothing' in the header \(item, note, note, sentence\)"),
    ],
)
def test_columns_that_are_asked_for_are_there_once(role: str, name: str, said: str, tmp_path: Path) -> None:
    """Of wide tables too, which are read without items and conditions."""
    (tmp_path / "t.csv").write_text("item,note,note,sentence\n1,x,y,a b\n")
    with pytest.raises(InputError, match=said):
        read_stimuli(read_sheet(str(tmp_path / "t.csv")), {role: name})


def test_columns_of_our_names(tmp_path: Path) -> None:
    for name in ("model", "Surprisal", "n_tokens", "region", "closed"):
        with pytest.raises(InputError, match=f"a column '{name}', which is the name of one that is added"):
            new_columns(read(tmp_path, f"sentence,{name}\na | b,1\n"))
    assert "region" not in new_columns(read(tmp_path, "sentence,region\na b,1\n"))
    with pytest.raises(InputError, match="'length'"):
        new_columns(read(tmp_path, "sentence,length\na | b,1\n", words=True))
    assert "length" not in new_columns(read(tmp_path, "sentence,length\na | b,1\n"))


def test_decimal_commas_become_points_where_semicolons_stand_between_cells(tmp_path: Path) -> None:
    found = read(tmp_path, "sentence;rating;n;note\nSo, he ran;3,5;1;1,2\nb;-2;2;a,b\nc;;3;\n").sheet
    assert found.cells == [["So, he ran", "b", "c"], ["3.5", "-2", ""], ["1", "2", "3"], ["1,2", "a,b", ""]]
    found = read(tmp_path, 'sentence,rating\nHe ran,"3,500"\n').sheet  # a thousand may have a comma
    assert found.cells == [["He ran"], ["3,500"]]


@pytest.mark.parametrize(
    ("header", "cells", "texts", "is_noted"),
    [
        ("item sentence", ['"So, he ran"', '"He said ""no"""'], ["So, he ran", 'He said "no"'], False),
        ("item sentence", ['"So, he ran"', "A dog"], ["So, he ran", "A dog"], True),  # Excel, or speech
        ("item sentence", ['"So, he ran"', "So, a dog"], ['"So, he ran"', "So, a dog"], False),
        ("item sentence", ['"Go away!"', 'The 5" disk'], ['"Go away!"', 'The 5" disk'], False),
        ('"item" "sentence"', [r'"He said \"no\""', '"A dog"'], ['He said "no"', "A dog"], False),  # R
        ('\n"item" "sentence"', ['"He ran"', '"A dog"'], ["He ran", "A dog"], False),  # below a blank line
        ("item sentence", ['"Go away!"', "A dog"], ['"Go away!"', "A dog"], False),  # speech
        ("item sentence", ['"Go away!"', '"So, he ran"'], ['"Go away!"', '"So, he ran"'], False),
        ("item sentence", ['""', "A dog"], ["", "A dog"], False),
    ],
)
def test_quotes_of_programs_in_tabs(
    header: str, cells: list[str], texts: list[str], is_noted: bool, tmp_path: Path
) -> None:
    """Excel and R write quotes around cells; quotes of the text stay."""
    rows = [header.replace(" ", "\t"), *(f"1\t{cell}" for cell in cells)]
    found = read(tmp_path, "\n".join(rows) + "\n", "t.tsv")
    assert found.texts == texts
    assert found.form.startswith(
        "TSV, quotes around cells with commas are taken for" if is_noted else "TSV, w"
    )


def test_numbers_as_they_are_written(tmp_path: Path) -> None:
    """Eight decimals, without the sign of what is 0 in these."""
    sheet = read(tmp_path, "sentence\n" + "a\n" * 4).sheet
    made = Made(sheet, np.arange(4), {"surprisal": [-1e-12, -2.0, 1 / 3, math.nan], "unknown": [0.0] * 4})
    write(made, str(tmp_path / "o.csv"))
    cells = [line.split(",")[1] for line in (tmp_path / "o.csv").read_text().splitlines()[1:]]
    assert cells == ["0.00000000", "-2.00000000", "0.33333333", ""]


def test_apostrophes_after_backslashes(tmp_path: Path) -> None:
    """As SAP's items have them; the table keeps them."""
    found = read(tmp_path, "sentence\nThe dog\\'s | tail\n")
    assert units(found) == [("The dog's tail", ["The dog's", "tail"])]
    assert found.sheet.cells == [["The dog\\'s | tail"]]


def test_workbooks(tmp_path: Path) -> None:
    """Merged cells stand for all that they cover; rows and columns without anything are none."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    rows = [
        ["item", "condition", "sentence", None],
        [],
        [1, "a", "The | dog"],
        [None, "b", "A | dog"],
        [2.0, None, "x"],
    ]
    for row in rows:
        sheet.append(row)
    sheet.append([3, "c", None])
    sheet.merge_cells("A3:A4")
    sheet.merge_cells("B5:C5")
    book.save(tmp_path / "t.xlsx")
    found = read_stimuli(read_sheet(str(tmp_path / "t.xlsx")))
    assert found.sheet.texts(0) == ["1", "1", "2", "3"]
    assert found.sheet.numbers == [3, 4, 5, 6]
    assert found.texts == ["The dog", "A dog", "", ""]
    assert found.form.startswith("a workbook, wide")
    book.create_sheet("Notes").append(["sentence"])
    sheet.title = "My items"
    book.save(tmp_path / "two.xlsx")
    several = read_stimuli(read_sheet(str(tmp_path / "two.xlsx")))
    assert several.texts == found.texts
    assert several.form.startswith("a workbook, of whose 2 sheets the first (My items) is read, wide")
    book.move_sheet("Notes", -1)
    book["Notes"]["A1"] = "My materials"
    book.save(tmp_path / "other.xlsx")
    with pytest.raises(
        InputError, match=r"no column sentence.* of whose 2 sheets the first \(Notes\) is read;"
    ):
        read_stimuli(read_sheet(str(tmp_path / "other.xlsx")))
    with pytest.raises(InputError, match=r"two\.xlsx: \.xlsx: reading times are CSV or TSV.*save it"):
        read_times(str(tmp_path / "two.xlsx"))
    (tmp_path / "broken.xlsx").write_bytes((tmp_path / "t.xlsx").read_bytes()[:800])
    with pytest.raises(InputError, match=r"broken\.xlsx: not a workbook"):
        workbook_rows(str(tmp_path / "broken.xlsx"))


def test_parquet(tmp_path: Path) -> None:
    pd.DataFrame({"item": [1, 2], "sentence": ["a | b", None]}).to_parquet(tmp_path / "t.parquet")
    found = read_stimuli(read_sheet(str(tmp_path / "t.parquet")))
    assert found.texts == ["a b", ""]
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"b\.parquet: not Parquet"):
        read_sheet(str(tmp_path / "b.parquet"))


# Sentences and words of each subset.
SAP = {
    "Agreement": (36, 492),
    "AttachmentAmbiguity": (72, 1317),
    "RelativeClause": (48, 570),
    "ClassicGP": (144, 1923),
}


@pytest.mark.parametrize("subset", SAP)
def test_items_of_sap(subset: str, test_data: Path, tmp_path: Path) -> None:
    """As exported, a sentence a row, and a word a row beside GPT-2's surprisals: the same words."""
    archive = test_data / "benchmarks" / "reading" / "sap.zip"
    if not archive.exists():
        pytest.skip("no items of SAP")
    zipfile.ZipFile(archive).extractall(tmp_path)
    folder = tmp_path / "Surprisals" / "data"
    columns = {"sentence": "ambiguous,unambiguous"} if subset == "ClassicGP" else {}
    files = [(f"items_{subset}.csv", columns)]
    files += [(f"items_{subset}.pivot.csv", {}), (f"gpt2/items_{subset}.gpt2.csv", {})]
    made = [read_stimuli(read_sheet(str(folder / name)), own, words=True) for name, own in files]
    assert [(len(each.texts), len(each.start)) for each in made] == [SAP[subset]] * 3
    assert len({tuple(sorted(each.unit_texts())) for each in made}) == 1


def test_columns_that_are_given_for_item_and_condition_come_back_by_these_names(tmp_path: Path) -> None:
    wide = WIDE.replace("item,condition", "Set,Type")
    long = LONG.replace("Item,Condition", "Set,Type")
    for text in (wide, long):
        found = read(tmp_path, text, columns={"item": "Set", "condition": "type"})
        assert found.new[:2] == ("item", "condition")
    # A column of that name is there already, or nothing was asked for.
    assert "condition" not in read(tmp_path, WIDE, columns={"condition": "condition"}).new
    assert "condition" not in read(tmp_path, wide).new


# --- what spreadsheets, R and people leave in cells -------------------------------------------------


def test_blanks_around_names_of_sentences_are_none(tmp_path: Path) -> None:
    """Of items, conditions and lists; the table's own cells stay as they are."""
    clean = "item,condition,region,text\n1,a,1,The dog\n1,a,2,often\n1,b,1,A cat\n1,b,2,ran.\n"
    for old, new in (("a,2", "a ,2"), ("1,a,2", " 1,a,2"), ("b,2", "\u00a0b,2"), ("b,2", '"b\n",2')):
        found = read(tmp_path, clean.replace(old, new))
        assert found.texts == ["The dog often", "A cat ran."]
        assert any(new.strip('",2\n1a') in cell for column in found.sheet.cells for cell in column)
    (tmp_path / "t.csv").write_text(
        "Type,item,region,text,model,surprisal\na ,1,1,x,m,2\na,2,1,x,m,4\n".replace("Type", "condition")
    )
    assert stimuli_page([str(tmp_path / "t.csv")]).document["conditions"] == ["a"]


def test_lists_tell_sentences_apart(tmp_path: Path) -> None:
    """A column list does, or one of another name that is given; without, a note says what is doubtful."""
    rows = ["A,1,The", "A,1,dog", "B,1,The", "B,1,dog", "B,2,no", "B,2,no"]
    text = "list,item,word\n" + "".join(f"{row}\n" for row in rows)
    expected = ["The dog", "The dog", "no no"]
    assert read(tmp_path, text).texts == expected
    assert read(tmp_path, text.replace("list", "Group"), columns={"list": "Group"}).texts == expected
    numbered = text.replace("word", "sentence,word").replace("1,", "1,2,").replace("2,no", "2,1,no")
    assert read(tmp_path, numbered).documents == ["1 A", "1 B", "2 B"]
    several = read(tmp_path, "item,list,sentence,word\n1,A,1,a\n1,B,1,c\n1,A,2,b\n1,B,2,d\n")
    assert (several.texts, several.documents) == ([*"abcd"], ["1 A", "1 A", "1 B", "1 B"])
    found = read(tmp_path, text.replace("list", "Group"))
    assert found.texts == ["The dog The dog", "no no"]
    assert found.notes == (
        "the row before it is there again in row 7, and counts again",
        "each text is there twice or more in the sentence that begins in row 2, which may be several "
        "sentences: --column list=NAME says what tells them apart",
    )
    mixed = text.replace("list", "Group").replace(
        "A,1,The\nA,1,dog\nB,1,The\n", "A,1,The\nB,1,The\nA,1,dog\n"
    )
    assert any("each text is there twice" in note for note in read(tmp_path, mixed).notes)
    for lacking in ("list", "condition"):
        with pytest.raises(InputError, match=rf"t\.csv:3: {lacking} is empty .*merged cells"):
            read(tmp_path, f"item,{lacking},word\n1,A,The\n1,,dog\n2,,cat\n")
    with pytest.raises(InputError, match=r"t\.csv:3: list is empty"):  # of no item
        read(tmp_path, "condition,list,word\na,A,The\nb,,dog\n")
    assert read(tmp_path, "item,list,word\n1,A,The\n1,A,dog\n2,,cat\n").texts == ["The dog", "cat"]


@pytest.mark.parametrize("blank", [",,,", " ,,\t,", ",", '"",,,'])
def test_blank_rows_are_passed_over(blank: str, tmp_path: Path) -> None:
    text = f"{blank}\nitem,condition,region,text\n1,a,1,The dog\n{blank}\n1,a,2,barks.\n{blank}\n{blank}\n"
    for name, between in (("t.csv", ","), ("u.csv", ";"), ("t.tsv", "|")):
        cells = text.replace("\t", " ") if between == "|" else text
        found = read(tmp_path, cells.replace(",", {"|": "\t"}.get(between, between)), name)
        assert found.texts == ["The dog barks."]
        assert list(found.sheet.numbers) == [3, 5]


@pytest.mark.parametrize("line", ["sep=;", '"sep=;"', "SEP=;\r", "\ufeffsep=;"])
def test_a_first_line_may_name_the_delimiter(line: str, tmp_path: Path) -> None:
    """As Excel reads and writes it, also where the header has more of another."""
    found = read(tmp_path, f"{line}\nitem;sentence;a,b,c,d\n1;The dog, barks.;2,5\n")
    assert (found.texts, found.sheet.texts(2)) == (["The dog, barks."], ["2.5"])
    assert "CSV with semicolons" in found.form
    assert list(found.sheet.numbers) == [2]  # as in Excel, which does not show the line
    assert read(tmp_path, "sep=\t\nitem\tsentence\n1\tSo, it; ran\n").texts == ["So, it; ran"]
    assert read(tmp_path, "sep=,\nsentence\na;b\n").texts == ["a;b"]
    rows = list(table_rows(str(tmp_path / "t.csv"), {}))
    assert rows == [(3, {"sentence": "a;b"})]


MOMENT = datetime(2026, 5, 1)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (True, "word is True, a truth value, not text"),
        (MOMENT, "word is 2026-05-01.*, of the type .*, not text"),
        (["a", "b"], r"word is \['a', 'b'\], of the type list, not text"),
        (b"dog", "word is b'dog', of the type bytes, not text"),
        ("#REF!", r"word is #REF!, the error of a formula \(mend it\)"),
        ("#N/A", "word is #N/A, the error of a formula"),
        ("Err:502", "word is Err:502, the error of a formula"),
    ],
)
def test_cells_that_are_no_text_are_refused(cell: object, said: str, tmp_path: Path) -> None:
    """Where a table's sentences are read, whatever the form of its file; elsewhere they are kept."""
    made = []
    if not isinstance(cell, (list, bytes)):
        styles = '<cellXfs><xf/><xf numFmtId="14"/></cellXfs>'
        value: object = '<c s="1"><v>46143</v></c>' if cell is MOMENT else cell
        value = f'<c t="e"><v>{cell}</v></c>' if isinstance(cell, str) else value
        rows = rows_of(["item", "word", "note"], [1, "a", value], [1, value, value])
        made.append(read_sheet(str(write_workbook(tmp_path / "t.xlsx", rows, styles=styles))))
    if isinstance(cell, str):
        (tmp_path / "t.csv").write_text(f"item,word,note\n1,a,x\n1,{cell},{cell}\n")
        made.append(read_sheet(str(tmp_path / "t.csv")))
    frame = pd.DataFrame({"item": [1, 1], "word": pd.Series(["a", cell], dtype=object), "note": [cell, cell]})
    made.append(sheet_of_pandas(frame))
    for sheet in made:
        with pytest.raises(InputError, match=rf":{sheet.numbers[1]}: {said}"):
            read_stimuli(sheet)
        if isinstance(cell, str):  # in the first row, too
            sheet.cells[1].reverse()
            with pytest.raises(InputError, match=rf":{sheet.numbers[0]}: {said}"):
                read_stimuli(sheet)
            sheet.cells[1].reverse()
        for role in ("item", "condition"):
            if isinstance(cell, str):
                with pytest.raises(InputError, match=rf":{sheet.numbers[1]}: .*the error of a formula"):
                    read_stimuli(sheet, {"word": "item", role: "word"})
        kept = {"word": "item"} if isinstance(cell, str) else {"word": "item", "item": "note"}
        assert read_stimuli(sheet, kept).texts


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("item,word\n1,The\n1,NA\n2,NA\n", ["word is NA in row 3 and 1 more, read as it stands: R writes"]),
        ("sentence\nNA\nTRUE\nNA but\n", ["sentence is NA in row 2", "sentence is TRUE in row 3"]),
        ("item,sentence\n1,a\n1,b\n1,a\n1,a\n", ["an earlier row is there again in row 4 and 1 more,"]),
        ("item,word\n1,it\n1,had\n1,had\n", ["the row before it is there again in row 4, and counts again"]),
        ("item,word\n1,the\n1,dog\n1,the\n1,cat\n", []),
        ("item,note,sentence\n1,x,a\n1,y,a\n2,x,a\n", []),
        ("item,condition,word\n1,NA,a\nNA,NA,b\n", []),
        ("Item,sentence\n1,a | b\n2,a | b | c\n1,a | | b\n", ["more or fewer regions than its item has"]),
        ("item,sentence\n1,a [b] c\n1,a [b c]\n", ["more or fewer regions"]),
        ("item,note,sentence\n1,x,\n1,x,a | b\n1,x,a | b\n2,x,\n", ["an earlier row is there again in"]),
        ("item,sentence\n1,a | b\n,a | b\n,a | b | c\n", ["item is empty in row 3 and 1 more"]),
        ("item,sentence\n1,a | | b\n1,a | c | b\n", []),
        ("Item,sentence\n1,a\n,b\n2,c\n,d\n", ["Item is empty in row 3 and 1 more, and conditions are"]),
        ("item,sentence\n,a\n,b\n", []),
        ("sentence\na | b\na\n", []),
    ],
)  # fmt: skip
def test_doubts_are_noted(text: str, notes: list[str], tmp_path: Path) -> None:
    """Each in one line, with its rows; the table is read as it stands."""
    found = read(tmp_path, text).notes
    assert len(found) == len(notes)
    assert all(one.startswith(other) for one, other in zip(found, notes, strict=True))


@pytest.mark.parametrize(
    ("columns", "new", "notes"),
    [
        ({}, {}, ()),
        ({"item": "ITEM", "condition": "ambiguity"}, {"item": ["1", "2"], "condition": ["x", "y"]}, ()),
        (
            {"place": "ITEM", "item": "ambiguity"},
            {},
            ("--column item=AMBIGUITY: pdtools view takes item, which is in the table too: rename that one",),
        ),
    ],
)
def test_item_and_condition_are_written_under_these_names(
    columns: dict[str, str], new: dict[str, list[str]], notes: tuple[str, ...], tmp_path: Path
) -> None:
    """Unless a column has exactly this name: it stays, which is noted if another one is given."""
    text = "ITEM,AMBIGUITY,CONDITION,SENTENCE\n1,x,a,The dog | barks.\n2,y,b,The dog | barks.\n"
    if columns.pop("place", None):
        text = text.replace("ITEM", "item")
    found = read(tmp_path, text, columns=columns)
    assert found.notes == notes
    assert found.new == (*new, "region", "region_text")
    cells = {role: found.sheet.texts(place) for role, place in found.renamed.items()}
    assert cells == new
    assert new_columns(found)[1 : 1 + len(new)] == list(new)


def test_numbers_among_texts_are_noted(tmp_path: Path) -> None:
    rows = rows_of(["item", "word"], [1, "a"], [1, 0.5], [1, 7.0], [1, "8"])
    found = read_stimuli(read_sheet(str(write_workbook(tmp_path / "t.xlsx", rows))))
    assert found.texts == ["a 0.5 7 8"]
    assert found.notes == (
        "word is a number in row 3 and 1 more, read as it stands: "
        "a spreadsheet may show 0.5 as 50%, and 7 as 007",
    )


def test_truth_values_among_numbers(tmp_path: Path) -> None:
    """Python takes them for equal to 1 and 0."""
    rows = rows_of(["sentence", "extra"], *(["A dog", value] for value in (1, True, 0, False)))
    found = read_sheet(str(write_workbook(tmp_path / "t.xlsx", rows)))
    assert found.texts(1) == ["1", "True", "0", "False"]


# Tables that were once misread: the sentences, or what is said of them.
CASES = {
    "s19_trailing.csv": ["The dog often barks.", "The cat often sleeps."],
    "s20_lists.csv": ["The dog barks.", "The cat sleeps."] * 2,
    "s1_x000d.xlsx": ["The dog the cats chased barks.", "The dog barks."],
    "s2_cached.xlsx": ["The dog barks.", "The cats sleep."],
    "s4_commas_long.csv": ["The dog barks."],
    "S6.CSV": ["The dog, barks."],
    "s2_formula.xlsx": ":2: the file does not hold the value of the formula in column D",
    "s2_half.xlsx": ":3: the file does not hold the value of the formula in column B",
    "s14_types.xlsx": ":4: word is True, a truth value, not text",
    "s14_true.xlsx": ":4: word is True, a truth value, not text",
    "s15_err.xlsx": ":3: sentence is #REF!, the error of a formula",
    "s12_na.csv": "text is NA in row 6",
}


@pytest.mark.parametrize("name", CASES)
def test_tables_that_were_misread(name: str, test_data: Path) -> None:
    file, right = test_data.parent / "cases" / "4" / name, CASES[name]
    if not file.exists():
        pytest.skip("no such tables")
    if isinstance(right, list):
        assert read_stimuli(read_sheet(str(file))).texts == right
    elif right[0] == ":":
        with pytest.raises(InputError, match=right):
            read_stimuli(read_sheet(str(file)))
    else:
        assert read_stimuli(read_sheet(str(file))).notes[0].startswith(right)
