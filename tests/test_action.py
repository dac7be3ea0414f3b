"""The composite action: its form, and its steps executed as a runner does, in a project of a stranger."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from mpsprobe import __version__
from mpsprobe_devkit.testing.commands import command_environment, command_path
from tests.house.tree import ROOT

TEXT = (ROOT / "action.yml").read_text(encoding="utf-8")
ACTION: dict[str, Any] = yaml.safe_load(TEXT)
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{ (inputs|steps\.judge\.outputs)\.([a-z-]+) \}\}")
MODEL = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        values, _ = torch.linalg.eig(x)
        return values.real + torch.linalg.svd(x)[1]


def make():
    return Net(), torch.eye(2)


def fine():
    return torch.nn.Linear(2, 2), torch.ones(1, 2)
"""
SCRIPT = """\
import sys
import torch

print("::warning::what the program prints is its own", sys.argv[1:])
torch.linalg.eig(torch.eye(2, device="mps"))
"""


class Ended(NamedTuple):
    code: int
    log: str
    summary: str
    outputs: dict[str, str]

    def commands(self) -> list[str]:
        """The workflow commands that the runner obeys: none while they are stopped."""
        found, token = [], None
        for line in map(str.strip, self.log.splitlines()):
            if token is not None:
                token = None if line == f"::{token}::" else token
            elif line.startswith("::stop-commands::"):
                token = line.removeprefix("::stop-commands::")
            elif line.startswith("::"):
                found.append(line)
        assert token is None
        return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "a project"
    (root / ".git").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "tests" / "mps_model.py").write_text(MODEL, encoding="utf-8")
    (root / "train.py").write_text(SCRIPT, encoding="utf-8")
    (root / "mps.txt").write_text("# shipped\ntests/mps_model.py:fine\n", encoding="utf-8")
    return root


def execute(project: Path, **given: str) -> Ended:
    """Each step in bash, as the runner calls it, with the package that is installed here."""
    inputs = {name: one["default"] for name, one in ACTION["inputs"].items()}
    inputs |= {"mpsprobe": "", "torch": "2.13.0", **{name.replace("_", "-"): text for name, text in given.items()}}
    files = {name: project.parent / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for path in files.values():
        path.write_text("", encoding="utf-8")
    variables = {**command_environment(), **{name: str(path) for name, path in files.items()}}
    variables |= {"RUNNER_TEMP": str(project.parent), "COLUMNS": "100"}
    variables["PATH"] = os.pathsep.join([str(Path(command_path()).parent), variables.get("PATH", "")])
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
    log, code = "", 0
    for number, step in enumerate(STEPS):
        script = project.parent / f"{number}.sh"
        script.write_text(step["run"], encoding="utf-8", newline="\n")
        own = {name: EXPRESSION.sub(lambda found: inputs[found[2]], text) for name, text in step["env"].items()}
        where = project / EXPRESSION.sub(lambda found: inputs[found[2]], step["working-directory"])
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        done = subprocess.run(command, cwd=where, env=variables | own, check=False, timeout=300, **streams)
        log, code = log + done.stdout, done.returncode
        if code:
            break
    lines = files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines()
    summary = files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
    return Ended(code, log, summary, dict(line.split("=", 1) for line in lines))


def test_the_form_is_that_of_a_composite_action() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for step in STEPS:
        assert set(step) <= {"name", "id", "shell", "working-directory", "env", "run"} and step["shell"] == "bash"
        assert "${{" not in step["run"], "an input is a variable, and never part of a script"
        assert set(re.findall(r"INPUT_\w+", step["run"])) == set(step["env"])
    expected = re.findall(r"inputs\.([a-z-]+)", TEXT)
    assert set(expected) == set(ACTION["inputs"])
    assert all(set(one) == {"description", "default"} for one in ACTION["inputs"].values())
    for name, one in ACTION["outputs"].items():
        assert one["value"] == f"${{{{ steps.judge.outputs.{name} }}}}" and one["description"]
    assert ACTION["inputs"]["mpsprobe"]["default"] == f"mpsprobe[all]=={__version__}"


def test_the_page_shows_inputs_and_outputs_that_there_are() -> None:
    page = (ROOT / "docs" / "how-to" / "ci-gate.md").read_text(encoding="utf-8")
    [text] = [one for one in re.findall(r"```yaml\n(.+?)```", page, flags=re.DOTALL) if "OWNER/mpsprobe@" in one]
    steps = yaml.safe_load(text)["jobs"]["coverage"]["steps"]
    [used] = [step for step in steps if step.get("uses", "").startswith("OWNER/mpsprobe@")]
    assert used["uses"] == f"OWNER/mpsprobe@v{__version__}" and set(used["with"]) <= set(ACTION["inputs"])
    assert set(re.findall(r"steps\.mps\.outputs\.([a-z-]+)", text)) <= set(ACTION["outputs"])
    table = page.partition("| input | what |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, flags=re.MULTILINE) == list(ACTION["inputs"])


@pytest.mark.slow
def test_a_model_with_findings_fails_with_all_that_there_is_to_see(project: Path) -> None:
    ended = execute(project, workloads="tests/mps_model.py:make")
    assert ended.code == 1 and ended.outputs["exit-code"] == "1", ended.log
    at, title = "file=tests/mps_model.py,line", "title=mpsprobe tests/mps_model.py%3Amake"
    places = [line.partition("::aten")[0] for line in ended.commands() if line.startswith(("::error ", "::warning "))]
    assert places == [f"::error {at}=6,{title}", f"::warning {at}=7,{title}"]
    assert "aten::linalg_eig" in ended.summary and "aten::linalg_eig  missing" in ended.log
    [run] = json.loads(Path(ended.outputs["sarif"]).read_text(encoding="utf-8"))["runs"]
    found = [one["locations"][0]["physicalLocation"] for one in run["results"]]
    assert {one["artifactLocation"]["uri"] for one in found} == {"tests/mps_model.py"}
    assert [one["region"]["startLine"] for one in found] == [6, 7]
    assert json.loads(Path(ended.outputs["report"]).read_text(encoding="utf-8"))["kind"] == "coverage"


@pytest.mark.thorough
def test_what_is_allowed_passes_and_several_are_one_table(project: Path) -> None:
    workloads = "tests/mps_model.py:make\n\ntests/mps_model.py:fine\n"
    more = {"workloads_file": "mps.txt", "allow": "linalg_*", "arguments": "--jobs=1\n--phase=inference\n"}
    ended = execute(project, workloads=workloads, **more)
    assert ended.code == 0 and ended.outputs["exit-code"] == "0", ended.log
    assert ended.commands() == ["::notice title=mpsprobe::Nothing is to do for MPS."]
    assert "1 of 2 workloads has every operator native" in ended.log


@pytest.mark.thorough
def test_a_script_is_run_with_its_arguments(project: Path) -> None:
    ended = execute(project, script="train.py\n--name=of two words", fail_on="missing")
    assert ended.code == 1, ended.log
    assert "['--name=of two words']" in ended.log
    assert any(line.startswith("::error file=train.py,line=5,") for line in ended.commands()), ended.log


@pytest.mark.slow
def test_an_input_is_never_a_command(project: Path) -> None:
    hostile = '$(touch owned) `touch owned` "; touch owned; #'
    ended = execute(project, workloads=hostile, allow=hostile, arguments="--dtype=" + hostile)
    assert ended.code == 2 and not list(project.rglob("owned"))
    both = execute(project, workloads="bert-base", script="train.py")
    assert (both.code, both.outputs) == (2, {})
    assert "goes without workloads" in both.log
