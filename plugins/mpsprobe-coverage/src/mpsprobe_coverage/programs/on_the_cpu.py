"""What of a program stayed on the CPU: models that were never moved, and what it computed there.

The native device sees the calls, and where their results went (``native/on_cpu.cpp``). Calls are the program's own work
unless their results came to the device, as a batch does that a loader prepares. What autograd runs backward, or what
reads weights, is part of a model wherever its results went.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch

from mpsprobe.schemas import ComputedOnCpu, OnTheCpu
from mpsprobe_coverage.devices.native.device import OnCpu, Site
from mpsprobe_coverage.recording.attribution import Attribution, Origin
from mpsprobe_coverage.reporting.findings import site as call_site

CPU = "cpu"
LEAST_SHARE = 0.1
"""Of what all operators read and wrote; less is bookkeeping, compared with what the device does."""
LEAST_OF_A_LINE = 0.01


@dataclass(slots=True)
class Root:
    """A module that a program calls outside of all others: a model."""

    kind: str
    parameters: int  # how many numbers they are; those without a shape are not counted
    parameters_bytes: int
    dtype: str  # of the first one
    part: bool  # of another one, or around one, that is counted already
    on_the_cpu: int = 0  # calls while its parameters were there
    elsewhere: int = 0
    origin: Origin | None = None  # the first call on the CPU


class Roots:
    """Counts the calls of root modules that have parameters; losses and activations have none."""

    def __init__(self, attribution: Attribution) -> None:
        self._attribution = attribution
        self._by_module: weakref.WeakKeyDictionary[torch.nn.Module, Root] = weakref.WeakKeyDictionary()
        self._all: list[Root] = []

    def called(self, module: torch.nn.Module) -> None:
        """A root module is called now."""
        first = next(module.parameters(), None)
        if first is None:
            return
        root = self._by_module.get(module)
        if root is None:
            root = self._by_module[module] = self._root(module, first)
            self._all.append(root)
        if first.device.type != CPU:
            root.elsewhere += 1
            return
        root.on_the_cpu += 1
        if root.origin is None:
            root.origin = self._attribution.current()

    def _root(self, module: torch.nn.Module, first: torch.Tensor) -> Root:
        inside = set(module.modules())
        part = any(root in inside or module in root.modules() for root in list(self._by_module))
        sizes = [
            (parameter.numel(), parameter.element_size())
            for parameter in module.parameters()
            if not isinstance(parameter, torch.nn.UninitializedParameter)
        ]
        size = sum(count * width for count, width in sizes)
        dtype = str(first.dtype).removeprefix("torch.")
        return Root(type(module).__name__, sum(count for count, _ in sizes), size, dtype, part)

    def __iter__(self) -> Iterator[Root]:
        """Those that are no part of another, in the order of their first calls."""
        return (root for root in self._all if not root.part)

    def stayed(self) -> list[OnTheCpu]:
        """Those that were called and never left the CPU, by class, the largest first."""
        by_kind: dict[str, list[Root]] = defaultdict(list)
        for root in self:
            if root.on_the_cpu and not root.elsewhere:
                by_kind[root.kind].append(root)
        models = [
            OnTheCpu(
                module=kind,
                calls=sum(root.on_the_cpu for root in roots),
                parameters_bytes=sum(root.parameters_bytes for root in roots),
                call_site=_line_of(roots[0].origin),
            )
            for kind, roots in by_kind.items()
        ]
        return sorted(models, key=lambda model: -model.parameters_bytes)


def computed(on_cpu: OnCpu, stayed: Iterable[str]) -> list[ComputedOnCpu]:
    """The lines of the program's own work, the largest first; none if it is little and no gradient passes through it.

    What the models that ``stayed`` on the CPU and their results do is theirs.
    """
    sites = on_cpu.sites
    after, before = defaultdict(set), defaultdict(set)
    for source, reader in on_cpu.flows:
        if "optimizer" not in (sites[source].phase, sites[reader].phase):
            after[source].add(reader)
            before[reader].add(source)
    models = {*stayed}
    inside = (number for number, site in enumerate(sites) if (site.origin.module or "").partition(".")[0] in models)
    of_models = _reached(after, inside)
    prepares = _reached(before, (number for number, site in enumerate(sites) if site.moved))
    of_device = _reached(after, (number for number, site in enumerate(sites) if site.from_device))
    own = [
        number
        for number, site in enumerate(sites)
        if site.calls and site.phase != "optimizer" and number not in of_models
        if number not in prepares or site.weights or site.phase == "backward"
    ]
    everything = sum(site.data_bytes for site in sites) + on_cpu.device_bytes
    if not everything:
        return []
    by_line: dict[Origin, list[Site]] = defaultdict(list)
    came, went = set(), set()
    for number in own:
        site = sites[number]
        line = site.origin._replace(module=None)
        by_line[line].append(site)
        if number in of_device:
            came.add(line)
        if site.phase == "backward" and number in prepares:
            went.add(line)
    crossing = came & went  # a loss on the CPU: its gradient goes back to the device in each step, however small it is
    enough = sum(sites[number].data_bytes for number in own) >= LEAST_SHARE * everything
    lines = {origin: _work(origin, of_line, everything) for origin, of_line in by_line.items()}
    shown = [work for line, work in lines.items() if line in crossing or (enough and work.share >= LEAST_OF_A_LINE)]
    return sorted(shown, key=lambda work: -work.data_bytes)


def _work(origin: Origin, sites: list[Site], everything: int) -> ComputedOnCpu:
    sites.sort(key=lambda site: -site.data_bytes)
    size = sum(site.data_bytes for site in sites)
    return ComputedOnCpu(
        call_site=_line_of(origin),
        operators=list(dict.fromkeys(site.operator for site in sites)),
        calls=sum(site.calls for site in sites),
        data_bytes=size,
        share=round(size / everything, 3),
    )


def _line_of(origin: Origin | None) -> str | None:
    return call_site(origin.file, origin.line) if origin is not None and origin.file is not None else None


def _reached(edges: Mapping[int, set[int]], start: Iterable[int]) -> set[int]:
    reached, left = set(), list(start)
    while left:
        number = left.pop()
        if number not in reached:
            reached.add(number)
            left.extend(edges.get(number, ()))
    return reached
