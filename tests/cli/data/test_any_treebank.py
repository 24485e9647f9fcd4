"""Random treebanks in other forms, all options crossed, against plain models of what the options say."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pdtools.cli.main import run
from pdtools.trees import Tree

# --- dependencies -------------------------------------------------------------------------------

TAGS = ["NOUN", "VERB", "_", "DET"]


@dataclass
class Sentence:
    """A sentence of CoNLL-U; words are numbers from 1, the root is 0, and -1 is no head."""

    words: list[str]
    tags: list[str]
    heads: list[int]
    deps: list[list[str]]
    ranges: list[tuple[int, int]]
    glued: set[int]  # the last words of lines that say so
    empty: set[int]  # words before which an empty node stands
    text: str | None = None

    @property
    def forms(self) -> dict[tuple[int, int], str]:
        return {(a, b): "".join(self.words[a - 1 : b]).lower() + "'" for a, b in self.ranges}


def random_sentence(rng: random.Random, *, headless: bool) -> Sentence:
    n = rng.randint(1, 7)
    words = [rng.choice(["Der", "hund", "(", "1 2", "x", "ü"]) for _ in range(n)]
    heads = [0] * n
    order = rng.sample(range(1, n + 1), n)
    for k, word in enumerate(order):  # a tree, or several
        heads[word - 1] = 0 if k == 0 or rng.random() < 0.12 else rng.choice(order[:k])
    if headless:
        heads = [-1 if rng.random() < 0.2 else head for head in heads]
    deps: list[list[str]] = [[] for _ in range(n)]
    for word in range(1, n + 1):
        chosen = rng.sample([str(k) for k in range(n + 1)], rng.randint(0, 2))
        deps[word - 1] = chosen + (["1.1"] if rng.random() < 0.2 else [])
    if not any(deps):
        deps[0] = ["0"]
    ranges, at = [], 1
    while at < n:
        if rng.random() < 0.3:
            last = rng.randint(at + 1, min(n, at + 2))
            ranges.append((at, last))
            at = last
        at += 1
    glued = {k for k in range(1, n + 1) if rng.random() < 0.25}
    empty = {k for k in range(1, n + 1) if rng.random() < 0.15}
    found = Sentence(words, [rng.choice(TAGS) for _ in words], heads, deps, ranges, glued, empty)
    kind = rng.choice(["none", "own", "other"])
    if kind == "own":  # the words as they stand, or the surface
        found.text = spelled(merged(found, surface=rng.random() < 0.5))
    elif kind == "other":
        found.text = "something else"
    return found


@dataclass
class Merged:
    """The words that trees have: syntactic ones, or those of the surface."""

    words: list[str]
    tags: list[str]
    parents: list[int]  # from 1; 0 of a root
    arcs: set[tuple[int, int]]  # enhanced ones
    loops: int
    glued: set[int]


def depth(heads: list[int], word: int) -> int:
    return 0 if heads[word - 1] <= 0 else 1 + depth(heads, heads[word - 1])


def merged(of: Sentence, *, surface: bool) -> Merged:
    groups: list[tuple[list[int], str]] = []
    inside = {k: pair for pair in of.ranges for k in range(pair[0], pair[1] + 1)} if surface else {}
    for k, word in enumerate(of.words, 1):
        if k not in inside:
            groups.append(([k], word))
        elif k == inside[k][0]:
            groups.append(([*range(k, inside[k][1] + 1)], of.forms[inside[k]]))
    place = {k: i for i, (members, _) in enumerate(groups, 1) for k in members} | {0: 0, -1: 0}
    tops = [min(members, key=lambda k: (depth(of.heads, k), k)) for members, _ in groups]
    arcs, loops = set(), 0
    for word, deps in enumerate(of.deps, 1):
        for head in deps:
            if "." in head:
                continue
            pair = place[int(head)], place[word]
            if int(head) == word:
                loops += 1
            elif pair[0] != pair[1]:
                arcs.add(pair)
    first_or_last = {b for _, b in of.ranges} if surface else set()
    within = {k for a, b in of.ranges for k in range(a, b)} if surface else set()
    glued = {place[k] for k in of.glued if k not in within or k in first_or_last}
    if surface:
        glued |= {place[b] for a, b in of.ranges if b in of.glued}
    return Merged(
        words=[form for _, form in groups],
        tags=[of.tags[k - 1] for k in tops],
        parents=[place[of.heads[k - 1]] for k in tops],
        arcs=arcs,
        loops=loops,
        glued=glued,
    )


def spelled(of: Merged) -> str:
    return "".join(w + ("" if k in of.glued else " ") for k, w in enumerate(of.words, 1)).strip()


def below(parents: list[int], head: int) -> set[int]:
    """A word and all that hang on it."""
    found = {head}
    while more := {k for k, p in enumerate(parents, 1) if p in found and p} - found:
        found |= more
    return found


def lifted(parents: list[int]) -> tuple[list[int], int]:
    """Arcs lifted one by one, the shortest that crosses first, of these the leftmost dependent's."""
    parents, n = list(parents), 0
    while True:
        crossing = [
            (abs(k - p), k)
            for k, p in enumerate(parents, 1)
            if p and set(range(min(k, p) + 1, max(k, p))) - below(parents, p)
        ]
        if not crossing:
            return parents, n
        _, k = min(crossing)
        parents[k - 1], n = parents[parents[k - 1] - 1], n + 1


def brackets(of: Merged, parents: list[int], *, binarize: str) -> str:
    """The tree in which each word with dependents spans all that hang on it."""
    words = [word.replace("(", "-LRB-").replace(" ", "\u00a0") for word in of.words]
    tags = ["X" if tag == "_" else tag for tag in of.tags]

    def node(head: int) -> tuple[str, str, int]:
        """Label, brackets and first word of what a word heads."""
        leaf = f"({tags[head - 1]} {words[head - 1]})"
        children = [(tags[head - 1], leaf, head)]
        children += [node(k) for k, p in enumerate(parents, 1) if p == head]
        if len(children) == 1:
            return children[0]
        label = tags[head - 1] + "P"
        children.sort(key=lambda child: child[2])
        at = next(i for i, child in enumerate(children) if child[2] == head and child[1] == leaf)
        return label, joined(label, children, at), children[0][2]

    def joined(label: str, children: list[tuple[str, str, int]], head: int) -> str:
        if binarize == "head":
            left, right = children[:head], children[head + 1 :]
            order = [(child, True) for child in right] + [(child, False) for child in reversed(left)]
            names, text = [children[head][0]], children[head][1]
            for i, (child, is_right) in enumerate(order):
                names = [*names, child[0]] if is_right else [child[0], *names]
                inner = f"{text} {child[1]}" if is_right else f"{child[1]} {text}"
                last = i == len(order) - 1
                text = f"({label if last else f'{label}|<' + '-'.join(names) + '>'} {inner})"
            return text
        return f"({label} {' '.join(child[1] for child in children)})"

    roots = [node(k) for k, p in enumerate(parents, 1) if p == 0]
    roots.sort(key=lambda child: child[2])
    return roots[0][1] if len(roots) == 1 else joined("ROOT", roots, 0)


def conllu(sentences: list[Sentence], rng: random.Random) -> str:
    """The file, its columns in their usual order, or in another that its first line says."""
    usual = ["ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"]
    columns = list(usual)
    lines = []
    if rng.random() < 0.5:
        rng.shuffle(columns)
        columns.insert(rng.randrange(5), "PARSEME:MWE")
        lines.append("# global.columns = " + " ".join(columns))

    def row(**cells: str) -> str:
        return "\t".join(cells.get(name, "_") for name in columns)

    for of in sentences:
        lines += [f"# text = {of.text}"] if of.text else []
        starts = {a: (a, b) for a, b in of.ranges}
        for k, word in enumerate(of.words, 1):
            space = {"MISC": "x=y|SpaceAfter=No"} if k in of.glued else {}
            if k in of.empty:
                lines.append(row(ID=f"{k - 1}.1", FORM="e"))
            if k in starts:
                _, last = starts[k]
                own = {"MISC": "SpaceAfter=No"} if last in of.glued else {}
                lines.append(row(ID=f"{k}-{last}", FORM=of.forms[starts[k]], **own))
            deps = "|".join(f"{head}:x" for head in of.deps[k - 1]) or "_"
            head = "_" if of.heads[k - 1] < 0 else str(of.heads[k - 1])
            lines.append(row(ID=str(k), FORM=word, UPOS=of.tags[k - 1], HEAD=head, DEPS=deps, **space))
        lines.append("")
    return "\n".join(lines) + "\n"


def has_cycle(arcs: set[tuple[int, int]]) -> bool:
    left = set(arcs)
    while ends := {a for a, _ in left} - {b for _, b in left}:
        left = {arc for arc in left if arc[0] not in ends}
    return bool(left)


def crosses(arcs: set[tuple[int, int]]) -> bool:
    pairs = [tuple(sorted(arc)) for arc in arcs]
    return any(a < c < b < d for a, b in pairs for c, d in pairs)


@pytest.mark.parametrize("seed", range(32))
def test_any_dependencies(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(seed)
    enhanced, surface, binarize = seed % 2 == 1, seed % 4 > 1, "head" if seed % 8 > 3 else "none"
    sentences = [random_sentence(rng, headless=enhanced) for _ in range(8)]
    (tmp_path / "a.conllu").write_text(conllu(sentences, rng))
    form = "conllu-enhanced" if enhanced else "conllu"
    options = ["--from", form, "--binarize", binarize, *(["--surface"] if surface else [])]
    output = tmp_path / "out.trees"
    assert run(["parse", str(tmp_path / "a.conllu"), *options, "-o", str(output)]) == 0
    trees, arcs, texts = [], [], []
    counts: Counter[str] = Counter()
    for of in sentences:
        found = merged(of, surface=surface)
        parents, n = lifted(found.parents)
        trees.append(brackets(found, parents, binarize=binarize))
        graph = found.arcs if enhanced else {(p, k) for k, p in enumerate(found.parents, 1)}
        candidates = sorted(graph, key=lambda arc: (max(arc), arc[0] > arc[1], min(arc)))
        arcs.append(" ".join(f"{a}-{b}" for a, b in candidates))
        squeezed = "".join(found.words).replace(" ", "")
        own = of.text is not None and of.text.replace(" ", "") == squeezed
        own = own and is_spelled_by(of.text or "", found.words)
        texts.append(of.text if own else spelled(found))
        counts["sentences without text"] += of.text is None
        counts["sentences whose text has other words"] += of.text is not None and not own
        counts["empty nodes left out"] += len(of.empty)
        counts["words of several syntactic words"] += len(of.ranges)
        counts["sentences with several roots"] += of.heads.count(0) > 1
        counts["words without a head"] += of.heads.count(-1)
        counts["arcs lifted"] += n
        counts["sentences with lifted arcs"] += n > 0
        if enhanced:
            counts["enhanced arcs from empty nodes left out"] += sum(d.count("1.1") for d in of.deps)
            counts["self-loops left out"] += found.loops
            counts["graphs with several roots"] += sum(a == 0 for a, _ in graph) > 1
            counts["graphs with cycles"] += has_cycle(graph)
            counts["graphs with crossing arcs"] += crosses(graph)
    assert output.read_text().splitlines() == trees
    assert (tmp_path / "out.trees.arcs").read_text().splitlines() == arcs
    assert (tmp_path / "out.trees.text").read_text().splitlines() == texts
    said = dict(line.rsplit(": ", 1) for line in capsys.readouterr().err.splitlines() if ": " in line)
    assert said == {name: f"{n:,}" for name, n in counts.items() if n}


def is_spelled_by(text: str, words: list[str]) -> bool:
    """Whether the words are the text's, with nothing but blanks between them."""
    for word in words:
        text = text.lstrip(" ")
        if not text.startswith(word):
            return False
        text = text[len(word) :]
    return not text


# --- constituents with gaps ---------------------------------------------------------------------


@dataclass
class Part:
    """A constituent, or a word (``word`` is then its place)."""

    label: str
    edge: str
    word: int = -1
    children: list[Part] = field(default_factory=list)

    @property
    def words(self) -> set[int]:
        if self.word >= 0:
            return {self.word}
        return set().union(*(child.words for child in self.children))

    @property
    def nodes(self) -> list[Part]:
        """Constituents, those below before those above."""
        if self.word >= 0:
            return []
        return [node for child in self.children for node in child.nodes] + [self]


MARKS = {",": "$,", ".": "$.", "(": "$(", "--": "PUNCT"}


def random_tree(rng: random.Random) -> tuple[Part, list[str]]:
    """A tree over words in any order, and loose words on its root, some of them punctuation."""
    n = rng.randint(1, 8)
    words = [rng.choice(["der", "Hund", "5", "ü", *MARKS]) for _ in range(n)]
    edges = ["HD", "hd", "NK", "NK", "--", "--", "--"]
    parts = [Part(MARKS.get(word, "W"), rng.choice(edges), k) for k, word in enumerate(words)]
    rng.shuffle(parts)
    loose = [part for part in parts if rng.random() < (0.5 if words[part.word] in MARKS else 0.1)]
    parts = [part for part in parts if part not in loose]
    number = 0
    while len(parts) > 1 or (parts and rng.random() < 0.4 and number < 9):
        size = min(len(parts), rng.randint(1, 3))
        taken, parts = parts[:size], parts[size:]
        number += 1
        parts.insert(rng.randint(0, len(parts)), Part(f"N{number}", rng.choice(edges), -1, taken))
    top = parts + loose
    rng.shuffle(top)
    return Part("VROOT", "", -1, top), words


def written(kind: str, trees: list[tuple[Part, list[str]]], rng: random.Random) -> str:
    lines: list[str] = []
    if kind == "discbracket":
        for root, words in trees:

            def show(part: Part, of: list[str] = words) -> str:
                if part.word >= 0:
                    tag, word = part.label.replace("(", "*LRB*"), of[part.word].replace("(", "#LRB#")
                    return f"({tag} {part.word}={word})"
                return f"({part.label} {' '.join(map(show, part.children))})"

            lines.append(show(root))
        return "\n".join(lines) + "\n"
    if kind == "tiger-xml":
        lines += ['<?xml version="1.0" encoding="UTF-8"?>', "<corpus><body>"]
        for number, (root, words) in enumerate(trees):
            lines.append(f'<s id="s{number}"><graph root="r"><terminals>')
            lines += [
                f'<t id="t{p.word}" word="{words[p.word]}" pos="{p.label}"/>'
                for p in sorted(leaves(root), key=lambda p: p.word)
            ]
            lines.append("</terminals><nonterminals>")
            nodes = root.nodes if rng.random() < 0.5 else root.nodes[:-1]  # perhaps without VROOT
            for node in rng.sample(nodes, len(nodes)):
                lines.append(f'<nt id="{node.label}" cat="{node.label}">')
                for child in rng.sample(node.children, len(node.children)):
                    name = child.label if child.word < 0 else f"t{child.word}"
                    lines.append(f'<edge label="{child.edge}" idref="{name}"/>')
                lines.append("<!-- <edge --></nt>")
            lines.append("</nonterminals></graph></s>")
        return "\n".join([*lines, "</body></corpus>"]) + "\n"
    for number, (root, words) in enumerate(trees):
        lemma = ["x"] if rng.random() < 0.5 else []
        lines += ["#FORMAT 4" if lemma else "#FORMAT 3", "%% a comment", f"#BOS {number} 1 1 1 %% more"]
        above = {id(child): node for node in root.nodes for child in node.children}
        names = {id(node): str(499 + i) for i, node in enumerate(root.nodes, 1)} | {id(root): "0"}
        apart = rng.choice(["\t", "  ", "\t\t"])
        nodes = root.nodes[:-1]
        for part in [
            *sorted(leaves(root), key=lambda p: p.word),
            *rng.sample(nodes, len(nodes)),
        ]:
            form = words[part.word] if part.word >= 0 else f"#{names[id(part)]}"
            cells = [form, *lemma, part.label, "--", part.edge, names[id(above[id(part)])]]
            if rng.random() < 0.2:
                cells += ["SB", "500"]  # a secondary edge
            lines.append(apart.join(cells) + (" %% R=1" if rng.random() < 0.2 else ""))
        lines.append(f"#EOS {number}")
    return "\n".join(lines) + "\n"


def leaves(root: Part) -> list[Part]:
    return [child for node in root.nodes for child in node.children if child.word >= 0]


def stretches(children: list[Part]) -> list[list[Part]]:
    """Children in their order, cut where words are missing between them."""
    found: list[list[Part]] = []
    for child in sorted(children, key=lambda part: min(part.words)):
        if found and min(child.words) == max(found[-1][-1].words) + 1:
            found[-1].append(child)
        else:
            found.append([child])
    return found


def without_gaps(root: Part, words: list[str], how: str, *, move: bool, heads: bool) -> int:
    """Change a tree as the options say; the number of constituents with gaps."""
    if move:
        marks = [
            child
            for child in root.children
            if child.word >= 0
            and (child.label.startswith("$") or not any(map(str.isalnum, words[child.word])))
        ]
        extents = [(node, node.words) for node in root.nodes[:-1]]
        for mark in marks:
            around = [(n, of) for n, of in extents if min(of) < mark.word < max(of)]
            if around:
                node = min(around, key=lambda each: (len(each[1]), min(each[1])))[0]
                root.children = [child for child in root.children if child is not mark]
                node.children.append(mark)
    nodes = root.nodes
    n = sum(len(node.words) <= max(node.words) - min(node.words) for node in nodes)
    if how == "skip":
        return n
    head_of: dict[int, Part] = {}
    for node in nodes if heads else []:
        ordered = sorted(node.children, key=lambda part: min(part.words))
        chosen = [part for part in ordered if part.edge in ("HD", "hd")][:1]
        chosen = chosen or [part for part in ordered if part.edge == "NK"][-1:]
        if chosen:
            head_of[id(node)] = chosen[0]
    above = {id(child): node for node in nodes for child in node.children}
    for node in nodes:
        several = stretches(node.children)
        if len(several) == 1:
            continue
        if how == "split":
            parent = above[id(node)]
            parts = [Part(node.label, node.edge, -1, each) for each in several]
            parent.children = [child for child in parent.children if child is not node] + parts
            continue
        kept = [each for each in several if any(part is head_of.get(id(node)) for part in each)]
        size = [max(each[-1].words) - min(each[0].words) for each in several]
        kept = kept or [several[size.index(max(size))]]
        node.children = kept[0]
        above[id(node)].children += [part for each in several if each is not kept[0] for part in each]
        for part in above[id(node)].children:
            above[id(part)] = above[id(node)]
    return n


def spans(root: Part) -> list[tuple[str, int, int]]:
    return sorted((node.label, min(node.words), max(node.words) + 1) for node in root.nodes[:-1])


@pytest.mark.parametrize("seed", range(36))
def test_any_constituents_with_gaps(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(seed)
    kind = ["export", "tiger-xml", "discbracket"][seed % 3]
    how = rng.choice(["raise", "split", "skip", "raise"])
    move = rng.random() < 0.6
    trees = [random_tree(rng) for _ in range(12)]
    (tmp_path / "a").write_text(written(kind, trees, rng))
    options = ["--from", kind, "--discontinuous", how, "--punctuation", "move" if move else "root"]
    shape = ["--binarize", "none", "--functions", "keep"]
    output = tmp_path / "out.trees"
    assert run(["parse", str(tmp_path / "a"), *options, *shape, "-o", str(output)]) == 0
    lines = output.read_text().splitlines()
    n_gaps = n_sentences = 0
    for root, words in trees:
        gaps = without_gaps(root, words, how, move=move, heads=kind != "discbracket")
        n_gaps, n_sentences = n_gaps + gaps, n_sentences + (gaps > 0)
        if gaps and how == "skip":
            continue
        tree = Tree.from_brackets(lines.pop(0))
        assert tree.words == tuple(word.replace("(", "-LRB-") for word in words)
        found: Any = zip(tree.labels, tree.starts.tolist(), tree.ends.tolist(), strict=True)
        assert sorted(each for each in found if each[0] != "VROOT") == spans(root)
        tags = [part.label.replace("(", "*LRB*") for part in sorted(leaves(root), key=lambda p: p.word)]
        assert tree.tags == tuple(tags)
    assert not lines
    said = dict(line.rsplit(": ", 1) for line in capsys.readouterr().err.splitlines() if ": " in line)
    done = {"raise": "raised", "split": "split"}.get(how, "")
    if done and n_gaps:
        assert said[f"constituents {done}"] == f"{n_gaps}"
        assert said[f"sentences with constituents {done}"] == f"{n_sentences}"


# --- brackets with what is no tree ---------------------------------------------------------------

EMPTIES = [
    ("NP-SBJ", "*pro*", "*pro*"),
    ("C", "0", "0"),
    ("NP-OB1", "*T*-1", "*T*"),
    ("WNP", "*ICH*", "*ICH*"),
]
FOREIGN = ["(CODE <P_12>)", "(METADATA (AUTHOR anon) (X (YEAR 1500)))", "(REF a)", "(CODE {x} {COM:a})"]
HistoricalWord = tuple[str, str, str]
"""As it stands, as it is without lemmas and glosses, and as it is with them."""


def historical_word(rng: random.Random, *, lemmas: bool) -> HistoricalWord:
    plain = rng.choice(["hund", "Mann", "ok", "x1", "þar"])
    kind = rng.choice(["plain"] * 4 + ["clitic", "gloss", "doubled", "hyphen", "named"])
    if lemmas:
        shown = f"to-{plain}" if kind == "hyphen" else plain
        marked = f"{shown}$-{plain}" if kind == "clitic" else f"{shown}-{plain}"
        return marked, shown, marked
    if kind == "clitic":
        return (f"${plain}", plain, plain) if rng.random() < 0.5 else (f"{plain}$", plain, plain)
    if kind == "gloss":
        whole = rng.choice([f"{plain}^the_gloss", f"{plain}@l=lem"])
        return whole, plain, whole
    if kind == "doubled":
        return ",-,", ",", ",-,"
    if kind == "hyphen":
        return f"to-{plain}", f"to-{plain}", f"to-{plain}"
    if kind == "named":
        return "<paren>", "-LRB-", "-LRB-"
    return plain, plain, plain


@pytest.mark.parametrize("seed", range(24))
def test_any_historical_brackets(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(seed)
    lemmas, keep = seed % 2 == 0, seed % 4 > 1
    counts: Counter[str] = Counter()
    wanted, blocks = [], []
    n_asterisks = 0

    def noise() -> list[str]:
        found = []
        while rng.random() < 0.25:
            kind = rng.choice(["empty", "foreign", "comment"])
            if kind == "empty":
                label, word, name = rng.choice(EMPTIES)
                counts[f"empty leaves left out: {name}"] += 1
                found.append(f"({label} {word})")
            elif kind == "foreign":
                one = rng.choice(FOREIGN)
                counts[f"metadata left out: {one[1:].split()[0]}"] += 1
                found.append(one)
            else:
                counts["metadata left out: {COM:}"] += 1
                found.append("{COM:a remark}")
        return found

    def random_node(depth: int) -> tuple[str, str]:
        """A constituent as it stands, and as it is read."""
        shown, read = [], []
        for _ in range(rng.randint(1, 3)):
            shown += noise()
            if depth and rng.random() < 0.5:
                one, other = random_node(depth - 1)
            else:
                tag = rng.choice(["N", "VBD", "P"])
                word, cut, whole = historical_word(rng, lemmas=lemmas)
                counts["lemmas and glosses cut off words"] += not keep and word.strip("$") != cut != "-LRB-"
                one, other = f"({tag} {word})", f"({tag} {whole if keep else cut})"
            shown.append(one)
            read.append(other)
        shown += noise()
        label = rng.choice(["IP-MAT", "NP-SBJ=1", "PP", "CP-THT"])
        apart = rng.choice([" ", "\n    "])
        return f"({label} {apart.join(shown)})", f"({label} {' '.join(read)})"

    for number in range(6):
        kind = rng.choice(["good"] * 6 + ["wordless", "good" if lemmas else "asterisks"])
        if kind == "wordless":
            blocks.append("( (CODE <heading>))")
            counts["metadata left out: CODE"] += 1
            counts["trees without words left out"] += 1
        elif kind == "asterisks":
            blocks.append("( (FRAG (P ***)))")
            counts["wrappers taken off"] += 1
            n_asterisks += 1
        else:
            text, read = random_node(3)
            wanted.append(read)
            identity = f" (ID A,.{number})" if rng.random() < 0.7 else ""
            counts["metadata left out: ID"] += bool(identity)
            wraps = bool(identity) or rng.random() < 0.5
            counts["wrappers taken off"] += wraps
            blocks.append(f"( {text}{identity})" if wraps else text)
    file = tmp_path / "a.psd"
    end = rng.choice(["\n", "\r\n"])
    file.write_bytes(("\n\n".join(blocks) + "\n").replace("\n", end).encode())
    if not wanted:
        return
    options = ["--from", "penn-historical", "--lemmas", "keep" if keep else "cut"]
    shape = ["--binarize", "none", "--functions", "keep"]
    capsys.readouterr()
    assert run(["parse", str(file), *options, *shape, "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_text().splitlines() == wanted
    said = dict(line.rsplit(": ", 1) for line in capsys.readouterr().err.splitlines() if ": " in line)
    assert said.pop(f"{n_asterisks} without a tree", None) == (
        "asterisks alone (***)" if n_asterisks else None
    )
    for name in ("empty leaves left out", "metadata left out"):
        parts = [part.split(" ", 1) for part in said.pop(name, "").split(", ") if part]
        said |= {f"{name}: {kind}": n for n, kind in parts}
    assert said == {name: f"{n:,}" for name, n in counts.items() if n}
