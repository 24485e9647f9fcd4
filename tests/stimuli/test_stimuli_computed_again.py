"""Tables of stimuli in all forms, read, scored and written, against another computation of every cell."""

from __future__ import annotations

import csv
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from toy_workbooks import rows_of, write_workbook

from pdtools.files import Rejects
from pdtools.files.tables import read_sheet
from pdtools.search.options import NO_CONTEXT
from pdtools.search.scores import SentenceScore
from pdtools.stimuli.columns import as_pandas, make_table, sheet_of_pandas, write
from pdtools.stimuli.surprisals import Surprisals
from pdtools.stimuli.table import read_stimuli

WORDS = ["The", "dog", "cats,", "barks", "x;y", "don't", "(so)", "é", "ran", "loudly."]
Row = dict[str, Any]


def nats(model: str, text: str, place: int) -> float:
    """What a model of words makes of a word, whatever it is."""
    return 0.25 + len(text.split()[place]) + place / 8 + len(text) / 64 + (model == "two") * 3


def score_of(model: str, text: str) -> SentenceScore:
    words = text.split()
    ends = list(itertools.accumulate(len(word) + 1 for word in words))
    starts = [end - 1 - len(word) for end, word in zip(ends, words, strict=True)]
    logprobs = [-nats(model, text, i) for i in range(len(words))]
    measures = {}
    if model == "two":
        measures = {
            "attachment": np.array([2 * -each for each in logprobs] + [5.0]),
            "closed": np.arange(len(words) + 1.0),
        }
    return SentenceScore(
        text=text,
        tokens=(*("<unk>" if word == "é" else word for word in words), "<eos>"),
        words=(*range(len(words)), -1),
        starts=(*starts, len(text)),
        ends=(*(end - 1 for end in ends), len(text)),
        logprobs=np.array([*logprobs, -9.0]),
        n_unknown=words.count("é"),
        eos=True,
        measures=measures,
    )


class Case:
    """A table drawn at random, and the rows that have to come out."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.form = ["bars", "brackets", "plain", "several", "regions", "words", "located"][seed % 7]
        self.kind = ["csv", "semicolons", "tsv", "xlsx", "parquet", "pandas"][seed % 6]
        self.words = bool(seed // 7 % 2)
        self.renamed, self.shuffled, self.numbered, self.in_bits, self.frequent = (
            rng.random(5) < 0.5
        ).tolist()
        self.is_long = self.form in ("regions", "words", "located")
        self.item, self.condition = ("Set", "Type") if self.renamed else ("item", "Condition")
        self.sentences = []
        for item, condition in itertools.product(range(1, 5), "ab"):
            n = int(rng.integers(2, 6))
            most = 2 if self.form in ("words", "located") else 4
            least = 1 if most == 2 else 0
            regions = [list(map(str, rng.choice(WORDS, rng.integers(least, most)))) for _ in range(n)]
            regions[0] = regions[0] or ["The"]
            self.sentences.append((str(item), condition, [" ".join(region) for region in regions]))
        self.sentences[5] = (*self.sentences[5][:2], self.sentences[2][2])  # the same words again
        self.rows: list[Row] = []
        self.units: list[tuple[int, int, Row]] = []  # row, sentence, cells
        self._table()

    def _table(self) -> None:
        for number, (item, condition, regions) in enumerate(self.sentences):
            text = " ".join(filter(None, regions))
            own = {self.item: item, self.condition: condition, "note": f"n{number}", "code": f"0{number}"}
            if self.form == "several":
                if condition == "b":
                    continue
                other = " ".join(filter(None, self.sentences[number + 1][2]))
                self.rows.append({self.item: item, "note": own["note"], "first": text, "second": other})
                for version, each in (("first", text), ("second", other)):
                    self._units([each], [len(self.rows) - 1], number, version)
            elif not self.is_long:
                cell = {
                    "bars": " | ".join(regions),
                    "brackets": " ".join(
                        f"[{each}]" if i % 2 or not each else each for i, each in enumerate(regions)
                    ),
                    "plain": text,
                }[self.form]
                if self.form == "brackets" and all(i % 2 == 0 for i in range(len(regions))):
                    cell = f"[{cell}]"
                self.rows.append({**own, "sentence": cell})
                parts = regions if self.form != "plain" else [text]
                self._units(parts, [len(self.rows) - 1] * len(parts), number)
            else:
                at = range(len(self.rows), len(self.rows) + len(regions))
                for place, region in enumerate(regions, 1):
                    row = {**own, "word" if self.form != "regions" else "text": region}
                    if self.form == "located":
                        row["sentence"] = text
                    if self.form == "regions" or self.numbered:
                        row["word_number" if self.form != "regions" else "region"] = str(place)
                    self.rows.append(row)
                self._units(regions, list(at), number)
        can_shuffle = self.shuffled and (not self.is_long or self.form == "regions" or self.numbered)
        order = self.rng.permutation(len(self.rows)) if can_shuffle else np.arange(len(self.rows))
        self.rows = [self.rows[i] for i in order]
        place = np.argsort(order)
        units = [(int(place[row]), n, cells) for row, n, cells in self.units]
        # In the order of the rows, and of the columns and units in each.
        self.units = sorted(units, key=lambda unit: unit[0])

    def _units(self, regions: list[str], rows: list[int], number: int, version: str = "") -> None:
        text, before = " ".join(filter(None, regions)), 0
        for place, (region, row) in enumerate(zip(regions, rows, strict=True), 1):
            many = len(region.split())
            known = {"text": text, "region": place, "region_text": region, "version": version}
            spans = (
                [(i, i + 1) for i in range(before, before + many)]
                if self.words
                else [(before, before + many)]
            )
            for inside, (first, last) in enumerate(spans, 1):
                word = " ".join(text.split()[first:last])
                cells = {**known, "word": word, "word_in_region": inside, "word_number": first + 1}
                self.units.append((row, number, {**cells, "tokens": (first, last)}))
            before += many

    def write(self, folder: Path) -> Any:
        """The table as a file, or of pandas."""
        names = list(self.rows[0])
        cells = [[row[name] for name in names] for row in self.rows]
        if self.kind == "pandas":
            frame = pd.DataFrame(cells, columns=names)
            return frame.set_axis([f"r{3 * i}" for i in range(len(frame))])
        if self.kind == "xlsx":
            return write_workbook(folder / "t.xlsx", rows_of(names, *cells))
        if self.kind == "parquet":
            pd.DataFrame(cells, columns=names).to_parquet(folder / "t.parquet")
            return folder / "t.parquet"
        file = folder / ("t.tsv" if self.kind == "tsv" else "t.csv")
        between = {"csv": ",", "semicolons": ";", "tsv": "\t"}[self.kind]
        with file.open("w", newline="") as stream:
            blank = [f" {name} " if name == "note" else name for name in names]
            csv.writer(stream, delimiter=between).writerows([blank, *cells])
        return file

    def expected(self, model: str) -> list[Row]:
        """The columns that are added, by name."""
        scale = 1 / math.log(2) if self.in_bits else 1
        found = []
        for _, number, unit in self.units:
            text, (first, last) = unit["text"], unit["tokens"]
            row: Row = {"model": model, **unit}
            own = [nats(model, text, i) for i in range(first, last)]
            row |= {"surprisal": math.fsum(own) * scale, "n_tokens": len(own), "crossing": 0}
            row |= {} if self.in_bits else {"unit": "nats"}
            row["unknown"] = text.split()[first:last].count("é")
            row["attachment"] = 2 * math.fsum(own) * scale if model == "two" else math.nan
            row["closed"] = float(sum(range(first, last))) if model == "two" else math.nan
            row["length"] = len(unit["word"])
            row["frequency"] = frequency(unit["word"]) or math.nan
            for back in (1, 2):
                there = first >= back
                earlier = text.split()[first - back] if there else ""
                row[f"surprisal_{back}"] = nats(model, text, first - back) * scale if there else math.nan
                row[f"length_{back}"] = len(earlier) if there else math.nan
                row[f"frequency_{back}"] = (frequency(earlier) or math.nan) if there else math.nan
            if self.form == "several":
                row["condition"] = unit["version"]
            elif self.renamed:
                row |= {"item": self.sentences[number][0], "condition": self.sentences[number][1]}
            if self.form == "several" and self.renamed:
                row["item"] = self.sentences[number][0]
            found.append(row)
        return found

    def new(self) -> set[str]:
        """The names of the columns that are added."""
        names = {"model", "surprisal", "n_tokens", "unknown", "crossing", "attachment", "closed"}
        names |= set() if self.in_bits else {"unit"}
        names |= {"region", "region_text"} if self.form in ("bars", "brackets") else set()
        names |= {"condition"} if self.form == "several" else set()
        names |= ({"item"} if self.form == "several" else {"item", "condition"}) if self.renamed else set()
        if self.words:
            names |= {f"{name}{back}" for name in ("surprisal", "length") for back in ("", "_1", "_2")}
            names |= {f"frequency{back}" for back in ("", "_1", "_2")} if self.frequent else set()
            names |= {"word", "word_in_region", "word_number"}
            if self.form in ("words", "located"):
                names -= {"word", "word_in_region", *(["word_number"] if self.numbered else [])}
        return names


def frequency(word: str) -> float | None:
    return None if word == "é" else -float(len(word)) - 0.5


@pytest.mark.parametrize("seed", range(42))
def test_every_cell(seed: int, tmp_path: Path) -> None:
    case = Case(seed)
    made = case.write(tmp_path)
    sheet = sheet_of_pandas(made) if case.kind == "pandas" else read_sheet(str(made))
    first = 1 if case.kind in ("parquet", "pandas") else 2  # below a header
    assert list(sheet.numbers) == list(range(first, first + len(case.rows)))
    columns = {"item": case.item, **({} if case.form == "several" else {"condition": case.condition})}
    columns = columns if case.renamed else {}
    columns |= {"sentence": "first,second"} if case.form == "several" else {}
    stimuli = read_stimuli(sheet, columns, words=case.words)
    scored = {}
    for model in ("one", "two"):
        found = Surprisals(stimuli, "text", "bits" if case.in_bits else "nats", Rejects("fail"))
        asked = [place for place, _ in found.parts(NO_CONTEXT, {"text_style": "raw"})]
        texts = [stimuli.texts[first] for first, _ in asked]
        assert len(set(texts)) == len(texts)  # equal sentences are read once
        for place, text in zip(asked, texts, strict=True):
            found.add(place, score_of(model, text))
        scored[model] = found
    given = frequency if case.frequent and case.words else None
    table = make_table(stimuli, scored, frequency=given)
    expected = [row for model in scored for row in case.expected(model)]
    assert set(table.columns) == case.new()
    for name, values in table.columns.items():
        own = [row[name] for row in expected]
        if isinstance(own[0], str):
            assert values == own, name
        else:
            np.testing.assert_allclose(np.array(values, float), np.array(own, float), err_msg=name)
    rows = [row for row, _, _ in case.units] * 2
    assert table.rows.tolist() == rows

    names = [*case.rows[0], *table.columns]
    kept = [[case.rows[row][name] for name in case.rows[0]] for row in rows]
    if case.kind == "pandas":
        frame = as_pandas(table)
        assert frame.columns.tolist() == names
        assert frame.index.tolist() == [f"r{3 * row}" for row in rows]
        assert frame.iloc[:, : len(case.rows[0])].to_numpy().tolist() == kept
        np.testing.assert_allclose(frame["surprisal"].astype(float), [row["surprisal"] for row in expected])
    for suffix in ("csv", "tsv", "parquet"):
        write(table, str(tmp_path / f"o.{suffix}"))
        if suffix == "parquet":
            written = pq.ParquetFile(tmp_path / "o.parquet").read()
            assert written.column_names == names
            texts = list(zip(*(column.to_pylist() for column in written.columns), strict=True))
        else:
            quoting = {"quoting": csv.QUOTE_NONE, "delimiter": "\t"} if suffix == "tsv" else {}
            with (tmp_path / f"o.{suffix}").open(newline="") as stream:
                first, *texts = csv.reader(stream, **quoting)  # type: ignore[assignment,arg-type]
            assert list(first) == names
        for own, cells, row in zip(texts, kept, expected, strict=True):
            assert [str(cell or "") for cell in own[: len(cells)]] == cells
            for name, cell in zip(table.columns, own[len(cells) :], strict=True):
                if isinstance(row[name], str):
                    assert cell == row[name]
                elif math.isnan(row[name]):
                    assert cell in ("", None)
                elif isinstance(row[name], int):
                    assert str(cell) == str(row[name])
                else:
                    assert float(cell) == pytest.approx(row[name], abs=6e-9, rel=1e-12)
