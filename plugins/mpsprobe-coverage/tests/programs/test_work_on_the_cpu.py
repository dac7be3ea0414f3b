"""What a program computed on the CPU, apart from what it prepared there for the device; models that stayed there."""

from __future__ import annotations

import torch

from mpsprobe_coverage.devices.native.device import OnCpu, Site
from mpsprobe_coverage.programs.on_the_cpu import Roots, computed
from mpsprobe_coverage.recording.attribution import Attribution, Origin


def _site(line: int, size: int, phase: str = "forward", **more: bool) -> Site:
    return Site("aten::mul", phase, Origin(None, f"{line}.py", line), 1, size, **more)


def _lines(sites: list[Site], flows: list[tuple[int, int]], device: int = 1000, *stayed: str) -> list[str | None]:
    return [one.call_site for one in computed(OnCpu(sites, flows, device), stayed)]


def test_work_is_weighed_and_followed() -> None:
    large, moved = _site(1, 500), _site(2, 10, moved=True)
    assert _lines([large, moved], []) == ["1.py:1"]
    assert _lines([large, moved], [(0, 1)]) == [], "it prepares what came to the device"
    assert _lines([large, moved], [], device=9000) == [], "little, compared with what ran there"
    assert _lines([_site(1, 500, weights=True), moved], [(0, 1)]) == ["1.py:1"], "a part of a model"
    stepped = _site(3, 9, "optimizer")
    assert _lines([large, stepped, moved], [(0, 1), (1, 2)]) == ["1.py:1"], "weights are not what is prepared"


def test_a_model_that_stayed_is_said_once() -> None:
    inside = Site("aten::linear", "forward", Origin("Teacher.head", "m.py", 3), 1, 500)
    assert _lines([inside, _site(4, 500)], [(0, 1)]) == ["m.py:3", "4.py:4"]
    assert _lines([inside, _site(4, 500)], [(0, 1)], 1000, "Teacher") == []


class Teacher(torch.nn.Linear):
    """A model that nobody moves."""


def test_only_models_that_never_left_the_cpu_stayed() -> None:
    with Attribution() as attribution:
        roots = Roots(attribution)
        attribution.follow_program(roots.called)
        teachers, student = [Teacher(2, 3), Teacher(2, 3)], torch.nn.Sequential(torch.nn.Linear(3, 1))
        loss = torch.nn.MSELoss()
        for teacher in teachers:
            student(teacher(torch.ones(1, 2)))
        student.to("meta")(torch.ones(1, 3, device="meta"))
        student[0](torch.ones(1, 3, device="meta"))
        loss(torch.ones(1), torch.ones(1))
    (stayed,) = roots.stayed()
    assert (stayed.module, stayed.calls, stayed.parameters_bytes) == ("Teacher", 2, 2 * 9 * 4)
    assert stayed.call_site is not None and "test_work_on_the_cpu.py:" in stayed.call_site
    assert [(root.kind, root.parameters) for root in roots] == [("Teacher", 9), ("Sequential", 4), ("Teacher", 9)]
