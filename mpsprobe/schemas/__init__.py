"""The data that leaves mpsprobe, as pydantic models. Units are in field names (``_bytes``, ``_ns``)."""

from mpsprobe.schemas.coverage import (
    AdvisoryMatch,
    AffectedRange,
    AffectedSystems,
    CoverageReport,
    CoverageSummary,
    DataDependence,
    MacosCondition,
    MatrixCell,
    MatrixReport,
    OperatorFinding,
    RefusedTensor,
    RunFailure,
    Source,
    TableProvenance,
    Target,
    Unjudged,
    Verdict,
)
from mpsprobe.schemas.environment import Environment
from mpsprobe.schemas.report import Report, UnknownReport, read_report
from mpsprobe.schemas.workload import WorkloadInfo

__all__ = [
    "AdvisoryMatch",
    "AffectedRange",
    "AffectedSystems",
    "CoverageReport",
    "CoverageSummary",
    "DataDependence",
    "Environment",
    "MacosCondition",
    "MatrixCell",
    "MatrixReport",
    "OperatorFinding",
    "RefusedTensor",
    "Report",
    "RunFailure",
    "Source",
    "TableProvenance",
    "Target",
    "Unjudged",
    "UnknownReport",
    "Verdict",
    "WorkloadInfo",
    "read_report",
]
