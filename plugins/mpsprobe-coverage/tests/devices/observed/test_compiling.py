"""``observe()`` where nothing can be compiled; and what is loaded from the cache was written by this user alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpsprobe.errors import UsageError
from mpsprobe_coverage.devices.compiling import DEVICE, Library
from mpsprobe_coverage.devices.observed import observe as observe_module
from mpsprobe_coverage.devices.observed.observe import observe


def test_without_a_compiler_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    monkeypatch.setattr(Library, "shipped", tmp_path / "none")
    monkeypatch.setattr(observe_module, "_load", observe_module._load.__wrapped__)  # it may have been loaded before
    monkeypatch.setattr(observe_module._sharing, "_listener", None)
    with pytest.raises(UsageError, match="the observer cannot be built") as refused, observe("cpu"):
        pass
    assert "Install a C++ compiler" in refused.value.hint and not observe_module._sharing._open


def test_what_others_may_write_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled: list[Path] = []
    monkeypatch.setattr(Library, "_compile", lambda _, target: compiled.append(target))
    DEVICE.kept.parent.mkdir(mode=0o700, parents=True)
    DEVICE.kept.write_text("foreign")
    if not hasattr(os, "getuid"):
        return  # Windows has no such bits
    DEVICE.kept.chmod(0o666)
    assert DEVICE.compile() == DEVICE.kept and compiled == [DEVICE.kept], "compiled again, in its place"
    DEVICE.kept.chmod(0o600)
    assert DEVICE.compile() == DEVICE.kept and len(compiled) == 1
    DEVICE.kept.parent.chmod(0o1777)
    with pytest.raises(UsageError, match="others may write to") as refused:
        DEVICE.compile()
    assert "chmod 700" in refused.value.hint
