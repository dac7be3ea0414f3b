"""``mpsprobe upgrade``: what changes from one release to another, and for workloads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import mpsprobe
from mpsprobe.protocols import MacOptions
from mpsprobe.schemas import JudgedWorkload, UpgradeReport
from mpsprobe_coverage.knowledge.advisories.store import all_advisories
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY, load_table
from mpsprobe_coverage.reporting.upgrade import upgrade_report
from mpsprobe_devkit.testing import run_cli


def upgraded(old: str, new: str, workloads: Sequence[JudgedWorkload] = (), **mac: str) -> UpgradeReport:
    return upgrade_report(load_table(old), load_table(new), workloads, MacOptions(**mac))  # type: ignore[arg-type]


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
    assert not [name for name in report.removed if before.verdict(name) in ("missing", "unsupported", "fallback")]
    assert (report.old.macos_minimum, report.new.macos_minimum) == (before.macos_minimum, after.macos_minimum)


def test_a_composite_of_native_operators_is_neither_lost_nor_gained() -> None:
    report = upgraded("2.9.1", "2.10.0")
    assert load_table("2.9.1").verdict("aten::linalg_lu_factor") == "native"
    assert load_table("2.10.0").verdict("aten::linalg_lu_factor") == "composite"
    assert "aten::linalg_lu_factor" not in {one.operator for one in (*report.gained, *report.lost)}
    assert "aten::_mps_linear" not in upgraded("1.12.1", "1.13.0").removed  # it has another name


def test_there_and_back_is_the_same_the_other_way_round() -> None:
    up, down = upgraded("2.6.0", "2.15.0"), upgraded("2.15.0", "2.6.0")
    assert {one.operator for one in up.gained} == {one.operator for one in down.lost}
    assert "aten::linalg_svd" in up.fallbacks_gone
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


@pytest.mark.slow
def test_a_workload_is_judged_on_both_also_where_a_macos_is_too_old_for_one(folder: Path) -> None:
    arguments = ("1.13.1", "2.15.0", "models.py:late", "--macos", "14", "-o", "report.json")
    assert run_cli("upgrade", *arguments, cwd=folder, process=False).code == 0
    [one] = json.loads((folder / "report.json").read_text(encoding="utf-8"))["workloads"]
    assert one["old"]["findings"] == {"aten::cumsum.out": "missing"}
    assert one["new"]["findings"] == {} and one["error"] is None
    shown = run_cli("export", "report.json", "--to", "table", cwd=folder, process=False).stdout
    assert "1 missing" in shown and "all native" in shown
    assert "does not use the GPU on macOS 14: it needs 15.0" in shown


def test_a_workload_is_worse_off_on_the_release_without_its_kernel(folder: Path) -> None:
    report = mpsprobe.coverage(f"{folder / 'models.py'}:late", torch=["1.13.1", "2.15.0"])
    rows = [JudgedWorkload(name="late", seconds=1, report=report)]
    pages = [
        str(upgraded(*both, workloads=rows).to("markdown")) for both in (("1.13.1", "2.15.0"), ("2.15.0", "1.13.1"))
    ]
    assert ["1 workload would be worse off" in page for page in pages] == [False, True]


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
