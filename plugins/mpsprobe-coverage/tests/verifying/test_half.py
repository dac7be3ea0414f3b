"""What half precision does on the CPU: the classes that people report, each with what has to stay in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import mpsprobe
from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.schemas import PrecisionReport
from mpsprobe_devkit.testing import run_cli


def scaled(layer: Any, factor: float) -> Any:
    with torch.no_grad():
        layer.weight.mul_(factor)
    return layer


class Residual(nn.Module):
    """As in the decoder of SDXL's VAE: a convolution whose output is beyond the range, and a norm after it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(4, 8, 3, padding=1), scaled(nn.Conv2d(8, 4, 3, padding=1), 1e6)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x: Any) -> Any:
        return self.norm(x + self.two(nn.functional.silu(self.one(x))))


class FeedForward(nn.Module):
    """As in encoders of T5: the second product of the feed-forward part overflows."""

    def __init__(self) -> None:
        super().__init__()
        self.wi, self.wo = scaled(nn.Linear(16, 64, bias=False), 30), scaled(nn.Linear(64, 16, bias=False), 2e4)

    def forward(self, x: Any) -> Any:
        return self.wo(torch.relu(self.wi(x))) / 1e4


class Attention(nn.Module):
    """Scores that overflow before they are scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = scaled(nn.Linear(16, 16), 3000), scaled(nn.Linear(16, 16), 3000), nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        return (self.q(x) @ self.k(x).mT / 1e6).softmax(-1) @ self.v(x)


class Norm(nn.Module):
    """A norm that squares in the dtype of its input."""

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], list[str]]] = {
    "VAE": (lambda: nn.Sequential(Residual(), nn.Conv2d(4, 3, 1)), (1, 4, 8, 8), ["0.two", "0.norm"]),
    "T5": (lambda: nn.Sequential(FeedForward(), nn.Linear(16, 4)), (2, 5, 16), ["0.wo"]),
    "attention": (lambda: nn.Sequential(nn.Linear(16, 16), Attention(), nn.Linear(16, 4)), (2, 5, 16), ["1"]),
    "norm": (lambda: nn.Sequential(scaled(nn.Linear(16, 16), 1000), Norm(), nn.Linear(16, 4)), (2, 5, 16), ["1"]),
}


def asked(model: nn.Module, inputs: Any, **options: Any) -> PrecisionReport:
    report = mpsprobe.verify(model, inputs, device="cpu", **{"dtype": "float32", **options})
    assert isinstance(report, PrecisionReport)
    return report


@pytest.mark.parametrize("name", CASES)
def test_what_has_to_stay_in_float32_is_found_by_trying(name: str) -> None:
    make, shape, keep = CASES[name]
    torch.manual_seed(0)
    model, inputs = make().eval(), torch.randn(shape)
    report = asked(model, inputs, dtype="float16", phase="inference")
    assert not report.holds and report.keep == keep and report.snippet is not None
    assert report.error_with_keep is not None and report.error_with_keep <= report.allowed
    assert all(one.dtype is torch.float32 for one in model.parameters())
    exact = model(inputs).detach()
    exec(report.snippet, {"model": model, "torch": torch})  # what the report shows is what was tried
    got = model(inputs.half()).detach().float()
    assert float((got - exact).norm() / exact.norm()) == pytest.approx(report.error_with_keep, rel=0.05)
    assert asked(make().eval(), inputs, dtype="bfloat16", phase="inference").begins is None
    assert not torch.nn.modules.module._global_forward_hooks_with_kwargs  # torch.compile would warn of one


def test_the_scale_at_which_training_settles() -> None:
    torch.manual_seed(0)
    loud = nn.Sequential(nn.Linear(8, 8), scaled(nn.Linear(8, 8, bias=False), 100), nn.Linear(8, 1))
    found = asked(loud, torch.randn(4, 8) * 100, autocast="float16", phase="training").loss_scale
    quiet = asked(nn.Linear(8, 1), torch.randn(4, 8), autocast="float16", phase="training").loss_scale
    assert found is not None and quiet is not None and found < quiet <= 2.0**16


class Raises(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise OSError("mine")


def test_what_a_model_raises_is_its_own() -> None:
    with pytest.raises(WorkloadError, match="does not run on the CPU: OSError: mine") as raised:
        asked(Raises(2, 2), torch.ones(1, 2), dtype="float16")
    assert 'raise OSError("mine")' in str(raised.value.hint)


def test_wrong_use_is_one_line() -> None:
    for arguments, said in (
        (["bert-base", "--dtype", "float16", "--device", "cpu", "--size", "small"], "are made"),
        (["bert-base", "--device", "cpu"], "the CPU is what devices are compared with"),
        (["bert-base", "--device", "nowhere"], "nowhere"),
    ):
        result = run_cli("verify", *arguments, process=False)
        assert result.code == 2 and said in result.stderr and "Traceback" not in result.stderr
    with pytest.raises(UsageError, match=r"no device|compared"):
        mpsprobe.verify(nn.Linear(2, 2), torch.ones(1, 2), device="cpu")
