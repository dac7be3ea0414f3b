"""Operators, modules and phases, compared with a run of torch.profiler made by hand; what goes wrong meanwhile.

Nothing is left behind by any of it.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn.modules import module as hooks
from torch.optim import optimizer as optimizers
from torch.profiler import ProfilerActivity, profile

from mpsprobe.errors import MpsprobeError
from mpsprobe.schemas import Trace
from mpsprobe_devices.cpu import CpuDevice
from mpsprobe_devices.mps import MpsDevice
from mpsprobe_devices.operators import kineto, marks
from mpsprobe_devices.operators.kineto import MARK, KinetoRecorder
from mpsprobe_devices.operators.probe import OperatorsProbe
from mpsprobe_devices.operators.recording import Recording
from mpsprobe_devices.traces.totals import operator_times
from mpsprobe_devkit.testing.fakes import FakeClock, FakeSteps

STEPS = 2
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


def recorded(steps: Any, **options: Any) -> tuple[Recording, Any]:
    """What the recorder makes of ``STEPS`` steps, and torch's own profile of them."""
    recorder = KinetoRecorder("cpu", steps.model, **options)
    recorder.start()
    for _ in range(STEPS):
        steps.step()
        recorder.sample()
    recorder.stop()
    return recorder.read(), recorder._profile


@pytest.mark.parametrize("phase", ["inference", "training"])
def test_calls_and_times_agree_with_torch_on_the_same_run(phase: str, open_steps: Open) -> None:
    recording, made = recorded(open_steps(phase))
    names = Counter(event.name for event in made.events() if event.scope == 0)
    found = operator_times(recording.totals(), recording.source, on_device=False)
    not_operators = (MARK, "autograd::engine::")
    assert {one.operator: one.calls for one in found} == {
        name: calls for name, calls in names.items() if not name.startswith(not_operators)
    }
    torchs = {row.key: row for row in made.key_averages()}
    for one in found:
        row = torchs[one.operator]
        assert one.self_host_ns == pytest.approx(row.self_cpu_time_total * 1000, abs=2 * one.calls)
        assert one.host_ns == pytest.approx(row.cpu_time_total * 1000, abs=2 * one.calls)


def test_what_times_has_one_mark_for_a_step(open_steps: Open) -> None:
    recording, made = recorded(open_steps(), described=False)
    marks = [event for event in made.events() if event.name.startswith(MARK)]
    assert len(marks) == STEPS + 1  # one begins when the last is over
    assert not any(event.input_shapes for event in made.events()) and recording.modules == []


@pytest.mark.parametrize("phase", ["inference", "training"])
def test_the_slow_mode_sees_what_torch_profiler_sees(phase: str, open_steps: Open, measure: Measure) -> None:
    """Of torch.profiler's events those that the dispatcher handed on first: neither composite nor inside another.

    Under any dispatch mode autograd adds gradients up with ``add`` instead of ``add_``: their calls are taken together.
    """

    def handed_on(event: Any) -> bool:
        """All overloads of these operators are composite, or none is."""
        overload = getattr(torch.ops.aten, event.name.removeprefix("aten::")).overloads()[0]
        full = event.name if overload == "default" else f"{event.name}.{overload}"
        return not torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd")

    steps, expected = open_steps(phase), Counter[str]()
    with profile(activities=[ProfilerActivity.CPU]) as made:
        for _ in range(STEPS):
            steps.step()
    for event in made.events():
        around, hidden = event.cpu_parent, False
        while around is not None:
            hidden = hidden or (around.name.startswith("aten::") and handed_on(around))
            around = around.cpu_parent
        if event.name.startswith("aten::") and handed_on(event) and not hidden:
            expected[event.name] += 1
    found = measure(OperatorsProbe(slow=True), open_steps(phase), STEPS)
    seen = Counter({one.operator: one.calls for one in found["operators"]})
    for counted in (seen, expected):
        counted["aten::add"] += counted.pop("aten::add_", 0)
    assert seen == expected


def test_modules_are_told_apart(probe: OperatorsProbe, open_steps: Open, measure: Measure) -> None:
    found = measure(probe, open_steps(), STEPS)
    assert found["profiled_steps"] == STEPS and found["fallbacks"] == []
    assert {one.source for one in found["operators"]} == {str(found["readings"][0].values["source"])}
    forward = {one.module: one for one in found["modules"] if one.phase == "forward"}
    backward = {one.module: one for one in found["modules"] if one.phase == "backward"}
    calls = {"": 2, "block": 4, "block.inner": 4, "block.inner.0": 4, "block.inner.1": 4, "block.norm": 4, "head": 2}
    assert {path: one.calls for path, one in forward.items()} == calls
    assert {path: one.calls for path, one in backward.items()} == calls
    assert forward["block.norm"].type == "LayerNorm" and forward[""].type == "Tiny"
    for rows in (forward, backward):
        for path, one in rows.items():
            held = [rows[other].host_ns for other in rows if other and other.rpartition(".")[0] == path != other]
            assert one.host_ns == one.self_host_ns + sum(held) > 0


def test_operators_name_their_modules_and_shapes(probe: OperatorsProbe, open_steps: Open, measure: Measure) -> None:
    found = {one.operator: one for one in measure(probe, open_steps("inference"))["operators"]}
    assert sorted(found["aten::native_layer_norm"].modules) == ["block.norm"]
    assert sorted(found["aten::addmm"].modules) == ["block.inner.0", "head"]
    assert sorted(found["aten::addmm"].shapes) == ["[32] [16, 32] [32, 32]", "[4] [16, 32] [32, 4]"]


def test_times_are_of_steps_without_shapes_and_marks(open_steps: Open, measure: Measure) -> None:
    class Changes(torch.nn.Module):
        """Another operator after the first call and the steps with shapes and marks."""

        calls = 0

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return (inputs.sin() if self.calls <= 1 + probe_steps else inputs.cos()).exp()

    probe_steps = 3
    found = measure(OperatorsProbe(slow=False), open_steps("inference", Changes), 2 * probe_steps)
    times = {one.operator: one for one in found["operators"]}
    assert found["profiled_steps"] == 3 and sorted(times) == ["aten::cos", "aten::exp"]
    assert times["aten::exp"].shapes == ["[16, 32]"] and times["aten::exp"].modules == [""]
    assert times["aten::exp"].calls == times["aten::cos"].calls == 3
    assert "aten::sin" in found["trace"].names and "aten::cos" not in found["trace"].names


def names(trace: Trace, category: str) -> list[str]:
    return [
        trace.names[name]
        for name, place in zip(trace.name, trace.category, strict=True)
        if trace.categories[place] == category
    ]


def test_steps_and_phases_of_the_trace(probe: OperatorsProbe, open_steps: Open, measure: Measure) -> None:
    trace = measure(probe, open_steps(grad_accum=2), STEPS)["trace"]
    assert names(trace, "step") == ["ProfilerStep#0", "ProfilerStep#1"]
    assert names(trace, "phase") == ["forward", "backward", "forward", "backward", "optimizer"] * STEPS
    assert names(measure(probe, open_steps("inference"))["trace"], "phase") == ["forward"] * 2
    assert trace.start_ns[0] == 0 and trace.start_ns == sorted(trace.start_ns) and trace.truncated == 0
    ends: dict[int, list[int]] = {}  # events of a thread nest
    for track, start, spent in zip(trace.track, trace.start_ns, trace.duration_ns, strict=True):
        open_ends = ends.setdefault(track, [])
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or start + spent <= open_ends[-1]
        open_ends.append(start + spent)


def test_a_node_has_the_number_of_its_operator(probe: OperatorsProbe, open_steps: Open, measure: Measure) -> None:
    trace = measure(probe, open_steps())["trace"]
    passes: dict[bool, set[str]] = {True: set(), False: set()}
    for name, detail in zip(trace.name, trace.detail, strict=True):
        if detail >= 0 and "sequence" in trace.details[detail]:
            of = trace.names[name]
            backward = "pass" in trace.details[detail]
            if backward or of == "aten::native_layer_norm":
                passes[backward].add(trace.details[detail]["sequence"])
    assert passes[False] and passes[False] <= passes[True]


class Fails(torch.nn.Module):
    """Raises in an inner module after some calls."""

    def __init__(self, error: BaseException, after: int) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(32, 32)
        self.error, self.left = error, after
        self.inner.register_forward_hook(self.count)

    def count(self, *_: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise self.error

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.inner(inputs)


@pytest.mark.parametrize("error", [RuntimeError("out of luck"), KeyboardInterrupt()], ids=["error", "ctrl-c"])
def test_a_step_that_raises_leaves_those_before(probe: OperatorsProbe, error: BaseException, open_steps: Open) -> None:
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


def test_no_whole_step_gives_nothing(probe: OperatorsProbe, open_steps: Open, measure: Measure) -> None:
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


def test_steps_without_a_model_or_operators(probe: OperatorsProbe, open_steps: Open, measure: Measure) -> None:
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
