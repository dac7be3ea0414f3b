"""How large a workload may be on a Mac: a row for each way to run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe.doubts import TRIED
from mpsprobe_exporters import fitting, workload_lines
from mpsprobe_exporters.document import Bullet, Column, Document, Section, bullets, table
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.units import between, byte_size, number

if TYPE_CHECKING:
    from mpsprobe.schemas import FitReport, FitRow, SizeRange
    from mpsprobe_exporters.document import Fields

WHAT = {"batch-size": "batch", "seq-len": "sequence", "size": "image"}
LARGEST = "the largest with which PyTorch does not raise, by the smallest and the largest published figures"
CALM = "the largest with which it stays below what Metal recommends to a process: beyond it, macOS may swap"
FIELDS: Fields[FitReport, FitRow] = (
    (Column("what", key="what"), lambda _, row: row.what),
    (Column("at", "number", key="size", about="the size at which the peak was found"), lambda _, row: row.size),
    (Column("peak", "bytes", "peak_bytes"), lambda _, row: row.peak_bytes),
    (Column("saves", where="column", rank=4), lambda report, row: _saves(report, row)),
    (Column("without swapping", about=CALM), lambda _, row: _range(row.without_pressure)),
    (Column("before PyTorch raises", about=LARGEST, rank=3), lambda _, row: _range(row.largest)),
    *(
        (
            Column(f"{field}_{end}", "number", f"{field}_{end}", where="record"),
            lambda _, row, field=field, end=end: getattr(getattr(row, field), end, None),
        )
        for field in ("largest", "without_pressure")
        for end in ("low", "high")
    ),
    (Column("runs", "number", "runs", where="record"), lambda _, row: row.runs),
    (Column("bound", key="bound", where="record"), lambda _, row: row.bound),
    (Column("note", key="note", where="record"), lambda _, row: row.note),
)
"""All that is shown of a row, in every format."""


def document(report: FitReport) -> Document:
    first = report.rows[0] if report.rows else None
    fits = first is not None and first.largest is not None and first.largest.low > 0
    return Document(
        title=one_line(report.workload.name, 60),
        headline=_headline(report),
        tone="good" if fits else "bad",
        lines=[*_lines(report), *workload_lines.recalled(report.recalled, report.environment)],
        notes=[*map(one_line, report.workload.notes)],
        sections=[
            Section(
                f"How large it may be on {_mac(report)}",
                table(FIELDS, report, report.rows, "Ways to run it"),
                depth="lead",
            ),
            Section("What to know of them", bullets(_notes(report))),
        ],
    )


def _headline(report: FitReport) -> str:
    what, on = WHAT[report.vary], f"on {_mac(report)} with torch {one_line(report.target.torch, 40)}"
    first = report.rows[0] if report.rows else None
    if first is None or first.largest is None:
        return f"Nothing was run {on}"
    if first.largest.high == 0:
        others = [row for row in report.rows if row.largest is not None and row.largest.low > 0]
        best = max(others, key=lambda one: one.largest.low if one.largest else 0, default=None)
        instead = f"; with {one_line(best.what, 60)}, {what} {_range(best.largest)}" if best else "; nothing here helps"
        least = "the smallest image" if report.vary == "size" else f"{what} 1"
        return f"It does not fit {on}, {first.note or f'not even with {least}'}{instead}"
    raises = f"PyTorch raises beyond {_range(first.largest)}"
    if first.without_pressure is None or first.without_pressure.high == 0:
        return f"No {what} fits {on} without swapping; {raises}"
    return f"The largest {what} that fits {on} without swapping is {_range(first.without_pressure)}; {raises}"


def _lines(report: FitReport) -> Iterator[str]:
    run = report.workload.model_copy(update={"architecture": None})
    info = report.workload
    size = [f"batch {number(info.batch_size)}"] if info.batch_size and report.vary != "batch-size" else []
    size += [f"sequence {number(info.seq_len)}"] if info.seq_len and report.vary != "seq-len" else []
    size += [f"{number(report.new_tokens)} new tokens"] if report.new_tokens else []
    yield ", ".join(workload_lines.setting(run, size))
    yield fitting.limits(report.fit, margin=False)
    yield f"Each was run on the virtual device with {workload_lines.made_with(report.environment)}"


def _notes(report: FitReport) -> Iterator[Bullet]:
    said: dict[str, list[str]] = {}
    for row in report.rows:
        for text in (f"no larger figure: {row.bound}" if row.bound else "", row.note):
            if text:
                said.setdefault(one_line(text, 400), []).append(one_line(row.what, 60))
    for text, names in said.items():
        yield Bullet(text, ", ".join(names))
    if report.high_end:
        where = ", ".join(one_line(one, 160) for one in report.high_end)
        yield Bullet(
            f"how many are found is not known ({where}): all figures are of the high end, with the most", "data"
        )
    for read in report.data_dependence[:5]:
        tried = read.assumed.startswith(TRIED)
        of = "figures are of the side that needs more" if tried else "the peak may be another"
        assumed = f"the course depends on its value, which is not known: {one_line(read.assumed, 200)}"
        yield Bullet(f"{assumed} ({plural(read.calls, 'call')}); {of}", one_line(read.operator, 60))


def _saves(report: FitReport, row: FitRow) -> str | None:
    first = report.rows[0]
    if row is first or not row.peak_bytes or not first.peak_bytes or row.size != first.size:
        return None
    less = first.peak_bytes - row.peak_bytes
    return byte_size(less) if less > 0 else "nothing"


def _range(sizes: SizeRange | None) -> str | None:
    if sizes is None:
        return None
    return "none" if sizes.high == 0 else between(number, sizes.low, sizes.high)


def _mac(report: FitReport) -> str:
    return one_line(report.fit.machine, 60)
