"""Checks that rows, from any writer, are in the format (:mod:`pdtools.shards.format`).

A few passes over flat arrays: a batch is checked at once, and single faults are located only if there are
    any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pdtools.errors import InputError
from pdtools.files.arrow import numpy_array
from pdtools.shards.format import ARCS, ShardSettings, arrow_schema
from pdtools.tokenization import Tokenizer

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_TAPE_BYTES = 1 << 24
_SPACE, _LINE_FEED = b" \n"

REMAKE = "make the shards again with pdtools tapes"

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


def check_schema(schema: pa.Schema, settings: ShardSettings, tokenizer: Tokenizer, file: str | Path) -> None:
    """Refuse a part whose columns or metadata differ from the manifest's. Further columns may be there.

    Raises:
        InputError: naming the file and the column.
    """
    wanted = arrow_schema(settings, tokenizer, [])
    for field in wanted:
        n_columns = len(schema.get_all_field_indices(field.name))
        if n_columns != 1:
            reason = f"{n_columns or 'no'} column{'s' * (n_columns > 1)} {field.name!r}"
            raise InputError(reason, file=file, hint=REMAKE)
        if (found := schema.field(field.name).type) != field.type:
            reason = f"column {field.name!r} holds {found}, not {field.type}"
            raise InputError(reason, file=file, hint=REMAKE)
    if "tape" in schema.names and "tape" not in wanted.names:
        raise InputError("a column 'tape', but none in the manifest", file=file, hint=REMAKE)
    metadata = schema.metadata or {}
    for key, value in (wanted.metadata or {}).items():
        if key != b"pdtools.sources" and metadata.get(key, value) != value:
            shown = metadata[key].decode("utf-8", "replace")
            reason = f"{key.decode()} is {shown}, but {value.decode()} in the manifest"
            raise InputError(reason, file=file, hint=REMAKE)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The tokens of some rows in flat columns, with names for the errors about them.

    Attributes:
        file: the part that the rows are from.
        first: the number of their first row in it.
        offsets: int64 (R + 1), the beginning of each row in the flat columns, and the last one's end.
        item: the name of an item in the flat columns.
        item_0: the number of the first item of a row.
    """

    file: str | Path
    first: int
    offsets: Int64
    item: str = "token"
    item_0: int = 0

    def refuse(self, row: int, column: str, reason: str) -> None:
        """Make an error about row ``row`` of these."""
        place = f"row {self.first + row} (from 0), column {column!r}: "
        raise InputError(place + reason, file=self.file, hint=REMAKE)

    def check(self, bad: NDArray[np.bool_], column: str, reason: Callable[[int], str]) -> None:
        """Refuse the first marked row (R); the reason is given its number."""
        if bad.any():
            row = int(np.argmax(bad))
            self.refuse(row, column, reason(row))

    def check_nulls(self, values: pa.Array, column: str) -> None:
        """Refuse the first row that is null."""
        if values.null_count:
            self.check(_found(values.is_null()), column, lambda row: "null")

    def check_tokens(self, bad: NDArray[np.bool_], column: str, reason: Callable[[int], str]) -> None:
        """Refuse the first marked item (n_1 + … + n_R); the reason is given its place in the flat columns."""
        if bad.any():
            place = int(np.argmax(bad))
            row = int(np.searchsorted(self.offsets, place, side="right")) - 1
            number = place - int(self.offsets[row]) + self.item_0
            self.refuse(row, column, f"{self.item} {number} {reason(place)}")


def check_rows(
    batch: pa.RecordBatch,
    tape_bytes: Int32 | None,
    settings: ShardSettings,
    tokenizer: Tokenizer,
    file: str | Path,
    first: int,
    first_id: int,
) -> None:
    """Refuse rows that the format does not allow.

    Args:
        batch: R rows, with columns that pass :func:`check_schema`, without ``tape``.
        tape_bytes: int32 (R), the bytes of each row's tape, if there are tapes; see :func:`bytes_of_tapes`.
        settings: the layout, and the most positions of a window.
        tokenizer: the tokenizer that made them.
        file: the file to name in errors.
        first: the number of the batch's first row in the file.
        first_id: its number in the folder.

    Raises:
        InputError: naming file, row, column and fault.
    """
    import pyarrow.compute as pc

    layout, window = settings.layout, settings.window
    lengths: dict[str, Int32] = {}
    flat: dict[str, Int32] = {}
    nowhere = _Rows(file, first, np.zeros(1, dtype=np.int64))
    for name in batch.schema.names:
        column = batch.column(name)
        nowhere.check_nulls(column, name)
        if name not in ("id", "text", "document", "item", "answer", "target"):
            lengths[name] = numpy_array(pc.list_value_length(column), np.int32)
            values = column.flatten()
            if values.null_count:
                rows = _Rows(file, first, _offsets(lengths[name]))
                nulls = _found(values.is_null())
                rows.check_tokens(nulls, name, lambda place: "is null")
            flat[name] = numpy_array(values, np.int32)
    rows = _Rows(file, first, _offsets(lengths["tokens"]))
    least = 1 if layout == "block" else 2
    wanted = {"block": "ROOT", "window": "ROOT and a token"}.get(layout, "ROOT and EOS")
    rows.check(lengths["tokens"] < least, "tokens", lambda row: f"without {wanted}")
    n_tokens = lengths["tokens"]
    for name in ("attach", "word"):
        unequal = np.flatnonzero(lengths[name] != n_tokens)
        if len(unequal):
            row = int(unequal[0])
            rows.refuse(row, name, f"{lengths[name][row]} numbers for {n_tokens[row]} tokens")
    ids = numpy_array(batch.column("id"), np.int64)
    rows.check(
        ids != np.arange(first_id, first_id + len(ids)),
        "id",
        lambda row: f"{ids[row]}, but it is row {first_id + row} of the folder",
    )
    if layout == "window":
        rows.check(n_tokens > window, "tokens", lambda row: f"{n_tokens[row]}, more than a window's {window}")
        documents = numpy_array(batch.column("document"), np.int64)
        rows.check(
            np.diff(documents, prepend=0) < 0, "document", lambda row: f"{documents[row]} after later ones"
        )
    _check_ids(rows, flat["tokens"], layout, tokenizer)
    is_root = flat["tokens"] == tokenizer.root_id
    if layout == "sentence":
        is_root = np.zeros(len(is_root), dtype=bool)
        is_root[rows.offsets[:-1]] = True
    n_words, lines = _check_text(rows, batch.column("text"), layout)
    if layout == "block":
        _check_block(rows, flat["attach"], flat["word"], n_words)
    else:
        _check_attachments(rows, flat["attach"], is_root)
        _check_words(rows, flat["word"], is_root, n_words, layout)
        n_roots = np.add.reduceat(is_root.astype(np.int64), rows.offsets[:-1])
        rows.check(n_roots != lines, "text", lambda row: f"{lines[row]} lines for {n_roots[row]} ROOTs")
    if "labels" in flat:
        _check_constituents(rows, lengths, flat, len(tokenizer.labels))
    if ARCS[0] in flat:
        _check_arcs(rows, lengths, flat)
    if tape_bytes is not None:
        n = lengths["tokens"].astype(np.int64)
        wanted_bytes = n * (n + 1) // 2
        rows.check(
            tape_bytes != wanted_bytes,
            "tape",
            lambda row: f"{tape_bytes[row]} bytes, but {n[row]} tokens have {wanted_bytes[row]}",
        )


def bytes_of_tapes(table: pq.ParquetFile, file: str | Path) -> Int32:
    """The bytes of each row's tape in a part, int32 (rows). Few tapes are in memory at once.

    Raises:
        InputError: for a tape that is null.
    """
    import pyarrow.compute as pc

    about = table.metadata
    n_bytes = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    at_once = max(1, _TAPE_BYTES * about.num_rows // max(n_bytes, 1))
    found = [np.zeros(0, dtype=np.int32)]
    for batch in table.iter_batches(at_once, columns=["tape"]):
        column = batch.column(0)
        _Rows(file, sum(map(len, found)), np.zeros(1, dtype=np.int64)).check_nulls(column, "tape")
        found.append(numpy_array(pc.binary_length(column), np.int32))
    return np.concatenate(found)


def _check_ids(rows: _Rows, tokens: Int32, layout: str, tokenizer: Tokenizer) -> None:
    size = tokenizer.vocab_size
    if tokens.min() < 0 or tokens.max() >= size:
        rows.check_tokens(
            (tokens < 0) | (tokens >= size),
            "tokens",
            lambda place: f"is {tokens[place]}, beyond the vocabulary of {size}",
        )
    firsts, lasts = rows.offsets[:-1], rows.offsets[1:] - 1
    rows.check(tokens[firsts] != tokenizer.root_id, "tokens", lambda row: "does not begin with ROOT")
    if layout == "window":
        roots = tokens == tokenizer.root_id
        rows.check(roots[lasts], "tokens", lambda row: "ends with ROOT")
        rows.check_tokens(roots[:-1] & roots[1:], "tokens", lambda place: "is a ROOT, and so is the next")
    if layout == "sentence":
        rows.check(tokens[lasts] != tokenizer.eos_id, "tokens", lambda row: "does not end with EOS")


def _check_attachments(rows: _Rows, attach: Int32, is_root: Bool) -> None:
    """Check the attachments of sentences and windows, whose ROOTs are marked (n_1 + … + n_R).

    EOS is the last token of a row in the sentence layout.
    """
    begins = np.repeat(rows.offsets[:-1].astype(np.int32), np.diff(rows.offsets))
    position = np.arange(len(attach), dtype=np.int32) - begins
    roots = np.flatnonzero(is_root).astype(np.int32)
    root = roots[np.cumsum(is_root) - 1] - begins  # the position of the ROOT that each token is under
    ends = np.append(is_root[1:], True)  # the last tokens of sentences
    rows.check_tokens(
        (attach < root) | (attach > position),
        "attach",
        lambda place: f"attaches to {attach[place]}: to itself or one before it in its sentence only",
    )
    rows.check_tokens(
        (attach == root) != (ends | is_root),
        "attach",
        lambda place: f"attaches to {attach[place]}: the last token of a sentence does to ROOT, and no other",
    )
    rows.check_tokens(
        _crossing(attach + begins, (attach < position) & ~ends),
        "attach",
        lambda place: f"attaches to {attach[place]}, where no constituent ends any more",
    )


def _crossing(targets: Int32, reduces: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which tokens (n) attach to one that an earlier token has made part of a larger constituent.

    Token k may attach to j if no token between them attaches to j or before it. The smallest target over a
    span is the smaller one over two spans of 1, 2, 4, … tokens that cover it.

    Args:
        targets: int32 (n), the token that each token attaches to.
        reduces: bool (n), the tokens that do more than shift; only these can be wrong or be in the way.
    """
    places = np.flatnonzero(reduces)  # (m)
    target = targets[places]
    # The number of the m tokens between each and its target.
    between = np.arange(len(places)) - np.cumsum(reduces)[target]
    bad = np.zeros(len(targets), dtype=bool)
    asking = np.flatnonzero(between > 0)  # tokens whose span has not been looked at
    smallest, width = target, 1
    while len(asking):
        now = between[asking] < 2 * width
        k = asking[now]
        fewest = np.minimum(smallest[k - between[k]], smallest[k - width])
        bad[places[k]] = fewest <= target[k]
        asking = asking[~now]
        smallest = np.minimum(smallest[:-width], smallest[width:])
        width *= 2
    return bad


def _check_text(rows: _Rows, text: pa.StringArray, layout: str) -> tuple[Int64, Int64]:
    """The numbers of words and of lines of each row (R); only windows have several lines."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        bad = [not _is_utf8(value) for value in text.cast(pa.binary()).to_pylist()]
        rows.check(np.array(bad), "text", lambda row: "not UTF-8")
    _, ends, letters = text.buffers()
    ends = np.frombuffer(ends, np.int32)[text.offset : text.offset + len(text) + 1]
    letters = np.frombuffer(letters or b"", np.uint8)[: ends[-1]]
    lines = np.diff(np.searchsorted(np.flatnonzero(letters == _LINE_FEED), ends)) + 1
    if layout == "window":  # a line for each sentence
        letters = np.where(letters == _LINE_FEED, np.uint8(_SPACE), letters)
    elif (lines > 1).any():
        rows.check(_found(pc.match_substring(text, "\n")), "text", lambda row: "a line break")
    spaces = np.flatnonzero(letters == _SPACE)
    if (np.diff(spaces) == 1).any():
        rows.check(_found(pc.match_substring(text, "  ")), "text", lambda row: "two spaces together")
    outside = pc.or_(pc.starts_with(text, " "), pc.ends_with(text, " "))
    if outside.true_count:
        rows.check(_found(outside), "text", lambda row: "a space before or after the words")
    return np.diff(np.searchsorted(spaces, ends)) + (np.diff(ends) > 0), lines


def _check_block(rows: _Rows, attach: Int32, word: Int32, n_words: Int64) -> None:
    """Check that all tokens of blocks shift, and belong to words of the text, or to none."""
    firsts = rows.offsets[:-1]
    position = np.arange(len(attach)) - np.repeat(firsts, np.diff(rows.offsets))
    rows.check_tokens(
        attach != position, "attach", lambda place: f"attaches to {attach[place]}, but a block has no trees"
    )
    rows.check(word[firsts] != -1, "word", lambda row: f"ROOT belongs to word {word[firsts[row]]}, not to -1")
    rows.check_tokens(word < -1, "word", lambda place: f"belongs to word {word[place]}")
    most = np.maximum.reduceat(word, firsts)
    rows.check(most >= n_words, "word", lambda row: f"word {most[row]} of {n_words[row]} in the text")


def _check_words(rows: _Rows, word: Int32, is_root: Bool, n_words: Int64, layout: str) -> None:
    """Check the words of sentences and windows: counted from 0 in each row, across ROOTs, which have none."""
    firsts, lasts = rows.offsets[:-1], rows.offsets[1:] - 1
    has_none = is_root.copy()
    if layout == "sentence":
        has_none[lasts] = True  # EOS
    rows.check_tokens(
        (word == -1) != has_none,
        "word",
        lambda place: f"belongs to word {word[place]}: ROOT and EOS have none (-1), and they alone",
    )
    real = word[~has_none]
    owners = np.repeat(np.arange(len(firsts)), np.diff(rows.offsets))[~has_none]
    steps = np.diff(real, prepend=0)
    begins = np.diff(owners, prepend=-1) > 0
    steps[begins] = real[begins] + 1  # the first word is 0
    bad = np.zeros(len(word), dtype=bool)
    bad[~has_none] = (steps < 0) | (steps > 1)
    rows.check_tokens(
        bad,
        "word",
        lambda place: f"belongs to word {word[place]}: words are counted from 0, one after the other",
    )
    found = np.maximum.reduceat(word, firsts) + 1
    rows.check(found != n_words, "word", lambda row: f"{found[row]} words, but {n_words[row]} in the text")


def _check_constituents(
    rows: _Rows, lengths: dict[str, Int32], flat: dict[str, Int32], n_labels: int
) -> None:
    """Refuse constituents that do not form one tree over the tokens between ROOT and EOS."""
    n = lengths["tokens"] - 2
    rows.check(n == 0, "opens", lambda row: "a constituent without tokens")
    for name in ("opens", "closes"):
        unequal = np.flatnonzero(lengths[name] != n)
        if len(unequal):
            row = int(unequal[0])
            rows.refuse(row, name, f"{lengths[name][row]} numbers for {n[row]} tokens without ROOT and EOS")
    inside = replace(rows, offsets=_offsets(n), item_0=1)
    opens, closes, labels = flat["opens"], flat["closes"], flat["labels"]
    inside.check_tokens(opens < 0, "opens", lambda place: f"opens {opens[place]} constituents")
    inside.check_tokens(closes < 0, "closes", lambda place: f"closes {closes[place]} constituents")
    opened = np.concatenate([[0], np.cumsum(opens, dtype=np.int64)])
    balance = opened - np.concatenate([[0], np.cumsum(closes, dtype=np.int64)])
    left = balance[1:] - np.repeat(balance[inside.offsets[:-1]], n)  # (all tokens) open after each
    wrong = left < 1
    lasts = inside.offsets[1:] - 1
    wrong[lasts] = left[lasts] != 0
    inside.check_tokens(
        wrong,
        "closes",
        lambda place: f"leaves {left[place]} constituents open: one has to be around all tokens",
    )
    n_opened = np.diff(opened[inside.offsets])
    rows.check(
        lengths["labels"] != n_opened,
        "labels",
        lambda row: f"{lengths['labels'][row]} labels for {n_opened[row]} constituents",
    )
    replace(rows, offsets=_offsets(lengths["labels"]), item="label").check_tokens(
        (labels < -1) | (labels >= n_labels),
        "labels",
        lambda place: f"is {labels[place]}, beyond the {n_labels} of the manifest",
    )


def _check_arcs(rows: _Rows, lengths: dict[str, Int32], flat: dict[str, Int32]) -> None:
    """Refuse arcs that are not between the words of a row, or not in the order of :class:`Graph`."""
    head, dependent = ARCS
    rows.check(
        lengths[head] != lengths[dependent],
        dependent,
        lambda row: f"{lengths[dependent][row]} numbers for {lengths[head][row]} heads",
    )
    arcs = replace(rows, offsets=_offsets(lengths[head]), item="arc")
    n_words = np.repeat(np.maximum.reduceat(flat["word"], rows.offsets[:-1]) + 1, lengths[head])  # (arcs)
    h, d = flat[head], flat[dependent]
    outside = "is {} of {} words"
    arcs.check_tokens((h < 0) | (h > n_words), head, lambda k: outside.format(h[k], n_words[k]))
    arcs.check_tokens((d < 1) | (d > n_words), dependent, lambda k: outside.format(d[k], n_words[k]))
    arcs.check_tokens(h == d, dependent, lambda k: f"is {d[k]}, its own head")
    # A word t has 2t - 1 candidates, so the (t - 1)² of the words before come before these.
    key = (np.maximum(h, d).astype(np.int64) - 1) ** 2 + np.where(h < d, h, h + d - 1)
    unordered = np.diff(key, prepend=-1) <= 0
    unordered[arcs.offsets[:-1][lengths[head] > 0]] = False
    arcs.check_tokens(unordered, head, lambda k: f"is {h[k]}, for an arc that belongs before the last one")


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _found(bits: pa.BooleanArray) -> NDArray[np.bool_]:
    """Arrow booleans as a numpy array, for messages: this loads pandas."""
    return np.asarray(bits.to_numpy(zero_copy_only=False), dtype=bool)


def _offsets(lengths: Int32) -> Int64:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
