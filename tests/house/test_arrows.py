"""Import arrows: who may know whom. A new module says here what it may import."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

import mpsprobe
from mpsprobe_devkit.checking.public import is_public
from tests.house.tree import PLUGINS, ROOT, imported, parsed, python_files, shown

# Module (or package) of mpsprobe -> the others that it may import. Itself is always allowed.
MAY_IMPORT = {
    "": {"cli", "errors", "hookspecs", "version"},
    "version": set(),
    "errors": {"suggestions"},
    "suggestions": set(),
    "schemas": {"declarations", "errors", "suggestions"},
    "declarations": {"errors"},
    "folding": set(),
    "assembling": {"declarations", "folding", "schemas"},
    "protocols": {"schemas"},
    "hookspecs": {"declarations", "protocols"},
    "streams": {"errors"},
    "output": {"errors", "streams", "suggestions"},
    "progress": set(),
    "settings": {"errors", "suggestions"},
    "userfile": {"declarations", "errors", "protocols", "suggestions"},
    "environment": {"version", "errors", "plugins", "schemas"},
    "options": {"errors", "flags", "protocols", "suggestions"},
    "presets": {"errors", "suggestions"},
    "views": set(),
    "doubts": {"schemas"},
    "stepping": {"errors", "protocols", "schemas"},
    "engine": {"environment", "errors", "protocols", "schemas", "suggestions"},
    "importing": {"engine", "errors", "schemas", "suggestions"},
    "plugins": {"version", "declarations", "errors", "hookspecs", "protocols", "schemas", "suggestions"},
    "flags": {"errors", "suggestions"},
    "commands": {"declarations", "errors", "flags", "plugins", "suggestions"},
    "exporting": {"errors", "output", "plugins", "schemas", "suggestions"},
    "cli": {
        "commands", "declarations", "engine", "environment", "errors", "exporting", "flags", "importing", "options",
        "hookspecs", "output", "plugins", "presets", "progress", "protocols", "schemas", "settings", "streams",
        "suggestions", "userfile", "version",
    },
}  # fmt: skip

# The author kit checks what finds, loads and asks plugins, and is released together with it.
KIT = "mpsprobe-devkit"


def _part(module: str) -> str:
    """``mpsprobe.cli.main`` is in the part ``cli``; ``mpsprobe`` itself is the part ``""``."""
    return module.split(".")[1] if "." in module else ""


def test_arrows_of_the_core() -> None:
    wrong = set()
    for path in python_files(ROOT / "mpsprobe"):
        part = path.relative_to(ROOT / "mpsprobe").parts[0].removesuffix(".py")
        part = "" if part == "__init__" else part
        assert part in MAY_IMPORT, f"say in MAY_IMPORT what '{part}' may import"
        allowed = {part, *MAY_IMPORT[part]}
        wrong |= {f"{shown(path)}: {one}" for one in imported(path, "mpsprobe") if _part(one) not in allowed}
    assert not wrong


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


def test_there_is_no_circle() -> None:
    done: set[str] = set()
    while rest := set(MAY_IMPORT) - done:
        free = {part for part in rest if MAY_IMPORT[part] <= done}
        assert free, f"a circle among {sorted(rest)}"
        done |= free


@pytest.mark.parametrize("plugin", [one for one in PLUGINS if one.name != KIT], ids=lambda plugin: plugin.name)
def test_plugins_import_public_names_only(plugin: Path) -> None:
    wrong = {
        f"{shown(path)}: {module}"
        for path in python_files(plugin)
        for module in imported(path, "mpsprobe")
        if not is_public(module)
    }
    assert not wrong


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_a_plugin_imports_another_only_if_it_depends_on_it(plugin: Path) -> None:
    project = tomllib.loads((plugin / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for other in PLUGINS:
        package = other.name.replace("-", "_")
        if other == plugin or any(one.startswith(other.name) for one in project["dependencies"]):
            continue
        users = [shown(path) for path in python_files(plugin / "src") if any(imported(path, package))]
        assert not users, f"they import {package}"
