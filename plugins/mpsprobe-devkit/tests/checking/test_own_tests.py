"""``--tests``: the folder's own tests run as though the plugin were installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_projects import codes, make_project

from mpsprobe.errors import UsageError
from mpsprobe_devkit.checking import check_plugin, examine

pytestmark = pytest.mark.usefixtures("untimed")

INSTALLED = """
from mpsprobe.plugins.discovery import find_plugins
from mpsprobe_devkit.testing import run_cli

def test_it_is_found_here() -> None:
    assert "under-test" in {one.distribution for one in find_plugins()}

def test_it_is_found_by_the_command() -> None:
    result = run_cli("hello-under-test")
    assert result.stdout == "hello\\n", result.stderr
"""
FAILING = "def test_a() -> None:\n    assert 1 == 2, 'not so'\n\ndef test_b() -> None: ...\n"


def _project(folder: Path, tests: str | None) -> Path:
    project = make_project(folder)
    if tests is not None:
        (project / "tests").mkdir()
        (project / "tests" / "test_it.py").write_text(tests, encoding="utf-8")
    return project


def test_the_plugin_is_as_though_it_were_installed(tmp_path: Path) -> None:
    project = _project(tmp_path, INSTALLED)
    examined = examine(project, run_tests=True)
    assert examined.findings == []
    assert (examined.tests or "").startswith("2 passed in ")
    assert not list(project.rglob("__pycache__"))
    assert not (project / ".pytest_cache").exists()


def test_a_test_that_fails(tmp_path: Path) -> None:
    [found] = check_plugin(_project(tmp_path, FAILING), run_tests=True)
    assert found.code == "tests-failed"
    assert found.message.startswith("tests/test_it.py::test_a")
    assert "not so" in found.message


def test_tests_that_cannot_be_collected(tmp_path: Path) -> None:
    assert codes(check_plugin(_project(tmp_path, "import no_such_0b7e\n"), run_tests=True)) == ["tests-failed"]


def test_no_tests(tmp_path: Path) -> None:
    assert codes(check_plugin(_project(tmp_path, None), run_tests=True)) == ["no-tests"]


def test_what_is_no_folder_has_no_tests() -> None:
    with pytest.raises(UsageError, match="no tests to run"):
        check_plugin("mpsprobe-exporters", run_tests=True)
