"""GiLT: attention sees a dependency graph that the model makes on the way (Huang et al. 2026)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from pdtools.models.base import LossParts, TokenParts
from pdtools.models.batch import Batch
from pdtools.models.dependency.batch import ArcBatch, word_numbers
from pdtools.models.dependency.config import GiltConfig
from pdtools.models.dependency.derivations import ArcDerivation, graph_of_history, noted
from pdtools.models.dependency.scorer import (
    COUNTS,
    VALUES,
    ArcPairs,
    GiltScorer,
    Scores,
    arc_loss,
    best_candidates,
    best_sets,
    candidate_scores,
    count_logprobs,
    followed_counts,
    log_polynomials,
    log_set_sums,
    set_logprobs,
)
from pdtools.models.dependency.state import ArcState, GraphState, WordChoice
from pdtools.models.derivations import OTHER_WORDS
from pdtools.models.tokenwise import TokenwiseDerivations
from pdtools.models.transformer.block import Block
from pdtools.models.transformer.cache import Past
from pdtools.models.transformer.model import TransformerLM
from pdtools.models.transformer.score_terms import RelativePositions, ScoreInputs, ScoreTerm
from pdtools.trees.graphs import Graph

if TYPE_CHECKING:
    from pdtools.shards import ShardSet
    from pdtools.tokenization import Tokenizer

# Number of sets of each size that a beam search considers for each hypothesis.
MOST_SETS = 16
TOO_MANY = f"{COUNTS} or more arcs at a word"


class _Scored(NamedTuple):
    """The scores of the G words of rows.

    Attributes:
        row: int64 (G,), each word's row.
        pairs, scores: pairs of words with all older nodes.
        counts: int64 (G,), the number of each one's arcs.
    """

    row: Tensor
    pairs: ArcPairs
    scores: Scores
    counts: Tensor


class GraphScores(ScoreTerm):
    """The terms Σ_f (q + u)·W_k A_f e_f[F_f]: e_f of all layers, A_f of this one, u its positions' bias.

    Scores of all values are computed once per query and picked by the tapes, as in :class:`DepthScores`.

    Args:
        d_model, heads: the model's.
        tables: embeddings of all features, one after the other, (3 · VALUES, E); owned by the model.
    """

    name = "graph"
    form: ClassVar[tuple[str, ...]] = ("graph_table", "graph")

    def __init__(self, d_model: int, heads: int, tables: nn.Embedding) -> None:
        super().__init__()
        self.heads = heads
        width = tables.embedding_dim
        self.maps = nn.ModuleList(nn.Linear(width, d_model, bias=False) for _ in range(3))  # A
        # Not registered: they belong to others.
        self._tables = (tables,)
        self._positions: tuple[RelativePositions, ...] = ()
        # While nothing is learned: what the vectors were made of, and these.
        self._known: tuple[list[tuple[int, int]], Tensor] | None = None

    def share_bias(self, positions: RelativePositions) -> None:
        """Use the u of a layer's positions."""
        self._positions = (positions,)

    def tensors(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> dict[str, Tensor]:
        """See :meth:`ScoreTerm.tensors`."""
        assert inputs.graph is not None
        return {"graph_table": self.vectors(key_map, inputs.graph_rows), "graph": inputs.graph}

    def forward(self, q: Tensor, k: Tensor, key_map: Tensor, inputs: ScoreInputs) -> Tensor:
        assert inputs.graph is not None
        for positions in self._positions:
            q = q + positions.content_bias
        # einsum folds batch and queries into one matrix; matmul would first copy the table for every row.
        vectors = self.vectors(key_map, inputs.graph_rows)  # (H, rows, d_head)
        by_value = torch.einsum("bhqd,hvd->bhqv", q, vectors)  # (B, H, Q, rows)
        tapes = (each[:, None].long().expand(-1, self.heads, -1, -1) for each in inputs.graph.unbind(1))
        first, *others = (by_value.gather(3, tape) for tape in tapes)  # (B, H, Q, K) each
        return sum(others, first)

    def vectors(self, key_map: Tensor, rows: Tensor | None) -> Tensor:
        """Vectors that values of features add to keys, all or some rows: (H, rows, d_head).

        Steps of decoding, which need all, make them once.
        """
        sources = [self._tables[0].weight, *(cast(Tensor, each.weight) for each in self.maps), key_map]
        if rows is not None or torch.is_grad_enabled() or any(each.is_inference() for each in sources):
            return self._vectors(key_map, rows)
        made_of = [(each.data_ptr(), each._version) for each in sources]
        if self._known is None or self._known[0] != made_of:
            self._known = made_of, self._vectors(key_map, None).contiguous()
        return self._known[1]

    def _vectors(self, key_map: Tensor, rows: Tensor | None) -> Tensor:
        table = self._tables[0].weight  # (3 · VALUES, E)
        counts = [VALUES] * 3
        if rows is not None:
            table, counts = table[rows], torch.bincount(rows // VALUES, minlength=3).tolist()
        parts = zip(self.maps, table.split(counts), strict=True)
        mapped = F.linear(torch.cat([map_(part) for map_, part in parts]), key_map)  # (rows, D)
        return mapped.view(len(mapped), self.heads, -1).transpose(0, 1)


class GiltLM(TransformerLM):
    """The decoder with three tapes in its attention, and a scorer of arcs.

    p(x, a) is the product of the probabilities of tokens and of the numbers of arcs; of sets of arcs too, if
    they have any. The root of the vocabulary and padding have no share.
    """

    config: GiltConfig
    begins: Tensor

    def __init__(self, config: GiltConfig) -> None:
        tables = nn.Embedding(3 * VALUES, config.feature_width)  # N(0, 1)
        super().__init__(
            config,
            extra_terms={
                layer: [GraphScores(config.d_model, config.heads, tables)] for layer in range(config.layers)
            },
        )
        self.feature_embedding = tables
        if config.positions == "relative":
            for block in cast(list[Block], list(self.blocks)):
                positions, graph = block.attention.terms
                cast(GraphScores, graph).share_bias(cast(RelativePositions, positions))
        self.scorer = GiltScorer(config.d_model, config.width, config.feature_width)
        if config.initialization == "depth-scaled":
            for module in self.scorer.modules():
                if isinstance(module, nn.Linear):
                    self.initializer(module)
        self.scorer.initialize()
        never = torch.zeros(config.n_inputs)
        never[[config.pad_id, config.root_id]] = -torch.inf
        self._never = never
        # The layers whose outputs the scorer reads, from 1 on.
        self._scored_layers = min(config.layers, config.layers // 2 + 1), max(1, config.layers - 1)
        # Information from the tokenizer: see :meth:`use_tokenizer`.
        self.register_buffer("begins", torch.ones(config.vocab_size, dtype=torch.bool), persistent=False)

    def use_tokenizer(self, tokenizer: Tokenizer) -> None:
        """See :meth:`LanguageModel.use_tokenizer`: which tokens begin words."""
        begins = torch.from_numpy(tokenizer.begin_words)
        self.begins.copy_(F.pad(begins, (0, self.vocab_size - len(begins)), value=True))

    @property
    def beginnings(self) -> NDArray[np.bool_]:
        """Bool (V,), tokens that begin words."""
        found: NDArray[np.bool_] = self.begins.cpu().numpy()
        return found

    def no_derivation(self, tokens: NDArray[np.int32]) -> Graph:
        """See :meth:`LanguageModel.no_derivation`: no arcs."""
        return Graph.of(int(word_numbers(tokens, self.beginnings)[-1]), [], [])

    # --- given derivations --------------------------------------------------------------------

    def forward_parts(self, batch: Batch) -> TokenParts:
        """See :meth:`LanguageModel.forward_parts`; the derivation is the graph.

        If arcs are the best-scored ones, a graph with others has probability 0.
        """
        assert isinstance(batch, ArcBatch)
        read, scored = self._read_rows(batch)
        every = count_logprobs(scored.scores.counts.double(), scored.pairs.number, masked=self._masked)
        counts = every.gather(1, scored.counts[:, None])[:, 0]  # (G,)
        of_words = counts + self._arc_logprobs(batch, scored)  # (G,)
        first = batch.first[scored.row, scored.pairs.number]  # (G,)
        derived = of_words.new_zeros(batch.tokens.shape).index_put((scored.row, first), of_words)
        return TokenParts(
            token_logprobs=self._token_logprobs(batch, read),
            attach_logprobs=derived,
            attach_best=torch.zeros_like(batch.tokens),
            n_clamped=batch.clamped.sum(),
            count_logprobs=counts.new_zeros(len(batch.tokens)).index_add(0, scored.row, counts),
        )

    def loss(self, batch: Batch) -> LossParts:
        """See :meth:`LanguageModel.loss`; for arcs, the cross-entropies of their numbers and of each pair."""
        assert isinstance(batch, ArcBatch)
        read, scored = self._read_rows(batch)
        every = count_logprobs(scored.scores.counts.float(), scored.pairs.number, masked=self._masked)
        return LossParts(
            sums={
                "token_nll": -self._token_logprobs(batch, read).sum(),
                "count_nll": -every.gather(1, scored.counts[:, None]).sum(),
                "arc_bce": arc_loss(scored.scores, scored.pairs, batch.adjacency),
            },
            counts={
                "tokens": batch.predicted().sum(),
                "words": batch.is_word.sum(),
                "counts_right": (every.argmax(1) == scored.counts).sum(),
                "clamped": batch.clamped.sum(),
            },
        )

    @property
    def _masked(self) -> bool:
        return self.config.counts == "masked"

    def final_states(self, batch: Batch) -> Tensor:
        """See :meth:`LanguageModel.final_states`."""
        assert isinstance(batch, ArcBatch)
        return self._read_rows(batch)[0]

    def _read_rows(self, batch: ArcBatch) -> tuple[Tensor, _Scored]:
        """Final states, (B, N, D), and the scores of words."""
        n = batch.tokens.shape[1]
        self.check_length(n)
        causal = torch.ones(n, n, dtype=torch.bool, device=batch.tokens.device).tril()
        graph, rows = batch.at_tokens()
        inputs = ScoreInputs(causal=causal, tape=None, graph=graph, graph_rows=rows)
        embedding = self.embedding(batch.tokens)  # (B, N, D)
        x = self._input(embedding, first=0, lengths=batch.lengths)
        layers = []
        for block in self.blocks:
            x = block(x, inputs)
            layers.append(x)
        row, pairs = batch.pairs()
        first = batch.first[row, pairs.number]  # (G,)
        parts = [*(layers[layer - 1][row, first - 1] for layer in self._scored_layers), embedding[row, first]]
        words = self.scorer.networks(torch.cat(parts, 1))  # (G, 4w)
        nodes = torch.cat(
            [self.scorer.networks(self.scorer.root[None]).to(words.dtype), words]
        )  # (1 + G, 4w)
        # The place of each sentence's nodes among these.
        number = torch.arange(1, len(nodes), device=row.device)
        place = torch.zeros_like(batch.first).index_put((row, pairs.number), number)  # (B, M)
        old = nodes.index_select(0, place[pairs.row, pairs.node])  # (P, 4w)
        before = batch.features.permute(0, 2, 3, 1)[
            pairs.row, pairs.number[pairs.of] - 1, pairs.node
        ]  # (P, 3)
        counts = (batch.adjacency.triu(1).sum(1) + batch.adjacency.tril(-1).sum(2)).clamp(max=COUNTS - 1)
        scored = _Scored(
            row=row,
            pairs=pairs,
            scores=self.scorer(words, old, pairs, before.long()),
            counts=counts[row, pairs.number],
        )
        return self._final(x), scored

    def _token_logprobs(self, batch: ArcBatch, hidden: Tensor) -> Tensor:
        """Compute log p of tokens, (B, N)."""
        targets = batch.tokens[:, 1:]
        found = -self._nll(hidden[:, :-1].flatten(0, 1), targets.flatten()).view(targets.shape)
        return F.pad(found, (1, 0)).masked_fill(~batch.predicted(), 0)

    @torch.no_grad()
    def _arc_logprobs(self, batch: ArcBatch, scored: _Scored) -> Tensor:
        """Compute log p of each word's arcs given their number, float64 (G,)."""
        pairs, nodes = scored.pairs, batch.first.shape[1]
        scores = candidate_scores(scored.scores, pairs, nodes)  # (G, 2M)
        arcs = torch.cat([batch.adjacency.transpose(1, 2), batch.adjacency], 2)[scored.row, pairs.number]
        chosen = arcs & (scores > -torch.inf)
        if self.config.arcs == "set":
            return set_logprobs(scores, chosen)
        reached = best_candidates(scores, chosen.sum(1)) == chosen
        return torch.where(reached.all(1), 0.0, -torch.inf).double()

    # --- token by token -----------------------------------------------------------------------

    def start(self, rows: int, length: int, entries: int | None = None) -> Any:
        """See :meth:`LanguageModel.start`; W is the most words, plus 1."""
        self.check_length(length)
        config, weight = self.config, self.embedding.weight
        past = Past(rows, rows * length if entries is None else entries, like=weight)
        nodes = max(1, length - 1)
        networks = weight.new_zeros(rows, nodes, 4 * config.width)
        networks[:, 0] = self.scorer.networks(self.scorer.root).detach()
        return ArcState(
            position=-1,
            past=past,
            caches=[past.cache(2 * config.d_model) for _ in self.blocks],
            hidden=weight.new_zeros(rows, config.d_model),
            layers=weight.new_zeros(rows, 2 * config.d_model),
            word=torch.zeros(rows, 0, dtype=torch.int64, device=weight.device),
            networks=networks,
            graphs=GraphState.start(rows, nodes, weight.device),
        )

    @torch.no_grad()
    def word_choice(self, state: ArcState, tokens: Tensor) -> WordChoice:
        """The possible choices for the words that the next tokens, int64 (R,), begin."""
        nodes = state.networks.shape[1]
        starts = self.begins[tokens] | (state.position == 0)  # (R,)
        z = torch.cat([state.layers, self.embedding(tokens)], 1)  # (R, 3D)
        networks = self.scorer.networks(z)  # (R, 4w)
        number = state.graphs.words + 1  # (R,)
        row, node = torch.nonzero(torch.arange(nodes, device=z.device) < number[:, None], as_tuple=True)
        pairs = ArcPairs(number, row, row, node)
        features = state.graphs.features().clamp(max=VALUES - 1)[row, :, node].long()  # (P, 3)
        found = self.scorer(networks, state.networks[row, node], pairs, features)
        counts = count_logprobs(found.counts.double(), number, masked=self._masked)
        none = torch.full_like(counts, -torch.inf)
        none[:, 0] = 0
        counts = torch.where(starts[:, None], counts, none)
        return WordChoice(
            tokens=tokens,
            starts=starts,
            counts=counts,
            followed=followed_counts(
                counts if self._masked else found.counts, counts, self.config.best_counts
            ),
            scores=candidate_scores(found, pairs, nodes).masked_fill(~starts[:, None], -torch.inf),
            networks=networks,
        )

    @torch.no_grad()
    def read(self, state: ArcState, tokens: Tensor, word: WordChoice, chosen: Tensor) -> None:
        """Read the next token of every hypothesis (in place), with the arcs of the word that it may begin.

        Args:
            state: from :meth:`start`, ROOT read.
            tokens: int64 (R,).
            word: the possible choices.
            chosen: bool (R, 2W), columns of its candidates.
        """
        nodes = state.networks.shape[1]
        heads, dependents = chosen.split(nodes, 1)
        state.graphs.push(word.starts, heads, dependents)
        (row,) = torch.nonzero(word.starts, as_tuple=True)
        number = state.graphs.words[row]
        state.networks[row, number] = word.networks[row]
        self.advance(state, tokens)

    @torch.no_grad()
    def advance(self, state: Any, tokens: Tensor, tape_row: Tensor | None = None) -> None:
        """See :meth:`LanguageModel.advance`; its tapes are of the graphs that the hypotheses have."""
        state.position += 1
        state.past.feed()
        state.word = torch.cat([state.word, state.graphs.words[:, None]], 1)  # (R, k + 1)
        features = state.graphs.features().clamp(max=VALUES - 1).long()  # (R, 3, W)
        own = features.gather(2, state.word[:, None].expand(-1, 3, -1))  # (R, 3, k + 1)
        own[:, :, 0] = 0
        if state.position == 0:
            own.zero_()
        own = (own + VALUES * torch.arange(3, device=own.device)[:, None]).to(torch.int16)  # rows of tables
        inputs = ScoreInputs(causal=None, tape=None, graph=own[:, :, None])
        length = torch.tensor([state.position + 1], device=tokens.device)
        x = self._input(self.embedding(tokens)[:, None], first=state.position, lengths=length)  # (R, 1, D)
        layers = []
        for block, cache in zip(self.blocks, state.caches, strict=True):
            x = block(x, inputs, cache)
            layers.append(x[:, 0])
        state.layers = torch.cat([layers[layer - 1] for layer in self._scored_layers], 1)
        state.hidden = self._final(x)[:, 0]

    def head_parameters(self) -> Iterator[nn.Parameter]:
        """See :meth:`LanguageModel.head_parameters`: the scorer's."""
        return self.scorer.parameters()

    def derive(self, rows: int, length: int, entries: int | None = None) -> ArcDerivations:
        """See :meth:`LanguageModel.derive`."""
        made = SetDerivations if self.config.arcs == "set" else ArcDerivations
        return made(self, rows, length, entries)

    def derivation_of(self, shards: ShardSet, row: int) -> Graph:
        """See :meth:`LanguageModel.derivation_of`: the dependencies of its words."""
        return shards.graph(row)

    def pack(self, rows: Sequence[tuple[Any, Any]]) -> Batch:
        """See :meth:`LanguageModel.pack`: (tokens, graph)."""
        return ArcBatch.of_rows(rows, self.beginnings, self.root_id, self.pad_id)

    def unfit_rows(self, shards: ShardSet) -> list[tuple[NDArray[np.bool_], str]]:
        """See :meth:`LanguageModel.unfit_rows`: too many arcs, and words that tokens do not show."""
        too_many = [self.problem(shards.graph(row)) is not None for row in range(len(shards))]
        others = [
            not np.array_equal(
                word_numbers(shards.tokens(row), self.beginnings)[1:-1], shards.word(row)[1:-1] + 1
            )
            for row in range(len(shards))
        ]
        return [(np.array(too_many), TOO_MANY), (np.array(others), OTHER_WORDS)]

    def problem(self, derivation: Graph) -> str | None:
        """See :meth:`LanguageModel.problem`."""
        return TOO_MANY if len(derivation) and derivation.counts.max() >= COUNTS else None


class ArcDerivations(TokenwiseDerivations):
    """Strings with arcs: a choice is the number of arcs of the word that a token begins, 0 if it begins none.

    For each token that begins a word, the history has 1 + the number of its arcs, and the indices of these
    candidates (:func:`graph_of_history`).
    """

    model: GiltLM
    state: ArcState

    def __init__(self, model: GiltLM, rows: int, length: int, entries: int | None = None) -> None:
        """Read ROOT."""
        super().__init__(model, rows, length, entries)
        self.history = self.history[:, :, None].repeat(1, 1, COUNTS)
        self._length = length
        self._word: WordChoice | None = None  # for the next tokens
        # Choice by choice: int32 (R, choices), the choices, and the histories of those that ended.
        self._made: Tensor | None = None
        self._ended: dict[bytes, NDArray[np.int32]] = {}
        model.advance(self.state, torch.full((rows,), model.root_id, device=model.device))

    def word_choice(self, tokens: Tensor) -> WordChoice:
        """The possible choices for the words that the next tokens, int64 (R,), begin; computed once."""
        if self._word is None or not torch.equal(self._word.tokens, tokens):
            self._word = self.model.word_choice(self.state, tokens)
        return self._word

    def legal(self, tokens: Tensor) -> Tensor:
        """See :meth:`TokenwiseDerivations.legal`."""
        return self.choice_logprobs(tokens) > -torch.inf

    def choice_logprobs(self, tokens: Tensor, legal: Tensor | None = None) -> Tensor:
        """See :meth:`TokenwiseDerivations.choice_logprobs`."""
        return self.word_choice(tokens).counts

    def followed(self, legal: Tensor, tokens: Tensor) -> Tensor:
        """See :meth:`TokenwiseDerivations.followed`: the best counts (``config.best_counts``)."""
        counts = self.word_choice(tokens).followed
        return legal & counts.repeat_interleave(legal.shape[1] // counts.shape[1], 1)

    def extend(self, tokens: Tensor, choices: Tensor) -> None:
        """See :meth:`TokenwiseDerivations.extend`: the best-scored candidates become arcs."""
        self.read(tokens, self.word_choice(tokens).best(choices))

    def read(self, tokens: Tensor, chosen: Tensor) -> None:
        """Let the model read tokens with the arcs of their words, bool (R, 2W)."""
        word, self._word = self.word_choice(tokens), None
        self.model.read(self.state, tokens, word, chosen)
        self.history[:, self.state.position] = noted(word.starts, chosen, self.state.graphs.words)

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        made = self.history.new_zeros(len(choices), 0) if self._made is None else self._made
        self._made = torch.cat([made, choices[:, None].to(torch.int32)], 1)
        super().push(choices)

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        if self._made is not None:
            ends = torch.ones(len(self._made), dtype=torch.bool, device=rows.device)
            ends[rows] = False
            self._note(ends)
            self._made = self._made[rows]
        super().select(rows)
        self._word = None if self._word is None else self._word.of(rows)

    def _note(self, ends: Tensor) -> None:
        """Keep the histories of some derivations, bool (R,), for :meth:`derivation`."""
        assert self._made is not None
        histories = self.history[ends, : self.state.position + 1].cpu().numpy()
        for made, history in zip(self._made[ends].cpu().numpy(), histories, strict=True):
            self._ended[made.tobytes()] = history

    def derivation(self, choices: NDArray[np.int32]) -> ArcDerivation:
        """See :meth:`Derivations.derivation`; for choices made here, or else made once more."""
        tokens = choices[::2][: len(choices) // 2]
        made = choices[: 2 * len(tokens)].astype(np.int32)
        if made.tobytes() not in self._ended and self._made is not None:
            self._note(torch.ones(len(self._made), dtype=torch.bool, device=self._made.device))
        if (history := self._ended.get(made.tobytes())) is None:
            again = type(self)(self.model, 1, self._length)
            for choice in made.tolist():
                again.push(torch.tensor([choice], device=self.model.device))
            history = again.history[0].cpu().numpy()
        return ArcDerivation(tokens, graph_of_history(history))


class SetDerivations(ArcDerivations):
    """Strings with arcs where sets of arcs have probabilities.

    In a beam search, a choice is a size and one of the :data:`MOST_SETS` best sets of it. Choice by choice
    a token is followed by the size, then by the members in canonical order: any of them. They are the columns
    behind the vocabulary, of which the first says that there are no more.
    """

    def __init__(self, model: GiltLM, rows: int, length: int, entries: int | None = None) -> None:
        super().__init__(model, rows, length, entries)
        self._sets: tuple[Tensor, Tensor] | None = None  # log p (R, C) and members (R, C, 2W) of choices
        self._left: Tensor | None = None  # int64 (R,), members that are still to be chosen
        self._chosen = torch.zeros(0)  # bool (R, 2W)
        self._last = torch.zeros(0)  # int64 (R,), the candidate that was chosen last; -1 for none
        self._block = COUNTS + 1  # choices of a token, at most
        self.step, self.most_steps = 0, self._block * length

    # --- at once ------------------------------------------------------------------------------

    def choice_logprobs(self, tokens: Tensor, legal: Tensor | None = None) -> Tensor:
        """See :meth:`TokenwiseDerivations.choice_logprobs`; the probability of other sets is lost."""
        word = self.word_choice(tokens)
        if legal is None or self._sets is None:
            sums, members = best_sets(word.scores, MOST_SETS)  # (R, COUNTS, K), (R, COUNTS, K, 2W)
            logprobs = word.counts[:, :, None] + sums - log_set_sums(word.scores)[:, :, None]
            logprobs = logprobs.masked_fill(sums == -torch.inf, -torch.inf)
            self._sets = logprobs.flatten(1), members.flatten(1, 2)
        return self._sets[0]

    def extend(self, tokens: Tensor, choices: Tensor) -> None:
        """See :meth:`TokenwiseDerivations.extend`."""
        assert self._sets is not None
        row = torch.arange(len(choices), device=choices.device)
        chosen, self._sets = self._sets[1][row, choices], None
        self.read(tokens, chosen)

    def select(self, rows: Tensor) -> None:
        """See :meth:`Derivations.select`."""
        super().select(rows)
        if self._sets is not None:
            self._sets = self._sets[0][rows], self._sets[1][rows]
        if self._left is not None:
            self._left, self._chosen, self._last = self._left[rows], self._chosen[rows], self._last[rows]

    # --- choice by choice ---------------------------------------------------------------------

    @torch.no_grad()
    def logprobs(self) -> Tensor:
        """See :meth:`Derivations.logprobs`."""
        if self._next is None:
            return super().logprobs()
        word = self.word_choice(self._next)
        return word.counts if self._left is None else self._members(word.scores.double(), self._left)

    def _members(self, scores: Tensor, left: Tensor) -> Tensor:
        """Compute log p of sets' next member, s_j e_{k-1}(after j) / e_k(after the last): (R, V + 1 + 2W).

        Args:
            scores: (R, 2W).
            left: int64 (R,), k.
        """
        after = log_polynomials(scores.flip(1)).flip(1)  # (R, 2W + 1, COUNTS), of candidates from c on
        row = torch.arange(len(scores), device=scores.device)
        one_less = (left - 1).clamp(min=0)[:, None, None].expand(-1, scores.shape[1], 1)
        found = scores + after[:, 1:].gather(2, one_less)[:, :, 0] - after[row, self._last + 1, left][:, None]
        is_before = torch.arange(scores.shape[1], device=scores.device) <= self._last[:, None]
        found = found.masked_fill(is_before | (left == 0)[:, None], -torch.inf)
        tokens = found.new_full((len(found), self.model.vocab_size + 1), -torch.inf)
        tokens[left == 0, -1] = 0  # no more
        return torch.cat([tokens, found], 1)

    def fits(self, token: int) -> Tensor:
        """See :meth:`Derivations.fits`."""
        if self._next is None:
            return super().fits(token)
        number = COUNTS
        if self._left is not None:
            number = self.model.vocab_size + 1 + self._chosen.shape[1]
        return torch.ones(1, number, dtype=torch.bool, device=self.model.device)

    def push(self, choices: Tensor) -> None:
        """See :meth:`Derivations.push`."""
        self.step += 1
        if self._next is None:
            self._next = choices
            return
        if self._left is None:
            self._left, self._last = choices, torch.full_like(choices, -1)
            self._chosen = torch.zeros_like(self.word_choice(self._next).scores, dtype=torch.bool)
        else:
            place = choices - self.model.vocab_size - 1  # (R,), -1 for none
            (row,) = torch.nonzero(place >= 0, as_tuple=True)
            self._chosen[row, place[row]] = True
            self._last, self._left = (
                torch.where(place >= 0, place, self._last),
                self._left - (place >= 0).long(),
            )
        if not bool(self._left.any()):
            self.read(self._next, self._chosen)
            self._next = self._left = None
            self.step += -self.step % self._block  # the same for all tokens

    def derivation(self, choices: NDArray[np.int32]) -> ArcDerivation:
        """See :meth:`Derivations.derivation`."""
        over = self.model.vocab_size
        tokens, history, made = [], np.zeros((self._length, COUNTS), np.int32), choices.tolist()
        begins, words, place = self.model.begins.cpu().numpy(), 0, 0
        nodes = self.state.networks.shape[1]
        while place + 1 < len(made):
            token = made[place]
            tokens.append(token)
            members, place = [], place + 2
            while place < len(made) and made[place] >= over:
                members += [made[place] - over - 1] if made[place] > over else []
                place += 1
            if begins[token] or not words:
                words += 1
                which = [column if column < nodes else words + column - nodes - 1 for column in members]
                history[len(tokens), : 1 + len(which)] = [1 + len(which), *which]
        return ArcDerivation(np.array(tokens, dtype=np.int32), graph_of_history(history))
