"""``{command} NAME``: the help, the flags, their defaults, variables and settings of a command and those below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from _site.markdown import MarkdownDirective, block, code, table
from mpsprobe.cli.group import main_group
from mpsprobe.commands import Command, whole_help
from mpsprobe.errors import MpsprobeError
from mpsprobe.flags import flag_name

COLUMNS = 80
"""The terminal that the help is shown for."""


def context_of(path: tuple[str, ...]) -> click.Context:
    """The context of the command ``path``, with variables named as the command line names them.

    Raises:
        LookupError: there is no such command.
    """
    context = click.Context(main_group, info_name="mpsprobe", terminal_width=COLUMNS - 2, **main_group.context_settings)
    for name in path:
        group = context.command
        try:
            command = group.get_command(context, name) if isinstance(group, click.Group) else None
        except MpsprobeError as error:
            raise LookupError(f"mpsprobe {' '.join(path)}: {error.message}") from error
        if command is None:
            raise LookupError(f"there is no command mpsprobe {' '.join(path)}")
        settings = dict(command.context_settings)
        context = click.Context(command, parent=context, info_name=name, terminal_width=COLUMNS - 2, **settings)
    return context


def paths(path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """``path`` and every command below it, in the order of the help."""
    yield path
    command = context_of(path).command
    if isinstance(command, click.Group):
        for name in command.list_commands(context_of(path)):
            yield from paths((*path, name))


def options_of(path: tuple[str, ...]) -> list[click.Option]:
    """The flags of a command, without ``--help``."""
    return [one for one in context_of(path).command.params if isinstance(one, click.Option)]


def setting(path: tuple[str, ...], option: click.Option) -> str:
    """The key of pyproject.toml that gives ``option``; empty where the flag is for the command line alone."""
    if not variable(option) or (not option.expose_value and option.name != "strict_plugins"):
        return ""
    return flag_name(option).replace("_", "-")


def variable(option: click.Option) -> str:
    """The variable of the environment that gives ``option``."""
    names = option.envvar or ""
    return names if isinstance(names, str) else names[0]


def shown_default(option: click.Option, context: click.Context) -> str:
    """The default as a user would type it; empty for none and for switches."""
    value: Any = option.get_default(context)
    if value is None or isinstance(value, bool) or value == () or str(value).startswith("Sentinel"):
        return ""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


class Commands(MarkdownDirective):
    """One command and all below it, each in a section; without a name the flags of ``mpsprobe`` itself."""

    def markdown(self, argument: str) -> str:
        """A section for each command."""
        top = tuple(argument.split())
        found = [top] if not top else list(paths(top))
        return "\n\n".join(self._section(path, titled=path != top) for path in found)

    def _section(self, path: tuple[str, ...], titled: bool) -> str:
        context = context_of(path)
        name = " ".join(["mpsprobe", *path])
        parts = [f"## {name}"] if titled else []
        flag = "--help-all" if isinstance(context.command, Command) else "--help"
        parts.append(block("console", f"$ {name} {flag}\n{whole_help(context)}"))
        options = options_of(path)
        rows = [
            (
                " ".join(code(flag) for flag in sorted((*option.opts, *option.secondary_opts), key=len, reverse=True)),
                code(shown_default(option, context)),
                code(variable(option)),
                code(setting(path, option)),
            )
            for option in options
        ]
        key = f"key in `[{'.'.join(['tool.mpsprobe', *path])}]`"
        parts.append(table(("flag", "default", "variable", key), rows))
        return "\n\n".join(part for part in parts if part)


class CommandList(MarkdownDirective):
    """Every command with its line of help, linked to its page."""

    def markdown(self, argument: str) -> str:
        """A table."""
        rows = []
        for path in paths():
            if path:
                summary = context_of(path).command.get_short_help_str(200)
                anchor = "#" + "-".join(["mpsprobe", *path]) if len(path) > 1 else ""
                rows.append((f"[`{' '.join(path)}`](commands/{path[0]}.md{anchor})", summary))
        return table(("command", "what it does"), rows)


class Variables(MarkdownDirective):
    """Every variable that stands for a flag."""

    def markdown(self, argument: str) -> str:
        """A table."""
        rows = [
            (code(variable(option)), code(" ".join(["mpsprobe", *path, max(option.opts, key=len)])))
            for path in paths()
            for option in options_of(path)
            if variable(option)
        ]
        return table(("variable", "flag"), rows)
