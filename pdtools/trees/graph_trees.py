"""Trees in dependency graphs: constituents and CoNLL-U of any graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pdtools.trees.forms.dependencies import constituents
from pdtools.trees.graphs import Graph
from pdtools.trees.tree import UNKNOWN_LABEL, UNKNOWN_TAG, Tree, unescape


def heads_in(graph: Graph) -> list[int]:
    """A tree in a graph: the head of each word, 0 of the one root; of a tree its own.

    Words are reached from the root breadth first, smaller numbers first. A word that is not reached, or is
    another one under the root, depends on the first word under the root.
    """
    below: list[list[int]] = [[] for _ in range(graph.n_words + 1)]
    for head, dependent in graph.arcs:
        below[head].append(dependent)
    heads = [-1] * graph.n_words
    top, order = 0, [0]
    for node in order:  # which grows
        for dependent in sorted(below[node]):
            if heads[dependent - 1] < 0:
                heads[dependent - 1] = node or top
                top = top or dependent
                order.append(dependent)
        if node == order[-1] and -1 in heads:
            below[0] = [heads.index(-1) + 1]
            order.append(0)
    return heads


def graph_tree(graph: Graph, words: Sequence[str]) -> Tree:
    """The constituents of a graph, by :func:`heads_in`: a head spans its descendants, flat.

    Labels and tags are those of models without labels. Crossing arcs are lifted. If the words are not the
    graph's (in running text, without spaces between some), all depend on the first.
    """
    heads = heads_in(graph if graph.n_words == len(words) else Graph.of(len(words), [], []))
    tree, _ = constituents(words, ["_"] * len(words), [head - 1 for head in heads])
    labels = (UNKNOWN_LABEL,) * len(tree.labels)
    return replace(tree, tags=(UNKNOWN_TAG,) * len(words), labels=labels)


def conllu(graph: Graph, words: Sequence[str]) -> str:
    """A sentence in CoNLL-U, with the blank line after it: heads by :func:`heads_in`, all arcs in DEPS.

    Args:
        words: as leaves of trees; brackets in them are unescaped.
    """
    of_word: list[list[int]] = [[] for _ in words]
    for head, dependent in sorted(graph.arcs):
        of_word[dependent - 1].append(head)
    lines = [f"# text = {' '.join(map(unescape, words))}"]
    for number, (word, head, heads) in enumerate(zip(words, heads_in(graph), of_word, strict=True), start=1):
        relation = "dep" if head else "root"
        deps = "|".join(f"{each}:{'dep' if each else 'root'}" for each in heads) or "_"
        fields = [number, unescape(word), "_", "_", "_", "_", head, relation, deps, "_"]
        lines.append("\t".join(map(str, fields)))
    return "\n".join(lines) + "\n\n"
