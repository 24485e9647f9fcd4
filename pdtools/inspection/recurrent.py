"""Inspection of recurrent models: their stacks' actions while they read one string."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.evaluation.formal.transduction import read_task
from pdtools.models import LoadedModel, RecurrentLM
from pdtools.models.recurrent.stacks import NondeterministicStack
from pdtools.models.recurrent.stacks.viterbi import heaviest_run
from pdtools.tokenization import Sentence, split_spaces

ACTIONS = {
    "nondeterministic": ("push", "replace", "pop"),
    "superposition": ("push", "no-op", "pop"),
    "stratification": ("pop", "push"),
}


@dataclass(frozen=True)
class StackRunView:
    """A stack's actions over n tokens.

    Attributes:
        tokens: the tokens read.
        surprisal: for each token, and end-of-sentence: n + 1 values in bits; None for a masked model.
        stack: its kind.
        actions: names of the actions' kinds.
        shares: for each token the share of each kind of action after it. For the nondeterministic stack, the
            weight of a kind's transitions from the automaton's present configurations, over the weight of all
            (whether or not the stack allows them); for superposition the mixture; for stratification the two
            amounts, which need not sum to 1.
        shares_everywhere: for the nondeterministic stack, the same for the transitions from all
            configurations alike, whether or not the automaton can be there (figure 3 of the paper); else
            None.
        tops: for the nondeterministic stack, for each token the distribution of the symbol on top
            afterwards; else None.
        states: the same for the automaton's state.
        run: for the nondeterministic stack, the heaviest run: for each token the transition after it, the
            state, and the symbols on the stack, bottom first; else None.
        run_log_share: its share of the weight of all runs, as a logarithm (nats).
        predicted: a masked task model's predictions at each token of y, None at the tokens of x; else None.
    """

    tokens: list[str]
    surprisal: list[float] | None
    stack: str
    actions: tuple[str, ...]
    shares: list[list[float]]
    shares_everywhere: list[list[float]] | None = None
    tops: list[list[float]] | None = None
    states: list[list[float]] | None = None
    run: list[tuple[str, int, list[int]]] | None = None
    run_log_share: float | None = None
    predicted: list[str | None] | None = None

    def as_json(self) -> dict[str, Any]:
        """The view, JSON-ready."""
        return asdict(self)


def inspect_run(loaded: LoadedModel, text: str | Sentence) -> StackRunView:
    """Read one string and inspect the stack.

    The actions after the last token are included, though no reading follows.

    Args:
        loaded: a checkpoint of a recurrent model with a stack.
        text: words between spaces, or split; for a masked model of a task the symbols of x, which it answers.

    Raises:
        PdtoolsError: if the model has no stack, or the text no words, or other symbols than the task's.
    """
    model = loaded.model
    if not isinstance(model, RecurrentLM) or model.stack is None:
        raise PdtoolsError(f"{loaded.folder}: this model has no stack to look at")
    surprisal = predicted = None
    with torch.inference_mode():
        if model.objective == "masked":
            assert isinstance(text, str)
            batch, said = read_task(loaded, text)
            predicted = said[1:]
            ids, actions = batch.tokens[0, 1:], _actions_at_once(model.eval(), batch.tokens)
        else:
            ids, surprisal, actions = _read(model.eval(), _encoded(loaded, text))
        before = len(actions) - len(ids)  # 1 if an input before the first token has actions too
        view: dict[str, Any] = {
            "tokens": [loaded.tokenizer.token_text(token) for token in ids.tolist()],
            "surprisal": surprisal,
            "predicted": predicted,
            "stack": model.config.stack,
            "actions": ACTIONS[model.config.stack],
        }
        if isinstance(model.stack, NondeterministicStack):
            return StackRunView(**view, **_automaton(model.stack, actions, before))
        actions = actions[before:]
        if model.config.stack == "superposition":
            return StackRunView(**view, shares=actions[:, :3].softmax(1).tolist())
        return StackRunView(**view, shares=actions[:, :2].sigmoid().tolist())


def _encoded(loaded: LoadedModel, text: str | Sentence) -> Tensor:
    """ROOT, the words and end-of-sentence: (n + 2,)."""
    sentence = split_spaces(text) if isinstance(text, str) else text
    if not sentence.words:
        raise PdtoolsError("no words to read")
    return torch.from_numpy(loaded.tokenizer.encode(sentence).ids).long().to(loaded.model.device)


def _actions_at_once(model: RecurrentLM, tokens: Tensor) -> Tensor:
    """The output of the action layer after every token of one row (1, 1 + n), in :func:`_read`'s order."""
    assert model.actions is not None
    hidden = model.hidden_states(tokens.to(model.device))[0]  # (1 + n, H)
    actions: Tensor = model.actions(hidden if model.config.first_input != "none" else hidden[1:])
    return actions


def _read(model: RecurrentLM, ids: Tensor) -> tuple[Tensor, list[float], Tensor]:
    """Tokens (n,), surprisals of them and end-of-sentence, and the actions (n, A) after every token.

    If something is read before the first token, its actions come first: (n + 1, A).
    """
    state = model.start(1, len(ids))
    surprisal, actions = [], []
    for k, token in enumerate(ids):
        if k:
            surprisal.append(float(-model.next_token_logprobs(state)[0, token]) / math.log(2))
        if k < len(ids) - 1:
            model.advance(state, token[None], torch.zeros(1, k + 1, dtype=torch.int16))
            if k or model.config.first_input != "none":
                actions.append(state.run.actions()[0])
    return ids[1:-1], surprisal, torch.stack(actions)


def _automaton(stack: NondeterministicStack, actions: Tensor, before: int) -> dict[str, Any]:
    """The automaton's values after every token, for a :class:`StackRunView`.

    Args:
        stack: the model's stack.
        actions: (before + n, A), all actions.
        before: the number of actions before the first token's, which are carried out but not reported.
    """
    run = stack.start(1, len(actions), actions, keep=False)
    alphas, log_total = [run.alpha[0]], 0.0
    for action in actions:
        run.step(action[None])
        alphas.append(run.alpha[0])
        log_total += math.log(float(run.total)) + float(run.log_factor)
    log_weights = stack.log_weights(actions)  # (n, C, 2C + Q)
    reached = log_weights + torch.stack(alphas[:-1]).log()[:, :, None]
    after = torch.stack(alphas[1 + before :]).unflatten(1, (stack.symbols, stack.states))  # (n, S, Q)
    best = heaviest_run(log_weights.cpu().numpy(), stack.states, stack.symbols, stack.window)
    return {
        "shares": _by_kind(stack, reached[before:]),
        "shares_everywhere": _by_kind(stack, log_weights[before:]),
        "tops": after.sum(2).tolist(),
        "states": after.sum(1).tolist(),
        "run": [(step.kind, step.state, list(step.stack)) for step in best.steps[before:]],
        "run_log_share": best.log_weight - log_total,
    }


def _by_kind(stack: NondeterministicStack, log_weights: Tensor) -> list[list[float]]:
    """Shares of pushes, replacements and pops in the weights (n, C, 2C + Q) of transitions: (n, 3)."""
    c = stack.configurations
    kinds = log_weights.logsumexp(1).split([c, c, stack.states], 1)
    shares: list[list[float]] = torch.stack([kind.logsumexp(1) for kind in kinds], 1).softmax(1).tolist()
    return shares


def shares_of(
    history: Sequence[StackRunView], wanted: Sequence[str], *, everywhere: bool = False
) -> list[list[float]]:
    """The share of the wanted kind of action at each token, a row for every inspection (figure 3).

    Args:
        history: the inspections.
        wanted: a kind for each token.
        everywhere: for a nondeterministic stack, ``shares_everywhere`` instead of ``shares``.

    Returns:
        Shares from 0 to 1: (inspections, n).

    Raises:
        ValueError: if ``everywhere`` is requested for another kind of stack.
    """
    rows = []
    for view in history:
        shares = view.shares_everywhere if everywhere else view.shares
        if shares is None:
            raise ValueError(f"a stack of the kind {view.stack} has no configurations to look at everywhere")
        rows.append([share[view.actions.index(kind)] for share, kind in zip(shares, wanted, strict=True)])
    return rows
