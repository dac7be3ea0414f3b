"""Findings about steps that ended the process, and about what steps printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe_devkit.checking.findings import Finding, finding
from mpsprobe_devkit.checking.runs import EXITS, HANGS, Ended

FLOOD_HINT = "Print nothing."


def endings(ended: Iterable[Ended], point: FoundPlugin) -> Iterator[Finding]:
    """A finding for each step that the plugin did not end itself."""
    for one in ended:
        part, _, name = one.step.partition(":")
        if part == "import":
            code = {HANGS: "import-hangs", EXITS: "import-exits"}.get(one.how, "import-prints")
            yield finding(code, f"importing {point.target} {one.detail}", one.where or f"entry point {point.name}")
        elif part == "hook":
            code = {HANGS: "hook-hangs", EXITS: "hook-exits"}.get(one.how, "hook-prints")
            yield finding(code, f"{name} {one.detail}", one.where)
        elif part == "contract":
            kind, _, called = name.partition(":")
            yield finding("contract-hangs", f"the contract of the {kind} '{called}' {one.detail}", one.where)
        else:
            kind, _, called = name.partition(":")
            doing = f"importing {kind}" if part == "target" else f"making the {kind} '{called}'"
            code = "target-hangs" if one.how == HANGS else "target-exits"
            yield finding(code, f"{doing} {one.detail}", one.where)


def printings(printed: Mapping[str, tuple[str, int, str]], point: FoundPlugin) -> Iterator[Finding]:
    """A finding for each step of the thin module that printed; what objects print when they are made is their own."""
    for step, (line, size, where) in printed.items():
        part, _, name = step.partition(":")
        shown = f"'{line}'" + (f" and more, {size:,} bytes in all" if size > len(line) + 2 else "")
        if part == "import":
            yield finding("import-prints", f"importing {point.target} prints {shown}", f"entry point {point.name}")
        elif part == "hook":
            yield finding("hook-prints", f"{name} prints {shown}", where)
