"""The address of the repository: one edit writes it wherever it stands.

    python packaging/address.py                              # what it is, where it stands, what is wrong
    python packaging/address.py https://github.com/NAME/pdtools

``pyproject.toml`` has it (``Repository``); until it is known, that is a placeholder. The second command
writes another one into all places, and makes README's links and picture absolute, for the package index.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PLACEHOLDER = "https://repository.invalid/pdtools"
PLACES = ("pyproject.toml", "CITATION.cff", "docs/guide/install.md", "packaging/recipe.yaml")
BRANCH = "main"
_RELATIVE = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)\s]+)\)")


def address(root: Path) -> str:
    """Return the address in ``pyproject.toml``."""
    found = re.search(r'^Repository = "(.*)"$', (root / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit("pyproject.toml: [project.urls] has no Repository")
    return found[1]


def places(root: Path) -> list[str]:
    """Places of the address, each as ``file:line``."""
    known = address(root)
    return [
        f"{place}:{number}"
        for place in (*PLACES, "README.md")
        for number, line in enumerate((root / place).read_text("utf-8").splitlines(), 1)
        if known in line
    ]


def problems(root: Path) -> list[str]:
    """Places that do not have the address, or links of README that are relative although it is known."""
    known = address(root)
    found = [f"{place}: not {known}" for place in PLACES if known not in (root / place).read_text("utf-8")]
    if known != PLACEHOLDER:
        relative = _RELATIVE.findall((root / "README.md").read_text("utf-8"))
        found += [f"README.md: a relative link: {target}" for _, _, target in relative]
        found += [
            f"{place}: the placeholder"
            for place in PLACES
            if PLACEHOLDER in (root / place).read_text("utf-8")
        ]
    return found


def fill(root: Path, new: str) -> None:
    """Write another address into all places."""
    old = address(root)
    for place in (*PLACES, "README.md"):
        text = (root / place).read_text("utf-8").replace(old, new)
        if place == "README.md":
            text = _RELATIVE.sub(
                lambda link: f"{link[1]}[{link[2]}]({new}/{'raw' if link[1] else 'blob'}/{BRANCH}/{link[3]})",
                text,
            )
        (root / place).write_text(text, "utf-8", newline="\n")


def main(root: Path, arguments: list[str]) -> int:
    """Run the command. Exit status 1: the places disagree."""
    if arguments:
        if not re.fullmatch(r"https://[^\s/]+(/[^\s/]+)+", arguments[0]) or arguments[1:]:
            print("address.py: an address is such as https://github.com/NAME/pdtools", file=sys.stderr)
            return 1
        fill(root, arguments[0])
    still = " (a placeholder: still to be filled)" if address(root) == PLACEHOLDER else ""
    print(f"{address(root)}{still}", *places(root), sep="\n    ")
    for problem in problems(root):
        print(problem, file=sys.stderr)
    return int(bool(problems(root)))


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1], sys.argv[1:]))
