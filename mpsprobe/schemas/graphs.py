"""MPSGraphs, which are compiled for each new shape, and how many a run needs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.schemas.record import Record, Sum

CompilesGraph = Literal["always", "may", "never"]
"""Whether a call with new shapes compiles an MPSGraph: every call, some calls, or none, which have ready kernels."""


class GraphCount(Record):
    """How many MPSGraphs are compiled: those of operators that always run one, and with those that may."""

    least: Sum[int] = Field(ge=0, description="Of operators whose every call runs one.")
    most: Sum[int] = Field(ge=0, description="Together with those of operators of which some calls need not run one.")


class GraphGrowth(Record):
    """How many MPSGraphs are compiled over many lengths: predicted from a few that were run."""

    varied: Literal["seq-len", "batch-size", "size", "new-tokens"] = Field(description="What has many values.")
    first: int = Field(description="The first value.")
    last: int = Field(description="The last value.")
    tried: list[int] = Field(description="The values that were run.")
    fixed: GraphCount = Field(description="Graphs that all values share.")
    each: GraphCount = Field(description="Further ones for each value.")
    total: GraphCount = Field(description="Over all values.")
    padded_to: int | None = Field(default=None, description="A multiple to which lengths may be padded.")
    padded: GraphCount | None = Field(default=None, description="Over all values, where they are padded so.")
    static: GraphCount | None = Field(default=None, description="Of a generation with a cache of one size.")
