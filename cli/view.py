"""``pdtools view``: one HTML file that shows sentences under models, training runs, or results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pdtools.errors import InputError
from pdtools.files import GivenText, Kind, Rejects, kind_of
from pdtools.files.packed import ending
from pdtools.files.tables import SHEETS
from pdtools.jobs.devices import pick_device

from .console import message, print_json, progress, warn
from .options import (
    BeamOptions,
    ModelNames,
    Natural,
    Positive,
    ResultOptions,
    SentenceForm,
    Threads,
    command,
    named_groups,
    sentence_files,
)
from .running import check_different, check_target

if TYPE_CHECKING:
    from pdtools.inspection.trace import Trace
    from pdtools.report.view.page import Page
    from pdtools.search.options import SearchOptions


@command("Write one HTML file that shows sentences, results or runs.")
def view(
    context: typer.Context,
    beam: BeamOptions,
    options: ResultOptions,
    paths: list[str] | None = None,
    model: ModelNames | None = None,
    text: list[str] | None = None,
    pair: tuple[str, str] | None = None,
    source: SentenceForm = "text",
    gold: str | None = None,
    group: list[str] | None = None,
    factors: str | None = None,
    region: str | None = None,
    hypotheses: Positive = 10,
    output: str | None = None,
    figures: str | None = None,
    seed: Natural = 0,
    device: str = "cpu",
    threads: Threads = 0,
) -> None:
    """Write one HTML file that shows sentences, results or runs; it opens in any browser, without a network.

    \b
    Example:
      pdtools view --text "The dog barks." --model english --model english-base -o view.html
      pdtools view --pair "The dogs bark." "The dogs barks." --model english -o pair.html
      pdtools view results/base results/pushdown -o results.html
      pdtools view surprisals.csv --factors ambiguity,length --region 3 -o stimuli.html

    Sentences (with --model) are shown token by token, with the hypotheses of the beam. Results are compared.
    Tables of pdtools surprisal become effects of conditions at the critical region, and by region. Runs are
    shown by their losses.

    Arguments:
        paths (PATH): Results, stimuli, or runs; with --model: sentences.

    Input:
        pair (GOOD BAD): Show a minimal pair side by side.
        source (--from): Form of the sentences; treebank: the trees are the gold trees.
        group (NAME=MODELS): Stimuli: models that differ only in seed, by commas or with * (repeatable).
        gold (FILE): Gold trees of the sentences, in the same order.

    Search:
        hypotheses: Number of hypotheses to list for each beam.
        search_settings (--search KEY=N): Action models: word_beam, fast_track. Repeatable.

    Output:
        output (-o FILE): The HTML file to write.
        figures (DIR): Also write figures as SVG and PDF, tables as LaTeX and CSV.
    """
    if output is None and figures is None:
        raise typer.BadParameter("name the page with -o, a folder for figures with --figures, or both")
    models = list(model or [])
    beam.check_model(context, models)
    if pair and (text or paths):
        raise typer.BadParameter("--pair brings its own sentences: leave out PATH and --text")
    if (text or pair or gold) and not models:
        raise typer.BadParameter("name the model that reads the sentences with --model")
    if pair and not all(each.split() for each in pair):
        raise typer.BadParameter("--pair: a sentence without a word")
    is_table = (
        bool(paths)
        and not models
        and all(ending(each) in SHEETS and Path(each).is_file() for each in paths or [])
    )
    if not is_table and (group or factors is not None or region is not None):
        raise typer.BadParameter("--group, --factors and --region go with a table of pdtools surprisal")
    if not (paths or text or pair):
        raise typer.BadParameter("name folders of results or of runs, or sentences and a --model")
    given = [*(paths or []), *models, *([gold] if gold else [])]
    check_different(*(name for name in (output, figures) if name))
    are_runs = not models and all(Path(each, "run.json").is_file() for each in given)
    for name, is_folder in ((output, False), (figures, True)):
        check_target(
            name,
            folder=is_folder,
            overwrite=options.overwrite,
            inputs=given,
            watched=not are_runs,
        )

    from pdtools.files import atomic_text
    from pdtools.provenance import provenance
    from pdtools.report.view import results, runs, sentences, stimuli
    from pdtools.report.view.figures import write_figures
    from pdtools.report.view.loaded import folders_of_models, short_names
    from pdtools.report.view.page import check_size, render
    from pdtools.search.scores import is_pseudo, marked

    module: Any
    page: Page
    if models:
        names = list(short_names([Path(each) for each in models]).values())
        if len(names) < len(models):
            raise typer.BadParameter("--model: a model is given twice")
        files = [] if pair else sentence_files(paths, text, source)
        read = {**dict(zip(names, models, strict=True)), **{path: path for path in paths or []}}
        made = provenance({**read, **({"gold": gold} if gold else {})})
        trees = gold or (files[0] if source == "treebank" and len(files) == 1 else None)
        traces = _traces(
            models,
            names,
            files,
            pair,
            source,
            trees,
            pick_device(device, threads),
            search=beam.search_of_one,
            hypotheses=hypotheses,
        )
        settings = [each.model for each in traces[0]]
        warn(*settings)
        names = [marked(name, pseudo=is_pseudo(each)) for name, each in zip(names, settings, strict=True)]
        module, page = (
            sentences,
            sentences.sentences_page(traces, names, made, pair=pair is not None),
        )
    else:
        given = list(paths or [])
        made = provenance({str(i): path for i, path in enumerate(given)})
        if is_table:
            groups = named_groups(group or [])
            page = stimuli.stimuli_page(
                given, factors=factors, region=region, groups=groups, seed=seed, made=made
            )
            module = stimuli
        elif all(map(runs.is_run, given)):
            module, page = runs, runs.runs_page(given)
        else:
            given = [folder for path in given for folder in folders_of_models(path)]
            if wrong := [p for p in given if kind_of(p) not in (Kind.RESULTS, Kind.SEVERAL_RESULTS)]:
                hint = "sentences need a --model" if Path(wrong[0]).is_file() else None
                raise InputError("neither results nor a run of pdtools train", file=wrong[0], hint=hint)
            module, page = results, results.results_page(given, seed=seed)
    report: dict[str, Any] = {
        "kind": page.kind,
        "notes": list(page.notes),
        "output": output,
        "figures": figures,
    }
    if output:
        shown = render(page, made)
        said = check_size(shown)
        with atomic_text(output) as stream:
            stream.write(shown)
        report["bytes"] = len(shown.encode())
        message(f"{output}: {page.kind}, {report['bytes'] / 1e6:.2f} MB")
        for note in [*page.notes, *([said] if said else [])]:
            message(f"{output}: {note}")
    if figures:
        report["files"] = write_figures(figures, module.figures(page), made, overwrite=options.overwrite)
        message(f"{figures}: {len(report['files'])} files")
    if options.as_json:
        print_json({**report, "provenance": made})


def _traces(
    models: Sequence[str],
    names: Sequence[str],
    files: Sequence[str],
    pair: tuple[str, str] | None,
    source: SentenceForm,
    trees: str | None,
    device: str,
    *,
    search: SearchOptions,
    hypotheses: int,
) -> list[list[Trace]]:
    """Return the trace of each model for each sentence."""
    from pdtools.inspection.tracing import trace
    from pdtools.models import load_checkpoint
    from pdtools.search.inputs import read_inputs
    from pdtools.search.model import Model, is_guest, load_model
    from pdtools.trees import read_trees
    from pdtools.trees.forms import refuse_for

    refuse_for(Kind.TREES, [trees] if trees else [])
    gold = [each.tree for each in read_trees([trees], Rejects("fail", hint=None))] if trees else None
    by_model: list[list[Trace]] = []
    for path, name in zip(models, names, strict=True):
        loaded = load_model(path, device=device) if is_guest(path) else load_checkpoint(path, device)
        style = None if isinstance(loaded, Model) else loaded.tokenizer.text_style
        lines = read_inputs([GivenText.of(pair)] if pair else files, source, style)
        sentences = [line.sentence for line in lines if line.sentence.words]
        if not sentences:
            raise InputError("no sentences", file=files[0])
        if gold is not None and len(gold) != len(sentences):
            raise InputError(f"{len(gold)} trees for {len(sentences)} sentences", file=trees)
        by_model.append(
            [
                trace(
                    loaded,
                    sentence,
                    search,
                    hypotheses=hypotheses,
                    gold=gold[i] if gold is not None and not isinstance(loaded, Model) else None,
                    device=device,
                )
                for i, sentence in enumerate(
                    progress(sentences, total=len(sentences), label="sentences", name=name)
                )
            ]
        )
    return [list(of_sentence) for of_sentence in zip(*by_model, strict=True)]
