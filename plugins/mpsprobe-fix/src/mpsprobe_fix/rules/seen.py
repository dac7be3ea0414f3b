"""Operators without a kernel; and what a run on the virtual device found, at its line: those, float64, layouts."""

from __future__ import annotations

import re

import libcst as cst
import libcst.matchers as m

from mpsprobe_fix.catalogue import REWRITES, Rewrite, source
from mpsprobe_fix.place import Place, argument, bare, called, code_of, expression, method, name_of, receiver
from mpsprobe_fix.rule import rule
from mpsprobe_fix.rules.numbers import single, to_device

_OF_FUNCTIONS = {"torch", "torch.linalg", "torch.fft", "torch.special", "torch.nn.functional"}
_MAKERS = {"torch.tensor", "torch.as_tensor", "torch.asarray"}


def _found(place: Place, kind: str) -> list[str]:
    """The operators that a run found at the lines of the node."""
    return [
        operator for line in place.lines(place.original) for what, operator in place.seen.get(line, ()) if what == kind
    ]


def _fits(name: str, operator: str) -> bool:
    """Whether a function called ``name`` is what calls ``operator``: ``eigvals`` calls ``aten::_linalg_eigvals``."""
    short = re.sub(r"^\w+::_*|\..*$", "", operator)
    return len(name) > 2 and re.search(rf"(^|_){re.escape(name)}($|_)", short) is not None


def _missing(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """The call of an operator that a Mac refuses: by other operators, or on the CPU."""
    function = place.qualified(call.func)
    lacked = place.facts.lacks(function, place.line(place.original) in place.program.sized)
    operators = [*_found(place, "operator"), *filter(None, [lacked])]
    made = (_rewritten(call, function, operator, place) for operator in dict.fromkeys(operators))
    return next((change for change in made if change is not None), None)


def _rewritten(call: cst.Call, function: str, operator: str, place: Place) -> cst.CSTNode | None:
    rewrite = next(
        (rewrite for rewrite in REWRITES if operator in rewrite.operators and _calls(call, function, rewrite)), None
    )
    outer = {node.name.value for node in place.around if isinstance(node, cst.FunctionDef)}
    if rewrite and rewrite.name in outer:  # the rewrite itself, of an earlier patch
        return None
    fits = [name for name in {operator, *_found(place, "operator")} if _fits(called(call), name)]
    seen = operator in _found(place, "operator") and not _in_a_module(operator, place)
    if rewrite is None and not (fits or (seen and _alone(call, function, operator, place))):
        return None
    solved = rewrite.operators if rewrite else {operator, *fits}
    place.handled.update((line, solution) for line in place.lines(place.original) for solution in solved)
    module = function.removeprefix("torch.nn.")
    if rewrite and module in rewrite.modules:
        place.head(f"{module}OnMPS", rewrite.module(module))
        return call.with_changes(func=cst.Name(f"{module}OnMPS"))
    name = rewrite.name if rewrite else "on_cpu"
    place.head(name)
    args = [bare(passed) for passed in call.args]
    spelt = code_of(call.func)
    if not function and isinstance(call.func, cst.Attribute) and name_of(call.func) not in place.facts.modules:
        args.insert(0, code_of(call.func.value))
        spelt = f"{place.torch}.Tensor.{called(call)}"
    if rewrite is None:
        args.insert(0, spelt)
    return expression(f"{name}({', '.join(args)})", call)


def _in_a_module(operator: str, place: Place) -> bool:
    """Whether a module of the program that is rewritten where it is made calls an operator."""
    modules = {
        f"torch.nn.{module}" for rewrite in REWRITES if operator in rewrite.operators for module in rewrite.modules
    }
    return not modules.isdisjoint(place.facts.made)


def _alone(call: cst.Call, function: str, operator: str, place: Place) -> bool:
    """Whether a call is the only one of its statement that can be what calls an operator of another name: a module
    without parameters, or a function of torch such as ``torch.linalg.eigvalsh``, which calls ``_linalg_eigh``.
    """
    if not function:
        short = re.sub(r"\W|_", "", operator.removeprefix("aten::"))
        kind = place.facts.modules.get(name_of(call.func) or "", "").lower()
        return len(kind) > 3 and short.startswith(kind)
    statement = next(node for node in reversed(place.around) if isinstance(node, (cst.SimpleStatementLine, cst.Module)))
    calls = [call for call in m.findall(statement, m.Call()) if isinstance(call, cst.Call)]
    names = [name for call in calls if (name := place.qualified(call.func)).startswith("torch.")]
    rest = [call for call in calls if not place.qualified(call.func) and _fits(called(call), operator)]
    return names == [function] and not rest and function.rpartition(".")[0] in _OF_FUNCTIONS


def _calls(call: cst.Call, function: str, rewrite: Rewrite) -> bool:
    needed = argument(call, rewrite.only_with) if rewrite.only_with else None
    if rewrite.only_with and (needed is None or code_of(needed.value) == "False"):
        return False
    module = function.removeprefix("torch.nn.")
    return (
        function in rewrite.functions or module in rewrite.modules or (not function and method(call, *rewrite.methods))
    )


def _left(node: cst.SimpleStatementLine, place: Place) -> None:
    """Nothing that the statement calls by name is what was refused: somebody has to look."""
    for operator in dict.fromkeys(_found(place, "operator")):
        handled = any((line, operator) in place.handled for line in place.lines(place.original))
        if not handled and not _in_a_module(operator, place):
            place.decide(f"{operator} has no kernel on MPS, and this statement calls it in a library or a module")


rule(
    "missing-operator",
    "An operator without a kernel raises on a Mac: it is written with others, or the CPU computes it, gradient too.",
    "import torch\n\nx = torch.linalg.eigvals(torch.ones(3, 3))\n",
    f"import torch\n\n\n{source('on_cpu')}\n\n\nx = on_cpu(torch.linalg.eigvals, torch.ones(3, 3))\n",
    (_missing, _left),
    everywhere=True,
)


def _wide(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """``x.to(device)``, ``torch.tensor(x, device=device)`` and ``x.double()``, where a run saw float64 on MPS"""
    if not _found(place, "float64") or not isinstance(call.func, cst.Attribute):
        return None
    if (narrow := single(call, place)) is not None:
        return narrow
    moves = to_device(call, place)
    device = argument(call, "device", 0 if moves else None)
    makes = place.qualified(call.func) in _MAKERS and argument(call, "dtype") is None
    if device is None or not (moves or makes) or code_of(call.func.value).startswith("without_float64("):
        return None
    place.head("without_float64")
    if moves:
        made = expression(f"without_float64({code_of(call.func.value)}, {code_of(device.value)})")
        return call.with_changes(func=call.func.with_changes(value=made))
    rest = [bare(passed) for passed in call.args if passed != device]
    on_cpu = f"{code_of(call.func)}({', '.join(rest)})"
    return expression(f"without_float64({on_cpu}, {code_of(device.value)}).to({code_of(device.value)})", call)


rule(
    "float64-seen",
    "A float64 tensor reached MPS, which has none; as seen on the virtual device.",
    "import torch\n\nx = torch.ones(3).to(device)\n",
    f"import torch\n\n\n{source('without_float64')}\n\n\nx = without_float64(torch.ones(3), device).to(device)\n",
    (_wide,),
    everywhere=True,
)


def _strided(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """A call whose result an advisory says is wrong for a layout: ``contiguous()`` on its tensor."""
    operators = _found(place, "contiguous")
    if not any(_fits(called(call), operator) for operator in operators) or not isinstance(call.func, cst.Attribute):
        return None
    function = place.qualified(call.func)
    tensor = receiver(call) if not function else call.args[0].value if call.args else None
    if tensor is None or code_of(tensor).endswith(".contiguous()"):
        return None
    simple = isinstance(tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    made = expression(f"{code_of(tensor) if simple else f'({code_of(tensor)})'}.contiguous()")
    if not function:
        return call.with_changes(func=call.func.with_changes(value=made))
    return call.with_changes(args=[call.args[0].with_changes(value=made), *call.args[1:]])


rule(
    "contiguous",
    "MPS is known to give wrong numbers for this layout; the advisory asks for contiguous().",
    "import torch\n\nx = torch.ones(3, 3).t().log()\n",
    "import torch\n\nx = torch.ones(3, 3).t().contiguous().log()\n",
    (_strided,),
    everywhere=True,
)
