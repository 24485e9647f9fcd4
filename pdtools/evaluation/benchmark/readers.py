"""Readers of files that are no tables: each takes a file's name and gives rows with their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

READERS: Mapping[str, Callable[[str], Iterator[tuple[int, Mapping[str, Any]]]]] = {}
