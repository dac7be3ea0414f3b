"""Whatever is wrong with a plugin's tables is reported in one sentence that names the plugin."""

from __future__ import annotations

import dataclasses
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from made_backend import RELEASE, XPU, Made

from mpsprobe.errors import MpsprobeError, PluginError, TableError, UnknownName
from mpsprobe.protocols import Backend, BackendKernels
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.backends import PluginFamily, family_named
from mpsprobe_coverage.kernels.mps import MPS_FAMILY

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
