"""``mpsprobe plugins``, ``workloads`` and ``doctor``, and the tables that they print."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mpsprobe
from mpsprobe.cli.listing import aligned
from mpsprobe_devkit.testing import CommandResult, install_plugin, run_cli
from tests.thin import thin

WORD = st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1, max_size=12)
# The distributions of this repository stay out: these tests are about the commands.
OURS = ("atlas", "hf", "coverage", "devices", "exporters")
NETS = """[
    made("net-a", "The first.", family="text"),
    made("picture", "Another.", family="vision", phases=("inference",)),
    made("net-bcd", "The second.", family="text"),
]"""
PLUGIN = thin(
    "def made(name, summary, **more): return WorkloadDeclaration(name, 'described_nets:Described', summary, **more)",
    workloads=NETS,
    resolve_workload="made(name, 'Anything.') if name.startswith('fake:') else None",
    workload_space="[made(f'fake:{n}', 'One.') for n in 'ab'] if space == 'fake' else None",
)
SWEPT = thin(swept_workloads="[SweptWorkload('fake:a', ('inference', 'training')), SweptWorkload('fake:c')]")
DESCRIBES = """
class Described:
    framework = "fake"
    def __init__(self, name): self.name = name
    def build(self, options): ...
    def describe(self):
        sizes = {"width": 2048, "deep": True}
        training = {"inputs": {"x": [8, 2]}, "notes": ["one", "two"], "requires": []}
        return {"config": sizes, "training": training, "nothing": None}
"""
HEALER = thin(
    doctor="[DoctorFinding('note', f'this is {environment[\"platform\"]}'), "
    "DoctorFinding('LEVEL', 'it hurts ' * 12, 'Do this.')]"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    install_plugin(tmp_path, "nets", PLUGIN, version="3.1", modules={"described_nets.py": DESCRIBES})
    return tmp_path


def _run(folder: Path, *arguments: str) -> CommandResult:
    off = [word for name in OURS for word in ("-p", f"no:{name}")]
    return run_cli(*off, *arguments, plugin_folders=[folder], variables={"COLUMNS": "70"}, process=False)


def test_plugins_are_shown_with_their_state(folder: Path) -> None:
    install_plugin(folder, "broken", "1 / 0")
    install_plugin(folder, "off", "1 / 0")
    found = _run(folder, "-p", "no:off", "plugins", "list", "--format", "json").json()
    by_name = {one["name"]: one for one in found}
    nets = by_name["nets"]
    assert [nets[key] for key in ("distribution", "version", "target")] == ["nets", "3.1", "nets_plugin"]
    assert [nets[key] for key in ("status", "file", "reason", "requires", "problems")] == ["ok", None, None, [], []]
    assert nets["hooks"] == ["mpsprobe_resolve_workload", "mpsprobe_workload_space", "mpsprobe_workloads"]
    assert nets["contributes"] == {"workload": ["net-a", "picture", "net-bcd"]}
    assert by_name["broken"]["status"] == "failed"
    assert "ZeroDivisionError" in by_name["broken"]["reason"]
    assert by_name["off"]["status"] == "blocked"
    assert by_name["core"]["version"] == mpsprobe.__version__
    lines = [line.split() for line in _run(folder, "plugins", "list").stdout.splitlines()]
    assert lines[0] == ["NAME", "DISTRIBUTION", "VERSION", "STATUS", "CONTRIBUTES"]
    assert ["nets", "nets", "3.1", "ok", "3", "workloads"] in lines


def test_a_plugin_is_found_by_its_name_and_by_its_distribution(folder: Path) -> None:
    names = ["completion", "diff", "doctor", "export", "plugins", "profile", "workloads"]
    shown = _run(folder, "plugins", "show", "core")
    assert shown.stdout == _run(folder, "plugins", "show", "mpsprobe").stdout
    assert f"commands      {', '.join(names)}" in shown.stdout
    [found] = _run(folder, "plugins", "show", "core", "--format", "json").json()
    assert found["contributes"] == {"command": names}
    unknown = _run(folder, "plugins", "show", "cor")
    assert unknown.code == 2 and "unknown plugin 'cor'; did you mean 'core'" in unknown.stderr


def test_workloads_are_grouped_by_family(folder: Path) -> None:
    result = _run(folder, "workloads", "list")
    assert result.stdout == "text\n  net-a    The first.\n  net-bcd  The second.\n\nvision\n  picture  Another.\n"
    assert _run(folder, "workloads") == result
    found = _run(folder, "workloads", "list", "--format", "json").json()
    assert [one["name"] for one in found if one["distribution"] == "nets"] == ["net-a", "picture", "net-bcd"]
    assert found[1]["phases"] == ["inference"]


def test_a_name_space_is_listed_with_what_a_sweep_answered(folder: Path) -> None:
    listed = ("workloads", "list", "--fake")
    result = _run(folder, *listed)
    assert (result.code, result.stdout) == (0, "other\n  fake:a  One.\n  fake:b  One.\n")
    for wrong in ("--fakes", "fake"):
        refused = _run(folder, "workloads", "list", wrong)
        assert refused.code == 2 and wrong in refused.stderr
    install_plugin(folder, "swept", SWEPT)
    result = _run(folder, *listed)
    assert result.stdout == "other\n  fake:a  inference, training  One.\n  fake:b                       One.\n"
    assert "The second column" in result.stderr
    found = _run(folder, *listed, "--format", "json").json()
    assert [(one["name"], one["distribution"], one["answered"]) for one in found] == [
        ("fake:a", "nets", ["inference", "training"]),
        ("fake:b", "nets", None),
    ]


@pytest.mark.parametrize("name", ["net-a", "fake:Some Model"])
def test_a_workload_is_shown_with_a_line_for_facts_that_are_made_of_facts(folder: Path, name: str) -> None:
    found = _run(folder, "workloads", "show", name, "--format", "json").json()
    assert found["name"] == name and found["config"] == {"width": 2048, "deep": True}
    text = _run(folder, "workloads", "show", name).stdout
    assert f"name               {name}\n" in text
    assert [line.split(None, 1) for line in text.splitlines()[-3:]] == [
        ["config", "width=2048, deep=True"],
        ["training.inputs.x", "8, 2"],
        ["training.notes", "one, two"],
    ]


def test_an_unknown_workload_and_none_at_all(folder: Path) -> None:
    unknown = _run(folder, "workloads", "show", "net-x")
    assert unknown.code == 2 and "unknown workload 'net-x'; did you mean 'net-a'" in unknown.stderr
    none = run_cli("-p", "no:*", "workloads", "list", process=False)
    assert (none.code, none.stdout) == (0, "")
    assert 'pip install "mpsprobe[all]"' in none.stderr


def test_findings_are_shown_the_worst_first_and_wrapped(tmp_path: Path) -> None:
    install_plugin(tmp_path, "healer", HEALER.replace("LEVEL", "warning"))
    install_plugin(tmp_path, "ill", "1 / 0")
    shown = _run(tmp_path, "doctor")
    assert shown.code == 0, shown.stderr
    assert all(len(line) <= 70 for line in shown.stdout.splitlines())
    assert shown.stdout.index("warning  it hurts") < shown.stdout.index("note     ")
    assert "         Do this." in shown.stdout
    found = _run(tmp_path, "doctor", "--format", "json").json()
    mine = [one for one in found["findings"] if one["distribution"] == "healer"]
    assert [one["level"] for one in mine] == ["warning", "note"]
    assert mine[1]["message"] == f"this is {found['environment']['platform']}"
    assert any("'ill' of ill 1.0 is left out" in one["message"] for one in found["findings"])


def test_the_exit_code_of_doctor_is_asked_for(tmp_path: Path) -> None:
    for level in ("warning", "error", "ok"):
        (tmp_path / level).mkdir()
        install_plugin(tmp_path / level, "healer", HEALER.replace("LEVEL", level))
    for level, arguments, code in (
        ("warning", ["--fail-on", "warning"], 1),
        ("warning", ["--fail-on", "error"], 0),
        ("error", ["--fail-on", "warning"], 1),
        ("error", [], 0),
        ("ok", ["--fail-on", "error"], 0),
    ):
        ran = _run(tmp_path / level, "doctor", *arguments)
        assert (ran.code, ran.stderr.startswith("--fail-on: ")) == (code, code == 1)


def test_a_wrong_finding_is_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    problems = {
        "None": "returned a NoneType, not a list of DoctorFinding",
        "['x']": "returned a str in its list, not a DoctorFinding",
        "[DoctorFinding('bad', 'x')]": "the level 'bad', which is none of ok, note, warning, error",
        "[DoctorFinding('ok', 5)]": "a DoctorFinding has an int as its message, which should be str",
        "1 / 0": "ZeroDivisionError",
    }
    for number, answer in enumerate(problems):
        install_plugin(tmp_path, f"ill-{number}", thin(doctor=answer))
    result = _run(tmp_path, "doctor", "--format", "json")
    messages = [one["message"] for one in result.json()["findings"]]
    for number, problem in enumerate(problems.values()):
        for shown in (result.stderr.splitlines(), messages):
            assert [f"ill-{number} 1.0" in one for one in shown if problem in one] == [True], problem


def test_doctor_without_plugins_says_why() -> None:
    shown = run_cli("-p", "no:*", "doctor", process=False).stdout
    assert "Nothing was found." in shown and "is installed but blocked: switched off by -p" in shown


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(WORD, min_size=width, max_size=width), min_size=1)))
def test_every_cell_of_a_table_is_there(rows: list[list[str]]) -> None:
    assert [line.split() for line in aligned(rows).split("\n")] == rows


def test_the_last_column_is_not_padded_but_wrapped_under_itself() -> None:
    assert aligned([("a", "bb", "c"), ("aaa", "b", "")]) == "a    bb  c\naaa  b"
    assert aligned([]) == ""
    rows = [("NAME", "WHY"), ("one", "word " * 12)]
    text = aligned(rows, width=40)
    assert all(len(line) <= 40 for line in text.split("\n"))
    assert text.split("\n")[2].startswith("      word")
    assert " ".join(text.split()) == " ".join(aligned(rows).split())
    assert aligned(rows, width=20) == aligned(rows)
