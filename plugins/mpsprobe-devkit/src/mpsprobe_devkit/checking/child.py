"""Loads a plugin and tries what it declares, in a process of its own.

It is started as ``python -m mpsprobe_devkit.checking.child FOLDER``, with a ``request.json`` in the folder. What is
wrong is said by mpsprobe's own loading, asked about each hook and each declaration by itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import importlib
import inspect
import json
import os
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import click  # noqa: F401 - every command has imported it before a plugin is loaded

from mpsprobe import hookimpl, hookspecs
from mpsprobe.errors import MissingPackage, MpsprobeError
from mpsprobe.plugins import loading
from mpsprobe.plugins.catalogue import checked
from mpsprobe.plugins.discovery import CORE, FoundPlugin, find_plugins
from mpsprobe.plugins.loading import HookFailed
from mpsprobe.plugins.registry import Registry
from mpsprobe.plugins.requirements import incompatibility
from mpsprobe.suggestions import nearest
from mpsprobe_devkit.checking.codes import finding
from mpsprobe_devkit.checking.subject import normalized_names
from mpsprobe_devkit.process_state import changed, process_state

HEAVY = frozenset({
    "IPython", "PIL", "accelerate", "cv2", "dask", "datasets", "diffusers", "flax", "gradio", "hypothesis", "jax",
    "keras", "lightning", "matplotlib", "mlx", "numba", "numpy", "onnx", "onnxruntime", "pandas", "plotly", "polars",
    "pyarrow", "pydantic", "pytest", "rich", "scipy", "seaborn", "sentence_transformers", "sklearn", "streamlit",
    "sympy", "tensorboard", "tensorflow", "tokenizers", "torch", "torchaudio", "torchvision", "transformers", "triton",
    "wandb", "xarray",
})  # fmt: skip
"""Packages that take tens of milliseconds or more to import. What is not here and takes long is found by the clock."""


class Steps:
    """Writes events to ``events.jsonl``, line by line, and watches the time, the output and the imports of each step.

    Args:
        folder: of this child.
        root: the folder that places are relative to.
        own: folders or files of the plugin.
    """

    def __init__(self, folder: Path, root: str, own: list[str]) -> None:
        self._root, self._own = Path(root), tuple(own)
        self._events, self._output = folder / "events.jsonl", folder / "output.txt"
        self._trace = (folder / "trace.txt").open("w", encoding="utf-8")
        self._asked: dict[str, list[str]] = {}
        sys.meta_path.insert(0, self)  # a finder that finds nothing and sees who asks
        faulthandler.enable(self._trace)

    def tell(self, **event: Any) -> None:
        """Append one event. The file is opened each time: a plugin may close every descriptor that it finds."""
        with self._events.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(event) + "\n")

    def found(self, code: str, message: str, where: str = "", hint: str | None = None) -> None:
        """Tell a finding."""
        self.tell(finding=finding(code, message, where, hint).as_dict())

    @contextlib.contextmanager
    def step(self, doing: str, limit: float, *, loads: bool = False, where: str = "") -> Iterator[SimpleNamespace]:
        """Inside, code of the plugin runs; gives how many ``seconds``, and whether it imported what is ``heavy``.

        After ``limit`` seconds the process ends, and the trace says where it was.

        Args:
            loads: whether it is a part of loading: then it may neither print nor import what is heavy.
        """
        step, begin, started = SimpleNamespace(seconds=0.0, heavy=False), self._size(), time.perf_counter()
        self._asked.clear()
        self.tell(begin=doing, where=where, limit=limit)
        faulthandler.dump_traceback_later(limit, exit=True, file=self._trace)
        yield step
        faulthandler.cancel_dump_traceback_later()
        step.seconds = time.perf_counter() - started
        if loads and self._size() > begin:
            text = self._output.read_bytes()[begin : begin + 1000].decode("utf-8", "replace").strip()
            self.found("prints", f"{doing} prints '{text.splitlines()[0]}'", where)
        for name, places in self._asked.items() if loads else ():
            if places:
                step.heavy = True
                self.found("heavy-import", f"{doing} imports {name}: {' → '.join([*places, name])}", places[0])

    def _size(self) -> int:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        return self._output.stat().st_size

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Called by the import system for each module that is not imported yet: note the plugin's lines that led here.

        What another heavy package brings is left out (it goes when that one does).
        """
        if name in HEAVY and name not in self._asked:
            frames = [frame for frame, _ in traceback.walk_stack(None)][1:]
            modules = {str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames}
            files = [(frame.f_code.co_filename, frame.f_lineno) for frame in reversed(frames)]
            lines = [f"{self.shown(file)}:{line}" for file, line in files if self._is_own(file)]
            self._asked[name] = [] if modules & (HEAVY - {name}) else list(dict.fromkeys(lines))

    def _is_own(self, path: str) -> bool:
        path = os.path.realpath(path)
        return any(path in (name, f"{name}.py") or path.startswith(name + os.sep) for name in self._own)

    def shown(self, path: str) -> str:
        """``path`` relative to the plugin's folder where it lies in there."""
        with contextlib.suppress(ValueError):
            return Path(path).resolve().relative_to(self._root.resolve()).as_posix() if path else ""
        return Path(path).name

    def place(self, value: Any) -> str:
        """``file:line`` of a function, empty where that is not known."""
        code = getattr(inspect.unwrap(value), "__code__", None)
        return f"{self.shown(code.co_filename)}:{code.co_firstlineno}" if code else ""

    def place_of_object(self, made: Any) -> str:
        """``file:line`` of the class of an object, or of the function of a command."""
        kind = getattr(made, "callback", None) or type(made)
        with contextlib.suppress(OSError, TypeError):
            return f"{self.shown(inspect.getfile(kind))}:{inspect.getsourcelines(kind)[1]}"
        return ""

    def place_of_error(self, error: BaseException | None) -> str:
        """``file:line`` of the plugin's own line that raised, or called what raised."""
        if isinstance(error, SyntaxError) and error.filename:
            return f"{self.shown(error.filename)}:{error.lineno or 1}"
        frames = traceback.extract_tb(error.__traceback__) if error is not None else []
        own = [f"{self.shown(frame.filename)}:{frame.lineno}" for frame in frames if self._is_own(frame.filename)]
        return own[-1] if own else ""


ALONE = "mpsprobe_checked_hooks"  # the module in which hooks of the plugin are loaded by themselves
NOBODYS_NAME = "no-such-workload-0b7e"
SLOW_IMPORT_S = 0.2  # a thin module takes 1 to 5 ms, and 'mpsprobe --help' about 200 in all
SLOW_HOOK_S = 1.0  # of a hook that only lists; far above what a busy machine makes of some milliseconds
TARGET_FACTOR = 6  # times the limit of a step: torch may have to be imported, uncompiled and from a cold disk


class Hook(NamedTuple):
    """A hook of the plugin: its name, the function, its place."""

    name: str
    function: Callable[..., Any]
    where: str


class Declared(NamedTuple):
    """A declaration that mpsprobe would take: its kind, itself, the place of its hook, how messages name it."""

    kind: str
    declaration: Any
    where: str
    what: str


class Check(Steps):
    """The check of one entry point, by the ``request`` of the parent; it writes into ``folder``."""

    def __init__(self, folder: Path, request: Mapping[str, Any]) -> None:
        super().__init__(folder, request["root"], request["own"])
        self._request = request
        self._found = FoundPlugin(**{**request["point"], "requires": tuple(request["point"]["requires"])})
        self._limit = float(request["limit"])

    def run(self) -> None:
        """Everything, in the order in which mpsprobe does it."""
        if wrong := incompatibility(self._found.requires):
            self.found("left-out", wrong, self._request["where"])
        elif (plugin := self._imported()) is not None:
            declared = [declaration for hook in self._hooks(plugin) for declaration in self._declared(hook)]
            kinds = {
                declaration.kind: [other.declaration for other in declared if other.kind == declaration.kind]
                for declaration in declared
            }
            mine = self._plugin({hookspecs.KINDS[kind]: _listing(answer) for kind, answer in kinds.items()})
            if self._found != CORE:
                self._compare_names(declared, mine)
            self._try_targets(declared, Registry([mine], tell=_nobody))
        self.tell(done=True)

    def _imported(self) -> Any:
        """The thin module, or the object that the entry point names; ``None`` after a finding."""
        target, doing = self._found.target, f"importing {self._found.target}"
        before, running, plugin = process_state(random_numbers=False), set(threading.enumerate()), None
        with self.step(doing, self._limit, loads=True) as step:
            try:
                plugin = loading.imported(self._found)
            except BaseException as error:  # noqa: BLE001 - SystemExit too
                where = self.place_of_error(error) or f"entry point {self._found.name}"
                self.found("left-out", f"its import failed: {loading.describe(error)}", where, _near(target))
        where = self.shown(getattr(plugin, "__file__", None) or "")
        self.tell(import_ms=round(step.seconds * 1e3, 2))
        if step.seconds > SLOW_IMPORT_S and not step.heavy:  # what is heavy is the reason, and said already
            self.found("slow", f"{doing} takes {step.seconds * 1e3:.0f} ms", where)
        changes = changed(before, process_state(random_numbers=False))
        changes += [f"the threads that run ('{thread.name}')" for thread in set(threading.enumerate()) - running]
        if changes:
            self.found("changes-process", f"{doing} changes {', '.join(changes)}", where)
        return plugin

    def _hooks(self, plugin: Any) -> list[Hook]:
        """The hooks that mpsprobe would take; a finding for each other one."""
        hooks, meant = [], [name for name in dir(plugin) if _is_meant_as_hook(plugin, name)]
        for name in meant:
            function = getattr(plugin, name)
            loaded = loading.load(loading.new_manager(), self._plugin({name: function}, plugin))
            where, known = self.place(function), getattr(hookspecs, name, None)
            form = f"It is called so: def {name}{inspect.signature(known)}" if known else None
            if loaded.status != "ok":
                self.found("left-out", str(loaded.reason), where, form)
            for problem in loaded.problems:
                self.found("deprecated-hook", problem, where)
            for hook in loaded.hooks:
                self.tell(hook=hook)
                hooks.append(Hook(hook, function, where))
        if not meant:
            self.found("left-out", "it implements no hook: mark one with @mpsprobe.hookimpl")
        return sorted(hooks, key=lambda one: one.name == "mpsprobe_doctor")  # it may import what it judges

    def _plugin(self, functions: Mapping[str, Any], origin: Any = None) -> FoundPlugin:
        """A plugin of just these ``functions``."""
        module = types.ModuleType(getattr(origin, "__name__", ALONE))
        vars(module).update(functions)
        sys.modules[ALONE] = module
        return self._found._replace(target=ALONE, file=None, requires=())

    def _declared(self, hook: Hook) -> list[Declared]:
        """What a hook declares; one that a run announces is not called: it may send something somewhere."""
        if hook.name in hookspecs.HOOKS and (kind := hookspecs.HOOKS[hook.name].kind):
            right = {declaration.name: declaration for declaration in self._right(hook, self._answer(hook))}
            for name in right:
                self.tell(declared=[kind, name])
            return [
                Declared(kind, declaration, hook.where, f"the {kind} '{name}'") for name, declaration in right.items()
            ]
        if hook.name == "mpsprobe_resolve_workload" and (answer := self._answer(hook, name=NOBODYS_NAME)):
            message = f"its hook {hook.name} answers to '{NOBODYS_NAME}', which is nobody's name"
            self.found("name-taken", message, hook.where, "Answer None to every name not of your form.")
            self._right(hook, answer)
        elif hook.name == "mpsprobe_doctor":
            from mpsprobe.environment import collect_environment

            environment = collect_environment().model_dump(mode="json")
            self._right(hook, self._answer(hook, environment=environment))
        return []

    def _answer(self, hook: Hook, **arguments: Any) -> Any:
        """What the hook returns; an empty list after a finding, and where it says that a name is its own and wrong."""
        listing = not arguments
        loaded = loading.load(loading.new_manager(), self._plugin({hook.function.__name__: hook.function}))
        with self.step(f"the hook {hook.name}", self._limit, loads=listing, where=hook.where) as step:
            outcome = loading.call(loaded, hook.name, arguments)
        if step.seconds > SLOW_HOOK_S and listing:
            self.found("slow", f"the hook {hook.name} takes {step.seconds:.1f} s", hook.where)
        try:
            return loading.answer_of(outcome, hook.name)
        except (HookFailed, MpsprobeError) as error:
            if isinstance(error, HookFailed) or listing:
                place = self.place_of_error(outcome.error) or hook.where
                self.found("hook-failed", str(error), place)
            return []

    def _right(self, hook: Hook, answer: Any) -> list[Any]:
        """The elements of an answer that are right; a finding for each other one."""
        right: list[Any] = []
        wrong: list[str] = []
        elements = answer if isinstance(answer, (list, tuple)) else ()
        for part in (*([one] for one in elements), answer):
            try:
                fault = checked(part, hook.name)
                right += fault if part is not answer else []
            except HookFailed as failed:
                wrong.append(str(failed))
        for kind in dict.fromkeys(wrong):
            self.found("hook-failed", kind, hook.where)
        return right

    def _compare_names(self, declared: list[Declared], mine: FoundPlugin) -> None:
        """What mpsprobe says where another plugin has a name too."""
        others = [
            plugin for plugin in find_plugins() if plugin == CORE or plugin.distribution != self._found.distribution
        ]
        folders = [] if self._found.file else self._request["folders"]
        registry = Registry([*others, mine], folders=folders, blocked=self._request["blocked"], tell=_nobody)
        with self.step("asking all plugins for their names", self._limit * TARGET_FACTOR):
            [plugin] = [plugin for plugin in registry.plugins() if plugin.found == mine]
            registry.contributions(plugin)
        for declaration in declared:
            named = f"{declaration.kind} '{getattr(declaration.declaration, 'key', declaration.declaration.name)}'"
            for problem in plugin.problems:
                if named in problem:
                    self.found("name-taken", problem, declaration.where)

    def _try_targets(self, declared: list[Declared], registry: Registry) -> None:
        """Make what each declaration names, as mpsprobe does, and hold it to its contract."""
        held = set()
        for declaration in declared:
            with self.step(f"making {declaration.what}", self._limit * TARGET_FACTOR, where=declaration.where):
                made = self._made(declaration, registry)
            if (
                made is not None
                and self._request["contracts"]
                and (declaration.kind, declaration.declaration.target) not in held
            ):
                held.add((declaration.kind, declaration.declaration.target))
                self._hold_to_contract(declaration, self.place_of_object(made) or declaration.where)

    def _made(self, declared: Declared, registry: Registry) -> Any:
        try:
            if declared.kind == "workload":
                return registry.workload(declared.declaration.name)
            return registry.made(declared.kind, getattr(declared.declaration, "key", declared.declaration.name))
        except MpsprobeError as error:
            cause = error.__cause__
            lacking = str(cause.name).partition(".")[0] if isinstance(cause, ModuleNotFoundError) else ""
            optional = nearest(lacking.replace("_", "-"), normalized_names(self._request["optional"]))
            if isinstance(error, MissingPackage) or optional:
                self.tell(not_checked=f"{declared.what}: {error.message}")
            else:
                place = self.place_of_error(cause) or declared.where
                self.found("bad-target", error.message, place, _near(declared.declaration.target))
        return None

    def _hold_to_contract(self, declared: Declared, where: str) -> None:
        from mpsprobe_devkit.testing import contracts

        declaration = declared.declaration
        if declared.kind == "scanner" and "torch" not in declaration.frameworks:
            self.tell(not_checked=f"the contract of {declared.what}: only its author has something to scan")
        elif type(declaration) in contracts.CONTRACTS:
            more = {"frameworks": ("torch",)} if declared.kind == "scanner" else {}
            with self.step(f"the contract of {declared.what}", self._request["contract_limit"], where=where):
                for broken in contracts.broken_clauses(dataclasses.replace(declaration, **more)):
                    self.found("contract-broken", f"{declared.what}: {broken.clause}: {broken.problem}", where)


def _is_meant_as_hook(plugin: Any, name: str) -> bool:
    try:
        options, value = loading.new_manager().parse_hookimpl_opts(plugin, name), getattr(plugin, name)
    except Exception:  # noqa: BLE001 - a property that raises is not a hook
        return False
    own = inspect.isfunction(value) and value.__module__ == getattr(plugin, "__name__", None)
    return options is not None or (own and name.startswith(loading.HOOK_PREFIX))


def _listing(declarations: list[Any]) -> Any:
    """A hook that returns them."""
    return hookimpl(lambda: declarations)


def _nobody(line: str) -> None:
    """Takes what a registry tells: it is asked for it."""


def _near(target: str) -> str | None:
    """Names near to the module or attribute of ``target`` that is not there."""
    module, _, attribute = target.partition(":")
    package, _, last = module.rpartition(".")
    try:
        if module in sys.modules:
            last, names = attribute, dir(sys.modules[module])
        else:
            names = [
                path.stem for folder in importlib.import_module(package).__path__ for path in Path(folder).iterdir()
            ]
    except Exception:  # noqa: BLE001 - the plugin's code, or not there
        return None
    near = nearest(last, names, count=2) if last not in names else []
    return f"There is {' and '.join(near)}." if near else None


if __name__ == "__main__":
    sys.dont_write_bytecode = True  # a check leaves no trace in the folder that it looks at
    request = json.loads(Path(sys.argv[1], "request.json").read_text(encoding="utf-8"))
    sys.path[:] = request["path"]
    Check(Path(sys.argv[1]), request).run()
    os._exit(0)  # whatever threads the plugin has left, and whatever it wanted to do at the end
