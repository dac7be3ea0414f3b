"""What the README promises is what CI runs, and what only a Mac can show could run there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

from tests.house.tree import PLUGINS, ROOT, read

BLOCKS = re.findall(r"^```sh\n(.*?)^```$", read("README.md"), re.MULTILINE | re.DOTALL)
COMMANDS = "".join(BLOCKS).splitlines()
CI = read(".ci/run")
COLLECT = [sys.executable, "-m", "pytest", "tests/mac", "-m", "mac", "--collect-only", "-q", "-p", "no:cacheprovider"]
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


def test_ci_leaves_no_test_out_and_checks_the_rest() -> None:
    options = tomllib.loads(read("pyproject.toml"))["tool"]["pytest"]["ini_options"]
    assert not [option for option in options["addopts"] if option.startswith(("--ignore", "--deselect", "-k"))]
    assert options["addopts"][-2:] == ["-m", "not thorough"] and "-m pytest -n auto -m thorough" in CI
    assert "-m pytest -n auto" in COMMANDS[-1]
    for check in ("ruff check", "ruff format --check", "mypy", ".ci/build", "third_party", "plugins list"):
        assert check in CI


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
