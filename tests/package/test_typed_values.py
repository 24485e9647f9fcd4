"""Values of TOML and JSON as the types of fields; and that models take settings of all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from pdtools.errors import PdtoolsError
from pdtools.files.typed_values import UnknownKeyError, WrongTypeError, as_fields, as_type, missing
from pdtools.models import registry
from pdtools.models.registry import ModelKind, make_config
from pdtools.trees import Tree


@pytest.mark.parametrize(
    ("value", "wanted", "converted"),
    [
        (3, float, 3.0),
        (3.0, int, 3),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([1, 2], tuple[float, int], (1.0, 2)),
        ("none", int | None, None),
        (5, int | None, 5),
        ("b", Literal["a", "b"], "b"),
        ({"a": 1.0}, Counter[str], Counter(a=1)),
        ("(S (A a))", Tree, Tree.from_brackets("(S (A a))")),
    ],
)
def test_values_of_a_type(value: Any, wanted: Any, converted: Any) -> None:
    found = as_type(value, wanted)
    assert (found, type(found)) == (converted, type(converted))


@pytest.mark.parametrize(
    ("value", "wanted", "message"),
    [
        (True, int, "a whole number"),
        (3.5, int, "a whole number"),
        ("3", float, "a number"),
        (1, bool, "true or false"),
        ("x", int | None, "a whole number or none"),
        ("c", Literal["a", "b"], "one of a, b"),
        ([1, "x"], tuple[int, ...], "a list, each a whole number"),
        ([1], tuple[int, int], "a list of 2"),
        ([1, 2**40], NDArray[np.int32], "a list of smaller numbers"),
        ([["a", 1]], Counter[str], "an object"),
        ("(S", Tree, "brackets: .*"),
    ],
)
def test_values_of_other_types(value: Any, wanted: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        as_type(value, wanted)


@dataclass(frozen=True, kw_only=True)
class Windowed:
    """A model's configuration with settings that no model has so far."""

    window: int | None = 8
    sizes: tuple[int, ...] = (1,)


def test_models_take_settings_of_all_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.MODELS, "windowed", ModelKind(Windowed, lambda config: None))  # type: ignore[arg-type,return-value]
    assert make_config("windowed", {"window": None, "sizes": [2, 3]}) == Windowed(window=None, sizes=(2, 3))
    assert make_config("windowed", {"window": 5}).window == 5
    with pytest.raises(PdtoolsError, match="windowed: sizes must be a list, not 3"):
        make_config("windowed", {"sizes": 3})


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One field has to be given."""

    size: int
    rate: float = 0.5


def test_values_of_a_dataclass_are_checked_in_one_place() -> None:
    assert as_fields({"rate": 1, "size": 2.0}, Shape) == {"rate": 1.0, "size": 2}
    assert missing({"rate": 1}, Shape) == ["size"]
    assert missing({"size": 1}, Shape) == []
    with pytest.raises(UnknownKeyError) as unknown:
        as_fields({"depth": 1}, Shape)
    assert (unknown.value.key, unknown.value.known) == ("depth", ["size", "rate"])
    with pytest.raises(WrongTypeError, match="^must be a whole number, not 'x'$") as wrong:
        as_fields({"size": "x"}, Shape)
    assert wrong.value.key == "size"
