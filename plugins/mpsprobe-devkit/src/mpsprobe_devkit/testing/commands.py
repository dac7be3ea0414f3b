"""Runs the installed command as a user does, and installs plugins for it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import sysconfig
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command left behind.

    Attributes:
        code, stdout, stderr: its exit code, and both outputs as text with ``\\n`` line ends.
    """

    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """Standard output as JSON; asserts that the command succeeded, showing its errors otherwise."""
        import json

        assert self.code == 0, self.stderr
        return json.loads(self.stdout)


def command_path() -> Path:
    """The ``mpsprobe`` command of this environment.

    Raises:
        FileNotFoundError: mpsprobe is imported from somewhere without being installed.
    """
    name = "mpsprobe.exe" if sys.platform == "win32" else "mpsprobe"
    path = Path(sysconfig.get_path("scripts")) / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: install mpsprobe into this environment (pip install -e .)")
    return path


def command_environment(
    variables: Mapping[str, str] | None = None, plugin_folders: Iterable[str | Path] = ()
) -> dict[str, str]:
    """This process's variables without ``MPSPROBE_*`` ones, plus ``variables``; English and not coloured.

    What commands answer is worked out anew: what a user has in the cache is no test of anything.

    Args:
        plugin_folders: put in front of ``PYTHONPATH``, so that what ``install_plugin`` wrote there is found.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MPSPROBE_")}
    folders = [str(folder) for folder in plugin_folders]
    if inherited := kept.get("PYTHONPATH"):
        folders.append(inherited)
    if folders:
        kept["PYTHONPATH"] = os.pathsep.join(folders)
    return {**kept, "NO_COLOR": "1", "COLUMNS": "120", "MPSPROBE_NO_CACHE": "1", **(variables or {})}


def run_cli(
    *arguments: str | Path,
    cwd: str | Path | None = None,
    stdin: str | bytes = b"",
    variables: Mapping[str, str] | None = None,
    plugin_folders: Iterable[str | Path] = (),
    timeout: float = 300,
    process: bool = True,
) -> CommandResult:
    """Run ``mpsprobe ARGUMENTS`` and wait for it.

    Args:
        cwd, stdin: the folder to run in, one outside of any checkout where ``pyproject.toml`` matters; what it reads.
        variables: environment variables to add; ``MPSPROBE_*`` of this process are not passed on.
        plugin_folders: folders that ``install_plugin`` wrote to.
        timeout: seconds until it counts as hanging.
        process: False runs the command in the process of the test, which saves the seconds in which another one
            imports torch; all that it changes there is put back. Ctrl-C, closed pipes, start-up, ``timeout`` and
            plugins that hang or end the process need True.
    """
    given = stdin.encode() if isinstance(stdin, str) else stdin
    environment = command_environment(variables, plugin_folders)
    if not process:
        return _run_here(list(map(str, arguments)), cwd, given, environment, [str(folder) for folder in plugin_folders])
    finished = subprocess.run(
        [command_path(), *map(str, arguments)],
        cwd=cwd,
        input=given,
        capture_output=True,
        env=environment,
        timeout=timeout,
        check=False,
    )
    return _result(finished.returncode, finished.stdout, finished.stderr)


def _result(code: int, *outputs: bytes) -> CommandResult:
    return CommandResult(code, *(output.decode("utf-8").replace("\r\n", "\n") for output in outputs))


def _run_here(
    arguments: list[str], cwd: str | Path | None, stdin: bytes, environment: Mapping[str, str], folders: list[str]
) -> CommandResult:
    from mpsprobe.cli.main import main

    outputs = io.BytesIO(), io.BytesIO()
    with _put_back():
        os.chdir(cwd or ".")
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:0] = folders
        sys.argv = [str(command_path()), *arguments]
        sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        sys.stdout, sys.stderr = streams = [io.TextIOWrapper(output, encoding="utf-8") for output in outputs]
        code = main(arguments)
        for stream in streams:
            stream.flush()
        return _result(code, *(output.getvalue() for output in outputs))


@contextmanager
def _put_back() -> Iterator[None]:
    """What the end of a process would undo is undone, and modules that only the command could import are forgotten."""
    from mpsprobe.plugins.registry import use_registry
    from mpsprobe_devkit.process_state import changed, process_state, put_back

    modules, before = set(sys.modules), process_state()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        put_back(before, changed(before, process_state()))
        use_registry(None)
        new = sys.modules.keys() - modules
        known = {top: _can_be_imported(top) for top in {name.partition(".")[0] for name in new}}
        for name in new:
            if not known[name.partition(".")[0]] and hasattr(sys.modules[name], "__file__"):
                del sys.modules[name]


def _can_be_imported(name: str) -> bool:
    return any(finder.find_spec(name, None) is not None for finder in sys.meta_path)


def install_plugin(
    folder: Path,
    name: str,
    code: str,
    *,
    version: str = "1.0",
    entry_points: str | None = None,
    modules: Mapping[str, str] | None = None,
) -> str:
    """Write a distribution with one entry point to ``folder``, found by whoever has it on ``sys.path``.

    Args:
        name: of the distribution and of the entry point; its module is ``NAME_plugin`` with ``_`` for ``-``.
        code: the thin module, indented as suits the test.
        entry_points: the text of ``entry_points.txt`` instead of the usual one.
        modules: more modules, by file name.

    Returns:
        The name of the thin module.
    """
    stem = name.replace("-", "_")
    for file_name, text in {f"{stem}_plugin.py": code, **(modules or {})}.items():
        (folder / file_name).write_text(textwrap.dedent(text), encoding="utf-8")
    metadata = folder / f"{stem}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    wanted = f"[mpsprobe]\n{name} = {stem}_plugin\n" if entry_points is None else entry_points
    (metadata / "entry_points.txt").write_text(wanted, encoding="utf-8")
    return f"{stem}_plugin"
