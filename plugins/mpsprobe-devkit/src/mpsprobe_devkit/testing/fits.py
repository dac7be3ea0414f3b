"""A sample report of what fits on a Mac, with every field set."""

from __future__ import annotations

from mpsprobe.schemas import FitReport, FitRow, Recalled, SizeRange, Target
from mpsprobe_devkit.testing.reports import DATA_DEPENDENCE, ENVIRONMENT, FIT, WORKLOAD, sample_coverage_report


def sample_fit_report() -> FitReport:
    """A training that fits with small batches, one way that was not run, and one that memory does not bound."""
    target = sample_coverage_report().target
    assert isinstance(target, Target)
    return FitReport(
        workload=WORKLOAD,
        target=target,
        environment=ENVIRONMENT,
        vary="batch-size",
        new_tokens=8,
        fit=FIT,
        high_end=["aten::nonzero at modeling_detector.py:120"],
        rows=[
            FitRow(
                what="as it is",
                size=8,
                peak_bytes=2_250_669_860,
                allocated_bytes=2_258_294_016,
                largest=SizeRange(low=151, high=170),
                without_pressure=SizeRange(low=82, high=91),
                runs=4,
            ),
            FitRow(
                what="LoRA of rank 16",
                size=8,
                peak_bytes=1_406_442_240,
                allocated_bytes=1_410_000_000,
                largest=SizeRange(low=512, high=512),
                without_pressure=SizeRange(low=0, high=85),
                bound="the model takes no more",
                runs=4,
                note="adapters of all linear layers",
            ),
            FitRow(what="8-bit AdamW", note="not run: torchao is not installed"),
        ],
        data_dependence=DATA_DEPENDENCE,
        recalled=Recalled(source="cache", made="2026-11-22T19:30:00Z"),
    )
