"""The sizes that can be named, the network, and the arithmetic of diffusion."""

from __future__ import annotations

import pytest
import torch
from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe_devkit.testing import workload_contract

from mpsprobe_denoiser.diffusion import Diffusion, add_noise, make, sample
from mpsprobe_denoiser.plugin import NAMED, mpsprobe_resolve_workload, mpsprobe_workloads
from mpsprobe_denoiser.sizes import Size, size_of
from mpsprobe_denoiser.workload import DenoiserWorkload

SMALL, WIDE = mpsprobe_workloads()

TestSmall = workload_contract(SMALL)


def test_each_name_stands_for_a_size() -> None:
    assert {one.name: DenoiserWorkload(one.name).size for one in (SMALL, WIDE)} == {
        "denoiser-32": Size(32, 32),
        "denoiser-64": Size(64, 64),
    }
    assert set(NAMED) == {SMALL.name, WIDE.name}


def test_any_size_can_be_named() -> None:
    declared = mpsprobe_resolve_workload("denoiser:48x32")
    assert declared is not None and declared.name == "denoiser:48x32"
    assert DenoiserWorkload("denoiser:48x32").size == Size(48, 32)


@pytest.mark.parametrize("name", ["bert-base", "denoiser", "denoise:32", "hf:bert"])
def test_other_names_are_left_to_others(name: str) -> None:
    assert mpsprobe_resolve_workload(name) is None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("denoiser:", "Write denoiser:PIXELS"),
        ("denoiser:large", "Write denoiser:PIXELS"),
        ("denoiser:32x", "Write denoiser:PIXELS"),
        ("denoiser:-32", "Write denoiser:PIXELS"),
        ("denoiser:50", "48 is the nearest"),
        ("denoiser:0", "16 is the nearest"),
        ("denoiser:32x33", "32 is the nearest"),
        ("denoiser:99999", "1024 is the nearest"),
        ("denoiser:" + "9" * 5000, "Write denoiser:PIXELS"),
    ],
)
def test_a_size_that_cannot_be_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(WorkloadError, match=hint):
        size_of(name)


def test_knowing_the_noise_gives_the_image_back() -> None:
    torch.manual_seed(0)
    kept = Diffusion(torch.nn.Identity()).kept
    image, noise = torch.rand(2, 3, 8, 8), torch.randn(2, 3, 8, 8)
    noisy = add_noise(image, noise, kept[-1:])
    found = sample(lambda _image, _time: noise, noisy, kept)
    torch.testing.assert_close(found, image, atol=1e-3, rtol=0)


def test_the_network_learns_the_noise_of_one_batch() -> None:
    torch.manual_seed(0)
    run = DenoiserWorkload("denoiser:16x32").build(RunOptions(phase="training", batch_size=2))
    optimizer = torch.optim.Adam(run.model.parameters(), lr=1e-3)
    losses = []
    for _ in range(8):
        loss = run.model(**run.kwargs)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


def test_images_come_out_as_large_as_the_noise_that_went_in() -> None:
    with torch.inference_mode():
        images = make(32)(torch.randn(1, 3, 24, 16))["images"]
    assert images.shape == (1, 3, 24, 16)
    assert images.isfinite().all()


def test_every_parameter_gets_a_gradient() -> None:
    run = DenoiserWorkload("denoiser:16x32").build(RunOptions(phase="training"))
    run.model(**run.kwargs)["loss"].backward()
    assert not [name for name, parameter in run.model.named_parameters() if parameter.grad is None]


@pytest.mark.parametrize(("options", "said"), [({"weights": True}, "weights"), ({"seq_len": 8}, "sequences")])
def test_options_that_mean_nothing_are_refused(options: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        DenoiserWorkload("denoiser-32").build(RunOptions(**options))
