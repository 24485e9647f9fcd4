"""The page of a table of stimuli: means and intervals by region and condition, and its items."""

from __future__ import annotations

import itertools
import json
import math
import random
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd
import pytest
from node_pages import evaluate, needs_node, save_page
from scipy import stats

from pdtools.cli.main import run
from pdtools.errors import InputError
from pdtools.report.view.stimuli import figures, stimuli_page

TABLE = """Item,Condition,model,region,region_text,surprisal
1,a,m,1,The dog,4.0
1,a,m,2,barks,1.0
1,b,m,1,The dog,
1,b,m,2,runs,3.0
2,a,m,1,A cat,6.0
2,a,m,2,sleeps,2.5
1,a,n,1,The dog,1.0
1,a,n,2,barks,2.0
"""


def write(path: Path, text: str = TABLE) -> str:
    path.write_text(text)
    return str(path)


def test_means_and_intervals(tmp_path: Path) -> None:
    page = stimuli_page([write(tmp_path / "t.csv")])
    half = 12.7062 * math.sqrt(2) / math.sqrt(2)  # Student's t of one degree of freedom
    rows = {(row["series"], row["condition"], row["region"]): row for row in page.document["rows"]}
    first = rows["m", "a", 1]
    assert (first["mean"], first["n"], first["label"]) == (5.0, 2, "1")  # The dog, or A cat
    assert (first["low"], first["high"]) == pytest.approx((5 - half, 5 + half), abs=1e-3)
    alone = rows["m", "b", 2]
    assert [alone[name] for name in ("mean", "low", "high", "n")] == [3.0, None, None, 1]
    assert ("m", "b", 1) not in rows
    assert page.notes[0] == "in no mean: 1 row without a surprisal (row 4)"
    assert page.document["models"] == ["m", "n"]
    columns, cells = figures(page).tables["regions"]
    assert columns[:3] == ["model", "condition", "region"]
    assert cells[0] == ["m", "a", "1", 5.0, first["low"], first["high"], 2]
    assert alone["label"] == "2"  # barks or runs, by condition


def test_differences_within_items(tmp_path: Path) -> None:
    """By hand: of 1, 2 and 6 bits the mean is 3, its error √(7/3), and t of two degrees of freedom 4.3027."""
    bits = {"1": (2, 3, 9), "2": (5, 7, 9), "3": (4, 10, 9), "4": (8, None, 9), "": (1, 9, 9)}
    rows = [
        f"{item},{name},m,1,x,{'' if b is None else b}"
        for item, own in bits.items()
        for name, b in zip("abc", own, strict=True)
    ]
    text = "\n".join(["item,condition,model,region,text,surprisal", *rows]) + "\n"
    page = stimuli_page([write(tmp_path / "t.csv", text)])
    half = 4.302653 * math.sqrt(7 / 3)
    effects = page.document["effects"]
    assert [effects[0][name] for name in ("contrast", "bits", "low", "high", "items", "left_out")] == [
        "b − a",
        3.0,
        pytest.approx(3 - half, abs=1e-5),
        pytest.approx(3 + half, abs=1e-5),
        3,
        1,
    ]
    assert [row["contrast"] for row in effects] == ["b − a", "c − a", "c − b"]
    assert [row["condition"] for row in page.document["differences"]] == ["b − a", "c − a"]
    assert page.notes == (
        "in no mean: 1 row without a surprisal (row 12)",
        "in no difference, and in no mean of a condition that has items: 3 rows without an item (row 14 and 2"
        " more)",
        "1 of 4 items lacks a condition at region 1, left out of effects that need it: 4 (from row 11): row"
        " 12 has no surprisal",
    )
    of_a = page.document["rows"][0]
    assert (of_a["condition"], of_a["mean"], of_a["n"]) == ("a", 4.75, 4)
    filler = text + ",filler,m,1,y,7\n,filler,m,1,z,8\n"  # a condition of its own has a mean
    of_filler = stimuli_page([write(tmp_path / "f.csv", filler)])
    assert of_filler.document["rows"][-1]["mean"] == 7.5
    assert [row["bits"] for row in of_filler.document["effects"][:3]] == [row["bits"] for row in effects]
    drawn = figures(page)
    assert drawn.tables["design"][1][0][1:] == pytest.approx([11 / 3, 20 / 3, 9, 3, 16 / 3], abs=1e-4)
    assert drawn.tables["effects"][1][0][:4] == ["1 x", "m", "condition", "b − a"]
    twice = text + "".join(f"{row.replace(',m,', ',n,')}\n" for row in rows)
    grouped = stimuli_page([write(tmp_path / "g.csv", twice)], groups={"g": ["m", "n"]}).document
    assert [row["series"] for row in grouped["differences"] + grouped["at_region"]] == ["g"] * 5
    assert {row["series"] for row in grouped["rows"]} == {"m", "n"}
    assert grouped["over"] == "items and seeds"
    assert "with g (mean of 2 models), the effect" in grouped["results"].replace("With", "with")
    assert drawn.sources["paragraph"].count("\n\n") == 1
    without = stimuli_page([write(tmp_path / "t.csv", text.replace("item,", "set,", 1))])
    assert without.document["effects"] == []
    assert list(figures(without).tables) == ["regions"]
    assert without.document["rows"][0]["n"] == 5
    said = "no row has an item, so there are no differences: surprisal --column item=NAME"
    assert without.notes[-1] == said


@pytest.mark.parametrize("told_by", [[], ["condition"], ["version"], ["condition", "version"]])
def test_means_are_of_the_sentences_that_no_column_tells_apart(told_by: list[str], tmp_path: Path) -> None:
    """Against pandas: means, and differences within items, by condition, by version, and by both."""
    rng = np.random.default_rng(1)
    cells = itertools.product("mn", "123", "ab", "xy", "12")
    frame = pd.DataFrame(cells, columns=["model", "item", "condition", "version", "region"])
    frame["surprisal"] = rng.integers(0, 99, len(frame)) / 8
    columns = ["model", "item", *told_by, "region", "surprisal"]
    page = stimuli_page([write(tmp_path / "t.csv", frame[columns].to_csv(index=False))])
    frame["of"] = frame[told_by].agg(", ".join, axis=1) if told_by else "all"
    of_regions = frame.groupby(["model", "of", "region"]).surprisal
    found = {
        (row["series"], row["condition"], row["label"]): [row["mean"], row["n"]]
        for row in page.document["rows"]
    }
    means = of_regions.mean().items()
    assert found == {
        place: [pytest.approx(mean, abs=6e-4), of_regions.size()[place]] for place, mean in means
    }
    of_items = frame.groupby(["model", "region", "item", "of"]).surprisal.mean().unstack()
    differences = {
        (model, f"{b} − {a}", region): pytest.approx(mean)
        for a, b in itertools.combinations(of_items, 2)
        for (model, region), mean in (of_items[b] - of_items[a]).groupby(["model", "region"]).mean().items()
    }
    assert {
        (row["model"], row["contrast"], row["region"]): row["bits"]
        for row in page.document["effects"]
        if "−" not in row["model"]
    } == differences


def interval(bits: list[float]) -> list[Any]:
    """Mean, ends of Student's interval (none of one number), and number."""
    mean, n = fmean(bits), len(bits)
    half = stats.t.ppf(0.975, n - 1) * stdev(bits) / math.sqrt(n) if n > 1 else None
    ends = [None, None] if half is None else [mean - half, mean + half]
    return [each if each is None else pytest.approx(each, abs=6e-4) for each in (mean, *ends)] + [n]


@needs_node
@pytest.mark.parametrize("seed", range(12))
def test_any_tables(seed: int, tmp_path: Path) -> None:
    """One or two files, any number of conditions, rows without items or surprisals, sentences read twice."""
    rng = random.Random(seed)
    conditions = list("abcdef")[: [1, 2, 4, 5, 6, 3][seed % 6]]
    places = [["2", "10", "1"], ["subject", "verb", "-"], ["3", "x"]][seed % 3]
    rows: list[tuple[str, str, str, str, str, float | None]] = []
    for file, item in itertools.product(range(1 + seed % 2), ["1", "2", "10", "", "4"]):
        for model, condition in itertools.product(["m", "n"][: 1 + seed // 6], conditions):
            for place in places * (1 + (rng.random() < 0.2)):
                bits = None if rng.random() < 0.1 else rng.randint(0, 200) / 10
                text = f"t{item}{place}" if place != places[0] or seed % 4 else f"t{item}{condition}"
                if rng.random() < 0.9:
                    rows.append((f"{model}{file}", item, condition, place, text, bits))
    half = [row for row in rows if row[0].endswith("0")], [row for row in rows if row[0].endswith("1")]
    paths = []
    for name, own in zip("tu", half, strict=True):
        lines = [f"{m},{i},{c},{p},{t},{'' if b is None else b}" for m, i, c, p, t, b in own]
        text = "\n".join(["model,item,condition,region,region_text,surprisal", *lines]) + "\n"
        paths += [write(tmp_path / f"{name}.csv", text)] if own else []
    page = stimuli_page(paths)

    known: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    texts: dict[str, dict[str, set[str]]] = {}
    for model, item, condition, place, text, bits in rows:
        texts.setdefault(place, {}).setdefault(item, set()).add(text)
        if bits is not None:
            known.setdefault((model, condition, place), {}).setdefault(item, []).append(bits)
    ordered = sorted(texts, key=int) if all(each.isdecimal() for each in texts) else [*texts]
    labels = {}
    for place, of in texts.items():
        own_texts = set().union(*(each for item, each in of.items() if item))
        labels[place] = " ".join([place, *(own_texts if len(own_texts) == 1 else ())])
    wanted = []
    for (model, condition, place), of in known.items():
        bits_of = [b for item, each in of.items() if item for b in each]  # without those of no item
        if bits_of:
            at = ordered.index(place) + 1
            wanted.append([model, condition, at, *interval(bits_of), labels[place]])
    names = ("series", "condition", "region", "mean", "low", "high", "n", "label")
    assert [[row[name] for name in names] for row in page.document["rows"]] == wanted
    there = list(dict.fromkeys(row[1] for row in wanted))
    assert page.document["conditions"] == there
    pairs = [*itertools.combinations(there, 2)] if len(there) <= 4 else [(there[0], b) for b in there[1:]]
    paired = []
    for place, model, (a, b) in itertools.product(ordered, page.document["models"], pairs):
        one, other = (known.get((model, name, place), {}) for name in (a, b))
        differences = [fmean(other[item]) - fmean(one[item]) for item in one if item and item in other]
        if differences:
            mean, *ends, n = interval(differences)
            ends = [None, None] if np.ptp(differences) < 1e-9 else ends  # rounding is no difference
            paired.append([model, f"{b} − {a}", place, mean, *ends, n])
    names = ("model", "contrast", "region", "bits", "low", "high", "items")
    of_models = [row for row in page.document["effects"] if row["model"] in page.document["models"]]
    assert [[row[name] for name in names] for row in of_models] == paired
    without = sum(row[5] is None for row in rows)
    of_none = sum(row[1] == "" for row in rows)
    notes = [f"in no mean: {without} row{'s' * (without > 1)} without a surprisal"] * (without > 0)
    notes += [
        f"in no difference, and in no mean of a condition that has items: {of_none} row{'s' * (of_none > 1)}"
        " without an item"
    ] * (of_none > 0)
    assert [note.partition(" (")[0] for note in page.notes if note.startswith("in no ")] == notes
    items: dict[str, dict[tuple[str, str], list[tuple[str, float | None]]]] = {}
    for model, item, condition, _, text, bits in rows:
        items.setdefault(item, {}).setdefault((condition, model), []).append((text, bits))
    program = """
      all("details").find((each) => each.firstChild.textContent.startsWith("Items")).open = true;
      const means = all("details").find((each) => each.firstChild.textContent.startsWith("Mean"));
      if (means) means.open = true;
      while (!all("h3").length) await later();
      const texts = (of) => all(of).map((each) => each.textContent);
      const every = [texts("h3"), texts(".tokens")], found = {};
      for (const wanted of ["10", "T2", "nothing"]) {
        write(one("input"), wanted);
        await later();
        found[wanted] = texts("h3");
      }
      return { every, found, drawn: all(".chart").map((each) => each.spec && each.spec.data.values.length) };
    """
    shown = evaluate(save_page(page, tmp_path / "page.html"), program)
    assert len(wanted) in shown["drawn"]
    titles = {item: f"Item {item}" if item else "Sentences" for item in items}
    assert shown["every"][0] == [*titles.values()]
    strips = []
    for of in items.values():
        for condition in dict.fromkeys(condition for condition, _ in of):
            for model in page.document["models"]:
                if (own_rows := of.get((condition, model))) is not None:
                    cells = [
                        f"{text} {'–' if bits is None else format(bits, '.1f')}" for text, bits in own_rows
                    ]
                    total = format(sum(bits or 0 for _, bits in own_rows), ".1f")
                    missing = sum(bits is None for _, bits in own_rows)
                    total += f", {missing} missing" * (missing > 0)
                    strips.append(f"{condition}, {model} {total}:{''.join(cells)}")
    assert shown["every"][1] == strips
    for wanted_text in ("10", "T2", "nothing"):
        has = {item for item in items if any(wanted_text.lower() in text for text in words_of(items[item]))}
        of = [title for item, title in titles.items() if item in has or item == wanted_text]
        assert shown["found"][wanted_text] == of


def words_of(of: dict[tuple[str, str], list[tuple[str, float | None]]]) -> list[str]:
    return [" ".join(text for text, _ in own) for own in of.values()]


def test_other_shapes(tmp_path: Path) -> None:
    """Regions by name stand in the order of the rows, by number in their own; words too."""
    text = "item,model,region,text,surprisal\n1,m,verb,barks,1\n1,m,end,.,2\n2,m,verb,runs,3\n"
    page = stimuli_page([write(tmp_path / "t.csv", text)])
    rows = page.document["rows"]
    said = "no column is called condition: all sentences are one (--factors NAME,NAME says which columns"
    assert page.notes == (f"{said} tell them apart)",)
    assert [(row["region"], row["label"], row["condition"], row["mean"]) for row in rows] == [
        (1, "verb", "all", 2.0),
        (2, "end .", "all", 2.0),
    ]
    text = "item,version,model,word_number,word,surprisal\n" + "".join(
        f"1,x,m,{n},w{n},{n}\n" for n in (10, 2, 1)
    )
    rows = stimuli_page([write(tmp_path / "t.csv", text)]).document["rows"]
    assert sorted((row["region"], row["label"], row["condition"]) for row in rows) == [
        (1, "1 w1", "x"),
        (2, "2 w2", "x"),
        (3, "10 w10", "x"),
    ]
    rows = stimuli_page([write(tmp_path / "t.csv", "model,surprisal,sentence\nm,1,a b\n")]).document["rows"]
    assert rows[0]["label"] == "1 a b"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sentence,surprisal\na,1\n", "t.csv: no column model in the header"),
        ("model,surprisal\nm,1\nm,x\n", "t.csv:3: surprisal is 'x', not a number"),
        ("model,surprisal\nm,\n", "t.csv: no surprisal in it"),
    ],
)
def test_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        stimuli_page([write(tmp_path / "t.csv", text)])


@needs_node
def test_the_page(tmp_path: Path) -> None:
    page = stimuli_page(
        [write(tmp_path / "t.csv"), write(tmp_path / "u.csv", TABLE.replace(",m,", ",other,"))]
    )
    path = save_page(page, tmp_path / "page.html")
    program = """
      all("details").find((each) => each.firstChild.textContent.startsWith("Items")).open = true;
      while (!all("h3").length) await later();
      const items = () => all("h3").map((each) => each.textContent);
      const before = items(), strips = all(".tokens").map((each) => each.textContent);
      write(one("input"), "sleeps");
      await later();
      all("details").find((each) => each.firstChild.textContent.startsWith("Mean")).open = true;
      while (all(".chart").length < 3 || !all(".chart")[2].spec) await later();
      const charts = all(".chart").map((each) => each.spec.data.values.length);
      const differences = all("h2").map((each) => each.textContent);
      const said = all(".soft").map((each) => each.textContent);
      const over = said.filter((each) => each.includes("t over items")).length;
      const also = { over, differences };
      return { ...also, before, strips, charts, found: items(), counted: one(".found").textContent };
    """
    found = evaluate(path, program)
    assert (page.document["over"], found["over"]) == ("items", 2)
    assert found["differences"] == ["Effects at region 2, within items"]
    assert found["charts"] == [len(page.document[name]) for name in ("at_region", "differences", "rows")]
    assert found["before"] == ["Item 1", "Item 2"]
    assert found["strips"][0] == "a, m 5.0:The dog 4.0barks 1.0"
    assert "b, m 3.0, 1 missing:The dog –runs 3.0" in found["strips"]
    assert (found["found"], found["counted"]) == (["Item 2"], "1 of 2 items")
    assert page.document["models"] == ["m", "n", "other"]


@needs_node
@pytest.mark.parametrize("with_ms", [False, True])
def test_every_table_of_effects(with_ms: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page's cells are the numbers of ``compare`` for the same table; figures' are those drawn."""
    rng = np.random.default_rng(5)
    slopes = {"m": (2.0, 1.5, 2.5), "n": (3.0, 2.0, 4.0)}
    rows = []
    for item, model, (f, g), region in itertools.product(
        range(1, 14), slopes, itertools.product("ab", "xy"), (1, 2)
    ):
        bits = rng.normal(5 + (f == "b") * region, 1)
        row = {"item": item, "f": f, "g": g, "model": model, "region": region, "region_text": f"w{region}"}
        if not (item == 4 and (f, g) == ("b", "y")):
            ms = dict(zip(("ms", "ms_low", "ms_high"), (bits * each for each in slopes[model]), strict=True))
            rows.append({**row, "surprisal": bits, **(ms if with_ms else {})})
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    command = ["compare", str(tmp_path / "t.csv"), "--factors", "f,g", "--region", "2", "--json"]
    assert run(command) == 0
    compared = json.loads(capsys.readouterr().out)
    wanted = [row for row in compared["effects"] if row["region"] == compared["region"]]
    assert len(wanted) == 9  # three contrasts, of two models and between them
    page = stimuli_page([str(tmp_path / "t.csv")], factors="f,g", region="2")
    program = """
      const section = all("section").find((each) => each.firstChild.textContent.startsWith("Effects"));
      all("details").find((each) => each.firstChild.textContent.startsWith("Mean surprisal")).open = true;
      await later();
      for (const each of all("figure details")) { each.open = true; await later(); }
      return { effects: cells(section), figures: all("figure").map((each) => cells(each)) };
    """
    found = evaluate(save_page(page, tmp_path / "page.html"), program)
    head, *shown = found["effects"]
    last = ["ms", "95%"] if with_ms else []
    assert head == ["model", "effect", "levels", "bits", "95%", "bootstrap", "t", "df", "p", "items", *last]

    def ends(low: float, high: float) -> str:
        return f"[{', '.join(f'{round(end, 2) + 0.0:.2f}' for end in (low, high))}]"

    for cells, row in zip(shown, wanted, strict=True):
        assert cells[:2] == [row["model"], row["effect"]]
        assert cells[2] == row["contrast"].replace(" − ", "\u00a0−\u00a0")
        numbers = [
            f"{row['bits']:.2f}",
            ends(row["low"], row["high"]),
            ends(row["boot_low"], row["boot_high"]),
        ]
        numbers += [f"{row['t']:.2f}", str(row["df"]), str(row["items"])]
        if with_ms:
            numbers += [f"{row['ms']:.1f}", ends(row["ms_low"], row["ms_high"])]
        shown_p = float(cells.pop(8).replace("−", "-"))
        assert shown_p == pytest.approx(row["p"], abs=5.1e-5 if row["p"] >= 1e-4 else 0, rel=0.051)
        assert [cell.replace("−", "-") for cell in cells[3:]] == numbers
    for name, (head, *cells) in zip(("at_region", "differences", "rows"), found["figures"], strict=True):
        drawn = page.document[name]
        assert [row[:3] for row in cells] == [
            [row["series"], row["condition"], row["label"]] for row in drawn
        ]
        assert head[3:6] == ["mean (bits)", "from", "to"]
        for row, own in zip(drawn, cells, strict=True):
            numbers = [row[end] for end in ("mean", "low", "high", "n")]
            shown_as = [float(cell.replace("−", "-")) for cell in own[3:]]
            assert shown_as == pytest.approx(numbers, abs=5.1e-4)


@needs_node
@pytest.mark.parametrize("n", [20, 21, 40, 45])
def test_items_are_shown_by_twenties(n: int, tmp_path: Path) -> None:
    rows = "".join(f"i{k},m,r,w{k % 3},{k / 4}\n" for k in range(n))
    page = stimuli_page([write(tmp_path / "t.csv", f"item,model,region,text,surprisal\n{rows}")])
    program = """
      all("details").find((each) => each.firstChild.textContent.startsWith("Items")).open = true;
      while (!all("h3").length) await later();
      const moves = /previous|next/, found = [];
      const button = (at) => all("button").filter((each) => moves.test(each.textContent))[at];
      const stops = (at) => button(at).attributes.has("disabled");
      const items = () => all("h3").map((each) => each.textContent.replace("Item i", ""));
      const shown = () => [items(), [stops(0), stops(1)], one(".found").textContent];
      for (let at = 0; at < 4; at++) {
        found.push(shown());
        if (!stops(1)) button(1).click();
        await later();
      }
      if (!stops(0)) button(0).click();
      await later();
      const before = shown();
      write(one("input"), "i1"); await later();
      const named = items();
      write(one("input"), "w1"); await later();
      return { found, before, named, searched: shown() };
    """
    shown = evaluate(save_page(page, tmp_path / "page.html"), program)
    pages = [list(map(str, range(first, min(first + 20, n)))) for first in range(0, n, 20)]
    last = len(pages) - 1
    for at, (items, disabled, said) in enumerate(shown["found"]):
        assert items == pages[min(at, last)]
        assert disabled == [at == 0 or last == 0, at >= last]
        assert said == f"{n} of {n} items"
    assert shown["before"][0] == pages[max(0, last - 1)]
    assert shown["named"] == ["1"]  # none that begins so
    of_one = [str(k) for k in range(n) if k % 3 == 1]
    assert shown["searched"] == [of_one[:20], [True, True], f"{len(of_one)} of {n} items"]


def test_the_command(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    pd.DataFrame({"item": [1, 2], "sentence": ["The dog | barks.", "The cats | bark."]}).to_csv(
        tmp_path / "s.csv", index=False
    )
    out = str(tmp_path / "out.parquet")
    assert run(["surprisal", str(tmp_path / "s.csv"), "--model", "demo", "--beam", "2", "-o", out, "-q"]) == 0
    page = str(tmp_path / "page.html")
    assert run(["view", out, "-o", page, "--figures", str(tmp_path / "figures"), "-q"]) == 0
    assert run(["view", out, "-o", page, "--factors", "a,b", "--overwrite"]) == 1
    assert "Surprisals of out.parquet" in Path(page).read_text("utf-8")
    assert (tmp_path / "figures" / "regions.csv").read_text().count("\n") == 3
