"""Beam search over the attachments of given strings (section 3.3 of the Pushdown Layers paper).

It also searches any other derivations with one choice after each token (:mod:`pdtools.models.tokenwise`).

The words are known, so all hypotheses of a string stand at the same token, and strings advance together: one
step of the model serves every hypothesis of every string in the batch. Hypotheses are rows of tensors; there
is no object per hypothesis. The search up to some token does not depend on later ones, so strings
with a common beginning are one string for its length (:class:`pdtools.search.batches.SortedStrings`).

A model of windows may read several sentences, each after its own ROOT. The last token of one attaches to
its ROOT, and no other does: choices that the words rule out are dropped, never renormalised (the model does
not know where a sentence ends). ROOT and end-of-sentence then follow with probability 1, so that A_t after
them minus A_t before is the log-probability of that last attachment.

If a token follows end-of-sentence (``final_id``), strings are searched with it: end-of-sentence is read, and
attaches to ROOT. Both count as one in the results.

A beam holds hypotheses with different attachment histories. Every history of k tokens has at least two
continuations (from the second token on), so all prefixes have the same number of hypotheses at token k,
min(beam, Catalan(k)). With a margin, where sentences end in windows, and for kinds that are not regular, each
prefix has as many as are left: nothing is fed to others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdtools.errors import PdtoolsError
from pdtools.models import LanguageModel, NoRoomError
from pdtools.models.tokenwise import TokenwiseDerivations, TokenwiseKind
from pdtools.search.batches import (
    MOST_ROWS,
    Level,
    SortedStrings,
    entries_that_fit,
    explained_memory_errors,
)
from pdtools.search.next_tokens import summaries
from pdtools.search.options import SearchOptions
from pdtools.search.particles import thin, uniform_of
from pdtools.search.scores import NO_NUMBERS, BeamStep, SearchResult

# With a margin, batches are made for this many times the hypotheses of the batches before them. If that is
# too few, they are made again, with room for more.
_HEADROOM = 1.5
# Tokens after which a search returns next-token distributions.
NextAfter = Literal["none", "last", "every"]


@dataclass(frozen=True, slots=True)
class BeamResult(SearchResult[NDArray[np.int32]]):
    """The result of the search for one string of n tokens.

    A_t is log Σ over the beam of the joint probability of the first t tokens and the attachments of those
    before t. So the marginal is a lower bound of log p(x), exact if the beam held every derivation.

    Attributes:
        derivations: the best ones: attachments int32[n + 2] in the sentence layout (ROOT and end-of-sentence
            attach to 0), or in the window layout with end-of-sentence, which attaches to 0, behind it. Other
            kinds give their own records of choices
            (:attr:`pdtools.models.tokenwise.TokenwiseDerivations.history`).
        incremental: for every t from 0 to n, the attachments int32[t + 1] of the best hypothesis after
            token t was attached; for n + 1, the best derivation's.
        log_share_kept: the sum over the attachments of log (the kept hypotheses' share of the joint
            probability of all extensions of those kept before), nats.
        next_logprobs: also float64 (1, vocabulary), after the n tokens alone.
        summaries: float64[n + 1, 2], if requested: summaries of the distribution before each token, and
            before end-of-sentence, the mixture over the beam (:func:`pdtools.search.next_tokens.summaries`);
            within a window's sentence, given that it continues.
        structure: float64[n + 1, 2], if requested: means over the beam after each token was attached, of the
            attachment's surprisal, nats, and of the number of constituents it closes; 0 for end-of-sentence.
    """

    summaries: NDArray[np.float64] | None = None
    structure: NDArray[np.float64] | None = None


@torch.inference_mode()
def beam_search(
    model: LanguageModel,
    token_ids: Sequence[NDArray[np.int32]],
    *,
    search: SearchOptions,
    k_best: int = 1,
    next_tokens: NextAfter = "none",
    commit: bool = False,
    word_beginnings: NDArray[np.bool_] | None = None,
    structure: bool = False,
    max_batch: int | None = None,
    share_prefixes: bool = True,
    trace: int = 0,
    draw: int | None = None,
) -> list[BeamResult]:
    """Search the derivations of strings.

    Args:
        model: a model whose derivations are :mod:`pdtools.models.tokenwise` (with an attachment head), in
            evaluation mode.
        token_ids: for each string int32[n + 2]: ROOT, the n tokens, end-of-sentence. For a model of windows
            more ROOTs, one before each sentence, may be among the n tokens.
        search: the beam and its margin.
        k_best: number of derivations to return (fewer if the beam ends with fewer).
        next_tokens: whether to return next-token distributions besides end-of-sentence after the n tokens
            ("last"), or after ROOT and each of them ("every"); not for windows.
        commit: whether only the best derivation of a sentence is kept for the next ones.
        word_beginnings: bool (V,), to return :attr:`BeamResult.summaries`.
        structure: whether to return :attr:`BeamResult.structure`.
        max_batch: strings per batch; by default as many as fit a fixed amount of memory.
        share_prefixes: whether common beginnings of strings are searched once. That only affects the time.
        trace: number of hypotheses of each beam to return.
        draw: a seed: hypotheses are drawn (:func:`pdtools.search.particles.thin`) instead of
            keeping the best. The results then only serve :mod:`pdtools.search.particles`.

    Returns:
        One result per string, in input order. Scores do not depend on which strings are searched
        together, except by rounding. Equal scores are ranked by the rank of the hypothesis they extend,
        then by the position they attach to.

    Raises:
        PdtoolsError: if the model has no attachment head, gives values that are not numbers, or the device
            is out of memory.
    """
    kind = TokenwiseKind.of(model)
    if k_best < 1:
        raise PdtoolsError(f"k-best must be at least 1, not {k_best}")
    if model.layout == "window":
        if next_tokens != "none":
            raise PdtoolsError("models of windows give no distribution of the next token after a prefix")
        token_ids = [_marked(ids, model) for ids in token_ids]
    is_read = model.final_id >= 0 and next_tokens != "last"  # end-of-sentence, which another token follows
    if is_read:
        token_ids = [np.append(ids, np.int32(model.final_id)) for ids in token_ids]
    widths = kind.widths(search.width, max(map(len, token_ids), default=0))
    strings = SortedStrings.of(token_ids, share=share_prefixes)
    most_entries = entries_that_fit(model, max(1, len(widths)), sum(widths))
    most_strings = max_batch or max(1, MOST_ROWS // search.width)
    wanted = _Wanted(
        margin=search.margin,
        k_best=k_best,
        next_tokens=next_tokens,
        commit=commit,
        begins=None if word_beginnings is None else torch.from_numpy(word_beginnings).to(model.device),
        structure=structure,
        trace=search.width if is_read and trace else trace,
        draw=draw,
    )
    # The number of hypotheses left by a margin is unknown before: it is guessed from the last batch.
    guess = float(search.width)
    results: dict[int, BeamResult] = {}
    while strings.order:
        expected = [min(width, guess) for width in widths]
        group, rest = strings.split(expected, most_entries, most_strings)
        try:
            with explained_memory_errors():
                batch = _Batch(group, model, kind, widths, most_entries, wanted)
                found = batch.search()
        except NoRoomError:
            if guess >= search.width:  # there was room for all
                raise
            guess = max(2 * guess, _HEADROOM * batch.mean_width)
        else:
            if search.margin is not None:
                guess = min(search.width, _HEADROOM * batch.mean_width)
            results.update(zip(group.order, found, strict=True))
            strings = rest
        del batch  # its memory is free before the next is made
    in_order = (results[i] for i in range(len(token_ids)))
    return [_with_one_end(result, trace) if is_read else result for result in in_order]


def _with_one_end(result: BeamResult, trace: int) -> BeamResult:
    """Convert a result for a string with a token after end-of-sentence: the two count as end-of-sentence."""
    *steps, read, last = result.steps or (None, None)
    if read is not None and last is not None:
        columns: dict[str, Any] = {"parents": read.parents[last.parents], "attachment": read.attachment}
        if last.token_logprobs is not None and read.token_logprobs is not None:
            columns["token_logprobs"] = last.token_logprobs + read.token_logprobs[last.parents]
        steps.append(replace(last, derivations=tuple(each[:-1] for each in last.derivations), **columns))
    derivations = tuple((joint, history[:-1]) for joint, history in result.derivations)
    return replace(
        result,
        prefix_logprobs=np.delete(result.prefix_logprobs, -2),
        derivations=derivations,
        incremental=(*result.incremental[:-2], derivations[0][1]),
        steps=tuple(_shortened(step, trace) for step in steps if step is not None),
        next_logprobs=None if result.next_logprobs is None else result.next_logprobs[:-1],
        summaries=None if result.summaries is None else result.summaries[:-1],
        structure=None if result.structure is None else result.structure[:-1],
    )


def _shortened(step: BeamStep[NDArray[np.int32]], trace: int) -> BeamStep[NDArray[np.int32]]:
    """The best hypotheses alone."""
    columns = ("joints", "parents", "derivations", "token_logprobs")
    return replace(step, **{name: getattr(step, name)[:trace] for name in columns})


def _marked(ids: NDArray[np.int32], model: LanguageModel) -> NDArray[np.int32]:
    """Number the last tokens of windows' sentences behind the vocabulary.

    For the search, a token that ends a sentence differs from the same token within it.

    Raises:
        PdtoolsError: if a sentence has no tokens, which windows cannot hold.
    """
    roots = np.flatnonzero(ids == model.root_id)
    if (np.diff([*roots, len(ids) - 1]) < 2).any():
        raise PdtoolsError("a sentence of a window has a token at least")
    ends = np.append((ids[1:] == model.root_id) | (ids[1:] == model.eos_id), False)
    return np.where(ends, ids + model.vocab_size, ids).astype(np.int32)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    """The options of a search and of its results, see :func:`beam_search`.

    Attributes:
        begins: bool (V,), its ``word_beginnings``, on the model's device.
    """

    margin: float | None
    k_best: int
    next_tokens: NextAfter
    commit: bool
    begins: Tensor | None
    structure: bool
    trace: int
    draw: int | None


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of hypotheses of p prefixes: a prefix's rows are adjacent, best first.

    Attributes:
        prefixes: p.
        widest: h, the most hypotheses of a prefix.
        counts: int64 (p,), each one's number; None: all have h, and nothing has to be read from the device.
    """

    prefixes: int
    widest: int
    counts: Tensor | None
    device: torch.device

    @classmethod
    def of(cls, counts: Tensor) -> _Rows:
        """Rows with these numbers of hypotheses."""
        fewest, most = (int(n) for n in torch.aminmax(counts))
        return cls(len(counts), most, None if fewest == most else counts, counts.device)

    @property
    def first(self) -> Tensor:
        """The row of the best hypothesis of each prefix: int64 (p,)."""
        if self.counts is None:
            return torch.arange(self.prefixes, device=self.device) * self.widest
        return self.counts.cumsum(0) - self.counts

    def repeat(self, values: Tensor) -> Tensor:
        """Values of prefixes (p,) for each of their hypotheses (R,)."""
        return values.repeat_interleave(self.widest if self.counts is None else self.counts)

    def padded(self, values: Tensor, fill: float) -> Tensor:
        """Values of hypotheses (R, …) by prefix and rank: (p, h, …)."""
        if self.counts is None:
            return values.view(self.prefixes, self.widest, *values.shape[1:])
        there = torch.arange(self.widest, device=self.device) < self.counts[:, None]  # (p, h)
        found = values.new_full((*there.shape, *values.shape[1:]), fill)
        found[there] = values
        return found

    def unpadded(self, values: Tensor) -> Tensor:
        """The inverse of :meth:`padded`."""
        if self.counts is None:
            return values.flatten(0, 1)
        return values[torch.arange(self.widest, device=self.device) < self.counts[:, None]]

    def of_prefixes(self, prefixes: Tensor) -> tuple[Tensor, _Rows]:
        """The rows of all hypotheses of prefixes (c,), and their new arrangement."""
        first = self.first[prefixes]
        if self.counts is None:
            rows = (first[:, None] + torch.arange(self.widest, device=self.device)).flatten()
            return rows, _Rows(len(prefixes), self.widest, None, self.device)
        there = _Rows.of(self.counts[prefixes])
        rows = there.repeat(first - there.first)
        return rows + torch.arange(len(rows), device=self.device), there


@dataclass(frozen=True, slots=True)
class _Traced:
    """The best K hypotheses in the beams of p prefixes; see :class:`BeamStep`.

    Attributes:
        kept: int64 (p,).
        total: float64 (p,).
        joints: float64 (p, K), -inf where there are fewer.
        parents: int64 (p, K).
        histories: int32 (p, K, k + 1).
        token_logprobs: float (p, K).
        attachment: float64 (p, k + 1).
    """

    kept: Tensor
    total: Tensor
    joints: Tensor
    parents: Tensor
    histories: Tensor
    token_logprobs: Tensor
    attachment: Tensor

    def step(self, prefix: int) -> BeamStep[NDArray[np.int32]]:
        """The step of one prefix."""
        kept = int(self.kept[prefix])
        return BeamStep(
            kept=kept,
            total=float(self.total[prefix]),
            joints=self.joints[prefix, :kept].cpu().numpy(),
            parents=self.parents[prefix, :kept].cpu().numpy(),
            derivations=tuple(self.histories[prefix, :kept].cpu().numpy()),
            token_logprobs=self.token_logprobs[prefix, :kept].double().cpu().numpy(),
            attachment=self.attachment[prefix].cpu().numpy(),
        )


class _Batch:
    """Strings that are searched together: p prefixes that continue, and all their hypotheses, R rows."""

    def __init__(
        self,
        strings: SortedStrings,
        model: LanguageModel,
        kind: TokenwiseKind,
        widths: Sequence[int],
        most_entries: int,
        wanted: _Wanted,
    ) -> None:
        self.model = model
        self.regular = kind.regular
        self.wanted = wanted
        # For every level: (p, 2) for the prefixes before it, and (p', 2) for those that continue.
        self.summaries: list[Tensor] = []
        self.structure: list[Tensor] = []
        self.strings = strings
        self.widths = widths
        self.levels = strings.levels()
        self.device = model.device
        first, length = self.levels[0], len(self.levels)
        prefixes = len(first.tokens)
        entries = sum(len(level.going) * width for level, width in zip(self.levels, widths, strict=False))
        if len(strings.order) > 1:
            entries = min(entries, most_entries)
        self.fed = self.going = 0  # tokens, to all hypotheses; prefixes that continued
        self.rows = _Rows(prefixes, 1, None, self.device)
        self.score = torch.zeros(prefixes, dtype=torch.float64, device=self.device)  # (R,) log joint so far
        self.token_logprobs = self.score  # (R,) of the newest token; only with a trace
        self.kept = self.score  # (p,) log of the share that was kept so far
        self.windows = model.layout == "window"
        self.made = cast(TokenwiseDerivations, model.derive(prefixes, length, entries))  # R derivations

    def search(self) -> list[BeamResult]:
        """Advance token by token until every string has ended.

        Without a margin, nothing is read from the device before the end, except the number of prefixes if a
        model's first layers know no tape.
        """
        reached: list[Tensor] = []  # for every level (p,), A_k
        best: list[Tensor] = []  # for every level (p, k + 1), the best history after its token was attached
        ended: dict[int, tuple[Tensor, Tensor, Tensor]] = {}  # for every string (k_best,), (k_best, N), ()
        traced: list[tuple[_Traced | None, _Traced | None]] = []  # for every level, going and ending
        following: dict[int, Tensor] = {}  # for levels (p, V), next tokens of the prefixes before
        wanted, next_tokens = self.wanted, self.wanted.next_tokens
        for k, level in enumerate(self.levels[1:], start=1):
            if next_tokens == "every" or (next_tokens == "last" and len(level.ending)):
                following[k] = self._next_logprobs()
            if wanted.begins is not None:
                self.summaries.append(self._summaries())
            self._score_token(level)
            reached.append(torch.logsumexp(self._scores(), dim=1))
            at_end = going = None
            if len(level.ending):
                derivations = self._derivations(level, k, wanted.k_best)
                ended.update(zip(level.ending.tolist(), zip(*derivations, strict=True), strict=True))
                at_end = self._traced_end(level, k) if wanted.trace else None
            if len(level.going):
                going = self._attach(k, level)
                best.append(self.made.history[self.rows.first, : k + 1])
            traced.append((going, at_end))
        return self._results(reached, best, ended, following, traced)

    @property
    def mean_width(self) -> float:
        """The mean number of hypotheses that were fed a prefix's last token, without ROOT; at least 1."""
        return max(1, self.fed) / max(1, self.going)

    def _results(
        self,
        reached_on_device: Sequence[Tensor],
        best_on_device: Sequence[Tensor],
        ended: Mapping[int, tuple[Tensor, Tensor, Tensor]],
        following_on_device: Mapping[int, Tensor],
        traced: Sequence[tuple[_Traced | None, _Traced | None]],
    ) -> list[BeamResult]:
        """Follow every string through its prefixes."""
        reached = [_finite(values) for values in reached_on_device]
        best = [values.cpu().numpy() for values in best_on_device]
        said_of = [values.cpu().numpy() for values in self.summaries]
        built_of = [values.cpu().numpy() for values in self.structure]
        following = {k: values.cpu().numpy() for k, values in following_on_device.items()}
        results = []
        for string, (scores, histories, kept) in sorted(ended.items()):
            steps: list[BeamStep[NDArray[np.int32]]] = []
            derivations = tuple(
                (score, history)
                for score, history in zip(scores.tolist(), histories.cpu().numpy(), strict=True)
                if score > -math.inf
            )
            prefix, incremental = [0.0], [derivations[0][1][:1]]
            length = len(derivations[0][1])
            said, built = np.zeros((length - 1, 2)), np.zeros((length - 1, 2))
            for k in range(1, length):
                level, place = self.levels[k], self.levels[k].prefix_of[string]
                prefix.append(reached[k - 1][place])
                if said_of:
                    said[k - 1] = said_of[k - 1][level.parents[place]]
                going, at_end = traced[k - 1]
                if k < length - 1:
                    at = int(np.searchsorted(level.going, place))
                    incremental.append(best[k - 1][at])
                    steps += [] if going is None else [going.step(at)]
                    if built_of:
                        built[k - 1] = built_of[k - 1][at]
                elif at_end is not None:
                    steps.append(at_end.step(int(np.searchsorted(level.ending, string))))
            after = [
                values[self.levels[k].parents[self.levels[k].prefix_of[string]]]
                for k, values in following.items()
                if k == length - 1 or (self.wanted.next_tokens == "every" and k < length)
            ]
            results.append(
                BeamResult(
                    prefix_logprobs=np.array(prefix),
                    derivations=derivations,
                    incremental=(*incremental, derivations[0][1]),
                    log_share_kept=float(kept),
                    next_logprobs=np.stack(after) if after else None,
                    steps=tuple(steps),
                    summaries=None if self.wanted.begins is None else said,
                    structure=built if self.wanted.structure else None,
                )
            )
        return results

    def _scores(self) -> Tensor:
        """Log joints by prefix and rank: (p, h), -inf where there is no hypothesis."""
        return self.rows.padded(self.score, -torch.inf)

    def _weights(self) -> Tensor:
        """The log of each hypothesis's share of its prefix' probability: (R,)."""
        return self.score - self.rows.repeat(torch.logsumexp(self._scores(), dim=1))

    def _summaries(self) -> Tensor:
        """Summaries of the mixtures over the hypotheses of prefixes: (p, 2)."""
        assert self.wanted.begins is not None
        each = self.model.next_token_logprobs(self.made.state) + self._weights().float()[:, None]  # (R, V)
        return summaries(torch.logsumexp(self.rows.padded(each, -torch.inf), dim=1), self.wanted.begins)

    def _structure(self, attached: Tensor, closed: Tensor) -> Tensor:
        """Means over the hypotheses of prefixes of two values (R,) of each: (p, 2)."""
        weighted = torch.stack([-attached.double(), closed.double()], 1) * self._weights().exp()[:, None]
        return self.rows.padded(weighted, 0.0).sum(1)

    def _next_logprobs(self) -> Tensor:
        """Log probabilities of the prefixes with every token that may follow: float64 (p, V)."""
        joint = self.score[:, None] + self.model.next_token_logprobs(self.made.state).double()  # (R, V)
        return torch.logsumexp(self.rows.padded(joint, -torch.inf), dim=1)

    def _score_token(self, level: Level) -> None:
        """Advance to prefixes that are one token longer: add log p(x_k | x_<k, W_{k−1})."""
        tokens = self._tensor(level.tokens) % self.model.vocab_size  # (c,)
        if np.array_equal(level.parents, np.arange(self.rows.prefixes)):
            chosen = self.model.token_logprobs(self.made.state, self.rows.repeat(tokens))
        else:
            parents = self._tensor(level.parents)
            rows, there = self.rows.of_prefixes(parents)
            chosen = self.model.token_logprobs(self.made.state, there.repeat(tokens), rows)
            self._keep(parents)
        if self.windows:  # tokens after the end of a sentence are given
            certain = (tokens == self.model.root_id) | (tokens == self.model.eos_id)
            chosen = chosen.masked_fill(self.rows.repeat(certain), 0.0)
        self.score = self.score + chosen
        self.token_logprobs = chosen

    def _attach(self, k: int, level: Level) -> _Traced | None:
        """Extend every hypothesis by every legal choice of token k, keep the best, feed the token."""
        if len(level.going) < len(level.tokens):
            kept = self._keep(self._tensor(level.going))
            if self.wanted.trace:
                self.token_logprobs = self.token_logprobs[kept]
        marked = self._tensor(level.tokens[level.going])  # (p,)
        tokens = marked % self.model.vocab_size  # (p,)
        roots = tokens == self.model.root_id  # (p,)
        of_rows = self.rows.repeat(tokens)  # (R,)
        legal = self.made.legal(of_rows)  # (R, C)
        chosen = self.made.choice_logprobs(of_rows, legal)  # (R, C)
        if self.windows:
            legal = self.made.consistent(legal, self.rows.repeat(marked > tokens))
        joint = (self.score[:, None] + chosen.double()).masked_fill(~legal, -torch.inf)  # (R, C)
        most = self._of_prefixes(joint, torch.amax)  # (p,)
        margin, commit = self.wanted.margin, self.wanted.commit
        # A prefix has one choice after end-of-sentence, if that is read.
        is_end = level.tokens[level.going] == self.model.eos_id
        reads_end = self.model.final_id >= 0 and bool(is_end.any())
        if self.wanted.draw is not None:
            joint, place, rows = self._drawn(joint, k, level)
        elif margin is None and self.regular and not self.windows and not reads_end:
            place, rows = self._best(joint, self.widths[k])
        else:
            taken = self.made.followed(legal, of_rows)
            if margin is not None:
                best = self._of_prefixes(joint.masked_fill(~taken, -torch.inf), torch.amax)
                behind = joint < self.rows.repeat(best - margin)[:, None]  # NaN is kept, to be refused
                taken = taken & ~behind
            widths = torch.full_like(tokens, self.widths[k])  # (p,)
            if commit:
                widths[roots] = 1
            place, rows = self._best_of(joint, taken, widths)
        mass = (joint - self.rows.repeat(most)[:, None]).exp()  # (R, C)
        lost = mass.flatten().index_fill(0, place, 0.0).view_as(mass)
        shares = self._of_prefixes(lost, torch.sum, 0.0) / self._of_prefixes(mass, torch.sum, 0.0)  # (p,)

        if commit:  # sentences before count as read, with any derivation: nothing is dropped
            shares = shares.masked_fill(roots, 0.0)
            reached = torch.logsumexp(self._scores(), dim=1)  # (p,)
            self.score = torch.where(rows.repeat(roots), rows.repeat(reached), joint.flatten()[place])
        else:
            self.score = joint.flatten()[place]
        self.kept = self.kept + torch.log1p(-shares)
        before, self.rows = self.rows, rows
        parent, choice = place // joint.shape[1], place % joint.shape[1]  # (R',)
        self.made.select(parent)
        self.made.extend(rows.repeat(tokens), choice)
        if self.wanted.structure:
            self.structure.append(self._structure(chosen.flatten()[place], self.made.closed()))
        self.fed, self.going = self.fed + len(place), self.going + rows.prefixes
        if not self.wanted.trace:
            return None
        by_choice = before.padded(mass, 0.0).sum(1)  # (p, C)
        return self._traced(
            self._tensor(np.arange(rows.prefixes)),
            torch.arange(rows.widest, device=self.device).expand(rows.prefixes, -1),
            k,
            rows.padded(parent - rows.repeat(before.first), 0),
            rows.padded(self.token_logprobs[parent], 0.0),
            by_choice / by_choice.sum(1, keepdim=True),
        )

    def _of_prefixes(self, values: Tensor, reduce: Callable[..., Tensor], fill: float = -torch.inf) -> Tensor:
        """Reduce values of extensions (R, C) to values of prefixes (p,)."""
        return reduce(self.rows.padded(reduce(values, dim=1), fill), dim=1)

    def _best(self, joint: Tensor, most: int) -> tuple[Tensor, _Rows]:
        """Flat indices in ``joint`` (R, C) of the best extensions of each prefix, best first.

        There are at least ``most`` legal ones, equally many for each.
        """
        p = self.rows.prefixes
        joint = joint.view(p, -1)  # (p, h·C)
        place = torch.sort(joint, dim=1, descending=True, stable=True).indices[:, :most]
        place = place + torch.arange(p, device=self.device)[:, None] * joint.shape[1]
        return place.flatten(), _Rows(p, most, None, self.device)

    def _best_of(self, joint: Tensor, taken: Tensor, most: Tensor) -> tuple[Tensor, _Rows]:
        """Flat indices of the best extensions among those ``taken``, bool (R, C), at least one per prefix.

        At most ``most`` for each, int64 (p,).
        """
        p = self.rows.prefixes
        place = taken.flatten().nonzero()[:, 0]  # (M,), by prefix, then rank, then choice
        prefix = self.rows.repeat(torch.arange(p, device=self.device))[place // joint.shape[1]]  # (M,)
        order = torch.sort(joint.flatten()[place], descending=True, stable=True).indices
        order = order[torch.sort(prefix[order], stable=True).indices]
        counts = torch.bincount(prefix, minlength=p)
        rank = torch.arange(len(place), device=self.device) - (counts.cumsum(0) - counts)[prefix]
        return place[order[rank < most[prefix]]], _Rows.of(counts.minimum(most))

    def _drawn(self, joint: Tensor, k: int, level: Level) -> tuple[Tensor, Tensor, _Rows]:
        """Draw extensions by chance: log weights (R, C), and the flat indices of the drawn ones."""
        assert self.wanted.draw is not None
        if bool(joint.isnan().any()):
            raise PdtoolsError(NO_NUMBERS)
        leads = level.leads[level.going].tolist()
        numbers = [uniform_of(self.wanted.draw, self.strings.ids[string][: k + 1]) for string in leads]
        uniform = torch.tensor(numbers, dtype=torch.float64, device=self.device)  # (p,)
        padded = self.rows.padded(joint, -torch.inf)  # (p, h, C)
        most = torch.full_like(uniform, self.widths[k], dtype=torch.int64)
        joint = self.rows.unpadded(thin(padded.flatten(1), most, uniform).view_as(padded))
        left = joint > -torch.inf  # (R, C)
        counts = self._of_prefixes(left.long(), torch.sum, 0)  # (p,)
        return joint, left.flatten().nonzero()[:, 0], _Rows.of(counts)

    def _keep(self, prefixes: Tensor) -> Tensor:
        """Continue with the hypotheses of the given prefixes, and return their rows.

        A prefix may continue as several.
        """
        rows, self.rows = self.rows.of_prefixes(prefixes)
        self.made.select(rows)
        self.score, self.kept = self.score[rows], self.kept[prefixes]
        return rows

    def _derivations(self, level: Level, k: int, k_best: int) -> tuple[Tensor, Tensor, Tensor]:
        """The results of the strings that end here.

        Log joints (e, k_best), -inf where there are fewer, attachments (e, k_best, k + 1), and the log of the
        kept share (e,).
        """
        prefixes = self._tensor(level.prefix_of[level.ending])
        scores, ranks = torch.sort(self._scores()[prefixes], dim=1, descending=True, stable=True)
        rows = (self.rows.first[prefixes, None] + ranks[:, :k_best]).clamp(max=len(self.made.history) - 1)
        return scores[:, :k_best], self.made.history[rows, : k + 1], self.kept[prefixes]

    def _traced(
        self,
        prefixes: Tensor,
        ranks: Tensor,
        k: int,
        parents: Tensor,
        token_logprobs: Tensor,
        attachment: Tensor,
    ) -> _Traced:
        """The best hypotheses of some prefixes (e,) after token k.

        Args:
            ranks: int64 (e, h), the hypotheses' ranks in their prefixes, best first.
            parents, token_logprobs: by prefix and rank (e, h).
            attachment: (e, k + 1).
        """
        scores = self._scores()[prefixes]  # (e, h)
        counts = self.rows.counts
        best = ranks[:, : self.wanted.trace]  # (e, K)
        rows = (self.rows.first[prefixes, None] + best).clamp(max=len(self.made.history) - 1)
        return _Traced(
            kept=torch.full_like(prefixes, self.rows.widest) if counts is None else counts[prefixes],
            total=scores.logsumexp(1),
            joints=scores.gather(1, best),
            parents=parents.gather(1, best),
            histories=self.made.history[rows, : k + 1],
            token_logprobs=token_logprobs.gather(1, best),
            attachment=attachment,
        )

    def _traced_end(self, level: Level, k: int) -> _Traced:
        """The best hypotheses of the strings that end here; their end reduces everything."""
        prefixes = self._tensor(level.prefix_of[level.ending])  # (e,)
        ranks = torch.sort(self._scores()[prefixes], dim=1, descending=True, stable=True).indices
        every = torch.arange(self.rows.widest, device=self.device).expand_as(ranks)
        token_logprobs = self.rows.padded(self.token_logprobs, 0.0)[prefixes]
        to_root = torch.arange(k + 1, device=self.device).eq(0).double().expand(len(prefixes), -1)
        return self._traced(prefixes, ranks, k, every, token_logprobs, to_root)

    def _tensor(self, values: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(values).to(self.device, non_blocking=True)


def _finite(values: Tensor) -> NDArray[np.float64]:
    found: NDArray[np.float64] = values.cpu().numpy()
    if not np.isfinite(found).all():
        raise PdtoolsError(NO_NUMBERS)
    return found
