"""A plugin's table, completed; and whatever is wrong with one is reported in one sentence that names the plugin."""

from __future__ import annotations

import dataclasses
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from made_backend import OWN, RELEASE, XPU, Made

from mpsprobe.errors import MpsprobeError, PluginError, TableError, UnknownName
from mpsprobe.protocols import Backend, BackendKernels, KernelTables
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.backends import OVERRIDEABLE, PluginFamily, family_named
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY, MpsTables, load_table
from mpsprobe_coverage.knowledge.kernels.table import tensor_keys


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


OWNER = "mpsprobe-made 1.0"


def load(tables: Any) -> Any:
    """Its table of the one release."""
    return PluginFamily("made", OWNER, tables).load(RELEASE)


def answers(table: Any = None, releases: Any = (RELEASE,)) -> Any:
    """Tables that give whatever a test wants; an exception is raised."""

    def given(release: str) -> Any:
        if isinstance(table, BaseException):
            raise table
        return table

    return SimpleNamespace(backend=XPU, releases=lambda: releases, table=given)


GOOD = BackendKernels(RELEASE, {"XPU": ["aten::mm"]}, "a list in a test")
BACKENDS: list[tuple[Any, str]] = [
    (None, "a NoneType as its backend"),
    ("xpu", "a str as its backend"),
    (Backend("", "XPU"), "the device type ''"),
    (Backend("XPU\x1b[31m", "XPU"), "the device type"),
    (Backend("xpu", "x-p-u"), "the dispatch key 'x-p-u'"),
    (Backend("xpu", "XPU", without_kernel="explodes"), "neither 'raises' nor 'cpu'"),
    (Backend("xpu", "XPU", variable="set it"), "'set it' as its variable"),
    (Backend(7, "XPU"), "an int as the device"),  # type: ignore[arg-type]
]
KERNELS: list[tuple[Any, str]] = [
    ({}, "no operator under XPU"),
    ({"XPU": []}, "no operator under XPU"),
    ({"XPUU": ["aten::mm"]}, "the dispatch key 'XPUU'"),
    ({"CompositeImplicitAutograd": ["aten::mm"]}, "the dispatch key"),
    ({"MPS": ["aten::mm"]}, "the dispatch key 'MPS'"),
    ({"XPU": "aten::mm"}, "a str under XPU"),
    ({"XPU": [b"aten::mm"]}, "a bytes under XPU"),
    ({"XPU": ["mm"]}, "names 'mm' under XPU"),
    ({"XPU": ["aten::mm\n<script>"]}, "which is not of the form"),
    ({"XPU": ["aten::" + "m" * 5000]}, "which is not of the form"),
    ({"XPU": None}, "a NoneType under XPU"),
]
FIELDS: list[tuple[str, Any, str]] = [
    ("release", "2.12.0", "gives the table of torch '2.12.0'"),
    ("kernels", [("XPU", ["aten::mm"])], "a list as the kernels"),
    ("source", None, "a NoneType as the source"),
    ("source", "  ", "does not say what"),
    ("sha256", "abc", "64 hexadecimal digits"),
    ("whole", "yes", "a str as the whole"),
    ("fallback", "aten::mm", "a str among the fallbacks"),
    ("raising", [3], "an int among those that raise"),
    ("refused_dtypes", {"float64": 1}, "refused dtypes"),
    ("refused_dtypes", {"torch.float64": "no"}, "'torch.float64'"),
    ("notes", "one note", "a str as the notes"),
    ("notes", [1], "no text"),
]
TABLES = [None, {}, "a table", ZeroDivisionError("1/0"), SystemExit(3), RecursionError("x")]
RELEASES: list[Any] = [[], (), None, "2.13.0", [2.13], ["newest"], ["2.13.0\n"], ["2.13.0+cpu"], {"a"}]
WRONG: list[tuple[Any, str]] = [
    *[(Made(backend), problem) for backend, problem in BACKENDS],
    *[(Made(kernels=kernels), problem) for kernels, problem in KERNELS],
    *[(answers(dataclasses.replace(GOOD, **{field: value})), problem) for field, value, problem in FIELDS],
    *[(answers(table), "its table of torch") for table in TABLES],
    *[(answers(GOOD, releases), "") for releases in RELEASES],
]


def test_what_is_wrong_is_one_sentence_that_names_the_plugin() -> None:
    load(answers(GOOD))
    for tables, problem in WRONG:
        with pytest.raises(PluginError) as caught:
            assert load(tables) and PluginFamily("made", OWNER, tables).releases
        said = caught.value.message
        assert problem in said and OWNER in said and len(said) < 400 and "\n" not in said


def test_an_error_on_purpose_reaches_the_user() -> None:
    with pytest.raises(TableError, match="the file is gone"):
        load(answers(TableError("the file is gone")))


def test_a_release_of_which_nothing_is_known() -> None:
    tables = PluginFamily("made", OWNER, answers(BackendKernels("9.9.9", {"XPU": ["aten::mm"]}, "x"), ["9.9.9"]))
    with pytest.raises(TableError, match=r"9\.9\.9, whose operators are not known"):
        tables.load("9.9.9")


def test_routes() -> None:
    for routes in ([], {"aten::mm": "a string"}, {"mm": print}):
        made = Made()
        made.routes = lambda release, routes=routes: routes  # type: ignore[attr-defined]
        with pytest.raises(PluginError, match=r"routes|route of"):
            PluginFamily("made", OWNER, made).routes(RELEASE)


def test_a_device_that_torch_does_not_have() -> None:
    for backend in (Backend("nosuchdevice", "XPU"), Backend("xpu", "NoSuchKey"), Backend("xpu", "PrivateUse1")):
        table = load(Made(backend))
        with pytest.raises(PluginError, match=r"mpsprobe-made 1\.0"), VirtualDevice(table):
            pass
        with VirtualDevice(load(Made(XPU))):
            pass


def test_a_dtype_that_torch_does_not_have() -> None:
    with pytest.raises(PluginError, match=r"mpsprobe-made 1\.0.* refuses the dtype 'float128', which torch does not"):
        VirtualDevice(load(Made(refused_dtypes={"float128": "none"})))


def test_what_a_plugin_prints_does_not_reach_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    class Prints(Made):
        def table(self, release: str) -> BackendKernels:
            sys.stdout.write("reading …")
            return super().table(release)

    load(Prints())
    captured = capsys.readouterr()
    assert captured.out == "" and "reading" in captured.err


def test_names(bring: Any) -> None:
    bring(Made(), "xpu-like")
    assert family_named("mps") is MPS_FAMILY
    found = family_named("xpu-like")
    assert found.owner == OWNER
    with pytest.raises(UnknownName, match="did you mean 'xpu-like'") as caught:
        family_named("xpu-lik")
    assert "come with a plugin" in (caught.value.hint or "")
    with pytest.raises(UnknownName):
        family_named("x" * 5000 + "\n<script>")
    bring(Made(), "mps")  # nobody takes it away
    assert family_named("mps") is MPS_FAMILY


def test_a_target_that_is_no_kernel_tables(bring: Any) -> None:
    bring(object())
    with pytest.raises(MpsprobeError, match="not a KernelTables"):
        family_named("made")
