"""Where a report was made."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

import mpsprobe
from mpsprobe.environment import collect_environment, platform_name


def test_versions_of_what_is_installed() -> None:
    found = collect_environment()
    assert found.mpsprobe == mpsprobe.__version__
    assert found.python == platform.python_version()
    assert found.torch is not None
    assert "+" not in found.torch


def test_torch_is_not_imported_for_it() -> None:
    code = (
        "import sys; from mpsprobe.environment import collect_environment as c; c(); assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("system", "machine", "release", "expected"),
    [
        ("Linux", "x86_64", "", "linux-x86_64"),
        ("Darwin", "arm64", "14.5", "macos-14.5-arm64"),
        ("Windows", "AMD64", "", "windows-amd64"),
        ("", "", "", "unknown-unknown"),
    ],
)
def test_platform_names(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, release: str, expected: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "mac_ver", lambda: (release, ("", "", ""), ""))
    assert platform_name() == expected
