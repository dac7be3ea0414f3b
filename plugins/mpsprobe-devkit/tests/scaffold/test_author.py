"""The author of a new plugin, from git's configuration."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mpsprobe_devkit.scaffold.author import author_from_git
from mpsprobe_devkit.scaffold.rendering import Author


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration of git's that holds nothing, instead of whatever this machine has."""
    path = tmp_path / "gitconfig"
    path.write_text("", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.chdir(tmp_path)
    return path


def _set(path: Path, key: str, value: str) -> None:
    subprocess.run(["git", "config", "--file", str(path), key, value], check=True)


def test_name_and_address_are_those_of_git(configure: Path) -> None:
    _set(configure, "user.name", "Ada Lovelace")
    _set(configure, "user.email", "ada@engine.example")
    assert author_from_git() == Author("Ada Lovelace", "ada@engine.example")


def test_what_git_does_not_know_is_empty(configure: Path) -> None:
    assert configure.is_file()
    assert author_from_git() == Author()


def test_an_address_that_no_build_takes_is_left_out(configure: Path) -> None:
    _set(configure, "user.name", 'A "quoted" name\nand\x1b[31m more')
    _set(configure, "user.email", "not an address <x@y>")
    assert author_from_git() == Author('A "quoted" nameand[31m more')


def test_without_git_there_is_no_author(configure: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _set(configure, "user.name", "Ada Lovelace")
    monkeypatch.setenv("PATH", str(configure.parent))
    assert author_from_git() == Author()


def test_a_damaged_configuration_is_no_reason_to_fail(configure: Path) -> None:
    configure.write_bytes(b"[user\n\xff\x00")
    assert author_from_git() == Author()
