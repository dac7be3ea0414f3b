"""What rules ask about nodes: literals, arguments, names, conditions about CUDA."""

from __future__ import annotations

import re
from collections.abc import Callable

import libcst as cst

from mpsprobe_fix.facts import ASKED, CUDA, MAC
from mpsprobe_fix.place import Place, code_of, expression

# A device of CUDA whose number the program works out.
NUMBERED = "|".join((
    r"""f["']cuda:\{[^,"']+\}["']""",
    r"""["']cuda:["'] *\+[^,"']+""",
    r"""["']cuda:%[ds]["'] *%[^,"']+""",
    r"""["']cuda:\{\}["']\.format\(.+\)""",
))  # fmt: skip
_COMPARES = re.compile(r"""(==|\bin\b|startswith\()\s*\(?["']cuda|["']cuda["']\s*(==|in)\b""")


def text(node: object) -> str | None:
    """The value of a plain literal text."""
    if isinstance(node, cst.SimpleString) and not node.prefix:
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    return None


def cuda_text(node: object) -> str | None:
    """``cuda`` or ``cuda:1``, where a literal is that; an integer is the device of that number."""
    value = text(node)
    if value is not None and CUDA.fullmatch(value):
        return value
    return None


def cuda_index(node: object) -> str | None:
    return f"cuda:{int(node.value)}" if isinstance(node, cst.Integer) and node.value.isdigit() else None


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.Arg | None:
    """The argument of a call that is given by ``name``, or stands at ``position``."""
    for number, one in enumerate(call.args):
        if one.keyword is not None and one.keyword.value == name:
            return one
        if one.keyword is None and not one.star and number == position:
            return one
    return None


def with_arguments(call: cst.Call, change: Callable[[cst.Arg], cst.BaseExpression | None]) -> cst.Call | None:
    """``call`` with the values of those arguments changed for which ``change`` has a new one; ``None`` without any."""
    values = [change(one) for one in call.args]
    if not any(value is not None for value in values):
        return None
    changed = zip(call.args, values, strict=True)
    return call.with_changes(args=[one if new is None else one.with_changes(value=new) for one, new in changed])


def with_value(call: cst.Call, argument: cst.Arg, code: str) -> cst.Call:
    """``call`` with another value of one of its arguments."""
    args = [one.with_changes(value=expression(code)) if one is argument else one for one in call.args]
    return call.with_changes(args=args)


def with_keyword(call: cst.Call, name: str, value: str) -> cst.Call:
    """``call`` with one more keyword argument, behind its others and in the same manner."""
    added = cst.Arg(
        cst.parse_expression(value), keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )  # fmt: skip
    args = list(call.args)
    if args and isinstance(args[-1].comma, cst.Comma):
        return call.with_changes(args=[*args, added.with_changes(comma=args[-1].comma)])
    if args:
        args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    return call.with_changes(args=[*args, added])


def called(call: cst.Call) -> str:
    """The last part of the name of what is called."""
    function = call.func
    return function.attr.value if isinstance(function, cst.Attribute) else getattr(function, "value", "")


def method(call: cst.Call, *names: str) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in names


def lone_call(line: cst.SimpleStatementLine) -> cst.Call | None:
    """The call that is a statement of its own line."""
    only = line.body[0] if len(line.body) == 1 else None
    return only.value if isinstance(only, cst.Expr) and isinstance(only.value, cst.Call) else None


def for_cuda(line: cst.SimpleStatementLine, place: Place, otherwise: cst.If | None = None) -> cst.If:
    """A statement where there is CUDA only."""
    block = cst.IndentedBlock([line.with_changes(leading_lines=[])])
    return cst.If(expression(place.has_cuda()), block, otherwise, leading_lines=line.leading_lines)


def arguments(code: str) -> list[cst.Arg]:
    """``code`` as the arguments of a call."""
    call = cst.parse_expression(f"f({code})")
    assert isinstance(call, cst.Call)
    return list(call.args)


def bare(argument: cst.Arg) -> str:
    """The code of an argument, without the comma behind it."""
    return code_of(argument.with_changes(comma=cst.MaybeSentinel.DEFAULT)).strip()


def as_to(call: cst.Call, *args: cst.Arg | str) -> cst.Call:
    """``x.cuda(…)``, ``x.type(…)`` and their like as ``x.to(…)``; a text is the code of an argument."""
    made = [arguments(one)[0] if isinstance(one, str) else one for one in args]
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    made[:-1] = [one if isinstance(one.comma, cst.Comma) else one.with_changes(comma=comma) for one in made[:-1]]
    return call.with_changes(func=call.func.with_changes(attr=cst.Name("to")), args=made)


def receiver(call: cst.Call) -> cst.BaseExpression:
    """What a method is called of."""
    return cst.ensure_type(call.func, cst.Attribute).value


def asks(node: cst.CSTNode, place: Place) -> bool:
    """Whether an expression is ``torch.cuda.is_available()``."""
    return isinstance(node, cst.Call) and place.qualified(node.func) == ASKED


def mentions_cuda(node: cst.CSTNode) -> bool:
    """Whether a condition is about CUDA: it asks for it, or compares a device with it."""
    code = code_of(node)
    return "cuda.is_available" in code or "cuda.device_count" in code or _COMPARES.search(code) is not None


def mentions_mac(node: cst.CSTNode) -> bool:
    return MAC.search(code_of(node)) is not None


def widened(node: cst.BaseExpression, place: Place) -> cst.BaseExpression | None:
    """A condition that asks for CUDA and not for MPS, true on MPS too; ``None`` for any other one."""
    if mentions_mac(node) or "cuda.is_available" not in code_of(node):
        return None

    class Widening(cst.CSTTransformer):
        def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
            return expression(f"({code_of(updated)} or {place.has_mps()})") if asks(original, place) else updated

    made = node.visit(Widening())
    if isinstance(made, cst.BooleanOperation) and asks(node, place):
        return made.with_changes(lpar=node.lpar, rpar=node.rpar)
    assert isinstance(made, cst.BaseExpression)
    return made


def guarded(place: Place) -> bool:
    """Whether the node is where only CUDA is, or where MPS has its own way: in a branch of a condition about it."""
    below: cst.CSTNode | None = None
    for one in reversed([*place.around, place.original]):
        if isinstance(one, (cst.If, cst.IfExp)) and below is not None and below is not one.test:
            if id(one) not in place.known:
                place.known[id(one)] = mentions_cuda(one.test) or _says(one.test, place), mentions_mac(one.test)
            cuda, mac = place.known[id(one)]
            if below is one.body and (
                mac or (cuda and not (isinstance(one, cst.If) and place.line(one) in place.widened))
            ):
                return True
        if isinstance(one, (cst.FunctionDef, cst.Lambda)):
            return False
        below = one
    return False


def _says(test: cst.BaseExpression, place: Place) -> bool:
    """Whether a condition asks a name that is true with CUDA only."""
    parts = [test.left, test.right] if isinstance(test, cst.BooleanOperation) else [test]
    return any(name_of(one) in place.facts.asked - place.facts.flags for one in parts)


def name_of(node: cst.CSTNode) -> str | None:
    """``DEV``, ``cfg.dev``, ``cfg["dev"]`` are called ``dev``."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        return node.attr.value
    if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        return text(node.slice[0].slice.value)
    if isinstance(node, cst.Call) and method(node, "get") and node.args:
        return text(node.args[0].value)
    return None


def conditional(
    cuda: str, otherwise: str, place: Place, template: cst.BaseExpression, argument: bool = False
) -> cst.BaseExpression:
    """``cuda`` where there is CUDA, else ``otherwise``; in parentheses where its neighbours could take a part of it,
    which they cannot where it is an ``argument`` of the node that is looked at.
    """
    code = f"{cuda} if {place.has_cuda()} else {otherwise}"
    parent = place.parent()
    alone = argument or isinstance(
        parent, (cst.Arg, cst.Assign, cst.AnnAssign, cst.Return, cst.Expr, cst.Param, cst.DictElement, cst.WithItem)
    )
    return expression(code if alone else f"({code})", template)
