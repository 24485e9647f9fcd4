"""An action model, as small as there can be: the tree is written into the string.

Actions are tokens, OPEN, CLOSE and end-of-sentence, which closes the root: ``OPEN a OPEN b c CLOSE EOS``.
Their probabilities depend on the last action and on how many constituents are open, at most ``max_open``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pdtools.models import Batch, LanguageModel, TokenParts
from pdtools.models.base import Objective
from pdtools.models.derivations import DerivationKind, Derivations
from pdtools.search.checkpoints import Encoded, Searched, SearchFamily
from pdtools.search.scores import Continuation, RowScore, SearchResult
from pdtools.trees import Tree, merge_subwords, tree_from_attachments


class ToyKind(DerivationKind):
    """Actions without labels."""

    name = "toy actions"
    written = True
    unit = "action"


def _actions(model: ToyGrammarLM, text: str) -> Iterator[int]:
    """The actions of a bracketed binary tree over token numbers, without its last bracket."""
    tree = Tree.from_brackets(text)
    nodes = sorted(zip(tree.starts.tolist(), (-tree.ends).tolist(), strict=True))
    found: list[int] = []
    for k, word in enumerate(tree.words):
        found += [model.open_id] * sum(start == k for start, _ in nodes)
        found.append(int(word))
        found += [model.close_id] * sum(-end == k + 1 for _, end in nodes)
    assert found[-1] == model.close_id
    return iter(found[:-1])


@dataclass(frozen=True, kw_only=True)
class ToyConfig:
    """The sizes of a toy action model."""

    vocab_size: int
    pad_id: int
    root_id: int
    eos_id: int
    max_open: int = 3
    layers: int = 1
    objective: Objective = "causal"

    @property
    def derivation_kind(self) -> DerivationKind:
        """The kind of actions."""
        return ToyKind(conditions_tokens=True)


class ToyGrammarLM(LanguageModel):
    """A toy action model: ``weight[last action, open constituents]`` are the logits of the next action."""

    config: ToyConfig
    max_length = None

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self.open_id, self.close_id = config.vocab_size, config.vocab_size + 1
        n_actions = config.vocab_size + 2
        self.weight = nn.Parameter(torch.randn(n_actions, config.max_open + 1, n_actions))

    def derive(self, rows: int, length: int, entries: int | None = None) -> Derivations:
        """See :meth:`LanguageModel.derive`."""
        return ToyDerivations(self, rows, length)

    def pack(self, rows: Sequence[tuple[Any, Any]]) -> Batch:
        """Pack the binary trees of rows as actions, ROOT before them."""
        lines = []
        for tokens, attach in rows:
            inner = tokens[1:-1].tolist()
            leaves = [str(token) for token in inner]
            text = str(tree_from_attachments(np.asarray(attach)[1:-1] - 1, leaves))
            lines.append([self.root_id, *_actions(self, text), self.eos_id])
        longest = max(map(len, lines))
        padded = [[*line, *[self.pad_id] * (longest - len(line))] for line in lines]
        return Batch(
            tokens=torch.tensor(padded),
            attach=torch.arange(longest).expand(len(lines), -1),
            lengths=torch.tensor([len(line) for line in lines]),
        )

    def allowed(self, last: int, n_open: int) -> list[int]:
        """Actions allowed after these; the last one is ROOT at the start. They depend on the prefix alone."""
        if last == self.root_id:
            return [self.open_id]
        special = (self.pad_id, self.root_id, self.eos_id)
        opening = [self.open_id] if n_open < self.config.max_open else []
        tokens = [token for token in range(self.vocab_size) if token not in special]
        closing = [] if last == self.open_id else [self.close_id if n_open > 1 else self.eos_id]
        return [*opening, *tokens, *closing]

    @torch.no_grad()
    def action_logprobs(self, last: int, n_open: int) -> Tensor:
        """Log-probabilities of actions, float64 (actions,); −inf where not allowed."""
        mask = torch.full((self.weight.shape[2],), -torch.inf)
        mask[self.allowed(last, n_open)] = 0
        return (self.weight[last, n_open] + mask).double().log_softmax(0)

    def opened(self, action: int) -> int:
        """The change of the number of open constituents by an action."""
        return int(action == self.open_id) - int(action in (self.close_id, self.eos_id))

    def forward_parts(self, batch: Batch) -> TokenParts:
        """See :meth:`LanguageModel.forward_parts`; actions that are no tokens count as the derivation."""
        words = torch.zeros(batch.tokens.shape, dtype=torch.float64)
        derived = torch.zeros_like(words)
        for b, length in enumerate(batch.lengths.tolist()):
            n_open = 0
            for k in range(1, length):
                last, action = int(batch.tokens[b, k - 1]), int(batch.tokens[b, k])
                part = words if action < self.vocab_size else derived
                part[b, k] = self.action_logprobs(last, n_open)[action]
                n_open += self.opened(action)
        return TokenParts(words, derived, batch.attach, torch.zeros((), dtype=torch.int64))


@dataclass(frozen=True, slots=True)
class ToyDerivation:
    """A derivation of tokens and brackets."""

    tokens: NDArray[np.int32]
    text: str

    def tree(
        self, words: Sequence[str], word_of_token: Sequence[int], labels: Sequence[str] | None = None
    ) -> Tree:
        """See :class:`pdtools.models.derivations.AnyDerivation`."""
        return merge_subwords(Tree.from_brackets(self.text), word_of_token, words)


class ToyDerivations(Derivations):
    """Derivations row by row, in Python."""

    def __init__(self, model: ToyGrammarLM, rows: int, length: int) -> None:
        self._model = model
        self._last, self._open = [model.root_id] * rows, [0] * rows
        self.step, self.most_steps = 0, 20 * length

    def logprobs(self) -> Tensor:
        """See :meth:`Derivations.logprobs`."""
        return torch.stack(
            [self._model.action_logprobs(*s) for s in zip(self._last, self._open, strict=True)]
        )

    def fits(self, token: int) -> Tensor:
        """See :meth:`Derivations.fits`."""
        model = self._model
        structure = [model.close_id] if token == model.eos_id else [model.open_id, model.close_id]
        fits = torch.zeros(len(self._last), model.vocab_size + 2, dtype=torch.bool)
        fits[:, [token, *structure]] = True
        return fits

    def generated(self, choices: Tensor) -> Tensor:
        """See :meth:`Derivations.generated`."""
        return choices.where(choices < self._model.vocab_size, -1)

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        self.step += 1
        self._last = choices.tolist()
        self._open = [n + self._model.opened(a) for n, a in zip(self._open, self._last, strict=True)]

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        self._last = [self._last[row] for row in rows.tolist()]
        self._open = [self._open[row] for row in rows.tolist()]

    @property
    def nbytes(self) -> int:
        """See :attr:`Derivations.nbytes`."""
        return 1

    def derivation(self, choices: NDArray[np.int32]) -> Any:
        """See :meth:`Derivations.derivation`; open constituents are closed."""
        model, actions = self._model, choices.tolist()
        n_open = sum(model.opened(action) for action in actions)
        brackets = {model.open_id: " (X", model.close_id: ")", model.eos_id: ")"}
        text = "".join(brackets.get(action, " w") for action in actions) + ")" * n_open
        return ToyDerivation(choices[(choices < model.vocab_size) & (choices != model.eos_id)], text.strip())


# Derivations that there is memory for at the same time.
_ROOM = 1000


@dataclass(frozen=True, slots=True)
class Enumerated:
    """All derivations of a string: log joints with choices, best first, and A_0, …, A_n, A_end."""

    joints: list[tuple[float, list[int]]]
    prefix_logprobs: list[float]


@torch.no_grad()
def enumerate_derivations(model: LanguageModel, ids: Sequence[int]) -> Enumerated:
    """Enumerate the derivations of ROOT, tokens and end-of-sentence, by the protocol alone.

    The model may be any with finitely many. All derivations under way are extended together, choice after
    choice, whatever they have generated.
    """
    derivations = model.derive(_ROOM, len(ids))
    derivations.select(torch.tensor([0]))
    under_way = [(0.0, list[int](), 1)]  # log joint, choices, the token that is next
    reached: list[list[float]] = [[] for _ in ids]
    joints = []
    while under_way:
        logprobs = derivations.logprobs()
        fits = {t: derivations.fits(ids[t]).expand_as(logprobs) for _, _, t in under_way}
        pairs = [
            (row, choice)
            for row, (_, _, t) in enumerate(under_way)
            for choice in torch.nonzero(fits[t][row] & (logprobs[row] > -torch.inf))[:, 0].tolist()
        ]
        if not pairs:
            break
        rows, choices = (torch.tensor(column) for column in zip(*pairs, strict=True))
        derivations.select(rows)
        tokens = derivations.generated(choices).tolist()
        longer, kept = [], []
        for place, ((row, choice), token) in enumerate(zip(pairs, tokens, strict=True)):
            score, before, t = under_way[row]
            score, made = score + float(logprobs[row, choice]), [*before, choice]
            if token == ids[t]:
                reached[t].append(score)
                t += 1
            if t == len(ids):
                joints.append((score, made))
            else:
                assert len(made) < 100, "the derivations seem to have no end"
                longer.append((score, made, t))
                kept.append(place)
        under_way = longer
        if kept:
            derivations.select(torch.tensor(kept))
            derivations.push(choices[kept])
    sums = [float(np.logaddexp.reduce(scores)) if scores else -math.inf for scores in reached[1:]]
    return Enumerated(sorted(joints, reverse=True), [0.0, *sums])


def replayed(model: LanguageModel, choices: Sequence[int], length: int) -> Derivations:
    """A derivation after some choices."""
    derivations = model.derive(1, length)
    for choice in choices:
        derivations.push(torch.tensor([choice]))
    return derivations


class EnumeratingFamily(SearchFamily):
    """A search by enumeration, for any kind of derivations."""

    kind = "enumeration"
    bound = "exact: all derivations"
    look_ahead = 2
    widest = 1 << 20

    def _with_marginals(self, rows: Any, given: list[RowScore]) -> list[RowScore]:
        found = [
            enumerate_derivations(self.loaded.model, tokens.tolist()).prefix_logprobs for tokens, *_ in rows
        ]
        return [
            row._replace(marginal=reached[-1], end_marginal=reached[-1] - reached[-2])
            for row, reached in zip(given, found, strict=True)
        ]

    def continuations(self, prefixes: Sequence[NDArray[np.int32]]) -> list[Continuation]:
        """See :meth:`Family.continuations`."""
        vocabulary = range(self.loaded.model.vocab_size)
        found = []
        for prefix in prefixes:
            reached = [enumerate_derivations(self.loaded.model, [*prefix.tolist(), v]) for v in vocabulary]
            logprobs = np.array([each.prefix_logprobs[-1] - each.prefix_logprobs[-2] for each in reached])
            found.append(Continuation(logprobs, None))
        return found

    def next_logprobs(self, token_ids: Sequence[NDArray[np.int32]]) -> Iterator[Any]:
        """See :meth:`CheckpointFamily.next_logprobs`."""
        for ids in token_ids:
            found = self.continuations([ids[:t] for t in range(1, len(ids))])
            yield np.stack([each.logprobs for each in found]), 0.0

    def search(self, window: Sequence[Encoded], *, k_best: int = 1, trace: int = 0) -> Iterator[Searched]:
        """See :meth:`SearchFamily.search`."""
        for item in window:
            found = enumerate_derivations(self.loaded.model, item.encoding.ids.tolist())
            best = [
                (joint, self.loaded.model.derive(1, 1).derivation(np.array(choices, np.int32)))
                for joint, choices in found.joints[:k_best]
            ]
            prefixes = np.array(found.prefix_logprobs)
            yield Searched(item, SearchResult(prefixes, tuple(best), (), 0.0), np.diff(prefixes))

    def incremental(self, found: Searched, tokens: Sequence[str]) -> Iterator[str]:
        """See :meth:`SearchFamily.incremental`; there are no attachments to show."""
        raise NotImplementedError


PAIRS = (("a b", "b a"), ("c", "a a"), ("a c b", "b c"))  # good, bad


def write_pairs(file: Path) -> None:
    """Minimal pairs of the toy words, :data:`PAIRS`."""
    lines = [{"sentence_good": good, "sentence_bad": bad} for good, bad in PAIRS]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_suite(file: Path) -> None:
    """A suite of one item of the toy words: does *b* cost less after *a* than after *c*?"""
    conditions = [
        {
            "condition_name": name,
            "regions": [{"region_number": 1, "content": x}, {"region_number": 2, "content": y}],
        }
        for name, x, y in (("one", "a", "b"), ("two", "c", "b"))
    ]
    suite = {
        "meta": {"name": "toy", "metric": "sum"},
        "region_meta": {"1": "first", "2": "second"},
        "predictions": [{"type": "formula", "formula": "(2;%one%) < (2;%two%)"}],
        "items": [{"item_number": 1, "conditions": conditions}],
    }
    file.write_text(json.dumps(suite))
