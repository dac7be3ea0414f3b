"""Loads one plugin and calls its hooks, so that whatever goes wrong stays with that plugin."""

from __future__ import annotations

import importlib
import itertools
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import pluggy

from mpsprobe import hookspecs
from mpsprobe.declarations import resolve
from mpsprobe.errors import MpsprobeError, PluginError, install_command
from mpsprobe.plugins.containment import Hangs, Outcome, each_within_limit, time_limit
from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe.plugins.requirements import incompatibility, unmet
from mpsprobe.suggestions import nearest, printable, said, type_name

HOOK_PREFIX = "mpsprobe_"
UNLIMITED = {
    "mpsprobe_resolve_workload",
    "mpsprobe_workload_space",
    "mpsprobe_workload_of",
    "mpsprobe_known_answer",
    "mpsprobe_before_run",
    "mpsprobe_after_run",
}
"""Hooks that may take as long as they need: a checkpoint is looked up, a report is sent somewhere."""
LONGER = {"mpsprobe_doctor": 6}
"""Hooks that get the time limit that many times: torch may have to be imported from a cold disk."""

MOST_ANSWERS = 10_000
"""Elements of a lazy answer: one without end would take all memory long before its time is over."""


class HookFailed(Exception):
    """A hook of one plugin did not answer; the text says why, for the line on standard error.

    Attributes:
        hangs: it was still at work when the time was over.
    """

    def __init__(self, text: str, *, hangs: bool = False) -> None:
        super().__init__(text)
        self.hangs = hangs


@dataclass(slots=True)
class Plugin:
    """A plugin after the attempt to load it.

    Attributes:
        found: what discovery knew of it.
        status: ``ok``, ``failed``, ``blocked`` (by the user) or ``incompatible`` (it needs another mpsprobe).
        reason: why it is not ``ok``: the first thing that went wrong.
        hooks: the hooks that it implements, by name, sorted.
        problems: all that is known to be wrong with it; also what leaves it ``ok`` (a name that is taken).
    """

    found: FoundPlugin
    status: str = "ok"
    reason: str | None = None
    hooks: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list)

    @property
    def owner(self) -> str:
        """Distribution and version, as messages name it."""
        return self.found.owner


def new_manager() -> pluggy.PluginManager:
    """A plugin manager that knows the hooks of ``mpsprobe.hookspecs`` and no plugin."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def load(manager: pluggy.PluginManager, found: FoundPlugin) -> Plugin:
    """Import the thin module of ``found`` and register it; never raises on behalf of the plugin."""
    return load_each(manager, [found])[0][0]


def load_each(manager: pluggy.PluginManager, found: Sequence[FoundPlugin]) -> list[tuple[Plugin, int]]:
    """``load`` for many, with the ns that each import took."""
    refused = {one: plugin for one in found if (plugin := _refused(one)) is not None}
    wanted = [one for one in found if one not in refused]
    outcomes = dict(
        zip(wanted, each_within_limit([partial(imported, one) for one in wanted], time_limit()), strict=True)
    )
    return [
        (_registered(manager, one, outcomes[one]), outcomes[one].took_ns) if one in outcomes else (refused[one], 0)
        for one in found
    ]


def _refused(found: FoundPlugin) -> Plugin | None:
    """``found`` as a plugin that is not even imported; ``None`` for one that is."""
    if found.problem:
        return Plugin(found, "failed", found.problem)
    if wrong := incompatibility(found.requires):
        return Plugin(found, "incompatible", wrong)
    return None


def _registered(manager: pluggy.PluginManager, found: FoundPlugin, outcome: Outcome) -> Plugin:
    error = outcome.error
    if isinstance(error, Hangs):
        return Plugin(found, "failed", f"its import hangs: {error}")
    if error is not None:
        lacking = _missing(found) if isinstance(error, ImportError) else ""
        return Plugin(found, "failed", f"its import failed: {describe(error)}{lacking}")
    module, key = outcome.answer, _key(found)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pluggy's own, about deprecated hooks: the registry tells of those
            manager.register(module, key)
        hooks, problems = _checked_hooks(manager, module)
    except (pluggy.PluginValidationError, ValueError, HookFailed) as wrong:
        if manager.has_plugin(key):
            manager.unregister(name=key)
        return Plugin(found, "failed", one_line(str(wrong)))
    return Plugin(found, hooks=hooks, problems=problems)


def imported(found: FoundPlugin) -> Any:
    """What the entry point names; raises whatever its import raises.

    A single file becomes the module that its declarations' targets (``name:attribute``) name.
    """
    if found.file is None:
        return resolve(found.target) if ":" in found.target else importlib.import_module(found.target)
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(found.target, found.file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{found.file} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[found.target] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[found.target]
        raise
    return module


def _missing(found: FoundPlugin) -> str:
    """What the distribution says it needs and does not have here, for the message of a failed import."""
    if found.file is not None:
        return ""
    lacking = ", ".join(dict.fromkeys(unmet(found.distribution)))
    return f" (not installed, or in another version: {printable(lacking)})" if lacking else ""


def call_each(
    manager: pluggy.PluginManager, plugins: Sequence[Plugin], hook: str, **arguments: Any
) -> Iterator[tuple[Plugin, Outcome]]:
    """What comes of asking each of ``plugins``, which have ``hook``; for ``answer_of``."""
    functions = {one.plugin_name: one for one in getattr(manager.hook, hook).get_hookimpls()}
    asks = []
    for plugin in plugins:
        implementation = functions[_key(plugin.found)]
        given = (arguments[name] for name in implementation.argnames)
        asks.append(partial(_whole, partial(implementation.function, *given)))
    if hook in UNLIMITED:  # the next one is asked when it is needed
        outcomes: Iterator[Outcome] = (each_within_limit([ask], 0)[0] for ask in asks)
    else:
        outcomes = iter(each_within_limit(asks, time_limit() * LONGER.get(hook, 1)))
    return zip(plugins, outcomes, strict=True)


def answer_of(outcome: Outcome, hook: str) -> Any:
    """The answer in ``outcome``; a lazy one (a generator) was run to its end where its exceptions are the plugin's.

    Raises:
        HookFailed: it raised, or tried to end the process.
        MpsprobeError: it raised one on purpose; whether the user meets it is the caller's choice.
    """
    error = outcome.error
    if error is None:
        return outcome.answer
    if isinstance(error, MpsprobeError):
        raise error
    if isinstance(error, Hangs):
        raise HookFailed(f"its hook {hook} hangs: {error}", hangs=True) from error
    raise HookFailed(f"its hook {hook} failed: {describe(error)}") from error


def _whole(ask: Callable[[], Any]) -> Any:
    answer = ask()
    if type(answer) in (str, bytes, list, tuple) or not isinstance(answer, Iterable):
        return answer
    answers = list(itertools.islice(answer, MOST_ANSWERS + 1))
    if len(answers) > MOST_ANSWERS:
        raise ValueError(f"it gives more than {MOST_ANSWERS:,} elements")
    return answers


def describe(error: BaseException) -> str:
    """An exception on one line, safe to print: ``ValueError: the message``."""
    name, message = type_name(error), one_line(said(error))
    return f"{name}: {message}" if message else name


def one_line(text: str) -> str:
    """``text`` without line breaks, safe to print."""
    return printable(" ".join(text.split()))


def _key(found: FoundPlugin) -> str:
    """Two distributions may use one name for their entry points; both are loaded."""
    return f"{found.distribution}:{found.name}"


def _checked_hooks(manager: pluggy.PluginManager, module: Any) -> tuple[tuple[str, ...], list[str]]:
    """The hooks that ``module`` implements, and a sentence for each that is deprecated.

    Raises:
        HookFailed: a hook that does not exist, a wrapper, or a hook without its ``@hookimpl``.
    """
    known = [name for name in vars(hookspecs) if name.startswith(HOOK_PREFIX)]
    hooks, problems = [], []
    for caller in manager.get_hookcallers(module) or ():
        implementation = next(one for one in caller.get_hookimpls() if one.plugin is module)
        if caller.spec is None and not implementation.optionalhook:
            near = nearest(caller.name, known, count=1)
            meant = f"; did you mean '{near[0]}'?" if near else ""
            raise HookFailed(f"there is no hook '{caller.name}'{meant}")
        if implementation.wrapper or implementation.hookwrapper:
            raise HookFailed(f"its hook {caller.name} is a wrapper; each plugin is asked by itself, so none is called")
        if caller.spec is not None and caller.spec.warn_on_impl is not None:
            problems.append(f"its hook {caller.name} is deprecated: {caller.spec.warn_on_impl}")
        hooks.append(caller.name)
    for name, value in vars(module).items() if isinstance(module, types.ModuleType) else ():
        own = isinstance(value, types.FunctionType) and value.__module__ == module.__name__
        if own and name.startswith(HOOK_PREFIX) and name not in hooks:
            raise HookFailed(f"'{name}' is not marked with @mpsprobe.hookimpl, so it would never be called")
    return tuple(sorted(hooks)), problems


def refuse(what: str, plugin: Plugin, problem: str, cause: BaseException | None) -> NoReturn:
    """Tell that ``what`` of ``plugin`` broke a rule.

    Raises:
        PluginError: always; it says whom to ask.
    """
    distribution = plugin.found.distribution
    hint = f"This is for the authors of {distribution}. With --debug or MPSPROBE_DEBUG=1 it shows where."
    if isinstance(cause, ImportError):
        hint = f"Install what it needs: {install_command(distribution)}"
    raise PluginError(f"{what} of {plugin.owner} {problem}", hint) from cause
