"""Random test suites and minimal pairs against a plain model of what their scores mean."""

from __future__ import annotations

import csv
import json
import math
import random
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from printed_tables import percent, tables

from pdtools.cli.main import run
from pdtools.evaluation.sg.record import CIRCUIT_OF, OTHER, SCORED_33

Truth = tuple[bool, float]
"""Whether a formula holds, and by how much."""
Value = Callable[[int | None, str], float]
NAMES = {
    "number_orc": "Agreement",
    "number_src": "Agreement",
    "cleft": "Long-Distance Dependencies",
    "fgd-embed3": "Long-Distance Dependencies",
    "nn-nv-rpl": "other",
    "mine": "",
    "my_other": "",
}
NOT_IN_THE_SCORE = {"fgd-embed3", "fgd-embed4", "nn-nv-rpl"}


def close(a: float, b: float) -> bool:
    return abs(a - b) <= 0.001 + 0.00001 * abs(b)


@dataclass
class Condition:
    name: str
    regions: dict[int, list[str]]
    numbers: list[int]  # as they stand in the file

    @property
    def words(self) -> list[tuple[int, str]]:
        """Words of the sentence, each with its region."""
        return [(number, word) for number in sorted(self.regions) for word in self.regions[number]]


@dataclass
class RandomSuite:
    """A suite, its formulas as text and as functions of regions' surprisals."""

    name: str
    rng: random.Random
    formulas: list[tuple[str, Callable[[Value], Truth], set[str]]] = field(default_factory=list)
    items: list[tuple[int, list[Condition]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng
        self.numbers = sorted(rng.sample(range(9), rng.randint(2, 4)))
        self.conditions = ["a b", "c", "d-e"][: rng.randint(2, 3)]
        self.formulas = [self.truth(2) for _ in range(rng.randint(1, 3))]
        self.circuit = rng.choice([None, "Mine", "Agreement"])
        for number in rng.sample(range(20), rng.randint(1, 4)):
            self.items.append((number, [self.condition(name) for name in self.conditions]))

    def condition(self, name: str) -> Condition:
        rng, words = self.rng, ["aa", "bee", "c", "didn't", "xyz", "5,000"]
        regions = {n: [rng.choice(words) for _ in range(rng.choice([0, 1, 1, 2]))] for n in self.numbers}
        if not any(regions.values()):
            regions[self.numbers[0]] = ["aa"]
        return Condition(name, regions, rng.sample(self.numbers, len(self.numbers)))

    def number(self, depth: int) -> tuple[str, Callable[[Value], float], set[str]]:
        rng = self.rng
        kind = rng.choice(["region"] * 4 + ["all", "number"] + (["sum"] * 2 if depth else []))
        if kind == "number":
            constant = rng.choice(["0.25", "-1.5", "2", ".5"])
            return constant, lambda value: float(constant), set()
        if kind in ("region", "all"):
            name = rng.choice(self.conditions)
            region = rng.choice(self.numbers) if kind == "region" else None
            text = f"({'*' if region is None else region};%{name}%)"
            return text, lambda value: value(region, name), {name}
        several = [self.number(depth - 1) for _ in range(rng.randint(2, 3))]
        signs = [rng.choice("+-") for _ in several[1:]]

        def total(value: Value) -> float:
            result = several[0][1](value)
            for sign, (_, of, _) in zip(signs, several[1:], strict=True):
                result += of(value) if sign == "+" else -of(value)
            return result

        text = several[0][0] + "".join(
            f" {sign} {each[0]}" for sign, each in zip(signs, several[1:], strict=True)
        )
        needs: set[str] = set().union(*(each[2] for each in several))
        return (f"({text})" if rng.random() < 0.5 or depth < 2 else f"[{text}]"), total, needs

    def truth(self, depth: int) -> tuple[str, Callable[[Value], Truth], set[str]]:
        rng = self.rng
        if depth == 0 or rng.random() < 0.4:
            a, b, sign = self.number(1), self.number(1), rng.choice("<>>=")
            if sign == "=" and rng.random() < 0.7:  # nearly the same
                more = rng.choice(["0.0009", "0.00101", "0.002"])
                one = a[1]
                b = f"({a[0]} + {more})", lambda value: one(value) + float(more), a[2]

            def comparison(value: Value) -> Truth:
                one, other = a[1](value), b[1](value)
                if sign == "=":
                    return close(one, other), -abs(one - other)
                return (one < other, other - one) if sign == "<" else (one > other, one - other)

            return f"{a[0]}{sign} {b[0]}", comparison, a[2] | b[2]
        parts = [self.truth(depth - 1) for _ in range(rng.randint(2, 3))]
        signs = [rng.choice("&|") for _ in parts[1:]]

        def several(value: Value) -> Truth:
            holds, margin = parts[0][1](value)
            for sign, (_, of, _) in zip(signs, parts[1:], strict=True):
                other, other_margin = of(value)
                if sign == "&":
                    holds, margin = holds and other, min(margin, other_margin)
                else:
                    holds, margin = holds or other, max(margin, other_margin)
            return holds, margin

        text = parts[0][0] + "".join(f" {s} [{each[0]}]" for s, each in zip(signs, parts[1:], strict=True))
        needs: set[str] = set().union(*(each[2] for each in parts))
        return f"[{text}]", several, needs

    @property
    def in_circuit(self) -> str:
        return NAMES[self.name] if NAMES[self.name] not in ("", "other") else self.circuit or "other"

    def document(self) -> dict[str, Any]:
        rng, meta = self.rng, {"name": self.name, "metric": "sum"}
        blanks = rng.choice(["", " "])
        items = [
            {
                "item_number": number,
                "conditions": [
                    {
                        "condition_name": each.name,
                        "regions": [
                            {"region_number": n, "content": blanks + "  ".join(each.regions[n])}
                            for n in each.numbers
                        ],
                    }
                    for each in conditions
                ],
            }
            for number, conditions in self.items
        ]
        return {
            "meta": meta | ({} if self.circuit is None else {"circuit": self.circuit}),
            "region_meta": {str(self.numbers[-1]): "last"},
            "predictions": [{"type": "formula", "formula": text} for text, _, _ in self.formulas],
            "items": items,
        }


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def near(found: Any, wanted: Any) -> bool:
    """Equal to rounding, and with the same keys in the same order."""
    if isinstance(wanted, dict):
        return [*found] == [*wanted] and all(near(found[key], wanted[key]) for key in wanted)
    return bool(found == wanted or (None not in (found, wanted) and abs(found - wanted) < 1e-9))


def tokens_of(words: list[tuple[int, str]], rng: random.Random) -> list[tuple[int, int, int]]:
    """Tokens (start, end, region): pieces of words, some with the blank before them, some of two words."""
    found: list[tuple[int, int, int]] = []
    at = 0
    left = list(words)
    while left:
        region, word = left.pop(0)
        start = at - (1 if at and rng.random() < 0.5 else 0)
        end = at + len(word)
        if rng.random() < 0.2 and left:  # a token that reaches into the next word, maybe of another region
            end += 1 + len(left.pop(0)[1])
            found.append((start, end, region))
        else:
            cut = rng.randint(at + 1, end)
            found.append((start, cut, region))
            found += [(cut, end, region)] if cut < end else []
        at = end + 1
    return found


def write_table(path: Path, rows: list[tuple[Any, ...]], columns: list[str]) -> None:
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in [columns, *rows]))


COLUMNS = ["sentence_id", "token_id", "token", "start", "end", "surprisal"]


@pytest.mark.parametrize("seed", range(24))
def test_any_suites_have_the_scores_of_their_formulas(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(seed)
    suites = [RandomSuite(name, rng) for name in rng.sample([*NAMES], rng.randint(1, 4))]
    if seed % 3 == 0:
        with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
            for number, suite in enumerate(suites):
                archive.writestr(f"{number}.json", json.dumps(suite.document()))
        data = tmp_path / "all.zip"
    else:
        data = tmp_path / "all"
        for number, suite in enumerate(suites):
            (data / str(number)).mkdir(parents=True)
            (data / str(number) / "suite.json").write_text(json.dumps(suite.document()))
    suites.sort(key=lambda suite: suite.name)
    asked = [(s, number, each) for s in suites for number, conditions in s.items for each in conditions]
    sentences = tmp_path / "sentences.tsv"
    assert run(["eval-sg", str(data), "--write-sentences", str(sentences)]) == 0
    written = list(csv.reader(sentences.open(), delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    texts = [" ".join(word for _, word in each.words) for _, _, each in asked]
    assert written == [
        [s.name, str(number), each.name, text] for (s, number, each), text in zip(asked, texts, strict=True)
    ]

    rows: list[tuple[Any, ...]] = []
    by_region: dict[tuple[str, int, str], dict[int, list[float]]] = {}
    ends, nats = rng.random() < 0.5, rng.random() < 0.5
    for number, ((suite, item, each), text) in enumerate(zip(asked, texts, strict=True), start=1):
        if rng.random() < 0.05:
            continue  # a sentence without rows has no score
        regions: dict[int, list[float]] = {n: [] for n in each.regions}
        spans = tokens_of(each.words, rng)
        for place, (start, end, region) in enumerate(spans, start=1):
            value = rng.randint(0, 27) / 8 + rng.choice([0, 0, 0.0009])
            regions[region].append(value)
            scaled = value * math.log(2) if nats else value
            rows.append((number, place, repr(text[start:end].strip())[1:-1], start, end, scaled))
        if ends:
            rows.append((number, len(spans) + 1, "</s>", len(text), len(text), 0.5))
        by_region[suite.name, item, each.name] = regions
    given, output = tmp_path / "given.tsv", tmp_path / "results"
    write_table(given, rows, COLUMNS)
    unit, details = ["--nats"] if nats else [], ["--details"] if seed % 2 else []
    capsys.readouterr()
    status = run(
        [
            "eval-sg",
            str(data),
            "--surprisals",
            str(given),
            *unit,
            *details,
            "--on-error",
            "skip",
            "-o",
            str(output),
        ]
    )
    assert status == 0

    judged: dict[tuple[str, int, int], Truth | None] = {}
    for suite in suites:
        for item, _ in suite.items:
            for place, (_, formula, needs) in enumerate(suite.formulas, start=1):
                known = all((suite.name, item, name) in by_region for name in needs)

                def value(region: int | None, name: str, at: tuple[str, int] = (suite.name, item)) -> float:
                    regions = by_region[(*at, name)]
                    return sum(sum(of) for n, of in regions.items() if region in (None, n))

                judged[suite.name, item, place] = formula(value) if known else None

    def means(which: int) -> dict[str, Any]:
        """By suite, by circuit and overall: of truths (0) or of margins (1)."""
        of_suite = {
            suite.name: mean(
                [float(t[which]) for item, _ in suite.items if (t := judged[suite.name, item, 1])]
            )
            for suite in suites
        }
        of_circuit: dict[str, list[float]] = {
            suite.in_circuit: [] for suite in suites if suite.name not in NOT_IN_THE_SCORE
        }
        counted = [s for s in suites if s.name not in NOT_IN_THE_SCORE]
        for suite in counted:
            if (score := of_suite[suite.name]) is not None:
                of_circuit[suite.in_circuit].append(score)
        scores = [score for s in counted if (score := of_suite[s.name]) is not None]
        by_circuit = {name: mean(of_circuit[name]) for name in sorted(of_circuit)}
        return {"overall": mean(scores), "by_circuit": by_circuit, "by_suite": of_suite}

    shares = means(0)
    circuits = [score for score in shares["by_circuit"].values() if score is not None]
    inside = [
        float(truth[0])
        for (suite_name, _, place), truth in judged.items()
        if place == 1 and truth is not None and suite_name not in NOT_IN_THE_SCORE
    ]
    by_prediction = {
        suite.name: {
            str(place): mean(
                [float(t[0]) for item, _ in suite.items if (t := judged[suite.name, item, place])]
            )
            for place in range(1, len(suite.formulas) + 1)
        }
        for suite in suites
        if len(suite.formulas) > 1
    }
    wanted = {
        "overall": shares["overall"],
        "mean_of_items": mean(inside),
        "by_prediction": by_prediction,
        "by_circuit": shares["by_circuit"],
        "by_suite": shares["by_suite"],
        **({"margin_bits": means(1)} if any(t for (*_, n), t in judged.items() if n == 1) else {}),
        "sg_31": None,
        "sg_33": None,
        "mean_of_circuits": mean(circuits),
    }
    document = json.loads((output / "results.json").read_text())
    assert near(document["scores"], wanted), (document["scores"], wanted)
    firsts = [truth for (_, _, place), truth in judged.items() if place == 1]
    assert {key: document["counts"][key] for key in ("items", "items_scored", "strings_unscorable")} == {
        "items": len(firsts),
        "items_scored": sum(truth is not None for truth in firsts),
        "strings_unscorable": len(asked) - len(by_region),
    }

    table = pq.read_table(output / "items.parquet").to_pylist()
    tied = [row["suite"] for row in table if row["prediction"] == 1 and row["outcome"] == "tie"]

    def counted(names: set[str]) -> list[str]:
        """The counts of these suites' items."""
        of = [truth for (name, _, place), truth in judged.items() if place == 1 and name in names]
        ties = sum(name in names for name in tied)
        return [str(len(of)), str(sum(truth is not None for truth in of)), str(ties)]

    columns = ["accuracy", "items", "scored", "ties"]
    known = [
        s.name for s in suites if s.name not in NOT_IN_THE_SCORE and shares["by_suite"][s.name] is not None
    ]
    said = f"overall (mean of {len(known)} suites)" if len(known) > 1 else "overall"
    lines = [["Syntactic generalization (percent)", *columns]]
    lines.append([said, percent(wanted["overall"]), *counted({s.name for s in suites})])
    lines += [
        [name.replace("_", " "), percent(wanted[name]), *"---"]
        for name in ("mean_of_items", "sg_31", "sg_33", "mean_of_circuits")
    ]
    circuit_of = {suite.name: suite.in_circuit for suite in suites}
    for level in ["circuit"] * bool(shares["by_circuit"]) + ["suite"] * bool(
        details or not shares["by_circuit"]
    ):
        lines.append([level, *columns])
        for name, of in shares[f"by_{level}"].items():
            inside = {
                s for s, circuit in circuit_of.items() if name == (circuit if level == "circuit" else s)
            }
            lines.append([name, percent(of), *counted(inside)])
    if details and by_prediction:
        lines.append(["suite", "prediction", "accuracy"])
        lines += [[s, p, percent(of)] for s, each in by_prediction.items() for p, of in each.items()]
    printed = capsys.readouterr().out
    assert [line for header, rows in tables(printed) for line in (header, *rows)] == lines
    margin = wanted.get("margin_bits", {"overall": None})["overall"]
    assert (f"mean margin: {margin:+.3f} bits" if margin is not None else "") in printed
    assert ("mean margin" in printed) == (margin is not None)


FIELDS = {"syntax": "syntax", "syntax/semantics": "syntax_semantics", "": "", None: None}
TERMS = {
    "binding": "binding",
    "s-selection": "argument_structure",
    "argument_structure": "argument_structure",
}


@pytest.mark.parametrize("seed", range(20))
def test_any_pairs_have_the_scores_of_their_paradigms(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(seed)
    limit = rng.choice([None, None, 1, 3])
    words = ["a", "bé", "cat", "dogs"]
    pairs: list[dict[str, Any]] = []
    as_tsv = seed % 3 == 0
    (tmp_path / "all" / "sub").mkdir(parents=True)
    about = {
        uid: {"field": rng.choice([*FIELDS][:2]), "linguistics_term": rng.choice([*TERMS])}
        for uid in ("p", "q", "r", "one", "two")
    }
    numbers = {"one": -1, "sub/two": 99}  # from 0 on
    for name in ("one", "sub/two"):
        lines = []
        for line in range(1, rng.randint(3, 9)):
            uid = rng.choice(["p", "q", "r"])
            of = {side: " ".join(rng.choice(words) for _ in range(rng.randint(1, 4))) for side in "gb"}
            pair = {
                "UID": uid,
                "pairID": numbers[name] + line if seed % 4 == 1 else f"{name[0]}{line}",
                **about[uid],
            }
            pair |= {"sentence_good": of["g"], "sentence_bad": of["g" if rng.random() < 0.15 else "b"]}
            stem = name.rsplit("/")[-1]
            for key in ("pairID", "field", "linguistics_term"):
                if not as_tsv and rng.random() < 0.1 and (key, seed % 4) != ("pairID", 1):
                    del pair[key]
            if not as_tsv and seed % 4 != 1 and rng.random() < 0.3:
                pair = {key: each for key, each in pair.items() if key in ("sentence_good", "sentence_bad")}
            lines.append(pair)
            uid = pair.get("UID", stem)
            pairs.append(
                {
                    "uid": uid,
                    "pair": str(pair.get("pairID", 2 * line - 1)),  # blank lines are lines
                    "field": FIELDS[pair.get("field")],
                    "term": None if "linguistics_term" not in pair else TERMS[pair["linguistics_term"]],
                    "good": pair["sentence_good"],
                    "bad": pair["sentence_bad"],
                }
            )
        if as_tsv:
            columns = ["sentence_bad", "UID", "field", "pairID", "sentence_good", "linguistics_term"]
            table = [columns, *([str(line[key]) for key in columns] for line in lines)]
            (tmp_path / "all" / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in table))
        else:
            text = "\n\n".join(json.dumps(line) for line in lines)
            (tmp_path / "all" / f"{name}.jsonl").write_text(text + "\n")
    (tmp_path / "all" / ".hidden.jsonl").write_text("x\n")
    taken: list[dict[str, Any]] = []
    for pair in pairs:
        if limit is None or sum(each["uid"] == pair["uid"] for each in taken) < limit:
            taken.append(pair)
    more = ["--limit", str(limit)] if limit else []
    rows: list[tuple[Any, ...]] = []
    found: dict[tuple[int, str], tuple[float, int]] = {}
    for i, pair in enumerate(taken):
        for side in ("good", "bad"):
            text = pair[side]
            at = 2 * i + 1 + (side == "bad")
            if rng.random() < 0.04:
                continue
            total, place = 0.0, 0
            for place, word in enumerate(text.split(" "), start=1):
                start = len(" ".join(text.split(" ")[: place - 1])) + (place > 1)
                value = (len(word) * 5 + 3 * (start % 2)) % 7 / 8
                rows.append((at, place, word, start, start + len(word), value))
                total += value
            rows.append((at, place + 1, "</s>", len(text), len(text), 0.125))
            found[i, side] = -(total + 0.125), place + 1
    given, output = tmp_path / "given.tsv", tmp_path / "results"
    write_table(given, rows, COLUMNS)
    source = ["--surprisals", str(given), "--nats", "--on-error", "skip", "-o", str(output)]
    details = ["--details"] if seed % 2 else []
    capsys.readouterr()
    assert run(["eval-blimp", str(tmp_path / "all"), *more, *source, *details]) == 0

    group_of = {}
    for pair in taken:
        group_of.setdefault(pair["uid"], (pair["field"] or None, pair["term"] or None))
    shares: dict[str, dict[str, list[float]]] = {name: {} for name in ("total", "token", "margin")}
    ties = 0
    for i, pair in enumerate(taken):
        for values in shares.values():
            values.setdefault(pair["uid"], [])
        if (i, "good") not in found or (i, "bad") not in found:
            continue
        (good, n), (bad, m) = found[i, "good"], found[i, "bad"]
        shares["total"][pair["uid"]].append(float(good > bad))
        shares["token"][pair["uid"]].append(float(good / n > bad / m))
        shares["margin"][pair["uid"]].append((good - bad) / math.log(2))
        ties += good == bad
    of_paradigm = {name: {uid: mean(of[uid]) for uid in sorted(of)} for name, of in shares.items()}

    def over(values: dict[str, float | None], at: int) -> dict[str, float | None]:
        names = sorted({group_of[uid][at] or "" for uid in values} - {""})
        return {
            name: mean([v for uid, v in values.items() if v is not None and group_of[uid][at] == name])
            for name in names
        }

    def overall(values: dict[str, float | None]) -> float | None:
        return mean([value for value in values.values() if value is not None])

    total, margins = of_paradigm["total"], {u: m for u, m in of_paradigm["margin"].items() if m is not None}
    wanted = {
        "overall": overall(total),
        "mean_of_items": mean([right for of in shares["total"].values() for right in of]),
        "by_prediction": {"main": overall(total), "per_token": overall(of_paradigm["token"])},
        "by_field": over(total, 0),
        "by_phenomenon": over(total, 1),
        "by_paradigm": total,
        "margin_bits": {
            "overall": overall(margins),
            "by_field": over(margins, 0),
            "by_phenomenon": over(margins, 1),
            "by_paradigm": margins,
        },
    }
    document = json.loads((output / "results.json").read_text())
    assert near(document["scores"], wanted), (document["scores"], wanted)
    counts = document["counts"]
    scored = sum(map(len, shares["total"].values()))
    assert (counts["items"], counts["items_scored"], counts["ties"]) == (len(taken), scored, ties)
    columns = ["accuracy", "items", "scored", "ties"]
    lines = [["BLiMP (percent)", *columns]]
    n = sum(score is not None for score in total.values())
    said = f"overall (mean of {n} paradigms)" if n > 1 else "overall"
    lines.append([said, percent(wanted["overall"]), str(len(taken)), str(scored), str(ties)])
    lines.append(["mean of items", percent(wanted["mean_of_items"]), *"---"])
    lines.append(["overall, per token", percent(wanted["by_prediction"]["per_token"]), *"---"])
    levels = [level for level in ("field", "phenomenon") if wanted[f"by_{level}"]]
    for level in [*levels, *(["paradigm"] if details or not levels else [])]:
        lines.append([level, *columns])
        for name, score in wanted[f"by_{level}"].items():
            uids = [
                u
                for u in group_of
                if name == {"field": group_of[u][0], "phenomenon": group_of[u][1]}.get(level, u)
            ]
            inside = [i for i, pair in enumerate(taken) if pair["uid"] in uids]
            known = [i for i in inside if (i, "good") in found and (i, "bad") in found]
            equal = sum(found[i, "good"][0] == found[i, "bad"][0] for i in known)
            lines.append([name, percent(score), str(len(inside)), str(len(known)), str(equal)])
    printed = capsys.readouterr().out
    assert [line for header, rows in tables(printed) for line in (header, *rows)] == lines


@pytest.mark.parametrize("seed", range(6))
def test_any_results_of_items_have_the_scores_of_their_runs(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    suites = [*sorted(SCORED_33), "nn-nv-rpl", "mine"]
    if seed % 2:
        suites.remove(rng.choice(["fgd-embed3", "cleft"]))
    names = ["lm_a_1", "lm_a_2", "lm_b_1", "ngram_a_1", "ngram_a_2", "ngram_a_3", "ngrams_a_1", "gpt"]
    rows = [
        (name, suite, item, rng.choice(["True", "false", "1", "0"]))
        for name in names
        for suite in suites
        for item in range(1, 4)
        if item == 1 or rng.random() < (0.4 if name.startswith("ngram_") else 0.97)
    ]
    rng.shuffle(rows)
    half = len(rows) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        lines = ["item,model,more,correct,suite"]
        lines += [f"{item},{name},x,{correct},{suite}" for name, suite, item, correct in part]
        (tmp_path / f"{number}.csv").write_text("\n".join(lines) + "\n")
    files = [str(tmp_path / "0.csv"), str(tmp_path / "1.csv")]
    if seed % 3:  # both, or one, in a zip
        with zipfile.ZipFile(tmp_path / "items.zip", "w") as archive:
            archive.writestr("README.txt", "no table")
            for file in files[2 - seed % 3 :]:
                archive.write(file, f"deep/{Path(file).name}")
        files[2 - seed % 3 :] = [str(tmp_path / "items.zip")]
    assert run(["eval-sg", "--from-items", *files, "-o", str(tmp_path / "out"), "-q"]) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    right: dict[tuple[str, str, str], dict[tuple[str, int], bool]] = {}
    votes: dict[tuple[str, int], list[bool]] = {}
    for name, suite, item, correct in rows:
        is_right = correct in ("True", "1")
        if name.startswith("ngram_"):
            votes.setdefault((suite, item), []).append(is_right)
        else:
            parts = name.split("_") if "_" in name else [name, "", ""]
            right.setdefault((parts[0], parts[1], parts[2]), {})[suite, item] = is_right
    right["ngram", "a", "majority3"] = {key: 2 * sum(of) > len(of) for key, of in votes.items()}
    wanted: dict[tuple[str, str, str], dict[str, Any]] = {}
    for run_of, items in sorted(right.items()):
        by_suite = {s: mean([float(v) for (of, _), v in items.items() if of == s]) for s in sorted(suites)}
        counted = {s: v for s, v in by_suite.items() if s not in NOT_IN_THE_SCORE and v is not None}
        circuits: dict[str, list[float]] = {}
        for s, value in counted.items():
            circuits.setdefault(CIRCUIT_OF.get(s, OTHER), []).append(value)
        by_circuit = {c: mean(of) for c, of in sorted(circuits.items())}
        paper = [by_suite.get(s) for s in SCORED_33 if s not in NOT_IN_THE_SCORE]
        deeper = [by_suite.get(s) for s in SCORED_33]
        wanted[run_of] = {
            "overall": mean([*counted.values()]),
            "mean_of_items": mean([float(v) for (s, _), v in items.items() if s not in NOT_IN_THE_SCORE]),
            "by_prediction": {},
            "by_circuit": by_circuit,
            "by_suite": by_suite,
            "sg_31": None if None in paper else mean([v for v in paper if v is not None]),
            "sg_33": None if None in deeper else mean([v for v in deeper if v is not None]),
            "mean_of_circuits": mean([v for v in by_circuit.values() if v is not None]),
        }
    one, other = wanted["lm", "a", "1"], wanted["lm", "a", "2"]
    wanted["lm", "a", "mean"] = {
        key: {name: (value[name] + other[key][name]) / 2 for name in value}
        if isinstance(value, dict)
        else (None if value is None else (value + other[key]) / 2)
        for key, value in one.items()
    }
    listed = [
        ((each.pop("model"), each.pop("corpus"), each.pop("seed")), each) for each in found["scores"]["runs"]
    ]
    assert [name for name, _ in listed] == [*wanted]
    for name, scores in listed:
        assert near(scores, wanted[name]), (name, scores, wanted[name])
