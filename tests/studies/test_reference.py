"""The reference: a page a command, whose tables say what commands take and code writes."""

from __future__ import annotations

import dataclasses
import pkgutil
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands import every_command
from shell import script as load_script

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = REPOSITORY / "docs" / "reference"


REFERENCE = load_script(REPOSITORY / "packaging" / "reference.py")
COMMANDS = sorted(REFERENCE.commands())


GUIDE = load_script(REPOSITORY / "packaging" / "guide.py")
TREES = "pdtools parse sample/treebank/test.mrg --from treebank -o test.trees"
PAIRS = "pdtools eval-blimp sample/blimp/mini_npi_scope.jsonl --model demo"
# What has to be there before the first example of a help, besides the data set "sample".
BEFORE = {
    "tapes": ["pdtools parse sample/treebank/train.mrg --from treebank -o train.trees"],
    "eval-ppl": [
        TREES,
        "head -10 test.trees > ten.trees",
        "pdtools tapes ten.trees -o shards/test --tokenizer demo",
    ],
    "eval-parse": [
        TREES,
        "pdtools parse test.trees --from treebank --parser right-branching -o right.trees",
    ],
    "eval-formal cfl": ["pdtools generate cfl hardest --number 1000 --seed 2 --shards -o shards/hardest"],
    "compare": [f"{PAIRS} -o results/npi", f"{PAIRS}-base -o results/npi-base"],
}


def named(table: str) -> set[str]:
    """Names in backticks in the first column, and those linked to the page of shared options."""
    rows = [re.split(r" \| |: ", line)[0] for line in table.splitlines()]
    return {name for row in (*rows, linked(table)) for name in re.findall("`([^`]+)`", row)}


def linked(table: str) -> str:
    """The names of options that are described on the page of shared ones."""
    names = "".join(re.findall(r"- \[shared\]\(options\.md\): (.*)", table))
    return re.sub(r"\*(\w+)\*", lambda match: REFERENCE.TOGETHER[match[1]], names)


def test_a_page_a_command() -> None:
    there = {page.stem for page in (PAGES / "commands").glob("*.md")} - {"index", "options"}
    assert there == {name.split()[0] for name in COMMANDS}
    menu = (REPOSITORY / "mkdocs.yml").read_text("utf-8")
    listed = (PAGES / "commands" / "index.md").read_text("utf-8")
    for name in there:
        assert f"reference/commands/{name}.md\n" in menu
        assert f"({name}.md)" in listed


@pytest.mark.parametrize("name", COMMANDS)
def test_its_page_has_its_help_and_every_option(name: str) -> None:
    page = (PAGES / "commands" / f"{name.split()[0]}.md").read_text("utf-8")
    assert f"<!-- generated: reference command {name} -->" in page
    options = [each for each in every_command()[name].params if each.param_type_name == "option"]
    wanted = {option for each in options for option in (*each.opts, *each.secondary_opts)}
    table = REFERENCE.options(*name.split())
    assert named(table) == wanted - {"--help", "-h"}
    assert set(re.findall("`([^`]+)`", linked(table))) <= named(REFERENCE.shared_options())


def printed_by_examples() -> list[tuple[str, str, str]]:
    """The commands, calls and printed lines of all helps that have them."""
    return [
        (name, "\n".join(call), "\n".join(lines))
        for name, function in REFERENCE.commands().items()
        for call, lines in REFERENCE.examples(function.__doc__)
        if lines
    ]


@pytest.mark.parametrize(("name", "call", "lines"), printed_by_examples())
def test_a_help_shows_what_its_example_prints(
    name: str, call: str, lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    said: set[str] = set()
    before = [] if name == "data get" else ["pdtools data get sample", *BEFORE.get(name, [])]
    GUIDE.printed(GUIDE.Block("\n".join(before), False, 0), {}, said)
    printed = GUIDE.printed(GUIDE.Block(call, False, 0), {}, said).splitlines()
    wanted = len(lines.splitlines())
    found = ["\n".join(printed[i : i + wanted]) for i in range(len(printed))]
    assert [each for each in found if GUIDE.difference(lines, each) is None], "\n".join(printed)


def test_most_helps_show_what_their_commonest_call_prints() -> None:
    first = [REFERENCE.examples(function.__doc__)[0] for function in REFERENCE.commands().values()]
    assert sum(bool(printed) for _, printed in first) > 20


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("with trust_remote_code=True, for", "with `trust_remote_code=True`, for"),
        ("--beam auto scores every pair", "`--beam auto` scores every pair"),
        (
            "as in pdtools generate cfl, or pdtools eval-sg",
            "as in `pdtools generate cfl`, or `pdtools eval-sg`",
        ),
        ("(sbatch --array=0-7) --shard I/N.", "(sbatch `--array=0-7`) `--shard I/N`."),
        (
            'such as "import pdtools.hf" or (X (-NONE- *)).',
            "such as `import pdtools.hf` or `(X (-NONE- *))`.",
        ),
        ("files/trace.md (.txt, a*b <x>)", r"`files/trace.md` (`.txt`, a\*b &lt;x>)"),
        ("train.learning_rate=0.01,0.005 or layers", "`train.learning_rate=0.01,0.005` or layers"),
    ],
)
def test_code_in_help(said: str, shown: str) -> None:
    assert REFERENCE._prose(said) == shown


def test_commands_on_the_pages_have_these_options() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES.rglob("*.md")).replace("\\\n", "")
    lines = re.findall(r"^    (pdtools .*)$", text, re.MULTILINE)
    assert len(lines) > 80
    for line in lines:
        words = shlex.split(line.partition(" > ")[0], comments=True)[1:]
        name = next(name for name in COMMANDS if words[: len(name.split())] == name.split())
        command = every_command()[name]
        context = command.make_context(name, [], resilient_parsing=True)
        command.make_parser(context).parse_args(words[len(name.split()) :])


@pytest.mark.parametrize("name", ["Trace", "Parse", "TraceStep", "Hypothesis", "Split", "AttentionTrace"])
def test_keys_of_traces(name: str) -> None:
    place = f"pdtools.inspection.trace.{name}"
    fields = {field.name for field in dataclasses.fields(pkgutil.resolve_name(place))}
    assert named(REFERENCE.table(place)) == fields


def test_keys_of_tasks() -> None:
    from pdtools.prompts.tasks import PromptTask

    assert named(REFERENCE.table("pdtools.prompts.tasks.PromptTask")) == {
        field.name for field in dataclasses.fields(PromptTask)
    }


def test_columns_are_those_that_are_written() -> None:
    from pdtools.evaluation.benchmark.outcomes import JudgedItems
    from pdtools.evaluation.reading.effects import effects_table
    from pdtools.evaluation.sg.suites import SuiteItems
    from pdtools.inspection import region_attention
    from pdtools.search.surprisal import columns

    of_items, groups = JudgedItems(SuiteItems(())), {"circuit", "suite"}
    written = {
        "pdtools.evaluation.benchmark.outcomes.JudgedItems.items_schema": {*of_items.items_schema().names}
        - groups,
        "pdtools.evaluation.benchmark.outcomes.JudgedItems.strings_schema": {*of_items.strings_schema().names}
        - groups,
        "pdtools.evaluation.reading.effects.effects_table": effects_table([]).schema.names,
        "pdtools.inspection.region_attention._Rows.table": region_attention._COLUMNS,
        "pdtools.search.surprisal.columns": [
            "sentence_id",
            *columns(parses=True, seen=True, measures=("entropy", "rank")),
        ],
    }
    for place, names in written.items():
        listed = named(REFERENCE.table(place, "column")) - {"word_id", "word"}
        assert listed - {"--words", "--entropy", "--rank"} == set(names), place


def test_columns_of_shards_and_their_types() -> None:
    from pdtools.shards.format import ShardSettings, arrow_schema

    tokenizer: Any = SimpleNamespace(text_style="ptb", fingerprint="")
    layouts = [
        ShardSettings(constituents="labelled", arcs="unlabelled"),
        ShardSettings(layout="window", window=9, prompts="labels"),
        ShardSettings(layout="window", window=9, prompts="numbers"),
    ]
    fields = [field for settings in layouts for field in arrow_schema(settings, tokenizer, [])]
    written = {
        field.name: str(field.type).replace("list<element: int32>", "list of int32") for field in fields
    }
    written = {name: kind.replace("list<item: int32>", "list of int32") for name, kind in written.items()}
    written = {name: kind.replace("double", "float64") for name, kind in written.items()}
    rows = [line.split(" | ") for line in REFERENCE.table("pdtools.shards.format").splitlines()[2:]]
    assert {name: kind for names, kind, _ in rows for name in re.findall("`([^`]+)`", names)} == written


def test_keys_of_recipes_are_all_listed_once() -> None:
    both = named(REFERENCE.keys("transformer")) | named(REFERENCE.keys("pushdown", "transformer"))
    assert both == named(REFERENCE.keys("pushdown"))
    assert {"steps", "seed", "keep_at"} < named(REFERENCE.keys())
    page = (PAGES / "files" / "recipe.md").read_text("utf-8")
    for name in ("layers", "pushdown_layers", "max_open", "scaffold", "stack_states", "learning_rate"):
        assert f"| `{name}` |" in page


def test_every_bundled_recipe_and_benchmark_is_named() -> None:
    from pdtools.evaluation.benchmark.from_toml import BENCHMARKS
    from pdtools.training.recipe import RECIPES

    for page, wanted in (("recipe", RECIPES.names), ("benchmark", BENCHMARKS.names)):
        text = (PAGES / "files" / f"{page}.md").read_text("utf-8")
        assert {*wanted} <= {*re.findall(r"`([\w-]+)`", text)}, page
