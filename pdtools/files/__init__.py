"""Sources of text, and files: compression by suffix, outputs that appear whole or not at all."""

from pdtools.files.inputs import (
    MAX_DOCUMENT_BYTES,
    count_lines,
    decode_utf8,
    read_blocks,
    read_bytes,
    read_head,
    read_json,
    read_line_parts,
    read_lines,
    utf8_name,
)
from pdtools.files.kinds import Kind, check_kind, expand_inputs, kind_of, wrong_kind
from pdtools.files.outputs import (
    atomic_directory,
    atomic_path,
    atomic_text,
    before_renaming,
    check_output,
    json_text,
    remove_stale,
    replace_directory,
    temporary_name,
    write_json,
    write_tensors,
)
from pdtools.files.rejects import (
    REJECTS_FILE,
    ExcludedInput,
    Rejects,
    rejects_path,
    some_trees,
    write_rejects,
)
from pdtools.files.source import (
    STDIO,
    GivenText,
    Source,
    held,
    is_stream,
    sha256_file,
    sha256_stream,
    source_of,
)
from pdtools.files.system import recover_directory
from pdtools.files.tables import atomic_table, read_table
from pdtools.files.unchanged import (
    Unchanged,
    check_no_pointers,
    identifying_files,
    input_folder,
    unchanged_inputs,
    watch_inputs,
)
