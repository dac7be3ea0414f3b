"""The running dispatcher: how its answers are read, and that the tables agree with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from mpsprobe.errors import MissingPackage, UnknownName
from mpsprobe_coverage.kernels import live, releases, table
from mpsprobe_coverage.kernels.live import origin_of
from mpsprobe_coverage.kernels.mps import MPS_FAMILY, live_table, load_table
from mpsprobe_coverage.kernels.releases import installed_release
from mpsprobe_coverage.kernels.table import DEFINED, EXPLICIT, IMPLICIT, NON_FUNCTIONAL
from tests.forking import run_script

DUMP = """\
name: aten::linalg_svd
schema: aten::linalg_svd(Tensor A) -> (Tensor U, Tensor S, Tensor Vh)
CPU: registered at /b/RegisterCPU.cpp:7 :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]
MPS: registered at {} [ {} ]
MPS (inactive): registered at /b/other.py:1 :: (none) [ boxed ]
CompositeImplicitAutograd[alias]: registered at /b/RegisterCompositeImplicitAutograd.cpp:9 :: (none) [ boxed unboxed ]
"""
REGISTER_FOR_MPS = """
import json, torch
from mpsprobe_coverage.kernels.mps import live_table
library = torch.library.Library("aten", "IMPL", "MPS")
library.impl("linalg_qr.out", lambda *arguments, **keywords: None)
table = live_table()
print(json.dumps([sorted(table.python), table.verdict("aten::linalg_qr.out"), table.verdict("aten::nonzero")]))
"""


@pytest.mark.parametrize(
    ("place", "forms", "origin"),
    [
        ("/Users/runner/pytorch/aten/src/ATen/mps/MPSFallback.mm:75 :: (none)", "boxed", "MPS:fallback"),
        ("/Users/runner/pytorch/aten/src/ATen/mps/MPSFallback.mm:80 :: (Tensor _0)", "boxed unboxed", "MPS:error"),
        ("/Users/runner/build/aten/src/ATen/RegisterMPS_0.cpp:31 :: (Tensor _0)", "boxed unboxed", None),
        ("/opt/python/torch/backends/mps/__init__.py:64 :: (none)", "boxed", "MPS:python"),
        ("C:\\a b\\torch\\_refs\\__init__.py:4 :: (none)", "boxed", "MPS:python"),
    ],
)
def test_where_a_kernel_comes_from(place: str, forms: str, origin: str | None) -> None:
    assert origin_of(DUMP.format(place, forms), "MPS") == origin
    assert origin_of("", "MPS") is origin_of(DUMP.format(place, forms), "SparseMPS") is None  # not that key


def test_real_dumps_of_this_torch_are_read() -> None:
    dump = torch._C._dispatch_dump("aten::abs.out")
    assert live.REGISTRATION.match(next(line for line in dump.splitlines() if line.startswith("CPU: ")))
    assert origin_of(dump, "CPU") is None
    # torch/_meta_registrations.py: what stands in the dump is read; in 2.6 no file stands there.
    assert origin_of(dump, "Meta") == (None if torch.__version__.startswith("2.6.") else "MPS:python")


def test_a_kernel_that_python_registers_is_seen(tmp_path: Path) -> None:
    (tmp_path / "register.py").write_text(REGISTER_FOR_MPS, encoding="utf-8")
    python, registered, other = json.loads(run_script(tmp_path / "register.py").stdout)
    assert ("aten::linalg_qr.out" in python) is not torch.__version__.startswith("2.6.")
    assert registered == "native"
    assert other == live_table().verdict("aten::nonzero")  # here nothing was registered


def test_the_shipped_table_has_the_operators_and_composite_kernels_of_this_torch() -> None:
    """The table comes from a macOS wheel, the dispatcher from this machine's build: two builds of the same source."""
    shipped, running = load_table(installed_release()), live_table()
    for label in (DEFINED, EXPLICIT, IMPLICIT, NON_FUNCTIONAL):
        differing = shipped.with_label(label) ^ running.with_label(label)
        # get_gradients is registered by torch.distributed, and only where that is built
        assert {operator for operator in differing if operator.startswith("aten::")} <= {"aten::get_gradients"}, label


def test_installed_means_the_table_of_the_installed_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "has_mps_build", lambda: False)
    monkeypatch.setattr(table, "installed_release", lambda: "2.6.0")
    assert MPS_FAMILY.target("installed") is MPS_FAMILY.target("2.6") is load_table("2.6.0")
    monkeypatch.setattr(table, "installed_release", lambda: "9.9.0")
    with pytest.raises(UnknownName) as caught:
        MPS_FAMILY.target("installed")
    assert "--torch latest" in str(caught.value.hint)
    monkeypatch.setattr(live, "has_mps_build", lambda: True)  # there the dispatcher is asked
    running = MPS_FAMILY.target("installed")
    assert (running.wheel, running.release) == ("", installed_release())


def test_no_torch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise releases.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(releases.importlib.metadata, "version", nothing)
    with pytest.raises(MissingPackage):
        installed_release()


def test_only_a_mac_asks_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.platform, "system", lambda: "Darwin")
    for built in (True, False):
        monkeypatch.setattr(torch.backends.mps, "is_built", lambda built=built: built)
        assert live.has_mps_build() is built
    monkeypatch.setattr(live.platform, "system", lambda: "Windows")
    monkeypatch.setitem(sys.modules, "torch", None)  # an import would fail
    assert live.has_mps_build() is False


def test_a_dispatch_key_that_this_torch_lacks_has_no_operators() -> None:
    """torch 2.6 does not know SparseMPS; without MPS itself there is no table."""
    assert live._registrations(torch._C, "SparseNothing") == []

    class Older:
        def _dispatch_get_registrations_for_dispatch_key(self, key: str) -> list[str]:
            raise RuntimeError(f"could not parse dispatch key: {key}")

    with pytest.raises(RuntimeError, match="could not parse dispatch key: MPS"):
        live._registrations(Older(), "MPS")
