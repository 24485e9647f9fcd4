"""Random parses against plain models of EVALB's rules and of attachment scores, all options crossed."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from printed_tables import tables

from pdtools.cli.main import run

# --- constituents -------------------------------------------------------------------------------

Node = tuple[str, Any]
"""A label, and children; or a tag, and a word."""
LABELS = ["S", "NP", "NP-SBJ", "VP=2", "PRT", "ADVP", "X-1"]
TAGS = ["NN", "VB", ",", ".", "RP"]
Bracket = tuple[int, int, str]


def random_tree(rng: random.Random, words: list[tuple[str, str]]) -> Node:
    parts: list[Node] = [(tag, word) for word, tag in words]
    while len(parts) > 1 or rng.random() < 0.3 or isinstance(parts[0][1], str):
        at = rng.randrange(len(parts))
        taken = parts[at : at + rng.randint(1, 4)]
        parts[at : at + len(taken)] = [(rng.choice(LABELS), taken)]
    return parts[0]


def text_of(node: Node) -> str:
    if isinstance(node[1], str):
        return f"({node[0]} {node[1]})"
    return f"({node[0]} {' '.join(map(text_of, node[1]))})"


def leaves_of(node: Node) -> list[tuple[str, str]]:
    if isinstance(node[1], str):
        return [(node[1], node[0])]
    return [leaf for child in node[1] for leaf in leaves_of(child)]


def retagged(node: Node, tags: list[str]) -> Node:
    if isinstance(node[1], str):
        return tags.pop(0), node[1]
    return node[0], [retagged(child, tags) for child in node[1]]


def relabelled(node: Node) -> Node:
    return node if isinstance(node[1], str) else ("X", [relabelled(child) for child in node[1]])


def cleaned(node: Node) -> Node | None:
    """Without traces, what is then empty, and function tags."""
    if isinstance(node[1], str):
        return None if node[0] == "-NONE-" else node
    children = [child for each in node[1] if (child := cleaned(each)) is not None]
    label = node[0].split("-")[0].split("=")[0]
    return (label, children) if children else None


def binary(node: Node, how: str) -> Node:
    """Chains of one child become one node, and nodes of many are factored out; tags keep their words."""
    if isinstance(node[1], str):
        return node
    label, children = node
    while len(children) == 1 and not isinstance(children[0][1], str):
        label, children = f"{label}+{children[0][0]}", children[0][1]
    children = [binary(child, how) for child in children]
    outer = label
    while len(children) > 2:
        rest = children[1:] if how == "right" else children[:-1]
        name = f"{outer}|<{'-'.join(child[0] for child in rest)}>"
        inner = binary_of(name, rest, how)
        children = [children[0], inner] if how == "right" else [inner, children[-1]]
    return label, children


def binary_of(name: str, children: list[Node], how: str) -> Node:
    """The node of some children of a factored one; further nodes have its label too."""
    outer = name.split("|")[0]
    while len(children) > 2:
        rest = children[1:] if how == "right" else children[:-1]
        inner = binary_of(f"{outer}|<{'-'.join(child[0] for child in rest)}>", rest, how)
        children = [children[0], inner] if how == "right" else [inner, children[-1]]
    return name, children


@dataclass
class Rules:
    """A parameter file, or the rules without one."""

    labeled: bool = True
    cutoff: int = 40
    deleted: set[str] = field(
        default_factory=lambda: {
            "",
            "TOP",
            "ROOT",
            "S1",
            "VROOT",
            "-NONE-",
            "-DFL-",
            ",",
            ":",
            "``",
            "''",
            ".",
        }
    )
    not_counted: set[str] = field(default_factory=lambda: {"-NONE-", "-DFL-"})
    labels: list[tuple[str, str]] = field(default_factory=lambda: [("ADVP", "PRT")])
    words: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def random(cls, rng: random.Random) -> Rules:
        return cls(
            labeled=rng.random() < 0.6,
            cutoff=rng.randint(2, 6),
            deleted=set(rng.sample([",", ".", "PRT", "TOP"], rng.randint(0, 3))) | {"-NONE-"},
            not_counted=set(rng.sample([",", "VB"], rng.randint(0, 2))) | {"-NONE-"},
            labels=rng.sample(
                [("ADVP", "PRT"), ("VP", "S"), ("RP", "NN"), ("S", "NP"), ("PRT", "X")], rng.randint(0, 3)
            ),
            words=rng.sample([("a", "b"), ("c", "a")], rng.randint(0, 2)),
        )

    def write(self, path: Path) -> None:
        lines = ["# a comment", "DEBUG 0", f"LABELED {int(self.labeled)}", f"CUTOFF_LEN {self.cutoff}"]
        lines += [f"DELETE_LABEL {each}" for each in sorted(self.deleted)]
        lines += [f"DELETE_LABEL_FOR_LENGTH {each}" for each in sorted(self.not_counted)]
        lines += [f"EQ_LABEL {a} {b}" for a, b in self.labels] + [f"EQ_WORD {a}  {b}" for a, b in self.words]
        path.write_text("\n".join(lines) + "\n")

    def same(self, a: str, b: str, pairs: list[tuple[str, str]]) -> bool:
        return a == b or (a, b) in pairs or (b, a) in pairs

    def brackets(self, node: Node) -> list[Bracket]:
        """Brackets in the order of opening, over words that are not deleted."""
        found: list[Bracket] = []
        at = 0

        def walk(each: Node) -> None:
            nonlocal at
            if isinstance(each[1], str):
                at += each[0] not in self.deleted
                return
            place, start = len(found), at
            found.append((0, 0, ""))
            for child in each[1]:
                walk(child)
            found[place] = start, at, each[0].split("-")[0].split("=")[0]

        walk(node)
        return [
            each
            for each in found
            if each[0] < each[1] and not any(self.same(each[2], label, self.labels) for label in self.deleted)
        ]

    def matched(self, gold: list[Bracket], test: list[Bracket], *, labeled: bool) -> int:
        free, n = list(test), 0
        for start, end, label in gold:
            for each in free:
                if each[:2] == (start, end) and (not labeled or self.same(label, each[2], self.labels)):
                    free.remove(each)
                    n += 1
                    break
        return n

    def kept(self, node: Node) -> list[tuple[str, str]]:
        return [leaf for leaf in leaves_of(node) if leaf[1] not in self.deleted]


def percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def f1(a: float, b: float) -> float | None:
    return 2 * a * b / (a + b) if a + b else None


@pytest.mark.parametrize("seed", range(48))
def test_any_trees(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(seed)
    rules = Rules.random(rng) if seed % 2 else Rules()
    how = ["none", "right", "none", "left"][seed // 2 % 4]
    unlabeled, untagged = rng.random() < 0.4, rng.random() < 0.3
    more = ["--unlabeled"] if unlabeled else []
    if seed % 2:
        rules.write(tmp_path / "my.prm")
        more += ["--prm", str(tmp_path / "my.prm")]
    rules.labeled &= not unlabeled
    gold_lines, test_lines, left_out = [], [], []
    rows: list[dict[str, Any]] = []
    n_retagged = n_changed = n_traces = 0
    for line in range(1, 13):
        leaves = [(rng.choice("abc"), rng.choice(TAGS)) for _ in range(rng.randint(1, 7))]
        with_traces = [
            leaf for leaf in leaves for leaf in ([("*T*", "-NONE-")] if rng.random() < 0.1 else []) + [leaf]
        ]
        n_traces += len(with_traces) - len(leaves)
        gold, test = random_tree(rng, with_traces), random_tree(rng, leaves)
        if rng.random() < 0.2:
            test = gold if len(with_traces) == len(leaves) else test
        own_tags = [tag if rng.random() < 0.8 else rng.choice(["NN", "VB"]) for _, tag in leaves]
        shown = retagged(test, ["XX"] * len(leaves) if untagged else list(own_tags))
        kind = rng.choice(["empty", "words", "left out"] + ["good"] * 9)
        if kind == "words":
            shown = random_tree(rng, [*leaves, ("d", "NN")])
        gold_lines.append(text_of(gold))
        test_lines.append("" if kind == "empty" else text_of(shown))
        if kind == "left out":
            left_out.append({"file": "x", "line": line, "reason": "why", "text": ""})
        length = sum(tag not in rules.not_counted for _, tag in leaves_of(gold))
        if kind in ("empty", "left out"):
            rows.append({"kind": kind, "length": length})
            continue
        if untagged and kind == "good":
            shown = retagged(shown, [tag for _, tag in leaves])
            n_retagged += 1
        elif kind == "good" and not rules.labeled:
            both = zip([tag for _, tag in leaves], own_tags, strict=True)
            tags = [
                gold if gold in rules.deleted else "XX" if own in rules.deleted else own for gold, own in both
            ]
            n_changed += tags != own_tags
            shown = retagged(shown, tags)
        if how != "none":
            clean, gold_clean = cleaned(shown), cleaned(gold)
            assert clean is not None
            assert gold_clean is not None
            shown, gold = (without_units(binary(each, how)) for each in (clean, gold_clean))
            length = sum(tag not in rules.not_counted for _, tag in leaves_of(gold))
        one, other = rules.kept(gold), rules.kept(shown)
        if not other:
            rows.append({"kind": "empty", "length": length})
            continue
        if len(one) != len(other) or not all(
            rules.same(a[0], b[0], rules.words) for a, b in zip(one, other, strict=True)
        ):
            rows.append({"kind": "error", "length": length})
            continue
        a, b = rules.brackets(gold), rules.brackets(shown)
        spans = rules.matched(a, b, labeled=False)
        crossing = sum(any(x[0] < y[0] < x[1] < y[1] or y[0] < x[0] < y[1] < x[1] for x in a) for y in b)
        rows.append(
            {
                "kind": "scored",
                "length": length,
                "matched": rules.matched(a, b, labeled=True) if rules.labeled else spans,
                "spans": spans,
                "gold": len(a),
                "test": len(b),
                "crossing": crossing,
                "words": len(one),
                "tags": sum(rules.same(x[1], y[1], rules.labels) for x, y in zip(one, other, strict=True)),
            }
        )
    (tmp_path / "gold").write_text("\n".join(gold_lines) + "\n")
    (tmp_path / "test").write_text("\n".join(test_lines) + "\n")
    if left_out:
        (tmp_path / "rejects").write_text("".join(json.dumps(each) + "\n" for each in left_out))
        more += ["--left-out", str(tmp_path / "rejects")]
    command = ["eval-parse", str(tmp_path / "gold"), str(tmp_path / "test"), "--binarize", how, *more]
    assert run([*command, "-o", str(tmp_path / "out"), "-q"]) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    check_printed(capsys.readouterr().out, found, rules, how)
    assert run([*command, "--format", "jsonl", "-q"]) == 0
    shown_rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["line"] for each in shown_rows] == [*range(1, 13)]
    for each, row in zip(shown_rows, rows, strict=True):
        names = {"matched": "matched", "gold": "gold", "predicted": "test", "crossing": "crossing"}
        names |= {"words": "words"} | ({} if n_retagged else {"correct_tags": "tags"})
        if row["kind"] == "scored":
            assert {name: each[name] for name in names} == {name: row[of] for name, of in names.items()}
    status = run([*command, "--format", "evalb", "-q"])
    as_evalb = capsys.readouterr()
    if left_out:
        assert (status, as_evalb.out) == (2, "")
    elif not n_retagged and (how != "none" or not n_changed):  # EVALB's table has the trees as they are
        check_evalb(as_evalb.out, found["scores"], found["counts"], rules.cutoff)
    any_tags = sum(row["tags"] for row in rows if row["kind"] == "scored")
    short = [row for row in rows if row["length"] <= rules.cutoff]
    for some, scores, counts in (
        (rows, found["scores"], found["counts"]),
        (short, found["scores"]["up_to_cutoff"], found["counts"]["up_to_cutoff"]),
    ):
        scored = [row for row in some if row["kind"] == "scored"]

        def total(name: str, of: list[dict[str, Any]] = scored) -> int:
            return sum(row[name] for row in of)

        wanted = {
            "sentences": len(some),
            "scored": len(scored),
            "errors": sum(row["kind"] == "error" for row in some),
            "skipped": sum(row["kind"] == "empty" for row in some),
            "left_out": sum(row["kind"] == "left out" for row in some),
            "gold_brackets": total("gold"),
            "predicted_brackets": total("test"),
            "matched_brackets": total("matched"),
            "matched_spans": total("spans"),
            "crossing_brackets": total("crossing"),
            "complete": sum(row["matched"] == row["gold"] == row["test"] for row in scored),
            "words": total("words"),
        }
        assert {name: counts[name] for name in wanted} == wanted
        recall, precision = percent(total("matched"), total("gold")), percent(total("matched"), total("test"))
        no_crossing = sum(row["crossing"] == 0 for row in scored)
        few = sum(row["crossing"] <= 2 for row in scored)
        spans_f1 = f1(percent(total("spans"), total("gold")), percent(total("spans"), total("test")))
        expected = {
            "f1": f1(recall, precision),
            "recall": recall,
            "precision": precision,
            "unlabeled_f1": spans_f1,
            "complete_match": percent(wanted["complete"], len(scored)),
            "average_crossing": total("crossing") / len(scored) if scored else 0.0,
            "no_crossing": percent(no_crossing, len(scored)),
            "two_or_less_crossing": percent(few, len(scored)),
            "tagging_accuracy": None
            if n_retagged or not any_tags
            else percent(total("tags"), total("words")),
        }
        for name, value in expected.items():
            assert scores[name] == (value if value is None else pytest.approx(value)), name
    assert found["counts"]["retagged"] == n_retagged


def check_printed(printed: str, found: dict[str, Any], rules: Rules, how: str) -> None:
    """The table has the scores and counts of results, of all sentences and of the short ones."""
    scores, counts = found["scores"], found["counts"]
    names = [name for name in scores if name != "up_to_cutoff"]
    wanted = [
        [name.replace("_", " "), *("-" if each is None else f"{each:.2f}" for each in both)]
        for name in names
        for both in [(scores[name], scores["up_to_cutoff"][name])]
    ]
    of_counts = ("sentences", "scored", "errors", "skipped", "left_out")
    wanted += [
        [name.replace("_", " "), *map(str, (counts[name], counts["up_to_cutoff"][name]))]
        for name in of_counts
    ]
    assert tables(printed) == [(["score", "all", f"up to {rules.cutoff} words"], wanted)]
    title = f"Bracketing, {'labeled' if rules.labeled else 'unlabeled'}"
    title += "" if how == "none" else f", {how}-binarized"
    assert printed.startswith(f"{title} (percent)\n")


def check_evalb(printed: str, scores: dict[str, Any], counts: dict[str, Any], cutoff: int) -> None:
    """The summary of EVALB's table has the same scores and counts."""
    _, every, short = re.split(r"-- (?:All|len<=\d+) --", printed)
    assert f"-- len<={cutoff} --" in printed
    names = {
        "Number of sentence": "sentences",
        "Number of Error sentence": "errors",
        "Number of Skip  sentence": "skipped",
        "Number of Valid sentence": "scored",
        "Bracketing Recall": "recall",
        "Bracketing Precision": "precision",
        "Bracketing FMeasure": "f1",
        "Complete match": "complete_match",
        "Average crossing": "average_crossing",
        "No crossing": "no_crossing",
        "2 or less crossing": "two_or_less_crossing",
        "Tagging accuracy": "tagging_accuracy",
    }
    for part, own_scores, own_counts in (
        (every, scores, counts),
        (short, scores["up_to_cutoff"], counts["up_to_cutoff"]),
    ):
        shown = dict(line.split("=") for line in part.splitlines() if "=" in line)
        found = {name.strip(): value.strip() for name, value in shown.items()}
        for name, of in names.items():
            if of in own_counts and of not in own_scores:
                assert int(found[name]) == own_counts[of]
            else:
                value = own_scores[of]
                assert found[name] == ("-nan" if value is None else f"{value:.2f}"), name


def without_units(node: Node) -> Node:
    """Without what stands over a single word."""
    if isinstance(node[1], str):
        return node
    label, children = node
    children = [without_units(child) for child in children]
    if len(children) == 1:
        return children[0] if isinstance(children[0][1], str) else (label, children)
    return label, children


# --- dependencies -------------------------------------------------------------------------------

ROOT = -1


@dataclass
class File:
    """The words of a file in order: characters, heads (places in the file; None: none), arcs; sentences."""

    forms: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    heads: list[int | None] = field(default_factory=list)
    graphs: list[set[int]] = field(default_factory=list)
    arcs: list[set[int]] = field(default_factory=list)
    sentences: list[int] = field(default_factory=list)
    has_enhanced: bool = False
    not_trees: int = 0
    lines: list[str] = field(default_factory=list)

    def add(self, words: list[str], rng: random.Random, *, gold: bool, enhanced: bool, ranges: bool) -> None:
        n, first = len(words), len(self.forms)
        heads: list[int | None] = [None] * n
        order = rng.sample(range(1, n + 1), n)
        for i, k in enumerate(order):
            heads[k - 1] = 0 if i == 0 or rng.random() < 0.08 else rng.choice(order[:i])
            if not gold and rng.random() < 0.15:
                heads[k - 1] = rng.choice([None, *range(n + 1)])
        deps: list[set[int]] = [set(rng.sample(range(n + 1), rng.randint(0, 2))) for _ in words]
        if not enhanced or not any(deps):
            deps = [set() for _ in words]
        skip = 0
        for k, word in enumerate(words, 1):
            if ranges and not skip and k < n and rng.random() < 0.4:
                self.lines.append(f"{k}-{k + 1}\t{word}{words[k]}" + "\t_" * 8)
                skip = 2
            skip = max(0, skip - 1)
            head = "_" if heads[k - 1] is None else str(heads[k - 1])
            column = "|".join(f"{h}:x" for h in sorted(deps[k - 1])) or "_"
            self.lines.append("\t".join([str(k), word, "_", "_", "_", "_", head, "_", column, "_"]))
        self.lines.append("")
        self.sentences.append(first)
        place = [ROOT, *range(first, first + n)]
        for k, word in enumerate(words, 1):
            self.starts.append(sum(map(len, self.forms)))
            self.forms.append(word.lower())
            head_of = heads[k - 1]
            self.heads.append(None if head_of is None else place[head_of])
            self.arcs.append(set() if head_of in (None, k) else {place[head_of or 0]})
            own = deps if any(deps) else [set() if h is None else {h} for h in heads]
            self.graphs.append({place[h] for h in own[k - 1] if h != k})
        self.has_enhanced |= any(deps)
        reaches = 0
        for k in range(1, n + 1):
            at, steps = k, 0
            while at and steps <= n and (up := heads[at - 1]) is not None:
                at, steps = up, steps + 1
            reaches += at == 0
        self.not_trees += reaches < n or heads.count(0) != 1


def cut(text: str, rng: random.Random, most: int) -> list[str]:
    found = []
    while text:
        size = rng.randint(1, most)
        found.append(text[:size])
        text = text[size:]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_any_dependencies(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    text = "".join(rng.choice("abcdEfg") for _ in range(rng.randint(8, 50)))
    gold, test = File(), File()
    enhanced, same = rng.random() < 0.5, rng.random() < 0.6
    with_ranges = seed % 5 == 0  # in one file alone, so that words are aligned by their own forms
    words = cut(text, rng, 3)
    others = words if same else cut(text, rng, 3)
    for file, of in ((gold, words), (test, others)):
        left = list(of)
        while left:
            size = rng.randint(1, 7)
            is_gold = file is gold
            ranges = with_ranges and is_gold == (seed % 2 == 0)
            own = enhanced and rng.random() < 0.7
            file.add(left[:size], rng, gold=is_gold, enhanced=own, ranges=ranges)
            left = left[size:]
    (tmp_path / "gold.conllu").write_text("\n".join(gold.lines) + "\n")
    (tmp_path / "test.conllu").write_text("\n".join(test.lines) + "\n")
    names = [str(tmp_path / f"{name}.conllu") for name in ("gold", "test")]
    assert run(["eval-parse", *names, "-o", str(tmp_path / "out"), "-q"]) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    place = {(start, form): g for g, (start, form) in enumerate(zip(gold.starts, gold.forms, strict=True))}
    of: dict[int | None, int | None] = {ROOT: ROOT, None: None}
    of |= {p: place.get((s, f)) for p, (s, f) in enumerate(zip(test.starts, test.forms, strict=True))}
    aligned = [(p, g) for p in range(len(test.forms)) if (g := of[p]) is not None]
    right = {
        "words": len(gold.forms),
        "predicted_words": len(test.forms),
        "aligned": len(aligned),
        "correct_heads": sum(
            gold.heads[g] == of[test.heads[p]] for p, g in aligned if of[test.heads[p]] is not None
        ),
        "arcs": sum(map(len, gold.arcs)),
        "predicted_arcs": sum(map(len, test.graphs)),
        "correct_arcs": sum(len(gold.arcs[g] & {of[h] for h in test.graphs[p]}) for p, g in aligned),
        "enhanced_arcs": sum(map(len, gold.graphs)) if gold.has_enhanced else 0,
        "correct_enhanced_arcs": sum(
            len(gold.graphs[g] & {of[h] for h in test.graphs[p]}) for p, g in aligned
        )
        if gold.has_enhanced
        else 0,
        "sentences": len(gold.sentences),
        "no_trees": test.not_trees,
        "several_roots": gold.not_trees,
    }
    assert {name: found["counts"][name] for name in right} == right
    for name, what, among, predicted in (
        ("uas", "correct_heads", "words", "predicted_words"),
        ("arc", "correct_arcs", "arcs", "predicted_arcs"),
        ("enhanced_arc", "correct_enhanced_arcs", "enhanced_arcs", "predicted_arcs"),
    ):
        precision, recall = percent(right[what], right[predicted]), percent(right[what], right[among])
        values = {"precision": precision, "recall": recall, "f1": f1(precision, recall) or 0.0}
        for kind, value in values.items():
            shown = found["scores"][f"{name}_{kind}"]
            assert shown == (pytest.approx(value) if right[among] else None)
