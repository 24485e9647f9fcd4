"""``pdtools show``: one sentence of the shards, readable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from pdtools.files import STDIO, atomic_text
from pdtools.visible import visible

from .console import print_json
from .options import JsonOption

if TYPE_CHECKING:
    from rich.table import Table
    from rich.tree import Tree as Drawing

    from pdtools.trees import Tree

# Wide enough for the tape of the longest sentence; a terminal has its own width.
_PIPED_WIDTH = 10_000


def show(
    shards: Annotated[str, typer.Argument(metavar="SHARDS", help="A folder that pdtools tapes wrote.")],
    row_id: Annotated[
        int | None, typer.Argument(metavar="ID", help="The sentence's id, from 0; optional with --text.")
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Only the words, a line for each sentence.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print one sentence of the shards with its tree, tokens, attachments and tape.

    A token that attaches to itself only shifts. The tape's row k is the depth of every position after
    token k and its reduces.

    \b
    Example:
      pdtools show shards/train 0
      pdtools show shards/test --text > test.txt
    """
    if row_id is None and not text:
        raise typer.BadParameter("name a sentence by its ID, or get the words of all with --text")
    if text and as_json:
        raise typer.BadParameter("--text and --json exclude each other")

    from rich.console import Console
    from rich.text import Text

    from pdtools.shards import ShardSet, describe_row, tree_of_row

    rows = ShardSet.open(shards)
    if text:
        wanted = range(len(rows)) if row_id is None else [rows.find(row_id)]
        with atomic_text(STDIO) as out:
            out.writelines(rows.text(i) + "\n" for i in wanted)
        return
    i = rows.find(cast(int, row_id))
    description = describe_row(rows, i)
    if as_json:
        print_json(description)
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPED_WIDTH)
    console.print(Text(visible(f"{description['id']}: {description['text']}"), style="bold"))
    if (tree := tree_of_row(rows, i)) is not None:
        console.print(Text(visible(tree.to_brackets())))
        console.print(_drawing(tree))
    console.print()
    console.print(_table(description["tokens"]))


def _drawing(tree: Tree) -> Drawing:
    """The tree with a line for each constituent and word."""
    from rich.text import Text
    from rich.tree import Tree as Drawing

    from pdtools.trees import unescape

    top = Drawing("", hide_root=True, guide_style="dim")
    open_nodes = [(len(tree), top)]
    constituents = list(zip(tree.labels, tree.starts.tolist(), tree.ends.tolist(), strict=True))[::-1]
    for position, word in enumerate(tree.words):
        while constituents and constituents[-1][1] == position:
            label, _, end = constituents.pop()
            open_nodes.append((end, open_nodes[-1][1].add(Text(visible(label), style="dim"))))
        open_nodes[-1][1].add(Text(visible(unescape(word))))
        while len(open_nodes) > 1 and open_nodes[-1][0] == position + 1:
            open_nodes.pop()
    return top


def _table(tokens: list[dict[str, Any]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("k", justify="right")
    table.add_column("token")
    table.add_column("word")
    table.add_column("attach", justify="right")
    table.add_column("tape")
    width = max(len(str(depth)) for token in tokens for depth in token["tape"])
    for token in tokens:
        attach = Text("shift", style="dim") if token["shift"] else Text(str(token["attach"]), style="cyan")
        tape = Text(" ").join(
            Text(f"{depth:>{width}}", style="green" if depth else "dim") for depth in token["tape"]
        )
        table.add_row(
            str(token["position"]),
            Text(visible(token["token"])),
            Text(visible(token["word"] or "")),
            attach,
            tape,
        )
    return table
