"""Which names the other installed plugins and mpsprobe itself have."""

from __future__ import annotations

from typing import Any

from mpsprobe.errors import MpsprobeError, UnknownName
from mpsprobe.plugins.discovery import CORE, FoundPlugin, find_plugins
from mpsprobe.plugins.plugin_files import find_in_folders
from mpsprobe.plugins.registry import Registry
from mpsprobe_devkit.checking.child.telling import Teller
from mpsprobe_devkit.checking.subject import normalized


def run(request: dict[str, Any], teller: Teller) -> None:
    """Tell ``taken`` with the owner of each name by kind, and ``open`` with that of the open names."""
    mine, blocked = normalized(request["distribution"]), set(request["blocked"])
    found = [one for one in find_plugins() if normalized(one.distribution) != mine]
    found += [one for one in _single_files(request["folders"], teller) if normalized(one.distribution) != mine]
    wanted = [one for one in found if one == CORE or not blocked & {"*", one.name, one.distribution}]
    taken: dict[str, dict[str, str]] = {}
    # The core comes last: where it and another plugin have a name, it is the core's.
    for one in [*(one for one in wanted if one != CORE), *(one for one in wanted if one == CORE)]:
        with teller.step(f"plugin:{one.owner}") as asked:
            if not asked:
                continue
            registry = Registry([one], tell=lambda _line: None)
            for plugin in registry.plugins():
                for kind, names in registry.contributions(plugin).items():
                    owner = "mpsprobe itself" if one == CORE else one.owner
                    taken.setdefault(kind, {}).update(dict.fromkeys(names, owner))
    teller.tell(taken=taken)
    for name in request["names"]:
        with teller.step(f"open:{name}") as asked:
            claimed = _owner(Registry(wanted, tell=lambda _line: None), name) if asked else None
            if claimed is not None:
                teller.tell(open=name, owner=claimed)


def _single_files(folders: list[str], teller: Teller) -> list[FoundPlugin]:
    try:
        return find_in_folders(folders)
    except MpsprobeError as error:
        teller.tell(note=error.message)
        return []


def _owner(registry: Registry, name: str) -> str | None:
    try:
        _, plugin = registry.workload_and_owner(name)
    except UnknownName:
        return None
    except MpsprobeError:  # somebody says that it is theirs, and wrong
        return "another installed plugin" if ".py" not in name else "mpsprobe itself"
    return "mpsprobe itself" if plugin.found == CORE else plugin.owner
