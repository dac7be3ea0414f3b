"""What a model's own error says about its inputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import settled
from mpsprobe_hf.auto_models.run import make_run

NOTHING: Any = None


def config(**values: Any) -> Any:
    return SimpleNamespace(**{"model_type": "tiny", "vocab_size": 50, "hidden_size": 8, "image_size": 16, **values})


class Model(torch.nn.Module):
    """Says what it wants as models of transformers do."""

    main_input_name = "pixel_values"
    values: Any = config()


class NeedsAMask(Model):
    """Nothing in its signature says so."""

    main_input_name = "input_ids"

    def forward(self, input_ids: Any, token_type_ids: Any = NOTHING) -> Any:
        kinds = token_type_ids.sum()
        return input_ids.sum() + kinds


class NamesAnArgument(Model):
    main_input_name = "input_ids"

    def forward(self, input_ids: Any, bool_masked_pos: Any = NOTHING) -> Any:
        if bool_masked_pos is NOTHING:
            raise ValueError("You have to specify bool_masked_pos")
        return input_ids


class ReadsWideFrames(Model):
    """Features of 24 numbers, where its configuration says nothing."""

    main_input_name = "input_features"

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(24, 8)

    def forward(self, input_features: Any) -> Any:
        return self.linear(input_features)


class ReadsGrey(Model):
    """Images of one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)

    def forward(self, pixel_values: Any) -> Any:
        return self.conv(pixel_values)


class ReadsPatches(Model):
    """A linear layer takes the values of a patch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3 * 4 * 4, 8)

    values = config(patch_size=4)

    def forward(self, pixel_values: Any) -> Any:
        return self.linear(pixel_values)


class TellsWhichSize(Model):
    """As the patches of timm."""

    def forward(self, pixel_values: Any) -> Any:
        height = pixel_values.shape[-2]
        assert height == 20, f"Input height ({height}) doesn't match model (20)."
        return pixel_values


class TakesApart(Model):
    """An image in a row of them."""

    def forward(self, pixel_values: Any) -> Any:
        batch, channels, height, width = pixel_values.flatten(0, 1).shape
        return batch, channels, height, width, pixel_values


class ReadsHalvedFrames(Model):
    """What it refuses is half of what it was given."""

    main_input_name = "input_features"

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(32, 8)

    def forward(self, input_features: Any) -> Any:
        return self.linear(input_features[:, :, ::2])


class HasASize(Model):
    def forward(self, pixel_values: Any) -> Any:
        height, width = pixel_values.shape[-2:]
        if height != 20:
            raise ValueError(f"Input image size ({height}*{width}) doesn't match model (20*20).")
        return pixel_values


class ReadsMultiples(Model):
    main_input_name = "input_values"

    def forward(self, input_values: Any) -> Any:
        if input_values.shape[-1] % 1920:
            raise ValueError(f"length {input_values.shape[-1]} is not a multiple of 1920")
        return input_values


class ReadsWindows(Model):
    main_input_name = "input_features"

    def forward(self, input_features: Any) -> Any:
        length = input_features.shape[1]
        if length % 100:
            raise ValueError(f"`padded_feature_length` must be a multiple of `n_window * 2` (100), but got {length}.")
        return input_features


class JoinsBoth(Model):
    """Frames of sound as long as what a codec makes of the wave."""

    main_input_name = "input_features"

    def forward(self, input_features: Any) -> Any:
        return torch.cat([input_features, torch.zeros(2, 50, 80)], dim=2)


class ReadsOneChannel(Model):
    """Its error says nothing about a channel."""

    main_input_name = "input_values"

    def forward(self, input_values: Any) -> Any:
        return input_values[:, :, -5:]


class ReadsVideo(Model):
    def forward(self, pixel_values: Any) -> Any:
        batch_size, num_frames, num_channels, height, width = pixel_values.shape
        return pixel_values.reshape(batch_size * num_frames, num_channels, height, width)


class ReadsPairs(Model):
    def forward(self, pixel_values: Any) -> Any:
        if pixel_values.ndim != 5:
            raise ValueError("Input must be a 5D tensor of shape (batch_size, 2, num_channels, height, width)")
        return pixel_values


class ReadsImagesInText(Model):
    """An image of nine features."""

    main_input_name = "input_ids"
    values = config(image_token_id=7)

    def forward(self, input_ids: Any, pixel_values: Any = NOTHING) -> Any:
        tokens = int((input_ids == 7).sum())
        if tokens != 9 * len(input_ids):
            features = 9 * len(input_ids)
            raise ValueError(f"Image features and image tokens do not match, tokens: {tokens}, features: {features}")
        return input_ids


class ReadsSquares(Model):
    """The patches of all images in one tensor, each a small image."""

    values = config(patch_size=4)

    def forward(self, pixel_values: Any, image_grid_thw: Any) -> Any:
        patches, channels, height, width = pixel_values.shape
        return pixel_values.reshape(patches, channels * height * width)


class HearsNothing(Model):
    """Sees images, and has no part for sounds."""

    main_input_name = "input_ids"

    def get_audio_features(self) -> None:
        raise RuntimeError("no audio tower")

    def forward(self, input_ids: Any, pixel_values: Any = NOTHING, input_features: Any = NOTHING) -> Any:
        if input_features is not NOTHING:
            self.get_audio_features()
        return input_ids


class RefusesImages(Model):
    main_input_name = "input_ids"

    def forward(self, input_ids: Any, pixel_values: Any = NOTHING) -> Any:
        if pixel_values is not NOTHING:
            raise RuntimeError("no such thing")
        return input_ids


class CountsTokens(ReadsImagesInText):
    """Says which token it means, not of what it is."""

    def forward(self, input_ids: Any, pixel_values: Any = NOTHING) -> Any:
        tokens, features = int((input_ids == 7).sum()), 9 * len(input_ids)
        if tokens != features:
            raise ValueError(f"Got {features} feature vectors for {tokens} placeholder tokens (id 7)")
        return input_ids


class HasALength(Model):
    main_input_name = "input_ids"

    def forward(self, input_ids: Any) -> Any:
        if input_ids.shape[1] != 96:
            raise ValueError("You might want to consider padding your sequence length to 96")
        return input_ids


class ReadsOneOfBoth(Model):
    """Sounds take the place of a text."""

    main_input_name = "input_ids"

    def forward(self, input_ids: Any = NOTHING, input_features: Any = NOTHING) -> Any:
        if input_ids is not NOTHING and input_features is not NOTHING:
            raise ValueError("You cannot specify both input_ids and inputs_embeds at the same time")
        return input_features


class SpoilsItsCache(Model):
    main_input_name = "input_ids"

    def forward(self, input_ids: Any, use_cache: bool = True) -> Any:
        if use_cache:
            raise RuntimeError("one of the variables has been modified by an inplace operation")
        return input_ids


FITS: dict[type[Model], dict[str, tuple[int, ...]]] = {
    NeedsAMask: {"input_ids": (2, 128), "token_type_ids": (2, 128)},
    NamesAnArgument: {"input_ids": (2, 128), "bool_masked_pos": (2, 1)},
    ReadsWideFrames: {"input_features": (2, 256, 24)},
    ReadsGrey: {"pixel_values": (2, 1, 16, 16)},
    ReadsPatches: {"pixel_values": (2, 16, 48)},
    TellsWhichSize: {"pixel_values": (2, 3, 20, 20)},
    TakesApart: {"pixel_values": (2, 1, 3, 16, 16)},
    ReadsHalvedFrames: {"input_features": (2, 256, 64)},
    HasASize: {"pixel_values": (2, 3, 20, 20)},
    ReadsMultiples: {"input_values": (2, 17280)},
    ReadsWindows: {"input_features": (2, 300, 80)},
    JoinsBoth: {"input_features": (2, 50, 80)},
    ReadsOneChannel: {"input_values": (2, 1, 16_000)},
    ReadsVideo: {"pixel_values": (2, 8, 3, 16, 16)},
    ReadsPairs: {"pixel_values": (2, 2, 3, 16, 16)},
    ReadsImagesInText: {"input_ids": (2, 73), "pixel_values": (2, 3, 16, 16)},
    ReadsSquares: {"pixel_values": (32, 3, 4, 4), "image_grid_thw": (2, 3)},
    CountsTokens: {"input_ids": (2, 73), "pixel_values": (2, 3, 16, 16)},
    HasALength: {"input_ids": (2, 96)},
    ReadsOneOfBoth: {"input_features": (2, 256, 80)},
    SpoilsItsCache: {"input_ids": (2, 128), "use_cache": ()},
    HearsNothing: {"input_ids": (2, 128), "pixel_values": (2, 3, 16, 16)},
    RefusesImages: {"input_ids": (2, 128)},
}


def run_of(model_class: type[Model]) -> TorchRun:
    options = RunOptions(batch_size=2)
    run = make_run("tiny", model_class, model_class.values, options, model_class)
    return settled(run, options, "cpu", lambda value: value)


@pytest.mark.parametrize("model_class", FITS, ids=lambda one: one.__name__)
def test_inputs_are_corrected(model_class: type[Model]) -> None:
    run = run_of(model_class)
    assert {name: tuple(getattr(value, "shape", ())) for name, value in run.kwargs.items()} == FITS[model_class]
    assert ";" in run.notes[0], "what was learned stands in the report"


class NeverContent(Model):
    tries = 0

    def forward(self, pixel_values: Any) -> Any:
        type(self).tries += 1
        size = pixel_values.shape[-1]
        raise ValueError(f"expected {size + 1} pixels, got {size}")


def test_it_ends() -> None:
    with pytest.raises(ValueError, match="expected"):
        run_of(NeverContent)
    assert NeverContent.tries <= 13


class WantsTheOther(Model):
    tries = 0

    def forward(self, pixel_values: Any) -> Any:
        type(self).tries += 1
        size = pixel_values.shape[-1]
        raise ValueError(f"expected {36 - size} pixels, got {size}")


def test_what_was_tried_is_not_tried_again() -> None:
    with pytest.raises(ValueError, match="expected"):
        run_of(WantsTheOther)
    assert WantsTheOther.tries == 3


class TakesOneSample(Model):
    def forward(self, pixel_values: Any) -> Any:
        if len(pixel_values) != 1:
            raise RuntimeError("view: not for a batch")
        return pixel_values.mean() * torch.nn.Parameter(torch.ones(()))


def test_one_sample_where_two_are_not_taken() -> None:
    options = RunOptions(phase="training")
    run = make_run("tiny", TakesOneSample, TakesOneSample.values, options, TakesOneSample)
    assert run.batch_size == 2 and run.correct is not None
    run = settled(run, options, "cpu", lambda value: value)
    assert run.batch_size == 1 and "one sample" in run.notes[0]


class Follows(Model):
    @torch.inference_mode()
    def forward(self, pixel_values: Any) -> Any:
        return pixel_values


def test_what_computes_no_gradients_is_not_trained() -> None:
    make_run("tiny", Follows, Follows.values, RunOptions(), Follows)
    with pytest.raises(WorkloadError, match="cannot be trained"):
        make_run("tiny", Follows, Follows.values, RunOptions(phase="training"), Follows)


class Broken(Model):
    def forward(self, pixel_values: Any) -> Any:
        raise RuntimeError("an error that is not about the inputs")


def test_other_errors_are_left_alone() -> None:
    with pytest.raises(RuntimeError, match="not about the inputs"):
        run_of(Broken)


class Refused(Model):
    main_input_name = "input_ids"

    def forward(self, input_ids: Any, pixel_values: Any = NOTHING) -> Any:
        if pixel_values is not NOTHING:
            raise TypeError("can't convert mps:0 device type tensor to numpy")
        return input_ids


def test_what_a_device_refuses_is_not_left_out() -> None:
    with pytest.raises(TypeError, match="mps:0"):
        run_of(Refused)


class NeedsAMystery(Model):
    def forward(self, mystery: Any) -> Any:
        return mystery


def test_what_nobody_knows_is_named() -> None:
    with pytest.raises(WorkloadError, match="its forward needs mystery") as caught:
        run_of(NeedsAMystery)
    assert "path/to/file.py:function" in str(caught.value.hint)
