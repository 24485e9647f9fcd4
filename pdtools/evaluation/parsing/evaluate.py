"""Bracketing scores of a file of predicted trees against a file of gold trees."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pdtools.errors import InputError
from pdtools.evaluation.parsing.evalb import BracketScore, SentenceRow, compare_sentence
from pdtools.evaluation.parsing.prm import COMMON, Parameters
from pdtools.evaluation.results import ITEMS, Progress, Results, no_progress
from pdtools.files import read_lines
from pdtools.files.inputs import number_of, read_json_lines, text_of

if TYPE_CHECKING:
    from pdtools.trees import Tree

Binarize = Literal["right", "left", "none"]
NO_LABELS = "all of its labels are X: without labels there is no labeled F1; --unlabeled compares spans"

_LABEL = re.compile(r"\(\s*([^\s()]+)\s*(?=\()")  # a constituent's: a tag stands before a word


@dataclass
class PreparationCounts:
    """Counts of properties of the predicted trees.

    Attributes:
        retagged: untagged trees that were given the gold tags.
        placeholders: flat trees of sentences without a parse.
        labeled: trees with a label that is not ``X``.
        unlabeled: trees with no other label than ``X``, where the gold tree has others.
    """

    retagged: int = 0
    placeholders: int = 0
    labeled: int = 0
    unlabeled: int = 0

    @property
    def lack_labels(self) -> bool:
        """Return whether labels cannot be compared: no predicted tree has any."""
        return self.unlabeled > 0 and not self.labeled

    def count_labels(self, gold: str, predicted: str) -> None:
        """Count a pair of bracketed trees."""
        from pdtools.trees import UNKNOWN_LABEL

        found, wanted = (set(_LABEL.findall(text)) - {UNKNOWN_LABEL} for text in (predicted, gold))
        self.labeled += bool(found)
        self.unlabeled += bool(wanted and not found and _LABEL.search(predicted))


def read_pairs(
    gold: str | Path, predicted: str | Path, *, verbatim: bool = False
) -> Iterator[tuple[int, str, str]]:
    """Line number, gold line and predicted line from two files with one tree (or nothing) per line.

    Raises:
        InputError: if one file has more lines than the other; unless ``verbatim``, for a tree over several
            lines.
    """
    read = read_lines if verbatim else _lines_of_trees
    lines = zip_longest(read(gold), read(predicted))
    for number, (one, other) in enumerate(lines, start=1):
        if one is None or other is None:
            longer, shorter = (predicted, gold) if one is None else (gold, predicted)
            raise InputError(
                f"ends after line {number - 1}, but {longer} has more",
                file=shorter,
                hint="both need one tree per line, an empty line for a missing one",
            )
        yield number, one[1], other[1]


def _lines_of_trees(file: str | Path) -> Iterator[tuple[int, str]]:
    """The lines of a file, none of which continues in one that closes its tree or is indented more."""
    indent = depth = 0  # the previous line's
    for number, line in read_lines(file):
        own = len(line) - len(line.lstrip())
        if depth > 0 and (own > indent or line.startswith(")")):
            reason = "a tree goes on in the next line, but one tree per line is needed"
            command = f"pdtools parse {file} --from treebank --binarize none --functions keep -o TREES"
            raise InputError(reason, file=file, line=number - 1, hint=f"{command} writes them so")
        indent, depth = own, line.count("(") - line.count(")")
        yield number, line


def read_excluded(rejects: str | Path) -> dict[int, str]:
    """Lines without a parse, with their reasons: the ``rejects.jsonl`` of ``pdtools decode`` or ``parse``.

    Raises:
        InputError: for lines that are not such records, or records about several files.
    """
    reasons: dict[int, str] = {}
    files = set()
    for number, record in read_json_lines(rejects, lone_surrogates=True):
        try:
            reasons[number_of(record["line"])] = text_of(record["reason"])
            files.add(text_of(record["file"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError("not a record of an excluded sentence", file=rejects, line=number) from error
    if len(files) > 1:
        raise InputError("its records are about several files, so line numbers are ambiguous", file=rejects)
    return reasons


def prepare(
    gold: str, predicted: str, parameters: Parameters, binarize: Binarize, counts: PreparationCounts
) -> tuple[str, str]:
    """Make two bracketed trees comparable, beyond what EVALB does.

    Words are spelled alike (``1\\/2`` and ``1/2``). A predicted tree without tags (all ``XX``, as ``pdtools
    decode`` writes) gets the gold tags, so that the same punctuation is deleted on both sides. If only spans
    are compared, predicted tags may be of any tagset: the gold tags say which words are deleted. With
    ``binarize`` both are cleaned (wrapper, traces, function tags) and binarized, and only their binary nodes
    are compared: no unary chains, nothing over a single word. Text that is not one tree stays as it is.
    """
    from pdtools.trees import TRACE_TAGS, UNKNOWN_TAG, is_placeholder

    gold_tree, predicted_tree = (_tree(text, binarize) for text in (gold, predicted))
    if gold_tree is not None and predicted_tree is not None:
        untagged = _is_untagged(predicted_tree) and not _is_untagged(gold_tree)
        if untagged and is_placeholder(predicted_tree):
            counts.placeholders += 1
        # A parser never sees traces: the gold tree may have some, the predicted one none.
        tagged = [
            (word, tag)
            for word, tag in zip(gold_tree.words, gold_tree.tags, strict=True)
            if tag not in TRACE_TAGS
        ]
        same_words = predicted_tree.words == tuple(word for word, _ in tagged)
        if same_words and untagged:
            predicted_tree = dataclasses.replace(predicted_tree, tags=tuple(tag for _, tag in tagged))
            counts.retagged += 1
        elif same_words and not parameters.labeled:
            deleted, pairs = parameters.delete_labels, zip(tagged, predicted_tree.tags, strict=True)
            tags = (
                tag if tag in deleted else UNKNOWN_TAG if own in deleted else own for (_, tag), own in pairs
            )
            predicted_tree = dataclasses.replace(predicted_tree, tags=tuple(tags))
    return (
        gold if gold_tree is None else _binarized(gold_tree, binarize),
        predicted if predicted_tree is None else _binarized(predicted_tree, binarize),
    )


def _tree(text: str, binarize: Binarize) -> Tree | None:
    from pdtools.trees import Tree, escape, normalize, unescape

    try:
        tree: Tree | None = Tree.from_brackets(text)
    except InputError:
        return None
    if tree is not None and binarize != "none":
        tree = normalize(tree)
    return tree and dataclasses.replace(tree, words=tuple(escape(unescape(word)) for word in tree.words))


def _binarized(tree: Tree, binarize: Binarize) -> str:
    from pdtools.trees import binarize as factor_out
    from pdtools.trees import collapse_unaries

    if binarize == "none":
        return str(tree)
    tree = factor_out(collapse_unaries(tree), binarize)
    binary = tree.ends - tree.starts > 1  # a remaining node over one word is no binary node
    labels = tuple(label for label, kept in zip(tree.labels, binary, strict=True) if kept)
    return str(dataclasses.replace(tree, labels=labels, starts=tree.starts[binary], ends=tree.ends[binary]))


def _is_untagged(tree: Tree) -> bool:
    from pdtools.trees import UNKNOWN_TAG

    return all(tag == UNKNOWN_TAG for tag in tree.tags)


def compare_files(
    gold: str | Path,
    predicted: str | Path,
    parameters: Parameters,
    *,
    binarize: Binarize = "none",
    verbatim: bool = False,
    excluded: Mapping[int, str] | None = None,
    counts: PreparationCounts | None = None,
) -> Iterator[SentenceRow]:
    """Compare two files of trees, line by line.

    Args:
        gold, predicted: files with one tree per line, compressed or not; one of them may be ``-``.
        parameters: EVALB's parameters.
        binarize: factor both sides before they are compared.
        verbatim: do only what EVALB does; without it see :func:`prepare`.
        excluded: lines to skip, with the reason.
        counts: added to, if given.

    Raises:
        InputError: as :func:`read_pairs`; if a line to skip is in neither file.
    """
    counts = PreparationCounts() if counts is None else counts
    line = 0
    for line, one, other in read_pairs(gold, predicted, verbatim=verbatim):
        if excluded and line in excluded:
            length = compare_sentence(one, "", parameters).length
            reason = f"excluded: {excluded[line]}"
            row = SentenceRow(line=line, length=length, status="skipped", reason=reason)
            yield dataclasses.replace(row, gold_tree=one, predicted_tree=other)
            continue
        counts.count_labels(one, other)
        if not verbatim or binarize != "none":
            one, other = prepare(one, other, parameters, binarize, counts)
        row = compare_sentence(one, other, parameters, line)
        yield dataclasses.replace(row, gold_tree=one, predicted_tree=other)
    if excluded and max(excluded) > line:
        raise InputError(
            f"ends after line {line}, but line {max(excluded)} is to be excluded",
            file=gold,
            hint="give the rejects.jsonl of the command that wrote the predicted trees",
        )


def evaluate_parse(
    gold: str | Path,
    predicted: str | Path,
    parameters: Parameters = COMMON,
    *,
    binarize: Binarize = "none",
    excluded: Mapping[int, str] | None = None,
    progress: Progress = no_progress,
) -> Results:
    """Score a file of predicted trees; arguments as in :func:`compare_files`.

    Returns:
        Scores in percent, over all sentences and (``up_to_cutoff``) over sentences of at most
        ``parameters.cutoff_len`` words; an ``items`` table with one row per sentence.

    Raises:
        InputError: as :func:`compare_files`; if there are no trees, or labels are to be compared and no
            predicted tree has any but ``X``.
    """
    counts = PreparationCounts()
    compared = compare_files(gold, predicted, parameters, binarize=binarize, excluded=excluded, counts=counts)
    rows = list(progress(compared, None))
    if not rows:
        raise InputError("no trees in it", file=gold)
    if parameters.labeled and counts.lack_labels:
        raise InputError(NO_LABELS, file=predicted)
    whole = sum(map(BracketScore.of, rows), BracketScore())
    short_rows = [row for row in rows if row.length <= parameters.cutoff_len]
    short = sum(map(BracketScore.of, short_rows), BracketScore())
    scores: dict[str, Any] = {**whole.as_dict(), "up_to_cutoff": short.as_dict()}
    # Gold tags are right by construction, and those of another tagset all wrong.
    if counts.retagged or not whole.correct_tags:
        scores["tagging_accuracy"] = scores["up_to_cutoff"]["tagging_accuracy"] = None
    return Results(
        scores=scores,
        counts={
            **_counts(whole, rows),
            "up_to_cutoff": _counts(short, short_rows),
            "retagged": counts.retagged,
            "placeholders": counts.placeholders,
            "unlabeled": counts.unlabeled,
        },
        settings={
            "task": "parse",
            "unit": "percent",
            "binarize": binarize,
            "labeled": parameters.labeled,
            "cutoff_len": parameters.cutoff_len,
            "max_error": parameters.max_error,
            "delete_labels": sorted(parameters.delete_labels),
            "delete_labels_for_length": sorted(parameters.delete_labels_for_length),
            "quote_labels": sorted(parameters.quote_labels),
            "equal_labels": sorted(map(list, parameters.equal_labels)),
            "equal_words": sorted(map(list, parameters.equal_words)),
        },
        tables={ITEMS: _table(rows)},
    )


def _counts(score: BracketScore, rows: Iterable[SentenceRow]) -> dict[str, int]:
    excluded = sum(row.status == "skipped" and row.reason is not None for row in rows)
    return {
        "sentences": score.sentences,
        "scored": score.scored,
        "errors": score.errors,
        "skipped": score.skipped - excluded,
        "left_out": excluded,
        "gold_brackets": score.gold,
        "predicted_brackets": score.predicted,
        "matched_brackets": score.matched,
        "matched_spans": score.matched_unlabeled,
        "crossing_brackets": score.crossing,
        "complete": score.complete,
        "words": score.words,
    }


def _table(rows: Iterable[SentenceRow]) -> Any:
    import pyarrow as pa

    texts = ("status", "reason", "gold_tree", "predicted_tree")
    numbers = [f.name for f in dataclasses.fields(SentenceRow) if f.name not in texts]
    return pa.Table.from_pylist(
        [{**dataclasses.asdict(row), "recall": row.recall, "precision": row.precision} for row in rows],
        schema=pa.schema(
            [(name, pa.int32()) for name in numbers]
            + [("recall", pa.float64()), ("precision", pa.float64())]
            + [(name, pa.string()) for name in texts]
        ),
    )
