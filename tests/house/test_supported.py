"""What is supported is stated in tests/supported.toml; everything else that says so agrees with it."""

from __future__ import annotations

import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.house.tree import PLUGINS, ROOT, project, read
from tests.versions.run import SUPPORTED, constraints

PYTHONS: list[str] = SUPPORTED["python"]["versions"]
PACKAGES = ("torch", "transformers")


def test_a_project_asks_for_what_is_supported() -> None:
    for table in map(project, [ROOT, *PLUGINS]):
        assert table["requires-python"] == f">={PYTHONS[0]}"
        named = [one.removeprefix("Programming Language :: Python :: ") for one in table["classifiers"]]
        assert [one for one in named if one.startswith("3.")] == PYTHONS, table["name"]
        for wanted in map(Requirement, table["dependencies"]):
            if wanted.name in PACKAGES:
                [bound] = wanted.specifier
                assert bound.operator == ">=" and Version(bound.version) == Version(SUPPORTED[wanted.name]["oldest"])


def test_what_is_pinned_lies_within_what_the_page_on_hosts_names() -> None:
    pins = dict(line.split("==") for line in read("constraints.txt").splitlines() if line[0] != "#")
    for package in PACKAGES:
        oldest, newest = SUPPORTED[package]["oldest"], SUPPORTED[package]["newest"]
        assert Version(oldest) <= Version(pins[package]) <= Version(newest)
        assert f"| {package} | {oldest} | {newest} |" in read("docs/explanation/hosts.md")


def test_the_checks_read_the_oldest_python() -> None:
    oldest = PYTHONS[0]
    assert tomllib.loads(read("ruff.toml"))["target-version"] == f"py{oldest.replace('.', '')}"
    assert tomllib.loads(read("pyproject.toml"))["tool"]["mypy"]["python_version"] == oldest
    assert f"With Python {oldest} or newer" in read("README.md")


@pytest.mark.parametrize("end", ["oldest", "newest"])
def test_both_ends_are_tested_with_their_own_pins(end: str) -> None:
    pins = dict(line.split("==") for line in constraints(end) if "==" in line)
    assert {package: pins[package] for package in PACKAGES} == {one: SUPPORTED[one][end] for one in PACKAGES}
    assert "torchvision" not in pins and "pytest" in pins
    assert all((ROOT / folder).is_dir() for folder in SUPPORTED["tests"]["folders"])
