"""Whether a device computed a step rightly: the operators that were wrong, and how errors grew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import workload_lines
from mpsprobe_exporters.document import Bullet, Column, Document, Section, bullets, table
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe.schemas import ComparedTensor, KnownWrong, NonfiniteOrigin, VerificationReport, WrongOperator
    from mpsprobe_exporters.document import Fields

EXCESS = "the largest error, as a multiple of what PyTorch's own tests allow"
NOT_FINITE = "not finite"
MOST = 40

FIELDS: Fields[None, WrongOperator] = (
    (Column("operator", "name", "operator"), lambda _, one: one.operator),
    (Column("phase", key="phase"), lambda _, one: one.phase),
    (Column("known", "advice"), lambda _, one: "; ".join(map(_known, one.advisories)) or "not known"),
    (
        Column("error", key="excess", about=EXCESS),
        lambda _, one: NOT_FINITE if one.excess is None else f"{one.excess:.3g} x",
    ),
    (Column("wrong elements", key="elements"), lambda _, one: f"{number(one.elements)} of {number(one.of_elements)}"),
    (Column("got", key="got", rank=1), lambda _, one: figure(one.got)),
    (Column("expected", key="expected", rank=1), lambda _, one: figure(one.expected)),
    (Column("why", key="why"), lambda _, one: one.why),
    (Column("module", "name", "module"), lambda _, one: one.module),
    (Column("line", "name", "call_site"), lambda _, one: one.call_site),
    (Column("inputs", "names", "inputs"), lambda _, one: tuple(one.inputs)),
    (Column("layout", "names", "layouts"), lambda _, one: tuple(one.layouts)),
    (Column("dtype", key="dtype", where="record"), lambda _, one: one.dtype),
    (Column("calls", "number", "calls"), lambda _, one: one.calls),
    (Column("of three runs", key="times"), lambda _, one: f"{one.times} of {one.of_times}"),
    (Column("tolerance", key="source", where="more"), lambda _, one: f"{one.rtol:g} and {one.atol:g}: {one.source}"),
    (Column("call", "name", "example", where="more"), lambda _, one: one.example),
)
TENSORS: Fields[None, ComparedTensor] = (
    (Column("what"), lambda _, one: one.what),
    (Column("name", "name"), lambda _, one: one.name or "·"),
    (
        Column("error", about="norm of the difference from float64, relative; from the CPU where that has none"),
        lambda _, one: figure(one.error),
    ),
    (Column("the CPU's"), lambda _, one: "" if one.cpu_error is None else f"{one.cpu_error:.2g}"),
    (Column("wrong", "verdict"), lambda _, one: "bad" if one.wrong else "good"),
)
BEGINS: Fields[None, NonfiniteOrigin] = (
    (Column("operator", "name"), lambda _, one: one.operator),
    (Column("what"), lambda _, one: one.what),
    (Column("on the CPU too"), lambda _, one: "yes" if one.cpu_too else "no"),
    (Column("phase", rank=1), lambda _, one: one.phase),
    (Column("module", "name"), lambda _, one: one.module),
    (Column("line", "name"), lambda _, one: one.call_site),
)


def document(report: VerificationReport) -> Document:
    wrong = [one for one in report.tensors if one.wrong]
    return Document(
        title=f"{one_line(report.workload.name, 60)} on {one_line(report.device.name, 60)}",
        headline=_headline(report),
        tone="bad" if report.wrong or wrong or report.parted or report.failure else "good",
        alerts=list(_alerts(report)),
        lines=[
            workload_lines.workload_line(report.workload),
            f"{number(report.calls)} calls of {plural(len(report.operators), 'operator')} computed again on the CPU; "
            f"made with {workload_lines.made_with(report.environment)}",
        ],
        notes=[one_line(note, 1000) for note in report.notes],
        sections=[
            Section(
                "Wrong operators, the first one first",
                table(FIELDS, None, report.wrong, "Operators", entries=True),
                depth="lead",
            ),
            Section("Where NaN and infinity begin", table(BEGINS, None, report.nonfinite, "Operators", most=MOST)),
            Section("Wrong in the whole run", table(TENSORS, None, wrong, "Tensors", most=MOST)),
            Section("How the error grows", table(TENSORS, None, report.tensors, "Tensors", most=MOST), depth="all"),
            Section("Not compared", bullets(Bullet(one_line(why), name) for name, why in report.skipped.items())),
        ],
    )


def _headline(report: VerificationReport) -> str:
    device = one_line(report.device.name, 60)
    if report.wrong:
        first = report.wrong[0]
        where = f" in {one_line(first.module, 80)}" if first.module else ""
        counted = f", and {len(report.wrong) - 1} more" if len(report.wrong) > 1 else ""
        return f"{one_line(first.operator, 80)}{where} is wrong on {device}{counted}"
    if report.parted:
        return f"Control flow took another course on {device}"
    if any(one.wrong for one in report.tensors):
        return f"No operator is wrong on {device}, but the whole run is farther from float64 than the CPU's"
    cut = report.interrupted or report.failure is not None
    return f"{device} computed all {number(report.calls)} calls rightly" + (" so far" if cut else "")


def _alerts(report: VerificationReport) -> Iterator[str]:
    if report.parted:
        yield one_line(f"Control flow took another course: {report.parted}", 400)
    if report.failure is not None:
        failure = report.failure
        yield one_line(f"The device raised in {failure.phase}: {failure.error}: {failure.message}", 400)
    if report.interrupted:
        yield "It was interrupted: what follows is what was found until then"


def _known(one: KnownWrong) -> str:
    fixed = f"fixed in {one_line(one.fixed, 40)}" if one.fixed else "no fix known"
    return f"known, {fixed}: {one_line(one.id, 60)}{' (it may be)' if one.undecided else ''}"


def figure(value: float | None) -> str:
    """With three digits."""
    return NOT_FINITE if value is None else f"{value:.3g}"
