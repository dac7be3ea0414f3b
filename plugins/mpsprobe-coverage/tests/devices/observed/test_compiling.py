"""``observe()`` where nothing can be compiled; what is loaded from the cache was written by this user alone; and a
build ends with the process that waits for it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.compiling import DEVICE, SUFFIX, Library, made_once
from mpsprobe_coverage.devices.observed import observe as observe_module
from mpsprobe_coverage.devices.observed.observe import observe
from mpsprobe_devkit.testing import run_cli
from tests.forking import run_python


def test_without_a_compiler_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    monkeypatch.setattr(Library, "shipped", tmp_path / "none")
    monkeypatch.setattr(observe_module, "_load", observe_module._load.__wrapped__)  # it may have been loaded before
    with pytest.raises(UsageError, match="the observer cannot be built") as refused, observe("cpu"):
        pass
    assert "Install a C++ compiler" in refused.value.hint and not observe_module._listener._open


def test_what_others_may_write_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled: list[Path] = []

    def build(_: Library, library: Path) -> None:
        compiled.append(library)
        library.touch()

    monkeypatch.setattr(Library, "_build", build)
    DEVICE.kept.parent.mkdir(mode=0o700, parents=True)
    DEVICE.kept.write_text("foreign")
    if not hasattr(os, "getuid"):
        return  # Windows has no such bits
    DEVICE.kept.chmod(0o666)
    assert DEVICE.compile() == DEVICE.kept and len(compiled) == 1, "compiled again, in its place"
    assert DEVICE.kept.read_bytes() == b""
    assert DEVICE.compile() == DEVICE.kept and len(compiled) == 1
    DEVICE.kept.parent.chmod(0o1777)
    with pytest.raises(UsageError, match="others may write to") as refused:
        DEVICE.compile()
    assert "chmod 700" in refused.value.hint
    DEVICE.kept.parent.chmod(0o700)
    tmp_path.joinpath("mpsprobe").chmod(0o777)
    with pytest.raises(UsageError, match="or the folder around it"):
        DEVICE.compile()
    tmp_path.joinpath("mpsprobe").chmod(0o700)
    DEVICE.kept.parent.rename(tmp_path / "elsewhere")
    DEVICE.kept.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="one is a link"):
        DEVICE.compile()


# Instead of torch's: a build that says it has begun, and a compiler that would say that it came to its end.
SLOW = """
import os, subprocess, sys
COMPILER = "import os, time; time.sleep(20); os.write(1, b'to its end')"
def load(name, sources, build_directory, **options):
    open(os.path.join(build_directory, "begun.o"), "w").close()
    with open(os.environ["ALIVE"], "wb") as alive:
        open(os.environ["BEGUN"], "wb").close()
        subprocess.run([sys.executable, "-c", COMPILER], stdout=alive)
"""
KILLED = """
import os, signal, sys, threading
from pathlib import Path
from mpsprobe_coverage.devices.compiling import DEVICE, made_once
def kill():
    open(os.environ["BEGUN"], "rb").close()
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=kill).start()
made_once(Path(sys.argv[1]), DEVICE._build)
"""
QUICK = """
import os
def load(name, sources, build_directory, **options):
    open(os.path.join(build_directory, name + ".pyd" if os.name == "nt" else name + ".so"), "w").close()
"""


def torch_that_builds(path: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another torch in ``path``, with nothing but ``cpp_extension``, which asks no compiler; the file of that."""
    monkeypatch.setenv("CXX", sys.executable)
    library = path / "torch" / "utils" / "cpp_extension.py"
    library.parent.mkdir(parents=True)
    for folder in (library.parent, library.parent.parent):
        folder.joinpath("__init__.py").touch()
    library.write_text(code)
    return library


def test_a_build_ends_with_its_process_and_the_next_one_clears_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hasattr(os, "mkfifo"):
        return  # Windows has no groups of processes
    library = torch_that_builds(tmp_path, SLOW, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    target = tmp_path / "mpsprobe" / "compiled" / f"x{SUFFIX}"
    pipes = {"BEGUN": str(tmp_path / "begun"), "ALIVE": str(tmp_path / "alive")}
    for pipe in pipes.values():
        os.mkfifo(pipe)
    alive = os.open(pipes["ALIVE"], os.O_RDONLY | os.O_NONBLOCK)
    assert run_python(KILLED, target, variables={**pipes, "PYTHONPATH": str(tmp_path)}).code == -signal.SIGKILL
    os.set_blocking(alive, True)
    with os.fdopen(alive, "rb") as stream:
        assert stream.read() == b"", "the compiler went on"
    (left,) = target.parent.glob(".mpsprobe-temporary-*")
    library.write_text(QUICK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert made_once(target, DEVICE._build) == target
    assert {one.name for one in target.parent.iterdir()} == {"compiling.lock", target.name} and not left.exists()


def test_a_build_imports_nothing_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch_that_builds(tmp_path / "path", QUICK, monkeypatch)
    (tmp_path / "torch.py").write_text("open('it ran', 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    DEVICE._build(tmp_path / f"x{SUFFIX}")
    assert not (tmp_path / "it ran").exists()


@pytest.mark.parametrize("command", [("coverage", "model.py:make", "--compile"), ("run", "--compile", "model.py")])
def test_what_does_not_need_the_compiler_is_answered(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\n\n\ndef make():\n    return torch.compile(torch.nn.Linear(2, 2)), torch.ones(1, 2)\n\n\n"
        "if __name__ == '__main__':\n    print(make()[0](make()[1]).shape)\n",
        encoding="utf-8",
    )
    variables = {"CXX": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path)}
    ran = run_cli(*command, cwd=tmp_path, variables=variables)
    assert ran.code == 0, ran.stderr
    said = " ".join((ran.stdout + ran.stderr).split())
    assert f"the device cannot be built: error: there is no {tmp_path}/none" in said
