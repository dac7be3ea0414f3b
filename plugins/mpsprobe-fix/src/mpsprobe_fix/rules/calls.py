"""Functions of ``torch.cuda``: those of MPS that do the same, or a guard. And ``torch.compile``."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from mpsprobe_fix.place import (  # isort: skip
    Place, argument, code_of, conditional, expression, for_cuda, lone_call, text, with_keyword,
)  # fmt: skip
from mpsprobe_fix.rule import rule

# What does the same on MPS (torch.mps, since torch 2.0), and the value without either. Sources: torch/mps/__init__.py.
COUNTERPARTS: dict[str, tuple[str | None, str]] = {
    "synchronize": ("torch.mps.synchronize()", "None"),
    "empty_cache": ("torch.mps.empty_cache()", "None"),
    "memory_allocated": ("torch.mps.current_allocated_memory()", "0"),
    "memory_reserved": ("torch.mps.driver_allocated_memory()", "0"),
    "memory_cached": ("torch.mps.driver_allocated_memory()", "0"),
}
# MPS keeps no peak that every release has, and nothing of what these change or say: the value without CUDA.
_WITHOUT = {
    "None": "reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached ipc_collect set_device Stream "
    "nvtx.range_push nvtx.range_pop profiler.start profiler.stop cudart().cudaProfilerStart",
    "0": "max_memory_allocated max_memory_reserved max_memory_cached",
    "nullcontext()": "device device_of stream nvtx.range",
    "DEVICE": "get_device_name current_device",
    '""': "memory_summary",
    "{}": "memory_stats",
    "(0, 0)": "get_device_capability",
    "False": "is_bf16_supported",
    "TimedEvent()": "Event",
}
COUNTERPARTS |= {name: (None, value) for value, names in _WITHOUT.items() for name in names.split()}
# They do no harm without CUDA: seeds wait for a device, and the others answer.
_HARMLESS = {
    "is_available", "device_count", "manual_seed", "manual_seed_all", "seed", "seed_all", "is_initialized",
    "get_rng_state_all", "OutOfMemoryError", "is_current_stream_capturing",
}  # fmt: skip
_PROPERTIES = "get_device_properties"
_OF_STREAMS = {"current_stream", "default_stream"}
_ELSEWHERE = ("amp.", "FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor", "LongTensor", "IntTensor",
              "ShortTensor", "ByteTensor", "CharTensor", "BoolTensor")  # fmt: skip


def _called(call: cst.Call | None, place: Place) -> str:
    """The name of a function of ``torch.cuda``, without that."""
    name = place.qualified(call.func) if call else ""
    if not name.startswith("torch.cuda."):
        return ""
    short = name.removeprefix("torch.cuda.").removeprefix("memory.").removeprefix("random.")
    return "" if short in _HARMLESS or short.startswith(_ELSEWHERE) else short


def _statement(node: cst.SimpleStatementLine, place: Place) -> cst.CSTNode | None:
    """A call of its own line: an ``if`` with a branch for each device."""
    call = lone_call(node)
    name = _called(call, place)
    if call is None or not (name in COUNTERPARTS or _orders(place.original, place)):
        return None
    mps, _ = COUNTERPARTS.get(name, (None, ""))
    otherwise = None
    if mps is not None:
        line = cst.parse_statement(mps.replace("torch", place.torch, 1))
        otherwise = cst.If(expression(place.has_mps()), cst.IndentedBlock([line]))
    return for_cuda(node, place, otherwise)


def _orders(line: cst.SimpleStatementLine, place: Place) -> bool:
    """Whether a statement only orders streams, of which MPS has one: ``stream.wait_stream(torch.cuda.…)``."""
    calls = m.findall(line, m.Call())
    names = [place.qualified(call.func) for call in calls if isinstance(call, cst.Call)]
    return any(name.removeprefix("torch.cuda.") in _OF_STREAMS for name in names)


def _value(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """A call whose value is used."""
    name = _called(call, place)
    around = place.parent()
    if not name or (name == _PROPERTIES and isinstance(around, cst.Attribute) and around.attr.value == "total_memory"):
        return None
    line = next((node for node in reversed(place.around) if isinstance(node, cst.SimpleStatementLine)), None)
    alone = line and lone_call(line)
    if name not in COUNTERPARTS:
        if not (alone and name in _OF_STREAMS):
            place.decide(f"torch.cuda.{name} has no counterpart on MPS that does the same everywhere")
        return None
    if alone is place.original:
        return None
    mps, other = COUNTERPARTS[name]
    if name == "Event":
        place.head("perf_counter", "from time import perf_counter")
        place.head("TimedEvent")
    other = place.device() if other == "DEVICE" else other
    if other == "nullcontext()":
        place.head("nullcontext", "from contextlib import nullcontext")
    if mps is not None:
        other = f"{mps.replace('torch', place.torch, 1)} if {place.has_mps()} else {other}"
    return conditional(code_of(call), other, place, call)


def _memory(node: cst.Attribute, place: Place) -> cst.CSTNode | None:
    """``torch.cuda.get_device_properties(0).total_memory``"""
    call = place.original.value
    if node.attr.value != "total_memory" or _called(call if isinstance(call, cst.Call) else None, place) != _PROPERTIES:
        return None
    other = f"{place.torch}.mps.recommended_max_memory() if {place.has_mps()} else 0"
    return conditional(code_of(node), other, place, node)


rule(
    "cuda-call",
    "Functions of torch.cuda raise where there is no CUDA; torch.mps has some of them.",
    "import torch\n\ntorch.cuda.synchronize()\npeak = torch.cuda.max_memory_allocated()\n",
    "import torch\n\n"
    "if torch.cuda.is_available():\n    torch.cuda.synchronize()\n"
    "elif torch.backends.mps.is_available():\n    torch.mps.synchronize()\n"
    "peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0\n",
    (_statement, _value, _memory),
)

COMPILES_SINCE = (2, 8)
"""inductor makes Metal shaders from this release on; before, it raises (pytorch#125254, ModelCloud/GPTQModel#1684)."""


def _off(place: Place) -> str:
    return f"{place.has_mps()} and {place.torch}.__version__ < {COMPILES_SINCE}"


def _compiled(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """``torch.compile(model)``"""
    if place.qualified(call.func) != "torch.compile" or place.facts.release >= COMPILES_SINCE:
        return None
    backend = argument(call, "backend")
    if argument(call, "disable") or (backend is not None and text(backend.value) != "inductor"):
        return None
    return with_keyword(call, "disable", _off(place))


def _decorated(node: cst.Decorator, place: Place) -> cst.CSTNode | None:
    """``@torch.compile``"""
    if place.qualified(node.decorator) != "torch.compile" or place.facts.release >= COMPILES_SINCE:
        return None
    return node.with_changes(decorator=cst.parse_expression(f"{code_of(node.decorator)}(disable={_off(place)})"))


rule(
    "compile",
    "inductor has no code for MPS before torch 2.8, and raises; the function runs without it there.",
    "import torch\n\nmodel = torch.compile(torch.nn.Linear(3, 3))\n",
    "import torch\n\n"
    "model = torch.compile("
    "torch.nn.Linear(3, 3), disable=torch.backends.mps.is_available() and torch.__version__ < (2, 8))\n",
    (_compiled, _decorated),
)
