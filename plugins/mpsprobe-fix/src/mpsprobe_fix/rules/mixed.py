"""Mixed precision and the compiler: autocast and the scaler of gradients name their device, torch.compile has one."""

from __future__ import annotations

import libcst as cst

from mpsprobe_fix.matching import argument, arguments, cuda_text, text, with_arguments, with_keyword, with_value
from mpsprobe_fix.place import Place, code_of, expression
from mpsprobe_fix.rule import DEVICE, rule

_AUTOCAST = {"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"}
_CUDA_AUTOCAST = {"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"}
_SCALER = {"torch.amp.GradScaler", "torch.amp.grad_scaler.GradScaler"}
_CUDA_SCALER = {"torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"}


def _on_device(call: cst.Call, place: Place, of_cuda: bool, function: str, others: list[str]) -> cst.CSTNode | None:
    """``function`` for the device that there is, off on the CPU, as it is there today.

    Args:
        call: what is called now.
        place: where.
        of_cuda: whether it is the function of ``torch.cuda.amp``, which takes no device.
        function: what it becomes, without torch.
        others: the names of what that of ``torch.cuda.amp`` takes by position.
    """
    args = list(call.args)
    if of_cuda:
        for number, one in enumerate(args):
            if one.keyword is None and number < len(others) and not one.star:
                equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
                args[number] = one.with_changes(keyword=cst.Name(others[number]), equal=equal)
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
        return with_arguments(
            call,
            lambda one: expression(f'"mps" if {place.device()} == "mps" else "cuda"') if cuda_text(one.value) else None,
        )
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
    (cst.Call, _autocast),
    (cst.Decorator, _custom),
)
rule(
    "grad-scaler",
    "A GradScaler of CUDA is off on a Mac; float16 needs one there too. MPS has its kernels from torch 2.8 on.",
    "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n",
    f'import torch\n\n{DEVICE}\nscaler = torch.amp.GradScaler(DEVICE, enabled=DEVICE != "cpu")\n',
    (cst.Call, _scaler),
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
    (cst.Call, _compiled),
    (cst.Decorator, _decorated),
)
