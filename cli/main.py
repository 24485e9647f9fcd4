"""Entry point: the table of subcommands, and the handling of their errors."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pdtools import __version__
from pdtools.errors import PdtoolsError, is_lack_of_memory
from pdtools.files import STDIO, unchanged_inputs, write_json
from pdtools.jobs.plan import Done
from pdtools.provenance.revision import DISTRIBUTION, other_distribution
from pdtools.report.visible import visible

from . import (
    blocks,
    compare,
    config,
    data,
    decode,
    doctor,
    eval_attention,
    eval_benchmark,
    eval_blimp,
    eval_classify,
    eval_formal,
    eval_parse,
    eval_ppl,
    eval_reading,
    eval_sg,
    export,
    generate,
    import_model,
    inspect,
    merge,
    parse,
    prompts,
    sample,
    show,
    surprisal,
    sweep,
    tapes,
    train,
    view,
)
from .options import PanelledCommand

_CLOSED_PIPE = 141  # as if by SIGPIPE
_UsageError: Any = typer.BadParameter.__base__  # typer's own copy of click's class, if it has one


# Groups of commands in the help; a command in none of them (of another package, say) is in the last.
_GROUPS = {
    "Data": ("parse", "tapes", "blocks", "prompts", "data", "generate", "show"),
    "Training": ("train", "sweep", "config", "export", "import"),
    "Reading and parsing": ("surprisal", "decode", "sample", "inspect"),
    "Evaluation": ("eval-",),
    "Results and the rest": ("compare", "view", "merge", "doctor", "help"),
}


class _Commands(TyperGroup):
    """The subcommands, and the subcommands of other packages' evaluations.

    Messages on wrong usage may repeat names of files, so they are made printable.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name.startswith("eval-"):
            from . import other_packages

            found = other_packages.command_of(cmd_name)
        return found

    def list_commands(self, ctx: Any) -> list[str]:
        from . import other_packages

        return [*super().list_commands(ctx), *other_packages.names()]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group of commands."""
        there = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        limit = formatter.width - 6 - max(map(len, there))
        *others, last = _GROUPS
        listed: dict[str, list[tuple[str, str]]] = {group: [] for group in _GROUPS}
        for name, command in there.items():
            begins = (group for group in others if name.startswith(_GROUPS[group]))
            listed[next(begins, last)].append((name, command.get_short_help_str(limit)))
        for group, rows in listed.items():
            with formatter.section(group):
                formatter.write_dl(rows, col_max=max(map(len, there)))

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _visible_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _visible_errors():
            return super().invoke(ctx)


@contextlib.contextmanager
def _visible_errors() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # its message is the help, of many lines
            error.message = visible(error.message)
        raise


app = typer.Typer(
    name="pdtools",
    cls=_Commands,
    help="Treebank preprocessing, training and evaluation of syntactic language models.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

_command = functools.partial(app.command, cls=PanelledCommand)
_command("parse", short_help="Convert a treebank, or parse text, into binarized trees.")(parse.parse)
_command("tapes", short_help="Convert trees into shards: tokens, attachments, stack tapes.")(tapes.tapes)
_command("blocks", short_help="Convert running text into shards, for models without trees.")(blocks.blocks)
_command("prompts", short_help="Convert the data of a classification task into prompts.")(prompts.prompts)
_command("show", short_help="Print one sentence of the shards, with its tree and tape.")(show.show)
_command("train", short_help="Train a language model on shards, or on a task.")(train.train)
_command("sweep", short_help="Train a model for every combination of some settings' values.")(sweep.sweep)
_command("decode", short_help="Parse sentences with a trained model.")(decode.decode)
_command("sample", short_help="Draw strings with their trees from a model.")(sample.sample)
_command("inspect")(inspect.inspect)
_command("surprisal", short_help="Print the surprisal of every token or word.")(surprisal.surprisal)
_command("eval-parse", short_help="Recall, precision and F1 of predicted trees, like EVALB.")(
    eval_parse.eval_parse
)
_command("eval-ppl", short_help="Compute perplexity per token and per word.")(eval_ppl.eval_ppl)
_command("eval-blimp", short_help="Score minimal pairs (BLiMP).")(eval_blimp.eval_blimp)
_command("eval-sg", short_help="Score test suites in SyntaxGym's format.")(eval_sg.eval_sg)
_command("eval-benchmark", short_help="Score any benchmark of strings that a TOML file describes.")(
    eval_benchmark.eval_benchmark
)
_command("eval-attention", short_help="Measure attention to regions of test suites.")(
    eval_attention.eval_attention
)
_command("eval-reading", short_help="Regress reading times on surprisals.")(eval_reading.eval_reading)
_command("eval-classify", short_help="Answer prompts: accuracy, F1, correlations.")(
    eval_classify.eval_classify
)
_command("compare", short_help="Compare models' results, item by item.")(compare.compare)
_command("view", short_help="Write one HTML file that shows sentences, results or runs.")(view.view)
_command("export", short_help="Write a model to share, with a model card.")(export.export)
_command("import", short_help="Read a model that another program has saved.")(import_model.import_model)
_command("merge", short_help="Make the output of a command that was divided with --shard.")(merge.merge)
app.add_typer(config.app, name="config", short_help="List the bundled recipes, print one, or list every key.")
app.add_typer(data.app, name="data", short_help="Download treebanks and benchmarks by name.")
app.add_typer(generate.app, name="generate", short_help="Draw strings of a formal language: text, or shards.")
app.add_typer(eval_formal.app, name="eval-formal", short_help="Evaluate models of formal languages.")
_command("doctor", short_help="Report what this machine has, and what is slower without the rest.")(
    doctor.doctor
)


@_command("help", short_help="Print the help of a command.")
def _help(
    command: Annotated[list[str] | None, typer.Argument(metavar="COMMAND", help="Its name.")] = None,
) -> None:
    """Print the help of a command: what it does, examples and options, as --help does.

    \b
    Example:
      pdtools help train
      pdtools help data get
    """
    raise typer.Exit(run([*(command or []), "--help"]))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pdtools {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line.

    Exit status: 0 done, 1 could not be done, 2 wrong usage, 130 after Ctrl-C, 141 if the reader of its output
    stopped early (``| head``), 143 after SIGTERM.
    """
    # With Python's own thresholds, looking for garbage among what imports make takes 0.1 s of a start.
    gc.set_threshold(5_000, 10, 10)
    if sys.platform == "darwin":  # read when torch is imported: before commands look at --device
        os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # for letters that a terminal's encoding lacks
    warnings.showwarning = _say
    if other := other_distribution():
        warnings.warn(
            f"{other}, another package of this name, is installed into the same folder, and each may have"
            f" replaced files of the other: pip uninstall pdtools, then pip install --force-reinstall"
            f" --no-deps . in a checkout ({DISTRIBUTION}, when it is released)",
            stacklevel=1,
        )
    # As after Ctrl-C, unfinished outputs are removed on the way out. (train ends its step first.)
    for name in ("SIGTERM", "SIGBREAK"):  # Windows' Ctrl-Break
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, frame: sys.exit(128 + number))
    try:
        status = run(sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.exit(status)
    except KeyboardInterrupt:  # while a command is ending
        sys.exit(130)
    except BrokenPipeError:
        _read_no_more()
        sys.exit(_CLOSED_PIPE)


def _read_no_more() -> None:
    """Discard unprinted output: Python would complain about it at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@functools.cache
def _all_commands() -> Any:
    """The commands with their options, cached as they take a tenth of a second to make."""
    return typer.main.get_command(app)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status; messages go to standard error."""
    quiet = bool({"--quiet", "-q"} & set(arguments))
    try:
        with unchanged_inputs():
            # Exits by itself after usage errors (2) and Ctrl-C (130).
            _all_commands()(arguments, prog_name="pdtools")
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            _read_no_more()
            return _CLOSED_PIPE
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt) and not quiet:
            print("pdtools: interrupted", file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Done as done:
        if "--json" in arguments:
            write_json(STDIO, done.report)
        if not quiet:
            print(visible(str(done)), file=sys.stderr)
    except PdtoolsError as error:
        return _fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if not is_lack_of_memory(error):
            raise
        return _fail(
            "not enough memory: compute less at a time (--beam, --search max_batch=N), or use a smaller model"
        )
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}")
    return 0


def _say(message: Warning | str, *args: Any, **kwargs: Any) -> None:
    """Print a warning in one line, like all messages."""
    print("pdtools: warning: " + visible(" ".join(str(message).split("\n"))), file=sys.stderr)


def _fail(reason: str) -> int:
    print("pdtools: " + visible(" ".join(reason.split("\n"))), file=sys.stderr)
    return 1
