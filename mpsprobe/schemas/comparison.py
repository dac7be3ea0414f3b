"""What became slower, larger or worse between two reports, and whether that is more than noise."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.schemas.coverage import RunFailure, Verdict
from mpsprobe.schemas.environment import Environment
from mpsprobe.schemas.profile import DeviceInfo
from mpsprobe.schemas.record import Record

QuantityKind = Literal["step", "first_call", "phase", "throughput", "memory"]
Difference = Literal["slower", "faster", "larger", "smaller", "no difference", "too few samples", "not tested"]
"""``no difference``: none beyond noise, or none of the least size that counts. ``too few samples``: no sample of that
size could show a difference. ``not tested``: measured once, so that nothing is known of its noise."""
Presence = Literal["both", "new", "gone"]


class ComparedSide(Record):
    """One of the two reports. ``source`` is how the user named it."""

    source: str
    workloads: list[str] = []
    environment: Environment | None = None
    devices: list[DeviceInfo] = []
    torch: str | None = Field(default=None, description="The release that ran, or of coverage the one that is judged.")
    complete: bool = True


class ChangedCondition(Record):
    """Something about the runs themselves that differs: another machine, another torch, other settings."""

    what: str
    old: str
    new: str


class ComparisonMethod(Record):
    """How a difference is told from noise; ``words`` says it in full.

    ``level`` is the chance that a comparison of two equal programs tells any difference at all, over all ``tests``.
    ``threshold`` is the least share by which a quantity has to differ to count: 0.02 for 2 %.
    """

    level: float
    threshold: float
    tests: int = Field(ge=0)
    words: str


class ComparedQuantity(Record):
    """One quantity of one configuration. ``ratio`` is new ÷ old, ``low`` and ``high`` its 95 % interval.

    ``old`` and ``new`` are medians of the steps; of several processes the geometric mean of the medians of each.

    ``samples`` says what the test took for independent: ``process`` (the median of each process) or ``step``;
    ``old_count`` and ``new_count`` say how many there were. ``adjusted_p_value`` is corrected for the number of tests.
    """

    quantity: QuantityKind
    name: str
    unit: Literal["ns", "bytes", "per_second"]
    old: float
    new: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    samples: Literal["process", "step"] | None = None
    old_count: int = Field(default=0, ge=0)
    new_count: int = Field(default=0, ge=0)
    test: str | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None
    difference: Difference = "not tested"
    regression: bool = False
    note: str | None = None


class ComparedOperator(Record):
    """One operator: calls and self time in one profiled step.

    ``clock`` says whose time: the device's kernels where both reports have it, else the host's. Each was measured once,
    so nothing is said of noise.
    """

    operator: str
    clock: Literal["device", "host"]
    presence: Presence
    old_calls: float | None = None
    new_calls: float | None = None
    old_ns: float | None = None
    new_ns: float | None = None
    ratio: float | None = None


class ComparedFallback(Record):
    """An operator that leaves MPS in one of the reports, or in both; all figures are for one step."""

    operator: str
    presence: Presence
    old_verdict: str | None = None
    new_verdict: str | None = None
    old_calls: int | None = None
    new_calls: int | None = None
    old_ns: int | None = None
    new_ns: int | None = None
    old_bytes: int | None = None
    new_bytes: int | None = None
    regression: bool = False


class ConfigurationKey(Record):
    """What tells the configurations of a profile apart."""

    workload: str
    phase: str
    device: str
    batch_size: int | None = None
    seq_len: int | None = None
    dtype: str | None = None
    autocast: str | None = None


class ComparedCell(ConfigurationKey):
    """One configuration that both reports have. ``regression``: it ran to its end in the old one only."""

    quantities: list[ComparedQuantity] = []
    operators: list[ComparedOperator] = []
    fallbacks: list[ComparedFallback] = []
    old_failure: RunFailure | None = None
    new_failure: RunFailure | None = None
    regression: bool = False


class UnpairedCell(ConfigurationKey):
    """A configuration that only one of the reports has."""

    presence: Presence


class ComparedVerdict(Record):
    """An operator whose verdict differs, or that one of the coverage reports does not have.

    Of an operator with several verdicts in a report the worst counts. ``release`` is set in a matrix.
    """

    operator: str
    release: str | None = None
    old: Verdict | None = None
    new: Verdict | None = None
    change: Literal["worse", "better", "new", "gone"]
    regression: bool = False


class ComparedAdvisory(Record):
    """A known wrong result that matches in one of the coverage reports only."""

    id: str
    title: str
    release: str | None = None
    presence: Presence
    regression: bool = False


class ComparedFailure(Record):
    """How the runs of two coverage reports ended, where that differs."""

    release: str | None = None
    old: RunFailure | None = None
    new: RunFailure | None = None
    regression: bool = False


class ComparisonReport(Record):
    """Two reports of one kind held against each other. ``regressions`` counts what ``--fail-on regression`` counts."""

    kind: Literal["comparison"] = "comparison"
    schema_version: Literal[1] = 1
    compares: Literal["profile", "coverage", "coverage-matrix"]
    old: ComparedSide
    new: ComparedSide
    conditions: list[ChangedCondition] = []
    method: ComparisonMethod | None = None
    cells: list[ComparedCell] = []
    unpaired: list[UnpairedCell] = []
    verdicts: list[ComparedVerdict] = []
    advisories: list[ComparedAdvisory] = []
    failures: list[ComparedFailure] = []
    same_verdicts: int = Field(default=0, ge=0, description="Operators of coverage whose verdict is as before.")
    regressions: int = Field(default=0, ge=0)
    notes: list[str] = []
