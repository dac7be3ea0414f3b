"""Every kind of broken plugin at once, in one environment: each command works, and each one is named once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mpsprobe_devkit.testing import CommandResult, install_plugin, sample_coverage_report
from tests.forking import run_command
from tests.thin import thin
from tests.thorough import all_but

HEAD = thin()


def _hook(name: str, body: str, arguments: str = "") -> str:
    return HEAD + f"@hookimpl\ndef {name}({arguments}):\n    {body}\n"


# What a plugin may do wrong -> its thin module.
AT_IMPORT = {
    "raises": "raise ValueError('no')",
    "cannot-be-said": (
        "class Error(Exception):\n    def __str__(self): raise SystemExit(3)\n"
        "Error.__name__ = 'a\\x1b[31m\\nname'\nraise Error"
    ),
    "exits": "raise SystemExit(0)",
    "asks": "input('Which GPU? ')",
    "syntax": "def broken(:",
    "lacks-a-module": "import no_such_module_anywhere",
    "misspelt-hook": _hook("mpsprobe_workload", "return []"),
    "unmarked-hook": "def mpsprobe_workloads(): return []",
    "wrong-argument": _hook("mpsprobe_resolve_workload", "return None", "nme"),
    "wrapper": "from mpsprobe import hookimpl\n@hookimpl(wrapper=True)\ndef mpsprobe_workloads(): return (yield)",
    "recursion": "from mpsprobe.plugins.registry import get_registry\nget_registry().plugins()",
    "too-new": "1 / 0",  # its metadata asks for mpsprobe 99
    "no-attribute": "",  # its entry point names an attribute that is not there
}
IN_A_HOOK = {
    "hook-raises": _hook("mpsprobe_commands", "raise RuntimeError('later')"),
    "hook-exits": _hook("mpsprobe_commands", "raise SystemExit(3)"),
    "half-way": _hook("mpsprobe_commands", "yield CommandDeclaration('half', 'a:b', 'x')\n    raise KeyError('way')"),
    "endless": _hook("mpsprobe_commands", "while True: yield CommandDeclaration('endless', 'a:b', 'x')"),
    "wrong-type": _hook("mpsprobe_commands", "return {'name': 'x'}.items()"),
    "not-a-list": _hook("mpsprobe_commands", "return 5"),
    "wrong-field": _hook("mpsprobe_commands", "return [CommandDeclaration('field', None, 'x')]"),
    "bad-name": _hook("mpsprobe_commands", "return [CommandDeclaration('No Name!', 'a:b', 'x')]"),
    "twice": _hook("mpsprobe_commands", "return [CommandDeclaration('twice', 'a:b', 'x')] * 2"),
    "takes-ours": _hook("mpsprobe_commands", "return [CommandDeclaration('plugins', 'a:b', 'x')]"),
    "same-name-1": _hook("mpsprobe_commands", "return [CommandDeclaration('shared', 'a:b', 'x')]"),
    "same-name-2": _hook("mpsprobe_commands", "return [CommandDeclaration('shared', 'a:b', 'x')]"),
}
PRINTS = "print('hello')\nimport os, warnings\nos.write(1, b'world')\nwarnings.simplefilter('error')"  # no harm
NAMED = sorted({*AT_IMPORT, *IN_A_HOOK})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("broken")
    for name, code in {**AT_IMPORT, **IN_A_HOOK, "prints": PRINTS}.items():
        points = f"[mpsprobe]\n{name} = no_attribute_plugin:nothing\n" if name == "no-attribute" else None
        install_plugin(folder, name, code, version="7.1", entry_points=points)
    with (folder / "too_new-7.1.dist-info" / "METADATA").open("a", encoding="utf-8") as metadata:
        metadata.write("Requires-Dist: mpsprobe>=99\n")
    return folder


def _run(folder: Path, *arguments: str | Path, **variables: str) -> CommandResult:
    return run_command(*arguments, plugin_folders=[folder], cwd=folder, variables=variables)


def _named(result: CommandResult) -> list[str]:
    """The distributions that standard error names, a name for each time."""
    return [name for line in result.stderr.splitlines() for name in re.findall(r"(\S+) 7\.1", line)]


@pytest.mark.parametrize(
    "line",
    all_but(
        lambda line: line.split()[0] in ("export", "doctor") or line == "workloads list",
        [
            "--help",
            "workloads list",
            "workloads show bert-base",
            "kernels since aten::linalg_qr.out",
            "export REPORT --to markdown -o OUT",
            "diff REPORT REPORT",
            "doctor",
            "advisories list",
            "plugins new among-the-broken --kind command --into FOLDER",
            "coverage bert-base --torch 2.13.0 -o OUT",
            "profile --workload distilbert --device cpu --seq-len 8 --steps 2 --warmup 1 -o OUT",
        ],
    ),
)
def test_every_command_works_and_names_each_once(folder: Path, tmp_path: Path, line: str) -> None:
    report, out = tmp_path / "report.json", tmp_path / "out.md"
    report.write_text(sample_coverage_report().model_dump_json(), encoding="utf-8")
    meant = {"REPORT": report, "OUT": out, "FOLDER": tmp_path}
    result = _run(folder, *(meant.get(word, word) for word in line.split()))
    assert result.code == 0, result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(_named(result)) == NAMED
    assert ("OUT" in line) == out.exists()
    assert not line.startswith("export") or "**The run stopped" in out.read_text(encoding="utf-8")


def test_the_list_says_what_is_wrong_with_each(folder: Path) -> None:
    result = _run(folder, "plugins", "list", "--format", "json")
    found = {one["distribution"]: one for one in result.json()}
    assert sorted(_named(result)) == NAMED
    assert found["prints"]["status"] == "ok"
    assert "hello" in result.stderr
    assert found["too-new"]["status"] == "incompatible"
    assert found["too-new"]["reason"] == f"it needs mpsprobe >=99, and this is mpsprobe {found['mpsprobe']['version']}"
    for name in ("takes-ours", "same-name-1", "same-name-2"):
        assert found[name]["status"] == "ok"
        assert len(found[name]["problems"]) == 1
    failed = {name for name, one in found.items() if one["status"] == "failed"}
    assert failed == set(NAMED) - {"too-new", "takes-ours", "same-name-1", "same-name-2"}
    assert "it gives more than 10,000 elements" in found["endless"]["reason"]
    assert "did you mean 'mpsprobe_workloads'" in found["misspelt-hook"]["reason"]


def test_strict_is_fatal_and_names_the_first_or_those_of_a_name(folder: Path) -> None:
    for name in ("", "same-name", "takes-ours"):
        off = [word for one in NAMED if not one.startswith(name) for word in ("-p", f"no:{one}")]
        result = _run(folder, *off, "--strict-plugins", "plugins", "list")
        assert result.code == 2 and name in result.stderr
        assert name or result.stderr.count("is left out") == 1
        assert name or "Without --strict-plugins the command goes on without it." in result.stderr


def test_a_trace_shows_each_call_with_its_result_and_none_of_what_is_switched_off(folder: Path) -> None:
    off = [word for one in NAMED if one != "half-way" for word in ("-p", f"no:{one}")]
    result = _run(folder, *off, "workloads", "show", "bert-base", MPSPROBE_TRACE_PLUGINS="1")
    assert (result.code, {*_named(result)} & {*NAMED}) == (0, {"half-way"})
    shown = "\n".join(line.partition("trace: ")[2] for line in result.stderr.splitlines() if "trace: " in line)
    assert "half-way (half-way 7.1): import half_way_plugin -> mpsprobe_commands [" in shown
    assert "half-way (half-way 7.1): mpsprobe_commands() -> raised KeyError: 'way' [" in shown
    ours = r"hf \(mpsprobe-hf \S+\): "
    assert re.search(ours + r"mpsprobe_workloads\(\) -> \[WorkloadDeclaration: \S+, .* more\] \[", shown)
    assert re.search(ours + r"resolve mpsprobe_hf\.\S+ -> made \[\d+\.\d ms\]", shown)
    assert "trace:" not in run_command("workloads", "list", variables={"MPSPROBE_TRACE_PLUGINS": "0"}).stderr
