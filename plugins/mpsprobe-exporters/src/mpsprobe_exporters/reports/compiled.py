"""The step under ``torch.compile``: what it saves, where its graphs end, what is refused, and the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mpsprobe_exporters import sources
from mpsprobe_exporters.document import Bullet, Column, Section, bullets, table
from mpsprobe_exporters.plain_text import call_site, one_line, plural
from mpsprobe_exporters.units import byte_size, number

if TYPE_CHECKING:
    from mpsprobe import schemas
    from mpsprobe_exporters.document import Cell, Fields

TITLE = "Under torch.compile"
MOST_FAULTS = 3  # of a kernel
MOST = 100  # rows that a terminal and Markdown show
KERNELS: Fields[schemas.Environment, schemas.MetalKernel] = (
    (Column("kernel", "name"), lambda _, one: one.name),
    (Column("launches", "number"), lambda _, one: one.launches),
    (Column("data", "bytes", rank=1), lambda _, one: one.moved_bytes),
    (Column("operators", "names", rank=2), lambda _, one: tuple(one.operators)),
    (Column("lines", "places", rank=3), lambda environment, one: sources.lines(one.call_sites, environment)),
)


def line(step: schemas.CompiledStep | None) -> list[str]:
    """``Under torch.compile: 1 graph and 8 Metal kernels; 26 launches instead of 52``; nothing where not asked."""
    if step is None or step.failure is not None:
        return []
    made = f"{plural(step.graphs, 'graph')} and {plural(len(step.kernels), 'Metal kernel')}"
    if step.not_run is not None:
        return [f"{TITLE}: {made}, which were not run: {one_line(step.not_run)}"]
    if step.values:
        wrong = sum(bool(one.faults) for one in step.kernels)
        compared = sum(bool(one.compared) for one in step.kernels)
        made += f"; {compared} compared with their operators, {wrong} wrong"
    if step.compiled is None or step.eager is None:  # of a program
        return [f"{TITLE}: {made}"]
    launches = f"{number(step.compiled.launches)} launches instead of {number(step.eager.launches)}"
    data = f"{byte_size(step.compiled.moved_bytes)} of tensors read and written instead of "
    return [f"{TITLE}: {made}; {launches}, {data}{byte_size(step.eager.moved_bytes)}"]


def sections(report: schemas.CoverageReport) -> Iterator[Section]:
    """What is to be known of the step first; its kernels with ``--all``."""
    step = report.compiled
    if step is None:
        return
    found = []
    if (end := step.failure) is not None:
        found = [Bullet(f"the step ended{_at(end.call_site)}: {one_line(end.error)}: {one_line(end.message)}")]
    found += [
        Bullet("; ".join([*map(one_line, one.faults[:MOST_FAULTS]), *map(_at, one.call_sites[:1])]), one.name)
        for one in step.kernels
        if one.faults
    ]
    if report.growth is not None and end is None:
        again = plural(sum(one.times for one in step.recompiled), "time")
        tried = ", ".join(map(number, report.growth.tried))
        found.append(Bullet(f"then with {report.growth.varied} {tried}: compiled again {again}"))
    found += [Bullet(f"raises{_at(one.call_site)}: {one_line(one.reason)}", one.operator or "") for one in step.refused]
    found += [
        Bullet(f"{what}{_at(one.call_site)}: {one_line(one.reason)} ({plural(one.times, 'time')})")
        for what, breaks in (("a graph ends", step.breaks), ("compiled again", step.recompiled))
        for one in breaks
    ]
    not_native = [one for one in step.operators if one.verdict not in ("native", "composite")]
    found += [Bullet(f"{one.verdict}: {one_line(one.reason or '')}", one.operator) for one in not_native]
    yield Section(f"{TITLE} on torch {one_line(step.torch)}", bullets(found), view=TITLE)
    rows = table(KERNELS, report.environment, step.kernels, "Kernels", most=MOST)
    yield Section("Kernels that Inductor generates", rows, view=TITLE, depth="all")


def records(step: schemas.CompiledStep) -> Iterator[dict[str, Cell]]:
    """Rows of CSV, under verdicts of their own."""
    for one in step.refused:
        yield record(one.operator or "", "compile_refused", 1, one.reason, [one.call_site or ""])
    for verdict, breaks in (("graph_break", step.breaks), ("recompiled", step.recompiled)):
        for broken in breaks:
            yield record("", verdict, broken.times, broken.reason, [broken.call_site or ""])
    for kernel in step.kernels:
        reason = "; ".join([", ".join(kernel.operators), *kernel.faults])
        made = record(kernel.name, "metal_kernel", kernel.launches, reason, kernel.call_sites)
        yield {**made, "phases": kernel.phases}


def record(name: str, verdict: str, calls: int, reason: str, call_sites: Sequence[str] = ()) -> dict[str, Cell]:
    """A row of CSV about what is no operator."""
    return {"operator": name, "verdict": verdict, "calls": calls, "reason": reason, "call_sites": call_sites}


def _at(site: str | None) -> str:
    return f" at {call_site(site)}" if site else ""
