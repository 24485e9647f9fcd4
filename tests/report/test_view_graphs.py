"""What pages of sentences show of models of arcs: the graphs of hypotheses and their three tapes, in node."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from arc_oracle import arc_model
from node_pages import MADE, evaluate, needs_node, save_page
from search_oracle import tiny_model
from toy_models import loaded

from pdtools.inspection.trace import Trace
from pdtools.inspection.tracing import trace
from pdtools.report.view.sentences import sentences_page
from pdtools.search.options import SearchOptions
from pdtools.trees.graphs import graph_features

pytestmark = needs_node

PROGRAM = """
const found = [];
const slider = one("input[type=range]");
for (let k = 1; k <= 3; k++) {
  write(slider, k);
  await later();
  const buttons = all("#panel-beam button").length;
  for (let h = 0; h < buttons; h++) {
    all("#panel-beam button")[h].click();
    await later();
    found.push({
      k, h,
      said: one("#panel-forest svg").getAttribute("aria-label"),
      arcs: one("#panel-forest").querySelectorAll(".arc").length,
      words: one("#panel-forest").querySelectorAll(".word").map((each) => each.textContent),
      tapes: one("#panel-tape").querySelectorAll("svg").map((tape) => {
        return tape.querySelectorAll(".cell").map((each) => Number(each.getAttribute("data-depth")));
      }),
    });
  }
}
all("button").find((each) => each.textContent === "LaTeX").click();
return { found, latex: await lastSaved() };
"""


@pytest.fixture(scope="module")
def traced() -> Trace:
    model = loaded("gilt", tiny_model("gilt", feature_width=4))
    return trace(model, "a b c", SearchOptions(beam=20), hypotheses=3)


def test_a_trace_has_arcs_by_positions(traced: Trace) -> None:
    assert traced.derivations == "arcs"
    assert traced.best is not None
    joints = [step.hypotheses[0].joint for step in traced.steps]
    assert joints[-1] == pytest.approx(traced.best.joint)
    assert [len(step.hypotheses) for step in traced.steps] == [2, 3, 3, 3]
    for step in traced.steps:
        arcs = [[tuple(map(int, str(arc).split("-"))) for arc in each.derivation] for each in step.hypotheses]
        assert all(0 <= head <= step.position for own in arcs for head, _ in own)
    assert any(each.derivation for step in traced.steps for each in step.hypotheses)


def test_graphs_and_tapes_of_hypotheses(traced: Trace, tmp_path: Path) -> None:
    path = save_page(sentences_page([[traced]], ["gilt"], MADE), tmp_path / "page.html")
    shown = evaluate(path, PROGRAM)
    tokens = ["root", *traced.tokens[1:]]
    assert len(shown["found"]) == 2 + 3 + 3
    for each in shown["found"]:
        step = traced.steps[each["k"] - 1]
        derivation = cast("list[str]", list(step.hypotheses[each["h"]].derivation))
        arcs = [tuple(map(int, arc.split("-"))) for arc in derivation]
        said = " ".join(f"{tokens[head]}→{tokens[dependent]}" for head, dependent in arcs)
        assert each["said"] == f"the graph after {traced.tokens[each['k']]}: {said}"
        assert each["arcs"] == len(arcs)
        assert each["words"] == list(traced.tokens[1 : each["k"] + 1])
        adjacency = np.zeros((1, each["k"] + 1, each["k"] + 1), dtype=bool)
        for head, dependent in arcs:
            adjacency[0, head, dependent] = True
        wanted = [
            [int(cell) for t in range(each["k"] + 1) for cell in feature[0, t, : t + 1]]
            for feature in graph_features(adjacency)
        ]
        assert each["tapes"] == wanted
    last = shown["found"][-1]["said"].split(": ", 1)[1].split()
    assert shown["latex"].count("\\dep") == len(last)  # an edge or a root each


def test_arcs_of_the_stack_of_a_transition_model(tmp_path: Path) -> None:
    """The graph of each hypothesis, without the tapes that such models do not have; rows of attention."""
    traced = trace(loaded("dtg", arc_model()), "a b c", SearchOptions(beam=20), hypotheses=2)
    assert traced.attention is not None
    path = save_page(sentences_page([[traced]], ["dtg"], MADE), tmp_path / "page.html")
    program = """
        const found = [];
        const slider = one("input[type=range]");
        for (let k = 1; k <= 3; k++) {
          write(slider, k);
          await later();
          found.push({
            arcs: one("#panel-forest").querySelectorAll(".arc").length,
            tapes: all("#panel-tape svg").length,
            columns: all("#panel-attention .pickcolumn").length,
          });
        }
        return found;
    """
    found = evaluate(path, program)
    # The last position that was read when a token had been: before the next token.
    tokens = [k for k, each in enumerate(traced.attention.positions) if isinstance(each, int)]
    ends = [*tokens[2:], len(traced.attention.positions)]
    for step, shown, end in zip(traced.steps[:3], found, ends, strict=True):
        assert shown["arcs"] == len(step.hypotheses[0].derivation)
        assert shown["tapes"] == 0
        assert shown["columns"] == end
