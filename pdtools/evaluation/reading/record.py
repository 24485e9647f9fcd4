"""The record of the evaluation on reading times."""

from __future__ import annotations

from pdtools.evaluation.record import COUNT, NUMBER, Document, Evaluation, MainScores


def _main_scores(document: Document) -> MainScores:
    models = document["scores"]["by_model"]
    over = (f"{document['counts']['words_regressed']} words",)
    names = {name: "" if len(models) == 1 else f", {name}" for name in models}
    return {
        f"reading times, ΔLL (nats a word){names[name]}": (found["delta_ll"], over)
        for name, found in models.items()
    }


EVALUATIONS = (
    Evaluation(
        name="reading",
        title="Reading times",
        in_text="reading times",
        printer="pdtools.report.evaluations:print_reading",
        drawing="pdtools.report.view.reading:READING",
        read={
            **{f"scores.by_model.*.{name}": NUMBER for name in ("delta_ll", "low", "high")},
            "counts.words_regressed": COUNT,
        },
        scores=_main_scores,
        same={"text_sha256": "other sentences"},
    ),
)
