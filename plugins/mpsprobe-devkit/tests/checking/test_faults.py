"""Each fault that a plugin can have: the code, the sentence and the place that ``plugins check`` gives for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_projects import COMMAND, make_project

from mpsprobe_devkit.checking import CODES, assert_plugin_sound, check_plugin, examination
from mpsprobe_devkit.checking.codes import GROUPS
from mpsprobe_devkit.checking.examination import examine
from tests.thorough import all_but

PLUGIN, TOML_FILE = "src/under_test/plugin.py", "pyproject.toml"
EXPORTER = """
@hookimpl
def mpsprobe_exporters():
    return [ExporterDeclaration("under-test", "under_test.exporter:Exporter", "It.", ".txt")]
"""


def _listing(body: str, hook: str = "mpsprobe_commands") -> str:
    return f"@hookimpl\ndef {hook}():\n    {body}\n"


def _command(target: str = "under_test.command:hello", name: str = "hello-under-test") -> str:
    return _listing(f"return [CommandDeclaration({name!r}, {target!r}, 'Says.')]")


def _changed(old: str, new: str) -> dict[str, Any]:
    return {"changes": (old, new)}


def _with(file: str, text: str, **more: Any) -> dict[str, Any]:
    return {"modules": {file: text}, **more}


ANY_NAME = "return WorkloadDeclaration(name, 'under_test.command:hello', 'Any.')"
FAULTS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("bad-package", "not TOML", TOML_FILE, _changed('name = "under-test"', "name = ")),
    ("bad-package", "no [project.entry", TOML_FILE, _changed("points.mpsprobe]", "points.mpsprobes]")),
    ("bad-package", "'under test'", TOML_FILE, _changed("under_test.plugin", "under test")),
    ("bad-package", "not a requirement", TOML_FILE, _changed('>=0.1"', '>=0.1", "not one"')),
    ("missing-metadata", "readme", TOML_FILE, _changed('readme = "README.md"\n', "")),
    ("missing-metadata", "lower bound", TOML_FILE, _changed("mpsprobe>=0.1", "mpsprobe<9")),
    ("imports-private", "mpsprobe.userfile", f"{PLUGIN}:4", {"code": "from mpsprobe import userfile\n" + COMMAND}),
    ("left-out", ">=99", TOML_FILE, _changed("mpsprobe>=0.1", "mpsprobe>=99")),
    ("left-out", "under_test.plugins", "entry point mine", _changed("under_test.plugin", "under_test.plugins")),
    ("left-out", "ValueError: not today", f"{PLUGIN}:4", {"code": "raise ValueError('not today')\n" + COMMAND}),
    ("left-out", "SystemExit: 3", f"{PLUGIN}:4", {"code": "raise SystemExit(3)\n" + COMMAND}),
    ("left-out", "no hook", "", {"code": "x = 1\n"}),
    ("left-out", "mean 'mpsprobe_probes'?", f"{PLUGIN}:8", {"code": COMMAND + _listing("return []", "mpsprobe_probe")}),
    ("left-out", "not marked with @", f"{PLUGIN}:8", {"code": COMMAND + "def mpsprobe_probes():\n    return []\n"}),
    ("left-out", "a wrapper", f"{PLUGIN}:4", {"code": "@hookimpl(wrapper=True)\ndef mpsprobe_probes():\n    yield\n"}),
    ("left-out", "workloads", f"{PLUGIN}:4", {"code": "@hookimpl\ndef mpsprobe_before_run(workloads): ...\n"}),
    ("hangs", "within 1 s", f"{PLUGIN}:5", {"code": "import time\ntime.sleep(60)\n" + COMMAND}),
    ("hangs", "within 1 s", f"{PLUGIN}:7", {"code": "import time\n" + _listing("time.sleep(60)")}),
    ("hangs", "within 6 s", "command.py:2", _with("command.py", "import time\ntime.sleep(60)\n")),
    ("prints", "'hello'", "", {"code": "print('hello')\n" + COMMAND}),
    ("prints", "'xxx", PLUGIN, {"code": _listing("print('x' * 300); return []")}),
    ("prints", "without end", PLUGIN, {"code": _listing("while True: print('x' * 1000000)")}),
    ("changes-process", "warnings filter", PLUGIN, {"code": "import warnings\nwarnings.resetwarnings()\n" + COMMAND}),
    ("changes-process", "UNDER_TEST", PLUGIN, {"code": "import os\nos.environ['UNDER_TEST'] = 'x'\n" + COMMAND}),
    (
        "changes-process",
        "('mine')",
        PLUGIN,
        {"code": "import threading\nthreading.Thread(target=threading.Event().wait, name='mine').start()\n" + COMMAND},
    ),
    (
        "heavy-import",
        f"{PLUGIN}:4 → src/under_test/model.py:1 → pydantic",
        f"{PLUGIN}:4",
        _with("model.py", "import pydantic\n", code="import under_test.model\n" + COMMAND),
    ),
    ("heavy-import", "the hook mpsprobe_", f"{PLUGIN}:6", {"code": _listing("import pydantic; return []")}),
    ("hook-failed", "ZeroDivisionError", f"{PLUGIN}:6", {"code": _listing("return 1 / 0")}),
    ("hook-failed", "not a list of", PLUGIN, {"code": _listing("return None")}),
    ("hook-failed", "a str in its list", PLUGIN, {"code": _listing("return ['net']")}),
    ("hook-failed", "more than 10,000", PLUGIN, {"code": _listing("while True: yield 1")}),
    ("hook-failed", "'Hello You' is not a name", PLUGIN, {"code": _command(name="Hello You")}),
    ("hook-failed", "is declared twice", PLUGIN, {"code": _command().replace("return [", "return 2 * [")}),
    ("hook-failed", "has the level 'bad'", PLUGIN, {"code": "from mpsprobe.declarations import DoctorFinding\n"
     "@hookimpl\ndef mpsprobe_doctor(environment): return [DoctorFinding('bad', environment['python'])]\n"}),
    ("ends-process", "exit code 4", PLUGIN, {"code": "import os\n" + _listing("os._exit(4)")}),
    ("ends-process", "SIGSEGV", PLUGIN, {"code": "import ctypes\n" + _listing("ctypes.string_at(0)")}),
    ("slow", "takes 1.", PLUGIN, {"code": "import time\n" + _listing("time.sleep(1.1); return []")}),
    ("slow", "importing", PLUGIN, {"code": "import time\ntime.sleep(0.3)\n" + COMMAND}),
    ("name-taken", "which mpsprobe itself has", PLUGIN, {"code": _command(name="plugins")}),
    ("name-taken", "nobody's name", PLUGIN, {"code": f"@hookimpl\ndef mpsprobe_resolve_workload(name): {ANY_NAME}\n"}),
    ("bad-target", "no attribute 'helo'", PLUGIN, {"code": _command("under_test.command:helo")}),
    ("bad-target", "OSError: gone", "command.py:1", _with("command.py", "raise OSError('gone')\n")),
    ("bad-target", "no_such_0b7e", "command.py:1", _with("command.py", "import no_such_0b7e\n")),
    ("bad-target", "SystemExit", "command.py:1", _with("command.py", "raise SystemExit\n")),
    ("bad-target", "a function, not a Command", PLUGIN, _with("command.py", "def hello(): pass\n")),
    (
        "contract-broken",
        "does not end with a line end",
        "exporter.py:1",
        _with("exporter.py", "class Exporter:\n    def render(self, report): return report.kind\n", code=EXPORTER),
    ),
]  # fmt: skip
ELSEWHERE = {"tests-failed", "no-tests", "deprecated-hook"}  # test_subjects.py; mpsprobe has no such hook today


@pytest.mark.parametrize(
    ("code", "says", "where", "project"), all_but(lambda code, says, *_: "within" not in says, FAULTS)
)
def test_a_plugin_with_one_fault_gets_one_code(
    code: str, says: str, where: str, project: dict[str, Any], tmp_path: Path
) -> None:
    findings = check_plugin(make_project(tmp_path, **project), time_limit=1 if "within" in says else 10)
    assert [one.code for one in findings] == [code], findings
    assert says in findings[0].message and where in findings[0].where, findings
    assert findings[0].level == CODES[code].level and findings[0].hint


def test_every_code_is_described_and_has_a_plugin_that_is_broken_so() -> None:
    assert {code for code, *_ in FAULTS} | ELSEWHERE == set(CODES)
    for one in CODES.values():
        assert one.level in ("error", "warning") and one.group in GROUPS and one.summary.endswith(".")


def test_everything_wrong_is_said_at_once_and_the_rest_is_tried(tmp_path: Path) -> None:
    code = """
    import pydantic
    print("hello")

    @hookimpl
    def mpsprobe_probe(): return []

    def mpsprobe_scanners(): return []

    @hookimpl
    def mpsprobe_devices(): raise KeyError("gone")

    @hookimpl
    def mpsprobe_exporters():
        return [
            ExporterDeclaration("Bad Name", "x:y", "", "txt"),
            ExporterDeclaration("html", "under_test.nowhere:X", "It is fine.", ".x"),
            7,
        ]
    """
    findings = [(one.code, one.message) for one in check_plugin(make_project(tmp_path, code))]
    expected = ["left-out"] * 2 + ["hook-failed"] * 3 + ["heavy-import", "prints", "name-taken", "bad-target"]
    assert sorted(code for code, _ in findings if code != "slow") == sorted(expected)
    assert any("also declared by mpsprobe-exporters" in message for _, message in findings)


@pytest.mark.thorough
def test_a_contract_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "CONTRACT_LIMIT_S", 4.0)
    exporter = "import time\nclass Exporter:\n    def render(self, report):\n        time.sleep(60)\n"
    [found] = check_plugin(make_project(tmp_path, EXPORTER, modules={"exporter.py": exporter}))
    assert (found.code, found.message) == ("hangs", "the contract of the exporter 'under-test' does not end within 4 s")
    assert found.where.startswith("src/under_test/exporter.py:")


def test_what_a_sound_plugin_contributes_and_that_a_check_leaves_no_trace(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    before = sorted(project.rglob("*"))
    examined = examine(project)
    assert (examined.findings, examined.contributes) == ([], {"command": ["hello-under-test"]})
    assert (examined.hooks, examined.distribution, examined.version) == (["mpsprobe_commands"], "under-test", "1.0")
    assert sorted(project.rglob("*")) == before


def test_a_package_that_an_extra_brings_may_be_missing(tmp_path: Path) -> None:
    extra = '[project.optional-dependencies]\nall = ["no-such-0b7e>=2"]\n\n[project.entry'
    project = make_project(tmp_path, modules={"command.py": "import no_such_0b7e\n"}, changes=("[project.entry", extra))
    examined = examine(project)
    assert examined.findings == [] and "no_such_0b7e" in examined.not_checked[0]


def test_the_object_of_an_entry_point_may_have_the_hooks(tmp_path: Path) -> None:
    indented = "class Plugin:\n" + "".join(f"    {line}\n" for line in COMMAND.replace("()", "(self)", 1).splitlines())
    code = f"{indented}    @hookimpl\n    def mpsprobe_after_run(self, rapport): ...\n\nPLUGIN = Plugin()\n"
    [found] = check_plugin(make_project(tmp_path, code, changes=("under_test.plugin", "under_test.plugin:PLUGIN")))
    assert found.code == "left-out" and "report" in found.hint


def test_soundness_can_be_asserted(tmp_path: Path) -> None:
    project = make_project(tmp_path, "print('hello')\n" + COMMAND)
    assert_plugin_sound(project, warnings=False)
    assert_plugin_sound(project, ignore=["prints"])
    with pytest.raises(AssertionError, match=r"is not sound:\nwarning prints in .*prints 'hello'\n +Remove"):
        assert_plugin_sound(project)
    with pytest.raises(ValueError, match="no-such-code"):
        assert_plugin_sound(project, ignore=["no-such-code"])
