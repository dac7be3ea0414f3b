"""The identities by which torch-tb-profiler joins modules, operators, launches and kernels."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from mpsprobe_exporters.traces.dialects import KERNEL_FACTS, STEP_NAME, STEP_PREFIX
from mpsprobe_exporters.traces.encoding import text

if TYPE_CHECKING:
    from mpsprobe_exporters.traces.layout import Row

OPERATORS = frozenset({"operator", "fallback"})
ON_DEVICE = frozenset({"kernel", "copy"})
SHAPES = re.compile(r"\[[\d, ]*\](?: \[[\d, ]*\])*", re.ASCII)


class Open(NamedTuple):
    """What is known of an open event: the operator that it is or is in (0: none), and the same of modules."""

    operator: int
    module: int


OUTSIDE = Open(0, 0)


class Links:
    """Numbers operators, module calls and launches in the order in which they are written."""

    def __init__(self) -> None:
        self._operators = 0
        self._modules = 0
        self._steps = 0
        self._lonely = 0
        self._module_ids: dict[str, int] = {}
        self._launched: dict[int, int] = {}

    def name(self, category: str, name: str, detail: Mapping[str, str]) -> str:
        """``name`` so that the reader takes the event for what it is, and shows which module it is."""
        if category == "step":
            self._steps += 1
            return name if STEP_NAME.fullmatch(name) else f"{STEP_PREFIX}{self._steps - 1}"
        if category == "module":
            path, kind = detail.get("module", ""), detail.get("type", "")
            # A path of torch.profiler's is the type and a number.
            both = path and kind and not path.startswith(kind)
            shown = f"{path} ({kind})" if both else path or kind or name.removeprefix("nn.Module: ")
            phase = detail.get("phase", "forward")
            return f"nn.Module: {shown}" + (f", {phase}" if phase != "forward" else "")
        return f" {name}" if name.startswith(STEP_PREFIX) else name

    def enter(self, row: Row, category: str, name: str, detail: Mapping[str, str], flow: int) -> tuple[Open, str]:
        """The event's own context, and the inside of its ``args`` that says who it belongs to.

        Args:
            row: where it stands; ``row.contexts`` are those around it.
            name: as ``name`` returned it.
        """
        around: Open = row.contexts[-1] if row.contexts else OUTSIDE
        if category in OPERATORS:
            self._operators += 1
            return Open(self._operators, around.module), f'"External id":{self._operators}{_inputs(detail)}'
        if category == "module":
            self._modules += 1
            parent = around.module or "null"
            identity = self._module_ids.setdefault(name, len(self._module_ids))
            ids = f'"Python id":{self._modules},"Python parent id":{parent},"Python module id":{identity}'
            return Open(around.operator, self._modules), ids
        if category == "launch":
            # One without a kernel gets a number of its own: the reader would give it all kernels without a launch.
            self._lonely -= 1
            self._launched[flow] = around.operator
            return around, f'"External id":{around.operator},"correlation":{flow or self._lonely}'
        if category in ON_DEVICE:
            joined = f'"External id":{self._launched.get(flow, 0)}'
            return around, joined + (f',"correlation":{flow}' if flow else "") + _facts(detail)
        return around, ""


def _inputs(detail: Mapping[str, str]) -> str:
    shapes, types = detail.get("shapes", ""), detail.get("dtypes", "")
    found = f',"Input Dims":[{shapes.replace("] [", "],[")}]' if SHAPES.fullmatch(shapes) else ""
    return found + (f',"Input type":[{",".join(map(text, types.split()))}]' if types else "")


def _facts(detail: Mapping[str, str]) -> str:
    found = [(name, _number(detail[name])) for name in KERNEL_FACTS if name in detail]
    return "".join(f",{text(name)}:{value!r}" for name, value in found if value is not None)


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
