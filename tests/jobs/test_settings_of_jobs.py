"""What jobs record: options of commands with chunks are in the settings, or are known not to matter."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from commands import every_command
from options import with_options
from small_jobs import Case

from pdtools.cli.main import run
from pdtools.errors import PdtoolsError
from pdtools.files import atomic_directory, write_json

Settings = Callable[..., dict[str, Any]]

INPUT = "the first argument"
SEARCH = {
    "--beam": (["--beam", 7], {"beam"}),
    "--margin": (["--margin", 3], {"margin"}),
    "--search": (["--search", "word_beam=2", "--search", "fast_track=2"], {"word_beam", "fast_track"}),
}
MODEL = {
    **SEARCH,
    "--trees": (["--trees", "{inputs}/blocks.trees"], {"trees"}),
    "--bos": (["--no-bos"], {"bos"}),
    "--pll": (["--pll", "original"], {"pll"}),
    "--dtype": (["--dtype", "bf16"], {"dtype"}),
}
CONTEXT = {
    "--context": (["--context", "{inputs}/before.txt"], {"context"}),
    "--context-parses": (["--context", "{inputs}/before.txt", "--context-parses", "beam"], {"context"}),
    "--window": (["--context", "{inputs}/before.txt", "--window", 9], {"context"}),
}
DOCUMENTS = {**CONTEXT, "--stride": (["--stride", 4], {"context"})}
OTHER_MODEL = {"--model": (["--model", "{inputs}/models/head"], {"model"})}
WIDENED = {"auto": (["--beam", "auto"], {"beam", "steps"})}
SHAPES: dict[str, Any] = {
    "--lower-case": (["--lower-case"], {"tokenizer"}),
    "--vocab-size": (["--vocab-size", 12], {"tokenizer"}),
    "--min-count": (["--min-count", 2], {"tokenizer"}),
    "--unk": (["--no-unk"], {"tokenizer"}),
    "--text-style": (["--text-style", "raw"], {"tokenizer"}),
    "--binarize": (["--binarize", "left"], {"factor"}),
    "--tape": (["--tape", "none"], {"tape"}),
}
WINDOWS = ["--layout", "window", "--window", 24]
# Of each case of commands: how every option is given, and the settings that it changes.
CHANGES: dict[str, Mapping[str, tuple[list[Any], set[str]]]] = {
    "surprisal": {
        **MODEL,
        **DOCUMENTS,
        **OTHER_MODEL,
        "--entropy": (["--entropy"], {"measures"}),
        "--rank": (["--rank"], {"measures"}),
        "--parses": (["--parses"], {"parses"}),
    },
    "stimuli": {
        "--entropy": (["--entropy"], {"models"}),
        "--parses": (["--parses"], {"parses"}),
        "--correct-spaces": (["--correct-spaces"], {"models"}),
        "--beam": (["--beam", "3"], {"models"}),
    },
    "decode": {
        **SEARCH,
        **OTHER_MODEL,
        "--dtype": MODEL["--dtype"],
        "--k-best": (["--k-best", 2], {"k_best"}),
        "--cky": (["--cky"], {"cky"}),
    },
    "eval-ppl": {
        **MODEL,
        **OTHER_MODEL,
        "--marginal": (["--no-marginal"], {"marginal"}),
        "--particles": (["--particles", 3], {"particles", "particles_seed"}),
        "--seed": (["--particles", 3, "--seed", 5], {"particles", "particles_seed"}),
        INPUT: (["{inputs}/strings"], {"shards"}),
    },
    "ppl-masked": {},
    "ppl-text": {**MODEL, **DOCUMENTS, **OTHER_MODEL},
    "eval-blimp": {**MODEL, **CONTEXT, **OTHER_MODEL, **WIDENED},
    "eval-sg": {**MODEL, **CONTEXT, **OTHER_MODEL, **WIDENED},
    "benchmark": {**MODEL, **CONTEXT, **OTHER_MODEL, **WIDENED},
    "eval-dyck": {"--beam": SEARCH["--beam"], "--margin": SEARCH["--margin"], **OTHER_MODEL},
    "eval-reading": {
        **{name: (given, {"models"}) for name, (given, _) in {**MODEL, **DOCUMENTS, **OTHER_MODEL}.items()},
        "--beams": (["--beams", "2,3"], {"models"}),
        "--predictor": (["--predictor", "surprisal", "--predictor", "entropy"], {"models"}),
        "--correct-spaces": (["--correct-spaces"], {"models"}),
    },
    "parse": {
        **{name: (given, {"parser"}) for name, (given, _) in SEARCH.items()},
        "--parser": (["--parser", "{inputs}/models/head"], {"parser"}),
        "--cky": (["--cky"], {"parser"}),
        "--binarize": (["--binarize", "left"], {"binarize"}),
    },
    "stanza": {"--split-words": (["--split-words", "parser"], {"split_words"})},
    "treebank": {
        "--binarize": (["--binarize", "none"], {"binarize"}),
        "--functions": (["--functions", "keep"], {"functions"}),
    },
    "conllu": {
        "--surface": (["--surface"], {"surface"}),
        "--from": (["--from", "conllu-enhanced"], {"enhanced"}),
        "--binarize": (["--binarize", "head"], {"binarize"}),
    },
    "export": {
        "--discontinuous": (["--discontinuous", "skip"], {"discontinuous"}),
        "--punctuation": (["--punctuation", "root"], {"punctuation"}),
        "--from": (["--from", "discbracket"], {"from"}),
    },
    "historical": {"--lemmas": (["--lemmas", "keep"], {"lemmas"})},
    "tapes": {
        **SHAPES,
        "--tokenizer": (["--tokenizer", "{inputs}/models/base"], {"tokenizer"}),
        "--layout": (WINDOWS, {"layout", "constituents", "tape", "window", "documents"}),
    },
    "windows": {
        "--window": (["--window", 32], {"window"}),
        "--documents": (["--documents", "blank"], {"documents"}),
        "--tape": (["--tape", "packed"], {"tape"}),
        "--binarize": SHAPES["--binarize"],
    },
    "eval-classify": {
        "--dtype": MODEL["--dtype"],
        **OTHER_MODEL,
        INPUT: (["{inputs}/strings"], {"shards"}),
    },
}
COMMANDS = {
    **dict.fromkeys(("ppl-masked", "ppl-text"), "eval-ppl"),
    **dict.fromkeys(("stanza", "treebank", "conllu", "export", "historical"), "parse"),
    **{"benchmark": "eval-benchmark", "windows": "tapes", "stimuli": "surprisal"},
    "eval-dyck": "eval-formal dyck",
}
# What does the work, and what is done with its results: chunks of one job may differ in it.
WHO = {"--workers", "--shard", "--scheduler", "--resume", "--device", "--threads"}
RESULTS = {"--output", "--overwrite", "--json", "--quiet", "--on-error", "--latex", "--details"}
EXTERNAL = {"--surprisals", "--write-sentences", "--nats"}
# Chunks have the digest of their content, and what is made of all of them is made at the end.
CONTENT = {
    "surprisal": {
        *("--text", "--from", "--nats", "--words"),
        *("--column", "--glue", "--frequencies", "--wordfreq", "--slopes"),  # of tables of stimuli
    },
    "decode": {"--text", "--from", "--scores"},
    "parse": {"--text", "--split-sentences", "--split", "--model"},  # --model: of benepar
    "tapes": {"--prompts"},  # these are read in one go
    "eval-ppl": {"--stream", "--streams"},  # these too
    "eval-blimp": {"--limit", *EXTERNAL},
    "eval-sg": {"--from-items", "--text-style", *EXTERNAL},
    "eval-benchmark": {
        *("--as", "--good", "--bad", "--level", "--scores", "--list", "--show", "--limit"),
        *EXTERNAL,
    },
    "eval-formal dyck": {"--strings", "--limit", "--search"},
    "eval-reading": {
        *("--table", "--format", "--column", "--texts", "--frequencies", "--wordfreq", "--spillover"),
        *("--edges", "--min-time", "--max-time", "--folds", "--samples", "--seed"),
        *("--fit", "--predict"),
    },
    "eval-classify": {"--samples", "--seed", "--search"},
}


class _Stop(PdtoolsError):
    """The settings are known: nothing more is to be done."""


@pytest.fixture
def settings_of(
    case: Callable[[str], Case],
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Settings:
    """The settings that a case of commands would record, with more arguments."""
    found: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def record(output: Any, settings: Mapping[str, Any], *args: Any, **options: Any) -> Iterator[None]:
        found.append(json.loads(json.dumps(settings)))
        raise _Stop
        yield

    monkeypatch.setattr("pdtools.jobs.job_folder", record)
    monkeypatch.setattr(sys, "argv", sys.argv)

    def of(name: str, *more: object) -> dict[str, Any]:
        if name == "stanza":
            shutil.copytree(
                request.getfixturevalue("toy_stanza_with_tokenizer"), tmp_path / "stanza", dirs_exist_ok=True
            )
        given = [str(each).format(inputs=inputs) for each in more]
        found.clear()
        arguments = [*arguments_of(name, case, inputs, tmp_path)]
        if given and not given[0].startswith("-"):
            arguments[1] = given.pop(0)
        assert run([*with_options(arguments, *given), "-q"]) == 1
        return found[0]

    return of


def arguments_of(name: str, case: Callable[[str], Case], inputs: Path, folder: Path) -> tuple[str, ...]:
    """Those of the cases that other tests share, and of some that are never run here."""
    (inputs / "before.txt").write_text("a b\nb a\n")
    (inputs / "blocks.trees").write_text("(S (X a) (X b))\n\n")
    out = ("-o", str(folder / "out" / name))
    model = ("--model", str(inputs / "models" / "pushdown"), "--device", "cpu")
    if name == "eval-classify":
        return ("eval-classify", str(inputs / "shards"), *model, *out)
    if name == "ppl-text":
        return ("eval-ppl", str(inputs / "lines.txt"), *model, *out)
    if name == "stimuli":
        (folder / "stimuli.csv").write_text("item,sentence\n1,a b\n2,b a\n")
        return ("surprisal", str(folder / "stimuli.csv"), *model, "-o", str(folder / "out.csv"))
    if name == "benchmark":
        (folder / "pairs.tsv").write_text("right\twrong\na b\tb a\n")
        return (
            "eval-benchmark",
            str(folder / "pairs.tsv"),
            "--good",
            "right",
            "--bad",
            "wrong",
            *model,
            *out,
        )
    if name == "eval-reading":
        rows = "".join(f"{i}\t{n}\t{word}\t{300 + n}\n" for i in (1, 2) for n, word in enumerate("abab", 1))
        (folder / "times.tsv").write_text("item\tword_number\tword\ttime\n" + rows)
        return ("eval-reading", str(folder / "times.tsv"), *model, *out)
    if name in ("conllu", "export", "historical"):
        form = "penn-historical" if name == "historical" else name
        (folder / f"x.{name}").write_text("")
        return ("parse", str(folder / f"x.{name}"), "--from", form, *out)
    if name == "stanza":
        stanza = ("--parser", "stanza", "--model", str(folder / "stanza"), "--device", "cpu")
        return ("parse", str(inputs / "lines.txt"), *stanza, *out)
    if name == "windows":
        return (*case("tapes").arguments[:-2], *map(str, WINDOWS), *out)
    arguments = case(name).arguments
    if name.startswith("eval-") or name == "surprisal":  # --trees goes without --beam
        at = arguments.index("--beam")
        arguments = (*arguments[:at], *arguments[at + 2 :])
    return arguments


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name, options in CHANGES.items() for option in options]
)
def test_options_that_change_results_are_settings(name: str, option: str, settings_of: Settings) -> None:
    given, wanted = CHANGES[name][option]
    before, after = settings_of(name), settings_of(name, *given)
    assert {key for key in before | after if before.get(key) != after.get(key)} == wanted


@pytest.mark.parametrize(
    ("what", "given", "setting"),
    [("arcs", [], "arc_files"), ("text", ["--text-style", "raw"], "texts")],
)
def test_files_beside_trees_are_settings(
    what: str, given: list[str], setting: str, settings_of: Settings, tmp_path: Path
) -> None:
    """Chunks have the digest of their trees alone, and rows depend on what is beside these too."""
    trees, found = tmp_path / "a.trees", []
    trees.write_text("(S (X a) (X b))\n")
    for content in ("0-1\n", "1-0\n"):
        Path(f"{trees}.{what}").write_text(content)
        found.append(settings_of("tapes", trees, *given))
    assert {key for key in found[0] if found[0][key] != found[1][key]} == {setting}


@pytest.mark.parametrize(
    ("option", "contents", "setting"),
    [
        ("--context", ("a b\nb a\n", "b a\na b\n"), "context"),
        ("--trees", ("(S (X a) (X b))\n\n", "(S (X b) (X a))\n\n"), "trees"),
    ],
)
def test_contents_of_files_are_settings(
    option: str, contents: tuple[str, str], setting: str, settings_of: Settings, tmp_path: Path
) -> None:
    """Not their names alone, nor how long they are."""
    file, found = tmp_path / "file", []
    for content in contents:
        file.write_text(content)
        found.append(settings_of("surprisal", option, file))
    assert {key for key in found[0] if found[0][key] != found[1][key]} == {setting}


# Options that change what is made of all chunks.
AT_THE_END: dict[str, list[tuple[str, ...]]] = {
    "eval-blimp": [("--limit", "1")],
    "eval-reading": [
        ("--seed", "3"),
        ("--folds", "3"),
        ("--spillover", "1"),
        ("--min-time", "9"),
    ],
    "eval-classify": [("--seed", "3"), ("--samples", "7")],
}
FOLDERS = [name for name in CHANGES if name.startswith(("eval-", "ppl-", "bench"))] + ["tapes", "windows"]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_is_done_was_made_with_the_same_options(
    name: str,
    case: Callable[[str], Case],
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [*arguments_of(name, case, inputs, tmp_path)]
    out = arguments[arguments.index("-o") + 1]
    with atomic_directory(out, kind="results") as made:
        write_json(made / "results.json", {"provenance": {"command": ["pdtools", *arguments]}})
    monkeypatch.setattr(sys, "argv", sys.argv)

    def called(*more: object) -> tuple[int, str]:
        given = [str(each).format(inputs=inputs) for each in more]
        sys.argv[1:] = [*with_options(arguments, *given), "--resume"]
        return run(sys.argv[1:]), capsys.readouterr().err

    changes = [given for option, (given, _) in CHANGES[name].items() if option not in (INPUT, "auto")]
    for given in [*changes, *AT_THE_END.get(name, ())]:
        status, said = called(*given)
        assert (status, "other options: " in said) == (1, True), given
        named = set(re.findall(r"(?:: |, )(--[a-z-]+) was ", said))
        assert named == {each.replace("--no-", "--") for each in map(str, given) if each.startswith("--")}
    others = ["--workers", "2"] + ["--threads", "1"] * ("--device" in arguments)
    assert called(*others) == (0, f"{out}: done already\n")


def test_every_option_is_known_to_matter_or_not() -> None:
    """A new option of a command with chunks needs a place in the lists above."""
    changed: dict[str, set[str]] = {}
    for name, options in CHANGES.items():
        changed.setdefault(COMMANDS.get(name, name), set()).update(options.keys() - {INPUT, "auto"})
    found = {
        name: {max(each.opts, key=len) for each in command.params} - WHO
        for name, command in every_command().items()
        if any("--shard" in each.opts for each in command.params)
    }
    named = {
        name: {each for each in options - RESULTS - CONTENT.get(name, set()) if each.startswith("-")}
        for name, options in found.items()
    }
    assert named == changed
