"""An answer that was known before it was asked for."""

from __future__ import annotations

from pydantic import Field

from mpsprobe.schemas.record import Record

FROM_A_RUN = "Where the answer was known already; `null`: it was worked out for this report."
"""What the field of a report says that has one."""


class Recalled(Record):
    """Where the report comes from, instead of a run; its `environment` says with which versions it was worked out."""

    source: str = Field(description="`cache`, the user's own, or the distribution that knew it (`mpsprobe-atlas`).")
    made: str = Field(description="When it was worked out, in UTC: `2026-11-22T19:30:00Z`.")
    notes: list[str] = Field(default=[], description="How it may differ from what a run here would say.")
