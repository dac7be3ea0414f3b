"""The registry: what plugins offer, and what is said when they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe.errors import MissingPackage, PluginError, UnknownName, UsageError, WorkloadError
from mpsprobe.exporting import exporter_for
from mpsprobe.plugins.registry import Registry, blocked_by_environment, get_registry, use_registry
from mpsprobe_devkit.testing import FakeScanner, FakeWorkload, install_plugin
from tests.house.tree import PLUGINS

HEAD = """
from mpsprobe import hookimpl
from mpsprobe.declarations import *
from mpsprobe.errors import WorkloadError

def workload(name, target="mpsprobe_devkit.testing:FakeWorkload", **fields):
    return WorkloadDeclaration(name=name, target=target, summary="made for a test", **fields)
"""
OWN = {plugin.name for plugin in PLUGINS}


class Messages(list[str]):
    """Collects what the registry says on standard error."""


@pytest.fixture
def messages() -> Messages:
    return Messages()


def _registry(messages: Messages, *, strict: bool = False, blocked: tuple[str, ...] = ()) -> Registry:
    """A registry without this repository's own plugins, whatever is installed of them."""
    from mpsprobe.plugins.discovery import find_plugins

    found = [one for one in find_plugins() if one.distribution not in OWN]
    return Registry(found, strict=strict, blocked=blocked, tell=messages.append)


def _plugin(folder: Path, name: str, body: str) -> None:
    install_plugin(folder, name, HEAD + body)


WORKLOADS = "@hookimpl\ndef mpsprobe_workloads(): return "


def test_a_declared_workload_is_made(plugin_folder: Path, messages: Messages) -> None:
    _plugin(plugin_folder, "maker", WORKLOADS + "[workload('net-a')]")
    registry = _registry(messages)
    made = registry.workload("net-a")
    assert isinstance(made, FakeWorkload)
    assert made.name == "net-a"
    assert list(registry.workloads()) == ["net-a"]
    owner = registry.owner("workload", "net-a")
    assert owner is not None
    assert owner.owner == "maker 1.0"
    assert messages == []


def test_an_unknown_workload_gets_the_nearest_names(plugin_folder: Path, messages: Messages) -> None:
    _plugin(plugin_folder, "maker", WORKLOADS + "[workload('net-a')]")
    with pytest.raises(UnknownName, match="did you mean 'net-a'") as caught:
        _registry(messages).workload("net-b")
    assert caught.value.hint == 'More of them come with plugins: pip install "mpsprobe[all]"'


def test_one_broken_plugin_costs_only_itself(plugin_folder: Path, messages: Messages) -> None:
    _plugin(plugin_folder, "a-broken", "raise RuntimeError('no')")
    _plugin(plugin_folder, "b-sound", WORKLOADS + "[workload('net')]")
    _plugin(plugin_folder, "c-raises", WORKLOADS + "1 / 0")
    _plugin(plugin_folder, "d-wrong", WORKLOADS + "[1]")
    registry = _registry(messages)
    assert list(registry.workloads()) == ["net"]
    assert list(registry.workloads()) == ["net"]
    assert {one.found.name: one.status for one in registry.plugins()} == {
        "core": "ok",
        "a-broken": "failed",
        "b-sound": "ok",
        "c-raises": "failed",
        "d-wrong": "failed",
    }
    assert len(messages) == 3
    assert messages[0] == "plugin 'a-broken' of a-broken 1.0 is left out: its import failed: RuntimeError: no"
    assert "c-raises 1.0" in messages[1]
    assert "ZeroDivisionError" in messages[1]
    assert "d-wrong 1.0" in messages[2]


@pytest.mark.parametrize("body", ["raise RuntimeError('no')", WORKLOADS + "1 / 0"])
def test_strict_makes_a_broken_plugin_fatal(plugin_folder: Path, messages: Messages, body: str) -> None:
    _plugin(plugin_folder, "broken", body)
    with pytest.raises(PluginError, match=r"broken 1\.0"):
        _registry(messages, strict=True).workloads()


@pytest.mark.parametrize("blocked", ["loud", "*"])
def test_a_blocked_plugin_is_never_imported(plugin_folder: Path, messages: Messages, blocked: str) -> None:
    _plugin(plugin_folder, "loud", "raise RuntimeError('imported')")
    registry = _registry(messages, blocked=(blocked,))
    assert {one.found.name: one.status for one in registry.plugins()} == {"core": "ok", "loud": "blocked"}
    assert set(registry.commands()) == {"diff", "doctor", "export", "import", "plugins", "profile", "workloads"}
    assert messages == []


def test_a_misspelt_block_is_reported_and_the_core_cannot_be_blocked(plugin_folder: Path, messages: Messages) -> None:
    _plugin(plugin_folder, "quiet", "")
    _registry(messages, blocked=("quite",)).plugins()
    assert messages == ["unknown plugin 'quite'; did you mean 'quiet'? (nothing was switched off for it)"]
    with pytest.raises(UsageError, match="cannot be switched off"):
        _registry(messages, blocked=("core",)).plugins()


def test_a_name_of_two_plugins_is_an_error_when_it_is_used(plugin_folder: Path, messages: Messages) -> None:
    for name in ("one", "two"):
        _plugin(plugin_folder, name, WORKLOADS + f"[workload('net'), workload('net-{name}')]")
    registry = _registry(messages)
    assert list(registry.workloads()) == ["net-one", "net-two"]
    with pytest.raises(PluginError, match=r"declared by one 1\.0 and two 1\.0") as caught:
        registry.workload("net")
    assert "-p no:NAME" in (caught.value.hint or "")
    assert registry.owner("workload", "net") is None


RESOLVE = "@hookimpl\ndef mpsprobe_resolve_workload(name):\n    "


def test_an_open_name_space_answers_once(plugin_folder: Path, messages: Messages) -> None:
    _plugin(plugin_folder, "opener", "asked = []\n" + RESOLVE + "asked.append(name); return workload(name)")
    registry = _registry(messages)
    assert registry.workload("Some Folder").name == "Some Folder"
    assert registry.workload_and_owner("Some Folder")[1].owner == "opener 1.0"
    import opener_plugin

    assert opener_plugin.asked == ["Some Folder"]


def test_an_open_name_space_may_refuse_in_words(plugin_folder: Path, messages: Messages) -> None:
    _plugin(plugin_folder, "opener", RESOLVE + "raise WorkloadError('no config.json in ' + name)")
    with pytest.raises(WorkloadError, match=r"no config\.json in there"):
        _registry(messages).workload("there")


def test_a_guess_is_left_where_another_plugin_knows_the_name(plugin_folder: Path, messages: Messages) -> None:
    asks = "import dataclasses\n" + RESOLVE
    _plugin(plugin_folder, "guesses", asks + "return dataclasses.replace(workload(name), guess=True)")
    assert _registry(messages).workload_and_owner("x")[1].owner == "guesses 1.0"
    _plugin(plugin_folder, "knows", RESOLVE + "return workload(name)")
    assert _registry(messages).workload_and_owner("x")[1].owner == "knows 1.0"


def test_two_open_name_spaces_must_not_both_answer(plugin_folder: Path, messages: Messages) -> None:
    for name in ("one", "two"):
        _plugin(plugin_folder, name, RESOLVE + "return workload(name)")
    with pytest.raises(PluginError, match=r"claimed by one 1\.0 and two 1\.0"):
        _registry(messages).workload("x")


def test_an_open_name_space_that_breaks_is_left_out(plugin_folder: Path, messages: Messages) -> None:
    _plugin(plugin_folder, "a-breaks", RESOLVE + "return 5")
    _plugin(plugin_folder, "b-raises", RESOLVE + "raise KeyError(name)")
    _plugin(plugin_folder, "c-answers", RESOLVE + "return workload(name)")
    assert _registry(messages).workload("x").name == "x"
    assert len(messages) == 2


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("no_such_module:x", "cannot be imported: ModuleNotFoundError"),
        ("json:dumps", "is a str, not a Workload"),
        ("json:loads", "cannot be made: JSONDecodeError"),
    ],
)
def test_a_workload_that_cannot_be_made_is_its_plugins_fault(
    plugin_folder: Path, messages: Messages, target: str, problem: str
) -> None:
    _plugin(plugin_folder, "maker", WORKLOADS + f"[workload('net', {target!r})]")
    with pytest.raises(PluginError, match=r"the workload 'net' of maker 1\.0") as caught:
        _registry(messages).workload("net")
    assert problem in caught.value.message


@pytest.mark.parametrize("requirement", ["no-such-distribution", "pluggy>=999", "not a requirement!"])
def test_what_a_workload_requires_is_asked_for_before_it_is_imported(
    plugin_folder: Path, messages: Messages, requirement: str
) -> None:
    body = f"[workload('net', 'no_such_module:x', requires=('pluggy>=1', {requirement!r}))]"
    _plugin(plugin_folder, "maker", WORKLOADS + body)
    with pytest.raises(MissingPackage) as caught:
        _registry(messages).workload("net")
    assert caught.value.distribution == requirement


def test_scanners_are_chosen_by_framework(plugin_folder: Path, messages: Messages) -> None:
    scanners = (
        "@hookimpl\ndef mpsprobe_scanners():\n"
        "    return [ScannerDeclaration(name, 'mpsprobe_devkit.testing:FakeScanner', "
    )
    _plugin(
        plugin_folder,
        "scan",
        scanners + "'x', frameworks) for name, frameworks in SCANNERS]\nSCANNERS = [('s', ('f', 'g')), ('t', ('g',))]",
    )
    registry = _registry(messages)
    assert isinstance(registry.scanner_for("f"), FakeScanner)
    assert isinstance(registry.scanner("t"), FakeScanner)
    with pytest.raises(UsageError, match="more than one scanner reads 'g' workloads: s, t"):
        registry.scanner_for("g")
    with pytest.raises(UsageError, match="no installed scanner reads 'h' workloads"):
        registry.scanner_for("h")


def test_exporters_are_found_by_the_longest_extension(plugin_folder: Path, messages: Messages) -> None:
    body = (
        "@hookimpl\ndef mpsprobe_exporters():\n    make = lambda n, e: ExporterDeclaration(n, 'json:dumps', 'x', e)\n"
    )
    wanted = {"json": ".json", "trace": ".trace.json", "csv": ".csv", "csv2": ".CSV", "none": ""}
    names = f"[make(n, e) for n, e in {wanted!r}.items()]"
    _plugin(plugin_folder, "exp", body + "    return " + names)
    registry = _registry(messages)
    assert exporter_for(registry, "a/b.JSON") == "json"
    assert exporter_for(registry, Path("x.trace.json")) == "trace"
    assert exporter_for(registry, "x.csv") is None
    assert exporter_for(registry, "x") is None
    assert registry.exporter_declaration("trace").extension == ".trace.json"
    with pytest.raises(PluginError, match="is a function, not an Exporter"):
        registry.exporter("json")


def test_a_run_is_announced_to_every_plugin_that_listens(plugin_folder: Path, messages: Messages) -> None:
    body = "heard = []\n@hookimpl\ndef mpsprobe_before_run(phase, workload):\n    heard.append((workload, phase))\n"
    _plugin(plugin_folder, "a-deaf", "")
    _plugin(plugin_folder, "b-breaks", body + "    raise OSError('full')")
    _plugin(plugin_folder, "c-listens", body)
    _registry(messages).announce("mpsprobe_before_run", workload="net", phase="training")
    import c_listens_plugin

    assert c_listens_plugin.heard == [("net", "training")]
    [line] = messages
    assert not Registry([]).listens("mpsprobe_before_run")
    assert "b-breaks 1.0 is left out: its hook mpsprobe_before_run failed: OSError: full" in line


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
@hookimpl
def mpsprobe_kernel_tables():
    return [KernelTablesDeclaration(name, target, "made for a test") for name, target in TABLES]

class Tables:
    backend = None
    def releases(self): return []
    def table(self, release): return None
"""


def test_kernel_tables_are_found_by_the_backend_that_a_user_types(plugin_folder: Path, messages: Messages) -> None:
    body = TABLES + "TABLES = [('chip', 'chip_plugin:Tables'), ('none', 'chip_plugin:TABLES')]"
    _plugin(plugin_folder, "chip", body)
    registry = _registry(messages)
    assert list(registry.backends()) == ["chip", "none"]
    assert type(registry.kernel_tables("chip")).__name__ == "Tables"
    with pytest.raises(PluginError, match=r"the backend 'none' of chip 1\.0 is a list, not a KernelTables"):
        registry.kernel_tables("none")
    with pytest.raises(UnknownName, match="unknown backend 'chipp'; did you mean 'chip'"):
        registry.kernel_tables("chipp")


def test_a_backend_that_two_plugins_bring_belongs_to_neither(plugin_folder: Path, messages: Messages) -> None:
    for name in ("one", "two"):
        _plugin(plugin_folder, name, TABLES + f"TABLES = [('chip', '{name}_plugin:Tables')]")
    with pytest.raises(PluginError, match=r"the backend 'chip' is declared by one 1\.0 and two 1\.0"):
        _registry(messages).kernel_tables("chip")


SPACE = "@hookimpl\ndef mpsprobe_workload_space(space):\n    "
LISTED = "return [WorkloadDeclaration(f'net:{n}', 'x:y', '') for n in (2, 3)] if space == 'net' else None"


def test_a_name_space_is_listed_by_whoever_has_it(plugin_folder: Path, messages: Messages) -> None:
    _plugin(plugin_folder, "net", SPACE + LISTED)
    _plugin(plugin_folder, "other", SPACE + "return None")
    assert list(_registry(messages).workload_space("net") or ()) == ["net:2", "net:3"]
    assert _registry(messages).workload_space("nets") is None
    _plugin(plugin_folder, "wrong", SPACE + "return 7")
    assert list(_registry(messages).workload_space("net") or ()) == ["net:2", "net:3"]
    assert "mpsprobe_workload_space returned an int" in messages[0]
    _plugin(plugin_folder, "refuses", SPACE + "raise WorkloadError('it is not installed')")
    with pytest.raises(WorkloadError, match="not installed"):
        _registry(messages).workload_space("net")


OBJECTS = "@hookimpl\ndef mpsprobe_workload_of(model, inputs): "
TAKES = OBJECTS + "\n    import mpsprobe_devkit.testing\n    return mpsprobe_devkit.testing.FakeWorkload()"


def test_an_object_has_the_workload_of_the_plugin_that_takes_it(plugin_folder: Path, messages: Messages) -> None:
    _plugin(plugin_folder, "other", OBJECTS + "return None")
    _plugin(plugin_folder, "taker", TAKES)
    registry, workload = _registry(messages), FakeWorkload()
    assert isinstance(registry.workload_of({}, 1), FakeWorkload)
    assert registry.workload_of(workload) is workload
    for model in (workload, "net-a"):
        with pytest.raises(UsageError, match="a workload brings its own inputs"):
            registry.workload_of(model, 1)
    assert messages == []


def test_an_object_that_nobody_or_several_take(plugin_folder: Path, messages: Messages) -> None:
    with pytest.raises(UsageError, match=r"nobody here runs a builtins\.dict"):
        _registry(messages).workload_of({}, 1)
    for name in ("one", "two"):
        _plugin(plugin_folder, name, TAKES)
    with pytest.raises(PluginError, match=r"a builtins\.dict is claimed by one 1\.0 and two 1\.0"):
        _registry(messages).workload_of({}, 1)


def test_what_is_no_workload_is_told_and_an_error_on_purpose_reaches_the_user(
    plugin_folder: Path, messages: Messages
) -> None:
    _plugin(plugin_folder, "wrong", OBJECTS + "return 7")
    with pytest.raises(UsageError, match="nobody here runs"):
        _registry(messages).workload_of({}, 1)
    assert "it answered with an int, not a Workload" in messages[0]
    _plugin(plugin_folder, "refuses", OBJECTS + "raise WorkloadError('not this one')")
    with pytest.raises(WorkloadError, match="not this one"):
        _registry(messages).workload_of({}, 1)
