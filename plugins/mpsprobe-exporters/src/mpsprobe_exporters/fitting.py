"""Whether a workload fits on the Mac that was asked about, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mpsprobe.doubts import exceeds
from mpsprobe_exporters.plain_text import call_site, one_line
from mpsprobe_exporters.units import byte_size

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, MatrixReport, MemoryEnd, MemoryFit

    AnyReport = CoverageReport | MatrixReport

MOVED = "while it is moved to the device"
DISAGREE = "the published figures disagree"
SMALLEST = 5.33 * 2**30  # what Metal recommends to a process on a Mac with 8 GB (pytorch#105839): any Mac has it


def of(report: AnyReport) -> MemoryFit | None:
    """Of a report on one release."""
    return report.memory.fit if report.kind == "coverage" and report.memory else None


def in_short(report: AnyReport) -> str:
    """``does not fit on m2-pro-16gb: …``; of a matrix with the releases; empty where no Mac was asked about."""
    if report.kind != "coverage":
        return _of_matrix(report)
    found = of(report)
    if found is None or report.memory is None:
        return ""
    on, needs = one_line(found.machine, 60), byte_size(report.memory.allocated_bytes)
    if found.answer == "fits":
        return f"fits on {on}"
    if exceeds(found):
        takes = max(found.low.reserved_bytes, found.high.reserved_bytes)
        more = f"{byte_size(takes - found.memory_bytes)} more than the Mac has"
        return f"does not fit on {on}: it takes {byte_size(takes)}, {more}, and macOS swaps"
    if found.answer == "pressure":
        perhaps = "" if found.low.answer == found.high.answer else ", perhaps"
        return f"fits on {on}{perhaps} under memory pressure: it takes {byte_size(found.low.reserved_bytes)}"
    if found.answer == "unclear":
        return f"fits or not on {on}, {DISAGREE}: it needs {needs}, PyTorch raises at {_allowed(found)}"
    parameters = report.summary.parameters_bytes
    alone = found.high.allowed_bytes is not None and parameters and parameters > found.high.allowed_bytes
    of_these = f", its parameters alone {byte_size(parameters or 0)}" if alone else ""
    if found.low.message and found.low.message.startswith("Invalid buffer size"):
        size = byte_size(found.low.refused_bytes)
        return f"does not fit on {on}: one tensor of {size}, a buffer stays below {_buffer(found)}"
    return f"does not fit on {on}: it needs {needs}{of_these}, PyTorch raises at {_allowed(found)}"


def needs(report: AnyReport) -> str:
    """`` where 1.4 TB of memory are free``; empty where any Mac has as much, or the report does not know."""
    found = report.memory if report.kind == "coverage" else None
    much = found is not None and found.allocated_bytes > SMALLEST
    return f" where {byte_size(found.allocated_bytes)} of memory are free" if found and much else ""


def is_bad(report: AnyReport) -> bool:
    """Whether it raises, by some figure or by all, or takes more than the Mac has."""
    return any(one and _is_too_large(one) for one in _each(report))


def _is_too_large(fit: MemoryFit) -> bool:
    return fit.answer in ("raises", "unclear") or exceeds(fit)


def is_clean(report: AnyReport) -> bool:
    """Whether there is nothing to do about memory."""
    return all(one is None or one.answer == "fits" for one in _each(report))


def alerts(report: AnyReport) -> list[str]:
    """Where PyTorch raises, and its message: by the smallest figures, and by the largest ones where that differs."""
    found = of(report)
    if found is None:
        return []
    ends = [("", found.low)] if found.low.message == found.high.message else _ends(found)
    return [f"{_where(one, found)}{by}: {one_line(one.message)}" for by, one in ends if one.message]


def lines(report: AnyReport) -> list[str]:
    """What the limits of the Mac are, what happens at each, and the margin."""
    found = of(report)
    if found is None:
        return []
    said = limits(found)
    if "pressure" in (found.low.answer, found.high.answer):
        said.append("Above what Metal recommends, macOS compresses memory and swaps: it runs, and may be slow")
    return said


def limits(found: MemoryFit, *, margin: bool = True) -> list[str]:
    """What the limits of the Mac are; ``margin``: and what a run leaves of them."""
    recommended = _range([found.low.recommended_bytes, found.high.recommended_bytes])
    by = "of Macs with the next sizes of memory" if found.basis == "neighbours" else "published"
    parts = [f"Metal recommends {recommended} to a process ({by})"]
    collects = [one.collects_bytes for one in (found.low, found.high) if one.collects_bytes is not None]
    if collects:
        parts.append(f"from {_range(collects)} on PyTorch releases what it caches")
    if found.low.allowed_bytes is not None:
        left = _margin(found) if margin else ""
        parts.append(f"at {_allowed(found)} it raises" + (f" ({left})" if left else ""))
    else:
        parts.append("PyTorch has no limit")
    parts.append(f"a buffer stays below {_buffer(found)}")
    return [f"{one_line(found.machine, 60)}: {'; '.join(parts)}"]


def _of_matrix(report: MatrixReport) -> str:
    bad = [cell for cell in report.releases if cell.fit and _is_too_large(cell.fit)]
    if not bad or bad[0].fit is None:
        return ""
    which = "does not fit" if all(cell.fit and cell.fit.answer != "unclear" for cell in bad) else "fits or not"
    on = "every release" if len(bad) == len(report.releases) else f"{len(bad)} of {len(report.releases)} releases"
    return f"{which} on {one_line(bad[0].fit.machine, 60)} with {on}"


def _each(report: AnyReport) -> Iterable[MemoryFit | None]:
    return [of(report)] if report.kind == "coverage" else [cell.fit for cell in report.releases]


def _ends(found: MemoryFit) -> list[tuple[str, MemoryEnd]]:
    return [(", by the smallest published figures", found.low), (", by the largest ones", found.high)]


def _where(end: MemoryEnd, found: MemoryFit) -> str:
    """``PyTorch raises on m1-8gb in the first forward pass at aten::mm · layer · file.py:12 (activations)``."""
    at = [one_line(end.operator or ""), one_line(end.module or ""), call_site(end.call_site or "")]
    place = " · ".join(filter(None, at))
    step = "" if end.first_step else " of the second step"
    phase = f"in {one_line(end.phase)}{step}" if end.phase else MOVED if end.first_step else f"in{step[3:]}"
    what = f" ({one_line(end.refused)})" if end.refused else ""
    return f"PyTorch raises on {one_line(found.machine, 60)} {phase}{f' at {place}' if place else ''}{what}"


def _margin(found: MemoryFit) -> str:
    margins = [one.margin_bytes for one in (found.low, found.high) if one.margin_bytes is not None]
    if not margins:
        return ""
    if min(margins) >= 0:
        return f"{_range(margins)} left"
    if max(margins) < 0:
        return f"{_range([-one for one in margins])} too little"
    return f"{byte_size(-min(margins))} too little to {byte_size(max(margins))} left"


def _allowed(found: MemoryFit) -> str:
    known = [one.allowed_bytes for one in (found.low, found.high) if one.allowed_bytes is not None]
    return _range(known) if known else "no limit"


def _buffer(found: MemoryFit) -> str:
    return _range([found.low.largest_buffer_bytes, found.high.largest_buffer_bytes])


def _range(values: Iterable[int]) -> str:
    first, last = (byte_size(one(values)) for one in (min, max))
    return first if first == last else f"{first} to {last}"
