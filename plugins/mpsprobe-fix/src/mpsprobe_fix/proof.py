"""The proof of a patch: the program before and after, on the CPU and on the virtual device of ``mpsprobe run``."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.output import TemporaryFolder
from mpsprobe_fix.files import Found, is_left_out
from mpsprobe_fix.fixing import Patch, fixed
from mpsprobe_fix.rule import Rule

ROUNDS = 3  # of edits that a run asks for: the one behind an operator can show only after it
REFUSED = ("missing", "unsupported")
_TOLERANCE = 1e-3
_DEVICE = re.compile(r"\b(cuda|mps|cpu)(:\d+)?\b")
_TIME = re.compile(r"\d+(\.\d+)?\s*(ms|s|sec|secs|seconds|it/s|s/it|samples/s|tokens/s)\b")
_TIMED = re.compile(
    r"(?i)\b(\w*(?:time|second|duration|speed|elapsed|throughput)\w*[\"']?\s*[:=]?\s*[\"']?)[\d.]+(e[-+]?\d+)?"
)
_NUMBER = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?")
_MAIN = "from mpsprobe.cli.main import main; main()"
_NOT_NEEDED = {"__pycache__", ".git"}
COPIED = 200e6
"""Bytes of the working folder that are copied for each run, with 4 KiB for each file."""
TIMED_OUT = 124
MOST_OUTPUT = 10_000_000


@dataclass
class Outcome:
    """How a program ended: its output and, on the virtual device, the report."""

    output: str
    code: int
    errors: str
    report: Mapping[str, Any] | None = None

    @property
    def program(self) -> Mapping[str, Any]:
        return (self.report or {}).get("program") or {}

    def refused(self) -> list[str]:
        """What a Mac refuses, with its line."""
        operators = (self.report or {}).get("operators", [])
        return [
            f"{row['operator']} is {row['verdict']} at {', '.join(row['call_sites'][:2]) or 'no line that is known'}"
            for row in operators
            if row["verdict"] in REFUSED
        ]

    def on_the_cpu(self) -> int:
        """How many places stay on the CPU."""
        return len(self.program.get("stayed_on_cpu", [])) + len(self.program.get("computed_on_cpu", []))


def prove(
    program: str, release: str, gathered: Found, rules: Sequence[Rule], patch: Patch, timeout: float
) -> tuple[Patch, list[str]]:
    """The patch, with the edits that a run asks for, and what did not hold: nothing, if it is proved.

    Each run of at most ``timeout`` seconds has a copy of the working folder, so that the files stay as they are until
    the patch is proved, and no run finds what another one left. Raises UsageError: the command is no Python program, or
    a path is not below the working folder.
    """
    command = _arguments(program)
    here = Path.cwd().resolve()
    if any(not source.path.is_relative_to(here) for source in gathered.sources):
        raise UsageError("--run needs all paths below the working folder", "Change to the folder that has them.")
    sources = {source.path: source for source in gathered.sources}

    def run(runner: Callable[..., Outcome], texts: Mapping[str, str]) -> Outcome:
        data = {path: source.encoded(texts.get(source.name, source.text)) for path, source in sources.items()}
        with TemporaryFolder() as folder:  # its own: programs leave files behind
            _copy(here, Path(folder) / here.name, data, [COPIED])
            return runner(command, Path(folder) / here.name, release, timeout)

    before = run(_on_cpu, {}), run(_on_virtual, {})
    for number in range(ROUNDS + 1):
        after = run(_on_virtual, patch.texts)
        seen = _seen(after, gathered, here)
        count = len(patch.changes)
        if seen and number < ROUNDS:
            patch = fixed(gathered, rules, seen, patch, release)
        if len(patch.changes) == count:
            break
    on_cpu = run(_on_cpu, patch.texts)
    reasons = list(_what_fails(before, on_cpu, after, bool(patch.changes)))
    if reasons and before[0].code == 0 and _differences(before[0].output, run(_on_cpu, {}).output):
        reasons.append("the program itself prints something else each time: give it a seed")
    return patch, reasons


def _what_fails(before: tuple[Outcome, Outcome], on_cpu: Outcome, on_mps: Outcome, edited: bool) -> Iterator[str]:
    for name, ran in (("the CPU", on_cpu), ("the virtual device", on_mps)):
        if ran.code:
            last = ran.errors.strip().splitlines()[-1:] or ["no message"]
            yield f"after the edits the program ends with {ran.code} on {name}: {last[0]}"
    if on_mps.report is None:
        yield "the run on the virtual device has no report"
    if before[0].code == 0 and (line := _differences(before[0].output, on_cpu.output)):
        yield f"on the CPU it prints something else than before: {line}"
    if not on_cpu.code and not on_mps.code and (line := _differences(on_cpu.output, on_mps.output)):
        yield f"it prints something else on the virtual device than on the CPU: {line}"
    yield from (f"a Mac refuses it still: {refused}" for refused in on_mps.refused())
    for use in on_mps.program.get("cuda", []):
        tried = use["what"].startswith("import ") or (use["what"] == "torch.cuda.is_available()" and not edited)
        if tried and not on_mps.code:
            continue
        yield f"it still asks for CUDA: {use['what']} at {', '.join(use['call_sites'][:2])}"
    ran_on_mps = (before[1].report or {}).get("summary", {}).get("calls", 0) > 0 and before[1].code == 0
    ran_on_mps = ran_on_mps and not list(before[1].refused())  # there a Mac raises; the virtual device goes on
    if ran_on_mps and on_mps.on_the_cpu() > before[1].on_the_cpu():
        yield "more of it stays on the CPU than before"


def _differences(old: str, new: str) -> str | None:
    """The first line that is different, but for names of devices, times, and numbers that are nearly the same."""
    lines = [
        [_TIMED.sub(r"\1TIME", _TIME.sub("TIME", _DEVICE.sub("DEVICE", line))) for line in text.splitlines()]
        for text in (old, new)
    ]
    for one, other in zip(*lines, strict=False):
        if not _alike(one, other):
            return f"{other!r}, not {one!r}"
    return None if len(lines[0]) == len(lines[1]) else f"{len(lines[1])} lines, not {len(lines[0])}"


def _alike(text: str, other: str) -> bool:
    if _NUMBER.sub("N", text) != _NUMBER.sub("N", other):
        return False
    pairs = zip(_NUMBER.finditer(text), _NUMBER.finditer(other), strict=True)
    return all(math.isclose(float(a[0]), float(b[0]), rel_tol=_TOLERANCE, abs_tol=1e-6) for a, b in pairs)


def _arguments(program: str) -> list[str]:
    try:
        words = shlex.split(program)
    except ValueError:  # a quotation mark that is not closed
        words = []
    if words and re.fullmatch(r"(.*[/\\])?python[\d.]*(\.exe)?", words[0]):
        words = words[1:]
    if not words or (words[0].startswith("-") and words[0] != "-m"):
        raise UsageError(f"no Python program: {program}", 'Name a script or a module: --run "train.py --epochs 1"')
    return words


def _on_cpu(command: Sequence[str], folder: Path, _: str, timeout: float) -> Outcome:
    return _process([sys.executable, *command], folder, timeout)


def _on_virtual(command: Sequence[str], folder: Path, release: str, timeout: float) -> Outcome:
    with TemporaryFolder() as out:
        report = Path(out) / "report.json"
        flags = ["run", "--torch", release, "--format", "json", "-o", str(report)]
        done = _process([sys.executable, "-c", _MAIN, *flags, *command], folder, timeout)
        made = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else None
    code = done.code or (made or {}).get("program", {}).get("exit_code", 0)
    return Outcome(done.output, code, done.errors, made)


def _process(command: Sequence[str], folder: Path, timeout: float) -> Outcome:
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:  # pipes wait for whoever has them open
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            return Outcome("", TIMED_OUT, f"it ran for {timeout:g} s: more with --timeout")
        finally:
            _end(process)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read(MOST_OUTPUT).decode("utf-8", "replace"))
    return Outcome(texts[0], code, texts[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started."""
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _copy(folder: Path, to: Path, texts: Mapping[Path, bytes], left: list[float]) -> None:
    """A copy of ``folder`` with other ``texts``, of as many bytes as are ``left``; the rest is links, and what is not
    the program's own.
    """
    to.mkdir(parents=True)
    for path in sorted(folder.iterdir()):
        there = to / path.name
        size = path.stat().st_size if path.is_file() else 0
        own = os.access(path, os.R_OK) and not (path.is_dir() and (path.is_symlink() or is_left_out(path)))
        if path in texts:
            there.write_bytes(texts[path])
        elif own and path.is_dir() and (left[0] > 0 or any(path.rglob("*.py"))):
            _copy(path, there, texts, left)
        elif (
            own and path.is_file() and (path.suffix == ".py" or size <= left[0])
        ):  # Python looks for modules next to it
            shutil.copy2(path, there)
            left[0] -= size + 4096
        elif path.name not in _NOT_NEEDED:
            there.symlink_to(path, target_is_directory=path.is_dir())


def _seen(after: Outcome, gathered: Found, here: Path) -> dict[str, dict[int, list[tuple[str, str]]]]:
    """What a run found, by file and line: what kind of thing, and the operator."""
    names = {
        source.path.relative_to(here).as_posix(): source.name
        for source in gathered.sources
        if source.path.is_relative_to(here)
    }
    seen: dict[str, dict[int, list[tuple[str, str]]]] = {}

    def add(kind: str, operator: str, sites: Sequence[str]) -> None:
        for site in sites:
            file, _, line = site.rpartition(":")
            name = names.get(file) or next((names[name] for name in names if name.endswith(f"/{file}")), None)
            if name is not None and line.isdigit():
                seen.setdefault(name, {}).setdefault(int(line), []).append((kind, operator))

    report = after.report or {}
    for finding in report.get("operators", []):
        if finding["verdict"] in REFUSED:
            wide = finding.get("source") == "dtype" and finding.get("evidence") in {"float64", "complex128"}
            add(finding["evidence"] if wide else "operator", finding["operator"], finding["call_sites"])
    for match in report.get("advisories", []):
        if "contiguous()" in match.get("workaround", ""):
            for operator in match["operators"]:
                add("contiguous", operator, match["call_sites"])
    return seen
