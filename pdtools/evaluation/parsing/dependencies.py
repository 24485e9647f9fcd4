"""Unlabeled attachment scores and arc F1, by the rules of the CoNLL 2018 shared task (Zeman et al. 2018).

The words of two files are aligned by their characters, so words and sentences may be split in different ways.
Words outside of multi-word tokens are aligned if they span the same characters. Within the shortest stretch
of whole multi-word tokens on both sides, a longest common subsequence of lower-cased forms is aligned. A head
is right if its word is aligned, and the two heads are aligned or both the root. UAS is the F1 of right heads.

If the characters differ, as when one file alone has the multi-word tokens, words are aligned by the
characters of their own lower-cased forms, without such tokens: one to one, if the forms are equal.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

from pdtools.errors import InputError
from pdtools.evaluation.parsing.evalb import harmonic_mean, percent
from pdtools.evaluation.results import ITEMS, Progress, Results, no_progress
from pdtools.trees import Graph, unescape
from pdtools.trees.forms import FORMS, ReadOptions, ReadTree
from pdtools.trees.forms.conllu import read_sentence
from pdtools.trees.forms.form import Counts, TreeText, graph_of
from pdtools.trees.projection import bottom_up

ROOT, NOWHERE = -1, -2
"""Instead of the place of a head: the root; no head, or one that is not aligned."""


@dataclass(slots=True)
class Words:
    """The words of a file, in order.

    Attributes:
        forms: in lower case, without blanks.
        starts, ends: the characters that each spans, counted through the file without blanks; words of a
            multi-word token span all of it.
        is_part: whether each is part of a multi-word token.
        heads: the place of each word's head; of ``.sdp`` none.
        relations: to their heads, without subtypes; ``_``: none.
        arcs: the places of each word's heads, in the tree of CoNLL-U or the graph of ``.sdp``.
        graphs: the same for enhanced dependencies, or ``arcs`` in sentences without these.
        has_enhanced: whether there are enhanced dependencies.
        sentences: the index at which each sentence begins.
        lines: the line that each sentence begins on.
        tokens: the characters, token by token.
        n_no_trees: how many sentences have heads that form no tree, for want of one root too.
    """

    forms: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    is_part: list[bool] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    arcs: list[set[int]] = field(default_factory=list)
    graphs: list[set[int]] = field(default_factory=list)
    has_enhanced: bool = False
    sentences: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    n_no_trees: int = 0

    def __len__(self) -> int:
        return len(self.forms)

    def add(
        self,
        line: int,
        words: Sequence[str],
        heads: Sequence[int],
        arcs: Graph,
        enhanced: Graph | None = None,
        ranges: Iterable[tuple[int, int, str]] = (),
        relations: Sequence[str] = (),
    ) -> None:
        """Add a sentence of words as leaves of trees, numbered from 1; a head of -1 is none."""
        first, at = len(self), self.ends[-1] if self.ends else 0
        self.sentences.append(first)
        self.lines.append(line)
        token_of = {k: (begin, form) for begin, past, form in ranges for k in range(begin, past + 1)}
        for k, word in enumerate(words, 1):
            begin, form = token_of.get(k, (k, word))
            if k == begin:
                self.tokens.append(_letters(form))
            self.forms.append(_letters(word).lower())
            self.starts.append(at if k == begin else self.starts[-1])
            at = self.starts[-1] + len(self.tokens[-1])
            self.ends.append(at)
            self.is_part.append(k in token_of)
        place = [ROOT, *range(first, len(self)), NOWHERE]
        self.heads += [place[head] for head in heads]
        self.relations += [each.partition(":")[0] for each in relations] or ["_"] * len(words)
        self.has_enhanced |= enhanced is not None
        for graph, found in ((arcs, self.arcs), (arcs if enhanced is None else enhanced, self.graphs)):
            found += [set() for _ in words]
            for head, dependent in graph.arcs:
                found[first + dependent - 1].add(place[head])

    def without_tokens(self) -> Words:
        """These sentences with each word as a token of its own, in lower case."""
        ends = list(accumulate(map(len, self.forms)))
        starts = [end - len(form) for end, form in zip(ends, self.forms, strict=True)]
        return replace(self, starts=starts, ends=ends, is_part=[False] * len(self), tokens=self.forms)


def _letters(word: str) -> str:
    return "".join(c for c in unescape(word) if unicodedata.category(c) != "Zs")


def read_words(file: str | Path, form: str, *, is_gold: bool) -> Words:
    """The words of a file.

    Args:
        file: the path.
        form: ``conllu`` or ``sdp``.
        is_gold: heads of CoNLL-U have to form trees, perhaps several in a sentence. Otherwise they need not,
            and may be missing (``_``).

    Raises:
        InputError: at the first bad sentence.
    """
    found = Words()
    for block in FORMS[form].blocks(str(file)):
        if block.fault is not None:
            raise InputError(block.fault, file=file, line=block.fault_line or block.line)
        try:
            if form == "conllu":
                _add_conllu(found, block, is_gold)
            else:
                for read in FORMS[form].read(block, ReadOptions(), Counts()):
                    assert isinstance(read, ReadTree)
                    assert read.graph is not None
                    words = read.tree.words
                    found.add(block.line, words, [-1] * len(words), read.graph)
        except InputError as error:
            raise InputError(error.reason, file=file, line=block.line + (error.line or 1) - 1) from None
    return found


def _add_conllu(found: Words, block: TreeText, is_gold: bool) -> None:
    sentence = read_sentence(block, heads_needed=is_gold)
    if n := len(sentence.words):
        if is_gold:
            bottom_up([head - 1 for head in sentence.heads])  # refuses what is no tree, self-loops too
        arcs = [(head, k) for k, head in enumerate(sentence.heads, 1) if head >= 0]
        tree = graph_of(n, arcs, Counts())
        found.n_no_trees += tree.problem is not None
        enhanced = graph_of(n, sentence.enhanced, Counts()) if sentence.enhanced else None
        relations = sentence.relations
        found.add(block.line, sentence.words, sentence.heads, tree, enhanced, sentence.ranges, relations)


def align(gold: Words, predicted: Words) -> list[int]:
    """The place of the gold word that each predicted word is aligned with, or ``NOWHERE``."""
    found = [NOWHERE] * len(predicted)
    g = p = 0
    while g < len(gold) and p < len(predicted):
        if gold.is_part[g] or predicted.is_part[p]:
            (g, p), past = _stretch(gold, predicted, g, p)
            _align_forms(gold.forms[g : past[0]], predicted.forms[p : past[1]], g, p, found)
            g, p = past
        elif (gold.starts[g], gold.ends[g]) == (predicted.starts[p], predicted.ends[p]):
            found[p] = g
            g, p = g + 1, p + 1
        elif gold.starts[g] <= predicted.starts[p]:
            g += 1
        else:
            p += 1
    return found


def _stretch(gold: Words, predicted: Words, g: int, p: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Bounds of the shortest stretch around words g and p that cuts no multi-word token."""
    if gold.is_part[g]:
        end = gold.ends[g]
        p += not predicted.is_part[p] and predicted.starts[p] < gold.starts[g]
    else:
        end = predicted.ends[p]
        g += gold.starts[g] < predicted.starts[p]
    first = g, p

    def is_over(words: Words, k: int) -> bool:
        return k >= len(words) or (words.starts[k] >= end if words.is_part[k] else words.ends[k] > end)

    while not (is_over(gold, g) and is_over(predicted, p)):
        is_gold = g < len(gold) and (p >= len(predicted) or gold.starts[g] <= predicted.starts[p])
        words, k = (gold, g) if is_gold else (predicted, p)
        if words.is_part[k]:
            end = max(end, words.ends[k])
        g, p = g + is_gold, p + (not is_gold)
    return first, (g, p)


def _align_forms(a: Sequence[str], b: Sequence[str], first_a: int, first_b: int, found: list[int]) -> None:
    """Align a longest common subsequence; of several the one whose words come first in ``b``."""
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]  # from each pair of places on
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            longer = max(longest[i + 1][j], longest[i][j + 1])
            longest[i][j] = max(longer, 1 + longest[i + 1][j + 1]) if a[i] == b[j] else longer
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            found[first_b + j] = first_a + i
            i, j = i + 1, j + 1
        elif longest[i][j] == longest[i + 1][j]:
            i += 1
        else:
            j += 1


_SUMS = (
    *("words", "predicted_words", "aligned", "correct_heads", "correct_relations"),
    *("arcs", "predicted_arcs", "correct_arcs"),
    *("enhanced_arcs", "correct_enhanced_arcs"),
)


def compare_words(gold: Words, predicted: Words) -> list[dict[str, int]]:
    """Compare each gold sentence with the predicted words that begin in it.

    Columns:
        sentence: its number, from 1.
        line: the line that it begins on.
        words, predicted_words, aligned: their numbers.
        correct_heads, correct_relations: aligned words with the right head; and the right relation to it.
        arcs: arcs of the gold tree (``.sdp``: graph).
        predicted_arcs: arcs of the predicted graph: the enhanced one (DEPS), or the tree where there is none.
        correct_arcs: arcs in common.
        enhanced_arcs, correct_enhanced_arcs: the same for the enhanced gold graph, if there is one.
    """
    gold_of = [*align(gold, predicted), NOWHERE, ROOT]  # [-1] and [-2]: where the root and no head are
    sums = [dict.fromkeys(_SUMS, 0) for _ in gold.sentences]
    for g, (heads, graph) in enumerate(zip(gold.arcs, gold.graphs, strict=True)):
        own = sums[bisect_right(gold.sentences, g) - 1]
        own["words"] += 1
        own["arcs"] += len(heads)
        own["enhanced_arcs"] += len(graph) * gold.has_enhanced
    begins = [gold.starts[first] for first in gold.sentences]
    for p, heads in enumerate(predicted.graphs):
        own = sums[bisect_right(begins, predicted.starts[p]) - 1]
        own["predicted_words"] += 1
        own["predicted_arcs"] += len(heads)
        g = gold_of[p]
        if g == NOWHERE:
            continue
        own["aligned"] += 1
        is_right = gold.heads[g] == gold_of[predicted.heads[p]] != NOWHERE
        own["correct_heads"] += is_right
        own["correct_relations"] += is_right and gold.relations[g] == predicted.relations[p]
        aligned = {gold_of[head] for head in heads}
        own["correct_arcs"] += len(gold.arcs[g] & aligned)
        own["correct_enhanced_arcs"] += len(gold.graphs[g] & aligned) * gold.has_enhanced
    return [
        {"sentence": k, "line": line, **own}
        for k, (line, own) in enumerate(zip(gold.lines, sums, strict=True), 1)
    ]


def evaluate_dependencies(
    gold: str | Path, predicted: str | Path, form: str, *, progress: Progress = no_progress
) -> Results:
    """Score a file of predicted dependencies against a gold one.

    Args:
        gold, predicted: CoNLL-U or ``.sdp``, with the same characters but for blanks, or words of the same.
        form: ``conllu`` or ``sdp``.
        progress: shows how many sentences are done.

    Returns:
        Scores in percent, and an ``items`` table with a row for each gold sentence.

    Raises:
        InputError: as :func:`read_words`; if there are no words, or the characters differ.
    """
    import pyarrow as pa

    schema = pa.schema([(name, pa.int32()) for name in ("sentence", "line", *_SUMS)])
    one, other = read_words(gold, form, is_gold=True), read_words(predicted, form, is_gold=False)
    for words, file in ((one, gold), (other, predicted)):
        if not len(words):
            raise InputError("no words in it", file=file)
    aligned_by = "characters"
    if "".join(one.tokens) != "".join(other.tokens):
        aligned_by = "words"
        if "".join(one.forms) != "".join(other.forms):
            raise _other_words(one, other, gold, predicted)
        one, other = one.without_tokens(), other.without_tokens()
    rows = list(progress(iter(compare_words(one, other)), None))
    counts = {name: sum(row[name] for row in rows) for name in _SUMS}
    scores: dict[str, float | None] = {}
    for name, what, among, predictions in (
        ("uas", "heads", "words", "predicted_words"),
        ("las", "relations", "words", "predicted_words"),
        ("arc", "arcs", "arcs", "predicted_arcs"),
        ("enhanced_arc", "enhanced_arcs", "enhanced_arcs", "predicted_arcs"),
    ):
        precision = percent(counts[f"correct_{what}"], counts[predictions])
        recall = percent(counts[f"correct_{what}"], counts[among])
        is_there = counts[among] > 0 and (what not in ("heads", "relations") or form == "conllu")
        if what == "relations":
            # decode writes these two, for want of relations.
            is_there &= all({*words.relations} - {"_", "dep", "root"} for words in (one, other))
        own = {"precision": precision, "recall": recall, "f1": harmonic_mean(precision, recall) or 0.0}
        scores |= {f"{name}_{kind}": value if is_there else None for kind, value in own.items()}
    counts |= {"sentences": len(rows), "no_trees": other.n_no_trees, "several_roots": one.n_no_trees}
    return Results(
        scores=scores,
        counts=counts,
        settings={"task": "dependencies", "unit": "percent", "form": form, "aligned_by": aligned_by},
        tables={ITEMS: pa.Table.from_pylist(rows, schema)},
    )


def _other_words(one: Words, other: Words, gold: str | Path, predicted: str | Path) -> InputError:
    a, b = "".join(one.tokens), "".join(other.tokens)
    at = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    line = other.lines[bisect_right([other.starts[first] for first in other.sentences], at) - 1]
    found, wanted = b[at : at + 20] or "nothing", a[at : at + 20] or "nothing"
    return InputError(
        f"the words are others than in {gold}: from {found!r} on in this sentence, where that has {wanted!r}",
        file=predicted,
        line=line,
        hint="both need the same text; words and sentences may be split differently",
    )
