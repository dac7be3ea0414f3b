"""The largest size of a workload that fits on a Mac, as it is and with what saves memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from mpsprobe.environment import collect_environment
from mpsprobe.errors import MpsprobeError, RunFailed, UsageError, WorkloadError
from mpsprobe.options import LARGEST
from mpsprobe.protocols import Progress, RunOptions, TorchRun, Workload
from mpsprobe.schemas import FitReport, FitRow, SizeRange, Target
from mpsprobe.schemas.fit import Varied
from mpsprobe.stepping import workload_info
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.data_dependent import Found
from mpsprobe_coverage.devices.virtual.execution import Outcomes
from mpsprobe_coverage.knowledge.chips.mac import Mac
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.knowledge.memory.lifetimes import INPUTS, PARAMETERS
from mpsprobe_coverage.knowledge.memory.mps_allocator import Limits
from mpsprobe_coverage.knowledge.memory.timeline import Change, Storage, timeline
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.findings import data_dependence
from mpsprobe_coverage.reporting.fitting import Needs, answer_with, ends_of, fit_on
from mpsprobe_coverage.reporting.memory import figures
from mpsprobe_coverage.scanning import images
from mpsprobe_coverage.scanning.garbage import collecting_only_new
from mpsprobe_coverage.scanning.interpolating import Growth, largest
from mpsprobe_coverage.scanning.scan import settled
from mpsprobe_coverage.scanning.step import make_adamw
from mpsprobe_coverage.scanning.unknown_sizes import at_most, places
from mpsprobe_coverage.scanning.variations import AS_IT_IS, NOTES, Variation, variations

BATCH, LENGTH, SIZE = "batch-size", "seq-len", "size"
FIELDS = {BATCH: "batch_size", LENGTH: "seq_len"}
MOST_INPUTS = 2**29
"""Bytes of inputs that are made on this machine to try a size; there are no more of anything else."""
WHAT = {BATCH: "batch size", LENGTH: "sequence length", SIZE: "image"}


@dataclass(slots=True)
class Search:
    """Finds them for one workload.

    Args:
        workload: what is run.
        options: as it is run.
        table: of the release.
        mac: where it is to fit.
        vary: what grows: ``batch-size``, ``seq-len`` or ``size``.
        progress: how the work is reported.
    """

    workload: Workload
    options: RunOptions
    table: KernelTable
    mac: Mac
    vary: Varied
    progress: Progress
    _outcomes: Outcomes = field(default_factory=dict)
    _unit: int = 1  # images are a multiple of it
    _last: Trace | None = None
    _most: Found = "most"  # where sizes depend on values that are not known; "ones" once a run cannot do that

    def report(self, *, savings: bool = True) -> FitReport:
        """The whole answer; ``savings``: with what needs less memory.

        Raises:
            MpsprobeError: the workload cannot be built, has nothing of the kind to vary, or stopped.
        """
        self.progress.start(None, f"building {self.workload.name}")
        try:
            with collecting_only_new() as begin_to_collect:
                run = self._built(self.options, None)
                base = self._base(run)
                optimizer = None
                if self.options.phase == "training":
                    optimizer = run.optimizer(run.model) if run.optimizer else make_adamw(run.model, self.table)
                info = workload_info(self.workload.name, run, self.options, optimizer)
                begin_to_collect()
                ways = list(variations(self.options, run)) if savings else [Variation(AS_IT_IS, self.options)]
                rows, fit, dependence, high_end = [], None, [], []
                for way in ways:
                    self.progress.advance(way.what)
                    row, needs = self._row(way, base)
                    rows.append(row)
                    if fit is None:
                        fit = fit_on(self.mac, needs) if needs else None
                        recorder = self._last.recorder if self._last else Recorder()
                        high_end = at_most(recorder, self._most)
                        taken = {(one.operator, one.text) for one in high_end}
                        dependence = [
                            one for one in data_dependence(recorder) if (one.operator, one.assumed) not in taken
                        ]
        finally:
            self.progress.stop()
        target = self.table.family.report_target(self.table, self.options.macos)
        if fit is None or not isinstance(target, Target):
            raise WorkloadError(
                f"nothing of '{self.workload.name}' is on the device", "There is no memory to find out."
            )
        return FitReport(
            workload=info,
            target=target,
            environment=collect_environment(),
            vary=self.vary,
            new_tokens=self.options.new_tokens if self.options.phase == "generate" else None,
            fit=fit,
            rows=rows,
            high_end=places(high_end),
            data_dependence=dependence,
        )

    def _base(self, run: TorchRun) -> int:
        """The size that the workload has by itself.

        Raises:
            UsageError: it has no such thing, or does not take another one.
        """
        found = images.side(run) if self.vary == SIZE else getattr(run, FIELDS[self.vary])
        if found is None:
            others = [name for name in FIELDS if getattr(run, FIELDS[name]) is not None]
            hint = f"It has: {', '.join(others)}." if others else "Its inputs are made by its own code."
            raise UsageError(f"'{self.workload.name}' has no {WHAT[self.vary]} to vary", hint)
        if self.vary != SIZE:
            other = found * 2 if self.vary == BATCH and found <= LARGEST // 2 else max(1, found // 2)
            if (
                other != found
                and getattr(self._built(self._with(self.options, other), None), FIELDS[self.vary]) == found
            ):
                raise UsageError(
                    f"the {WHAT[self.vary]} of '{self.workload.name}' is always {found}",
                    "Its code makes the inputs: let it take the options, or call it with others.",
                )
        self._unit = images.unit(run) if self.vary == SIZE else 1
        return int(found) // self._unit

    def _with(self, options: RunOptions, size: int) -> RunOptions:
        if self.vary == BATCH:
            return replace(options, batch_size=size)
        return options if self.vary == SIZE else replace(options, seq_len=size)

    def _built(self, options: RunOptions, size: int | None) -> TorchRun:
        device = VirtualDevice(self.table)
        with device.construction():
            run = self.workload.build(options if size is None else self._with(options, size))
            if not isinstance(run, TorchRun):
                raise WorkloadError(f"'{self.workload.name}' did not build a TorchRun, but {type(run).__name__}")
            if self.vary == SIZE and size is not None:
                images.resize(run, size * self._unit)
        return run

    def _row(self, way: Variation, base: int) -> tuple[FitRow, Needs | None]:
        """The row of one way, and what it needs with its first size."""
        first = base
        if self.vary == BATCH and way.options.batch_size is not None:
            first = way.options.batch_size
        low, high = ends_of(self.mac)
        try:
            run = self._built(way.options, first)
            way.change(run)
            alone = self._parameters(run)
            if answer_with(high, alone) == "raises":
                note = f"its parameters alone do not fit, {alone.unlimited.live / 1e9:,.1f} GB"
                none = SizeRange(low=0, high=0)
                return FitRow(what=way.what, largest=none, without_pressure=none, note=note), alone
            growth, only = self._growth(way, first)
            needs = growth.measured(first)
            row = self._found(way, growth, (low, high), first, only)
        except RunFailed as error:
            if way.what == AS_IT_IS:
                raise
            return FitRow(what=way.what, note=f"it stopped: {error.message}"), None
        except MpsprobeError as error:
            if way.what == AS_IT_IS:
                raise
            return FitRow(what=way.what, note=f"not run: {error.message}"), None
        return row, needs

    def _growth(self, way: Variation, first: int) -> tuple[Growth, str | None]:
        """How it grows, and why the workload takes ``first`` alone, where it does."""

        def needs(size: int) -> Needs:
            return self._needs(way, size)

        try:
            return Growth(needs, self._points(way, first)), None
        except RunFailed as error:
            if self.vary != SIZE:
                raise
            return Growth(needs, [first]), f"it takes images of its own size alone: {error.message}"

    def _found(
        self, way: Variation, growth: Growth, ends: tuple[Limits, Limits], first: int, bound: str | None
    ) -> FitRow:
        most = first if bound else LARGEST // self._unit
        wanted = [(answer, limits) for answer in ("raises", "pressure") for limits in ends]
        found = [
            growth.guess(limits.allowed if answer == "raises" else limits.recommended or 0) for answer, limits in wanted
        ]
        while True:
            exact = growth.exact
            found = [
                _largest(growth, limits, answer, near, most)
                for near, (answer, limits) in zip(found, wanted, strict=True)
            ]
            reached = max(found)
            if reached == most and exact and not bound and not growth.check(2 * growth.points[-1][0]):
                continue  # far from the points an interpolation is soon wrong
            inputs = sum(one.storage.nbytes for one in growth.at(reached or 1).steady if one.storage.category == INPUTS)
            if reached > most - 1 and bound is None:
                bound = f"it hardly grows with the {WHAT[self.vary]}"
            if inputs > MOST_INPUTS and self.vary != SIZE:
                bound = bound or "interpolated and not run: its inputs would take much of this machine's memory"
                break
            if reached > first and bound is None:
                able, said = self._ability(way, first, reached)
                if able < reached:
                    most, bound = able, said
                    continue
            if reached < 1 or growth.check(reached) or not exact:
                break
        needs = growth.measured(first)
        low, high, low_calm, high_calm = (size * self._unit for size in found)
        return FitRow(
            what=way.what,
            size=first * self._unit,
            peak_bytes=needs.unlimited.live,
            allocated_bytes=needs.unlimited.in_use,
            largest=SizeRange(low=low, high=high),
            without_pressure=SizeRange(low=low_calm, high=high_calm),
            bound=bound,
            runs=growth.runs,
            note=NOTES.get(way.what),
        )

    def _points(self, way: Variation, first: int) -> list[int]:
        """The sizes to run: two for a batch, where 1 is a case of its own; three for what may grow faster.

        Attention over the patches of an image grows with the fourth power of its width, hence five. They are others
        than the model's own size, which may be a case of its own too.
        """
        if self.vary == BATCH:
            least = min(max(first, 2), LARGEST // 2)
            return [least, 2 * least]
        if self.vary == SIZE:
            step = max(1, first // 4)
            return [first + step * times for times in range(1, 6)]
        step = max(1, first // 4)
        return [first, first - step, first - 2 * step] if first > 2 * step else [first, first + step, first + 2 * step]

    def _ability(self, way: Variation, able: int, wanted: int) -> tuple[int, str | None]:
        """The largest size up to ``wanted`` that the workload can be built with, and why no larger one."""
        said = None
        unable = wanted + 1
        size = wanted
        while unable - able > 1:
            try:
                self._built(way.options, size)
                able = size
            except MpsprobeError as error:
                said, unable = f"{error.message}. {error.hint}" if error.hint else error.message, size
            size = (able + unable) // 2
        return able, said

    def _needs(self, way: Variation, size: int) -> Needs:
        run = self._built(way.options, size)
        way.change(run)
        options = self._with(way.options, size)
        device = VirtualDevice(self.table)
        _, found = settled(run, options, self.table, self._outcomes, device, self._most)
        if found.failure is not None and self._most == "most":
            self._most = "ones"
            return self._needs(way, size)
        if found.failure is not None:
            raise RunFailed(found.failure, False)
        self._last = found if way.what == AS_IT_IS else self._last
        line = timeline(found.events)
        biggest = line.largest.nbytes if line.largest else 0
        return Needs(self.table.release, line.changes, figures(line.changes, self.table.release, Limits()), biggest)

    def _parameters(self, run: TorchRun) -> Needs:
        """What the parameters alone need."""
        found: dict[Any, int] = {}
        for one in run.model.parameters():
            if not isinstance(one, torch.nn.parameter.UninitializedParameter):
                found[id(one)] = one.numel() * one.element_size()
        steady = [Change(Storage(nbytes, PARAMETERS, None, None), True) for nbytes in found.values()]
        unlimited = figures(steady, self.table.release, Limits())
        return Needs(self.table.release, steady, unlimited, max(found.values(), default=0))


def fit_report(
    workload: Workload, options: RunOptions, release: str, mac: Mac, vary: Varied, progress: Progress, *, savings: bool
) -> FitReport:
    """See ``Search``. Raises as ``Search.report``, and if there is no such release."""
    table = family_named(options.backend).target(release)
    return Search(workload, options, table, mac, vary, progress).report(savings=savings)


def _largest(growth: Growth, limits: Limits, reached: str, near: int, most: int) -> int:
    worse = ("raises",) if reached == "raises" else ("raises", "pressure")
    return largest(lambda size: answer_with(limits, growth.at(size)) not in worse, near, most)
