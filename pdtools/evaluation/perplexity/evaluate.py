"""Perplexity of the sentences of shards: given their trees, with their trees, and over all trees."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.chunks import InChunks
from pdtools.evaluation.perplexity.record import KINDS
from pdtools.evaluation.perplexity.shard_rows import RowToScore, score_blocks
from pdtools.evaluation.results import ITEMS, Progress, Results, no_progress
from pdtools.jobs import cut
from pdtools.search.scores import is_pseudo

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pdtools.files import Rejects
    from pdtools.models import LoadedModel
    from pdtools.search.inputs import SourcedLine
    from pdtools.search.model import Model
    from pdtools.search.options import Particles, SearchOptions
    from pdtools.search.scores import RowScore
    from pdtools.shards import ShardFolder
    from pdtools.tokenization import Sentence

# Number of sentences processed together, if their derivations are not searched.
ROWS_PER_CHUNK = 256
# The kept fields of a :class:`~pdtools.search.scores.RowScore`.
_Record = tuple[
    float, float | None, float | None, float, float, float | None, float, float | None, float | None
]
# Number of sentences in a batch of the table.
_ROWS_PER_BATCH = 4096


Row = dict[str, Any]
"""A sentence's log-probabilities, nats, and what they are over: see :func:`items_table`."""


def evaluate_perplexity(
    shards: ShardFolder,
    loaded: LoadedModel,
    *,
    search: SearchOptions,
    particles: Particles | None = None,
    rejects: Rejects,
    progress: Progress = no_progress,
    in_chunks: InChunks | None = None,
) -> Results:
    """Perplexities of a checkpoint over shards made with its tokenizer.

    Args:
        shards: sentences with their trees (layout ``sentence``).
        loaded: a checkpoint.
        search: for the marginal; without a beam there is none. Without a tape p(x) is exact and needs no
            search.
        particles: to estimate log p(x) too; None: no estimate.
        rejects: takes sentences that are too long for the model (one without a head reads them in windows),
            lack one of the trees to sum over, or have probability 0, also by an estimate.
        progress: wraps the iterator over sentences.
        in_chunks: distributes the scoring; None: this process.

    Returns:
        See :func:`perplexities`; an ``items`` table with a row per sentence.

    Raises:
        InputError: if the shards' tokenizer, layout or binarization is not the model's, or a
            sentence is too long or impossible and ``rejects`` says to stop.
    """
    from pdtools.search.families.proposal_trees import IMPOSSIBLE
    from pdtools.search.kinds import check_uses_particles
    from pdtools.search.model import Model
    from pdtools.search.options import beam_settings
    from pdtools.search.scores import nothing_found

    check_shards(shards, loaded)
    if particles is not None:
        check_uses_particles(loaded.model)
    model = Model.of(loaded, search)
    blocks = score_blocks(
        shards,
        loaded,
        partial(_score, search=search, particles=particles),
        problem=model.family.problem,
        any_length=not loaded.model.derivation_kind.exist,
        kind=_Record,
        rows_per_chunk=min(model.look_ahead, ROWS_PER_CHUNK),
        in_chunks=in_chunks,
        rejects=rejects,
        progress=progress,
    )
    nothing = IMPOSSIBLE if search.trees else nothing_found(loaded.model.max_length)
    rows = (_possible(block, shards, loaded, rejects, nothing) for block in blocks)
    optional = (
        *(_PARTICLES if particles is not None else ()),
        *(_COUNTS if loaded.model.derivation_kind.has_counts else ()),
    )
    items = _table(rows, optional)
    settings = {
        "task": "ppl",
        **loaded.described,
        "derivations": loaded.model.derivation_kind.name,
        "trees": f"the shards' own, binarization {shards.manifest['settings']['factor']}",
        "eos_counted": True,
        "root_counted": False,
        "words": "words and end-of-sentence",
        "marginal": model.marginal,
        **beam_settings(model.settings),
        **{name: value for name, value in model.settings.items() if name.startswith("given_trees")},
        **({} if particles is None else {"particles": particles.number, "particles_seed": particles.seed}),
        "log_base": "nats",
        "dtype": loaded.model.dtype_name,
        "text_style": loaded.tokenizer.text_style,
    }
    return _results(items, len(rejects), settings, shards)


def evaluate_string_perplexity(
    shards: ShardFolder, model: Model, *, rejects: Rejects, progress: Progress = no_progress
) -> Results:
    """Perplexity of a model that reads the shards' text with its own tokenizer, such as GPT-2.

    Arguments and results are as in :func:`evaluate_perplexity`; only marginals exist. The text has the
    shards' words between single spaces.
    """
    from pdtools.tokenization import split_spaces

    def texts() -> Iterator[_Text]:
        for block in shards.blocks():
            for i, row_id in enumerate(block.ids.tolist()):
                sentence = split_spaces(block.text(i))
                yield _Text(row_id, sentence, sentence, str(shards.folder), row_id)

    items = _items_of_texts(texts(), model, rejects, progress, len(shards))
    marginal = {} if is_pseudo(model.settings) else {"marginal": "exact"}
    return _results(items, len(rejects), {**_settings_of(model), **marginal}, shards)


def evaluate_text_perplexity(
    lines: Iterable[SourcedLine],
    model: Model,
    *,
    documents: bool = False,
    rejects: Rejects,
    progress: Progress = no_progress,
) -> Results:
    """Perplexity of text, for any model that scores sentences.

    Args:
        lines: the lines of the text; lines without words are excluded.
        model: the model.
        documents: whether a document's lines (:func:`.contexts.documents_of`) are one text.
        rejects: takes sentences, or documents, that the model cannot score.
        progress: wraps the iterator over them.

    Returns:
        See :func:`perplexities`; only marginals exist. ``words`` are the words of the text as it is
        written, for every model. An ``items`` table has a row for each line, or document, whose ``id`` is
        its number, from 1.
    """
    from pdtools.search.contexts import documents_of, joined

    content = hashlib.sha256()

    def texts() -> Iterator[_Text]:
        groups = documents_of(lines) if documents else ([line] for line in lines)
        for number, group in enumerate(groups, start=1):
            first = group[0]
            for line in group:
                content.update(f"{line.sentence.text}\n".encode(errors="surrogatepass"))
            if first.sentence.words:
                sentence = joined([line.sentence for line in group]) if documents else first.sentence
                words = joined([line.written for line in group]) if documents else first.written
                yield _Text(number, sentence, words, first.file, first.line)

    items = _items_of_texts(texts(), model, rejects, progress, None)
    if not len(items):
        raise InputError("no text that the model can score")
    kind = "documents" if documents else "sentences"
    counts = count_items(items)
    counts = {kind: counts.pop("sentences"), f"{kind}_left_out": len(rejects), **counts}
    settings = {**_settings_of(model), "text_sha256": content.hexdigest()}
    return Results(scores=perplexities(items), counts=counts, settings=settings, tables={ITEMS: items})


def _settings_of(model: Model) -> dict[str, Any]:
    """The settings of a perplexity of texts."""
    return {
        **model.settings,
        "task": "ppl",
        "eos_counted": model.settings["eos"],
        "root_counted": False,
        "words": "words and end-of-sentence" if model.settings["eos"] else "words",
        "log_base": "nats",
    }


class _Text(NamedTuple):
    """A text, its words as written, and its place."""

    id: int
    sentence: Sentence
    written: Sentence
    file: str
    line: int


def _items_of_texts(
    texts: Iterable[_Text], model: Model, rejects: Rejects, progress: Progress, number: int | None
) -> pa.Table:
    rows = _score_texts(texts, model, rejects, progress, number)
    if not is_pseudo(model.settings):
        return _table(cut(rows, _ROWS_PER_BATCH))
    rows = ({**row, "marginal": None, "end_marginal": None, "pseudo": row["marginal"]} for row in rows)
    return _table(cut(rows, _ROWS_PER_BATCH), _PSEUDO)


def _score_texts(
    texts: Iterable[_Text], model: Model, rejects: Rejects, progress: Progress, number: int | None
) -> Iterator[Row]:
    from pdtools.search.scores import Unscorable

    under_way: deque[_Text] = deque()

    def sentences() -> Iterator[Sentence]:
        for text in texts:
            under_way.append(text)
            yield text.sentence

    for score in progress(model.score(sentences()), number):
        text = under_way.popleft()
        if isinstance(score, Unscorable):
            rejects.add(score.reason, file=text.file, line=text.line, text=score.text)
            continue
        ends = [i for i, word in enumerate(score.words) if word < 0] if score.eos else []
        yield {
            "id": text.id,
            "tokens": len(score.logprobs),
            # Without BOS the first token has no score: nor does its word, if it is a single token.
            "words": len(text.written.words) - max(0, score.words[0]) + len(ends),
            "unknown": score.n_unknown,
            "marginal": score.total,
            "ends": len(ends),
            "end_marginal": float(score.logprobs[ends].sum()),
        }


_KINDS: dict[str, tuple[str, str | None]] = {
    **{name: (column, end) for name, (_, column, end) in KINDS.items()},
    "particles": ("particles", "end_particles"),
    "counts": ("counts", None),  # end-of-sentence has no arcs
    "arcs": ("arcs", None),
    "pseudo": ("pseudo", None),  # no end-of-sentence
}
# Columns, and scores, that exist only if requested, and only of models with counts.
_PARTICLES, _COUNTS, _PSEUDO = ("particles", "end_particles"), ("counts", "arcs"), ("pseudo",)


def perplexities(items: pa.Table) -> dict[str, float | None]:
    """Perplexities exp(−Σ log p / count), by token and by word, for each kind of log-probability.

    Args:
        items: see :func:`items_table`.

    Returns:
        ``ppl_token_given_trees``, ``ppl_token_joint``, ``ppl_token_marginal``, the same with ``word``, and
        with ``word_without_eos``, which removes end-of-sentence from the logarithms and from the
        words: so models that count it and models that do not can be compared. None for a kind that some
        sentence lacks. ``…_particles`` exist if they were requested. GiLT has ``…_counts`` and
        ``…_arcs`` too: their product with ``…_given_trees`` is ``…_joint``.
    """
    import pyarrow.compute as pc

    ends = _sum(items["ends"])
    counts = {unit: _sum(items[f"{unit}s"]) for unit in ("token", "word")}
    counts["word_without_eos"] = counts["word"] - ends
    scores: dict[str, float | None] = {}
    for unit, count in counts.items():
        for name, (kind, end) in _KINDS.items():
            if kind not in items.column_names:
                continue
            known = count > 0 and bool(len(items)) and not items[kind].null_count
            logprobs = [items[kind]] if known else []
            if unit == "word_without_eos" and ends and end is not None:
                logprobs = [*logprobs, pc.negate(items[end])]
            scores[f"ppl_{unit}_{name}"] = _perplexity(logprobs, count) if known else None
    return scores


def items_table(items: Sequence[Row], optional: Collection[str] = ()) -> pa.Table:
    """A table with a row for each sentence, log-probabilities in nats; null: not computed or undefined.

    Args:
        items: the rows.
        optional: names of columns that only some models or requests have: the last four below.

    Columns:
        id: its row in the shards.
        tokens, words: numbers scored, with one for end-of-sentence if the model counts it.
        unknown: tokens that are ``<unk>``.
        given_tree, joint, marginal: log p given the tree, with it, and of the string; by beam search the last
            is a lower bound.
        ends: ends of sentences among the tokens (and words): one, or none if they are not counted.
        end_given_tree, end_marginal: their part of ``given_tree`` and ``joint``, and of ``marginal``.
        particles, end_particles: an estimate of log p(x), and their part of it.
        counts, arcs: parts of ``joint``, for GiLT: log p of the numbers of arcs, and of the arcs given these.
        pseudo: a masked language model's pseudo-log-likelihood, in place of all others.
    """
    import pyarrow as pa

    numbers = dict.fromkeys(("tokens", "words", "unknown"), pa.int32())
    kinds = dict.fromkeys(("given_tree", "joint", "marginal"), pa.float64())
    ends = {"ends": pa.int32(), **dict.fromkeys(("end_given_tree", "end_marginal", *optional), pa.float64())}
    rows = [{"end_given_tree": 0.0, **item} for item in items]  # no trees are given to models of strings
    return pa.Table.from_pylist(rows, pa.schema({"id": pa.int64(), **numbers, **kinds, **ends}))


def count_items(items: pa.Table) -> dict[str, Any]:
    """Counts of sentences, tokens, words (with and without ends of sentences), and ``<unk>`` tokens."""
    return {
        "sentences": len(items),
        "tokens": _sum(items["tokens"]),
        "words": _sum(items["words"]),
        "words_without_eos": _sum(items["words"]) - _sum(items["ends"]),
        "unknown_tokens": _sum(items["unknown"]),
    }


def _table(blocks: Iterable[Sequence[Row]], optional: Collection[str] = ()) -> pa.Table:
    """One table, of which only the numbers are in memory."""
    import pyarrow as pa

    tables = (items_table(block, optional) for block in blocks)
    return pa.concat_tables([items_table([], optional), *tables])


def _sum(numbers: pa.ChunkedArray) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(numbers).as_py() or 0)


def _perplexity(logprobs: Sequence[pa.ChunkedArray], count: int) -> float:
    """The perplexity of the sums of these columns."""
    total = math.fsum(number for each in logprobs for chunk in each.chunks for number in chunk.to_numpy())
    if not math.isfinite(total):
        raise PdtoolsError("the model gives probabilities that are zero or not numbers: no perplexity")
    try:
        return math.exp(-total / count)
    except OverflowError:
        raise PdtoolsError(
            f"a perplexity of e to the {-total / count:.0f} is too large to be written"
        ) from None


def check_shards(shards: ShardFolder, loaded: LoadedModel, *, layouts: bool = True) -> None:
    """Refuse shards whose tokenizer, layout (if ``layouts``), binarization or labels are not the model's."""
    hint = "make the shards with pdtools tapes or blocks, and this model as --tokenizer"
    if shards.tokenizer.fingerprint != loaded.tokenizer.fingerprint:
        raise InputError("not made with the tokenizer of the model", file=shards.folder, hint=hint)
    found, trained = shards.manifest["settings"], loaded.config["shards"]
    if layouts and found["layout"] != (wanted := trained.get("layout", "sentence")):
        reason = f"layout {found['layout']}, but the model was trained with layout {wanted}"
        raise InputError(reason, file=shards.folder, hint=hint)
    if loaded.model.derivation_kind.exist:
        from pdtools.shards.format import check_binarization

        check_binarization(shards.folder, found, trained)
    # Labels are numbers: if the tokenizer has none, each folder numbers its own anew.
    is_labelled = loaded.model.derivation_kind.labelled and shards.has_constituents
    if is_labelled and shards.labels != loaded.tokenizer.labels:
        raise InputError("not made with the labels of the model", file=shards.folder, hint=hint)


def _score(
    loaded: LoadedModel, rows: Sequence[RowToScore], *, search: SearchOptions, particles: Particles | None
) -> list[RowScore]:
    """The scores of each row."""
    from pdtools.search.model import Model
    from pdtools.search.scores import GivenRow

    given = [GivenRow(row.tokens, row.derivation, row.word) for row in rows]
    return Model.of(loaded, search).score_rows(given, particles)


def _possible(
    block: Iterable[tuple[RowToScore, _Record]],
    shards: ShardFolder,
    loaded: LoadedModel,
    rejects: Rejects,
    nothing: str,
) -> list[Row]:
    """The rows whose computed probabilities are above 0; ``nothing``: the reason if a marginal is not."""
    from pdtools.search.scores import RowScore

    items = []
    for row, record in block:
        logprobs = RowScore(*record)
        if -math.inf in (logprobs.joint, logprobs.marginal, logprobs.particles):
            reason = "its tree has probability 0"
            if logprobs.marginal == -math.inf:
                reason = nothing
            elif logprobs.particles == -math.inf:
                reason = "no particle got to its end: more are needed"
            rejects.add(reason, file=shards.folder, line=row.id, text=row.text)
        else:
            items.append(_item(row, logprobs, loaded))
    return items


def _item(row: RowToScore, logprobs: RowScore, loaded: LoadedModel) -> Row:
    unk_id = loaded.tokenizer.unk_id
    windows = loaded.model.layout == "window"  # there a ROOT marks the end of its sentence
    end_id = loaded.model.root_id if windows else loaded.model.eos_id
    return {
        "id": row.id,
        "tokens": len(row.tokens) - (not windows),
        "words": words_with_ends(row.word, row.tokens, end_id),
        "unknown": 0 if unk_id is None else int((row.tokens == unk_id).sum()),
        "ends": int((row.tokens == end_id).sum()),
        **logprobs._asdict(),
    }


def words_with_ends(word: NDArray[np.int32], tokens: NDArray[np.int32], end_id: int) -> int:
    """The number of a row's words that begin in it, and ends: one, or several in a block or window."""
    return int(word.max()) + 1 + int((tokens == end_id).sum())


def _results(items: pa.Table, excluded: int, settings: dict[str, Any], shards: ShardFolder) -> Results:
    if not len(items):
        raise InputError("no sentence that the model can score", file=shards.folder)
    counts = {"sentences": len(items), "sentences_left_out": excluded, **count_items(items)}
    if shards.layout == "window":
        ends = counts["words"] - counts["words_without_eos"]
        counts = {"windows": len(items), **counts, "sentences": ends}
    settings = {**settings, "layout": shards.layout, "text_sha256": shards.text_sha256()}
    return Results(scores=perplexities(items), counts=counts, settings=settings, tables={ITEMS: items})
