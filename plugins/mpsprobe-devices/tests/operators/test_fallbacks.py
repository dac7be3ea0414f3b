"""Observed fallbacks: torch's own warn-once mechanism, on operators of our own that warn as MPS does."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from mpsprobe_devices.operators import fallbacks
from mpsprobe_devices.operators.fallbacks import FallbackWarnings, at_once, verdict
from mpsprobe_devices.operators.probe import OperatorsProbe

Open = Callable[..., Any]
Measure = Callable[..., dict[str, Any]]
CUBE = torch.zeros(2, 2, 2)
# ``Tensor.T`` of more than two dimensions warns through TORCH_WARN_ONCE, as ``mps_fallback`` does; the "operator" is T.
ONCE = r"The use of `x\.(?P<operator>T)` on tensors of dimension other than 2"
TEXTS = [
    "The operator 'aten::linalg_qr.out' is not currently supported on the MPS backend and will fall back to run on the"
    " CPU. This may have performance implications. (Triggered internally at MPSFallback.mm:14.)",
    "The operator 'aten::linalg_qr.out' is not currently implemented on the MPS backend and will fall back to run on"
    " the CPU.",
]


@pytest.fixture(name="library", scope="module")
def _library() -> Iterator[Any]:
    """``mpsprobe_test::away``: warns on its way, forward and backward."""
    library = torch.library.Library("mpsprobe_test", "DEF")
    library.define("away(Tensor x) -> Tensor")
    library.define("away_backward(Tensor x) -> Tensor")

    def away(x: torch.Tensor) -> torch.Tensor:
        torch.ops.aten.numpy_T(CUBE)
        return x * 2

    library.impl("away", away, "CompositeExplicitAutograd")
    library.impl("away_backward", away, "CompositeExplicitAutograd")
    torch.library.register_autograd(
        "mpsprobe_test::away", lambda _context, gradient: torch.ops.mpsprobe_test.away_backward(gradient), lib=library
    )
    yield library
    library._destroy()


class Away(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(32, 32), torch.nn.Linear(32, 4)

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.second(torch.ops.mpsprobe_test.away(torch.relu(self.first(inputs))))


@pytest.mark.usefixtures("library")
def test_each_call_is_seen_in_both_passes(open_steps: Open, measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallbacks, "TEXT", ONCE)
    monkeypatch.delenv(fallbacks.VARIABLE, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the steps that warm up warn, too
        steps = open_steps("training", Away)
    found = measure(OperatorsProbe(slow=True), steps, 3)
    (cost,) = found["fallbacks"]
    assert (cost.operator, cost.method, cost.verdict) == ("T", "observed", "fallback")
    assert cost.calls == 2  # of one step: one in each pass
    trace = found["trace"]
    rows = zip(trace.category, trace.duration_ns, strict=True)
    spent = [duration for category, duration in rows if trace.categories[category] == "fallback"]
    assert len(spent) == 6 and cost.duration_ns == round(sum(spent) / 3)
    operators = {one.operator: one for one in found["operators"]}
    away = operators["mpsprobe_test::away"]
    assert away.calls == 3 and away.self_device_ns == 0 and away.host_ns > 0  # nothing ran on the device
    assert operators["aten::relu"].self_device_ns == operators["aten::relu"].host_ns


@contextmanager
def catching() -> Iterator[FallbackWarnings]:
    caught = FallbackWarnings()
    caught.start()
    try:
        yield caught
    finally:
        caught.stop()


def test_the_text_of_each_release() -> None:
    for text in TEXTS:
        with catching() as caught:
            for _ in range(3):  # at the same place: Python's own once must not hold it back
                warnings.warn(text, stacklevel=1)
            assert caught.take() == ["aten::linalg_qr.out"] * 3 and caught.take() == []


def test_other_warnings_go_where_they_went() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with catching() as caught:
            warnings.warn("something else", stacklevel=1)
    assert [str(one.message) for one in seen] == ["something else"] and caught.take() == []


def test_whoever_has_turned_it_on_keeps_it() -> None:
    torch.set_warn_always(True)
    try:
        with catching() as caught:
            caught.stop()
        assert torch.is_warn_always_enabled()
    finally:
        torch.set_warn_always(False)


def test_a_warning_arrives_when_the_call_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallbacks, "TEXT", ONCE)
    with catching() as caught:
        at_once(lambda: [torch.ops.aten.numpy_T(CUBE), None][1])
        assert caught.take() == ["T"]


def test_gradients_are_recorded_inside_as_outside() -> None:
    seen: list[bool] = []
    at_once(lambda: seen.append(torch.is_grad_enabled()))
    with torch.no_grad():
        at_once(lambda: seen.append(torch.is_grad_enabled()))
    assert seen == [True, False]


def test_what_let_it_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, operator, expected in (
        (None, "aten::linalg_qr.out", "fallback"),
        ("0", "aten::linalg_qr.out", "fallback"),
        ("1", "mpsprobe::nothing", "missing"),
        ("1", "aten::add.Tensor", None),
    ):
        monkeypatch.delenv(fallbacks.VARIABLE, raising=False)
        if variable is not None:
            monkeypatch.setenv(fallbacks.VARIABLE, variable)
        if expected is None:  # whether this build has kernels for MPS differs; the answer follows it
            has = torch._C._dispatch_has_kernel_for_dispatch_key(operator, "MPS")
            expected = "fallback" if has else "missing"
        assert verdict(operator) == expected
        assert (fallbacks.VARIABLE in os.environ) is (variable is not None)
