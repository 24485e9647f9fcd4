"""Word-synchronous beam search as one would write it down: a hypothesis at a time, each read from its start.

The search of pdtools has to give the same, and is timed against it: no cache, no batches, no arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from pdtools.models.grammar.derivations import read_actions
from pdtools.models.grammar.model import GrammarLM
from pdtools.search.options import SearchOptions


@dataclass
class Hypothesis:
    """A hypothesis: actions, their log joint in nats, and the number of open constituents."""

    actions: list[int] = field(default_factory=list)
    score: float = 0.0
    n_open: int = 0


@torch.no_grad()
def next_logprobs(model: GrammarLM, actions: Sequence[int]) -> torch.Tensor:
    """The log p of every action after others, float64 (A,), from one pass over all of them."""
    derivations = model.derive(1, 1)
    for action in actions:
        derivations.push(torch.tensor([action]))
    return derivations.logprobs()[0]


@torch.no_grad()
def whole_logprob(model: GrammarLM, ids: Sequence[int], actions: Sequence[int]) -> float:
    """The log p(x, y) of a whole derivation, teacher-forced."""
    import numpy as np

    found = read_actions(np.array(actions), model.actions)
    batch = model.pack([(np.array(ids), found)])
    parts = model.forward_parts(batch)
    return float((parts.token_logprobs + parts.attach_logprobs).sum())


def search(
    model: GrammarLM,
    ids: Sequence[int],
    beam: SearchOptions,
    margin: float = math.inf,
    *,
    following: Callable[[Sequence[int]], Sequence[float]] | None = None,
    opened: Callable[[int], int] | None = None,
) -> tuple[list[float], list[Hypothesis], int]:
    """Search one string.

    Args:
        model: in evaluation mode.
        ids: ROOT, the tokens, end-of-sentence.
        beam: the numbers of hypotheses kept.
        margin: nats that they may be behind the best.
        following: log p of every action after others; by default the model's.
        opened: how an action changes the number of open constituents; by default openers and closers do.

    Returns:
        A_0, …, A_n, A_end; the hypotheses at the end, best first; the number of actions whose successors were
        computed.
    """
    names = model.actions
    kept, sums, expanded = [Hypothesis()], [0.0], 0
    for token in ids[1:]:
        ends = token == model.eos_id
        frontier, generated = kept, list[Hypothesis]()
        while frontier:
            pool = []
            for hypothesis in frontier:
                if following is None:
                    logprobs: Sequence[float] = next_logprobs(model, hypothesis.actions).tolist()
                else:
                    logprobs = following(hypothesis.actions)
                expanded += 1
                openers = [] if ends else range(names.tokens, names.first_closer)
                closers = range(names.first_closer, names.number) if ends or hypothesis.n_open > 1 else []
                for action in [*openers, *([] if ends else [token]), *closers]:
                    if logprobs[action] > -math.inf:
                        step = (names.tokens <= action < names.first_closer) - (action >= names.first_closer)
                        step = step if opened is None else opened(action)
                        longer = [*hypothesis.actions, action]
                        score = hypothesis.score + logprobs[action]
                        pool.append(Hypothesis(longer, score, hypothesis.n_open + step))
            pool.sort(key=lambda each: -each.score)
            is_goal = [each.n_open == 0 if ends else each.actions[-1] == token for each in pool]
            generated += [each for each, goal in zip(pool[: beam.width], is_goal, strict=False) if goal]
            late = [each for each, goal in list(zip(pool, is_goal, strict=True))[beam.width :] if goal]
            generated += late[: beam.fast_tracked]
            frontier = [each for each, goal in zip(pool[: beam.width], is_goal, strict=False) if not goal]
            if len(generated) >= beam.width:
                break
            generated.sort(key=lambda each: -each.score)
            worst = (
                generated[beam.width_of_words - 1].score
                if len(generated) >= beam.width_of_words
                else -math.inf
            )
            if frontier and frontier[0].score < worst:
                break
            if generated and margin < math.inf:
                least = max(generated[0].score - margin, worst)
                frontier = [each for each in frontier if each.score >= least]
        generated.sort(key=lambda each: -each.score)
        kept = [
            each for each in generated[: beam.width_of_words] if each.score >= generated[0].score - margin
        ]
        best = kept[0].score
        sums.append(best + math.log(sum(math.exp(each.score - best) for each in kept)))
    return sums, kept, expanded
