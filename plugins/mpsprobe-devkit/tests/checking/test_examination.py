"""The whole check: everything at once, what a sound plugin contributes, layouts, what takes long."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from made_projects import COMMAND, HEAD, TOML, codes, make_project

from mpsprobe_devkit.checking import check_plugin, examination, examine

EXPORTER = """
@hookimpl
def mpsprobe_exporters():
    return [ExporterDeclaration("under-test", "under_test.exporter:Exporter", "It.", ".txt")]
"""


@pytest.mark.usefixtures("untimed")
def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    code = """
    import pydantic
    print("hello")

    @hookimpl
    def mpsprobe_probe(): return []

    @hookimpl
    def mpsprobe_resolve_workload(nam): return None

    def mpsprobe_scanners(): return []

    @hookimpl
    def mpsprobe_devices(): raise KeyError("gone")

    @hookimpl
    def mpsprobe_exporters():
        return [
            ExporterDeclaration("Bad Name", 3, "", "txt"),
            ExporterDeclaration("fine", "under_test.nowhere:X", "It is fine.", ".x"),
            7,
        ]
    """
    findings = check_plugin(make_project(tmp_path, code, changes={">=0.1": "", "readme": "#"}))
    assert codes(findings) == [
        "bad-field", "bad-name", "bad-summary", "heavy-import", "hook-failed", "import-prints", "missing-metadata",
        "requires-mpsprobe", "target-unresolved", "unknown-hook", "unmarked-hook", "wrong-argument", "wrong-type",
    ]  # fmt: skip
    assert [one.message for one in findings if one.code == "bad-field"] == [
        "the exporter 'Bad Name' has an int as its target, which should be str"
    ]


@pytest.mark.usefixtures("untimed")
def test_a_step_that_ends_the_process_does_not_hide_the_next(tmp_path: Path) -> None:
    code = """
    import os, ctypes, time
    @hookimpl
    def mpsprobe_devices(): time.sleep(60)
    @hookimpl
    def mpsprobe_commands(): os._exit(5)
    @hookimpl
    def mpsprobe_probes(): ctypes.string_at(0)
    @hookimpl
    def mpsprobe_runners(): return 3
    @hookimpl
    def mpsprobe_exporters():
        while True: print("x" * 1000000)
    @hookimpl
    def mpsprobe_scanners():
        n = 0
        while True: yield n
    """
    found = {
        (one.code, one.message.partition(" ")[0]) for one in check_plugin(make_project(tmp_path, code), time_limit=2)
    }
    assert found == {
        ("hook-hangs", "mpsprobe_devices"),
        ("hook-exits", "mpsprobe_commands"),
        ("hook-exits", "mpsprobe_probes"),
        ("wrong-answer", "mpsprobe_runners"),
        ("hook-prints", "mpsprobe_exporters"),
        ("wrong-answer", "mpsprobe_scanners"),
    }


@pytest.mark.usefixtures("untimed")
@pytest.mark.parametrize("line", ["raise ValueError", "import no_such_module_0b7e", "import time; time.sleep(60)"])
def test_what_the_source_says_where_the_import_fails(tmp_path: Path, line: str) -> None:
    code = f"""
    {line}
    import torch
    @hookimpl
    def mpsprobe_probe(): return []
    """
    found = codes(check_plugin(make_project(tmp_path, code), time_limit=1))
    assert {"heavy-import", "unknown-hook"} < set(found)
    assert any(code.startswith("import-") for code in found)


def test_a_plugin_that_takes_long_is_told_what_does(tmp_path: Path) -> None:
    project = make_project(tmp_path, "import slow_part_of_it\n" + COMMAND)
    (project / "src" / "slow_part_of_it.py").write_text("import time\ntime.sleep(0.08)\n", encoding="utf-8")
    [found] = check_plugin(project)
    assert found.code == "slow-import"
    assert "Most of it is slow_part_of_it (" in (found.hint or "")
    assert found.where == "src/under_test/plugin.py"


def test_what_a_sound_plugin_contributes(tmp_path: Path) -> None:
    examined = examine(make_project(tmp_path))
    assert examined.findings == []
    assert examined.contributes == {"command": ["hello-under-test"]}
    assert examined.hooks == ["mpsprobe_commands"]
    assert examined.import_ms is not None
    assert examined.import_ms > 0
    assert (examined.subject.distribution, examined.subject.version) == ("under-test", "1.0")


LAYOUTS = {
    "src": ("src", ""),
    "flat": (".", ""),
    "hatch": ("python/code", '[tool.hatch.build.targets.wheel]\npackages = ["python/code/under_test"]\n'),
    "setuptools": ("lib", '[tool.setuptools.package-dir]\n"" = "lib"\n'),
    "find": ("other", '[tool.setuptools.packages.find]\nwhere = ["other"]\n'),
    "uv": ("mine", '[tool.uv.build-backend]\nmodule-root = "mine"\n'),
}


@pytest.mark.usefixtures("untimed")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_usual_layout_is_found(tmp_path: Path, layout: str) -> None:
    source, settings = LAYOUTS[layout]
    examined = examine(make_project(tmp_path, toml=TOML + settings, source=source))
    assert (examined.findings, examined.contributes) == ([], {"command": ["hello-under-test"]})


@pytest.mark.usefixtures("untimed")
def test_a_check_leaves_no_trace(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    before = sorted(project.rglob("*"))
    check_plugin(project)
    assert sorted(project.rglob("*")) == before


@pytest.mark.usefixtures("untimed")
def test_the_object_of_an_entry_point_may_have_the_hooks(tmp_path: Path) -> None:
    code = """
    class Plugin:
        @hookimpl
        def mpsprobe_commands(self):
            return [CommandDeclaration("hello-under-test", "under_test.command:hello", "Says hello.")]
        @hookimpl
        def mpsprobe_after_run(self, workload, rapport): ...
    PLUGIN = Plugin()
    """
    [found] = check_plugin(make_project(tmp_path, code, changes={"under_test.plugin": "under_test.plugin:PLUGIN"}))
    assert (found.code, found.hint) == ("wrong-argument", "It has workload, phase, report.")


@pytest.mark.usefixtures("untimed")
def test_each_entry_point_is_looked_at(tmp_path: Path) -> None:
    code = "raise ValueError\n"
    other = HEAD + COMMAND
    project = make_project(tmp_path, code, modules={"second.py": other}, toml=TOML + 'two = "under_test.second"\n')
    examined = examine(project)
    assert (codes(examined.findings), examined.contributes) == (["import-failed"], {"command": ["hello-under-test"]})


@pytest.mark.usefixtures("untimed")
def test_a_package_that_an_extra_brings_may_be_missing(tmp_path: Path) -> None:
    modules: dict[str, str | None] = {"command.py": "import no_such_0b7e\n"}
    project = make_project(tmp_path, modules=modules)
    assert codes(check_plugin(project)) == ["target-unresolved", "undeclared-dependency"]
    toml = TOML.replace("[project.entry", '[project.optional-dependencies]\nall = ["no-such-0b7e>=2"]\n[project.entry')
    examined = examine(make_project(tmp_path / "extra", modules=modules, toml=toml))
    assert examined.findings == []
    assert "needs the package no_such_0b7e" in examined.not_checked[0]


def test_an_exporter_is_held_to_its_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "TIMED_PROCESSES", 0)
    exporter = "class Exporter:\n    def render(self, report):\n        return report.workload.name\n"
    project = make_project(tmp_path, EXPORTER, modules={"exporter.py": exporter})
    findings = check_plugin(project)
    assert codes(findings) == ["contract-broken"]
    assert all("the exporter 'under-test'" in one.message for one in findings)
    assert findings[0].where == "src/under_test/exporter.py:1"
    assert check_plugin(project, contracts=False) == []


@pytest.mark.thorough
def test_a_contract_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "TIMED_PROCESSES", 0)
    monkeypatch.setattr(examination, "CONTRACT_LIMIT_S", 4.0)
    exporter = "import time\nclass Exporter:\n    def render(self, report):\n        time.sleep(60)\n"
    [found] = check_plugin(make_project(tmp_path, EXPORTER, modules={"exporter.py": exporter}))
    assert found.code == "contract-hangs"
    assert found.message == "the contract of the exporter 'under-test' does not end within 4 s"
    assert found.where.startswith("src/under_test/exporter.py:")


@pytest.mark.usefixtures("untimed")
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("def render(self): ...", "has render(), which cannot be called as render(report)"),
        ("def rendr(self, report): ...", "has no method render() (there is 'rendr')"),
        ("async def render(self, report): ...", "has render() as a coroutine"),
        ("render = 3", "has an int as its render, which should be a method"),
        (
            "def render(self, report): ...\n    def stream(self): ...",
            "has stream(), which cannot be called with (report)",
        ),
    ],
)
def test_how_an_object_differs_from_its_protocol(tmp_path: Path, body: str, says: str) -> None:
    project = make_project(tmp_path, EXPORTER, modules={"exporter.py": f"class Exporter:\n    {body}\n"})
    [found] = check_plugin(project, contracts=False)
    assert found.code == "wrong-protocol"
    assert says in found.message
    assert found.where == "src/under_test/exporter.py:1"


@pytest.mark.usefixtures("untimed")
def test_arguments_in_another_order_are_seen(tmp_path: Path) -> None:
    code = """
    @hookimpl
    def mpsprobe_probes():
        return [ProbeDeclaration("under-test", "under_test.probe:Probe", "It.")]
    """
    probe = """
    class Probe:
        name = "under-test"
        disturbs = "yes"
        def unavailable(self, device): return None
        def start(self, steps, device): ...
        def sample(self): ...
        def stop(self): return {}
    """
    project = make_project(tmp_path, code, modules={"probe.py": probe})
    messages = sorted(one.message for one in check_plugin(project, contracts=False))
    assert len(messages) == 2
    assert "has a str as its disturbs, which should be bool" in messages[0]
    assert "has start(steps, device), which is called as start(device, steps)" in messages[1]


@pytest.mark.usefixtures("untimed")
def test_a_name_of_an_installed_plugin_is_taken(tmp_path: Path) -> None:
    code = EXPORTER.replace('"under-test"', '"html"')
    exporter = "class Exporter:\n    def render(self, report): return ''\n"
    project = make_project(tmp_path, code, modules={"exporter.py": exporter})
    [found] = check_plugin(project, contracts=False)
    assert found.code == "name-taken"
    assert "the exporter 'html' is declared by mpsprobe-exporters" in found.message


@pytest.mark.usefixtures("untimed")
def test_open_names_of_others_are_taken(tmp_path: Path) -> None:
    code = """
    @hookimpl
    def mpsprobe_resolve_workload(name):
        return WorkloadDeclaration(name, "under_test.command:hello", "It.") if "/" in name else None
    """
    found = check_plugin(make_project(tmp_path, code))
    assert codes(found) == ["name-taken"]
    assert any("'organisation/repository', and so does mpsprobe-hf" in one.message for one in found)


@pytest.mark.usefixtures("untimed")
def test_a_thread_that_goes_on_is_told(tmp_path: Path) -> None:
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), name='mine').start()\n" + COMMAND
    findings = check_plugin(make_project(tmp_path, code))
    assert "import-hangs" in codes(findings)
    assert any("starts a thread that Python waits for at the end: mine" in one.message for one in findings)


@pytest.mark.usefixtures("untimed")
def test_the_findings_of_doctor_are_judged_and_may_import_what_they_judge(tmp_path: Path) -> None:
    code = """
    @hookimpl
    def mpsprobe_doctor(environment):
        import numpy
        assert environment["python"]
        return [DoctorFinding("bad", "It is.", None), DoctorFinding("ok", 3), "fine"]

    @hookimpl
    def mpsprobe_probes():
        return []
    """
    project = make_project(tmp_path, "from mpsprobe.declarations import DoctorFinding\n" + textwrap.dedent(code))
    findings = [one for one in check_plugin(project) if one.code != "undeclared-dependency"]
    assert [(one.code, one.message) for one in findings] == [
        ("bad-field", "the finding 0 has 'bad' in its level"),
        ("bad-field", "the finding 1 has an int as its message, which should be str"),
        ("wrong-type", "element 2 of what mpsprobe_doctor returns is a str instead of a DoctorFinding"),
    ]


@pytest.mark.usefixtures("untimed")
def test_a_hook_that_imports_something_heavy_is_told(tmp_path: Path) -> None:
    code = "@hookimpl\ndef mpsprobe_probes():\n    import pydantic\n    return []\n"
    [found] = check_plugin(make_project(tmp_path, code))
    assert (found.code, found.where) == ("heavy-import", "src/under_test/plugin.py:6")
    assert found.message.startswith("the hook mpsprobe_probes imports pydantic")
