"""``mpsprobe plugins list | show``: they work also when every plugin is broken. Plugins add more."""

from __future__ import annotations

from typing import Any

import click

from mpsprobe.cli.listing import aligned, terminal_width
from mpsprobe.commands import OpenGroup
from mpsprobe.errors import UnknownName
from mpsprobe.options import FORMAT_OPTION, completing
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


@plugins.command("list")
@FORMAT_OPTION
def list_command(format_name: str) -> None:
    """Every installed plugin with its status: ok, failed, blocked or incompatible."""
    registry = get_registry()
    facts = [_plain(registry, plugin) for plugin in registry.plugins()]
    if format_name == "json":
        write_json(facts)
        return
    rows = [("NAME", "DISTRIBUTION", "VERSION", "STATUS", "CONTRIBUTES")]
    for plugin in facts:
        numbers = ((kind, len(names)) for kind, names in plugin["contributes"].items())
        counted = ", ".join(f"{number} {kind}" + "s" * (number > 1) for kind, number in numbers)
        about = plugin["reason"] or "; ".join([counted or "nothing", *plugin["problems"]])
        rows.append((plugin["name"], plugin["distribution"], plugin["version"], plugin["status"], about))
    write_stdout(aligned([tuple(map(printable, row)) for row in rows], width=terminal_width()))


@plugins.command("show")
@click.argument("name", shell_complete=completing(lambda: [plugin.found.name for plugin in get_registry().plugins()]))
@FORMAT_OPTION
def show_command(name: str, format_name: str) -> None:
    """All that is known of the plugin NAME (its own name, or its distribution's)."""
    registry = get_registry()
    facts = [_plain(registry, plugin) for plugin in registry.plugins()]  # all: which names are taken shows then
    matching = [plugin for plugin in facts if name in (plugin["name"], plugin["distribution"])]
    if not matching:
        known = {known for plugin in facts for known in (plugin["name"], plugin["distribution"])}
        raise UnknownName("plugin", name, known, "Installed ones are listed by 'mpsprobe plugins list'.")
    if format_name == "json":
        write_json(matching)
        return
    write_stdout("\n\n".join(map(_described, matching)))


def _described(plugin: dict[str, Any]) -> str:
    keys = ("name", "distribution", "version", "target", "file", "status")
    rows = [(key, plugin[key]) for key in keys if plugin[key]]
    if plugin["requires"]:
        rows.append(("requires", " and ".join(f"mpsprobe {specifier}" for specifier in plugin["requires"])))
    reasons = dict.fromkeys([*([plugin["reason"]] if plugin["reason"] else []), *plugin["problems"]])
    rows += [("reason" if plugin["status"] != "ok" else "problem", reason) for reason in reasons]
    rows.append(("hooks", ", ".join(plugin["hooks"]) or "none"))
    rows += [(f"{kind}s", ", ".join(names)) for kind, names in plugin["contributes"].items()]
    return aligned([(key, printable(value)) for key, value in rows], width=terminal_width())
