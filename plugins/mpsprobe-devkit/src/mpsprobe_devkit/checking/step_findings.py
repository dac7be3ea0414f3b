"""Findings about steps that ended the process, and about what steps printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe_devkit.checking.findings import Finding, finding
from mpsprobe_devkit.checking.runs import EXITS, HANGS, Ended

FLOOD_HINT = "Print nothing."


def ended_step_findings(ended: Iterable[Ended], point: FoundPlugin) -> Iterator[Finding]:
    """A finding for each step that the plugin did not end itself."""
    for step in ended:
        part, _, name = step.step.partition(":")
        if part == "import":
            code = {HANGS: "import-hangs", EXITS: "import-exits"}.get(step.how, "import-prints")
            yield finding(code, f"importing {point.target} {step.detail}", step.where or f"entry point {point.name}")
        elif part == "hook":
            code = {HANGS: "hook-hangs", EXITS: "hook-exits"}.get(step.how, "hook-prints")
            yield finding(code, f"{name} {step.detail}", step.where)
        elif part == "contract":
            kind, _, called = name.partition(":")
            yield finding("contract-hangs", f"the contract of the {kind} '{called}' {step.detail}", step.where)
        else:
            kind, _, called = name.partition(":")
            doing = f"importing {kind}" if part == "target" else f"making the {kind} '{called}'"
            code = "target-hangs" if step.how == HANGS else "target-exits"
            yield finding(code, f"{doing} {step.detail}", step.where)


def output_findings(printed: Mapping[str, tuple[str, int, str]], point: FoundPlugin) -> Iterator[Finding]:
    """A finding for each step of the thin module that printed; what objects print when they are made is their own."""
    for step, (line, size, where) in printed.items():
        part, _, name = step.partition(":")
        shown = f"'{line}'" + (f" and more, {size:,} bytes in all" if size > len(line) + 2 else "")
        if part == "import":
            yield finding("import-prints", f"importing {point.target} prints {shown}", f"entry point {point.name}")
        elif part == "hook":
            yield finding("hook-prints", f"{name} prints {shown}", where)
