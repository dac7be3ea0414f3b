"""What is known of all files together: a device is made in one of them and used in another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

DEVICE_NAME = re.compile(r"(^|_)(device|dev|devices|accelerator)(_|$|\d)")
CUDA = re.compile(r"cuda(:\d+)?")
_PLACE = re.compile(rf"{CUDA.pattern}|torch\.cuda\.\w+Tensor")
ASKED = "torch.cuda.is_available"
_FORK = {"fork", "forkserver"}


@dataclass
class Facts:
    """Of the files of one run.

    Attributes:
        devices: names (variables, attributes, keys, parameters) whose value is used as a device somewhere.
        settings: keys of YAML and TOML files whose value is a CUDA device.
        own_cuda: classes with a method ``cuda()`` of their own and none called ``to()``.
        flags: names that say whether there is CUDA, and guard work on the device.
        early: whether asking CUDA at import would change the program: it forks, or chooses its GPUs itself, and CUDA
            is initialised by ``torch.cuda.is_available()``.
    """

    devices: set[str] = field(default_factory=set)
    settings: set[str] = field(default_factory=set)
    own_cuda: set[str] = field(default_factory=set)
    flags: set[str] = field(default_factory=set)
    early: bool = False

    def is_device(self, name: str) -> bool:
        """Whether what is called ``name`` is a device."""
        return name in self.devices or DEVICE_NAME.search(name.lower()) is not None


def facts_of(trees: Iterable[ast.Module], settings: Iterable[str]) -> Facts:
    facts = Facts(settings=set(settings))
    asked: set[str] = set()
    guards: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                facts.devices.update(filter(None, map(last_name, _device_arguments(node))))
                facts.early = facts.early or _forks(node)
            elif isinstance(node, ast.Constant) and node.value == "CUDA_VISIBLE_DEVICES":
                facts.early = True
            elif isinstance(node, ast.ClassDef):
                methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
                if "cuda" in methods and "to" not in methods and not node.bases:
                    facts.own_cuda.add(node.name)
            elif isinstance(node, ast.Assign) and ASKED in ast.unparse(node.value):
                if not isinstance(node.value, (ast.IfExp, ast.Dict)) and not _is_choice(node.value):
                    asked.update(filter(None, map(last_name, node.targets)))
            elif isinstance(node, (ast.If, ast.IfExp)):
                name = last_name(node.test)
                body = node.body if isinstance(node.body, list) else [node.body]
                if name and any(places(one) for one in body):
                    guards.add(name)
    facts.flags = asked & guards
    return facts


def _is_choice(node: ast.expr) -> bool:
    """Whether a device is chosen inside: ``torch.device("cuda" if torch.cuda.is_available() else "cpu")``."""
    return any(isinstance(one, ast.IfExp) for one in ast.walk(node))


def last_name(node: ast.expr | None) -> str | None:
    """``DEV``, ``cfg.dev``, ``cfg["dev"]`` and ``cfg.get("dev")`` are all called ``dev``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        return str(node.args[0].value) if isinstance(node.args[0], ast.Constant) else None
    return None


def _device_arguments(call: ast.Call) -> Iterator[ast.expr]:
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if function == "to" and isinstance(call.func, ast.Attribute) and len(call.args) == 1:
        # x.to(dtype) is not a device: what names a dtype does not hold the text "cuda", so nothing comes of it.
        yield call.args[0]
    if ast.unparse(call.func) == "torch.device":
        yield from call.args[:1]
    yield from (one.value for one in call.keywords if one.arg in {"device", "map_location"})


def places(node: ast.AST) -> bool:
    """Whether something below is put on a CUDA device."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
            if one.func.attr == "cuda" and not ast.unparse(one.func).startswith("torch.cuda"):
                return True
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and _PLACE.fullmatch(one.value):
            return True
        if isinstance(one, ast.Attribute) and ast.unparse(one).startswith("torch.cuda.") and one.attr[-6:] == "Tensor":
            return True
    return False


def widened_lines(tree: ast.Module) -> set[int]:
    """Lines of each ``if`` about CUDA whose branch puts something on the device, or that gives up without CUDA."""
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ASKED in ast.unparse(node.test):
            refuses = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
            if refuses and any(map(_gives_up, node.body)):
                lines.add(node.lineno)
            elif not refuses and not _only_chooses(node) and any(map(places, node.body)):
                lines.add(node.lineno)
    return lines


def _gives_up(node: ast.stmt) -> bool:
    """Whether a statement ends the work, or sends it to the CPU."""
    text = ast.unparse(node)
    return isinstance(node, (ast.Raise, ast.Return)) or "exit(" in text or text.endswith("= 'cpu'")


def _only_chooses(node: ast.If) -> bool:
    """Whether both branches set a device: the one for MPS is added between them."""
    return bool(node.orelse) and len(node.body) == 1 and isinstance(node.body[0], ast.Assign)


def _forks(call: ast.Call) -> bool:
    text = ast.unparse(call.func)
    first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    return text == "os.fork" or (text.endswith(("set_start_method", "get_context")) and first in _FORK)
