"""What is loaded from the cache folder was written by this user alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpsprobe.errors import UsageError
from mpsprobe_programs.compiling import DEVICE, Library


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
