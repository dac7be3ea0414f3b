"""The whole check of one plugin: read it, load and try it in a process of its own, put together what is wrong."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.plugins.containment import TIMEOUT_VARIABLE
from mpsprobe.plugins.discovery import GROUP, FoundPlugin
from mpsprobe.plugins.plugin_files import folders_from_environment
from mpsprobe_devkit.checking.codes import Finding, finding, in_order
from mpsprobe_devkit.checking.sources import judged_metadata, judged_sources, not_here
from mpsprobe_devkit.checking.subject import FOLDER, Subject, found_subject

CONTRACT_LIMIT_S = 120.0  # a contract renders every sample report several times
TESTS_LIMIT_S = 900.0
MOST_OUTPUT = 8_000_000  # bytes that a plugin may print before it is stopped
MOST_FAILURES = 5  # of its own tests that are named
NO_TESTS = 5  # exit code of pytest
FRAME = re.compile(r'File "(.+)", line (\d+)')
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+)$", re.MULTILINE)


@dataclass(slots=True)
class Examined:
    """What a check found out.

    Attributes:
        subject: what was checked.
        findings: everything that is wrong, by the part of the check, errors first.
        contributes: the declared names by kind.
        hooks: the hooks that it implements.
        import_ms: the time that importing its thin module takes; ``None`` where it was not imported.
        tests: the last line of the plugin's own tests; ``None`` where they were not run.
        not_checked: what could not be looked at, and why; no fault of the plugin.
    """

    subject: Subject
    findings: list[Finding] = field(default_factory=list)
    contributes: dict[str, list[str]] = field(default_factory=dict)
    hooks: list[str] = field(default_factory=list)
    import_ms: float | None = None
    tests: str | None = None
    not_checked: list[str] = field(default_factory=list)


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
    others = {"blocked": sorted(blocked), "folders": list(folders_from_environment() if folders is None else folders)}
    with found_subject(target) as subject:
        if run_tests and subject.kind != FOLDER:
            raise UsageError(f"'{subject.shown}' is not a folder, so it has no tests to run", "Leave out --tests.")
        examined = Examined(subject, list(subject.findings))
        if subject.entry_points:
            examined.findings += [*judged_metadata(subject), *judged_sources(subject)]
            examined.not_checked += not_here(subject)
        for point in subject.entry_points:
            progress(f"loading {point.target} and trying what it declares")
            request = {**others, "limit": time_limit, "contracts": contracts, "contract_limit": CONTRACT_LIMIT_S}
            for event in _in_a_process(subject, point, request):
                _take(examined, event)
        if run_tests:
            progress("running its tests")
            _run_tests(examined)
    examined.findings = in_order(examined.findings)
    return examined


def _take(examined: Examined, event: dict[str, Any]) -> None:
    if "finding" in event:
        examined.findings.append(Finding(**event["finding"]))
    elif "declared" in event:
        examined.contributes.setdefault(event["declared"], []).append(event["name"])
    elif "hooks" in event:
        examined.hooks = sorted({*examined.hooks, *event["hooks"]})
    elif "import_ms" in event:
        examined.import_ms = max(event["import_ms"], examined.import_ms or 0.0)
    elif "not_checked" in event:
        examined.not_checked.append(event["not_checked"])


def _in_a_process(subject: Subject, point: FoundPlugin, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the child tells; of one that did not come to its end, a finding about the step in which it ended."""
    front = [str(path) for path in subject.paths]
    own = front or [str(subject.root / package) for package in subject.packages]
    path = [*front, *(path for path in sys.path if path not in front)]
    request |= {"point": dataclasses.asdict(point), "path": path, "own": own, "root": str(subject.root)}
    request |= {"where": subject.where, "optional": subject.optional}
    with tempfile.TemporaryDirectory(prefix="mpsprobe-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        # -P: no file of the current folder stands in for a module. A thread for each limit is not needed there.
        command = [sys.executable, "-P", "-m", "mpsprobe_devkit.checking.child", name]
        variables = {**os.environ, TIMEOUT_VARIABLE: "0", "PYTHONIOENCODING": "utf-8:backslashreplace"}
        code = _finished(command, folder / "output.txt", env=variables)
        lines = (folder / "events.jsonl").read_bytes().splitlines() if (folder / "events.jsonl").exists() else []
        events = [json.loads(line) for line in lines]
        yield from events
        if not any("done" in event for event in events):
            begun = next((one for one in reversed(events) if "begin" in one), {"begin": "the check", "where": ""})
            trace = (folder / "trace.txt").read_text("utf-8", "replace") if (folder / "trace.txt").exists() else ""
            ended = _ended(begun, code, trace, (folder / "output.txt").read_bytes()[-500:].decode("utf-8", "replace"))
            places = [f"{path}:{line}" for path, line in FRAME.findall(trace) if path.startswith(tuple(own))]
            where = os.path.relpath(places[0], subject.root) if places else begun["where"]
            yield {"finding": dataclasses.replace(ended, where=where).as_dict()}


def _finished(command: list[str], output: Path, *, limit: float | None = None, **more: Any) -> int | None:
    """The exit code of a process; ``None`` for one that was stopped because it prints, or runs, without end."""
    started = time.monotonic()
    with output.open("wb") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, **more)
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.02)
                late = limit is not None and time.monotonic() - started > limit
                if late or (limit is None and output.stat().st_size > MOST_OUTPUT):
                    return None
        finally:
            process.kill()
            process.wait()
    return process.returncode


def _ended(begun: dict[str, Any], code: int | None, trace: str, output: str) -> Finding:
    doing = begun["begin"]
    if code is None:
        return finding("prints", f"{doing} prints without end")
    if "Timeout (" in trace:
        return finding("hangs", f"{doing} does not end within {begun['limit']:g} s")
    last = output.strip().rpartition("\n")[2] if code > 0 else ""
    how = f"signal {signal.Signals(-code).name}" if code < 0 and os.name != "nt" else f"exit code {code}"
    return finding("ends-process", f"{doing} ends the process ({how}){': ' if last else ''}{last}")


def _run_tests(examined: Examined) -> None:
    """What pytest says in the subject's folder.

    The plugin need not be installed: its packages are put on ``PYTHONPATH``, and so is metadata that names its entry
    points, so that commands which the tests start find it too.
    """
    subject = examined.subject
    with tempfile.TemporaryDirectory(prefix="mpsprobe-", ignore_cleanup_errors=True) as name:
        info = Path(name, f"{re.sub(r'[^A-Za-z0-9.]+', '_', subject.distribution)}-0.dist-info")
        info.mkdir()
        distribution = " ".join(subject.distribution.split())
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0\n", encoding="utf-8")
        lines = "".join(f"{one.name} = {one.target}\n" for one in subject.entry_points)
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
        examined.findings += [finding("tests-failed", one, "tests") for one in [*failed[:MOST_FAILURES], *more]]
