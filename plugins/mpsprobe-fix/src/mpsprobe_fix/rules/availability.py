"""Conditions that only ask for CUDA: a Mac takes the branch of the CPU."""

from __future__ import annotations

import re

import libcst as cst

from mpsprobe_fix.facts import CUDA
from mpsprobe_fix.matching import NUMBERED, asks, cuda_text, mentions_cuda, mentions_mac, name_of, widened
from mpsprobe_fix.place import Place, code_of, expression
from mpsprobe_fix.rule import rule

_TEXT = rf"""["']{CUDA.pattern}["']|{NUMBERED}"""
_DEVICE = re.compile(rf"""{_TEXT}|torch\.device\(({_TEXT})(, \d)?\)""")
_OF_TYPE = re.compile(r"""((?:[\w.]+[._])?(?:device|type)) == ["']cuda["']""")
_HALF = re.compile(r"\b(b?float16|half)\b(?![\s\S]*torch\.cuda\.)")
_CPU = re.compile(r"""["']cpu["']|torch\.device\(["']cpu["']\)""")


def _choice(node: cst.IfExp, place: Place) -> cst.CSTNode | None:
    """``"cuda" if … else "cpu"``, with MPS between both."""
    around = place.parent()
    if mentions_mac(node) or (isinstance(around, cst.IfExp) and mentions_mac(around)):
        return None
    body, orelse = code_of(node.body), code_of(node.orelse)
    if not _DEVICE.fullmatch(body) or not _CPU.fullmatch(orelse):
        return None
    if name_of(node.test) in place.facts.flags:
        made = node.body.visit(_Strings(place)) if cuda_text(node.body) is None else None
        return node.with_changes(body=made or cst.Name(place.device(str(cuda_text(node.body)))))
    test = widened(node.test, place)
    if test is None:
        return None
    mps = orelse.replace("cpu", "mps")
    if isinstance(node.test, cst.Call) and asks(node.test, place):
        return node.with_changes(orelse=expression(f"{mps} if {place.has_mps()} else {orelse}"))
    # `… and not args.cpu`: what else is asked for is asked for MPS too.
    other = f"{body} if {place.has_cuda()} else {mps}"
    return node.with_changes(body=expression(f"({other})"), test=test)


class _Strings(cst.CSTTransformer):
    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place = place

    def leave_SimpleString(self, _: cst.SimpleString, updated: cst.SimpleString) -> cst.BaseExpression:
        cuda = cuda_text(updated)
        return updated if cuda is None else cst.Name(self._place.device(cuda))


def _branch(node: cst.If, place: Place) -> cst.CSTNode | None:
    """``if torch.cuda.is_available():``: one more branch for a device that is chosen, else a wider condition."""
    if place.line(place.original) in place.with_mac or not mentions_cuda(node.test):
        return None
    if (found := _OF_TYPE.fullmatch(code_of(node.test))) and _HALF.search(code_of(node.body)):
        return node.with_changes(test=expression(f'{found[1]} in ("cuda", "mps")'))
    if asks(node.test, place) and (chosen := _chosen(node)):
        branch = cst.parse_statement(f"if {place.has_mps()}:\n    {chosen}\n")
        assert isinstance(branch, cst.If)
        block = node.body.with_changes(body=branch.body.body)
        return node.with_changes(orelse=branch.with_changes(body=block, orelse=node.orelse))
    made = widened(node.test, place) if place.line(place.original) in place.widened else None
    return made and node.with_changes(test=made)


def _chosen(node: cst.If) -> str | None:
    """What a branch that only sets one name to a CUDA device, or returns one, does on MPS."""
    if not isinstance(node.body, cst.IndentedBlock) or len(node.body.body) != 1:
        return None
    line = node.body.body[0]
    made = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    sets = isinstance(made, cst.Assign) and isinstance(node.orelse, cst.Else)
    if not isinstance(made, (cst.Assign, cst.Return)) or not (sets or isinstance(made, cst.Return)):
        return None
    value = code_of(made.value) if made.value else ""
    if not _DEVICE.fullmatch(value):
        return None
    before = f"{code_of(made.targets[0].target)} =" if isinstance(made, cst.Assign) else "return"
    return before + (' torch.device("mps")' if value.startswith("torch") else ' "mps"')


def _flag(node: cst.Assign, place: Place) -> cst.CSTNode | None:
    """``use_cuda = torch.cuda.is_available()``, where it guards work on the device."""
    made = widened(node.value, place) if name_of(node.targets[0].target) in place.facts.flags else None
    return made and node.with_changes(value=made)


def _demand(node: cst.Assert, place: Place) -> cst.CSTNode | None:
    """``assert torch.cuda.is_available()``"""
    made = widened(node.test, place)
    return made and node.with_changes(test=made)


rule(
    "device-choice",
    "A program that only asks for CUDA runs on the CPU of a Mac.",
    'import torch\n\ndevice = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n',
    "import torch\n\n"
    'device = torch.device("cuda" if torch.cuda.is_available() else '
    '"mps" if torch.backends.mps.is_available() else "cpu")\n',
    (cst.IfExp, _choice),
    (cst.If, _branch),
    (cst.Assign, _flag),
    (cst.Assert, _demand),
    everywhere=True,
)
