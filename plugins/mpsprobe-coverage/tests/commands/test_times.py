"""Predicted times: of ``coverage --chip``, and of every Mac (``chips compare``)."""

from __future__ import annotations

import json
from typing import Any

from mpsprobe_coverage.knowledge.chips.store import all_chips
from mpsprobe_devkit.testing import run_cli

SMALL = ["--size", "small", "--torch", "2.13.0"]


def compared(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        run_cli("chips", "compare", "bert-base", *SMALL, "--format", "json", *arguments, process=False).stdout
    )
    return found


def test_a_report_has_the_time_of_the_chip_that_was_named_and_none_without_one() -> None:
    asked = ["coverage", "bert-base", *SMALL, "--batch-size", "4", "--no-cache", "--format", "json"]
    time = json.loads(run_cli(*asked, "--chip", "m1-max-32core-64gb", process=False).stdout)["time"]
    low, likely, high = time["step_ms"]
    assert (time["chip"], time["gpu_cores"]) == ("m1-max", 32) and 0 < low < likely < high
    assert time["samples_per_s"][0] < time["samples_per_s"][2] and time["tokens_per_s"] and time["by_class"]
    assert time["by_operator"] and time["by_module"]
    assert json.loads(run_cli(*asked, process=False).stdout)["time"] is None
    shown = run_cli(*asked[:-2], "--chip", "m1-max", process=False).stdout
    assert "predicted and not measured" in " ".join(shown.split())


def test_every_mac_is_compared_and_the_smallest_that_is_enough_is_named() -> None:
    found = compared("--phase", "training")
    assert {(one["time"]["chip"], one["time"]["gpu_cores"]) for one in found["chips"]} == {
        (chip.name, cores) for chip in all_chips().values() for cores in chip.gpu_cores
    }
    assert found["predicted"] and found["smallest"] is None and min(one["relative"] for one in found["chips"]) == 1
    speeds = sorted({one["time"]["samples_per_s"][1] for one in found["chips"]})
    wished = compared("--phase", "training", "--at-least", f"{speeds[len(speeds) // 2]:.2f}samples/s")
    assert wished["smallest"]["enough"] and wished["smallest"]["time"]["samples_per_s"][1] >= speeds[len(speeds) // 2]
    smaller = [one for one in wished["chips"] if one["time"]["gpu_cores"] < wished["smallest"]["time"]["gpu_cores"]]
    assert not any(one["enough"] for one in smaller)


def test_wishes_that_are_wrong_or_that_no_mac_meets_are_one_line() -> None:
    for workload, arguments, said in (
        ("bert-base", ("--at-least", "20tokens/h"), "unknown unit 'tokens/h'; did you mean 'tokens/s'"),
        ("bert-base", ("--at-least", "fast"), "'fast' is no speed"),
        ("bert-base", ("--within", "soon"), "'soon' is no duration"),
        ("bert-base", ("--within", "0.001ms"), "no Mac is predicted to do that"),
        ("bert-base", ("--at-least", "100000000tok/s"), "no Mac is predicted to do that"),
        ("resnet50", ("--at-least", "9tok/s"), "'resnet50' has no such number a second"),
    ):
        result = run_cli("chips", "compare", workload, *SMALL, *arguments, process=False)
        assert result.code == 2 and said in result.stderr and "Traceback" not in result.stderr, arguments
