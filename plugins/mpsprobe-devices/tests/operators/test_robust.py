"""What goes wrong while operators are recorded, and that nothing is left behind."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn.modules import module as hooks
from torch.optim import optimizer as optimizers
from torch.profiler import ProfilerActivity, profile

from mpsprobe.errors import MpsprobeError
from mpsprobe_devices.cpu import CpuDevice
from mpsprobe_devices.mps import MpsDevice
from mpsprobe_devices.operators import kineto, marks
from mpsprobe_devices.operators.probe import OperatorsProbe
from mpsprobe_devkit.testing.fakes import FakeClock, FakeSteps

Open = Callable[..., Any]
Measure = Callable[..., dict[str, Any]]


def left_behind() -> tuple[Any, ...]:
    """What the probe touches and must leave as it was, besides what is looked at after every test."""
    return (
        torch.nn.Module.__call__,
        dict(hooks._global_forward_hooks),
        dict(hooks._global_forward_pre_hooks),
        dict(optimizers._global_optimizer_pre_hooks),
        dict(optimizers._global_optimizer_post_hooks),
        torch.is_warn_always_enabled(),
        [one for one in warnings.filters if one[1] is not None and "MPS" in getattr(one[1], "pattern", one[1])],
        warnings.showwarning,
    )


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    before, threads = left_behind(), set(threading.enumerate())
    yield
    assert left_behind() == before
    assert set(threading.enumerate()) <= threads  # one that another test left may end meanwhile


class Fails(torch.nn.Module):
    """Raises in an inner module after some calls."""

    def __init__(self, error: BaseException, after: int) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(32, 32)
        self.error, self.left = error, after
        self.inner.register_forward_hook(self.count)

    def count(self, *_: Any) -> None:
        """Raise when the calls are used up."""
        self.left -= 1
        if self.left < 0:
            raise self.error

    def forward(self, inputs: torch.Tensor) -> Any:
        """As the inner one."""
        return self.inner(inputs)


@pytest.mark.parametrize("error", [RuntimeError("out of luck"), KeyboardInterrupt()], ids=["error", "ctrl-c"])
def test_a_step_that_raises_leaves_the_steps_before_it(
    probe: OperatorsProbe, error: BaseException, open_steps: Open
) -> None:
    steps = open_steps("inference", lambda: Fails(error, 3))  # the first call, two steps, and then
    probe.start(CpuDevice(), steps)
    with pytest.raises(type(error)):
        for _ in range(5):
            steps.step()
            probe.sample()
    found = probe.stop()
    assert found["profiled_steps"] == 2
    assert {one.operator: one.calls for one in found["operators"]}["aten::addmm"] == 2
    assert {one.module: one.calls for one in found["modules"]} == {"": 2, "inner": 2}
    trace = found["trace"]
    assert trace.names.count("ProfilerStep#1") == 1 and "ProfilerStep#2" not in trace.names


def test_no_whole_step_gives_nothing_and_it_can_be_used_again(
    probe: OperatorsProbe, open_steps: Open, measure: Measure
) -> None:
    steps = open_steps("inference")
    probe.start(CpuDevice(), steps)
    steps.step()
    assert probe.stop() == {} and probe.stop() == {}
    first, second = [{one.operator: one.calls for one in measure(probe, steps)["operators"]} for _ in range(2)]
    assert first == second


def test_a_profiler_that_runs_already(open_steps: Open) -> None:
    probe = OperatorsProbe()
    assert kineto.activity_of("mps") is None and kineto.activity_of("cpu") is ProfilerActivity.CPU
    with profile(activities=[ProfilerActivity.CPU]):
        assert kineto.RUNNING in (probe.unavailable(CpuDevice()) or "")
        assert probe.unavailable(MpsDevice()) is None  # the slow mode bears it
        with pytest.raises(RuntimeError, match="another torch profiler"):
            probe.start(CpuDevice(), open_steps())
    assert probe.unavailable(CpuDevice()) is None and probe.stop() == {}


def test_steps_without_a_model_have_no_modules_and_those_that_are_not_torchs_say_so(
    probe: OperatorsProbe, open_steps: Open, measure: Measure
) -> None:
    steps = open_steps()
    steps.model = None
    found = measure(probe, steps)
    assert found["modules"] == [] and found["operators"]
    assert {"forward", "backward", "optimizer"} <= set(found["trace"].names)
    with pytest.raises(MpsprobeError, match="no operator of torch"):
        measure(probe, FakeSteps(FakeClock()))


def test_an_error_that_the_model_catches(probe: OperatorsProbe, open_steps: Open, measure: Measure) -> None:
    class Catches(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fails = Fails(ValueError("no"), 0)
            self.works = torch.nn.Linear(32, 32)

        def forward(self, inputs: torch.Tensor) -> Any:
            try:
                self.fails(inputs)
            except ValueError:
                return self.works(inputs)

    found = measure(probe, open_steps("inference", Catches))
    calls = {one.module: one.calls for one in found["modules"]}
    assert calls[""] == calls["works"] == calls["fails"] == 2


def test_a_compiled_model_is_not_compiled_again(open_steps: Open, measure: Measure) -> None:
    from torch._dynamo.utils import counters

    torch.compiler.reset()
    try:
        # An inner module, so that compiling needs no C++ compiler.
        class Compiled(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = torch.compile(torch.nn.Linear(32, 32), backend="eager")

            def forward(self, inputs: torch.Tensor) -> Any:
                return self.inner(inputs)

        steps = open_steps("inference", Compiled)
        before = counters["frames"]["total"]
        assert before > 0
        found = measure(OperatorsProbe(slow=False), steps)
        assert counters["frames"]["total"] == before
        assert found["readings"][0].caveats == [marks.COMPILED] and found["modules"] == []
        slow = measure(OperatorsProbe(slow=True), steps)
        assert marks.COMPILED in slow["readings"][0].caveats and slow["operators"]
    finally:
        torch.compiler.reset()
        counters.clear()


def test_a_fast_path_stays_the_fast_path(open_steps: Open, measure: Measure) -> None:
    """torch's own encoder layer looks for hooks on its modules, and computes otherwise when it finds one."""

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.TransformerEncoderLayer(32, 4, batch_first=True)
            self.eval()

        def forward(self, inputs: torch.Tensor) -> Any:
            return self.layer(inputs.unsqueeze(0))

    steps = open_steps("inference", Encoder)
    with profile(activities=[ProfilerActivity.CPU]) as made:
        steps.step()
    fast = "aten::_transformer_encoder_layer_fwd"
    assert fast in {event.name for event in made.events()}
    for slow in (False, True):
        assert fast in {one.operator for one in measure(OperatorsProbe(slow=slow), steps)["operators"]}


def test_other_threads_have_rows_of_their_own(open_steps: Open, measure: Measure) -> None:
    """The slow mode's marks and the profiler's are those of the thread that makes them."""
    steps = open_steps("inference")
    inner = steps.step

    def step() -> None:
        inner()
        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()

    steps.step = step
    found = measure(OperatorsProbe(slow=True), steps)
    hosts = [track for track in found["trace"].tracks if track.kind == "host"]
    assert hosts[0].name == "python" and len(hosts) == len({track.thread for track in hosts}) >= 2


def test_an_operator_of_a_higher_order_is_measured_as_a_whole(open_steps: Open, measure: Measure) -> None:
    class Product(torch.nn.Module):
        def forward(self, inputs: torch.Tensor) -> Any:
            whole = inputs.to(torch.int8)
            return torch.ops.higher_order.out_dtype(torch.ops.aten.mm.default, torch.int32, whole, whole.t())

    steps = open_steps("inference", Product)
    if torch.__version__.startswith("2.6."):  # it asks no mode
        with pytest.raises(NotImplementedError, match="no rule registered"):
            measure(OperatorsProbe(slow=True), steps)
        return
    [product] = [one for one in measure(OperatorsProbe(slow=True), steps)["operators"] if "out_dtype" in one.operator]
    assert product.operator == "higher_order::out_dtype" and product.calls == 2 and product.host_ns > 0
