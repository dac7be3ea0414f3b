"""What a stranger does, in an environment of its own: ``python tests/third_party/run.py WHEELS``. Used by CI.

``WHEELS`` is the folder of our wheels, as a release would publish them. They are installed into a fresh environment,
and everything else from the package index. Then each distribution in ``docs/examples`` is built, installed, checked,
tested and used; and for each kind that ``mpsprobe plugins new`` knows a plugin is written, checked and tested before it
is installed, then installed, checked by its name and used. Prints a line for each step; stops at the first that fails,
with all that it printed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

from mpsprobe_devkit.scaffold.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "docs" / "examples").glob("*/pyproject.toml"))
OURS = ("mpsprobe", "mpsprobe_exporters", "mpsprobe_coverage", "mpsprobe_devices")
"""The wheels that are installed; the one for Hugging Face would bring transformers, which nothing here needs."""

# The first import of torch can take longer than the usual 10 s on a machine that does much else.
CHECK = ("plugins", "check", "--fail-on", "warning", "--time-limit", "60")
Use = tuple[Sequence[str], str]
"""Arguments of mpsprobe, and what has to be in what that prints or in the file ``out`` that it writes."""

STEPS = ("--steps", "3", "--warmup", "1", "-o", "out")
USES: dict[str, Use] = {
    "mpsprobe-badge": (("export", "report.json", "-o", "out.svg"), "stopped in backward"),
    "mpsprobe-denoiser": (("coverage", "denoiser:16x32", "--phase", "training"), "aten::"),
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
    "fresh-scanner": (("coverage", "fresh-scanner:train.txt", "--torch", "2.13.0", "--format", "json"), "linalg_eig"),
    "fresh-exporter": (("export", "report.json", "--to", "fresh-exporter"), "- [ ] `aten::_ctc_loss`: missing"),
    "fresh-command": (("fresh-command", "report.json"), "head"),
}
SAMPLE = """
import pathlib, sys, mpsprobe, torch
from mpsprobe_devkit.testing import sample_coverage_report
assert pathlib.Path(mpsprobe.__file__).is_relative_to(sys.prefix), mpsprobe.__file__
pathlib.Path("report.json").write_text(sample_coverage_report().model_dump_json(), encoding="utf-8")
"""


class Stranger:
    """Someone with an environment of its own and none of this repository.

    Args:
        folder: where everything is done.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=True, symlinks=os.name != "nt")
        self._programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MPSPROBE_", "PYTHON"))}
        # Small models on a busy machine are quicker with one thread than with as many as there are cores.
        self._environment = {**kept, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "120"}

    def does(self, what: str, program: str, *arguments: str | Path, inside: Path | None = None) -> str:
        """Run a program of the environment and return what it printed; a line says what it was and how long it took.

        Raises:
            SystemExit: it failed; what it printed is shown.
        """
        start = time.monotonic()
        ended = subprocess.run(
            [self._programs / program, *arguments],
            cwd=inside or self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        printed = ended.stdout.decode("utf-8", errors="replace")
        verdict = "ok" if ended.returncode == 0 else f"exit code {ended.returncode}"
        tell(f"{what}: {verdict} ({time.monotonic() - start:.1f} s)")
        if ended.returncode != 0:
            failed(f"$ {program} {' '.join(map(str, arguments))}\n{printed}")
        return printed

    def installs(self, what: str, *arguments: str | Path) -> None:
        """``pip install`` with the versions that this repository is tested with; what is imported is compiled then."""
        pinned = ("-q", "--no-compile", "--no-build-isolation", "-c", ROOT / "constraints.txt")
        self.does(f"pip install {what}", "python", "-m", "pip", "install", *pinned, *arguments)

    def uses(self, name: str) -> None:
        """The command line in ``USES``: it has to do what is said there."""
        if name not in USES:
            failed(f"{name} is not used: say in USES of {Path(__file__).name} how, and what it prints")
        arguments, wanted = USES[name]
        for old in self.folder.glob("out*"):
            old.unlink()
        printed = self.does(f"mpsprobe {' '.join(arguments)}", "mpsprobe", *arguments)
        written = "".join(path.read_text(encoding="utf-8") for path in self.folder.glob("out*"))
        if wanted not in printed + written:
            failed(f"'{wanted}' is neither printed nor written:\n{printed}\n{written}")

    def lints(self, name: str, folder: Path) -> None:
        """ruff, by the settings of the project itself."""
        self.does(f"{name}: ruff check", "ruff", "check", "--no-cache", ".", inside=folder)
        self.does(f"{name}: ruff format", "ruff", "format", "--no-cache", "--check", ".", inside=folder)


def tell(line: str) -> None:
    """One line of progress."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def failed(text: str) -> None:
    """End with what went wrong."""
    tell(text)
    sys.exit(1)


def prepare(stranger: Stranger, wheels: Path) -> None:
    """Our wheels, from the index what they and an author need, and torch imported once, which compiles it."""
    found = [path for name in OURS for path in wheels.glob(f"{name}-[0-9]*.whl")]
    if len(found) != len(OURS):
        failed(f"{wheels} should hold one wheel for each of {', '.join(OURS)}; it has {[one.name for one in found]}")
    stranger.installs("our wheels", "--no-deps", "--no-index", *found)
    stranger.installs("what they need", "mpsprobe[coverage,devices,testing]", "hatchling", "ruff")
    stranger.does("a sample report", "python", "-c", SAMPLE)


def try_example(stranger: Stranger, source: Path) -> None:
    """One distribution of ``docs/examples``: its wheel is what is tested, not its sources."""
    folder = stranger.folder / "examples" / source.name
    generated = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(source, folder, ignore=generated)
    name = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
    target = stranger.folder / "built"
    build = ("pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", target, folder)
    stranger.does(f"{name}: wheel", "python", "-m", *build)
    [wheel] = target.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    stranger.installs(f"{name}[test]", f"{wheel}[test]")
    stranger.does(f"{name}: check of the wheel", "mpsprobe", *CHECK, "--no-contracts", wheel)
    stranger.lints(name, folder)
    shutil.rmtree(folder / "src")
    stranger.does(f"{name}: tests", "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", inside=folder)
    stranger.does(f"{name}: check by name", "mpsprobe", *CHECK, name)
    stranger.uses(name)


def try_new(stranger: Stranger) -> None:
    """Every kind that can be written anew."""
    folders = []
    for kind in KINDS:
        name = f"fresh-{kind}"
        stranger.does(f"{name}: written", "mpsprobe", "plugins", "new", name, "--kind", kind, "--license", "MIT")
        folders.append(stranger.folder / name)
        stranger.does(f"{name}: check and tests, not installed", "mpsprobe", *CHECK, "--tests", name)
        stranger.lints(name, folders[-1])
    shutil.copy(stranger.folder / "fresh-scanner" / "tests" / "train.txt", stranger.folder)
    stranger.installs("all of them", *(f"{folder}[test]" for folder in folders))
    for folder in folders:
        shutil.rmtree(folder)  # what is used from now on is what was installed
    listed = json.loads(stranger.does("plugins list", "mpsprobe", "plugins", "list", "--format", "json"))
    ended = {one["name"]: one["status"] for one in listed}
    if set(ended.values()) != {"ok"} or not {folder.name for folder in folders} <= set(ended):
        failed(f"not every plugin is there and well: {ended}")
    for folder in folders:
        stranger.does(f"{folder.name}: check by name", "mpsprobe", *CHECK, "--no-contracts", folder.name)
        stranger.uses(folder.name)


def main(wheels: Path) -> int:
    """Everything, in a temporary folder."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mpsprobe-stranger-") as temporary:
        stranger = Stranger(Path(temporary).resolve())
        prepare(stranger, wheels.resolve())
        for source in EXAMPLES:
            try_example(stranger, source)
        try_new(stranger)
    tell(f"{len(EXAMPLES)} examples and {len(KINDS)} new plugins work ({time.monotonic() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
