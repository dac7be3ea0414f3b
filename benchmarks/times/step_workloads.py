"""Models of published step times that no workload has, as the programs that were timed define them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn

VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)


def vgg16_bn(batch: int, _: int | None) -> tuple[nn.Module, Any]:
    """VGG-16 with batch norm and ten classes, on images (N, 3, 224, 224)."""
    layers: list[nn.Module] = []
    channels = 3
    for width in VGG16:
        if not width:
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        channels = width
    head = [nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout()]
    return nn.Sequential(*layers, nn.Flatten(), *head, nn.Linear(4096, 10)), torch.zeros(batch, 3, 224, 224)


def distilbert_last_layer(batch: int, length: int | None) -> tuple[nn.Module, Any]:
    """DistilBERT of which the last of six layers and the classifier are trained."""
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    model = DistilBertForSequenceClassification(DistilBertConfig())
    model.requires_grad_(False)
    for part in (model.distilbert.transformer.layer[-1], model.pre_classifier, model.classifier):
        part.requires_grad_(True)
    tokens = torch.zeros(batch, length or 512, dtype=torch.int64)
    labels = torch.zeros(batch, dtype=torch.int64)
    return model, {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}


class Attention(nn.Module):
    """Self-attention of 32 heads, hidden size 4096, written out in products and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Parameter(torch.empty(4096, 3 * 4096))
        self.out = nn.Parameter(torch.empty(4096, 4096))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, hidden = x.shape
        query, key, value = (
            part.view(batch, length, 32, 128).transpose(1, 2) for part in (x @ self.qkv).chunk(3, dim=-1)
        )
        weights = torch.softmax((query @ key.transpose(-2, -1)) * 128**-0.5, dim=-1)
        return (weights @ value).transpose(1, 2).contiguous().view(batch, length, hidden) @ self.out


class GatedMlp(nn.Module):
    """Mistral's: 4096 to 14336 twice, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.gate = (nn.Parameter(torch.empty(4096, 14336)) for _ in range(2))
        self.down = nn.Parameter(torch.empty(14336, 4096))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (nn.functional.silu(x @ self.gate) * (x @ self.up)) @ self.down


class Tracked(nn.Module):
    """A part whose input takes a gradient, as one in the middle of a model does."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x.detach().requires_grad_() if torch.is_grad_enabled() else x)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(), GatedMlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(x)
        return x + self.mlp(x)


def _of(module: type[nn.Module], batch: int, length: int | None) -> tuple[nn.Module, Any]:
    return Tracked(module()).half(), torch.zeros(batch, length or 256, 4096, dtype=torch.float16)


def transformer_block(batch: int, length: int | None) -> tuple[nn.Module, Any]:
    return _of(Block, batch, length)


def gated_mlp(batch: int, length: int | None) -> tuple[nn.Module, Any]:
    return _of(GatedMlp, batch, length)


def attention_block(batch: int, length: int | None) -> tuple[nn.Module, Any]:
    return _of(Attention, batch, length)


class BasicBlock(nn.Module):
    """Two convolutions of 3x3 and a shortcut, which is padded where the number of channels doubles."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.wider = out - channels
        self.first = nn.Conv2d(channels, out, 3, 2 if self.wider else 1, 1, bias=False)
        self.second = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(out) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[1](self.second(torch.relu(self.norms[0](self.first(x)))))
        if self.wider:
            x = nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.wider // 2, self.wider // 2))
        return torch.relu(x + y)


def _cifar_resnet(blocks: int, batch: int) -> tuple[nn.Module, Any]:
    """He's ResNets for images (N, 3, 32, 32), with three groups of ``blocks``."""
    widths = [16, *[16] * blocks, *[32] * blocks, *[64] * blocks]
    body = [BasicBlock(*pair) for pair in pairwise(widths)]
    stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*stem, *body, *head), torch.zeros(batch, 3, 32, 32)


def cifar_resnet20(batch: int, _: int | None) -> tuple[nn.Module, Any]:
    return _cifar_resnet(3, batch)


def cifar_resnet44(batch: int, _: int | None) -> tuple[nn.Module, Any]:
    return _cifar_resnet(7, batch)


def cifar_resnet110(batch: int, _: int | None) -> tuple[nn.Module, Any]:
    return _cifar_resnet(18, batch)


def sd_unet(batch: int, side: int | None) -> tuple[nn.Module, Any]:
    """The U-Net of Stable Diffusion 1 on latents (N, 4, side, side); its attention written out, as it was in 2022."""
    from diffusers import UNet2DConditionModel
    from diffusers.models.attention_processor import AttnProcessor

    model = UNet2DConditionModel(cross_attention_dim=768)
    model.set_attn_processor(AttnProcessor())
    side = side or 64
    sample, text = torch.zeros(batch, 4, side, side), torch.zeros(batch, 77, 768)
    return model, {"sample": sample, "timestep": torch.zeros(batch), "encoder_hidden_states": text}
