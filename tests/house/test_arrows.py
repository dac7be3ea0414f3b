"""Import arrows: who may know whom, and what decides. A new module says here what it may import."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import mpsprobe
from mpsprobe.plugins.discovery import CORE
from mpsprobe.plugins.registry import Registry
from mpsprobe.schemas import ProfilePlan
from mpsprobe_devkit.checking.public import is_public
from tests.house.tree import PLUGINS, ROOT, imported, parsed, project, python_files, shown

# Module (or package) of mpsprobe -> the others that it may import. Itself is always allowed.
MAY_IMPORT = {
    "": {"cli", "errors", "hookspecs", "version"},
    "version": set(),
    "errors": {"suggestions"},
    "suggestions": set(),
    "schemas": {"declarations", "errors", "suggestions"},
    "declarations": {"errors", "suggestions"},
    "folding": set(),
    "assembling": {"declarations", "doubts", "folding", "schemas"},
    "protocols": {"schemas"},
    "hookspecs": {"declarations", "protocols"},
    "streams": {"errors"},
    "output": {"errors", "streams", "suggestions"},
    "progress": {"streams"},
    "settings": {"errors", "suggestions"},
    "userfile": {"declarations", "errors", "protocols", "suggestions"},
    "environment": {"version", "errors", "plugins", "schemas"},
    "options": {"declarations", "errors", "flags", "plugins", "protocols", "streams", "suggestions"},
    "presets": {"errors", "suggestions"},
    "views": set(),
    "doubts": {"schemas"},
    "stepping": {"errors", "protocols", "schemas"},
    "engine": {"answers", "doubts", "environment", "errors", "protocols", "schemas", "suggestions"},
    "plugins": {"version", "declarations", "errors", "hookspecs", "protocols", "schemas", "suggestions"},
    "flags": {"errors", "suggestions"},
    "answers": {
        "environment", "errors", "options", "plugins", "protocols", "schemas", "settings", "streams", "suggestions",
        "views",
    },
    "commands": {"declarations", "errors", "flags", "options", "plugins", "suggestions", "userfile"},
    "exporting": {"errors", "output", "plugins", "schemas", "suggestions"},
    "cli": {
        "commands", "declarations", "engine", "environment", "errors", "exporting", "flags", "options",
        "hookspecs", "output", "plugins", "presets", "progress", "protocols", "schemas", "settings", "streams",
        "suggestions", "userfile", "version",
    },
}  # fmt: skip

# The rooms of mpsprobe-coverage, and what each may import: what judges a call knows no device that recorded it.
COVERAGE_MAY_IMPORT = {
    "knowledge": set(),
    "recording": {"knowledge"},
    "devices": {"knowledge", "recording"},
    "reporting": {"devices", "knowledge", "recording"},
    "scanning": {"devices", "knowledge", "recording", "reporting"},
    "programs": {"devices", "knowledge", "recording", "reporting", "scanning", "verifying"},
    "verifying": {"devices", "knowledge", "recording", "reporting"},
    "pool": set(),
    "rules": set(),
    "commands": {"devices", "knowledge", "pool", "programs", "recording", "reporting", "scanning", "verifying"},
    "callbacks": {"commands", "devices", "knowledge", "programs", "recording"},
}
# In two of them what lies deeper is ordered too.
KNOWLEDGE_MAY_IMPORT = {
    "kernels": set(),
    "calls": {"kernels"},
    "chips": set(),
    "advisories": {"calls", "chips", "kernels"},
    "judging": {"advisories", "calls", "kernels"},
    "memory": {"calls"},
    "times": {"calls", "chips"},
}
DEVICES_MAY_IMPORT = {
    "virtual": set(),
    "compiling": set(),
    "interpreter": set(),
    "metal": {"compiling"},
    "native": {"compiling", "interpreter", "metal", "virtual"},
    "observed": {"compiling", "interpreter"},
}

# What a plugin may import of another one, by room: those of the other's inside that are meant for it.
ACROSS: dict[str, dict[str, set[str]]] = {
    "mpsprobe_atlas": {
        "mpsprobe_coverage": {"commands", "knowledge", "pool", "rules", "scanning"},
        "mpsprobe_exporters": {"html"},
    },
    "mpsprobe_coverage": {
        "mpsprobe_exporters": {"advisories", "document", "plain_text", "reports", "terminal", "units"}
    },
    "mpsprobe_fix": {"mpsprobe_coverage": {"knowledge"}},
    "mpsprobe_hf": {"mpsprobe_coverage": {"knowledge"}},
    "mpsprobe_tables": {
        "mpsprobe_coverage": {"devices", "knowledge", "recording"},
        "mpsprobe_exporters": {"document", "markdown", "terminal"},
        "mpsprobe_tensorflow": {"tables"},
    },
    "mpsprobe_tensorflow": {"mpsprobe_devices": {"machine"}},
}

# The author kit checks what finds, loads and asks plugins, and is released together with it.
KIT = "mpsprobe-devkit"
PACKAGES = [ROOT / "mpsprobe", *(init.parent for plugin in PLUGINS for init in (plugin / "src").glob("*/__init__.py"))]


def _room(module: str, package: str) -> str:
    """``mpsprobe.cli.main`` is in the room ``cli`` of ``mpsprobe``, and ``mpsprobe`` itself is the room ``""``."""
    return module.removeprefix(package).lstrip(".").split(".")[0]


def _module(path: Path, package: Path) -> str:
    return ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")


def _breaks(package: Path, name: str, rooms: Mapping[str, Iterable[str]]) -> list[str]:
    return [
        f"{shown(path)}: {other}"
        for path in python_files(package)
        for room in [path.relative_to(package).with_suffix("").parts[0].removeprefix("__init__")]
        for other in imported(path, name)
        if room in rooms and _room(other, name) not in {room, *rooms[room]}
    ]


def test_arrows_of_the_core_and_of_coverage() -> None:
    core = ROOT / "mpsprobe"
    unknown = {_room(_module(path, core), core.name) for path in python_files(core)} ^ set(MAY_IMPORT)
    assert not unknown, f"say in MAY_IMPORT what they may import: {unknown}"
    [coverage] = [package for package in PACKAGES if package.name == "mpsprobe_coverage"]
    houses = [
        (core, "mpsprobe", MAY_IMPORT),
        (coverage, "mpsprobe_coverage", COVERAGE_MAY_IMPORT),
        (coverage / "knowledge", "mpsprobe_coverage.knowledge", KNOWLEDGE_MAY_IMPORT),
        (coverage / "devices", "mpsprobe_coverage.devices", DEVICES_MAY_IMPORT),
    ]
    rooms = {path.name for path in coverage.iterdir() if path.is_dir() and python_files(path)}
    assert rooms <= set(COVERAGE_MAY_IMPORT), "say in COVERAGE_MAY_IMPORT what they may import"
    assert not [arrow for house in houses for arrow in _breaks(*house)]


def test_the_core_names_plugins_for_their_functions_alone() -> None:
    """``mpsprobe/__init__.py`` says where ``mpsprobe.coverage`` and its like are, for type checkers and for itself."""
    package = parsed(ROOT / "mpsprobe" / "__init__.py")
    typed = {
        alias.name: node.module
        for block in package.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == mpsprobe._HOMES and sorted(typed) == mpsprobe.__all__
    others = [path for path in python_files(ROOT / "mpsprobe") if path.parent.name != "mpsprobe" or path.stem[0] != "_"]
    names = [plugin.name.replace("-", "_") for plugin in PLUGINS]
    assert not [shown(path) for path in others for name in names if any(imported(path, name))]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_there_is_no_circle_of_modules_or_rooms(package: Path) -> None:
    """Room: a folder or file directly in the package. An import anywhere in a file counts."""
    modules = {_module(path, package): set(imported(path, package.name)) for path in python_files(package)}
    assert not _circle(modules)
    rooms: dict[str, set[str]] = {}
    for module, others in modules.items():
        if module != package.name:  # what the package itself names may lie anywhere in it
            inside = {_room(other, package.name) for other in others if other != package.name}
            rooms.setdefault(_room(module, package.name), set()).update(inside)
    assert not _circle(rooms)


def _circle(arrows: Mapping[str, Iterable[str]]) -> list[str]:
    """One circle, each module with what it imports; empty where there is none."""
    try:
        TopologicalSorter({name: set(others) - {name} for name, others in arrows.items()}).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_plugins_import_public_names_and_what_they_depend_on(plugin: Path) -> None:
    files = python_files(plugin)
    names = [(path, name) for path in files if plugin.name != KIT for name in imported(path, "mpsprobe")]
    assert not [f"{shown(path)}: {name}" for path, name in names if not is_public(name)]
    wanted = project(plugin)["dependencies"]
    strangers = [one for one in PLUGINS if one != plugin and not any(want.startswith(one.name) for want in wanted)]
    packages = [one.name.replace("-", "_") for one in strangers]
    sources = [path for path in files if path.is_relative_to(plugin / "src")]
    assert not [f"{shown(path)}: {name}" for path in sources for name in packages if any(imported(path, name))]


def test_plugins_know_of_each_other_what_is_listed() -> None:
    arrows: dict[str, dict[str, set[str]]] = {}
    for package in PACKAGES[1:]:
        for other in PACKAGES[1:]:
            names = {name for path in python_files(package) for name in imported(path, other.name)}
            if other != package and names:
                arrows.setdefault(package.name, {})[other.name] = {_room(name, other.name) for name in names}
    assert arrows == ACROSS


CORE_FILES = python_files(ROOT / "mpsprobe")
MEASURES = [path for path in CORE_FILES if path.parent.name in ("cli", "engine")]
COMPARES = ROOT / "mpsprobe" / "engine" / "conditions.py"  # two reports and nothing else are its input


def test_a_reports_plan_is_written_at_one_place_and_steers_no_measurement() -> None:
    """Nothing there reads a field of some object's ``plan``: ``report.plan.compile``."""
    nodes = [(path, node) for path in MEASURES for node in ast.walk(parsed(path))]
    reads = [(path, ast.unparse(node.value)) for path, node in nodes if isinstance(node, ast.Attribute)]
    assert not [f"{shown(path)}: {read}" for path, read in reads if path != COMPARES and read.endswith(".plan")]
    calls = [(path, ast.unparse(node.func)) for path, node in nodes if isinstance(node, ast.Call)]
    assert len([path for path, function in calls if function == ProfilePlan.__name__]) == 1


def test_the_core_has_no_table_of_plugins_commands() -> None:
    """Some are words of reports too: ``coverage`` is a kind, ``cache`` a source, ``atlas`` a distribution."""
    registry = Registry(strict=True)
    owners = {name: registry.owner("command", name) for name in registry.declared("command")}
    # Words of reports too, the last part of a distribution, and a function of ``mpsprobe``.
    kinds = {"advisories", "atlas", "cache", "coverage", "checkpoint", "fit", "fix", "upgrade", "verify"}
    theirs = {name for name, owner in owners.items() if owner is not None and owner.found != CORE} - kinds
    assert {"kernels", "plugins check"} <= theirs
    named = [
        f"{shown(path)}:{node.lineno}: {node.value}"
        for path in CORE_FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in theirs
    ]
    assert not named
