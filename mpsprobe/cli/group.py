"""The group ``mpsprobe``: commands are found by their declarations and imported when they run."""

from __future__ import annotations

import click

from mpsprobe import __version__
from mpsprobe.commands import OpenGroup
from mpsprobe.errors import EVERYTHING, UsageError
from mpsprobe.flags import unknown_setting
from mpsprobe.plugins.collection import blocked_by_environment
from mpsprobe.plugins.plugin_files import FOLDERS_VARIABLE
from mpsprobe.plugins.registry import Registry, get_registry, use_registry
from mpsprobe.suggestions import printable

BLOCKED, STRICT, FOLDERS, REGISTRY = (f"mpsprobe.{name}" for name in ("blocked", "strict", "folders", "registry"))

_debug = False


def debug_wanted() -> bool:
    """Whether ``--debug`` was given to the command line that runs."""
    return _debug


def want_debug(value: bool) -> None:
    """Say what ``debug_wanted`` answers from now on."""
    global _debug
    _debug = value


def registry_of(context: click.Context) -> Registry:
    """The registry with the command line's switches; made at the first question, after they were read."""
    meta = context.meta
    if REGISTRY not in meta:
        blocked = blocked_by_environment() | meta.get(BLOCKED, set()) | _blocked_by_settings(context.find_root())
        meta[REGISTRY] = Registry(folders=meta.get(FOLDERS, ()), blocked=blocked, strict=meta.get(STRICT, False))
        use_registry(meta[REGISTRY])
    return get_registry()


class CommandGroup(OpenGroup):
    """The group ``mpsprobe`` itself: all its commands are declared."""

    @property
    def prefix(self) -> str:
        return ""

    def registry(self, ctx: click.Context) -> Registry:
        return registry_of(ctx)


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


def _remember_blocked(ctx: click.Context, _: click.Parameter, values: tuple[str, ...]) -> None:
    for value in values:
        prefix, _colon, name = value.partition(":")
        if prefix != "no" or not name:
            raise click.BadParameter(f"'{printable(value)}' is not of the form no:NAME", param_hint="-p")
        ctx.meta.setdefault(BLOCKED, set()).add(name)


def _remember_strict(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[STRICT] = value


def _remember_folders(ctx: click.Context, _: click.Parameter, values: tuple[str, ...]) -> None:
    ctx.meta[FOLDERS] = values


def _remember_debug(_: click.Context, __: click.Parameter, value: bool) -> None:
    want_debug(value)


@click.command(
    cls=CommandGroup,
    more=EVERYTHING,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
)
@click.version_option(__version__, "-V", "--version", prog_name="mpsprobe")
@click.option(
    "-p",
    "plugin_switches",
    metavar="no:NAME",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=_remember_blocked,
    help="Do not load the plugin NAME (of 'plugins list'); may be repeated.",
)
@click.option(
    "--strict-plugins",
    is_flag=True,
    envvar="MPSPROBE_STRICT_PLUGINS",
    is_eager=True,
    expose_value=False,
    callback=_remember_strict,
    help="A plugin that fails ends the command instead of being left out.",
)
@click.option(
    "--plugins-dir",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    multiple=True,
    envvar=FOLDERS_VARIABLE,
    is_eager=True,
    expose_value=False,
    callback=_remember_folders,
    help="Each .py file of DIR is a plugin too; may be repeated.",
)
@click.option(
    "--debug",
    is_flag=True,
    envvar="MPSPROBE_DEBUG",
    is_eager=True,
    expose_value=False,
    callback=_remember_debug,
    help="Show the traceback of an error.",
)
def main_group() -> None:
    """What a PyTorch model meets on Apple silicon, told before you own the Mac.

    Flags can also be given as variables (MPSPROBE_COVERAGE_DTYPE for coverage --dtype) and in
    [tool.mpsprobe] of the nearest pyproject.toml, in this order of precedence.
    """
