"""Hostile programs under ``mpsprobe run``: each ends as it does under ``python``, and its report is whole.

``python -m tests.fuzz.hostile [NAME…]`` from the root of the repository.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

LONGEST_S = 120
WORK = 'x = __import__("torch").ones(3, requires_grad=True).to("mps"); x.sin().sum().backward()\n'
UNDER_SPAWN = """
import multiprocessing, torch
def work(one):
    return torch.ones(one, device=device).sum().item()
device = "mps" if torch.backends.mps.is_available() else "cpu"
if __name__ == "__main__":
    with multiprocessing.get_context("HOW").Pool(2) as pool:
        print(pool.map(work, [1, 2, 3]))
"""
PROGRAMS = {
    "settrace": "import sys; sys.settrace(lambda *_: None)\n" + WORK,
    "settrace that raises": "import sys\ndef trace(*_):\n    raise ValueError\nsys.settrace(trace)\n" + WORK,
    "setprofile": "import sys; seen = []; sys.setprofile(lambda *a: seen.append(a[1]))\n" + WORK,
    "threading.settrace": "import threading; threading.settrace(lambda *_: None)\n" + WORK,
    "monitoring": "import sys; sys.setswitchinterval(1e-6)\n" + WORK * 20,
    "a thread that outlives main": (
        "import threading, time\ndef work():\n    time.sleep(1)\n    print('done')\n    exec(code)\n"
        f"code = {WORK!r}\nthreading.Thread(target=work).start()\n" + WORK
    ),
    "a daemon that never ends": (
        f"import threading\ncode = {WORK!r}\ndef work():\n    while True:\n        exec(code)\n"
        "threading.Thread(target=work, daemon=True).start()\n" + WORK * 5
    ),
    "threads that raise": (
        "import threading\nfor _ in range(8):\n    threading.Thread(target=lambda: 1 / 0).start()\n" + WORK
    ),
    "spawn": UNDER_SPAWN.replace("HOW", "spawn"),
    "forkserver": UNDER_SPAWN.replace("HOW", "forkserver"),
    "fork": WORK + "import os\npid = os.fork()\nif not pid:\n    os._exit(3)\nprint(os.waitpid(pid, 0)[1] >> 8)\n",
    "fork that works": WORK + f"import os\npid = os.fork()\n{WORK}if pid:\n    os.waitpid(pid, 0)\n",
    "fork that outlives": WORK + "import os, time\nif not os.fork():\n    time.sleep(2)\n",
    "segmentation fault": WORK + "import ctypes; ctypes.string_at(0)\n",
    "abort": WORK + "import os; os.abort()\n",
    "os._exit": WORK + "import os; os._exit(5)\n",
    "SIGKILL": WORK + "import os; os.kill(os.getpid(), 9)\n",
    "SIGTERM": WORK + "import os; os.kill(os.getpid(), 15)\n",
    "SIGINT": WORK + "import os, time; os.kill(os.getpid(), 2); time.sleep(9)\n",
    "exit in exit": WORK + "import atexit, os; atexit.register(os._exit, 4)\n",
    "atexit that raises": WORK + "import atexit; atexit.register(lambda: 1 / 0)\n",
    "atexit that works": f"import atexit\natexit.register(exec, {WORK!r})\n" + WORK,
    "exec": WORK + "import os, sys; os.execl(sys.executable, 'python', '-c', 'print(7); raise SystemExit(6)')\n",
    "recursion": WORK + "def f():\n    f()\nf()\n",
    "recursion in a handler": WORK + "def f():\n    try:\n        f()\n    finally:\n        x.sin()\nf()\n",
    "sys.exit of a text": WORK + "import sys; sys.exit('no')\n",
    "sys.exit of an object": WORK + "class A:\n    def __str__(self):\n        raise OSError\nraise SystemExit(A())\n",
    "an exception without words": WORK + "class A(Exception):\n    def __str__(self):\n        1 / 0\nraise A\n",
    "a group of exceptions": WORK + "raise ExceptionGroup('a', [ValueError('b'), TypeError('c')])\n",
    "excepthook": WORK + "import sys; sys.excepthook = lambda *_: print('mine')\n1 / 0\n",
    "audit hook that raises": (
        "import sys\ndef hook(name, _):\n    if name == 'open' and on:\n        raise OSError('no')\non = False\n"
        "sys.addaudithook(hook)\n" + WORK + "on = True\n"
    ),
    "closed streams": WORK + "import sys; sys.stdout.close(); sys.stderr.close()\n",
    "closed descriptors": WORK + "import os; os.closerange(3, 99)\n",
    "other folder": WORK + "import os; os.chdir('/')\n",
    "folder that is gone": WORK + "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n",
    "no modules": WORK + "import sys; sys.modules.clear()\n",
    "no torch": WORK + "import sys; del sys.modules['torch']\n",
    "another torch": WORK + "import sys, types; sys.modules['torch'] = types.ModuleType('torch')\n",
    "another json": WORK + "import json; json.dumps = json.loads = None\n",
    "another open": WORK + "import builtins, io, os; builtins.open = io.open = os.open = None\n",
    "another write": WORK + "import os; os.replace = os.rename = os.write = None\n",
    "another time": "import time; time.time = time.monotonic = time.perf_counter = lambda: -1.0\n" + WORK,
    "no environment": "import os; os.environ.clear()\n" + WORK,
    "no memory": WORK + "import resource; resource.setrlimit(resource.RLIMIT_AS, (1, 1))\nbytearray(10**9)\n",
    "no processor time": WORK + "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass\n",
    "no large files": WORK + "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n",
    "no files": WORK + "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n",
    "its own signal handlers": "import signal\nfor one in (2, 15):\n    signal.signal(one, signal.SIG_IGN)\n" + WORK,
    "its own modes": "import torch\ntorch.set_default_device('mps')\nwith torch.inference_mode():\n    " + WORK,
    "a class that lies": "class A:\n    __class__ = property(lambda _: 1 / 0)\na = A()\n" + WORK,
    "gc": "import gc; gc.set_threshold(1)\n" + WORK + "gc.freeze()\n",
    "tracemalloc": "import tracemalloc; tracemalloc.start()\n" + WORK,
    "asyncio": f"import asyncio\nasync def main():\n    exec({WORK!r})\nasyncio.run(main())\n",
    "stdin": "import sys; print(sys.stdin.read())\n" + WORK,
    "warnings are errors": "import warnings; warnings.simplefilter('error')\n" + WORK,
    "a __del__ at the end": WORK + "class A:\n    def __del__(self):\n        print(x.sin())\na = A()\n",
}  # fmt: skip
OURS = ("/mpsprobe/", "/mpsprobe_")
CHANGED = ("another", "no modules")  # of Python, by the program: a message says so


def run(folder: Path, *command: str) -> tuple[int | str, str, str]:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            input="in",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "for ever", "", ""
    return done.returncode, done.stdout, done.stderr


def wrong(name: str, folder: Path) -> Iterator[str]:
    """What is not as under Python, where ``mps`` is ``cpu``."""
    (folder / "program.py").write_text(PROGRAMS[name].replace('"mps"', '"cpu"').replace("'mps'", "'cpu'"))
    plain = run(folder, sys.executable, "program.py")
    (folder / "program.py").write_text(PROGRAMS[name])
    ours = run(folder, "mpsprobe", "run", "-o", "report.json", "program.py")
    if plain[0] != ours[0]:
        yield f"exit code {ours[0]}, not {plain[0]}: {ours[2][-1500:]}"
    if plain[1] != ours[1].replace("device='mps:0', ", ""):
        yield f"printed {ours[1][-300:]!r}, not {plain[1][-300:]!r}"
    frames = [
        line for line in ours[2].splitlines() if line.lstrip().startswith('File "') and any(one in line for one in OURS)
    ]
    if frames:
        yield f"frames of ours: {frames[:3]}"
    if "authors" in ours[2]:
        yield ours[2][-800:]
    report = folder / "report.json"
    if report.exists():
        json.loads(report.read_bytes())
        report.unlink()
    elif "mpsprobe: no report: " not in ours[2] or ("bug" in ours[2] and not name.startswith(CHANGED)):
        yield f"no report: {ours[2][-300:]}"
    if left := [one.name for one in folder.rglob("*mpsprobe*")]:
        yield f"left: {left}"


def main() -> int:
    """Exit code 1 where anything was wrong."""
    failed = 0
    for name in sys.argv[1:] or PROGRAMS:
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            os.environ["TMPDIR"] = folder
            found = [*wrong(name, Path(folder))]
            failed += bool(found)
            print(f"{name}: {'well' if not found else ''}", *found, sep="\n    " if found else "", flush=True)  # noqa: T201
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
