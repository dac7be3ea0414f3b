"""``--processes N``: the same plan in fresh processes, one after the other, and one report of them all.

Nothing of this process is in them: no warm allocator, no compiled kernel, no loaded library. Each runs this module,
reads the request as JSON from its standard input and writes its report to a file.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mpsprobe.cli.ending import ends_are_said, signals_raise, was_terminated
from mpsprobe.cli.main import explain
from mpsprobe.cli.planning import make_plan
from mpsprobe.engine.request import ProfileRequest
from mpsprobe.errors import MpsprobeError
from mpsprobe.output import TemporaryFolder, write_atomically
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe.progress import make_progress
from mpsprobe.streams import QUIET, note

if TYPE_CHECKING:
    from mpsprobe.schemas.profile import ProfileReport

WAIT_S = 30  # how long a process that was interrupted may take to write what it has


def measure(registry: Registry, request: ProfileRequest) -> ProfileReport:
    """The merged report of ``request.processes`` fresh processes; after Ctrl-C, or a failure, of those before it."""
    from pydantic import TypeAdapter

    from mpsprobe.engine.profiling import merge

    wanted = request.processes
    text, environment = TypeAdapter(ProfileRequest).dump_json(request), registry.variables()
    reports: list[ProfileReport] = []
    failure: MpsprobeError | None = None
    with TemporaryFolder() as folder:
        for index in range(wanted):
            path = Path(folder) / f"{index}.json"
            if sys.stderr is not None and sys.stderr.isatty():
                note(f"mpsprobe: process {index + 1} of {wanted}")
            code, interrupted = _run(text, path, index, environment)
            if (report := _read(path)) is not None:
                reports.append(report)
            elif not interrupted:
                failure = MpsprobeError(
                    f"process {index + 1} of {wanted} ended with exit code {code} and no report",
                    "Its own message is above.",
                )
            if interrupted or failure is not None:
                break
    if not reports:
        raise failure or KeyboardInterrupt
    merged = merge(reports)
    if len(reports) == wanted:
        return merged
    notes = [*merged.notes, f"{len(reports)} of {wanted} processes measured something"]
    return merged.model_copy(update={"complete": False, "notes": notes})


def _run(request: bytes, path: Path, index: int, environment: dict[str, str]) -> tuple[int, bool]:
    """Exit code, and whether Ctrl-C came. The terminal sends it to the child as well, which then writes what it has."""
    # -P: no file of the current folder stands in for a module, as with the installed script.
    command = [sys.executable, "-P", "-m", "mpsprobe.cli.processes", str(path), str(index)]
    command += ["quiet"] if QUIET.get() else []
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as child:
        try:
            child.communicate(request)
            return child.returncode, False
        except KeyboardInterrupt:
            if was_terminated():
                child.terminate()
            with suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
                return child.wait(timeout=WAIT_S), True
            child.kill()
            return child.wait(), True
        except BaseException:
            child.kill()
            raise


def _read(path: Path) -> ProfileReport | None:
    from mpsprobe.schemas.profile import ProfileReport

    return ProfileReport.model_validate_json(path.read_bytes()) if path.is_file() else None


def main(path: str, index: str, quiet: str = "") -> int:
    """Measure here, in the ``index``-th process from 0, and write the report to ``path``; the exit code."""
    QUIET.set(bool(quiet))
    from pydantic import TypeAdapter

    from mpsprobe.engine.profiling import profile

    try:
        request = TypeAdapter(ProfileRequest).validate_json(sys.stdin.buffer.read())
        with signals_raise(), ends_are_said(), make_progress() as progress:
            progress.start_loading(2)
            report = profile(make_plan(get_registry(), request), progress, int(index))
        write_atomically(path, report.model_dump_json())
    except MpsprobeError as error:
        return explain(error)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
