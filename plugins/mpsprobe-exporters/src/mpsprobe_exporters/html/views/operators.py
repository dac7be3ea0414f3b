"""Operators: where the time goes by name, and which kernels and copies the device ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters.html import figures, tables
from mpsprobe_exporters.html.markup import Markup, element, joined, name
from mpsprobe_exporters.html.scales import bounded
from mpsprobe_exporters.html.tables import Column
from mpsprobe_exporters.module_names import fold_names
from mpsprobe_exporters.plain_text import plural
from mpsprobe_exporters.trace_summary import copies, kernels
from mpsprobe_exporters.units import duration

if TYPE_CHECKING:
    from mpsprobe.schemas import OperatorTime, ProfileCell, ProfileReport

TOP = 10
MOST_SHAPES, MOST_MODULES = 20, 40

COLUMNS = (
    Column("Operator"),
    Column("Calls", True, "over all profiled steps"),
    Column("Share", True, "of the self time of all operators: on the device where it was read, else on the host"),
    Column("Self device", True, "its own kernels"),
    Column("Total device", True, "its kernels and those of the operators that it calls"),
    Column("Self host", True, "time on the host outside the operators that it calls"),
    Column("Total host", True, "time on the host, the operators that it calls included"),
    Column("Mean host", True, "total host time of one call"),
    Column("Shapes"),
    Column("Modules"),
)
KERNEL_COLUMNS = (
    Column("Kernel"),
    Column("Calls", True),
    Column("Share", True, "of the time of all kernels"),
    Column("Total", True),
    Column("Mean", True),
    Column("Shortest", True),
    Column("Longest", True),
)
COPY_COLUMNS = (Column("Copy"), Column("Calls", True), Column("Total", True), Column("Bytes", True))


def operators(report: ProfileReport, cell: ProfileCell) -> Markup | None:
    """The operators of a cell as a chart of the first ones and a table of all."""
    if not cell.operators:
        return None
    on_device = any(one.self_device_ns for one in cell.operators)
    ordered = sorted(cell.operators, key=lambda one: (-_self(one, on_device), one.operator))
    total = sum(_self(one, on_device) for one in ordered)
    over = plural(cell.profiled_steps, "profiled step")
    where = "device" if on_device else "host"
    largest = bounded(_self(ordered[0], on_device)) or 1.0
    top = [one for one in ordered[:TOP] if _self(one, on_device)]
    bars = figures.bar_rows(
        (
            (
                name(one.operator, 60),
                figures.bar(bounded(_self(one, on_device)) / largest, 1 if on_device else 2),
                duration(bounded(_self(one, on_device))),
            )
            for one in top
        ),
        f"The longest operators by self time on the {where}, over {over}",
    )
    sources = ", ".join(sorted({one.source for one in cell.operators}))
    rows = [_row(one, _self(one, on_device), total) for one in ordered]
    return joined(
        [
            bars if top else None,
            tables.table(
                f"{plural(len(rows), 'operator')} over {over}; times by {sources}",
                COLUMNS,
                rows,
                filtered="Filter operators",
            ),
        ]
    )


def device_work(report: ProfileReport, cell: ProfileCell) -> Markup | None:
    """Kernels and copies, from the events of the trace."""
    if cell.trace is None:
        return None
    found, moved = kernels(cell.trace), copies(cell.trace)
    if not found and not moved:
        return None
    total = sum(one.total_ns for one in found)
    kernel_rows = [
        (
            tables.words(name(one.name, 160)),
            tables.count(one.calls),
            tables.share(one.total_ns, total),
            tables.time(one.total_ns),
            tables.time(bounded(one.total_ns) / one.calls),
            tables.time(one.minimum_ns),
            tables.time(one.maximum_ns),
        )
        for one in found
    ]
    copy_rows = [
        (tables.words(name(one.name)), tables.count(one.calls), tables.time(one.total_ns), tables.size(one.bytes))
        for one in moved
    ]
    caption = f"{plural(len(found), 'kernel')}, {plural(sum(one.calls for one in found), 'run')}"
    return joined(
        [
            tables.table(caption, KERNEL_COLUMNS, kernel_rows, filtered="Filter kernels") if found else None,
            element("h3", "Copies") if moved else None,
            tables.table("Copies between memories, as the trace names them", COPY_COLUMNS, copy_rows)
            if moved
            else None,
        ]
    )


def _self(one: OperatorTime, on_device: bool) -> int:
    return (one.self_device_ns or 0) if on_device else one.self_host_ns


def _row(one: OperatorTime, own: int, total: int) -> tuple[tables.Field, ...]:
    shapes = tables.listed((name(shape, 60) for shape in one.shapes), most=MOST_SHAPES)
    modules = tables.listed((name(module, 60) for module in fold_names(one.modules)), most=MOST_MODULES)
    return (
        tables.words(name(one.operator)),
        tables.count(one.calls),
        tables.share(own, total),
        tables.time(one.self_device_ns),
        tables.time(one.device_ns),
        tables.time(one.self_host_ns),
        tables.time(one.host_ns),
        tables.time(bounded(one.host_ns) / bounded(one.calls)),
        tables.words(shapes),
        tables.words(modules),
    )
