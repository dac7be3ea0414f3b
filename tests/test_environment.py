"""Where a report was made."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

import mpsprobe
from mpsprobe.environment import collect_environment, platform_name
from mpsprobe_devkit.testing import install_plugin


@pytest.mark.parametrize(("installed", "torch", "build"), [("2.13.0+cpu", "2.13.0", "cpu"), ("2.13.0", "2.13.0", None)])
def test_versions_of_what_is_installed(plugin_folder: Path, installed: str, torch: str, build: str | None) -> None:
    install_plugin(plugin_folder, "torch", "", version=installed, entry_points="")
    found = collect_environment()
    assert (found.torch, found.torch_build) == (torch, build)
    assert found.mpsprobe == mpsprobe.__version__
    assert found.python == platform.python_version()


def test_what_is_not_installed_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    found = collect_environment()
    assert (found.torch, found.torch_build, found.transformers, found.torchvision) == (None, None, None, None)


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
