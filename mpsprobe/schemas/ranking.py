"""Which missing operators block the most architectures, by release."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.declarations import Verdict
from mpsprobe.schemas.environment import Environment
from mpsprobe.schemas.record import Exportable, Record


class RankedOperator(Record):
    """An operator, and whom it stops."""

    operator: str = Field(description="`namespace::name.overload`, without `.default`.")
    verdict: Verdict = Field(description="The worst that any of them meets.")
    architectures: list[str] = Field(description="Those that call it, by name.")
    alone: list[str] = Field(description="Those of them that nothing else blocks: with this kernel they would run.")
    phases: list[str] = Field(description="In which phases it is met.")
    native_since: str | None = Field(default=None, description="From this release on no architecture meets it.")


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
    schema_version: Literal[1] = 1
    torch: str = Field(description="The release that is ranked.")
    phases: list[str] = Field(description="That count.")
    architectures: int = Field(ge=0, description="How many were swept; models of one class count once, whatever size.")
    made: str = Field(description="When the atlas was made, as ISO 8601 has it.")
    environment: Environment = Field(description="Where, and with which versions.")
    operators: list[RankedOperator] = Field(description="Those that block most come first.")
    fallbacks: list[RankedOperator] = Field(description="What the release runs on the CPU, likewise.")
    releases: list[RankedRelease] = Field(description="The newest first.")
