"""Data files of the packages that are gone, cut off, changed, or those of another release: what commands say then.

``python -m tests.fuzz.datafiles 20 --seed 1`` from the root of the repository. Each case is a fork, made after the
imports, with copies of the files; it ends with 0, 1 or 2, in words, and never as a fault of the authors.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from unittest.mock import patch

from mpsprobe_coverage.knowledge.advisories import store
from mpsprobe_coverage.knowledge.kernels import releases
from mpsprobe_devkit.testing import run_cli
from mpsprobe_tables import own_files
from tests.fuzz.changing import TEXTS, bytes_changed, document_changed
from tests.fuzz.kills import MODEL

LONGEST_S = 60
COMMANDS = (
    ("kernels", "show", "grid_sampler_3d"), ("kernels", "since", "add"), ("kernels", "list", "--torch", "2.13.0"),
    ("kernels", "diff", "1.13.1", "2.13.0"), ("kernels", "markers"), ("advisories", "list"),
    ("coverage", "model.py:make", "--torch", "2.0.1,2.13.0"), ("coverage", "model.py:make", "--dtype", "float16"),
    ("kernels", "audit", "--torch", "2.13.0", "--dtype", "float32", "--entry", "sort", "--jobs", "1"),
)  # fmt: skip


def _gone(path: Path, _: Random) -> None:
    path.unlink()


def _cut(path: Path, random: Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(len(data))])


def _changed(path: Path, random: Random) -> None:
    path.write_bytes(bytes_changed(path.read_bytes(), random))


def _sealed(path: Path, random: Random) -> None:
    """Changed, with a digest that fits where it has one."""
    first, _, body = path.read_bytes().partition(b"\n")
    if path.suffix == ".toml":
        text = path.read_text()
        place = random.randrange(len(text))
        new = random.choice((*TEXTS, "[[advisory]]\n", "'''", "a = [1"))
        path.write_text(text[:place] + new + text[place:], "utf-8", "replace")
        return
    with suppress(ValueError):  # some have several documents
        body = json.dumps(document_changed(json.loads(body), random)).encode()
    body = bytes_changed(body, random) if random.random() < 0.3 else body
    path.write_bytes(b" ".join((*first.split(b" ")[:-1], hashlib.sha256(body).hexdigest().encode())) + b"\n" + body)


def _others(path: Path, random: Random) -> None:
    path.write_bytes(random.choice([one for one in path.parent.iterdir() if one.suffix == path.suffix]).read_bytes())


def _folder(path: Path, _: Random) -> None:
    path.unlink()
    path.mkdir()


def _link(path: Path, _: Random) -> None:
    path.unlink()
    path.symlink_to(path.name)


HARM: tuple[Callable[[Path, Random], None], ...] = (
    _gone,
    _gone,
    _cut,
    _changed,
    _sealed,
    _sealed,
    _others,
    _folder,
    _link,
)


def attack(random: Random, folder: Path) -> str:
    """One file harmed, one command; what is wrong, or how it ended."""
    packages = {
        "kernels": Path(str(releases.data_folder())),
        "tables": own_files.DATA,
        "advisories/data": Path(store.__file__).with_name("data"),
    }
    for name, path in packages.items():
        shutil.copytree(path, folder / name)
    (folder / "model.py").write_text(MODEL)
    command = random.choice(COMMANDS)
    name = "tables" if "audit" in command else "advisories/data" if command[0] == "advisories" else ""
    name = name or ("advisories/data" if command[0] == "coverage" and random.random() < 0.3 else "kernels")
    path = random.choice(sorted(one for one in (folder / name).iterdir() if one.is_file()))
    harm = random.choice(HARM[:-2] if path.suffix == ".toml" else HARM)  # such a file is there as a module is
    harm(path, random)
    with (
        patch.object(releases, "data_folder", lambda: folder / "kernels"),
        patch.object(own_files, "DATA", folder / "tables"),
        patch.object(store, "files", lambda _: folder / "advisories"),
    ):
        result = run_cli(*command, cwd=folder, process=False)
    what = f"{harm.__name__} {path.name}, {' '.join(command)}: {result.code}, {result.stderr.strip()[-700:]}"
    wrong = result.code not in (0, 1, 2) or "Traceback" in result.stderr or "This is a bug" in result.stderr
    return f"WRONG {what}" if wrong else what


def main() -> int:
    """Exit code 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--all", action="store_true", help="print how each ended")
    arguments = parser.parse_args()
    for name in ("torch", "mpsprobe_coverage.commands.coverage", "mpsprobe_exporters.plugin"):
        importlib.import_module(name)
    ended: Counter[str] = Counter()
    for number in range(arguments.first, arguments.first + arguments.count):
        with tempfile.TemporaryDirectory(prefix="datafiles-") as name:
            folder, begun = Path(name), time.monotonic()
            if not (pid := os.fork()):
                signal.alarm(LONGEST_S)
                faulthandler.dump_traceback_later(LONGEST_S - 2)
                try:
                    said = attack(Random(f"{arguments.seed} {number}"), folder)
                    (folder / "said").write_text(said, "utf-8", "replace")
                except BaseException:  # noqa: BLE001 - what is looked for
                    traceback.print_exc()
                os._exit(0)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            said = (folder / "said").read_text() if (folder / "said").exists() else f"WRONG: ended with {code}"
            wrong = said.startswith("WRONG")
            ended["wrong" if wrong else "well"] += 1
            if wrong or arguments.all:
                sys.stdout.write(f"{number} ({time.monotonic() - begun:.0f} s): {said}\n")
                sys.stdout.flush()
    sys.stdout.write(f"seed {arguments.seed}: {dict(ended)}\n")
    return int(ended["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
