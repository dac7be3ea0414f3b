"""No circle of imports, in the core and in each plugin: what imports what can then be read from the bottom up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.house.tree import PLUGINS, ROOT, imported, python_files

PACKAGES = [ROOT / "mpsprobe", *(init.parent for plugin in PLUGINS for init in (plugin / "src").glob("*/__init__.py"))]
each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)


@each_package
def test_modules_do_not_import_each_other(package: Path) -> None:
    """An import in a function, for types only or by ``import_module`` counts like one at the top of a file."""
    assert not _circle(_imports(package))


@each_package
def test_rooms_do_not_import_each_other(package: Path) -> None:
    """Room: a folder or file directly in the package."""
    rooms: dict[str, set[str]] = {}
    for module, others in _imports(package).items():
        if module != package.name:  # what the package itself names may lie anywhere in it
            rooms.setdefault(_room(module), set()).update(_room(other) for other in others if other != package.name)
    assert not _circle(rooms)


def _imports(package: Path) -> dict[str, set[str]]:
    return {_module(path, package): set(imported(path, package.name)) for path in python_files(package)}


def _module(path: Path, package: Path) -> str:
    return ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")


def _room(module: str) -> str:
    return module.split(".")[1]


def _circle(arrows: Mapping[str, Iterable[str]]) -> list[str]:
    """One circle, each module with what it imports; empty where there is none."""
    try:
        TopologicalSorter({name: set(others) - {name} for name, others in arrows.items()}).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []
