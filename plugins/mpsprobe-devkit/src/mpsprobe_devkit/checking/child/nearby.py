"""Names near to one that is not there: of modules and of their attributes."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Any

from mpsprobe.suggestions import nearest


def nearest_modules(module: str) -> list[str]:
    """Existing modules with names near to ``module``, in the deepest package of it that can be imported."""
    package, _, last = module.rpartition(".")
    while package:
        try:
            path = importlib.import_module(package).__path__
        except Exception:  # noqa: BLE001 - the plugin's code, or not there
            package, _, last = package.rpartition(".")
            continue
        names = [one.name for one in pkgutil.iter_modules(path)]
        return [f"{package}.{name}" for name in nearest(last, names, count=2)]
    names = [one.name for one in pkgutil.iter_modules(sys.path[:5])]
    return nearest(module.partition(".")[0], [name for name in names if not name.startswith("_")], count=1)


def nearest_attributes(value: Any, attribute: str) -> list[str]:
    """Names near to the first part of ``attribute`` that ``value`` lacks."""
    for part in attribute.split("."):
        if not hasattr(value, part):
            return nearest(part, [name for name in dir(value) if not name.startswith("__")], count=2)
        value = getattr(value, part)
    return []
