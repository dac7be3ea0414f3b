"""Where an answer comes from that was known before it was asked for, in a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mpsprobe_exporters.plain_text import one_line, plural

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, FitReport, MatrixReport, SeveralReport

CACHE = "cache"
TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?Z", re.ASCII)


def lines(report: CoverageReport | MatrixReport | FitReport) -> list[str]:
    """``From the cache, of 2026-11-22 19:30 UTC: mpsprobe 0.1.0, torch 2.13.0``; then what differs."""
    known = report.recalled
    if known is None:
        return []
    source = "the cache" if known.source == CACHE else one_line(known.source, 60)
    made = one_line(TIME.sub(r"\1 \2 UTC", known.made), 40)
    by = [f"mpsprobe {one_line(report.environment.mpsprobe, 40)}"]
    for name in ("torch", "tensorflow", "transformers"):
        version = getattr(report.environment, name)
        by += [f"{name} {one_line(version, 40)}"] if version else []
    return [f"From {source}, of {made}: {', '.join(by)}", *(one_line(note, 400) for note in known.notes)]


def of_several(report: SeveralReport) -> list[str]:
    """How many of the workloads were known, in a line; nothing where none was."""
    known = [one.report.recalled for one in report.workloads if one.report and one.report.recalled]
    if not known:
        return []
    sources = dict.fromkeys("the cache" if one.source == CACHE else one_line(one.source, 60) for one in known)
    return [f"{plural(len(known), 'answer')} of {len(report.workloads)} from {', '.join(sources)}"]
