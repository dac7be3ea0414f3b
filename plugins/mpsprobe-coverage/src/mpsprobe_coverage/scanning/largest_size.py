"""The largest size of a workload that fits on a Mac, as it is and with what saves memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import torch

from mpsprobe.environment import collect_environment
from mpsprobe.errors import MpsprobeError, RunFailed, UsageError, WorkloadError
from mpsprobe.options import LARGEST
from mpsprobe.protocols import Progress, RunOptions, TorchRun, Workload
from mpsprobe.schemas import FitReport, FitRow, SizeRange, Target
from mpsprobe.schemas.fit import Varied
from mpsprobe.stepping import workload_info
from mpsprobe_coverage.devices.virtual.data_dependent import Found
from mpsprobe_coverage.devices.virtual.execution import Outcomes
from mpsprobe_coverage.devices.virtual.wrapping import initialised
from mpsprobe_coverage.knowledge.chips.limits import Mac
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.knowledge.memory.allocator import Limits
from mpsprobe_coverage.knowledge.memory.lifetimes import INPUTS, PARAMETERS
from mpsprobe_coverage.knowledge.memory.timeline import Change, Storage, changes
from mpsprobe_coverage.recording.recorder import Recorder
from mpsprobe_coverage.reporting.findings import data_dependence, ends_of_branches
from mpsprobe_coverage.reporting.fitting import Needs, answer_with, ends_of, fit_on
from mpsprobe_coverage.scanning import images
from mpsprobe_coverage.scanning.interpolating import Interpolation
from mpsprobe_coverage.scanning.process_state import collecting_only_new
from mpsprobe_coverage.scanning.step import optimizer
from mpsprobe_coverage.scanning.tracing import Tracer, built
from mpsprobe_coverage.scanning.unknown_sizes import at_most, places
from mpsprobe_coverage.scanning.vary import SIZE, with_value

AS_IT_IS, ACCUMULATION, EIGHT_BITS = "as it is", "gradient accumulation", "8-bit AdamW"
NOTES = {  # what to know of the figures of a way
    ACCUMULATION: "of each pass; any number of passes makes up a batch",
    EIGHT_BITS: "run as it is written; where torch.compile works, it fuses the update and makes fewer tensors",
}
_CHECKPOINTING = (  # methods of models that switch it on
    "activation_checkpointing_enable",  # of transformers from 5 on
    "gradient_checkpointing_enable",  # of transformers before that
    "enable_gradient_checkpointing",  # of diffusers
    "set_grad_checkpointing",  # of timm
)
BATCH, LENGTH = "batch-size", "seq-len"
FIELDS = {BATCH: "batch_size", LENGTH: "seq_len"}
MOST_INPUTS = 2**29  # bytes of inputs that are made on this machine to try a size
WORSE_ANSWERS = (("raises",), ("raises", "pressure"))  # than the largest size gets, and the largest without pressure
WHAT = {BATCH: "batch size", LENGTH: "sequence length", SIZE: "image"}


class Variation(NamedTuple):
    """A way to run a workload: with these options, and what was built from them changed, or a ``UsageError``."""

    what: str
    options: RunOptions
    change: Callable[[TorchRun], None] = lambda run: None


def fit_report(
    workload: Workload, options: RunOptions, release: str, mac: Mac, vary: Varied, progress: Progress, *, savings: bool
) -> FitReport:
    """The largest ``vary`` of ``workload`` that fits on ``mac``; ``savings``: also with what needs less memory.

    Raises:
        MpsprobeError: the workload cannot be built, has nothing of the kind to vary, or stopped.
    """
    search = _Search(workload, options, family_named(options.backend).target(release), mac, vary)
    progress.start(None, f"building {workload.name}")
    try:
        with collecting_only_new() as begin_to_collect:
            run, _ = built(workload, options, search.table)
            base = search.base(run)
            info = workload_info(workload.name, run, options, optimizer(run, options, search.table))
            begin_to_collect()
            progress.advance(AS_IT_IS)
            row, needs = search.row(Variation(AS_IT_IS, options), base)
            fit = fit_on(mac, needs) if needs else None
            high_end = at_most(search.recorder, search.most)
            taken = {(note.operator, note.text) for note in high_end}
            assumed = data_dependence(search.recorder)
            info.notes.extend(ends_of_branches(search.recorder))
            rows = [row]
            for way in variations(options, run) if savings else ():
                progress.advance(way.what)
                rows.append(search.row(way, base)[0])
    finally:
        progress.stop()
    target = search.table.family.report_target(search.table, options.macos)
    if fit is None or not isinstance(target, Target):
        raise WorkloadError(f"nothing of '{workload.name}' is on the device", "There is no memory to find out.")
    return FitReport(
        workload=info,
        target=target,
        environment=collect_environment(),
        vary=vary,
        new_tokens=options.new_tokens if options.phase == "generate" else None,
        fit=fit,
        rows=rows,
        high_end=places(high_end),
        data_dependence=[read for read in assumed if (read.operator, read.assumed) not in taken],
    )


def _is_better(limits: Limits, worse: Sequence[str], needs: Needs) -> bool:
    return answer_with(limits, needs) not in worse


@dataclass(slots=True)
class _Search:
    """Tries sizes of one workload on the release of ``table``; ``vary`` is what grows."""

    workload: Workload
    options: RunOptions
    table: KernelTable
    mac: Mac
    vary: Varied
    recorder: Recorder = field(default_factory=Recorder)  # of the last run as it is
    most: Found = "most"  # where sizes depend on values that are not known; "ones" once a run cannot do that
    _outcomes: Outcomes = field(default_factory=dict)
    _unit: int = 1  # images are a multiple of it

    def built(self, options: RunOptions, size: int) -> TorchRun:
        width = size * self._unit if self.vary == SIZE else None
        return built(self.workload, with_value(options, self.vary, size), self.table, width)[0]

    def base(self, run: TorchRun) -> int:
        """The size that the workload, built as ``run``, has by itself, if it takes another one too."""
        own = images.side(run) if self.vary == SIZE else getattr(run, FIELDS[self.vary])
        if own is None:
            others = [name for name in FIELDS if getattr(run, FIELDS[name]) is not None]
            hint = f"It has: {', '.join(others)}." if others else "Its inputs are made by its own code."
            raise UsageError(f"'{self.workload.name}' has no {WHAT[self.vary]} to vary", hint)
        if self.vary == SIZE:
            self._unit = images.unit(run)
            return int(own) // self._unit
        other = own * 2 if self.vary == BATCH and own <= LARGEST // 2 else max(1, own // 2)
        if other != own and getattr(self.built(self.options, other), FIELDS[self.vary]) == own:
            raise UsageError(
                f"the {WHAT[self.vary]} of '{self.workload.name}' is always {own}",
                "Its code makes the inputs: let it take the options, or call it with others.",
            )
        return int(own)

    def row(self, way: Variation, base: int) -> tuple[FitRow, Needs | None]:
        """The row of one way, and what it needs with its first size."""
        first = base
        if self.vary == BATCH and way.options.batch_size is not None:
            first = way.options.batch_size
        ends = ends_of(self.mac)
        try:
            run = self.built(way.options, first)
            way.change(run)
            alone = self._parameters(run)
            if answer_with(ends[1], alone) == "raises":
                note = f"its parameters alone do not fit, {alone.unlimited.live / 1e9:,.1f} GB"
                none = SizeRange(low=0, high=0)
                return FitRow(what=way.what, largest=none, without_pressure=none, note=note), alone
            needed, only = self._interpolation(way, first)
            needs = needed.measured(first)
            return self._row(way, needed, ends, first, only), needs
        except MpsprobeError as error:
            if way.what == AS_IT_IS:
                raise
            why = "it stopped" if isinstance(error, RunFailed) else "not run"
            return FitRow(what=way.what, note=f"{why}: {error.message}"), None

    def _interpolation(self, way: Variation, first: int) -> tuple[Interpolation, str | None]:
        """What it needs at each size, and why the workload takes ``first`` alone, where it does.

        Two sizes are run for a batch, where 1 is a case of its own; three for what may grow faster. Attention over the
        patches of an image grows with the fourth power of its width, hence five. They are others than the model's own
        size, which may be a case of its own too.
        """
        step = max(1, first // 4)
        points = [first + times * (-step if first > 2 * step else step) for times in range(3)]
        if self.vary == BATCH:
            least = min(max(first, 2), LARGEST // 2)
            points = [least, 2 * least]
        elif self.vary == SIZE:
            points = [first + step * times for times in range(1, 6)]
        needs = partial(self._needs, way)
        try:
            return Interpolation(needs, points), None
        except RunFailed as error:
            if self.vary != SIZE:
                raise
            return Interpolation(needs, [first]), f"it takes images of its own size alone: {error.message}"

    def _row(
        self, way: Variation, needed: Interpolation, ends: tuple[Limits, Limits], first: int, bound: str | None
    ) -> FitRow:
        most = first if bound else LARGEST // self._unit
        better = [partial(_is_better, end, worse) for worse in WORSE_ANSWERS for end in ends]
        limits = [*(end.allowed for end in ends), *(end.recommended or 0 for end in ends)]
        sizes = [needed.guess(limit) for limit in limits]
        while True:
            exact = needed.exact
            sizes = [needed.largest(fit, near, most) for fit, near in zip(better, sizes, strict=True)]
            reached = max(sizes)
            if reached == most and exact and not bound and not needed.check(2 * needed.points[-1][0]):
                continue  # far from the points an interpolation is soon wrong
            storages = [change.storage for change in needed.at(reached or 1).steady]
            if reached > most - 1 and bound is None:
                bound = f"it hardly grows with the {WHAT[self.vary]}"
            inputs = sum(storage.nbytes for storage in storages if storage.category == INPUTS)
            if inputs > MOST_INPUTS and self.vary != SIZE:
                bound = bound or "interpolated and not run: its inputs would take much of this machine's memory"
                break
            if reached > first and bound is None:
                able, why = self._ability(way, first, reached)
                if able < reached:
                    most, bound = able, why
                    continue
            if reached < 1 or needed.check(reached) or not exact:
                break
        unlimited = needed.measured(first).unlimited
        low, high, low_calm, high_calm = (size * self._unit for size in sizes)
        return FitRow(
            what=way.what,
            size=first * self._unit,
            peak_bytes=unlimited.live,
            allocated_bytes=unlimited.in_use,
            largest=SizeRange(low=low, high=high),
            without_pressure=SizeRange(low=low_calm, high=high_calm),
            bound=bound,
            runs=needed.runs,
            note=NOTES.get(way.what),
        )

    def _ability(self, way: Variation, able: int, wanted: int) -> tuple[int, str | None]:
        """The largest size up to ``wanted`` that the workload can be built with, and why no larger one."""
        why = None
        unable, size = wanted + 1, wanted
        while unable - able > 1:
            try:
                self.built(way.options, size)
                able = size
            except MpsprobeError as error:
                why, unable = f"{error.message}. {error.hint}" if error.hint else error.message, size
            size = (able + unable) // 2
        return able, why

    def _needs(self, way: Variation, size: int) -> Needs:
        run = self.built(way.options, size)
        way.change(run)
        tracer = Tracer(run, with_value(way.options, self.vary, size), self._outcomes)
        trace = tracer.settled(self.table, unknown=self.most)
        if trace.failure is not None and self.most == "most":
            self.most = "ones"
            return self._needs(way, size)
        if trace.failure is not None:
            raise RunFailed(trace.failure, False)
        if way.what == AS_IT_IS:
            self.recorder = trace.recorder
        return Needs(self.table.release, changes(trace.events))

    def _parameters(self, run: TorchRun) -> Needs:
        sizes = [parameter.numel() * parameter.element_size() for parameter in initialised(run.model.parameters())]
        steady = [Change(Storage(nbytes, PARAMETERS, None, None), True) for nbytes in sizes]
        return Needs(self.table.release, steady)


# -- what saves memory, each as it is switched on


def variations(options: RunOptions, run: TorchRun) -> Iterator[Variation]:
    """What may need less than the workload as it is, which was built as ``run``."""
    training = options.phase == "training"
    if options.dtype == "float32":
        if not training:
            yield Variation("float16", replace(options, dtype="float16"))
        yield Variation("bfloat16", replace(options, dtype="bfloat16"))
    if training:
        if options.autocast is None:
            yield Variation("autocast to float16", replace(options, autocast="float16"))
        yield Variation("gradient checkpointing", options, _checkpoint)
        if (run.batch_size or 1) > 1 and options.grad_accum == 1:
            half = (run.batch_size or 1) // 2
            yield Variation(ACCUMULATION, replace(options, grad_accum=2, batch_size=half))
        yield Variation(EIGHT_BITS, options, _eight_bits)
        yield Variation("SGD, which keeps no state", options, _sgd)
        if not options.lora:
            yield Variation(f"LoRA of rank {options.lora_rank}", replace(options, lora=True))
    if any(hasattr(module, "set_attention_slice") for module in run.model.modules()):
        yield Variation("attention slicing", options, _slice_attention)


def _checkpoint(run: TorchRun) -> None:
    name = next((name for name in _CHECKPOINTING if getattr(run.model, name, None) is not None), None)
    if name is None:
        raise UsageError("the model has no switch for it")
    named: dict[str, Any] = {}
    if name.endswith("checkpointing_enable"):
        named = {f"{name.removesuffix('_enable')}_kwargs": {"use_reentrant": False}}
    try:
        getattr(run.model, name)(**named)
    except ValueError as error:  # transformers: the class does not support it
        raise UsageError(str(error)) from error


def _parameters(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _sgd(run: TorchRun) -> None:
    run.optimizer = lambda model: torch.optim.SGD(_parameters(model), lr=1e-3)


def _eight_bits(run: TorchRun) -> None:
    try:
        optim = import_module("torchao.optim")
    except ImportError as error:
        why = "torchao, whose AdamW8bit is made of PyTorch's own operators, is not installed"
        raise UsageError(why) from error
    run.optimizer = lambda model: optim.AdamW8bit(_parameters(model))


def _slice_attention(run: TorchRun) -> None:
    for module in [run.model] if hasattr(run.model, "set_attention_slice") else run.model.children():
        if hasattr(module, "set_attention_slice"):
            module.set_attention_slice("auto")
