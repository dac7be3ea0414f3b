"""What is known of all files together: a device is made in one of them and used in another."""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from mpsprobe_fix.catalogue import lacked, rewrite_of

DEVICE_NAME = re.compile(r"(^|_)(device|dev|devices|accelerator)(_|$|\d)")
CUDA = re.compile(r"cuda(:\d+)?")
_PLACE = re.compile(rf"{CUDA.pattern}|torch\.cuda\.\w+Tensor")
# Neither "timestamps" nor a comment for mpsprobe, nor the accelerator of accelerate.
MAC = re.compile(r"(?<![a-z])mps(?!probe)|torch\.accelerator|current_accelerator", re.IGNORECASE)
IMPORTS = (ast.Import, ast.ImportFrom)
ASKED = "torch.cuda.is_available"
DEEPEST = 150
"""Levels of a tree; Python walks it with some calls for each, and ends at a thousand."""
_FORK = {"fork", "forkserver"}
_TYPES = re.compile(r"torch\.cuda\.(\w+Tensor) if .* else torch\.(\w+Tensor)$")
_WITHOUT_PARAMETERS = re.compile(r"(?:torch\.)?nn\.(\w+(?:Loss|Pool[123]d)|Fold|Unfold|Upsample\w*)")


@dataclass
class Facts:
    """Of the files of one run."""

    # Names (variables, attributes, keys, parameters) whose value is used as a device somewhere.
    devices: set[str] = field(default_factory=set)
    # Keys of YAML and TOML files whose value is a CUDA device, and that value.
    settings: dict[str, str] = field(default_factory=dict)
    # Classes with a method ``cuda()`` of their own and none called ``to()``.
    own_cuda: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)  # names that say whether there is CUDA
    flags: set[str] = field(default_factory=set)  # those of them that guard work on the device
    # Names of a type of tensors that is CUDA's where there is CUDA, and what it is called: ``FloatTensor``.
    types: dict[str, str] = field(default_factory=dict)
    scopes: set[str] = field(default_factory=set)  # names of a function that is autocast, or nothing
    processes: set[str] = field(default_factory=set)  # names of how many processes are started
    placed: bool = False  # whether something is put on CUDA or MPS by its name
    # Names of modules without parameters, and their class: ``CTCLoss``.
    modules: dict[str, str] = field(default_factory=dict)
    release: tuple[int, ...] = (0,)  # of torch, as numbers, that is judged: some edits are for older ones only
    refused: set[str] = field(default_factory=set)  # operators that a run saw refused
    made: set[str] = field(default_factory=set)  # modules that are made somewhere
    # Whether asking CUDA at import would change the program: it forks, or chooses its GPUs itself, and CUDA is
    # initialised by ``torch.cuda.is_available()``.
    early: bool = False

    def lacks(self, function: str, sized: bool) -> str | None:
        """The operator that a call of ``function`` needs and a Mac does not have, as far as that is known: of the
        release where something is put on a device, or of a module since a run saw its operator refused.
        """
        if (self.placed or self.devices or sized) and (known := lacked(function, self.release, sized)):
            return known
        rewrite = rewrite_of(function)
        is_module = rewrite is not None and function not in rewrite.functions
        return next(iter(rewrite.operators & self.refused), None) if rewrite and is_module else None

    def is_device(self, name: str) -> bool:
        """Whether what is called ``name`` is a device."""
        return name in self.devices or DEVICE_NAME.search(name.lower()) is not None

    def learn(self, value: ast.expr, names: Sequence[str]) -> None:
        """What ``names = value`` says about the names."""
        if isinstance(value, (ast.Call, ast.BoolOp, ast.UnaryOp, ast.IfExp)):
            code = ast.unparse(value)
            if ASKED in code and not _is_choice(value):
                self.asked.update(names)
            if isinstance(value, ast.IfExp) and "autocast" in code:
                self.scopes.update(names)
            if isinstance(value, ast.IfExp) and (match := _TYPES.match(code)) and match[1] == match[2]:
                self.types.update(dict.fromkeys(names, match[1]))
            elif isinstance(value, ast.Call) and (module := _WITHOUT_PARAMETERS.fullmatch(ast.unparse(value.func))):
                self.modules.update(dict.fromkeys(names, module[1]))


@dataclass
class Program:
    """A file as Python reads it."""

    code: str
    tree: ast.Module
    nodes: list[ast.AST]  # all of its tree, level by level
    sized: set[int] = field(default_factory=set)  # lines that call on the device what some sizes are refused in

    @cached_property
    def lines(self) -> list[str]:
        return lines_of(self.code)

    @cached_property
    def names(self) -> dict[str, str]:
        """Every name that an import anywhere in the file binds, with what it names; none that is given to something
        else too. A file that only uses ``torch`` has it from an import of everything, or from another cell.
        """
        names = {"torch": "torch"}
        others: set[str] = set()
        for node in self.nodes:
            if isinstance(node, IMPORTS):
                names.update(imported(node))
            elif isinstance(node, ast.arg):
                others.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                others.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                others.add(node.name)
        return {name: full for name, full in names.items() if name not in others}

    def qualified(self, node: ast.expr | cst.CSTNode) -> str:
        """The full name of what an expression names, by the imports of the file, ``torch.cuda.amp.autocast``; else
        nothing."""
        parts: list[str] = []
        while isinstance(node, (ast.Attribute, cst.Attribute)):
            parts.append(node.attr if isinstance(node, ast.Attribute) else node.attr.value)
            node = node.value
        name = node.id if isinstance(node, ast.Name) else node.value if isinstance(node, cst.Name) else ""
        return ".".join([self.names[name], *reversed(parts)]) if name in self.names else ""


def lines_of(code: str) -> list[str]:
    """The lines as Python counts them, with their ends."""
    return re.split(r"(?<=\n)|(?<=\r)(?!\n)", code)


def first_line(statement: ast.stmt) -> int:
    """Of its decorators, where it has some."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return decorators[0].lineno if decorators else statement.lineno


def imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """The names that an import binds, and what each names in full."""
    if isinstance(node, ast.ImportFrom):
        module = f"{'.' * node.level}{node.module or ''}"
        return {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
    names = [(alias.asname, alias.name if alias.asname else alias.name.split(".")[0]) for alias in node.names]
    return {short or full: full for short, full in names}


def parsed(code: str) -> Program | str:
    """``code`` as a program, or why it is none: what is nested too deeply ends ``ast.unparse`` and libcst."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        return f"does not parse, line {line}" if line else "does not parse"
    nodes: list[ast.AST] = []
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        nodes += level
        level = [inner for node in level for inner in ast.iter_child_nodes(node)]
    return "is nested too deeply" if level else Program(code, tree, nodes)


def facts_of(programs: Sequence[Program], settings: Mapping[str, str]) -> Facts:
    facts = Facts(settings=dict(settings))
    guards: dict[str, list[ast.If | ast.IfExp]] = {}
    for program in programs:
        for node in program.nodes:
            if isinstance(node, ast.Call):
                facts.devices.update(filter(None, map(last_name, _device_arguments(node))))
                facts.early = facts.early or _forks(node)
                facts.processes.update(
                    filter(None, (last_name(argument.value) for argument in node.keywords if argument.arg == "nprocs"))
                )
                facts.placed = facts.placed or getattr(node.func, "attr", "") == "cuda"
                facts.made.add(program.qualified(node.func))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                facts.early = facts.early or node.value == "CUDA_VISIBLE_DEVICES"
                facts.placed = facts.placed or CUDA.fullmatch(node.value.replace("mps", "cuda")) is not None
            elif isinstance(node, ast.ClassDef):
                methods = {statement.name for statement in node.body if isinstance(statement, ast.FunctionDef)}
                if "cuda" in methods and "to" not in methods and not node.bases:
                    facts.own_cuda.add(node.name)
            elif isinstance(node, ast.Assign):
                facts.learn(node.value, list(filter(None, map(last_name, node.targets))))
            elif isinstance(node, (ast.If, ast.IfExp)) and (name := last_name(node.test)):
                guards.setdefault(name, []).append(node)
    _find_sized(programs)
    facts.flags = {name for name in facts.asked if any(map(_guards, guards.get(name, [])))}
    return facts


def _guards(node: ast.If | ast.IfExp) -> bool:
    return any(places(statement) for statement in (node.body if isinstance(node.body, list) else [node.body]))


def inner_functions(nodes: Iterable[ast.AST]) -> set[str]:
    """Names of functions that are defined inside another one, and cannot be sent to a process."""
    outer = (node for node in nodes if isinstance(node, ast.FunctionDef))
    return {statement.name for node in outer for statement in node.body if isinstance(statement, ast.FunctionDef)}


def run_at_import(tree: ast.Module) -> set[str]:
    """Functions and classes of a file that are called when it is imported, and those that they call in turn."""
    defined = {
        statement.name: statement for statement in tree.body if isinstance(statement, (ast.FunctionDef, ast.ClassDef))
    }
    waiting = [statement for statement in tree.body if statement not in defined.values() and not is_main(statement)]
    found: set[str] = set()
    while waiting:
        names = {last_name(inner.func) for inner in ast.walk(waiting.pop()) if isinstance(inner, ast.Call)}
        new = {name for name in names if name in defined} - found
        found |= new
        waiting += [defined[name] for name in new]
    return found


def is_main(node: ast.stmt) -> bool:
    """Whether a statement is the main guard of a script."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _is_choice(node: ast.expr) -> bool:
    """Whether a device is chosen inside: ``torch.device("cuda" if torch.cuda.is_available() else "cpu")``; not
    ``True if torch.cuda.is_available() else False``.
    """
    conditionals = (inner for inner in ast.walk(node) if isinstance(inner, ast.IfExp))
    return any(
        not (isinstance(conditional.body, ast.Constant) and isinstance(conditional.body.value, bool))
        for conditional in conditionals
    )


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
    if function == "to" and isinstance(call.func, ast.Attribute):
        # x.to(dtype) is not a device: what names a dtype does not hold the text "cuda", so nothing comes of it.
        yield from call.args[:1]
    if function == "device" and ast.unparse(call.func) == "torch.device":
        yield from call.args[:1]
    yield from (keyword.value for keyword in call.keywords if keyword.arg in {"device", "map_location"})


def places(node: ast.AST) -> bool:
    """Whether something below is put on a CUDA device."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "cuda":
            return True
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and _PLACE.fullmatch(inner.value):
            return True
        if (
            isinstance(inner, ast.Attribute)
            and inner.attr[-6:] == "Tensor"
            and ast.unparse(inner).startswith("torch.cuda.")
        ):
            return True
    return False


def conditions(nodes: Iterable[ast.AST]) -> tuple[set[int], set[int]]:
    """Lines of each ``if`` about CUDA whose branch puts something on the device, or that gives up without CUDA; and
    lines of those with a branch for a Mac: their own ``elif``, one before, or an ``if`` behind one that returns.
    """
    widened: set[int] = set()
    with_mac: set[int] = set()
    following: dict[ast.If, list[ast.If]] = {}
    for node in nodes:
        block = getattr(node, "body", None)
        ifs = [statement for statement in block if isinstance(statement, ast.If)] if isinstance(block, list) else []
        following |= {
            branch: ifs[number + 1 :] for number, branch in enumerate(ifs) if isinstance(branch.body[-1], ast.Return)
        }
        if not isinstance(node, ast.If):
            continue
        if node.lineno in with_mac or any(
            _names_mac(condition) for condition in (*_chain(node), *following.get(node, ()))
        ):
            with_mac.update(statement.lineno for statement in _chain(node))
        elif ASKED in ast.unparse(node.test):
            refuses = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
            if (refuses and any(map(_gives_up, node.body))) or (
                not refuses and not _only_chooses(node) and any(map(places, node.body))
            ):
                widened.add(node.lineno)
    return widened, with_mac


def _chain(node: ast.If) -> list[ast.If]:
    """An ``if`` with its ``elif``."""
    chain = [node]
    while len(chain[-1].orelse) == 1 and isinstance(chain[-1].orelse[0], ast.If):
        chain.append(chain[-1].orelse[0])
    return chain


def _names_mac(node: ast.If) -> bool:
    return MAC.search(ast.unparse(node.test)) is not None


def _gives_up(node: ast.stmt) -> bool:
    """Whether a statement ends the work, or sends it to the CPU."""
    text = ast.unparse(node)
    return isinstance(node, (ast.Raise, ast.Return)) or "exit(" in text or text.endswith("= 'cpu'")


def _only_chooses(node: ast.If) -> bool:
    """Whether both branches set a device: the one for MPS is added between them."""
    return bool(node.orelse) and len(node.body) == 1 and isinstance(node.body[0], ast.Assign)


def _forks(call: ast.Call) -> bool:
    text = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if text not in {"fork", "set_start_method", "get_context"}:
        return False
    first = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    return text == "fork" or first in _FORK


_Key = str | tuple[int, str | int]
"""A definition, an attribute or what is imported: its name. A variable or a call: its file, and its name or line."""
_NONE = re.compile(r"torch\.\w+|(.*\W)?\w*dtype\w*|'cpu'")
"""What stands where a device could, and is none for MPS."""
_GROWS = {"add_module", "append", "extend", "insert"}


def _find_sized(programs: Sequence[Program]) -> None:
    """Note in each program where it calls on the device what is refused for some sizes."""
    asked = [{node.lineno for node in program.nodes if isinstance(node, ast.Call) and _is_sized(node, program)}
             for program in programs]  # fmt: skip
    on_device = _on_device(programs) if any(asked) else set()
    for number, (program, lines) in enumerate(zip(programs, asked, strict=True)):
        program.sized = {line for line in lines if (number, line) in on_device}


def _is_sized(call: ast.Call, program: Program) -> bool:
    function = program.qualified(call.func)
    rewrite = rewrite_of(function)
    if rewrite is None or not rewrite.sizes:
        return False
    given = call.args[function in rewrite.functions :][:1]
    given += [keyword.value for keyword in call.keywords if keyword.arg == rewrite.sizes[1]]
    return not given or not {*re.findall(r"\w+", ast.unparse(given[0]))} <= {"1", "None"}


def _on_device(programs: Sequence[Program]) -> set[_Key]:
    files = [_File(number, program) for number, program in enumerate(programs)]
    made_of: dict[_Key, set[_Key]] = defaultdict(set)
    parameters: dict[_Key, list[tuple[int, list[str]]]] = defaultdict(list)
    for file in files:
        for definition in file.definitions:
            made_of[definition.name] |= file.named(definition)
            for statement in (definition, *definition.body):
                if isinstance(statement, ast.FunctionDef) and (statement is definition or statement.name == "__init__"):
                    names = [each.arg for each in (*statement.args.posonlyargs, *statement.args.args)]
                    parameters[definition.name].append((file.number, names[names[:1] == ["self"] :]))
    waiting: set[_Key] = set()
    for file in files:
        at_import: set[ast.AST] = {*file.program.tree.body}
        for node in file.program.nodes:
            if isinstance(node, ast.Call):
                called = last_name(node.func) or ""
                devices = (
                    argument for argument in _device_arguments(node) if not _NONE.fullmatch(ast.unparse(argument))
                )
                if called in {"cuda", "prepare"} or any(devices):
                    waiting |= file.parts(node)
                given = [(argument.arg, argument.value) for argument in node.keywords]
                for number, names in parameters.get(file.names.get(called, called), ()):
                    for name, value in [*zip(names, node.args, strict=False), *given]:
                        made_of[number, name or ""] |= file.parts(value)
                if called in _GROWS and isinstance(node.func, ast.Attribute):
                    for key in file.parts(node.func.value):
                        made_of[key] |= file.parts(*node.args)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.comprehension)):
                parts = file.parts(node.iter if isinstance(node, (ast.For, ast.comprehension)) else node.value)
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for part in (inner for target in targets for inner in ast.walk(target)):
                    if isinstance(part, (ast.Name, ast.Attribute)):
                        made_of[file.key(part)] |= parts
                        if node in at_import:  # another file may import it
                            made_of[last_name(part) or ""] |= parts
    keys: set[_Key] = set()
    while waiting:
        keys |= waiting
        waiting = {source for key in waiting for source in made_of[key]} - keys
    return keys


class _File:
    """What the expressions of one file name, as all files know it."""

    def __init__(self, number: int, program: Program) -> None:
        self.number = number
        self.program = program
        self.definitions = [node for node in program.nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
        self.names = {short: full.rpartition(".")[2] for short, full in program.names.items()}
        self.names |= {definition.name: definition.name for definition in self.definitions}
        classes = (definition for definition in self.definitions if isinstance(definition, ast.ClassDef))
        self._selves = {inner: class_.name for class_ in classes for inner in ast.walk(class_)
                        if isinstance(inner, ast.Name) and inner.id == "self"}  # fmt: skip

    def key(self, node: ast.Name | ast.Attribute) -> _Key:
        if isinstance(node, ast.Attribute):
            return node.attr
        return self._selves.get(node) or self.names.get(node.id) or (self.number, node.id)

    def parts(self, *nodes: ast.AST | None) -> set[_Key]:
        """What expressions are made of: of ``a.b.c`` only ``c``."""
        keys: set[_Key] = set()
        waiting: list[ast.AST | None] = [*nodes]
        while waiting:
            node = waiting.pop()
            if isinstance(node, (ast.Name, ast.Attribute)):
                keys.add(self.key(node))
            elif node is not None:
                waiting.extend(ast.iter_child_nodes(node))
            if isinstance(node, ast.Call):
                keys.add((self.number, node.lineno))
                waiting += [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return keys

    def named(self, definition: ast.ClassDef | ast.FunctionDef) -> set[_Key]:
        """What a definition takes from outside, and its calls."""
        inner = list(ast.walk(definition))
        names = [node for node in inner if isinstance(node, ast.Name)]
        bound = {name.id for name in names if not isinstance(name.ctx, ast.Load)}
        bound |= {node.arg for node in inner if isinstance(node, ast.arg)}
        made: set[_Key] = {self.key(name) for name in names if name.id not in bound}
        made |= {node.attr for node in inner if isinstance(node, ast.Attribute) and self.program.qualified(node)}
        return made | {(self.number, node.lineno) for node in inner if isinstance(node, ast.Call)}
