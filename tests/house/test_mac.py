"""The suite for Macs could run: it is collected there unchanged, and its workflow installs what it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.house.tree import PLUGINS, ROOT

WORKFLOW = (ROOT / ".github" / "workflows" / "mac.yml").read_text(encoding="utf-8")
COLLECT = [sys.executable, "-m", "pytest", "tests/mac", "-m", "mac", "--collect-only", "-q", "-p", "no:cacheprovider"]


def test_on_a_mac_every_test_is_collected_and_marked() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MPSPROBE_", "PYTEST_"))}
    ended = subprocess.run(
        COLLECT,
        cwd=ROOT,
        env=environment | {"MPSPROBE_COLLECT_MAC": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len([line for line in ended.stdout.splitlines() if "::" in line]) > 10
    assert "deselected" not in ended.stdout


def test_the_workflow_installs_the_checkout_with_plain_pip_and_runs_the_suite() -> None:
    installed = set(re.findall(r'-e "?([\w./-]+)', WORKFLOW))
    assert installed == {".", *(f"plugins/{plugin.name}" for plugin in PLUGINS)}
    assert "python -m pytest tests/mac -m mac" in WORKFLOW
    assert "index-url" not in WORKFLOW and "secrets." not in WORKFLOW
