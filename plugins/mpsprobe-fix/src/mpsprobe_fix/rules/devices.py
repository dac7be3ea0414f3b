"""CUDA as a device: conditions that ask for it, methods, texts, numbers and defaults. Each becomes the device that the
machine has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import libcst as cst
import libcst.matchers as m

from mpsprobe_fix.facts import CUDA

from mpsprobe_fix.place import (  # isort: skip
    NUMBERED, Place, argument, arguments, as_to, asks, called, code_of, conditional, cuda_index, cuda_text,
    expression, mentions_cuda, mentions_mac, method, name_of, receiver, text, widened, with_arguments, with_keyword,
)  # fmt: skip
from mpsprobe_fix.rule import DEVICE, rule

_TEXT = rf"""["']{CUDA.pattern}["']|{NUMBERED}"""
_DEVICE = re.compile(rf"""{_TEXT}|torch\.device\(({_TEXT})(, \d)?\)""")
_OF_TYPE = re.compile(r"""((?:[\w.]+[._])?(?:device|type)) == ["']cuda["']""")
_HALF = re.compile(r"\b(b?float16|half)\b(?![\s\S]*torch\.cuda\.)")
_AUTOCAST = re.compile(r"torch\.(amp\.)?autocast\((device_type=)?(?![\"'])")
_CPU = re.compile(r"""["']cpu["']|torch\.device\(["']cpu["']\)""")


def _choice(node: cst.IfExp, place: Place) -> cst.CSTNode | None:
    """``"cuda" if … else "cpu"``, with MPS between both."""
    around = place.parent()
    if mentions_mac(node) or (isinstance(around, cst.IfExp) and mentions_mac(around)):
        return None
    body, orelse = code_of(node.body), code_of(node.orelse)
    if (match := _OF_TYPE.fullmatch(code_of(node.test))) and _AUTOCAST.match(body):
        return node.with_changes(test=expression(f'{match[1]} in ("cuda", "mps")'))
    if not _DEVICE.fullmatch(body) or not _CPU.fullmatch(orelse):
        return None
    if name_of(node.test) in place.facts.flags:
        is_cuda = m.SimpleString(value=m.MatchIfTrue(lambda code: cuda_text(cst.SimpleString(code)) is not None))
        made = m.replace(node.body, is_cuda, lambda node, _: cst.Name(place.device(str(cuda_text(node)))))
        return node.with_changes(body=made)
    test = widened(node.test, place)
    if test is None:
        return None
    mps = orelse.replace("cpu", "mps")
    if isinstance(node.test, cst.Call) and asks(node.test, place):
        return node.with_changes(orelse=expression(f"{mps} if {place.has_mps()} else {orelse}"))
    # `… and not args.cpu`: what else is asked for is asked for MPS too.
    other = f"{body} if {place.has_cuda()} else {mps}"
    return node.with_changes(body=expression(f"({other})"), test=test)


def _branch(node: cst.If, place: Place) -> cst.CSTNode | None:
    """``if torch.cuda.is_available():``: one more branch for a device that is chosen, else a wider condition."""
    if place.line(place.original) in place.with_mac or not mentions_cuda(node.test):
        return None
    if (match := _OF_TYPE.fullmatch(code_of(node.test))) and _HALF.search(code_of(node.body)):
        return node.with_changes(test=expression(f'{match[1]} in ("cuda", "mps")'))
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
    (_choice, _branch, _flag, _demand),
    everywhere=True,
)


_DEVICE_KEYWORDS = {"device", "map_location", "device_map"}
# Where functions take a device by position; each has it by name too.
_POSITIONS = {
    "torch.device": 0, "torch.Generator": 0, "torch.set_default_device": 0, "torch.load": 1, "torch.jit.load": 1,
    "safetensors.torch.load_file": 1,
}  # fmt: skip
_OF_SETTINGS = re.compile(
    r"(?i)^self$|(^|[._])(cfg|conf|config|args|opts?|options|hparams|hps|params|settings)([._]|$)"
)


def _moved(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """``x.cuda()``"""
    if not method(call, "cuda") or place.qualified(call.func).startswith("torch."):
        return None
    around = place.parent()
    if _own(receiver(call), place) or (isinstance(around, cst.Lambda) and len(around.params.params) == 2):
        return None
    first = argument(call, "device", 0)
    device = place.device()
    if first is not None and code_of(first.value) != "None":
        number = cuda_index(first.value) or cuda_text(first.value)
        if number is None:
            return _moved_to(call, first, place)
        device = place.device(number)
    return as_to(call, device, *(passed for passed in call.args if passed is not first))


def _moved_to(call: cst.Call, first: cst.Arg, place: Place) -> cst.CSTNode:
    """``x.cuda(rank)``: a number that only the program knows, and that counts CUDA's devices."""
    rest = [passed for passed in call.args if passed is not first]
    if place.facts.is_device(name_of(first.value) or ""):
        return as_to(call, cst.Arg(first.value, comma=first.comma), *rest)
    return conditional(code_of(call), code_of(as_to(call, place.device(), *rest)), place, call)


def _own(receiver: cst.BaseExpression, place: Place) -> bool:
    """Whether ``cuda()`` is that of a class of the program that has no ``to()``."""
    name = name_of(receiver) or (code_of(receiver.func) if isinstance(receiver, cst.Call) else "")
    return any(name.lower().replace("_", "") == own.lower() for own in place.facts.own_cuda)


rule(
    "cuda-method",
    "cuda() raises where there is no CUDA; to() takes the device that there is.",
    "import torch\n\nmodel = torch.nn.Linear(3, 3).cuda()\n",
    f"import torch\n\n{DEVICE}\nmodel = torch.nn.Linear(3, 3).to(DEVICE)\n",
    (_moved,),
)


def _arguments(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """``.to("cuda")``, ``.to(0)``, ``torch.device("cuda")``, ``device="cuda"``, ``map_location="cuda:0"``"""
    name = place.qualified(call.func)
    if name.startswith(("torch.cuda", "triton")) or "autocast" in name or "GradScaler" in name:
        return None
    moves = method(call, "to")
    position = 0 if moves else _POSITIONS.get(name)
    chosen = argument(call, "device", position) if position is not None else None
    if name == "torch.device" and len(call.args) == 2 and cuda_text(call.args[0].value):
        number = cuda_index(call.args[1].value)
        if number is None:
            return conditional(code_of(call), f"{code_of(call.func)}({place.device()})", place, call)
        return call.with_changes(args=arguments(place.device(number)))

    def changed(keyword: str, value: cst.BaseExpression) -> cst.BaseExpression | None:
        is_chosen = chosen is not None and value is chosen.value
        if not is_chosen and keyword not in _DEVICE_KEYWORDS | place.facts.devices:
            return None
        found = cuda_text(value)
        if found is None and keyword != "device_map" and (moves or keyword == "device"):
            found = cuda_index(value)
        if found is not None:
            return expression(place.device(found), value)
        others = [_numbered] if keyword == "device_map" else [_numbered, _lookup, _mapping]
        return next(filter(None, (one(value, place) for one in others)), None)

    return with_arguments(call, changed)


def _unmapped(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """``torch.load(file)`` of a program that puts something on a device"""
    whole = (
        (place.facts.placed or place.facts.devices)
        and not place.knows_mac
        and not any(passed.star for passed in call.args)
    )
    if place.qualified(call.func) != "torch.load" or not whole or argument(call, "map_location", 1):
        return None
    return with_keyword(call, "map_location", f'None if {place.has_cuda()} else "cpu"')


rule(
    "map-location",
    "What was saved on CUDA cannot be loaded without it, unless torch.load is given another place.",
    'import torch\n\nmodel.cuda()  # mpsprobe: keep\nstate = torch.load("a.pt")\n',
    "import torch\n\nmodel.cuda()  # mpsprobe: keep\n"
    'state = torch.load("a.pt", map_location=None if torch.cuda.is_available() else "cpu")\n',
    (_unmapped,),
)


def _numbered(node: cst.BaseExpression, place: Place) -> cst.BaseExpression | None:
    """``f"cuda:{rank}"``, ``"cuda:%d" % rank``"""
    if isinstance(node, cst.IfExp) or not re.fullmatch(NUMBERED, code_of(node)):
        return None
    return expression(f"{code_of(node)} if {place.has_cuda()} else {place.device()}")


def _lookup(node: cst.BaseExpression, place: Place) -> cst.BaseExpression | None:
    """``settings["device"]``, where a file of settings says CUDA: what it says stays, and means the device there is."""
    value = place.facts.settings.get(name_of(node) or "")
    if value is None or not isinstance(node, (cst.Subscript, cst.Attribute, cst.Call)):
        return None
    code = code_of(node)
    if isinstance(node, cst.Attribute) and not _OF_SETTINGS.search(code_of(node.value)):
        return None  # the device of a tensor
    return expression(f'{place.device(value)} if {code} == "{value}" else {code}')


def _mapping(node: cst.BaseExpression, place: Place) -> cst.BaseExpression | None:
    """``map_location=lambda storage, loc: storage.cuda(0)``, of which a storage has no ``to()``."""
    if not isinstance(node, cst.Lambda) or not (match := re.fullmatch(r"\w+\.cuda\((.*)\)", code_of(node.body))):
        return None
    if not match[1]:
        return cst.Name(place.device())
    return expression(f"({code_of(node)}) if {place.has_cuda()} else {place.device()}")


rule(
    "device-argument",
    'A device that is called "cuda" in a call raises on a Mac.',
    'import torch\n\nx = torch.ones(3, device="cuda")\n',
    f"import torch\n\n{DEVICE}\nx = torch.ones(3, device=DEVICE)\n",
    (_arguments,),
)


def _named(node: Any, place: Place) -> str:
    """What the value of a node is called: by its target, key, parameter, or the function that returns it."""
    if isinstance(node, cst.Return):
        function = next((node for node in reversed(place.around) if isinstance(node, cst.FunctionDef)), None)
        return function.name.value if function else ""
    if isinstance(node, cst.DictElement):
        return text(node.key) or ""
    if isinstance(node, cst.Param):
        return node.name.value
    return name_of(node.target if isinstance(node, cst.AnnAssign) else node.targets[0].target) or ""


def _valued(
    node: cst.Assign | cst.AnnAssign | cst.Return | cst.Param | cst.DictElement, place: Place
) -> cst.CSTNode | None:
    """``device = "cuda"``, ``{"device": "cuda"}``, ``def train(device="cuda")``, and fields of data classes"""
    field = "default" if isinstance(node, cst.Param) else "value"
    name, old = _named(node, place), getattr(node, field)
    assigns = isinstance(node, (cst.Assign, cst.AnnAssign))
    set_elsewhere = assigns and name in place.facts.settings
    if old is None or not (place.facts.is_device(name) or set_elsewhere):
        return None
    new = _default(old, place, whole=assigns or isinstance(node, cst.Return))
    if new is None and set_elsewhere and not place.inside(cst.IfExp):
        new = _lookup(old, place)
    return new and node.with_changes(**{field: new})


def _default(node: cst.BaseExpression, place: Place, whole: bool = False) -> cst.BaseExpression | None:
    """A device as the value of something; ``whole``: the choice itself, else the constant at the head."""
    found = cuda_text(node)
    if found is not None:
        return expression(place.choice(found) if whole else place.device(found), node)
    if (
        isinstance(node, (cst.List, cst.Tuple))
        and node.elements
        and all(cuda_text(device.value) for device in node.elements)
    ):
        devices = [expression(place.device(str(cuda_text(device.value)))) for device in node.elements]
        return node.with_changes(
            elements=[old.with_changes(value=new) for old, new in zip(node.elements, devices, strict=True)]
        )
    return _numbered(node, place)


def _option(call: cst.Call, place: Place) -> cst.CSTNode | None:
    """``add_argument("--device", default="cuda")``, and options of click"""
    names = [text(passed.value) or "" for passed in call.args if passed.keyword is None]
    option = called(call) in {"add_argument", "option", "Option", "Argument"}
    device = option and any(place.facts.is_device(name.lstrip("-").replace("-", "_")) for name in names)
    if not device and not _is_field(call, place):
        return None

    in_place = {"default", "default_factory"}
    return with_arguments(call, lambda keyword, value: _default(value, place) if keyword in in_place else None)


def _is_field(call: cst.Call, place: Place) -> bool:
    """Whether a field of a data class is made, whose name is that of a device."""
    parent = place.parent()
    named = isinstance(parent, cst.AnnAssign) and place.facts.is_device(name_of(parent.target) or "")
    return named and called(call) in {"field", "Field"}


def _listed(node: cst.List | cst.Tuple, place: Place) -> cst.CSTNode | None:
    """``choices=["cuda", "cpu"]``, ``click.Choice(["cuda", "cpu"])``"""
    argument, call = place.parent(), place.parent(2)
    chosen = isinstance(argument, cst.Arg) and argument.keyword is not None and argument.keyword.value == "choices"
    if not chosen and not (isinstance(argument, cst.Arg) and isinstance(call, cst.Call) and called(call) == "Choice"):
        return None
    elements = _with_mps(node.elements, [device.value for device in node.elements])
    return node.with_changes(elements=elements) if elements else None


def _literal(node: cst.Subscript, place: Place) -> cst.CSTNode | None:
    """``Literal["cuda", "cpu"]``"""
    if not place.qualified(node.value).endswith(".Literal"):
        return None
    elements = _with_mps(node.slice, [getattr(part.slice, "value", None) for part in node.slice])
    return node.with_changes(slice=elements) if elements else None


def _with_mps(elements: Sequence[Any], values: Sequence[cst.CSTNode | None]) -> list[Any] | None:
    texts = [text(node) for node in values]
    if "cuda" not in texts or "mps" in texts:
        return None
    at = texts.index("cuda")
    first, value = elements[at], values[at]
    comma = first.comma if isinstance(first.comma, cst.Comma) else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    assert isinstance(value, cst.SimpleString)
    added = first.with_deep_changes(value, value=value.value.replace("cuda", "mps"))
    return [*elements[:at], first.with_changes(comma=comma), added, *elements[at + 1 :]]


rule(
    "device-default",
    'A default of "cuda" fails on a Mac for whoever does not say otherwise.',
    'import torch\n\n\ndef load(device="cuda"):\n    return torch.ones(3, device=device)\n',
    f"import torch\n\n{DEVICE}\n\ndef load(device=DEVICE):\n    return torch.ones(3, device=device)\n",
    (_valued, _option, _listed, _literal),
)
