"""The catalog has the sizes that the checkpoints' model cards state."""

from __future__ import annotations

import pytest
import torch

from mpsprobe_hf.catalog import pipelines
from mpsprobe_hf.diffusers.models import make
from mpsprobe_hf.diffusers.recipe import DENOISERS

# Parameters of the denoiser in billions, as model cards and papers have them.
PUBLISHED = {
    "stable-diffusion-1.5": 0.86,
    "stable-diffusion-1.5-img2img": 0.86,
    "stable-diffusion-inpainting": 0.86,
    "controlnet-canny": 0.86,
    "lcm-dreamshaper": 0.86,
    "stable-diffusion-2.1": 0.87,
    "sdxl": 2.57,
    "sdxl-turbo": 2.57,
    "sdxl-img2img": 2.57,
    "sdxl-inpainting": 2.57,
    "controlnet-canny-sdxl": 2.57,
    "stable-diffusion-3-medium": 2.03,
    "stable-diffusion-3.5-medium": 2.24,  # 2.5 with the table of positions, which is no parameter
    "stable-diffusion-3.5-large": 8.06,
    "flux.1-dev": 11.9,
    "flux.1-schnell": 11.9,
    "flux.1-kontext-dev": 11.9,
    "flux.1-fill-dev": 11.9,
    "flux.2-dev": 32.2,
    "flux.2-klein-4b": 3.88,
    "chroma1-hd": 8.9,
    "qwen-image": 20.4,
    "z-image-turbo": 6.15,
    "pixart-sigma": 0.61,
    "sana-1.6b": 1.6,
    "lumina-image-2.0": 2.61,
    "auraflow": 6.86,
    "wan2.1-t2v-1.3b": 1.42,
    "wan2.1-t2v-14b": 14.3,
    "wan2.1-i2v-14b-480p": 16.4,
    "wan2.2-ti2v-5b": 5.0,
    "wan2.2-t2v-a14b": 14.3,
    "hunyuanvideo": 12.8,
    "ltx-video": 1.92,
    "cogvideox-2b": 1.69,
    "cogvideox-5b": 5.57,
    "animatediff": 0.86,
    "stable-audio-open-1.0": 1.06,
}


@pytest.mark.thorough
def test_every_denoiser_has_its_published_size() -> None:
    counted, known = {}, {}
    for entry in pipelines().values():
        component = next(entry.components[name] for name in DENOISERS if name in entry.components)
        sizes = repr((component.class_name, component.config))
        if sizes not in known:
            with torch.device("meta"):
                known[sizes] = sum(one.numel() for one in make(component, torch.float32, entry.name).parameters())
        counted[entry.name] = known[sizes] / 1e9
    assert counted == {name: pytest.approx(billions, rel=0.01) for name, billions in PUBLISHED.items()}


def test_every_entry_has_what_lists_show() -> None:
    for entry in pipelines().values():
        assert entry.family in ("image", "video", "audio")
        assert "/" in entry.checkpoint and entry.summary.endswith(".")
        assert "scheduler" in entry.components
