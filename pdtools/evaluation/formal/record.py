"""The records of evaluations on formal languages."""

from __future__ import annotations

from pdtools.evaluation.record import COUNT, NUMBER, SCORE, STRING, Document, Evaluation, MainScores


def _prefixes(document: Document) -> MainScores:
    return {
        f"closing bracket, {name} (%)": (100 * each["accuracy"], (f"{each['prefixes']} prefixes",))
        for name, each in document["scores"]["by_set"].items()
    }


def _strings(document: Document) -> MainScores:
    items = (f"{document['counts']['strings']} strings",)
    return {"nats a symbol above the bound": (document["scores"]["difference"], items)}


def _answers(document: Document) -> MainScores:
    accuracy = document["scores"]["accuracy_beyond_training"]
    text = f"{document['settings']['formal_task']}, symbols of longer strings (%)"
    strings = (f"{document['counts']['pairs']} strings",)
    return {text: (None if accuracy is None else 100 * accuracy, strings)}


EVALUATIONS = (
    Evaluation(
        name="dyck",
        title="Closing brackets",
        in_text="dyck",
        printer="pdtools.report.evaluations:print_closing",
        read={"scores.by_set.*.accuracy": NUMBER, "scores.by_set.*.prefixes": COUNT},
        scores=_prefixes,
        data="",
    ),
    Evaluation(
        name="cfl",
        title="Strings of a context-free language",
        in_text="cfl",
        printer="pdtools.report.evaluations:print_cfl",
        read={"scores.difference": SCORE, "counts.strings": COUNT},
        scores=_strings,
        lower_is_better=True,
        same={"language": "another language", "text_sha256": "other sentences"},
    ),
    Evaluation(
        name="task",
        title="Task",
        in_text="task",
        printer="pdtools.report.evaluations:print_transduction",
        read={
            "scores.accuracy_beyond_training": SCORE,
            "settings.formal_task": STRING,
            "counts.pairs": COUNT,
        },
        scores=_answers,
        same=dict.fromkeys(("formal_task", "as_released", "trained_lengths"), "another evaluation"),
        data="pairs",
    ),
)
