"""The parts of a step that every device shares, with models as small as they come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import ADAMW, forward, loss_of, optimizer_name, parameter_groups


class _Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.norm = torch.nn.LayerNorm(2)
        self.frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)


def test_normalisation_and_biases_are_not_decayed() -> None:
    block = _Block()
    decayed, others = parameter_groups(block)
    assert [id(p) for p in decayed["params"]] == [id(block.linear.weight)]
    assert {id(p) for p in others["params"]} == {id(p) for p in (block.linear.bias, *block.norm.parameters())}
    assert "weight_decay" not in decayed and others["weight_decay"] == 0.0


def test_a_model_without_a_kind_of_parameter_has_no_empty_group() -> None:
    assert len(parameter_groups(torch.nn.LayerNorm(2))) == 1
    assert parameter_groups(torch.nn.ReLU()) == []


def test_the_optimizer_is_named_with_its_form() -> None:
    optimizer = torch.optim.AdamW(parameter_groups(_Block()), **ADAMW, foreach=True)
    assert optimizer_name(optimizer) == "AdamW (foreach)" and optimizer.defaults["lr"] == 5e-5
    assert optimizer_name(torch.optim.SGD(_Block().parameters())) == "SGD"


def test_forward_runs_under_autocast_for_the_device() -> None:
    run = TorchRun(torch.nn.Linear(2, 2))
    plain = forward(run, RunOptions(), "cpu", (torch.ones(1, 2),), {})
    cast = forward(run, RunOptions(autocast="bfloat16"), "cpu", (torch.ones(1, 2),), {})
    assert (plain.dtype, cast.dtype) == (torch.float32, torch.bfloat16)


def test_forward_calls_as_the_run_says() -> None:
    run = TorchRun(torch.nn.Identity(), call=lambda model, args, kwargs: (model, args, dict(kwargs)))
    assert forward(run, RunOptions(), "cpu", (1,), {"a": 2})[1:] == ((1,), {"a": 2})


@pytest.mark.parametrize("shape", ["attribute", "mapping", "tensor", "function"])
def test_the_loss_is_found(shape: str) -> None:
    loss = torch.ones(3, requires_grad=True) * 2
    outputs: dict[str, Any] = {"attribute": SimpleNamespace(loss=loss), "mapping": {"loss": loss}, "tensor": loss}
    run = TorchRun(torch.nn.Identity(), loss=(lambda output: output[0]) if shape == "function" else None)
    found = loss_of(run, outputs.get(shape, [loss]))
    assert found.dim() == 0 and found.item() == 2.0


@pytest.mark.parametrize(
    ("output", "says"),
    [({}, "no loss"), (3, "no loss"), (SimpleNamespace(), "no loss"), (torch.ones(()), "requires a gradient")],
)
def test_an_output_without_a_loss_is_an_error(output: Any, says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        loss_of(TorchRun(torch.nn.Identity()), output)
