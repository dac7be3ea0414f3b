"""Times the import of a thin module in a fresh process, after everything that mpsprobe imports anyway."""

from __future__ import annotations

import builtins
import sys
import time
from typing import Any

import click  # noqa: F401 - every command has imported it before a plugin is loaded

import mpsprobe.plugins.registry  # noqa: F401 - as click
from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe.plugins.loading import imported
from mpsprobe_devkit.checking.child.telling import Teller


def run(request: dict[str, Any], teller: Teller) -> None:
    """Tell ``import_ns`` of the plugin in ``request``; with ``record`` what the packages cost that it imports."""
    found = FoundPlugin(**request["found"] | {"requires": ()})
    costs: dict[str, float] = {}
    if request.get("record"):
        _record(costs, set(request["packages"]))
    with teller.step("import") as wanted:
        if wanted:
            begin = time.perf_counter_ns()
            imported(found)
            teller.tell(import_ns=time.perf_counter_ns() - begin)
    teller.tell(costs=costs)


def _record(costs: dict[str, float], own: set[str]) -> None:
    """From now on add to ``costs`` how many ms each package takes that is not the plugin's ``own``.

    What a package imports itself counts as its own time.
    """
    original = builtins.__import__
    inside = 0

    def timed(name: str, *arguments: Any, **named: Any) -> Any:
        nonlocal inside
        package = name.partition(".")[0]
        relative = arguments[3] if len(arguments) > 3 else named.get("level", 0)
        if inside or relative or package in own or package in sys.modules:
            return original(name, *arguments, **named)
        begin = time.perf_counter_ns()
        inside += 1
        try:
            return original(name, *arguments, **named)
        finally:
            inside -= 1
            costs[package] = (time.perf_counter_ns() - begin) / 1e6

    builtins.__import__ = timed
