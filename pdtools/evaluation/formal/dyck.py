"""Closing brackets: does a model know the open one (Murty et al. 2023, section 4.1 and table 1)?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.chunks import InChunks, checkpoint_of
from pdtools.evaluation.intervals import wilson
from pdtools.evaluation.perplexity.evaluate import evaluate_perplexity
from pdtools.evaluation.results import ITEMS, Progress, Results, mean, no_progress
from pdtools.formal.bracket_prefixes import BracketPrefix
from pdtools.formal.dyck import Dyck, dyck_attachments
from pdtools.formal.language import language_settings
from pdtools.jobs import Work, cut
from pdtools.search.options import SearchOptions, beam_settings
from pdtools.tokenization import split_spaces
from pdtools.trees import sentence_layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdtools.files import Rejects
    from pdtools.models import LoadedModel
    from pdtools.search.model import ModelSettings
    from pdtools.shards import ShardSet

# A long prefix with a full beam takes half a minute on a CPU: a killed run loses no more than some minutes.
PREFIXES_PER_CHUNK = 16
# Widths of bins for dependencies and open brackets; depths are counted one by one.
_DEPENDENCY_BIN, _OPEN_BIN = 50, 10

# Nats by which two equally probable derivations may differ.
_ROUNDING = 1e-2

NumberedPrefix = tuple[str, int, BracketPrefix]
"""A prefix with the name of its set and its number there, from 1."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A model's answers for a prefix.

    Attributes:
        chosen: the likeliest closer, over the beam.
        chosen_by_best: the likeliest closer, given the attachments of the best hypothesis (Murty et al.'s
            code); ``chosen`` without a tape.
        chosen_given_attachments: the likeliest closer, given the prefix's attachments.
        attachments_right: number of the prefix's closing brackets that the best hypothesis attaches to their
            opening bracket; for a head without a tape, given the attachments before; None without a head.
        lead: the difference in joint log-probability (nats) between the best hypothesis and the right
            attachments; below 0 the beam has lost these. None without a tape.
    """

    chosen: str
    chosen_by_best: str
    chosen_given_attachments: str
    attachments_right: int | None
    lead: float | None


@dataclass(frozen=True, slots=True)
class ClosingWork(Work[Sequence[NumberedPrefix], list[Closed]]):
    """Closes the prefixes of a chunk, which have similar lengths.

    Attributes:
        model: a checkpoint whose tokens are the brackets.
        search: search options for attachments.
    """

    model: ModelSettings | LoadedModel
    search: SearchOptions

    def __call__(self, chunk: Sequence[NumberedPrefix]) -> list[Closed]:
        return list(_close([prefix for _, _, prefix in chunk], checkpoint_of(self.model), self.search))

    def content(self, chunk: Sequence[NumberedPrefix]) -> list[tuple[str, ...]]:
        return [(*prefix.tokens, prefix.closer) for _, _, prefix in chunk]

    @property
    def kept(self) -> Any:
        """See :class:`Work`."""
        return tuple[Closed, ...]


def evaluate_closing(
    sets: Mapping[str, Sequence[BracketPrefix]],
    loaded: LoadedModel,
    *,
    search: SearchOptions,
    progress: Progress = no_progress,
    in_chunks: InChunks | None = None,
) -> Results:
    """Choose the closing bracket after each prefix, among all closing brackets.

    A model with a tape reads the prefix with a beam search over attachments; the probabilities of the
    closers are summed over the beam. Other models read it once.

    Args:
        sets: prefixes by the name of their set.
        loaded: a checkpoint whose tokens are the brackets.
        search: search options for attachments.
        progress: wraps the iterator over prefixes.
        in_chunks: distributes the work; None: this process.

    Returns:
        ``scores.by_set``, ``scores.by_dependency``, ``scores.by_depth`` and ``scores.by_open``: accuracy with
        its 95% interval (Wilson). An ``items`` table with a row per prefix: ``set``, ``number`` (in the set,
        from 1), ``tokens``, ``dependency``, ``depth`` and ``closer`` as in the set, ``open`` (brackets open
        at its end, the one to be closed included), and the fields of :class:`Closed`.

    Raises:
        PdtoolsError: if a bracket is no token of the model's, or a prefix is too long for it.
    """
    from pdtools.search.model import Model

    searched = beam_settings(Model.of(loaded, search).settings)
    work = sorted(
        ((name, number, prefix) for name, each in sets.items() for number, prefix in enumerate(each, 1)),
        key=lambda item: -len(item[2].tokens),
    )
    by = in_chunks or InChunks(loaded)
    chunks = by.map(ClosingWork(by.model, search), cut(work, PREFIXES_PER_CHUNK))
    found = (pair for chunk, closed in chunks for pair in zip(chunk, closed, strict=True))
    items = [
        {
            "set": name,
            "number": number,
            "tokens": len(prefix.tokens),
            "dependency": prefix.dependency,
            "depth": prefix.depth,
            "open": prefix.open,
            "closer": prefix.closer,
            **asdict(closed),
        }
        for (name, number, prefix), closed in progress(found, len(work))
    ]
    items.sort(key=lambda item: (list(sets).index(item["set"]), item["number"]))
    return _results(items, loaded, searched)


def _close(prefixes: Sequence[BracketPrefix], loaded: LoadedModel, search: SearchOptions) -> Iterator[Closed]:
    import numpy as np

    from pdtools.search import next_token_logprobs
    from pdtools.search.model import Model

    texts = map(loaded.tokenizer.token_text, range(loaded.tokenizer.vocab_size))
    closers = {token: text for token, text in enumerate(texts) if text[:1] == ")"}
    model, ids = loaded.model, [_encode(prefix, loaded) for prefix in prefixes]
    gold = [sentence_layout(dyck_attachments(prefix.tokens)) for prefix in prefixes]
    read = [tokens[:-1] for tokens in ids]
    found = Model.of(loaded, search).continuations(read)
    given = best = [each.logprobs for each in found]
    if model.derivation_kind.labelled:
        raise PdtoolsError(
            f"{loaded.folder}: an action model: closing brackets are scored only for models of strings or"
            " attachments"
        )
    if model.derivation_kind.conditions_tokens:
        given, best = (
            list(next_token_logprobs(model, read, attachments, max_batch=search.max_batch))
            for attachments in ([attach[:-1] for attach in gold], [each.best for each in found])
        )
    for tokens, attach, logprobs, of_best, after in zip(ids, gold, given, best, found, strict=True):
        right = lead = None
        if after.best is not None:
            right, lead = _attachments_right(after.best, attach), 0.0
            if not np.array_equal(after.best, attach[:-1]):
                found_joint, _ = _scored(loaded, tokens, np.append(after.best, attach[-1]))
                lead = found_joint - _scored(loaded, tokens, attach)[0]
        elif model.derivation_kind.exist:
            right = _attachments_right(_scored(loaded, tokens, attach)[1], attach)
        chosen, by_best, by_gold = (_likeliest(each, closers) for each in (after.logprobs, of_best, logprobs))
        yield Closed(chosen, by_best, by_gold, right, lead)


def _attachments_right(found: NDArray[np.int32], gold: NDArray[np.int32]) -> int:
    """The number of closers attached as in the language, from (n + 1) and (n + 2) positions, ROOT first."""
    is_closer = gold[:-1] != range(len(gold) - 1)  # an opener is attached to itself, and so is ROOT
    return int((found == gold[:-1])[is_closer].sum())


def _scored(
    loaded: LoadedModel, tokens: NDArray[np.int32], attach: NDArray[np.int32]
) -> tuple[float, NDArray[np.int32]]:
    """Score ROOT, a prefix and an end (n + 2), which does not count, with given attachments.

    Returns:
        Log-probability of tokens and attachments, nats; int32 (n + 1), the likeliest attachment of each
        token, given those before.
    """
    import torch

    with torch.inference_mode():
        batch = loaded.model.pack([(tokens, attach)]).to(loaded.model.device)
        parts = loaded.model.forward_parts(batch)
    logprobs = (parts.token_logprobs + parts.attach_logprobs)[0, :-1].double()
    return float(logprobs.sum()), parts.attach_best[0, :-1].int().cpu().numpy()


def _encode(prefix: BracketPrefix, loaded: LoadedModel) -> NDArray[np.int32]:
    """Encode ROOT, the prefix, and end-of-sentence (which only the search needs): int32 (n + 2)."""
    import numpy as np

    from pdtools.search.checkpoints import encode_sentence
    from pdtools.search.scores import Unscorable

    sentence = split_spaces(" ".join((*prefix.tokens, prefix.closer)))
    encoded = encode_sentence(loaded.tokenizer, loaded.model.max_length, sentence)
    if isinstance(encoded, Unscorable):
        raise PdtoolsError(f"{loaded.folder}: a prefix cannot be read: {encoded.reason}")
    ids = encoded.encoding.ids
    if len(ids) != len(prefix.tokens) + 3 or encoded.encoding.n_unknown:
        raise PdtoolsError(f"{loaded.folder}: this model's tokens are not the brackets of the prefixes")
    return np.delete(ids, -2)


def _likeliest(logprobs: NDArray[np.float64], closers: Mapping[int, str]) -> str:
    return closers[max(closers, key=lambda token: float(logprobs[token]))]


def _results(items: list[dict[str, Any]], loaded: LoadedModel, searched: dict[str, Any]) -> Results:
    import pyarrow as pa

    groups = {
        "by_set": groupby(items, itemgetter("set")),
        "by_dependency": _by_size(items, "dependency", lambda n: _bin(n, 0, _DEPENDENCY_BIN)),
        "by_depth": _by_size(items, "depth", str),
        "by_open": _by_size(items, "open", lambda n: _bin(n, 1, _OPEN_BIN)),
    }
    return Results(
        scores={kind: {name: accuracy(list(group)) for name, group in each} for kind, each in groups.items()},
        counts={"prefixes": len(items), "tokens": sum(item["tokens"] for item in items)},
        settings={
            "task": "dyck",
            "unit": "fraction of 1",
            "log_base": "nats",
            **loaded.described,
            **searched,
            "chosen_among": "closing brackets",
            "interval": "95%, Wilson",
            "dtype": loaded.model.dtype_name,
        },
        tables={ITEMS: pa.Table.from_pylist(items)},
    )


def _by_size(
    items: Iterable[dict[str, Any]], column: str, name: Callable[[int], str]
) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Group prefixes by the name of a number, the smallest first."""
    return groupby(sorted(items, key=itemgetter(column)), lambda item: name(item[column]))


def _bin(number: int, first: int, width: int) -> str:
    """The bin of a number, as 50-99."""
    low = (number - first) // width * width + first
    return f"{low}-{low + width - 1}"


def accuracy(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Scores of one group of prefixes, as fractions of 1; attachments are of all closing brackets."""
    number, right = len(items), sum(item["chosen"] == item["closer"] for item in items)
    low, high = wilson(right, number)
    attachments = [n for item in items if (n := item["attachments_right"]) is not None]
    closers = sum((item["tokens"] - item["open"]) // 2 for item in items)
    leads = [lead for item in items if (lead := item["lead"]) is not None]
    return {
        "accuracy": right / number,
        "low": low,
        "high": high,
        "prefixes": number,
        **{
            f"accuracy_{how}": mean([float(item[f"chosen_{how}"] == item["closer"]) for item in items])
            for how in ("by_best", "given_attachments")
        },
        "attachment_accuracy": sum(attachments) / closers if attachments and closers else None,
        "lost_by_beam": mean([float(lead < -_ROUNDING) for lead in leads]) if leads else None,
    }


def evaluate_entropy(
    shards: ShardSet,
    loaded: LoadedModel,
    *,
    search: SearchOptions,
    rejects: Rejects,
    progress: Progress = no_progress,
    in_chunks: InChunks | None = None,
) -> dict[str, float]:
    """The distance of a model from the automaton that made some strings.

    Args:
        shards: strings that ``pdtools generate dyck --shards`` wrote.
        loaded, search, rejects, progress, in_chunks: see
            :func:`pdtools.evaluation.perplexity.evaluate.evaluate_perplexity`.

    Returns:
        Nats per token, including end-of-sentence: ``model`` (its marginal on these strings), ``automaton``
        (the exact probability of these strings), ``entropy`` (of the language), and ``excess``, model minus
        automaton; ``ppl_model`` and ``ppl_entropy``, exponentials of two of them.

    Raises:
        PdtoolsError: if the shards don't name their language.
    """
    try:
        language = Dyck(**language_settings(shards, "dyck"))
    except TypeError as error:
        reason = f"not a language of pdtools generate dyck: make the shards again with it ({error})"
        raise PdtoolsError(f"{shards.folder}: {reason}") from error
    found = evaluate_perplexity(
        shards, loaded, search=search, rejects=rejects, progress=progress, in_chunks=in_chunks
    )
    rows = found.table(ITEMS).to_pylist()
    tokens = sum(row["tokens"] for row in rows)
    by_id = {int(shards.ids[i]): i for i in range(len(shards))}
    model = -math.fsum(row["marginal"] for row in rows) / tokens
    automaton = (
        -math.fsum(language.log_probability(shards.text(by_id[row["id"]]).split()) for row in rows) / tokens
    )
    entropy = language.expectations.entropy_per_token
    return {
        "model": model,
        "automaton": automaton,
        "entropy": entropy,
        "excess": model - automaton,
        "ppl_model": math.exp(model),
        "ppl_entropy": math.exp(entropy),
    }
