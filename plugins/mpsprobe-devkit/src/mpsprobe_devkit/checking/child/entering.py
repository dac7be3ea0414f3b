"""Imports the thin module of a plugin as mpsprobe does."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

from mpsprobe.declarations import resolve
from mpsprobe.plugins.discovery import FoundPlugin


def found_plugin(plain: dict[str, Any]) -> FoundPlugin:
    """A plugin that was found, from its fields as JSON has them."""
    return FoundPlugin(**{**plain, "requires": tuple(plain["requires"])})


def enter(found: FoundPlugin) -> Any:
    """The module or object that the entry point names; raises whatever its import raises."""
    if found.file is None:
        return resolve(found.target) if ":" in found.target else importlib.import_module(found.target)
    spec = importlib.util.spec_from_file_location(found.target, found.file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{found.file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[found.target] = module
    spec.loader.exec_module(module)
    return module
