"""What a record says about a call in addition to its verdict: module and line, and a composition that it rests on."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.kernels import compositions
from mpsprobe_coverage.knowledge.kernels.compositions import Compositions, composition_releases, load_compositions
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.recording.attribution import NODES_KEPT, NOWHERE, THREADS_KEPT, Attribution, Origin
from mpsprobe_coverage.recording.recorder import CallRecord
from mpsprobe_coverage.recording.release_questions import Composing


class Block(torch.nn.Module):
    """Two linear layers; the activation between them is the block's own call."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.gelu(self.up(x))  # the line of gelu
        return self.down(hidden)


class Model(torch.nn.Module):
    """Two blocks, and a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return torch.sin(x)  # the line of sin


def _line(marker: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# the line of {marker}"))


def _records(device: VirtualDevice, phase: str, operator: str) -> list[CallRecord]:
    return [r for r in device.recorder.calls() if r.phase == phase and r.operator == f"aten::{operator}"]


def test_calls_belong_to_the_modules_and_lines_of_their_forward(device: VirtualDevice) -> None:
    model = device.move(Model())
    with device.recording("forward"):
        loss = model(torch.rand(2, 4, device="mps")).sum()
    with device.recording("backward"):
        loss.backward()
    with device.recording("optimizer"):
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    layers = {f"blocks.{index}.{name}" for index in range(2) for name in ("up", "down")}
    for phase, suffix, sine in (("forward", "", "sin"), ("backward", "_backward", "cos")):
        assert {r.origin.module for r in _records(device, phase, f"linear{suffix}")} == layers
        gelu, sines = _records(device, phase, f"gelu{suffix}"), _records(device, phase, sine)
        assert {(r.origin.module, r.origin.line) for r in gelu} == {(f"blocks.{n}", _line("gelu")) for n in range(2)}
        assert {(r.origin.module, r.origin.line) for r in sines} == {("", _line("sin"))}
    # The optimizer belongs to no module, and a line is the user's, not torch's.
    assert {r.origin.module for r in device.recorder.calls() if r.phase == "optimizer"} == {None}
    assert {r.origin.file for r in device.recorder.calls()} - {None} == {__file__}


def test_calls_in_a_phase_that_agree_are_counted_together(device: VirtualDevice) -> None:
    torch.ones(3, device="mps") * 2
    with device.recording("forward"):
        for _ in range(5):
            torch.ones(3, device="mps") * 2
    (record,) = _records(device, "forward", "mul.Tensor")
    assert record.calls == 5 == sum(r.calls for r in device.recorder.calls() if r.operator == "aten::mul.Tensor")
    assert record.inputs[0].shape == (3,) and record.outputs[0].nbytes == 12


def test_a_module_used_twice_keeps_its_first_name(device: VirtualDevice) -> None:
    layer = torch.nn.Linear(2, 2)
    model = device.move(torch.nn.Sequential(layer, torch.nn.Tanh(), layer))
    with device.recording("forward"):
        model(torch.rand(1, 2, device="mps"))
    (record,) = _records(device, "forward", "linear")
    assert (record.origin.module, record.calls) == ("0", 2)


def test_where_an_exception_left_the_modules(device: VirtualDevice) -> None:
    inner = torch.nn.Sequential(torch.nn.Linear(3, 3))
    with pytest.raises(RuntimeError):
        device.move(torch.nn.Sequential(torch.nn.Linear(2, 2), inner))(torch.rand(1, 2, device="mps"))
    assert device.attribution.deepest_module == "1.0"


def test_the_modules_of_a_program_are_named_by_class_and_path() -> None:
    called: list[torch.nn.Module] = []
    seen: dict[str, str | None] = {}
    with Attribution() as attribution:
        attribution.follow_program(called.append)
        model, other = Model(), torch.nn.Tanh()
        for name, module in model.named_modules():
            module.register_forward_hook(lambda *_, name=name: seen.update({name: attribution.current().module}))
        model(other(torch.ones(1, 4)))
        assert called == [other, model]
        assert seen["blocks.1.up"] == "Model.blocks.1.up" and seen[""] == "Model"
        assert attribution.name_of(other) == "Tanh"
        del model, module, called[:]
        gc.collect()
        assert list(attribution._names) == [id(other)]


def test_each_thread_has_its_own_modules() -> None:
    inside, seen = threading.Barrier(2, timeout=30), {}

    class Waiting(torch.nn.Module):
        def forward(self) -> None:
            inside.wait()
            seen[type(self).__name__] = attribution.current().module
            inside.wait()

    class Other(Waiting):
        pass

    with Attribution() as attribution:
        attribution.follow_program(lambda _: None)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda module: module(), (Waiting(), Other())))
    assert seen == {"Waiting": "Waiting", "Other": "Other"}


def _work(attribution: Attribution, name: str) -> None:
    """In a thread, one node whose origin is a module called ``name``."""

    def run() -> None:
        attribution._thread.stack.append(name)
        made = torch.ones(1, requires_grad=True) * 2
        attribution.current()
        numbers.append(made.grad_fn._sequence_nr())  # type: ignore[union-attr]

    numbers: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        pool.submit(run).result()
    assert numbers == [0]


def test_of_nodes_with_one_number_from_two_threads_only_what_is_the_same_is_known() -> None:
    attribution = Attribution()
    _work(attribution, "one")
    assert attribution._of_node(0).module == "one"
    _work(attribution, "two")
    both = attribution._of_node(0)
    assert (both.module, both.file) == (None, __file__)
    assert attribution._of_node(1) == NOWHERE


def test_the_nodes_of_threads_that_run_are_kept() -> None:
    attribution = Attribution()
    attribution._thread.stack.append("main")
    made = torch.ones(1, requires_grad=True) * 2
    attribution.current()
    for _ in range(2 * THREADS_KEPT):
        _work(attribution, "worker")
    assert len(attribution._threads) == THREADS_KEPT
    last = made.grad_fn._sequence_nr()  # type: ignore[union-attr]
    assert attribution._of_node(last).module in ("main", None)
    assert attribution._threads[0].origin(last) is not None


def test_memory_is_flat_over_a_million_nodes() -> None:
    attribution = Attribution()
    nodes = attribution._thread.nodes
    for count in range(0, 1_000_000, 100):
        nodes.made(count, Origin(None, "a.py", count % 7))
        assert len(nodes.origins) <= 2 * NODES_KEPT + 100
    assert nodes.origin(999_900 - 1) is not None and nodes.origin(5) is None
    nodes.made(10**9, NOWHERE)
    assert len(nodes.origins) == NODES_KEPT


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
        monkeypatch.setattr("mpsprobe_coverage.recording.release_questions.installed_release", lambda: "9.0.0")

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
    monkeypatch.setattr("mpsprobe_coverage.recording.release_questions.installed_release", lambda: "9.0.0")
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
