"""What torchvision's models do, by the package that they are in: their inputs, and what they are trained with.

Making a quantized model takes real weights: torchvision observes a random picture and packs them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from mpsprobe_hf import losses
from mpsprobe_hf.tensors import noise

NOTE = (
    "converted (quantize=True): PyTorch has quantized kernels for the CPU alone, so on MPS the run stops at the first "
    "of them; with quantize=False, as in training, the model is an ordinary one"
)
TRAINED = "not converted (quantize=False): trained in floating point"


@contextmanager
def with_real_weights() -> Iterator[None]:
    """What is made in here is real and on the CPU, whatever device torch is asked for by a context.

    ``quantize_model`` of torchvision chooses an engine for the whole process, and ``torch.ao.quantization`` warns that
    it will move to another package: both are undone.
    """
    engine = torch.backends.quantized.engine
    try:
        with torch._C.DisableTorchFunction(), warnings.catch_warnings():  # devices and modes are torch functions
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.quantized.engine = engine


PHOTO = (480, 640)
"""Height and width of most pictures of COCO; a detector resizes them itself."""
OBJECTS = 5
"""In each picture that a detector is trained with."""
FLOW = (520, 960)
"""What torchvision's gallery resizes frames to before it estimates optical flow; both are multiples of 8."""
CLASSES = 91
"""Of COCO, with the background, which torchvision's detectors have by default."""


@dataclass(frozen=True, slots=True)
class Case:
    """What inputs are made for."""

    model: Any  # of torchvision
    weights: Any  # its newest, which say what they were evaluated with
    batch: int  # samples
    dtype: torch.dtype  # of pictures
    training: bool  # with targets, where the model takes them

    @property
    def size(self) -> tuple[int, int]:
        """Height and width after the transforms of the weights; the model's own where it has one."""
        if own := getattr(self.model, "image_size", None):
            return (own, own)
        stated: Mapping[str, Any] = getattr(self.weights.transforms, "keywords", {})
        size = stated.get("crop_size", stated.get("resize_size", 224))
        return (size, size) if isinstance(size, int) else tuple(size)


@dataclass(frozen=True, slots=True)
class Task:
    """One package of ``torchvision.models``."""

    inputs: Callable[[Case], tuple[Any, ...]]  # makes the arguments of the model
    loss: Callable[[Any], torch.Tensor]  # from what the model returned in training to what ``backward`` is called on
    trained: str  # says so, for the report
    batch: int = 8  # samples in a step of training
    infers: tuple[str, ...] = ()  # what a reader of a report on inference should know


def pictures(case: Case) -> tuple[Any, ...]:
    """A batch ``(batch, 3, height, width)``."""
    return (noise((case.batch, 3, *case.size), case.dtype),)


def clips(case: Case) -> tuple[Any, ...]:
    """A batch ``(batch, 3, frames, height, width)``, with as many frames as the text of the weights says."""
    stated = re.search(r"clip_len=(\d+)", case.weights.meta.get("_docs", ""))
    frames = int(stated[1]) if stated else 16
    return (noise((case.batch, 3, frames, *case.size), case.dtype),)


def photos(case: Case) -> tuple[Any, ...]:
    """A list of pictures ``(3, height, width)``, and in training a list of what is in each."""
    made = [photo(*PHOTO, case.dtype) for _ in range(case.batch)]
    if not case.training:
        return (made,)
    heads = getattr(case.model, "roi_heads", None)
    masks = heads is not None and heads.has_mask()
    keypoints = heads.keypoint_predictor.kps_score_lowres.out_channels if heads and heads.has_keypoint() else 0
    classes = 2 if keypoints else CLASSES
    make = partial(objects, OBJECTS, *PHOTO, classes=classes, masks=masks, keypoints=keypoints)
    return made, [make() for _ in range(case.batch)]


def frames(case: Case) -> tuple[Any, ...]:
    """Two batches ``(batch, 3, height, width)``, the second a moment later."""
    return tuple(noise((case.batch, 3, *FLOW), case.dtype) for _ in range(2))


def photo(height: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """A picture as detectors take it, ``(3, height, width)``: numbers between 0 and 1, which the model normalises."""
    return (noise((3, height, width), torch.float32) + 1).div(2).to(dtype)


def objects(
    count: int, height: int, width: int, *, classes: int, masks: bool, keypoints: int
) -> dict[str, torch.Tensor]:
    """What a detector of torchvision is trained with for one picture.

    Args:
        count: of objects, side by side.
        height, width: of the picture.
        classes: how many there are, with the background, which is class 0.
        masks: whether each object has a mask, uint8 ``(count, height, width)``.
        keypoints: how many each object has, ``(count, keypoints, 3)``; 0 for none.

    Returns:
        ``boxes`` ``(count, 4)`` as left, top, right and bottom in pixels, ``labels`` int64 ``(count,)``, and the rest.
        Boxes and keypoints are float32, whatever the model is: torchvision refuses keypoints in anything else.
    """
    step = width / count
    left = torch.arange(count, dtype=torch.float32) * step
    ones = torch.ones(count, dtype=torch.float32)
    boxes = torch.stack([left, ones * (height / 4), left + 0.75 * step, ones * (height * 3 / 4)], dim=1)
    target = {"boxes": boxes, "labels": torch.arange(count) % (classes - 1) + 1}
    if masks:
        columns = torch.arange(width).reshape(1, 1, width).expand(count, height, width)
        target["masks"] = (columns * count // width == torch.arange(count).reshape(count, 1, 1)).to(torch.uint8)
    if keypoints:
        places = torch.stack([boxes[:, 0] + step / 4, boxes[:, 1] + height / 4, ones], dim=1)
        target["keypoints"] = places.unsqueeze(1).repeat(1, keypoints, 1)
    return target


SCORES = "trained with cross-entropy of the class scores"
TASKS: dict[str, Task] = {
    "classification": Task(pictures, losses.of_scores, SCORES),
    "quantization": Task(pictures, losses.of_scores, f"{TRAINED}; {SCORES}", infers=(NOTE,)),
    "video": Task(clips, losses.of_scores, SCORES, batch=2),
    "segmentation": Task(pictures, losses.of_pixels, "trained with cross-entropy of each pixel's class scores"),
    "detection": Task(photos, losses.of_parts, f"trained with {OBJECTS} objects in each picture", batch=2),
    "optical_flow": Task(frames, losses.of_flows, "trained with the distance of all its estimates from no movement", 2),
}
