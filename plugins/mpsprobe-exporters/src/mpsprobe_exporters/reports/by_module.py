"""A coverage report as somebody reads it who edits the model: how much of each module is native, then what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING

from mpsprobe.declarations import SEVERITY
from mpsprobe_exporters.answer import FINDINGS, short_answer
from mpsprobe_exporters.document import Bar, Bars, Document, Part, Section
from mpsprobe_exporters.module_names import ROOT, fold_names
from mpsprobe_exporters.reports import coverage
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport
    from mpsprobe_exporters.document import Block

SHOWN = ("native", *sorted(FINDINGS, key=SEVERITY.__getitem__))
MOST = 12  # modules below one of the tree's


def document(report: CoverageReport) -> Document:
    """The headline, a bar for each module, and what to do."""
    whole = coverage.document(report)
    bars = Section("Operators by module", [*_bars(report)])
    headline, *_ = short_answer(report)
    return whole._replace(headline=headline, lines=(), brief=(), sections=[bars, *coverage.middle(report)])


def _bars(report: CoverageReport) -> Iterator[Block]:
    """One for each child of the first module that has several; below it those of its modules that have findings."""
    met: dict[str, set[tuple[str, str]]] = {}  # module → its operators, each with a verdict
    for one in report.operators:
        for module in (one.modules or [""]) if one.verdict in SHOWN else ():
            met.setdefault(module, set()).add((one.operator, one.verdict))
    paths = [module.split(".") for module in met if module not in ("", ROOT)]
    depth = len([*takewhile(lambda names: len(set(names)) == 1, zip(*(path[:-1] for path in paths), strict=False))])
    children: dict[str, list[str]] = {}
    for module in met:
        children.setdefault(".".join(module.split(".")[: depth + 1]), []).append(module)
    rows: list[tuple[str, Mapping[str, int]]] = []
    for child, modules in children.items():
        rows.append((child or ROOT, _counted(met, modules)))
        inside = [one for one in modules if one != child and any(verdict != "native" for _, verdict in met[one])]
        alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
        for module in inside:
            alike.setdefault(tuple(_counted(met, [module]).items()), []).append(module)
        rows += [
            (f"  {name.removeprefix(child)}", dict(counts))
            for counts, names in [*alike.items()][:MOST]
            for name in fold_names(names)
        ]
    most = max((sum(counts.values()) for _, counts in rows), default=1)
    bars = [
        Bar(
            label,
            [Part(count / most, verdict, verdict) for verdict, count in counts.items()],
            ", ".join(f"{number(count)} {verdict}" for verdict, count in counts.items()),
        )
        for label, counts in rows
    ]
    if bars:
        yield Bars(bars, "Operators", [(verdict, verdict) for verdict in SHOWN])


def _counted(met: Mapping[str, Iterable[tuple[str, str]]], modules: Iterable[str]) -> dict[str, int]:
    """How many operators of ``modules`` have each verdict."""
    counts = Counter(verdict for _, verdict in {one for module in modules for one in met[module]})
    return {verdict: counts[verdict] for verdict in SHOWN if counts[verdict]}
