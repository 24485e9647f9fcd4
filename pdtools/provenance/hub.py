"""Names of models: folders, models that come with pdtools, and models of the Hugging Face hub.

A model of the hub comes from its cache, or is downloaded into it. It is identified by its repository and
commit; the cache's folders have both in their paths. Only files that our loaders read are downloaded, the
weights last: if these exist, so does the rest. No code is downloaded, except for the stub listed in
``SHA256SUMS`` of our own checkpoints, which is never run here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from pdtools.errors import InputError, MissingDependencyError, PdtoolsError
from pdtools.files import read_json

PREFIX, DATA_PREFIX = "hf:", "hf-data:"
# The name of a repository: with its owner, or of an old model without.
REPOSITORY = re.compile(r"(?:\w[\w.-]*/)?\w[\w.-]*", re.ASCII)
_NAME = re.compile(rf"{PREFIX}({REPOSITORY.pattern})(?:@(\S+))?", re.ASCII)
_SNAPSHOT = re.compile(r"models--([\w.-]+)[/\\]snapshots[/\\]([0-9a-f]{40})$", re.ASCII)

_FORMS = f"write {PREFIX}NAME, {PREFIX}OWNER/NAME or {PREFIX}OWNER/NAME@REVISION"
_CONFIG = "config.json"
_TOKENIZERS = (
    "tokenizer.json",
    "vocab.json",
    "vocab.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
# In the order of downloads: if the tokenizer exists, so does the rest.
_SMALL = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "model.safetensors.index.json",
    # files of our checkpoints
    "SHA256SUMS",
    "modeling_pdtools.py",
    "training.json",
    *_TOKENIZERS,
)
# The files of a model that pdtools.models.released_pushdown imports.
IMPORTED = ("model.pt", "vocab.pkl")
_SECONDS = 10.0  # limit for the hub's answer
_WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors")

# Names of models and data sets, with the commits to which this process resolved them.
RESOLVED: dict[str, str] = {}


def snapshot(
    name: str,
    *,
    weights: bool = True,
    files: Sequence[str] = (),
    bars: bool = False,
    cache_dir: str | Path | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
) -> Path:
    """The folder of a model in the hub's cache; missing files are downloaded.

    Without a network, or with ``HF_HUB_OFFLINE``, the cached version of this name is taken.

    Args:
        name: ``hf:gpt2``, ``hf:owner/name``, each with ``@`` and a branch, tag or commit (default: main).
        weights: whether its weights are needed, or only its configuration and tokenizer.
        files: the files that are needed, of a model in the form of another program; none: a language model's.
        bars: show the progress of the weights on standard error.
        cache_dir, token, local_files_only: arguments of ``huggingface_hub.snapshot_download``.

    Raises:
        InputError: if there is no such model, it has no weights that we can read, or it cannot be downloaded.
        MissingDependencyError: if huggingface_hub is not installed.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise InputError(_FORMS, file=name)
    repo, revision = match.groups()
    try:
        import huggingface_hub as hub
    except ImportError as error:
        raise MissingDependencyError("huggingface_hub", "hf") from error

    def get(file: str, commit: str | None) -> Path:
        found = hub.hf_hub_download(repo, file, revision=commit, cache_dir=cache_dir, token=token)
        return Path(found)

    with explained(name, revision), _silent():
        first = files[0] if files else _CONFIG
        kept = hub.try_to_load_from_cache(repo, first, revision=revision, cache_dir=cache_dir)
        folder = Path(kept).parent if isinstance(kept, str) else None
        is_kept = folder is not None and _is_whole(folder, weights=weights, files=files)
        if not is_kept or folder is None or folder.name != revision:  # a commit does not change
            about = None
            try:
                if not local_files_only:
                    about = hub.HfApi(token=token).model_info(repo, revision=revision, timeout=_SECONDS)
            except Exception as error:  # requests and httpx have errors of their own
                if not _is_unanswered(error):
                    raise
                if not is_kept:
                    raise InputError(_missing(error), file=name, hint=f"cache: {_cache()}") from error
            if about is None and not is_kept:
                raise InputError("not all of it is in the cache", file=name, hint=f"cache: {_cache()}")
            if about is not None and not (is_kept and folder is not None and folder.name == about.sha):
                listed = [each.rfilename for each in about.siblings or ()]
                wanted = _wanted(listed, weights, name, files)
                folder = get(wanted.pop(0), revision).parent
                for file in wanted:
                    with _silent(bars=bars and file.endswith(".safetensors")):
                        get(file, folder.name)
    assert folder is not None
    RESOLVED[name] = f"{PREFIX}{repo}@{folder.name}"
    return folder


def _wanted(files: Iterable[str], weights: bool, name: str, needed: Sequence[str] = ()) -> list[str]:
    """Choose a repository's files to download, in this order.

    Raises:
        InputError: if there is no configuration, or no weights although they are wanted; or not all that is
            needed.
    """
    files = list(files)
    if missing := [file for file in needed if file not in files]:
        raise InputError(f"no {missing[0]} there", file=name)
    if needed:
        return list(reversed(needed))
    if set(IMPORTED) <= set(files):
        hint = f"pdtools import {name} -o FOLDER --tokenizer hf:gpt2 makes a folder that every command takes"
        raise InputError("a released Pushdown LM, which has to be imported first", file=name, hint=hint)
    if _CONFIG not in files:
        raise InputError(f"no {_CONFIG} there: not a language model", file=name)
    found = [file for file in files if any(fnmatchcase(file, pattern) for pattern in _WEIGHTS)]
    if weights and not found:
        pickled = next((file for file in files if file.endswith((".bin", ".pt", ".pth", ".ckpt"))), None)
        reason = "no weights (model.safetensors) there" + f", only pickled ones ({pickled})" * bool(pickled)
        hint = (
            "they may hold code, and are not downloaded; save_pretrained of transformers writes safetensors"
        )
        raise InputError(reason, file=name, hint=hint if pickled else None)
    if _WEIGHTS[0] in found:
        found = [_WEIGHTS[0]]  # further files beside this one are older forms of it
    return [_CONFIG, *(file for file in _SMALL if file in files), *(found if weights else ())]


def _is_whole(folder: Path, *, weights: bool, files: Sequence[str] = ()) -> bool:
    """Return whether a folder of the cache has all required files."""
    if files:
        return all((folder / name).is_file() for name in files)
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        return False
    if not weights or (folder / _WEIGHTS[0]).is_file():
        return True
    index = folder / "model.safetensors.index.json"
    table = read_json(index) if index.is_file() else None
    names = table.get("weight_map") if isinstance(table, dict) else None
    return isinstance(names, dict) and all((folder / str(file)).is_file() for file in names.values())


def name_of_snapshot(folder: str | Path) -> str | None:
    """``owner/name@commit`` of a folder in the hub's cache; None for another folder."""
    match = _SNAPSHOT.search(str(folder))
    return None if match is None else f"{match[1].replace('--', '/')}@{match[2]}"


def pinned(arguments: Iterable[str]) -> list[str]:
    """Arguments of a command with the commits that its names of models and data had when it began."""
    parts = (each.rpartition("=") for each in arguments)
    return [option + equals + RESOLVED.get(name, name) for option, equals, name in parts]


def commit_of(repo: str, revision: str | None, name: str) -> str:
    """The commit of a data set of the hub.

    Args:
        repo: its repository.
        revision: a branch, tag or commit; None: main.
        name: its name in messages.

    Raises:
        InputError: if there is none, or the hub cannot be reached.
    """
    import huggingface_hub as hub

    with explained(name, revision, "data set"), _silent():
        try:
            return str(hub.HfApi().dataset_info(repo, revision=revision, timeout=_SECONDS).sha)
        except Exception as error:
            if not _is_unanswered(error):
                raise
            why = _status(error) or type(error).__name__
            raise InputError(f"the Hugging Face hub cannot be reached ({why})", file=name) from error


@contextlib.contextmanager
def _silent(*, bars: bool = False) -> Iterator[None]:
    """Silence huggingface_hub; with ``bars``, show its bars on a terminal."""
    from huggingface_hub.utils import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
        logging,
    )

    verbosity, off = logging.get_verbosity(), are_progress_bars_disabled()
    logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on an environment variable that decides about bars
        (enable_progress_bars if bars and sys.stderr.isatty() else disable_progress_bars)()
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            (disable_progress_bars if off else enable_progress_bars)()


@contextlib.contextmanager
def explained(name: str, revision: str | None, what: str = "model") -> Iterator[None]:
    """Turn any failure of the hub into an error of one line."""
    from huggingface_hub import errors

    try:
        yield
    except PdtoolsError:
        raise
    except errors.GatedRepoError as error:
        reason = "its owner asks who reads it: agree on its page of the hub, then log in with hf auth login"
        raise InputError(f"a gated {what}: {reason}", file=name) from error
    except errors.RepositoryNotFoundError as error:
        hint = "a private one needs hf auth login"
        raise InputError(f"no such {what} on the Hugging Face hub", file=name, hint=hint) from error
    except errors.RevisionNotFoundError as error:
        hint = "a branch, tag or commit that is gone, or never was"
        raise InputError(f"the {what} has no revision {revision}", file=name, hint=hint) from error
    except errors.HFValidationError as error:
        raise InputError(_FORMS, file=name) from error
    except errors.LocalEntryNotFoundError as error:
        raise InputError(_why(error.__cause__ or error), file=name) from error
    except Exception as error:  # requests, httpx and xet have errors of their own
        raise InputError(_why(error), file=name) from error


def _status(error: BaseException) -> int | None:
    """The HTTP status of the hub's answer; None if there was none."""
    status: int | None = getattr(getattr(error, "response", None), "status_code", None)
    return status


def _is_unanswered(error: Exception) -> bool:
    """Return whether there is no network, or the hub is too busy."""
    status = _status(error)
    return status is None or status == 429 or status >= 500


def _missing(error: Exception) -> str:
    """The reason why files that are not in the cache cannot be downloaded."""
    from huggingface_hub import errors

    if isinstance(error, errors.OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, and not all of it is in the cache"
    why = _status(error) or type(error).__name__
    return f"the Hugging Face hub cannot be reached ({why}), and not all of it is in the cache"


def _cache() -> str:
    from huggingface_hub import constants

    return str(constants.HF_HUB_CACHE)


def _why(error: BaseException) -> str:
    """The reason why a download failed."""
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left for it in {_cache()} (HF_HOME names another place)"
    if isinstance(error, PermissionError) and error.filename:
        return f"{os.fspath(error.filename)} cannot be written (HF_HOME names another place)"
    reason = f"the Hugging Face hub answers {status}" if (status := _status(error)) else first_line(error)
    return f"not downloaded: {reason} (the same command goes on)"


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    said = str(next((each for each in error.args if isinstance(each, str)), error))
    return (said.strip().splitlines() or [type(error).__name__])[0]


# --- names of models ---------------------------------------------------------------------------

_READ = "it has read 8.8 million words of books of 1876 to 1929"
_GRAMMAR = "it knows only the words of the bundled grammar"
# Names of the models that come with pdtools, with descriptions.
BUNDLED = {
    "english": f"the Pushdown LM of English; {_READ}",
    "english-base": f"the base transformer of English; {_READ}",
    "demo": f"the Pushdown LM to try; {_GRAMMAR}",
    "demo-base": f"the base transformer to try; {_GRAMMAR}",
}


class FoundModel(NamedTuple):
    """The folder that a name resolves to.

    Attributes:
        folder: as it was given, or the folder of a model that comes with pdtools, or one of the hub's cache,
            whose path has the commit.
        note: a message for the user; None: none.
    """

    folder: str
    note: str | None


def find_model(name: str | Path, **of_hub: Any) -> FoundModel:
    """Resolve the name of a model: the one place where names become folders.

    Args:
        name: a folder, which is not checked here; a key of :data:`BUNDLED`, unless there is a file or
            folder of that name; or ``hf:`` and a name of the hub.
        of_hub: options for the hub, see :func:`pdtools.provenance.hub.snapshot`.

    Raises:
        InputError: if it is not available from the hub.
    """
    text = str(name)
    if text.startswith(PREFIX):
        folder = snapshot(text, **of_hub)
        return FoundModel(str(folder), f"{text}: commit {folder.name}")
    if text not in BUNDLED:
        return FoundModel(text, None)
    if Path(text).exists():
        what = BUNDLED[text].partition(";")[0]
        return FoundModel(text, f"{text}: the one in this folder, not {what} that comes with pdtools")
    from pdtools.data import model

    return FoundModel(str(model(text)), f"{text}: {BUNDLED[text]}")


def check_no_hub_name(name: str | Path) -> None:
    """Refuse a name that is no folder and looks like a name of a model; for readers of folders.

    Raises:
        InputError: in that case; it gives the right spelling, of a model that comes with pdtools if one is
            spelled much like it.
    """
    path, name = Path(name), str(name)
    is_misspelled = "/" in name and path.parent.exists()  # a name in a folder that exists here
    if not path.exists() and not is_misspelled and REPOSITORY.fullmatch(name):
        says = f"for the model of that name on the Hugging Face hub write {PREFIX}{name}"
        for meant in get_close_matches(name.lower().replace("_", "-"), BUNDLED, n=1):
            says = f"did you mean {meant}, {BUNDLED[meant].partition(';')[0]}? If not, {says}"
        raise InputError(f"{name} is not a folder; {says}")


def name_of(folder: str) -> str:
    """The name of a model: its folder's, its run's if the folder is a part of one, or its name on the hub."""
    path = Path(folder).resolve()
    if (hub := name_of_snapshot(path)) is not None:
        return hub.partition("@")[0].rpartition("/")[2]
    return path.parent.name if path.name in ("checkpoint", "best", "last") else path.name
