"""Calls that rest on how the installed torch composes an operator or a derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.composing import Composing
from mpsprobe_coverage.kernels import compositions
from mpsprobe_coverage.kernels.compositions import Compositions, composition_releases, load_compositions
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import installed_release

TARGET = "2.5.1"  # no route is about the operators below in it
Changes = dict[str, frozenset[str] | None]


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Has the target compose as the installed torch is said to do, but for what is named; None: not at all."""
    for release in (installed_release(), TARGET):
        load_compositions(release)  # what the process remembers of them stays true

    def compose(**changes: frozenset[str] | None) -> None:
        here = {"cosine_similarity": frozenset({"mul.Tensor"}), "MulBackward0": frozenset({"mul.Tensor"})}
        there = {name: calls for name, calls in {**here, **changes}.items() if calls is not None}
        made = {"9.0.0": Compositions("9.0.0", "", here), TARGET: Compositions(TARGET, "", there)}
        monkeypatch.setattr(compositions, "load_compositions", made.__getitem__)
        monkeypatch.setattr(compositions, "composition_releases", lambda: ("9.0.0", TARGET))
        monkeypatch.setattr("mpsprobe_coverage.device.composing.installed_release", lambda: "9.0.0")

    return compose


def _marked(run: Callable[[], torch.Tensor], release: str = TARGET, inference: bool = False) -> dict[str, set[str]]:
    """What marks calls → the operators; of forward and backward."""
    found: dict[str, set[str]] = {}
    with VirtualDevice(load_table(release)) as device:
        with device.recording("forward"), torch.inference_mode(inference):
            result = run()
        if result.requires_grad:
            with device.recording("backward"):
                result.backward()
    for record in device.recorder.calls():
        if record.composed_by is not None:
            found.setdefault(record.composed_by, set()).add(record.operator)
    return found


def _similarity() -> torch.Tensor:
    first, second = torch.randn(3, 4, device="mps"), torch.randn(3, 4, device="mps")
    return F.cosine_similarity(first, second).sum()


def _product() -> torch.Tensor:
    tensor = torch.randn(3, device="mps", requires_grad=True)
    return (tensor * 2 * tensor).sum()


@pytest.mark.parametrize("inference", [False, True])
def test_calls_that_the_target_does_not_make_are_marked(composed: Callable[..., None], inference: bool) -> None:
    composed(cosine_similarity=frozenset({"mul.Tensor", "sum.dim_IntList"}))
    marked = _marked(_similarity, inference=inference)
    assert marked.keys() == {"aten::cosine_similarity"}
    assert "aten::linalg_vector_norm" in marked["aten::cosine_similarity"]
    assert marked["aten::cosine_similarity"].isdisjoint({"aten::mul.Tensor", "aten::sum.dim_IntList"})


def test_every_call_is_marked_where_the_target_calls_what_it_has_no_kernel_for(composed: Callable[..., None]) -> None:
    calls = frozenset({"mul.Tensor", "sum.dim_IntList", "linalg_vector_norm", "div.Tensor", "clamp_min_.Tensor"})
    composed(cosine_similarity=calls | {"_linalg_eigh.eigenvalues"})
    assert "aten::mul.Tensor" in _marked(_similarity)["aten::cosine_similarity"]


@pytest.mark.parametrize("calls", [frozenset({"neg"}), None])  # or no such derivative
def test_calls_of_a_derivative_are_marked_by_its_node(composed: Callable[..., None], calls: frozenset[str]) -> None:
    composed(MulBackward0=calls)
    assert _marked(_product) == {"MulBackward0": {"aten::mul.Tensor"}}


def test_nothing_is_marked_where_the_compositions_are_the_same(composed: Callable[..., None]) -> None:
    composed()
    assert not _marked(_similarity)
    assert not _marked(_product)


def test_nothing_is_watched_on_the_release_that_is_installed() -> None:
    release = installed_release()
    assert release not in composition_releases() or not Composing(load_table(release)).above_autograd({})


def test_what_was_read_holds_for_the_installed_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judged as a release with other compositions, it makes no call that its own library does not show."""
    monkeypatch.setattr("mpsprobe_coverage.device.composing.installed_release", lambda: "9.0.0")
    own = installed_release()

    def program() -> torch.Tensor:
        tensor, bias = (torch.randn(shape, device="mps", requires_grad=True) for shape in ((3, 4), (4,)))
        parts = [tensor * bias, tensor.cumprod(1), tensor.logcumsumexp(0), tensor.std(1, keepdim=True)]
        parts += [F.huber_loss(tensor, tensor.roll(1)), F.layer_norm(tensor, (4,)), tensor @ tensor.T]
        parts += [tensor[torch.tensor([0, 2], device="mps")], torch.cosine_similarity(tensor, bias.expand(3, 4))]
        return torch.stack([part.sum() for part in parts]).sum()

    assert own not in composition_releases() or not _marked(program, own)


def test_writing_through_an_index_is_a_composition_too(composed: Callable[..., None]) -> None:
    composed(**{"Tensor.__setitem__": frozenset({"neg"})})

    def write() -> torch.Tensor:
        tensor = torch.zeros(3, 4, device="mps")
        tensor[torch.tensor([1], device="mps")] = torch.ones(4, device="mps")
        return tensor

    assert _marked(write) == {"Tensor.__setitem__": {"aten::_index_put_impl_"}}
