"""What the README promises is what CI runs."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from tests.house.tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
SETUP = "python3 -m venv .venv && .venv/bin/pip install -q -r {} && .venv/bin/{}"


def test_the_readme_has_the_two_commands() -> None:
    shows = [line for line in COMMANDS if line.endswith("mpsprobe coverage bert-base")]
    tests = [line for line in COMMANDS if "pytest" in line]
    assert shows == [SETUP.format("requirements.txt", "mpsprobe coverage bert-base")]
    assert tests == [SETUP.format("requirements-test.txt", "python -m pytest -n auto")]


def test_ci_takes_its_command_from_the_readme() -> None:
    [extraction] = re.findall(r"^command=\$\((.+)\)$", CI, re.MULTILINE)
    found = subprocess.run(["bash", "-c", extraction], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert found.strip() == SETUP.format("requirements-test.txt", "python -m pytest -n auto")
    assert "command=${command//.venv/$work/venv}" in CI
    assert "-r requirements" not in CI


def test_ci_stops_at_the_first_failure_and_reads_no_input() -> None:
    assert CI.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in CI
    assert "exec </dev/null" in CI
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_ci_leaves_no_test_out() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert not [option for option in options["addopts"] if option.startswith(("--ignore", "--deselect", "-k"))]
    assert options["addopts"][-2:] == ["-m", "not thorough"] and "-m pytest -n auto -m thorough" in CI
    assert "-m pytest -n auto" in COMMANDS[-1]


@pytest.mark.parametrize(
    "check", ["ruff check", "ruff format --check", "mypy", ".ci/build", "third_party", "plugins list"]
)
def test_ci_checks(check: str) -> None:
    assert check in CI
