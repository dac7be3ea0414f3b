"""A wheel that holds compiled devices is one of their platform; without them it fits everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags


class CompiledDevices(BuildHookInterface[Any]):
    """Names the platform of the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is made."""
        del version
        if any(Path(self.root, "src/mpsprobe_coverage/devices/compiled").glob("*-*")):
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{next(platform_tags())}"
