"""Copies to, from and on the device: both devices record the same of every pair of dtypes, in each direction."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch

from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from tests.thorough import all_but

pytestmark = pytest.mark.slow
DTYPES = [
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128", "float8_e4m3fn", "bool"),
    *("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
]
RELEASES = all_but(lambda release: release == "2.13.0", ["1.13.1", "2.0.0", "2.6.0", "2.13.0", "2.15.0"])
Found = dict[str, list[list[Any]]]


def _ways(here: torch.Tensor, there: torch.Tensor, dtype: torch.dtype) -> dict[str, Callable[[], Any]]:
    """``here`` is on the CPU, ``there`` the same on the device."""
    return {
        "to the device": lambda: here.to("mps", dtype),
        "to the CPU": lambda: there.to("cpu", dtype),
        "on the device": lambda: there.to(dtype),
        "into the device": lambda: torch.empty(3, dtype=dtype, device="mps").copy_(here),
        "into the CPU": lambda: torch.empty(3, dtype=dtype).copy_(there),
        "into it on the device": lambda: torch.empty(3, dtype=dtype, device="mps").copy_(there),
        "to the CPU, then converted": lambda: there.cpu().to(dtype),
    }


def _found(kind: str, release: str) -> Found:
    """``from > to, way`` → the copies that are recorded, each with its verdict and reason."""
    chain, found = Chain(load_table(release)), dict[str, list[list[Any]]]()
    native = NativeDevice(chain, lines=False) if kind == "native" else None
    device = native or VirtualDevice(chain, keep_weights=True)
    with device:
        for source, result in product(DTYPES, DTYPES):
            here = torch.zeros(3, dtype=getattr(torch, source))
            for way, copy in _ways(here, here.to("mps"), getattr(torch, result)).items():
                found[f"{source} > {result}, {way}"] = sorted(_copies(device, copy))
    return found


def _copies(device: Any, copy: Callable[[], Any]) -> Iterator[list[Any]]:
    if isinstance(device, NativeDevice):
        device.taken()
        copy()
        calls = [*device.taken().calls()]
    else:
        device.recorder._calls.clear()
        with device.recording("forward"):
            copy()
        calls = [*device.recorder.calls()]
    for call in calls:
        if call.operator == "aten::copy_":
            yield [call.judgement.verdict, str(call.judgement.reason), call.calls]


@pytest.fixture(scope="module", params=RELEASES)
def found(request: pytest.FixtureRequest) -> dict[str, Found]:
    return {
        kind: json.loads(subprocess.check_output([sys.executable, "-W", "ignore", __file__, kind, request.param]))
        for kind in ("native", "virtual")
    }


def test_both_devices_say_the_same(found: dict[str, Found]) -> None:
    assert len(found["native"]) == len(DTYPES) ** 2 * 7
    differ = {name: (one, found["virtual"][name]) for name, one in found["native"].items()}
    assert not {name: pair for name, pair in differ.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_device_converts_what_goes_to_the_cpu(found: dict[str, Found], dtype: str) -> None:
    """``copy_from_mps_`` casts before it copies (``Copy.mm``): a Mac has no such dtype; the CPU converts afterwards."""

    def verdicts(name: str) -> set[str]:
        return {verdict for verdict, *_ in found["virtual"][name]}

    for way in ("to the CPU", "into the CPU", "on the device", "to the device"):
        assert "unsupported" in verdicts(f"float32 > {dtype}, {way}")
    assert verdicts(f"float32 > {dtype}, to the CPU, then converted") == {"native"}
    assert verdicts(f"{dtype} > float32, to the device") == {"native"}


if __name__ == "__main__":
    print(json.dumps(_found(*sys.argv[1:])))  # noqa: T201 - to the test
