"""The page of sentences: each under each model, token by token; or the two of a minimal pair, aligned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pdtools.report.view.charts import Spec, bars, heat_map
from pdtools.report.view.methods import methods_of_traces
from pdtools.report.view.page import Page

if TYPE_CHECKING:
    from pdtools.inspection.trace import Trace

_SIGNIFICANT = 6


def sentences_page(
    traces: Sequence[Sequence[Trace]],
    models: Sequence[str],
    made: Mapping[str, Any],
    *,
    pair: bool = False,
    title: str | None = None,
) -> Page:
    """Make a page of traces.

    Args:
        traces: of each sentence, that of each model.
        models: their names, each different.
        made: provenance, with the models among its inputs by their names.
        pair: whether the two sentences are the good and the bad one of a minimal pair.
        title: of the page.
    """
    texts = [of_models[0].text for of_models in traces]
    packed = {
        f"trace-{s}-{m}": _rounded(trace.to_json())
        for s, of_models in enumerate(traces)
        for m, trace in enumerate(of_models)
    }
    shown = " / ".join(texts) if pair else texts[0] if len(texts) == 1 else f"{len(texts)} sentences"
    searches = [trace.model for trace in traces[0]]
    return Page(
        kind="sentences",
        title=title or f"{shown} — {', '.join(models)}",
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


def _rounded(value: Any) -> Any:
    """Numbers with as many digits as anyone sees."""
    if isinstance(value, float):
        return float(f"{value:.{_SIGNIFICANT}g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


def figures(page: Page) -> dict[str, Spec]:
    """Surprisals of each sentence, and the tape of the best parse of each model, by name."""
    from pdtools.trees import tape

    models, found = list(page.document["models"]), {}
    for s in range(len(page.document["sentences"])):
        traces = [page.packed[f"trace-{s}-{m}"] for m in range(len(models))]
        found[f"surprisals-{s + 1}"] = bars(_surprisal_rows(models, traces), series=models)
        for model, trace in zip(models, traces, strict=True):
            best = trace["best"]
            if trace["derivations"] == "attachments" and best is not None:
                found[f"tape-{s + 1}-{model}"] = heat_map(tape(best["derivation"]).tolist(), trace["tokens"])
    return found


def tables(page: Page) -> dict[str, tuple[list[str], list[list[Any]]]]:
    """Surprisals by token, and the best parses."""
    models, found = list(page.document["models"]), {}
    for s in range(len(page.document["sentences"])):
        traces = [page.packed[f"trace-{s}-{m}"] for m in range(len(models))]
        rows = [
            [row["series"], row["position"], row["token"], row["bits"]]
            for row in _surprisal_rows(models, traces)
        ]
        found[f"surprisals-{s + 1}"] = (["model", "position", "token", "bits"], rows)
        parses = [
            [model, trace["best"]["tree"]]
            for model, trace in zip(models, traces, strict=True)
            if trace["best"]
        ]
        if parses:
            found[f"parses-{s + 1}"] = (["model", "parse"], parses)
    return found


def _surprisal_rows(models: Sequence[str], traces: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"series": model, "position": k, "token": token, "bits": bits}
        for model, trace in zip(models, traces, strict=True)
        for k, (token, bits) in enumerate(zip(trace["tokens"], trace["surprisals"], strict=True))
        if bits is not None
    ]
