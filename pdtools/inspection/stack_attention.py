"""Inspection of stack attention: a model's stacks while it reads one string."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pdtools.errors import PdtoolsError

if TYPE_CHECKING:
    from pdtools.models import Batch, LoadedModel
    from pdtools.tokenization import Sentence

ACTIONS = ("push", "pop", "no-op")


@dataclass(frozen=True)
class LayerStacks:
    """The stacks of a layer, over n positions.

    Attributes:
        layer: from 1.
        actions: n rows of three probabilities: push, pop, no-op; the first position has an empty stack, and
            its row is not used.
        attention: n rows of n: α_i(j), the probability that the token at j is on top after position i.
        replayed: the likeliest action at each position, carried out on a real stack: the positions in it
            afterwards, bottom first. (The first position's stays empty.)
    """

    layer: int
    actions: list[list[float]]
    attention: list[list[float]]
    replayed: list[list[int]]


@dataclass(frozen=True)
class Inspection:
    """The inspection of one string.

    Attributes:
        tokens: the tokens read.
        predicted: for task models, the prediction at each position of y; else None.
        layers: the layers that have stacks.
    """

    tokens: list[str]
    predicted: list[str | None]
    layers: list[LayerStacks]

    def as_json(self) -> dict[str, Any]:
        """The inspection, JSON-ready."""
        return asdict(self)


def inspect_stacks(loaded: LoadedModel, text: str | Sentence) -> Inspection:
    """Read one string and inspect the stacks.

    Args:
        loaded: a checkpoint of a model with stack attention.
        text: words between spaces, or split; for a task model the symbols of x. Such a model answers: a
            masked one at once, a causal one symbol by symbol.

    Raises:
        PdtoolsError: if the model has no stack attention, or the string does not suit it.
    """
    from pdtools.evaluation.formal.transduction import read_task
    from pdtools.inspection.layers import stack_views
    from pdtools.models import TransformerLM

    is_task = "task" in loaded.config["shards"]
    if is_task:
        assert isinstance(text, str)
        batch, predicted = read_task(loaded, text)
    else:
        batch, predicted = _text_batch(loaded, text)
    loaded.model.check_length(batch.tokens.shape[1])
    views = stack_views(loaded.model.eval(), batch.to(loaded.model.device))
    if not views:
        raise PdtoolsError(f"{loaded.folder}: this model has no stack attention to look at")
    model = loaded.model
    assert isinstance(model, TransformerLM)
    read = model.as_read(batch)[0][0].tolist()
    # A released causal model reads every token one position later.
    is_late = read != batch.tokens[0, views[0].first :].tolist()
    return Inspection(
        tokens=[loaded.tokenizer.token_text(token) for token in read],
        predicted=[None, *predicted[:-1]] if is_late else predicted[views[0].first :],
        layers=[
            LayerStacks(
                layer=view.layer + 1,
                actions=view.actions[0].tolist(),
                attention=view.attention[0].tolist(),
                replayed=replay(view.actions[0].argmax(-1).tolist()),
            )
            for view in views
        ],
    )


def replay(actions: Sequence[int]) -> list[list[int]]:
    """The stack of positions after each action (0 push, 1 pop, 2 no-op); the first action is not taken."""
    stack: list[int] = []
    states: list[list[int]] = []
    for position, action in enumerate(actions):
        if position > 0 and action == 0:
            stack.append(position)
        elif position > 0 and action == 1 and stack:
            stack.pop()
        states.append(list(stack))
    return states


def _text_batch(loaded: LoadedModel, text: str | Sentence) -> tuple[Batch, list[str | None]]:
    import numpy as np

    from pdtools.models import collate
    from pdtools.tokenization import split_spaces

    sentence = split_spaces(text) if isinstance(text, str) else text
    if not sentence.words:
        raise PdtoolsError("no words to read")
    ids = loaded.tokenizer.encode(sentence).ids
    return collate([(ids, np.arange(len(ids)))], loaded.tokenizer.pad_id), [None] * len(ids)
