"""Formal languages: generators of strings, with attachments and exact probabilities where they exist."""

from pdtools.formal.cfl import ContextFree
from pdtools.formal.dyck import DYCK_SETTINGS, Dyck
from pdtools.formal.grammar import read_grammar
from pdtools.formal.language import Language, StringArrays, string_shards, strings, write_strings
