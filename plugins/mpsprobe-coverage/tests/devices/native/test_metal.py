"""Metal kernels on this machine: those of ``torch.compile`` agree with the CPU, and what is wrong in one is found."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from mpsprobe_coverage.devices.metal.running import Fault, Library
from mpsprobe_coverage.devices.metal.translating import Unknown, translated
from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.devices.native.inductor import Generated
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.verifying.kernels import Kernels
from tests.asked import Child, answer, child_of

F = torch.nn.functional
CLOSE = {torch.float32: (1e-4, 1e-4), torch.float16: (2e-2, 1e-2), torch.bfloat16: (6e-2, 5e-2)}
"""Absolute and relative, by dtype; those of PyTorch's test_mps.py for half precision."""
INDICES = torch.tensor([3, 0, 3, 8, 1, 3])
FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "erf": torch.erf,
    "softmax of a group": lambda x: torch.softmax(x, -1),
    "softmax of several turns": lambda x: torch.softmax(torch.cat([x] * 30, 1), -1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "variance of several turns": lambda x: torch.cat([x] * 30, 1).var(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "sum of all": lambda x: (x[:, None] - x[None]).sum((1, 2)),
    "gathered": lambda x: x[INDICES.to(x.device)] * 2,
    "added at indices": lambda x: torch.zeros_like(x).index_add(0, INDICES.to(x.device), x[:6]),
    "amax": lambda x: x.amax(0),
    "padded": lambda x: F.pad(x, (1, 2)).exp(),
}
NOT_DIFFERENTIATED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "argmax": lambda x: x.argmax(-1),
    "integers": lambda x: (x.float() * 9).long().sum(-1) // 3,
    "any": lambda x: (x > 1.5).any(-1),
}


def on(*, compiles: bool = False, kernels: Kernels | None = None) -> NativeDevice:
    chain = Chain(load_table("2.13.0"))
    return NativeDevice(chain, lines=False, keep_going=False, shader=kernels or (Kernels() if compiles else None))


def compiled(dtype: torch.dtype) -> None:
    device = on(compiles=True)  # before a backward pass on the CPU, which looks for MPS too
    inputs = torch.randn(9, 40).to(dtype)
    absolute, relative = CLOSE[dtype]

    def run(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {name: function(x) for name, function in {**FUNCTIONS, **NOT_DIFFERENTIATED}.items()}

    def grown(kind: str, function: Callable[..., Any]) -> dict[str, torch.Tensor]:
        x = inputs.to(kind).requires_grad_()
        found = function(x)
        [found["gradient"]] = torch.autograd.grad([found[name].float().square().sum() for name in FUNCTIONS], x)
        return {name: one.detach().cpu() for name, one in found.items()}

    expected = grown("cpu", run)
    torch._dynamo.reset()
    with device:
        found = grown("mps", torch.compile(run, fullgraph=True, dynamic=False))
        assert device.generated is not None
        assert len(device.generated.kernels) > len(FUNCTIONS) and not device.generated.refused
        launched = device.shader.launched.values()
        assert not [one.faults for one in launched if one.faults]
        assert sum(bool(one.compared) for one in launched) > len(launched) * 0.7
    scale = expected["gradient"].abs().max().item()
    torch.testing.assert_close(
        found.pop("gradient"), expected.pop("gradient"), atol=absolute * scale, rtol=relative, msg="gradient"
    )
    for name, one in found.items():
        torch.testing.assert_close(one, expected[name], atol=absolute, rtol=relative, msg=name)


def compiled_in_float32() -> None:
    compiled(torch.float32)


def compiled_in_float16() -> None:
    compiled(torch.float16)


def compiled_in_bfloat16() -> None:
    compiled(torch.bfloat16)


def random_numbers_are_those_of_the_headers() -> None:
    with on(compiles=True):
        drawn = torch.compile(lambda: torch.rand(4096, device="mps"))().cpu()
    assert 0.45 < drawn.mean() < 0.55 and drawn.min() >= 0 and drawn.max() < 1 and len({*drawn.tolist()}) > 4000


CHANGED = [
    (
        lambda x: torch.softmax(x * 3, -1),
        r"= (\w*in_ptr0\[)([^\]]+)\]",
        r"= \1metal::max(long(\2) - 1, 0L)]",
        "is wrong in",
    ),
    (lambda x: x.relu() + x, r"(out_ptr0\[)(\w+)\] =", r"\1\2 + 1] =", "out_ptr0[360] is outside its tensor"),
    (lambda x: torch.cat([x] * 30, 1).var(-1), r"(r\w+ < )(\d+)", r"\g<1>7", "is wrong in"),
]


class Changed(Kernels):
    """What Inductor generates, with a mistake in it."""

    pattern = replacement = ""

    def __call__(self, generated: Generated, source: str) -> Any:
        headers, kernel, body = source.partition("kernel void")
        return super().__call__(generated, headers + kernel + re.sub(self.pattern, self.replacement, body, count=1))


def a_mistake_in_a_generated_kernel_is_found() -> None:
    kernels = Changed()
    with on(kernels=kernels):
        for function, kernels.pattern, kernels.replacement, said in CHANGED:
            torch._dynamo.reset()
            kernels.launched.clear()
            torch.compile(function, fullgraph=True, dynamic=False)(torch.randn(9, 40).to("mps"))
            assert any(said in one for of in kernels.launched.values() for one in of.faults), said


def numbers_that_all_threads_update_are_a_race_and_read_as_they_were_before() -> None:
    kernels = Kernels()
    norm, inputs = torch.nn.BatchNorm1d(4), torch.randn(2, 4, 700)
    with on(kernels=kernels):
        torch._dynamo.reset()
        there = copy.deepcopy(norm).to("mps")
        run = torch.compile(there)
        for _ in range(2):  # the second launch is not compared
            run(inputs.to("mps"))
            norm(inputs)
        faults = [text for one in kernels.launched.values() for text in one.faults]
        torch.testing.assert_close(there.running_mean.cpu(), norm.running_mean)
        torch.testing.assert_close(there.running_var.cpu(), norm.running_var)
    assert len(faults) == 2 and all("depends on the order in which threads run" in text for text in faults)


OUTSIDE = "out[i + {by}] = a[i] * 2.0;"
KERNEL = "kernel void f(device float* out, constant float* a, uint i [[thread_position_in_grid]]) {{ {body} }}"


def an_index_outside_its_tensor_is_found() -> None:
    with on() as device:
        given = torch.arange(8.0, device="mps")
        for by, said in ((0, []), (1, ["out[8] is outside its tensor, in thread (7, 0, 0)"])):
            out = torch.zeros(8, device="mps")
            torch.mps.compile_shader(KERNEL.format(body=OUTSIDE.format(by=by))).f(out, given)
            assert out[by:].tolist() == [2.0 * one for one in range(8 - by)]
            assert [fault.text for fault in device.faults] == said


def an_atomic_outside_its_tensor_is_found() -> None:
    source = """
    #include <metal_stdlib>
    using namespace metal;
    kernel void count(device atomic_int* out, constant int* bins, uint i [[thread_position_in_grid]]) {
      atomic_fetch_add_explicit(out + bins[i], 1, memory_order_relaxed);
    }"""
    with on() as device:
        out, library = torch.zeros(4, dtype=torch.int32, device="mps"), torch.mps.compile_shader(source)
        library.count(out, torch.tensor([0, 3, 3, 1], dtype=torch.int32, device="mps"))
        assert out.tolist() == [1, 1, 0, 2] and device.faults == []
        library.count(out, torch.tensor([0, 5, 3, 1], dtype=torch.int32, device="mps"))
        assert out.tolist() == [2, 2, 0, 3] and ["out[20]" in one.text for one in device.faults] == [True]


SUMMED = """
kernel void summed(device float* out, constant float* a, constant long& size,
                   uint i [[thread_position_in_threadgroup]], uint group [[threadgroup_position_in_grid]]) {{
  threadgroup float parts[32];
  float own = metal::simd_sum(i < size ? a[group * size + i] : 0.0);
  if (i % 32 == 0) parts[i / 32] = own;
  {barrier}
  if (i == 0) {{
    float all = 0;
    for (uint part = 0; part < {parts}; ++part) all += parts[part];
    out[group] = all;
  }}
}}"""


def lanes_wait_at_a_barrier_and_a_race_shows_in_another_order() -> None:
    barrier = "threadgroup_barrier(metal::mem_flags::mem_threadgroup);"
    with on():
        given = torch.arange(2.0 * 100, device="mps")
        expected = given.view(2, 100).sum(1).tolist()
        for text, orders in ((barrier, [True, True]), ("", [False, True])):
            kernel = torch.mps.compile_shader(SUMMED.format(barrier=text, parts=4)).summed
            same = []
            for backwards in (False, True):
                out = torch.full((2,), -1.0, device="mps")
                kernel(out, given, 100, threads=256, group_size=128, backwards=backwards)
                same.append(out.tolist() == expected)
            assert same == orders


ALIKE = """
float threadgroup_welford_sum(threadgroup float* data, unsigned size) {
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  float sum = 0;
  for (unsigned at = 0; at < size; ++at) sum += data[at];
  threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return sum;
}
kernel void f(device float* out, constant float* a, uint i [[thread_position_in_grid]]) {
  threadgroup float all[64];
  all[i % 64] = a[i];
  out[i] = threadgroup_welford_sum(all, 64);
}"""


def what_all_lanes_compute_alike_is_computed_once() -> None:
    given, out = torch.arange(128.0), torch.zeros(128)
    Library(ALIKE, print, most_steps=2 * 64).f(out, given, threads=128, group_size=64)
    assert out.tolist() == [float(given[:64].sum())] * 64 + [float(given[64:].sum())] * 64


def a_kernel_that_never_ends_is_stopped() -> None:
    faults: list[Fault] = []
    out = torch.zeros(4)
    bodies = ("while (a[i] > -1) out[i] += 1;", "do { out[i] += 1; } while (true);", "EVER out[i] = 1;", "wait();")
    helping = "\n#define EVER for (;;)\nvoid wait() { /* for (it) */ for (volatile int k = 0; k < 9;) k = 1; }\n"
    for body in bodies:
        with pytest.raises(RuntimeError, match="the kernel f does not end: stopped after 1000 turns"):
            Library(helping + KERNEL.format(body=body), faults.append, most_steps=1000).f(out, torch.zeros(4))
    assert [one.text for one in faults] == ["it does not end"] * 4
    Library(KERNEL.format(body="for (int k = 0; k < 5; ++k) out[i] = k;"), faults.append, most_steps=1000).f(out, out)
    assert out.tolist() == [4.0] * 4 and len(faults) == 4


def what_is_not_known_is_named_with_its_line() -> None:
    for source, said in (
        ("\nkernel void f(texture2d<float> t) {}", "line 2: texture2d"),
        ("kernel void f(threadgroup float* shared [[threadgroup(0)]]) {}", "line 1: the parameter 'threadgroup float*"),
        ("kernel void f(device float* a) { ", "line 1: a '{' that nothing closes"),
        ("kernel void f(device float* a);", "line 1: the kernel f without its body"),
        ('// asm\n#  include "/etc/passwd"', 'line 2: # include "/etc/passwd"'),
        ("\nvoid f() { again: goto again; }", "line 2: goto"),
    ):
        with pytest.raises(SyntaxError, match="not known to the Metal of mpsprobe") as raised:
            Library(source, print)
        assert said in str(raised.value)
    with pytest.raises(SyntaxError, match=r"kernels:2:\d+: error: .*nowhere"):
        Library(KERNEL.format(body="\n out[i] = nowhere;"), print)


ASKED = [
    compiled_in_float32, compiled_in_float16, compiled_in_bfloat16, a_mistake_in_a_generated_kernel_is_found,
    numbers_that_all_threads_update_are_a_race_and_read_as_they_were_before,
    random_numbers_are_those_of_the_headers,
    an_index_outside_its_tensor_is_found, an_atomic_outside_its_tensor_is_found,
    lanes_wait_at_a_barrier_and_a_race_shows_in_another_order, a_kernel_that_never_ends_is_stopped,
    what_all_lanes_compute_alike_is_computed_once, what_is_not_known_is_named_with_its_line,
]  # fmt: skip


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with child_of(__file__) as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.__name__ for one in ASKED])
def test_there(name: str, child: Child) -> None:
    child(name)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("x = 1.0;", "x = 1.0f;"),
        ("x = 1e-05 + .5;", "x = 1e-05f + .5f;"),
        ("x = 1.0f + 0x1p3 + a.x1 + 12;", "x = 1.0f + 0x1p3 + a.x1 + 12;"),
        ('s = "1.0"; // 2.0', 's = "1.0";'),
    ],
)
def test_numbers_with_a_point_are_float(written: str, expected: str) -> None:
    assert expected in translated(written).text


def test_a_bracket_that_is_not_closed_is_no_crash() -> None:
    with pytest.raises(Unknown):
        translated("kernel void f(")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answer(ASKED)
