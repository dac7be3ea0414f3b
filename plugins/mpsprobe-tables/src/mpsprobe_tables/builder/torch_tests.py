"""Executes a release's own test modules and says what they expect of MPS: a program, started by ``expectations``.

The Python files of ``torch/testing`` come from the wheel, everything else from the torch that is installed, with
stand-ins for what that lacks. The modules see the newest macOS on a chip newer than the M1, as the rest of this package
assumes macOS 15 or later: what PyTorch expects only before is left out. What they may not do is in ``REFUSED``.

Started as ``python -I torch_tests.py FOLDER``; JSON goes to standard output.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.abc
import importlib.util
import inspect
import json
import os
import platform
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

REFUSED = ("socket.", "subprocess.", *(f"os.{name}" for name in ("system", "exec", "posix_spawn", "spawn", "fork")))
CHANGES = (
    "shutil.",
    *(f"os.{name}" for name in ("remove", "rename", "rmdir", "mkdir", "link", "symlink", "chmod", "truncate")),
)
"""Events that end the program (``sys.addaudithook``): those for network and processes, and for files elsewhere."""
WRITING = os.O_WRONLY | os.O_RDWR
TESTS = "torch.testing._internal"
NEWEST_MACOS = 99.0
MOST_STAND_INS = 100
ABSENT_NAME = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
DTYPE = re.compile(r"b?(complex|float|u?int)\d+\w*")
SPARE = ("bits8", "bits16", "bits4x2", "bits2x4", "bits1x8")  # dtypes that no test uses
ENTRY_TYPES = ("OpInfo", "ModuleInfo")
WRITTEN_OUT = ("<module>", "<listcomp>", "<genexpr>")
"""Code that makes an entry where it stands; any other is a helper function."""
ELSEWHERE = ("onlyCUDA", "onlyCPU")
"""Decorators that skip a test on MPS whatever the dtype."""
FUNCTIONS = {
    "mps_ops_modifier": "forward",
    "mps_ops_grad_modifier": "gradient",
    "mps_ops_error_inputs_modifier": "error_inputs",
}
COMPLEX = ["complex32", "complex64"]
OF_ENTRIES = {"expectedFailure": "fail", "skip": "skip"}
OF_MODULES = {
    **OF_ENTRIES,
    "expectedFailureMPS": "fail",
    **dict.fromkeys(("skipMPS", "skipIfMPS", "skipIfMps"), "skip"),
}
"""Name of a decorator → what it says about MPS."""


class FromWheel(importlib.abc.MetaPathFinder):
    """Finds ``torch.testing`` in the folder that the wheel's files were unpacked to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Any = None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        place = self._folder.joinpath(*name.split("."))
        if not name.startswith("torch.testing."):
            return None
        if (place / "__init__.py").is_file():
            return importlib.util.spec_from_file_location(
                name, place / "__init__.py", submodule_search_locations=[str(place)]
            )
        return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))


class StandIn(types.ModuleType):
    """Takes the place of what the installed torch lacks; a call of it gives another one, or what it decorates."""

    __path__: list[str] = []

    def __deepcopy__(self, _memo: Any) -> StandIn:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if args and callable(args[0]) else StandIn(f"{self.__name__}()")


played: dict[str, str] = {}
"""Names of ``SPARE`` dtypes → those that they stand for here."""


def stand_in(name: str) -> Any:
    """Of a dtype it has to be one: a spare one plays it."""
    if not DTYPE.fullmatch(name):
        return StandIn(name)
    spare = SPARE[len(played)]
    played[spare] = name
    return getattr(sys.modules["torch"], spare)


def imported(name: str) -> Any:
    """One of the test modules."""
    return importlib.import_module(f"{TESTS}.{name}")


def with_stand_ins(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What ``read`` gives; it is tried again and again, with a stand-in for what the last try lacked."""
    for _ in range(MOST_STAND_INS):
        for name in [name for name in sys.modules if name.startswith("torch.testing.")]:
            del sys.modules[name]
        try:
            return read()
        except ImportError as error:
            absent = ABSENT_NAME.search(str(error))
            if absent is not None and not absent[2].startswith(TESTS):
                setattr(sys.modules[absent[2]], absent[1], StandIn(absent[1]))
            elif isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith(TESTS):
                sys.modules[error.name] = StandIn(error.name)
            else:
                raise
        except AttributeError as error:
            lacking = str(error.name)
            if not isinstance(error.obj, (types.ModuleType, type)) or error.obj.__name__.startswith(TESTS):
                raise
            setattr(error.obj, lacking, stand_in(lacking))
    raise ImportError(f"more than {MOST_STAND_INS} things are not in the installed torch")


def build_class(build: Any, body: Any, name: str, *bases: Any, **keywords: Any) -> Any:
    """As ``__build_class__``; each entry of the databases remembers with what it was made, and by which code."""
    made = build(body, name, *bases, **keywords)
    if name in ENTRY_TYPES and body.__module__.startswith(TESTS):

        def new(cls: Any, *_args: Any, **given: Any) -> Any:
            entry = object.__new__(cls)
            entry.given, entry.made_by = given, sys._getframe(1).f_code.co_name
            return entry

        made.__new__ = new
    return made


class Probe:
    """Stands for an entry that is in ``lists`` of a function of ``common_mps.py``, by name.

    When the function asks for its name, it has made its lists, and the probe enters itself there. In a list of dtypes
    it has some that are its own: so a decorator with these was made for that list.
    """

    variant_test_name = ""

    def __init__(self, *lists: str) -> None:
        self._own: dict[str, list[Any]] = {name: [] for name in lists}
        self.made: dict[str, Any] = {}
        self.decorators: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        scope, key = sys._getframe(1).f_locals, f"probe of {', '.join(self._own)}"
        self.made = {name: value.copy() for name, value in scope.items() if isinstance(value, (dict, set))}
        for name, dtypes in self._own.items():
            if isinstance(scope[name], dict):
                scope[name][key] = dtypes
            else:
                scope[name].add(key)
        return key

    def said(self) -> list[tuple[str | None, Any]]:
        """Each decorator: ``fail`` or ``skip``, and the list whose dtypes it has, or the dtypes."""
        own = {id(dtypes): name for name, dtypes in self._own.items()}
        return [
            (kind_of(decorator), own.get(id(decorator.dtypes)) or names_of(decorator.dtypes))
            for decorator in self.decorators
        ]


def read_modifier(function: Callable[..., Any]) -> dict[str, Any]:
    """The lists that a function of ``common_mps.py`` goes by, in its order, each with its kind.

    Each is known by what is said about an entry that is in this list alone, and not about one that is in none.
    """
    nowhere = Probe()
    function([nowhere])
    everywhere, alone = Probe(*nowhere.made), {name: Probe(name) for name in nowhere.made}
    function([everywhere, *alone.values()])
    usual, whole = nowhere.said(), everywhere.said()
    lists: dict[str, Any] = {"lists": [], "supported_complex": None, "unsupported_complex": None}
    for name, probe in alone.items():
        listed, more = nowhere.made[name], [statement for statement in probe.said() if statement not in usual]
        if len(probe.said()) < len(usual):  # what is in no such list fails
            lists["supported_complex"] = sorted({*listed, *(lists["supported_complex"] or ())})
        for kind, dtypes in more:
            if dtypes == COMPLEX:
                lists["unsupported_complex"] = sorted(listed)
            else:
                given = {key: names_of(listed[key]) if isinstance(listed, dict) else None for key in listed}
                # An empty list of dtypes holds for none of them.
                holds = {key: dtypes for key, dtypes in given.items() if dtypes != []}
                lists["lists"].append((whole.index((kind, dtypes)), name, kind, holds))
    lists["lists"] = [rest for _, *rest in sorted(lists["lists"], key=lambda listed: listed[0])]
    return lists


def names_of(dtypes: Iterable[Any] | None) -> list[str] | None:
    """Names of dtypes (``float16``), sorted; ``None`` stands for every one."""
    names = None if dtypes is None else {str(dtype).removeprefix("torch.") for dtype in dtypes}
    return None if names is None else sorted(played.get(name, name) for name in names)


def kind_of(info: Any, kinds: Mapping[str, str] = OF_ENTRIES) -> str | None:
    """What the decorator of a ``DecorateInfo`` says about MPS, if anything."""
    name = getattr(info.decorators[0], "__qualname__", "") if len(info.decorators) == 1 else ""
    return kinds.get(name.removesuffix(".<locals>.decorator"))


def marks_of(entry: Any, kinds: Mapping[str, str]) -> Iterator[list[Any]]:
    """What stands at an entry and may say something of MPS, in the order in which it is written there.

    Each is its kind, the class and the test that it is for, dtypes and mode; ``None`` is for all of them.
    """
    for given in (value for name, value in entry.given.items() if name in ("skips", "decorators")):
        for class_ in given if isinstance(given, (list, tuple)) else [given]:
            if hasattr(class_, "active_if"):
                active = class_.active_if
                modes = [bool(active({"training": mode}) if callable(active) else active) for mode in (True, False)]
                devices = [class_.device_type] if isinstance(class_.device_type, str) else class_.device_type
                if (kind := kind_of(class_, kinds)) and any(modes) and (devices is None or "mps" in devices):
                    mode = None if all(modes) else "train" if modes[0] else "eval"
                    yield [kind, class_.cls_name, class_.test_name, names_of(class_.dtypes), mode]
            elif (type(class_).__name__ == "onlyOn" and "mps" not in class_.device_type) or getattr(
                class_, "__name__", ""
            ) in ELSEWHERE:
                yield ["skip", None, None, None, None]


def read_entries(database: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The OpInfo entries."""
    for entry in database:
        yield {
            "name": entry.name,
            "variant": entry.variant_test_name,
            "claimed": names_of(entry.given.get("dtypesIfMPS")),
            "claimed_backward": names_of(entry.given.get("backward_dtypesIfMPS")),
            "marks": list(marks_of(entry, OF_ENTRIES)),
            "helper": entry.made_by not in WRITTEN_OUT,
        }


def read_modules(common_modules: Any) -> dict[str, Any]:
    """The entries for modules, and the dtypes that they are tested with: of older releases those of every device."""
    defaults = inspect.signature(common_modules.ModuleInfo.__init__).parameters
    dtypes = defaults["dtypesIfMPS" if "dtypesIfMPS" in defaults else "dtypes"].default
    entries = {info.name: list(marks_of(info, OF_MODULES)) for info in common_modules.module_db}
    return {"dtypes": names_of(dtypes), "entries": entries}


def refuse(folder: str, event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: ``folder`` alone may be written to."""
    changes = event.startswith(CHANGES) or (event == "open" and arguments[2] & WRITING)
    if event.startswith(REFUSED) or (changes and not str(arguments[0]).startswith((folder, os.devnull))):
        raise SystemExit(f"a test module did what it may not: {event}")


def read(folder: Path) -> dict[str, Any]:
    """All that the test modules say, as they would on the newest Mac."""
    utilities = imported("common_utils")
    utilities.IS_MACOS, utilities.IS_LINUX = True, False
    modules: dict[str, Any] = {}
    if (folder / "torch/testing/_internal/common_mps.py").is_file():
        lists, invocations = imported("common_mps"), imported("common_methods_invocations")
        functions = {kind: getattr(lists, name) for name, kind in FUNCTIONS.items() if hasattr(lists, name)}
        modules["modifiers"] = {kind: read_modifier(function) for kind, function in functions.items()}
        own = [info for of_one in getattr(invocations, "dsl_ops_by_dsl", {}).values() for info in of_one]  # for CUDA
        modules["entries"] = list(read_entries(info for info in invocations.op_db if info not in own))
    return {**modules, "modules": read_modules(imported("common_modules"))}


def main(folder: Path) -> None:
    """Read, and write JSON to standard output."""
    import torch
    import torch.testing

    platform.platform()  # asked for the first time, it starts a program
    sys.addaudithook(functools.partial(refuse, str(folder)))
    sys.meta_path.insert(0, FromWheel(folder))
    builtins.__build_class__ = functools.partial(build_class, builtins.__build_class__)
    mps: Any = torch.backends.mps
    mps.is_available = mps.is_macos_or_newer = mps.is_macos13_or_newer = lambda *_version: True
    mps.get_name = lambda: "Apple M99"
    platform.mac_ver = lambda *_: (str(NEWEST_MACOS), ("", "", ""), "arm64")
    output, sys.stdout = sys.stdout, sys.stderr  # the modules may print
    json.dump(with_stand_ins(functools.partial(read, folder)), output)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
