"""What MPS does with several workloads: one report of many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mpsprobe.schemas.coverage import CoverageReport, MatrixReport
from mpsprobe.schemas.environment import Environment
from mpsprobe.schemas.record import Exportable, Record


class JudgedWorkload(Record):
    """One of several workloads: its report, or why there is none."""

    name: str = Field(description="As it was asked for.")
    seconds: float = Field(default=0.0, ge=0, description="That it took.")
    report: Annotated[CoverageReport | MatrixReport, Field(discriminator="kind")] | None = Field(
        default=None, description="`null` where there is none."
    )
    error: str | None = Field(default=None, description="Why there is none, in a sentence.")
    hint: str | None = Field(default=None, description="What to do about that.")


class SeveralReport(Exportable):
    """What one torch release, or each of many, does with several workloads."""

    kind: Literal["coverage-several"] = "coverage-several"
    schema_version: Literal[1] = 1
    environment: Environment = Field(description="Where they were traced.")
    workloads: list[JudgedWorkload] = Field(description="In the order in which they were asked for.")
    complete: bool = Field(default=True, description="Whether each of them was judged: Ctrl-C ends it before.")

    def __iter__(self) -> Iterator[JudgedWorkload]:  # type: ignore[override]  # pydantic's own gives fields
        """Its workloads."""
        return iter(self.workloads)
