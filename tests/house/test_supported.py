"""What is supported is stated in tests/supported.toml; everything else that says so agrees with it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.house.tree import PLUGINS, ROOT
from tests.versions.run import SUPPORTED, constraints

PYTHONS: list[str] = SUPPORTED["python"]["versions"]
PACKAGES = ("torch", "transformers")


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _project(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


@pytest.mark.parametrize("folder", [ROOT, *PLUGINS], ids=lambda folder: folder.name)
def test_a_project_asks_for_what_is_supported(folder: Path) -> None:
    project = _project(folder)
    assert project["requires-python"] == f">={PYTHONS[0]}"
    prefix = "Programming Language :: Python :: 3."
    assert [one for one in project["classifiers"] if one.startswith(prefix)] == [
        f"Programming Language :: Python :: {one}" for one in PYTHONS
    ]
    for wanted in map(Requirement, project["dependencies"]):
        if wanted.name in PACKAGES:
            [bound] = wanted.specifier
            assert bound.operator == ">=" and Version(bound.version) == Version(SUPPORTED[wanted.name]["oldest"])


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_pinned_lies_within(package: str) -> None:
    pins = dict(line.split("==") for line in _read("constraints.txt").splitlines() if line[0] != "#")
    assert Version(SUPPORTED[package]["oldest"]) <= Version(pins[package]) <= Version(SUPPORTED[package]["newest"])


def test_the_checks_read_the_oldest_python() -> None:
    oldest = PYTHONS[0]
    assert tomllib.loads(_read("ruff.toml"))["target-version"] == f"py{oldest.replace('.', '')}"
    assert tomllib.loads(_read("pyproject.toml"))["tool"]["mypy"]["python_version"] == oldest
    assert f"With Python {oldest} or newer" in _read("README.md")


def test_the_page_on_hosts_names_the_ends() -> None:
    page = _read("docs/explanation/hosts.md")
    for package in PACKAGES:
        ends = SUPPORTED[package]
        assert f"| {package} | {ends['oldest']} | {ends['newest']} |" in page


@pytest.mark.parametrize("end", ["oldest", "newest"])
def test_both_ends_are_tested_with_their_own_pins(end: str) -> None:
    pins = dict(line.split("==") for line in constraints(end) if "==" in line)
    assert {package: pins[package] for package in PACKAGES} == {one: SUPPORTED[one][end] for one in PACKAGES}
    assert "torchvision" not in pins and "pytest" in pins
    assert all((ROOT / folder).is_dir() for folder in SUPPORTED["tests"]["folders"])
