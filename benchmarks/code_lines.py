"""Lines of code in pdtools/ and cli/: without docstrings, comments and blank lines.

    python benchmarks/code_lines.py [CHECKOUT [OTHER]]

Of two checkouts, files whose number differs are listed too.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from pathlib import Path

_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
}


def code_lines(source: str) -> int:
    """How many lines of a module have code on them."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def by_file(checkout: Path) -> dict[str, int]:
    """The number of each module, by its path."""
    modules = (file for folder in ("pdtools", "cli") for file in (checkout / folder).rglob("*.py"))
    return {str(file.relative_to(checkout)): code_lines(file.read_text("utf-8")) for file in modules}


def main() -> None:
    """Print the sums; of two checkouts also what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path(__file__).parents[1]])
    counted = [by_file(checkout) for checkout in parser.parse_args().checkouts]
    print(*(sum(files.values()) for files in counted))
    if len(counted) == 2:
        one, other = counted
        for file in sorted(one.keys() | other.keys(), key=lambda file: other.get(file, 0) - one.get(file, 0)):
            if one.get(file) != other.get(file):
                print(f"{other.get(file, 0) - one.get(file, 0):+5d}  {file}")


if __name__ == "__main__":
    main()
