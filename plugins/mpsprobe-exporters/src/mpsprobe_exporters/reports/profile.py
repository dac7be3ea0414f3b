"""A profile as a document: the answer, what to do about it, every configuration, and what each was made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import backends, workload_lines
from mpsprobe_exporters.document import Column, Document, Paragraph, Section, Table, Tile, Tiles, bullets, table
from mpsprobe_exporters.plain_text import one_line, plural, shortened
from mpsprobe_exporters.reports import configurations, profile_advice, profile_configurations, profile_measurements
from mpsprobe_exporters.reports.profile_configurations import interval, peak
from mpsprobe_exporters.units import amount, byte_size, duration, number, percent

if TYPE_CHECKING:
    from mpsprobe.schemas import ProfileCell, ProfileReport, WorkloadInfo
    from mpsprobe_exporters.document import Block, Fields
    from mpsprobe_exporters.reports.profile_advice import Advice

INTERRUPTED = "Interrupted: what was measured before is here"
NOTHING_TO_DO = "Nothing in this report asks for a change."
MOST_ALERTS, MOST_LINES, MOST_REMARKS, MOST_ADVICE = 3, 5, 200, 8
MOST_ALIKE = 2  # configurations up to which a remark is repeated for each, and which are named
TO_DO: Fields[None, Advice] = (
    (Column("about", "verdict"), lambda _, advice: advice.kind),
    (Column("do"), lambda _, advice: advice.remedy),
    (Column("why"), lambda _, advice: advice.finding),
    (Column("where"), lambda _, advice: advice.where),
    (Column("also"), lambda _, advice: "; ".join(shortened(list(advice.also), MOST_ALIKE))),
)


def document(report: ProfileReport) -> Document:
    divided = profile_advice.divided(report)
    advice = profile_advice.recommendations(report, divided)
    names = dict.fromkeys(one_line(workload.name, 60) for workload in report.workloads)
    environment = report.environment
    made = [f"Measured with {workload_lines.made_with(environment)}"] if environment else []
    alerts = list(_alerts(report))
    fields = ("operators", "modules", "memory", "trace", "readings")
    absent = [field for field in fields if not any(getattr(cell, field) for cell in report.cells)]
    hint = f"No {', no '.join(absent)}: mpsprobe profile --probe all measures what this device and system can give."
    to_do = table(TO_DO, None, advice, entries=True, most=MOST_ADVICE)
    return Document(
        title=", ".join(shortened(list(names), 3)),
        headline=short_answer(report),
        tone="bad" if alerts else "plain",
        alerts=alerts,
        lines=[*_workload_lines(report), *_device_lines(report), *made],
        cells=[configurations.name(report, cell) for cell in report.cells],
        chosen=first_of(report),
        sections=[
            Section("", list(_tiles(report)), depth="page"),
            Section("What to do", to_do or [Paragraph(NOTHING_TO_DO)], depth="lead"),
            *profile_configurations.sections(report, divided),
            *profile_measurements.sections(report),
            Section("Remarks", _remarks(report)),
            Section("How it was measured", [_facts(report)], depth="all"),
            Section("Not in this report", [Paragraph(hint)] if absent else [], depth="page"),
        ],
    )


def short_answer(report: ProfileReport) -> str:
    measured = [(cell, cell.step) for cell in report.cells if cell.step is not None]
    if not measured:
        failed = any(cell.failure for cell in report.cells)
        return f"No {_what(report.workloads[0])} was {'measured to its end' if failed else 'timed'}"
    first, step = measured[0]
    text = f"A {_what(report.workload_of(first))} takes {duration(step.median_ns)} on {_device(report, first)}"
    rate = configurations.rate(first, "samples")
    text += f": {amount(rate)} samples/s" if rate is not None else ""
    times = configurations.speed_up(report, first)
    if times is None or first.device == report.plan.baseline:
        return text
    base = configurations.twin(report, first, report.plan.baseline or "")
    return f"{text}; {amount(times[0])} times as fast as {_device(report, base or first)}"


def _what(workload: WorkloadInfo) -> str:
    return f"{'training step' if workload.phase == 'training' else 'step'} of {one_line(workload.name, 60)}"


def _device(report: ProfileReport, cell: ProfileCell) -> str:
    name = next((device.name for device in report.devices if device.type == cell.device), "")
    if not name:
        return one_line(cell.device)
    shared = sum(device.name == name for device in report.devices) > 1  # of a Mac, the GPU and the CPU have one name
    return f"{one_line(cell.device, 20)} ({one_line(name)})" if shared else one_line(name)


def _alerts(report: ProfileReport) -> Iterator[str]:
    if not report.complete:
        yield INTERRUPTED
    stopped = []
    for cell in report.cells:
        if cell.failure is not None:
            error = f"{one_line(cell.failure.error)}: {one_line(cell.failure.message)}"
            where = configurations.name(report, cell)
            stopped.append(f"{where}: stopped in {one_line(cell.failure.phase)}: {error}")
    yield from shortened(stopped, MOST_ALERTS)


def _workload_lines(report: ProfileReport) -> list[str]:
    """What was run: ``distilbert (DistilBertModel, 66.4 M parameters), inference, float32, 20 timed steps``."""
    compiled = ["torch.compile"] if report.plan.compile else []
    known = report.environment is not None  # an imported trace does not say how many parameters: no zero
    steps = plural(report.plan.steps, "timed step")
    lines = (
        [*workload_lines.setting(workload, compiled=compiled, counted=bool(workload.parameters) or known), steps]
        for workload in report.workloads
    )
    return shortened([", ".join(parts) for parts in lines], MOST_LINES)


def _device_lines(report: ProfileReport) -> Iterator[str]:
    for info in report.devices:
        facts = [byte_size(info.memory_bytes)] if info.memory_bytes else []
        facts += [f"{one_line(key, 40)} {one_line(value, 80)}" for key, value in info.capabilities.items()]
        facts += [one_line(caveat) for caveat in info.caveats]
        if info.name or facts:  # a trace may have neither
            yield f"{one_line(info.type)}: {one_line(info.name)}" + (f" ({', '.join(facts)})" if facts else "")


def first_of(report: ProfileReport) -> int:
    """The configuration to begin with: the first that was looked into, else the first that was measured, else any."""
    looked_into = (index for index, cell in enumerate(report.cells) if cell.operators or cell.trace)
    measured = (index for index, cell in enumerate(report.cells) if cell.step is not None)
    return next(looked_into, next(measured, 0))


def _tiles(report: ProfileReport) -> Iterator[Block]:
    if not report.cells:
        return
    cell = report.cells[first_of(report)]
    if len(report.cells) > 1:
        yield Paragraph(configurations.name(report, cell))
    if tiles := list(_figures(report, cell)):
        yield Tiles(tiles)


def _figures(report: ProfileReport, cell: ProfileCell) -> Iterator[Tile]:
    if (step := cell.step) is not None:
        yield Tile("Median step", duration(step.median_ns), f"{interval(cell)}, spread {percent(step.spread)}")
    for rate in cell.throughput[:2]:
        title = f"{one_line(rate.unit, 20)}/s".capitalize()
        yield Tile(title, amount(rate.per_second), f"{amount(rate.low)} to {amount(rate.high)}")
    faster = configurations.speed_up(report, cell)
    if faster is not None and cell.device != report.plan.baseline:
        title = f"Against {one_line(report.plan.baseline or '', 20)}"
        yield Tile(title, f"{amount(faster[0])} x", f"as fast; {amount(faster[1])} to {amount(faster[2])} x")
    if cell.first_call_ns:
        several = len(cell.first_call_ns)
        what = f"longest of {number(several)} processes" if several > 1 else "with its compilations"
        yield Tile("First call", duration(max(cell.first_call_ns)), what)
    what, size = peak(cell)
    if size is not None and cell.memory is not None:
        yield Tile("Peak memory", byte_size(size), f"{what}, {profile_configurations.SOURCES[cell.memory.source]}")
    if cell.fallbacks:
        observed = sum(fallback.duration_ns or 0 for fallback in cell.fallbacks)
        spent = f"{duration(observed)} a step" if observed else "predicted"
        yield Tile(f"Leaves {backends.profiled(report)}", plural(len(cell.fallbacks), "operator"), spent)


def _remarks(report: ProfileReport) -> list[Block]:
    lines = [one_line(note) for workload in report.workloads for note in workload.notes]
    lines += map(one_line, report.notes)
    where: dict[str, list[str]] = {}
    for cell in report.cells:
        for text in remarks_on(cell):
            where.setdefault(text, []).append(configurations.name(report, cell))
    for text, places in where.items():
        several = [plural(len(places), "configuration")] if len(places) > MOST_ALIKE else places
        lines += [f"{place}: {text}" for place in several]
    return bullets(shortened(list(dict.fromkeys(lines)), MOST_REMARKS))


def remarks_on(cell: ProfileCell) -> Iterator[str]:
    step = cell.step
    if step is not None and step.outliers and not profile_advice.has_many_outliers(step):
        yield f"{plural(step.outliers, 'outlier')} among {plural(step.count, 'step')}, kept in the figures"
    yield from map(one_line, cell.notes)
    for reason in cell.unavailable:
        yield f"{one_line(reason.probe, 40)} was not measured: {one_line(reason.reason)}"


def _facts(report: ProfileReport) -> Table:
    plan, made = report.plan, report.environment
    asked = [plural(plan.steps, "timed step")]
    if plan.warmup is not None or made is not None:  # an imported trace was asked for nothing
        asked.append("warm-up until stable" if plan.warmup is None else plural(plan.warmup, "warm-up step"))
    asked += [plural(plan.processes, "fresh process", "fresh processes")] if plan.processes > 1 else []
    asked += ["torch.compile"] if plan.compile else []
    asked += [f"runner {plan.runner}"] if plan.runner != "plain" else []
    asked += [f"baseline {plan.baseline}"] if plan.baseline else []
    asked += [f"preset {plan.preset}"] if plan.preset else []
    asked += [f"probes {', '.join(plan.probes)}"] if plan.probes else []
    rows = [("asked for", ", ".join(asked))]
    if made is not None:
        build = f"{made.torch}+{made.torch_build}" if made.torch and made.torch_build else made.torch
        libraries = {"torch": build, "transformers": made.transformers, "torchvision": made.torchvision}
        libraries |= {"tensorflow": made.tensorflow, "keras": made.keras}
        versions = {"mpsprobe": made.mpsprobe, "Python": made.python, **libraries}
        said = [f"{name} {version}" for name, version in versions.items() if version]
        rows.append(("versions", ", ".join([*said, made.platform])))
    if report.predicted_with is not None and report.predicted_with.wheel:
        rows.append(("fallbacks predicted with", report.predicted_with.wheel))
    return Table((Column("what"), Column("how")), rows)
