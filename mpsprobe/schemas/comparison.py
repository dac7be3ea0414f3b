"""What became slower, larger or worse between two reports, and whether that is more than noise."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.declarations import Verdict
from mpsprobe.schemas.coverage import RunFailure
from mpsprobe.schemas.memory import MemoryFigures
from mpsprobe.schemas.profile import ConfigurationKey, DeviceInfo
from mpsprobe.schemas.record import Exportable, Local, Record
from mpsprobe.schemas.run import Environment

QuantityKind = Literal["step", "first_call", "phase", "throughput", "memory"]
"""What a profile measures that can be compared."""
Difference = Literal["slower", "faster", "larger", "smaller", "no difference", "too few samples", "not tested"]
"""``no difference``: none beyond noise, or none of the least size that counts. ``too few samples``: no sample of that
size could show a difference. ``not tested``: measured once, so that nothing is known of its noise."""
Presence = Literal["both", "new", "gone"]
"""Which of two reports has something: both, the new one only, the old one only."""


class ComparedSide(Record):
    """One of the two reports."""

    source: str = Field(description="How the user named it.")
    workloads: list[Local] = Field(default=[], description="Names of what it ran.")
    environment: Environment | None = Field(default=None, description="Where it was made; `None`: not known.")
    devices: list[DeviceInfo] = Field(default=[], description="What ran it.")
    torch: str | None = Field(default=None, description="The release that ran, or of coverage the one that is judged.")
    complete: bool = Field(default=True, description="Whether it ran to its end; false after Ctrl-C.")


class ChangedCondition(Record):
    """Something about the runs themselves that differs: another machine, another torch, other settings."""

    what: str = Field(description="The condition (`torch`, `device`, `steps`, …).")
    old: str = Field(description="Its value in the old report.")
    new: str = Field(description="Its value in the new one.")


class ComparisonMethod(Record):
    """How a difference is separated from noise."""

    level: float = Field(description="How often two equal programs would differ in anything at all, over all `tests`.")
    threshold: float = Field(description="The least share by which a quantity has to differ to count: 0.02 for 2 %.")
    tests: int = Field(ge=0, description="How many quantities were tested together.")
    words: str = Field(description="The method in full.")


class ComparedQuantity(Record):
    """One quantity of one configuration."""

    quantity: QuantityKind = Field(description="What kind it is.")
    name: str = Field(description="Which one: of a phase or of a kind of memory its name, else that of the quantity.")
    unit: Literal["ns", "bytes", "per_second"] = Field(description="Of `old` and `new`.")
    old: float = Field(description="Median of the old steps; of processes the geometric mean of their medians.")
    new: float = Field(description="The same of the new ones.")
    ratio: float | None = Field(default=None, description="New ÷ old.")
    low: float | None = Field(default=None, description="Lower end of the 95 % interval of `ratio`.")
    high: float | None = Field(default=None, description="Its upper end.")
    samples: Literal["process", "step"] | None = Field(
        default=None,
        description="What the test took for independent: the median of each process, or each step; `None`: not tested.",
    )
    old_count: int = Field(default=0, ge=0, description="How many such samples the old report has.")
    new_count: int = Field(default=0, ge=0, description="How many the new one has.")
    test: str | None = Field(default=None, description="Name of the test; `None`: it was not tested.")
    p_value: float | None = Field(default=None, description="Of that test alone.")
    adjusted_p_value: float | None = Field(default=None, description="Corrected for the number of tests.")
    difference: Difference = Field(default="not tested", description="What may be said about it.")
    regression: bool = Field(default=False, description="Whether `--fail-on regression` counts it.")
    note: str | None = Field(default=None, description="What else to know of it.")


class ComparedOperator(Record):
    """One operator: calls and self time in one profiled step. Each was measured once, so noise is not known."""

    operator: str = Field(description="`namespace::name.overload`.")
    clock: Literal["device", "host"] = Field(description="The device's kernels where both have it, else the host's.")
    presence: Presence = Field(description="Which of the reports has it.")
    old_calls: float | None = Field(default=None, description="In one profiled step of the old report; `None`: none.")
    new_calls: float | None = Field(default=None, description="The same of the new one.")
    old_ns: float | None = Field(default=None, description="Self time in one profiled step of the old report.")
    new_ns: float | None = Field(default=None, description="The same of the new one.")
    ratio: float | None = Field(default=None, description="New time ÷ old time.")


class ComparedFallback(Record):
    """An operator that leaves MPS in one of the reports, or in both; all figures are for one step."""

    operator: str = Field(description="`namespace::name.overload`.")
    presence: Presence = Field(description="Which of the reports has it.")
    old_verdict: str | None = Field(default=None, description="Why it leaves MPS in the old report.")
    new_verdict: str | None = Field(default=None, description="Why in the new one.")
    old_calls: int | None = Field(default=None, description="Calls in one step of the old report.")
    new_calls: int | None = Field(default=None, description="The same of the new one.")
    old_ns: int | None = Field(default=None, description="Their time in one step, where it was observed.")
    new_ns: int | None = Field(default=None, description="The same of the new one.")
    old_bytes: int | None = Field(default=None, description="What is copied to the CPU and back in one step.")
    new_bytes: int | None = Field(default=None, description="The same of the new one.")
    regression: bool = Field(default=False, description="Whether `--fail-on regression` counts it.")


class ComparedCell(ConfigurationKey):
    """One configuration that both reports have."""

    quantities: list[ComparedQuantity] = Field(default=[], description="Times, throughput and memory.")
    operators: list[ComparedOperator] = Field(default=[], description="Time by operator, where both reports have it.")
    fallbacks: list[ComparedFallback] = Field(default=[], description="What leaves MPS in either report.")
    old_failure: RunFailure | None = Field(default=None, description="How the old one ended early.")
    new_failure: RunFailure | None = Field(default=None, description="How the new one did.")
    regression: bool = Field(default=False, description="It ran to its end in the old report only.")


class UnpairedCell(ConfigurationKey):
    """A configuration that only one of the reports has."""

    presence: Presence = Field(description="Which of the reports has it.")


class ComparedVerdict(Record):
    """An operator whose verdict differs, or that one of the coverage reports does not have."""

    operator: str = Field(description="`namespace::name.overload`.")
    release: str | None = Field(default=None, description="Of torch; set in a matrix only.")
    old: Verdict | None = Field(default=None, description="The old verdict; of several the worst.")
    new: Verdict | None = Field(default=None, description="The new one.")
    change: Literal["worse", "better", "new", "gone"] = Field(description="Or that one report alone has it.")
    regression: bool = Field(default=False, description="Whether `--fail-on regression` counts it.")


class ComparedAdvisory(Record):
    """A known wrong result that matches in one of the coverage reports only."""

    id: str = Field(description="Of the advisory, as `mpsprobe advisories show` takes it.")
    title: str = Field(description="The same in a line.")
    release: str | None = Field(default=None, description="Of torch; set in a matrix only.")
    presence: Presence = Field(description="Which of the reports has it.")
    regression: bool = Field(default=False, description="Whether `--fail-on regression` counts it.")


class ComparedFailure(Record):
    """How the runs of two coverage reports ended, where that differs."""

    release: str | None = Field(default=None, description="Of torch; set in a matrix only.")
    old: RunFailure | None = Field(default=None, description="How the old run ended early; `None`: it did not.")
    new: RunFailure | None = Field(default=None, description="How the new one did.")
    regression: bool = Field(default=False, description="Whether `--fail-on regression` counts it.")


class ComparedMemory(Record):
    """Predicted memory, where it differs: shown, and not judged."""

    release: str | None = Field(default=None, description="Of torch; set in a matrix only.")
    old: MemoryFigures = Field(description="Of the old report.")
    new: MemoryFigures = Field(description="Of the new one.")


class ComparisonReport(Exportable):
    """Two reports of one kind, compared."""

    kind: Literal["comparison"] = "comparison"
    compares: Literal["profile", "coverage", "coverage-matrix"] = Field(description="The kind of both reports.")
    old: ComparedSide = Field(description="The report that the other one is compared with.")
    new: ComparedSide = Field(description="That other one.")
    conditions: list[ChangedCondition] = Field(default=[], description="What differs about the runs themselves.")
    method: ComparisonMethod | None = Field(default=None, description="What separated noise; coverage has none.")
    cells: list[ComparedCell] = Field(default=[], description="Configurations that both profiles have.")
    unpaired: list[UnpairedCell] = Field(default=[], description="Configurations that only one of them has.")
    verdicts: list[ComparedVerdict] = Field(default=[], description="Operators of coverage whose verdict differs.")
    advisories: list[ComparedAdvisory] = Field(default=[], description="Known wrong results that only one report has.")
    failures: list[ComparedFailure] = Field(default=[], description="Runs of coverage that ended differently.")
    memory: list[ComparedMemory] = Field(default=[], description="What a run of coverage needs, where that differs.")
    same_verdicts: int = Field(default=0, ge=0, description="Operators of coverage whose verdict is as before.")
    regressions: int = Field(default=0, ge=0, description="What `--fail-on regression` counts.")
    notes: list[str] = Field(default=[], description="What else a reader should know.")
