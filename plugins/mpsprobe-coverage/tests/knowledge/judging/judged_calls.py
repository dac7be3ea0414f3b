"""What the judges say about the calls that a program makes on the virtual device of a release."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from packaging.version import Version

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.kernels.mps import load_table

Program = Callable[[], Any]
Refused = tuple[str, Program, str, str, str | None]
"""Releases, a program, an operator ('' for any), words of the reason, and the first release that takes the call."""
Taken = tuple[str, Program, str]


class Nms:
    """``torchvision::nms``, as far as a judge looks at it: torchvision need not be installed."""

    is_view, namespace, _overloadname = False, "torchvision", "default"
    _schema = torch._C.parse_schema("torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def made(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of the device; nothing computes with it, so it may have any size."""
    return torch.empty(shape, dtype=dtype, device="mps")


def places(*shape: int) -> torch.Tensor:
    """Indices on the device, all of the first place."""
    return torch.zeros(shape, dtype=torch.int64).to("mps")


def ran(release: str, program: Program, macos: str | None = None, **how: Any) -> VirtualDevice:
    """The device of ``release`` after ``program``; ``how``: what else the judges know."""
    chain = Chain(load_table(release), macos=None if macos is None else Version(macos), **how)
    with VirtualDevice(chain) as device, device.recording("forward"):
        program()
    return device


def judgements(release: str, program: Program, operator: str = "", **how: Any) -> list[Judgement]:
    """Those on the calls of ``operator``, with or without the overload, or on all calls."""
    calls = list(ran(release, program, **how).recorder.calls())
    names = [one.operator.removeprefix("aten::") for one in calls]
    meant = [operator in ("", name, name.partition(".")[0]) for name in names]
    found = [one.judgement for one, is_meant in zip(calls, meant, strict=True) if is_meant]
    assert found, names
    return found


def wrong(judge: str, rows: Iterable[Refused], **how: Any) -> list[str]:
    """What ``judge`` does not refuse in this way, and what it still refuses in the release that takes it."""
    found = []
    for releases, program, operator, words, since in rows:
        for release in releases.split():
            said = [one for one in judgements(release, program, operator, **how) if one.asked[-1] == judge]
            as_expected = [
                (one.verdict, one.accepted_since) == ("unsupported", since) and words in str(one.reason) for one in said
            ]
            if not said or not all(as_expected):
                found.append(f"{operator or words!r} until {since}, in {release}: {said}")
        if since is not None and any(one.asked[-1] == judge for one in judgements(since, program, operator, **how)):
            found.append(f"{operator or words!r} is refused in {since}")
    return found


def not_native(rows: Iterable[Taken], **how: Any) -> list[str]:
    """The rows whose calls are not all native."""
    return [
        f"{operator} in {release}: {one}"
        for releases, program, operator in rows
        for release in releases.split()
        for one in judgements(release, program, operator, **how)
        if one.verdict != "native"
    ]
