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
    """Make every data file of the releases of torch and torchvision that this package lacks.

    Written into the data folders of the packages, so run it in a checkout: tables, facts of kernels, the expectations
    of PyTorch's tests and, where these are new, the list of what they say that kernels refuse. The release before is
    read too. It must give the file that is shipped, and what is new since then is printed for a person to look at.

    \b
    mpsprobe kernels update
    """
    from mpsprobe_coverage.knowledge.judging.lists import FILE
    from mpsprobe_coverage.knowledge.kernels.releases import data_folder, library_releases
    from mpsprobe_tables.builder.rebuild import from_versions, rebuild
    from mpsprobe_tables.builder.review import review

    folder = Path(str(data_folder()))
    check_writable(folder / FILE)
    wanted = [
        request for library in LIBRARIES for request in from_versions(_to_read(library), library)
    ]  # the first of each library is the release before
    if not wanted:
        newest = " and ".join(f"{library} {library_releases(library)[-1]}" for library in LIBRARIES)
        write_stdout(f"there is nothing newer than {newest} on the package index")
        return
    lines: list[str] = []
    with make_progress() as progress:
        built = rebuild(wanted, progress)
        for before, new in pairwise(built):
            if before.table.library == new.table.library:
                lines += [*review(before, new), ""]
        for one in built:
            changed = [file.name for file in one.files if file.shipped and not file.same]
            if changed:
                raise TableError(
                    f"{', '.join(changed)} would be another than the one of this package, so nothing was written",
                    f"See what differs: mpsprobe kernels build {one.table.release} --check",
                )
        for file in (file for one in built for file in one.files if not file.shipped):
            write_atomically(file.folder / file.name, file.data)
            lines.append(f"written: {file.name}")
        if any(one.expectations is not None and not one.files[0].shipped for one in built):
            from mpsprobe_tables.audit.learn import learn

            progress.start(None, "entries on the virtual devices of each list, some minutes")
            with ProcessPoolExecutor(1, get_context("spawn")) as fresh:  # this process remembers the old files
                write_atomically(folder / FILE, fresh.submit(learn, SilentProgress(), jobs).result())
            lines.append(f"written: {FILE}")
    write_stdout("\n".join([*lines, "", AFTERWARDS]))


def _to_read(library: str) -> Sequence[str]:
    """The release before the first new one, and the new ones."""
    from mpsprobe_coverage.knowledge.kernels.releases import library_releases
    from mpsprobe_tables.builder.download import offered

    known = library_releases(library)
    new = [release for release in offered(library) if release not in known and Version(release) > Version(known[0])]
    return [*[release for release in known if new and Version(release) < Version(new[0])][-1:], *new]
