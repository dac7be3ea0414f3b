"""Every dependency has a reason that is written down, and an exact version that was tested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mpsprobe import __version__
from mpsprobe.errors import EVERYTHING, FOR_USERS, THEY_NEED
from tests.house.tree import PLUGINS, ROOT, python_files, shown

PROJECTS = [ROOT, *PLUGINS]
KITS = {"mpsprobe-devkit", "mpsprobe-tables"}
OURS = {"mpsprobe", *(plugin.name for plugin in PLUGINS)}
PAGE = (ROOT / "docs" / "explanation" / "dependencies.md").read_text(encoding="utf-8")


def _project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def _names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(one).name) for one in requirements}


def _runtime(folder: Path) -> set[str]:
    project = _project(folder)["project"]
    extras = [one for extra in project.get("optional-dependencies", {}).values() for one in extra]
    return _names(project["dependencies"]) | _names(extras)


def _for_tests() -> set[str]:
    lines = (ROOT / "requirements-test.txt").read_text(encoding="utf-8").splitlines()
    return _names([line for line in lines if line and line[0] not in "#-"])


def _section(title: str) -> set[str]:
    """The distributions in the table under a heading of the page."""
    [text] = [part for part in PAGE.split("\n## ") if part.startswith(title)]
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", text, flags=re.MULTILINE)
    assert all(len(reason) > 10 for _, reason in rows)
    return {name for name, _ in rows}


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_each_dependency_has_its_reason(folder: Path) -> None:
    name = _project(folder)["project"]["name"]
    wanted = _runtime(folder) - (OURS if folder == ROOT else set())
    assert _section(f"`{name}`") == wanted


def test_what_builds_and_tests_has_its_reason() -> None:
    backends = {name for folder in PROJECTS for name in _names(_project(folder)["build-system"]["requires"])}
    assert _section("Building") == _for_tests() | backends


def test_everything_is_pinned_exactly() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    for pin in pins:
        assert re.fullmatch(r"==[^*+]+", str(pin.specifier)), f"{pin} is not one exact public version"
    pinned = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in pins}
    assert len(pinned) == len(pins), "something is pinned twice"
    needed = {name for folder in PROJECTS for name in _runtime(folder)} | _for_tests()
    assert needed - OURS <= set(pinned)


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_the_tested_versions_are_allowed(folder: Path) -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    project = _project(folder)["project"]
    extras = [one for extra in project.get("optional-dependencies", {}).values() for one in extra]
    for one in map(Requirement, [*project["dependencies"], *extras]):
        version = pinned.get(canonicalize_name(one.name))
        assert version is None or one.specifier.contains(version), f"{one} does not allow {version}"


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_a_project_promises_its_types(folder: Path) -> None:
    project = _project(folder)["project"]
    package = "mpsprobe" if folder == ROOT else "src/" + folder.name.replace("-", "_")
    assert (folder / package / "py.typed").is_file()
    assert (folder / project["readme"]).is_file()
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_a_checkout_installs_every_plugin(plugin: Path) -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert f"-e plugins/{plugin.name}" in lines
    assert "-c constraints.txt" in lines


def test_one_extra_has_all_that_users_need_and_no_kit() -> None:
    core = _project(ROOT)["project"]
    extras = {name: _names(wanted) for name, wanted in core["optional-dependencies"].items()}
    assert EVERYTHING == "mpsprobe[all]"
    assert extras["all"] == FOR_USERS == OURS - KITS - {"mpsprobe"}
    needed = {
        one
        for plugin in PLUGINS
        if plugin.name in FOR_USERS
        for one in _names(_project(plugin)["project"]["dependencies"])
    }
    assert needed - OURS - _names(core["dependencies"]) == THEY_NEED
    for name, wanted in extras.items():
        assert wanted <= OURS and (name == "all" or f"mpsprobe-{name}" in wanted), name


def test_what_is_missing_is_named_by_one_function() -> None:
    sources = [path for path in python_files() if "tests" not in path.relative_to(ROOT).parts]
    found = [
        shown(path) for path in sources if re.search(r"pip install ['\"]?mpsprobe", path.read_text(encoding="utf-8"))
    ]
    assert not found, "errors.install_command says it"


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_all_distributions_have_one_version(folder: Path) -> None:
    project = _project(folder)["project"]
    if folder != ROOT:
        assert project["version"] == __version__
    pins = [one for one in map(Requirement, project["dependencies"]) if one.name in OURS and folder.name in KITS]
    assert [str(one.specifier) for one in pins] == [f"=={__version__}"] * len(pins)
