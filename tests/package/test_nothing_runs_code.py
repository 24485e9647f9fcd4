"""Nothing that is loaded can run code: the names that could are absent from the sources, or used safely."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = [
    path for folder in ("pdtools", "cli", "data") for path in sorted((REPOSITORY / folder).rglob("*.py"))
]

MODULES = {
    "pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "yaml",
    "code",
    "codeop",
}
BUILTINS = {"eval", "exec", "compile", "__import__"}
# A process sends work to those that it started itself, through a private folder that it has just made.
# Of a benchmark that is published as pickles an unpickler reads plain data, and refuses all names. That of
# released vocabularies knows one name, of a class of its own without code.
EXCEPTIONS = {
    "pdtools/jobs/workers.py": ["pickle"],
    "pdtools/evaluation/benchmark/readers.py": ["pickle"],
    "pdtools/models/released_pushdown.py": ["pickle"],
}
# What loads or unpacks more than data, whatever it is called on.
METHODS = {
    "extract",
    "extractall",
    "unpack_archive",
    "read_pickle",
    "to_pickle",
    "load_module",
    "exec_module",
}
ARGUMENTS = {"allow_pickle": False, "trust_remote_code": False, "weights_only": True, "shell": False}


def findings(source: str) -> Iterator[str]:
    """What of a source could run code out of a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            arguments = {argument.arg: argument.value for argument in node.keywords}
            if name in BUILTINS or name.split(".")[-1] in METHODS:
                yield name
            if name == "torch.load" and "weights_only" not in arguments:
                yield "torch.load without weights_only"
            for argument, safe in ARGUMENTS.items():
                value = arguments.get(argument)
                if value is not None and not (isinstance(value, ast.Constant) and value.value is safe):
                    yield f"{name}({argument}={ast.unparse(value)})"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_no_source_can_run_what_it_loads(path: Path) -> None:
    allowed = EXCEPTIONS.get(path.relative_to(REPOSITORY).as_posix(), [])
    assert list(findings(path.read_text(encoding="utf-8"))) == allowed


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from yaml import load",
        "import joblib.memory as m",
        "eval('1')",
        "exec(text)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "numpy.load(path, allow_pickle=True)",
        "AutoModel.from_pretrained(path, trust_remote_code=flag)",
        "archive.extractall(folder)",
        "pandas.read_pickle(path)",
        "subprocess.run(line, shell=True)",
    ],
)
def test_the_scan_finds_what_it_looks_for(source: str) -> None:
    assert list(findings(source))


@pytest.mark.parametrize(
    "source",
    [
        "model.eval()",
        "re.compile('a')",
        "torch.load(path, weights_only=True)",
        "from_pretrained(path, trust_remote_code=False)",
    ],
)
def test_the_scan_lets_the_rest_pass(source: str) -> None:
    assert not list(findings(source))


@pytest.mark.parametrize("name", ["benepar", "stanza"])
def test_a_parser_model_that_is_a_program_is_not_run(name: str, tmp_path: Path) -> None:
    """Parsers call torch.load themselves: benepar's, of torch 2.6 and newer, loads nothing but data."""
    pytest.importorskip(name, reason=f"{name} is not installed")
    from pdtools.errors import PdtoolsError
    from pdtools.parsers.backends import load_parser

    class Program:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "was here"),)

    path = tmp_path / "model.pt"
    torch.save({"config": Program(), "state_dict": {}}, path)
    with pytest.raises(PdtoolsError, match="not a (benepar model|Stanza parser)"):
        load_parser(name, str(path), "cpu")
    assert not (tmp_path / "was here").exists()
