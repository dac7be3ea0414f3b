"""What the installed plugins offer, by name. Public: ``get_registry()`` and the methods of ``Registry``.

Plugins are loaded one by one at the first question. One that cannot be loaded, or whose hook
fails, is reported once on standard error and left out; the others go on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from mpsprobe.declarations import CommandDeclaration, Declaration, KernelTablesDeclaration, WorkloadDeclaration, resolve
from mpsprobe.errors import (
    EVERYTHING,
    FOR_USERS,
    MissingPackage,
    MpsprobeError,
    PluginError,
    UnknownName,
    UsageError,
    install_command,
)
from mpsprobe.hookspecs import HOOKS, KINDS
from mpsprobe.plugins import loading
from mpsprobe.plugins.catalogue import Catalogue, Entry, checked
from mpsprobe.plugins.containment import outcome_of
from mpsprobe.plugins.discovery import CORE, FoundPlugin, find_plugins
from mpsprobe.plugins.loading import HookFailed, Plugin, tell_on_stderr
from mpsprobe.plugins.plugin_files import FOLDERS_VARIABLE, find_in_folders, folders_from_environment
from mpsprobe.plugins.requirements import is_installed
from mpsprobe.suggestions import an, printable

if TYPE_CHECKING:
    from mpsprobe.declarations import DeviceDeclaration, ExporterDeclaration, KnownAnswer, OperatorRewrite
    from mpsprobe.protocols import Device, KernelTables, Scanner, Workload

OPEN_NAMES = (
    "Names are listed by 'mpsprobe workloads list'. A model of yours is path/to/file.py:function; "
    "plugins may take more (mpsprobe-hf: hf:TYPE, a checkpoint folder, a Hub id, "
    "diffusers:PIPELINE, timm:NAME, torchvision:NAME; mpsprobe-tensorflow: keras:NAME, a SavedModel)."
)
"""What an error about a workload's name says about the names that there are."""
OBJECTS = (
    "Hand over a torch.nn.Module, a function or a pipeline with its inputs, or the name of a workload. What runs "
    "something else can be written as a function: lambda x: thing.run(x)"
)
"""What an error about an object says about those that can be handed over."""
FIRST_PARTY = {
    "workload": "mpsprobe-hf",
    "exporter": "mpsprobe-exporters",
    "scanner": "mpsprobe-coverage",
    "backend": "mpsprobe-coverage",
    "device": "mpsprobe-devices",
    "probe": "mpsprobe-devices",
    "runner": "mpsprobe-hf",
}
"""Which of our distributions has things of a kind, for errors that say what to install."""
AUTO, ALL, NONE, PLAIN = "auto", "all", "none", "plain"
WORDS = {"device": (AUTO,), "probe": (ALL, NONE), "runner": (PLAIN,)}
"""What a user may say instead of a name of a kind."""
DISABLE_VARIABLE = "MPSPROBE_DISABLE_PLUGINS"
"""Its value has the names of plugins that are switched off, with commas between them."""
_SWITCHED_OFF = "switched off by -p or " + DISABLE_VARIABLE
_SWITCH_OFF = f"Uninstall one of them, or switch its plugin off with -p no:NAME or {DISABLE_VARIABLE}=NAME."
_GOES_ON = "Without --strict-plugins the command goes on without "


class Registry:
    """The plugins of this process and what they declare.

    Args:
        found: the plugins to load; by default the installed ones.
        folders: more of them, one in each ``*.py`` file of these folders.
        blocked: names of entry points or distributions that are not imported; ``*`` is every one
            but the core.
        strict: a plugin that fails is a ``PluginError`` instead of a line on standard error.
        tell: takes each such line.
    """

    def __init__(
        self,
        found: Iterable[FoundPlugin] | None = None,
        *,
        folders: Iterable[str] = (),
        blocked: Iterable[str] = (),
        strict: bool = False,
        tell: Callable[[str], None] = tell_on_stderr,
    ) -> None:
        self.folders = tuple(folders)
        """The folders whose files are plugins (``--plugins-dir``)."""
        self.blocked = frozenset(blocked)
        """The names of plugins that are switched off."""
        self._found = found
        self._strict = strict
        self._tell = tell
        self._told: set[str] = set()
        self._plugins: list[Plugin] | None = None
        self._loading = False
        self._catalogues: dict[str, Catalogue] = {}
        self._resolved: dict[str, list[Entry]] = {}

    def plugins(self) -> list[Plugin]:
        """Every plugin with its status, the core first; those that failed and were blocked are among them.

        Raises:
            PluginError: a plugin asks while it is being imported; with ``strict`` also: one failed.
        """
        if self._plugins is None:
            if self._loading:
                raise PluginError("a plugin asked for the plugins while they were being loaded")
            self._loading = True
            try:
                found = [*(find_plugins() if self._found is None else self._found), *find_in_folders(self.folders)]
                self._refuse_unknown_blocks(found)
                manager = loading.new_manager()
                self._plugins = [self._loaded(manager, plugin) for plugin in found]
            finally:
                self._loading = False
        return self._plugins

    def variables(self) -> dict[str, str]:
        """The environment of another process that should have the same plugins."""
        blocked, folders = ",".join(sorted(self.blocked)), os.pathsep.join(self.folders)
        return {**os.environ, DISABLE_VARIABLE: blocked, FOLDERS_VARIABLE: folders}

    def contributions(self, plugin: Plugin) -> dict[str, list[str]]:
        """The names that ``plugin`` declares, by kind (``workload``, ``exporter``, …); asks every listing hook."""
        names = {kind: self._catalogue(kind).declared_by(plugin) for kind in KINDS}
        return {kind: own for kind, own in names.items() if own}

    def owner(self, kind: str, name: str) -> Plugin | None:
        """The plugin that the name of that kind belongs to; ``None`` for nobody's and for two plugins'."""
        entry = self._catalogue(kind).entries.get(name)
        return entry.plugin if entry else None

    # -- what there is ---------------------------------------------------------------------------

    def declared(self, kind: str) -> Mapping[str, Any]:
        """The declarations of a kind by name: ``workload``, ``scanner``, ``backend``, ``exporter``, ``device``, …"""
        return self._catalogue(kind).usable()

    def workloads(self) -> Mapping[str, WorkloadDeclaration]:
        """The named workloads, by name. Open name spaces (``hf:TYPE``, folders) are not listed."""
        return self.declared("workload")

    def backends(self) -> Mapping[str, KernelTablesDeclaration]:
        """The backends that have kernel tables, by name."""
        return self.declared("backend")

    def exporters(self) -> Mapping[str, ExporterDeclaration]:
        """The exporters, by name."""
        return self.declared("exporter")

    def devices(self, framework: str = "torch") -> Mapping[str, DeviceDeclaration]:
        """The devices for a framework, by name, in the order of their declaration: within a plugin the best first."""
        devices = self.declared("device").values()
        return {device.name: device for device in devices if device.framework == framework}

    # -- one of it -------------------------------------------------------------------------------

    def made(self, kind: str, name: str) -> Any:
        """The thing of a kind that is called ``name``; it has the protocol of its kind. Raises as ``workload``."""
        entry = self._entry(kind, name)
        # A target may be a class, made without arguments, or a ready object.
        return self._make(
            f"the {kind} '{name}'", entry, lambda target: target() if isinstance(target, type) else target
        )

    def workload(self, name: str) -> Workload:
        """The workload that ``name`` stands for, ready to ``build``.

        Raises:
            UnknownName: nothing answers to it; carries the nearest names.
            WorkloadError: a plugin's open name space covers it, and it is wrong.
            MissingPackage: a distribution that it needs is not installed.
            PluginError: two plugins claim it, or its plugin broke a rule.
        """
        entry = self.workload_and_owner(name)
        what = f"the workload '{printable(name)}'"
        for requirement in entry.declaration.requires:
            if not is_installed(requirement):
                raise MissingPackage(what, requirement)
        return cast("Workload", self._make(what, entry, lambda factory: factory(entry.declaration.name)))

    def workload_and_owner(self, name: str) -> Entry:
        """What ``name`` stands for and whose it is, without importing the workload. Raises as ``workload``."""
        catalogue = self._catalogue("workload")
        if name in catalogue.entries or name in catalogue.conflicts:
            return self._entry("workload", name)
        if name not in self._resolved:
            self._resolved[name] = list(self.answers("mpsprobe_resolve_workload", name=name))
        answers = [entry for entry in self._resolved[name] if not entry.declaration.guess] or self._resolved[name]
        if not answers:
            raise UnknownName("workload", name, catalogue.entries, self.hint("workload"))
        if len(answers) > 1:
            raise _claimed(f"the workload '{printable(name)}'", answers)
        return answers[0]

    def workload_space(self, space: str) -> dict[str, WorkloadDeclaration] | None:
        """The names that begin with ``space:``, of every plugin that has some; ``None`` if no plugin has.

        Raises:
            MissingPackage: a package that knows them is not installed.
        """
        answers = [declarations for declarations, _ in self.answers("mpsprobe_workload_space", space=space)]
        if not answers:
            return None
        return {declaration.name: declaration for declarations in answers for declaration in declarations}

    def workload_of(self, model: object, inputs: object = None) -> Workload:
        """What runs ``model`` with ``inputs``: a workload itself, a name, or what a plugin takes for its own.

        Raises:
            UsageError: no plugin does; or it is one's own and cannot be run so.
            MpsprobeError: as ``workload``.
        """
        from mpsprobe.protocols import Workload

        if isinstance(model, (str, Workload)):
            if inputs is not None:
                raise UsageError("a workload brings its own inputs", "Leave them out, or hand over the model itself.")
            return self.workload(model) if isinstance(model, str) else model
        answers = list(self.answers("mpsprobe_workload_of", model=model, inputs=inputs))
        if len(answers) == 1:
            return cast("Workload", answers[0][0])
        shown = printable(f"{type(model).__module__}.{type(model).__qualname__}")
        if answers:
            raise _claimed(f"a {shown}", answers)
        raise UsageError(f"nobody here runs a {shown}", self.lacking(EVERYTHING) or OBJECTS)

    def scanner_for(self, framework: str) -> Scanner:
        """The scanner that reads workloads of ``framework``.

        Raises:
            UsageError: none does, or more than one does.
            PluginError: its plugin broke a rule.
        """
        able = [name for name, scanner in self.declared("scanner").items() if framework in scanner.frameworks]
        if len(able) == 1:
            return cast("Scanner", self.made("scanner", able[0]))
        shown = printable(framework)
        if able:
            raise UsageError(f"more than one scanner reads '{shown}' workloads: {', '.join(able)}", _SWITCH_OFF)
        raise UsageError(f"no installed scanner reads '{shown}' workloads", self.hint("scanner"))

    def kernel_tables(self, backend: str) -> KernelTables:
        """The kernel tables of the backend of that name. Raises as ``workload``."""
        return cast("KernelTables", self.made("backend", backend))

    def backend_framework(self, backend: str) -> str:
        """Whose backend it is (``torch``), without importing its tables. Raises as ``workload``."""
        return cast("KernelTablesDeclaration", self._entry("backend", backend).declaration).framework

    def device(self, name: str, framework: str = "torch") -> Device:
        """The device called ``name`` for a framework, which may say that it is unavailable. Raises as ``workload``."""
        devices = self.devices(framework)
        if framework != "torch" and name not in devices:
            raise UnknownName("device", name, devices, f"For {framework} there are: {', '.join(devices)}.")
        return cast("Device", self.made("device", name if framework == "torch" else devices[name].key))

    def exporter(self, name: str) -> Any:
        """The exporter called ``name``; a ``FolderExporter`` if it is declared so. Raises as ``workload``."""
        return self.made("exporter", name)

    def exporter_declaration(self, name: str) -> ExporterDeclaration:
        """What the exporter called ``name`` declared (extension, ``binary``, ``kinds``), without importing it."""
        return cast("ExporterDeclaration", self._entry("exporter", name).declaration)

    def listens(self, hook: str) -> bool:
        """Whether any plugin has ``hook``: without one, its arguments need not be made."""
        return any(hook in plugin.hooks for plugin in self.plugins())

    def lacking(self, distribution: str) -> str | None:
        """What to do where nobody has a name that ``distribution`` could bring; ``None`` if that is there and well.

        Args:
            distribution: of ours, or ``EVERYTHING`` for all that users install.
        """
        wanted = FOR_USERS if distribution == EVERYTHING else {distribution}
        distributions = {
            plugin.found.distribution: plugin for plugin in self.plugins() if plugin.found.distribution in wanted
        }
        for plugin in distributions.values():
            if plugin.status != "ok":
                return f"{plugin.owner} is installed but {plugin.status}: {plugin.reason}"
        return (
            None if set(distributions) == wanted else f"More of them come with plugins: {install_command(distribution)}"
        )

    def hint(self, kind: str) -> str | None:
        """What to do where nobody has a name of ``kind``: which plugin of ours is not there, or which names are."""
        there = OPEN_NAMES if kind == "workload" else f"There are: {', '.join(self._names(kind))}."
        return self.lacking(FIRST_PARTY[kind]) or there if kind in FIRST_PARTY else None

    def answers(self, hook: str, **arguments: Any) -> Iterator[Entry]:
        """What each plugin answers to ``hook``, where it says something; one that fails is reported and left out.

        Raises:
            MpsprobeError: a plugin with an open space of names raised it for the user.
        """
        for plugin in self.plugins():
            if hook not in plugin.implementations:
                continue
            outcome = loading.call(plugin, hook, arguments)
            try:
                answer = checked(loading.answer_of(outcome, hook), hook)
            except MpsprobeError as error:
                if HOOKS[hook].open_space:
                    raise
                self._failed(plugin, f"its hook {hook} failed: {loading.describe(error)}")
            except HookFailed as error:
                self._failed(plugin, str(error))
            else:
                if answer is not None:
                    yield Entry(answer, plugin)

    def rewrites(self) -> Iterator[OperatorRewrite]:
        """What plugins put in the place of operators without a kernel."""
        for answer, _ in self.answers("mpsprobe_rewrites"):
            yield from answer

    def announce(self, hook: str, **arguments: Any) -> None:
        """Call ``mpsprobe_before_run`` or ``mpsprobe_after_run`` of each plugin; what they return is ignored."""
        list(self.answers(hook, **arguments))

    def known_answers(self, question: Mapping[str, Any], wanted: str) -> list[tuple[KnownAnswer, Plugin]]:
        """What the plugins know of ``question``, as ``mpsprobe_known_answer`` takes it."""
        return list(self.answers("mpsprobe_known_answer", question=question, wanted=wanted))

    # -- inside ----------------------------------------------------------------------------------

    def _loaded(self, manager: Any, found: FoundPlugin) -> Plugin:
        if found != CORE and self.blocked & {found.name, found.distribution, "*"}:
            return Plugin(found, "blocked", _SWITCHED_OFF)
        plugin = loading.load(manager, found)
        if plugin.status == "failed":
            self._failed(plugin, plugin.reason or "")
        elif plugin.status == "incompatible":
            self._left_out(plugin, plugin.reason or "")
        elif plugin.problems:  # it goes on, with hooks that are deprecated
            self._tell(f"{_called(plugin)}: {'; '.join(plugin.problems)}")
        return plugin

    def _refuse_unknown_blocks(self, plugins: list[FoundPlugin]) -> None:
        """A misspelt ``-p no:NAME`` would load just what the user wanted to keep out."""
        if CORE.name in self.blocked:
            raise UsageError("the plugin 'core' holds the commands of mpsprobe itself and cannot be switched off")
        known = {"*", *(plugin.name for plugin in plugins), *(plugin.distribution for plugin in plugins)}
        for name in sorted(self.blocked - known):
            self._tell(f"{UnknownName('plugin', name, known).message} (nothing was switched off for it)")

    def _failed(self, plugin: Plugin, reason: str) -> None:
        """Note why ``plugin`` is left out, and tell it once a process."""
        plugin.status, plugin.reason = "failed", plugin.reason or reason
        if reason not in plugin.problems:
            plugin.problems.append(reason)
        self._left_out(plugin, reason)

    def _left_out(self, plugin: Plugin, reason: str) -> None:
        name = _called(plugin)
        self._say(name, f"{name} is left out: {reason}", f"{_GOES_ON}it.")

    def _say(self, about: str, line: str, hint: str) -> None:
        if self._strict:
            raise PluginError(line, hint)
        if about not in self._told:
            self._told.add(about)
            self._tell(line)

    def _catalogue(self, kind: str) -> Catalogue:
        """The names of one kind; asks every plugin at the first question."""
        if kind not in self._catalogues:
            catalogue = self._catalogues[kind] = Catalogue(kind, self.answers(KINDS[kind]))
            for owners, line in catalogue.refusals():
                self._say(owners, line, f"{_GOES_ON}these names.")
        return self._catalogues[kind]

    def _entry(self, kind: str, name: str) -> Entry:
        catalogue = self._catalogue(kind)
        if name in catalogue.conflicts:
            owners = " and ".join(plugin.owner for plugin in catalogue.conflicts[name])
            raise PluginError(f"the {kind} '{name}' is declared by {owners}", _SWITCH_OFF)
        if name not in catalogue.entries:
            raise UnknownName(kind, name, self._names(kind), self.hint(kind))
        return catalogue.entries[name]

    def _names(self, kind: str) -> list[str]:
        names = self.devices() if kind == "device" else self._catalogue(kind).entries
        return [*names, *WORDS.get(kind, ())]

    def _make(self, what: str, entry: Entry, make: Callable[[Any], Any]) -> Any:
        """What ``make`` makes of the target of a declaration; whatever fails is reported as the plugin's."""
        declaration, plugin = entry
        outcome = outcome_of(lambda: make(resolve(declaration.target)))
        error = outcome.error
        if isinstance(error, MpsprobeError):
            raise error
        if error is not None:
            doing = "imported" if isinstance(error, ImportError) else "made"
            loading.refuse(what, plugin, f"cannot be {doing}: {loading.describe(error)}", error)
        loading.trace(plugin, f"resolve {declaration.target}", "made", outcome)
        expected = protocol_of(declaration)
        if not isinstance(outcome.answer, expected):
            wrong = f"is {an(type(outcome.answer).__name__)}, not {an(expected.__name__)}"
            loading.refuse(what, plugin, wrong, None)
        return outcome.answer


def protocol_of(declaration: Declaration) -> type:
    """What the object behind ``declaration`` has to be: the protocol that is called like it."""
    if isinstance(declaration, CommandDeclaration):
        import click

        return click.Command
    from mpsprobe import protocols

    if getattr(declaration, "folder", False):
        return protocols.FolderExporter
    if isinstance(declaration, KernelTablesDeclaration) and declaration.framework != "torch":
        return object  # what reads it checks it: mpsprobe-coverage
    protocol: type = getattr(protocols, type(declaration).__name__.removesuffix("Declaration"))
    return protocol


def _called(plugin: Plugin) -> str:
    return f"plugin '{printable(plugin.found.name)}' of {printable(plugin.owner)}"


def _claimed(what: str, answers: Iterable[tuple[Any, Plugin]]) -> PluginError:
    return PluginError(f"{what} is claimed by {' and '.join(plugin.owner for _, plugin in answers)}", _SWITCH_OFF)


def blocked_by_environment() -> set[str]:
    """The names in ``MPSPROBE_DISABLE_PLUGINS``, which are separated by commas."""
    return {name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",") if name.strip()}


_current: Registry | None = None


def get_registry() -> Registry:
    """The registry of this process, made at the first call; a command line's ``-p`` is in it."""
    global _current
    if _current is None:
        _current = Registry(blocked=blocked_by_environment(), folders=folders_from_environment())
    return _current


def use_registry(registry: Registry | None) -> None:
    """Make ``registry`` the one that ``get_registry`` returns; ``None`` for a new one at the next call."""
    global _current
    _current = registry
