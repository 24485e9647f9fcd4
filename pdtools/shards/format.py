"""The shard format: a folder of Parquet parts, ``manifest.json``, ``rejects.jsonl``, a tokenizer, and a card
(``README.md``) that tells Hugging Face's ``datasets`` which of these files are rows.

A row is a sentence of n tokens, ``ROOT w_1 … w_n EOS`` (or a block, see :class:`ShardSettings`).

Columns:
    id (int64): row number in the folder, from 0.
    text (string): the words with single spaces, without treebank escapes (a blank within a word is a no-break
        space); in ``raw`` style the text that was tokenized.
    tokens (list of int32): n + 2 token numbers, from ROOT to end-of-sentence.
    attach (list of int32): as long: the position that each token is reduced with; its own if it only shifts;
        0 for ROOT and end-of-sentence.
    word (list of int32): as long: the token's word, from 0; -1 for ROOT and end-of-sentence.
    labels (list of int32): the constituents' labels in pre-order, as indices in the manifest's ``labels``; -1
        for an unknown one.
    opens, closes (list of int32): n numbers: constituents that open just before, and close just after, each
        token.
    arc_head, arc_dependent (list of int32): a number for each dependency arc, words from 1, 0 for the root.
        Arcs are ordered by their later word t; for each t first those to t, by head, then those from t, by
        dependent.
    tape (binary): the packed lower triangle of the stack tape: row k is W_k, k + 1 bytes, depths over 255 as
        255; with ``--tape packed``.
    document (int64): for windows: the document, from 0.
    item (string): for prompts: the item's ``id``.
    answer (int32): for prompts with labels: index in ``settings.prompt_form.task.answers``; -1 if unknown
        (the row then has the first answer).
    target (float64): for prompts with numbers: the number; NaN if unknown.

In a window every sentence is ``ROOT w_1 … w_n``: its last token attaches to its ROOT. Numbers in ``word``
go on through the row, and in ``text`` there is a line break between sentences.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import json_text
from pdtools.tokenization import Tokenizer

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "pdtools shards"
FORMAT_VERSION = "1"
MANIFEST_FILE = "manifest.json"
CARD_FILE = "README.md"

# Longer rows have tapes, n (n + 1) / 2 bytes, of more than 256 MiB.
MOST_PACKED = 23_169

CONSTITUENTS = ("labels", "opens", "closes")
"""The columns of labelled constituents."""
ARCS = ("arc_head", "arc_dependent")
"""The columns of dependency arcs."""

Binarization = Literal["given", "right", "left"]
_BINARIZED = {
    "given": "have groups of their own",
    "right": "are binarized to the right",
    "left": "are binarized to the left",
}


@dataclass(frozen=True, kw_only=True)
class ShardSettings:
    """The content of a folder of shards, besides the tokenizer's settings.

    Attributes:
        layout: ``sentence``: a row is one sentence with ROOT before it and EOS after; ``block``: a fixed
            number of tokens of running text with ROOT before them and EOS after every line, without trees:
            every token shifts; ``window``: whole sentences of one document, each with its own ROOT, as many
            as fit.
        factor: how nodes of more than two children are binarized: ``right`` or ``left``, which undoes the
            binarization that trees have, or ``given``, which keeps it and binarizes the rest to the right.
        tape: ``packed``: the tape is stored; ``none``: it is not.
        constituents: ``labelled``: the trees' constituents are stored; ``none``: not.
        arcs: ``unlabelled``: dependency arcs are stored; ``none``: they are not.
        window: the most positions of a window; 0 for other layouts.
        documents: for windows, the unit of a document: the text between blank lines (``blank``), a file, or
            all files together (``none``).
        prompts: for windows that each hold one prompt, the kind of answer: ``labels``, or ``numbers``.
    """

    layout: Literal["sentence", "window", "block"] = "sentence"
    factor: Binarization = "given"
    tape: Literal["packed", "none"] = "packed"
    constituents: Literal["labelled", "none"] = "none"
    arcs: Literal["unlabelled", "none"] = "none"
    window: int = 0
    documents: Literal["blank", "file", "none"] = "none"
    prompts: Literal["labels", "numbers", "none"] = "none"

    @property
    def branching(self) -> Literal["right", "left"]:
        """The direction of what is binarized here, the tokens of a word too."""
        return "left" if self.factor == "left" else "right"

    @classmethod
    def described(cls, settings: Mapping[str, Any]) -> ShardSettings:
        """The settings in a manifest, which holds further entries.

        Raises:
            PdtoolsError: if one is missing or has no valid value.
        """
        omitted = {"arcs": "none", "documents": "none", "prompts": "none", "window": 0}  # see `record`
        return cls(**{field.name: settings.get(field.name, omitted.get(field.name)) for field in fields(cls)})

    def record(self) -> dict[str, Any]:
        """The settings as manifests have them: for windows, only those that describe windows."""
        omitted = set() if self.layout == "window" else {"window", "documents"}
        omitted |= {name for name in ("arcs", "prompts") if getattr(self, name) == "none"}
        return {name: value for name, value in asdict(self).items() if name not in omitted}

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(ShardSettings).items():
            choices = get_args(kind)
            if choices and getattr(self, name) not in choices:
                raise PdtoolsError(f"{name} must be {' or '.join(choices)}, not {getattr(self, name)!r}")
        for name in ("constituents", "arcs"):
            if self.layout != "sentence" and getattr(self, name) != "none":
                raise PdtoolsError(f"layout {self.layout} has no {name}")
        if not isinstance(self.window, int) or (self.window >= 2) != (self.layout == "window"):
            raise PdtoolsError("windows have 2 positions or more, and only they have a length")
        if self.layout != "window" and self.prompts != "none":
            raise PdtoolsError(f"layout {self.layout} has no prompts")

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The columns of windows, besides the columns of every row."""
        import pyarrow as pa

        own = {"document": pa.int64()} if self.layout == "window" else {}
        if self.prompts != "none":
            own["item"] = pa.string()
            own |= {"answer": pa.int32()} if self.prompts == "labels" else {"target": pa.float64()}
        return own


def check_binarization(folder: Path, found: Mapping[str, Any], trained: Mapping[str, Any]) -> None:
    """Compare the binarization of a folder's trees with that of the trees that a model is trained on.

    Few trees with groups of their own may all look right-binarized (or left-): then there is a warning.

    Args:
        folder: the shards.
        found: their settings in the manifest.
        trained: the settings of the model's training shards.

    Raises:
        InputError: if they are binarized in different ways.
    """
    # Settings that say nothing are of models that were released: right, unless they say left.
    one, other = (
        each.get("binarization") or ("left" if each.get("factor") == "left" else "right")
        for each in (found, trained)
    )
    if one == other:
        return
    one_is, other_is = (_BINARIZED.get(each, f"are binarized {each}") for each in (one, other))
    reason = f"its trees {one_is}, but the trees of training {other_is}"
    if found["factor"] == other == "given":
        warnings.warn(f"{folder}: {reason}", stacklevel=2)
    else:
        hint = "pdtools parse and pdtools tapes: --binarize as for training"
        raise InputError(reason, file=folder, hint=hint)


def arrow_schema(
    settings: ShardSettings, tokenizer: Tokenizer, sources: Sequence[dict[str, Any]]
) -> pa.Schema:
    """The columns, with the meaning of their numbers as metadata."""
    import pyarrow as pa

    numbers = pa.list_(pa.int32())
    fields = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("tokens", numbers, nullable=False),
        pa.field("attach", numbers, nullable=False),
        pa.field("word", numbers, nullable=False),
    ]
    if settings.constituents == "labelled":
        fields += [pa.field(name, numbers, nullable=False) for name in CONSTITUENTS]
    if settings.arcs != "none":
        fields += [pa.field(name, numbers, nullable=False) for name in ARCS]
    fields += [pa.field(name, kind, nullable=False) for name, kind in settings.columns.items()]
    if settings.tape == "packed":
        fields.append(pa.field("tape", pa.binary(), nullable=False))
    metadata = {
        "pdtools.format_version": FORMAT_VERSION,
        "pdtools.layout": settings.layout,
        "pdtools.binarization": settings.factor,
        "pdtools.text_style": tokenizer.text_style,
        "pdtools.tokenizer": tokenizer.fingerprint,
        "pdtools.sources": json_text(list(sources)),
    }
    return pa.schema(fields, metadata=metadata)
