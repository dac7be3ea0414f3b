"""Reports of the atlas as they are asked for: for a chip or a memory, and many releases as one; without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.advisories.store import named
from mpsprobe_coverage.chips.limits import limits_of
from mpsprobe_coverage.chips.mac import Mac, mac_asked
from mpsprobe_coverage.kernels.releases import since_without_gap
from mpsprobe_coverage.memory.mps_allocator import Limits

FIGURES = ("peak_bytes", "allocated_bytes", "reserved_bytes")
"""Of its memory, what a report has that is one of many."""
NOT_SAID = "It raises for want of memory; at which call, a run with torch says"


def asked_of(report: dict[str, Any], fits: Mapping[int, str], options: Mapping[str, Any]) -> dict[str, Any] | None:
    """``report`` for the chip and the memory of ``options``; ``None`` where nothing is known about that memory."""
    asked = replace(RunOptions(), chip=options["chip"], memory=options["memory"])
    mac = mac_asked(asked)
    if asked.chip:
        release, oldest = report["target"]["torch"], report["target"].get("macos_minimum")
        affecting = {
            one.id
            for one in named(one["id"] for one in report["advisories"])
            if one.affects(release, oldest, None, asked.chip)
        }
        report["advisories"] = [one for one in report["advisories"] if one["id"] in affecting]
        report["summary"]["advisories"] = len(report["advisories"])
    if mac is not None and report["memory"] is not None:
        if mac.memory not in fits:
            return None
        report["memory"]["fit"] = _fit(mac, fits[mac.memory], report["memory"])
    return report


def matrix(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Reports on single releases, oldest first, as the one on all of them."""
    newest = reports[-1]
    cells = [_cell(report) for report in reports]
    native = {one["target"]["torch"]: not one["findings"] and one["failure"] is None for one in cells}
    advisories = {one["id"]: one for report in reports for one in report["advisories"]}
    return {
        "kind": "coverage-matrix",
        "schema_version": 1,
        "method": newest["method"],
        "workload": {**newest["workload"], "notes": _notes(reports)},
        "environment": newest["environment"],
        "native_since": since_without_gap([*native], native.__getitem__),
        "releases": cells,
        "operators": newest["operators"],
        "not_judged": newest["not_judged"],
        "data_dependence": newest["data_dependence"],
        "advisories": [*advisories.values()],
    }


def _cell(report: Mapping[str, Any]) -> dict[str, Any]:
    operators = [(one["operator"], one["verdict"]) for one in reversed(report["operators"])]
    memory = None if report["failure"] else report["memory"]
    return {
        "target": report["target"],
        "summary": {**report["summary"], "native_since": None, "graphs": None},
        "memory": memory and {name: memory[name] for name in FIGURES},
        "fit": (report["memory"] or {}).get("fit"),
        "findings": {operator: verdict for operator, verdict in operators if verdict != "native"},
        "advisories": [one["id"] for one in report["advisories"]],
        "failure": report["failure"],
    }


def _notes(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those of all releases; where they differ, with the newest release that says so."""
    said = {report["target"]["torch"]: report["workload"]["notes"] for report in reports}
    shared = [note for note in reports[-1]["workload"]["notes"] if all(note in notes for notes in said.values())]
    for release, notes in reversed(said.items()):
        if own := [note for note in notes if note not in shared]:
            return [*shared, *(f"torch {release}: {note}" for note in own)]
    return shared


def _fit(mac: Mac, answer: str, memory: Mapping[str, Any]) -> dict[str, Any]:
    """As far as the answer alone says it: where it raises, the sweep has not kept at which call."""
    known = limits_of(mac.memory)
    ends = {}
    for end in ("low", "high"):
        limits = Limits(getattr(known.recommended, end), getattr(known.largest_buffer, end))
        one = "fits" if answer == "unclear" and end == "high" else "raises" if answer == "unclear" else answer
        ends[end] = {
            "answer": one,
            "recommended_bytes": limits.recommended,
            "largest_buffer_bytes": limits.buffer,
            "collects_bytes": limits.short,
            "allowed_bytes": limits.allowed,
            "margin_bytes": limits.allowed - memory["allocated_bytes"],
            "reserved_bytes": memory["reserved_bytes"],
            "message": NOT_SAID if one == "raises" else None,
        }
    return {
        "machine": mac.name,
        "memory_bytes": mac.memory,
        "answer": answer,
        **ends,
        "basis": "neighbours" if known.recommended.basis == "neighbours" else "published",
        "sources": sorted({one.source for one in (*known.recommended.figures, *known.largest_buffer.figures)}),
    }
