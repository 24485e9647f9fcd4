"""spaCy's dependency parsers (Honnibal et al. 2020) as a backend: dependencies made constituents.

A pipeline is an installed package, or a folder. Its English ones follow the CLEAR scheme, not UD: auxiliaries
depend on their verbs, and nouns on their prepositions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pdtools.errors import MissingDependencyError, PdtoolsError
from pdtools.files import read_json
from pdtools.parsers.backends import BatchedParser, SplitSentence, first_line, typed_quotes, with_arcs
from pdtools.trees.forms.form import ReadTree

DEFAULT_MODEL = "en_core_web_sm"
MAX_TOKENS = 4000
MAX_CELLS = 400_000  # for pipelines with attention between words
# Steps that a parse does not need.
_UNREAD = (
    "ner",
    "entity_linker",
    "entity_ruler",
    "lemmatizer",
    "trainable_lemmatizer",
    "textcat",
    "textcat_multilabel",
)


class SpacyParser(BatchedParser):
    """A loaded pipeline. Each sentence stays one."""

    def __init__(self, pipeline: Any) -> None:
        super().__init__(max_tokens=MAX_TOKENS, max_cells=MAX_CELLS)
        self._pipeline = pipeline

    def parse_batch(self, sentences: Sequence[Sequence[str]]) -> Iterator[ReadTree]:
        """See :meth:`BatchedParser.parse_batch`."""
        from spacy.tokens import Doc

        given = []
        for words in sentences:
            starts: list[Any] = [k == 0 for k in range(len(words))]
            spelled = [typed_quotes(word) for word in words]
            given.append(Doc(self._pipeline.vocab, words=spelled, sent_starts=starts))
        for words, parsed in zip(sentences, self._pipeline.pipe(given), strict=True):
            parents = [-1 if token.head.i == token.i else token.head.i for token in parsed]
            yield with_arcs(words, [token.pos_ or "_" for token in parsed], parents)


class SpacySplitter:
    """A loaded pipeline that splits texts (:class:`pdtools.parsers.backends.Splitter`)."""

    def __init__(self, pipeline: Any, *, sentences: bool) -> None:
        self._pipeline = pipeline
        self._sentences = sentences

    def split(self, texts: Sequence[str]) -> list[list[SplitSentence]]:
        """See :meth:`pdtools.parsers.backends.Splitter.split`."""
        if not self._sentences:
            return [_split([self._pipeline.make_doc(text)[:]]) for text in texts]
        return [_split(parsed.sents) for parsed in self._pipeline.pipe(texts)]


def _split(sentences: Any) -> list[SplitSentence]:
    """The sentences of a text that have words; tokens of white space are none."""
    found = []
    for sentence in sentences:
        words, spelled = [], ""
        for token in sentence:
            if token.is_space:
                spelled += " "
                continue
            words.append(token.text.replace(" ", "\u00a0"))
            spelled += token.text_with_ws
        if words:
            start = next(token.idx for token in sentence if not token.is_space)
            found.append(SplitSentence(start, tuple(words), " ".join(filter(None, spelled.split(" ")))))
    return found


def load(model: str | None, device: str) -> SpacyParser:
    """Load a pipeline with a parser; nothing is downloaded.

    Args:
        model: an installed pipeline's name (default: :data:`DEFAULT_MODEL`), or its folder.
        device: the CPU; spaCy picks no device of torch's.

    Raises:
        MissingDependencyError: if spaCy is not installed.
        PdtoolsError: if there is no such pipeline, it cannot be loaded, or has no parser.
    """
    return SpacyParser(_pipeline(model))


def load_splitter(model: str | None, sentences: bool) -> SpacySplitter:
    """Load a pipeline that splits texts into words and, by its parser, into sentences; see :func:`load`."""
    return SpacySplitter(_pipeline(model), sentences=sentences)


def splitter_files(model: str | None) -> list[str]:
    """The files of a pipeline."""
    return model_files(model)


def model_files(model: str | None) -> list[str]:
    """The files of a pipeline."""
    files = _folder(model).rglob("*")
    return sorted(str(file) for file in files if file.is_file() and file.suffix not in (".py", ".pyc"))


def gives_arcs(model: str | None) -> bool:
    """Return True: all of these parsers give dependencies."""
    return True


def note(model: str | None) -> str:
    """A line that names the pipeline, and says if it was made for another version of spaCy."""
    name, meta = model or DEFAULT_MODEL, _meta(model)
    import spacy

    said = f"spacy: {name} {meta.get('version', '')}, its dependencies made constituents"
    needed = str(meta.get("spacy_version") or "")
    if needed and spacy.util.is_compatible_version(spacy.__version__, needed) is False:
        said += f"; it was made for spaCy {needed}, not {spacy.__version__}: its trees may be worse"
    return said


def _pipeline(model: str | None) -> Any:
    name, folder = model or DEFAULT_MODEL, _folder(model)
    import spacy

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # note() says what they say of versions
            pipeline = spacy.load(folder, exclude=list(_UNREAD))
    except Exception as error:
        raise PdtoolsError(
            f"{name}: not a pipeline of spaCy's that can be loaded ({first_line(error)})"
        ) from error
    if "parser" not in pipeline.pipe_names:
        raise PdtoolsError(
            f"{name}: this pipeline has no parser (it has {', '.join(pipeline.pipe_names) or 'nothing'})"
        )
    return pipeline


def _folder(model: str | None) -> Path:
    """The folder of a pipeline: one that is given, or an installed package's.

    Raises:
        MissingDependencyError: if spaCy is not installed.
        PdtoolsError: if there is none.
    """
    try:
        import spacy
    except ImportError as error:
        raise MissingDependencyError("spacy", "spacy") from error
    name = model or DEFAULT_MODEL
    folder = Path(name)
    if not folder.is_dir() and spacy.util.is_package(name):
        package = Path(spacy.util.get_package_path(name))
        folder = next(iter(sorted(file.parent for file in package.rglob("config.cfg"))), package)
    if not (folder / "config.cfg").is_file():
        raise PdtoolsError(
            f"{name}: no pipeline of spaCy's, nor a folder of one"
            f" (python -m spacy download {DEFAULT_MODEL} installs one)"
        )
    return folder


def _meta(model: str | None) -> dict[str, Any]:
    file = _folder(model) / "meta.json"
    found = read_json(file) if file.is_file() else {}
    return found if isinstance(found, dict) else {}
