"""Treebank formats, each in a file of its own, behind one small interface."""

from pdtools.trees.forms.base import ExcludedByRule, Form, ReadOptions, ReadTree, TreeText, read_block
from pdtools.trees.forms.registry import (
    BRACKETED,
    FORMS,
    form_of,
    forms_of,
    may_be_brackets,
    read_treebank,
    refuse_for,
    refuse_others,
)

__all__ = [
    "BRACKETED",
    "FORMS",
    "ExcludedByRule",
    "Form",
    "ReadOptions",
    "ReadTree",
    "TreeText",
    "form_of",
    "forms_of",
    "may_be_brackets",
    "read_block",
    "read_treebank",
    "refuse_for",
    "refuse_others",
]
