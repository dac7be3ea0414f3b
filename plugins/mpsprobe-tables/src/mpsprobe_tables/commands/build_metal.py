"""``mpsprobe kernels build --library tensorflow-metal``: the tables of Apple's plugin for TensorFlow."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mpsprobe.errors import TableError
from mpsprobe.output import write_atomically, write_stdout
from mpsprobe.progress import make_progress
from mpsprobe.suggestions import printable
from mpsprobe_tables.builder.wheel import METAL
from mpsprobe_tables.tensorflow import rebuild
from mpsprobe_tensorflow.tables.table import decode


def run(versions: Sequence[str], wheels: Sequence[Path], folder: Path | None, format_name: str) -> bool:
    """Read all wheels of some releases, or these; whether mpsprobe-tensorflow has the same data files.

    Raises:
        MissingPackage: ``unicorn`` is not installed.
        TableError: a wheel cannot be had or read.
    """
    for wheel in wheels:
        if not wheel.is_file():
            raise TableError(f"there is no wheel '{printable(str(wheel))}'")
    with tempfile.TemporaryDirectory(prefix="mpsprobe-") as downloads, make_progress() as progress:
        progress.start(2 * len(versions) + len(wheels), "getting the wheels")
        found = list(wheels) or rebuild.from_versions(versions, Path(downloads), progress)
        built = rebuild.rebuild(found, progress)
        progress.stop()
    if folder is not None:
        for one in built:
            write_atomically(folder / one.file.name, one.file.data)
    if format_name == "json":
        write_stdout(
            json.dumps([{**one.document, "name": one.file.name, "same": one.file.same} for one in built], indent=2)
        )
    else:
        write_stdout("\n\n".join(_described(one) for one in built))
    return all(one.file.same for one in built)


def _described(release: rebuild.Release) -> str:
    lines = [f"{METAL} {release.release}"]
    for build in decode(release.file.data, release.file.name):
        operators = len({one.operator for one in build.registrations})
        lines.append(f"  {build.architecture}: {len(build.registrations)} registrations of {operators} operators")
        for group in build.conditional:
            since = f"macOS {group.macos}" if group.macos else "unknown"
            lines.append(f"    {len(group.registrations)} more if {' and '.join(group.asks)} ({since})")
        lines += [f"    wheel {name}" for name in build.wheels]
    lines.append(f"  {'the same as' if release.file.same else 'NOT'} the {release.file.name} of mpsprobe-tensorflow")
    return "\n".join(lines)
