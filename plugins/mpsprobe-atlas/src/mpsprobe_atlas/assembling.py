"""Reports of the atlas as they are asked for: for a chip or a memory; without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.knowledge.advisories.store import named
from mpsprobe_coverage.knowledge.chips.limits import limits_of
from mpsprobe_coverage.knowledge.chips.mac import Mac, mac_asked
from mpsprobe_coverage.knowledge.memory.mps_allocator import Limits

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
