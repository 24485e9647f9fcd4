"""Effects of designs within items: against AnovaRM, R, brute force, and simulated truth."""

from __future__ import annotations

import itertools
import math
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pdtools
from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.comparison.designs import DesignEffects, Measured, design_effects, measured
from pdtools.evaluation.comparison.effects import Factor, cells, contrasts, effects, estimate_of
from pdtools.evaluation.intervals import student_quantile
from pdtools.files.tables import read_sheet
from pdtools.report.effects import cell_means, cell_rows, methods_sentence, print_effects, results_sentence

RSCRIPT = shutil.which("Rscript")


def design_of(sizes: Sequence[int]) -> list[Factor]:
    return [Factor("PQR"[i], tuple(f"{'pqr'[i]}{k}" for k in range(n))) for i, n in enumerate(sizes)]


def balanced(sizes: Sequence[int], seed: int) -> tuple[list[Factor], np.ndarray, pd.DataFrame]:
    """Values (1, items, cells) with items that differ in everything, and the same as a long table."""
    rng = np.random.default_rng(seed)
    design = design_of(sizes)
    names = cells(design)
    values = rng.normal(10, 1, (1, 15, len(names))) + rng.normal(0, 4, (1, 15, 1)) + np.arange(len(names)) / 3
    rows = [
        (f"i{i}", *cell, values[0, i, c])
        for i, c in itertools.product(range(15), range(len(names)))
        for cell in [names[c]]
    ]
    return design, values, pd.DataFrame(rows, columns=["item", *(factor.name for factor in design), "y"])


@pytest.mark.parametrize("sizes", [(2,), (2, 2), (2, 2, 2)])
def test_t_squared_is_the_f_of_anova_rm(sizes: tuple[int, ...]) -> None:
    anova = pytest.importorskip("statsmodels.stats.anova")
    design, values, frame = balanced(sizes, 1)
    found = effects(values, contrasts(design), {"m": [0]})
    names = [factor.name for factor in design]
    table = anova.AnovaRM(frame, "y", "item", within=names).fit().anova_table
    assert len(found) == len(table) == 2 ** len(sizes) - 1
    for effect in found:
        of, row = effect.estimate, table.loc[effect.contrast.effect.replace(" × ", ":")]
        assert of.t is not None
        assert of.t**2 == pytest.approx(row["F Value"], rel=1e-9)
        assert of.p == pytest.approx(row["Pr > F"], rel=1e-9)
        assert (of.df, row["Num DF"]) == (row["Den DF"], 1)


@pytest.mark.skipif(RSCRIPT is None, reason="Rscript is not installed")
@pytest.mark.parametrize("sizes", [(2, 2), (2, 2, 2)])
def test_t_squared_is_the_f_of_r(sizes: tuple[int, ...], tmp_path: Path) -> None:
    design, values, frame = balanced(sizes, 2)
    frame.to_csv(tmp_path / "t.csv", index=False, float_format="%.17g")
    names = "*".join(factor.name for factor in design)
    code = f"""
      d <- read.csv("t.csv", stringsAsFactors = TRUE)
      for (stratum in summary(aov(y ~ {names} + Error(item/({names})), data = d))) {{
        rows <- stratum[[1]]
        if (is.null(rows$F) || is.na(rows$F[1])) next
        cat(trimws(rownames(rows)[1]), sprintf("%.17g", c(rows$F[1], rows$P[1])), "\\n")
      }}"""
    assert RSCRIPT is not None
    done = subprocess.run([RSCRIPT, "-e", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    of_r = {name: (float(f), float(p)) for name, f, p in map(str.split, done.stdout.splitlines())}
    found = effects(values, contrasts(design), {"m": [0]})
    assert len(of_r) == len(found)
    for effect in found:
        f, p = of_r[effect.contrast.effect.replace(" × ", ":")]
        of = effect.estimate
        assert of.t is not None
        assert of.t**2 == pytest.approx(f, rel=1e-9)
        assert of.p == pytest.approx(p, rel=1e-9)


# --- tables -------------------------------------------------------------------------------------


def read(tmp_path: Path, frame: pd.DataFrame | str, factors: str | None = None) -> Measured:
    text = frame if isinstance(frame, str) else frame.to_csv(index=False)
    (tmp_path / "t.csv").write_text(text)
    return measured([read_sheet(str(tmp_path / "t.csv"))], factors)


def by_hand(frame: pd.DataFrame, levels: dict[str, tuple[str, ...]], wanted: dict[str, str]) -> pd.Series:
    """The contrast of each item of one model and region by plain recursion: differences, else means."""
    means = frame.groupby(["item", *levels]).surprisal.mean()

    def value(item: str, names: list[str], cell: tuple[str, ...]) -> float:
        if not names:
            return float(means.get((item, *cell), math.nan))
        first, *rest = names
        if first in wanted:
            reference = levels[first][0]
            return value(item, rest, (*cell, wanted[first])) - value(item, rest, (*cell, reference))
        return statistics.fmean(value(item, rest, (*cell, level)) for level in levels[first])

    items = list(dict.fromkeys(frame.item))
    return pd.Series({item: value(item, list(levels), ()) for item in items}).dropna()


@pytest.mark.parametrize("seed", range(6))
def test_random_designs_against_brute_force(seed: int, tmp_path: Path) -> None:
    """Factors × models × regions, with missing cells and values, repeated rows, references, either form."""
    rng = np.random.default_rng(seed)
    sizes = [(2, 2), (3, 2), (2, 2, 2), (2, 3), (4,), (3, 3)][seed]
    names = ["Aux", "Be", "Cy"][: len(sizes)]
    levels = {
        name: tuple(f"{name.lower()}{k}" for k in range(n)) for name, n in zip(names, sizes, strict=True)
    }
    items = [f"i{k}" for k in range(14)]
    cross = itertools.product("mn", items, itertools.product(*levels.values()), "12")
    rows = [(model, item, *cell, region) for model, item, cell, region in cross]
    frame = pd.DataFrame(rows, columns=["model", "item", *names, "region"])
    frame["surprisal"] = rng.normal(9, 3, len(frame)).round(6)
    frame = frame[rng.random(len(frame)) > 0.02]
    frame.loc[frame.sample(3, random_state=seed).index, "surprisal"] = np.nan
    again = frame.sample(4, random_state=seed)
    frame = pd.concat([frame, again.assign(surprisal=again.surprisal + 1)], ignore_index=True)
    reference = {name: levels[name][rng.integers(len(levels[name]))] for name in names}
    levels = {name: (reference[name], *(x for x in levels[name] if x != reference[name])) for name in names}
    shown = frame
    if seed % 2:  # conditions named by their parts
        shown = frame.assign(Condition=frame[names].agg("-".join, axis=1)).drop(columns=names)
    asked = ",".join(f"{name.lower()}={reference[name]}" for name in names)
    if len(names) == 1:
        shown = frame
    found = design_effects(read(tmp_path, shown, asked), samples=0)
    expected = {}
    for region in "12":
        for size in range(1, len(names) + 1):
            for own in itertools.combinations(names, size):
                for chosen in itertools.product(*(levels[name][1:] for name in own)):
                    wanted = dict(zip(own, chosen, strict=True))
                    of = {
                        model: by_hand(
                            frame[(frame.model == model) & (frame.region == region)], levels, wanted
                        )
                        for model in "mn"
                    }
                    parts = [f"{wanted[name]} − {levels[name][0]}" for name in own]
                    contrast = " × ".join(f"({p})" for p in parts) if size > 1 else parts[0]
                    for model, values in [*of.items(), ("n − m", (of["n"] - of["m"]).dropna())]:
                        key = region, model, " × ".join(name.lower() for name in own), contrast
                        half = student_quantile(0.975, len(values) - 1) * values.sem()
                        ends = [values.mean(), values.mean() - half, values.mean() + half]
                        expected[key] = pytest.approx([*ends, values.mean() / values.sem(), len(values)])
    assert {
        (row["region"], row["model"], row["effect"], row["contrast"]): [
            row[name] for name in ("bits", "low", "high", "t", "items")
        ]
        for row in found.rows()
    } == expected


FRAME = pd.DataFrame(
    [
        (item, model, f"{amb}_{length}", amb, length, region, text, bits)
        for model, more in (("m", 0), ("n", 1))
        for item in (1, 2, 3)
        for amb, length in itertools.product(("unamb", "amb"), ("short", "long"))
        for region, text, bits in (
            (1, f"start {amb}", 40.0 - 9 * (amb == "amb")),
            (
                2,
                f"verb{item}",
                5 + item * (amb == "amb") + (item + more) * ((amb, length) == ("amb", "long")),
            ),
        )
    ],
    columns=["Item", "model", "Condition", "Ambiguity", "Length", "region", "region_text", "surprisal"],
)


def test_one_region_its_cells_and_the_sentence(tmp_path: Path) -> None:
    """By hand: of items 1, 2, 3 the interactions in m are 1, 2, 3 bits, and one more each in n."""
    found = design_effects(read(tmp_path, FRAME, "Ambiguity,Length"))
    assert (found.critical, found.label, found.table.labels["1"]) == ("2", "2", "1")  # 1 has other words
    assert found.notes == [
        "region 2 is shown: of the regions with the same words in all conditions it has the largest effect"
        " in this very table; --region names another"
    ]
    assert cell_rows(found)[1][:3] == [
        ["m", "unamb", 5.0, 5.0, 0.0],
        ["m", "amb", 7.0, 9.0, 2.0],
        ["m", "amb − unamb", 2.0, 4.0, 2.0],
    ]
    # t = 2 / (1 / √3), and the quantile of two degrees of freedom is 4.3027.
    assert (
        "With n, the effect of Ambiguity (amb − unamb) was 3.50 bits, 95% CI [−0.23, 7.23], t(2) = 4.04,"
        " p = .056; the effect of Length (long − short) was 1.50 bits, 95% CI [0.26, 2.74], t(2) = 5.20,"
        " p = .035; the interaction Ambiguity × Length was 3.00 bits, 95% CI [0.52, 5.48], t(2) = 5.20,"
        " p = .035 (3 items). Between models (n − m, paired over items), the effect of Ambiguity (amb −"
        " unamb) differed by 0.50 bits; the effect of Length (long − short) differed by 0.50 bits; the"
        " interaction Ambiguity × Length differed by 1.00 bits (3 items)."
    ) in results_sentence(found)
    third = FRAME[FRAME.region == 2].assign(region=3, surprisal=lambda each: each.surprisal / 2)
    second = FRAME.assign(surprisal=FRAME.surprisal.where(FRAME.region == 1, 9 - FRAME.surprisal))
    assert design_effects(read(tmp_path, pd.concat([second, third]), "Ambiguity")).critical == "2"
    again = FRAME[FRAME.region == 2].assign(region=3)
    assert design_effects(read(tmp_path, pd.concat([FRAME, again]), "Ambiguity")).critical == "2"  # the first
    one = design_effects(read(tmp_path, FRAME, "Ambiguity"), region="1")
    assert [row["bits"] for row in one.rows("1")] == [-9.0, -9.0, 0.0]
    assert one.notes == []
    spoken = FRAME.assign(region_text="cried", surprisal=FRAME.Item * (FRAME.Length == "long"))
    spoken.loc[spoken.Length == "long", "surprisal"] += 10.0  # 11, 12 and 13 bits: t = 12√3
    named = design_effects(read(tmp_path, spoken, "Length"), region="2 cried")
    assert (named.critical, named.label) == ("2", "2 cried")
    assert "was 12.00 bits, 95% CI [9.52, 14.48], t(2) = 20.78, p = .002 (3" in results_sentence(named)


@pytest.mark.parametrize("details", [False, True])
def test_printed_tables_have_the_numbers_of_rows(
    details: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of groups and single models, which may lack items of one effect; df in the heading if all share it."""
    rng = np.random.default_rng(3)
    levels, names = ("short", "long", "longer"), ("m-1", "m-2", "n", "o")
    places = list(itertools.product(names, range(12), levels, (1, 2)))
    frame = pd.DataFrame(places, columns=["model", "item", "Length", "region"])
    frame["surprisal"] = rng.normal(9, 3, len(frame))
    frame = frame[(frame.model != "n") | (frame["item"] != 4) | (frame.Length != "longer")]
    asked = {"groups": {"g": ["m-*"]}, "baseline": "n"}
    found = design_effects(read(tmp_path, frame, "Length"), region="2", samples=99, **asked)  # type: ignore[arg-type]
    printed: list[Any] = []
    monkeypatch.setattr(
        "pdtools.report.effects.print_table", lambda *cells, title: printed.append((*cells, title))
    )
    print_effects(found, details=details)
    wanted = []
    for place, model in itertools.product("12" if details else "2", ["g", "n", "o", "g − n", "o − n"]):
        own: list[dict[str, Any]] = [row for row in found.rows(place) if row["model"] == model]
        seeds = {"g": ", 2 models", "g − n": ", 3 models"}.get(model, "")
        same = "n" not in model
        title = f"region {place}, {model}{', 12 items' * same}{seeds}"
        of_rows = {round(row["df"], 1) for row in own if row["df"] is not None}
        one_df = len(of_rows) == 1
        rows = []
        for row in own:
            t = f"{row['t']:.2f}" if one_df or row["df"] is None else f"{row['t']:.2f} ({row['df']:.3g})"
            ends = [f"[{row[f'{kind}low']:.2f}, {row[f'{kind}high']:.2f}]" for kind in ("", "boot_")]
            name = f"Length: {row['contrast']}"
            rows.append([name, row["bits"], *ends, t, f"{row['p']:.2g}", *([] if same else [row["items"]])])
        heading = [
            "effect",
            "bits",
            "95%",
            "bootstrap",
            f"t({of_rows.pop():g})" if one_df else "t",
            "p",
            *["items"] * (not same),
        ]
        wanted.append((heading, rows, title))
    assert printed == wanted
    assert [row["items"] for row in found.rows("2") if row["model"] == "n"] == [12, 11]
    said = results_sentence(found)
    assert said.startswith("At region 2, with g (mean of 2 models), the effect of Length (long − short) was ")
    assert [part.rpartition("(")[2] for part in said.split(" items).")[:-1]] == [
        *("12", "11 to 12", "12", "11 to 12", "11 to 12")
    ]
    alone = design_effects(read(tmp_path, frame[frame.region == 2], "Length"), samples=0, **asked)  # type: ignore[arg-type]
    assert results_sentence(alone) == said.replace("At region 2, with", "With")
    note = "95%, t, p: Student's t over items and seeds; p is not corrected. bootstrap: over items"
    assert note in " ".join(capsys.readouterr().out.split())
    assert "p are by Student's t over items and seeds, without" in methods_sentence(found, "pdtools 1", {})
    single = design_effects(found.table, samples=0)
    assert "p are by Student's t over items, without" in methods_sentence(single, "pdtools 1", {})


@pytest.mark.parametrize("sizes", [(3,), (2, 2), (3, 2), (2, 3), (2, 2, 2)])
def test_cells_of_any_design(sizes: tuple[int, ...], tmp_path: Path) -> None:
    """Means over the items that have all cells, and differences from the reference at the margins."""
    rng = np.random.default_rng(sum(sizes))
    design = design_of(sizes)
    names = [factor.name for factor in design]
    places = [(m, i, *cell) for m, i, cell in itertools.product(("m1", "m2", "n"), range(9), cells(design))]
    frame = pd.DataFrame(places, columns=["model", "item", *names])
    frame["surprisal"] = rng.normal(9, 3, len(frame))
    frame = frame.drop(index=frame[(frame.model == "n") & (frame["item"] == 4)].index[-1:])
    found = design_effects(read(tmp_path, frame, ",".join(names)), groups={"g": ["m*"]}, samples=0)
    *rest, last = design
    columns, body = cell_rows(found)
    against = [f"{level} − {last.levels[0]}" for level in last.levels[1:]]
    assert columns == ["model", *names[:-1], *last.levels, *against]
    wanted = []
    for group, models in (("g", ["m1", "m2"]), ("n", ["n"])):
        own = frame[frame.model.isin(models) & ~((group == "n") & (frame["item"] == 4))]
        means = {cell: own[(own[names] == list(cell)).all(axis=1)].surprisal.mean() for cell in cells(design)}
        in_order = iter(means.values())
        rows = {of: [next(in_order) for _ in last.levels] for of in cells(rest)}
        if len(rest) == 1:
            first, *others = rest[0].levels
            for level in others:
                less = [a - b for a, b in zip(rows[level,], rows[first,], strict=True)]
                rows[f"{level} − {first}",] = less
        for of, numbers in rows.items():
            wanted.append([group, *of, *numbers, *(each - numbers[0] for each in numbers[1:])])
    if len(sizes) > 1:
        which = "" if sizes[:2] == (2, 2) else ", (p1 − p0) × (q1 − q0),"
        assert f"; the interaction P × Q{which} was " in results_sentence(found)
    assert [row[: len(sizes)] for row in body] == [row[: len(sizes)] for row in wanted]
    for row, expected in zip(body, wanted, strict=True):
        assert row[len(sizes) :] == pytest.approx(expected[len(sizes) :], abs=5.1e-5)


def test_in_python(tmp_path: Path) -> None:
    expected = design_effects(read(tmp_path, FRAME, "Ambiguity,Length")).rows()
    found = pdtools.effects([own for _, own in FRAME.groupby("model")], "Ambiguity,Length")
    pd.testing.assert_frame_equal(found, pd.DataFrame(expected))
    with pytest.warns(UserWarning, match="conditions look like a design of 2 × 2"):
        assert len(pdtools.effects(FRAME, baseline="m")) == 2 * 3 * 6
    more = [FRAME.assign(Item=FRAME.Item + 3 * n, surprisal=FRAME.surprisal * (1 + n)) for n in range(4)]
    many = pd.concat([each.assign(model=each.model + name) for name in ("", "-2") for each in more])
    asked: dict[str, Any] = {"groups": {"g": ["m*"]}, "baseline": "g", "seed": 3, "samples": 99}
    expected = design_effects(read(tmp_path, many, "Length"), **asked).rows()
    assert expected != design_effects(read(tmp_path, many, "Length"), **(asked | {"seed": 0})).rows()
    pd.testing.assert_frame_equal(pdtools.effects(many, "Length", **asked), pd.DataFrame(expected))


def test_items_that_lack_a_condition_are_named_by_rows(tmp_path: Path) -> None:
    frame = FRAME[(FRAME.Item != 2) | (FRAME.Condition != "amb_long") | (FRAME.model != "n")].copy()
    frame.loc[(frame.Item == 3) & (frame.model == "m") & (frame.region == 2), "surprisal"] = np.nan
    found = design_effects(read(tmp_path, frame, "Ambiguity,Length"), region="2")
    assert found.table.notes == ["in no mean: 4 rows without a surprisal (row 19 and 3 more)"]
    assert found.notes == [
        "2 of 3 items lack a condition at region 2, left out of effects that need it: 2 (from row 10): no"
        " amb, long in n; 3 (from row 18): row 19 has no surprisal; row 21 has no surprisal; row 23 has no"
        " surprisal; …"
    ]
    rows = {(row["model"], row["effect"]): (row["items"], row["left_out"]) for row in found.rows("2")}
    assert rows["m", "Length"] == rows["n", "Length"] == (2, 1)
    assert rows["n − m", "Length"] == (1, 2)


@pytest.mark.parametrize(
    ("frame", "factors", "said"),
    [
        (FRAME, "Ambigiuty,Length", "t.csv: no column 'Ambigiuty' for --factors (there are Item, model, "),
        (FRAME, "Ambiguity=amb,unamb", "t.csv: no column 'unamb' for --factors (there are Item, model, "),
        (FRAME, "Ambiguity=short", "t.csv: --factors: Ambiguity is never 'short', but 'unamb', 'amb'"),
        (FRAME, "Ambiguity=", "--factors Ambiguity=: write NAME,NAME or NAME=REFERENCE,NAME=REFERENCE"),
        (FRAME, "Length,length", "--factors Length,length: length is there twice"),
        (FRAME[FRAME.Length == "long"], "Length", "t.csv: --factors: Length has one level, 'long'"),
        (
            FRAME.assign(Length=range(len(FRAME))),
            "Ambiguity,Length",
            "t.csv: --factors: Length has 48 levels: '0', '1', ",
        ),
        (FRAME.drop(columns="Item"), "Length", "t.csv: no row has an item, and effects are within items ("),
        (FRAME, "a,b,c", "t.csv: --factors: no columns a, b, c, and conditions are not of 3 parts with a _ "),
        (
            FRAME[(FRAME.Item == 2) == (FRAME.Length == "long")],
            "Ambiguity,Length",
            "t.csv: no item has the conditions that an effect at region 2 needs: unamb and short, unamb and",
        ),
        (
            FRAME[FRAME.Condition != "amb_long"],
            "Ambiguity,Length",
            "t.csv: no item has a surprisal at region 2 in amb and long (--factors names what varies within",
        ),
    ],
)
def test_refused(frame: pd.DataFrame, factors: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError) as raised:
        design_effects(read(tmp_path, frame, factors))
    assert str(raised.value).replace(f"{tmp_path}/", "").startswith(said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"region": "verb"}, "--region verb: no such region (there are 1, 2)"),
        ({"groups": {"g": ["x*"]}}, "--group g=x*: no such model (there are m, n)"),
        ({"groups": {"g": ["m"], "h": ["*"]}}, "m is in two groups, g and h"),
        ({"groups": {"n": ["m"]}}, "two groups named n: a model that is not in the group has its name"),
        ({"baseline": "x"}, "no group named x (there are m, n)"),
    ],
)
def test_refused_options(options: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(PdtoolsError) as raised:
        design_effects(read(tmp_path, FRAME, "Length"), **options)  # type: ignore[arg-type]
    assert str(raised.value) == said


def test_doubts_are_said(tmp_path: Path) -> None:
    again = pd.concat([FRAME, FRAME[(FRAME.Item == 2) & (FRAME.Condition == "amb_long")]])
    filler = FRAME[FRAME.Item == 1].assign(Item=9, Condition="fil_ler")
    frame = pd.concat([again.replace({"short": "Short"}), FRAME[FRAME.Item == 3].assign(Item=4), filler])
    hyphens = frame.Condition.str.replace(r"amb_", "amb-", regex=False)
    named = frame.assign(Condition=hyphens).drop(columns=["Ambiguity", "Length"])
    notes = read(tmp_path, named, "a,b").notes
    assert notes == [
        "in no mean and no effect, without a level of a and b: 16 rows of items (row 70 and 15 more)",
        "item 2 has amb, long in row 16 and row 50, more often than another condition: means of such rows"
        " count",
    ]
    without = pd.concat([frame, FRAME[:3].assign(Item=None, Length=""), FRAME[:1].assign(Length="")])
    notes = read(tmp_path, without, "Ambiguity,Length").notes
    start = "in no mean and no effect, without a level of Ambiguity and Length: "
    assert notes[:2] == [
        f"{start}1 row of items (row 89)",
        f"{start}3 rows without an item (row 86 and 2 more)",
    ]
    assert "Length has the levels 'Short' and 'short': are they the same?" in notes
    assert read(tmp_path, FRAME).notes == [
        "conditions look like a design of 2 × 2: name its factors with --factors NAME,NAME"
    ]
    filler = FRAME[:1].assign(Item=None, Ambiguity="filler")
    assert read(tmp_path, pd.concat([filler, FRAME]), "Ambiguity").factors[0].levels == ("unamb", "amb")
    paths = [tmp_path / "t.csv", tmp_path / "u.csv"]
    for path, model in zip(paths, ("m", "n"), strict=True):
        own = FRAME[FRAME.model == model].replace({5.0: np.nan} if model == "n" else {})
        own.to_csv(path, index=False)
    notes = measured([read_sheet(str(path)) for path in paths], "Length").notes
    assert notes == [f"in no mean: 6 rows without a surprisal ({paths[1]} row 3 and 5 more)"]
    with pytest.raises(InputError, match=r"t.csv:2: surprisal is 'inf', not a number"):
        read(tmp_path, "model,item,surprisal\nm,1,inf\n")


# --- intervals ----------------------------------------------------------------------------------


def test_intervals_of_two_means_within_items_are_those_of_their_difference() -> None:
    values = np.random.default_rng(3).normal(5, 2, (12, 2))
    (a, low, high), (b, _, _) = cell_means(values)
    of = estimate_of([(values[:, 1] - values[:, 0])[None]])
    assert low is not None
    assert high is not None
    assert of.low is not None
    assert (a, b) == pytest.approx(tuple(values.mean(0)))
    assert (high - low) / 2 * math.sqrt(2) == pytest.approx(of.value - of.low)


def test_intervals_of_three_means_within_items_by_hand() -> None:
    """Each value less its item's mean, and the variance 3 / 2 times as large (Morey 2008)."""
    values = np.random.default_rng(4).normal(5, 2, (10, 3))
    within = [[x - statistics.fmean(row) for x in row] for row in values.tolist()]
    for place, (mean, low, high) in enumerate(cell_means(values)):
        error = math.sqrt(1.5 * statistics.variance([row[place] for row in within]) / 10)
        half = student_quantile(0.975, 9) * error
        assert mean == pytest.approx(values[:, place].mean())
        assert (low, high) == (pytest.approx(mean - half), pytest.approx(mean + half))


@pytest.mark.parametrize("seeds", [(1,), (1, 1), (4,), (4, 4), (1, 4)])
def test_the_error_of_seeds_is_added(seeds: tuple[int, ...]) -> None:
    """By hand: SE² = V + Σ s²/S − Σ C, with Satterthwaite's degrees of freedom; see compare's reference."""
    rng = np.random.default_rng(4)
    runs = [rng.normal(2, 1, (n, 12)) + rng.normal(0, 1, (n, 1)) + rng.normal(0, 1, 12) for n in seeds]
    of = estimate_of(runs)
    mean = runs[-1].mean(0) - (runs[0].mean(0) if len(runs) > 1 else 0)
    v = mean.var(ddof=1) / 12
    of_seeds = [run.mean(1).var(ddof=1) / len(run) for run in runs if len(run) > 1]
    common = [
        max(0.0, (run.var(1, ddof=1).mean() - run.mean(0).var(ddof=1)) / 12 / (len(run) - 1))
        for run in runs
        if len(run) > 1
    ]
    assert of.value == pytest.approx(mean.mean())
    if seeds == (1, 4):  # a run varies as those of the other group do
        assert of.df is None
        of_seeds, common = [of_seeds[0] * 5], [common[0] * 5]
    error = max(v, sum(of_seeds), v + sum(of_seeds) - sum(common)) ** 0.5
    assert of.t == pytest.approx(of.value / error)
    if of.df is not None:
        freedom = error**4 / (v**2 / 11 + sum(each**2 / 3 for each in of_seeds))
        assert of.df == pytest.approx(freedom)
        assert of.high == pytest.approx(of.value + student_quantile(0.975, freedom) * error)
    assert of.low is not None
    assert of.p is not None
    # p is .05 where the interval ends at 0.
    shifted = estimate_of([*runs[:-1], runs[-1] - of.low])
    assert shifted.p == pytest.approx(0.05)


def test_intervals_cover_the_truth() -> None:
    """Main effect and interaction of 2 × 2, 20 items that differ in their effects; two models; seeds."""
    rng = np.random.default_rng(5)
    design = contrasts(design_of((2, 2)))
    held = dict.fromkeys(["a", "b", "b − a", "boot"], 0)
    for _ in range(200):
        items = rng.normal(10, 3, (20, 1)) + rng.normal(0, 1, (20, 4))
        a, b = (mean + items + rng.normal(0, 1, (20, 4)) for mean in (np.zeros(4), [0.0, 0.0, 1.5, 3.0]))
        groups = {"a": [0], "b": [1]}
        for effect in effects(np.stack([a, b]), [design[0], design[2]], groups, [("a", "b")], samples=100):
            of, name = effect.estimate, effect.row()["model"]
            expected = 0.0 if name == "a" else (2.25 if effect.contrast is design[0] else 1.5)
            assert of.low is not None
            assert of.high is not None
            assert of.boot_low is not None
            assert of.boot_high is not None
            held[name] += of.low <= expected <= of.high
            held["boot"] += of.boot_low <= expected <= of.boot_high
    assert all(0.91 <= held[name] / 400 <= 0.99 for name in ("a", "b", "b − a")), held
    assert 0.88 <= held["boot"] / 1200 <= 0.99


def test_equal_contrasts_have_no_test() -> None:
    of = estimate_of([0.1 * np.arange(12)[None] * 0 + 0.3])
    assert (of.value, of.low, of.t, of.p, of.boot_low) == (pytest.approx(0.3), None, None, None, None)
    few = estimate_of([np.arange(9.0)[None]])
    assert few.boot_low is None
    assert few.low is not None


def found_of(frame: pd.DataFrame, tmp_path: Path, **options: object) -> DesignEffects:
    return design_effects(read(tmp_path, frame, "Length"), **options)  # type: ignore[arg-type]


def test_groups_and_baseline(tmp_path: Path) -> None:
    more = [
        FRAME.assign(model=FRAME.model + f"-{k}", surprisal=FRAME.surprisal + k * FRAME.Item) for k in (1, 2)
    ]
    found = found_of(
        pd.concat([FRAME, *more]), tmp_path, groups={"g": ["m-*", "m-1"]}, baseline="m", region="2"
    )
    assert found.groups == {"g": ["m-1", "m-2"], "m": ["m"], "n": ["n"], "n-1": ["n-1"], "n-2": ["n-2"]}
    rows = {row["model"]: row["seeds"] for row in found.rows("2")}
    names = ["g", "m", "n", "n-1", "n-2", "g − m", "n − m", "n-1 − m", "n-2 − m"]
    assert rows == dict(zip(names, [2, 1, 1, 1, 1, 3, 2, 2, 2], strict=True))
