"""``mpsprobe plugins list | show NAME``: works also when every plugin is broken."""

from __future__ import annotations

import json
from typing import Any

import click

from mpsprobe.cli.listing import aligned, format_option
from mpsprobe.errors import UnknownName
from mpsprobe.loading import Plugin
from mpsprobe.output import write_stdout
from mpsprobe.registry import Registry, get_registry


@click.group()
def plugins() -> None:
    """Which plugins are installed, what they contribute, and what is wrong with them."""


def _plain(registry: Registry, plugin: Plugin) -> dict[str, Any]:
    contributes = registry.contributions(plugin)  # asks the hooks, which may turn ``ok`` into ``failed``
    return {
        "name": plugin.found.name,
        "distribution": plugin.found.distribution,
        "version": plugin.found.version,
        "target": plugin.found.target,
        "status": plugin.status,
        "reason": plugin.reason,
        "hooks": list(plugin.hooks),
        "contributes": contributes,
    }


@plugins.command("list", params=[format_option()])
def list_command(format_name: str) -> None:
    """Every installed plugin with its status: ok, failed or blocked."""
    registry = get_registry()
    found = [_plain(registry, plugin) for plugin in registry.plugins()]
    if format_name == "json":
        write_stdout(json.dumps(found, indent=2))
        return
    rows = [("NAME", "DISTRIBUTION", "VERSION", "STATUS", "CONTRIBUTES")]
    for one in found:
        counted = ", ".join(_counted(kind, len(names)) for kind, names in one["contributes"].items())
        rows.append((one["name"], one["distribution"], one["version"], one["status"], one["reason"] or counted))
    write_stdout(aligned(rows))


@plugins.command("show", params=[click.Argument(["name"]), format_option()])
def show_command(name: str, format_name: str) -> None:
    """All that is known of the plugin NAME (its own name, or its distribution's)."""
    registry = get_registry()
    matching = [one for one in registry.plugins() if name in (one.found.name, one.found.distribution)]
    if not matching:
        known = {known for one in registry.plugins() for known in (one.found.name, one.found.distribution)}
        raise UnknownName("plugin", name, known, "Installed ones are listed by 'mpsprobe plugins list'.")
    found = [_plain(registry, plugin) for plugin in matching]
    if format_name == "json":
        write_stdout(json.dumps(found, indent=2))
        return
    write_stdout("\n\n".join(_described(one) for one in found))


def _described(one: dict[str, Any]) -> str:
    rows = [(key, str(one[key])) for key in ("name", "distribution", "version", "target", "status")]
    if one["reason"]:
        rows.append(("reason", one["reason"]))
    rows.append(("hooks", ", ".join(one["hooks"]) or "none"))
    rows += [(f"{kind}s", ", ".join(names)) for kind, names in one["contributes"].items()]
    return aligned(rows)


def _counted(kind: str, count: int) -> str:
    return f"{count} {kind}" + ("s" if count > 1 else "")
