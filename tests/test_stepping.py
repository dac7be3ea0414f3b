"""The parts of a step that every device shares, with models as small as they come."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import ADAMW, TorchStep, forward, loss_of, optimizer_name, parameter_groups


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
    assert len(parameter_groups(torch.nn.LayerNorm(2))) == 1
    with pytest.raises(WorkloadError, match="no parameter of the model requires a gradient"):
        parameter_groups(torch.nn.ReLU())


def test_the_optimizer_is_that_of_the_run_or_of_the_device_and_named_with_its_form() -> None:
    def foreach(model: Any) -> Any:
        return torch.optim.AdamW(parameter_groups(model), **ADAMW, foreach=True)

    run, training = TorchRun(_Block()), RunOptions(phase="training")
    step = TorchStep(run, training, "cpu", adamw=foreach)
    assert optimizer_name(step.optimizer) == "AdamW (foreach)" and step.optimizer.defaults["lr"] == 5e-5
    run.optimizer = lambda model: torch.optim.SGD(model.parameters())
    assert optimizer_name(TorchStep(run, training, "cpu", adamw=foreach).optimizer) == "SGD"


def test_forward_calls_as_the_run_says_under_autocast_for_the_device() -> None:
    run = TorchRun(torch.nn.Linear(2, 2))
    plain = forward(run, RunOptions(), "cpu", (torch.ones(1, 2),), {})
    cast = forward(run, RunOptions(autocast="bfloat16"), "cpu", (torch.ones(1, 2),), {})
    assert (plain.dtype, cast.dtype) == (torch.float32, torch.bfloat16)
    run.call = lambda model, args, kwargs: (model, args, dict(kwargs))
    assert forward(run, RunOptions(), "cpu", (1,), {"a": 2}) == (run.model, (1,), {"a": 2})


def test_the_loss_is_found() -> None:
    loss = torch.ones(3, requires_grad=True) * 2
    for output in (SimpleNamespace(loss=loss), {"loss": loss}, loss, [loss]):
        run = TorchRun(torch.nn.Identity(), loss=(lambda output: output[0]) if isinstance(output, list) else None)
        found = loss_of(run, output)
        assert found.dim() == 0 and found.item() == 2.0


def test_an_output_without_a_loss_is_an_error() -> None:
    for output in ({}, 3, SimpleNamespace(), torch.ones(())):
        says = "requires a gradient" if isinstance(output, torch.Tensor) else "no loss"
        with pytest.raises(WorkloadError, match=says):
            loss_of(TorchRun(torch.nn.Identity()), output)


def _training(**options: Any) -> TorchStep:
    torch.manual_seed(0)
    run = TorchRun(torch.nn.Linear(2, 2), (torch.ones(1, 2),), loss=lambda output: output.sum())
    return TorchStep(run, RunOptions(phase="training", **options), "cpu")


def test_inference_is_a_forward_pass_without_gradients() -> None:
    entered: list[str] = []
    modes: list[tuple[bool, bool]] = []

    def call(*_: Any) -> None:
        modes.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))

    step = TorchStep(TorchRun(torch.nn.Linear(2, 2), call=call), RunOptions(), "cpu")
    step.take(lambda name: nullcontext(entered.append(name)))
    assert entered == ["forward"] and modes == [(False, False)]


def test_a_training_step_goes_through_its_phases_and_forgets_its_gradients() -> None:
    step, entered = _training(grad_accum=2), []
    before = step.run.model.weight.detach().clone()
    step.take(lambda name: nullcontext(entered.append(name)))
    assert entered == ["forward", "backward", "forward", "backward", "optimizer"]
    assert not torch.equal(before, step.run.model.weight)
    assert [parameter.grad for parameter in step.parameters] == [None, None]


def test_a_loss_that_was_made_up_is_named() -> None:
    said = "no loss was given: trained with the mean of the model's output (1, 2)"
    for given, notes in ((None, [said]), (torch.sum, [])):
        run = TorchRun(torch.nn.Linear(2, 2), (torch.ones(1, 2),), loss=given)
        step = TorchStep(run, RunOptions(phase="training"), "cpu")
        assert step.notes is None
        step.take()
        assert step.notes == notes


def test_passes_that_are_accumulated_give_the_gradients_of_one() -> None:
    gradients = []
    for passes in (1, 4):
        step = _training(grad_accum=passes)
        step.update = lambda: None  # type: ignore[method-assign]
        step.take()
        gradients.append([parameter.grad for parameter in step.parameters])
    assert all(torch.equal(one, four) for one, four in zip(*gradients, strict=True))


@pytest.mark.parametrize(("limit", "norm"), [(0.5, 0.5), (0.0, 2.449)])
def test_gradients_are_clipped_before_the_update(limit: float, norm: float) -> None:
    step, norms = _training(clip_norm=limit), []
    step.optimizer.register_step_pre_hook(
        lambda *_: norms.append(torch.cat([p.grad.flatten() for p in step.parameters]).norm().item())
    )
    step.take()
    assert norms == [pytest.approx(norm, rel=1e-3)]


def test_float16_autocast_scales_the_loss_and_unscales_the_gradients() -> None:
    step, seen = _training(autocast="float16", clip_norm=0.0), []
    step.run.model.weight.register_hook(lambda gradient: seen.append(gradient.abs().max().item()))
    step.optimizer.register_step_pre_hook(lambda *_: seen.append(step.run.model.weight.grad.abs().max().item()))
    step.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    step.take()
    assert seen == [8.0, 1.0]
    assert _training(autocast="bfloat16").scaler is None
