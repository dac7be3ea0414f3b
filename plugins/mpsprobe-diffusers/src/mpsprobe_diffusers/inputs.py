"""What a pipeline is called with: a prompt, images where it needs them, few steps, its own defaults for the rest."""

from __future__ import annotations

import inspect
import re
from typing import Any

from mpsprobe_diffusers.recipe import Recipe

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
IMAGES = ("image", "control_image", "mask_image", "video")


def call_inputs(pipeline: Any, recipe: Recipe, batch_size: int, *, small: bool) -> dict[str, Any]:
    """The arguments of ``pipeline(…)``."""
    given = {**recipe.inputs, **(recipe.small if small else {})}
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
    for name in IMAGES:
        parameter = parameters.get(name)
        if parameter is not None and name not in inputs and (images or parameter.default is inspect.Parameter.empty):
            inputs[name] = _picture(name, _size(pipeline, given, parameters), batch_size, "prompt" in parameters)
    return inputs


def _picture(name: str, size: tuple[int, int], batch_size: int, prompted: bool) -> Any:
    from PIL import Image

    height, width = size
    picture = Image.new("L" if name == "mask_image" else "RGB", (width, height), 128)
    if name == "video":
        return [picture] * 9
    return picture if prompted and batch_size == 1 else [picture] * batch_size


def _size(pipeline: Any, given: dict[str, Any], parameters: Any) -> tuple[int, int]:
    """Pixels, height and width, that the pipeline makes."""
    sides = []
    for side in ("height", "width"):
        default = parameters[side].default if side in parameters else None
        sides.append(given.get(side) or default or _native(pipeline))
    return sides[0], sides[1]


def _native(pipeline: Any) -> int:
    scale = getattr(pipeline, "vae_scale_factor", 8)
    model = getattr(pipeline, "unet", None) or getattr(pipeline, "transformer", None)
    sample = getattr(pipeline, "default_sample_size", None) or getattr(getattr(model, "config", None), "sample_size", 0)
    return int(sample) * scale if isinstance(sample, int) and sample else 1024
