"""What becomes of MPS with another torch release: kernels, known wrong results, and the workloads that were named."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.declarations import Verdict
from mpsprobe.schemas.coverage import AffectedRange, AffectedSystems, MatrixCell
from mpsprobe.schemas.environment import Environment
from mpsprobe.schemas.record import Exportable, Record
from mpsprobe.schemas.target import Target
from mpsprobe.schemas.workload import WorkloadInfo


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

    name: str = Field(description="As it was asked for.")
    workload: WorkloadInfo | None = Field(default=None, description="What was run.")
    old: MatrixCell | None = Field(default=None, description="The old release; `null` where it was not judged.")
    new: MatrixCell | None = Field(default=None, description="The new one.")
    error: str | None = Field(default=None, description="Why it was not judged, in a sentence.")
    hint: str | None = Field(default=None, description="What to do about that.")


class UpgradeReport(Exportable):
    """What changes for MPS from one torch release to another.

    Operators are compared by their registrations: a single call can still be refused or left to the CPU. The workloads
    are judged call by call.
    """

    kind: Literal["upgrade"] = "upgrade"
    schema_version: Literal[1] = 1
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
        return [one.operator for one in self.gained if one.old == "fallback"]
