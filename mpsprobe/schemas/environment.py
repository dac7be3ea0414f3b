"""Where a report was made."""

from __future__ import annotations

from mpsprobe.schemas.record import Record


class Environment(Record):
    """Versions of what took part; ``None`` for what was not installed or not used.

    The release that traced the operators need not be the one that was judged: compositions differ a little between
    releases.

    Attributes:
        mpsprobe: its version.
        python: its version.
        platform: system and processor (``macos-14.5-arm64``, ``linux-x86_64``).
        torch: the release that traced or ran.
        torch_build: the local part of its version (``cpu``, ``cu128``), which wheels for macOS do not have.
        transformers: its version.
        torchvision: its version.
        tensorflow: the release that traced, where it did.
        keras: its version, likewise.
    """

    mpsprobe: str
    python: str
    platform: str
    torch: str | None = None
    torch_build: str | None = None
    transformers: str | None = None
    torchvision: str | None = None
    tensorflow: str | None = None
    keras: str | None = None
