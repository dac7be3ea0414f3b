"""A program on a device, from the import of torch to the report."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack

import torch

from mpsprobe.schemas import CompiledStep, CoverageReport, ProgramInfo, RunFailure, WorkloadInfo
from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.devices.observed.observe import Observation
from mpsprobe_coverage.programs.cuda import CudaHints
from mpsprobe_coverage.programs.observing import limits, operator_findings
from mpsprobe_coverage.programs.on_the_cpu import Root, Roots, computed
from mpsprobe_coverage.programs.program_device import DeviceInPython, chain_for, open_program_device
from mpsprobe_coverage.programs.settings import Settings
from mpsprobe_coverage.recording.attribution import Attribution, is_internal
from mpsprobe_coverage.recording.phases import FORWARD, phase_now
from mpsprobe_coverage.reporting import attempts
from mpsprobe_coverage.reporting.reports import reported
from mpsprobe_coverage.scanning.many_sizes import growth_of_program

MOST_CLASSES = 3
MOST_FAULTS = 8
_CALL = torch.nn.Module._call_impl.__code__


class Session:
    """Opens the device that ``settings`` asks for; it stays open until ``end`` or ``close``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._chain = chain_for(settings)
        self._device, self._notes = open_program_device(settings, self._chain)
        attribution = self._device.attribution
        self._roots = Roots(attribution)
        attribution.follow_program(self._called)
        self._cuda = CudaHints(
            is_internal,
            absent=settings.device == "virtual",
            leads=settings.as_cuda,
            chip=settings.chip,
        )
        with ExitStack() as exits:
            exits.enter_context(self._device)
            exits.enter_context(self._cuda())
            self._open = exits.pop_all()

    def _called(self, module: torch.nn.Module) -> None:
        self._roots.called(module)
        if isinstance(self._device, NativeDevice):
            torch.ops.mpsprobe.called()

    def end(self, seconds: float) -> str:
        """Close the device; the report as JSON, on a program that took ``seconds``."""
        self._device.finish()
        self.close()
        return self._report(seconds).model_dump_json()

    def answers(self) -> str | None:
        """What the program got where only values decide, as ``Settings.answers`` has it; None where it had values."""
        branches = self._device.branches if isinstance(self._device, DeviceInPython) else None
        if branches is None:
            return None
        return json.dumps([[(*site, answer) for site, answer in branches.taken.items()], [*branches.once]])

    def close(self) -> None:
        self._open.close()

    def _report(self, seconds: float) -> CoverageReport:
        settings, table, device = self._settings, self._chain.table, self._device
        roots = [*self._roots]
        observation = device if isinstance(device, Observation) else None
        report = reported(
            device.recorder,
            table,
            info_of(settings, roots, limits(observation) if observation else []),
            mac=settings,
            operators=operator_findings(observation, table) if observation else None,
            summary={"parameters_bytes": sum(root.parameters_bytes for root in roots)},
            method="observed" if observation else "predicted",
            failure=failure_of(device.attribution, device.recorder.last_phase),
        )
        compiled = None
        if isinstance(device, NativeDevice) and device.generated is not None:
            from mpsprobe_coverage.reporting.compiled import made

            compiled = CompiledStep(**made(device.generated, device.shader.launched), values=True)
        program = self._program(seconds, bool(report.operators))
        return report.model_copy(update={"program": program, "compiled": compiled})

    def _program(self, seconds: float, on_the_device: bool) -> ProgramInfo:
        stayed = self._roots.stayed()
        native = self._device if isinstance(self._device, NativeDevice) else None
        computed_on_cpu = computed(native.on_cpu(), [model.module for model in stayed]) if native else []
        notes = [*self._notes]
        if native is not None:
            faults = dict.fromkeys(f"the Metal kernel {fault.kernel}: {fault.text}" for fault in native.faults)
            notes += [*faults][:MOST_FAULTS] + (native.wrong.notes() if native.wrong is not None else [])
        return ProgramInfo(
            arguments=list(self._settings.arguments),
            device=self._device.name,
            values=self._settings.values,
            as_cuda=self._settings.as_cuda,
            seconds=round(seconds, 3),
            threads=torch.ops.mpsprobe.threads() if native else 0,
            stayed_on_cpu=stayed,
            computed_on_cpu=computed_on_cpu,
            memory=growth_of_program(torch.ops.mpsprobe.memory_order(), self._chain.table.release, self._settings)
            if native
            else None,
            notes=notes,
            cuda=self._cuda.found(on_the_device, bool(stayed or computed_on_cpu)),
        )


def info_of(settings: Settings, roots: Sequence[Root], notes: list[str]) -> WorkloadInfo:
    """The program, and the models that it called."""
    return WorkloadInfo(
        name=settings.name,
        architecture=", ".join(list(dict.fromkeys(root.kind for root in roots))[:MOST_CLASSES]),
        phase="program",
        dtype=", ".join(dict.fromkeys(root.dtype for root in roots)),
        parameters=sum(root.parameters for root in roots),
        notes=notes,
    )


def failure_of(attribution: Attribution, last_phase: str | None) -> RunFailure | None:
    """The exception that Python printed last: it ended the program, if that did not end with 0."""
    error: BaseException | None = getattr(sys, "last_value", None)
    if error is None:
        return None
    called = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code is _CALL]
    phase = last_phase or phase_now()
    phase = phase if called or phase != FORWARD else "program"  # outside of every model
    return attempts.failure_of(error, phase, attribution.name_of(called[-1].f_locals["self"]) if called else None)
