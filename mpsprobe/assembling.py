"""Reports put together: one of what was found on a release, one of many releases, one of many processes. Public.

Every ``CoverageReport`` and ``MatrixReport`` that is worked out comes from here, whoever recorded the calls. Many
releases need no pydantic: their reports may be documents as JSON has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from mpsprobe.declarations import SEVERITY, Verdict
from mpsprobe.doubts import applying

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, CoverageSummary, MatrixReport, OperatorFinding

REGISTERED_ONLY = "registered only"
"""The evidence of a native call whose dtypes no test and no Metal kernel shows to work."""
OF_A_RUN = {"native_since", "parameters_bytes", "transfers", "graphs", "advisories_compared"}
"""Of a summary, what neither operators nor advisories say."""
SHAPES_SHOWN = 8
"""Distinct shapes, and examples, of one finding."""
OF_A_CELL = ("peak_bytes", "allocated_bytes", "reserved_bytes")
"""Of its memory, what a report has that is one of many."""


class Tally:
    """Calls of one operator under one judgement, counted by where they are made and what they are made on."""

    def __init__(self) -> None:
        self.phases: Counter[str] = Counter()
        self.sites: Counter[str] = Counter()
        self.modules: dict[str, None] = {}
        self.dtypes: Counter[str] = Counter()
        self.shapes: Counter[str] = Counter()
        self.input_bytes = self.output_bytes = 0

    def add_place(self, calls: int, phase: str, module: str | None, site: str | None) -> None:
        """Count ``calls`` of one place: in ``module`` of the model, at the line ``site``."""
        self.phases[phase] += calls
        if module is not None:
            self.modules[module] = None
        if site is not None:
            self.sites[site] += calls

    def add_tensors(self, calls: int, dtypes: Iterable[str], shapes: str, input_bytes: int, output_bytes: int) -> None:
        """Count ``calls`` with tensors alike; bytes are those of one call."""
        for dtype in dict.fromkeys(dtypes):
            self.dtypes[dtype] += calls
        self.shapes[shapes] += calls
        self.input_bytes += calls * input_bytes
        self.output_bytes += calls * output_bytes

    def places(self) -> dict[str, Any]:
        """As the fields of a record that has calls, the most frequent lines first."""
        return {
            "calls": self.phases.total(),
            "phases": dict(self.phases),
            "modules": list(self.modules),
            "call_sites": [site for site, _ in self.sites.most_common()],
        }

    def fields(self) -> dict[str, Any]:
        """As fields of a finding, the most frequent dtypes and shapes first."""
        return {
            **self.places(),
            "dtypes": [name for name, _ in self.dtypes.most_common()],
            "shapes": [name for name, _ in self.shapes.most_common(SHAPES_SHOWN)],
            "input_bytes": self.input_bytes,
            "output_bytes": self.output_bytes,
        }


def worst_first(findings: Iterable[OperatorFinding]) -> list[OperatorFinding]:
    """In the order of a report: the worst verdicts first, then by calls."""
    return sorted(findings, key=lambda finding: (-SEVERITY[finding.verdict], -finding.calls, finding.operator))


def summary_of(operators: Sequence[OperatorFinding], **others: Any) -> CoverageSummary:
    """Counts by verdict. An operator with several verdicts counts once, under the worst.

    Args:
        operators: the worst verdicts first.
        others: the fields of the summary that operators do not say.
    """
    from mpsprobe.schemas import CoverageSummary

    worst: dict[str, Verdict] = {}
    calls: Counter[Verdict] = Counter()
    for operator in operators:
        calls[operator.verdict] += operator.calls
        worst.setdefault(operator.operator, operator.verdict)
    counted = Counter(worst.values())
    return CoverageSummary(
        calls=calls.total(),
        operators=len(worst),
        calls_by_verdict={verdict: calls[verdict] for verdict in SEVERITY if calls[verdict]},
        operators_by_verdict={verdict: counted[verdict] for verdict in SEVERITY if counted[verdict]},
        calls_registered_only=sum(finding.calls for finding in operators if finding.evidence == REGISTERED_ONLY),
        **others,
    )


def report_of(operators: list[OperatorFinding], summary: Mapping[str, Any], **fields: Any) -> CoverageReport:
    """The report on one release.

    Args:
        operators: the worst verdicts first.
        summary: the fields of the summary that neither operators nor advisories say.
        fields: the other fields of the report.
    """
    from mpsprobe.schemas import CoverageReport

    known = [match for match in fields.get("advisories", ()) if not match.undecided]
    counts = summary_of(operators, advisories=len(known), **summary)
    return CoverageReport(operators=operators, summary=counts, **{"method": "predicted", **fields})


def merged(reports: Sequence[CoverageReport]) -> CoverageReport:
    """What all processes of a program did; what cannot be added up is that of the first report.

    Args:
        reports: at least one; for the same device and release.
    """
    from mpsprobe.folding import folded

    if len(reports) == 1:
        return reports[0]
    whole = folded(reports)
    operators = [
        finding.model_copy(
            update={"shapes": finding.shapes[:SHAPES_SHOWN], "examples": finding.examples[:SHAPES_SHOWN]}
        )
        for finding in worst_first(whole.operators)
    ]
    known = whole.summary.model_dump(include=OF_A_RUN)
    # What ended a worker is the cause of what ended the program that waited for it.
    failure = next((report.failure for report in reversed(reports) if report.failure), None)
    summary = summary_of(operators, advisories=len(applying(whole)), **known)
    return whole.model_copy(update={"operators": operators, "summary": summary, "failure": failure})


def matrix_of(reports: Sequence[CoverageReport]) -> MatrixReport:
    """The report on many releases, from those on single ones, the oldest first."""
    from mpsprobe.schemas import MatrixReport

    return MatrixReport.model_validate(matrix_fields(reports))


def matrix_fields(reports: Sequence[Any]) -> dict[str, Any]:
    """``matrix_of`` as the fields of a report, which are a document where ``reports`` are (``views.as_it_is``)."""
    newest = reports[-1]
    cells = [_cell(report) for report in reports]
    native = [*takewhile(lambda cell: not cell["findings"] and cell["failure"] is None, reversed(cells))]
    advisories = {match.id: match for report in reports for match in applying(report)}
    return {
        "kind": "coverage-matrix",
        "schema_version": 1,
        "method": newest.method,
        "workload": newest.workload.model_copy(update={"notes": _notes(reports)}),
        "environment": newest.environment,
        "native_since": _release(native[-1]["target"]) if native else None,
        "releases": cells,
        "operators": newest.operators,
        "not_judged": newest.not_judged,
        "data_dependence": newest.data_dependence,
        "advisories": [*advisories.values()],
    }


def _cell(report: Any) -> dict[str, Any]:
    memory = report.memory
    return {
        "target": report.target,
        "summary": report.summary.model_copy(update={"native_since": None, "graphs": None}),
        "memory": {name: getattr(memory, name) for name in OF_A_CELL} if memory and not report.failure else None,
        "fit": memory.fit if memory else None,
        "findings": {
            operator.operator: operator.verdict
            for operator in reversed(report.operators)
            if operator.verdict != "native"
        },
        "advisories": [match.id for match in applying(report)],
        "failure": report.failure,
    }


def _release(target: Any) -> str:
    return str(target.torch or target.release)  # another framework's target has no torch


def _notes(reports: Sequence[Any]) -> list[str]:
    """Those of all releases, then those of some, with the newest of these; texts may differ by their release."""
    notes = {_release(report.target): report.workload.notes for report in reports}
    shared = [note for note in reports[-1].workload.notes if all(note in others for others in notes.values())]
    own: dict[str, str] = {}
    for release, of_release in reversed(notes.items()):
        for note in of_release:
            if note not in shared:
                own.setdefault(note.replace(release, ""), f"torch {release}: {note}")
    return [*shared, *own.values()]
