"""The data that leaves mpsprobe, as pydantic models. Units are in field names (``_bytes``, ``_ns``)."""

from mpsprobe.declarations import SEVERITY, Verdict
from mpsprobe.schemas.checkpoint import (
    Adapter,
    CheckpointFile,
    CheckpointPart,
    CheckpointReport,
    DtypeUse,
    PickleImport,
    Quantization,
    StoredDtype,
)
from mpsprobe.schemas.comparison import (
    ChangedCondition,
    ComparedAdvisory,
    ComparedCell,
    ComparedFailure,
    ComparedFallback,
    ComparedMemory,
    ComparedOperator,
    ComparedQuantity,
    ComparedSide,
    ComparedVerdict,
    ComparisonMethod,
    ComparisonReport,
    ConfigurationKey,
    UnpairedCell,
)
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
    Transfers,
    Unjudged,
)
from mpsprobe.schemas.environment import Environment
from mpsprobe.schemas.fit import FitReport, FitRow, SizeRange
from mpsprobe.schemas.graphs import CompilesGraph, GraphCount, GraphGrowth
from mpsprobe.schemas.memory import (
    AllocatingCall,
    Allocation,
    AllocationList,
    MemoryEnd,
    MemoryFigures,
    MemoryFit,
    MemoryHolder,
    MemoryPoint,
    MemoryPrediction,
    MemoryRange,
    NotCounted,
)
from mpsprobe.schemas.profile import (
    DeviceInfo,
    DurationStatistics,
    FallbackCost,
    MemoryCurve,
    MemoryUse,
    ModuleTime,
    OperatorTime,
    ProbeReading,
    ProfileCell,
    ProfilePlan,
    ProfileReport,
    StepSample,
    Throughput,
    UnavailableProbe,
    Warmup,
)
from mpsprobe.schemas.program import ComputedOnCpu, CudaHint, OnTheCpu, ProgramInfo
from mpsprobe.schemas.ranking import RankedOperator, RankedRelease, RankingReport
from mpsprobe.schemas.recalled import Recalled
from mpsprobe.schemas.report import Report, UnknownReport, read_report
from mpsprobe.schemas.several import JudgedWorkload, SeveralReport
from mpsprobe.schemas.target import BackendTarget, FrameworkTarget, TableProvenance, Target
from mpsprobe.schemas.trace import Counter, Trace, Track
from mpsprobe.schemas.upgrade import ChangedAdvisory, ChangedKernel, UpgradedWorkload, UpgradeReport
from mpsprobe.schemas.workload import WorkloadInfo

__all__ = [
    "SEVERITY", "Adapter", "AdvisoryMatch", "AffectedRange", "AffectedSystems", "AllocatingCall", "Allocation",
    "AllocationList", "BackendTarget", "ChangedAdvisory", "ChangedCondition", "ChangedKernel", "CheckpointFile",
    "CheckpointPart", "CheckpointReport", "ComparedAdvisory", "ComparedCell", "ComparedFailure", "ComparedFallback",
    "ComparedMemory", "ComparedOperator", "ComparedQuantity", "ComparedSide", "ComparedVerdict", "ComparisonMethod",
    "ComparisonReport", "CompilesGraph", "ComputedOnCpu", "ConfigurationKey", "Counter", "CoverageReport",
    "CoverageSummary", "CudaHint", "DataDependence", "DeviceInfo", "DtypeUse", "DurationStatistics", "Environment",
    "FallbackCost", "FitReport", "FitRow", "FrameworkTarget", "GraphCount", "GraphGrowth", "JudgedWorkload",
    "MacosCondition", "MatrixCell", "MatrixReport", "MemoryCurve", "MemoryEnd", "MemoryFigures", "MemoryFit",
    "MemoryHolder", "MemoryPoint", "MemoryPrediction", "MemoryRange", "MemoryUse", "ModuleTime", "NotCounted",
    "OnTheCpu", "OperatorFinding", "OperatorTime", "PickleImport", "ProbeReading", "ProfileCell", "ProfilePlan",
    "ProfileReport", "ProgramInfo", "Quantization", "RankedOperator", "RankedRelease", "RankingReport", "Recalled",
    "RefusedTensor", "Report", "RunFailure", "SeveralReport", "SizeRange", "Source", "StepSample", "StoredDtype",
    "TableProvenance", "Target", "Throughput", "Trace", "Track", "Transfers", "UnavailableProbe", "Unjudged",
    "UnknownReport", "UnpairedCell", "UpgradeReport", "UpgradedWorkload", "Verdict", "Warmup", "WorkloadInfo",
    "read_report",
]  # fmt: skip
