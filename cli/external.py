"""Evaluations of external models: sentences are written for them, and their surprisals read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from .console import message, print_json
from .options import ExternalOptions, RunOptions
from .outputs import check_json_output, check_target

if TYPE_CHECKING:
    from pdtools.evaluation.external.sentence_files import PlacedSentence
    from pdtools.search.model import Model


def write_for_others(
    options: ExternalOptions,
    run: RunOptions,
    inputs: dict[str, str],
    sentences: Callable[[], Iterable[PlacedSentence]],
    columns: Sequence[str],
) -> None:
    """Write the sentences of ``inputs`` under their columns, for ``--write-sentences``."""
    from pdtools.evaluation.external.sentence_files import write_sentences
    from pdtools.provenance import provenance

    assert options.write_sentences is not None
    output = options.write_sentences
    check_json_output(run.as_json, output)
    check_target(output, folder=False, overwrite=run.overwrite, inputs=[*inputs.values()])
    number = write_sentences(
        sentences(), columns, output, text_only=options.text_only, overwrite=run.overwrite
    )
    if run.as_json:
        print_json({"counts": {"sentences": number}, "provenance": provenance(inputs)})
    message(f"{number} sentences written", quiet=run.quiet)


def external_scorer(options: ExternalOptions, names: Iterable[str], text_style: str | None = None) -> Model:
    """The recorded scores of ``--surprisals``; messages call sentences by these names."""
    from pdtools.evaluation.external.scorer import ExternalScorer
    from pdtools.search.model import Model

    assert options.surprisals is not None
    recorded = ExternalScorer(
        options.surprisals,
        names,
        unit="nats" if options.nats else "bits",
        text_style=text_style,
        on_error=options.on_error.value,
    )
    return Model(family=recorded)
