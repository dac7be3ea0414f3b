"""Sample comparisons for the tests of exporters: one of two profiles, one of two coverage reports."""

from __future__ import annotations

from typing import Any

from mpsprobe.schemas import (
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
    DeviceInfo,
    MemoryFigures,
    UnpairedCell,
)
from mpsprobe_devkit.testing.reports import ENVIRONMENT, FAILURE, MEMORY, WORKLOAD

MS = 1e6
KEY: dict[str, Any] = {"workload": WORKLOAD.name, "phase": WORKLOAD.phase, "device": "mps", "batch_size": 2}
DEVICE = DeviceInfo(type="mps", name="Apple M3 Max", memory_bytes=48 * 10**9)


def _side(source: str, torch: str) -> ComparedSide:
    return ComparedSide(
        source=source,
        workloads=[WORKLOAD.name],
        environment=ENVIRONMENT.model_copy(update={"torch": torch}),
        devices=[DEVICE],
        torch=torch,
    )


def _duration(quantity: Any, name: str, old: float, new: float, difference: Any, **more: Any) -> ComparedQuantity:
    ratio = new / old
    tested = {"samples": "process", "old_count": 5, "new_count": 5, "test": "Welch", "p_value": 0.004}
    return ComparedQuantity.model_validate(
        {
            "quantity": quantity,
            "name": name,
            "unit": "ns",
            "old": old,
            "new": new,
            "ratio": ratio,
            "low": ratio - 0.02,
            "high": ratio + 0.02,
            **tested,
            "adjusted_p_value": 0.02,
            "difference": difference,
            "regression": difference == "slower",
            **more,
        }
    )


def sample_comparison_report() -> ComparisonReport:
    """Two profiles: a slower backward pass, a new fallback, a configuration that no longer fits, another torch."""
    few = {"adjusted_p_value": None, "p_value": None, "old_count": 1, "new_count": 1, "low": None, "high": None}
    rate = _duration("throughput", "samples/s", 200.0, 180.0, "slower", unit="per_second", note="from the step time")
    cell = ComparedCell(
        **KEY,
        dtype="float32",
        quantities=[
            _duration("step", "step", 10 * MS, 11.1 * MS, "slower"),
            rate.model_copy(update={"regression": False}),
            _duration("first_call", "first call", 90 * MS, 99 * MS, "too few samples", note="2 processes do", **few),
            _duration("phase", "forward", 4 * MS, 4 * MS, "no difference"),
            _duration("phase", "backward", 5 * MS, 6.1 * MS, "slower"),
            _duration("phase", "optimizer", 1 * MS, 0.9 * MS, "faster"),
            ComparedQuantity(
                quantity="memory",
                name="peak allocated",
                unit="bytes",
                old=1.5e9,
                new=1.5e9,
                ratio=1.0,
                old_count=1,
                new_count=1,
                difference="no difference",
                note="counted by the allocator",
            ),
        ],
        operators=[
            ComparedOperator(
                operator="aten::mm",
                clock="device",
                presence="both",
                old_calls=4.0,
                new_calls=4.0,
                old_ns=2 * MS,
                new_ns=3 * MS,
                ratio=1.5,
            ),
            ComparedOperator(
                operator="aten::linalg_qr.out", clock="device", presence="new", new_calls=1.0, new_ns=0.5 * MS
            ),
        ],
        fallbacks=[
            ComparedFallback(
                operator="aten::linalg_qr.out",
                presence="new",
                new_verdict="missing",
                new_calls=1,
                new_ns=150_000,
                new_bytes=1_572_864,
                regression=True,
            ),
            ComparedFallback(
                operator="aten::col2im", presence="gone", old_verdict="fallback", old_calls=2, old_bytes=4_096
            ),
        ],
    )
    failed = ComparedCell.model_validate(
        {**KEY, "batch_size": 512, "dtype": "float32", "new_failure": FAILURE, "regression": True}
    )
    return ComparisonReport(
        compares="profile",
        old=_side("main.json", "2.12.1"),
        new=_side("branch.json", "2.13.0"),
        conditions=[ChangedCondition(what="torch", old="2.12.1", new="2.13.0")],
        method=ComparisonMethod(level=0.05, threshold=0.02, tests=4, words="Slower or faster: by a test, with words."),
        cells=[cell, failed],
        unpaired=[UnpairedCell(**{**KEY, "device": "cpu"}, presence="gone")],
        verdicts=[],
        advisories=[],
        failures=[],
        memory=[],
        same_verdicts=0,
        regressions=4,
        notes=["made for tests"],
    )


def sample_coverage_comparison() -> ComparisonReport:
    """Two coverage reports: verdicts that became worse and better, a new advisory, a run that stopped."""
    return ComparisonReport(
        compares="coverage",
        old=_side("old.json", "2.12.1"),
        new=_side("new.json", "2.13.0"),
        conditions=[ChangedCondition(what="judged: torch", old="2.12.1", new="2.13.0")],
        verdicts=[
            ComparedVerdict(
                operator="aten::linalg_qr.out", old="native", new="missing", change="worse", regression=True
            ),
            ComparedVerdict(operator="acme::rope", new="unknown", change="new", regression=True),
            ComparedVerdict(operator="aten::col2im", old="fallback", new="native", change="better"),
            ComparedVerdict(operator="aten::gelu", old="native", change="gone"),
        ],
        advisories=[
            ComparedAdvisory(id="attention-example", title="Attention reads on", presence="new", regression=True)
        ],
        failures=[ComparedFailure(new=FAILURE, regression=True)],
        same_verdicts=20,
        regressions=4,
        memory=[ComparedMemory(release="2.13.0", old=MEMORY.figures(), new=MemoryFigures(peak_bytes=2_000_000_000))],
        notes=["one of the runs stopped: operators after that are not compared"],
    )
