"""Passages of docs/reference that come from code: commands, options, keys of recipes, data sets.

``studies/pages.py`` writes these passages into the pages (``make docs``), and a test says when one is stale:
``<!-- generated: reference options eval-sg -->`` is what :func:`options` makes of ``eval-sg``.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import types
import typing
from collections import Counter
from dataclasses import replace
from enum import Enum
from functools import cache
from typing import Any

from typer import Typer
from typer.models import ArgumentInfo, ParameterInfo
from typer.utils import get_params_from_function

_SEVERAL = 3  # commands
# Shared options that most commands have together, by the name that stands for them in the lists of commands.
TOGETHER = {
    "search": "`--beam`, `--margin`, `--search`",
    "output": "`--overwrite`, `--json`, `--quiet`, `-q`",
    "chunks": "`--workers`, `--shard`, `--scheduler`, `--resume`",
    "machine": "`--device`, `--threads`",
}
_PANELS = ("Arguments", "Input", "Model", "Search", "Output", "Parallel", "Options")
# Code in help texts, besides options and commands.
_CODE = (
    r'"[^"]+"',
    r"\(X \([^()]*\)[^()]*\)",  # a tree
    r"(?<![\w/.])\w[\w/-]*(?:\.\w+)*\.(?:csv|job|json|jsonl|md|parquet|svg|text|tok|toml|tsv|txt)\b",
    r"\b\w+(?:\.\w+)+=[\w.,]*\w",  # settings
    r"\$?\b(?:\w+[./])*[A-Za-z]\w*_\w+(?:=[\w.,]*\w)?\b",  # names with underscores
    r"(?<![\w.])\.[a-z]+\b",  # suffixes
)
# A line of a list of names in a docstring: names, their type if it is there, their meaning.
_ENTRY = re.compile(r"    ([^\s:(]+(?:, [^\s:(]+)*)(?: \(([^)]*)\))?: (.*)")


def commands() -> dict[str, Any]:
    """Every command with its function, by the words that follow ``pdtools``, in the order of the help."""
    from pdtools.cli.main import SECTIONS, found_in_module

    found = {}
    for name in (each for section in SECTIONS.values() for each in section):
        function = found_in_module(name)
        if isinstance(function, Typer):
            found |= {f"{name} {each.name}": each.callback for each in function.registered_commands}
        else:
            found[name] = function
    return found


def about(*command: str) -> str:
    """The first sentence of a command's help, its examples with what they print, then the rest."""
    text = commands()[" ".join(command)].__doc__
    first, *paragraphs = re.split(r"\n\n+", inspect.cleandoc(text))
    code = ""
    for call, printed in examples(text):
        code += "".join(f"    {line}\n" for line in call)
        if printed:
            code += "\n".join(["", "```text", *printed, "```", "", ""])
    rest = [_prose(part) for part in paragraphs if not part.startswith("\b")]
    return "\n\n".join([_prose(first), code.rstrip("\n"), *rest])


def examples(text: str) -> list[tuple[list[str], list[str]]]:
    """The examples of a help: the lines of each call, and the lines that it prints, which are indented."""
    found: list[tuple[list[str], list[str]]] = []
    for part in re.split(r"\n\n+", inspect.cleandoc(text)):
        is_continued = False
        for line in inspect.cleandoc("\n" + part.partition(":\n")[2]).splitlines():
            if not part.startswith("\b\nExample:"):
                break
            if is_continued:
                found[-1][0].append(line)
            elif line.startswith(" "):
                found[-1][1].append(line)
            else:
                found.append(([line], []))
            is_continued = line.endswith("\\")
    return [(call, inspect.cleandoc("\n" + "\n".join(printed)).splitlines()) for call, printed in found]


def _prose(text: str) -> str:
    """A paragraph of help as one of Markdown."""
    text = " ".join(text.split())
    done, end = "", 0
    for match in _code().finditer(text):
        done += _escaped(text[end : match.start()]) + f"`{match[0].strip(chr(34))}`"
        end = match.end()
    return done + _escaped(text[end:])


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", r"\*").replace("](", "] (")


@cache
def _code() -> re.Pattern[str]:
    """Code in help texts: commands, options with a value that is a choice or in capitals, and the rest."""
    choices: dict[str, set[str]] = {"--beam": {"auto"}, "--context": {"document"}}
    for function in commands().values():
        for parameter in get_params_from_function(function).values():
            kind, _ = _type(parameter.annotation)
            for option in getattr(parameter.default, "param_decls", None) or ():
                choices.setdefault(option, set()).update(_choices(kind))
    chosen = "|".join(f"{name} (?:{'|'.join(sorted(values))})" for name, values in choices.items() if values)
    other = r"--[a-z][\w-]*(?:=[\w/-]+| [A-Z]+(?:[/=][A-Z]+)*| \w+(?:[=+,]\w+)+)?"
    option = rf"(?<![\w-])(?:(?:{chosen})\b|{other}\b)"
    named = "|".join(sorted({*commands(), *(name.split()[0] for name in commands())}, key=len, reverse=True))
    return re.compile("|".join([_CODE[0], rf"\bpdtools (?:{named})\b(?: {option})?", option, *_CODE[1:]]))


def command(*words: str) -> str:
    """A command's help: what it is for, its examples, then its arguments and options."""
    return f"{about(*words)}\n\nOptions:\n\n{options(*words)}"


def options(*command: str) -> str:
    """The list of a command's arguments and options; of shared ones, which are on another page, the names."""
    shared = _shared()
    found = [each for panel in _panels(" ".join(command)).values() for each in panel]
    lines = [f"- {name}: {said}" for _, name, said in found if (name, _alike(said)) not in shared]
    linked = [
        option + " (required)" * ("Required." in said)
        for option, name, said in found
        if (name, _alike(said)) in shared
    ]
    if linked:
        names = ", ".join(linked)
        for name, together in TOGETHER.items():
            names = names.replace(together, f"*{name}*")
        lines.append(f"- [shared](options.md): {names}")
    return "\n".join(lines)


def shared_options() -> str:
    """The table of the options that several commands have alike, by panel, and the names of some together."""
    lines = []
    for panel in _PANELS:
        rows = [f"| {name} | {said} |" for (name, said), of in _shared().items() if of == panel]
        lines += [f"| *{panel if panel != 'Options' else 'Other'}* | |", *rows] if rows else []
    together = "; ".join(f"*{name}* is {options}" for name, options in TOGETHER.items())
    return "\n".join(["| option | |", "|---|---|", *lines, "", f"In the lists of commands, {together}."])


def _alike(said: str) -> str:
    """The meaning of an option, without what may differ between commands that share it."""
    return said.replace(" Repeatable.", "").replace(" Required.", "")


@cache
def _shared() -> dict[tuple[str, str], str]:
    """The names and meanings of options that several commands have alike, each with its panel."""
    counts = Counter(
        (name, _alike(said), panel)
        for command in commands()
        for panel, found in _panels(command).items()
        for _, name, said in found
        if panel != "Arguments"
    )
    commonest = {name: said for (name, said, _), _ in reversed(counts.most_common())}
    return {
        (name, said): panel
        for (name, said, panel), n in counts.items()
        if n >= _SEVERAL and said == commonest[name]
    }


@cache
def _panels(command: str) -> dict[str, list[tuple[str, str, str]]]:
    """The panels of a command: of each argument and option its names, these with a value, and its meaning."""
    panels: dict[str, list[tuple[str, str, str]]] = {panel: [] for panel in _PANELS}
    for parameter in get_params_from_function(commands()[command]).values():
        info: Any = parameter.default
        if isinstance(info, ParameterInfo) and not info.hidden:
            is_argument = isinstance(info, ArgumentInfo)
            panel = info.rich_help_panel or ("Arguments" if is_argument else "Options")
            name, said = _row(parameter.name, parameter.annotation, info, is_argument=is_argument)
            panels[panel].append((", ".join(re.findall("`[^`]+`", name)), name, said))
    return {panel: found for panel, found in panels.items() if found}


def _row(parameter: str, annotation: Any, info: Any, *, is_argument: bool) -> tuple[str, str]:
    kind, repeatable = _type(annotation)
    required = info.default is ...
    said = [re.sub(r"([^.)])$", r"\1.", info.help)]
    choices = _choices(kind)
    if is_argument:
        name = (info.metavar or parameter.upper()).replace("|", " or ")
    else:
        names = [name for each in info.param_decls or [_option(parameter)] for name in each.split("/")]
        value = info.metavar or ""
        name = ", ".join(f"`{each.strip()}`" for each in names)
        name += f" {value.replace('|', ' or ')}" if value and not choices else ""
        said += ["Repeatable."] if repeatable and "repeatable" not in info.help.lower() else []
    if choices:
        marks = {str(info.default): " (default)"} if not is_argument else {}
        said.append(f"{', '.join(f'`{each}`{marks.get(each, str())}' for each in choices)}.")
    if info.max is not None:
        said.append(f"From {info.min:,.0f} to {info.max:,.0f}.")
    elif info.min and info.min > 1:
        said.append(f"At least {info.min:,.0f}.")
    if kind is bool and info.default is not None and "/" in (info.param_decls or ("",))[0]:
        said.append(f"Default: `{info.param_decls[0].split('/')[0 if info.default else 1]}`.")
    elif not (required or choices) and info.default not in (None, "", [], ()) and kind is not bool:
        said.append(f"Default: `{info.default}`.")
    said += ["Required."] if required else []
    return name, _cell(" ".join(said))


def _choices(kind: Any) -> list[str]:
    if typing.get_origin(kind) is typing.Literal:
        return list(typing.get_args(kind))
    return [str(each.value) for each in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _option(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"


def _cell(text: str) -> str:
    """Text of help within a table's cell; what stands between backticks is code already."""
    parts = re.split("(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _prose_cell(part) for part in parts)


def _prose_cell(text: str) -> str:
    before = text[: len(text) - len(text.lstrip())]
    after = text[len(text.rstrip()) :] if text.strip() else ""
    return before + _prose(text).replace("|", "&#124;") + after


def _type(annotation: Any) -> tuple[Any, bool]:
    """The type of a value, without None and the list of it; whether there may be several."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        annotation = next(each for each in typing.get_args(annotation) if each is not types.NoneType)
    repeatable = typing.get_origin(annotation) is list
    return (typing.get_args(annotation)[0] if repeatable else annotation), repeatable


def summary(*names: str) -> str:
    """A table of commands: each with its page and its purpose in a few words."""
    from pdtools.cli.main import found_in_module

    said = {}
    for name in names:
        function = found_in_module(name)
        if isinstance(function, Typer):
            words = [each.partition(" ")[2] for each in commands() if each.startswith(f"{name} ")]
            said[name] = f"{function.info.short_help} Commands: {', '.join(words)}."
        else:
            said[name] = function.short_help or function.__doc__
    rows = [
        f"| [`{name}`]({name}.md) | {_cell(said[name].strip().partition(chr(10))[0])} |" for name in names
    ]
    return "\n".join(["| command | |", "|---|---|", *rows])


def keys(model: str = "", beyond: str = "") -> str:
    """Every key of a kind of model (without one: of training), less those that another kind has alike."""
    from pdtools.cli.config import all_settings

    settings = [each for each in all_settings() if not each.required]
    others = [replace(each, model=model) for each in settings if each.model == beyond]
    rows = []
    for setting in settings:
        if setting.model == (model or None) and setting not in others:
            values = setting.type.split("|")
            if len(values) == 1:
                values = [] if setting.default is None else [json.dumps(setting.default)]
            values.sort(key=lambda each: each != setting.default)
            listed = ", ".join(f"`{each}`" for each in values)
            rows.append(f"| `{setting.key.partition('.')[2]}` | {listed} | {_meaning(setting.meaning)} |")
    return "\n".join(["| key | default, other values | |", "|---|---|---|", *rows])


def _meaning(docstring: str) -> str:
    """Text of a docstring, for a table's cell."""
    text = re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", docstring).replace("``", "`").rstrip(".")
    parts = re.split("(`[^`]*`)", text)
    return "".join(
        each if each.startswith("`") else each.replace("|", "&#124;").replace("*", r"\*") for each in parts
    )


def table(place: str, first: str = "key") -> str:
    """The list in a docstring (Attributes, Columns, Files, Keys): names, types if it has them, meanings.

    Args:
        place: a module, or a name in one: ``pdtools.inspection.trace.Trace``.
        first: the heading of the names.
    """
    found = pkgutil.resolve_name(place)
    rows: list[tuple[str, str, str]] = []
    _, _, listed = re.split(r"\n(Attributes|Columns|Files|Keys):\n", inspect.getdoc(found) or "", maxsplit=1)
    for line in listed.splitlines():
        if entry := _ENTRY.fullmatch(line):
            rows.append((entry[1], entry[2] or "", entry[3]))
        elif line.startswith("        "):
            rows[-1] = (*rows[-1][:2], f"{rows[-1][2]} {line.strip()}")
        elif line.strip():
            break
    typed = any(kind for _, kind, _ in rows)
    lines = [f"| {first} | {'type | ' if typed else ''}|", f"|---|{'---|' if typed else ''}---|"]
    for names, kind, meaning in rows:
        name = ", ".join(f"`{each}`" for each in names.split(", "))
        lines.append(f"| {name} | {f'{kind} | ' if typed else ''}{_meaning(meaning)} |")
    return "\n".join(lines)


def datasets() -> str:
    """The data sets that can be downloaded."""
    from pdtools.provenance.datasets import DATA_SETS, read_dataset

    found = map(read_dataset, DATA_SETS.names)
    rows = [
        f"| `{each.name}` | {each.about} | {each.licence if '-NC' in each.licence else each.terms} |"
        for each in found
    ]
    return "\n".join(["| name | | licence |", "|---|---|---|", *rows])


PASSAGES = {each.__name__: each for each in (command, shared_options, summary, keys, table, datasets)}
