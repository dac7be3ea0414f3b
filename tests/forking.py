"""Runs commands and programs in processes of their own that need not import torch again.

A server imports torch once, and forks for each request: importing torch takes five seconds of processor time, and most
commands a tenth of one. What is imported, start-up, Ctrl-C, closed pipes and the interpreter's own flags need a process
that is started anew. Where a fork is not safe (macOS) or not there (Windows), each request gets one.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

LONGEST_S = 600
CAN_FORK = sys.platform == "linux"
WARM_UP = "import torch\n\n\ndef make():\n    return torch.nn.Linear(2, 2), torch.ones(1, 2)\n"

_server: list[subprocess.Popen[str]] = []


def _run(
    kind: str,
    code: str | Path,
    *arguments: str | Path,
    cwd: str | Path | None = None,
    variables: Mapping[str, str] | None = None,
    stdin: str = "",
    plugin_folders: Iterable[str | Path] = (),
    together: bool = False,
) -> Any:
    """Exit code and outputs, as ``mpsprobe_devkit.testing.run_cli`` returns them.

    Args:
        variables: added to those of this process, less its ``MPSPROBE_*`` ones.
        plugin_folders: folders that ``install_plugin`` wrote to.
        together: both outputs as one, in the order of a terminal.
    """
    from mpsprobe_devkit.testing.commands import CommandResult, command_environment

    folders = list(map(str, plugin_folders))
    environment = command_environment({"OMP_NUM_THREADS": "1", **(variables or {})}, folders)
    with tempfile.TemporaryDirectory(prefix="mpsprobe-forking.") as made:
        outputs = [Path(made, name) for name in ("stdout", "stdout" if together else "stderr")]
        Path(made, "stdin").write_text(stdin, encoding="utf-8")
        asked = {"kind": kind, "code": str(code), "arguments": list(map(str, arguments)), "cwd": str(cwd or Path.cwd())}
        streams = [str(Path(made, "stdin")), *map(str, outputs)]
        ended = _ask({**asked, "environment": environment, "folders": folders, "streams": streams})
        texts = [path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n") for path in outputs]
    return CommandResult(ended, texts[0], "" if together else texts[1])


run_command = functools.partial(_run, "command", "")  # mpsprobe ARGUMENTS
run_python = functools.partial(_run, "code")  # python -c CODE ARGUMENTS
run_script = functools.partial(_run, "script")  # python PATH ARGUMENTS
run_module = functools.partial(_run, "module")  # python -m NAME ARGUMENTS


def _ask(request: dict[str, Any]) -> int:
    if not _server or not CAN_FORK:
        _server[:] = [_started()]
    server = _server[0]
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    if not CAN_FORK:
        _end(server)
    assert answer, "the server has ended"
    return int(answer)


def _started() -> subprocess.Popen[str]:
    from mpsprobe_devkit.testing.commands import command_environment

    server = subprocess.Popen(
        [sys.executable, "-P", __file__],  # -P: no file of this folder stands in for a module
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=command_environment({"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}),
        encoding="utf-8",
        cwd=os.path.sep,
    )
    if CAN_FORK:
        atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None and server.stdout is not None
    server.stdin.close()
    server.wait(timeout=LONGEST_S)
    server.stdout.close()


def _take(request: dict[str, Any]) -> int:
    """Become the process that was asked for, run it, and give its exit code."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, path in enumerate(request["streams"]):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND if number else os.O_RDONLY), number)
    sys.path[:0] = request["folders"]
    from mpsprobe.plugins.registry import use_registry

    use_registry(None)  # plugins of this request's folders are there now
    try:
        return _exit_code(request)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()


def _exit_code(request: dict[str, Any]) -> int:
    kind, code = request["kind"], request["code"]
    sys.argv = ["-c" if kind == "code" else code, *request["arguments"]]
    try:
        if kind == "command":
            return _command(request["arguments"])
        if kind == "code":
            sys.path.insert(0, "")
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        elif kind == "module":
            sys.path.insert(0, request["cwd"])
            runpy.run_module(code, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(code).resolve().parent))
            runpy.run_path(code, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter ends
        traceback.print_exc()
        return 1
    return 0


def _command(arguments: list[str]) -> int:
    from mpsprobe.cli.main import main

    sys.argv = ["mpsprobe", *arguments]
    return main(arguments)


def _warm_up() -> None:
    """Run a small model once, so that what a command imports is there."""
    error, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("warm_up.py").write_text(WARM_UP, encoding="utf-8")
        _command(["coverage", "warm_up.py:make", "--torch", "2.13.0", "-o", "warm_up.html"])
    os.dup2(error, 2)
    sys.modules.pop("warm_up", None)


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    if CAN_FORK:
        _warm_up()
    for line in sys.stdin:
        if not CAN_FORK:
            code = _take(json.loads(line))
        elif (child := os.fork()) == 0:
            signal.alarm(LONGEST_S)
            os._exit(_take(json.loads(line)))
        else:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answers.write(f"{code}\n")
        answers.flush()
        if not CAN_FORK:
            return


if __name__ == "__main__":
    _serve()
