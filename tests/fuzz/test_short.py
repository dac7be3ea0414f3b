"""A few cases of each target, and more of them (thorough); the long runs are by hand (``python -m tests.fuzz``)."""

from __future__ import annotations

import warnings
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.targets import TARGETS

COUNTS = {"reports": 500, "tables": 500, "checkpoints": 900, "expectations": 50}  # quick ones; 20 of other targets


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.thorough)])
def test_some_cases(times: int, tmp_path: Path) -> None:
    wrong = []  # ``python -m tests.fuzz TARGET 1 --seed 20 --first NUMBER`` repeats one
    for target, prepared in TARGETS.items():
        (folder := tmp_path / target).mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attack = prepared(folder)
            for number in range(times * COUNTS.get(target, 20)):
                try:
                    attack(Random(f"20 {number}"))
                except Exception as error:  # noqa: BLE001 - what is looked for
                    wrong.append(f"{target} {number}: {error!r}")
    assert not wrong
