"""Command lines: a function's signature and docstring are its arguments, options and help."""

from __future__ import annotations

import functools
import inspect
import math
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand

_PANELS = ("Arguments", "Input", "Model", "Search", "Output", "Parallel", "Options")
_ENTRY = re.compile(r"^    (\w+(?:, \w+)*)(?: \((.+?)\))?: (.*(?:\n {5,}.*)*)", re.MULTILINE)

# The limits of a number at the end of its help, as typer writes them: a page has them, in words.
_RANGE = re.compile(r"  \[[\d.]*<?=?x[<>]=[\d.]+\]$|; [\d.]*<?=?x[<>]=[\d.]+(?=\]$)")
# The values of an option that has no name of its own for them, by a word of its type.
_VALUES = {"Literal": None, "bool": None, "int": "N", "float": "NUMBER", "str": "TEXT"}

Described = Mapping[str, tuple[str, str, str]]
"""For parameters: their panel, what is said in parentheses (flags, metavar), and their help."""


def described(docstring: str | None, sections: Sequence[str] = _PANELS) -> tuple[str, Described]:
    """Split a docstring into its text, and the names that sections of it list: parameters, by panel."""
    text = inspect.cleandoc(docstring or "")
    section = re.compile(rf"^({'|'.join(sections)}):\n((?:    .*\n?|\n)+)", re.MULTILINE)
    found = {
        name: (called, declared, " ".join(help.split()))
        for called, listed in section.findall(text)
        for names, declared, help in _ENTRY.findall(listed)
        for name in names.split(", ")
    }
    return section.sub("", text).rstrip(), found


def group(name: str, help: str, short_help: str) -> typer.Typer:
    """A command whose subcommands :func:`command` adds."""
    return typer.Typer(
        name=name,
        help=help,
        short_help=short_help,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def alone(name: str, function: Callable[..., None], **about: Any) -> Any:
    """The command of a function that :func:`command` returned."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=PanelledCommand, **about)(function)
    return typer.main.get_command(app)


def command(
    short_help: str = "",
    *,
    shared: Described,
    app: typer.Typer | None = None,
    name: str = "",
    without: Sequence[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give typer a function, and a description of every parameter: its docstring lists them by panel::

        Input:
            source (--from FORM): The form of the input.

    A parameter under ``Arguments:`` is an argument. All others are options: ``--source`` if no name is given.
    A dataclass stands for an option for each of its fields, which are listed in its docstring. The function's
    own docstring may describe them anew.

    Args:
        short_help: its line in lists of commands; by default the beginning of its help.
        shared: descriptions of the parameters that no docstring lists.
        app: the group of which it is a subcommand, by its ``name``.
        without: fields of dataclasses that have no option, and keep their default.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        text, listed = described(function.__doc__)
        plain: list[inspect.Parameter] = []
        flat: list[inspect.Parameter] = []
        blocks: dict[str, tuple[Any, list[str]]] = {}
        # Before Python 3.11 typing.get_type_hints hides Annotated if the default is None.
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            block = parameter.annotation
            if not is_dataclass(block):
                plain.append(_annotated(parameter.name, block, parameter.default, {**shared, **listed}))
                continue
            of_block = {**shared}
            for each in reversed(cast(type, block).__mro__):
                of_block |= described(each.__doc__)[1]
            of_block |= listed
            hints = typing.get_type_hints(block, include_extras=True)
            taken = [field for field in fields(block) if field.name not in without]
            blocks[parameter.name] = block, [field.name for field in taken]
            flat += [
                _annotated(
                    each.name,
                    hints[each.name],
                    inspect.Parameter.empty if each.default is MISSING else each.default,
                    of_block,
                )
                for each in taken
            ]

        @functools.wraps(function)
        def run(**values: Any) -> None:
            made = {
                name: block(**{key: values.pop(key) for key in keys})
                for name, (block, keys) in blocks.items()
            }
            function(**values, **made)

        parameters = [*plain, *flat]
        run.__doc__ = text
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.short_help = short_help  # type: ignore[attr-defined]
        if app is not None:
            called = name or function.__name__.replace("_", "-")
            app.command(called, cls=PanelledCommand, short_help=short_help)(run)
        return run

    return decorate


def _annotated(name: str, kind: Any, default: Any, listed: Described) -> inspect.Parameter:
    """The parameter with what typer needs to know of it."""
    if kind is not typer.Context:
        panel, declared, help = listed[name]
        kind, info = _taken_apart(kind)
        if info is None:
            info = typer.Argument() if panel == "Arguments" else typer.Option()
        words = declared.split()
        flags = [word for word in words if word.startswith("-")]
        if panel != "Arguments":
            if not any(flag.startswith("--") for flag in flags):
                option = name.replace("_", "-")
                negation = f"/--no-{option}" if "bool" in str(kind) and default is not False else ""
                flags.insert(0, f"--{option}{negation}")
            info.param_decls = tuple(flags)
        if panel not in ("Arguments", "Options"):
            info.rich_help_panel = panel
        values = " ".join(word for word in words if word not in flags)
        info.metavar = values or next((said for of, said in _VALUES.items() if of in str(kind)), None)
        info.help = help
        kind = Annotated[kind, info]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _taken_apart(kind: Any) -> tuple[Any, Any]:
    """A type without what is annotated to it, and a copy of this; it may be within ``| None``."""
    if typing.get_origin(kind) is Annotated:
        kind, info, *_ = typing.get_args(kind)
        return kind, copy(info)
    for each in typing.get_args(kind):
        if typing.get_origin(each) is Annotated:
            inner, info = _taken_apart(each)
            return inner | None, info
    return kind, None


def _said_twice(option: Any, values: Iterable[Any]) -> str:
    """A message with an option and its repeated values."""
    if option.is_flag:
        return f"{option.opts[0]} and {option.secondary_opts[0]} are given: choose one"
    *first, last = (" ".join(each) if isinstance(each, tuple) else each for each in values)
    return f"{max(option.opts, key=len)} takes one value: {', '.join(first)} and {last} are given"


class PanelledCommand(TyperCommand):
    """A command whose help has its examples first, and its options by panel: plain text, without rich.

    Its numbers are finite, and integers, such as seeds, have 64 bits. An option that takes one value is
    refused if it is given two.
    """

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the description of the command, examples, then everything else."""
        first, *rest = inspect.cleandoc(self.help or "").split("\n\n")
        rest.sort(key=lambda paragraph: not paragraph.startswith("\b\nExample:"))
        self.help = "\n\n".join([first, *rest])
        super().format_help_text(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual, but refuse repeated values, of which the last would win, and unbounded numbers."""
        if not ctx.resilient_parsing:  # not while a line is being typed
            self._refuse_second_values(ctx, args)
        rest: list[str] = super().parse_args(ctx, args)
        parameter: Any
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise typer.BadParameter(f"{value} is not a finite number", ctx=ctx, param=parameter)
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise typer.BadParameter(f"{value} is not between -2**63 and 2**63", ctx=ctx, param=parameter)
        return rest

    def _refuse_second_values(self, ctx: Any, args: list[str]) -> None:
        collecting = copy(self)
        collecting.params = [copy(each) for each in self.params]
        for parameter in collecting.params:
            if parameter.param_type_name == "option":
                cast(Any, parameter).multiple = True
        found, _, _ = collecting.make_parser(ctx).parse_args(list(args))
        for option in self.params:
            values = dict.fromkeys(found.get(option.name) or () if option.param_type_name == "option" else ())
            if len(values) > 1 and not cast(Any, option).multiple:
                raise typer.BadParameter(_said_twice(option, values), ctx=ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each panel that has options."""
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in _PANELS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                name = re.sub(r"<list\[(.*)\]>", r"<\1>", record[0])
                said = _RANGE.sub("", record[1])
                rest = "Options"
                if parameter.param_type_name == "argument":
                    name, rest = name.partition(" <")[0], "Arguments"  # without its type
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or rest, []).append(
                    (name, said)
                )
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)
