"""Models of the Hugging Face hub by name: what is downloaded, and what is said where it cannot be."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import huggingface_hub
import pytest
from toy_gpt2 import save_gpt2
from toy_hub import Hub, running_hub, use_hub

import pdtools
from pdtools import data, hf
from pdtools.cli.main import run
from pdtools.cli.train import _initial_model
from pdtools.errors import InputError
from pdtools.files import read_json
from pdtools.provenance import hub
from pdtools.provenance.hub import name_of
from pdtools.report.view.loaded import short_names

TEXT = "a b c"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_gpt2(tmp_path_factory.mktemp("hub") / "gpt2", ["a b c", "c a b"])


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Hub]:
    """A hub with the model as ``toy`` and ``lab/toy``, and other files that nothing here reads beside it."""
    files = {each.name: each.read_bytes() for each in folder.iterdir()}
    others = {"onnx/config.json": b"{}", "run_me.py": b"raise SystemExit(9)\n"}
    others |= dict.fromkeys(("pytorch_model.bin", "model.pt"), b"\x80")
    with running_hub() as made:
        for name in ("toy", "lab/toy"):
            made.commit(name, {**files, **others})
        use_hub(monkeypatch, made.url, tmp_path / "cache")
        yield made


def unreachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_hub(monkeypatch, "http://127.0.0.1:9", tmp_path / "cache")


def score(capsys: pytest.CaptureFixture[str], model: str | Path, *more: str) -> tuple[int, str, str]:
    status = run(["surprisal", "--text", TEXT, "--model", str(model), "--device", "cpu", *more])
    out, error = capsys.readouterr()
    return status, out, error


def test_a_model_is_downloaded_once_and_recorded_by_its_commit(
    served: Hub, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = served.branches["lab/toy"]["main"]
    status, out, error = score(capsys, "hf:lab/toy", "-o", str(tmp_path / "out.tsv"), "--json")
    assert (status, error.splitlines()[0]) == (0, f"hf:lab/toy: commit {commit}")
    found = json.loads(out)["provenance"]["inputs"]["model"]
    assert found["hub"] == f"lab/toy@{commit}"
    got = served.got()
    assert got[-1] == "model.safetensors"  # where it is, the rest is
    assert set(got) == {
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.json",
        "merges.txt",
        "model.safetensors",
    }
    assert score(capsys, folder, "-q")[1] == (tmp_path / "out.tsv").read_text()
    assert score(capsys, "hf:lab/toy", "-q")[2] == ""
    assert len(served.asked) == 1  # does the branch still mean the same?
    served.asked.clear()
    assert score(capsys, f"hf:lab/toy@{commit}")[0] == 0
    assert not served.asked  # a commit is a commit


def test_without_a_network_it_is_what_the_cache_has(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hub.snapshot("hf:toy")
    assert (tmp_path / "cache") in first.parents
    other = hub.snapshot("hf:toy", cache_dir=tmp_path / "other")
    assert other == tmp_path / "other" / first.relative_to(tmp_path / "cache")
    assert (other / "model.safetensors").is_file()
    unreachable(monkeypatch, tmp_path)
    assert hub.snapshot("hf:toy") == hub.snapshot(f"hf:toy@{first.name}") == first
    said = r"the Hugging Face hub cannot be reached \(ConnectionError\), and not all of it is in the cache"
    with pytest.raises(InputError, match=f"^hf:lab/toy: {said}"):
        hub.snapshot("hf:lab/toy")


def test_of_a_model_of_which_only_the_tokenizer_was_needed_the_weights_come_when_they_are(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.txt").write_text("a b c\n" * 9)
    made = ["blocks", str(tmp_path / "text.txt"), "--length", "4", "--text-style", "raw", "-q"]
    assert run([*made, "--tokenizer", "hf:toy", "-o", str(tmp_path / "shards")]) == 0
    assert "model.safetensors" not in served.got()
    unreachable(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="not all of it is in the cache"):
        hub.snapshot("hf:toy")
    use_hub(monkeypatch, served.url, tmp_path / "cache")
    hub.snapshot("hf:toy")
    assert served.got() == ["model.safetensors"]


def test_a_tokenizer_of_two_files_is_whole_with_both(served: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = served.commit("old", dict.fromkeys(("config.json", "vocab.json", "merges.txt"), b"{}"))
    download = huggingface_hub.hf_hub_download

    def stopped(repo: str, file: str, **options: Any) -> str:
        if file == "merges.txt":
            raise KeyboardInterrupt
        return download(repo, file, **options)

    with monkeypatch.context() as patched:
        patched.setattr(huggingface_hub, "hf_hub_download", stopped)
        with pytest.raises(KeyboardInterrupt):
            hub.snapshot("hf:old", weights=False)
    assert (hub.snapshot(f"hf:old@{commit}", weights=False) / "merges.txt").is_file()


def test_weights_in_several_files(served: Hub, folder: Path) -> None:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    parts = {name: name.encode() for name in index["weight_map"].values()}
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "consolidated.safetensors": b"the same again"}
    served.commit("large", {**files, **parts, "model.safetensors.index.json": json.dumps(index).encode()})
    found = hub.snapshot("hf:large")
    assert served.got()[-2:] == sorted(parts)
    assert not (found / "consolidated.safetensors").exists()
    next(found.glob("*-00001-*")).unlink()
    hub.snapshot("hf:large")
    assert (found / "model-00001-of-00002.safetensors").is_file()


def test_files_of_another_program_are_whole_with_all(served: Hub) -> None:
    served.commit("lab/released", {"model.pt": b"a", "vocab.pkl": b"b"})
    found = hub.snapshot("hf:lab/released", files=hub.IMPORTED)
    (found / "vocab.pkl").unlink()
    assert hub.snapshot(f"hf:lab/released@{found.name}", files=hub.IMPORTED) == found
    assert (found / "vocab.pkl").is_file()


PARTS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = "model.safetensors.index.json"


KEPT = [(), ("model.safetensors",), (INDEX, *PARTS), (INDEX, PARTS[1]), PARTS, (INDEX,)]
RELEASED = [(), hub.IMPORTED[:1], hub.IMPORTED[1:], hub.IMPORTED]
TOKENIZERS = [(), ("tokenizer.json",), ("vocab.txt",)]


@pytest.mark.parametrize(
    ("tokenizers", "kept", "released", "weights", "is_imported"),
    [
        *itertools.product(TOKENIZERS, KEPT, [hub.IMPORTED[:1]], [False, True], [False]),
        *itertools.product(TOKENIZERS[:2], KEPT[:2], RELEASED, [True], [True]),
    ],
)
def test_what_is_kept_is_whole_or_refused(
    tokenizers: tuple[str, ...],
    kept: tuple[str, ...],
    released: tuple[str, ...],
    weights: bool,
    is_imported: bool,
) -> None:
    """A model is taken from the cache alone if, and only if, it has all that is asked for."""
    there = {*tokenizers, *kept}
    index = json.dumps({"weight_map": dict(zip("ab", PARTS, strict=True))})
    commit = "0123456789" * 4
    with tempfile.TemporaryDirectory() as cache:
        place = Path(cache, "models--lab--toy")
        folder = place / "snapshots" / commit
        folder.mkdir(parents=True)
        (place / "refs").mkdir()
        (place / "refs" / "main").write_text(commit)
        for name in {"config.json", *there, *released}:
            (folder / name).write_text(index if name == INDEX else "{}")
        has_weights = "model.safetensors" in there or {INDEX, *PARTS} <= there
        is_whole = bool({"tokenizer.json", "vocab.txt"} & there) and (has_weights or not weights)
        files = hub.IMPORTED if is_imported else ()
        is_whole = released == files if is_imported else is_whole
        options: dict[str, Any] = {"weights": weights, "files": files, "cache_dir": cache}
        for name in ("hf:lab/toy", f"hf:lab/toy@{commit}"):
            if is_whole:
                assert hub.snapshot(name, local_files_only=True, **options) == folder
                assert hub.pinned([f"--model={name}", name, "x"]) == [
                    f"--model=hf:lab/toy@{commit}",
                    f"hf:lab/toy@{commit}",
                    "x",
                ]
            else:
                with pytest.raises(InputError, match=f"^{name}: not all of it is in the cache"):
                    hub.snapshot(name, local_files_only=True, **options)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf:no/such", "no such model on the Hugging Face hub"),
        ("hf:gated", "a gated model: .*hf auth login"),
        ("hf:toy@gone", "the model has no revision gone"),
        (f"hf:toy@{'0' * 40}", "the model has no revision 0000"),
        ("hf:bare", r"no weights \(model.safetensors\) there$"),
        (
            "hf:pickled",
            r"only pickled ones \(pytorch_model.bin\) \(they may hold code",
        ),
        ("hf:data", "no config.json there: not a language model"),
        ("hf:released", "a released Pushdown LM, which has to be imported first .pdtools import hf:released"),
        ("hf:a/b/c", "write hf:NAME, hf:OWNER/NAME or hf:OWNER/NAME@REVISION"),
        ("hf:", "write hf:NAME"),
        ("hf:a--b", "write hf:NAME"),
        ("hf:toy@", "write hf:NAME"),
    ],
)
def test_what_the_hub_does_not_have_is_one_line(
    name: str, said: str, served: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"config.json": b"{}", "tokenizer.json": b"{}"}
    served.commit("gated", {**files, "model.safetensors": b""})
    served.gated.add("gated")
    served.commit("bare", files)
    served.commit("pickled", {**files, "pytorch_model.bin": b"\x80"})
    served.commit("data", {"README.md": b""})
    served.commit("released", dict.fromkeys(hub.IMPORTED, b""))
    with pytest.raises(InputError, match=f"^{name}: .*{said}"):
        hub.snapshot(name)
    assert score(capsys, name, "-o", str(tmp_path / "out"))[:2] == (1, "")
    assert not (tmp_path / "out").exists()


def test_a_download_that_breaks_off_goes_on(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1024)
    size = len(served.commits[served.branches["toy"]["main"]]["model.safetensors"])
    served.breaks_at["model.safetensors"] = size // 2
    with pytest.raises(InputError, match=r"^hf:toy: not downloaded: .*the same command goes on"):
        hub.snapshot("hf:toy")
    assert not list((tmp_path / "cache").glob("*/snapshots/*/model.safetensors"))
    served.breaks_at.clear()
    served.asked.clear()
    whole = hub.snapshot("hf:toy")
    if huggingface_hub.__version__.startswith("0."):  # later ones try again by themselves, and then anew
        assert served.asked[-1][2] == size // 2 // 1024 * 1024
    assert (whole / "model.safetensors").stat().st_size == size


def test_a_full_disk(served: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import file_download

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file_download, "http_get", full)
    with pytest.raises(InputError, match=f"^hf:toy: no space left for it in {tmp_path}/cache .HF_HOME"):
        hub.snapshot("hf:toy")


def test_bars_only_where_someone_sees_them(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = {}
    for name, bars, stream in (
        ("terminal", True, Terminal()),
        ("quiet", False, Terminal()),
        ("file", True, io.StringIO()),
    ):
        use_hub(monkeypatch, served.url, tmp_path / name)
        monkeypatch.setattr(sys, "stderr", stream)
        hub.snapshot("hf:toy", bars=bars)
        shown[name] = stream.getvalue()
    assert "model.safetensors: 100%" in shown["terminal"]
    assert "config.json" not in shown["terminal"]
    assert shown["quiet"] == shown["file"] == ""


def test_a_job_goes_on_with_the_commit_that_it_began_with(
    served: Hub,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = [{"sentence_good": "a b", "sentence_bad": "b a"}, {"sentence_good": "c a", "sentence_bad": "a c"}]
    Path("pairs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pairs))
    before = served.branches["toy"]["main"]
    command = ["eval-blimp", "pairs.jsonl", "--model", "hf:toy", "-o", "out", "--device", "cpu"]

    def begin(shard: str) -> int:
        arguments = [*command, "--shard", shard]
        monkeypatch.setattr(sys, "argv", ["pdtools", *arguments])
        return run(arguments)

    assert begin("0/2") == 0
    assert read_json(Path("out.job/job.json"))["command"][3] == f"hf:toy@{before}"
    served.commit("toy", {**served.commits[before], "README.md": b"new"})
    capsys.readouterr()
    assert begin("1/2") == 1
    error = capsys.readouterr().err
    after = served.branches["toy"]["main"]
    assert f"model was hf:toy@{before}, now hf:toy@{after} (name hf:toy@{before} to go on" in error
    assert error.count("\n") == 2  # and the commit
    command[3] = f"hf:toy@{before}"
    assert begin("1/2") == 0
    monkeypatch.setattr(sys, "argv", ["pdtools", "merge", "out"])
    assert run(["merge", "out"]) == 0
    found = read_json(Path("out/results.json"))["provenance"]["inputs"]["model"]
    assert found["hub"] == f"toy@{before}"
    assert run(["eval-blimp", "pairs.jsonl", "--model", str(folder), "-o", "own", "--device", "cpu"]) == 0
    scores = [read_json(Path(each, "results.json"))["scores"] for each in ("own", "out")]
    assert scores[0] == scores[1]


def test_a_run_starts_from_a_model_of_the_hub(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("a b c\n" * 40)
    shards = ["blocks", "text.txt", "--length", "8", "--text-style", "raw", "-o", "shards", "-q"]
    assert run([*shards, "--tokenizer", "hf:toy"]) == 0
    command = ["train", "shards", "--init", "hf:toy", "--config", "gpt2-stack", "--device", "cpu"]
    command += ["--set", "config.stack_layers=none", "--set", "train.steps=1", "-o", "run"]
    assert run(command) == 0
    commit = served.branches["toy"]["main"]
    assert f"hf:toy: commit {commit}\n" in capsys.readouterr().err
    assert read_json(Path("run/run.json"))["provenance"]["inputs"]["init"]["hub"] == f"toy@{commit}"
    served.commit("toy", {**served.commits[commit], "README.md": b"new"})
    assert run([*command, "--resume"]) == 1
    said = f"the init data are not the same (name hf:toy@{commit} to go on)"
    assert said in capsys.readouterr().err
    command[command.index("hf:toy")] = f"hf:toy@{commit}"
    assert run([*command, "--resume"]) == 0


def test_processes_that_train_together_start_from_one_commit(served: Hub) -> None:
    sent: list[Any] = []

    class Rank:
        """One of two, whose gathering the test does."""

        size = 2

        def __init__(self, number: int) -> None:
            self.is_main = number == 0

        def gather(self, value: Any) -> list[Any]:
            sent.append(value)
            return sent

    before = served.branches["toy"]["main"]
    first = _initial_model("hf:toy", cast(Any, Rank(0)))
    served.commit("toy", {**served.commits[before], "README.md": b"new"})
    second = _initial_model("hf:toy", cast(Any, Rank(1)))
    assert first == second
    assert first.endswith(before)


def test_a_model_of_ours_is_loaded_by_our_own_loader(
    served: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its stub says: no code of a folder is run."""
    before = set(sys.modules)
    run(["export", "demo-base", "-o", str(tmp_path / "shared"), "-q"])
    files = {each.name: each.read_bytes() for each in (tmp_path / "shared").iterdir()}
    commit = served.commit("lab/ours", files, branch="chck_1M")
    served.branches["lab/ours"]["main"] = "gone"
    loaded = pdtools.load("hf:lab/ours@chck_1M", device="cpu")
    assert "pdtools.json" not in served.got()
    sentence = "The dog that chased the cats barks."
    own = pdtools.load("demo-base", device="cpu").surprisal(sentence)
    assert loaded.surprisal(sentence).equals(own)
    named = {"pretrained_model_name_or_path": "lab/ours", "revision": "chck_1M"}  # as transformers has it
    model = hf.PdtoolsForCausalLM.from_pretrained(**named)
    assert model.config.name_or_path.endswith(commit)
    assert not {name for name in set(sys.modules) - before if "modeling_pdtools" in name}
    tokenizer = hf.PdtoolsTokenizer.from_pretrained("hf:lab/ours@chck_1M")
    assert tokenizer("The dog barks.").input_ids


def test_models_are_called_by_their_names(tmp_path: Path) -> None:
    one, other = ("0" * 40, "1" * 40)
    cache = tmp_path / "hub"
    first, second, third = (
        cache / f"models--{name}" / "snapshots" / commit
        for name, commit in (("lab--toy", one), ("lab--toy", other), ("gpt2", one))
    )
    assert hub.name_of_snapshot(first) == f"lab/toy@{one}"
    assert hub.name_of_snapshot(data.model("demo")) is None
    assert [name_of(str(each)) for each in (first, third)] == ["toy", "gpt2"]
    assert list(short_names([first, third]).values()) == ["toy", "gpt2"]
    assert len(set(short_names([first, second]).values())) == 2


def test_the_environment_says_where_the_hub_and_its_cache_are(served: Hub, tmp_path: Path) -> None:
    """In a process of its own, as huggingface_hub reads it at its start."""
    script = (
        "import sys; from pdtools.provenance.hub import snapshot; print(snapshot('hf:toy', weights=False))"
    )

    def ask(**variables: str) -> str:
        home = {"HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": served.url}
        environment = {**os.environ, **home, **variables}
        made = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
        assert "Traceback" not in made.stderr or "InputError" in made.stderr
        return made.stdout.strip() or made.stderr.splitlines()[-1]

    assert "HF_HUB_OFFLINE is set" in ask(HF_HUB_OFFLINE="1")
    found = ask()
    assert found.startswith(str(tmp_path / "home"))
    served.asked.clear()
    assert ask(HF_HUB_OFFLINE="1") == found
    assert not served.asked
