"""TOML files by name, and conversion of TOML and JSON values to the types of a dataclass's fields."""

from __future__ import annotations

import dataclasses
import reprlib
import sys
import types
import typing
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pdtools.errors import InputError, PdtoolsError
from pdtools.files.inputs import decode_utf8, read_bytes

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80


@dataclasses.dataclass(frozen=True)
class TomlFiles:
    """The TOML files of one kind: those that come with pdtools, by name, and a user's, by path.

    Attributes:
        folder: the folder of the former, in ``pdtools.configs``.
        kind: the thing that a file describes, for messages.
    """

    folder: str
    kind: str

    @property
    def names(self) -> list[str]:
        """The names of those that come with pdtools."""
        return sorted(Path(each.name).stem for each in self._folder.iterdir() if each.name.endswith(".toml"))

    @property
    def _folder(self) -> Any:
        return resources.files("pdtools.configs").joinpath(self.folder)

    def text(self, source: str) -> tuple[str, str]:
        """The text of a file, by its name or path, and its path; a file of this name comes first.

        Raises:
            InputError: if there is none.
        """
        if Path(source).is_file():
            return decode_utf8(read_bytes(source), source), source
        if source not in self.names:
            hint = f"{self.kind}s: {', '.join(self.names)}, or a TOML file"
            raise InputError(f"no such file, nor a {self.kind} of this name", file=source, hint=hint)
        file = self._folder.joinpath(f"{source}.toml")
        return file.read_text("utf-8"), str(file)

    def read(self, source: str) -> dict[str, Any]:
        """The content of a file, by its name or path.

        Raises:
            InputError: if there is none, or it is no TOML.
        """
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        try:
            return tomllib.loads(self.text(source)[0])
        except ValueError as error:  # also a whole number of thousands of digits
            raise InputError(f"not TOML: {error}", file=source) from error
        except RecursionError as error:
            raise InputError("not usable TOML: nested too deep", file=source) from error


def shown(value: Any) -> str:
    """A value as text for a message about it; long or deep ones are cut."""
    return _REPR.repr(value)


def as_type(value: Any, wanted: Any) -> Any:
    """Convert a value to a field's type.

    Lists become tuples or arrays, objects dataclasses, brackets trees, and 3 becomes 3.0, or 3.0 3, as
    needed.

    Raises:
        ValueError: with the expected type.
    """
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is Literal:
        if value not in arguments:
            raise ValueError("one of " + ", ".join(map(str, arguments)))
        return value
    if origin in (typing.Union, types.UnionType):
        return _as_any_type(value, arguments)
    if origin is tuple:
        variadic = len(arguments) == 2 and arguments[1] is Ellipsis
        a_list = "a list" if variadic else f"a list of {len(arguments)}"
        if not isinstance(value, (list, tuple)) or not (variadic or len(value) == len(arguments)):
            raise ValueError(a_list)
        if variadic and all(type(v) is arguments[0] for v in value):
            return tuple(value)
        try:
            return tuple(as_type(v, arguments[0] if variadic else t) for v, t in _pairs(value, arguments))
        except ValueError as error:
            raise ValueError(f"{a_list}, each {error}") from None
    if getattr(origin, "__name__", "") == "ndarray":  # NDArray[…], of one axis
        import numpy as np

        number = typing.get_args(arguments[1])[0]
        plain: Any = tuple[int, ...] if issubclass(number, np.integer) else tuple[float, ...]
        try:
            return np.array(as_type(value, plain), dtype=number)
        except OverflowError:
            raise ValueError("a list of smaller numbers") from None
    if origin in (Counter, Mapping):
        value_type = int if origin is Counter else arguments[1]
        if not isinstance(value, dict):
            raise ValueError("an object")
        found = {key: as_type(item, value_type) for key, item in value.items()}
        return Counter(found) if origin is Counter else found
    if isinstance(value, str) and hasattr(wanted, "from_brackets"):
        try:
            return wanted.from_brackets(value)
        except PdtoolsError as error:
            raise ValueError(f"brackets: {error}") from None
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        types_of = _types_of(wanted)
        if not isinstance(value, dict) or value.keys() != types_of.keys():
            raise ValueError("an object with " + ", ".join(types_of))
        given = {name: as_type(value[name], types_of[name]) for name in types_of}
        try:
            return wanted(**given)
        except PdtoolsError as error:
            raise ValueError(str(error)) from None
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if type(value) is not wanted:
        names = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}
        raise ValueError(names.get(wanted, f"of type {wanted}"))
    return value


@lru_cache
def _types_of(wanted: type) -> dict[str, Any]:
    import numpy as np
    from numpy.typing import NDArray

    # Modules that are to be imported fast name these for type checkers only.
    return typing.get_type_hints(wanted, localns={"np": np, "NDArray": NDArray})


class UnknownKeyError(ValueError):
    """The error for a field that does not exist.

    Attributes:
        key: the key.
        known: the existing fields, in order.
    """

    def __init__(self, key: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown key {key!r}")
        self.key = key
        self.known = known


class WrongTypeError(ValueError):
    """A value that its field cannot take; as text: ``must be a number, not 'x'``.

    Attributes:
        key: the field.
    """

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


def settings_of(config_class: type) -> list[dataclasses.Field[Any]]:
    """The fields of a configuration's dataclass that can be set from outside."""
    return [field for field in dataclasses.fields(config_class) if field.init]


def as_field(value: Any, config_class: type, key: str) -> Any:
    """Convert a value to the type of one field of a dataclass.

    Raises:
        UnknownKeyError: if there is no such field.
        WrongTypeError: with the expected type.
    """
    known = [field.name for field in settings_of(config_class)]
    if key not in known:
        raise UnknownKeyError(key, known)
    try:
        return as_type(value, typing.get_type_hints(config_class)[key])
    except ValueError as error:
        raise WrongTypeError(key, f"must be {error}, not {shown(value)}") from None


def as_fields(values: Mapping[str, Any], config_class: type) -> dict[str, Any]:
    """Convert values to the types of a dataclass's fields; :func:`missing` lists missing fields.

    Raises:
        UnknownKeyError, WrongTypeError: for the first value that does not fit.
    """
    return {key: as_field(value, config_class, key) for key, value in values.items()}


def missing(given: Iterable[str], config_class: type) -> list[str]:
    """The fields without a default that are not given."""
    without = dataclasses.MISSING
    required = [
        field.name
        for field in settings_of(config_class)
        if field.default is without and field.default_factory is without
    ]
    return [key for key in required if key not in set(given)]


def _pairs(values: Sequence[Any], wanted: Sequence[Any]) -> list[tuple[Any, Any]]:
    return [(value, wanted[min(i, len(wanted) - 1)]) for i, value in enumerate(values)]


def _as_any_type(value: Any, choices: Sequence[Any]) -> Any:
    if type(None) in choices and value in (None, "none"):  # TOML has no null
        return None
    reasons = []
    for choice in choices:
        if choice is not type(None):
            try:
                return as_type(value, choice)
            except ValueError as error:
                reasons.append(str(error))
    raise ValueError(" or ".join(reasons + ["none"] * (type(None) in choices)))
