"""Renders reports in a process of its own, on another day and in another folder, and watches what is done there.

The process starts with ``python -c`` and gets its work on standard input, so that it needs no file of ours to be on
``sys.path`` and no length of a command line.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpsprobe.declarations import ExporterDeclaration
from mpsprobe.errors import MpsprobeError
from mpsprobe.schemas import Report
from mpsprobe.schemas.report import parse_report
from mpsprobe_devkit.testing.contracts.clauses import Broken

START = """
import json, sys
work = json.loads(sys.stdin.buffer.read())
sys.path[:] = work["path"]
from mpsprobe_devkit.testing.contracts.fresh_process import render_work
render_work(work)
"""
DAYS_LATER = 400
TIMEOUT_S = 300
OTHER_SETTINGS = {
    "COLUMNS": "57",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "TZ": "Pacific/Apia",
    "LC_ALL": "C",
    "LANG": "C",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True, slots=True)
class FreshRun:
    """What a process of its own did.

    Attributes:
        rendered: files by path for each report (one file under the empty path), or the exception in words.
        imported_torch: whether torch was imported.
        left_files: what it wrote while rendering, and left behind.
        connections: where it connected to.
    """

    rendered: Mapping[str, dict[str, bytes] | str]
    imported_torch: bool
    left_files: list[str]
    connections: list[str]


def render_in_fresh_process(declaration: ExporterDeclaration, reports: Mapping[str, Report]) -> FreshRun:
    """Render ``reports`` with what ``declaration`` names in a new process.

    Raises:
        Broken: the process does not end, or dies.
    """
    texts = {what: text for what, one in reports.items() if _reads_back(one, text := one.model_dump_json())}
    with tempfile.TemporaryDirectory(prefix="mpsprobe-") as folder:
        answer = Path(folder) / "answer.json"
        (place := Path(folder) / "place").mkdir()
        work = {
            "path": [str(Path(one or ".").resolve()) for one in sys.path],
            "target": declaration.target,
            "folder": declaration.folder,
            "reports": texts,
            "answer": str(answer),
        }
        _run(json.dumps(work).encode(), place)
        found = json.loads(answer.read_text(encoding="utf-8"))
    rendered = {what: one if isinstance(one, str) else _decoded(one) for what, one in found["rendered"].items()}
    return FreshRun(rendered, found["torch"], found["files"], found["connections"])


def _run(work: bytes, place: Path) -> None:
    """Start Python in ``place`` on ``work``, with other settings and another seed of hashes."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, **OTHER_SETTINGS, "PYTHONHASHSEED": seed}
    environment.pop("FORCE_COLOR", None)
    try:
        done = subprocess.run(
            [sys.executable, "-c", START],
            input=work,
            cwd=place,
            env=environment,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Broken(f"rendering in a process of its own did not end in {TIMEOUT_S} s") from error
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise Broken(f"rendering in a process of its own ended it with the code {done.returncode}: {last}")


def _reads_back(report: Report, text: str) -> bool:
    """Whether the other process gets just this report; one of a plugin's own class may come back as an unknown one."""
    try:
        return parse_report(text) == report
    except MpsprobeError:
        return False


def _decoded(files: Mapping[str, str]) -> dict[str, bytes]:
    return {path: base64.b64decode(content) for path, content in files.items()}


def render_work(work: Mapping[str, Any]) -> None:
    """What the new process does: ``work`` is what ``render_in_fresh_process`` sent and names the answer's file.

    Everything is rendered twice, and the second time counts: then all is imported, so that the clock can be moved in
    the plugin's own modules, and what is imported late has filled its caches.
    """
    from mpsprobe_devkit.testing.contracts.moved_clock import move_the_clock
    from mpsprobe_devkit.testing.contracts.subjects import by_target

    had_torch = "torch" in sys.modules
    reports = {what: parse_report(text) for what, text in work["reports"].items()}
    written, connections = _watch()
    make = by_target(work["target"])
    for report in reports.values():
        _rendered(make(), report, work["folder"])
    written.clear()
    move_the_clock(work["target"].partition(".")[0].partition(":")[0], DAYS_LATER)
    rendered = {what: _rendered(make(), report, work["folder"]) for what, report in reports.items()}
    answer = {
        "rendered": rendered,
        "torch": "torch" in sys.modules and not had_torch,
        "files": [path for path in dict.fromkeys(written) if Path(path).is_file()],
        "connections": list(dict.fromkeys(connections)),
    }
    Path(work["answer"]).write_text(json.dumps(answer), encoding="utf-8")


def _rendered(exporter: Any, report: Report, folder: bool) -> Any:
    from mpsprobe.output import as_bytes
    from mpsprobe_devkit.testing.contracts.clauses import described

    try:
        if folder:
            files = {path: b"".join(map(as_bytes, content)) for path, content in exporter.files(report)}
        else:
            files = {"": as_bytes(exporter.render(report))}
    except Exception as error:  # noqa: BLE001 - the plugin's code, reported as text
        return described(error)
    return {path: base64.b64encode(content).decode("ascii") for path, content in files.items()}


def _watch() -> tuple[list[str], list[str]]:
    """Lists that fill with the paths that are opened for writing, and with the addresses that are connected to."""
    written: list[str] = []
    connections: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], (str, bytes)):
            mode, flags = arguments[1] or "", arguments[2] or 0
            if set(mode) & set("wax+") or flags & (os.O_WRONLY | os.O_RDWR):
                written.append(os.path.abspath(os.fsdecode(arguments[0])))  # noqa: PTH100 - resolve() follows links
        elif event in ("socket.connect", "socket.getaddrinfo"):
            connections.append(str(arguments[1] if event == "socket.connect" else arguments[0]))

    sys.addaudithook(hook)
    return written, connections
