"""``--processes N``: the same plan in fresh processes, one after the other, and one report of them all.

Nothing of this process is in them: no warm allocator, no compiled kernel, no loaded library. Each runs this module,
reads the wishes as JSON from its standard input and writes its report to a file.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mpsprobe.cli.planning import Wishes, make_plan
from mpsprobe.errors import MpsprobeError
from mpsprobe.output import write_atomically
from mpsprobe.plugins.collection import DISABLE_VARIABLE
from mpsprobe.plugins.plugin_files import FOLDERS_VARIABLE
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import make_progress
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mpsprobe.schemas.profile import ProfileReport

WAIT_S = 30  # how long a process that was interrupted may take to write what it has


def measure(wishes: Wishes, blocked: Iterable[str] = ()) -> ProfileReport:
    """The merged report of ``wishes.processes`` fresh processes; after Ctrl-C of those that there are.

    Args:
        blocked: plugins that are switched off in them too.

    Raises:
        MpsprobeError: a process failed, and none before it had measured anything.
        KeyboardInterrupt: nothing had been measured yet.
    """
    from mpsprobe.engine.merging import merge

    reports: list[ProfileReport] = []
    asked = json.dumps(dataclasses.asdict(wishes)).encode()
    folders = os.pathsep.join(get_registry().folders)
    environment = {**os.environ, DISABLE_VARIABLE: ",".join(sorted(blocked)), FOLDERS_VARIABLE: folders}
    failure: MpsprobeError | None = None
    with tempfile.TemporaryDirectory(prefix="mpsprobe-") as folder:
        for index in range(wishes.processes):
            path = Path(folder) / f"{index}.json"
            _tell(f"process {index + 1} of {wishes.processes}")
            code, interrupted = _run(asked, path, environment)
            report = _read(path)
            reports += [report] if report is not None else []
            if report is None and not interrupted:
                failure = MpsprobeError(
                    f"process {index + 1} of {wishes.processes} ended with exit code {code} and no report",
                    "What it said is above. Without --processes the same run shows more.",
                )
            if interrupted or failure is not None:
                break
    if not reports:
        raise failure or KeyboardInterrupt
    merged = merge(reports)
    update: dict[str, object] = {"plan": merged.plan.model_copy(update={"processes": wishes.processes})}
    if len(reports) < wishes.processes:
        update["complete"] = False
        update["notes"] = [*merged.notes, f"{len(reports)} of {wishes.processes} processes measured something"]
    return merged.model_copy(update=update)


def _run(asked: bytes, path: Path, environment: dict[str, str]) -> tuple[int, bool]:
    """Exit code, and whether Ctrl-C came. The terminal sends it to the child as well, which then writes what it has."""
    # -P: no file of the current folder stands in for a module, as with the installed script.
    command = [sys.executable, "-P", "-m", "mpsprobe.cli.processes", str(path)]
    child = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        child.communicate(asked)
        return child.returncode, False
    except KeyboardInterrupt:
        try:
            return child.wait(timeout=WAIT_S), True
        except (KeyboardInterrupt, subprocess.TimeoutExpired):
            return _stopped(child), True
    except BaseException:
        _stopped(child)
        raise


def _stopped(child: subprocess.Popen[bytes]) -> int:
    child.kill()
    return child.wait()


def _read(path: Path) -> ProfileReport | None:
    from mpsprobe.schemas.profile import ProfileReport
    from mpsprobe.schemas.report import read_report

    if not path.is_file():
        return None
    report = read_report(path)
    return report if isinstance(report, ProfileReport) else None


def _tell(text: str) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"mpsprobe: {printable(text)}", file=sys.stderr)  # noqa: T201


def main(path: str) -> int:
    """Measure in this process what standard input wishes for, and write the report to ``path``; the exit code."""
    from mpsprobe.engine.profiling import profile

    try:
        wishes = Wishes(**json.load(sys.stdin))
        report = profile(make_plan(get_registry(), wishes), make_progress())
        write_atomically(path, report.model_dump_json())
    except MpsprobeError as error:
        print(f"Error: {error.message}" + (f"\n{error.hint}" if error.hint else ""), file=sys.stderr)  # noqa: T201
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
