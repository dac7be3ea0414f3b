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
    (Column("kernel", "name"), lambda _, kernel: kernel.name),
    (Column("launches", "number"), lambda _, kernel: kernel.launches),
    (Column("data", "bytes", rank=1), lambda _, kernel: kernel.moved_bytes),
    (Column("operators", "names", rank=2), lambda _, kernel: tuple(kernel.operators)),
    (Column("lines", "places", rank=3), lambda environment, kernel: sources.lines(kernel.call_sites, environment)),
)


def line(step: schemas.CompiledStep | None) -> list[str]:
    """``Under torch.compile: 1 graph and 8 Metal kernels; 26 launches instead of 52``; nothing where not asked."""
    if step is None or step.failure is not None:
        return []
    made = f"{plural(step.graphs, 'graph')} and {plural(len(step.kernels), 'Metal kernel')}"
    if step.not_run is not None:
        return [f"{TITLE}: {made}, which were not run: {one_line(step.not_run)}"]
    if step.values:
        wrong = sum(bool(kernel.faults) for kernel in step.kernels)
        compared = sum(bool(kernel.compared) for kernel in step.kernels)
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
    blocks = []
    if (end := step.failure) is not None:
        blocks = [Bullet(f"the step ended{_at(end.call_site)}: {one_line(end.error)}: {one_line(end.message)}")]
    blocks += [
        Bullet("; ".join([*map(one_line, kernel.faults[:MOST_FAULTS]), *map(_at, kernel.call_sites[:1])]), kernel.name)
        for kernel in step.kernels
        if kernel.faults
    ]
    if report.growth is not None and end is None:
        again = plural(sum(recompilation.times for recompilation in step.recompiled), "time")
        tried = ", ".join(map(number, report.growth.tried))
        blocks.append(Bullet(f"then with {report.growth.varied} {tried}: compiled again {again}"))
    blocks += [
        Bullet(f"raises{_at(refusal.call_site)}: {one_line(refusal.reason)}", refusal.operator or "")
        for refusal in step.refused
    ]
    blocks += [
        Bullet(
            f"{what}{_at(graph_break.call_site)}: {one_line(graph_break.reason)} ({plural(graph_break.times, 'time')})"
        )
        for what, breaks in (("a graph ends", step.breaks), ("compiled again", step.recompiled))
        for graph_break in breaks
    ]
    not_native = [operator for operator in step.operators if operator.verdict not in ("native", "composite")]
    blocks += [
        Bullet(f"{finding.verdict}: {one_line(finding.reason or '')}", finding.operator) for finding in not_native
    ]
    yield Section(f"{TITLE} on torch {one_line(step.torch)}", bullets(blocks), view=TITLE)
    rows = table(KERNELS, report.environment, step.kernels, "Kernels", most=MOST)
    yield Section("Kernels that Inductor generates", rows, view=TITLE, depth="all")


def records(step: schemas.CompiledStep) -> Iterator[dict[str, Cell]]:
    """Rows of CSV, under verdicts of their own."""
    for refusal in step.refused:
        yield record(refusal.operator or "", "compile_refused", 1, refusal.reason, [refusal.call_site or ""])
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
