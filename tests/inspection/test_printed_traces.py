"""Traces on a terminal: what lines say, within 80 columns, of every kind of model; the command."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from search_oracle import all_attachments

from pdtools.cli.main import run
from pdtools.inspection.trace import Hypothesis, Parse, Trace, TraceStep
from pdtools.inspection.tracing import trace
from pdtools.models import LoadedModel, save_checkpoint
from pdtools.report.traces import actions_text, stack_text, trace_lines
from pdtools.report.trees import tree_text
from pdtools.search.options import SearchOptions
from pdtools.trees import Tree, tape
from pdtools.trees import stack_text as brackets_text

TOKENS = ("<root>", "the", "dog", "barks", "<eos>")


def example() -> Trace:
    """Of a sentence whose beam is known."""
    hypotheses = (
        Hypothesis((0, 1, 1), -5.5, 0.75, 0, 2.0),
        Hypothesis((0, 1, 2), -7.0, 0.2, 0, 2.0),
    )
    return Trace(
        model={"folder": "runs/p", "model": "pushdown", "beam": 3, "margin": None},
        derivations="attachments",
        text="the dog barks",
        words=("the", "dog", "barks"),
        tokens=TOKENS,
        word=(-1, 0, 1, 2, -1),
        starts=(0, 0, 4, 8, 13),
        ends=(0, 3, 7, 13, 13),
        surprisals=(None, 3.0, 2.0, 4.25, 0.5),
        dropped=0.0125,
        steps=(
            TraceStep(2, 3, hypotheses, 0.05, (0.0, 0.78, 0.22)),
            TraceStep(
                4, 1, (Hypothesis((0, 1, 1, 2, 0), -9.75, 1.0, 0, 0.5),), 0.0, (1.0, 0.0, 0.0, 0.0, 0.0)
            ),
        ),
        best=Parse((0, 1, 1, 1, 0), "(X (X (XX the) (XX dog)) (XX barks))", -9.75),
        gold=Parse((0, 1, 1, 3, 0), "(X (X (XX the) (XX dog)) (XX barks))", -10.0),
    )


@pytest.mark.parametrize("seed", range(24))
def test_any_trace_is_said_as_it_is(seed: int, models: dict[str, LoadedModel]) -> None:
    """All lines of models of any kind, with searches, hypotheses and gold trees of any kind."""
    rng = random.Random(seed)
    kind = ["pushdown", "plm", "tg", "window", "treereg", "head", "plm-mask", "base"][seed % 8]
    is_action = kind in ("tg", "plm", "plm-mask")
    words = [rng.choice("abc") for _ in range(rng.randint(2, 4))]
    trees = [f"(S (NP (X {words[0]})) (VP {' '.join(f'(X {word})' for word in words[1:])}))"]
    trees += [f"(S (NP {' '.join(f'(X {word})' for word in words[:-1])}) (X {words[-1]}))"]
    gold = Tree.from_brackets(rng.choice(trees)) if kind != "base" and rng.random() < 0.7 else None
    margin, word_beam = rng.choice([None, 0.5, 3.0]), rng.choice([None, 4]) if is_action else None
    search = SearchOptions(beam=rng.choice([2, 5, 30]), margin=margin, word_beam=word_beam)
    found = trace(
        models[kind], " ".join(words), search, hypotheses=rng.choice([1, 2, 4]), attention=False, gold=gold
    )
    if found.model.get("beam") is not None:
        assert (found.model["beam"], found.model.get("margin")) == (search.beam, margin)
    said = [Path(str(found.model["folder"])).name, str(found.model["model"])]
    for name in ("beam", "word_beam", "margin"):
        said += [f"{name.replace('_', ' ')} {found.model[name]}"] if found.model.get(name) is not None else []
    wanted = [" ".join(words), ", ".join(said)]
    wanted += ["*: goes with the gold tree"] if found.steps and gold is not None else []
    steps = {step.position: step for step in found.steps}
    for k, (token, bits) in enumerate(zip(found.tokens, found.surprisals, strict=True)):
        if bits is None:
            continue
        step = steps.get(k)
        wanted.append(f"{k} {token} {bits:.2f} bits" + ("" if step is None else f" {step.kept} kept"))
        if step is None:
            continue
        if step.attachment is not None and k + 1 < len(found.tokens):
            by_share = sorted(range(len(step.attachment)), key=lambda j: (-step.attachment[j], j))
            targets = [
                f"{'shift' if j == k else f'{j} {found.tokens[j]}'} {100 * step.attachment[j]:.1f}%"
                for j in by_share
                if step.attachment[j] >= 0.001
            ]
            wanted.append(f"attaches {', '.join(targets)}")
            best = list(map(int, step.hypotheses[0].derivation))
            wanted.append(f"tape {' '.join(map(str, tape(best)[-1].tolist()))}")
        for each in step.hypotheses:
            is_gold = (
                found.gold is not None and found.gold.derivation[: len(each.derivation)] == each.derivation
            )
            text = (stack_text if step.attachment is not None else actions_text)(
                each.derivation, found.tokens
            )
            wanted.append(f"{'*' if is_gold else ' '}{100 * each.share:6.2f}% {text}")
        if step.kept > len(step.hypotheses):
            rest = 100 * (1 - sum(each.share for each in step.hypotheses))
            wanted.append(f"{rest:.2f}% the other {step.kept - len(step.hypotheses)}")
    total = f"{sum(bits for bits in found.surprisals if bits is not None):.2f} bits together"
    lost = (
        "" if found.dropped is None else f"; dropped by the search, as estimated: {100 * found.dropped:.2f}%"
    )
    wanted.append(total + lost)
    is_same = None not in (found.gold, found.best) and found.gold.tree == found.best.tree
    named = {
        f"best parse{', the gold tree' * is_same}": found.best,
        "gold tree": None if is_same else found.gold,
    }
    for name, parse in named.items():
        if parse is not None:
            bits_of = "" if parse.joint is None else f": {-parse.joint:.2f} bits with its words"
            wanted += ["", name + bits_of, *tree_text(Tree.from_brackets(parse.tree)).splitlines()]
    if found.splits:
        wanted += ["", "scores of splits; in brackets the highest of each node:"]
    for node in found.splits or ():
        parts = [words[node.first]]
        for place, score in zip(range(node.first + 1, node.past), node.scores, strict=True):
            parts += [f"[{score:.2f}]" if place == node.split else f"{score:.2f}", words[place]]
        wanted.append(" ".join(parts))
    shown: list[str] = []
    for line in trace_lines(found):
        if line.startswith(" " * 15):  # goes on
            shown[-1] += f" {line.strip()}"
        else:
            shown.append(re.sub(" +", " ", line).strip())
    assert shown == [re.sub(" +", " ", line).strip() for line in wanted]


def test_stacks_are_those_of_the_tape() -> None:
    """The same constituents as in the parses of ``pdtools surprisal --parses``."""
    for attach in all_attachments(3):
        for length in range(2, 6):
            ours = stack_text(tuple(attach[:length]), TOKENS)
            theirs = brackets_text(np.array(attach[:length], np.int32), TOKENS[1:-1])
            assert ours.replace(" ‖", "") == theirs.replace("(X ", "[").replace(")", "]")


def test_actions_are_brackets() -> None:
    derivation = ("(S", "(NP", 1, 2, "NP)", "(VP", 3)
    assert actions_text(derivation, TOKENS) == "(S (NP the dog) (VP barks"


@pytest.mark.parametrize("kind", ["pushdown", "window", "head", "base", "treereg", "tg", "plm", "plm-mask"])
def test_all_models_fit_a_terminal(kind: str, models: dict[str, LoadedModel]) -> None:
    text = "a b c a b c a b" if kind == "pushdown" else "a b c"
    lines = list(trace_lines(trace(models[kind], text, SearchOptions(beam=20), attention=False)))
    assert max(map(len, lines)) <= 80
    assert sum("bits" in line and line[:4].strip().isdigit() for line in lines) == len(text.split()) + 1


def test_long_and_hostile_tokens_fit_too() -> None:
    tokens = ("<root>", "w" * 200, "\x1b[2J\u202e", *("x" * 30 for _ in range(30)), "<eos>")
    n = len(tokens) - 2
    step = TraceStep(n, 1, (Hypothesis(tuple(range(n + 1)), -1.0, 1.0, 0, 1.0),), 0.0, (1.0,) + (0.0,) * n)
    found = replace(
        example(), text=" ".join(tokens), tokens=tokens, surprisals=(None, *[1.0] * (n + 1)), steps=(step,)
    )
    lines = list(trace_lines(found))
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)


@pytest.fixture(scope="module")
def saved(models: dict[str, LoadedModel], tmp_path_factory: pytest.TempPathFactory) -> Path:
    loaded = models["pushdown"]
    shards = {"layout": "sentence", "factor": "right", "text_style": "ptb"}
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_checkpoint(folder, loaded.model, loaded.tokenizer, shards=shards)
    return folder


def test_the_command(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["inspect", "a b c", "--model", str(saved), "--threads", "1", "--beam", "20"]
    gold = "(S (X a) (NP (X b) (X c)))"
    assert run([*command, "--gold", gold]) == 0
    shown = capsys.readouterr().out
    assert "*: goes with the gold tree" in shown
    assert "attaches" in shown
    assert run([*command, "--json", "--hypotheses", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert [len(step["hypotheses"]) for step in document["steps"]] == [1, 2, 2, 2]
    assert set(document["attention"]["without"]) == {"depth"}
