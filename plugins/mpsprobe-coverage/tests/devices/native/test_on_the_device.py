"""What the native device records besides a verdict, and what torch answers about MPS while it is open and after that.

In one process of their own: the device can be opened only before torch has looked for MPS. It runs this file as a
script, which calls each function that it is asked for.
"""

from __future__ import annotations

import atexit
import copy
import io
import pickle
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from typing import Any
from unittest.mock import patch

import pytest
import torch

from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from tests.asked import Child, answer, child_of

HERE = torch.device("mps", 0)
attention = torch.nn.functional.scaled_dot_product_attention


def on(release: str = "2.13.0", lines: bool = False) -> NativeDevice:
    return NativeDevice(Chain(load_table(release)), lines=lines)


def calls(device: NativeDevice) -> dict[str, int]:
    device.finish()
    totals: Counter[str] = Counter()
    for call in device.recorder.calls():
        if call.operator in ("aten::exp", "aten::cos", "aten::sin"):
            totals[call.operator] += call.calls
    return dict(totals)


def said(call: Callable[[], Any]) -> str:
    try:
        return type(call()).__name__
    except (RuntimeError, TypeError) as error:
        return str(error)


def advisories_are_counted() -> None:
    with on("2.12.0") as device:
        q = torch.zeros(1, 4, 16, 64, device="mps", dtype=torch.float16)
        for causal in (True, True, False):
            attention(q, q, q, is_causal=causal)
        device.finish()
    assert [(a.advisory, a.calls) for a in device.recorder.advisories()] == [("attention-causal-half", 2)]


def the_derivative_of_a_fallback_is_one_call() -> None:
    with on() as device:
        matrix = torch.rand(4, 3, device="mps", requires_grad=True)
        values = torch.linalg.svd(matrix, full_matrices=False)[1]
        for _ in range(2):
            values.sum().backward(retain_graph=True)
        device.finish()

    def shapes(specs: Any) -> list[tuple[int, ...]]:
        return [tuple(one.shape) for one in specs]

    found = [one for one in device.recorder.calls() if one.operator == "aten::linalg_svd"]
    wanted = [("forward", 1, [(4, 3), (3,), (3, 3)]), ("backward", 2, [(4, 3)])]
    assert [(one.phase, one.calls, shapes(one.outputs)) for one in found] == wanted
    copies = [one for one in device.recorder.calls() if (one.operator, one.phase) == ("aten::copy_", "backward")]
    assert [(3,), (3,)] not in [shapes(one.inputs) for one in copies], "they belong to it"


def inference_mode_on_an_older_release() -> None:
    with on("2.4.0") as device, torch.inference_mode():
        q = torch.rand(1, 2, 3, 4, device="mps")
        view = q.view(2, 3, 4)
        assert attention(q, q, q).is_inference() and view.is_inference()
        device.finish()
    found = {one.operator for one in device.recorder.calls()}
    assert "aten::_softmax" in found and "aten::isneginf" not in found, "2.4 has no safe softmax"


def phases_are_those_of_the_thread_also_without_lines() -> None:
    class Optimizer(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            thread = threading.Thread(target=lambda: weight.exp())
            thread.start()
            thread.join()
            super().step(closure)

    with on() as device:
        weight = torch.ones(3, device="mps", requires_grad=True)
        Optimizer([weight], lr=0.1).step(lambda: weight.cos().sum().backward())
        device.finish()
    phases = {one.operator[6:]: one.phase for one in device.recorder.calls()}
    found = [phases[name] for name in ("exp", "cos", "sin", "add_.Tensor")]
    assert (found, torch.ops.mpsprobe.threads()) == (["forward", "forward", "backward", "optimizer"], 2)


def nodes_of_one_number_are_known_by_their_thread() -> None:
    together = threading.Barrier(2)

    def work(cos: bool) -> None:
        x = torch.ones(3, device="mps", requires_grad=True)
        if cos:
            y = x.cos()
        else:
            y = x.sin()
        together.wait()
        y.sum().backward()

    with on(lines=True) as device:
        device.attribution.follow_program(print)
        both = [threading.Thread(target=work, args=(cos,)) for cos in (True, False)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        device.finish()
    first = work.__code__.co_firstlineno
    backward = [one for one in device.recorder.calls() if one.phase == "backward"]
    found = {one.operator: one.origin.line - first for one in backward if one.operator in ("aten::sin", "aten::cos")}
    assert found == {"aten::sin": 3, "aten::cos": 5}


def no_call_is_lost_when_counts_are_taken_meanwhile() -> None:
    with on() as device:
        started, taken = threading.Event(), threading.Event()
        own = device._recording._judge_call

        def judge_call(name: str, *rest: Any) -> Any:
            slot = own(name, *rest)
            if name == "aten::exp":
                started.set()
                taken.wait(30)
            return slot

        device._recording._judge_call = judge_call
        x = torch.ones(3, device="mps")
        device.finish()
        thread = threading.Thread(target=x.exp)
        thread.start()
        assert started.wait(30)
        x.cos()
        device.finish()
        x.sin()
        taken.set()
        thread.join()
        assert calls(device) == {"aten::cos": 1, "aten::exp": 1, "aten::sin": 1}


def ctrl_c_during_a_question_ends_the_program() -> None:
    with on(lines=True) as device:
        x, own = torch.ones(3, device="mps"), device.attribution.current

        def current() -> None:
            device.attribution.current = own
            raise KeyboardInterrupt

        device.attribution.current = current
        with pytest.raises(KeyboardInterrupt):
            x.exp()
        x.exp()
        assert calls(device) == {"aten::exp": 2}


def python_waits_for_the_thread_of_autograd() -> None:
    with patch.object(atexit, "register") as register, on():
        x, begun, ended = torch.ones(3, device="mps", requires_grad=True), threading.Event(), threading.Event()

        def slow(_: Any) -> None:
            begun.set()
            time.sleep(0.3)
            ended.set()

        y = x * 2
        y.register_hook(slow)
        thread = threading.Thread(target=y.sum().backward)
        thread.start()
        begun.wait()
        register.call_args.args[0]()
        assert ended.is_set()
        thread.join()


def mps_is_there_until_the_device_closes() -> None:
    with on():
        assert torch.backends.mps.is_built() and platform.processor() == "arm"
        assert torch.backends.mps.is_available() and torch.mps.is_available() and torch.mps.device_count() == 1
    assert not torch.backends.mps.is_built() and platform.processor() != "arm"
    assert "Storage device not recognized" in said(lambda: torch.UntypedStorage(8, device="mps"))


def figures_of_memory_follow_what_is_taken_and_given_back() -> None:
    with on():
        before = torch.mps.current_allocated_memory()
        torch.accelerator.reset_peak_memory_stats()
        taken = torch.empty(1000, device=HERE)
        during = torch.mps.current_allocated_memory(), torch.accelerator.memory_allocated()
        assert during == (before + 4000, before + 4000)
        del taken
        torch.mps.set_per_process_memory_fraction(0.5)
        torch.mps.empty_cache()
        torch.accelerator.empty_cache()
        free, total = torch.accelerator.get_memory_info()
        assert torch.mps.current_allocated_memory() == before
        assert torch.accelerator.max_memory_allocated() == before + 4000
        assert free <= total == torch.mps.recommended_max_memory()


def each_kind_of_event_and_the_one_stream() -> None:
    with on():
        for kind in (torch.mps.Event, lambda enable_timing: torch.Event(HERE, enable_timing=enable_timing)):
            start, end = kind(enable_timing=True), kind(enable_timing=True)
            start.record()
            torch.ones(3, device=HERE).sum()
            end.record()
            end.synchronize()
            assert end.query() and 0 <= start.elapsed_time(end) < 60_000, kind
        torch.mps.synchronize()
        torch.accelerator.synchronize()
        assert str(torch.accelerator.current_accelerator()) == "mps"
        assert str(torch.Stream(HERE)) == "torch.Stream device_type=mps, device_index=0, stream_id=0"


def storages_by_themselves_saved_loaded_copied_pickled_and_pinned() -> None:
    with on():
        tensor, buffer = torch.arange(3.0, device=HERE), io.BytesIO()
        torch.save({"here": tensor, "there": tensor.cpu()}, buffer)
        for where, devices in {None: ["mps:0", "cpu"], "cpu": ["cpu", "cpu"], "mps": ["mps:0", "mps:0"]}.items():
            buffer.seek(0)
            loaded = torch.load(buffer, map_location=where, weights_only=True)
            assert [str(one.device) for one in loaded.values()] == devices, where
        made = torch.UntypedStorage([1, 2], device="mps")
        assert made.tolist() == [1, 2] and type(torch.UntypedStorage(8, device="mps")) is torch.UntypedStorage
        copied = copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor)), tensor.cpu().untyped_storage().mps()
        assert {one.device for one in (made, *copied)} == {HERE}
        assert torch.ones(2).pin_memory().is_pinned() and not torch.ones(2).is_pinned()


def random_numbers_are_those_of_the_cpu() -> None:
    with on():
        torch.manual_seed(3)
        here = torch.rand(4, device=HERE).tolist()
        state = torch.mps.get_rng_state()
        first = torch.rand(1, device=HERE).item()
        torch.mps.set_rng_state(state)
        with torch.random.fork_rng(device_type="mps"):
            torch.rand(5, device=HERE)
        torch.manual_seed(3)
        generator = torch.Generator("mps").manual_seed(3)
        assert here == torch.rand(4).tolist() == torch.rand(4, device=HERE, generator=generator).tolist()
        assert first == torch.rand(1).item() and generator.device == HERE


def sparse_tensors_and_gradients() -> None:
    """torch 2.13 has no compressed ones on MPS, on a Mac either."""
    with on():
        rows = torch.nn.Embedding(4, 2, sparse=True, device=HERE)
        rows(torch.tensor([1, 1, 2], device=HERE)).sum().backward()
        eye, gradient = torch.eye(2, device=HERE), rows.weight.grad
        assert gradient is not None and gradient.coalesce().values().tolist() == [[2.0, 2.0], [1.0, 1.0]]
        assert (eye.to_sparse() @ eye).tolist() == [[1.0, 0.0], [0.0, 1.0]]
        assert (eye.to_sparse() * 2).to_dense().tolist() == [[2.0, 0.0], [0.0, 2.0]]
        assert gradient.device == eye.to_sparse().device == HERE


def a_step_in_half_precision_that_is_scaled() -> None:
    with on():
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 2)).to(HERE)
        optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("mps")
        with torch.autocast("mps", dtype=torch.float16):
            found = model(torch.ones(2, 3, 4, 4, device=HERE))
            scaler.scale(found.float().square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert (found.dtype, scaler.get_scale()) == (torch.float16, 65536.0)
        assert {one.grad.dtype for one in model.parameters() if one.grad is not None} == {torch.float32}


def what_only_a_mac_can_do_is_said() -> None:
    with on(), redirect_stderr(io.StringIO()) as errors:
        for _ in range(2):
            assert torch.compile(torch.sin)(torch.zeros(2, device=HERE)).tolist() == [0.0, 0.0]
        assert errors.getvalue().count("torch.compile makes Metal shaders on a Mac") == 1
        assert "--device mps on a Mac" in said(lambda: torch.mps.load_metallib(b""))
        assert "Use Tensor.cpu()" in said(lambda: torch.ones(1, device=HERE).numpy())


ASKED = [
    advisories_are_counted, the_derivative_of_a_fallback_is_one_call, inference_mode_on_an_older_release,
    phases_are_those_of_the_thread_also_without_lines, nodes_of_one_number_are_known_by_their_thread,
    no_call_is_lost_when_counts_are_taken_meanwhile, ctrl_c_during_a_question_ends_the_program,
    python_waits_for_the_thread_of_autograd, mps_is_there_until_the_device_closes,
    figures_of_memory_follow_what_is_taken_and_given_back, each_kind_of_event_and_the_one_stream,
    storages_by_themselves_saved_loaded_copied_pickled_and_pinned, random_numbers_are_those_of_the_cpu,
    sparse_tensors_and_gradients, a_step_in_half_precision_that_is_scaled, what_only_a_mac_can_do_is_said,
]  # fmt: skip


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with child_of(__file__) as process:
        yield process


@pytest.mark.parametrize("name", [one.__name__ for one in ASKED])
def test_there(name: str, child: Child) -> None:
    child(name)


if __name__ == "__main__":
    answer(ASKED)
