"""What half precision does to a model: its modules as rows, and those that have to stay in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe_exporters import workload_lines
from mpsprobe_exporters.document import Bullet, Column, Document, Section, bullets, table
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.reports.verification import NOT_FINITE, figure
from mpsprobe_exporters.units import percent

if TYPE_CHECKING:
    from mpsprobe.schemas import ModuleRange, PrecisionReport
    from mpsprobe_exporters.document import Fields

MOST = 20

FIELDS: Fields[None, ModuleRange] = (
    (Column("module", "name", "name"), lambda _, module_range: module_range.name),
    (Column("class", "name", "type", rank=2), lambda _, module_range: module_range.type),
    (Column("largest", key="largest"), lambda _, module_range: figure(module_range.largest)),
    (Column("of the range", "share", "of_range"), lambda _, module_range: module_range.of_range),
    (Column("overflowed", "number", "overflowed"), lambda _, module_range: module_range.overflowed),
    (Column("became zero", "share", "underflowed", rank=1), lambda _, module_range: module_range.underflowed),
    (Column("error", key="error"), lambda _, module_range: figure(module_range.error)),
    (
        Column("its own", key="own_error", about="with float32's inputs, rounded"),
        lambda _, module_range: figure(module_range.own_error),
    ),
)


def document(report: PrecisionReport) -> Document:
    dtype = one_line(report.workload.autocast or report.workload.dtype, 40)
    how = [f"give each of them float32 weights and inputs, and {dtype} to what follows"] if report.keep else []
    scale = [] if report.loss_scale is None else [f"A GradScaler settles at {report.loss_scale:g}"]
    return Document(
        title=f"{one_line(report.workload.name, 60)} in {dtype}",
        headline=_headline(report, dtype),
        tone="good" if report.holds else "bad",
        lines=[
            workload_lines.workload_line(report.workload),
            f"On the CPU, next to float32; made with {workload_lines.made_with(report.environment)}",
            *scale,
        ],
        notes=[one_line(note, 1000) for note in report.notes],
        sections=[
            Section(
                "Keep in float32",
                bullets(Bullet("tried: with these the result holds", name) for name in report.keep),
                depth="lead",
            ),
            Section("How: the field 'snippet' of the JSON has code for it", bullets(how), depth="lead"),
            Section("Modules, those that suffer most first", table(FIELDS, None, report.modules, "Modules", most=MOST)),
        ],
    )


def _headline(report: PrecisionReport, dtype: str) -> str:
    error = NOT_FINITE if report.error is None else f"off by {percent(report.error)}"
    if report.holds:
        return f"The result holds in {dtype}: {error}"
    begins = f"; it begins in {one_line(report.begins, 80)}" if report.begins else ""
    kept = f"; with {plural(len(report.keep), 'module')} in float32 it holds" if report.keep else ""
    return f"In {dtype} the result is {error}{begins}{kept}"
