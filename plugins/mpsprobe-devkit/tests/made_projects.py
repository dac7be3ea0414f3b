"""Makes projects of plugins that are sound, but for what a test wants to be wrong."""

from __future__ import annotations

import textwrap
from pathlib import Path

from mpsprobe_devkit.checking import Finding

HEAD = """
from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration, ExporterDeclaration, ProbeDeclaration, WorkloadDeclaration
"""
COMMAND = """
@hookimpl
def mpsprobe_commands():
    return [CommandDeclaration("hello-under-test", "under_test.command:hello", "Says hello.")]
"""
MODULES = {
    "__init__.py": "",
    "py.typed": "",
    "command.py": "import click\n\n\n@click.command()\ndef hello():\n    click.echo('hello')\n",
}
TOML = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "under-test"
version = "1.0"
description = "A plugin"
readme = "README.md"
requires-python = ">=3.11"
license = "MIT"
dependencies = ["mpsprobe>=0.1"]

[project.entry-points.mpsprobe]
mine = "under_test.plugin"
"""


def make_project(
    folder: Path,
    code: str = COMMAND,
    *,
    modules: dict[str, str | None] | None = None,
    toml: str = TOML,
    changes: dict[str, str] | None = None,
    source: str = "src",
) -> Path:
    """Write a project and return its folder.

    Args:
        code: of the thin module, after the usual imports.
        modules: files of the package ``under_test`` in addition to the usual ones; ``None`` leaves a usual one out.
        toml: of ``pyproject.toml``.
        changes: parts of ``toml`` and what takes their place.
        source: the folder in it that holds the package.
    """
    for old, new in (changes or {}).items():
        assert old in toml
        toml = toml.replace(old, new)
    project = folder / "project"
    package = project / source / "under_test"
    package.mkdir(parents=True)
    (project / "pyproject.toml").write_text(toml, encoding="utf-8")
    files: dict[str, str | None] = {**MODULES, "plugin.py": HEAD + textwrap.dedent(code), **(modules or {})}
    for name, text in files.items():
        if text is not None:
            (package / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return project


def codes(findings: list[Finding]) -> list[str]:
    """The codes of ``findings``, each once, sorted."""
    return sorted({one.code for one in findings})
