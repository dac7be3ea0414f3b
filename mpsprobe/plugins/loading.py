"""Loads one plugin, calls its hooks and makes its objects, so that whatever goes wrong stays with that plugin."""

from __future__ import annotations

import importlib
import itertools
import os
import reprlib
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pluggy

from mpsprobe import hookspecs
from mpsprobe.declarations import resolve
from mpsprobe.errors import MpsprobeError, PluginError, install_command
from mpsprobe.plugins.containment import Outcome, outcome_of
from mpsprobe.plugins.discovery import CORE, FoundPlugin
from mpsprobe.plugins.requirements import incompatibility, unmet
from mpsprobe.suggestions import nearest, printable, said, type_name

HOOK_PREFIX = "mpsprobe_"
MOST_ANSWERS = 10_000
"""Elements of a lazy answer: one without end would take all memory."""
TRACE_VARIABLE = "MPSPROBE_TRACE_PLUGINS"
OFF = {"", "0", "false", "no", "off"}
SHOWN_ITEMS = 6  # of a list of declarations in a trace
SHORT = reprlib.Repr()  # of anything else in it
SHORT.maxstring = SHORT.maxother = 160


class HookFailed(Exception):
    """A hook of one plugin did not answer; the text says why, for the line on standard error."""


@dataclass(slots=True)
class Plugin:
    """A plugin after the attempt to load it."""

    found: FoundPlugin
    status: str = "ok"  # or failed, blocked (by the user), incompatible (it needs another mpsprobe)
    reason: str | None = None  # why it is not ok: the first thing that went wrong
    problems: list[str] = field(default_factory=list)  # all of them; also what leaves it ok (a name that is taken)
    implementations: Mapping[str, pluggy.HookImpl] = field(default_factory=dict)  # its hooks by name, sorted

    @property
    def hooks(self) -> tuple[str, ...]:
        return tuple(self.implementations)

    @property
    def owner(self) -> str:
        return self.found.owner


def new_manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def load(manager: pluggy.PluginManager, found: FoundPlugin) -> Plugin:
    if found.problem:
        return Plugin(found, "failed", found.problem)
    if wrong := incompatibility(found.requires):
        return Plugin(found, "incompatible", wrong)
    outcome = _named_if_interrupted(found, "its import", lambda: imported(found))
    if outcome.error is not None:
        lacking = _missing(found) if isinstance(outcome.error, ImportError) else ""
        plugin = Plugin(found, "failed", f"its import failed: {describe(outcome.error)}{lacking}")
    else:
        plugin = _registered(manager, found, outcome.answer)
    hooks = ", ".join(plugin.hooks) or "no hooks" if plugin.status == "ok" else f"{plugin.status}: {plugin.reason}"
    trace(plugin, f"import {found.target}", hooks, outcome)
    return plugin


def _named_if_interrupted(plugin: FoundPlugin, doing: str, function: Callable[[], Any]) -> Outcome:
    """``outcome_of``; after Ctrl-C a line says whose code ran: one that never ends would hold every command."""
    try:
        return outcome_of(function)
    except KeyboardInterrupt:
        if plugin != CORE:
            name, owner = printable(plugin.name), printable(plugin.owner)
            tell_on_stderr(f"interrupted in plugin '{name}' of {owner}, {doing}: -p no:{name} leaves it out")
        raise


def imported(plugin: FoundPlugin) -> Any:
    """What the entry point names; raises whatever its import raises.

    A single file becomes the module that its declarations' targets (``name:attribute``) name.
    """
    if plugin.file is None:
        return resolve(plugin.target) if ":" in plugin.target else importlib.import_module(plugin.target)
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(plugin.target, plugin.file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{plugin.file} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[plugin.target] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[plugin.target]
        raise
    return module


def _missing(plugin: FoundPlugin) -> str:
    """What the distribution needs and does not have here, for the message of a failed import."""
    lacking = ", ".join(dict.fromkeys(unmet(plugin.distribution))) if plugin.file is None else ""
    return f" (not installed, or in another version: {printable(lacking)})" if lacking else ""


def _registered(manager: pluggy.PluginManager, plugin: FoundPlugin, module: Any) -> Plugin:
    name = f"{plugin.distribution}:{plugin.name}"  # two distributions may use one name for their entry points
    try:
        manager.register(module, name)
        implementations, problems = _checked_hooks(manager, module)
    except (pluggy.PluginValidationError, ValueError, HookFailed) as wrong:
        if manager.has_plugin(name):
            manager.unregister(name=name)
        return Plugin(plugin, "failed", one_line(str(wrong)))
    return Plugin(plugin, problems=problems, implementations=implementations)


def _checked_hooks(manager: pluggy.PluginManager, module: Any) -> tuple[dict[str, pluggy.HookImpl], list[str]]:
    """The hooks that ``module`` implements, and a sentence for each that is deprecated."""
    hooks, problems = {}, []
    for caller in sorted(manager.get_hookcallers(module) or (), key=lambda caller: caller.name):
        implementation = next(each for each in caller.get_hookimpls() if each.plugin is module)
        if caller.spec is None and not implementation.optionalhook:
            near = nearest(caller.name, hookspecs.HOOKS, count=1)
            meant = f"; did you mean '{near[0]}'?" if near else ""
            raise HookFailed(f"there is no hook '{caller.name}'{meant}")
        if implementation.wrapper or implementation.hookwrapper:
            raise HookFailed(f"its hook {caller.name} is a wrapper; each plugin is asked by itself, so none is called")
        if caller.name in hookspecs.HOOKS and (deprecated := hookspecs.HOOKS[caller.name].deprecated):
            problems.append(f"its hook {caller.name} is deprecated: {deprecated}")
        hooks[caller.name] = implementation
    for name, value in vars(module).items() if isinstance(module, types.ModuleType) else ():
        own = isinstance(value, types.FunctionType) and value.__module__ == module.__name__
        if own and name.startswith(HOOK_PREFIX) and name not in hooks:
            raise HookFailed(f"'{name}' is not marked with @mpsprobe.hookimpl, so it would never be called")
    return hooks, problems


def call(plugin: Plugin, hook: str, arguments: Mapping[str, Any]) -> Outcome:
    """What comes of ``hook`` of ``plugin``, which has it. A lazy answer (a generator) is run to its end."""
    implementation = plugin.implementations[hook]
    given = [arguments[name] for name in implementation.argnames]
    outcome = _named_if_interrupted(plugin.found, f"its hook {hook}", lambda: _whole(implementation.function(*given)))
    if _is_traced():
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in arguments.items())
        answer = f"raised {describe(outcome.error)}" if outcome.error is not None else _shown(outcome.answer)
        trace(plugin, f"{hook}({shown})", answer, outcome)
    return outcome


def _whole(answer: Any) -> Any:
    if type(answer) in (str, bytes, list, tuple) or not isinstance(answer, Iterable):
        return answer
    answers = list(itertools.islice(answer, MOST_ANSWERS + 1))
    if len(answers) > MOST_ANSWERS:
        raise ValueError(f"it gives more than {MOST_ANSWERS:,} elements")
    return answers


def answer_of(outcome: Outcome, hook: str) -> Any:
    """The answer in ``outcome``; else raises ``HookFailed``, or the ``MpsprobeError`` that was raised on purpose."""
    if outcome.error is None:
        return outcome.answer
    if isinstance(outcome.error, MpsprobeError):
        raise outcome.error
    raise HookFailed(f"its hook {hook} failed: {describe(outcome.error)}") from outcome.error


def describe(error: BaseException) -> str:
    """An exception on one line, safe to print: ``ValueError: the message``."""
    name, message = type_name(error), one_line(said(error))
    return f"{name}: {message}" if message else name


def one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def tell_on_stderr(line: str) -> None:
    if sys.stderr is not None:
        print(f"mpsprobe: {line}", file=sys.stderr)  # noqa: T201 - click is not needed to use the registry


def refuse(what: str, plugin: Plugin, problem: str, cause: BaseException | None) -> NoReturn:
    """Raise a ``PluginError``: ``what`` of ``plugin`` broke a rule. It says whom to ask."""
    distribution = plugin.found.distribution
    hint = f"This is for the authors of {distribution}. With --debug or MPSPROBE_DEBUG=1 it shows where."
    if isinstance(cause, ImportError):
        hint = f"Install what it needs: {install_command(distribution)}"
    raise PluginError(f"{what} of {plugin.owner} {problem}", hint) from cause


# -- MPSPROBE_TRACE_PLUGINS=1: a line for each import and each hook call, with its answer ------------


def trace(plugin: Plugin, what: str, answer: str, outcome: Outcome) -> None:
    """Tell what was asked of ``plugin``, what came of it, and how long that took."""
    if _is_traced():
        name = f"{plugin.found.name} ({plugin.owner})"
        tell_on_stderr(printable(f"trace: {name}: {what} -> {answer} [{outcome.took_ns / 1e6:.1f} ms]"))


def _is_traced() -> bool:
    return os.environ.get(TRACE_VARIABLE, "").strip().lower() not in OFF


def _shown(value: Any) -> str:
    """A value on one short line: lists by the names in them, since a plugin may declare hundreds."""
    if not isinstance(value, (list, tuple)):
        return SHORT.repr(value)
    names = [str(getattr(item, "name", None) or SHORT.repr(item)) for item in value[:SHOWN_ITEMS]]
    more = f", … {len(value) - SHOWN_ITEMS} more" if len(value) > SHOWN_ITEMS else ""
    kind = f"{type(value[0]).__name__}: " if value and hasattr(value[0], "name") else ""
    return f"[{kind}{', '.join(names)}{more}]"
