"""The data that leaves mpsprobe, as pydantic models. Units are in field names (``_bytes``, ``_ns``)."""

# ruff: noqa: F403, F405
from mpsprobe.declarations import SEVERITY, Verdict
from mpsprobe.schemas.checkpoint import *
from mpsprobe.schemas.comparison import *
from mpsprobe.schemas.coverage import *
from mpsprobe.schemas.fit import *
from mpsprobe.schemas.memory import *
from mpsprobe.schemas.profile import *
from mpsprobe.schemas.releases import *
from mpsprobe.schemas.report import *
from mpsprobe.schemas.run import *
from mpsprobe.schemas.time import *
from mpsprobe.schemas.trace import *
from mpsprobe.schemas.verification import *

__all__ = [
    "SEVERITY", "Adapter", "AdvisoryMatch", "AffectedRange", "AffectedSystems", "AllocatingCall", "Allocation",
    "AllocationList", "BackendTarget", "ChangedAdvisory", "ChangedCondition", "ChangedKernel", "CheckpointFile",
    "CheckpointPart", "CheckpointReport", "ChipTimes", "ClassAgainst", "ClassTime", "ComparedAdvisory", "ComparedCell",
    "ComparedFailure", "ComparedFallback", "ComparedMemory", "ComparedOperator", "ComparedQuantity", "ComparedSide",
    "ComparedTensor", "ComparedVerdict", "ComparisonMethod", "ComparisonReport", "CompiledStep", "CompilesGraph",
    "ComputedOnCpu", "ConfigurationKey", "Counter", "CoverageReport", "CoverageSummary", "CudaHint", "DataDependence",
    "DeviceInfo", "DtypeUse", "DurationStatistics", "Environment", "FallbackCost", "Faster", "FitReport", "FitRow",
    "FrameworkTarget", "GraphBreak", "GraphCount", "GraphGrowth", "JudgedWorkload", "KnownWrong", "MacosCondition",
    "MatrixCell", "MatrixReport", "MemoryCurve", "MemoryEnd", "MemoryFigures", "MemoryFit", "MemoryHolder",
    "MemoryPoint", "MemoryPrediction", "MemoryRange", "MemoryUse", "MetalKernel", "ModuleRange", "ModuleTime",
    "NonfiniteOrigin", "NotCounted", "OnTheCpu", "OperatorAgainst", "OperatorCall", "OperatorFinding", "OperatorTime",
    "OperatorTimeShare", "PickleImport", "PrecisionReport", "ProbeReading", "ProfileCell", "ProfilePlan",
    "ProfileReport", "ProgramInfo", "Quantization", "RankedOperator", "RankedRelease", "RankedRewrite", "RankingReport",
    "Recalled", "Recompilation", "RefusedGraph", "RefusedTensor", "Report", "ReservedGrowth", "RunFailure",
    "SeveralReport", "SizeRange", "Source", "StepCost", "StepSample", "StoredDtype", "TableProvenance", "Target",
    "Throughput", "TimePrediction", "Trace", "Track", "Transfers", "UnavailableProbe", "Unjudged", "UnknownReport",
    "UnpairedCell", "UpgradeReport", "UpgradedWorkload", "Verdict", "VerificationReport", "Warmup", "WorkloadInfo",
    "WrongOperator", "read_report",
]  # fmt: skip
