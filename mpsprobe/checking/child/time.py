"""Times the import of a thin module in a fresh process, after everything that mpsprobe imports anyway."""

from __future__ import annotations

import builtins
import sys
import time
from typing import Any

import click  # noqa: F401 - every command has imported it before a plugin is loaded

from mpsprobe.checking.child.entering import enter, found_plugin
from mpsprobe.checking.child.telling import Teller


def run(request: dict[str, Any], teller: Teller) -> None:
    """Tell ``import_ns`` of the plugin in ``request``; with ``record`` what the packages cost that it imports."""
    found = found_plugin(request["found"])
    costs: dict[str, float] = {}
    if request.get("record"):
        _record(costs)
    with teller.step("import") as wanted:
        if wanted:
            begin = time.perf_counter_ns()
            enter(found)
            teller.tell(import_ns=time.perf_counter_ns() - begin)
    teller.tell(costs={name: ms for name, ms in costs.items() if name != found.target.partition(".")[0]})


def _record(costs: dict[str, float]) -> None:
    """From now on add to ``costs`` how many ms the first import of each package takes, what it imports included."""
    original = builtins.__import__

    def timed(name: str, *arguments: Any, **named: Any) -> Any:
        package = name.partition(".")[0]
        if not package or package in costs or package in sys.modules:
            return original(name, *arguments, **named)
        begin = time.perf_counter_ns()
        try:
            return original(name, *arguments, **named)
        finally:
            costs[package] = (time.perf_counter_ns() - begin) / 1e6

    builtins.__import__ = timed
