"""What a program computed on tensors of the CPU, and not to prepare what the device works on.

The native device sees the calls, and where their results went (``native/on_cpu.cpp``). Calls are the program's own work
unless their results came to the device, as a batch does that a loader prepares. What autograd runs backward, or what
reads weights, is part of a model wherever its results went.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mpsprobe.schemas import ComputedOnCpu
from mpsprobe_coverage.devices.native.device import OnCpu, Site
from mpsprobe_coverage.recording.attribution import Origin
from mpsprobe_coverage.reporting.findings import site as call_site

LEAST_SHARE = 0.1
"""Of what all operators read and wrote; less is bookkeeping, compared with what the device does."""
LEAST_OF_A_LINE = 0.01


def computed(on_cpu: OnCpu, stayed: Iterable[str]) -> list[ComputedOnCpu]:
    """The lines of such work, the largest first; none where it is little and no gradient passes through it.

    Args:
        on_cpu: what was seen.
        stayed: models that are known to have stayed on the CPU; what they and their results do is theirs.
    """
    sites = on_cpu.sites
    after, before = defaultdict(set), defaultdict(set)
    for source, reader in on_cpu.flows:
        if "optimizer" not in (sites[source].phase, sites[reader].phase):
            after[source].add(reader)
            before[reader].add(source)
    models = tuple(stayed)
    known = _reached(after, (number for number, one in enumerate(sites) if _is_inside(one.origin, models)))
    prepares = _reached(before, (number for number, one in enumerate(sites) if one.moved))
    of_device = _reached(after, (number for number, one in enumerate(sites) if one.from_device))
    own = [
        number
        for number, one in enumerate(sites)
        if one.calls and one.phase != "optimizer" and number not in known
        if number not in prepares or one.weights or one.phase == "backward"
    ]
    everything = sum(one.data_bytes for one in sites) + on_cpu.device_bytes
    if not everything:
        return []
    by_line: dict[Origin, list[Site]] = defaultdict(list)
    came, went = set(), set()
    for number in own:
        one = sites[number]
        line = one.origin._replace(module=None)
        by_line[line].append(one)
        if number in of_device:
            came.add(line)
        if one.phase == "backward" and number in prepares:
            went.add(line)
    crossing = came & went  # a loss on the CPU: its gradient goes back to the device in each step, however small it is
    enough = sum(sites[number].data_bytes for number in own) >= LEAST_SHARE * everything
    lines = {line: _line(line, of, everything) for line, of in by_line.items()}
    shown = [one for line, one in lines.items() if line in crossing or (enough and one.share >= LEAST_OF_A_LINE)]
    return sorted(shown, key=lambda one: -one.data_bytes)


def _line(origin: Origin, sites: list[Site], everything: int) -> ComputedOnCpu:
    sites.sort(key=lambda one: -one.data_bytes)
    size = sum(one.data_bytes for one in sites)
    return ComputedOnCpu(
        call_site=call_site(origin.file, origin.line) if origin.file is not None else None,
        operators=list(dict.fromkeys(one.operator for one in sites)),
        calls=sum(one.calls for one in sites),
        data_bytes=size,
        share=round(size / everything, 3),
    )


def _is_inside(origin: Origin, models: tuple[str, ...]) -> bool:
    return origin.module is not None and origin.module.partition(".")[0] in models


def _reached(edges: Mapping[int, set[int]], start: Iterable[int]) -> set[int]:
    found, left = set(), list(start)
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left.extend(edges.get(one, ()))
    return found
