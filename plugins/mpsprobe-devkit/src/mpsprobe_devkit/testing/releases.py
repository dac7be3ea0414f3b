"""Sample reports about releases of torch: an upgrade, and a ranking of missing operators, with every field set."""

from __future__ import annotations

from mpsprobe.schemas import (
    AffectedRange,
    AffectedSystems,
    ChangedAdvisory,
    ChangedKernel,
    RankedOperator,
    RankedRelease,
    RankingReport,
    UpgradedWorkload,
    UpgradeReport,
)
from mpsprobe_devkit.testing.reports import ENVIRONMENT, WORKLOAD, sample_matrix_report

ADVISORY = ChangedAdvisory(
    id="conv3d-macos-26-2",
    title="Convolutions of volumes are wrong on macOS 26.2",
    operators=["aten::_mps_convolution"],
    torch=AffectedRange(since="2.14.0", open=True),
    macos=AffectedSystems(seen=["26.2"], fixed="26.3"),
    hardware="M1 only",
    workaround="Upgrade macOS.",
    established=True,
)


def sample_upgrade_report() -> UpgradeReport:
    """Operators gained and lost, wrong results fixed and new, a workload that is better off, and one not judged."""
    old, _, new = sample_matrix_report().releases
    return UpgradeReport(
        old=old.target,
        new=new.target,
        environment=ENVIRONMENT,
        libraries={"torchvision": ["0.13.0", "0.29.2"]},
        gained=[
            ChangedKernel(operator="aten::linalg_qr.out", old="missing", new="native"),
            ChangedKernel(operator="aten::linalg_svd", old="fallback", new="composite"),
        ],
        added=["aten::_grouped_mm"],
        own=["aten::erfc.out"],
        lost=[ChangedKernel(operator="aten::put_", old="native", new="missing")],
        removed=["aten::cat.names"],
        sparse_gained=["aten::mul.out"],
        sparse_lost=["aten::add.out"],
        fixed=[ADVISORY.model_copy(update={"id": "linear-macos-13-2", "hardware": None})],
        introduced=[ADVISORY, ADVISORY.model_copy(update={"id": "bmm-above-32-bits", "established": False})],
        remaining=["bmm-long-reduction"],
        workloads=[
            UpgradedWorkload(name="sample", workload=WORKLOAD, old=old, new=new),
            UpgradedWorkload(name="models.py:make", error="models.py:make() raised KeyError: 'x'", hint="models.py:3"),
        ],
    )


def sample_ranking_report() -> RankingReport:
    """Two operators that block four architectures of nine, one that runs on the CPU, and two releases."""
    return RankingReport(
        torch="2.13.0",
        phases=["inference", "training"],
        architectures=9,
        made="2026-11-22T20:00:00+00:00",
        environment=ENVIRONMENT,
        operators=[
            RankedOperator(
                operator="aten::linalg_qr.out",
                verdict="missing",
                architectures=["bert", "t5", "whisper"],
                alone=["t5", "whisper"],
                phases=["training"],
                native_since="2.14.0",
            ),
            RankedOperator(
                operator="aten::_ctc_loss",
                verdict="unsupported",
                architectures=["bert", "wav2vec2"],
                alone=[],
                phases=[],
            ),
        ],
        fallbacks=[
            RankedOperator(
                operator="aten::linalg_svd",
                verdict="fallback",
                architectures=["dpr"],
                alone=["dpr"],
                phases=["inference"],
            )
        ],
        releases=[
            RankedRelease(
                torch="2.14.0",
                clean=7,
                blocked=1,
                operators=["aten::linalg_qr.out"],
                architectures=["t5", "whisper"],
                lost=["dpr"],
            ),
            RankedRelease(torch="2.13.0", clean=4, blocked=4, operators=[], architectures=[]),
        ],
    )
