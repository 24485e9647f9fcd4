"""Options that behave the same in every command that has them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class OnError(str, Enum):
    """What a command does at the first bad input."""

    fail = "fail"
    skip = "skip"


class Source(str, Enum):
    """What input files hold."""

    text = "text"
    tokens = "tokens"
    treebank = "treebank"


class Style(str, Enum):
    """How words become text."""

    ptb = "ptb"
    raw = "raw"


class Dtype(str, Enum):
    """What a model's weights are converted to for scoring."""

    float32 = "float32"
    bf16 = "bf16"


InputsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="INPUT", help="Files, folders, globs, or -.")
]
GivenTextOption = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="SENTENCE", help="Instead of INPUT: a sentence (or tree); repeatable."),
]
TableOption = Annotated[
    str, typer.Option("--output", "-o", help="A TSV file, or CSV (.csv); also compressed (.gz, .zst); or -.")
]
OverwriteOption = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace an output that exists; a folder only if pdtools wrote it."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
DetailsOption = Annotated[
    bool, typer.Option("--details", help="Print the scores of every paradigm or suite too.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no messages.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, ...")]
ThreadsOption = Annotated[int, typer.Option("--threads", min=0, max=1024, help="CPU threads (0: all).")]
WorkersOption = Annotated[
    int,
    typer.Option("--workers", min=1, max=1024, help="Number of processes; the result does not depend on it."),
]
ShardOption = Annotated[
    str | None,
    typer.Option(
        "--shard", metavar="I/N", help="Do part I of N of the work (I from 0); then run pdtools merge."
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler whose workers do the work."),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Continue an earlier run that was interrupted, if there was one.")
]
OnErrorOption = Annotated[
    OnError, typer.Option("--on-error", help="On bad input: stop, or record it in the rejects and continue.")
]
ModelOption = Annotated[
    str, typer.Option("--model", metavar="DIR", help="A checkpoint, or a run folder of pdtools train.")
]
ScoredModelOption = Annotated[
    str, typer.Option("--model", metavar="DIR", help="A checkpoint, a run, or a Hugging Face causal LM.")
]
EvaluatedModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="DIR", help="A checkpoint, a run, or a Hugging Face causal LM."),
]
SurprisalsOption = Annotated[
    str | None,
    typer.Option(
        "--surprisals", metavar="FILE", help="Instead of a model: surprisals that were computed elsewhere."
    ),
]
WriteSentencesOption = Annotated[
    str | None,
    typer.Option(
        "--write-sentences", metavar="FILE", help="Write the sentences (.tsv, .csv; or -) instead of scoring."
    ),
]
TextOnlyOption = Annotated[
    bool, typer.Option("--text-only", help="--write-sentences: only the text, without a header.")
]
RecordedOnErrorOption = Annotated[
    OnError,
    typer.Option("--on-error", help="If --surprisals do not fit a sentence: stop, or leave it out."),
]
RecordedNatsOption = Annotated[bool, typer.Option("--nats", help="--surprisals are in nats, not bits.")]
BeamOption = Annotated[int, typer.Option("--beam", min=1, help="Hypotheses kept after each token.")]
MaxBatchOption = Annotated[
    int | None,
    typer.Option("--max-batch", min=1, help="Sentences per batch (default: as many as memory allows)."),
]
DtypeOption = Annotated[
    Dtype,
    typer.Option("--dtype", help="Type of the weights. bf16: faster on processors that have it, less exact."),
]
BosOption = Annotated[
    bool,
    typer.Option(
        "--bos/--no-bos", help="Hugging Face models: read a beginning-of-sentence token first, or not."
    ),
]
