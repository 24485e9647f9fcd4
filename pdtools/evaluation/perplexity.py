"""Perplexity of the sentences of shards: given their trees, with their trees, and over all trees."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from pdtools.errors import InputError, PdtoolsError
from pdtools.evaluation.results import ITEMS, Progress, Results, no_progress

if TYPE_CHECKING:
    from pdtools.files import Rejects
    from pdtools.models import LoadedModel
    from pdtools.search.scores import Scorer
    from pdtools.shards import ShardSet

# Sentences that are worked on between two steps of a progress bar.
_WINDOW = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceLogprobs:
    """Log-probabilities of one sentence, in nats; None where they were not computed or do not exist.

    Attributes:
        id: its row in the shards.
        tokens: tokens scored: end-of-sentence is one of them where the model counts it, ROOT never.
        words: words scored, and one for end-of-sentence where it is counted.
        unknown: tokens that are ``<unk>``.
        given_tree: Σ log p(x_k | x_<k, W_{k−1}), the tree given.
        joint: log p(x, y), the attachments of the tree scored too.
        marginal: log p(x); by beam search it is a lower bound.
    """

    id: int
    tokens: int
    words: int
    unknown: int
    given_tree: float | None = None
    joint: float | None = None
    marginal: float | None = None


def evaluate_perplexity(
    shards: ShardSet,
    loaded: LoadedModel,
    *,
    beam: int | None,
    max_batch: int | None = None,
    rejects: Rejects,
    progress: Progress = no_progress,
) -> Results:
    """Perplexities of a checkpoint over shards made with its tokenizer.

    Args:
        shards: sentences with their trees (layout ``sentence``).
        loaded: a checkpoint.
        beam: hypotheses for the marginal; None leaves it out. Without a tape p(x) is exact and needs none.
        max_batch: sentences per batch; by default as many as fit a fixed amount of memory.
        rejects: takes sentences longer than the model.
        progress: wraps the iterator over sentences.

    Returns:
        See :func:`perplexities`; an ``items`` table with a row per sentence.

    Raises:
        InputError: if the shards have another tokenizer, layout or binarization than the model's, or a
            sentence is too long and ``rejects`` says to stop.
    """
    check_shards(shards, loaded)
    loaded.model.check_causal()
    rows = rows_that_fit(shards, loaded.model.max_length, rejects)
    items = list(progress(_score_rows(shards, loaded, rows, beam, max_batch), len(rows)))
    settings = {
        "task": "ppl",
        "model": loaded.config["model"],
        "trees": f"the shards' own, {shards.manifest['settings']['factor']}-binarized",
        "eos_counted": True,
        "root_counted": False,
        "words": "words and end-of-sentence",
        "marginal": _marginal_kind(loaded, beam),
        "beam": beam if loaded.model.uses_tape else None,
        "log_base": "nats",
        "dtype": str(next(loaded.model.parameters()).dtype).removeprefix("torch."),
    }
    return _results(items, len(rejects), settings, shards)


def evaluate_string_perplexity(
    shards: ShardSet, scorer: Scorer, *, rejects: Rejects, progress: Progress = no_progress
) -> Results:
    """Perplexities of a model that reads the shards' text with a tokenizer of its own, such as GPT-2.

    Arguments and results are as in :func:`evaluate_perplexity`; only marginals exist. The text has the
    shards' words between single spaces.
    """
    from pdtools.search.scores import Unscorable
    from pdtools.tokenization import split_spaces

    sentences = [split_spaces(shards.text(i)) for i in range(len(shards))]
    items = []
    for i, score in enumerate(progress(scorer.score(sentences), len(sentences))):
        if isinstance(score, Unscorable):
            rejects.add(score.reason, file=shards.folder, line=int(shards.ids[i]), text=score.text)
            continue
        items.append(
            SentenceLogprobs(
                id=int(shards.ids[i]),
                tokens=len(score.logprobs),
                # Without BOS the first token has no score: nor does its word, if that is all of it.
                words=len(sentences[i].words) - max(0, score.words[0]) + score.eos,
                unknown=score.n_unknown,
                marginal=score.total,
            )
        )
    settings = {
        "task": "ppl",
        "eos_counted": scorer.settings["eos"],
        "root_counted": False,
        "words": "words and end-of-sentence" if scorer.settings["eos"] else "words",
        "marginal": "exact",
        "scorer": scorer.settings,
    }
    return _results(items, len(rejects), settings, shards)


def perplexities(items: Sequence[SentenceLogprobs]) -> dict[str, float | None]:
    """exp(−Σ log p / count), by token and by word, for each kind of log-probability.

    Returns:
        ``ppl_token_given_trees``, ``ppl_token_joint``, ``ppl_token_marginal`` and the same with ``word``;
        None for a kind that some sentence does not have.
    """
    scores: dict[str, float | None] = {}
    for unit, counts in (("token", [i.tokens for i in items]), ("word", [i.words for i in items])):
        for name, kind in (("given_trees", "given_tree"), ("joint", "joint"), ("marginal", "marginal")):
            values = [getattr(item, kind) for item in items]
            known = bool(values) and None not in values
            scores[f"ppl_{unit}_{name}"] = _perplexity(values, sum(counts)) if known else None
    return scores


def _perplexity(logprobs: Sequence[float], count: int) -> float:
    total = math.fsum(logprobs)
    if not math.isfinite(total):
        raise PdtoolsError("the model gives probabilities that are zero or not numbers: no perplexity")
    try:
        return math.exp(-total / count)
    except OverflowError:
        raise PdtoolsError(
            f"a perplexity of e to the {-total / count:.0f} is too large to be written"
        ) from None


def check_shards(shards: ShardSet, loaded: LoadedModel) -> None:
    """Refuse shards with another tokenizer, layout or binarization than the model's."""
    hint = "make the shards with pdtools tapes --tokenizer and the checkpoint's folder"
    if shards.tokenizer.fingerprint != loaded.tokenizer.fingerprint:
        raise InputError(f"not made with the tokenizer of {loaded.folder}", file=shards.folder, hint=hint)
    for key in ("layout", "factor"):
        found, wanted = shards.manifest["settings"][key], loaded.config["shards"].get(key, "sentence")
        if found != wanted and (key == "layout" or loaded.model.has_attachment_head):
            raise InputError(
                f"{key} {found}, but the model was trained with {key} {wanted}", file=shards.folder, hint=hint
            )


def rows_that_fit(shards: ShardSet, max_length: int | None, rejects: Rejects) -> list[int]:
    """Rows that a model of this length takes; the others go to the rejects."""
    rows = []
    for i, length in enumerate(shards.lengths.tolist()):
        if max_length is not None and length > max_length:
            reason = f"longer than the model: {length - 2} tokens, at most {max_length - 2}"
            rejects.add(reason, file=shards.folder, line=int(shards.ids[i]), text=shards.text(i))
        else:
            rows.append(i)
    return rows


def _score_rows(
    shards: ShardSet, loaded: LoadedModel, rows: Sequence[int], beam: int | None, max_batch: int | None
) -> Iterator[SentenceLogprobs]:
    import torch

    from pdtools.models import collate
    from pdtools.search import beam_search
    from pdtools.search.memory import explained_memory_errors, length_groups, strings_that_fit

    model, unk_id = loaded.model, loaded.tokenizer.unk_id
    for places in length_groups(
        [int(shards.lengths[i]) for i in rows],
        lambda length: min(_WINDOW, max_batch or strings_that_fit(length, model.vocab_size)),
    ):
        group = [rows[place] for place in places]
        batch = collate([(shards.tokens(i), shards.attach(i)) for i in group], model.pad_id)
        with torch.inference_mode(), explained_memory_errors():
            parts = model.forward_parts(batch.to(model.device))
        given = parts.token_logprobs.double().sum(1).tolist()
        attached = parts.attach_logprobs.double().sum(1).tolist()
        marginals: list[float | None] = [None] * len(group)
        if not model.uses_tape:
            marginals = list(given)
        elif beam is not None:
            found = beam_search(model, [shards.tokens(i) for i in group], beam=beam, max_batch=max_batch)
            marginals = [result.marginal for result in found]
        for i, on_tree, attachments, marginal in zip(group, given, attached, marginals, strict=True):
            tokens = shards.tokens(i)
            yield SentenceLogprobs(
                id=int(shards.ids[i]),
                tokens=len(tokens) - 1,
                # End-of-sentence is one too, of which a block has one a line.
                words=int(shards.word(i).max()) + 1 + int((tokens == model.eos_id).sum()),
                unknown=0 if unk_id is None else int((tokens == unk_id).sum()),
                given_tree=on_tree,
                joint=on_tree + attachments if model.has_attachment_head else None,
                marginal=marginal,
            )


def _marginal_kind(loaded: LoadedModel, beam: int | None) -> str | None:
    if not loaded.model.uses_tape:
        return "exact: tokens do not depend on the tree"
    return None if beam is None else "beam: a lower bound of log p(x)"


def _results(
    items: Sequence[SentenceLogprobs], left_out: int, settings: dict[str, Any], shards: ShardSet
) -> Results:
    import pyarrow as pa

    if not items:
        raise InputError("no sentence that the model can score", file=shards.folder)
    ordered = sorted(items, key=lambda item: item.id)
    counts = {
        "sentences": len(items),
        "sentences_left_out": left_out,
        "tokens": sum(item.tokens for item in items),
        "words": sum(item.words for item in items),
        "unknown_tokens": sum(item.unknown for item in items),
    }
    types = {"id": pa.int64(), "tokens": pa.int32(), "words": pa.int32(), "unknown": pa.int32()}
    schema = pa.schema([(f.name, types.get(f.name, pa.float64())) for f in fields(SentenceLogprobs)])
    table = pa.Table.from_pylist([asdict(item) for item in ordered], schema=schema)
    return Results(scores=perplexities(ordered), counts=counts, settings=settings, tables={ITEMS: table})
