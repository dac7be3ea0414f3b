"""Commands that are killed at random moments: what they leave behind, and whether the next one works.

``python -m tests.fuzz.kills 20`` from the root of the repository; names of commands and ``--signals`` say which.
After each: the output is old or whole, nobody's traceback, no process left; the same command works afterwards, and then
no temporary file is left either. Sweeps that are killed have ``plugins/mpsprobe-atlas/tests/test_cluster.py`` too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

import psutil

from tests.fuzz.targets import ROOT, made_module

# The byte says that Python itself has started: Ctrl-C before that is Python's to report.
MAIN = "import os, sys; from mpsprobe.cli.main import main; os.write(int(sys.argv.pop(1)), b'x'); sys.exit(main())"
MODEL = (
    "import torch\n\n\ndef make():\n    return torch.nn.Sequential(*[torch.nn.Linear(8, 8)] * 4), torch.ones(2, 8)\n"
)
PROGRAM = """
import torch
x = torch.ones(4, 4, device="mps", requires_grad=True)
for _ in range(300):
    x.sin().sum().backward()
"""
COMPILED = """
import torch
torch.compile(lambda x: (x.sin() * 2 + x.exp()).sum(-1))(torch.ones(4, 4, device="mps"))
"""
# Compiles what ATTACKED names, and what is new; other files are copies of those that it made before.
COMPILER = """#!/bin/sh
for one; do [ "$before" != -o ] || made=$one; before=$one; done
[ -n "$made" ] || exec c++ "$@"
cd="$(dirname "$0")" kept="$cd/kept/$(basename "$made")"
case "$made" in *$ATTACKED*) touch "$cd/attacked"; exec c++ "$@" -O0;; esac
[ -f "$kept" ] || { c++ "$@" -O0 && cp "$made" "$kept"; exit; }
cp "$kept" "$made"
"""
OLD = b"old"
GONE_S = 20  # within which what a killed command started has to end
LONGEST_S = 600
SIGNALS = ("KILL", "TERM", "INT")
ENDED = {"KILL": {-9}, "TERM": {143, -15}, "INT": {130, -2}}


def is_json(data: bytes) -> bool:
    return isinstance(json.loads(data), dict)


def is_page(data: bytes) -> bool:
    return data.rstrip().endswith(b"</html>")


class Killed(NamedTuple):
    """A command; ``forgets``: with a new cache each time, so that it writes an answer there.

    ``attacked``: it compiles, and is killed after it has begun with files of such names.
    """

    arguments: list[str]
    output: str = "out.json"
    whole: Callable[[bytes], bool] = is_json
    forgets: bool = False
    attacked: str = ""


COMMANDS: Mapping[str, Killed] = {
    "export": Killed(["export", "report.json", "--to", "html", "-o", "out.html"], "out.html", is_page),
    "coverage": Killed(["coverage", "model.py:make", "-o", "out.json"]),
    "cached": Killed(["coverage", "bert-base", "--size", "small", "-o", "out.json"], forgets=True),
    "profile": Killed(
        [
            "profile",
            "model.py:make",
            "--device",
            "cpu",
            "--steps",
            "2",
            "--warmup",
            "1",
            "--processes",
            "2",
            "-oout.json",
        ]
    ),
    "verify": Killed(["verify", "model.py:make", "--device", "cpu", "--dtype", "float16", "-o", "out.json"]),
    "run": Killed(["run", "-o", "out.json", "program.py"]),
    "compiles": Killed(["run", "-o", "out.json", "program.py"], forgets=True, attacked="calls.o"),
    "kernels": Killed(["run", "--compile", "-o", "out.json", "compiled.py"], forgets=True, attacked="metal_"),
    "build": Killed(["kernels", "build", "--wheel", "WHEEL", "-o", "tables"], "tables/torch-2.13.0.table", bool),
    "sweep": Killed(["atlas", "sweep", "model.py:make", "--torch", "2.13.0", "-o", "out.sqlite"], "out.sqlite", bool),
}


class Place:
    """A folder with what the commands read, a cache and a folder for temporary files of its own."""

    def __init__(self, folder: Path, command: Killed) -> None:
        self.folder, self.command = folder, command
        self.temporary, self.cache = folder / "temporary", folder / "cache"
        self.right: object = None
        self.temporary.mkdir()
        (folder / "tables").mkdir()
        (folder / "model.py").write_text(MODEL)
        (folder / "program.py").write_text(PROGRAM)
        (folder / "compiled.py").write_text(COMPILED)
        (folder / "kept").mkdir()
        (folder / "compiler").write_text(COMPILER)
        (folder / "compiler").chmod(0o700)
        from mpsprobe_devkit.testing import sample_coverage_report

        (folder / "report.json").write_text(sample_coverage_report().model_dump_json())
        made_module(ROOT / "plugins/mpsprobe-tables/tests/builder/made_library.py", "made_library")
        wheel = made_module(ROOT / "plugins/mpsprobe-tables/tests/builder/made_wheel.py").make_wheel(folder)
        self._arguments = [str(wheel) if one == "WHEEL" else one for one in command.arguments]

    def start(self, attacked: str = "") -> subprocess.Popen[bytes]:
        """The command, in a session of its own, once Python has started, or the compiler with what is ``attacked``."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("MPSPROBE_")}
        variables |= {"TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1", "ATTACKED": attacked or "nothing"}
        if self.command.forgets:
            variables["XDG_CACHE_HOME"] = str(self.cache)
        if self.command.attacked:
            variables["CXX"] = str(self.folder / "compiler")
        (self.folder / "attacked").unlink(missing_ok=True)
        begun, end = os.pipe()
        with (self.folder / "stderr").open("wb") as errors:
            started = subprocess.Popen(
                [sys.executable, "-P", "-c", MAIN, str(end), *self._arguments], cwd=self.folder, env=variables,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=[end],
                start_new_session=True,
            )  # fmt: skip
        os.close(end)
        with os.fdopen(begun, "rb") as stream:
            stream.read(1)
        while attacked and started.poll() is None and not (self.folder / "attacked").exists():
            time.sleep(0.01)
        return started

    def wrong_with(self, code: int, right: set[int]) -> Iterator[str]:
        """What is not as it should be after the command has ended."""
        said = (self.folder / "stderr").read_text("utf-8", "replace")
        if code not in right:
            yield f"exit code {code}: {said[-500:]}"
        if "Traceback" in said and "program.py" not in said:  # that of the program is its own
            yield said[-2000:]
        output = self.folder / self.command.output
        if output.exists() and (data := output.read_bytes()) != OLD and not self.command.whole(data):
            yield f"{output.name} is half written"
        elif code == 0 and output.suffix == ".json":
            operators = json.loads(output.read_bytes()).get("operators")
            if operators != (self.right or operators):
                yield "the answer is another one"
            self.right = operators

    def left(self) -> list[str]:
        """Temporary folders, here and in the folder for them."""
        found = [path for name in ("*mpsprobe-*", "tmp*") for path in self.folder.rglob(name) if path.is_dir()]
        return [str(path.relative_to(self.folder)) for path in found]


def running(session: int) -> list[psutil.Process]:
    found = []
    for one in psutil.process_iter():
        try:
            if os.getsid(one.pid) == session and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except (OSError, psutil.Error):
            continue
    return found


def kill(place: Place, name: str, pause: float) -> Iterator[str]:
    """The command, which gets the signal ``name`` after ``pause`` seconds, and then undisturbed; what is wrong."""
    output = place.folder / place.command.output
    output.unlink(missing_ok=True)
    if output.suffix != ".sqlite":
        output.write_bytes(OLD)
    shutil.rmtree(place.cache, ignore_errors=True)
    process, number = place.start(place.command.attacked), getattr(signal, f"SIG{name}")
    time.sleep(pause)
    with suppress(ProcessLookupError):  # it has ended
        (os.killpg if name == "INT" else os.kill)(process.pid, number)  # Ctrl-C goes to all of a terminal
    code = process.wait(LONGEST_S)
    give_up = time.monotonic() + GONE_S
    while (left := running(process.pid)) and time.monotonic() < give_up:
        time.sleep(0.05)
    if left:
        yield f"still there: {[one.cmdline()[:8] for one in left]}"
        os.killpg(process.pid, signal.SIGKILL)
    yield from place.wrong_with(code, {0, *ENDED[name]})
    # SIGTERM ends a program that compiles at once, as without us: the next process takes away what it left.
    if name != "KILL" and not (place.command.attacked and name == "TERM") and (there := place.left()):
        yield f"left: {there}"
    process = place.start()
    yield from (f"afterwards: {one}" for one in place.wrong_with(process.wait(LONGEST_S), {0}))
    if there := place.left():
        yield f"left afterwards: {there}"


def main() -> int:
    """Exit code 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("commands", nargs="*", choices=[[], *COMMANDS], default=[])
    parser.add_argument("--signals", default=",".join(SIGNALS))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    failed = 0
    for what in arguments.commands or COMMANDS:
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            place = Place(Path(folder), COMMANDS[what])
            process = place.start(COMMANDS[what].attacked)
            begun = time.monotonic()
            code = process.wait(LONGEST_S)
            took = time.monotonic() - begun
            if wrong := [*place.wrong_with(code, {0})]:
                sys.stdout.write(f"{what} does not work: {wrong}\n")
                return 1
            for name in arguments.signals.split(","):
                codes: Counter[str] = Counter()
                for number in range(arguments.count):
                    random = Random(f"{arguments.seed} {what} {name} {number}")
                    wrong = [*kill(place, name, random.uniform(0, took))]
                    codes["wrong" if wrong else "well"] += 1
                    for one in wrong:
                        sys.stdout.write(f"{what} {name} {number}: {one}\n")
                failed += codes["wrong"]
                seconds = f"{time.monotonic() - begun:.0f} s, {took:.1f} s undisturbed"
                print(f"{what}, SIG{name}, seed {arguments.seed}: {dict(codes)} ({seconds})", flush=True)  # noqa: T201
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
