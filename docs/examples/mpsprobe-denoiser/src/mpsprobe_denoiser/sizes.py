"""How a size is written: ``denoiser:64`` and ``denoiser:64x128``. Imports nothing heavy, as ``plugin.py`` needs it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import printable

PREFIX = "denoiser:"
WIDTH = 32
SIZES, WIDTHS = (16, 1024), (32, 1024)
STEP = 16
HINT = "Write denoiser:PIXELS or denoiser:PIXELSxWIDTH, for example denoiser:96 or denoiser:96x128."


@dataclass(frozen=True, slots=True)
class Size:
    """Of a model: square images of ``pixels`` by ``pixels``, and ``width`` channels at the highest resolution."""

    pixels: int
    width: int = WIDTH


def size_of(name: str) -> Size | None:
    """The size in a name of ours; ``None`` for a name of someone else's.

    Raises:
        WorkloadError: the name is ours, and says no size that can be built.
    """
    if not name.startswith(PREFIX):
        return None
    written = re.fullmatch(r"([0-9]{1,5})(?:x([0-9]{1,5}))?", name.removeprefix(PREFIX))
    if written is None:
        raise WorkloadError(f"'{printable(name)}' does not say how large the images are", HINT)
    size = Size(int(written[1]), int(written[2] or WIDTH))
    for what, value, (least, most) in (("pixels", size.pixels, SIZES), ("width", size.width, WIDTHS)):
        if value % STEP or not least <= value <= most:
            near = min(most, max(least, round(value / STEP) * STEP))
            asked = f"'{printable(name)}' asks for {value} as its {what}"
            raise WorkloadError(asked, f"It is a multiple of {STEP} from {least} to {most}: {near} is the nearest.")
    return size
