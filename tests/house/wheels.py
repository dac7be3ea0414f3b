"""Checks what .ci/build built, a wheel and an sdist of each distribution: ``python tests/house/wheels.py FOLDER``."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_TABLE_BYTES = 400_000
"""Compressed size of all kernel tables in their wheel; users download them whether they need them or not."""


def problems(wheel: Path, package_folder: Path, entry_points: bool) -> list[str]:
    """What is wrong with the content of ``wheel``: every file that git tracks in ``package_folder`` belongs in."""
    found = []
    with zipfile.ZipFile(wheel) as archive:
        sizes = {info.filename: info.compress_size for info in archive.infolist()}
        names = set(sizes)
    listed = subprocess.run(["git", "ls-files", "-z", "."], cwd=package_folder, capture_output=True, check=True).stdout
    wanted = {f"{package_folder.name}/{name}" for name in listed.decode().split("\0") if name}
    found += [f"{name} is missing" for name in sorted(wanted - names)]
    info = {name.split("/", 1)[1] for name in names if ".dist-info/" in name}
    strange = {name for name in names if ".dist-info/" not in name and not name.startswith(package_folder.name + "/")}
    found += [f"{name} does not belong there" for name in sorted(strange)]
    if f"{package_folder.name}/py.typed" not in names:
        found.append("py.typed is missing: its types would not count")
    if entry_points and "entry_points.txt" not in info:
        found.append("it has no entry point: mpsprobe would not find it")
    if "licenses/LICENSE" not in info:
        found.append("it has no licence")
    tables = sum(size for name, size in sizes.items() if name.endswith(".table"))
    if tables > MOST_TABLE_BYTES:
        found.append(f"its kernel tables take {tables} bytes, more than {MOST_TABLE_BYTES}")
    return found


def main(folder: Path) -> int:
    """Check every wheel in ``folder``; 1 when one is wrong or missing, or has no sdist."""
    failed = False
    for project in [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]:
        name = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
        package = project / "mpsprobe" if project == ROOT else project / "src" / name.replace("-", "_")
        stem = name.replace("-", "_")
        wheels, sdists = list(folder.glob(f"{stem}-[0-9]*.whl")), list(folder.glob(f"{stem}-[0-9]*.tar.gz"))
        if len(wheels) == len(sdists) == 1:
            wrong = problems(wheels[0], package, project != ROOT)
        else:
            wrong = [f"there are {len(wheels)} wheels and {len(sdists)} sdists"]
        sys.stdout.write(f"{name}: {'; '.join(wrong) or 'as it should be'}\n")
        failed = failed or bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
