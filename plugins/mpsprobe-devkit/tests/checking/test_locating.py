"""What a name or path stands for, and projects that are not what they should be."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_projects import TOML, codes, make_project

from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe_devkit.checking import check_plugin, examine
from mpsprobe_devkit.checking.locating import found_subject

pytestmark = pytest.mark.usefixtures("untimed")


def _kind(target: str) -> str:
    with found_subject(target) as subject:
        return subject.kind


def test_a_folder_that_is_a_project_comes_before_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _kind("mpsprobe-exporters") == "installed"
    (tmp_path / "mpsprobe-exporters").mkdir()
    assert _kind("mpsprobe-exporters") == "installed"
    (tmp_path / "mpsprobe-exporters" / "pyproject.toml").write_text(TOML, encoding="utf-8")
    assert _kind("mpsprobe-exporters") == "folder"
    (tmp_path / "pyproject.toml").write_text(TOML, encoding="utf-8")
    assert _kind(".") == "folder"


@pytest.mark.parametrize(
    "target", ["", " ", "\0", "./nowhere", "no/where", "nowhere.py", "nowhere.whl", "a" * 5000 + "/"]
)
def test_nothing_there(target: str) -> None:
    with pytest.raises(UsageError):
        check_plugin(target)


def test_a_folder_without_a_project(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no pyproject\.toml") as caught:
        check_plugin(tmp_path)
    assert "plugins new" in (caught.value.hint or "")
    (tmp_path / "setup.py").touch()
    with pytest.raises(UsageError) as caught:
        check_plugin(tmp_path)
    assert "by its name" in (caught.value.hint or "")


def test_what_is_neither_folder_nor_file_nor_wheel(tmp_path: Path) -> None:
    (tmp_path / "x.txt").touch()
    with pytest.raises(UsageError, match="neither a folder"):
        check_plugin(tmp_path / "x.txt")


def test_a_project_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        check_plugin(tmp_path)
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "pyproject.toml").symlink_to("pyproject.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        check_plugin(tmp_path / "loop")


HOSTILE = {
    "binary": b"\xff\x00\xfe" * 100,
    "empty": b"",
    "large": b"#" * 10_000_000,
    "deep": b"a = " + b"[" * 20_000,
    "no table": b'project = "x"',
    "no name": b'[project]\nversion = "1"\n[project.entry-points.mpsprobe]\nx = "json"\n',
    "name is a number": b"[project]\nname = 3\nversion = 1\n",
    "lists instead of tables": b'[project]\nname = "x"\nversion = "1"\nentry-points = []\ndependencies = {}\n',
    "entry points are a list": b'[project]\nname = "x"\nversion = "1"\n[project.entry-points]\nmpsprobe = ["x"]\n',
    "poetry": b'[tool.poetry]\nname = "x"\n',
    "tools are texts": b'tool = "x"\n[project]\nversion = "1"\n',
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_project_is_a_finding(tmp_path: Path, case: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(HOSTILE[case])
    findings = check_plugin(tmp_path)
    assert "bad-pyproject" in codes(findings)
    assert all(one.message.isprintable() and len(one.message) <= 1000 for one in findings)


def test_names_that_would_draw_on_the_terminal(tmp_path: Path) -> None:
    project = make_project(tmp_path, "raise ValueError('\\x1b[31mred\\n' + 'x' * 5000)\n")
    examined = examine(project)
    assert examined.findings[0].message.isprintable()
    name = '[project]\nname = "\\u001b[31mred\\n<script>"\nversion = "1"\n'
    points = '[project.entry-points.mpsprobe]\n"a b\\u001b" = "../../etc/passwd"\n'
    (project / "pyproject.toml").write_text(name + points, encoding="utf-8")
    findings = check_plugin(project)
    assert "bad-entry-point" in codes(findings)
    assert all(one.message.isprintable() and one.where.isprintable() for one in findings)


def test_an_entry_point_group_that_is_misspelt(tmp_path: Path) -> None:
    project = make_project(tmp_path, changes={"entry-points.mpsprobe": "entry-points.mps-probe"})
    [found] = check_plugin(project)
    assert found.code == "no-entry-point"
    assert "There is a group 'mps-probe'" in (found.hint or "")


def test_an_error_of_the_check_is_one_of_mpsprobe() -> None:
    with pytest.raises(MpsprobeError) as caught:
        check_plugin("no-such-plugin-0b7e")
    assert caught.value.hint
