"""``mpsprobe plugins new NAME``: a whole package for a plugin, ready to be changed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click

from mpsprobe.errors import OutputError, UsageError
from mpsprobe.options import Named
from mpsprobe.output import check_folder, write_folder, write_stdout
from mpsprobe.plugins.registry import get_registry
from mpsprobe.suggestions import printable
from mpsprobe_devkit.scaffold.names import PREFIX, another, author_from_git, license_expression, names_of
from mpsprobe_devkit.scaffold.rendering import KINDS, Kind


@click.command()
@click.argument("name")
@click.option(
    "--kind",
    "kind_names",
    type=Named("kind", tuple(KINDS)),
    multiple=True,
    help="What the plugin brings; may be repeated. Asked for on a terminal.",
)
@click.option("--license", "license_name", metavar="SPDX", help="For example MIT. Yours to choose before a release.")
@click.option("--into", metavar="DIR", default=".", show_default=True, help="The folder in which NAME is made.")
def new(name: str, kind_names: tuple[str, ...], license_name: str | None, into: str) -> None:
    """Write a whole package for a plugin into the new folder NAME.

    NAME is what pip will call it: my-thing, or mpsprobe-my-thing. What is written works as it is, with a test, a
    README and a workflow for CI, and is meant to be changed.

    \b
    mpsprobe plugins new my-format --kind exporter
    mpsprobe plugins check my-format --tests
    """
    from mpsprobe_devkit.scaffold.rendering import render

    names = names_of(name)
    target = Path(into, names.distribution)
    check_folder(into)
    if os.path.lexists(target):  # also a link that leads nowhere
        shown = printable(str(target))
        raise OutputError(f"'{shown}' is there already", "Choose another name, another --into DIR, or remove it first.")
    kinds = [KINDS[kind] for kind in dict.fromkeys(kind_names)] or [_asked()]
    _check_free(names.short, kinds)
    files = render(names, kinds, author_from_git(), license_expression(license_name) if license_name else "")
    content = ((f"{names.distribution}/{path}", [text.encode()]) for path, text in files.items())
    written = write_folder(into, content)
    write_stdout(_told(Path(into, written.name), list(files), names.short, kinds))


def _asked() -> Kind:
    """The kind, asked on a terminal. Raises UsageError: there is no terminal to ask on."""
    listed = "\n".join(f"  {kind.name:10}{kind.summary}" for kind in KINDS.values())
    if not _on_terminal():
        raise UsageError("which kind of plugin?", f"Say --kind KIND, one of:\n{listed}")
    click.echo(f"What should the plugin bring?\n{listed}", err=True)
    answer: str = click.prompt("Kind", type=click.Choice(list(KINDS)), show_choices=False, err=True)
    return KINDS[answer]


def _on_terminal() -> bool:
    """Whether someone can read the question and answer it."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _check_free(short: str, kinds: list[Kind]) -> None:
    """No installed plugin is called so or declares such a name: what two declare belongs to neither."""
    registry = get_registry()
    owners = [(plugin, "plugin") for plugin in registry.plugins() if plugin.found.name == short]
    owners += [(owner, kind.name) for kind in kinds if (owner := registry.owner(kind.name, short)) is not None]
    for plugin, kind_name in owners:
        taken = f"the {kind_name} name '{short}' is taken by {printable(plugin.owner)}"
        raise UsageError(taken, another(PREFIX + short))


def _told(folder: Path, paths: list[str], short: str, kinds: list[Kind]) -> str:
    shown = str(folder)
    quoted = subprocess.list2cmdline if sys.platform == "win32" else shlex.join  # as the user's shell takes it
    lines = [f"wrote {shown}{os.sep} ({' and '.join(kind.name for kind in kinds)}):", *(f"  {path}" for path in paths)]
    lines += ["", "Now check it, and run its tests:", f"  {quoted(['mpsprobe', 'plugins', 'check', shown, '--tests'])}"]
    lines += ["", "Install it, and use it:", f"  {quoted(['python', '-m', 'pip', 'install', '-e', shown + '[test]'])}"]
    lines += [f"  {kind.use.format(short=short)}" for kind in kinds]
    return "\n".join([*lines, "", "README.md says what is left to do before a release."])
