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
    (Column("operator", "name", "operator"), lambda _, wrong: wrong.operator),
    (Column("phase", key="phase"), lambda _, wrong: wrong.phase),
    (Column("known", "advice"), lambda _, wrong: "; ".join(map(_known, wrong.advisories)) or "not known"),
    (
        Column("error", key="excess", about=EXCESS),
        lambda _, wrong: NOT_FINITE if wrong.excess is None else f"{wrong.excess:.3g} x",
    ),
    (
        Column("wrong elements", key="elements"),
        lambda _, wrong: f"{number(wrong.elements)} of {number(wrong.of_elements)}",
    ),
    (Column("got", key="got", rank=1), lambda _, wrong: figure(wrong.got)),
    (Column("expected", key="expected", rank=1), lambda _, wrong: figure(wrong.expected)),
    (Column("why", key="why"), lambda _, wrong: wrong.why),
    (Column("module", "name", "module"), lambda _, wrong: wrong.module),
    (Column("line", "name", "call_site"), lambda _, wrong: wrong.call_site),
    (Column("inputs", "names", "inputs"), lambda _, wrong: tuple(wrong.inputs)),
    (Column("layout", "names", "layouts"), lambda _, wrong: tuple(wrong.layouts)),
    (Column("dtype", key="dtype", where="record"), lambda _, wrong: wrong.dtype),
    (Column("calls", "number", "calls"), lambda _, wrong: wrong.calls),
    (Column("of three runs", key="times"), lambda _, wrong: f"{wrong.times} of {wrong.of_times}"),
    (
        Column("tolerance", key="source", where="more"),
        lambda _, wrong: f"{wrong.rtol:g} and {wrong.atol:g}: {wrong.source}",
    ),
    (Column("call", "name", "example", where="more"), lambda _, wrong: wrong.example),
)
TENSORS: Fields[None, ComparedTensor] = (
    (Column("what"), lambda _, tensor: tensor.what),
    (Column("name", "name"), lambda _, tensor: tensor.name or "·"),
    (
        Column("error", about="norm of the difference from float64, relative; from the CPU where that has none"),
        lambda _, tensor: figure(tensor.error),
    ),
    (Column("the CPU's"), lambda _, tensor: "" if tensor.cpu_error is None else f"{tensor.cpu_error:.2g}"),
    (Column("wrong", "verdict"), lambda _, tensor: "bad" if tensor.wrong else "good"),
)
BEGINS: Fields[None, NonfiniteOrigin] = (
    (Column("operator", "name"), lambda _, origin: origin.operator),
    (Column("what"), lambda _, origin: origin.what),
    (Column("on the CPU too"), lambda _, origin: "yes" if origin.cpu_too else "no"),
    (Column("phase", rank=1), lambda _, origin: origin.phase),
    (Column("module", "name"), lambda _, origin: origin.module),
    (Column("line", "name"), lambda _, origin: origin.call_site),
)


def document(report: VerificationReport) -> Document:
    wrong = [tensor for tensor in report.tensors if tensor.wrong]
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
    if any(tensor.wrong for tensor in report.tensors):
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


def _known(advisory: KnownWrong) -> str:
    fixed = f"fixed in {one_line(advisory.fixed, 40)}" if advisory.fixed else "no fix known"
    return f"known, {fixed}: {one_line(advisory.id, 60)}{' (it may be)' if advisory.undecided else ''}"


def figure(value: float | None) -> str:
    """With three digits."""
    return NOT_FINITE if value is None else f"{value:.3g}"
