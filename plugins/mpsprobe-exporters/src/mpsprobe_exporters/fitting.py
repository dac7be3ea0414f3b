"""Whether a workload fits on the Mac that was asked about, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mpsprobe.doubts import exceeds
from mpsprobe_exporters.plain_text import call_site, one_line
from mpsprobe_exporters.units import between, byte_size

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, MatrixReport, MemoryEnd, MemoryFit, MemoryPrediction

MOVED = "while it is moved to the device"
DISAGREE = "the published figures disagree"
SMALLEST = 5.33 * 2**30  # what Metal recommends to a process on a Mac with 8 GB (pytorch#105839): any Mac has it

Fits = Sequence["MemoryFit | None"]
"""Of each release; None where no Mac was asked about."""


def each(report: CoverageReport | MatrixReport) -> Fits:
    if report.kind == "coverage":
        return [report.memory.fit if report.memory else None]
    return [cell.fit for cell in report.releases]


def in_short(memory: MemoryPrediction | None, parameters: int | None) -> str:
    """``does not fit on m2-pro-16gb: …``; empty where no Mac was asked about."""
    fit = memory.fit if memory else None
    if memory is None or fit is None:
        return ""
    on, needed, raises = one_line(fit.machine, 60), byte_size(memory.reserved_bytes), _allowed(fit)
    if fit.answer == "fits":
        return f"fits on {on}"
    if exceeds(fit):
        more = f"{byte_size(memory.reserved_bytes - fit.memory_bytes)} more than the Mac has"
        return f"does not fit on {on}: it needs {needed}, {more}, and macOS swaps"
    if fit.answer == "pressure":
        perhaps = "" if fit.low.answer == fit.high.answer else ", perhaps"
        return f"fits on {on}{perhaps} under memory pressure: it takes {byte_size(fit.low.reserved_bytes)}"
    if fit.answer == "unclear":
        return f"fits or not on {on}, {DISAGREE}: it needs {needed}, PyTorch raises at {raises}"
    if fit.low.message and fit.low.message.startswith("Invalid buffer size"):
        size = byte_size(fit.low.refused_bytes)
        return f"does not fit on {on}: one tensor of {size}, a buffer stays below {_buffer(fit)}"
    alone = fit.high.allowed_bytes is not None and parameters and parameters > fit.high.allowed_bytes
    of_these = f", its parameters alone {byte_size(parameters or 0)}" if alone else ""
    return f"does not fit on {on}: it needs {needed}{of_these}, PyTorch raises at {raises}"


def of_releases(fits: Fits) -> str:
    """``does not fit on m1-8gb with 2 of 3 releases``; empty where it fits."""
    bad = [fit for fit in fits if fit and _is_too_large(fit)]
    if not bad:
        return ""
    which = "fits or not" if any(fit.answer == "unclear" for fit in bad) else "does not fit"
    on = "every release" if len(bad) == len(fits) else f"{len(bad)} of {len(fits)} releases"
    return f"{which} on {one_line(bad[0].machine, 60)} with {on}"


def with_fit(clauses: list[str], fit: str, fits: Fits) -> list[str]:
    """``clauses`` with the words about memory: first where it is too large, else after the first of them."""
    first, *rest = clauses
    if not fit:
        return clauses
    return [f"{fit}; {first}" if is_bad(fits) else f"{first}; {fit}", *rest]


def needs(memory: MemoryPrediction | None) -> str:
    """``; it needs 1.4 TB of memory``; empty where any Mac has as much, or the report does not know."""
    much = memory is not None and memory.reserved_bytes > SMALLEST
    return f"; it needs {byte_size(memory.reserved_bytes)} of memory" if memory and much else ""


def is_bad(fits: Fits) -> bool:
    """Whether it raises, by some figure or by all, or takes more than the Mac has."""
    return any(fit and _is_too_large(fit) for fit in fits)


def _is_too_large(fit: MemoryFit) -> bool:
    return fit.answer in ("raises", "unclear") or exceeds(fit)


def is_clean(fits: Fits) -> bool:
    return all(fit is None or fit.answer == "fits" for fit in fits)


def alerts(fit: MemoryFit) -> list[str]:
    """Where PyTorch raises, and its message: by the smallest figures, and by the largest ones where that differs."""
    ends = [(", by the smallest published figures", fit.low), (", by the largest ones", fit.high)]
    ends = [("", fit.low)] if fit.low.message == fit.high.message else ends
    return [f"{_where(end, fit)}{by}: {one_line(end.message)}" for by, end in ends if end.message]


def lines(fit: MemoryFit) -> list[str]:
    """What the limits of the Mac are, what happens at each, and the margin."""
    slow = "Above what Metal recommends, macOS compresses memory and swaps: it runs, and may be slow"
    return [limits(fit), *([slow] if fit.answer == "pressure" and not exceeds(fit) else [])]


def limits(fit: MemoryFit, *, margin: bool = True) -> str:
    """What the limits of the Mac are; ``margin``: and what a run leaves of them."""
    ends = (fit.low, fit.high)
    by = "of Macs with the next sizes of memory" if fit.basis == "neighbours" else "published"
    recommended = between(byte_size, *(end.recommended_bytes for end in ends))
    parts = [f"Metal recommends {recommended} to a process ({by})"]
    if collects := [end.collects_bytes for end in ends if end.collects_bytes is not None]:
        parts.append(f"from {between(byte_size, *collects)} on PyTorch releases what it caches")
    if fit.low.allowed_bytes is None:
        parts.append("PyTorch has no limit")
    else:
        left = _margin(fit) if margin else ""
        parts.append(f"at {_allowed(fit)} it raises" + (f" ({left})" if left else ""))
    parts.append(f"a buffer stays below {_buffer(fit)}")
    return f"{one_line(fit.machine, 60)}: {'; '.join(parts)}"


def _where(end: MemoryEnd, fit: MemoryFit) -> str:
    """``PyTorch raises on m1-8gb in the first forward pass at aten::mm · layer · file.py:12 (activations)``."""
    at = [one_line(end.operator or ""), one_line(end.module or ""), call_site(end.call_site or "")]
    place = " · ".join(filter(None, at))
    step = "" if end.first_step else " of the second step"
    phase = f"in {one_line(end.phase)}{step}" if end.phase else MOVED if end.first_step else f"in{step[3:]}"
    what = f" ({one_line(end.refused)})" if end.refused else ""
    return f"PyTorch raises on {one_line(fit.machine, 60)} {phase}{f' at {place}' if place else ''}{what}"


def _margin(fit: MemoryFit) -> str:
    margins = [end.margin_bytes for end in (fit.low, fit.high) if end.margin_bytes is not None]
    if not margins:
        return ""
    if min(margins) >= 0:
        return f"{between(byte_size, *margins)} left"
    if max(margins) < 0:
        return f"{between(byte_size, *(-margin for margin in margins))} too little"
    return f"{byte_size(-min(margins))} too little to {byte_size(max(margins))} left"


def _allowed(fit: MemoryFit) -> str:
    known = [end.allowed_bytes for end in (fit.low, fit.high) if end.allowed_bytes is not None]
    return between(byte_size, *known) if known else "no limit"


def _buffer(fit: MemoryFit) -> str:
    return between(byte_size, fit.low.largest_buffer_bytes, fit.high.largest_buffer_bytes)
