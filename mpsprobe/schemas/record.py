"""The settings that every schema shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Keys that this version does not know are kept verbatim, so that a newer report survives a round trip."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)
