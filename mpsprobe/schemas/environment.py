"""Where a report was made."""

from __future__ import annotations

from mpsprobe.schemas.record import Record


class Environment(Record):
    """Versions of what took part; ``None`` for what was not installed or not used.

    ``torch`` is the release that traced the operators, which need not be the one that was judged:
    compositions differ a little between releases. ``torch_build`` is the local part of its version
    (``cpu``, ``cu128``), which wheels for macOS do not have.
    """

    mpsprobe: str
    python: str
    platform: str
    torch: str | None = None
    torch_build: str | None = None
    transformers: str | None = None
    torchvision: str | None = None
