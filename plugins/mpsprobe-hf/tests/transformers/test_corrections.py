"""What a model's own error says about its inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import settled
from mpsprobe_hf.transformers.run import make_run

NOTHING: Any = None
FITS: dict[type[Any], dict[str, tuple[int, ...]]] = {}
"""The shapes that the inputs of each model get in the end."""


def model(forward: Any, layer: Callable[[], torch.nn.Module] = torch.nn.Identity, **values: Any) -> type[Any]:
    """A model of its ``forward``, whose first argument is its main input; ``values`` are of its configuration."""

    class Model(torch.nn.Module):
        main_input_name = list(inspect.signature(forward).parameters)[1]
        config = SimpleNamespace(
            **{"model_type": "tiny", "vocab_size": 50, "hidden_size": 8, "image_size": 16, **values}
        )

        def __init__(self) -> None:
            super().__init__()
            self.layer = layer()

    Model.__name__ = forward.__name__
    Model.forward = forward
    return Model


def fits(
    layer: Callable[[], torch.nn.Module] = torch.nn.Identity,
    settings: dict[str, Any] = {},  # noqa: B006 - it is read alone
    **shapes: tuple[int, ...],
) -> Callable[[Any], type[Any]]:
    """``model``, whose inputs get these shapes by what it raises."""

    def made(forward: Any) -> type[Any]:
        FITS[one := model(forward, layer, **settings)] = shapes
        return one

    return made


@fits(input_ids=(2, 128), token_type_ids=(2, 128))
def needs_a_mask(self: Any, input_ids: Any, token_type_ids: Any = NOTHING) -> Any:
    kinds = token_type_ids.sum()  # nothing in its signature says so
    return input_ids.sum() + kinds


@fits(input_ids=(2, 128), bool_masked_pos=(2, 1))
def names_an_argument(self: Any, input_ids: Any, bool_masked_pos: Any = NOTHING) -> Any:
    if bool_masked_pos is NOTHING:
        raise ValueError("You have to specify bool_masked_pos")
    return input_ids


@fits(lambda: torch.nn.Linear(24, 8), input_features=(2, 256, 24))
def reads_wide_frames(self: Any, input_features: Any) -> Any:
    return self.layer(input_features)  # features of 24 numbers, where its configuration says nothing


@fits(lambda: torch.nn.Conv2d(1, 4, 3), pixel_values=(2, 1, 16, 16))
def reads_grey(self: Any, pixel_values: Any) -> Any:
    return self.layer(pixel_values)


@fits(lambda: torch.nn.Linear(3 * 4 * 4, 8), {"patch_size": 4}, pixel_values=(2, 16, 48))
def reads_patches(self: Any, pixel_values: Any) -> Any:
    return self.layer(pixel_values)


@fits(pixel_values=(2, 3, 20, 20))
def tells_which_size(self: Any, pixel_values: Any) -> Any:
    height = pixel_values.shape[-2]
    assert height == 20, f"Input height ({height}) doesn't match model (20)."  # as the patches of timm
    return pixel_values


@fits(pixel_values=(2, 1, 3, 16, 16))
def takes_apart(self: Any, pixel_values: Any) -> Any:
    batch, channels, height, width = pixel_values.flatten(0, 1).shape  # an image in a row of them
    return batch, channels, height, width, pixel_values


@fits(lambda: torch.nn.Linear(32, 8), input_features=(2, 256, 64))
def reads_halved_frames(self: Any, input_features: Any) -> Any:
    return self.layer(input_features[:, :, ::2])  # what it refuses is half of what it was given


@fits(pixel_values=(2, 3, 20, 20))
def has_a_size(self: Any, pixel_values: Any) -> Any:
    height, width = pixel_values.shape[-2:]
    if height != 20:
        raise ValueError(f"Input image size ({height}*{width}) doesn't match model (20*20).")
    return pixel_values


@fits(input_values=(2, 17280))
def reads_multiples(self: Any, input_values: Any) -> Any:
    if input_values.shape[-1] % 1920:
        raise ValueError(f"length {input_values.shape[-1]} is not a multiple of 1920")
    return input_values


@fits(input_features=(2, 300, 80))
def reads_windows(self: Any, input_features: Any) -> Any:
    length = input_features.shape[1]
    if length % 100:
        raise ValueError(f"`padded_feature_length` must be a multiple of `n_window * 2` (100), but got {length}.")
    return input_features


@fits(input_features=(2, 50, 80))
def joins_both(self: Any, input_features: Any) -> Any:
    return torch.cat([input_features, torch.zeros(2, 50, 80)], dim=2)  # frames of sound, and what a codec makes of it


@fits(input_values=(2, 1, 16_000))
def reads_one_channel(self: Any, input_values: Any) -> Any:
    return input_values[:, :, -5:]  # its error says nothing about a channel


@fits(pixel_values=(2, 8, 3, 16, 16))
def reads_video(self: Any, pixel_values: Any) -> Any:
    batch_size, num_frames, num_channels, height, width = pixel_values.shape
    return pixel_values.reshape(batch_size * num_frames, num_channels, height, width)


@fits(pixel_values=(2, 2, 3, 16, 16))
def reads_pairs(self: Any, pixel_values: Any) -> Any:
    if pixel_values.ndim != 5:
        raise ValueError("Input must be a 5D tensor of shape (batch_size, 2, num_channels, height, width)")
    return pixel_values


def in_text(says: str) -> Any:
    """An image of nine features in a text."""

    def forward(self: Any, input_ids: Any, pixel_values: Any = NOTHING) -> Any:
        tokens, features = int((input_ids == 7).sum()), 9 * len(input_ids)
        if tokens != features:
            raise ValueError(says.format(tokens=tokens, features=features))
        return input_ids

    return forward


for _says in (
    "Image features and image tokens do not match, tokens: {tokens}, features: {features}",
    "Got {features} feature vectors for {tokens} placeholder tokens (id 7)",  # which token, not of what it is
):
    fits(settings={"image_token_id": 7}, input_ids=(2, 73), pixel_values=(2, 3, 16, 16))(in_text(_says))


@fits(settings={"patch_size": 4}, pixel_values=(32, 3, 4, 4), image_grid_thw=(2, 3))
def reads_squares(self: Any, pixel_values: Any, image_grid_thw: Any) -> Any:
    patches, channels, height, width = pixel_values.shape  # of all images in one tensor, each a small image
    return pixel_values.reshape(patches, channels * height * width)


@fits(input_ids=(2, 128), pixel_values=(2, 3, 16, 16))
def hears_nothing(self: Any, input_ids: Any, pixel_values: Any = NOTHING, input_features: Any = NOTHING) -> Any:
    def get_audio_features() -> None:
        raise RuntimeError("no audio tower")

    if input_features is not NOTHING:
        get_audio_features()
    return input_ids


@fits(input_ids=(2, 128))
def refuses_images(self: Any, input_ids: Any, pixel_values: Any = NOTHING) -> Any:
    if pixel_values is not NOTHING:
        raise RuntimeError("no such thing")
    return input_ids


@fits(input_ids=(2, 96))
def has_a_length(self: Any, input_ids: Any) -> Any:
    if input_ids.shape[1] != 96:
        raise ValueError("You might want to consider padding your sequence length to 96")
    return input_ids


@fits(input_features=(2, 256, 80))
def reads_one_of_both(self: Any, input_ids: Any = NOTHING, input_features: Any = NOTHING) -> Any:
    if input_ids is not NOTHING and input_features is not NOTHING:  # sounds take the place of a text
        raise ValueError("You cannot specify both input_ids and inputs_embeds at the same time")
    return input_features


@fits(input_ids=(2, 128), use_cache=())
def spoils_its_cache(self: Any, input_ids: Any, use_cache: bool = True) -> Any:
    if use_cache:
        raise RuntimeError("one of the variables has been modified by an inplace operation")
    return input_ids


def run_of(model_class: type[Any], **more: Any) -> TorchRun:
    options = RunOptions(**{"batch_size": 2, **more})
    run = make_run("tiny", model_class, model_class.config, options, model_class)
    return settled(run, options, "cpu", lambda value: value)


@pytest.mark.parametrize("model_class", FITS, ids=lambda one: one.__name__)
def test_inputs_are_corrected(model_class: type[Any]) -> None:
    run = run_of(model_class)
    assert {name: tuple(getattr(value, "shape", ())) for name, value in run.kwargs.items()} == FITS[model_class]
    assert ";" in run.notes[0], "what was learned stands in the report"


@pytest.mark.parametrize(("wanted", "tries"), [(lambda size: size + 1, 13), (lambda size: 36 - size, 3)])
def test_it_ends_and_tries_nothing_again(wanted: Callable[[int], int], tries: int) -> None:
    tried: list[int] = []

    def never_content(self: Any, pixel_values: Any) -> Any:
        tried.append(pixel_values.shape[-1])
        raise ValueError(f"expected {wanted(tried[-1])} pixels, got {tried[-1]}")

    with pytest.raises(ValueError, match="expected"):
        run_of(model(never_content))
    assert len(tried) == tries


def test_one_sample_where_two_are_not_taken() -> None:
    def takes_one_sample(self: Any, pixel_values: Any) -> Any:
        if len(pixel_values) != 1:
            raise RuntimeError("view: not for a batch")
        return pixel_values.mean() * torch.nn.Parameter(torch.ones(()))

    run = run_of(model(takes_one_sample), phase="training", batch_size=None)
    assert run.batch_size == 1 and "one sample" in run.notes[0]


def test_what_computes_no_gradients_is_not_trained() -> None:
    follows = model(torch.inference_mode()(lambda self, pixel_values: pixel_values))
    run_of(follows)
    with pytest.raises(WorkloadError, match="cannot be trained"):
        run_of(follows, phase="training")


def test_what_is_not_about_the_inputs_is_left_alone() -> None:
    def broken(self: Any, pixel_values: Any) -> Any:
        raise RuntimeError("an error that is not about the inputs")

    def refused_by_a_device(self: Any, input_ids: Any, pixel_values: Any = NOTHING) -> Any:
        if pixel_values is not NOTHING:
            raise TypeError("can't convert mps:0 device type tensor to numpy")
        return input_ids

    for forward, error, says in ((broken, RuntimeError, "not about"), (refused_by_a_device, TypeError, "mps:0")):
        with pytest.raises(error, match=says):
            run_of(model(forward))


def test_where_nothing_is_left_to_try_the_notes_name_the_rule_of_each_input() -> None:
    broken = model(lambda self, pixel_values, input_ids=None, labels=None: pixel_values)
    run = make_run("tiny", broken, broken.config, RunOptions(phase="training", batch_size=2), broken)
    assert run.correct is not None and run.correct(RuntimeError("an error that is not about the inputs")) is None
    assert run.notes[-1] == "derived by mpsprobe_hf/transformers/inputs: pixel_values in arguments.toml"


def test_what_nobody_knows_is_named() -> None:
    with pytest.raises(WorkloadError, match="its forward needs mystery") as caught:
        run_of(model(lambda self, mystery: mystery))
    assert "path/to/file.py:function" in str(caught.value.hint) and "arguments.toml" in str(caught.value.hint)
