"""What a model raises for sizes that only MPS gives is no reason to give it other inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from made_workloads import Made, calling, scan

from mpsprobe.protocols import RunOptions, TorchRun


def _attends(y: torch.Tensor, wanted: int) -> torch.Tensor:
    """Two samples are asked the same."""
    asked = y[:1].reshape(1, 1, 1, 3)
    found = torch.nn.functional.scaled_dot_product_attention(asked, *[y.reshape(2, 1, 1, 3)] * 2)
    if len(found) != wanted:
        raise ValueError(f"wants {wanted}")
    return found


@pytest.mark.parametrize(
    ("release", "wanted", "message", "corrected"),
    [
        ("2.13.0", 2, "wants 2", []),
        ("2.15.0", 2, None, []),
        ("2.13.0", 3, "wants 3", ["wants 3"]),
    ],
)
def test_inputs_that_fit_on_the_cpu_stay(release: str, wanted: int, message: str | None, corrected: list[str]) -> None:
    seen: list[str] = []

    def correct(error: Exception) -> TorchRun | None:
        seen.append(str(error))
        return None

    run = calling(lambda y: _attends(y, wanted)).build(RunOptions())
    report = scan(Made(lambda: replace(run, correct=correct)), release)
    assert (report.failure and report.failure.message, seen) == (message, corrected)
    assert any("has the batch of the query" in note for note in report.workload.notes) == (release == "2.13.0")


def test_what_an_old_release_lacks_is_no_reason_either() -> None:
    def correct(error: Exception) -> TorchRun | None:
        raise AssertionError(f"asked about {error}")

    run = calling().build(RunOptions())
    report = scan(Made(lambda: replace(run, correct=correct)), "1.12.0", autocast="float16")
    assert report.failure is not None and "has no autocast" in report.failure.message
