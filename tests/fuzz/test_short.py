"""A few cases of each target; the long runs are by hand (``python -m tests.fuzz``)."""

from __future__ import annotations

import warnings
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.targets import TARGETS

COUNTS = {"reports": 500, "tables": 500, "settings": 500, "checkpoints": 150, "expectations": 50}


@pytest.mark.parametrize("target", TARGETS)
def test_a_few_cases(target: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attack = TARGETS[target](tmp_path)
        for number in range(COUNTS.get(target, 100)):
            attack(Random(f"20 {number}"))
