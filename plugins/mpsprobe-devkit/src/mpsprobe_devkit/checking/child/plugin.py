"""Imports the thin module, looks at its hooks, calls those that list, and looks at what they return."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import click  # noqa: F401 - as in every command, before a plugin is loaded

from mpsprobe import hookspecs  # noqa: F401
from mpsprobe.errors import MpsprobeError, PluginError
from mpsprobe.plugins.catalogue import KINDS, checked
from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe.plugins.loading import MOST_ANSWERS, HookFailed, imported, load, new_manager
from mpsprobe.plugins.process_state import threads
from mpsprobe_devkit.checking.child.declared import judged_declarations, judged_doctor_findings, judged_resolution
from mpsprobe_devkit.checking.child.nearby import nearest_attributes, nearest_modules
from mpsprobe_devkit.checking.child.recording import Recorder
from mpsprobe_devkit.checking.child.telling import Teller
from mpsprobe_devkit.checking.findings import Finding
from mpsprobe_devkit.checking.hooks import HookFunction, callable_ones, functions_of, judged, known_hooks
from mpsprobe_devkit.process_state import changed, process_state

FILTER = "the warnings filter"
SLOW_HOOK_S = 1.0  # of a hook that only lists; far above what a busy machine makes of some milliseconds
NOBODYS_NAME = "no-such-workload-0b7e"
OPEN_NAMES = ("hf:bert", "organisation/repository", "./folder", "model.py:make", "a:b", "name@1")
"""Names of the forms that plugins with open name spaces answer to, and one for each that they might."""


def run(request: dict[str, Any], teller: Teller) -> None:
    """Tell the findings, and ``declared`` with the fields of each declaration that is right."""
    found = FoundPlugin(**request["found"] | {"requires": ()})
    recorder = Recorder(teller)
    sys.meta_path.insert(0, recorder)
    with teller.step("import") as wanted:
        if not wanted:
            return
        plugin = _imported(found, teller, recorder)
    if plugin is None:
        return
    hooks = known_hooks()
    functions = functions_of(plugin, teller.place)
    problems = list(judged(functions, hooks))
    teller.found_all(problems)
    teller.tell(hooks=sorted({one.hook for one in functions if one.marked and one.hook in hooks}))
    wrong = any(one.level == "error" for one in problems)
    _hold_against_loading(found, teller, wrong)
    # The findings of doctor come last: they may import what they judge, and what is imported already is not seen again.
    for one in sorted(callable_ones(functions, hooks), key=lambda one: one.hook == "mpsprobe_doctor"):
        _called(one, getattr(plugin, one.name), teller, recorder)
    teller.tell(examined=True)


def _imported(found: FoundPlugin, teller: Teller, recorder: Recorder) -> Any:
    before, running, waited_for = process_state(random_numbers=False), threads(daemon=True), threads(daemon=False)
    plugin = None
    try:
        plugin = imported(found)
    except SystemExit as error:
        message = f"importing {found.target} calls exit ({error.code!r})"
        teller.found("import-exits", message, teller.place_of_error(error))
    except BaseException as error:  # noqa: BLE001 - also KeyboardInterrupt: nobody pressed Ctrl-C in here
        _import_failed(found, error, teller)
        if isinstance(error, ModuleNotFoundError) and error.name:
            asked = recorder.asked(error.name.partition(".")[0])
            if asked is not None and asked[1]:
                _heavy(error.name.partition(".")[0], asked, "importing the thin module", teller)
    for name, chain in recorder.heavy().items():
        _heavy(name, chain, "importing the thin module", teller)
    place = teller.shown(getattr(plugin, "__file__", None) or found.file or "") if plugin is not None else ""
    if alive := threads(daemon=False) - waited_for:
        names = ", ".join(sorted(one.name for one in alive))
        message = f"importing {found.target} starts a thread that Python waits for at the end: {names}"
        teller.found("import-hangs", message, place, "Start it when it is needed, with daemon=True.")
    changes = changed(before, process_state(random_numbers=False))
    if FILTER in changes:
        teller.found("changes-warnings", f"importing {found.target} changes {FILTER}", place)
    changes = [one for one in changes if one != FILTER]
    changes += sorted(f"a thread that goes on running ('{one.name}')" for one in threads(daemon=True) - running)
    if changes:
        teller.found("changes-process", f"importing {found.target} changes {', '.join(changes)}", place)
    return plugin


def _heavy(name: str, chain: tuple[str, str], what: str, teller: Teller) -> None:
    teller.found("heavy-import", f"{what} imports {name}: {chain[0]}", chain[1])


def _import_failed(found: FoundPlugin, error: BaseException, teller: Teller) -> None:
    module, _, attribute = found.target.partition(":")
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        near = nearest_modules(module)
        hint = f"There is {' and '.join(near)}." if near else None
        teller.found("entry-point-unresolved", f"there is no module {error.name}", f"entry point {found.name}", hint)
    elif isinstance(error, PluginError) and not teller.place_of_error(error):
        near = nearest_attributes(sys.modules.get(module), attribute)
        hint = f"It has {' and '.join(near)}." if near else None
        message = f"{module} has no attribute '{attribute}'"
        teller.found("entry-point-unresolved", message, f"entry point {found.name}", hint)
    else:
        message = f"importing {found.target} raises {teller.described(error)}"
        teller.found("import-failed", message, teller.place_of_error(error))


def _hold_against_loading(found: FoundPlugin, teller: Teller, wrong: bool) -> None:
    """Whatever is said here, mpsprobe decides: a reason of its own that was not found is one more finding."""
    if found.file is None and not wrong:
        loaded = load(new_manager(), dataclasses.replace(found, requires=()))
        if loaded.status != "ok":
            teller.found("left-out", loaded.reason or loaded.status)


def _called(one: HookFunction, function: Callable[..., Any], teller: Teller, recorder: Recorder) -> None:
    """Call a hook if that only asks; what announces a run might send something somewhere."""
    kind = next((kind for kind, (hook, _) in KINDS.items() if hook == one.hook), None)
    if kind is not None:
        with teller.step(f"hook:{one.hook}", where=one.where) as wanted:
            if wanted:
                _listed(kind, one, function, teller)
    elif one.hook == "mpsprobe_resolve_workload":
        for name in (NOBODYS_NAME, *OPEN_NAMES):
            with teller.step(f"hook:{one.hook}('{name}')", where=one.where) as wanted:
                if wanted:
                    _resolved(name, one, function, teller)
    elif one.hook == "mpsprobe_doctor":
        with teller.step(f"hook:{one.hook}", where=one.where) as wanted:
            if wanted:
                answer = _answer(one, function, teller, {"environment": _environment()})
                teller.found_all(judged_doctor_findings(answer, one) if answer is not _FAILED else [])
        return
    for name, chain in recorder.heavy().items():
        _heavy(name, chain, f"the hook {one.hook}", teller)


_FAILED = object()


def _answer(one: HookFunction, function: Callable[..., Any], teller: Teller, arguments: dict[str, Any]) -> Any:
    """What the hook returns, a lazy answer run to its end; ``_FAILED`` after a finding."""
    try:
        answer = function(*(arguments[name] for name in one.arguments))
        lazy = isinstance(answer, Iterable) and not isinstance(answer, (str, bytes, list, tuple))
        answer = list(itertools.islice(answer, MOST_ANSWERS + 1)) if lazy else answer
        if isinstance(answer, (list, tuple)) and len(answer) > MOST_ANSWERS:
            message = f"{one.hook} returns more than {MOST_ANSWERS:,} elements"
            teller.found("wrong-answer", message, one.where, "Names without number are for mpsprobe_resolve_workload.")
            return _FAILED
        return answer
    except SystemExit as error:
        teller.found("hook-exits", f"{one.hook} calls exit ({error.code!r})", teller.place_of_error(error) or one.where)
    except MpsprobeError as error:
        if one.hook != "mpsprobe_resolve_workload":
            _failed(one, error, teller)
        return _FAILED
    except BaseException as error:  # noqa: BLE001 - the plugin's
        _failed(one, error, teller)
    return _FAILED


def _failed(one: HookFunction, error: BaseException, teller: Teller) -> None:
    message = f"{one.hook} raises {teller.described(error)}"
    teller.found("hook-failed", message, teller.place_of_error(error) or one.where)


def _listed(kind: str, one: HookFunction, function: Callable[..., Any], teller: Teller) -> None:
    begin = time.perf_counter()
    answer = _answer(one, function, teller, {})
    seconds = time.perf_counter() - begin
    if answer is _FAILED:
        return
    if seconds > SLOW_HOOK_S:
        teller.found("slow-hook", f"{one.hook} takes {seconds:.1f} s (at most {SLOW_HOOK_S:g})", one.where)
    expected = KINDS[kind][1]
    findings, declarations = judged_declarations(answer, kind, one, expected)
    teller.found_all(findings)
    if not any(finding.level == "error" for finding in findings):
        try:
            checked(answer, one.hook, expected)
        except HookFailed as error:
            teller.found("left-out", str(error), one.where)
    for declaration, sound in declarations:
        teller.tell(declared=kind, fields=dataclasses.asdict(declaration), where=one.where, sound=sound)


def _resolved(name: str, one: HookFunction, function: Callable[..., Any], teller: Teller) -> None:
    try:
        arguments = {"name": name}
        answer = function(*(arguments[argument] for argument in one.arguments))
    except MpsprobeError:  # "it is mine, and wrong": as good as an answer
        teller.tell(resolved=name, where=one.where)
        return
    except SystemExit as error:
        teller.found("hook-exits", f"{one.hook} calls exit ({error.code!r})", teller.place_of_error(error) or one.where)
        return
    except BaseException as error:  # noqa: BLE001 - the plugin's
        message = f"{one.hook} raises {teller.described(error)} for the name '{name}'"
        teller.found("hook-failed", message, teller.place_of_error(error) or one.where)
        return
    if answer is None:
        return
    findings: list[Finding] = judged_resolution(answer, name, one)
    teller.found_all(findings)
    teller.tell(resolved=name, where=one.where)
    if name == NOBODYS_NAME:
        teller.found("claims-every-name", f"{one.hook} answers to '{name}'", one.where)


def _environment() -> dict[str, Any]:
    from mpsprobe.environment import collect_environment

    return collect_environment().model_dump(mode="json")
