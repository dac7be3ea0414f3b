"""Loads one plugin and calls its hooks, so that whatever goes wrong stays with that plugin."""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import pluggy

from mpsprobe import hookspecs
from mpsprobe.declarations import resolve
from mpsprobe.discovery import FoundPlugin
from mpsprobe.errors import PluginError
from mpsprobe.suggestions import nearest, printable

HOOK_PREFIX = "mpsprobe_"


class HookFailed(Exception):
    """A hook of one plugin did not answer; the text says why, for the line on standard error."""


@dataclass(slots=True)
class Plugin:
    """A plugin after the attempt to load it.

    Attributes:
        found: what discovery knew of it.
        status: ``ok``, ``failed`` or ``blocked`` (switched off by the user).
        reason: why it is not ``ok``.
        hooks: the hooks that it implements, by name, sorted.
    """

    found: FoundPlugin
    status: str = "ok"
    reason: str | None = None
    hooks: tuple[str, ...] = ()

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
    if found.problem:
        return Plugin(found, "failed", found.problem)
    try:
        with _contained():
            module = resolve(found.target) if ":" in found.target else importlib.import_module(found.target)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - also SystemExit: a plugin must not end the process
        return Plugin(found, "failed", f"its import failed: {describe(error)}")
    key = _key(found)
    try:
        manager.register(module, key)
        hooks = _checked_hooks(manager, module)
    except (pluggy.PluginValidationError, ValueError, HookFailed) as error:
        if manager.has_plugin(key):
            manager.unregister(name=key)
        return Plugin(found, "failed", _one_line(str(error)))
    return Plugin(found, hooks=hooks)


def call(manager: pluggy.PluginManager, plugin: Plugin, hook: str, **arguments: Any) -> Any:
    """What ``plugin`` answers to ``hook``; ``None`` where it does not implement it.

    A lazy answer (a generator) is run to its end here, where its exceptions are still the plugin's.

    Raises:
        HookFailed: it raised, or tried to end the process.
        MpsprobeError: it raised one on purpose; whether the user meets it is the caller's choice.
    """
    from mpsprobe.errors import MpsprobeError

    for implementation in getattr(manager.hook, hook).get_hookimpls():
        if implementation.plugin_name != _key(plugin.found):
            continue
        try:
            with _contained():
                answer = implementation.function(*(arguments[name] for name in implementation.argnames))
                lazy = isinstance(answer, Iterable) and not isinstance(answer, (str, bytes, list, tuple))
                return list(answer) if lazy else answer
        except (KeyboardInterrupt, MpsprobeError):
            raise
        except BaseException as error:  # also SystemExit: a plugin must not end the process
            raise HookFailed(f"its hook {hook} failed: {describe(error)}") from error
    return None


def describe(error: BaseException) -> str:
    """An exception on one line, safe to print: ``ValueError: the message``."""
    name, message = type(error).__name__, _one_line(str(error))
    return f"{name}: {message}" if message else name


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _key(found: FoundPlugin) -> str:
    """Two distributions may use one name for their entry points; both are loaded."""
    return f"{found.distribution}:{found.name}"


@contextlib.contextmanager
def _contained() -> Iterator[None]:
    """What a plugin prints goes to standard error, and its changes of the warnings filter end here.

    Standard output carries data (JSON for a pipe); the filter decides what all others may say.
    """
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        yield


def _checked_hooks(manager: pluggy.PluginManager, module: object) -> tuple[str, ...]:
    """The hooks that ``module`` implements.

    Raises:
        HookFailed: a hook that does not exist, a wrapper, or a hook without its ``@hookimpl``.
    """
    known = [name for name in vars(hookspecs) if name.startswith(HOOK_PREFIX)]
    hooks = []
    for caller in manager.get_hookcallers(module) or ():
        implementation = next(one for one in caller.get_hookimpls() if one.plugin is module)
        if caller.spec is None and not implementation.optionalhook:
            raise HookFailed(f"there is no hook '{caller.name}'{_did_you_mean(caller.name, known)}")
        if implementation.wrapper or implementation.hookwrapper:
            raise HookFailed(f"its hook {caller.name} is a wrapper; each plugin is asked by itself, so none is called")
        hooks.append(caller.name)
    for name in _own_functions(module):
        if name.startswith(HOOK_PREFIX) and name not in hooks:
            raise HookFailed(f"'{name}' is not marked with @mpsprobe.hookimpl, so it would never be called")
    return tuple(sorted(hooks))


def _own_functions(module: object) -> list[str]:
    """The functions that a plugin module defines itself; those that it imported may be anyone's."""
    if not isinstance(module, types.ModuleType):
        return []
    functions = {name: value for name, value in vars(module).items() if isinstance(value, types.FunctionType)}
    return [name for name, value in functions.items() if value.__module__ == module.__name__]


def _did_you_mean(name: str, known: list[str]) -> str:
    near = nearest(name, known, count=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def is_installed(requirement: str) -> bool:
    """Whether the distribution is there in a version that ``requirement`` (``"name>=1"``) allows."""
    import importlib.metadata

    from packaging.requirements import InvalidRequirement, Requirement

    try:
        wanted = Requirement(requirement)
        return wanted.specifier.contains(importlib.metadata.version(wanted.name), prereleases=True)
    except (importlib.metadata.PackageNotFoundError, InvalidRequirement):
        return False


def refuse(what: str, plugin: Plugin, problem: str, cause: Exception | None) -> NoReturn:
    """Tell that ``what`` of ``plugin`` broke a rule.

    Raises:
        PluginError: always; it says whom to ask.
    """
    distribution = plugin.found.distribution
    hint = f"This is for the authors of {distribution}."
    if isinstance(cause, ImportError):
        hint = f"Install what it needs: pip install --upgrade {distribution}"
    raise PluginError(f"{what} of {plugin.owner} {problem}", hint) from cause
