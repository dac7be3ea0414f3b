"""What a Mac took for a step, next to what was predicted of its chip: by class of kernels, and the slow operators."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from mpsprobe.schemas.coverage import CoverageReport
from mpsprobe.schemas.profile import ChipTimes, ClassAgainst, DeviceInfo, OperatorAgainst, ProfileCell
from mpsprobe.schemas.time import OperatorTimeShare

OF_APPLE = re.compile(r"\bM\d")
MUCH = 2.0  # nine of ten operators that the model was fitted to lie within 1.85 (docs/explanation/time.md)
SMALL = 0.02  # of what all operators took
WAITED_FOR = "slow mode"


def chips(device: DeviceInfo) -> Iterator[str]:
    """How to ask for the chip of ``device``: with the cores of its GPU, and by its name alone."""
    if OF_APPLE.search(device.name):
        cores = device.capabilities.get("gpu_cores")
        if cores:
            yield f"{device.name} {cores}core"
        yield device.name


def chip_times(cell: ProfileCell, scan: CoverageReport) -> ChipTimes | None:
    """None where nothing was predicted of the chip, or no operator has a time of the device."""
    time = scan.time
    predicted = {} if time is None else {share.operator: share for share in time.by_operator}
    took: dict[str, float] = {}  # milliseconds of a step
    alone = any(timed.source == WAITED_FOR for timed in cell.operators)
    for operator in cell.operators:
        if operator.operator in predicted and operator.self_device_ns is not None and cell.profiled_steps:
            took[operator.operator] = operator.self_device_ns / cell.profiled_steps / 1e6
    whole = sum(took.values())
    if time is None or not whole:
        return None

    def likely(share: OperatorTimeShare) -> float:
        return share.alone_ms if alone else share.ms

    kinds: dict[str, list[str]] = defaultdict(list)
    for name in took:
        kinds[predicted[name].kind].append(name)
    by_class = []
    for kind, names in kinds.items():
        measured, expected = sum(took[name] for name in names), sum(likely(predicted[name]) for name in names)
        by_class.append(ClassAgainst(kind=kind, operators=sorted(names), measured_ms=measured, predicted_ms=expected))
    slow = [
        OperatorAgainst(
            operator=name,
            measured_ms=measured,
            predicted_ms=likely(predicted[name]),
            share=measured / whole,
            remedy=_remedy(name, scan),
        )
        for name, measured in took.items()
        if measured > MUCH * likely(predicted[name]) and measured > SMALL * whole
    ]
    return ChipTimes(
        chip=time.chip,
        gpu_cores=time.gpu_cores,
        step_ms=time.step_ms,
        by_class=sorted(by_class, key=lambda share: -share.measured_ms),
        slow=sorted(slow, key=lambda one: -one.measured_ms),
    )


def _remedy(operator: str, scan: CoverageReport) -> str | None:
    """What an advisory about calls of ``operator`` says, or the finding about it."""
    said = (advisory.workaround for advisory in scan.advisories if operator in advisory.operators)
    advice = (finding.advice for finding in scan.operators if finding.operator == operator and finding.advice)
    return next(said, None) or next(advice, None)
