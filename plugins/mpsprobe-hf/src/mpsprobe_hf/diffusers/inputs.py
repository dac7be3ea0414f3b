"""What a pipeline is called with: a prompt, images where it needs them, few steps, its own defaults for the rest."""

from __future__ import annotations

import inspect
import re
from typing import Any

from mpsprobe_hf.diffusers.recipe import Recipe

PROMPT = "a photo of an astronaut riding a horse on the moon, film grain"
STEPS = 3
"""Denoising steps: multistep solvers take another formula in the second step, and again another one in the last."""
STRENGTH = 0.8
"""Of the noise on an image that is given; with less, none of few steps would be left."""
NEEDS_AN_IMAGE = re.compile(
    r"Img2Img|ImageToImage|Inpaint|Fill|Kontext|Edit|Upscale|ImageToVideo|I2V|VideoDiffusion|ControlNet|Control|"
    r"Adapter|Pix2Pix|Depth|Redux|Variation|Marigold|SuperResolution"
)
"""In the names of classes whose ``__call__`` has an image by keyword, and cannot do without."""
UNKNOWN = 1024
"""Pixels a side of an image for a pipeline that does not say which size it makes."""
IMAGES = re.compile(r"(^|_)(image|mask|video)$")
"""Arguments that take pictures."""
USUAL = ("image", "control_image", "control_mask", "mask_image", "original_image", "video")
"""Those that classes with ``NEEDS_AN_IMAGE`` in their name have by keyword, and cannot do without."""
WORDS = re.compile(r"prompt$|category$")
"""Arguments that take texts."""
EMBEDDINGS = re.compile(r"image_embeds$")
"""Arguments that take what a prior makes of a prompt: ``(batch, width)``."""
WIDTHS = ("encoder_hid_dim", "cross_attention_dim")
"""What configurations of denoisers call that width."""


def call_inputs(pipeline: Any, recipe: Recipe, batch_size: int, *, small: bool) -> dict[str, Any]:
    """The arguments of ``pipeline(…)``."""
    given = {**recipe.arguments, **(recipe.small if small else {})}
    parameters = inspect.signature(type(pipeline).__call__).parameters
    inputs = {key: value for key, value in given.items() if key in parameters}
    for name, value in (("num_inference_steps", STEPS), ("strength", STRENGTH)):
        if name in parameters:
            inputs.setdefault(name, value)
    if {"num_frames", "output_type"} <= parameters.keys():
        inputs.setdefault("output_type", "pt")  # hundreds of frames on the CPU take gigabytes, and say nothing of MPS
    if "prompt" in parameters:
        inputs.setdefault("prompt", [PROMPT] * batch_size)
        if isinstance(inputs.get("negative_prompt"), str):
            inputs["negative_prompt"] = [inputs["negative_prompt"]] * batch_size
    images = NEEDS_AN_IMAGE.search(type(pipeline).__name__)
    if not images and {"height", "width"} <= parameters.keys():  # said, so that it can be varied
        inputs = {**inputs, **_sides(pipeline, given, parameters)}
    for name, parameter in list(parameters.items())[1:]:
        required = parameter.default is inspect.Parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if name in inputs or not (required or images):
            continue
        if IMAGES.search(name) and (required or name in USUAL):
            inputs[name] = _picture(name, _size(pipeline, given, parameters), batch_size, "prompt" in parameters)
        elif required and WORDS.search(name):
            inputs[name] = [PROMPT] * batch_size
        elif required and EMBEDDINGS.search(name):
            inputs[name] = _embeddings(pipeline, batch_size)
    return inputs


def _embeddings(pipeline: Any, batch_size: int) -> Any:
    import torch

    config = getattr(getattr(pipeline, "unet", None) or getattr(pipeline, "transformer", None), "config", None)
    widths = (getattr(config, name, None) for name in WIDTHS)
    width = next((width for width in widths if isinstance(width, int)), 768)
    model = next(
        (component for component in pipeline.components.values() if isinstance(component, torch.nn.Module)), None
    )
    return torch.randn(batch_size, width, dtype=getattr(model, "dtype", torch.float32))


def _picture(name: str, size: tuple[int, int], batch_size: int, prompted: bool) -> Any:
    from PIL import Image

    height, width = size
    picture = Image.new("L" if "mask" in name else "RGB", (width, height), 128)
    if name == "video":
        return [picture] * 9
    return picture if prompted and batch_size == 1 else [picture] * batch_size


def _size(pipeline: Any, given: dict[str, Any], parameters: Any) -> tuple[int, int]:
    """Pixels, height and width, that the pipeline makes."""
    sides = _sides(pipeline, given, parameters)
    return sides.get("height", UNKNOWN), sides.get("width", UNKNOWN)


def _sides(pipeline: Any, given: dict[str, Any], parameters: Any) -> dict[str, int]:
    """What of ``height`` and ``width`` it is asked for, or takes by itself."""
    sides = {}
    for side in ("height", "width"):
        default = parameters[side].default if side in parameters else None
        sides[side] = given.get(side) or default or _native(pipeline)
    return {side: size for side, size in sides.items() if isinstance(size, int) and size}


def _native(pipeline: Any) -> int:
    scale = getattr(pipeline, "vae_scale_factor", 8)
    model = getattr(pipeline, "unet", None) or getattr(pipeline, "transformer", None)
    sample = getattr(pipeline, "default_sample_size", None) or getattr(getattr(model, "config", None), "sample_size", 0)
    return int(sample) * scale if isinstance(sample, int) and isinstance(scale, int) else 0
