"""Every dependency has a reason and a version; actions are pinned, rights read-only; CI runs what is promised."""

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
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from mpsprobe import __version__
from mpsprobe.errors import EVERYTHING, FOR_USERS, THEY_NEED
from mpsprobe.plugins.registry import get_registry
from tests.house.tree import PLUGINS, ROOT, files, project, python_files, read, shown
from tests.versions.run import SUPPORTED, constraints

PROJECTS = [ROOT, *PLUGINS]
KITS = {"mpsprobe-devkit", "mpsprobe-tables"}
OURS = {"mpsprobe", *(plugin.name for plugin in PLUGINS)}


def _names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(one).name) for one in requirements}


def _requirements(folder: Path) -> list[str]:
    extras = project(folder).get("optional-dependencies", {}).values()
    return [*project(folder)["dependencies"], *(one for extra in extras for one in extra)]


def _lines(name: str) -> list[str]:
    return [line for line in read(name).splitlines() if line and line[0] not in "#-"]


def _reasons(title: str) -> set[str]:
    """The distributions in the table under a heading of the page."""
    [text] = [part for part in read("docs/explanation/dependencies.md").split("\n## ") if part.startswith(title)]
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", text, flags=re.MULTILINE)
    assert all(len(reason) > 10 for _, reason in rows)
    return {name for name, _ in rows}


def test_each_dependency_has_its_reason() -> None:
    for folder in PROJECTS:
        wanted = _names(_requirements(folder)) - (OURS if folder == ROOT else set())
        assert _reasons(f"`{project(folder)['name']}`") == wanted
    tables = [tomllib.loads(read(f"{shown(folder)}/pyproject.toml"))["build-system"] for folder in PROJECTS]
    backends = {name for table in tables for name in _names(table["requires"])}
    assert _reasons("Building") == _names(_lines("requirements-test.txt")) | backends


def test_everything_is_pinned_exactly_to_a_version_that_is_allowed() -> None:
    pins = [Requirement(line) for line in _lines("constraints.txt")]
    for pin in pins:
        assert re.fullmatch(r"==[^*+]+", str(pin.specifier)), f"{pin} is not one exact public version"
    pinned = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in pins}
    assert len(pinned) == len(pins), "something is pinned twice"
    needed = [one for folder in PROJECTS for one in _requirements(folder)]
    assert _names([*needed, *_lines("requirements-test.txt")]) - OURS <= set(pinned)
    for one in map(Requirement, needed):
        version = pinned.get(canonicalize_name(one.name))
        assert version is None or one.specifier.contains(version), f"{one} does not allow {version}"


def test_a_distribution_has_its_types_readme_licence_and_the_version_of_all() -> None:
    for folder in PROJECTS:
        package = "mpsprobe" if folder == ROOT else "src/" + folder.name.replace("-", "_")
        for name in (f"{package}/py.typed", project(folder)["readme"]):
            assert (folder / name).is_file(), folder
        assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes(), folder
        assert folder == ROOT or project(folder)["version"] == __version__
        needed = [one for one in map(Requirement, project(folder)["dependencies"]) if one.name in OURS]
        assert folder.name not in KITS or {str(one.specifier) for one in needed} == {f"=={__version__}"}


def test_a_checkout_installs_every_plugin() -> None:
    lines = [line.split("[")[0] for line in read("requirements.txt").splitlines()]
    assert {"-c constraints.txt", *(f"-e plugins/{plugin.name}" for plugin in PLUGINS)} <= set(lines)


def test_one_extra_has_all_that_users_need_and_no_kit() -> None:
    core = project(ROOT)
    extras = {name: _names(wanted) for name, wanted in core["optional-dependencies"].items()}
    assert EVERYTHING == "mpsprobe[all]"
    assert extras["all"] == FOR_USERS == OURS - KITS - {"mpsprobe"}
    needed: set[str] = set()
    for wanted in map(Requirement, core["optional-dependencies"]["all"]):
        [plugin] = [plugin for plugin in PLUGINS if plugin.name == wanted.name]
        parts = [project(plugin)["optional-dependencies"][extra] for extra in wanted.extras]
        needed |= _names([*project(plugin)["dependencies"], *(one for part in parts for one in part)])
    assert needed - OURS - _names(core["dependencies"]) == THEY_NEED
    for name, wanted in core["optional-dependencies"].items():
        library = {extra for one in map(Requirement, wanted) for extra in one.extras} == {name}  # of mpsprobe-hf
        assert extras[name] <= OURS and (name == "all" or library or f"mpsprobe-{name}" in extras[name]), name


def test_what_is_missing_is_named_by_one_function() -> None:
    sources = [path for path in python_files() if "tests" not in path.relative_to(ROOT).parts]
    found = [shown(path) for path in sources if re.search(r"pip install ['\"]?mpsprobe", read(shown(path)))]
    assert not found, "errors.install_command says it"


PYTHONS: list[str] = SUPPORTED["python"]["versions"]
PACKAGES = ("torch", "transformers")


def test_a_project_asks_for_what_is_supported_and_the_checks_read_the_oldest_python() -> None:
    for table in map(project, [ROOT, *PLUGINS]):
        assert table["requires-python"] == f">={PYTHONS[0]}"
        named = [one.removeprefix("Programming Language :: Python :: ") for one in table["classifiers"]]
        assert [one for one in named if one.startswith("3.")] == PYTHONS, table["name"]
        extras = [one for extra in table.get("optional-dependencies", {}).values() for one in extra]
        for wanted in map(Requirement, [*table["dependencies"], *extras]):
            if wanted.name in PACKAGES:
                [bound] = wanted.specifier
                assert bound.operator == ">=" and Version(bound.version) == Version(SUPPORTED[wanted.name]["oldest"])
    oldest = PYTHONS[0]
    assert tomllib.loads(read("ruff.toml"))["target-version"] == f"py{oldest.replace('.', '')}"
    assert tomllib.loads(read("pyproject.toml"))["tool"]["mypy"]["python_version"] == oldest
    assert f"With Python {oldest} or newer" in read("README.md")


def test_what_is_pinned_lies_within_what_the_page_on_hosts_names() -> None:
    pins = dict(line.split("==") for line in read("constraints.txt").splitlines() if line[0] != "#")
    for package in PACKAGES:
        oldest, newest = SUPPORTED[package]["oldest"], SUPPORTED[package]["newest"]
        assert Version(oldest) <= Version(pins[package]) <= Version(newest)
        assert f"| {package} | {oldest} | {newest} |" in read("docs/explanation/hosts.md")


@pytest.mark.parametrize("end", ["oldest", "newest"])
def test_both_ends_are_tested_with_their_own_pins(end: str) -> None:
    pins = dict(line.split("==") for line in constraints(end) if "==" in line)
    assert {package: pins[package] for package in PACKAGES} == {one: SUPPORTED[one][end] for one in PACKAGES}
    assert "torchvision" not in pins and "pytest" in pins
    assert all((ROOT / folder).is_dir() for folder in SUPPORTED["tests"]["folders"])


WORKFLOWS = [path for path in files() if ".github/workflows" in shown(path).replace("dot-", ".")]
ACTION = re.compile(r"uses: ([\w.-]+/[\w./-]+)@(.*)")
PIN = re.compile(r"[0-9a-f]{40} # v\d+\.\d+\.\d+")


def _read(path: Path) -> dict[Any, Any]:
    """A workflow; its key "on" is True for YAML."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


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
    [script] = [run for run in _runs(RELEASE["jobs"]["device"]) if "mpsprobe_coverage.devices.compiling" in run]
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
    parsed = get_registry().made("command", name).make_context(name, flags).params
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
