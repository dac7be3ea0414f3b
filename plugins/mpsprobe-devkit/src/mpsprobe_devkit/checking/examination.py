"""The whole check of one plugin: read it, load and try it in a process of its own, put together what is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.output import TemporaryFolder
from mpsprobe.plugins.discovery import GROUP, FoundPlugin
from mpsprobe.plugins.plugin_files import folders_from_environment
from mpsprobe_devkit.checking.codes import Finding, finding, in_order
from mpsprobe_devkit.checking.subject import FOLDER, Subject, found_subject, judged_metadata, judged_sources

CONTRACT_LIMIT_S = 120.0  # a contract renders every sample report several times
TESTS_LIMIT_S = 900.0
MOST_OUTPUT = 8_000_000  # bytes that a plugin may print before it is stopped
MOST_FAILURES = 5  # of its own tests that are named
NO_TESTS = 5  # exit code of pytest
FRAME = re.compile(r'File "(.+)", line (\d+)')
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+)$", re.MULTILINE)


@dataclass(slots=True)
class Examined:
    """What a check found out, as ``--format json`` has it."""

    # target, kind, distribution, version, entry_points: what was checked
    target: str
    kind: str
    distribution: str
    version: str
    entry_points: dict[str, str]
    # hooks, contributes: the hooks that it implements, and the declared names by kind
    hooks: list[str] = field(default_factory=list)
    contributes: dict[str, list[str]] = field(default_factory=dict)
    # import_ms, tests: how long the import took, and the last line of its own tests; ``None``: it was not done
    import_ms: float | None = None
    tests: str | None = None
    # Everything that is wrong, by the part of the check, errors first.
    findings: list[Finding] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)  # what could not be looked at, and why; no fault of the plugin

    def take(self, finding: Any = None, declared: Any = None, hook: str = "", **event: Any) -> None:
        """Add what the child tells in one event."""
        self.findings += [Finding(**finding)] if finding else []
        self.hooks += [hook] if hook else []
        self.not_checked += [event["not_checked"]] if "not_checked" in event else []
        self.import_ms = event.get("import_ms", self.import_ms)
        if declared:
            self.contributes.setdefault(declared[0], []).append(declared[1])


def examine(
    target: str | Path,
    *,
    run_tests: bool = False,
    time_limit: float = 10.0,
    contracts: bool = True,
    blocked: Iterable[str] = (),
    folders: Iterable[str] | None = None,
    progress: Callable[[str], None] = lambda _what: None,
) -> Examined:
    """The check. Errors and the other arguments as ``mpsprobe_devkit.checking.check_plugin``.

    Args:
        blocked: plugins that are not asked for the names that they have.
        folders: of single files that are asked too; by default those of ``MPSPROBE_PLUGINS_DIR``.
        progress: takes what is done next, in a few words.
    """
    folders = list(folders_from_environment() if folders is None else folders)
    request = {"limit": time_limit, "contracts": contracts, "contract_limit": CONTRACT_LIMIT_S}
    with found_subject(target) as subject:
        if run_tests and subject.kind != FOLDER:
            raise UsageError(f"'{subject.shown}' is not a folder, so it has no tests to run", "Leave out --tests.")
        points = {entry_point.name: entry_point.target for entry_point in subject.entry_points}
        examined = Examined(subject.shown, subject.kind, subject.distribution, subject.version, points)
        examined.findings += subject.findings
        if points:
            examined.findings += [*judged_metadata(subject, examined.not_checked), *judged_sources(subject)]
        for point in subject.entry_points:
            progress(f"loading {point.target} and trying what it declares")
            for event in _told(subject, point, {**request, "blocked": sorted(blocked), "folders": folders}):
                examined.take(**event)
        if run_tests:
            progress("running its tests")
            _run_tests(subject, examined)
    examined.findings = in_order(examined.findings)
    return examined


def _told(subject: Subject, point: FoundPlugin, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the child tells; of one that did not come to its end, a finding about the step in which it ended."""
    front = [str(path) for path in subject.paths]
    own = [
        os.path.realpath(folder) for folder in front or [str(subject.root / package) for package in subject.packages]
    ]
    path = [*front, *(path for path in sys.path if path not in front)]
    request |= {"point": point._asdict(), "path": path, "own": own, "root": str(subject.root)}
    request |= {"where": subject.where, "optional": subject.optional}
    with TemporaryFolder() as name:
        events, output, trace = (Path(name, file) for file in ("events.jsonl", "output.txt", "trace.txt"))
        Path(name, "request.json").write_text(json.dumps(request), encoding="utf-8")
        events.touch()
        trace.touch()
        # -P: no file of the current folder stands in for a module.
        command = [sys.executable, "-P", "-m", "mpsprobe_devkit.checking.child", name]
        variables = {**os.environ, "PYTHONIOENCODING": "utf-8:backslashreplace"}
        code = _finished(command, output, env=variables)
        step: dict[str, Any] = {"begin": "the check", "where": ""}
        for event in map(json.loads, events.read_bytes().splitlines()):
            step = event if "begin" in event else {} if "done" in event else step
            yield event
        if step:
            traced, last = trace.read_text("utf-8", "replace"), output.read_bytes()[-500:].decode("utf-8", "replace")
            places = [(path, line) for path, line in FRAME.findall(traced) if path.startswith(tuple(own))]
            where = f"{os.path.relpath(places[0][0], subject.root)}:{places[0][1]}" if places else step["where"]
            yield {"finding": _ended(step, code, traced, last, where).as_dict()}


def _ended(step: dict[str, Any], code: int | None, trace: str, output: str, where: str) -> Finding:
    doing = step["begin"]
    if code is None:
        return finding("prints", f"{doing} prints without end", where)
    if "Timeout (" in trace:
        return finding("hangs", f"{doing} does not end within {step['limit']:g} s", where)
    how = f"signal {signal.Signals(-code).name}" if code < 0 and os.name != "nt" else f"exit code {code}"
    said = "" if trace or code <= 0 else output.strip().rpartition("\n")[2]
    return finding("ends-process", f"{doing} ends the process ({how}) {said}", where)


def _finished(command: list[str], output: Path, *, limit: float | None = None, **more: Any) -> int | None:
    """The exit code of a process; ``None`` for one that was stopped because it prints, or runs, without end."""
    started = time.monotonic()
    with output.open("wb") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, **more)
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.02)
                if limit is not None and time.monotonic() - started > limit:
                    return None
                if limit is None and output.stat().st_size > MOST_OUTPUT:
                    return None
        finally:
            process.kill()
            process.wait()
    return process.returncode


def _run_tests(subject: Subject, examined: Examined) -> None:
    """What pytest says in the subject's folder.

    The plugin need not be installed: its packages are put on ``PYTHONPATH``, and so is metadata that names its entry
    points, so that commands which the tests start find it too.
    """
    with TemporaryFolder() as name:
        info = Path(name, f"{re.sub(r'[^A-Za-z0-9.]+', '_', subject.distribution)}-0.dist-info")
        info.mkdir()
        distribution = " ".join(subject.distribution.split())
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0\n", encoding="utf-8")
        lines = "".join(f"{entry_point.name} = {entry_point.target}\n" for entry_point in subject.entry_points)
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}", encoding="utf-8")
        paths = [name, *map(str, subject.paths), os.environ.get("PYTHONPATH", "")]
        variables = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-rfE", "--color=no", "-p", "no:cacheprovider"]
        output, environment = Path(name, "output.txt"), {**os.environ, **variables, "NO_COLOR": "1"}
        ended = _finished(command, output, limit=TESTS_LIMIT_S, cwd=subject.root, env=environment)
        text = output.read_bytes().decode("utf-8", "replace")
    examined.tests = next((line for line in reversed(text.splitlines()) if line.strip()), "").strip("= ")
    if ended == NO_TESTS:
        examined.findings.append(finding("no-tests", "pytest finds no tests", subject.shown))
    elif ended != 0:
        failed = FAILED.findall(text) or [f"pytest ends with exit code {ended}: {examined.tests}"]
        more = [f"and {len(failed) - MOST_FAILURES} more: {examined.tests}"] if len(failed) > MOST_FAILURES else []
        examined.findings += [finding("tests-failed", failure, "tests") for failure in [*failed[:MOST_FAILURES], *more]]
