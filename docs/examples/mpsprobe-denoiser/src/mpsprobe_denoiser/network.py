"""A U-Net that predicts the noise in an image: residual blocks, attention where the image is small, and shortcuts."""

from __future__ import annotations

import math

import torch
from torch import nn

CHANNELS = 3
GROUPS, HEADS = 8, 4
MULTIPLES = (1, 2, 2, 4)
"""Channels at each resolution, as multiples of the width; each one has half the pixels of the one before."""
ATTENTION_FROM = 2
"""The first resolution with attention; above it there would be too many pixels to attend to."""


class Residual(nn.Module):
    """Two convolutions and a shortcut; an input says how noisy the image is."""

    def __init__(self, channels: int, out_channels: int, embedding: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(GROUPS, channels), nn.SiLU(), nn.Conv2d(channels, out_channels, 3, padding=1)
        )
        self.noise = nn.Linear(embedding, out_channels)
        self.second = nn.Sequential(
            nn.GroupNorm(GROUPS, out_channels), nn.SiLU(), nn.Conv2d(out_channels, out_channels, 3, padding=1)
        )
        self.shortcut = nn.Conv2d(channels, out_channels, 1) if channels != out_channels else nn.Identity()

    def forward(self, image: torch.Tensor, noisiness: torch.Tensor) -> torch.Tensor:
        """(batch, channels, height, width) in, the same with ``out_channels`` out."""
        inner: torch.Tensor = self.first(image) + self.noise(noisiness)[:, :, None, None]
        inner = self.second(inner)
        shortcut: torch.Tensor = self.shortcut(image)
        return shortcut + inner


class Attention(nn.Module):
    """Every pixel looks at every other one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """(batch, channels, height, width) in and out."""
        q, k, v = self.qkv(self.norm(image)).flatten(2).unflatten(1, (3, HEADS, -1)).transpose(-1, -2).unbind(1)
        seen = nn.functional.scaled_dot_product_attention(q, k, v)
        found: torch.Tensor = self.out(seen.transpose(-1, -2).flatten(1, 2).unflatten(-1, image.shape[-2:]))
        return image + found


class Level(nn.Module):
    """One resolution on the way down or up."""

    def __init__(self, channels: int, out_channels: int, embedding: int, attends: bool) -> None:
        super().__init__()
        self.residual = Residual(channels, out_channels, embedding)
        self.attention = Attention(out_channels) if attends else nn.Identity()

    def forward(self, image: torch.Tensor, noisiness: torch.Tensor) -> torch.Tensor:
        """(batch, channels, height, width) in, the same with ``out_channels`` out."""
        out: torch.Tensor = self.attention(self.residual(image, noisiness))
        return out


class UNet(nn.Module):
    """Predicts the noise in images.

    Args:
        width: channels at the highest resolution, a multiple of 8.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        embedding = 4 * width
        sizes = [width * multiple for multiple in MULTIPLES]
        self.width = width
        self.embed = nn.Sequential(nn.Linear(width, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        self.enter = nn.Conv2d(CHANNELS, width, 3, padding=1)
        befores = [width, *sizes[:-1]]
        self.down = nn.ModuleList(
            Level(before, size, embedding, level >= ATTENTION_FROM)
            for level, (before, size) in enumerate(zip(befores, sizes, strict=True))
        )
        self.shrink = nn.ModuleList(nn.Conv2d(size, size, 3, stride=2, padding=1) for size in sizes[:-1])
        self.middle = Level(sizes[-1], sizes[-1], embedding, True)
        self.up = nn.ModuleList(
            Level(2 * size, before, embedding, level >= ATTENTION_FROM)
            for level, (before, size) in enumerate(zip(befores, sizes, strict=True))
        )
        self.leave = nn.Sequential(nn.GroupNorm(GROUPS, width), nn.SiLU(), nn.Conv2d(width, CHANNELS, 3, padding=1))

    def forward(self, image: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """The noise in ``image``, of its shape: (batch, 3, height, width), both multiples of 8.

        Args:
            time: how noisy each image of the batch is, in the dtype of the image.
        """
        noisiness = self.embed(waves(time, self.width))
        image = self.enter(image)
        kept = []
        for level, down in enumerate(self.down):
            image = down(image, noisiness)
            kept.append(image)
            if level < len(self.shrink):
                image = self.shrink[level](image)
        image = self.middle(image, noisiness)
        for level in reversed(range(len(self.up))):
            image = self.up[level](torch.cat([image, kept[level]], dim=1), noisiness)
            if level:
                image = nn.functional.interpolate(image, scale_factor=2.0, mode="nearest")
        out: torch.Tensor = self.leave(image)
        return out


def waves(time: torch.Tensor, size: int) -> torch.Tensor:
    """``time`` (batch) as sines and cosines of ``size // 2`` frequencies: (batch, ``size``)."""
    half = size // 2
    frequencies = torch.exp(torch.arange(half, device=time.device, dtype=time.dtype) * (-math.log(10_000) / half))
    angles = time[:, None] * frequencies[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
