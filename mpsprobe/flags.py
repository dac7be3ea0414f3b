"""Flags by another way: ``MPSPROBE_*`` variables and tables of pyproject.toml, named as the flag is.

click would name both after the function's parameter (``format_name`` for ``--format``), which users never see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from mpsprobe.errors import UsageError
from mpsprobe.suggestions import nearest, printable

PREFIX = "MPSPROBE"


def flag_name(option: click.Option) -> str:
    """``batch_size`` for ``--batch-size``; an option with a short flag only is called as its parameter."""
    long = [flag for flag in option.opts if flag.startswith("--")]
    return long[0].removeprefix("--").replace("-", "_") if long else str(option.name)


def name_variables(command: click.Command, prefix: str) -> None:
    """Let each flag of ``command`` be given as ``PREFIX_FLAG``, and those of its subcommands likewise.

    A flag that names its variable itself, or refuses one (``allow_from_autoenv=False``), is left alone.
    """
    for option in command.params:
        if isinstance(option, click.Option) and option.envvar is None and option.allow_from_autoenv:
            option.envvar = f"{prefix}_{flag_name(option)}".upper()
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            name_variables(inner, f"{prefix}_{name.replace('-', '_')}")


def apply_settings(command: click.Command, name: str, settings: Mapping[str, Any] | None, above: str = "") -> None:
    """Rename the keys of the table ``name`` of ``settings`` from flags to the parameters that click knows, in place.

    ``above``: what messages write before the table's name (``kernels.``).
    """
    table = (settings or {}).get(name)
    if not isinstance(table, dict):
        return
    where = f"{above}{name}"
    flags = {flag_name(option): option for option in command.params if isinstance(option, click.Option)}
    inner = command.commands if isinstance(command, click.Group) else {}
    for key, value in list(table.items()):
        if isinstance(value, dict):
            if key in getattr(command, "later", ()):  # imported, and looked at, when it is called
                continue
            if key not in inner:
                raise unknown_setting(f"{where}.{key}", key, inner)
            apply_settings(inner[key], key, table, f"{where}.")
            continue
        option = flags.get(key)
        if option is None:
            raise unknown_setting(f"{where}.{key}", key, flags)
        if isinstance(value, list) and not (option.multiple or option.nargs != 1):
            raise UsageError(f"pyproject.toml: tool.mpsprobe.{printable(where)}.{key} takes one value, not a list")
        del table[key]
        table[str(option.name)] = [value] if option.multiple and not isinstance(value, list) else value


def unknown_setting(where: str, key: str, known: Iterable[str]) -> UsageError:
    """The error for a key that is not a flag, with the nearest one."""
    near = nearest(key, known, count=1)
    hint = f"Did you mean '{near[0].replace('_', '-')}'?" if near else None
    shown = printable(where.replace("_", "-"))
    return UsageError(f"pyproject.toml: unknown setting tool.mpsprobe.{shown}", hint)
