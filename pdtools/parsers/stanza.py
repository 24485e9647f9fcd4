"""Stanza's parsers (Bauer, Bui, Thai & Manning 2023; for dependencies, Qi et al. 2020), as a backend.

For a language without a constituency parser, dependencies are converted to constituents. A parser reads the
tags of Stanza's tagger, a dependency parser also lemmas, and all read word vectors and character language
models: files that its downloader puts into sibling folders, ``LANGUAGE/KIND/NAME.pt``, with
``resources.json`` above them. A missing file is refused here: Stanza would ask the network for another.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pdtools.errors import InputError, MissingDependencyError, PdtoolsError
from pdtools.parsers.backends import BatchedParser, SplitSentence, first_line, typed_quotes, with_arcs
from pdtools.trees import UNKNOWN_TAG, Tree, escape
from pdtools.trees.forms.form import ReadTree
from pdtools.trees.tree import TreeBuilder, leaf_label

DEFAULT_MODEL = "en"
_INSTEAD = "--parser RUN parses with a model of pdtools train, --from treebank reads trees"
MAX_TOKENS = 2000
MAX_CELLS = 100_000  # for models with attention between words
_PARSER, _DEPENDENCIES, _TAGGER, _LEMMATIZER = "constituency", "depparse", "pos", "lemma"
_TOKENIZER, _EXPANDER = "tokenize", "mwt"  # the latter writes tokens as several words: du, de le
_IDENTITY = "identity"  # the lemmatizer of languages without one: lemmas are the words
_RESOURCES = "resources.json"
_TOO_LONG = "<UNK>"  # replaces a token of more than 1000 characters


class StanzaParser(BatchedParser):
    """A loaded ``stanza.Pipeline``."""

    def __init__(self, pipeline: Any, *, max_tokens: int = MAX_TOKENS, max_cells: int = MAX_CELLS) -> None:
        super().__init__(max_tokens=max_tokens, max_cells=max_cells)
        self._pipeline = pipeline
        self._dependencies = _DEPENDENCIES in pipeline.processors

    def parse_batch(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tree | ReadTree]:
        """See :meth:`BatchedParser.parse_batch`."""
        typed = [[typed_quotes(word).replace("\u00a0", " ") for word in words] for words in sentences]
        with _silence():
            document = self._pipeline(typed)
        for words, sentence in zip(sentences, document.sentences, strict=True):
            if self._dependencies:
                parents = [word.head - 1 for word in sentence.words]
                yield with_arcs(words, [word.upos or "_" for word in sentence.words], parents)
            else:
                yield _tree(words, sentence.constituency)

    def failure(self, error: Exception) -> str:
        """See :meth:`BatchedParser.failure`."""
        if isinstance(error, AssertionError):  # Stanza loses a sentence, and then counts
            return "the parser found no tree"
        if isinstance(error, InputError):
            return error.reason
        return super().failure(error)


def _tree(words: Sequence[str], root: Any) -> Tree:
    """Convert a tree of Stanza's, with these words as its leaves."""
    builder, upcoming = TreeBuilder(), iter(words)
    todo: list[Any] = [root]  # nodes; None: the open constituent ends
    while todo:
        node = todo.pop()
        if node is None:
            builder.close()
            continue
        is_tag = node.is_preterminal()
        builder.open(UNKNOWN_TAG if is_tag and not node.label else leaf_label(node.label))
        todo.append(None)
        if is_tag:
            builder.word(escape(next(upcoming)))
        else:
            todo += reversed(node.children)
    return builder.finish()


class StanzaSplitter:
    """A loaded ``stanza.Pipeline`` with a tokenizer (:class:`pdtools.parsers.backends.Splitter`)."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline

    def split(self, texts: Sequence[str]) -> list[list[SplitSentence]]:
        """See :meth:`pdtools.parsers.backends.Splitter.split`."""
        joined = "\n\n".join(texts)
        try:
            with _silence():
                document = self._pipeline(joined)
        except Exception as error:
            raise PdtoolsError(f"Stanza's tokenizer failed: {first_line(error)}") from error
        starts = list(itertools.accumulate((len(text) + 2 for text in texts[:-1]), initial=0))
        found: list[list[SplitSentence]] = [[] for _ in texts]
        for sentence in document.sentences:
            place = sentence.tokens[0].start_char
            number = bisect_right(starts, place) - 1
            found[number].append(_split_sentence(joined, sentence.tokens, place - starts[number]))
        return found


def _split_sentence(text: str, tokens: Sequence[Any], start: int) -> SplitSentence:
    """The words of tokens; if they do not spell their token, they are written with blanks."""
    words: list[str] = []
    spelled = ""
    end = tokens[0].start_char
    for token in tokens:
        token_text = token.text
        own = [word.text for word in token.words]
        if token_text == _TOO_LONG:
            token_text = " ".join(text[token.start_char : token.end_char].split())
            own = [token_text]
        words += [word.replace(" ", "\u00a0") for word in own]
        spelled += " " if token.start_char > end else ""
        spelled += token_text if "".join(own) == token_text else " ".join(own)
        end = token.end_char
    return SplitSentence(start, tuple(words), spelled)


def load(model: str | None, device: str) -> StanzaParser:
    """Load a parser of Stanza's and the models it needs; nothing is downloaded.

    Args:
        model: the code of a language whose models ``stanza.download`` installed (default:
            :data:`DEFAULT_MODEL`), the folder of a language, or a parser's ``.pt`` file in such a folder. A
            parser that reads no tags needs no tagger beside it. A dependency parser is taken if a folder
            has no constituency parser.
        device: a torch device.

    Raises:
        MissingDependencyError: if stanza is not installed.
        PdtoolsError: if there is no such model, or it cannot be loaded.
    """
    name, files = model or DEFAULT_MODEL, _files(model)
    parser = _kind(files)
    tagged = f"{_TAGGER}_model_path" in files
    steps = [*([_TAGGER] if tagged else []), *([_LEMMATIZER] if parser == _DEPENDENCIES else []), parser]
    defaults = {_LEMMATIZER: _IDENTITY} if _reads_words_for_lemmas(files) else {}
    try:
        with _silence():
            # Batches are made here.
            options = {f"{parser}_pretagged": not tagged, f"{parser}_batch_size": MAX_TOKENS}
            pipeline = _pipeline(steps, device, defaults, tokenize_pretokenized=True, **options, **files)
            reads_tags = parser == _DEPENDENCIES
            if not reads_tags:
                network = pipeline.processors[_PARSER]._model
                reads_tags = any(each.tag_embedding_dim > 0 for each in getattr(network, "models", [network]))
    except Exception as error:
        raise PdtoolsError(f"{name}: not a Stanza parser that can be loaded ({first_line(error)})") from error
    if reads_tags and not tagged:
        folder_of_taggers = _home(Path(files[f"{parser}_model_path"])) / _TAGGER
        raise PdtoolsError(
            f"{name}: this parser reads tags, and {folder_of_taggers} does not hold exactly one tagger (.pt)"
        )
    return StanzaParser(pipeline)


def _pipeline(steps: list[str], device: str, defaults: dict[str, str], **options: Any) -> Any:
    """Stanza's pipeline of steps whose models options name, or ``defaults`` where these name no files.

    Without the step ``tokenize`` it takes words.
    """
    import stanza

    with tempfile.TemporaryDirectory() as folder:
        # Models known to its downloader are not the pipeline's concern.
        known: dict[str, Any] = {step: {} for step in steps} | {"packages": {"default": defaults}}
        Path(folder, _RESOURCES).write_text(json.dumps({"xx": known}), "utf-8")
        return stanza.Pipeline(
            "xx",
            dir=folder,
            processors=list(dict.fromkeys([_TOKENIZER, *steps])),
            download_method=None,
            device=device,
            **options,
        )


def load_splitter(model: str | None, sentences: bool) -> StanzaSplitter:
    """Load the tokenizer of a language, and its multi-word expander; nothing is downloaded.

    Args:
        model: see :func:`load`; a parser's file gives its language's tokenizer.
        sentences: find sentences, or take each text as one.

    Raises:
        MissingDependencyError: if stanza is not installed.
        PdtoolsError: if there is no tokenizer, or it cannot be loaded.
    """
    files = _splitter_files(model)
    steps = [step for step in (_TOKENIZER, _EXPANDER) if f"{step}_model_path" in files]
    try:
        with _silence():
            pipeline = _pipeline(steps, "cpu", {}, tokenize_no_ssplit=not sentences, **files)
    except Exception as error:
        tokenizer = files[f"{_TOKENIZER}_model_path"]
        raise PdtoolsError(
            f"{tokenizer}: not a tokenizer of Stanza's that can be loaded ({first_line(error)})"
        ) from error
    return StanzaSplitter(pipeline)


def splitter_files(model: str | None) -> list[str]:
    """The files of a tokenizer; see :func:`load_splitter`."""
    return list(dict.fromkeys(_splitter_files(model).values()))


def model_files(model: str | None) -> list[str]:
    """The files of a model; see :func:`load`."""
    return list(dict.fromkeys(_files(model).values()))


def gives_arcs(model: str | None) -> bool:
    """Return whether the parser is one of dependencies; see :func:`load`."""
    return _kind(_files(model)) == _DEPENDENCIES


def note(model: str | None) -> str:
    """A line that names the parser and its kind; see :func:`load`."""
    files = _files(model)
    parser = _kind(files)
    said = f"stanza: {parser} model {files[f'{parser}_model_path']}"
    if parser == _PARSER:
        return said
    lemmas = ", with words for lemmas" if _reads_words_for_lemmas(files) else ""
    return f"{said}, its dependencies made constituents{lemmas}"


def _reads_words_for_lemmas(files: dict[str, str]) -> bool:
    return _kind(files) == _DEPENDENCIES and f"{_LEMMATIZER}_model_path" not in files


def _kind(files: dict[str, str]) -> str:
    return _DEPENDENCIES if f"{_DEPENDENCIES}_model_path" in files else _PARSER


def _files(model: str | None) -> dict[str, str]:
    """Paths of the parser, its tagger and lemmatizer and the models they read, by Stanza's option names.

    ``resources.json`` records which belong together; for models that it does not have, the only file of a
    kind is taken.
    """
    place, home, known = _place(model)
    if place.is_file():
        parser = _kind_of(place)
    else:
        parser = _PARSER if _any(home / _PARSER) or not _any(home / _DEPENDENCIES) else _DEPENDENCIES
    found_files = {parser: place if place.is_file() else _file_of(home, parser, known)}
    if found_files[parser] is None:
        raise PdtoolsError(
            f"{home}: not the folder of a language with a parser of Stanza's in {_PARSER}/ or"
            f" {_DEPENDENCIES}/ (one .pt)"
        )
    found_files[_TAGGER] = _file_of(home, _TAGGER, known)
    if parser == _DEPENDENCIES:
        found_files[_LEMMATIZER] = _file_of(home, _LEMMATIZER, known)
        if found_files[_LEMMATIZER] is None and _has(home, _LEMMATIZER, known):
            hint = f" ({_download(home.name, _DEPENDENCIES)})" if known else ""
            raise PdtoolsError(
                f"{home}: its parser of dependencies reads lemmas, and {_LEMMATIZER}/ does not hold exactly"
                f" one lemmatizer (.pt){hint}"
            )
    return _with_what_they_read(found_files, home, known, _download(home.name, parser))


def _splitter_files(model: str | None) -> dict[str, str]:
    """Paths of a tokenizer and, if there is one, of a multi-word expander, by Stanza's option names."""
    _, home, known = _place(model)
    hint = f"python -c \"import stanza; stanza.download({home.name!r}, processors='tokenize')\" fetches it"
    tokenizer, expander = _file_of(home, _TOKENIZER, known), _file_of(home, _EXPANDER, known)
    if tokenizer is None or (expander is None and _has(home, _EXPANDER, known)):
        missing = f"tokenizer (.pt) in {_TOKENIZER}/"
        if tokenizer is not None:
            missing = f"model of multi-word tokens (.pt) in {_EXPANDER}/"
        raise PdtoolsError(f"{home}: not exactly one {missing}" + (f" ({hint})" if known else ""))
    return _with_what_they_read({_TOKENIZER: tokenizer, _EXPANDER: expander}, home, known, hint)


def _place(model: str | None) -> tuple[Path, Path, dict[str, Any]]:
    """A model, the folder of its language, and the downloader's record of the language."""
    _check_installed()
    place = Path(model or DEFAULT_MODEL)
    if not place.exists():
        place = _installed(model or DEFAULT_MODEL)
    home = place if place.is_dir() else _home(place)
    return place, home, _resources(home.parent).get(home.name, {})


def _with_what_they_read(
    found_files: dict[str, Path | None], home: Path, known: dict[str, Any], hint: str
) -> dict[str, str]:
    """Models by kind, and the models they read, by Stanza's option names."""
    files = {}
    for kind, file in found_files.items():
        if file is None:
            continue
        files[f"{kind}_model_path"] = str(file)
        listed = known.get(kind, {}).get(file.stem) if file.parent == home / kind else None
        if listed is None:
            saved = _read_by(kind, file)
            read = {what: _only(home / what) or Path(path or home / what) for what, path in saved.items()}
        else:
            needed = listed.get("dependencies") or []
            read = {each["model"]: home / each["model"] / f"{each['package']}.pt" for each in needed}
        for what, found in read.items():
            if not found.is_file():
                fetch = "" if listed is None else f" ({hint})"
                raise PdtoolsError(f"{found}: not there, and {file} reads it{fetch}")
            files[f"{kind}_{what}_path"] = str(found)
    return files


def _check_installed() -> None:
    try:
        import stanza  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("stanza", "stanza", _INSTEAD) from error


def _home(parser: Path) -> Path:
    """The language's folder that contains a parser's file."""
    folder = parser.absolute().parent
    return folder.parent if folder.name in (_PARSER, _DEPENDENCIES) else folder


def _installed(language: str) -> Path:
    """The folder of a language where Stanza's downloader puts it."""
    from stanza.resources.common import DEFAULT_MODEL_DIR

    if "/" in language or "." in language:
        raise PdtoolsError(
            f"{language}: no such Stanza model (a .pt file, the folder of a language, or a language such as"
            f" {DEFAULT_MODEL})"
        )
    resources = _resources(Path(DEFAULT_MODEL_DIR))
    alias = resources.get(language, {}).get("alias", language)
    folder = Path(DEFAULT_MODEL_DIR, alias)
    if not folder.is_dir():
        known = resources.get(alias, {_PARSER: {}})
        hint = _download(language, _PARSER if _PARSER in known else _DEPENDENCIES)
        raise PdtoolsError(
            f"the Stanza models of {language} are not installed: {hint}; without a network,"
            f" give their folder with --model ({_INSTEAD})"
        )
    return folder


def _download(language: str, parser: str) -> str:
    kinds = (_TAGGER, parser) if parser == _PARSER else (_TAGGER, _LEMMATIZER, parser)
    command = f"stanza.download('{language}', processors='tokenize,{','.join(kinds)}')"
    return f'python -c "import stanza; {command}" fetches them'


def _resources(root: Path) -> dict[str, Any]:
    """The downloader's record of all models."""
    file = root / _RESOURCES
    if not file.exists():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError) as error:
        raise PdtoolsError(f"{file}: not the list of Stanza's models ({first_line(error)})") from error


def _file_of(home: Path, kind: str, known: dict[str, Any]) -> Path | None:
    """The language's default file of a kind, or the only one."""
    default = known.get("packages", {}).get("default", {}).get(kind)
    file = home / kind / f"{default}.pt"
    return file if file.is_file() else _only(home / kind)


def _has(home: Path, kind: str, known: dict[str, Any]) -> bool:
    """Return whether a language has models of a kind: its record lists one, or its folder holds some."""
    listed = known.get("packages", {}).get("default", {}).get(kind)
    return listed not in (None, _IDENTITY) or _any(home / kind)


def _any(folder: Path) -> bool:
    return any(folder.glob("*.pt"))


def _only(folder: Path) -> Path | None:
    files = list(folder.glob("*.pt"))
    return files[0] if len(files) == 1 else None


def _kind_of(parser: Path) -> str:
    """The kind of a parser, constituents or dependencies, by its folder or its content."""
    folder = parser.absolute().parent.name
    if folder in (_PARSER, _DEPENDENCIES):
        return folder
    try:
        return _DEPENDENCIES if "deprel" in _saved(parser)["vocab"] else _PARSER
    except Exception:  # loading says what is wrong
        return _PARSER


def _saved(file: Path) -> Any:
    import torch

    return torch.load(file, map_location="cpu", weights_only=True)


def _read_by(kind: str, file: Path) -> dict[str, str | None]:
    """The models that a model reads, by its settings, with their paths at training.

    Empty for a file that is no model: loading reports that.
    """
    try:
        saved = _saved(file)
        config = (saved["params"] if kind == _PARSER else saved)["config"]
    except Exception:
        return {}
    if kind in (_TOKENIZER, _EXPANDER):
        reads_vectors = False
    else:
        reads_vectors = saved.get("contextual") if kind == _LEMMATIZER else config.get("pretrain", True)
    read = {"pretrain": config.get("wordvec_pretrain_file")} if reads_vectors else {}
    for way in ("forward", "backward"):
        if config.get("charlm", True) and (charlm := config.get(f"charlm_{way}_file")):
            read[f"{way}_charlm"] = charlm
    return read


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Silence Stanza's logging of the errors that it raises."""
    logger = logging.getLogger("stanza")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
