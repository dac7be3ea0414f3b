"""Which models of a program stayed on the CPU."""

from __future__ import annotations

from pathlib import Path

import torch

from mpsprobe_coverage.device.attribution import Attribution
from mpsprobe_programs.running import roots as module
from mpsprobe_programs.running.roots import Roots


class Teacher(torch.nn.Linear):
    """A model that nobody moves."""


def test_only_models_that_never_left_the_cpu_stayed() -> None:
    with Attribution() as attribution:
        roots = Roots(attribution)
        attribution.follow_program(roots.called, str(Path(module.__file__).parent))
        teachers, student = [Teacher(2, 3), Teacher(2, 3)], torch.nn.Sequential(torch.nn.Linear(3, 1))
        loss = torch.nn.MSELoss()
        for teacher in teachers:
            student(teacher(torch.ones(1, 2)))
        student.to("meta")(torch.ones(1, 3, device="meta"))
        student[0](torch.ones(1, 3, device="meta"))
        loss(torch.ones(1), torch.ones(1))
    (stayed,) = roots.stayed()
    assert (stayed.module, stayed.calls, stayed.parameters_bytes) == ("Teacher", 2, 2 * 9 * 4)
    assert stayed.call_site is not None and "test_roots.py:" in stayed.call_site
    assert [(root.kind, root.parameters) for root in roots] == [("Teacher", 9), ("Sequential", 4), ("Teacher", 9)]
