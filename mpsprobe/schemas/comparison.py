"""What became slower, larger or worse between two reports, and whether that is more than noise."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mpsprobe.declarations import Verdict
from mpsprobe.schemas.coverage import RunFailure
from mpsprobe.schemas.environment import Environment
from mpsprobe.schemas.memory import MemoryFigures
from mpsprobe.schemas.profile import DeviceInfo
from mpsprobe.schemas.record import Exportable, Record

QuantityKind = Literal["step", "first_call", "phase", "throughput", "memory"]
"""What a profile measures that can be compared."""
Difference = Literal["slower", "faster", "larger", "smaller", "no difference", "too few samples", "not tested"]
"""``no difference``: none beyond noise, or none of the least size that counts. ``too few samples``: no sample of that
size could show a difference. ``not tested``: measured once, so that nothing is known of its noise."""
Presence = Literal["both", "new", "gone"]
"""Which of two reports has something: both, the new one only, the old one only."""


class ComparedSide(Record):
    """One of the two reports.

    Attributes:
        source: how the user named it.
        workloads: names of what it ran.
        environment: where it was made; ``None`` where that is not known.
        devices: what ran it.
        complete: whether it ran to its end; false after Ctrl-C.
    """

    source: str
    workloads: list[str] = []
    environment: Environment | None = None
    devices: list[DeviceInfo] = []
    torch: str | None = Field(default=None, description="The release that ran, or of coverage the one that is judged.")
    complete: bool = True


class ChangedCondition(Record):
    """Something about the runs themselves that differs: another machine, another torch, other settings.

    Attributes:
        what: the condition (``torch``, ``device``, ``steps``, …).
        old: its value in the old report.
        new: its value in the new one.
    """

    what: str
    old: str
    new: str


class ComparisonMethod(Record):
    """How a difference is separated from noise.

    Attributes:
        level: the chance that a comparison of two equal programs reports any difference at all, over all ``tests``.
        threshold: the least share by which a quantity has to differ to count: 0.02 for 2 %.
        tests: how many quantities were tested together.
        words: the method in full.
    """

    level: float
    threshold: float
    tests: int = Field(ge=0)
    words: str


class ComparedQuantity(Record):
    """One quantity of one configuration.

    Attributes:
        quantity: what kind it is.
        name: which one: of a phase or of a kind of memory its name, else that of the quantity.
        unit: of ``old`` and ``new``.
        old: the median of the old steps; of several processes the geometric mean of the median of each.
        new: the same of the new ones.
        ratio: new ÷ old.
        low: lower end of the 95 % interval of ``ratio``.
        high: its upper end.
        samples: what the test took for independent: the median of each process, or each step; ``None``: it was
            not tested.
        old_count: how many such samples the old report has.
        new_count: how many the new one has.
        test: name of the test; ``None``: it was not tested.
        p_value: of that test alone.
        adjusted_p_value: corrected for the number of tests.
        difference: what may be said about it.
        regression: whether ``--fail-on regression`` counts it.
        note: what else to know of it.
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
    """One operator: calls and self time in one profiled step. Each was measured once, so nothing is said about noise.

    Attributes:
        operator: ``namespace::name.overload``.
        clock: whose time: the device's kernels where both reports have it, else the host's.
        presence: which of the reports has it.
        old_calls: calls in one profiled step of the old report; ``None`` where it has none.
        new_calls: the same of the new one.
        old_ns: self time in one profiled step of the old report.
        new_ns: the same of the new one.
        ratio: new time ÷ old time.
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
    """An operator that leaves MPS in one of the reports, or in both; all figures are for one step.

    Attributes:
        operator: ``namespace::name.overload``.
        presence: which of the reports has it.
        old_verdict: why it leaves MPS in the old report.
        new_verdict: why in the new one.
        old_calls: calls in one step of the old report.
        new_calls: the same of the new one.
        old_ns: their time in one step, where it was observed.
        new_ns: the same of the new one.
        old_bytes: what is copied to the CPU and back in one step.
        new_bytes: the same of the new one.
        regression: whether ``--fail-on regression`` counts it.
    """

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
    """What distinguishes the configurations of a profile.

    Attributes:
        workload: its name.
        phase: ``inference`` or ``training``.
        device: torch's name of it.
        batch_size: samples in a step; ``None``: the workload's own.
        seq_len: tokens or frames in a sample; ``None``: the workload's own.
        dtype: of the parameters; ``None`` where it is not known.
        autocast: the dtype of autocast; ``None`` without.
    """

    workload: str
    phase: str
    device: str
    batch_size: int | None = None
    seq_len: int | None = None
    dtype: str | None = None
    autocast: str | None = None


class ComparedCell(ConfigurationKey):
    """One configuration that both reports have.

    Attributes:
        quantities: times, throughput and memory.
        operators: time by operator, where both reports have it.
        fallbacks: what leaves MPS in either report.
        old_failure: how the old one ended early.
        new_failure: how the new one did.
        regression: it ran to its end in the old report only.
    """

    quantities: list[ComparedQuantity] = []
    operators: list[ComparedOperator] = []
    fallbacks: list[ComparedFallback] = []
    old_failure: RunFailure | None = None
    new_failure: RunFailure | None = None
    regression: bool = False


class UnpairedCell(ConfigurationKey):
    """A configuration that only one of the reports has.

    Attributes:
        presence: which of the reports has it.
    """

    presence: Presence


class ComparedVerdict(Record):
    """An operator whose verdict differs, or that one of the coverage reports does not have.

    Attributes:
        operator: ``namespace::name.overload``.
        release: of torch; set in a matrix only.
        old: the old verdict; of several the worst.
        new: the new one.
        change: worse or better, or that only one report has the operator.
        regression: whether ``--fail-on regression`` counts it.
    """

    operator: str
    release: str | None = None
    old: Verdict | None = None
    new: Verdict | None = None
    change: Literal["worse", "better", "new", "gone"]
    regression: bool = False


class ComparedAdvisory(Record):
    """A known wrong result that matches in one of the coverage reports only.

    Attributes:
        id: of the advisory, as ``mpsprobe advisories show`` takes it.
        title: the same in a line.
        release: of torch; set in a matrix only.
        presence: which of the reports has it.
        regression: whether ``--fail-on regression`` counts it.
    """

    id: str
    title: str
    release: str | None = None
    presence: Presence
    regression: bool = False


class ComparedFailure(Record):
    """How the runs of two coverage reports ended, where that differs.

    Attributes:
        release: of torch; set in a matrix only.
        old: how the old run ended early; ``None``: it did not.
        new: how the new one did.
        regression: whether ``--fail-on regression`` counts it.
    """

    release: str | None = None
    old: RunFailure | None = None
    new: RunFailure | None = None
    regression: bool = False


class ComparedMemory(Record):
    """Predicted memory, where it differs: shown, and not judged.

    Attributes:
        release: of torch; set in a matrix only.
        old: of the old report.
        new: of the new one.
    """

    release: str | None = None
    old: MemoryFigures
    new: MemoryFigures


class ComparisonReport(Exportable):
    """Two reports of one kind, compared.

    Attributes:
        compares: the kind of both reports.
        old: the report that the other one is compared with.
        new: that other one.
        conditions: what differs about the runs themselves.
        method: how differences were separated from noise; ``None`` for coverage, which has no noise.
        cells: configurations that both profiles have.
        unpaired: configurations that only one of them has.
        verdicts: operators of coverage whose verdict differs.
        advisories: known wrong results that only one report has.
        failures: runs of coverage that ended differently.
        memory: what a run of coverage needs, where that differs.
        regressions: what ``--fail-on regression`` counts.
        notes: what else a reader should know.
    """

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
    memory: list[ComparedMemory] = []
    same_verdicts: int = Field(default=0, ge=0, description="Operators of coverage whose verdict is as before.")
    regressions: int = Field(default=0, ge=0)
    notes: list[str] = []
