"""Treebank formats, each in a file of its own: their registry, and the detection of a file's form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Kind, Rejects, expand_inputs, read_head
from pdtools.files.kinds import kind_of
from pdtools.files.packed import ending
from pdtools.trees.forms.form import (
    Counts,
    ExcludedByRule,
    Form,
    ReadOptions,
    ReadTree,
    TreeText,
    read_block,
    record_excluded,
)
from pdtools.trees.forms.historical import holds_what_is_no_tree
from pdtools.trees.forms.loose_penn import has_other_leaves

# In the order in which a file is compared with them; each has FORM.
_MODULES = ("sdp", "conllu", "export", "tiger", "discbracket", "loose_penn", "historical")
FORMS: dict[str, Form] = {
    form.name: form for form in (import_module(f"pdtools.trees.forms.{name}").FORM for name in _MODULES)
}
BRACKETED = ("discbracket", "penn-historical", "penn-loose")
"""Bracketed forms: files in them are also read under Penn's name."""
DEFAULTS = ReadOptions()
_BRACKET = re.compile(r"\s*(?:[0-9]+[a-z]?[ \t]+)?\(")
_HEAD_BYTES = 1 << 16
_MOST_FILES = 200  # files that are looked at before the work


def read_treebank(
    files: Iterable[str],
    name: str,
    rejects: Rejects,
    options: ReadOptions = DEFAULTS,
    counts: Counts | None = None,
) -> Iterator[ReadTree]:
    """Read the trees of files in one form, one by one.

    Args:
        files: paths (``-``: standard input); compressed by suffix.
        name: a name in :data:`FORMS`.
        rejects: takes the sentences that cannot be read, and the sentences excluded by rule.
        options: choices that the form leaves open.
        counts: updated with what was removed or changed.

    Raises:
        InputError: at the first bad sentence, if ``rejects`` says so, or if a file cannot be read.
    """
    form = FORMS[name]
    counts = Counter() if counts is None else counts
    for block in (block for file in files for block in form.blocks(file)):
        for found in read_block(form, block, options, counts):
            if isinstance(found, ReadTree):
                yield found
            else:
                record_excluded(found, rejects)


def _head(file: str) -> str:
    """The beginning of a file; empty if it is unreadable, which its reader will report."""
    try:
        head = read_head(file, _HEAD_BYTES)
    except PdtoolsError:
        return ""
    return head.decode("utf-8", errors="replace").lstrip("\ufeff")


def form_of(file: str) -> Form | None:
    """The apparent form of a file; None for Penn's brackets and unknown forms."""
    text = _head(file)
    return next((form for form in FORMS.values() if form.looks_like(text)), None)


def may_be_brackets(file: str) -> bool:
    """Return whether a file in a folder may hold brackets: a .txt file only if it begins like a tree."""
    if ending(file) != ".txt":
        return True
    return _BRACKET.match(_head(file)) is not None


def refuse_for(needed: Kind, files: Iterable[str], *, trees_are_checked: bool = True) -> None:
    """Refuse files of other forms if Penn's brackets, or sentences, are needed.

    Args:
        needed: trees, or another kind.
        files: the files; the first 200 are looked at.
        trees_are_checked: whether the reader refuses historical trees one by one, as
            :func:`pdtools.trees.read_trees` does. Trees with ids are refused by their kind.

    Raises:
        InputError: with the command that makes Penn's brackets.
    """
    for _, file in zip(range(_MOST_FILES), files, strict=False):
        form = form_of(file)
        if form is None:
            continue
        if form.name == "penn-historical" and (trees_are_checked or not holds_what_is_no_tree(_head(file))):
            continue
        if form.name == "penn-loose" and not has_other_leaves(_head(file)):
            continue
        made = "these" if needed is Kind.TREES else "trees"
        hint = f"pdtools parse --from {form.option or form.name} makes {made} of it"
        if needed is not Kind.TREES:
            hint += ", which are read with --from treebank"
        raise InputError(f"{form.title}, not {needed.value}", file=file, hint=hint)


def refuse_others(place: str, wanted: str) -> None:
    """Report the form of the files in a folder or archive that holds none of the wanted form.

    Raises:
        InputError: see :func:`forms_of`.
    """
    suffixes = tuple(end for form in FORMS.values() for end in form.suffixes)
    try:
        files = expand_inputs([place], suffixes)
    except InputError:  # no trees of another form either
        return
    for file in files:
        forms_of([file], wanted)


def _refuse_brackets(file: str) -> None:
    if (kind := kind_of(file)) in (Kind.TREES, Kind.NUMBERED):
        raise InputError(f"{kind.value}: use --from treebank", file=file)


def forms_of(files: Iterable[str], wanted: str) -> Form | None:
    """The form in which files are to be read; None means Penn's brackets.

    Args:
        files: the files; the first 200 are looked at.
        wanted: a form's name, or ``treebank``: any brackets; or a name that is no form.

    Raises:
        InputError: if a file's form is not the wanted one, or differs from the others'.
    """
    chosen = FORMS.get(wanted)
    found: dict[Form, str] = {}
    plain = None
    for _, file in zip(range(_MOST_FILES), files, strict=False):
        form = form_of(file)
        if form is None:
            if chosen is not None and chosen.name not in BRACKETED:
                _refuse_brackets(file)
            plain = plain or file
            continue
        if form is not chosen and (chosen is not None or form.name not in BRACKETED):
            raise InputError(f"{form.title}: use --from {form.option or form.name}", file=file)
        found.setdefault(form, file)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise InputError(f"{other.title}, but {first} is {one.title}: read one form at a time", file=second)
    historical = found.get(FORMS["penn-historical"])
    if chosen is None and historical is not None and plain is not None:
        reason = f"not like {historical}, which is {FORMS['penn-historical'].title}"
        raise InputError(reason, file=plain, hint="read one form at a time; --from penn-historical for both")
    return chosen or next(iter(found), None)
