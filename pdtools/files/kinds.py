"""The files that a user names: their expansion into sources, and recognition of their kinds by a glance.

A glance reads a few thousand bytes. It serves messages, which can name the wrong kind, and refuses what would
be misread in silence; the readers themselves still check the whole file.
"""

from __future__ import annotations

import glob
import json
import os
import re
import sys
import zipfile
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path

from pdtools.errors import InputError, PdtoolsError
from pdtools.files.packed import COMPRESSED, SUFFIX, has_ending
from pdtools.files.source import Source, ZipMember, is_stream, source_of
from pdtools.files.system import recover_directory
from pdtools.files.unchanged import IS_POINTER, NO_FILE

_HEAD = 1 << 14
_MOST_FILES = 200  # files of a folder that are looked at
_TEXT_FILES = (".txt", ".tok", ".tokens", ".raw")  # in a folder, where any file may be text


class Kind(Enum):
    """The kinds that can be confused, as messages call them."""

    TREES = "bracketed trees"
    NUMBERED = "trees with a number before each"
    TEXT = "plain text"
    SHARDS = "shards"
    MODEL = "a pdtools checkpoint"
    HUGGING_FACE = "a Hugging Face model"
    RESULTS = "a folder of results"
    SEVERAL_RESULTS = "several folders of results"
    PAIRS = "minimal pairs"
    SUITES = "SyntaxGym's test suites"
    SURPRISALS = "a table of surprisals"
    REJECTS = "a list of excluded inputs"
    PROMPTS = "prompts of pdtools prompts"
    PARQUET = "a Parquet file"
    POINTER = "a Git LFS pointer"


_AFTER_MODEL = "a model goes after --model"
# Advice when a file of one kind is given in place of another; {path} is the given one.
_HINTS: dict[Kind, dict[Kind | None, str]] = {
    Kind.TREES: {
        Kind.NUMBERED: "cut -f 2- {path} > TREES takes the numbers off",
        Kind.TEXT: "pdtools parse makes trees from text; sentences are read without --from treebank",
        Kind.SHARDS: "give the trees that they were made from",
        Kind.MODEL: _AFTER_MODEL,
        Kind.HUGGING_FACE: _AFTER_MODEL,
        None: "pdtools parse makes trees from a treebank or from text",
    },
    Kind.TEXT: {
        Kind.TREES: "trees are read with --from treebank, or by pdtools tapes",
        Kind.SHARDS: "pdtools train and eval-ppl take shards",
        Kind.MODEL: _AFTER_MODEL,
        Kind.HUGGING_FACE: _AFTER_MODEL,
        Kind.PAIRS: "pdtools eval-blimp scores them, and writes their sentences as text",
        Kind.SUITES: "pdtools eval-sg scores them, and writes their sentences as text",
        Kind.PROMPTS: "their sentences are read with --from parts",
        None: "one sentence a line",
    },
    Kind.SHARDS: {
        Kind.TREES: "pdtools tapes {path} -o SHARDS makes them",
        Kind.TEXT: "pdtools blocks {path} -o SHARDS makes them for models without trees;"
        " for others, pdtools parse makes trees, and pdtools tapes shards of these",
        Kind.MODEL: _AFTER_MODEL,
        Kind.HUGGING_FACE: _AFTER_MODEL,
        Kind.PARQUET: "name the folder that it is in",
        Kind.PAIRS: "pdtools eval-blimp scores them",
        Kind.SUITES: "pdtools eval-sg scores them",
        None: "pdtools tapes makes shards from trees, pdtools blocks from text",
    },
    Kind.PROMPTS: {
        Kind.TREES: "they go after the prompts: pdtools tapes TREES --prompts FILE",
        None: "pdtools prompts makes them of the data of a task",
    },
    Kind.MODEL: {
        Kind.SHARDS: "pdtools train {path} -o RUN trains one on them",
        Kind.TREES: "pdtools tapes makes shards of them, and pdtools train trains one on these",
        None: "give a folder that pdtools train wrote",
    },
    Kind.HUGGING_FACE: {
        None: "a folder with its config.json and weights, as transformers' save_pretrained writes it,"
        " or one that pdtools train wrote",
    },
    Kind.RESULTS: {
        Kind.MODEL: "pdtools eval-blimp, eval-sg, eval-ppl ... --model {path} -o RESULTS make them",
        Kind.SEVERAL_RESULTS: "name one of the folders in it, or two folders of several",
        None: "give the folder that an evaluation wrote (-o)",
    },
    Kind.PAIRS: {
        Kind.SUITES: "pdtools eval-sg scores them",
        Kind.SHARDS: "pdtools eval-ppl scores them",
        Kind.MODEL: _AFTER_MODEL,
        Kind.HUGGING_FACE: _AFTER_MODEL,
        Kind.SURPRISALS: "it goes after --surprisals, and the minimal pairs before that",
        None: "BLiMP.zip, .jsonl files with sentence_good and sentence_bad, or .tsv files with such columns;"
        " other tables are read by pdtools eval-benchmark --good COLUMN --bad COLUMN",
    },
    Kind.SUITES: {
        Kind.PAIRS: "pdtools eval-blimp scores them",
        Kind.SHARDS: "pdtools eval-ppl scores them",
        Kind.MODEL: _AFTER_MODEL,
        Kind.HUGGING_FACE: _AFTER_MODEL,
        Kind.SURPRISALS: "it goes after --surprisals, and the suites before that",
        None: "SyntaxGym's .json files, or a zip of them",
    },
}


# Kinds of archive members, by the ends of their names.
_OF_MEMBERS = {
    ".jsonl": Kind.PAIRS,
    ".json": Kind.SUITES,
    **dict.fromkeys((".mrg", ".ptb", ".tree", ".trees"), Kind.TREES),
}


def kind_of(path: str | Path) -> Kind | None:
    """The apparent kind of a file or folder; None if unknown, empty, missing or a stream."""
    if is_stream(path) or not os.path.exists(path):
        return None
    try:
        return _of_folder(Path(path)) if os.path.isdir(path) else _of_file(Path(path))
    except (OSError, PdtoolsError, EOFError, ValueError, zipfile.BadZipFile):
        return None  # whoever reads it says what is wrong


def wrong_kind(path: str | Path, needed: Kind) -> InputError | None:
    """An error that names the given kind, the needed one, and how to obtain it.

    None if the path is of the needed kind, or of none that is known.
    """
    found = kind_of(path)
    if found in (None, needed):
        return None
    assert found is not None
    hints = _HINTS[needed]
    hint = NO_FILE if found is Kind.POINTER else hints.get(found, hints[None]).format(path=path)
    return InputError(f"{found.value}, not {needed.value}", file=path, hint=hint)


def check_kind(path: str | Path, needed: Kind) -> None:
    """Refuse a file or folder that is clearly of another kind.

    Raises:
        InputError: see :func:`wrong_kind`.
    """
    if (error := wrong_kind(path, needed)) is not None:
        raise error


def _of_folder(folder: Path) -> Kind | None:
    with os.scandir(folder) as entries:
        names = {entry.name for entry in islice(entries, 10 * _MOST_FILES)}
    if "results.json" in names:
        return Kind.RESULTS
    if "manifest.json" in names:
        return Kind.SHARDS
    if "run.json" in names or (folder / "best" / "config.json").is_file():
        return Kind.MODEL
    if "config.json" in names:
        return _of_config(folder / "config.json")
    if any((folder / name / "results.json").is_file() for name in islice(sorted(names), _MOST_FILES)):
        return Kind.SEVERAL_RESULTS
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    kinds = {path: kind_of(path) for path in islice(files, _MOST_FILES)}
    found = set(kinds.values()) - {None, Kind.TEXT}
    if not found and any(kind and has_ending(path, _TEXT_FILES) for path, kind in kinds.items()):
        return Kind.TEXT
    return found.pop() if len(found) == 1 else None


def _of_config(path: Path) -> Kind | None:
    config = json.loads(source_of(path).head(_HEAD * 64))
    if not isinstance(config, dict):
        return None
    if {"model", "shards"} <= config.keys():
        return Kind.MODEL
    return Kind.HUGGING_FACE if {"model_type", "architectures"} & config.keys() else None


def _of_file(path: Path) -> Kind | None:
    head = source_of(path).head(_HEAD)
    if head.startswith(IS_POINTER):
        return Kind.POINTER
    if head.startswith(b"PAR1"):
        return Kind.PARQUET
    if head.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if "__MACOSX" not in name]
        endings = {os.path.splitext(name)[1].lower() for name in names}
        found = {_OF_MEMBERS[ending] for ending in endings & _OF_MEMBERS.keys()}
        return found.pop() if len(found) == 1 else None
    if b"\0" in head or has_ending(path, ".zip"):
        return None
    return _of_text(getincrementaldecoder("utf-8")().decode(head))  # which may end in the middle of a letter


# A word with its tag, in brackets of their own: (S (NP (DT the. Prose that begins with a bracket is not so.
_TREE = re.compile(r"(?:\(\s*(?:[^\s()]+\s*)?)+\([^\s()]+\s+[^\s()]+\s*\)\s*(?:[()]|\Z)")
_NUMBERED = re.compile(r"\d+[ \t]+\(\s*[^\s()]*\s*\(")  # 7<TAB>(S (NP
_BEGINS_LIKE_TREES = re.compile(r"^\s*[()]", re.MULTILINE)  # or broken ones


def _of_text(text: str) -> Kind | None:
    text = text.lstrip("\ufeff").lstrip()
    first = text.split("\n", 1)[0]
    if first.startswith("{"):
        return _of_json(text, first)
    columns = [column.strip('"') for column in first.rstrip("\r").split("\t")]
    if "surprisal" in columns:
        return Kind.SURPRISALS
    if {"sentence_good", "sentence_bad"} & set(columns):  # a column that lacks is named by who reads them
        return Kind.PAIRS
    if _TREE.match(text) and _is_bracketing(text):
        return Kind.TREES
    if _NUMBERED.match(text):
        return Kind.NUMBERED
    if first.startswith("["):
        return None
    return Kind.TEXT if text and not _BEGINS_LIKE_TREES.search(text) else None


def _is_bracketing(text: str) -> bool:
    """Return whether the first bracket closes before another opens; not so in ``(see (Lee 1999)) A dog``."""
    depth = 0
    for found in re.finditer(r"[()]", text):
        depth += 1 if found[0] == "(" else -1
        if depth <= 0:
            return text[found.end() :].lstrip()[:1] in ("", "(", ")")
    return True


def _of_json(text: str, first: str) -> Kind | None:
    if re.search(r'"format":\s*"pdtools prompts"', first):
        return Kind.PROMPTS
    keys = set(re.findall(r'"(\w+)"\s*:', text))
    if {"sentence_good", "sentence_bad"} <= keys:
        return Kind.PAIRS
    if {"meta", "items"} <= keys or {"predictions", "region_number"} & keys:
        return Kind.SUITES
    if {"file", "line", "reason"} <= set(re.findall(r'"(\w+)"\s*:', first)):
        return Kind.REJECTS
    return Kind.RESULTS if {"scores", "counts"} <= keys else None


# --- expansion of names ------------------------------------------------------------------------


def expand_inputs(
    inputs: Sequence[str],
    suffixes: Sequence[str],
    kind: Kind | None = None,
    only: Callable[[str], bool] | None = None,
) -> list[Source]:
    """Expand the names of files, folders, globs and other sources into a list of sources.

    Args:
        inputs: paths, glob patterns, or names of other sources (:mod:`pdtools.files.source`).
        suffixes: the file endings (``.mrg``) that count inside a folder or a zip archive, searched
            recursively and in sorted order; the same with ``.gz`` and ``.zst`` appended count too. With
            ``.zip`` among them archives are left whole.
        kind: the kind needed: a file that is named, and clearly another one, is refused.
        only: which files of folders and archives count, of those with such endings.

    Raises:
        InputError: if a path does not exist, a glob matches nothing, or a folder or archive holds no such
            file.
    """
    wanted = tuple(s + c for s in suffixes for c in ("", *COMPRESSED))
    files: list[Source] = []
    for name in inputs:
        path, source = Path(name), source_of(name)
        recover_directory(path)
        if type(source) is not Source:
            files.append(source.check())
        elif path.is_dir():
            paths = sorted(str(p) for p in path.rglob("*") if p.is_file() and has_ending(p, wanted))
            found = [Source(each) for each in paths if only is None or only(each)]
            if not found:
                if kind is not None:
                    check_kind(path, kind)
                reason = f"no files ending in {', '.join(suffixes)} in this folder"
                raise InputError(reason, file=name, hint=_other_files(path))
            files += found
        elif path.is_file() and has_ending(name, SUFFIX) and SUFFIX not in suffixes:
            every = ZipMember.within(name, wanted, sys.maxsize)
            members = [each for each in every if only is None or only(each)]
            if not members:
                reason = f"no files ending in {', '.join(suffixes)} in this archive"
                raise InputError(reason, file=name, hint="unpack it, and name the files: 'FOLDER/*.ENDING'")
            files += members
        elif path.exists():
            if kind is not None:
                check_kind(path, kind)
            files.append(source)
        elif glob.has_magic(name):
            matches = sorted(p for p in glob.glob(name, recursive=True) if os.path.isfile(p))
            if not matches:
                raise InputError("the pattern matches no file", file=name)
            files += expand_inputs(matches, suffixes, kind, only)
        else:
            source.check()
    return files


def _other_files(folder: Path) -> str | None:
    """A glob for the commonest kind of file in a folder, for a message."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    if not files:
        return None
    ((ending, _),) = Counter(path.suffix for path in files).most_common(1)
    parent = next(path.parent for path in files if path.suffix == ending)
    return f"name the files: '{parent}/*{ending}'"
