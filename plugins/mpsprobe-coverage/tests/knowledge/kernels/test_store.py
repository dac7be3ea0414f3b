"""The shipped tables, compared with facts about PyTorch from other sources and with the running dispatcher."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
import torch

from mpsprobe.errors import MissingPackage, TableError, UnknownName
from mpsprobe_coverage.knowledge.kernels import live, mps, releases, table
from mpsprobe_coverage.knowledge.kernels.compositions import COMPOSITIONS
from mpsprobe_coverage.knowledge.kernels.format import data_file
from mpsprobe_coverage.knowledge.kernels.live import origin_of
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY, live_table, load_table
from mpsprobe_coverage.knowledge.kernels.releases import data_folder, installed_release, torch_releases
from mpsprobe_coverage.knowledge.kernels.table import DEFINED, EXPLICIT, IMPLICIT, NON_FUNCTIONAL
from tests.forking import run_script


def test_the_reference_counts() -> None:
    for release, native, fallback_initialiser in (("1.12.1", 456, 18), ("2.6.0", 707, 6), ("2.13.0", 890, 4)):
        table = load_table(release)
        assert len({operator for operator in table.native if operator.startswith("aten::")}) == native
        assert len(table.fallback | table.error) == fallback_initialiser


@pytest.mark.parametrize(
    ("operator", "release", "verdict", "reason"),
    [
        ("aten::linalg_svd", "2.13.0", "fallback", "MPSFallback.mm registers it"),
        ("aten::linalg_svd", "2.14.0", "composite", "made of _linalg_svd, which has a kernel since"),
        ("aten::_linalg_svd.U", "2.15.0", "native", "the svd kernel of 2.14"),
        ("aten::_fft_c2c", "1.12.1", "fallback", "FFT ran on the CPU"),
        ("aten::nonzero", "1.13.1", "fallback", "nonzero ran on the CPU"),
        ("aten::masked_select", "1.12.1", "fallback", "as nonzero"),
        ("aten::nonzero", "2.0.0", "native", "kernel of 2.0"),
        ("aten::_slow_conv2d_forward", "2.13.0", "unsupported", "an error stub among the fallbacks"),
        ("aten::bitwise_and.Tensor_out", "2.0.0", "native", "registered by hand, in no yaml file"),
        ("aten::bitwise_and.Tensor_out", "1.12.1", "fallback", "before that it ran on the CPU"),
        ("aten::native_group_norm", "2.6.0", "native", "torch/backends/mps registers a Python kernel"),
        ("aten::linalg_lu_solve.out", "2.13.0", "native", "torch/_refs/linalg registers a Python kernel"),
        ("aten::abs", "2.13.0", "composite", "CompositeExplicitAutograd, made of abs.out"),
        ("aten::matmul", "1.12.0", "composite", "CompositeImplicitAutograd"),
        ("aten::linear", "2.13.0", "native", "MPS has its own linear"),
        ("aten::linalg_qr.out", "2.11.0", "missing", "its kernel came with 2.12"),
        ("aten::upsample_nearest3d.vec", "2.6.0", "fallback", "MPSFallback.mm registered it up to 2.7"),
        ("aten::_fused_adamw_", "2.4.1", "missing", "fused optimizers came with 2.5"),
        ("aten::_fused_adamw_", "2.5.0", "native", "fused optimizers came with 2.5"),
        ("aten::scaled_dot_product_attention", "1.13.1", "unknown", "the operator came with 2.0"),
        ("torchvision::nms", "2.0.1", "missing", "torchvision's MPS kernels came with 0.16"),
        ("torchvision::nms", "2.1.0", "native", "torchvision 0.16"),
    ],
)
def test_what_is_known_of_pytorch(operator: str, release: str, verdict: str, reason: str) -> None:
    assert dict(MPS_FAMILY.history(operator))[release] == verdict, reason
    table = MPS_FAMILY.library(operator.partition("::")[0], release) or load_table(release)
    assert table.verdict(operator) == verdict, reason


NATIVE_SINCE = {
    "aten::linear": "1.13.0",
    "aten::linalg_qr.out": "2.12.0",
    "aten::linalg_svd": "2.14.0",  # composite there, of _linalg_svd
    "aten::conv2d": None,  # composite, and some of what it may call has no kernel
    "aten::_linalg_svd.U": "2.14.0",
    "torchvision::nms": "2.1.0",
    "aten::_mps_max_pool2d": None,
    "aten::no_such_operator": None,
}


def test_since_when_and_until_when() -> None:
    assert {operator: MPS_FAMILY.native_since(operator) for operator in NATIVE_SINCE} == NATIVE_SINCE
    removed = {operator: MPS_FAMILY.removed_in(operator) for operator in NATIVE_SINCE}
    assert {operator: release for operator, release in removed.items() if release} == {"aten::_mps_max_pool2d": "2.0.0"}


def test_sparse_kernels_have_a_key_of_their_own() -> None:
    assert MPS_FAMILY.native_since("aten::_coalesce", "SparseMPS") == "2.9.0"
    assert MPS_FAMILY.native_since("aten::_coalesce") is None
    assert set(load_table("2.13.0").keys) == {"AutocastMPS", "MPS", "SparseCsrMPS", "SparseMPS"}


def test_every_table_says_where_it_comes_from_and_another_release_has_none() -> None:
    with pytest.raises(UnknownName):
        load_table("2.99.0")
    for release in torch_releases():
        table = load_table(release)
        assert table.wheel.startswith(f"torch-{release}-") and table.wheel.endswith("_arm64.whl"), release
        assert (len(table.sha256), len(table.commit or "")) == (64, 40), release
        assert table.macos_minimum is not None and "float64_refused" in table.markers, release
        assert table.only_declared == {} and set(table.only_in_binary) <= {"MPS"}, release


def test_kernels_by_hand_are_the_only_disagreement_of_the_sources() -> None:
    by_hand = ("and.Tensor_out", "not.out", "or.Tensor_out", "xor.Tensor_out")
    only = {"MPS": tuple(f"aten::bitwise_{name}" for name in by_hand)}
    found = {release: load_table(release).only_in_binary for release in torch_releases()}
    expected = dict.fromkeys(("1.13.0", "1.13.1", "2.0.0", "2.0.1"), only)
    assert {release: operators for release, operators in found.items() if operators} == expected


def test_facts_hold_in_one_stretch_of_releases() -> None:
    known = list(torch_releases())
    for marker, first, last in (
        ("conv3d_refused", "1.13.0", "2.2.2"),
        ("bfloat16_refused", "2.1.0", "2.2.2"),
        ("fused_mps", "2.5.0", known[-1]),
        ("conv_channels_2_to_16_refused", "2.5.0", known[-1]),
    ):
        holding = [release for release in known if marker in load_table(release).markers]
        assert holding == known[known.index(first) : known.index(last) + 1], marker


def test_all_data_is_small_and_loads_in_milliseconds() -> None:
    data = {entry.name: entry.read_bytes() for entry in data_folder().iterdir()}
    sizes = {name: len(content) for name, content in data.items()}
    facts = [content for name, content in data.items() if name.endswith(".kernels")]
    code = sum(len(content.partition(b'"code": ')[2]) for content in facts)  # the last part, of its own budget
    assert code <= 165_000
    assert sum(size for name, size in sizes.items() if not name.endswith(COMPOSITIONS.suffix)) - code <= 400_000
    assert sum(size for name, size in sizes.items() if name.endswith(COMPOSITIONS.suffix)) <= 200_000
    assert sum(map(len, facts)) - code < 150_000
    mps._chain.cache_clear()
    data_file.cache_clear()
    load_table.cache_clear()
    start = time.perf_counter()
    load_table(torch_releases()[-1])
    assert time.perf_counter() - start < 1.0  # about 10 ms; the limit only catches another order of magnitude


@pytest.fixture
def copied_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the data that a test may damage."""
    folder = tmp_path / "data"
    folder.mkdir()
    for entry in data_folder().iterdir():
        (folder / entry.name).write_bytes(entry.read_bytes())
    caches = (data_file, mps._chain, load_table, releases.library_releases)
    monkeypatch.setattr(releases, "data_folder", lambda: folder)
    for cached in caches:
        cached.cache_clear()
    yield folder
    monkeypatch.undo()
    for cached in caches:
        cached.cache_clear()


@pytest.mark.parametrize("damage", ["cut", "changed", "folder", "missing"])
def test_a_damaged_file_is_named(copied_data: Path, damage: str) -> None:
    path = copied_data / "torch-2.4.0.table"
    data = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes(data[:-20] if damage == "cut" else data.replace(b"aten", b"neta"))
    message = r"torch-2\.4\.1\.table does not fit" if damage == "missing" else r"torch-2\.4\.0\.table"
    with pytest.raises(TableError, match=message) as caught:
        load_table("2.13.0")
    assert "Reinstall" in str(caught.value.hint)


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
from mpsprobe_coverage.knowledge.kernels.mps import live_table
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
    installed_release.cache_clear()
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
