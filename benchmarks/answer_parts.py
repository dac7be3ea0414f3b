"""Asks the installed ``mpsprobe`` for the answers that ``answers.py`` writes down; each part is one function.

Only public commands are used, so that the same questions can be put to an older commit: run ``answers.py`` with the
Python of its environment.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from answer_programs import PROGRAMS

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs" / "gallery" / "data"
SCRIPTS = ROOT / "plugins" / "mpsprobe-coverage" / "tests" / "programs" / "compiled" / "scripts"
PRODUCT = Path(str(getattr(find_spec("mpsprobe"), "origin", ROOT))).parents[1]
COMMAND = str(Path(sysconfig.get_path("scripts")) / ("mpsprobe.exe" if sys.platform == "win32" else "mpsprobe"))
OF_THE_ATLAS = 200
RELEASES = ("2.0.1", "2.6.0", "2.13.0")
LONGEST_S = 3600
VOLATILE = frozenset({"environment", "seconds", "made", "platform"})
"""Keys whose values depend on the machine or the time."""


class CannotAsk(Exception):
    """What the part is about is not known here: what ``mpsprobe`` says."""


class Asking:
    """How to ask.

    Attributes:
        draw: of each part at most so many; ``None``: all, and 200 workloads of the atlas.
        seed: of what is drawn.
        jobs: processes side by side.
    """

    def __init__(self, draw: int | None, seed: int, jobs: int) -> None:
        self.draw, self.seed, self.jobs = draw, seed, jobs

    def drawn(self, names: Iterable[str], most: int | None = None) -> list[str]:
        """Some of ``names``, the same ones whatever their order."""
        every, count = sorted(names), self.draw or most
        return every if count is None or count >= len(every) else sorted(random.Random(self.seed).sample(every, count))

    def each(self, ask: Callable[[str], Any], names: Iterable[str]) -> dict[str, Any]:
        """The answer about each name, several at a time."""
        names = [*names]
        with ThreadPoolExecutor(self.jobs) as threads:
            return dict(zip(names, threads.map(ask, names), strict=True))


def run(*arguments: str, folder: Path) -> tuple[int, str, str]:
    """``mpsprobe ARGUMENTS`` in ``folder``: exit code and both outputs."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MPSPROBE_")}
    fixed = {"MPSPROBE_NO_CACHE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "100", "PYTHONUTF8": "1", "NO_COLOR": "1"}
    try:
        ended = subprocess.run(
            [COMMAND, *arguments], cwd=folder, env={**own, **fixed}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=LONGEST_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1, "", f"it took longer than {LONGEST_S} s"
    return ended.returncode, ended.stdout, ended.stderr


TIMES = re.compile(
    r"\b\d+(\.\d+)? (m?s|min)\b"
    r"|\d\d:\d\d<\d\d:\d\d, +[\d.?]+(it/s|s/it)"
    r"|(?<=_runtime': ')[\d.]+|(?<=_per_second': ')[\d.]+"
)
"""Also those of progress bars, and those that Trainer prints."""


def canonical(value: Any, folder: Path, *, timed: bool = True) -> Any:
    """``value`` without what depends on the machine, the time, or where the files are; not ``timed``: times stay."""
    if isinstance(value, dict):
        return {key: canonical(one, folder, timed=timed) for key, one in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return [canonical(one, folder, timed=timed) for one in value]
    if isinstance(value, str):
        for place, name in ((folder, "FOLDER"), (sys.prefix, "PREFIX"), (PRODUCT, "PRODUCT"), (ROOT, "ROOT")):
            value = value.replace(str(place), name)
        return TIMES.sub("TIME", value) if timed else value
    return value


def answered(path: Path, said: tuple[int, str, str], folder: Path) -> dict[str, Any]:
    """A command's exit code, the end of what it says on standard error, and its report, if it wrote one."""
    code, _, errors = said
    report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    return dict(canonical({"code": code, "errors": canonical(errors, folder)[-2000:], "report": report}, folder))


def workloads(*spaces: str) -> list[str]:
    """The names that ``mpsprobe workloads list`` has."""
    with tempfile.TemporaryDirectory() as folder:
        code, listed, errors = run("workloads", "list", *spaces, "--format", "json", folder=Path(folder))
    if code:
        raise CannotAsk(errors)
    return [one["name"] for one in json.loads(listed)]


def progress(text: str) -> None:
    """Onto standard error."""
    sys.stderr.write(text.rstrip() + "\n")


def atlas(asking: Asking) -> dict[str, Any]:
    """Rows of an atlas, worked out anew: every release, both phases; what is not native, memory, advisories."""
    names = asking.drawn(workloads("--hf"), OF_THE_ATLAS)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "names.txt").write_text("\n".join(names), encoding="utf-8")
        code, _, errors = run(
            "atlas", "sweep", "--workloads", "names.txt", "--size", "small", "--jobs", str(asking.jobs), "-o",
            "atlas.sqlite", folder=folder,
        )  # fmt: skip
        if code not in (0, 1):
            return {"sweep": canonical({"code": code, "error": errors[-2000:]}, folder)}
        run("atlas", "export", "--store", "atlas.sqlite", "--to", "json", "-o", "atlas.json", folder=folder)
        document = json.loads((folder / "atlas.json").read_text(encoding="utf-8"))
        found: dict[str, Any] = {}
        for kind in ("runs", "operators"):
            for row in document[kind]:
                key = f"{row['workload']} {row['phase']}"
                found.setdefault(key, {}).setdefault(row["torch"] or "error", {}).setdefault(kind, []).append(row)
        return dict(canonical(found, folder))


def named(asking: Asking) -> dict[str, Any]:
    """Every named workload on three releases: modules, lines, memory and advisories."""
    names, found = asking.drawn(workloads()), {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "names.txt").write_text("\n".join(names), encoding="utf-8")
        for release in RELEASES:
            progress(f"named: torch {release}")
            said = run(
                "coverage", "--workloads", "names.txt", "--no-atlas", "--jobs", str(asking.jobs), "--torch", release,
                "-o", "all.json", folder=folder,
            )  # fmt: skip
            answer = answered(folder / "all.json", said, folder)
            workloads_of = (answer["report"] or {}).pop("workloads", [])
            found |= {f"{one['name']} {release}": one for one in workloads_of} | {f"all {release}": answer}
            (folder / "all.json").unlink(missing_ok=True)
    return found


def programs(asking: Asking) -> dict[str, Any]:
    """Programs under ``mpsprobe run``: what they print, how they end, and the report."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in SCRIPTS.glob("*.py")} | PROGRAMS

    def ask(name: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            (folder / "program.py").write_text(texts[name], encoding="utf-8")
            said = run("run", "--torch", "2.13.0", "-o", "report.json", "program.py", folder=folder)
            return answered(folder / "report.json", said, folder) | {"printed": canonical(said[1], folder)}

    return asking.each(ask, asking.drawn(texts))


def keras(asking: Asking) -> dict[str, Any]:
    """Models of ``keras.applications``, where TensorFlow is installed."""

    def ask(name: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            said = run("coverage", name, "--release", "1.2.0", "-o", "report.json", folder=folder)
            return answered(folder / "report.json", said, folder)

    return asking.each(ask, asking.drawn(workloads("--keras"), 40))


def exporters(asking: Asking) -> dict[str, Any]:
    """Every report of the gallery in every format, as lines."""

    def ask(key: str) -> dict[str, Any]:
        report, _, name = key.partition(" ")
        with tempfile.TemporaryDirectory() as made:
            folder, out = Path(made), Path(made, "out")
            code, _, errors = run("export", str(GALLERY / report), "--to", name, "-o", "out", folder=folder)
            files = sorted(one for one in (out.rglob("*") if out.is_dir() else [out]) if one.is_file())
            texts = {
                one.relative_to(folder).as_posix(): one.read_bytes().decode(errors="replace").splitlines()
                for one in files
            }
            return dict(canonical({"code": code, "errors": errors, "files": texts}, folder, timed=False))

    with tempfile.TemporaryDirectory() as made:
        shown = run("plugins", "show", "exporters", "--format", "json", folder=Path(made))[1]
    names = json.loads(shown)[0]["contributes"]["exporter"]
    keys = [f"{path.name} {name}" for path in GALLERY.glob("*.json") for name in names]
    return asking.each(ask, asking.drawn(keys))


def gates(asking: Asking) -> dict[str, Any]:
    """What ``--fail-on`` and a Mac's memory make of it: headlines and exit codes, in words."""
    asked = [
        f"{name} --torch {release} --memory {memory} --fail-on {words}"
        for name in ("bert-base", "gpt2", "mask2former", "detr", "whisper-tiny")
        for release in ("2.6.0", "2.13.0")
        for memory, words in (("8GB", "missing,unsupported,fallback"), ("1GB", "memory"), ("16GB", "unknown,advisory"))
    ]

    def ask(line: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as made:
            code, shown, errors = run("coverage", *line.split(), "--no-atlas", folder=Path(made))
            return dict(canonical({"code": code, "shown": shown.splitlines(), "errors": errors}, Path(made)))

    return asking.each(ask, asking.drawn(asked))


PARTS: dict[str, Callable[[Asking], dict[str, Any]]] = {
    "atlas": atlas, "named": named, "programs": programs, "keras": keras, "exporters": exporters,
    "gates": gates,
}  # fmt: skip
