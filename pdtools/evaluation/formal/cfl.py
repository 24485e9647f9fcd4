"""Context-free languages: a model's distance from the exact bound (DuSell and Chiang 2020, 2022).

The bound is the cross-entropy of the distribution that the strings were drawn from: a length, uniform over
the language's lengths in the range, and a string of the grammar given its length. Both it and the
model's cross-entropy are sums of -log p(w EOS) divided by the sum of |w| + 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pdtools.errors import PdtoolsError
from pdtools.evaluation.perplexity.evaluate import evaluate_perplexity
from pdtools.evaluation.results import ITEMS, Progress, Results, no_progress
from pdtools.formal import ContextFree
from pdtools.formal.language import language_settings
from pdtools.search.options import NOT_SEARCHED, SearchOptions, beam_settings

if TYPE_CHECKING:
    from pdtools.files import Rejects
    from pdtools.models import LoadedModel
    from pdtools.shards import ShardSet

# Number of strings whose exact probabilities are computed between two steps of a progress bar.
_WINDOW = 64


def evaluate_cfl(
    shards: ShardSet,
    loaded: LoadedModel | None,
    *,
    search: SearchOptions,
    rejects: Rejects,
    progress: Progress = no_progress,
) -> Results:
    """Cross-entropies of a model and of the language on the same strings, overall and by length.

    Args:
        shards: strings that ``pdtools generate cfl --shards`` wrote.
        loaded: a checkpoint trained on such strings; None: the bound alone.
        search, rejects: see :func:`pdtools.evaluation.perplexity.evaluate.evaluate_perplexity`.
        progress: wraps the iterators over strings, first for the language, then for the model.

    Returns:
        ``scores``: ``cross_entropy`` (the model's), ``bound`` and ``difference``, nats a symbol, the
        end-of-sentence counted; ``by_length`` with the same for each length: there the bound is given the
        length, as in the paper's figure 2. An ``items`` table with a row per string: ``id``, ``tokens``
        (without the end-of-sentence), ``exact``: log p(string | its length) under the grammar, ``model``: log
        p(string, end-of-sentence) under the model, null without one.

    Raises:
        PdtoolsError: if the shards do not name their grammar, or hold a string that is not in its
            language.
    """
    language = language_of(shards)
    exact = dict(progress(_exact(shards, language), len(shards)))
    model: Mapping[int, float] = {}
    searched = NOT_SEARCHED
    if loaded is not None:
        found = evaluate_perplexity(shards, loaded, search=search, rejects=rejects, progress=progress)
        searched = beam_settings(found.settings)
        model = {row["id"]: row["marginal"] for row in found.table(ITEMS).to_pylist()}
    items = [
        {"id": row, "tokens": int(length) - 2, "exact": exact[row], "model": model.get(row)}
        for row, length in zip(shards.ids.tolist(), shards.lengths, strict=True)
        if loaded is None or row in model
    ]
    results = _results(items, language, loaded, searched, len(rejects))
    results.settings["text_sha256"] = shards.text_sha256()
    return results


def language_of(shards: ShardSet) -> ContextFree:
    """The language from which shards were drawn.

    Raises:
        PdtoolsError: if their manifest does not name it.
    """
    return ContextFree.from_settings(language_settings(shards, "cfl"))


def cross_entropies(items: Sequence[Mapping[str, Any]], log_lengths: float) -> dict[str, Any]:
    """Nats per symbol of model and bound on some strings, their difference, and the number of strings.

    Args:
        items: the strings' rows.
        log_lengths: the length's part in each string's bound, log of the number of lengths.
    """
    symbols = sum(item["tokens"] + 1 for item in items)
    bound = math.fsum(log_lengths - item["exact"] for item in items) / symbols
    logs = [item["model"] for item in items if item["model"] is not None]
    model = -math.fsum(logs) / symbols if logs else None
    return {
        "cross_entropy": model,
        "bound": bound,
        "difference": None if model is None else model - bound,
        "strings": len(items),
    }


def _exact(shards: ShardSet, language: ContextFree) -> Iterator[tuple[int, float]]:
    """Ids with log p(string | its length); strings of a length together."""
    order = sorted(range(len(shards)), key=lambda i: -int(shards.lengths[i]))
    for start in range(0, len(order), _WINDOW):
        some = order[start : start + _WINDOW]
        texts = [shards.text(i) for i in some]
        logs = language.log_probabilities([text.split() for text in texts])
        for i, text, log in zip(some, texts, logs.tolist(), strict=True):
            if log == -math.inf:
                raise PdtoolsError(
                    f"{shards.folder}: the string with id {int(shards.ids[i])} is not a string of the grammar"
                    f" {language.grammar.name}: {text}"
                )
            yield int(shards.ids[i]), log


def _results(
    items: list[dict[str, Any]],
    language: ContextFree,
    loaded: LoadedModel | None,
    searched: Mapping[str, Any],
    excluded: int,
) -> Results:
    import pyarrow as pa

    schema = {"id": pa.int64(), "tokens": pa.int32(), "exact": pa.float64(), "model": pa.float64()}
    by_length = groupby(sorted(items, key=itemgetter("tokens")), itemgetter("tokens"))
    scores = cross_entropies(items, math.log(len(language.valid_lengths)))
    del scores["strings"]
    return Results(
        scores={
            **scores,
            "by_length": {str(length): cross_entropies(list(group), 0.0) for length, group in by_length},
        },
        counts={
            "strings": len(items),
            "strings_left_out": excluded,
            "symbols": sum(item["tokens"] + 1 for item in items),
        },
        settings={
            "task": "cfl",
            "language": language.settings,
            "valid_lengths": len(language.valid_lengths),
            **({"model": None} if loaded is None else loaded.described),
            **searched,
            "log_base": "nats",
            "eos_counted": True,
        },
        tables={ITEMS: pa.Table.from_pylist(items, pa.schema(schema))},
    )
