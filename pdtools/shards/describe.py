"""One row of the shards in a form that a person can check by eye."""

from __future__ import annotations

from typing import Any

from pdtools.shards.reader import ShardSet
from pdtools.trees import Tree, escape, merge_subwords, tree_from_attachments


def tree_of_row(shards: ShardSet, i: int) -> Tree | None:
    """The binary tree over words that the attachments of row i describe, labelled ``X``; a block has none."""
    if shards.layout == "block":
        return None
    words = [escape(word) for word in shards.text(i).split(" ")]
    word = shards.word(i)[1:-1]  # (n,)
    over_tokens = tree_from_attachments(shards.attach(i)[1:-1] - 1, [words[number] for number in word])
    return merge_subwords(over_tokens, word, words)


def describe_row(shards: ShardSet, i: int) -> dict[str, Any]:
    """Row i, ready for JSON.

    Returns:
        ``id``, ``text``, ``tree`` (brackets, or None) and ``tokens``: for each position of the row its
        ``position``, ``id``, ``token``, ``word`` (None for ROOT and EOS), ``attach``, ``shift`` (whether
        it only shifts) and ``tape`` (its row W_k, one depth per position up to its own).
    """
    words = shards.text(i).split(" ")
    tree = tree_of_row(shards, i)
    depths = shards.tape(i)  # (n + 2, n + 2)
    columns = zip(shards.tokens(i).tolist(), shards.word(i).tolist(), shards.attach(i).tolist(), strict=True)
    return {
        "id": int(shards.ids[i]),
        "text": shards.text(i),
        "tree": None if tree is None else tree.to_brackets(),
        "tokens": [
            {
                "position": position,
                "id": token,
                "token": shards.tokenizer.token_text(token),
                "word": None if word < 0 else words[word],
                "attach": attach,
                "shift": attach == position,
                "tape": depths[position, : position + 1].tolist(),
            }
            for position, (token, word, attach) in enumerate(columns)
        ],
    }
