"""Commands with many options, and groups that plugins add to. Public: what a plugin declares can be one too."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

import click

from mpsprobe.declarations import CommandDeclaration
from mpsprobe.errors import EVERYTHING, MpsprobeError, UnknownName
from mpsprobe.flags import PREFIX, apply_settings, name_variables
from mpsprobe.options import Flag
from mpsprobe.plugins.discovery import CORE
from mpsprobe.plugins.loading import describe, refuse
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe.suggestions import printable, remedy

_KEPT = "A model's file must leave in sys.modules what is there."
_NAMES = 28
"""Columns of the names of options in a help; a longer one has a line for itself."""

_WHOLE = "mpsprobe.whole-help"  # in the meta of a context


def whole_help(ctx: click.Context) -> str:
    """What ``--help-all`` prints; of a command without it what ``--help`` does."""
    ctx.meta[_WHOLE] = True
    return ctx.get_help()


def _show_all(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(whole_help(ctx), color=ctx.color)
        ctx.exit()


class Command(click.Command):
    """A command with many options: ``--help`` shows those that are needed often, and ``--help-all`` every one.

    Where an option stands it says itself, as a ``mpsprobe.options.Flag``. A form feed in the command's text ends what
    ``--help`` shows of it.
    """

    _help_all = click.Option(
        ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all, help="Show every option."
    )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """All of them, with ``--help-all``."""
        return [*super().get_params(ctx), self._help_all]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does."""
        text = cleandoc(self.help or "")
        with formatter.indentation():
            formatter.write_paragraph()
            formatter.write_text(text.replace("\f\n", "") if _WHOLE in ctx.meta else text.partition("\f")[0])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section; the sections in the order of their first option."""
        sections: dict[str, list[tuple[str, str]]] = {}
        left = 0
        for option in (parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)):
            section = sections.setdefault(getattr(option, "section", "More"), [])
            if _WHOLE in ctx.meta:
                section += filter(None, [option.get_help_record(ctx)])
            elif isinstance(option, Flag) and option.often:
                section.append(option.brief(ctx))
            else:
                left += 1
        widest = max((len(name) for rows in sections.values() for name, _ in rows if len(name) <= _NAMES), default=0)
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(widest), text) for name, text in rows], widest + 2)
        if _WHOLE not in ctx.meta:
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} --help-all shows {left} more.")


class OpenGroup(click.Group):
    """A group whose commands are its own and those that plugins declare as ``GROUP COMMAND``.

    What plugins declare is listed from the declarations; its module is imported when it is called.

    Args:
        more: the distribution that brings more commands, for the error about an unknown one.
        default: the command that runs where none is named (``mpsprobe advisories --torch 2.13.0``).
    """

    def __init__(self, *arguments: Any, more: str = EVERYTHING, default: str | None = None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.more = more
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command before flags that are not the group's own."""
        if self.default is not None and (not args or args[0].startswith("-")):
            args = args if args[:1] and args[0] in ctx.help_option_names else [self.default, *args]
        return super().parse_args(ctx, args)

    def registry(self, ctx: click.Context) -> Registry:
        """The registry whose plugins are asked."""
        return get_registry()

    @property
    def prefix(self) -> str:
        """What the names of declared commands begin with: ``"kernels "`` for the group ``kernels``."""
        return f"{self.name} "

    def declared(self, registry: Registry) -> Mapping[str, CommandDeclaration]:
        """The commands that plugins add, by their last word; the group's own are not among them."""
        commands = {}
        for name, declaration in registry.declared("command").items():
            last = name.removeprefix(self.prefix)
            if name.startswith(self.prefix) and " " not in last and last not in self.commands:
                commands[last] = declaration
        return commands

    @property
    def later(self) -> frozenset[str]:
        """The commands whose settings are read when they are called."""
        return frozenset(self.declared(get_registry()))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, sorted."""
        return sorted({*self.commands, *self.declared(self.registry(ctx))})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name.

        Raises:
            UnknownName: there is none; carries the nearest names, or says what to install.
        """
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        registry = self.registry(ctx)
        name = self.prefix + cmd_name
        try:
            command: click.Command = registry.made("command", name)
        except UnknownName:
            known = [self.prefix + command for command in self.list_commands(ctx)]
            hint = registry.lacking(self.more) or f"mpsprobe {self.prefix}--help lists all."
            raise UnknownName("command", name, known, hint) from None
        name_variables(command, f"{PREFIX}_{name.replace(' ', '_').replace('-', '_')}")
        apply_settings(command, cmd_name, ctx.default_map, self.prefix.replace(" ", "."))
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an error in a plugin's own code names the plugin, one in a user's file its line."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, MpsprobeError):
            raise
        except Exception as error:
            if __name__ not in sys.modules:
                raise MpsprobeError(f"mpsprobe was taken out of sys.modules: {describe(error)}", _KEPT) from error
            from mpsprobe.userfile import of_user

            if (theirs := of_user(error)) is not None:
                raise theirs from error
            if isinstance(error, (OSError, EOFError)):
                raise
            if (known := remedy(error)) is not None:
                raise MpsprobeError(describe(error), known) from error
            name = self.prefix + (ctx.invoked_subcommand or "")
            owner = self.registry(ctx).owner("command", name)
            if owner is None or owner.found == CORE:
                raise
            refuse(f"the command '{printable(name)}'", owner, f"failed: {describe(error)}", error)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with its line; what plugins declare is not imported for it."""
        shown = {name: command.get_short_help_str(100) for name, command in self.commands.items()}
        shown |= {name: declaration.summary for name, declaration in self.declared(self.registry(ctx)).items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(shown.items()))
