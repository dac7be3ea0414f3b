"""What a report says about MPSGraphs that are compiled for new shapes, in sentences, for every format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import backends
from mpsprobe_exporters.document import Bullet, Section, bullets
from mpsprobe_exporters.plain_text import one_line
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, GraphCount, GraphGrowth, OperatorFinding

WHEN = {"always": "every new shape compiles one", "may": "some new shapes compile one"}
MOST_NAMED = 4
STAYS = "No graph leaves the cache, so memory and the time of first calls grow with every new shape."


def of_operator(one: OperatorFinding) -> str | None:
    """``every new shape compiles one: 4 in this run``; nothing where none is compiled."""
    when = WHEN.get(one.graph or "")
    most = "" if one.graph == "always" else "at most "
    return f"{when}: {most}{number(one.graphs)} in this run" if when else None


def counted(count: GraphCount) -> str:
    """``3``, ``3 to 12``."""
    alike = count.least == count.most
    return number(count.most) if alike else f"{number(count.least)} to {number(count.most)}"


def _all_of(found: GraphGrowth) -> str:
    if found.varied == "new-tokens":
        return f"A generation of {number(found.last)} tokens compiles"
    return f"{one_line(found.varied)} {number(found.first)} to {number(found.last)} compile"


def growth(report: CoverageReport) -> Iterator[Section]:
    """What ``--vary`` asked for."""
    found = report.growth
    if found is None:
        return
    ran = ", ".join(map(number, found.tried))
    said = [
        f"{_all_of(found)} {counted(found.total)} graphs: {counted(found.each)} for each "
        f"{'token' if found.varied == 'new-tokens' else 'value'}, and {counted(found.fixed)} that all share. "
        f"Predicted from runs with {ran}.",
        STAYS,
    ]
    unsure = [one_line(one.operator) for one in report.operators if one.graph == "may"]
    if unsure and found.total.least != found.total.most:
        some = ", ".join(unsure[:MOST_NAMED]) + (", …" if len(unsure) > MOST_NAMED else "")
        said.append(f"It is a range because of {some}: some of their calls have ready kernels, which compile nothing.")
    if found.padded is not None and found.padded_to is not None and found.padded_to > 1:
        said.append(f"Padded to multiples of {number(found.padded_to)} they compile {counted(found.padded)}.")
    if found.static is not None:
        said.append(f"With a cache of one size (--cache static) it compiles {counted(found.static)}.")
    title = f"MPSGraphs on {backends.on_release(report.target, report.target.version)}"
    yield Section(title, bullets(Bullet(text) for text in said))
