"""The virtual device leaves the process as it found it, however it ends, and also on a build of torch that has MPS."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import pkgutil
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from tests.forking import run_python

_KEYS = ("MPS", "AutogradMPS", "AutocastMPS")
_OWNERS = (
    "torch torch.Tensor torch.nn.Module torch.backends.mps torch.mps torch.mps.event torch.accelerator torch.autograd "
    "torch.autograd.Function torch.nn.functional torch.optim.Optimizer torch.utils.checkpoint"
)


def _registrations() -> dict[str, set[str]]:
    return {key: set(torch._C._dispatch_get_registrations_for_dispatch_key(key)) for key in _KEYS}


def _state() -> dict[str, Any]:
    owners = map(pkgutil.resolve_name, _OWNERS.split())
    lists = [importlib.import_module(n) for n in ("torch.utils._foreach_utils", "torch.optim.optimizer")]
    return {
        "registrations": _registrations(),
        "attributes": [{n: id(v) for n, v in vars(owner).items() if n != "__doc__"} for owner in owners],
        "random": torch.get_rng_state().tolist(),
        "optimizer types": [list(module._foreach_supported_types) for module in lists],
        "warnings": list(warnings.filters),
        "modes": torch.utils._python_dispatch._len_torch_dispatch_stack(),
        "function modes": torch._C._len_torch_function_stack(),
        "default device": torch.get_default_device(),
        "grad": torch.is_grad_enabled(),
        "autocast": torch.is_autocast_enabled("mps"),
    }


class _Model(torch.nn.Module):
    def __init__(self, ending: Callable[[], None]) -> None:
        super().__init__()
        self.layer, self.ending = torch.nn.Linear(3, 3), ending

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.dropout(self.layer(x), 0.5)
        torch.rand(4, device=x.device)
        self.ending()
        return y


def _raise(error: BaseException) -> None:
    raise error


def _use(release: str, model: _Model) -> None:
    with VirtualDevice(load_table(release)) as device:
        device.move(model)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        with device.recording("forward"), torch.autocast("mps", dtype=torch.float16):
            loss = model(torch.rand(2, 3, device="mps")).float().sum()
        with device.recording("backward"):
            loss.backward()
        with device.recording("optimizer"):
            optimizer.step()


@pytest.mark.parametrize("release", ["1.12.1", "2.4.1", "2.13.0"])
def test_everything_is_as_it_was(release: str) -> None:
    with warnings.catch_warnings(), contextlib.suppress(ValueError, RuntimeError):
        warnings.simplefilter("ignore")  # torch's remark that autocast is on, once for the process
        _use(release, _Model(lambda: None))  # what torch imports and registers on its own at first use
    for error in (None, ValueError("in the model"), KeyboardInterrupt(), SystemExit(3), RuntimeError("late")):
        model = _Model((lambda: None) if error is None else functools.partial(_raise, error))
        before, caught = _state(), None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                _use(release, model)
            except BaseException as raised:  # noqa: BLE001 - KeyboardInterrupt and SystemExit are among them
                caught = raised
        assert caught is error
        after = _state()
        assert not [what for what, value in before.items() if after[what] != value], error


def test_two_cannot_be_open_at_once() -> None:
    table = load_table("2.13.0")
    with VirtualDevice(table):
        before = _registrations()
        with pytest.raises(UsageError, match="open in this process already"), VirtualDevice(table):
            pass
        assert _registrations() == before
        assert torch.ones(2, device="mps").device.type == "mps"
    with VirtualDevice(table) as third:
        assert third.table is table


def test_one_device_can_be_opened_again_and_a_tensor_that_outlives_it_says_so() -> None:
    device = VirtualDevice(load_table("2.13.0"))
    for _ in range(2):
        with device, device.recording("forward"):
            tensor = torch.ones(2, device="mps") + 1
        with pytest.raises(RuntimeError, match="after the device was closed"):
            tensor + 1
    assert {r.operator: r.calls for r in device.recorder.calls()}["aten::add.Tensor"] == 2


def test_without_the_device_mps_is_not_there() -> None:
    with VirtualDevice(load_table("2.13.0")):
        assert torch.backends.mps.is_available() and torch.backends.mps.is_built() and torch.mps.device_count() == 1
        torch.mps.synchronize()
    assert not torch.backends.mps.is_built() or torch._C._has_mps
    if not torch._C._has_mps:
        with pytest.raises((RuntimeError, NotImplementedError)):
            torch.ones(2, device="mps")


def test_a_failed_opening_undoes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _registrations()
    device = VirtualDevice(load_table("2.13.0"))
    monkeypatch.setattr(device.attribution, "__enter__", None, raising=False)
    monkeypatch.setattr(type(device.attribution), "__enter__", lambda self: _raise(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        device.__enter__()
    monkeypatch.undo()
    assert _registrations() == before
    with VirtualDevice(load_table("2.13.0")):
        assert torch.backends.mps.is_available()


def test_what_torch_remembers_of_its_functions_holds_no_replacement() -> None:
    """A set of factories that torch makes while the device is open must not outlive it with our ``torch.tensor``."""
    torch.utils._device._device_constructors.cache_clear()
    with VirtualDevice(load_table("2.13.0")), torch.device("mps"):
        torch.zeros(1)
    with torch.device("meta"):
        assert torch.tensor([1.0]).device.type == "meta"


# A Mac, simulated in a process of its own: the build flag is set and a few kernels are registered for MPS, as they are
# there before mpsprobe starts.
_MAC = """
import json, platform
import torch
platform.system = lambda: "Darwin"
torch._C._has_mps = True

def on_the_gpu(*args, **kwargs):
    raise AssertionError("a kernel of MPS was run")

live = torch.library.Library("aten", "IMPL", "MPS")
for name in ("linear", "linear_backward", "sin", "empty.memory_format", "empty_strided", "sum.dim_IntList"):
    live.impl(name, on_the_gpu)

def registered():
    # torch imports modules of its own when they are first needed, and those register operators of theirs.
    names = torch._C._dispatch_get_registrations_for_dispatch_key("MPS")
    return sorted(name for name in names if name.startswith("aten::"))

import mpsprobe
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
before = registered()
found = {}

class Model(torch.nn.Sequential):
    def forward(self, x):
        found["added"] = sorted(set(registered()) - set(before))
        return super().forward(x)

def scan(release, **how):
    report = mpsprobe.coverage(Model(torch.nn.Linear(4, 3), torch.nn.Tanh()), torch.ones(2, 4), torch=release, **how)
    found["left"] = sorted(set(registered()) ^ set(before))
    return {
        "table": report.target.table is not None,
        "verdicts": {one.operator: one.verdict for one in report.operators},
        "failure": report.failure and report.failure.message,
    }

found["installed"], found["2.13.0"] = scan("installed"), scan("2.13.0", phase="training")
live = MPS_FAMILY.installed()
found["live"] = {name: live.verdict("aten::" + name) for name in ("linear", "sin", "tanh.out", "nonzero")}
print(json.dumps(found))
"""


def test_the_dispatcher_of_a_mac_is_asked_and_not_changed() -> None:
    done = run_python(_MAC)
    assert done.code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["added"] == [] and found["left"] == []
    live, shipped = found["installed"], found["2.13.0"]
    assert live["failure"] is None and shipped["failure"] is None
    # Of the two operators only linear was registered; no wheel stands behind such a table.
    assert live["table"] is False and shipped["table"] is True
    assert live["verdicts"]["aten::linear"] == "native" and live["verdicts"]["aten::tanh.out"] == "missing"
    # Judged by the table; no kernel was run.
    native = ("linear", "tanh", "linear_backward", "tanh_backward")
    assert {shipped["verdicts"][f"aten::{name}"] for name in native} == {"native"}
    assert found["live"] == {"linear": "native", "sin": "native", "tanh.out": "missing", "nonzero": "missing"}
