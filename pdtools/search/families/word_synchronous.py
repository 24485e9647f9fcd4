"""Word-synchronous beam search over actions (Stern et al. 2017; Noji and Oseki 2021) of given strings.

Hypotheses of a string are compared when they have generated the same tokens: between two tokens each opens
and closes constituents in rounds, and hypotheses that generate the next token wait for the others. Hypotheses
are rows of tensors, of all strings together, though they differ in length; strings wait for each other only
at tokens. Strings with a common beginning are one string for its length
(:class:`pdtools.search.batches.SortedStrings`). An extension is computed only when it is needed, so that of
the hypotheses that generated a token only the kept ones are read on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.models.grammar.derivations import ActionDerivation
from pdtools.models.grammar.model import ActionDerivations, ActionLM
from pdtools.models.grammar.output import ending, fitting
from pdtools.search.batches import Level, SortedStrings, budget, explained_memory_errors
from pdtools.search.options import SearchOptions
from pdtools.search.particles import thin, uniform_of
from pdtools.search.scores import NO_NUMBERS, BeamStep, SearchResult

# Rounds between two tokens that memory is planned for; more are possible, but rare.
_ROUNDS = 10
# Hypotheses this many nats less probable than the sum so far are not added to next-token distributions.
_NEGLIGIBLE = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult(SearchResult[ActionDerivation]):
    """The result of the search for one string of n tokens.

    A_t is log Σ over the word beam of the joint probability of the first t tokens and the actions among them;
    -inf after a prefix without hypotheses. So the marginal is a lower bound of log p(x), exact if the beam
    held every derivation.

    Attributes:
        log_share_kept: Σ over tokens of log (probability of the kept hypotheses / of all that generated the
            token), nats. Hypotheses dropped from the action beam before are unknown, and not in it.
        steps: as far as any hypothesis got.
        next_logprobs: over the actions after the first t tokens too.
        expanded: number of actions that were read, for all strings of the batch.
    """

    expanded: int


@torch.inference_mode()
def word_synchronous_search(
    model: ActionLM,
    token_ids: Sequence[NDArray[np.int32]],
    *,
    search: SearchOptions,
    inside_words: Sequence[NDArray[np.bool_]] | None = None,
    k_best: int = 1,
    max_batch: int | None = None,
    share_prefixes: bool = True,
    trace: int = 0,
    draw: int | None = None,
    next_tokens: bool = False,
) -> list[ActionResult]:
    """Search the derivations of strings.

    Args:
        model: in evaluation mode.
        token_ids: for each string int32[n + 2]: ROOT, the n tokens, end-of-sentence.
        search: the beam, its margin and further widths.
        inside_words: for each string bool[n + 2], tokens before which the word continues: nothing opens or
            closes there. None: there are none.
        k_best: number of derivations to return, at most ``search.width_of_words``.
        max_batch: strings per batch; by default as many as fit a fixed amount of memory.
        share_prefixes: whether common beginnings of strings are searched once.
        trace: number of hypotheses of each word beam to return.
        draw: a seed: hypotheses are drawn (:func:`pdtools.search.particles.thin`) instead of
            keeping the best, as many after an action and after a token as the widths say. For
            :mod:`pdtools.search.particles`.
        next_tokens: whether to return next-token distributions after every token, over the hypotheses kept
            after an action.

    Returns:
        One result per string, in input order. Equal scores are ranked by the rank of the hypothesis they
        extend, then openers by label, the token, closers.

    Raises:
        PdtoolsError: if the model gives values that are not numbers, or the device is out of memory.
    """
    if not 1 <= k_best <= search.width_of_words:
        raise PdtoolsError(f"k-best must be from 1 to the word beam of {search.width_of_words}, not {k_best}")
    inside = inside_words or [np.zeros(len(ids), bool) for ids in token_ids]
    # Prefixes are the same only if their words end at the same tokens too.
    keys = [2 * ids.astype(np.int64) + at for ids, at in zip(token_ids, inside, strict=True)]
    strings = SortedStrings.of(keys, share=share_prefixes)  # type: ignore[arg-type]
    with explained_memory_errors():
        each = model.derive(1, 1).state.nbytes * search.width * _ROUNDS
        most = max_batch or max(1, budget(model) // each)
        results: dict[int, ActionResult] = {}
        for group in strings.groups([1.0] * max(map(len, keys), default=0), 1 << 62, most):
            batch = _Batch(model, group, search, draw)
            results.update(zip(group.order, batch.search(k_best, trace, next_tokens), strict=True))
    return [results[i] for i in range(len(token_ids))]


@dataclass
class _Hypotheses:
    """R hypotheses, sorted by string and rank.

    Attributes:
        made: the derivations, all choices but ``pending``.
        score: float64 (R,), log joint.
        string: int64 (R,), the index of each one's prefix.
        node: int64 (R,), its newest action in the history.
        pending: int64 (R,), actions that are not read yet.
    """

    made: ActionDerivations
    score: Tensor
    string: Tensor
    node: Tensor
    pending: Tensor

    def taken(self, rows: Tensor) -> _Hypotheses:
        """Copies of the hypotheses in these rows."""
        return _Hypotheses(
            self.made.taken(rows), self.score[rows], self.string[rows], self.node[rows], self.pending[rows]
        )

    @staticmethod
    def join(parts: Sequence[_Hypotheses]) -> _Hypotheses:
        """Concatenate hypotheses."""
        names = ("score", "string", "node", "pending")
        joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in names}
        return _Hypotheses(ActionDerivations.join([part.made for part in parts]), **joined)


class _History:
    """The history of hypotheses: for every node its parent (-1: the start), and its action."""

    def __init__(self) -> None:
        self._parents: list[NDArray[np.int64]] = []
        self._actions: list[NDArray[np.int64]] = []
        self._number = 0

    def add(self, parents: Tensor, actions: Tensor) -> Tensor:
        """Add nodes, and return their indices, int64 (R,)."""
        self._parents.append(parents.cpu().numpy())
        self._actions.append(actions.cpu().numpy())
        first, self._number = self._number, self._number + len(parents)
        return torch.arange(first, self._number, device=parents.device)

    def close(self) -> None:
        """Freeze the history for reading."""
        self.parents = np.concatenate([np.zeros(0, np.int64), *self._parents])
        self.actions = np.concatenate([np.zeros(0, np.int64), *self._actions])

    def last_of(self, node: int, nodes: Collection[int]) -> int:
        """The nearest ancestor of a node in a set of nodes."""
        found = int(self.parents[node])
        while found not in nodes:
            found = int(self.parents[found])
        return found

    def path(self, node: int) -> NDArray[np.int64]:
        """The actions up to a node."""
        found = []
        while node >= 0:
            found.append(int(self.actions[node]))
            node = int(self.parents[node])
        return np.array(found[::-1], dtype=np.int64)


class _Beams(NamedTuple):
    """The beams of all prefixes of a level.

    Prefix c has the hypotheses from ``bounds[c]`` to ``bounds[c + 1]``, best first.
    """

    bounds: list[int]
    nodes: NDArray[np.int64]
    scores: NDArray[np.float64]


class _Batch:
    """Strings that are searched together."""

    def __init__(
        self, model: ActionLM, strings: SortedStrings, search: SearchOptions, draw: int | None
    ) -> None:
        self.model = model
        self.strings = strings
        self.draw = draw
        self.ids = model.actions
        self.options = search
        self.margin = math.inf if search.margin is None else search.margin
        self.levels = strings.levels()
        self.n_strings = len(strings.order)
        self.device = model.device
        self.history = _History()
        self.reached = self.expanded = 0  # the level; number of actions read

    def search(self, k_best: int, trace: int, next_tokens: bool) -> list[ActionResult]:
        """Advance token by token until every string has ended."""
        first = self.levels[0]
        rows = len(first.going)
        start = torch.full((rows,), -1, dtype=torch.int64, device=self.device)
        begun = _Hypotheses(
            made=self.model.derive(rows, len(self.levels)),
            score=torch.zeros(rows, dtype=torch.float64, device=self.device),
            string=torch.arange(rows, device=self.device),
            node=start,
            pending=start,
        )
        fed = begun
        reached: list[NDArray[np.float64]] = []  # for every level (c,), A_k
        shares: list[NDArray[np.float64]] = []  # for every level (c,), log of the share that was kept
        best: list[NDArray[np.int64]] = []  # for every level (c,), the node of the best hypothesis
        beams: list[_Beams] = []
        ended: dict[int, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
        following: list[NDArray[np.float64]] = []  # for every level (p, V), for the prefixes before
        for k, level in enumerate(self.levels[1:], start=1):
            if next_tokens:
                following.append(self._following(fed, len(self.levels[k - 1].going)).cpu().numpy())
            self.reached = k
            generate = self._generate if self.draw is None else self._generate_some
            kept, sums, share = generate(fed, level)
            reached.append(sums.cpu().numpy())
            shares.append(share.cpu().numpy())
            places = torch.arange(len(level.tokens) + 1, device=self.device)
            bounds = torch.searchsorted(kept.string, places).tolist()
            nodes, scores = kept.node.cpu().numpy(), kept.score.cpu().numpy()
            best.append(np.array([nodes[a] if a < b else -1 for a, b in itertools.pairwise(bounds)]))
            if trace:
                beams.append(_Beams(bounds, nodes, scores))
            for string in level.ending.tolist():
                a, b = bounds[level.prefix_of[string]], bounds[level.prefix_of[string] + 1]
                ended[string] = scores[a:b][:k_best], nodes[a:b][:k_best]
            if len(level.going) and k + 1 < len(self.levels):
                fed = self._go_on(kept, level)
        results = self._results(reached, shares, best, ended)
        if next_tokens:
            tables = [self._table(string, following) for string in range(self.n_strings)]
            results = [replace(one, next_logprobs=table) for one, table in zip(results, tables, strict=True)]
        if not trace:
            return results
        return [
            replace(result, steps=self._steps(string, beams, trace)) for string, result in enumerate(results)
        ]

    def _steps(
        self, string: int, beams: Sequence[_Beams], most: int
    ) -> tuple[BeamStep[ActionDerivation], ...]:
        """The best hypotheses of a string's beams."""
        steps = []
        before = {-1: 0}  # ranks by node
        for level, beam in zip(self.levels[1:], beams, strict=True):
            if (place := level.prefix_of[string]) < 0 or beam.bounds[place] == beam.bounds[place + 1]:
                break
            own = slice(beam.bounds[place], beam.bounds[place + 1])
            nodes, joints = beam.nodes[own].tolist(), beam.scores[own]
            steps.append(
                BeamStep(
                    kept=len(nodes),
                    total=float(np.logaddexp.reduce(joints)),
                    joints=joints[:most],
                    parents=np.array([before[self.history.last_of(node, before)] for node in nodes[:most]]),
                    derivations=tuple(self._derivation(node) for node in nodes[:most]),
                )
            )
            before = {node: rank for rank, node in enumerate(nodes)}
        return tuple(steps)

    def _go_on(self, kept: _Hypotheses, level: Level) -> _Hypotheses:
        """Select the hypotheses of prefixes that continue, after their tokens were read."""
        going = torch.from_numpy(level.going).to(self.device)
        place = torch.searchsorted(going, kept.string).clamp(max=len(going) - 1)
        goes = torch.nonzero(going[place] == kept.string)[:, 0]
        fed = kept.taken(goes)
        fed.string = place[goes]
        fed.made.state.compact()
        self._read(fed)
        return fed

    def _read(self, hypotheses: _Hypotheses) -> None:
        """Let the model read the pending actions."""
        if len(hypotheses.pending):
            hypotheses.made.push(hypotheses.pending)
            self.expanded += len(hypotheses.pending)

    def _generate(self, fed: _Hypotheses, level: Level) -> tuple[_Hypotheses, Tensor, Tensor]:
        """Extend hypotheses of the previous prefixes to the best ones with one more token, or the end.

        Returns:
            The new ones; their sums A_k, and the logs of their shares of all that got there, (c,) each.
        """
        search, n_goals = self.options, len(level.tokens)
        tokens = torch.from_numpy(level.tokens >> 1).to(self.device)  # (c,)
        inside = torch.from_numpy((level.tokens & 1).astype(bool)).to(self.device)  # (c,)
        frontier = self._of_children(fed, level)
        generated = [frontier.taken(torch.arange(0, device=self.device))]  # none: there may be no room
        count = torch.zeros(n_goals, dtype=torch.int64, device=self.device)
        best = torch.full(
            (n_goals, search.width_of_words), -torch.inf, dtype=torch.float64, device=self.device
        )
        every = [(best[:0, 0], count[:0])]  # scores and strings of all that generated the token
        while len(frontier.score):
            score, row, action, is_goal = self._pool(frontier, tokens, inside, search.width)
            string = frontier.string[row]
            rank = _rank(string, n_goals)
            in_beam = rank < search.width
            late = torch.nonzero(is_goal & ~in_beam)[:, 0]
            late = late[_rank(string[late], n_goals) < search.fast_tracked]
            chosen = torch.cat([torch.nonzero(is_goal & in_beam)[:, 0], late]).sort().values
            others = torch.nonzero(~is_goal & in_beam)[:, 0]
            new_score, new_string = score[chosen], string[chosen]
            every.append((new_score, new_string))
            count += torch.bincount(new_string, minlength=n_goals)
            best = _best(best, new_score, new_string)
            generated.append(
                self._extended(frontier, score, row, action, chosen[new_score >= best[new_string, -1]])
            )
            # Continuing makes no hypothesis more probable: once all are behind the kept ones, that will not
            # change.
            leading = torch.full((n_goals,), -torch.inf, dtype=torch.float64, device=self.device)
            leading = leading.scatter_reduce(0, string[others], score[others], "amax")
            done = (count >= search.width) | (leading < best[:, -1])
            least = best[:, 0] - self.margin
            if self.margin < math.inf:  # the same of each hypothesis; it changes when ``count`` is reached
                least = torch.maximum(least, best[:, -1])
            others = others[score[others] >= least.masked_fill(done, torch.inf)[string[others]]]
            frontier = self._extended(frontier, score, row, action, others)
            self._read(frontier)
        last = _Hypotheses.join(generated)
        order = _best_first(last.score, last.string)
        kept = order[_rank(last.string[order], n_goals) < search.width_of_words]
        kept = kept[last.score[kept] >= (best[:, 0] - self.margin)[last.string[kept]]]
        found = last.taken(kept)
        sums = _sums(found.score, found.string, n_goals)
        scores, strings = (torch.cat(each) for each in zip(*every, strict=True))
        share = sums - _sums(scores, strings, n_goals)
        return found, sums, share.nan_to_num(0.0)  # for prefixes without hypotheses

    def _generate_some(self, fed: _Hypotheses, level: Level) -> tuple[_Hypotheses, Tensor, Tensor]:
        """Extend hypotheses by chance: scores are log weights, and expectations are preserved."""
        n_goals = len(level.tokens)
        tokens = torch.from_numpy(level.tokens >> 1).to(self.device)  # (c,)
        inside = torch.from_numpy((level.tokens & 1).astype(bool)).to(self.device)  # (c,)
        prefixes = [self.strings.ids[string][: self.reached + 1] for string in level.leads.tolist()]
        frontier = self._of_children(fed, level)
        generated = [frontier.taken(torch.arange(0, device=self.device))]
        for step in itertools.count(1):
            if not len(frontier.score):
                break
            score, row, action, is_goal = self._pool(frontier, tokens, inside)
            goals, others = torch.nonzero(is_goal)[:, 0], torch.nonzero(~is_goal)[:, 0]
            generated.append(self._extended(frontier, score, row, action, goals))
            uniform = self._uniform(prefixes, step)
            left, weight = _thinned(score[others], frontier.string[row[others]], self.options.width, uniform)
            score[others[left]] = weight
            frontier = self._extended(frontier, score, row, action, others[left])
            self._read(frontier)
        every = _Hypotheses.join(generated)
        order = torch.sort(every.string, stable=True).indices
        every = every.taken(order)
        left, weight = _thinned(
            every.score, every.string, self.options.width_of_words, self._uniform(prefixes, 0)
        )
        found = every.taken(left)
        found.score = weight
        sums = _sums(weight, found.string, n_goals)
        return found, sums, torch.zeros_like(sums)

    def _uniform(self, prefixes: Sequence[NDArray[np.integer]], step: int) -> Tensor:
        """A random number for each prefix and step, (c,)."""
        assert self.draw is not None
        numbers = [uniform_of(self.draw, np.append(prefix, -1 - step)) for prefix in prefixes]
        return torch.tensor(numbers, dtype=torch.float64, device=self.device)

    def _following(self, fed: _Hypotheses, prefixes: int) -> Tensor:
        """Log joints of prefixes with every token (or the end) that may follow: float64 (p, V).

        Hypotheses that have read their prefixes open and close constituents, in rounds.
        """
        eos = self.model.eos_id
        found = torch.full(
            (prefixes, self.model.vocab_size), -torch.inf, dtype=torch.float64, device=self.device
        )
        frontier = fed
        while len(frontier.score):
            structure, tokens = self.model.action_logprobs(frontier.made.state)
            ends = ending(frontier.made.state.n_open, self.ids)  # (R, labels + closers)
            joint = frontier.score[:, None] + tokens.double()  # (R, V)
            joint[:, eos] = frontier.score + structure.double().masked_fill(~ends, -torch.inf).logsumexp(1)
            found = torch.logaddexp(found, _sums_of_rows(joint, frontier.string, prefixes))
            each = frontier.score[:, None] + structure.double().masked_fill(ends, -torch.inf)
            least = (found.logsumexp(1) - _NEGLIGIBLE)[frontier.string]
            row, column = torch.nonzero(
                each > torch.maximum(least, each.new_tensor(-1e300))[:, None], as_tuple=True
            )
            score = each[row, column]
            order = _best_first(score, frontier.string[row])
            order = order[_rank(frontier.string[row[order]], prefixes) < self.options.width]
            action = self.ids.tokens + column
            frontier = self._extended(frontier, score, row, action, order)
            self._read(frontier)
        return found

    def _table(self, string: int, following: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Next-token distributions after each of a string's prefixes: float64 (n + 1, V)."""
        levels = zip(self.levels[1:], following, strict=True)
        places = ((level.prefix_of[string], level, values) for level, values in levels)
        return np.stack([values[level.parents[place]] for place, level, values in places if place >= 0])

    def _of_children(self, fed: _Hypotheses, level: Level) -> _Hypotheses:
        """Copy the hypotheses of each prefix's parent to the prefix."""
        parents = torch.from_numpy(level.parents).to(self.device)  # (c,)
        first = torch.searchsorted(fed.string, parents)
        number = torch.searchsorted(fed.string, parents, right=True) - first
        before = number.cumsum(0) - number
        total = int(number.sum())
        child = torch.repeat_interleave(torch.arange(len(parents), device=self.device), number)
        rows = torch.arange(total, device=self.device) - before[child] + first[child]
        frontier = fed.taken(rows)
        frontier.string = child
        return frontier

    def _pool(
        self, frontier: _Hypotheses, tokens: Tensor, inside: Tensor, most: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Next actions of hypotheses that the strings allow, best first in each string.

        All of them, or the `most` best of each string beside those that are waited for.

        Actions that a string rules out are dropped, and the rest is not renormalised: their probability
        belongs to other strings.

        Returns:
            For P extensions: log joints float64, rows of the extended hypotheses, actions, and whether they
            are the awaited ones: the token, or the end.
        """
        ids, n_labels = self.ids, self.ids.labels
        goal = tokens[frontier.string]  # (R,)
        structure, generate = self.model.action_logprobs(frontier.made.state, goal)
        n_open = frontier.made.state.n_open
        ends = goal == self.model.eos_id  # (R,)
        fits = fitting(n_open, ends, ids) & (ends | ~inside[frontier.string])[:, None]
        structure = structure.masked_fill(~fits, -torch.inf)
        generate = generate.masked_fill(ends, -torch.inf)[:, None]
        each = torch.cat([structure[:, :n_labels], generate, structure[:, n_labels:]], 1)
        joint = frontier.score[:, None] + each.double()
        if bool(joint.isnan().any()):
            raise PdtoolsError(NO_NUMBERS)
        possible = joint > -torch.inf
        if most is not None:
            among = joint >= _least_of_best(joint, frontier.string, len(tokens), most)[frontier.string, None]
            among[:, n_labels] = True
            among[:, n_labels + 1 :] |= ends[:, None]
            possible &= among
        row, column = torch.nonzero(possible, as_tuple=True)
        score = joint[row, column]
        order = _best_first(score, frontier.string[row])
        score, row, column = score[order], row[order], column[order]
        is_token = column == n_labels
        action = torch.where(is_token, goal[row], ids.tokens + column - (column > n_labels).long())
        closes = (column > n_labels) & ends[row]
        is_goal = is_token | (closes & ending(n_open, ids)[row, (column - 1).clamp(min=0)])
        return score, row, action, is_goal

    def _extended(
        self, frontier: _Hypotheses, score: Tensor, row: Tensor, action: Tensor, chosen: Tensor
    ) -> _Hypotheses:
        """Make hypotheses of chosen extensions, whose actions are to be read."""
        rows, actions = row[chosen], action[chosen]
        return _Hypotheses(
            made=frontier.made.taken(rows),
            score=score[chosen],
            string=frontier.string[rows],
            node=self.history.add(frontier.node[rows], actions),
            pending=actions,
        )

    def _results(
        self,
        reached: list[NDArray[np.float64]],
        shares: list[NDArray[np.float64]],
        best: list[NDArray[np.int64]],
        ended: dict[int, tuple[NDArray[np.float64], NDArray[np.int64]]],
    ) -> list[ActionResult]:
        """Follow every string through its prefixes."""
        self.history.close()
        results = []
        for string in range(self.n_strings):
            scores, nodes = ended[string]
            prefix, incremental, share = [0.0], [], 0.0
            for k, level in enumerate(self.levels[1:]):
                if (place := level.prefix_of[string]) < 0:
                    break
                prefix.append(float(reached[k][place]))
                share += float(shares[k][place])
                incremental.append(self._derivation(best[k][place]))
            results.append(
                ActionResult(
                    prefix_logprobs=np.array(prefix),
                    derivations=tuple(
                        (score, self._derivation(node))
                        for score, node in zip(scores.tolist(), nodes.tolist(), strict=True)
                    ),
                    incremental=tuple(incremental),
                    log_share_kept=share,
                    expanded=self.expanded,
                )
            )
        return results

    def _derivation(self, node: int) -> ActionDerivation:
        derivation: ActionDerivation = self.model.read_derivation(self.history.path(int(node)))
        return derivation


def _thinned(score: Tensor, string: Tensor, most: int, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """The drawn rows of each string, for rows sorted by string, and their log weights (R',)."""
    rank = _rank(string, len(uniform))
    table = score.new_full((len(uniform), int(rank.max()) + 1 if len(rank) else 1), -torch.inf)
    table[string, rank] = score
    weight = thin(table, torch.full_like(uniform, most, dtype=torch.int64), uniform)[string, rank]
    left = torch.nonzero(weight > -torch.inf)[:, 0]
    return left, weight[left]


def _best_first(score: Tensor, string: Tensor) -> Tensor:
    """The order of rows by string, and within it by score; of equal ones as they are: int64 (R,)."""
    order = torch.sort(score, descending=True, stable=True).indices
    return order[torch.sort(string[order], stable=True).indices]


def _least_of_best(values: Tensor, string: Tensor, strings: int, most: int) -> Tensor:
    """The least of the `most` largest values in the rows (R, C) of each string: (strings,); -inf of fewer."""
    rank = _rank(string, strings)
    table = values.new_full((strings, int(rank.max()) + 1, values.shape[1]), -torch.inf)
    table[string, rank] = values
    table = table.flatten(1)
    if table.shape[1] < most:
        return table.new_full((strings,), -torch.inf)
    return table.topk(most, dim=1, sorted=False).values.amin(1)


def _rank(string: Tensor, strings: int) -> Tensor:
    """The rank of each row among its string's rows, for rows sorted by string: int64 (R,)."""
    first = torch.searchsorted(string, torch.arange(strings, device=string.device))
    return torch.arange(len(string), device=string.device) - first[string]


def _sums(score: Tensor, string: Tensor, strings: int) -> Tensor:
    """Compute log Σ exp of the scores of each string, (strings,); -inf without rows."""
    most = torch.full((strings,), -torch.inf, dtype=score.dtype, device=score.device)
    most = most.scatter_reduce(0, string, score, "amax")
    sums = torch.zeros_like(most).index_add(0, string, (score - most[string]).exp())
    return most + sums.log()


def _sums_of_rows(values: Tensor, string: Tensor, strings: int) -> Tensor:
    """Compute log Σ exp of the rows (R, V) of each string: (strings, V); -inf without rows."""
    most = torch.full((strings, values.shape[1]), -torch.inf, dtype=values.dtype, device=values.device)
    most = most.scatter_reduce(0, string[:, None].expand_as(values), values, "amax")
    shift = most.clamp(min=-1e300)
    return shift + torch.zeros_like(most).index_add(0, string, (values - shift[string]).exp()).log()


def _best(best: Tensor, score: Tensor, string: Tensor) -> Tensor:
    """The best scores of strings, (c, words), updated with new rows (sorted by string, best first)."""
    strings, words = best.shape
    rank = _rank(string, strings)
    table = torch.full_like(best, -math.inf)
    kept = rank < words
    table[string[kept], rank[kept]] = score[kept]
    return torch.cat([best, table], 1).topk(words, dim=1).values
