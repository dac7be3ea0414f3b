"""The data that leaves mpsprobe, as pydantic models. Units are in field names (``_bytes``, ``_ns``)."""

from mpsprobe.schemas.comparison import (
    ChangedCondition as ChangedCondition,
)
from mpsprobe.schemas.comparison import (
    ComparedAdvisory as ComparedAdvisory,
)
from mpsprobe.schemas.comparison import (
    ComparedCell as ComparedCell,
)
from mpsprobe.schemas.comparison import (
    ComparedFailure as ComparedFailure,
)
from mpsprobe.schemas.comparison import (
    ComparedFallback as ComparedFallback,
)
from mpsprobe.schemas.comparison import (
    ComparedOperator as ComparedOperator,
)
from mpsprobe.schemas.comparison import (
    ComparedQuantity as ComparedQuantity,
)
from mpsprobe.schemas.comparison import (
    ComparedSide as ComparedSide,
)
from mpsprobe.schemas.comparison import (
    ComparedVerdict as ComparedVerdict,
)
from mpsprobe.schemas.comparison import (
    ComparisonMethod as ComparisonMethod,
)
from mpsprobe.schemas.comparison import (
    ComparisonReport as ComparisonReport,
)
from mpsprobe.schemas.comparison import (
    ConfigurationKey as ConfigurationKey,
)
from mpsprobe.schemas.comparison import (
    UnpairedCell as UnpairedCell,
)
from mpsprobe.schemas.coverage import (
    SEVERITY as SEVERITY,
)
from mpsprobe.schemas.coverage import (
    AdvisoryMatch as AdvisoryMatch,
)
from mpsprobe.schemas.coverage import (
    AffectedRange as AffectedRange,
)
from mpsprobe.schemas.coverage import (
    AffectedSystems as AffectedSystems,
)
from mpsprobe.schemas.coverage import (
    BackendTarget as BackendTarget,
)
from mpsprobe.schemas.coverage import (
    CoverageReport as CoverageReport,
)
from mpsprobe.schemas.coverage import (
    CoverageSummary as CoverageSummary,
)
from mpsprobe.schemas.coverage import (
    DataDependence as DataDependence,
)
from mpsprobe.schemas.coverage import (
    MacosCondition as MacosCondition,
)
from mpsprobe.schemas.coverage import (
    MatrixCell as MatrixCell,
)
from mpsprobe.schemas.coverage import (
    MatrixReport as MatrixReport,
)
from mpsprobe.schemas.coverage import (
    OperatorFinding as OperatorFinding,
)
from mpsprobe.schemas.coverage import (
    RefusedTensor as RefusedTensor,
)
from mpsprobe.schemas.coverage import (
    RunFailure as RunFailure,
)
from mpsprobe.schemas.coverage import (
    Source as Source,
)
from mpsprobe.schemas.coverage import (
    TableProvenance as TableProvenance,
)
from mpsprobe.schemas.coverage import (
    Target as Target,
)
from mpsprobe.schemas.coverage import (
    Unjudged as Unjudged,
)
from mpsprobe.schemas.coverage import (
    Verdict as Verdict,
)
from mpsprobe.schemas.environment import Environment as Environment
from mpsprobe.schemas.profile import (
    DeviceInfo as DeviceInfo,
)
from mpsprobe.schemas.profile import (
    DurationStatistics as DurationStatistics,
)
from mpsprobe.schemas.profile import (
    FallbackCost as FallbackCost,
)
from mpsprobe.schemas.profile import (
    MemoryCurve as MemoryCurve,
)
from mpsprobe.schemas.profile import (
    MemoryUse as MemoryUse,
)
from mpsprobe.schemas.profile import (
    ModuleTime as ModuleTime,
)
from mpsprobe.schemas.profile import (
    OperatorTime as OperatorTime,
)
from mpsprobe.schemas.profile import (
    ProbeReading as ProbeReading,
)
from mpsprobe.schemas.profile import (
    ProfileCell as ProfileCell,
)
from mpsprobe.schemas.profile import (
    ProfilePlan as ProfilePlan,
)
from mpsprobe.schemas.profile import (
    ProfileReport as ProfileReport,
)
from mpsprobe.schemas.profile import (
    StepSample as StepSample,
)
from mpsprobe.schemas.profile import (
    Throughput as Throughput,
)
from mpsprobe.schemas.profile import (
    UnavailableProbe as UnavailableProbe,
)
from mpsprobe.schemas.profile import (
    Warmup as Warmup,
)
from mpsprobe.schemas.program import CudaHint as CudaHint
from mpsprobe.schemas.program import OnTheCpu as OnTheCpu
from mpsprobe.schemas.program import ProgramInfo as ProgramInfo
from mpsprobe.schemas.report import Report as Report
from mpsprobe.schemas.report import UnknownReport as UnknownReport
from mpsprobe.schemas.report import read_report as read_report
from mpsprobe.schemas.trace import Counter as Counter
from mpsprobe.schemas.trace import Trace as Trace
from mpsprobe.schemas.trace import Track as Track
from mpsprobe.schemas.workload import WorkloadInfo as WorkloadInfo

__all__ = ["read_report", *(name for name in dir() if name[0].isupper())]  # what stands above, once
