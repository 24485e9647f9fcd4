"""``pdtools show``: one row of the shards, readable: a sentence, or the sentences of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from pdtools.errors import InputError, visible
from pdtools.files import STDIO, GivenText, atomic_text

from .console import print_json
from .options import command, one_tree

if TYPE_CHECKING:
    from rich.table import Table

    from pdtools.trees import Tree


TreeStyle = Literal["text", "svg", "forest", "qtree"]


Actions = Literal["plm", "plm-mask", "tg", "rnng", "rnng-in-order", "dtg", "gilt"]


# A constituent nested more deeply is drawn further to the right.
_DEEPEST_DRAWN = 200
# Wide enough for the tape of the longest sentence; a terminal has its own width.
_PIPED_WIDTH = 10_000


@command("Print one sentence of the shards, with its tree and tape.")
def show(
    shards: str | None = None,
    row_id: int | None = None,
    text: str | None = None,
    words: bool = False,
    actions: Actions | None = None,
    tree: TreeStyle | None = None,
    as_json: bool = False,
) -> None:
    """Print one sentence of the shards with its tree, constituents, tokens, attachments and tape.

    \b
    Example:
      pdtools show --text "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))"
          The dog barks
          (S (NP (DT The) (NN dog)) (VP (VBZ barks)))
          S
          ├── NP
          │   ├── The
          │   └── dog
          └── VP
              └── barks
      pdtools show shards/train 0
      pdtools show shards/test --words > test.txt

    The first tree is the binary one that the attachments describe. Constituents are labelled and not
    binarized. A tree of --text is read as by pdtools parse, and each word is one token.

    Arguments:
        shards (SHARDS): A folder that pdtools tapes wrote.
        row_id (ID): The row's id, from 0; optional with --words.

    Options:
        text (TREE): A tree in brackets, instead of SHARDS.
        words: Print only the words, one sentence per line.
        actions: Print the actions of this kind of model, instead of attachments.
        tree: Only the tree: as text, as a picture (SVG), or for LaTeX (forest, qtree).
    """
    if (shards is None) == (text is None):
        raise typer.BadParameter("give either SHARDS or --text TREE")
    if text is not None and words:
        raise typer.BadParameter("--text and --words exclude each other")
    if shards is not None and row_id is None and not words:
        raise typer.BadParameter("name a sentence by its ID, or get the words of all with --words")
    if actions is not None and (text is not None or words):
        raise typer.BadParameter("--actions goes with SHARDS and ID")
    if words and as_json:
        raise typer.BadParameter("--words and --json exclude each other")
    if tree is not None and (words or as_json or actions is not None):
        raise typer.BadParameter("--tree cannot be combined with --words, --json or --actions")

    from rich.console import Console
    from rich.text import Text

    from pdtools.report.trees import tree_text
    from pdtools.shards import (
        ShardSet,
        constituents_of_row,
        describe_actions,
        describe_graph,
        describe_row,
        describe_transitions,
        describe_tree,
        trees_of_row,
    )

    if shards is None:
        trees = [_tree_of(cast(str, text), "right" if tree is None else "none")]
        description = describe_tree(trees[0]) if tree is None else {}
    else:
        rows = ShardSet.open(shards)
        if words:
            wanted = range(len(rows)) if row_id is None else [rows.find(row_id)]
            with atomic_text(STDIO) as out:
                out.writelines(rows.text(i) + "\n" for i in wanted)
            return
        i = rows.find(cast(int, row_id))
        is_drawn = rows.has_constituents and rows.most_open[i] <= _DEEPEST_DRAWN
        labelled = constituents_of_row(rows, i) if is_drawn else None
        trees = trees_of_row(rows, i) if labelled is None else [labelled]
        description = describe_row(rows, i)
        if actions is not None:
            of_arcs = {"gilt": describe_graph, "dtg": describe_transitions}
            if describe := of_arcs.get(actions):
                found = describe(rows, i)
            else:
                found = describe_actions(rows, i, cast(Any, actions))
            description |= {"actions": found}
            del description["tokens"]
    if tree is not None:
        if not trees:
            raise InputError("blocks of running text have no trees", file=shards)
        _print_trees(trees, tree)
        return
    if as_json:
        print_json(description)
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPED_WIDTH)
    name = "" if shards is None else f"{description['id']}: "
    for line in f"{name}{description['text']}".split("\n"):
        console.print(Text(visible(line), style="bold"))
    for brackets in (description["tree"], description.get("constituents"), *description.get("trees", ())):
        if brackets is not None:
            console.print(Text(visible(brackets)))
    if arcs := description.get("arcs"):
        console.print(Text(f"arcs {_arcs(arcs)}"))
    for each in trees:
        console.print(Text(tree_text(each).rstrip()))
    console.print()
    console.print(_table(description["tokens"]) if actions is None else _actions(description["actions"]))


def _tree_of(text: str, factor: Literal["right", "none"]) -> Tree:
    """The one tree in a text, in the form that pdtools parse --binarize gives it."""
    from pdtools.parsers.pipeline import TreeForm
    from pdtools.trees import TransformCounts

    tree = TreeForm(binarize=factor).usable(one_tree(text), TransformCounts())
    if isinstance(tree, str):
        raise InputError(tree, file=GivenText.of([text]))
    return tree


def _print_trees(trees: list[Tree], form: TreeStyle) -> None:
    from pdtools.report.tables import WIDTH
    from pdtools.report.trees import tree_latex, tree_text, trees_svg

    if form == "svg":
        drawn = [trees_svg(trees)]
    elif form == "text":
        drawn = [tree_text(tree, tags=True, width=WIDTH) for tree in trees]
    else:
        package: Literal["forest", "qtree"] = "forest" if form == "forest" else "qtree"
        drawn = [tree_latex(tree, package) for tree in trees]
    with atomic_text(STDIO) as out:
        out.write("\n".join(drawn))


def _arcs(arcs: list[tuple[int, int]]) -> str:
    return " ".join(f"{head}-{dependent}" for head, dependent in arcs)


def _actions(positions: list[dict[str, Any]]) -> Table:
    """A line for each action, or word; for a Transformer Grammar, with a row of its mask."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in positions[0]:
        is_left = name in ("action", "head", "word", "arcs") or (
            isinstance(positions[0][name], list) and name != "sees"
        )
        table.add_column({"position": "k"}.get(name, name), justify="left" if is_left else "right")
    for found in positions:
        cells = {name: "" if value is None else str(value) for name, value in found.items()}
        if "sees" in found:
            seen = set(found["sees"])
            cells["sees"] = "".join("x" if j in seen else "." for j in range(len(positions)))
        if "arcs" in found:
            cells["arcs"] = _arcs(found["arcs"])
            cells |= {
                tape: " ".join(f"{n:>2}" for n in found[tape]) for tape in ("degree", "depth", "distance")
            }
        table.add_row(*(Text(visible(cell)) for cell in cells.values()))
    return table


def _table(tokens: list[dict[str, Any]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
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
