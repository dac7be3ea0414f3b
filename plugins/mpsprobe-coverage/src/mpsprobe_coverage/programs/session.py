"""A program on a device, from the import of torch to the report."""

from __future__ import annotations

import sys
import traceback
from contextlib import ExitStack
from pathlib import Path

import torch

from mpsprobe.schemas import CoverageReport, OperatorFinding, ProgramInfo, RunFailure, WorkloadInfo
from mpsprobe.suggestions import first_line, type_name
from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.devices.observed.observe import Observation
from mpsprobe_coverage.programs.cpu_work import computed
from mpsprobe_coverage.programs.cuda import CudaHints
from mpsprobe_coverage.programs.observed_report import report
from mpsprobe_coverage.programs.opening import chain_for, open_program_device
from mpsprobe_coverage.programs.roots import Roots
from mpsprobe_coverage.programs.settings import Settings
from mpsprobe_coverage.programs.tracebacks import without_our_frames
from mpsprobe_coverage.recording.phases import phase_now
from mpsprobe_coverage.reporting.findings import site
from mpsprobe_coverage.reporting.reports import reported

OURS = str(Path(__file__).parents[1])
MOST_CLASSES = 3
_CALL = torch.nn.Module._call_impl.__code__


class Session:
    """Opens the device that ``settings`` asks for; it stays open until ``end``.

    Raises:
        MpsprobeError: it cannot be opened here.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._chain = chain_for(settings)
        self._device, self._notes = open_program_device(settings, self._chain)
        attribution = self._device.attribution
        self._roots = Roots(attribution)
        attribution.follow_program(self._roots.called)
        self._cuda = CudaHints(attribution.is_internal, absent=settings.device == "virtual")
        self._open = ExitStack()
        self._open.enter_context(without_our_frames(lambda file: file.startswith(OURS)))
        self._open.enter_context(self._cuda())
        self._open.enter_context(self._device)

    def end(self, seconds: float) -> str:
        """Close the device; the report as JSON.

        Args:
            seconds: that the program took.
        """
        self._device.finish()
        self.close()
        return self._report(seconds).model_dump_json()

    def close(self) -> None:
        """Close the device without a report."""
        self._open.close()

    def _report(self, seconds: float) -> CoverageReport:
        settings, table, recorder = self._settings, self._chain.table, self._device.recorder
        roots = [*self._roots]
        operators, seen = self._observed()
        made = reported(
            recorder,
            table,
            WorkloadInfo(
                name=settings.name,
                architecture=", ".join(list(dict.fromkeys(root.kind for root in roots))[:MOST_CLASSES]),
                phase="program",
                dtype=", ".join(dict.fromkeys(root.dtype for root in roots)),
                parameters=sum(root.parameters for root in roots),
                notes=seen,
            ),
            macos=settings.macos,
            chip=settings.chip,
            operators=operators,
            summary={"parameters_bytes": sum(root.parameters_bytes for root in roots)},
            method="observed" if settings.device == "mps" else "predicted",
            failure=self._failure(),
        )
        return made.model_copy(update={"program": self._program(seconds, bool(made.operators))})

    def _observed(self) -> tuple[list[OperatorFinding] | None, list[str]]:
        """What is seen on a real device in addition to the calls: findings with what was copied, and notes."""
        if not isinstance(self._device, Observation):
            return None, []
        observed = report(self._device, self._settings.name)
        return observed.operators, observed.workload.notes

    def _program(self, seconds: float, on_the_device: bool) -> ProgramInfo:
        stayed = self._roots.stayed()
        native = self._device if isinstance(self._device, NativeDevice) else None
        computed_on_cpu = computed(native.on_cpu(), (one.module for one in stayed)) if native is not None else []
        return ProgramInfo(
            arguments=list(self._settings.arguments),
            device=self._device.name,
            values=self._settings.values,
            seconds=round(seconds, 3),
            threads=native.threads if native is not None else 0,
            stayed_on_cpu=stayed,
            computed_on_cpu=computed_on_cpu,
            notes=self._notes,
            cuda=self._cuda.found(on_the_device, bool(stayed or computed_on_cpu)),
        )

    def _failure(self) -> RunFailure | None:
        """The exception that Python printed last: it ended the program, if that did not end with 0."""
        error: BaseException | None = getattr(sys, "last_value", None)
        if error is None:
            return None
        attribution = self._device.attribution
        frames = [one for one in traceback.extract_tb(error.__traceback__) if not attribution.is_internal(one.filename)]
        called = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code is _CALL]
        name = type_name(error)
        said = first_line(error)
        return RunFailure(
            phase=self._device.recorder.last_phase or phase_now(),
            error=name,
            message="" if said == name else said,
            module=attribution.name_of(called[-1].f_locals["self"]) if called else None,
            call_site=site(frames[-1].filename, frames[-1].lineno or 0) if frames else None,
        )
