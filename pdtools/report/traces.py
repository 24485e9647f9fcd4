"""Traces on a terminal: after every token its surprisal, its attachment, the tape, and the beam."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pdtools.errors import visible
from pdtools.provenance.hub import name_of
from pdtools.report.tables import WIDTH
from pdtools.report.trees import tree_text
from pdtools.search.scores import is_pseudo, marked
from pdtools.trees import Tree, tape

if TYPE_CHECKING:
    from pdtools.inspection.trace import Derivation, Parse, Trace, TraceStep

_INDENT = 5  # columns before the text about a token
_NAME = 10  # columns for its name, or for a share
_LEAST = 0.001  # less likely attachments are omitted


def print_trace(trace: Trace) -> None:
    """Print :func:`trace_lines`."""
    for line in trace_lines(trace):
        print(line)


def trace_lines(trace: Trace) -> Iterator[str]:
    """A trace without attention and stacks, in lines of at most 80 characters."""
    yield from _wrapped(visible(trace.text))
    yield from _wrapped(_search(trace))
    if trace.steps and trace.gold is not None:
        yield "*: goes with the gold tree"
    tokens = [visible(token) for token in trace.tokens]
    steps = {step.position: step for step in trace.steps}
    for k, (token, bits) in enumerate(zip(tokens, trace.surprisals, strict=True)):
        if bits is None:
            continue
        step = steps.get(k)
        said = f"{bits:8.2f} bits" + ("" if step is None else f"{step.kept:7} kept")
        room = WIDTH - _INDENT - len(said)
        shown = token if len(token) <= room else token[: room - 1] + "…"
        yield f"{k:{_INDENT - 1}} {shown:<{room}}{said}"
        if step is not None:
            yield from _step_lines(step, trace, tokens)
    total = sum(bits for bits in trace.surprisals if bits is not None)
    dropped = "" if trace.dropped is None else f"; dropped by the search, as estimated: {trace.dropped:.2%}"
    yield f"{total:.2f} bits together{dropped}"
    is_best = trace.gold is not None and trace.best is not None and trace.gold.tree == trace.best.tree
    yield from _tree_lines("best parse, the gold tree" if is_best else "best parse", trace.best)
    yield from _tree_lines("gold tree", None if is_best else trace.gold)
    yield from _split_lines(trace)


def _tree_lines(name: str, parse: Parse | None) -> Iterator[str]:
    if parse is not None:
        yield ""
        yield name + ("" if parse.joint is None else f": {-parse.joint:.2f} bits with its words")
        yield from tree_text(Tree.from_brackets(parse.tree), width=WIDTH).splitlines()


def _split_lines(trace: Trace) -> Iterator[str]:
    """Lines for the nodes: a node's words, with the scores of splits between them."""
    if not trace.splits:
        return
    yield ""
    yield "scores of splits; in brackets the highest of each node:"
    for node in trace.splits:
        said = [visible(trace.words[node.first])]
        for place, score in enumerate(node.scores, start=node.first + 1):
            shown = f"[{score:.2f}]" if place == node.split else f"{score:.2f}"
            said.append(f"{shown} {visible(trace.words[place])}")
        yield from textwrap.wrap(" ".join(said), WIDTH, initial_indent="  ", subsequent_indent="    ")


def _search(trace: Trace) -> str:
    """The model and its search settings."""
    settings = trace.model
    widths = {name: settings.get(name) for name in ("beam", "word_beam", "margin")}
    name = marked(name_of(str(settings["folder"])), pseudo=is_pseudo(settings))
    said = [visible(name), str(settings.get("model", ""))]
    said += [f"{name.replace('_', ' ')} {width}" for name, width in widths.items() if width is not None]
    return ", ".join(said)


def _step_lines(step: TraceStep, trace: Trace, tokens: Sequence[str]) -> Iterator[str]:
    best = step.hypotheses[0].derivation
    is_end = step.position == len(tokens) - 1
    if step.attachment is not None and not is_end:
        likeliest = sorted(enumerate(step.attachment), key=lambda pair: -pair[1])
        targets = [
            f"{'shift' if j == step.position else f'{j} {tokens[j]}'} {share:.1%}"
            for j, share in likeliest
            if share >= _LEAST
        ]
        yield from _said("attaches", ", ".join(targets))
        depths = tape([int(target) for target in best])[-1]
        yield from _said("tape", " ".join(map(str, depths.tolist())))
    gold = trace.gold.derivation if trace.gold is not None else None
    for hypothesis in step.hypotheses:
        found = hypothesis.derivation
        mark = "*" if gold is not None and gold[: len(found)] == found else " "
        as_text = actions_text if step.attachment is None else stack_text
        yield from _said(f"{mark}{hypothesis.share:7.2%}", as_text(found, tokens))
    if step.kept > len(step.hypotheses):
        yield from _said(f" {step.rest:7.2%}", f"the other {step.kept - len(step.hypotheses)}")


def stack_text(derivation: Derivation, tokens: Sequence[str]) -> str:
    """The stack that attachments leave, such as ``[the dog] ‖ barks``; see :class:`Hypothesis`.

    Args:
        derivation: attachments up to some position.
        tokens: by position.
    """
    stack: list[tuple[int, str]] = [(0, "")]  # the last position of each constituent, ROOT's first
    for k, target in enumerate(derivation[1:], start=1):
        if target == 0:  # the end, which reduces everything
            parts = [text for _, text in stack[1:]]
            while len(parts) > 1:
                parts[-2:] = [f"[{parts[-2]} {parts[-1]}]"]
            return "".join(parts)
        last, text = k, tokens[k]
        while last != target:
            last, left = stack.pop()
            text = f"[{left} {text}]"
        stack.append((k, text))
    return " ‖ ".join(text for _, text in stack[1:])


def actions_text(derivation: Derivation, tokens: Sequence[str]) -> str:
    """Actions as brackets, such as ``(S (NP the dog) (VP barks``; see :class:`Hypothesis`."""
    text = ""
    for action in derivation:
        if isinstance(action, int):
            text += f" {tokens[action]}"
        else:
            text += f" {action}" if action.startswith("(") else ")"
    return visible(text.strip())


def _said(name: str, text: str) -> Iterator[str]:
    """Lines for the text about a token, after its name."""
    indent = " " * (_INDENT + _NAME)
    lines = textwrap.wrap(text, WIDTH - len(indent)) or [""]
    yield f"{'':{_INDENT}}{name:<{_NAME}}{lines[0]}"
    for line in lines[1:]:
        yield indent + line


def _wrapped(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, WIDTH) or [""]
