"""Where a report was made."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import mpsprobe
from mpsprobe.environment import check_version, collect_environment, platform_name
from mpsprobe.errors import MissingPackage, MpsprobeError
from mpsprobe_devkit.testing import install_plugin


def test_versions_of_what_is_installed(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for installed, version, build in (("2.13.0+cpu", "2.13.0", "cpu"), ("2.12.0", "2.12.0", None)):
        (folder := plugin_folder / installed).mkdir()
        install_plugin(folder, "torch", "", version=installed, entry_points="")
        monkeypatch.syspath_prepend(str(folder))
        found = collect_environment()
        assert (found.torch, found.torch_build) == (version, build)
        assert (found.mpsprobe, found.python) == (mpsprobe.__version__, platform.python_version())
    monkeypatch.setattr(sys, "path", [])
    found = collect_environment()
    assert (found.torch, found.torch_build, found.transformers, found.torchvision) == (None, None, None, None)


def test_torch_is_not_imported_for_it() -> None:
    code = (
        "import sys; from mpsprobe.environment import collect_environment as c; c(); assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names and versions of all that is installed; each of them needs the engine."""
    versions: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["engine>=2.6", "engine>=9; extra == 'x'", "oil"])
    return versions


def test_what_is_too_old_is_told_with_what_is_needed(installed: dict[str, str]) -> None:
    with pytest.raises(MissingPackage, match=r"driving needs the package engine>=2\.6"):
        check_version("engine", "car", "driving")
    installed["engine"] = "2.5.1+cpu"
    with pytest.raises(MpsprobeError) as caught:
        check_version("engine", "car", "driving")
    assert caught.value.message == "engine 2.5.1+cpu is too old: car needs engine>=2.6"
    assert caught.value.hint == 'Install it: pip install "engine>=2.6"'


def test_what_is_new_enough(installed: dict[str, str]) -> None:
    for installed["engine"] in ("2.6.0", "2.6.0a0+git1234", "2.7.0.dev20250101", "3", "of-mine"):
        check_version("engine", "car", "driving")


def test_platform_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for system, machine, release, expected in (
        ("Linux", "x86_64", "", "linux-x86_64"),
        ("Darwin", "arm64", "14.5", "macos-14.5-arm64"),
        ("Windows", "AMD64", "", "windows-amd64"),
        ("", "", "", "unknown-unknown"),
    ):
        monkeypatch.setattr(platform, "system", lambda answer=system: answer)
        monkeypatch.setattr(platform, "machine", lambda answer=machine: answer)
        monkeypatch.setattr(platform, "mac_ver", lambda answer=release: (answer, ("", "", ""), ""))
        assert platform_name() == expected
