"""Descriptions of single shard rows that a person can check by eye."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.shards.reader import ShardSet
from pdtools.tokenization import EOS, ROOT
from pdtools.trees import (
    Tree,
    attachments,
    escape,
    merge_subwords,
    sentence_layout,
    tape,
    tree_from_attachments,
    tree_from_constituents,
    unescape,
)
from pdtools.trees.actions import (
    IN_ORDER_NEEDS_WORDS,
    ActionIds,
    ActionRows,
    ActionStack,
    InOrderIds,
    action_rows,
    in_order_actions,
)
from pdtools.trees.arc_standard import ArcIds, actions_of, arc_rows
from pdtools.trees.graphs import graph_features

ActionKind = Literal["plm", "plm-mask", "tg", "rnng", "rnng-in-order"]


def trees_of_row(shards: ShardSet, i: int) -> list[Tree]:
    """The binary trees over words that the attachments of row i describe, labelled ``X``.

    A window has one per sentence, a sentence one, a block none.
    """
    if shards.layout == "block":
        return []
    word, attach = shards.word(i), shards.attach(i)
    roots = np.flatnonzero(word < 0)  # and end-of-sentence, in the sentence layout
    stops = np.append(roots[1:], len(word)) if shards.layout == "window" else roots[1:]
    trees = []
    for root, stop, text in zip(roots, stops, shards.text(i).split("\n"), strict=False):
        own = attach[root + 1 : stop] - (root + 1)  # (n,)
        if shards.layout == "window":
            own[-1] = len(own) - 1  # EOS attached to ROOT: the remaining stack becomes right-branching
        of_token = word[root + 1 : stop] - word[root + 1]  # (n,)
        words = [escape(each) for each in text.split(" ")]
        over_tokens = tree_from_attachments(own, [words[number] for number in of_token])
        trees.append(merge_subwords(over_tokens, of_token, words))
    return trees


def tree_of_row(shards: ShardSet, i: int) -> Tree | None:
    """The tree of a sentence (:func:`trees_of_row`); None in other layouts."""
    return trees_of_row(shards, i)[0] if shards.layout == "sentence" else None


def _words(shards: ShardSet, i: int) -> list[str]:
    """The words of row i; in windows, the sentences' words concatenated."""
    return shards.text(i).replace("\n", " ").split(" ")


def constituents_of_row(shards: ShardSet, i: int) -> Tree | None:
    """The labelled constituents over the words of row i, ``?`` for unknown labels; None without any."""
    if not shards.has_constituents:
        return None
    found, word = shards.constituents(i), shards.word(i)[1:-1]
    n_words = int(word[-1]) + 1
    opens, closes = (np.bincount(word, some, n_words).astype(int) for some in (found.opens, found.closes))
    labels = [shards.labels[label] if label >= 0 else "?" for label in found.labels.tolist()]
    words = [escape(word) for word in shards.text(i).split(" ")]
    return tree_from_constituents(labels, opens, closes, words)


def describe_tree(tree: Tree) -> dict[str, Any]:
    """A tree, JSON-ready, as shards with one token per word have it: :func:`describe_row`, without numbers.

    Args:
        tree: a binary tree.
    """
    words = [unescape(word) for word in tree.words]
    attach = sentence_layout(attachments(tree))  # (n + 2,)
    names = [ROOT, *words, EOS]
    return {
        "text": " ".join(words),
        "tree": tree.to_brackets(),
        "tokens": [
            _position(k, token, word, target, depths)
            for k, (token, word, target, depths) in enumerate(
                zip(names, [None, *words, None], attach.tolist(), tape(attach), strict=True)
            )
        ],
    }


def describe_row(shards: ShardSet, i: int) -> dict[str, Any]:
    """Row i, JSON-ready.

    Returns:
        ``id``, ``text``, ``tree`` (brackets, or None), ``constituents`` (the same, labelled and not
        binarized; or None) and ``tokens``; for a window also ``document`` and its sentences' ``trees``; with
        dependencies ``arcs``, pairs of head and dependent. ``tokens`` has for each position of the row its
        ``position``, ``id``, ``token``, ``word`` (None for ROOT and EOS), ``attach``, ``shift`` (whether it
        only shifts) and ``tape`` (its row W_k, one depth per position up to its own).
    """
    words = _words(shards, i)
    tree = tree_of_row(shards, i)
    of_window = {}
    if shards.layout == "window":
        trees = [each.to_brackets() for each in trees_of_row(shards, i)]
        of_window = {"document": shards.document(i), "trees": trees}
    constituents = constituents_of_row(shards, i)
    depths = shards.tape(i)  # (n + 2, n + 2)
    columns = zip(shards.tokens(i).tolist(), shards.word(i).tolist(), shards.attach(i).tolist(), strict=True)
    return {
        "id": int(shards.ids[i]),
        "text": shards.text(i),
        "tree": None if tree is None else tree.to_brackets(),
        "constituents": None if constituents is None else constituents.to_brackets(),
        **({"arcs": shards.graph(i).arcs} if shards.has_arcs else {}),
        **of_window,
        "tokens": [
            {
                "id": token,
                **_position(
                    position,
                    shards.tokenizer.token_text(token),
                    None if word < 0 else words[word],
                    attach,
                    depths[position],
                ),
            }
            for position, (token, word, attach) in enumerate(columns)
        ],
    }


def _position(k: int, token: str, word: str | None, attach: int, depths: NDArray[Any]) -> dict[str, Any]:
    return {
        "position": k,
        "token": token,
        "word": word,
        "attach": attach,
        "shift": attach == k,
        "tape": depths[: k + 1].tolist(),
    }


def describe_graph(shards: ShardSet, i: int) -> list[dict[str, Any]]:
    """The dependencies of row i as GiLT reads them, JSON-ready.

    Returns:
        For each word t, from 1, its ``number``, ``word``, ``arcs`` ([head, dependent], of those that belong
        to it), and its rows of the three tapes, t + 1 numbers for the root and the words up to t:
        ``degree``, ``depth`` and ``distance`` (:func:`pdtools.trees.graphs.graph_features`).

    Raises:
        PdtoolsError: if the shards have no arcs.
    """
    graph = shards.graph(i)
    adjacency = np.zeros((1, graph.n_words + 1, graph.n_words + 1), dtype=np.bool_)
    adjacency[0, graph.heads, graph.dependents] = True
    tapes = graph_features(adjacency)
    later = graph.later.tolist()
    return [
        {
            "number": t,
            "word": word,
            "arcs": [arc for arc, end in zip(graph.arcs, later, strict=True) if end == t],
            **{name: tape[0, t, : t + 1].tolist() for name, tape in tapes._asdict().items()},
        }
        for t, word in enumerate(_words(shards, i), 1)
    ]


def describe_transitions(shards: ShardSet, i: int) -> list[dict[str, Any]]:
    """Row i as a Dependency Transformer Grammar reads it, JSON-ready; crossing arcs are lifted.

    Returns:
        For each position its ``position``, ``action``, ``head`` (the last token of an arc's head, or None),
        ``words`` (on the stack after it), ``pop`` and ``sees``, as :func:`describe_actions` has them.

    Raises:
        PdtoolsError: if the shards have no arcs, or these are no tree.
    """
    found = actions_of(shards.graph(i), shards.word(i), lift=True)
    if isinstance(found, str):
        raise PdtoolsError(f"{shards.folder}: row {int(shards.ids[i])}: {found}")
    tokenizer = shards.tokenizer
    ids = ArcIds(tokenizer.vocab_size)
    rows = arc_rows([(shards.tokens(i)[1:-1], found)], ids, tokenizer.root_id)
    names = {ids.left: "left_arc", ids.right: "right_arc", ids.pop_root: "pop_root"}
    described = []
    for k, (action, head) in enumerate(zip(rows.actions.tolist(), rows.head.tolist(), strict=True)):
        position = {
            "position": k,
            "action": names.get(action) or tokenizer.token_text(action),
            "head": None if head < 0 else tokenizer.token_text(head),
            "words": int(rows.n_open[k]),
        }
        described.append(position | _stack_of(rows, k, composes=action >= ids.first_closer))
    return described


def _stack_of(rows: ActionRows, k: int, *, composes: bool) -> dict[str, Any]:
    """``pop`` and ``sees`` of a position of the only row; ``composes``: it is a COMPOSE, or a STACK."""
    pop = int(rows.pop[k])
    composes = composes and pop != k
    earlier = np.flatnonzero(rows.pop[:k] == k if composes else rows.pop[:k] > k).tolist()
    return {"pop": pop, "sees": [*earlier, k]}


def describe_actions(shards: ShardSet, i: int, kind: ActionKind) -> list[dict[str, Any]]:
    """Row i as an action model reads it, ready for JSON.

    Args:
        shards: shards with labelled constituents, all of whose labels are known.
        i: the row.
        kind: an action model.

    Returns:
        For each position its ``position``, ``action``, ``open`` (constituents that are open after it), and
        what it attends to: for tg ``pop`` and ``sees``; for plm-mask ``innermost`` (None if nothing is open);
        for RNNGs ``sees``, the positions of the stack's elements. Except for RNNGs also ``depth``.

    Raises:
        PdtoolsError: if there are no constituents, or a label is unknown; in-order, if tokens do not show
            where words begin.
    """
    found, tokenizer = shards.constituents(i), shards.tokenizer
    if (found.labels < 0).any():
        raise PdtoolsError(f"{shards.folder}: row {int(shards.ids[i])} has a label that the tokenizer lacks")
    tokens, continues = shards.tokens(i)[1:-1], tokenizer.continue_words
    if kind == "rnng-in-order":
        if tokenizer.text_style == "raw":
            raise PdtoolsError(IN_ORDER_NEEDS_WORDS)
        in_order = InOrderIds(tokenizer.vocab_size, len(shards.labels))
        actions = in_order_actions(tokens, found, in_order, tokenizer.root_id, continues)
        return _on_stack(actions, in_order, shards, continues)
    doubled = kind == "tg"
    ids = ActionIds(tokenizer.vocab_size, len(shards.labels), typed=doubled, doubled=doubled)
    rows = action_rows([(tokens, found)], ids, tokenizer.root_id)
    if kind == "rnng":
        return _on_stack(rows.actions.tolist(), ids, shards, continues)
    described = []
    for k, action in enumerate(rows.actions.tolist()):
        name = _action_name(action, ids, shards)
        position = {"position": k, "action": name, "depth": int(rows.depth[k]), "open": int(rows.n_open[k])}
        if kind == "tg":
            position |= _stack_of(rows, k, composes=action >= ids.first_closer)
        elif kind == "plm-mask":
            position["innermost"] = int(rows.innermost[k]) if rows.innermost[k] >= 0 else None
        described.append(position)
    return described


def _action_name(action: int, ids: ActionIds, shards: ShardSet) -> str:
    if action < ids.tokens:
        return shards.tokenizer.token_text(action)
    if action < ids.first_closer:
        return f"({shards.labels[action - ids.tokens]}"
    if isinstance(ids, InOrderIds) and action == ids.finish:
        return "FINISH"
    return f"{shards.labels[action - ids.first_closer]})" if ids.typed else ")"


def _on_stack(
    actions: Sequence[int], ids: ActionIds, shards: ShardSet, continues: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """The positions of an RNNG's row, with what is on the stack."""
    stack, elements, described = ActionStack(ids, continues), list[int](), []
    for k, action in enumerate(actions):
        if not (isinstance(ids, InOrderIds) and action == ids.finish):
            place, _ = stack.push(action)
            elements[place:] = [k]
        name = _action_name(action, ids, shards)
        described.append({"position": k, "action": name, "open": stack.n_open, "sees": list(elements)})
    return described
