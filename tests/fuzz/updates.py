"""``kernels update`` that is killed: a data file is whole or absent, a table has its others, the next one ends it.

``python -m tests.fuzz.updates 20`` from the root of the repository: for a copy of our packages, whose newest release is
made, with a folder of made wheels as the index. Then, with ``--learns`` alone, while it learns from expectations: a few
entries of PyTorch's tests, and the newest list not yet learned.
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
from pathlib import Path
from random import Random
from typing import Any

from mpsprobe_coverage.knowledge.judging.lists import FILE, MAGIC
from mpsprobe_tables.encoding import seal
from tests.fuzz.kills import GONE_S, LONGEST_S, running
from tests.fuzz.targets import ROOT, made_module

MAIN = "import sys; from mpsprobe.cli.main import main; sys.exit(main())"
KNOWN, *NEW = "9.0.0", "9.1.0", "9.2.0"
FEW = """
_all = entries
def entries():
    return dict(list(_all().items())[:ENTRIES])
"""
ENTRIES, DTYPES = 8, '("float32", "bool")'
DATA = ("mpsprobe_coverage/knowledge/kernels/data", "mpsprobe_tables/data")


class Copy:
    """The packages in ``folder``, and what of a new release they have."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.temporary, links = folder / "packages", folder / "temporary", folder / "links"
        for name in ("coverage", "tables", "tensorflow"):
            shutil.copytree(ROOT / f"plugins/mpsprobe-{name}/src", self.folder, dirs_exist_ok=True)
        made_module(ROOT / "plugins/mpsprobe-tables/tests/builder/made_library.py", "made_library")
        made: Any = made_module(ROOT / "plugins/mpsprobe-tables/tests/builder/made_wheel.py")
        self.temporary.mkdir()
        links.mkdir()
        for version in (KNOWN, *NEW):
            text = made.PYTHON["torch/version.py"].replace(made.RELEASE, version)
            name = made.WHEEL.replace(made.RELEASE, version)
            members = {"torch/version.py": text, f"torch-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\n"}
            made.make_wheel(links, name, members=members, version=version)
        for other in ("torchvision-0.0.1-cp311-cp311", "tensorflow_metal-0.0.1-cp311-cp311"):
            made.write_wheel(links / f"{other}-macosx_14_0_arm64.whl", {}, other.partition("-")[0], "0.0.1")
        self.environment = {
            **os.environ, "PYTHONPATH": str(self.folder), "TMPDIR": str(self.temporary),
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(links),
        }  # fmt: skip
        wheel = next(links.glob(f"torch-{KNOWN}-*"))
        assert self.start("build", "--wheel", str(wheel), "-o", str(folder / "built")).wait(LONGEST_S) == 0
        for file in (folder / "built").iterdir():
            shutil.copy(file, self.folder / DATA[file.suffix == ".messages"])

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-c", MAIN, "kernels", *arguments]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, env=self.environment, start_new_session=True, **quiet)

    def new(self) -> dict[str, bytes]:
        paths = [path for folder in DATA for path in (self.folder / folder).iterdir()]
        return {
            path.name: path.read_bytes()
            for path in paths
            if path.name[:-5].startswith(tuple(f"torch-{v}" for v in NEW))
        }

    def forget(self) -> None:
        for folder in DATA:
            for name in self.new():
                (self.folder / folder / name).unlink(missing_ok=True)


class Learning(Copy):
    """The same, with no release on the index that is new, and a list that a killed update had not yet learned."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for version in NEW:
            next((folder / "links").glob(f"torch-{version}-*")).unlink()
        code = self.folder / "mpsprobe_tables/audit/learn.py"
        text = code.read_text().replace("dtypes: Sequence[str] = DTYPES", f"dtypes: Sequence[str] = {DTYPES}")
        code.write_text(text + FEW.replace("ENTRIES", str(ENTRIES)))
        self.file = self.folder / DATA[0] / FILE
        document = json.loads(self.file.read_bytes().partition(b"\n")[2])
        del document["lists"][-1]
        self.behind = seal(MAGIC, document)

    def new(self) -> dict[str, bytes]:
        data = self.file.read_bytes()
        return {} if data == self.behind else {FILE: data}

    def forget(self) -> None:
        self.file.write_bytes(self.behind)


def kills(folder: Path, kind: type[Copy], count: int, seed: int) -> int:
    """How many of the kills of updates in ``folder`` left something wrong."""
    copy, failed = kind(folder), 0
    copy.forget()
    started = time.monotonic()
    assert copy.start("update").wait(LONGEST_S) == 0
    took, right = time.monotonic() - started, copy.new()
    files = {Copy: 8, Learning: 1}[kind]
    assert len(right) == files, [*right]
    for name in ("KILL", "TERM"):
        for number in range(count):
            copy.forget()
            process = copy.start("update")
            time.sleep(Random(f"{seed} {name} {number}").uniform(0, took))
            process.send_signal(getattr(signal, f"SIG{name}"))
            process.wait(LONGEST_S)
            give_up = time.monotonic() + GONE_S
            while (left := running(process.pid)) and time.monotonic() < give_up:
                time.sleep(0.05)
            found = copy.new()
            wrong = [f"goes on: {one.cmdline()[:6]}" for one in left]
            for one in left:
                one.kill()
            wrong += [f"half written: {one}" for one, data in found.items() if data != right[one]]
            tables = [one for one in found if one.endswith(".table")]
            wrong += [f"without others: {one}" for one in tables if sum(f[:11] == one[:11] for f in found) < 4]
            code = copy.start("update").wait(LONGEST_S)
            wrong += [] if code == 0 and copy.new() == right else [f"afterwards: {code}, {[*copy.new()]}"]
            wrong += [f"left: {path}" for path in folder.rglob("*mpsprobe-temporary*")]
            failed += bool(wrong)
            sys.stdout.write(f"{kind.__name__} {name} {number} ({len(found)} of {files} files): {wrong or 'well'}\n")
            sys.stdout.flush()
    return failed


def main() -> int:
    """Exit code 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--learns", action="store_true")
    arguments = parser.parse_args()
    failed = 0
    for kind in (Learning,) if arguments.learns else (Copy, Learning):
        with tempfile.TemporaryDirectory(prefix="updates-") as folder:
            failed += kills(Path(folder), kind, arguments.count, arguments.seed)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
