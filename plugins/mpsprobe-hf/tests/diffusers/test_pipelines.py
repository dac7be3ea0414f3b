"""Every pipeline of the catalog, small, in both phases, on the virtual device."""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

import pytest
import torch

from mpsprobe.errors import MissingPackage
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_devkit.testing import OpenDevice, open_virtual_device
from mpsprobe_hf.catalog import pipelines
from mpsprobe_hf.diffusers.workload import load
from tests.thorough import all_but, first_of_each

# What torch.norm says on MPS: it takes the newer operator on devices that it knows by name.
pytestmark = pytest.mark.filterwarnings("ignore:at..frobenius_norm is deprecated:UserWarning")

RELEASE = "2.13.0"
ALL = sorted(pipelines())
REFUSED = {"cogvideox-2b": {"aten::copy_"}}
"""Its table of positions is in float64 (``CogVideoXPatchEmbed`` of diffusers 0.42), and moved with the model."""


def built(device: OpenDevice, name: str, phase: str = "inference", **options: Any) -> TorchRun:
    """Before the device is opened, as a scan does it."""
    with device.construction():
        run: TorchRun = load(name).build(RunOptions(phase=phase, size="small", **options))
    return run


def called(device: OpenDevice, run: TorchRun, *, trains: bool = False) -> Any:
    device.move(run.model)
    assert run.call is not None
    with torch.set_grad_enabled(trains):
        return device.run(partial(run.call, run.model), run.args, run.kwargs)


def not_native(device: OpenDevice) -> set[str]:
    return {operator for operator, verdict in device.verdicts().items() if verdict != "native"}


@pytest.mark.parametrize("name", all_but(first_of_each(lambda name: pipelines()[name].family, ALL), ALL))
def test_a_pipeline_and_its_training(name: str) -> None:
    for package in pipelines()[name].requires:
        if importlib.util.find_spec(package) is None:
            with pytest.raises(MissingPackage, match=package):
                load(name)
            return
    device = open_virtual_device(RELEASE)
    inference, training = built(device, name), built(device, name, "training", lora=True)
    with device:
        output = called(device, inference)[0]
        assert size(output) == (64, 64) if pipelines()[name].family != "audio" else output.dim() == 3
        loss = called(device, training, trains=True)
        device.run(loss.backward, phase="backward")
        trained = {key for key, one in training.model.named_parameters() if one.grad is not None}
        assert trained and all("lora_" in key for key in trained)
        assert not_native(device) == REFUSED.get(name, set())
        assert not device.not_judged()


def size(output: Any) -> tuple[int, int]:
    """Of the pictures or the frames."""
    while isinstance(output, list):
        output = output[0]
    return output.size if not isinstance(output, torch.Tensor) else (output.shape[-2], output.shape[-1])


@pytest.mark.parametrize("name", all_but("z-image-turbo".__eq__, ["stable-diffusion-1.5", "z-image-turbo"]))
def test_the_parts_of_a_pipeline(name: str) -> None:
    device = open_virtual_device(RELEASE)
    parts = load(name).recipe.parts()  # type: ignore[attr-defined]
    runs = {part: built(device, f"diffusers:{name}/{part}") for part in parts}
    with device:
        for part, run in runs.items():
            called(device, run)
            assert run.architecture == type(run.model).__name__ or part == "step"
        assert not not_native(device) and not device.not_judged()


def test_a_step_runs_the_denoiser_and_the_scheduler_alone() -> None:
    device = open_virtual_device(RELEASE)
    run = built(device, "diffusers:sdxl/step", batch_size=2)
    assert [name for name, _ in run.model.named_children()] == ["unet"]
    with device:
        assert called(device, run).shape == (2, 4, 8, 8)
        steps = device.calls()["aten::_mps_convolution"]
        called(device, run)  # what was recorded is there again
        assert device.calls()["aten::_mps_convolution"] == 2 * steps


def test_a_part_is_called_as_the_pipeline_calls_it() -> None:
    device = open_virtual_device(RELEASE)
    guided = built(device, "diffusers:sdxl/unet")
    assert guided.args[0].shape == (2, 4, 8, 8)
    assert guided.kwargs["encoder_hidden_states"].shape == (2, 77, 2048)
    encoder = built(device, "diffusers:sdxl/vae-encoder", batch_size=3)
    assert encoder.args[0].shape == (3, 3, 64, 64)
    with device:
        assert called(device, encoder).shape == (3, 4, 8, 8)


@pytest.mark.parametrize("name", ["FluxImg2ImgPipeline", "QwenImageInpaintPipeline"])
def test_a_class_of_diffusers_gets_sizes(name: str) -> None:
    device = open_virtual_device(RELEASE)
    run = built(device, f"diffusers:{name}/step")
    assert any("sizes of " in note for note in run.notes)
    assert any("few layers" in note for note in run.notes), "not the sizes of the checkpoint"
    with device:
        called(device, run)


def test_narrow_dtypes_keep_in_float32_what_diffusers_keeps() -> None:
    device = open_virtual_device(RELEASE)
    run = built(device, "diffusers:wan2.1-t2v-1.3b/transformer", dtype="bfloat16")
    dtypes = {name: one.dtype for name, one in run.model.named_parameters()}
    assert dtypes["blocks.0.attn1.to_q.weight"] == torch.bfloat16
    assert dtypes["scale_shift_table"] == torch.float32
    training = built(device, "diffusers:flux.1-dev", "training", dtype="float16", lora=True)
    assert {one.dtype for one in training.model.parameters() if one.requires_grad} == {torch.float32}


def test_without_lora_the_whole_denoiser_is_trained() -> None:
    device = open_virtual_device(RELEASE)
    run = built(device, "diffusers:pixart-sigma", "training")
    assert all(one.requires_grad for one in run.model.parameters())
    with device:
        assert called(device, run, trains=True).shape == ()
