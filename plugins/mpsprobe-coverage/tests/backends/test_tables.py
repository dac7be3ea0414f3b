"""A plugin's table, completed: verdicts by the dispatcher's rules, whatever the backend."""

from __future__ import annotations

from typing import Any

import pytest
from made_backend import OWN, RELEASE, XPU, Made

from mpsprobe.errors import UnknownName
from mpsprobe.protocols import Backend, BackendKernels, KernelTables
from mpsprobe_coverage.kernels.backends import OVERRIDEABLE, PluginFamily
from mpsprobe_coverage.kernels.mps import MPS_FAMILY, MpsTables, load_table
from mpsprobe_coverage.kernels.table import tensor_keys


def made(backend: Backend = XPU, kernels: Any = ("aten::mm",), **more: Any) -> Any:
    """The table of a backend."""
    return PluginFamily("made", "mpsprobe-made 1.0", Made(backend, kernels, **more)).load(RELEASE)


@pytest.mark.parametrize("release", ["1.12.0", "2.6.0", "2.13.0", "2.15.0"])
def test_our_own_tables_say_the_same_when_a_plugin_brings_them(release: str) -> None:
    own, brought = load_table(release), PluginFamily("mps", "ours", MpsTables()).load(release)
    names = own.operators - OVERRIDEABLE  # MPS never calls them
    for key in tensor_keys():
        assert {name: own.verdict(name, key) for name in names} == {name: brought.verdict(name, key) for name in names}
    assert isinstance(MpsTables(), KernelTables)
    assert MPS_FAMILY.load(release) is own is MPS_FAMILY.target(release)


def test_verdicts_of_a_whole_table() -> None:
    table = made(fallback=["aten::linalg_svd"], raising=["aten::cholesky"])
    expected = {
        "aten::mm": "native",
        "aten::linear": "composite",
        "aten::bmm.out": "missing",
        "aten::linalg_svd": "fallback",
        "aten::cholesky": "unsupported",
        "aten::no_such_thing": "unknown",
        "aten::convolution_overrideable": "unsupported",
    }
    assert {operator: table.verdict(operator) for operator in expected} == expected


def test_what_a_table_that_is_not_whole_leaves_out_is_unknown() -> None:
    for backend in (XPU, OWN, Backend("xpu", "XPU", without_kernel="cpu")):
        table = made(backend, whole=False)
        verdicts = [table.verdict(f"aten::{name}") for name in ("mm", "linear", "bmm.out", "convolution_overrideable")]
        assert verdicts == ["native", "composite", "unknown", "unknown"]


def test_a_backend_may_run_on_the_cpu_what_it_has_no_kernel_for() -> None:
    table = made(Backend("xpu", "XPU", without_kernel="cpu"))
    assert table.verdict("aten::bmm.out") == "fallback"
    assert table.verdict("aten::bmm.out", "SparseXPU") == "missing"
    assert table.fallback == frozenset()


def test_keys_of_sparse_tensors() -> None:
    table = made(kernels={"XPU": ["aten::mm"], "SparseXPU": ["aten::bmm.out"]})
    assert table.verdict("aten::bmm.out", "SparseXPU") == "native"
    assert table.verdict("aten::bmm.out") == "missing"
    assert set(table.keys) == {"XPU", "SparseXPU"}


def test_nothing_of_mps_is_in_it() -> None:
    labels = {label for found in made().labels.values() for label in found}
    assert not [label for label in labels if "MPS" in label]


def test_operators_that_the_release_does_not_have_are_told() -> None:
    [note] = made(kernels=["aten::mm", "aten::mmm", "own::thing"]).notes
    assert "aten::mmm" in note and "own::thing" not in note
    assert made(kernels=["own::thing"]).verdict("own::thing") == "native"


def test_history() -> None:
    newer_first = {"2.13.0": ["aten::mm", "aten::bmm.out"], "2.9.1": ["aten::mm"]}
    tables = PluginFamily("made", "mpsprobe-made 1.0", Made(by_release=newer_first))
    assert tables.releases == ("2.9.1", "2.13.0")
    assert tables.history("aten::bmm.out") == (("2.9.1", "missing"), ("2.13.0", "native"))
    since = {name: tables.native_since(f"aten::{name}") for name in ("bmm.out", "mm", "cholesky")}
    assert since == {"bmm.out": "2.13.0", "mm": "2.9.1", "cholesky": None}
    assert tables.removed_in("aten::mm") is None
    resolved = {text: tables.resolve(text) for text in ("latest", "2.9", "v2.9.1", "2.13.0+xpu")}
    assert resolved == {"latest": "2.13.0", "2.9": "2.9.1", "v2.9.1": "2.9.1", "2.13.0+xpu": "2.13.0"}
    with pytest.raises(UnknownName, match=r"unknown torch release '2\.8'"):
        tables.resolve("2.8")


def test_installed_is_the_dispatcher_if_the_plugin_asks_it() -> None:
    class Asking(Made):
        def installed(self) -> BackendKernels | None:
            return answer

    answer: BackendKernels | None = BackendKernels(RELEASE, {"XPU": ["aten::bmm.out"]}, "the dispatcher")
    tables = PluginFamily("made", "mpsprobe-made 1.0", Asking(kernels=["aten::mm"]))
    assert tables.target("installed").native == {"aten::bmm.out"}
    answer = None
    assert tables.target("installed").native == {"aten::mm"}
