"""The steps of a training loop that a callback watches, and what it says about them; knows no loop.

A step on MPS, or on the virtual device, is watched there. On another device it shows nothing about MPS, so a copy of
the model without values is judged with the inputs of the first such step, as ``mpsprobe.coverage`` does.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import torch as pytorch
from torch.utils._pytree import tree_map_only

import mpsprobe
from mpsprobe.errors import CheckFailed, MissingPackage, MpsprobeError, UsageError
from mpsprobe.options import converted
from mpsprobe.schemas import SEVERITY, BackendTarget, CoverageReport
from mpsprobe.suggestions import in_short
from mpsprobe_coverage.commands.coverage import coverage as command
from mpsprobe_coverage.commands.functions import in_quotes, refuse
from mpsprobe_coverage.devices.native.device import native_device_now
from mpsprobe_coverage.devices.virtual import device_now
from mpsprobe_coverage.knowledge.kernels.live import has_mps_build
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.programs.observing import Observed

NOT_JUDGED = "What MPS does with these steps is not known: {why}"
ELSEWHERE = "the model is on {device}, and not on the virtual MPS device that is open"
Log = Callable[[dict[str, Any], dict[str, float]], None]
_log = logging.getLogger("mpsprobe")


class WatchedSteps:
    """What both callbacks are made of; their docstrings say what the arguments are."""

    needs: tuple[str, str] | None = None  # what is missing for it: the callback's name and the package's
    report: CoverageReport | None = None
    _run: Observed | None = None
    _is_open = False

    def __init__(
        self,
        steps: int | Collection[int] = 1,
        *,
        torch: str | None = None,
        path: str | PathLike[str] | None = None,
        fail_on: str | Sequence[str] = (),
        allow: str | Sequence[str] = (),
        then: Literal["raise", "stop"] = "raise",
    ) -> None:
        if self.needs is not None:
            raise MissingPackage(*self.needs)
        super().__init__()
        numbers = list(steps) if isinstance(steps, Collection) else [steps]
        if not numbers or not all(type(number) is int and number > 0 for number in numbers):
            raise UsageError(f"steps takes a whole number from 1, or the numbers of steps, not {steps!r:.40}")
        if then not in ("raise", "stop"):
            raise UsageError(f"then takes 'raise' or 'stop', not {then!r:.40}")
        if torch is not None:
            MPS_FAMILY.target(*in_quotes(torch))
        wanted = converted(command, {"fail_on": fail_on or None, "allow": allow or None})
        self._fail_on, self._allow = wanted.get("fail_on", ()), wanted.get("allow", ())
        self._steps, self._torch, self._path, self._stops = steps, torch, path, then == "stop"
        self._begin_training(1)

    def _begin_training(self, step: int) -> None:
        """Forget an earlier training; the next step is number ``step``."""
        self._close()
        self._run, self._over, self._first = None, False, step
        self._prediction: CoverageReport | str | None = None
        self.report = None

    def _wants(self, step: int) -> bool:
        """Whether step number ``step``, from 1 on, is to be watched."""
        if self._over:
            return False
        if isinstance(self._steps, int):
            return self._first <= step < self._first + self._steps
        return step in self._steps

    def _begin(self, model: pytorch.nn.Module) -> bool:
        """Watch from now on; whether ``_end`` needs a prediction, as this is not MPS."""
        if self._run is None:
            device = next((parameter.device.type for parameter in model.parameters()), "cpu")
            virtual = device == "mps" and not has_mps_build()
            self._run = mpsprobe.observe(device, torch=self._torch if virtual else None)
            if device != "mps" and (device_now() or native_device_now()):
                self._prediction = ELSEWHERE.format(device=device)
        try:
            self._run.__enter__()
            self._is_open = True
        except UsageError as error:  # the observer needs a compiler, a prediction does not
            if self._run.name == "mps":
                raise
            if self._prediction is None:
                _log.warning("Only predicted, not observed: %s", error)
        return self._run.name != "mps" and self._prediction is None

    def _end(self, step: int, predict: Callable[[], CoverageReport] | None) -> bool:
        """Watch no more; ``predict``, if ``_begin`` asked for it. Whether ``_conclude`` is due, after the last step."""
        self._close()
        if predict is not None:
            try:
                self._prediction = predict()
            except Exception as error:  # noqa: BLE001 - whatever a model is made of; the training is to go on
                self._prediction = error.message if isinstance(error, MpsprobeError) else in_short(error)
        last = self._first + self._steps - 1 if isinstance(self._steps, int) else max(self._steps)
        return step >= last

    def _close(self) -> None:
        """Watch no more, also where a step ended by an exception."""
        if self._is_open and self._run is not None:
            self._is_open = False
            self._run.__exit__()

    def _predict(self, step: partial[Any], **options: Any) -> CoverageReport:
        """What MPS does with a training step, of a model that is made by ``without_values``."""
        report: CoverageReport = mpsprobe.coverage(
            step, (), torch=self._torch or "installed", phase="training", **options
        )
        if report.failure is not None:
            raise MpsprobeError(f"{report.failure.error}: {report.failure.message}")
        return report

    def _conclude(self, model: pytorch.nn.Module, log: Log) -> bool:
        """Make the report, save and ``log`` it (an entry, and what of it are numbers); whether the training goes on."""
        self._over = True
        if self._run is None:
            return True
        name, notes = type(model).__name__, []
        if isinstance(self._prediction, CoverageReport):
            report = self._prediction
        else:
            report = self._run.report(name)
            notes = [] if self._prediction is None else [NOT_JUDGED.format(why=self._prediction)]
        info = {
            "name": name,
            "architecture": name,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "notes": [*notes, *report.workload.notes],
        }
        report = report.model_copy(update={"workload": report.workload.model_copy(update=info)})
        self.report = report
        if self._path is not None:
            report.save(Path(self._path))
        entry = logged(report)
        for line in entry["mps_findings"]:
            _log.warning("%s on torch %s", line, entry["mps_torch"])
        log(entry, {name: value for name, value in entry.items() if isinstance(value, int)})
        return self._passes(report)

    def _passes(self, report: CoverageReport) -> bool:
        if not self._fail_on:
            return True
        if isinstance(report.target, BackendTarget):
            raise MpsprobeError(
                report.workload.notes[0],
                "Train on the virtual device: mpsprobe run SCRIPT, or with mpsprobe.observe('mps').",
            )
        try:
            refuse(report, self._fail_on, self._allow)
        except CheckFailed as error:
            if not self._stops:
                raise
            _log.warning("The training stops: %s", error)
            return False
        return True


def parent(name: str, *modules: str) -> Any:
    """The class ``name`` of the first of ``modules`` that is there: imported already, else installed; else ``None``."""
    for module in sorted(modules, key=lambda module: module not in sys.modules):
        try:
            return getattr(import_module(module), name)
        except ImportError:
            continue
    return None


def logged(report: CoverageReport) -> dict[str, Any]:
    """``report`` in the numbers and lines of a log: operators by verdict, and one line for each finding."""
    if isinstance(report.target, BackendTarget):
        return {"mps_findings": [], "mps_torch": report.target.torch, "mps_notes": report.workload.notes}
    by_verdict = report.summary.operators_by_verdict
    lines = [
        f"{finding.operator} {finding.verdict}" + (f" at {finding.call_sites[0]}" if finding.call_sites else "")
        for finding in report.findings
    ]
    return {
        **{f"mps_{verdict}": by_verdict.get(verdict, 0) for verdict in SEVERITY if verdict != "composite"},
        "mps_advisories": report.summary.advisories,
        "mps_torch": report.target.torch,
        "mps_method": report.method,
        "mps_findings": lines,
    }


def without_values(model: Any) -> Any:
    """A copy whose parameters have no values, and need no memory."""
    memo: dict[int, Any] = {}
    for parameter in model.parameters():
        memo[id(parameter)] = pytorch.nn.Parameter(
            pytorch.empty_like(parameter, device="meta"), parameter.requires_grad
        )
    for buffer in model.buffers():
        memo[id(buffer)] = buffer.detach().cpu()
    return copy.deepcopy(model, memo)


def on_cpu(inputs: Any) -> Any:
    """``inputs`` with their tensors on the CPU, apart from any graph of autograd."""
    return tree_map_only(pytorch.Tensor, lambda tensor: tensor.detach().cpu().clone(), inputs)
