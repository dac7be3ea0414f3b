"""While a device is open, libraries are answered about torch by its release, whatever was imported before."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from made_workloads import Made

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.scanning.scan import release_answers
from mpsprobe_devkit.testing import FakeProgress

LIBRARY = {
    "__init__": "",
    "asking": """
import importlib.metadata
from functools import lru_cache
import torch
from packaging import version

_installed, _number = version.parse(importlib.metadata.version("torch")), 1
kept = []

class Proxy:  # of what is not there yet, as those of frameworks for the web
    __class__ = property(lambda self: 1 / 0)

proxy = Proxy()

@lru_cache
def text():
    return importlib.metadata.version("torch")

@lru_cache
def at_least(wanted):
    return version.parse(text()) >= version.parse(wanted)

@lru_cache
def has_mps():
    return torch.backends.mps.is_available()

def older_than(wanted):
    return _installed < version.parse(wanted)

def counts():
    kept.append(torch.__version__)
    return len(kept)
""",
    "constants": """
import torch
from packaging import version
from .asking import at_least, counts, has_mps, older_than

_AT_LEAST_2_7 = at_least("2.7")
OLD = version.parse(torch.__version__) < version.parse("2.5") or older_than("2.5")
try:
    NAME = "mps" if has_mps() else "cpu"
except ImportError:
    NAME = "none"
COUNTED = counts()

class Layer(torch.nn.Module):
    def forward(self, x):
        return x.sin() if _AT_LEAST_2_7 else x.cos()
""",
    "using": "from .constants import NAME, OLD, _AT_LEAST_2_7\n",
}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a package with ``LIBRARY``, not imported yet."""
    folder = tmp_path / "asks_torch"
    folder.mkdir()
    for name, text in LIBRARY.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    for name in [one for one in sys.modules if one.partition(".")[0] == folder.name]:
        del sys.modules[name]


def _answers(library: str) -> dict[str, Any]:
    asking, using = (importlib.import_module(f"{library}.{name}") for name in ("asking", "using"))
    constants = {name: getattr(using, name) for name in ("NAME", "OLD", "_AT_LEAST_2_7")}
    return constants | {"function": asking.at_least("2.10"), "uncached": asking.older_than("2.10")}


def _expected(release: str, name: str) -> dict[str, Any]:
    number = tuple(map(int, release.split(".")))
    old, new = number < (2, 10), number >= (2, 7)
    return {"NAME": name, "OLD": number < (2, 5), "_AT_LEAST_2_7": new, "function": not old, "uncached": old}


@pytest.mark.parametrize("release", ["1.13.1", "2.6.0", "2.9.0", "2.15.0"])
@pytest.mark.parametrize("before", [True, False])
def test_they_are_answered_by_the_release_and_afterwards_as_before(library: str, release: str, before: bool) -> None:
    installed, closed = torch.__version__, _expected(installed_release(), "cpu")
    if before:
        assert _answers(library) == closed
    with VirtualDevice(load_table(release)):
        assert _answers(library) == _expected(release, "mps")
        assert sys.modules[f"{library}.constants"].COUNTED == 1  # what stores something is not called again
        assert torch.__version__ == release
        assert installed_release() == installed.partition("+")[0]  # ours are answered by what is there
    assert torch.__version__ is installed
    assert _answers(library) == closed
    functions = [one for name in LIBRARY for one in vars(_module(library, name)).values() if callable(one)]
    assert all(type(one).__module__ != "mpsprobe_coverage.devices.virtual.libraries" for one in functions)


def _module(library: str, name: str) -> ModuleType:
    return importlib.import_module(library if name == "__init__" else f"{library}.{name}")


class Asking(torch.nn.Module):
    """Calls what a library takes for the version of torch that it finds."""

    def __init__(self, library: str, gone: str = "") -> None:
        super().__init__()
        self.layer, self.gone = _module(library, "constants").Layer(), gone
        self.asking = _module(library, "asking")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.gone and not self.asking.at_least(self.gone):
            x = torch.gone_with_an_old_release(x)  # type: ignore[attr-defined]
        x = self.layer(x)
        return x.exp() if self.asking.at_least("2.9.0") else x.log()


def _operators(library: str, releases: list[str], gone: str = "") -> dict[str, set[str]]:
    workload = Made(lambda: TorchRun(Asking(library, gone), (torch.ones(2, 4),)))
    answers = release_answers(workload, RunOptions(), releases, FakeProgress())
    assert all(answer.report.failure is None for answer in answers.values())
    return {
        release: {one.operator for one in answer.report.operators} | {*answer.report.workload.notes}
        for release, answer in answers.items()
    }


def test_a_run_for_several_releases_parts_where_they_answer_otherwise(library: str) -> None:
    found = _operators(library, ["2.6.0", "2.7.0", "2.8.0", "2.9.0", "2.13.0"])
    of = {name: {"aten::sin", "aten::cos", "aten::exp", "aten::log"} & one for name, one in found.items()}
    assert of["2.6.0"] == {"aten::cos", "aten::log"}
    assert of["2.7.0"] == of["2.8.0"] == {"aten::sin", "aten::log"}
    assert of["2.9.0"] == of["2.13.0"] == {"aten::sin", "aten::exp"}


def test_what_the_installed_torch_lacks_is_asked_as_of_that(library: str) -> None:
    found = _operators(library, ["2.6.0", "2.13.0"], gone="2.7")
    assert {"aten::sin", "aten::exp"} <= found["2.6.0"]
    assert any("gone_with_an_old_release" in one for one in found["2.6.0"])
    assert not any("gone" in one for one in found["2.13.0"])
