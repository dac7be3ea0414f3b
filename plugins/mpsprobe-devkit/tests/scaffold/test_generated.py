"""Two commands lead from nothing to a plugin that is checked and tested, without an install in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe_devkit.testing import run_cli
from tests.thorough import all_but


def test_the_only_thing_that_is_left_to_say_is_the_license(tmp_path: Path) -> None:
    assert run_cli("plugins", "new", "fresh", "--kind", "command", cwd=tmp_path, process=False).code == 0
    [finding] = run_cli("plugins", "check", "fresh", "--format", "json", cwd=tmp_path, process=False).json()["findings"]
    assert (finding["level"], finding["code"]) == ("warning", "missing-metadata")
    assert "license" in finding["message"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", all_but("command".__eq__, ["probe", "scanner", "exporter", "command"]))
def test_what_is_written_passes_its_own_tests_and_the_check(kind: str, tmp_path: Path) -> None:
    written = run_cli(
        "plugins", "new", f"fresh-{kind}", "--kind", kind, "--license", "MIT", cwd=tmp_path, process=False
    )
    assert written.code == 0, written.stderr
    line = next(line for line in written.stdout.splitlines() if line.startswith("  mpsprobe plugins check"))
    checked = run_cli(*line.split()[1:], "--format", "json", cwd=tmp_path, process=False).json()
    assert checked["findings"] == []
    assert checked["contributes"] == {kind: [f"fresh-{kind}"]}
