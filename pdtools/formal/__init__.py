"""Formal languages: generators of strings, with attachments and exact probabilities where they exist."""

from pdtools.formal.bracket_prefixes import (
    BracketPrefix,
    dependency_prefixes,
    depth_prefixes,
    read_prefixes,
    write_prefixes,
)
from pdtools.formal.cfl import ContextFree
from pdtools.formal.corpus import string_shards, word_tokenizer, write_strings
from pdtools.formal.dyck import DYCK_SETTINGS, Dyck, dyck_attachments
from pdtools.formal.dyck_exact import expectations, length_probabilities
from pdtools.formal.grammar import Grammar, Rule, Token, grammar_names, parse_grammar, read_grammar
from pdtools.formal.language import FormalString, Language, StringArrays, draw, strings
from pdtools.formal.transduction_files import read_pairs, write_pairs
from pdtools.formal.transduction_rows import RowLayout, TaskRows, task_tokenizer
from pdtools.formal.transductions import TASKS, StringPairs, Task, make_task

__all__ = [
    "DYCK_SETTINGS",
    "TASKS",
    "BracketPrefix",
    "ContextFree",
    "Dyck",
    "FormalString",
    "Grammar",
    "Language",
    "RowLayout",
    "Rule",
    "StringArrays",
    "StringPairs",
    "Task",
    "TaskRows",
    "Token",
    "dependency_prefixes",
    "depth_prefixes",
    "draw",
    "dyck_attachments",
    "expectations",
    "grammar_names",
    "length_probabilities",
    "make_task",
    "parse_grammar",
    "read_grammar",
    "read_pairs",
    "read_prefixes",
    "string_shards",
    "strings",
    "task_tokenizer",
    "word_tokenizer",
    "write_pairs",
    "write_prefixes",
    "write_strings",
]
