"""What people do with a release, in an environment of their own: ``python tests/third_party/run.py WHEELS``. For CI.

``WHEELS`` is the folder of our wheels, as a release would publish them; everything else comes from the package index.
First a user installs ``mpsprobe[all]`` and asks for what the README shows. Then the user becomes an author of plugins
and adds mpsprobe-devkit: each distribution in ``docs/examples`` is built, installed, checked, tested and used; and for
each kind that ``mpsprobe plugins new`` knows a plugin is written, checked and tested before it is installed, then
installed, checked by its name and used. Prints a line for each step; stops when one fails, with all that it printed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mpsprobe.errors import FOR_USERS
from mpsprobe_devkit.scaffold.rendering import KINDS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "docs" / "examples").glob("*/pyproject.toml"))
AT_ONCE = 2
"""Programs that run at the same time: most of what they do, an import of torch first, is done on one core."""

# The first import of torch can take longer than the usual 10 s on a machine that does much else.
CHECK = ("plugins", "check", "--fail-on", "warning", "--time-limit", "60")
Use = tuple[Sequence[str], str]
"""Arguments of mpsprobe, and what has to be in what that prints or in the file ``out`` that it writes."""

STEPS = ("--steps", "3", "--warmup", "1", "-o", "out")
USER: tuple[Use, ...] = (
    (("coverage", "bert-base"), "operators have a kernel that takes these calls on torch"),
    (("profile", "distilbert"), "A step of distilbert takes"),
)
USES: dict[str, Use] = {
    "mpsprobe-badge": (("export", "given.json", "-o", "out.svg"), "stopped in backward"),
    "mpsprobe-denoiser": (("coverage", "denoiser:16x32", "--phase", "training", "--all"), "aten::"),
    "mpsprobe-xpu": (("kernels", "show", "aten::addmm.default", "--backend", "xpu"), "native"),
    "fresh-workload": (("coverage", "fresh-workload", "--format", "json"), "SignalNet"),
    "fresh-device": (
        ("profile", "--workload", "fresh-workload", "--batch-size", "2", "--device", "fresh-device", *STEPS),
        "one thread",
    ),
    "fresh-probe": (
        ("profile", "--workload", "fresh-workload", "--device", "cpu", "--probe", "fresh-probe", *STEPS),
        "longest_pause_ns",
    ),
    "fresh-scanner": (("coverage", "fresh-scanner:given.txt", "--torch", "2.13.0", "--format", "json"), "linalg_eig"),
    "fresh-exporter": (("export", "given.json", "--to", "fresh-exporter"), "- [ ] `aten::_ctc_loss`: missing"),
    "fresh-command": (("fresh-command", "given.json"), "head"),
}
SAMPLE = """
import pathlib, sys, mpsprobe
from mpsprobe_devkit.testing import sample_coverage_report
assert pathlib.Path(mpsprobe.__file__).is_relative_to(sys.prefix), mpsprobe.__file__
pathlib.Path("given.json").write_text(sample_coverage_report().model_dump_json(), encoding="utf-8")
"""


class Stranger:
    """Someone with an environment of its own in ``folder`` and none of this repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=True, symlinks=os.name != "nt")
        self._programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MPSPROBE_", "PYTHON"))}
        # Small models on a busy machine are quicker with one thread than with as many as there are cores.
        self._environment = {**kept, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "120"}

    def does(self, what: str, program: str, *arguments: str | Path, inside: Path | None = None) -> str:
        """Run a program of the environment and return what it printed; where it fails, show that and end."""
        start = time.monotonic()
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        command, where = [self._programs / program, *arguments], inside or self.folder
        ended = subprocess.run(command, cwd=where, env=self._environment, check=False, **streams)
        printed = ended.stdout.decode("utf-8", errors="replace")
        verdict = "ok" if ended.returncode == 0 else f"exit code {ended.returncode}"
        tell(f"{what}: {verdict} ({time.monotonic() - start:.1f} s)")
        if ended.returncode != 0:
            sys.exit(f"$ {program} {' '.join(map(str, arguments))}\n{printed}")
        return printed

    def installs(self, what: str, *arguments: str | Path) -> None:
        """``pip install`` with the versions that this repository is tested with; what is imported is compiled then."""
        pinned = ("-q", "--no-compile", "--no-build-isolation", "-c", ROOT / "constraints.txt")
        self.does(f"pip install {what}", "python", "-m", "pip", "install", *pinned, *arguments)

    def uses(self, name: str, use: Use) -> None:
        """Run mpsprobe in a folder of its own: it has to do what the use says."""
        folder = self.folder / "uses" / name
        folder.mkdir(parents=True)
        for given in self.folder.glob("given.*"):
            shutil.copy(given, folder)
        arguments, wanted = use
        printed = self.does(f"mpsprobe {' '.join(arguments)}", "mpsprobe", *arguments, inside=folder)
        written = "".join(path.read_text(encoding="utf-8") for path in folder.glob("out*"))
        if wanted not in printed + written:
            sys.exit(f"'{wanted}' is neither printed nor written:\n{printed}\n{written}")

    def lints(self, name: str, folder: Path) -> None:
        self.does(f"{name}: ruff check", "ruff", "check", "--no-cache", ".", inside=folder)
        self.does(f"{name}: ruff format", "ruff", "format", "--no-cache", "--check", ".", inside=folder)


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def at_once(task: Callable[[Any], None], every: Iterable[Any]) -> None:
    """Do the task for each; what is not begun when one fails is left out."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(task, every))


def listed(stranger: Stranger, key: str) -> dict[str, str]:
    """The status of each plugin, by its ``name`` or its ``distribution``."""
    found = json.loads(stranger.does("plugins list", "mpsprobe", "plugins", "list", "--format", "json"))
    return {one[key]: one["status"] for one in found}


def begin_as_user(stranger: Stranger, wheels: Path) -> None:
    """One command installs everything for users, and nothing else."""
    versions = [path.name.split("-")[:2] for path in wheels.glob("*.whl")]
    ours = stranger.folder / "ours.txt"  # these versions and no others, whatever the index has
    ours.write_text("".join(f"{name}=={version}\n" for name, version in versions), encoding="utf-8")
    stranger.installs('"mpsprobe[all]"', "mpsprobe[all]", "--find-links", wheels, "-c", ours)
    found = listed(stranger, "distribution")
    if found != dict.fromkeys({"mpsprobe"} | FOR_USERS, "ok"):
        sys.exit(f"'mpsprobe[all]' should bring {', '.join(sorted(FOR_USERS))}, all of them well; there are {found}")
    at_once(lambda use: stranger.uses(use[0][0], use), USER)


def become_author(stranger: Stranger, wheels: Path) -> None:
    """The kit, from the index what authors need in addition, and a report to try things with."""
    [kit] = wheels.glob("mpsprobe_devkit-*.whl")
    stranger.installs("the kit for authors", kit, "hatchling", "ruff")
    stranger.does("a sample report", "python", "-c", SAMPLE)


def try_examples(stranger: Stranger) -> None:
    """The distributions of ``docs/examples``: their wheels are what is tested, not their sources."""
    generated = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis")
    folders = [Path(shutil.copytree(one, stranger.folder / one.name, ignore=generated)) for one in EXAMPLES]
    target = stranger.folder / "built"
    build = ("pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", target)
    stranger.does("the examples: wheels", "python", "-m", *build, *folders)
    built = {folder: next(target.glob(f"{folder.name.replace('-', '_')}-[0-9]*.whl")) for folder in folders}
    stranger.installs("the examples", *(f"{wheel}[test]" for wheel in built.values()))

    def try_one(folder: Path) -> None:
        name = folder.name
        stranger.does(f"{name}: check of the wheel", "mpsprobe", *CHECK, "--no-contracts", built[folder])
        stranger.lints(name, folder)
        shutil.rmtree(folder / "src")
        stranger.does(f"{name}: tests", "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", inside=folder)
        stranger.does(f"{name}: check by name", "mpsprobe", *CHECK, name)
        stranger.uses(name, USES[name])

    at_once(try_one, folders)


def try_new(stranger: Stranger) -> None:
    folders = [stranger.folder / f"fresh-{kind}" for kind in KINDS]

    def write(folder: Path) -> None:
        name, kind = folder.name, folder.name.removeprefix("fresh-")
        stranger.does(f"{name}: written", "mpsprobe", "plugins", "new", name, "--kind", kind, "--license", "MIT")
        stranger.does(f"{name}: check and tests, not installed", "mpsprobe", *CHECK, "--tests", name)
        stranger.lints(name, folder)

    def use(name: str) -> None:
        stranger.does(f"{name}: check by name", "mpsprobe", *CHECK, "--no-contracts", name)
        stranger.uses(name, USES[name])

    at_once(write, folders)
    shutil.copy(stranger.folder / "fresh-scanner" / "tests" / "train.txt", stranger.folder / "given.txt")
    stranger.installs("all of them", *(f"{folder}[test]" for folder in folders))
    for folder in folders:
        shutil.rmtree(folder)  # what is used from now on is what was installed
    ended = listed(stranger, "name")
    if set(ended.values()) != {"ok"} or not {folder.name for folder in folders} <= set(ended):
        sys.exit(f"not every plugin is there and well: {ended}")
    at_once(use, [folder.name for folder in folders])


def main(wheels: Path) -> int:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mpsprobe-stranger-") as temporary:
        stranger = Stranger(Path(temporary).resolve())
        begin_as_user(stranger, wheels)
        become_author(stranger, wheels)
        try_examples(stranger)
        try_new(stranger)
    tell(f"{len(EXAMPLES)} examples and {len(KINDS)} new plugins work ({time.monotonic() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).resolve()))
