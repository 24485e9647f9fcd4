"""Benchmarks of many forms, all their keys crossed, against a plain model of what the keys mean."""

from __future__ import annotations

import csv
import json
import math
import random
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from printed_tables import percent, tables

from pdtools.cli.main import run

FILTERS: dict[str, Callable[[str], str]] = {
    "": lambda text: text,
    "|upper": str.upper,
    "|lower|capitalize": lambda text: text.lower()[:1].upper() + text.lower()[1:],
    "|replace:a:oo": lambda text: text.replace("a", "oo"),
    "|split: |-1": lambda text: text.split(" ")[-1],
    "|split: |0|strip": lambda text: text.split(" ")[0].strip(),
}
FLAGS = {"true": True, "T": True, "yes": True, "1": True, "0": False, "no": False, "False": False, "": False}
Values = dict[str, float]
Truth = bool | None


def above(a: float, b: float) -> Truth:
    """Whether the first is higher; None: they are equal."""
    return None if a == b else a > b


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known ones; None if there is none."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def both(a: Truth, b: Truth) -> Truth:
    return False if False in (a, b) else None if None in (a, b) else True


def either(a: Truth, b: Truth) -> Truth:
    return True if True in (a, b) else None if None in (a, b) else False


PREDICTIONS: dict[str, Callable[[Values], Truth]] = {
    "good > bad": lambda v: above(v["good"], v["bad"]),
    "good + 0.5 > bad": lambda v: above(v["good"] + 0.5, v["bad"]),
    "bad < good & [bad - 0.25 < good - 1]": lambda v: both(
        above(v["good"], v["bad"]), above(v["good"] - 1, v["bad"] - 0.25)
    ),
    "(good > bad) | (bad > good + 1)": lambda v: either(
        above(v["good"], v["bad"]), above(v["bad"], v["good"] + 1)
    ),
    "good = bad": lambda v: abs(v["good"] - v["bad"]) <= 0.001 + 0.00001 * abs(v["bad"]),
    "min(good, bad - 1) < max(bad, -2)": lambda v: above(max(v["bad"], -2), min(v["good"], v["bad"] - 1)),
}
# The amounts by which they hold.
MARGINS: dict[str, Callable[[Values], float]] = {
    "good > bad": lambda v: v["good"] - v["bad"],
    "good + 0.5 > bad": lambda v: v["good"] + 0.5 - v["bad"],
    "bad < good & [bad - 0.25 < good - 1]": lambda v: min(v["good"] - v["bad"], v["good"] - v["bad"] - 0.75),
    "(good > bad) | (bad > good + 1)": lambda v: max(v["good"] - v["bad"], v["bad"] - v["good"] - 1),
    "good = bad": lambda v: -abs(v["good"] - v["bad"]),
    "min(good, bad - 1) < max(bad, -2)": lambda v: max(v["bad"], -2) - min(v["good"], v["bad"] - 1),
}


@dataclass
class Read:
    """A string of an item, and where its context ends."""

    name: str
    text: str
    start: int | None

    @property
    def scored(self) -> str:
        return self.text if self.start is None else self.text[self.start :].lstrip()


@dataclass
class Wanted:
    """An item as the model of this test has it."""

    number: int
    file: str
    strings: list[Read]
    levels: tuple[str | None, ...]
    flags: list[str]
    right: str | None = None


def pieces(text: str) -> list[tuple[int, int]]:
    """Tokens of at most two characters, without blanks."""
    found, at = [], 0
    while at < len(text):
        end = at + 1
        if text[at] == " ":
            at = end
            continue
        if end < len(text) and text[end] != " ":
            end += 1
        found.append((at, end))
        at = end
    return found


def surprisal(token: str, place: int) -> float:
    """Some multiple of 1/8, so that sums are exact and some are equal."""
    return (sum(map(ord, token)) * 7 + 3 * (place % 3)) % 9 / 8


def divided(kind: Any, total: float, tokens: int, scored: str) -> float:
    by: dict[str, float] = {
        "sum": 1,
        "per_token": tokens,
        "per_character": len(scored),
        "per_byte": len(scored.encode()),
        "per_word": len(scored.split()),
    }
    return total / (tokens ** kind["slln"] if isinstance(kind, dict) else max(1, by[kind]))


def toml(table: dict[str, Any]) -> str:
    """The table in TOML: values as JSON has them, tables in braces."""

    def value(given: Any) -> str:
        if isinstance(given, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {value(each)}" for key, each in given.items()) + "}"
        return json.dumps(given, ensure_ascii=False)

    return "".join(f"{key} = {value(each)}\n" for key, each in table.items())


@dataclass
class Case:
    """A random benchmark: its TOML, its files, and the items that they are."""

    seed: int
    table: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    items: list[Wanted] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    limit: int | None = None

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.layout = rng.choice(["one", "one", "as", "role", "by", "options", "options"])
        self.kind = rng.choice(["csv", "tsv", "jsonl", "json", "semicolon", "numbers"])
        self.style: dict[str, Any] = {}
        self.eos = rng.random() < 0.7
        self.context = rng.random() < 0.5
        self.blank = rng.choice([None, "", "-"])
        self.filters = [rng.choice([*FILTERS]) for _ in range(2)]
        self.limit = rng.choice([None, None, 1, 2])
        self.levels = self.some_levels()
        self.flags = rng.random() < 0.4
        self.options = rng.choice(["list", "columns"]) if self.kind in ("json", "jsonl") else "columns"
        self.right = rng.choice(["fixed", "index", "text", "labels"])
        self.missing = rng.random() < 0.5
        self.kinds = rng.choice([["k1"], ["k1", "k2", "k3", ""]])
        self.spaced = rng.random() < 0.4
        self.definition()
        self.data()

    def word(self) -> str:
        return "".join(self.rng.choice("abé") for _ in range(self.rng.randint(1, 3)))

    def words(self, least: int = 1) -> str:
        return " ".join(self.word() for _ in range(self.rng.randint(least, 3)))

    def column(self, name: str) -> str:
        """The name of a column in templates, where a file has no header."""
        if self.kind == "numbers" and name in self.columns:
            return str(self.columns.index(name) + 1)
        return name

    @property
    def columns(self) -> list[str]:
        of_rows = ["id", "mark", "a", "b"] if self.layout in ("as", "role", "by") else ["a", "b", "c"]
        if self.layout == "options":
            of_rows = ["a", "right", "o1", "o2", "o3", "o4"]
        return [*of_rows, "kind", "f1", "f2", "lang"]

    def some_levels(self) -> dict[str, str]:
        known = {
            "lang": "{lang}",
            "folder": "{dir}",
            "kind": "{kind}",
            "both": "{file}-{dir}",
            "whole": "all",
        }
        if self.rng.random() < 0.15:
            return {"both": "{file}-{dir}"}
        names = self.rng.sample([*known], self.rng.randint(1, 3))
        return {name: known[name] for name in names}

    def definition(self) -> None:
        rng, column = self.rng, self.column
        files = rng.choice(["set/*/*.data", ["set/X?/*.Data", "set/y/one.data"]])
        table: dict[str, Any] = {"title": "Toy", "files": files}
        table["path"] = "/(?P<lang>[a-z])[a-z]*/[a-z]+[.]data$"
        kinds = {"semicolon": "csv", "numbers": "tsv"}
        table["form"] = form = {"kind": kinds.get(self.kind, self.kind)}
        if self.kind == "semicolon":
            form |= {"delimiter": ";", "skip": 1}
        if self.kind == "numbers":
            form |= {"header": False, "skip": 2, "quote": False}
        if self.layout == "as":
            table["rows"] = {"every": 2, "as": ["bad", "good"]}
        elif self.layout == "role":
            table["rows"] = {"every": 2, "role": f"{{{column('mark')}}}", "good": "1", "bad": "0"}
        elif self.layout == "by":
            table["rows"] = {"by": f"{{{column('id')}|lower}}", "role": f"{{{column('mark')}}}"}
            table["rows"] |= {"good": "1", "bad": "0"}
        if self.layout == "options":
            texts = [f"{{{column(f'o{i}')}}}" for i in range(1, 5)]
            options: dict[str, Any] = {"texts": "{options.text}" if self.options == "list" else texts}
            options["right"] = 1 if self.right == "fixed" else f"{{{column('right')}}}"
            if self.right == "labels":
                options["labels"] = "{options.label}" if self.options == "list" else ["A", "B", "C", "D"]
            if self.missing:
                options["missing"] = True
            if self.context:
                options["context"] = f"{{{column('a')}}}"
                options |= {} if self.blank is None else {"blank": self.blank}
            table["options"] = options
            self.predictions = ["right > max(others)"]
        else:
            before = ["good.", "bad."] if self.layout != "one" else ["", ""]
            text = [column("b"), column("b")] if self.layout != "one" else [column("b"), column("c")]
            strings: dict[str, Any] = {}
            for i, name in enumerate(["good", "bad"]):
                template = f"{{{before[i]}{text[i]}{self.filters[i]}}}"
                context = f"{{{before[i]}{column('a')}}}"
                if self.context and (i == 0 or self.seed % 3):
                    strings[name] = {"context": context, "text": template}
                    strings[name] |= {} if self.blank is None else {"blank": self.blank}
                else:
                    strings[name] = f"{context} {template}"
            table["strings"] = strings
            self.predictions = rng.sample([*PREDICTIONS], rng.randint(1, 3))
        names = ["zero", "main", "more"][: len(self.predictions)] if len(self.predictions) > 1 else ["main"]
        self.named = dict(zip(names, self.predictions, strict=True))
        if self.layout != "options" or rng.random() < 0.5:
            table["predictions"] = self.named
        kinds_of_scores = ["sum", "per_token", "per_character", "per_byte", "per_word", {"slln": 0.5}]
        self.scores = {name: rng.choice(kinds_of_scores) for name in self.named if rng.random() < 0.6}
        table["scores"] = self.scores
        table["levels"] = {
            name: template.replace("{kind}", f"{{{column('kind')}}}")
            for name, template in self.levels.items()
        }
        if self.flags:
            table["levels"]["marks"] = {"flags": [column("f2"), column("f1")]}
        self.table = table

    def data(self) -> None:
        number = 0
        places = ("Set/xa/one.data", "Set/xb/two.data", "Set/y/one.data")[: self.rng.randint(1, 3)]
        for path in places:
            rows, found = self.file(path)
            self.files[path] = self.written(rows)
            for item in found:
                number += 1
                item.number = number
                self.items.append(item)

    def file(self, path: str) -> tuple[list[dict[str, Any]], list[Wanted]]:
        rng = self.rng
        groups: list[list[dict[str, Any]]] = []
        for i in range(rng.randint(1, 7)):
            several = 2 if self.layout in ("as", "role", "by") else 1
            group = [self.row(f"iD{i}") for _ in range(several)]
            if several == 2:
                marks = ["0", "1"] if self.layout == "as" or rng.random() < 0.5 else ["1", "0"]
                for row, mark in zip(group, marks, strict=True):
                    row["mark"] = mark
            groups.append(group)
            if rng.random() < 0.2:
                again = [dict(row, id=f"iD{i}again") for row in group]
                groups.append(again)
        rows = [row for group in groups for row in group]
        if self.layout == "by":
            rng.shuffle(rows)
            for row in rows:
                row["id"] = rng.choice([str.upper, str.lower])(row["id"])
            last = {row["id"].lower(): i for i, row in enumerate(rows)}
            keys = sorted(last, key=last.__getitem__)
            groups = [[row for row in rows if row["id"].lower() == key] for key in keys]
        return rows, [self.item(path, group) for group in groups]

    def row(self, key: str) -> dict[str, Any]:
        rng = self.rng
        row: dict[str, Any] = dict.fromkeys(self.columns, "")
        row |= {"a": self.words(), "kind": rng.choice(["k1", "k2", "k3", ""]), "lang": "wrong"}
        row |= {"f1": rng.choice([*FLAGS]), "f2": rng.choice([*FLAGS])}
        if self.layout == "options":
            texts = rng.sample([f"{self.word()} q{i}" for i in range(4)], 4)
            least = 2 if self.missing else 4
            gone = rng.sample(range(4), rng.randint(0, 4 - least))
            there = [i for i in range(4) if i not in gone]
            if self.right == "fixed" and 1 not in there:
                there = sorted({*there, 1})
            right = 1 if self.right == "fixed" else rng.choice(there)
            row["there"], row["is"] = there, right
            row["right"] = {"text": texts[right], "labels": "ABCD"[right]}.get(self.right, str(right))
            row |= {f"o{i + 1}": texts[i] if i in there else "" for i in range(4)}
            labels = [{"label": "ABCD"[i], "text": row[f"o{i + 1}"]} for i in range(4)]
            row["options"] = labels
        else:
            row |= {"id": key, "b": self.words(), "c": self.words()}
            if rng.random() < 0.1:
                row["c"] = row["b"]
            if self.rows and rng.random() < 0.3:  # the words of another item, perhaps cut elsewhere
                row |= {name: self.rows[-1][name] for name in "abc"}
                if rng.random() < 0.5 and " " in row["a"]:
                    row["a"], _, word = row["a"].rpartition(" ")
                    row |= {"b": f"{word} {row['b']}", "c": f"{word} {row['c']}"}
            if self.spaced:
                row |= {"a": row["a"] + rng.choice(["", " "]), "b": rng.choice(["", " "]) + row["b"]}
            self.rows.append(row)
        return row

    def string(self, name: str, context: str, text: str, is_part: bool) -> Read:
        if not is_part:
            return Read(name, f"{context} {text}", None)
        blank = " " if self.blank is None else self.blank
        if context.endswith(" ") or text.startswith(" ") or not (text and context):
            blank = ""
        return Read(name, f"{context}{blank}{text}", len(context))

    def item(self, path: str, group: list[dict[str, Any]]) -> Wanted:
        first = group[0]
        right = None
        if self.layout == "options":
            strings = []
            for name, i in enumerate(first["there"], start=1):
                text = first[f"o{i + 1}"]
                of_all = self.string(f"option_{name}", first["a"], text, True)
                strings.append(of_all if self.context else Read(f"option_{name}", text, None))
            right = f"option_{first['there'].index(first['is']) + 1}"
        else:
            strings = []
            for i, name in enumerate(["good", "bad"]):
                row = (
                    next((row for row in group if row["mark"] == str(1 - i)), first)
                    if "mark" in first
                    else first
                )
                text = FILTERS[self.filters[i]](row["c" if self.layout == "one" and i else "b"])
                strings.append(
                    self.string(name, row["a"], text, self.context and (i == 0 or self.seed % 3 > 0))
                )
        folder, stem = path.split("/")[1], path.split("/")[2].removesuffix(".data")
        known = {
            "lang": folder[0],
            "folder": folder,
            "kind": first["kind"],
            "both": f"{stem}-{folder}",
            "whole": "all",
        }
        flags = [self.column(name) for name in ("f2", "f1") if FLAGS[first[name]]]
        return Wanted(0, path, strings, tuple(known[name] or None for name in self.levels), flags, right)

    def written(self, rows: list[dict[str, Any]]) -> str:
        """The rows in the form of the files."""
        if self.kind in ("json", "jsonl"):
            keys = [*self.columns, *(["options"] if self.layout == "options" else [])]
            cut = [{key: row[key] for key in keys} for row in rows]
            if self.kind == "json":
                return json.dumps(cut, ensure_ascii=False)
            return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in cut)
        lines = [[row[name] for name in self.columns] for row in rows]
        if self.kind == "numbers":
            return "about\nmore\n" + "".join("\t".join(line) + "\n" for line in lines)
        if self.kind == "tsv":
            return "".join("\t".join(line) + "\n" for line in [self.columns, *lines])
        mark = ";" if self.kind == "semicolon" else ","
        quoted = [mark.join(f'"{cell}"' for cell in line) + "\n" for line in [self.columns, *lines]]
        return "about\n" * (self.kind == "semicolon") + "".join(quoted)

    def save(self, folder: Path) -> Path:
        """Write the files, and others that do not belong to the set."""
        others = {"Set/notes.data": "x\n", "Set/xa/one.txt": "x\n", "other/xa/one.data": "x\n"}
        (folder / "toy.toml").write_text(toml(self.table))
        if self.seed % 4 == 0:
            with zipfile.ZipFile(folder / "all.zip", "w") as archive:
                for name, text in {**self.files, **others}.items():
                    archive.writestr(name, text)
            return folder / "all.zip"
        for name, text in {**self.files, **others}.items():
            (folder / "all" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "all" / name).write_text(text)
        return folder / "all"

    # --- the items that count, and what comes out ---

    @property
    def taken(self) -> list[Wanted]:
        seen: dict[tuple[str | None, ...], int] = {}
        found = []
        for item in self.items:
            seen[item.levels] = seen.get(item.levels, 0) + 1
            if self.limit is None or seen[item.levels] <= self.limit:
                found.append(item)
        return found

    @property
    def nested(self) -> bool:
        groups = {item.levels for item in self.taken}
        return len({group[-1] for group in groups}) == len(groups)

    def group(self, item: Wanted) -> str:
        if self.nested:
            return item.levels[-1] or "none"
        return " / ".join(level or "none" for level in item.levels)

    def crossing(self) -> list[str]:
        """Levels of which one group lies in two of another, whose groups lie in two of it."""
        names, groups = [*self.levels], {item.levels for item in self.taken}

        def splits(one: int, other: int) -> bool:
            """Whether some group of one level has items in two groups of the other."""
            pairs = {(group[one], group[other]) for group in groups if group[one] is not None}
            return any(a[0] == b[0] and a != b for a in pairs for b in pairs)

        every = range(len(names))
        return [names[i] for i in every if any(splits(i, j) and splits(j, i) for j in every)]

    def outcomes(self, prediction: str, values: Callable[[Wanted, Any], Values | None]) -> dict[int, Any]:
        """Right, wrong, tie or unscorable, by the number of the item."""
        formula = self.named[prediction]
        found: dict[int, Any] = {}
        for item in self.taken:
            of_item = values(item, self.scores.get(prediction, "sum"))
            if of_item is None:
                found[item.number] = "unscorable"
                continue
            if item.right is not None:
                others = [value for name, value in of_item.items() if name != item.right]
                truth = above(of_item[item.right], max(others))
            else:
                truth = PREDICTIONS[formula](of_item)
            found[item.number] = {True: "right", False: "wrong", None: "tie"}[truth]
        return found

    def expected(self, values: Callable[[Wanted, Any], Values | None], kept: list[str]) -> dict[str, Any]:
        """The scores that results.json should have."""
        rights = {name: self.rights(name, values) for name in sorted(kept, key=lambda name: name != "main")}
        main = rights["main"]
        scores = self.means(main)
        first = {
            "overall": scores.pop("overall"),
            "mean_of_items": mean(main[item.number] for item in self.taken),
            "by_prediction": {name: self.means(of)["overall"] for name, of in rights.items()},
        }
        scores = {**first, **scores}
        if self.flags:
            columns = sorted(self.column(name) for name in ("f1", "f2"))
            marked = {each: [item for item in self.taken if each in item.flags] for each in columns}
            scores["by_marks"] = {
                each: mean(main[item.number] for item in items) for each, items in marked.items() if items
            }
        return scores

    def rights(
        self, prediction: str, values: Callable[[Wanted, Any], Values | None]
    ) -> dict[int, float | None]:
        """1 or 0 for each item that has a score."""
        found = self.outcomes(prediction, values).items()
        return {number: None if of == "unscorable" else float(of == "right") for number, of in found}

    def margins(self, values: Callable[[Wanted, Any], Values | None]) -> dict[int, float | None]:
        """The amount in bits by which the first prediction holds."""
        found: dict[int, float | None] = {}
        for item in self.taken:
            of = values(item, self.scores.get("main", "sum"))
            if of is None:
                found[item.number] = None
                continue
            if item.right is not None:
                amount = of[item.right] - max(value for name, value in of.items() if name != item.right)
            else:
                amount = MARGINS[self.named["main"]](of)
            found[item.number] = amount / math.log(2)
        return found

    def means(self, amounts: dict[int, float | None]) -> dict[str, Any]:
        """Means of the items' amounts: over the finest groups' means, and by level."""

        def over_items(items: list[Wanted]) -> float | None:
            return mean(amounts[item.number] for item in items)

        def over_groups(items: list[Wanted]) -> float | None:
            groups = {item.levels: [each for each in items if each.levels == item.levels] for item in items}
            return mean(map(over_items, groups.values()))

        found: dict[str, Any] = {"overall": over_groups(self.taken)}
        names = [*self.levels]
        crossing = [] if self.nested else self.crossing()
        for at, name in enumerate(names[:-1] if self.nested else names):
            groups = sorted({item.levels[at] or "" for item in self.taken} - {""})
            of = {group: [item for item in self.taken if item.levels[at] == group] for group in groups}
            over = over_items if name in crossing else over_groups
            found[f"by_{name}"] = {group: over(items) for group, items in of.items()}
        ordered = sorted({item.levels for item in self.taken}, key=lambda of: [x or "" for x in of[::-1]])
        unit = names[-1] if self.nested else "group"
        finest = ([item for item in self.taken if item.levels == levels] for levels in ordered)
        found[f"by_{unit}"] = {self.group(items[0]): over_items(items) for items in finest}
        return found

    def counts(self, values: Callable[[Wanted, Any], Values | None]) -> dict[str, Any]:
        main = [*self.outcomes("main", values).values()]
        repeated = identical = 0
        seen: dict[str, list[Any]] = {}
        for item in self.taken:
            strings = [(string.text, string.start) for string in item.strings]
            identical += len({*strings}) == 1
            repeated += strings in seen.setdefault(item.file, [])
            seen[item.file].append(strings)
        return {
            "items": len(main),
            "items_scored": len(main) - main.count("unscorable"),
            "items_unscorable": main.count("unscorable"),
            "ties": main.count("tie"),
            "identical": identical,
            "repeated": repeated,
        }


def near(found: Any, wanted: Any, by: float = 1e-12) -> bool:
    """Equal to rounding, and in the same order."""
    if isinstance(wanted, dict):
        return [*found] == [*wanted] and all(near(found[key], wanted[key], by) for key in wanted)
    return bool(found == wanted or (None not in (found, wanted) and abs(found - wanted) < by))


@pytest.mark.parametrize("seed", range(60))
def test_any_benchmark_means_what_its_keys_say(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(seed)
    data, rng = case.save(tmp_path), random.Random(-seed)
    more = ["--limit", str(case.limit)] if case.limit else []
    common = ["eval-benchmark", str(data), "--as", str(tmp_path / "toy.toml"), *more, "-q"]
    sentences = tmp_path / "sentences.tsv"
    assert run([*common, "--write-sentences", str(sentences)]) == 0
    asked = [(item, string) for item in case.taken for string in item.strings]
    written = list(csv.reader(sentences.open(), delimiter="\t", quoting=csv.QUOTE_NONE))
    lines = [[case.group(item), str(item.number), each.name, each.text] for item, each in asked]
    unit = [*case.levels][-1] if case.nested else "group"
    assert written == [[unit, "item", "string", "text"], *lines]

    by_scores = rng.random() < 0.3
    given = tmp_path / "given.tsv"
    totals: dict[tuple[int, str], tuple[float, int]] = {}
    if by_scores:
        lower = rng.random() < 0.5
        for item, each in asked:
            totals[item.number, each.name] = rng.choice([-2.0, -1.0, 0.5, 0.75]), 0
        shown = [(*key, -total if lower else total) for key, (total, _) in totals.items()]
        rng.shuffle(shown)
        header = ["item", "string", "surprisal" if lower else "score"]
        of_model = ["--scores", str(given)]
    else:
        shown, header = [], ["sentence_id", "token_id", "token", "start", "end", "surprisal"]
        for number, (item, each) in enumerate(asked, start=1):
            if rng.random() < 0.04:
                continue  # no rows: the string has no score
            spans = pieces(each.text)
            rows = [(a, b, surprisal(each.text[a:b], place)) for place, (a, b) in enumerate(spans)]
            if case.eos:
                rows.append((len(each.text), len(each.text), 0.375))
            for place, (start, end, value) in enumerate(rows, start=1):
                token = each.text[start:end] or "</s>"
                shown.append((number, place, token, start, end, value))
            if each.start is not None and not each.scored:
                continue  # nothing in it is scored
            scored = (
                rows if each.start is None else [row for row in rows[: len(spans)] if row[1] > each.start]
            )
            totals[item.number, each.name] = -sum(row[2] for row in scored), len(scored)
        of_model = ["--surprisals", str(given), "--nats", "--on-error", "skip"]
    given.write_text("".join("\t".join(map(str, row)) + "\n" for row in [header, *shown]))

    def values(item: Wanted, kind: Any) -> Values | None:
        if any((item.number, each.name) not in totals for each in item.strings):
            return None
        return {
            each.name: divided(kind, *totals[item.number, each.name], each.scored) for each in item.strings
        }

    def needs_tokens(name: str) -> bool:
        kind = case.scores.get(name, "sum")
        return by_scores and (kind == "per_token" or isinstance(kind, dict))

    output = tmp_path / "results"
    details = seed % 2 == 0
    capsys.readouterr()
    status = run([*common, *of_model, "-o", str(output), *(["--details"] if details else [])])
    if needs_tokens("main"):
        assert status == 1
        return
    assert status == 0
    results = json.loads((output / "results.json").read_text())
    kept = [name for name in case.named if not needs_tokens(name)]
    wanted = case.expected(values, kept)
    margins = results["scores"].pop("margin_bits", None)
    if by_scores or wanted["overall"] is None:
        assert margins is None
    else:
        assert near(margins, case.means(case.margins(values)))
    assert near(results["scores"], wanted), (results["scores"], wanted, case.table)
    counts = case.counts(values)
    assert {name: results["counts"][name] for name in counts} == counts
    for each in kept:
        assert results["settings"]["predictions"][each] == case.named[each]
    check_printed(capsys.readouterr().out, results, case, details=details)


def check_printed(printed: str, results: dict[str, Any], case: Case, *, details: bool) -> None:
    """The tables hold the scores and counts of results.json, level by level."""
    scores, counts = results["scores"], results["counts"]
    unit = [*case.levels][-1] if case.nested else "group"
    n = sum(score is not None for score in scores[f"by_{unit}"].values())
    mean = f" (mean of {n} {unit[:-1] + 'ie' if unit.endswith('y') else unit}s)" if n > 1 else ""
    wanted = [["Toy (percent)", "accuracy", "items", "scored", "ties"]]
    of_all = [str(counts[name]) for name in ("items", "items_scored", "ties")]
    wanted.append([f"overall{mean}", percent(scores["overall"]), *of_all])
    wanted.append(["mean of items", percent(scores["mean_of_items"]), *"---"])
    others = [*scores["by_prediction"].items()][1:]
    wanted += [[f"overall, {name}".replace("_", " "), percent(score), *"---"] for name, score in others]
    levels = [*case.levels][:-1] if case.nested else [*case.levels]
    named = [level for level in levels if scores[f"by_{level}"]]
    for level in named:
        over = " over items" if not case.nested and level in case.crossing() else ""
        wanted.append([level, f"accuracy{over}", "items", "scored", "ties"])
        at = [*case.levels].index(level)
        for name, score in scores[f"by_{level}"].items():
            inside = [item for item in case.taken if item.levels[at] == name]
            own = [counts[f"by_{unit}"][group] for group in {case.group(item) for item in inside}]
            sums = [str(sum(each[key] for each in own)) for key in ("items", "scored", "ties")]
            wanted.append([name, percent(score), *sums])
    flags = ["marks"] if case.flags and scores["by_marks"] else []
    for level in [*flags, *([unit] if details or not named else [])]:
        wanted.append([level, "accuracy", "items", "scored", "ties"])
        for name, score in scores[f"by_{level}"].items():
            own = counts[f"by_{level}"][name]
            wanted.append([name, percent(score), *(str(own[key]) for key in ("items", "scored", "ties"))])
    assert [line for header, rows in tables(printed) for line in (header, *rows)] == wanted


# --- labels and numbers instead of predictions ---------------------------------------------------


def matthews(pairs: list[tuple[bool, bool]]) -> float | None:
    tp, tn, fp, fn = (
        pairs.count(each) for each in ((True, True), (False, False), (False, True), (True, False))
    )
    scale = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(scale) if scale else None


def area(scored: list[tuple[bool, float]]) -> float | None:
    pairs = [(a > b) + (a == b) / 2 for good, a in scored if good for bad, b in scored if not bad]
    return sum(pairs) / len(pairs) if pairs else None


def threshold_of(scored: list[tuple[bool, float]]) -> float:
    """Half way between two scores, where Matthews' correlation is highest; the lowest of these."""
    values = sorted({score for _, score in scored})
    if len(values) == 1:
        return values[0] - 1
    cuts = [(a + b) / 2 for a, b in pairwise(values)]
    found = [matthews([(label, score > cut) for label, score in scored]) or 0.0 for cut in cuts]
    return next(cut for cut, each in zip(cuts, found, strict=True) if each > max(found) - 1e-12)


def correlation(pairs: list[tuple[float, float]], kind: str) -> float | None:
    def ranked(values: list[float]) -> list[float]:
        return [sum(v < x for v in values) + sum(v == x for v in values) / 2 for x in values]

    columns = [list(column) for column in zip(*pairs, strict=True)]
    if len(pairs) < 2 or any(len(set(column)) == 1 for column in columns):
        return None
    if kind == "spearman":
        columns = [ranked(column) for column in columns]
    a, b = ([x - sum(of) / len(of) for x in of] for of in columns)
    scale = math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / scale


@pytest.mark.parametrize("seed", range(24))
def test_any_labels_and_numbers(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    is_label, given = seed % 2 == 0, rng.random() < 0.4
    kind = rng.choice(["sum", "per_word", "per_token"])
    form = rng.choice(["spearman", "pearson"])
    limit = rng.choice([None, 2])
    table: dict[str, Any] = {"files": "*.csv", "levels": {"kind": "{k}"}, "scores": {"main": kind}}
    table["strings"] = {"s": "{s}"} if is_label else {"s": "{s}", "t": "{t}"}
    if is_label:
        table["label"] = {"value": "{l}", "good": "ok", "bad": "*"}
        table["threshold"] = -1.5 if given else {"from": "train*"}
    else:
        table["value"] = {"column": "{v}", "against": "t - 2 + s", "correlation": form}
    (tmp_path / "toy.toml").write_text(toml(table))
    items: list[dict[str, Any]] = []
    for name in ("b.csv", "train-a.csv", "a.csv", "train.csv"):
        rows = []
        for _ in range(rng.randint(3, 8)):
            row = {each: " ".join(rng.choice("abcd") for _ in range(rng.randint(1, 3))) for each in "st"}
            row |= {"l": rng.choice(["ok", "*"]), "k": rng.choice("xy"), "v": str(rng.randint(-2, 5) / 2)}
            rows.append(row | {"train": is_label and not given and name[0] == "t", "name": name})
        (tmp_path / name).write_text(
            "s,t,l,k,v\n" + "".join(",".join(r[c] for c in "stlkv") + "\n" for r in rows)
        )
        items += rows
    items.sort(key=lambda row: (not row["train"], row["name"]))
    taken: list[dict[str, Any]] = []
    for row in items:
        before = sum(each["k"] == row["k"] and not each["train"] for each in taken)
        if row["train"] or limit is None or before < limit:
            taken.append(row)
    header, lines, number = ["sentence_id", "token_id", "token", "start", "end", "surprisal"], [], 0
    for row in taken:
        for name in table["strings"]:
            number += 1
            row[f"{name} score"] = None
            if rng.random() < 0.05:
                continue
            tokens = row[name].split(" ")
            values = [surprisal(token, place) for place, token in enumerate(tokens)]
            for place, (token, value) in enumerate(zip(tokens, values, strict=True), start=1):
                lines.append([number, place, token, 2 * place - 2, 2 * place - 1, value])
            row[f"{name} score"] = divided(kind, -sum(values), len(tokens), row[name])
    (tmp_path / "given.tsv").write_text(
        "".join("\t".join(map(str, line)) + "\n" for line in [header, *lines])
    )
    more = ["--limit", str(limit)] if limit else []
    more += ["--surprisals", str(tmp_path / "given.tsv"), "--nats", "--on-error", "skip"]
    command = ["eval-benchmark", str(tmp_path), "--as", str(tmp_path / "toy.toml"), *more]
    assert run([*command, "-o", str(tmp_path / "out"), "-q"]) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    tested = [row for row in taken if not row["train"]]
    names = sorted({row["k"] for row in tested})
    known = [row for row in tested if all(row[f"{name} score"] is not None for name in table["strings"])]
    assert (found["counts"]["items"], found["counts"]["items_scored"]) == (len(tested), len(known))
    groups = {name: [row for row in known if row["k"] == name] for name in names}
    groups = {name: rows for name, rows in groups.items() if rows}
    if not is_label:
        pairs = {
            name: [(row["t score"] - 2 + row["s score"], float(row["v"])) for row in rows]
            for name, rows in groups.items()
        }
        every = [pair for of in pairs.values() for pair in of]
        wanted = {"overall": correlation(every, form)}
        wanted["by_kind"] = {name: correlation(of, form) for name, of in pairs.items()}
        assert near(found["scores"], wanted, 1e-9), (found["scores"], wanted)
        return
    trained = [
        (row["l"] == "ok", row["s score"]) for row in taken if row["train"] and row["s score"] is not None
    ]
    cut = -1.5 if given else threshold_of(trained)
    assert found["settings"]["threshold"] == pytest.approx(cut)
    assert found["counts"]["items_for_threshold"] == len(trained)
    scored = {name: [(row["l"] == "ok", row["s score"]) for row in rows] for name, rows in groups.items()}
    right = {
        name: sum((score > cut) == label for label, score in of) / len(of) for name, of in scored.items()
    }
    every_item = [pair for of in scored.values() for pair in of]
    assert found["scores"]["overall"] == pytest.approx(sum(right.values()) / len(right))
    assert {k: v for k, v in found["scores"]["by_kind"].items() if v is not None} == pytest.approx(right)
    for score, of in (
        ("mcc", lambda pairs: matthews([(label, value > cut) for label, value in pairs])),
        ("auc", area),
    ):
        assert near(found["scores"][score], of(every_item), 1e-9)
        assert near(
            found["scores"][f"{score}_by_kind"], {name: of(each) for name, each in scored.items()}, 1e-9
        )
