"""The group ``mpsprobe``: commands are found by their declarations and imported when they run; what click refuses."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import click

from mpsprobe.commands import OpenGroup
from mpsprobe.errors import EVERYTHING, MpsprobeError, UnknownName, UsageError
from mpsprobe.flags import unknown_setting
from mpsprobe.options import QUIET_OPTION
from mpsprobe.plugins.plugin_files import FOLDERS_VARIABLE
from mpsprobe.plugins.registry import Registry, blocked_by_environment, get_registry, use_registry
from mpsprobe.suggestions import nearest, printable
from mpsprobe.version import __version__

REGISTRY = "mpsprobe.registry"  # in the meta of a context
F = TypeVar("F", bound=Callable[..., Any])
DEBUG = ContextVar("debug", default=False)  # whether ``--debug`` was given to the command line that runs


class CommandGroup(OpenGroup):
    @property
    def prefix(self) -> str:
        return ""

    def registry(self, ctx: click.Context) -> Registry:
        """The one with the command line's switches; made at the first question, after they were read."""
        if REGISTRY not in ctx.meta:
            given = ctx.find_root().params.get
            named = {switch.removeprefix("no:") for switch in given("plugin_switches") or ()}
            blocked = blocked_by_environment() | named | _blocked_by_settings(ctx.find_root())
            strict = bool(given("strict_plugins"))
            ctx.meta[REGISTRY] = Registry(folders=given("plugins_dir") or (), blocked=blocked, strict=strict)
            use_registry(ctx.meta[REGISTRY])
        return get_registry()


def _blocked_by_settings(root: click.Context) -> set[str]:
    """``disable-plugins`` of pyproject.toml; refuses other keys of the top table that are no flags of the group."""
    settings = root.default_map or {}
    known = {"disable_plugins"} | {str(parameter.name) for parameter in root.command.params} - {"plugins_dir"}
    for key, value in settings.items():
        if key not in known and not isinstance(value, dict):  # a table may be of a plugin that is not installed
            raise unknown_setting(key, key, known - {"version", "plugin_switches"})
    names = settings.get("disable_plugins", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError("pyproject.toml: tool.mpsprobe.disable-plugins should be a list of names")
    return set(names)


def _checked(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not value.startswith("no:") or value == "no:":
            raise click.BadParameter(f"'{printable(value)}' is not of the form no:NAME", param_hint="-p")
    return values


def _switch(*names: str, **more: Any) -> Callable[[F], F]:
    """A flag of the group itself, read before the command is looked for."""
    return click.option(*names, is_eager=True, **more)


@click.command(
    cls=CommandGroup, more=EVERYTHING, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True
)
@click.version_option(__version__, "-V", "--version", prog_name="mpsprobe")
@_switch(
    "-p",
    "plugin_switches",
    metavar="no:NAME",
    multiple=True,
    callback=_checked,
    help="Do not load the plugin NAME (of 'plugins list'); may be repeated.",
)
@_switch(
    "--strict-plugins",
    is_flag=True,
    envvar="MPSPROBE_STRICT_PLUGINS",
    help="A plugin that fails ends the command instead of being left out.",
)
@_switch(
    "--plugins-dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    multiple=True,
    envvar=FOLDERS_VARIABLE,
    help="Each .py file of DIR is a plugin too; may be repeated.",
)
@_switch(
    "--debug",
    is_flag=True,
    envvar="MPSPROBE_DEBUG",
    callback=lambda _, __, value: DEBUG.set(value),
    help="Show the traceback of an error.",
)
@QUIET_OPTION
def main_group(**_switches: Any) -> None:
    """How a PyTorch model will do on Apple silicon, before you own the Mac.

    Flags can also be given as variables (MPSPROBE_COVERAGE_DTYPE for coverage --dtype) and in
    [tool.mpsprobe] of the nearest pyproject.toml, in this order of precedence.
    """


def in_words(error: click.ClickException) -> MpsprobeError:
    """``error`` with the nearest option, what the option takes, or how the command is written."""
    context: click.Context | None = getattr(error, "ctx", None)
    if context is None:  # of an option whose value is not there, or that takes none
        return UsageError(_sentence(error.format_message()), "--help after the command says how it is called.")
    if isinstance(error, click.NoSuchOption):
        if error.option_name in (name for option in main_group.params for name in option.opts):
            hint = f"It stands before the command: mpsprobe {error.option_name} …"
            return UsageError(f"'{context.command_path}' has no option '{error.option_name}'", hint)
        options = [
            parameter for parameter in context.command.get_params(context) if isinstance(parameter, click.Option)
        ]
        known = [name for option in options for name in (*option.opts, *option.secondary_opts)]
        listing = max((name for name in known if name.startswith("--help")), key=len)
        bare = {name.lstrip("-"): name for name in known}  # dashes are near to dashes
        near = [bare[name] for name in nearest(error.option_name.lstrip("-"), bare)]
        return UnknownName("option", error.option_name, near, f"{context.command_path} {listing} shows them all.")
    option = getattr(error, "param", None)
    if not isinstance(option, click.Option):
        return UsageError(_sentence(error.format_message()), " ".join(context.get_usage().split()))
    missing = isinstance(error, click.MissingParameter)
    problem = error.format_message() if missing else f"{option.opts[0]}: {_sentence(error.message)}"
    return UsageError(_sentence(problem), ": ".join(option.get_help_record(context) or option.opts))


def _sentence(text: str) -> str:
    """``text`` as our messages begin and end."""
    return (text[:1].lower() + text[1:]).removesuffix(".")
