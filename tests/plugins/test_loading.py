"""One plugin that goes wrong in each possible way, and stays alone with it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from mpsprobe.errors import WorkloadError
from mpsprobe.plugins import loading
from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe_devkit.testing import install_plugin

HEAD = "from mpsprobe import hookimpl\n"


def _call(manager: Any, plugin: loading.Plugin, hook: str, **arguments: Any) -> Any:
    [(_, outcome)] = loading.call_each(manager, [plugin], hook, **arguments)
    return loading.answer_of(outcome, hook)


def _load(folder: Path, code: str, name: str = "under-test") -> tuple[loading.Plugin, loading.pluggy.PluginManager]:
    manager = loading.new_manager()
    return loading.load(manager, FoundPlugin(name, name, "1.0", install_plugin(folder, name, code))), manager


def test_a_sound_plugin_which_may_have_a_hook_of_a_later_version(plugin_folder: Path) -> None:
    later = "@hookimpl(optionalhook=True)\ndef mpsprobe_from_the_future(): ...\n"
    plugin, manager = _load(plugin_folder, HEAD + later + "@hookimpl\ndef mpsprobe_devices(): return []")
    assert (plugin.status, plugin.reason, plugin.owner) == ("ok", None, "under-test 1.0")
    assert "mpsprobe_devices" in plugin.hooks and _call(manager, plugin, "mpsprobe_devices") == []


def test_a_broken_plugin_has_a_reason(plugin_folder: Path) -> None:
    for code, reason in (
        ("raise ValueError('first\\nsecond')", "its import failed: ValueError: first second"),
        ("raise SystemExit(3)", "its import failed: SystemExit: 3"),
        ("class Odd(BaseException): pass\nraise Odd", "its import failed: Odd"),
        ("raise KeyboardInterrupt", "its import failed: RuntimeError: it raised KeyboardInterrupt"),
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


def test_ctrl_c_during_an_import_is_the_users(plugin_folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _load(plugin_folder, "import _thread, time\n_thread.interrupt_main()\ntime.sleep(1)")


def test_what_a_plugin_prints_and_filters_stays_its_own(
    plugin_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filters = list(warnings.filters)
    code = "print('at import')\nimport warnings\nwarnings.simplefilter('ignore')\n" + HEAD
    plugin, manager = _load(plugin_folder, code + "@hookimpl\ndef mpsprobe_devices(): print('in hook'); return []")
    _call(manager, plugin, "mpsprobe_devices")
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
        plugin, manager = _load(plugin_folder, HEAD + f"@hookimpl\ndef mpsprobe_devices(): {body}", name)
        with pytest.raises(loading.HookFailed) as caught:
            _call(manager, plugin, "mpsprobe_devices")
        assert reason in str(caught.value)


def test_an_error_for_the_user_comes_through_and_a_hook_need_not_take_its_arguments(plugin_folder: Path) -> None:
    raises = "@hookimpl\ndef mpsprobe_workload_space(space): raise WorkloadError(space)\n"
    answers = "@hookimpl\ndef mpsprobe_resolve_workload(): return 'no name wanted'\n"
    plugin, manager = _load(plugin_folder, f"from mpsprobe.errors import WorkloadError\n{HEAD}{raises}{answers}")
    with pytest.raises(WorkloadError, match="mine"):
        _call(manager, plugin, "mpsprobe_workload_space", space="mine")
    assert _call(manager, plugin, "mpsprobe_resolve_workload", name="x") == "no name wanted"


def test_two_distributions_may_use_one_name_for_their_entry_points(plugin_folder: Path) -> None:
    manager = loading.new_manager()
    for distribution in ("one", "two"):
        code = HEAD + "@hookimpl\ndef mpsprobe_probes(): return [__name__]"
        module = install_plugin(plugin_folder, distribution, code)
        plugin = loading.load(manager, FoundPlugin("same", distribution, "1.0", module))
        assert _call(manager, plugin, "mpsprobe_probes") == [module]
        assert module in sys.modules
