"""The spread of knowledge over pdtools/ and cli/, and the number of lines of code there.

    python benchmarks/structure.py [--files] [--words] [CHECKOUT...]

A column for each checkout (by default this one). With --files, of two, the files whose lines of code differ;
with --words, how often words stand there that are not the field's, keys of files left aside.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

Sources = Mapping[str, str]
"""The text of each module, by its path."""

_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
}


def code_lines(source: str) -> int:
    """Count the lines of a module with code on them: no docstring, comment or blank line."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        is_documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if is_documented and ast.get_docstring(node, clean=False) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def _naming(pattern: str) -> Callable[[Sources], int]:
    return lambda sources: sum(bool(re.search(pattern, text)) for text in sources.values())


def _times(pattern: str) -> Callable[[Sources], int]:
    return lambda sources: sum(len(re.findall(pattern, text)) for text in sources.values())


def _of_formal_languages(sources: Sources) -> int:
    """Count the modules outside of rooms of their own (folders ``formal``) that name formal languages."""
    pattern = r"(?i)\b(?:formal|dyck|cfl)\b|(?:formal|eval|generate)_(?:dyck|cfl|task)|transduction|TaskInput"
    return sum(
        bool(re.search(pattern, text)) for file, text in sources.items() if "formal" not in Path(file).parts
    )


def _members(sources: Sources) -> Iterator[tuple[set[str], set[str]]]:
    """The parameters of each function and the fields of each class; and the methods of the class."""
    for text in sources.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}, set()
            elif isinstance(node, ast.ClassDef):
                fields = {
                    each.target.id
                    for each in node.body
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                }
                yield fields, {each.name for each in node.body if isinstance(each, ast.FunctionDef)}


FIGURES: dict[str, Callable[[Sources], int]] = {
    "files that name margin": _naming(r"\bmargin\b"),
    "functions and classes with a beam and a margin": lambda sources: sum(
        {"beam", "margin"} <= names for names, _ in _members(sources)
    ),
    "files that ask for derivation_kind": _naming(r"\bderivation_kind\b"),
    "isinstance(…, GrammarLM)": _times(r"isinstance\([^()]*, GrammarLM\)"),
    "classes that digest, pack and unpack chunks themselves": lambda sources: sum(
        {"pack", "unpack", "digest"} <= methods for _, methods in _members(sources)
    ),
    "modules that name formal languages, outside of their folders": _of_formal_languages,
    "lines of code, formatted alike": lambda sources: sum(map(code_lines, sources.values())),
}


WORDS = {
    "piece (chunk; token)": r"(?<!word)(?<!sentence)(?<!\bs)piece",
    "contest (comparison)": "contest",
    "doubt (error bound)": r"doubts?(?!ful)",
    "reach_words (conditions_tokens)": "reach(?:es)?_words",
    "widening (adaptive beam)": "widening",
    "given trees (proposal trees)": r"(?<!the )given[ _]?trees",
    "recorded scores (external)": r"recorded(?:_?(?:scorer|options|words)|[./](?=\w))",
    "models of actions (action models)": r"models? of\s+actions",
    "left out (excluded)": r"left[ _]?out",
    "side by side, of models (vmapped)": r"side_by_side|models? (?:that read )?side by side",
    "Brief, Formed, Held": r"class (?:Brief|Formed|Held)\b",
}
_KEY = re.compile(r"""(?<=["'`])[\w{}./]+(?=["'`])|ppl_\w+|"[^"\n]*left out[^"\n]*"(?=\])""")


def words(sources: Sources) -> dict[str, int]:
    """How often each of ``WORDS`` stands in modules and their names, also within names; no keys of files."""
    texts = [file.replace("_", " _") + "\n" + _KEY.sub("", text) for file, text in sources.items()]
    return {
        word: sum(len(re.findall(rf"(?i){pattern}", text)) for text in texts)
        for word, pattern in WORDS.items()
    }


def read(checkout: Path) -> Sources:
    """The modules of pdtools/ and cli/, formatted alike: code that fits on a line stands on one."""
    with tempfile.TemporaryDirectory() as made:
        for folder in ("pdtools", "cli"):
            for file in (checkout / folder).rglob("*.py"):
                copy = made / file.relative_to(checkout)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(file.read_bytes())
        options = ("line-length = 110", "format.skip-magic-trailing-comma = true")
        configured = [part for option in options for part in ("--config", option)]
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", *configured, made], check=True)
        modules = Path(made).rglob("*.py")
        return {str(file.relative_to(made)): file.read_text("utf-8") for file in modules}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path(__file__).parents[1]])
    parser.add_argument("--files", action="store_true", help="of two: what differs in lines of code")
    parser.add_argument("--words", action="store_true", help="words of the house that are not the field's")
    arguments = parser.parse_args()
    read_of = [read(checkout) for checkout in arguments.checkouts]
    for name, figure in FIGURES.items():
        print(f"{name:62s}", *(f"{figure(sources):6d}" for sources in read_of))
    if arguments.words:
        counts = [words(sources) for sources in read_of]
        for word in WORDS:
            print(f"{word:62s}", *(f"{count[word]:6d}" for count in counts))
    if arguments.files:
        one, other = ({file: code_lines(text) for file, text in sources.items()} for sources in read_of)
        differ = {file: other.get(file, 0) - one.get(file, 0) for file in one.keys() | other.keys()}
        for file in sorted(filter(differ.get, differ), key=lambda file: (differ[file], file)):
            print(f"{differ[file]:+5d}  {file}")


if __name__ == "__main__":
    main()
