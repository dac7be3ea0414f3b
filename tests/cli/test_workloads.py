"""``mpsprobe workloads list`` and ``show``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe_devkit.testing import install_plugin, run_cli

# The distributions of this repository stay out: these tests are about the command.
OURS = ("atlas", "hf", "diffusers", "vision", "coverage", "exporters")
ONLY = [word for name in OURS for word in ("-p", f"no:{name}")]
PLUGIN = """
from mpsprobe import hookimpl
from mpsprobe.declarations import WorkloadDeclaration

@hookimpl
def mpsprobe_workloads():
    target = "mpsprobe_devkit.testing:FakeWorkload"
    return [
        WorkloadDeclaration("net-a", target, "The first.", family="text"),
        WorkloadDeclaration("picture", target, "Another.", family="vision", phases=("inference",)),
        WorkloadDeclaration("net-bcd", target, "The second.", family="text"),
    ]

@hookimpl
def mpsprobe_resolve_workload(name):
    if name.startswith("fake:"):
        return WorkloadDeclaration(name, "mpsprobe_devkit.testing:FakeWorkload", "Anything.")

@hookimpl
def mpsprobe_workload_space(space):
    if space == "fake":
        return [WorkloadDeclaration(f"fake:{n}", "mpsprobe_devkit.testing:FakeWorkload", "One.") for n in "ab"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a plugin that has three workloads and an open name space."""
    install_plugin(tmp_path, "nets", PLUGIN)
    return tmp_path


def test_list_groups_by_family(folder: Path) -> None:
    result = run_cli(*ONLY, "workloads", "list", plugin_folders=[folder], process=False)
    assert result.code == 0
    assert result.stdout == ("text\n  net-a    The first.\n  net-bcd  The second.\n\nvision\n  picture  Another.\n")
    bare = run_cli(*ONLY, "workloads", plugin_folders=[folder], process=False)
    assert (bare.code, bare.stdout) == (0, result.stdout)


def test_list_as_json(folder: Path) -> None:
    found = run_cli(*ONLY, "workloads", "list", "--format", "json", plugin_folders=[folder], process=False).json()
    assert [one["name"] for one in found] == ["net-a", "picture", "net-bcd"]
    assert found[1]["phases"] == ["inference"]
    assert found[1]["distribution"] == "nets"


def test_list_a_name_space(folder: Path) -> None:
    result = run_cli(*ONLY, "workloads", "list", "--fake", plugin_folders=[folder], process=False)
    assert (result.code, result.stdout) == (0, "other\n  fake:a  One.\n  fake:b  One.\n")
    flags = ["--fake", "--format", "json"]
    found = run_cli(*ONLY, "workloads", "list", *flags, plugin_folders=[folder], process=False).json()
    assert [(one["name"], one["distribution"]) for one in found] == [("fake:a", "nets"), ("fake:b", "nets")]
    for wrong in ("--fakes", "fake"):
        result = run_cli(*ONLY, "workloads", "list", wrong, plugin_folders=[folder], process=False)
        assert result.code == 2 and wrong in result.stderr


def test_list_says_what_a_sweep_answered(folder: Path) -> None:
    known = """
from mpsprobe import hookimpl
from mpsprobe.declarations import SweptWorkload

@hookimpl
def mpsprobe_swept_workloads():
    return [SweptWorkload("fake:a", ("inference", "training")), SweptWorkload("fake:c")]
"""
    install_plugin(folder, "swept", known)
    result = run_cli(*ONLY, "workloads", "list", "--fake", plugin_folders=[folder], process=False)
    assert result.stdout.splitlines()[1:] == [
        "  fake:a  inference, training  One.",
        "  fake:b                       One.",
    ]
    assert "The second column" in result.stderr
    flags = ["--fake", "--format", "json"]
    found = run_cli(*ONLY, "workloads", "list", *flags, plugin_folders=[folder], process=False).json()
    assert [one["answered"] for one in found] == [["inference", "training"], None]


@pytest.mark.parametrize("name", ["net-a", "fake:Some Model"])
def test_show(folder: Path, name: str) -> None:
    found = run_cli(*ONLY, "workloads", "show", name, "--format", "json", plugin_folders=[folder], process=False).json()
    assert found["name"] == name
    assert found["architecture"] == "Fake"
    text = run_cli(*ONLY, "workloads", "show", name, plugin_folders=[folder], process=False)
    assert f"name          {name}" in text.stdout


DESCRIBES = """
class Described:
    name, framework = "net", "fake"
    def build(self, options): ...
    def describe(self):
        sizes = {"width": 2048, "deep": True}
        training = {"inputs": {"x": [8, 2]}, "notes": ["one", "two"], "requires": []}
        return {"config": sizes, "training": training, "nothing": None}
"""


def test_facts_that_are_made_of_facts_take_a_line_each(tmp_path: Path) -> None:
    code = PLUGIN.replace("mpsprobe_devkit.testing:FakeWorkload", "described_nets:make")
    install_plugin(
        tmp_path, "nets", code, modules={"described_nets.py": DESCRIBES + "\nmake = lambda name: Described()"}
    )
    lines = run_cli(*ONLY, "workloads", "show", "net-a", plugin_folders=[tmp_path], process=False).stdout.splitlines()
    assert [line.split(None, 1) for line in lines[-3:]] == [
        ["config", "width=2048, deep=True"],
        ["training.inputs.x", "8, 2"],
        ["training.notes", "one, two"],
    ]


def test_an_unknown_name_gets_the_nearest_ones_and_what_else_is_possible(folder: Path) -> None:
    result = run_cli(*ONLY, "workloads", "show", "net-x", plugin_folders=[folder], process=False)
    assert result.code == 2
    assert "unknown workload 'net-x'; did you mean 'net-a'" in result.stderr


def test_without_workloads_it_says_what_to_install() -> None:
    result = run_cli("workloads", "list", variables={"MPSPROBE_DISABLE_PLUGINS": "*"}, process=False)
    assert (result.code, result.stdout) == (0, "")
    assert 'pip install "mpsprobe[all]"' in result.stderr
