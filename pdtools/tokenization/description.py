"""The content of a ``tokenizer.json``, and its adaptation if made elsewhere."""

from __future__ import annotations

import json
from typing import Any

from pdtools.errors import PdtoolsError

PAD, ROOT, EOS, UNK = "<pad>", "<root>", "<eos>", "<unk>"
SPLIT_AT_SPACES = {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False}
MOST_TOKENS = 1 << 24
_PARTS = ("normalizer", "pre_tokenizer", "normalizers", "pretokenizers")


def adapt(description: dict[str, Any], text_style: str) -> str:
    """Adapt a foreign ``tokenizer.json``: no padding or truncation, spaces only where we put them."""
    from tokenizers import Tokenizer as Backend

    adapted = {
        **description,
        "truncation": None,
        "padding": None,
        "normalizer": _no_added_spaces(description.get("normalizer"), text_style),
        "pre_tokenizer": _no_added_spaces(description.get("pre_tokenizer"), text_style),
    }
    backend = Backend.from_str(json.dumps(adapted))
    backend.add_special_tokens([name for name in (PAD, ROOT, EOS) if backend.token_to_id(name) is None])
    return str(backend.to_str())


def _no_added_spaces(part: Any, text_style: str) -> Any:
    """Make a normalizer's or pre-tokenizer's description add no space of its own to a word.

    In ``ptb`` style a space before the first word stays, for other users of the same file: we put
    one before every word ourselves, so it is never doubled.
    """
    if not isinstance(part, dict):
        return part
    kind = part.get("type")
    if kind == "Sequence":
        name = "normalizers" if "normalizers" in part else "pretokenizers"
        inner = (_no_added_spaces(item, text_style) for item in part[name])
        return {**part, name: [item for item in inner if item is not None]}
    if kind == "Prepend":
        return None
    if kind == "ByteLevel":
        return {**part, "add_prefix_space": text_style == "ptb"}
    if kind == "Metaspace":
        return {**part, "prepend_scheme": "first" if text_style == "ptb" else "never"}
    return part


def marks_spaces(part: Any) -> bool:
    """Return whether a tokenizer's tokens show if a space came before them."""
    if isinstance(part, list):
        return any(marks_spaces(item) for item in part)
    if not isinstance(part, dict):
        return False
    if part.get("type") in ("ByteLevel", "Metaspace"):
        return True
    if part.get("type") == "Replace" and part.get("content") == "▁":
        return True
    return any(marks_spaces(part.get(name)) for name in _PARTS)


def splits_bytes(part: Any) -> bool:
    """Return whether a pre-tokenizer is GPT-2's, in which every space begins a new token."""
    return isinstance(part, dict) and part.get("type") == "ByteLevel" and bool(part.get("use_regex", True))


def check_numbers(description: Any) -> None:
    """Refuse token numbers so large that they would take memory which no vocabulary needs.

    Raises:
        PdtoolsError: if it describes no model.
        ValueError: for numbers from ``MOST_TOKENS`` on, negative ones, and values that are no numbers.
    """
    if not isinstance(description, dict) or "model" not in description:
        raise PdtoolsError("not a tokenizer.json: it has no model")
    vocabulary = description["model"].get("vocab")
    numbers = list(vocabulary.values()) if isinstance(vocabulary, dict) else []
    numbers += [token["id"] for token in description.get("added_tokens") or []]
    if any(type(index) is not int or not 0 <= index < MOST_TOKENS for index in numbers):
        raise ValueError(f"tokens are numbered from 0 to {MOST_TOKENS - 1:,}")


def vocabulary_of(description: dict[str, Any]) -> dict[str, int] | None:
    """Every vocabulary entry's number; None if the model lists its entries in another way."""
    vocabulary = description["model"].get("vocab")
    if not isinstance(vocabulary, dict):
        return None
    added = {token["content"]: token["id"] for token in description.get("added_tokens") or []}
    return {**vocabulary, **added}
