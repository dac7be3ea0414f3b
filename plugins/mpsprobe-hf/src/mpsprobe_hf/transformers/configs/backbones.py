"""Backbones of timm where timm is not installed: those that transformers has too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

INSTEAD: Mapping[str, tuple[str, int, Mapping[str, Any]]] = {
    "resnet": ("resnet", 0, {}),
    "swin": ("swin", 1, {"apply_layernorm_after_vision_backbone": False}),  # that of transformers does it itself
}
"""How names in timm begin → the model type in transformers, by how much its stages are numbered higher, and what
differs in the configuration around it."""


def timm_is_installed() -> bool:
    """Whether transformers finds it, and what it needs."""
    from transformers.utils.import_utils import is_timm_available

    return bool(is_timm_available())


def without_timm(config: Any) -> Iterator[str]:
    """Put transformers' own backbones into ``config`` for those of timm, unless timm is installed; says which."""
    from transformers import AutoConfig

    if timm_is_installed():
        return
    for part in (config, *(getattr(config, name, None) for name in getattr(config, "sub_configs", {}))):
        backbone: Any = getattr(part, "backbone_config", None)
        if getattr(backbone, "model_type", "") != "timm_backbone":
            continue
        name = str(backbone.backbone)
        for begins, (model_type, higher, around) in INSTEAD.items():
            if name.startswith(begins):
                stages = [stage + higher for stage in backbone.out_indices]
                part.backbone_config = AutoConfig.for_model(
                    model_type, out_indices=stages, num_channels=backbone.num_channels
                )
                for key in around.keys() & vars(part).keys():
                    setattr(part, key, around[key])
                yield f"with transformers' own {model_type} as its backbone: timm, which has '{name}', is not installed"
