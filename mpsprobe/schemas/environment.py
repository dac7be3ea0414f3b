"""Where a report was made."""

from __future__ import annotations

from pydantic import Field

from mpsprobe.schemas.record import Record


class Environment(Record):
    """Versions of what took part; ``None`` for what was not installed or not used.

    The release that traced the operators need not be the one that was judged: compositions differ a little between
    releases.
    """

    mpsprobe: str = Field(description="Its version.")
    python: str = Field(description="Its version.")
    platform: str = Field(description="System and processor (`macos-14.5-arm64`, `linux-x86_64`).")
    torch: str | None = Field(default=None, description="The release that traced or ran.")
    torch_build: str | None = Field(default=None, description="Local part of its version (`cpu`, `cu128`), if any.")
    transformers: str | None = Field(default=None, description="Its version.")
    torchvision: str | None = Field(default=None, description="Its version.")
    tensorflow: str | None = Field(default=None, description="The release that traced, where it did.")
    keras: str | None = Field(default=None, description="Its version, likewise.")
