"""Reading treebanks of other forms than Penn's: words a second on one core, form by form.

    OMP_NUM_THREADS=1 python benchmarks/forms.py [--words N]

Each line is a figure: its name, value, unit, its ratio to 100,000 words a second, the lowest ratio that is
accepted (``bar``), and the settings.
The bundled treebank is written in each form, so often that it has N words, and read again, a tree at a time,
as ``pdtools parse`` does; times are medians in processor time, which other work changes little.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from measure import machine

from pdtools import data
from pdtools.files import Rejects
from pdtools.trees import Tree, normalize, read_trees
from pdtools.trees.forms import read_treebank

BAR = 100_000


def main() -> None:
    """Measure, and print a line per figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--words", type=int, default=100_000, help="in each file")
    parser.add_argument("--repeats", type=int, default=3, help="rounds; medians are printed")
    parser.add_argument("--device", default="cpu", help="cpu: there is nothing to do for a GPU")
    options = parser.parse_args()
    source = read_trees([str(data.treebank("train"))], Rejects())
    trees = [tree for sourced in source if (tree := normalize(sourced.tree)) is not None]
    n_words = sum(map(len, trees))
    trees *= -(-options.words // n_words)
    settings = {"trees": len(trees), "repeats": options.repeats, "machine": machine("cpu")}
    with tempfile.TemporaryDirectory() as folder:
        for name, write in WRITERS.items():
            file = Path(folder, name)
            file.write_text(write(trees), encoding="utf-8")
            taken, found = [], 0
            for _ in range(options.repeats):
                gc.collect()
                start = time.process_time()
                found = read(name, str(file))
                taken.append(time.process_time() - start)
            if found != sum(map(len, trees)):
                raise SystemExit(f"{name}: {found} words were read")
            figure = {
                "name": f"read: {name}",
                "value": float(f"{found / statistics.median(taken):.4g}"),
                "unit": "words/s",
                "ratio": float(f"{found / statistics.median(taken) / BAR:.4g}"),
                "against": f"{BAR:,} words/s",
                "bar": 1,
                "at_least": True,
                "settings": settings,
            }
            print(json.dumps(figure), flush=True)


def read(name: str, file: str) -> int:
    """Count the words of a file."""
    if name == "treebank":
        return sum(len(sourced.tree) for sourced in read_trees([file], Rejects()))
    return sum(len(found.tree) for found in read_treebank([file], name, Rejects()))


# --- the forms ----------------------------------------------------------------------------------


def penn(trees: Iterable[Tree]) -> str:
    """Trees as Penn brackets."""
    return "".join(f"( {tree})\n" for tree in trees)


def historical(trees: Iterable[Tree]) -> str:
    """Trees with ids and lemmas."""
    lemmas = (tree_with(tree, [f"{word}-{word.lower()}" for word in tree.words]) for tree in trees)
    return "".join(f"( {tree} (ID text,.{i}))\n\n" for i, tree in enumerate(lemmas))


def loose(trees: Iterable[Tree]) -> str:
    """Trees with ids, and words in brackets."""
    return (
        "".join(
            f"{i}\t{penn([tree_with(tree, [f'<{word}>' for word in tree.words])])}"
            for i, tree in enumerate(trees)
        )
        .replace("<", "(")
        .replace(">", ")")
    )


def tree_with(tree: Tree, words: Iterable[str]) -> Tree:
    """The same tree over other words."""
    return Tree(tuple(words), tree.tags, tree.labels, tree.starts, tree.ends)


def numbered(trees: Iterable[Tree]) -> str:
    """Trees with numbered leaves."""
    return penn(tree_with(tree, [f"{k}={word}" for k, word in enumerate(tree.words)]) for tree in trees)


def parents(tree: Tree) -> tuple[list[int], list[int]]:
    """The parent of each word and of each constituent, -1 above all."""
    ends, path = tree.ends.tolist(), []
    of_words, of_nodes = [], []
    upcoming = 0
    for k in range(len(tree)):
        while path and ends[path[-1]] <= k:
            path.pop()
        while upcoming < len(ends) and tree.starts[upcoming] == k:
            of_nodes.append(path[-1] if path else -1)
            path.append(upcoming)
            upcoming += 1
        of_words.append(path[-1] if path else -1)
    return of_words, of_nodes


def export(trees: Iterable[Tree]) -> str:
    """Trees as NEGRA export 4."""
    lines = []
    for i, tree in enumerate(trees):
        of_words, of_nodes = parents(tree)
        lines.append(f"#BOS {i}")
        for word, tag, parent in zip(tree.words, tree.tags, of_words, strict=True):
            lines.append(f"{word}\t--\t{tag}\t--\t--\t{500 + parent if parent >= 0 else 0}")
        for k, (label, parent) in enumerate(zip(tree.labels, of_nodes, strict=True)):
            lines.append(f"#{500 + k}\t--\t{label}\t--\t--\t{500 + parent if parent >= 0 else 0}")
        lines.append(f"#EOS {i}")
    return "\n".join(["#FORMAT 4", *lines, ""])


def tiger(trees: Iterable[Tree]) -> str:
    """Trees as TIGER XML, with quotes, ampersands and angles of words replaced."""
    parts = ["<corpus><body>\n"]
    for tree in trees:
        of_words, of_nodes = parents(tree)
        parts.append("<s><graph><terminals>\n")
        for k, (word, tag) in enumerate(zip(tree.words, tree.tags, strict=True)):
            word, tag = (text.translate({34: "'", 38: "+", 60: "["}) for text in (word, tag))
            parts.append(f'<t id="t{k}" word="{word}" pos="{tag}"/>\n')
        parts.append("</terminals><nonterminals>\n")
        for node, label in enumerate(tree.labels):
            parts.append(f'<nt id="n{node}" cat="{label}">\n')
            parts += [f'<edge label="--" idref="t{k}"/>\n' for k, p in enumerate(of_words) if p == node]
            parts += [f'<edge label="--" idref="n{k}"/>\n' for k, p in enumerate(of_nodes) if p == node]
            parts.append("</nt>\n")
        parts.append("</nonterminals></graph></s>\n")
    return "".join([*parts, "</body></corpus>\n"])


def heads(tree: Tree) -> list[int]:
    """The head of each word from 1, 0 the root: its constituent's first word, or the first one above."""
    of_words, of_nodes = parents(tree)
    found = []
    for k, node in enumerate(of_words):
        while node >= 0 and tree.starts[node] == k:
            node = of_nodes[node]
        found.append(int(tree.starts[node]) + 1 if node >= 0 else 1 if k else 0)
    return found


def conllu(trees: Iterable[Tree]) -> str:
    """Trees as CoNLL-U, with the dependencies of :func:`heads`."""
    lines = []
    for tree in trees:
        lines.append(f"# text = {' '.join(tree.words)}")
        for k, (word, tag, head) in enumerate(zip(tree.words, tree.tags, heads(tree), strict=True), start=1):
            lines.append(f"{k}\t{word}\t{word}\t{tag}\t{tag}\t_\t{head}\tdep\t_\t_")
        lines.append("")
    return "\n".join([*lines, ""])


def sdp(trees: Iterable[Tree]) -> str:
    """Trees as graphs of the form of 2014, with the dependencies of :func:`heads`."""
    lines = []
    for i, tree in enumerate(trees):
        of = heads(tree)
        predicates = sorted({*of} - {0})
        lines.append(f"#{20000000 + i}")
        for k, (word, tag, head) in enumerate(zip(tree.words, tree.tags, of, strict=True), start=1):
            signs = ("+" if is_so else "-" for is_so in (head == 0, k in predicates))
            arguments = ("ARG" if predicate == head else "_" for predicate in predicates)
            lines.append("\t".join([str(k), word, word, tag, *signs, *arguments]))
        lines.append("")
    return "\n".join([*lines, ""])


WRITERS: dict[str, Callable[[Iterable[Tree]], str]] = {
    "treebank": penn,
    "penn-historical": historical,
    "penn-loose": loose,
    "export": export,
    "tiger-xml": tiger,
    "discbracket": numbered,
    "conllu": conllu,
    "sdp": sdp,
}


if __name__ == "__main__":
    main()
