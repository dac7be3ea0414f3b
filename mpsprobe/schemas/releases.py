"""Releases of torch against each other: what another one changes, and which missing operators block whom."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.declarations import Verdict
from mpsprobe.schemas.coverage import AffectedRange, AffectedSystems, MatrixCell
from mpsprobe.schemas.record import Exportable, Local, Record
from mpsprobe.schemas.run import Environment, Target, WorkloadInfo


class ChangedKernel(Record):
    """An operator that the two releases serve differently, by their registrations alone."""

    operator: str = Field(description="`namespace::name.overload`, without `.default`.")
    old: Verdict = Field(description="In the old release; `unknown` where it does not have the operator.")
    new: Verdict = Field(description="In the new one.")


class ChangedAdvisory(Record):
    """A known wrong result that only one of the two releases is known to have."""

    id: str = Field(description="As `mpsprobe advisories show` takes it.")
    title: str = Field(description="The same in a line.")
    operators: list[str] = Field(description="Those that are wrong.")
    torch: AffectedRange = Field(description="The releases that have it.")
    macos: AffectedSystems = Field(description="The systems that have it.")
    hardware: str | None = Field(default=None, description="The chips that have it, where it is not all of them.")
    workaround: str = Field(description="What to do where a release has it.")
    established: bool = Field(description="Whether a source says that the other release is without it, or none does.")


class UpgradedWorkload(Record):
    """What each of the two releases does with a workload."""

    name: Local = Field(description="As it was asked for.")
    workload: WorkloadInfo | None = Field(default=None, description="What was run.")
    old: MatrixCell | None = Field(default=None, description="The old release; `null` where it was not judged.")
    new: MatrixCell | None = Field(default=None, description="The new one.")
    error: Local | None = Field(default=None, description="Why it was not judged, in a sentence.")
    hint: Local | None = Field(default=None, description="What to do about that.")


class UpgradeReport(Exportable):
    """What changes for MPS from one torch release to another.

    Operators are compared by their registrations: a single call can still be refused or left to the CPU. The workloads
    are judged call by call.
    """

    kind: Literal["upgrade"] = "upgrade"
    old: Target = Field(description="The release that one has.")
    new: Target = Field(description="The release that one thinks of.")
    environment: Environment = Field(description="Where the report was made.")
    libraries: dict[str, list[str]] = Field(default={}, description="Other libraries compared: old and new version.")
    gained: list[ChangedKernel] = Field(description="Ran on the CPU or raised; have a kernel, or are made of such.")
    added: list[str] = Field(description="New operators that have a kernel.")
    own: list[str] = Field(description="Were composed of other operators; have a kernel of their own.")
    lost: list[ChangedKernel] = Field(description="Had a kernel; run on the CPU now, or raise.")
    removed: list[str] = Field(description="Worked, and PyTorch has them no more.")
    sparse_gained: list[str] = Field(default=[], description="Have a kernel for sparse tensors that they had not.")
    sparse_lost: list[str] = Field(default=[], description="Have it no more.")
    fixed: list[ChangedAdvisory] = Field(description="Known wrong results of the old release that the new one has not.")
    introduced: list[ChangedAdvisory] = Field(description="Those of the new release that the old one has not.")
    remaining: list[str] = Field(default=[], description="Identifiers of those that both have.")
    workloads: list[UpgradedWorkload] = Field(default=[], description="In the order in which they were asked for.")

    @property
    def fallbacks_gone(self) -> list[str]:
        """The operators that the old release runs on the CPU, and the new one on the GPU."""
        return [change.operator for change in self.gained if change.old == "fallback"]


class RankedOperator(Record):
    """An operator, and whom it stops."""

    operator: str = Field(description="`namespace::name.overload`, without `.default`.")
    verdict: Verdict = Field(description="The worst that any of them meets.")
    architectures: list[str] = Field(description="Those that call it, by name.")
    alone: list[str] = Field(description="Those of them that nothing else blocks: with this kernel they would run.")
    phases: list[str] = Field(description="In which phases it is met.")
    native_since: str | None = Field(default=None, description="From this release on no architecture meets it.")


class RankedRewrite(Record):
    """A function that takes the place of operators without a kernel, and whom it helps."""

    name: str = Field(description="Of the function.")
    operators: list[str] = Field(description="That it takes the place of, of those that block here.")
    architectures: list[str] = Field(description="Those that are blocked by one of them.")
    alone: list[str] = Field(description="Those of them that nothing else blocks: with this rewrite they would run.")


class RankedRelease(Record):
    """What a release gained over the one before, over all architectures that were swept."""

    torch: str = Field(description="The release.")
    clean: int = Field(ge=0, description="Architectures whose operators are all native, in every phase that was swept.")
    blocked: int = Field(ge=0, description="Architectures that have a missing or an unsupported operator.")
    operators: list[str] = Field(description="Operators that block nobody from it on, and did in the release before.")
    architectures: list[str] = Field(description="Architectures that are not blocked, and were in the release before.")
    lost: list[str] = Field(default=[], description="Architectures that are blocked, and were not before.")


class RankingReport(Exportable):
    """The operators that block the most architectures in one release, and what each release gained."""

    kind: Literal["ranking"] = "ranking"
    torch: str = Field(description="The release that is ranked.")
    phases: list[str] = Field(description="That count.")
    architectures: int = Field(ge=0, description="How many were swept; models of one class count once, whatever size.")
    made: str = Field(description="When the atlas was made, as ISO 8601 has it.")
    environment: Environment = Field(description="Where, and with which versions.")
    operators: list[RankedOperator] = Field(description="Those that block most come first.")
    fallbacks: list[RankedOperator] = Field(description="What the release runs on the CPU, likewise.")
    releases: list[RankedRelease] = Field(description="The newest first.")
    rewrites: list[RankedRewrite] = Field(default=[], description="Those of `mpsprobe fix` and other plugins.")
    rewritten: int = Field(default=0, ge=0, description="Blocked architectures that would run with all of these.")
