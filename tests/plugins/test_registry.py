"""The registry: what plugins offer, and what is said when they do not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mpsprobe import hookspecs
from mpsprobe.errors import MissingPackage, PluginError, UnknownName, UsageError, WorkloadError
from mpsprobe.exporting import exporter_for
from mpsprobe.plugins.discovery import find_plugins
from mpsprobe.plugins.registry import Registry, blocked_by_environment, get_registry, use_registry
from mpsprobe_devkit.testing import FakeScanner, FakeWorkload, install_plugin
from tests.house.tree import PLUGINS
from tests.thin import thin

WORKLOAD = """from mpsprobe.errors import WorkloadError

def workload(name, target="mpsprobe_devkit.testing:FakeWorkload", **fields):
    return WorkloadDeclaration(name=name, target=target, summary="made for a test", **fields)
"""
OWN = {plugin.name for plugin in PLUGINS}
Installed = Callable[..., tuple[Registry, list[str]]]


@pytest.fixture
def installed(plugin_folder: Path) -> Installed:
    """Installs plugins; gives a registry without this repository's own, and what it says on standard error."""

    def install(strict: bool = False, blocked: tuple[str, ...] = (), **bodies: str) -> tuple[Registry, list[str]]:
        for name, body in bodies.items():
            install_plugin(plugin_folder, name.replace("_", "-"), thin(WORKLOAD) + body)
        messages: list[str] = []
        found = [one for one in find_plugins() if one.distribution not in OWN]
        return Registry(found, strict=strict, blocked=blocked, tell=messages.append), messages

    return install


WORKLOADS = "@hookimpl\ndef mpsprobe_workloads(): return "


def test_a_declared_workload_is_made(installed: Installed) -> None:
    registry, messages = installed(maker=WORKLOADS + "[workload('net-a')]")
    made = registry.workload("net-a")
    assert isinstance(made, FakeWorkload) and made.name == "net-a"
    assert list(registry.workloads()) == ["net-a"]
    owner = registry.owner("workload", "net-a")
    assert owner is not None and owner.owner == "maker 1.0"
    with pytest.raises(UnknownName, match="did you mean 'net-a'") as caught:
        registry.workload("net-b")
    assert caught.value.hint == 'More of them come with plugins: pip install "mpsprobe[all]"'
    assert messages == []


def test_one_broken_plugin_costs_only_itself(installed: Installed) -> None:
    registry, messages = installed(
        a_broken="raise RuntimeError('no')",
        b_sound=WORKLOADS + "[workload('net')]",
        c_raises=WORKLOADS + "1 / 0",
        d_wrong=WORKLOADS + "[1]",
    )
    assert list(registry.workloads()) == list(registry.workloads()) == ["net"]
    statuses = {one.found.name: one.status for one in registry.plugins()}
    failed = dict.fromkeys(["a-broken", "c-raises", "d-wrong"], "failed")
    assert statuses == {"core": "ok", "b-sound": "ok", **failed}
    assert messages[0] == "plugin 'a-broken' of a-broken 1.0 is left out: its import failed: RuntimeError: no"
    assert "c-raises 1.0" in messages[1] and "ZeroDivisionError" in messages[1]
    assert "d-wrong 1.0" in messages[2] and len(messages) == 3


@pytest.mark.parametrize("body", ["raise RuntimeError('no')", WORKLOADS + "1 / 0"])
def test_strict_makes_a_broken_plugin_fatal(installed: Installed, body: str) -> None:
    with pytest.raises(PluginError, match=r"broken 1\.0"):
        installed(strict=True, broken=body)[0].workloads()


@pytest.mark.parametrize("blocked", ["loud", "*"])
def test_a_blocked_plugin_is_never_imported(installed: Installed, blocked: str) -> None:
    registry, messages = installed(blocked=(blocked,), loud="raise RuntimeError('imported')")
    assert {one.found.name: one.status for one in registry.plugins()} == {"core": "ok", "loud": "blocked"}
    names = {"completion", "diff", "doctor", "export", "plugins", "profile", "workloads"}
    assert set(registry.declared("command")) == names
    assert messages == []


def test_a_misspelt_block_is_reported_and_the_core_cannot_be_blocked(installed: Installed) -> None:
    registry, messages = installed(blocked=("quite",), quiet="")
    registry.plugins()
    assert messages == ["unknown plugin 'quite'; did you mean 'quiet'? (nothing was switched off for it)"]
    with pytest.raises(UsageError, match="cannot be switched off"):
        installed(blocked=("core",))[0].plugins()


def test_a_name_of_two_plugins_is_an_error_when_it_is_used(installed: Installed) -> None:
    bodies = {name: WORKLOADS + f"[workload('net'), workload('net-{name}')]" for name in ("one", "two")}
    registry, _ = installed(**bodies)
    assert list(registry.workloads()) == ["net-one", "net-two"]
    with pytest.raises(PluginError, match=r"declared by one 1\.0 and two 1\.0") as caught:
        registry.workload("net")
    assert "-p no:NAME" in (caught.value.hint or "")
    assert registry.owner("workload", "net") is None


RESOLVE = "@hookimpl\ndef mpsprobe_resolve_workload(name):\n    "


def test_an_open_name_space_answers_once(installed: Installed) -> None:
    registry, _ = installed(opener="asked = []\n" + RESOLVE + "asked.append(name); return workload(name)")
    assert registry.workload("Some Folder").name == "Some Folder"
    assert registry.workload_and_owner("Some Folder")[1].owner == "opener 1.0"
    assert sys.modules["opener_plugin"].asked == ["Some Folder"]


def test_a_guess_is_left_where_another_plugin_knows_the_name(installed: Installed) -> None:
    guesses = f"import dataclasses\n{RESOLVE}return dataclasses.replace(workload(name), guess=True)"
    assert installed(guesses=guesses)[0].workload_and_owner("x")[1].owner == "guesses 1.0"
    assert installed(knows=RESOLVE + "return workload(name)")[0].workload_and_owner("x")[1].owner == "knows 1.0"


def test_open_name_spaces_that_refuse_break_or_both_answer(installed: Installed) -> None:
    registry, messages = installed(a=RESOLVE + "return 5", b=RESOLVE + "1 / 0", c=RESOLVE + "return workload(name)")
    assert registry.workload("x").name == "x" and len(messages) == 2
    with pytest.raises(PluginError, match=r"claimed by c 1\.0 and d 1\.0"):
        installed(d=RESOLVE + "return workload(name)")[0].workload("x")
    with pytest.raises(WorkloadError, match=r"no config\.json in there"):
        installed(e=RESOLVE + "raise WorkloadError('no config.json in ' + name)")[0].workload("there")


def test_a_workload_that_cannot_be_made_is_its_plugins_fault(installed: Installed) -> None:
    problems = {
        "no_such_module:x": "cannot be imported: ModuleNotFoundError",
        "json:dumps": "is a str, not a Workload",
        "json:loads": "cannot be made: JSONDecodeError",
    }
    registry, _ = installed(maker=WORKLOADS + f"[workload(f'net-{{n}}', one) for n, one in enumerate({[*problems]})]")
    for number, problem in enumerate(problems.values()):
        with pytest.raises(PluginError, match=rf"the workload 'net-{number}' of maker 1\.0") as caught:
            registry.workload(f"net-{number}")
        assert problem in caught.value.message


@pytest.mark.parametrize("requirement", ["no-such-distribution", "pluggy>=999", "not a requirement!"])
def test_what_a_workload_requires_is_asked_for_before_it_is_imported(installed: Installed, requirement: str) -> None:
    body = f"[workload('net', 'no_such_module:x', requires=('pluggy>=1', {requirement!r}))]"
    with pytest.raises(MissingPackage) as caught:
        installed(maker=WORKLOADS + body)[0].workload("net")
    assert caught.value.distribution == requirement


def test_scanners_are_chosen_by_framework(installed: Installed) -> None:
    scanners = "@hookimpl\ndef mpsprobe_scanners():\n    made = 'mpsprobe_devkit.testing:FakeScanner'\n    return "
    declared = "[ScannerDeclaration('s', made, 'x', ('f', 'g')), ScannerDeclaration('t', made, 'x', ('g',))]"
    registry, _ = installed(scan=scanners + declared)
    assert isinstance(registry.scanner_for("f"), FakeScanner)
    assert isinstance(registry.made("scanner", "t"), FakeScanner)
    with pytest.raises(UsageError, match="more than one scanner reads 'g' workloads: s, t"):
        registry.scanner_for("g")
    with pytest.raises(UsageError, match="no installed scanner reads 'h' workloads"):
        registry.scanner_for("h")


def test_exporters_are_found_by_the_longest_extension(installed: Installed) -> None:
    wanted = {"json": ".json", "trace": ".trace.json", "csv": ".csv", "csv2": ".CSV", "none": ""}
    body = "@hookimpl\ndef mpsprobe_exporters(): return [ExporterDeclaration(n, 'json:dumps', 'x', e) for n, e in "
    registry, _ = installed(exp=f"{body}{wanted!r}.items()]")
    for path, name in {"a/b.JSON": "json", Path("x.trace.json"): "trace", "x.csv": None, "x": None}.items():
        assert exporter_for(registry, path) == name
    assert registry.exporter_declaration("trace").extension == ".trace.json"
    with pytest.raises(PluginError, match="is a function, not an Exporter"):
        registry.exporter("json")


def test_a_run_is_announced_to_every_plugin_that_listens(installed: Installed) -> None:
    body = "heard = []\n@hookimpl\ndef mpsprobe_before_run(phase, workload):\n    heard.append((workload, phase))\n"
    registry, messages = installed(a_deaf="", b_breaks=body + "    raise OSError('full')", c_listens=body)
    registry.announce("mpsprobe_before_run", workload="net", phase="training")
    assert sys.modules["c_listens_plugin"].heard == [("net", "training")]
    [line] = messages
    assert not Registry([]).listens("mpsprobe_before_run")
    assert "b-breaks 1.0 is left out: its hook mpsprobe_before_run failed: OSError: full" in line


def test_a_deprecated_hook_is_told_once(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "since mpsprobe 0.2, gone from 0.4 on; use mpsprobe_workloads"
    monkeypatch.setattr(hookspecs, "HOOKS", hookspecs.HOOKS | {})

    @hookspecs.Answer(None, deprecated=words)
    def mpsprobe_models() -> list[object]:
        return []

    monkeypatch.setattr(hookspecs, "mpsprobe_models", mpsprobe_models, raising=False)
    hooks = ("mpsprobe_models", "mpsprobe_probes")
    registry, messages = installed(elderly="".join(f"@hookimpl\ndef {name}(): return []\n" for name in hooks))
    _, plugin = registry.plugins()
    registry.contributions(plugin)
    assert (plugin.status, plugin.hooks) == ("ok", hooks)
    assert messages == [f"plugin 'elderly' of elderly 1.0: its hook mpsprobe_models is deprecated: {words}"]


def test_the_process_has_one_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPSPROBE_DISABLE_PLUGINS", " a, ,b ")
    assert blocked_by_environment() == {"a", "b"}
    use_registry(None)
    first = get_registry()
    assert get_registry() is first
    use_registry(None)
    assert get_registry() is not first
    use_registry(None)


TABLES = """
class Tables:
    backend = None
    def releases(self): return []
    def table(self, release): return None

@hookimpl
def mpsprobe_kernel_tables():
    targets = {'chip': 'chip_plugin:Tables', 'none': 'chip_plugin:mpsprobe_kernel_tables'}
    return [KernelTablesDeclaration(name, target, "made for a test") for name, target in targets.items()]
"""


def test_kernel_tables_are_found_by_the_backend_that_a_user_types(installed: Installed) -> None:
    registry, _ = installed(chip=TABLES)
    assert list(registry.backends()) == ["chip", "none"]
    assert type(registry.kernel_tables("chip")).__name__ == "Tables"
    with pytest.raises(PluginError, match=r"the backend 'none' of chip 1\.0 is a function, not a KernelTables"):
        registry.kernel_tables("none")
    with pytest.raises(UnknownName, match="unknown backend 'chipp'; did you mean 'chip'"):
        registry.kernel_tables("chipp")
    with pytest.raises(PluginError, match=r"the backend 'chip' is declared by chip 1\.0 and two 1\.0"):
        installed(two=TABLES)[0].kernel_tables("chip")


SPACE = "@hookimpl\ndef mpsprobe_workload_space(space):\n    "
LISTED = "return [WorkloadDeclaration(f'net:{n}', 'x:y', '') for n in (2, 3)] if space == 'net' else None"


def test_a_name_space_is_listed_by_whoever_has_it(installed: Installed) -> None:
    registry, _ = installed(net=SPACE + LISTED, other=SPACE + "return None")
    assert list(registry.workload_space("net") or ()) == ["net:2", "net:3"]
    assert registry.workload_space("nets") is None
    registry, messages = installed(wrong=SPACE + "return 7")
    assert list(registry.workload_space("net") or ()) == ["net:2", "net:3"]
    assert "mpsprobe_workload_space returned an int" in messages[0]
    with pytest.raises(WorkloadError, match="not installed"):
        installed(refuses=SPACE + "raise WorkloadError('it is not installed')")[0].workload_space("net")


OBJECTS = "@hookimpl\ndef mpsprobe_workload_of(model, inputs): "
TAKES = OBJECTS + "\n    import mpsprobe_devkit.testing\n    return mpsprobe_devkit.testing.FakeWorkload()"


def test_an_object_has_the_workload_of_the_plugin_that_takes_it(installed: Installed) -> None:
    with pytest.raises(UsageError, match=r"nobody here runs a builtins\.dict"):
        installed()[0].workload_of({}, 1)
    registry, messages = installed(other=OBJECTS + "return None", taker=TAKES)
    workload = FakeWorkload()
    assert isinstance(registry.workload_of({}, 1), FakeWorkload)
    assert registry.workload_of(workload) is workload
    for model in (workload, "net-a"):
        with pytest.raises(UsageError, match="a workload brings its own inputs"):
            registry.workload_of(model, 1)
    assert messages == []
    with pytest.raises(PluginError, match=r"a builtins\.dict is claimed by second 1\.0 and taker 1\.0"):
        installed(second=TAKES)[0].workload_of({}, 1)


def test_what_is_no_workload_is_told_and_an_error_on_purpose_reaches_the_user(installed: Installed) -> None:
    registry, messages = installed(odd=OBJECTS + "return 7")
    with pytest.raises(UsageError, match="nobody here runs"):
        registry.workload_of({}, 1)
    assert ["its hook mpsprobe_workload_of returned an int, not a Workload" in line for line in messages] == [True]
    registry, messages = installed(purpose=OBJECTS + "raise WorkloadError('not this one')")
    with pytest.raises(WorkloadError, match="not this one"):
        registry.workload_of({}, 1)
    assert not [line for line in messages if "purpose" in line]
