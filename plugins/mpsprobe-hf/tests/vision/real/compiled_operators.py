"""torchvision, also where its compiled operators do not load: a build for CUDA with a torch for the CPU, for example.

Then their schemas are declared, as ``torchvision/csrc/ops`` has them. That is enough to judge models: the kernels that
are judged are those of the tables, and sizes follow from torchvision's own meta kernels. Only ``nms`` is run.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any
from unittest import mock

import torch

POOLED = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
CONVOLUTION = (
    "Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, "
    "SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)
SCHEMAS = (
    "_cuda_version() -> int",
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align(Tensor input, Tensor rois, {POOLED}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward(Tensor grad, Tensor rois, {POOLED}, {SIZES}, int sampling_ratio, bool aligned) -> Tensor",
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, "
    f"int rois_zero_point, {POOLED}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool(Tensor input, Tensor rois, {POOLED}) -> (Tensor, Tensor)",
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {POOLED}, {SIZES}) -> Tensor",
    f"ps_roi_align(Tensor input, Tensor rois, {POOLED}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {POOLED}, int sampling_ratio, {SIZES})"
    " -> Tensor",
    f"ps_roi_pool(Tensor input, Tensor rois, {POOLED}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {POOLED}, {SIZES}) -> Tensor",
    f"deform_conv2d(Tensor input, Tensor weight, {CONVOLUTION}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, {CONVOLUTION})"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
OF_THE_CPU = ("nms", *(schema.partition("(")[0] for schema in SCHEMAS[3:] if not schema.startswith("q")))
"""What has a kernel for the CPU, which a missing one can fall back to."""
_kept: list[torch.library.Library] = []


def import_torchvision() -> None:
    """Import it, with declared operators where the compiled ones do not load."""
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None and spec.origin is not None
    try:
        for library in Path(spec.origin).parent.glob("_C*"):
            torch.ops.load_library(library)
        has_operators = hasattr(torch.ops.torchvision, "nms")
    except OSError:
        has_operators = False
    if has_operators:
        importlib.import_module("torchvision")
        return
    library = torch.library.Library("torchvision", "DEF")
    _kept.append(library)
    for schema in SCHEMAS:
        library.define(schema)
    library.impl("_cuda_version", lambda: -1, "CompositeImplicitAutograd")
    for name in OF_THE_CPU:
        library.impl(name, _nms if name == "nms" else _not_compiled, "CPU")
    with mock.patch("torch.ops.load_library"):  # torchvision asks whether that raises
        importlib.import_module("torchvision")


def _not_compiled(*args: Any) -> None:
    raise NotImplementedError("declared only")


def _nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """The best boxes, without those that cover too much of a better one."""
    order = scores.argsort(stable=True, descending=True)
    boxes = dets[order].double()
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    gone, kept = torch.zeros(len(order), dtype=torch.bool), []
    for i in range(len(order)):
        if not gone[i]:
            kept.append(i)
            sides = torch.minimum(boxes[i, 2:], boxes[i:, 2:]) - torch.maximum(boxes[i, :2], boxes[i:, :2])
            common = sides.clamp(min=0).prod(1)
            gone[i:] |= common / (area[i] + area[i:] - common) > iou_threshold
    return order[kept]
