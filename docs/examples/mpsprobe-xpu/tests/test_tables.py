"""Tables from yaml: of the installed torch, of a wheel, with a checkout of torch-xpu-ops."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from mpsprobe.declarations import resolve
from mpsprobe.errors import MpsprobeError, TableError, UsageError
from mpsprobe.plugins.registry import Registry, get_registry, use_registry
from mpsprobe.protocols import KernelTables
from mpsprobe_devkit.testing import install_plugin

from mpsprobe_xpu import plugin, sources
from mpsprobe_xpu.tables import XpuTables

HERE = torch.__version__.partition("+")[0]
WHEEL_YAML = "- func: mm(Tensor self) -> Tensor\n  dispatch:\n    XPU: mm\n"
OPS_YAML = "- func: relu(Tensor self) -> Tensor\n  dispatch:\n    XPU: relu\n"
FALLBACK = 'std::vector<std::string> fallback_list = {\n  "linalg_eig",\n  "relu",\n  "topk.values",\n};\n'


@pytest.fixture(autouse=True)
def no_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable of whoever runs the tests does not count."""
    monkeypatch.delenv(sources.VARIABLE, raising=False)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel of torch 2.6.0 that holds nothing but its yaml."""
    path = tmp_path / "torch-2.6.0+xpu-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr(sources.PACKAGED, WHEEL_YAML)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like torch-xpu-ops."""
    for name, text in ((sources.OPS_YAML, OPS_YAML), (sources.OPS_FALLBACK, FALLBACK)):
        path = tmp_path / "torch-xpu-ops" / name
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "torch-xpu-ops"


def test_the_declaration_leads_to_the_tables() -> None:
    [declared] = plugin.mpsprobe_kernel_tables()
    assert declared.name == "xpu"
    assert resolve(declared.target) is XpuTables
    assert isinstance(XpuTables(), KernelTables)


def test_of_the_installed_torch() -> None:
    assert list(XpuTables().releases()) == [HERE]
    table = XpuTables().table(HERE)
    assert {"aten::mm", "aten::mm.out", "aten::addmm", "aten::bmm"} <= set(table.kernels["XPU"])
    assert not table.whole  # most kernels are in torch-xpu-ops
    assert HERE in table.source and len(table.sha256) == 64
    assert any(sources.VARIABLE in note for note in table.notes)


def test_of_a_wheel(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sources.VARIABLE, str(wheel))
    assert set(XpuTables().releases()) == {"2.6.0", HERE}
    table = XpuTables().table("2.6.0")
    assert table.kernels == {"XPU": {"aten::mm"}}
    assert table.source == f"native_functions.yaml of {wheel.name}"


def test_with_torch_xpu_ops(wheel: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sources.VARIABLE, os.pathsep.join([str(wheel), str(checkout)]))
    table = XpuTables().table("2.6.0")
    assert table.kernels == {"XPU": {"aten::mm", "aten::relu"}}
    assert table.fallback == {"aten::linalg_eig", "aten::topk.values"}  # a kernel in the yaml has the last word
    assert "torch-xpu-ops" in table.source and not table.whole


def test_sources_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("missing.whl", str(tmp_path), "torch-2.6.0.whl", "<script>\n"):
        monkeypatch.setenv(sources.VARIABLE, name)
        with pytest.raises(UsageError, match="neither a wheel of torch nor a checkout"):
            XpuTables().releases()


def test_damaged_sources(wheel: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sources.VARIABLE, os.pathsep.join([str(wheel), str(checkout)]))
    (checkout / sources.OPS_FALLBACK).write_text("nothing", encoding="utf-8")
    with pytest.raises(TableError, match="no list of fallbacks"):
        XpuTables().table("2.6.0")
    wheel.write_bytes(b"PK no zip")
    with pytest.raises(TableError, match="has no readable"):
        XpuTables().table("2.6.0")
    with pytest.raises(TableError, match=r"no yaml of torch 1\.2\.3"):
        XpuTables().table("1.2.3")


def test_the_dispatcher_is_asked_only_where_it_has_xpu() -> None:
    has = torch._C._dispatch_has_kernel_for_dispatch_key("aten::empty.memory_format", "XPU")
    found = XpuTables().installed()
    assert (found is None) is (not has)
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("empty.memory_format", lambda *args, **kwargs: None, "XPU")
        found = XpuTables().installed()
        assert found is not None and found.whole
        assert "aten::empty.memory_format" in found.kernels["XPU"]


MODEL = """
import torch


def make():
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), (torch.ones(2, 4),)
"""


@pytest.fixture
def plugin_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plugin is found as an installed one is, whether it is installed or not."""
    if "xpu" not in Registry().backends():
        code = "from mpsprobe_xpu.plugin import mpsprobe_kernel_tables"
        install_plugin(tmp_path, "mpsprobe-xpu", code, version="0.1.0")
        monkeypatch.syspath_prepend(str(tmp_path))
    use_registry(None)
    yield
    use_registry(None)


def run(*arguments: str) -> Result:
    """A command of mpsprobe, by name."""
    result = CliRunner().invoke(get_registry().made("command", arguments[0]), list(arguments[1:]))
    if isinstance(result.exception, MpsprobeError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.usefixtures("plugin_is_there")
def test_a_model(tmp_path: Path, checkout: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    arguments = ("coverage", f"{tmp_path / 'model.py'}:make", "--backend", "xpu", "--format", "json")
    report = json.loads(run(*arguments).stdout)
    verdicts = {one["operator"]: one["verdict"] for one in report["operators"]}
    assert verdicts["aten::addmm"] == "native"
    assert verdicts["aten::relu"] == "unknown"
    assert report["target"]["backend"] == "xpu" and "(mpsprobe-xpu 0.1.0)" in report["target"]["source"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(sources.VARIABLE, str(checkout))
        report = json.loads(run(*arguments).stdout)
    assert {one["operator"]: one["verdict"] for one in report["operators"]}["aten::relu"] == "native"


@pytest.mark.usefixtures("plugin_is_there")
def test_the_tables_are_listed() -> None:
    [found] = json.loads(run("kernels", "show", "aten::addmm.default", "--backend", "xpu", "--format", "json").stdout)
    assert found["verdict"] == "native"
