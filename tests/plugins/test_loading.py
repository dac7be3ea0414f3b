"""One plugin that goes wrong in each possible way, and stays alone with it; declared names: types and owners."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pluggy import PluginManager

from mpsprobe import hookspecs
from mpsprobe.declarations import (
    CommandDeclaration,
    DoctorFinding,
    ExporterDeclaration,
    KnownAnswer,
    SweptWorkload,
    WorkloadDeclaration,
)
from mpsprobe.errors import WorkloadError
from mpsprobe.hookspecs import HOOKS
from mpsprobe.plugins import loading
from mpsprobe.plugins.catalogue import Catalogue, checked
from mpsprobe.plugins.discovery import CORE, FoundPlugin
from mpsprobe.plugins.loading import HookFailed, Plugin
from mpsprobe_devkit.testing import install_plugin

HEAD = "from mpsprobe import hookimpl\n"


def _call(plugin: Plugin, hook: str, **arguments: Any) -> Any:
    return loading.answer_of(loading.call(plugin, hook, arguments), hook)


def _load(folder: Path, code: str, name: str = "under-test") -> tuple[Plugin, PluginManager]:
    manager = loading.new_manager()
    return loading.load(manager, FoundPlugin(name, name, "1.0", install_plugin(folder, name, code))), manager


def test_a_sound_plugin_which_may_have_a_hook_of_a_later_version(plugin_folder: Path) -> None:
    later = "@hookimpl(optionalhook=True)\ndef mpsprobe_from_the_future(): ...\n"
    plugin, _ = _load(plugin_folder, HEAD + later + "@hookimpl\ndef mpsprobe_devices(): return []")
    assert (plugin.status, plugin.reason, plugin.owner) == ("ok", None, "under-test 1.0")
    assert "mpsprobe_devices" in plugin.hooks and _call(plugin, "mpsprobe_devices") == []


def test_a_broken_plugin_has_a_reason(plugin_folder: Path) -> None:
    for code, reason in (
        ("raise ValueError('first\\nsecond')", "its import failed: ValueError: first second"),
        ("raise SystemExit(3)", "its import failed: SystemExit: 3"),
        ("class Odd(BaseException): pass\nraise Odd", "its import failed: Odd"),
        ("import no_such_module_anywhere", "its import failed: ModuleNotFoundError"),
        ("def broken(:", "its import failed: SyntaxError"),
        (HEAD + "@hookimpl\ndef mpsprobe_workload(): ...", "did you mean 'mpsprobe_workloads'?"),
        (HEAD + "@hookimpl\ndef mpsprobe_zzzzzzzzzz(): ...", "there is no hook 'mpsprobe_zzzzzzzzzz'"),
        (HEAD + "def mpsprobe_workloads(): ...", "'mpsprobe_workloads' is not marked with @mpsprobe.hookimpl"),
        (HEAD + "@hookimpl\ndef mpsprobe_resolve_workload(nam): ...", "nam"),
        (HEAD + "@hookimpl(wrapper=True)\ndef mpsprobe_workloads(): return (yield)", "is a wrapper"),
    ):
        plugin, manager = _load(plugin_folder, code, f"under-test-{len(list(plugin_folder.iterdir()))}")
        assert plugin.status == "failed" and plugin.reason is not None
        assert reason in plugin.reason and plugin.reason.isprintable()
        assert manager.get_plugins() == set()


def test_an_entry_point_that_leads_nowhere() -> None:
    for target in ("", ":x", "no_such_module_anywhere", "json:nothing", "json:", "."):
        plugin = loading.load(loading.new_manager(), FoundPlugin("x", "x", "1", target))
        assert plugin.status == "failed", target


def test_ctrl_c_in_a_plugin_is_the_users_and_names_it(plugin_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    endless = "import _thread, time\n{}_thread.interrupt_main(); time.sleep(9)"
    with pytest.raises(KeyboardInterrupt):
        _load(plugin_folder, endless.format(""), "loops")
    assert capsys.readouterr().err == (
        "mpsprobe: interrupted in plugin 'loops' of loops 1.0, its import: -p no:loops leaves it out\n"
    )
    plugin, _ = _load(plugin_folder, HEAD + endless.format("@hookimpl\ndef mpsprobe_devices(): "), "asks")
    with pytest.raises(KeyboardInterrupt):
        _call(plugin, "mpsprobe_devices")
    assert "'asks' of asks 1.0, its hook mpsprobe_devices: -p no:asks leaves" in capsys.readouterr().err


def test_what_a_plugin_prints_and_filters_stays_its_own(
    plugin_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filters = list(warnings.filters)
    code = "print('at import')\nimport warnings\nwarnings.simplefilter('ignore')\n" + HEAD
    plugin, _ = _load(plugin_folder, code + "@hookimpl\ndef mpsprobe_devices(): print('in hook'); return []")
    _call(plugin, "mpsprobe_devices")
    assert warnings.filters == filters
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "at import\nin hook\n"


def test_a_hook_that_raises(plugin_folder: Path) -> None:
    for body, reason in (
        ("raise ValueError('x')", "its hook mpsprobe_devices failed: ValueError: x"),
        ("import sys; sys.exit('bye')", "its hook mpsprobe_devices failed: SystemExit: bye"),
        ("yield 1; raise KeyError('half way')", "its hook mpsprobe_devices failed: KeyError: 'half way'"),
        ("return map(int, ['x'])", "its hook mpsprobe_devices failed: ValueError"),
        ("return type('Own', (list,), {'__iter__': lambda _: 1 / 0})()", "failed: ZeroDivisionError"),
    ):
        name = f"under-test-{len(list(plugin_folder.iterdir()))}"
        plugin, _ = _load(plugin_folder, HEAD + f"@hookimpl\ndef mpsprobe_devices(): {body}", name)
        with pytest.raises(HookFailed) as caught:
            _call(plugin, "mpsprobe_devices")
        assert reason in str(caught.value)


def test_an_error_for_the_user_comes_through_and_a_hook_need_not_take_its_arguments(plugin_folder: Path) -> None:
    raises = "@hookimpl\ndef mpsprobe_workload_space(space): raise WorkloadError(space)\n"
    answers = "@hookimpl\ndef mpsprobe_resolve_workload(): return 'no name wanted'\n"
    plugin, _ = _load(plugin_folder, f"from mpsprobe.errors import WorkloadError\n{HEAD}{raises}{answers}")
    with pytest.raises(WorkloadError, match="mine"):
        _call(plugin, "mpsprobe_workload_space", space="mine")
    assert _call(plugin, "mpsprobe_resolve_workload", name="x") == "no name wanted"


def test_two_distributions_may_use_one_name_for_their_entry_points(plugin_folder: Path) -> None:
    manager = loading.new_manager()
    for distribution in ("one", "two"):
        code = HEAD + "@hookimpl\ndef mpsprobe_probes(): return [__name__]"
        module = install_plugin(plugin_folder, distribution, code)
        plugin = loading.load(manager, FoundPlugin("same", distribution, "1.0", module))
        assert _call(plugin, "mpsprobe_probes") == [module]
        assert module in sys.modules


def _workload(name: Any = "a", target: Any = "m:f", **fields: Any) -> WorkloadDeclaration:
    return WorkloadDeclaration(name=name, target=target, summary="x", **fields)


def _plugin(name: str) -> Plugin:
    return Plugin(FoundPlugin(name, name, "1.0", f"{name}_plugin"))


def test_a_wrong_answer_is_told_in_words() -> None:
    for answer, problem in (
        (None, "returned a NoneType, not a list of WorkloadDeclaration"),
        ("text", "returned a str, not a list"),
        (7, "returned an int, not a list"),
        (["x"], "returned a str in its list"),
        ([ExporterDeclaration("a", "m:f", "x", ".x")], "returned an ExporterDeclaration in its list"),
        ([_workload(name="")], "is not a name"),
        ([_workload(name="Upper Case")], "is not a name"),
        ([_workload(), _workload()], "is declared twice"),
    ):
        with pytest.raises(HookFailed) as caught:
            checked(answer, "mpsprobe_workloads")
        assert "mpsprobe_workloads" in str(caught.value) and problem in str(caught.value)
    for answer in (["x"], 7):
        with pytest.raises(HookFailed, match=r"mpsprobe_resolve_workload returned an? .*, not a WorkloadDeclaration"):
            checked(answer, "mpsprobe_resolve_workload")


def test_a_declaration_with_a_field_of_another_type_cannot_be_made() -> None:
    makers: dict[Callable[[], object], str] = {
        lambda: _workload(name=3): "a WorkloadDeclaration has an int as its name, which should be str",
        lambda: _workload(phases="training"): "'a' has a str as its phases, which should be tuple[str, ...]",
        lambda: _workload(requires=(1,)): "'a' has a tuple as its requires",
        lambda: _workload(guess=1): "'a' has an int as its guess, which should be bool",
        lambda: CommandDeclaration("a b", None, "x"): "'a b' has a NoneType as its target",  # type: ignore[arg-type]
        lambda: DoctorFinding("ok", 1): "a DoctorFinding has an int as its message",  # type: ignore[arg-type]
        lambda: KnownAnswer(report=1): "a KnownAnswer has an int as its report",  # type: ignore[arg-type]
        lambda: SweptWorkload("a", "training"): "'a' has a str as its answered",  # type: ignore[arg-type]
        lambda: _workload(target="module.attribute"): "'a' has the target 'module.attribute', which is not of the form",
        lambda: _workload(target=":x"): "not of the form 'package.module:attribute'",
        lambda: DoctorFinding("bad", "x"): "a DoctorFinding has the level 'bad', which is none of ok, note, warning",
    }
    for make, problem in makers.items():
        with pytest.raises((TypeError, ValueError)) as caught:
            make()
        assert problem in str(caught.value)
    assert list(_workload(phases=["training"]).phases) == ["training"]


def test_a_right_answer_is_returned_as_a_list() -> None:
    assert checked((_workload(),), "mpsprobe_workloads") == [_workload()]
    typed = _workload(name="My Folder/x.py:f")  # as the user typed it
    assert checked(typed, "mpsprobe_resolve_workload") == typed
    assert checked((typed,), "mpsprobe_workload_space") == [typed]
    for hook in ("mpsprobe_resolve_workload", "mpsprobe_workload_space", "mpsprobe_known_answer"):
        assert checked(None, hook) is None


def test_a_name_of_two_plugins_belongs_to_neither() -> None:
    one, two, three = _plugin("one"), _plugin("two"), _plugin("three")
    answers = [([_workload("a"), _workload("b")], one), ([_workload("a")], two), ([_workload("a")], three)]
    assert list(Catalogue("workload", answers[:1]).refusals()) == []
    [refusal] = Catalogue("workload", answers[:2]).refusals()
    assert refusal == ("one 1.0 and two 1.0", "nobody has the workload 'a': declared by one 1.0 and two 1.0")
    catalogue = Catalogue("workload", answers)
    [refusal] = catalogue.refusals()
    assert refusal[1].endswith("'a': declared by one 1.0 and two 1.0 and three 1.0")
    assert "also declared by two 1.0 and three 1.0" in one.problems[-1]
    assert list(catalogue.usable()) == ["b"]
    assert catalogue.conflicts == {"a": [one, two, three]}
    assert catalogue.declared_by(one) == ["a", "b"]


def test_nobody_takes_a_command_away_from_the_core() -> None:
    core, taker = Plugin(CORE), _plugin("taker")
    catalogue = Catalogue("command", [([_workload("plugins")], core), ([_workload("plugins")], taker)])
    [refusal] = catalogue.refusals()
    assert refusal[1] == "mpsprobe itself has the command 'plugins': what taker 1.0 declares is left out"
    assert taker.problems == ["it declares the command 'plugins', which mpsprobe itself has"]
    assert catalogue.entries["plugins"].plugin is core
    assert catalogue.conflicts == {}


def test_many_shared_names_are_one_line_for_each_group_of_plugins() -> None:
    names = {"one": range(7), "two": range(5), "three": [6]}
    answers = [([_workload(f"n{number}") for number in numbers], _plugin(name)) for name, numbers in names.items()]
    catalogue = Catalogue("workload", answers)
    assert [line for _, line in catalogue.refusals()] == [
        "nobody has the workload 'n0', 'n1', 'n2' and 2 more: declared by one 1.0 and two 1.0",
        "nobody has the workload 'n6': declared by one 1.0 and three 1.0",
    ]


def test_every_hook_says_what_it_answers() -> None:
    assert list(HOOKS) == [name for name in vars(hookspecs) if name.startswith(loading.HOOK_PREFIX)]
    assert all(answer.several for answer in HOOKS.values() if answer.kind)
