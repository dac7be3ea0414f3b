"""Fakes of what plugins provide: they compute nothing and remember how they were used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas.report import Report
from mpsprobe.testing.reports import sample_coverage_report


@dataclass
class FakeWorkload:
    """A workload of the framework ``fake``: ``build`` returns the options that it was given."""

    name: str = "fake"
    framework: str = "fake"
    built: list[RunOptions] = field(default_factory=list)

    def build(self, options: RunOptions) -> RunOptions:
        """Remembers ``options`` in ``built`` and returns them."""
        self.built.append(options)
        return options

    def describe(self) -> Mapping[str, Any]:
        """Its name and architecture."""
        return {"name": self.name, "architecture": "Fake"}


@dataclass
class FakeScanner:
    """Builds the workload once and returns the sample report."""

    scanned: list[tuple[str, RunOptions, tuple[str, ...]]] = field(default_factory=list)

    def scan(
        self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress
    ) -> Report:
        """Remembers what it was asked in ``scanned``."""
        self.scanned.append((workload.name, options, tuple(torch_releases)))
        progress.start(1, workload.name)
        workload.build(options)
        progress.advance()
        progress.stop()
        return sample_coverage_report()


@dataclass
class FakeProgress:
    """Remembers each call in ``steps``: ``("start", 3, "building")``, ``("advance", None)``, ``("stop",)``."""

    steps: list[tuple[Any, ...]] = field(default_factory=list)

    def start(self, total: int | None, what: str) -> None:
        """Remembers the call."""
        self.steps.append(("start", total, what))

    def advance(self, what: str | None = None) -> None:
        """Remembers the call."""
        self.steps.append(("advance", what))

    def stop(self) -> None:
        """Remembers the call."""
        self.steps.append(("stop",))
