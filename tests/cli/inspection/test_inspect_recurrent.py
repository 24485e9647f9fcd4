"""Looking inside recurrent models: numbers that agree with the model, lines, pictures, history."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pdtools.cli.main import run
from pdtools.inspection.recurrent import inspect_run, shares_of
from pdtools.models import (
    build_model,
    collate,
    load_checkpoint,
    make_config,
    save_checkpoint,
)
from pdtools.report.stacks import draw_run, run_lines
from pdtools.tokenization import split_spaces, train_word_tokenizer


def saved(folder: Path, **options: Any) -> Path:
    tokenizer = train_word_tokenizer(["a", "b", "c"], text_style="ptb", unk=False)
    ids = {key: getattr(tokenizer, key) for key in ("vocab_size", "pad_id", "root_id", "eos_id")}
    torch.manual_seed(0)
    model = build_model("rnn", make_config("rnn", {**ids, "hidden_size": 6, **options}))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    save_checkpoint(folder, model, tokenizer, shards={})
    return folder


@pytest.mark.parametrize("stack", ["nondeterministic", "superposition", "stratification"])
def test_what_is_seen_is_what_the_model_does(tmp_path: Path, stack: str) -> None:
    loaded = load_checkpoint(saved(tmp_path / "model", stack=stack, stack_vector=2))
    view = inspect_run(loaded, "a b c a")
    assert view.tokens == ["a", "b", "c", "a"]
    ids = loaded.tokenizer.encode(split_spaces("a b c a")).ids
    parts = loaded.model.forward_parts(collate([(ids, list(range(6)))], loaded.tokenizer.pad_id))
    bits = -parts.token_logprobs[0, 1:].detach() / torch.log(torch.tensor(2.0))
    assert view.surprisal == pytest.approx(bits.tolist(), rel=1e-4)
    assert len(view.shares) == 4
    if stack != "stratification":
        assert [sum(row) for row in view.shares] == pytest.approx([1.0] * 4)
    if stack == "nondeterministic":
        assert [len(row) for row in view.tops] == [3] * 4
        assert [sum(row) for row in view.tops] == pytest.approx([1.0] * 4)
        assert [sum(row) for row in view.states] == pytest.approx([1.0] * 4)
        assert view.run_log_share < 0
        assert [len(stack) >= 2 for _, _, stack in view.run] == [True] * 4
    else:
        with pytest.raises(ValueError, match=f"kind {stack} has no configurations"):
            shares_of([view], ["push"] * 4, everywhere=True)
        assert view.run is None


@pytest.mark.parametrize("first_input", ["none", "eos", "root"])
@pytest.mark.parametrize("stack", ["nondeterministic", "superposition"])
def test_tops_are_those_of_the_decoder(tmp_path: Path, first_input: str, stack: str) -> None:
    """What is read before the first token has actions too: the stack is no longer empty at the first one."""
    loaded = load_checkpoint(saved(tmp_path / "model", stack=stack, stack_vector=2, first_input=first_input))
    view = inspect_run(loaded, "a b c a")
    assert len(view.shares) == 4
    if stack != "nondeterministic":
        return
    ids = torch.from_numpy(loaded.tokenizer.encode(split_spaces("a b c a")).ids).long()
    with torch.inference_mode():
        state = loaded.model.start(1, len(ids))
        for k, token in enumerate(ids):
            loaded.model.advance(state, token[None], torch.zeros(1, k + 1, dtype=torch.int16))
            if k >= 2:  # what was done after token k - 1 made the stack that is read with token k
                alpha = state.run.stack_run.alpha[0].view(loaded.model.stack.symbols, -1)  # (S, Q)
                assert view.tops[k - 2] == pytest.approx(alpha.sum(1).tolist())
                assert view.states[k - 2] == pytest.approx(alpha.sum(0).tolist())
    assert len(view.run) == 4


def sums_and_best(log_weights: Any, states: int) -> tuple[list[dict[Any, float]], tuple[float, list[Any]]]:
    """Of all runs: weights of stacks with states after each step, and the heaviest with its log weight."""
    c = log_weights.shape[1]
    weights, best = [{((0,), 0): 1.0}], {((0,), 0): (0.0, list[Any]())}
    for of_step in log_weights.tolist():
        summed: dict[Any, float] = {}
        heaviest: dict[Any, tuple[float, list[Any]]] = {}
        for (stack, state), weight in weights[-1].items():
            logs = of_step[stack[-1] * states + state]
            after = [("push", (*stack, k // states), k % states, logs[k]) for k in range(c)]
            if len(stack) > 1:  # the bottom stays
                after += [("replace", (*stack[:-1], k // states), k % states, logs[c + k]) for k in range(c)]
            if len(stack) > 2:
                after += [("pop", stack[:-1], k, logs[2 * c + k]) for k in range(states)]
            for kind, made, into, log in after:
                summed[made, into] = summed.get((made, into), 0.0) + weight * math.exp(log)
                total, path = best[stack, state]
                if total + log > heaviest.get((made, into), (-math.inf, []))[0]:
                    heaviest[made, into] = total + log, [*path, (kind, into, list(made))]
        weights.append(summed)
        best = heaviest
    return weights, max(best.values(), key=lambda each: each[0])


@pytest.mark.parametrize("first_input", ["none", "eos", "root"])
@pytest.mark.parametrize("kind", ["nondeterministic", "normalized", "superposition", "stratification"])
def test_all_that_is_seen_by_enumeration(tmp_path: Path, first_input: str, kind: str) -> None:
    """The actions after each token are told, whether or not others come before the first."""
    options: dict[str, Any] = {"stack": kind, "stack_vector": 2}
    if kind == "normalized":
        options = {"stack": "nondeterministic", "stack_unnormalized": False}
    loaded = load_checkpoint(saved(tmp_path / "model", first_input=first_input, **options))
    model, texts = loaded.model, ["a b c a", "c"]
    for text in texts:
        view, actions = inspect_run(loaded, text), []
        ids = torch.from_numpy(loaded.tokenizer.encode(split_spaces(text)).ids).long()
        with torch.inference_mode():
            state = model.start(1, len(ids))
            for k, token in enumerate(ids[:-1]):
                model.advance(state, token[None], torch.zeros(1, k + 1, dtype=torch.int16))
                actions += [state.run.actions()[0]] if k or first_input != "none" else []
        n = len(ids) - 2
        if options["stack"] != "nondeterministic":
            own = torch.stack(actions[-n:])
            wanted = own[:, :3].softmax(1) if kind == "superposition" else own[:, :2].sigmoid()
            torch.testing.assert_close(torch.tensor(view.shares), wanted)
            continue
        with torch.inference_mode():
            logs = model.stack.log_weights(torch.stack(actions))
        q, c = model.stack.states, model.stack.configurations
        weights, (heaviest, path) = sums_and_best(logs, q)
        total = sum(weights[-1].values())
        assert view.run == [tuple(step) for step in path[-n:]]
        assert view.run_log_share == pytest.approx(heaviest - math.log(total), abs=1e-5)
        for t in range(n):
            at = len(actions) - n + t
            alpha = torch.zeros(c, dtype=torch.float64)
            for (stack, own_state), weight in weights[at].items():
                alpha[stack[-1] * q + own_state] += weight
            for shown, by in ((view.shares, alpha), (view.shares_everywhere, torch.ones(c))):
                moved = (logs[at].exp() * by[:, None]).sum(0)
                kinds = torch.stack([part.sum() for part in moved.split([c, c, q])])
                assert shown[t] == pytest.approx((kinds / kinds.sum()).tolist())
            after, share = weights[at + 1], sum(weights[at + 1].values())
            for s, top in enumerate(view.tops[t]):
                assert top == pytest.approx(sum(w for (of, _), w in after.items() if of[-1] == s) / share)
            for r, is_in in enumerate(view.states[t]):
                assert is_in == pytest.approx(sum(w for (_, of), w in after.items() if of == r) / share)


def test_shares_where_an_unreached_configuration_outweighs_all(tmp_path: Path) -> None:
    loaded = load_checkpoint(saved(tmp_path / "model", stack_states=1, stack_symbols=2))
    with torch.no_grad():
        loaded.model.actions.weight.zero_()
        logits = torch.zeros(2, 5)  # of each symbol on top: two pushes, two replacements, a pop
        logits[1] = 800  # at first the bottom symbol is on top, and not this one
        logits[1, 4] = 0
        loaded.model.actions.bias.copy_(logits.flatten())
    view = inspect_run(loaded, "a b")
    assert view.shares[0] == pytest.approx([0.4, 0.4, 0.2])
    assert [sum(row) for row in view.shares] == pytest.approx([1, 1])
    assert view.shares_everywhere is not None
    for row in view.shares_everywhere:
        assert row == pytest.approx([0.5, 0.5, 0])
    assert shares_of([view], ["pop", "push"]) == [pytest.approx([0.2, view.shares[1][0]])]
    assert shares_of([view], ["pop", "push"], everywhere=True) == [pytest.approx([0, 0.5])]


def test_tokens_that_look_like_formulas_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    view = inspect_run(load_checkpoint(saved(tmp_path / "model")), "a b c")
    tokens = ["$$", "$x_$", "\\frac"]
    draw_run(tmp_path / "run.svg", replace(view, tokens=tokens))
    assert "$x_$" in (tmp_path / "run.svg").read_text()


def test_the_share_of_the_heaviest_run_is_its_probability(tmp_path: Path) -> None:
    # With one state and one symbol a run is its heights alone, and the first step is a push: two tokens have
    # the runs push push and push replace (there is nothing to pop to).
    loaded = load_checkpoint(saved(tmp_path / "model", stack_states=1, stack_symbols=1))
    view = inspect_run(loaded, "a b")
    shares = dict(zip(view.actions, view.shares[1], strict=True))
    possible = shares["push"] + shares["replace"]
    assert view.run[1][0] == max(("push", "replace"), key=shares.__getitem__)
    assert torch.tensor(view.run_log_share).exp() == pytest.approx(
        max(shares["push"], shares["replace"]) / possible, rel=1e-4
    )


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    model = str(saved(tmp_path / "model"))
    assert run(["inspect", "a b c", "--model", model]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["token", "bits"]
    assert lines[1].startswith("a ")
    assert lines[0].index("│0 1 ") == lines[1].index("│")  # the symbols on top, above their shades
    assert "push" in lines[1]
    assert lines[-1].startswith("the heaviest run has e^-")
    assert run(["inspect", "a b c", "--model", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == ["a", "b", "c"]
    for suffix in (".svg", ".png"):
        assert run(["inspect", "a b c", "--model", model, "-o", str(tmp_path / f"run{suffix}")]) == 0
        assert (tmp_path / f"run{suffix}").stat().st_size > 1000
    plain = str(saved(tmp_path / "plain", stack="none"))
    assert run(["inspect", "a b", "--model", plain]) == 0
    assert "<eos>" in capsys.readouterr().out  # surprisals


@pytest.mark.parametrize("first_input", ["none", "root"])
@pytest.mark.parametrize("stack", ["superposition", "nondeterministic"])
def test_a_masked_model_of_a_task_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stack: str, first_input: str
) -> None:
    options = ["hidden_size=8", "stack_depth=9", f"stack={stack}", f"first_input={first_input}"]
    given = [word for option in options for word in ("--set", f"config.{option}")]
    given += [
        "--set",
        "train.steps=1",
        "--device",
        "cpu",
        "--threads",
        "1",
        "--quiet",
        "-o",
        str(tmp_path / "run"),
    ]
    assert run(["train", "--task", "rs", "--lengths", "1-4", "--config", "dcf-rnn", *given]) == 0
    loaded = load_checkpoint(tmp_path / "run")
    view = inspect_run(loaded, "a b b")
    assert view.tokens == ["a", "b", "b", "<out>", "<out>", "<out>"]
    assert view.surprisal is None
    assert view.predicted[:3] == [None] * 3
    assert set(view.predicted[3:]) <= {"a", "b"}
    numbers = {loaded.tokenizer.token_text(i): i for i in range(loaded.tokenizer.vocab_size)}
    tokens = torch.tensor([[loaded.model.root_id, *(numbers[token] for token in view.tokens)]])
    hidden = loaded.model.hidden_states(tokens)[0]
    a_or_b = loaded.model.output(hidden[4:])[:, [numbers["a"], numbers["b"]]].argmax(1)
    assert ["ab"[symbol] for symbol in a_or_b.tolist()] == view.predicted[3:]
    if stack == "superposition":
        mixtures = loaded.model.actions(hidden)[1:, :3].softmax(1)
        torch.testing.assert_close(torch.tensor(view.shares), mixtures)
    else:
        assert [sum(row) for row in view.shares] == pytest.approx([1.0] * 6)
        assert [sum(row) for row in view.tops] == pytest.approx([1.0] * 6)
        assert len(view.run) == 6
    capsys.readouterr()
    assert run(["inspect", "a b b", "--model", str(tmp_path / "run")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["token", "y"]
    assert lines[4].split()[:2] == ["<out>", view.predicted[3]]
    assert not any(line.startswith("(end)") for line in lines)
    assert run(["inspect", "a c", "--model", str(tmp_path / "run")]) == 1
    assert "'c' is no symbol of the task rs" in capsys.readouterr().err


def test_the_heaviest_run_of_a_memory_limited_stack_is_one_of_its_runs(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", stack_states=1, stack_symbols=1, stack_window=2)
    loaded = load_checkpoint(folder)
    with torch.no_grad():
        loaded.model.actions.weight.zero_()
        loaded.model.actions.bias.copy_(torch.tensor([0.0, 9.0, 0.0]))  # replacement after replacement
    view = inspect_run(loaded, "a b c a b")
    assert view.run_log_share < 0
    kinds = [kind for kind, _, _ in view.run]
    assert "replace replace" not in " ".join(kinds)


def test_the_trace_is_indented_by_height(tmp_path: Path) -> None:
    view = inspect_run(load_checkpoint(saved(tmp_path / "model")), "a b c a b c")
    for line, (kind, state, stack) in zip(run_lines(view)[1:-1], view.run, strict=True):
        written = kind if kind == "pop" else f"{kind} {stack[-1]}"
        assert line.endswith("  " * (len(stack) - 1) + f"{written} q{state}")
