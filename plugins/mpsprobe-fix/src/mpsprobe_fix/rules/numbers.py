"""Numbers: mixed precision names its device; what MPS does not have; types of tensors that mean a device."""

from __future__ import annotations

from typing import Any

import libcst as cst

from mpsprobe_fix.place import (  # isort: skip
    Place, argument, arguments, as_to, called, code_of, cuda_text, expression, lone_call, mentions_mac, method,
    name_of, text, widened, with_arguments, with_keyword, with_value,
)  # fmt: skip
from mpsprobe_fix.rule import DEVICE, rule

_AUTOCAST = {"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"}
_CUDA_AUTOCAST = {"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"}
_SCALER = {"torch.amp.GradScaler", "torch.amp.grad_scaler.GradScaler"}
_CUDA_SCALER = {"torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"}


def _on_device(call: cst.Call, place: Place, of_cuda: bool, function: str, others: list[str]) -> cst.CSTNode | None:
    """``torch.function`` for the device that there is, off on the CPU, as it is there today: in the place of one
    ``of_cuda``, which takes no device, and ``others`` by position.
    """
    args = list(call.args)
    if of_cuda:
        for number, passed in enumerate(args):
            if passed.keyword is None and number < len(others) and not passed.star:
                equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
                args[number] = passed.with_changes(keyword=cst.Name(others[number]), equal=equal)
        first = arguments(f"{place.device()}, " if args else place.device())
        made = call.with_changes(func=cst.parse_expression(f"{place.torch}.{function}"), args=[*first, *args])
    else:
        named = argument(call, "device_type", 0) or argument(call, "device", 0)
        if named is None and function == "amp.GradScaler" and not call.args:
            made = call.with_changes(args=arguments(place.device()))
        elif named is None or cuda_text(named.value) is None:
            return None
        else:
            made = with_value(call, named, place.device())
    return _off_on_the_cpu(made, place)


def _off_on_the_cpu(call: cst.Call, place: Place) -> cst.Call:
    condition = f'{place.device()} != "cpu"'
    given = argument(call, "enabled")
    if given is None:
        return with_keyword(call, "enabled", condition)
    code = code_of(given.value)
    if code in {"True", "False"}:
        return with_value(call, given, condition) if code == "True" else call
    simple = isinstance(given.value, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
    return with_value(call, given, f"{code if simple else f'({code})'} and {condition}")


def _autocast(call: cst.Call, place: Place) -> cst.CSTNode | None:
    name = place.qualified(call.func)
    if isinstance(call.func, cst.Name) and call.func.value in place.facts.scopes:
        # What else the name stands for takes no argument of autocast's, so it is not off on the CPU but as before.
        chosen = f'"mps" if {place.device()} == "mps" else "cuda"'
        return with_arguments(call, lambda _, value: expression(chosen) if cuda_text(value) else None)
    if name not in _AUTOCAST | _CUDA_AUTOCAST:
        return None
    return _on_device(call, place, name in _CUDA_AUTOCAST, "autocast", ["enabled", "dtype", "cache_enabled"])


def _scaler(call: cst.Call, place: Place) -> cst.CSTNode | None:
    name = place.qualified(call.func)
    if name not in _SCALER | _CUDA_SCALER:
        return None
    names = ["init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"]
    return _on_device(call, place, name in _CUDA_SCALER, "amp.GradScaler", names)


def _custom(node: cst.Decorator, place: Place) -> cst.CSTNode | None:
    """``@torch.cuda.amp.custom_fwd`` of a function for autograd; it names its device from torch 2.4 on."""
    call = node.decorator if isinstance(node.decorator, cst.Call) else cst.Call(node.decorator)
    name = place.qualified(call.func).removeprefix("torch.cuda.amp.")
    if name not in {"custom_fwd", "custom_bwd"} or place.facts.release < (2, 4):
        return None
    made = call.with_changes(func=cst.parse_expression(f"{place.torch}.amp.{name}"))
    return node.with_changes(decorator=with_keyword(made, "device_type", place.device()))


rule(
    "autocast",
    'autocast of "cuda" does nothing on a Mac; MPS has its own, from torch 2.5 on (pytorch#99272).',
    "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n",
    f'import torch\n\n{DEVICE}\nwith torch.autocast(DEVICE, enabled=DEVICE != "cpu"):\n    pass\n',
    (_autocast, _custom),
)
rule(
    "grad-scaler",
    "A GradScaler of CUDA is off on a Mac; float16 needs one there too. MPS has its kernels from torch 2.8 on.",
    "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n",
    f'import torch\n\n{DEVICE}\nscaler = torch.amp.GradScaler(DEVICE, enabled=DEVICE != "cpu")\n',
    (_scaler,),
)


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
    name = text(node) or place.qualified(node)
    short = name.removeprefix("torch.cuda.")
    return short if name != short and short in TYPES else None


def _type(call: cst.Call, place: Place) -> cst.CSTNode | None:
    made = _cuda_type(call.func, place)
    if made is not None:
        return _constructed(call, made, place)
    asked = _cuda_type(call.args[0].value, place) if method(call, "type") and len(call.args) == 1 else None
    return as_to(call, _device(call.args[0].value, place), _dtype(asked, place)) if asked else None


def _dtype(kind: str, place: Place) -> str:
    return place.float64() if kind == "DoubleTensor" else f"{place.torch}.{TYPES[kind]}"


def _device(kind: cst.BaseExpression, place: Place) -> str:
    """The device that a type of tensors means: a name of one can mean the CPU's, as the program chose it."""
    name = name_of(kind)
    if name not in place.facts.types or place.qualified(kind):
        return place.device()
    return f'"cpu" if {name} is {place.torch}.{place.facts.types[name]} else {place.device()}'


def _constructed(call: cst.Call, made: str, place: Place) -> cst.CSTNode:
    """``torch.cuda.FloatTensor(…)``: made on the CPU, then moved."""
    on_cpu = code_of(call.with_changes(func=cst.parse_expression(f"{place.torch}.{made}")))
    more = f", {place.float64()}" if made == "DoubleTensor" else ""
    return expression(f"{on_cpu}.to({_device(call.func, place)}{more})", call)


def _default_type(line: cst.SimpleStatementLine, place: Place) -> Any:
    """``torch.set_default_tensor_type(torch.cuda.HalfTensor)``: a device and a dtype"""
    call = lone_call(line)
    if call is None or place.qualified(call.func) != "torch.set_default_tensor_type":
        return None
    asked = _cuda_type(call.args[0].value, place) if call.args else None
    if asked is None:
        return None
    torch, dtype = place.torch, _dtype(asked, place)
    codes = f"{torch}.set_default_device({place.device()})", f"{torch}.set_default_dtype({dtype})"
    first, second = (line.with_changes(body=[cst.Expr(cst.parse_expression(code))]) for code in codes)
    return cst.FlattenSentinel([first, second.with_changes(leading_lines=[])])


def _pick(node: cst.IfExp, place: Place) -> cst.CSTNode | None:
    """``torch.cuda.FloatTensor if use_cuda else torch.FloatTensor``: MPS takes no type, so its name says where."""
    parent = place.parent()
    if _cuda_type(node.body, place) is None or mentions_mac(node):
        return None
    if not isinstance(parent, cst.Assign) or name_of(parent.targets[0].target) not in place.facts.types:
        place.decide("a type of tensors stands for a device: pass device= and dtype= instead")
        return None
    test = widened(node.test, place)
    return test and node.with_changes(test=test)


rule(
    "tensor-type",
    "Types such as torch.cuda.FloatTensor mean a device that a Mac does not have.",
    "import torch\n\nx = torch.ones(3).type(torch.cuda.FloatTensor)\n",
    f"import torch\n\n{DEVICE}\nx = torch.ones(3).to(DEVICE, torch.float32)\n",
    (_type, _default_type, _pick),
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
    before = call.func.value if isinstance(call.func, cst.Attribute) else None
    if to_device(call, place):
        if made := _wide(call, place):
            return made
        narrow = single(before, place) if isinstance(before, cst.Call) else None
        return narrow and call.with_changes(func=call.func.with_changes(value=narrow))
    if isinstance(before, cst.Call) and to_device(before, place):
        return single(call, place)
    name = place.qualified(call.func).removeprefix("torch.")
    device = argument(call, "device")
    if name in _MAKES and device is not None and text(device.value) != "cpu":
        return _wide(call, place)
    # A module takes its parameters and buffers along to the device.
    kept = any(isinstance(node, cst.Call) and called(node) in {"Parameter", "register_buffer"} for node in place.around)
    return single(call, place) if kept else None


def single(call: cst.Call, place: Place) -> cst.Call | None:
    """``.double()`` as a dtype that MPS has."""
    return as_to(call, place.float64()) if method(call, "double") and not call.args else _wide(call, place)


def _wide(call: cst.Call, place: Place) -> cst.Call | None:
    """A call whose arguments ask for float64 or complex128."""

    def changed(_: str, value: cst.BaseExpression) -> cst.BaseExpression | None:
        name = place.qualified(value)
        if name in _COMPLEX128:
            torch = place.torch
            return expression(f'{torch}.complex64 if {place.device()} == "mps" else {torch}.complex128')
        return expression(place.float64()) if name in _FLOAT64 else None

    return with_arguments(call, changed)


rule(
    "float64",
    "MPS has neither float64 nor complex128; CUDA and the CPU keep them.",
    "import torch\n\ndevice = torch.accelerator.current_accelerator()\n"
    "x = torch.ones(3, dtype=torch.float64, device=device)\n",
    f"import torch\n\n{DEVICE}"
    'FLOAT64 = torch.float32 if DEVICE == "mps" else torch.float64\n\n'
    "device = torch.accelerator.current_accelerator()\nx = torch.ones(3, dtype=FLOAT64, device=device)\n",
    (_double,),
)
