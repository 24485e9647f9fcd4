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
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pdtools import __version__
from pdtools.errors import PdtoolsError, is_lack_of_memory, visible
from pdtools.files import STDIO, unchanged_inputs, write_json
from pdtools.jobs.plan import Done
from pdtools.provenance.origin import DISTRIBUTION, other_distribution

from .console import message, set_quiet
from .signatures import alone

_CLOSED_PIPE = 141  # as if by SIGPIPE
_INTERRUPTED = 130  # as if by SIGINT; typer gives it after Ctrl-C
_UsageError: Any = typer.BadParameter.__base__  # typer's own copy of click's class, if it has one


# The commands by section of the help: each is a function or a group in the module of its name.
SECTIONS = {
    "Data": ("parse", "tapes", "blocks", "prompts", "data", "generate", "show"),
    "Training": ("train", "sweep", "config", "export", "import"),
    "Reading and parsing": ("surprisal", "decode", "sample", "inspect"),
    "Evaluation": (
        *("eval-ppl", "eval-parse", "eval-blimp", "eval-sg", "eval-benchmark", "eval-attention"),
        *("eval-reading", "eval-classify", "eval-formal"),
    ),
    "Results and the rest": ("compare", "view", "serve", "merge", "doctor", "help"),
}


def found_in_module(name: str) -> Any:
    """The function or the group of a command."""
    in_module = "import_model" if name == "import" else name.replace("-", "_")
    module = import_module(f".{in_module}", __package__)
    return getattr(module, "app", None) or getattr(module, in_module)


def _other_packages() -> Any:
    return import_module(".other_packages", __package__)


class _Commands(TyperGroup):
    """The subcommands, each imported when it is asked for, and those of other packages' evaluations."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if any(cmd_name in names for names in SECTIONS.values()):
            return _made(cmd_name)
        if not cmd_name.startswith("eval-"):
            return None
        return _other_packages().command_of(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        return [*(name for names in SECTIONS.values() for name in names), *_other_packages().names()]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group of commands."""
        there = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        width = max(map(len, there))
        for section, names in SECTIONS.items():
            others = [name for name in there if name.startswith("eval-")] if section == "Evaluation" else []
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (name, there[name].get_short_help_str(formatter.width - 6 - width))
                        for name in dict.fromkeys([*names, *others])
                    ],
                    col_max=width,
                )


app = typer.Typer(
    name="pdtools",
    cls=_Commands,
    help="Treebank preprocessing, training and evaluation of syntactic language models.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@functools.cache
def _made(name: str) -> Any:
    """A command with its options, which take milliseconds to make."""
    found = found_in_module(name)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    return alone(name, found, short_help=found.short_help)


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
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        _read_no_more()
        sys.exit(_CLOSED_PIPE)


def _read_no_more() -> None:
    """Discard unprinted output: Python would complain about it at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_commands: Any = typer.main.get_command(app)


def parsed(arguments: list[str]) -> Any:
    """The context of a recorded line's command, with its values and defaults; None without one."""
    command, rest = _commands, [*arguments]
    while rest and hasattr(command, "get_command"):
        command = command.get_command(None, rest.pop(0))
    if command is None or hasattr(command, "get_command"):
        return None
    context = command.make_context(command.name, rest, resilient_parsing=True)
    for parameter in command.params:
        if context.params.get(parameter.name) is None:
            context.params[parameter.name] = parameter.get_default(context)
    return context


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status; messages go to standard error."""
    set_quiet(False)
    try:
        with unchanged_inputs():
            status = _commands(arguments, prog_name="pdtools", standalone_mode=False)
            if status == _INTERRUPTED:
                message("pdtools: interrupted")
            sys.exit(status)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            _read_no_more()
            return _CLOSED_PIPE
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except _UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # its message is the help, of many lines
            error.message = visible(error.message)  # which may repeat names of files
        error.show()
        return int(error.exit_code)
    except Done as done:
        if "--json" in arguments:
            write_json(STDIO, done.report)
        message(str(done))
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
