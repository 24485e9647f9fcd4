"""Tokenized sentences with their attachments, in Parquet files that any tool can read."""

from pdtools.shards.build import TokenizerSettings, build_shards, shards_from_files, train_tokenizer
from pdtools.shards.describe import (
    constituents_of_row,
    describe_actions,
    describe_graph,
    describe_row,
    describe_transitions,
    describe_tree,
    trees_of_row,
)
from pdtools.shards.format import FORMAT_VERSION, ShardSettings
from pdtools.shards.plain import usable_tree
from pdtools.shards.reader import ShardFolder, ShardSet
from pdtools.shards.rows import EncodedRows, ShardRow
from pdtools.shards.writer import write_shards
