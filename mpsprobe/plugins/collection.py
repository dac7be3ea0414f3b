"""The plugins of one process: loads them, asks their hooks one by one, and tells of each that goes wrong, once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from mpsprobe.declarations import resolve
from mpsprobe.errors import MpsprobeError, PluginError, UnknownName, UsageError
from mpsprobe.plugins import loading
from mpsprobe.plugins.catalogue import KINDS, Catalogue, checked
from mpsprobe.plugins.containment import each_within_limit
from mpsprobe.plugins.discovery import CORE, FoundPlugin, find_plugins
from mpsprobe.plugins.loading import HookFailed, Plugin
from mpsprobe.plugins.plugin_files import find_in_folders
from mpsprobe.plugins.tracing import Trace
from mpsprobe.suggestions import printable

DISABLE_VARIABLE = "MPSPROBE_DISABLE_PLUGINS"
SWITCHED_OFF = "switched off by -p or " + DISABLE_VARIABLE


def tell_on_stderr(line: str) -> None:
    """One line for whoever runs the command; standard output carries data."""
    if sys.stderr is not None:
        print(f"mpsprobe: {line}", file=sys.stderr)  # noqa: T201 - click is not needed to use the registry


def blocked_by_environment() -> set[str]:
    """The names in ``MPSPROBE_DISABLE_PLUGINS``, which are separated by commas."""
    return {name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",") if name.strip()}


class Collection:
    """Plugins with their state. Made of what a ``Registry`` is made of."""

    def __init__(
        self,
        found: Iterable[FoundPlugin] | None,
        folders: Iterable[str],
        blocked: Iterable[str],
        strict: bool,
        tell: Callable[[str], None],
    ) -> None:
        self.folders = tuple(folders)
        self.blocked = frozenset(blocked)
        self._found = found
        self._strict = strict
        self._tell = tell
        self._told: set[str] = set()
        self._trace = Trace(tell)
        self._manager = loading.new_manager()
        self._plugins: list[Plugin] | None = None
        self._loading = False
        self._catalogues: dict[str, Catalogue] = {}

    def plugins(self) -> list[Plugin]:
        """Every plugin, loaded at the first question.

        Raises:
            PluginError: a plugin asks while it is being imported; with ``strict`` also: one failed.
        """
        if self._plugins is None:
            if self._loading:
                raise PluginError("a plugin asked for the plugins while they were being loaded")
            self._loading = True
            try:
                found = find_plugins() if self._found is None else list(self._found)
                found += find_in_folders(self.folders)
                self._refuse_unknown_blocks(found)
                self._plugins = self._load(found)
            finally:
                self._loading = False
        return self._plugins

    def catalogue(self, kind: str) -> Catalogue:
        """The names of one kind; asks every plugin at the first question."""
        if kind not in self._catalogues:
            catalogue = Catalogue(kind)
            hook, expected = KINDS[kind]
            for plugin, declared in self.answers(hook, partial(checked, hook=hook, expected=expected)):
                catalogue.add(plugin, declared)
            self._catalogues[kind] = catalogue
            for about, line in catalogue.refusals():
                self._say(about, line, "Without --strict-plugins the command goes on without these names.")
        return self._catalogues[kind]

    def answers(
        self, hook: str, judge: Callable[[Any], Any], *, lets_out: bool = False, **arguments: Any
    ) -> Iterator[tuple[Plugin, Any]]:
        """What ``judge`` makes of each plugin's answer to ``hook``; one that fails is reported and left out.

        Args:
            judge: raises ``HookFailed`` where the answer is wrong.
            lets_out: an ``MpsprobeError`` is for the user and not the plugin's failure.
        """
        asked = [plugin for plugin in self.plugins() if hook in plugin.hooks]
        for plugin, outcome in loading.call_each(self._manager, asked, hook, **arguments):
            self._trace.call(plugin, hook, arguments, outcome)
            try:
                judged = judge(loading.answer_of(outcome, hook))
            except MpsprobeError as error:
                if lets_out:
                    raise
                self.failed(plugin, f"its hook {hook} failed: {loading.describe(error)}")
            except HookFailed as error:
                self.failed(plugin, str(error))
                if error.hangs:
                    plugin.hooks = ()  # the next one would take as long
            else:
                yield plugin, judged

    def made(self, what: str, plugin: Plugin, target: str, build: Callable[[Any], Any]) -> Any:
        """``build`` of what ``target`` resolves to; whatever goes wrong with it is reported as the plugin's.

        Raises:
            PluginError: it cannot be imported or made.
            MpsprobeError: the plugin raised one on purpose.
        """
        [outcome] = each_within_limit([lambda: build(resolve(target))], 0)
        error = outcome.error
        if isinstance(error, MpsprobeError):
            raise error
        if error is not None:
            doing = "imported" if isinstance(error, ImportError) else "made"
            loading.refuse(what, plugin, f"cannot be {doing}: {loading.describe(error)}", error)
        self._trace.resolved(plugin, target, outcome.took_ns)
        return outcome.answer

    def failed(self, plugin: Plugin, reason: str) -> None:
        """Note why ``plugin`` is left out, and tell it once a process.

        Raises:
            PluginError: with ``strict``.
        """
        plugin.status, plugin.reason = "failed", plugin.reason or reason
        if reason not in plugin.problems:
            plugin.problems.append(reason)
        self._left_out(plugin, reason)

    # -- inside ----------------------------------------------------------------------------------

    def _left_out(self, plugin: Plugin, reason: str) -> None:
        name = _called(plugin)
        self._say(name, f"{name} is left out: {reason}", "Without --strict-plugins the command goes on without it.")

    def _say(self, about: str, line: str, hint: str) -> None:
        """Tell ``line``, once for each thing that it is about."""
        if self._strict:
            raise PluginError(line, hint)
        if about not in self._told:
            self._told.add(about)
            self._tell(line)

    def _load(self, found: list[FoundPlugin]) -> list[Plugin]:
        wanted = [one for one in found if one == CORE or not self.blocked & {one.name, one.distribution, "*"}]
        loaded = {}
        for plugin, took_ns in loading.load_each(self._manager, wanted):
            loaded[plugin.found] = plugin
            self._trace.loaded(plugin, took_ns)
            if plugin.status == "failed":
                self.failed(plugin, plugin.reason or "")
            elif plugin.status == "incompatible":
                self._left_out(plugin, plugin.reason or "")
            elif plugin.problems:  # it goes on, with hooks that are deprecated
                self._tell(f"{_called(plugin)}: {'; '.join(plugin.problems)}")
        return [loaded.get(one) or Plugin(one, "blocked", SWITCHED_OFF) for one in found]

    def _refuse_unknown_blocks(self, found: list[FoundPlugin]) -> None:
        """A misspelt ``-p no:NAME`` would load just what the user wanted to keep out."""
        if CORE.name in self.blocked:
            raise UsageError("the plugin 'core' holds the commands of mpsprobe itself and cannot be switched off")
        known = {"*"} | {one.name for one in found} | {one.distribution for one in found}
        for name in sorted(self.blocked - known):
            self._tell(f"{UnknownName('plugin', name, known).message} (nothing was switched off for it)")


def _called(plugin: Plugin) -> str:
    return f"plugin '{printable(plugin.found.name)}' of {printable(plugin.owner)}"
