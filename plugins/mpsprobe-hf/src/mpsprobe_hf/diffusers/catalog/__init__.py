"""Published pipelines with the sizes of their checkpoints, as data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from mpsprobe_hf.diffusers.catalog.entry import Entry


@cache
def entries() -> Mapping[str, Entry]:
    """Every entry by its name."""
    from mpsprobe_hf.diffusers.catalog.audio import audio
    from mpsprobe_hf.diffusers.catalog.image import image
    from mpsprobe_hf.diffusers.catalog.stable_diffusion import stable_diffusion
    from mpsprobe_hf.diffusers.catalog.video import video

    return MappingProxyType({one.name: one for family in (stable_diffusion, image, video, audio) for one in family()})
