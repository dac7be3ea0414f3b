"""The modules that a program calls outside of all others: its models. Which of them stayed on the CPU all along?"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from mpsprobe.schemas import OnTheCpu
from mpsprobe_coverage.recording.attribution import Attribution, Origin
from mpsprobe_coverage.reporting.findings import site

ON_THE_CPU = "cpu"


@dataclass(slots=True)
class Root:
    """One such module.

    Attributes:
        kind: its class.
        parameters: how many numbers they are; those without a shape are not counted.
        parameters_bytes: what they take.
        dtype: of the first one.
        part: of another one, or around one, that is counted already.
        on_the_cpu: calls while its parameters were there.
        elsewhere: other calls.
        origin: the first call on the CPU.
    """

    kind: str
    parameters: int
    parameters_bytes: int
    dtype: str
    part: bool
    on_the_cpu: int = 0
    elsewhere: int = 0
    origin: Origin | None = None


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
            root = self._by_module[module] = self._made(module, first)
            self._all.append(root)
        if first.device.type != ON_THE_CPU:
            root.elsewhere += 1
            return
        root.on_the_cpu += 1
        if root.origin is None:
            root.origin = self._attribution.current()

    def _made(self, module: torch.nn.Module, first: torch.Tensor) -> Root:
        own = set(module.modules())
        known = list(self._by_module)
        part = any(one in own for one in known) or any(module in one.modules() for one in known)
        sizes = [
            (one.numel(), one.element_size())
            for one in module.parameters()
            if not isinstance(one, torch.nn.UninitializedParameter)
        ]
        size = sum(count * width for count, width in sizes)
        dtype = str(first.dtype).removeprefix("torch.")
        return Root(type(module).__name__, sum(count for count, _ in sizes), size, dtype, part)

    def __iter__(self) -> Iterator[Root]:
        """Those that are no part of another, in the order of their first calls."""
        return (root for root in self._all if not root.part)

    def stayed(self) -> list[OnTheCpu]:
        """Those that were called and never left the CPU, by class, the largest first."""
        by_kind: dict[str, OnTheCpu] = {}
        for root in self:
            if root.elsewhere or not root.on_the_cpu:
                continue
            found = by_kind.get(root.kind)
            if found is None:
                origin = root.origin
                place = site(origin.file, origin.line) if origin is not None and origin.file is not None else None
                by_kind[root.kind] = OnTheCpu(
                    module=root.kind,
                    calls=root.on_the_cpu,
                    parameters_bytes=root.parameters_bytes,
                    call_site=place,
                )
            else:
                calls, size = found.calls + root.on_the_cpu, found.parameters_bytes + root.parameters_bytes
                by_kind[root.kind] = found.model_copy(update={"calls": calls, "parameters_bytes": size})
        return sorted(by_kind.values(), key=lambda one: -one.parameters_bytes)
