"""The data that leaves mpsprobe, as pydantic models. Units are in field names (``_bytes``, ``_ns``)."""

# ruff: noqa: F401, I001 - a name on each line would be a page of them

from mpsprobe.schemas.comparison import ChangedCondition, ComparedAdvisory, ComparedCell, ComparedFailure
from mpsprobe.schemas.comparison import ComparedFallback, ComparedOperator, ComparedQuantity, ComparedSide
from mpsprobe.schemas.comparison import ComparedVerdict, ComparisonMethod, ComparisonReport, ConfigurationKey
from mpsprobe.schemas.comparison import UnpairedCell
from mpsprobe.schemas.coverage import SEVERITY, AdvisoryMatch, AffectedRange, AffectedSystems, BackendTarget
from mpsprobe.schemas.coverage import CoverageReport, CoverageSummary, DataDependence, MacosCondition, MatrixCell
from mpsprobe.schemas.coverage import MatrixReport, OperatorFinding, RefusedTensor, RunFailure, Source, TableProvenance
from mpsprobe.schemas.coverage import Target, Unjudged, Verdict
from mpsprobe.schemas.environment import Environment
from mpsprobe.schemas.profile import DeviceInfo, DurationStatistics, FallbackCost, MemoryCurve, MemoryUse, ModuleTime
from mpsprobe.schemas.profile import OperatorTime, ProbeReading, ProfileCell, ProfilePlan, ProfileReport, StepSample
from mpsprobe.schemas.profile import Throughput, UnavailableProbe, Warmup
from mpsprobe.schemas.program import ComputedOnCpu, CudaHint, OnTheCpu, ProgramInfo
from mpsprobe.schemas.report import Report, UnknownReport, read_report
from mpsprobe.schemas.trace import Counter, Trace, Track
from mpsprobe.schemas.workload import WorkloadInfo

__all__ = ["read_report", *(name for name in dir() if name[0].isupper())]  # what stands above, once
