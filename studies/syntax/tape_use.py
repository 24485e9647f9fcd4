"""Is the stack tape used? A Pushdown LM's perplexity when it is given other tapes than the gold trees'.

python tape_use.py --model RUN --shards FOLDER [--base RUN] [--sentences N] -o FILE.json

All tapes are teacher-forced: token k is predicted with W_{k−1}, which the tokens before it made.

- gold: of the shards' trees.
- clamped-N: the gold tree's, depths above N read as N.
- beam: of the best derivation that a search of the whole sentence found.
- incremental: W_{k−1} of the best hypothesis that the search had after token k − 1.
- marginal: no single tape: p(x_k | x_<k) over all hypotheses that it had.
- shuffled: of another sentence's gold tree, drawn from those with as many tokens; random where there is none.
- random: each attachment drawn uniformly from those that the ones before leave legal.
- right, left: of purely right- and left-branching trees. A right-branching one is flat until its last token.
- absent: all tokens shift, so all depths are 0. That adds the same to all scores of a query: as if there were
  no depth embeddings. Distances in the stack, of models that look at them, are then those in the sentence.
- base: another model, which never had a tape.

Gold trees and beam know of words to come, and shuffled and right where the sentence ends; the others nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.evaluation.bootstrap import interval, of_sums
from pdtools.evaluation.comparison.statistics import resample
from pdtools.evaluation.perplexity.evaluate import check_shards
from pdtools.files import write_json
from pdtools.models import LanguageModel, LoadedModel, StackState, load_checkpoint
from pdtools.models.transformer.model import TransformerLM
from pdtools.provenance import provenance
from pdtools.search.batches import in_batches, strings_that_fit
from pdtools.search.families.attachment_beam import BeamResult, beam_search
from pdtools.search.options import SearchOptions
from pdtools.shards import ShardSet
from pdtools.trees.attachments import sentence_layout

CLAMPS = (1, 2, 4, 8)
# Whose perplexities bins have.
IN_BINS = ("gold", "beam", "incremental", "marginal", "shuffled", "absent", "base")
REFERENCES = ("absent", "base")
LENGTHS = (1, 11, 21, 31, 41)
DEPTHS = (0, 1, 3, 5, 9, 17)

Ints = NDArray[np.int32]
Logs = list[NDArray[np.float64]]  # of each sentence (n + 1,), nats: its tokens, and end-of-sentence


# --- tapes ----------------------------------------------------------------------------------------


def right_branching(tokens: Ints) -> Ints:
    """Of ROOT, n tokens and end-of-sentence: the last token closes everything."""
    attach = np.arange(len(tokens) - 2)
    attach[-1:] = 0
    return sentence_layout(attach)


def left_branching(tokens: Ints) -> Ints:
    """Of ROOT, n tokens and end-of-sentence: each token attaches to the one before."""
    return sentence_layout(np.maximum(np.arange(len(tokens) - 2) - 1, 0))


def random_attachments(tokens: Ints, rng: np.random.Generator) -> Ints:
    """Of ROOT, n tokens and end-of-sentence: each drawn uniformly from those that are legal."""
    state = StackState.start(1, len(tokens))
    attach = np.zeros(len(tokens), np.int32)
    for k in range(1, len(tokens) - 1):
        attach[k] = rng.choice(np.flatnonzero(state.legal()[0].numpy()))
        state.push(torch.tensor([attach[k]]))
    return attach


def shuffled(shards: ShardSet, rows: Sequence[int], rng: np.random.Generator) -> list[Ints]:
    """For each row the attachments of another one of the shards with as many tokens; random if none has."""
    alike = defaultdict(list)
    for row, length in enumerate(shards.lengths.tolist()):
        alike[length].append(row)
    found = []
    for row in rows:
        others = [other for other in alike[int(shards.lengths[row])] if other != row]
        found.append(
            shards.attach(int(rng.choice(others))) if others else random_attachments(shards.tokens(row), rng)
        )
    return found


@contextlib.contextmanager
def clamped(model: TransformerLM, deepest: int) -> Iterator[None]:
    """While the block runs, the model reads greater depths as this one."""
    depths = model.depths
    assert depths is not None
    model.depths = min(depths, deepest + 1)
    try:
        yield
    finally:
        model.depths = depths


# --- log-probabilities ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Read:
    """What a model says of sentences read with some tape.

    Attributes:
        logprobs: of each float64 (n + 1,), nats: log p(x_k | x_<k, W_{k−1}) of its tokens and
            end-of-sentence.
        best: of each int32 (n,), the most probable attachment of each token, those before it as given.
    """

    logprobs: Logs
    best: list[Ints]


@torch.inference_mode()
def read(model: LanguageModel, tokens: Sequence[Ints], attach: Sequence[Ints]) -> Read:
    """Teacher-forced passes over sentences, ROOT first, with attachments."""

    def work(places: list[int]) -> Iterator[tuple[NDArray[np.float64], Ints]]:
        batch = model.pack([(tokens[i], attach[i]) for i in places]).to(model.device)
        parts = model.forward_parts(batch)
        found = parts.token_logprobs.double().cpu().numpy(), parts.attach_best.int().cpu().numpy()
        for i, of_tokens, of_attachments in zip(places, *found, strict=True):
            yield of_tokens[1 : len(tokens[i])], of_attachments[1 : len(tokens[i]) - 1]

    lengths = [len(each) for each in tokens]
    found = in_batches(lengths, lambda length: strings_that_fit(length, model.vocab_size), work)
    return Read([logprobs for logprobs, _ in found], [best for _, best in found])


def incremental(model: LanguageModel, tokens: Sequence[Ints], found: Sequence[BeamResult]) -> Logs:
    """Log-probabilities of each token with the tape of the best hypothesis after those before it.

    As long as the best hypothesis continues the one before, one pass serves.
    """
    prefixes, attach, places = [], [], []
    for i, result in enumerate(found):
        best, first = result.incremental[:-1], 0  # after 0 to n tokens
        for t, each in enumerate(best):
            if t + 1 < len(best) and np.array_equal(best[t + 1][:-1], each):
                continue
            prefixes.append(tokens[i][: t + 2])
            attach.append(np.append(each, np.int32(t + 1)))
            places.append((i, slice(first, t + 1)))
            first = t + 1
    logs = [np.empty(len(each) - 1) for each in tokens]
    for (i, place), values in zip(places, read(model, prefixes, attach).logprobs, strict=True):
        logs[i][place] = values[place]
    return logs


# --- means and intervals --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Places:
    """All tokens and ends of sentences, one sentence after the other: T.

    Attributes:
        logs: by tape, float64 (T,), nats: log-probabilities.
        sentence: int (T,), which one, from 0.
        is_end: bool (T,), whether this is an end of sentence.
        length: int (T,), tokens of the sentence.
        deepest: int (T,), the deepest entry of the gold tape that this is predicted with.
        follows: bool (T,), whether this has a token before it, which has a gold attachment.
        right: bool (T,), whether that attachment is the most probable one, the gold ones before it given.
        shift: bool (T,), whether it is a shift.
    """

    logs: Mapping[str, NDArray[np.float64]]
    sentence: NDArray[np.int64]
    is_end: NDArray[np.bool_]
    length: NDArray[np.int64]
    deepest: NDArray[np.int32]
    follows: NDArray[np.bool_]
    right: NDArray[np.bool_]
    shift: NDArray[np.bool_]

    @classmethod
    def of(
        cls, shards: ShardSet, rows: Sequence[int], logs: Mapping[str, Logs], best: Sequence[Ints]
    ) -> Places:
        """Of rows of shards, with log-probabilities by tape and most probable attachments (:class:`Read`)."""
        gold = [shards.attach(i)[1:-1] for i in rows]
        sizes = np.array([len(each) + 1 for each in gold])  # n + 1
        place = np.concatenate([np.arange(size) for size in sizes])
        length = np.repeat(sizes - 1, sizes)

        def before(said: Iterable[NDArray[np.bool_]]) -> NDArray[np.bool_]:
            return np.concatenate([np.append(False, each) for each in said])

        return cls(
            logs={name: np.concatenate(each) for name, each in logs.items()},
            sentence=np.repeat(np.arange(len(rows)), sizes),
            is_end=place == length,
            length=length,
            deepest=np.concatenate([shards.tape(i)[:-1].max(1) for i in rows]),
            follows=place > 0,
            right=before(found == given for found, given in zip(best, gold, strict=True)),
            shift=before(given == np.arange(1, len(given) + 1) for given in gold),
        )

    def sums(self, values: NDArray[Any], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Sums over chosen tokens, and how many, of each sentence that has any: (sentences, 2)."""
        sentence = self.sentence[chosen]
        found = np.stack([np.bincount(sentence, values[chosen]), 1.0 * np.bincount(sentence)], axis=1)
        return found[found[:, 1] > 0]


def bootstrap(
    sums: Sequence[NDArray[np.float64]], groups: NDArray[np.float64], samples: int
) -> list[tuple[float, list[float]]]:
    """G weighted sums of R means over tokens, each with its interval over sentences.

    Args:
        sums: R of (sentences, 2), see :meth:`Places.sums`.
        groups: (R, G), the weights.
        samples: how many.
    """

    def means(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return sums[..., 0] / sums[..., 1]

    counts = np.stack(sums, axis=1)
    random = np.random.default_rng(0)
    found = resample(counts, np.zeros(len(counts), np.int64), of_sums(means), groups, random, samples)
    return [
        (float(mean), list(interval(drawn)))
        for mean, drawn in zip(found.scores[0] @ groups, found.drawn[0].T, strict=True)
    ]


def stratum(places: Places, chosen: NDArray[np.bool_], tapes: Sequence[str], samples: int) -> dict[str, Any]:
    """Of chosen tokens, of which there are some: perplexities, and nats a token that are gained over others.

    Args:
        places: all tokens.
        chosen: bool (T,).
        tapes: those to compare.
        samples: of the bootstrap over sentences.
    """
    each = np.eye(len(tapes))
    references = [tape for tape in REFERENCES if tape in tapes]
    groups = [each, *(each - each[:, [tapes.index(reference)]] for reference in references)]
    found = bootstrap([places.sums(places.logs[tape], chosen) for tape in tapes], np.hstack(groups), samples)
    of_tapes = {}
    for i, tape in enumerate(tapes):
        (mean, (low, high)), *gains = found[i :: len(tapes)]
        of_tapes[tape] = {"ppl_token": math.exp(-mean), "interval": [math.exp(-high), math.exp(-low)]}
        for reference, (gain, gain_interval) in zip(references, gains, strict=True):
            of_tapes[tape] |= {f"over_{reference}": gain, f"over_{reference}_interval": gain_interval}
    attached = places.right[chosen & places.follows]
    return {
        "sentences": len(np.unique(places.sentence[chosen])),
        "tokens": int(chosen.sum()),
        "attachment_accuracy": float(attached.mean()) if len(attached) else None,
        "tapes": of_tapes,
    }


def bins(values: NDArray[Any], firsts: Sequence[int]) -> dict[str, NDArray[np.bool_]]:
    """Which of the values are in bins that begin at ``firsts``."""
    found = {}
    for first, past in pairwise([*firsts, math.inf]):
        name = f"{first}-{past - 1}" if past < math.inf else f"{first}+"
        found[str(first) if past == first + 1 else name] = (values >= first) & (values < past)
    return found


def summary(places: Places, samples: int) -> dict[str, Any]:
    """All scores. What is in bins is without ends of sentences, which gold trees give away."""
    every, word = np.ones(len(places.sentence), bool), ~places.is_end
    few = [tape for tape in IN_BINS if tape in places.logs]
    said = {"right": places.right, "wrong": ~places.right}
    done = {"shift": places.shift, "reduce": ~places.shift}
    both = {f"{s}, {d}": said[s] & done[d] for s in said for d in done}

    def strata(masks: Mapping[str, NDArray[np.bool_]], among: NDArray[np.bool_]) -> dict[str, Any]:
        return {
            name: stratum(places, mask & among, few, samples)
            for name, mask in masks.items()
            if (mask & among).any()
        }

    right = places.sums(places.right, places.follows)
    ((accuracy, accuracy_interval),) = bootstrap([right], np.ones((1, 1)), samples)
    return {
        "attachment_accuracy": accuracy,
        "attachment_accuracy_interval": accuracy_interval,
        "tokens_changed_by_clamping": {
            str(clamp): float((places.deepest > clamp).mean()) for clamp in CLAMPS
        },
        **{
            name: stratum(places, chosen, list(places.logs), samples)
            for name, chosen in {"all": every, "without_ends": word, "ends": ~word}.items()
        },
        "by_length": strata(bins(places.length, LENGTHS), word),
        "by_depth": strata(bins(places.deepest, DEPTHS), word),
        "by_attachment_before": strata({**said, **both}, word & places.follows),
    }


# --- the command ----------------------------------------------------------------------------------


def checked(loaded: LoadedModel, shards: ShardSet) -> TransformerLM:
    """The model, if it has a tape.

    Raises:
        PdtoolsError: if it has none, reads windows, or the shards are not for it.
    """
    check_shards(shards, loaded)
    model = loaded.model
    if not isinstance(model, TransformerLM) or model.depths is None or model.layout != "sentence":
        raise PdtoolsError(f"{loaded.folder}: not a Pushdown LM of sentences")
    return model


def checked_base(loaded: LoadedModel, shards: ShardSet) -> LanguageModel:
    """The model, if it has no tape.

    Raises:
        PdtoolsError: if its words depend on trees, it is a masked one, or the shards are not for it.
    """
    check_shards(shards, loaded)
    loaded.model.check_causal()
    if loaded.model.derivation_kind.conditions_tokens:
        raise PdtoolsError(f"{loaded.folder}: not a model without a tape")
    return loaded.model


def tapes_of(
    model: TransformerLM, shards: ShardSet, rows: Sequence[int], found: Sequence[BeamResult], seed: int
) -> tuple[dict[str, Logs], list[Ints]]:
    """Log-probabilities by tape, and the most probable attachments given the gold ones.

    Args:
        found: what a beam search found of the rows.
        seed: of what is drawn.
    """
    rng = np.random.default_rng(seed)
    tokens = [shards.tokens(i) for i in rows]
    gold = [shards.attach(i) for i in rows]
    given = read(model, tokens, gold)
    logs = {"gold": given.logprobs}
    for clamp in reversed(CLAMPS):
        with clamped(model, clamp):
            logs[f"clamped-{clamp}"] = read(model, tokens, gold).logprobs
    logs["beam"] = read(model, tokens, [each.derivations[0][1] for each in found]).logprobs
    logs["incremental"] = incremental(model, tokens, found)
    logs["marginal"] = [each.logprobs for each in found]
    others = {
        "shuffled": shuffled(shards, rows, rng),
        "random": [random_attachments(each, rng) for each in tokens],
        "right": [right_branching(each) for each in tokens],
        "left": [left_branching(each) for each in tokens],
        "absent": [model.no_derivation(each) for each in tokens],
    }
    return logs | {name: read(model, tokens, attach).logprobs for name, attach in others.items()}, given.best


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the options, read the sentences with all tapes, write the scores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", required=True, help="a checkpoint or run of a Pushdown LM of sentences")
    parser.add_argument("--shards", required=True, help="sentences with gold trees, made with its tokenizer")
    parser.add_argument("--base", help="a language model without a tape, with the same tokenizer")
    parser.add_argument("--sentences", type=int, default=500, help="the first so many that fit the models")
    parser.add_argument("--beam", type=int, default=100)
    parser.add_argument("--margin", type=float, default=5.0, help="nats")
    parser.add_argument("--seed", type=int, default=0, help="of the tapes that are drawn")
    parser.add_argument("--samples", type=int, default=2000, help="of the bootstrap over sentences")
    parser.add_argument("-o", "--output", required=True)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    loaded, shards = load_checkpoint(given.model, "cpu"), ShardSet.open(given.shards)
    model = checked(loaded, shards)
    base = None if given.base is None else checked_base(load_checkpoint(given.base, "cpu"), shards)
    room = [each.max_length or np.inf for each in (model, base) if each is not None]
    rows = np.flatnonzero(shards.lengths <= min(room))[: given.sentences].tolist()
    tokens = [shards.tokens(i) for i in rows]
    found = beam_search(model, tokens, search=SearchOptions(beam=given.beam, margin=given.margin))
    logs, best = tapes_of(model, shards, rows, found, given.seed)
    if base is not None:
        logs["base"] = read(base, tokens, [base.no_derivation(each) for each in tokens]).logprobs
    same = [
        each.derivations[0][1][1:-1] == shards.attach(i)[1:-1] for i, each in zip(rows, found, strict=True)
    ]
    scores = summary(Places.of(shards, rows, logs, best), given.samples)
    inputs = {"model": given.model, "shards": given.shards, **({"base": given.base} if given.base else {})}
    result = {
        "scores": {**scores, "beam_attachments_right": float(np.mean(np.concatenate(same)))},
        "counts": {
            "sentences": len(rows),
            "tokens": sum(len(each) - 1 for each in tokens),
            "passed_over": rows[-1] + 1 - len(rows),  # too long for a model
        },
        "settings": {
            name: getattr(given, name) for name in ("sentences", "beam", "margin", "seed", "samples")
        },
        "provenance": provenance(inputs),
    }
    write_json(Path(given.output), result)


if __name__ == "__main__":
    try:
        main()
    except PdtoolsError as error:
        sys.exit(f"tape_use.py: {error}")
