"""``mpsprobe kernels update``: the releases that are on the package index and have no table yet, brought in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import click
from packaging.version import Version

from mpsprobe.errors import TableError
from mpsprobe.output import check_writable, write_atomically, write_stdout
from mpsprobe.progress import SilentProgress, make_progress

LIBRARIES = ("torch", "torchvision")
AFTERWARDS = """Then look at what is named above, and:
  mpsprobe kernels audit --torch all --format markdown -o docs/explanation/audit.md
  git diff docs/explanation/audit.md    # are the figures of the new release like those of the one before?
  python -m pytest plugins/mpsprobe-coverage plugins/mpsprobe-tables"""


@click.command(short_help="Bring in the releases on the package index that have no table.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 8),
    default=min(2, os.cpu_count() or 1),
    show_default=True,
    help="Processes for the last step; each takes about 1 GB.",
)
def update(jobs: int) -> None:
    """Make every data file of the releases of torch, torchvision and tensorflow-metal that this package lacks.

    Written into the data folders of the packages, so run it in a checkout: tables, facts of kernels, the expectations
    of PyTorch's tests and, where these are new, the list of what they say that kernels refuse. The release before is
    read too. It must give the file that is shipped, and what is new since then is printed for a person to look at.
    A new release of tensorflow-metal needs the package unicorn.

    \b
    mpsprobe kernels update
    """
    from mpsprobe_coverage.knowledge.judging.lists import FILE, learned
    from mpsprobe_coverage.knowledge.kernels.releases import data_folder, library_releases
    from mpsprobe_tables.builder.rebuild import from_versions, rebuild, review
    from mpsprobe_tables.builder.wheel import METAL
    from mpsprobe_tables.expectations import expectation_releases
    from mpsprobe_tables.tensorflow import rebuild as metal
    from mpsprobe_tensorflow.tables.table import releases as metal_releases

    folder = Path(str(data_folder()))
    check_writable(folder / FILE)
    known = {**{library: library_releases(library) for library in LIBRARIES}, METAL: metal_releases()}
    reading = {library: _to_read(library, of_library) for library, of_library in known.items()}
    # It was killed before it had learned from what it had written.
    behind = {*expectation_releases()} - {release for entry in learned() for release in entry.releases}
    if not any(reading.values()) and not behind:
        newest = " and ".join(f"{library} {of_library[-1]}" for library, of_library in known.items())
        write_stdout(f"there is nothing newer than {newest} on the package index")
        return
    lines: list[str] = []
    with make_progress() as progress:
        # The first of each library is the release before.
        built = rebuild([wheel for name in LIBRARIES for wheel in from_versions(reading[name], name)], progress)
        for before, new in pairwise(built):
            if before.table.library == new.table.library:
                lines += [*review(before, new), ""]
        # A release is known by its table, which is the first of its files: it is written last.
        files = [file for rebuilt in built for file in (*rebuilt.files[1:], rebuilt.files[0])]
        if reading[METAL]:
            files += metal.files(reading[METAL], progress)
            lines += [
                f"{METAL} {release}: which TensorFlow does it load with? (fits.toml)" for release in reading[METAL][1:]
            ]
        changed = [file.name for file in files if file.shipped and not file.same]
        if changed:
            raise TableError(
                f"{', '.join(changed)} would be another than the one of this package, so nothing was written",
                "See what differs: mpsprobe kernels build VERSION --check",
            )
        for file in (file for file in files if not file.shipped):
            write_atomically(file.folder / file.name, file.data)
            lines.append(f"written: {file.name}")
        if behind or any(rebuilt.expectations is not None and not rebuilt.files[0].shipped for rebuilt in built):
            from mpsprobe_tables.audit.learn import learn
            from mpsprobe_tables.audit.running import start

            progress.start(None, "entries on the virtual devices of each list, some minutes")
            # This process remembers the old files.
            with ProcessPoolExecutor(1, get_context("spawn"), start) as fresh:
                write_atomically(folder / FILE, fresh.submit(learn, SilentProgress(), jobs).result())
            lines.append(f"written: {FILE}")
    write_stdout("\n".join([*lines, "", AFTERWARDS]))


def _to_read(library: str, known: Sequence[str]) -> Sequence[str]:
    """The release before the first new one, and the new ones."""
    from mpsprobe_tables.builder.download import offered

    new = [release for release in offered(library) if release not in known and Version(release) > Version(known[0])]
    return [*[release for release in known if new and Version(release) < Version(new[0])][-1:], *new]
