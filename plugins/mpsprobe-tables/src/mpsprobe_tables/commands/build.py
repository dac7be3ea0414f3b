"""``mpsprobe kernels build VERSION…``: makes the tables again from the wheels that Mac users install."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mpsprobe.errors import OutputError, TableError, UsageError
from mpsprobe.options import Named
from mpsprobe.output import TemporaryFolder, check_writable, write_atomically, write_stdout
from mpsprobe.progress import make_progress
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe_tables.builder.rebuild import Rebuilt
    from mpsprobe_tables.tensorflow.rebuild import Release

DIFFERENT = 1
METAL = "tensorflow-metal"


@click.command(short_help="Read the tables again from the macOS wheels.")
@click.argument("versions", nargs=-1, metavar="[VERSION]…")
@click.option(
    "--library",
    type=Named("library", ("torch", "torchvision", METAL)),
    default="torch",
    show_default=True,
    help="Of which.",
)
@click.option("--wheel", "wheels", metavar="FILE", multiple=True, help="Read this wheel and download nothing.")
@click.option("-o", "--output", metavar="FOLDER", help="Write each release's data file here.")
@click.option("--check", is_flag=True, help="Compare with the tables of this package; exit with 1 on a difference.")
def build(versions: tuple[str, ...], library: str, wheels: tuple[str, ...], output: str | None, check: bool) -> None:
    """Read the table of each VERSION from its macOS wheel, as the tables of this package were made.

    The wheel comes through pip from the index that pip is configured for; it is taken apart and never installed. Only
    PyTorch's own lists of expectations in it are executed, in a process without network. A data file holds what differs
    from the release before; the same wheel gives the same bytes.

    \b
    mpsprobe kernels build 2.13.0 --check
    mpsprobe kernels build 2.12.1 2.13.0 -o tables/
    mpsprobe kernels build --wheel torch-2.13.0-cp311-cp311-macosx_14_0_arm64.whl
    mpsprobe kernels build 0.28.0 --library torchvision --check
    mpsprobe kernels build 1.2.0 --library tensorflow-metal --check
    """
    if bool(versions) == bool(wheels):
        raise UsageError(
            "say which releases to build, or which wheels to read",
            "For example: mpsprobe kernels build 2.13.0, or mpsprobe kernels build --wheel FILE",
        )
    if library == METAL:
        same = _build_metal(versions, wheels, None if output is None else _folder(output))
        if check and not same:
            click.get_current_context().exit(DIFFERENT)
        return
    from mpsprobe_tables.builder import rebuild

    folder = None if output is None else _folder(output)
    wanted = rebuild.from_files(wheels) if wheels else rebuild.from_versions(versions, library)
    if folder is not None:
        check_writable(folder / "new")
    with make_progress() as progress:
        built = rebuild.rebuild(wanted, progress)
    files = [file for rebuilt in built for file in rebuilt.files]
    if folder is not None:
        for file in files:
            write_atomically(folder / file.name, file.data)
    write_stdout("\n\n".join(_described(rebuilt, check, folder) for rebuilt in built))
    if check and not all(file.same for file in files):
        click.get_current_context().exit(DIFFERENT)


def _folder(output: str) -> Path:
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot make the folder '{printable(output)}': {reason}") from error
    return folder


def _described(rebuilt: Rebuilt, check: bool, folder: Path | None) -> str:
    from mpsprobe_tables.builder.rebuild import undecided

    table = rebuilt.table
    lines = [
        f"{table.library} {table.release}: {len(table.native)} native, {len(table.fallback)} fallback, "
        f"{len(table.error)} only to raise, {len(table.operators)} operators in all",
        f"  wheel   {table.wheel}",
        f"  sha256  {table.sha256}",
    ]
    for key, names in table.only_in_binary.items():
        lines.append(f"  {key}: registered, but not in native_functions.yaml: {', '.join(names)}")
    for key, names in table.only_declared.items():
        lines.append(f"  {key}: in native_functions.yaml, but not registered: {', '.join(names)}")
    if rebuilt.facts is not None:
        lines.append(f"  kernels of {len(rebuilt.facts.operators)} operators are known by dtype or lack a stub")
    if rebuilt.compositions is not None:
        lines.append(
            f"  {len(rebuilt.compositions.calls)} composite operators and derivatives are known by what they call"
        )
    if rebuilt.expectations is not None:
        lines.append(f"  expectations of PyTorch's tests: {len(rebuilt.expectations.of('entries'))} entries")
    lines += [f"  {why}: what is stored is kept" for why in rebuilt.kept]
    lines += undecided(rebuilt)
    if folder is not None:
        lines += [f"  written to {folder / file.name}, {len(file.data)} bytes" for file in rebuilt.files]
    if check:
        lines += [
            f"  {'the same as' if file.same else 'NOT'} the {file.name} of this package" for file in rebuilt.files
        ]
        lines += [f"    {difference}" for difference in rebuilt.differences]
    return "\n".join(lines)


def _build_metal(versions: Sequence[str], wheels: Sequence[str], folder: Path | None) -> bool:
    """Read all wheels of some releases of tensorflow-metal, or these; whether the data files are the shipped ones.

    Raises MissingPackage: ``unicorn`` is not installed; TableError: a wheel cannot be had or read.
    """
    from mpsprobe_tables.tensorflow import rebuild

    for wheel in wheels:
        if not Path(wheel).is_file():
            raise TableError(f"there is no wheel '{printable(wheel)}'")
    with TemporaryFolder() as downloads, make_progress() as progress:
        progress.start(2 * len(versions) + len(wheels), "getting the wheels")
        files = [Path(wheel) for wheel in wheels] or rebuild.from_versions(versions, Path(downloads), progress)
        built = rebuild.rebuild(files, progress)
        progress.stop()
    if folder is not None:
        for rebuilt in built:
            write_atomically(folder / rebuilt.file.name, rebuilt.file.data)
    write_stdout("\n\n".join(_described_metal(one) for one in built))
    return all(one.file.same for one in built)


def _described_metal(release: Release) -> str:
    from mpsprobe_tensorflow.tables.table import decode

    lines = [f"{METAL} {release.release}"]
    for build in decode(release.file.data, release.file.name):
        operators = len({registration.operator for registration in build.registrations})
        lines.append(f"  {build.architecture}: {len(build.registrations)} registrations of {operators} operators")
        for group in build.conditional:
            since = f"macOS {group.macos}" if group.macos else "unknown"
            lines.append(f"    {len(group.registrations)} more if {' and '.join(group.asks)} ({since})")
        lines += [f"    wheel {name}" for name in build.wheels]
    lines.append(f"  {'the same as' if release.file.same else 'NOT'} the {release.file.name} of mpsprobe-tensorflow")
    return "\n".join(lines)
