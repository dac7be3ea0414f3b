"""What the installed plugins offer, by name. Public: ``get_registry()`` and the methods of ``Registry``.

Plugins are loaded one by one at the first question. One that cannot be loaded, or whose hook
fails, is told once on standard error and left out; the others go on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mpsprobe import loading
from mpsprobe.catalogue import KINDS, Catalogue, checked
from mpsprobe.declarations import WorkloadDeclaration, resolve
from mpsprobe.discovery import CORE, FoundPlugin, find_plugins
from mpsprobe.errors import MissingPackage, MpsprobeError, PluginError, UnknownName, UsageError
from mpsprobe.loading import Plugin
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe.declarations import (
        CommandDeclaration,
        DeviceDeclaration,
        ExporterDeclaration,
        KernelTablesDeclaration,
        ProbeDeclaration,
        RunnerDeclaration,
        ScannerDeclaration,
    )
    from mpsprobe.protocols import Device, KernelTables, Probe, Runner, Scanner, Workload

DISABLE_VARIABLE = "MPSPROBE_DISABLE_PLUGINS"
OPEN_NAMES = (
    "Names are listed by 'mpsprobe workloads list'. A model of yours is path/to/file.py:function; "
    "plugins may take more (mpsprobe-hf: hf:TYPE, a checkpoint folder, a Hub id)."
)
FIRST_PARTY = {
    "workload": "mpsprobe-hf",
    "exporter": "mpsprobe-exporters",
    "scanner": "mpsprobe-coverage",
    "backend": "mpsprobe-coverage",
    "device": "mpsprobe-devices",
    "probe": "mpsprobe-devices",
    "runner": "mpsprobe-hf",
}


def _tell(line: str) -> None:
    print(f"mpsprobe: {line}", file=sys.stderr)  # noqa: T201 - click is not needed to use the registry


class Registry:
    """The plugins of this process and what they declare.

    Args:
        found: the plugins to load; by default the installed ones.
        blocked: names of entry points or distributions that are not imported; ``*`` is every one
            but the core.
        strict: a plugin that fails is a ``PluginError`` instead of a line on standard error.
        tell: takes each such line.
    """

    def __init__(
        self,
        found: Iterable[FoundPlugin] | None = None,
        *,
        blocked: Iterable[str] = (),
        strict: bool = False,
        tell: Callable[[str], None] = _tell,
    ) -> None:
        self._found = found
        self._blocked = frozenset(blocked)
        self._strict = strict
        self._tell = tell
        self._manager = loading.new_manager()
        self._plugins: list[Plugin] | None = None
        self._catalogues: dict[str, Catalogue] = {}
        self._resolved: dict[str, list[tuple[WorkloadDeclaration, Plugin]]] = {}

    def plugins(self) -> list[Plugin]:
        """Every plugin with its status, the core first; those that failed and were blocked are among them."""
        if self._plugins is None:
            found = find_plugins() if self._found is None else list(self._found)
            self._refuse_unknown_blocks(found)
            self._plugins = [self._load(plugin) for plugin in found]
        return self._plugins

    @property
    def blocked(self) -> frozenset[str]:
        """The names of plugins that are switched off."""
        return self._blocked

    def contributions(self, plugin: Plugin) -> dict[str, list[str]]:
        """The names that ``plugin`` declares, by kind (``workload``, ``exporter``, …); asks every listing hook."""
        names = {kind: self._catalogue(kind).declared_by(plugin) for kind in KINDS}
        return {kind: declared for kind, declared in names.items() if declared}

    def owner(self, kind: str, name: str) -> Plugin | None:
        """The plugin that the name of that kind belongs to; ``None`` for nobody's and for two plugins'."""
        entry = self._catalogue(kind).entries.get(name)
        return entry.plugin if entry else None

    # -- what there is ---------------------------------------------------------------------------

    def workloads(self) -> Mapping[str, WorkloadDeclaration]:
        """The named workloads, by name. Open name spaces (``hf:TYPE``, folders) are not listed."""
        return self._catalogue("workload").usable()

    def scanners(self) -> Mapping[str, ScannerDeclaration]:
        """The scanners, by name."""
        return self._catalogue("scanner").usable()

    def backends(self) -> Mapping[str, KernelTablesDeclaration]:
        """The backends that have kernel tables, by name."""
        return self._catalogue("backend").usable()

    def exporters(self) -> Mapping[str, ExporterDeclaration]:
        """The exporters, by name."""
        return self._catalogue("exporter").usable()

    def devices(self) -> Mapping[str, DeviceDeclaration]:
        """The devices, by name, in the order of their declaration: within a plugin the best first."""
        return self._catalogue("device").usable()

    def probes(self) -> Mapping[str, ProbeDeclaration]:
        """The probes, by name."""
        return self._catalogue("probe").usable()

    def runners(self) -> Mapping[str, RunnerDeclaration]:
        """The runners, by name."""
        return self._catalogue("runner").usable()

    def commands(self) -> Mapping[str, CommandDeclaration]:
        """The commands of the CLI, by name, those of the core among them."""
        return self._catalogue("command").usable()

    # -- one of it -------------------------------------------------------------------------------

    def workload(self, name: str) -> Workload:
        """The workload that ``name`` stands for, ready to ``build``.

        Raises:
            UnknownName: nothing answers to it; carries the nearest names.
            WorkloadError: a plugin's open name space covers it, and it is wrong.
            MissingPackage: a distribution that it needs is not installed.
            PluginError: two plugins claim it, or its plugin broke a rule.
        """
        from mpsprobe.protocols import Workload

        declaration, plugin = self.workload_and_owner(name)
        for requirement in declaration.requires:
            if not loading.is_installed(requirement):
                raise MissingPackage(f"the workload '{printable(name)}'", requirement)
        what = f"the workload '{printable(name)}'"
        made: Workload = self._made(
            what, declaration.target, plugin, Workload, lambda factory: factory(declaration.name)
        )
        return made

    def workload_and_owner(self, name: str) -> tuple[WorkloadDeclaration, Plugin]:
        """What ``name`` stands for and whose it is, without importing the workload. Raises as ``workload``."""
        catalogue = self._catalogue("workload")
        if name in catalogue.entries or name in catalogue.conflicts:
            entry = self._entry("workload", name)
            return entry.declaration, entry.plugin
        if name not in self._resolved:
            self._resolved[name] = list(self._resolve_workload(name))
        answers = self._resolved[name]
        if not answers:
            raise UnknownName("workload", name, catalogue.entries, self._hint("workload"))
        if len(answers) > 1:
            owners = " and ".join(plugin.owner for _, plugin in answers)
            raise PluginError(f"the workload '{printable(name)}' is claimed by {owners}", _switch_off())
        return answers[0]

    def scanner(self, name: str) -> Scanner:
        """The scanner called ``name``. Raises as ``workload``."""
        from mpsprobe.protocols import Scanner

        made: Scanner = self._object("scanner", name, Scanner)
        return made

    def scanner_for(self, framework: str) -> Scanner:
        """The scanner that reads workloads of ``framework``.

        Raises:
            UsageError: none does, or more than one does.
            PluginError: its plugin broke a rule.
        """
        able = [name for name, one in self.scanners().items() if framework in one.frameworks]
        if len(able) == 1:
            return self.scanner(able[0])
        shown = printable(framework)
        if able:
            raise UsageError(f"more than one scanner reads '{shown}' workloads: {', '.join(able)}", _switch_off())
        raise UsageError(f"no installed scanner reads '{shown}' workloads", self._hint("scanner"))

    def kernel_tables(self, backend: str) -> KernelTables:
        """The kernel tables of the backend of that name. Raises as ``workload``."""
        from mpsprobe.protocols import KernelTables

        made: KernelTables = self._object("backend", backend, KernelTables)
        return made

    def device(self, name: str) -> Device:
        """The device called ``name``, which may say that it is unavailable. Raises as ``workload``."""
        from mpsprobe.protocols import Device

        made: Device = self._object("device", name, Device)
        return made

    def probe(self, name: str) -> Probe:
        """The probe called ``name``. Raises as ``workload``."""
        from mpsprobe.protocols import Probe

        made: Probe = self._object("probe", name, Probe)
        return made

    def runner(self, name: str) -> Runner:
        """The runner called ``name``. Raises as ``workload``."""
        from mpsprobe.protocols import Runner

        made: Runner = self._object("runner", name, Runner)
        return made

    def exporter(self, name: str) -> Any:
        """The exporter called ``name``: an ``Exporter``, or a ``FolderExporter`` if declared so. Raises as always."""
        from mpsprobe.protocols import Exporter, FolderExporter

        return self._object("exporter", name, FolderExporter if self.exporter_declaration(name).folder else Exporter)

    def exporter_declaration(self, name: str) -> ExporterDeclaration:
        """What the exporter called ``name`` declared (extension, ``binary``, ``kinds``), without importing it."""
        declaration: ExporterDeclaration = self._entry("exporter", name).declaration
        return declaration

    def command(self, name: str) -> Any:
        """The ``click.Command`` called ``name``. Raises as ``workload``."""
        import click

        entry = self._entry("command", name)
        return self._made(
            f"the command '{name}'", entry.declaration.target, entry.plugin, click.Command, lambda one: one
        )

    def listens(self, hook: str) -> bool:
        """Whether any plugin has ``hook``: what it would be told need not be made for nobody."""
        return any(hook in plugin.hooks for plugin in self.plugins())

    def announce(self, hook: str, **arguments: Any) -> None:
        """Call ``mpsprobe_before_run`` or ``mpsprobe_after_run`` of each plugin; what they return is ignored."""
        for plugin in self.plugins():
            if hook in plugin.hooks:
                try:
                    loading.call(self._manager, plugin, hook, **arguments)
                except (loading.HookFailed, MpsprobeError) as error:
                    self._failed(plugin, str(error))

    # -- inside ----------------------------------------------------------------------------------

    def _load(self, found: FoundPlugin) -> Plugin:
        if found != CORE and self._blocked & {found.name, found.distribution, "*"}:
            return Plugin(found, "blocked", "switched off by -p or " + DISABLE_VARIABLE)
        plugin = loading.load(self._manager, found)
        if plugin.status == "failed":
            self._failed(plugin, plugin.reason or "")
        return plugin

    def _refuse_unknown_blocks(self, found: list[FoundPlugin]) -> None:
        """A misspelt ``-p no:NAME`` would load just what the user wanted to keep out."""
        if CORE.name in self._blocked:
            raise UsageError("the plugin 'core' holds the commands of mpsprobe itself and cannot be switched off")
        known = {"*"} | {one.name for one in found} | {one.distribution for one in found}
        for name in sorted(self._blocked - known):
            self._tell(f"{UnknownName('plugin', name, known).message} (nothing was switched off for it)")

    def _failed(self, plugin: Plugin, reason: str) -> None:
        plugin.status, plugin.reason = "failed", reason
        line = f"plugin '{printable(plugin.found.name)}' of {plugin.owner} is left out: {reason}"
        if self._strict:
            raise PluginError(line, "Without --strict-plugins the command goes on without it.")
        self._tell(line)

    def _catalogue(self, kind: str) -> Catalogue:
        if kind not in self._catalogues:
            catalogue = Catalogue(kind)
            for plugin in self.plugins():
                declared = self._declared(plugin, kind)
                for problem in catalogue.add(plugin, declared):
                    self._tell(problem)
            self._catalogues[kind] = catalogue
        return self._catalogues[kind]

    def _declared(self, plugin: Plugin, kind: str) -> list[Any]:
        hook, declaration_type = KINDS[kind]
        if hook not in plugin.hooks:
            return []
        try:
            return checked(loading.call(self._manager, plugin, hook), hook, declaration_type)
        except MpsprobeError as error:
            self._failed(plugin, f"its hook {hook} failed: {loading.describe(error)}")
        except loading.HookFailed as error:
            self._failed(plugin, str(error))
        return []

    def _entry(self, kind: str, name: str) -> Any:
        catalogue = self._catalogue(kind)
        if name in catalogue.conflicts:
            owners = " and ".join(plugin.owner for plugin in catalogue.conflicts[name])
            raise PluginError(f"the {kind} '{name}' is declared by {owners}", _switch_off())
        if name not in catalogue.entries:
            raise UnknownName(kind, name, catalogue.entries, self._hint(kind))
        return catalogue.entries[name]

    def _hint(self, kind: str) -> str | None:
        """What to do about an unknown name: which first-party plugin is not there, or where the names are."""
        distribution = FIRST_PARTY.get(kind)
        if distribution is None:
            return None
        for plugin in self.plugins():
            if plugin.found.distribution == distribution:
                if plugin.status != "ok":
                    return f"{plugin.owner} is installed but {plugin.status}: {plugin.reason}"
                return OPEN_NAMES if kind == "workload" else f"There are: {', '.join(self._catalogue(kind).entries)}."
        return f"More of them come with a plugin: pip install {distribution}"

    def _resolve_workload(self, name: str) -> Iterator[tuple[WorkloadDeclaration, Plugin]]:
        """What the plugins with open name spaces say to ``name``."""
        hook = "mpsprobe_resolve_workload"
        for plugin in self.plugins():
            if hook not in plugin.hooks:
                continue
            try:
                answer = loading.call(self._manager, plugin, hook, name=name)
                if answer is not None:
                    yield checked([answer], hook, WorkloadDeclaration, open_names=True)[0], plugin
            except loading.HookFailed as error:
                self._failed(plugin, str(error))

    def _object(self, kind: str, name: str, expected: type) -> Any:
        entry = self._entry(kind, name)
        return self._made(f"the {kind} '{name}'", entry.declaration.target, entry.plugin, expected, _instance)

    def _made(self, what: str, target: str, plugin: Plugin, expected: type, make: Callable[[Any], Any]) -> Any:
        """Resolve ``target`` and make the object; whatever fails is the plugin's and is told so."""
        try:
            made = make(resolve(target))
        except MpsprobeError:
            raise
        except ImportError as error:
            loading.refuse(what, plugin, f"cannot be imported: {loading.describe(error)}", error)
        except Exception as error:  # noqa: BLE001 - the plugin's code, named in the message
            loading.refuse(what, plugin, f"cannot be made: {loading.describe(error)}", error)
        if not isinstance(made, expected):
            loading.refuse(what, plugin, f"is a {type(made).__name__}, not a {expected.__name__}", None)
        return made


def _instance(found: Any) -> Any:
    """A declaration's target may be a class, made without arguments, or a ready object."""
    return found() if isinstance(found, type) else found


def _switch_off() -> str:
    return f"Uninstall one of them, or switch its plugin off with -p no:NAME or {DISABLE_VARIABLE}=NAME."


def blocked_by_environment() -> set[str]:
    """The names in ``MPSPROBE_DISABLE_PLUGINS``, which are separated by commas."""
    return {name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",") if name.strip()}


_current: Registry | None = None


def get_registry() -> Registry:
    """The registry of this process, made at the first call; a command line's ``-p`` is in it."""
    global _current
    if _current is None:
        _current = Registry(blocked=blocked_by_environment())
    return _current


def use_registry(registry: Registry | None) -> None:
    """Make ``registry`` the one that ``get_registry`` returns; ``None`` for a new one at the next call."""
    global _current
    _current = registry
