"""What decides: a report is written and not obeyed, and the core knows no plugin's commands."""

from __future__ import annotations

import ast

from mpsprobe.plugins.discovery import CORE
from mpsprobe.plugins.registry import Registry
from mpsprobe.schemas import ProfilePlan
from tests.house.tree import ROOT, parsed, python_files, shown

CORE_FILES = python_files(ROOT / "mpsprobe")
MEASURES = [path for path in CORE_FILES if path.parent.name in ("cli", "engine")]
COMPARES = ROOT / "mpsprobe" / "engine" / "conditions.py"  # two reports and nothing else are its input


def test_no_reports_plan_steers_a_measurement() -> None:
    """Nothing there reads a field of some object's ``plan``: ``report.plan.compile``."""
    assert not [
        f"{shown(path)}:{node.lineno}"
        for path in MEASURES
        for node in ast.walk(parsed(path))
        if path != COMPARES and isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith(".plan")
    ]


def test_the_plan_of_a_report_is_written_at_one_place() -> None:
    calls = [
        shown(path)
        for path in MEASURES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == ProfilePlan.__name__
    ]
    assert len(calls) == 1, calls


def test_the_core_has_no_table_of_plugins_commands() -> None:
    """``coverage``, ``checkpoint``, ``fit``, ``upgrade`` are kinds of reports too, ``atlas`` is a distribution."""
    registry = Registry(strict=True)
    owners = {name: registry.owner("command", name) for name in registry.commands()}
    kinds = {"atlas", "coverage", "checkpoint", "fit", "upgrade"}
    theirs = {name for name, owner in owners.items() if owner is not None and owner.found != CORE} - kinds
    assert {"kernels", "plugins check"} <= theirs
    named = [
        f"{shown(path)}:{node.lineno}: {node.value}"
        for path in CORE_FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in theirs
    ]
    assert not named
