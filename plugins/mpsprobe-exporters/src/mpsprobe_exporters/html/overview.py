"""The first view of a profile: the answer, what to do, every configuration, and what a reader should know of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import profile_answer
from mpsprobe_exporters.html import charts, tables
from mpsprobe_exporters.html.markup import Markup, block, element, joined, plain_list
from mpsprobe_exporters.html.scales import TIMES, bounded
from mpsprobe_exporters.html.tables import Column, Field
from mpsprobe_exporters.html.views.summary import tiles
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.profile_advice import Advice, divided, recommendations
from mpsprobe_exporters.speed_ups import ratios
from mpsprobe_exporters.units import amount, duration, number, percent

if TYPE_CHECKING:
    from mpsprobe.schemas import Environment, ProfileCell, ProfileReport

MOST_REMARKS = 200

COLUMNS = (
    Column("Workload"),
    Column("Phase"),
    Column("Device"),
    Column("Batch", True, "samples in a step"),
    Column("Sequence", True, "tokens, frames, … in a sample"),
    Column("Dtype"),
    Column("Step", True, "median of the timed steps"),
    Column("95 % interval", about="of the median, by bootstrap"),
    Column("Spread", True, "scaled median absolute deviation as a share of the median"),
    Column("Samples/s", True),
    Column("Tokens/s", True),
    Column("Speed-up", True, "how many times as fast as the baseline"),
    Column("First call", True, "with its compilations; the longest of the processes"),
    Column("Peak memory", True, "allocated, where the device tells; else of the process"),
)


def overview(report: ProfileReport, chosen: int) -> Iterator[Markup]:
    """The blocks of the view; ``chosen`` is the configuration of which the tiles tell."""
    yield from _alerts(report)
    if report.cells:
        cell = report.cells[chosen]
        if len(report.cells) > 1:
            yield element("p", profile_answer.configuration(report, cell), class_="quiet tiles-of")
        yield tiles(report, cell)
    divisions = divided(report)
    yield from _advice(recommendations(report, divisions))
    yield from block("Configurations", [_configurations(report)])
    yield from block("Speed-up", charts.speed_ups(report))
    yield from block("Where a step goes", [*charts.phases(report), *charts.divisions(report, divisions)])
    yield from block("Remarks", _remarks(report))
    yield from block("How it was measured", _facts(report))


def _alerts(report: ProfileReport) -> Iterator[Markup]:
    if not report.complete:
        yield element("p", f"{profile_answer.INTERRUPTED}.", class_="alert")
    failed = [cell for cell in report.cells if cell.failure is not None]
    if failed:
        said = f"{plural(len(failed), 'configuration')} of {number(len(report.cells))} could not be measured to the end"
        yield element("p", f"{said}: see the remarks.", class_="alert")


def _advice(found: list[Advice]) -> Iterator[Markup]:
    items = []
    for one in found:
        where = element("span", one.where, class_="where") if one.where else None
        rest = (
            element("span", f" The same in {number(one.more)} more configurations.", class_="quiet")
            if one.more
            else None
        )
        items.append(
            element(
                "li",
                element("span", one.kind, class_="tag"),
                element("p", where, element("b", one.remedy), " ", one.found, rest),
            )
        )
    nothing = element("p", "Nothing in this report asks for a change.", class_="quiet")
    yield element(
        "section", element("h3", "What to do"), element("ul", *items) if items else nothing, class_="block advice"
    )


def _configurations(report: ProfileReport) -> Markup | None:
    rows = [_row(report, index, cell) for index, cell in enumerate(report.cells)]
    if not rows:
        return element("p", "No configuration was measured.", class_="quiet")
    filtered = "Filter configurations" if len(rows) > 8 else None
    return tables.table(plural(len(rows), "configuration"), COLUMNS, rows, filtered=filtered)


def _row(report: ProfileReport, index: int, cell: ProfileCell) -> tuple[Field, ...]:
    step, rates = cell.step, {one.unit: one.per_second for one in cell.throughput}
    faster = ratios(report, cell)
    several = len(report.cells) > 1
    dtype = [one_line(cell.dtype, 40)] if cell.dtype else []
    dtype += [f"autocast {one_line(cell.autocast, 40)}"] if cell.autocast else []
    spread = None if step is None else bounded(step.spread)
    low, high = ("", "") if step is None else (duration(step.low_ns), duration(step.high_ns))
    return (
        tables.words(element("a", one_line(cell.workload, 60), href="#steps", data_cell=index if several else None)),
        tables.words(cell.phase),
        tables.words(one_line(cell.device, 40)),
        tables.count(cell.batch_size),
        tables.count(cell.seq_len),
        tables.words(", ".join(dtype)),
        Field(element("span", "failed", class_="tag bad")) if step is None else tables.time(step.median_ns),
        tables.words(element("span", f"{low} to {high}", class_="whole") if step is not None else None),
        Field(None if spread is None else percent(spread), spread),
        tables.rate(rates.get("samples")),
        tables.rate(rates.get("tokens")),
        Field(f"{amount(faster[0])} {TIMES}" if faster else None, faster[0] if faster else None),
        tables.time(max(cell.first_call_ns, default=None)),
        tables.size(_peak(cell)),
    )


def _peak(cell: ProfileCell) -> int | None:
    if cell.memory is None:
        return None
    found = cell.memory.peak_allocated_bytes
    return cell.memory.peak_process_bytes if found is None else found


def _remarks(report: ProfileReport) -> Iterator[Markup]:
    said = list(dict.fromkeys(profile_answer.remarks(report)))
    rest = [f"and {number(len(said) - MOST_REMARKS)} more"] if len(said) > MOST_REMARKS else []
    yield from plain_list(said[:MOST_REMARKS] + rest)


def _facts(report: ProfileReport) -> Iterator[Markup]:
    plan = report.plan
    facts: list[tuple[str, Iterable[str]]] = [("Workload", profile_answer.workload_lines(report)[:MOST_REMARKS])]
    facts += [("Device", [line]) for line in profile_answer.device_lines(report)]
    facts.append(("Versions", _versions(report.environment)))
    asked = [plural(plan.steps, "timed step")]
    if plan.warmup is not None or report.environment is not None:  # an imported trace was asked for nothing
        asked.append("warm-up until stable" if plan.warmup is None else plural(plan.warmup, "warm-up step"))
    asked += [plural(plan.processes, "fresh process", "fresh processes")] if plan.processes > 1 else []
    asked += ["torch.compile"] if plan.compile else []
    asked += [f"runner {one_line(plan.runner, 40)}"] if plan.runner != "plain" else []
    asked += [f"baseline {one_line(plan.baseline, 40)}"] if plan.baseline else []
    asked += [f"preset {one_line(plan.preset, 60)}"] if plan.preset else []
    asked += [f"probes {', '.join(one_line(one, 40) for one in plan.probes)}"] if plan.probes else []
    facts.append(("Asked for", [", ".join(asked)]))
    yield element("dl", *_described(facts), class_="facts")


def _described(facts: Iterable[tuple[str, Iterable[str]]]) -> Iterator[Markup]:
    for title, lines in facts:
        yield joined([element("dt", title), *(element("dd", line) for line in lines)])


def _versions(environment: Environment | None) -> list[str]:
    if environment is None:
        return ["not known: the trace was taken elsewhere"]
    said = [f"mpsprobe {one_line(environment.mpsprobe, 60)}", f"Python {one_line(environment.python, 60)}"]
    build = f"+{one_line(environment.torch_build, 40)}" if environment.torch_build else ""
    said += [f"torch {one_line(environment.torch, 60)}{build}"] if environment.torch else []
    said += [f"transformers {one_line(environment.transformers, 60)}"] if environment.transformers else []
    said += [f"torchvision {one_line(environment.torchvision, 60)}"] if environment.torchvision else []
    return [", ".join([*said, one_line(environment.platform, 100)])]
