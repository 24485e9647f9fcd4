"""Other systems, played here: Windows (no fcntl, files in use, its signals and consoles), macOS (mps)."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from search_oracle import save_checkpoints
from torch import Tensor
from torch.overrides import TorchFunctionMode
from toy_gpt2 import save_gpt2

from pdtools.cli import main
from pdtools.cli.running import check_different
from pdtools.errors import PdtoolsError
from pdtools.files import atomic_directory, atomic_text, kept, locks, system, write_json
from pdtools.jobs import devices
from pdtools.jobs.workers import Workers
from pdtools.models import load_checkpoint
from pdtools.models.kernels import native
from pdtools.search import load_model
from pdtools.training.run_folder import RunFolder


class InUse(PermissionError):
    """As Windows says that somebody has a file open."""

    winerror = 32  # a sharing violation


def in_use(path: object) -> InUse:
    return InUse(errno.EACCES, "The process cannot access the file because it is in use", str(path))


def test_the_tests_of_each_push_are_there() -> None:
    """Else pytest runs none of them."""
    tests = Path(__file__).parents[1]
    named = (tests / "quick.txt").read_text(encoding="utf-8").split()
    assert [name for name in named if not (tests.parent / name).exists()] == []


# --- files in use -----------------------------------------------------------------------------


@pytest.mark.parametrize("refusals", [0, 1, 4, 5, 6])
@pytest.mark.parametrize("what", ["file", "new file", "folder", "other folder"])
def test_what_a_virus_scanner_has_open(
    refusals: int, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is renamed when that is done; if it takes more than a second, one line says what to do."""
    path, left, waits = tmp_path / "out", refusals, []

    def refusing(rename: Any) -> Any:
        def call(old: Any, new: Any) -> None:
            nonlocal left
            if left and ".tmp" in str(old):
                left -= 1
                raise in_use(old)
            rename(old, new)

        return call

    def write(text: str) -> None:
        if "file" in what:
            with atomic_text(path, overwrite=what == "file") as stream:
                stream.write(text)
        else:
            with atomic_directory(path, kind="a test", overwrite=what == "other folder") as folder:
                (folder / "part").write_text(text)

    if what == "other folder":
        write("old")
    monkeypatch.setattr(system.time, "sleep", waits.append)
    monkeypatch.setattr("pdtools.files.outputs.exchange", lambda one, other: False)
    monkeypatch.setattr(os, "link", refusing(os.link))
    monkeypatch.setattr("pdtools.files.outputs._NO_HARD_LINKS", {*system.CANNOT, errno.EACCES})
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))
    tries = len(system._WAITS) + 1 + (what == "new file")  # that one is linked first
    if refusals < tries:
        write("new")
        assert (path if "file" in what else path / "part").read_text() == "new"
    else:
        with pytest.raises(
            PdtoolsError, match=r"out: cannot be written: .* in use \(close it there"
        ) as error:
            write("new")
        assert "\n" not in str(error.value)
        assert sum(waits) < 1.5
        if what == "other folder":
            assert (path / "part").read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] in ([], ["out"])


def test_other_errors_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(old: Path, new: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(old))

    monkeypatch.setattr(system.time, "sleep", lambda seconds: pytest.fail("waited"))
    with pytest.raises(PermissionError):
        system.patiently(refuse, Path("a"), Path("b"))


# --- locks ------------------------------------------------------------------------------------


class Msvcrt(types.ModuleType):
    """Windows' locks of bytes, of all processes in this one: files by what they are, not who opened them."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.held: dict[tuple[int, int], int] = {}  # (file, byte): descriptor

    def locking(self, descriptor: int, mode: int, number: int) -> None:
        assert mode == self.LK_NBLCK
        first, file = os.lseek(descriptor, 0, os.SEEK_CUR), os.fstat(descriptor).st_ino
        wanted = [(file, byte) for byte in range(first, first + number)]
        if any(each in self.held for each in wanted):
            raise OSError(errno.EACCES, "Permission denied")
        self.held |= dict.fromkeys(wanted, descriptor)

    def unlock(self, descriptor: int) -> None:
        self.held = {place: each for place, each in self.held.items() if each != descriptor}


@pytest.fixture
def windows_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "fcntl", None)
    msvcrt, close = Msvcrt(), os.close
    monkeypatch.setattr(locks, "msvcrt", msvcrt)
    monkeypatch.setattr(os, "close", lambda descriptor: (msvcrt.unlock(descriptor), close(descriptor)))


@pytest.mark.usefixtures("windows_locks")
def test_locks_of_windows(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for _ in range(2):
        with locks.locked(path, "busy", warns=True):
            for shared in (False, True):
                with (
                    pytest.raises(locks.LockedError, match="busy"),
                    locks.locked(path, "busy", shared=shared),
                ):
                    pass
    with (
        locks.locked(path, "busy", shared=True),
        locks.locked(path, "busy", shared=True),
        locks.locked(path, "busy", shared=True),
        pytest.raises(locks.LockedError, match="busy"),
        locks.locked(path, "busy"),
    ):
        pass
    with locks.locked(path, "busy"):
        pass


def test_a_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "fcntl", None)
    with locks.locked(tmp_path / "lock", "busy"):
        pass
    with (
        pytest.warns(match="lock: this system has no locks, so a second process"),
        locks.locked(tmp_path / "lock", "busy", warns=True),
    ):
        pass


WITHOUT_POSIX = """
import os, signal, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("getuid", "geteuid", "sched_getaffinity", "sysconf", "O_NOFOLLOW"):
    delattr(os, name)
del signal.SIGUSR1
from pdtools.cli.main import main
for line in sys.argv[1:]:
    sys.argv[1:] = line.split("|")
    try:
        main()
    except SystemExit as end:
        print(end.code)
"""


@pytest.mark.linux
def test_commands_without_what_windows_lacks(tmp_path: Path) -> None:
    """With a console of Windows, too: a letter that cp1252 does not have is replaced, or escaped."""
    (tmp_path / "words.txt").write_text("the aunt chased the nurse .\nλ – ł\n", "utf-8")
    (tmp_path / "own.toml").write_text("# λ – ł\n", "utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PDTOOLS_CACHE": "off"}
    lines = (
        "surprisal|words.txt|--model|demo|-o|out.tsv|--on-error|skip|--beam|5",
        "config|show|own.toml",
        "surprisal|λ–ł|--model|demo|-q",
    )
    command = [sys.executable, "-c", WITHOUT_POSIX, *lines]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
    assert done.stdout.decode("cp1252").splitlines() == ["0", "# own.toml", "# ? – ?", "0", "1"]
    assert b"\npdtools: \\u03bb\x96\\u0142" in done.stderr
    assert (tmp_path / "out.tsv").read_text("utf-8").count("\n") == 8
    assert sorted(os.listdir(tmp_path)) == ["out.tsv", "out.tsv.rejects.jsonl", "own.toml", "words.txt"]


def test_no_run_takes_the_place_of_another_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create(overwrite=False)
    write_json(folder.path / "run.json", {})
    monkeypatch.setattr("pdtools.training.run_folder.OPEN_FILES_STAY", True)
    with pytest.raises(PdtoolsError, match="run: a run is there, and Windows .*: delete it first"):
        folder.create(overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["run"]


# --- other things of Windows ------------------------------------------------------------------


@pytest.mark.linux
def test_ctrl_break_ends_a_step_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from pdtools.training.interruption import Interruption

    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR2, raising=False)
    monkeypatch.delattr(signal, "SIGUSR1")
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGUSR2)
        assert interruption.received == signal.SIGUSR2
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL


def test_windows_waits_for_few_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert (Workers(1024).number, Workers(3).number) == (61, 3)


@pytest.mark.parametrize("platform", ["win32", "darwin", "linux"])
def test_names_that_differ_in_case_alone(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    outputs = str(tmp_path / "Out.tsv"), str(tmp_path / "out.TSV")
    if platform == "linux":
        check_different(*outputs)
    else:
        with pytest.raises(main._UsageError, match="two outputs of this name"):
            check_different(*outputs)


# --- compilers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "machine", "wanted", "unwanted"),
    [
        ("linux", "x86_64", {"-march=native", "-fopenmp-simd", "-fPIC"}, {"-mcpu=native"}),
        ("linux", "aarch64", {"-mcpu=native", "-fopenmp-simd", "-fPIC"}, {"-march=native"}),
        ("darwin", "arm64", {"-mcpu=native", "-fPIC"}, {"-march=native", "-fopenmp-simd"}),
        ("darwin", "x86_64", {"-march=native", "-fPIC"}, {"-fopenmp-simd"}),
        ("win32", "AMD64", {"-march=native", "-fopenmp-simd"}, {"-fPIC"}),
    ],
)
def test_options_of_compilers(
    platform: str, machine: str, wanted: set[str], unwanted: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(native.platform, "machine", lambda: machine)
    first, last = native.flags()
    assert wanted <= set(first)
    assert not unwanted & set(first)
    assert not {"-march=native", "-mcpu=native", "-fopenmp-simd"} & set(last)


def _a_compiler(folder: Path, refused: str) -> Path:
    """One that does not know an option."""
    compiler = folder / "clang"
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *{refused}*) exit 1;; esac\nexec {_CC} "$@"\n')
    compiler.chmod(0o755)
    return compiler


_CC = next(filter(None, map(native.shutil.which, native.COMPILERS)), None)


@pytest.mark.skipif(_CC is None or sys.platform == "win32", reason="there is no C compiler")
def test_a_compiler_that_knows_fewer_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = _a_compiler(tmp_path, "=native")
    monkeypatch.setenv("PDTOOLS_CACHE", "off")
    monkeypatch.setattr(native, "COMPILERS", (str(compiler),))
    library = native.native_library.__wrapped__("pdtools.models.kernels", "stack_attention", ())
    assert library is not None


@pytest.mark.skipif(_CC is None or sys.platform == "win32", reason="there is no C compiler")
def test_a_library_that_is_not_deleted_while_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.unlink

    def unlink(path: Any, **options: Any) -> None:
        if str(path).endswith(".so"):
            raise in_use(path)
        real(path, **options)

    monkeypatch.setenv("PDTOOLS_CACHE", "off")
    monkeypatch.setattr(native.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "unlink", unlink)
    library = native.native_library.__wrapped__("pdtools.models.kernels", "stack_attention", ())
    assert library is not None
    assert len(list(tmp_path.glob("*/*.so"))) == 1


@pytest.mark.parametrize("place", ["home", "elsewhere"])
def test_where_a_folder_does_not_say_who_can_write_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "getuid", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setenv("PDTOOLS_CACHE", str(tmp_path / place / "cache"))
    assert kept.kept_folder() == (tmp_path / "home" / "cache" if place == "home" else None)
    monkeypatch.delenv("PDTOOLS_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "home" / "AppData"))
    assert kept.kept_folder() == tmp_path / "home" / "AppData" / "pdtools"


# --- Apple's GPUs -----------------------------------------------------------------------------


class NoDoubles(TorchFunctionMode):
    """Float64 exists only for tensors that ``cpu`` gave, or that no device was named for."""

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.cpu:
            made = func(*args, **kwargs).clone()
            made.is_here = True
            return made
        wanted = [*args[1:], *kwargs.values()]
        is_here = args and getattr(args[0], "is_here", False)
        if func is Tensor.double and not is_here:
            raise TypeError("float64 on mps")
        if torch.float64 in [each for each in wanted if isinstance(each, torch.dtype)]:
            from_tensor = bool(args) and isinstance(args[0], Tensor)
            if (from_tensor and not is_here) or kwargs.get("device") is not None:
                raise TypeError("float64 on mps")
        return func(*args, **kwargs)


@pytest.fixture
def metal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU as a device of that name, without float64."""
    monkeypatch.setattr(devices, "_NO_FLOAT64", ("cpu",))
    monkeypatch.setattr("pdtools.models.kernels.block_attention.native_takes", lambda *given: False)
    monkeypatch.setattr("pdtools.models.kernels.decoding.normalises_in_c", lambda hidden: False)


@pytest.mark.usefixtures("metal")
@pytest.mark.parametrize("entropy", [False, True])
def test_scores_without_float64(entropy: bool, tmp_path: Path) -> None:
    measures = ("entropy",) if entropy else ()
    for folder in (save_checkpoints(tmp_path)[0]["base"], save_gpt2(tmp_path / "gpt2", ["a b c"])):
        scorer = load_model(folder, measures=measures)
        texts = ["a b c", "c a"]
        exact = [each.logprobs for each in scorer.score(texts)]
        with NoDoubles():
            found = [each.logprobs for each in scorer.score(texts)]
        assert all(each.dtype == np.float64 for each in found)
        np.testing.assert_allclose(np.concatenate(found), np.concatenate(exact), rtol=1e-5)


@pytest.mark.usefixtures("metal")
def test_training_and_samples_without_float64(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("the aunt chased the nurse\na nurse slept\n" * 20)
    assert main.run(["blocks", str(text), "--tokenizer", "word", "-o", str(tmp_path / "shards"), "-q"]) == 0
    command = ["train", str(tmp_path / "shards"), "-o", str(tmp_path / "run"), "--config", "tiny", "-q"]
    chosen = ["--model", "transformer", "--device", "cpu", "--valid", str(tmp_path / "shards")]
    small = ["train.steps=2", "config.layers=1", "config.d_model=8", "config.heads=1", "config.d_ff=8"]
    with NoDoubles():
        assert main.run([*command, *chosen, *(part for each in small for part in ("--set", each))]) == 0
        assert main.run(["sample", "--model", str(tmp_path / "run"), "--strings", "--device", "cpu"]) == 0


def test_models_that_need_float64_run_on_the_cpu(tmp_path: Path) -> None:
    models = {name: load_checkpoint(folder).model for name, folder in save_checkpoints(tmp_path)[0].items()}
    needs = {name: model.needs_float64 for name, model in models.items()}
    assert not needs.pop("base")
    assert set(needs.values()) == {True}
    assert [devices.device_for("mps", needs_float64=each) for each in (True, False)] == ["cpu", "mps"]
    assert devices.device_for("cuda:1", needs_float64=True) == "cuda:1"


@pytest.mark.parametrize(("platform", "said"), [("darwin", "1"), ("linux", "None")])
def test_what_metal_lacks_is_asked_of_the_cpu_before_torch_is_there(platform: str, said: str) -> None:
    script = """
import os, sys
from pdtools.cli import main
sys.platform = sys.argv[1]
main.run = lambda arguments: print(os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK"), "torch" in sys.modules)
main.main()
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTORCH_ENABLE_MPS_FALLBACK"}
    command = [sys.executable, "-c", script, platform]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == f"{said} False\n", done.stderr
