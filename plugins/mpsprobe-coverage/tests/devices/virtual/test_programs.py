"""Whole programs inside an open device: with values as on the CPU, and with large tensors that have no data."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import torch as safetensors
from torch import nn
from torch._subclasses import FakeTensor
from torch.nn import functional
from torch.nn.utils import rnn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from mpsprobe_coverage.devices.virtual import VirtualDevice, execution
from mpsprobe_coverage.devices.virtual import cpu_calls as elsewhere
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.recording import recorder


@pytest.fixture
def real() -> Iterator[VirtualDevice]:
    """An open device that keeps every value, and records."""
    with VirtualDevice(load_table("2.13.0"), keep_weights=True) as opened, opened.recording("forward"):
        yield opened


def _steps(model: nn.Module, loss: Callable[[], torch.Tensor], optimizer: Any, steps: int = 3) -> list[float]:
    losses = []
    for _ in range(steps):
        value = loss()
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(value.item())
    return losses


def _training(device: str) -> Any:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)  # before the move, as many programs do
    model.to(device)
    x, y = torch.randn(16, 4).to(device), torch.randint(0, 2, (16,)).to(device)
    return _steps(model, lambda: functional.cross_entropy(model(x), y), optimizer)


def _scaler(device: str) -> Any:
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**20, growth_interval=2)
    x, found = torch.randn(8, 4, device=device), []
    for step in range(4):
        with torch.amp.autocast(device, dtype=torch.bfloat16):
            loss = model(x).float().pow(2).mean() * (torch.inf if step == 2 else 1)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append((loss.item(), scaler.get_scale()))
    return found


def _packed(device: str) -> Any:
    embedding, lstm = nn.Embedding(20, 8, padding_idx=0).to(device), nn.GRU(8, 6, batch_first=True).to(device)
    words = rnn.pad_sequence([torch.randint(1, 20, (n,)) for n in (5, 3, 7)], batch_first=True).to(device)
    packed = rnn.pack_padded_sequence(embedding(words), torch.tensor([5, 3, 7]), batch_first=True, enforce_sorted=False)
    return rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)[0].argmax(-1).tolist()


def _ctc(device: str) -> Any:
    model = nn.Linear(6, 11).to(device)
    x, target = torch.randn(15, 3, 6).to(device), torch.randint(1, 11, (3, 4)).to(device)
    lengths = torch.tensor([15, 14, 12]), torch.tensor([4, 3, 2])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return _steps(model, lambda: functional.ctc_loss(model(x).log_softmax(-1), target, *lengths), optimizer)


def _sampling(device: str) -> Any:
    policy, taken, state = nn.Linear(2, 3).to(device), [], 0.0
    for step in range(8):
        chosen = torch.distributions.Categorical(logits=policy(torch.tensor([state, step], device=device)))
        action = chosen.sample()
        state += 0.1 if action.item() else -0.1
        taken.append((action.item(), f"{chosen.log_prob(action):.7f}"))
    normal = torch.distributions.Normal(torch.zeros(2, device=device), 1.0)
    return taken, normal.rsample((2,)).tolist(), torch.multinomial(torch.ones(5, device=device), 3).tolist()


def _checkpointing(device: str) -> Any:
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.2)) for _ in range(2))).to(device)
    x = torch.randn(4, 6, device=device, requires_grad=True)
    y = x
    for block, reentrant in zip(blocks, (True, False), strict=True):
        y = checkpoint(block, y, use_reentrant=reentrant)
    y.sum().backward()
    assert x.grad is not None
    return y.sum().item(), x.grad.tolist(), [p.grad.sum().item() for p in blocks.parameters() if p.grad is not None]


def _transforms(device: str) -> Any:
    model, seen = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)).to(device), []
    model.register_forward_hook(lambda module, args, out: seen.append(out.mean().item()))
    parameters = {name: value.detach() for name, value in nn.Linear(4, 2).to(device).named_parameters()}

    def loss(given: Any, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, given["weight"], given["bias"]).pow(2).sum()

    x = torch.randn(5, 4, device=device)
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    compiled = torch.compile(model, backend="eager") if device == "mps" else model  # there it compiles nothing
    return compiled(x).tolist(), seen, {name: value.tolist() for name, value in each.items()}


def _indexing(device: str) -> Any:
    x = torch.randn(4, 4, device=device)
    y = x.clone()
    y[[0, 2]] = 1.5
    y[y > 1] = 0
    numbers = y.numpy(force=True)
    return (
        y.tolist(), x[[0, 2]].tolist(), x[:, [1]].tolist(), x[x > 0].tolist(), x[numbers.argmax(0)].tolist(),
        [row.sum().item() for row in x], len(x), x.std().item(), torch.unique(x > 0).tolist(), str(numbers),
    )  # fmt: skip


_PROGRAMS = [_training, _scaler, _packed, _ctc, _sampling, _checkpointing, _transforms, _indexing]


@pytest.mark.parametrize("program", _PROGRAMS)
def test_a_program_ends_and_gives_what_the_cpu_gives_where_values_are_known(program: Callable[[str], Any]) -> None:
    def run(device: str) -> Any:
        torch.manual_seed(0)
        return program(device)

    expected = run("cpu")
    with VirtualDevice(load_table("2.13.0"), keep_weights=True) as device, device.recording("forward"):
        assert run("mps") == expected
    assert not list(device.recorder.assumptions())
    assert any(record.judgement.verdict == "native" for record in device.recorder.calls())
    with VirtualDevice(load_table("2.13.0"), shadow_limit=0) as device, device.recording("forward"):
        run("mps")
    assert any(device.recorder.calls()) and any(device.recorder.assumptions())


def test_parameters_are_the_same_objects_on_either_device(real: VirtualDevice) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before, values = list(model.parameters()), model[0].weight.tolist()
    x = torch.ones(2, 3)
    for device in ("mps", "cpu", "mps"):
        model.to(device)
        kept = model(x.to(device))  # its graph is alive while the model moves
        kept.sum().backward()
        assert [id(one) for one in model.parameters()] == [id(one) for one in before]
        assert all(isinstance(one, nn.Parameter) for one in before)
        assert {p.device.type for p in model.parameters()} == {p.grad.device.type for p in before if p.grad is not None}
        assert {tensor.device.type for tensor in model.state_dict().values()} == {device}
        assert model[0].weight.tolist() == values
    made_there = nn.Linear(2, 2, device="mps")
    weight, result = made_there.weight, made_there(torch.ones(1, 2, device="mps")).tolist()
    made_there(torch.ones(1, 2, device="mps")).sum().backward()
    assert made_there.cpu().weight is weight and type(weight) is nn.Parameter and weight.device.type == "cpu"
    assert weight.grad is not None and weight.grad.tolist() == [[1.0, 1.0]] * 2
    assert made_there(torch.ones(1, 2)).tolist() == result


def test_a_lazy_module_is_moved_before_its_first_call(real: VirtualDevice) -> None:
    model = nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d()).to("mps")
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 3, device="mps")).sum().backward()
    before = model[1].bias.tolist()
    optimizer.step()
    assert model[0].weight.shape == (5, 3) and model[0].weight.is_mps and model[1].bias.tolist() != before


def test_what_is_saved_is_loaded_where_it_was(real: VirtualDevice, tmp_path: Path) -> None:
    model = nn.Linear(3, 2).to("mps")
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3, device="mps")).sum().backward()
    optimizer.step()
    expected, file = model.weight.tolist(), tmp_path / "model.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    for where, device in ((None, "mps"), ("mps", "mps"), ("cpu", "cpu"), (torch.device("mps"), "mps")):
        loaded = torch.load(file, map_location=where)
        assert loaded["model"]["weight"].device.type == loaded["optimizer"]["state"][0]["exp_avg"].device.type == device
        assert loaded["model"]["weight"].tolist() == expected
    allowed = torch._weights_only_unpickler._get_allowed_globals()  # torch keeps it for the whole process
    assert all(name.rpartition(".")[2] == function.__name__ for name, function in allowed.items() if "_utils" in name)
    tensors = {"a": torch.randn(3, device="mps"), "b": torch.arange(4, device="mps")}
    safetensors.save_file(tensors, tmp_path / "some.safetensors")
    loaded = safetensors.load_file(tmp_path / "some.safetensors", device="mps")
    assert all(loaded[name].is_mps and loaded[name].tolist() == value.tolist() for name, value in tensors.items())
    torch.save(torch.ones(2), file)
    assert torch.load(file).device.type == "cpu" and torch.load(file, map_location="mps").device.type == "mps"
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    whole = (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(buffer, weights_only=False))
    for copied in whole:
        assert isinstance(copied.weight, nn.Parameter) and copied.weight.is_mps
        assert copied.weight.tolist() == expected and copied.weight is not model.weight
        copied.weight.data.add_(1)
        assert copied.weight.tolist() != expected == model.weight.tolist()


def test_tensors_print_as_on_a_mac(real: VirtualDevice) -> None:
    torch.manual_seed(0)
    weight = nn.Linear(2, 1, bias=False).weight
    for made in (torch.arange(3.0), torch.zeros(2, 0), torch.tensor(3), torch.ones(2, dtype=torch.int32)):
        plain, size = repr(made), ", size=(2, 0)"
        end = size if size in plain else ", dtype=torch.int32)" if "dtype" in plain else ")"
        at = plain.index(end)
        assert repr(made.to("mps")) == f"{plain[:at]}, device='mps:0'{plain[at:]}"
    assert repr(torch.ones(1, device="mps", requires_grad=True) * 2).endswith("device='mps:0', grad_fn=<MulBackward0>)")
    assert repr(nn.Parameter(weight.detach().to("mps"))).startswith("Parameter containing:\ntensor([[")
    assert f"{torch.tensor(0.125, device='mps'):.2f} {torch.tensor(2, device='mps')}" == "0.12 2"


def test_threads_are_followed(real: VirtualDevice) -> None:
    model = nn.Linear(4, 3).to("mps")

    def result(number: int) -> Any:
        made = torch.full((1, 4), float(number), device="mps")
        return made.device.type, model(made.clone()).tolist()

    before, lines = [result(number) for number in range(3)], len(list(real.recorder.calls()))
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(result, range(3))) == before
    backward = threading.Thread(target=lambda: model(torch.ones(1, 4, device="mps")).sum().backward())
    backward.start()
    backward.join()
    assert model.weight.grad is not None and model.weight.grad.tolist() == [[1.0] * 4] * 3
    assert len(list(real.recorder.calls())) > lines


def test_a_thread_that_outlives_the_device_goes_on() -> None:
    closed, found = threading.Event(), []

    def work() -> None:
        closed.wait(10)
        found.append(torch.ones(2).sum().item())

    with VirtualDevice(load_table("2.13.0")):
        thread = threading.Thread(target=work)
        thread.start()
    closed.set()
    thread.join()
    assert found == [2.0]


def test_what_is_remembered_of_a_long_program_is_bounded(real: VirtualDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "PARTS_KEPT", 200)
    monkeypatch.setattr(recorder, "RECORDS_KEPT", 50)
    x = torch.ones(200, device="mps")
    for step in range(150):
        x[: step + 1].mul_(1 + step / 1000)
    remembered = real._interception
    assert len(remembered.execution._outcomes) <= 200 and len(remembered._judged) <= 200
    assert len(list(real.recorder.calls())) < 60
    assert sum(r.calls for r in real.recorder.calls() if r.operator == "aten::mul_.Tensor") == 150


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualDevice]:
    """An open device for which 64 elements are few, and more are many."""
    monkeypatch.setattr(elsewhere, "LARGE", 64)
    with VirtualDevice(load_table("2.13.0"), data_on_cpu=False) as opened, opened.recording("forward"):
        yield opened


def _assumed(device: VirtualDevice) -> dict[str, str]:
    return {note.operator: note.text for note in device.recorder.assumptions()}


def _has_data(tensor: torch.Tensor) -> bool:
    return not isinstance(tensor, FakeTensor)


def test_what_is_large_has_no_data(device: VirtualDevice) -> None:
    small, large = torch.arange(64), torch.randn(8, 9)
    read = torch.frombuffer(bytearray(81), dtype=torch.uint8)  # the program's own memory
    made = {
        "small": small, "computed": small * 2, "filled": torch.zeros(3, 3),
        "large": large, "from large": large[0], "sum": large.sum() + 1, "range": torch.arange(65),
        "drawn": torch.rand(65), "copied": small[:1].expand(65).clone(), "with small": large + torch.ones(9),
    }  # fmt: skip
    assert [name for name, tensor in made.items() if _has_data(tensor)] == ["small", "computed", "filled"]
    assert all(tensor.device.type == "cpu" for tensor in made.values())
    assert made["computed"].tolist() == [2 * number for number in range(64)]
    assert _has_data(read) and _has_data(read[:70]) and not _has_data(read.float())
    assert read.sum().item() == 0 and not _assumed(device)


def test_what_is_read_is_assumed_and_listed(device: VirtualDevice) -> None:
    x = torch.randn(8, 9)
    assert not _assumed(device)
    assert (x.sum().item(), bool(x.isfinite().all()), bool((x > 0).any())) == (1.0, True, False)
    assert len(x[x > 0]) == 72
    assert x.numpy().sum() == 0 and len(x.tolist()) == 8
    assert repr(x) == "tensor(..., device='cpu', size=(8, 9))"
    assert set(_assumed(device)) >= {"aten::_local_scalar_dense", "aten::index.Tensor", "Tensor.numpy", "Tensor.tolist"}


def test_a_tensor_with_data_that_is_written_keeps_its_own(device: VirtualDevice) -> None:
    real = torch.ones(3)
    real.copy_(torch.randn(65)[:3])
    assert real.tolist() == [1.0, 1.0, 1.0]
    assert _assumed(device) == {"aten::copy_": elsewhere.WRITTEN_ASSUMPTION}


def test_a_model_is_made_moved_trained_and_moved_back(device: VirtualDevice) -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 4))
    parameters = list(model.parameters())
    assert [_has_data(parameter) for parameter in parameters] == [False, True, True, True, False, True]
    optimizer = torch.optim.AdamW(model.parameters())
    other = copy.deepcopy(model).half()
    assert other[0].weight.dtype is torch.half and isinstance(other[0].weight, nn.Parameter)
    model.to("mps")
    assert all(new is old and new.is_mps for new, old in zip(model.parameters(), parameters, strict=True))
    model(torch.randn(8, 16).to("mps")).sum().backward()
    optimizer.step()
    assert all(parameter.grad is not None for parameter in parameters)
    model.cpu()
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    model(torch.randn(8, 16)).sum().backward()
    assert not _has_data(model[0].weight)


def test_data_is_replaced(device: VirtualDevice) -> None:
    """As ``Module.to`` does up to some release, and programs by hand: C++ knows the new device."""
    layer = nn.Linear(16, 32)
    parameter, bias = layer.weight, layer.bias
    for one in (parameter, bias):
        one.data = one.data.to("mps")
    assert layer.weight is parameter and isinstance(parameter, nn.Parameter) and parameter.is_mps
    layer(torch.randn(8, 16, device="mps")).sum().backward()
    assert parameter.grad is not None and parameter.grad.shape == (32, 16)
    parameter.data = parameter.data.cpu()
    assert isinstance(parameter, nn.Parameter) and parameter.requires_grad and not _has_data(parameter)
    (parameter * 2).sum().backward()


def test_what_is_saved_is_loaded(device: VirtualDevice) -> None:
    model, file = nn.Linear(16, 32), io.BytesIO()
    for state in (model.state_dict(), model.to("mps").state_dict()):
        torch.save(state, file)
        file.seek(0)
        loaded = torch.load(file, map_location="cpu", weights_only=True)
        assert type(loaded["weight"]) is torch.Tensor and loaded["weight"].shape == (32, 16)
        model.load_state_dict(loaded)
        assert safetensors.load(safetensors.save(state))["weight"].shape == (32, 16)
        file = io.BytesIO()
    parameter = pickle.loads(pickle.dumps(nn.Parameter(torch.randn(65))))
    assert isinstance(parameter, nn.Parameter) and parameter.requires_grad


def test_batches_of_unknown_data(device: VirtualDevice) -> None:
    data = TensorDataset(torch.randn(40, 9), torch.randint(0, 3, (40,)))
    for x, y in DataLoader(data, batch_size=20, shuffle=True):
        assert x.to("mps").shape == (20, 9) and _has_data(y)


def test_everything_is_put_back() -> None:
    before = dict(vars(FakeTensor))
    with VirtualDevice(load_table("2.13.0"), data_on_cpu=False):
        assert not _has_data(torch.empty(2**21))
    assert dict(vars(FakeTensor)) == before
    assert _has_data(torch.empty(2**21))
