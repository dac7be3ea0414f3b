"""Loads a plugin and tries what it declares, in a process of its own.

It is started as ``python -m mpsprobe_devkit.checking.child FOLDER``.
It reads ``request.json`` in the folder and appends what it finds to ``events.jsonl``, line by line, so that all of it
is there when the plugin ends the process. What is wrong is said by mpsprobe's own loading, asked about each hook and
each declaration by itself.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import os
import sys
import threading
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click  # noqa: F401 - every command has imported it before a plugin is loaded

from mpsprobe import hookimpl, hookspecs
from mpsprobe.declarations import DoctorFinding, WorkloadDeclaration
from mpsprobe.errors import MissingPackage, MpsprobeError
from mpsprobe.plugins import loading
from mpsprobe.plugins.catalogue import KINDS, checked
from mpsprobe.plugins.discovery import CORE, FoundPlugin, find_plugins
from mpsprobe.plugins.loading import HookFailed
from mpsprobe.plugins.registry import Registry
from mpsprobe.plugins.requirements import incompatibility
from mpsprobe.suggestions import nearest
from mpsprobe_devkit.checking.steps import Steps
from mpsprobe_devkit.checking.subject import normalized_names
from mpsprobe_devkit.process_state import changed, process_state

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
    """A declaration that mpsprobe would take, and the place of its hook."""

    kind: str
    declaration: Any
    where: str

    @property
    def what(self) -> str:
        """As messages name it."""
        return f"the {self.kind} '{self.declaration.name}'"


class Check:
    """The check of one entry point.

    Args:
        steps: takes what is found.
        request: what the parent asks for.
    """

    def __init__(self, steps: Steps, request: Mapping[str, Any]) -> None:
        self._steps = steps
        self._request = request
        point = request["point"]
        self._found = FoundPlugin(**{**point, "requires": tuple(point["requires"])})
        self._limit = float(request["limit"])

    def run(self) -> None:
        """Everything, in the order in which mpsprobe does it."""
        if wrong := incompatibility(self._found.requires):
            self._steps.found("left-out", wrong, self._request["where"])
        elif (plugin := self._imported()) is not None:
            hooks = self._loaded(plugin)
            declared = [one for hook in hooks for one in self._declared(hook)]
            mine = self._plugin({KINDS[kind][0]: _listing(declared, kind) for kind in {one.kind for one in declared}})
            self._compare_names(declared, mine)
            self._try_targets(declared, Registry([mine], tell=_nobody))
        self._steps.tell(done=True)

    def _imported(self) -> Any:
        """The thin module, or the object that the entry point names; ``None`` after a finding."""
        target, steps = self._found.target, self._steps
        before, running = process_state(random_numbers=False), set(threading.enumerate())
        plugin = None
        with steps.step(f"importing {target}", self._limit, prints=True) as step:
            try:
                plugin = loading.imported(self._found)
            except BaseException as error:  # noqa: BLE001 - SystemExit too
                where = steps.place_of_error(error) or f"entry point {self._found.name}"
                steps.found("left-out", f"its import failed: {loading.describe(error)}", where, _near(target))
        where = steps.shown(getattr(plugin, "__file__", None) or "")
        steps.tell(import_ms=step.seconds * 1e3)
        if step.seconds > SLOW_IMPORT_S:
            steps.found("slow", f"importing {target} takes {step.seconds * 1e3:.0f} ms", where)
        changes = changed(before, process_state(random_numbers=False))
        changes += [f"the threads that run ('{one.name}')" for one in set(threading.enumerate()) - running]
        if changes:
            steps.found("changes-process", f"importing {target} changes {', '.join(changes)}", where)
        return plugin

    def _loaded(self, plugin: Any) -> list[Hook]:
        """The hooks that mpsprobe would take; a finding for each other one."""
        hooks = []
        meant = [name for name in dir(plugin) if _is_meant_as_hook(plugin, name)]
        for name in meant:
            function = getattr(plugin, name)
            loaded = loading.load(loading.new_manager(), self._plugin({name: function}, plugin))
            where = self._steps.place(function)
            if loaded.status != "ok":
                known = getattr(hookspecs, name, None)
                form = f"It is called so: def {name}{inspect.signature(known)}" if known else None
                self._steps.found("left-out", str(loaded.reason), where, form)
                continue
            for problem in loaded.problems:
                self._steps.found("deprecated-hook", problem, where)
            hooks += [Hook(one, function, where) for one in loaded.hooks]
        if not meant:
            self._steps.found("left-out", "it implements no hook: mark one with @mpsprobe.hookimpl")
        self._steps.tell(hooks=[one.name for one in hooks])
        return sorted(hooks, key=lambda one: one.name == "mpsprobe_doctor")  # it may import what it judges

    def _plugin(self, functions: Mapping[str, Any], origin: Any = None) -> FoundPlugin:
        """A plugin of just these ``functions``."""
        module = types.ModuleType(getattr(origin, "__name__", ALONE))
        vars(module).update(functions)
        sys.modules[ALONE] = module
        return dataclasses.replace(self._found, target=ALONE, file=None, requires=())

    def _declared(self, hook: Hook) -> list[Declared]:
        """What a hook declares; one that a run announces is not called: it may send something somewhere."""
        kind = next((kind for kind, (name, _) in KINDS.items() if name == hook.name), "")
        if kind:
            right = self._right(hook, self._answer(hook), KINDS[kind][1])
            for one in right:
                self._steps.tell(declared=kind, name=one.name)
            return [Declared(kind, one, hook.where) for one in right]
        if hook.name == "mpsprobe_resolve_workload":
            answer = self._answer(hook, name=NOBODYS_NAME)
            if answer not in (None, []):
                message = f"its hook {hook.name} answers to '{NOBODYS_NAME}', which is nobody's name"
                self._steps.found("name-taken", message, hook.where, "Answer None to every name not of your form.")
                self._right(hook, [answer], WorkloadDeclaration, open_names=True)
        elif hook.name == "mpsprobe_doctor":
            from mpsprobe.environment import collect_environment

            environment = collect_environment().model_dump(mode="json")
            self._right(hook, self._answer(hook, environment=environment), DoctorFinding)
        return []

    def _answer(self, hook: Hook, **arguments: Any) -> Any:
        """What the hook returns; an empty list after a finding."""
        manager = loading.new_manager()
        loaded = loading.load(manager, self._plugin({hook.function.__name__: hook.function}))
        with self._steps.step(f"the hook {hook.name}", self._limit, prints=True, where=hook.where) as step:
            [(_, outcome)] = loading.call_each(manager, [loaded], hook.name, **arguments)
        if step.seconds > SLOW_HOOK_S and not arguments:
            self._steps.found("slow", f"the hook {hook.name} takes {step.seconds:.1f} s", hook.where)
        try:
            return loading.answer_of(outcome, hook.name)
        except (HookFailed, MpsprobeError) as error:
            said = str(error) if isinstance(error, HookFailed) else f"its hook {hook.name}: {error.message}"
            if hook.name != "mpsprobe_resolve_workload" or isinstance(error, HookFailed):
                place = self._steps.place_of_error(outcome.error) or hook.where
                self._steps.found("hook-failed", said, place)
            return []

    def _right(self, hook: Hook, answer: Any, expected: type[Any], **more: Any) -> list[Any]:
        """The elements of an answer that are right; a finding for each other one."""
        right, wrong = [], []
        elements = answer if isinstance(answer, (list, tuple)) else ()
        for part in (*([one] for one in elements), answer):
            try:
                right += checked(part, hook.name, expected, **more) if part is not answer else []
                checked(answer, hook.name, expected, **more) if part is answer else None
            except HookFailed as failed:
                wrong.append(str(failed))
        for one in dict.fromkeys(wrong):
            self._steps.found("hook-failed", one, hook.where)
        return list({one.name: one for one in right}.values()) if expected is not DoctorFinding else right

    def _compare_names(self, declared: list[Declared], mine: FoundPlugin) -> None:
        """What mpsprobe says where another plugin has a name too."""
        if self._found == CORE or not declared:
            return
        others = [one for one in find_plugins() if one == CORE or one.distribution != self._found.distribution]
        folders = [one for one in self._request["folders"] if not self._found.file]
        registry = Registry([*others, mine], folders=folders, blocked=self._request["blocked"], tell=_nobody)
        with self._steps.step("asking all plugins for their names", self._limit * TARGET_FACTOR):
            [plugin] = [one for one in registry.plugins() if one.found == mine]
            registry.contributions(plugin)
        for one in declared:
            named = f"{one.kind} '{getattr(one.declaration, 'key', one.declaration.name)}'"
            for problem in plugin.problems:
                if named in problem:
                    self._steps.found("name-taken", problem, one.where)

    def _try_targets(self, declared: list[Declared], registry: Registry) -> None:
        """Make what each declaration names, as mpsprobe does, and hold it to its contract."""
        held = set()
        for one in declared:
            with self._steps.step(f"making {one.what}", self._limit * TARGET_FACTOR, where=one.where):
                made = self._made(one, registry)
            if made is not None and self._request["contracts"] and (one.kind, one.declaration.target) not in held:
                held.add((one.kind, one.declaration.target))
                self._hold_to_contract(one, self._steps.place_of_object(made) or one.where)

    def _made(self, one: Declared, registry: Registry) -> Any:
        make = getattr(registry, {"backend": "kernel_tables"}.get(one.kind, one.kind))
        try:
            return make(one.declaration.name, *((one.declaration.framework,) if one.kind == "device" else ()))
        except MpsprobeError as error:
            cause = error.__cause__
            lacking = str(cause.name).partition(".")[0] if isinstance(cause, ModuleNotFoundError) else ""
            if isinstance(error, MissingPackage) or nearest(
                lacking.replace("_", "-"), normalized_names(self._request["optional"])
            ):
                self._steps.tell(not_checked=f"{one.what}: {error.message}")
            else:
                place = (cause and self._steps.place_of_error(cause)) or one.where
                self._steps.found("bad-target", error.message, place, _near(one.declaration.target))
        return None

    def _hold_to_contract(self, one: Declared, where: str) -> None:
        from mpsprobe_devkit.testing import contracts

        declaration = one.declaration
        if not hasattr(contracts, f"{one.kind}_contract"):
            return
        if one.kind == "scanner":
            if "torch" not in declaration.frameworks:
                self._steps.tell(not_checked=f"the contract of {one.what}: only its author has something to scan")
                return
            declaration = dataclasses.replace(declaration, frameworks=("torch",))
        with self._steps.step(f"the contract of {one.what}", self._request["contract_limit"], where=where):
            for broken in contracts.broken_clauses(declaration):
                self._steps.found("contract-broken", f"{one.what}: {broken.clause}: {broken.problem}", where)


def _is_meant_as_hook(plugin: Any, name: str) -> bool:
    try:
        options, value = loading.new_manager().parse_hookimpl_opts(plugin, name), getattr(plugin, name)
    except Exception:  # noqa: BLE001 - a property that raises is not a hook
        return False
    own = inspect.isfunction(value) and value.__module__ == getattr(plugin, "__name__", None)
    return options is not None or (own and name.startswith(loading.HOOK_PREFIX))


def _listing(declared: list[Declared], kind: str) -> Any:
    """A hook that returns the declarations of a kind."""
    declarations = [one.declaration for one in declared if one.kind == kind]
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
            folders = importlib.import_module(package).__path__
            names = [path.stem for folder in folders for path in Path(folder).iterdir()]
    except Exception:  # noqa: BLE001 - the plugin's code, or not there
        return None
    near = nearest(last, names, count=2) if last not in names else []
    return f"There is {' and '.join(near)}." if near else None


def main(folder: Path) -> None:
    """Do what ``request.json`` in ``folder`` asks for."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    sys.dont_write_bytecode = True  # a check leaves no trace in the folder that it looks at
    sys.path[:] = request["path"]
    Check(Steps(folder, request["root"], request["own"]), request).run()
    os._exit(0)  # whatever threads the plugin has left, and whatever it wanted to do at the end


if __name__ == "__main__":
    main(Path(sys.argv[1]))
