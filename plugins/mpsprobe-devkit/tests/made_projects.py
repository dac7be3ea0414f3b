"""Makes projects of plugins that are sound, but for what a test wants to be wrong."""

from __future__ import annotations

import textwrap
from pathlib import Path

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
    "command.py": "import click\n\n\n@click.command()\ndef hello():\n    click.echo('hello')\n",
}
TOML = """
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
    modules: dict[str, str] | None = None,
    toml: str = TOML,
    changes: tuple[str, str] = ("", ""),
    source: str = "src",
) -> Path:
    """Write a project and return its folder.

    Args:
        code: of the thin module, after the usual imports.
        modules: files of the package ``under_test`` in addition to the usual ones.
        toml: of ``pyproject.toml``.
        changes: a part of ``toml`` and what takes its place.
        source: the folder in it that holds the package.
    """
    package = folder / "project" / source / "under_test"
    package.mkdir(parents=True)
    (folder / "project" / "pyproject.toml").write_text(toml.replace(*changes) if changes[0] else toml, encoding="utf-8")
    for name, text in {**MODULES, "plugin.py": HEAD + textwrap.dedent(code), **(modules or {})}.items():
        (package / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return folder / "project"
