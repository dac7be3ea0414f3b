"""Every dependency has a reason and an exact version; what is supported is stated in tests/supported.toml alone."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from mpsprobe import __version__
from mpsprobe.errors import EVERYTHING, FOR_USERS, THEY_NEED
from tests.house.tree import PLUGINS, ROOT, project, python_files, read, shown
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
    lines = read("requirements.txt").splitlines()
    assert {"-c constraints.txt", *(f"-e plugins/{plugin.name}" for plugin in PLUGINS)} <= set(lines)


def test_one_extra_has_all_that_users_need_and_no_kit() -> None:
    core = project(ROOT)
    extras = {name: _names(wanted) for name, wanted in core["optional-dependencies"].items()}
    assert EVERYTHING == "mpsprobe[all]"
    assert extras["all"] == FOR_USERS == OURS - KITS - {"mpsprobe"}
    users = [plugin for plugin in PLUGINS if plugin.name in FOR_USERS]
    needed = {one for plugin in users for one in _names(project(plugin)["dependencies"])}
    assert needed - OURS - _names(core["dependencies"]) == THEY_NEED
    for name, wanted in extras.items():
        assert wanted <= OURS and (name == "all" or f"mpsprobe-{name}" in wanted), name


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
        for wanted in map(Requirement, table["dependencies"]):
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
