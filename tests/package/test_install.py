"""Pages on installing; recipes and images; the repository's address."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from shell import script as load_script

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Packages with other names on conda-forge.
CONDA = {"torch": "pytorch", "tensorboardX": "tensorboardx"}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script(ROOT / "packaging" / "address.py")


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The repository's files that are text."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout")
    found = {}
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith("docs/notes/results/"):
            try:
                found[name] = (ROOT / name).read_text("utf-8")
            except UnicodeDecodeError:
                continue
    return found


def test_nothing_installs_from_the_index_before_the_release(texts: dict[str, str]) -> None:
    """Within a line of it stands that it is to be released."""
    wrong = []
    for name, text in texts.items():
        for found in re.finditer(r"pip install[^\n`]*?\bpushdown-tools", text):
            around = text[max(0, found.start() - 100) : found.end() + 100]
            if not re.search(r"\breleased?\b", around) and name != "tests/package/test_install.py":
                wrong.append(f"{name}: {found[0]}")
    assert not wrong


def test_the_recipe_needs_what_pyproject_needs() -> None:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "packaging" / "recipe.yaml").read_text("utf-8"))
    python, *needed = recipe["requirements"]["run"]
    wanted = set()
    for requirement in PROJECT["dependencies"]:
        name, bound = re.fullmatch(r"([\w.-]+)(>=[\d.]+)", requirement.partition(";")[0].strip()).groups()  # type: ignore[union-attr]
        wanted.add(f"{CONDA.get(name, name)} {bound}")
    assert set(needed) == wanted
    assert len(needed) == len(wanted)
    context = recipe["context"]
    assert PROJECT["requires-python"] == f">={context['python_min']}"
    assert python == "python >=${{ python_min }},<3.14"
    assert context["version"] == PROJECT["version"]
    assert recipe["package"]["name"] == PROJECT["name"]
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["build"]["python"]["entry_points"] == [
        f"{name} = {entry}" for name, entry in PROJECT["scripts"].items()
    ]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    assert [each.replace(">", " >", 1) for each in build] == recipe["requirements"]["host"][2:]


@pytest.mark.parametrize("name", ["packaging/Dockerfile", "packaging/pdtools.def", "docs/guide/install.md"])
def test_extras_exist(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    named = {
        extra
        for found in re.findall(r"\[([\w,]+)\]\"?'?(?:$|[ `'])", text, re.M)
        for extra in found.split(",")
    }
    assert named
    assert named <= PROJECT["optional-dependencies"].keys()


def test_the_address_is_the_same_everywhere(script: ModuleType, texts: dict[str, str]) -> None:
    assert script.problems(ROOT) == []
    others = {"packaging/address.py", "tests/package/test_install.py"}
    assert {name for name, text in texts.items() if script.PLACEHOLDER in text} <= {*script.PLACES} | others


def test_one_command_fills_all_places(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (*script.PLACES, "README.md"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    for arguments in (["github.com/someone/pdtools"], ["https://github.com"], ["https://x.org/a", "b"]):
        assert script.main(tmp_path, arguments) == 1
    for new in ("https://github.com/someone/pdtools", "https://codeberg.org/else/pdtools"):  # and anew
        assert script.main(tmp_path, [new]) == 0
        said = capsys.readouterr().out
        for place in script.PLACES:
            text = (tmp_path / place).read_text("utf-8")
            assert new in text
            assert script.PLACEHOLDER not in text
            assert f"{place}:" in said
        readme = (tmp_path / "README.md").read_text("utf-8")
        assert f"]({new}/raw/main/docs/view.png)" in readme
        assert f"[First steps]({new}/blob/main/docs/guide/first-steps.md)" in readme
        links = re.findall(r"\]\(([^)\s]+)\)", readme)
        assert len(links) > 15
        assert all(link.startswith(new) for link in links)
        assert links == [
            f"{new}/{'raw' if link.endswith('.png') else 'blob'}/main/{link}"
            for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text("utf-8"))
        ]
    recipe = tmp_path / "packaging" / "recipe.yaml"
    recipe.write_text(recipe.read_text("utf-8").replace("codeberg.org/else", "codeberg.org/other"))
    assert script.main(tmp_path, []) == 1
    assert "packaging/recipe.yaml: not https://codeberg.org/else/pdtools" in capsys.readouterr().err
