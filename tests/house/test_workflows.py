"""The workflows, .ci/run and pre-commit: actions are pinned, rights are read-only, CI runs what the README promises."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from mpsprobe.plugins.registry import get_registry
from tests.house.tree import PLUGINS, ROOT, files, read, shown

WORKFLOWS = [path for path in files() if ".github/workflows" in shown(path).replace("dot-", ".")]
ACTION = re.compile(r"uses: ([\w.-]+/[\w./-]+)@(.*)")
PIN = re.compile(r"[0-9a-f]{40} # v\d+\.\d+\.\d+")
SUPPORTED = tomllib.loads(read("tests/supported.toml"))


def _read(path: Path) -> dict[Any, Any]:
    """A workflow; its key "on" is True for YAML."""
    found: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def _runs(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


CI = _read(ROOT / ".github" / "workflows" / "ci.yml")
RELEASE = _read(ROOT / ".github" / "workflows" / "release.yml")


def test_an_action_is_one_commit_everywhere() -> None:
    ours = set((ROOT / ".github" / "workflows").glob("*.yml"))
    assert ours < set(WORKFLOWS)  # the example's and the scaffold's too
    pins: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for name, pin in ACTION.findall(path.read_text(encoding="utf-8")):
            assert PIN.fullmatch(pin), f"{shown(path)}: {name}@{pin} is not a commit with its version"
            pins.setdefault(name, set()).add(pin)
    assert {"actions/checkout", "actions/setup-python"} < set(pins)
    assert not {name: found for name, found in pins.items() if len(found) > 1}


@pytest.mark.parametrize("path", WORKFLOWS, ids=shown)
def test_a_workflow_may_only_read_and_nothing_that_somebody_types_is_part_of_a_command(path: Path) -> None:
    text, workflow = path.read_text(encoding="utf-8"), _read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets" not in text and "pull_request_target" not in text
    assert text.count("persist-credentials: false") == text.count("actions/checkout@")
    for name, job in workflow["jobs"].items():
        writes = {right for right, kind in job.get("permissions", {}).items() if kind == "write"}
        assert writes == ({"attestations", "id-token"} if (path.stem, name) == ("release", "publish") else set())
        if "steps" in job:
            assert job["timeout-minutes"] <= 60
            matrix = job.get("strategy", {}).get("matrix", {})
            fixed = {f"matrix.{name}" for name, values in matrix.items() if type(values) is list}
            found = {one for command in _runs(job) for one in re.findall(r"\$\{\{\s*([\w.]+)", command)}
            assert found <= fixed, f"{found - fixed} should be variables of the step"


def test_ci_runs_the_script_with_every_supported_python_and_every_test_on_a_mac_and_windows() -> None:
    assert {"push", "pull_request"} < set(CI[True])
    job = CI["jobs"]["everything"]
    assert _runs(job) == [".ci/run"]
    assert job["strategy"]["matrix"] == {"python": "${{ fromJSON(needs.supported.outputs.python) }}"}
    job = CI["jobs"]["elsewhere"]
    assert _runs(job) == ["python -m pip install -r requirements-test.txt", "python -m pytest -n auto"]
    systems = job["strategy"]["matrix"]["os"]
    assert [system.partition("-")[0] for system in systems] == ["macos", "windows"]


def test_ci_takes_the_versions_from_where_they_are_stated(tmp_path: Path) -> None:
    [script] = _runs(CI["jobs"]["supported"])
    target = tmp_path / "output"
    variables = os.environ | {"GITHUB_OUTPUT": str(target)}
    subprocess.run(["bash", "-ec", script], cwd=ROOT, env=variables, check=True)
    printed = dict(line.split("=", 1) for line in target.read_text(encoding="utf-8").splitlines())
    assert json.loads(printed["python"]) == SUPPORTED["python"]["versions"]
    job = CI["jobs"]["ends"]
    assert job["strategy"]["matrix"] == {"end": ["oldest", "newest"]}
    assert _runs(job) == ["python tests/versions/run.py ${{ matrix.end }} -n auto"]


def test_a_tag_publishes_what_passed() -> None:
    assert RELEASE[True] == {"push": {"tags": ["v*"]}}
    jobs = RELEASE["jobs"]
    assert jobs["checks"]["uses"] == "./.github/workflows/ci.yml" and "workflow_call" in CI[True]
    assert ".ci/build dist" in _runs(jobs["build"])
    assert jobs["publish"]["needs"] == ["checks", "build", "device"]
    assert jobs["publish"]["environment"] == "release"
    used = [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"]]
    assert used[1:] == ["actions/attest-build-provenance", "pypa/gh-action-pypi-publish"]


def test_the_device_is_compiled_for_every_supported_torch() -> None:
    [script] = [run for run in _runs(RELEASE["jobs"]["device"]) if "mpsprobe_programs.compiling" in run]
    found = re.findall(r"2\.(\d+)", script.partition("; do")[0])
    ends = [int(SUPPORTED["torch"][end].split(".")[1]) for end in ("oldest", "newest")]
    assert [int(minor) for minor in found] == list(range(ends[0], ends[1] + 1))


def test_the_tag_is_the_version(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    for name in ("mpsprobe-0.1.0.tar.gz", "mpsprobe-0.1.0-py3-none-any.whl"):
        (tmp_path / "dist" / name).touch()
    script = _runs(RELEASE["jobs"]["build"])[-1]
    for tag, code in (("v0.1.0", 0), ("v0.1.1", 1), ("v0.1", 1)):
        variables = os.environ | {"GITHUB_REF_NAME": tag}
        assert subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=variables, check=False).returncode == code


def test_pre_commit_runs_the_tools_of_the_environment() -> None:
    [repository] = _read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        command = hook["entry"].removesuffix(" --force-exclude")
        assert f"\n{command}" in read(".ci/run")
        assert f"\n{command.split()[2]}==" in read("constraints.txt")


def test_the_hook_for_others_is_a_command_that_is_there() -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert set(hook) == {"id", "name", "description", "entry", "language", "types", "pass_filenames"}
    [text] = re.findall(r"```yaml file=\S+\n(.+?)```", read("docs/how-to/ci-gate.md"), flags=re.DOTALL)
    [used] = yaml.safe_load(text)["repos"][0]["hooks"]
    assert used["id"] == hook["id"]
    program, name, *flags = [*shlex.split(hook["entry"]), *map(str, used["args"])]
    assert program == "mpsprobe"
    parsed = get_registry().command(name).make_context(name, flags).params
    assert parsed["fail_on"] == ("missing", "unsupported", "fallback") and parsed["allow"] == ("embedding_*",)


BLOCKS = re.findall(r"^```sh\n(.*?)^```$", read("README.md"), re.MULTILINE | re.DOTALL)
COMMANDS = "".join(BLOCKS).splitlines()
SCRIPT = read(".ci/run")
COLLECT = [sys.executable, "-m", "pytest", "tests/mac", "-m", "mac", "--collect-only", "-q", "-p", "no:cacheprovider"]
SETUP = "python3 -m venv .venv && .venv/bin/pip install -q -r {} && .venv/bin/{}"


def test_the_readme_has_the_two_commands_and_ci_takes_its_own_from_there() -> None:
    shows = [line for line in COMMANDS if line.endswith("mpsprobe coverage bert-base")]
    tests = [line for line in COMMANDS if "pytest" in line]
    assert shows == [SETUP.format("requirements.txt", "mpsprobe coverage bert-base")]
    assert tests == [SETUP.format("requirements-test.txt", "python -m pytest -n auto")]
    [extraction] = re.findall(r"^command=\$\((.+)\)$", SCRIPT, re.MULTILINE)
    found = subprocess.run(["bash", "-c", extraction], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [found.strip()] == tests
    assert "command=${command//.venv/$work/venv}" in SCRIPT and "-r requirements" not in SCRIPT


def test_ci_stops_at_the_first_failure_leaves_no_test_out_and_checks_the_rest() -> None:
    assert SCRIPT.startswith("#!/usr/bin/env bash\n") and (ROOT / ".ci" / "run").stat().st_mode & 0o100
    assert "set -euo pipefail" in SCRIPT and "exec </dev/null" in SCRIPT
    options = tomllib.loads(read("pyproject.toml"))["tool"]["pytest"]["ini_options"]
    assert not [option for option in options["addopts"] if option.startswith(("--ignore", "--deselect", "-k"))]
    assert options["addopts"][-2:] == ["-m", "not thorough"] and "-m pytest -n auto -m thorough" in SCRIPT
    assert "-m pytest -n auto" in COMMANDS[-1]
    for check in ("ruff check", "ruff format --check", "mypy", ".ci/build", "third_party", "plugins list"):
        assert check in SCRIPT


def test_on_a_mac_every_test_is_collected_and_marked() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MPSPROBE_", "PYTEST_"))}
    environment["MPSPROBE_COLLECT_MAC"] = "1"
    ended = subprocess.run(COLLECT, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len([line for line in ended.stdout.splitlines() if "::" in line]) > 10
    assert "deselected" not in ended.stdout


def test_the_workflow_for_macs_installs_the_checkout_with_plain_pip_and_runs_the_suite() -> None:
    workflow = read(".github/workflows/mac.yml")
    assert set(re.findall(r'-e "?([\w./-]+)', workflow)) == {".", *(f"plugins/{plugin.name}" for plugin in PLUGINS)}
    assert "python -m pytest tests/mac -m mac" in workflow
    assert "index-url" not in workflow and "secrets." not in workflow
