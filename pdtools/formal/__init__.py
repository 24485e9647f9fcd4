"""Formal languages: generators of strings, with attachments and exact probabilities where they exist."""

from pdtools.formal.corpus import string_shards, word_tokenizer, write_strings
from pdtools.formal.dyck import DYCK_SETTINGS, Dyck, dyck_attachments
from pdtools.formal.dyck_exact import Expectations, expectations, length_probabilities
from pdtools.formal.language import FormalString, Language, StringArrays, draw, strings

__all__ = [
    "DYCK_SETTINGS",
    "Dyck",
    "Expectations",
    "FormalString",
    "Language",
    "StringArrays",
    "draw",
    "dyck_attachments",
    "expectations",
    "length_probabilities",
    "string_shards",
    "strings",
    "word_tokenizer",
    "write_strings",
]
