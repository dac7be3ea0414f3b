"""What libraries ask torch about itself, answered by the release that is judged while its device is open.

Libraries choose what they do by the version of torch and by whether MPS is there, and ask once: when they are imported
(``_is_torch_greater_or_equal_than_2_13 = …``), or in a function with a cache. So answers of the installed torch, or
from before the device opened, would stay. While ``answering`` is on, ``torch.__version__`` and the version of torch in
``importlib.metadata`` are those of the release, caches of such functions are empty, and constants that modules worked
out of such questions have the value that they would have had there. All of it is found by how it is computed:

- a question is a function that reads ``torch.__version__``, names the package ``"torch"``, asks for
  ``torch.backends.mps``, or calls such a function, and that stores nothing;
- a constant is what a module assigns, outside functions, from an expression of questions, operators and versions, and
  that still has the value of that expression.

PyTorch's own code and ours get the installed version. A library that needs a newer torch than the release is answered
as for the oldest torch that its metadata asks for: with an older one it would not work at all. What a module defines
in an ``if`` about the version, classes above all, stays as the installed torch has it.
"""

from __future__ import annotations

import ast
import dis
import importlib.metadata
import inspect
import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, ref

import torch
from packaging.requirements import Requirement
from packaging.version import Version
from torch.torch_version import TorchVersion

from mpsprobe_coverage.devices.virtual.mps_in_python import Replace, replacing
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.kernels.releases import as_version

INSTALLED: Any = torch.__version__
_Place = tuple[ModuleType, str]
_Questions = dict[Hashable, Callable[[], Any]]
_DEEP = 3  # calls from a question to what it is made of
_Cache = type(lru_cache(repr))
_ANSWERS = (bool, str, Version)
_PLAIN = (*_ANSWERS, int, float, type(None))
_STORES = {"STORE_GLOBAL", "STORE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "DELETE_ATTR", "DELETE_GLOBAL"}
_STORES |= {"BEFORE_WITH", "SETUP_WITH", "YIELD_VALUE", "RETURN_GENERATOR"}
_STORING = {dis.opmap[name] for name in _STORES if name in dis.opmap}
_KEEP_TRUTH = re.compile(r"(torch|functorch|torchgen|mpsprobe\w*)(\.|$)")
_NAMES_TORCH = re.compile(r"torch\s*([<>=!~].*)?$")  # the package in a call, also as a requirement: "torch>=2.1"
_TARGETS = r"[A-Za-z_]\w*(?:[ \t]*,[ \t]*\w+)*[ \t]*(?::[^=\n]+)?=(?!=)[ \t]*"
_ASSIGNED = re.compile(
    rf"^{_TARGETS}((?:[(\[][ \t]*\n(?:[ \t].*\n|\n)*)?.*)", re.MULTILINE
)  # with the lines in its brackets
_ASSIGNED_INSIDE = re.compile(rf"^[ \t]+{_TARGETS}(.*)", re.MULTILINE)  # an ``if`` or a ``try``
_DIRECT = re.compile(r"torch\.__version__|[\"']torch\b[^\"'.]*[\"']|torch\.backends\.mps|torch\.accelerator")
_DIRECTLY = ("torch.__version__", '"torch', "'torch", "torch.backends.mps", "torch.accelerator")  # quick to look for
_WORD = re.compile(r"(?<![\"'\w])[A-Za-z_]\w*")
_SAFE = ("packaging", "operator", "builtins", "importlib", "torch")  # whose functions an expression may call


class _Constant(NamedTuple):
    module: ModuleType
    names: tuple[str, ...]
    code: CodeType

    def present(self) -> Any:
        values = tuple(vars(self.module).get(name) for name in self.names)
        return values if len(values) > 1 else values[0]

    def worked_out(self) -> Any:
        return eval(self.code, vars(self.module))

    def holds(self) -> bool:
        with suppress(Exception):
            return bool(self.worked_out() == self.present())
        return False


@dataclass(slots=True)
class _Found:
    constants: list[_Constant] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)  # globals that are functions which ask
    caches: list[Any] = field(default_factory=list)


_found: WeakKeyDictionary[ModuleType, _Found] = WeakKeyDictionary()
_seen: dict[str, ref[ModuleType]] = {}
_of_libraries: WeakKeyDictionary[ModuleType, None] = WeakKeyDictionary()  # those of them that name torch
_packages: dict[str, WeakSet[ModuleType]] = {}
_depths: WeakKeyDictionary[FunctionType, int] = WeakKeyDictionary()
_derived_names: set[str] = set()


# How questions and constants are found.
def _unwrapped(value: Any) -> Any:
    value = value.__wrapped__ if type(value) is _Noted else value
    return getattr(value, "__wrapped__", None) if type(value) is _Cache else value


def _depth(function: FunctionType) -> int:
    """How many calls ``function`` is from what answers for torch; ``_DEEP`` if it is no question."""
    if function not in _depths:
        _depths[function] = _DEEP  # one that calls itself
        code, around = function.__code__, function.__globals__
        names = {*code.co_names}
        if _STORING.isdisjoint(code.co_code[::2]) and not str(around.get("__name__")).startswith("torch."):
            if _asks_directly(code):
                _depths[function] = 0
            else:
                called = [_unwrapped(around.get(name)) for name in names]
                depths = [_depth(callee) for callee in called if type(callee) is FunctionType]
                depths += [0] if names & _names_of(around.get("__name__")) else []
                _depths[function] = min([_DEEP, *(depth + 1 for depth in depths)])
    return _depths[function]


def _asks_directly(code: CodeType) -> bool:
    names = {*code.co_names}
    by_name = any(isinstance(constant, str) and _NAMES_TORCH.match(constant) for constant in code.co_consts[1:])
    about_mps = "torch" in names and ("accelerator" in names or {"mps", "is_available"} <= names)
    return by_name or about_mps or {"torch", "__version__"} <= names


def _names_of(module: Any) -> set[str]:
    known = _found.get(sys.modules[module], _Found()) if module in sys.modules else _Found()
    return {name for constant in known.constants for name in constant.names}


def _is_question(value: Any) -> bool:
    function = _unwrapped(value)
    return type(function) is FunctionType and _depth(function) < _DEEP


def _look() -> None:
    """At the modules that were imported since."""
    for name, module in [*sys.modules.items()]:
        if (
            type(name) is str
            and isinstance(module, ModuleType)
            and ((seen := _seen.get(name)) is None or seen() is not module)
        ):
            _seen[name] = ref(module)
            _found[module] = _Found()
            _packages.setdefault(name.partition(".")[0], WeakSet()).add(module)
            _look_at(name, module, _found[module])


def _modules() -> list[ModuleType]:
    return [*_of_libraries]


def _look_at(name: str, module: ModuleType, places: _Found) -> None:
    file = str(vars(module).get("__file__"))
    top = name.partition(".")[0]
    if _KEEP_TRUTH.match(name) or top in sys.stdlib_module_names - {"__main__"} or not file.endswith(".py"):
        return
    text = _read(file)
    if "torch" not in text:
        return
    _of_libraries[module] = None
    if _may_have_constants(text, module):
        with suppress(SyntaxError, RecursionError):
            for targets, value in _assignments(ast.parse(text).body):
                if _is_worked_out(value, module):
                    code = compile(ast.Expression(value), file, "eval")
                    places.constants.append(_Constant(module, targets, code))
                    _derived_names.update(targets)
    values = [*vars(module).items()]
    places.questions += [key for key, value in values if type(value) in (FunctionType, _Cache) and _is_question(value)]
    kinds = [kind for _, kind in values if issubclass(type(kind), type)]  # a proxy answers for what is behind it
    inside = [vars(kind) for kind in kinds if kind.__module__ == name]
    held = [value for owner in (vars(module), *inside) for value in owner.values()] if "cache" in text else []
    held = [one.__func__ if type(one) in (staticmethod, classmethod) else one for one in held]
    places.caches += [one for one in held if type(one) is _Cache and _is_question(one)]


def _may_have_constants(text: str, module: ModuleType) -> bool:
    directly = any(words in text for words in _DIRECTLY)
    if directly and any(map(_DIRECT.search, _ASSIGNED_INSIDE.findall(text))):
        return True
    for value in _ASSIGNED.findall(text):
        if directly and _DIRECT.search(value):
            return True
        words = {*_WORD.findall(value)}
        if words & _derived_names or any(_is_question(vars(module).get(word)) for word in words):
            return True
    return False


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[tuple[str, ...], ast.expr]]:
    for statement in body:
        if isinstance(statement, (ast.If, ast.Try)):
            yield from _assignments([*statement.body, *statement.orelse])
            for handler in statement.handlers if isinstance(statement, ast.Try) else ():
                yield from _assignments(handler.body)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        value = getattr(statement, "value", None)
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        names = tuple(target.id for target in targets if isinstance(target, ast.Name))
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and value is not None and len(names) == len(targets):
            yield names, value


def _is_worked_out(value: ast.expr, module: ModuleType) -> bool:
    """Whether it asks torch, and calls nothing else than questions and what computes with versions."""
    asks = False
    for node in ast.walk(value):
        if isinstance(node, (ast.Lambda, ast.NamedExpr, ast.Await, ast.GeneratorExp, ast.ListComp)):
            return False
        if isinstance(node, ast.Name):
            asks |= node.id in _derived_names and node.id in vars(module)
        if isinstance(node, ast.Attribute):
            asks |= _DIRECT.match(ast.unparse(node)) is not None
        if isinstance(node, ast.Call):
            of_torch = any(
                isinstance(argument, ast.Constant) and _NAMES_TORCH.match(str(argument.value)) for argument in node.args
            )
            called = _resolved(node.func, module)
            question = _is_question(called)
            origin = str(getattr(called, "__module__", None)).partition(".")[0]
            method = called is None and isinstance(node.func, ast.Attribute)
            if not (of_torch or question or method or origin in _SAFE):
                return False
            asks |= of_torch or question
    return asks


def _resolved(node: ast.expr, module: ModuleType) -> Any:
    if isinstance(node, ast.Name):
        return vars(module).get(node.id, vars(sys.modules["builtins"]).get(node.id))
    if isinstance(node, ast.Attribute):
        owner = _resolved(node.value, module)
        return vars(owner).get(node.attr) if isinstance(owner, ModuleType) else None
    return None


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as source:  # noqa: PTH123 - a thousand files: this takes half the time
            return source.read()
    except (OSError, ValueError):
        return ""


@cache
def _imports(file: str, name: str) -> bool:
    return re.search(rf"import\s*\(?[^()=]*\b{re.escape(name)}\b", _read(file)) is not None


@cache
def _oldest(library: str) -> Version:
    """The oldest torch that the installed release of ``library`` asks for, in its metadata."""
    with suppress(importlib.metadata.PackageNotFoundError):
        wanted = [Requirement(requirement) for requirement in importlib.metadata.requires(library) or ()]
        specifiers = [part for requirement in wanted if requirement.name == "torch" for part in requirement.specifier]
        return max([Version("0"), *(Version(part.version) for part in specifiers if part.operator == ">=")])
    return Version("0")


# Who asks, and what they get.
class _Noted:
    """A question among the globals of a module: says what was asked, where the answer is one that others may give."""

    def __init__(self, question: Any, libraries: Libraries) -> None:
        self.__wrapped__, self._libraries = question, libraries

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        question, libraries, answer = self.__wrapped__, self._libraries, None
        around, libraries.noted = libraries.noted, {}
        try:
            answer = question(*args, **kwargs)
        finally:
            inside, libraries.noted = libraries.noted, around
            if isinstance(answer, _ANSWERS) and all(
                isinstance(argument, _PLAIN) for argument in (*args, *kwargs.values())
            ):
                inside = {(question, args, *kwargs.items()): partial(question, *args, **kwargs)}
            else:  # of other values: it cannot be asked again
                inside |= libraries.constants(_unwrapped(question))
            if not _is_importing(sys._getframe(1)):  # the constants say what came of it
                around.update(inside)
        return answer


_open: list[Libraries] = []
_answers: dict[Hashable, Any] = {}


def _answer(version: str, name: Hashable, questions: _Questions, backend: str) -> Any:
    """What the one of ``questions`` with that name answers on a device of the release ``version``."""
    if (name, version, backend) not in _answers:
        with ExitStack() as stack:
            if _open:
                _work_out(questions, _open[-1], [version], backend)
            else:  # this takes as long as the answers of ten releases: all that there are answer at once
                libraries = stack.enter_context(answering(version))
                replace, put_back = stack.enter_context(replacing())
                for asked in ("is_available", "is_built") if backend == "mps" else ():
                    replace(torch.backends.mps, asked, lambda: True)
                libraries.begin(replace, put_back, note=False)
                _work_out(questions, libraries, {version, *family_named(backend).releases}, backend)
    return _answers[name, version, backend]


def _work_out(questions: _Questions, libraries: Libraries, versions: Iterable[str], backend: str) -> None:
    for version in versions:
        with libraries.on(version):
            for each, question in questions.items():
                try:
                    _answers[each, version, backend] = question()
                except Exception as error:  # noqa: BLE001 - an answer too
                    _answers[each, version, backend] = type(error)


@contextmanager
def answering(version: str) -> Iterator[Libraries]:
    """Inside, after ``begin``, libraries are answered as by the release ``version``; afterwards as before."""
    libraries = Libraries(version)
    try:
        yield libraries
    finally:
        libraries.restore()


class Libraries:
    def __init__(self, version: str) -> None:
        self.version = version
        # What was asked since ``begin``: by its name, what gives the answer of the version of the moment.
        self.noted: _Questions = {}
        self._before: dict[_Place, Any] = {}
        _look()
        self._known = {*_modules()}
        self._constants = [
            constant for module in self._known for constant in _found[module].constants if constant.holds()
        ]

    def begin(self, replace: Replace, put_back: ExitStack, *, note: bool) -> None:
        """Answer for the version until ``put_back`` closes, with what else ``replace`` changes; ``note`` the asked."""
        installed: Any = inspect.getattr_static(importlib.metadata.Distribution, "version")
        version_for = self._version_for

        class OfRelease:  # in ``torch.__getattr__`` it would be a frame: warnings would name its line, not the caller's
            def __get__(self, module: Any, kind: type) -> Any:
                return version_for(_asker())

        def of_distribution(distribution: Any) -> Any:
            # Reading the metadata takes long.
            name = getattr(distribution, "_normalized_name", None) or distribution.metadata["Name"]
            return str(self._version_for(_asker())) if name == "torch" else installed.fget(distribution)

        put_back.callback(setattr, torch, "__class__", torch.__class__)
        torch.__class__ = type("module", (torch.__class__,), {"__version__": OfRelease(), "__reduce__": _by_name})
        put_back.callback(setattr, torch, "__version__", torch.__version__)
        del torch.__version__
        replace(importlib.metadata.Distribution, "version", property(of_distribution))
        put_back.callback(self._end)
        put_back.callback(_open.remove, self)
        _open.append(self)
        self._ask()
        self.noted, self._notes = {}, note
        for module in _modules() if note else ():
            for name in _found[module].questions:
                value = vars(module).get(name)
                if type(value) in (FunctionType, _Cache):
                    vars(module)[name] = _Noted(value, self)

    @contextmanager
    def on(self, version: str) -> Iterator[None]:
        """Inside, answer for another release."""
        own, noted = self.version, self.noted
        self.version, self.noted = version, {}
        self._ask()
        try:
            yield
        finally:
            self.version = own
            self._ask()
            self.noted = noted

    def constants(self, function: FunctionType) -> _Questions:
        """Those that ``function`` reads, as ``noted`` has them."""
        module = sys.modules[function.__module__]
        return {
            (module.__name__, name): partial(vars(module).get, name)
            for name in function.__code__.co_names
            if name in _derived_names and isinstance(vars(module).get(name), bool)
        }

    def asked(self, backend: str, files: Collection[str]) -> dict[Hashable, Callable[[str], Any]]:
        """What was asked, by its name: what a release answers, as a device of ``backend``.

        With the constants that methods read, of the libraries with one of ``files``, from which operators were called:
        nobody can tell which of these did.
        """
        noted, self.noted = self.noted, {}
        _look()
        used = cache(lambda package: any(map(_is_file_of(package), files)))
        places = {(constant.module, name) for constant in self._all() for name in constant.names}
        for module, name in places:
            is_read = isinstance(vars(module).get(name), bool) and _is_read(module, name)
            if is_read and used(module.__name__.partition(".")[0]):
                noted[module.__name__, name] = partial(vars(module).get, name)
        return {name: partial(_answer, name=name, questions=noted, backend=backend) for name in noted}

    def _all(self) -> list[_Constant]:
        new = [constant for module in _modules() if module not in self._known for constant in _found[module].constants]
        return [*self._constants, *(constant for constant in new if constant.holds())]

    def _version_for(self, frame: FrameType | None) -> Any:
        asker = "" if frame is None else str(frame.f_globals.get("__name__"))
        library = asker.partition(".")[0]
        if as_version(self.version) is None or _KEEP_TRUTH.match(asker):
            return INSTALLED
        if frame is not None and not _is_importing(frame):
            self.noted.setdefault(("version", library), partial(self._version_of, library))
        return self._version_of(library)

    def _version_of(self, library: str) -> Any:
        judged = Version(self.version)
        if judged.public == Version(INSTALLED).public:
            return INSTALLED
        return TorchVersion(str(max(judged, _oldest(library))))

    def _ask(self) -> None:
        """Empty the caches, and work the constants out: some of them of others."""
        for _ in range(_DEEP):
            _forget()
            changed = [self._work_out(constant) for constant in self._all()]
            if not any(changed):
                break

    def _work_out(self, constant: _Constant) -> bool:
        changed = False
        with suppress(Exception):  # the module has it no more; the question is none of this release
            value = constant.worked_out()
            for name, held in zip(constant.names, value if len(constant.names) > 1 else (value,), strict=True):
                present = vars(constant.module)[name]
                if isinstance(held, _PLAIN) and held != present:
                    changed = True
                    for module in (constant.module, *_importing(constant.module, name, present)):
                        self._before.setdefault((module, name), present)
                        vars(module)[name] = held
        return changed

    def _end(self) -> None:
        """While all is answered still: the modules that were imported since have to forget it too."""
        _look()
        for module in _modules():
            for name, value in [*vars(module).items()] if self._notes else ():
                if type(value) is _Noted:
                    vars(module)[name] = value.__wrapped__
        for (module, name), value in [*self._before.items()]:
            for other in _importing(module, name, vars(module).get(name)):
                self._before.setdefault((other, name), value)
        self._constants = [constant for constant in self._all() if constant.module not in self._known]

    def restore(self) -> None:
        """After torch is as it was: all that was worked out, too."""
        for (module, name), value in self._before.items():
            vars(module)[name] = value
        self._ask()


def _by_name(module: ModuleType) -> tuple[Callable[[str], ModuleType], tuple[str]]:
    return importlib.import_module, (module.__name__,)  # cloudpickle asks all but the type of a plain module


def _asker() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("importlib"):
        frame = frame.f_back
    return frame


def _is_importing(frame: FrameType) -> bool:
    return frame.f_code.co_name == "<module>"


def _importing(module: ModuleType, name: str, value: Any) -> list[ModuleType]:
    """The modules of the same package that have imported the constant."""
    return [
        other
        for other in _packages.get(module.__name__.partition(".")[0], ())
        if other is not module and vars(other).get(name) is value and _imports(str(vars(other).get("__file__")), name)
    ]


def _is_file_of(package: str) -> Callable[[str], bool]:
    """Whether a file is of the package, or the module, of that name."""
    root = getattr(sys.modules.get(package), "__file__", None) or ""
    folder = root.removesuffix("__init__.py")
    return lambda file: bool(folder) and file.startswith(folder)


def _is_read(module: ModuleType, name: str) -> bool:
    """Whether anything that is no question reads the constant, here or where it was imported."""
    value = vars(module).get(name)
    return any(name in _reads(place) for place in (module, *_importing(module, name, value)))


_names_read: WeakKeyDictionary[ModuleType, frozenset[str]] = WeakKeyDictionary()


def _reads(module: ModuleType) -> frozenset[str]:
    if module not in _names_read:
        file = str(vars(module).get("__file__"))
        codes = [
            constant for constant in compile(_read(file), file, "exec").co_consts if isinstance(constant, CodeType)
        ]
        codes = [code for code in codes if not _is_question(vars(module).get(code.co_name))]
        for code in codes:  # it grows
            codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        _names_read[module] = frozenset(name for code in codes for name in code.co_names)
    return _names_read[module]


def _forget() -> None:
    for module in _modules():
        for cached in _found[module].caches:
            cached.cache_clear()
