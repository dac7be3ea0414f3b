"""``mpsprobe upgrade``: what changes from one release to another, and for workloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpsprobe.schemas import UpgradeReport
from mpsprobe_coverage.advisories.store import all_advisories
from mpsprobe_coverage.kernels.mps import MPS_FAMILY, load_table
from mpsprobe_coverage.scanner.upgrade import upgrade_report
from mpsprobe_devkit.testing import run_cli

MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.linalg.qr(self.layer(x)).Q

def make():
    return Model(), (torch.ones(4, 4),)
"""


def upgraded(old: str, new: str, **how: Any) -> UpgradeReport:
    return upgrade_report(load_table(old), load_table(new), **how)


def judged(*arguments: str) -> dict[str, Any]:
    result = run_cli("upgrade", *arguments, "--format", "json", process=False)
    assert result.code == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.mark.parametrize(("old", "new"), [("1.12.0", "2.15.0"), ("2.6.0", "2.15.0"), ("2.15.0", "1.13.1")])
def test_what_changed_is_what_the_tables_say(old: str, new: str) -> None:
    report, before, after = upgraded(old, new), load_table(old), load_table(new)
    for one in (*report.gained, *report.lost):
        assert one.old != one.new
        tables = [before, after]
        if one.operator.startswith("torchvision::"):
            libraries = [MPS_FAMILY.library("torchvision", release) for release in (old, new)]
            tables = [library for library in libraries if library is not None]
        assert [one.old, one.new] == [table.verdict(one.operator) for table in tables]
    assert all(one.old in ("missing", "unsupported", "fallback") for one in report.gained)
    assert all(one.new in ("missing", "unsupported", "fallback") for one in report.lost)
    lists = ([c.operator for c in report.gained], [c.operator for c in report.lost], report.added, report.own)
    together = [name for names in (*lists, report.removed) for name in names]
    assert len(together) == len(set(together))
    assert (report.old.macos_minimum, report.new.macos_minimum) == (before.macos_minimum, after.macos_minimum)


def test_a_composite_of_native_operators_is_neither_lost_nor_gained() -> None:
    report = upgraded("2.9.1", "2.10.0")
    assert load_table("2.9.1").verdict("aten::linalg_lu_factor") == "native"
    assert load_table("2.10.0").verdict("aten::linalg_lu_factor") == "composite"
    assert "aten::linalg_lu_factor" not in {one.operator for one in (*report.gained, *report.lost)}


def test_an_operator_under_another_name_is_not_lost() -> None:
    assert "aten::_mps_linear" not in upgraded("1.12.1", "1.13.0").removed


def test_what_ran_on_the_cpu_and_goes_to_the_gpu() -> None:
    assert "aten::linalg_svd" in upgraded("2.6.0", "2.15.0").fallbacks_gone


def test_there_and_back_is_the_same_the_other_way_round() -> None:
    up, down = upgraded("2.6.0", "2.15.0"), upgraded("2.15.0", "2.6.0")
    assert {one.operator for one in up.gained} == {one.operator for one in down.lost}
    assert [one.id for one in up.fixed] == [one.id for one in down.introduced]
    assert up.remaining == down.remaining
    assert (up.old.macos_minimum, up.new.macos_minimum) == ("13.0", "15.0")


def test_wrong_results_are_those_that_only_one_release_is_known_to_have() -> None:
    report = upgraded("2.6.0", "2.15.0")
    fixed = {one.id: one for one in report.fixed}
    assert fixed["conv-strided-weight"].established  # fixed in 2.14.0
    assert not fixed["matmul-expanded-input"].established  # fixed later than 2.11.0, where is not known
    introduced = {one.id: one for one in report.introduced}
    assert introduced["conv3d-macos-26-2"].established  # since 2.14.0
    assert not introduced["bmm-above-32-bits"].established  # seen on 2.14.0
    every = {one.id for one in all_advisories()}
    assert {*fixed, *introduced, *report.remaining} <= every


def test_a_mac_leaves_out_what_it_does_not_have() -> None:
    anywhere, m3 = upgraded("2.6.0", "2.15.0"), upgraded("2.6.0", "2.15.0", chip="m3", macos="26.4")
    assert "bmm-long-reduction" in {one.id for one in anywhere.introduced}  # of M1 and M2
    assert "bmm-long-reduction" not in {one.id for one in m3.introduced}
    assert "conv3d-macos-26-2" not in {one.id for one in m3.introduced}


def test_a_workload_is_judged_on_both(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL, encoding="utf-8")
    [one] = judged("2.6.0", "latest", f"{path}:make")["workloads"]
    assert one["old"]["findings"] == {"aten::linalg_qr.out": "missing"}
    assert one["new"]["findings"] == {} and one["error"] is None
    shown = run_cli("upgrade", "2.6.0", "latest", f"{path}:make", process=False).stdout
    assert "1 missing" in shown and "all native" in shown
    back = run_cli("upgrade", "latest", "2.6.0", f"{path}:make", process=False).stdout
    assert "1 workload would be worse off" in back


def test_a_macos_that_is_too_old_for_one_of_them(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL, encoding="utf-8")
    shown = run_cli("upgrade", "2.6.0", "2.15.0", f"{path}:make", "--macos", "14", process=False)
    assert shown.code == 0 and "does not use the GPU on macOS 14: it needs 15.0" in shown.stdout
    assert "1 missing" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("2.6", "2.6.0"), "both are torch 2.6.0"),
        (("2.6.0", "9.9"), "9.9"),
        (("2.6.0",), "NEW"),
        (("2.6.0", "2.15.0", "bert-bose"), "bert-bose"),
    ],
)
def test_what_cannot_be_compared(arguments: tuple[str, ...], problem: str) -> None:
    result = run_cli("upgrade", *arguments, process=False)
    assert result.code == 2 and problem in result.stderr
