"""All forms, and which of them a file is in."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from pdtools.errors import InputError, PdtoolsError
from pdtools.files import Kind, is_stream
from pdtools.files.inputs import open_binary
from pdtools.files.kinds import kind_of
from pdtools.trees.forms.base import Form

# In the order in which a file is compared with them; each has FORM.
_MODULES = ("conllu",)
FORMS: dict[str, Form] = {
    form.name: form for form in (import_module(f"pdtools.trees.forms.{name}").FORM for name in _MODULES)
}
BRACKETED: tuple[str, ...] = ()
"""Forms that are brackets: with Penn's name a file of them is read too."""
_HEAD_BYTES = 1 << 16
_MOST_FILES = 200  # that are looked at before the work


def form_of(file: str) -> Form | None:
    """The form that a file seems to be in; None of Penn's brackets, of what is not known, and of streams."""
    if is_stream(file):
        return None
    try:
        with open_binary(file) as stream:
            head = stream.read(_HEAD_BYTES)
    except (OSError, PdtoolsError, EOFError):
        return None  # whoever reads it says what is wrong
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff")
    return next((form for form in FORMS.values() if form.looks_like(text)), None)


def _refuse_brackets(file: str) -> None:
    if (kind := kind_of(file)) in (Kind.TREES, Kind.NUMBERED):
        raise InputError(f"{kind.value}: use --from treebank", file=file)


def forms_of(files: Iterable[str], wanted: str) -> Form | None:
    """The form that files are to be read in; None is that of Penn's brackets.

    Args:
        files: of which the first 200 are looked at.
        wanted: a name of a form, or ``treebank``: brackets, whatever they are; or of what is none.

    Raises:
        InputError: if a file is of another form than that, or than the others.
    """
    chosen = FORMS.get(wanted)
    found: dict[Form, str] = {}
    for _, file in zip(range(_MOST_FILES), files, strict=False):
        form = form_of(file)
        if form is None:
            if chosen is not None and chosen.name not in BRACKETED:
                _refuse_brackets(file)
            continue
        if form is not chosen and (chosen is not None or form.name not in BRACKETED):
            raise InputError(f"{form.title}: use --from {form.name}", file=file)
        found.setdefault(form, file)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise InputError(f"{other.title}, but {first} is {one.title}: read one form at a time", file=second)
    return chosen or next(iter(found), None)
