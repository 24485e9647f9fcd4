"""The page of sentences: each under each model, token by token; or the two of a minimal pair, aligned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pdtools.report.trees import tree_latex, trees_svg
from pdtools.report.view.charts import Spec, bars, heat_map
from pdtools.report.view.figures import Figures
from pdtools.report.view.methods import methods_of_traces
from pdtools.report.view.page import Page
from pdtools.trees import Tree, tape

if TYPE_CHECKING:
    from pdtools.inspection.trace import Trace

_SIGNIFICANT = 6


def sentences_page(
    traces: Sequence[Sequence[Trace]],
    models: Sequence[str],
    made: Mapping[str, Any],
    *,
    pair: bool = False,
) -> Page:
    """Make a page of traces.

    Args:
        traces: for each sentence, each model's trace.
        models: their names, all different.
        made: provenance, with the models among its inputs by name.
        pair: whether the two sentences are the good and the bad one of a minimal pair.
    """
    texts = [of_models[0].text for of_models in traces]
    packed = {
        f"trace-{s}-{m}": rounded_numbers(trace.to_json())
        for s, of_models in enumerate(traces)
        for m, trace in enumerate(of_models)
    }
    shown = " / ".join(texts) if pair else texts[0] if len(texts) == 1 else f"{len(texts)} sentences"
    searches = [trace.model for trace in traces[0]]
    return Page(
        kind="sentences",
        title=f"{shown} — {', '.join(models)}",
        document={
            "models": list(models),
            "sentences": texts,
            "pair": pair,
            "searches": searches,
            "methods": methods_of_traces(models, searches, made),
        },
        packed=packed,
        scripts=("stack", "drawings"),
    )


def rounded_numbers(value: Any) -> Any:
    """Numbers rounded to the visible digits."""
    if isinstance(value, float):
        return float(f"{value:.{_SIGNIFICANT}g}")
    if isinstance(value, dict):
        return {key: rounded_numbers(each) for key, each in value.items()}
    return [rounded_numbers(each) for each in value] if isinstance(value, (list, tuple)) else value


def figures(page: Page) -> Figures:
    """Surprisals of each sentence; for each model its best parse as a tree, and the parse's tape."""
    models = list(page.document["models"])
    charts: dict[str, Spec] = {}
    tables: dict[str, tuple[list[str], list[list[Any]]]] = {}
    drawings, sources = {}, {}
    for s in range(len(page.document["sentences"])):
        traces = [page.packed[f"trace-{s}-{m}"] for m in range(len(models))]
        rows = _surprisal_rows(models, traces)
        charts[f"surprisals-{s + 1}"] = bars(rows, series=models)
        columns = ["series", "position", "token", "bits"]
        tables[f"surprisals-{s + 1}"] = (
            ["model", *columns[1:]],
            [[row[name] for name in columns] for row in rows],
        )
        for model, trace in zip(models, traces, strict=True):
            if (best := trace["best"]) is None:
                continue
            tree = Tree.from_brackets(best["tree"])
            drawings[f"tree-{s + 1}-{model}"] = trees_svg([tree])
            sources[f"tree-{s + 1}-{model}"] = tree_latex(tree, "forest")
            if trace["derivations"] == "attachments":
                charts[f"tape-{s + 1}-{model}"] = heat_map(tape(best["derivation"]).tolist(), trace["tokens"])
    return Figures(charts=charts, tables=tables, drawings=drawings, sources=sources)


def _surprisal_rows(models: Sequence[str], traces: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"series": model, "position": k, "token": token, "bits": bits}
        for model, trace in zip(models, traces, strict=True)
        for k, (token, bits) in enumerate(zip(trace["tokens"], trace["surprisals"], strict=True))
        if bits is not None
    ]
