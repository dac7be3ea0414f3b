"""From an observation to a report of the kind that predictions have, with ``method: observed``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from packaging.version import Version

from mpsprobe.errors import UsageError
from mpsprobe.protocols import Backend
from mpsprobe.schemas import BackendTarget, CoverageReport, OperatorFinding, WorkloadInfo
from mpsprobe_coverage.devices.observed.observe import disagreements
from mpsprobe_coverage.knowledge.kernels import live
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY, live_table
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.knowledge.kernels.table import KernelFamily, KernelTable
from mpsprobe_coverage.reporting.findings import findings
from mpsprobe_coverage.reporting.reports import reported

if TYPE_CHECKING:
    from mpsprobe_coverage.devices.observed.observe import Observation

MPS = "mps"
SOURCE = "the calls that were seen"
NOT_MPS = (
    "This was observed on {label}: native says that a call ran there, and nothing about MPS. What MPS does, "
    "mpsprobe coverage and mpsprobe run predict, and an observation on a Mac shows"
)
ELSEWHERE = "{calls} calls had tensors only on {device}, and are not in this report"
MOVED = "{reason}; the calls copied {there} bytes to the CPU and {back} bytes back"


class ObservedFamily(KernelFamily):
    """The installed release alone, on a device of which only is known what was seen.

    Args:
        device: its type.
    """

    owner = "the installed torch"

    def __init__(self, device: str) -> None:
        self.name = device
        self.backend = Backend(device, device.upper(), device.upper() if device in ("cpu", "cuda", "xpu") else device)

    @property
    def releases(self) -> tuple[str, ...]:
        return (installed_release(),)

    def load(self, release: str) -> KernelTable:
        return KernelTable(self, Version(release).public, live.labels(), whole=False, source=SOURCE)

    def running(self) -> KernelTable:
        return self.load(installed_release())

    def report_target(self, table: KernelTable, macos: str | None) -> BackendTarget:
        del macos
        label = self.backend.label
        return BackendTarget(
            backend=self.name, label=label, torch=table.release, source=SOURCE, notes=[NOT_MPS.format(label=label)]
        )


def report(observation: Observation, name: str, profile_log: str | None = None) -> CoverageReport:
    """What ``observation`` has seen on its device, as a report.

    Args:
        name: what ran, as the user calls it.
        profile_log: what PyTorch's profiler wrote meanwhile (``disagreements``); where it differs, a note says so.

    Raises:
        UsageError: its device is a virtual one.
    """
    if observation.name != MPS:
        table = ObservedFamily(observation.name).running()
    elif live.has_mps_build():
        table = live_table()
    else:
        raise UsageError("this torch has no MPS, so that nothing was observed on it", "mpsprobe run predicts instead.")
    operators = operator_findings(observation, table)
    elsewhere: Counter[str] = Counter()
    for call in observation.calls():
        if call.kind.device != observation.name:
            elsewhere[call.kind.device] += call.calls
    seen = [(call.kind, call.calls) for call in observation.calls()]
    differing = [] if profile_log is None else disagreements(seen, profile_log)
    notes = [ELSEWHERE.format(calls=calls, device=device) for device, calls in elsewhere.most_common()]
    return reported(
        observation.recorder,
        table,
        WorkloadInfo(
            name=name,
            architecture="",
            phase="program",
            dtype="",
            parameters=0,
            notes=[*differing, *notes],
        ),
        operators=operators,
        method="observed",
    )


def operator_findings(observation: Observation, table: KernelTable) -> list[OperatorFinding]:
    """One finding for each operator and verdict; those of fallbacks say how many bytes were copied.

    Advice is given where releases are known in which the operator has a kernel, so for MPS alone.
    """
    there: Counter[tuple[str, str]] = Counter()
    back: Counter[tuple[str, str]] = Counter()
    for call in observation.calls():
        if call.judgement is not None and call.kind.device == observation.name:
            key = call.kind.operator, call.judgement.verdict
            there[key] += call.to_cpu_bytes
            back[key] += call.from_cpu_bytes
    found = []
    for finding in findings(observation.recorder, table):
        if finding.verdict in ("fallback", "missing"):
            key = finding.operator, finding.verdict
            since = MPS_FAMILY.native_since(finding.operator) if table.family is MPS_FAMILY else None
            moved = {
                "reason": MOVED.format(reason=finding.reason, there=there[key], back=back[key]),
                "native_since": since,
                "advice": f"Native from torch {since} on: upgrade." if since else None,
            }
            found.append(finding.model_copy(update=moved))
        else:
            found.append(finding)
    return found
