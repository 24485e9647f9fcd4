"""What pages of sentences show, against their traces and ``pdtools.trees``; the pages run in node."""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_pages import MADE, evaluate, needs_node, number, program, save_page, shows
from rnng_oracle import NAMES, rnng
from toy_models import loaded, tiny_model, toy_models
from view_pages import random_trace

from pdtools.inspection.trace import Hypothesis, Trace, TraceStep
from pdtools.inspection.tracing import trace
from pdtools.report.view.charts import COLOURS
from pdtools.report.view.sentences import sentences_page
from pdtools.search.options import SearchOptions
from pdtools.trees import Tree, spans_from_attachments, tape

pytestmark = needs_node

TEXT = "a b c a b"
N = 5
GOLD = Tree.from_brackets("(S (NP (X a) (X b)) (NP (X c) (NP (X a) (X b))))")
GOLD_SPANS = {(1, 2), (4, 5), (3, 5), (1, 5)}
SEARCHED = ["pushdown", "window", "tg", "plm"]
KINDS = [*SEARCHED, "treereg", "rnn", "stack-attention"]
PROGRAM = program("sentences_page")


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    """A sentence under models of every kind."""
    models, wide = toy_models(), SearchOptions(beam=200, word_beam=40, fast_track=0)
    searches = {"tg": wide, "plm": wide}
    found = {
        kind: trace(models[kind], TEXT, searches.get(kind, SearchOptions(beam=20)), hypotheses=4, gold=GOLD)
        for kind in KINDS
    }
    # One whose third step lists fewer, so that hypotheses of the fourth extend some that are not there.
    steps = list(found["window"].steps)
    steps[2] = replace(steps[2], hypotheses=steps[2].hypotheses[:1])
    return {**found, "window": replace(found["window"], steps=tuple(steps))}


@pytest.fixture(scope="module")
def shown(traces: dict[str, Trace], tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("pages") / "page.html"
    return evaluate(save_page(sentences_page([list(traces.values())], KINDS, MADE), path), PROGRAM)


def hypotheses(shown: Any, traces: dict[str, Trace], kind: str) -> list[tuple[int, Hypothesis, Any]]:
    """Each hypothesis that is listed: the position of its token, it, and what the page shows of it."""
    found = []
    for step, on_page in zip(traces[kind].steps, shown[kind]["steps"], strict=True):
        pairs = zip(step.hypotheses, on_page["hypotheses"], strict=True)
        found += [(step.position, each, of) for each, of in pairs]
    assert len(found) > 12
    return found


def spans_of_text(text: str) -> tuple[set[tuple[int, int]], int, list[str]]:
    """The closed constituents of a stack in brackets, by first and last token; how many parts it
    has; labels of the open ones."""
    spans, open_at, at, parts = set(), [], 0, 0
    for part in re.findall(r"\([^\s()]*|[\[\])‖]|[^\s()\[\]‖]+", text):
        if part == "‖":
            continue
        if part[0] in "([":
            parts += not open_at
            open_at.append((at + 1, part))
        elif part in (")", "]"):
            spans.add((open_at.pop()[0], at))
        else:
            parts += not open_at
            at += 1
    return spans, parts, [label for _, label in open_at]


def spans_of_attachments(attach: Sequence[Any], n: int) -> tuple[set[tuple[int, int]], int]:
    """The binary nodes over the n tokens of a sentence, and how many things are on the stack."""
    starts, ends, stack = spans_from_attachments(list(attach))
    read = min(n, len(attach) - 1)
    spans = {(s, min(e - 1, n)) for s, e in zip(starts.tolist(), ends.tolist(), strict=True)}
    finished = attach[-1] == 0  # with ROOT itself below
    return {(s, e) for s, e in spans if 0 < s < e}, 1 if finished else len(stack) - 1 if read else 0


@pytest.mark.parametrize("kind", ["pushdown", "window"])
def test_stacks_tapes_and_wrong_constituents_of_attachments(
    kind: str, shown: Any, traces: dict[str, Trace]
) -> None:
    wrongs = set()
    for position, each, of in hypotheses(shown, traces, kind):
        said = of["stack"].split(": ", 1)[1]
        expected, parts = spans_of_attachments(each.derivation, N)
        spans, n_parts, still_open = spans_of_text(said)
        assert (spans, n_parts, still_open) == (expected, parts, [])
        words = [traces[kind].tokens[k] for k in range(1, min(position, N) + 1)]
        assert re.findall(r"\w+", said) == words == of["words"]
        wrong = len(expected - GOLD_SPANS)
        wrongs.add(wrong)
        assert of["dashed"] == wrong
        assert of["wrong"].endswith(f"({wrong}).")
        depths = [depth for k, row in enumerate(tape(each.derivation)) for depth in row[: k + 1].tolist()]
        assert of["tape"] == depths
        assert of["open"] is None
    assert len(wrongs) > 1


def written(actions: Sequence[Any], tokens: Sequence[str]) -> tuple[str, list[str]]:
    """Actions in brackets, and what is open after them."""
    text, is_open = "", []
    for action in actions:
        if isinstance(action, str) and action.endswith(")"):
            text += ")"
            is_open.pop()
            continue
        text += ("" if not text else " " if is_open else " ‖ ") + (
            action if isinstance(action, str) else tokens[action]
        )
        if isinstance(action, str):
            is_open.append(action)
    return text, is_open


def nested(rng: np.random.Generator) -> list[tuple[int | str, ...]]:
    """Actions up to each of N tokens, drawn so that constituents of several labels stand in each other."""
    actions: list[int | str] = ["(S"]
    found, depth = [], 1
    for k in range(1, N + 1):
        while rng.random() < 0.5:
            actions.append(str(rng.choice(["(NP", "(VP", "(PP"])))
            depth += 1
        actions.append(k)
        while depth > 1 and rng.random() < 0.4:
            actions.append(")")
            depth -= 1
        found.append(tuple(actions))
    return found


def test_constituents_in_constituents(traces: dict[str, Trace], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    drawn = [nested(rng) for _ in range(6)]
    steps = tuple(
        TraceStep(
            k,
            6,
            tuple(Hypothesis(each[k - 1], -1.0, 0.1, h, None) for h, each in enumerate(drawn)),
            0.4,
            None,
        )
        for k in range(1, N + 1)
    )
    one = replace(traces["plm"], steps=steps)
    path = save_page(sentences_page([[one]], ["plm"], MADE), tmp_path / "page.html")
    shown = evaluate(path, PROGRAM)
    for step, on_page in zip(steps, shown["plm"]["steps"], strict=False):
        for each, of in zip(step.hypotheses, on_page["hypotheses"], strict=True):
            text, is_open = written(each.derivation, one.tokens)
            assert of["open"] == f"Open: {' '.join(is_open)}"
            said = re.sub(" +", " ", of["stack"].split(": ", 1)[1]).strip()
            assert said == text
            wrong = {(start, end) for start, end in spans_of_text(said)[0] if start < end} - GOLD_SPANS
            assert of["wrong"].endswith(f"({len(wrong)}).")
    click = "all('button').find((each) => each.textContent === 'LaTeX').click();"
    saved = evaluate(path, f"{click} return await lastSaved();", f"token={N}&hypothesis=2")
    actions = [each for each in steps[-1].hypotheses[1].derivation if each != ")"]
    names = [each[1:] if isinstance(each, str) else one.tokens[each] for each in actions]
    assert re.findall(r"\[\{(\w+)\}", saved) == names


@pytest.mark.parametrize("kind", ["tg", "plm"])
def test_stacks_and_open_constituents_of_actions(kind: str, shown: Any, traces: dict[str, Trace]) -> None:
    depths, wrongs = set(), set()
    for _, each, of in hypotheses(shown, traces, kind):
        text, is_open = written(each.derivation, traces[kind].tokens)
        said = of["stack"].split(": ", 1)[1]
        assert re.sub(" +", " ", said).strip() == text
        spans, _, labels = spans_of_text(said)
        assert labels == is_open
        assert of["open"] == (f"Open: {' '.join(is_open)}" if is_open else "Nothing is open.")
        wrong = len({(s, e) for s, e in spans if s < e} - GOLD_SPANS)
        assert of["dashed"] == wrong
        assert of["wrong"].endswith(f"({wrong}).")
        depths.add(len(is_open))
        wrongs.add(wrong)
        assert of["tape"] is None
    assert len(depths) > 2
    assert len(wrongs) > 1
    # After the last token the best hypothesis is the best parse.
    best = traces[kind].best
    assert best is not None
    said = shown[kind]["steps"][-1]["hypotheses"][0]["stack"].split(": ", 1)[1]
    tree = Tree.from_brackets(best.tree)
    limits = zip(tree.starts.tolist(), tree.ends.tolist(), strict=True)
    assert spans_of_text(said)[0] == {(start + 1, end) for start, end in limits}
    assert re.findall(r"\((\w+)", said) == list(tree.labels)


def ancestors(steps: Sequence[Any]) -> list[list[int | None]]:
    """Of each hypothesis the one of the step before that it extends: whose derivation its own begins with."""
    found: list[list[int | None]] = [[None] * len(steps[0].hypotheses)]
    for before, step in pairwise(steps):
        starts = [each.derivation for each in before.hypotheses]
        found.append(
            [
                next((r for r, start in enumerate(starts) if each.derivation[: len(start)] == start), None)
                for each in step.hypotheses
            ]
        )
    return found


@pytest.mark.parametrize("kind", SEARCHED)
def test_ancestry(kind: str, shown: Any, traces: dict[str, Trace]) -> None:
    steps = traces[kind].steps
    before = ancestors(steps)
    assert any(None in of_step for of_step in before[1:]) or kind != "window"
    for k, families in enumerate(shown[kind]["ancestry"]):
        # What each hypothesis was at the earlier of two steps, as far as all between them are listed.
        def at(early: int, late: int, rank: int | None) -> int | None:
            while late > early and rank is not None:
                rank, late = before[late][rank], late - 1
            return rank

        for t, step in enumerate(steps):
            for rank in range(len(step.hypotheses)):
                if t >= k:
                    expected = at(k, t, rank)
                else:
                    became = [r for r in range(len(steps[k].hypotheses)) if at(t, k, r) == rank]
                    expected = min(became, default=None)
                assert families[t][rank] == expected
        # Their colours in the picture, and how much of the beam they have.
        drawn = shown[kind]["steps"][k]["hypotheses"][0]["time"]
        for column, step, of_step in zip(drawn, steps, families, strict=True):
            shares: dict[str, float] = defaultdict(float)
            heights: dict[str, float] = defaultdict(float)
            for each, family in zip(step.hypotheses, of_step, strict=True):
                if each.share > 0.003:
                    shares["#c9c9c9" if family is None else COLOURS[family]] += 100 * each.share
            for colour, height in column:
                heights[colour] += height
            assert heights == pytest.approx(shares, abs=2)


@pytest.mark.parametrize("kind", SEARCHED)
def test_hypotheses(kind: str, shown: Any, traces: dict[str, Trace]) -> None:
    n = len(traces[kind].tokens) - 1
    for step, on_page in zip(traces[kind].steps, shown[kind]["steps"], strict=True):
        assert on_page["where"] == f"{step.position}/{n} {traces[kind].tokens[step.position]}"
        said = re.match(r"(\d+) kept, ([\d.]+)% in those not listed", on_page["caption"])
        assert said is not None
        assert int(said[1]) == step.kept
        assert shows(said[2], 100 * step.rest, 2)
        for rank, (each, row) in enumerate(zip(step.hypotheses, on_page["beam"][1:], strict=True), 1):
            assert row[0] == str(rank)
            assert shows(row[1], 100 * each.share, 1)
            assert shows(row[4], each.joint, 1)
            assert row[5] == "" if each.surprisal is None else shows(row[5], each.surprisal, 1)
        if step.attachment is None:
            assert on_page["attachment"] is None
            continue
        likely = sorted((-p, j) for j, p in enumerate(step.attachment) if p >= 0.005)[:8]
        assert len(on_page["attachment"]) == len(likely)
        for text, (p, j) in zip(on_page["attachment"], likely, strict=True):
            name, _, share = text.rpartition(" ")
            assert name == ("shifts only" if j == step.position else f"with {traces[kind].tokens[j]}")
            assert shows(share, -100 * p, 1)
    assert any(step.rest > 0.01 for step in traces[kind].steps) or kind in ("pushdown", "window")


@pytest.mark.parametrize("kind", KINDS)
def test_surprisals_and_the_whole_sentence(kind: str, shown: Any, traces: dict[str, Trace]) -> None:
    one = traces[kind]
    for other, total in re.findall(r"([\w-]+): ([\d.]+) bits in all", shown[kind]["sums"]):
        assert shows(total, sum(bits or 0 for bits in traces[other].surprisals), 1)
    known = [
        (bits, token) for bits, token in zip(one.surprisals, one.tokens, strict=True) if bits is not None
    ]
    bars = shown[kind]["steps"][0]["bars"]
    for (text, label), (bits, token) in zip(bars, known, strict=True):
        assert label == token
        assert shows(text, bits, 1)
    for name, parse in (("best parse", one.best), ("gold tree", one.gold)):
        if parse is not None:
            joint = "" if parse.joint is None else r", log2 p\(x, y\) = (\S+)"
            found = re.search(name + joint + ": " + re.escape(parse.tree), shown[kind]["whole"])
            assert found is not None
            assert parse.joint is None or shows(found[1], parse.joint, 2)
    if one.dropped is not None and one.dropped >= 1e-4:
        found = re.search(r"dropped ([\d.]+)% of p", shown[kind]["whole"])
        assert found is not None
        assert shows(found[1], 100 * one.dropped, 2)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rnn"])
def test_attention(kind: str, shown: Any, traces: dict[str, Trace]) -> None:
    """From the third token's position: shares of the others, and of the first and third of these together.

    From the first token's, of both only what it has read.
    """
    found = traces[kind].attention
    assert found is not None
    n = len(found.positions)

    def row_of(token: int) -> int:
        row = max(k for k, each in enumerate(found.positions) if not isinstance(each, str) and each <= token)
        while row + 1 < n and ")" in str(found.positions[row + 1]) and traces[kind].derivations == "actions":
            row += 1
        return row

    def weights(text: str) -> np.ndarray[Any, Any]:
        """(layers, heads, rows, positions)."""
        triangles = np.frombuffer(base64.b64decode(text), np.uint8).reshape(found.layers, found.heads, -1)
        whole = np.zeros((found.layers, found.heads, n, n))
        rows, columns = np.tril_indices(n)
        whole[:, :, rows, columns] = triangles / 255
        return whole

    every = {"weights": weights(found.weights)}
    for name, text in found.without.items():
        every |= {f"without:{name}": weights(text), f"difference:{name}": every["weights"] - weights(text)}
    row = row_of(3)
    terms = {name: of[:, :, row] for name, of in every.items()}
    assert len(shown[kind]["attention"]) == found.layers * len(terms)
    for key, of in shown[kind]["attention"].items():
        layer, term = key.split(" ")
        means = terms[term][int(layer)].mean(0)
        assert len(of["shares"]) == row + 1
        for text, share in zip(of["shares"], means, strict=False):
            assert shows(text.rpartition(" ")[2], 100 * share, 0)
        for line, of_layer in zip(of["sums"][1:], terms[term], strict=True):
            for text, share in zip(line[1:], of_layer[:, 0] + of_layer[:, 2], strict=True):
                assert shows(text, 100 * share, 1)
        assert of["drawn"] == [(row + 1) * (row + 2) // 2] * found.heads
    back, row = shown[kind]["stepped_back"], row_of(1)
    assert back["shares"] == row + 1
    for line, of_layer in zip(back["sums"][1:], every[term][:, :, row], strict=True):
        for text, share in zip(line[1:], of_layer[:, 0] + of_layer[:, 2], strict=True):  # 0 beyond the row
            assert shows(text, 100 * share, 1)


@pytest.mark.parametrize("name", NAMES)
def test_what_constituents_are_made_of(name: str, tmp_path: Path) -> None:
    """Each constituent from the token on at which it closes, with its children's words and weights."""
    models = [loaded(name, rnng(name, composition, max_open=4)) for composition in ("attention", "lstm")]
    one, without = (trace(each, TEXT, SearchOptions(beam=40), hypotheses=4) for each in models)
    page = sentences_page([[one, without]], ["attention", "lstm"], MADE)
    found = evaluate(save_page(page, tmp_path / "page.html"), PROGRAM)
    assert all(step["composed"] is None for step in found["lstm"]["steps"])
    assert one.composed
    for k, step in enumerate(found["attention"]["steps"], start=1):
        closed = [each for each in one.composed if each.last <= k]
        for (now, label, *children), each in zip(step["composed"], closed, strict=True):
            assert (now, label) == (each.last == k, each.label)
            past = [*each.children[1:], each.last + 1]
            for text, first, end, weight in zip(children, each.children, past, each.weights, strict=True):
                words, _, share = text.rpartition(" ")
                assert words == " ".join(TEXT.split()[first - 1 : end - 1])
                assert shows(share, 100 * weight, 1)


def test_splits_and_stacks(shown: Any, traces: dict[str, Trace]) -> None:
    splits = traces["treereg"].splits
    assert splits
    for node, row in zip(splits, shown["treereg"]["splits"]["rows"][1:], strict=True):
        cells = {k: text for k, text in enumerate(row) if text}
        assert cells.pop(node.first) == "·"
        assert list(cells) == list(range(node.first + 1, node.past))
        assert all(shows(cells[k], node.scores[k - node.first - 1], 2) for k in cells)
        assert shows(shown["treereg"]["splits"]["bold"].pop(0), max(node.scores), 2)
    found = traces["rnn"].stacks
    assert found is not None
    for row, text, shares in zip(
        shown["rnn"]["stacks"]["cells"][1:], found["tokens"], found["shares"], strict=True
    ):
        assert row[0] == text
        assert [shows(x, 100 * share, 1) for x, share in zip(row[1:4], shares, strict=True)] == [True] * 3
    found = traces["stack-attention"].stacks
    assert found is not None
    for layer in found["layers"]:
        text = shown["stack-attention"]["stacks"]["text"]
        said = re.search(rf"Layer {layer['layer']}push (\S+) pop (\S+) no-op ([\d.]+)Stack", text)
        assert said is not None
        last = layer["actions"][len(found["tokens"]) - 1]
        assert [shows(x, 100 * share, 1) for x, share in zip(said.groups(), last, strict=True)] == [True] * 3


def test_derivations_of_many_tokens(tmp_path: Path) -> None:
    """Random derivations of up to 12 tokens: tapes, stacks, their pictures."""
    rng = np.random.default_rng(3)
    for n in (1, 5, 12):
        one = random_trace([f"w{k}" for k in range(1, n + 1)], int(rng.integers(1000)), hypotheses=6)
        path = save_page(sentences_page([[one]], ["A"], MADE), tmp_path / f"{n}.html")
        found = evaluate(path, PROGRAM)["A"]
        gold, _ = spans_of_attachments(one.gold.derivation or (), n) if one.gold else (set(), 0)
        for step, on_page in zip(one.steps, found["steps"], strict=True):
            for each, of in zip(step.hypotheses, on_page["hypotheses"], strict=True):
                expected, parts = spans_of_attachments(each.derivation, n)
                assert spans_of_text(of["stack"].split(": ", 1)[1]) == (expected, parts, [])
                assert of["wrong"].endswith(f"({len(expected - gold)}).")
                rows = tape(each.derivation)
                assert of["tape"] == [x for k, row in enumerate(rows) for x in row[: k + 1].tolist()]


def test_a_pair(tmp_path: Path) -> None:
    """Tokens in common stand in one column; where surprisals part, and their sums."""
    sentences = (["the", "big", "dogs", "bark", "."], ["the", "dogs", "barks", "."])
    traces = [[random_trace(words, seed) for seed in (m, m + 10)] for m, words in enumerate(sentences)]
    page = sentences_page(traces, ["A", "B"], MADE, pair=True)
    found = evaluate(save_page(page, tmp_path / "pair.html"), PROGRAM)
    columns = [(1, 1), (2, None), (3, 2), (4, 3), (5, 4), (6, 5)]
    for m, shown in enumerate(found["pairs"]):
        good, bad = ((None, *traces[side][m].surprisals[1:]) for side in (0, 1))
        differences = [(0.0 if j is None else bad[j]) - (0.0 if i is None else good[i]) for i, j in columns]
        said = re.match(
            r"(right|wrong): good (\S+) bits, bad (\S+); bad − good = (\S+)\."
            r" They part most at (.*) \((\S+) bits\)",
            shown["said"],
        )
        assert said is not None
        total = sum(differences)
        assert said[1] == ("right" if total > 0 else "wrong")
        assert shows(said[2], sum(good[1:]), 2)
        assert shows(said[3], sum(bad[1:]), 2)
        assert shows(said[4].removeprefix("+"), total, 2)
        most = max(range(len(columns)), key=lambda c: abs(differences[c]))
        assert shows(said[6].removeprefix("+"), differences[most], 2)
        i, j = columns[most]
        names = [traces[0][m].tokens[i], "–" if j is None else traces[1][m].tokens[j]]
        assert said[5] == (f"“{names[0]}”" if names[0] == names[1] else f"“{names[0]}” / “{names[1]}”")
        for c, (row, (i, j)) in enumerate(zip(shown["rows"][1:], columns, strict=True)):
            assert row[0] == traces[0][m].tokens[i]
            assert row[2] == ("" if j is None else traces[1][m].tokens[j])
            assert number(row[1]) == pytest.approx(good[i], abs=0.0006)
            assert row[3] == "–" if j is None else number(row[3]) == pytest.approx(bad[j], abs=0.0006)
            assert shows(row[4].removeprefix("+"), differences[c], 2)
            assert shows(row[5].removeprefix("+"), sum(differences[: c + 1]), 2)


def test_whatever_text_says_it_is_text(tmp_path: Path) -> None:
    tokens = [
        "</script>",
        "<script>hit()</script>",
        "<!--",
        "$x$",
        "&amp;",
        "\u2028",
        "שלום",
        "\ud800",
        "\x01",
    ]
    path = save_page(sentences_page([[random_trace(tokens, 1)]], ["<b>B</b>"], MADE), tmp_path / "page.html")
    found = evaluate(
        path, "return [page.sentences, page.models, page.title, (await packed('trace-0-0')).tokens];"
    )
    assert found[0] == [" ".join(tokens)]
    assert found[1] == ["<b>B</b>"]
    assert found[3] == ["<root>", *tokens, "<eos>"]
    assert "<script>hit" not in path.read_text("utf-8")


@pytest.mark.parametrize("token", [1, 2, N])
def test_the_token_that_is_chosen_is_the_row_of_its_stack(
    token: int, traces: dict[str, Trace], tmp_path: Path
) -> None:
    found = traces["rnn"].stacks
    assert found is not None
    path = save_page(sentences_page([[traces["rnn"]]], ["rnn"], MADE), tmp_path / "page.html")
    asked = "return all('#panel-stacks tbody tr').map((row) => row.getAttribute('class') === 'chosen');"
    assert evaluate(path, asked, f"token={token}") == [k == token for k in range(1, len(found["tokens"]) + 1)]


@needs_node
def test_the_address_and_the_keys_say_which_token_and_parts_of_words_are_marked(tmp_path: Path) -> None:
    traces = [random_trace(words, 1) for words in (["un", "believ", "able", "dogs", "!"], [*"abc"], ["last"])]
    traces[0] = replace(traces[0], word=(-1, 0, 0, 0, 1, 1, -1))
    path = save_page(sentences_page([[each] for each in traces], ["A"], MADE), tmp_path / "page.html")
    pressed = ["Home", *["ArrowRight"] * 3, "2", "ArrowLeft", "End", "ArrowLeft", "ArrowRight", "ArrowRight"]
    keys = (
        "const found = [];"
        f"for (const key of {pressed}) {{ document.dispatch('keydown', {{ key, target: document.body }});"
        "  await later();"
        "  found.push([one('.where').textContent, state.get('hypothesis', '')]); }"
        "return found;"
    )
    tokens = ["1/6 un", "2/6 ·believ", "3/6 ·able", "4/6 dogs", "5/6 ·!", "6/6 <eos>"]
    found = evaluate(path, keys)
    assert [where for where, _ in found] == [tokens[i] for i in (0, 1, 2, 3, 3, 2, 5, 4, 5, 5)]
    assert [hypothesis for _, hypothesis in found] == ["", "", "", "", "2", "", "", "", "", ""]
    for state, where in (
        ("", "1/6 un"),
        ("sentence=2&token=2", "2/4 b"),
        ("sentence=8&token=1", "1/2 last"),
        ("sentence=x&token=9", "6/6 <eos>"),
    ):
        assert evaluate(path, "return one('.where').textContent;", state) == where


def test_stacks_bars_and_trees_of_models_with_other_tokens(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    words = ["the", "old", "dog", "barks"]
    run: dict[str, Any] = {
        "kind": "run",
        "stack": "nondeterministic",
        "tokens": words,
        "actions": ["push", "pop"],
        "shares": rng.random((4, 2)).tolist(),
        "tops": rng.random((4, 3)).tolist(),
        "states": rng.random((4, 2)).tolist(),
        "run_log_share": -1.5,
        "run": [["push", 1, [0, 2]], ["push", 0, [0, 2, 1]], ["pop", 1, [0, 2]], ["pop", 0, [0]]],
    }
    tokens = ["<root>", *words, "<eos>"]
    layers: list[dict[str, Any]] = [
        {
            "layer": layer,
            "actions": rng.random((6, 3)).tolist(),
            "attention": np.tril(rng.random((6, 6))).tolist(),
            "replayed": [[], [1], [1, 2] if layer == 2 else [], [3], [3, 4], []],
        }
        for layer in (2, 5)
    ]
    attention = {"kind": "attention", "tokens": tokens, "layers": layers, "predicted": None}
    traces = [
        replace(random_trace(words, 3), stacks=run),
        replace(random_trace(words, 8), stacks=attention),
        random_trace(["the", "o", "ld", "dog", "barks"], 4),
    ]
    shares = (0.5, 0.25, 0.125)
    for m, one in enumerate(traces):
        steps = tuple(
            replace(
                step,
                hypotheses=tuple(
                    replace(each, share=share) for each, share in zip(step.hypotheses, shares, strict=True)
                ),
            )
            for step in one.steps
        )
        model = {**one.model, "model": f"model-{m}", "beam": None if m == 1 else 4 + m}
        traces[m] = replace(one, steps=steps, model=model)
    names = ["A", "B", "C"]
    path = save_page(sentences_page([traces], names, MADE), tmp_path / "page.html")
    found = evaluate(path, program("stacks_page"))
    said = [
        "A: derivation model-0, beam 4",
        "B: derivation model-1",
        "C: derivation model-2, beam 6",
    ]
    assert found["described"].startswith(" · ".join(said))
    for m, (name, one) in enumerate(zip(names, traces, strict=True)):
        shown, k = found[name], 2
        # Bars: those of the chosen model are filled; models with other tokens have pictures of their own.
        alike = [m, *(i for i in range(3) if i != m and traces[i].tokens == one.tokens)]
        pictures = [alike, *([i] for i in range(3) if i not in alike)]
        assert len(shown["bars"]) == len(pictures)
        for n, (picture, of) in enumerate(zip(shown["bars"], pictures, strict=True)):
            # Of the first picture a token is chosen; those after it are grey, and those before it pale.
            chosen = k - len(one.tokens) + len(picture["columns"])
            bits = [traces[i].surprisals[-len(picture["columns"]) :] for i in of]
            most = max(1.0, *(x for each in bits for x in each if x is not None))
            ticks = [number(tick) for tick in picture["ticks"]]
            assert ticks == pytest.approx([0, most / 2, most], abs=0.51 if most >= 10 else 0.051)
            for c, column in enumerate(picture["columns"]):
                known = [(each[c], i) for each, i in zip(bits, of, strict=True) if each[c] is not None]
                for (fill, stroke, y, height), (x, i) in zip(column["bars"], known, strict=True):
                    assert (height, y + height) == pytest.approx((110 * x / most, 126), abs=0.01)
                    assert (i == of[0]) == (fill != "none") == (stroke == "none")
                    if i == of[0]:
                        pale, later = n == 0 and c < chosen, n == 0 and c > chosen
                        assert fill == ("#e3e3e3" if later else COLOURS[i] + "80" * pale)
                    else:
                        assert stroke == (COLOURS[i] if c <= chosen else "#c4c4c4")
                assert not known or shows(column["texts"][0], known[0][0], 1)
        rows = [
            [names[i], str(j), traces[i].tokens[j], bits]
            for i in (m, *(i for i in range(3) if i != m))
            for j, bits in enumerate(traces[i].surprisals)
        ]
        assert shown["tsv"][0] == ["model", "position", "token", "bits"]
        for (*text, value), (*expected_text, bits) in zip(shown["tsv"][1:], rows, strict=True):
            assert text == expected_text
            assert value == "" if bits is None else float(value) == pytest.approx(bits, rel=1e-4)
        # The tree: each node in the middle between its first and its last child, in LaTeX too.
        wrong = 0
        for step, tree in zip(one.steps, shown["trees"], strict=True):
            spans, _ = spans_of_attachments(step.hypotheses[0].derivation, len(one.words))
            assert len(tree["constituents"]) == len(spans)
            at = {x for _, x in tree["words"]} | {lines[0][0] for lines in tree["constituents"]}
            for lines in tree["constituents"]:
                assert {x1 for x1, _ in lines} == {(lines[0][1] + lines[-1][1]) / 2}
                assert {x2 for _, x2 in lines} <= at
            read = [token for token in one.tokens[1 : step.position + 1] if token != "<eos>"]
            assert [word for word, _ in tree["words"]] == read
            assert re.findall(r"\[\{(\w+)\}\]", tree["latex"]) == read
            assert tree["latex"].count("edge=dashed") == tree["dashed"]
            wrong += 0 < tree["dashed"] != len(spans) - tree["dashed"]
        assert wrong
        # The beam over time and the tape.
        expected_shares = [
            [f"{one.tokens[step.position]}: {100 * x:.1f}%" for x in shares] for step in one.steps
        ]
        assert [sorted(column) for column in shown["shares"]] == [
            sorted(column) for column in expected_shares
        ]
        assert shown["time_ticks"] == [["0%", 132], ["50%", 72], ["100%", 12]]
        assert shown["tape_rows"] == list(one.tokens[: k + 1])
        head, *table = shown["tape"]
        assert head == ["after", *one.tokens[: k + 1]]
        depths = tape(one.steps[k - 1].hypotheses[0].derivation)
        for j, row in enumerate(table):
            cells = [str(x) for x in depths[j][: j + 1].tolist()]
            assert row == [one.tokens[j], *cells, *[""] * (k - j)]
    table = found["A"]["stacks"]["cells"]
    assert table[0] == ["token", "push", "pop", "heaviest run", "state", "stack"]
    for row, word, both, (kind, state, symbols) in zip(
        table[1:], words, run["shares"], run["run"], strict=True
    ):
        assert [row[0], *row[3:]] == [word, kind, str(state), " ".join(map(str, symbols))]
        assert all(shows(x, 100 * share, 1) for x, share in zip(row[1:3], both, strict=True))
    caption, tops, states = found["A"]["stacks"]["paragraphs"]
    assert caption.endswith("; the heaviest run has 22.3% of the weight")
    for text, before, expected in ((tops, "symbol ", run["tops"][1]), (states, "q", run["states"][1])):
        pairs = re.findall(rf"{before}(\d) ([\d.]+)", text)
        assert [int(i) for i, _ in pairs] == list(range(len(expected)))
        assert all(shows(x, 100 * share, 1) for (_, x), share in zip(pairs, expected, strict=True))
    paragraphs = [text for text in found["B"]["stacks"]["paragraphs"] if text.startswith("Stack of")]
    assert [text.partition(": ")[2] for text in paragraphs] == ["the old", "empty"]
    for fills, layer in zip(found["B"]["stacks"]["fills"], layers, strict=True):
        weights = {
            (y / height, x / width): float(fill.split(", ")[-1][:-1]) for x, y, width, height, fill in fills
        }
        expected_weights = {(i, j): layer["attention"][i][j] for i in range(3) for j in range(i + 1)}
        assert weights == pytest.approx(expected_weights, rel=1e-4)


def test_what_was_chosen_does_not_hold_for_another_sentence_model_or_token(tmp_path: Path) -> None:
    """Hypotheses, layers and columns of attention, under one model of two layers and one of one."""
    models = [loaded("A", tiny_model("pushdown")), loaded("B", tiny_model("pushdown", layers=1))]
    search = SearchOptions(beam=20)
    traces = [[trace(each, text, search, hypotheses=4) for each in models] for text in (TEXT, "c a b c")]
    for of_models in traces:  # a model that cuts texts into other tokens
        of_models.append(replace(of_models[1], tokens=tuple(f"{token}_" for token in of_models[1].tokens)))
    path = save_page(sentences_page(traces, ["A", "B", "C"], MADE), tmp_path / "page.html")
    steps = """
        const [sentence, model] = all(".bar select");
        const panel = () => one("#panel-attention"), columns = () => panel().querySelectorAll(".pickcolumn");
        const found = [];
        const now = () => found.push([state.get("hypothesis", ""),
          panel().textContent.match(/of layer (\\d+)/)[1],
          columns().filter((each) => each.getAttribute("aria-pressed") === "true").length,
          panel().querySelectorAll("table").map((each) =>
            each.getAttribute("aria-label").split(" + ").length)]);
        const press = async (key) => {
          document.dispatch("keydown", { key, target: document.body });
          await later();
        };
        const choose = async () => {
          await press("2"); write(panel().querySelectorAll("select")[0], 1);
          for (const j of [1, 2, 3]) columns()[j].click();
          now();
        };
        write(one("input[type=range]"), 3); await later();
        await choose();
        await press("ArrowLeft"); now();
        await press("ArrowRight"); await press("2");
        write(model, 1); await later(); now();
        write(model, 0); await later(); write(one("input[type=range]"), 3); await later();
        for (const each of columns()) if (each.getAttribute("aria-pressed") === "true") each.click();
        await choose();
        write(sentence, 1); for (let i = 0; i < 9; i++) await later(); now();
        columns()[0].click(); now();
        write(model, 2); await later(); now();
        return found;"""
    found = evaluate(path, steps)
    # Hypothesis, layer (the second model has one), columns up to the token, columns in the caption.
    chosen = ["2", "2", 3, [3]]
    kept = [chosen, ["", "2", 2, [2]], ["", "1", 3, [3]], chosen]
    assert found == [*kept, ["", "2", 0, []], ["", "2", 1, [1]], ["", "1", 0, []]]
