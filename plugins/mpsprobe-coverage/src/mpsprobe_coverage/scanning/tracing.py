"""What a workload builds, run for a step on the virtual device of one release or another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from packaging.version import Version

from mpsprobe import stepping
from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import RunOptions, TorchRun, Workload
from mpsprobe.suggestions import first_line
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.data_dependent import Found
from mpsprobe_coverage.devices.virtual.execution import Outcomes
from mpsprobe_coverage.devices.virtual.restoring import as_before
from mpsprobe_coverage.devices.virtual.wrapping import initialised
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_coverage.knowledge.memory.lifetimes import Lifetimes
from mpsprobe_coverage.knowledge.memory.timeline import timeline
from mpsprobe_coverage.recording.attribution import Origin
from mpsprobe_coverage.recording.branches import Branches, Site, Ways, ended_by
from mpsprobe_coverage.recording.trace import Trace
from mpsprobe_coverage.reporting.attempts import Attempt
from mpsprobe_coverage.reporting.findings import site
from mpsprobe_coverage.reporting.memory import label_model
from mpsprobe_coverage.scanning import images
from mpsprobe_coverage.scanning.process_state import one_thread, same_numbers
from mpsprobe_coverage.scanning.step import run_step

CHAINS_KEPT = 128
REFUSALS = 16  # how many messages of a model are passed over: each is one more run

# A library on an older release may call what the installed torch does not have any more; then the answers of that.
NOT_INSTALLED = (AttributeError, ImportError, TypeError)
ANSWERED = (
    "libraries that asked for torch's version were answered as by the installed {}: as on {} they call what that does "
    "not have ({})"
)

# What a chain has found out of an operator holds for every workload. It keeps its tables, so no other gets their ids.
_chains: dict[tuple[str | int | None, ...], Chain] = {}


def chain_for(table: KernelTable, options: RunOptions, others: Sequence[KernelTable] = ()) -> Chain:
    """The judges of the release, with the libraries that are loaded, for the macOS of ``options``; see ``Chain``."""
    libraries = table.family.loaded_libraries(table.release)
    key = (options.macos, *map(id, (table, *libraries.values())), None, *map(id, others))
    if key not in _chains:
        if len(_chains) >= CHAINS_KEPT:  # tables of plugins may be new ones each time
            _chains.clear()
        macos = None if options.macos is None else Version(options.macos)
        _chains[key] = Chain(table, libraries, macos=macos, others=[chain_for(other, options) for other in others])
    return _chains[key]


def built(
    workload: Workload, options: RunOptions, table: KernelTable, width: int | None = None
) -> tuple[TorchRun, Mapping[Origin, str]]:
    """What ``workload`` builds for ``options``, and the lines that moved a part of it to another device.

    ``width``: of its images, if not their own. Raises ``MpsprobeError`` where it cannot be built.
    """
    with same_numbers(), VirtualDevice(table, keep_weights=options.weights).construction() as construction:
        run = stepping.built(workload, options)
        if width is not None:
            images.resize(run, width)
    return run, construction.elsewhere


@dataclass
class Tracer:
    """Runs ``run``; ``outcomes`` are what operators gave in earlier runs."""

    run: TorchRun
    options: RunOptions
    outcomes: Outcomes = field(default_factory=dict)

    def settled(self, table: KernelTable, **how: Any) -> Trace:
        """``trace``; where inputs do not fit on the CPU either, ``run`` is corrected first.

        What the newest release takes fits: then the error is one of this release.
        """
        trace = self.trace(table, **how)
        while isinstance(trace.error, Exception) and self.run.correct is not None:
            error: BaseException | None = trace.error
            newest = table.family.load(table.family.releases[-1])
            if trace.other_sizes or table.release != newest.release:
                with suppress(MpsprobeError):
                    error = self.trace(newest, **how | {"sizes_of_cpu": True, "others": ()}).error
            if not isinstance(error, Exception):
                break
            with VirtualDevice(table, keep_weights=self.options.weights).construction():
                better = self.run.correct(error)
            if better is None:
                break
            self.run = better
            trace = self.trace(table, **how)
        trace.error = None  # its traceback holds what the step made
        return trace

    def trace(self, table: KernelTable, others: Sequence[tuple[KernelTable, bool]] = (), **how: Any) -> Trace:
        """Run one step on the virtual device of the release of ``table``, as ``_step`` takes ``how``.

        Where a refusal ends it, it is run again and passes over that, so that the refusal is a finding among others. A
        message that ends the next run too is none about a dtype: the workload cannot run. ``others`` are further
        releases, and whether the step may be about each of them; see ``release_questions.py``.
        """
        chain = chain_for(table, self.options, [other for other, _ in others])
        chain.alike[:] = [alike for _, alike in others]
        ways, traces = Ways(), list[Trace]()
        for chosen in ways:
            trace, branches = self._trace(chain, chosen, **how)
            ways.add(branches.taken, branches.once, ended_by(trace.failure))
            traces.append(trace)
        trace = traces[ways.main] if len(traces) == 1 else _united(traces, ways)
        trace.alike = frozenset(number for number, alike in enumerate(chain.alike) if alike)
        return trace

    def _trace(self, chain: Chain, chosen: Mapping[Site, bool], **how: Any) -> tuple[Trace, Branches]:
        """With what is ``chosen`` where only values decide; and what was answered there."""
        table = chain.table

        def step(**more: Any) -> tuple[Trace, Branches]:
            branches = Branches(site, chosen)
            return self._step(chain, passed_over, branches=branches, **how | more), branches

        passed_over: frozenset[str] = frozenset()
        trace, branches = step()
        if (
            trace.failure is not None
            and isinstance(trace.error, NOT_INSTALLED)
            and table.release != installed_release()
        ):
            own, of_own = step(answers=installed_release())
            if own.failure is None or own.failure.message != trace.failure.message:
                own.notes = [*own.notes, ANSWERED.format(installed_release(), table.release, trace.failure.message)]
                trace, branches, how = own, of_own, how | {"answers": installed_release()}
                chain.alike[:] = [False for _ in chain.alike]
        while trace.error is not None and first_line(trace.error) not in passed_over and len(passed_over) < REFUSALS:
            passed_over |= {first_line(trace.error)}
            with suppress(MpsprobeError):  # the loss does not depend on parameters beyond the refusal
                trace, branches = step()
        return trace, branches

    def _step(
        self,
        chain: Chain,
        passed_over: frozenset[str],
        *,
        branches: Branches,
        only_native: bool = False,  # the first call that is not raises NotNative
        sizes_of_cpu: bool = False,
        unknown: Found = "ones",  # how many are found where values are not known
        answers: str | None = None,  # of which release to libraries, if not its own
    ) -> Trace:
        run, options = self.run, self.options
        lifetimes = None if only_native else Lifetimes()
        device = VirtualDevice(
            chain,
            keep_weights=options.weights,
            outcomes=self.outcomes,
            passed_over=passed_over,
            sizes_of_cpu=sizes_of_cpu,
            lifetimes=lifetimes,
            found=unknown,
            branches=branches,
            answers=answers,
        )
        device.recorder.only_native = only_native
        trace = Trace(chain.table, device.recorder, {}, None, 0, 0, asked=device.asked, chain=chain)
        # What the model keeps for its next call would be there in the next run.
        with as_before(run.model.modules()), nullcontext() if options.weights else one_thread(), same_numbers(), device:
            device.move(run.model)
            label_model(run.model)
            with Attempt(run.model, device.attribution, lambda: device.recorder.last_phase) as attempt:
                try:
                    trace.notes = run_step(run, options, device)
                finally:
                    trace.events = [] if lifetimes is None else lifetimes.end()
            trace.failure, trace.error = attempt.failure, attempt.error
            for parameter in initialised(run.model.parameters()):
                trace.parameters += parameter.numel()
                trace.parameters_bytes += parameter.numel() * parameter.element_size()
            if options.chip is not None:
                stored = initialised(iter((*run.model.parameters(), *run.model.buffers())))
                trace.weights = frozenset(tuple(tensor.shape) for tensor in stored)
        trace.calls, trace.other_sizes = device.calls(), device.other_sizes
        if trace.failure is not None and trace.other_sizes:
            trace.notes = [trace.other_sizes]
        return trace


def _united(traces: Sequence[Trace], ways: Ways) -> Trace:
    """The traces of one step as one; memory is that of the run with the highest peak."""
    main = traces[ways.main]
    main.recorder.unite([trace.recorder for trace in traces], ways)
    calls: dict[Any, list[Call]] = {}
    for trace in traces:
        for kind, some in trace.calls.items():
            calls.setdefault(kind, []).extend(some)
    main.calls = calls
    if main.asked is not None:
        main.asked.unite(trace.asked for trace in traces if trace is not main and trace.asked is not None)
    whole = [number for number, trace in enumerate(traces) if trace.failure is None]
    highest = max(whole, key=lambda number: timeline(traces[number].events).peak, default=ways.main)
    if traces[highest] is not main and timeline(traces[highest].events).peak > timeline(main.events).peak:
        main.events = traces[highest].events
        main.notes = [*main.notes, f"memory is what the run needs if {ways.only_if([highest])}"]
    return main
