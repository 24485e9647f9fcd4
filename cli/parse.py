"""``pdtools parse``: text or a treebank into binarized trees."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from pdtools.errors import InputError
from pdtools.files import STDIO, Rejects, Source, is_stream, rejects_path
from pdtools.jobs.devices import pick_device

from .console import message, print_json, progress, warn
from .options import OnError, RunOptions, command, input_files, named_parser
from .running import Output, check_json_output, model_settings, threads_of_each

if TYPE_CHECKING:
    from pdtools.jobs import Plan
    from pdtools.parsers.in_chunks import ParserSettings
    from pdtools.parsers.pipeline import ParseCounts, TreeLine


BENEPAR = "benepar"


TreeSource = Literal[
    "text",
    "tokens",
    "parts",
    "treebank",
    "penn-historical",
    "export",
    "tiger-xml",
    "discbracket",
    "conllu",
    "conllu-enhanced",
    "sdp",
]


_SENTENCES = ("text", "tokens", "parts")
_WITH_GAPS = ("export", "tiger-xml", "discbracket")


Discontinuous = Literal["raise", "split", "skip"]


Punctuation = Literal["move", "root"]


Lemmas = Literal["cut", "keep"]


SplitWords = Literal["penn", "parser"]


Binarize = Literal["right", "left", "head", "none"]


Functions = Literal["strip", "keep"]


@command("Convert a treebank, or parse text, into binarized trees.", without=("trees", "bos", "pll", "dtype"))
def parse(
    run: RunOptions,
    inputs: list[str] | None = None,
    output: str = STDIO,
    text: list[str] | None = None,
    source: TreeSource = "text",
    split_sentences: bool = False,
    split_words: SplitWords = "penn",
    parser: Annotated[str, typer.Option(callback=named_parser)] = BENEPAR,
    model: str | None = None,
    cky: bool = False,
    surface: bool = False,
    discontinuous: Discontinuous | None = None,
    punctuation: Punctuation | None = None,
    lemmas: Lemmas | None = None,
    binarize: Binarize = "right",
    functions: Functions = "strip",
    split: str | None = None,
    on_error: OnError = "fail",
) -> None:
    """Convert a treebank, or parse text, into binarized trees, one per line.

    \b
    Example:
      pdtools parse sample/treebank/train.mrg --from treebank -o train.trees
          6000 trees, 74967 tokens
          empty leaves left out: 2877 *T*, 822 *, 427 0, 343 *PRO*, 52 *ICH*
      pdtools parse gum/const --from treebank --split 0.9,0.05,0.05 -o gum
      pdtools parse sentences.txt --parser english -o sentences.trees

    A treebank: traces, empty phrases and wrappers such as ROOT are removed. Text: line n of the output is the
    tree of line n of the input. A sentence that the parser cannot parse becomes the flat tree (X (XX word)
    ...), a blank line (X (-NONE- *)). Both are recorded in OUTPUT.rejects.jsonl.

    Input:
        source (--from): Form of the input.
        split_sentences: Split text that is not one sentence per line into sentences.
        split_words: text: split words as in the Penn Treebank, or by the parser.
        surface: conllu: use words as written (du), not syntactic words (de le).
        discontinuous: Constituents with gaps (default: raise); skip excludes the tree.
        punctuation: Trees with gaps: move punctuation into the tree (default), or not.
        lemmas: penn-historical: cut lemmas and glosses off words (default), or not.

    Model:
        parser (NAME|DIR): benepar, stanza, spacy, right-branching, left-branching, or a model.
        model: Model of benepar (benepar_en3), stanza (en) or spacy (en_core_web_sm): a path or a name.

    Output:
        output (-o): A file (.gz, .zst), or -; a folder with --split.

    Options:
        binarize: Branch right, left, or by heads (of dependencies); none keeps unary chains.
        functions: Strip function tags (NP-SBJ becomes NP), or keep them.
        split (F,F[,F]): Split into train, valid and test with these shares.
    """
    from dataclasses import asdict

    from pdtools.jobs.devices import prepare_torch
    from pdtools.parsers import pipeline
    from pdtools.parsers.backends import (
        backends_with_splitter,
        gives_arcs,
        load_splitter,
        model_note,
        splitter_files,
    )
    from pdtools.parsers.in_chunks import convert_in_chunks, parse_in_chunks, read_in_chunks
    from pdtools.parsers.splitting import read_sentences
    from pdtools.provenance import identify
    from pdtools.search.inputs import count_inputs
    from pdtools.trees import path_beside
    from pdtools.trees.forms import FORMS, ReadOptions

    if enhanced := source == "conllu-enhanced":
        source = "conllu"
    fractions = None if split is None else _fractions(split)
    if fractions is not None and is_stream(output):
        raise typer.BadParameter("--split writes several files: name a folder with -o")
    checkpoint = _is_checkpoint(parser)
    if model is not None and checkpoint:
        raise typer.BadParameter(
            "--model is for benepar, stanza and spacy: --parser already names the checkpoint"
        )
    if cky and not checkpoint:
        raise typer.BadParameter("--cky is for checkpoints trained with TreeReg: name one with --parser")
    parses = source in _SENTENCES or (source == "treebank" and parser != BENEPAR)
    if not parses and (parser != BENEPAR or model is not None or run.search.given):
        raise typer.BadParameter(
            "--parser, --model and options of searches go with --from text, tokens or parts, or, to parse the"
            " words of trees, --parser with --from treebank"
        )
    if split_sentences and source != "text":
        raise typer.BadParameter("--split-sentences needs --from text")
    own_words = split_words == "parser"
    if own_words and source != "text":
        raise typer.BadParameter("--split-words parser needs --from text")
    if own_words and parser not in (known := backends_with_splitter()):
        raise typer.BadParameter(
            f"--split-words parser needs a parser with a tokenizer: --parser {', '.join(known)}"
        )
    if surface and source != "conllu":
        raise typer.BadParameter("--surface needs --from conllu")
    arcs = source in ("conllu", "sdp") or (parses and not checkpoint and gives_arcs(parser, model))
    if binarize == "head" and not (arcs and source != "sdp"):
        raise typer.BadParameter(
            "--binarize head needs --from conllu, or a parser of dependencies (spacy, stanza)"
        )
    check_json_output(run.as_json, output)
    files, used_form = _files(inputs, text, source)
    if parses and used_form is not None:
        raise InputError(
            f"read as {FORMS[used_form].title}: --parser reads the words of Penn brackets", file=files[0]
        )
    if (discontinuous or punctuation) and used_form not in _WITH_GAPS:
        raise typer.BadParameter(f"--discontinuous and --punctuation need --from {', '.join(_WITH_GAPS)}")
    if lemmas and used_form != "penn-historical":
        raise typer.BadParameter("--lemmas needs --from penn-historical")
    beside = [str(rejects_path(output) or STDIO)] if fractions is None else []
    for path, what, written in (
        (path_beside(output, "text"), "sentences", source in ("text", "conllu")),
        (path_beside(output, "arcs"), "arcs", arcs),
    ):
        if fractions is None and written:
            beside.append(str(path or STDIO))
        elif fractions is None and path and os.path.lexists(path) and not os.path.lexists(output):
            raise InputError(
                f"these {what} would be taken for those of the new trees: move the file away", file=path
            )
    read = [*files, *(name for name in (parser, model) if name and Path(name).exists())]
    checked = Output.check(output, run, folder=fractions is not None, inputs=read, beside=beside)
    plan = checked.plan

    form = pipeline.TreeForm(binarize=binarize, functions=functions)
    counts = pipeline.ParseCounts()
    if source == "treebank" and used_form is not None:
        message(f"read as {FORMS[used_form].title}")
    rejects = Rejects("skip" if parses else on_error)
    settings = asdict(form)
    described: dict[str, Any] = asdict(form)
    given: dict[str, Any] = {"discontinuous": discontinuous, "punctuation": punctuation, "lemmas": lemmas}
    options = ReadOptions(
        surface=surface, enhanced=enhanced, **{name: each for name, each in given.items() if each}
    )
    if used_form is not None:
        described |= {"from": used_form, **asdict(options)}
        settings |= described
    if parses:
        if checkpoint:
            from pdtools.models.checkpoint import describe_checkpoint

            described |= describe_checkpoint(parser)
        used = _parser_settings(parser, model, run, plan, cky=cky)
        settings |= {"parser": used.described()}
        if not checkpoint and (note := model_note(parser, model)):
            message(note)
    splitter = None
    if source == "text":
        described["split_words"] = split_words
    if own_words:
        tokenizer = splitter_files(parser, model)
        shown = tokenizer if len(tokenizer) <= 3 else [os.path.commonpath(tokenizer)]
        message(f"words split by {', '.join(shown)}")
        settings["split_words"] = [identify(file).get("sha256") for file in tokenizer]
        prepare_torch("cpu", threads_of_each(run.threads, plan.workers))
        splitter = load_splitter(parser, model, sentences=split_sentences)
    with checked.chunks("trees", **settings) as job:
        trees: Iterator[TreeLine]
        if used_form is not None:
            trees = read_in_chunks(files, used_form, options, form, plan, job, rejects=rejects, counts=counts)
        elif not parses:
            trees = convert_in_chunks(files, form, plan, job, rejects=rejects, counts=counts)
        else:
            trees = parse_in_chunks(
                read_sentences(
                    files,
                    cast(Any, source),
                    split_sentences=split_sentences,
                    splitter=splitter,
                    counts=counts.read,
                ),
                used,
                form,
                plan,
                job,
                rejects=rejects,
                counts=counts,
                placeholders=fractions is None,
                texts=source == "text",
                arcs=arcs,
            )

        def total() -> int | None:
            known = not split_sentences and used_form is None
            return count_inputs(files, cast(Any, source)) if known else None

        trees = progress(trees, total=total, label="trees")
        if fractions is None:
            pipeline.write_trees(trees, output, rejects=rejects)
        else:
            pipeline.write_splits(
                trees, output, fractions, counts=counts, rejects=rejects, overwrite=run.overwrite
            )
    warn(described)
    if run.as_json:
        report = _report(counts, rejects, inputs or [], len(files) if inputs else 0, described)
        if not parses or counts.read:
            report["form"] = {"name": used_form or source, **_nested(counts.taken_out)}
        print_json(report)
    _tell(counts, rejects, output)


def _files(
    inputs: list[str] | None, text: list[str] | None, source: TreeSource
) -> tuple[list[Source], str | None]:
    """The files to read, and their form of treebank, except for Penn's."""
    from pdtools.parsers import pipeline
    from pdtools.trees.forms import FORMS, forms_of, may_be_brackets, refuse_others

    named = [name for name in inputs or [] if Path(name).is_file()]
    found = forms_of(named, source)
    if source in _SENTENCES:
        return input_files(inputs, text, pipeline.SUFFIXES[source], pipeline.KINDS[source]), None
    try:
        if source == "treebank":
            suffixes = (*pipeline.SUFFIXES["treebank"], ".txt")
            kind = None if found else pipeline.KINDS["treebank"]
            files = input_files(inputs, text, suffixes, kind, only=may_be_brackets)
        else:
            files = input_files(inputs, text, FORMS[source].suffixes, None)
    except InputError as error:
        if error.file is not None and Path(error.file).exists():
            refuse_others(error.file, source)
        raise
    found = forms_of(files, source)
    return files, None if found is None else found.name


def _fractions(split: str) -> list[float]:
    try:
        fractions = [float(part) for part in split.split(",")]
    except ValueError:
        fractions = []
    if (
        len(fractions) not in (2, 3)
        or not min(fractions) > 0
        or not math.isclose(sum(fractions), 1, abs_tol=1e-6)
    ):
        raise typer.BadParameter(f"--split {split}: two or three positive numbers that sum to 1")
    return fractions


def _is_checkpoint(parser: str) -> bool:
    from pdtools.parsers.backends import BACKENDS

    return parser not in BACKENDS and Path(parser).is_dir()


def _parser_settings(
    name: str, model: str | None, run: RunOptions, plan: Plan, *, cky: bool
) -> ParserSettings:
    if _is_checkpoint(name):
        from pdtools.search.decoding import CheckpointSettings

        return CheckpointSettings(model_settings(plan, name, run, cky=cky, parses=True))
    from dataclasses import replace

    from pdtools.parsers.in_chunks import BackendSettings
    from pdtools.provenance import fingerprint

    device, each = run.device, threads_of_each(run.threads, plan.workers)
    if plan.scheduler is None:
        device = pick_device("cpu" if plan.merging else device, each)
    elif model is not None and Path(model).exists():
        model = str(Path(model).absolute())
    settings = BackendSettings(name, model, device, each)
    if plan.has_other_processes and (files := settings.files):
        settings = replace(settings, fingerprint=fingerprint(*files))
    return settings


def _report(
    counts: ParseCounts, rejects: Rejects, inputs: list[str], n_files: int, settings: dict[str, Any]
) -> dict[str, Any]:
    from pdtools.provenance import provenance

    return {
        "counts": {
            "files": n_files,
            "trees": counts.trees,
            "tokens": counts.tokens,
            "placeholders": counts.placeholders,
            "rejects": len(rejects),
            "traces": counts.changes.traces,
            "rewritten_labels": counts.changes.rewritten.total(),
        },
        "splits": counts.splits,
        "rejects": rejects.by_reason(),
        "rewritten_labels": dict(sorted(counts.changes.rewritten.items())),
        "settings": settings,
        "provenance": provenance({name: name for name in inputs}),
    }


def _nested(read: Mapping[str, int]) -> dict[str, int | dict[str, int]]:
    """A reader's counts, with kinds of one thing ("empty leaves: *T*") together."""
    found: dict[str, Any] = {}
    for name, number in sorted(read.items()):
        what, colon, kind = name.partition(": ")
        if colon:
            found.setdefault(what, {})[kind] = number
        else:
            found[what] = number
    return found


def _tell(counts: ParseCounts, rejects: Rejects, output: str) -> None:
    message(f"{counts.trees} trees, {counts.tokens} tokens")
    for what, number in _nested(counts.taken_out).items():
        if isinstance(number, dict):
            kinds = sorted(number.items(), key=lambda item: -item[1])
            message(f"{what}: {', '.join(f'{n} {kind}' for kind, n in kinds)}")
        else:
            message(f"{what}: {number}")
    for name, number in counts.splits.items():
        message(f"{name}: {number} trees")
    if counts.changes.rewritten:
        labels = ", ".join(sorted(counts.changes.rewritten))
        message(f"{counts.changes.rewritten.total()} labels rewritten to their first part: {labels}")
    for reason, number in rejects.by_reason().items():
        message(f"{number} without a tree: {reason}")
    if is_stream(output):
        for record in rejects:
            message(f"{record['file']}:{record['line']}: {record['reason']}")
