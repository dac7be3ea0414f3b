"""Tensors that are not dense, and operators that no table covers: a verdict under their own keys, and never a crash."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from expectations import TORCH_2_6, called, in_backward
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.tensor import VirtualTensor, spec_of
from mpsprobe_coverage.knowledge.kernels.mps import load_table


@pytest.fixture(autouse=True)
def _no_beta_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Ss]parse")
        yield


MAKE: dict[str, Callable[[], torch.Tensor]] = {
    "coo": lambda: torch.eye(4).to_sparse(),
    "coo with dense dims": lambda: torch.ones(3, 4, 2).to_sparse(2),
    "csr": lambda: torch.eye(4).to_sparse_csr(),
    "csc": lambda: torch.eye(4).to_sparse_csc(),
    "bsr": lambda: torch.eye(4).to_sparse_bsr((2, 2)),
    "bsc": lambda: torch.eye(4).to_sparse_bsc((2, 1)),
    "batched csr": lambda: torch.eye(4).expand(3, 4, 4).to_sparse_csr(),
}


@pytest.mark.parametrize("name", MAKE)
def test_a_sparse_tensor_keeps_its_layout(device: VirtualDevice, name: str) -> None:
    real = MAKE[name]()
    for moved in (device.move(real), real.to("mps")):
        back = moved.cpu()
        assert len({(one.layout, one.shape, one.dtype) for one in (real, moved, back)}) == 1
        assert (moved.device.type, back.device.type) == ("mps", "cpu")
        assert spec_of(moved) is spec_of(real) and type(moved.detach()) is type(moved)


@pytest.mark.parametrize(
    ("release", "name", "verdict"),
    [("2.8.0", "coo", "unsupported"), ("2.13.0", "coo", "native"), ("2.8.0", "csr", "unsupported")],
)
def test_moving_one_needs_the_sparse_key(release: str, name: str, verdict: str) -> None:
    real = MAKE[name]()
    with VirtualDevice(load_table(release)) as device, device.recording("forward"):
        real.to("mps")
    assert [(r.operator, r.judgement.verdict) for r in device.recorder.calls()] == [("aten::copy_", verdict)]


CALLS: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    # name: (a call with a sparse and a dense matrix, verdict and operator with COO, the same with CSR)
    "mm": (lambda s, d: torch.mm(s, d), "native:mm", "unsupported:mm.out"),
    "abs": (lambda s, d: s.abs(), "native:abs", "native:abs"),
    "sin": (lambda s, d: s.sin(), "native:sin", "unsupported:sin"),
    "dense": (lambda s, d: s.to_dense(), "native:_to_dense", "native:_to_dense"),
    "sum": (lambda s, d: s.sum(), "native:sum", "unsupported:sum.IntList_out"),
}


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_operators_are_judged_under_the_key_of_the_layout(device: VirtualDevice, layout: str) -> None:
    """The registrations of 2.13.0 under SparseMPS and SparseCsrMPS (``kernels show``)."""
    real, dense = MAKE[layout](), torch.ones(4, 4)
    for name, (run, with_coo, with_csr) in CALLS.items():
        with device.recording(name):
            made = run(device.move(real), device.move(dense))
        assert (made.layout, made.shape) == (run(real, dense).layout, run(real, dense).shape)
        verdict, _, operator = (with_coo if layout == "coo" else with_csr).partition(":")
        assert f"{verdict}:aten::{operator}" in called(device.recorder, name)
    with device.recording("dense"):  # after sparse ones
        torch.ones(4, 4, device="mps").sin()
    assert called(device.recorder, "dense")["native:aten::sin"] == 1


def test_what_has_no_kernel_is_recorded_also_if_it_raises(device: VirtualDevice) -> None:
    sparse, dense = device.move(torch.eye(4).to_sparse_csr()), device.move(torch.ones(4, 4))
    with device.recording("forward"):
        assert torch.sparse.sampled_addmm(sparse, dense, dense).layout is torch.sparse_csr
        with pytest.raises(NotImplementedError):
            torch.ones_like(device.move(torch.eye(4).to_sparse()))
    seen = called(device.recorder, "forward")
    assert seen["unsupported:aten::sparse_sampled_addmm"] == seen["unsupported:aten::fill_.Scalar"] == 1


@pytest.mark.parametrize(("release", "verdict"), [("2.6.0", "unsupported"), ("2.13.0", "native")])
def test_a_sparse_gradient_is_made_under_the_sparse_key(release: str, verdict: str) -> None:
    """``_sparse_coo_tensor_with_dims_and_tensors`` has a SparseMPS kernel from 2.9.0 on, and never one under MPS."""
    with VirtualDevice(load_table(release)) as device:
        table = nn.Embedding(5, 2, sparse=True, device="mps")
        calls = in_backward(device, table(torch.tensor([1, 2], device="mps")).sum())
        assert table.weight.grad is not None and table.weight.grad.layout is torch.sparse_coo
    made = calls[f"{verdict}:aten::_sparse_coo_tensor_with_dims_and_tensors"]
    assert made == (2 if TORCH_2_6 else 1)  # 2.6 copies the gradient by it; later releases clone


def test_an_optimizer_for_sparse_gradients_runs(device: VirtualDevice) -> None:
    table = nn.Embedding(5, 2, sparse=True, device="mps")
    optimizer = torch.optim.SparseAdam(table.parameters())
    table(torch.tensor([1, 2], device="mps")).sum().backward()
    if TORCH_2_6:  # on a Mac too: its legacy constructor does not know the type
        with pytest.raises(RuntimeError, match="Unrecognized tensor type ID: SparseMPS"):
            optimizer.step()
        return
    with device.recording("optimizer"):
        optimizer.step()
    assert called(device.recorder, "optimizer")["native:aten::_coalesce"] == 1


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adagrad])
def test_a_vocabulary_of_real_size_is_not_allocated(device: VirtualDevice, optimizer: Any) -> None:
    """The table of this embedding has 4 GB, its gradient a few rows."""
    with device.construction():
        table = nn.Embedding(250_000, 4096, sparse=True)
    table = device.move(table)
    step = optimizer(table.parameters(), lr=0.1)
    table(torch.tensor([1, 2, 2], device="mps")).sum().backward()
    assert table.weight.grad is not None and spec_of(table.weight.grad).nbytes == 3 * 4096 * 4
    with device.recording("optimizer"):
        step.step()
    assert called(device.recorder, "optimizer")


def test_kernels_that_keep_something_for_their_backward_pass(device: VirtualDevice) -> None:
    """``_sparse_mm_reduce_impl`` keeps the places of maxima only where a gradient is wanted, and reads them after."""
    sparse, dense = torch.eye(4).to_sparse_csr(), torch.ones(4, 3)
    for wanted in (False, True):
        given = device.move(sparse.detach().requires_grad_(wanted)), device.move(dense.clone().requires_grad_(wanted))
        made = torch.sparse.mm(*given, "amax")
        assert tuple(made.shape) == (4, 3)
        if wanted:
            found = torch.autograd.grad(made.sum(), given)
            assert [(g.layout, tuple(g.shape)) for g in found] == [(torch.sparse_csr, (4, 4)), (torch.strided, (4, 3))]


class _Quantized(torch.Tensor):
    """Whole numbers with a scale, as libraries for quantization make them."""

    @staticmethod
    def __new__(cls, values: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=scale.dtype, device=values.device)

    def __init__(self, values: torch.Tensor, scale: torch.Tensor) -> None:
        self.whole, self.scale = values, scale

    def __tensor_flatten__(self) -> Any:
        return ["whole", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return _Quantized(inner["whole"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].whole, args[0].scale)
        args = [a.whole.to(a.scale.dtype) * a.scale if isinstance(a, cls) else a for a in args]
        return func(*args, **kwargs or {})


def test_a_parameter_that_holds_others_is_judged_by_what_it_calls(device: VirtualDevice) -> None:
    layer = nn.Linear(4, 5)
    layer.weight = nn.Parameter(_Quantized(torch.ones(5, 4, dtype=torch.int8), torch.ones(5, 1)), requires_grad=False)
    moved = device.move(layer)
    assert type(moved.weight) is _Quantized and isinstance(moved.weight, nn.Parameter)
    assert type(moved.weight.whole) is VirtualTensor
    for number, training in enumerate((False, True), 1):
        x = torch.ones(3, 4, device="mps", requires_grad=training)
        with device.recording("forward"):
            made = moved(x)
        seen = called(device.recorder, "forward")
        assert (seen["native:aten::mul.Tensor"], seen["native:aten::linear"]) == (number, number)
    made.sum().backward()
    assert x.grad is not None and tuple(x.grad.shape) == (3, 4)


@pytest.mark.parametrize("made_there", [False, True])
def test_a_jagged_tensor_is_judged_by_the_operators_on_its_values(device: VirtualDevice, made_there: bool) -> None:
    rows = [torch.ones(3, 4), torch.ones(2, 4)]
    layer = device.move(nn.Linear(4, 5))
    if made_there:
        nested = torch.nested.nested_tensor(device.move(rows), layout=torch.jagged)
    else:
        nested = device.move(torch.nested.nested_tensor(rows, layout=torch.jagged))
    with device.recording("forward"):
        made = layer(nested * 2)
        padded = torch.nested.to_padded_tensor(made, 0.0)
    assert type(made.values()) is VirtualTensor and tuple(padded.shape) == (2, 3, 5)
    seen = called(device.recorder, "forward")
    assert (seen["native:aten::linear"], seen["missing:aten::_jagged_to_padded_dense_forward"]) == (1, 1)
    made.values().sum().backward()
    assert tuple(layer.weight.grad.shape) == (5, 4)


@pytest.fixture
def operator() -> Iterator[Callable[..., Any]]:
    """Makes an operator of a library that no table covers, as a user's extension registers it."""
    made: list[Any] = []

    def make(name: str, kernel: Callable[..., Any], types: str | None, sized_by_values: bool = False) -> Any:
        def fake(x: torch.Tensor) -> torch.Tensor:
            return x.new_empty(torch.library.get_ctx().new_dynamic_size()) if sized_by_values else torch.empty_like(x)

        schema, name = "(Tensor x) -> Tensor", f"mpsprobe_tests::{name}"
        one = torch.library.custom_op(name, kernel, mutates_args=(), device_types=types, schema=schema)
        one.register_fake(fake)
        made.append(one)
        return one

    yield make
    for one in made:
        one._lib._destroy()


def test_a_kernel_for_another_device_only_is_not_judged(device: VirtualDevice, operator: Any) -> None:
    scaled = operator("scaled_cuda", lambda x: x * 2, "cuda")
    with device.recording("forward"):
        result = scaled(torch.ones(3, device="mps"))
    assert tuple(result.shape) == (3,) and result.device.type == "mps"
    assert called(device.recorder, "forward") == {"unknown:mpsprobe_tests::scaled_cuda": 1}
    (note,) = device.recorder.not_judged()
    assert note.operator == "mpsprobe_tests::scaled_cuda" and "no kernel table covers" in note.text
    assert note.origin.file == __file__


def test_an_operator_whose_size_depends_on_values_runs_on_the_known_ones(device: VirtualDevice, operator: Any) -> None:
    """Another library's operator carries no tag that says so, and its meta kernel refuses (``torchvision::nms``)."""
    positive = operator("positive", lambda x: x[x > 0], "cpu", sized_by_values=True)
    with device.recording("forward"):
        found = [positive(torch.tensor([first, -1.0, 2.0], device="mps")).tolist() for first in (1.0, -1.0)]
    assert found == [[1.0, 2.0], [2.0]]
    assert called(device.recorder, "forward")["unknown:mpsprobe_tests::positive"] == 2


def test_a_large_call_of_another_library_is_tried_on_few_elements(device: VirtualDevice, operator: Any) -> None:
    """It may compare each with each: ``torchvision::nms`` of 90,000 boxes takes half a minute."""
    seen: list[int] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.shape[0])
        return x.clone()

    with device.recording("forward"):
        result = operator("kept", kernel, "cpu", sized_by_values=True)(torch.rand(90_000, 4, device="mps"))
    assert result.shape == (90_000, 4) and 0 < max(seen) < 100


def test_a_kernel_for_all_devices_is_judged_by_what_it_calls(device: VirtualDevice, operator: Any) -> None:
    # Without device types the Python function is a CompositeExplicitAutograd kernel, which serves MPS too.
    scaled = operator("scaled_everywhere", lambda x: x * 2, None)
    with device.recording("forward"):
        scaled(torch.ones(3, device="mps"))
    assert called(device.recorder, "forward") == {"native:aten::mul.Tensor": 1}


def test_cond_runs_the_branch_that_is_taken(device: VirtualDevice) -> None:
    x = torch.ones(3, device="mps")
    if TORCH_2_6:  # it asks no mode
        with pytest.raises(NotImplementedError, match="no rule registered"):
            torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        return
    with device.recording("forward"):
        result = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
    assert tuple(result.shape) == (3,)
    seen = called(device.recorder, "forward")
    assert seen["native:aten::sin"] == 1 and not seen["native:aten::cos"]
    assert not any("higher_order" in r.operator for r in device.recorder.calls())


def test_flex_attention_is_judged_by_its_pieces(device: VirtualDevice) -> None:
    q = torch.rand(1, 2, 16, 8, device="mps")
    if TORCH_2_6:  # on a Mac too
        with pytest.raises(ValueError, match="only supported on CUDA or CPU"):
            flex_attention(q, q, q)
        return
    with device.recording("forward"), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is slow without torch.compile
        result = flex_attention(q, q, q)
    assert result.shape == q.shape
    assert any("flex_attention" in note.operator for note in device.recorder.not_judged())


def test_a_compiled_model_is_judged_by_its_operators(device: VirtualDevice) -> None:
    model, x = torch.compile(device.move(torch.nn.Linear(4, 2))), torch.rand(3, 4, device="mps")
    with device.recording("forward"):
        model(x)
    assert called(device.recorder, "forward") == {"native:aten::linear": 1}


def test_an_operator_that_the_release_does_not_know_is_not_native() -> None:
    with VirtualDevice(load_table("1.12.1")) as device, device.recording("forward"):
        torch.ones(2, device="mps").logcumsumexp(0)
        torch.special.bessel_j0(torch.ones(2, device="mps"))
    verdicts = {record.operator: record.judgement.verdict for record in device.recorder.calls()}
    assert "native" not in {v for name, v in verdicts.items() if "bessel" in name or "logcumsumexp" in name}
