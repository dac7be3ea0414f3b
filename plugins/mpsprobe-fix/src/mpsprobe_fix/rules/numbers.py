"""Numbers that MPS does not have, and types of tensors that mean a device."""

from __future__ import annotations

from typing import Any

import libcst as cst

from mpsprobe_fix.editing import Place, code_of, expression
from mpsprobe_fix.matching import argument, called, guarded, mentions_mac, method, name_of, text, widened
from mpsprobe_fix.rule import rule

TYPES = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8",
    "BoolTensor": "bool",
}  # fmt: skip
_FLOAT64 = {"torch.float64", "torch.double"}
_COMPLEX128 = {"torch.complex128", "torch.cdouble"}
_MAKES = {
    "tensor", "as_tensor", "zeros", "ones", "empty", "full", "rand", "randn", "arange", "linspace", "eye",
    "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
}  # fmt: skip


def _cuda_type(node: cst.BaseExpression, place: Place) -> str | None:
    """The name of a type of tensors on CUDA, as a class or a text."""
    if isinstance(node, cst.Name) and node.value in place.facts.types:
        return place.facts.types[node.value]
    name = text(node) or place.qualified(node) or ""
    short = name.removeprefix("torch.cuda.")
    return short if name != short and short in TYPES else None


def _type(call: cst.Call, place: Place) -> cst.CSTNode | None:
    if guarded(place):
        return None
    made = _cuda_type(call.func, place)
    if made is not None:
        return cst.parse_expression(f"{place.torch}.{made}").with_changes(lpar=[]) and _constructed(call, made, place)
    if method(call, "type") and len(call.args) == 1 and isinstance(call.func, cst.Attribute):
        asked = _cuda_type(call.args[0].value, place)
        if asked is not None:
            dtype = place.float64() if asked == "DoubleTensor" else f"{place.torch}.{TYPES[asked]}"
            return call.with_changes(
                func=call.func.with_changes(attr=cst.Name("to")),
                args=[
                    cst.Arg(expression(_device(call.args[0].value, place)), comma=_comma()),
                    cst.Arg(cst.parse_expression(dtype)),
                ],
            )
    return None


def _device(kind: cst.BaseExpression, place: Place) -> str:
    """The device that a type of tensors means: a name of one can mean the CPU's, as the program chose it."""
    name = name_of(kind)
    if name not in place.facts.types or place.qualified(kind) is not None:
        return place.device()
    return f'"cpu" if {name} is {place.torch}.{place.facts.types[name]} else {place.device()}'


def _comma() -> cst.Comma:
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _constructed(call: cst.Call, made: str, place: Place) -> cst.CSTNode:
    """``torch.cuda.FloatTensor(…)``: made on the CPU, then moved."""
    on_cpu = code_of(call.with_changes(func=cst.parse_expression(f"{place.torch}.{made}")))
    more = f", {place.float64()}" if made == "DoubleTensor" else ""
    return expression(f"{on_cpu}.to({_device(call.func, place)}{more})", call)


def _default_type(line: cst.SimpleStatementLine, place: Place) -> Any:
    """``torch.set_default_tensor_type(torch.cuda.HalfTensor)``: a device and a dtype"""
    call = line.body[0].value if len(line.body) == 1 and isinstance(line.body[0], cst.Expr) else None
    if (
        not isinstance(call, cst.Call)
        or place.qualified(call.func) != "torch.set_default_tensor_type"
        or guarded(place)
    ):
        return None
    asked = _cuda_type(call.args[0].value, place) if call.args else None
    if asked is None:
        return None
    dtype = place.float64() if asked == "DoubleTensor" else f"{place.torch}.{TYPES[asked]}"
    codes = f"{place.torch}.set_default_device({place.device()})", f"{place.torch}.set_default_dtype({dtype})"
    first, second = (line.with_changes(body=[cst.Expr(cst.parse_expression(code))]) for code in codes)
    return cst.FlattenSentinel([first, second.with_changes(leading_lines=[])])


def _pick(node: cst.IfExp, place: Place) -> cst.CSTNode | None:
    """``torch.cuda.FloatTensor if use_cuda else torch.FloatTensor``: MPS takes no type, so its name says where."""
    parent = place.parent()
    if _cuda_type(node.body, place) is None or mentions_mac(node):
        return None
    if not isinstance(parent, cst.Assign) or name_of(parent.targets[0].target) not in place.facts.types:
        place.decide("a type of tensors stands for a device: pass device= and dtype= instead")
    elif "cuda.is_available" in code_of(node.test):
        return node.with_changes(test=widened(node.test, place))
    return None


rule(
    "tensor-type",
    "Types such as torch.cuda.FloatTensor mean a device that a Mac does not have.",
    "import torch\n\nx = torch.ones(3).type(torch.cuda.FloatTensor)\n",
    "import torch\n\n"
    'DEVICE = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"\n\n'
    "x = torch.ones(3).to(DEVICE, torch.float32)\n",
    (cst.Call, _type),
    (cst.SimpleStatementLine, _default_type),
    (cst.IfExp, _pick),
)


def to_device(call: cst.Call, place: Place) -> bool:
    """Whether a call puts its tensor on the device."""
    if not method(call, "to", "cuda"):
        return False
    if method(call, "cuda"):
        return True
    first = argument(call, "device", 0)
    if first is None:
        return False
    code = code_of(first.value)
    return code.startswith(("DEVICE", '"cuda', "'cuda", "torch.device(")) or place.facts.is_device(code.split(".")[-1])


def _double(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """float64 on its way to the device: ``x.double().to(device)``, ``x.to(device).double()``, ``device=…, dtype=…``"""
    if guarded(place):
        return None
    chained = isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Call)
    receiver = call.func.value if chained and isinstance(call.func, cst.Attribute) else None
    if to_device(call, place):
        made = _wide(call, place)
        if made is not None:
            return made
        if isinstance(receiver, cst.Call) and (narrow := single(receiver, place)) is not None:
            return call.with_changes(func=call.func.with_changes(value=narrow))
        return None
    if isinstance(receiver, cst.Call) and to_device(receiver, place):
        return single(call, place)
    name = (place.qualified(call.func) or "").removeprefix("torch.")
    device = argument(call, "device")
    if name in _MAKES and device is not None and text(device.value) != "cpu":
        return _wide(call, place)
    # A module takes its parameters and buffers along to the device.
    kept = any(isinstance(one, cst.Call) and called(one) in {"Parameter", "register_buffer"} for one in place.around)
    return single(call, place) if kept else None


def single(call: cst.Call, place: Place) -> cst.Call | None:
    """``.double()`` as a dtype that MPS has."""
    if method(call, "double") and not call.args and isinstance(call.func, cst.Attribute):
        return call.with_changes(
            func=call.func.with_changes(attr=cst.Name("to")), args=[cst.Arg(cst.Name(place.float64()))]
        )
    return _wide(call, place)


def _wide(call: cst.Call, place: Place) -> cst.Call | None:
    """A call whose arguments ask for float64 or complex128."""
    args = list(call.args)
    changed = False
    for number, one in enumerate(args):
        name = place.qualified(one.value)
        if name in _FLOAT64:
            args[number] = one.with_changes(value=cst.Name(place.float64()))
            changed = True
        elif name in _COMPLEX128:
            torch = place.torch
            value = expression(f'{torch}.complex64 if {place.device()} == "mps" else {torch}.complex128')
            args[number] = one.with_changes(value=value)
            changed = True
    return call.with_changes(args=args) if changed else None


rule(
    "float64",
    "MPS has neither float64 nor complex128; CUDA and the CPU keep them.",
    "import torch\n\ndevice = torch.accelerator.current_accelerator()\n"
    "x = torch.ones(3, dtype=torch.float64, device=device)\n",
    "import torch\n\n"
    'DEVICE = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"\n'
    'FLOAT64 = torch.float32 if DEVICE == "mps" else torch.float64\n\n'
    "device = torch.accelerator.current_accelerator()\nx = torch.ones(3, dtype=FLOAT64, device=device)\n",
    (cst.Call, _double),
)
