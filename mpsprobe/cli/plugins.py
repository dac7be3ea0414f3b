"""``mpsprobe plugins list | show``: they work also when every plugin is broken. Plugins add more."""

from __future__ import annotations

from typing import Any

import click

from mpsprobe.cli.listing import aligned, format_option, terminal_width
from mpsprobe.commands import OpenGroup
from mpsprobe.errors import UnknownName
from mpsprobe.plugins.loading import Plugin
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe.streams import write_json, write_stdout
from mpsprobe.suggestions import printable


@click.group(cls=OpenGroup, more="mpsprobe-devkit", default="list")
def plugins() -> None:
    """Which plugins are installed, what they contribute, and what is wrong with them."""


def _plain(registry: Registry, plugin: Plugin) -> dict[str, Any]:
    contributes = registry.contributions(plugin)  # asks the hooks, which may turn ``ok`` into ``failed``
    of_discovery = ("name", "distribution", "version", "target", "file", "requires")
    return {
        **{key: getattr(plugin.found, key) for key in of_discovery},
        **{key: getattr(plugin, key) for key in ("status", "reason", "problems", "hooks")},
        "contributes": contributes,
    }


@plugins.command("list", params=[format_option()])
def list_command(format_name: str) -> None:
    """Every installed plugin with its status: ok, failed, blocked or incompatible."""
    registry = get_registry()
    found = [_plain(registry, plugin) for plugin in registry.plugins()]
    if format_name == "json":
        write_json(found)
        return
    rows = [("NAME", "DISTRIBUTION", "VERSION", "STATUS", "CONTRIBUTES")]
    for one in found:
        numbers = ((kind, len(names)) for kind, names in one["contributes"].items())
        counted = ", ".join(f"{number} {kind}" + "s" * (number > 1) for kind, number in numbers)
        about = one["reason"] or "; ".join([counted or "nothing", *one["problems"]])
        rows.append((one["name"], one["distribution"], one["version"], one["status"], about))
    write_stdout(aligned([tuple(map(printable, row)) for row in rows], width=terminal_width()))


@plugins.command("show", params=[click.Argument(["name"]), format_option()])
def show_command(name: str, format_name: str) -> None:
    """All that is known of the plugin NAME (its own name, or its distribution's)."""
    registry = get_registry()
    matching = [one for one in registry.plugins() if name in (one.found.name, one.found.distribution)]
    if not matching:
        known = {known for one in registry.plugins() for known in (one.found.name, one.found.distribution)}
        raise UnknownName("plugin", name, known, "Installed ones are listed by 'mpsprobe plugins list'.")
    for plugin in registry.plugins():
        registry.contributions(plugin)  # all of them: which names are taken shows when everybody was asked
    found = [_plain(registry, plugin) for plugin in matching]
    if format_name == "json":
        write_json(found)
        return
    write_stdout("\n\n".join(_described(one) for one in found))


def _described(one: dict[str, Any]) -> str:
    keys = ("name", "distribution", "version", "target", "file", "status")
    rows = [(key, one[key]) for key in keys if one[key]]
    if one["requires"]:
        rows.append(("requires", " and ".join(f"mpsprobe {specifier}" for specifier in one["requires"])))
    reasons = dict.fromkeys([*([one["reason"]] if one["reason"] else []), *one["problems"]])
    rows += [("reason" if one["status"] != "ok" else "problem", reason) for reason in reasons]
    rows.append(("hooks", ", ".join(one["hooks"]) or "none"))
    rows += [(f"{kind}s", ", ".join(names)) for kind, names in one["contributes"].items()]
    return aligned([(key, printable(value)) for key, value in rows], width=terminal_width())
