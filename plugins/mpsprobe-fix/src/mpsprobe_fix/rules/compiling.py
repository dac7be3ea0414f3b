"""``torch.compile``, where the judged release has no compiler for MPS."""

from __future__ import annotations

import libcst as cst

from mpsprobe_fix.matching import argument, text, with_keyword
from mpsprobe_fix.place import Place, code_of
from mpsprobe_fix.rule import rule

SINCE = (2, 8)
"""inductor makes Metal shaders from this release on; before, it raises (pytorch#125254, ModelCloud/GPTQModel#1684)."""


def _off(place: Place) -> str:
    return f"{place.has_mps()} and {place.torch}.__version__ < {SINCE}"


def _compiled(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """``torch.compile(model)``"""
    if place.qualified(call.func) != "torch.compile" or place.facts.release >= SINCE:
        return None
    backend = argument(call, "backend")
    if argument(call, "disable") or (backend is not None and text(backend.value) != "inductor"):
        return None
    return with_keyword(call, "disable", _off(place))


def _decorated(node: cst.Decorator, place: Place) -> cst.CSTNode | None:
    """``@torch.compile``"""
    if place.qualified(node.decorator) != "torch.compile" or place.facts.release >= SINCE:
        return None
    return node.with_changes(decorator=cst.parse_expression(f"{code_of(node.decorator)}(disable={_off(place)})"))


rule(
    "compile",
    "inductor has no code for MPS before torch 2.8, and raises; the function runs without it there.",
    "import torch\n\nmodel = torch.compile(torch.nn.Linear(3, 3))\n",
    "import torch\n\n"
    "model = torch.compile("
    "torch.nn.Linear(3, 3), disable=torch.backends.mps.is_available() and torch.__version__ < (2, 8))\n",
    (cst.Call, _compiled),
    (cst.Decorator, _decorated),
)
