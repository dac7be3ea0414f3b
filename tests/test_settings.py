"""Settings from pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.errors import UsageError
from mpsprobe.settings import nearest_pyproject, read_settings


def _write(folder: Path, text: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def test_flags_are_named_as_click_names_parameters(tmp_path: Path) -> None:
    _write(tmp_path, '[tool.mpsprobe]\nstrict-plugins = true\n[tool.mpsprobe.my-command]\nbatch-size = 2\nphase = "x"')
    assert read_settings(tmp_path) == {"strict_plugins": True, "my-command": {"batch_size": 2, "phase": "x"}}


def test_the_nearest_file_counts_even_without_our_table(tmp_path: Path) -> None:
    _write(tmp_path, "[tool.mpsprobe]\ndebug = true")
    inner = _write(tmp_path / "inner", "[project]\nname = 'x'")
    deep = inner / "a" / "b"
    deep.mkdir(parents=True)
    assert nearest_pyproject(deep) == str(inner / "pyproject.toml")
    assert read_settings(deep) == {}
    assert read_settings(tmp_path) == {"debug": True}


def test_a_folder_of_that_name_is_passed_over(tmp_path: Path) -> None:
    _write(tmp_path, "[tool.mpsprobe]\ndebug = true")
    (tmp_path / "inner" / "pyproject.toml").mkdir(parents=True)
    assert read_settings(tmp_path / "inner") == {"debug": True}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[tool.mpsprobe\n", "is not valid TOML"),
        (b"# mpsprobe \xff", "is not valid TOML"),
        ("[tool]\nmpsprobe = 3", "is not a table"),
        ("[tool.mpsprobe]\nday = 2026-01-01", "tool.mpsprobe.day should be text"),
        ("[tool.mpsprobe.coverage]\nphase = [[1]]", "tool.mpsprobe.coverage.phase should be text"),
        ("mpsprobe = " + "[" * 5000, "is not valid TOML"),
    ],
)
def test_a_hostile_file_is_a_clear_error(tmp_path: Path, text: str | bytes, problem: str) -> None:
    _write(tmp_path, text)
    with pytest.raises(UsageError, match=problem):
        read_settings(tmp_path)


@pytest.mark.parametrize("text", ["", "tool = 3 # mpsprobe", "[tool.other]\nx = 'mpsprobe'", "not TOML, not ours"])
def test_a_file_without_our_table_is_no_concern(tmp_path: Path, text: str) -> None:
    _write(tmp_path, text)
    assert read_settings(tmp_path) == {}


@given(st.binary(max_size=60))
def test_any_bytes_give_settings_or_a_usage_error(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    folder = _write(tmp_path_factory.mktemp("noise"), b"[tool.mpsprobe]\n" + noise)
    try:
        assert isinstance(read_settings(folder), dict)
    except UsageError as error:
        assert error.message.isprintable()
